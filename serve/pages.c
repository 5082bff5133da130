/* Handing out pages. */
#include "serve/pages.h"

#include <string.h>

static const char *const headers[] = {
    "Content-Security-Policy",
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src "
    "'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options",
    "nosniff",
    "Referrer-Policy",
    "no-referrer",
    NULL,
};

const struct page *page_find(const char *name)
{
    for (const struct page *p = pages; p->name; p++)
        if (strcmp(p->name, name) == 0) return p;
    return NULL;
}

void page_answer(struct http_request *r, const char *name)
{
    const struct page *p = page_find(name);
    if (!p) {
        http_fail(r, 404, "there is no page '%.60s'", name);
        return;
    }
    r->answer.type = p->type;
    r->answer.cache = "no-cache";
    r->answer.headers = headers;
    r->answer.still = (const char *)p->bytes;
    r->answer.still_bytes = p->n;
}

void page_file(struct http_request *r)
{
    page_answer(r, r->rest);
}

/* POST /maui/MODEL: what the 'http' backend of Annif, the subject indexer of libraries, asks and
 * expects, as the MAUI server once answered it: a form with 'text' (and 'limit'), and
 * {"topics":[{"uri":..., "label":..., "probability":...}]}.  The uri of a label is its name, so a model
 * for Annif is trained with the URIs of its subjects as labels. */
#include "serve/service.h"

#include <stdlib.h>
#include <string.h>

static void begin(struct text *t, const struct job *j)
{
    (void)j;
    text_put(t, "{\"topics\":[");
}

static void row(struct text *t, const struct job *j, size_t i, const struct best *b)
{
    (void)i;
    for (size_t k = 0; k < b->n; k++) {
        char id[16];
        size_t bytes = (size_t)snprintf(id, sizeof id, "%d", b->labels[k]);
        const char *name = wisp_model_label_name(j->s->m, b->labels[k], &bytes);
        if (!name) name = id;
        text_put(t, k ? ",{\"uri\":" : "{\"uri\":");
        text_json(t, name, bytes);
        text_put(t, ",\"label\":");
        text_json(t, name, bytes);
        text_put(t, ",\"probability\":");
        text_real(t, b->scores[k]);
        text_add(t, "}", 1);
    }
}

static void end(struct text *t, const struct job *j)
{
    (void)j;
    text_put(t, "]}\n");
}

static const struct form form = { begin, row, end, NULL };

static int hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The value of 'key' in a form (application/x-www-form-urlencoded), decoded and appended; false: it is
 * not there, or is no UTF-8. */
static bool form_value(struct text *to, const char *body, size_t n, const char *key)
{
    const char *end = body + n, *p = body;
    const size_t bytes = strlen(key), from = to->n;
    while (p < end &&
           !((size_t)(end - p) > bytes && memcmp(p, key, bytes) == 0 && p[bytes] == '=')) {
        p = memchr(p, '&', (size_t)(end - p));
        if (!p) return false;
        p++;
    }
    if (p >= end) return false;
    for (p += bytes + 1; p < end && *p != '&'; p++) {
        char c = *p == '+' ? ' ' : *p;
        if (*p == '%' && end - p > 2 && hex(p[1]) >= 0 && hex(p[2]) >= 0) {
            c = (char)(hex(p[1]) << 4 | hex(p[2]));
            p += 2;
        }
        text_add(to, &c, 1);
    }
    for (size_t i = from, one; i < to->n; i += one)
        if (!(one = utf8_character(to->at + i, to->n - i))) return false;
    return !to->failed;
}

void route_maui(struct http_request *r)
{
    struct service *s = r->arg;
    struct job *j = job_make(r, &form, sizeof *j);
    struct text limit = { 0 };
    if (!j) return;
    j->q.kind = ROWS_TEXT;
    text_put(&j->q.model, r->rest);
    if (form_value(&limit, r->body, r->bytes, "limit")) {
        text_add(&limit, "", 1);
        const long k = strtol(limit.at, NULL, 10);
        j->q.how.k = k < 1 ? 1 : k > WISP_MOST_K ? WISP_MOST_K : (size_t)k;
    }
    text_clear(&limit);
    if (form_value(&j->q.text, r->body, r->bytes, "text") && request_end_row(&j->q)) {
        predict_job(s, j);
        return;
    }
    http_fail(r, 400, "no 'text' in UTF-8; expected a form, text=...&limit=10");
    job_free(j);
}

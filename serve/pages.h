/* The pages, files of serve/pages/ that the Makefile makes a part of the command, and who hands them
 * out.  They need nothing from elsewhere, and a strict Content-Security-Policy says so: no script and
 * no style but these files, nothing inline. */
#ifndef WISP_SERVE_PAGES_H
#define WISP_SERVE_PAGES_H

#include "serve/http.h"

struct page {
    const char *name, *type;
    const unsigned char *bytes; /* (n) */
    size_t n;
};
/* Made by the Makefile; the last one has no name. */
extern const struct page pages[];

/* NULL: there is none of this name. */
const struct page *page_find(const char *name);
/* Answers with a page; 404 where there is none. */
void page_answer(struct http_request *r, const char *name);
/* A handler for "/pages/<star>": the file whose name stands for the star. */
void page_file(struct http_request *r);

#endif

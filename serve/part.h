/* Between http.c, which is in the command, and wisp-http.so (http_mhd.c): the part takes
 * connections, reads requests and writes answers; http.c says what they are. */
#ifndef WISP_SERVE_PART_H
#define WISP_SERVE_PART_H

#include "serve/http.h"

#include <stdarg.h>

enum { HTTP_PART_VERSION = 3 };

struct http_listen {
    struct http_options o; /* nothing is 0 or NULL here that has a value by default */
    void *server;
    /* The headers of a request are there.  False: the answer is, too, and the body is not read. */
    bool (*begin)(struct http_request *r);
    /* So is its body: the answer is made, or http_later was called. */
    void (*run)(struct http_request *r);
    /* The answer was sent, or the connection is gone ('sent' false). */
    void (*end)(struct http_request *r, bool sent);
};

struct http_daemon;
struct http_part { /* what wisp-http.so offers, through wisp_http_table() */
    int version;   /* HTTP_PART_VERSION */
    wisp_status (*start)(struct http_daemon **out, const struct http_listen *how, wisp_error *err);
    int (*port)(const struct http_daemon *d);
    size_t (*connections)(const struct http_daemon *d);
    size_t (*refused)(const struct http_daemon *d);
    size_t (*late)(const struct http_daemon *d);
    /* Takes no more connections, but those that the system has taken already; from now on answers end
     * their connection. */
    void (*close)(struct http_daemon *d);
    size_t (*busy)(const struct http_daemon *d);    /* requests that came and are not answered */
    size_t (*waiting)(const struct http_daemon *d); /* of these, for http_done */
    void (*stop)(struct http_daemon *d);            /* none may be waiting */
    const char *(*header)(const struct http_request *r, const char *name);
    const char *(*query)(const struct http_request *r, const char *name);
    const char *(*argument)(const struct http_request *r); /* the first of its query; NULL: none */
    void (*later)(struct http_request *r);
    void (*done)(struct http_request *r);
};

static inline wisp_status http_refuse(wisp_error *err, wisp_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static inline wisp_status http_refuse(wisp_error *err, wisp_status code, const char *fmt, ...)
{
    if (!err) return code;
    va_list ap;
    va_start(ap, fmt);
    *err = (wisp_error){ .code = code };
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    return code;
}

#endif

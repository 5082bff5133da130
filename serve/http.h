/* HTTP for those who answer requests: a table of routes, a request, an answer.
 *
 * Who speaks HTTP is a part of its own, wisp-http.so (http_mhd.c, libmicrohttpd), opened when a
 * server starts.  Nothing here knows about models: 'wisp serve' and pages bring their own routes.
 *
 *   static void hello(struct http_request *r)
 *   {
 *       text_put(&r->answer.body, "{\"hello\":1}");      200 and application/json unless told
 *   }
 *   static const struct http_route routes[] = { { "GET", "/hello", hello, NULL, 0 } };
 *   http_start(&server, &options, routes, 1, &err);
 *
 * A handler runs in one of the threads of the server and must not wait: what takes longer calls
 * http_later, hands the request to another thread and returns; that thread calls http_done. */
#ifndef WISP_SERVE_HTTP_H
#define WISP_SERVE_HTTP_H

#include "serve/text.h"
#include "wisp/wisp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct http_route;
struct http_server;

struct http_answer {
    int status;                 /* 200 unless told */
    const char *type;           /* application/json unless told */
    const char *cache;          /* Cache-Control; NULL: no-store */
    int retry_after;            /* seconds; 0: no such header */
    const char *allow;          /* methods, with 405; NULL: no such header */
    const char *const *headers; /* further ones: name, value, name, value, NULL; NULL: none */
    const char *still;          /* a body that outlives the server, instead of 'body'; NULL: none */
    size_t still_bytes;
    struct text body; /* given to the connection, which frees it */
};

struct http_request {
    const char *method, *path; /* the path is decoded and has no query */
    const char *rest;          /* of a route "/models/<star>": what stands for the star, else "" */
    const char *body;          /* 'bytes' long, and ended by a zero */
    size_t bytes;
    const struct http_route *route; /* NULL: there was none */
    void *arg;                      /* of the route */
    struct http_server *server;
    struct http_answer answer;
    int64_t begun_us; /* when its headers were there (http_now_us) */
    size_t rows;      /* told by the handler, for the log; 0: none */
    bool too_big;     /* the body was longer than it may be, and is not here */
    void *connection; /* of the part below */
};

enum {
    HTTP_OPEN = 1,       /* needs no token */
    HTTP_ERROR_TEXT = 2, /* errors are {"error":"..."}, as the Open Inference protocol has them */
    HTTP_NO_QUERY = 4 /* all is said in the body: "?k=5" would count for nothing, and is refused */
};

struct http_route {
    const char *method; /* "GET" answers HEAD, too */
    const char *path;   /* "/predict", or with a star at its end, which stands for anything */
    void (*run)(struct http_request *r);
    void *arg;
    unsigned flags; /* HTTP_... */
};

struct http_options {
    const char *address; /* to listen on, "127.0.0.1" unless told; a name or number */
    int port;            /* 0: any that is free (http_port) */
    int threads;         /* 0: one for each core */
    size_t most_body;    /* bytes; 0: 64 MiB */
    size_t connections;  /* at a time; 0: 4096, or what the limit of open files leaves */
    double header_s;     /* for a request to arrive; 0: 10.  A large body has 1 s more per 32 kB */
    double idle_s;       /* between two requests of a connection; 0: 60 */
    const char *token;   /* that requests must bring as 'Authorization: Bearer'; NULL: none */
    const char *tls_cert, *tls_key; /* PEM text; NULL: no TLS */
    FILE *log;                      /* a line of JSON for each request; NULL: none */
    /* Told about every request once it is answered, by the thread that did; NULL: nobody. */
    void (*seen)(void *arg, const struct http_request *r, double seconds);
    /* Called a few times a second by one thread; NULL: nobody. */
    void (*tick)(void *arg);
    /* The time to drain is over: http_done must soon be called for all that wait.  NULL: nobody calls
     * http_later. */
    void (*give_up)(void *arg);
    void *arg;
};

/* Is wisp-http.so there?  For those who have much to do before they can start. */
wisp_status http_check(wisp_error *err);
/* Listens and answers from now on; 'routes' must live as long as the server.  WISP_ENOTSUP: there is
 * no wisp-http.so, and the text names the package.  WISP_EIO: the address cannot be had. */
wisp_status http_start(struct http_server **out, const struct http_options *o,
                       const struct http_route *routes, size_t n, wisp_error *err);
int http_port(const struct http_server *s);
/* Connections that are open. */
size_t http_connections(const struct http_server *s);
/* Requests that connections were refused for: there were too many. */
size_t http_refused(const struct http_server *s);
/* Requests that took too long to arrive. */
size_t http_late(const struct http_server *s);
/* Takes no more connections, answers what has been asked (for drain_s seconds at most), and ends.
 * Returns the number of requests that were left without an answer.  NULL is fine. */
size_t http_stop(struct http_server *s, double drain_s);
/* Is it about to end? */
bool http_draining(const struct http_server *s);

/* A header of the request, or an argument of its query ("?k=5"); NULL: not there. */
const char *http_header(const struct http_request *r, const char *name);
const char *http_query(const struct http_request *r, const char *name);
/* The answer will come from another thread, by http_done.  To be called by the handler before it
 * hands the request on. */
void http_later(struct http_request *r);
void http_done(struct http_request *r);

/* Makes the answer an error, {"error":{"status":400,"message":"..."}}. */
void http_fail(struct http_request *r, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same of an error of the library: 400 where the request is to blame, else 500 and above. */
void http_fail_as(struct http_request *r, const wisp_error *err);
int http_status_of(wisp_status st);

int64_t http_now_us(void); /* of a clock that only goes on */

#endif

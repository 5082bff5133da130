/* wisp-http.so: HTTP by libmicrohttpd, the only file that knows it.
 *
 *   acceptor (1 thread)   takes connections, gives each to the loop with the fewest, refuses those
 *                         beyond the limit with 503, sweeps late ones, calls 'tick'
 *   loops (N threads)     a daemon of libmicrohttpd each, with epoll: read requests, call the
 *                         handlers, write answers
 *
 * Its own pool of threads is not used: there whoever is awake takes new connections, so that threads
 * have unequal shares, and what becomes of those beyond the limit is not ours to say. */
#include "serve/conns.h"
#include "serve/listen.h"

#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_LOOPS = 256, TICK_MS = 200 };

struct loop {
    struct http_daemon *of;
    struct MHD_Daemon *mhd;
    atomic_size_t n; /* connections */
};

struct http_daemon {
    struct http_listen how;
    struct conn_list conns;
    int fd, port, wake; /* the socket, and an event that ends the acceptor */
    atomic_bool closing;
    atomic_size_t refused;
    atomic_size_t waiting; /* requests that http_later was called for, and not yet http_done */
    pthread_t acceptor;
    size_t n_loops;
    struct loop loops[MOST_LOOPS];
};

/* ---- answers ---- */

static enum MHD_Result send_answer(struct conn *c, struct MHD_Connection *to)
{
    const struct http_daemon *d = ((struct loop *)c->of)->of;
    struct http_answer *a = &c->r.answer;
    struct MHD_Response *m;
    char seconds[16];
    c->got = a->still ? a->still_bytes : a->body.n;
    conn_move(c, CONN_SENDING);
    if (a->still)
        m = MHD_create_response_from_buffer(a->still_bytes, (void *)a->still,
                                            MHD_RESPMEM_PERSISTENT);
    else
        m = MHD_create_response_from_buffer(a->body.n, a->body.at ? a->body.at : "",
                                            a->body.at ? MHD_RESPMEM_MUST_FREE
                                                       : MHD_RESPMEM_PERSISTENT);
    if (!m) return MHD_NO;
    if (!a->still) a->body = (struct text){ 0 }; /* it is the response's now */
    MHD_add_response_header(m, "Content-Type", a->type);
    MHD_add_response_header(m, "Cache-Control", a->cache ? a->cache : "no-store");
    if (a->retry_after) {
        snprintf(seconds, sizeof seconds, "%d", a->retry_after);
        MHD_add_response_header(m, "Retry-After", seconds);
    }
    if (a->status == 401) MHD_add_response_header(m, "WWW-Authenticate", "Bearer");
    if (a->allow) MHD_add_response_header(m, "Allow", a->allow);
    for (const char *const *h = a->headers; h && *h; h += 2) MHD_add_response_header(m, h[0], h[1]);
    if (d->closing) MHD_add_response_header(m, "Connection", "close");
    const enum MHD_Result ok = MHD_queue_response(to, (unsigned)a->status, m);
    MHD_destroy_response(m);
    return ok;
}

/* ---- requests ---- */

/* The first call of a request comes with its headers, then one for each piece of the body, then one
 * without a piece; after http_done there is one more. */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *from, const char *url,
                                  const char *method, const char *version, const char *piece,
                                  size_t *bytes, void **request)
{
    struct loop *l = arg;
    struct http_daemon *d = l->of;
    struct conn *c = *request;
    (void)version;
    if (!c) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(from, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
        if (!info || !(c = info->socket_context)) return MHD_NO;
        *request = c;
        c->r.method = method;
        c->r.path = url;
        c->r.bytes = 0;
        c->r.server = d->how.server;
        c->r.connection = from;
        c->too_big = c->later = false;
        c->begun = true;
        atomic_store(&c->done, false);
        if (d->how.begin(&c->r)) return MHD_YES;
        if (!conn_move(c, CONN_WORKING)) return MHD_NO;
        return send_answer(c, from);
    }
    if (*bytes) {
        if (!conn_body(c, piece, *bytes, d->how.o.most_body)) return MHD_NO;
        /* Whoever sends far more than is read is not listened to until the end. */
        if (c->too_big && c->got / 8 > d->how.o.most_body) return MHD_NO;
        *bytes = 0;
        return MHD_YES;
    }
    if (c->later) return c->done ? send_answer(c, from) : MHD_YES;
    if (!conn_move(c, CONN_WORKING)) return MHD_NO;
    if (c->r.bytes == 0 && !conn_body(c, "", 0, d->how.o.most_body)) return MHD_NO;
    c->r.too_big = c->too_big;
    d->how.run(&c->r);
    return c->later ? MHD_YES : send_answer(c, from);
}

static void on_completed(void *arg, struct MHD_Connection *from, void **request,
                         enum MHD_RequestTerminationCode how)
{
    struct loop *l = arg;
    struct conn *c = *request;
    (void)from;
    if (!c || !c->begun) return;
    c->begun = false;
    l->of->how.end(&c->r, how == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    text_clear(&c->r.answer.body);
    conn_move(c, CONN_IDLE);
}

/* The request line is there: the time for the rest begins. */
static void *on_line(void *arg, const char *uri, struct MHD_Connection *from)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(from, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct conn *c = info ? info->socket_context : NULL;
    (void)arg;
    (void)uri;
    if (c) conn_move(c, CONN_READING);
    return NULL;
}

static void on_connection(void *arg, struct MHD_Connection *from, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct loop *l = arg;
    struct conn *c = *context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(from, MHD_CONNECTION_INFO_CONNECTION_FD);
        c = conns_add(&l->of->conns, info ? info->connect_fd : -1);
        if (c) c->of = l;
        *context = c;
    } else {
        if (c) conns_remove(c);
        l->n--;
        l->of->conns.n--;
    }
}

static const char *header(const struct http_request *r, const char *name)
{
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

static const char *query(const struct http_request *r, const char *name)
{
    return MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, name);
}

static enum MHD_Result take_first(void *first, enum MHD_ValueKind kind, const char *key,
                                  const char *value)
{
    (void)kind;
    (void)value;
    *(const char **)first = key;
    return MHD_NO;
}

static const char *argument(const struct http_request *r)
{
    const char *first = NULL;
    MHD_get_connection_values(r->connection, MHD_GET_ARGUMENT_KIND, take_first, &first);
    return first;
}

static void later(struct http_request *r)
{
    struct conn *c = (struct conn *)r;
    c->later = true;
    ((struct loop *)c->of)->of->waiting++;
    MHD_suspend_connection(r->connection);
}

static void done(struct http_request *r)
{
    struct conn *c = (struct conn *)r;
    struct http_daemon *d = ((struct loop *)c->of)->of;
    atomic_store(&c->done, true);
    MHD_resume_connection(r->connection);
    d->waiting--; /* from here on the connection may be gone */
}

/* ---- connections ---- */

static void refuse_connection(struct http_daemon *d, int fd)
{
    static const char said[] =
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
        "Connection: close\r\nContent-Length: 67\r\n\r\n"
        "{\"error\":{\"status\":503,\"message\":\"too many connections are open\"}}\n";
    d->refused++;
    if (!d->conns.tls) send(fd, said, sizeof said - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    char bin[4096]; /* what has been read does not come back as a reset before the answer is seen */
    while (recv(fd, bin, sizeof bin, MSG_DONTWAIT) > 0) continue;
    close(fd);
}

static void add_connection(struct http_daemon *d, int fd, const struct sockaddr *at, socklen_t n)
{
    struct loop *l = &d->loops[0];
    for (size_t i = 1; i < d->n_loops; i++)
        if (d->loops[i].n < l->n) l = &d->loops[i];
    l->n++;
    d->conns.n++;
    if (MHD_add_connection(l->mhd, fd, at, n) == MHD_YES) return;
    l->n--; /* it has closed it */
    d->conns.n--;
}

/* Takes what the system holds for us; false: there is no room for one more now. */
static bool accept_all(struct http_daemon *d)
{
    for (;;) {
        struct sockaddr_storage at;
        socklen_t n = sizeof at;
        int fd = accept4(d->fd, (struct sockaddr *)&at, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
        if (fd < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
        if (d->conns.n >= d->how.o.connections) refuse_connection(d, fd);
        else add_connection(d, fd, (struct sockaddr *)&at, n);
    }
}

static void *accept_loop(void *arg)
{
    struct http_daemon *d = arg;
    bool open = true, room = true;
    while (open) {
        struct pollfd p[2] = { { .fd = d->wake, .events = POLLIN },
                               { .fd = room ? d->fd : -1, .events = POLLIN } };
        poll(p, 2, TICK_MS);
        room = accept_all(d); /* out of files or memory: again after a pause, not at once */
        open = !d->closing;
        conns_sweep(&d->conns);
        if (open && d->how.o.tick) d->how.o.tick(d->how.o.arg);
    }
    accept_all(d); /* whoever was taken by the system before the end */
    close(d->fd);
    return NULL;
}

/* ---- life ---- */

static struct MHD_Daemon *start_loop(struct loop *l, const struct http_options *o)
{
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_NO_LISTEN_SOCKET |
                     MHD_ALLOW_SUSPEND_RESUME | (o->tls_cert ? MHD_USE_TLS : 0);
    struct MHD_OptionItem tls[] = { { MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)o->tls_cert },
                                    { MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)o->tls_key },
                                    { MHD_OPTION_END, 0, NULL } };
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, l,                        /* */
                            MHD_OPTION_CONNECTION_LIMIT, (unsigned)o->connections + 16, /* */
                            MHD_OPTION_NOTIFY_COMPLETED, on_completed, l,               /* */
                            MHD_OPTION_NOTIFY_CONNECTION, on_connection, l,             /* */
                            MHD_OPTION_URI_LOG_CALLBACK, on_line, l,                    /* */
                            MHD_OPTION_ARRAY, o->tls_cert ? tls : tls + 2,              /* */
                            MHD_OPTION_END);
}

static void stop(struct http_daemon *d)
{
    for (size_t i = 0; i < d->n_loops; i++) MHD_stop_daemon(d->loops[i].mhd);
    close(d->wake);
    conns_clear(&d->conns);
    free(d);
}

static wisp_status start_loops(struct http_daemon *d, wisp_error *err)
{
    const struct http_options *o = &d->how.o;
    if (o->tls_cert && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return http_refuse(err, WISP_ENOTSUP,
                           "--tls-cert: this libmicrohttpd was built without TLS");
    const size_t n = o->threads < MOST_LOOPS ? (size_t)o->threads : MOST_LOOPS;
    for (; d->n_loops < n; d->n_loops++) {
        struct loop *l = &d->loops[d->n_loops];
        l->of = d;
        l->mhd = start_loop(l, o);
        if (!l->mhd && o->tls_cert)
            return http_refuse(err, WISP_EINVAL,
                               "--tls-cert, --tls-key: not a certificate and its key in PEM form");
        if (!l->mhd)
            return http_refuse(err, WISP_EIO, "libmicrohttpd cannot start: %s", strerror(errno));
    }
    return WISP_OK;
}

static wisp_status start(struct http_daemon **out, const struct http_listen *how, wisp_error *err)
{
    struct http_daemon *d = calloc(1, sizeof *d);
    if (!d) return http_refuse(err, WISP_ENOMEM, "out of memory for a server");
    d->how = *how;
    d->how.o.connections = listen_room(how->o.connections);
    conns_init(&d->conns, &d->how.o, how->o.tls_cert != NULL);
    wisp_status st = listen_open(&d->fd, &d->port, how->o.address, how->o.port, err);
    if (st != WISP_OK) {
        free(d);
        return st;
    }
    *out = d; /* before the first request can ask for it */
    d->wake = eventfd(0, EFD_CLOEXEC);
    if (d->wake < 0) st = http_refuse(err, WISP_EIO, "no event: %s", strerror(errno));
    if (st == WISP_OK) st = start_loops(d, err);
    if (st == WISP_OK && pthread_create(&d->acceptor, NULL, accept_loop, d) != 0)
        st = http_refuse(err, WISP_ENOMEM, "no thread for connections");
    if (st != WISP_OK) {
        *out = NULL;
        close(d->fd);
        stop(d);
    }
    return st;
}

static void close_daemon(struct http_daemon *d)
{
    const uint64_t one = 1;
    d->closing = true;
    if (write(d->wake, &one, sizeof one) < 0) return; /* it looks every TICK_MS anyway */
    pthread_join(d->acceptor, NULL);
}

static int port_of(const struct http_daemon *d)
{
    return d->port;
}

static size_t connections(const struct http_daemon *d)
{
    return d->conns.n;
}

static size_t refused(const struct http_daemon *d)
{
    return d->refused;
}

static size_t late(const struct http_daemon *d)
{
    return d->conns.n_late;
}

static size_t waiting(const struct http_daemon *d)
{
    return d->waiting;
}

static size_t busy(const struct http_daemon *d)
{
    return conns_busy((struct conn_list *)&d->conns);
}

__attribute__((visibility("default"))) const void *wisp_http_table(void);
const void *wisp_http_table(void)
{
    static const struct http_part table = { HTTP_PART_VERSION, start, port_of,      connections,
                                            refused,           late,  close_daemon, busy,
                                            waiting,           stop,  header,       query,
                                            argument,          later, done };
    return &table;
}

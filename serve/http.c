/* HTTP for those who answer requests: opens wisp-http.so, finds routes, looks at tokens, keeps the
 * log of requests, and ends without leaving one unanswered. */
#include "serve/http.h"
#include "base/part.h"
#include "serve/part.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

static const char FILE_NAME[] = "wisp-http.so", PACKAGE[] = "libmicrohttpd";
enum { QUIET_MS = 300, STEP_MS = 20 };

struct http_server {
    const struct http_part *part;
    struct http_daemon *daemon;
    struct http_options o;
    const struct http_route *routes;
    size_t n_routes;
    atomic_bool draining;
    pthread_mutex_t log_lock;
};

int64_t http_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* ---- routes ---- */

/* Does it match, and what stands for the star? */
static bool matches(const struct http_route *route, const char *path, const char **rest)
{
    const size_t n = strlen(route->path);
    *rest = "";
    if (n == 0 || route->path[n - 1] != '*') return strcmp(route->path, path) == 0;
    if (strncmp(route->path, path, n - 1) != 0) return false;
    *rest = path + n - 1;
    return true;
}

static bool takes(const struct http_route *route, const char *method)
{
    if (strcmp(method, "HEAD") == 0) method = "GET";
    return strcmp(route->method, method) == 0;
}

static void find_route(struct http_request *r)
{
    const struct http_server *s = r->server;
    const char *rest, *other = NULL;
    r->route = NULL;
    for (size_t i = 0; i < s->n_routes; i++) {
        const struct http_route *route = &s->routes[i];
        if (!matches(route, r->path, &rest)) continue;
        if (takes(route, r->method)) {
            r->route = route;
            r->rest = rest;
            r->arg = route->arg;
            return;
        }
        other = route->method;
    }
    if (!other) {
        http_fail(r, 404, "there is nothing at '%.200s'", r->path);
        return;
    }
    r->answer.allow = other;
    http_fail(r, 405, "method %.20s: '%.200s' takes %s", r->method, r->path, other);
}

/* ---- tokens ---- */

/* Takes the same time whatever is different, and where. */
static bool is_token(const char *given, const char *token)
{
    const size_t n = strlen(token), m = strlen(given);
    volatile unsigned char different = n != m;
    for (size_t i = 0; i < m; i++)
        different |= (unsigned char)given[i] ^ (unsigned char)token[n ? i % n : 0];
    return different == 0;
}

static bool is_allowed(struct http_request *r)
{
    const char *token = r->server->o.token, *given = token ? http_header(r, "Authorization") : NULL;
    const bool bearer = given && strncasecmp(given, "Bearer ", 7) == 0;
    if (!token || (r->route->flags & HTTP_OPEN)) return true;
    if (bearer && is_token(given + 7, token)) return true;
    http_fail(r, 401, "%s; expected the header 'Authorization: Bearer TOKEN'",
              bearer  ? "the token is another one"
              : given ? "the header has another scheme than Bearer"
                      : "no token was given");
    return false;
}

/* ---- a request ---- */

static void too_large(struct http_request *r)
{
    http_fail(r, 413, "the body is larger than %zu bytes (--max-body)", r->server->o.most_body);
}

static bool begin(struct http_request *r)
{
    r->begun_us = http_now_us();
    r->answer = (struct http_answer){ .status = 200, .type = "application/json" };
    r->rows = 0;
    find_route(r);
    if (!r->route || !is_allowed(r)) return false;
    const char *length = http_header(r, "Content-Length");
    if (!length || strtoull(length, NULL, 10) <= r->server->o.most_body) return true;
    too_large(r);
    return false;
}

static bool has_query(struct http_request *r)
{
    const char *name = r->server->part->argument(r);
    if (name)
        http_fail(r, 400,
                  "found '%.100s' behind the path ('?'), expected all to be said in the body",
                  name);
    return name != NULL;
}

static void run(struct http_request *r)
{
    if (r->too_big) too_large(r);
    else if (!(r->route->flags & HTTP_NO_QUERY) || !has_query(r)) r->route->run(r);
    if (r->answer.body.failed) http_fail(r, 503, "out of memory for the answer");
}

static void write_log(struct http_server *s, const struct http_request *r, double seconds,
                      bool sent)
{
    struct text line = { 0 };
    struct timespec now;
    struct tm utc;
    char when[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &utc);
    text_print(&line, "{\"time\":\"%s.%03ldZ\",\"method\":", when, now.tv_nsec / 1000000);
    text_json(&line, r->method, strlen(r->method));
    text_put(&line, ",\"path\":");
    text_json(&line, r->path, strnlen(r->path, 500));
    text_print(&line, ",\"status\":%d,\"bytes\":%zu,\"rows\":%zu,\"ms\":%.3f%s}\n",
               r->answer.status, r->bytes, r->rows, seconds * 1e3, sent ? "" : ",\"gone\":true");
    pthread_mutex_lock(&s->log_lock);
    if (!line.failed) fwrite(line.at, 1, line.n, s->o.log);
    pthread_mutex_unlock(&s->log_lock);
    text_clear(&line);
}

static void end(struct http_request *r, bool sent)
{
    struct http_server *s = r->server;
    const double seconds = (double)(http_now_us() - r->begun_us) * 1e-6;
    if (s->o.seen) s->o.seen(s->o.arg, r, seconds);
    if (s->o.log) write_log(s, r, seconds, sent);
}

static void tick(void *arg)
{
    struct http_server *s = arg;
    if (s->o.log) {
        pthread_mutex_lock(&s->log_lock);
        fflush(s->o.log);
        pthread_mutex_unlock(&s->log_lock);
    }
    if (s->o.tick) s->o.tick(s->o.arg);
}

/* ---- life ---- */

static void fill_in(struct http_options *o)
{
    if (!o->address) o->address = "127.0.0.1";
    if (!o->threads) o->threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (o->threads < 1) o->threads = 1;
    if (!o->most_body) o->most_body = (size_t)64 << 20;
    if (!o->connections) o->connections = 4096;
    if (o->header_s <= 0) o->header_s = 10;
    if (o->idle_s <= 0) o->idle_s = 60;
}

static wisp_status open_part(struct http_server *s, wisp_error *err)
{
    char why[250];
    s->part =
        wisp_part_table(FILE_NAME, "wisp_http_table", HTTP_PART_VERSION, false, why, sizeof why);
    if (s->part) return WISP_OK;
    return http_refuse(
        err, WISP_ENOTSUP,
        "a server needs %s: %.200s; it is built by 'make' where the package %s-dev is "
        "installed, and runs where %s12 is (apt-get install %s-dev)",
        FILE_NAME, why, PACKAGE, PACKAGE, PACKAGE);
}

wisp_status http_check(wisp_error *err)
{
    struct http_server s;
    return open_part(&s, err);
}

wisp_status http_start(struct http_server **out, const struct http_options *o,
                       const struct http_route *routes, size_t n, wisp_error *err)
{
    struct http_server *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s) return http_refuse(err, WISP_ENOMEM, "out of memory for a server");
    s->o = *o;
    s->routes = routes;
    s->n_routes = n;
    fill_in(&s->o);
    pthread_mutex_init(&s->log_lock, NULL);
    struct http_listen how = { .o = s->o, .server = s, .begin = begin, .run = run, .end = end };
    how.o.tick = tick;
    how.o.arg = s;
    wisp_status st = open_part(s, err);
    if (st == WISP_OK) st = s->part->start(&s->daemon, &how, err);
    if (st == WISP_OK) {
        *out = s;
        return st;
    }
    pthread_mutex_destroy(&s->log_lock);
    free(s);
    return st;
}

int http_port(const struct http_server *s)
{
    return s->part->port(s->daemon);
}

size_t http_connections(const struct http_server *s)
{
    return s->part->connections(s->daemon);
}

size_t http_refused(const struct http_server *s)
{
    return s->part->refused(s->daemon);
}

size_t http_late(const struct http_server *s)
{
    return s->part->late(s->daemon);
}

bool http_draining(const struct http_server *s)
{
    return s->draining;
}

/* Waits until no request is read or answered, and none has come for a while: a client whose
 * connection stays open may be sending one right now. */
static size_t drain(struct http_server *s, double seconds)
{
    const int64_t until = http_now_us() + (int64_t)(seconds * 1e6);
    size_t busy = s->part->busy(s->daemon);
    for (int quiet = 0; quiet < QUIET_MS && http_now_us() < until; quiet += STEP_MS) {
        nanosleep(&(struct timespec){ .tv_nsec = STEP_MS * 1000000L }, NULL);
        busy = s->part->busy(s->daemon);
        if (busy) quiet = 0;
    }
    return busy;
}

size_t http_stop(struct http_server *s, double drain_s)
{
    if (!s) return 0;
    s->draining = true;
    s->part->close(s->daemon);
    const size_t left = drain(s, drain_s);
    if (s->part->waiting(s->daemon) && s->o.give_up) s->o.give_up(s->o.arg);
    while (s->part->waiting(s->daemon))
        nanosleep(&(struct timespec){ .tv_nsec = STEP_MS * 1000000L }, NULL);
    if (left && s->o.give_up) drain(s, 0.5); /* those are told */
    s->part->stop(s->daemon);
    if (s->o.log) fflush(s->o.log);
    pthread_mutex_destroy(&s->log_lock);
    free(s);
    return left;
}

const char *http_header(const struct http_request *r, const char *name)
{
    return r->server->part->header(r, name);
}

const char *http_query(const struct http_request *r, const char *name)
{
    return r->server->part->query(r, name);
}

void http_later(struct http_request *r)
{
    r->server->part->later(r);
}

void http_done(struct http_request *r)
{
    if (r->answer.body.failed) http_fail(r, 503, "out of memory for the answer");
    r->server->part->done(r);
}

/* ---- errors ---- */

void http_fail(struct http_request *r, int status, const char *fmt, ...)
{
    char said[1000];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(said, sizeof said, fmt, ap);
    va_end(ap);
    text_clear(&r->answer.body);
    r->answer.still = NULL;
    r->answer.status = status;
    r->answer.type = "application/json";
    if (status == 503 || status == 429) r->answer.retry_after = 1;
    const bool plain = r->route && (r->route->flags & HTTP_ERROR_TEXT);
    if (plain) text_put(&r->answer.body, "{\"error\":");
    else text_print(&r->answer.body, "{\"error\":{\"status\":%d,\"message\":", status);
    text_json(&r->answer.body, said, strlen(said));
    text_put(&r->answer.body, plain ? "}\n" : "}}\n");
}

int http_status_of(wisp_status st)
{
    switch (st) {
    case WISP_OK:
        return 200;
    case WISP_EINVAL:
    case WISP_EFORMAT:
    case WISP_ENUMERIC:
        return 400;
    case WISP_ENOTSUP:
        return 501;
    case WISP_ENOMEM:
        return 503;
    case WISP_EIO:
    case WISP_EMODEL:
    case WISP_EPEER:
    case WISP_ESTOPPED:
        return 500;
    }
    return 500;
}

void http_fail_as(struct http_request *r, const wisp_error *err)
{
    http_fail(r, http_status_of(err->code), "%s", err->text);
}

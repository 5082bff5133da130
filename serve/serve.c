/* wisp serve: options, routes, signals. */
#include "serve/serve.h"
#include "serve/pages.h"
#include "serve/part.h"
#include "serve/service.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void live(struct http_request *r)
{
    text_put(&r->answer.body, "{\"live\":true}\n");
}

static void ready(struct http_request *r)
{
    struct service *s = r->arg;
    bool yes = !http_draining(r->server);
    for (size_t i = 0; i < s->models.n && yes; i++) {
        struct served *now = models_take(&s->models, &s->models.slots[i]);
        yes = now != NULL;
        served_free(now);
    }
    if (!yes) r->answer.status = 503;
    text_print(&r->answer.body, "{\"ready\":%s}\n", yes ? "true" : "false");
}

static void try_page(struct http_request *r)
{
    page_answer(r, "try.html");
}

/* One line for each route; 'arg' is filled in by whoever starts the server. */
static const struct http_route all_routes[] = {
    { "GET", "/", try_page, NULL, HTTP_OPEN },
    { "GET", "/pages/*", page_file, NULL, HTTP_OPEN },
    { "GET", "/v2/health/live", live, NULL, HTTP_OPEN },
    { "GET", "/v2/health/ready", ready, NULL, HTTP_OPEN },
    { "POST", "/predict", route_predict, NULL, HTTP_NO_QUERY },
    { "POST", "/predict/*", route_predict, NULL, HTTP_NO_QUERY },
    { "GET", "/models", route_models, NULL, 0 },
    { "GET", "/metrics", route_metrics, NULL, 0 },
    { "GET", "/v1/projects/*", route_annif, NULL, 0 },
    { "POST", "/v1/projects/*", route_annif, NULL, HTTP_NO_QUERY },
    { "GET", "/v2", route_v2, NULL, HTTP_ERROR_TEXT },
    { "GET", "/v2/models/*", route_v2, NULL, HTTP_ERROR_TEXT },
    { "POST", "/v2/models/*", route_infer, NULL, HTTP_ERROR_TEXT | HTTP_NO_QUERY },
};
enum { N_ALL = sizeof all_routes / sizeof *all_routes };
_Static_assert((int)N_ALL <= (int)MOST_ROUTES, "metrics have a place for each route");

/* ---- options ---- */

static double number(const struct serve_call *call, const char *key)
{
    return strtod(wisp_config_get(call->cfg, key), NULL);
}

/* "64M", checked when it was set. */
static size_t size(const struct serve_call *call, const char *key)
{
    char *end;
    const double x = strtod(wisp_config_get(call->cfg, key), &end);
    const char *units = "KMGT", *unit = *end ? strchr(units, *end & ~0x20) : NULL;
    return (size_t)(x * (unit ? (double)(UINT64_C(1) << (10 * (unit - units + 1))) : 1));
}

static bool is(const struct serve_call *call, const char *key, const char *value)
{
    return strcmp(wisp_config_get(call->cfg, key), value) == 0;
}

static void read_options(struct service *s, struct how *how)
{
    enum { K = 5 };
    const struct serve_call *c = s->call;
    const bool k_given = !is(c, "k", ""), threshold_given = !is(c, "threshold", "");
    *how = (struct how){ .k = k_given ? (size_t)number(c, "k") : K,
                         .k_default = !k_given,
                         .threshold = threshold_given ? number(c, "threshold") : -1,
                         .own = is(c, "threshold", "model"),
                         .inference = is(c, "inference", "sparse"),
                         .scores = is(c, "scores", "raw") };
    s->most_rows = (size_t)number(c, "max-rows");
    s->most_queue = (size_t)number(c, "max-queue");
    s->max_wait_us = number(c, "max-wait") < 0 ? -1 : (int64_t)(number(c, "max-wait") * 1e3);
    s->threads = (int)number(c, "threads");
    if (s->threads == 0) s->threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
    s->card = is(c, "device", "cuda");
}

/* A small file as text; NULL: it cannot be read. */
static char *slurp(const char *path)
{
    FILE *f = fopen(path, "re");
    char *text = f ? calloc(1, (1 << 20) + 1) : NULL;
    const size_t n = text ? fread(text, 1, 1 << 20, f) : 0;
    const bool bad = !f || !text || ferror(f) || n == 1 << 20;
    if (f) fclose(f);
    if (!bad) return text;
    free(text);
    return NULL;
}

struct secrets {
    char *token, *cert, *key;
    FILE *log;
};

static wisp_status read_file(char **to, const struct serve_call *call, const char *key,
                             wisp_error *err)
{
    const char *path = wisp_config_get(call->cfg, key);
    if (!*path) return WISP_OK;
    if ((*to = slurp(path))) return WISP_OK;
    return http_refuse(err, WISP_EIO, "--%s: %.300s cannot be read as a file of at most 1 MiB", key,
                       path);
}

static wisp_status open_log(struct secrets *s, const struct models *models,
                            const struct serve_call *call, wisp_error *err)
{
    const char *path = wisp_config_get(call->cfg, "access-log");
    struct stat log;
    if (!*path) return WISP_OK;
    if (strcmp(path, "-") == 0) {
        s->log = stdout;
        return WISP_OK;
    }
    for (size_t i = 0; i < models->n && stat(path, &log) == 0; i++)
        if (log.st_ino == models->slots[i].file.st_ino &&
            log.st_dev == models->slots[i].file.st_dev)
            return http_refuse(err, WISP_EINVAL,
                               "--access-log: %.300s would be written, and is a model", path);
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);
    s->log = fd >= 0 ? fdopen(fd, "a") : NULL;
    if (s->log) return WISP_OK;
    return http_refuse(err, WISP_EIO, "--access-log: %.300s: %s", path, strerror(errno));
}

static wisp_status read_secrets(struct secrets *s, const struct serve_call *call, wisp_error *err)
{
    wisp_status st = read_file(&s->token, call, "token-file", err);
    if (st == WISP_OK) st = read_file(&s->cert, call, "tls-cert", err);
    if (st == WISP_OK) st = read_file(&s->key, call, "tls-key", err);
    if (st == WISP_OK && !s->cert != !s->key)
        st = http_refuse(err, WISP_EINVAL,
                         "--tls-cert and --tls-key: one is given without the other");
    if (s->token) s->token[strcspn(s->token, "\r\n")] = 0;
    if (st == WISP_OK && s->token && !*s->token)
        st = http_refuse(err, WISP_EINVAL, "--token-file: the first line of %.300s is empty",
                         wisp_config_get(call->cfg, "token-file"));
    if (st == WISP_OK && !s->token && call->token) s->token = strdup(call->token);
    return st;
}

static void clear_secrets(struct secrets *s)
{
    free(s->token);
    free(s->cert);
    free(s->key);
    if (s->log && s->log != stdout) fclose(s->log);
}

/* ---- life ---- */

static void seen(void *arg, const struct http_request *r, double seconds)
{
    struct service *s = arg;
    metrics_seen(&s->metrics, r, seconds);
}

static void give_up(void *arg)
{
    struct service *s = arg;
    queue_give_up(s->queue);
}

/* Signals that ask for something are taken by the thread that waits for them, and by no other. */
static void hold_signals(sigset_t *asks)
{
    sigemptyset(asks);
    sigaddset(asks, SIGTERM);
    sigaddset(asks, SIGINT);
    sigaddset(asks, SIGHUP);
    pthread_sigmask(SIG_BLOCK, asks, NULL);
    signal(SIGPIPE, SIG_IGN); /* a client or the reader of a log that is gone */
}

/* Until a signal asks it to end; models are looked at meanwhile. */
static void wait_for_end(struct service *s, const sigset_t *asks)
{
    const double every = number(s->call, "reload-every");
    const struct timespec pause = { .tv_sec = (time_t)every,
                                    .tv_nsec = (long)((every - (double)(time_t)every) * 1e9) };
    for (;;) {
        const int sig = every > 0 ? sigtimedwait(asks, NULL, &pause) : sigwaitinfo(asks, NULL);
        if (sig == SIGTERM || sig == SIGINT) return;
        if (sig == SIGHUP || every > 0) models_refresh(&s->models, sig == SIGHUP);
    }
}

static wisp_status run(struct service *s, const struct secrets *secrets, const sigset_t *asks,
                       wisp_error *err)
{
    const struct serve_call *c = s->call;
    struct http_route routes[N_ALL];
    memcpy(routes, all_routes, sizeof routes);
    for (size_t i = 0; i < N_ALL; i++) routes[i].arg = s;
    metrics_init(&s->metrics, routes, N_ALL);
    const struct http_options o = { .address = wisp_config_get(c->cfg, "address"),
                                    .port = (int)number(c, "port"),
                                    .threads = s->threads,
                                    .most_body = size(c, "max-body"),
                                    .connections = (size_t)number(c, "max-connections"),
                                    .header_s = number(c, "header-time"),
                                    .idle_s = number(c, "idle-time"),
                                    .token = secrets->token,
                                    .tls_cert = secrets->cert,
                                    .tls_key = secrets->key,
                                    .log = secrets->log,
                                    .seen = seen,
                                    .give_up = give_up,
                                    .arg = s };
    const wisp_status st = http_start(&s->http, &o, routes, N_ALL, err);
    if (st != WISP_OK) return st;
    char line[300];
    const bool v6 = strchr(o.address, ':') != NULL;
    snprintf(line, sizeof line, "listening on http%s://%s%.200s%s:%d", o.tls_cert ? "s" : "",
             v6 ? "[" : "", o.address, v6 ? "]" : "", http_port(s->http));
    c->say(line);
    wait_for_end(s, asks);
    const size_t left = http_stop(s->http, number(c, "drain-time"));
    if (left) {
        snprintf(line, sizeof line, "%zu requests were not answered within --drain-time", left);
        c->say(line);
    }
    return WISP_OK;
}

wisp_status serve(const struct serve_call *call, wisp_error *err)
{
    struct service *s = calloc(1, sizeof *s);
    struct secrets secrets = { 0 };
    struct how how;
    sigset_t asks;
    if (!s) return http_refuse(err, WISP_ENOMEM, "out of memory for a server");
    s->call = call;
    hold_signals(&asks);
    read_options(s, &how);
    wisp_status st = WISP_OK;
    if (how.own && how.scores == 1)
        st = http_refuse(err, WISP_EINVAL,
                         "--threshold model and --scores raw: the model's thresholds are for "
                         "calibrated scores; leave out one of them");
    if (st == WISP_OK) st = read_secrets(&secrets, call, err);
    if (st == WISP_OK) st = http_check(err);
    if (st == WISP_OK)
        st = models_open(&s->models, call->models, call->n_models, call->cfg, &how, call->say, err);
    if (st == WISP_OK) st = open_log(&secrets, &s->models, call, err);
    if (st == WISP_OK) st = queue_open(&s->queue, s, err);
    if (st == WISP_OK) st = run(s, &secrets, &asks, err);
    queue_close(s->queue);
    models_close(&s->models);
    clear_secrets(&secrets);
    free(s);
    return st;
}

/* wisp serve: options, models, routes, signals. */
#include "serve/serve.h"
#include "serve/http.h"
#include "serve/part.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct service {
    const struct serve_call *call;
    struct http_server *http;
};

static void live(struct http_request *r)
{
    text_put(&r->answer.body, "{\"live\":true}\n");
}

static void ready(struct http_request *r)
{
    const bool yes = !http_draining(r->server);
    if (!yes) r->answer.status = 503;
    text_print(&r->answer.body, "{\"ready\":%s}\n", yes ? "true" : "false");
}

static double number(const wisp_config *cfg, const char *key)
{
    return strtod(wisp_config_get(cfg, key), NULL);
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

wisp_status serve(const struct serve_call *call, wisp_error *err)
{
    static const struct http_route routes[] = {
        { "GET", "/v2/health/live", live, NULL, HTTP_OPEN },
        { "GET", "/v2/health/ready", ready, NULL, HTTP_OPEN },
    };
    struct service s = { .call = call };
    const struct http_options o = { .address = wisp_config_get(call->cfg, "address"),
                                    .port = (int)number(call->cfg, "port"),
                                    .threads = (int)number(call->cfg, "threads") };
    sigset_t asks;
    hold_signals(&asks);
    wisp_status st = http_start(&s.http, &o, routes, sizeof routes / sizeof *routes, err);
    if (st != WISP_OK) return st;
    char line[200];
    snprintf(line, sizeof line, "listening on http://%s:%d", o.address, http_port(s.http));
    call->say(line);
    for (int sig = 0; sig != SIGTERM && sig != SIGINT;) sigwait(&asks, &sig);
    http_stop(s.http, number(call->cfg, "drain-time"));
    return WISP_OK;
}

/* What a run has told so far, and a server that tells it on.
 *
 *   GET /            the page
 *   GET /pages/NAME  its files
 *   GET /watch.json?from=N   the state, and the lines of epochs from number N on (those of --log)
 *
 * Between epochs the loss is kept as a trail of points, each the mean over the rows since the point
 * before.  When the trail is full neighbours are joined: it covers the whole run at any length. */
#include "serve/watch.h"
#include "serve/http.h"
#include "serve/pages.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_TRAIL = 512, TRAIL_PER_EPOCH = 40, MOST_LINES = 20000, LINES_AT_ONCE = 500 };
/* Pages ask once a second: who asked lately is looking, and all who are have asked again after that. */
static const double RECENT_S = 5, TURN_S = 1.3, LINGER_S = 3;

struct point {
    double at, loss; /* epochs so far; mean over 'rows' */
    double rows;
};

struct watch {
    struct http_server *http;
    pthread_mutex_t lock; /* of all below */
    wisp_progress now;    /* its texts are not kept */
    bool begun;
    char *run;
    char **line; /* (n_lines) of the epochs from number 'first' on */
    size_t n_lines, first;
    struct point trail[MOST_TRAIL + 1];
    size_t n_trail;
    double every;                /* rows of a point; 0: not known yet */
    double rows_told, loss_told; /* of this epoch, at the last point */
    const char *state;
    char words[1000];
    int64_t asked_us, told_end_us; /* when a page last asked; when one was told of the end */
};

/* ---- telling ---- */

static void put_number(struct text *t, const char *key, double v)
{
    text_print(t, ",\"%s\":", key);
    text_real(t, v);
}

static void put_now(struct text *t, const wisp_progress *p)
{
    text_print(t, "{\"epoch\":%d,\"epochs\":%d,\"rows_done\":%zu,\"n_rows\":%zu", p->epoch,
               p->epochs, p->rows_done, p->n_rows);
    put_number(t, "loss", p->loss);
    put_number(t, "rows_per_s", p->rows_per_s);
    put_number(t, "eta_s", p->eta_s);
    put_number(t, "train_s", p->train_s);
    put_number(t, "active", p->active);
    put_number(t, "scored", p->scored);
    put_number(t, "recall", p->recall);
    text_print(t, ",\"sampled\":%s}", p->sampled ? "true" : "false");
}

static void put_state(struct text *t, const struct watch *w, size_t from)
{
    text_print(t, "{\"state\":\"%s\",\"words\":", w->state);
    text_json(t, w->words, strlen(w->words));
    text_print(t, ",\"run\":%s,\"now\":", w->run ? w->run : "null");
    if (w->begun) put_now(t, &w->now);
    else text_put(t, "null");
    text_put(t, ",\"trail\":[");
    for (size_t i = 0; i < w->n_trail; i++) {
        text_put(t, i ? ",[" : "[");
        text_real(t, w->trail[i].at);
        text_put(t, ",");
        text_real(t, w->trail[i].loss);
        text_put(t, "]");
    }
    if (from < w->first) from = w->first;
    size_t end = w->first + w->n_lines;
    if (from > end) from = end;
    text_print(t, "],\"from\":%zu,\"n_epochs\":%zu,\"epochs\":[", from, end);
    if (end > from + LINES_AT_ONCE) end = from + LINES_AT_ONCE;
    for (size_t i = from; i < end; i++) {
        if (i > from) text_put(t, ",");
        text_put(t, w->line[i - w->first]);
    }
    text_put(t, "]}\n");
}

/* A web page of somewhere else may have its own name lead here: only requests that know this machine
 * by these names are answered. */
static bool is_ours(struct http_request *r)
{
    static const char *const names[] = { "127.0.0.1", "localhost", "[::1]" };
    const char *host = http_header(r, "Host");
    for (size_t i = 0; host && i < sizeof names / sizeof *names; i++) {
        const size_t n = strlen(names[i]);
        if (strncmp(host, names[i], n) == 0 && (host[n] == 0 || host[n] == ':')) return true;
    }
    http_fail(r, 403, "this page is for http://127.0.0.1 or http://localhost alone");
    return false;
}

static void answer_page(struct http_request *r)
{
    if (is_ours(r)) page_answer(r, "watch.html");
}

static void answer_state(struct http_request *r)
{
    struct watch *w = r->arg;
    const char *from = http_query(r, "from");
    if (!is_ours(r)) return;
    pthread_mutex_lock(&w->lock);
    put_state(&r->answer.body, w, from ? strtoull(from, NULL, 10) : 0);
    w->asked_us = http_now_us();
    if (strcmp(w->state, "training") != 0) w->told_end_us = w->asked_us;
    pthread_mutex_unlock(&w->lock);
}

/* ---- listening to the run ---- */

static struct point joined(const struct point *a, const struct point *b)
{
    const double rows = a->rows + b->rows;
    return (struct point){ b->at, (a->loss * a->rows + b->loss * b->rows) / rows, rows };
}

static void join_trail(struct watch *w)
{
    for (size_t i = 0; i + 1 < w->n_trail; i += 2)
        w->trail[i / 2] = joined(&w->trail[i], &w->trail[i + 1]);
    w->n_trail /= 2;
    w->every *= 2;
}

/* The mean since the last point; what an epoch has left at its end is joined to the point before. */
static void add_point(struct watch *w, const wisp_progress *p)
{
    const double done = (double)p->rows_done, sum = p->loss * done;
    const double rows = done - w->rows_told;
    if (w->every == 0) w->every = (double)p->n_rows / TRAIL_PER_EPOCH;
    if (rows <= 0 || (rows < w->every && !p->epoch_ended)) return;
    struct point next = { p->epoch - 1 + done / (double)p->n_rows, (sum - w->loss_told) / rows,
                          rows };
    if (rows < w->every / 2 && w->n_trail > 0) next = joined(&w->trail[--w->n_trail], &next);
    w->trail[w->n_trail++] = next;
    w->rows_told = done;
    w->loss_told = sum;
    if (w->n_trail > MOST_TRAIL) join_trail(w);
}

/* Without memory the page has an epoch less. */
static void add_line(struct watch *w, const char *json)
{
    if (w->n_lines == MOST_LINES) {
        for (size_t i = 0; i < MOST_LINES / 2; i++) free(w->line[i]);
        w->n_lines /= 2;
        w->first += MOST_LINES / 2;
        memmove(w->line, w->line + MOST_LINES / 2, w->n_lines * sizeof *w->line);
    }
    if (w->n_lines % 256 == 0) {
        char **more = realloc(w->line, (w->n_lines + 256) * sizeof *more);
        if (!more) return;
        w->line = more;
    }
    if ((w->line[w->n_lines] = strdup(json))) w->n_lines++;
}

void watch_show(struct watch *w, const wisp_progress *p)
{
    pthread_mutex_lock(&w->lock);
    if (w->begun &&
        (p->epoch < w->now.epoch || (p->run && w->run && strcmp(p->run, w->run) != 0))) {
        w->n_trail = 0; /* another run ('wisp prune') */
        w->every = 0;
        w->rows_told = w->loss_told = 0;
        free(w->run);
        w->run = NULL;
    }
    if (w->begun && p->epoch != w->now.epoch) w->rows_told = w->loss_told = 0;
    if (!w->run && p->run) w->run = strdup(p->run);
    w->now = *p;
    w->now.json = w->now.run = NULL;
    w->begun = true;
    add_point(w, p);
    if (p->epoch_ended && p->json) add_line(w, p->json);
    pthread_mutex_unlock(&w->lock);
}

/* ---- beginning and end ---- */

wisp_status watch_start(struct watch **out, int port, wisp_error *err)
{
    struct watch *w = *out = calloc(1, sizeof *w);
    if (!w) {
        *err = (wisp_error){ .code = WISP_ENOMEM };
        snprintf(err->text, sizeof err->text, "out of memory: %zu bytes for --watch", sizeof *w);
        return WISP_ENOMEM;
    }
    static struct http_route routes[] = {
        { "GET", "/", answer_page, NULL, HTTP_OPEN },
        { "GET", "/watch.json", answer_state, NULL, HTTP_OPEN },
        { "GET", "/pages/*", page_file, NULL, HTTP_OPEN },
    };
    routes[1].arg = w; /* a command watches one run at a time */
    w->state = "training";
    w->asked_us = INT64_MIN / 2;
    pthread_mutex_init(&w->lock, NULL);
    wisp_status st = http_start(&w->http, &(struct http_options){ .port = port, .threads = 1 },
                                routes, sizeof routes / sizeof *routes, err);
    if (st == WISP_OK) return WISP_OK;
    pthread_mutex_destroy(&w->lock);
    free(w);
    *out = NULL;
    return st;
}

int watch_port(const struct watch *w)
{
    return http_port(w->http);
}

/* Is there a page that was looking just now and may not have seen the end yet? */
static bool is_watched(struct watch *w, int64_t ended_us)
{
    const double since_s = (double)(http_now_us() - ended_us) * 1e-6;
    pthread_mutex_lock(&w->lock);
    const bool open = w->told_end_us > 0 || (double)(ended_us - w->asked_us) < 1e6 * RECENT_S;
    const bool told = w->told_end_us > 0;
    pthread_mutex_unlock(&w->lock);
    return open && since_s < (told ? TURN_S : LINGER_S);
}

void watch_end(struct watch *w, wisp_status st, const char *words)
{
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->state = st == WISP_OK ? "ended" : st == WISP_ESTOPPED ? "stopped" : "failed";
    snprintf(w->words, sizeof w->words, "%s", words);
    pthread_mutex_unlock(&w->lock);
    const int64_t ended_us = http_now_us();
    while (is_watched(w, ended_us)) nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    http_stop(w->http, 1);
    for (size_t i = 0; i < w->n_lines; i++) free(w->line[i]);
    free(w->line);
    free(w->run);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

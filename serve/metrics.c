/* What a server counts, as Prometheus reads it: GET /metrics. */
#include "serve/metrics.h"
#include "serve/service.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const int statuses[N_STATUSES] = { 200, 400, 401, 404, 405, 408, 413,
                                          415, 429, 431, 500, 501, 503 };
static const double times[N_TIMES] = { 5e-5,  1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01,
                                       0.025, 0.05, 0.1,    0.25, 0.5,  1,      2.5,  10 };
static const double batches[N_BATCHES] = {
    1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096
};

void metrics_init(struct metrics *m, const struct http_route *routes, size_t n)
{
    m->routes = routes;
    m->n_routes = n < MOST_ROUTES ? n : MOST_ROUTES;
    m->begun_s = (double)time(NULL);
}

static void count(struct histogram *h, const double *bounds, size_t n, double x)
{
    size_t i = 0;
    while (i < n && x > bounds[i]) i++;
    atomic_fetch_add_explicit(&h->in[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum, (uint64_t)(x * 1e6), memory_order_relaxed);
}

static size_t status_place(int status)
{
    size_t i = 0;
    while (i < N_STATUSES && statuses[i] != status) i++;
    return i;
}

void metrics_seen(struct metrics *m, const struct http_request *r, double seconds)
{
    size_t route = r->route ? (size_t)(r->route - m->routes) : MOST_ROUTES;
    if (route >= m->n_routes) route = MOST_ROUTES;
    atomic_fetch_add_explicit(&m->requests[route][status_place(r->answer.status)], 1,
                              memory_order_relaxed);
    count(&m->seconds[route], times, N_TIMES, seconds);
}

void metrics_batch(struct metrics *m, size_t n_rows)
{
    count(&m->batch, batches, N_BATCHES, (double)n_rows);
}

/* ---- text ---- */

static void head(struct text *t, const char *name, const char *type, const char *help)
{
    text_print(t, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_histogram(struct text *t, const char *name, const char *labels,
                          const struct histogram *h, const double *bounds, size_t n)
{
    unsigned long long sum = 0;
    const char *comma = *labels ? "," : "";
    for (size_t i = 0; i < n; i++) {
        sum += h->in[i];
        text_print(t, "%s_bucket{%s%sle=\"%g\"} %llu\n", name, labels, comma, bounds[i], sum);
    }
    sum += h->in[n];
    text_print(t, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, labels, comma, sum);
    text_print(t, "%s_sum%s%s%s %.6f\n", name, *labels ? "{" : "", labels, *labels ? "}" : "",
               (double)h->sum * 1e-6);
    text_print(t, "%s_count%s%s%s %llu\n", name, *labels ? "{" : "", labels, *labels ? "}" : "",
               sum);
}

static const char *route_name(const struct metrics *m, size_t i)
{
    return i < m->n_routes ? m->routes[i].path : "other";
}

static void put_requests(struct text *t, const struct metrics *m)
{
    char labels[200];
    head(t, "wisp_requests_total", "counter", "Requests answered, by route and status.");
    for (size_t i = 0; i <= MOST_ROUTES; i++)
        for (size_t k = 0; k <= N_STATUSES; k++)
            if (m->requests[i][k])
                text_print(t, "wisp_requests_total{route=\"%s\",code=\"%d\"} %llu\n",
                           route_name(m, i), k < N_STATUSES ? statuses[k] : 0,
                           (unsigned long long)m->requests[i][k]);
    head(t, "wisp_request_seconds", "histogram",
         "From the headers of a request to the end of its answer.");
    for (size_t i = 0; i <= MOST_ROUTES; i++) {
        unsigned long long n = 0;
        for (size_t k = 0; k <= N_TIMES; k++) n += m->seconds[i].in[k];
        if (n == 0) continue;
        snprintf(labels, sizeof labels, "route=\"%.150s\"", route_name(m, i));
        put_histogram(t, "wisp_request_seconds", labels, &m->seconds[i], times, N_TIMES);
    }
}

static void put_models(struct text *t, struct models *models)
{
    static const struct {
        const char *name, *type, *help;
    } rows[] = {
        { "wisp_model_version", "gauge", "Files that this model has been loaded from so far." },
        { "wisp_model_ready", "gauge", "1: it answers requests." },
        { "wisp_model_loaded_timestamp_seconds", "gauge", "When its file was loaded." },
        { "wisp_model_load_seconds", "gauge", "How long loading and verifying took." },
        { "wisp_model_bytes", "gauge", "Bytes of its file." },
        { "wisp_model_rows_total", "counter", "Rows predicted." },
        { "wisp_model_reload_failures_total", "counter", "Files that were not taken." },
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        head(t, rows[k].name, rows[k].type, rows[k].help);
        for (size_t i = 0; i < models->n; i++) {
            struct slot *slot = &models->slots[i];
            struct served *s = models_take(models, slot);
            const double values[] = { s ? (double)s->version : 0, s != NULL,
                                      s ? s->loaded_s : 0,        s ? s->load_s : 0,
                                      s ? (double)s->bytes : 0,   (double)slot->n_rows,
                                      (double)slot->n_failed };
            text_print(t, "%s{model=\"%s\"} %.15g\n", rows[k].name, slot->name, values[k]);
            served_free(s);
        }
    }
}

static void put_one(struct text *t, const char *name, const char *type, const char *help, double x)
{
    head(t, name, type, help);
    text_print(t, "%s %.15g\n", name, x);
}

static double resident_bytes(void)
{
    unsigned long all = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%lu %lu", &all, &resident) != 2) resident = 0;
    if (f) fclose(f);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

void route_metrics(struct http_request *r)
{
    struct service *s = r->arg;
    struct text *t = &r->answer.body;
    r->answer.type = "text/plain; version=0.0.4; charset=utf-8";
    put_requests(t, &s->metrics);
    head(t, "wisp_batch_rows", "histogram", "Rows predicted by one call.");
    put_histogram(t, "wisp_batch_rows", "", &s->metrics.batch, batches, N_BATCHES);
    put_models(t, &s->models);
    put_one(t, "wisp_queue_rows", "gauge", "Rows that wait.", (double)queue_rows(s->queue));
    put_one(t, "wisp_connections", "gauge", "Connections that are open.",
            (double)http_connections(r->server));
    put_one(t, "wisp_connections_refused_total", "counter", "Connections beyond --max-connections.",
            (double)http_refused(r->server));
    put_one(t, "wisp_requests_late_total", "counter",
            "Requests that took longer than --header-time to arrive.",
            (double)http_late(r->server));
    put_one(t, "process_resident_memory_bytes", "gauge", "Memory of the process.",
            resident_bytes());
    put_one(t, "process_start_time_seconds", "gauge", "When it began.", s->metrics.begun_s);
    text_print(t,
               "# HELP wisp_build_info The version of wisp.\n# TYPE wisp_build_info gauge\n"
               "wisp_build_info{version=\"%s\"} 1\n",
               wisp_version());
}

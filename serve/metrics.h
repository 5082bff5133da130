/* What a server counts, as Prometheus reads it. */
#ifndef WISP_SERVE_METRICS_H
#define WISP_SERVE_METRICS_H

#include "serve/http.h"

#include <stdatomic.h>

enum { N_STATUSES = 13, N_TIMES = 16, N_BATCHES = 13, MOST_ROUTES = 24 };

struct histogram {
    atomic_ullong in[N_TIMES + 1]; /* values up to each bound, and those beyond */
    _Atomic uint64_t sum;          /* in millionths */
};

struct metrics {
    const struct http_route *routes;
    size_t n_routes;
    atomic_ullong requests[MOST_ROUTES + 1][N_STATUSES + 1]; /* the last of each: any other */
    struct histogram seconds[MOST_ROUTES + 1];
    struct histogram batch;
    double begun_s;
};

void metrics_init(struct metrics *m, const struct http_route *routes, size_t n);
void metrics_seen(struct metrics *m, const struct http_request *r, double seconds);
void metrics_batch(struct metrics *m, size_t n_rows);

#endif

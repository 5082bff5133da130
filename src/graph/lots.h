/* The first layers of a net, a lot of samples at a time: a search for how many layers, and how many
 * samples.  Who searches says what is possible, and what it comes to: model/lots.c, cuda/work.cu. */
#ifndef WISP_GRAPH_LOTS_H
#define WISP_GRAPH_LOTS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wisp_lots_choice {
    int first;      /* so many layers, 0: none, */
    size_t samples; /* and so many samples at a time */
    size_t bytes;   /* out: that a step takes then, */
    double us;      /* and microseconds that go into doing things twice */
};

struct wisp_lots_search {
    int n_layers;
    size_t batch, limit; /* limit: of bytes */
    bool (*can_end)(void *arg, int first);
    /* Sets what comes out, and leaves the step planned so. */
    wisp_status (*place)(void *arg, struct wisp_lots_choice *c, wisp_error *err);
    void *arg;
};

/* Leaves the step planned by the cheapest choice that keeps to the limit, or else the smallest; what
 * it was planned by before, 'now', is one of them. */
wisp_status wisp_lots_choose(const struct wisp_lots_search *s, struct wisp_lots_choice now,
                             wisp_error *err);

#ifdef __cplusplus
}
#endif

#endif

/* The order of rows in an epoch: shuffled, deterministic, and bounded in memory.
 *
 * Blocks of the data set are taken in a random order, as many at once as fit the memory limit (a
 * window); the rows of a window are shuffled.  With no limit the window is the whole set and
 * the shuffle is perfect.  Leaving a window gives its pages back to the system. */
#ifndef WISP_MODEL_ORDER_H
#define WISP_MODEL_ORDER_H

#include "data/data.h"

struct wisp_order {
    const struct wisp_data *d;
    uint64_t seed;
    double holdout; /* share of rows left out, for validation */
    size_t memory;  /* bytes of blocks in a window; 0: all */
    size_t n_rows;  /* rows an epoch has */
    int epoch;
    size_t *blocks;             /* (n_blocks) in this epoch's order */
    size_t next_block;          /* first block of the next window */
    size_t window_first;        /* first block of this window */
    size_t *rows, n, at;        /* this window's rows, shuffled; next to hand out */
    size_t cap;
};

wisp_status wisp_order_init(struct wisp_order *o, const struct wisp_data *d, uint64_t seed,
                            double holdout, size_t memory, wisp_error *err);
void wisp_order_clear(struct wisp_order *o);
void wisp_order_start(struct wisp_order *o, int epoch);
/* Up to 'room' further rows; 0 at the end of the epoch. */
size_t wisp_order_next(struct wisp_order *o, size_t *rows, size_t room);
/* The rows held out, ascending: n of them into *rows (freed by the caller). */
wisp_status wisp_order_held_out(size_t **rows, size_t *n, const struct wisp_order *o, wisp_error *err);

#endif

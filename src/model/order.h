/* The order of rows in an epoch: shuffled, deterministic, and bounded in memory.
 *
 * Blocks of the data set are taken in a random order, as many at once as fit the memory limit (a
 * window); the rows of a window are shuffled.  With no limit the window is the whole set and
 * the shuffle is perfect.  With one, the window's blocks are copied out of the mapped file into a
 * buffer of that size, since what the system keeps mapped cannot be bounded from here. */
#ifndef WISP_MODEL_ORDER_H
#define WISP_MODEL_ORDER_H

#include "data/data.h"

struct wisp_order {
    struct wisp_data d; /* the set; blocks of the window may be views into 'window' */
    const struct wisp_data *source;
    unsigned char *window; /* (window_bytes), or NULL: no limit, or nothing mapped */
    size_t window_bytes;
    uint64_t seed, split; /* of the shuffling; of the choice of rows left out */
    double holdout;       /* share of rows left out, for validation */
    size_t memory;        /* bytes of a window; 0: all */
    size_t n_rows;        /* rows an epoch has */
    int epoch;
    size_t *blocks;       /* (n_blocks) in this epoch's order */
    size_t *sizes, *kept; /* (n_blocks) bytes of each block, rows not held out */
    size_t next_block;    /* first place in 'blocks' of the next window */
    size_t *rows, n, at;  /* this window's rows, shuffled; next to hand out */
    bool ready;           /* started and loaded, but nothing handed out yet */
};

wisp_status wisp_order_init(struct wisp_order *o, const struct wisp_data *d, uint64_t seed,
                            uint64_t split, double holdout, size_t memory, wisp_error *err);
void wisp_order_clear(struct wisp_order *o);
void wisp_order_start(struct wisp_order *o, int epoch);
/* Does the work of starting an epoch ahead of time, when the one before is handed out; its start,
 * which follows, then takes no time. */
void wisp_order_ready(struct wisp_order *o, int epoch);
/* Up to 'room' further rows of o->d, fewer at the end of a window; 0 at the end of the epoch. */
size_t wisp_order_next(struct wisp_order *o, size_t *rows, size_t room);
/* How many batches an epoch has; starts it. */
size_t wisp_order_steps(struct wisp_order *o, int epoch, size_t batch);
/* Is this row of the set trained on: neither held out nor of weight 0? */
bool wisp_order_trains(const struct wisp_order *o, size_t row);
/* The rows held out, as a set in memory. */
wisp_status wisp_order_held_out(struct wisp_data **out, const struct wisp_order *o,
                                wisp_error *err);

#endif

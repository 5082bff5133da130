/* Shuffling by windows of blocks. */
#include "model/order.h"
#include "base/mem.h"
#include "base/rand.h"

static bool held_out(const struct wisp_order *o, size_t row)
{
    return o->holdout > 0 && wisp_rand_unit(o->seed, WISP_STREAM_HOLDOUT, row) < o->holdout;
}

static size_t block_bytes(const struct wisp_rows *r)
{
    return 8 * (r->n + 1) + 8 * (size_t)r->xp[r->n] + 4 * (size_t)r->yp[r->n];
}

/* Where the window that starts at place 'first' of the block order ends. */
static size_t window_end(const struct wisp_order *o, size_t first)
{
    size_t bytes = 0, i = first;
    for (; i < o->d->n_blocks; i++) {
        bytes += block_bytes(&o->d->blocks[o->blocks[i]]);
        if (o->memory && bytes > o->memory && i > first) break;
    }
    return i;
}

wisp_status wisp_order_init(struct wisp_order *o, const struct wisp_data *d, uint64_t seed,
                            double holdout, size_t memory, wisp_error *err)
{
    *o = (struct wisp_order){ .d = d, .seed = seed, .holdout = holdout, .memory = memory };
    o->blocks = wisp_alloc(d->n_blocks, sizeof *o->blocks);
    if (!o->blocks) return wisp_fail_mem(err, d->n_blocks * sizeof *o->blocks, "the order of rows");
    size_t most = 0;
    for (size_t i = 0; i < d->n_blocks; i++) {
        o->blocks[i] = i;
        if (d->blocks[i].n > most) most = d->blocks[i].n;
    }
    /* Rows of any window: all of them, or what the limit holds of the leanest rows (12 bytes). */
    o->cap = d->n_rows;
    if (memory && memory / 8 + most < o->cap) o->cap = memory / 8 + most;
    o->rows = wisp_alloc(o->cap, sizeof *o->rows);
    if (!o->rows) {
        wisp_order_clear(o);
        return wisp_fail_mem(err, d->n_rows * sizeof *o->rows, "the order of rows");
    }
    for (size_t r = 0; r < d->n_rows; r++) o->n_rows += !held_out(o, r);
    return WISP_OK;
}

void wisp_order_clear(struct wisp_order *o)
{
    wisp_free(o->blocks);
    wisp_free(o->rows);
    *o = (struct wisp_order){ 0 };
}

/* Fisher-Yates with the run's counter-based numbers. */
static void shuffle(size_t *x, size_t n, uint64_t seed, uint64_t stream)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = wisp_rand_below(seed, stream, i, i), t = x[i - 1];
        x[i - 1] = x[j];
        x[j] = t;
    }
}

static uint64_t stream_of(int epoch, size_t window)
{
    return WISP_STREAM_SHUFFLE + ((uint64_t)epoch << 8) + ((uint64_t)window << 40);
}

void wisp_order_start(struct wisp_order *o, int epoch)
{
    o->epoch = epoch;
    for (size_t i = 0; i < o->d->n_blocks; i++) o->blocks[i] = i;
    shuffle(o->blocks, o->d->n_blocks, o->seed, stream_of(epoch, 0));
    o->next_block = o->window_first = o->n = o->at = 0;
}

static void load_window(struct wisp_order *o)
{
    const struct wisp_data *d = o->d;
    bool partial = o->memory && d->map.p;
    if (partial)
        for (size_t i = o->window_first; i < o->next_block; i++)
            wisp_map_forget(d->blocks[o->blocks[i]].xp, block_bytes(&d->blocks[o->blocks[i]]));
    o->window_first = o->next_block;
    o->next_block = window_end(o, o->window_first);
    o->n = o->at = 0;
    for (size_t i = o->window_first; i < o->next_block; i++) {
        size_t b = o->blocks[i];
        if (partial) wisp_map_fetch(d->blocks[b].xp, block_bytes(&d->blocks[b]));
        for (size_t r = d->first[b]; r < d->first[b + 1]; r++)
            if (!held_out(o, r)) o->rows[o->n++] = r;
    }
    shuffle(o->rows, o->n, o->seed, stream_of(o->epoch, o->window_first + 1));
}

size_t wisp_order_next(struct wisp_order *o, size_t *rows, size_t room)
{
    size_t got = 0;
    while (got < room) {
        if (o->at == o->n) {
            if (o->next_block == o->d->n_blocks) break;
            load_window(o);
            continue;
        }
        rows[got++] = o->rows[o->at++];
    }
    return got;
}

wisp_status wisp_order_held_out(size_t **rows, size_t *n, const struct wisp_order *o, wisp_error *err)
{
    size_t count = o->d->n_rows - o->n_rows;
    *n = 0;
    *rows = wisp_alloc(count, sizeof **rows);
    if (!*rows) return wisp_fail_mem(err, count * sizeof **rows, "the validation rows");
    for (size_t r = 0; r < o->d->n_rows; r++)
        if (held_out(o, r)) (*rows)[(*n)++] = r;
    return WISP_OK;
}

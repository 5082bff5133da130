/* Shuffling by windows of blocks. */
#include "model/order.h"
#include "base/bounds.h"
#include "base/mem.h"
#include "base/rand.h"
#include "graph/ids.h"

#include <string.h>

/* Rows of weight 0 are in no part. */
static bool counts(const struct wisp_order *o, size_t row)
{
    return !o->d.weights || o->d.weights[row] > 0;
}

static bool held_out(const struct wisp_order *o, size_t row)
{
    return o->holdout > 0 && counts(o, row) &&
           wisp_rand_unit(o->split, WISP_STREAM_HOLDOUT, row) < o->holdout;
}

bool wisp_order_trains(const struct wisp_order *o, size_t row)
{
    return counts(o, row) && !held_out(o, row);
}

/* Where the window that starts at place 'first' of the block order ends. */
static size_t window_end(const struct wisp_order *o, size_t first)
{
    if (!o->memory) return o->d.n_blocks;
    size_t bytes = 0, i = first;
    for (; i < o->d.n_blocks; i++) {
        bytes += o->sizes[o->blocks[i]];
        if (bytes > o->memory && i > first) break;
    }
    return i;
}

/* The list of blocks, their sizes, and room for a window of them. */
static wisp_status make_windows(struct wisp_order *o, wisp_error *err)
{
    const struct wisp_data *d = o->source;
    size_t n = d->n_blocks, largest = 0;
    o->blocks = wisp_alloc(n, sizeof *o->blocks);
    o->sizes = wisp_alloc(n, sizeof *o->sizes);
    o->kept = wisp_zalloc(n, sizeof *o->kept);
    o->d.blocks = wisp_alloc(n, sizeof *o->d.blocks);
    if (!o->blocks || !o->sizes || !o->kept || !o->d.blocks)
        return wisp_fail_mem(err, n * 64, "the order of rows");
    memcpy(o->d.blocks, d->blocks, n * sizeof *d->blocks);
    for (size_t i = 0; i < n; i++) {
        o->sizes[i] = (wisp_rows_bytes(&d->blocks[i]) + 63) & ~(size_t)63;
        if (o->sizes[i] > largest) largest = o->sizes[i];
        if (o->memory) wisp_data_forget(d, i);
        for (size_t r = d->first[i]; r < d->first[i + 1]; r++)
            o->kept[i] += wisp_order_trains(o, r);
        o->n_rows += o->kept[i];
    }
    if (!o->memory || !d->map.slot) return WISP_OK; /* else in memory */
    o->window_bytes = o->memory > largest ? o->memory : largest;
    if (o->window_bytes > d->bytes) o->window_bytes = d->bytes + 64 * n;
    o->window = wisp_alloc(o->window_bytes, 1);
    return o->window ? WISP_OK : wisp_fail_mem(err, o->window_bytes, "a window of rows (--memory)");
}

/* Room for the row numbers of any window: the most rows that fit. */
static size_t most_rows(const struct wisp_order *o)
{
    size_t all = o->d.n_rows;
    if (!o->memory) return all;
    size_t most = o->memory / 8; /* no row takes less than its two offsets */
    for (size_t i = 0; i < o->d.n_blocks; i++)
        if (o->d.blocks[i].n > most) most = o->d.blocks[i].n;
    return most < all ? most : all;
}

wisp_status wisp_order_init(struct wisp_order *o, const struct wisp_data *d, uint64_t seed,
                            uint64_t split, double holdout, size_t memory, wisp_error *err)
{
    *o = (struct wisp_order){
        .d = *d, .source = d, .seed = seed, .split = split, .holdout = holdout, .memory = memory
    };
    o->d.blocks = NULL;
    wisp_status st = make_windows(o, err);
    if (st == WISP_OK && !(o->rows = wisp_alloc(most_rows(o), sizeof *o->rows)))
        st = wisp_fail_mem(err, most_rows(o) * sizeof *o->rows, "the order of rows");
    if (st != WISP_OK) {
        wisp_order_clear(o);
        return st;
    }
    return WISP_OK;
}

void wisp_order_clear(struct wisp_order *o)
{
    wisp_free(o->blocks);
    wisp_free(o->sizes);
    wisp_free(o->kept);
    wisp_free(o->d.blocks);
    wisp_free(o->rows);
    wisp_free(o->window);
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
    return wisp_stream(WISP_STREAM_SHUFFLE, (uint64_t)epoch) + ((uint64_t)window << 40);
}

void wisp_order_start(struct wisp_order *o, int epoch)
{
    if (o->ready && o->epoch == epoch) return;
    o->ready = false;
    o->epoch = epoch;
    for (size_t i = 0; i < o->d.n_blocks; i++) o->blocks[i] = i;
    shuffle(o->blocks, o->d.n_blocks, o->seed, stream_of(epoch, 0));
    o->next_block = o->n = o->at = 0;
}

static void copy_window(struct wisp_order *o, size_t first, size_t end)
{
    size_t at = 0;
    for (size_t i = first; i < end; i++) {
        size_t b = o->blocks[i];
        o->d.blocks[b] = wisp_rows_copy(o->window + at, &o->source->blocks[b]);
        at += o->sizes[b];
        wisp_map_forget(&o->source->map, o->source->map.p, o->source->map.bytes);
    }
}

static void load_window(struct wisp_order *o)
{
    size_t first = o->next_block, end = o->next_block = window_end(o, first);
    if (o->window) copy_window(o, first, end);
    o->n = o->at = 0;
    for (size_t i = first; i < end; i++)
        for (size_t r = o->d.first[o->blocks[i]]; r < o->d.first[o->blocks[i] + 1]; r++)
            if (wisp_order_trains(o, r)) o->rows[o->n++] = r;
    shuffle(o->rows, o->n, o->seed, stream_of(o->epoch, first + 1));
}

void wisp_order_ready(struct wisp_order *o, int epoch)
{
    wisp_order_start(o, epoch);
    if (!o->ready && o->next_block < o->d.n_blocks) load_window(o);
    o->ready = true;
}

size_t wisp_order_next(struct wisp_order *o, size_t *rows, size_t room)
{
    o->ready = false;
    while (o->at == o->n) {
        if (o->next_block == o->d.n_blocks) return 0;
        load_window(o);
    }
    size_t n = o->n - o->at < room ? o->n - o->at : room;
    memcpy(rows, o->rows + o->at, n * sizeof *rows);
    o->at += n;
    return n;
}

size_t wisp_order_steps(struct wisp_order *o, int epoch, size_t batch)
{
    size_t steps = 0;
    wisp_order_start(o, epoch);
    for (size_t i = 0; i < o->d.n_blocks;) {
        size_t rows = 0, end = window_end(o, i);
        for (; i < end; i++) rows += o->kept[o->blocks[i]];
        steps += wisp_parts(rows, batch);
    }
    return steps;
}

static bool want_held_out(const void *arg, size_t row)
{
    return held_out(arg, row);
}

wisp_status wisp_order_held_out(struct wisp_data **out, const struct wisp_order *o, wisp_error *err)
{
    return wisp_data_pick(out, o->source, want_held_out, o, err);
}

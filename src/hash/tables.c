/* Building flat tables. */
#include "hash/tables.h"
#include "base/rand.h"

#include <string.h>

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

size_t wisp_tables_bytes(struct wisp_tables *t, size_t *keys, size_t *start, size_t *rows)
{
    size_t n_buckets = (size_t)1 << t->bits;
    t->room = t->cap && t->cap < t->n_rows / n_buckets ? t->cap * n_buckets : t->n_rows;
    *keys =
        round_up(t->n_tables * t->n_rows * (t->bits <= 16 ? sizeof(uint16_t) : sizeof(uint32_t)));
    *start = round_up(t->n_tables * (n_buckets + 1) * sizeof *t->start);
    *rows = round_up(t->n_tables * t->room * sizeof *t->rows);
    return *keys + *start + *rows;
}

void wisp_tables_set_key(struct wisp_tables *t, size_t table, size_t row, uint32_t key)
{
    size_t at = table * t->n_rows + row;
    if (t->bits <= 16) ((uint16_t *)t->keys)[at] = (uint16_t)key;
    else ((uint32_t *)t->keys)[at] = key;
}

uint32_t wisp_tables_key(const struct wisp_tables *t, size_t table, size_t row)
{
    size_t at = table * t->n_rows + row;
    return t->bits <= 16 ? ((uint16_t *)t->keys)[at] : ((uint32_t *)t->keys)[at];
}

struct fill { /* one table being built */
    const struct wisp_tables *t;
    size_t table;
    const uint32_t *start; /* (n_buckets + 1) */
    uint32_t *count;       /* (n_buckets) */
    int32_t *rows;
};

/* 'count' holds what is still to come of each bucket; the last 'kept' of these stay. */
static void fill_newest(const struct fill *f, size_t from, size_t to)
{
    for (size_t row = from; row < to; row++) {
        uint32_t key = wisp_tables_key(f->t, f->table, row), left = f->count[key]--;
        if (left <= f->start[key + 1] - f->start[key])
            f->rows[f->start[key + 1] - left] = (int32_t)row;
    }
}

/* 'count' holds how many have come: the i-th replaces one of 'kept' with probability kept / i. */
static void fill_reservoir(const struct fill *f, size_t from, size_t to, uint64_t seed,
                           uint64_t stream)
{
    for (size_t row = from; row < to; row++) {
        uint32_t key = wisp_tables_key(f->t, f->table, row), came = f->count[key]++;
        uint32_t kept = f->start[key + 1] - f->start[key];
        uint64_t at = came;
        if (came >= kept)
            at = wisp_rand_below(seed, stream, f->table * f->t->n_rows + row, (uint64_t)came + 1);
        if (at < kept) f->rows[f->start[key] + at] = (int32_t)row;
    }
}

void wisp_tables_build(struct wisp_tables *t, size_t table, size_t first, uint32_t *count,
                       uint64_t seed, uint64_t stream)
{
    size_t n_buckets = (size_t)1 << t->bits;
    uint32_t *start = t->start + table * (n_buckets + 1);
    struct fill f = { t, table, start, count, t->rows + table * t->room };
    memset(count, 0, n_buckets * sizeof *count);
    for (size_t row = 0; row < t->n_rows; row++) count[wisp_tables_key(t, table, row)]++;
    start[0] = 0;
    for (size_t b = 0; b < n_buckets; b++)
        start[b + 1] = start[b] + (t->cap && count[b] > t->cap ? (uint32_t)t->cap : count[b]);
    if (t->reservoir) {
        memset(count, 0, n_buckets * sizeof *count);
        fill_reservoir(&f, first, t->n_rows, seed, stream);
        fill_reservoir(&f, 0, first, seed, stream);
    } else {
        fill_newest(&f, first, t->n_rows);
        fill_newest(&f, 0, first);
    }
}

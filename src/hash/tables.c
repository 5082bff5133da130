/* Making flat tables. */
#include "hash/tables.h"
#include "base/bounds.h"
#include "base/rand.h"

#include <assert.h>
#include <string.h>

/* An entry is (low bits of the key) << PLACE_BITS | place in the block.  A block is an odd number
 * of PIECE rows where it can be: the same part of all blocks is read together, and blocks a power
 * of two apart would fall into the same few sets of a cache. */
enum { PLACE_BITS = 11, PIECE = 64, MOST_BLOCK = 31 * PIECE, LEAST_BLOCKS = 64, MOST_PARTS = 8 };
enum { PART_BUCKETS = 12, PART_ROWS = 13 }; /* as bits: what a part should have at most */

/* ---- sizes ---- */

static int log2_down(size_t n)
{
    int bits = 0;
    while (n >>= 1) bits++;
    return bits;
}

static size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static int part_bits(const struct wisp_tables *t)
{
    int by_buckets = t->bits - PART_BUCKETS, by_rows = log2_down(t->n_rows) - PART_ROWS;
    int bits = by_buckets > by_rows ? by_buckets : by_rows;
    if (bits > MOST_PARTS) bits = MOST_PARTS;
    if (bits > t->bits) bits = t->bits;
    return bits > 0 ? bits : 0;
}

void wisp_tables_lay(struct wisp_tables *t, struct wisp_cut *c)
{
    size_t n_buckets = (size_t)1 << t->bits;
    t->low_bits = t->bits - part_bits(t);
    t->n_parts = n_buckets >> t->low_bits;
    assert(t->low_bits <= 32 - PLACE_BITS);
    t->block = min(wisp_up(t->n_rows / LEAST_BLOCKS + 1, PIECE), MOST_BLOCK);
    t->n_blocks = wisp_parts(t->n_rows, t->block);
    t->room = t->cap && t->cap < t->n_rows / n_buckets ? t->cap * n_buckets : t->n_rows;
    t->entry_bytes = wisp_up(t->n_tables * t->n_blocks * t->block * sizeof *t->entry, 64);
    t->cut_bytes = wisp_up(t->n_tables * t->n_blocks * (t->n_parts + 1) * sizeof *t->cut, 64);
    t->total_bytes = wisp_up(t->n_tables * t->n_parts * sizeof *t->total, 64);
    t->start_bytes = wisp_up(t->n_tables * (n_buckets + t->n_parts) * sizeof **t->start, 64);
    t->row_bytes = wisp_up(t->n_tables * t->room * sizeof **t->rows, 64);
    t->entry = wisp_cut_take(c, t->entry_bytes, 1);
    t->cut = wisp_cut_take(c, t->cut_bytes, 1);
    t->total = wisp_cut_take(c, t->total_bytes, 1);
    t->start[0] = wisp_cut_take(c, 2 * t->start_bytes, 1); /* a checkpoint has both sets as one */
    t->rows[0] = wisp_cut_take(c, 2 * t->row_bytes, 1);
    if (!c->block) return;
    t->start[1] = t->start[0] + t->start_bytes / sizeof **t->start;
    t->rows[1] = t->rows[0] + t->row_bytes / sizeof **t->rows;
}

/* ---- blocks ---- */

void wisp_tables_begin(struct wisp_tables *t)
{
    memset(t->total, 0, t->total_bytes);
}

void wisp_tables_sort(struct wisp_tables *t, size_t table, size_t block)
{
    uint32_t key[MOST_BLOCK], at[1 << MOST_PARTS] = { 0 }, mask = (1u << t->low_bits) - 1;
    size_t n = min(t->n_rows - block * t->block, t->block);
    uint32_t *entry = wisp_tables_keys(t, table, block * t->block);
    uint32_t *total = t->total + table * t->n_parts;
    uint16_t *cut = t->cut + (table * t->n_blocks + block) * (t->n_parts + 1);
    memcpy(key, entry, n * sizeof *key);
    for (size_t i = 0; i < n; i++) at[key[i] >> t->low_bits]++;
    uint32_t sum = 0;
    for (size_t p = 0; p < t->n_parts; p++) {
        uint32_t here = at[p];
        cut[p] = (uint16_t)sum;
        at[p] = sum;
        sum += here;
        total[p] += here;
    }
    cut[t->n_parts] = (uint16_t)sum;
    for (size_t i = 0; i < n; i++)
        entry[at[key[i] >> t->low_bits]++] = (key[i] & mask) << PLACE_BITS | (uint32_t)i;
}

/* ---- parts ---- */

struct part { /* being filled */
    const struct wisp_tables *t;
    const struct wisp_filling *f;
    size_t table;
    const uint32_t *entry; /* (n_blocks, block) */
    const uint16_t *cut;   /* this part's in block 0 */
    uint32_t *start;       /* (2^low_bits + 1) */
    uint32_t *count;       /* (2^low_bits) */
    int32_t *rows;         /* of the table */
};

/* The part's entries in a block; those of a block to come are fetched. */
static const uint32_t *piece(const struct part *p, size_t block, size_t *n)
{
    enum { AHEAD = 4, LINE = 16 };
    const struct wisp_tables *t = p->t;
    const uint16_t *cut = p->cut + block * (t->n_parts + 1);
    if (block + AHEAD < t->n_blocks) {
        const uint32_t *next = p->entry + (block + AHEAD) * t->block + cut[0];
        __builtin_prefetch(next);
        __builtin_prefetch(next + LINE);
    }
    *n = (size_t)(cut[1] - cut[0]);
    return p->entry + block * t->block + cut[0];
}

/* first + place, around the end; 'base' is that of the block. */
static int32_t row_of(const struct part *p, size_t base, uint32_t entry)
{
    size_t row = base + (entry & ((1u << PLACE_BITS) - 1));
    return (int32_t)(row < p->t->n_rows ? row : row - p->t->n_rows);
}

static void count_rows(const struct part *p)
{
    memset(p->count, 0, sizeof *p->count << p->t->low_bits);
    for (size_t b = 0, n; b < p->t->n_blocks; b++) {
        const uint32_t *entry = piece(p, b, &n);
        for (size_t i = 0; i < n; i++) p->count[entry[i] >> PLACE_BITS]++;
    }
}

/* 'count' holds what is still to come of each bucket; the last of these stay. */
static void fill_newest(const struct part *p)
{
    for (size_t b = 0, n; b < p->t->n_blocks; b++) {
        const uint32_t *entry = piece(p, b, &n);
        size_t base = p->f->first + b * p->t->block;
        for (size_t i = 0; i < n; i++) {
            uint32_t low = entry[i] >> PLACE_BITS, left = p->count[low]--;
            uint32_t end = p->start[low + 1];
            if (left <= end - p->start[low]) p->rows[end - left] = row_of(p, base, entry[i]);
        }
    }
}

/* 'count' holds how many have come: the i-th replaces one of 'kept' with probability kept / i. */
static void fill_reservoir(const struct part *p)
{
    memset(p->count, 0, sizeof *p->count << p->t->low_bits);
    for (size_t b = 0, n; b < p->t->n_blocks; b++) {
        const uint32_t *entry = piece(p, b, &n);
        size_t base = p->f->first + b * p->t->block;
        for (size_t i = 0; i < n; i++) {
            uint32_t low = entry[i] >> PLACE_BITS, came = p->count[low]++;
            uint32_t kept = p->start[low + 1] - p->start[low];
            int32_t row = row_of(p, base, entry[i]);
            uint64_t at = came;
            if (came >= kept)
                at = wisp_rand_below(p->f->seed, p->f->stream,
                                     p->table * p->t->n_rows + (size_t)row, (uint64_t)came + 1);
            if (at < kept) p->rows[p->start[low] + at] = row;
        }
    }
}

void wisp_tables_fill(const struct wisp_tables *t, const struct wisp_filling *f, size_t table,
                      size_t part, uint32_t *count)
{
    size_t n = (size_t)1 << t->low_bits, cap = t->cap ? t->cap : t->n_rows;
    const uint32_t *total = t->total + table * t->n_parts;
    struct part p = {
        .t = t,
        .f = f,
        .table = table,
        .entry = wisp_tables_keys(t, table, 0),
        .cut = t->cut + table * t->n_blocks * (t->n_parts + 1) + part,
        .start = t->start[f->set] + (table * t->n_parts + part) * (n + 1),
        .count = count,
        .rows = t->rows[f->set] + table * t->room,
    };
    count_rows(&p);
    size_t at = 0; /* parts before this one have at most so many */
    for (size_t i = 0; i < part; i++) at += min(total[i], cap * n);
    for (size_t b = 0; b < n; b++) {
        p.start[b] = (uint32_t)at;
        __builtin_prefetch(p.rows + at, 1); /* to be filled in no order */
        at += min(count[b], cap);
    }
    p.start[n] = (uint32_t)at;
    if (t->reservoir) fill_reservoir(&p);
    else fill_newest(&p);
}

/* ---- after a file was read ---- */

static bool buckets_are_good(const struct wisp_tables *t, int set)
{
    const size_t n = (size_t)1 << t->low_bits;
    bool good = true;
    for (size_t p = 0; p < t->n_tables * t->n_parts; p++) {
        const uint32_t *start = t->start[set] + p * (n + 1);
        for (size_t b = 0; b < n; b++) good &= start[b] <= start[b + 1];
        good &= start[n] <= t->room;
    }
    for (size_t i = 0; i < t->n_tables * t->room; i++)
        good &= t->rows[set][i] >= 0 && (size_t)t->rows[set][i] < t->n_rows;
    return good;
}

/* A sorted block: its parts, which are added to 'total', and places in it. */
static bool sorted_is_good(const struct wisp_tables *t, size_t table, size_t block, uint32_t *total)
{
    const uint16_t *cut = t->cut + (table * t->n_blocks + block) * (t->n_parts + 1);
    const uint32_t *entry = wisp_tables_keys(t, table, block * t->block);
    const size_t n = min(t->n_rows - block * t->block, t->block);
    bool good = cut[0] == 0 && cut[t->n_parts] == n;
    for (size_t p = 0; p < t->n_parts; p++) {
        good &= cut[p] <= cut[p + 1];
        total[p] += (uint32_t)(cut[p + 1] - cut[p]);
    }
    for (size_t i = 0; i < n; i++)
        good &=
            entry[i] >> PLACE_BITS >> t->low_bits == 0 && (entry[i] & ((1u << PLACE_BITS) - 1)) < n;
    return good;
}

bool wisp_tables_are_good(const struct wisp_tables *t, size_t hashed)
{
    const size_t sorted = hashed < t->n_rows ? hashed / t->block : t->n_blocks;
    for (size_t table = 0; table < t->n_tables; table++) {
        uint32_t total[1 << MOST_PARTS] = { 0 };
        for (size_t b = 0; b < sorted; b++)
            if (!sorted_is_good(t, table, b, total)) return false;
        if (memcmp(total, t->total + table * t->n_parts, t->n_parts * sizeof *total) != 0)
            return false;
        const uint32_t *key = wisp_tables_keys(t, table, 0); /* hashed, in no whole block */
        for (size_t i = sorted * t->block; i < hashed; i++)
            if (key[i] >> t->bits != 0) return false;
    }
    return buckets_are_good(t, 0) && buckets_are_good(t, 1);
}

/* Flat hash tables over the rows of a layer, made in small pieces.
 *
 * A table is the rows sorted by their keys, by counting, in two passes: every piece of the work is
 * small, stays in a cache and has one owner, so it can be spread over steps and threads.
 *
 *     keys   the caller writes the keys of a block of rows, table by table
 *     sort   a block of one table: by part, that is by the high bits of the keys
 *     fill   a part of one table: the rows of all blocks into its buckets
 *
 *     entry  block 0 [part 0|part 1|...]  block 1 [part 0|part 1|...]  ...
 *     start  part 0 [bucket, bucket, ..., end]  part 1 [bucket, bucket, ..., end]  ...
 *     rows   part 0 ............................ part 1 ............................ ...
 *
 * Rows come in the order first, first + 1, ..., n_rows - 1, 0, ..., first - 1; their places are
 * counted in it.  Of a bucket with more than 'cap' rows the newest stay, those that come last, or a
 * random choice; with another 'first' for each build no row is always left out.
 *
 * There are two sets of tables, one in use and one being made. */
#ifndef WISP_HASH_TABLES_H
#define WISP_HASH_TABLES_H

#include "base/cut.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wisp_tables {
    size_t n_rows, n_tables;
    int bits;       /* 2^bits buckets */
    size_t cap;     /* most rows a bucket holds; 0: all */
    bool reservoir; /* a full bucket keeps a random choice, not the newest */
    /* wisp_tables_lay sets all below */
    int low_bits; /* of a key: which bucket of its part */
    size_t n_parts, block, n_blocks;
    size_t room; /* rows that a table can hold */
    size_t entry_bytes, cut_bytes, total_bytes, start_bytes, row_bytes;
    uint32_t *entry; /* (n_tables, n_blocks, block) a key; once sorted its low bits and the place */
    uint16_t *cut;   /* (n_tables, n_blocks, n_parts + 1) where parts begin in a sorted block */
    uint32_t *total; /* (n_tables, n_parts) rows of the part in the sorted blocks */
    uint32_t *start[2]; /* (n_tables, n_parts, 2^low_bits + 1) where buckets begin in 'rows' */
    int32_t *rows[2];   /* (n_tables, room) */
};

/* Sizes, from the first five fields, and the arrays as the next parts of a block of zero bytes. */
void wisp_tables_lay(struct wisp_tables *t, struct wisp_cut *c);

/* Begins a build: no block is sorted. */
void wisp_tables_begin(struct wisp_tables *t);
/* Where the keys of the rows from a place on belong, before their block is sorted. */
static inline uint32_t *wisp_tables_keys(const struct wisp_tables *t, size_t table, size_t place)
{
    return t->entry + table * t->n_blocks * t->block + place;
}
/* Once a build for each block; a table has one owner. */
void wisp_tables_sort(struct wisp_tables *t, size_t table, size_t block);

struct wisp_filling {
    int set;
    size_t first;          /* row */
    uint64_t seed, stream; /* of what a reservoir keeps */
};
/* After all blocks are sorted.  'count' (2^low_bits) is work space. */
void wisp_tables_fill(const struct wisp_tables *t, const struct wisp_filling *f, size_t table,
                      size_t part, uint32_t *count);

/* Of tables that came from a file, 'hashed' rows of which are hashed and their whole blocks sorted:
 * is all of both sets, and of what is being made, within its bounds? */
bool wisp_tables_are_good(const struct wisp_tables *t, size_t hashed);

static inline const uint32_t *wisp_tables_start(const struct wisp_tables *t, int set, size_t table,
                                                uint32_t key)
{
    size_t n = ((size_t)1 << t->bits) + t->n_parts;
    return t->start[set] + table * n + key + (key >> t->low_bits);
}

/* Rows of a bucket, oldest first; a reservoir's in no order. */
static inline const int32_t *wisp_tables_bucket(const struct wisp_tables *t, int set, size_t table,
                                                uint32_t key, size_t *n)
{
    const uint32_t *start = wisp_tables_start(t, set, table, key);
    *n = start[1] - start[0];
    return t->rows[set] + table * t->room + start[0];
}

#endif

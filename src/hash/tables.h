/* Flat hash tables over the rows of a layer: no pointers, three arrays.
 *
 *     keys  (n_tables, n_rows)       the bucket that each row belongs to, kept up to date
 *     start (n_tables, n_buckets+1)  bucket b of table t: rows + t * room,
 *     rows  (n_tables, room)           start[b] .. start[b+1]-1
 *
 * A build is count, prefix sum, fill; between two builds keys may change while the buckets stay.
 * The arrays lie in a block that the caller holds. */
#ifndef WISP_HASH_TABLES_H
#define WISP_HASH_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wisp_tables {
    size_t n_rows, n_tables;
    int bits;       /* 2^bits buckets */
    size_t cap;     /* most rows a bucket holds; 0: all */
    bool reservoir; /* a full bucket keeps a random choice, not the newest */
    size_t room;    /* rows that a table can hold */
    void *keys;     /* uint16_t up to 16 bits, else uint32_t */
    uint32_t *start;
    int32_t *rows;
};

/* Bytes of the three arrays, each a multiple of 64.  The first five fields must be set; this sets
 * 'room'. */
size_t wisp_tables_bytes(struct wisp_tables *t, size_t *keys, size_t *start, size_t *rows);
void wisp_tables_set_key(struct wisp_tables *t, size_t table, size_t row, uint32_t key);
uint32_t wisp_tables_key(const struct wisp_tables *t, size_t table, size_t row);
/* Fills the buckets of one table from its keys.  Rows go in from 'first' to the last and on from 0
 * to first-1, so those before 'first' are the newest.  'count' (2^bits) is work space; what a
 * reservoir keeps depends on (seed, stream). */
void wisp_tables_build(struct wisp_tables *t, size_t table, size_t first, uint32_t *count,
                       uint64_t seed, uint64_t stream);

/* Rows of a bucket, oldest first; a reservoir's in no order. */
static inline const int32_t *wisp_tables_bucket(const struct wisp_tables *t, size_t table,
                                                uint32_t key, size_t *n)
{
    const uint32_t *start = t->start + table * (((size_t)1 << t->bits) + 1) + key;
    *n = start[1] - start[0];
    return t->rows + table * t->room + start[0];
}

#endif

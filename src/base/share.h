/* Rows of a parameter that are dealt out to several processes by their ids.
 *
 * Of every 'size' consecutive ids each rank has one, and which one is drawn by a hash: so shares
 * differ by at most one row, whatever order ids are in (by frequency, by name) each rank gets its
 * part of it, and a rank's rows ascend with their ids:
 *
 *     ids        0 1 2 | 3 4 5 | 6 7 8 | 9        three ranks, ten rows
 *     rank       0 1 2 | 2 0 1 | 0 1 2 | 1
 *     own row    0 0 0 | 1 1 1 | 2 2 2 | 3
 *
 * A share of one rank is everything, and then a row is its id. */
#ifndef WISP_BASE_SHARE_H
#define WISP_BASE_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wisp_share {
    int rank, size; /* size 0 or 1: all rows are here */
};

static inline bool wisp_share_all(struct wisp_share s)
{
    return s.size <= 1;
}
/* How far the ids of a group are turned. */
static inline size_t wisp_share_turn(struct wisp_share s, size_t group)
{
    return (size_t)(((uint64_t)group * 0x9E3779B97F4A7C15ull) >> 40) % (size_t)s.size;
}
static inline int wisp_share_owner(struct wisp_share s, size_t id)
{
    if (wisp_share_all(s)) return s.rank;
    const size_t size = (size_t)s.size;
    return (int)((id % size + wisp_share_turn(s, id / size)) % size);
}
static inline bool wisp_share_has(struct wisp_share s, size_t id)
{
    return wisp_share_owner(s, id) == s.rank;
}
/* The owner's row of an id. */
static inline size_t wisp_share_row(struct wisp_share s, size_t id)
{
    return wisp_share_all(s) ? id : id / (size_t)s.size;
}
/* The id of a row of this rank. */
static inline size_t wisp_share_id(struct wisp_share s, size_t row)
{
    if (wisp_share_all(s)) return row;
    const size_t size = (size_t)s.size, turn = wisp_share_turn(s, row);
    return row * size + ((size_t)s.rank + size - turn) % size;
}
/* How many of n ids are this rank's. */
static inline size_t wisp_share_rows(struct wisp_share s, size_t n)
{
    if (wisp_share_all(s)) return n;
    const size_t whole = n / (size_t)s.size;
    return whole + (wisp_share_id(s, whole) < n);
}
/* The most that any rank has. */
static inline size_t wisp_share_most(struct wisp_share s, size_t n)
{
    return wisp_share_all(s) ? n : n / (size_t)s.size + (n % (size_t)s.size > 0);
}

#endif

/* The best rows by score, without sorting what loses.
 *
 * A row with its score is one number, a key: larger is better, and of equal scores the smaller row
 * is; a NaN is above all numbers, so that it shows.  A list has room for twice the k rows it is for
 * (and some): keys above the list's limit are appended; when it is full the k best stay, in no
 * order, and the worst of them is the new limit. Lists of parts that are scanned side by side tell
 * each other their limits now and then, which only saves work: at the end they are joined, and
 * neither the parts nor their order nor what they heard shows in the result. */
#ifndef WISP_HASH_BEST_H
#define WISP_HASH_BEST_H

#include "base/cut.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

static inline uint64_t wisp_key(float score, int32_t row)
{
    uint32_t bits;
    score = score == score ? score + 0.0f : NAN; /* -0 and 0 are equal; a NaN is above all */
    memcpy(&bits, &score, sizeof bits);
    bits ^= bits >> 31 ? UINT32_MAX : 0x80000000u;
    return (uint64_t)bits << 32 | (uint32_t)~row;
}
static inline int32_t wisp_key_row(uint64_t key)
{
    return (int32_t) ~(uint32_t)key;
}
static inline float wisp_key_score(uint64_t key)
{
    uint32_t bits = (uint32_t)(key >> 32);
    float score;
    bits ^= bits >> 31 ? 0x80000000u : UINT32_MAX;
    memcpy(&score, &bits, sizeof score);
    return score;
}

/* The n largest of x to its front, in no order. */
void wisp_keys_select(uint64_t *x, size_t size, size_t n);
/* Largest first; for short lists. */
void wisp_keys_sort(uint64_t *x, size_t n);
/* Keys of the (up to) n rows with the best of 'size' scores, best first, without those whose score
 * is NaN; returns how many.  keys (size). */
size_t wisp_keys_best(uint64_t *keys, const float *score, const int32_t *row, size_t size,
                      size_t n);

struct wisp_best { /* lists of n samples */
    size_t n, k, room;
    uint64_t *key;   /* (n, room) */
    uint32_t *count; /* (n) */
    float *limit;    /* (n) a score must be above it, or NaN, to get in */
};

static inline size_t wisp_best_room(size_t k)
{
    return k < 32 ? k + 32 : 2 * k;
}
/* Lists of n samples as the next parts of a block. */
struct wisp_best wisp_best_lay(struct wisp_cut *c, size_t n, size_t k);
/* Empties all lists; 'limit' (n) is where their limits begin, NULL: all rows are welcome. */
void wisp_best_reset(struct wisp_best *b, const float *limit);
void wisp_best_reset_one(struct wisp_best *b, size_t s); /* the list of sample s */
/* Takes over limits that other lists of the same samples told; tells its own.  told (n) begins at
 * -INFINITY, or where the lists' limits do. */
void wisp_best_hear(struct wisp_best *b, _Atomic float *told);
void wisp_best_tell(const struct wisp_best *b, _Atomic float *told);
/* One score of sample s.  A list gets its rows in ascending order: of equal scores at its limit the
 * first stays. */
void wisp_best_add(struct wisp_best *b, size_t s, float v, int32_t row);
/* Scores z (m, n) of rows[0 .. m-1], or of first .. first+m-1 where rows is NULL; 'where' has room
 * for n. */
void wisp_best_collect(struct wisp_best *b, const struct wisp_kernels *k, const float *z, size_t m,
                       const int32_t *rows, size_t first, int32_t *where);
/* The k best of sample s in all lists, best first, to the front of 'work', which has the room of
 * all of them; returns how many there are, at most k.  'told' is what the lists told each other of
 * the sample; -INFINITY: nothing. */
size_t wisp_best_take(uint64_t *work, const struct wisp_best *lists, size_t n_lists, size_t s,
                      float told);

#endif

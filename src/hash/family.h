/* Hash families: functions under which near vectors meet more often than far ones.
 *
 * A family makes n_tables keys of a vector; a key joins 'digits' elementary hashes of 'digit_bits'
 * bits each, the first in the highest place.  One file per family, and one entry in the table
 * below.
 *
 * The functions are drawn from (seed, draw) alone and lie in memory that the caller holds.
 * Vectors come in blocks of up to WISP_HASH_BLOCK, so that a family can use one matrix product or
 * work on all vectors of the block side by side; the keys of a vector do not depend on the block
 * it came in. */
#ifndef WISP_HASH_FAMILY_H
#define WISP_HASH_FAMILY_H

#include "kernels/kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WISP_HASH_BLOCK = 32 };

struct wisp_hash_shape {
    size_t width;    /* of the vectors, appended coordinates included */
    size_t appended; /* of these, at the end: bias and norm (frame.h) */
    size_t n_tables;
    int digits, digit_bits; /* together at most 32 bits per key */
};

struct wisp_hash_family {
    const char *name, *what;
    bool cosine; /* compares angles of whole vectors: bias and norm may be appended */
    int (*digit_bits)(size_t width);
    size_t (*size)(const struct wisp_hash_shape *s);    /* bytes of the functions */
    size_t (*scratch)(const struct wisp_hash_shape *s); /* bytes that hash() works in */
    void (*init)(void *functions, const struct wisp_hash_shape *s, uint64_t seed, uint64_t draw);
    /* keys[i * n + t] = key of x (m, width) row i under the functions of table first + t, t < n;
     * m is at most WISP_HASH_BLOCK. */
    void (*hash)(uint32_t *keys, const void *functions, const struct wisp_hash_shape *s,
                 const struct wisp_kernels *k, const float *x, size_t m, size_t first, size_t n,
                 void *scratch);
};

const struct wisp_hash_family *wisp_hash_family_at(size_t i); /* NULL past the end */
const struct wisp_hash_family *wisp_hash_family_find(const char *name);
/* The table: one entry per family, each in a file of its own. */
#define WISP_HASH_FAMILIES(X)                                                                      \
    X(simhash)                                                                                     \
    X(wta)                                                                                         \
    X(dwta)                                                                                        \
    X(minhash)
#define WISP_HASH_FAMILY(name) extern const struct wisp_hash_family wisp_hash_##name;
WISP_HASH_FAMILIES(WISP_HASH_FAMILY)
#undef WISP_HASH_FAMILY
#define WISP_HASH_USUAL "dwta" /* where none is named */

/* ---- bins of coordinates, which wta, dwta and minhash share (bins.c) ----
 *
 * place (n_bins * size) lists the coordinates of bin 0, of bin 1, ...; bin t * digits + j gives
 * digit j of table t. */

/* Lays random permutations of 0 .. width-1 end to end and cuts the last; of each only the first
 * 'keep' places are used.  'order' (width) is work space. */
void wisp_bins_lay(uint32_t *place, size_t n, size_t width, size_t keep, uint32_t *order,
                   uint64_t seed, uint64_t draw);
/* The bin that an empty one asks at its 'attempt'-th try. */
size_t wisp_bins_borrow(size_t bin, unsigned attempt, size_t n_bins);
/* The block x (m, width) as columns; columns from m on are 0. */
void wisp_bins_turn(float *xt, const struct wisp_kernels *k, const float *x, size_t m,
                    size_t width);
enum { WISP_BIN = 8, WISP_BIN_BITS = 3, WISP_BORROWS = 64 };

#endif

/* The active set: which rows of a wide layer a step computes.
 *
 * Kernels and layers take an active set and do not care where it came from: all rows, or a list
 * that a sampler (sampler.h) made of what its finders found. */
#ifndef WISP_HASH_ACTIVE_H
#define WISP_HASH_ACTIVE_H

#include <stddef.h>
#include <stdint.h>

struct wisp_active {
    size_t n;
    const int32_t *rows;   /* (n) ascending; NULL: rows 0 .. n-1 */
    const uint32_t *place; /* of a row of the layer its place in the set plus 1, or 0; NULL: to be
                              searched */
    const float *shift;    /* (n) added to the logits while training, or NULL: the log of one over
                              the probability that a row drawn at random is in */
    /* Each sample's own part of the set, as places in it: own[op[i] .. op[i+1]), ascending.  NULL:
     * every sample computes every row. */
    const uint32_t *op, *own;
};

/* Place of 'row' in the set, or SIZE_MAX. */
size_t wisp_active_place(const struct wisp_active *a, int32_t row);

#endif

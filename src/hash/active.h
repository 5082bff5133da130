/* The active set: which rows of a wide layer a step computes; and who chooses them.
 *
 * Kernels and layers take an active set and do not care where it came from.  Today
 * there is one sampler, "full" (all rows); hashing, neighbours and inverted lists are further
 * rows of the same table. */
#ifndef WISP_HASH_ACTIVE_H
#define WISP_HASH_ACTIVE_H

#include <stddef.h>
#include <stdint.h>

struct wisp_active {
    size_t n;
    const int32_t *rows; /* (n) ascending; NULL: rows 0 .. n-1 */
};

struct wisp_query { /* what a sampler may look at */
    size_t n, width;
    const float *h;     /* (n, width) input of the layer */
    const uint32_t *yp; /* (n+1) true labels of sample i: yi[yp[i] .. yp[i+1]); NULL: not known */
    const int32_t *yi;
    size_t n_rows; /* rows of the layer */
};

struct wisp_sampler_kind {
    const char *name, *what;
    void (*choose)(struct wisp_active *out, const struct wisp_query *q);
};

const struct wisp_sampler_kind *wisp_sampler_at(size_t i); /* NULL past the end */
const struct wisp_sampler_kind *wisp_sampler_find(const char *name);

/* Place of 'row' in the set, or SIZE_MAX. */
size_t wisp_active_place(const struct wisp_active *a, int32_t row);

#endif

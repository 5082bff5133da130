/* How many numbers of a value are 0 (+0 or -0; a NaN is not): counted where the value is written, by
 * blocks of 16 channels, and kept as moving averages over steps.
 *
 *   who writes    the layer that makes the value adds to its thread's counts, on a step's way forward
 *                 in training, once: not when a value is made again
 *   who averages  wisp_zeros_step, when the step is over: shares never change within a step
 *   who reads     whoever reads the value: in[0]->zeros, NULL where nobody counts
 *
 * A value whose layer is done by another one (a ReLU by the convolution before it) has one account,
 * which both values name.  A layer that hands on what it reads (identity, flatten) names that of its
 * input.  What is counted has no influence on any number of the net.  Averages live as long as the
 * run: a model does not have them, and a resumed run begins anew with the first of its steps. */
#ifndef WISP_GRAPH_ZEROS_H
#define WISP_GRAPH_ZEROS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { WISP_ZEROS_STEPS = 32 }; /* that an average goes over, more or less */

struct wisp_zeros_of { /* of one value */
    int layer;         /* whose result it is */
    size_t blocks;     /* of 16 channels; 1 of a value without height and width */
    size_t *each;      /* (blocks) numbers of a sample; channels past the last are none */
    /* ---- averages ---- */
    uint64_t steps; /* that they are made of; 0: nothing is known yet */
    double share;   /* of zeros, 0 to 1 */
    float *shares;  /* (blocks) the same by block */
    /* ---- the step that is running ---- */
    size_t counted; /* samples; 0: nobody has counted */
    uint64_t *live; /* (threads, apart) numbers that are not 0, by block */
    size_t apart;
};

/* Where a thread adds what it counts, (blocks). */
static inline uint64_t *wisp_zeros_live(const struct wisp_zeros_of *z, int thread)
{
    return z->live + (size_t)thread * z->apart;
}
/* A block that a thread counted. */
static inline void wisp_zeros_add(const struct wisp_zeros_of *z, int thread, size_t block,
                                  size_t live)
{
    wisp_zeros_live(z, thread)[block] += live;
}

/* So many steps, of 'samples' in all, had so many numbers that are not 0 (blocks): the averages go
 * on.  For whoever keeps counts elsewhere, as a card does. */
void wisp_zeros_take(struct wisp_zeros_of *z, const uint64_t *live, size_t samples, size_t steps);
/* The step is over: what the threads have counted goes into the averages, and is forgotten. */
void wisp_zeros_step(struct wisp_zeros_of *z, int threads);

#ifdef __cplusplus
}
#endif

#endif

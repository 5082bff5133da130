/* How long the ways of a pass take: some samples on one thread, whatever the number of threads of the
 * run (all of them must go one way, or their bytes would differ).  Times are those of the processor,
 * of several turns in which the ways take part one after the other, so that all have the machine's
 * better and worse moments.  Packing the weights, or laying out their gradient by rows, is part of
 * them, by the share that these samples have of a batch, unless they are kept. */
#ifndef WISP_CONV_MEASURE_H
#define WISP_CONV_MEASURE_H

#include "conv/conv.h"

/* So many samples are measured. */
size_t wisp_conv_samples(const struct wisp_conv *c);

/* The fastest of n ways; NULL where all failed, or there is no memory. */
const struct wisp_conv_way *wisp_conv_fastest(const struct wisp_conv *c, enum wisp_conv_pass pass,
                                              const struct wisp_kernels *k,
                                              const struct wisp_conv_way *const *ways, size_t n);

/* Seconds of a way for these samples; infinite where it failed. */
double wisp_conv_seconds(const struct wisp_conv *c, enum wisp_conv_pass pass,
                         const struct wisp_kernels *k, const struct wisp_conv_way *way);

/* The share of zeros of x, or of gy, from which on 'skip' is faster than 'dense'; above 1: none. */
double wisp_conv_zeros_from(const struct wisp_conv *c, enum wisp_conv_pass pass,
                            const struct wisp_kernels *k, const struct wisp_conv_way *dense,
                            bool of_x);

#endif

/* Few values for many numbers: those whose squared distances to the nearest of them are small. */
#ifndef WISP_MODEL_CLUSTER_H
#define WISP_MODEL_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>

enum { WISP_CLUSTER_MOST = 64 };

/* value (k, ascending) for x (n), which are finite and will be sorted; sum (n + 1) is room. */
void wisp_cluster(float *value, size_t k, float *x, double *sum, size_t n);
/* limit (k - 1): where the next value becomes the nearest. */
void wisp_cluster_limits(double *limit, const float *value, size_t k);
/* The number of the value that is nearest to x; k is a power of two. */
static inline unsigned wisp_cluster_nearest(const double *limit, size_t k, double x)
{
    size_t at = 0;
    for (size_t half = k / 2; half > 0; half /= 2)
        if (limit[at + half - 1] < x) at += half;
    return (unsigned)at;
}

#endif

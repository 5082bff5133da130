/* Numbers in ascending order. */
#ifndef WISP_BASE_SORT_H
#define WISP_BASE_SORT_H

#include <stdlib.h>

static inline int wisp_double_order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline void wisp_sort_doubles(double *x, size_t n)
{
    if (n) qsort(x, n, sizeof *x, wisp_double_order);
}

static inline int wisp_float_order(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static inline void wisp_sort_floats(float *x, size_t n)
{
    if (n) qsort(x, n, sizeof *x, wisp_float_order);
}

#endif

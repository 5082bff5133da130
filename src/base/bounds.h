/* Numbers that parts which do not know each other must agree on, and arithmetic on sizes. */
#ifndef WISP_BASE_BOUNDS_H
#define WISP_BASE_BOUNDS_H

#include <stddef.h>

/* The clock of a row (wisp_param.count) stops here: from there on 1 - beta2^t is 1 to float's
 * precision.  Tables of such factors have WISP_CLOCK_FACTORS entries, t = 0 .. WISP_CLOCK_MAX. */
enum { WISP_CLOCK_MAX = 20000, WISP_CLOCK_FACTORS = WISP_CLOCK_MAX + 1 };

/* Adam's, on either device. */
#define WISP_ADAM_BETA1 0.9f
#define WISP_ADAM_BETA2 0.999f
#define WISP_ADAM_EPS   1e-8f

static inline size_t wisp_most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The first multiple of 'to' from n on. */
static inline size_t wisp_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* How many parts of up to 'each' n things make. */
static inline size_t wisp_parts(size_t n, size_t each)
{
    return (n + each - 1) / each;
}

static inline double wisp_gib(size_t bytes)
{
    return (double)bytes / (1 << 30);
}

#endif

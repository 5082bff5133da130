/* What this machine can do at most: the limits that benchmarks hold their figures against. */
#ifndef WISP_API_LIMITS_H
#define WISP_API_LIMITS_H

#include "base/context.h"

#include <stdbool.h>

/* Bytes read and written a second when all threads copy blocks larger than the caches: the best
 * round of about 'seconds' of them.  0: there is no memory for it (512 MiB, given back at the end:
 * whoever reports a peak of memory asks for that first). */
double wisp_limit_copy(struct wisp_pool *pool, double seconds);

/* Floating point operations a second (a multiply-add is two) of all threads together, by the
 * kernels' matrix product of blocks that stay in the caches, of fp32 or of bf16 rows: the best
 * round.  0: no memory. */
double wisp_limit_flops(struct wisp_context *ctx, bool bf16, double seconds);

#endif

/* A running mean of numbers. */
#include "base/bounds.h"
#include "model/run.h"

struct averaging {
    float *to;
    const float *from;
    size_t n;
    float share;
};
enum { AVERAGE_CHUNK = 1 << 16 };

static void average_chunk(void *arg, size_t i, int thread)
{
    (void)thread;
    const struct averaging *a = arg;
    size_t end = (i + 1) * AVERAGE_CHUNK < a->n ? (i + 1) * AVERAGE_CHUNK : a->n;
    for (size_t k = i * AVERAGE_CHUNK; k < end; k++) a->to[k] += (a->from[k] - a->to[k]) * a->share;
}

void wisp_average_add(float *to, const float *from, size_t n, float share, struct wisp_pool *pool)
{
    struct averaging a = { to, from, n, share };
    wisp_parallel_for(pool, wisp_parts(n, AVERAGE_CHUNK), average_chunk, &a);
}

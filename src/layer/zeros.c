/* Counting the zeros of a value (graph/zeros.h): runs of numbers that are counted as they are written,
 * and the plain way, a pass of its own.
 *
 * A value is (n, blocks, numbers of a block); a run is cut at the ends of blocks, and what is counted
 * is added to the thread's own counts. */
#include "layer/layer.h"

struct job {
    const struct wisp_kernels *k;
    wisp_count_fn *fn;
    struct wisp_zeros_of *z;
    float *y;
    const float *a;
    size_t n, block, blocks; /* numbers in all, of a block; blocks of a sample */
};
enum { RUN = 1 << 14 };

static void one_run(void *arg, size_t i, int thread)
{
    const struct job *j = arg;
    const size_t end = (i + 1) * RUN < j->n ? (i + 1) * RUN : j->n;
    for (size_t at = i * RUN; at < end;) {
        const size_t block = at / j->block, left = (block + 1) * j->block - at,
                     n = left < end - at ? left : end - at;
        wisp_zeros_add(j->z, thread, block % j->blocks, j->fn(j->k, j->y + at, j->a + at, n));
        at += n;
    }
}

void wisp_layer_count_runs(struct wisp_context *ctx, wisp_count_fn *fn, struct wisp_zeros_of *z,
                           const struct wisp_act *of, float *y, const float *a, size_t samples)
{
    struct job j = { ctx->k, fn, z, y, a, samples * of->floats, of->floats / z->blocks, z->blocks };
    wisp_parallel_for(ctx->pool, wisp_parts(j.n, RUN), one_run, &j);
}

static size_t look(const struct wisp_kernels *k, float *y, const float *x, size_t n)
{
    (void)y;
    return k->live_count(x, n);
}

void wisp_layer_count(const struct wisp_step *s, const struct wisp_act *out)
{
    if (out->zeros->counted) return;
    struct wisp_zeros_of *z = wisp_layer_zeros(s, out);
    if (z) wisp_layer_count_runs(s->ctx, look, z, out, out->x, out->x, s->batch->n);
}

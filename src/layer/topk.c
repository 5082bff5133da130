/* The best labels by exact scores of all rows; scores never exist as a whole.
 *
 * Lanes of blocks run in parallel.  For each block: Z = W h^T + bias (96, n), then every score
 * above a sample's current k-th best is put into that sample's list (best.h); the lists of the
 * lanes are merged in lane order.
 *
 * scratch: h^T (n_in, n) | for each lane: lists of the best, max, sum (n)
 * of each thread: Z (96, n) | places (n) | block max, block sum (n) */
#include "layer/best.h"
#include "layer/output.h"

#include <math.h>
#include <string.h>

static size_t lane_floats(size_t n, size_t k)
{
    return wisp_best_floats(n, k) + 2 * n;
}

size_t wisp_output_topk_floats(const struct wisp_layer *l, size_t n, size_t k)
{
    return l->n_in * n + wisp_out_lanes(l->n_out) * lane_floats(n, k);
}

size_t wisp_output_topk_thread_floats(const struct wisp_layer *l, size_t n)
{
    (void)l;
    return WISP_OUT_BLOCK * n + 3 * n;
}

struct lane {
    struct wisp_best best;
    float *max, *sum; /* (n) */
};

struct job {
    const struct wisp_layer *l;
    struct wisp_context *ctx;
    const struct wisp_loss *loss;
    size_t n, k;
    float *ht, *lanes, *thread_scratch;
    int32_t *labels;
    float *scores;
};

static struct lane lane_at(const struct job *j, size_t i)
{
    float *p = j->lanes + i * lane_floats(j->n, j->k);
    float *max = p + wisp_best_floats(j->n, j->k);
    return (struct lane){ wisp_best_at(p, j->n, j->k), max, max + j->n };
}

/* Running maximum and sum of exp(z - maximum) of each sample. */
static void accumulate(const struct job *j, struct lane *a, float *z, size_t m, float *bmax,
                       float *bsum)
{
    j->ctx->k->col_max(bmax, z, j->n, m, j->n);
    j->ctx->k->col_exp(z, j->n, bsum, bmax, m, j->n);
    for (size_t s = 0; s < j->n; s++) {
        float max = a->max[s] > bmax[s] ? a->max[s] : bmax[s];
        a->sum[s] = a->sum[s] * expf(a->max[s] - max) + bsum[s] * expf(bmax[s] - max);
        a->max[s] = max;
    }
}

static void scan_lane(void *arg, size_t i, int thread)
{
    const struct job *j = arg;
    struct lane a = lane_at(j, i);
    size_t blocks = wisp_out_blocks(j->l->n_out), lanes = wisp_out_lanes(j->l->n_out);
    float *z = j->thread_scratch + (size_t)thread * wisp_output_topk_thread_floats(j->l, j->n);
    int32_t *where = (int32_t *)(z + WISP_OUT_BLOCK * j->n);
    float *bmax = (float *)where + j->n, *bsum = bmax + j->n;
    wisp_best_reset(&a.best);
    for (size_t s = 0; s < j->n; s++) a.max[s] = -INFINITY, a.sum[s] = 0;
    for (size_t b = i * blocks / lanes; b < (i + 1) * blocks / lanes; b++) {
        size_t first = b * WISP_OUT_BLOCK, m = j->l->n_out - first;
        if (m > WISP_OUT_BLOCK) m = WISP_OUT_BLOCK;
        for (size_t r = 0; r < m; r++)
            for (size_t s = 0; s < j->n; s++) z[r * j->n + s] = j->l->params[1].w[first + r];
        j->ctx->k->gemm(z, j->n, j->l->params[0].w + first * j->l->n_in, j->l->n_in, 1, j->ht, j->n,
                        m, j->n, j->l->n_in, true);
        wisp_best_collect(&a.best, j->ctx->k, z, m, NULL, first, where);
        if (j->loss->needs_sum) accumulate(j, &a, z, m, bmax, bsum);
    }
}

static void merge_tile(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct job *j = arg;
    size_t lanes = wisp_out_lanes(j->l->n_out), k = j->k, first = tile * WISP_TILE;
    for (size_t s = first; s < first + wisp_tile_rows(j->n, tile); s++) {
        struct lane to = lane_at(j, 0);
        const float *value = to.best.value + s * k;
        const int32_t *id = to.best.id + s * k;
        float max = to.max[s];
        for (size_t i = 1; i < lanes; i++) {
            struct lane a = lane_at(j, i);
            wisp_best_merge(&to.best, &a.best, s);
            if (a.max[s] > max) max = a.max[s];
        }
        double sum = 0;
        for (size_t i = 0; i < lanes; i++)
            sum += lane_at(j, i).sum[s] * exp((double)lane_at(j, i).max[s] - max);
        for (size_t c = 0; c < k; c++) {
            j->labels[s * k + c] = id[c];
            j->scores[s * k + c] = id[c] < 0 ? 0 : j->loss->probability(value[c], max, sum);
        }
    }
}

void wisp_output_topk(const struct wisp_layer *l, struct wisp_context *ctx,
                      const struct wisp_loss *loss, const float *h, size_t n, size_t k,
                      int32_t *labels, float *scores, float *scratch, float *thread_scratch)
{
    struct job j = { .l = l,
                     .ctx = ctx,
                     .loss = loss,
                     .n = n,
                     .k = k,
                     .ht = scratch,
                     .lanes = scratch + l->n_in * n,
                     .thread_scratch = thread_scratch,
                     .labels = labels,
                     .scores = scores };
    ctx->k->transpose(j.ht, n, h, l->n_in, n, l->n_in);
    wisp_parallel_for(ctx->pool, wisp_out_lanes(l->n_out), scan_lane, &j);
    wisp_parallel_for(ctx->pool, wisp_tiles(n), merge_tile, &j);
}

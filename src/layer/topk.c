/* The best labels by exact scores of all rows; scores never exist as a whole.
 *
 * Lanes of blocks run in parallel.  For each block: Z = W h^T + bias (96, n), then every score
 * above a sample's current k-th best is put into that sample's list (best.h); the lists of the
 * lanes are merged in lane order.
 *
 * scratch: h^T (n_in, n + 16) | limits told (n) | for each lane: lists of the best, max, sum (n)
 * of each thread: Z (96, n) | places (n) | block max, block sum (n) | rows of a block (96, n_in);
 *                 later keys of all lanes */
#include "hash/best.h"
#include "layer/output.h"

#include <math.h>
#include <string.h>

static size_t lane_floats(size_t n, size_t k)
{
    return wisp_best_floats(n, k) + 2 * n;
}

size_t wisp_output_topk_floats(const struct wisp_layer *l, size_t n, size_t k)
{
    return l->n_in * (n + 16) + n + 1 + wisp_out_lanes(l->n_out) * lane_floats(n, k);
}

size_t wisp_output_topk_thread_floats(const struct wisp_layer *l, size_t n, size_t k)
{
    size_t scan = WISP_OUT_BLOCK * (n + l->n_in) + 3 * n;
    size_t join = 2 * wisp_out_lanes(l->n_out) * wisp_best_room(k);
    return ((scan > join ? scan : join) + 15) & ~(size_t)15;
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
    uint32_t *panels; /* h^T as bf16, in the place of h^T; NULL: rows are multiplied as floats */
    _Atomic float *told;
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

static float *thread_floats(const struct job *j, int thread)
{
    return j->thread_scratch + (size_t)thread * wisp_output_topk_thread_floats(j->l, j->n, j->k);
}

/* Z of a block.  Rows of bf16 are multiplied as they are where that is fast; other narrow rows are
 * widened first. */
static void block_scores(const struct job *j, float *z, size_t first, size_t m, float *spare)
{
    const struct wisp_kernels *k = j->ctx->k;
    const struct wisp_param *w = &j->l->params[0];
    const float *bias = j->l->params[1].w + first, *rows = spare;
    size_t width = j->l->n_in;
    if (j->panels) {
        const uint16_t *half = w->b16 + first * width;
        if (m < WISP_OUT_BLOCK) half = memcpy(spare, half, m * width * sizeof *half);
        k->gemm16(z, j->n, half, width, j->panels, width * 8, bias, m, j->n, width, false);
        return;
    }
    if (w->b16) k->from16(spare, w->b16 + first * width, m * width);
    else if (w->w) rows = w->w + first * width;
    for (size_t i = 0; w->i8 && i < m; i++)
        k->from8(spare + i * width, w->i8 + (first + i) * width, w->scale[first + i], width);
    k->gemm_bias(z, j->n, rows, width, j->ht, j->n, bias, m, j->n, width);
}

static void scan_lane(void *arg, size_t i, int thread)
{
    const struct job *j = arg;
    struct lane a = lane_at(j, i);
    size_t blocks = wisp_out_blocks(j->l->n_out), lanes = wisp_out_lanes(j->l->n_out);
    float *z = thread_floats(j, thread);
    int32_t *where = (int32_t *)(z + WISP_OUT_BLOCK * j->n);
    float *bmax = (float *)where + j->n, *bsum = bmax + j->n;
    wisp_best_reset(&a.best, NULL);
    for (size_t s = 0; s < j->n; s++) a.max[s] = -INFINITY, a.sum[s] = 0;
    for (size_t b = i * blocks / lanes; b < (i + 1) * blocks / lanes; b++) {
        size_t first = b * WISP_OUT_BLOCK, m = j->l->n_out - first;
        if (m > WISP_OUT_BLOCK) m = WISP_OUT_BLOCK;
        block_scores(j, z, first, m, bsum + j->n);
        wisp_best_hear(&a.best, j->told);
        wisp_best_collect(&a.best, j->ctx->k, z, m, NULL, first, where);
        wisp_best_tell(&a.best, j->told);
        if (j->loss->needs_sum) accumulate(j, &a, z, m, bmax, bsum);
    }
}

static void join_tile(void *arg, size_t tile, int thread)
{
    const struct job *j = arg;
    size_t n_lanes = wisp_out_lanes(j->l->n_out), k = j->k, first = tile * WISP_TILE;
    uint64_t *keys = (uint64_t *)thread_floats(j, thread);
    struct lane lanes[WISP_OUT_LANES];
    struct wisp_best lists[WISP_OUT_LANES];
    for (size_t i = 0; i < n_lanes; i++) lanes[i] = lane_at(j, i), lists[i] = lanes[i].best;
    for (size_t s = first; s < first + wisp_tile_rows(j->n, tile); s++) {
        float max = -INFINITY;
        double sum = 0;
        for (size_t i = 0; i < n_lanes; i++)
            if (lanes[i].max[s] > max) max = lanes[i].max[s];
        for (size_t i = 0; i < n_lanes; i++)
            sum += lanes[i].sum[s] * exp((double)lanes[i].max[s] - max);
        float told = atomic_load_explicit(&j->told[s], memory_order_relaxed);
        size_t n = wisp_best_take(keys, lists, n_lanes, s, told);
        for (size_t c = 0; c < k; c++) {
            float z = c < n ? wisp_key_score(keys[c]) : NAN;
            j->labels[s * k + c] = c < n ? wisp_key_row(keys[c]) : -1;
            j->scores[s * k + c] = isfinite(z) ? j->loss->probability(z, max, sum) : NAN;
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
                     .told = (_Atomic float *)(scratch + l->n_in * (n + 16)),
                     .lanes =
                         scratch + (l->n_in * (n + 16) + n + 1) / 2 * 2, /* keys want 8 bytes */
                     .thread_scratch = thread_scratch,
                     .labels = labels,
                     .scores = scores };
    if (l->params[0].b16 && ctx->k->fast16 && l->n_in % 32 == 0) {
        j.panels = (uint32_t *)scratch;
        ctx->k->pairs_t(j.panels, l->n_in * 8, h, l->n_in, l->n_in, n);
    } else ctx->k->transpose(j.ht, n, h, l->n_in, n, l->n_in);
    for (size_t s = 0; s < n; s++) atomic_init(&j.told[s], -INFINITY);
    wisp_parallel_for(ctx->pool, wisp_out_lanes(l->n_out), scan_lane, &j);
    wisp_parallel_for(ctx->pool, wisp_tiles(n), join_tile, &j);
}

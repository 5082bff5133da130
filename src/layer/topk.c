/* The best labels by exact scores of all rows; scores never exist as a whole.
 *
 * Of several ranks each has the best of its own rows, and they exchange these: all get the same.
 *
 * Lanes of blocks run in parallel.  For each block: Z = W h^T + bias (96, n), then every score
 * above a sample's current k-th best is put into that sample's list (best.h); the lists of the
 * lanes are merged in lane order.
 *
 * scratch: h^T (n_in, n + 16) | limits told (n) | for each lane: lists of the best, max, sum (n)
 *          | of several ranks what each of them found: (ranks, n) sums, (n, k) keys
 * of each thread: Z (96, n) | places (n) | block max, block sum (n) | rows of a block (96, n_in);
 *                 later keys of all lanes */
#include "hash/best.h"
#include "hash/swap.h"
#include "base/bounds.h"
#include "layer/output.h"

#include <math.h>
#include <string.h>

enum { ALONE_SMALL = 1 << 20 }; /* weights: some 50 us */

struct lane {
    struct wisp_best best;
    float *max, *sum; /* (n) */
};

struct found { /* of a sample's logits, by a rank */
    double sum;
    float max;
};

struct job {
    const struct wisp_layer *l;
    struct wisp_context *ctx;
    const struct wisp_loss *loss;
    size_t n, k;
    bool alone;
    float *ht, *thread_scratch;
    uint32_t *panels; /* h^T as bf16, in the place of h^T; NULL: rows are multiplied as floats */
    _Atomic float *told;
    struct lane lanes[WISP_OUT_LANES];
    struct found *found; /* (ranks, n) */
    uint64_t *keys;      /* (n, k): swap.h */
    int32_t *labels;
    float *scores;
};

static bool shared(const struct wisp_layer *l)
{
    return !wisp_share_all(l->params[0].share);
}

static void lay_out(struct job *j, struct wisp_cut *c)
{
    j->ht = wisp_cut_take(c, j->l->n_in * (j->n + 16), sizeof *j->ht);
    j->told = wisp_cut_take(c, j->n, sizeof *j->told);
    for (size_t i = 0; i < wisp_out_lanes(j->l->n_out); i++) {
        struct lane *a = &j->lanes[i];
        a->best = wisp_best_lay(c, j->n, j->k);
        a->max = wisp_cut_take(c, j->n, sizeof *a->max);
        a->sum = wisp_cut_take(c, j->n, sizeof *a->sum);
    }
    if (!shared(j->l)) return;
    const size_t ranks = (size_t)j->l->params[0].share.size;
    j->found = wisp_cut_take(c, ranks * j->n, sizeof *j->found);
    j->keys = wisp_cut_take(c, j->n * j->k, sizeof *j->keys);
}

size_t wisp_output_topk_floats(const struct wisp_layer *l, size_t n, size_t k)
{
    struct job none = { .l = l, .n = n, .k = k };
    struct wisp_cut plan = { 0 };
    lay_out(&none, &plan);
    return plan.at / sizeof(float);
}

struct work { /* of a thread that scans */
    float *z, *max, *sum, *rows;
    int32_t *where;
};

static struct work lay_work(struct wisp_cut *c, const struct wisp_layer *l, size_t n)
{
    struct work w;
    w.z = wisp_cut_take(c, WISP_OUT_BLOCK * n, sizeof *w.z);
    w.where = wisp_cut_take(c, n, sizeof *w.where);
    w.max = wisp_cut_take(c, n, sizeof *w.max);
    w.sum = wisp_cut_take(c, n, sizeof *w.sum);
    w.rows = wisp_cut_take(c, WISP_OUT_BLOCK * l->n_in, sizeof *w.rows);
    return w;
}

static uint64_t *lay_keys(struct wisp_cut *c, const struct wisp_layer *l, size_t k)
{
    return wisp_cut_take(c, wisp_out_lanes(l->n_out) * wisp_best_room(k), sizeof(uint64_t));
}

size_t wisp_output_topk_thread_floats(const struct wisp_layer *l, size_t n, size_t k)
{
    struct wisp_cut work = { 0 }, keys = { 0 };
    lay_work(&work, l, n);
    lay_keys(&keys, l, k);
    return wisp_most(work.at, keys.at) / sizeof(float);
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

static struct wisp_cut thread_cut(const struct job *j, int thread)
{
    size_t floats = wisp_output_topk_thread_floats(j->l, j->n, j->k);
    return wisp_cut_of(j->thread_scratch + (size_t)thread * floats, floats * sizeof(float),
                       WISP_CUT_FRESH);
}

/* Z of a block for a single sample, whose h is j->ht as it is: a product would compute a vector of
 * samples (one row of 512 by 597 labels with AVX2: 1.2 million instructions, 0.1 million so). */
static void single_scores(const struct job *j, float *z, size_t first, size_t m)
{
    const struct wisp_weights w = wisp_param_weights(&j->l->params[0]);
    const float *bias = j->l->params[1].w + first;
    int32_t rows[WISP_OUT_BLOCK];
    if (w.f32) {
        j->ctx->k->matvec(z, w.f32 + first * w.cols, w.cols, m, j->ht, w.cols);
    } else {
        for (size_t i = 0; i < m; i++) rows[i] = (int32_t)(first + i);
        wisp_weights_dots(j->ctx->k, z, &w, rows, m, j->ht);
    }
    for (size_t i = 0; i < m; i++) z[i] += bias[i];
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
    const struct wisp_weights from = wisp_param_weights(w);
    for (size_t i = 0; (w->i8 || w->codes) && i < m; i++)
        wisp_weights_copy(k, spare + i * width, &from, first + i);
    k->gemm_bias(z, j->n, rows, width, j->ht, j->n, bias, m, j->n, width);
}

static void scan_lane(void *arg, size_t i, int thread)
{
    const struct job *j = arg;
    struct lane a = j->lanes[i];
    struct wisp_cut c = thread_cut(j, thread);
    struct work w = lay_work(&c, j->l, j->n);
    size_t blocks = wisp_out_blocks(j->l->n_out), lanes = wisp_out_lanes(j->l->n_out);
    wisp_best_reset(&a.best, NULL);
    for (size_t s = 0; s < j->n; s++) a.max[s] = -INFINITY, a.sum[s] = 0;
    for (size_t b = i * blocks / lanes; b < (i + 1) * blocks / lanes; b++) {
        size_t first = b * WISP_OUT_BLOCK, m = j->l->n_out - first;
        if (m > WISP_OUT_BLOCK) m = WISP_OUT_BLOCK;
        if (j->alone) single_scores(j, w.z, first, m);
        else block_scores(j, w.z, first, m, w.rows);
        wisp_best_hear(&a.best, j->told);
        wisp_best_collect(&a.best, j->ctx->k, w.z, m, NULL, first, w.where);
        wisp_best_tell(&a.best, j->told);
        if (j->loss->needs_sum) accumulate(j, &a, w.z, m, w.max, w.sum);
    }
}

/* Answer c for a sample whose logits come to max and sum; key NULL: there is none. */
static void answer(const struct job *j, size_t s, size_t c, const uint64_t *key, float max,
                   double sum)
{
    float z = key ? wisp_key_score(*key) : 0;
    float score = isfinite(z) ? j->loss->probability(z, max, sum) : NAN;
    j->labels[s * j->k + c] = key ? wisp_key_row(*key) : -1;
    j->scores[s * j->k + c] = key ? score : 0;
}

/* Leaves what this rank found for the others. */
static void offer(const struct job *j, size_t s, const uint64_t *keys, size_t n, float max,
                  double sum)
{
    const struct wisp_share share = j->l->params[0].share;
    j->found[(size_t)share.rank * j->n + s] = (struct found){ sum, max };
    for (size_t c = 0; c < j->k; c++) {
        const size_t id = c < n ? wisp_share_id(share, (size_t)wisp_key_row(keys[c])) : 0;
        j->keys[s * j->k + c] = c < n ? wisp_key(wisp_key_score(keys[c]), (int32_t)id) : 0;
    }
}

static void join_tile(void *arg, size_t tile, int thread)
{
    const struct job *j = arg;
    size_t n_lanes = wisp_out_lanes(j->l->n_out), k = j->k, first = tile * WISP_TILE;
    struct wisp_cut cut = thread_cut(j, thread);
    uint64_t *keys = lay_keys(&cut, j->l, k);
    const struct lane *lanes = j->lanes;
    struct wisp_best lists[WISP_OUT_LANES];
    for (size_t i = 0; i < n_lanes; i++) lists[i] = lanes[i].best;
    for (size_t s = first; s < first + wisp_tile_rows(j->n, tile); s++) {
        float max = -INFINITY;
        double sum = 0;
        for (size_t i = 0; i < n_lanes; i++)
            if (lanes[i].max[s] > max) max = lanes[i].max[s];
        for (size_t i = 0; i < n_lanes; i++)
            sum += lanes[i].sum[s] * exp((double)lanes[i].max[s] - max);
        float told = atomic_load_explicit(&j->told[s], memory_order_relaxed);
        size_t n = wisp_best_take(keys, lists, n_lanes, s, told);
        if (j->found) offer(j, s, keys, n, max, sum);
        for (size_t c = 0; c < k && !j->found; c++)
            answer(j, s, c, c < n ? &keys[c] : NULL, max, sum);
    }
}

/* The best of what all ranks found. */
static void answer_merged(const struct job *j, size_t s)
{
    const size_t ranks = (size_t)j->l->params[0].share.size;
    float max = -INFINITY;
    double sum = 0;
    for (size_t q = 0; q < ranks; q++) max = fmaxf(max, j->found[q * j->n + s].max);
    for (size_t q = 0; q < ranks; q++) {
        const struct found *f = &j->found[q * j->n + s];
        sum += f->sum * exp((double)f->max - max);
    }
    const uint64_t *best = j->keys + s * j->k;
    for (size_t c = 0; c < j->k; c++) answer(j, s, c, best[c] ? &best[c] : NULL, max, sum);
}

static wisp_status exchange(const struct job *j, wisp_error *err)
{
    const struct wisp_comm *c = j->ctx->comm;
    const size_t mine = (size_t)j->l->params[0].share.rank * j->n;
    wisp_status st = c->all_gather(j->found, j->found + mine, j->n * sizeof *j->found, err);
    if (st == WISP_OK) st = wisp_keys_swap(j->keys, c, j->n, j->k, err);
    for (size_t s = 0; s < j->n && st == WISP_OK; s++) answer_merged(j, s);
    return st;
}

wisp_status wisp_output_topk(const struct wisp_layer *l, struct wisp_context *ctx,
                             const struct wisp_loss *loss, const float *h, size_t n, bool alone,
                             size_t k, int32_t *labels, float *scores, float *scratch,
                             float *thread_scratch, wisp_error *err)
{
    struct job j = { .l = l,
                     .ctx = ctx,
                     .loss = loss,
                     .n = n,
                     .alone = alone && n == 1,
                     .k = k,
                     .thread_scratch = thread_scratch,
                     .labels = labels,
                     .scores = scores };
    struct wisp_cut c =
        wisp_cut_of(scratch, wisp_output_topk_floats(l, n, k) * sizeof *scratch, WISP_CUT_FRESH);
    lay_out(&j, &c);
    if (!j.alone && l->params[0].b16 && ctx->k->fast16 && l->n_in % 32 == 0) {
        j.panels = (uint32_t *)j.ht;
        ctx->k->pairs_t(j.panels, l->n_in * 8, h, l->n_in, l->n_in, n);
    } else if (n == 1) memcpy(j.ht, h, l->n_in * sizeof *h);
    else ctx->k->transpose(j.ht, n, h, l->n_in, n, l->n_in);
    for (size_t s = 0; s < n; s++) atomic_init(&j.told[s], -INFINITY);
    /* Waking threads takes longer than scoring one sample by a small layer. */
    struct wisp_pool *pool = j.alone && l->n_in * l->n_out < ALONE_SMALL ? NULL : ctx->pool;
    wisp_parallel_for(pool, wisp_out_lanes(l->n_out), scan_lane, &j);
    wisp_parallel_for(pool, wisp_tiles(n), join_tile, &j);
    return shared(l) ? exchange(&j, err) : WISP_OK;
}

/* The output layer: one row of W (and one bias) a label, computed on the active set only.
 *
 * With n samples h (n, n_in) and the rows of an active set, in blocks of 96:
 *   forward   Z = W h^T + bias         (96, n): labels are rows, so W needs no packing
 *             the loss makes Z its own shape and leaves two numbers a sample and block
 *   combine   over all blocks: each sample's loss, and the factor that makes Z a gradient
 *   backward  G = Z * factor - targets
 *             gradient of h  += G^T W  (one partial sum a lane, added in order afterwards)
 *             gradient of W   = G h, and the rows move at once
 * Three products of 2 * n * n_in * rows operations are all that matters; Z is the only
 * large buffer (rows * batch floats).
 *
 * While a block's logits are there, the best rows of each sample are collected from them for the
 * layer's sampler, which also gets each row's summed gradient.
 *
 * Where every sample has a set of its own, example.c does all this.
 *
 * scratch:  loss (batch doubles) | scale (batch) | h^T (n_in, batch) | Z (active, batch)
 *           | a, b (blocks, batch) | starts (blocks + 1) | bias gradients (active)
 *           | partial sums (lanes, batch, n_in) | lists of the best (lanes)
 * of each thread: gradient of a block (96, n_in) | gathered rows (96, n_in) | places (batch) */
#include "layer/output.h"
#include "layer/best.h"
#include "layer/example.h"
#include "layer/rows.h"

#include <math.h>
#include <string.h>

struct view { /* the scratch, cut up for this step */
    float *ht, *z, *a, *b, *scale, *gb, *parts, *lists;
    double *loss;
    uint32_t *start; /* (blocks + 1) true labels of a block: places start[i] .. start[i+1] of the
                        batch's lists */
    size_t ld, n_blocks, n_lanes;
    size_t k; /* best rows collected of each sample; 0: none */
};

static wisp_status plan(struct wisp_layer *l, const struct wisp_layer_sizes *s, wisp_error *err)
{
    if (l->number == 0)
        return wisp_fail(err, WISP_EINVAL,
                         "--net: the first layer must be 'input', found 'output'");
    l->n_out = (size_t)l->arg;
    wisp_layer_declare(l, "weight", l->n_out, l->n_in);
    wisp_layer_declare(l, "bias", l->n_out, 1);
    if (s->training && s->own) {
        wisp_example_plan(l, s);
    } else if (s->training) {
        size_t blocks = wisp_out_blocks(s->active);
        l->scratch_floats = l->n_in * s->batch + s->active * s->batch + 2 * blocks * s->batch +
                            3 * s->batch + blocks + s->active + 64 +
                            wisp_out_lanes(s->active) * s->batch * l->n_in;
        if (s->best)
            l->scratch_floats += wisp_out_lanes(s->active) * wisp_best_floats(s->batch, s->best);
        l->thread_floats = 2 * WISP_OUT_BLOCK * l->n_in + s->batch;
    }
    return WISP_OK;
}

static struct view cut(const struct wisp_layer *l, const struct wisp_step *s)
{
    struct view v = { .ld = s->batch->n,
                      .n_blocks = wisp_out_blocks(s->active.n),
                      .n_lanes = wisp_out_lanes(s->active.n) };
    float *p = l->scratch;
    v.loss = (double *)p, p += 2 * v.ld; /* first: doubles want 8 bytes */
    v.scale = p, p += v.ld;
    v.ht = p, p += l->n_in * v.ld;
    v.z = p, p += s->active.n * v.ld;
    v.a = p, p += v.n_blocks * v.ld;
    v.b = p, p += v.n_blocks * v.ld;
    v.start = (uint32_t *)p, p += v.n_blocks + 1;
    v.gb = p, p += s->active.n;
    v.parts = p, p += v.n_lanes * v.ld * l->n_in;
    v.lists = p;
    v.k = l->sampler && s->active.n ? wisp_sampler_best(l->sampler) : 0;
    return v;
}

/* Small rows: at the start the bias (the label's prior, set by the model) decides. */
static void init(struct wisp_layer *l, uint64_t seed, struct wisp_pool *pool)
{
    wisp_param_normal(&l->params[0], 0.01, seed, 2 * l->number, pool);
    memset(l->params[1].w, 0, l->n_out * sizeof(float));
}

struct job {
    struct wisp_layer *l;
    struct wisp_step *s;
    const struct wisp_act *in;
    struct view v;
};

static struct wisp_best lists_of(const struct job *j, size_t lane)
{
    size_t n = j->v.ld, k = j->v.k;
    return wisp_best_at(j->v.lists + lane * wisp_best_floats(n, k), n, k);
}

/* Rows drawn at random stand for all that were not: their logits are raised. */
static void raise(const struct job *j, float *z, size_t first, size_t m)
{
    const float *shift = j->s->active.shift;
    for (size_t i = 0; shift && i < m; i++)
        for (size_t c = 0; shift[first + i] != 0 && c < j->v.ld; c++)
            z[i * j->v.ld + c] += shift[first + i];
}

static void forward_block(const struct job *j, size_t block, struct wisp_best *best, int thread)
{
    const struct view *v = &j->v;
    const struct wisp_batch *batch = j->s->batch;
    size_t n = batch->n, m = wisp_block_rows(&j->s->active, block), first = block * WISP_OUT_BLOCK;
    float *gathered = wisp_layer_thread(j->l, thread) + WISP_OUT_BLOCK * j->l->n_in;
    const float *w = wisp_block_weights(gathered, &j->l->params[0], &j->s->active, block);
    float *z = v->z + first * v->ld;
    for (size_t i = 0; i < m; i++) {
        float bias = j->l->params[1].w[wisp_row_at(&j->s->active, first + i)];
        for (size_t c = 0; c < n; c++) z[i * v->ld + c] = bias;
    }
    j->s->ctx->k->gemm(z, v->ld, w, j->l->n_in, 1, v->ht, v->ld, m, n, j->l->n_in, true);
    if (v->k)
        wisp_best_collect(best, j->s->ctx->k, z, m,
                          j->s->active.rows ? j->s->active.rows + first : NULL, first,
                          (int32_t *)(gathered + WISP_OUT_BLOCK * j->l->n_in));
    raise(j, z, first, m);
    for (uint32_t e = v->start[block]; e < v->start[block + 1]; e++)
        batch->logit[e] = z[(batch->place[e] - first) * v->ld + batch->sample[e]];
    j->s->loss->block(j->s->ctx->k, z, v->ld, m, n, v->a + block * v->ld, v->b + block * v->ld);
}

static void forward_lane(void *arg, size_t lane, int thread)
{
    const struct job *j = arg;
    size_t n = j->v.n_blocks, lanes = j->v.n_lanes;
    struct wisp_best best = lists_of(j, lane);
    if (j->v.k) {
        wisp_best_reset(&best);
        memcpy(best.limit, wisp_sampler_limits(j->l->sampler), j->v.ld * sizeof *best.limit);
    }
    for (size_t block = lane * n / lanes; block < (lane + 1) * n / lanes; block++)
        forward_block(j, block, &best, thread);
}

static void merge_tile(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct job *j = arg;
    struct wisp_best to = lists_of(j, 0);
    size_t first = tile * WISP_TILE;
    for (size_t lane = 1; lane < j->v.n_lanes; lane++) {
        struct wisp_best from = lists_of(j, lane);
        for (size_t i = first; i < first + wisp_tile_rows(j->v.ld, tile); i++)
            wisp_best_merge(&to, &from, i);
    }
}

/* Files the true labels by block: count, prefix sum, fill. */
static void file_labels(const struct job *j)
{
    const struct wisp_batch *b = j->s->batch;
    uint32_t *start = j->v.start;
    memset(start, 0, (j->v.n_blocks + 1) * sizeof *start);
    for (size_t i = 0; i < b->yp[b->n]; i++) {
        size_t place = wisp_active_place(&j->s->active, b->yi[i]);
        if (place != SIZE_MAX) start[place / WISP_OUT_BLOCK]++;
    }
    uint32_t sum = 0;
    for (size_t i = 0; i <= j->v.n_blocks; i++) {
        uint32_t count = i < j->v.n_blocks ? start[i] : 0;
        start[i] = sum;
        sum += count;
    }
    for (size_t i = 0; i < b->n; i++)
        for (uint32_t y = b->yp[i]; y < b->yp[i + 1]; y++) {
            size_t place = wisp_active_place(&j->s->active, b->yi[y]);
            if (place == SIZE_MAX) continue;
            uint32_t at = start[place / WISP_OUT_BLOCK]++;
            b->place[at] = (uint32_t)place;
            b->sample[at] = (uint32_t)i;
        }
    for (size_t i = j->v.n_blocks; i > 0; i--) start[i] = start[i - 1];
    start[0] = 0;
}

static size_t n_true(const struct wisp_batch *b, size_t i)
{
    return b->yp[i + 1] - b->yp[i];
}

/* Losses of a tile of samples, and their factors with 1/n folded in. */
static void combine_tile(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct view *v = &j->v;
    const struct wisp_batch *b = j->s->batch;
    size_t first = tile * WISP_TILE, end = first + wisp_tile_rows(b->n, tile);
    for (size_t i = first; i < end; i++)
        v->scale[i] = n_true(b, i) || j->s->loss->uses_unlabelled ? 1.0f / (float)b->n : 0;
    j->s->loss->combine(v->a, v->b, v->ld, v->n_blocks, first, end, v->scale, v->loss);
    for (size_t i = first; i < end; i++)
        if (v->scale[i] == 0) v->loss[i] = 0;
}

static struct wisp_query query(const struct wisp_layer *l, const struct wisp_step *s,
                               const struct wisp_act *in)
{
    const struct wisp_batch *b = s->batch;
    return (struct wisp_query){ .n = b->n,
                                .h = in->x,
                                .yp = b->yp,
                                .yi = b->yi,
                                .id = b->id,
                                .xp = b->xp,
                                .xi = b->xi,
                                .xv = b->xv,
                                .step = s->number,
                                .rows = { l->n_out, l->n_in, l->params[0].w, l->params[1].w } };
}

static void choose(const struct wisp_layer *l, struct wisp_step *s, const struct wisp_act *in)
{
    struct wisp_query q = query(l, s, in);
    if (l->sampler) wisp_sampler_choose(&s->active, l->sampler, s->ctx, &q);
    else if (s->active.n == 0) s->active = (struct wisp_active){ .n = l->n_out };
    if (s->look) s->look(s->look_arg, l, s, in->x);
}

static void forward(const struct wisp_layer *l, struct wisp_step *s, const struct wisp_act *in,
                    struct wisp_act *out)
{
    (void)out;
    choose(l, s, in);
    if (s->active.op) {
        wisp_example_forward(l, s, in);
        return;
    }
    struct job j = { (struct wisp_layer *)l, s, in, cut(l, s) };
    const struct wisp_batch *b = s->batch;
    file_labels(&j);
    s->ctx->k->transpose(j.v.ht, j.v.ld, in->x, l->n_in, b->n, l->n_in);
    wisp_parallel_for(s->ctx->pool, j.v.n_lanes, forward_lane, &j);
    if (j.v.k) wisp_parallel_for(s->ctx->pool, wisp_tiles(b->n), merge_tile, &j);
    wisp_parallel_for(s->ctx->pool, wisp_tiles(b->n), combine_tile, &j);
    for (uint32_t e = 0; e < j.v.start[j.v.n_blocks]; e++)
        j.v.loss[b->sample[e]] -= (double)s->loss->target(n_true(b, b->sample[e])) * b->logit[e];
    s->loss_sum = 0;
    for (size_t i = 0; i < b->n; i++) s->loss_sum += j.v.loss[i];
}

static void backward_block(const struct job *j, size_t block, float *part, bool add, int thread)
{
    const struct view *v = &j->v;
    const struct wisp_batch *b = j->s->batch;
    const struct wisp_kernels *k = j->s->ctx->k;
    const struct wisp_update *u = j->s->update;
    size_t width = j->l->n_in, n = b->n, first = block * WISP_OUT_BLOCK,
           m = wisp_block_rows(&j->s->active, block);
    float *gw = wisp_layer_thread(j->l, thread), *gathered = gw + WISP_OUT_BLOCK * width;
    float *gb = v->gb + first;
    const float *w = wisp_block_weights(gathered, &j->l->params[0], &j->s->active, block);
    float *g = v->z + first * v->ld;
    k->col_scale(g, v->ld, v->a + block * v->ld, m, n);
    for (uint32_t e = v->start[block]; e < v->start[block + 1]; e++)
        g[(b->place[e] - first) * v->ld + b->sample[e]] -=
            j->s->loss->target(n_true(b, b->sample[e])) / (float)n;
    k->gemm(part, width, g, 1, v->ld, w, width, n, width, m, add);
    k->gemm(gw, width, g, v->ld, 1, j->in->x, width, m, width, n, false);
    for (size_t i = 0; i < m; i++) gb[i] = k->sum(g + i * v->ld, n);
    for (size_t i = 0; i < m; i++) {
        size_t row = wisp_row_at(&j->s->active, first + i);
        u->row(u, &j->l->params[0], row, gw + i * width);
        u->row(u, &j->l->params[1], row, gb + i);
    }
}

static void backward_lane(void *arg, size_t lane, int thread)
{
    const struct job *j = arg;
    size_t n = j->v.n_blocks, lanes = j->v.n_lanes;
    size_t begin = lane * n / lanes, end = (lane + 1) * n / lanes;
    float *part = j->v.parts + lane * j->s->batch->n * j->l->n_in;
    for (size_t block = begin; block < end; block++)
        backward_block(j, block, part, block > begin, thread);
}

static void backward_batch(struct wisp_outcome *o, struct wisp_layer *l, struct wisp_step *s,
                           struct wisp_act *in)
{
    struct job j = { l, s, in, cut(l, s) };
    wisp_parallel_for(s->ctx->pool, j.v.n_lanes, backward_lane, &j);
    wisp_parts_add(s->ctx, in->g, j.v.parts, j.v.n_lanes, s->batch->n, l->n_in);
    *o = (struct wisp_outcome){
        .active = &s->active, .k = j.v.k, .best = j.v.k ? lists_of(&j, 0).id : NULL, .heat = j.v.gb
    };
}

static void backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *in,
                     const struct wisp_act *out)
{
    (void)out;
    struct wisp_outcome o;
    if (s->active.op) wisp_example_backward(&o, l, s, in);
    else backward_batch(&o, l, s, in);
    if (!l->sampler) return;
    struct wisp_query q = query(l, s, in);
    wisp_sampler_learn(l->sampler, s->ctx, &q, &o);
}

const struct wisp_layer_kind wisp_layer_output = {
    "output",       "one row a label, on the active set; added at the end of every net",
    WISP_ARG_WIDTH, plan,
    init,           forward,
    backward,
};

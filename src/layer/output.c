/* The output layer: one row of W (and one bias) a label, computed on the active set only.
 *
 * With n samples h (n, n_in) and the rows of an active set, by blocks of 96 rows, lanes of blocks
 * or tiles of samples: forward   (blocks) Z = W h^T + bias (96, n): labels are rows, so W needs no
 * packing.  The loss makes of Z what is the gradient but for a factor a sample and the targets: E;
 * it leaves a number a sample and block, and so does the largest logit combine   (tiles) over all
 * blocks: each sample's loss and factor backward  (lanes) E -= targets / factor gradient of h  +=
 * E^T W  (one partial sum a lane, added in order afterwards) gradient of W   = E (factor h), and
 * the rows move at once Three products (product.h) of 2 * n * n_in * rows operations are all that
 * matters; E is the only large buffer.
 *
 * On the way back the best rows of each sample are collected for the layer's sampler, which also
 * gets each row's summed gradient.  Where there are at least as many blocks as best rows are
 * wanted, that many of the blocks' largest logits are a limit that few others pass.
 *
 * A logit is taken relative to 0, which serves unless a sample's largest is far from it: then
 * forward is done once more, relative to the largest.
 *
 * Where every sample has a set of its own, example.c does all this.
 *
 * scratch:  loss (batch doubles) | factor, largest, origin, limit (batch)
 *           | largest, sums (blocks, batch) | starts (blocks + 1) | bias gradients (active)
 *           | what the products share | partial sums (lanes) | best rows (batch, k)
 *           | lists of the best (lanes)
 * of each thread: gradient of a block (96, n_in) | a row of E (batch) | places (batch) | what the
 *           products use; or keys of the lists */
#include "layer/output.h"
#include "hash/best.h"
#include "layer/example.h"
#include "layer/product.h"
#include "layer/rows.h"

#include <math.h>
#include <string.h>

struct view { /* the scratch, cut up for this step */
    float *block_max, *block_sum, *factor, *max, *origin, *limit, *gb;
    void *shared[WISP_PRODUCT_PARTS];
    float *part[WISP_OUT_LANES];            /* of the gradient of h */
    struct wisp_best lists[WISP_OUT_LANES]; /* of the best rows */
    int32_t *best;                          /* (batch, k) of the lists, joined */
    double *loss;
    uint32_t *start; /* (blocks + 1) true labels of a block: places start[i] .. start[i+1] of the
                        batch's lists */
    size_t ld, n_blocks, n_lanes;
    size_t k; /* best rows collected of each sample; 0: none */
};

static const struct wisp_precision *precision(const struct wisp_precision *chosen)
{
    return chosen ? chosen : &wisp_precision_fp32;
}

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* For n samples, 'active' rows, and the k best of each sample. */
static struct view lay_out(struct wisp_cut *c, const struct wisp_layer *l, size_t n, size_t active,
                           size_t k)
{
    struct view v = {
        .ld = n, .n_blocks = wisp_out_blocks(active), .n_lanes = wisp_out_lanes(active), .k = k
    };
    v.loss = wisp_cut_take(c, n, sizeof *v.loss);
    v.factor = wisp_cut_take(c, n, sizeof *v.factor);
    v.max = wisp_cut_take(c, n, sizeof *v.max);
    v.origin = wisp_cut_take(c, n, sizeof *v.origin);
    v.limit = wisp_cut_take(c, n, sizeof *v.limit);
    v.block_max = wisp_cut_take(c, v.n_blocks * n, sizeof *v.block_max);
    v.block_sum = wisp_cut_take(c, v.n_blocks * n, sizeof *v.block_sum);
    v.start = wisp_cut_take(c, v.n_blocks + 1, sizeof *v.start);
    v.gb = wisp_cut_take(c, active, sizeof *v.gb);
    l->precision->lay(v.shared, c, n, l->n_in, active);
    for (size_t i = 0; i < v.n_lanes; i++)
        v.part[i] = wisp_cut_take(c, l->precision->part_floats(n, l->n_in), sizeof *v.part[i]);
    if (k == 0) return v;
    v.best = wisp_cut_take(c, n * k, sizeof *v.best);
    for (size_t i = 0; i < v.n_lanes; i++) v.lists[i] = wisp_best_lay(c, n, k);
    return v;
}

struct work { /* of a thread, on a block */
    float *gw, *row;
    int32_t *where;
    float *products;
};

static struct work lay_work(struct wisp_cut *c, const struct wisp_layer *l, size_t n)
{
    struct work w;
    w.gw = wisp_cut_take(c, WISP_OUT_BLOCK * l->n_in, sizeof *w.gw);
    w.row = wisp_cut_take(c, n, sizeof *w.row);
    w.where = wisp_cut_take(c, n, sizeof *w.where);
    w.products = wisp_cut_take(c, l->precision->thread_floats(n, l->n_in), sizeof *w.products);
    return w;
}

/* Keys that a thread works on, before or after its blocks: one a block, or all that the lanes have
 * of a sample. */
static uint64_t *lay_keys(struct wisp_cut *c, size_t blocks, size_t lanes, size_t k)
{
    return wisp_cut_take(c, most(blocks, lanes * wisp_best_room(k)), sizeof(uint64_t));
}

static wisp_status plan(struct wisp_layer *l, const struct wisp_act *const *in,
                        struct wisp_act *out, const struct wisp_layer_sizes *s, wisp_error *err)
{
    (void)in, (void)out, (void)err;
    l->n_out = s->labels;
    struct wisp_param *w = wisp_layer_declare_rows(l, "weight", WISP_BY_LABEL, l->n_out, l->n_in);
    w->narrow = true;
    w->half = s->half;
    wisp_layer_declare_rows(l, "bias", WISP_BY_LABEL, l->n_out, 1);
    l->precision = precision(s->precision);
    if (s->training && s->own) {
        wisp_example_plan(l, s);
    } else if (s->training) {
        struct wisp_cut shared = { 0 }, work = { 0 }, keys = { 0 };
        lay_out(&shared, l, s->batch, s->active, s->best);
        lay_work(&work, l, s->batch);
        lay_keys(&keys, wisp_out_blocks(s->active), wisp_out_lanes(s->active), s->best);
        l->scratch_floats = shared.at / sizeof(float);
        l->thread_floats = most(work.at, keys.at) / sizeof(float);
    }
    return WISP_OK;
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
    struct wisp_product p;
};

/* forward begins with nothing, backward finds what forward left. */
static struct job job_of(const struct wisp_layer *l, struct wisp_step *s, const struct wisp_act *in,
                         enum wisp_cut_mode mode)
{
    size_t k = l->sampler && s->active.n ? wisp_sampler_best(l->sampler) : 0;
    struct wisp_cut c = wisp_layer_cut(l, mode);
    struct job j = {
        (struct wisp_layer *)l, s, in, lay_out(&c, l, s->batch->n, s->active.n, k), { 0 }
    };
    j.p = (struct wisp_product){ .kind = l->precision,
                                 .k = s->ctx->k,
                                 .w = &l->params[0],
                                 .a = &s->active,
                                 .n = s->batch->n,
                                 .width = l->n_in,
                                 .h = in->x };
    memcpy(j.p.shared, j.v.shared, sizeof j.p.shared);
    return j;
}

static void phase(const struct job *j, int thread, enum wisp_phase phase)
{
    wisp_phase(j->s->ctx->pool, thread, phase);
}

static struct work work_of(const struct job *j, int thread)
{
    struct wisp_cut c = wisp_layer_thread_cut(j->l, thread, WISP_CUT_FRESH);
    return lay_work(&c, j->l, j->v.ld);
}

static uint64_t *keys_of(const struct job *j, int thread)
{
    struct wisp_cut c = wisp_layer_thread_cut(j->l, thread, WISP_CUT_FRESH);
    return lay_keys(&c, j->v.n_blocks, j->v.n_lanes, j->v.k);
}

/* ---- forward ---- */

static void begin_tile(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct job *j = arg;
    j->p.kind->begin(&j->p, tile * WISP_TILE, wisp_tile_rows(j->p.n, tile));
}

/* Rows drawn at random stand for all that were not: their logits are raised. */
static void raise(const struct job *j, float *z, size_t first, size_t m)
{
    const float *shift = j->s->active.shift;
    for (size_t i = 0; shift && i < m; i++)
        for (size_t c = 0; shift[first + i] != 0 && c < j->v.ld; c++)
            z[i * j->v.ld + c] += shift[first + i];
}

static void forward_block(void *arg, size_t block, int thread)
{
    const struct job *j = arg;
    const struct view *v = &j->v;
    const struct wisp_batch *b = j->s->batch;
    size_t m = wisp_block_rows(&j->s->active, block), first = block * WISP_OUT_BLOCK;
    float bias[WISP_OUT_BLOCK];
    struct work own = work_of(j, thread);
    phase(j, thread, WISP_PHASE_GATHER);
    const void *w = j->p.kind->gather(&j->p, block, false, own.products);
    for (size_t i = 0; i < m; i++) {
        size_t row = wisp_row_at(&j->s->active, first + i);
        bias[i] = j->l->params[1].w[row] + (j->l->raise ? j->l->raise[row] : 0);
    }
    phase(j, thread, WISP_PHASE_PRODUCTS);
    float *z = j->p.kind->forward(&j->p, block, m, w, bias, own.products);
    phase(j, thread, WISP_PHASE_LOSS);
    raise(j, z, first, m);
    for (uint32_t e = v->start[block]; e < v->start[block + 1]; e++)
        b->logit[e] = z[(b->place[e] - first) * v->ld + b->sample[e]];
    j->p.k->col_max(v->block_max + block * v->ld, z, v->ld, m, v->ld);
    j->s->loss->block(j->p.k, z, v->ld, m, v->ld, v->origin, v->block_sum + block * v->ld);
    j->p.kind->keep(&j->p, block, m, z);
}

/* Files the true labels by block: count, prefix sum, fill. */
static void file_labels(const struct job *j)
{
    const struct wisp_batch *b = j->s->batch;
    uint32_t *start = j->v.start, *place = (uint32_t *)b->logit; /* which is filled later */
    memset(start, 0, (j->v.n_blocks + 1) * sizeof *start);
    for (size_t i = 0; i < b->yp[b->n]; i++) {
        size_t at = wisp_active_place(&j->s->active, b->yi[i]);
        place[i] = at == SIZE_MAX ? UINT32_MAX : (uint32_t)at;
        if (at != SIZE_MAX) start[at / WISP_OUT_BLOCK]++;
    }
    uint32_t sum = 0;
    for (size_t i = 0; i <= j->v.n_blocks; i++) {
        uint32_t count = i < j->v.n_blocks ? start[i] : 0;
        start[i] = sum;
        sum += count;
    }
    for (size_t i = 0; i < b->n; i++)
        for (uint32_t y = b->yp[i]; y < b->yp[i + 1]; y++) {
            if (place[y] == UINT32_MAX) continue;
            uint32_t at = start[place[y] / WISP_OUT_BLOCK]++;
            b->place[at] = place[y];
            b->sample[at] = (uint32_t)i;
        }
    for (size_t i = j->v.n_blocks; i > 0; i--) start[i] = start[i - 1];
    start[0] = 0;
}

static size_t n_true(const struct wisp_batch *b, size_t i)
{
    return b->yp[i + 1] - b->yp[i];
}

/* The loss and the factor of a sample, its weight and 1/n folded into the factor. */
static void combine(const struct job *j, size_t i)
{
    const struct view *v = &j->v;
    const struct wisp_batch *b = j->s->batch;
    double sum = 0;
    float factor = 0;
    v->max[i] = -INFINITY;
    for (size_t block = 0; block < v->n_blocks; block++) {
        sum += v->block_sum[block * v->ld + i];
        v->max[i] = fmaxf(v->max[i], v->block_max[block * v->ld + i]);
    }
    bool counts = v->n_blocks > 0 && (n_true(b, i) > 0 || j->s->loss->uses_unlabelled);
    v->loss[i] = counts ? j->s->loss->finish(v->origin[i], sum, &factor) : 0;
    v->factor[i] = wisp_batch_weight(b, i) * factor / (float)b->n;
}

/* What a number of E must be above to be worth collecting: what the sampler knows already, and the
 * k-th largest of the blocks' largest logits, as k rows are at least that. */
static float limit_of(const struct job *j, size_t i, uint64_t *keys)
{
    const struct view *v = &j->v;
    float limit = wisp_sampler_limits(j->l->sampler)[i], least = INFINITY;
    for (size_t b = 0; b < v->n_blocks; b++) keys[b] = wisp_key(v->block_max[b * v->ld + i], 0);
    wisp_keys_select(keys, v->n_blocks, v->k);
    for (size_t b = 0; b < v->k && b < v->n_blocks; b++)
        least = fminf(least, wisp_key_score(keys[b]));
    if (v->n_blocks >= v->k && least > limit) limit = least;
    return 0.98f * j->s->loss->value(limit, v->origin[i]); /* E may be rounded */
}

static void combine_tile(void *arg, size_t tile, int thread)
{
    const struct job *j = arg;
    uint64_t *keys = keys_of(j, thread);
    size_t first = tile * WISP_TILE, n = wisp_tile_rows(j->v.ld, tile);
    for (size_t i = first; i < first + n; i++) {
        combine(j, i);
        if (j->v.k) j->v.limit[i] = limit_of(j, i, keys);
    }
    j->p.kind->factors(&j->p, j->v.factor, first, n);
}

/* New origins where the old ones were too far off; true: there are some. */
static bool move_origins(const struct job *j)
{
    const struct view *v = &j->v;
    bool moved = false;
    for (size_t i = 0; i < v->ld && v->n_blocks && j->s->loss->has_origin; i++)
        if (fabsf(v->max[i] - v->origin[i]) > WISP_LOSS_RANGE && isfinite(v->max[i])) {
            v->origin[i] = v->max[i];
            moved = true;
        }
    return moved;
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
                                .rows = wisp_layer_matrix(l) };
}

static void choose(const struct wisp_layer *l, struct wisp_step *s, const struct wisp_act *in)
{
    struct wisp_query q = query(l, s, in);
    if (l->sampler) wisp_sampler_choose(&s->active, l->sampler, s->ctx, &q);
    else if (s->active.n == 0) s->active = (struct wisp_active){ .n = l->n_out };
    if (!s->look) return;
    wisp_phase(s->ctx->pool, 0, WISP_PHASE_OTHER);
    s->look(s->look_arg, l, s, in->x);
}

/* The true labels' part of the loss. */
static void add_up(const struct job *j)
{
    const struct wisp_batch *b = j->s->batch;
    const struct view *v = &j->v;
    for (uint32_t e = 0; e < v->start[v->n_blocks]; e++)
        v->loss[b->sample[e]] -= (double)j->s->loss->target(n_true(b, b->sample[e])) * b->logit[e];
    j->s->loss_sum = 0;
    for (size_t i = 0; i < b->n; i++)
        j->s->loss_sum += (double)wisp_batch_weight(b, i) * v->loss[i];
}

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    (void)out, (void)err;
    struct wisp_pool *pool = s->ctx->pool;
    wisp_phase(pool, 0, WISP_PHASE_QUERY);
    choose(l, s, in[0]);
    wisp_phase(pool, 0, WISP_PHASE_LOSS);
    if (s->active.op) {
        wisp_example_forward(l, s, in[0]);
        return WISP_OK;
    }
    struct job j = job_of(l, s, in[0], WISP_CUT_FRESH);
    size_t tiles = wisp_tiles(s->batch->n);
    file_labels(&j);
    memset(j.v.origin, 0, j.v.ld * sizeof *j.v.origin);
    wisp_parallel_for(pool, tiles, begin_tile, &j);
    do {
        wisp_parallel_for(pool, j.v.n_blocks, forward_block, &j);
        wisp_parallel_for(pool, tiles, combine_tile, &j);
    } while (move_origins(&j));
    add_up(&j);
    return WISP_OK;
}

/* ---- backward ---- */

/* The targets, before the factor.  E of a true label is made anew from its logit: what is kept may
 * be too coarse to subtract from. */
static void subtract_targets(const struct job *j, size_t block)
{
    const struct wisp_batch *b = j->s->batch;
    const struct view *v = &j->v;
    for (uint32_t e = v->start[block]; e < v->start[block + 1]; e++) {
        uint32_t i = b->sample[e];
        float target = wisp_batch_weight(b, i) * j->s->loss->target(n_true(b, i)) / (float)b->n;
        float value = j->s->loss->value(b->logit[e], v->origin[i]);
        if (v->factor[i] == 0) continue; /* of weight 0: nothing of it counts */
        j->p.kind->set(&j->p, b->place[e], i, value - target / v->factor[i]);
    }
}

/* Bias gradients, and the best rows, from the rows of E. */
static void look_at_rows(const struct job *j, size_t first, size_t m, struct wisp_best *best,
                         const struct work *own)
{
    const struct view *v = &j->v;
    for (size_t i = first; i < first + m; i++) {
        const float *e = j->p.kind->row(&j->p, i, own->row);
        v->gb[i] = j->p.k->dot(e, v->factor, v->ld);
        if (v->k)
            wisp_best_collect(best, j->p.k, e, 1, NULL, wisp_row_at(&j->s->active, i), own->where);
    }
}

static void backward_block(const struct job *j, size_t block, float *part, bool add,
                           struct wisp_best *best, int thread)
{
    const struct wisp_update *u = j->s->update;
    struct wisp_param *weight = &j->l->params[0], *bias = &j->l->params[1];
    size_t width = j->l->n_in, first = block * WISP_OUT_BLOCK,
           m = wisp_block_rows(&j->s->active, block);
    struct work own = work_of(j, thread);
    phase(j, thread, WISP_PHASE_GATHER);
    const void *w = j->p.kind->gather(&j->p, block, true, own.products);
    for (size_t i = 0; i < m; i++)
        wisp_param_fetch(bias, wisp_row_at(&j->s->active, first + i), true);
    phase(j, thread, WISP_PHASE_LOSS);
    subtract_targets(j, block);
    look_at_rows(j, first, m, best, &own);
    phase(j, thread, WISP_PHASE_PRODUCTS);
    j->p.kind->backward(&j->p, block, m, w, part, add, own.gw, own.products);
    phase(j, thread, WISP_PHASE_UPDATE);
    for (size_t i = 0; i < m; i++) {
        size_t row = wisp_row_at(&j->s->active, first + i);
        u->row(u, weight, row, own.gw + i * width);
        u->row(u, bias, row, j->v.gb + first + i);
    }
}

static void backward_lane(void *arg, size_t lane, int thread)
{
    const struct job *j = arg;
    size_t n = j->v.n_blocks, lanes = j->v.n_lanes;
    size_t begin = lane * n / lanes, end = (lane + 1) * n / lanes;
    struct wisp_best best = j->v.lists[lane];
    if (j->v.k) wisp_best_reset(&best, j->v.limit);
    for (size_t block = begin; block < end; block++)
        backward_block(j, block, j->v.part[lane], block > begin, &best, thread);
}

/* The gradient of h, and the best rows, of a tile of samples. */
static void end_tile(void *arg, size_t tile, int thread)
{
    const struct job *j = arg;
    size_t first = tile * WISP_TILE, n = wisp_tile_rows(j->p.n, tile), k = j->v.k;
    j->p.kind->end(&j->p, j->in->g, j->v.part, j->v.n_lanes, j->v.factor, first, n,
                   work_of(j, thread).products);
    uint64_t *keys = keys_of(j, thread);
    for (size_t i = first; k && i < first + n; i++) {
        size_t found = wisp_best_take(keys, j->v.lists, j->v.n_lanes, i, -INFINITY);
        for (size_t c = 0; c < k; c++)
            j->v.best[i * k + c] = c < found ? wisp_key_row(keys[c]) : -1;
    }
}

static void backward_batch(struct wisp_outcome *o, struct wisp_layer *l, struct wisp_step *s,
                           struct wisp_act *in)
{
    struct job j = job_of(l, s, in, WISP_CUT_AGAIN);
    wisp_parallel_for(s->ctx->pool, j.v.n_lanes, backward_lane, &j);
    wisp_phase(s->ctx->pool, 0, WISP_PHASE_PRODUCTS);
    wisp_parallel_for(s->ctx->pool, wisp_tiles(s->batch->n), end_tile, &j);
    *o =
        (struct wisp_outcome){ .active = &s->active, .k = j.v.k, .best = j.v.best, .heat = j.v.gb };
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    (void)out, (void)err;
    struct wisp_outcome o;
    if (s->active.op) wisp_example_backward(&o, l, s, in[0]);
    else backward_batch(&o, l, s, in[0]);
    if (!l->sampler) return WISP_OK;
    wisp_phase(s->ctx->pool, 0, WISP_PHASE_UPKEEP);
    struct wisp_query q = query(l, s, in[0]);
    wisp_sampler_learn(l->sampler, s->ctx, &q, &o);
    return WISP_OK;
}

const struct wisp_layer_kind wisp_layer_output = {
    .name = "output",
    .what = "one row per label, of which a step computes some; added to a net without it",
    .takes = WISP_FLAT,
    .head = true,
    .plan = plan,
    .init = init,
    .forward = forward,
    .backward = backward,
};

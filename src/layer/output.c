/* The output layer: one row of W (and one bias) per label, computed on the active set only.
 *
 * With n samples h (n, n_in) and the rows of an active set, by blocks of 96 rows, lanes of blocks
 * or tiles of samples:
 *
 *   choose    the sampler names the rows; true labels are filed by block
 *   score     (blocks) Z = W h^T + bias (96, n): labels are rows, so W needs no packing.  The loss
 *             makes of Z what is the gradient but for one factor per sample and the targets: E; it
 *             leaves one number per sample and block, and so does the largest logit
 *   combine   (tiles) over all blocks: each sample's loss and factor
 *   back      (lanes) E -= targets / factor (of all rows where targets are smoothed)
 *             gradient of h += E^T W  (one partial sum per lane, added in order afterwards)
 *             gradient of W  = E (factor h), and the rows move at once
 *   move      the sampler learns from the best rows and from each row's summed gradient
 *
 * Three products (product.h) of 2 * n * n_in * rows operations are all that matters; E is the only
 * large buffer.
 *
 * On the way back the best rows of each sample are collected for the layer's sampler.  Where there
 * are at least as many blocks as best rows are wanted, that many of the blocks' largest logits are
 * a limit that few others pass.
 *
 * A logit is taken relative to 0, which serves unless a sample's largest is far from it: then it is
 * scored once more, relative to the largest.
 *
 * Where every sample has a set of its own, example.c does all this.
 *
 * Of several ranks each has the rows of some labels, and computes these.  Between score and combine
 * they exchange each sample's sum and largest logit, and after back the gradients of h; s->head.loss_sum
 * is then a rank's part of the loss.  Rows here are a rank's own, labels of the batch are ids.
 *
 * scratch:  loss (batch doubles) | factor, largest, origin, limit (batch)
 *           | largest, sums, where targets are smoothed sums of logits (blocks, batch)
 *           | starts (blocks + 1) | bias gradients (active)
 *           | what the products share | partial sums (lanes) | best rows (batch, k)
 *           | lists of the best (lanes)
 * of each thread: gradient of a block (96, n_in) | a row of E (batch) | places (batch) | what the
 *           products use; or keys of the lists */
#include "layer/out.h"
#include "base/bounds.h"
#include "comm/comm.h"
#include "layer/example.h"

#include <string.h>

static const struct wisp_precision *precision(const struct wisp_precision *chosen)
{
    return chosen ? chosen : &wisp_precision_fp32;
}

/* For n samples, 'active' rows, and the k best of each sample. */
static struct wisp_out_view lay_out(struct wisp_cut *c, const struct wisp_layer *l, size_t n,
                                    size_t active, size_t k)
{
    struct wisp_out_view v = {
        .ld = n, .n_blocks = wisp_out_blocks(active), .n_lanes = wisp_out_lanes(active), .k = k
    };
    v.loss = wisp_cut_take(c, n, sizeof *v.loss);
    v.factor = wisp_cut_take(c, n, sizeof *v.factor);
    v.max = wisp_cut_take(c, n, sizeof *v.max);
    v.origin = wisp_cut_take(c, n, sizeof *v.origin);
    v.limit = wisp_cut_take(c, n, sizeof *v.limit);
    v.block_max = wisp_cut_take(c, v.n_blocks * n, sizeof *v.block_max);
    v.block_sum = wisp_cut_take(c, v.n_blocks * n, sizeof *v.block_sum);
    if (l->smoothing > 0) v.block_z = wisp_cut_take(c, v.n_blocks * n, sizeof *v.block_z);
    if (wisp_out_shared(l)) v.sums = wisp_cut_take(c, n, sizeof *v.sums);
    v.start = wisp_cut_take(c, v.n_blocks + 1, sizeof *v.start);
    v.gb = wisp_cut_take(c, active, sizeof *v.gb);
    l->precision->lay(v.shared, c, n, l->n_in, active);
    for (size_t i = 0; i < v.n_lanes; i++)
        v.part[i] = wisp_cut_take(c, l->precision->part_floats(n, l->n_in), sizeof *v.part[i]);
    if (k == 0) return v;
    v.best = wisp_cut_take(c, n * k, sizeof *v.best);
    if (wisp_out_shared(l)) v.keys = wisp_cut_take(c, n * k, sizeof *v.keys);
    for (size_t i = 0; i < v.n_lanes; i++) v.lists[i] = wisp_best_lay(c, n, k);
    return v;
}

static struct wisp_out_work lay_work(struct wisp_cut *c, const struct wisp_layer *l, size_t n)
{
    struct wisp_out_work w;
    w.gw = wisp_cut_take(c, WISP_OUT_BLOCK * l->n_in, sizeof *w.gw);
    w.row = wisp_cut_take(c, n, sizeof *w.row);
    w.where = wisp_cut_take(c, n, sizeof *w.where);
    w.products = wisp_cut_take(c, l->precision->thread_floats(n, l->n_in), sizeof *w.products);
    return w;
}

/* Keys that a thread works on, before or after its blocks: one per block, or all that the lanes
 * have of a sample. */
static uint64_t *lay_keys(struct wisp_cut *c, size_t blocks, size_t lanes, size_t k)
{
    return wisp_cut_take(c, wisp_most(blocks, lanes * wisp_best_room(k)), sizeof(uint64_t));
}

enum { LOSS };

static const char *loss_name(size_t i)
{
    const struct wisp_loss *loss = wisp_loss_at(i);
    return loss ? loss->name : NULL;
}

static const struct wisp_arg args[] = { [LOSS] = { .name = "loss",
                                                   .what = "what training makes small; else --loss",
                                                   .type = WISP_ARG_WORD,
                                                   .word = loss_name,
                                                   .fallback = "",
                                                   .by_name = true },
                                        { .name = NULL } };

const struct wisp_loss *wisp_output_loss(const struct wisp_layer *l)
{
    return l->given & 1u << LOSS ? wisp_loss_at((size_t)l->arg[LOSS]) : NULL;
}

static wisp_status plan(struct wisp_layer *l, const struct wisp_act *const *in,
                        struct wisp_act *out, const struct wisp_layer_sizes *s, wisp_error *err)
{
    (void)in, (void)out;
    const struct wisp_loss *loss = wisp_output_loss(l);
    if (loss && s->loss && loss != s->loss)
        return wisp_fail(err, WISP_EINVAL,
                         "'output' has loss=%s, but %s is %s; leave out one of them", loss->name,
                         s->loss_by, s->loss->name);
    l->n_out = wisp_share_rows(s->share, s->labels);
    struct wisp_param *w =
        wisp_layer_declare_share(l, "weight", WISP_BY_LABEL, s->share, s->labels, l->n_in);
    w->narrow = true;
    w->half = s->half;
    wisp_param_axes(w, WISP_AXIS_NONE, WISP_AXIS_IN);
    wisp_layer_declare_share(l, "bias", WISP_BY_LABEL, s->share, s->labels, 1);
    l->precision = precision(s->precision);
    l->smoothing = s->smoothing;
    if (l->list->full) return WISP_OK; /* out of memory: said when all layers are planned */
    if (s->training && s->own) {
        wisp_example_plan(l, s);
    } else if (s->training) {
        struct wisp_cut shared = { 0 }, work = { 0 }, keys = { 0 };
        lay_out(&shared, l, s->batch, s->active, s->best);
        lay_work(&work, l, s->batch);
        lay_keys(&keys, wisp_out_blocks(s->active), wisp_out_lanes(s->active), s->best);
        l->scratch_floats = shared.at / sizeof(float);
        l->thread_floats = wisp_most(work.at, keys.at) / sizeof(float);
    }
    return WISP_OK;
}

/* Small rows: at the start the bias (the label's prior, set by the model) decides. */
static void init(struct wisp_layer *l, uint64_t seed, struct wisp_pool *pool)
{
    wisp_param_normal(&l->params[0], 0.01, seed, 2 * l->number, pool);
    memset(l->params[1].w, 0, l->n_out * sizeof(float));
}

/* ---- the phases ---- */

/* The scratch as 'choose' begins it (WISP_CUT_FRESH), or as the phase before left it. */
static struct wisp_out_job job_of(const struct wisp_layer *l, struct wisp_step *s,
                                  const struct wisp_act *in, enum wisp_cut_mode mode)
{
    const bool some = s->head.active.n || (l->sampler && wisp_out_shared(l));
    size_t k = l->sampler && some ? wisp_sampler_best(l->sampler) : 0;
    struct wisp_cut c = wisp_layer_cut(l, mode);
    struct wisp_out_job j = {
        (struct wisp_layer *)l, s, in, lay_out(&c, l, s->batch->n, s->head.active.n, k), { 0 }
    };
    j.p = (struct wisp_product){ .kind = l->precision,
                                 .k = s->ctx->k,
                                 .w = &l->params[0],
                                 .a = &s->head.active,
                                 .n = s->batch->n,
                                 .width = l->n_in,
                                 .h = in->x };
    memcpy(j.p.shared, j.v.shared, sizeof j.p.shared);
    return j;
}

struct wisp_out_work wisp_out_work(const struct wisp_out_job *j, int thread)
{
    struct wisp_cut c = wisp_layer_thread_cut(j->l, thread, WISP_CUT_FRESH);
    return lay_work(&c, j->l, j->v.ld);
}

uint64_t *wisp_out_keys(const struct wisp_out_job *j, int thread)
{
    struct wisp_cut c = wisp_layer_thread_cut(j->l, thread, WISP_CUT_FRESH);
    return lay_keys(&c, j->v.n_blocks, j->v.n_lanes, j->v.k);
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

static wisp_status choose(struct wisp_layer *l, struct wisp_step *s, const struct wisp_act *in,
                          wisp_error *err)
{
    wisp_phase(s->ctx->pool, 0, WISP_PHASE_QUERY);
    struct wisp_query q = query(l, s, in);
    if (l->sampler && wisp_out_shared(l)) {
        wisp_status st = wisp_sampler_choose_shared(&s->head.active, l->sampler, s->ctx, &q, err);
        if (st != WISP_OK) return st;
    } else if (l->sampler) wisp_sampler_choose(&s->head.active, l->sampler, s->ctx, &q);
    else if (s->head.active.n == 0) s->head.active = (struct wisp_active){ .n = l->n_out };
    if (s->head.look) {
        wisp_phase(s->ctx->pool, 0, WISP_PHASE_OTHER);
        wisp_status st = s->head.look(s->head.look_arg, l, s, in->x, err);
        if (st != WISP_OK) return st;
    }
    wisp_phase(s->ctx->pool, 0, WISP_PHASE_LOSS);
    if (s->head.active.op) return WISP_OK;
    struct wisp_out_job j = job_of(l, s, in, WISP_CUT_FRESH);
    wisp_out_begin(&j);
    return WISP_OK;
}

static wisp_status score(struct wisp_layer *l, struct wisp_step *s, const struct wisp_act *in,
                         wisp_error *err)
{
    (void)err;
    if (s->head.active.op) {
        wisp_example_forward(l, s, in);
        return WISP_OK;
    }
    struct wisp_out_job j = job_of(l, s, in, WISP_CUT_AGAIN);
    wisp_out_score(&j);
    return WISP_OK;
}

static wisp_status combine(struct wisp_layer *l, struct wisp_step *s, const struct wisp_act *in,
                           bool *again, wisp_error *err)
{
    *again = false;
    if (s->head.active.op) return WISP_OK; /* every sample by itself, when it was scored */
    struct wisp_out_job j = job_of(l, s, in, WISP_CUT_AGAIN);
    return wisp_out_combine(&j, again, err);
}

static wisp_status back(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *in,
                        wisp_error *err)
{
    if (s->head.active.op) {
        wisp_example_backward(&s->head.outcome, l, s, in);
        return WISP_OK;
    }
    struct wisp_out_job j = job_of(l, s, in, WISP_CUT_AGAIN);
    wisp_status st = wisp_out_back(&j, err);
    s->head.outcome = (struct wisp_outcome){
        .active = &s->head.active, .k = j.v.k, .best = j.v.best, .heat = j.v.gb
    };
    if (st != WISP_OK || !wisp_out_shared(l) || !in->g) return st;
    wisp_phase(s->ctx->pool, 0, WISP_PHASE_OTHER);
    return wisp_comm_sum(s->ctx->comm, in->g, s->batch->n * l->n_in, err);
}

static wisp_status move(struct wisp_layer *l, struct wisp_step *s, const struct wisp_act *in,
                        wisp_error *err)
{
    if (!l->sampler) return WISP_OK;
    wisp_phase(s->ctx->pool, 0, WISP_PHASE_UPKEEP);
    struct wisp_query q = query(l, s, in);
    if (wisp_out_shared(l))
        return wisp_sampler_learn_shared(l->sampler, s->ctx, &q, &s->head.outcome, err);
    wisp_sampler_learn(l->sampler, s->ctx, &q, &s->head.outcome);
    return WISP_OK;
}

static const struct wisp_head head = {
    .choose = choose, .score = score, .combine = combine, .back = back, .move = move
};

const struct wisp_layer_kind wisp_layer_output = {
    .name = "output",
    .what = "one row per label, of which a step computes some; added to a net without it",
    .args = args,
    .takes = WISP_FLAT,
    .uses = WISP_USES_X | WISP_SAMPLES,
    .head = &head,
    .ties = WISP_TIES_NEW,
    .plan = plan,
    .init = init,
    .flops = wisp_layer_flops_matrix,
};

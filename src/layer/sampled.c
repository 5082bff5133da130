/* A wide hidden layer, one row of W (and one bias) a unit, of which a training step computes only
 * the rows that the layer's sampler chose for the batch.
 *
 *   forward   Z = W h^T + bias by blocks of 96 rows, turned round into out (n, n_out); units whose
 *             rows are not active are 0
 *   backward  G = the gradient of the active units, (96, n)
 *             gradient of h += G^T W  (one partial sum per lane), gradient of W = G h; rows move
 * So a unit that is not active neither learns nor teaches the layer below.  Outside training every
 * unit is computed: which rows matter is the sampler's guess, not a part of the model.
 *
* kept:     the active set
 * scratch:  h^T (n_in, batch) | sums of G (n_out) | partial sums (lanes, batch, n_in)
 * of each thread: a block of Z or G (96, batch) | its rows (96, n_in) | their gradient (96, n_in)
 * (only the first of each are there when not training) */
#include "layer/sampled.h"
#include "layer/rows.h"

#include <math.h>
#include <string.h>

struct job {
    struct wisp_layer *l;
    struct wisp_step *s;
    const struct wisp_act *in, *out;
    struct wisp_active a;
    float *ht, *sums, *parts;
};

static void lay_out(struct job *j, struct wisp_cut *c, size_t n)
{
    const struct wisp_layer *l = j->l;
    j->ht = wisp_cut_take(c, l->n_in * n, sizeof *j->ht);
    if (!l->trains) return;
    j->sums = wisp_cut_take(c, l->n_out, sizeof *j->sums);
    j->parts = wisp_cut_take(c, wisp_out_lanes(l->n_out) * n * l->n_in, sizeof *j->parts);
}

struct work { /* of a thread, on a block */
    float *z, *rows, *gw;
};

static struct work lay_work(struct wisp_cut *c, const struct wisp_layer *l, size_t n)
{
    struct work w = { 0 };
    w.z = wisp_cut_take(c, WISP_OUT_BLOCK * n, sizeof *w.z);
    if (!l->trains) return w;
    w.rows = wisp_cut_take(c, WISP_OUT_BLOCK * l->n_in, sizeof *w.rows);
    w.gw = wisp_cut_take(c, WISP_OUT_BLOCK * l->n_in, sizeof *w.gw);
    return w;
}

static struct work work_of(const struct job *j, int thread)
{
    struct wisp_cut c = wisp_layer_thread_cut(j->l, thread, WISP_CUT_FRESH);
    return lay_work(&c, j->l, j->s->batch->n);
}

static wisp_status plan(struct wisp_layer *l, const struct wisp_act *const *in,
                        struct wisp_act *out, const struct wisp_layer_sizes *s, wisp_error *err)
{
    (void)in, (void)out, (void)err;
    l->n_out = (size_t)l->arg[0];
    wisp_param_axes(wisp_layer_declare_rows(l, "weight", WISP_BY_NONE, l->n_out, l->n_in),
                    WISP_AXIS_OUT, WISP_AXIS_IN);
    wisp_param_axes(wisp_layer_declare_rows(l, "bias", WISP_BY_NONE, l->n_out, 1), WISP_AXIS_OUT,
                    WISP_AXIS_NONE);
    struct wisp_cut shared = { 0 }, work = { 0 };
    struct job none = { .l = l };
    lay_out(&none, &shared, s->batch);
    lay_work(&work, l, s->batch);
    l->scratch_floats = shared.at / sizeof(float);
    l->kept_floats = sizeof(struct wisp_active) / sizeof(float); /* wisp_sampled_active */
    l->thread_floats = work.at / sizeof(float);
    return WISP_OK;
}

/* Scratch is forward's, or backward's. */
static struct job make_job(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *in, const struct wisp_act *out)
{
    struct job j = { .l = (struct wisp_layer *)l, .s = s, .in = in, .out = out };
    struct wisp_cut c = wisp_layer_cut(l, WISP_CUT_FRESH);
    lay_out(&j, &c, s->batch->n);
    j.a = *wisp_sampled_active(l);
    if (!s->training || j.a.n == 0) j.a = (struct wisp_active){ .n = l->n_out };
    return j;
}

/* Nobody knows the labels of a hidden layer. */
static struct wisp_query query(const struct wisp_layer *l, const struct wisp_step *s,
                               const struct wisp_act *in)
{
    return (struct wisp_query){
        .n = s->batch->n, .h = in->x, .step = s->number, .rows = wisp_layer_matrix(l)
    };
}

/* ---- forward ---- */

static void clear_tile(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct job *j = arg;
    size_t width = j->l->n_out;
    memset(j->out->x + tile * WISP_TILE * width, 0,
           wisp_tile_rows(j->s->batch->n, tile) * width * sizeof(float));
}

static void forward_block(void *arg, size_t block, int thread)
{
    const struct job *j = arg;
    const struct wisp_layer *l = j->l;
    size_t n = j->s->batch->n, first = block * WISP_OUT_BLOCK, m = wisp_block_rows(&j->a, block);
    struct work own = work_of(j, thread);
    float *z = own.z;
    const float *w = wisp_block_weights(own.rows, j->s->ctx->k, &l->params[0], &j->a, block);
    float bias[WISP_OUT_BLOCK];
    for (size_t i = 0; i < m; i++) bias[i] = l->params[1].w[wisp_row_at(&j->a, first + i)];
    j->s->ctx->k->gemm_bias(z, n, w, l->n_in, j->ht, n, bias, m, n, l->n_in);
    if (!j->a.rows) {
        j->s->ctx->k->transpose(j->out->x + first, l->n_out, z, n, m, n);
        return;
    }
    for (size_t c = 0; c < n; c++)
        for (size_t i = 0; i < m; i++)
            j->out->x[c * l->n_out + (size_t)j->a.rows[first + i]] = z[i * n + c];
}

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    (void)err;
    if (s->training && l->sampler && !s->again) {
        struct wisp_query q = query(l, s, in[0]);
        wisp_sampler_choose(wisp_sampled_active(l), l->sampler, s->ctx, &q);
    }
    struct job j = make_job(l, s, in[0], out);
    s->ctx->k->transpose(j.ht, s->batch->n, in[0]->x, l->n_in, s->batch->n, l->n_in);
    if (j.a.rows) wisp_parallel_for(s->ctx->pool, wisp_tiles(s->batch->n), clear_tile, &j);
    wisp_parallel_for(s->ctx->pool, wisp_out_blocks(j.a.n), forward_block, &j);
    return WISP_OK;
}

/* ---- backward ---- */

static void backward_block(const struct job *j, size_t block, float *part, bool add, int thread)
{
    const struct wisp_kernels *k = j->s->ctx->k;
    const struct wisp_update *u = j->s->update;
    struct wisp_layer *l = j->l;
    size_t n = j->s->batch->n, first = block * WISP_OUT_BLOCK, m = wisp_block_rows(&j->a, block);
    struct work own = work_of(j, thread);
    float *g = own.z, *gw = own.gw;
    const float *w = wisp_block_weights(own.rows, k, &l->params[0], &j->a, block);
    for (size_t c = 0; c < n; c++)
        for (size_t i = 0; i < m; i++)
            g[i * n + c] = j->out->g[c * l->n_out + wisp_row_at(&j->a, first + i)];
    k->gemm(part, l->n_in, g, 1, n, w, l->n_in, n, l->n_in, m, add);
    k->gemm(gw, l->n_in, g, n, 1, j->in->x, l->n_in, m, l->n_in, n, false);
    for (size_t i = 0; i < m; i++) {
        size_t row = wisp_row_at(&j->a, first + i);
        float *sum = j->sums + first + i;
        *sum = k->sum(g + i * n, n);
        u->row(u, &l->params[0], row, gw + i * l->n_in);
        u->row(u, &l->params[1], row, sum);
    }
}

static void backward_lane(void *arg, size_t lane, int thread)
{
    const struct job *j = arg;
    size_t n = wisp_out_blocks(j->a.n), lanes = wisp_out_lanes(j->a.n);
    size_t begin = lane * n / lanes, end = (lane + 1) * n / lanes;
    float *part = j->parts + lane * j->s->batch->n * j->l->n_in;
    for (size_t block = begin; block < end; block++)
        backward_block(j, block, part, block > begin, thread);
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    (void)err;
    struct job j = make_job(l, s, in[0], out);
    size_t lanes = wisp_out_lanes(j.a.n);
    wisp_parallel_for(s->ctx->pool, lanes, backward_lane, &j);
    if (in[0]->g) wisp_parts_add(s->ctx, in[0]->g, j.parts, lanes, s->batch->n, l->n_in);
    if (!l->sampler) return WISP_OK;
    struct wisp_query q = query(l, s, in[0]);
    struct wisp_outcome o = { .active = &j.a, .heat = j.sums };
    wisp_sampler_learn(l->sampler, s->ctx, &q, &o);
    return WISP_OK;
}

const struct wisp_layer_kind wisp_layer_sampled = {
    .name = "sampled",
    .what = "a wide hidden layer; training computes the rows its sampler chose",
    .args = wisp_args_width,
    .takes = WISP_FLAT,
    .uses = WISP_USES_X | WISP_SAMPLES,
    .ties = WISP_TIES_NEW,
    .plan = plan,
    .init = wisp_layer_init_he,
    .flops = wisp_layer_flops_matrix,
    .forward = forward,
    .backward = backward,
};

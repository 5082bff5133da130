/* Convolution: conv/conv.h has the formula.  Here are its arguments, its parameters, and the calls;
 * each pass goes the way that the context chooses (conv/choose.c), another one where the numbers have
 * many zeros, and in prediction another one for calls of one sample.
 *
 * weight is (out, in / groups, kh, kw), PyTorch's order; an output channel is a row, which an update
 * moves.  Weights are packed for a way right before its pass and forgotten after it: whoever changes
 * them in between, the packed ones are never old, and memory has those of one layer at a time.  Only
 * a net whose weights stay as they are (sizes.still: prediction) packs them once, when a call first
 * goes a way, and keeps them.
 *
 * There a batch norm behind the convolution is part of its weights and its bias (model/fuse.c).
 *
 *   threads' scratch, of a call   what the pass wants
 *   front (scratch)               packed weights of forward, if they are not kept
 *   back                          packed weights of data | gw | sums of gy per tile of samples
 *
 * Backward: data first, with the weights as they were; then weights; then each row of 16 is asked
 * for its gradient and moved. */
#include "layer/conv.h"
#include "base/file.h"
#include "base/mem.h"
#include "layer/bn.h"
#include "layer/planes.h"
#include "layer/product.h"

#include <math.h>
#include <string.h>

static const struct wisp_arg args[] = {
    [WISP_CONV_ARG_CHANNELS] = { .name = "channels",
                                 .what = "of the result",
                                 .type = WISP_ARG_INT,
                                 .least = 1,
                                 .most = WISP_MAX_CHANNELS,
                                 .counts = true },
    [WISP_CONV_ARG_KERNEL] = { .name = "kernel",
                               .what = "pixels that one of the result is made of",
                               .type = WISP_ARG_SIZE,
                               .least = 1,
                               .most = WISP_MAX_KERNEL,
                               .edges = 2 },
    [WISP_CONV_ARG_STRIDE] = { .name = "stride",
                               .what = "pixels from one place of the kernel to the next",
                               .type = WISP_ARG_INT,
                               .least = 1,
                               .most = WISP_MAX_KERNEL,
                               .fallback = "1",
                               .by_name = true },
    [WISP_CONV_ARG_PAD] = { .name = "pad",
                            .what = "zeros around the image; not given: half the kernel",
                            .type = WISP_ARG_SIZE,
                            .most = WISP_MAX_KERNEL,
                            .fallback = "",
                            .by_name = true,
                            .edges = 1 },
    [WISP_CONV_ARG_GROUPS] = { .name = "groups",
                               .what = "parts of the channels that do not see each other",
                               .type = WISP_ARG_INT,
                               .least = 1,
                               .most = WISP_MAX_CHANNELS,
                               .fallback = "1",
                               .by_name = true },
    [WISP_CONV_ARG_BIAS] = { .name = "bias",
                             .what = "a number that is added to each channel",
                             .type = WISP_ARG_WORD,
                             .words = "yes|no",
                             .fallback = "yes",
                             .by_name = true },
    { .name = NULL },
};

enum { KEPT_WAY, KEPT_ZEROS, KEPT_ALONE, KEPT }; /* ways whose packed weights are kept */

struct own { /* from plan on */
    struct wisp_conv c;
    const struct wisp_conv_way *way[WISP_CONV_PASSES]; /* NULL: a pass that nobody takes */
    struct wisp_conv_zeros zeros[WISP_CONV_PASSES];
    /* Where weights stay as they are: calls of one sample, whose weights are packed for it alone, go
     * ways of their own; way NULL: they do not. */
    struct {
        struct wisp_conv c;
        const struct wisp_conv_way *way;
        struct wisp_conv_zeros zeros;
    } alone;
    bool still;
    float *kept[KEPT]; /* packed weights of forward, where they are kept, ... */
    bool packed[KEPT]; /* ... from the first call on that goes this way: no page of the others is
                          ever touched */
    float *bias;       /* (out) with the norm behind it */
    struct {
        size_t calls, skips;
        double zeros; /* shares, summed up */
    } seen[WISP_CONV_PASSES];
};

const struct wisp_conv *wisp_layer_conv_sizes(const struct wisp_layer *l)
{
    return &((const struct own *)l->own)->c;
}

struct wisp_conv_passes wisp_layer_conv_passes(const struct wisp_layer *l)
{
    const struct own *o = l->own;
    struct wisp_conv_passes n = { 0 };
    for (int p = 0; p < WISP_CONV_PASSES; p++)
        if (o->way[p]) n.all++, n.half += o->way[p]->half, n.skip += o->zeros[p].way != NULL;
    return n;
}

void wisp_layer_conv_skipped(const struct wisp_layer *l,
                             struct wisp_conv_skipped out[WISP_CONV_PASSES])
{
    const struct own *o = l->own;
    for (int p = 0; p < WISP_CONV_PASSES; p++) {
        const double calls = o->seen[p].calls ? (double)o->seen[p].calls : 1;
        out[p].share = (double)o->seen[p].skips / calls;
        out[p].zeros = o->seen[p].zeros / calls;
    }
}

struct view { /* the scratch of backward, cut up */
    float *packed, *gw, *sums;
};

/* Of either way. */
static size_t packed_floats(const struct own *o, enum wisp_conv_pass pass)
{
    const struct wisp_conv_way *way = o->way[pass], *skip = o->zeros[pass].way;
    return wisp_most(way ? way->weight_floats(&o->c, pass) : 0,
                     skip ? skip->weight_floats(&o->c, pass) : 0);
}
static size_t padded_out(const struct wisp_conv *c)
{
    return wisp_up(c->out, WISP_PLANE_BLOCK);
}

static struct view lay_back(const struct wisp_layer *l, struct wisp_cut *cut, size_t n)
{
    const struct own *o = l->own;
    const bool bias = l->n_params > WISP_CONV_PARAM_BIAS;
    struct view v;
    v.packed = wisp_cut_take(cut, packed_floats(o, WISP_CONV_DATA), sizeof(float));
    v.gw = wisp_cut_take(cut, packed_floats(o, WISP_CONV_WEIGHTS), sizeof(float));
    v.sums = wisp_cut_take(cut, bias ? wisp_tiles(n) * padded_out(&o->c) : 0, sizeof(float));
    return v;
}

/* The way whose weights lie there, and the sizes that it is called with; NULL: none. */
static const struct wisp_conv_way *kept_way(const struct own *o, int which,
                                            const struct wisp_conv **c)
{
    *c = which == KEPT_ALONE ? &o->alone.c : &o->c;
    if (which == KEPT_ALONE) return o->alone.way;
    if (which == KEPT_WAY) return o->way[WISP_CONV_FORWARD];
    /* 'skip' packs by the sizes of a sample alone */
    return o->alone.zeros.way ? o->alone.zeros.way : o->zeros[WISP_CONV_FORWARD].way;
}

/* ---- sizes ---- */

static wisp_status check_groups(const struct wisp_conv *c, wisp_error *err)
{
    if (c->in % c->groups == 0 && c->out % c->groups == 0) return WISP_OK;
    return wisp_fail(err, WISP_EINVAL,
                     "'conv' has %zu groups, which do not divide its %zu and %zu channels",
                     c->groups, c->in, c->out);
}

static wisp_status sizes_of(struct wisp_conv *c, struct wisp_layer *l, const struct wisp_act *in,
                            struct wisp_act *out, wisp_error *err)
{
    const struct wisp_slide k = wisp_slide_conv(l);
    *c = (struct wisp_conv){ .in = in->shape.dim[0],
                             .out = (size_t)l->arg[WISP_CONV_ARG_CHANNELS],
                             .h = in->shape.dim[1],
                             .w = in->shape.dim[2],
                             .kh = k.kh,
                             .kw = k.kw,
                             .stride = k.stride,
                             .pad_h = k.pad_h,
                             .pad_w = k.pad_w,
                             .groups = (size_t)l->arg[WISP_CONV_ARG_GROUPS],
                             .block = wisp_act_block(in) };
    wisp_status st = check_groups(c, err);
    if (st == WISP_OK)
        st = wisp_planes_slide(l, in, out, c->out, WISP_PLANES, c->kh, c->kw, c->stride, c->pad_h,
                               c->pad_w, err);
    c->oh = out->shape.dim[1];
    c->ow = out->shape.dim[2];
    return st;
}

static void ask_for_way(struct wisp_layer *l, const struct wisp_conv_way *way,
                        const struct wisp_conv *c, enum wisp_conv_pass pass)
{
    if (way && way->thread_floats)
        l->thread_floats = wisp_most(l->thread_floats, way->thread_floats(c, pass));
}

static void ask_for_scratch(struct wisp_layer *l, const struct wisp_layer_sizes *s)
{
    const struct own *o = l->own;
    struct wisp_cut cut = { 0 };
    for (int p = 0; p < WISP_CONV_PASSES; p++) {
        ask_for_way(l, o->way[p], &o->c, (enum wisp_conv_pass)p);
        ask_for_way(l, o->zeros[p].way, &o->c, (enum wisp_conv_pass)p);
    }
    ask_for_way(l, o->alone.way, &o->alone.c, WISP_CONV_FORWARD);
    ask_for_way(l, o->alone.zeros.way, &o->alone.c, WISP_CONV_FORWARD);
    if (o->still)
        l->thread_floats = wisp_most(l->thread_floats, WISP_PLANE_BLOCK * wisp_conv_row(&o->c));
    else l->front_floats = packed_floats(o, WISP_CONV_FORWARD);
    if (!s->training) return;
    l->thread_floats = wisp_most(l->thread_floats, WISP_PLANE_BLOCK * wisp_conv_row(&o->c));
    lay_back(l, &cut, s->batch);
    l->back_floats = cut.at / sizeof(float);
}

/* Whoever only predicts takes forward alone, and where nothing learns below nobody takes data. */
static bool takes(enum wisp_conv_pass pass, const struct wisp_act *in,
                  const struct wisp_layer_sizes *s)
{
    return pass == WISP_CONV_FORWARD || (s->training && (pass != WISP_CONV_DATA || in->learns));
}

static void choose(struct own *o, const struct wisp_act *in, const struct wisp_layer_sizes *s)
{
    struct wisp_conv_choice how =
        s->ctx && s->ctx->conv ? *s->ctx->conv : (struct wisp_conv_choice){ .k = NULL };
    if (s->ctx) how.k = s->ctx->k;
    how.half = s->precision == &wisp_precision_bf16;
    o->still = s->still && !s->training;
    o->c.batch = s->batch;
    o->c.kept = o->still;
    o->c.threads = s->ctx && s->ctx->pool ? wisp_pool_threads(s->ctx->pool) : 1;
    how.zeros = s->zeros;
    for (int i = 0; i < WISP_CONV_PASSES; i++) {
        const enum wisp_conv_pass pass = (enum wisp_conv_pass)i;
        if (!takes(pass, in, s)) continue;
        o->way[i] = wisp_conv_choose(&o->c, pass, &how);
        if (s->training || s->zeros == WISP_ZEROS_FORCE)
            o->zeros[i] = wisp_conv_zeros(&o->c, pass, &how, o->way[i]);
    }
    if (!o->still || s->batch < 2) return;
    o->alone.c = o->c;
    o->alone.c.batch = 1;
    o->alone.way = wisp_conv_choose(&o->alone.c, WISP_CONV_FORWARD, &how);
    o->alone.zeros = wisp_conv_zeros(&o->alone.c, WISP_CONV_FORWARD, &how, o->alone.way);
}

/* Memory for packed weights that stay: a call allocates nothing. */
static wisp_status ask_for_kept(struct own *o, wisp_error *err)
{
    if (!o->still) return WISP_OK;
    o->bias = wisp_alloc(o->c.out, sizeof *o->bias);
    if (!o->bias) return wisp_fail_mem(err, o->c.out * sizeof *o->bias, "a convolution");
    for (int i = 0; i < KEPT; i++) {
        const struct wisp_conv *c;
        const struct wisp_conv_way *way = kept_way(o, i, &c);
        if (!way) continue;
        const size_t packed = way->weight_floats(c, WISP_CONV_FORWARD),
                     floats = packed ? packed : c->out * wisp_conv_row(c); /* with a norm in them */
        o->kept[i] = wisp_alloc(floats, sizeof *o->kept[i]);
        if (!o->kept[i])
            return wisp_fail_mem(err, floats * sizeof *o->kept[i],
                                 "packed weights of a convolution");
    }
    return WISP_OK;
}

static wisp_status plan(struct wisp_layer *l, const struct wisp_act *const *in,
                        struct wisp_act *out, const struct wisp_layer_sizes *s, wisp_error *err)
{
    struct wisp_conv c;
    wisp_status st = wisp_planes_check(l, in[0], err);
    if (st == WISP_OK) st = sizes_of(&c, l, in[0], out, err);
    if (st != WISP_OK) return st;
    struct own *o = l->own = wisp_zalloc(1, sizeof *o);
    if (!o) return wisp_fail_mem(err, sizeof *o, "a convolution");
    o->c = c;
    choose(o, in[0], s);
    struct wisp_param *p = wisp_layer_declare(l, "weight", WISP_TRAINED, WISP_BY_NONE, 4,
                                              (size_t[]){ c.out, c.in / c.groups, c.kh, c.kw });
    /* A channel of a group cannot go alone: the groups must be equally large. */
    if (c.groups == 1) wisp_param_axes(p, WISP_AXIS_OUT, WISP_AXIS_IN);
    p->axis[2] = WISP_AXIS_Y;
    p->axis[3] = WISP_AXIS_X;
    if (l->arg[WISP_CONV_ARG_BIAS] == 0)
        wisp_param_axes(wisp_layer_declare_rows(l, "bias", WISP_BY_NONE, 1, c.out), WISP_AXIS_NONE,
                        WISP_AXIS_OUT);
    ask_for_scratch(l, s);
    return ask_for_kept(o, err);
}

static void clear(struct wisp_layer *l)
{
    struct own *o = l->own;
    for (int i = 0; o && i < KEPT; i++) wisp_free(o->kept[i]);
    if (o) wisp_free(o->bias);
    wisp_free(o);
    l->own = NULL;
}

/* As the formula has them: a way may do with fewer. */
static double flops(const struct wisp_layer *l)
{
    const struct wisp_conv *c = wisp_layer_conv_sizes(l);
    return 2 * (double)wisp_conv_row(c) * (double)c->out * (double)(c->oh * c->ow);
}

/* As before a ReLU (He): keeps the variance. */
static void init(struct wisp_layer *l, uint64_t seed, struct wisp_pool *pool)
{
    const double fan = (double)wisp_conv_row(wisp_layer_conv_sizes(l));
    wisp_param_normal(&l->params[WISP_CONV_PARAM_WEIGHT], sqrt(2 / fan), seed, 2 * l->number, pool);
    if (l->n_params > WISP_CONV_PARAM_BIAS)
        memset(l->params[WISP_CONV_PARAM_BIAS].w, 0,
               l->params[WISP_CONV_PARAM_BIAS].n * sizeof(float));
}

/* ---- passes ---- */

/* Batches go one way, whatever their numbers, so that a row's scores do not depend on its neighbours. */
static bool goes_alone(const struct own *o, const struct wisp_step *s)
{
    return o->alone.way && s->alone;
}

/* The way for these numbers: of this very call, so that it needs no memory of earlier ones, and a run
 * that goes on after a break, or makes a value again, goes the same ways. */
static const struct wisp_conv_way *way_for(struct own *o, struct wisp_step *s,
                                           enum wisp_conv_pass pass, struct wisp_conv_job *j)
{
    double share;
    const bool alone = goes_alone(o, s);
    const struct wisp_conv_way *dense = alone ? o->alone.way : o->way[pass],
                               *way = wisp_conv_way_for(&o->c, pass,
                                                        alone ? &o->alone.zeros : &o->zeros[pass],
                                                        dense, j, &share);
    o->seen[pass].calls++;
    o->seen[pass].skips += way != dense;
    o->seen[pass].zeros += share;
    return way;
}

/* The weights as the way wants them. */
static const float *weights_for(const struct wisp_layer *l, struct wisp_step *s,
                                const struct wisp_conv_way *way, enum wisp_conv_pass pass,
                                float *packed)
{
    const struct own *o = l->own;
    const float *w = l->params[WISP_CONV_PARAM_WEIGHT].w;
    if (!way->weight_floats(&o->c, pass)) return w;
    wisp_conv_pack(way, &o->c, pass, s->ctx->pool, s->ctx->k, packed, w);
    return packed;
}

/* 16 rows of the weights, each times what the norm behind it multiplies its channel by, and their
 * biases. */
static void fold_rows(const struct wisp_layer *l, size_t row, float *w, float *bias)
{
    const struct wisp_conv *c = wisp_layer_conv_sizes(l);
    const struct wisp_param *p = l->norm->params;
    const size_t n = wisp_conv_row(c), rows = wisp_conv_rows_from(c, row);
    for (size_t o = row; o < row + rows; o++) {
        const double scale = (double)p[WISP_BN_SCALE].w[o] /
                             sqrt((double)p[WISP_BN_VAR].w[o] + l->norm->arg[WISP_BN_EPS]),
                     own = l->n_params > WISP_CONV_PARAM_BIAS
                               ? (double)l->params[WISP_CONV_PARAM_BIAS].w[o]
                               : 0;
        const float *from = l->params[WISP_CONV_PARAM_WEIGHT].w + o * n;
        for (size_t i = 0; i < n; i++) w[(o - row) * n + i] = (float)(scale * (double)from[i]);
        bias[o] =
            (float)((double)p[WISP_BN_SHIFT].w[o] + scale * (own - (double)p[WISP_BN_MEAN].w[o]));
    }
}

/* Weights and biases with the norm in them, as the way wants them. */
static void fold(const struct wisp_layer *l, struct wisp_step *s, const struct wisp_conv_way *way,
                 const struct wisp_conv *c, float *to, float *bias)
{
    const size_t packed = way->weight_floats(c, WISP_CONV_FORWARD);
    float *room = wisp_layer_thread(l, 0);
    if (packed) memset(to, 0, packed * sizeof *to);
    for (size_t row = 0; row < c->out; row += WISP_PLANE_BLOCK) {
        float *w = packed ? room : to + row * wisp_conv_row(c);
        fold_rows(l, row, w, bias);
        if (packed) way->pack(c, WISP_CONV_FORWARD, s->ctx->k, to, w, row);
    }
}

/* Makes the weights of this way that are kept, and the bias of a norm that is part of them. */
static void keep(const struct wisp_layer *l, struct wisp_step *s, int which)
{
    struct own *o = l->own;
    const struct wisp_conv *c;
    const struct wisp_conv_way *way = kept_way(o, which, &c);
    if (l->norm) fold(l, s, way, c, o->kept[which], o->bias);
    else
        wisp_conv_pack(way, c, WISP_CONV_FORWARD, s->ctx->pool, s->ctx->k, o->kept[which],
                       l->params[WISP_CONV_PARAM_WEIGHT].w);
    o->packed[which] = true;
}

/* Of a net whose weights stay: those of the first call that went this way. */
static void kept_weights(const struct wisp_layer *l, struct wisp_step *s,
                         const struct wisp_conv_way *way, struct wisp_conv_job *j)
{
    const struct own *o = l->own;
    const struct wisp_conv *c;
    const int which = way == kept_way(o, KEPT_ZEROS, &c) ? KEPT_ZEROS
                      : goes_alone(o, s)                 ? KEPT_ALONE
                                                         : KEPT_WAY;
    kept_way(o, which, &c);
    j->w = l->params[WISP_CONV_PARAM_WEIGHT].w;
    if (!l->norm && !way->weight_floats(c, WISP_CONV_FORWARD)) return;
    if (!o->packed[which]) keep(l, s, which);
    j->w = o->kept[which];
    if (l->norm) j->bias = o->bias;
}

static struct wisp_conv_job job_of(const struct wisp_layer *l, struct wisp_step *s)
{
    return (struct wisp_conv_job){ .pool = s->ctx->pool,
                                   .k = s->ctx->k,
                                   .n = s->batch->n,
                                   .thread_scratch = l->thread_scratch,
                                   .thread_apart = l->thread_apart };
}

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    struct own *o = l->own;
    struct wisp_conv_job j = job_of(l, s);
    j.x = in[0]->x;
    j.y = out->x;
    if (l->n_params > WISP_CONV_PARAM_BIAS) j.bias = l->params[WISP_CONV_PARAM_BIAS].w;
    const struct wisp_conv_way *way = way_for(o, s, WISP_CONV_FORWARD, &j);
    if (o->still) kept_weights(l, s, way, &j);
    else j.w = weights_for(l, s, way, WISP_CONV_FORWARD, l->front);
    j.relu = l->parts & WISP_FUSE_RELU;
    const struct wisp_zeros_of *z = way->counts ? wisp_layer_zeros(s, out) : NULL;
    if (z) j.live = z->live, j.live_apart = z->apart;
    return way->run(goes_alone(o, s) ? &o->alone.c : &o->c, WISP_CONV_FORWARD, &j, err);
}

struct moving {
    struct wisp_layer *l;
    struct wisp_step *s;
    struct view v;
    const float *gy;
    const struct wisp_conv_way *way; /* of the gradient of the weights */
};

/* 16 rows of the weights. */
static void move_rows(void *arg, size_t task, int thread)
{
    const struct moving *m = arg;
    const struct own *o = m->l->own;
    const struct wisp_update *u = m->s->update;
    float *g = wisp_layer_thread(m->l, thread);
    const size_t first = task * WISP_PLANE_BLOCK, rows = wisp_conv_rows_from(&o->c, first);
    m->way->rows(&o->c, m->s->ctx->k, m->v.gw, first, g);
    for (size_t i = 0; i < rows; i++, g += wisp_conv_row(&o->c))
        u->row(u, &m->l->params[WISP_CONV_PARAM_WEIGHT], first + i, g);
}

/* Sums of gy over the pixels of a tile of samples, for one block of channels. */
static void sum_block(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct moving *m = arg;
    const struct wisp_conv *c = wisp_layer_conv_sizes(m->l);
    const size_t blocks = padded_out(c) / WISP_PLANE_BLOCK, tile = task / blocks,
                 block = task % blocks, pixels = c->oh * c->ow;
    float *sum = m->v.sums + tile * padded_out(c) + block * WISP_PLANE_BLOCK;
    static const float zero[WISP_PLANE_BLOCK];
    float squares[WISP_PLANE_BLOCK] = { 0 }; /* nobody's */
    memset(sum, 0, WISP_PLANE_BLOCK * sizeof *sum);
    for (size_t i = tile * WISP_TILE, end = i + wisp_tile_rows(m->s->batch->n, tile); i < end; i++)
        m->s->ctx->k->norm_moments(
            sum, squares, m->gy + i * wisp_conv_out_floats(c) + block * pixels * WISP_PLANE_BLOCK,
            zero, pixels);
}

static void move_bias(struct moving *m)
{
    const size_t out = padded_out(wisp_layer_conv_sizes(m->l)), tiles = wisp_tiles(m->s->batch->n);
    wisp_parallel_for(m->s->ctx->pool, tiles * out / WISP_PLANE_BLOCK, sum_block, m);
    for (size_t t = 1; t < tiles; t++) m->s->ctx->k->axpy(m->v.sums, m->v.sums + t * out, 1, out);
    m->s->update->row(m->s->update, &m->l->params[WISP_CONV_PARAM_BIAS], 0, m->v.sums);
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    struct own *o = l->own;
    struct wisp_cut cut = wisp_cut_of(l->back, l->back_floats * sizeof(float), WISP_CUT_FRESH);
    struct moving m = { l, s, lay_back(l, &cut, s->batch->n), out->g, NULL };
    struct wisp_conv_job j = job_of(l, s);
    wisp_status st = WISP_OK;
    if (s->batch->n == 0) return WISP_OK;
    j.x = in[0]->x;
    j.gy = out->g;
    j.gw = m.v.gw;
    j.gx = in[0]->g;
    j.mask = l->masked ? in[0]->x : NULL;
    const double began = s->laps ? wisp_now() : 0;
    if (j.gx && o->way[WISP_CONV_DATA]) {
        const struct wisp_conv_way *way = way_for(o, s, WISP_CONV_DATA, &j);
        j.w = weights_for(l, s, way, WISP_CONV_DATA, m.v.packed);
        st = way->run(&o->c, WISP_CONV_DATA, &j, err);
        if (s->laps) s->laps->data[l->number] += wisp_now() - began;
    }
    m.way = way_for(o, s, WISP_CONV_WEIGHTS, &j);
    if (st == WISP_OK) st = m.way->run(&o->c, WISP_CONV_WEIGHTS, &j, err);
    if (st != WISP_OK) return st;
    wisp_parallel_for(s->ctx->pool, wisp_parts(o->c.out, WISP_PLANE_BLOCK), move_rows, &m);
    if (l->n_params > WISP_CONV_PARAM_BIAS) move_bias(&m);
    return WISP_OK;
}

static bool masks(const struct wisp_layer *l)
{
    const struct own *o = l->own;
    const struct wisp_conv_way *way = o->way[WISP_CONV_DATA], *skip = o->zeros[WISP_CONV_DATA].way;
    return way && way->masks && (!skip || skip->masks);
}

const struct wisp_layer_kind wisp_layer_conv = {
    .name = "conv",
    .what = "each channel a sum over pixels near by and channels (convolution)",
    .args = args,
    .takes = WISP_FLAT | WISP_PLANES,
    .uses = WISP_USES_X | WISP_BY_SAMPLE,
    .does = WISP_FUSE_NORM | WISP_FUSE_RELU,
    .ties = WISP_TIES_NEW,
    .plan = plan,
    .init = init,
    .clear = clear,
    .flops = flops,
    .forward = forward,
    .backward = backward,
    .masks = masks,
};

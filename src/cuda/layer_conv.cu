/* Convolution: layer/conv.c, on the card; conv.cuh has the formula and the ways.
 *
 *   forward   y = w x + bias, then a ReLU that it has taken
 *   back      gx = data pass, with w as it was, 0 where a ReLU before it let nothing through
 *             gw, sums of gy: rows of w, and the bias, move
 *
 * weight (out, in / groups, kh, kw) lies as (out, kh, kw, in / groups), outputs and inputs padded to
 * multiples of 4 where there is one group.  A row stays a row, so an update moves what it moves on
 * the host.
 *
 * The weights' gradient is made beside the data pass (kind.cuh, weigh).
 *
 *   scratch   work of the data pass | work of others, at most | gw | sums of gy */
#include "cuda/kind.cuh"
#include "cuda/trainer.cuh"
#include "cuda/update.cuh"
#include "graph/slide.h"

#include <new>
#include <stdio.h>

enum { THREADS = 256, CLEARERS = 64 };
enum { WEIGHT, BIAS }; /* parameters */

/* What is multiplied.  A net in fp32 may have borrowed from one that has a copy. */
static const void *weights_of(const struct wisp_dnet &n, const struct wisp_dnode &l)
{
    const struct wisp_dparam &w = l.param[WEIGHT];
    return n.math == WISP_DCONV_BF16 ? (const void *)w.copy : w.w;
}

static const struct wisp_dconv_plan &plan_of(const struct wisp_dnode &l)
{
    return *(const struct wisp_dconv_plan *)l.made;
}
static bool biased(const struct wisp_dnode &l)
{
    return l.l->n_params > BIAS;
}
static size_t groups_of(const struct wisp_layer *l)
{
    return (size_t)l->arg[WISP_CONV_ARG_GROUPS];
}

static bool lacks(char what[WISP_DWORDS], const struct wisp_graph *g, const struct wisp_layer *l)
{
    const size_t groups = groups_of(l), in = g->acts[l->from[0]].shape.dim[0],
                 out = g->acts[l->number + 1].shape.dim[0];
    if (groups == 1 || (in / groups % 4 == 0 && out / groups % 4 == 0)) return false;
    snprintf(what, WISP_DWORDS,
             "layer %d, 'conv' with groups of %zu to %zu channels, which are no multiples of 4,",
             l->number, in / groups, out / groups);
    return true;
}

/* ---- sizes ---- */

static struct wisp_dconv sizes_of(const struct wisp_dnode &l, const struct wisp_dnet &n)
{
    const struct wisp_dact &in = wisp_dread(n, l), &out = wisp_dgiven(n, l);
    const struct wisp_slide k = wisp_slide_conv(l.l);
    return { n.batch, in.pitch, out.pitch, in.h,    in.w,    out.h,          out.w,
             k.kh,    k.kw,     k.stride,  k.pad_h, k.pad_w, groups_of(l.l), n.math };
}

static wisp_status make(struct wisp_dnode *l, const struct wisp_dnet &n, wisp_error *err)
{
    struct wisp_dconv_plan *p = new (std::nothrow) wisp_dconv_plan;
    const struct wisp_dconv c = sizes_of(*l, n);
    l->made = p;
    if (!p) return wisp_dfail(err, WISP_ENOMEM, "no memory left for the card's plan");
    unsigned passes = 1u << WISP_DCONV_FORWARD;
    if (n.training) passes |= 1u << WISP_DCONV_WEIGHTS;
    if (n.training && (wisp_dread(n, *l).learns || l->from[0] == n.last))
        passes |= 1u << WISP_DCONV_DATA; /* else nobody asks for that gradient, as of images */
    wisp_dconv_make(p, &c, NULL, passes, n.zeros);
    return WISP_OK;
}

static void clear(struct wisp_dnode *l)
{
    struct wisp_dconv_plan *p = (struct wisp_dconv_plan *)l->made;
    wisp_dconv_clear(p);
    delete p;
    l->made = NULL;
}

static bool order(struct wisp_dorder *o, const struct wisp_dnode &l, const struct wisp_dnet &n,
                  int k)
{
    const struct wisp_dact &in = wisp_dread(n, l), &out = wisp_dgiven(n, l);
    const struct wisp_slide s = wisp_slide_conv(l.l);
    const size_t groups = groups_of(l.l);
    if (k == WEIGHT) *o = { out.pitch, in.c / groups, s.kh * s.kw, in.pitch / groups };
    else *o = { 1, out.c, 1, out.pitch };
    return true;
}

static size_t floats(size_t bytes) /* that keep what follows at a multiple of 256 bytes */
{
    return wisp_up(bytes, 256) / 4;
}

static size_t front(const struct wisp_dnode &l, const struct wisp_dnet &)
{
    return floats(plan_of(l).bytes[WISP_DCONV_FORWARD]);
}

struct view { /* of the scratch */
    size_t data, work, gw, sums;
};
static struct view view_of(const struct wisp_dnode &l)
{
    const struct wisp_dconv_plan &p = plan_of(l);
    const struct wisp_dconv &c = p.c;
    const size_t work =
        wisp_most(p.bytes[WISP_DCONV_WEIGHTS], wisp_dconv_bias_bytes(c.n, c.oh * c.ow, c.out));
    return { floats(p.bytes[WISP_DCONV_DATA]), floats(work), floats(c.out * wisp_dconv_row(&c) * 4),
             floats(c.out * 4) };
}

static size_t scratch(const struct wisp_dnode &l, const struct wisp_dnet &)
{
    const struct view v = view_of(l);
    return v.data + v.work + v.gw + v.sums;
}

/* ---- passes ---- */

static void run(const struct wisp_dnet &n, const struct wisp_dnode &l, enum wisp_dconv_pass pass,
                const struct wisp_dconv_job &j, cudaStream_t s)
{
    wisp_error err = {};
    const wisp_status st = wisp_dconv_run(&plan_of(l), pass, &j, s, &err);
    if (st != WISP_OK && n.refused == WISP_OK) n.refused = st, n.why = err;
}

static void forward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wisp_dact &out = wisp_dgiven(n, l);
    struct wisp_dconv_job j = {};
    j.n = &n.now->n;
    j.x = wisp_dread(n, l).x, j.y = out.x, j.w = weights_of(n, l);
    j.bias = biased(l) ? l.param[BIAS].w : NULL;
    j.relu = out.after.relu;
    j.work = l.front;
    run(n, l, WISP_DCONV_FORWARD, j, s);
}

/* Samples beyond the last, which a library multiplies by the zeros of their gradients: what lies
 * there may be no number. */
__global__ static void __launch_bounds__(THREADS)
    clear_beyond(const struct wisp_dnow *now, size_t width, size_t all, float *x)
{
    const size_t step = 2 * (size_t)gridDim.x * THREADS;
    for (size_t at = now->n * width + 2 * ((size_t)blockIdx.x * THREADS + threadIdx.x); at < all;
         at += step)
        *(float2 *)(x + at) = make_float2(0, 0);
}

/* One block per row of the weights; the row after the last is the bias. */
template <class T>
__global__ static void __launch_bounds__(THREADS)
    move_rows(const struct wisp_dnow *now, const __grid_constant__ struct wisp_dopt opt,
              const __grid_constant__ struct wisp_dparam w,
              const __grid_constant__ struct wisp_dparam bias, size_t used, size_t used_bias,
              const T *gw, const float *sums)
{
    __shared__ float room[THREADS / 32];
    const size_t row = blockIdx.x;
    if (now->n == 0) return;
    if (row < w.rows)
        wisp_dmove_block(opt, w, row, gw + row * w.cols, now->lr, now->step, used, room);
    else wisp_dmove_block(opt, bias, 0, sums, now->lr, now->step, used_bias, room);
}

template <class T>
static void move_by(const struct wisp_dnet &n, const struct wisp_dnode &l, const void *gw,
                    const float *sums, cudaStream_t s)
{
    const struct wisp_dact &out = wisp_dgiven(n, l);
    const struct wisp_dparam &w = l.param[WEIGHT], bias = biased(l) ? l.param[BIAS] : wisp_dparam{};
    const unsigned threads = (unsigned)wisp_up(w.cols / 4 < THREADS ? w.cols / 4 : THREADS, 32);
    move_rows<<<(unsigned)(w.rows + biased(l)), threads, 0, s>>>(
        n.now, n.opt, w, bias, l.l->params[WEIGHT].cols, out.c, (const T *)gw, sums);
}

static void backward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wisp_dact &in = wisp_dread(n, l);
    struct wisp_dconv_job j = {};
    if (!l.gx[0]) return;
    j.n = &n.now->n, j.work = l.scratch, j.gy = wisp_dgiven(n, l).g;
    j.w = weights_of(n, l), j.gx = l.gx[0];
    j.gate = in.after.relu ? in.x : NULL, j.add = l.adds;
    run(n, l, WISP_DCONV_DATA, j, s);
}

/* Of the scratch. */
static float *gw_of(const struct wisp_dnode &l, const struct view &v)
{
    return l.scratch + v.data + v.work;
}

static void weigh(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wisp_dact &in = wisp_dread(n, l), &out = wisp_dgiven(n, l);
    const struct view v = view_of(l);
    float *work = l.scratch + v.data, *sums = gw_of(l, v) + v.gw;
    struct wisp_dconv_job j = {};
    j.n = &n.now->n, j.work = work, j.gy = out.g, j.aside = n.beside;
    if (plan_of(l).way[WISP_DCONV_WEIGHTS] == &wisp_dconv_cudnn)
        clear_beyond<<<CLEARERS, THREADS, 0, s>>>(n.now, wisp_dact_floats(in),
                                                  n.batch * wisp_dact_floats(in), in.x);
    j.x = in.x, j.gw = gw_of(l, v), j.as_made = !l.sum; /* which is of floats */
    run(n, l, WISP_DCONV_WEIGHTS, j, s);
    if (biased(l))
        wisp_dconv_bias(sums, out.g, out.half, &n.now->n, n.batch, out.h * out.w, out.pitch, work,
                        s);
}

static void move(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct view v = view_of(l);
    const float *gw = l.sum ? l.sum : gw_of(l, v), *sums = gw + v.gw;
    if (!l.sum && wisp_dconv_gives_halves(&plan_of(l))) move_by<__nv_bfloat16>(n, l, gw, sums, s);
    else move_by<float>(n, l, gw, sums, s);
}

static size_t weighed(size_t *at, const struct wisp_dnode &l)
{
    const struct view v = view_of(l);
    *at = v.data + v.work;
    return v.gw + v.sums;
}

void wisp_dconv_count(const struct wisp_dnet *n, int *passes, int *skipping)
{
    *passes = *skipping = 0;
    for (size_t i = 0; i < n->n_layers; i++) {
        const struct wisp_dnode &l = n->layers[i];
        if (l.kind != &wisp_card_conv) continue;
        for (const struct wisp_dconv_way *way : plan_of(l).way)
            *passes += way != NULL, *skipping += way == &wisp_dconv_skip;
    }
}

static bool always(const struct wisp_dnode &)
{
    return true;
}

static bool adds(const struct wisp_dnode &l, const struct wisp_dnet &n)
{
    return wisp_dconv_adds(&plan_of(l)) && !wisp_dread(n, l).after.relu;
}

static struct wisp_card_kind filled()
{
    struct wisp_card_kind k = {};
    k.name = "conv", k.forms = WISP_PLANES, k.takes = WISP_FUSE_RELU, k.uses = WISP_USES_X;
    k.adds = adds, k.skips = true, k.halves = always, k.lacks = lacks, k.order = order,
    k.make = make, k.clear = clear;
    k.front = front, k.scratch = scratch, k.forward = forward, k.backward = backward;
    k.weigh = weigh, k.move = move, k.weighed = weighed;
    return k;
}
const struct wisp_card_kind wisp_card_conv = filled();

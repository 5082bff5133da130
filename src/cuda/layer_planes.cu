/* Kinds of layers that read channels with height and width, besides convolution: image, pools, batch
 * norm, flatten and concat of layer/, by the kernels of pool.cu, planes.cu and layout.cu. */
#include "cuda/kind.cuh"
#include "graph/slide.h"

#include <stdio.h>

enum { THREADS = 256 };

/* ---- images ---- */

static void image_forward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wisp_dact &out = wisp_dgiven(n, l);
    const struct wisp_dplanes p = wisp_dplanes_of(n, out);
    struct wisp_dimages from = {};
    if (n.images.planes) {
        wisp_dflatten_back(p, out.x, n.images.planes, s);
        return;
    }
    from.bytes = n.images.bytes, from.channels = out.c, from.table = n.images.table;
    from.now = n.training ? n.now : NULL; /* else they lie in the batch's order */
    wisp_dimages_lay(p, from, out.x, s);
}

static void nothing_below(const struct wisp_dnet &, const struct wisp_dnode &, cudaStream_t)
{
}

/* ---- max and mean of windows ---- */

static struct wisp_dpool pool_of(const struct wisp_dnet &n, const struct wisp_dnode &l)
{
    const struct wisp_dact &in = wisp_dread(n, l), &out = wisp_dgiven(n, l);
    const struct wisp_slide k = wisp_slide_window(l.l);
    return {
        wisp_dplanes_of(n, in), out.h, out.w, k.kh, k.kw, k.stride, k.pad_h, k.pad_w, out.live
    };
}

enum { MOST_WINDOW = 254 }; /* pixels: places are one byte, and one of these is nobody's */

static bool max_lacks(char what[WISP_DWORDS], const struct wisp_graph *, const struct wisp_layer *l)
{
    const struct wisp_slide k = wisp_slide_window(l);
    if (k.kh * k.kw <= MOST_WINDOW) return false;
    snprintf(what, WISP_DWORDS, "layer %d, 'maxpool' with a window of more than %d pixels,",
             l->number, MOST_WINDOW);
    return true;
}

/* A byte for each result. */
static size_t max_kept(const struct wisp_dnode &l, const struct wisp_dnet &n)
{
    return n.training ? wisp_parts(n.batch * wisp_dgiven(n, l).width, 4) : 0;
}

static void max_forward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wisp_dact &in = wisp_dread(n, l);
    wisp_dpool_max(pool_of(n, l), wisp_dgiven(n, l).x, n.training ? (uint8_t *)l.kept : NULL,
                   in.after.relu, in.x, s);
}

static void max_backward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    wisp_dpool_max_back(pool_of(n, l), l.gx[0], wisp_dgiven(n, l).g, (const uint8_t *)l.kept, s);
}

static void mean_forward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    wisp_dpool_mean(pool_of(n, l), wisp_dgiven(n, l).x, wisp_dread(n, l).x, s);
}

static const void *gate_of(const struct wisp_dact &a)
{
    return a.after.relu ? a.x : NULL;
}

static void mean_backward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    wisp_dpool_mean_back(pool_of(n, l), l.gx[0], wisp_dgiven(n, l).g, gate_of(wisp_dread(n, l)), s);
}

/* ---- to units ---- */

static void all_forward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wisp_dact &in = wisp_dread(n, l);
    wisp_dpool_all(wisp_dplanes_of(n, in), wisp_dgiven(n, l).x, in.x, s);
}

static void all_backward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wisp_dact &in = wisp_dread(n, l);
    wisp_dpool_all_back(wisp_dplanes_of(n, in), l.gx[0], wisp_dgiven(n, l).g, gate_of(in), s);
}

static void flat_forward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wisp_dact &in = wisp_dread(n, l);
    wisp_dflatten(wisp_dplanes_of(n, in), wisp_dgiven(n, l).x, in.x, s);
}

static void flat_backward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wisp_dact &in = wisp_dread(n, l);
    wisp_dflatten_back(wisp_dplanes_of(n, in), l.gx[0], wisp_dgiven(n, l).g, s);
    if (in.after.relu) wisp_same_through(n, in, l.gx[0], l.gx[0], s);
}

/* ---- concat ---- */

struct slice { /* channels first .. first + c - 1 of all, of a value padded to pitch */
    size_t first, c, pitch, all;
};

static unsigned blocks(size_t n)
{
    return (unsigned)wisp_parts(n, THREADS);
}

/* A thread has one of the 'span' channels of a pixel: those of the value, and zeros after them. */
template <class T>
__global__ static void __launch_bounds__(THREADS)
    slice_on(const struct wisp_dnow *now, const struct slice k, size_t span, size_t pixels,
             const T *x, T *y)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x, pixel = i / span, c = i % span;
    if (pixel >= now->n * pixels) return;
    y[pixel * k.all + k.first + c] = c < k.c ? x[pixel * k.pitch + c] : (T)0.0f;
}

/* gate: x, if it was made by a ReLU; NULL: it was not. */
template <class T>
__global__ static void __launch_bounds__(THREADS)
    slice_back(const struct wisp_dnow *now, const struct slice k, size_t pixels, size_t all,
               const T *gate, const T *g, T *gx)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x, pixel = i / k.pitch;
    const size_t c = i % k.pitch;
    if (i >= all) return;
    const bool off = pixel >= now->n * pixels || c >= k.c || (gate && !((float)gate[i] > 0));
    gx[i] = off ? (T)0.0f : g[pixel * k.all + k.first + c];
}

template <class T>
static void concat(const struct wisp_dnet &n, const struct wisp_dnode &l, bool back, cudaStream_t s)
{
    const struct wisp_dact &out = wisp_dgiven(n, l);
    struct slice k = { 0, 0, 0, out.pitch };
    for (int i = 0; i < l.n_from; i++, k.first += k.c) {
        const struct wisp_dact &in = n.acts[l.from[i]];
        k.c = in.c, k.pitch = in.pitch;
        const size_t span = i + 1 < l.n_from ? k.c : k.all - k.first, pixels = in.h * in.w;
        const size_t all = n.batch * in.width;
        if (back)
            slice_back<<<blocks(all), THREADS, 0, s>>>(
                n.now, k, pixels, all, (const T *)gate_of(in), (const T *)out.g, (T *)l.gx[i]);
        else
            slice_on<<<blocks(n.batch * pixels * span), THREADS, 0, s>>>(
                n.now, k, span, pixels, (const T *)in.x, (T *)out.x);
    }
}

static void concat_forward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    if (wisp_dgiven(n, l).half) concat<__nv_bfloat16>(n, l, false, s);
    else concat<float>(n, l, false, s);
}

static void concat_backward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    if (wisp_dgiven(n, l).half) concat<__nv_bfloat16>(n, l, true, s);
    else concat<float>(n, l, true, s);
}

/* ---- batch norm ---- */

enum { SCALE, SHIFT, MEAN, VARIANCE }; /* parameters */
enum { MOMENTUM, EPS };                /* arguments */

static struct wisp_dnorm norm_of(const struct wisp_dnet &n, const struct wisp_dnode &l, float *work)
{
    const struct wisp_dplanes x = wisp_dplanes_of(n, wisp_dread(n, l));
    return { x,      (float)l.l->arg[EPS],   l.param[SCALE].w,      l.param[SHIFT].w, l.kept, work,
             l.relu, wisp_dgiven(n, l).live, n.ranks ? n.now : NULL };
}

static size_t norm_front(const struct wisp_dnode &l, const struct wisp_dnet &n)
{
    return wisp_dnorm_floats(wisp_dplanes_of(n, wisp_dread(n, l)));
}

static size_t norm_kept(const struct wisp_dnode &l, const struct wisp_dnet &n)
{
    return 3 * wisp_dread(n, l).pitch;
}

/* totals | work */
static size_t norm_scratch(const struct wisp_dnode &l, const struct wisp_dnet &n)
{
    return 2 * wisp_dread(n, l).pitch + norm_front(l, n);
}

static void norm_forward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wisp_dact &in = wisp_dread(n, l);
    const struct wisp_dnorm o = norm_of(n, l, l.front);
    if (n.training && !(n.ranks && l.again_now)) { /* else it is kept, and others do not go again */
        wisp_dnorm_measure(o, in.x, s);
        wisp_norm_join(n, l, in.pitch, in.h * in.w, l.kept, s);
    }
    if (!n.training) wisp_dnorm_use(o, l.param[MEAN].w, l.param[VARIANCE].w, s);
    const struct wisp_dact *beside = wisp_dbeside(n, l);
    wisp_dnorm_on(o, wisp_dgiven(n, l).x, in.x, beside ? beside->x : NULL, s);
}

static void norm_backward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wisp_dact &in = wisp_dread(n, l);
    float *totals = l.scratch;
    const struct wisp_dact *beside = wisp_dbeside(n, l), &out = wisp_dgiven(n, l);
    float *aside = l.gx[l.l->n_from];
    const struct wisp_dnorm_beside b = { out.x, aside };
    const struct wisp_dnorm o = norm_of(n, l, totals + 2 * in.pitch);
    wisp_dnorm_add(o, totals, out.g, in.x, beside ? &b : NULL, s);
    wisp_norm_join_totals(n, in.pitch, totals, s);
    wisp_dnorm_below(o, l.gx[0], totals, out.g, in.x, beside ? &b : NULL, s);
    if (beside && beside->after.relu) wisp_same_through(n, *beside, aside, aside, s);
    if (in.after.relu) wisp_same_through(n, in, l.gx[0], l.gx[0], s);
    wisp_norm_move(n, l, in.pitch, in.c, in.h * in.w, l.kept, totals, s);
}

static bool norm_order(struct wisp_dorder *o, const struct wisp_dnode &l, const struct wisp_dnet &n,
                       int)
{
    *o = { 1, wisp_dread(n, l).c, 1, wisp_dread(n, l).pitch };
    return true;
}

/* ---- the rows ---- */

typedef void pass_fn(const struct wisp_dnet &, const struct wisp_dnode &, cudaStream_t);

static struct wisp_card_kind row(const char *name, unsigned forms, pass_fn *forward,
                                 pass_fn *backward)
{
    struct wisp_card_kind k = {};
    k.name = name, k.forms = forms, k.forward = forward, k.backward = backward;
    return k;
}

static struct wisp_card_kind max_row()
{
    struct wisp_card_kind k = row("maxpool", WISP_PLANES, max_forward, max_backward);
    k.gated = true, k.lacks = max_lacks, k.kept = max_kept, k.counts = true;
    return k;
}

static struct wisp_card_kind mean_row()
{
    struct wisp_card_kind k = row("avgpool", WISP_PLANES, mean_forward, mean_backward);
    k.counts = true;
    return k;
}

static struct wisp_card_kind unit_row(const char *name, pass_fn *forward, pass_fn *backward)
{
    struct wisp_card_kind k = row(name, WISP_PLANES, forward, backward);
    k.lacks = wisp_card_width;
    return k;
}

static struct wisp_card_kind norm_row()
{
    struct wisp_card_kind k = row("bn", WISP_PLANES, norm_forward, norm_backward);
    k.takes = WISP_FUSE_ADD | WISP_FUSE_RELU, k.masks = true, k.uses = WISP_USES_X;
    k.counts = true, k.order = norm_order, k.front = norm_front, k.kept = norm_kept,
    k.scratch = norm_scratch;
    return k;
}

const struct wisp_card_kind wisp_card_image = row("image", WISP_ROWS, image_forward, nothing_below);
const struct wisp_card_kind wisp_card_maxpool = max_row();
const struct wisp_card_kind wisp_card_avgpool = mean_row();
const struct wisp_card_kind wisp_card_globalavg = unit_row("globalavg", all_forward, all_backward);
const struct wisp_card_kind wisp_card_flatten_planes =
    unit_row("flatten", flat_forward, flat_backward);
const struct wisp_card_kind wisp_card_concat_planes =
    row("concat", WISP_PLANES, concat_forward, concat_backward);
const struct wisp_card_kind wisp_card_bn_planes = norm_row();

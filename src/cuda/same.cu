/* Layers whose result has the place of what they read: layer/relu.c, dropout.c, identity.c and
 * clip.c, four units of a sample at a time.  ReLU and dropout have work here only where they did not
 * become a part of the layer before. */
#include "cuda/kind.cuh"
#include "cuda/quad.cuh"
#include "graph/planes.h"

#include <stdio.h>

enum { THREADS = 256 };

static unsigned quads(const struct wisp_dnet &n, const struct wisp_dact &a)
{
    return (unsigned)((n.batch * a.width / 4 + THREADS - 1) / THREADS);
}

/* ---- what comes after, alone ---- */

/* COUNT: what is not 0, besides, of planes with so many channels in memory. */
template <class T, bool COUNT>
__global__ static void __launch_bounds__(THREADS)
    after_on(const struct wisp_dnow *now, const struct wisp_dafter a, size_t width, const T *x,
             T *h, const struct wisp_dlive live, size_t pitch)
{
    const size_t at = 4 * ((size_t)blockIdx.x * THREADS + threadIdx.x);
    if (!COUNT && at >= now->n * width) return;
    __shared__ struct wisp_dtally tally;
    if (COUNT) wisp_dtally_begin(tally);
    if (at < now->n * width) {
        const float4 y = wisp_dafter_on(a, now, at, wisp_dquad(x + at));
        wisp_dquad_to(h + at, y);
        const uint32_t found = (uint32_t)wisp_dlives<T>(y.x) + wisp_dlives<T>(y.y) +
                               wisp_dlives<T>(y.z) + wisp_dlives<T>(y.w);
        if (COUNT && found) wisp_dtally_add(tally, live, at % pitch / WISP_PLANE_BLOCK, found);
    }
    if (COUNT) wisp_dtally_end(tally, live, blockIdx.x == 0 ? now->n : 0);
}

template <class T>
__global__ static void __launch_bounds__(THREADS)
    after_back(const struct wisp_dnow *now, const struct wisp_dafter a, size_t width, size_t all,
               const T *h, const T *g, T *back)
{
    const size_t at = 4 * ((size_t)blockIdx.x * THREADS + threadIdx.x);
    if (at >= all) return;
    float4 x = make_float4(0, 0, 0, 0);
    if (at < now->n * width) x = wisp_dquad_back(a, now, at, h, wisp_dquad(g + at));
    wisp_dquad_to(back + at, x);
}

template <class T>
static void through(const struct wisp_dnet &n, const struct wisp_dact &a, const float *g, float *to,
                    cudaStream_t s)
{
    after_back<<<quads(n, a), THREADS, 0, s>>>(n.now, a.after, a.width, n.batch * a.width,
                                               (const T *)a.x, (const T *)g, (T *)to);
}

void wisp_same_through(const struct wisp_dnet &n, const struct wisp_dact &a, const float *g,
                       float *to, cudaStream_t s)
{
    if (a.half) through<__nv_bfloat16>(n, a, g, to, s);
    else through<float>(n, a, g, to, s);
}

/* ---- results that count in the loss ---- */

template <class T>
__global__ static void __launch_bounds__(THREADS)
    add_l1(const struct wisp_dnow *now, float l1, size_t width, const T *h, T *g)
{
    const size_t at = 4 * ((size_t)blockIdx.x * THREADS + threadIdx.x);
    if (at >= now->n * width) return;
    const float more = l1 / (float)wisp_dall(now);
    const float4 x = wisp_dquad(h + at);
    float4 b = wisp_dquad(g + at);
    b.x += x.x > 0 ? more : 0, b.y += x.y > 0 ? more : 0;
    b.z += x.z > 0 ? more : 0, b.w += x.w > 0 ? more : 0;
    wisp_dquad_to(g + at, b);
}

void wisp_same_more_zeros(const struct wisp_dnet &n, const struct wisp_dact &a, cudaStream_t s)
{
    if (a.half)
        add_l1<<<quads(n, a), THREADS, 0, s>>>(n.now, a.l1, a.width, (const __nv_bfloat16 *)a.x,
                                               (__nv_bfloat16 *)a.g);
    else add_l1<<<quads(n, a), THREADS, 0, s>>>(n.now, a.l1, a.width, (const float *)a.x, a.g);
}

/* ---- the layers ---- */

template <class T>
static void after(const struct wisp_dnet &n, const struct wisp_dact &in,
                  const struct wisp_dact &out, cudaStream_t s)
{
    auto kernel = out.live.at ? after_on<T, true> : after_on<T, false>;
    kernel<<<quads(n, out), THREADS, 0, s>>>(n.now, out.after, out.width, (const T *)in.x,
                                             (T *)out.x, out.live, out.pitch);
}

/* The layer's own work is in what comes after, if it has any. */
static void forward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wisp_dact &in = wisp_dread(n, l), &out = wisp_dgiven(n, l);
    if (out.half) after<__nv_bfloat16>(n, in, out, s);
    else after<float>(n, in, out, s);
}

static void backward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    wisp_same_through(n, wisp_dread(n, l), wisp_dgiven(n, l).g, l.gx[0], s);
}

/* ---- clip ---- */

enum { MOST }; /* argument */

template <class T>
__global__ static void __launch_bounds__(THREADS)
    clip_on(const struct wisp_dnow *now, float most, size_t width, const T *x, T *h)
{
    const size_t at = 4 * ((size_t)blockIdx.x * THREADS + threadIdx.x);
    if (at >= now->n * width) return;
    float4 y = wisp_dquad(x + at);
    y.x = y.x > most ? most : y.x, y.y = y.y > most ? most : y.y;
    y.z = y.z > most ? most : y.z, y.w = y.w > most ? most : y.w;
    wisp_dquad_to(h + at, y);
}

/* x, 'a': what was read, and what had been done to it.  Its own values say what was cut: the largest
 * need not be a number that bf16 has. */
template <class T>
__global__ static void __launch_bounds__(THREADS)
    clip_back(const struct wisp_dnow *now, float most, const struct wisp_dafter a, size_t width,
              size_t all, const T *x, const T *g, T *back)
{
    const size_t at = 4 * ((size_t)blockIdx.x * THREADS + threadIdx.x);
    if (at >= all) return;
    float4 b = make_float4(0, 0, 0, 0);
    if (at < now->n * width) {
        const float4 y = wisp_dquad(x + at);
        b = wisp_dquad(g + at);
        b.x = y.x < most ? b.x : 0, b.y = y.y < most ? b.y : 0;
        b.z = y.z < most ? b.z : 0, b.w = y.w < most ? b.w : 0;
        b = wisp_dquad_back(a, now, at, x, b);
    }
    wisp_dquad_to(back + at, b);
}

template <class T>
static void clip(const struct wisp_dnet &n, const struct wisp_dnode &l, bool back, cudaStream_t s)
{
    const struct wisp_dact &in = wisp_dread(n, l), &out = wisp_dgiven(n, l);
    const float most = (float)l.l->arg[MOST];
    const T *x = (const T *)in.x;
    if (back)
        clip_back<<<quads(n, in), THREADS, 0, s>>>(
            n.now, most, in.after, in.width, n.batch * in.width, x, (const T *)out.g, (T *)l.gx[0]);
    else clip_on<<<quads(n, out), THREADS, 0, s>>>(n.now, most, out.width, x, (T *)out.x);
}

static void clip_forward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    if (wisp_dread(n, l).half) clip<__nv_bfloat16>(n, l, false, s);
    else clip<float>(n, l, false, s);
}

static void clip_backward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    if (wisp_dread(n, l).half) clip<__nv_bfloat16>(n, l, true, s);
    else clip<float>(n, l, true, s);
}

/* ---- dropout of planes ---- */

enum { SHARE }; /* argument */

/* Masks are drawn by place, and that is the host's (graph/planes.h): four channels that lie side by
 * side here do so there. */
struct planes {
    size_t pixels, pitch, floats; /* floats: of a sample, there */
};

static __device__ size_t host_place(const struct planes &p, size_t at)
{
    const size_t c = at % p.pitch, pixel = at / p.pitch % p.pixels,
                 sample = at / p.pitch / p.pixels;
    return sample * p.floats + (c / WISP_PLANE_BLOCK * p.pixels + pixel) * WISP_PLANE_BLOCK +
           c % WISP_PLANE_BLOCK;
}

template <class T>
__global__ static void __launch_bounds__(THREADS)
    drop_on(const struct wisp_dnow *now, const struct planes p, const struct wisp_dafter drop,
            const T *x, T *h)
{
    const size_t at = 4 * ((size_t)blockIdx.x * THREADS + threadIdx.x);
    if (at >= now->n * p.pixels * p.pitch) return;
    wisp_dquad_to(h + at, wisp_dafter_on(drop, now, host_place(p, at), wisp_dquad(x + at)));
}

/* x, 'a': what was read, and what had been done to it. */
template <class T>
__global__ static void __launch_bounds__(THREADS)
    drop_back(const struct wisp_dnow *now, const struct planes p, const struct wisp_dafter drop,
              const struct wisp_dafter a, size_t all, const T *x, const T *g, T *back)
{
    const size_t at = 4 * ((size_t)blockIdx.x * THREADS + threadIdx.x);
    if (at >= all) return;
    float4 b = make_float4(0, 0, 0, 0);
    if (at < now->n * p.pixels * p.pitch) {
        b = wisp_dafter_on(drop, now, host_place(p, at), wisp_dquad(g + at));
        b = wisp_dquad_back(a, now, at, x, b);
    }
    wisp_dquad_to(back + at, b);
}

template <class T>
static void drop(const struct wisp_dnet &n, const struct wisp_dnode &l, bool back, cudaStream_t s)
{
    const struct wisp_dact &in = wisp_dread(n, l), &out = wisp_dgiven(n, l);
    const struct planes p = { in.h * in.w, in.pitch,
                              wisp_planes_floats(in.c, in.h, in.w, WISP_PLANE_BLOCK) };
    struct wisp_dafter drop = wisp_dafter_of(false, n.training ? l.l->arg[SHARE] : 0, l.l->number);
    drop.width = p.floats;
    const T *x = (const T *)in.x;
    if (back)
        drop_back<<<quads(n, in), THREADS, 0, s>>>(n.now, p, drop, in.after, n.batch * in.width, x,
                                                   (const T *)out.g, (T *)l.gx[0]);
    else drop_on<<<quads(n, in), THREADS, 0, s>>>(n.now, p, drop, x, (T *)out.x);
}

static void drop_forward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    if (wisp_dread(n, l).half) drop<__nv_bfloat16>(n, l, false, s);
    else drop<float>(n, l, false, s);
}

static void drop_backward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    if (wisp_dread(n, l).half) drop<__nv_bfloat16>(n, l, true, s);
    else drop<float>(n, l, true, s);
}

/* Images lie as units on the host: one channel after another. */
static bool drop_lacks(char what[WISP_DWORDS], const struct wisp_graph *g,
                       const struct wisp_layer *l)
{
    if (g->acts[l->from[0]].form == WISP_PLANES) return false;
    snprintf(what, WISP_DWORDS, "layer %d, 'dropout' of an image that no 'conv' has read,",
             l->number);
    return true;
}

/* ---- the rows ---- */

static void add_relu(struct wisp_dafter *a, const struct wisp_layer *, bool)
{
    a->relu = true;
}

static void add_dropout(struct wisp_dafter *a, const struct wisp_layer *l, bool training)
{
    *a = wisp_dafter_of(a->relu, training ? l->arg[SHARE] : 0, l->number);
}

static struct wisp_card_kind row(const char *name, unsigned is, unsigned forms,
                                 void (*after)(struct wisp_dafter *, const struct wisp_layer *,
                                               bool))
{
    struct wisp_card_kind k = {};
    k.name = name, k.is = is, k.forms = forms, k.takes = WISP_FUSE_RELU | WISP_FUSE_DROPOUT;
    k.after = after, k.forward = forward, k.backward = backward, k.counts = true;
    return k;
}

static struct wisp_card_kind clip_row() /* the way back needs what it read: takes nothing */
{
    struct wisp_card_kind k = {};
    k.name = "clip", k.forms = WISP_FLAT | WISP_PLANES;
    k.uses = WISP_USES_X, k.forward = clip_forward, k.backward = clip_backward;
    return k;
}

static struct wisp_card_kind drop_row()
{
    struct wisp_card_kind k = {};
    k.name = "dropout", k.forms = WISP_PLANES, k.lacks = drop_lacks;
    k.forward = drop_forward, k.backward = drop_backward;
    return k;
}

const struct wisp_card_kind wisp_card_relu =
    row("relu", WISP_FUSE_RELU, WISP_FLAT | WISP_PLANES, add_relu);
const struct wisp_card_kind wisp_card_dropout =
    row("dropout", WISP_FUSE_DROPOUT, WISP_FLAT, add_dropout);
const struct wisp_card_kind wisp_card_identity = row("identity", 0, WISP_FLAT | WISP_PLANES, NULL);
const struct wisp_card_kind wisp_card_flatten = row("flatten", 0, WISP_FLAT, NULL);
const struct wisp_card_kind wisp_card_clip = clip_row();
const struct wisp_card_kind wisp_card_dropout_planes = drop_row();

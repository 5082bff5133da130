/* Layers whose result has the place of what they read: layer/relu.c, dropout.c, identity.c and
 * clip.c, four units of a sample at a time.  ReLU and dropout have work here only where they did not
 * become a part of the layer before. */
#include "cuda/kind.cuh"

enum { THREADS = 256 };

static unsigned quads(const struct wisp_dnet &n, const struct wisp_dact &a)
{
    return (unsigned)((n.batch * a.width / 4 + THREADS - 1) / THREADS);
}

/* ---- what comes after, alone ---- */

__global__ static void __launch_bounds__(THREADS)
    after_on(const struct wisp_dnow *now, const struct wisp_dafter a, size_t width, const float *x,
             float *h)
{
    const size_t at = 4 * ((size_t)blockIdx.x * THREADS + threadIdx.x);
    if (at >= now->n * width) return;
    *(float4 *)(h + at) = wisp_dafter_on(a, now, at, *(const float4 *)(x + at));
}

__global__ static void __launch_bounds__(THREADS)
    after_back(const struct wisp_dnow *now, const struct wisp_dafter a, size_t width,
               const float *h, const float *g, float *back)
{
    const size_t at = 4 * ((size_t)blockIdx.x * THREADS + threadIdx.x);
    if (at >= now->n * width) return;
    *(float4 *)(back + at) = wisp_dafter_back(a, now, at, h, *(const float4 *)(g + at));
}

void wisp_same_through(const struct wisp_dnet &n, const struct wisp_dact &a, const float *g,
                       float *to, cudaStream_t s)
{
    after_back<<<quads(n, a), THREADS, 0, s>>>(n.now, a.after, a.width, a.x, g, to);
}

/* The layer's own work is in what comes after, if it has any. */
static void forward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wisp_dact &out = wisp_dgiven(n, l);
    after_on<<<quads(n, out), THREADS, 0, s>>>(n.now, out.after, out.width, wisp_dread(n, l).x,
                                               out.x);
}

static void backward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    wisp_same_through(n, wisp_dread(n, l), wisp_dgiven(n, l).g, l.gx[0], s);
}

/* ---- clip ---- */

enum { MOST }; /* argument */

__global__ static void __launch_bounds__(THREADS)
    clip_on(const struct wisp_dnow *now, float most, size_t width, const float *x, float *h)
{
    const size_t at = 4 * ((size_t)blockIdx.x * THREADS + threadIdx.x);
    if (at >= now->n * width) return;
    float4 y = *(const float4 *)(x + at);
    y.x = y.x > most ? most : y.x, y.y = y.y > most ? most : y.y;
    y.z = y.z > most ? most : y.z, y.w = y.w > most ? most : y.w;
    *(float4 *)(h + at) = y;
}

/* x, 'a': what was read, and what had been done to it; h: the result. */
__global__ static void __launch_bounds__(THREADS)
    clip_back(const struct wisp_dnow *now, float most, const struct wisp_dafter a, size_t width,
              const float *x, const float *h, const float *g, float *back)
{
    const size_t at = 4 * ((size_t)blockIdx.x * THREADS + threadIdx.x);
    if (at >= now->n * width) return;
    const float4 y = *(const float4 *)(h + at);
    float4 b = *(const float4 *)(g + at);
    b.x = y.x < most ? b.x : 0, b.y = y.y < most ? b.y : 0;
    b.z = y.z < most ? b.z : 0, b.w = y.w < most ? b.w : 0;
    *(float4 *)(back + at) = wisp_dafter_back(a, now, at, x, b);
}

static void clip_forward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wisp_dact &out = wisp_dgiven(n, l);
    clip_on<<<quads(n, out), THREADS, 0, s>>>(n.now, (float)l.l->arg[MOST], out.width,
                                              wisp_dread(n, l).x, out.x);
}

static void clip_backward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wisp_dact &in = wisp_dread(n, l), &out = wisp_dgiven(n, l);
    clip_back<<<quads(n, in), THREADS, 0, s>>>(n.now, (float)l.l->arg[MOST], in.after, in.width,
                                               in.x, out.x, out.g, l.gx[0]);
}

/* ---- the rows ---- */

enum { SHARE }; /* of dropout */

static void add_relu(struct wisp_dafter *a, const struct wisp_layer *, bool)
{
    a->relu = true;
}

static void add_dropout(struct wisp_dafter *a, const struct wisp_layer *l, bool training)
{
    *a = wisp_dafter_of(a->relu, training ? l->arg[SHARE] : 0, l->number);
}

static struct wisp_card_kind row(const char *name, unsigned is,
                                 void (*after)(struct wisp_dafter *, const struct wisp_layer *,
                                               bool))
{
    struct wisp_card_kind k = {};
    k.name = name, k.is = is, k.takes = WISP_FUSE_RELU | WISP_FUSE_DROPOUT;
    k.after = after, k.forward = forward, k.backward = backward;
    return k;
}

static struct wisp_card_kind clip_row() /* the way back needs its result as it is: takes nothing */
{
    struct wisp_card_kind k = {};
    k.name = "clip", k.uses = WISP_USES_Y, k.forward = clip_forward, k.backward = clip_backward;
    return k;
}

const struct wisp_card_kind wisp_card_relu = row("relu", WISP_FUSE_RELU, add_relu);
const struct wisp_card_kind wisp_card_dropout = row("dropout", WISP_FUSE_DROPOUT, add_dropout);
const struct wisp_card_kind wisp_card_identity = row("identity", 0, NULL);
const struct wisp_card_kind wisp_card_flatten = row("flatten", 0, NULL);
const struct wisp_card_kind wisp_card_clip = clip_row();

/* Layers that join values: layer/add.c and concat.c; and the sum of the gradients of several
 * readers.  Four units of a sample at a time. */
#include "cuda/kind.cuh"
#include "cuda/quad.cuh"

enum { THREADS = 256 };

static unsigned quads(const struct wisp_dnet &n, size_t width)
{
    return (unsigned)((n.batch * width / 4 + THREADS - 1) / THREADS);
}

static __device__ float4 plus(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* ---- gradients of several readers ---- */

template <class T>
__global__ static void __launch_bounds__(THREADS) add_up(size_t all, T *to, const T *x)
{
    const size_t at = 4 * ((size_t)blockIdx.x * THREADS + threadIdx.x);
    if (at >= all) return;
    wisp_dquad_to(to + at, plus(wisp_dquad(to + at), wisp_dquad(x + at)));
}

void wisp_join_gradient(const struct wisp_dnet &n, const struct wisp_dact &a, const float *g,
                        cudaStream_t s)
{
    const size_t all = n.batch * a.width;
    if (a.half)
        add_up<<<quads(n, a.width), THREADS, 0, s>>>(all, (__nv_bfloat16 *)a.g,
                                                     (const __nv_bfloat16 *)g);
    else add_up<<<quads(n, a.width), THREADS, 0, s>>>(all, a.g, g);
}

/* ---- add ---- */

struct values {
    int n;
    const void *x[WISP_MAX_FROM];
};

template <class T>
__global__ static void __launch_bounds__(THREADS)
    add_on(const struct wisp_dnow *now, const struct wisp_dafter a, size_t width,
           const __grid_constant__ struct values in, T *h)
{
    const size_t at = 4 * ((size_t)blockIdx.x * THREADS + threadIdx.x);
    if (at >= now->n * width) return;
    float4 sum = wisp_dquad((const T *)in.x[0] + at);
    for (int k = 1; k < in.n; k++) sum = plus(sum, wisp_dquad((const T *)in.x[k] + at));
    wisp_dquad_to(h + at, wisp_dafter_on(a, now, at, sum));
}

static void add_forward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wisp_dact &out = wisp_dgiven(n, l);
    const unsigned blocks = quads(n, out.width);
    struct values in = { l.n_from };
    for (int k = 0; k < in.n; k++) in.x[k] = n.acts[l.from[k]].x;
    if (out.half)
        add_on<<<blocks, THREADS, 0, s>>>(n.now, out.after, out.width, in, (__nv_bfloat16 *)out.x);
    else add_on<<<blocks, THREADS, 0, s>>>(n.now, out.after, out.width, in, out.x);
}

static void add_backward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    for (int k = 0; k < l.n_from; k++)
        wisp_same_through(n, n.acts[l.from[k]], wisp_dgiven(n, l).g, l.gx[k], s);
}

/* ---- concat ---- */

struct slice { /* columns first .. first + width - 1 of all */
    size_t first, width, all;
};

static __device__ size_t place_in(const struct slice &c, size_t at)
{
    return at / c.width * c.all + c.first + at % c.width;
}

__global__ static void __launch_bounds__(THREADS)
    slice_on(const struct wisp_dnow *now, const struct wisp_dafter a, const struct slice c,
             const float *x, float *h)
{
    const size_t at = 4 * ((size_t)blockIdx.x * THREADS + threadIdx.x), to = place_in(c, at);
    if (at >= now->n * c.width) return;
    *(float4 *)(h + to) = wisp_dafter_on(a, now, to, *(const float4 *)(x + at));
}

/* x, 'a': what was read, and what had been done to it. */
__global__ static void __launch_bounds__(THREADS)
    slice_back(const struct wisp_dnow *now, const struct wisp_dafter a, const struct slice c,
               const float *x, const float *g, float *back)
{
    const size_t at = 4 * ((size_t)blockIdx.x * THREADS + threadIdx.x);
    if (at >= now->n * c.width) return;
    *(float4 *)(back + at) =
        wisp_dafter_back(a, now, at, x, *(const float4 *)(g + place_in(c, at)));
}

static void concat_forward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wisp_dact &out = wisp_dgiven(n, l);
    struct slice c = { 0, 0, out.width };
    for (int k = 0; k < l.n_from; k++, c.first += c.width) {
        const struct wisp_dact &in = n.acts[l.from[k]];
        c.width = in.width;
        slice_on<<<quads(n, c.width), THREADS, 0, s>>>(n.now, out.after, c, in.x, out.x);
    }
}

static void concat_backward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wisp_dact &out = wisp_dgiven(n, l);
    struct slice c = { 0, 0, out.width };
    for (int k = 0; k < l.n_from; k++, c.first += c.width) {
        const struct wisp_dact &in = n.acts[l.from[k]];
        c.width = in.width;
        slice_back<<<quads(n, c.width), THREADS, 0, s>>>(n.now, in.after, c, in.x, out.g, l.gx[k]);
    }
}

/* ---- the rows ---- */

static struct wisp_card_kind row(const char *name, unsigned is, unsigned forms,
                                 void (*forward)(const struct wisp_dnet &,
                                                 const struct wisp_dnode &, cudaStream_t),
                                 void (*backward)(const struct wisp_dnet &,
                                                  const struct wisp_dnode &, cudaStream_t))
{
    struct wisp_card_kind k = {};
    k.name = name, k.is = is, k.forms = forms;
    k.takes = WISP_FUSE_RELU | WISP_FUSE_DROPOUT;
    k.forward = forward, k.backward = backward;
    return k;
}
const struct wisp_card_kind wisp_card_add =
    row("add", WISP_FUSE_ADD, WISP_FLAT | WISP_PLANES, add_forward, add_backward);
const struct wisp_card_kind wisp_card_concat =
    row("concat", 0, WISP_FLAT, concat_forward, concat_backward);

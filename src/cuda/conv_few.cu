/* Convolution of four channels to a few, as images of digits have it: too little for tensor cores,
 * whose tiles would be mostly padding.  Forward and weights, by multiply-adds on floats.
 *
 *   forward   a thread has two pixels of the result and all of its channels; weights lie in shared
 *             memory as (tap, in, out)
 *   weights   a block has some rows of a sample, x and gy of them in shared memory; a thread has a
 *             tap and a channel of x, and all channels of gy.  Blocks' sums are added in their order
 *
 * 512 images of 28 x 28, 5 x 5 to 8 channels: 321 million multiply-adds each, 10 us if nothing else
 * took time. */
#include "cuda/conv.cuh"
#include "cuda/quad.cuh"

enum { IN = 4, MOST_OUT = 16, MOST_TAPS = 49, THREADS = 128, EACH = 2 };
static const size_t MOST_SHARED = 48 << 10;

struct few { /* struct wisp_dconv and _job, in ints */
    const uint32_t *now_n;
    int n, h, w, oh, ow, kh, kw, stride, pad_h, pad_w;
    int rows, shares; /* weights: rows of a block, blocks of a sample */
    const void *x, *gy, *weights;
    const float *bias;
    void *y;
    float *parts;
    bool relu;
};

static bool can(const struct wisp_dconv *c, enum wisp_dconv_pass pass)
{
    return pass != WISP_DCONV_DATA && c->groups == 1 && c->in == IN && c->out % 4 == 0 &&
           c->out <= MOST_OUT && c->kh * c->kw <= MOST_TAPS && c->ow <= 256 &&
           c->n * c->oh * c->ow <= 0x7fffffff - EACH * THREADS;
}

__device__ static int samples_of(const struct few &p)
{
    return p.now_n && (int)*p.now_n < p.n ? (int)*p.now_n : p.n;
}

/* ---- forward ---- */

template <class T, int OUT>
__global__ static void __launch_bounds__(THREADS) few_on(const __grid_constant__ struct few p)
{
    __shared__ __align__(16) float ws[MOST_TAPS * IN * OUT];
    const int taps = p.kh * p.kw, pixels = samples_of(p) * p.oh * p.ow;
    for (int t = (int)threadIdx.x; t < taps * IN * OUT; t += THREADS)
        ws[t] = (float)((const T *)p.weights)[t % OUT * taps * IN + t / OUT];
    __syncthreads();
    int sample[EACH], top[EACH], left[EACH];
    float sum[EACH][OUT];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int i = ((int)blockIdx.x * EACH + e) * THREADS + (int)threadIdx.x;
        sample[e] = i < pixels ? i / p.ow / p.oh : -1;
        top[e] = i / p.ow % p.oh * p.stride - p.pad_h, left[e] = i % p.ow * p.stride - p.pad_w;
#pragma unroll
        for (int o = 0; o < OUT; o++) sum[e][o] = p.bias ? p.bias[o] : 0;
    }
    for (int t = 0; t < taps; t++) {
        float4 x[EACH];
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int u = top[e] + t / p.kw, v = left[e] + t % p.kw;
            const bool in = sample[e] >= 0 && u >= 0 && v >= 0 && u < p.h && v < p.w;
            const size_t at = (((size_t)(in ? sample[e] : 0) * p.h + u) * p.w + v) * IN;
            x[e] = in ? wisp_dquad((const T *)p.x + at) : make_float4(0, 0, 0, 0);
        }
#pragma unroll
        for (int c = 0; c < IN; c++)
#pragma unroll
            for (int o = 0; o < OUT; o += 4) {
                const float4 w = *(const float4 *)(ws + (t * IN + c) * OUT + o);
#pragma unroll
                for (int e = 0; e < EACH; e++) {
                    const float v = c == 0 ? x[e].x : c == 1 ? x[e].y : c == 2 ? x[e].z : x[e].w;
                    sum[e][o] += v * w.x, sum[e][o + 1] += v * w.y;
                    sum[e][o + 2] += v * w.z, sum[e][o + 3] += v * w.w;
                }
            }
    }
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const size_t i = ((size_t)blockIdx.x * EACH + e) * THREADS + threadIdx.x;
        if (sample[e] < 0) continue;
#pragma unroll
        for (int o = 0; o < OUT; o += 4) {
            float4 y = make_float4(sum[e][o], sum[e][o + 1], sum[e][o + 2], sum[e][o + 3]);
            if (p.relu) {
                y.x = y.x > 0 ? y.x : 0, y.y = y.y > 0 ? y.y : 0;
                y.z = y.z > 0 ? y.z : 0, y.w = y.w > 0 ? y.w : 0;
            }
            wisp_dquad_to((T *)p.y + i * OUT + o, y);
        }
    }
}

/* ---- weights ---- */

struct patch { /* of x, that a block's pixels see */
    int h, w;
};
__host__ __device__ static struct patch patch_of(const struct few &p)
{
    return { (p.rows - 1) * p.stride + p.kh, (p.ow - 1) * p.stride + p.kw };
}

template <class T, int OUT> __global__ static void few_weigh(const __grid_constant__ struct few p)
{
    extern __shared__ __align__(16) unsigned char room[];
    const int sample = (int)blockIdx.x / p.shares, first = (int)blockIdx.x % p.shares * p.rows;
    const int rows = min(p.rows, p.oh - first), taps = p.kh * p.kw, t = (int)threadIdx.x;
    const struct patch k = patch_of(p);
    float *xs = (float *)room, *gs = xs + k.h * k.w * IN;
    const bool there = sample < samples_of(p);
    float sum[OUT] = {};
    for (int i = t; i < k.h * k.w && there; i += (int)blockDim.x) {
        const int u = first * p.stride - p.pad_h + i / k.w, v = i % k.w - p.pad_w;
        const bool in = u >= 0 && v >= 0 && u < p.h && v < p.w;
        const size_t at = (((size_t)sample * p.h + u) * p.w + v) * IN;
        *(float4 *)(xs + i * IN) = in ? wisp_dquad((const T *)p.x + at) : make_float4(0, 0, 0, 0);
    }
    const T *gy = (const T *)p.gy + ((size_t)sample * p.oh + first) * p.ow * OUT;
    for (int i = 4 * t; i < rows * p.ow * OUT && there; i += 4 * (int)blockDim.x)
        *(float4 *)(gs + i) = wisp_dquad(gy + i);
    __syncthreads();
    if (t >= taps * IN) return;
    const int tap = t / IN;
    const float *x = xs + (tap / p.kw * k.w + tap % p.kw) * IN + t % IN;
    for (int r = 0; r < rows && there; r++)
#pragma unroll 4
        for (int q = 0; q < p.ow; q++) {
            const float v = x[(r * k.w + q) * p.stride * IN];
#pragma unroll
            for (int o = 0; o < OUT; o += 4) {
                const float4 g = *(const float4 *)(gs + (r * p.ow + q) * OUT + o);
                sum[o] += v * g.x, sum[o + 1] += v * g.y;
                sum[o + 2] += v * g.z, sum[o + 3] += v * g.w;
            }
        }
    float *to = p.parts + (size_t)blockIdx.x * OUT * taps * IN;
#pragma unroll
    for (int o = 0; o < OUT; o++) to[o * taps * IN + t] = sum[o];
}

/* ---- the way ---- */

static size_t shared_of(const struct few &p, size_t out)
{
    const struct patch k = patch_of(p);
    return ((size_t)k.h * k.w * IN + (size_t)p.rows * p.ow * out) * 4;
}

static struct few few_of(const struct wisp_dconv *c)
{
    struct few p = {};
    p.n = (int)c->n, p.h = (int)c->h, p.w = (int)c->w, p.oh = (int)c->oh, p.ow = (int)c->ow;
    p.kh = (int)c->kh, p.kw = (int)c->kw, p.stride = (int)c->stride;
    p.pad_h = (int)c->pad_h, p.pad_w = (int)c->pad_w;
    p.rows = p.oh;
    while (p.rows > 1 && shared_of(p, c->out) > MOST_SHARED) p.rows--;
    p.shares = (int)wisp_parts(c->oh, (size_t)p.rows);
    return p;
}

/* One row of a block has to fit. */
static bool make(void **, const struct wisp_dconv *c, enum wisp_dconv_pass pass)
{
    return pass == WISP_DCONV_FORWARD || shared_of(few_of(c), c->out) <= MOST_SHARED;
}

static void nothing(void *)
{
}

static size_t bytes(const struct wisp_dconv *c, enum wisp_dconv_pass pass, const void *)
{
    if (pass == WISP_DCONV_FORWARD) return 0;
    return c->n * (size_t)few_of(c).shares * c->out * wisp_dconv_row(c) * 4;
}

template <class T, int OUT>
static void launch(const struct wisp_dconv *c, enum wisp_dconv_pass pass, const struct few &p,
                   float *gw, cudaStream_t s)
{
    if (pass == WISP_DCONV_FORWARD) {
        const unsigned blocks = (unsigned)wisp_parts(c->n * c->oh * c->ow, EACH * THREADS);
        few_on<T, OUT><<<blocks, THREADS, 0, s>>>(p);
        return;
    }
    const size_t parts = c->n * (size_t)p.shares, row = wisp_dconv_row(c);
    const unsigned threads = (unsigned)wisp_up(row, 32);
    few_weigh<T, OUT><<<(unsigned)parts, threads, shared_of(p, OUT), s>>>(p);
    wisp_dconv_add(gw, p.parts, c->out * row, parts, s);
}

template <class T>
static void choose(const struct wisp_dconv *c, enum wisp_dconv_pass pass, const struct few &p,
                   float *gw, cudaStream_t s)
{
    if (c->out == 4) launch<T, 4>(c, pass, p, gw, s);
    else if (c->out == 8) launch<T, 8>(c, pass, p, gw, s);
    else if (c->out == 12) launch<T, 12>(c, pass, p, gw, s);
    else launch<T, 16>(c, pass, p, gw, s);
}

static bool run(const struct wisp_dconv *c, enum wisp_dconv_pass pass, const void *,
                const struct wisp_dconv_job *j, cudaStream_t s)
{
    struct few p = few_of(c);
    p.now_n = j->n, p.x = j->x, p.gy = j->gy, p.weights = j->w, p.bias = j->bias, p.y = j->y;
    p.parts = (float *)j->work, p.relu = j->relu;
    if (c->math == WISP_DCONV_BF16) choose<__nv_bfloat16>(c, pass, p, j->gw, s);
    else choose<float>(c, pass, p, j->gw, s);
    return true;
}

const struct wisp_dconv_way wisp_dconv_few = {
    "few", "four channels to a few, by multiply-adds", can, make, nothing, bytes, run
};

/* Deep networks, 32 inputs a block, for layers whose outputs share no inputs: a load an edge.
 *
 *   shared   values [slot][lane]      floats, lane = input: every load is one line, in 32 banks
 *
 * A warp takes every 32nd output; its ids are the same for all lanes.  What it finds stays in
 * registers until all warps have read the layer's inputs, and is then written in their place.
 *
 * Bound: a load of shared memory an edge and warp, an eighth of one for ids: 32 / 1.125 edges a
 * cycle, 6.6 tera-edges/s on 132 multiprocessors of 1.755 GHz. */
#include "cuda/deep.cuh"

enum { LANES = 32, WARPS = 32, THREADS = LANES * WARPS };

/* A value of shared memory: 'pick' is 128, a slot's bytes, for the lower id of a pair, 128 << 8 for
 * the upper. */
static __device__ __forceinline__ float peek(uint32_t base, uint32_t pair, uint32_t pick)
{
    float x;
    const uint32_t address = __dp2a_lo(pair, pick, base);
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(address));
    return x;
}

static __device__ __forceinline__ void load_8(float (&x)[8], uint32_t base, uint4 q)
{
    const uint32_t v[4] = { q.x, q.y, q.z, q.w };
#pragma unroll
    for (int e = 0; e < 8; e++) x[e] = peek(base, v[e / 2], e % 2 ? 128 << 8 : 128);
}

template <bool WEIGHTED>
static __device__ __forceinline__ void add_8(float &a, float &b, const float (&x)[8],
                                             const float4 *w)
{
    if (WEIGHTED) {
        float4 u = __ldg(w), v = __ldg(w + 1);
        a = fmaf(u.x, x[0], a), b = fmaf(u.y, x[1], b), a = fmaf(u.z, x[2], a);
        b = fmaf(u.w, x[3], b), a = fmaf(v.x, x[4], a), b = fmaf(v.y, x[5], b);
        a = fmaf(v.z, x[6], a), b = fmaf(v.w, x[7], b);
    } else {
        a += x[0], b += x[1], a += x[2], b += x[3];
        a += x[4], b += x[5], a += x[6], b += x[7];
    }
}

template <bool WEIGHTED>
static __device__ __forceinline__ float sum_output(float zero, const uint4 *ids, uint32_t k,
                                                   uint32_t base, const float4 *w)
{
    float a = zero, b = zero, x[8];
    for (; k >= 16; k -= 16, ids += 2, w += WEIGHTED ? 4 : 0) { /* ids of two steps at once */
        const uint4 q = __ldg(ids), r = __ldg(ids + 1);
        load_8(x, base, q);
        add_8<WEIGHTED>(a, b, x, w);
        load_8(x, base, r);
        add_8<WEIGHTED>(a, b, x, w + 2);
    }
    for (; k > 0; ids++, w += WEIGHTED ? 2 : 0) {
        load_8(x, base, __ldg(ids)); /* ids that are missing are 0: a slot that is there */
#pragma unroll
        for (int e = 1; e < 8; e++) x[e] = (uint32_t)e < k ? x[e] : 0;
        add_8<WEIGHTED>(a, b, x, w);
        k = k > 8 ? k - 8 : 0;
    }
    return a + b;
}

/* R: outputs of a warp.  Returns the largest |y|. */
template <int R, bool WEIGHTED>
static __device__ __forceinline__ float run_layer(const struct wisp_dpanel &a,
                                                  const struct wisp_dlayer *__restrict__ d,
                                                  float *values, uint32_t base)
{
    const struct wisp_dpart *p = &d->part[WISP_DEEP_PARTS - 1];
    const uint32_t warp = threadIdx.x / LANES, n = p->n, same = p->k;
    const uint4 *ids = d->ids + p->at, *meta = d->meta + p->meta;
    const float scale = d->scale, bias = d->bias, lo = d->lo, hi = d->hi;
    float y[R], most = 0;
#pragma unroll
    for (int r = 0; r < R; r++) {
        const uint32_t u = (uint32_t)r * WARPS + warp;
        if (u < n) {
            uint32_t k = same, at = u * p->step, w_at = p->w_at + u * p->w_step;
            if (same == WISP_DEEP_RAGGED) {
                uint4 m = __ldg(meta + u);
                at = m.x - p->at, k = m.y, w_at = m.z;
            }
            float sum = WEIGHTED && d->weighted
                            ? sum_output<true>(a.zeros.v[0], ids + at, k, base, d->w + w_at)
                            : sum_output<false>(a.zeros.v[0], ids + at, k, base, NULL);
            float b = d->biases ? __ldg(d->biases + u) : bias;
            y[r] = fminf(hi, fmaxf(lo, fmaf(scale, sum, b)));
            most = fmaxf(most, fabsf(y[r]));
        }
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < R; r++) {
        const uint32_t u = (uint32_t)r * WARPS + warp;
        if (u < n) values[u * LANES] = y[r];
    }
    __syncthreads();
    return most;
}

template <int R, bool WEIGHTED>
__global__ static void __launch_bounds__(THREADS, 1)
    run_panel(const __grid_constant__ struct wisp_dpanel a)
{
    extern __shared__ float4 pool[];
    __shared__ uint32_t some;
    float *mine = (float *)pool + threadIdx.x % LANES;
    const uint32_t panels = (a.n + LANES - 1) / LANES, lane = threadIdx.x % LANES;
    const uint32_t base =
        __shfl_sync(0xffffffffu, (uint32_t)__cvta_generic_to_shared(pool), 0) + lane * 4;
    for (uint32_t p = blockIdx.x; p < panels; p += gridDim.x) {
        const float4 *from = (const float4 *)(a.from + p * a.from_panel);
        for (uint32_t i = threadIdx.x; i < a.n_from * LANES / 4; i += THREADS)
            pool[i] = __ldg(from + i);
        if (threadIdx.x == 0) some = 0;
        __syncthreads();
        float most = 0;
        for (uint32_t l = a.first; l < a.last; l++)
            most = run_layer<R, WEIGHTED>(a, a.layers + l, mine, base);
        const uint32_t column = p * LANES + lane;
        if (a.last == a.n_layers) {
            const uint32_t bits = __ballot_sync(0xffffffffu, most > 0);
            if (lane == 0) atomicOr(&some, bits);
            __syncthreads();
            if (threadIdx.x < LANES && column < a.n)
                a.ended[column] = some >> threadIdx.x & 1 ? WISP_DEEP_SOME : WISP_DEEP_ZERO;
        }
        if (a.state) {
            float4 *to = (float4 *)(a.state + p * a.state_panel);
            const uint32_t n = a.layers[a.last - 1].n_out;
            for (uint32_t i = threadIdx.x; i < n * LANES / 4; i += THREADS) to[i] = pool[i];
        }
        __syncthreads(); /* before the next panel is written over this one */
    }
}

typedef void (*panel_kernel)(struct wisp_dpanel);
static const panel_kernel kernels[2][2] = { { run_panel<16, false>, run_panel<16, true> },
                                            { run_panel<32, false>, run_panel<32, true> } };

cudaError_t wisp_panel_plan(uint32_t width)
{
    cudaError_t e = cudaSuccess;
    const int bytes = (int)(width * LANES * sizeof(float));
    for (int w = 0; w < 2 && e == cudaSuccess; w++)
        e = cudaFuncSetAttribute((const void *)kernels[width > 512][w],
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    return e;
}

void wisp_panel_run(const struct wisp_dpanel *a, int blocks, cudaStream_t s)
{
    const uint32_t panels = (a->n + LANES - 1) / LANES;
    if (panels == 0) return;
    const unsigned n = panels < (uint32_t)blocks ? panels : (unsigned)blocks;
    kernels[a->width > 512][a->weighted]<<<n, THREADS, a->width * LANES * sizeof(float), s>>>(*a);
}

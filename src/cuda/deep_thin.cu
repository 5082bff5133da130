/* Deep networks as merging leaves them: every unit has one output, the units of a layer have
 * equally many inputs, and there are no weights.  As deep_chip.cu, with as few instructions as can
 * be, for a layer here is some 2 additions per output and all else is overhead:
 *
 *   - what a layer is lies in 32 bytes (struct wisp_dthin), two loads that all threads share;
 *   - up to 256 outputs an input is a warp's, and no block waits for a barrier;
 *   - the first layer reads neighbouring inputs from memory (runs), 16 loads under way a thread.
 *
 * Bound: reading the inputs, 245 MB for 60,000 of 1024: 58 us at 4.2 TB/s; a warp issues about 90
 * instructions for the first layer of an input and 50 for each later one. */
#include "cuda/deep.cuh"

#include <algorithm>

enum { LANES = 32, WARPS = 4, WARP_UNITS = 256, BLOCK_MOST = 512 };

struct seen {          /* of the values a thread wrote */
    uint32_t any, all; /* their bits: or, and */
};

struct task { /* who works on an input */
    uint32_t thread, threads;
    float *pool;
    uint32_t base; /* the same as an address of shared memory */
};

template <bool WARP> static __device__ __forceinline__ bool any_of(bool mine)
{
    return WARP ? __any_sync(0xffffffffu, mine) : __syncthreads_or(mine) != 0;
}

template <bool WARP> static __device__ __forceinline__ void sync_task(void)
{
    if (WARP) __syncwarp();
    else __syncthreads();
}

/* ---- a layer ---- */

static __device__ __forceinline__ struct wisp_dthin load_thin(const struct wisp_dlayer *d)
{
    union {
        uint4 q[2];
        struct wisp_dthin thin;
    } u;
    u.q[0] = __ldg((const uint4 *)&d->thin);
    u.q[1] = __ldg((const uint4 *)&d->thin + 1);
    return u.thin;
}

static __device__ __forceinline__ float add_pair(float sum, uint32_t base, uint32_t pair)
{
    const float x = wisp_dpeek(base, pair, 4), y = wisp_dpeek(base, pair, 4 << 8);
    return sum + x + y; /* in order, as deep_chip.cu adds */
}

/* Ids of this lane's unit, as deep.cuh draws a slice. */
static __device__ __forceinline__ float sum_unit(const unsigned char *slice, uint32_t k,
                                                 uint32_t lane, uint32_t base)
{
    float sum = 0;
    for (; k >= 8; k -= 8, slice += 16 * LANES) {
        const uint4 q = __ldg((const uint4 *)slice + lane);
        sum = add_pair(add_pair(sum, base, q.x), base, q.y);
        sum = add_pair(add_pair(sum, base, q.z), base, q.w);
    }
    if (k & 4) {
        const uint2 q = __ldg((const uint2 *)slice + lane);
        sum = add_pair(add_pair(sum, base, q.x), base, q.y);
        slice += 8 * LANES;
    }
    if (k & 2) sum = add_pair(sum, base, __ldg((const uint32_t *)slice + lane));
    return sum;
}

/* The same where lane i reads first + i of the row. */
static __device__ __forceinline__ float sum_runs(const unsigned char *slice, uint32_t k,
                                                 const float *row)
{
    enum { C = 16 };
    const uint32_t *first = (const uint32_t *)slice;
    float sum = 0;
    for (; k >= C; k -= C, first += C) {
        float x[C];
#pragma unroll
        for (int e = 0; e < C; e += 4) {
            const uint4 q = __ldg((const uint4 *)(first + e));
            x[e] = __ldcs(row + q.x), x[e + 1] = __ldcs(row + q.y);
            x[e + 2] = __ldcs(row + q.z), x[e + 3] = __ldcs(row + q.w);
        }
#pragma unroll
        for (int e = 0; e < C; e++) sum += x[e];
    }
    for (uint32_t e = 0; e < k; e++) sum += __ldcs(row + __ldg(first + e));
    return sum;
}

template <bool FIRST>
static __device__ __forceinline__ struct seen run_layer(const struct wisp_dthin &d,
                                                        const struct task &t, const float *row,
                                                        float *to)
{
    struct seen s = { 0, 0xffffffffu };
    const uint32_t lane = t.thread % LANES, k = d.k_step & 0xffff, step = d.k_step >> 16;
    const unsigned char *slice = (const unsigned char *)(d.ids + t.thread / LANES * step);
    for (uint32_t u = t.thread; u < d.n; u += t.threads) {
        const float sum = FIRST ? sum_runs(slice, k, row + lane) : sum_unit(slice, k, lane, t.base);
        const float y = fminf(d.hi, fmaxf(d.lo, fmaf(d.scale, sum, d.bias)));
        s.any |= __float_as_uint(y), s.all &= __float_as_uint(y);
        to[u] = y;
        slice += (size_t)(t.threads / LANES * step) * sizeof(uint4);
    }
    if (t.thread == 0) to[(d.n + LANES - 1) / LANES * LANES] = 0; /* what missing ids point at */
    return s;
}

/* ---- an input ---- */

/* Whether all is zero, or at the clip.  Most often some thread has seen values of both kinds. */
template <bool WARP>
static __device__ __forceinline__ int judge(const struct seen &s, bool zero, bool full, float clip)
{
    const uint32_t top = __float_as_uint(clip), none = 0xffffffffu;
    const bool some = s.any << 1, below = s.all != none && (s.any != top || s.all != top);
    if (any_of<WARP>(some && below)) return WISP_DEEP_LIVE;
    if (!any_of<WARP>(some)) return zero ? WISP_DEEP_ZERO : WISP_DEEP_LIVE;
    return full && !any_of<WARP>(below) ? WISP_DEEP_FULL : WISP_DEEP_LIVE;
}

/* Returns how many layers it ran. */
template <bool WARP>
static __device__ __forceinline__ uint32_t run_input(const struct wisp_dchip &a, uint32_t i,
                                                     const struct task &t)
{
    const float *row = a.x + (size_t)i * a.x_stride;
    const struct wisp_dlayer *d = a.layers;
    uint32_t l = 0;
    int end = WISP_DEEP_LIVE;
    for (; end == WISP_DEEP_LIVE; d++) {
        const struct wisp_dthin thin = load_thin(d);
        float *to = t.pool + (l % 2 ? 0 : a.width);
        const struct seen s =
            l == 0 ? run_layer<true>(thin, t, row, to) : run_layer<false>(thin, t, row, to);
        const bool linear = thin.lo < 0;
        l++;
        if (l == a.n_layers) end = any_of<WARP>(s.any << 1 != 0) ? WISP_DEEP_SOME : WISP_DEEP_ZERO;
        else if (!linear && (l >= a.zero_from || l >= a.full_from))
            end = judge<WARP>(s, l >= a.zero_from, l >= a.full_from, a.clip);
        else sync_task<WARP>();
        if (WARP) __syncwarp(); /* a vote does not order memory, a barrier of the block does */
    }
    if (a.values) {
        const float *now = t.pool + l % 2 * a.width;
        const uint32_t n = a.layers[a.n_layers - 1].n_out;
        for (uint32_t o = t.thread; o < n; o += t.threads)
            a.values[(size_t)i * n + o] = end == WISP_DEEP_ZERO   ? 0
                                          : end == WISP_DEEP_FULL ? a.clip
                                                                  : now[__ldg(a.slot + o)];
        sync_task<WARP>();
    }
    if (t.thread == 0) a.ended[i] = (uint8_t)end;
    return l;
}

template <bool WARP>
__global__ static void __launch_bounds__(WARP ? WARPS *LANES : BLOCK_MOST, WARP ? 9 : 2)
    run_thin(const __grid_constant__ struct wisp_dchip a)
{
    extern __shared__ float4 room[];
    __shared__ uint32_t turn;
    const uint32_t warp = WARP ? threadIdx.x / LANES : 0;
    struct task t = { WARP ? threadIdx.x % LANES : threadIdx.x, WARP ? LANES : blockDim.x,
                      (float *)room + warp * 2 * a.width, 0 };
    t.base = __shfl_sync(0xffffffffu, (uint32_t)__cvta_generic_to_shared(t.pool), 0);
    const uint32_t begun = gridDim.x * (WARP ? WARPS : 1);
    unsigned long long work = 0;
    for (uint32_t i = blockIdx.x * (WARP ? WARPS : 1) + warp; i < a.n;) {
        uint32_t after = 0;
        if (t.thread == 0) after = begun + atomicAdd(a.next, 1); /* asked for early */
        work += run_input<WARP>(a, i, t);
        if (WARP) {
            i = __shfl_sync(0xffffffffu, after, 0);
        } else {
            if (t.thread == 0) turn = after;
            __syncthreads();
            i = turn;
            __syncthreads();
        }
    }
    if (t.thread == 0 && work) atomicAdd(a.work, work);
}

/* ---- from the host ---- */

static bool is_thin(const struct wisp_dlayer *d, bool first)
{
    const struct wisp_dpart *p = &d->part[WISP_DEEP_PARTS - 1];
    for (int i = 0; i < WISP_DEEP_PARTS - 1; i++)
        if (d->part[i].n) return false;
    return !d->weighted && !d->biases && p->n > 0 && p->slot == 0 && p->k <= 0xffff &&
           p->step <= 0xffff && p->ids == (first ? WISP_DEEP_RUNS : WISP_DEEP_16);
}

bool wisp_thin_fits(const struct wisp_dimage *image, bool direct)
{
    bool all = direct;
    for (size_t l = 0; l < image->n_layers && all; l++) all = is_thin(&image->layers[l], l == 0);
    return all;
}

struct wisp_dthin wisp_thin_of(const struct wisp_dlayer *d)
{
    const struct wisp_dpart *p = &d->part[WISP_DEEP_PARTS - 1];
    return { d->ids + p->at, p->n, p->k | p->step << 16, d->scale, d->bias, d->lo, d->hi };
}

cudaError_t wisp_thin_plan(struct wisp_dchip_plan *p, uint32_t width, uint32_t units)
{
    const bool warp = units <= WARP_UNITS;
    const void *f = warp ? (const void *)run_thin<true> : (const void *)run_thin<false>;
    int device = 0, n_multi = 0, blocks = 0;
    p->threads = warp ? WARPS * LANES : std::min<uint32_t>(BLOCK_MOST, (units / 4 + 31) / 32 * 32);
    p->shared = (size_t)width * 2 * sizeof(float) * (warp ? WARPS : 1);
    cudaError_t e = cudaGetDevice(&device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&n_multi, cudaDevAttrMultiProcessorCount, device);
    if (e == cudaSuccess)
        e = cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)p->shared);
    if (e == cudaSuccess)
        e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, (int)p->threads, p->shared);
    if (e == cudaSuccess && blocks < 1) e = cudaErrorLaunchOutOfResources;
    p->warp = warp;
    p->blocks = (uint32_t)(blocks * n_multi);
    return e;
}

void wisp_thin_run(const struct wisp_dchip_plan *p, const struct wisp_dchip *a, cudaStream_t s)
{
    const uint32_t each = p->warp ? WARPS : 1, most = (a->n + each - 1) / each;
    const uint32_t blocks = std::min(p->blocks, most);
    if (p->warp) run_thin<true><<<blocks, p->threads, p->shared, s>>>(*a);
    else run_thin<false><<<blocks, p->threads, p->shared, s>>>(*a);
}

/* Deep networks, 32 inputs a block, for layers whose outputs share no inputs: a load an edge.
 *
 *   shared   values [place][lane]     floats, lane = input: every load is one line, in 32 banks
 *
 * Places are a ring, of as many as fit: a layer's outputs follow its inputs, and what does not fit
 * before the inputs begin again is *kept*, in registers, until all warps have read the layer's
 * inputs.  Two layers of 1024 take 2048 places; 1816 fit, so that a quarter is kept.  Ids are
 * places already (deep_pack.cu).
 *
 * A warp takes a stretch of outputs, of those that are written at once and of those that are kept;
 * ids are the same for all lanes and come from L2, so those of the next 16 edges are under way
 * while 16 are added.
 *
 * Bound: a load of shared memory an edge and warp, an eighth of one for ids: 32 / 1.125 edges a
 * cycle, 6.6 tera-edges/s on 132 multiprocessors of 1.755 GHz.  Instructions: 3.4 an edge and warp
 * where 4 are possible. */
#include "cuda/deep.cuh"

enum { LANES = 32, WARPS = 32, THREADS = LANES * WARPS };

static __device__ __forceinline__ void load_8(float (&x)[8], uint32_t base, uint4 q)
{
    const uint32_t v[4] = { q.x, q.y, q.z, q.w };
#pragma unroll
    for (int e = 0; e < 8; e++) x[e] = wisp_dpeek(base, v[e / 2], e % 2 ? 128 << 8 : 128);
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

struct stream { /* of ids (and weights) of the outputs that a warp takes; 16 ids are here already */
    const uint4 *ids, *meta;
    const float4 *w;
    uint4 q, r;
};

/* Sum of the next output, of k ids: a constant where all outputs have 32. */
template <bool WEIGHTED>
static __device__ __forceinline__ float sum_output(float zero, struct stream *s, uint32_t k,
                                                   uint32_t base)
{
    float a = zero, b = zero;
#pragma unroll 2
    for (; k >= 16; k -= 16) {
        float x[8], y[8];
        load_8(x, base, s->q);
        load_8(y, base, s->r);
        s->ids += 2;
        s->q = __ldg(s->ids), s->r = __ldg(s->ids + 1);
        add_8<WEIGHTED>(a, b, x, s->w);
        add_8<WEIGHTED>(a, b, y, s->w + 2);
        if (WEIGHTED) s->w += 4;
    }
    for (; k > 0; k -= k < 8 ? k : 8) {
        float x[8];
        load_8(x, base, s->q); /* ids that are missing repeat the first */
#pragma unroll
        for (int e = 1; e < 8; e++) x[e] = (uint32_t)e < k ? x[e] : 0;
        s->ids++;
        s->q = s->r, s->r = __ldg(s->ids + 1);
        add_8<WEIGHTED>(a, b, x, s->w);
        if (WEIGHTED) s->w += 2;
    }
    return a + b;
}

struct job { /* a layer: what its outputs have in common */
    const struct wisp_dlayer *d;
    uint32_t same, base; /* ids of each output; where this lane's values begin */
    float zero, scale, bias, lo, hi;
    const float *biases;
};

static __device__ __forceinline__ void begin_stream(struct stream *s, const struct job &j,
                                                    uint32_t u)
{
    const struct wisp_dlayer *d = j.d;
    const struct wisp_dpart *p = &d->part[WISP_DEEP_PARTS - 1];
    uint32_t at = p->at + u * p->step, w_at = p->w_at + u * p->w_step;
    s->meta = d->meta + p->meta + u;
    if (j.same == WISP_DEEP_RAGGED) {
        const uint4 m = __ldg(s->meta);
        at = m.x, w_at = m.z;
    }
    s->ids = d->ids + at, s->w = d->w + w_at;
    s->q = __ldg(s->ids), s->r = __ldg(s->ids + 1);
}

template <bool WEIGHTED, bool ALL_32>
static __device__ __forceinline__ float next_output(struct stream *s, const struct job &j,
                                                    uint32_t u)
{
    uint32_t k = ALL_32 ? 32 : j.same;
    if (!ALL_32 && k == WISP_DEEP_RAGGED) k = __ldg(&(s->meta++)->y);
    const float sum = sum_output<WEIGHTED>(j.zero, s, k, j.base);
    const float b = j.biases ? __ldg(j.biases + u) : j.bias;
    return fminf(j.hi, fmaxf(j.lo, fmaf(j.scale, sum, b)));
}

static __device__ __forceinline__ uint32_t around(uint32_t at, uint32_t ring)
{
    return at < ring ? at : at - ring;
}

/* KEPT: outputs that a warp keeps, at most.  Returns the largest |y|. */
template <int KEPT, bool WEIGHTED, bool ALL_32>
static __device__ __forceinline__ float run_layer(const struct wisp_dpanel &a,
                                                  const struct wisp_dlayer *__restrict__ d,
                                                  float *values, uint32_t base)
{
    const struct wisp_dpart *p = &d->part[WISP_DEEP_PARTS - 1];
    const struct job j = {
        d, p->k, base, a.zeros.v[0], d->scale, d->bias, d->lo, d->hi, d->biases
    };
    const uint32_t warp = threadIdx.x / LANES, n = p->n, ring = a.width;
    const uint32_t to = around(d->base + d->n_in, ring);
    const uint32_t n_free = n < ring - d->n_in ? n : ring - d->n_in;
    const uint32_t each = (n_free + WARPS - 1) / WARPS,
                   each_kept = (n - n_free + WARPS - 1) / WARPS;
    uint32_t u = warp * each, end = u + each < n_free ? u + each : n_free;
    struct stream s;
    float most = 0, kept[KEPT];
    if (u < end) begin_stream(&s, j, u);
    for (; u < end; u++) {
        const float y = next_output<WEIGHTED, ALL_32>(&s, j, u);
        most = fmaxf(most, fabsf(y));
        values[around(to + u, ring) * LANES] = y;
    }
    const uint32_t first = n_free + warp * each_kept;
    const uint32_t n_kept = first < n ? (n - first < each_kept ? n - first : each_kept) : 0;
    if (n_kept > 0) begin_stream(&s, j, first);
    for (uint32_t i = 0; i < n_kept; i++) {
        const float y = next_output<WEIGHTED, ALL_32>(&s, j, first + i);
        most = fmaxf(most, fabsf(y));
#pragma unroll
        for (uint32_t r = 0; r < KEPT; r++) kept[r] = r == i ? y : kept[r];
    }
    __syncthreads();
#pragma unroll
    for (uint32_t r = 0; r < KEPT; r++)
        if (r < n_kept) values[around(to + first + r, ring) * LANES] = kept[r];
    __syncthreads();
    return most;
}

template <int KEPT, bool WEIGHTED>
__global__ static void __launch_bounds__(THREADS, 1)
    run_panel(const __grid_constant__ struct wisp_dpanel a)
{
    extern __shared__ float4 pool[];
    __shared__ uint32_t some;
    float *mine = (float *)pool + threadIdx.x % LANES;
    const uint32_t panels = (a.n + LANES - 1) / LANES, lane = threadIdx.x % LANES;
    const uint32_t base =
        __shfl_sync(0xffffffffu, (uint32_t)__cvta_generic_to_shared(pool), 0) + lane * 4;
    const uint32_t quads = LANES / 4, begin = a.layers[a.first].base;
    const struct wisp_dlayer *last = a.layers + a.last - 1;
    for (uint32_t p = blockIdx.x; p < panels; p += gridDim.x) {
        const float4 *from = (const float4 *)(a.from + p * a.from_panel);
        for (uint32_t i = threadIdx.x; i < a.n_from * quads; i += THREADS)
            pool[around(begin + i / quads, a.width) * quads + i % quads] = __ldg(from + i);
        if (threadIdx.x == 0) some = 0;
        __syncthreads();
        float most = 0;
        for (uint32_t l = a.first; l < a.last; l++) {
            const struct wisp_dlayer *d = a.layers + l;
            if (WEIGHTED && d->weighted) most = run_layer<KEPT, true, false>(a, d, mine, base);
            else if (!WEIGHTED && d->part[WISP_DEEP_PARTS - 1].k == 32)
                most = run_layer<KEPT, false, true>(a, d, mine, base);
            else most = run_layer<KEPT, false, false>(a, d, mine, base);
        }
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
            const uint32_t at = around(last->base + last->n_in, a.width);
            for (uint32_t i = threadIdx.x; i < last->n_out * quads; i += THREADS)
                to[i] = pool[around(at + i / quads, a.width) * quads + i % quads];
        }
        __syncthreads(); /* before the next panel is written over this one */
    }
}

enum { FEW = 8, MANY = WISP_PANEL_WIDTH / WARPS };
typedef void (*panel_kernel)(struct wisp_dpanel);
static const panel_kernel kernels[2][2] = { { run_panel<FEW, false>, run_panel<FEW, true> },
                                            { run_panel<MANY, false>, run_panel<MANY, true> } };

static bool keeps_many(uint32_t widest, uint32_t ring)
{
    return 2 * widest > ring + FEW * WARPS;
}

cudaError_t wisp_panel_plan(uint32_t widest, uint32_t ring)
{
    cudaError_t e = cudaSuccess;
    const int bytes = (int)(ring * LANES * sizeof(float));
    for (int w = 0; w < 2 && e == cudaSuccess; w++)
        e = cudaFuncSetAttribute((const void *)kernels[keeps_many(widest, ring)][w],
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    return e;
}

void wisp_panel_run(const struct wisp_dpanel *a, int blocks, cudaStream_t s)
{
    const uint32_t panels = (a->n + LANES - 1) / LANES;
    if (panels == 0) return;
    const unsigned n = panels < (uint32_t)blocks ? panels : (unsigned)blocks;
    const size_t bytes = a->width * LANES * sizeof(float);
    kernels[keeps_many(a->widest, a->width)][a->weighted]<<<n, THREADS, bytes, s>>>(*a);
}

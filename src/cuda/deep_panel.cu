/* Deep networks, 32 inputs per panel, for layers whose outputs share no inputs: one load per edge.
 *
 *   shared   row r: values of one neuron for the 32 inputs, 128 bytes; the row after the last is 0
 *
 * A lane has an output and 32 sums.  For an edge it reads all of its row, 8 times 16 bytes, in an
 * order of its own: lane i takes part i ^ j in turn j, so that the 8 lanes that shared memory
 * serves at a time never meet in a bank, whatever their rows.  An id and a weight are loaded once
 * for 32 additions.  That is what counts: shared memory and L1 hand a multiprocessor 128 bytes a
 * cycle, counted as they arrive in registers, so that with an input a lane ids and weights, the
 * same for all lanes, took more of them (192 bytes per edge and warp) than the values (128).
 *
 * Two kernels share this:
 *
 *   panel    a block takes 32 inputs through all layers.  Rows are a ring: a layer's outputs
 *            follow its inputs, and those of the last turn, which may lie where inputs are still
 *            read, are written after a barrier.
 *   slice    one layer.  Several blocks take a panel, each some slices of 32 outputs.  Rows pass
 *            through shared memory as a window: while a phase's edges are added, the rows of the
 *            next one are copied over those that nobody needs any more (deep_steps.cu).
 *
 * Bound: 1 + 1.5 / 32 cycles for 32 edges (1 + 0.5 / 32 without weights), 7.1 (7.3) tera-edges/s on
 * 132 multiprocessors of 1.755 GHz.  Instructions: some 50 per edge and warp where 134 are
 * possible.
 */
#include "cuda/deep.cuh"

#include <algorithm>

enum { LANES = 32, PARTS = 8, ROW = 128, MOST_THREADS = 512 };
enum { ID_BYTES = 8 * LANES, W_BYTES = 16 * LANES }; /* of a chunk of 4 edges per lane */

/* ---- the sums of a slice ---- */

struct feed { /* chunks of a slice; the next one is here already */
    const unsigned char *at;
    uint2 ids;
    float4 w;
};

template <bool WEIGHTED> static __device__ __forceinline__ void fetch(struct feed *f)
{
    const uint32_t lane = threadIdx.x % LANES;
    f->ids = __ldg((const uint2 *)f->at + lane);
    if (WEIGHTED) f->w = __ldg((const float4 *)(f->at + ID_BYTES) + lane);
    f->at += ID_BYTES + (WEIGHTED ? W_BYTES : 0);
}

template <bool WEIGHTED>
static __device__ __forceinline__ void add_edge(float4 (&sum)[PARTS], const unsigned char *rows,
                                                uint32_t pair, uint32_t pick, uint32_t mine,
                                                float w)
{
    const uint32_t at = __dp2a_lo(pair, pick, mine); /* ROW * id + mine */
    float4 x[PARTS];
#pragma unroll
    for (uint32_t j = 0; j < PARTS; j++) x[j] = *(const float4 *)(rows + (at ^ j * 16));
#pragma unroll
    for (uint32_t j = 0; j < PARTS; j++) {
        if (WEIGHTED) {
            sum[j].x = fmaf(w, x[j].x, sum[j].x), sum[j].y = fmaf(w, x[j].y, sum[j].y);
            sum[j].z = fmaf(w, x[j].z, sum[j].z), sum[j].w = fmaf(w, x[j].w, sum[j].w);
        } else {
            sum[j].x += x[j].x, sum[j].y += x[j].y, sum[j].z += x[j].z, sum[j].w += x[j].w;
        }
    }
}

template <bool WEIGHTED>
static __device__ __forceinline__ void add_chunks(float4 (&sum)[PARTS], struct feed *f, uint32_t n,
                                                  const unsigned char *rows, uint32_t mine)
{
#pragma unroll 1
    for (; n > 0; n--) {
        const uint2 ids = f->ids;
        const float4 w = f->w;
        fetch<WEIGHTED>(f);
        add_edge<WEIGHTED>(sum, rows, ids.x, ROW, mine, w.x);
        add_edge<WEIGHTED>(sum, rows, ids.x, ROW << 8, mine, w.y);
        add_edge<WEIGHTED>(sum, rows, ids.y, ROW, mine, w.z);
        add_edge<WEIGHTED>(sum, rows, ids.y, ROW << 8, mine, w.w);
    }
}

static __device__ __forceinline__ void clear(float4 (&sum)[PARTS])
{
#pragma unroll
    for (int j = 0; j < PARTS; j++) sum[j] = make_float4(0, 0, 0, 0);
}

struct ending { /* of a layer: what happens to its sums */
    float scale, lo, hi;
};

static __device__ __forceinline__ float end_sum(float sum, const struct ending &e, float bias)
{
    return fminf(e.hi, fmaxf(e.lo, fmaf(e.scale, sum, bias)));
}

static __device__ __forceinline__ void end_sums(float4 (&y)[PARTS], const struct ending &e,
                                                float bias)
{
#pragma unroll
    for (int j = 0; j < PARTS; j++) {
        y[j].x = end_sum(y[j].x, e, bias), y[j].y = end_sum(y[j].y, e, bias);
        y[j].z = end_sum(y[j].z, e, bias), y[j].w = end_sum(y[j].w, e, bias);
    }
}

/* Bit i: the value of input i is not 0.  Of all lanes that are there. */
static __device__ __forceinline__ uint32_t bits_of(const float4 (&y)[PARTS], bool there)
{
    uint32_t bits = 0;
#pragma unroll
    for (uint32_t j = 0; j < PARTS; j++) {
        const uint32_t four =
            (y[j].x != 0) | (y[j].y != 0) << 1 | (y[j].z != 0) << 2 | (y[j].w != 0) << 3;
        bits |= four << 4 * ((threadIdx.x ^ j) % PARTS);
    }
    bits = there ? bits : 0;
    for (int d = LANES / 2; d > 0; d /= 2) bits |= __shfl_xor_sync(0xffffffffu, bits, d);
    return bits;
}

/* A row: line is where it begins. */
static __device__ __forceinline__ void put_row(unsigned char *line, const float4 (&y)[PARTS])
{
#pragma unroll
    for (uint32_t j = 0; j < PARTS; j++)
        *(float4 *)(line + ((threadIdx.x ^ j) % PARTS) * 16) = y[j];
}

static __device__ __forceinline__ uint32_t around(uint32_t at, uint32_t ring)
{
    return at < ring ? at : at - ring;
}

/* ---- panel ---- */

struct head { /* a slice of a layer: where its chunks begin, how many there are */
    const unsigned char *at;
    uint32_t n;
};

static __device__ __forceinline__ struct head head_of(const struct wisp_dlayer *d, uint32_t slice)
{
    const uint32_t *ends = (const uint32_t *)d->meta;
    const uint32_t bytes = ID_BYTES + (d->weighted ? W_BYTES : 0);
    struct head h = { (const unsigned char *)d->ids, 0 };
    if (slice >= (d->n_out + LANES - 1) / LANES) return h;
    const uint32_t begin = slice ? __ldg(ends + slice - 1) : 0;
    h.at += (size_t)begin * bytes, h.n = __ldg(ends + slice) - begin;
    return h;
}

/* The first chunk of h, whatever its layer is. */
template <bool WEIGHTED>
static __device__ __forceinline__ void begin_feed(struct feed *f, const struct head &h,
                                                  const struct wisp_dlayer *d)
{
    f->at = h.at;
    if (WEIGHTED && d->weighted) fetch<true>(f);
    else fetch<false>(f);
}

/* One layer of the panel; *f begins with its first slice, and ends with the next layer's.  Returns
 * bits_of() of the warp's outputs where it is the last. */
template <bool WEIGHTED>
static __device__ __forceinline__ uint32_t run_layer(const struct wisp_dpanel &a, uint32_t l,
                                                     struct feed *f, uint32_t *n_chunks,
                                                     unsigned char *rows, uint32_t mine)
{
    const struct wisp_dlayer *__restrict__ d = a.layers + l;
    const struct ending e = { d->scale, d->lo, d->hi };
    const uint32_t n = d->n_out, to = around(d->base + d->n_in, a.width);
    const uint32_t turns = (n + blockDim.x - 1) / blockDim.x, warps = blockDim.x / LANES;
    const float *biases = d->biases;
    const bool last = l + 1 == a.n_layers;
    uint32_t bits = 0;
    for (uint32_t t = 0; t < turns; t++) {
        const uint32_t u = t * blockDim.x + threadIdx.x;
        const bool again = t + 1 < turns, there = u < n;
        const struct wisp_dlayer *then = again || l + 1 == a.last ? d : d + 1;
        const struct head next = head_of(then, threadIdx.x / LANES + (again ? t + 1 : 0) * warps);
        const float bias = biases && there ? __ldg(biases + u) : d->bias;
        float4 y[PARTS];
        clear(y);
        if (WEIGHTED && d->weighted) add_chunks<true>(y, f, *n_chunks, rows, mine);
        else add_chunks<false>(y, f, *n_chunks, rows, mine);
        begin_feed<WEIGHTED>(f, next, then);
        *n_chunks = next.n;
        end_sums(y, e, bias);
        if (last) bits |= bits_of(y, there);
        if (!again) __syncthreads(); /* all have read the layer's inputs */
        if (there) put_row(rows + around(to + u, a.width) * ROW, y);
    }
    __syncthreads();
    return bits;
}

template <bool WEIGHTED>
__global__ static void __launch_bounds__(MOST_THREADS, 1)
    run_panel(const __grid_constant__ struct wisp_dpanel a)
{
    extern __shared__ float4 pool[];
    __shared__ uint32_t some;
    unsigned char *rows = (unsigned char *)pool;
    const uint32_t panels = (a.n + LANES - 1) / LANES, lane = threadIdx.x % LANES;
    const uint32_t mine = lane % PARTS * 16, begin = a.layers[a.first].base;
    const struct wisp_dlayer *last = a.layers + a.last - 1;
    if (threadIdx.x < PARTS) pool[a.width * PARTS + threadIdx.x] = make_float4(0, 0, 0, 0);
    for (uint32_t p = blockIdx.x; p < panels; p += gridDim.x) {
        const float4 *from = (const float4 *)(a.from + p * a.from_panel);
        const struct head h = head_of(a.layers + a.first, threadIdx.x / LANES);
        struct feed f = {};
        begin_feed<WEIGHTED>(&f, h, a.layers + a.first);
        for (uint32_t i = threadIdx.x; i < a.n_from * PARTS; i += blockDim.x)
            pool[around(begin + i / PARTS, a.width) * PARTS + i % PARTS] = __ldg(from + i);
        if (threadIdx.x == 0) some = 0;
        __syncthreads();
        uint32_t bits = 0, n_chunks = h.n;
        for (uint32_t l = a.first; l < a.last; l++)
            bits = run_layer<WEIGHTED>(a, l, &f, &n_chunks, rows, mine);
        const uint32_t column = p * LANES + lane;
        if (a.last == a.n_layers) {
            if (lane == 0 && bits) atomicOr(&some, bits);
            __syncthreads();
            if (threadIdx.x < LANES && column < a.n)
                a.ended[column] = some >> lane & 1 ? WISP_DEEP_SOME : WISP_DEEP_ZERO;
        }
        if (a.state) {
            float4 *to = (float4 *)(a.state + p * a.state_panel);
            const uint32_t at = around(last->base + last->n_in, a.width);
            for (uint32_t i = threadIdx.x; i < last->n_out * PARTS; i += blockDim.x)
                to[i] = pool[around(at + i / PARTS, a.width) * PARTS + i % PARTS];
        }
        __syncthreads(); /* before the next panel is written over this one */
    }
}

static uint32_t panel_threads(uint32_t widest)
{
    return std::min<uint32_t>(MOST_THREADS, (widest + LANES - 1) / LANES * LANES);
}

/* All turns but the last write where no inputs are. */
bool wisp_panel_fits(uint32_t widest, uint32_t ring)
{
    const uint32_t threads = panel_threads(widest), turns = (widest + threads - 1) / threads;
    return (turns - 1) * threads + widest <= ring;
}

static const void *panel_kernel(bool weighted)
{
    return weighted ? (const void *)run_panel<true> : (const void *)run_panel<false>;
}

cudaError_t wisp_panel_plan(uint32_t *blocks, uint32_t widest, uint32_t ring, bool weighted,
                            int n_multi)
{
    const int bytes = (int)((ring + 1) * ROW);
    int each = 0;
    cudaError_t e = cudaFuncSetAttribute(panel_kernel(weighted),
                                         cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (e == cudaSuccess)
        e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &each, panel_kernel(weighted), (int)panel_threads(widest), (size_t)bytes);
    if (e == cudaSuccess && each < 1) e = cudaErrorLaunchOutOfResources;
    *blocks = (uint32_t)(each * n_multi);
    return e;
}

void wisp_panel_run(const struct wisp_dpanel *a, uint32_t blocks, cudaStream_t s)
{
    const uint32_t panels = (a->n + LANES - 1) / LANES, n = std::min(panels, blocks);
    const uint32_t threads = panel_threads(a->widest);
    const size_t bytes = ((size_t)a->width + 1) * ROW;
    if (panels == 0) return;
    if (a->weighted) run_panel<true><<<n, threads, bytes, s>>>(*a);
    else run_panel<false><<<n, threads, bytes, s>>>(*a);
}

/* ---- slice ---- */

static __device__ __forceinline__ void copy_16(void *to, const void *from)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 800
    *(float4 *)to = *(const float4 *)from;
#else
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
        "l"(from)
        : "memory");
#endif
}

static __device__ __forceinline__ void wait_for_copies(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/* Rows first .. last - 1 to their places: at most 'ring' of them, the last row being n. */
static __device__ __forceinline__ void copy_rows(float4 *pool, const float4 *from, uint32_t first,
                                                 uint32_t last, uint32_t ring)
{
    const uint32_t place = first % ring;
    for (uint32_t i = threadIdx.x; i < (last - first) * PARTS; i += blockDim.x)
        copy_16(pool + around(place + i / PARTS, ring) * PARTS + i % PARTS,
                from + (size_t)first * PARTS + i);
}

template <bool WEIGHTED>
__global__ static void __launch_bounds__(MOST_THREADS, 1)
    run_slices(const __grid_constant__ struct wisp_dslices a)
{
    extern __shared__ float4 pool[];
    const struct wisp_dlayer *__restrict__ d = a.layer;
    const uint32_t panel = blockIdx.x / a.blocks, lane = threadIdx.x % LANES;
    const uint32_t slice = threadIdx.x / LANES * a.blocks + blockIdx.x % a.blocks;
    const uint32_t n_in = d->n_in, n_out = d->n_out, ring = d->ring, phases = d->phases;
    const uint32_t slices = (n_out + LANES - 1) / LANES, stretch = d->stretch;
    const float4 *from = (const float4 *)(a.from + panel * a.from_panel);
    const uint32_t *ends = (const uint32_t *)d->meta, *slots = ends + (size_t)slices * phases;
    const struct ending e = { d->scale, d->lo, d->hi };
    uint32_t here = min(n_in, stretch + d->ahead); /* rows that are, or will be, here */
    copy_rows(pool, from, 0, here, ring);
    if (threadIdx.x < PARTS) pool[ring * PARTS + threadIdx.x] = make_float4(0, 0, 0, 0);

    const bool busy = slice < slices; /* all warps wait for all */
    uint32_t slot = 0, done = 0;
    float bias = d->bias;
    const bool there = slice * LANES + lane < n_out;
    struct feed f = {};
    if (busy) {
        ends += (size_t)slice * phases;
        done = slice ? __ldg(ends - 1) : 0;
        f.at = (const unsigned char *)d->ids + (size_t)done * (ID_BYTES + (WEIGHTED ? W_BYTES : 0));
        fetch<WEIGHTED>(&f);
        if (there) slot = __ldg(slots + slice * LANES + lane);
        if (d->biases && there) bias = __ldg(d->biases + slot);
    }
    float4 y[PARTS];
    clear(y);
    for (uint32_t p = 0; p < phases; p++) {
        wait_for_copies();
        __syncthreads();
        if (p + 1 < phases) {
            const uint32_t more = min(n_in, here + stretch);
            copy_rows(pool, from, here, more, ring);
            here = more;
        }
        const uint32_t end = busy ? __ldg(ends + p) : 0;
        add_chunks<WEIGHTED>(y, &f, end - done, (const unsigned char *)pool, lane % PARTS * 16);
        done = end;
    }
    if (!busy) return;
    end_sums(y, e, bias);
    if (there) put_row((unsigned char *)(a.to + panel * a.to_panel + (size_t)slot * LANES), y);
    if (!a.flags) return;
    const uint32_t left = a.n - panel * LANES;
    const uint32_t bits = bits_of(y, there) & (left < LANES ? (1u << left) - 1 : 0xffffffffu);
    if (lane == 0 && (*(volatile uint32_t *)(a.flags + 2 * panel) & bits) != bits)
        atomicOr(a.flags + 2 * panel, bits);
}

cudaError_t wisp_slice_plan(uint32_t ring)
{
    const int bytes = (int)((ring + 1) * ROW);
    const cudaFuncAttribute what = cudaFuncAttributeMaxDynamicSharedMemorySize;
    cudaError_t e = cudaFuncSetAttribute((const void *)run_slices<true>, what, bytes);
    if (e == cudaSuccess) e = cudaFuncSetAttribute((const void *)run_slices<false>, what, bytes);
    return e;
}

int wisp_deep_warps = 0;

/* Warps of a block.  A block reads all rows, 5 cycles each (L2), and adds 32 edges of a warp in 34
 * cycles, where there are 3 warps or more to keep it busy.  Blocks that are fewer than the card has
 * multiprocessors leave some idle; a few more than that take twice the time. */
static uint32_t best_warps(uint32_t panels, uint32_t slices, uint64_t rows, uint64_t edges,
                           uint32_t n_multi)
{
    uint64_t least = 0;
    uint32_t best = 1;
    for (uint32_t w = 1; w <= MOST_THREADS / LANES; w++) {
        const uint64_t blocks = (uint64_t)panels * ((slices + w - 1) / w);
        const uint64_t rounds = (blocks + n_multi - 1) / n_multi;
        const uint64_t cycles = rounds * (5 * rows + 34 * edges * std::max<uint32_t>(w, 3));
        if (w == 1 || cycles < least) least = cycles, best = w;
    }
    return best;
}

void wisp_slice_layer(const struct wisp_dslices *a, const struct wisp_dlayer *host, int n_multi,
                      cudaStream_t s)
{
    const uint32_t panels = (a->n + LANES - 1) / LANES;
    const uint32_t slices = (host->n_out + LANES - 1) / LANES;
    const size_t bytes = ((size_t)host->ring + 1) * ROW;
    uint32_t warps = best_warps(panels, slices, host->n_in, 4 * (uint64_t)host->chunks / slices,
                                (uint32_t)n_multi);
    if (wisp_deep_warps) warps = (uint32_t)wisp_deep_warps;
    struct wisp_dslices b = *a;
    b.blocks = (slices + warps - 1) / warps;
    const uint32_t blocks = panels * b.blocks, threads = warps * LANES;
    if (blocks == 0) return;
    if (host->weighted) run_slices<true><<<blocks, threads, bytes, s>>>(b);
    else run_slices<false><<<blocks, threads, bytes, s>>>(b);
}

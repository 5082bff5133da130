/* Deep networks, one input per block: its values stay in shared memory from the first layer to the
 * last.
 *
 *   shared   even [width] | odd [width]      floats; layer l reads buffer l % 2, writes the other
 *
 * A thread takes a unit: it loads each input once and adds it to up to 16 sums.  A block takes the
 * next input when its own is all zero, all at the clip, or through, so nothing has to be compacted.
 * The first layer may read its input from memory where that lies (direct): then only outputs have
 * to fit the chip.
 *
 * Bounds, a unit of 16 outputs, an id: 16 additions, 1 load, 2-3 instructions for its address, so
 * 84 % of the 29.6 tera-additions/s of an H200; a layer of 1024 neurons reads 4 KB of ids a block,
 * 1.9 TB/s from L2 at 15 tera-edges/s.  With 1 output per id the load bounds: 32 ids per cycle. */
#include "cuda/deep.cuh"

enum { LANES = 32 };

struct seen {          /* of the values a thread wrote */
    uint32_t any, all; /* their bits: or, and */
};

/* ---- a unit ---- */

/* C ids of 16 bits of this lane, two a word: 8, 4 or 2. */
template <int C>
static __device__ __forceinline__ void load_pairs(uint32_t (&v)[C / 2], const unsigned char *at,
                                                  uint32_t lane)
{
    if (C == 8) {
        uint4 q = __ldg((const uint4 *)at + lane);
        v[0] = q.x, v[C / 8] = q.y, v[C / 4] = q.z, v[C / 4 + C / 8] = q.w;
    } else if (C == 4) {
        uint2 q = __ldg((const uint2 *)at + lane);
        v[0] = q.x, v[C / 4] = q.y;
    } else {
        v[0] = __ldg((const uint32_t *)at + lane);
    }
}

template <int C>
static __device__ __forceinline__ void load_shared(float (&x)[C], const uint32_t (&v)[C / 2],
                                                   uint32_t base)
{
#pragma unroll
    for (int e = 0; e < C; e++) x[e] = wisp_dpeek(base, v[e / 2], e % 2 ? 4 << 8 : 4);
}

/* The same from memory, where ids may have 32 bits. */
template <int C, bool WIDE>
static __device__ __forceinline__ void load_direct(float (&x)[C], const unsigned char *at,
                                                   const float *from, uint32_t lane)
{
    uint32_t v[C / 2];
    if (!WIDE) load_pairs<C>(v, at, lane);
#pragma unroll
    for (int e = 0; e < C; e += 2) {
        if (WIDE) { /* pieces of 4 ids, or of 2 if there are no more */
            const uint32_t place = C >= 4 ? e / 4 * 4 * LANES + lane * 4 + e % 4 : lane * 2;
            uint2 q = __ldg((const uint2 *)((const uint32_t *)at + place));
            x[e] = __ldg(from + q.x), x[e + 1] = __ldg(from + q.y);
        } else {
            x[e] = __ldg(from + (v[e / 2] & 0xffff)), x[e + 1] = __ldg(from + (v[e / 2] >> 16));
        }
    }
}

/* The weights of one id: (outputs, lanes) in pieces of 4, or of all if there are fewer. */
template <int M>
static __device__ __forceinline__ void load_weights(float (&v)[M], const float *w, uint32_t lane)
{
    if (M >= 4) {
#pragma unroll
        for (int j = 0; j + 3 < M; j += 4) {
            float4 q = __ldg((const float4 *)w + j / 4 * LANES + lane);
            v[j] = q.x, v[j + 1] = q.y, v[j + 2] = q.z, v[j + 3] = q.w;
        }
    } else if (M == 2) {
        float2 q = __ldg((const float2 *)w + lane);
        v[0] = q.x, v[M - 1] = q.y;
    } else {
        v[0] = __ldg(w + lane);
    }
}

template <int M, int C, bool WEIGHTED>
static __device__ __forceinline__ void add(float (&sum)[M], const float (&x)[C], const float *w,
                                           uint32_t lane)
{
#pragma unroll
    for (int e = 0; e < C; e++) {
        if (WEIGHTED) {
            float v[M];
            load_weights<M>(v, w + e * M * LANES, lane);
#pragma unroll
            for (int j = 0; j < M; j++) sum[j] = fmaf(v[j], x[e], sum[j]);
        } else {
#pragma unroll
            for (int j = 0; j < M; j++) sum[j] += x[e];
        }
    }
}

struct source {        /* where a unit's inputs are */
    const float *from; /* in memory */
    uint32_t base;     /* in shared memory */
    uint32_t lane;
};

template <int M, int C, bool DIRECT, bool WEIGHTED, bool WIDE>
static __device__ __forceinline__ void step(float (&sum)[M], const struct source &from,
                                            const unsigned char **at, const float **w)
{
    float x[C];
    if (DIRECT) {
        load_direct<C, WIDE>(x, *at, from.from, from.lane);
    } else {
        uint32_t v[C / 2];
        load_pairs<C>(v, *at, from.lane);
        load_shared<C>(x, v, from.base);
    }
    add<M, C, WEIGHTED>(sum, x, *w, from.lane);
    *at += C * LANES * (WIDE ? 4 : 2);
    if (WEIGHTED) *w += C * M * LANES;
}

template <int M, bool DIRECT, bool WEIGHTED, bool WIDE>
static __device__ __forceinline__ void sum_ids(float (&sum)[M], const struct source &from,
                                               const unsigned char *at, uint32_t k, const float *w)
{
    for (uint32_t i = k / 8; i > 0; i--) step<M, 8, DIRECT, WEIGHTED, WIDE>(sum, from, &at, &w);
    if (k & 4) step<M, 4, DIRECT, WEIGHTED, WIDE>(sum, from, &at, &w);
    if (k & 2) step<M, 2, DIRECT, WEIGHTED, WIDE>(sum, from, &at, &w);
}

/* The same from shared memory, without weights: ids are loaded one step ahead. */
template <int M>
static __device__ __forceinline__ void sum_shared(float (&sum)[M], const struct source &from,
                                                  const unsigned char *at, uint32_t k)
{
    const float *none = NULL;
    const uint32_t n = k / 8;
    if (n > 0) {
        const uint4 *p = (const uint4 *)at + from.lane;
        uint4 q = __ldg(p);
#pragma unroll 2
        for (uint32_t i = 1; i <= n; i++) {
            const uint32_t v[4] = { q.x, q.y, q.z, q.w };
            float x[8];
            if (i < n) p += LANES;
            q = __ldg(p); /* the last one again rather than none: fewer instructions */
            load_shared<8>(x, v, from.base);
            add<M, 8, false>(sum, x, none, from.lane);
        }
        at += (size_t)n * 16 * LANES;
    }
    if (k & 4) step<M, 4, false, false, false>(sum, from, &at, &none);
    if (k & 2) step<M, 2, false, false, false>(sum, from, &at, &none);
}

/* Neighbouring lanes read neighbouring inputs: many loads at once, for this is where inputs come
 * from memory. */
template <int M, int C, bool WEIGHTED>
static __device__ __forceinline__ void step_runs(float (&sum)[M], const struct source &from,
                                                 const uint32_t *first, const float **w)
{
    const float *mine = from.from + from.lane;
    float x[C];
#pragma unroll
    for (int e = 0; e < C; e += C < 4 ? 1 : 4) {
        if (C < 4) {
            x[e] = __ldg(mine + __ldg(first + e));
        } else {
            uint4 q = __ldg((const uint4 *)(first + e));
            x[e] = __ldg(mine + q.x), x[(e + 1) % C] = __ldg(mine + q.y);
            x[(e + 2) % C] = __ldg(mine + q.z), x[(e + 3) % C] = __ldg(mine + q.w);
        }
    }
    add<M, C, WEIGHTED>(sum, x, *w, from.lane);
    if (WEIGHTED) *w += C * M * LANES;
}

template <int M, bool WEIGHTED>
static __device__ __forceinline__ void sum_runs(float (&sum)[M], const struct source &from,
                                                const unsigned char *at, uint32_t k, const float *w)
{
    const uint32_t *first = (const uint32_t *)at;
    for (; k >= 16; k -= 16, first += 16) step_runs<M, 16, WEIGHTED>(sum, from, first, &w);
    for (; k > 0; k--, first++) step_runs<M, 1, WEIGHTED>(sum, from, first, &w);
}

/* ---- a layer ---- */

/* y = min(hi, max(lo, scale * sum + bias)) of a unit, and what it shows.  The sums are long done
 * where a value is stored, so few instructions here matter: 16 outputs, 32 ids, 512 additions. */
template <int M, bool BIASED>
static __device__ __forceinline__ void finish(const float (&sum)[M], const struct wisp_dlayer *d,
                                              float *to, uint32_t slot, bool watch, struct seen *s)
{
    const float scale = d->scale, lo = d->lo, hi = d->hi, bias = d->bias;
    float y[M];
#pragma unroll
    for (int j = 0; j < M; j++) {
        float b = BIASED ? __ldg(d->biases + slot + j * LANES) : bias;
        y[j] = fminf(hi, fmaxf(lo, fmaf(scale, sum[j], b)));
        to[slot + j * LANES] = y[j];
    }
    if (!watch) return;
#pragma unroll
    for (int j = 0; j < M; j++) {
        s->any |= __float_as_uint(y[j]);
        s->all &= __float_as_uint(y[j]);
    }
}

template <int M, bool DIRECT, bool WEIGHTED>
static __device__ __forceinline__ void run_part(const struct wisp_dchip &a,
                                                const struct wisp_dlayer *__restrict__ d, int which,
                                                const struct source &from, float *to, bool watch,
                                                struct seen *s)
{
    const struct wisp_dpart *p = &d->part[which];
    const uint32_t n = p->n;
    if (n == 0) return;
    const uint32_t same = p->k, slot = p->slot + from.lane, kind = p->ids;
    const bool weighted = WEIGHTED && d->weighted;
    for (uint32_t u = threadIdx.x; u < n; u += blockDim.x) {
        uint32_t k = same, at = p->at + u / LANES * p->step, w_at = p->w_at + u / LANES * p->w_step;
        if (same == WISP_DEEP_RAGGED) {
            uint4 m = __ldg(d->meta + p->meta + u / LANES);
            at = m.x, k = m.y, w_at = m.z;
        }
        const unsigned char *ids = (const unsigned char *)(d->ids + at);
        const float *w = (const float *)(d->w + w_at);
        float sum[M];
#pragma unroll
        for (int j = 0; j < M; j++) sum[j] = a.zeros.v[j];
        if (DIRECT && kind == WISP_DEEP_RUNS) {
            if (weighted) sum_runs<M, true>(sum, from, ids, k, w);
            else sum_runs<M, false>(sum, from, ids, k, w);
        } else if (DIRECT && kind == WISP_DEEP_32) {
            if (weighted) sum_ids<M, DIRECT, true, true>(sum, from, ids, k, w);
            else sum_ids<M, DIRECT, false, true>(sum, from, ids, k, w);
        } else if (weighted) {
            sum_ids<M, DIRECT, true, false>(sum, from, ids, k, w);
        } else if (DIRECT) {
            sum_ids<M, DIRECT, false, false>(sum, from, ids, k, w);
        } else {
            sum_shared<M>(sum, from, ids, k);
        }
        const uint32_t first = slot + u / LANES * (M * LANES);
        if (d->biases) finish<M, true>(sum, d, to, first, watch, s);
        else finish<M, false>(sum, d, to, first, watch, s);
    }
}

/* Layer l.  watch: what its values are will be asked for. */
template <int MOST, bool DIRECT, bool WEIGHTED>
static __device__ __forceinline__ void run_layer(const struct wisp_dchip &a, uint32_t l,
                                                 const struct source &from, float *pool, bool watch,
                                                 struct seen *s)
{
    const struct wisp_dlayer *d = a.layers + l;
    float *to = pool + (l % 2 ? 0 : a.width);
    s->any = 0, s->all = 0xffffffffu;
    if (MOST >= 16) {
        run_part<16, DIRECT, WEIGHTED>(a, d, 0, from, to, watch, s);
        run_part<8, DIRECT, WEIGHTED>(a, d, 1, from, to, watch, s);
        run_part<4, DIRECT, WEIGHTED>(a, d, 2, from, to, watch, s);
    }
    run_part<2, DIRECT, WEIGHTED>(a, d, 3, from, to, watch, s);
    run_part<1, DIRECT, WEIGHTED>(a, d, 4, from, to, watch, s);
    if (threadIdx.x == 0) to[d->n_slots] = 0; /* what missing ids of the next layer point at */
}

/* Whether the vector is all zero, or all at the clip.  Most often some thread has seen values of
 * both kinds, and one barrier tells.  Ends with one in any case. */
static __device__ __forceinline__ int judge(const struct seen *s, bool zero, bool full, float clip)
{
    const uint32_t top = __float_as_uint(clip), none = 0xffffffffu;
    const bool some = s->any << 1, below = s->all != none && (s->any != top || s->all != top);
    if (__syncthreads_or(some && below)) return WISP_DEEP_LIVE;
    if (!__syncthreads_or(some)) return zero ? WISP_DEEP_ZERO : WISP_DEEP_LIVE;
    return full && !__syncthreads_or(below) ? WISP_DEEP_FULL : WISP_DEEP_LIVE;
}

/* ---- an input ---- */

static __device__ __forceinline__ void copy_row(float *to, const float *from, uint32_t n)
{
    for (uint32_t i = threadIdx.x; i < (n + 3) / 4; i += blockDim.x)
        ((float4 *)to)[i] = __ldg((const float4 *)from + i);
}

static __device__ __forceinline__ void write_values(const struct wisp_dchip &a, uint32_t i, int end,
                                                    const float *now)
{
    const uint32_t n = a.layers[a.n_layers - 1].n_out;
    float *row = a.values + (size_t)i * n;
    for (uint32_t o = threadIdx.x; o < n; o += blockDim.x)
        row[o] = end == WISP_DEEP_ZERO   ? 0
                 : end == WISP_DEEP_FULL ? a.clip
                                         : now[__ldg(a.slot + o)];
}

/* Whether what layer l wrote may end the input. */
static __device__ __forceinline__ bool watched(const struct wisp_dchip &a, uint32_t l)
{
    return l + 1 >= a.zero_from || l + 1 >= a.full_from || l + 1 == a.n_layers;
}

/* Returns how many layers it ran. */
template <int MOST, bool DIRECT, bool WEIGHTED>
static __device__ __forceinline__ uint32_t run_input(const struct wisp_dchip &a, uint32_t i,
                                                     float *pool, uint32_t base)
{
    const float *row = a.x + (size_t)i * a.x_stride;
    const struct source from = { row, base, threadIdx.x % LANES };
    struct seen s = { 0, 0 };
    uint32_t l = a.first;
    int end = WISP_DEEP_LIVE;
    if (!DIRECT) {
        copy_row(pool + l % 2 * a.width, row, (l ? a.layers[l - 1].n_slots : a.layers[0].n_in) + 1);
        __syncthreads();
    }
    while (end == WISP_DEEP_LIVE && l < a.last) {
        const bool watch = watched(a, l);
        if (DIRECT && l == 0) run_layer<MOST, DIRECT, WEIGHTED>(a, l, from, pool, watch, &s);
        else run_layer<MOST, false, WEIGHTED>(a, l, from, pool, watch, &s);
        const bool linear = a.layers[l++].linear;
        if (l == a.n_layers)
            end = __syncthreads_or(s.any << 1 != 0) ? WISP_DEEP_SOME : WISP_DEEP_ZERO;
        else if (watch && !linear) end = judge(&s, l >= a.zero_from, l >= a.full_from, a.clip);
        else __syncthreads();
    }
    const float *now = pool + l % 2 * a.width;
    if (threadIdx.x == 0) a.ended[i] = (uint8_t)end;
    if (end == WISP_DEEP_LIVE) { /* the next range of layers goes on from here */
        float *to = a.state + (size_t)i * a.state_stride;
        uint32_t n = a.layers[l - 1].n_slots + 1;
        for (uint32_t o = threadIdx.x; o < n; o += blockDim.x) to[o] = now[o];
    } else if (a.values) {
        write_values(a, i, end, now);
    }
    return l - a.first;
}

template <int MOST, bool DIRECT, bool WEIGHTED>
__global__ static void __launch_bounds__(MOST > 2 ? 1024 : 512, MOST > 2 ? 1 : 2)
    run_chip(const __grid_constant__ struct wisp_dchip a)
{
    extern __shared__ float4 pool[];
    __shared__ uint32_t turn;
    unsigned long long work = 0;
    /* Through a lane, for what the compiler knows how to make it makes again and again. */
    const uint32_t base = __shfl_sync(0xffffffffu, (uint32_t)__cvta_generic_to_shared(pool), 0);
    for (uint32_t i = blockIdx.x; i < a.n;) {
        uint32_t after = 0;
        if (threadIdx.x == 0) after = gridDim.x + atomicAdd(a.next, 1); /* asked for early */
        if (a.first == 0 || a.ended[i] == WISP_DEEP_LIVE)
            work += run_input<MOST, DIRECT, WEIGHTED>(a, i, (float *)pool, base);
        else __syncthreads(); /* all have read 'turn' */
        if (threadIdx.x == 0) turn = after;
        __syncthreads();
        i = turn;
    }
    if (threadIdx.x == 0 && work) atomicAdd(a.work, work);
}

/* ---- from the host ---- */

typedef void (*chip_kernel)(struct wisp_dchip);

static chip_kernel kernel_of(const struct wisp_dchip_plan *p, bool direct)
{
    static const chip_kernel kernels[2][2][2] = {
        { { run_chip<2, false, false>, run_chip<2, false, true> },
          { run_chip<2, true, false>, run_chip<2, true, true> } },
        { { run_chip<16, false, false>, run_chip<16, false, true> },
          { run_chip<16, true, false>, run_chip<16, true, true> } },
    };
    return kernels[p->most > 2][direct][p->weighted];
}

/* The most units of a layer. */
static uint32_t most_units(const struct wisp_dimage *image)
{
    uint32_t most = 1;
    for (size_t l = 0; l < image->n_layers; l++) {
        uint32_t n = 0;
        for (int p = 0; p < WISP_DEEP_PARTS; p++) n += image->layers[l].part[p].n;
        most = n > most ? n : most;
    }
    return most;
}

/* As many blocks as shared memory allows, of as few threads as keep a multiprocessor busy: barriers
 * of small blocks are cheap, and the more inputs are under way the less waits for memory. */
static uint32_t threads_of(uint32_t units, uint32_t blocks, int most)
{
    const uint32_t limit = most > 2 ? 1024 : 512;
    uint32_t want = (1024 / blocks + 31) / 32 * 32;
    if (most <= 2 && units <= 128) want = 32;
    uint32_t rounds = units / want;
    if (rounds < 1) rounds = 1;
    uint32_t threads = ((units + rounds - 1) / rounds + 31) / 32 * 32;
    return threads < limit ? threads : limit;
}

/* What shared memory does not need is cache. */
static cudaError_t allow(const void *f, const struct wisp_dchip_plan *p, double percent)
{
    cudaError_t e =
        cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)p->shared);
    if (e != cudaSuccess) return e;
    return cudaFuncSetAttribute(f, cudaFuncAttributePreferredSharedMemoryCarveout,
                                percent < 100 ? (int)percent + 1 : 100);
}

cudaError_t wisp_chip_plan(struct wisp_dchip_plan *p, const struct wisp_dimage *image,
                           uint32_t width)
{
    int device = 0, n_multi = 0, shared = 0, blocks = 0;
    p->most = image->most;
    p->thin = p->whole && wisp_thin_fits(image, p->direct);
    if (p->thin) return wisp_thin_plan(p, width, most_units(image));
    p->weighted = false;
    for (size_t l = 0; l < image->n_layers; l++) p->weighted |= image->layers[l].weighted != 0;
    const void *f = (const void *)kernel_of(p, p->direct),
               *later = (const void *)kernel_of(p, false);
    cudaError_t e = cudaGetDevice(&device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&n_multi, cudaDevAttrMultiProcessorCount, device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
    if (e != cudaSuccess) return e;
    p->shared = (size_t)width * 2 * sizeof(float);
    const uint32_t each = (uint32_t)p->shared + 1024 + 64; /* the card takes 1 KB per block */
    uint32_t fit = (uint32_t)shared / each;
    fit = fit < 1 ? 1 : fit > 32 ? 32 : fit;
    p->threads = threads_of(most_units(image), fit, p->most);
    e = allow(f, p, 100);
    if (e == cudaSuccess)
        e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, (int)p->threads, p->shared);
    const double percent = 100.0 * blocks * each / shared;
    if (e == cudaSuccess) e = allow(f, p, percent);
    if (e == cudaSuccess) e = allow(later, p, percent);
    if (e == cudaSuccess && blocks < 1) e = cudaErrorLaunchOutOfResources;
    p->blocks = (uint32_t)(blocks * n_multi);
    return e;
}

void wisp_chip_run(const struct wisp_dchip_plan *p, const struct wisp_dchip *a, cudaStream_t s)
{
    if (a->n == 0) return;
    cudaMemsetAsync(a->next, 0, sizeof *a->next, s);
    if (p->thin) {
        wisp_thin_run(p, a, s);
        return;
    }
    const uint32_t blocks = p->blocks < a->n ? p->blocks : a->n;
    kernel_of(p, p->direct && a->first == 0)<<<blocks, p->threads, p->shared, s>>>(*a);
}

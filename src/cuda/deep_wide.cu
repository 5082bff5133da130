/* Deep networks layer by layer through memory, for layers whose values do not fit a chip.
 *
 *   values   [panel of 32 inputs][slot][lane]    floats: a slot of a panel is one line of 128 bytes
 *
 * A warp takes a unit of a panel, lane = input: it loads one line per id and adds it to up to 16
 * sums.  Units of a panel run together, so that the panel stays in L2, and neighbours share inputs
 * (deep_pack.cu), so that half of the lines are found in L1.
 *
 * Where many are shared, a warp walks a *segment* of a chain of units instead, with the sums of
 * two:
 *
 *   own ids of unit u --> sums of u;  ids that u shares with u + 1 --> sums of both;  u is written
 *
 * so that a line is loaded once for 32 outputs.  A block's warps take one segment of neighbouring
 * panels: ids are found in L1, and so are lines of which two panels need a part each, because
 * columns were dropped.
 *
 * Inputs that are all zero, or all at the clip, vanish on the way: after a layer one small kernel
 * lists the columns that go on, and the next layer reads just those and writes them side by side.
 *
 * Bounds, a layer of 65536 neurons, 60,000 inputs: 15.7 GB read, 15.7 GB written, 7.7 ms at 4.1
 * TB/s (16 tera-edges/s); 126e9 edges, 4.3 ms of additions. */
#include "cuda/deep.cuh"

enum { LANES = 32, THREADS = 256, WARPS = THREADS / LANES, UNITS = 4 * WARPS }; /* of a block */
enum { MOST = WISP_DEEP_MOST };

/* ---- a unit ---- */

template <int M, bool WEIGHTED>
static __device__ __forceinline__ void add_8(float (&sum)[M], const float (&x)[8], const float4 *w)
{
    constexpr int G = M < 4 ? 4 / M : 1; /* ids whose weights are loaded together */
#pragma unroll
    for (int e = 0; e < 8; e += G) {
        float v[G * M];
        if (WEIGHTED)
#pragma unroll
            for (int q = 0; q < G * M / 4; q++) {
                float4 t = __ldg(w + e * M / 4 + q);
                v[4 * q] = t.x, v[4 * q + 1] = t.y, v[4 * q + 2] = t.z, v[4 * q + 3] = t.w;
            }
#pragma unroll
        for (int i = 0; i < G * M; i++) {
            if (WEIGHTED) sum[i % M] = fmaf(v[i], x[e + i / M], sum[i % M]);
            else sum[i % M] += x[e + i / M];
        }
    }
}

static __device__ __forceinline__ float load_line(const float *from, uint32_t id)
{
    return __ldg((const float *)((const char *)from + (uint64_t)id * (LANES * sizeof(float))));
}

/* 8 lines of inputs; ids are two a word. */
static __device__ __forceinline__ void load_lines(float *x, uint4 q, const float *from)
{
    const uint32_t v[4] = { q.x, q.y, q.z, q.w };
#pragma unroll
    for (int e = 0; e < 8; e += 2) {
        x[e] = load_line(from, v[e / 2] & 0xffff);
        x[e + 1] = load_line(from, v[e / 2] >> 16);
    }
}

/* What is left of a unit's ids; all of them, where they have 32 bits.  Weights of those that are
 * missing are there. */
template <int M, bool WEIGHTED>
static __device__ __forceinline__ void sum_rest(float (&sum)[M], const uint4 *ids, uint32_t k,
                                                bool wide, const float *from, const float4 *w)
{
    float x[8];
    for (; k > 0; k -= k < 8 ? k : 8) {
        const uint32_t *id = (const uint32_t *)ids;
#pragma unroll
        for (int e = 0; e < 8; e++) {
            uint32_t v = __ldg(id + (wide ? e : e / 2));
            if (!wide) v = e % 2 ? v >> 16 : v & 0xffff;
            x[e] = (uint32_t)e < k ? load_line(from, v) : 0;
        }
        add_8<M, WEIGHTED>(sum, x, w);
        ids += wide ? 2 : 1;
        if (WEIGHTED) w += 2 * M;
    }
}

/* 16 lines are under way at a time, and the ids of the next 16: what counts is bytes in flight. */
template <int M, bool WEIGHTED>
static __device__ __forceinline__ void sum_unit(float (&sum)[M], const uint4 *ids, uint32_t k,
                                                bool wide, const float *from, const float4 *w)
{
    const uint32_t n = wide ? 0 : k / 16;
    if (n > 0) {
        uint4 q = __ldg(ids), r = __ldg(ids + 1);
        for (uint32_t i = 1; i <= n; i++) {
            float x[8], y[8];
            load_lines(x, q, from);
            load_lines(y, r, from);
            if (i < n) ids += 2;
            q = __ldg(ids), r = __ldg(ids + 1); /* the last ones again rather than none */
            add_8<M, WEIGHTED>(sum, x, w);
            if (WEIGHTED) w += 2 * M;
            add_8<M, WEIGHTED>(sum, y, w);
            if (WEIGHTED) w += 2 * M;
        }
        ids += 2, k -= 16 * n;
    }
    sum_rest<M, WEIGHTED>(sum, ids, k, wide, from, w);
}

struct seen { /* bits of all values: or, and */
    uint32_t any, all;
};

static __device__ __forceinline__ void see(struct seen *s, float y)
{
    s->any |= __float_as_uint(y);
    s->all &= __float_as_uint(y);
}

template <int M, bool WEIGHTED>
static __device__ __forceinline__ void run_units(const struct wisp_dwide &a,
                                                 const struct wisp_dlayer *__restrict__ d,
                                                 int which, uint32_t first, const float *from,
                                                 float *to, struct seen *s)
{
    const struct wisp_dpart *p = &d->part[which];
    const uint32_t warp = threadIdx.x / LANES, n = p->n, same = p->k, begin = p->slot;
    const uint32_t at_0 = p->at, step = p->step, w_at_0 = p->w_at, w_step = p->w_step;
    const bool wide = p->ids == WISP_DEEP_32;
    const float scale = d->scale, lo = d->lo, hi = d->hi, bias = d->bias;
    const float *biases = d->biases;
    const uint4 *ids = d->ids, *meta = d->meta + p->meta;
    const float4 *w = d->w;
    for (uint32_t u = first + warp; u < first + UNITS && u < n; u += WARPS) {
        uint32_t k = same, at = at_0 + u * step, w_at = w_at_0 + u * w_step;
        if (same == WISP_DEEP_RAGGED) {
            uint4 m = __ldg(meta + u);
            at = m.x, k = m.y, w_at = m.z;
        }
        float sum[M];
#pragma unroll
        for (int j = 0; j < M; j++) sum[j] = a.zeros.v[j];
        sum_unit<M, WEIGHTED>(sum, ids + at, k, wide, from, w + w_at);
        const uint32_t slot = begin + u * M;
        float *line = to + (size_t)slot * LANES;
#pragma unroll
        for (int j = 0; j < M; j++) {
            float b = biases ? __ldg(biases + slot + j) : bias;
            float y = fminf(hi, fmaxf(lo, fmaf(scale, sum[j], b)));
            see(s, y);
            __stcs(line + j * LANES, y);
        }
    }
}

/* ---- a layer ---- */

static __device__ __forceinline__ uint32_t items_of(const struct wisp_dlayer *d, int which)
{
    return d->part[which].chain ? 0 : (d->part[which].n + UNITS - 1) / UNITS;
}

static __device__ void note(uint32_t *word, uint32_t bits)
{
    if (threadIdx.x % LANES == 0 && (*(volatile uint32_t *)word & bits) != bits)
        atomicOr(word, bits);
}

/* Which columns have a value that is not 0 (or -0), and which have one that is not the clip. */
static __device__ __forceinline__ void note_seen(const struct wisp_dwide &a, uint32_t panel,
                                                 uint32_t n, struct seen s)
{
    const bool none = s.all == 0xffffffffu; /* this warp had no unit */
    const bool there = panel * LANES + threadIdx.x % LANES < n && !none;
    const uint32_t clip = __float_as_uint(a.clip);
    const uint32_t some = __ballot_sync(0xffffffffu, there && s.any << 1 != 0);
    const uint32_t below = __ballot_sync(0xffffffffu, there && (s.any != clip || s.all != clip));
    if (some) note(a.flags + 2 * panel, some);
    if (below) note(a.flags + 2 * panel + 1, below);
}

/* Where this lane's column is read. */
static __device__ __forceinline__ const float *column_of(const struct wisp_dwide &a, uint32_t panel,
                                                         uint32_t n)
{
    const uint32_t column = panel * LANES + threadIdx.x % LANES;
    const uint32_t there = column < n ? column : panel * LANES; /* the rest repeat the first */
    const uint32_t col = a.source ? __ldg(a.source + there) : there;
    const float *from = a.from + col / LANES * a.from_panel + col % LANES;
    asm volatile("" : "+l"(from)); /* else it is put together again for every line */
    return from;
}

/* An item is up to 32 units of a panel. */
template <bool WEIGHTED>
static __device__ __forceinline__ void run_item(const struct wisp_dwide &a, uint32_t panel,
                                                uint32_t item, uint32_t n)
{
    const struct wisp_dlayer *d = a.layer;
    const float *from = column_of(a, panel, n);
    float *to = a.to + panel * a.to_panel + threadIdx.x % LANES;
    struct seen s = { 0, 0xffffffffu };
    int which = 0;
    while (item >= items_of(d, which)) item -= items_of(d, which), which++;
    const uint32_t first = item * UNITS;
    switch (which) {
    case 0:
        run_units<16, WEIGHTED>(a, d, 0, first, from, to, &s);
        break;
    case 1:
        run_units<8, WEIGHTED>(a, d, 1, first, from, to, &s);
        break;
    case 2:
        run_units<4, WEIGHTED>(a, d, 2, first, from, to, &s);
        break;
    case 3:
        run_units<2, WEIGHTED>(a, d, 3, first, from, to, &s);
        break;
    default:
        run_units<1, WEIGHTED>(a, d, 4, first, from, to, &s);
    }
    if (a.flags) note_seen(a, panel, n, s);
}

template <bool WEIGHTED>
__global__ static void __launch_bounds__(THREADS, 4)
    run_wide(const __grid_constant__ struct wisp_dwide a)
{
    const uint32_t n = *a.n, panels = (n + LANES - 1) / LANES;
    uint32_t each = 0;
    for (int p = 0; p < WISP_DEEP_PARTS; p++) each += items_of(a.layer, p);
    if (each == 0) return;
    const uint64_t items = (uint64_t)panels * each;
    for (uint64_t i = blockIdx.x; i < items; i += gridDim.x)
        run_item<WEIGHTED>(a, (uint32_t)(i / each), (uint32_t)(i % each), n);
}

/* ---- segments of chains ---- */

struct walk { /* through the ids of a segment: the next 16 are here already */
    const uint4 *ids;
    uint4 q, r;
};

/* x goes to the sums of one unit, or of two. */
template <bool BOTH, int N>
static __device__ __forceinline__ void add_lines(float (&one)[MOST], float (&two)[MOST],
                                                 const float (&x)[N])
{
#pragma unroll
    for (int e = 0; e < N; e++)
#pragma unroll
        for (int j = 0; j < MOST; j++) {
            one[j] += x[e];
            if (BOTH) two[j] += x[e];
        }
}

/* n lines of ids; n is a multiple of 8 for both. */
template <bool BOTH>
static __device__ __forceinline__ void walk_ids(float (&one)[MOST], float (&two)[MOST],
                                                struct walk *w, uint32_t n, const float *from)
{
    for (; n >= 16; n -= 16) {
        float x[16];
        load_lines(x, w->q, from);
        load_lines(x + 8, w->r, from);
        w->ids += 2;
        w->q = __ldg(w->ids), w->r = __ldg(w->ids + 1);
        add_lines<BOTH>(one, two, x);
    }
    while (n > 0) {
        const uint32_t v[4] = { w->q.x, w->q.y, w->q.z, w->q.w };
        float x[8];
#pragma unroll
        for (uint32_t e = 0; e < 8; e++) {
            const uint32_t id = e % 2 ? v[e / 2] >> 16 : v[e / 2] & 0xffff;
            x[e] = BOTH || e < n ? load_line(from, id) : 0;
        }
        w->ids++;
        w->q = w->r, w->r = __ldg(w->ids + 1);
        add_lines<BOTH>(one, two, x);
        n -= n < 8 ? n : 8;
    }
}

struct ending { /* of a layer: what happens to its sums */
    float scale, bias, lo, hi;
};

template <bool FLAGS, bool BIASES>
static __device__ __forceinline__ void end_unit(const float (&sum)[MOST], const struct ending &e,
                                                const float *biases, float *line, struct seen *s)
{
#pragma unroll
    for (int j = 0; j < MOST; j++) {
        const float b = BIASES ? __ldg(biases + j) : e.bias;
        const float y = fminf(e.hi, fmaxf(e.lo, fmaf(e.scale, sum[j], b)));
        if (FLAGS) see(s, y);
        __stcs(line + j * LANES, y);
    }
}

template <bool FLAGS>
static __device__ __forceinline__ void run_segment(const struct wisp_dwide &a, uint32_t panel,
                                                   uint32_t segment, uint32_t n)
{
    const struct wisp_dlayer *__restrict__ d = a.layer;
    const struct wisp_dpart *p = &d->part[0];
    const struct ending end = { d->scale, d->bias, d->lo, d->hi };
    const float *from = column_of(a, panel, n);
    const uint32_t first = segment * p->chain, slot = p->slot + first * MOST;
    const float *biases = d->biases ? d->biases + slot : NULL;
    uint32_t left = p->n - first < p->chain ? p->n - first : p->chain;
    float *line = a.to + panel * a.to_panel + (size_t)slot * LANES + threadIdx.x % LANES;
    asm volatile("" : "+l"(line));
    const uint4 *meta = d->meta + p->meta + first;
    uint4 m = __ldg(meta);
    struct walk w = { d->ids + m.x, __ldg(d->ids + m.x), __ldg(d->ids + m.x + 1) };
    struct seen s = { 0, 0xffffffffu };
    float one[MOST], two[MOST];
#pragma unroll
    for (int j = 0; j < MOST; j++) one[j] = two[j] = a.zeros.v[j];
    for (; left > 0; left--) {
        const uint32_t own = m.y, shared = m.z;
        meta += left > 1; /* the last one again rather than none */
        m = __ldg(meta);
        walk_ids<false>(one, two, &w, own, from);
        walk_ids<true>(one, two, &w, shared, from);
        if (biases) end_unit<FLAGS, true>(one, end, biases, line, &s);
        else end_unit<FLAGS, false>(one, end, biases, line, &s);
#pragma unroll
        for (int j = 0; j < MOST; j++) one[j] = two[j], two[j] = a.zeros.v[j];
        line += MOST * LANES, biases += biases ? MOST : 0;
    }
    if (FLAGS) note_seen(a, panel, n, s);
}

template <bool FLAGS>
__global__ static void __launch_bounds__(THREADS, 3)
    run_chains(const __grid_constant__ struct wisp_dwide a)
{
    const uint32_t n = *a.n, panels = (n + LANES - 1) / LANES, warp = threadIdx.x / LANES;
    const struct wisp_dpart *p = &a.layer->part[0];
    const uint32_t segments = (p->n + p->chain - 1) / p->chain;
    const uint32_t across = panels >= 4 * WARPS ? WARPS : 1, along = WARPS / across;
    const uint32_t each = (segments + along - 1) / along;
    const uint64_t items = (uint64_t)((panels + across - 1) / across) * each;
    for (uint64_t i = blockIdx.x; i < items; i += gridDim.x) {
        const uint32_t panel = (uint32_t)(i / each) * across + warp % across;
        const uint32_t segment = (uint32_t)(i % each) * along + warp / across;
        if (panel < panels && segment < segments) run_segment<FLAGS>(a, panel, segment, n);
        if (a.source) __syncthreads(); /* panels that read parts of the same lines stay together */
    }
}

void wisp_wide_layer(const struct wisp_dwide *a, int n_multi, cudaStream_t s)
{
    const unsigned blocks = 4 * (unsigned)n_multi, fewer = 3 * (unsigned)n_multi;
    if (a->chained && a->flags) run_chains<true><<<fewer, THREADS, 0, s>>>(*a);
    else if (a->chained) run_chains<false><<<fewer, THREADS, 0, s>>>(*a);
    if (!a->rest) return;
    if (a->weighted) run_wide<true><<<blocks, THREADS, 0, s>>>(*a);
    else run_wide<false><<<blocks, THREADS, 0, s>>>(*a);
}

/* ---- which columns go on ---- */

/* Sum of v over the threads before this one, and over all. */
static __device__ uint32_t sum_before(uint32_t v, uint32_t *all)
{
    __shared__ uint32_t sums[LANES];
    const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    uint32_t upto = v;
    for (int d = 1; d < LANES; d *= 2) {
        uint32_t left = __shfl_up_sync(0xffffffffu, upto, d);
        if (lane >= (uint32_t)d) upto += left;
    }
    __syncthreads(); /* the last call's sums have been read */
    if (lane == LANES - 1) sums[warp] = upto;
    __syncthreads();
    uint32_t before = 0, total = 0;
    for (uint32_t w = 0; w < blockDim.x / LANES; w++) {
        before += w < warp ? sums[w] : 0;
        total += sums[w];
    }
    *all = total;
    return before + upto - v;
}

/* A thread finds where the columns of its panel go; then all of them take columns in turn. */
__global__ static void __launch_bounds__(1024)
    list_live(const __grid_constant__ struct wisp_dlist a)
{
    __shared__ uint32_t to[1024], on[1024], dark[1024]; /* by panel: first place; live; zero */
    const uint32_t n = *a.n, panels = (n + LANES - 1) / LANES;
    uint32_t listed = 0;
    for (uint32_t p0 = 0; p0 < panels; p0 += blockDim.x) {
        const uint32_t p = p0 + threadIdx.x, begin = p0 * LANES;
        uint32_t there = 0, some = 0, below = 0, all;
        if (p < panels) {
            there = n - p * LANES < LANES ? (1u << (n - p * LANES)) - 1 : 0xffffffffu;
            some = a.flags[2 * p], below = a.flags[2 * p + 1];
            a.flags[2 * p] = a.flags[2 * p + 1] = 0;
        }
        const uint32_t zero = a.last || a.drop_zero ? there & ~some : 0;
        const uint32_t full = !a.last && a.drop_full ? there & some & ~below : 0;
        const uint32_t live = a.last ? there : there & ~(zero | full);
        const uint32_t at = listed + sum_before(__popc(live), &all); /* waits for the last turn */
        to[threadIdx.x] = at, on[threadIdx.x] = live, dark[threadIdx.x] = zero;
        __syncthreads();
        const uint32_t columns = n - begin < blockDim.x * LANES ? n - begin : blockDim.x * LANES;
#pragma unroll 8
        for (uint32_t i = threadIdx.x; i < columns; i += blockDim.x) {
            const uint32_t bit = i % LANES, column = begin + i, bits = on[i / LANES];
            const uint32_t input = a.origin ? __ldg(a.origin + column) : column;
            const bool goes_on = bits >> bit & 1;
            if (dark[i / LANES] >> bit & 1) a.ended[input] = WISP_DEEP_ZERO;
            else if (a.last) a.ended[input] = WISP_DEEP_SOME;
            else if (!goes_on) a.ended[input] = WISP_DEEP_FULL;
            if (goes_on) {
                const uint32_t place = to[i / LANES] + __popc(bits & ((1u << bit) - 1));
                if (!a.last) a.source[place] = column;
                if (a.origin_next) a.origin_next[place] = input;
            }
        }
        listed += all;
    }
    if (threadIdx.x == 0) {
        *a.n_next = listed;
        *a.work += n;
    }
}

void wisp_wide_list(const struct wisp_dlist *a, cudaStream_t s)
{
    list_live<<<1, 1024, 0, s>>>(*a);
}

/* ---- values at the end ---- */

__global__ static void fill_values(float *values, uint32_t n_out, const uint8_t *ended, uint32_t n,
                                   float clip)
{
    const size_t all = (size_t)n * n_out, step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < all; i += step)
        values[i] = ended[i / n_out] == WISP_DEEP_FULL ? clip : 0;
}

__global__ static void gather_values(float *values, uint32_t n_out, const float *from,
                                     size_t from_panel, const uint32_t *slot,
                                     const uint32_t *columns, const uint32_t *origin)
{
    const size_t all = (size_t)*columns * n_out, step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < all; i += step) {
        const uint32_t column = (uint32_t)(i / n_out), o = (uint32_t)(i % n_out);
        const uint32_t input = origin ? origin[column] : column;
        values[(size_t)input * n_out + o] =
            from[column / LANES * from_panel + (size_t)slot[o] * LANES + column % LANES];
    }
}

void wisp_wide_values(float *values, uint32_t n_out, const float *from, size_t from_panel,
                      const uint32_t *slot, const uint32_t *columns, const uint32_t *origin,
                      const uint8_t *ended, uint32_t n, float clip, cudaStream_t s)
{
    fill_values<<<1024, 256, 0, s>>>(values, n_out, ended, n, clip);
    gather_values<<<1024, 256, 0, s>>>(values, n_out, from, from_panel, slot, columns, origin);
}

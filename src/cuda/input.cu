/* The first layer with ReLU and dropout: layer/input.c, relu.c and dropout.c in one.
 *
 *   forward    h[i] = dropout(relu(bias + sum over the features f of sample i of x_if W[f]))
 *   backward   back[i] = gradient of that sum
 *              W[f] moves by the sum over the samples i with f of x_if back[i], the bias by the
 *              sum over all samples
 *
 * W is (n_features, width), so a non-zero is a row of 4 * width bytes, read by a warp, 16 bytes a
 * lane.  Forward has a block for each sample and 128 columns, whose warps take the sample's
 * features in turn and add up what they found in the order of warps.  Backward has a warp for each
 * touched feature; one that many samples have gets all warps of a block, each a part of the list.
 *
 * A row's gradient lies in shared memory until the row moves; of rows that are too wide for it in
 * device memory, where few warps go round over all features.
 *
 * 256 samples with 75 features, 10,000 of them distinct, width 128: forward reads 9.8 MB (half of
 * it from the cache) for 5 million flops.  Backward reads the same 9.8 MB of back from the cache,
 * and reads and writes 5 MB of W (and as much of each moment): 3 us with AdaGrad, 8 with Adam at 4
 * TB/s. */
#include "cuda/kind.cuh"
#include "cuda/update.cuh"

enum {
    COLS = 128,         /* of a warp at a time */
    FORWARD_WARPS = 16, /* of a sample, at most */
    FORWARD_AHEAD = 6,  /* rows that a warp loads before it uses the first */
    BACK_WARPS = 8,
    BACK_AHEAD = 4,     /* the same of back, for short lists, which have many warps, */
    LONG_AHEAD = 8,     /* and for long ones */
    SHORT = 32,         /* a list up to here is summed by one warp */
    LONG_BLOCKS = 264,  /* the first blocks of backward, which have all longer lists */
    FAR_BLOCKS = 264,   /* the others, where rows are too wide for shared memory, */
    FAR_WARPS = 2,      /* and warps of all these */
    STATIC_BYTES = 2048 /* of shared memory, that backward declares */
};

static __device__ void add(float4 *sum, float4 x)
{
    sum->x += x.x, sum->y += x.y, sum->z += x.z, sum->w += x.w;
}

static __device__ void add_times(float4 *sum, float v, float4 x)
{
    sum->x += v * x.x, sum->y += v * x.y, sum->z += v * x.z, sum->w += v * x.w;
}

static __device__ void store(float *at, float4 x)
{
    __stwb((float4 *)at, x); /* 16 bytes at once: a plain store became four */
}

/* ---- forward ---- */

/* wisp_dweights with the kind of weights known beforehand: the loads of several rows are under way
 * before the first is used. */
template <bool half>
static __device__ float4 weights_of(const struct wisp_dparam &p, size_t row, size_t c)
{
    if (!half) return *(const float4 *)(p.w + row * p.cols + c);
    uint2 h = *(const uint2 *)(p.b16 + row * p.cols + c);
    return make_float4(__uint_as_float(h.x << 16), __uint_as_float(h.x & 0xffff0000u),
                       __uint_as_float(h.y << 16), __uint_as_float(h.y & 0xffff0000u));
}

/* The sum over this warp's features of sample i, columns c .. c + 3: of 'warps' features in a row
 * each warp takes one, so that a short row keeps all of them busy. */
template <bool half>
static __device__ float4 bag(const struct wisp_din &in, uint32_t i, size_t c, uint32_t warp,
                             uint32_t warps)
{
    const uint32_t lane = threadIdx.x % 32, from = in.now->xp[i], n = in.now->xn[i];
    const int32_t *xi = in.now->xi + from;
    const float *xv = in.now->xv + from;
    float4 sum = make_float4(0, 0, 0, 0);
    for (uint32_t base = 0; base < n; base += 32 * warps) { /* a feature for each lane, then used */
        uint32_t e = base + lane * warps + warp, left = n - base;
        int32_t f = e < n ? xi[e] : 0;
        float x = e < n ? xv[e] : 0;
        uint32_t m = left > warp ? (left - warp + warps - 1) / warps : 0;
        if (m > 32) m = 32;
#pragma unroll 1
        for (uint32_t k = 0; k < m; k += FORWARD_AHEAD) {
            float4 w[FORWARD_AHEAD];
            float v[FORWARD_AHEAD];
#pragma unroll
            for (uint32_t u = 0; u < FORWARD_AHEAD; u++) { /* beyond the last: that one, times 0 */
                uint32_t l = k + u < m ? k + u : m - 1;
                w[u] = weights_of<half>(in.w, (size_t)__shfl_sync(WISP_WARP, f, l), c);
                v[u] = __shfl_sync(WISP_WARP, x, l);
                if (k + u >= m) v[u] = 0;
            }
#pragma unroll
            for (uint32_t u = 0; u < FORWARD_AHEAD; u++) add_times(&sum, v[u], w[u]);
        }
    }
    return sum;
}

template <bool half>
__global__ static void __launch_bounds__(32 * FORWARD_WARPS, 2)
    forward(const __grid_constant__ struct wisp_din in)
{
    __shared__ float4 part[FORWARD_WARPS][32];
    const uint32_t i = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t warps = blockDim.x / 32;
    const size_t c = (size_t)blockIdx.y * COLS + 4 * lane, inside = c < in.width ? c : 0;
    if (i >= in.now->n) return;
    part[warp][lane] = bag<half>(in, i, inside, warp, warps);
    float4 sum = make_float4(0, 0, 0, 0);
    if (warp == 0) sum = wisp_dweights(in.bias, 0, inside); /* while others are still at it */
    __syncthreads();
    if (warp > 0 || c >= in.width) return;
    for (uint32_t w = 0; w < warps; w++) add(&sum, part[w][lane]);
    const size_t at = i * in.width + c;
    store(in.h + at, wisp_dafter_on(in.after, in.now, at, sum));
}

void wisp_input_forward(const struct wisp_din &in, cudaStream_t s)
{
    if (in.batch == 0) return;
    /* Few samples do not fill the card with 8 warps each. */
    unsigned warps = in.batch <= 512 ? FORWARD_WARPS : FORWARD_WARPS / 2;
    dim3 grid((unsigned)in.batch, (unsigned)((in.width + COLS - 1) / COLS));
    if (in.w.w) forward<false><<<grid, 32 * warps, 0, s>>>(in);
    else forward<true><<<grid, 32 * warps, 0, s>>>(in);
}

/* ---- backward ---- */

/* g (width) = sum over e in from .. to - 1 of tv[e] * back[ts[e]], in that order, by one warp.
 * ts NULL: sample e itself, once. */
template <uint32_t AHEAD>
static __device__ void add_up(float4 *g, const struct wisp_din &in, const uint32_t *ts,
                              const float *tv, uint32_t from, uint32_t to)
{
    const uint32_t lane = threadIdx.x % 32;
    for (size_t first = 0; first < in.width; first += COLS) {
        const size_t c = first + 4 * lane;
        const float *back = in.back + (c < in.width ? c : 0);
        float4 sum = make_float4(0, 0, 0, 0);
        for (uint32_t base = from; base < to; base += 32) {
            uint32_t e = base + lane, m = to - base < 32 ? to - base : 32;
            uint32_t sample = lane >= m ? 0 : ts ? ts[e] : e;
            float x = lane >= m ? 0 : ts ? tv[e] : 1;
#pragma unroll 1 /* else twice the registers, and half the warps */
            for (uint32_t k = 0; k < m; k += AHEAD) {
                float4 b[AHEAD];
#pragma unroll
                for (uint32_t u = 0; u < AHEAD; u++) { /* beyond the last: that one, times 0 */
                    size_t i = __shfl_sync(WISP_WARP, sample, k + u < m ? k + u : m - 1);
                    b[u] = *(const float4 *)(back + i * in.width);
                }
#pragma unroll
                for (uint32_t u = 0; u < AHEAD; u++)
                    add_times(&sum, __shfl_sync(WISP_WARP, x, k + u), b[u]);
            }
        }
        if (c < in.width) g[c / 4] = sum;
    }
    __syncwarp();
}

/* The same of a list of n <= 32 and columns c .. c + 3, in registers. */
static __device__ float4 add_short(const struct wisp_din &in, const uint32_t *ts, const float *tv,
                                   uint32_t n, uint32_t c)
{
    const uint32_t lane = threadIdx.x % 32, sample = lane < n ? ts[lane] : 0;
    const float x = lane < n ? tv[lane] : 0, *back = in.back + c;
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 1
    for (uint32_t k = 0; k < n; k += BACK_AHEAD) {
        float4 b[BACK_AHEAD];
#pragma unroll
        for (uint32_t u = 0; u < BACK_AHEAD; u++) { /* beyond the last: that one, times 0 */
            size_t i = __shfl_sync(WISP_WARP, sample, k + u < n ? k + u : n - 1);
            b[u] = *(const float4 *)(back + i * in.width);
        }
#pragma unroll
        for (uint32_t u = 0; u < BACK_AHEAD; u++)
            add_times(&sum, __shfl_sync(WISP_WARP, x, k + u), b[u]);
    }
    return sum;
}

/* The sums of all warps, (warps, width), into the first row. */
static __device__ void add_parts(float4 *staged, size_t width)
{
    __syncthreads();
    for (size_t c = threadIdx.x; c < width / 4; c += blockDim.x) {
        float4 sum = staged[c];
#pragma unroll 1
        for (uint32_t w = 1; w < blockDim.x / 32; w++) add(&sum, staged[w * (width / 4) + c]);
        staged[c] = sum;
    }
    __syncthreads();
}

static __device__ void fetch(const void *p)
{
    asm volatile("prefetch.global.L2 [%0];" : : "l"(p));
}

/* Asks for what moving a row reads, 32 bytes per lane: it comes while the gradient is summed. */
static __device__ void fetch_row(const struct wisp_dparam &p, size_t row)
{
    const uint32_t lane = threadIdx.x % 32;
    for (size_t c = 8 * lane; c < p.cols; c += 256) {
        size_t at = row * p.cols + c;
        if (p.w) fetch(p.w + at);
        else fetch(p.b16 + at);
        if (p.m) fetch(p.m + at);
        if (p.v) fetch(p.v + at);
    }
    if (lane == 0 && p.count) fetch(p.count + row);
    if (lane == 0 && p.g2) fetch(p.g2 + row);
}

/* The list of a touched feature, or, of number n_touched, of the bias: all samples, once. */
struct list {
    uint32_t from, to;
};
static __device__ struct list list_of(const struct wisp_dnow *now, uint32_t t)
{
    if (t == now->n_touched) return { 0, now->n };
    return { now->tp[t], now->tp[t + 1] };
}

/* By all warps of the block, each a part of the list that depends on its length alone. */
static __device__ void move_long(const struct wisp_din &in, const struct wisp_dopt &opt, uint32_t t,
                                 float4 *staged)
{
    const struct wisp_dnow *now = in.now;
    const bool bias = t == now->n_touched;
    const uint32_t warp = threadIdx.x / 32, warps = blockDim.x / 32;
    struct list l = list_of(now, t);
    const uint32_t length = l.to - l.from, each = (length + warps - 1) / warps;
    const uint32_t first = l.from + min(length, warp * each);
    const uint32_t end = l.from + min(length, warp * each + each);
    if (!bias && warp == 0) fetch_row(in.w, (size_t)now->touched[t]);
    add_up<LONG_AHEAD>(staged + warp * (in.width / 4), in, bias ? NULL : now->ts, now->tv, first,
                       end);
    add_parts(staged, in.width);
    if (warp == 0) {
        const float *g = (const float *)staged;
        if (bias) wisp_dmove(opt, in.bias, 0, g, now->lr, now->step);
        else wisp_dmove(opt, in.w, (size_t)now->touched[t], g, now->lr, now->step);
    }
    __syncthreads(); /* staged is free again */
}

/* Short lists of rows that are too wide, a warp a feature at a time. */
static __device__ void move_far(const struct wisp_din &in, const struct wisp_dopt &opt, float4 *g)
{
    const struct wisp_dnow *now = in.now;
    const uint32_t warps = blockDim.x / 32, all = (gridDim.x - LONG_BLOCKS) * warps;
    uint32_t t = (blockIdx.x - LONG_BLOCKS) * warps + threadIdx.x / 32;
    for (; t < now->n_touched; t += all) {
        struct list l = list_of(now, t);
        if (l.to - l.from > SHORT) continue;
        const size_t row = (size_t)now->touched[t];
        fetch_row(in.w, row);
        add_up<BACK_AHEAD>(g, in, now->ts, now->tv, l.from, l.to);
        wisp_dmove(opt, in.w, row, (const float *)g, now->lr, now->step);
    }
}

/* The first blocks look for long lists, in turns, and take them as they come; the bias is one.  In
 * all others a warp has a feature, if its list is short. */
template <enum wisp_optimizer_id KIND, bool FAR>
__global__ static void __launch_bounds__(32 * BACK_WARPS, 4)
    move_rows(const __grid_constant__ struct wisp_din in)
{
    extern __shared__ float4 near[];
    float4 *staged = near; /* (warps, width / 4) */
    if (FAR) staged = (float4 *)in.far + (size_t)blockIdx.x * (blockDim.x / 32) * (in.width / 4);
    struct wisp_dopt opt = in.opt;
    opt.kind = KIND; /* so that nothing else takes registers */
    __shared__ uint32_t found[32 * BACK_WARPS], n_found;
    const struct wisp_dnow *now = in.now;
    const uint32_t warp = threadIdx.x / 32, warps = blockDim.x / 32, n = now->n_touched;
    if (now->n == 0) return;
    if (FAR && blockIdx.x >= LONG_BLOCKS) {
        move_far(in, opt, staged + warp * (in.width / 4));
        return;
    }
    if (blockIdx.x >= LONG_BLOCKS) {
        const uint32_t t = (blockIdx.x - LONG_BLOCKS) * warps + warp;
        if (t >= n) return;
        struct list l = list_of(now, t);
        if (l.to - l.from > SHORT) return;
        const size_t row = (size_t)now->touched[t];
        if (in.width > COLS) {
            float4 *g = staged + warp * (in.width / 4);
            fetch_row(in.w, row);
            add_up<BACK_AHEAD>(g, in, now->ts, now->tv, l.from, l.to);
            wisp_dmove(opt, in.w, row, (const float *)g, now->lr, now->step);
            return;
        }
        const uint32_t lane = threadIdx.x % 32, c = 4 * lane < in.width ? 4 * lane : 0;
        const struct wisp_dcols x = wisp_dcols_of(opt, in.w, row, c);
        const float *home = wisp_dkept(opt, in.w, row), kept = home ? *home : 0;
        const float4 sum = add_short(in, now->ts + l.from, now->tv + l.from, l.to - l.from, c);
        wisp_dmove_ready(opt, in.w, row, x, kept, sum, now->lr, now->step);
        return;
    }
    for (uint32_t base = 0; base <= n; base += blockDim.x * LONG_BLOCKS) {
        const uint32_t t = base + threadIdx.x * LONG_BLOCKS + blockIdx.x;
        if (threadIdx.x == 0) n_found = 0;
        __syncthreads();
        if (t <= n) {
            struct list l = list_of(now, t);
            if (t == n || l.to - l.from > SHORT) found[atomicAdd(&n_found, 1u)] = t;
        }
        __syncthreads();
        for (uint32_t i = 0; i < n_found; i++) move_long(in, opt, found[i], staged);
        __syncthreads();
    }
}

size_t wisp_input_far(size_t width)
{
    if (width * 4 + STATIC_BYTES <= wisp_dshared()) return 0;
    return (size_t)(LONG_BLOCKS + FAR_BLOCKS) * FAR_WARPS * width;
}

template <bool FAR>
static void launch_back(const struct wisp_din &in, size_t blocks, size_t warps, size_t bytes,
                        cudaStream_t s)
{
    auto kernel = in.opt.kind == WISP_ADAM      ? move_rows<WISP_ADAM, FAR>
                  : in.opt.kind == WISP_ADAGRAD ? move_rows<WISP_ADAGRAD, FAR>
                  : in.opt.kind == WISP_SGD     ? move_rows<WISP_SGD, FAR>
                                                : move_rows<WISP_DKEEP, FAR>;
    if (bytes > 40 << 10)
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    kernel<<<(unsigned)blocks, 32 * (unsigned)warps, bytes, s>>>(in);
}

void wisp_input_backward(const struct wisp_din &in, cudaStream_t s)
{
    size_t warps = BACK_WARPS;
    if (in.batch == 0) return;
    if (in.far) {
        launch_back<true>(in, LONG_BLOCKS + FAR_BLOCKS, FAR_WARPS, 0, s);
        return;
    }
    while (warps > 1 && warps * in.width * 4 > 40 << 10) warps /= 2; /* 48 KB without asking */
    const size_t blocks = LONG_BLOCKS + (in.most_touched + warps - 1) / warps;
    launch_back<false>(in, blocks, warps, warps * in.width * 4, s);
}

/* ---- the layer ---- */

enum { WEIGHT, BIAS }; /* parameters */

static struct wisp_din input_of(const struct wisp_dnet &n, const struct wisp_dnode &l)
{
    const struct wisp_dact &out = wisp_dgiven(n, l);
    struct wisp_din in = { n.now,           n.batch,       l.l->n_out, n.most_touched,
                           l.param[WEIGHT], l.param[BIAS], n.opt };
    in.after = out.after, in.h = out.x, in.back = out.g;
    in.far = n.training && wisp_input_far(in.width) ? l.scratch : NULL;
    return in;
}

static void run_forward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    wisp_input_forward(input_of(n, l), s);
}

static void run_backward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    wisp_input_backward(input_of(n, l), s);
}

static size_t scratch(const struct wisp_dnode &l, const struct wisp_dnet &)
{
    return wisp_input_far(l.l->n_out);
}

static struct wisp_card_kind filled()
{
    struct wisp_card_kind k = {};
    k.name = "input", k.forms = WISP_ROWS, k.takes = WISP_FUSE_RELU | WISP_FUSE_DROPOUT,
    k.lacks = wisp_card_width;
    k.scratch = scratch, k.forward = run_forward, k.backward = run_backward;
    return k;
}
const struct wisp_card_kind wisp_card_input = filled();

/* A layer of few, fixed connections: layer/sparse.c, on the card.
 *
 *   forward   h[s][o] = after(bias[o] + sum over k of w[o][k] x[s][in[o][k]])
 *   back      back of the layer before: of input i the sum over its edges of w[e] back[s][output]
 *             gradient of w[o][k] = sum over s of back[s][o] x[s][in[o][k]]; rows and bias move
 *
 * As on the CPU values are turned round, (units, lanes): the values of a unit for 32 samples are
 * 128 bytes in a row, and an edge is such a row times one number.  A warp has a unit, a lane a
 * sample; ids and weights of 32 edges come 32 at a time, one a lane, and go round.  Sums of 32
 * units and 32 samples are turned back through shared memory.  For the gradient of the weights a
 * warp has an output, and keeps sums of 32 edges, 32 samples apart, which are added up at the end
 * so that lane k gets edge k's.
 *
 * Of what is turned round only tiles of 32 samples that have any are written, with zeros beyond the
 * last sample.
 *
 * 1024 x 32 edges, 128 samples: each of the three reads 17 MB from the cache for 8 MFLOP: 4 us. */
#include "cuda/ops.cuh"
#include "cuda/update.cuh"

enum {
    SIDE = 32,      /* units and samples of a tile */
    TURN_WARPS = 8, /* of a block that turns a tile round */
    SPREAD = 8,     /* samples, and warps, of a block that spreads rows */
    SUM_WARPS = 16, /* of a tile of sums */
    ROW_WARPS = 8   /* outputs of a block whose weights move */
};

/* ---- turning round ---- */

/* to (width, lanes) = from (n, width); sums, where not NULL, (tiles of samples, width). */
__global__ static void __launch_bounds__(32 * TURN_WARPS)
    turn(const struct wisp_dnow *now, const float *from, size_t width, size_t lanes, float *to,
         float *sums)
{
    __shared__ float tile[SIDE][SIDE + 1]; /* sample, unit */
    const size_t unit = (size_t)blockIdx.x * SIDE, sample = (size_t)blockIdx.y * SIDE;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, n = now->n;
    if (sample >= n) return;
    for (uint32_t i = warp; i < SIDE; i += TURN_WARPS) {
        const bool in = sample + i < n && unit + lane < width;
        tile[i][lane] = in ? from[(sample + i) * width + unit + lane] : 0;
    }
    __syncthreads();
    for (uint32_t u = warp; u < SIDE && unit + u < width; u += TURN_WARPS) {
        const float x = tile[lane][u];
        to[(unit + u) * lanes + sample + lane] = x;
        if (!sums) continue;
        const float sum = wisp_warp_sum(x);
        if (lane == 0) sums[blockIdx.y * width + unit + u] = sum;
    }
}

/* The same of the batch's rows, which are lists: to (n_in, lanes). */
__global__ static void __launch_bounds__(32 * SPREAD)
    spread(const struct wisp_dnow *now, size_t n_in, size_t lanes, float *to)
{
    const uint32_t n = now->n, first = blockIdx.x * SPREAD, lane = threadIdx.x % 32;
    const uint32_t i = first + threadIdx.x / 32;
    if (first / SIDE * SIDE >= n) return;
    for (size_t u = threadIdx.x; u < n_in * (SPREAD / 4); u += 32 * SPREAD)
        *(float4 *)(to + u / (SPREAD / 4) * lanes + first + u % (SPREAD / 4) * 4) =
            make_float4(0, 0, 0, 0);
    __syncthreads();
    if (i >= n) return;
    const uint32_t from = now->xp[i], end = from + now->xn[i];
    for (uint32_t e = from + lane; e < end; e += 32)
        to[(size_t)now->xi[e] * lanes + i] = now->xv[e];
}

/* ---- sums over edges ---- */

/* One of 32 edges. */
struct edge {
    int32_t row; /* of what is summed */
    float w;
};

/* sum += w x[row] over the m edges that the lanes have; x: this lane's sample of row 0. */
static __device__ float add_edges(float sum, struct edge e, uint32_t m, const float *x,
                                  size_t lanes)
{
#pragma unroll 8
    for (uint32_t k = 0; k < m; k++) {
        const size_t row = (size_t)__shfl_sync(WISP_WARP, e.row, k);
        sum += __shfl_sync(WISP_WARP, e.w, k) * x[row * lanes];
    }
    return sum;
}

/* The sums of a unit for 32 samples: of an output over its inputs (x: the layer's input, turned),
 * or, BACK, of an input over its outputs (x: the gradient, turned). */
template <bool BACK>
static __device__ float unit_sum(const struct wisp_dhidden &l, size_t unit, const float *x,
                                 size_t lanes)
{
    const uint32_t lane = threadIdx.x % 32;
    const size_t from = BACK ? l.start[unit] : unit * l.fan;
    const size_t to = BACK ? l.start[unit + 1] : from + l.fan;
    float sum = BACK ? 0 : l.bias.w[unit];
    for (size_t base = from; base < to; base += 32) {
        const uint32_t m = to - base < 32 ? (uint32_t)(to - base) : 32;
        const size_t at = base + (lane < m ? lane : 0);
        const struct edge e = { BACK ? l.output[at] : l.in[at], l.w.w[BACK ? l.edge[at] : at] };
        sum = m == 32 ? add_edges(sum, e, 32, x, lanes) : add_edges(sum, e, m, x, lanes);
    }
    return sum;
}

/* 32 units and 32 samples: to (n, width), as 'after' leaves them, or, BACK, through what it did to
 * h. */
template <bool BACK>
__global__ static void __launch_bounds__(32 * SUM_WARPS, 2)
    sum_tile(const struct wisp_dnow *now, const __grid_constant__ struct wisp_dhidden l,
             const float *x, size_t lanes, const struct wisp_dafter after, const float *h,
             float *to, size_t width)
{
    __shared__ float tile[SIDE][SIDE + 1]; /* unit, sample */
    const size_t unit = (size_t)blockIdx.x * SIDE, sample = (size_t)blockIdx.y * SIDE;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, n = now->n;
    if (sample >= n) return;
    for (uint32_t u = warp; u < SIDE && unit + u < width; u += SUM_WARPS)
        tile[u][lane] = unit_sum<BACK>(l, unit + u, x + sample + lane, lanes);
    __syncthreads();
    const uint32_t i = threadIdx.x / (SIDE / 4), u = threadIdx.x % (SIDE / 4) * 4;
    if (i >= SIDE || sample + i >= n || unit + u >= width) return;
    const size_t at = (sample + i) * width + unit + u;
    float4 y = make_float4(tile[u][i], tile[u + 1][i], tile[u + 2][i], tile[u + 3][i]);
    if (BACK) y = wisp_dafter_back(after, now, at, h, y);
    else y = wisp_dafter_on(after, now, at, y);
    *(float4 *)(to + at) = y;
}

/* ---- the weights move ---- */

/* Lane k gets the sum over all lanes of x[k], in x[0]: 2 D are left of them, half go across. */
template <int D> static __device__ void add_across(float (&x)[32])
{
    const bool high = threadIdx.x & D;
#pragma unroll
    for (int i = 0; i < D; i++) {
        const float keep = high ? x[i + D] : x[i], send = high ? x[i] : x[i + D];
        x[i] = keep + __shfl_xor_sync(WISP_WARP, send, D);
    }
    if constexpr (D > 1) add_across<D / 2>(x);
}

/* g (fan) = gradient of an output's weights, by a warp; gy: the output's gradient, turned. */
static __device__ void row_gradient(float *g, const struct wisp_dhidden &l, size_t o,
                                    const float *gy, size_t lanes, uint32_t n)
{
    const uint32_t lane = threadIdx.x % 32;
    for (size_t base = 0; base < l.fan; base += 32) {
        const size_t k = base + lane;
        const int32_t id = k < l.fan ? l.in[o * l.fan + k] : 0; /* any row: nobody takes its sum */
        float sum[32] = {};
        for (uint32_t s = lane; s < n + lane; s += 32) { /* as often in all lanes */
            const float y = gy[s];
#pragma unroll
            for (int e = 0; e < 32; e++)
                sum[e] += y * l.turned[(size_t)__shfl_sync(WISP_WARP, id, e) * lanes + s];
        }
        add_across<16>(sum);
        if (k < l.fan) g[k] = sum[0];
    }
    __syncwarp();
}

/* A warp an output; the last block has the bias. */
__global__ static void __launch_bounds__(32 * ROW_WARPS)
    move_rows(const struct wisp_dnow *now, const __grid_constant__ struct wisp_dopt opt,
              const __grid_constant__ struct wisp_dhidden l, const float *gy, const float *sums,
              size_t lanes)
{
    extern __shared__ float4 staged[]; /* (warps, fan), or (n_out) */
    float *g = (float *)staged;
    const uint32_t warp = threadIdx.x / 32, n = now->n;
    if (n == 0) return;
    if (blockIdx.x + 1 == gridDim.x) {
        for (size_t o = threadIdx.x; o < l.n_out; o += blockDim.x) {
            float sum = 0;
            for (size_t tile = 0; tile * SIDE < n; tile++) sum += sums[tile * l.n_out + o];
            g[o] = sum;
        }
        __syncthreads();
        if (warp == 0) wisp_dmove(opt, l.bias, 0, g, now->lr, now->step);
        return;
    }
    const size_t o = (size_t)blockIdx.x * ROW_WARPS + warp;
    if (o >= l.n_out) return;
    g += warp * l.fan;
    row_gradient(g, l, o, gy + o * lanes, lanes, n);
    wisp_dmove_few(opt, l.w, o, g, now->lr, now->step);
}

/* ---- forward and back ---- */

static dim3 tiles(const struct wisp_dnet &n, size_t width)
{
    return dim3((unsigned)((width + SIDE - 1) / SIDE), (unsigned)(n.lanes / SIDE));
}

void wisp_wires_forward(const struct wisp_dnet &n, size_t layer, cudaStream_t s)
{
    const struct wisp_dhidden &l = n.layers[layer];
    if (layer == 0)
        spread<<<(unsigned)(n.lanes / SPREAD), 32 * SPREAD, 0, s>>>(n.now, l.n_in, n.lanes,
                                                                    l.turned);
    else
        turn<<<tiles(n, l.n_in), 32 * TURN_WARPS, 0, s>>>(n.now, n.layers[layer - 1].h, l.n_in,
                                                          n.lanes, l.turned, NULL);
    sum_tile<false><<<tiles(n, l.n_out), 32 * SUM_WARPS, 0, s>>>(n.now, l, l.turned, n.lanes,
                                                                 l.after, NULL, l.h, l.n_out);
}

void wisp_wires_backward(const struct wisp_dnet &n, size_t layer, cudaStream_t s)
{
    const struct wisp_dhidden &l = n.layers[layer];
    float *gy = n.scratch, *sums = gy + l.n_out * n.lanes;
    turn<<<tiles(n, l.n_out), 32 * TURN_WARPS, 0, s>>>(n.now, l.back, l.n_out, n.lanes, gy, sums);
    if (layer > 0) { /* before the weights move */
        const struct wisp_dhidden &before = n.layers[layer - 1];
        sum_tile<true><<<tiles(n, l.n_in), 32 * SUM_WARPS, 0, s>>>(
            n.now, l, gy, n.lanes, before.after, before.h, before.back, l.n_in);
    }
    const size_t most = ROW_WARPS * l.fan > l.n_out ? ROW_WARPS * l.fan : l.n_out;
    const unsigned blocks = (unsigned)((l.n_out + ROW_WARPS - 1) / ROW_WARPS) + 1;
    move_rows<<<blocks, 32 * ROW_WARPS, (most * sizeof(float) + 15) / 16 * 16, s>>>(
        n.now, n.opt, l, gy, sums, n.lanes);
}

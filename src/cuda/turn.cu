/* Values of a batch turned round (turn.cuh). */
#include "cuda/turn.cuh"
#include "cuda/update.cuh"

enum {
    SIDE = WISP_TURN_SIDE,
    TURN_WARPS = 8, /* of a block that turns a tile round */
    SPREAD = 8      /* samples, and warps, of a block that spreads rows */
};

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

/* The same of the batch's rows: to (width, lanes). */
__global__ static void __launch_bounds__(32 * SPREAD)
    spread(const struct wisp_dnow *now, size_t width, size_t lanes, float *to)
{
    const uint32_t n = now->n, first = blockIdx.x * SPREAD, lane = threadIdx.x % 32;
    const uint32_t i = first + threadIdx.x / 32;
    if (first / SIDE * SIDE >= n) return;
    for (size_t u = threadIdx.x; u < width * (SPREAD / 4); u += 32 * SPREAD)
        *(float4 *)(to + u / (SPREAD / 4) * lanes + first + u % (SPREAD / 4) * 4) =
            make_float4(0, 0, 0, 0);
    __syncthreads();
    if (i >= n) return;
    const uint32_t from = now->xp[i], end = from + now->xn[i];
    for (uint32_t e = from + lane; e < end; e += 32)
        to[(size_t)now->xi[e] * lanes + i] = now->xv[e];
}

void wisp_turn_units(const struct wisp_dnet &n, const float *from, size_t width, float *to,
                     float *sums, cudaStream_t s)
{
    turn<<<wisp_turn_tiles(n, width), 32 * TURN_WARPS, 0, s>>>(n.now, from, width, n.lanes, to,
                                                               sums);
}

void wisp_turn_rows(const struct wisp_dnet &n, size_t width, float *to, cudaStream_t s)
{
    spread<<<(unsigned)(n.lanes / SPREAD), 32 * SPREAD, 0, s>>>(n.now, width, n.lanes, to);
}

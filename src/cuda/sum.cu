/* The sum over all rows of exp(z - max), z = h . W[row] + bias[row], of each sample: with it the
 * logit of a label becomes its probability (layer/topk.c: accumulate, losses.c).  No score is
 * written.
 *
 *   sum_rows    block (x, y) has 128 samples from 128 y on, and the tiles of 256 rows x,
 *               x + splits, ...  A thread has 16 x 8 scores of a tile: rows ty + 16 r, samples
 *               tx + 16 i, and of each of its samples the maximum and the sum so far; at the end
 *               those of the 16 threads of a sample are joined in order: (splits, 2, samples)
 *   join_parts  a warp per sample: the same over the splits, in double
 *
 * Chunks of 8 columns of rows and samples lie in shared memory, two of them in turn: while one is
 * multiplied the next is on its way in registers.  Rows of 8 floats are 12 apart, so that 8 rows
 * side by side are in different banks.  Columns and rows beyond the last are 0, and such a row's
 * bias is -infinity: it adds nothing.
 *
 * The products are summed column by column, as in scan_fp32.cuh: there a row has the same score.
 *
 * 670,091 rows, 128 columns, 256 samples: 44 GFLOP, 0.66 ms at 67 TFLOP/s; 343 MB twice (once for
 * each tile of samples; the second may come from the cache), 0.17 ms at 4 TB/s. */
#include "cuda/ops.cuh"
#include "cuda/update.cuh"

#include <math.h>

enum {
    ROWS = 256,
    SAMPLES = 128,
    COLS = 8,
    PITCH = 12, /* floats from row to row in shared memory */
    CHUNK = (ROWS + SAMPLES) * PITCH,
    THREADS = 256,
    JOIN_THREADS = 128
};

/* Four weights as they lie in memory: widened when they are used, so that nothing waits for them
 * before. */
template <bool half> static __device__ uint4 raw_weights(const struct wisp_dparam &p, size_t at)
{
    if (!half) return *(const uint4 *)(p.w + at);
    uint2 u = *(const uint2 *)(p.b16 + at);
    return make_uint4(u.x, u.y, 0, 0);
}

template <bool half> static __device__ float4 widened(uint4 u)
{
    if (!half)
        return make_float4(__uint_as_float(u.x), __uint_as_float(u.y), __uint_as_float(u.z),
                           __uint_as_float(u.w));
    return make_float4(__uint_as_float(u.x << 16), __uint_as_float(u.x & 0xffff0000u),
                       __uint_as_float(u.y << 16), __uint_as_float(u.y & 0xffff0000u));
}

struct piece { /* what a thread brings of a chunk: four columns of two rows and of a sample */
    uint4 w[2];
    float4 h;
};

/* m: the thread's row of 128, col: its first column; sample NULL: there is none. */
template <bool half>
static __device__ void ask(struct piece *p, const struct wisp_dsum &t, size_t tile, int m, int col,
                           const float *sample)
{
    const bool inside = col < (int)t.width;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const size_t row = tile * ROWS + m + i * (ROWS / 2);
        p->w[i] = make_uint4(0, 0, 0, 0);
        if (inside && row < t.n_rows) p->w[i] = raw_weights<half>(t.w, row * t.width + col);
    }
    p->h = make_float4(0, 0, 0, 0);
    if (inside && sample) p->h = *(const float4 *)(sample + col);
}

/* to: the thread's place in the chunk. */
template <bool half> static __device__ void put(float *to, const struct piece &p)
{
    *(float4 *)to = widened<half>(p.w[0]);
    *(float4 *)(to + ROWS / 2 * PITCH) = widened<half>(p.w[1]);
    *(float4 *)(to + ROWS * PITCH) = p.h;
}

static __device__ void multiply(float (&acc)[16][8], const float *chunk, int ty, int tx)
{
    const float *w = chunk + ty * PITCH, *h = chunk + (ROWS + tx) * PITCH;
#pragma unroll 1
    for (int q = 0; q < COLS; q += 4) {
        float4 y[8];
#pragma unroll
        for (int i = 0; i < 8; i++) y[i] = *(const float4 *)(h + 16 * i * PITCH + q);
#pragma unroll
        for (int r = 0; r < 16; r++) {
            const float4 x = *(const float4 *)(w + 16 * r * PITCH + q);
#pragma unroll
            for (int i = 0; i < 8; i++) acc[r][i] = fmaf(x.x, y[i].x, acc[r][i]);
#pragma unroll
            for (int i = 0; i < 8; i++) acc[r][i] = fmaf(x.y, y[i].y, acc[r][i]);
#pragma unroll
            for (int i = 0; i < 8; i++) acc[r][i] = fmaf(x.z, y[i].z, acc[r][i]);
#pragma unroll
            for (int i = 0; i < 8; i++) acc[r][i] = fmaf(x.w, y[i].w, acc[r][i]);
        }
    }
}

/* The scores of a tile join maximum and sum of exp(z - maximum).  Where a thread has seen no row
 * the maximum is -infinity, and nothing may be subtracted from that. */
static __device__ void take(float (&max)[8], float (&sum)[8], float (&acc)[16][8],
                            const struct wisp_dsum &t, size_t row)
{
    float bias[16];
#pragma unroll
    for (int r = 0; r < 16; r++)
        bias[r] = row + 16 * r < t.n_rows ? t.bias.w[row + 16 * r] : -INFINITY;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float top = max[i], more = 0;
#pragma unroll
        for (int r = 0; r < 16; r++) {
            acc[r][i] += bias[r];
            top = fmaxf(top, acc[r][i]);
        }
        const float origin = top > -INFINITY ? top : 0.0f;
#pragma unroll
        for (int r = 0; r < 16; r++) more += __expf(acc[r][i] - origin);
        sum[i] = sum[i] * __expf(max[i] - origin) + more;
        max[i] = top;
    }
}

/* max and sum of 16 threads per sample, (16, SAMPLES) each, to this block's parts. */
static __device__ void join_threads(const struct wisp_dsum &t, const float *max, const float *sum,
                                    int first, int n)
{
    const int i = threadIdx.x;
    if (i >= SAMPLES || first + i >= n) return;
    float top = -INFINITY, all = 0;
    for (int y = 0; y < 16; y++) top = fmaxf(top, max[y * SAMPLES + i]);
    const float origin = top > -INFINITY ? top : 0.0f;
    for (int y = 0; y < 16; y++)
        all += sum[y * SAMPLES + i] * __expf(max[y * SAMPLES + i] - origin);
    const size_t samples = (size_t)gridDim.y * SAMPLES;
    float *part = t.parts + blockIdx.x * 2 * samples + first + i;
    part[0] = top;
    part[samples] = all;
}

template <bool half>
static __global__ void __launch_bounds__(THREADS, 1)
    sum_rows(const __grid_constant__ struct wisp_dsum t)
{
    __shared__ __align__(16) float pool[2 * CHUNK];
    const int first = (int)blockIdx.y * SAMPLES, n = (int)*t.n;
    if (first >= n) return;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int tx = warp / 4 * 8 + lane % 8, ty = warp % 4 * 4 + lane / 8;
    const int m = threadIdx.x / 2, quad = threadIdx.x % 2 * 4;
    const int chunks = ((int)t.width + COLS - 1) / COLS;
    const size_t tiles = (t.n_rows + ROWS - 1) / ROWS;
    const float *sample = first + m < n ? t.h + (size_t)(first + m) * t.width : NULL;
    float *place = pool + m * PITCH + quad;

    size_t next = blockIdx.x; /* tile and chunk that are asked for */
    int next_c = 0, at = 0;
    struct piece p;
    if (next < tiles) {
        ask<half>(&p, t, next, m, quad, sample);
        put<half>(place, p);
    }
    if (++next_c == chunks) next_c = 0, next += gridDim.x;
    __syncthreads();

    float max[8], sum[8];
#pragma unroll
    for (int i = 0; i < 8; i++) max[i] = -INFINITY, sum[i] = 0;
    for (size_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        float acc[16][8];
#pragma unroll
        for (int i = 0; i < 128; i++) acc[i / 8][i % 8] = 0;
        for (int c = 0; c < chunks; c++) {
            const bool more = next < tiles;
            if (more) ask<half>(&p, t, next, m, next_c * COLS + quad, sample);
            multiply(acc, pool + at * CHUNK, ty, tx);
            at ^= 1;
            if (more) put<half>(place + at * CHUNK, p);
            if (++next_c == chunks) next_c = 0, next += gridDim.x;
            __syncthreads(); /* the next is here, and this one is done with */
        }
        take(max, sum, acc, t, tile * ROWS + ty);
    }

#pragma unroll
    for (int i = 0; i < 8; i++) {
        pool[ty * SAMPLES + tx + 16 * i] = max[i];
        pool[(16 + ty) * SAMPLES + tx + 16 * i] = sum[i];
    }
    __syncthreads();
    join_threads(t, pool, pool + 16 * SAMPLES, first, n);
}

static __global__ void __launch_bounds__(JOIN_THREADS)
    join_parts(const __grid_constant__ struct wisp_dsum t, size_t samples)
{
    const uint32_t i = blockIdx.x * (JOIN_THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (i >= *t.n) return;
    float top = -INFINITY;
    for (uint32_t p = lane; p < t.splits; p += 32) top = fmaxf(top, t.parts[p * 2 * samples + i]);
    for (int d = 16; d > 0; d /= 2) top = fmaxf(top, __shfl_xor_sync(WISP_WARP, top, d));
    double sum = 0;
    for (uint32_t p = lane; p < t.splits; p += 32) {
        const float *part = t.parts + p * 2 * samples + i;
        sum += part[samples] * exp((double)part[0] - top);
    }
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(WISP_WARP, sum, d);
    if (lane > 0) return;
    t.max[i] = top;
    t.sum[i] = sum;
}

static unsigned ways(const struct wisp_dsum &t)
{
    return (unsigned)((t.batch + SAMPLES - 1) / SAMPLES);
}

size_t wisp_sum_lay(struct wisp_dsum *t, void *block)
{
    int device = 0, sms = 1;
    size_t at = 0, tiles = (t->n_rows + ROWS - 1) / ROWS;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    t->splits = ways(*t) < (unsigned)sms ? (unsigned)sms / ways(*t) : 1;
    if (t->splits > tiles) t->splits = (unsigned)tiles;
    t->parts = (float *)wisp_dtake(block, &at, (size_t)t->splits * 2 * ways(*t) * SAMPLES * 4);
    return at;
}

void wisp_sum_exp(const struct wisp_dsum &t, cudaStream_t s)
{
    if (t.batch == 0 || t.n_rows == 0) return;
    const dim3 grid(t.splits, ways(t));
    const unsigned each = JOIN_THREADS / 32;
    if (t.w.w) sum_rows<false><<<grid, THREADS, 0, s>>>(t);
    else sum_rows<true><<<grid, THREADS, 0, s>>>(t);
    join_parts<<<(unsigned)((t.batch + each - 1) / each), JOIN_THREADS, 0, s>>>(t, (size_t)ways(t) *
                                                                                       SAMPLES);
}

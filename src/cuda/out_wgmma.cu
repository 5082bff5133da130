/* The products of the output layer in bf16 by wgmma, for sm_90 alone: see out.cu, which has the
 * same for all other cards and fp32.
 *
 *     logits   Z (U, n) = w h^T, sums along the rows of both panels
 *     hidden   E^T w, parts of the sum over active rows: these count the rows of both
 *     rows     E (f h), samples: along E, they count the rows of f h; then the rows move at once
 *
 * Everything comes in boxes of 64 rows of 128 bytes (wgmma.cuh), copied 16 bytes per lane.  A
 * warpgroup makes 64 x 128 numbers, 64 per thread.
 *
 * In logits a block keeps h of 128 samples and walks over tiles of 64 active rows; its two groups
 * have their own.  The next tile is on its way while exponentials of this one are taken.  In the
 * other two the boxes of a stage (64 terms of the sum) go through a ring; the warps take turns at
 * asking for stages, so that the one that waits for its stage, and then sees to it that the tensor
 * cores see it (a memory barrier), has no other copies under way.
 *
 * Bounds at U = 22000, n = 1024, K = 128: 5.8 GFLOP each, 8 us at 700 TFLOP/s; 45 MB of E written
 * once and read twice, mostly in the second-level cache, and as much of panels: 10 to 15 us each.
 */
#include "cuda/out.cuh"
#include "cuda/update.cuh"
#include "cuda/wgmma.cuh"

enum {
    GROUP = 128, /* threads */
    BOX = 8192,
    MOST_WIDTH = 256,
    FEW = 512, /* samples up to here: a block has one group, so that there are more of them */
    ROWS_STAGES = 3,
    HIDDEN_STAGES = 4,
    BLOCKS = 264, /* of logits: two for each multiprocessor */
};

typedef __nv_bfloat16 bf16;
typedef float results[16][4]; /* as wgmma leaves them */

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ROWS rows of a box, the first a multiple of 8, by a warp. */
template <int ROWS>
static __device__ __forceinline__ void ask(uint32_t to, const bf16 *from, size_t ld, int lane)
{
    const int piece = lane % 8, m = lane / 8;
    const uint32_t even = to + m * 128 + ((piece ^ m) << 4);
    const uint32_t odd = to + (m + 4) * 128 + ((piece ^ (m + 4)) << 4);
    from += m * ld + 8 * piece;
#pragma unroll
    for (int i = 0; i < ROWS / 8; i++) {
        copy16(even + i * 1024, from, true);
        copy16(odd + i * 1024, from + 4 * ld, true);
        from += 8 * ld;
    }
}

/* ---- the product of hidden and rows ---- */

struct operands {
    const bf16 *a, *b;
    size_t lda, ldb;
    int stages; /* of 64 terms */
};

/* A stage: the boxes of A, one for each group, then those of B, 64 columns each. */
template <int G, int NB, bool A_TURNED>
static __device__ __forceinline__ void ask_stage(const struct operands &x, int s, uint32_t to,
                                                 int lane)
{
    const bf16 *a = x.a + (A_TURNED ? (size_t)s * 64 * x.lda : (size_t)s * 64);
    const bf16 *b = x.b + (size_t)s * 64 * x.ldb;
#pragma unroll
    for (int g = 0; g < G; g++)
        ask<64>(to + g * BOX, a + (A_TURNED ? (size_t)g * 64 : (size_t)g * 64 * x.lda), x.lda,
                lane);
#pragma unroll
    for (int j = 0; j < 2 * NB; j++) ask<64>(to + (G + j) * BOX, b + 64 * j, x.ldb, lane);
    copy_commit();
}

/* acc: 64 rows of each group, 128 NB columns.  each(slot, s) sees stage s while it is in its slot
 * of the ring, which is free for other use afterwards. */
template <int G, int NB, int STAGES, bool A_TURNED, class F>
static __device__ __forceinline__ void product(results (&acc)[NB], const struct operands &x,
                                               uint32_t ring, F each)
{
    constexpr int WARPS = 4 * G, STAGE = (G + 2 * NB) * BOX;
    static_assert(STAGES - 1 <= WARPS, "a warp asks for one stage at a time");
    /* so that the compiler knows it to be the same in a warp: else it makes wgmmas wait */
    const int warp = __shfl_sync(WISP_WARP, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < NB * 64; i++) acc[i / 64][i / 4 % 16][i % 4] = 0;
#pragma unroll 1
    for (int s = 0; s < STAGES - 1 && s < x.stages; s++)
        if (warp == s) ask_stage<G, NB, A_TURNED>(x, s, ring + s * STAGE, lane);
#pragma unroll 1
    for (int s = 0, slot = 0; s < x.stages; s++) {
        if (warp == s % WARPS) {
            copy_wait<0>();
            wgmma_see_copies();
        }
        __syncthreads(); /* it is here; the one before is done with */
        const uint32_t stage = ring + slot * STAGE, mine = stage + warp / 4 * BOX;
        const uint64_t a = A_TURNED ? wgmma_turned(mine) : wgmma_matrix(mine);
        const uint64_t b = wgmma_turned(stage + G * BOX);
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int c = 0; c < NB; c++)
                wgmma128<A_TURNED, true>(acc[c], a + k * (A_TURNED ? 2048 >> 4 : 32 >> 4),
                                         b + k * (2048 >> 4) + c * (2 * BOX >> 4), 1);
        wgmma_commit();
        const int next = s + STAGES - 1, free = slot ? slot - 1 : STAGES - 1;
        if (warp == next % WARPS && next < x.stages)
            ask_stage<G, NB, A_TURNED>(x, next, ring + free * STAGE, lane);
        each(slot, s);
        wgmma_wait<0>();
        slot = slot + 1 == STAGES ? 0 : slot + 1;
    }
#pragma unroll
    for (int c = 0; c < NB; c++) wgmma_results(acc[c]);
    __syncthreads();
}
#endif

/* ---- logits ---- */

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Adds (or takes the larger of) N numbers over the eight lanes with the same lane % 4: at each step
 * a lane keeps half of them.  Returns which: N / 8 from there on, now at the front. */
template <int N, class T, class F>
static __device__ __forceinline__ int over_rows(T (&x)[N], F join)
{
    const int lane = threadIdx.x % 32;
    int first = 0;
#pragma unroll
    for (int step = 0; step < 3; step++) {
        const int d = 16 >> step, n = N / 2 >> step;
        const bool up = lane & d;
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            if (i >= n) break; /* so written it unrolls */
            T mine = up ? x[i + n] : x[i], other = up ? x[i] : x[i + n];
            x[i] = join(mine, __shfl_xor_sync(WISP_WARP, other, d));
        }
        first += up ? n : 0;
    }
    return first;
}

static __device__ uint32_t larger_two(uint32_t a, uint32_t b)
{
    __nv_bfloat162 c = __hmax2(*(__nv_bfloat162 *)&a, *(__nv_bfloat162 *)&b);
    return *(uint32_t *)&c;
}

/* x[j] of lane q becomes x[q] of lane j, of each four lanes. */
static __device__ __forceinline__ uint4 turn_four(uint32_t (&x)[4])
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int d = 1; d <= 2; d *= 2) {
        const bool up = lane & d;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int low = d == 1 ? 2 * i : i, high = low + d;
            uint32_t got = __shfl_xor_sync(WISP_WARP, up ? x[low] : x[high], d);
            if (up) x[low] = got;
            else x[high] = got;
        }
    }
    return make_uint4(x[0], x[1], x[2], x[3]);
}

struct margins {                 /* what the epilogue adds; in shared memory */
    float shift[BN];             /* origin of a sample; infinite where there is none */
    float sums[2][4][BN];        /* of each warp */
    uint32_t most[2][4][BN / 2]; /* the largest E of a warp's rows, two samples in each */
};

/* E of a group's tile, written; sums and the largest of a warp's 16 rows.  acc: Z without biases.
 */
template <enum wisp_loss_id LOSS>
static __device__ __forceinline__ void take_logits(const results &acc, const float (&bias)[2],
                                                   bf16 *e, size_t lde, struct margins *m,
                                                   int group)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, q = lane % 4;
    float sum[32];
    uint32_t most[16];
    e += (size_t)(16 * warp + lane / 4) * lde + 8 * q;
#pragma unroll
    for (int four = 0; four < 4; four++) { /* columns 32 four .. 32 four + 31 */
        uint32_t pack[2][4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int b = 4 * four + j;
            const float2 shift = *(const float2 *)(m->shift + 8 * b + 2 * q);
            float value[2][2], term[2][2];
#pragma unroll
            for (int v = 0; v < 4; v++) {
                float away = v % 2 ? shift.y : shift.x, z = acc[b][v] + bias[v / 2];
                if (LOSS != WISP_SOFTMAX) z -= away, away = 0;
                value[v / 2][v % 2] = value_and_term<bf16>(&term[v / 2][v % 2], LOSS, z, away);
            }
            sum[2 * b] = term[0][0] + term[1][0];
            sum[2 * b + 1] = term[0][1] + term[1][1];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                __nv_bfloat162 two = __floats2bfloat162_rn(value[i][0], value[i][1]);
                pack[i][j] = *(uint32_t *)&two;
            }
            most[b] = larger_two(pack[0][j], pack[1][j]);
        }
#pragma unroll
        for (int i = 0; i < 2; i++) *(uint4 *)(e + 8 * i * lde + 32 * four) = turn_four(pack[i]);
    }
    const int first = over_rows(sum, [](float a, float b) { return a + b; });
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int v = first + i;
        m->sums[group][warp][v / 2 * 8 + 2 * q + v % 2] = sum[i];
    }
    const int b = over_rows(most, larger_two);
    m->most[group][warp][4 * b + q] = most[0];
    m->most[group][warp][4 * b + 4 + q] = most[1];
}
#endif

/* Rows of bf16 on the card, which logits can read without panels; NULL: there are none. */
static __host__ __device__ const bf16 *near_rows(const struct wisp_dout &o)
{
    if (o.width % 8) return NULL;
    return o.w.copy ? o.w.copy : o.outside ? NULL : o.w.b16;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* The rows of a warp: 16 of a group's tile. */
struct sixteen {
    int32_t id; /* of row lane % 16, -1: none */
    float bias;
};

static __device__ struct sixteen sixteen_of(const struct wisp_dout &o, uint32_t first, uint32_t n)
{
    const uint32_t row = first + threadIdx.x % 16;
    struct sixteen x = { row < n ? o.active.rows[row] : -1, 0 };
    return x;
}

/* Asks for them, from where rows lie: zeros where there is nothing. */
static __device__ __forceinline__ void ask_near(uint32_t to, const struct wisp_dout &o,
                                                const struct sixteen &x, int chunks)
{
    const int lane = threadIdx.x % 32, piece = lane % 8;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int m = lane / 8 + 4 * i, id = __shfl_sync(WISP_WARP, x.id, m);
        const bf16 *from = near_rows(o) + (size_t)(id < 0 ? 0 : id) * o.width;
        const uint32_t at = to + m * 128 + ((piece ^ m % 8) << 4);
#pragma unroll 1
        for (int c = 0; c < chunks; c++) {
            const int col = 64 * c + 8 * piece;
            const bool there = id >= 0 && col < (int)o.width;
            copy16(at + c * BOX, from + (there ? col : 0), there);
        }
    }
}

/* And leaves them in the panels, for those who come later. */
static __device__ void put_panel(const struct wisp_dout &o, const unsigned char *from,
                                 uint32_t first, const struct sixteen &x, int chunks)
{
    const int lane = threadIdx.x % 32, piece = lane % 8;
    const size_t k = up(o.width, BN);
    if (lane < 16) o.b_panel[first + lane] = x.bias;
    for (int c = 0; c < chunks; c++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int m = lane / 8 + 4 * i;
            *(uint4 *)((bf16 *)o.w_panel + (first + m) * k + 64 * c + 8 * piece) =
                *(const uint4 *)(from + c * BOX + m * 128 + ((piece ^ m % 8) << 4));
        }
}

/* h of the block's samples as bf16 to its place, and to the panel. */
static __device__ void place_h(const struct wisp_dout &o, unsigned char *to, size_t first, size_t n,
                               int chunks, bool panel)
{
    const size_t k = up(o.width, BN);
#pragma unroll 4
    for (int e = threadIdx.x; e < BN * 8 * chunks; e += 2 * GROUP) {
        const int s = e / (8 * chunks), piece = e % (8 * chunks);
        const size_t sample = first + s, col = 8 * piece;
        const bool there = sample < n && col < o.width;
        const float *from = o.h + (there ? sample * o.width + col : 0);
        float4 a = *(const float4 *)from, b = *(const float4 *)(from + 4);
        if (!there) a = b = make_float4(0, 0, 0, 0);
        __nv_bfloat162 x[4] = { __floats2bfloat162_rn(a.x, a.y), __floats2bfloat162_rn(a.z, a.w),
                                __floats2bfloat162_rn(b.x, b.y), __floats2bfloat162_rn(b.z, b.w) };
        const uint4 both = make_uint4(*(uint32_t *)&x[0], *(uint32_t *)&x[1], *(uint32_t *)&x[2],
                                      *(uint32_t *)&x[3]);
        *(uint4 *)(to + piece / 8 * (2 * BOX) + s * 128 + ((piece % 8 ^ s % 8) << 4)) = both;
        if (panel) *(uint4 *)((bf16 *)o.h_panel + sample * k + col) = both;
    }
}
#endif

/* Shared memory: h of the samples, 64 columns after the other; then a tile of rows of each group.
 * NEAR: rows and h come from where they are, and some blocks leave the panels; else from panels. */
template <enum wisp_loss_id LOSS, bool NEAR>
__global__ static void __launch_bounds__(2 * GROUP, 2) logits(const struct wisp_dout o, int chunks)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    __shared__ struct margins m;
    extern __shared__ unsigned char pool[];
    const int warp = __shfl_sync(WISP_WARP, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const int group = warp / 4, tid = threadIdx.x % GROUP;
    const size_t k = up(o.width, BN), col0 = (size_t)blockIdx.y * BN, n = o.now->n;
    const uint32_t n_rows = *o.active.n, tiles = (n_rows + BM - 1) / BM;
    if (col0 >= n || blockIdx.x >= tiles) return;
    const uint32_t h = shared_at(align_pool(pool));
    const uint32_t rows = h + (2 * chunks + group * chunks) * BOX, sixteenth = 16 * (warp % 4);
    const bf16 *w_panel = (const bf16 *)o.w_panel + (size_t)(16 * (warp % 4)) * k;
    const bf16 *h_panel = (const bf16 *)o.h_panel + (col0 + 16 * warp) * k;
    uint32_t t = blockIdx.x + group * gridDim.x;
    struct sixteen x, ahead; /* of this tile and the next one */
    if (NEAR) {
        x = sixteen_of(o, t * BM + sixteenth, n_rows);
        ahead = sixteen_of(o, (t + 2 * gridDim.x) * BM + sixteenth, n_rows);
        if (t < tiles) ask_near(rows + warp % 4 * 2048, o, x, chunks);
        if (x.id >= 0) x.bias = o.bias.w[x.id];
        place_h(o, align_pool(pool), col0, n, chunks, blockIdx.x == 0);
    }
#pragma unroll 1
    for (int c = 0; c < chunks && !NEAR; c++) {
        ask<16>(h + c * 2 * BOX + warp * 2048, h_panel + 64 * c, k, lane);
        if (t < tiles)
            ask<16>(rows + c * BOX + warp % 4 * 2048, w_panel + t * BM * k + 64 * c, k, lane);
    }
    copy_commit();
    if (threadIdx.x < BN) {
        float origin =
            LOSS == WISP_SOFTMAX && col0 + threadIdx.x < n ? o.origin[col0 + threadIdx.x] : 0;
        m.shift[threadIdx.x] = col0 + threadIdx.x < n ? origin : INFINITY;
    }
    copy_wait<0>();
    wgmma_see_copies();
    __syncthreads();
#pragma unroll 1
    while (t < tiles) {
        const uint32_t row = t * BM + 16 * (warp % 4) + lane / 4, next = t + 2 * gridDim.x;
        if (NEAR && blockIdx.y == 0)
            put_panel(o, align_pool(pool) + (rows - h) + warp % 4 * 2048, t * BM + sixteenth, x,
                      chunks);
        results acc;
#pragma unroll
        for (int i = 0; i < 64; i++) acc[i / 4][i % 4] = 0;
        wgmma_begin();
#pragma unroll 1
        for (int c = 0; c < chunks; c++) {
            const uint64_t a = wgmma_matrix(rows + c * BOX), b = wgmma_matrix(h + c * 2 * BOX);
#pragma unroll
            for (int i = 0; i < 4; i++) wgmma128<false, false>(acc, a + 2 * i, b + 2 * i, 1);
        }
        wgmma_commit();
        float bias[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (NEAR) bias[i] = __shfl_sync(WISP_WARP, x.bias, lane / 4 + 8 * i);
            else if (row + 8 * i < n_rows) bias[i] = o.b_panel[row + 8 * i];
            if (row + 8 * i >= n_rows) bias[i] = -INFINITY;
        }
        wgmma_wait<0>();
        wgmma_results(acc);
        bar_sync(1 + group, GROUP); /* its rows are done with, and the sums of the tile before */
        if (NEAR && next < tiles) {
            x = ahead;
            ask_near(rows + warp % 4 * 2048, o, x, chunks);
            if (x.id >= 0) x.bias = o.bias.w[x.id];
            ahead = sixteen_of(o, (next + 2 * gridDim.x) * BM + sixteenth, n_rows);
        }
#pragma unroll 1
        for (int c = 0; c < chunks && next < tiles && !NEAR; c++)
            ask<16>(rows + c * BOX + warp % 4 * 2048, w_panel + next * BM * k + 64 * c, k, lane);
        copy_commit();
        take_logits<LOSS>(acc, bias, (bf16 *)o.e + (size_t)t * BM * o.lde + col0, o.lde, &m, group);
        copy_wait<0>();
        wgmma_see_copies();
        bar_sync(1 + group, GROUP); /* the next rows are here, and the sums */
        const float(*sums)[BN] = m.sums[group];
        o.block_sum[t * o.lde + col0 + tid] =
            sums[0][tid] + sums[1][tid] + (sums[2][tid] + sums[3][tid]);
        const uint32_t lower = tid / 64, two = tid % 64; /* rows 32 to 63; samples */
        if (o.tile_max && t * BM + 32 * lower < n_rows) {
            uint32_t x =
                larger_two(m.most[group][2 * lower][two], m.most[group][2 * lower + 1][two]);
            *(float2 *)(o.tile_max + (2 * t + lower) * o.lde + col0 + 2 * two) =
                make_float2(__uint_as_float(x << 16), __uint_as_float(x & 0xffff0000u));
        }
        t = next;
    }
#endif
}

/* ---- hidden ---- */

template <int G> __global__ static void __launch_bounds__(G *GROUP) hidden(const struct wisp_dout o)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ unsigned char pool[];
    const size_t k = up(o.width, BN), sample0 = (size_t)blockIdx.x * (64 * G);
    const size_t col0 = (size_t)blockIdx.y * BN, n = o.now->n;
    const uint32_t stages = (*o.active.n + 63) / 64, each = (stages + gridDim.z - 1) / gridDim.z;
    const uint32_t begin = min(stages, blockIdx.z * each), end = min(stages, begin + each);
    if (sample0 >= n) return;
    const struct operands x = { (const bf16 *)o.e + (size_t)begin * 64 * o.lde + sample0,
                                (const bf16 *)o.w_panel + (size_t)begin * 64 * k + col0, o.lde, k,
                                (int)(end - begin) };
    results acc[1];
    product<G, 1, HIDDEN_STAGES, true>(acc, x, shared_at(align_pool(pool)), [](int, int) {});
    const size_t i = sample0 + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    float *to = o.parts + (blockIdx.z * up(o.batch, BM) + i) * k + col0 + threadIdx.x % 4 * 2;
#pragma unroll
    for (int b = 0; b < 16; b++)
#pragma unroll
        for (int v = 0; v < 2; v++)
            if (i + 8 * v < n)
                *(float2 *)(to + 8 * v * k + 8 * b) =
                    make_float2(acc[0][b][2 * v], acc[0][b][2 * v + 1]);
#endif
}

/* ---- rows ---- */

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

static __device__ float dot8(uint4 a, const float *f)
{
    float4 b = *(const float4 *)f, c = *(const float4 *)(f + 4);
    float low = __uint_as_float(a.x << 16) * b.x + __uint_as_float(a.x & 0xffff0000u) * b.y +
                __uint_as_float(a.y << 16) * b.z + __uint_as_float(a.y & 0xffff0000u) * b.w;
    return low + (__uint_as_float(a.z << 16) * c.x + __uint_as_float(a.z & 0xffff0000u) * c.y +
                  __uint_as_float(a.w << 16) * c.z + __uint_as_float(a.w & 0xffff0000u) * c.w);
}

static __device__ void fetch(const void *p)
{
    asm volatile("prefetch.global.L2 [%0];" : : "l"(p));
}

/* Asks for what moving the rows reads: it comes while the gradient is summed. */
static __device__ void fetch_rows(const struct wisp_dout &o, const int32_t *active, int n)
{
    const int lines = (int)(o.width + 31) / 32;
    for (int e = threadIdx.x; e < n * lines; e += blockDim.x) {
        size_t row = (size_t)active[e / lines], at = row * o.width + e % lines * 32;
        if (o.w.w) fetch(o.w.w + at);
        else fetch(o.w.b16 + at);
        if (o.opt.kind == WISP_ADAM || o.opt.kind == WISP_SGD) fetch(o.w.m + at);
        if (o.opt.kind == WISP_ADAM) fetch(o.w.v + at);
    }
}

/* Moves n rows by the gradients in 'tile', a warp AHEAD rows at a time: their numbers are read
 * before the first is used. */
template <int NB>
static __device__ __forceinline__ void move(const struct wisp_dout &o, const int32_t *active, int n,
                                            const float *tile)
{
    constexpr int AHEAD = 4 / NB, STRIDE = NB * BN + 8;
    const int lane = threadIdx.x % 32, all = (int)blockDim.x / 32 * AHEAD, width = (int)o.width;
    const float lr = o.now->lr;
    const uint64_t step = o.now->step;
#pragma unroll 1
    for (int first = (int)threadIdx.x / 32 * AHEAD; first < n; first += all) {
        struct wisp_dcols x[AHEAD][NB];
        float4 g[AHEAD][NB];
        size_t row[AHEAD];
        float kept[AHEAD], square[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) row[a] = (size_t)active[min(first + a, n - 1)];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            const float *home = wisp_dkept(o.opt, o.w, row[a]);
            kept[a] = home ? *home : 0;
#pragma unroll
            for (int j = 0; j < NB; j++) {
                const int c = j * BN + 4 * lane;
                x[a][j] = wisp_dcols_of(o.opt, o.w, row[a], c < width ? c : 0);
            }
        }
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            square[a] = 0;
#pragma unroll
            for (int j = 0; j < NB; j++) {
                const int c = j * BN + 4 * lane;
                float4 v = *(const float4 *)(tile + min(first + a, n - 1) * STRIDE + c);
                if (c >= width) v = make_float4(0, 0, 0, 0);
                square[a] += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
                g[a][j] = v;
            }
        }
#pragma unroll
        for (int d = 16; d > 0; d /= 2)
#pragma unroll
            for (int a = 0; a < AHEAD; a++) square[a] += __shfl_xor_sync(WISP_WARP, square[a], d);
        __syncwarp(); /* all lanes have read what is kept */
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            if (first + a >= n) break;
            const struct wisp_dpace pace =
                wisp_dpace_of(o.opt, o.w, row[a], &kept[a], square[a] / (float)width, lr, step);
            float *home = wisp_dkept(o.opt, o.w, row[a]);
            if (lane == 0 && home) *home = kept[a];
            if (!pace.moves) continue;
#pragma unroll
            for (int j = 0; j < NB; j++) {
                const int c = j * BN + 4 * lane;
                if (c < width) wisp_dcols_move(o.opt, o.w, row[a], c, x[a][j], g[a][j], pace);
            }
        }
    }
}
#endif

static __host__ __device__ constexpr size_t rows_ring(int g, int nb)
{
    return (size_t)ROWS_STAGES * (g + 2 * nb) * BOX;
}

/* Shared memory: the ring, then the gradients; factors.  MOVE: else the gradient is written. */
template <int G, int NB, bool MOVE>
__global__ static void __launch_bounds__(G *GROUP, NB == 1 ? 2 : 1) rows(const struct wisp_dout o)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    constexpr int STRIDE = NB * BN + 8, STAGE = (G + 2 * NB) * BOX;
    static_assert(64 * G * STRIDE * sizeof(float) <= rows_ring(G, NB), "the gradients");
    __shared__ float heats[64 * G];
    extern __shared__ unsigned char pool[];
    const size_t k = NB * BN, row0 = (size_t)blockIdx.x * (64 * G), n = o.now->n;
    const uint32_t n_rows = *o.active.n;
    if (row0 >= n_rows || n == 0) return;
    const int32_t *active = o.active.rows + row0;
    const int here = n_rows - row0 < 64 * G ? (int)(n_rows - row0) : 64 * G, stages = (n + 63) / 64;
    unsigned char *ring = align_pool(pool);
    float *factor = (float *)(ring + rows_ring(G, NB)), *tile = (float *)ring;
    for (int i = threadIdx.x; i < 64 * stages; i += G * GROUP) factor[i] = o.factor[i];
    if (MOVE) fetch_rows(o, active, here);
    const struct operands x = { (const bf16 *)o.e + row0 * o.lde, (const bf16 *)o.fh_panel, o.lde,
                                k, stages };
    /* two threads per row add up E times the factor on the way; beyond n the factors are 0 */
    const int row = threadIdx.x / 2, first = threadIdx.x % 2 * 4;
    float heat = 0;
    auto warm = [&](int slot, int s) {
        const unsigned char *e = ring + slot * STAGE + row * 128;
#pragma unroll
        for (int p = first; p < first + 4; p++)
            heat += dot8(*(const uint4 *)(e + ((p ^ row % 8) << 4)), factor + 64 * s + 8 * p);
    };
    results acc[NB];
    product<G, NB, ROWS_STAGES, false>(acc, x, shared_at(ring), warm);
    heat += __shfl_xor_sync(WISP_WARP, heat, 1);
    if (threadIdx.x % 2 == 0) {
        heats[row] = heat;
        if (row < here) o.heat[row0 + row] = heat;
    }
    float *to =
        tile + (threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4) * STRIDE + threadIdx.x % 4 * 2;
#pragma unroll
    for (int b = 0; b < 16 * NB; b++)
#pragma unroll
        for (int v = 0; v < 2; v++)
            *(float2 *)(to + 8 * v * STRIDE + 8 * b) =
                make_float2(acc[b / 16][b % 16][2 * v], acc[b / 16][b % 16][2 * v + 1]);
    __syncthreads();
    if (MOVE) {
        if ((int)threadIdx.x < here)
            wisp_dmove_one(o.opt, o.bias, (size_t)active[threadIdx.x], heats[threadIdx.x],
                           o.now->lr);
        move<NB>(o, active, here, tile);
    } else {
        for (int e = threadIdx.x; e < here * (NB * BN / 4); e += G * GROUP) {
            const int r = e / (NB * BN / 4), c = e % (NB * BN / 4) * 4;
            *(float4 *)(o.grad + (row0 + r) * k + c) = *(const float4 *)(tile + r * STRIDE + c);
        }
    }
#endif
}

/* ---- launches ---- */

static size_t groups_of(const struct wisp_dout &o)
{
    return o.batch <= FEW ? 1 : 2;
}

/* Of shared memory: what moving rows takes, which grows with the samples. */
static size_t rows_bytes(const struct wisp_dout &o)
{
    const int g = (int)groups_of(o), nb = (int)(up(o.width, BN) / BN);
    return rows_ring(g, nb) + up(o.batch, BN) * sizeof(float) + 1024;
}

bool wisp_out_has_wgmma(const struct wisp_dout &o)
{
    struct cudaFuncAttributes a = {};
    int device = 0, major = 0, shared = 0;
    if (o.precision != WISP_IN_BF16 || o.width > MOST_WIDTH) return false;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) !=
            cudaSuccess)
        return false;
    /* elsewhere the kernels are empty, which shows in their static shared memory */
    return major == 9 && shared >= 200 << 10 && rows_bytes(o) + 1024 <= (size_t)shared &&
           cudaFuncGetAttributes(&a, (const void *)logits<WISP_SOFTMAX, true>) == cudaSuccess &&
           a.sharedSizeBytes > 0;
}

bool wisp_out_wgmma_gathers(const struct wisp_dout &o)
{
    return !near_rows(o);
}

/* All of a multiprocessor's memory for sharing: blocks of other kernels are to fit beside. */
static void allow(const void *kernel, size_t bytes)
{
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                         cudaSharedmemCarveoutMaxShared);
}

void wisp_out_wgmma_logits(const struct wisp_dout &o, cudaStream_t s)
{
    const size_t chunks = up(o.width, 64) / 64, bytes = 4 * chunks * BOX + 1024;
    const size_t tiles = up(o.active.room, BM) / BM, across = o.lde / BN;
    size_t blocks = BLOCKS / across > 0 ? BLOCKS / across : 1;
    if (blocks > tiles) blocks = tiles;
    if (blocks == 0 || across == 0) return;
    static void (*const kernels[2][2])(const struct wisp_dout, int) = {
        { logits<WISP_SOFTMAX, false>, logits<WISP_SOFTMAX, true> },
        { logits<WISP_BCE, false>, logits<WISP_BCE, true> }
    };
    auto kernel = kernels[o.loss == WISP_BCE][!wisp_out_wgmma_gathers(o)];
    allow((const void *)kernel, bytes);
    kernel<<<dim3((unsigned)blocks, (unsigned)across), 2 * GROUP, bytes, s>>>(o, (int)chunks);
}

size_t wisp_out_wgmma_splits(const struct wisp_dout &o)
{
    size_t side = 64 * groups_of(o), tiles = up(o.batch, side) / side * (up(o.width, BN) / BN);
    size_t splits = 132 / (tiles ? tiles : 1);
    return splits < 1 ? 1 : splits > 32 ? 32 : splits;
}

void wisp_out_wgmma_hidden(const struct wisp_dout &o, cudaStream_t s)
{
    const size_t g = groups_of(o), bytes = HIDDEN_STAGES * (g + 2) * BOX + 1024;
    const dim3 grid((unsigned)(up(o.batch, 64 * g) / (64 * g)), (unsigned)(up(o.width, BN) / BN),
                    (unsigned)wisp_out_wgmma_splits(o));
    auto kernel = g == 1 ? hidden<1> : hidden<2>;
    if (grid.x == 0) return;
    allow((const void *)kernel, bytes);
    kernel<<<grid, (unsigned)g * GROUP, bytes, s>>>(o);
}

bool wisp_out_wgmma_rows(const struct wisp_dout &o, cudaStream_t s)
{
    static void (*const kernels[2][2][2])(const struct wisp_dout) = {
        { { rows<1, 1, false>, rows<1, 1, true> }, { rows<1, 2, false>, rows<1, 2, true> } },
        { { rows<2, 1, false>, rows<2, 1, true> }, { rows<2, 2, false>, rows<2, 2, true> } }
    };
    const size_t g = groups_of(o), nb = up(o.width, BN) / BN;
    const size_t bytes = rows_bytes(o);
    const size_t blocks = up(o.active.room, 64 * g) / (64 * g);
    auto kernel = kernels[g - 1][nb - 1][!o.outside];
    if (blocks == 0) return true;
    allow((const void *)kernel, bytes);
    kernel<<<(unsigned)blocks, (unsigned)g * GROUP, bytes, s>>>(o);
    return !o.outside;
}

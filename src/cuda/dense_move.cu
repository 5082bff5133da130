/* The weights of a large dense layer move (dense.cu): x^T back on tensor cores, and the optimiser's
 * pass over what comes out, where it comes out.
 *
 *   gradient (in, out) = x^T back      x (n, in), back (n, out), floats rounded to TF32
 *   rows of W move by it, and the bias by the sums of back
 *
 * A block has 128 x 128 of the weights.  32 samples at a time of both operands lie in shared memory
 * as they lie in memory, (sample, place), the next 32 are on their way meanwhile; eight warps have 64
 * x 32 sums each.  Then the sums lie where the samples were, and a warp moves 128 columns of a row at
 * a time.  So a gradient is never written: SGD reads and writes 18 bytes per weight with its copy in
 * bf16, and that is the time it takes (25088 x 4096 and 64 samples: 1.9 GB, 13 GFLOP).
 *
 * AdaGrad needs the mean of a row's squares before it moves: the gradient is written instead, and
 * rows move after it. */
#include "cuda/dense.cuh"
#include "cuda/mma.cuh"
#include "cuda/update.cuh"
#include "cuda/wgmma.cuh"

enum { SIDE = 128, DEPTH = 32, STRIDE = SIDE + 8, THREADS = 256, STAGES = 2 };
enum { HIGH = 64, WIDE = 32, FRAGMENTS = HIGH / 16, COLUMNS = WIDE / 8 }; /* of a warp */
enum { TILE = DEPTH * STRIDE, OUT_STRIDE = SIDE + 4, AT_ONCE = 4 };
enum { BYTES = STAGES * 2 * TILE * 4 + SIDE * 4 };
static_assert(STAGES * 2 * TILE >= SIDE * OUT_STRIDE, "the sums fit where the samples were");
static_assert(THREADS / 32 == SIDE / HIGH * (SIDE / WIDE), "each warp has its part");

struct work {
    const struct wisp_dnow *now;
    size_t in, out;
    const float *x, *back;
    struct wisp_dopt opt;
    struct wisp_dparam w, bias;
    size_t first, end; /* rows of the weights; with the first of all the bias moves */
    float *grad;       /* (in + 1, out), not NULL: set instead */
};

/* Samples from k on, of 128 places from 'first' of 'width'. */
static __device__ void copy_tile(float *to, const float *from, size_t width, size_t first, size_t k,
                                 size_t n)
{
    for (uint32_t i = threadIdx.x; i < DEPTH * SIDE / 4; i += THREADS) {
        const size_t sample = k + i / (SIDE / 4), place = first + i % (SIDE / 4) * 4;
        const bool there = sample < n && place < width;
        copy16(shared_at(to + i / (SIDE / 4) * STRIDE + i % (SIDE / 4) * 4),
               there ? from + sample * width + place : from, there);
    }
}

static __device__ uint32_t rounded(float x)
{
    return wisp_tf32(__float_as_uint(x));
}

static __device__ void multiply(float (&d)[FRAGMENTS][COLUMNS][4], const float *a, const float *b)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    a += lane % 4 * STRIDE + warp / (SIDE / WIDE) * HIGH + lane / 4;
    b += lane % 4 * STRIDE + warp % (SIDE / WIDE) * WIDE + lane / 4;
#pragma unroll
    for (int k = 0; k < DEPTH; k += 8, a += 8 * STRIDE, b += 8 * STRIDE) {
        uint32_t y[COLUMNS][2];
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            y[j][0] = rounded(b[8 * j]), y[j][1] = rounded(b[8 * j + 4 * STRIDE]);
#pragma unroll
        for (int i = 0; i < FRAGMENTS; i++) {
            const float *p = a + 16 * i;
            const uint32_t x[4] = { rounded(p[0]), rounded(p[8]), rounded(p[4 * STRIDE]),
                                    rounded(p[4 * STRIDE + 8]) };
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) wisp_mma<float>(d[i][j], x, y[j][0], y[j][1]);
        }
    }
}

static __device__ void lay_sums(float *to, const float (&d)[FRAGMENTS][COLUMNS][4])
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t row = warp / (SIDE / WIDE) * HIGH + lane / 4;
    const uint32_t col = warp % (SIDE / WIDE) * WIDE + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < FRAGMENTS; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            float *p = to + (row + 16 * i) * OUT_STRIDE + col + 8 * j;
            *(float2 *)p = make_float2(d[i][j][0], d[i][j][1]);
            *(float2 *)(p + 8 * OUT_STRIDE) = make_float2(d[i][j][2], d[i][j][3]);
        }
}

/* Four columns of a row of p; what the optimiser keeps of the row is moved by count_rows. */
static __device__ void move(const struct work &t, const struct wisp_dparam &p, size_t row, size_t c,
                            const struct wisp_dcols &x, float4 g)
{
    const float *home = wisp_dkept(t.opt, p, row);
    float kept = home ? *home : 0;
    const struct wisp_dpace pace = wisp_dpace_of(t.opt, p, row, &kept, 0, t.now->lr, t.now->step);
    wisp_dcols_move(t.opt, p, row, c, x, g, pace);
}

/* This warp's rows of the sums, some at a time so that their weights are on their way together. */
static __device__ void move_rows(const struct work &t, const float *sums, size_t row, size_t col)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t c = col + 4 * lane;
    if (c >= t.out) return;
    for (uint32_t first = warp; first < SIDE; first += THREADS / 32 * AT_ONCE) {
        struct wisp_dcols x[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const size_t r = row + first + i * (THREADS / 32);
            if (r < t.end && !t.grad) x[i] = wisp_dcols_of(t.opt, t.w, r, c);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const uint32_t place = first + i * (THREADS / 32);
            const size_t r = row + place;
            const float4 g = *(const float4 *)(sums + place * OUT_STRIDE + 4 * lane);
            if (r >= t.end) continue;
            if (t.grad) *(float4 *)(t.grad + r * t.out + c) = g;
            else move(t, t.w, r, c, x[i], g);
        }
    }
}

/* sums (128) of back: the bias's gradient. */
static __device__ void move_bias(const struct work &t, const float *sums, size_t col)
{
    const size_t c = col + 4 * threadIdx.x;
    if (threadIdx.x >= SIDE / 4 || c >= t.out) return;
    const float4 g = *(const float4 *)(sums + 4 * threadIdx.x);
    if (t.grad) *(float4 *)(t.grad + t.in * t.out + c) = g;
    else move(t, t.bias, 0, c, wisp_dcols_of(t.opt, t.bias, 0, c), g);
}

__global__ static void __launch_bounds__(THREADS, 2)
    multiply_and_move(const __grid_constant__ struct work t)
{
    extern __shared__ __align__(16) unsigned char room[];
    float *pool = (float *)room, *sums = pool + STAGES * 2 * TILE;
    const size_t n = t.now->n, row = t.first + (size_t)blockIdx.y * SIDE,
                 col = (size_t)blockIdx.x * SIDE;
    if (n == 0) return;
    float d[FRAGMENTS][COLUMNS][4] = {}, sum = 0;
    copy_tile(pool, t.x, t.in, row, 0, n);
    copy_tile(pool + TILE, t.back, t.out, col, 0, n);
    copy_commit();
    int turn = 0;
    for (size_t k = 0; k < n; k += DEPTH, turn ^= 1) {
        float *a = pool + turn * 2 * TILE, *next = pool + (turn ^ 1) * 2 * TILE;
        if (k + DEPTH < n) {
            copy_tile(next, t.x, t.in, row, k + DEPTH, n);
            copy_tile(next + TILE, t.back, t.out, col, k + DEPTH, n);
        }
        copy_commit();
        copy_wait<1>();
        __syncthreads();
        multiply(d, a, a + TILE);
        if (row == 0 && threadIdx.x < SIDE)
            for (int i = 0; i < DEPTH; i++) sum += a[TILE + i * STRIDE + threadIdx.x];
        __syncthreads(); /* all are done with what the next but one is copied over */
    }
    lay_sums(pool, d);
    if (threadIdx.x < SIDE) sums[threadIdx.x] = sum;
    __syncthreads();
    move_rows(t, pool, row, col);
    if (row == 0) move_bias(t, sums, col);
}

/* What Adam counts of each row; the one after the last is the bias. */
__global__ static void __launch_bounds__(THREADS) count_rows(const __grid_constant__ struct work t)
{
    const size_t row = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (t.now->n == 0 || row > t.in) return;
    const struct wisp_dparam &p = row < t.in ? t.w : t.bias;
    float *home = wisp_dkept(t.opt, p, row < t.in ? row : 0), kept = *home;
    wisp_dpace_of(t.opt, p, 0, &kept, 0, t.now->lr, t.now->step);
    *home = kept;
}

bool wisp_dense_moves(void)
{
    return wisp_dconv_capability() >= 80 && wisp_dshared() >= BYTES;
}

size_t wisp_dense_move_floats(const struct wisp_dnode &l, const struct wisp_dnet &n)
{
    return n.opt.kind == WISP_ADAGRAD ? (l.l->n_in + 1) * l.l->n_out : 0;
}

static struct work work_of(const struct wisp_dnet &n, const struct wisp_dnode &l)
{
    const size_t in = l.l->n_in, out = l.l->n_out;
    return { n.now,      in, out, wisp_dread(n, l).x, wisp_dgiven(n, l).g, n.opt, l.param[0],
             l.param[1], 0,  in };
}

/* With the last rows what Adam counts, which they are moved by. */
static void launch(const struct wisp_dnet &n, const struct work &t, cudaStream_t s)
{
    const dim3 grid((unsigned)wisp_parts(t.out, SIDE), (unsigned)wisp_parts(t.end - t.first, SIDE));
    cudaFuncSetAttribute(multiply_and_move, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
    multiply_and_move<<<grid, THREADS, BYTES, s>>>(t);
    if (n.opt.kind == WISP_ADAM && t.end == t.in)
        count_rows<<<(unsigned)wisp_parts(t.in + 1, THREADS), THREADS, 0, s>>>(t);
}

void wisp_dense_move(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    struct work t = work_of(n, l);
    if (n.opt.kind == WISP_ADAGRAD) t.grad = l.scratch;
    launch(n, t, s);
    if (t.grad) wisp_dense_move_by(n, l, t.grad, s);
}

size_t wisp_dense_some(const struct wisp_dnet &n)
{
    return n.opt.kind == WISP_ADAGRAD ? 0 : SIDE;
}

/* State is found by the numbers of its rows: it seems to begin where that of row 0 would be. */
void wisp_dense_move_some(const struct wisp_dnet &n, const struct wisp_dnode &l, size_t first,
                          size_t rows, float *m, float *v, cudaStream_t s)
{
    struct work t = work_of(n, l);
    t.first = first, t.end = first + rows;
    t.w.m = m ? m - first * t.out : NULL, t.w.v = v ? v - first * t.out : NULL;
    launch(n, t, s);
}

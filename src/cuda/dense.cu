/* Dense layers: layer/dense.c, on the card.
 *
 *   forward   h (n, out) = after(x W + bias)           x (n, in), W (in, out)
 *   back      back of the layer before = its after backwards of (back W^T), with W as it was
 *             gradient (in + 1, out) = x^T back, the last row: the bias, as if of an input of 1
 *             rows of W, and the bias, move
 *
 * All three products are one routine in fp32: a block makes 32 x 32 numbers.  32 of the sum's terms
 * at a time lie in shared memory, both operands as (term, place); four groups of 64 threads take 8
 * terms each, for all 32 x 32 numbers, 4 x 4 per thread, and the groups' sums are added in order.
 * So a sum depends on its length alone, and even 256 x 512 numbers keep 128 blocks of 8 warps busy.
 *
 * 256 samples, 512 x 512: 3 x 134 MFLOP, 3 x 2.4 us if nothing but multiply-adds took time; 1 MB of
 * W with its moments and 1 MB of gradient: 2 us from the cache. */
#include "cuda/kind.cuh"
#include "cuda/update.cuh"

enum { SIDE = 32, DEPTH = 32, STRIDE = SIDE + 4, GROUPS = 4, THREADS = 256 };
enum { EACH = DEPTH / GROUPS }; /* terms of a group */
static_assert(THREADS == GROUPS * 64 && SIDE * DEPTH == 4 * THREADS, "four numbers per thread");
static_assert(2 * 2 * DEPTH * STRIDE >= GROUPS * SIDE * SIDE, "the groups' sums fit, too");

enum way { FORWARD, BELOW, WEIGHTS };

struct product { /* to (rows, cols) = a b, of depth terms */
    const struct wisp_dnow *now;
    const float *a, *b;
    size_t rows, cols, depth; /* rows of FORWARD and BELOW, depth of WEIGHTS: n is in its place */
    float *to;
    const float *bias;        /* FORWARD: (cols) */
    struct wisp_dafter after; /* FORWARD: is done to the sums; BELOW: what was done to */
    const float *h;           /* (rows, cols) gave this */
};

/* ---- the product ---- */

/* An operand is stored with its terms side by side (ALONG, x[m * ld + k]) or its places (x[k * ld +
 * m]).  Where a thread's four numbers of 32 x 32 lie: along, two threads take the 32 bytes of a
 * sector, and a warp 16 places, so that no two write to one bank. */
template <bool ALONG> static __device__ uint32_t place_of(uint32_t t)
{
    return ALONG ? t / 128 * 16 + t % 32 / 2 : t % 8 * 4;
}
template <bool ALONG> static __device__ uint32_t term_of(uint32_t t)
{
    return ALONG ? (t / 32 % 4 * 2 + t % 2) * 4 : t / 8;
}

/* This thread's four of the piece from place m0, term k0 on; zeros beyond m_end and k_end, of which
 * the one that lies side by side is a multiple of 4.  ones: place m_end has 1 for every term. */
template <bool ALONG, bool ONES>
static __device__ float4 load(const float *x, size_t ld, size_t m0, size_t k0, size_t m_end,
                              size_t k_end)
{
    const size_t m = m0 + place_of<ALONG>(threadIdx.x), k = k0 + term_of<ALONG>(threadIdx.x);
    if (k >= k_end || m > m_end || (m == m_end && !ONES)) return make_float4(0, 0, 0, 0);
    if (ONES && m == m_end) return make_float4(1, 0, 0, 0);
    return *(const float4 *)(x + (ALONG ? m * ld + k : k * ld + m));
}

template <bool ALONG> static __device__ void store(float *to, float4 x)
{
    float *p = to + term_of<ALONG>(threadIdx.x) * STRIDE + place_of<ALONG>(threadIdx.x);
    if (!ALONG) {
        *(float4 *)p = x;
        return;
    }
    p[0] = x.x, p[STRIDE] = x.y, p[2 * STRIDE] = x.z, p[3 * STRIDE] = x.w;
}

/* This thread's 4 x 4 sums of its group's terms of a piece. */
static __device__ void multiply(float (&sum)[4][4], const float *a, const float *b)
{
    const uint32_t group = threadIdx.x / 64, u = threadIdx.x % 64;
    a += group * EACH * STRIDE + u / 8 * 4, b += group * EACH * STRIDE + u % 8 * 4;
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const float4 x = *(const float4 *)(a + k * STRIDE), y = *(const float4 *)(b + k * STRIDE);
        const float xs[4] = { x.x, x.y, x.z, x.w }, ys[4] = { y.x, y.y, y.z, y.w };
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) sum[i][j] += xs[i] * ys[j];
    }
}

/* The sums of all groups, added: four of a row, which are this thread's. */
static __device__ float4 add_groups(float *pool, const float (&sum)[4][4])
{
    const uint32_t group = threadIdx.x / 64, u = threadIdx.x % 64;
    float *mine = pool + group * SIDE * SIDE + u / 8 * 4 * SIDE + u % 8 * 4;
    __syncthreads(); /* the last piece is done with */
#pragma unroll
    for (int i = 0; i < 4; i++)
        *(float4 *)(mine + i * SIDE) = make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
    __syncthreads();
    float4 all = ((const float4 *)pool)[threadIdx.x];
    for (int g = 1; g < GROUPS; g++) {
        const float4 x = ((const float4 *)(pool + g * SIDE * SIDE))[threadIdx.x];
        all.x += x.x, all.y += x.y, all.z += x.z, all.w += x.w;
    }
    return all;
}

template <enum way WAY>
__global__ static void __launch_bounds__(THREADS) multiply_all(const struct product p)
{
    constexpr bool A_ALONG = WAY != WEIGHTS, B_ALONG = WAY == BELOW, ONES = WAY == WEIGHTS;
    __shared__ __align__(16) float pool[2 * 2 * DEPTH * STRIDE]; /* two pieces of a and of b */
    const size_t n = p.now->n, rows = ONES ? p.rows : n, depth = ONES ? n : p.depth;
    const size_t lda = ONES ? p.rows : p.depth, ldb = B_ALONG ? p.depth : p.cols;
    const size_t row = (size_t)blockIdx.y * SIDE, col = (size_t)blockIdx.x * SIDE;
    if (n == 0 || (!ONES && row >= n)) return;
    float sum[4][4] = {};
    float4 a = load<A_ALONG, ONES>(p.a, lda, row, 0, rows, depth);
    float4 b = load<B_ALONG, false>(p.b, ldb, col, 0, p.cols, depth);
    int turn = 0;
    for (size_t k = 0; k < depth; k += DEPTH, turn ^= 1) {
        float *at = pool + turn * 2 * DEPTH * STRIDE, *bt = at + DEPTH * STRIDE;
        store<A_ALONG>(at, a), store<B_ALONG>(bt, b);
        __syncthreads(); /* also: all are done with the piece before the last, which comes next */
        if (k + DEPTH < depth) {
            a = load<A_ALONG, ONES>(p.a, lda, row, k + DEPTH, rows, depth);
            b = load<B_ALONG, false>(p.b, ldb, col, k + DEPTH, p.cols, depth);
        }
        multiply(sum, at, bt);
    }
    float4 x = add_groups(pool, sum);
    const size_t i = row + threadIdx.x / 8, c = col + threadIdx.x % 8 * 4, to = i * p.cols + c;
    if (c >= p.cols || (ONES ? i > rows : i >= rows)) return;
    if (WAY == FORWARD) {
        const float4 y = *(const float4 *)(p.bias + c);
        x.x += y.x, x.y += y.y, x.z += y.z, x.w += y.w;
        x = wisp_dafter_on(p.after, p.now, to, x);
    }
    if (WAY == BELOW) x = wisp_dafter_back(p.after, p.now, to, p.h, x);
    *(float4 *)(p.to + to) = x;
}

static dim3 tiles(size_t rows, size_t cols)
{
    return dim3((unsigned)((cols + SIDE - 1) / SIDE), (unsigned)((rows + SIDE - 1) / SIDE));
}

/* ---- the layer ---- */

enum { WEIGHT, BIAS }; /* parameters */

static void forward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const size_t n_in = l.l->n_in, n_out = l.l->n_out;
    const struct wisp_dact &out = wisp_dgiven(n, l);
    struct product p = { n.now, wisp_dread(n, l).x, l.param[WEIGHT].w, n.batch, n_out, n_in };
    p.to = out.x, p.bias = l.param[BIAS].w, p.after = out.after;
    multiply_all<FORWARD><<<tiles(n.batch, n_out), THREADS, 0, s>>>(p);
}

/* One warp per row of W; the row after the last is the bias. */
__global__ static void __launch_bounds__(THREADS)
    move_rows(const struct wisp_dnow *now, const __grid_constant__ struct wisp_dopt opt,
              const __grid_constant__ struct wisp_dparam w,
              const __grid_constant__ struct wisp_dparam bias, const float *grad)
{
    const size_t row = (size_t)blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (now->n == 0 || row > w.rows) return;
    const float *g = grad + row * w.cols;
    if (row < w.rows) wisp_dmove(opt, w, row, g, now->lr, now->step);
    else wisp_dmove(opt, bias, 0, g, now->lr, now->step);
}

static void backward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const size_t n_in = l.l->n_in, n_out = l.l->n_out;
    const struct wisp_dact &in = wisp_dread(n, l);
    const float *back = wisp_dgiven(n, l).g;
    struct product below = { n.now, back, l.param[WEIGHT].w, n.batch, n_in, n_out };
    below.to = l.gx[0], below.after = in.after, below.h = in.x;
    multiply_all<BELOW><<<tiles(n.batch, n_in), THREADS, 0, s>>>(below);
    struct product weights = { n.now, in.x, back, n_in, n_out, n.batch };
    weights.to = l.scratch;
    multiply_all<WEIGHTS><<<tiles(n_in + 1, n_out), THREADS, 0, s>>>(weights);
    const unsigned blocks = (unsigned)((n_in + THREADS / 32) / (THREADS / 32));
    move_rows<<<blocks, THREADS, 0, s>>>(n.now, n.opt, l.param[WEIGHT], l.param[BIAS], l.scratch);
}

static size_t scratch(const struct wisp_dnode &l, const struct wisp_dnet &)
{
    return (l.l->n_in + 1) * l.l->n_out;
}

static struct wisp_card_kind filled()
{
    struct wisp_card_kind k = {};
    k.name = "dense", k.forms = WISP_FLAT, k.takes = WISP_FUSE_RELU | WISP_FUSE_DROPOUT,
    k.lacks = wisp_card_width;
    k.uses = WISP_USES_X;
    k.scratch = scratch, k.forward = forward, k.backward = backward;
    return k;
}
const struct wisp_card_kind wisp_card_dense = filled();

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
 * W with its moments and 1 MB of gradient: 2 us from the cache.
 *
 * Where products may be rounded (net.math) and W is large, tensor cores do it: forward and below by
 * cuBLAS where it is found, of operands rounded to bf16 or TF32, and what is done to sums follows;
 * the weights by dense_move.cu.
 *
 *   front     x in bf16 | work of the library        scratch   back in bf16 | the same; or, after
 *   that, what dense_move.cu takes */
#include "cuda/blas.cuh"
#include "cuda/dense.cuh"
#include "cuda/quad.cuh"
#include "cuda/trainer.cuh"
#include "cuda/update.cuh"

#include <new>

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

static void plain_forward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
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

void wisp_dense_move_by(const struct wisp_dnet &n, const struct wisp_dnode &l, const float *grad,
                        cudaStream_t s)
{
    const unsigned blocks = (unsigned)wisp_parts(l.l->n_in + 1, THREADS / 32);
    move_rows<<<blocks, THREADS, 0, s>>>(n.now, n.opt, l.param[WEIGHT], l.param[BIAS], grad);
}

static void plain_below(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const size_t n_in = l.l->n_in, n_out = l.l->n_out;
    const struct wisp_dact &in = wisp_dread(n, l);
    struct product p = { n.now, wisp_dgiven(n, l).g, l.param[WEIGHT].w, n.batch, n_in, n_out };
    p.to = l.gx[0], p.after = in.after, p.h = in.x;
    multiply_all<BELOW><<<tiles(n.batch, n_in), THREADS, 0, s>>>(p);
}

static void plain_weights(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const size_t n_in = l.l->n_in, n_out = l.l->n_out;
    struct product p = { n.now, wisp_dread(n, l).x, wisp_dgiven(n, l).g, n_in, n_out, n.batch };
    p.to = l.scratch;
    multiply_all<WEIGHTS><<<tiles(n_in + 1, n_out), THREADS, 0, s>>>(p);
    wisp_dense_move_by(n, l, l.scratch, s);
}

/* ---- by tensor cores ---- */

struct made {
    struct wisp_dblas *forward, *below; /* both, or none */
    bool moves;                         /* by dense_move.cu */
};

static const struct made *made_of(const struct wisp_dnode &l)
{
    return (const struct made *)l.made;
}
static bool by_library(const struct wisp_dnode &l)
{
    return l.made && made_of(l)->forward;
}
static bool moves(const struct wisp_dnode &l)
{
    return l.made && made_of(l)->moves;
}

static void clear(struct wisp_dnode *l)
{
    struct made *m = (struct made *)l->made;
    wisp_dblas_free(m->forward), wisp_dblas_free(m->below);
    delete m;
    l->made = NULL;
}

static wisp_status make(struct wisp_dnode *l, const struct wisp_dnet &n, wisp_error *err)
{
    const size_t n_in = l->l->n_in, n_out = l->l->n_out;
    const bool half = n.math == WISP_DCONV_BF16;
    if (n.math == WISP_DCONV_FP32 || n_in * n_out < n.large) return WISP_OK;
    struct made *m = new (std::nothrow) made{};
    l->made = m;
    if (!m) return wisp_dfail(err, WISP_ENOMEM, "no memory left for the card's plan");
    const struct wisp_dblas_sizes forward = { n.batch, n_out, n_in, false, half };
    const struct wisp_dblas_sizes below = { n.batch, n_in, n_out, true, half };
    m->moves = wisp_dense_moves();
    m->forward = wisp_dblas_make(&forward);
    if (m->forward) m->below = wisp_dblas_make(&below);
    if (m->below) return WISP_OK;
    wisp_dblas_free(m->forward);
    m->forward = NULL;
    return WISP_OK;
}

static bool halves(const struct wisp_dnode &l)
{
    return by_library(l);
}

/* Floats of an operand in bf16, which keep what follows at a multiple of 256 bytes. */
static size_t operand(const struct wisp_dnet &n, size_t width)
{
    return n.math == WISP_DCONV_BF16 ? wisp_up(n.batch * width * 2, 256) / 4 : 0;
}
static size_t work(const struct wisp_dblas *p)
{
    return wisp_up(wisp_dblas_bytes(p), 256) / 4;
}

static size_t front(const struct wisp_dnode &l, const struct wisp_dnet &n)
{
    return by_library(l) ? operand(n, l.l->n_in) + work(made_of(l)->forward) : 0;
}

static size_t scratch(const struct wisp_dnode &l, const struct wisp_dnet &n)
{
    const size_t below = by_library(l) ? operand(n, l.l->n_out) + work(made_of(l)->below) : 0;
    const size_t grad = moves(l) ? wisp_dense_move_floats(l, n) : (l.l->n_in + 1) * l.l->n_out;
    return wisp_most(below, grad);
}

/* A library multiplies all samples that there is room for.  What lies where samples beyond the last
 * would be may be no number, so that they are 0 in what it is given (round_samples) or in what it
 * gave (finish, clear_beyond): nobody sees what memory held before. */
__global__ static void __launch_bounds__(THREADS)
    round_samples(const struct wisp_dnow *now, size_t width, size_t all, __nv_bfloat16 *to,
                  const float *from)
{
    const size_t at = 4 * ((size_t)blockIdx.x * THREADS + threadIdx.x);
    if (at >= all) return;
    const bool there = at < now->n * width;
    wisp_dquad_to(to + at, there ? wisp_dquad(from + at) : make_float4(0, 0, 0, 0));
}

__global__ static void __launch_bounds__(THREADS)
    clear_beyond(const struct wisp_dnow *now, size_t width, size_t all, float *x)
{
    const size_t at = 4 * ((size_t)blockIdx.x * THREADS + threadIdx.x);
    if (at >= now->n * width && at < all) *(float4 *)(x + at) = make_float4(0, 0, 0, 0);
}

/* y = after(y + bias) */
__global__ static void __launch_bounds__(THREADS)
    finish(const struct wisp_dnow *now, const struct wisp_dafter a, size_t width, size_t all,
           const float *bias, float *y)
{
    const size_t at = 4 * ((size_t)blockIdx.x * THREADS + threadIdx.x);
    if (at >= all) return;
    if (at >= now->n * width) {
        *(float4 *)(y + at) = make_float4(0, 0, 0, 0);
        return;
    }
    const float4 b = *(const float4 *)(bias + at % width);
    float4 x = *(const float4 *)(y + at);
    x.x += b.x, x.y += b.y, x.z += b.z, x.w += b.w;
    *(float4 *)(y + at) = wisp_dafter_on(a, now, at, x);
}

static unsigned quads(const struct wisp_dnet &n, size_t width)
{
    return (unsigned)wisp_parts(n.batch * width / 4, THREADS);
}

/* to = x W, or x W^T; x of 'width' numbers per sample. */
static void multiply_by(const struct wisp_dnet &n, const struct wisp_dnode &l,
                        const struct wisp_dblas *p, float *to, const float *x, size_t width,
                        float *work, cudaStream_t s)
{
    const bool half = n.math == WISP_DCONV_BF16;
    const void *w = half ? (const void *)l.param[WEIGHT].copy : l.param[WEIGHT].w, *a = x;
    if (half) {
        round_samples<<<quads(n, width), THREADS, 0, s>>>(n.now, width, n.batch * width,
                                                          (__nv_bfloat16 *)work, x);
        a = work;
    }
    if (wisp_dblas_run(p, to, a, w, work + operand(n, width), s) || n.refused != WISP_OK) return;
    n.refused = wisp_dfail(&n.why, WISP_ENOTSUP,
                           "--device cuda: %s refused a product that it had prepared (%zu samples, "
                           "%zu x %zu); use --device cpu",
                           wisp_dblas_library(), n.batch, l.l->n_in, l.l->n_out);
}

static void forward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wisp_dact &out = wisp_dgiven(n, l);
    if (!by_library(l)) {
        plain_forward(n, l, s);
        return;
    }
    multiply_by(n, l, made_of(l)->forward, out.x, wisp_dread(n, l).x, l.l->n_in, l.front, s);
    finish<<<quads(n, out.width), THREADS, 0, s>>>(n.now, out.after, out.width, n.batch * out.width,
                                                   l.param[BIAS].w, out.x);
}

static void backward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wisp_dact &in = wisp_dread(n, l);
    if (by_library(l)) {
        multiply_by(n, l, made_of(l)->below, l.gx[0], wisp_dgiven(n, l).g, l.l->n_out, l.scratch,
                    s);
        if (in.after.relu || in.after.drops) wisp_same_through(n, in, l.gx[0], l.gx[0], s);
        else if (n.math != WISP_DCONV_BF16) /* else they are 0 by those of the product */
            clear_beyond<<<quads(n, in.width), THREADS, 0, s>>>(n.now, in.width, n.batch * in.width,
                                                                l.gx[0]);
    } else {
        plain_below(n, l, s);
    }
}

static void move(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    if (moves(l)) wisp_dense_move(n, l, s);
    else plain_weights(n, l, s);
}

static size_t some(const struct wisp_dnode &l, const struct wisp_dnet &n)
{
    return moves(l) ? wisp_dense_some(n) : 0;
}

static struct wisp_card_kind filled()
{
    struct wisp_card_kind k = {};
    k.name = "dense", k.forms = WISP_FLAT, k.takes = WISP_FUSE_RELU | WISP_FUSE_DROPOUT,
    k.lacks = wisp_card_width;
    k.uses = WISP_USES_X;
    k.make = make, k.clear = clear, k.halves = halves, k.front = front;
    k.scratch = scratch, k.forward = forward, k.backward = backward, k.move = move;
    k.some = some, k.move_some = wisp_dense_move_some;
    return k;
}
const struct wisp_card_kind wisp_card_dense = filled();

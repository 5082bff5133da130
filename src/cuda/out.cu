/* The output layer on the active set: layer/output.c, on the card.
 *
 * With U active rows, n samples and K = width:
 *
 *     gather    panels of what the products read, side by side and filled up with zeros:
 *               w (U, K) the active rows, b (U) their biases, h (n, K)
 *     logits    Z (U, n) = w h^T + b;  E = exp(Z - origin), or sigmoid(Z), and sums of a tile's
 *               rows
 *     combine   over all tiles: loss and factor of a sample; E of its true labels less target /
 *               factor; the panel f h (out_combine.cu)
 *     hidden    g (n, K) = factor E^T w: the rows cut into parts, which are added in order
 *     rows      gradient (U, K) = E (f h), then each row and its bias move
 *
 * E (U, n) lies label-major like the CPU's; it is the only large thing (2 U n bytes in bf16) and
 * stays in the second-level cache.  Bounds at U = 6400, n = 256, K = 128: 3 x 0.42 GFLOP (2 us at
 * 600 TFLOP/s), and 3.3 MB of rows read and written plus E: 3 us.
 *
 * All three products are one routine (product): a block makes 64 x 128 numbers by 8 warps, 32 x 32
 * each, in the layout of the mma instruction's results; operands come through three stages of
 * shared memory and may be stored either way round.  T is bf16 (tensor cores, sums in float) or
 * float (plain multiply-adds; also what bf16 does on cards before sm_80). */
#include "cuda/out.cuh"
#include "cuda/update.cuh"

enum { THREADS = 256, STAGES = 3, A_BYTES = 5120, B_BYTES = 10240 };

template <class T> struct depth { /* of a stage: 64 bytes */
    static constexpr int K = 64 / (int)sizeof(T);
    static constexpr int PAD = 16 / (int)sizeof(T); /* keeps rows off each other's banks */
};

__device__ static void put2(float *to, float x, float y) /* at a multiple of two */
{
    *(float2 *)to = make_float2(x, y);
}
__device__ static void put2(__nv_bfloat16 *to, float x, float y)
{
    *(__nv_bfloat162 *)to = __floats2bfloat162_rn(x, y);
}
__device__ static void put4(float *to, float4 x)
{
    *(float4 *)to = x;
}
__device__ static void put4(__nv_bfloat16 *to, float4 x)
{
    __nv_bfloat162 a = __floats2bfloat162_rn(x.x, x.y), b = __floats2bfloat162_rn(x.z, x.w);
    *(uint2 *)to = make_uint2(*(uint32_t *)&a, *(uint32_t *)&b);
}

/* ---- copies into shared memory that do not wait ---- */

__device__ static void copy16(void *to, const void *from)
{
#if __CUDA_ARCH__ >= 800
    uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from));
#else
    *(uint4 *)to = *(const uint4 *)from;
#endif
}
__device__ static void copies_end(void) /* those since the last end belong together */
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#endif
}
__device__ static void copies_wait(void) /* all but the newest STAGES - 2 groups are there */
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
#endif
}
__device__ static void copies_wait_all(void)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group 0;");
#endif
}

/* ---- the product ---- */

/* How an operand is stored.  Along: the sum's index k is contiguous, at x[m * ld + k]; across: k
 * counts rows, x[k * ld + m].  SIDE is the tile's extent in m. */
template <class T, bool ALONG, int SIDE> struct operand {
    static constexpr int STRIDE = ALONG ? depth<T>::K + depth<T>::PAD : SIDE + depth<T>::PAD;
    static constexpr int EACH = 16 / (int)sizeof(T), A_ROW = ALONG ? 4 : SIDE / EACH;
    static constexpr int N = SIDE * 64 / 16 / THREADS; /* copies of a thread, in a stage */

    const T *from[N]; /* of the next stage */
    size_t step;

    __device__ operand(const T *x, size_t ld, size_t k0)
    {
        step = ALONG ? depth<T>::K : depth<T>::K * ld;
        for (int i = 0; i < N; i++) {
            size_t u = threadIdx.x + i * THREADS, row = u / A_ROW, at = u % A_ROW * EACH;
            from[i] = ALONG ? x + row * ld + k0 + at : x + (k0 + row) * ld + at;
        }
    }
    __device__ void load(T *to)
    {
#pragma unroll
        for (int i = 0; i < N; i++) {
            int u = threadIdx.x + i * THREADS;
            copy16(to + u / A_ROW * STRIDE + u % A_ROW * EACH, from[i]);
            from[i] += step;
        }
    }
    __device__ static float at(const T *s, int m, int k)
    {
        return as_float(ALONG ? s[m * STRIDE + k] : s[k * STRIDE + m]);
    }
};

/* [16 rows][8 columns][row l/4 or 8 + l/4, column 2 (l%4) or + 1] of lane l */
typedef float results[2][4][4];

__device__ static int result_row(int mi, int e)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return warp / 4 * 32 + mi * 16 + e / 2 * 8 + lane / 4;
}
__device__ static int result_col(int ni, int e)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return warp % 4 * 32 + ni * 8 + lane % 4 * 2 + e % 2;
}

/* A stage, by multiply-adds. */
template <class T, class A, class B>
__device__ static void multiply_plain(results acc, const T *a, const T *b)
{
    for (int k = 0; k < depth<T>::K; k++) {
        float av[4], bv[8];
#pragma unroll
        for (int i = 0; i < 4; i++) av[i] = A::at(a, result_row(i / 2, i % 2 * 2), k);
#pragma unroll
        for (int i = 0; i < 8; i++) bv[i] = B::at(b, result_col(i / 2, i % 2), k);
#pragma unroll
        for (int mi = 0; mi < 2; mi++)
#pragma unroll
            for (int ni = 0; ni < 4; ni++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    acc[mi][ni][e] += av[2 * mi + e / 2] * bv[2 * ni + e % 2];
    }
}

#if __CUDA_ARCH__ >= 800
/* Four 8 x 8 matrices, whose rows lie where lanes 0-7, 8-15, ... point. */
template <bool TURNED>
__device__ static void load_four(uint32_t r[4], const __nv_bfloat16 *lane_row)
{
    uint32_t at = (uint32_t)__cvta_generic_to_shared(lane_row);
    if (TURNED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(at));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(at));
}

__device__ static void mma(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* A stage, by tensor cores: the four matrices of A are (rows 0-7, 8-15) x (k 0-7, then 8-15), those
 * of B (k 0-7, 8-15) x (columns 0-7, then 8-15). */
template <bool A_ALONG, bool B_ALONG>
__device__ static void multiply_tensor(results acc, const __nv_bfloat16 *a, const __nv_bfloat16 *b)
{
    constexpr int AS = operand<__nv_bfloat16, A_ALONG, BM>::STRIDE;
    constexpr int BS = operand<__nv_bfloat16, B_ALONG, BN>::STRIDE;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int m0 = warp / 4 * 32, n0 = warp % 4 * 32, eight = lane % 8, odd = lane / 8 % 2 * 8,
        upper = lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < 32; k += 16) {
        uint32_t ra[2][4], rb[2][4];
#pragma unroll
        for (int mi = 0; mi < 2; mi++) {
            int m = m0 + mi * 16;
            const __nv_bfloat16 *from = A_ALONG ? a + (m + odd + eight) * AS + k + upper
                                                : a + (k + upper + eight) * AS + m + odd;
            load_four<!A_ALONG>(ra[mi], from);
        }
#pragma unroll
        for (int nj = 0; nj < 2; nj++) {
            int n = n0 + nj * 16;
            const __nv_bfloat16 *from = B_ALONG ? b + (n + upper + eight) * BS + k + odd
                                                : b + (k + odd + eight) * BS + n + upper;
            load_four<!B_ALONG>(rb[nj], from);
        }
#pragma unroll
        for (int mi = 0; mi < 2; mi++)
#pragma unroll
            for (int ni = 0; ni < 4; ni++)
                mma(acc[mi][ni], ra[mi], rb[ni / 2][ni % 2 * 2], rb[ni / 2][ni % 2 * 2 + 1]);
    }
}
#endif

template <bool A_ALONG, bool B_ALONG>
__device__ static void multiply(results acc, const float *a, const float *b)
{
    multiply_plain<float, operand<float, A_ALONG, BM>, operand<float, B_ALONG, BN>>(acc, a, b);
}
template <bool A_ALONG, bool B_ALONG>
__device__ static void multiply(results acc, const __nv_bfloat16 *a, const __nv_bfloat16 *b)
{
#if __CUDA_ARCH__ >= 800
    multiply_tensor<A_ALONG, B_ALONG>(acc, a, b);
#else
    multiply_plain<__nv_bfloat16, operand<__nv_bfloat16, A_ALONG, BM>,
                   operand<__nv_bfloat16, B_ALONG, BN>>(acc, a, b);
#endif
}

/* acc = the sum over k in begin .. end of A(m, k) B(k, n), for the block's 64 x 128; begin and end
 * are multiples of a stage's depth.  each(a, k) sees every stage of A while it is there.  'shared'
 * is free for other use afterwards. */
template <class T, bool A_ALONG, bool B_ALONG, class F>
__device__ static void product(results acc, const T *a, size_t lda, const T *b, size_t ldb,
                               size_t begin, size_t end, unsigned char *shared, F each)
{
    typedef operand<T, A_ALONG, BM> A;
    typedef operand<T, B_ALONG, BN> B;
    constexpr int K = depth<T>::K;
    static_assert(A::STRIDE * (A_ALONG ? BM : K) * sizeof(T) <= A_BYTES, "stage of A");
    static_assert(B::STRIDE * (B_ALONG ? BN : K) * sizeof(T) <= B_BYTES, "stage of B");
    int steps = end > begin ? (int)((end - begin) / K) : 0;
    A a_next(a, lda, begin);
    B b_next(b, ldb, begin);
    for (int mi = 0; mi < 2; mi++)
        for (int ni = 0; ni < 4; ni++)
            for (int e = 0; e < 4; e++) acc[mi][ni][e] = 0;
    for (int s = 0; s < steps + STAGES - 1; s++) {
        if (s >= STAGES - 1) {
            copies_wait();
            __syncthreads(); /* the stage is there; the one before it has been used by all */
        }
        if (s < steps) {
            unsigned char *stage = shared + s % STAGES * (A_BYTES + B_BYTES);
            a_next.load((T *)stage);
            b_next.load((T *)(stage + A_BYTES));
        }
        copies_end();
        if (s >= STAGES - 1) {
            unsigned char *stage = shared + (s - (STAGES - 1)) % STAGES * (A_BYTES + B_BYTES);
            multiply<A_ALONG, B_ALONG>(acc, (T *)stage, (T *)(stage + A_BYTES));
            each((const T *)stage, begin + (size_t)(s - (STAGES - 1)) * K);
        }
    }
    copies_wait_all();
    __syncthreads();
}

struct nothing { /* to do with a stage */
    template <class T> __device__ void operator()(const T *, size_t) const
    {
    }
};

/* ---- memory ---- */

static size_t splits_of(const struct wisp_dout &o)
{
    size_t tiles = up(o.batch, BM) / BM * (up(o.width, BN) / BN), splits = 264 / tiles;
    if (o.fast) return wisp_out_wgmma_splits(o);
    return splits < 1 ? 1 : splits > 32 ? 32 : splits;
}

size_t wisp_out_lay(struct wisp_dout *o, void *block)
{
    size_t at = 0, each = o->precision == WISP_IN_BF16 ? 2 : 4, k = depth_of(*o);
    size_t rows = up(o->active.room, 2 * BM);
    o->fast = wisp_out_has_wgmma(*o);
    o->lde = up(o->batch, BN);
    o->e = wisp_dtake(block, &at, rows * o->lde * each);
    o->factor = (float *)wisp_dtake(block, &at, o->lde * 4);
    o->heat = (float *)wisp_dtake(block, &at, rows * 4);
    o->w_panel = wisp_dtake(block, &at, rows * k * each);
    o->h_panel = wisp_dtake(block, &at, o->lde * k * each);
    o->fh_panel = wisp_dtake(block, &at, o->lde * k * each);
    o->b_panel = (float *)wisp_dtake(block, &at, rows * 4);
    o->block_sum = (float *)wisp_dtake(block, &at, rows / BM * o->lde * 4);
    o->losses = (double *)wisp_dtake(block, &at, o->lde * 8);
    o->part_rows = NULL, o->all_rows = NULL;
    if (o->smoothing > 0) {
        o->part_rows = (float *)wisp_dtake(block, &at, wisp_out_row_parts(*o) * (k + 1) * 4);
        o->all_rows = (double *)wisp_dtake(block, &at, (k + 1) * 8);
    }
    o->parts = (float *)wisp_dtake(block, &at, splits_of(*o) * up(o->batch, BM) * k * 4);
    o->grad = (float *)wisp_dtake(block, &at, rows * k * 4);
    return at;
}

/* ---- gather ---- */

/* One warp per row of a panel: first those of w, then those of h. */
template <class T> __global__ static void gather(struct wisp_dout o, struct panels<T> p, size_t k)
{
    size_t line = (size_t)blockIdx.x * (THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    size_t room = up(o.active.room, BM), n_rows = *o.active.n;
    bool of_w = line < room;
    size_t i = of_w ? line : line - room;
    if (of_w ? i >= up(n_rows, BM) : i >= o.lde) return;
    bool there = of_w ? i < n_rows : i < o.now->n;
    size_t row = of_w && there ? (size_t)o.active.rows[i] : 0;
    T *to = of_w ? p.w + i * k : p.h + i * k;
    if (of_w && lane == 0) o.b_panel[i] = there ? o.bias.w[row] : 0;
    for (size_t c = 4 * lane; c < k; c += 128) {
        float4 x = make_float4(0, 0, 0, 0);
        if (there && c < o.width)
            x = !of_w            ? *(const float4 *)(o.h + i * o.width + c)
                : sizeof(T) == 2 ? wisp_drounded(o.w, row, c)
                                 : wisp_dweights(o.w, row, c);
        put4(to + c, x);
    }
}

/* ---- logits ---- */

template <class T, enum wisp_loss_id LOSS>
__global__ static void __launch_bounds__(THREADS)
    logits(struct wisp_dout o, struct panels<T> p, size_t k)
{
    __shared__ __align__(128) unsigned char shared[STAGES * (A_BYTES + B_BYTES)];
    __shared__ float sums[2][BN];
    size_t row0 = (size_t)blockIdx.x * BM, col0 = (size_t)blockIdx.y * BN;
    size_t n_rows = *o.active.n, n = o.now->n;
    if (row0 >= n_rows || col0 >= n) return;
    results acc;
    product<T, true, true>(acc, p.w + row0 * k, k, p.h + col0 * k, k, 0, up(o.width, depth<T>::K),
                           shared, nothing());
    constexpr int STRIDE = BN + depth<T>::PAD;
    static_assert(BM * STRIDE * sizeof(T) <= sizeof shared, "the tile");
    T *tile = (T *)shared; /* (64, 128) of E, to be written in long pieces */
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int rows = n_rows - row0 < BM ? (int)(n_rows - row0) : BM;
    int cols = n - col0 < BN ? (int)(n - col0) : BN;
    float bias[4];
#pragma unroll
    for (int i = 0; i < 4; i++) bias[i] = o.b_panel[row0 + result_row(i / 2, i % 2 * 2)];
#pragma unroll
    for (int ni = 0; ni < 4; ni++) {
        int col = result_col(ni, 0);
        float sum[2] = { 0, 0 }, origin[2];
#pragma unroll
        for (int odd = 0; odd < 2; odd++)
            origin[odd] = col + odd < cols ? o.origin[col0 + col + odd] : 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int row = result_row(i / 2, i % 2 * 2);
            float e[2];
#pragma unroll
            for (int odd = 0; odd < 2; odd++) {
                float z = acc[i / 2][ni][i % 2 * 2 + odd] + bias[i], term;
                e[odd] = value_and_term<T>(&term, LOSS, z, origin[odd]);
                if (row >= rows || col + odd >= cols) e[odd] = term = 0;
                sum[odd] += term;
            }
            put2(tile + row * STRIDE + col, e[0], e[1]);
        }
#pragma unroll
        for (int odd = 0; odd < 2; odd++) {
            for (int d = 4; d < 32; d *= 2) sum[odd] += __shfl_xor_sync(WISP_WARP, sum[odd], d);
            if (lane < 4) sums[warp / 4][col + odd] = sum[odd];
        }
    }
    __syncthreads();
    constexpr int EACH = 16 / (int)sizeof(T), A_ROW = BN / EACH;
    for (int u = threadIdx.x; u < BM * A_ROW; u += THREADS) {
        int row = u / A_ROW, at = u % A_ROW * EACH;
        *(uint4 *)(p.e + (row0 + row) * o.lde + col0 + at) =
            *(const uint4 *)(tile + row * STRIDE + at);
    }
    if (threadIdx.x < BN)
        o.block_sum[blockIdx.x * o.lde + col0 + threadIdx.x] =
            sums[0][threadIdx.x] + sums[1][threadIdx.x];
}

/* ---- hidden ---- */

template <class T>
__global__ static void __launch_bounds__(THREADS, 3)
    hidden_part(struct wisp_dout o, struct panels<T> p, size_t k)
{
    __shared__ __align__(128) unsigned char shared[STAGES * (A_BYTES + B_BYTES)];
    constexpr size_t DEPTH = depth<T>::K;
    size_t sample0 = (size_t)blockIdx.x * BM, col0 = (size_t)blockIdx.y * BN;
    size_t n_rows = up(*o.active.n, DEPTH), each = up((n_rows + gridDim.z - 1) / gridDim.z, DEPTH);
    size_t begin = blockIdx.z * each, end = begin + each < n_rows ? begin + each : n_rows;
    if (sample0 >= o.now->n) return;
    results acc;
    product<T, false, false>(acc, p.e + sample0, o.lde, p.w + col0, k, begin, end, shared,
                             nothing());
    float *to = o.parts + blockIdx.z * up(o.batch, BM) * k + sample0 * k + col0;
    for (int mi = 0; mi < 2; mi++)
        for (int ni = 0; ni < 4; ni++)
            for (int half = 0; half < 2; half++)
                put2(to + (size_t)result_row(mi, 2 * half) * k + result_col(ni, 0),
                     acc[mi][ni][2 * half], acc[mi][ni][2 * half + 1]);
}

/* The last block adds up the losses, for which nothing else waits. */
__global__ static void __launch_bounds__(C_THREADS)
    hidden_sum(struct wisp_dout o, size_t k, size_t splits)
{
    __shared__ double work[C_THREADS / 32];
    if (blockIdx.x == gridDim.x - 1) {
        double all = 0;
        for (size_t s = threadIdx.x; s < o.lde; s += C_THREADS) all += o.losses[s];
        all = sum_all(all, work);
        if (threadIdx.x == 0) *o.loss_sum += all;
        return;
    }
    size_t at = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * 4, i = at / k, c = at % k;
    if (i >= o.now->n || c >= o.width) return;
    float4 sum = make_float4(0, 0, 0, 0);
    for (size_t s = 0; s < splits; s++) {
        float4 x = *(const float4 *)(o.parts + (s * up(o.batch, BM) + i) * k + c);
        sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
    }
    float f = o.factor[i];
    sum = make_float4(f * sum.x, f * sum.y, f * sum.z, f * sum.w);
    if (o.pass != 0) {
        float4 h = *(const float4 *)(o.h + i * o.width + c);
        sum.x = h.x > 0 ? sum.x * o.pass : 0, sum.y = h.y > 0 ? sum.y * o.pass : 0;
        sum.z = h.z > 0 ? sum.z * o.pass : 0, sum.w = h.w > 0 ? sum.w * o.pass : 0;
    }
    *(float4 *)(o.g + i * o.width + c) = sum;
}

/* ---- rows ---- */

/* The products of what lies in 16 bytes with floats. */
__device__ static float dot16(const float *x, const float *f)
{
    float4 a = *(const float4 *)x, b = *(const float4 *)f;
    return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}
__device__ static float dot16(const __nv_bfloat16 *x, const float *f)
{
    uint4 a = *(const uint4 *)x;
    float4 b = *(const float4 *)f, c = *(const float4 *)(f + 4);
    float low = __uint_as_float(a.x << 16) * b.x + __uint_as_float(a.x & 0xffff0000u) * b.y +
                __uint_as_float(a.y << 16) * b.z + __uint_as_float(a.y & 0xffff0000u) * b.w;
    return low + __uint_as_float(a.z << 16) * c.x + __uint_as_float(a.z & 0xffff0000u) * c.y +
           __uint_as_float(a.w << 16) * c.z + __uint_as_float(a.w & 0xffff0000u) * c.w;
}

/* Four threads per row add up E times the factor on the way. */
template <class T>
__global__ static void __launch_bounds__(THREADS, 3)
    rows_gradient(struct wisp_dout o, struct panels<T> p, size_t k)
{
    __shared__ __align__(128) unsigned char shared[STAGES * (A_BYTES + B_BYTES)];
    constexpr int STRIDE = operand<T, true, BM>::STRIDE, QUARTER = depth<T>::K / 4;
    size_t row0 = (size_t)blockIdx.x * BM, col0 = (size_t)blockIdx.y * BN, n = o.now->n;
    if (row0 >= *o.active.n) return;
    int row = threadIdx.x / 4, first = threadIdx.x % 4 * QUARTER;
    float heat = 0;
    auto warm = [&](const T *e, size_t k0) { /* beyond n the factors are 0 */
                                             heat += dot16(e + row * STRIDE + first,
                                                           o.factor + k0 + first);
    };
    results acc;
    product<T, true, false>(acc, p.e + row0 * o.lde, o.lde, p.fh + col0, k, 0, up(n, depth<T>::K),
                            shared, warm);
    heat += __shfl_xor_sync(WISP_WARP, heat, 1);
    heat += __shfl_xor_sync(WISP_WARP, heat, 2);
    if (blockIdx.y == 0 && threadIdx.x % 4 == 0) o.heat[row0 + row] = heat;
    float *to = o.grad + row0 * k + col0;
    for (int mi = 0; mi < 2; mi++)
        for (int ni = 0; ni < 4; ni++)
            for (int half = 0; half < 2; half++)
                put2(to + (size_t)result_row(mi, 2 * half) * k + result_col(ni, 0),
                     acc[mi][ni][2 * half], acc[mi][ni][2 * half + 1]);
}

/* One warp per row. */
__global__ static void move_rows(struct wisp_dout o, size_t k)
{
    size_t i = (size_t)blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (i >= *o.active.n || o.now->n == 0) return;
    size_t row = (size_t)o.active.rows[i];
    wisp_dmove(o.opt, o.w, row, o.grad + i * k, o.now->lr, o.now->step);
    if (threadIdx.x % 32 == 0) wisp_dmove_one(o.opt, o.bias, row, o.heat[i], o.now->lr);
}

/* ---- launches ---- */

static dim3 grid(size_t x, size_t y, size_t z)
{
    return dim3((unsigned)x, (unsigned)y, (unsigned)z);
}

template <class T> static void forward(const struct wisp_dout &o, cudaStream_t s)
{
    struct panels<T> p = panels_of<T>(o);
    size_t k = depth_of(o), room = up(o.active.room, BM), lines = room + o.lde;
    if (!o.fast || wisp_out_wgmma_gathers(o))
        gather<T><<<grid((lines + 7) / 8, 1, 1), THREADS, 0, s>>>(o, p, k);
    if (o.fast) {
        wisp_out_wgmma_logits(o, s);
        return;
    }
    dim3 tiles = grid(room / BM, o.lde / BN, 1);
    if (o.loss == WISP_SOFTMAX) logits<T, WISP_SOFTMAX><<<tiles, THREADS, 0, s>>>(o, p, k);
    else logits<T, WISP_BCE><<<tiles, THREADS, 0, s>>>(o, p, k);
}

template <class T> static void hidden(const struct wisp_dout &o, cudaStream_t s)
{
    size_t k = depth_of(o), splits = splits_of(o), fours = up(o.batch, BM) * k / 4;
    if (o.fast) wisp_out_wgmma_hidden(o, s);
    else
        hidden_part<T>
            <<<grid(up(o.batch, BM) / BM, k / BN, splits), THREADS, 0, s>>>(o, panels_of<T>(o), k);
    hidden_sum<<<grid((fours + C_THREADS - 1) / C_THREADS + 1, 1, 1), C_THREADS, 0, s>>>(o, k,
                                                                                         splits);
}

template <class T> static void rows(const struct wisp_dout &o, cudaStream_t s)
{
    size_t k = depth_of(o), room = up(o.active.room, BM);
    struct panels<T> p = panels_of<T>(o);
    if (o.fast && wisp_out_wgmma_rows(o, s)) return;
    if (!o.fast) rows_gradient<T><<<grid(room / BM, k / BN, 1), THREADS, 0, s>>>(o, p, k);
    move_rows<<<grid((room + 7) / 8, 1, 1), THREADS, 0, s>>>(o, k);
}

void wisp_out_forward(const struct wisp_dout &o, cudaStream_t s)
{
    if (o.precision == WISP_IN_BF16) forward<__nv_bfloat16>(o, s);
    else forward<float>(o, s);
}

void wisp_out_hidden(const struct wisp_dout &o, cudaStream_t s)
{
    if (o.precision == WISP_IN_BF16) hidden<__nv_bfloat16>(o, s);
    else hidden<float>(o, s);
}

void wisp_out_rows(const struct wisp_dout &o, cudaStream_t s)
{
    if (o.precision == WISP_IN_BF16) rows<__nv_bfloat16>(o, s);
    else rows<float>(o, s);
}

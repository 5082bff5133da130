/* The gradient of a convolution's weights, leaving out pixels that add nothing (conv_skip.cuh).
 *
 * Terms of the sum are pixels: for a block of up to 128 outputs and 128 taps and channels a pixel of a
 * share is live if any of its outputs' gradients is not 0, and any of the numbers of x that the
 * block's taps read there.  So a pixel at the border, whose tap reads outside, is left out as well.
 * Rows of a tile are whole pixels: from a list they are copied as fast as one after the other. */
#include "cuda/conv_share.cuh"
#include "cuda/conv_skip.cuh"

enum { UNIT = 16, EACH = 4, WARPS = THREADS / 32 };

struct live {       /* of the blocks of a share, shares one after the other */
    uint32_t *list; /* (shares, row tiles, column tiles, each) pixels */
    int *count;     /* (shares, row tiles, column tiles) */
    struct wisp_dmarks x, gy;
    struct wisp_dby ow, oh; /* to take pixels apart by */
    int rows;               /* outputs of a block */
};

struct place { /* of an output pixel */
    int sample, y, x;
};
__device__ static struct place place_of(const struct live &l, int q)
{
    const int line = wisp_dquotient(q, l.ow), sample = wisp_dquotient(line, l.oh);
    return { sample, line - sample * (int)l.oh.by, q - line * (int)l.ow.by };
}

/* Is any of the units from 'first' on, before 'end', marked? */
__device__ static bool marked(const struct wisp_dmarks &m, size_t pixel, int first, int end)
{
    const uint32_t *bits = m.bits + pixel * m.words;
    uint32_t any = 0;
    for (int w = first / 32; w * 32 < end; w++) {
        uint32_t mask = 0xffffffffu;
        if (first > w * 32) mask &= 0xffffffffu << (first - w * 32);
        if (end < w * 32 + 32) mask &= 0xffffffffu >> (w * 32 + 32 - end);
        any |= bits[w] & mask;
    }
    return any != 0;
}

__device__ static size_t block_at(int share)
{
    return ((size_t)share * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
}

/* n: numbers of a unit. */
__global__ static void __launch_bounds__(THREADS)
    list_pixels(const __grid_constant__ struct share p, const __grid_constant__ struct live l,
                int n)
{
    __shared__ int sums[EACH * WARPS], total;
    const int thread = (int)threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int samples = p.now_n && (int)*p.now_n < p.n ? (int)*p.now_n : p.n;
    const int share = (int)blockIdx.z, pixels = samples * p.oh * p.ow, first = share * p.each;
    const int end = pixels < first + p.each ? pixels : first + p.each;
    const int row0 = (int)blockIdx.y * l.rows, row_end = min(row0 + l.rows, p.og);
    const int col0 = (int)blockIdx.x * COLS, col_end = min(col0 + COLS, p.width);
    uint32_t *list = l.list + block_at(share) * (size_t)p.each;
    int before = 0;
    for (int q0 = first; q0 < end; q0 += EACH * THREADS) {
        uint32_t lanes[EACH];
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int q = q0 + e * THREADS + thread;
            bool is = q < end && marked(l.gy, (size_t)q, row0 / n, (row_end + n - 1) / n);
            if (is) {
                const struct place at = place_of(l, q);
                bool any = false;
                for (int col = col0; col < col_end && !any;) { /* tap by tap */
                    const int tap = col / p.ig, c = col - tap * p.ig;
                    const int c_end = min(p.ig, c + col_end - col);
                    const int y = at.y * p.stride - p.pad_h + tap / p.kw;
                    const int x = at.x * p.stride - p.pad_w + tap % p.kw;
                    if ((unsigned)y < (unsigned)p.h && (unsigned)x < (unsigned)p.w)
                        any = marked(l.x, ((size_t)at.sample * p.h + y) * p.w + x, c / n,
                                     (c_end + n - 1) / n);
                    col += c_end - c;
                }
                is = any;
            }
            lanes[e] = __ballot_sync(0xffffffffu, is);
            if (lane == 0) sums[e * WARPS + warp] = __popc(lanes[e]);
        }
        __syncthreads();
        if (warp == 0) { /* EACH * WARPS is 32 */
            int up_to = sums[lane];
            const int mine = up_to;
#pragma unroll
            for (int d = 1; d < 32; d *= 2) {
                const int other = __shfl_up_sync(0xffffffffu, up_to, d);
                if (lane >= d) up_to += other;
            }
            sums[lane] = up_to - mine;
            if (lane == 31) total = up_to;
        }
        __syncthreads();
#pragma unroll
        for (int e = 0; e < EACH; e++)
            if (lanes[e] >> lane & 1)
                list[before + sums[e * WARPS + warp] + __popc(lanes[e] & ((1u << lane) - 1))] =
                    (uint32_t)(q0 + e * THREADS + thread);
        before += total;
        __syncthreads(); /* sums and total are read */
    }
    if (thread == 0) l.count[block_at(share)] = before;
}

template <class T, int ROWS, bool GROUPS, bool FLOATS>
__global__ static void __launch_bounds__(THREADS, 2)
    add_live(const __grid_constant__ struct share p, const __grid_constant__ struct live l)
{
    using F = form<T, ROWS, GROUPS>;
    constexpr int NOWHERE = -0x40000000, NONE = -1;
    extern __shared__ __align__(1024) unsigned char room[];
    unsigned char *pool = align_pool(room);
    const int share = (int)blockIdx.z;
    const int row0 = (int)blockIdx.y * ROWS, col0 = (int)blockIdx.x * COLS;
    const uint32_t *list = l.list + block_at(share) * (size_t)p.each;
    const int count = l.count[block_at(share)];

    /* this thread's slots of gy and x, of every A_STEP-th and B_STEP-th pixel of the list */
    const int a_slot = (int)threadIdx.x % F::A_SLOTS, a_line = (int)threadIdx.x / F::A_SLOTS;
    const int b_slot = (int)threadIdx.x % F::B_SLOTS, b_line = (int)threadIdx.x / F::B_SLOTS;
    const int col = col0 + b_slot * F::N, tap = col / p.ig;
    const int tap_y = col < p.width ? tap / p.kw - p.pad_h : NOWHERE;
    const int tap_x = tap % p.kw - p.pad_w, channel = col % p.ig;
    const bool has = row0 + a_slot * F::N < p.og;
    const T *gy = (const T *)p.gy + row0 + a_slot * F::N;
    int from = 0, a_next[F::A_EACH], b_next[F::B_EACH]; /* pixels of the next stage */
    auto look_ahead = [&]() {
#pragma unroll
        for (int i = 0; i < F::A_EACH; i++) {
            const int k = from + a_line + i * F::A_STEP;
            a_next[i] = k < count ? (int)list[k] : NONE;
        }
#pragma unroll
        for (int i = 0; i < F::B_EACH; i++) {
            const int k = from + b_line + i * F::B_STEP;
            b_next[i] = k < count ? (int)list[k] : NONE;
        }
        from += F::DEPTH;
    };
    look_ahead();

    auto load = [&](int stage) {
        const uint32_t a_tile = shared_at(pool) + (uint32_t)(stage * F::STAGE_BYTES);
        const uint32_t b_tile = a_tile + F::A_BYTES;
#pragma unroll
        for (int i = 0; i < F::A_EACH; i++) {
            const bool there = has && a_next[i] >= 0;
            copy16(a_tile + (uint32_t)slot_at<T, F::DEPTH>(a_line + i * F::A_STEP, a_slot),
                   there ? gy + (size_t)a_next[i] * p.out : (const T *)p.gy, there);
        }
#pragma unroll
        for (int i = 0; i < F::B_EACH; i++) {
            const bool in = b_next[i] >= 0;
            const struct place at = place_of(l, in ? b_next[i] : 0);
            const int y = at.y * p.stride + tap_y, x = at.x * p.stride + tap_x;
            const bool there = in && (unsigned)y < (unsigned)p.h && (unsigned)x < (unsigned)p.w;
            const size_t pixel = there ? ((size_t)at.sample * p.h + y) * p.w + x : 0;
            copy16(b_tile + (uint32_t)slot_at<T, F::DEPTH>(b_line + i * F::B_STEP, b_slot),
                   (const T *)p.x + (there ? pixel * p.in + channel : 0), there);
        }
        look_ahead();
    };

    /* so that the compiler knows it to be the same in a warp: else it makes wgmmas wait */
    const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0);
    float d[ROWS / 8][4] = {};
    wisp_stages<F::STAGES, GROUPS>((count + F::DEPTH - 1) / F::DEPTH, load, [&](int k) {
        add_stage<T, ROWS, GROUPS, FLOATS>(d, pool + k * F::STAGE_BYTES, warp);
    });
    write_sums<ROWS, GROUPS>(p, d, share, 0, row0, col0, warp);
}

/* ---- the pass ---- */

struct lay {                     /* of its work: sums of shares, marks, counts, lists */
    size_t each, shares, blocks; /* blocks of a share */
    size_t rows;                 /* outputs of a block */
    size_t x_marks, gy_marks, counts, lists, bytes;
};

static struct lay lay_of(const struct wisp_dconv *c)
{
    struct lay a = {};
    const size_t size = wisp_dconv_size(c);
    a.shares = wisp_dconv_shares(c, &a.each), a.rows = c->out > 64 ? 128 : 64;
    a.blocks = wisp_parts(c->out, a.rows) * wisp_parts(wisp_dconv_row(c), COLS);
    a.x_marks = wisp_up(wisp_dconv_tensor_w_bytes(c), 256);
    a.gy_marks = a.x_marks + wisp_dmarks_bytes(c->n * c->h * c->w, c->in * size, UNIT);
    a.counts = a.gy_marks + wisp_dmarks_bytes(c->n * c->oh * c->ow, c->out * size, UNIT);
    a.lists = a.counts + wisp_up(a.shares * a.blocks * 4, 256);
    a.bytes = a.lists + wisp_up(a.shares * a.blocks * a.each * 4, 256);
    return a;
}

bool wisp_dconv_skip_w_can(const struct wisp_dconv *c)
{
    const size_t most = 0x7fffffff / 32;
    return wisp_dconv_copies(c, c->in) == 16 && wisp_dconv_copies(c, c->out) == 16 &&
           c->n * c->h * c->w * wisp_parts(c->in * wisp_dconv_size(c), 512) <= most &&
           c->n * c->oh * c->ow * wisp_parts(c->out * wisp_dconv_size(c), 512) <= most &&
           wisp_dconv_row(c) <= 0x3fffffff && wisp_parts(c->out, 64) <= 65535;
}

size_t wisp_dconv_skip_w_bytes(const struct wisp_dconv *c)
{
    return lay_of(c).bytes;
}

template <class T, int ROWS, bool GROUPS, bool FLOATS = false>
static void launch(const struct share &p, const struct live &l, dim3 grid, cudaStream_t s)
{
    using F = form<T, ROWS, GROUPS>;
    cudaFuncSetAttribute(add_live<T, ROWS, GROUPS, FLOATS>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, F::BYTES);
    add_live<T, ROWS, GROUPS, FLOATS><<<grid, THREADS, F::BYTES, s>>>(p, l);
}

template <int ROWS>
static void launch_any(enum wisp_dconv_math math, const struct share &p, const struct live &l,
                       dim3 grid, cudaStream_t s)
{
    if (math == WISP_DCONV_FP32) launch<float, ROWS, false, true>(p, l, grid, s);
    else if (math == WISP_DCONV_TF32) launch<float, ROWS, false>(p, l, grid, s);
    else if (wisp_dconv_has_groups()) launch<__nv_bfloat16, ROWS, true>(p, l, grid, s);
    else launch<__nv_bfloat16, ROWS, false>(p, l, grid, s);
}

void wisp_dconv_skip_w(const struct wisp_dconv *c, const struct wisp_dconv_job *j, cudaStream_t s)
{
    const struct lay a = lay_of(c);
    const bool half = c->math == WISP_DCONV_BF16;
    const size_t size = wisp_dconv_size(c), floats = c->out * wisp_dconv_row(c);
    char *work = (char *)j->work;
    const struct share p = share_of(c, j, a.shares, a.each);
    struct live l = {};
    l.list = (uint32_t *)(work + a.lists), l.count = (int *)(work + a.counts);
    l.x = wisp_dmarks_of((uint32_t *)(work + a.x_marks), c->in * size, UNIT);
    l.gy = wisp_dmarks_of((uint32_t *)(work + a.gy_marks), c->out * size, UNIT);
    l.ow = wisp_dby_of((uint32_t)c->ow), l.oh = wisp_dby_of((uint32_t)c->oh);
    l.rows = (int)a.rows;
    const dim3 grid((unsigned)wisp_parts(wisp_dconv_row(c), COLS),
                    (unsigned)wisp_parts(c->out, a.rows), (unsigned)a.shares);
    wisp_dmark(l.x, j->x, c->n * c->h * c->w, c->in * size, UNIT, half, s);
    wisp_dmark(l.gy, j->gy, c->n * c->oh * c->ow, c->out * size, UNIT, half, s);
    list_pixels<<<grid, THREADS, 0, s>>>(p, l, UNIT / (int)size);
    if (a.rows == 128) launch_any<128>(c->math, p, l, grid, s);
    else launch_any<64>(c->math, p, l, grid, s);
    if (a.shares > 1) wisp_dconv_add(j->gw, (const float *)j->work, floats, a.shares, s);
}

struct wisp_dlive wisp_dconv_skip_w_seen(const struct wisp_dconv *c, const void *work)
{
    const struct lay a = lay_of(c);
    return wisp_dconv_live((const int *)((const char *)work + a.counts), a.shares * a.blocks,
                           c->n * c->oh * c->ow * a.blocks);
}

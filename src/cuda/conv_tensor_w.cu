/* The gradient of a convolution's weights by tensor cores.
 *
 *   gw(o, t) = sum over pixels q of gy(q, o) x(pixel of q and t's tap, t's channel)
 *
 * t counts (kernel row, kernel column, channel), as the weights of an output channel lie.  Both
 * operands have the sum's terms, pixels, one after the other, so that a tile in shared memory is
 * (pixels, outputs) or (pixels, t): bf16 are turned round on the way to registers (ldmatrix), floats
 * are read one by one.  A block makes (ROWS, 128) of gw over a share of the pixels; shares are
 * written side by side and added in their order.
 *
 * Slot s (16 bytes) of pixel r lies at s ^ (r % 8), and of floats at s ^ (r % 4 * 2): then the lanes
 * of a warp read from different banks. */
#include "cuda/conv_tensor.cuh"

enum { COLS = 128, THREADS = 256, STAGES = 4, WARPS_WIDE = 4, WARPS_HIGH = 2 };

struct share {
    const void *gy, *x;
    float *to; /* (shares, out, width) */
    const uint32_t *now_n;
    int n, oh, ow, out, og; /* og, ig: channels of a group */
    int h, w, in, ig;
    int kw, stride, pad_h, pad_w;
    int width;          /* weights of an output channel */
    int n_shares, each; /* pixels of a share, but for the last */
};

template <class T, int ROWS> struct form {
    static constexpr int DEPTH = 64 / (int)sizeof(T); /* pixels of a stage */
    static constexpr int N = 16 / (int)sizeof(T);     /* values of a slot */
    static constexpr int A_LINE = ROWS * (int)sizeof(T), B_LINE = COLS * (int)sizeof(T);
    static constexpr int A_SLOTS = A_LINE / 16, B_SLOTS = B_LINE / 16;
    static constexpr int A_STEP = THREADS / A_SLOTS, B_STEP = THREADS / B_SLOTS; /* pixels apart */
    static constexpr int A_EACH = DEPTH / A_STEP, B_EACH = DEPTH / B_STEP; /* slots of a thread */
    static constexpr int STAGE_BYTES = DEPTH * (A_LINE + B_LINE), BYTES = STAGES * STAGE_BYTES;
    static constexpr int FRAGMENTS = ROWS / WARPS_HIGH / 16; /* of 16 rows, of a warp */
    static_assert(A_EACH > 0 && B_EACH > 0, "every thread has some");
};

template <class T> __device__ static int slot_at(int line, int pixel, int slot)
{
    return pixel * line + (slot ^ (sizeof(T) == 2 ? pixel & 7 : (pixel & 3) * 2)) * 16;
}

/* ---- a stage's products ---- */

template <int ROWS>
__device__ static void multiply_stage(float (&d)[form<__nv_bfloat16, ROWS>::FRAGMENTS][4][4],
                                      const char *tile, __nv_bfloat16)
{
    using F = form<__nv_bfloat16, ROWS>;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int row = warp / WARPS_WIDE * F::FRAGMENTS * 16 + ((lane >> 3) & 1) * 8;
    const int col = warp % WARPS_WIDE * 32 + (lane >> 4) * 8;
    const uint32_t a_tile = wisp_shared_at(tile), b_tile = a_tile + F::DEPTH * F::A_LINE;
#pragma unroll
    for (int k = 0; k < F::DEPTH; k += 16) {
        const int a_pixel = k + (lane & 7) + (lane >> 4) * 8;
        const int b_pixel = k + (lane & 7) + ((lane >> 3) & 1) * 8;
        uint32_t a[F::FRAGMENTS][4], b[2][4];
#pragma unroll
        for (int i = 0; i < F::FRAGMENTS; i++)
            wisp_ldmatrix_turned(a[i], a_tile + (uint32_t)slot_at<__nv_bfloat16>(
                                                    F::A_LINE, a_pixel, (row + i * 16) / F::N));
#pragma unroll
        for (int i = 0; i < 2; i++)
            wisp_ldmatrix_turned(b[i], b_tile + (uint32_t)slot_at<__nv_bfloat16>(
                                                    F::B_LINE, b_pixel, (col + i * 16) / F::N));
#pragma unroll
        for (int i = 0; i < F::FRAGMENTS; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                wisp_mma<__nv_bfloat16>(d[i][j], a[i], b[j / 2][j % 2 * 2],
                                        b[j / 2][j % 2 * 2 + 1]);
    }
}

__device__ static uint32_t word_at(const char *tile, int line, int pixel, int place)
{
    const char *at = tile + slot_at<float>(line, pixel, place / 4) + place % 4 * 4;
    return wisp_tf32(*(const uint32_t *)at);
}

template <int ROWS>
__device__ static void multiply_stage(float (&d)[form<float, ROWS>::FRAGMENTS][4][4],
                                      const char *tile, float)
{
    using F = form<float, ROWS>;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int row = warp / WARPS_WIDE * F::FRAGMENTS * 16 + lane / 4;
    const int col = warp % WARPS_WIDE * 32 + lane / 4;
    const char *a_tile = tile, *b_tile = tile + F::DEPTH * F::A_LINE;
#pragma unroll
    for (int k = 0; k < F::DEPTH; k += 8) {
        const int pixel = k + lane % 4;
        uint32_t a[F::FRAGMENTS][4], b[4][2];
#pragma unroll
        for (int i = 0; i < F::FRAGMENTS; i++)
#pragma unroll
            for (int w = 0; w < 4; w++)
                a[i][w] = word_at(a_tile, F::A_LINE, pixel + w / 2 * 4, row + i * 16 + w % 2 * 8);
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int w = 0; w < 2; w++)
                b[j][w] = word_at(b_tile, F::B_LINE, pixel + w * 4, col + j * 8);
#pragma unroll
        for (int i = 0; i < F::FRAGMENTS; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) wisp_mma<float>(d[i][j], a[i], b[j][0], b[j][1]);
    }
}

/* ---- all of a share ---- */

/* VEC: bytes that are copied at a time, 16 or 4; a group's channels are a multiple of them. */
template <class T, int ROWS, int VEC>
__global__ static void __launch_bounds__(THREADS, 2) add_up(const __grid_constant__ struct share p)
{
    using F = form<T, ROWS>;
    constexpr int EACH = VEC / (int)sizeof(T), PIECES = 16 / VEC, NOWHERE = -0x40000000;
    extern __shared__ __align__(128) char pool[];
    const int n = p.now_n && (int)*p.now_n < p.n ? (int)*p.now_n : p.n;
    const int share = (int)blockIdx.z % p.n_shares, group = (int)blockIdx.z / p.n_shares;
    const int row0 = (int)blockIdx.y * ROWS, col0 = (int)blockIdx.x * COLS;
    const int pixels = n * p.oh * p.ow, first = share * p.each;
    const int end = pixels < first + p.each ? pixels : first + p.each;
    const int stages = end > first ? (end - first + F::DEPTH - 1) / F::DEPTH : 0;

    /* gy: this thread's slot of every A_STEP-th pixel */
    const int a_slot = (int)threadIdx.x % F::A_SLOTS, a_line = (int)threadIdx.x / F::A_SLOTS;
    const T *gy = (const T *)p.gy + (size_t)group * p.og + row0 + a_slot * F::N;
    int a_left = p.og - row0 - a_slot * F::N; /* outputs from its slot on */
    int a_pixel = first + a_line;

    /* x: the tap and the channel of this thread's columns, and where its pixels are */
    const int b_slot = (int)threadIdx.x % F::B_SLOTS, b_line = (int)threadIdx.x / F::B_SLOTS;
    int tap_y[PIECES], tap_x[PIECES], channel[PIECES];
#pragma unroll
    for (int v = 0; v < PIECES; v++) {
        const int col = col0 + b_slot * F::N + v * EACH, tap = col / p.ig;
        tap_y[v] = col < p.width ? tap / p.kw - p.pad_h : NOWHERE;
        tap_x[v] = tap % p.kw - p.pad_w;
        channel[v] = group * p.ig + col % p.ig;
    }
    int b_pixel = first + b_line, b_sample[F::B_EACH], b_y[F::B_EACH], b_x[F::B_EACH];
#pragma unroll
    for (int i = 0; i < F::B_EACH; i++) {
        const int q = b_pixel + i * F::B_STEP;
        b_sample[i] = q / (p.oh * p.ow);
        b_y[i] = q / p.ow % p.oh, b_x[i] = q % p.ow;
    }

    auto load = [&](int stage) {
        const uint32_t a_tile = wisp_shared_at(pool) + (uint32_t)(stage * F::STAGE_BYTES);
        const uint32_t b_tile = a_tile + F::DEPTH * F::A_LINE;
#pragma unroll
        for (int i = 0; i < F::A_EACH; i++) {
            const int line = a_line + i * F::A_STEP, q = a_pixel + i * F::A_STEP;
            const uint32_t to = a_tile + (uint32_t)slot_at<T>(F::A_LINE, line, a_slot);
#pragma unroll
            for (int v = 0; v < PIECES; v++) {
                const bool there = q < end && v * EACH < a_left;
                wisp_copy_async<VEC>(to + v * VEC,
                                     there ? gy + (size_t)q * p.out + v * EACH : (const T *)p.gy,
                                     there);
            }
        }
        a_pixel += F::DEPTH;
#pragma unroll
        for (int i = 0; i < F::B_EACH; i++) {
            const int line = b_line + i * F::B_STEP;
            const uint32_t to = b_tile + (uint32_t)slot_at<T>(F::B_LINE, line, b_slot);
            const bool in = b_pixel + i * F::B_STEP < end;
            const T *x = (const T *)p.x + (size_t)(in ? b_sample[i] : 0) * p.h * p.w * p.in;
#pragma unroll
            for (int v = 0; v < PIECES; v++) {
                const int y = b_y[i] * p.stride + tap_y[v], z = b_x[i] * p.stride + tap_x[v];
                const bool there = in && (unsigned)y < (unsigned)p.h && (unsigned)z < (unsigned)p.w;
                wisp_copy_async<VEC>(to + v * VEC,
                                     there ? x + ((y * p.w + z) * p.in + channel[v]) : x, there);
            }
            b_x[i] += F::DEPTH;
            while (b_x[i] >= p.ow) {
                b_x[i] -= p.ow;
                if (++b_y[i] == p.oh) b_y[i] = 0, b_sample[i]++;
            }
        }
        b_pixel += F::DEPTH;
    };

    float d[F::FRAGMENTS][4][4] = {};
    for (int k = 0; k < STAGES - 1; k++) {
        if (k < stages) load(k);
        wisp_copies_end();
    }
    for (int k = 0; k < stages; k++) {
        wisp_copies_wait<STAGES - 2>();
        __syncthreads(); /* also: all are done with the stage before, which is loaded next */
        if (k + STAGES - 1 < stages) load((k + STAGES - 1) % STAGES);
        wisp_copies_end();
        multiply_stage<ROWS>(d, pool + k % STAGES * F::STAGE_BYTES, T());
    }

    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int row = row0 + warp / WARPS_WIDE * F::FRAGMENTS * 16 + lane / 4;
    const int col = col0 + warp % WARPS_WIDE * 32 + lane % 4 * 2;
    float *to = p.to + ((size_t)share * p.out + (size_t)group * p.og) * p.width;
#pragma unroll
    for (int i = 0; i < F::FRAGMENTS; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int w = 0; w < 4; w++) {
                const int r = row + i * 16 + w / 2 * 8, c = col + j * 8 + w % 2;
                if (r < p.og && c < p.width) to[(size_t)r * p.width + c] = d[i][j][w];
            }
}

/* ---- shares ---- */

/* So many that every multiprocessor has four blocks, but none of a few pixels, nor more than 256
 * MiB of sums. */
static size_t shares_of(const struct wisp_dconv *c, size_t *each)
{
    const size_t rows = c->out / c->groups > 64 ? 128 : 64, depth = 64 / wisp_dconv_size(c);
    const size_t pixels = c->n * c->oh * c->ow, floats = c->out * wisp_dconv_row(c);
    const size_t tiles =
        wisp_parts(c->out / c->groups, rows) * wisp_parts(wisp_dconv_row(c), COLS) * c->groups;
    size_t n = 4 * (size_t)wisp_dconv_multis() / tiles;
    const size_t most = wisp_parts(pixels, depth * 8), room = ((size_t)64 << 20) / floats;
    n = n > most ? most : n;
    n = n > room ? room : n;
    n = n * c->groups > 65535 ? 65535 / c->groups : n;
    *each = wisp_up(wisp_parts(pixels, wisp_most(n, 1)), depth);
    return wisp_parts(pixels, *each);
}

size_t wisp_dconv_tensor_w_bytes(const struct wisp_dconv *c)
{
    size_t each, n = shares_of(c, &each);
    return n > 1 ? n * c->out * wisp_dconv_row(c) * 4 : 0;
}

template <class T, int ROWS, int VEC>
static void launch(const struct share &p, int groups, cudaStream_t s)
{
    using F = form<T, ROWS>;
    const dim3 grid((unsigned)wisp_parts((size_t)p.width, COLS),
                    (unsigned)wisp_parts((size_t)p.og, ROWS), (unsigned)(p.n_shares * groups));
    cudaFuncSetAttribute(add_up<T, ROWS, VEC>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         F::BYTES);
    add_up<T, ROWS, VEC><<<grid, THREADS, F::BYTES, s>>>(p);
}

template <class T>
static void launch_any(const struct share &p, bool wide, int groups, cudaStream_t s)
{
    if (!wide) {
        if (p.og > 64) launch<T, 128, 4>(p, groups, s);
        else launch<T, 64, 4>(p, groups, s);
    } else if (p.og > 64) {
        launch<T, 128, 16>(p, groups, s);
    } else {
        launch<T, 64, 16>(p, groups, s);
    }
}

void wisp_dconv_tensor_w(const struct wisp_dconv *c, const struct wisp_dconv_job *j, cudaStream_t s)
{
    size_t each, n = shares_of(c, &each);
    const size_t floats = c->out * wisp_dconv_row(c);
    const bool wide = wisp_dconv_wide(c, c->in) && wisp_dconv_wide(c, c->out);
    struct share p = { j->gy, j->x, n > 1 ? (float *)j->work : j->gw, j->n };
    p.n = (int)c->n, p.oh = (int)c->oh, p.ow = (int)c->ow, p.out = (int)c->out;
    p.og = (int)(c->out / c->groups), p.ig = (int)(c->in / c->groups);
    p.h = (int)c->h, p.w = (int)c->w, p.in = (int)c->in, p.kw = (int)c->kw;
    p.stride = (int)c->stride, p.pad_h = (int)c->pad_h, p.pad_w = (int)c->pad_w;
    p.width = (int)wisp_dconv_row(c), p.n_shares = (int)n, p.each = (int)each;
    if (c->math == WISP_DCONV_BF16) launch_any<__nv_bfloat16>(p, wide, (int)c->groups, s);
    else launch_any<float>(p, wide, (int)c->groups, s);
    if (n > 1) wisp_dconv_add(j->gw, (const float *)j->work, floats, n, s);
}

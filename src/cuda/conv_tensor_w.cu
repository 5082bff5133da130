/* The gradient of a convolution's weights by tensor cores.
 *
 *   gw(o, t) = sum over pixels q of gy(q, o) x(pixel of q and t's tap, t's channel)
 *
 * t counts (kernel row, kernel column, channel), as the weights of an output channel lie.  Both
 * operands have the sum's terms, pixels, one after the other, so that a tile in shared memory is
 * (pixels, outputs) or (pixels, t), in boxes of 128 bytes of them: bf16 are turned round on the way
 * to registers (ldmatrix) or by wgmma, floats are read one by one.  A block makes (ROWS, 128) of gw over a share of the pixels; shares are
 * written side by side and added in their order.
 *
 * Slot s (16 bytes) of pixel r lies at s ^ (r % 8), and of floats at s ^ (r % 4 * 2): then the lanes
 * of a warp read from different banks. */
#include "cuda/conv_share.cuh"

/* ---- all of a share ---- */

/* A_VEC, VEC: bytes of gy and of x that are copied at a time; a group's channels are a multiple of
 * them.  GROUPS: by products of groups of warps. */
template <class T, int ROWS, int A_VEC, int VEC, bool GROUPS, bool FLOATS>
__global__ static void __launch_bounds__(THREADS, 2) add_up(const __grid_constant__ struct share p)
{
    using F = form<T, ROWS, GROUPS>;
    constexpr int STAGES = F::STAGES;
    constexpr int EACH = VEC / (int)sizeof(T), PIECES = 16 / VEC, NOWHERE = -0x40000000;
    constexpr int A_PIECE = A_VEC / (int)sizeof(T);
    extern __shared__ __align__(1024) unsigned char room[];
    unsigned char *pool = align_pool(room);
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

    const int on_x = F::DEPTH % p.ow, on_y = F::DEPTH / p.ow % p.oh; /* a stage later */
    const int on_sample = F::DEPTH / p.ow / p.oh;

    auto load = [&](int stage) {
        const uint32_t a_tile = shared_at(pool) + (uint32_t)(stage * F::STAGE_BYTES);
        const uint32_t b_tile = a_tile + F::A_BYTES;
#pragma unroll
        for (int i = 0; i < F::A_EACH; i++) {
            const int line = a_line + i * F::A_STEP, q = a_pixel + i * F::A_STEP;
            const uint32_t to = a_tile + (uint32_t)slot_at<T, F::DEPTH>(line, a_slot);
#pragma unroll
            for (int v = 0; v < 16 / A_VEC; v++) {
                const bool there = q < end && v * A_PIECE < a_left;
                wisp_copy_async<A_VEC>(
                    to + v * A_VEC, there ? gy + (size_t)q * p.out + v * A_PIECE : (const T *)p.gy,
                    there);
            }
        }
        a_pixel += F::DEPTH;
#pragma unroll
        for (int i = 0; i < F::B_EACH; i++) {
            const int line = b_line + i * F::B_STEP;
            const uint32_t to = b_tile + (uint32_t)slot_at<T, F::DEPTH>(line, b_slot);
            const bool in = b_pixel + i * F::B_STEP < end;
            const T *x = (const T *)p.x + (size_t)(in ? b_sample[i] : 0) * p.h * p.w * p.in;
#pragma unroll
            for (int v = 0; v < PIECES; v++) {
                const int y = b_y[i] * p.stride + tap_y[v], z = b_x[i] * p.stride + tap_x[v];
                const bool there = in && (unsigned)y < (unsigned)p.h && (unsigned)z < (unsigned)p.w;
                wisp_copy_async<VEC>(to + v * VEC,
                                     there ? x + ((y * p.w + z) * p.in + channel[v]) : x, there);
            }
            b_x[i] += on_x, b_y[i] += on_y, b_sample[i] += on_sample;
            if (b_x[i] >= p.ow) b_x[i] -= p.ow, b_y[i]++;
            if (b_y[i] >= p.oh) b_y[i] -= p.oh, b_sample[i]++;
        }
        b_pixel += F::DEPTH;
    };

    /* so that the compiler knows it to be the same in a warp: else it makes wgmmas wait */
    const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0);
    float d[ROWS / 8][4] = {};
    wisp_stages<STAGES, GROUPS>(stages, load, [&](int k) {
        add_stage<T, ROWS, GROUPS, FLOATS>(d, pool + k * F::STAGE_BYTES, warp);
    });
    write_sums<ROWS, GROUPS>(p, d, share, group, row0, col0, warp);
}

/* ---- shares ---- */

/* So many that every multiprocessor has four blocks, but none of a few pixels, nor more than 256
 * MiB of sums. */
size_t wisp_dconv_shares(const struct wisp_dconv *c, size_t *each)
{
    const size_t rows = c->out / c->groups > 64 ? 128 : 64, depth = 64; /* of any form */
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
    size_t each, n = wisp_dconv_shares(c, &each);
    return n > 1 ? n * c->out * wisp_dconv_row(c) * 4 : 0;
}

template <class T, int ROWS, int A_VEC, int VEC, bool GROUPS, bool FLOATS = false>
static void launch(const struct share &p, int groups, cudaStream_t s)
{
    using F = form<T, ROWS, GROUPS>;
    const dim3 grid((unsigned)wisp_parts((size_t)p.width, COLS),
                    (unsigned)wisp_parts((size_t)p.og, ROWS), (unsigned)(p.n_shares * groups));
    cudaFuncSetAttribute(add_up<T, ROWS, A_VEC, VEC, GROUPS, FLOATS>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, F::BYTES);
    add_up<T, ROWS, A_VEC, VEC, GROUPS, FLOATS><<<grid, THREADS, F::BYTES, s>>>(p);
}

/* Of the pairs of copies of gy and x only those are built that layers have: both wide; gy wide, x an
 * image's; and any. */
template <class T, int ROWS>
static void launch_rows(const struct share &p, int gy, int x, int groups, cudaStream_t s)
{
    constexpr bool HALF = sizeof(T) == 2; /* groups have no other form */
    if (gy == 16 && x == 16) {
        if (HALF && wisp_dconv_has_groups()) launch<T, ROWS, 16, 16, HALF>(p, groups, s);
        else launch<T, ROWS, 16, 16, false>(p, groups, s);
    } else if (gy == 16 && x == 8) {
        launch<T, ROWS, 16, 8, false>(p, groups, s);
    } else {
        launch<T, ROWS, 4, 4, false>(p, groups, s);
    }
}

template <int ROWS>
static void launch_floats(const struct share &p, int gy, int x, int groups, cudaStream_t s)
{
    if (gy == 16 && x == 16) launch<float, ROWS, 16, 16, false, true>(p, groups, s);
    else launch<float, ROWS, 4, 4, false, true>(p, groups, s);
}

template <class T>
static void launch_any(const struct share &p, int gy, int x, int groups, cudaStream_t s)
{
    if (p.og > 64) launch_rows<T, 128>(p, gy, x, groups, s);
    else launch_rows<T, 64>(p, gy, x, groups, s);
}

void wisp_dconv_tensor_w(const struct wisp_dconv *c, const struct wisp_dconv_job *j, cudaStream_t s)
{
    size_t each, n = wisp_dconv_shares(c, &each);
    const size_t floats = c->out * wisp_dconv_row(c);
    const int gy = wisp_dconv_copies(c, c->out), x = wisp_dconv_copies(c, c->in);
    const struct share p = share_of(c, j, n, each);
    if (c->math == WISP_DCONV_BF16) launch_any<__nv_bfloat16>(p, gy, x, (int)c->groups, s);
    else if (c->math == WISP_DCONV_TF32) launch_any<float>(p, gy, x, (int)c->groups, s);
    else if (p.og > 64) launch_floats<128>(p, gy, x, (int)c->groups, s);
    else launch_floats<64>(p, gy, x, (int)c->groups, s);
    if (n > 1) wisp_dconv_add(j->gw, (const float *)j->work, floats, n, s);
}

/* Convolution by tensor cores: forward and data are one product, with the pixels as its rows.
 *
 *   d(row, o) = sum over taps (i, j) and channels c of a(pixel of row and tap, c) b(o, i, j, c)
 *
 *   forward   a = x, b = w; output pixel (p, q) and tap (i, j) read x at
 *             (p stride - pad_h + i, q stride - pad_w + j)
 *   data      a = gy, b = w turned round to (in, kh, kw, out / groups).  Pixels (u, v) of gx with the
 *             same remainders by the stride, a phase, use the same taps: i = first, first + stride,
 *             ...; with u = phase + stride p and i = first + stride k, gy is read at p + base - k.
 *             So nothing is multiplied by zeros between pixels, and each phase is a product alone.
 *
 * a is never laid out: rows of a tile are pixels, and 16 bytes of a row are channels of one tap,
 * copied from where they are, or zeros.  A block makes (128, COLS) of d; 128 bytes of each row are a
 * stage, three stages are on their way.  In shared memory a row has 8 slots of 16 bytes; slot s of
 * row r lies at s ^ (r % 8), so that 8 rows of a slot lie in 8 different places; it is also the order
 * that wgmma wants.  The result goes through shared memory and is written 16 bytes at a time. */
#include "cuda/conv_rows.cuh"

enum { TURN = 256 };

/* Where in the terms of the sum a thread's slot is: channel c of tap (i, j). */
struct term {
    int c, i, j;
};

__device__ static struct term term_at(int k, int channels, int taps_w)
{
    return { k % channels, k / channels / taps_w, k / channels % taps_w };
}
/* 'by' later, itself counted like a term. */
__device__ static void go_on(struct term *t, const struct term &by, int channels, int taps_w)
{
    t->c += by.c, t->j += by.j, t->i += by.i;
    if (t->c >= channels) t->c -= channels, t->j++;
    if (t->j >= taps_w) t->j -= taps_w, t->i++;
}

/* ---- the product ---- */

/* VEC: bytes that are copied at a time, 16, 8 or 4; a group's channels are a multiple of them.  GROUPS:
 * by products of groups of warps. */
template <class T, int COLS, int VEC, bool GROUPS, bool FLOATS>
__global__ static void __launch_bounds__(THREADS, 2)
    multiply(const __grid_constant__ struct product p)
{
    using S = shape<COLS>;
    constexpr int EACH = VEC / (int)sizeof(T), PIECES = 16 / VEC, ALL = STAGE / (int)sizeof(T);
    constexpr int A_ROWS = ROWS * SLOTS / THREADS, B_ROWS = COLS * SLOTS / THREADS;
    constexpr int NOWHERE = -0x40000000;
    extern __shared__ __align__(1024) unsigned char room[];
    unsigned char *pool = align_pool(room);
    const int n = p.now_n && (int)*p.now_n < p.n ? (int)*p.now_n : p.n;
    const int phases = p.back ? p.stride * p.stride : 1, phase = (int)blockIdx.z % phases;
    const int group = (int)blockIdx.z / phases;
    const struct side y = side_of(p.back, p.dh, p.kh, p.stride, p.pad_h, phase / p.stride);
    const struct side x = side_of(p.back, p.dw, p.kw, p.stride, p.pad_w, phase % p.stride);
    const int col_tiles = (p.dg + COLS - 1) / COLS;
    const int row0 = (int)(blockIdx.x / col_tiles) * ROWS,
              col0 = (int)(blockIdx.x % col_tiles) * COLS;
    const int rows = n * y.count * x.count;
    if (row0 >= rows) return;
    const int stages = (y.taps * x.taps * p.ag + ALL - 1) / ALL;

    /* This thread's slot of every 32nd row. */
    const int slot = (int)threadIdx.x % SLOTS, line = (int)threadIdx.x / SLOTS;
    const T *a_from[A_ROWS], *b_from[B_ROWS];
    int a_y[A_ROWS], a_x[A_ROWS];
#pragma unroll
    for (int i = 0; i < A_ROWS; i++) {
        const int row = row0 + line + i * (THREADS / SLOTS);
        const int sample = row < rows ? row / (y.count * x.count) : 0;
        const int left = row < rows ? row % (y.count * x.count) : 0;
        a_y[i] = row < rows ? left / x.count * y.step + y.base : NOWHERE;
        a_x[i] = left % x.count * x.step + x.base;
        a_from[i] = (const T *)p.a + (size_t)sample * p.ah * p.aw * p.ac + (size_t)group * p.ag;
    }
#pragma unroll
    for (int i = 0; i < B_ROWS; i++) {
        const int o = col0 + line + i * (THREADS / SLOTS);
        b_from[i] =
            o < p.dg ? (const T *)p.b + ((size_t)group * p.dg + o) * p.kh * p.kw * p.ag : NULL;
    }
    struct term at = {}, stage_on = {}, piece_on = {};
    if (stages) { /* else there are no taps */
        at = term_at(slot * (16 / (int)sizeof(T)), p.ag, x.taps);
        stage_on = term_at(ALL, p.ag, x.taps), piece_on = term_at(EACH, p.ag, x.taps);
    }

    const uint32_t tiles = shared_at(pool);
    auto load = [&](int stage) {
        const uint32_t a_tile = tiles + (uint32_t)(stage * S::STAGE_BYTES);
        const uint32_t b_tile = a_tile + ROWS * STAGE;
        struct term t = at;
#pragma unroll
        for (int v = 0; v < PIECES; v++) {
            const bool in = t.i < y.taps;
            const int tap_y = p.back ? -t.i : t.i, tap_x = p.back ? -t.j : t.j;
#pragma unroll
            for (int i = 0; i < A_ROWS; i++) {
                const int py = a_y[i] + tap_y, px = a_x[i] + tap_x;
                const bool there =
                    in && (unsigned)py < (unsigned)p.ah && (unsigned)px < (unsigned)p.aw;
                const int from = there ? (py * p.aw + px) * p.ac + t.c : 0;
                wisp_copy_async<VEC>(slot_at(a_tile, line + i * (THREADS / SLOTS), slot) + v * VEC,
                                     a_from[i] + from, there);
            }
            const int tap = (y.first + t.i * y.apart_taps) * p.kw + x.first + t.j * x.apart_taps;
#pragma unroll
            for (int i = 0; i < B_ROWS; i++) {
                const bool there = in && b_from[i];
                wisp_copy_async<VEC>(slot_at(b_tile, line + i * (THREADS / SLOTS), slot) + v * VEC,
                                     there ? b_from[i] + (tap * p.ag + t.c) : (const T *)p.b,
                                     there);
            }
            if (PIECES > 1) go_on(&t, piece_on, p.ag, x.taps);
        }
        go_on(&at, stage_on, p.ag, x.taps);
    };

    /* so that the compiler knows it to be the same in a warp: else it makes wgmmas wait */
    const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0);
    float d[COLS / 8][4] = {};
    wisp_stages<STAGES, GROUPS>(stages, load, [&](int k) {
        add_stage<T, COLS, GROUPS, FLOATS>(d, pool + k * S::STAGE_BYTES, warp);
    });
    lay_sums<COLS, GROUPS>((float *)pool, d, warp);
    write_rows<T, COLS>(p, y, x, group, row0, rows, col0, (const float *)pool);
}

template <class T, int COLS, int VEC, bool GROUPS, bool FLOATS = false>
static void launch(const struct product &p, cudaStream_t s)
{
    const int phases = p.back ? p.stride * p.stride : 1;
    const int side_h = p.back ? (p.dh + p.stride - 1) / p.stride : p.dh;
    const int side_w = p.back ? (p.dw + p.stride - 1) / p.stride : p.dw;
    const size_t rows = (size_t)p.n * side_h * side_w;
    const dim3 grid((unsigned)(wisp_parts(rows, ROWS) * wisp_parts((size_t)p.dg, COLS)), 1,
                    (unsigned)(p.groups * phases));
    cudaFuncSetAttribute(multiply<T, COLS, VEC, GROUPS, FLOATS>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, shape<COLS>::BYTES);
    multiply<T, COLS, VEC, GROUPS, FLOATS><<<grid, THREADS, shape<COLS>::BYTES, s>>>(p);
}

/* As many columns as the results need, up to 128. */
template <class T, int VEC, bool FLOATS = false>
static void launch_few(const struct product &p, cudaStream_t s)
{
    if (p.dg > 32) launch<T, 64, VEC, false, FLOATS>(p, s);
    else launch<T, 32, VEC, false, FLOATS>(p, s);
}

template <class T> static void launch_any(const struct product &p, int copies, cudaStream_t s)
{
    constexpr bool HALF = sizeof(T) == 2; /* groups have no other form */
    const bool groups = HALF && copies == 16 && p.dg > 32 && wisp_dconv_has_groups();
    if (copies == 4) launch_few<T, 4>(p, s);
    else if (copies == 8) launch_few<T, 8>(p, s);
    else if (p.dg > 64 && groups) launch<T, 128, 16, HALF>(p, s);
    else if (p.dg > 64) launch<T, 128, 16, false>(p, s);
    else if (groups) launch<T, 64, 16, HALF>(p, s);
    else launch_few<T, 16>(p, s);
}

/* Floats as they are; 4-byte copies serve all others. */
static void launch_floats(const struct product &p, int copies, cudaStream_t s)
{
    if (copies == 16) launch_few<float, 16, true>(p, s);
    else launch_few<float, 4, true>(p, s);
}

/* Elsewhere it is empty, which shows in its static shared memory. */
__global__ static void look(int *to)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    __shared__ int seen[32];
    seen[threadIdx.x % 32] = to[threadIdx.x];
    __syncthreads();
    to[threadIdx.x] = seen[31 - threadIdx.x % 32];
#endif
}

bool wisp_dconv_has_groups(void)
{
    struct cudaFuncAttributes a = {};
    return wisp_dconv_capability() == 90 &&
           cudaFuncGetAttributes(&a, (const void *)look) == cudaSuccess && a.sharedSizeBytes > 0;
}

/* ---- weights turned round ---- */

/* to (in, taps, og) of w (out, taps, ig), og = out / groups, ig = in / groups; a block has 32 x 32
 * of one tap and group. */
template <class T> __global__ static void turn(T *to, const T *w, int ig, int og, int taps)
{
    __shared__ T tile[32][33];
    const int group = (int)blockIdx.z / taps, tap = (int)blockIdx.z % taps;
    const int c0 = (int)blockIdx.x * 32, o0 = (int)blockIdx.y * 32;
    const int lane = (int)threadIdx.x % 32, first = (int)threadIdx.x / 32;
    for (int i = first; i < 32; i += TURN / 32)
        if (o0 + i < og && c0 + lane < ig)
            tile[i][lane] = w[((size_t)(group * og + o0 + i) * taps + tap) * ig + c0 + lane];
    __syncthreads();
    for (int i = first; i < 32; i += TURN / 32)
        if (c0 + i < ig && o0 + lane < og)
            to[((size_t)(group * ig + c0 + i) * taps + tap) * og + o0 + lane] = tile[lane][i];
}

void wisp_dconv_turn(const struct wisp_dconv *c, void *to, const void *w, cudaStream_t s)
{
    const int ig = (int)(c->in / c->groups), og = (int)(c->out / c->groups);
    const int taps = (int)(c->kh * c->kw);
    const dim3 grid((unsigned)wisp_parts((size_t)ig, 32), (unsigned)wisp_parts((size_t)og, 32),
                    (unsigned)(c->groups * c->kh * c->kw));
    if (c->math == WISP_DCONV_BF16)
        turn<<<grid, TURN, 0, s>>>((__nv_bfloat16 *)to, (const __nv_bfloat16 *)w, ig, og, taps);
    else turn<<<grid, TURN, 0, s>>>((float *)to, (const float *)w, ig, og, taps);
}

/* ---- the way ---- */

/* The channels that are copied, of a group, fill whole words; numbers of pixels and places in a
 * sample are ints, the blocks of a grid's third side at most 65,535. */
static bool can(const struct wisp_dconv *c, enum wisp_dconv_pass pass)
{
    const size_t most = 0x3fffffff;
    const bool in = wisp_dconv_copies(c, c->in) > 2, out = wisp_dconv_copies(c, c->out) > 2;
    if (wisp_dconv_capability() < 80) return false;
    if (c->n * c->h * c->w > most || c->n * c->oh * c->ow > most) return false;
    if (c->h * c->w * c->in > most || c->oh * c->ow * c->out > most) return false;
    if (wisp_dconv_row(c) > most || c->kh * c->kw * c->out > most) return false;
    if (c->groups * wisp_most(c->kh * c->kw, c->stride * c->stride) > 65535) return false;
    return (in || pass == WISP_DCONV_DATA) && (out || pass == WISP_DCONV_FORWARD);
}

static size_t bytes(const struct wisp_dconv *c, enum wisp_dconv_pass pass, const void *)
{
    if (pass == WISP_DCONV_WEIGHTS) return wisp_dconv_tensor_w_bytes(c);
    return pass == WISP_DCONV_DATA ? c->out * wisp_dconv_row(c) * wisp_dconv_size(c) : 0;
}

static bool run(const struct wisp_dconv *c, enum wisp_dconv_pass pass, const void *,
                const struct wisp_dconv_job *j, cudaStream_t s)
{
    const bool back = pass == WISP_DCONV_DATA;
    if (pass == WISP_DCONV_WEIGHTS) {
        wisp_dconv_tensor_w(c, j, s);
        return true;
    }
    const struct product p = product_of(c, j, back);
    const int copies = wisp_dconv_copies(c, back ? c->out : c->in);
    if (back) wisp_dconv_turn(c, j->work, j->w, s);
    if (c->math == WISP_DCONV_BF16) launch_any<__nv_bfloat16>(p, copies, s);
    else if (c->math == WISP_DCONV_TF32) launch_any<float>(p, copies, s);
    else launch_floats(p, copies, s);
    return true;
}

const struct wisp_dconv_way wisp_dconv_tensor = {
    "tensor", "own kernels, on tensor cores but for fp32", can, NULL, NULL, bytes, run
};

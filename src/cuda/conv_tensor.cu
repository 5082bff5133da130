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
#include "cuda/conv_tensor.cuh"
#include "cuda/vector.cuh"

enum { ROWS = 128, THREADS = 256, STAGES = 3, STAGE = 128, SLOTS = STAGE / 16 };
enum { TURN = 256 };

struct product {
    const void *a, *b;
    void *d;
    const float *bias;
    const void *gate;
    const uint32_t *now_n;
    bool relu, back;    /* back: data */
    int n;              /* samples */
    int ah, aw, ac, ag; /* pixels of a, its channels, those of a group */
    int dh, dw, dc, dg; /* the same of d */
    int kh, kw, stride, pad_h, pad_w;
    int groups;
};

/* The pixels and taps of a block, along one side of the image: d's pixel p is at start + apart p,
 * a's at p times 'step' + base, then one further (or, going back, before) with every tap; tap k is
 * first + apart_taps k of the kernel. */
struct side {
    int count, start, apart, step, base, taps, first, apart_taps;
};

__device__ static struct side side_of(bool back, int pixels, int kernel, int stride, int pad,
                                      int phase)
{
    if (!back) return { pixels, 0, 1, stride, -pad, kernel, 0, 1 };
    const int first = (phase + pad) % stride;
    return { pixels > phase ? (pixels - phase + stride - 1) / stride : 0,
             phase,
             stride,
             1,
             (phase + pad - first) / stride,
             kernel > first ? (kernel - first + stride - 1) / stride : 0,
             first,
             stride };
}

__device__ static uint32_t slot_at(uint32_t tile, int row, int slot)
{
    return tile + (uint32_t)(row * STAGE + ((slot ^ (row & 7)) * 16));
}

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

template <int COLS> struct shape { /* of a block, and of its warps: each has 32 columns */
    static constexpr int WIDE = COLS / 32, HIGH = THREADS / 32 / WIDE; /* warps */
    static constexpr int FRAGMENTS = ROWS / HIGH / 16;                 /* of 16 rows, of a warp */
    static constexpr int STAGE_BYTES = (ROWS + COLS) * STAGE;
    static constexpr int OUT_STRIDE = COLS + 8; /* floats; a quarter of a warp writes to 32 banks */
    static constexpr int BYTES = STAGES * STAGE_BYTES + 1024; /* boxes begin at multiples of 1024 */
    static_assert(STAGES * STAGE_BYTES >= ROWS * OUT_STRIDE * 4,
                  "the result fits where the stages were");
};

/* A stage's products of a warp; d[4 i + j]: fragment i, columns 8 j on. */
template <class T, int COLS>
__device__ static void multiply_stage(float (&d)[COLS / 8][4], uint32_t a_tile, uint32_t b_tile)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int a_row = warp / shape<COLS>::WIDE * shape<COLS>::FRAGMENTS * 16 + (lane & 15);
    const int b_row = warp % shape<COLS>::WIDE * 32 + (lane & 7) + ((lane >> 4) << 3);
#pragma unroll
    for (int k = 0; k < SLOTS / 2; k++) {
        uint32_t a[shape<COLS>::FRAGMENTS][4], b[2][4];
#pragma unroll
        for (int i = 0; i < shape<COLS>::FRAGMENTS; i++)
            wisp_ldmatrix(a[i], slot_at(a_tile, a_row + i * 16, 2 * k + (lane >> 4)));
#pragma unroll
        for (int i = 0; i < 2; i++)
            wisp_ldmatrix(b[i], slot_at(b_tile, b_row + i * 16, 2 * k + ((lane >> 3) & 1)));
        if (sizeof(T) == 4) {
#pragma unroll
            for (int i = 0; i < shape<COLS>::FRAGMENTS; i++)
#pragma unroll
                for (int w = 0; w < 4; w++) a[i][w] = wisp_tf32(a[i][w]);
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int w = 0; w < 4; w++) b[i][w] = wisp_tf32(b[i][w]);
        }
#pragma unroll
        for (int i = 0; i < shape<COLS>::FRAGMENTS; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                wisp_mma<T>(d[i * 4 + j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
/* The same of a group of warps, which has 64 rows and all columns; they go on after the return. */
template <int COLS>
__device__ static void begin_stage(float (&d)[COLS / 8][4], uint32_t a_tile, uint32_t b_tile,
                                   int group)
{
    const uint64_t a = wgmma_matrix(a_tile + group * 64 * STAGE), b = wgmma_matrix(b_tile);
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < STAGE / 32; k++) wisp_groups_add<false>(d, a + 2 * k, b + 2 * k);
    wgmma_commit();
}
#endif

/* The block's rows, from row0 on, written; tile: its sums. */
template <class T, int COLS>
__device__ static void write_rows(const struct product &p, const struct side &y,
                                  const struct side &x, int group, int row0, int rows, int col0,
                                  const float *tile)
{
    constexpr int N = 16 / (int)sizeof(T);
    for (int at = (int)threadIdx.x; at < ROWS * COLS / N; at += THREADS) {
        const int r = at / (COLS / N), c = at % (COLS / N) * N, col = col0 + c;
        const int row = row0 + r;
        if (row >= rows || col >= p.dg) continue;
        size_t pixel = (size_t)row;
        if (y.apart > 1) { /* a phase of several */
            const int sample = row / (y.count * x.count), left = row % (y.count * x.count);
            const int py = y.start + y.apart * (left / x.count);
            pixel = ((size_t)sample * p.dh + py) * p.dw + x.start + x.apart * (left % x.count);
        }
        const size_t to = pixel * p.dc + (size_t)group * p.dg + col;
        wisp_vector<T, N> v;
#pragma unroll
        for (int i = 0; i < N; i++) {
            v.v[i] = tile[r * shape<COLS>::OUT_STRIDE + c + i];
            if (p.bias && col + i < p.dg) v.v[i] += p.bias[group * p.dg + col + i];
            if (p.relu) v.v[i] = v.v[i] > 0 ? v.v[i] : 0;
        }
        if (p.dg % N == 0) {
            if (p.gate) {
                const auto gate = wisp_vector<T, N>::at((const T *)p.gate + to);
#pragma unroll
                for (int i = 0; i < N; i++) v.v[i] = gate.v[i] > 0 ? v.v[i] : 0;
            }
            v.to((T *)p.d + to);
        } else {
            for (int i = 0; i < N && col + i < p.dg; i++) {
                const bool off = p.gate && !((float)((const T *)p.gate)[to + i] > 0);
                ((T *)p.d)[to + i] = (T)(off ? 0 : v.v[i]);
            }
        }
    }
}

/* VEC: bytes that are copied at a time, 16, 8 or 4; a group's channels are a multiple of them.  GROUPS:
 * by products of groups of warps. */
template <class T, int COLS, int VEC, bool GROUPS>
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
    const int lane = (int)threadIdx.x % 32;
    float d[COLS / 8][4] = {};
    for (int k = 0; k < STAGES - 1; k++) {
        if (k < stages) load(k);
        copy_commit();
    }
#pragma unroll 1
    for (int k = 0; k < stages; k++) {
        const uint32_t a_tile = tiles + (uint32_t)(k % STAGES * S::STAGE_BYTES);
        copy_wait<STAGES - 2>();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
        if constexpr (GROUPS) wgmma_see_copies();
#endif
        __syncthreads(); /* also: all are done with the stage before, which is loaded next */
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
        if constexpr (GROUPS) begin_stage<COLS>(d, a_tile, a_tile + ROWS * STAGE, warp / 4);
#endif
        if (k + STAGES - 1 < stages) load((k + STAGES - 1) % STAGES);
        copy_commit();
        if constexpr (!GROUPS) multiply_stage<T, COLS>(d, a_tile, a_tile + ROWS * STAGE);
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
        if constexpr (GROUPS) wgmma_wait<0>();
#endif
    }
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    if constexpr (GROUPS) wgmma_results(d);
#endif
    copy_wait<0>();
    __syncthreads();

    float *out = (float *)pool;
#pragma unroll
    for (int i = 0; i < COLS / 8; i++) {
        int r = warp * 16 + lane / 4, c = i * 8 + lane % 4 * 2;
        if (!GROUPS) {
            r = (warp / S::WIDE * S::FRAGMENTS + i / 4) * 16 + lane / 4;
            c = warp % S::WIDE * 32 + i % 4 * 8 + lane % 4 * 2;
        }
        float *to = out + r * S::OUT_STRIDE + c;
        *(float2 *)to = make_float2(d[i][0], d[i][1]);
        *(float2 *)(to + 8 * S::OUT_STRIDE) = make_float2(d[i][2], d[i][3]);
    }
    __syncthreads();
    write_rows<T, COLS>(p, y, x, group, row0, rows, col0, out);
}

template <class T, int COLS, int VEC, bool GROUPS>
static void launch(const struct product &p, cudaStream_t s)
{
    const int phases = p.back ? p.stride * p.stride : 1;
    const int side_h = p.back ? (p.dh + p.stride - 1) / p.stride : p.dh;
    const int side_w = p.back ? (p.dw + p.stride - 1) / p.stride : p.dw;
    const size_t rows = (size_t)p.n * side_h * side_w;
    const dim3 grid((unsigned)(wisp_parts(rows, ROWS) * wisp_parts((size_t)p.dg, COLS)), 1,
                    (unsigned)(p.groups * phases));
    cudaFuncSetAttribute(multiply<T, COLS, VEC, GROUPS>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, shape<COLS>::BYTES);
    multiply<T, COLS, VEC, GROUPS><<<grid, THREADS, shape<COLS>::BYTES, s>>>(p);
}

/* As many columns as the results need, up to 128. */
template <class T, int VEC> static void launch_few(const struct product &p, cudaStream_t s)
{
    if (p.dg > 32) launch<T, 64, VEC, false>(p, s);
    else launch<T, 32, VEC, false>(p, s);
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

static void turn_weights(const struct wisp_dconv *c, void *to, const void *w, cudaStream_t s)
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

static struct product product_of(const struct wisp_dconv *c, const struct wisp_dconv_job *j,
                                 bool back)
{
    struct product p = {};
    p.now_n = j->n, p.n = (int)c->n, p.back = back, p.groups = (int)c->groups;
    p.kh = (int)c->kh, p.kw = (int)c->kw, p.stride = (int)c->stride;
    p.pad_h = (int)c->pad_h, p.pad_w = (int)c->pad_w;
    p.ah = (int)c->h, p.aw = (int)c->w, p.ac = (int)c->in;
    p.dh = (int)c->oh, p.dw = (int)c->ow, p.dc = (int)c->out;
    p.a = j->x, p.b = j->w, p.d = j->y, p.bias = j->bias, p.relu = j->relu;
    if (back) {
        p.ah = (int)c->oh, p.aw = (int)c->ow, p.ac = (int)c->out;
        p.dh = (int)c->h, p.dw = (int)c->w, p.dc = (int)c->in;
        p.a = j->gy, p.b = j->work, p.d = j->gx, p.bias = NULL, p.relu = false, p.gate = j->gate;
    }
    p.ag = p.ac / p.groups, p.dg = p.dc / p.groups;
    return p;
}

/* The channels that are copied, of a group, fill whole words; numbers of pixels and places in a
 * sample are ints, the blocks of a grid's third side at most 65,535. */
static bool can(const struct wisp_dconv *c, enum wisp_dconv_pass pass)
{
    const size_t most = 0x3fffffff;
    const bool in = wisp_dconv_copies(c, c->in) > 2, out = wisp_dconv_copies(c, c->out) > 2;
    if (c->math == WISP_DCONV_FP32 || wisp_dconv_capability() < 80) return false;
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
    if (back) turn_weights(c, j->work, j->w, s);
    if (c->math == WISP_DCONV_BF16) launch_any<__nv_bfloat16>(p, copies, s);
    else launch_any<float>(p, copies, s);
    return true;
}

const struct wisp_dconv_way wisp_dconv_tensor = {
    "tensor", "own kernels on tensor cores", can, NULL, NULL, bytes, run
};

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
 * row r lies at s ^ (r % 8), so that 8 rows of a slot lie in 8 different places.  The result goes
 * through shared memory and is written 16 bytes at a time. */
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

__device__ static void go_on(struct term *t, int by, int channels, int taps_w)
{
    t->c += by;
    while (t->c >= channels) {
        t->c -= channels;
        if (++t->j == taps_w) t->j = 0, t->i++;
    }
}

/* ---- the product ---- */

template <int COLS> struct shape { /* of a block, and of its warps: each has 32 columns */
    static constexpr int WIDE = COLS / 32, HIGH = THREADS / 32 / WIDE; /* warps */
    static constexpr int FRAGMENTS = ROWS / HIGH / 16;                 /* of 16 rows, of a warp */
    static constexpr int STAGE_BYTES = (ROWS + COLS) * STAGE;
    static constexpr int OUT_STRIDE = COLS + 8; /* floats; a quarter of a warp writes to 32 banks */
    static constexpr int BYTES = STAGES * STAGE_BYTES;
    static_assert(BYTES >= ROWS * OUT_STRIDE * 4, "the result fits where the stages were");
};

/* A stage's products of a warp. */
template <class T, int COLS>
__device__ static void multiply_stage(float (&d)[shape<COLS>::FRAGMENTS][4][4], uint32_t a_tile,
                                      uint32_t b_tile)
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
                wisp_mma<T>(d[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
}

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

/* VEC: bytes that are copied at a time, 16 or 4; a group's channels are a multiple of them. */
template <class T, int COLS, int VEC>
__global__ static void __launch_bounds__(THREADS, 2)
    multiply(const __grid_constant__ struct product p)
{
    using S = shape<COLS>;
    constexpr int EACH = VEC / (int)sizeof(T), PIECES = 16 / VEC, ALL = STAGE / (int)sizeof(T);
    constexpr int A_ROWS = ROWS * SLOTS / THREADS, B_ROWS = COLS * SLOTS / THREADS;
    constexpr int NOWHERE = -0x40000000;
    extern __shared__ __align__(128) char pool[];
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
    struct term at = { 0, 0, 0 };
    if (stages) go_on(&at, slot * (16 / (int)sizeof(T)), p.ag, x.taps);

    const uint32_t tiles = wisp_shared_at(pool);
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
            if (PIECES > 1) go_on(&t, EACH, p.ag, x.taps);
        }
        go_on(&at, ALL, p.ag, x.taps);
    };

    float d[S::FRAGMENTS][4][4] = {};
    for (int k = 0; k < STAGES - 1; k++) {
        if (k < stages) load(k);
        wisp_copies_end();
    }
    for (int k = 0; k < stages; k++) {
        wisp_copies_wait<STAGES - 2>();
        __syncthreads(); /* also: all are done with the stage before, which is loaded next */
        if (k + STAGES - 1 < stages) load((k + STAGES - 1) % STAGES);
        wisp_copies_end();
        const uint32_t a_tile = tiles + (uint32_t)(k % STAGES * S::STAGE_BYTES);
        multiply_stage<T, COLS>(d, a_tile, a_tile + ROWS * STAGE);
    }
    wisp_copies_wait<0>();
    __syncthreads();

    float *out = (float *)pool;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int r = warp / S::WIDE * S::FRAGMENTS * 16 + lane / 4,
              c = warp % S::WIDE * 32 + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < S::FRAGMENTS; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float *to = out + (r + i * 16) * S::OUT_STRIDE + c + j * 8;
            *(float2 *)to = make_float2(d[i][j][0], d[i][j][1]);
            *(float2 *)(to + 8 * S::OUT_STRIDE) = make_float2(d[i][j][2], d[i][j][3]);
        }
    __syncthreads();
    write_rows<T, COLS>(p, y, x, group, row0, rows, col0, out);
}

template <class T, int COLS, int VEC> static void launch(const struct product &p, cudaStream_t s)
{
    const int phases = p.back ? p.stride * p.stride : 1;
    const int side_h = p.back ? (p.dh + p.stride - 1) / p.stride : p.dh;
    const int side_w = p.back ? (p.dw + p.stride - 1) / p.stride : p.dw;
    const size_t rows = (size_t)p.n * side_h * side_w;
    const dim3 grid((unsigned)(wisp_parts(rows, ROWS) * wisp_parts((size_t)p.dg, COLS)), 1,
                    (unsigned)(p.groups * phases));
    cudaFuncSetAttribute(multiply<T, COLS, VEC>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         shape<COLS>::BYTES);
    multiply<T, COLS, VEC><<<grid, THREADS, shape<COLS>::BYTES, s>>>(p);
}

template <class T> static void launch_any(const struct product &p, bool wide, cudaStream_t s)
{
    if (!wide) launch<T, 64, 4>(p, s);
    else if (p.dg > 64) launch<T, 128, 16>(p, s);
    else launch<T, 64, 16>(p, s);
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
    const size_t size = wisp_dconv_size(c), most = 0x3fffffff;
    const bool in = c->in / c->groups * size % 4 == 0, out = c->out / c->groups * size % 4 == 0;
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
    const bool wide = wisp_dconv_wide(c, back ? c->out : c->in);
    if (back) turn_weights(c, j->work, j->w, s);
    if (c->math == WISP_DCONV_BF16) launch_any<__nv_bfloat16>(p, wide, s);
    else launch_any<float>(p, wide, s);
    return true;
}

const struct wisp_dconv_way wisp_dconv_tensor = {
    "tensor", "own kernels on tensor cores", can, NULL, NULL, bytes, run
};

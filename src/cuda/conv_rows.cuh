/* Convolution by tensor cores as a product whose rows are pixels (conv_tensor.cu has the formulas):
 * what the dense way and the one that skips share, which is all but how tiles are filled.
 *
 * Tiles lie in shared memory as rows of 128 bytes of terms, pixels of a before columns of b.  Slot s
 * (16 bytes) of row r lies at s ^ (r % 8), so that 8 rows of a slot lie in 8 different places; it is
 * also the order that wgmma wants.  The sums go through shared memory and are written 16 bytes at a
 * time. */
#ifndef WISP_CUDA_CONV_ROWS_CUH
#define WISP_CUDA_CONV_ROWS_CUH

#include "cuda/conv_tensor.cuh"
#include "cuda/vector.cuh"

enum { ROWS = 128, THREADS = 256, STAGES = 3, STAGE = 128, SLOTS = STAGE / 16 };

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

static inline struct product product_of(const struct wisp_dconv *c, const struct wisp_dconv_job *j,
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

/* A stage's products as multiply-adds on floats as they are; d as multiply_stage has it. */
template <int COLS>
__device__ static void multiply_floats(float (&d)[COLS / 8][4], const unsigned char *tile)
{
    using S = shape<COLS>;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int row = warp / S::WIDE * S::FRAGMENTS * 16 + lane / 4;
    const int col = warp % S::WIDE * 32 + lane % 4 * 2;
#pragma unroll 2
    for (int k = 0; k < SLOTS; k++) {
        float4 b[4][2];
#pragma unroll
        for (int j = 0; j < 8; j++)
            b[j / 2][j % 2] =
                *(const float4 *)(tile + ROWS * STAGE + slot_at(0, col + j / 2 * 8 + j % 2, k));
#pragma unroll
        for (int i = 0; i < S::FRAGMENTS; i++)
#pragma unroll
            for (int w = 0; w < 4; w++) {
                const float4 a = *(const float4 *)(tile + slot_at(0, row + i * 16 + w / 2 * 8, k));
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const float4 v = b[j][w % 2];
                    float sum = d[i * 4 + j][w];
                    sum += a.x * v.x, sum += a.y * v.y, sum += a.z * v.z, sum += a.w * v.w;
                    d[i * 4 + j][w] = sum;
                }
            }
    }
}

/* A stage's products: of warps, done at the return, or of groups of them, only begun.  FLOATS: by
 * multiply-adds. */
template <class T, int COLS, bool GROUPS, bool FLOATS>
__device__ static void add_stage(float (&d)[COLS / 8][4], const unsigned char *tile, int warp)
{
    const uint32_t a_tile = shared_at(tile), b_tile = a_tile + ROWS * STAGE;
    if constexpr (FLOATS) multiply_floats<COLS>(d, tile);
    else if constexpr (!GROUPS) multiply_stage<T, COLS>(d, a_tile, b_tile);
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    if constexpr (GROUPS) begin_stage<COLS>(d, a_tile, b_tile, warp / 4);
#endif
}

/* All stages are multiplied: the block's sums go where they were. */
template <int COLS, bool GROUPS>
__device__ static void lay_sums(float *out, float (&d)[COLS / 8][4], int warp)
{
    using S = shape<COLS>;
    const int lane = (int)threadIdx.x % 32;
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    if constexpr (GROUPS) wgmma_results(d);
#endif
    copy_wait<0>();
    __syncthreads();
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
}

#endif

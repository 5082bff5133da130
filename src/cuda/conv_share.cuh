/* The gradient of a convolution's weights by tensor cores (conv_tensor_w.cu has the formula): what the
 * dense way and the one that skips share, which is all but how tiles are filled.
 *
 * Tiles are (pixels, outputs) and (pixels, taps and channels), in boxes of 128 bytes of each pixel.
 * Slot s (16 bytes) of pixel r lies at s ^ (r % 8), and of floats at s ^ (r % 4 * 2): then the lanes
 * of a warp read from different banks. */
#ifndef WISP_CUDA_CONV_SHARE_CUH
#define WISP_CUDA_CONV_SHARE_CUH

#include "cuda/conv_tensor.cuh"

enum { COLS = 128, THREADS = 256, WARPS_WIDE = 4, WARPS_HIGH = 2, LINE = 128 };

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

static inline struct share share_of(const struct wisp_dconv *c, const struct wisp_dconv_job *j,
                                    size_t n, size_t each)
{
    struct share p = { j->gy, j->x, n > 1 ? (float *)j->work : j->gw, j->n };
    p.n = (int)c->n, p.oh = (int)c->oh, p.ow = (int)c->ow, p.out = (int)c->out;
    p.og = (int)(c->out / c->groups), p.ig = (int)(c->in / c->groups);
    p.h = (int)c->h, p.w = (int)c->w, p.in = (int)c->in, p.kw = (int)c->kw;
    p.stride = (int)c->stride, p.pad_h = (int)c->pad_h, p.pad_w = (int)c->pad_w;
    p.width = (int)wisp_dconv_row(c), p.n_shares = (int)n, p.each = (int)each;
    return p;
}

template <class T, int ROWS, bool GROUPS> struct form {
    static constexpr int DEPTH = GROUPS ? 64 : 64 / (int)sizeof(T); /* pixels of a stage */
    static constexpr int N = 16 / (int)sizeof(T);                   /* values of a slot */
    static constexpr int A_SLOTS = ROWS / N, B_SLOTS = COLS / N;
    static constexpr int A_STEP = THREADS / A_SLOTS, B_STEP = THREADS / B_SLOTS; /* pixels apart */
    static constexpr int A_EACH = DEPTH / A_STEP, B_EACH = DEPTH / B_STEP; /* slots of a thread */
    static constexpr int BOX = DEPTH * LINE, A_BYTES = A_SLOTS / 8 * BOX;
    static constexpr int STAGES = GROUPS ? 3 : 4, STAGE_BYTES = A_BYTES + B_SLOTS / 8 * BOX;
    static constexpr int BYTES = STAGES * STAGE_BYTES + 1024; /* boxes begin at multiples of 1024 */
    static constexpr int FRAGMENTS = ROWS / WARPS_HIGH / 16;  /* of 16 rows, of a warp */
    static_assert(A_EACH > 0 && B_EACH > 0, "every thread has some");
    static_assert(!GROUPS || BOX == 8192, "as wgmma_turned says");
};

/* Where a slot of a pixel lies in a tile of boxes of DEPTH pixels. */
template <class T, int DEPTH> __device__ static int slot_at(int pixel, int slot)
{
    const int swap = sizeof(T) == 2 ? pixel & 7 : (pixel & 3) * 2;
    return slot / 8 * DEPTH * LINE + pixel * LINE + ((slot % 8 ^ swap) * 16);
}

/* ---- a stage's products ---- */

template <int ROWS>
__device__ static void multiply_stage(float (&d)[ROWS / 8][4], const unsigned char *tile,
                                      __nv_bfloat16)
{
    using F = form<__nv_bfloat16, ROWS, false>;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int row = warp / WARPS_WIDE * F::FRAGMENTS * 16 + ((lane >> 3) & 1) * 8;
    const int col = warp % WARPS_WIDE * 32 + (lane >> 4) * 8;
    const uint32_t a_tile = shared_at(tile), b_tile = a_tile + F::A_BYTES;
#pragma unroll
    for (int k = 0; k < F::DEPTH; k += 16) {
        const int a_pixel = k + (lane & 7) + (lane >> 4) * 8;
        const int b_pixel = k + (lane & 7) + ((lane >> 3) & 1) * 8;
        uint32_t a[F::FRAGMENTS][4], b[2][4];
#pragma unroll
        for (int i = 0; i < F::FRAGMENTS; i++)
            wisp_ldmatrix_turned(a[i], a_tile + (uint32_t)slot_at<__nv_bfloat16, F::DEPTH>(
                                                    a_pixel, (row + i * 16) / F::N));
#pragma unroll
        for (int i = 0; i < 2; i++)
            wisp_ldmatrix_turned(b[i], b_tile + (uint32_t)slot_at<__nv_bfloat16, F::DEPTH>(
                                                    b_pixel, (col + i * 16) / F::N));
#pragma unroll
        for (int i = 0; i < F::FRAGMENTS; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                wisp_mma<__nv_bfloat16>(d[i * 4 + j], a[i], b[j / 2][j % 2 * 2],
                                        b[j / 2][j % 2 * 2 + 1]);
    }
}

template <int DEPTH>
__device__ static uint32_t word_at(const unsigned char *tile, int pixel, int place)
{
    const unsigned char *at = tile + slot_at<float, DEPTH>(pixel, place / 4) + place % 4 * 4;
    return wisp_tf32(*(const uint32_t *)at);
}

template <int ROWS>
__device__ static void multiply_stage(float (&d)[ROWS / 8][4], const unsigned char *tile, float)
{
    using F = form<float, ROWS, false>;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int row = warp / WARPS_WIDE * F::FRAGMENTS * 16 + lane / 4;
    const int col = warp % WARPS_WIDE * 32 + lane / 4;
    const unsigned char *a_tile = tile, *b_tile = tile + F::A_BYTES;
#pragma unroll
    for (int k = 0; k < F::DEPTH; k += 8) {
        const int pixel = k + lane % 4;
        uint32_t a[F::FRAGMENTS][4], b[4][2];
#pragma unroll
        for (int i = 0; i < F::FRAGMENTS; i++)
#pragma unroll
            for (int w = 0; w < 4; w++)
                a[i][w] = word_at<F::DEPTH>(a_tile, pixel + w / 2 * 4, row + i * 16 + w % 2 * 8);
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int w = 0; w < 2; w++)
                b[j][w] = word_at<F::DEPTH>(b_tile, pixel + w * 4, col + j * 8);
#pragma unroll
        for (int i = 0; i < F::FRAGMENTS; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) wisp_mma<float>(d[i * 4 + j], a[i], b[j][0], b[j][1]);
    }
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
/* The same of a group of warps: of 128 rows it has 64, of 64 half of the columns.  They go on after
 * the return. */
template <int ROWS>
__device__ static void begin_stage(float (&d)[ROWS / 8][4], uint32_t tile, int group)
{
    using F = form<__nv_bfloat16, ROWS, true>;
    const uint64_t a = wgmma_turned(tile + (ROWS == 128 ? group * F::BOX : 0));
    const uint64_t b = wgmma_turned(tile + F::A_BYTES + (ROWS == 128 ? 0 : group * F::BOX));
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < F::DEPTH / 16; k++)
        wisp_groups_add<true>(d, a + k * (2048 >> 4), b + k * (2048 >> 4));
    wgmma_commit();
}
#endif

/* A stage's products as multiply-adds on floats as they are; d as multiply_stage has it. */
template <int ROWS>
__device__ static void multiply_floats(float (&d)[ROWS / 8][4], const unsigned char *tile)
{
    using F = form<float, ROWS, false>;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int row = warp / WARPS_WIDE * F::FRAGMENTS * 16 + lane / 4;
    const int col = warp % WARPS_WIDE * 32 + lane % 4 * 2;
#pragma unroll 4
    for (int k = 0; k < F::DEPTH; k++) {
        float2 b[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            b[j] = *(const float2 *)(tile + F::A_BYTES +
                                     slot_at<float, F::DEPTH>(k, (col + j * 8) / 4) + col % 4 * 4);
#pragma unroll
        for (int i = 0; i < 2 * F::FRAGMENTS; i++) {
            const int r = row + i * 8;
            const float a = *(const float *)(tile + slot_at<float, F::DEPTH>(k, r / 4) + r % 4 * 4);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                d[i / 2 * 4 + j][i % 2 * 2] += a * b[j].x;
                d[i / 2 * 4 + j][i % 2 * 2 + 1] += a * b[j].y;
            }
        }
    }
}

/* Of warps, done at the return, or of groups of them, only begun.  FLOATS: by multiply-adds. */
template <class T, int ROWS, bool GROUPS, bool FLOATS>
__device__ static void add_stage(float (&d)[ROWS / 8][4], const unsigned char *tile, int warp)
{
    if constexpr (FLOATS) multiply_floats<ROWS>(d, tile);
    else if constexpr (!GROUPS) multiply_stage<ROWS>(d, tile, T());
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    if constexpr (GROUPS) begin_stage<ROWS>(d, shared_at(tile), warp / 4);
#endif
}

template <int ROWS, bool GROUPS>
__device__ static void write_sums(const struct share &p, float (&d)[ROWS / 8][4], int share,
                                  int group, int row0, int col0, int warp)
{
    constexpr int FRAGMENTS = ROWS / WARPS_HIGH / 16;
    const int lane = (int)threadIdx.x % 32;
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    if constexpr (GROUPS) wgmma_results(d);
#endif
    float *to = p.to + ((size_t)share * p.out + (size_t)group * p.og) * p.width;
#pragma unroll
    for (int i = 0; i < ROWS / 8; i++) {
        int row = row0 + warp * 16 + lane / 4, col = col0 + i * 8 + lane % 4 * 2;
        if (GROUPS && ROWS == 64) row -= warp / 4 * 64, col += warp / 4 * 64;
        if (!GROUPS) {
            row = row0 + (warp / WARPS_WIDE * FRAGMENTS + i / 4) * 16 + lane / 4;
            col = col0 + warp % WARPS_WIDE * 32 + i % 4 * 8 + lane % 4 * 2;
        }
#pragma unroll
        for (int w = 0; w < 4; w++) {
            const int r = row + w / 2 * 8, c = col + w % 2;
            if (r < p.og && c < p.width) to[(size_t)r * p.width + c] = d[i][w];
        }
    }
}

#endif

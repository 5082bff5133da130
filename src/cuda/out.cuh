/* What the two forms of the output layer share: out.cu, and out_wgmma.cu for its products in bf16
 * on sm_90. */
#ifndef WISP_CUDA_OUT_CUH
#define WISP_CUDA_OUT_CUH

#include "cuda/ops.cuh"
#include "cuda/update.cuh"

enum { BM = 64, BN = 128 }; /* what active rows, and samples and columns, are filled up to */

__host__ __device__ static inline size_t up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* exp(x), as exact as what the result is kept in; 0 below -87. */
__device__ static inline float exponential(float x, float)
{
    return x < -87 ? 0 : expf(x);
}
__device__ static inline float exponential(float x, __nv_bfloat16)
{
    float y; /* flushes what is too small to 0 */
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634f));
    return y;
}

/* What E is, and what the loss adds up. */
template <class T>
__device__ static inline float value_and_term(float *term, enum wisp_loss_id loss, float z,
                                              float origin)
{
    if (loss == WISP_SOFTMAX) return *term = exponential(z - origin, T());
    float small = exponential(-fabsf(z), T()), part = 1 / (1 + small);
    *term = fmaxf(z, 0) + log1pf(small);
    return z < 0 ? small * part : part;
}

/* ---- numbers and panels ---- */

__device__ static inline float as_float(float x)
{
    return x;
}
__device__ static inline float as_float(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}
__device__ static inline void put(float *to, float x)
{
    *to = x;
}
__device__ static inline void put(__nv_bfloat16 *to, float x)
{
    *to = __float2bfloat16_rn(x);
}

template <class T> struct panels { /* scratch, seen with its type */
    T *w, *h, *fh, *e;
};

template <class T> static struct panels<T> panels_of(const struct wisp_dout &o) {
    return { (T *)o.w_panel, (T *)o.h_panel, (T *)o.fh_panel, (T *)o.e };
}

static inline size_t
depth_of(const struct wisp_dout &o) /* columns of a panel */
{
    return up(o.width, BN);
}

/* ---- sums over a block ---- */

enum { C_THREADS = 128 };

/* Of the C_THREADS threads of a block, the same in all. */
__device__ static inline double sum_all(double x, double *work)
{
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(WISP_WARP, x, d);
    if (threadIdx.x % 32 == 0) work[threadIdx.x / 32] = x;
    __syncthreads();
    double all = 0;
    for (int w = 0; w < C_THREADS / 32; w++) all += work[w];
    __syncthreads();
    return all;
}

/* ---- out_combine.cu ---- */

/* Parts that sums of all active rows are made in, where targets are smoothed. */
size_t wisp_out_row_parts(const struct wisp_dout &o);

/* ---- out_wgmma.cu ---- */

/* Whether this card and build have it, for this layer. */
bool wisp_out_has_wgmma(const struct wisp_dout &o);
/* Whether logits need panels, or leave them themselves. */
bool wisp_out_wgmma_gathers(const struct wisp_dout &o);
void wisp_out_wgmma_logits(const struct wisp_dout &o, cudaStream_t s);
/* Parts of the sums over active rows, and how many of them. */
size_t wisp_out_wgmma_splits(const struct wisp_dout &o);
void wisp_out_wgmma_hidden(const struct wisp_dout &o, cudaStream_t s);
/* Heat, and the gradient of the rows; true: and they have moved. */
bool wisp_out_wgmma_rows(const struct wisp_dout &o, cudaStream_t s);

#endif

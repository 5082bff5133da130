/* Convolution by tensor cores: what its two files share.  conv_tensor.cu is the way, with forward
 * and data; conv_tensor_w.cu has the gradient of weights.
 *
 * Tiles come by copies that do not wait, in boxes: rows of 128 bytes, their 16-byte pieces swapped
 * (wgmma.cuh).  Products are those of warps (mma.cuh), or, of bf16 on sm_90, of groups of four warps
 * (wgmma), whose operands are the boxes as they are. */
#ifndef WISP_CUDA_CONV_TENSOR_CUH
#define WISP_CUDA_CONV_TENSOR_CUH

#include "cuda/conv.cuh"
#include "cuda/mma.cuh"
#include "cuda/wgmma.cuh"

size_t wisp_dconv_tensor_w_bytes(const struct wisp_dconv *c);
void wisp_dconv_tensor_w(const struct wisp_dconv *c, const struct wisp_dconv_job *j,
                         cudaStream_t s);

/* to (in, kh, kw, out / groups) of w. */
void wisp_dconv_turn(const struct wisp_dconv *c, void *to, const void *w, cudaStream_t s);
/* Into how many shares the pixels are cut for weights, and pixels of each but for the last. */
size_t wisp_dconv_shares(const struct wisp_dconv *c, size_t *each);

/* Has this card products of groups of warps? */
bool wisp_dconv_has_groups(void);

/* BYTES (4, 8 or 16) to shared memory, or zeros. */
template <int BYTES>
static __device__ inline void wisp_copy_async(uint32_t to, const void *from, bool there)
{
    if constexpr (BYTES == 16) copy16(to, from, there);
    else copy_few<BYTES>(to, from, there);
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
/* d (64, 128) or (64, 64) += 16 terms. */
template <bool TURNED>
static __device__ inline void wisp_groups_add(float (&d)[16][4], uint64_t a, uint64_t b)
{
    wgmma128<TURNED, TURNED>(d, a, b, 1);
}
template <bool TURNED>
static __device__ inline void wisp_groups_add(float (&d)[8][4], uint64_t a, uint64_t b)
{
    wgmma64<TURNED, TURNED>(d, a, b, 1);
}
#endif

/* STAGES places of tiles: load(place) begins to copy the next stage, add(place) multiplies one; where
 * groups of warps do that it only begins to. */
template <int STAGES, bool GROUPS, class LOAD, class ADD>
static __device__ __forceinline__ void wisp_stages(int stages, LOAD load, ADD add)
{
    for (int k = 0; k < STAGES - 1; k++) {
        if (k < stages) load(k);
        copy_commit();
    }
#pragma unroll 1
    for (int k = 0; k < stages; k++) {
        copy_wait<STAGES - 2>();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
        if constexpr (GROUPS) wgmma_see_copies();
#endif
        __syncthreads(); /* also: all are done with the stage before, which is loaded next */
        if constexpr (GROUPS) add(k % STAGES);
        if (k + STAGES - 1 < stages) load((k + STAGES - 1) % STAGES);
        copy_commit();
        if constexpr (!GROUPS) add(k % STAGES);
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
        if constexpr (GROUPS) wgmma_wait<0>();
#endif
    }
}

/* How many bytes of a group's channels can be copied at a time: 16, 8, 4 or, where none, 2. */
static inline int wisp_dconv_copies(const struct wisp_dconv *c, size_t channels)
{
    const size_t bytes = channels / c->groups * wisp_dconv_size(c);
    return bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : 2;
}

#endif

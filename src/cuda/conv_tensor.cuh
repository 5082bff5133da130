/* Convolution by tensor cores: what its two files share.  conv_tensor.cu is the way, with forward
 * and data; conv_tensor_w.cu has the gradient of weights. */
#ifndef WISP_CUDA_CONV_TENSOR_CUH
#define WISP_CUDA_CONV_TENSOR_CUH

#include "cuda/conv.cuh"
#include "cuda/mma.cuh"

size_t wisp_dconv_tensor_w_bytes(const struct wisp_dconv *c);
void wisp_dconv_tensor_w(const struct wisp_dconv *c, const struct wisp_dconv_job *j,
                         cudaStream_t s);

/* Channels of a group that can be copied 16 bytes at a time. */
static inline bool wisp_dconv_wide(const struct wisp_dconv *c, size_t channels)
{
    return channels / c->groups * wisp_dconv_size(c) % 16 == 0;
}

#endif

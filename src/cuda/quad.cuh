/* Four numbers side by side, floats or bf16, as floats; and back through what was done to a value
 * (after.cuh), of which there is nothing but a ReLU where it is bf16. */
#ifndef WISP_CUDA_QUAD_CUH
#define WISP_CUDA_QUAD_CUH

#include "cuda/after.cuh"

static __device__ inline float4 wisp_dquad(const float *from)
{
    return *(const float4 *)from;
}
static __device__ inline float4 wisp_dquad(const __nv_bfloat16 *from)
{
    const uint2 w = *(const uint2 *)from;
    return make_float4(__uint_as_float(w.x << 16), __uint_as_float(w.x & 0xffff0000u),
                       __uint_as_float(w.y << 16), __uint_as_float(w.y & 0xffff0000u));
}
static __device__ inline void wisp_dquad_to(float *to, float4 x)
{
    *(float4 *)to = x;
}
static __device__ inline void wisp_dquad_to(__nv_bfloat16 *to, float4 x)
{
    const __nv_bfloat162 a = __floats2bfloat162_rn(x.x, x.y), b = __floats2bfloat162_rn(x.z, x.w);
    *(uint2 *)to = make_uint2(*(const uint32_t *)&a, *(const uint32_t *)&b);
}

static __device__ inline float4 wisp_dquad_back(const struct wisp_dafter &a,
                                                const struct wisp_dnow *now, size_t at,
                                                const float *h, float4 g)
{
    return wisp_dafter_back(a, now, at, h, g);
}
static __device__ inline float4 wisp_dquad_back(const struct wisp_dafter &a,
                                                const struct wisp_dnow *, size_t at,
                                                const __nv_bfloat16 *h, float4 g)
{
    if (!a.relu) return g;
    const float4 x = wisp_dquad(h + at);
    return make_float4(x.x > 0 ? g.x : 0, x.y > 0 ? g.y : 0, x.z > 0 ? g.z : 0, x.w > 0 ? g.w : 0);
}

#endif

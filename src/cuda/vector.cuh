/* N values side by side, floats or bf16, as floats: read and written at once, 16 bytes where N says
 * so.  Kernels that walk values take such a piece a thread. */
#ifndef WISP_CUDA_VECTOR_CUH
#define WISP_CUDA_VECTOR_CUH

#include <cuda_bf16.h>
#include <stdint.h>

template <class T, int N> struct wisp_vector {
    static_assert(N == 1 || N * sizeof(T) == 16, "one value, or 16 bytes");
    float v[N];

    __device__ static wisp_vector of(float x)
    {
        wisp_vector a;
#pragma unroll
        for (int i = 0; i < N; i++) a.v[i] = x;
        return a;
    }
    __device__ static wisp_vector at(const T *from)
    {
        wisp_vector a;
        if constexpr (N == 1) {
            a.v[0] = (float)*from;
        } else {
            const uint4 w = *(const uint4 *)from;
            const uint32_t words[4] = { w.x, w.y, w.z, w.w };
#pragma unroll
            for (int i = 0; i < 4; i++) {
                if constexpr (sizeof(T) == 4) {
                    a.v[i] = __uint_as_float(words[i]);
                } else {
                    a.v[2 * i] = __uint_as_float(words[i] << 16);
                    a.v[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
                }
            }
        }
        return a;
    }
    __device__ void to(T *place) const
    {
        if constexpr (N == 1) {
            *place = (T)v[0];
        } else {
            uint32_t words[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                if constexpr (sizeof(T) == 4) {
                    words[i] = __float_as_uint(v[i]);
                } else {
                    const __nv_bfloat162 two = __floats2bfloat162_rn(v[2 * i], v[2 * i + 1]);
                    words[i] = *(const uint32_t *)&two;
                }
            }
            *(uint4 *)place = make_uint4(words[0], words[1], words[2], words[3]);
        }
    }
};

#endif

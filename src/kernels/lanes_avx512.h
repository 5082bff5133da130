/* Vectors of 512 bits whose ends are done by masks: a masked-off lane is neither read nor written.  For whole
 * vectors the mask is the constant ALL, which the compiler drops. */
#ifndef WISP_KERNELS_LANES_AVX512_H
#define WISP_KERNELS_LANES_AVX512_H

#include <immintrin.h>
#include <stddef.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

enum { LANES = 16, ALL = 0xffff };

/* The first n lanes; all of them from 16 on. */
INLINE __mmask16 first(size_t n)
{
    return n >= LANES ? ALL : (__mmask16)((1u << n) - 1);
}
INLINE __m512 load(__mmask16 k, const float *x)
{
    return _mm512_maskz_loadu_ps(k, x);
}
INLINE void store(float *x, __mmask16 k, __m512 v)
{
    _mm512_mask_storeu_ps(x, k, v);
}

#endif

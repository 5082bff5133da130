/* Vectors of 256 bits whose ends are done by masks: a masked-off lane is neither read nor written.  For whole
 * vectors the mask is not used. */
#ifndef WISP_KERNELS_LANES_AVX2_H
#define WISP_KERNELS_LANES_AVX2_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

enum { LANES = 8 };

/* n is how many lanes an access may touch: from LANES on it is a plain access, below it goes by a mask. */
INLINE __m256i first(size_t n)
{
    static const int32_t ones_then_zeros[2 * LANES] = { -1, -1, -1, -1, -1, -1, -1, -1 };
    return _mm256_loadu_si256((const __m256i *)(ones_then_zeros + LANES - n));
}
INLINE __m256 load(size_t n, const float *x)
{
    return n >= LANES ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, first(n));
}
INLINE void store(float *x, size_t n, __m256 v)
{
    if (n >= LANES) _mm256_storeu_ps(x, v);
    else _mm256_maskstore_ps(x, first(n), v);
}
INLINE float total8(__m256 v) /* sum of the lanes */
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

#endif

/* Looking for numbers in arrays with 512-bit vectors; the last one is read by a mask. */
#include "kernels/kernels.h"

#include <immintrin.h>

enum { LANES = 16 };

static __mmask16 first(size_t n)
{
    return n >= LANES ? 0xffff : (__mmask16)((1u << n) - 1);
}

static size_t count_from(const float *x, size_t n, float least)
{
    const __m512 from = _mm512_set1_ps(least);
    size_t found = 0;
    for (size_t i = 0; i < n; i += LANES) {
        const __mmask16 k = first(n - i);
        const __mmask16 hit =
            _mm512_mask_cmp_ps_mask(k, _mm512_maskz_loadu_ps(k, x + i), from, _CMP_GE_OQ);
        found += (size_t)__builtin_popcount(hit);
    }
    return found;
}

static bool holds(const int32_t *x, size_t n, int32_t v)
{
    const __m512i want = _mm512_set1_epi32(v);
    __mmask16 hit = 0;
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 k = first(n - i);
        hit |= _mm512_mask_cmpeq_epi32_mask(k, _mm512_maskz_loadu_epi32(k, x + i), want);
    }
    return hit != 0;
}

void wisp_kernels_find_avx512(struct wisp_kernels *k)
{
    k->count_from = count_from;
    k->holds = holds;
}

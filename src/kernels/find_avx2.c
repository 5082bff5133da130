/* Looking for numbers in arrays with 256-bit vectors: whole vectors, then one at a time. */
#include "kernels/kernels.h"

#include <immintrin.h>

enum { LANES = 8 };

static size_t count_from(const float *x, size_t n, float least)
{
    const __m256 from = _mm256_set1_ps(least);
    size_t found = 0, i = 0;
    for (; i + LANES <= n; i += LANES) {
        const __m256 hit = _mm256_cmp_ps(_mm256_loadu_ps(x + i), from, _CMP_GE_OQ);
        found += (size_t)__builtin_popcount((unsigned)_mm256_movemask_ps(hit));
    }
    for (; i < n; i++) found += x[i] >= least;
    return found;
}

static bool holds(const int32_t *x, size_t n, int32_t v)
{
    const __m256i want = _mm256_set1_epi32(v);
    __m256i hit = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        hit = _mm256_or_si256(
            hit, _mm256_cmpeq_epi32(_mm256_loadu_si256((const __m256i *)(x + i)), want));
    for (; i < n; i++)
        if (x[i] == v) return true;
    return _mm256_movemask_epi8(hit) != 0;
}

void wisp_kernels_find_avx2(struct wisp_kernels *k)
{
    k->count_from = count_from;
    k->holds = holds;
}

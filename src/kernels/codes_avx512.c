/* Rows of few values with 512-bit vectors: 16 values are one register to choose from, 64 are four. */
#include "kernels/codes.h"
#include "kernels/kernels.h"

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

INLINE __m512i widen(const uint8_t *x)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)x));
}

/* A number's bits from the fourth on are ignored. */
static void group4(float *y, const uint8_t *codes, __m512 value)
{
    const __m512i code = widen(codes);
    _mm512_storeu_ps(y, _mm512_permutexvar_ps(code, value));
    _mm512_storeu_ps(y + 16, _mm512_permutexvar_ps(_mm512_srli_epi32(code, 4), value));
}

/* From the sixth on. */
INLINE __m512 choose(const __m512 value[4], __m512i code)
{
    const __mmask16 high = _mm512_test_epi32_mask(code, _mm512_set1_epi32(32));
    return _mm512_mask_blend_ps(high, _mm512_permutex2var_ps(value[0], code, value[1]),
                                _mm512_permutex2var_ps(value[2], code, value[3]));
}

static void group6(float *y, const uint8_t *codes, const __m512 value[4])
{
    const __m512i a = widen(codes), b = widen(codes + 16), c = widen(codes + 32);
    const __m512i last = _mm512_or_si512(
        _mm512_srli_epi32(a, 6), _mm512_or_si512(_mm512_slli_epi32(_mm512_srli_epi32(b, 6), 2),
                                                 _mm512_slli_epi32(_mm512_srli_epi32(c, 6), 4)));
    _mm512_storeu_ps(y, choose(value, a));
    _mm512_storeu_ps(y + 16, choose(value, b));
    _mm512_storeu_ps(y + 32, choose(value, c));
    _mm512_storeu_ps(y + 48, choose(value, last));
}

static void from_codes(float *y, const uint8_t *codes, int bits, const float *value, float scale,
                       size_t n)
{
    const size_t group = wisp_codes_group(bits), bytes = wisp_codes_bytes(bits, group);
    const __m512 by = _mm512_set1_ps(scale);
    float rest[WISP_CODES_MOST];
    __m512 v[4];
    for (int i = 0; i < 4; i++)
        v[i] = _mm512_mul_ps(by, _mm512_loadu_ps(value + (bits == 4 ? 0 : 16 * i)));
    for (size_t i = 0; i < n; i += group, codes += bytes) {
        float *to = n - i < group ? rest : y + i;
        if (bits == 4) group4(to, codes, v[0]);
        else group6(to, codes, v);
        if (to == rest) memcpy(y + i, rest, (n - i) * sizeof *y);
    }
}

void wisp_kernels_codes_avx512(struct wisp_kernels *k)
{
    k->from_codes = from_codes;
}

/* Rows of few values with 256-bit vectors: 16 values are two registers to choose from, 64 a table. */
#include "kernels/codes.h"
#include "kernels/kernels.h"

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

INLINE __m256i widen(const uint8_t *x)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)x));
}

/* A vector of numbers below 16; bits from the fourth on are ignored but for that one. */
INLINE __m256 choose(__m256 low, __m256 high, __m256i code)
{
    const __m256 of_high = _mm256_castsi256_ps(_mm256_slli_epi32(code, 28));
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, code),
                            _mm256_permutevar8x32_ps(high, code), of_high);
}

static void group4(float *y, const uint8_t *codes, __m256 low, __m256 high)
{
    for (int i = 0; i < 16; i += 8) {
        const __m256i code = widen(codes + i);
        _mm256_storeu_ps(y + i, choose(low, high, code));
        _mm256_storeu_ps(y + 16 + i, choose(low, high, _mm256_srli_epi32(code, 4)));
    }
}

INLINE __m256 look_up(const float *value, __m256i code)
{
    return _mm256_i32gather_ps(value, code, sizeof *value);
}

static void group6(float *y, const uint8_t *codes, const float *value)
{
    const __m256i low = _mm256_set1_epi32(63);
    for (int i = 0; i < 16; i += 8) {
        const __m256i a = widen(codes + i), b = widen(codes + 16 + i), c = widen(codes + 32 + i);
        const __m256i last =
            _mm256_or_si256(_mm256_srli_epi32(a, 6),
                            _mm256_or_si256(_mm256_slli_epi32(_mm256_srli_epi32(b, 6), 2),
                                            _mm256_slli_epi32(_mm256_srli_epi32(c, 6), 4)));
        _mm256_storeu_ps(y + i, look_up(value, _mm256_and_si256(a, low)));
        _mm256_storeu_ps(y + 16 + i, look_up(value, _mm256_and_si256(b, low)));
        _mm256_storeu_ps(y + 32 + i, look_up(value, _mm256_and_si256(c, low)));
        _mm256_storeu_ps(y + 48 + i, look_up(value, last));
    }
}

static void from_codes(float *y, const uint8_t *codes, int bits, const float *value, float scale,
                       size_t n)
{
    const size_t group = wisp_codes_group(bits), bytes = wisp_codes_bytes(bits, group);
    float scaled[WISP_CODES_MOST], rest[WISP_CODES_MOST];
    for (size_t i = 0; i < wisp_codes_values(bits); i++) scaled[i] = scale * value[i];
    const __m256 low = _mm256_loadu_ps(scaled), high = _mm256_loadu_ps(scaled + 8);
    for (size_t i = 0; i < n; i += group, codes += bytes) {
        float *to = n - i < group ? rest : y + i;
        if (bits == 4) group4(to, codes, low, high);
        else group6(to, codes, scaled);
        if (to == rest) memcpy(y + i, rest, (n - i) * sizeof *y);
    }
}

void wisp_kernels_codes_avx2(struct wisp_kernels *k)
{
    k->from_codes = from_codes;
}

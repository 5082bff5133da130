/* Functions with exponentials, with 256-bit vectors: what they do is explained in curves_avx512.c. */
#include "kernels/kernels.h"
#include "kernels/lanes_avx2.h"

INLINE __m256 exp8(__m256 x)
{
    const __m256 keep = _mm256_cmp_ps(x, _mm256_set1_ps(-87.0f), _CMP_NLT_UQ);
    x = _mm256_min_ps(_mm256_set1_ps(100.0f), _mm256_max_ps(_mm256_set1_ps(-100.0f), x));
    const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(0x1.715476p+0f)),
                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62e43p-1f), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-0x1.05c61p-29f), r);
    __m256 e = _mm256_set1_ps(1.0f / 5040);
    e = _mm256_fmadd_ps(e, r, _mm256_set1_ps(1.0f / 720));
    e = _mm256_fmadd_ps(e, r, _mm256_set1_ps(1.0f / 120));
    e = _mm256_fmadd_ps(e, r, _mm256_set1_ps(1.0f / 24));
    e = _mm256_fmadd_ps(e, r, _mm256_set1_ps(1.0f / 6));
    e = _mm256_fmadd_ps(e, r, _mm256_set1_ps(0.5f));
    e = _mm256_fmadd_ps(e, r, _mm256_set1_ps(1.0f));
    e = _mm256_fmadd_ps(e, r, _mm256_set1_ps(1.0f));
    /* times 2^n in two halves, each of which has an exponent even for n = 128 */
    const __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
    const __m256i bias = _mm256_set1_epi32(127);
    const __m256i lo = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    const __m256i hi = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), bias), 23);
    e = _mm256_mul_ps(_mm256_mul_ps(e, _mm256_castsi256_ps(lo)), _mm256_castsi256_ps(hi));
    return _mm256_and_ps(keep, e);
}

INLINE __m256 log1p8(__m256 e)
{
    const __m256 s = _mm256_div_ps(e, _mm256_add_ps(e, _mm256_set1_ps(2.0f)));
    const __m256 q = _mm256_mul_ps(s, s);
    __m256 t = _mm256_set1_ps(2.0f / 13);
    t = _mm256_fmadd_ps(t, q, _mm256_set1_ps(2.0f / 11));
    t = _mm256_fmadd_ps(t, q, _mm256_set1_ps(2.0f / 9));
    t = _mm256_fmadd_ps(t, q, _mm256_set1_ps(2.0f / 7));
    t = _mm256_fmadd_ps(t, q, _mm256_set1_ps(2.0f / 5));
    t = _mm256_fmadd_ps(t, q, _mm256_set1_ps(2.0f / 3));
    t = _mm256_fmadd_ps(t, q, _mm256_set1_ps(2.0f));
    return _mm256_mul_ps(t, s);
}

INLINE __m256 sigmoid8(__m256 x, __m256 e)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    const __m256 below = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ);
    return _mm256_div_ps(_mm256_blendv_ps(one, e, below), _mm256_add_ps(one, e));
}

static void col_exp(float *z, size_t ldz, float *total, const float *max, size_t m, size_t n)
{
    for (size_t j = 0; j < n; j += LANES) store(total + j, n - j, _mm256_setzero_ps());
    for (size_t i = 0; i < m; i++, z += ldz)
        for (size_t j = 0; j < n; j += LANES) {
            const __m256 e = exp8(_mm256_sub_ps(load(n - j, z + j), load(n - j, max + j)));
            store(z + j, n - j, e);
            store(total + j, n - j, _mm256_add_ps(load(n - j, total + j), e));
        }
}

static void col_sigmoid(float *z, size_t ldz, float *loss, size_t m, size_t n)
{
    const __m256 zero = _mm256_setzero_ps();
    const __m256 sign = _mm256_set1_ps(-0.0f);
    for (size_t j = 0; j < n; j += LANES) store(loss + j, n - j, zero);
    for (size_t i = 0; i < m; i++, z += ldz)
        for (size_t j = 0; j < n; j += LANES) {
            const __m256 x = load(n - j, z + j);
            const __m256 e = exp8(_mm256_or_ps(x, sign)); /* of -|x| */
            const __m256 l = _mm256_add_ps(_mm256_max_ps(x, zero), log1p8(e));
            store(loss + j, n - j, _mm256_add_ps(load(n - j, loss + j), l));
            store(z + j, n - j, sigmoid8(x, e));
        }
}

INLINE __m256 tanh8(__m256 x)
{
    const __m256 one = _mm256_set1_ps(1.0f), sign = _mm256_set1_ps(-0.0f),
                 size = _mm256_andnot_ps(sign, x), s = _mm256_mul_ps(x, x);
    const __m256 e = exp8(_mm256_mul_ps(_mm256_set1_ps(-2.0f), size));
    const __m256 far = _mm256_div_ps(_mm256_sub_ps(one, e), _mm256_add_ps(one, e));
    __m256 t = _mm256_set1_ps(62.0f / 2835);
    t = _mm256_fmadd_ps(t, s, _mm256_set1_ps(-17.0f / 315));
    t = _mm256_fmadd_ps(t, s, _mm256_set1_ps(2.0f / 15));
    t = _mm256_fmadd_ps(t, s, _mm256_set1_ps(-1.0f / 3));
    const __m256 near = _mm256_fmadd_ps(_mm256_mul_ps(size, s), t, size);
    const __m256 small = _mm256_cmp_ps(s, _mm256_set1_ps(0.1f), _CMP_LT_OQ);
    return _mm256_or_ps(_mm256_blendv_ps(far, near, small), _mm256_and_ps(x, sign));
}

static void row_sigmoid(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        const __m256 v = load(n - i, x + i);
        store(y + i, n - i, sigmoid8(v, exp8(_mm256_or_ps(v, _mm256_set1_ps(-0.0f)))));
    }
}

static void row_tanh(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) store(y + i, n - i, tanh8(load(n - i, x + i)));
}

static void row_gauss(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        const __m256 v = load(n - i, x + i);
        store(y + i, n - i, exp8(_mm256_fnmadd_ps(v, v, _mm256_setzero_ps())));
    }
}

void wisp_kernels_curves_avx2(struct wisp_kernels *k)
{
    k->col_exp = col_exp;
    k->col_sigmoid = col_sigmoid;
    k->row_sigmoid = row_sigmoid;
    k->row_tanh = row_tanh;
    k->row_gauss = row_gauss;
}

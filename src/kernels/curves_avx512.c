/* Functions with exponentials, with 512-bit vectors: of blocks of logits, and of rows; ends are done by masks. */
#include "kernels/kernels.h"
#include "kernels/lanes_avx512.h"

enum { NV = 4, NR = NV * LANES };

/* exp(x) = 2^n exp(r), n whole, |r| <= log(2) / 2; exp(r) is its Taylor series to r^7, whose
 * rest is below 6e-9.  ln2 is subtracted in two parts so that r keeps all its bits.  Below -87
 * the result is 0; a NaN stays (the operand order of min matters). */
INLINE __m512 exp16(__m512 x)
{
    const __mmask16 keep = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.0f), _CMP_NLT_UQ);
    x = _mm512_min_ps(_mm512_set1_ps(100.0f), x); /* infinity - infinity would be NaN */
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(0x1.715476p+0f)), 0);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62e43p-1f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-0x1.05c61p-29f), r);
    __m512 e = _mm512_set1_ps(1.0f / 5040);
    e = _mm512_fmadd_ps(e, r, _mm512_set1_ps(1.0f / 720));
    e = _mm512_fmadd_ps(e, r, _mm512_set1_ps(1.0f / 120));
    e = _mm512_fmadd_ps(e, r, _mm512_set1_ps(1.0f / 24));
    e = _mm512_fmadd_ps(e, r, _mm512_set1_ps(1.0f / 6));
    e = _mm512_fmadd_ps(e, r, _mm512_set1_ps(0.5f));
    e = _mm512_fmadd_ps(e, r, _mm512_set1_ps(1.0f));
    e = _mm512_fmadd_ps(e, r, _mm512_set1_ps(1.0f));
    return _mm512_maskz_scalef_ps(keep, e, n);
}

/* log(1 + e) for e in 0 .. 1 is 2 atanh(s), s = e / (2 + e) <= 1/3: the odd series
 * s + s^3 / 3 + ... to s^13 / 13, whose rest is below 2e-8 of it.  Small e lose nothing. */
INLINE __m512 log1p16(__m512 e)
{
    const __m512 s = _mm512_div_ps(e, _mm512_add_ps(e, _mm512_set1_ps(2.0f)));
    const __m512 q = _mm512_mul_ps(s, s);
    __m512 t = _mm512_set1_ps(2.0f / 13);
    t = _mm512_fmadd_ps(t, q, _mm512_set1_ps(2.0f / 11));
    t = _mm512_fmadd_ps(t, q, _mm512_set1_ps(2.0f / 9));
    t = _mm512_fmadd_ps(t, q, _mm512_set1_ps(2.0f / 7));
    t = _mm512_fmadd_ps(t, q, _mm512_set1_ps(2.0f / 5));
    t = _mm512_fmadd_ps(t, q, _mm512_set1_ps(2.0f / 3));
    t = _mm512_fmadd_ps(t, q, _mm512_set1_ps(2.0f));
    return _mm512_mul_ps(t, s);
}

/* 1 / (1 + exp(-x)): e = exp(-|x|) cannot overflow. */
INLINE __m512 sigmoid16(__m512 x, __m512 e)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    const __mmask16 below = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
    return _mm512_div_ps(_mm512_mask_mov_ps(one, below, e), _mm512_add_ps(one, e));
}

/* ---- blocks of logits: columns by stripes as in avx512.c ---- */

INLINE void exp_stripe(const int V, __mmask16 k, float *z, size_t ldz, float *total,
                       const float *max, size_t m)
{
    __m512 top[NV], t[NV];
    UNROLL for (int v = 0; v < V; v++)
    {
        top[v] = load(k, max + v * LANES);
        t[v] = _mm512_setzero_ps();
    }
    for (size_t i = 0; i < m; i++) UNROLL for (int v = 0; v < V; v++)
        {
            float *at = z + i * ldz + v * LANES;
            const __m512 e = exp16(_mm512_sub_ps(load(k, at), top[v]));
            store(at, k, e);
            t[v] = _mm512_add_ps(t[v], e);
        }
    UNROLL for (int v = 0; v < V; v++) store(total + v * LANES, k, t[v]);
}

static void col_exp(float *z, size_t ldz, float *total, const float *max, size_t m, size_t n)
{
    size_t j = 0;
    for (; j + NR <= n; j += NR) exp_stripe(NV, ALL, z + j, ldz, total + j, max + j, m);
    for (; j < n; j += LANES) exp_stripe(1, first(n - j), z + j, ldz, total + j, max + j, m);
}

INLINE void sigmoid_stripe(const int V, __mmask16 k, float *z, size_t ldz, float *loss, size_t m)
{
    const __m512 zero = _mm512_setzero_ps();
    __m512 t[NV];
    UNROLL for (int v = 0; v < V; v++) t[v] = zero;
    for (size_t i = 0; i < m; i++) UNROLL for (int v = 0; v < V; v++)
        {
            float *at = z + i * ldz + v * LANES;
            const __m512 x = load(k, at);
            const __m512 e = exp16(_mm512_sub_ps(zero, _mm512_abs_ps(x)));
            const __m512 l = _mm512_add_ps(_mm512_max_ps(x, zero), log1p16(e));
            t[v] = _mm512_add_ps(t[v], l);
            store(at, k, sigmoid16(x, e));
        }
    UNROLL for (int v = 0; v < V; v++) store(loss + v * LANES, k, t[v]);
}

static void col_sigmoid(float *z, size_t ldz, float *loss, size_t m, size_t n)
{
    size_t j = 0;
    for (; j + NR <= n; j += NR) sigmoid_stripe(NV, ALL, z + j, ldz, loss + j, m);
    for (; j < n; j += LANES) sigmoid_stripe(1, first(n - j), z + j, ldz, loss + j, m);
}

/* ---- rows ---- */

/* (1 - e) / (1 + e) with e = exp(-2|x|), and near 0, where 1 - e has few digits, the beginning of the
 * series, whose rest is below 1e-7 of it. */
INLINE __m512 tanh16(__m512 x)
{
    const __m512 one = _mm512_set1_ps(1.0f), size = _mm512_abs_ps(x), s = _mm512_mul_ps(x, x);
    const __m512 e = exp16(_mm512_mul_ps(_mm512_set1_ps(-2.0f), size));
    const __m512 far = _mm512_div_ps(_mm512_sub_ps(one, e), _mm512_add_ps(one, e));
    __m512 t = _mm512_set1_ps(62.0f / 2835);
    t = _mm512_fmadd_ps(t, s, _mm512_set1_ps(-17.0f / 315));
    t = _mm512_fmadd_ps(t, s, _mm512_set1_ps(2.0f / 15));
    t = _mm512_fmadd_ps(t, s, _mm512_set1_ps(-1.0f / 3));
    const __m512 near = _mm512_fmadd_ps(_mm512_mul_ps(size, s), t, size);
    const __mmask16 small = _mm512_cmp_ps_mask(s, _mm512_set1_ps(0.1f), _CMP_LT_OQ);
    return _mm512_or_ps(_mm512_mask_mov_ps(far, small, near),
                        _mm512_and_ps(x, _mm512_set1_ps(-0.0f)));
}

static void row_sigmoid(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        const __mmask16 k = first(n - i);
        const __m512 v = load(k, x + i);
        store(y + i, k, sigmoid16(v, exp16(_mm512_or_ps(v, _mm512_set1_ps(-0.0f)))));
    }
}

static void row_tanh(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        store(y + i, first(n - i), tanh16(load(first(n - i), x + i)));
}

static void row_gauss(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        const __mmask16 k = first(n - i);
        const __m512 v = load(k, x + i);
        store(y + i, k, exp16(_mm512_fnmadd_ps(v, v, _mm512_setzero_ps())));
    }
}

void wisp_kernels_curves_avx512(struct wisp_kernels *k)
{
    k->col_exp = col_exp;
    k->col_sigmoid = col_sigmoid;
    k->row_sigmoid = row_sigmoid;
    k->row_tanh = row_tanh;
    k->row_gauss = row_gauss;
}

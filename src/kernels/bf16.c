/* Kernels for bf16 with 512-bit vectors (AVX512_BF16: Cooper Lake, Sapphire Rapids, Zen 4).
 *
 * The product keeps a tile of 6 rows by 4 panels of C in 24 registers, as avx512.c does, but each
 * step takes a pair of rows of B: vdpbf16ps multiplies and adds twice as much as an FMA.  An
 * element of C is the sum over pairs in order: it does not depend on where in a tile it lies. */
#include "kernels/kernels.h"
#include "kernels/lanes_avx512.h"

#include <string.h>

enum { MR = 6, NV = 4 };

INLINE __m256i half(__m512 x) /* 16 floats rounded */
{
    return (__m256i)_mm512_cvtneps_pbh(x);
}

static void to16(uint16_t *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 k = first(n - i);
        _mm256_mask_storeu_epi16(y + i, k, half(_mm512_maskz_loadu_ps(k, x + i)));
    }
}

/* ---- layouts ---- */

INLINE __m512 scaled(const float *x, __mmask16 k, const float *s, size_t p)
{
    const __m512 v = _mm512_maskz_loadu_ps(k, x);
    return s ? _mm512_mul_ps(v, _mm512_set1_ps(s[p])) : v;
}

INLINE __m512i two_rows(__m512 even, __m512 odd)
{
    const __m512i lo = _mm512_cvtepu16_epi32(half(even));
    const __m512i hi = _mm512_slli_epi32(_mm512_cvtepu16_epi32(half(odd)), 16);
    return _mm512_or_si512(lo, hi);
}

/* Rows outside, panels inside: x is read, and each line of a panel written, once and whole. */
static void pairs(uint32_t *out, size_t ldo, const float *x, size_t ldx, const float *s, size_t k,
                  size_t whole, size_t n)
{
    const __m512 zero = _mm512_setzero_ps();
    for (size_t p = 0; p < whole; p += 2, x += 2 * ldx, out += LANES)
        for (size_t j = 0; j < n; j += LANES) {
            const __mmask16 on = first(n - j);
            const __m512 even = p < k ? scaled(x + j, on, s, p) : zero;
            const __m512 odd = p + 1 < k ? scaled(x + ldx + j, on, s, p + 1) : zero;
            _mm512_storeu_si512(out + j / LANES * ldo, two_rows(even, odd));
        }
}

/* 16 columns of a pair of rows, as words; NULL: a row of zeros. */
INLINE __m512i column_words(const uint16_t *even, const uint16_t *odd, __mmask16 on)
{
    const __m256i none = _mm256_setzero_si256();
    const __m256i lo = even ? _mm256_maskz_loadu_epi16(on, even) : none;
    const __m256i hi = odd ? _mm256_maskz_loadu_epi16(on, odd) : none;
    return _mm512_or_si512(_mm512_cvtepu16_epi32(lo),
                           _mm512_slli_epi32(_mm512_cvtepu16_epi32(hi), 16));
}

static void pairs16(uint32_t *out, size_t ldo, const uint16_t *x, size_t ldx, size_t k,
                    size_t whole, size_t n)
{
    for (size_t p = 0; p < whole; p += 2, x += 2 * ldx, out += LANES)
        for (size_t j = 0; j < n; j += LANES)
            _mm512_storeu_si512(
                out + j / LANES * ldo,
                column_words(p < k ? x + j : NULL, p + 1 < k ? x + ldx + j : NULL, first(n - j)));
}

/* Transposes 16 x 16 words. */
INLINE void turn_words(__m512i r[16])
{
    __m512i t[16];
    UNROLL for (int i = 0; i < 8; i++)
    {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    UNROLL for (int i = 0; i < 4; i++)
    {
        r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    UNROLL for (int i = 0; i < 4; i++)
    {
        t[i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88);
        t[4 + i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xdd);
        t[8 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88);
        t[12 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xdd);
    }
    UNROLL for (int i = 0; i < 8; i++)
    {
        r[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
        r[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
    }
}

/* 32 floats of a row, rounded: 16 words. */
INLINE __m512i row_words(const float *x, size_t left)
{
    const __mmask16 lo = first(left), hi = left > LANES ? first(left - LANES) : 0;
    const __m256i a = half(_mm512_maskz_loadu_ps(lo, x));
    const __m256i b = half(_mm512_maskz_loadu_ps(hi, x + LANES));
    return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

static void pairs_t(uint32_t *out, size_t ldo, const float *x, size_t ldx, size_t k, size_t n)
{
    for (size_t j = 0; j < n; j += LANES, out += ldo)
        for (size_t p = 0; p < k; p += 32) {
            __m512i r[LANES];
            for (size_t i = 0; i < LANES; i++)
                r[i] = j + i < n ? row_words(x + (j + i) * ldx + p, k - p) : _mm512_setzero_si512();
            turn_words(r);
            for (size_t i = 0; i < LANES; i++) _mm512_storeu_si512(out + (p / 2 + i) * LANES, r[i]);
        }
}

static void turn16(uint16_t *out, size_t ldo, const uint16_t *in, size_t ldi, size_t m, size_t n)
{
    for (size_t i = 0; i < m; i += 32)
        for (size_t j = 0; j < n; j += LANES) {
            const size_t rows = m - i, columns = n - j < LANES ? n - j : LANES;
            const __mmask16 on = first(columns);
            __m512i r[LANES];
            for (size_t p = 0; p < LANES; p++) {
                const uint16_t *even = in + (i + 2 * p) * ldi + j;
                r[p] = column_words(2 * p < rows ? even : NULL,
                                    2 * p + 1 < rows ? even + ldi : NULL, on);
            }
            turn_words(r);
            for (size_t c = 0; c < columns; c++) _mm512_storeu_si512(out + (j + c) * ldo + i, r[c]);
        }
}

/* ---- product ---- */

INLINE __m512 broadcast_pair(const uint16_t *a)
{
    int32_t pair;
    memcpy(&pair, a, sizeof pair);
    return _mm512_castsi512_ps(_mm512_set1_epi32(pair));
}

INLINE void tile(const int R, const int V, __mmask16 last, float *c, size_t ldc, const uint16_t *a,
                 size_t lda, const uint32_t *b, size_t ldb, const float *bias, size_t k, bool add)
{
    __m512 acc[MR][NV];
    UNROLL for (int i = 0; i < R; i++) UNROLL for (int v = 0; v < V; v++) acc[i][v] =
        bias ? _mm512_set1_ps(bias[i]) : _mm512_setzero_ps();
    for (size_t p = 0; p < k; p += 2) {
        __m512bh row[NV];
        UNROLL for (int v = 0; v < V; v++) row[v] =
            (__m512bh)_mm512_loadu_si512(b + (size_t)v * ldb + p / 2 * LANES);
        UNROLL for (int i = 0; i < R; i++)
        {
            const __m512bh x = (__m512bh)broadcast_pair(a + (size_t)i * lda + p);
            UNROLL for (int v = 0; v < V; v++) acc[i][v] = _mm512_dpbf16_ps(acc[i][v], x, row[v]);
        }
    }
    UNROLL for (int i = 0; i < R; i++) UNROLL for (int v = 0; v < V; v++)
    {
        float *to = c + (size_t)i * ldc + v * LANES;
        const __mmask16 on = v + 1 < V ? ALL : last;
        __m512 sum = acc[i][v];
        if (add) sum = _mm512_add_ps(_mm512_maskz_loadu_ps(on, to), sum);
        _mm512_mask_storeu_ps(to, on, sum);
    }
}

/* All rows of C for V panels of B. */
INLINE void stripe(const int V, __mmask16 last, float *c, size_t ldc, const uint16_t *a, size_t lda,
                   const uint32_t *b, size_t ldb, const float *bias, size_t m, size_t k, bool add)
{
    for (; m >= MR; m -= MR, c += MR * ldc, a += MR * lda) {
        tile(MR, V, last, c, ldc, a, lda, b, ldb, bias, k, add);
        if (bias) bias += MR;
    }
    for (; m > 0; m--, c += ldc, a += lda) {
        tile(1, V, last, c, ldc, a, lda, b, ldb, bias, k, add);
        if (bias) bias++;
    }
}

static void gemm16(float *c, size_t ldc, const uint16_t *a, size_t lda, const uint32_t *b,
                   size_t ldb, const float *bias, size_t m, size_t n, size_t k, bool add)
{
    for (; n > 3 * LANES; c += NV * LANES, b += NV * ldb) {
        const size_t columns = n < NV * LANES ? n : NV * LANES;
        stripe(NV, first(columns - 3 * LANES), c, ldc, a, lda, b, ldb, bias, m, k, add);
        n -= columns;
    }
    for (; n > 0; c += LANES, b += ldb) {
        const size_t columns = n < LANES ? n : LANES;
        stripe(1, first(columns), c, ldc, a, lda, b, ldb, bias, m, k, add);
        n -= columns;
    }
}

/* ---- sums of small products ---- */

enum { TR = 14 }; /* rows of a tile of two blocks: 28 registers */

INLINE void sum_rows(const int R, const int V, const struct wisp_tiles16 *t, size_t row,
                     size_t block)
{
    __m512 acc[TR][2];
    uint64_t found[2] = { 0 };
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) acc[r][v] =
        _mm512_setzero_ps();
    for (size_t i = 0; i < t->n; i++) {
        const uint16_t *a = t->a + t->a_at[i] + row * t->ras;
        const uint32_t *b = t->b + t->b_at[i] + block * t->b_block;
        for (size_t p = 0; p < 16; p++, a += 2, b += LANES) {
            __m512bh bv[2];
            UNROLL for (int v = 0; v < V; v++) bv[v] =
                (__m512bh)_mm512_loadu_si512(b + (size_t)v * t->b_block);
            UNROLL for (int r = 0; r < R; r++)
            {
                const __m512bh av = (__m512bh)broadcast_pair(a + (size_t)r * t->ras);
                UNROLL for (int v = 0; v < V; v++) acc[r][v] =
                    _mm512_dpbf16_ps(acc[r][v], av, bv[v]);
            }
        }
    }
    UNROLL for (int r = 0; r < R; r++)
    {
        if (t->c_at[row + (size_t)r] < 0) continue;
        float *c = t->c + t->c_at[row + (size_t)r] + block * t->c_block;
        UNROLL for (int v = 0; v < V; v++)
        {
            __m512 sum = acc[r][v];
            if (t->bias)
                sum = _mm512_add_ps(sum, _mm512_loadu_ps(t->bias + (block + (size_t)v) * LANES));
            if (t->relu) sum = _mm512_max_ps(_mm512_setzero_ps(), sum);
            if (t->mask) {
                const __m512 mask = _mm512_loadu_ps(t->mask + (c - t->c) + (size_t)v * t->c_block);
                sum = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(mask, _mm512_setzero_ps(), _CMP_GT_OQ),
                                          sum);
            }
            if (t->live)
                found[v] += (uint64_t)__builtin_popcount(
                    _mm512_cmp_ps_mask(sum, _mm512_setzero_ps(), _CMP_NEQ_UQ));
            _mm512_storeu_ps(c + (size_t)v * t->c_block, sum);
        }
    }
    for (int v = 0; t->live && v < V; v++) t->live[block + (size_t)v] += found[v];
}

static void tiles16(const struct wisp_tiles16 *t)
{
    for (size_t block = 0; block < t->blocks; block += 2) {
        const bool two = t->blocks - block > 1;
        size_t row = 0;
        for (; row + TR <= t->m; row += TR)
            if (two) sum_rows(TR, 2, t, row, block);
            else sum_rows(TR, 1, t, row, block);
        for (; row < t->m; row++)
            if (two) sum_rows(1, 2, t, row, block);
            else sum_rows(1, 1, t, row, block);
    }
}

static void sums16(const struct wisp_sums16 *t)
{
    for (size_t i = 0; i < t->n; i++)
        gemm16(t->c + t->c_at[i], t->ldc, t->a + t->a_at[i], t->lda, t->b, t->ldb, NULL, t->m,
               t->blocks * LANES, t->k, t->add);
}

static void join16(uint16_t *to, const float *a, const float *b, size_t apart, size_t n)
{
    const __m512 zero = _mm512_setzero_ps();
    for (size_t i = 0; i < n; i++, a += apart, to += 2 * LANES) {
        const __m512 upper = b ? _mm512_loadu_ps(b + i * apart) : zero;
        _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(upper, _mm512_loadu_ps(a)));
    }
}

void wisp_kernels_bf16(struct wisp_kernels *k)
{
    k->fast16 = __builtin_cpu_is("amd") != 0; /* Intel's vdpbf16ps is no faster than FMA */
    k->to16 = to16;
    k->pairs = pairs;
    k->pairs16 = pairs16;
    k->pairs_t = pairs_t;
    k->turn16 = turn16;
    k->gemm16 = gemm16;
    k->tiles16 = tiles16;
    k->sums16 = sums16;
    k->join16 = join16;
}

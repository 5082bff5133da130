/* Kernels for 512-bit vectors (F, BW, DQ, VL).
 *
 * Ends of arrays are done by masks: a masked-off lane is neither read nor written, so no
 * call touches a byte that is not its own.  The body of an operation is written once, with
 * a mask; for whole vectors the mask is the constant ALL, which the compiler drops.
 * What is missing here (transpose) stays as avx2.c installed it.
 *
 * The matrix product cuts B into panels of KC rows by 64 columns and C into tiles of 6 rows by
 * 4 vectors.  A tile lives in 24 registers while p runs down the panel:
 *
 *                 b: 4 vectors of row p          per p: 4 loads of b, 6 broadcasts
 *     a(0, p) ->  [acc acc acc acc]              of a, 24 multiply-adds.  Zen 4 starts
 *       ...             ...                      one 512-bit multiply-add a cycle, so
 *     a(5, p) ->  [acc acc acc acc]              the loads hide behind them.
 *
 * An element of C is the sum over p in order within each KC, then the sum of those: it does not
 * depend on where in a tile it lies, nor on m and n. */
#include "kernels/kernels.h"
#include "kernels/lanes_avx512.h"

enum { MR = 6, NV = 4, NR = NV * LANES, KC = 256 };

/* ---- arrays ---- */

static void axpy(float *y, const float *x, float a, size_t n)
{
    const __m512 av = _mm512_set1_ps(a);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(y + i, ALL, _mm512_fmadd_ps(av, load(ALL, x + i), load(ALL, y + i)));
    __mmask16 k = first(n - i);
    if (k) store(y + i, k, _mm512_fmadd_ps(av, load(k, x + i), load(k, y + i)));
}

static void scale(float *y, const float *x, float a, size_t n)
{
    const __m512 av = _mm512_set1_ps(a);
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 k = first(n - i);
        store(y + i, k, _mm512_mul_ps(av, load(k, x + i)));
    }
}

/* Four sums at a time: the latency of an addition is four cycles. */
static float dot(const float *x, const float *y, size_t n)
{
    __m512 s[4];
    UNROLL for (int v = 0; v < 4; v++) s[v] = _mm512_setzero_ps();
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        UNROLL for (int v = 0; v < 4; v++) s[v] =
            _mm512_fmadd_ps(load(ALL, x + i + v * LANES), load(ALL, y + i + v * LANES), s[v]);
    for (; i < n; i += LANES) {
        __mmask16 k = first(n - i);
        s[0] = _mm512_fmadd_ps(load(k, x + i), load(k, y + i), s[0]);
    }
    return _mm512_reduce_add_ps(
        _mm512_add_ps(_mm512_add_ps(s[0], s[1]), _mm512_add_ps(s[2], s[3])));
}

static float sum(const float *x, size_t n)
{
    __m512 s[4];
    UNROLL for (int v = 0; v < 4; v++) s[v] = _mm512_setzero_ps();
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        UNROLL for (int v = 0; v < 4; v++) s[v] = _mm512_add_ps(s[v], load(ALL, x + i + v * LANES));
    for (; i < n; i += LANES) s[0] = _mm512_add_ps(s[0], load(first(n - i), x + i));
    return _mm512_reduce_add_ps(
        _mm512_add_ps(_mm512_add_ps(s[0], s[1]), _mm512_add_ps(s[2], s[3])));
}

/* Asks for a row that is needed soon.  Into the second-level cache: the first takes fewer
 * requests at a time (measured on Zen 4 and rows of 1 KiB from memory: 11 GB/s without, 12 into
 * the first level, 20 into the second). */
INLINE void fetch(const int V, const float *row)
{
    UNROLL for (int v = 0; v < V; v++) _mm_prefetch((const char *)(row + v * LANES), _MM_HINT_T1);
}

/* V vectors of the output stay in registers while the nonzeros pass.  The rows come from
 * all over a large matrix, so each is asked for AHEAD nonzeros before its turn. */
INLINE void bag_chunk(const int V, __mmask16 k, float *out, const float *w, size_t ld,
                      const int32_t *idx, const float *val, size_t nnz)
{
    enum { AHEAD = 8 };
    __m512 acc[16];
    UNROLL for (int v = 0; v < V; v++) acc[v] = load(k, out + v * LANES);
    for (size_t i = 0; i < AHEAD && i < nnz; i++) fetch(V, w + (size_t)idx[i] * ld);
    for (size_t i = 0; i < nnz; i++) {
        const float *row = w + (size_t)idx[i] * ld;
        const __m512 x = _mm512_set1_ps(val[i]);
        if (i + AHEAD < nnz) fetch(V, w + (size_t)idx[i + AHEAD] * ld);
        UNROLL for (int v = 0; v < V; v++) acc[v] =
            _mm512_fmadd_ps(x, load(k, row + v * LANES), acc[v]);
    }
    UNROLL for (int v = 0; v < V; v++) store(out + v * LANES, k, acc[v]);
}

static void bag(float *out, const float *w, size_t ld, const int32_t *idx, const float *val,
                size_t nnz, size_t n)
{
    size_t j = 0;
    for (; j + 16 * LANES <= n; j += 16 * LANES)
        bag_chunk(16, ALL, out + j, w + j, ld, idx, val, nnz);
    for (; j + 8 * LANES <= n; j += 8 * LANES) bag_chunk(8, ALL, out + j, w + j, ld, idx, val, nnz);
    for (; j + 2 * LANES <= n; j += 2 * LANES) bag_chunk(2, ALL, out + j, w + j, ld, idx, val, nnz);
    for (; j < n; j += LANES) bag_chunk(1, first(n - j), out + j, w + j, ld, idx, val, nnz);
}

INLINE void fetch_row(const float *row, size_t n)
{
    enum { LINE = 16 };
    for (size_t j = 0; j < n; j += LINE) _mm_prefetch((const char *)(row + j), _MM_HINT_T1);
}

static void dots(float *out, const float *w, size_t ld, const int32_t *idx, size_t m,
                 const float *x, size_t n)
{
    enum { AHEAD = 12 };
    for (size_t i = 0; i < AHEAD && i < m; i++) fetch_row(w + (size_t)idx[i] * ld, n);
    for (size_t i = 0; i < m; i++) {
        if (i + AHEAD < m) fetch_row(w + (size_t)idx[i + AHEAD] * ld, n);
        out[i] = dot(w + (size_t)idx[i] * ld, x, n);
    }
}

/* R rows at a time, so that x is loaded once for all of them; the next R are asked for on the
 * way. */
INLINE void matvec_rows(const int R, float *out, const float *w, size_t ld, const float *x,
                        size_t n)
{
    __m512 s[4];
    UNROLL for (int r = 0; r < R; r++) s[r] = _mm512_setzero_ps();
    for (size_t i = 0; i < n; i += LANES) {
        const __mmask16 k = first(n - i);
        const __m512 v = load(k, x + i);
        UNROLL for (int r = 0; r < R; r++)
        {
            const float *at = w + (size_t)r * ld + i;
            if (R == 4) _mm_prefetch((const char *)(at + R * ld), _MM_HINT_T0);
            s[r] = _mm512_fmadd_ps(load(k, at), v, s[r]);
        }
    }
    UNROLL for (int r = 0; r < R; r++) out[r] = _mm512_reduce_add_ps(s[r]);
}
static void matvec(float *out, const float *w, size_t ld, size_t m, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= m; i += 4) matvec_rows(4, out + i, w + i * ld, ld, x, n);
    for (; i < m; i++) matvec_rows(1, out + i, w + i * ld, ld, x, n);
}

/* ---- rows of bf16 and of int8: widened on the way ----
 *
 * B, the bytes of a weight, is a constant in every call: 2 is bf16, 1 is int8. */

INLINE __m512 load16(__mmask16 k, const uint16_t *x)
{
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(k, x));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
INLINE __m512 load8(__mmask16 k, const int8_t *x)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(k, x)));
}
INLINE __m512 widen(const size_t B, __mmask16 k, const char *x)
{
    return B == 2 ? load16(k, (const uint16_t *)x) : load8(k, (const int8_t *)x);
}

INLINE void fetch_bytes(const char *row, size_t bytes)
{
    enum { LINE = 64 };
    for (size_t j = 0; j < bytes; j += LINE) _mm_prefetch(row + j, _MM_HINT_T1);
}
INLINE void fetch_scale(const float *scales, int32_t row)
{
    if (scales) _mm_prefetch((const char *)(scales + row), _MM_HINT_T1);
}

static void from16(float *y, const uint16_t *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 k = first(n - i);
        store(y + i, k, load16(k, x + i));
    }
}

static void from8(float *y, const int8_t *x, float by, size_t n)
{
    const __m512 s = _mm512_set1_ps(by);
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 k = first(n - i);
        store(y + i, k, _mm512_mul_ps(s, load8(k, x + i)));
    }
}

/* Rounded step by step like the scalar form, so all sets give its bits. */
static void axpy16(uint16_t *x, const float *g, float a, size_t n, uint32_t random)
{
    const __m512i places = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i infinite = _mm512_set1_epi32(0x7f800000), low = _mm512_set1_epi32(0xffff);
    const __m512 av = _mm512_set1_ps(a);
    __m512i noise = _mm512_add_epi32(_mm512_set1_epi32((int)random),
                                     _mm512_mullo_epi32(places, _mm512_set1_epi32(WISP_GOLDEN16)));
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 k = first(n - i);
        const __m512 sum = _mm512_add_ps(load16(k, x + i), _mm512_mul_ps(av, load(k, g + i)));
        __m512i bits = _mm512_castps_si512(sum);
        const __mmask16 finite =
            _mm512_cmpneq_epi32_mask(_mm512_and_si512(bits, infinite), infinite);
        bits = _mm512_mask_add_epi32(bits, finite, bits, _mm512_and_si512(noise, low));
        _mm256_mask_storeu_epi16(x + i, k, _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
        noise = _mm512_add_epi32(noise, _mm512_set1_epi32(LANES * WISP_GOLDEN16));
    }
}

INLINE void bag_narrow_chunk(const size_t B, const int V, __mmask16 k, float *out, const char *w,
                             const float *scales, size_t stride, const int32_t *idx,
                             const float *val, size_t nnz)
{
    enum { AHEAD = 8 };
    __m512 acc[16];
    UNROLL for (int v = 0; v < V; v++) acc[v] = load(k, out + v * LANES);
    for (size_t i = 0; i < AHEAD && i < nnz; i++) {
        fetch_bytes(w + (size_t)idx[i] * stride, B * (size_t)V * LANES);
        fetch_scale(scales, idx[i]);
    }
    for (size_t i = 0; i < nnz; i++) {
        const char *row = w + (size_t)idx[i] * stride;
        const __m512 x = _mm512_set1_ps(scales ? val[i] * scales[idx[i]] : val[i]);
        if (i + AHEAD < nnz) {
            fetch_bytes(w + (size_t)idx[i + AHEAD] * stride, B * (size_t)V * LANES);
            fetch_scale(scales, idx[i + AHEAD]);
        }
        UNROLL for (int v = 0; v < V; v++) acc[v] =
            _mm512_fmadd_ps(x, widen(B, k, row + B * (size_t)v * LANES), acc[v]);
    }
    UNROLL for (int v = 0; v < V; v++) store(out + v * LANES, k, acc[v]);
}

INLINE void bag_narrow(const size_t B, float *out, const void *rows, const float *scales, size_t ld,
                       const int32_t *idx, const float *val, size_t nnz, size_t n)
{
    const char *w = rows;
    const size_t stride = B * ld;
    size_t j = 0;
    for (; j + 16 * LANES <= n; j += 16 * LANES)
        bag_narrow_chunk(B, 16, ALL, out + j, w + B * j, scales, stride, idx, val, nnz);
    for (; j + 8 * LANES <= n; j += 8 * LANES)
        bag_narrow_chunk(B, 8, ALL, out + j, w + B * j, scales, stride, idx, val, nnz);
    for (; j < n; j += LANES)
        bag_narrow_chunk(B, 1, first(n - j), out + j, w + B * j, scales, stride, idx, val, nnz);
}

INLINE float dot_narrow(const size_t B, const char *w, const float *x, size_t n)
{
    __m512 s[4];
    UNROLL for (int v = 0; v < 4; v++) s[v] = _mm512_setzero_ps();
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        UNROLL for (int v = 0; v < 4; v++) s[v] = _mm512_fmadd_ps(
            widen(B, ALL, w + B * (i + (size_t)v * LANES)), load(ALL, x + i + v * LANES), s[v]);
    for (; i < n; i += LANES) {
        __mmask16 k = first(n - i);
        s[0] = _mm512_fmadd_ps(widen(B, k, w + B * i), load(k, x + i), s[0]);
    }
    return _mm512_reduce_add_ps(
        _mm512_add_ps(_mm512_add_ps(s[0], s[1]), _mm512_add_ps(s[2], s[3])));
}

INLINE void dots_narrow(const size_t B, float *out, const void *rows, const float *scales,
                        size_t ld, const int32_t *idx, size_t m, const float *x, size_t n)
{
    enum { AHEAD = 12 };
    const char *w = rows;
    const size_t stride = B * ld;
    for (size_t i = 0; i < AHEAD && i < m; i++) {
        fetch_bytes(w + (size_t)idx[i] * stride, B * n);
        fetch_scale(scales, idx[i]);
    }
    for (size_t i = 0; i < m; i++) {
        if (i + AHEAD < m) {
            fetch_bytes(w + (size_t)idx[i + AHEAD] * stride, B * n);
            fetch_scale(scales, idx[i + AHEAD]);
        }
        const float s = dot_narrow(B, w + (size_t)idx[i] * stride, x, n);
        out[i] = scales ? scales[idx[i]] * s : s;
    }
}

static void bag16(float *out, const uint16_t *w, size_t ld, const int32_t *idx, const float *val,
                  size_t nnz, size_t n)
{
    bag_narrow(2, out, w, NULL, ld, idx, val, nnz, n);
}
static void bag8(float *out, const int8_t *w, const float *scales, size_t ld, const int32_t *idx,
                 const float *val, size_t nnz, size_t n)
{
    bag_narrow(1, out, w, scales, ld, idx, val, nnz, n);
}
static void dots16(float *out, const uint16_t *w, size_t ld, const int32_t *idx, size_t m,
                   const float *x, size_t n)
{
    dots_narrow(2, out, w, NULL, ld, idx, m, x, n);
}
static void dots8(float *out, const int8_t *w, const float *scales, size_t ld, const int32_t *idx,
                  size_t m, const float *x, size_t n)
{
    dots_narrow(1, out, w, scales, ld, idx, m, x, n);
}

static void relu(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) { /* a NaN must be the second operand to stay */
        __mmask16 k = first(n - i);
        store(y + i, k, _mm512_max_ps(_mm512_setzero_ps(), load(k, x + i)));
    }
}

static void relu_back(float *gx, const float *gy, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 k = first(n - i);
        __mmask16 on = _mm512_cmp_ps_mask(load(k, y + i), _mm512_setzero_ps(), _CMP_GT_OQ);
        store(gx + i, k, load(k & on, gy + i));
    }
}

/* Compressing in a register and then storing: the form that compresses into memory was measured
 * at 22 ns a vector on Zen 4, this one at 1.8. */
static size_t above(int32_t *where, const float *x, const float *limit, size_t n)
{
    __m512i at = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    size_t found = 0;
    for (size_t j = 0; j < n; j += LANES) {
        __mmask16 k = first(n - j);
        __mmask16 hit = _mm512_mask_cmp_ps_mask(k, load(k, x + j), load(k, limit + j), _CMP_NLE_UQ);
        if (hit) {
            size_t hits = (size_t)__builtin_popcount(hit);
            _mm512_mask_storeu_epi32(where + found, first(hits),
                                     _mm512_maskz_compress_epi32(hit, at));
            found += hits;
        }
        at = _mm512_add_epi32(at, _mm512_set1_epi32(LANES));
    }
    return found;
}

static uint32_t winner(uint32_t key[32], const float *xt, const uint32_t place[8])
{
    uint32_t empty = 0;
    UNROLL for (int half = 0; half < 2; half++)
    {
        const float *x = xt + half * LANES;
        __m512 best = load(ALL, x + (size_t)place[0] * 32);
        __m512i at = _mm512_setzero_si512();
        UNROLL for (int j = 1; j < 8; j++)
        {
            const __m512 v = load(ALL, x + (size_t)place[j] * 32);
            const __mmask16 more = _mm512_cmp_ps_mask(v, best, _CMP_GT_OQ);
            best = _mm512_mask_mov_ps(best, more, v);
            at = _mm512_mask_mov_epi32(at, more, _mm512_set1_epi32(j));
        }
        uint32_t *to = key + half * LANES;
        const __m512i old = _mm512_slli_epi32(_mm512_loadu_si512(to), 3);
        _mm512_storeu_si512(to, _mm512_or_si512(old, at));
        const __m512 none = _mm512_castsi512_ps(_mm512_set1_epi32((int)0xff800000));
        empty |= (uint32_t)_mm512_cmp_ps_mask(best, none, _CMP_EQ_OQ) << (half * LANES);
    }
    return empty;
}

/* ---- matrix product ---- */

/* C (R, V vectors) (+)= A (R, k) B (k, V vectors); 'last' masks the last vector. */
INLINE void tile(const int R, const int V, __mmask16 last, float *c, size_t ldc, const float *a,
                 size_t ras, size_t cas, const float *b, size_t ldb, size_t k, bool add,
                 const float *bias)
{
    __m512 acc[MR][NV];
    UNROLL for (int i = 0; i < R; i++) UNROLL for (int v = 0; v < V; v++) acc[i][v] =
        bias ? _mm512_set1_ps(bias[i]) : _mm512_setzero_ps();
    for (size_t p = 0; p < k; p++) {
        __m512 row[NV];
        UNROLL for (int v = 0; v < V; v++) row[v] = load(v + 1 < V ? ALL : last, b + v * LANES);
        UNROLL for (int i = 0; i < R; i++)
        {
            const __m512 x = _mm512_set1_ps(a[(size_t)i * ras]);
            UNROLL for (int v = 0; v < V; v++) acc[i][v] = _mm512_fmadd_ps(x, row[v], acc[i][v]);
        }
        a += cas;
        b += ldb;
    }
    UNROLL for (int i = 0; i < R; i++) UNROLL for (int v = 0; v < V; v++)
    {
        float *to = c + (size_t)i * ldc + v * LANES;
        __mmask16 on = v + 1 < V ? ALL : last;
        store(to, on, add ? _mm512_add_ps(load(on, to), acc[i][v]) : acc[i][v]);
    }
}

/* All rows of C for one panel of B. */
INLINE void panel(const int V, __mmask16 last, float *c, size_t ldc, const float *a, size_t ras,
                  size_t cas, const float *b, size_t ldb, size_t m, size_t k, bool add,
                  const float *bias)
{
    for (; m >= MR; m -= MR, c += MR * ldc, a += MR * ras) {
        tile(MR, V, last, c, ldc, a, ras, cas, b, ldb, k, add, bias);
        if (bias) bias += MR;
    }
    switch (m) {
    case 5:
        tile(5, V, last, c, ldc, a, ras, cas, b, ldb, k, add, bias);
        break;
    case 4:
        tile(4, V, last, c, ldc, a, ras, cas, b, ldb, k, add, bias);
        break;
    case 3:
        tile(3, V, last, c, ldc, a, ras, cas, b, ldb, k, add, bias);
        break;
    case 2:
        tile(2, V, last, c, ldc, a, ras, cas, b, ldb, k, add, bias);
        break;
    case 1:
        tile(1, V, last, c, ldc, a, ras, cas, b, ldb, k, add, bias);
        break;
    }
}

INLINE void product(float *c, size_t ldc, const float *a, size_t ras, size_t cas, const float *b,
                    size_t ldb, size_t m, size_t n, size_t k, bool add, const float *bias)
{
    for (size_t p = 0; p < k || p == 0; p += KC) { /* once even for k = 0: C may need its zeros */
        size_t kc = k - p < KC ? k - p : KC;
        for (size_t j = 0; j < n; j += NR) {
            size_t nc = n - j < NR ? n - j : NR;
            size_t vectors = (nc + LANES - 1) / LANES;
            __mmask16 last = first(nc - (vectors - 1) * LANES);
            float *cj = c + j;
            const float *ap = a + p * cas, *bj = b + p * ldb + j;
            bool more = add || p > 0;
            switch (vectors) {
            case 4:
                panel(4, last, cj, ldc, ap, ras, cas, bj, ldb, m, kc, more, p ? NULL : bias);
                break;
            case 3:
                panel(3, last, cj, ldc, ap, ras, cas, bj, ldb, m, kc, more, p ? NULL : bias);
                break;
            case 2:
                panel(2, last, cj, ldc, ap, ras, cas, bj, ldb, m, kc, more, p ? NULL : bias);
                break;
            case 1:
                panel(1, last, cj, ldc, ap, ras, cas, bj, ldb, m, kc, more, p ? NULL : bias);
                break;
            }
        }
    }
}

static void gemm(float *c, size_t ldc, const float *a, size_t ras, size_t cas, const float *b,
                 size_t ldb, size_t m, size_t n, size_t k, bool add)
{
    product(c, ldc, a, ras, cas, b, ldb, m, n, k, add, NULL);
}

static void gemm_bias(float *c, size_t ldc, const float *a, size_t lda, const float *b, size_t ldb,
                      const float *bias, size_t m, size_t n, size_t k)
{
    product(c, ldc, a, lda, 1, b, ldb, m, n, k, false, bias);
}

/* ---- blocks of logits (exponentials: curves_avx512.c) ---- */

/* Columns go by stripes of 64, so that the running value of a column stays in a register
 * and whole cache lines are used; what is left over by stripes of 16. */

INLINE void max_stripe(const int V, __mmask16 k, float *max, const float *z, size_t ldz, size_t m)
{
    __m512 top[NV];
    UNROLL for (int v = 0; v < V; v++) top[v] = load(k, z + v * LANES);
    for (size_t i = 1; i < m; i++)
        UNROLL for (int v = 0; v < V; v++) top[v] =
            _mm512_max_ps(load(k, z + i * ldz + v * LANES), top[v]);
    UNROLL for (int v = 0; v < V; v++) store(max + v * LANES, k, top[v]);
}

static void col_max(float *max, const float *z, size_t ldz, size_t m, size_t n)
{
    size_t j = 0;
    for (; j + NR <= n; j += NR) max_stripe(NV, ALL, max + j, z + j, ldz, m);
    for (; j < n; j += LANES) max_stripe(1, first(n - j), max + j, z + j, ldz, m);
}

/* ---- optimisers: rounded step by step like the scalar form, so all sets give its bits ---- */

INLINE void adam16(float *w, float *m, float *v, const float *g, __mmask16 k,
                   const struct wisp_adam *c)
{
    const __m512 gk = load(k, g);
    const __m512 mk = _mm512_add_ps(_mm512_mul_ps(_mm512_set1_ps(c->beta1), load(k, m)),
                                    _mm512_mul_ps(_mm512_set1_ps(1 - c->beta1), gk));
    const __m512 vk =
        _mm512_add_ps(_mm512_mul_ps(_mm512_set1_ps(c->beta2), load(k, v)),
                      _mm512_mul_ps(_mm512_mul_ps(_mm512_set1_ps(1 - c->beta2), gk), gk));
    const __m512 d = _mm512_add_ps(_mm512_sqrt_ps(vk), _mm512_set1_ps(c->eps));
    const __mmask16 moves = _mm512_cmp_ps_mask(d, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    const __m512 step = _mm512_maskz_div_ps(moves, _mm512_mul_ps(_mm512_set1_ps(c->step), mk), d);
    store(m, k, mk);
    store(v, k, vk);
    store(w, k, _mm512_sub_ps(load(k, w), step));
}

static void adam(float *w, float *m, float *v, const float *g, size_t n, const struct wisp_adam *c)
{
    const struct wisp_adam own = *c; /* cannot alias the arrays */
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) adam16(w + i, m + i, v + i, g + i, ALL, &own);
    if (i < n) adam16(w + i, m + i, v + i, g + i, first(n - i), &own);
}

struct pace {
    __m512 beta, step, decay;
    bool decays;
};

INLINE void momentum16(float *w, float *m, const float *g, __mmask16 k, const struct pace *p)
{
    const __m512 wk = load(k, w);
    __m512 gk = load(k, g);
    if (p->decays) gk = _mm512_add_ps(gk, _mm512_mul_ps(p->decay, wk));
    const __m512 mk = _mm512_add_ps(_mm512_mul_ps(p->beta, load(k, m)), gk);
    store(m, k, mk);
    store(w, k, _mm512_sub_ps(wk, _mm512_mul_ps(p->step, mk)));
}

static void momentum(float *w, float *m, const float *g, size_t n, float beta, float step,
                     float decay)
{
    const struct pace p = { _mm512_set1_ps(beta), _mm512_set1_ps(step), _mm512_set1_ps(decay),
                            decay > 0 };
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) momentum16(w + i, m + i, g + i, ALL, &p);
    if (i < n) momentum16(w + i, m + i, g + i, first(n - i), &p);
}

void wisp_kernels_avx512(struct wisp_kernels *k)
{
    k->axpy = axpy;
    k->scale = scale;
    k->dot = dot;
    k->sum = sum;
    k->bag = bag;
    k->dots = dots;
    k->matvec = matvec;
    k->from16 = from16;
    k->axpy16 = axpy16;
    k->bag16 = bag16;
    k->dots16 = dots16;
    k->from8 = from8;
    k->bag8 = bag8;
    k->dots8 = dots8;
    k->gemm = gemm;
    k->gemm_bias = gemm_bias;
    k->relu = relu;
    k->relu_back = relu_back;
    k->col_max = col_max;
    k->above = above;
    k->winner = winner;
    k->adam = adam;
    k->momentum = momentum;
    wisp_kernels_tiles_avx512(k);
    wisp_kernels_live_avx512(k);
    wisp_kernels_bags_avx512(k);
    wisp_kernels_curves_avx512(k);
    wisp_kernels_codes_avx512(k);
    wisp_kernels_find_avx512(k);
    wisp_kernels_deep_avx512(k);
}

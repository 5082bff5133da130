/* Kernels for 256-bit vectors with FMA.  Ends of arrays are done by masked loads and stores: a
 * masked-off lane is neither read nor written.  For whole vectors the mask is not used.
 *
 * The matrix product holds a tile of 6 rows by 2 vectors of C in 12 of the 16 registers while p
 * runs over KC rows of B: per p two loads of b, six broadcasts of a, twelve multiply-adds.  See
 * avx512.c for larger tiles; here too an element of C does not depend on its place in a tile. */
#include "kernels/kernels.h"
#include "kernels/lanes_avx2.h"

#include <string.h>

enum { MR = 6, NV = 2, NR = NV * LANES, KC = 256 };

/* ---- arrays ---- */

static void axpy(float *y, const float *x, float a, size_t n)
{
    const __m256 av = _mm256_set1_ps(a);
    for (size_t i = 0; i < n; i += LANES)
        store(y + i, n - i, _mm256_fmadd_ps(av, load(n - i, x + i), load(n - i, y + i)));
}

static void scale(float *y, const float *x, float a, size_t n)
{
    const __m256 av = _mm256_set1_ps(a);
    for (size_t i = 0; i < n; i += LANES)
        store(y + i, n - i, _mm256_mul_ps(av, load(n - i, x + i)));
}

/* Eight sums at a time: the latency of a multiply-add is four cycles, and two start in each. */
static float dot(const float *x, const float *y, size_t n)
{
    __m256 s[8];
    UNROLL for (int v = 0; v < 8; v++) s[v] = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + 8 * LANES <= n; i += 8 * LANES)
        UNROLL for (int v = 0; v < 8; v++) s[v] = _mm256_fmadd_ps(
            _mm256_loadu_ps(x + i + v * LANES), _mm256_loadu_ps(y + i + v * LANES), s[v]);
    for (; i < n; i += LANES) s[0] = _mm256_fmadd_ps(load(n - i, x + i), load(n - i, y + i), s[0]);
    UNROLL for (int v = 0; v < 4; v++) s[v] = _mm256_add_ps(s[v], s[v + 4]);
    return total8(_mm256_add_ps(_mm256_add_ps(s[0], s[1]), _mm256_add_ps(s[2], s[3])));
}

static float sum(const float *x, size_t n)
{
    __m256 s[8];
    UNROLL for (int v = 0; v < 8; v++) s[v] = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + 8 * LANES <= n; i += 8 * LANES)
        UNROLL for (int v = 0; v < 8; v++) s[v] =
            _mm256_add_ps(s[v], _mm256_loadu_ps(x + i + v * LANES));
    for (; i < n; i += LANES) s[0] = _mm256_add_ps(s[0], load(n - i, x + i));
    UNROLL for (int v = 0; v < 4; v++) s[v] = _mm256_add_ps(s[v], s[v + 4]);
    return total8(_mm256_add_ps(_mm256_add_ps(s[0], s[1]), _mm256_add_ps(s[2], s[3])));
}

/* Asks for a row that is needed soon.  Into the second-level cache: the first takes fewer
 * requests at a time (measured on Zen 4 and rows of 1 KiB from memory: 11 GB/s without, 12 into
 * the first level, 20 into the second). */
INLINE void fetch(const int V, const float *row)
{
    UNROLL for (int v = 0; v < V; v += 2)
        _mm_prefetch((const char *)(row + v * LANES), _MM_HINT_T1);
}

/* V vectors of the output stay in registers while the nonzeros pass; 'n' is V * LANES, or
 * less for V = 1.  The rows come from all over a large matrix, so each is asked for AHEAD
 * nonzeros before its turn. */
INLINE void bag_chunk(const int V, size_t n, float *out, const float *w, size_t ld,
                      const int32_t *idx, const float *val, size_t nnz)
{
    enum { AHEAD = 8 };
    __m256 acc[8];
    UNROLL for (int v = 0; v < V; v++) acc[v] = load(n, out + v * LANES);
    for (size_t i = 0; i < AHEAD && i < nnz; i++) fetch(V, w + (size_t)idx[i] * ld);
    for (size_t i = 0; i < nnz; i++) {
        const float *row = w + (size_t)idx[i] * ld;
        const __m256 x = _mm256_set1_ps(val[i]);
        if (i + AHEAD < nnz) fetch(V, w + (size_t)idx[i + AHEAD] * ld);
        UNROLL for (int v = 0; v < V; v++) acc[v] =
            _mm256_fmadd_ps(x, load(n, row + v * LANES), acc[v]);
    }
    UNROLL for (int v = 0; v < V; v++) store(out + v * LANES, n, acc[v]);
}

static void bag(float *out, const float *w, size_t ld, const int32_t *idx, const float *val,
                size_t nnz, size_t n)
{
    size_t j = 0;
    for (; j + 8 * LANES <= n; j += 8 * LANES)
        bag_chunk(8, 8 * LANES, out + j, w + j, ld, idx, val, nnz);
    for (; j + 2 * LANES <= n; j += 2 * LANES)
        bag_chunk(2, 2 * LANES, out + j, w + j, ld, idx, val, nnz);
    for (; j < n; j += LANES) bag_chunk(1, n - j, out + j, w + j, ld, idx, val, nnz);
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

/* R rows at a time, so that x is loaded once for all of them; the next R are asked for on the way
 * (736 rows of 512 from the third-level cache of a Zen 2: 20 us, 40 by 'dots'). */
INLINE void matvec_rows(const int R, float *out, const float *w, size_t ld, const float *x,
                        size_t n)
{
    __m256 s[4];
    UNROLL for (int r = 0; r < R; r++) s[r] = _mm256_setzero_ps();
    for (size_t i = 0; i < n; i += LANES) {
        const __m256 v = load(n - i, x + i);
        UNROLL for (int r = 0; r < R; r++)
        {
            const float *at = w + (size_t)r * ld + i;
            if (R == 4 && i % 16 == 0) _mm_prefetch((const char *)(at + R * ld), _MM_HINT_T0);
            s[r] = _mm256_fmadd_ps(load(n - i, at), v, s[r]);
        }
    }
    UNROLL for (int r = 0; r < R; r++) out[r] = total8(s[r]);
}
static void matvec(float *out, const float *w, size_t ld, size_t m, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= m; i += 4) matvec_rows(4, out + i, w + i * ld, ld, x, n);
    for (; i < m; i++) matvec_rows(1, out + i, w + i * ld, ld, x, n);
}

/* ---- rows of bf16 and of int8: widened on the way ----
 *
 * B, the bytes of a weight, is a constant in every call: 2 is bf16, 1 is int8.  Fewer than LANES
 * of them go through a copy: there are no masks for parts of a word. */

INLINE __m128i load_bytes(const size_t B, size_t n, const char *x)
{
    char some[16] = { 0 };
    if (n >= LANES)
        return B == 2 ? _mm_loadu_si128((const __m128i *)x) : _mm_loadl_epi64((const __m128i *)x);
    memcpy(some, x, B * n);
    return _mm_loadu_si128((const __m128i *)some);
}
INLINE __m256 widen(const size_t B, size_t n, const char *x)
{
    const __m128i narrow = load_bytes(B, n, x);
    return B == 2 ? _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(narrow), 16))
                  : _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(narrow));
}
/* Stores the lower halves of the lanes, whose upper halves are 0. */
INLINE void store16(uint16_t *x, size_t n, __m256i v)
{
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(v, v), 0x08);
    const __m128i low = _mm256_castsi256_si128(packed);
    uint16_t some[LANES];
    if (n >= LANES) {
        _mm_storeu_si128((__m128i *)x, low);
    } else {
        _mm_storeu_si128((__m128i *)some, low);
        memcpy(x, some, n * sizeof *x);
    }
}

static void to16(uint16_t *y, const float *x, size_t n)
{
    const __m256i one = _mm256_set1_epi32(1), half = _mm256_set1_epi32(0x7fff);
    for (size_t i = 0; i < n; i += LANES) {
        const __m256 v = load(n - i, x + i);
        const __m256i bits = _mm256_castps_si256(v), top = _mm256_srli_epi32(bits, 16);
        const __m256i up = _mm256_add_epi32(half, _mm256_and_si256(top, one));
        const __m256i near = _mm256_srli_epi32(_mm256_add_epi32(bits, up), 16);
        const __m256i quiet = _mm256_or_si256(top, _mm256_set1_epi32(0x40));
        const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
        store16(y + i, n - i, _mm256_blendv_epi8(near, quiet, nan));
    }
}

static void from16(float *y, const uint16_t *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        store(y + i, n - i, widen(2, n - i, (const char *)(x + i)));
}

static void from8(float *y, const int8_t *x, float by, size_t n)
{
    const __m256 s = _mm256_set1_ps(by);
    for (size_t i = 0; i < n; i += LANES)
        store(y + i, n - i, _mm256_mul_ps(s, widen(1, n - i, (const char *)(x + i))));
}

/* Rounded step by step like the scalar form, so all sets give its bits. */
static void axpy16(uint16_t *x, const float *g, float a, size_t n, uint32_t random)
{
    const __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i infinite = _mm256_set1_epi32(0x7f800000), low = _mm256_set1_epi32(0xffff);
    const __m256 av = _mm256_set1_ps(a);
    __m256i noise = _mm256_add_epi32(_mm256_set1_epi32((int)random),
                                     _mm256_mullo_epi32(places, _mm256_set1_epi32(WISP_GOLDEN16)));
    for (size_t i = 0; i < n; i += LANES) {
        const __m256 moved = _mm256_add_ps(widen(2, n - i, (const char *)(x + i)),
                                           _mm256_mul_ps(av, load(n - i, g + i)));
        const __m256i bits = _mm256_castps_si256(moved);
        const __m256i odd = _mm256_cmpeq_epi32(_mm256_and_si256(bits, infinite), infinite);
        const __m256i by = _mm256_andnot_si256(odd, _mm256_and_si256(noise, low));
        store16(x + i, n - i, _mm256_srli_epi32(_mm256_add_epi32(bits, by), 16));
        noise = _mm256_add_epi32(noise, _mm256_set1_epi32(LANES * WISP_GOLDEN16));
    }
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

INLINE void bag_narrow_chunk(const size_t B, const int V, size_t n, float *out, const char *w,
                             const float *scales, size_t stride, const int32_t *idx,
                             const float *val, size_t nnz)
{
    enum { AHEAD = 8 };
    __m256 acc[8];
    UNROLL for (int v = 0; v < V; v++) acc[v] = load(n, out + v * LANES);
    for (size_t i = 0; i < AHEAD && i < nnz; i++) {
        fetch_bytes(w + (size_t)idx[i] * stride, B * (size_t)V * LANES);
        fetch_scale(scales, idx[i]);
    }
    for (size_t i = 0; i < nnz; i++) {
        const char *row = w + (size_t)idx[i] * stride;
        const __m256 x = _mm256_set1_ps(scales ? val[i] * scales[idx[i]] : val[i]);
        if (i + AHEAD < nnz) {
            fetch_bytes(w + (size_t)idx[i + AHEAD] * stride, B * (size_t)V * LANES);
            fetch_scale(scales, idx[i + AHEAD]);
        }
        UNROLL for (int v = 0; v < V; v++) acc[v] =
            _mm256_fmadd_ps(x, widen(B, n, row + B * (size_t)v * LANES), acc[v]);
    }
    UNROLL for (int v = 0; v < V; v++) store(out + v * LANES, n, acc[v]);
}

INLINE void bag_narrow(const size_t B, float *out, const void *rows, const float *scales, size_t ld,
                       const int32_t *idx, const float *val, size_t nnz, size_t n)
{
    const char *w = rows;
    const size_t stride = B * ld;
    size_t j = 0;
    for (; j + 8 * LANES <= n; j += 8 * LANES)
        bag_narrow_chunk(B, 8, 8 * LANES, out + j, w + B * j, scales, stride, idx, val, nnz);
    for (; j + LANES <= n; j += LANES)
        bag_narrow_chunk(B, 1, LANES, out + j, w + B * j, scales, stride, idx, val, nnz);
    if (j < n) bag_narrow_chunk(B, 1, n - j, out + j, w + B * j, scales, stride, idx, val, nnz);
}

INLINE float dot_narrow(const size_t B, const char *w, const float *x, size_t n)
{
    __m256 s[8];
    UNROLL for (int v = 0; v < 8; v++) s[v] = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + 8 * LANES <= n; i += 8 * LANES)
        UNROLL for (int v = 0; v < 8; v++) s[v] =
            _mm256_fmadd_ps(widen(B, LANES, w + B * (i + (size_t)v * LANES)),
                            _mm256_loadu_ps(x + i + v * LANES), s[v]);
    for (; i < n; i += LANES)
        s[0] = _mm256_fmadd_ps(widen(B, n - i, w + B * i), load(n - i, x + i), s[0]);
    UNROLL for (int v = 0; v < 4; v++) s[v] = _mm256_add_ps(s[v], s[v + 4]);
    return total8(_mm256_add_ps(_mm256_add_ps(s[0], s[1]), _mm256_add_ps(s[2], s[3])));
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
    for (size_t i = 0; i < n; i += LANES) /* a NaN must be the second operand to stay */
        store(y + i, n - i, _mm256_max_ps(_mm256_setzero_ps(), load(n - i, x + i)));
}

static void relu_back(float *gx, const float *gy, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        const __m256 on = _mm256_cmp_ps(load(n - i, y + i), _mm256_setzero_ps(), _CMP_GT_OQ);
        store(gx + i, n - i, _mm256_and_ps(on, load(n - i, gy + i)));
    }
}

static size_t above(int32_t *where, const float *x, const float *limit, size_t n)
{
    size_t found = 0;
    for (size_t j = 0; j < n; j += LANES) { /* lanes past the end: 0 <= 0 is true */
        const __m256 more = _mm256_cmp_ps(load(n - j, x + j), load(n - j, limit + j), _CMP_NLE_UQ);
        for (unsigned hit = (unsigned)_mm256_movemask_ps(more); hit; hit &= hit - 1)
            where[found++] = (int32_t)(j + (size_t)__builtin_ctz(hit));
    }
    return found;
}

/* ---- matrices ---- */

/* C (R, V vectors) (+)= A (R, k) B (k, V vectors); the last vector has 'last' lanes. */
static uint32_t winner(uint32_t key[32], const float *xt, const uint32_t place[8])
{
    uint32_t empty = 0;
    for (int part = 0; part < 4; part++) {
        const float *x = xt + part * LANES;
        __m256 best = _mm256_loadu_ps(x + (size_t)place[0] * 32);
        __m256i at = _mm256_setzero_si256();
        UNROLL for (int j = 1; j < 8; j++)
        {
            const __m256 v = _mm256_loadu_ps(x + (size_t)place[j] * 32);
            const __m256 more = _mm256_cmp_ps(v, best, _CMP_GT_OQ);
            best = _mm256_blendv_ps(best, v, more);
            at = _mm256_blendv_epi8(at, _mm256_set1_epi32(j), _mm256_castps_si256(more));
        }
        __m256i *to = (__m256i *)(key + part * LANES);
        _mm256_storeu_si256(to, _mm256_or_si256(_mm256_slli_epi32(_mm256_loadu_si256(to), 3), at));
        const __m256 none = _mm256_castsi256_ps(_mm256_set1_epi32((int)0xff800000));
        int bits = _mm256_movemask_ps(_mm256_cmp_ps(best, none, _CMP_EQ_OQ));
        empty |= (uint32_t)bits << (part * LANES);
    }
    return empty;
}

INLINE void tile(const int R, const int V, size_t last, float *c, size_t ldc, const float *a,
                 size_t ras, size_t cas, const float *b, size_t ldb, size_t k, bool add,
                 const float *bias)
{
    __m256 acc[MR][NV];
    UNROLL for (int i = 0; i < R; i++) UNROLL for (int v = 0; v < V; v++) acc[i][v] =
        bias ? _mm256_set1_ps(bias[i]) : _mm256_setzero_ps();
    for (size_t p = 0; p < k; p++) {
        __m256 row[NV];
        UNROLL for (int v = 0; v < V; v++) row[v] = load(v + 1 < V ? LANES : last, b + v * LANES);
        UNROLL for (int i = 0; i < R; i++)
        {
            const __m256 x = _mm256_set1_ps(a[(size_t)i * ras]);
            UNROLL for (int v = 0; v < V; v++) acc[i][v] = _mm256_fmadd_ps(x, row[v], acc[i][v]);
        }
        a += cas;
        b += ldb;
    }
    UNROLL for (int i = 0; i < R; i++) UNROLL for (int v = 0; v < V; v++)
    {
        float *to = c + (size_t)i * ldc + v * LANES;
        size_t on = v + 1 < V ? LANES : last;
        store(to, on, add ? _mm256_add_ps(load(on, to), acc[i][v]) : acc[i][v]);
    }
}

/* All rows of C for one panel of B. */
INLINE void panel(const int V, size_t last, float *c, size_t ldc, const float *a, size_t ras,
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

/* A copy of a panel of B with its rows next to each other.  In place they may lie a power of
 * two apart and push each other out of the cache: measured on 256 x 1024 x 256, 83 GFLOP/s in
 * place, 110 copied. */
INLINE void pack(float *to, const float *b, size_t ldb, size_t k, size_t n)
{
    for (size_t p = 0; p < k; p++, to += NR, b += ldb) {
        store(to, LANES, load(n, b));
        if (n > LANES) store(to + LANES, LANES, load(n - LANES, b + LANES));
    }
}

INLINE void product(float *c, size_t ldc, const float *a, size_t ras, size_t cas, const float *b,
                    size_t ldb, size_t m, size_t n, size_t k, bool add, const float *bias)
{
    enum { WORTH_PACKING = 4 * MR };
    float packed[KC * NR] __attribute__((aligned(64)));
    for (size_t p = 0; p < k || p == 0; p += KC) { /* once even for k = 0: C may need its zeros */
        const size_t kc = k - p < KC ? k - p : KC;
        const float *ap = a + p * cas;
        const bool more = add || p > 0;
        for (size_t j = 0; j < n; j += NR) {
            const size_t nc = n - j < NR ? n - j : NR;
            const float *bj = b + p * ldb + j;
            size_t ld = ldb;
            if (m >= WORTH_PACKING) {
                pack(packed, bj, ldb, kc, nc);
                bj = packed;
                ld = NR;
            }
            if (nc == NR)
                panel(2, LANES, c + j, ldc, ap, ras, cas, bj, ld, m, kc, more, p ? NULL : bias);
            else if (nc > LANES)
                panel(2, nc - LANES, c + j, ldc, ap, ras, cas, bj, ld, m, kc, more,
                      p ? NULL : bias);
            else panel(1, nc, c + j, ldc, ap, ras, cas, bj, ld, m, kc, more, p ? NULL : bias);
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

/* out (cols, rows) = transpose of in (rows, cols), both at most 8: pairs of rows are woven by
 * ones, then by twos, then by fours. */
INLINE void transpose8(float *out, size_t ldo, const float *in, size_t ldi, size_t rows,
                       size_t cols)
{
    __m256 r[8], t[8];
    UNROLL for (size_t i = 0; i < 8; i++) r[i] =
        i < rows ? load(cols, in + i * ldi) : _mm256_setzero_ps();
    UNROLL for (int i = 0; i < 8; i += 2)
    {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    UNROLL for (int i = 0; i < 8; i += 4)
    {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    UNROLL for (size_t i = 0; i < 4; i++)
    {
        t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
    UNROLL for (size_t j = 0; j < 8; j++) if (j < cols) store(out + j * ldo, rows, t[j]);
}

static void transpose(float *out, size_t ldo, const float *in, size_t ldi, size_t m, size_t n)
{
    for (size_t j = 0; j < n; j += LANES)
        for (size_t i = 0; i < m; i += LANES) {
            float *to = out + j * ldo + i;
            const float *from = in + i * ldi + j;
            if (i + LANES <= m && j + LANES <= n) transpose8(to, ldo, from, ldi, LANES, LANES);
            else transpose8(to, ldo, from, ldi, m - i, n - j);
        }
}

/* ---- blocks of logits (exponentials: curves_avx2.c) ---- */

static void col_max(float *max, const float *z, size_t ldz, size_t m, size_t n)
{
    for (size_t j = 0; j < n; j += LANES) store(max + j, n - j, load(n - j, z + j));
    for (size_t i = 1; i < m; i++)
        for (size_t j = 0; j < n; j += LANES)
            store(max + j, n - j,
                  _mm256_max_ps(load(n - j, z + i * ldz + j), load(n - j, max + j)));
}

/* ---- optimisers: rounded step by step like the scalar form, so all sets give its bits ---- */

static void adam(float *w, float *m, float *v, const float *g, size_t n, const struct wisp_adam *c)
{
    const __m256 b1 = _mm256_set1_ps(c->beta1), a1 = _mm256_set1_ps(1 - c->beta1);
    const __m256 b2 = _mm256_set1_ps(c->beta2), a2 = _mm256_set1_ps(1 - c->beta2);
    const __m256 step = _mm256_set1_ps(c->step), eps = _mm256_set1_ps(c->eps);
    for (size_t i = 0; i < n; i += LANES) {
        const __m256 gi = load(n - i, g + i);
        const __m256 mi =
            _mm256_add_ps(_mm256_mul_ps(b1, load(n - i, m + i)), _mm256_mul_ps(a1, gi));
        const __m256 vi = _mm256_add_ps(_mm256_mul_ps(b2, load(n - i, v + i)),
                                        _mm256_mul_ps(_mm256_mul_ps(a2, gi), gi));
        const __m256 d = _mm256_add_ps(_mm256_sqrt_ps(vi), eps);
        const __m256 moves = _mm256_cmp_ps(d, _mm256_setzero_ps(), _CMP_NEQ_UQ);
        const __m256 by = _mm256_and_ps(moves, _mm256_div_ps(_mm256_mul_ps(step, mi), d));
        store(m + i, n - i, mi);
        store(v + i, n - i, vi);
        store(w + i, n - i, _mm256_sub_ps(load(n - i, w + i), by));
    }
}

static void momentum(float *w, float *m, const float *g, size_t n, float beta, float step,
                     float decay)
{
    const __m256 b = _mm256_set1_ps(beta), s = _mm256_set1_ps(step), d = _mm256_set1_ps(decay);
    for (size_t i = 0; i < n; i += LANES) {
        __m256 wi = load(n - i, w + i), mi = load(n - i, g + i);
        if (decay > 0) mi = mi + d * wi;
        store(m + i, n - i, mi = b * load(n - i, m + i) + mi);
        store(w + i, n - i, _mm256_sub_ps(wi, _mm256_mul_ps(s, mi)));
    }
}

void wisp_kernels_avx2(struct wisp_kernels *k)
{
    k->axpy = axpy;
    k->scale = scale;
    k->dot = dot;
    k->sum = sum;
    k->bag = bag;
    k->dots = dots;
    k->matvec = matvec;
    k->to16 = to16;
    k->from16 = from16;
    k->axpy16 = axpy16;
    k->bag16 = bag16;
    k->dots16 = dots16;
    k->from8 = from8;
    k->bag8 = bag8;
    k->dots8 = dots8;
    k->gemm = gemm;
    k->gemm_bias = gemm_bias;
    k->transpose = transpose;
    k->relu = relu;
    k->relu_back = relu_back;
    k->col_max = col_max;
    k->above = above;
    k->winner = winner;
    k->adam = adam;
    k->momentum = momentum;
    wisp_kernels_tiles_avx2(k);
    wisp_kernels_live_avx2(k);
    wisp_kernels_bags_avx2(k);
    wisp_kernels_curves_avx2(k);
    wisp_kernels_codes_avx2(k);
    wisp_kernels_find_avx2(k);
    wisp_kernels_deep_avx2(k);
}

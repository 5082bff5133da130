/* Sums over the numbers that are not 0, with 512-bit vectors: 12 sums of a row, which leave the first
 * cache to weights, and up to 27 of a group of taps. */
#include "kernels/kernels.h"

#include <immintrin.h>

#define VEC          __m512
#define LOAD(x)      _mm512_loadu_ps(x)
#define STORE(x, v)  _mm512_storeu_ps(x, v)
#define SET1(x)      _mm512_set1_ps(x)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
enum { LANES = 16, PER = 1, MOST_BLOCKS = 8, MOST_SUMS = 24 };
#include "kernels/live.h"

/* clang-format off */
ROW(1, 1) ROW(1, 2) ROW(1, 3) ROW(1, 4) ROW(1, 5) ROW(1, 6) ROW(1, 7) ROW(1, 8)
ROW(2, 1) ROW(2, 2) ROW(2, 3) ROW(2, 4) ROW(2, 5) ROW(2, 6)
ROW(3, 1) ROW(3, 2) ROW(3, 3) ROW(3, 4)

static const row_form row_forms[WISP_LIVE_TAPS + 1][MOST_BLOCKS + 1] = {
    [1] = { NULL, row_1_1, row_1_2, row_1_3, row_1_4, row_1_5, row_1_6, row_1_7, row_1_8 },
    [2] = { NULL, row_2_1, row_2_2, row_2_3, row_2_4, row_2_5, row_2_6 },
    [3] = { NULL, row_3_1, row_3_2, row_3_3, row_3_4 },
};

SUMS(1, 1) SUMS(1, 2) SUMS(1, 3) SUMS(1, 4) SUMS(1, 5) SUMS(1, 6) SUMS(1, 7) SUMS(1, 8)
SUMS(1, 9) SUMS(1, 10) SUMS(1, 12) SUMS(1, 14) SUMS(1, 15) SUMS(1, 16) SUMS(1, 18) SUMS(1, 21) SUMS(1, 24)
SUMS(2, 1) SUMS(2, 2) SUMS(2, 3) SUMS(2, 4) SUMS(2, 6) SUMS(2, 8) SUMS(2, 9) SUMS(2, 12)
SUMS(3, 1) SUMS(3, 2) SUMS(3, 3) SUMS(3, 4) SUMS(3, 6) SUMS(3, 9)

static const sums_form sums_forms[WISP_LIVE_TAPS + 1][MOST_SUMS + 1] = {
    [1] = { NULL, sums_1_1, sums_1_2, sums_1_3, sums_1_4, sums_1_5, sums_1_6, sums_1_7, sums_1_8,
            sums_1_9, sums_1_10, NULL, sums_1_12, NULL, sums_1_14, sums_1_15, sums_1_16, NULL, sums_1_18,
            NULL, NULL, sums_1_21, NULL, NULL, sums_1_24 },
    [2] = { NULL, sums_2_1, sums_2_2, sums_2_3, sums_2_4, NULL, sums_2_6, NULL, sums_2_8, sums_2_9,
            NULL, NULL, sums_2_12 },
    [3] = { NULL, sums_3_1, sums_3_2, sums_3_3, sums_3_4, NULL, sums_3_6, NULL, NULL, sums_3_9 },
};

static const struct wisp_live_forms forms = {
    .row_blocks = { 0, 8, 6, 4 },
    .rows = 3,
    .sum_blocks = { { 0 }, { 0, 8, 8, 8 }, { 0, 4, 4, 4 }, { 0, 3, 3, 3 } },
    .near_floats = 9 * 1024,
};
/* clang-format on */

static void live_row(const struct wisp_live_row *t)
{
    row_forms[t->taps][t->blocks](t);
}

static void live_sums(const struct wisp_live_sums *t)
{
    sums_forms[t->rows][t->taps * t->blocks](t);
}

/* A NaN is not equal to 0. */
INLINE uint64_t bits(__m512 x)
{
    return _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NEQ_UQ);
}

/* Those of v that are not 0, and whatever behind them; returns their bits. */
INLINE uint64_t compress(float **x, __m512 v)
{
    const uint64_t m = bits(v);
    _mm512_storeu_ps(*x, _mm512_maskz_compress_ps((__mmask16)m, v));
    *x += __builtin_popcountll(m);
    return m;
}

INLINE void find(float *x, uint64_t *live, const float *const *from, const size_t sources, size_t n,
                 size_t step)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t m = 0;
        for (size_t s = 0; s < sources; s++)
            if (from[s])
                m |= compress(&x, _mm512_loadu_ps(from[s] + i * step * LANES)) << s * LANES;
        live[i] = m;
    }
}

static void live_find(float *x, uint64_t *live, const float *const *from, size_t sources, size_t n,
                      size_t step)
{
    switch (sources) {
    case 1:
        find(x, live, from, 1, n, step);
        break;
    case 2:
        find(x, live, from, 2, n, step);
        break;
    case 3:
        find(x, live, from, 3, n, step);
        break;
    default:
        find(x, live, from, 4, n, step);
    }
}

static void weave(float *x, const float *const *from, size_t sources, size_t n, size_t step)
{
    for (size_t s = 0; s < sources; s++)
        for (size_t i = 0; i < n; i++)
            _mm512_storeu_ps(x + (i * sources + s) * LANES,
                             from[s] ? _mm512_loadu_ps(from[s] + i * step * LANES)
                                     : _mm512_setzero_ps());
}

static void live_pack(uint64_t *live, float *x, size_t n, size_t words)
{
    for (size_t i = 0; i < n; i++, x += words * 64) {
        const float *from = x;
        float *to = x; /* never past what is read */
        for (size_t w = 0; w < words; w++, live++) {
            *live = 0;
            for (int b = 0; b < 64; b += LANES, from += LANES)
                *live |= compress(&to, _mm512_loadu_ps(from)) << b;
        }
    }
}

static size_t relu_live(float *y, const float *x, size_t n)
{
    size_t i = 0, found = 0;
    for (; i + LANES <= n; i += LANES) { /* a NaN must be the second operand to stay */
        const __m512 v = _mm512_max_ps(_mm512_setzero_ps(), _mm512_loadu_ps(x + i));
        _mm512_storeu_ps(y + i, v);
        found += (size_t)__builtin_popcountll(bits(v));
    }
    if (i < n) {
        const __mmask16 k = (__mmask16)((1u << (n - i)) - 1);
        const __m512 v = _mm512_max_ps(_mm512_setzero_ps(), _mm512_maskz_loadu_ps(k, x + i));
        _mm512_mask_storeu_ps(y + i, k, v);
        found += (size_t)__builtin_popcountll(bits(v));
    }
    return found;
}

static void push(float *g, const float *x, float more, size_t n)
{
    const __m512 by = _mm512_set1_ps(more), zero = _mm512_setzero_ps();
    for (size_t i = 0; i < n; i += LANES) {
        const __mmask16 k = n - i < LANES ? (__mmask16)((1u << (n - i)) - 1) : 0xffff;
        const __mmask16 on = _mm512_cmp_ps_mask(_mm512_maskz_loadu_ps(k, x + i), zero, _CMP_GT_OQ);
        const __m512 old = _mm512_maskz_loadu_ps(k, g + i);
        _mm512_mask_storeu_ps(g + i, k & on, _mm512_add_ps(old, by));
    }
}

static size_t live_count(const float *x, size_t n)
{
    size_t i = 0, found = 0;
    for (; i + LANES <= n; i += LANES)
        found += (size_t)__builtin_popcountll(bits(_mm512_loadu_ps(x + i)));
    if (i < n) {
        const __mmask16 k = (__mmask16)((1u << (n - i)) - 1);
        found += (size_t)__builtin_popcountll(bits(_mm512_maskz_loadu_ps(k, x + i)));
    }
    return found;
}

void wisp_kernels_live_avx512(struct wisp_kernels *k)
{
    k->live_find = live_find;
    k->weave = weave;
    k->live_pack = live_pack;
    k->live_row = live_row;
    k->live_sums = live_sums;
    k->live_forms = &forms;
    k->relu_live = relu_live;
    k->push = push;
    k->live_count = live_count;
}

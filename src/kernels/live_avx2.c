/* Sums over the numbers that are not 0, with 256-bit vectors: two to a block, so 12 sums at most of
 * the 16 registers. */
#include "kernels/kernels.h"

#include <immintrin.h>

#define VEC          __m256
#define LOAD(x)      _mm256_loadu_ps(x)
#define STORE(x, v)  _mm256_storeu_ps(x, v)
#define SET1(x)      _mm256_set1_ps(x)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
enum { LANES = 8, PER = 2, MOST_BLOCKS = 6, MOST_SUMS = 6 };
#include "kernels/live.h"

/* clang-format off */
ROW(1, 1) ROW(1, 2) ROW(1, 3) ROW(1, 4) ROW(1, 5) ROW(1, 6)
ROW(2, 1) ROW(2, 2) ROW(2, 3)
ROW(3, 1) ROW(3, 2)

static const row_form row_forms[WISP_LIVE_TAPS + 1][MOST_BLOCKS + 1] = {
    [1] = { NULL, row_1_1, row_1_2, row_1_3, row_1_4, row_1_5, row_1_6 },
    [2] = { NULL, row_2_1, row_2_2, row_2_3 },
    [3] = { NULL, row_3_1, row_3_2 },
};

SUMS(1, 1) SUMS(1, 2) SUMS(1, 3) SUMS(1, 4) SUMS(1, 5) SUMS(1, 6)

static const sums_form sums_forms[MOST_SUMS + 1] = {
    NULL, sums_1_1, sums_1_2, sums_1_3, sums_1_4, sums_1_5, sums_1_6,
};

static const struct wisp_live_forms forms = {
    .row_blocks = { 0, 6, 3, 2 },
    .rows = 1,
    .sum_blocks = { { 0 }, { 0, 6, 3, 2 } },
    .near_floats = 6 * 1024,
};
/* clang-format on */

static void live_row(const struct wisp_live_row *t)
{
    row_forms[t->taps][t->blocks](t);
}

static void live_sums(const struct wisp_live_sums *t)
{
    sums_forms[t->taps * t->blocks](t);
}

/* A NaN is not equal to 0. */
INLINE uint64_t bits(__m256 x)
{
    return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_NEQ_UQ));
}

/* Which lanes of 8 to take, a byte each, so that those of the mask come first and in order: lane b goes
 * to the place which is the number of bits below b. */
#define BIT(m, b)  ((uint64_t)(m) >> (b)&1)
#define BELOW_1(m) BIT(m, 0)
#define BELOW_2(m) (BELOW_1(m) + BIT(m, 1))
#define BELOW_3(m) (BELOW_2(m) + BIT(m, 2))
#define BELOW_4(m) (BELOW_3(m) + BIT(m, 3))
#define BELOW_5(m) (BELOW_4(m) + BIT(m, 4))
#define BELOW_6(m) (BELOW_5(m) + BIT(m, 5))
#define BELOW_7(m) (BELOW_6(m) + BIT(m, 6))
#define LANE(m, b) (BIT(m, b) * b << 8 * BELOW_##b(m))
#define FIRST(m)                                                                                   \
    (LANE(m, 1) | LANE(m, 2) | LANE(m, 3) | LANE(m, 4) | LANE(m, 5) | LANE(m, 6) | LANE(m, 7))
#define FIRST_4(m)  FIRST(m), FIRST((m) + 1), FIRST((m) + 2), FIRST((m) + 3)
#define FIRST_16(m) FIRST_4(m), FIRST_4((m) + 4), FIRST_4((m) + 8), FIRST_4((m) + 12)
#define FIRST_64(m) FIRST_16(m), FIRST_16((m) + 16), FIRST_16((m) + 32), FIRST_16((m) + 48)
static const uint64_t lanes_first[256] = { FIRST_64(0), FIRST_64(64), FIRST_64(128),
                                           FIRST_64(192) };

/* Those of v that are not 0, and whatever behind them; returns their bits. */
INLINE uint64_t compress8(float **x, __m256 v)
{
    const uint64_t m = bits(v);
    const __m256i lanes = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)lanes_first[m]));
    _mm256_storeu_ps(*x, _mm256_permutevar8x32_ps(v, lanes));
    *x += __builtin_popcountll(m);
    return m;
}

INLINE uint64_t compress(float **x, const float *from)
{
    const __m256 low = _mm256_loadu_ps(from), high = _mm256_loadu_ps(from + LANES);
    const uint64_t m = compress8(x, low);
    return m | compress8(x, high) << LANES;
}

static void live_find(float *x, uint64_t *live, const float *const *from, size_t sources, size_t n,
                      size_t step)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t m = 0;
        for (size_t s = 0; s < sources; s++)
            if (from[s]) m |= compress(&x, from[s] + i * step * 16) << s * 16;
        live[i] = m;
    }
}

static void weave(float *x, const float *const *from, size_t sources, size_t n, size_t step)
{
    for (size_t s = 0; s < sources; s++)
        for (size_t i = 0; i < n; i++) {
            const float *at = from[s] ? from[s] + i * step * 16 : NULL;
            float *to = x + (i * sources + s) * 16;
            _mm256_storeu_ps(to, at ? _mm256_loadu_ps(at) : _mm256_setzero_ps());
            _mm256_storeu_ps(to + LANES, at ? _mm256_loadu_ps(at + LANES) : _mm256_setzero_ps());
        }
}

static void live_pack(uint64_t *live, float *x, size_t n, size_t words)
{
    for (size_t i = 0; i < n; i++, x += words * 64) {
        const float *from = x;
        float *to = x; /* never past what is read */
        for (size_t w = 0; w < words; w++, live++) {
            *live = 0;
            for (int b = 0; b < 64; b += 16, from += 16) *live |= compress(&to, from) << b;
        }
    }
}

static size_t relu_live(float *y, const float *x, size_t n)
{
    size_t i = 0, found = 0;
    for (; i + LANES <= n; i += LANES) { /* a NaN must be the second operand to stay */
        const __m256 v = _mm256_max_ps(_mm256_setzero_ps(), _mm256_loadu_ps(x + i));
        _mm256_storeu_ps(y + i, v);
        found += (size_t)__builtin_popcountll(bits(v));
    }
    for (; i < n; i++) {
        y[i] = x[i] < 0 ? 0 : x[i];
        found += y[i] != 0;
    }
    return found;
}

static void push(float *g, const float *x, float more, size_t n)
{
    const __m256 by = _mm256_set1_ps(more), zero = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const __m256 old = _mm256_loadu_ps(g + i);
        const __m256 on = _mm256_cmp_ps(_mm256_loadu_ps(x + i), zero, _CMP_GT_OQ);
        _mm256_storeu_ps(g + i, _mm256_blendv_ps(old, _mm256_add_ps(old, by), on));
    }
    for (; i < n; i++)
        if (x[i] > 0) g[i] += more;
}

static size_t live_count(const float *x, size_t n)
{
    size_t i = 0, found = 0;
    for (; i + LANES <= n; i += LANES)
        found += (size_t)__builtin_popcountll(bits(_mm256_loadu_ps(x + i)));
    for (; i < n; i++) found += x[i] != 0;
    return found;
}

void wisp_kernels_live_avx2(struct wisp_kernels *k)
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

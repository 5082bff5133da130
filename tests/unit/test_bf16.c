/* The kernels of bf16 of every instruction set of this machine against the scalar form (guarded.h),
 * and the scalar form against double precision.
 *
 * Arrays of halves lie at the end of their array of floats: an odd number of them leaves its unused
 * half in front, where writing is seen, and ends at the page that cannot be touched.
 *
 * Denormals: the hardware takes them for zeros when it rounds to bf16 or multiplies bf16, the
 * scalar form does not; so they are kept out of all comparisons but one, which allows both. */
#include "guarded.h"

enum { PANEL = 16, DEPTH = 32 }; /* columns of a panel; k is filled up to a multiple of this */

static size_t up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}
static size_t panel_words(size_t k)
{
    return up(k, DEPTH) / 2 * PANEL;
}
/* Elements of a matrix whose last row has no gap. */
static size_t extent(size_t rows, size_t columns, size_t ld)
{
    return rows ? (rows - 1) * ld + columns : 0;
}
static uint16_t *halves(float *x, size_t n)
{
    return (uint16_t *)x + n % 2;
}
static void set_half(float *x, size_t n, size_t at, uint32_t bits)
{
    uint16_t half = (uint16_t)bits;
    memcpy((char *)x + (n % 2 + at) * sizeof half, &half, sizeof half);
}
static uint32_t get_half(const float *x, size_t n, size_t at)
{
    uint16_t half;
    memcpy(&half, (const char *)x + (n % 2 + at) * sizeof half, sizeof half);
    return half;
}
static float from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}
static uint32_t to_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* Array i of the next case: n words of any bits, the same bits wanted. */
static float *fill_words(int i, size_t n)
{
    float *x = fill(i, n);
    for (size_t j = 0; j < n; j++) {
        uint32_t word = (uint32_t)(test_rand(&seed) >> 32);
        memcpy(&x[j], &word, sizeof word);
        arrays[i].mass[j] = -1;
    }
    return x;
}
static float *fill_halves(int i, size_t n)
{
    return fill_words(i, (n + 1) / 2);
}

/* ---- rounding ---- */

static const struct {
    uint32_t in, want;
} rounded[] = {
    { 0x00000000, 0x0000 }, { 0x80000000, 0x8000 }, { 0x3f800000, 0x3f80 }, { 0xbf800000, 0xbf80 },
    { 0x3f807fff, 0x3f80 }, { 0x3f808000, 0x3f80 }, /* a tie: down to even */
    { 0x3f808001, 0x3f81 }, { 0x3f817fff, 0x3f81 }, { 0x3f818000, 0x3f82 }, /* up to even */
    { 0xbf808000, 0xbf80 }, { 0xbf818000, 0xbf82 }, { 0x3fff8000, 0x4000 }, /* the next exponent */
    { 0x00800000, 0x0080 }, { 0x00808000, 0x0080 }, { 0x80818000, 0x8082 }, /* smallest normals */
    { 0x7f7f7fff, 0x7f7f }, { 0x7f7f8000, 0x7f80 }, { 0xff7fffff, 0xff80 }, /* to infinity */
    { 0x7f800000, 0x7f80 }, { 0xff800000, 0xff80 }, { 0x7fc00000, 0x7fc0 }, /* NaN stays, quiet */
    { 0x7f800001, 0x7fc0 }, { 0xff80ffff, 0xffc0 }, { 0x7fffffff, 0x7fff }, { 0xffffffff, 0xffff },
    { 0xffbf0000, 0xffff },
};
enum { N_ROUNDED = sizeof rounded / sizeof *rounded };

/* The nearer of the two neighbours; the even one of two as near. */
static uint32_t nearest(float x)
{
    uint32_t lo = to_bits(x) >> 16, hi = lo + 1;
    double d = fabs((double)x), down = d - fabs((double)from_bits(lo << 16));
    double up_to = (hi & 0x7fff) == 0x7f80 ? 0x1p128 : fabs((double)from_bits(hi << 16));
    if (isinf(x)) return lo;
    return down < up_to - d || (down == up_to - d && lo % 2 == 0) ? lo : hi;
}

/* Any number, but no denormal; a number that is hard to round now and then. */
static float any_float(void)
{
    uint32_t u = (uint32_t)(test_rand(&seed) >> 32);
    if (u % 8 == 0) u = rounded[u / 8 % N_ROUNDED].in;
    if (u % 8 == 1) u = (u & 0xffff0000) | 0x8000;
    if ((u & 0x7f800000) == 0) u &= 0x80000000;
    return from_bits(u);
}

CALL(to16)
{
    k->to16(halves(x[0], c->n), x[1], c->n);
}

static void test_to16(size_t n)
{
    fill_halves(0, n);
    float *x = fill(1, n);
    for (size_t i = 0; i < n; i++) {
        float v = any_float();
        memcpy(&x[i], &v, sizeof v); /* bit for bit */
    }
    check_case(&(struct call){ .name = "to16", .fn = to16, ENTRY(to16), .n = n });
    for (size_t i = 0; i < n; i++)
        CHECK(isnan(x[i]) || get_half(arrays[0].want, n, i) == nearest(x[i]), "%08x becomes %04x",
              (unsigned)to_bits(x[i]), (unsigned)get_half(arrays[0].want, n, i));
}

static void test_rounding(const struct wisp_kernels *k)
{
    float x[N_ROUNDED];
    uint16_t y[N_ROUNDED];
    for (size_t i = 0; i < N_ROUNDED; i++) memcpy(&x[i], &rounded[i].in, sizeof *x);
    k->to16(y, x, N_ROUNDED);
    for (size_t i = 0; i < N_ROUNDED; i++)
        CHECK(y[i] == rounded[i].want, "%s: %08x becomes %04x, not %04x", k->name,
              (unsigned)rounded[i].in, y[i], (unsigned)rounded[i].want);
}

/* One is a bf16 of x, or zero with its sign. */
static bool is_half_or_0(uint32_t half, float x)
{
    return half == nearest(x) || half == (to_bits(x) >> 16 & 0x8000);
}

static void test_denormals(const struct wisp_kernels *k)
{
    enum { N = 64 };
    float x[N];
    uint16_t y[N];
    uint32_t words[N / 2 * PANEL];
    for (size_t i = 0; i < N; i++)
        x[i] = from_bits((uint32_t)(test_rand(&seed) >> 32) & (i ? 0x807fffff : 0x007fffff));
    k->to16(y, x, N);
    for (size_t i = 0; i < N; i++)
        CHECK(is_half_or_0(y[i], x[i]), "%s: to16 of %a is %04x", k->name, x[i], y[i]);
    k->pairs(words, 0, x, 1, NULL, N, up(N, DEPTH), 1);
    for (size_t i = 0; i < N; i++)
        CHECK(is_half_or_0(words[i / 2 * PANEL] >> i % 2 * 16 & 0xffff, x[i]),
              "%s: pairs of %a is %08x", k->name, x[i], (unsigned)words[i / 2 * PANEL]);
    k->pairs_t(words, 0, x, N, N, 1);
    for (size_t i = 0; i < N; i++)
        CHECK(is_half_or_0(words[i / 2 * PANEL] >> i % 2 * 16 & 0xffff, x[i]),
              "%s: pairs_t of %a is %08x", k->name, x[i], (unsigned)words[i / 2 * PANEL]);
}

/* ---- rows ---- */

CALL(from16)
{
    k->from16(x[0], halves(x[1], c->n), c->n);
}
CALL(axpy16)
{
    k->axpy16(halves(x[0], c->n), x[1], -0.7f, c->n, (uint32_t)c->m);
}
CALL(bag16)
{
    size_t ld = c->n + c->gap;
    k->bag16(x[0], halves(x[1], extent(c->m, c->n, ld)), ld, (const int32_t *)x[2], x[3], c->k,
             c->n);
}
CALL(dots16)
{
    size_t ld = c->n + c->gap;
    k->dots16(x[0], halves(x[1], extent(c->m, c->n, ld)), ld, (const int32_t *)x[2], c->k, x[3],
              c->n);
}

/* A bf16 number. */
static float some_half(void)
{
    return from_bits(to_bits(test_randf(&seed)) & 0xffff0000);
}

static void test_from16(size_t n)
{
    fill(0, n), fill_halves(1, n);
    for (size_t i = 0; i < n; i++) arrays[0].mass[i] = -1;
    check_case(&(struct call){ .name = "from16", .fn = from16, ENTRY(from16), .n = n });
    for (size_t i = 0; i < n; i++)
        CHECK(to_bits(arrays[0].want[i]) == get_half(arrays[1].init, n, i) << 16, "[%zu]", i);
}

/* All sets round to the same side: the bits are a function of (random, i). */
static void test_axpy16(size_t n)
{
    uint32_t random = (uint32_t)test_rand(&seed) | (n % 3 ? 0 : 0xffffffc0); /* may wrap */
    float *x = fill_halves(0, n), *g = fill(1, n);
    for (size_t i = 0; i < n; i++) {
        if (i % 9) set_half(x, n, i, to_bits(some_half()) >> 16); /* else anything: NaN, infinity */
        if (i % 5 == 4) g[i] = any_float();
    }
    check_case(
        &(struct call){ .name = "axpy16", .fn = axpy16, ENTRY(axpy16), .m = random, .n = n });
    for (size_t i = 0; i < n; i++) { /* one of the two neighbours of the sum */
        float sum = from_bits(get_half(x, n, i) << 16) + -0.7f * g[i];
        uint32_t down = to_bits(sum) >> 16, got = get_half(arrays[0].want, n, i);
        bool finite = isfinite(sum), exact = (to_bits(sum) & 0xffff) == 0;
        if (isnan(sum)) CHECK((got & 0x7fff) > 0x7f80, "axpy16: NaN is lost");
        else
            CHECK(got == down || (finite && !exact && got == down + 1), "axpy16: %a becomes %04x",
                  sum, (unsigned)got);
    }
}

/* On average nothing is lost, at no place of the array; a piece has the bytes of the whole. */
static void test_average(const struct wisp_kernels *k)
{
    enum { N = 40, TURNS = 4000 };
    uint16_t x[N], piece[N];
    float g[N];
    double up_by[N] = { 0 };
    for (size_t i = 0; i < N; i++) g[i] = -(float)(i + 1) / (N + 1) * 0x1p-7f; /* of one unit */
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        uint32_t random = (uint32_t)test_rand(&seed);
        for (size_t i = 0; i < N; i++) x[i] = piece[i] = 0x3f80;
        k->axpy16(x, g, -1, N, random);
        for (size_t i = 0; i < N; i++) up_by[i] += (double)(x[i] - 0x3f80);
        size_t at = turn % N;
        k->axpy16(piece + at, g + at, -1, N - at, random + (uint32_t)at * WISP_GOLDEN16);
        CHECK(memcmp(piece + at, x + at, (N - at) * sizeof *x) == 0, "%s: from %zu", k->name, at);
    }
    for (size_t i = 0; i < N; i++) { /* five standard deviations */
        double p = (double)(i + 1) / (N + 1), off = up_by[i] / TURNS - p;
        CHECK(fabs(off) < 5 * sqrt(p * (1 - p) / TURNS), "%s: up in %g of %g cases", k->name,
              up_by[i] / TURNS, p);
    }
    for (size_t i = 0; i < N; i++) x[i] = piece[i] = (uint16_t)test_rand(&seed), g[i] = 0;
    x[0] = piece[0] = 0x7f7f, x[1] = piece[1] = 0xff80, x[2] = piece[2] = 1;
    k->axpy16(x, g, 1, N, 7);
    for (size_t i = 0; i < N; i++)
        CHECK(x[i] == piece[i] || (x[i] == (piece[i] | 0x40) && (x[i] & 0x7fff) > 0x7f80),
              "%s: %04x + 0 is %04x", k->name, piece[i], x[i]);
}

/* Rows of bf16 with gaps of NaN, and ids of some of them. */
static float *fill_table(size_t rows, size_t n, size_t gap, size_t n_ids)
{
    size_t all = extent(rows, n, n + gap);
    float *w = fill_halves(1, all), *ids = fill(2, n_ids);
    for (size_t i = 0; i < all; i++)
        set_half(w, all, i, i % (n + gap) < n ? to_bits(some_half()) >> 16 : 0x7fc0);
    for (size_t i = 0; i < n_ids; i++) {
        int32_t id = (int32_t)(i == n_ids / 2 ? rows - 1 : test_rand(&seed) % rows);
        memcpy(&ids[i], &id, sizeof id);
    }
    return w;
}

static void test_rows(size_t n, size_t count, size_t gap)
{
    enum { ROWS = 13 };
    struct call c = {
        .name = "bag16", .fn = bag16, ENTRY(bag16), .m = ROWS, .n = n, .k = count, .gap = gap
    };
    size_t ld = n + gap, all = extent(ROWS, n, ld);
    double sum[1001] = { 0 };
    float *out = fill(0, n), *w = fill_table(ROWS, n, gap, count), *val = fill(3, count);
    for (size_t j = 0; j < n; j++) sum[j] = out[j], arrays[0].mass[j] = fabsf(out[j]);
    for (size_t i = 0; i < count; i++) {
        int32_t id;
        memcpy(&id, &arrays[2].init[i], sizeof id);
        for (size_t j = 0; j < n; j++) {
            float term = val[i] * from_bits(get_half(w, all, (size_t)id * ld + j) << 16);
            sum[j] += term, arrays[0].mass[j] += fabsf(term);
        }
    }
    check_case(&c);
    for (size_t j = 0; j < n; j++)
        CHECK(near(arrays[0].want[j], (float)sum[j], 1e-6f * arrays[0].mass[j]), "bag16 [%zu]", j);

    c.name = "dots16", c.fn = dots16, c.entry = offsetof(struct wisp_kernels, dots16);
    fill(0, count);
    float *x = fill(3, n);
    for (size_t i = 0; i < count; i++) {
        int32_t id;
        memcpy(&id, &arrays[2].init[i], sizeof id);
        sum[i] = 0;
        for (size_t j = 0; j < n; j++) {
            float term = x[j] * from_bits(get_half(w, all, (size_t)id * ld + j) << 16);
            sum[i] += term, arrays[0].mass[i] += fabsf(term);
        }
    }
    check_case(&c);
    for (size_t i = 0; i < count; i++)
        CHECK(near(arrays[0].want[i], (float)sum[i], 1e-6f * arrays[0].mass[i]), "dots16 [%zu]", i);
}

/* ---- layouts ---- */

CALL(pairs) /* m: rows with those filled up */
{
    k->pairs((uint32_t *)x[0], c->m / 2 * PANEL + c->gap, x[1], c->n + c->gap,
             c->more ? x[2] : NULL, c->k, c->m, c->n);
}
CALL(pairs16)
{
    size_t ldx = c->n + c->gap;
    k->pairs16((uint32_t *)x[0], c->m / 2 * PANEL + c->gap, halves(x[1], extent(c->k, c->n, ldx)),
               ldx, c->k, c->m, c->n);
}
CALL(pairs_t)
{
    k->pairs_t((uint32_t *)x[0], c->m / 2 * PANEL + c->gap, x[1], c->k + c->gap, c->k, c->n);
}
CALL(turn16)
{
    size_t ldo = up(c->m, DEPTH) + c->gap, ldi = c->n + c->gap;
    k->turn16(halves(x[0], extent(c->n, up(c->m, DEPTH), ldo)), ldo,
              halves(x[1], extent(c->m, c->n, ldi)), ldi, c->m, c->n);
}

/* What panels must hold of (k, n) numbers: x[p * row + j * column] * s[p]. */
static void check_panels(const struct call *c, const float *x, size_t row, size_t column,
                         const float *s)
{
    size_t ld = c->m / 2 * PANEL + c->gap;
    for (size_t j = 0; j < up(c->n, PANEL); j++)
        for (size_t p = 0; p < c->m; p++) {
            uint32_t word;
            memcpy(&word, &arrays[0].want[j / PANEL * ld + p / 2 * PANEL + j % PANEL], sizeof word);
            uint32_t got = word >> p % 2 * 16 & 0xffff;
            bool inside = p < c->k && j < c->n;
            float v = inside ? x[p * row + j * column] * (s ? s[p] : 1) : 0;
            if (isnan(v)) CHECK((got & 0x7fff) > 0x7f80, "%s: NaN is lost", c->name);
            else
                CHECK(got == nearest(v), "%s %zu x %zu: (%zu, %zu) is %04x", c->name, c->k, c->n, p,
                      j, (unsigned)got);
        }
}

static void fill_any(int i, size_t rows, size_t columns, size_t gap)
{
    float *x = fill_rows(i, rows, columns, gap);
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < columns; j++) {
            float v = any_float();
            memcpy(&x[r * (columns + gap) + j], &v, sizeof v);
        }
}

static void fill_panels(size_t rows, size_t n, size_t gap)
{
    size_t words = rows / 2 * PANEL;
    fill_words(0, extent(up(n, PANEL) / PANEL, words, words + gap));
}

static void test_pairs(size_t k, size_t whole, size_t n, size_t gap)
{
    struct call c = {
        .name = "pairs", .fn = pairs, ENTRY(pairs), .m = whole, .n = n, .k = k, .gap = gap
    };
    fill_panels(whole, n, gap);
    fill_any(1, k, n, gap);
    float *s = fill(2, k);
    for (size_t p = 0; p < k; p++) s[p] = 1 + fabsf(s[p]); /* makes no denormals */
    check_case(&c);
    check_panels(&c, arrays[1].init, n + gap, 1, NULL);
    c.name = "pairs, scaled", c.more = true;
    check_case(&c);
    check_panels(&c, arrays[1].init, n + gap, 1, s);
}

static void test_pairs16(size_t k, size_t whole, size_t n, size_t gap)
{
    struct call c = {
        .name = "pairs16", .fn = pairs16, ENTRY(pairs16), .m = whole, .n = n, .k = k, .gap = gap
    };
    size_t all = extent(k, n, n + gap), ld = whole / 2 * PANEL + gap;
    fill_panels(whole, n, gap);
    float *x = fill_halves(1, all); /* of any bits */
    check_case(&c);
    for (size_t j = 0; j < up(n, PANEL); j++)
        for (size_t p = 0; p < whole; p++) {
            uint32_t word = to_bits(arrays[0].want[j / PANEL * ld + p / 2 * PANEL + j % PANEL]);
            CHECK((word >> p % 2 * 16 & 0xffff) ==
                      (p < k && j < n ? get_half(x, all, p * (n + gap) + j) : 0),
                  "pairs16 %zu x %zu: (%zu, %zu) is in %08x", k, n, p, j, (unsigned)word);
        }
}

static void test_pairs_t(size_t k, size_t n, size_t gap)
{
    struct call c = { .name = "pairs_t",
                      .fn = pairs_t,
                      ENTRY(pairs_t),
                      .m = up(k, DEPTH),
                      .n = n,
                      .k = k,
                      .gap = gap };
    fill_panels(c.m, n, gap);
    fill_any(1, n, k, gap);
    check_case(&c);
    check_panels(&c, arrays[1].init, 1, k + gap, NULL);
}

static void test_turn16(size_t m, size_t n, size_t gap)
{
    struct call c = { .name = "turn16", .fn = turn16, ENTRY(turn16), .m = m, .n = n, .gap = gap };
    size_t ldo = up(m, DEPTH) + gap, ldi = n + gap;
    size_t all_out = extent(n, up(m, DEPTH), ldo), all_in = extent(m, n, ldi);
    fill_halves(0, all_out), fill_halves(1, all_in);
    check_case(&c);
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < up(m, DEPTH); i++)
            CHECK(get_half(arrays[0].want, all_out, j * ldo + i) ==
                      (i < m ? get_half(arrays[1].init, all_in, i * ldi + j) : 0),
                  "turn16 %zu x %zu: (%zu, %zu)", m, n, j, i);
}

/* ---- the product ---- */

static const uint32_t NAN16 = 0x7fc0;

CALL(gemm16)
{
    size_t lda = c->k + c->gap, rows = up(c->m, 16);
    k->gemm16(x[0], c->n + c->gap, halves(x[1], extent(rows, c->k, lda)), lda,
              (const uint32_t *)x[2], panel_words(c->k) + 16 * c->gap, c->more ? x[3] : NULL, c->m,
              c->n, c->k, c->add);
}

/* Rows of A from m up to the next multiple of 16 are there and hold NaN, as gaps do. */
static void fill_a(float *a, size_t m, size_t k, size_t gap) /* a (m, k) */
{
    size_t rows = up(m, 16), all = extent(rows, k, k + gap);
    float *x = fill_halves(1, all);
    for (size_t i = 0; i < all; i++) set_half(x, all, i, NAN16);
    for (size_t i = 0; i < m; i++)
        for (size_t p = 0; p < k; p++) {
            a[i * k + p] = some_half();
            set_half(x, all, i * (k + gap) + p, to_bits(a[i * k + p]) >> 16);
        }
}

static void fill_b(float *b, size_t k, size_t n, size_t gap) /* b (n, k) */
{
    size_t panels = up(n, PANEL) / PANEL, ld = panel_words(k) + 16 * gap;
    float *x = fill_words(2, extent(panels, panel_words(k), ld));
    for (size_t i = 0; i < arrays[2].n; i++) {
        uint32_t word = i % ld < panel_words(k) ? 0 : NAN16 | NAN16 << 16;
        memcpy(&x[i], &word, sizeof word);
    }
    for (size_t j = 0; j < n; j++)
        for (size_t p = 0; p < k; p += 2) {
            b[j * k + p] = some_half(), b[j * k + p + 1] = some_half();
            uint32_t word = to_bits(b[j * k + p]) >> 16 | to_bits(b[j * k + p + 1]);
            memcpy(&x[j / PANEL * ld + p / 2 * PANEL + j % PANEL], &word, sizeof word);
        }
}

static void test_gemm16(size_t m, size_t n, size_t k, size_t gap, bool biased, bool add)
{
    static float a[ROOM], b[ROOM];
    fill_a(a, m, k, gap);
    fill_b(b, k, n, gap);
    float *c = fill_rows(0, m, n, gap), *bias = fill(3, m), *mass = arrays[0].mass;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            size_t at = i * (n + gap) + j;
            if (!add && j % 2) c[at] = NAN; /* does not stay */
            mass[at] = (biased ? fabsf(bias[i]) : 0) + (add ? fabsf(c[at]) : 0);
            for (size_t p = 0; p < k; p++) mass[at] += fabsf(a[i * k + p] * b[j * k + p]);
        }
    check_case(&(struct call){ .name = "gemm16",
                               .fn = gemm16,
                               ENTRY(gemm16),
                               .m = m,
                               .n = n,
                               .k = k,
                               .gap = gap,
                               .more = biased,
                               .add = add });
    if (m * n > 400) return;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            size_t at = i * (n + gap) + j;
            double sum = (biased ? bias[i] : 0) + (add ? (double)c[at] : 0);
            for (size_t p = 0; p < k; p++) sum += (double)a[i * k + p] * b[j * k + p];
            CHECK(near(arrays[0].want[at], (float)sum, 1e-6f * mass[at]),
                  "%zu x %zu x %zu: %g, not %g", m, n, k, arrays[0].want[at], sum);
        }
}

static void test_gemms(void)
{
    static const size_t depth[] = { 32, 64, 128, 96, 256 };
    for (size_t m = 1; m <= 40; m++)
        for (size_t n = 1; n <= 40; n++) /* all forms and depths with all m, with all n */
            test_gemm16(m, n, depth[(m + 2 * n) % 5], (m + n) % 3, (m / 4 + n) & 1,
                        (m / 2 + n / 2) & 1);
    for (size_t n = 41; n <= 130; n += 1 + n % 5)
        for (int form = 0; form < 4; form++) test_gemm16(n % 13 + 1, n, 32, 1, form & 1, form & 2);
    for (int form = 0; form < 4; form++) {
        test_gemm16(96, 256, 256, 0, form & 1, form & 2);
        test_gemm16(96, 256, 128, 3, form & 1, form & 2);
        test_gemm16(33, 17, 256, 5, form & 1, form & 2);
        test_gemm16(17, 33, 96, 5, form & 1, form & 2);
    }
}

/* Pieces of C have the bytes of the whole, whatever rows they begin at. */
static void test_pieces(const struct wisp_kernels *k)
{
    enum { M = 75, N = 150, K = 96, LDB = K / 2 * PANEL + 32 };
    static uint16_t a[(M + 32) * K];
    static uint32_t b[(N + PANEL) / PANEL * LDB];
    static float whole[M * N], cut[M * N], xa[M * K], xb[K * N];
    float bias[M];
    for (size_t i = 0; i < M * K; i++) xa[i] = test_randf(&seed);
    for (size_t i = 0; i < K * N; i++) xb[i] = test_randf(&seed);
    for (size_t i = 0; i < M; i++) bias[i] = test_randf(&seed);
    k->to16(a, xa, M * K);
    k->pairs(b, LDB, xb, N, NULL, K, up(K, DEPTH), N);
    k->gemm16(whole, N, a, K, b, LDB, bias, M, N, K, false);
    for (size_t rows = 1; rows < 40; rows += 1 + rows % 4)
        for (size_t columns = PANEL; columns < 100; columns += PANEL) {
            memset(cut, 255, sizeof cut);
            for (size_t i = 0; i < M; i += rows)
                for (size_t j = 0; j < N; j += columns)
                    k->gemm16(cut + i * N + j, N, a + i * K, K, b + j / PANEL * LDB, LDB, bias + i,
                              M - i < rows ? M - i : rows, N - j < columns ? N - j : columns, K,
                              false);
            CHECK(memcmp(whole, cut, sizeof cut) == 0, "%s: pieces of %zu x %zu", k->name, rows,
                  columns);
        }

    a[7 * K + 5] = (uint16_t)NAN16; /* reaches its row; the other one its column */
    b[3 * LDB + 9 * PANEL + 2] = NAN16 << 16;
    k->gemm16(whole, N, a, K, b, LDB, bias, M, N, K, false);
    for (size_t i = 0; i < M * N; i++)
        CHECK(isnan(whole[i]) == (i / N == 7 || i % N == 3 * PANEL + 2), "%s: NaN at %zu", k->name,
              i);
}

/* Equal rows times equal columns: all elements are equal, wherever in a tile they lie. */
static void test_places(const struct wisp_kernels *k)
{
    enum { M = 50, N = 98, K = 32, LDB = K / 2 * PANEL };
    static uint16_t a[M * K];
    static uint32_t b[(N + PANEL) / PANEL * LDB];
    static float c[M * N], xa[K], xb[K * N];
    float bias[M];
    for (size_t p = 0; p < K; p++) xa[p] = test_randf(&seed);
    for (size_t i = 0; i < M; i++) k->to16(a + i * K, xa, K), bias[i] = 0.7f;
    for (size_t p = 0; p < K; p++) {
        float v = test_randf(&seed);
        for (size_t j = 0; j < N; j++) xb[p * N + j] = v;
    }
    k->pairs(b, LDB, xb, N, NULL, K, up(K, DEPTH), N);
    for (size_t m = 1; m <= M; m += 1 + m % 4)
        for (size_t n = 1; n <= N; n += 1 + n % 7) {
            for (size_t i = 0; i < m * n; i++) c[i] = 0.3f;
            k->gemm16(c, n, a, K, b, LDB, bias, m, n, K, true);
            for (size_t i = 0; i < m * n; i++)
                CHECK(memcmp(&c[i], c, sizeof *c) == 0, "%s %zu x %zu: (%zu, %zu) is %a, not %a",
                      k->name, m, n, i / n, i % n, c[i], c[0]);
        }
}

/* From floats to a product by every way there is: A rounded, or A^T rounded and turned; panels of
 * B, or of B^T. */
static void test_ways(const struct wisp_kernels *k, size_t m, size_t n, size_t depth)
{
    enum { MOST = 100, DEEP = 128 };
    static float xa[MOST * MOST], xat[MOST * MOST], xb[MOST * MOST], xbt[MOST * MOST];
    static uint16_t at[MOST * MOST], a[2][(MOST + 16) * DEEP];
    static uint32_t b[2][MOST / PANEL * DEEP / 2 * PANEL + DEEP / 2 * PANEL];
    static float c[2][MOST * MOST];
    size_t whole = up(depth, DEPTH), ldb = panel_words(depth);
    for (size_t p = 0; p < depth; p++) {
        for (size_t i = 0; i < m; i++) xa[i * depth + p] = xat[p * m + i] = test_randf(&seed);
        for (size_t j = 0; j < n; j++) xb[p * n + j] = xbt[j * depth + p] = test_randf(&seed);
    }
    memset(a, 0, sizeof a), memset(b, 255, sizeof b);
    for (size_t i = 0; i < m; i++) k->to16(a[0] + i * whole, xa + i * depth, depth);
    k->to16(at, xat, depth * m);
    k->turn16(a[1], whole, at, m, depth, m);
    k->pairs(b[0], ldb, xb, n, NULL, depth, up(depth, DEPTH), n);
    k->pairs_t(b[1], ldb, xbt, depth, depth, n);
    CHECK(memcmp(a[0], a[1], sizeof a[0]) == 0, "%s: A %zu x %zu", k->name, m, depth);
    CHECK(memcmp(b[0], b[1], sizeof b[0]) == 0, "%s: B %zu x %zu", k->name, depth, n);
    k->gemm16(c[0], n, a[1], whole, b[1], ldb, NULL, m, n, whole, false);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0, mass = 0;
            for (size_t p = 0; p < depth; p++) {
                double term = (double)xa[i * depth + p] * xb[p * n + j];
                sum += term, mass += fabs(term);
            }
            CHECK(fabs(c[0][i * n + j] - sum) <= mass / 128, "%s: %g, not %g", k->name,
                  c[0][i * n + j], sum); /* both factors within 1/512 */
        }
}

int main(void)
{
    TEST("bf16: every set this machine has");
    const size_t product = offsetof(struct wisp_kernels, gemm16);
    find_sets();
    make_arrays();
    for (size_t s = 1; s < n_sets; s++)
        CHECK(!sets[s].fast16 || sets[s].gemm16 != sets[0].gemm16,
              "%s: the plain product is called fast", sets[s].name);

    TEST("bf16: to16 rounds to nearest, ties to even; NaN and infinities stay");
    for (size_t s = 0; s < n_sets; s++) test_rounding(&sets[s]);
    for (size_t n = 0; n <= 100; n++) test_to16(n);
    for (size_t n = 127; n < 1100; n += 31) test_to16(n);
    TEST("bf16: denormals are rounded or become zeros of their sign");
    for (size_t s = 0; s < n_sets; s++)
        for (int i = 0; i < 20; i++) test_denormals(&sets[s]);

    TEST("bf16: from16, axpy16 = scalar bit for bit");
    for (size_t n = 0; n <= 100; n++) test_from16(n), test_axpy16(n);
    for (size_t n = 127; n < 1000; n += 61) test_from16(n), test_axpy16(n);
    TEST("bf16: axpy16 rounds at random and loses nothing on average");
    for (size_t s = 0; s < n_sets; s++)
        if (!as_before(s, offsetof(struct wisp_kernels, axpy16))) test_average(&sets[s]);
    TEST("bf16: bag16, dots16 = scalar = double precision, all lengths");
    for (size_t n = 0; n <= 100; n++)
        for (size_t count = 0; count < 24; count += 4 + n % 3) test_rows(n, count, n % 4);
    for (size_t n = 127; n < 1000; n += 43) test_rows(n, 13 + n % 7, n % 4);

    TEST("bf16: pairs, pairs16, pairs_t = scalar, all small sizes, filled up with zeros");
    for (size_t k = 0; k <= 100; k += k < 36 || (k + 2) % 32 < 3 ? 1 : 5)
        for (size_t n = 0; n < 36; n++) {
            size_t whole = n % 2 ? up(k, DEPTH) : up(k, 2) + 2 * (n % 5);
            test_pairs(k, whole, n, (k + n) % 3);
            test_pairs16(k, whole, n, (k + n) % 3);
            test_pairs_t(k, n, (k + n) % 3);
        }
    TEST("bf16: turn16 = scalar, all small sizes, filled up with zeros");
    for (size_t m = 0; m <= 100; m += m < 36 || (m + 2) % 32 < 3 ? 1 : 5)
        for (size_t n = 0; n < 36; n++) test_turn16(m, n, (m + n) % 3);

    TEST("bf16: gemm16 = scalar = double precision, with and without bias and add");
    test_gemms();
    TEST("bf16: gemm16 in pieces gives the bytes of the whole, NaN stays in its row and column");
    for (size_t s = 0; s < n_sets; s++)
        if (!as_before(s, product)) test_pieces(&sets[s]);
    TEST("bf16: an element is the same wherever in a tile it lies");
    for (size_t s = 0; s < n_sets; s++)
        if (!as_before(s, product)) test_places(&sets[s]);
    TEST("bf16: all ways to lay out a product lead to it");
    for (size_t s = 0; s < n_sets; s++)
        for (size_t i = 1; i <= 100; i += 9) test_ways(&sets[s], i, 101 - i, (i * 7) % 100 + 1);
    return test_end();
}

/* Bit errors: which bits, against a plain walk over all bits; how many; what numbers they leave in
 * weights and values of all types; and that threads do not matter. */
#include "test.h"
#include "base/bounds.h"
#include "base/mem.h"
#include "base/rand.h"
#include "graph/ids.h"
#include "model/inject.h"

#include <math.h>
#include <string.h>

enum { PIECE = WISP_FLIP_PIECE, MANY = 800 * PIECE + 3 };
static struct wisp_error err;

/* ---- which bits ---- */

/* The masks of all numbers, bit by bit: a right one uses up the distance to the next wrong one. */
static void walk(uint32_t *mask, const struct wisp_errors *e, uint64_t place, size_t n)
{
    const unsigned bits = (unsigned)wisp_memory_bits(e->type);
    const uint64_t stream = wisp_stream(WISP_STREAM_ERRORS, place);
    const uint64_t of_draw = wisp_rand(e->seed, stream, e->fixed ? 0 : e->draw + 1);
    double left = 0;
    uint64_t drawn = 0, seed = 0;
    memset(mask, 0, n * sizeof *mask);
    for (size_t i = 0; i < n * bits && e->rate > 0; i++) {
        const bool begins = i % ((size_t)PIECE * bits) == 0;
        if (begins) seed = wisp_rand(of_draw, stream, i / bits / PIECE), drawn = 0;
        if (begins) left = floor(log(wisp_rand_unit(seed, stream, drawn++)) / log1p(-e->rate));
        if (left-- > 0) continue;
        mask[i / bits] |= 1u << i % bits;
        left = floor(log(wisp_rand_unit(seed, stream, drawn++)) / log1p(-e->rate));
    }
}

static size_t collect(uint32_t *mask, const struct wisp_errors *e, uint64_t place, size_t n)
{
    size_t found = 0, last = 0;
    memset(mask, 0, n * sizeof *mask);
    for (size_t i = 0; i < wisp_parts(n, PIECE); i++) {
        struct wisp_flips f;
        struct wisp_flip one;
        wisp_flips_begin(&f, e, place, i, n);
        for (; wisp_flips_next(&one, &f); found += (size_t)__builtin_popcount(one.mask)) {
            CHECK(one.at < n && one.mask && (found == 0 || one.at > last), "%zu after %zu of %zu",
                  one.at, last, n);
            mask[last = one.at] = one.mask;
        }
    }
    return found;
}

static void test_bits(void)
{
    static const size_t sizes[] = { 1, 7, 1000, PIECE - 1, PIECE, 70 * PIECE + 5 };
    static const double rates[] = { 0, 1e-7, 1e-4, 1e-2, 0.3, 1 };
    uint32_t *a = malloc(MANY * sizeof *a), *b = malloc(MANY * sizeof *b);
    TEST("bits as a plain walk over all of them finds them");
    for (int type = 0; type < WISP_N_MEMORIES; type++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
                const struct wisp_errors e = {
                    .rate = rates[r], .type = (enum wisp_memory)type, .seed = 10 * s + r, .draw = s
                };
                const size_t n = sizes[s];
                walk(a, &e, r, n);
                const size_t found = collect(b, &e, r, n);
                CHECK(memcmp(a, b, n * sizeof *a) == 0, "type %d, %zu numbers, rate %g", type, n,
                      rates[r]);
                if (rates[r] == 0) CHECK(found == 0, "%zu bits at rate 0", found);
                if (rates[r] == 1)
                    CHECK(found == n * (size_t)wisp_memory_bits(e.type), "%zu bits at rate 1",
                          found);
            }
    TEST("as many as the rate says, of every bit, and others in every draw, place and seed");
    struct wisp_errors e = { .rate = 0.01, .type = WISP_MEMORY_FP32, .seed = 5 };
    const size_t n = MANY;
    const double mean = 0.01 * 32 * n, of_bit = 0.01 * n;
    size_t count = collect(a, &e, 3, n), each[32] = { 0 };
    CHECK(fabs((double)count - mean) < 5 * sqrt(mean), "%zu bits, expected %g", count, mean);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 32; k++) each[k] += a[i] >> k & 1;
    for (int k = 0; k < 32; k++)
        CHECK(fabs((double)each[k] - of_bit) < 5 * sqrt(of_bit), "%zu times bit %d", each[k], k);
    const struct wisp_errors others[] = { { .rate = 0.01, .seed = 6 },
                                          { .rate = 0.01, .seed = 5, .draw = 1 },
                                          { .rate = 0.01, .seed = 5 } };
    for (int k = 0; k < 3; k++) {
        size_t both = 0;
        collect(b, &others[k], k == 2 ? 4 : 3, n);
        for (size_t i = 0; i < n; i++) both += (size_t)__builtin_popcount(a[i] & b[i]);
        CHECK(fabs((double)both - mean * 0.01) < 6 * sqrt(mean * 0.01), "%zu bits in both, case %d",
              both, k);
    }
    TEST("weak bits are the same in every draw");
    e.fixed = true;
    collect(a, &e, 3, n);
    e.draw = 17;
    collect(b, &e, 3, n);
    CHECK(memcmp(a, b, n * sizeof *a) == 0, "others in another draw");
    e.seed++;
    collect(b, &e, 3, n);
    CHECK(memcmp(a, b, n * sizeof *a) != 0, "the same with another seed");
    free(a), free(b);
}

/* ---- numbers ---- */

static void test_numbers(void)
{
    TEST("what a number becomes");
    CHECK(wisp_flipped(WISP_MEMORY_FP32, 1.5f, 1u << 31, 0) == -1.5f, "the sign");
    CHECK(isinf(wisp_flipped(WISP_MEMORY_FP32, 1, 1u << 30, 0)), "the top of the exponent of 1");
    CHECK(isnan(wisp_flipped(WISP_MEMORY_FP32, 1.5f, 1u << 30, 0)), "and of 1.5");
    CHECK(wisp_flipped(WISP_MEMORY_FP32, 1, 1, 0) == 1 + 0x1p-23f, "the last bit");
    CHECK(wisp_flipped(WISP_MEMORY_BF16, 1.001f, 1, 0) == 1 + 0x1p-7f, "rounded, and the last bit");
    CHECK(wisp_flipped(WISP_MEMORY_BF16, 0.25f, 1 << 15, 0) == -0.25f, "the sign of a half");
    CHECK(wisp_flipped(WISP_MEMORY_INT8, 0.5f, 0, 0.01f) == 50 * 0.01f, "an integer");
    CHECK(wisp_flipped(WISP_MEMORY_INT8, 0.5f, 0x80, 0.01f) == (50 - 128) * 0.01f, "its sign bit");
    CHECK(wisp_flipped(WISP_MEMORY_INT8, 9, 0, 0.01f) == 127 * 0.01f, "no more than 127");
    CHECK(wisp_flipped(WISP_MEMORY_INT8, 9, 0, 0) == 0, "a row of zeros");
    TEST("matrices have errors; a row or a column of numbers, and what is not trained, have none");
    static const struct {
        size_t rows, cols;
        enum wisp_role role;
        bool has;
    } params[] = { { 2, 2, WISP_TRAINED, true },
                   { 1, 2, WISP_TRAINED, false },
                   { 2, 1, WISP_TRAINED, false },
                   { 2, 2, WISP_STATE, false } };
    for (size_t i = 0; i < sizeof params / sizeof *params; i++) {
        const struct wisp_param p = { .rows = params[i].rows,
                                      .cols = params[i].cols,
                                      .role = params[i].role };
        CHECK(wisp_errors_in(&p) == params[i].has, "parameter %zu", i);
    }
    TEST("guards");
    CHECK(wisp_guarded(WISP_GUARD_OFF, 9, 1) == 9 && wisp_guarded(WISP_GUARD_ZERO, 1, 1) == 1,
          "none, and within");
    CHECK(wisp_guarded(WISP_GUARD_ZERO, -2, 1) == 0 && wisp_guarded(WISP_GUARD_CLIP, -2, 1) == -1 &&
              wisp_guarded(WISP_GUARD_CLIP, INFINITY, 3) == 3,
          "beyond");
    CHECK(wisp_guarded(WISP_GUARD_CLIP, NAN, 1) == 0 && wisp_guarded(WISP_GUARD_ZERO, NAN, 1) == 0,
          "none at all");
    TEST("the largest number of a tensor is within its guard in every type");
    for (int i = 1; i < 2000; i++) {
        const float x = 1 + (float)i / 977;
        for (int type = 0; type < WISP_N_MEMORIES; type++)
            CHECK(wisp_flipped((enum wisp_memory)type, x, 0, wisp_memory_scale(x)) <=
                      wisp_guard_limit((enum wisp_memory)type, x),
                  "%g, type %d", (double)x, type);
    }
}

/* ---- a parameter ---- */

static void read_back(struct wisp_misread *out, const struct wisp_param *p,
                      const struct wisp_errors *e, struct wisp_pool *pool)
{
    CHECK(wisp_errors_read(out, p, 2, e, pool, &err) == WISP_OK, "%s", err.text);
}

/* As the plain loop over numbers has it. */
static void check_floats(const struct wisp_param *p, const struct wisp_errors *e, const float *got,
                         const uint32_t *mask)
{
    const float limit = wisp_guard_limit(e->type, wisp_largest(p->w, p->n));
    size_t bad = 0, at, n;
    for (size_t r = 0; r < p->rows; r++) {
        at = wisp_param_row(p, r, &n);
        const float scale = wisp_memory_scale(wisp_largest(p->w + at, n));
        for (size_t i = at; i < at + n; i++) {
            float x = wisp_flipped(e->type, p->w[i], mask[i], scale);
            if (mask[i]) x = wisp_guarded(e->guard, x, limit);
            bad += memcmp(&x, &got[i], sizeof x) != 0;
        }
    }
    CHECK(bad == 0, "%zu of %zu numbers differ, type %d, guard %d", bad, p->n, e->type, e->guard);
}

static void test_param(void)
{
    enum { ROWS = 300, COLS = 257, N = ROWS * COLS };
    struct wisp_pool *pool;
    float *w = malloc(N * sizeof *w);
    uint32_t *mask = malloc(N * sizeof *mask);
    uint64_t s = 9;
    int64_t start[ROWS + 1];
    CHECK(wisp_pool_create(&pool, 3, &err) == WISP_OK, "%s", err.text);
    for (size_t i = 0; i < N; i++) w[i] = test_randf(&s) * (i / COLS == 7 ? 0 : 2);
    for (size_t r = 0; r <= ROWS; r++)
        start[r] = (int64_t)(r * COLS + (r > 0 && r < ROWS ? r % 5 : 0));
    for (int ragged = 0; ragged < 2; ragged++) {
        TEST(ragged ? "rows of different lengths" : "weights, by any number of threads");
        const struct wisp_param p = {
            .rows = ROWS, .cols = COLS, .n = N, .w = w, .start = ragged ? start : NULL
        };
        for (int type = 0; type < WISP_N_MEMORIES; type++)
            for (int g = 0; g < WISP_N_GUARDS; g++) {
                const struct wisp_errors e = { .rate = 0.01,
                                               .type = (enum wisp_memory)type,
                                               .guard = (enum wisp_guard)g,
                                               .seed = 3 };
                struct wisp_misread a, b;
                read_back(&a, &p, &e, pool);
                read_back(&b, &p, &e, NULL);
                const size_t bits = collect(mask, &e, 2, N);
                CHECK(memcmp(a.numbers, b.numbers, N * sizeof *w) == 0, "threads matter");
                CHECK(a.bits == bits && b.bits == bits, "%zu bits, expected %zu", a.bits, bits);
                check_floats(&p, &e, a.numbers, mask);
                size_t odd = 0, first = SIZE_MAX;
                for (size_t i = N; i-- > 0;)
                    if (!isfinite(((float *)a.numbers)[i])) odd++, first = i;
                CHECK(a.odd == odd && a.odd_at == first, "%zu numbers are none, said %zu", odd,
                      a.odd);
                CHECK((odd > 0) == (g == WISP_GUARD_OFF && type != WISP_MEMORY_INT8),
                      "%zu are none", odd);
                wisp_free(a.numbers), wisp_free(b.numbers);
            }
    }
    wisp_pool_free(pool);
    free(w), free(mask);
}

/* Weights that are narrow in the model: their own bits. */
static void test_narrow(void)
{
    enum { ROWS = 40, COLS = 100, N = ROWS * COLS };
    static uint16_t half[N];
    static int8_t byte[N];
    static float scale[ROWS];
    static uint32_t mask[N];
    uint64_t s = 11;
    for (size_t i = 0; i < N; i++) half[i] = wisp_round16(test_randf(&s));
    for (size_t i = 0; i < N; i++) byte[i] = (int8_t)(test_rand(&s) % 255 - 127);
    for (size_t r = 0; r < ROWS; r++) scale[r] = 0.01f * (float)(r + 1);
    const struct wisp_param p16 = { .rows = ROWS, .cols = COLS, .n = N, .b16 = half };
    const struct wisp_param p8 = { .rows = ROWS, .cols = COLS, .n = N, .i8 = byte, .scale = scale };
    TEST("weights of bf16 and int8");
    CHECK(wisp_param_memory(&p16, WISP_MEMORY_FP32) == WISP_MEMORY_BF16 &&
              wisp_param_memory(&p8, WISP_MEMORY_FP32) == WISP_MEMORY_INT8,
          "their own type");
    struct wisp_errors e = { .rate = 0.02, .type = WISP_MEMORY_BF16, .seed = 8 };
    struct wisp_misread m;
    read_back(&m, &p16, &e, NULL);
    collect(mask, &e, 2, N);
    for (size_t i = 0; i < N; i++)
        CHECK(((uint16_t *)m.numbers)[i] == (half[i] ^ mask[i]), "half %zu", i);
    wisp_free(m.numbers);
    e.guard = WISP_GUARD_ZERO;
    read_back(&m, &p16, &e, NULL);
    for (size_t i = 0; i < N; i++)
        CHECK((((uint16_t *)m.numbers)[i] & 0x7fff) <= 0x3f80, "half %zu", i);
    CHECK(m.odd == 0, "%zu are none", m.odd);
    wisp_free(m.numbers);
    e.guard = WISP_GUARD_OFF, e.type = WISP_MEMORY_INT8;
    read_back(&m, &p8, &e, NULL);
    collect(mask, &e, 2, N);
    for (size_t i = 0; i < N; i++)
        CHECK(((int8_t *)m.numbers)[i] == (int8_t)((uint8_t)byte[i] ^ mask[i]), "byte %zu", i);
    CHECK(m.odd == 0 && m.bits > 0, "%zu are none of %zu", m.odd, m.bits);
    wisp_free(m.numbers);
}

/* ---- a value ---- */

static void test_value(void)
{
    enum { CHANNELS = 21, PIXELS = 30, UNITS = CHANNELS * PIXELS, FLOATS = 2 * 16 * PIXELS };
    static float flat[UNITS], planes[FLOATS];
    uint64_t s = 4;
    TEST("values, flat and in planes");
    for (int type = 0; type < WISP_N_MEMORIES; type++) {
        const struct wisp_errors e = { .rate = 0.02,
                                       .type = (enum wisp_memory)type,
                                       .guard = WISP_GUARD_CLIP,
                                       .seed = 2,
                                       .draw = 77 };
        memset(planes, 0, sizeof planes);
        for (size_t c = 0; c < CHANNELS; c++)
            for (size_t i = 0; i < PIXELS; i++)
                planes[(c / 16 * PIXELS + i) * 16 + c % 16] = flat[c * PIXELS + i] = test_randf(&s);
        const size_t a = wisp_errors_in_value(flat, UNITS, 0, 9, &e, 0.9f),
                     b = wisp_errors_in_value(planes, UNITS, PIXELS, 9, &e, 0.9f);
        CHECK(a == b && a > 0, "%zu and %zu bits", a, b);
        for (size_t c = 0; c < CHANNELS; c++)
            for (size_t i = 0; i < PIXELS; i++)
                CHECK(planes[(c / 16 * PIXELS + i) * 16 + c % 16] == flat[c * PIXELS + i],
                      "channel %zu, pixel %zu", c, i);
        for (size_t c = CHANNELS; c < 32; c++)
            for (size_t i = 0; i < PIXELS; i++)
                CHECK(planes[(PIXELS + i) * 16 + c - 16] == 0, "an error beside the channels");
    }
}

int main(void)
{
    test_bits();
    test_numbers();
    test_param();
    test_narrow();
    test_value();
    TEST("nothing is left");
    CHECK(wisp_mem_live == 0, "%ld blocks", (long)wisp_mem_live);
    return test_end();
}

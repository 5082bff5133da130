/* The kernels of int8 and of rows of few values, of every instruction set of this machine against the scalar form (guarded.h),
 * and the scalar form against double precision.
 *
 * Bytes lie at the end of their array of floats: what is unused of the first float stands in
 * front, where writing is seen, and the last byte is next to the page that cannot be touched. */
#include "guarded.h"
#include "kernels/codes.h"

/* Arrays: 0 out, 1 rows of int8, 2 ids, 3 values or vector, 4 scales. */
enum { ROWS = 13, OUT = 0, TABLE, IDS, VALUES, SCALES };

static size_t front(size_t n)
{
    return -n % sizeof(float);
}
static int8_t *bytes(float *x, size_t n)
{
    return (int8_t *)x + front(n);
}
static int8_t get_byte(const float *x, size_t n, size_t at)
{
    int8_t b;
    memcpy(&b, (const char *)x + front(n) + at, 1);
    return b;
}
/* Elements of the table, whose last row has no gap. */
static size_t extent(size_t n, size_t gap)
{
    return (ROWS - 1) * (n + gap) + n;
}

/* Array i of the next case: n bytes, all values, the same bits wanted. */
static float *fill_bytes(int i, size_t n)
{
    float *x = fill(i, (n + sizeof *x - 1) / sizeof *x);
    for (size_t j = 0; j < n; j++) {
        int8_t b = (int8_t)(test_rand(&seed) >> 56);
        if (j % 17 == 3) b = j % 2 ? -128 : 127;
        memcpy((char *)x + front(n) + j, &b, 1);
    }
    for (size_t j = 0; j < arrays[i].n; j++) arrays[i].mass[j] = -1;
    return x;
}

CALL(from8)
{
    k->from8(x[OUT], bytes(x[TABLE], c->n), 0.037f * (float)c->m, c->n);
}
CALL(bag8)
{
    size_t ld = c->n + c->gap;
    k->bag8(x[OUT], bytes(x[TABLE], extent(c->n, c->gap)), x[SCALES], ld, (const int32_t *)x[IDS],
            x[VALUES], c->k, c->n);
}
CALL(dots8)
{
    size_t ld = c->n + c->gap;
    k->dots8(x[OUT], bytes(x[TABLE], extent(c->n, c->gap)), x[SCALES], ld, (const int32_t *)x[IDS],
             c->k, x[VALUES], c->n);
}

static void test_from8(size_t n, size_t times)
{
    float *x;
    fill(OUT, n), x = fill_bytes(TABLE, n);
    for (size_t i = 0; i < n; i++) arrays[OUT].mass[i] = -1;
    check_case(&(struct call){ .name = "from8", .fn = from8, ENTRY(from8), .m = times, .n = n });
    for (size_t i = 0; i < n; i++)
        CHECK(arrays[OUT].want[i] == 0.037f * (float)times * (float)get_byte(x, n, i), "[%zu]", i);
}

static int32_t id_at(size_t i)
{
    int32_t id;
    memcpy(&id, &arrays[IDS].init[i], sizeof id);
    return id;
}

static void fill_table(size_t n, size_t gap, size_t n_ids)
{
    fill_bytes(TABLE, extent(n, gap));
    float *ids = fill(IDS, n_ids), *scales = fill(SCALES, ROWS);
    for (size_t i = 0; i < n_ids; i++) {
        int32_t id = (int32_t)(i == n_ids / 2 ? ROWS - 1 : test_rand(&seed) % ROWS);
        memcpy(&ids[i], &id, sizeof id);
    }
    for (size_t r = 0; r < ROWS; r++) scales[r] = r % 5 == 4 ? 0 : fabsf(scales[r]) / 127;
}

static double term(size_t id, size_t j, size_t n, size_t gap, double x)
{
    int8_t q = get_byte(arrays[TABLE].init, extent(n, gap), id * (n + gap) + j);
    return x * arrays[SCALES].init[id] * q;
}

static void test_rows(size_t n, size_t count, size_t gap)
{
    struct call c = {
        .name = "bag8", .fn = bag8, ENTRY(bag8), .m = ROWS, .n = n, .k = count, .gap = gap
    };
    double sum[1001] = { 0 };
    float *out = fill(OUT, n);
    fill_table(n, gap, count);
    float *x = fill(VALUES, count);
    for (size_t j = 0; j < n; j++) {
        sum[j] = out[j], arrays[OUT].mass[j] = fabsf(out[j]);
        for (size_t i = 0; i < count; i++) {
            double t = term((size_t)id_at(i), j, n, gap, x[i]);
            sum[j] += t, arrays[OUT].mass[j] += (float)fabs(t);
        }
    }
    check_case(&c);
    for (size_t j = 0; j < n; j++)
        CHECK(fabs(arrays[OUT].want[j] - sum[j]) <= 2e-6 * arrays[OUT].mass[j], "bag8 [%zu]", j);

    c.name = "dots8", c.fn = dots8, c.entry = offsetof(struct wisp_kernels, dots8);
    fill(OUT, count);
    x = fill(VALUES, n);
    for (size_t i = 0; i < count; i++) {
        sum[i] = 0, arrays[OUT].mass[i] = 1e-30f; /* a scale of 0 gives 0 of either sign */
        for (size_t j = 0; j < n; j++) {
            double t = term((size_t)id_at(i), j, n, gap, x[j]);
            sum[i] += t, arrays[OUT].mass[i] += (float)fabs(t);
        }
    }
    check_case(&c);
    for (size_t i = 0; i < count; i++)
        CHECK(fabs(arrays[OUT].want[i] - sum[i]) <= 2e-6 * arrays[OUT].mass[i], "dots8 [%zu]", i);
}

/* ---- numbers of values (kernels/codes.h) ---- */

CALL(from_codes)
{
    const int bits = (int)c->m;
    k->from_codes(x[OUT], (const uint8_t *)x[TABLE], bits, x[VALUES], -1.7f, c->n);
}

static void test_codes(int bits, size_t n)
{
    const size_t values = wisp_codes_values(bits);
    float *value, *row;
    fill(OUT, n), value = fill(VALUES, values);
    row = fill_bytes(TABLE, wisp_codes_bytes(bits, n)); /* a multiple of 4 */
    for (size_t i = 0; i < n; i++) arrays[OUT].mass[i] = -1;
    check_case(&(struct call){
        .name = "from_codes", .fn = from_codes, ENTRY(from_codes), .m = (size_t)bits, .n = n });
    for (size_t i = 0; i < n; i++)
        CHECK(arrays[OUT].want[i] == -1.7f * value[wisp_codes_at((const uint8_t *)row, bits, i)],
              "[%zu]", i);
}

/* What is put comes back, and nothing else changes. */
static void test_packing(int bits, size_t n)
{
    uint8_t row[600] = { 0 };
    unsigned want[700];
    for (size_t i = 0; i < n; i++) {
        want[i] = (unsigned)(test_rand(&seed) >> (64 - bits));
        wisp_codes_put(row, bits, i, want[i]);
    }
    for (size_t i = 0; i < n; i++)
        CHECK(wisp_codes_at(row, bits, i) == want[i], "%d bits, %zu of %zu", bits, i, n);
    for (size_t i = wisp_codes_bytes(bits, n); i < sizeof row; i++) CHECK(row[i] == 0, "[%zu]", i);
}

int main(void)
{
    TEST("int8: every set this machine has");
    find_sets();
    make_arrays();
    TEST("int8: from8 = scalar bit for bit");
    for (size_t n = 0; n <= 100; n++) test_from8(n, n % 3);
    for (size_t n = 127; n < 1000; n += 61) test_from8(n, 1);
    TEST("int8: bag8, dots8 = scalar = double precision, all lengths");
    for (size_t n = 0; n <= 100; n++)
        for (size_t count = 0; count < 24; count += 4 + n % 3) test_rows(n, count, n % 4);
    for (size_t n = 127; n < 1000; n += 43) test_rows(n, 13 + n % 7, n % 4);
    TEST("codes: what is put comes back");
    for (size_t n = 1; n < 700; n += 1 + n / 9) test_packing(4, n), test_packing(6, n);
    TEST("codes: from_codes = scalar bit for bit");
    for (size_t n = 0; n <= 200; n++) test_codes(4, n), test_codes(6, n);
    for (size_t n = 255; n < 1000; n += 61) test_codes(4, n), test_codes(6, n);
    return test_end();
}

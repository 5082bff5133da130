/* Kernels on blocks of 16 channels, batch norm and max pooling: every instruction set of this machine
 * against the scalar form.  Products of few rows against gemm of the same set. */
#include "base/error.h"
#include "kernels/kernels.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 16, MOST = 40 };

static struct wisp_error err;
static struct wisp_kernels plain;
static uint64_t seed = 3;

static float *numbers(size_t n)
{
    float *x = malloc((n + 1) * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = test_randf(&seed);
    return x;
}

static float *copy(const float *x, size_t n)
{
    float *y = malloc((n + 1) * sizeof *y);
    memcpy(y, x, n * sizeof *y);
    return y;
}

static void same(const float *a, const float *b, size_t n, float off, const char *what,
                 const char *set)
{
    for (size_t i = 0; i < n; i++)
        CHECK(a[i] == b[i] || (isnan(a[i]) && isnan(b[i])) || fabsf(a[i] - b[i]) <= off,
              "%s %s: number %zu is %g, expected %g", set, what, i, (double)b[i], (double)a[i]);
}

/* ---- batch norm ---- */

static void check_moments(const struct wisp_kernels *k, size_t n)
{
    float *x = numbers(n * BLOCK), *from = numbers(BLOCK), sums[4][BLOCK];
    for (size_t c = 0; c < BLOCK; c++)
        for (size_t i = 0; i < 4; i++) sums[i][c] = (float)c;
    plain.norm_moments(sums[0], sums[1], x, from, n);
    k->norm_moments(sums[2], sums[3], x, from, n);
    same(sums[0], sums[2], BLOCK, 1e-5f * (float)(n + 1), "sums of x", k->name);
    same(sums[1], sums[3], BLOCK, 1e-5f * (float)(n + 1), "sums of squares", k->name);
    free(x);
    free(from);
}

/* A pixel whose y is so near 0 that rounding decides whether the ReLU lets it pass has no gradient
 * to compare: there are none. */
static void push_away(float *x, const struct wisp_norm *b)
{
    for (size_t i = 0; i < b->n * BLOCK; i++) {
        const size_t c = i % BLOCK;
        if (fabsf((x[i] - b->mean[c]) * b->scale[c] + b->shift[c]) < 1e-5f) x[i] += 0.01f;
    }
}

static void check_norm(const struct wisp_kernels *k, size_t n, bool relu, bool in_place)
{
    float *of[6], *x = numbers(n * BLOCK), *gy = numbers(n * BLOCK), *y[2], *gx[2], sums[4][BLOCK];
    for (int i = 0; i < 6; i++) of[i] = numbers(BLOCK);
    memset(sums, 0, sizeof sums);
    struct wisp_norm b = { .n = n,
                           .x = x,
                           .mean = of[0],
                           .scale = of[1],
                           .shift = of[2],
                           .relu = relu,
                           .times = of[3],
                           .slope = of[4],
                           .rest = of[5] };
    push_away(x, &b);
    if (n > 2) x[BLOCK + 3] = NAN;
    for (int i = 0; i < 2; i++) {
        const struct wisp_kernels *use = i ? k : &plain;
        y[i] = numbers(n * BLOCK), gx[i] = in_place ? copy(gy, n * BLOCK) : numbers(n * BLOCK);
        b.y = y[i], b.gx = gx[i], b.gy = in_place ? gx[i] : gy;
        b.sum = sums[2 * i], b.dot = sums[2 * i + 1];
        use->norm(&b);
        use->norm_sums(&b);
        use->norm_back(&b);
    }
    same(y[0], y[1], n * BLOCK, 1e-5f, "norm", k->name);
    same(gx[0], gx[1], n * BLOCK, 1e-5f, "gradient of a norm", k->name);
    same(sums[0], sums[2], BLOCK, 1e-5f * (float)(n + 1), "sums of g", k->name);
    same(sums[1], sums[3], BLOCK, 1e-5f * (float)(n + 1), "sums of g x", k->name);
    for (size_t i = 0; i < n * BLOCK && relu; i++)
        CHECK(!(y[1][i] < 0), "%s: %g behind a ReLU", k->name, (double)y[1][i]);
    CHECK(n < 3 || isnan(y[1][BLOCK + 3]), "%s: a NaN is lost", k->name);
    for (int i = 0; i < 6; i++) free(of[i]);
    for (int i = 0; i < 2; i++) free(y[i]), free(gx[i]);
    free(x), free(gy);
}

/* ---- pooling ---- */

static void check_pool(const struct wisp_kernels *k, size_t n, size_t rows, size_t cols,
                       size_t stride, bool relu)
{
    const size_t wide = (n - 1) * stride + cols, floats = rows * wide * BLOCK;
    float *x = numbers(floats), *gy = numbers(n * BLOCK), *y[2], *gx[2];
    uint8_t place[2][MOST * BLOCK];
    for (size_t i = 0; i < floats; i += 3) x[i] = (float)((int)i % 5 - 2); /* several are largest */
    x[floats - 1] = NAN, x[5] = -INFINITY;
    struct wisp_maxpool p = { .n = n,
                              .rows = rows,
                              .cols = cols,
                              .apart = cols + 1,
                              .x = x,
                              .gy = gy,
                              .row = wide * BLOCK,
                              .next = stride * BLOCK,
                              .relu = relu,
                              .add = stride < cols };
    for (int i = 0; i < 2; i++) {
        const struct wisp_kernels *use = i ? k : &plain;
        y[i] = numbers(n * BLOCK), gx[i] = calloc(floats, sizeof *gx[i]);
        p.y = y[i], p.gx = gx[i], p.place = place[i];
        use->maxpool(&p);
        use->maxpool_back(&p);
    }
    same(y[0], y[1], n * BLOCK, 0, "pool", k->name);
    same(gx[0], gx[1], floats, 0, "gradient of a pool", k->name);
    CHECK(memcmp(place[0], place[1], n * BLOCK) == 0, "%s: other places", k->name);
    CHECK(isnan(y[1][n * BLOCK - 1]), "%s: a NaN is not the largest", k->name);
    for (size_t i = 0; i < n * BLOCK && relu; i++)
        CHECK((place[1][i] == WISP_NO_PLACE) == !(y[1][i] > 0), "%s: place %d of %g", k->name,
              place[1][i], (double)y[1][i]);
    p.place = NULL;
    k->maxpool(&p);
    same(y[0], y[1], n * BLOCK, 0, "pool without places", k->name);
    for (int i = 0; i < 2; i++) free(y[i]), free(gx[i]);
    free(x), free(gy);
}

/* ---- products of few rows ---- */

static void check_few(const struct wisp_kernels *k, size_t m, size_t n, size_t depth)
{
    const size_t lda = depth + 3, ldb = n + 5, ldc = n + 2;
    float *a = numbers(m * lda), *b = numbers(depth * ldb), *c = numbers(m * ldc),
          *same_c = copy(c, m * ldc);
    k->gemm(same_c, ldc, a, lda, 1, b, ldb, m, n, depth, true);
    k->gemm_few(c, ldc, a, lda, b, ldb, m, n, depth);
    CHECK(memcmp(c, same_c, m * ldc * sizeof *c) == 0, "%s: %zu x %zu x %zu is not what gemm makes",
          k->name, m, n, depth);
    free(a), free(b), free(c), free(same_c);
}

/* Rows of B that meet zeros alone need not be read. */
static void check_live(const struct wisp_kernels *k, size_t m, size_t n, size_t depth)
{
    const size_t lda = depth + 3, ldb = n + 5, ldc = n + 2;
    float *a = numbers(m * lda), *b = numbers(depth * ldb), *c = numbers(m * ldc),
          *same_c = copy(c, m * ldc);
    int32_t *live = calloc(depth + 1, sizeof *live);
    size_t found = 0;
    for (size_t p = 0; p < depth; p++) {
        if (test_rand(&seed) % 3 == 0) live[found++] = (int32_t)p;
        else
            for (size_t i = 0; i < m; i++) a[i * lda + p] = 0;
    }
    k->gemm(same_c, ldc, a, lda, 1, b, ldb, m, n, depth, true);
    for (size_t p = 0, q = 0; p < depth; p++) {
        if (q < found && live[q] == (int32_t)p) q++;
        else b[p * ldb] = NAN;
    }
    k->gemm_live(c, ldc, a, lda, b, ldb, live, m, n, found);
    CHECK(memcmp(c, same_c, m * ldc * sizeof *c) == 0,
          "%s: %zu x %zu x %zu of %zu is not what gemm makes", k->name, m, n, found, depth);
    free(a), free(b), free(c), free(same_c), free(live);
}

static void check_back(const struct wisp_kernels *k, size_t m, size_t n, size_t rows)
{
    const size_t gy_row = n + 3, w_row = n + 5, x_row = rows + 2;
    float *gy = numbers(m * gy_row), *w = numbers(rows * w_row), *x = numbers(m * x_row),
          *gx = numbers(m * x_row), *gw = numbers(rows * n), *same_gx = copy(gx, m * x_row),
          *same_gw = numbers(rows * n);
    struct wisp_back t = { .m = m,
                           .n = n,
                           .rows = rows,
                           .gy = gy,
                           .w = w,
                           .x = x,
                           .gy_row = gy_row,
                           .w_row = w_row,
                           .x_row = x_row,
                           .gx = gx,
                           .gw = gw,
                           .soon = { rows > 1 ? w : NULL, NULL } };
    for (size_t i = 0; i < m; i++)
        for (size_t r = 0; r < rows; r++)
            same_gx[i * x_row + r] = plain.dot(gy + i * gy_row, w + r * w_row, n);
    k->gemm(same_gw, n, x, 1, x_row, gy, gy_row, rows, n, m, false);
    k->back_few(&t);
    same(same_gx, gx, m * x_row, 1e-6f * (float)(n + 1), "gradient of a row's values", k->name);
    CHECK(memcmp(gw, same_gw, rows * n * sizeof *gw) == 0,
          "%s: the gradient of %zu x %zu weights is not what gemm makes", k->name, rows, n);
    t.gx = NULL; /* nobody wants it */
    k->back_few(&t);
    CHECK(memcmp(gw, same_gw, rows * n * sizeof *gw) == 0, "%s: weights' gradient alone", k->name);
    free(gy), free(w), free(x), free(gx), free(gw), free(same_gx), free(same_gw);
}

static void check_set(const struct wisp_kernels *k, char name[100])
{
    snprintf(name, 100, "blocks: %s: norm, pooling, few rows as in plain C", k->name);
    TEST(name);
    for (size_t n = 0; n < MOST; n++) {
        check_moments(k, n);
        for (int form = 0; form < 4; form++) check_norm(k, n, form & 1, form & 2);
    }
    for (size_t m = 1; m <= 16; m += m < 4 ? 1 : 3)
        for (size_t n = 16; n <= 2100; n = 3 * n / 32 * 16 + 16)
            for (size_t depth = 0; depth < 600; depth = 2 * depth + 3)
                check_few(k, m, n, depth), check_live(k, m, n, depth);
    for (size_t m = 1; m <= WISP_BACK_SAMPLES; m++)
        for (size_t n = 16; n <= 300; n += n < 64 ? 16 : 112)
            for (size_t rows = 1; rows <= WISP_BACK_ROWS; rows++) check_back(k, m, n, rows);
    for (size_t n = 1; n < 9; n++)
        for (size_t rows = 1; rows < 5; rows++)
            for (size_t cols = 1; cols < 5; cols++)
                for (size_t stride = 1; stride < 5; stride++)
                    check_pool(k, n, rows, cols, stride, (n + rows + cols + stride) % 2);
}

int main(void)
{
    const char *name;
    static char names[8][100];
    struct wisp_kernels k;
    CHECK(wisp_kernels_select(&plain, "scalar", &err) == WISP_OK, "%s", err.text);
    for (size_t i = 0; (name = wisp_kernels_isa(i, NULL)); i++)
        if (wisp_kernels_select(&k, name, &err) == WISP_OK) check_set(&k, names[i % 8]);
    return test_end();
}

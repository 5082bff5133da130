/* Kernels of convolutions, every instruction set of this machine against the scalar form, between
 * pages that cannot be touched (guarded.h). */
#include "guarded.h"

enum { MOST = 3, BLOCK = 16 };

/* The case at hand, beside what struct call says: m rows, n products of k, gaps between rows. */
static size_t blocks, a_at[MOST], b_at[MOST];
static bool with_relu;

static size_t a_floats(const struct call *c) /* of one product */
{
    return c->transposed ? c->k * (c->m + c->gap) : c->m * (c->k + c->gap);
}

static struct wisp_tiles sum_of(float *const x[], const struct call *c)
{
    const size_t lda = (c->transposed ? c->m : c->k) + c->gap, ld = BLOCK + c->gap;
    return (struct wisp_tiles){ .m = c->m,
                                .blocks = blocks,
                                .k = c->k,
                                .n = c->n,
                                .a = x[1],
                                .ras = c->transposed ? 1 : lda,
                                .cas = c->transposed ? lda : 1,
                                .b = x[2],
                                .ldb = ld,
                                .b_block = c->n * c->k * ld,
                                .a_at = a_at,
                                .b_at = b_at,
                                .c = x[0],
                                .ldc = ld,
                                .c_block = c->m * ld,
                                .bias = c->more ? x[3] : NULL,
                                .add = c->add,
                                .relu = with_relu };
}

CALL(tiles)
{
    const struct wisp_tiles t = sum_of(x, c);
    k->tiles(&t);
}

static void test_sum(const struct call *c)
{
    fill_rows(0, blocks * c->m, BLOCK, c->gap);
    fill_rows(1, c->n * (c->transposed ? c->k : c->m), c->transposed ? c->m : c->k, c->gap);
    fill_rows(2, blocks * c->n * c->k, BLOCK, c->gap);
    fill(3, blocks * BLOCK);
    for (size_t i = 0; i < c->n; i++) { /* the last is the first of B */
        a_at[i] = i * a_floats(c);
        b_at[i] = (c->n - 1 - i) * c->k * (BLOCK + c->gap);
    }
    float *const x[] = { arrays[0].init, arrays[1].init, arrays[2].init, arrays[3].init };
    const struct wisp_tiles t = sum_of(x, c);
    for (size_t v = 0; v < blocks; v++)
        for (size_t r = 0; r < c->m; r++)
            for (size_t j = 0; j < BLOCK; j++) {
                const size_t at = v * t.c_block + r * t.ldc + j;
                float mass = fabsf(x[0][at]) + fabsf(x[3][v * BLOCK + j]);
                for (size_t i = 0; i < c->n; i++)
                    for (size_t p = 0; p < c->k; p++)
                        mass += fabsf(t.a[a_at[i] + r * t.ras + p * t.cas] *
                                      t.b[b_at[i] + v * t.b_block + p * t.ldb + j]);
                arrays[0].mass[at] = mass;
            }
    check_case(c);
}

static void test_sums(void)
{
    for (size_t m = 1; m <= 33; m++)
        for (size_t form = 0; form < 32; form++) {
            blocks = 1 + (m + form) % 5;
            with_relu = form & 8;
            test_sum(&(struct call){ .name = "tiles",
                                     .fn = tiles,
                                     ENTRY(tiles),
                                     .m = m,
                                     .k = form % 3 ? BLOCK : 1 + (m * 5 + form) % 11,
                                     .n = (m + form / 5) % (MOST + 1),
                                     .gap = form & 1 ? 3 : 0,
                                     .transposed = form & 2,
                                     .add = form & 4,
                                     .more = form & 16 });
        }
}

/* max(., 0) must not hide a NaN, and infinities stay in their row. */
static void test_nan(const struct wisp_kernels *k)
{
    enum { M = 15, K = 4 };
    float a[M * K], b[K * 2 * BLOCK], c[2 * M * BLOCK];
    for (size_t i = 0; i < M * K; i++) a[i] = 1;
    for (size_t i = 0; i < K * 2 * BLOCK; i++) b[i] = -1;
    a[3 * K + 1] = NAN, a[7 * K] = -INFINITY;
    const struct wisp_tiles t = { .m = M,
                                  .blocks = 2,
                                  .k = K,
                                  .n = 1,
                                  .a = a,
                                  .ras = K,
                                  .cas = 1,
                                  .b = b,
                                  .ldb = BLOCK,
                                  .b_block = K * BLOCK,
                                  .a_at = a_at,
                                  .b_at = b_at,
                                  .c = c,
                                  .ldc = BLOCK,
                                  .c_block = M * BLOCK,
                                  .relu = true };
    a_at[0] = b_at[0] = 0;
    k->tiles(&t);
    for (size_t i = 0; i < 2 * M * BLOCK; i++) {
        const size_t row = i / BLOCK % M;
        CHECK(row == 3   ? isnan(c[i])
              : row == 7 ? isinf(c[i])
                         : c[i] == 0,
              "%s: row %zu is %g", k->name, row, (double)c[i]);
    }
}

/* ---- Winograd's transforms ---- */

static enum wisp_winograd which;
static const size_t of_from[] = { 6, 6, 4, 3, 6, 6, 2, 5, 6 },
                    of_to[] = { 6, 4, 6, 6, 3, 2, 6, 6, 5 };

CALL(winograd)
{
    const size_t ld = BLOCK + c->gap;
    uint64_t live = 0, want = 0;
    const struct wisp_transform t = { which,
                                      x[0],
                                      of_to[which] * ld,
                                      ld,
                                      x[1],
                                      of_from[which] * ld,
                                      ld,
                                      c->more ? x[2] : NULL,
                                      with_relu,
                                      NULL,
                                      with_relu ? &live : NULL };
    k->winograd(&t);
    for (size_t i = 0; i < of_to[which] * of_to[which] * BLOCK && with_relu; i++)
        want += x[0][i / BLOCK * ld + i % BLOCK] != 0;
    CHECK(live == want, "%s: %llu are not 0, not %llu", k->name, (unsigned long long)live,
          (unsigned long long)want);
}

static void test_transforms(void)
{
    for (size_t form = 0; form < 72; form++) {
        which = (enum wisp_winograd)(form / 8);
        const bool result = which == WISP_WINOGRAD_Y || which == WISP_WINOGRAD_Y5;
        with_relu = result && form & 1;
        const struct call c = { .name = "winograd",
                                .fn = winograd,
                                ENTRY(winograd),
                                .n = (size_t)which,
                                .gap = form & 2 ? 5 : 0,
                                .more = result && form & 4 };
        const size_t to = of_to[which] * of_to[which], from = of_from[which] * of_from[which];
        fill_rows(0, to, BLOCK, c.gap), fill_rows(1, from, BLOCK, c.gap), fill(2, BLOCK);
        fill(3, 0);
        for (size_t i = 0; i < to; i++)
            for (size_t j = 0; j < BLOCK; j++)
                arrays[0].mass[i * (BLOCK + c.gap) + j] = 100; /* the largest sum of |terms| */
        check_case(&c);
    }
}

/* The gradient's transforms are the others turned round: <T x T^t, y> = <x, T^t y T>. */
static void test_turned(const struct wisp_kernels *k, enum wisp_winograd one,
                        enum wisp_winograd other)
{
    float x[36 * BLOCK], y[36 * BLOCK], tx[36 * BLOCK], ty[36 * BLOCK];
    const size_t m = of_from[one], n = of_to[one];
    for (size_t i = 0; i < m * m * BLOCK; i++) x[i] = test_randf(&seed);
    for (size_t i = 0; i < n * n * BLOCK; i++) y[i] = test_randf(&seed);
    k->winograd(&(struct wisp_transform){ .which = one,
                                          .to = tx,
                                          .to_row = n * BLOCK,
                                          .to_col = BLOCK,
                                          .from = x,
                                          .from_row = m * BLOCK,
                                          .from_col = BLOCK });
    k->winograd(&(struct wisp_transform){ .which = other,
                                          .to = ty,
                                          .to_row = m * BLOCK,
                                          .to_col = BLOCK,
                                          .from = y,
                                          .from_row = n * BLOCK,
                                          .from_col = BLOCK });
    for (size_t lane = 0; lane < BLOCK; lane++) {
        double left = 0, right = 0;
        for (size_t i = 0; i < n * n; i++)
            left += (double)tx[i * BLOCK + lane] * (double)y[i * BLOCK + lane];
        for (size_t i = 0; i < m * m; i++)
            right += (double)x[i * BLOCK + lane] * (double)ty[i * BLOCK + lane];
        CHECK(fabs(left - right) < 1e-4, "%s: %g and %g", k->name, left, right);
    }
}

int main(void)
{
    TEST("tiles: every set of kernels");
    find_sets();
    make_arrays();
    TEST("tiles: sums of small products = scalar, all rows, both layouts of A, bias, add, relu");
    test_sums();
    TEST("tiles: a NaN stays one");
    for (size_t s = 0; s < n_sets; s++) test_nan(&sets[s]);
    TEST("tiles: Winograd's transforms = scalar; those of gradients are the others turned round");
    test_transforms();
    for (size_t s = 0; s < n_sets; s++) {
        test_turned(&sets[s], WISP_WINOGRAD_Y, WISP_WINOGRAD_GY);
        test_turned(&sets[s], WISP_WINOGRAD_W, WISP_WINOGRAD_GW);
        test_turned(&sets[s], WISP_WINOGRAD_Y5, WISP_WINOGRAD_GY5);
        test_turned(&sets[s], WISP_WINOGRAD_W5, WISP_WINOGRAD_GW5);
    }
    return test_end();
}

/* Kernels that skip zeros, every instruction set of this machine against the scalar form, between
 * pages that cannot be touched (guarded.h); all forms that a set says it has. */
#include "guarded.h"

enum { BLOCK = 16, MOST_PLACES = 7, MOST_WORDS = 2, MOST_CHANNELS = 3 };

static uint64_t bits[MOST_PLACES * MOST_CHANNELS * MOST_WORDS + 1];
static size_t taps, blocks, sources; /* of the case at hand */

static size_t below(size_t n)
{
    return (size_t)(test_rand(&seed) % n);
}

/* Some of an array's numbers are zeros, of either sign; one may be NaN. */
static float *with_zeros(int i, size_t n, bool nan)
{
    float *x = fill(i, n);
    const size_t share = below(11);
    for (size_t j = 0; j < n; j++)
        if (below(10) < share) x[j] = below(2) ? 0.0f : -0.0f;
    if (nan && n && below(3) == 0) x[below(n)] = NAN;
    return x;
}

/* As check_case, of one set: sets have forms of different sizes. */
static void check_one(size_t set, const struct call *c)
{
    float *x[MAX_ARRAYS];
    for (int i = 0; i < MAX_ARRAYS; i++) {
        x[i] = arrays[i].want;
        memcpy(x[i], arrays[i].init, arrays[i].n * sizeof(float));
    }
    c->fn(&sets[0], x, c);
    check_set(&sets[set], c);
}

static float dense[MOST_PLACES * WISP_LIVE_SOURCES * BLOCK + MOST_CHANNELS * MOST_WORDS * 64];

/* Array 1 of words of 'each' numbers: their bits; as many words as share room hold their numbers that
 * are not 0 first.  What was in it is in 'dense' then.  Returns how many floats the last room has. */
static size_t pack_bits(size_t words, size_t each, size_t share)
{
    float *x = arrays[1].init;
    size_t found = 0;
    memcpy(dense, x, words * each * sizeof *x);
    for (size_t i = 0; i < words; i++) {
        if (i % share == 0) found = 0;
        bits[i] = 0;
        for (size_t j = 0; j < each; j++) {
            if (dense[i * each + j] == 0) continue;
            bits[i] |= (uint64_t)1 << j;
            x[i / share * share * each + found++] = dense[i * each + j];
        }
    }
    return found;
}

/* ---- c(i + t) += x(i, j) w(j, t) ---- */

CALL(live_row)
{
    const struct wisp_live_row t = { .n = c->n,
                                     .sources = sources,
                                     .x = x[1],
                                     .live = bits,
                                     .taps = taps,
                                     .blocks = blocks,
                                     .w = x[2],
                                     .c = x[0],
                                     .soon = c->more ? x[2] : NULL };
    k->live_row(&t);
}

static void test_rows(size_t set)
{
    const size_t *most = sets[set].live_forms->row_blocks;
    for (taps = 1; taps <= WISP_LIVE_TAPS; taps++)
        for (blocks = 1; blocks <= most[taps]; blocks++)
            for (size_t n = 0; n <= MOST_PLACES; n++) {
                sources = 1 + (n + blocks) % WISP_LIVE_SOURCES;
                const size_t c = (n + taps - 1) * blocks * BLOCK;
                const float *x = dense;
                with_zeros(1, n * sources * BLOCK, false);
                float *to = fill(0, c), *mass = arrays[0].mass;
                const float *w = fill(2, sources * BLOCK * taps * blocks * BLOCK);
                fill(3, 0), fill(4, 0);
                arrays[1].n = pack_bits(n, sources * BLOCK, n + 1); /* nothing behind them */
                for (size_t i = 0; i < c; i++) mass[i] = fabsf(to[i]);
                const size_t each = taps * blocks * BLOCK;
                for (size_t i = 0; i < n; i++)
                    for (size_t j = 0; j < sources * BLOCK; j++)
                        for (size_t e = 0; e < each; e++)
                            mass[i * blocks * BLOCK + e] +=
                                fabsf(x[i * sources * BLOCK + j] * w[j * each + e]);
                check_one(set, &(struct call){ .name = "live_row",
                                               .fn = live_row,
                                               .m = taps,
                                               .k = blocks,
                                               .n = n,
                                               .more = n <= sources * BLOCK && n % 2 });
            }
}

/* ---- c(i, r, t) += sum over p of x(i, p) v(p + 16 r + t) ---- */

CALL(live_sums)
{
    const float *const soon[2] = { NULL, x[2] };
    const struct wisp_live_sums t = { .n = c->n,
                                      .words = sources,
                                      .x = x[1],
                                      .live = bits,
                                      .rows = c->m,
                                      .taps = taps,
                                      .blocks = blocks,
                                      .v = x[2],
                                      .c = x[0],
                                      .soon = soon,
                                      .n_soon = c->n % 2 ? 2 : 0,
                                      .lines = 1 };
    k->live_sums(&t);
}

static void test_sums(size_t set, size_t rows)
{
    const size_t *most = sets[set].live_forms->sum_blocks[rows];
    for (taps = 1; taps <= WISP_LIVE_TAPS; taps++)
        for (blocks = 1; blocks <= most[taps]; blocks++)
            for (size_t n = 0; n <= MOST_CHANNELS; n++) {
                sources = 1 + (n + blocks) % MOST_WORDS;
                const size_t places = sources * 64, pitch = blocks * BLOCK;
                const size_t each = rows * taps * pitch;
                float *x = with_zeros(1, n * places, false);
                for (size_t i = 0; i < n * places; i++) /* the last columns meet nothing */
                    if (i % BLOCK + taps > BLOCK) x[i] = 0;
                x = dense;
                float *to = fill(0, n * each), *mass = arrays[0].mass;
                const float *v = fill(2, (places + (rows - 1) * BLOCK) * pitch);
                fill(3, 0), fill(4, 0);
                pack_bits(n * sources, 64, sources);
                for (size_t i = 0; i < n * each; i++) {
                    const size_t r = i % each / (taps * pitch), e = i % (taps * pitch);
                    mass[i] = fabsf(to[i]);
                    for (size_t p = 0; p < places; p++)
                        if (x[i / each * places + p] != 0)
                            mass[i] +=
                                fabsf(x[i / each * places + p] * v[(p + BLOCK * r) * pitch + e]);
                }
                check_one(
                    set,
                    &(struct call){
                        .name = "live_sums", .fn = live_sums, .m = rows, .k = blocks, .n = n });
            }
}

/* ---- products with rows of a matrix that are listed ---- */

enum { MOST_ROWS = 600 }; /* some of the parts that a sum over rows has */
static int32_t listed[MOST_ROWS];

CALL(gemm_live)
{
    k->gemm_live(x[0], c->n + c->gap, x[1], c->k, x[2], c->n, listed, c->m, c->n, sources);
}

static void test_listed(size_t m, size_t n, size_t rows, size_t share)
{
    const size_t gap = n % 3;
    float *to = fill_rows(0, m, n, gap), *mass = arrays[0].mass, *a = fill(1, m * rows),
          *b = fill(2, rows * n);
    fill(3, 0), fill(4, 0);
    sources = 0;
    for (size_t p = 0; p < rows; p++) {
        const bool live = below(8) < share;
        if (live) listed[sources++] = (int32_t)p;
        for (size_t i = 0; i < m && !live; i++) a[i * rows + p] = below(2) ? 0.0f : -0.0f;
        for (size_t j = 0; j < n && !live; j++) b[p * n + j] = NAN; /* nobody reads it */
    }
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float *at = mass + i * (n + gap) + j;
            *at = fabsf(to[i * (n + gap) + j]);
            for (size_t p = 0; p < sources; p++)
                *at += fabsf(a[i * rows + (size_t)listed[p]] * b[(size_t)listed[p] * n + j]);
        }
    check_case(&(struct call){ .name = "gemm_live",
                               .fn = gemm_live,
                               ENTRY(gemm_live),
                               .m = m,
                               .n = n,
                               .k = rows,
                               .gap = gap });
}

/* ---- finding, copying, counting ---- */

/* What is found is equal, whatever lies behind it. */
static void clear_behind(float *x, size_t room, const uint64_t *found, size_t n)
{
    size_t live = 0;
    for (size_t i = 0; i < n; i++) live += (size_t)__builtin_popcountll(found[i]);
    memset(x + live, 0, (room - live) * sizeof *x);
}

CALL(live_find)
{
    const float *from[WISP_LIVE_SOURCES];
    uint64_t found[MOST_PLACES + 1] = { 0 };
    for (size_t s = 0; s < c->m; s++)
        from[s] = c->add && s == c->m / 2 ? NULL : x[1] + s * c->n * c->gap * BLOCK;
    k->live_find(x[0], found, from, c->m, c->n, c->gap);
    clear_behind(x[0], c->m * c->n * BLOCK, found, c->n);
    memcpy(x[2], found, c->n * sizeof *found);
    k->weave(x[3], from, c->m, c->n, c->gap);
}

CALL(live_pack)
{
    uint64_t found[MOST_PLACES * MOST_WORDS + 1] = { 0 };
    k->live_pack(found, x[0], c->n, c->m);
    for (size_t i = 0; i < c->n; i++)
        clear_behind(x[0] + i * c->m * 64, c->m * 64, found + i * c->m, c->m);
    memcpy(x[2], found, c->n * c->m * sizeof *found);
}

CALL(relu_live)
{
    x[2][0] = (float)k->relu_live(x[0], x[1], c->n);
}

/* Equal bits are wanted, of numbers that stand for others, too. */
static void any_bits(int i, size_t n)
{
    fill(i, n);
    for (size_t j = 0; j < n; j++) arrays[i].mass[j] = -1;
}

static void test_find(void)
{
    for (size_t form = 0; form < 32; form++)
        for (size_t n = 0; n <= MOST_PLACES; n++) {
            const size_t m = 1 + form % 4, step = 1 + form / 8 % 2;
            fill(0, m * n * BLOCK), with_zeros(1, m * n * step * BLOCK, true);
            any_bits(2, 2 * n), fill(3, m * n * BLOCK), fill(4, 0);
            check_case(&(struct call){ .name = "live_find",
                                       .fn = live_find,
                                       .m = m,
                                       .n = n,
                                       .gap = step,
                                       .add = form & 4 });
            const size_t words = 1 + form % MOST_WORDS;
            with_zeros(0, 64 * n * words, true), fill(1, 0), any_bits(2, 2 * n * words), fill(3, 0);
            check_case(&(struct call){ .name = "live_pack", .fn = live_pack, .m = words, .n = n });
        }
}

static void test_relu(void)
{
    for (size_t n = 0; n <= 100; n++) {
        fill(0, n), with_zeros(1, n, true), fill(2, 1), fill(3, 0), fill(4, 0);
        check_case(&(struct call){ .name = "relu_live", .fn = relu_live, .n = n });
    }
    const float x[] = { -1, 0, 2, NAN, -0.0f, 3 };
    float y[6];
    CHECK(sets[0].relu_live(y, x, 6) == 3 && y[0] == 0 && y[2] == 2 && isnan(y[3]),
          "numbers above 0, and NaN, are not 0");
}

int main(void)
{
    TEST("live: every set of kernels");
    find_sets();
    make_arrays();
    TEST("live: finding what is not 0, counting with ReLU = scalar; a NaN is not 0");
    test_find();
    test_relu();
    TEST("live: sums along a row = scalar, all taps and blocks");
    for (size_t s = 0; s < n_sets; s++) test_rows(s);
    TEST("live: sums of groups of taps = scalar, all rows, taps and blocks");
    for (size_t s = 0; s < n_sets; s++)
        for (size_t rows = 1; rows <= sets[s].live_forms->rows; rows++) test_sums(s, rows);
    TEST("live: products with listed rows of a matrix = scalar");
    for (size_t rows = 0; rows <= MOST_ROWS; rows = 3 * rows / 2 + 1)
        for (size_t share = 0; share <= 8; share += 2)
            for (size_t m = 1; m <= 16; m += 5) test_listed(m, 16 + 16 * (m % 3), rows, share);
    test_listed(1, 1040, 40, 4); /* more columns than go at a time */
    test_listed(16, 528, 90, 4);
    return test_end();
}

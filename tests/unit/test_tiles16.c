/* Kernels of convolutions in bf16, every instruction set of this machine against the scalar form,
 * between pages that cannot be touched (guarded.h).  The text of the kernel that uses the hardware's
 * tiles runs here on any machine, with tiles written in C: one more set. */
#include "guarded.h"

/* ---- tiles of 16 rows of 64 bytes ---- */

#define INLINE               static inline
#define BARRIER()            ((void)0)
#define TILES_BEGIN()        memset(tile_of, 0xff, sizeof tile_of) /* NaN: they must be set first */
#define TILES_END()          memset(tile_of, 0xff, sizeof tile_of)
#define TILE_ZERO(t)         memset(tile_of[t], 0, sizeof tile_of[t])
#define TILE_LOAD(t, x, ld)  tile_load(t, x, ld)
#define TILE_STORE(t, x, ld) tile_store(t, x, ld)
#define TILE_DOT(c, a, b)    tile_dot(c, a, b)
#define VEC                  struct vec
#define LOAD(x)              vec_load(x)
#define STORE(x, v)          memcpy(x, (v).at, sizeof(v).at)
#define ZERO()               ((struct vec){ { 0 } })
#define ADD(a, b)            vec_add(a, b)
#define WHERE_ABOVE(m, v)    vec_where_above(m, v)
#define MAX(a, b)            vec_max(a, b)

static uint32_t tile_of[8][16][16];

static void tile_load(int t, const void *from, size_t ld)
{
    for (size_t r = 0; r < 16; r++) memcpy(tile_of[t][r], (const char *)from + r * ld, 64);
}
static void tile_store(int t, void *to, size_t ld)
{
    for (size_t r = 0; r < 16; r++) memcpy((char *)to + r * ld, tile_of[t][r], 64);
}
static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static void tile_dot(int c, int a, int b)
{
    for (size_t r = 0; r < 16; r++)
        for (size_t j = 0; j < 16; j++)
            for (size_t p = 0; p < 16; p++) {
                const uint32_t x = tile_of[a][r][p], y = tile_of[b][p][j];
                float sum = from_bits(tile_of[c][r][j]);
                sum += from_bits(x << 16) * from_bits(y << 16);
                sum += from_bits(x & 0xffff0000) * from_bits(y & 0xffff0000);
                memcpy(&tile_of[c][r][j], &sum, sizeof sum);
            }
}

struct vec {
    float at[16];
};
static struct vec vec_load(const float *x)
{
    struct vec v;
    memcpy(v.at, x, sizeof v.at);
    return v;
}
static struct vec vec_add(struct vec a, struct vec b)
{
    for (int i = 0; i < 16; i++) a.at[i] += b.at[i];
    return a;
}
static struct vec vec_where_above(struct vec m, struct vec v)
{
    for (int i = 0; i < 16; i++) v.at[i] = m.at[i] > 0 ? v.at[i] : 0;
    return v;
}
static struct vec vec_max(struct vec a, struct vec b)
{
    for (int i = 0; i < 16; i++) a.at[i] = a.at[i] > b.at[i] ? a.at[i] : b.at[i];
    return a;
}
static uint64_t vec_live(struct vec v)
{
    uint64_t n = 0;
    for (int i = 0; i < 16; i++) n += v.at[i] != 0;
    return n;
}
#define LIVE(a) vec_live(a)
#include "kernels/tiles16.h"

/* ---- sums of small products ---- */

enum { MOST = 4, BLOCK = 16, DEPTH = 32, PANEL = BLOCK * DEPTH / 2, ROWS = 70 };
static size_t blocks, a_at[MOST], b_at[MOST];
static int32_t c_at[ROWS];
static bool with_relu;

static size_t up16(size_t n)
{
    return (n + 15) / 16 * 16;
}

static struct wisp_tiles16 sum_of(float *const x[], const struct call *c)
{
    return (struct wisp_tiles16){ .m = c->m,
                                  .blocks = blocks,
                                  .n = c->n,
                                  .a = (const uint16_t *)(const void *)x[1],
                                  .ras = DEPTH + c->gap,
                                  .b = (const uint32_t *)(const void *)x[2],
                                  .b_block = c->n * PANEL,
                                  .a_at = a_at,
                                  .b_at = b_at,
                                  .c = x[0],
                                  .c_block = c->m * BLOCK,
                                  .c_at = c_at,
                                  .bias = c->more ? x[3] : NULL,
                                  .mask = c->add ? x[4] : NULL,
                                  .relu = with_relu };
}

CALL(tiles16_of)
{
    struct wisp_tiles16 t = sum_of(x, c);
    uint64_t live[5] = { 0 };
    if (with_relu) t.live = live;
    k->tiles16(&t);
    for (size_t v = 0; v < blocks && with_relu; v++) {
        uint64_t want = 0;
        for (size_t r = 0; r < c->m; r++)
            for (size_t j = 0; j < BLOCK && c_at[r] >= 0; j++)
                want += t.c[(size_t)c_at[r] + v * t.c_block + j] != 0;
        CHECK(live[v] == want, "%s: %zu rows, block %zu: %llu are not 0, not %llu", k->name, c->m,
              v, (unsigned long long)live[v], (unsigned long long)want);
    }
}

/* Array i: n words of two numbers each. */
static void fill_pairs(int i, size_t n)
{
    float *x = fill(i, n);
    for (size_t j = 0; j < n; j++) {
        const uint32_t word =
            wisp_round16(test_randf(&seed)) | (uint32_t)wisp_round16(test_randf(&seed)) << 16;
        memcpy(&x[j], &word, sizeof word);
        arrays[i].mass[j] = -1;
    }
}

static float half_of(const void *halves, size_t at)
{
    uint16_t half;
    memcpy(&half, (const char *)halves + at * sizeof half, sizeof half);
    return from_bits((uint32_t)half << 16);
}

static void test_sum(const struct call *c)
{
    const size_t of_a = up16(c->m) * (DEPTH + c->gap);
    fill(0, blocks * c->m * BLOCK);
    fill_pairs(1, (c->n * of_a + 1) / 2);
    fill_pairs(2, blocks * c->n * PANEL);
    fill(3, blocks * BLOCK);
    fill(4, blocks * c->m * BLOCK);
    for (size_t i = 0; i < c->n; i++) a_at[i] = i * of_a, b_at[i] = (c->n - 1 - i) * PANEL;
    for (size_t r = 0; r < c->m; r++) /* the other way round, some nowhere */
        c_at[r] = test_rand(&seed) % 5 ? (int32_t)((c->m - 1 - r) * BLOCK) : -1;
    float *const x[] = { arrays[0].init, arrays[1].init, arrays[2].init, arrays[3].init };
    for (size_t v = 0; v < blocks; v++)
        for (size_t r = 0; r < c->m; r++)
            for (size_t j = 0; j < BLOCK && c_at[r] >= 0; j++) {
                float mass = fabsf(x[3][v * BLOCK + j]);
                for (size_t i = 0; i < c->n; i++)
                    for (size_t p = 0; p < DEPTH; p++)
                        mass += fabsf(
                            half_of(x[1], a_at[i] + r * (DEPTH + c->gap) + p) *
                            half_of(x[2],
                                    2 * (b_at[i] + v * c->n * PANEL + p / 2 * BLOCK + j) + p % 2));
                arrays[0].mass[(size_t)c_at[r] + v * c->m * BLOCK + j] = mass;
            }
    check_case(c);
}

static void test_sums(void)
{
    for (size_t m = 1; m <= ROWS; m++)
        for (size_t form = 0; form < 16; form++) {
            blocks = 1 + (m + form) % 5;
            with_relu = form & 1;
            test_sum(&(struct call){ .name = "tiles16",
                                     .fn = tiles16_of,
                                     ENTRY(tiles16),
                                     .m = m,
                                     .n = (m + form) % (MOST + 1),
                                     .gap = form & 2 ? 6 : 0,
                                     .more = form & 4,
                                     .add = form & 8 }); /* a mask */
        }
}

/* max(., 0) must not hide a NaN, and infinities stay in their row. */
static void test_nan(const struct wisp_kernels *k)
{
    enum { M = 37 };
    uint16_t a[48 * DEPTH];
    uint32_t b[2 * PANEL];
    float c[2 * M * BLOCK];
    for (size_t i = 0; i < 48 * DEPTH; i++) a[i] = wisp_round16(1);
    for (size_t i = 0; i < 2 * PANEL; i++) b[i] = wisp_round16(-1) * 0x10001u;
    a[3 * DEPTH + 1] = wisp_round16(NAN), a[35 * DEPTH] = wisp_round16(-INFINITY);
    const struct wisp_tiles16 t = { .m = M,
                                    .blocks = 2,
                                    .n = 1,
                                    .a = a,
                                    .ras = DEPTH,
                                    .b = b,
                                    .b_block = PANEL,
                                    .a_at = a_at,
                                    .b_at = b_at,
                                    .c = c,
                                    .c_block = M * BLOCK,
                                    .c_at = c_at,
                                    .relu = true };
    a_at[0] = b_at[0] = 0;
    for (size_t r = 0; r < M; r++) c_at[r] = (int32_t)(r * BLOCK);
    k->tiles16(&t);
    for (size_t i = 0; i < 2 * M * BLOCK; i++) {
        const size_t row = i / BLOCK % M;
        CHECK(row == 3    ? isnan(c[i])
              : row == 35 ? isinf(c[i])
                          : c[i] == 0,
              "%s: row %zu has %g", k->name, row, (double)c[i]);
    }
}

/* ---- products that share B ---- */

CALL(sums16_of)
{
    const struct wisp_sums16 t = { .m = c->m,
                                   .blocks = blocks,
                                   .k = c->k,
                                   .n = c->n,
                                   .a = (const uint16_t *)(const void *)x[1],
                                   .lda = c->k + c->gap,
                                   .b = (const uint32_t *)(const void *)x[2],
                                   .ldb = c->k / 2 * BLOCK,
                                   .c = x[0],
                                   .ldc = blocks * BLOCK + c->gap,
                                   .a_at = a_at,
                                   .c_at = b_at,
                                   .add = c->add };
    k->sums16(&t);
}

/* A_i is the rows from another place of one array on, odd places among them. */
static void test_shared(const struct call *c)
{
    const size_t lda = c->k + c->gap, ldc = blocks * BLOCK + c->gap;
    fill_rows(0, c->n * c->m, blocks * BLOCK, c->gap);
    fill_pairs(1, (c->m * lda + MOST + 1) / 2);
    fill_pairs(2, blocks * c->k / 2 * BLOCK);
    for (size_t i = 0; i < c->n; i++) a_at[i] = i, b_at[i] = (c->n - 1 - i) * c->m * ldc;
    float *const x[] = { arrays[0].init, arrays[1].init, arrays[2].init };
    for (size_t at = 0; at < c->n * c->m * blocks * BLOCK; at++) {
        const size_t j = at % (blocks * BLOCK), r = at / (blocks * BLOCK) % c->m,
                     i = at / (blocks * BLOCK) / c->m, to = b_at[i] + r * ldc + j;
        float mass = fabsf(x[0][to]);
        for (size_t p = 0; p < c->k; p++)
            mass +=
                fabsf(half_of(x[1], a_at[i] + r * lda + p) *
                      half_of(x[2], 2 * (j / BLOCK * c->k / 2 * BLOCK + p / 2 * BLOCK + j % BLOCK) +
                                        p % 2));
        arrays[0].mass[to] = mass;
    }
    check_case(c);
}

static void test_all_shared(void)
{
    for (size_t m = 16; m <= 64; m += 16)
        for (size_t form = 0; form < 16; form++) {
            blocks = 1 + (m / 16 + form) % 5;
            test_shared(&(struct call){ .name = "sums16",
                                        .fn = sums16_of,
                                        ENTRY(sums16),
                                        .m = m,
                                        .n = 1 + form % MOST,
                                        .k = DEPTH * (1 + form % 3),
                                        .gap = form & 4 ? 6 : 0,
                                        .add = form & 8 });
        }
}

/* ---- rows of them ---- */

CALL(join16)
{
    k->join16((uint16_t *)(void *)x[0], x[1], c->more ? x[2] : NULL, BLOCK + c->gap, c->n);
}

static void test_join(size_t n, size_t gap, bool both)
{
    fill_pairs(0, n * BLOCK);
    fill_rows(1, n, BLOCK, gap);
    fill_rows(2, n, BLOCK, gap);
    const struct call c = {
        .name = "join16", .fn = join16, ENTRY(join16), .n = n, .gap = gap, .more = both
    };
    check_case(&c);
    for (size_t i = 0; i < n * DEPTH; i++) { /* the scalar form */
        const size_t at = i / DEPTH * (BLOCK + gap) + i % BLOCK;
        const float v = i % DEPTH < BLOCK ? arrays[1].init[at] : both ? arrays[2].init[at] : 0;
        CHECK(half_of(arrays[0].want, i) == from_bits((uint32_t)wisp_round16(v) << 16),
              "join16 of %zu: number %zu", n, i);
    }
}

int main(void)
{
    make_arrays();
    find_sets();
    sets[n_sets] = sets[0];
    sets[n_sets].name = "emulated";
    sets[n_sets].sums16 = sums16;
    sets[n_sets++].tiles16 = tiles16;
    TEST("tiles16 = scalar, all small sizes");
    test_sums();
    TEST("tiles16: NaN and infinities stay in their row");
    for (size_t s = 0; s < n_sets; s++) test_nan(&sets[s]);
    TEST("sums16 = scalar, with and without what was there");
    test_all_shared();
    TEST("join16 = scalar bit for bit = rounded");
    for (size_t n = 0; n < 40; n++) test_join(n, n % 3 * 16, n % 2);
    return test_end();
}

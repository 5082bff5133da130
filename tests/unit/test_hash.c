/* Hash families, tables and the frame: collision probabilities against theory, keys against plain
 * loops, tables against a naive map. */
#include "hash/frame.h"
#include "hash/tables.h"
#include "hasher.h"

#include <string.h>

static struct wisp_kernels plain;

/* ---- families ---- */

enum { WIDTH = 128 };

static double agree(const struct hasher *h, const uint32_t *a, const uint32_t *b)
{
    size_t same = 0;
    uint32_t mask = (1u << h->s.digit_bits) - 1;
    for (size_t t = 0; t < h->s.n_tables; t++)
        for (int j = 0; j < h->s.digits; j++)
            same += ((a[t] ^ b[t]) >> j * h->s.digit_bits & mask) == 0;
    return (double)same / (double)(h->s.n_tables * (size_t)h->s.digits);
}

static void test_simhash_angle(void)
{
    TEST("simhash: bits agree with probability 1 - angle / pi");
    enum { TABLES = 1000, DIGITS = 16 };
    struct hasher h = hasher_of("simhash", WIDTH, TABLES, DIGITS);
    static uint32_t keys[2 * TABLES];
    for (double angle = 0; angle < 3.1; angle += 0.3) {
        float x[2 * WIDTH];
        double xx = 0, xy = 0, yy = 0;
        normals(x, 2 * WIDTH);
        for (int c = 0; c < WIDTH; c++) xx += x[c] * x[c], xy += x[c] * x[WIDTH + c];
        for (int c = 0; c < WIDTH; c++) {
            x[WIDTH + c] -= (float)(xy / xx) * x[c];
            yy += x[WIDTH + c] * x[WIDTH + c];
        }
        for (int c = 0; c < WIDTH; c++)
            x[WIDTH + c] = (float)(cos(angle) * x[c] + sin(angle) * sqrt(xx / yy) * x[WIDTH + c]);
        hash_with(&h, &best, keys, x, 2);
        double p = 1 - angle / 3.14159265, got = agree(&h, keys, keys + TABLES);
        double sd = sqrt(p * (1 - p) / (TABLES * DIGITS));
        CHECK(fabs(got - p) <= 4 * sd + 0.004, "angle %g: %g, expected %g", angle, got, p);
    }
    hasher_clear(&h);
}

static void test_minhash_jaccard(void)
{
    TEST("minhash: digits agree with the probability of Jaccard");
    enum { TABLES = 2000, DIGITS = 4, T = 30 };
    struct hasher h = hasher_of("minhash", WIDTH, TABLES, DIGITS);
    static uint32_t keys[2 * TABLES];
    CHECK(h.s.digit_bits == 4, "%d bits", h.s.digit_bits);
    for (int common = 0; common <= T; common += 5) {
        float x[2 * WIDTH];
        for (int c = 0; c < 2 * WIDTH; c++) x[c] = 0.5f * test_randf(&rng);
        for (int c = 0; c < T; c++) { /* the largest: 0 .. T-1, and T-common .. 2T-common-1 */
            x[c] += 2;
            x[WIDTH + T - common + c] += 2;
        }
        hash_with(&h, &best, keys, x, 2);
        double p = (double)common / (2 * T - common), got = agree(&h, keys, keys + TABLES);
        double sd = sqrt(p * (1 - p) / (TABLES * DIGITS));
        CHECK(fabs(got - p) <= 4 * sd + 0.02, "%d common: %g, expected %g", common, got, p);
    }
    hasher_clear(&h);
}

static void test_monotone(void)
{
    TEST("families: nearer vectors agree more often");
    enum { TABLES = 200, DIGITS = 4, PAIRS = 20, LEVELS = 5 };
    static const float noise[LEVELS] = { 0, 0.2f, 0.5f, 1, 3 };
    static uint32_t keys[2 * TABLES];
    for (size_t i = 0; wisp_hash_family_at(i); i++) {
        struct hasher h = hasher_of(wisp_hash_family_at(i)->name, WIDTH, TABLES, DIGITS);
        double last = 1.1;
        for (int level = 0; level < LEVELS; level++) {
            double mean = 0;
            for (int p = 0; p < PAIRS; p++) {
                float x[2 * WIDTH];
                normals(x, WIDTH);
                for (int c = 0; c < WIDTH; c++) x[WIDTH + c] = x[c] + noise[level] * normal();
                hash_with(&h, &best, keys, x, 2);
                mean += agree(&h, keys, keys + TABLES) / PAIRS;
            }
            CHECK(mean < last - 0.01, "%s, noise %g: %g after %g", h.f->name, noise[level], mean,
                  last);
            last = mean;
        }
        hasher_clear(&h);
    }
}

static void test_keys(void)
{
    TEST("families: keys repeat, alone or in a block, for some or all tables");
    enum { TABLES = 37, DIGITS = 3, N = 71 };
    static uint32_t keys[N * TABLES], again[N * TABLES];
    static const size_t widths[] = { 1, 3, 8, 20, 77 };
    for (size_t i = 0; wisp_hash_family_at(i); i++)
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            size_t width = widths[w], bad = 0, moved = 0;
            struct hasher h = hasher_of(wisp_hash_family_at(i)->name, width, TABLES, DIGITS);
            float x[N * 77];
            normals(x, N * width);
            hash_with(&h, &best, keys, x, N);
            for (size_t n = 0; n < N; n++) {
                uint32_t one[TABLES];
                h.f->hash(one, h.functions, &h.s, &best, x + n * width, 1, 0, TABLES, h.scratch);
                for (size_t t = 0; t < TABLES; t++) bad += one[t] != keys[n * TABLES + t];
                h.f->hash(one, h.functions, &h.s, &best, x + n * width, 1, 5, 9, h.scratch);
                for (size_t t = 0; t < 9; t++) bad += one[t] != keys[n * TABLES + t + 5];
                for (size_t t = 0; t < TABLES; t++)
                    bad += keys[n * TABLES + t] >> h.s.digits * h.s.digit_bits != 0;
            }
            CHECK(bad == 0, "%s, width %zu: %zu differ", h.f->name, width, bad);
            h.f->init(h.functions, &h.s, 7, 1);
            hash_with(&h, &best, again, x, N);
            for (size_t j = 0; j < N * TABLES; j++) moved += keys[j] != again[j];
            CHECK(width < 8 || moved > N * TABLES / 2, "%s: draw 1 is like draw 0", h.f->name);
            h.f->init(h.functions, &h.s, 7, 0);
            hash_with(&h, &best, again, x, N);
            CHECK(memcmp(keys, again, sizeof keys) == 0, "%s: draw 0 differs", h.f->name);
            hasher_clear(&h);
        }
}

static void test_isa(void)
{
    TEST("families: scalar and SIMD keys agree");
    enum { TABLES = 50, DIGITS = 4, N = 200 };
    static uint32_t keys[N * TABLES], ref[N * TABLES];
    static float x[N * WIDTH];
    normals(x, N * WIDTH);
    for (size_t i = 0; wisp_hash_family_at(i); i++) {
        struct hasher h = hasher_of(wisp_hash_family_at(i)->name, WIDTH, TABLES, DIGITS);
        size_t bad = 0;
        hash_with(&h, &best, keys, x, N);
        hash_with(&h, &plain, ref, x, N);
        for (size_t j = 0; j < N * TABLES; j++) bad += keys[j] != ref[j];
        CHECK(bad <= (h.f->cosine ? 3 : 0), "%s: %zu keys differ", h.f->name, bad);
        hasher_clear(&h);
    }
}

/* As published: one vector, one bin, its coordinates that are not zero. */
static bool naive_digit(uint32_t *digit, const uint32_t *place, size_t bin, const float *x)
{
    float top = 0;
    bool any = false;
    for (uint32_t j = 0; j < WISP_BIN; j++) {
        float v = x[place[bin * WISP_BIN + j]];
        if (v != 0 && (!any || v > top)) any = true, top = v, *digit = j;
    }
    return any;
}

static void check_dwta_sparse(size_t width)
{
    enum { TABLES = 50, DIGITS = 5, N = 96 };
    struct hasher h = hasher_of("dwta", width, TABLES, DIGITS);
    const uint32_t *place = h.functions;
    static uint32_t keys[N * TABLES];
    static float x[N * WIDTH];
    size_t bad = 0, borrowed = 0;
    for (size_t n = 0; n < N; n++) /* vector n has about n values; many are negative */
        for (size_t c = 0; c < width; c++)
            x[n * width + c] = test_rand(&rng) % width < n ? normal() : 0;
    for (size_t n = 64; n < N; n++) /* the last block: one zero in each, which is the largest */
        for (size_t c = 0; c < width; c++)
            x[n * width + c] = c + 1 == width ? 0 : -1 - fabsf(normal());
    hash_with(&h, &best, keys, x, N);
    for (size_t n = 0; n < N; n++)
        for (size_t t = 0; t < TABLES; t++) {
            uint32_t key = 0;
            for (size_t bin = t * DIGITS; bin < (t + 1) * DIGITS; bin++) {
                uint32_t digit = 0;
                bool found = naive_digit(&digit, place, bin, x + n * width);
                borrowed += !found;
                for (unsigned a = 0; !found && a < WISP_BORROWS; a++)
                    found = naive_digit(&digit, place, wisp_bins_borrow(bin, a, TABLES * DIGITS),
                                        x + n * width);
                key = key << 3 | digit;
            }
            bad += key != keys[n * TABLES + t];
        }
    CHECK(bad == 0 && borrowed > 1000, "%zu keys differ, %zu bins borrowed", bad, borrowed);
    size_t times[WIDTH] = { 0 }, uneven = 0; /* each permutation has every coordinate once */
    for (size_t i = 0; i < 15 * width; i++) times[place[i]]++;
    for (size_t c = 0; c < width; c++) uneven += times[c] != 15;
    CHECK(uneven == 0, "%zu coordinates are not in every permutation", uneven);
    hasher_clear(&h);
}

static void test_dwta_sparse(void)
{
    TEST("dwta: zeros are not looked at, empty bins borrow");
    check_dwta_sparse(WIDTH);
    check_dwta_sparse(77);
}

static void test_wta_plain(void)
{
    TEST("wta: digits are places of the largest, joined by 3 bits each");
    enum { TABLES = 20, DIGITS = 5, N = 40 };
    struct hasher h = hasher_of("wta", WIDTH, TABLES, DIGITS);
    const uint32_t *place = h.functions;
    static uint32_t keys[N * TABLES];
    static float x[N * WIDTH];
    size_t bad = 0;
    normals(x, N * WIDTH); /* none is zero */
    hash_with(&h, &best, keys, x, N);
    for (size_t n = 0; n < N; n++)
        for (size_t t = 0; t < TABLES; t++) {
            uint32_t key = 0, digit = 0;
            for (size_t bin = t * DIGITS; bin < (t + 1) * DIGITS; bin++) {
                naive_digit(&digit, place, bin, x + n * WIDTH);
                key = key << 3 | digit;
            }
            bad += key != keys[n * TABLES + t];
        }
    CHECK(bad == 0, "%zu keys differ", bad);
    hasher_clear(&h);
}

static bool naive_in_set(const float *x, size_t c, size_t t)
{
    size_t before = 0;
    for (size_t i = 0; i < WIDTH; i++) before += x[i] > x[c] || (x[i] == x[c] && i < c);
    return before < t;
}

static void test_minhash_plain(void)
{
    TEST("minhash: digits are first places of the set, with ties and empty bins");
    enum { TABLES = 20, DIGITS = 3, N = 40, T = 30, BIN = 16 };
    struct hasher h = hasher_of("minhash", WIDTH, TABLES, DIGITS);
    const uint32_t *place = h.functions;
    static uint32_t keys[N * TABLES];
    static float x[N * WIDTH];
    size_t bad = 0, borrowed = 0;
    for (size_t i = 0; i < N * WIDTH; i++) x[i] = (float)(test_rand(&rng) % (2 + i / WIDTH));
    hash_with(&h, &best, keys, x, N);
    for (size_t n = 0; n < N; n++)
        for (size_t t = 0; t < TABLES; t++) {
            uint32_t key = 0;
            for (size_t bin = t * DIGITS; bin < (t + 1) * DIGITS; bin++) {
                size_t at = bin, j = BIN;
                for (unsigned a = 0; j == BIN; at = wisp_bins_borrow(bin, a++, TABLES * DIGITS)) {
                    for (j = 0; j < BIN; j++)
                        if (naive_in_set(x + n * WIDTH, place[at * BIN + j], T)) break;
                    borrowed += j == BIN;
                }
                key = key << 4 | (uint32_t)j;
            }
            bad += key != keys[n * TABLES + t];
        }
    CHECK(bad == 0 && borrowed > 5, "%zu keys differ, %zu bins borrowed", bad, borrowed);
    hasher_clear(&h);
}

/* ---- tables ---- */

static struct wisp_tables tables_of(size_t n_rows, size_t n_tables, int bits, size_t cap,
                                    bool reservoir, char **block)
{
    struct wisp_tables t = {
        .n_rows = n_rows, .n_tables = n_tables, .bits = bits, .cap = cap, .reservoir = reservoir
    };
    struct wisp_cut plan = { 0 };
    wisp_tables_lay(&t, &plan);
    *block = wisp_zalloc(plan.at, 1);
    struct wisp_cut c = wisp_cut_of(*block, plan.at, WISP_CUT_KEEP);
    wisp_tables_lay(&t, &c);
    return t;
}

/* From keys (n_tables, n_rows), by place. */
static void tables_build(struct wisp_tables *t, const uint32_t *keys, struct wisp_filling f)
{
    uint32_t *count = wisp_alloc((size_t)1 << t->low_bits, sizeof *count);
    wisp_tables_begin(t);
    for (size_t i = 0; i < t->n_tables; i++) {
        memcpy(wisp_tables_keys(t, i, 0), keys + i * t->n_rows, t->n_rows * sizeof *keys);
        for (size_t b = t->n_blocks; b-- > 0;) wisp_tables_sort(t, i, b);
        for (size_t p = t->n_parts; p-- > 0;) wisp_tables_fill(t, &f, i, p, count);
    }
    wisp_free(count);
}

/* Buckets that are not what a naive map holds. */
static size_t tables_wrong(const struct wisp_tables *t, const uint32_t *keys, int set, size_t first)
{
    size_t n_buckets = (size_t)1 << t->bits, wrong = 0, n;
    uint32_t *seen = wisp_alloc(n_buckets, sizeof *seen);
    for (size_t i = 0; i < t->n_tables; i++, keys += t->n_rows) {
        memset(seen, 0, n_buckets * sizeof *seen);
        for (size_t place = t->n_rows; place-- > 0;) { /* newest first */
            const int32_t *rows = wisp_tables_bucket(t, set, i, keys[place], &n);
            size_t want = ++seen[keys[place]];
            if (t->cap && want > t->cap) continue;
            wrong += want > n || rows[n - want] != (int32_t)((first + place) % t->n_rows);
        }
        for (uint32_t key = 0; key < n_buckets; key++) {
            wisp_tables_bucket(t, set, i, key, &n);
            wrong += n != (t->cap && seen[key] > t->cap ? t->cap : seen[key]);
        }
    }
    wisp_free(seen);
    return wrong;
}

static void test_tables(void)
{
    TEST("tables: buckets hold what a naive map holds; full ones the newest; two sets");
    static const int all_bits[] = { 1, 5, 12, 17 };
    static const size_t caps[] = { 0, 1, 3, 40, 5000 };
    static const size_t sizes[] = { 1, 64, 3000, 40001 };
    enum { TABLES = 3 };
    uint32_t *keys = wisp_alloc(2 * TABLES * 40001, sizeof *keys);
    size_t most_parts = 0, most_blocks = 0;
    for (size_t a = 0; a < 4; a++)
        for (size_t b = 0; b < 5 * 4; b++) {
            char *block;
            size_t n_rows = sizes[b % 4], n = TABLES * n_rows, first = n_rows / 3;
            struct wisp_tables t =
                tables_of(n_rows, TABLES, all_bits[a], caps[b / 4], false, &block);
            uint64_t mask = ((uint64_t)1 << t.bits) - 1;
            for (size_t i = 0; i < 2 * n; i++) /* skewed */
                keys[i] = (uint32_t)(test_rand(&rng) & test_rand(&rng) & mask);
            tables_build(&t, keys, (struct wisp_filling){ .set = 0, .first = first });
            tables_build(&t, keys + n, (struct wisp_filling){ .set = 1 });
            size_t bad = tables_wrong(&t, keys, 0, first);
            size_t other = tables_wrong(&t, keys + n, 1, 0);
            CHECK(bad == 0 && other == 0, "%zu rows, %d bits, cap %zu: %zu and %zu wrong", n_rows,
                  t.bits, t.cap, bad, other);
            if (t.n_parts > most_parts) most_parts = t.n_parts;
            if (t.n_blocks > most_blocks) most_blocks = t.n_blocks;
            wisp_free(block);
        }
    CHECK(most_parts >= 32 && most_blocks >= 32, "%zu parts, %zu blocks", most_parts, most_blocks);
    wisp_free(keys);
}

static void test_reservoir(void)
{
    TEST("tables: a full reservoir keeps each row with the same probability");
    enum { ROWS = 100, CAP = 10, BUILDS = 4000 };
    char *block;
    static const uint32_t keys[ROWS];
    size_t kept[ROWS] = { 0 }, n, twice = 0;
    struct wisp_tables t = tables_of(ROWS, 1, 1, CAP, true, &block);
    for (size_t build = 0; build < BUILDS; build++) {
        bool seen[ROWS] = { 0 };
        tables_build(&t, keys, (struct wisp_filling){ .first = 30, .seed = 5, .stream = build });
        const int32_t *rows = wisp_tables_bucket(&t, 0, 0, 0, &n);
        CHECK(n == CAP, "%zu rows", n);
        for (size_t i = 0; i < n; i++)
            twice += seen[rows[i]], seen[rows[i]] = true, kept[rows[i]]++;
    }
    CHECK(twice == 0, "%zu rows twice", twice);
    double sd = sqrt(BUILDS * 0.1 * 0.9), chi = 0;
    for (size_t r = 0; r < ROWS; r++) {
        chi += pow(((double)kept[r] - BUILDS * 0.1) / sd, 2);
        CHECK(fabs((double)kept[r] - BUILDS * 0.1) < 5 * sd, "row %zu: %zu times", r, kept[r]);
    }
    CHECK(chi < 160, "chi square %g of 100 rows", chi);
    wisp_free(block);
}

/* ---- the frame ---- */

/* One thing at a time that no run can have left. */
static void test_hostile(void)
{
    enum { N = 3000, TABLES = 2, BITS = 14 };
    static uint32_t keys[TABLES * N];
    char *block;
    struct wisp_tables t = tables_of(N, TABLES, BITS, 0, false, &block);
    uint32_t last = (uint32_t)t.n_parts - 1, top = 1u << BITS;
    TEST("tables: from a file, what is out of bounds or does not add up is refused");
    for (size_t i = 0; i < TABLES * N; i++) keys[i] = (uint32_t)(test_rand(&rng) % top);
    for (int set = 0; set < 2; set++) tables_build(&t, keys, (struct wisp_filling){ .set = set });
    CHECK(t.n_parts > 1 && t.n_blocks > 2 && wisp_tables_are_good(&t, N), "as they were made");
#define REFUSED(place, value)                                                                      \
    do {                                                                                           \
        __typeof__(place) was = place;                                                             \
        place = value;                                                                             \
        CHECK(!wisp_tables_are_good(&t, N), #place " = " #value);                                  \
        place = was;                                                                               \
        CHECK(wisp_tables_are_good(&t, N), #place " as it was");                                   \
    } while (0)
    REFUSED(t.total[0], was + 1); /* totals of the parts, */
    REFUSED(t.total[last], was - 1);
    REFUSED(t.total[TABLES * t.n_parts - 1], UINT32_MAX);
    REFUSED(t.cut[0], 1); /* where parts begin in a block, */
    REFUSED(t.cut[t.n_parts], was - 1);
    REFUSED(t.cut[t.n_parts], was + 1);
    REFUSED(t.cut[1], UINT16_MAX);
    REFUSED(t.cut[TABLES * t.n_blocks * (t.n_parts + 1) - 1], 0);
    REFUSED(t.entry[0], was | UINT32_MAX << 11 << t.low_bits); /* low bits and places, */
    REFUSED(t.entry[t.block - 1], (was & ~2047u) | (uint32_t)t.block);
    REFUSED(wisp_tables_keys(&t, 1, N - 1)[0], UINT32_MAX);
    for (int set = 0; set < 2; set++) { /* buckets and rows */
        REFUSED(t.start[set][1], UINT32_MAX);
        REFUSED(t.start[set][(top + t.n_parts) * TABLES - 1], (uint32_t)t.room + 1);
        REFUSED(t.rows[set][0], -1);
        REFUSED(t.rows[set][TABLES * t.room - 1], N);
    }
    /* half hashed: keys in no whole block are not sorted yet */
    size_t half = t.block + t.block / 2;
    wisp_tables_begin(&t);
    for (size_t i = 0; i < TABLES; i++) {
        memcpy(wisp_tables_keys(&t, i, 0), keys + i * N, N * sizeof *keys);
        wisp_tables_sort(&t, i, 0);
    }
    CHECK(wisp_tables_are_good(&t, half), "half hashed");
    wisp_tables_keys(&t, 1, half)[0] = UINT32_MAX;
    CHECK(wisp_tables_are_good(&t, half), "what is not hashed yet may be anything");
    wisp_tables_keys(&t, 1, half - 1)[0] = top;
    CHECK(!wisp_tables_are_good(&t, half), "a key of too many bits");
    wisp_free(block);
}

/* What stands in the columns that a short block does not have. */
static void test_turn(void)
{
    enum { D = 19, B = WISP_HASH_BLOCK };
    float x[B * D], xt[D * B];
    TEST("bins: a block is turned, and columns it does not have are 0");
    normals(x, B * D);
    for (size_t m = 1; m <= B; m++) {
        for (size_t i = 0; i < D * B; i++) xt[i] = NAN;
        wisp_bins_turn(xt, &best, x, m, D);
        for (size_t i = 0; i < D * B; i++) {
            float want = i % B < m ? x[i % B * D + i / B] : 0;
            CHECK(xt[i] == want, "%zu vectors: (%zu, %zu) is %g, not %g", m, i / B, i % B, xt[i],
                  want);
        }
    }
}

static void test_frame(void)
{
    TEST("frame: products keep the order of the scores, rows have one length");
    enum { ROWS = 300, D = 24 };
    static float w[ROWS * D], bias[ROWS], h[50 * D], block[3 * D + 3], work[WISP_FRAME_SAMPLE + D];
    float mean[D] = { 0 }, square[D] = { 0 };
    normals(w, ROWS * D);
    normals(bias, ROWS);
    for (size_t i = 0; i < 50 * D; i++) h[i] = fmaxf(0, normal() + (float)(i % D) / D) * 3;
    struct wisp_matrix rows = { ROWS, D, { .cols = D, .f32 = w }, bias };
    struct wisp_frame f;
    wisp_frame_place(&f, block, D, 2);
    wisp_frame_observe(mean, square, h, 50, D, 0);
    wisp_frame_measure(&f, &best, mean, square, &rows, work);
    size_t longer = 0, bad = 0;
    double centre[D] = { 0 };
    for (size_t r = 0; r < ROWS; r++) {
        float x[D + 2];
        wisp_frame_row(&f, &best, x, w + r * D, bias[r]);
        for (size_t c = 0; c < D; c++) centre[c] += x[c] / ROWS;
    }
    for (size_t c = 0; c < D; c++)
        CHECK(fabs(centre[c]) < 1e-4 * *f.m, "coordinate %zu: rows around %g", c, centre[c]);
    for (size_t i = 0; i < 10; i++) {
        float q[D + 2], x[D + 2];
        double low = INFINITY, high = -INFINITY;
        wisp_frame_query(&f, q, h + i * D);
        for (size_t r = 0; r < ROWS; r++) {
            wisp_frame_row(&f, &best, x, w + r * D, bias[r]);
            double score = best.dot(h + i * D, w + r * D, D) + bias[r];
            double offset = score - best.dot(q, x, D + 2); /* the same for all rows */
            low = fmin(low, offset), high = fmax(high, offset);
            double length = sqrt(best.dot(x, x, D + 2));
            longer += length > 1.0001 * *f.m, bad += length < 0.9999 * *f.m;
        }
        CHECK(high - low < 1e-3, "sample %zu: offsets from %g to %g", i, low, high);
    }
    CHECK(bad == 0 && longer <= 10 * ROWS / 15, "%zu too short, %zu too long", bad, longer);
}

int main(void)
{
    wisp_kernels_select(&best, NULL, NULL);
    wisp_kernels_select(&plain, "scalar", NULL);
    test_simhash_angle();
    test_minhash_jaccard();
    test_monotone();
    test_keys();
    test_isa();
    test_dwta_sparse();
    test_wta_plain();
    test_minhash_plain();
    test_tables();
    test_reservoir();
    test_hostile();
    test_turn();
    test_frame();
    return test_end();
}

/* The model from its parts to its file: batches, the order of rows, optimisers, the schedule,
 * training runs, saving and loading, and all of it with memory that runs out.
 *
 * Nothing here relies on a default of the option table: every choice is set. */
#include "test.h"
#include "base/mem.h"
#include "model/train.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/wisp_model_XXXXXX", model[64], other[64], text_file[64], cache[80];
static struct wisp_error err;
static wisp_context *ctx;
static uint64_t seed = 20240301;

static size_t below(size_t n)
{
    return (size_t)(test_rand(&seed) % n);
}

/* ---- files and options ---- */

struct bytes {
    unsigned char *p;
    size_t n;
};

static struct bytes slurp(const char *path)
{
    struct bytes b = { 0 };
    struct stat st;
    int fd = open(path, O_RDONLY);
    if (fd < 0) return b;
    if (fstat(fd, &st) == 0 && (b.p = malloc((size_t)st.st_size + 1)))
        b.n = (size_t)read(fd, b.p, (size_t)st.st_size);
    close(fd);
    return b;
}

static bool same_bytes(struct bytes a, struct bytes b)
{
    return a.p && b.p && a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
}

static bool file_is(const char *path, struct bytes want)
{
    struct bytes have = slurp(path);
    bool same = same_bytes(have, want);
    free(have.p);
    return same;
}

static void put_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0, "%s cannot be written", path);
}

/* Caches do not count: one that is complete may stay when memory runs out later. */
static size_t n_files(void)
{
    size_t n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        const char *end = strrchr(e->d_name, '.');
        n += e->d_name[0] != '.' && !(end && strcmp(end, ".wispcache") == 0);
    }
    closedir(d);
    return n;
}

static void set(wisp_config *c, const char *key, const char *value)
{
    CHECK(wisp_config_set(c, key, value, &err) == WISP_OK, "%s", err.text);
}

/* "key value key value ..." on top of settings that say everything. */
static wisp_config *config(const char *more)
{
    static const char base[] = "hidden 8 dropout 0 input-dropout 0 loss softmax epochs 1 batch 32 lr 0.01 optimizer adam "
                               "momentum 0.9 warmup 0.1 decay linear average 0 sampling full seed 3 holdout 0.2 patience 0 "
                               "values unit memory 0 k 1,3,5 propensity 0.55,1.5 format auto cache - min-count 1";
    wisp_config *c;
    char line[1000], *p = line;
    CHECK(wisp_config_create(&c, &err) == WISP_OK, "%s", err.text);
    snprintf(line, sizeof line, "%s %s", base, more);
    for (char *key; (key = strsep(&p, " ")) && *key;) set(c, key, strsep(&p, " "));
    return c;
}

static wisp_data *synth(size_t rows, size_t features, size_t labels, bool test)
{
    struct wisp_synth_shape s = { .n_rows = rows, .n_test = rows / 2, .n_features = features, .n_labels = labels,
                                  .row_features = 12, .row_labels = 2, .seed = 9 };
    wisp_data *d = NULL;
    CHECK(wisp_synth_data(&d, ctx, &s, test, &err) == WISP_OK, "%s", err.text);
    return d;
}

/* ---- batches ---- */

/* Rows: counts; none; one feature that all rows with features have; a far feature; one feature. */
static wisp_data *few_rows(void)
{
    static const int64_t xp[] = { 0, 3, 3, 4, 7, 8 }, yp[] = { 0, 2, 3, 3, 4, 5 };
    static const int32_t xi[] = { 0, 2, 5, 2, 1, 2, 9, 2 }, yi[] = { 0, 3, 1, 3, 6 };
    static const float xv[] = { 1, 2, 3, 4, 5, 1, 7, 1 };
    wisp_data *d;
    CHECK(wisp_data_from_csr(&d, 5, 11, 7, xp, xi, xv, yp, yi, &err) == WISP_OK, "%s", err.text);
    return d;
}

/* What row 'row' should become, plainly: returns the number of features, ids in xi. */
static size_t expect_row(double *v, int32_t *xi, const wisp_data *d, size_t row, const struct wisp_values *how,
                         size_t n_features)
{
    size_t at, n = 0;
    double sum = 0;
    const struct wisp_rows *r = wisp_data_row(d, row, &at);
    for (uint32_t e = r->xp[at]; e < r->xp[at + 1]; e++) {
        if ((size_t)r->xi[e] >= n_features) continue;
        double x = r->xv[e];
        if (how->mode == WISP_VALUES_TFIDF)
            x = (1 + log(x)) * log((double)d->n_rows / (double)d->feature_rows[r->xi[e]]);
        xi[n] = r->xi[e];
        v[n++] = x;
        sum += x * x;
    }
    for (size_t i = 0; i < n && how->mode != WISP_VALUES_RAW; i++) v[i] = sum > 0 ? v[i] / sqrt(sum) : 0;
    return n;
}

/* The lists by feature hold what the rows hold, each feature once. */
static void check_by_feature(const struct wisp_batch *b, size_t n_features)
{
    size_t nnz = b->xp[b->n], *seen = calloc(n_features, sizeof *seen), found = 0;
    CHECK(b->tp[0] == 0 && b->tp[b->n_touched] == nnz, "%u of %zu non-zeros", b->tp[b->n_touched], nnz);
    for (size_t t = 0; t < b->n_touched; t++) {
        CHECK(!seen[b->touched[t]]++, "feature %d is listed twice", b->touched[t]);
        for (uint32_t e = b->tp[t]; e < b->tp[t + 1]; e++) {
            size_t s = (size_t)b->ts[e], i = b->xp[s];
            CHECK(e == b->tp[t] || b->ts[e] > b->ts[e - 1], "samples of feature %d do not ascend", b->touched[t]);
            while (i < b->xp[s + 1] && b->xi[i] != b->touched[t]) i++;
            CHECK(i < b->xp[s + 1] && b->xv[i] == b->tv[e], "feature %d of row %zu", b->touched[t], s);
            found++;
        }
    }
    CHECK(found == nnz, "%zu of %zu non-zeros by feature", found, nnz);
    free(seen);
}

static void test_values(void)
{
    static const size_t rows[] = { 3, 0, 1, 4, 2 }; /* not in order */
    wisp_data *d = few_rows();
    float idf[11];
    wisp_values_idf(idf, d);
    TEST("batch: values, ids and lists by feature");
    CHECK(idf[3] == 0 && fabs(idf[0] - log(5)) < 1e-6 && fabs(idf[2] - log(5 / 4.0)) < 1e-6, "idf");
    for (int mode = 0; mode < 3; mode++)
        for (size_t n_features = 3; n_features <= 11; n_features += 8) {
            struct wisp_values how = { (enum wisp_values_mode)mode, idf }, found;
            CHECK(wisp_values_find(&found.mode, wisp_values_name(how.mode)) && found.mode == how.mode, "names");
            struct wisp_layout l;
            struct wisp_drop none = { 0 };
            bool ok = wisp_layout_init(&l, n_features, 5, true, &err) == WISP_OK;
            for (int twice = 0; twice < 2; twice++) /* the second finds the first one's leavings */
                ok = ok && wisp_layout_fill(&l, d, rows, 5, &how, &none, &err) == WISP_OK;
            CHECK(ok, "%s", err.text);
            for (size_t i = 0; i < 5; i++) {
                double v[8];
                int32_t xi[8];
                size_t n = expect_row(v, xi, d, rows[i], &how, n_features), at = l.batch.xp[i];
                CHECK(l.batch.xp[i + 1] - at == n, "row %zu: %zu features, expected %zu", i, l.batch.xp[i + 1] - at, n);
                for (size_t e = 0; e < n; e++)
                    CHECK(l.batch.xi[at + e] == xi[e] && fabs(l.batch.xv[at + e] - v[e]) <= 1e-6 * fabs(v[e]),
                          "%s row %zu: %d:%g, expected %d:%g", wisp_values_name(how.mode), i, l.batch.xi[at + e],
                          l.batch.xv[at + e], xi[e], v[e]);
            }
            check_by_feature(&l.batch, n_features);
            CHECK(l.batch.yp[5] == 4 && l.batch.yi[0] == 3 && l.batch.yp[4] == 4, "labels from 5 on are left out");
            wisp_layout_clear(&l);
        }
    struct wisp_layout l;
    struct wisp_values raw = { .mode = WISP_VALUES_RAW };
    CHECK(wisp_layout_init(&l, 11, 5, false, &err) == WISP_OK &&
              wisp_layout_fill(&l, d, rows, 5, &raw, &(struct wisp_drop){ 0 }, &err) == WISP_OK && l.batch.yp[5] == 5,
          "labels the model does not know stay when scoring");
    wisp_layout_clear(&l);
    wisp_data_free(d);
}

static wisp_data *even_rows(size_t n, size_t per_row)
{
    int64_t *xp = calloc(n + 1, sizeof *xp);
    int32_t *xi = calloc(n * per_row, sizeof *xi);
    float *xv = calloc(n * per_row, sizeof *xv);
    for (size_t i = 0; i < n * per_row; i++) xi[i] = (int32_t)(i % per_row), xv[i] = 1;
    for (size_t i = 0; i <= n; i++) xp[i] = (int64_t)(i * per_row);
    wisp_data *d;
    CHECK(wisp_data_from_csr(&d, n, per_row, 1, xp, xi, xv, NULL, NULL, &err) == WISP_OK, "%s", err.text);
    free(xp), free(xi), free(xv);
    return d;
}

/* kept[row * per_row + f]: was it kept?  Checks the values too. */
static void drop_rows(char *kept, const wisp_data *d, size_t per_row, struct wisp_drop drop)
{
    struct wisp_layout l;
    struct wisp_values raw = { .mode = WISP_VALUES_RAW };
    size_t *rows = malloc(d->n_rows * sizeof *rows);
    for (size_t i = 0; i < d->n_rows; i++) rows[i] = i;
    CHECK(wisp_layout_init(&l, per_row, 1, true, &err) == WISP_OK &&
              wisp_layout_fill(&l, d, rows, d->n_rows, &raw, &drop, &err) == WISP_OK, "%s", err.text);
    memset(kept, 0, d->n_rows * per_row);
    for (size_t i = 0; i < d->n_rows; i++)
        for (uint32_t e = l.batch.xp[i]; e < l.batch.xp[i + 1]; e++) {
            kept[i * per_row + (size_t)l.batch.xi[e]] = 1;
            CHECK(fabs(l.batch.xv[e] - 1 / (1 - drop.rate)) < 1e-5, "value %g", l.batch.xv[e]);
        }
    check_by_feature(&l.batch, per_row);
    wisp_layout_clear(&l);
    free(rows);
}

/* Rows of length 1 have it after dropping too, unless nothing is left. */
static void check_lengths(const wisp_data *d, size_t per_row)
{
    struct wisp_layout l;
    struct wisp_values unit = { .mode = WISP_VALUES_UNIT };
    struct wisp_drop drop = { 0.5, 5, 7 };
    static const size_t rows[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    CHECK(wisp_layout_init(&l, per_row, 1, true, &err) == WISP_OK &&
              wisp_layout_fill(&l, d, rows, 8, &unit, &drop, &err) == WISP_OK, "%s", err.text);
    for (size_t i = 0; i < 8; i++) {
        double sum = 0;
        for (uint32_t e = l.batch.xp[i]; e < l.batch.xp[i + 1]; e++) sum += l.batch.xv[e] * l.batch.xv[e];
        CHECK(fabs(sum - (l.batch.xp[i + 1] > l.batch.xp[i])) < 1e-5, "row %zu has length %g", i, sqrt(sum));
    }
    wisp_layout_clear(&l);
}

static void test_input_dropout(void)
{
    static const size_t widths[] = { 1, 2, 30 };
    TEST("batch: input dropout is fair and repeatable");
    for (int w = 0; w < 3; w++) {
        size_t per = widths[w], rows = 6000 / per, n = rows * per;
        wisp_data *d = even_rows(rows, per);
        char *a = malloc(n), *b = malloc(n);
        for (double rate = 0.1; rate < 0.9; rate += 0.35) {
            double deviation = sqrt(rate * (1 - rate) * (double)n);
            size_t dropped = 0, late = 0, pairs = 0, twice = 0;
            drop_rows(a, d, per, (struct wisp_drop){ rate, 5, 7 });
            drop_rows(b, d, per, (struct wisp_drop){ rate, 5, 7 });
            CHECK(memcmp(a, b, n) == 0, "the same step drops other features");
            drop_rows(b, d, per, (struct wisp_drop){ rate, 5, 8 });
            for (size_t i = 0; i < n; i++) {
                dropped += !a[i];
                late += !a[i] && i >= n / 2;
                twice += !a[i] && !b[i];
                if (i >= per) pairs += !a[i] && !a[i - per]; /* the same feature of the row before */
            }
            CHECK(fabs((double)dropped - rate * (double)n) < 5 * deviation, "%zu a row, rate %g: %zu of %zu dropped", per,
                  rate, dropped, n);
            CHECK(fabs((double)late - rate * (double)n / 2) < 5 * deviation, "%zu a row, rate %g: %zu of %zu dropped late",
                  per, rate, late, n / 2);
            CHECK(fabs((double)pairs - rate * rate * (double)n) < 8 * deviation,
                  "%zu a row, rate %g: %zu of %zu dropped in two rows running", per, rate, pairs, n);
            CHECK(fabs((double)twice - rate * rate * (double)n) < 5 * deviation, "%zu a row, rate %g: %zu in two steps", per,
                  rate, twice);
        }
        check_lengths(d, per);
        free(a), free(b);
        wisp_data_free(d);
    }
}

/* ---- the order of rows ---- */

enum { N_BLOCKS = 23 };

/* Blocks of different sizes; only what the order looks at. */
static struct wisp_data *blocks_of_rows(void)
{
    static struct wisp_rows blocks[N_BLOCKS];
    static size_t first[N_BLOCKS + 1];
    static uint32_t xp[200], yp[200];
    static struct wisp_data d;
    for (uint32_t i = 0; i < 200; i++) xp[i] = 3 * i, yp[i] = i;
    for (size_t b = 0; b < N_BLOCKS; b++) {
        blocks[b] = (struct wisp_rows){ .n = 1 + (b * 37) % 90, .xp = xp, .yp = yp };
        first[b + 1] = first[b] + blocks[b].n;
    }
    d = (struct wisp_data){ .n_rows = first[N_BLOCKS], .n_blocks = N_BLOCKS, .blocks = blocks, .first = first };
    return &d;
}

static size_t block_of(const struct wisp_data *d, size_t row)
{
    size_t place;
    return (size_t)(wisp_data_row(d, row, &place) - d->blocks);
}

/* An epoch in batches of 'room' into 'out'; returns the rows. */
static size_t epoch(size_t *out, struct wisp_order *o, int number, size_t room)
{
    size_t n = 0, got, short_ones = 0;
    wisp_order_start(o, number);
    while ((got = wisp_order_next(o, out + n, room)) > 0) {
        CHECK(!short_ones, "a short batch before the last");
        short_ones += got < room;
        n += got;
    }
    CHECK(wisp_order_next(o, out + n, room) == 0, "rows after the end");
    return n;
}

static void check_windows(struct wisp_order *o, size_t memory)
{
    size_t row, window = SIZE_MAX, n_windows = 0, used[N_BLOCKS] = { 0 };
    wisp_order_start(o, 1);
    while (wisp_order_next(o, &row, 1)) {
        bool inside = false;
        CHECK(o->n <= o->cap, "%zu rows in room for %zu", o->n, o->cap);
        for (size_t i = o->window_first; i < o->next_block; i++) inside |= o->blocks[i] == block_of(o->d, row);
        CHECK(inside, "row %zu is from outside the window", row);
        if (window == o->window_first) continue;
        window = o->window_first;
        n_windows++;
        size_t bytes = 0;
        for (size_t i = o->window_first; i < o->next_block; i++) {
            used[o->blocks[i]]++;
            bytes += 20 * o->d->blocks[o->blocks[i]].n;
        }
        CHECK(bytes <= memory || o->next_block == o->window_first + 1, "%zu bytes in a window of %zu", bytes, memory);
    }
    for (size_t b = 0; b < N_BLOCKS; b++) CHECK(used[b] == 1, "block %zu is in %zu windows", b, used[b]);
    CHECK(n_windows > 3 || memory > 4000, "%zu windows", n_windows);
}

static void test_order(void)
{
    static const size_t limits[] = { 0, 1, 2500, 4000, 1 << 20 };
    struct wisp_data *d = blocks_of_rows();
    size_t n = d->n_rows, *a = malloc((n + 64) * sizeof *a), *b = malloc((n + 64) * sizeof *b);
    TEST("order: every row once an epoch, whatever the window");
    for (size_t i = 0; i < 5; i++)
        for (int share = 0; share < 2; share++) {
            struct wisp_order o, again;
            size_t *held, n_held, moved = 0;
            char *seen = calloc(n, 1);
            bool ok = wisp_order_init(&o, d, 11, share * 0.25, limits[i], &err) == WISP_OK &&
                      wisp_order_init(&again, d, share ? 11 : 12, share * 0.25, limits[i], &err) == WISP_OK &&
                      wisp_order_held_out(&held, &n_held, &o, &err) == WISP_OK;
            CHECK(ok && o.n_rows + n_held == n, "%zu rows and %zu held out of %zu", o.n_rows, n_held, n);
            CHECK(share ? n_held > n / 8 && n_held < n / 2 : n_held == 0, "%zu of %zu held out", n_held, n);
            for (size_t r = 0; r < n_held; r++) {
                CHECK(r == 0 || held[r] > held[r - 1], "held out rows do not ascend");
                seen[held[r]]++;
            }
            size_t got = epoch(a, &o, 1, 16);
            CHECK(got == o.n_rows, "%zu rows of %zu", got, o.n_rows);
            for (size_t r = 0; r < got; r++) seen[a[r]]++;
            for (size_t r = 0; r < n; r++) CHECK(seen[r] == 1, "row %zu came %d times", r, seen[r]);
            epoch(b, &o, 2, 16);
            for (size_t r = 0; r < got; r++) moved += a[r] != b[r];
            CHECK(moved > got / 2, "epoch 2 is epoch 1 but for %zu rows", moved);
            epoch(b, &o, 1, 7); /* again, in other batches */
            CHECK(memcmp(a, b, got * sizeof *a) == 0, "epoch 1 is not repeatable");
            size_t n_again = epoch(b, &again, 1, 16);
            CHECK((n_again == got && memcmp(a, b, got * sizeof *a) == 0) == share, "same seed, same order; other seed, other");
            check_windows(&o, limits[i] ? limits[i] : SIZE_MAX);
            wisp_free(held), free(seen);
            wisp_order_clear(&o), wisp_order_clear(&again);
        }
    free(a), free(b);
}

/* ---- optimisers and the schedule ---- */

static void test_adam(void)
{
    enum { ROWS = 3, COLS = 21, N = ROWS * COLS, STEPS = 200 };
    float w[N], m[N] = { 0 }, v[N] = { 0 }, g[N];
    uint32_t count[ROWS] = { 0 };
    double dw[N], dm[N] = { 0 }, dv[N] = { 0 }, b1 = 0.9f, b2 = 0.999f;
    TEST("optimizer: adam on rows that always move is plain Adam");
    for (size_t isa = 0; wisp_kernels_isa(isa, NULL); isa++) {
        struct wisp_kernels k;
        struct wisp_optimizer o;
        if (wisp_kernels_select(&k, wisp_kernels_isa(isa, NULL), &err) != WISP_OK) continue;
        CHECK(wisp_optimizer_init(&o, wisp_optimizer_find("adam"), &k, 0, &err) == WISP_OK, "%s", err.text);
        o.lr = 0.003f;
        for (size_t i = 0; i < N; i++) dw[i] = w[i] = test_randf(&seed), dm[i] = dv[i] = m[i] = v[i] = 0;
        memset(count, 0, sizeof count);
        struct wisp_param p = { .rows = ROWS, .cols = COLS, .w = w, .m = m, .v = v, .count = count };
        for (int t = 1; t <= STEPS; t++) {
            for (size_t i = 0; i < N; i++) {
                g[i] = test_randf(&seed) * (i % 5 == 0 ? 1e-4f : 1);
                dm[i] = b1 * dm[i] + (1 - b1) * g[i];
                dv[i] = b2 * dv[i] + (1 - b2) * g[i] * g[i];
                dw[i] -= 0.003 * (dm[i] / (1 - pow(b1, t))) / (sqrt(dv[i] / (1 - pow(b2, t))) + 1e-8);
            }
            for (size_t r = 0; r < ROWS; r++) o.update.row(&o.update, &p, r, g + r * COLS);
        }
        for (size_t i = 0; i < N; i++)
            CHECK(fabs(w[i] - dw[i]) < 2e-5, "%s: %g after %d steps, expected %g", k.name, w[i], STEPS, dw[i]);
        CHECK(count[0] == STEPS && count[ROWS - 1] == STEPS, "%u updates counted", count[0]);
        wisp_optimizer_clear(&o);
    }
}

static void test_schedule(void)
{
    static const char *const decays[] = { "linear", "cosine", "none" };
    static const double warmups[] = { 0, 0.05, 0.5, 1 };
    static const size_t lengths[] = { 1, 2, 7, 100, 1000 };
    TEST("schedule: rises, falls, never negative");
    for (int d = 0; d < 3; d++)
        for (int w = 0; w < 4; w++)
            for (int l = 0; l < 5; l++) {
                struct wisp_plan p = { .lr = 0.5, .warmup = warmups[w], .decay = decays[d] };
                size_t n = lengths[l], top = 0;
                double last = 0, most = 0, at;
                for (size_t t = 0; t < n; t++) {
                    at = wisp_plan_lr(&p, t, n);
                    CHECK(at > 0 && at <= 0.5 * (1 + 1e-12), "%s, warm-up %g: step %zu of %zu has %g", decays[d], warmups[w],
                          t, n, at);
                    if (at > most) most = at, top = t;
                    double warm = warmups[w] * (double)n;
                    if (t && (double)t + 1 < warm) CHECK(at > last, "falls in the warm-up");
                    if (t && (double)t >= warm) CHECK(at <= last * (1 + 1e-12), "rises after the warm-up");
                    last = at;
                }
                CHECK(fabs((double)top - warmups[w] * (double)n) <= 2 || strcmp(decays[d], "none") == 0 || w == 3,
                      "highest at %zu of %zu, warm-up %g", top, n, warmups[w]);
                if (n >= 100 && w < 3) CHECK(most > 0.48, "never reaches lr: %g", most);
                if (n >= 100 && w < 3)
                    CHECK(strcmp(decays[d], "none") == 0 ? last == 0.5 : last < 0.02, "%s ends at %g", decays[d], last);
            }
}

/* ---- a model by hand, saved and loaded ---- */

static struct wisp_model *hand_made(const struct wisp_data *d)
{
    struct wisp_model *m = wisp_zalloc(1, sizeof *m);
    struct wisp_layer_sizes sizes = { 16, d->n_labels, true };
    m->spec = wisp_strdup("input 13, relu, dropout 0.3, dense 9, relu");
    m->options = wisp_strdup("seed=3\n");
    m->loss = wisp_loss_find("bce");
    m->idf = wisp_alloc(d->n_features, sizeof *m->idf);
    wisp_values_idf(m->idf, d);
    m->values = (struct wisp_values){ WISP_VALUES_TFIDF, m->idf };
    m->label_rows = d->label_rows;
    m->n_train = d->n_rows;
    m->text = true;
    CHECK(wisp_names_init(&m->labels, d->labels.text, d->labels.bytes, true, &err) == WISP_OK &&
              wisp_names_init(&m->vocab, d->vocab.text, d->vocab.bytes, true, &err) == WISP_OK &&
              wisp_net_plan(&m->net, m->spec, d->n_features, d->n_labels, &sizes, &err) == WISP_OK &&
              wisp_net_alloc_params(&m->net, &err) == WISP_OK, "%s", err.text);
    for (size_t i = 0; i < wisp_net_param_floats(&m->net); i++) m->net.params[i] = test_randf(&seed);
    return m;
}

static bool same_names(const struct wisp_names *a, const struct wisp_names *b)
{
    return a->n == b->n && a->bytes == b->bytes && memcmp(a->text, b->text, a->bytes) == 0;
}

static wisp_data *words(void)
{
    static const char text[] = "__label__fruit red apple apple pie\n__label__fruit __label__sour green apple\n"
                               "__label__sour lemon\nno label here\n__label__caf\xc3\xa9 coffee and pie\n__label__empty\n";
    wisp_config *c = config("format fasttext");
    wisp_data *d;
    CHECK(wisp_data_parse(&d, ctx, text, sizeof text - 1, "words", c, NULL, &err) == WISP_OK, "%s", err.text);
    wisp_config_free(c);
    return d;
}

static void test_round_trip(void)
{
    TEST("model: saved and loaded is the same, bit for bit");
    wisp_data *d = words();
    struct wisp_model *m = hand_made(d), *l = NULL;
    enum { K = 6 };
    int32_t labels[2][6 * K];
    float scores[2][6 * K];
    CHECK(wisp_model_save(m, model, 12.5, 2, &err) == WISP_OK && wisp_model_load(&l, model, &err) == WISP_OK, "%s", err.text);
    if (!l) return;
    for (int i = 0; i < m->net.n_layers; i++)
        for (int k = 0; k < m->net.layers[i].n_params; k++) {
            const struct wisp_param *p = &m->net.layers[i].params[k], *q = &l->net.layers[i].params[k];
            CHECK(strcmp(p->name, q->name) == 0 && p->rows == q->rows && p->cols == q->cols &&
                      memcmp(p->w, q->w, p->rows * p->cols * sizeof *p->w) == 0, "%s differs", p->name);
        }
    CHECK(same_names(&m->labels, &l->labels) && same_names(&m->vocab, &l->vocab) && l->labels.n == 4, "names differ");
    CHECK(memcmp(m->idf, l->values.idf, d->n_features * sizeof(float)) == 0, "idf differs");
    CHECK(memcmp(d->label_rows, l->label_rows, d->n_labels * sizeof(int64_t)) == 0, "label counts differ");
    CHECK(strcmp(m->spec, l->spec) == 0 && m->loss == l->loss && m->values.mode == l->values.mode &&
              m->n_train == l->n_train && l->text && !l->pairs && strcmp(m->options, l->options) == 0, "metadata differs");
    size_t bytes;
    const char *name = wisp_model_label_name(l, 2, &bytes);
    CHECK(name && bytes == 5 && memcmp(name, "caf\xc3\xa9", 5) == 0 && !wisp_model_label_name(l, 4, &bytes), "label name");
    CHECK(strstr(wisp_model_describe(l), "\"valid_p@1\":\"12.500000\""), "%s", wisp_model_describe(l));
    memset(labels, 77, sizeof labels);
    for (int i = 0; i < 2; i++)
        CHECK(wisp_predict(labels[i], scores[i], ctx, i ? l : m, d, 0, 6, K, &err) == WISP_OK, "%s", err.text);
    CHECK(memcmp(labels[0], labels[1], sizeof labels[0]) == 0 && memcmp(scores[0], scores[1], sizeof scores[0]) == 0,
          "predictions differ");
    CHECK(labels[0][3] >= 0 && labels[0][4] == -1 && scores[0][4] == 0, "places past the last label");
    CHECK(wisp_predict(labels[0], scores[0], ctx, l, d, 2, 3, K, &err) == WISP_OK &&
              memcmp(labels[0], labels[1] + 2 * K, 3 * K * 4) == 0, "rows 2 to 4 by themselves");
    CHECK(wisp_predict(labels[0], scores[0], ctx, l, d, 6, 0, K, &err) == WISP_OK, "no rows");
    CHECK(wisp_predict(labels[0], scores[0], ctx, l, d, 5, 2, K, &err) == WISP_EINVAL, "row 6 of 6");
    CHECK(wisp_predict(labels[0], scores[0], ctx, l, d, 0, 1, 0, &err) == WISP_EINVAL, "k = 0");
    struct bytes first = slurp(model);
    CHECK(wisp_model_save(l, other, 12.5, 2, &err) == WISP_OK && file_is(other, first), "saved again it differs");
    free(first.p);
    wisp_model_free(m), wisp_model_free(l);
    wisp_data_free(d);
    unlink(other);
}

static void test_bit_flips(void)
{
    TEST("model: a file with any bit flipped is refused");
    struct bytes b = slurp(model);
    struct wisp_model *m;
    int fd = open(model, O_RDWR);
    size_t step = b.n / 6000 + 1, tried = 0;
    for (size_t at = 0; fd >= 0 && at < b.n; at += at < 400 ? 1 : step)
        for (int bit = at < 400 ? 0 : (int)below(8), last = at < 400 ? 7 : bit; bit <= last; bit++, tried++) {
            unsigned char byte = b.p[at] ^ (unsigned char)(1 << bit);
            wisp_status st = WISP_OK;
            if (pwrite(fd, &byte, 1, (off_t)at) == 1) st = wisp_model_load(&m, model, &err);
            CHECK(st == WISP_EMODEL && !m && err.text[0], "byte %zu bit %d: status %d", at, bit, st);
            if (st == WISP_OK) wisp_model_free(m);
            CHECK(pwrite(fd, &b.p[at], 1, (off_t)at) == 1, "cannot write");
        }
    CHECK(tried > 3000, "%zu flips tried", tried);
    CHECK(wisp_model_load(&m, model, &err) == WISP_OK, "%s", err.text);
    wisp_model_free(m);
    close(fd);
    free(b.p);
}

/* ---- training ---- */

struct told { /* what on_progress was told at the ends of epochs */
    int epochs, stop_at, best;
    double valid[64], loss[64];
};

static int listen(void *arg, const wisp_progress *p)
{
    struct told *t = arg;
    if (!p->epoch_ended) return 0;
    t->valid[t->epochs] = p->valid;
    t->loss[t->epochs++] = p->loss;
    if (p->best) t->best = p->epoch;
    return p->epoch == t->stop_at;
}

static wisp_status train(struct told *t, wisp_context *with, const char *more, const wisp_data *d, const wisp_data *valid,
                         double *reported)
{
    wisp_config *c = config(more);
    wisp_report *r = NULL;
    struct told nobody = { 0 };
    err.text[0] = 0;
    wisp_status st = wisp_train(&r, with, c, d, valid, model, listen, t ? t : &nobody, &err);
    CHECK((st == WISP_OK) == (r != NULL), "status %d, report %p", st, (void *)r);
    if (reported) *reported = -2;
    if (r && reported) wisp_report_get(r, "valid_p@1", reported);
    wisp_report_free(r);
    wisp_config_free(c);
    return st;
}

static void test_threads(void)
{
    static const char *const runs[] = {
        "hidden 33,17 dropout 0.2 input-dropout 0.3 epochs 2 average 0.5",
        "hidden 20 optimizer adagrad lr 0.05 loss bce batch 50 values raw",
        "hidden 16 optimizer sgd lr 0.5 decay cosine memory 4k",
    };
    static const char *const isas[] = { "scalar", "" };
    TEST("train: 1, 2 and 4 threads write the same bytes");
    wisp_data *d = synth(500, 300, 400, false);
    for (int i = 0; i < 6; i++) {
        struct bytes one = { 0 };
        setenv("WISP_ISA", isas[i % 2], 1);
        for (int threads = 1; threads <= 4; threads *= 2) {
            wisp_context *c;
            CHECK(wisp_context_create(&c, threads, &err) == WISP_OK, "%s", err.text);
            unlink(model);
            CHECK(train(NULL, c, runs[i / 2], d, NULL, NULL) == WISP_OK, "%s", err.text);
            if (threads == 1) one = slurp(model);
            CHECK(one.n > 1000 && file_is(model, one), "'%s' %s: %d threads differ from 1", runs[i / 2], isas[i % 2], threads);
            wisp_context_free(c);
        }
        free(one.p);
    }
    unsetenv("WISP_ISA");
    wisp_data_free(d);
}

static wisp_data *huge_values(float value)
{
    enum { N = 40 };
    int64_t p[N + 1];
    int32_t xi[N], yi[N];
    float xv[N];
    for (int i = 0; i <= N; i++) p[i] = i;
    for (int i = 0; i < N; i++) xi[i] = i % 5, yi[i] = i % 3, xv[i] = value;
    wisp_data *d;
    CHECK(wisp_data_from_csr(&d, N, 5, 3, p, xi, xv, p, yi, &err) == WISP_OK, "%s", err.text);
    return d;
}

static void test_numeric(void)
{
    static const char *const runs[] = {
        "values raw optimizer sgd lr 1000 batch 4 epochs 3 holdout 0.2",
        "values raw optimizer sgd lr 1000 batch 4 epochs 3 holdout 0",
        "values raw optimizer sgd lr 1000 batch 40 epochs 1 warmup 0 holdout 0.2", /* after the only step */
        "values raw optimizer sgd lr 1000 batch 40 epochs 1 warmup 0 holdout 0",
        "values raw optimizer sgd lr 1000 batch 40 epochs 1 warmup 0 holdout 0 loss bce",
    };
    static const char old[] = "an older model";
    TEST("train: a loss or weights that are no numbers leave the file alone");
    put_file(model, old);
    size_t files = n_files();
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        wisp_data *d = huge_values(i < 2 ? 1e37f : 3e38f);
        wisp_status st = train(NULL, ctx, runs[i], d, NULL, NULL);
        CHECK(st == WISP_ENUMERIC && err.text[0], "'%s': %d '%s'", runs[i], st, err.text);
        CHECK(file_is(model, (struct bytes){ (unsigned char *)old, sizeof old - 1 }), "'%s': the file changed", runs[i]);
        CHECK(n_files() == files, "%zu files", n_files());
        wisp_data_free(d);
    }
}

static double eval_p1(const wisp_data *d)
{
    struct wisp_model *m = NULL;
    wisp_config *c = config("");
    wisp_report *r = NULL;
    double p = -3;
    CHECK(wisp_model_load(&m, model, &err) == WISP_OK && wisp_eval(&r, ctx, m, d, c, &err) == WISP_OK, "%s", err.text);
    if (r) wisp_report_get(r, "p@1", &p);
    wisp_report_free(r);
    wisp_model_free(m);
    wisp_config_free(c);
    return p;
}

static void test_validation(void)
{
    wisp_data *d = synth(400, 200, 30, false), *v = synth(400, 200, 30, true);
    double reported;
    TEST("train: the best epoch is the one on disk");
    bool earlier = false;
    for (int i = 0; i < 4; i++) {
        struct told t = { 0 };
        char more[120];
        double best = -1;
        snprintf(more, sizeof more, "epochs 6 optimizer sgd lr 8 momentum 0.5 decay none batch 20 seed %d", i);
        CHECK(train(&t, ctx, more, d, v, &reported) == WISP_OK, "%s", err.text);
        for (int e = 0; e < t.epochs; e++) best = fmax(best, t.valid[e]);
        earlier |= t.best < t.epochs;
        CHECK(t.epochs == 6 && best > 0 && best == reported && t.valid[t.best - 1] == best, "%d epochs, best %g, reported %g",
              t.epochs, best, reported);
        double p1 = eval_p1(v);
        CHECK(fabs(p1 - reported) < 1e-9, "the model on disk has P@1 %g, reported %g", p1, reported);
        CHECK(access("model.state", F_OK) != 0, "the state is still there"); /* we are in the folder */
    }
    CHECK(earlier, "no run had its best epoch before its last: the test sees nothing");

    TEST("train: it learns, and stops when it learns no more");
    struct told t = { 0 };
    CHECK(train(&t, ctx, "epochs 12 lr 0.02 batch 20", d, v, &reported) == WISP_OK, "%s", err.text);
    CHECK(t.epochs == 12 && t.loss[11] < 0.7 * t.loss[0], "loss %g -> %g", t.loss[0], t.loss[11]);
    for (int patience = 1; patience <= 3; patience++) {
        char more[120];
        t = (struct told){ 0 };
        snprintf(more, sizeof more, "epochs 20 lr 1e-9 patience %d", patience);
        CHECK(train(&t, ctx, more, d, patience == 2 ? NULL : v, &reported) == WISP_OK, "%s", err.text);
        CHECK(t.epochs == 1 + patience && t.best == 1, "patience %d: %d epochs, best %d", patience, t.epochs, t.best);
    }
    t = (struct told){ 0 };
    CHECK(train(&t, ctx, "epochs 3 holdout 0", d, NULL, &reported) == WISP_OK && t.epochs == 3 && t.best == 3 && reported == -1,
          "without validation rows the last epoch is kept: %d", t.best);
    wisp_data *empty;
    t = (struct told){ 0 };
    static const int64_t zero[1];
    CHECK(wisp_data_from_csr(&empty, 0, 200, 30, zero, NULL, NULL, NULL, NULL, &err) == WISP_OK &&
              train(&t, ctx, "epochs 3", d, empty, &reported) == WISP_OK && t.best == 3 && reported == -1,
          "an empty validation set is none: best %d, %s", t.best, err.text);
    wisp_data_free(empty);
    wisp_data_free(d), wisp_data_free(v);
}

static void test_resume(void)
{
    static const char run[] = "epochs 4 input-dropout 0.2 dropout 0.1 average 0.6 batch 24";
    char more[200], state[80];
    wisp_data *d = synth(300, 150, 40, false);
    struct bytes whole;
    snprintf(state, sizeof state, "%s.state", model);
    snprintf(more, sizeof more, "%s resume yes", run);
    TEST("train: stopped and resumed is the same model");
    unlink(model);
    CHECK(train(NULL, ctx, run, d, NULL, NULL) == WISP_OK, "%s", err.text);
    whole = slurp(model);
    for (int stop = 1; stop <= 4; stop++) {
        struct told t = { .stop_at = stop };
        unlink(model);
        wisp_status st = train(&t, ctx, run, d, NULL, NULL);
        if (stop == 4) { /* nothing was left to do */
            CHECK(st == WISP_OK && access(state, F_OK) != 0 && file_is(model, whole), "stopped at the end: %d %s", st, err.text);
            break;
        }
        CHECK(st == WISP_ESTOPPED && access(state, F_OK) == 0, "stopped in epoch %d: %d", stop, st);
        CHECK(train(NULL, ctx, "epochs 4 resume yes", d, NULL, NULL) == WISP_EMODEL, "another run's state was taken");
        CHECK(train(NULL, ctx, more, d, NULL, NULL) == WISP_OK, "%s", err.text);
        CHECK(file_is(model, whole) && access(state, F_OK) != 0, "resumed after epoch %d it differs", stop);
    }
    free(whole.p);
    wisp_data_free(d);
}

/* ---- memory that runs out ---- */

static wisp_config *fail_config;
static wisp_data *fail_data, *out_data;
static struct wisp_model *fail_model, *out_model;
static wisp_report *out_report;

static wisp_status do_open(void)
{
    return wisp_data_open(&out_data, ctx, text_file, fail_config, NULL, &err);
}
static wisp_status do_open_anew(void)
{
    unlink(cache);
    return do_open();
}
static wisp_status do_train(void)
{
    return wisp_train(&out_report, ctx, fail_config, fail_data, NULL, model, NULL, NULL, &err);
}
static wisp_status do_save(void)
{
    return wisp_model_save(fail_model, model, 1, 1, &err);
}
static wisp_status do_load(void)
{
    return wisp_model_load(&out_model, model, &err);
}
static wisp_status do_predict(void)
{
    int32_t labels[6 * 3];
    float scores[6 * 3];
    return wisp_predict(labels, scores, ctx, fail_model, fail_data, 0, 6, 3, &err);
}
static wisp_status do_eval(void)
{
    return wisp_eval(&out_report, ctx, fail_model, fail_data, fail_config, &err);
}

static void forget(void)
{
    wisp_data_free(out_data), wisp_model_free(out_model), wisp_report_free(out_report);
    out_data = NULL, out_model = NULL, out_report = NULL;
}

/* Fails the n-th allocation for every n until it succeeds.  'after': what the file may hold already
 * when memory runs out late, in the report. */
static void fail_each(const char *name, wisp_status (*fn)(void), struct bytes after)
{
    static const char junk[] = "x"; /* outputs must not be left as they were */
    struct bytes before = slurp(model);
    size_t files = n_files();
    long live = wisp_mem_live, n = 0;
    TEST(name);
    for (;; n += n < 300 ? 1 : 17) {
        out_data = (wisp_data *)junk, out_model = (struct wisp_model *)junk, out_report = (wisp_report *)junk;
        bool is_open = fn == do_open || fn == do_open_anew, is_load = fn == do_load, reports = fn == do_train || fn == do_eval;
        err.text[0] = 0;
        wisp_mem_budget = n;
        wisp_status st = fn();
        wisp_mem_budget = -1;
        if (!is_open) out_data = NULL;
        if (!is_load) out_model = NULL;
        if (!reports) out_report = NULL;
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM && strncmp(err.text, "out of memory", 13) == 0, "after %ld: %d '%s'", n, st, err.text);
        CHECK(!out_data && !out_model && !out_report, "after %ld: an output is set", n);
        CHECK(wisp_mem_live == live, "after %ld: %ld blocks lost", n, wisp_mem_live - live);
        CHECK(file_is(model, before) || (after.p && file_is(model, after)), "after %ld: the model file changed", n);
        CHECK(n_files() == files, "after %ld: %zu files, there were %zu", n, n_files(), files);
        if (st != WISP_ENOMEM || n > 20000) break;
    }
    CHECK(n >= 3, "only %ld allocations", n);
    forget();
    CHECK(wisp_mem_live == live, "%ld blocks lost", wisp_mem_live - live);
    free(before.p);
}

static void test_memory(void)
{
    static const char old[] = "an older model";
    struct bytes none = { 0 };
    put_file(text_file, "4 6 3\n0,1 0:1 3:2\n2 1:1\n 5:1 2:3\n1 0:2\n");
    put_file(model, old);
    fail_config = config("format xc cache -");
    fail_each("memory: opening a data file", do_open, none);
    set(fail_config, "cache", "");
    fail_each("memory: opening a data file into a cache", do_open_anew, none);
    CHECK(access(cache, F_OK) == 0, "there is no cache");
    fail_each("memory: opening a cache", do_open, none);
    wisp_config_free(fail_config);

    fail_data = words();
    fail_config = config("batch 3 holdout 0.1 values tfidf hidden 5 average 1 seed 3");
    CHECK(do_train() == WISP_OK, "%s", err.text);
    forget();
    struct bytes trained = slurp(model);
    put_file(model, old);
    fail_each("memory: training", do_train, trained);
    CHECK(file_is(model, trained), "trained after failures it differs");
    fail_each("memory: loading a model", do_load, none);
    CHECK(wisp_model_load(&fail_model, model, &err) == WISP_OK, "%s", err.text);
    fail_each("memory: predicting", do_predict, none);
    fail_each("memory: evaluating", do_eval, none);
    wisp_model_free(fail_model);
    fail_model = hand_made(fail_data);
    fail_each("memory: saving a model", do_save, none);
    wisp_model_free(fail_model);
    wisp_data_free(fail_data);
    wisp_config_free(fail_config);
    free(trained.p);
    unlink(cache);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    CHECK(mkdtemp(folder) && chdir(folder) == 0, "no folder");
    snprintf(model, sizeof model, "%s/model", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    snprintf(text_file, sizeof text_file, "%s/rows.txt", folder);
    snprintf(cache, sizeof cache, "%s.wispcache", text_file);
    CHECK(wisp_context_create(&ctx, 2, &err) == WISP_OK, "%s", err.text);
    test_values();
    test_input_dropout();
    test_order();
    test_adam();
    test_schedule();
    test_round_trip();
    test_bit_flips();
    test_threads();
    test_numeric();
    test_validation();
    test_resume();
    test_memory();
    wisp_context_free(ctx);
    TEST("model: nothing is left");
    CHECK(wisp_mem_live == 0, "%ld blocks", (long)wisp_mem_live);
    unlink(model), unlink(text_file);
    CHECK(chdir("/") == 0 && rmdir(folder) == 0, "%s is not empty", folder);
    return test_end();
}

/* The parts of a model: batches, the order of rows, optimisers, the schedule; then a whole one
 * saved, loaded and damaged. */
#include "model_rig.h"

#include <math.h>

static size_t below(size_t n)
{
    return (size_t)(test_rand(&seed) % n);
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
static size_t expect_row(double *v, int32_t *xi, const wisp_data *d, size_t row,
                         const struct wisp_values *how, size_t n_features)
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
    for (size_t i = 0; i < n && how->mode != WISP_VALUES_RAW; i++)
        v[i] = sum > 0 ? v[i] / sqrt(sum) : 0;
    return n;
}

/* The lists by feature hold what the rows hold, each feature once. */
static void check_by_feature(const struct wisp_batch *b, size_t n_features)
{
    size_t nnz = b->xp[b->n], *seen = calloc(n_features, sizeof *seen), found = 0;
    CHECK(b->tp[0] == 0 && b->tp[b->n_touched] == nnz, "%u of %zu non-zeros", b->tp[b->n_touched],
          nnz);
    for (size_t t = 0; t < b->n_touched; t++) {
        CHECK(!seen[b->touched[t]]++, "feature %d is listed twice", b->touched[t]);
        for (uint32_t e = b->tp[t]; e < b->tp[t + 1]; e++) {
            size_t s = (size_t)b->ts[e], i = b->xp[s];
            CHECK(e == b->tp[t] || b->ts[e] > b->ts[e - 1], "samples of feature %d do not ascend",
                  b->touched[t]);
            while (i < b->xp[s + 1] && b->xi[i] != b->touched[t]) i++;
            CHECK(i < b->xp[s + 1] && b->xv[i] == b->tv[e], "feature %d of row %zu", b->touched[t],
                  s);
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
        for (size_t n_features = 5; n_features <= 11; n_features += 6) { /* 5: just below an id */
            struct wisp_values how = { .mode = (enum wisp_values_mode)mode, .idf = idf }, found;
            CHECK(wisp_values_find(&found.mode, wisp_values_name(how.mode)) &&
                      found.mode == how.mode,
                  "names");
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
                CHECK(l.batch.xp[i + 1] - at == n, "row %zu: %zu features, expected %zu", i,
                      l.batch.xp[i + 1] - at, n);
                for (size_t e = 0; e < n; e++)
                    CHECK(l.batch.xi[at + e] == xi[e] &&
                              fabs(l.batch.xv[at + e] - v[e]) <= 1e-6 * fabs(v[e]),
                          "%s row %zu: %d:%g, expected %d:%g", wisp_values_name(how.mode), i,
                          l.batch.xi[at + e], l.batch.xv[at + e], xi[e], v[e]);
            }
            check_by_feature(&l.batch, n_features);
            CHECK(l.batch.yp[5] == 4 && l.batch.yi[0] == 3 && l.batch.yp[4] == 4,
                  "labels from 5 on are left out");
            wisp_layout_clear(&l);
        }
    struct wisp_layout l;
    struct wisp_values raw = { .mode = WISP_VALUES_RAW };
    CHECK(wisp_layout_init(&l, 11, 5, false, &err) == WISP_OK &&
              wisp_layout_fill(&l, d, rows, 5, &raw, &(struct wisp_drop){ 0 }, &err) == WISP_OK &&
              l.batch.yp[5] == 5,
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
    CHECK(wisp_data_from_csr(&d, n, per_row, 1, xp, xi, xv, NULL, NULL, &err) == WISP_OK, "%s",
          err.text);
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
              wisp_layout_fill(&l, d, rows, d->n_rows, &raw, &drop, &err) == WISP_OK,
          "%s", err.text);
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
              wisp_layout_fill(&l, d, rows, 8, &unit, &drop, &err) == WISP_OK,
          "%s", err.text);
    for (size_t i = 0; i < 8; i++) {
        double sum = 0;
        for (uint32_t e = l.batch.xp[i]; e < l.batch.xp[i + 1]; e++)
            sum += l.batch.xv[e] * l.batch.xv[e];
        CHECK(fabs(sum - (l.batch.xp[i + 1] > l.batch.xp[i])) < 1e-5, "row %zu has length %g", i,
              sqrt(sum));
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
                if (i >= per)
                    pairs += !a[i] && !a[i - per]; /* the same feature of the row before */
            }
            CHECK(fabs((double)dropped - rate * (double)n) < 5 * deviation,
                  "%zu a row, rate %g: %zu of %zu dropped", per, rate, dropped, n);
            CHECK(fabs((double)late - rate * (double)n / 2) < 5 * deviation,
                  "%zu a row, rate %g: %zu of %zu dropped late", per, rate, late, n / 2);
            CHECK(fabs((double)pairs - rate * rate * (double)n) < 8 * deviation,
                  "%zu a row, rate %g: %zu of %zu dropped in two rows running", per, rate, pairs,
                  n);
            CHECK(fabs((double)twice - rate * rate * (double)n) < 5 * deviation,
                  "%zu a row, rate %g: %zu in two steps", per, rate, twice);
        }
        check_lengths(d, per);
        free(a), free(b);
        wisp_data_free(d);
    }
}

/* ---- the order of rows ---- */

enum { N_ROWS = 50000 }; /* 7 blocks */

/* Row r has the one feature r: rows can be told apart.  Mapped from a cache file, as large sets
 * are. */
static struct wisp_data *mapped_rows(void)
{
    char *text = malloc(N_ROWS * 16), *p = text;
    struct wisp_data *d = NULL;
    struct wisp_read_options o = {
        .format = "xc", .index_base = -1, .no_header = true, .use_cache = true, .memory = 1 << 30
    };
    size_t copied = wisp_map_copy_max;
    wisp_map_copy_max = 0;
    for (int r = 0; r < N_ROWS; r++) p += sprintf(p, "0 %d:1\n", r);
    FILE *f = fopen("rows.txt", "w");
    CHECK(f && fwrite(text, 1, (size_t)(p - text), f) == (size_t)(p - text) && fclose(f) == 0,
          "rows.txt");
    CHECK(wisp_data_read(&d, ctx, "rows.txt", &o, &err) == WISP_OK && d->map.slot &&
              d->n_blocks == 7,
          "%s", err.text);
    wisp_map_copy_max = copied;
    unlink("rows.txt"), unlink("rows.txt.wispcache");
    free(text);
    return d;
}

static size_t feature_of(const struct wisp_data *d, size_t row)
{
    size_t at;
    const struct wisp_rows *r = wisp_data_row(d, row, &at);
    return r->xp[at + 1] - r->xp[at] == 1 ? (size_t)r->xi[r->xp[at]] : SIZE_MAX;
}

/* An epoch in batches of 'room' into 'out'; returns the rows. */
static size_t epoch(size_t *out, struct wisp_order *o, int number, size_t room)
{
    size_t n = 0, got, batches = 0, announced = wisp_order_steps(o, number, room);
    wisp_order_start(o, number);
    while ((got = wisp_order_next(o, out + n, room)) > 0) {
        for (size_t i = n; i < n + got; i++)
            CHECK(feature_of(&o->d, out[i]) == out[i], "row %zu has the feature of another",
                  out[i]);
        n += got;
        batches++;
    }
    CHECK(batches == announced, "%zu batches, %zu announced", batches, announced);
    CHECK(wisp_order_next(o, out + n, room) == 0, "rows after the end");
    return n;
}

/* Batches more than the rows alone would need: one at most for each further window. */
static size_t more_batches(struct wisp_order *o, size_t room)
{
    return wisp_order_steps(o, 1, room) - (o->n_rows + room - 1) / room;
}

static void test_order(void)
{
    static const size_t limits[] = { 0, 1, 200000, 400000, 1 << 30 };
    struct wisp_data *d = mapped_rows();
    size_t n = d->n_rows, *a = malloc((n + 64) * sizeof *a), *b = malloc((n + 64) * sizeof *b);
    TEST("order: every row once an epoch, whatever the window");
    for (size_t i = 0; i < 5; i++)
        for (int share = 0; share < 2; share++) {
            struct wisp_order o, again;
            struct wisp_data *held = NULL;
            size_t moved = 0, left = 0;
            char *seen = calloc(n, 1);
            bool ok = wisp_order_init(&o, d, 11, 11, share * 0.25, limits[i], &err) == WISP_OK &&
                      wisp_order_init(&again, d, share ? 11 : 12, share ? 11 : 12, share * 0.25,
                                      limits[i], &err) == WISP_OK &&
                      wisp_order_held_out(&held, &o, &err) == WISP_OK;
            CHECK(ok && o.n_rows + held->n_rows == n, "%zu rows and %zu held out of %zu", o.n_rows,
                  held->n_rows, n);
            CHECK(share ? held->n_rows > n / 5 && held->n_rows < n / 3 : held->n_rows == 0,
                  "%zu of %zu held out", held->n_rows, n);
            size_t got = epoch(a, &o, 1, 100);
            CHECK(got == o.n_rows, "%zu rows of %zu", got, o.n_rows);
            for (size_t r = 0; r < got; r++) seen[a[r]]++;
            for (size_t r = 0; r < n; r++) { /* the others are held out, in order */
                CHECK(seen[r] <= 1, "row %zu came %d times", r, seen[r]);
                if (!seen[r])
                    CHECK(feature_of(held, left++) == r, "row %zu is not among those held out", r);
            }
            epoch(b, &o, 2, 100);
            for (size_t r = 0; r < got; r++) moved += a[r] != b[r];
            CHECK(moved > got / 2, "epoch 2 is epoch 1 but for %zu rows", moved);
            epoch(b, &o, 1, 7); /* again, in other batches */
            CHECK(memcmp(a, b, got * sizeof *a) == 0, "epoch 1 is not repeatable");
            wisp_order_ready(&o, 2), wisp_order_ready(&o, 1);
            CHECK(epoch(b, &o, 1, 100) == got && memcmp(a, b, got * sizeof *a) == 0,
                  "epoch 1 is another when it is made ready before");
            wisp_order_ready(&o, 2);
            CHECK(epoch(b, &o, 1, 100) == got && memcmp(a, b, got * sizeof *a) == 0,
                  "epoch 1 is another when epoch 2 is ready");
            size_t n_again = epoch(b, &again, 1, 100);
            CHECK((n_again == got && memcmp(a, b, got * sizeof *a) == 0) == share,
                  "same seed, same order; other seed, other");
            size_t most = limits[i] == 1        ? 6
                          : limits[i] == 200000 ? 6
                          : limits[i] == 400000 ? 3
                                                : 0;
            CHECK(o.window_bytes <=
                      (limits[i] > 200000 ? limits[i] : 200000), /* one block at the least */
                  "a window of %zu bytes under a limit of %zu", o.window_bytes, limits[i]);
            CHECK(more_batches(&o, 100) <= most && (most == 0) == (more_batches(&o, 100) == 0),
                  "%zu more batches", more_batches(&o, 100));
            wisp_data_free(held), free(seen);
            wisp_order_clear(&o), wisp_order_clear(&again);
        }
    wisp_data_free(d);
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
        CHECK(wisp_optimizer_init(&o, wisp_optimizer_find("adam"), &k, 0, &err) == WISP_OK, "%s",
              err.text);
        o.lr = 0.003f;
        for (size_t i = 0; i < N; i++)
            dw[i] = w[i] = test_randf(&seed), dm[i] = dv[i] = m[i] = v[i] = 0;
        memset(count, 0, sizeof count);
        struct wisp_param p = {
            .rows = ROWS, .cols = COLS, .w = w, .m = m, .v = v, .count = count
        };
        for (int t = 1; t <= STEPS; t++) {
            for (size_t i = 0; i < N; i++) {
                g[i] = test_randf(&seed) * (i % 5 == 0 ? 1e-4f : 1);
                dm[i] = b1 * dm[i] + (1 - b1) * g[i];
                dv[i] = b2 * dv[i] + (1 - b2) * g[i] * g[i];
                dw[i] -=
                    0.003 * (dm[i] / (1 - pow(b1, t))) / (sqrt(dv[i] / (1 - pow(b2, t))) + 1e-8);
            }
            for (size_t r = 0; r < ROWS; r++) o.update.row(&o.update, &p, r, g + r * COLS);
        }
        for (size_t i = 0; i < N; i++)
            CHECK(fabs(w[i] - dw[i]) < 2e-5, "%s: %g after %d steps, expected %g", k.name, w[i],
                  STEPS, dw[i]);
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
                struct wisp_plan p = { .lr = 0.5,
                                       .warmup = warmups[w],
                                       .decay = wisp_decay_find(decays[d]) };
                size_t n = lengths[l], top = 0;
                double last = 0, most = 0, at;
                for (size_t t = 0; t < n; t++) {
                    at = wisp_plan_lr(&p, t, n);
                    CHECK(at > 0 && at <= 0.5 * (1 + 1e-12),
                          "%s, warm-up %g: step %zu of %zu has %g", decays[d], warmups[w], t, n,
                          at);
                    if (at > most) most = at, top = t;
                    double warm = warmups[w] * (double)n;
                    if (t && (double)t + 1 < warm) CHECK(at > last, "falls in the warm-up");
                    if (t && (double)t >= warm)
                        CHECK(at <= last * (1 + 1e-12), "rises after the warm-up");
                    last = at;
                }
                CHECK(fabs((double)top - warmups[w] * (double)n) <= 2 ||
                          strcmp(decays[d], "none") == 0 || w == 3,
                      "highest at %zu of %zu, warm-up %g", top, n, warmups[w]);
                if (n >= 100 && w < 3) CHECK(most > 0.48, "never reaches lr: %g", most);
                if (n >= 100 && w < 3)
                    CHECK(strcmp(decays[d], "none") == 0 ? last == 0.5 : last < 0.02,
                          "%s ends at %g", decays[d], last);
            }
}

/* ---- a model by hand, saved and loaded ---- */

static bool same_names(const struct wisp_names *a, const struct wisp_names *b)
{
    return a->n == b->n && a->bytes == b->bytes && memcmp(a->text, b->text, a->bytes) == 0;
}

static void test_round_trip(void)
{
    TEST("model: saved and loaded is the same, bit for bit");
    wisp_data *d = words();
    struct wisp_model *m = hand_made(d), *l = NULL;
    enum { K = 6 };
    int32_t labels[2][6 * K];
    float scores[2][6 * K];
    CHECK(wisp_model_save(m, model, 12.5, 2, NULL, &err) == WISP_OK &&
              wisp_model_load(&l, model, &err) == WISP_OK,
          "%s", err.text);
    if (!l) return;
    for (size_t i = 0; i < m->net.list.n; i++) {
        const struct wisp_param *p = &m->net.list.p[i], *q = &l->net.list.p[i];
        CHECK(strcmp(p->name, q->name) == 0 && p->rows == q->rows && p->cols == q->cols &&
                  memcmp(p->w, q->w, p->rows * p->cols * sizeof *p->w) == 0,
              "%s differs", p->name);
    }
    CHECK(same_names(&m->labels, &l->labels) && same_names(&m->vocab, &l->vocab) &&
              l->labels.n == 4,
          "names differ");
    CHECK(memcmp(m->idf, l->values.idf, d->n_features * sizeof(float)) == 0, "idf differs");
    CHECK(memcmp(d->label_rows, l->label_rows, d->n_labels * sizeof(int64_t)) == 0,
          "label counts differ");
    CHECK(strcmp(m->spec, l->spec) == 0 && m->loss == l->loss && m->values.mode == l->values.mode &&
              m->n_train == l->n_train && l->text && !l->how.pairs &&
              strcmp(m->options, l->options) == 0,
          "metadata differs");
    size_t bytes;
    const char *name = wisp_model_label_name(l, 2, &bytes);
    CHECK(name && bytes == 5 && memcmp(name, "caf\xc3\xa9", 5) == 0 &&
              !wisp_model_label_name(l, 4, &bytes),
          "label name");
    CHECK(strstr(wisp_model_describe(l), "\"valid_p@1\":12.5"), "%s", wisp_model_describe(l));
    memset(labels, 77, sizeof labels);
    for (int i = 0; i < 2; i++)
        CHECK(wisp_predict(labels[i], scores[i], ctx, i ? l : m, d, 0, 6, K, &err) == WISP_OK, "%s",
              err.text);
    CHECK(memcmp(labels[0], labels[1], sizeof labels[0]) == 0 &&
              memcmp(scores[0], scores[1], sizeof scores[0]) == 0,
          "predictions differ");
    CHECK(labels[0][3] >= 0 && labels[0][4] == -1 && scores[0][4] == 0,
          "places past the last label");
    CHECK(wisp_predict(labels[0], scores[0], ctx, l, d, 2, 3, K, &err) == WISP_OK &&
              memcmp(labels[0], labels[1] + 2 * K, 3 * K * 4) == 0,
          "rows 2 to 4 by themselves");
    CHECK(wisp_predict(labels[0], scores[0], ctx, l, d, 6, 0, K, &err) == WISP_OK, "no rows");
    CHECK(wisp_predict(labels[0], scores[0], ctx, l, d, 5, 2, K, &err) == WISP_EINVAL,
          "row 6 of 6");
    CHECK(wisp_predict(labels[0], scores[0], ctx, l, d, 0, 1, 0, &err) == WISP_EINVAL, "k = 0");
    struct bytes first = slurp(model);
    CHECK(wisp_model_save(l, other, 12.5, 2, NULL, &err) == WISP_OK && file_is(other, first),
          "saved again it differs");
    free(first.p);
    wisp_model_free(l);
    m->labels.bytes = m->labels.start[m->labels.n - 1]; /* one name too few */
    CHECK(wisp_model_save(m, other, 12.5, 2, NULL, &err) == WISP_OK &&
              wisp_model_load(&l, other, &err) == WISP_EMODEL && !l &&
              strstr(err.text, "3 names for 4"),
          "%s", err.text);
    wisp_model_free(m);
    wisp_data_free(d);
    unlink(other);
}

static void test_memory(void)
{
    TEST("model: from bytes in memory; ids of words and names");
    struct bytes b = slurp(model);
    struct wisp_model *m = NULL, *l = NULL;
    CHECK(wisp_model_load(&m, model, &err) == WISP_OK &&
              wisp_model_load_memory(&l, b.p, b.n, &err) == WISP_OK,
          "%s", err.text);
    if (!m || !l) return;
    memset(b.p, 0xff, b.n); /* they were copied */
    CHECK(strstr(wisp_model_describe(m), "\"date\":\"20") &&
              !strstr(wisp_model_describe(l), "\"date\"") &&
              strcmp(strstr(wisp_model_describe(l), "\"parameters\""),
                     strstr(wisp_model_describe(m), "\"parameters\"")) == 0,
          "%s", wisp_model_describe(l));
    CHECK(wisp_model_save(l, other, 12.5, 2, NULL, &err) == WISP_OK, "%s", err.text);
    struct bytes first = slurp(model);
    CHECK(file_is(other, first), "saved it differs");
    CHECK(wisp_model_n_features(l) == l->vocab.n && wisp_model_n_labels(l) == 4, "sizes");
    for (int32_t id = 0; id < (int32_t)l->vocab.n; id++) {
        size_t bytes;
        const char *word = wisp_model_feature_name(l, id, &bytes);
        CHECK(word && wisp_model_feature(l, word, bytes) == id, "word %d", id);
    }
    size_t bytes;
    CHECK(wisp_model_label(l, "caf\xc3\xa9", 5) == 2 && wisp_model_label(l, "caf", 3) == -1 &&
              wisp_model_feature(l, "nowhere", 7) == -1 &&
              !wisp_model_feature_name(l, (int32_t)l->vocab.n, &bytes) &&
              !wisp_model_feature_name(l, -1, &bytes),
          "what is not there");
    wisp_model_free(l);
    for (size_t n = 0; n < first.n; n += n < 200 ? 1 : 997)
        CHECK(wisp_model_load_memory(&l, first.p, n, &err) == WISP_EMODEL && !l &&
                  strncmp(err.text, "a model in memory: ", 19) == 0,
              "cut at %zu: %s", n, err.text);
    wisp_model_free(m);
    free(first.p);
    free(b.p);
    unlink(other);
}

/* The metadata have the loss; a net that says another is no model. */
static void test_loss(void)
{
    TEST("model: the loss that its net says is that of the file");
    static const char *const heads[] = { ", output", ", output loss=bce", ", output loss=softmax" };
    wisp_data *d = words();
    for (size_t i = 0; i < 3; i++) {
        struct wisp_model *m = hand_made(d), *l = NULL;
        char text[200];
        snprintf(text, sizeof text, "%s%s", m->spec, heads[i]);
        wisp_free(m->spec);
        m->spec = wisp_strdup(text);
        CHECK(wisp_model_save(m, other, 12.5, 2, NULL, &err) == WISP_OK, "%s", err.text);
        wisp_status st = wisp_model_load(&l, other, &err);
        if (i < 2) CHECK(st == WISP_OK && l->loss == m->loss, "%s: %s", heads[i], err.text);
        else
            CHECK(st == WISP_EMODEL && !l &&
                      strstr(err.text, "net:1:45: 'output' has loss=softmax, but the loss in the "
                                       "metadata is bce"),
                  "%s", err.text);
        wisp_model_free(l);
        wisp_model_free(m);
    }
    wisp_data_free(d);
    unlink(other);
}

/* What a model says of its run is read again: it may say anything, and memory may end anywhere. */
static void test_plan(void)
{
    static const struct {
        const char *about, *says; /* says NULL: it can be */
    } cases[] = {
        { "", NULL },
        { "batch=16\noptimizer=sgd\nmoments=fp32\nrows=bf16\nsampling=random\n", NULL },
        { "no line\n\n=\nunknown=7\nconfig=/nowhere", NULL },
        { "batch=70000", "--batch: 70000" },
        { "batch=16\nbatch=x\n", "--batch: 'x'" },
        { "optimizer=adamm", "--optimizer: 'adamm'" },
        { "sampling=random+nothing", "--sampling: no 'nothing'" },
        { "hidden=9,x", "--hidden" },
    };
    TEST("model: what memory it takes, whatever it says of its run");
    struct wisp_model *m = NULL;
    wisp_config *c;
    wisp_report *r;
    CHECK(wisp_model_load(&m, model, &err) == WISP_OK && wisp_config_create(&c, &err) == WISP_OK,
          "%s", err.text);
    for (size_t i = 0; m && i < sizeof cases / sizeof *cases; i++) {
        wisp_free(m->about);
        m->about = wisp_strdup(cases[i].about);
        wisp_status st = wisp_model_plan(&r, ctx, m, c, &err);
        CHECK(cases[i].says ? st == WISP_EMODEL && !r && strstr(err.text, cases[i].says) &&
                                  strstr(err.text, "what the model says of its run cannot be")
                            : st == WISP_OK && strstr(wisp_report_json(r), "\"bound_bytes\""),
              "'%s': %s", cases[i].about, err.text);
        wisp_report_free(r);
    }
    if (m) m->about[0] = 0;
    const long live = wisp_mem_live;
    wisp_status st = WISP_ENOMEM;
    for (long n = 0; m && st == WISP_ENOMEM; n++) {
        wisp_mem_budget = n;
        st = wisp_model_plan(&r, ctx, m, c, &err);
        wisp_mem_budget = -1;
        if (st != WISP_OK)
            CHECK(!r && wisp_mem_live == live, "after %ld: %ld", n, (long)wisp_mem_live - live);
    }
    CHECK(st == WISP_OK, "%s", err.text);
    wisp_report_free(r);
    wisp_config_free(c);
    wisp_model_free(m);
}

static void test_bit_flips(void)
{
    TEST("model: a file with any bit flipped is refused");
    struct bytes b = slurp(model);
    struct wisp_model *m;
    int fd = open(model, O_RDWR);
    size_t step = b.n / 6000 + 1, tried = 0;
    for (size_t at = 0; fd >= 0 && at < b.n; at += at < 400 ? 1 : step)
        for (int bit = at < 400 ? 0 : (int)below(8), last = at < 400 ? 7 : bit; bit <= last;
             bit++, tried++) {
            unsigned char byte = b.p[at] ^ (unsigned char)(1 << bit);
            wisp_status st = WISP_OK;
            if (pwrite(fd, &byte, 1, (off_t)at) == 1) st = wisp_model_load(&m, model, &err);
            CHECK(st == WISP_EMODEL && !m && err.text[0], "byte %zu bit %d: status %d", at, bit,
                  st);
            if (st == WISP_OK) wisp_model_free(m);
            CHECK(pwrite(fd, &b.p[at], 1, (off_t)at) == 1, "cannot write");
        }
    CHECK(tried > 3000, "%zu flips tried", tried);
    CHECK(wisp_model_load(&m, model, &err) == WISP_OK, "%s", err.text);
    wisp_model_free(m);
    close(fd);
    free(b.p);
}

static void test_utf8(void)
{
    TEST("utf-8: every character has its bytes, and nothing else is one");
    for (uint32_t c = 0; c < 0x110010; c++) {
        unsigned char p[8];
        size_t n = wisp_utf8_put((char *)p, c);
        bool none = (c >= 0xd800 && c < 0xe000) || c > 0x10ffff;
        for (size_t left = 0; left <= 4; left++)
            CHECK(wisp_utf8_bytes(p, left) == (none || left < n ? 0 : n), "U+%04X of %zu bytes", c,
                  left);
    }
    static const char *const bad[] = { "\x80",
                                       "\xbf\x80",
                                       "\xc0\x80",
                                       "\xc1\xbf",
                                       "\xe0\x80\x80",
                                       "\xe0\x9f\xbf",
                                       "\xf0\x80\x80\x80",
                                       "\xf0\x8f\xbf\xbf",
                                       "\xf5\x80\x80\x80",
                                       "\xf8\x90\x80\x80",
                                       "\xff\xbf\xbf\xbf",
                                       "\xc3\xc0",
                                       "\xc3z",
                                       "\xe2\x80z",
                                       "\xe2z\x80" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(wisp_utf8_bytes((const unsigned char *)bad[i], 4) == 0, "%zu is none", i);
}

int main(void)
{
    rig_init();
    test_values();
    test_input_dropout();
    test_order();
    test_adam();
    test_schedule();
    test_round_trip();
    test_memory();
    test_loss();
    test_plan();
    test_bit_flips();
    test_utf8();
    return rig_end();
}

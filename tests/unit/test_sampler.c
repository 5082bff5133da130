/* The sampler: what goes into the active set and why, what it costs, and what it reports, against
 * naive sets and a counter inside the kernels. */
#include "hash/family.h"
#include "hash/unite.h"
#include "sampler_rig.h"

/* Every byte that is taken: wisp_alloc's only source. */
static atomic_ullong n_taken, n_blocks;

void *aligned_alloc(size_t align, size_t bytes)
{
    void *p = NULL;
    atomic_fetch_add(&n_taken, bytes);
    atomic_fetch_add(&n_blocks, 1);
    return posix_memalign(&p, align, bytes) == 0 ? p : NULL;
}

static const char *const all_names[] = {
    "random",
    "frequency",
    "neighbours",
    "features",
    "lsh",
    "ivf",
    "neighbours+random",
    "random+neighbours",
    "ivf+frequency+neighbours+random",
    "lsh+features+ivf+random",
    "scan",
    "scan+random",
};
enum { N_NAMES = sizeof all_names / sizeof *all_names };

/* ---- names ---- */

static void test_names(void)
{
    static const struct {
        const char *names, *says; /* NULL: fine */
    } t[] = {
        { "full", NULL },
        { "random", NULL },
        { "neighbours+random", NULL },
        { "random+frequency+neighbours+lsh", NULL },
        { "", "no ''" },
        { "+", "no ''" },
        { "random+", "no ''" },
        { "+random", "no ''" },
        { "random++lsh", "no ''" },
        { "rando", "no 'rando'" },
        { "randoms", "no 'randoms'" },
        { "Random", "no 'Random'" },
        { "random +lsh", "no 'random '" },
        { "random,lsh", "no 'random,lsh'" },
        { "lsh+nothing", "no 'nothing'" },
        { "auto", "no 'auto'" },
        { "full+random", "'full' is all rows" },
        { "random+full", "'full' is all rows" },
        { "full+full", "'full' is all rows" },
        { "random+random", "'random' twice" },
        { "lsh+neighbours+lsh", "'lsh' twice" },
        { "random+frequency+neighbours+features+lsh+ivf", NULL },
    };
    TEST("names: lists of finders, and what is none");
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        wisp_error e = { 0 };
        wisp_status st = wisp_sampling_check(t[i].names, "sampling", true, &e);
        CHECK(st == (t[i].says ? WISP_EINVAL : WISP_OK), "'%s': %d %s", t[i].names, st, e.text);
        CHECK(!t[i].says || (strstr(e.text, t[i].says) && strstr(e.text, "--sampling")),
              "'%s': '%s'", t[i].names, e.text);
    }
    TEST("names: a layer without labels takes only finders that need none");
    for (size_t i = 0; wisp_finder_at(i); i++) {
        const struct wisp_finder_kind *k = wisp_finder_at(i);
        CHECK((wisp_sampling_check(k->name, "sampling", false, &err) == WISP_OK) ==
                  !k->needs_labels,
              "%s", k->name);
    }
    CHECK(wisp_sampling_check("random+neighbours", "sampling", false, &err) == WISP_EINVAL &&
              strstr(err.text, "'neighbours' needs labels"),
          "'%s'", err.text);
}

/* ---- memory ---- */

static void test_bytes(void)
{
    TEST("memory: planned bytes are those taken, but for rounding");
    for (size_t i = 0; i < N_NAMES; i++)
        for (int mode = 0; mode < 4; mode++) {
            struct wisp_sampling o = settings(all_names[i]);
            o.per_example = mode & 1;
            if (mode & 2)
                o.least = 300, o.most = 350, o.n_carried = 0, o.keep = 3, o.rescore = false;
            struct wisp_finder_setup s = setup_of(&o, mode & 2 ? 4 : 1);
            size_t planned = wisp_sampler_bytes(&s, 50);
            unsigned long long taken = n_taken, blocks = n_blocks;
            struct wisp_sampler *t;
            CHECK(wisp_sampler_create(&t, &s, &plain, 50, &err) == WISP_OK, "%s", err.text);
            taken = n_taken - taken, blocks = n_blocks - blocks;
            CHECK(taken + 64 >= planned && taken <= planned + (64 + WISP_CUT_CLOSE) * blocks + 1024,
                  "%s, mode %d: %zu bytes planned, %llu taken in %llu blocks", o.names, mode,
                  planned, taken, blocks);
            wisp_sampler_free(t);
        }
}

static void test_failing(void)
{
    TEST("memory: every allocation may fail");
    for (size_t i = 0; i < N_NAMES; i++)
        for (int per_example = 0; per_example < 2; per_example++) {
            struct wisp_sampling o = settings(all_names[i]);
            o.per_example = per_example;
            struct wisp_finder_setup s = setup_of(&o, 2);
            long live = wisp_mem_live, n = 0;
            for (;; n++) {
                struct wisp_sampler *t = (struct wisp_sampler *)&o;
                wisp_mem_budget = n;
                wisp_status st = wisp_sampler_create(&t, &s, &plain, 50, &err);
                wisp_mem_budget = -1;
                if (st == WISP_OK) {
                    wisp_sampler_free(t);
                    break;
                }
                CHECK(st == WISP_ENOMEM && !t && wisp_mem_live == live, "%s after %ld: %d %s",
                      o.names, n, st, err.text);
            }
            CHECK(n > 10 && wisp_mem_live == live, "%s: %ld allocations, %ld left", o.names, n,
                  wisp_mem_live - live);
        }
    wisp_sampler_free(NULL);
}

/* ---- the union ---- */

struct want { /* a naive active set */
    bool in[LABELS], label[LABELS];
    float shift[LABELS];
    size_t n;
};

static void want_row(struct want *w, int32_t row, float shift, size_t most)
{
    if (w->in[row] && shift == 0) w->shift[row] = 0; /* found for a reason as well */
    if (w->in[row] || w->n >= most) return;
    w->in[row] = true;
    w->shift[row] = shift;
    w->n++;
}

/* What the batch's finders give to all, in their order: known beforehand. */
struct for_all {
    size_t n;
    int32_t row[2 * LABELS];
    float shift[2 * LABELS];
};

static void expect_random(struct for_all *a, const struct wisp_sampling *o, uint64_t step)
{
    bool all = o->n_random >= LABELS;
    for (size_t i = 0; i < (all ? LABELS : o->n_random); i++) {
        uint64_t stream = WISP_STREAM_RANDOM + (step << 8);
        a->row[a->n] = all ? (int32_t)i : (int32_t)wisp_rand_below(9, stream, i, LABELS);
        a->shift[a->n++] = all ? 0 : (float)-log(1 - pow(1 - 1.0 / LABELS, (double)o->n_random));
    }
}

static void expect_carried(struct for_all *a, struct wisp_sampler *s)
{
    const int32_t *carried = blob(s, "carried").data;
    for (int32_t i = 0; i < carried[0]; i++) {
        a->row[a->n] = carried[1 + i];
        a->shift[a->n++] = 0;
    }
}

static void expect_union(struct want *w, const struct wisp_sampler *s,
                         const struct wisp_sampling *o, const struct wisp_query *q,
                         const struct for_all *a)
{
    *w = (struct want){ .n = 0 };
    for (uint32_t y = 0; y < q->yp[q->n]; y++) {
        want_row(w, q->yi[y], 0, SIZE_MAX);
        w->label[q->yi[y]] = true;
    }
    size_t most = o->most == 0 ? SIZE_MAX : o->most > w->n ? o->most : w->n;
    for (size_t i = 0; i < a->n; i++) want_row(w, a->row[i], a->shift[i], most);
    for (size_t rank = 0; rank < o->keep; rank++)
        for (size_t i = 0, n; i < q->n; i++) {
            const int32_t *own = wisp_sampler_own(s, i, &n);
            if (rank < n) want_row(w, own[rank], 0, most);
        }
}

/* The set holds what it should, in order, within its bounds; rows beyond come from the floor. */
static void check_union(const struct wisp_active *got, const struct want *w,
                        const struct wisp_sampling *o, const char *what)
{
    struct wisp_finder_setup setup = setup_of(o, 1);
    size_t least = o->least < LABELS ? o->least : LABELS, found = 0, labels = 0;
    size_t n = w->n > least ? w->n : least;
    CHECK(got->n == n && got->n <= wisp_sampler_room(&setup, BATCH * MAX_LABELS),
          "%s: %zu rows, %zu expected", what, got->n, n);
    CHECK((got->shift != NULL) == (o->correct > 0) && got->rows, "%s: shift", what);
    for (size_t i = 0; i < got->n; i++) {
        int32_t row = got->rows[i];
        CHECK(row >= 0 && row < LABELS && (i == 0 || got->rows[i - 1] < row), "%s: order", what);
        CHECK(wisp_active_place(got, row) == i, "%s: place of %d", what, (int)row);
        found += w->in[row];
        labels += w->label[row];
        float shift = w->in[row] ? o->correct * w->shift[row] : 0;
        CHECK(!got->shift || fabsf(got->shift[i] - shift) <= 1e-4f * shift,
              "%s: row %d, shift %g, not %g", what, (int)row, (double)got->shift[i], (double)shift);
    }
    size_t want_labels = 0;
    for (size_t r = 0; r < LABELS; r++) want_labels += w->label[r];
    CHECK(found == w->n && labels == want_labels, "%s: %zu of %zu rows, %zu of %zu labels", what,
          found, w->n, labels, want_labels);
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void check_parts(const struct wisp_active *got, const struct wisp_sampler *s,
                        const struct wisp_query *q, const struct for_all *a)
{
    uint32_t want[5000];
    for (size_t i = 0; i < q->n; i++) {
        size_t n = 0, k, to = 0, place;
        const int32_t *own = wisp_sampler_own(s, i, &k);
        for (uint32_t y = q->yp[i]; y < q->yp[i + 1]; y++)
            want[n++] = (uint32_t)wisp_active_place(got, q->yi[y]);
        for (size_t c = 0; c < k; c++)
            if ((place = wisp_active_place(got, own[c])) != SIZE_MAX) want[n++] = (uint32_t)place;
        for (size_t c = 0; c < a->n; c++)
            if ((place = wisp_active_place(got, a->row[c])) != SIZE_MAX)
                want[n++] = (uint32_t)place;
        qsort(want, n, sizeof *want, by_value);
        for (size_t c = 0; c < n; c++)
            if (c == 0 || want[c] != want[c - 1]) want[to++] = want[c];
        CHECK(got->op[i + 1] - got->op[i] == to &&
                  memcmp(got->own + got->op[i], want, to * sizeof *want) == 0,
              "sample %zu: %u rows of its own, %zu expected", i, got->op[i + 1] - got->op[i], to);
    }
}

/* Puts what it likes into the memories of 'neighbours'. */
static void plant(struct wisp_sampler *s)
{
    struct wisp_blob rings = blob(s, "rings"), last = blob(s, "last"), carried = blob(s, "carried");
    int32_t *ring = rings.data, *rows = last.data, *to = carried.data;
    size_t most = carried.bytes / sizeof *to - 1, n_ring = rings.bytes / sizeof *ring / LABELS;
    for (size_t i = 0; i < LABELS; i++) { /* some empty, some in part */
        size_t n = below(n_ring + 1);
        for (size_t c = 0; c < n_ring; c++)
            ring[i * n_ring + c] = c < n ? (int32_t)((i + 1 + c * c) % LABELS) : -1;
    }
    for (size_t i = 0; i < last.bytes / sizeof *rows; i++) rows[i] = (int32_t)below(LABELS);
    to[0] = (int32_t)below(most + 1);
    for (int32_t i = 0; i < to[0]; i++) to[1 + i] = (int32_t)below(LABELS);
}

/* Rows that are marked are counted, and taken in order; then none is. */
static void test_marks(void)
{
    enum { N = 100000 };
    static const int32_t some[] = { 99999, 3, 64, 4096, 3, 70000 },
                         sorted[] = { 3, 64, 4096, 70000, 99999 };
    const size_t n = sizeof sorted / sizeof *sorted;
    struct wisp_marks m = { 0 };
    static int32_t rows[N];
    static uint32_t place[N];
    TEST("marks: counted and taken");
    uint64_t *block = wisp_zalloc(wisp_marks_words(N), sizeof *block);
    wisp_marks_place(&m, block, N);
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) wisp_marks_add(&m, some[i]);
    CHECK(wisp_marks_count(&m, &contexts[2]) == n, "%zu", wisp_marks_count(&m, &contexts[2]));
    wisp_marks_take(&m, &contexts[2], rows, place);
    for (size_t i = 0; i < n; i++)
        CHECK(rows[i] == sorted[i] && place[sorted[i]] == i + 1, "%zu: row %d", i, rows[i]);
    CHECK(wisp_marks_count(&m, &contexts[2]) == 0, "some are left");
    wisp_free(block);
}

static void test_union(void)
{
    TEST("union: labels, rows for all, own rows by rank; floor, ceiling, parts of samples, shifts");
    static const size_t bounds[][2] = { { 0, 0 },      { 0, 1 },     { 0, 100 },  { 0, 150 },
                                        { 0, 300 },    { 200, 0 },   { 400, 10 }, { 150, 160 },
                                        { LABELS, 0 }, { 9999, 50 }, { 0, 9999 } };
    static struct for_all a;
    static struct want w;
    bool cut = false, padded = false;
    for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++)
        for (int mode = 0; mode < 8; mode++) {
            struct wisp_sampling o = settings(mode & 1 ? "neighbours+random" : "random+neighbours");
            o.least = bounds[b][0], o.most = bounds[b][1];
            o.per_example = mode & 2, o.correct = mode < 4 ? 0 : mode == 5 ? 0.5f : 1;
            o.keep = mode == 3 ? 1 : mode == 5 ? 40 : 7;
            o.n_random = b == 10 ? 2 * LABELS : 30;
            if (mode == 6) o.n_carried = o.n_random = 0;
            struct rig r;
            rig_make(&r, &o, mode & 1 ? 1 : 2);
            for (int turn = 0; turn < 4; turn++) {
                rig_step_with(&r, turn == 2 ? 1 : turn == 3 ? 17 : BATCH);
                plant(r.s);
                struct wisp_query q = rig_query(&r);
                struct wisp_active got;
                struct wisp_sampler_counts was = *wisp_sampler_counts(r.s), *now;
                wisp_sampler_choose(&got, r.s, r.ctx, &q);
                a.n = 0;
                if (mode & 1) expect_carried(&a, r.s), expect_random(&a, &o, q.step);
                else expect_random(&a, &o, q.step), expect_carried(&a, r.s);
                expect_union(&w, r.s, &o, &q, &a);
                char what[100];
                snprintf(what, sizeof what, "bounds %zu, mode %d, turn %d", b, mode, turn);
                check_union(&got, &w, &o, what);
                CHECK((got.op != NULL) == o.per_example, "%s: parts", what);
                if (got.op) check_parts(&got, r.s, &q, &a);
                now = wisp_sampler_counts(r.s);
                CHECK(now->steps == was.steps + 1 && now->samples == was.samples + q.n &&
                          now->active == was.active + got.n,
                      "%s: counts", what);
                cut |= o.most && w.n == o.most, padded |= got.n > w.n;
            }
            rig_clear(&r);
        }
    CHECK(cut && padded, "the bounds did not matter");
}

/* ---- shifts ---- */

/* Each row is drawn as often as its shift says. */
static void test_inclusion(const char *names)
{
    enum { STEPS = 4000 };
    struct wisp_sampling o = settings(names);
    o.correct = 1, o.n_random = 12;
    struct wisp_finder_setup setup = setup_of(&o, 1);
    struct wisp_sampler *s;
    CHECK(wisp_sampler_create(&s, &setup, &plain, 8, &err) == WISP_OK, "%s", err.text);
    static float h[WIDTH], w[LABELS * WIDTH], bias[LABELS];
    static unsigned drawn[LABELS];
    static float shift[LABELS];
    memset(drawn, 0, sizeof drawn);
    const uint32_t yp[2] = { 0, 1 };
    const int32_t yi[1] = { 17 };
    double worst = 0, total = 0;
    for (uint64_t step = 0; step < STEPS; step++) {
        struct wisp_query q = { .n = 1,
                                .h = h,
                                .yp = yp,
                                .yi = yi,
                                .step = step,
                                .rows = { LABELS, WIDTH, { .cols = WIDTH, .f32 = w }, bias } };
        struct wisp_active got;
        wisp_sampler_choose(&got, s, &contexts[1], &q);
        for (size_t i = 0; i < got.n; i++) {
            int32_t row = got.rows[i];
            CHECK(row != 17 || got.shift[i] == 0, "a true label is shifted by %g", got.shift[i]);
            CHECK(drawn[row]++ == 0 || shift[row] == got.shift[i], "row %d: two shifts", (int)row);
            shift[row] = got.shift[i];
        }
    }
    for (size_t i = 0; i < LABELS; i++) total += (double)data->label_rows[i] + 1e-3;
    for (size_t i = 0; i < LABELS; i++) {
        if (i == 17 || drawn[i] == 0) continue;
        double p = exp(-(double)shift[i]), seen = (double)drawn[i] / STEPS;
        double z = fabs(seen - p) / sqrt(p * (1 - p) / STEPS + 1e-9);
        worst = z > worst ? z : worst;
        if (strcmp(names, "random") == 0) {
            CHECK(fabs(p - (1 - pow(1 - 1.0 / LABELS, 12))) < 1e-6, "row %zu: uniform %g", i, p);
        } else {
            double share = ((double)data->label_rows[i] + 1e-3) / total;
            CHECK(fabs(p - (1 - pow(1 - share, 25))) < 1e-5, "row %zu: %g", i, p);
        }
    }
    CHECK(worst < 5, "%s: off by %.1f standard deviations", names, worst);
    wisp_sampler_free(s);
}

/* The loss of sample i over the rows it computes, by the definition of softmax. */
static double naive_loss(const struct wisp_query *q, const struct wisp_active *a, size_t i)
{
    uint32_t n_true = q->yp[i + 1] - q->yp[i];
    double sum = 0, mean = 0;
    size_t n = a->op ? a->op[i + 1] - a->op[i] : a->n;
    for (size_t c = 0; c < n; c++) {
        size_t place = a->op ? a->own[a->op[i] + c] : c;
        sum += exp(score_of(q, i, a->rows[place]) + (double)(a->shift ? a->shift[place] : 0));
    }
    for (uint32_t y = q->yp[i]; y < q->yp[i + 1]; y++) mean += score_of(q, i, q->yi[y]) / n_true;
    return n_true ? log(sum) - mean : 0;
}

static void test_loss(void)
{
    TEST("shift: the loss is over raised logits, one set and one per sample");
    for (int mode = 0; mode < 4; mode++) {
        struct wisp_sampling o = settings("neighbours+random+frequency");
        o.correct = mode & 1 ? 0 : 0.7f, o.per_example = mode & 2, o.most = 150;
        struct rig r;
        rig_make(&r, &o, 2);
        for (int step = 0; step < 10; step++) {
            r.opt.lr = step < 7 ? 0.02f : 0; /* then weights stay, to be looked at */
            double got = rig_step(&r), want = 0;
            if (step < 7) continue;
            struct wisp_query q = rig_query(&r);
            for (size_t i = 0; i < q.n; i++) want += naive_loss(&q, &r.step.head.active, i);
            CHECK(fabs(got - want) < 1e-4 * want, "mode %d: %g, not %g", mode, got, want);
        }
        rig_clear(&r);
    }
}

/* ---- accounts ---- */

static void test_counts(void)
{
    TEST("accounts: rows and products as the kernels count them, over real steps");
    for (size_t i = 0; i < N_NAMES || wisp_hash_family_at(i - N_NAMES); i++)
        for (int mode = 0; mode < 4; mode++) {
            struct wisp_sampling o = settings(i < N_NAMES ? all_names[i] : "lsh+neighbours");
            if (i >= N_NAMES)
                snprintf(o.family, sizeof o.family, "%s", wisp_hash_family_at(i - N_NAMES)->name);
            if (mode == 1) o.rescore = false, o.most = 120;
            if (mode == 2) o.least = LABELS, o.strategy = WISP_VANILLA;
            o.per_example = mode == 3;
            struct rig r;
            rig_make(&r, &o, mode == 0 ? 1 : 2);
            uint64_t active = 0, samples = 0;
            n_rows_scored = n_centres_scored = 0;
            for (int step = 0; step < 12; step++) {
                size_t n = step == 5 ? 7 : BATCH;
                double loss = rig_step_with(&r, n);
                CHECK(isfinite(loss) && r.step.head.active.n > 0, "%s: loss %g", o.names, loss);
                active += r.step.head.active.n;
                samples += n;
            }
            const struct wisp_sampler_counts *c = wisp_sampler_counts(r.s);
            CHECK(c->steps == 12 && c->samples == samples && c->active == active,
                  "%s %s: %llu steps, %llu samples, %llu rows", o.names, o.family,
                  (unsigned long long)c->steps, (unsigned long long)c->samples,
                  (unsigned long long)c->active);
            CHECK(c->scored == n_rows_scored + n_centres_scored,
                  "%s %s, mode %d: %llu scored, counted %llu rows and %llu centres", o.names,
                  o.family, mode, (unsigned long long)c->scored, (unsigned long long)n_rows_scored,
                  (unsigned long long)n_centres_scored);
            CHECK((n_centres_scored > 0) == (strstr(o.names, "ivf") != NULL), "%s: centres",
                  o.names);
            rig_clear(&r);
        }
}

/* ---- the scan ---- */

/* A row that is no label and not among the own, but better than the worst of them: none. */
static void test_scan(void)
{
    TEST("scan: a sample's own rows are the best of all that are no labels of it");
    struct wisp_sampling o = settings("scan");
    o.keep = 9;
    struct rig r;
    rig_make(&r, &o, 2);
    for (int step = 0; step < 5; step++) rig_step_with(&r, BATCH);
    struct wisp_query q = rig_query(&r);
    struct wisp_active got;
    wisp_sampler_choose(&got, r.s, r.ctx, &q);
    for (size_t i = 0; i < q.n; i++) {
        float score[LABELS], worst = INFINITY;
        int32_t all[LABELS];
        bool aside[LABELS] = { false };
        size_t n;
        const int32_t *own = wisp_sampler_own(r.s, i, &n);
        for (int32_t row = 0; row < LABELS; row++) all[row] = row;
        wisp_weights_dots(&plain, score, &q.rows.w, all, LABELS, q.h + i * q.rows.width);
        for (size_t row = 0; row < LABELS; row++) score[row] += q.rows.bias[row];
        CHECK(n == 9, "%zu rows", n);
        for (uint32_t y = q.yp[i]; y < q.yp[i + 1]; y++) aside[q.yi[y]] = true;
        for (size_t c = 0; c < n; c++) {
            CHECK(!aside[own[c]], "row %d is a label, or there twice", own[c]);
            aside[own[c]] = true;
            worst = fminf(worst, score[own[c]]);
        }
        for (size_t row = 0; row < LABELS; row++)
            CHECK(aside[row] || score[row] <= worst, "row %zu: %g is above %g", row,
                  (double)score[row], (double)worst);
    }
    rig_clear(&r);
}

/* ---- none and all rows ---- */

static atomic_int n_moved;

static void expect_zero(const struct wisp_update *u, struct wisp_param *p, size_t row,
                        const float *g)
{
    (void)u, (void)row;
    for (size_t i = 0; i < p->cols; i++)
        if (g[i] != 0) atomic_fetch_add(&n_moved, 1);
}

static void test_no_rows(void)
{
    static const size_t unlabelled[] = { 7, 57, 107 };
    static const struct wisp_update still = { expect_zero };
    TEST("an empty set: rows without labels, nothing found; no gradient");
    for (int mode = 0; mode < 4; mode++) {
        struct wisp_sampling o = settings("neighbours");
        o.n_carried = 0, o.per_example = mode & 1;
        struct rig r;
        rig_make(&r, &o, 2);
        for (int step = 0; step < 3; step++) rig_step(&r); /* fills all scratch */
        struct wisp_blob last = blob(r.s, "last");
        memset(last.data, 255, last.bytes);
        n_moved = 0;
        double loss = rig_step_on(&r, unlabelled, mode & 2 ? 3 : 1, &still);
        CHECK(r.step.head.active.n == 0 && loss == 0 && n_moved == 0,
              "mode %d: %zu rows, loss %g, %d gradients", mode, r.step.head.active.n, loss,
              n_moved);
        size_t n_last = last.bytes / sizeof(int32_t) / ROWS;
        for (size_t i = 0; i < n_last; i++)
            CHECK(((int32_t *)last.data)[7 * n_last + i] == -1, "mode %d: it learnt of row %d",
                  mode, (int)((int32_t *)last.data)[7 * n_last + i]);
        loss = rig_step(&r);
        CHECK(isfinite(loss) && loss > 0 &&
                  wisp_finite(r.net.params, wisp_net_param_floats(&r.net)),
              "mode %d: loss %g", mode, loss);
        rig_clear(&r);
    }
}

static void test_as_full(void)
{
    TEST("a set of all rows: losses and weights as without sampling");
    for (int mode = 0; mode < 4; mode++) {
        struct wisp_sampling all = settings("full"),
                             o = settings(mode < 2 ? "random" : "neighbours+random");
        if (mode % 2 == 0) o.least = LABELS + 5;
        else o.n_random = mode == 1 ? LABELS : 2 * LABELS;
        o.correct = mode == 1 ? 1 : 0; /* all rows are in: nothing to correct */
        struct rig a, b;
        rig_make(&a, &all, 2), rig_make(&b, &o, 1);
        double sum = 0;
        for (int step = 0; step < 25; step++) {
            double x = rig_step(&a), y = rig_step(&b);
            CHECK(b.step.head.active.n == LABELS, "mode %d: only %zu rows", mode,
                  b.step.head.active.n);
            CHECK(fabs(x - y) <= 1e-5 * fabs(x), "mode %d, step %d: loss %.9g, full %.9g", mode,
                  step, y, x);
            sum += x;
        }
        double worst = 0, largest = 0;
        for (size_t i = 0; i < wisp_net_param_floats(&a.net); i++) {
            worst = fmax(worst, fabs((double)a.net.params[i] - (double)b.net.params[i]));
            largest = fmax(largest, fabs((double)a.net.params[i]));
        }
        CHECK(worst <= 1e-4 * largest && sum > 0, "mode %d: weights differ by %g of %g", mode,
              worst, largest);
        rig_clear(&a), rig_clear(&b);
    }
}

/* ---- threads, state ---- */

static const struct {
    const char *names, *family;
    bool reservoir;
    enum wisp_strategy strategy;
} runs[] = {
    { "random+frequency", "dwta", false, WISP_TOPK },
    { "neighbours+random", "dwta", false, WISP_TOPK },
    { "features+neighbours", "dwta", false, WISP_TOPK },
    { "ivf+neighbours", "dwta", false, WISP_TOPK },
    { "lsh", "simhash", false, WISP_TOPK },
    { "lsh", "wta", true, WISP_THRESHOLD },
    { "lsh+random", "dwta", false, WISP_VANILLA },
    { "lsh+neighbours+ivf", "minhash", true, WISP_TOPK },
};
enum { N_RUNS = sizeof runs / sizeof *runs };

static struct wisp_sampling run_settings(size_t i)
{
    struct wisp_sampling o = settings(runs[i].names);
    snprintf(o.family, sizeof o.family, "%s", runs[i].family);
    o.reservoir = runs[i].reservoir;
    o.strategy = runs[i].strategy;
    o.correct = i % 2 ? 1 : 0;
    o.rebuild = 5, o.redraw = 1; /* tables and functions change in these few steps */
    o.most = i % 3 == 0 ? 200 : 0;
    return o;
}

static void test_threads(void)
{
    TEST("threads: 1, 2 and 4 give the same weights, choices, accounts and state");
    for (size_t i = 0; i < N_RUNS; i++) {
        struct wisp_sampling o = run_settings(i);
        struct rig r[3];
        for (int t = 0; t < 3; t++) rig_make(&r[t], &o, 1 << t);
        for (int step = 0; step < 30 && !test_bad; step++) {
            for (int t = 0; t < 3; t++) rig_step(&r[t]);
            for (int t = 1; t < 3; t++) {
                const struct wisp_active *x = &r[0].step.head.active, *y = &r[t].step.head.active;
                CHECK(x->n == y->n && memcmp(x->rows, y->rows, x->n * sizeof *x->rows) == 0,
                      "%s %s, %d threads, step %d: other rows", o.names, o.family, 1 << t, step);
            }
        }
        for (int t = 1; t < 3; t++) {
            CHECK(same_params(&r[0], &r[t]), "%s %s, %d threads: weights", o.names, o.family,
                  1 << t);
            CHECK(same_blobs(&r[0], &r[t]), "%s %s, %d threads: state", o.names, o.family, 1 << t);
        }
        for (int t = 0; t < 3; t++) rig_clear(&r[t]);
    }
}

/* Everything that a checkpoint holds, into another run. */
static void copy_run(struct rig *to, const struct rig *from)
{
    struct wisp_blob x[WISP_SAMPLER_BLOBS], y[WISP_SAMPLER_BLOBS];
    size_t n = wisp_sampler_blobs(from->s, x);
    CHECK(wisp_sampler_blobs(to->s, y) == n, "blobs");
    for (size_t i = 0; i < n; i++) {
        CHECK(x[i].bytes == y[i].bytes && x[i].bytes % 4 == 0, "%s: %zu bytes", x[i].name,
              x[i].bytes);
        for (size_t k = 0; k < i; k++) CHECK(strcmp(x[i].name, x[k].name), "two '%s'", x[i].name);
        memcpy(y[i].data, x[i].data, x[i].bytes);
    }
    memcpy(to->net.params, from->net.params, wisp_net_param_floats(&from->net) * sizeof(float));
    for (size_t i = 0; i < from->net.list.n; i++) {
        struct wisp_param *p = &to->net.list.p[i], *q = &from->net.list.p[i];
        memcpy(p->m, q->m, q->rows * q->cols * sizeof *p->m);
        memcpy(p->v, q->v, q->rows * q->cols * sizeof *p->v);
        memcpy(p->count, q->count, q->rows * sizeof *p->count);
    }
    to->number = from->number;
    wisp_sampler_restored(to->s, to->ctx);
}

static void test_state(void)
{
    TEST("state: a run that goes on from its blobs chooses the same rows");
    for (size_t i = 0; i < N_RUNS; i++)
        for (int stop = 0; stop < 26; stop += 8) {
            struct wisp_sampling o = run_settings(i);
            struct rig a, b;
            rig_make(&a, &o, 2), rig_make(&b, &o, 2);
            for (int step = 0; step < stop; step++) rig_step(&a);
            copy_run(&b, &a);
            for (int step = 0; step < 9 && !test_bad; step++) {
                rig_step(&a), rig_step(&b);
                const struct wisp_active *x = &a.step.head.active, *y = &b.step.head.active;
                CHECK(x->n == y->n && memcmp(x->rows, y->rows, x->n * sizeof *x->rows) == 0,
                      "%s %s, stopped at %d: other rows %d steps later", o.names, o.family, stop,
                      step);
            }
            CHECK(same_params(&a, &b) && same_blobs(&a, &b), "%s %s, stopped at %d", o.names,
                  o.family, stop);
            rig_clear(&a), rig_clear(&b);
        }
}

int main(void)
{
    rig_open();
    test_names();
    test_bytes();
    test_failing();
    test_marks();
    test_union();
    TEST("shift: rows drawn uniformly");
    test_inclusion("random");
    TEST("shift: rows drawn by frequency");
    test_inclusion("frequency");
    test_loss();
    test_counts();
    test_scan();
    test_no_rows();
    test_as_full();
    test_threads();
    test_state();
    return rig_close();
}

/* The hashing finder: strategies against a naive one, planted neighbours, its upkeep, its state. */
#include "hash/lsh.h"
#include "hasher.h"

#include <string.h>

enum { ROWS = 4100, D = 32, BATCH = 48, ROOM = 8192 };

struct run { /* a finder with its rows, a batch and a pot */
    struct wisp_sampling o;
    struct wisp_context ctx;
    void *state;
    struct wisp_pot pot;
    void *pot_block;
    float *w, *bias, *h;
    struct wisp_query q;
};

static const struct wisp_finder_kind *const lsh = &wisp_finder_lsh;

static struct wisp_sampling settings(const char *family, enum wisp_strategy strategy)
{
    struct wisp_sampling o = { .keep = 20, .bucket = 128, .strategy = strategy, .redraw = 20 };
    snprintf(o.family, sizeof o.family, "%s", family);
    return o;
}

static wisp_status make(void **state, const struct wisp_sampling *o, int threads, wisp_error *err)
{
    struct wisp_finder_setup s = {
        .o = o, .n_rows = ROWS, .width = D, .batch = BATCH, .seed = 3, .threads = threads
    };
    return lsh->create(state, &s, err);
}

static struct run run_of(struct wisp_sampling o, int threads)
{
    struct run r = { .o = o, .ctx = { .k = &best } };
    wisp_error err;
    wisp_pool_create(&r.ctx.pool, threads, &err);
    CHECK(make(&r.state, &o, threads, &err) == WISP_OK, "%s", err.text);
    r.pot_block = wisp_zalloc(wisp_pot_bytes(ROOM), 1);
    wisp_pot_init(&r.pot, &best, r.pot_block, ROOM);
    r.w = wisp_alloc(ROWS * D, sizeof(float));
    r.bias = wisp_zalloc(ROWS, sizeof(float));
    r.h = wisp_alloc(BATCH * D, sizeof(float));
    rng = 1234567;
    normals(r.w, ROWS * D);
    normals(r.h, BATCH * D);
    r.q = (struct wisp_query){ .n = BATCH,
                               .h = r.h,
                               .rows = { ROWS, D, { .cols = D, .f32 = r.w }, r.bias } };
    return r;
}

static void run_clear(struct run *r)
{
    lsh->free(r->state);
    wisp_pool_free(r->ctx.pool);
    wisp_free(r->pot_block);
    wisp_free(r->w);
    wisp_free(r->bias);
    wisp_free(r->h);
}

static void find(struct run *r, size_t i)
{
    wisp_pot_start(&r->pot, &r->q, i);
    lsh->sample(r->state, &r->q, i, 0, &r->pot);
}

/* The batch: noisy copies of rows, sample i of row 7 i. */
static void plant(struct run *r, float noise)
{
    for (size_t i = 0; i < BATCH; i++)
        for (size_t c = 0; c < D; c++) r->h[i * D + c] = r->w[7 * i * D + c] + noise * normal();
}

static double planted_found(struct run *r)
{
    size_t found = 0;
    lsh->begin(r->state, &r->ctx, &r->q);
    for (size_t i = 0; i < BATCH; i++) {
        find(r, i);
        for (size_t j = 0; j < r->pot.n; j++) found += r->pot.row[j] == (int32_t)(7 * i);
    }
    return (double)found / BATCH;
}

static void step(struct run *r, const struct wisp_active *moved)
{
    struct wisp_outcome o = { .active = moved };
    lsh->learn(r->state, &r->ctx, &r->q, &o);
    r->q.step++;
}

/* Votes of every row for every sample, from keys made here. */
static void naive_votes(uint16_t *votes, const struct run *r, const char *family, size_t tables,
                        int digits)
{
    struct hasher h = hasher_of(family, D, tables, digits);
    h.f->init(h.functions, &h.s, 3, 0);
    uint32_t *of_rows = wisp_alloc(ROWS * tables, 4), *of_h = wisp_alloc(BATCH * tables, 4);
    hash_with(&h, &best, of_rows, r->w, ROWS);
    hash_with(&h, &best, of_h, r->h, BATCH);
    memset(votes, 0, BATCH * ROWS * sizeof *votes);
    for (size_t i = 0; i < BATCH; i++)
        for (size_t row = 0; row < ROWS; row++)
            for (size_t t = 0; t < tables; t++)
                votes[i * ROWS + row] += of_rows[row * tables + t] == of_h[i * tables + t];
    wisp_free(of_rows);
    wisp_free(of_h);
    hasher_clear(&h);
}

static void check_strategy(struct run *r, const uint16_t *votes, size_t want, unsigned least)
{
    lsh->begin(r->state, &r->ctx, &r->q);
    for (size_t i = 0; i < BATCH; i++, votes += ROWS) {
        size_t enough = 0, better = 0;
        unsigned worst = UINT16_MAX;
        find(r, i);
        for (size_t row = 0; row < ROWS; row++) enough += votes[row] >= least;
        CHECK(r->pot.n == (enough < want ? enough : want), "sample %zu: %zu rows of %zu", i,
              r->pot.n, enough);
        for (size_t j = 0; j < r->pot.n; j++) {
            unsigned v = votes[r->pot.row[j]];
            CHECK(v >= least, "row %d has %u votes", r->pot.row[j], v);
            if (r->o.strategy != WISP_VANILLA)
                CHECK(r->pot.votes[j] == v, "votes of %d", r->pot.row[j]);
            if (v < worst) worst = v;
        }
        for (size_t row = 0; row < ROWS; row++) better += votes[row] > worst;
        if (r->o.strategy != WISP_VANILLA)
            CHECK(better < want, "sample %zu: %zu rows have more than %u votes", i, better, worst);
    }
}

static void test_strategies(void)
{
    TEST("finder: strategies against votes counted naively");
    static uint16_t votes[BATCH * ROWS];
    const struct wisp_hash_family *f;
    for (size_t i = 0; (f = wisp_hash_family_at(i)); i++)
        for (int strategy = WISP_VANILLA; strategy <= WISP_THRESHOLD; strategy++) {
            struct wisp_sampling o = settings(f->name, strategy);
            const int digits = 8 / f->digit_bits(D);
            o.bits = digits * f->digit_bits(D), o.tables = 11, o.bucket = 0;
            o.rescore = i == 1;
            struct run r = run_of(o, 2);
            plant(&r, 1);
            naive_votes(votes, &r, o.family, 11, digits);
            bool some = strategy == WISP_THRESHOLD;
            check_strategy(&r, votes, some ? ROOM : o.rescore ? 100 : 20, some ? 2 : 1);
            run_clear(&r);
        }
}

static void test_vanilla(void)
{
    TEST("finder: vanilla takes tables in an order that changes with step and sample");
    struct wisp_sampling o = settings("simhash", WISP_VANILLA);
    struct run r = run_of(o, 1);
    size_t differ = 0, repeat = 0;
    for (size_t i = 1; i < BATCH; i++) memcpy(r.h + i * D, r.h, D * sizeof(float));
    lsh->begin(r.state, &r.ctx, &r.q);
    int32_t first[20], other[20];
    find(&r, 0);
    CHECK(r.pot.n == 20, "%zu rows", r.pot.n);
    memcpy(first, r.pot.row, sizeof first);
    for (size_t i = 1; i < BATCH; i++) {
        find(&r, i);
        differ += memcmp(first, r.pot.row, sizeof first) != 0;
        memcpy(other, r.pot.row, sizeof other);
        r.q.step = 1;
        find(&r, i);
        differ += memcmp(other, r.pot.row, sizeof other) != 0;
        r.q.step = 0;
        find(&r, i);
        repeat += memcmp(other, r.pot.row, sizeof other) == 0;
    }
    CHECK(differ > BATCH && repeat == BATCH - 1, "%zu differ, %zu repeat", differ, repeat);
    run_clear(&r);
}

static void test_planted(void)
{
    TEST("finder: planted neighbours are found, for every family and through every change");
    struct wisp_active all = { .n = ROWS };
    for (size_t i = 0; wisp_hash_family_at(i); i++)
        for (int transform = 0; transform < 2; transform++) {
            struct wisp_sampling o = settings(wisp_hash_family_at(i)->name, WISP_TOPK);
            o.transform = transform, o.rebuild = 8, o.redraw = 3, o.reservoir = transform;
            struct run r = run_of(o, 2);
            double least = 1;
            plant(&r, 0.4f);
            for (int n = 0; n < 100; n++) { /* 20 of 4100 rows are kept: 0.005 by chance */
                double found = planted_found(&r);
                if (found < least) least = found;
                step(&r, &all);
            }
            CHECK(least > 0.6, "%s, transform %d: %g found", o.family, transform, least);
            run_clear(&r);
        }
}

static void test_bias(void)
{
    TEST("finder: the transform finds rows with a high bias and long rows");
    double found[2];
    for (int transform = 0; transform < 2; transform++) {
        struct wisp_sampling o = settings("simhash", WISP_TOPK);
        o.transform = transform, o.bucket = 0, o.tables = 200, o.bits = 5;
        struct run r = run_of(o, 1);
        size_t hits = 0;
        for (size_t row = 0; row < ROWS; row++) {
            float length = row % 50 ? 0.3f : 1.5f;
            for (size_t c = 0; c < D; c++) r.w[row * D + c] *= length;
            r.bias[row] = row % 50 == 1 ? 6 : 0;
        }
        lsh->begin(r.state, &r.ctx, &r.q);
        for (size_t i = 0; i < BATCH; i++) {
            float score[ROWS];
            find(&r, i);
            for (size_t row = 0; row < ROWS; row++)
                score[row] = best.dot(r.w + row * D, r.h + i * D, D) + r.bias[row];
            for (size_t j = 0; j < r.pot.n; j++) {
                size_t better = 0;
                for (size_t row = 0; row < ROWS; row++) better += score[row] > score[r.pot.row[j]];
                hits += better < 20;
            }
        }
        found[transform] = (double)hits / (20 * BATCH);
        run_clear(&r);
    }
    CHECK(found[1] > 4 * found[0] && found[1] > 0.2, "recall %g without, %g with", found[0],
          found[1]);
}

/* Samples for which the two do not find the same rows. */
static size_t finds_differ(struct run *a, struct run *b)
{
    size_t differ = 0;
    lsh->begin(a->state, &a->ctx, &a->q);
    lsh->begin(b->state, &b->ctx, &b->q);
    for (size_t i = 0; i < BATCH; i++) {
        bool in[ROWS] = { 0 };
        find(a, i);
        find(b, i);
        bool same = a->pot.n == b->pot.n;
        for (size_t j = 0; j < a->pot.n; j++) in[a->pot.row[j]] = true;
        for (size_t j = 0; j < b->pot.n; j++) same &= in[b->pot.row[j]];
        differ += !same;
    }
    return differ;
}

static void test_rehash(void)
{
    TEST("finder: after rows moved, tables become those of a new finder in at most two cycles");
    const struct wisp_active none = { .n = 0, .rows = &(int32_t){ 0 } };
    for (size_t i = 0; wisp_hash_family_at(i); i++)
        for (int when = 0; when < 9; when += 2) { /* before, during and after the sweep */
            struct wisp_sampling o = settings(wisp_hash_family_at(i)->name, WISP_THRESHOLD);
            o.redraw = 0, o.rebuild = 9, o.votes = 1, o.bits = 8, o.bucket = 0;
            struct run r = run_of(o, 2), fresh = run_of(o, 1);
            lsh->begin(r.state, &r.ctx, &r.q);
            for (int n = 0; n < when; n++) step(&r, &none);
            for (size_t row = 1; row < ROWS; row += 3) normals(r.w + row * D, D);
            memcpy(fresh.w, r.w, ROWS * D * sizeof(float));
            size_t stale = finds_differ(&r, &fresh);
            for (int n = when; n < 9 + 11; n++) step(&r, &none); /* the gap grows by a fifth */
            size_t bad = finds_differ(&r, &fresh);
            CHECK(stale > 0 && bad == 0, "%s, moved at %d: %zu stale, %zu wrong", o.family, when,
                  stale, bad);
            run_clear(&r);
            run_clear(&fresh);
        }
}

/* Keys of all rows and of the batch under a draw. */
static void draw_keys(uint32_t *of_rows, uint32_t *of_h, const struct run *r, uint64_t draw)
{
    const struct wisp_lsh *s = r->state;
    struct hasher h = { s->family, s->shape, wisp_alloc(s->family->size(&s->shape), 1),
                        wisp_alloc(s->family->scratch(&s->shape), 1) };
    h.f->init(h.functions, &h.s, 3, draw);
    hash_with(&h, &best, of_rows, r->w, ROWS);
    hash_with(&h, &best, of_h, r->h, BATCH);
    hasher_clear(&h);
}

/* Every row is in every table once, and in the bucket of its key from row 'known' on. */
static size_t misplaced(const struct wisp_lsh *s, const uint32_t *keys, size_t known)
{
    size_t bad = 0, n;
    for (size_t t = 0; t < s->t.n_tables; t++) {
        uint8_t times[ROWS] = { 0 };
        for (uint32_t b = 0; b < 1u << s->t.bits; b++) {
            const int32_t *rows = wisp_tables_bucket(&s->t, (int)s->c->now, t, b, &n);
            for (size_t i = 0; i < n; i++) {
                size_t row = (size_t)rows[i];
                times[row]++;
                bad += row >= known && wisp_lsh_bucket(s, keys[row * s->t.n_tables + t]) != b;
            }
        }
        for (size_t row = 0; row < ROWS; row++) bad += times[row] != 1;
    }
    return bad;
}

static void check_generations(size_t rebuild, size_t redraw, uint64_t draws)
{
    enum { TABLES = 25, MOVE = 400 }; /* rows below MOVE move */
    struct wisp_sampling o = settings("simhash", WISP_THRESHOLD);
    o.bits = 8, o.tables = TABLES, o.bucket = 0, o.votes = 1, o.redraw = redraw;
    o.rebuild = rebuild;
    struct run r = run_of(o, 2);
    struct wisp_lsh *s = r.state;
    static uint32_t rows[ROWS * TABLES], h[BATCH * TABLES];
    size_t bad_votes = 0, bad_places = 0;
    for (int n = 0; n < 70; n++) {
        lsh->begin(r.state, &r.ctx, &r.q);
        draw_keys(rows, h, &r, s->c->draw[s->c->now]);
        bad_places += misplaced(s, rows, MOVE);
        for (size_t i = 0; i < BATCH; i += 5) {
            uint16_t votes[ROWS] = { 0 };
            find(&r, i);
            for (size_t j = 0; j < r.pot.n; j++) votes[r.pot.row[j]] = r.pot.votes[j];
            for (size_t row = MOVE; row < ROWS; row++) {
                for (size_t t = 0; t < TABLES; t++)
                    votes[row] -= rows[row * TABLES + t] == h[i * TABLES + t];
                bad_votes += votes[row] != 0;
            }
        }
        normals(r.w, MOVE * D);
        step(&r, &(struct wisp_active){ .n = ROWS });
    }
    CHECK(s->c->draw[s->c->now] == draws, "%d draws", (int)s->c->draw[s->c->now]);
    CHECK(bad_votes == 0 && bad_places == 0, "%zu votes, %zu places", bad_votes, bad_places);
    run_clear(&r);
}

static void test_generations(void)
{
    TEST("finder: all rows are in the tables once, and meet queries under the same functions");
    check_generations(13, 1, 3); /* cycles of 13, 16, 20, 24 */
    check_generations(2, 2, 4);  /* of 2, 3, 4, 5, 6, 8, 10, 12, 15: the second of two draws */
    check_generations(1, 1, 10); /* of 1, 2, 3, 4, 5, 6, 8, 10, 12, 15 */
    check_generations(13, 0, 0);
}

/* Moves the rows and steps both; the same rows must be found for all samples. */
static size_t live(struct run *a, struct run *b, int steps)
{
    size_t differ = 0;
    for (int n = 0; n < steps; n++) {
        int32_t moved[100];
        uint64_t at = a->q.step * 977 + 1;
        for (size_t i = 0; i < 100; i++) moved[i] = (int32_t)(i * 20 + test_rand(&at) % 20);
        struct run *both[2] = { a, b };
        for (int s = 0; s < 2; s++)
            for (size_t i = 0; i < 100; i++) both[s]->w[(size_t)moved[i] * D + i % D] += 0.5f;
        lsh->begin(a->state, &a->ctx, &a->q);
        lsh->begin(b->state, &b->ctx, &b->q);
        for (size_t i = 0; i < BATCH; i++) {
            find(a, i);
            find(b, i);
            differ += a->pot.n != b->pot.n ||
                      memcmp(a->pot.row, b->pot.row, a->pot.n * sizeof *a->pot.row) != 0;
        }
        step(a, &(struct wisp_active){ .n = 100, .rows = moved });
        step(b, &(struct wisp_active){ .n = 100, .rows = moved });
    }
    return differ;
}

static size_t state_differs(struct run *a, struct run *b)
{
    struct wisp_blob x[WISP_MAX_BLOBS], y[WISP_MAX_BLOBS];
    size_t n = lsh->blobs(a->state, x), differ = n != lsh->blobs(b->state, y);
    for (size_t i = 0; i < n; i++)
        differ += x[i].bytes != y[i].bytes || memcmp(x[i].data, y[i].data, x[i].bytes) != 0;
    return differ;
}

static void test_threads(void)
{
    TEST("finder: 1 and 3 threads give the same bytes");
    for (size_t i = 0; wisp_hash_family_at(i); i++) {
        struct wisp_sampling o = settings(wisp_hash_family_at(i)->name, i % 3);
        o.transform = true, o.rebuild = 5, o.redraw = 2, o.reservoir = i == 1, o.bucket = 6;
        struct run a = run_of(o, 1), b = run_of(o, 3);
        size_t differ = live(&a, &b, 60);
        CHECK(differ == 0 && state_differs(&a, &b) == 0, "%s: %zu samples", o.family, differ);
        run_clear(&a);
        run_clear(&b);
    }
}

static void test_state(void)
{
    TEST("finder: a restored finder goes on as the saved one");
    for (int at = 0; at < 40; at += 3) { /* in and between refreshes */
        struct wisp_sampling o = settings(at % 2 ? "simhash" : "dwta", at % 3);
        o.transform = true, o.rebuild = 7, o.redraw = 2, o.reservoir = at % 4 == 1, o.bucket = 6;
        o.bits = 15; /* enough for two parts */
        struct run a = run_of(o, 1), twin = run_of(o, 1), b = run_of(o, 1);
        live(&a, &twin, at);
        struct wisp_blob from[WISP_MAX_BLOBS], to[WISP_MAX_BLOBS];
        size_t n = lsh->blobs(a.state, from);
        CHECK(n <= WISP_MAX_BLOBS && n == lsh->blobs(b.state, to), "%zu blobs", n);
        for (size_t i = 0; i < n; i++) {
            CHECK(from[i].bytes % 4 == 0 && strlen(from[i].name) <= 20, "blob %s", from[i].name);
            memcpy(to[i].data, from[i].data, from[i].bytes);
        }
        CHECK(lsh->restored(b.state, &b.ctx), "saved after %d: refused", at);
        memcpy(b.w, a.w, ROWS * D * sizeof(float));
        b.q.step = a.q.step;
        size_t differ = live(&a, &b, 30);
        CHECK(differ == 0 && state_differs(&a, &b) == 0, "saved after %d: %zu differ", at, differ);
        run_clear(&a);
        run_clear(&b);
        run_clear(&twin);
    }
}

/* Counters of a checkpoint: the last value that a run can leave, and the first that none can. */
static void test_counters(void)
{
    enum { FIRST_GAP = 7 };
    struct wisp_sampling o = settings("dwta", WISP_TOPK);
    o.transform = true, o.rebuild = FIRST_GAP, o.bits = 15;
    struct run a = run_of(o, 1), twin = run_of(o, 1);
    live(&a, &twin, 3);
    struct wisp_blob all[WISP_MAX_BLOBS];
    lsh->blobs(a.state, all);
    struct wisp_lsh_counters *c = all[0].data, good = *c;
    TEST("finder: counters of a checkpoint, at their bounds");
    CHECK(good.hashed > 0 && good.hashed < ROWS && good.parts == 0, "in the middle of a build");
    const struct {
        uint64_t *at, last, first;
    } bounds[] = { { &c->built, 1, 2 },
                   { &c->now, 1, 2 },
                   { &c->gap, WISP_LSH_GROWTH * FIRST_GAP, WISP_LSH_GROWTH * FIRST_GAP + 1 },
                   { &c->gap, good.pos + 1, good.pos },
                   { &c->pos, good.gap - 1, good.gap },
                   { &c->parts, 0, 1 }, /* while rows are hashed none is filled */
                   { &c->filled, 0, 1 } };
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        *bounds[i].at = bounds[i].last;
        CHECK(lsh->restored(a.state, &a.ctx), "bound %zu: %d is refused", i, (int)bounds[i].last);
        *bounds[i].at = bounds[i].first;
        CHECK(!lsh->restored(a.state, &a.ctx), "bound %zu: %d is taken", i, (int)bounds[i].first);
        *c = good;
    }
    c->hashed = ROWS + 1;
    CHECK(!lsh->restored(a.state, &a.ctx), "more rows hashed than there are");
    run_clear(&a);
    run_clear(&twin);
}

static size_t words_differ(const void *a, const void *b, size_t n)
{
    size_t differ = 0;
    for (size_t i = 0; i < n; i++) differ += ((const uint32_t *)a)[i] != ((const uint32_t *)b)[i];
    return differ;
}

static void test_upkeep_is_spread(void)
{
    TEST("finder: no step hashes or fills more than its share, nor touches tables in use");
    enum { TABLES = 50, GAP = 25, ALL = TABLES * ROWS };
    struct wisp_sampling o = settings("simhash", WISP_TOPK);
    o.rebuild = GAP, o.transform = true, o.bucket = 0;
    struct run r = run_of(o, 1);
    const struct wisp_lsh *s = r.state;
    const struct wisp_tables *t = &s->t;
    lsh->begin(r.state, &r.ctx, &r.q);
    size_t n_entry = t->entry_bytes / 4, n_start = t->start_bytes / 4, n_rows = t->row_bytes / 4;
    size_t n = n_entry + 2 * n_start + 2 * n_rows, hashed = 0, filled = 0;
    uint32_t *old = wisp_alloc(n, 4);
    for (int step_no = 0; step_no < 2 * GAP; step_no++) {
        uint64_t used = s->c->now;
        uint32_t *entry = old, *start = entry + n_entry, *rows = start + 2 * n_start;
        normals(r.w, ROWS * D);
        memcpy(entry, t->entry, t->entry_bytes);
        memcpy(start, t->start[0], 2 * t->start_bytes);
        memcpy(rows, t->rows[0], 2 * t->row_bytes);
        step(&r, &(struct wisp_active){ .n = ROWS });
        size_t made = used ^ 1, keys = words_differ(entry, t->entry, n_entry);
        size_t in = words_differ(rows + made * n_rows, t->rows[made], n_rows);
        size_t touched = words_differ(start + used * n_start, t->start[used], n_start) +
                         words_differ(rows + used * n_rows, t->rows[used], n_rows);
        /* a share, what is rounded off, and a block sorted or a table filled besides */
        CHECK(keys <= ALL / (GAP * 3 / 4) + (64 + t->block) * TABLES, "%zu keys", keys);
        CHECK(in <= ALL / (GAP / 4) + ROWS, "step %d: %zu rows", step_no, in);
        CHECK(touched == 0, "%zu words in use", touched);
        hashed += keys, filled += in;
    }
    CHECK(hashed > ALL && filled > ALL / 2, "%zu keys, %zu rows", hashed, filled);
    wisp_free(old);
    run_clear(&r);
}

static void test_full_buckets(void)
{
    TEST("finder: full buckets keep other rows in each cycle");
    for (int reservoir = 0; reservoir < 2; reservoir++) {
        enum { CYCLES = 60, CAP = 40 };
        struct wisp_sampling o = settings("dwta", WISP_TOPK);
        o.rebuild = 1, o.bucket = o.keep = CAP, o.redraw = 0, o.reservoir = reservoir;
        struct run r = run_of(o, 1);
        const struct wisp_lsh *s = r.state;
        bool kept[ROWS] = { 0 };
        size_t n = 0, twice = 0;
        memset(r.w, 0, ROWS * D * sizeof(float)); /* all in one bucket */
        memset(r.h, 0, BATCH * D * sizeof(float));
        while (s->c->cycle <= CYCLES) {
            uint64_t cycle = s->c->cycle;
            lsh->begin(r.state, &r.ctx, &r.q);
            if (s->c->cycle != cycle || cycle == 0) continue;
            bool now[ROWS] = { 0 };
            find(&r, 0);
            CHECK(r.pot.n == CAP, "%zu rows", r.pot.n);
            for (size_t j = 0; j < r.pot.n; j++) {
                twice += now[r.pot.row[j]];
                now[r.pot.row[j]] = kept[r.pot.row[j]] = true;
            }
            step(&r, &(struct wisp_active){ .n = ROWS });
        }
        for (size_t row = 0; row < ROWS; row++) n += kept[row];
        CHECK(n > ROWS / 3 && twice == 0, "reservoir %d: %zu rows ever kept", reservoir, n);
        run_clear(&r);
    }
}

static void test_observes(void)
{
    TEST("finder: the frame follows all queries of a batch, not one tile of them");
    struct wisp_sampling o = settings("dwta", WISP_TOPK);
    o.transform = true, o.rebuild = 50;
    struct run r = run_of(o, 1);
    const struct wisp_lsh *s = r.state;
    lsh->begin(r.state, &r.ctx, &r.q);
    for (size_t i = 0; i < BATCH * D; i++) r.h[i] = i < 32 * D ? 1 : 3; /* two tiles */
    for (int n = 0; n < 400; n++) step(&r, &(struct wisp_active){ .n = ROWS });
    for (size_t c = 0; c < D; c++) {
        const struct wisp_frame *f = &s->frame[s->c->now];
        CHECK(fabsf(f->mean[c] - 2) < 0.05f && fabsf(f->scale[c] - 1) < 0.05f, "%g, %g",
              (double)f->mean[c], (double)f->scale[c]);
    }
    run_clear(&r);
}

static void test_failures(void)
{
    TEST("finder: wrong settings and full memory are refused");
    wisp_error err;
    void *state;
    struct wisp_sampling o = settings("md5", WISP_TOPK);
    CHECK(make(&state, &o, 1, &err) == WISP_EINVAL && !state, "family md5");
    CHECK(strstr(err.text, "md5") && strstr(err.text, "minhash"), "%s", err.text);
    o = settings("wta", WISP_TOPK);
    o.bits = 33;
    CHECK(make(&state, &o, 1, &err) == WISP_EINVAL && strstr(err.text, "33"), "33 bits");
    o.bits = 0, o.tables = 5000;
    CHECK(make(&state, &o, 1, &err) == WISP_EINVAL && strstr(err.text, "5000"), "5000 tables");
    o.tables = 0;
    long live_before = wisp_mem_live, n = 0;
    for (;; n++) {
        wisp_mem_budget = n;
        wisp_status st = make(&state, &o, 1, &err);
        wisp_mem_budget = -1;
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM && !state && wisp_mem_live == live_before, "after %ld", n);
    }
    CHECK(n == 1, "%ld blocks: bytes() counts one", n);
    lsh->free(state);
    CHECK(wisp_mem_live == live_before, "leak");
    lsh->free(NULL);
}

static void test_odd_sizes(void)
{
    TEST("finder: any number of rows, long keys, empty batches, rows of zeros");
    static const size_t sizes[] = { 1, 2, 31, 300 };
    static float w[300 * 5], bias[300], h[4 * 5];
    struct wisp_context ctx = { .k = &best };
    wisp_error err;
    for (size_t i = 0; wisp_hash_family_at(i); i++)
        for (size_t j = 0; j < 4; j++) {
            struct wisp_sampling o = settings(wisp_hash_family_at(i)->name, WISP_TOPK);
            o.bits = j == 3 ? 32 : 0, o.transform = true, o.rebuild = 1, o.tables = 7;
            struct wisp_finder_setup s = {
                .o = &o, .n_rows = sizes[j], .width = 5, .batch = 4, .seed = 1, .threads = 1
            };
            struct wisp_active all = { .n = sizes[j] };
            struct wisp_outcome out = { .active = &all };
            struct wisp_pot pot;
            void *state, *block = wisp_zalloc(wisp_pot_bytes(16), 1);
            CHECK(lsh->bytes(&s) > 0 && lsh->create(&state, &s, &err) == WISP_OK, "%s", err.text);
            wisp_pot_init(&pot, &best, block, 16);
            struct wisp_query q = { .h = h, .rows = { sizes[j], 5, { 5, w, NULL }, bias } };
            for (size_t n = 0; n < 12; n++, q.step++) {
                q.n = n < 2 ? 0 : 4;
                lsh->begin(state, &ctx, &q);
                for (size_t sample = 0; sample < q.n; sample++) {
                    wisp_pot_start(&pot, &q, sample);
                    lsh->sample(state, &q, sample, 0, &pot);
                }
                lsh->learn(state, &ctx, &q, &out);
            } /* all zero: every row is in the bucket of every sample */
            if (!wisp_hash_family_at(i)->cosine)
                CHECK(pot.n == (sizes[j] < 16 ? sizes[j] : 16), "%s: %zu", o.family, pot.n);
            lsh->free(state);
            wisp_free(block);
        }
}

int main(void)
{
    wisp_kernels_select(&best, NULL, NULL);
    test_strategies();
    test_vanilla();
    test_planted();
    test_bias();
    test_rehash();
    test_generations();
    test_threads();
    test_state();
    test_counters();
    test_upkeep_is_spread();
    test_full_buckets();
    test_observes();
    test_failures();
    test_odd_sizes();
    return test_end();
}

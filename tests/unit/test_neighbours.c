/* Neighbours: what the finder remembers, against naive memories, and what it finds in planted rows.
 */
#include "sampler_rig.h"

/* Sizes of the memories, from the state itself. */
struct memory {
    const int32_t *ring, *last, *carried;
    size_t n_ring, n_last;
};

static struct memory memory(struct wisp_sampler *s)
{
    struct wisp_blob ring = blob(s, "rings"), last = blob(s, "last"), carried = blob(s, "carried");
    return (struct memory){ .ring = ring.data,
                            .last = last.data,
                            .carried = carried.data,
                            .n_ring = ring.bytes / sizeof(int32_t) / LABELS,
                            .n_last = last.bytes / sizeof(int32_t) / ROWS };
}

/* A list is rows without repeats, then only -1. */
static bool is_list(const int32_t *x, size_t n)
{
    size_t used = 0;
    while (used < n && x[used] >= 0 && x[used] < LABELS) used++;
    for (size_t i = used; i < n; i++)
        if (x[i] != -1) return false;
    for (size_t i = 0; i < used; i++)
        for (size_t k = 0; k < i; k++)
            if (x[i] == x[k]) return false;
    return true;
}

static bool among(const int32_t *x, size_t n, int32_t row)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] == row) return true;
    return false;
}

static size_t group_of(int32_t label)
{
    return (size_t)label / GROUP;
}

/* ---- over real steps ---- */

static void check_memory(struct wisp_sampler *s, const char *when)
{
    struct memory m = memory(s);
    for (size_t i = 0; i < LABELS; i++) {
        const int32_t *ring = m.ring + i * m.n_ring;
        CHECK(is_list(ring, m.n_ring) && !among(ring, m.n_ring, (int32_t)i), "%s: ring of %zu",
              when, i);
    }
    for (size_t i = 0; i < ROWS; i++)
        CHECK(is_list(m.last + i * m.n_last, m.n_last), "%s: last of %zu", when, i);
}

/* Candidates: the best by exact score, no true label; what the sample's own memories hold is never
 * passed over for something worse. */
static void check_own(const struct rig *r, const struct wisp_query *q)
{
    struct memory m = memory(r->s);
    for (size_t i = 0; i < q->n; i++) {
        size_t n;
        const int32_t *own = wisp_sampler_own(r->s, i, &n);
        CHECK(n <= r->o.keep && is_list(own, n), "sample %zu: its candidates repeat", i);
        double before = INFINITY, worst = INFINITY;
        for (size_t c = 0; c < n; c++) {
            double score = score_of(q, i, own[c]);
            CHECK(!is_label(q, i, own[c]), "sample %zu: true label %d", i, (int)own[c]);
            CHECK(score <= before + 1e-5, "sample %zu: %g after %g", i, score, before);
            before = worst = score;
        }
        const int32_t *last = m.last + q->id[i] * m.n_last;
        for (size_t c = 0; c < m.n_last && last[c] >= 0; c++)
            CHECK(among(own, n, last[c]) || is_label(q, i, last[c]) ||
                      (n == r->o.keep && score_of(q, i, last[c]) <= worst + 1e-5),
                  "sample %zu: row %d of its last visit is missing", i, (int)last[c]);
        for (uint32_t y = q->yp[i]; y < q->yp[i + 1]; y++)
            for (size_t c = 0; c < m.n_ring; c++) {
                int32_t row = m.ring[(size_t)q->yi[y] * m.n_ring + c];
                CHECK(row < 0 || among(own, n, row) || is_label(q, i, row) ||
                          (n == r->o.keep && score_of(q, i, row) <= worst + 1e-5),
                      "sample %zu: row %d of a ring is missing", i, (int)row);
            }
    }
}

/* Rows of the samples' groups among their candidates: a share of those there are. */
static double group_share(const struct rig *r, const struct wisp_query *q)
{
    size_t found = 0, all = 0;
    for (size_t i = 0; i < q->n; i++) {
        size_t n;
        const int32_t *own = wisp_sampler_own(r->s, i, &n);
        if (q->yp[i + 1] == q->yp[i]) continue;
        size_t group = (size_t)q->xi[q->xp[i]] / 4;
        for (int32_t l = (int32_t)(group * GROUP); group_of(l) == group; l++) {
            if (is_label(q, i, l)) continue;
            all++;
            found += among(own, n, l);
        }
    }
    return (double)found / (double)all;
}

static void test_planted(void)
{
    TEST("planted groups: candidates are the group's rows, far above chance");
    struct wisp_sampling o = settings("neighbours+random");
    struct rig r;
    rig_make(&r, &o, 2);
    double share = 0, first = 0;
    for (int step = 0; step < 170; step++) {
        rig_step(&r);
        if (step % 40 == 0 || step > 160) check_memory(r.s, "training");
        if (step < 165 && step != 20) continue;
        struct wisp_query q = rig_query(&r);
        struct wisp_active got;
        wisp_sampler_choose(&got, r.s, r.ctx, &q);
        check_own(&r, &q);
        if (step == 20) first = group_share(&r, &q);
        else share += group_share(&r, &q) / 5;
    }
    /* 20 of 420 rows by chance: 5 %; random rows show the finder what the labels' groups are */
    CHECK(share > 0.75, "%.2f of the groups' rows are candidates", share);
    CHECK(share > first, "%.2f after 20 steps, %.2f at the end", first, share);
    rig_clear(&r);
}

/* ---- learning from outcomes made by hand ---- */

enum { K = 64 }; /* at least what the finder asks for */

struct lesson { /* a batch with an outcome */
    struct wisp_query q;
    struct wisp_active active;
    struct wisp_outcome o;
    uint32_t yp[BATCH + 1];
    int32_t yi[BATCH * 12], rows[LABELS], best[BATCH * K];
    size_t id[BATCH];
    float heat[LABELS], h[BATCH * WIDTH];
    uint32_t xp[BATCH + 1];
};
static float flat_w[LABELS * WIDTH], flat_bias[LABELS];

static void make_lesson(struct lesson *l, size_t n, uint64_t step)
{
    size_t at = 0, n_active = 0;
    for (int32_t i = 0; i < LABELS; i++)
        if (below(3)) l->rows[n_active++] = i;
    for (size_t i = 0; i < n_active; i++) l->heat[i] = below(4) ? test_randf(&rng) : 0;
    for (size_t i = 0; i < n; i++) {
        size_t n_labels = below(20) == 0 ? 12 : below(4), label = below(LABELS / 13);
        l->id[i] = (step * BATCH + i * 5) % ROWS;
        l->yp[i] = (uint32_t)at;
        for (size_t y = 0; y < n_labels; y++, label += 1 + below(13)) l->yi[at++] = (int32_t)label;
        size_t n_best = below(4) ? K : below(K), from = below(n_active);
        for (size_t k = 0; k < K; k++)
            l->best[i * K + k] = k < n_best ? l->rows[(from + k) % n_active] : -1;
        l->yp[i + 1] = (uint32_t)at;
    }
    l->active = (struct wisp_active){ .n = n_active, .rows = l->rows };
    l->o = (struct wisp_outcome){ .active = &l->active, .k = K, .best = l->best, .heat = l->heat };
    l->q = (struct wisp_query){ .n = n,
                                .h = l->h,
                                .yp = l->yp,
                                .yi = l->yi,
                                .id = l->id,
                                .step = step,
                                .rows = { LABELS, WIDTH, { WIDTH, flat_w, NULL }, flat_bias } };
}

/* The last visit's best wrong rows, in order. */
static void check_last(const struct lesson *l, struct wisp_sampler *s)
{
    struct memory m = memory(s);
    for (size_t i = 0; i < l->q.n; i++) {
        const int32_t *last = m.last + l->id[i] * m.n_last;
        size_t n = 0;
        for (size_t k = 0; k < K && l->best[i * K + k] >= 0 && n < m.n_last; k++) {
            if (is_label(&l->q, i, l->best[i * K + k])) continue;
            CHECK(last[n] == l->best[i * K + k], "sample %zu, place %zu: %d, not %d", i, n,
                  (int)last[n], (int)l->best[i * K + k]);
            n++;
        }
        for (; n < m.n_last; n++)
            CHECK(last[n] == -1, "sample %zu: %d after the end", i, (int)last[n]);
    }
}

/* Rings change by what came together and by wrong rows, and by nothing else.  The best wrong row of
 * the only sample that has a label gets into its ring, if the sample has other labels too: a label
 * alone is given more wrong rows than a ring holds, the best first. */
static void check_rings(const struct lesson *l, const int32_t *was, struct wisp_sampler *s)
{
    struct memory m = memory(s);
    static bool may[LABELS][LABELS];
    static int32_t must[LABELS];
    static size_t samples[LABELS];
    memset(may, 0, sizeof may);
    memset(must, 255, sizeof must);
    memset(samples, 0, sizeof samples);
    for (size_t i = 0; i < l->q.n; i++)
        for (uint32_t y = l->yp[i]; y < l->yp[i + 1]; y++) {
            int32_t label = l->yi[y];
            samples[label]++;
            for (uint32_t z = l->yp[i]; z < l->yp[i + 1]; z++) may[label][l->yi[z]] = z != y;
            for (size_t k = K; k-- > 0;) {
                int32_t row = l->best[i * K + k];
                if (row < 0 || is_label(&l->q, i, row)) continue;
                may[label][row] = true;
                must[label] = l->yp[i + 1] - l->yp[i] > 1 ? row : -1;
            }
        }
    for (size_t i = 0; i < LABELS; i++) {
        const int32_t *ring = m.ring + i * m.n_ring, *old = was + i * m.n_ring;
        CHECK(is_list(ring, m.n_ring), "ring of %zu", i);
        for (size_t c = 0; c < m.n_ring; c++)
            CHECK(ring[c] == old[c] || (ring[c] >= 0 && may[i][ring[c]]),
                  "ring of %zu: %d came from nowhere", i, (int)ring[c]);
        CHECK(must[i] < 0 || samples[i] > 1 || among(old, m.n_ring, must[i]) ||
                  among(ring, m.n_ring, must[i]),
              "ring of %zu: %d is missing", i, (int)must[i]);
    }
}

/* The hottest rows: none outside is hotter than one inside, and only rows above 0. */
static void check_carried(const struct wisp_active *active, const float *heat,
                          struct wisp_sampler *s, size_t most)
{
    const int32_t *carried = memory(s).carried;
    size_t n = (size_t)carried[0], warm = 0;
    float coldest = INFINITY;
    for (size_t i = 0; i < active->n; i++) {
        warm += heat[i] > 0;
        if (among(carried + 1, n, active->rows[i]) && heat[i] < coldest) coldest = heat[i];
    }
    CHECK(n == (warm < most ? warm : most), "%zu carried of %zu with heat", n, warm);
    CHECK(n == 0 || coldest > 0, "a row with heat %g is carried", (double)coldest);
    for (size_t c = 0; c < n; c++) {
        CHECK(wisp_active_place(active, carried[1 + c]) != SIZE_MAX, "row %d was not active",
              (int)carried[1 + c]);
        CHECK(!among(carried + 1, c, carried[1 + c]), "row %d twice", (int)carried[1 + c]);
    }
    for (size_t i = 0; i < active->n; i++)
        CHECK(heat[i] <= coldest || n < most || among(carried + 1, n, active->rows[i]),
              "row %d, heat %g, is left out, %g is in", (int)active->rows[i], (double)heat[i],
              (double)coldest);
}

static void test_lessons(void)
{
    static struct lesson l;
    struct wisp_sampling o = settings("neighbours");
    struct wisp_sampler *s[3];
    TEST("lessons: last visits, rings and carried rows; the same for 1, 2 and 4 threads");
    for (int t = 0; t < 3; t++) {
        struct wisp_finder_setup setup = setup_of(&o, 1 << t);
        CHECK(wisp_sampler_create(&s[t], &setup, &plain, BATCH * 12, &err) == WISP_OK, "%s",
              err.text);
    }
    CHECK(wisp_sampler_best(s[0]) <= K, "%zu best rows wanted", wisp_sampler_best(s[0]));
    size_t bytes = blob(s[0], "rings").bytes;
    int32_t *was = malloc(bytes);
    for (uint64_t step = 0; step < 60 && !test_bad; step++) {
        make_lesson(&l, step % 7 == 3 ? 5 : BATCH, step);
        memcpy(was, memory(s[0]).ring, bytes);
        for (int t = 0; t < 3; t++) wisp_sampler_learn(s[t], &contexts[1 << t], &l.q, &l.o);
        check_last(&l, s[0]);
        check_rings(&l, was, s[0]);
        check_carried(&l.active, l.heat, s[0], o.n_carried);
        for (int t = 1; t < 3; t++) {
            static const char *const names[] = { "rings", "rings.next", "last", "carried" };
            for (int b = 0; b < 4; b++) {
                struct wisp_blob x = blob(s[0], names[b]), y = blob(s[t], names[b]);
                CHECK(x.bytes == y.bytes && memcmp(x.data, y.data, x.bytes) == 0,
                      "%s: %d threads, step %d", names[b], 1 << t, (int)step);
            }
        }
    }
    TEST("lessons: the sample memory is found again, carried rows are for all");
    struct wisp_active got;
    struct wisp_query q = l.q;
    uint32_t none[BATCH + 1] = { 0 }; /* without labels there are no rings to look at: only last */
    q.yp = none;
    wisp_sampler_choose(&got, s[0], &contexts[1], &q);
    struct memory m = memory(s[0]);
    for (size_t i = 0; i < q.n; i++) {
        size_t n, n_last = 0;
        const int32_t *own = wisp_sampler_own(s[0], i, &n), *last = m.last + l.id[i] * m.n_last;
        while (n_last < m.n_last && last[n_last] >= 0) n_last++;
        CHECK(n >= (n_last < o.keep ? n_last : o.keep), "sample %zu: %zu rows", i, n);
        for (size_t c = 0; c < n; c++)
            CHECK(wisp_active_place(&got, own[c]) != SIZE_MAX, "row %d is not active", (int)own[c]);
    }
    for (int32_t c = 0; c < m.carried[0]; c++)
        CHECK(wisp_active_place(&got, m.carried[1 + c]) != SIZE_MAX, "row %d is not carried",
              (int)m.carried[1 + c]);
    for (int t = 0; t < 3; t++) wisp_sampler_free(s[t]);
    free(was);
}

/* ---- heat of a real step ---- */

static struct heater { /* passes updates on and keeps the gradients of the output biases */
    struct wisp_update update;
    const struct wisp_update *to;
    const struct wisp_param *bias;
    float heat[LABELS];
} heater;

static void keep_heat(const struct wisp_update *u, struct wisp_param *p, size_t row, const float *g)
{
    (void)u;
    if (p == heater.bias) heater.heat[row] = *g;
    heater.to->row(heater.to, p, row, g);
}

static void test_heat(void)
{
    TEST("carried rows: those with the largest gradients of the step, one set and one per sample");
    for (int per_example = 0; per_example < 2; per_example++) {
        struct wisp_sampling o = settings("neighbours+random");
        o.n_carried = 15, o.per_example = per_example;
        struct rig r;
        rig_make(&r, &o, 2);
        heater = (struct heater){ .update = { keep_heat },
                                  .to = &r.opt.update,
                                  .bias = &wisp_net_output(&r.net)->params[1] };
        for (size_t step = 0; step < 12; step++) {
            size_t rows[BATCH];
            float heat[LABELS];
            for (size_t i = 0; i < BATCH; i++) rows[i] = (step * BATCH + i) * 7 % ROWS;
            memset(heater.heat, 0, sizeof heater.heat);
            rig_step_on(&r, rows, BATCH, &heater.update);
            for (size_t i = 0; i < r.step.head.active.n; i++)
                heat[i] = heater.heat[r.step.head.active.rows[i]];
            check_carried(&r.step.head.active, heat, r.s, o.n_carried);
        }
        rig_clear(&r);
    }
}

int main(void)
{
    rig_open();
    test_planted();
    test_lessons();
    test_heat();
    return rig_close();
}

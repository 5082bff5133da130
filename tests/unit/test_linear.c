/* Linear models: the solver by its duality gap, negatives by their definition, training for any number
 * of threads and any stops, scores against sums in double. */
#include "base/mem.h"
#include "base/rand.h"
#include "hash/votes.h"
#include "linear/linear.h"
#include "test.h"

#include <math.h>
#include <string.h>

enum { ROWS = 300, FEATURES = 40, LABELS = 12, MOST = ROWS * FEATURES };

static wisp_error err;
static uint64_t rng = 5;

static size_t below(size_t n)
{
    return (size_t)(test_rand(&rng) >> 20) % n;
}

/* ---- rows: label l likes features 3 l .. 3 l + 2 ---- */

static size_t xp[ROWS + 1], yp[ROWS + 1], lp[LABELS + 2];
static struct wisp_linear_entry x[MOST];
static float square[ROWS], weight[ROWS];
static int32_t yi[2 * ROWS];
static uint32_t lr[2 * ROWS];
static struct wisp_linear_rows rows = { .n_rows = ROWS,
                                        .n_features = FEATURES,
                                        .n_labels = LABELS,
                                        .xp = xp,
                                        .x = x,
                                        .square = square,
                                        .yp = yp,
                                        .yi = yi,
                                        .lp = lp,
                                        .lr = lr };

static void make_rows(void)
{
    size_t n = 0, labels = 0;
    for (size_t i = 0; i < ROWS; i++) {
        bool has[FEATURES] = { 0 };
        xp[i] = n, yp[i] = labels;
        int32_t a = (int32_t)below(LABELS - 1),
                b = a + 1; /* the last label: of second place only */
        yi[labels++] = a;
        if (below(3) == 0 && b < LABELS) yi[labels++] = b;
        for (size_t e = yp[i]; e < labels; e++)
            for (int32_t f = 3 * yi[e]; f < 3 * yi[e] + 3; f++) has[f] = below(3) > 0;
        for (int k = 0; k < 4; k++) has[below(FEATURES)] = true;
        double sum = 1;
        for (int32_t f = 0; f < FEATURES; f++) {
            if (!has[f]) continue;
            x[n] =
                (struct wisp_linear_entry){ f,
                                            0.2f + 0.3f * (float)fabs((double)test_randf(&rng)) };
            sum += (double)x[n].x * x[n].x;
            n++;
        }
        square[i] = (float)sum;
        weight[i] = (float)below(3);
    }
    xp[ROWS] = n, yp[ROWS] = labels;
    for (size_t e = 0; e < labels; e++) lp[yi[e] + 2]++;
    for (size_t l = 0; l < LABELS; l++) lp[l + 2] += lp[l + 1];
    for (size_t i = 0; i < ROWS; i++)
        for (size_t e = yp[i]; e < yp[i + 1]; e++) lr[lp[yi[e] + 1]++] = (uint32_t)i;
}

static bool has_label(size_t row, size_t label)
{
    for (size_t e = yp[row]; e < yp[row + 1]; e++)
        if ((size_t)yi[e] == label) return true;
    return false;
}

/* ---- the solver ---- */

static float old_w[FEATURES], old_bias; /* what the problem's weights are to stay near to */

static double primal(const struct wisp_linear_problem *p, const struct wisp_linear_loss *loss)
{
    double sum = 0.5 * pow((double)p->bias - old_bias, 2);
    for (size_t f = 0; f < p->n_features; f++) sum += 0.5 * pow((double)p->w[f] - old_w[f], 2);
    for (size_t i = 0; i < p->n; i++) {
        double score = p->bias;
        for (size_t e = p->xp[i]; e < p->xp[i + 1]; e++)
            score += (double)p->w[p->x[e].id] * p->x[e].x;
        if (p->cost[i] > 0) sum += p->cost[i] * loss->primal(p->sign[i] * score);
    }
    return sum;
}

/* The weights that the dual variables stand for, in double. */
static double strays(const struct wisp_linear_problem *p)
{
    double w[FEATURES], bias = old_bias, most = 0;
    for (size_t f = 0; f < FEATURES; f++) w[f] = old_w[f];
    for (size_t i = 0; i < p->n; i++) {
        bias += (double)p->a[i] * p->sign[i];
        for (size_t e = p->xp[i]; e < p->xp[i + 1]; e++)
            w[p->x[e].id] += (double)p->a[i] * p->sign[i] * p->x[e].x;
    }
    for (size_t f = 0; f < FEATURES; f++) most = fmax(most, fabs(w[f] - p->w[f]));
    return fmax(most, fabs(bias - p->bias));
}

static struct wisp_linear_problem problem(size_t label, double cost, bool weighted)
{
    static float costs[ROWS], a[ROWS], w[FEATURES];
    static int8_t sign[ROWS];
    static uint32_t order[ROWS];
    for (size_t i = 0; i < ROWS; i++) {
        sign[i] = has_label(i, label) ? 1 : -1;
        costs[i] = (float)(cost * (weighted ? weight[i] : 1));
        a[i] = 0;
    }
    memset(w, 0, sizeof w);
    return (struct wisp_linear_problem){ .n = ROWS,
                                         .n_features = FEATURES,
                                         .xp = xp,
                                         .x = x,
                                         .square = square,
                                         .sign = sign,
                                         .cost = costs,
                                         .a = a,
                                         .w = w,
                                         .order = order };
}

/* Weights to stay near to, or none. */
static void draw_old(struct wisp_linear_problem *p, bool any)
{
    double sum = 0;
    for (size_t f = 0; f < FEATURES; f++) {
        p->w[f] = old_w[f] = any && below(2) ? test_randf(&rng) : 0;
        sum += (double)old_w[f] * old_w[f];
    }
    p->bias = old_bias = any ? test_randf(&rng) : 0;
    p->old_length = 0.5 * (sum + (double)old_bias * old_bias);
}

static void test_gap(void)
{
    const struct wisp_linear_loss *loss;
    for (size_t i = 0; (loss = wisp_linear_loss_at(i)); i++)
        for (int k = 0; k < 12; k++) {
            const double cost = k % 3 == 0 ? 0.05 : k % 3 == 1 ? 1 : 20;
            struct wisp_linear_how how = {
                .loss = loss, .precision = 1e-5f, .passes = 20000, .seed = 3
            };
            struct wisp_linear_problem p = problem(below(LABELS), cost, k % 6 >= 3);
            draw_old(&p, k >= 6);
            wisp_linear_solve(&p, &how, 1);
            const double high = primal(&p, loss), low = p.reached;
            CHECK(high >= low - 1e-4 * high, "%s, cost %g: the dual %g is above the primal %g",
                  loss->name, cost, low, high);
            CHECK(high - low <= 2e-3 * high, "%s, cost %g: primal %g, dual %g", loss->name, cost,
                  high, low);
            CHECK(strays(&p) < 1e-3, "%s, cost %g: weights are off by %g", loss->name, cost,
                  strays(&p));
            for (size_t r = 0; r < ROWS; r++)
                CHECK(p.cost[r] > 0 || p.a[r] == 0, "row %zu counts for nothing and has %g", r,
                      (double)p.a[r]);
        }
}

/* What shrinking leaves out is looked at in the end: a solution is as good with few visits. */
static void test_precision(void)
{
    double last = INFINITY;
    for (int k = 0; k < 4; k++) {
        const float precision[] = { 1, 0.1f, 0.01f, 0.001f };
        struct wisp_linear_how how = {
            .loss = wisp_linear_loss_at(0), .precision = precision[k], .passes = 5000, .seed = 3
        };
        struct wisp_linear_problem p = problem(2, 1, false);
        draw_old(&p, false);
        wisp_linear_solve(&p, &how, 1);
        const double gap = primal(&p, how.loss) - p.reached;
        CHECK(gap <= last + 1e-6, "precision %g: the gap is %g, before it was %g",
              (double)precision[k], gap, last);
        CHECK(p.visits < ROWS * 400, "precision %g: %llu visits", (double)precision[k],
              (unsigned long long)p.visits);
        last = gap;
    }
    CHECK(last < 0.01, "the gap stays %g", last);
}

/* ---- negatives ---- */

static int64_t start[FEATURES + 1];
static int32_t voted[FEATURES * LABELS];
static float votes_weight[FEATURES * LABELS];
static struct wisp_votes votes = {
    .n_features = FEATURES, .start = start, .label = voted, .weight = votes_weight
};

static void make_votes(void)
{
    int64_t n = 0;
    for (size_t f = 0; f < FEATURES; f++) {
        start[f] = n;
        for (int32_t l = 0; l < LABELS; l++) {
            if (f / 3 != (size_t)l && below(4)) continue;
            voted[n] = l;
            votes_weight[n++] = 0.1f + (float)below(100) / 50;
        }
    }
    start[FEATURES] = n;
}

/* A row's votes in the order of its features, as an election sums them. */
static void count_votes(float out[LABELS], const float *factor, size_t row)
{
    memset(out, 0, LABELS * sizeof *out);
    for (size_t e = xp[row]; e < xp[row + 1]; e++)
        for (int64_t k = start[x[e].id]; k < start[x[e].id + 1]; k++)
            out[voted[k]] += x[e].x * votes_weight[k];
    for (size_t l = 0; l < LABELS; l++) out[l] *= factor[l];
}

static void test_negatives(struct wisp_context *ctx)
{
    const struct wisp_negatives_how how = { .always = 3, .up_to = 7, .share = 0.5, .random = 0 };
    float factor[LABELS], all[LABELS];
    struct wisp_negatives n;
    size_t counts[LABELS] = { 0 }, tails = 0;
    for (size_t l = 0; l < LABELS; l++)
        factor[l] = wisp_negatives_factor((int64_t)(lp[l + 1] - lp[l]));
    CHECK(wisp_negatives_find(&n, ctx, &rows, &votes, factor, &how, 9, &err) == WISP_OK, "%s",
          err.text);
    for (size_t row = 0; row < ROWS; row++) {
        bool found[LABELS] = { 0 };
        size_t tail = 0, always = 0, open = 0;
        count_votes(all, factor, row);
        for (const uint32_t *l = n.label + row * n.each; *l != WISP_NO_LABEL; l++) {
            const size_t label = *l & ~WISP_TAIL;
            size_t better = 0;
            for (size_t o = 0; o < LABELS; o++) better += all[o] > all[label];
            CHECK(!has_label(row, label) && !found[label],
                  "row %zu: label %zu is its own, or twice", row, label);
            CHECK(all[label] > 0 && better < (*l & WISP_TAIL ? 7 : 3),
                  "row %zu: label %zu has %g votes, %zu have more", row, label, (double)all[label],
                  better);
            found[label] = true;
            counts[label]++;
            if (*l & WISP_TAIL) tail++;
            else always++;
        }
        for (size_t l = 0; l < LABELS; l++) {
            size_t better = 0;
            for (size_t o = 0; o < LABELS; o++) better += all[o] > all[l];
            const bool wanted = all[l] > 0 && !has_label(row, l);
            CHECK(!wanted || better >= 3 || found[l], "row %zu: label %zu is missing", row, l);
            open += wanted && better >= 3 && better < 7;
        }
        CHECK(tail == open / 2 || tail == (open + 1) / 2, "row %zu: %zu of %zu", row, tail, open);
        tails += tail;
    }
    CHECK(tails > ROWS / 2, "%zu of the tail", tails);
    for (size_t l = 0; l < LABELS; l++)
        CHECK(counts[l] == n.count[l], "label %zu: %zu, counted %zu", l, counts[l], n.count[l]);
    wisp_negatives_clear(&n);
}

/* ---- training ---- */

static struct wisp_linear_done train_from(struct wisp_context *ctx,
                                          const struct wisp_linear_rows *from, bool all,
                                          const struct wisp_linear_done *old, float pace,
                                          size_t stop)
{
    const struct wisp_negatives_how hard = { .always = 3, .up_to = 8, .share = 0.4, .random = 20 };
    const struct wisp_linear_how how = { .loss = wisp_linear_loss_at(0),
                                         .cost = 0.5f,
                                         .precision = 0.01f,
                                         .passes = 100,
                                         .drop = 0.01f,
                                         .old_pace = pace,
                                         .seed = 4 };
    const struct wisp_linear_rows r = *from;
    struct wisp_linear_done done, part;
    struct wisp_negatives n = { 0 };
    struct wisp_linear_trainer *t;
    float factor[LABELS];
    for (size_t l = 0; l < LABELS; l++) factor[l] = wisp_negatives_factor((int64_t)l);
    if (!all)
        CHECK(wisp_negatives_find(&n, ctx, &r, &votes, factor, &hard, 9, &err) == WISP_OK, "%s",
              err.text);
    CHECK(wisp_linear_done_init(&done, LABELS, &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_linear_trainer_make(&t, ctx, &r, all ? NULL : &n, &how, old, &done, &err) == WISP_OK,
          "%s", err.text);
    while (done.n_labels < LABELS)
        CHECK(wisp_linear_train_some(t, &err) == WISP_OK, "%s", err.text);
    wisp_linear_trainer_free(t);
    if (stop) { /* what is behind label 'stop', once more */
        part = done;
        part.n_labels = stop, part.n = (size_t)part.start[stop];
        CHECK(wisp_linear_trainer_make(&t, ctx, &r, all ? NULL : &n, &how, old, &part, &err) ==
                  WISP_OK,
              "%s", err.text);
        while (part.n_labels < LABELS)
            CHECK(wisp_linear_train_some(t, &err) == WISP_OK, "%s", err.text);
        wisp_linear_trainer_free(t);
        done = part;
    }
    wisp_negatives_clear(&n);
    return done;
}

static struct wisp_linear_done train(struct wisp_context *ctx, bool all, bool weighted, size_t stop)
{
    struct wisp_linear_rows r = rows;
    r.weight = weighted ? weight : NULL;
    return train_from(ctx, &r, all, NULL, 0, stop);
}

static size_t best_label(const struct wisp_linear_done *d, size_t row)
{
    size_t best = 0;
    double most = -INFINITY;
    for (size_t l = 0; l < LABELS; l++) {
        double z = d->bias[l];
        for (size_t e = xp[row]; e < xp[row + 1]; e++)
            for (int64_t k = d->start[l]; k < d->start[l + 1]; k++)
                if (d->id[k] == x[e].id) z += (double)d->weight[k] * x[e].x;
        if (z > most) most = z, best = l;
    }
    return best;
}

static bool same(const struct wisp_linear_done *a, const struct wisp_linear_done *b)
{
    return a->n == b->n && memcmp(a->start, b->start, (LABELS + 1) * sizeof *a->start) == 0 &&
           memcmp(a->id, b->id, a->n * sizeof *a->id) == 0 &&
           memcmp(a->weight, b->weight, a->n * sizeof *a->weight) == 0 &&
           memcmp(a->bias, b->bias, LABELS * sizeof *a->bias) == 0;
}

static void test_train(wisp_context *ctxs[])
{
    for (int way = 0; way < 4; way++) {
        struct wisp_linear_done one = train(ctxs[0], way & 1, way & 2, 0);
        struct wisp_linear_done three = train(ctxs[1], way & 1, way & 2, 0);
        struct wisp_linear_done again = train(ctxs[1], way & 1, way & 2, 5);
        CHECK(one.n > LABELS, "%zu weights", one.n);
        CHECK(same(&one, &three), "way %d: three threads give other weights", way);
        CHECK(same(&one, &again), "way %d: a stop after 5 labels gives other weights", way);
        size_t hits = 0;
        for (size_t i = 0; i < ROWS; i++) hits += has_label(i, best_label(&one, i));
        CHECK(hits > ROWS * 7 / 10, "way %d: %zu of %d rows are known", way, hits, ROWS);
        for (size_t l = 0; l < LABELS; l++)
            for (int64_t k = one.start[l]; k < one.start[l + 1]; k++)
                CHECK(fabsf(one.weight[k]) >= 0.01f &&
                          (k == one.start[l] || one.id[k] > one.id[k - 1]),
                      "label %zu: weight %g of feature %d", l, (double)one.weight[k], one.id[k]);
        wisp_linear_done_clear(&one), wisp_linear_done_clear(&three),
            wisp_linear_done_clear(&again);
    }
}

/* ---- scores ---- */

static void test_scores(wisp_context *ctx)
{
    struct wisp_linear_done d = train(ctx, true, false, 0);
    static int64_t from[FEATURES + 1];
    int32_t *id = wisp_alloc(d.n, sizeof *id), xi[FEATURES], labels[LABELS];
    float *w = wisp_alloc(d.n, sizeof *w), xv[FEATURES], all[LABELS], some[LABELS], other[LABELS];
    uint16_t *half = wisp_alloc(d.n, sizeof *half);
    int8_t *bytes = wisp_alloc(d.n, sizeof *bytes);
    float scale[FEATURES];
    wisp_linear_by_feature(from, id, w, &d, FEATURES);
    struct wisp_linear by_label = { FEATURES, LABELS,          false,         d.start,
                                    d.id,     .f32 = d.weight, .bias = d.bias };
    struct wisp_linear by_feature = { FEATURES, LABELS, true, from, id, .f32 = w, .bias = d.bias };
    static float places[FEATURES];
    wisp_linear_places(places, &by_label);
    struct wisp_linear in16 = by_feature, in8 = by_feature;
    for (size_t f = 0; f < FEATURES; f++) {
        scale[f] = 0;
        for (int64_t k = from[f]; k < from[f + 1]; k++)
            scale[f] = fmaxf(scale[f], fabsf(w[k]) / 127);
        for (int64_t k = from[f]; k < from[f + 1]; k++) {
            CHECK(k == from[f] || id[k] > id[k - 1], "feature %zu: labels fall", f);
            half[k] = wisp_round16(w[k]);
            bytes[k] = (int8_t)lrintf(w[k] / scale[f]);
        }
    }
    in16.f32 = in8.f32 = NULL, in16.b16 = half, in8.i8 = bytes, in8.scale = scale;
    for (int32_t l = 0; l < LABELS; l++) labels[l] = LABELS - 1 - l;
    for (size_t i = 0; i < ROWS; i++) {
        const size_t n = xp[i + 1] - xp[i];
        for (size_t e = 0; e < n; e++) xi[e] = x[xp[i] + e].id, xv[e] = x[xp[i] + e].x;
        wisp_linear_all(all, &by_feature, xi, xv, n);
        by_label.places = i % 3 ? places : NULL;
        wisp_linear_some(some, &by_label, xi, xv, n, labels, LABELS);
        for (size_t l = 0; l < LABELS; l++) {
            double z = d.bias[l];
            for (size_t e = 0; e < n; e++)
                z += (double)xv[e] *
                     wisp_linear_weight(i % 2 ? &by_label : &by_feature, (size_t)xi[e], l);
            CHECK(fabs(z - all[l]) < 1e-5 && fabs(z - some[LABELS - 1 - l]) < 1e-5,
                  "row %zu, label %zu: %g, by features %g, by labels %g", i, l, z, (double)all[l],
                  (double)some[LABELS - 1 - l]);
        }
        wisp_linear_some(other, &by_feature, xi, xv, n, labels, LABELS);
        for (size_t l = 0; l < LABELS; l++)
            CHECK(fabsf(other[l] - some[l]) < 1e-5f, "row %zu: some labels by features", i);
        wisp_linear_all(some, &in16, xi, xv, n);
        wisp_linear_all(other, &in8, xi, xv, n);
        for (size_t l = 0; l < LABELS; l++)
            CHECK(fabsf(some[l] - all[l]) < 0.02f && fabsf(other[l] - all[l]) < 0.05f,
                  "row %zu, label %zu: %g, in bf16 %g, in int8 %g", i, l, (double)all[l],
                  (double)some[l], (double)other[l]);
    }
    wisp_free(id), wisp_free(w), wisp_free(half), wisp_free(bytes);
    wisp_linear_done_clear(&d);
}

/* ---- going on ---- */

/* The weights as a model, by feature or by label, and back. */
static void test_by_label(const struct wisp_linear_done *d)
{
    int64_t from[FEATURES + 1];
    int32_t *id = wisp_alloc(d->n, sizeof *id);
    float *w = wisp_alloc(d->n, sizeof *w);
    wisp_linear_by_feature(from, id, w, d, FEATURES);
    struct wisp_linear m = { .n_features = FEATURES, .n_labels = LABELS, .bias = d->bias };
    for (int by_feature = 0; by_feature < 2; by_feature++) {
        struct wisp_linear_done back;
        m.by_feature = by_feature;
        m.start = by_feature ? from : d->start;
        m.id = by_feature ? id : d->id;
        m.f32 = by_feature ? w : d->weight;
        CHECK(wisp_linear_by_label(&back, &m, &err) == WISP_OK, "%s", err.text);
        CHECK(same(&back, d), "lists by %s come back as others", by_feature ? "feature" : "label");
        wisp_linear_done_clear(&back);
    }
    wisp_free(id), wisp_free(w);
}

static size_t n_known(const struct wisp_linear_done *d)
{
    size_t n = 0;
    for (size_t i = 0; i < ROWS; i++) n += has_label(i, best_label(d, i));
    return n;
}

static bool same_label(const struct wisp_linear_done *a, const struct wisp_linear_done *b, size_t l)
{
    const size_t n = (size_t)(a->start[l + 1] - a->start[l]);
    return n == (size_t)(b->start[l + 1] - b->start[l]) && a->bias[l] == b->bias[l] &&
           memcmp(a->id + a->start[l], b->id + b->start[l], n * sizeof *a->id) == 0 &&
           memcmp(a->weight + a->start[l], b->weight + b->start[l], n * sizeof *a->weight) == 0;
}

/* A model of all labels but the last two goes on with rows that have none of the first two: these stay, the others
 * move, and the new ones are learnt; with a pace of 0 all old ones stay. */
static void test_going_on(wisp_context *ctx, bool all)
{
    enum { FIRST = 2, OLD = LABELS - 2 };
    static size_t few[LABELS + 2];
    struct wisp_linear_done old = train(ctx, all, false, 0);
    struct wisp_linear_rows r = rows;
    test_by_label(&old);
    old.n_labels = OLD;
    for (size_t l = 0; l < LABELS + 2; l++) few[l] = l < FIRST ? lp[FIRST] : lp[l];
    r.lp = few;
    struct wisp_linear_done moved = train_from(ctx, &r, all, &old, 1, 0),
                            again = train_from(ctx, &r, all, &old, 1, 5),
                            still = train_from(ctx, &r, all, &old, 0, 0);
    CHECK(same(&moved, &again), "a stop after 5 labels gives other weights");
    for (size_t l = 0; l < OLD; l++) {
        CHECK(same_label(&old, &moved, l) == (l < FIRST), "label %zu", l);
        CHECK(same_label(&old, &still, l), "label %zu has moved", l);
    }
    CHECK(n_known(&moved) > ROWS * 7 / 10, "%zu of %d rows are known", n_known(&moved), ROWS);
    old.n_labels = LABELS;
    wisp_linear_done_clear(&old), wisp_linear_done_clear(&moved), wisp_linear_done_clear(&again),
        wisp_linear_done_clear(&still);
}

/* ---- memory ---- */

static wisp_status train_quietly(wisp_context *ctx, bool all)
{
    const struct wisp_negatives_how hard = { .always = 3, .up_to = 8, .share = 0.4, .random = 20 };
    const struct wisp_linear_how how = {
        .loss = wisp_linear_loss_at(0), .cost = 0.5f, .precision = 1, .passes = 3, .seed = 4
    };
    float factor[LABELS];
    struct wisp_linear_done done = { 0 };
    struct wisp_negatives n = { 0 };
    struct wisp_linear_trainer *t = NULL;
    for (size_t l = 0; l < LABELS; l++) factor[l] = 1;
    wisp_status st =
        all ? WISP_OK : wisp_negatives_find(&n, ctx, &rows, &votes, factor, &hard, 9, &err);
    if (st == WISP_OK) st = wisp_linear_done_init(&done, LABELS, &err);
    if (st == WISP_OK)
        st = wisp_linear_trainer_make(&t, ctx, &rows, all ? NULL : &n, &how, NULL, &done, &err);
    while (st == WISP_OK && done.n_labels < LABELS) st = wisp_linear_train_some(t, &err);
    wisp_linear_trainer_free(t);
    wisp_linear_done_clear(&done);
    wisp_negatives_clear(&n);
    return st;
}

static void test_memory(wisp_context *ctx)
{
    const long live = wisp_mem_live;
    for (int all = 0; all < 2; all++)
        for (long n = 0; n < 1000; n++) {
            wisp_mem_budget = n;
            wisp_status st = train_quietly(ctx, all);
            wisp_mem_budget = -1;
            CHECK(wisp_mem_live == live, "after %ld: %ld blocks are left", n, wisp_mem_live - live);
            if (st == WISP_OK) break;
            CHECK(st == WISP_ENOMEM, "after %ld: %s", n, err.text);
        }
}

int main(void)
{
    wisp_context *ctxs[2];
    if (wisp_context_create(&ctxs[0], 1, &err) != WISP_OK ||
        wisp_context_create(&ctxs[1], 3, &err) != WISP_OK)
        return 1;
    make_rows();
    make_votes();
    TEST("the primal and the dual of every loss meet");
    test_gap();
    TEST("what shrinking leaves out is looked at again");
    test_precision();
    TEST("negatives are what votes say");
    test_negatives(ctxs[1]);
    TEST("the same weights for any threads and stops, and they know their rows");
    test_train(ctxs);
    TEST("a model that goes on: labels without rows stay, others move, new ones are learnt");
    test_going_on(ctxs[0], true);
    test_going_on(ctxs[1], false);
    TEST("scores by feature, by label and in narrow types");
    test_scores(ctxs[0]);
    TEST("failing allocations");
    test_memory(ctxs[0]);
    wisp_context_free(ctxs[0]), wisp_context_free(ctxs[1]);
    return test_end();
}

/* Thresholds: counts and figures by their definitions, fits against a search over all thresholds, what
 * few rows do, goals as text. */
#include "test.h"
#include "model/threshold.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

enum { LABELS = 5, ROWS = 400 };

static wisp_error err;
static uint64_t seed = 77;

static double unit(void)
{
    return (double)(test_rand(&seed) % 100000) / 100000;
}

/* Scores that are probabilities, and labels drawn by them; the last label occurs in no row. */
static void make(struct wisp_guesses *g, float scores[ROWS][LABELS], bool truth[ROWS][LABELS])
{
    CHECK(wisp_guesses_init(g, LABELS, WISP_THRESHOLD_LEAST, &err) == WISP_OK, "%s", err.text);
    for (size_t i = 0; i < ROWS; i++) {
        int32_t labels[LABELS], yes[LABELS];
        float s[LABELS];
        size_t n = 0;
        for (int32_t l = 0; l < LABELS; l++) {
            scores[i][l] = (float)pow(unit(), 1 + l);
            truth[i][l] = l + 1 < LABELS && unit() < scores[i][l];
            labels[l] = l, s[l] = scores[i][l];
            if (truth[i][l]) yes[n++] = l;
        }
        for (int a = 0; a < LABELS; a++) /* best first */
            for (int b = a + 1; b < LABELS; b++)
                if (s[b] > s[a]) {
                    const float t = s[a];
                    const int32_t x = labels[a];
                    s[a] = s[b], s[b] = t, labels[a] = labels[b], labels[b] = x;
                }
        CHECK(wisp_guesses_add(g, labels, s, LABELS, yes, n, &err) == WISP_OK, "%s", err.text);
    }
    CHECK(wisp_guesses_sort(g, &err) == WISP_OK, "%s", err.text);
}

static struct wisp_decisions plain(float scores[ROWS][LABELS], bool truth[ROWS][LABELS], int label,
                                   float t)
{
    struct wisp_decisions d = { 0 };
    for (size_t i = 0; i < ROWS; i++) {
        d.n_true += truth[i][label];
        if (scores[i][label] >= t && scores[i][label] >= WISP_THRESHOLD_LEAST)
            truth[i][label] ? d.tp++ : d.fp++;
    }
    return d;
}

static void check_counts(struct wisp_guesses *g, float scores[ROWS][LABELS],
                         bool truth[ROWS][LABELS])
{
    const float t[LABELS] = { 0.2f, 0.5f, 0.001f, 0.9f, WISP_THRESHOLD_NEVER };
    struct wisp_decisions of[LABELS] = { 0 };
    for (int h = 0; h < 2; h++) wisp_guesses_decide(of, g, h, t);
    double p = 0, r = 0, f = 0;
    struct wisp_decisions sum = { 0 };
    size_t n = 0;
    for (int l = 0; l < LABELS; l++) {
        const struct wisp_decisions want = plain(scores, truth, l, t[l]);
        CHECK(memcmp(&want, &of[l], sizeof want) == 0, "label %d: %d %d %d, not %d %d %d", l,
              (int)of[l].tp, (int)of[l].fp, (int)of[l].n_true, (int)want.tp, (int)want.fp,
              (int)want.n_true);
        sum.tp += want.tp, sum.fp += want.fp, sum.n_true += want.n_true;
        if (want.tp + want.fp + want.n_true == 0) continue;
        n++;
        p += want.tp + want.fp ? 100.0 * (double)want.tp / (double)(want.tp + want.fp) : 0;
        r += want.n_true ? 100.0 * (double)want.tp / (double)want.n_true : 0;
        f += 200.0 * (double)want.tp / (double)(want.tp + want.fp + want.n_true);
    }
    struct wisp_verdict v;
    wisp_verdict(&v, of, LABELS, 3);
    const double near = 1e-9;
    CHECK(v.macro_labels == n && n == 4 && fabs(v.macro_precision - p / 4) < near &&
              fabs(v.macro_recall - r / 4) < near && fabs(v.macro_f1 - f / 4) < near,
          "macro over %zu: %g %g %g", v.macro_labels, v.macro_precision, v.macro_recall,
          v.macro_f1);
    CHECK(fabs(v.micro_precision - 100.0 * (double)sum.tp / (double)(sum.tp + sum.fp)) < near &&
              fabs(v.micro_recall - 100.0 * (double)sum.tp / (double)(sum.n_true + 3)) < near &&
              fabs(v.micro_f1 -
                   200.0 * (double)sum.tp / (double)(sum.tp + sum.fp + sum.n_true + 3)) < near,
          "micro: %g %g %g", v.micro_precision, v.micro_recall, v.micro_f1);
}

/* As a plain program has it: precision at each true row, in the order of scores; no two are equal. */
static void check_average_precision(struct wisp_guesses *g, float scores[ROWS][LABELS],
                                    bool truth[ROWS][LABELS])
{
    for (int l = 0; l < LABELS; l++) {
        double sum = 0, all = 0;
        for (size_t i = 0; i < ROWS; i++) {
            double above = 0, hits = 0;
            if (!truth[i][l]) continue;
            all++;
            for (size_t k = 0; k < ROWS; k++)
                if (scores[k][l] >= scores[i][l]) above++, hits += truth[k][l];
            if (scores[i][l] >= WISP_THRESHOLD_LEAST) sum += hits / above;
        }
        const double want = all > 0 ? 100 * sum / all : 0,
                     got = wisp_guesses_average_precision(g, (size_t)l);
        CHECK(fabs(got - want) < 1e-9, "label %d: %g, not %g", l, got, want);
    }
}

static struct wisp_goal goal(const char *text)
{
    struct wisp_goal out;
    CHECK(wisp_goal_parse(&out, text, &err) == WISP_OK, "%s: %s", text, err.text);
    return out;
}

/* With one threshold for all no other of a fine grid does better by more than the grid leaves. */
static void check_fits(struct wisp_guesses *g, float scores[ROWS][LABELS], bool truth[ROWS][LABELS])
{
    static const char *const goals[] = { "f1", "precision=0.7", "recall=0.6", "cost=1:3" };
    for (size_t k = 0; k < sizeof goals / sizeof *goals; k++) {
        const struct wisp_goal want = goal(goals[k]);
        float t[LABELS];
        double best = -1e30, mine = -1e30;
        CHECK(wisp_thresholds_fit(t, g, 3, &want, true, &err) == WISP_OK, "%s", err.text);
        for (int step = 0; step <= 2000; step++) {
            const float at = step ? (float)step / 2000 : t[0];
            double tp = 0, fp = 0, n = 0;
            for (int l = 0; l < LABELS; l++) {
                const struct wisp_decisions d = plain(scores, truth, l, at);
                tp += (double)d.tp, fp += (double)d.fp, n += (double)d.n_true;
            }
            const double worth = k == 0   ? 2 * tp / (tp + fp + n)
                                 : k == 1 ? (tp >= 0.7 * (tp + fp) && tp > 0 ? tp / n : -1)
                                 : k == 2 ? (tp >= 0.6 * n ? tp / (tp + fp + 1) : -1)
                                          : -(fp + 3 * (n - tp)) / n;
            if (!step) mine = worth;
            else best = fmax(best, worth);
        }
        CHECK(mine >= best - 0.03 && mine > -1 * (k != 3) - 3, "%s: %g, %g is there", goals[k],
              mine, best);
        for (int l = 1; l < LABELS; l++) CHECK(t[l] == t[0], "%s: label %d differs", goals[k], l);
    }
}

/* A label that one row has gets about what all have; one with its own scale gets its own. */
static void check_rare(void)
{
    struct wisp_guesses g;
    const struct wisp_goal f1 = goal("f1");
    float t[3], one[3];
    CHECK(wisp_guesses_init(&g, 3, WISP_THRESHOLD_LEAST, &err) == WISP_OK, "%s", err.text);
    for (int i = 0; i < 4000; i++) {
        /* label 0 is true above 0.6, label 1 above 0.2, label 2 once, at a score of 0.01 */
        const float s = (float)unit();
        const int32_t zero = 0, first = 1, two = 2;
        const float low = 0.01f;
        CHECK(wisp_guesses_add(&g, &zero, &s, 1, &zero, s > 0.6f, &err) == WISP_OK, "%s", err.text);
        CHECK(wisp_guesses_add(&g, &first, &s, 1, &first, s > 0.2f, &err) == WISP_OK, "%s",
              err.text);
        if (i == 7)
            CHECK(wisp_guesses_add(&g, &two, &low, 1, &two, 1, &err) == WISP_OK, "%s", err.text);
    }
    CHECK(wisp_guesses_sort(&g, &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_thresholds_fit(one, &g, 3, &f1, true, &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_thresholds_fit(t, &g, 3, &f1, false, &err) == WISP_OK, "%s", err.text);
    CHECK(fabsf(t[0] - 0.6f) < 0.02f && fabsf(t[1] - 0.2f) < 0.02f, "%g and %g", (double)t[0],
          (double)t[1]);
    CHECK(fabsf(t[2] - one[0]) < 0.02f, "the rare one has %g, all have %g", (double)t[2],
          (double)one[0]);
    /* no threshold is precise enough for a label whose scores say nothing */
    const struct wisp_goal precise = goal("precision=0.999");
    struct wisp_guesses noise;
    CHECK(wisp_guesses_init(&noise, 1, WISP_THRESHOLD_LEAST, &err) == WISP_OK, "%s", err.text);
    for (int i = 0; i < 500; i++) {
        const float s = 0.9f;
        const int32_t zero = 0;
        CHECK(wisp_guesses_add(&noise, &zero, &s, 1, &zero, i % 2, &err) == WISP_OK, "%s",
              err.text);
    }
    CHECK(wisp_guesses_sort(&noise, &err) == WISP_OK &&
              wisp_thresholds_fit(t, &noise, 3, &precise, false, &err) == WISP_OK,
          "%s", err.text);
    CHECK(t[0] == WISP_THRESHOLD_NEVER, "%g", (double)t[0]);
    wisp_guesses_clear(&noise);
    wisp_guesses_clear(&g);
}

static void check_goals(void)
{
    static const char *const bad[] = {
        "",         "f2",         "f1=1",        "precision",     "precision=",
        "recall=0", "recall=2",   "recall=0.5x", "cost=1",        "cost=1:",
        "cost=0:1", "cost=1:2:3", "cost=-1:2",   "precision=nan", "cost=inf:1"
    };
    struct wisp_goal g;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(wisp_goal_parse(&g, bad[i], &err) == WISP_EINVAL && strstr(err.text, "expected"),
              "'%s' is taken", bad[i]);
    g = goal("cost=1.5:4");
    CHECK(g.kind == WISP_GOAL_COST && g.fp == 1.5 && g.fn == 4, "%g:%g", g.fp, g.fn);
    size_t at;
    CHECK(wisp_thresholds_ok((float[]){ 0, 1, 2, 0.5f }, 4, &at), "good ones");
    CHECK(!wisp_thresholds_ok((float[]){ 0, 1.5f }, 2, &at) && at == 1, "1.5");
    CHECK(!wisp_thresholds_ok((float[]){ NAN }, 1, &at) && at == 0, "nan");
    CHECK(!wisp_thresholds_ok((float[]){ -0.1f }, 1, &at), "-0.1");
}

int main(void)
{
    static float scores[ROWS][LABELS];
    static bool truth[ROWS][LABELS];
    struct wisp_guesses g;
    TEST("counts, micro and macro");
    make(&g, scores, truth);
    check_counts(&g, scores, truth);
    TEST("average precision");
    check_average_precision(&g, scores, truth);
    TEST("one threshold for each goal");
    check_fits(&g, scores, truth);
    TEST("halves are of about the same size, and rows without labels are refused");
    size_t half = 0;
    for (size_t i = 0; i < g.n; i++) half += g.g[i].half;
    CHECK(half > g.n / 3 && half < 2 * g.n / 3, "%zu of %zu", half, g.n);
    wisp_guesses_clear(&g);
    CHECK(wisp_guesses_init(&g, 2, 0, &err) == WISP_OK && wisp_guesses_sort(&g, &err) == WISP_OK,
          "%s", err.text);
    float t[2];
    const struct wisp_goal f1 = goal("f1");
    CHECK(wisp_thresholds_fit(t, &g, 3, &f1, false, &err) == WISP_EINVAL &&
              strstr(err.text, "has a label that the model knows"),
          "%s", err.text);
    wisp_guesses_clear(&g);
    TEST("rare labels are drawn towards all, frequent ones are not");
    check_rare();
    TEST("goals as text, thresholds of a file");
    check_goals();
    TEST("nothing is left");
    CHECK(wisp_mem_live == 0, "%ld blocks", (long)wisp_mem_live);
    return test_end();
}

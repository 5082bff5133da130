/* Counting decisions and keeping guesses; decide.h has the definitions. */
#include "model/decide.h"
#include "base/mem.h"
#include "base/rand.h"
#include "model/metrics.h"

#include <stdlib.h>

static double percent(double part, double of)
{
    return of > 0 ? 100 * part / of : 0;
}

double wisp_decisions_precision(struct wisp_decisions d)
{
    return percent((double)d.tp, (double)(d.tp + d.fp));
}

double wisp_decisions_recall(struct wisp_decisions d)
{
    return percent((double)d.tp, (double)d.n_true);
}

double wisp_decisions_f1(struct wisp_decisions d)
{
    return percent(2 * (double)d.tp, (double)(d.tp + d.fp + d.n_true));
}

void wisp_verdict(struct wisp_verdict *out, const struct wisp_decisions *of, size_t n_labels,
                  uint64_t n_unknown)
{
    *out = (struct wisp_verdict){ .sum = { .n_true = n_unknown } };
    for (size_t l = 0; l < n_labels; l++) {
        const struct wisp_decisions d = of[l];
        if (d.tp + d.fp + d.n_true == 0) continue;
        out->sum.tp += d.tp, out->sum.fp += d.fp, out->sum.n_true += d.n_true;
        out->macro_precision += wisp_decisions_precision(d);
        out->macro_recall += wisp_decisions_recall(d);
        out->macro_f1 += wisp_decisions_f1(d);
        out->macro_labels++;
    }
    const double n = out->macro_labels ? (double)out->macro_labels : 1;
    out->macro_precision /= n, out->macro_recall /= n, out->macro_f1 /= n;
    out->micro_precision = wisp_decisions_precision(out->sum);
    out->micro_recall = wisp_decisions_recall(out->sum);
    out->micro_f1 = wisp_decisions_f1(out->sum);
}

/* ---- guesses ---- */

wisp_status wisp_guesses_init(struct wisp_guesses *g, size_t n_labels, float least, wisp_error *err)
{
    *g = (struct wisp_guesses){ .n_labels = n_labels, .least = least };
    g->start = wisp_zalloc(n_labels + 1, sizeof *g->start);
    for (int h = 0; h < 2; h++) g->n_true[h] = wisp_zalloc(n_labels, sizeof *g->n_true[h]);
    if (g->start && g->n_true[0] && g->n_true[1]) return WISP_OK;
    wisp_guesses_clear(g);
    return wisp_fail_mem(err, n_labels * 16, "counts of labels");
}

void wisp_guesses_clear(struct wisp_guesses *g)
{
    wisp_free(g->g);
    wisp_free(g->start);
    for (int h = 0; h < 2; h++) wisp_free(g->n_true[h]);
    *g = (struct wisp_guesses){ 0 };
}

/* Drawn by the row's number, so that no order of the rows decides. */
static int half_of(size_t row)
{
    return (int)(wisp_mix(row + 1) >> 63);
}

wisp_status wisp_guesses_add(struct wisp_guesses *g, const int32_t *labels, const float *scores,
                             size_t k, const int32_t *truth, size_t n_truth, wisp_error *err)
{
    const int half = half_of(g->n_rows++);
    for (size_t i = 0; i < n_truth; i++) {
        const bool known = truth[i] >= 0 && (size_t)truth[i] < g->n_labels;
        if (known) g->n_true[half][truth[i]]++;
        else g->n_unknown[half]++;
    }
    for (size_t c = 0; c < k && labels[c] >= 0 && scores[c] >= g->least; c++) {
        if (!wisp_grow(&g->g, g->n, &g->room, sizeof *g->g))
            return wisp_fail_mem(err, 2 * g->n * sizeof *g->g, "the guesses");
        g->g[g->n++] = (struct wisp_guess){ .label = labels[c],
                                            .score = scores[c],
                                            .is_true = wisp_is_true(labels[c], truth, n_truth),
                                            .half = (uint8_t)half };
    }
    return WISP_OK;
}

static int by_score(const void *a, const void *b)
{
    const struct wisp_guess *x = a, *y = b;
    return x->score > y->score ? -1 : x->score < y->score;
}

wisp_status wisp_guesses_sort(struct wisp_guesses *g, wisp_error *err)
{
    struct wisp_guess *to = wisp_alloc(g->n, sizeof *to);
    if (!to) return wisp_fail_mem(err, g->n * sizeof *to, "the guesses");
    for (size_t i = 0; i < g->n; i++) g->start[g->g[i].label + 1]++;
    for (size_t l = 0; l < g->n_labels; l++) g->start[l + 1] += g->start[l];
    for (size_t i = g->n; i-- > 0;) to[--g->start[g->g[i].label + 1]] = g->g[i];
    /* start[l + 1] is now where label l begins: move down by one */
    for (size_t l = 0; l < g->n_labels; l++) g->start[l] = g->start[l + 1];
    g->start[g->n_labels] = g->n;
    for (size_t l = 0; l < g->n_labels; l++)
        if (g->start[l + 1] > g->start[l])
            qsort(to + g->start[l], g->start[l + 1] - g->start[l], sizeof *to, by_score);
    wisp_free(g->g);
    g->g = to, g->room = g->n;
    return WISP_OK;
}

void wisp_guesses_decide(struct wisp_decisions *of, const struct wisp_guesses *g, int half,
                         const float *thresholds)
{
    for (size_t l = 0; l < g->n_labels; l++) {
        of[l].n_true += g->n_true[half][l];
        for (size_t i = g->start[l]; i < g->start[l + 1] && g->g[i].score >= thresholds[l]; i++) {
            if (g->g[i].half != half) continue;
            if (g->g[i].is_true) of[l].tp++;
            else of[l].fp++;
        }
    }
}

double wisp_guesses_average_precision(const struct wisp_guesses *g, size_t label)
{
    const double all = (double)g->n_true[0][label] + (double)g->n_true[1][label];
    double sum = 0, tp = 0, n = 0;
    for (size_t i = g->start[label], end = g->start[label + 1]; i < end;) {
        const float score = g->g[i].score;
        double more = 0;
        for (; i < end && g->g[i].score == score; i++) more += g->g[i].is_true, n++;
        tp += more;
        sum += more * tp / n;
    }
    return percent(sum, all);
}

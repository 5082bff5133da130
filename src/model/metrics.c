/* The metrics of ranked labels: sums over rows, turned into percentages at the end.
 *
 * A row is walked once along its ranking: the running hits, gain and 1/p are booked at every
 * cut passed.  What a perfect ranking would get is known without walking: 'ideal' holds the
 * prefix sums of the discounts, 'best' the row's largest 1/p. */
#include "model/metrics.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct counted {
    int64_t rows;
    size_t label;
};

static int by_count(const void *a, const void *b)
{
    const struct counted *x = a, *y = b;
    if (x->rows != y->rows) return x->rows > y->rows ? -1 : 1;
    return x->label < y->label ? -1 : x->label > y->label;
}

static wisp_status make_groups(struct wisp_metrics *m, const int64_t *label_rows, wisp_error *err)
{
    struct counted *order = wisp_alloc(m->n_labels, sizeof *order);
    if (!order) return wisp_fail_mem(err, m->n_labels * sizeof *order, "the label groups");
    uint64_t total = 0;
    for (size_t l = 0; l < m->n_labels; l++) {
        order[l] = (struct counted){ label_rows[l], l };
        total += (uint64_t)label_rows[l];
    }
    qsort(order, m->n_labels, sizeof *order, by_count);
    /* third and two thirds, rounded up: 'before' < total/3 in whole numbers */
    uint64_t one = total / 3 + (total % 3 != 0), two = total - total / 3, before = 0;
    for (size_t i = 0; i < m->n_labels; i++) {
        m->group[order[i].label] = before < one ? 0 : before < two ? 1 : 2;
        before += (uint64_t)order[i].rows;
    }
    wisp_free(order);
    return WISP_OK;
}

static wisp_status check_arguments(const size_t *cuts, size_t n_cuts, const int64_t *label_rows,
                                   size_t n_labels, double a, double b, wisp_error *err)
{
    if (n_cuts < 1 || n_cuts > WISP_MAX_CUTS)
        return wisp_fail(err, WISP_EINVAL, "k: %zu values, expected 1 to %d", n_cuts,
                         WISP_MAX_CUTS);
    for (size_t c = 0; c < n_cuts; c++)
        if (cuts[c] < 1 || (c > 0 && cuts[c] <= cuts[c - 1]))
            return wisp_fail(err, WISP_EINVAL, "k: %zu, expected ascending numbers from 1",
                             cuts[c]);
    if (!(a >= 0 && b > 0 && isfinite(a) && isfinite(b)))
        return wisp_fail(err, WISP_EINVAL, "propensity: %g,%g, expected A >= 0 and B > 0", a, b);
    for (size_t l = 0; l < n_labels; l++)
        if (label_rows[l] < 0)
            return wisp_fail(err, WISP_EINVAL, "label %zu: %lld training rows", l,
                             (long long)label_rows[l]);
    return WISP_OK;
}

wisp_status wisp_metrics_init(struct wisp_metrics *m, const size_t *cuts, size_t n_cuts,
                              const int64_t *label_rows, size_t n_labels, size_t n_train, double a,
                              double b, wisp_error *err)
{
    *m = (struct wisp_metrics){ 0 };
    wisp_status st = check_arguments(cuts, n_cuts, label_rows, n_labels, a, b, err);
    if (st != WISP_OK) return st;
    size_t most = cuts[n_cuts - 1];
    m->n_cuts = n_cuts;
    memcpy(m->cuts, cuts, n_cuts * sizeof *cuts);
    m->n_labels = n_labels;
    m->inverse = wisp_alloc(n_labels + 1, sizeof *m->inverse);
    m->group = wisp_alloc(n_labels, 1);
    m->ideal = wisp_alloc(most + 1, sizeof *m->ideal);
    m->best = wisp_alloc(most, sizeof *m->best);
    if (!m->inverse || !m->group || !m->ideal || !m->best)
        st = wisp_fail_mem(err, n_labels * (1 + sizeof *m->inverse) + 2 * most * sizeof *m->best,
                           "the metrics");
    else st = make_groups(m, label_rows, err);
    if (st != WISP_OK) {
        wisp_metrics_clear(m);
        return st;
    }

    double c = n_train >= 3 ? (log((double)n_train) - 1) * pow(b + 1, a) : 0;
    for (size_t l = 0; l <= n_labels; l++)
        m->inverse[l] = 1 + c * exp(-a * log((l < n_labels ? (double)label_rows[l] : 0) + b));
    m->ideal[0] = 0;
    for (size_t i = 1; i <= most; i++) m->ideal[i] = m->ideal[i - 1] + 1 / log2((double)i + 1);
    if (!isfinite(m->inverse[n_labels])) { /* the largest of them */
        wisp_metrics_clear(m);
        return wisp_fail(err, WISP_EINVAL, "propensity: %g,%g gives infinite weights", a, b);
    }
    return WISP_OK;
}

static bool known(const struct wisp_metrics *m, int32_t label)
{
    return label >= 0 && (size_t)label < m->n_labels;
}

static int by_id(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

bool wisp_is_true(int32_t label, const int32_t *truth, size_t n_truth)
{
    return n_truth && bsearch(&label, truth, n_truth, sizeof *truth, by_id);
}

/* What no ranking can beat; also which groups the row counts for. */
static void add_truth(struct wisp_metrics *m, const int32_t *truth, size_t n_truth)
{
    size_t most = m->cuts[m->n_cuts - 1], n = 0;
    bool has[WISP_N_GROUPS] = { false };
    for (size_t i = 0; i < n_truth; i++) {
        bool in = known(m, truth[i]);
        if (in) has[m->group[truth[i]]] = true;
        double w = m->inverse[in ? (size_t)truth[i] : m->n_labels];
        if (n == most && w <= m->best[n - 1]) continue;
        size_t at = n < most ? n++ : n - 1;
        for (; at > 0 && m->best[at - 1] < w; at--) m->best[at] = m->best[at - 1];
        m->best[at] = w;
    }
    double sum = 0;
    for (size_t c = 0, i = 0; c < m->n_cuts; c++) {
        for (; i < n && i < m->cuts[c]; i++) sum += m->best[i];
        m->psp_best[c] += sum;
    }
    for (int g = 0; g < WISP_N_GROUPS; g++) m->group_rows[g] += has[g];
}

void wisp_metrics_add(struct wisp_metrics *m, const int32_t *ranked, size_t n_ranked,
                      const int32_t *truth, size_t n_truth)
{
    m->n_rows++;
    if (n_truth == 0) {
        m->n_unlabelled++;
        return;
    }
    add_truth(m, truth, n_truth);
    size_t hits = 0, group_hits[WISP_N_GROUPS] = { 0 }, i = 0;
    double gain = 0, weight = 0;
    for (size_t c = 0; c < m->n_cuts; c++) {
        size_t k = m->cuts[c];
        for (; i < k && i < n_ranked && ranked[i] >= 0; i++) {
            if (!known(m, ranked[i])) continue;
            if (!wisp_is_true(ranked[i], truth, n_truth)) continue;
            hits++;
            group_hits[m->group[ranked[i]]]++;
            gain += 1 / log2((double)i + 2);
            weight += m->inverse[ranked[i]];
        }
        m->p[c] += (double)hits / (double)k;
        m->r[c] += (double)hits / (double)n_truth;
        m->ndcg[c] += gain / m->ideal[k < n_truth ? k : n_truth];
        m->psp[c] += weight;
        for (int g = 0; g < WISP_N_GROUPS; g++)
            m->group_p[g][c] += (double)group_hits[g] / (double)k;
    }
}

static double percent(double sum, double of)
{
    return of > 0 ? 100 * sum / of : 0;
}

double wisp_metrics_p(const struct wisp_metrics *m, size_t cut)
{
    return percent(m->p[cut], (double)m->n_rows);
}

double wisp_metrics_r(const struct wisp_metrics *m, size_t cut)
{
    return percent(m->r[cut], (double)m->n_rows);
}

double wisp_metrics_ndcg(const struct wisp_metrics *m, size_t cut)
{
    return percent(m->ndcg[cut], (double)m->n_rows);
}

double wisp_metrics_psp(const struct wisp_metrics *m, size_t cut)
{
    return percent(m->psp[cut], m->psp_best[cut]);
}

double wisp_metrics_group_p(const struct wisp_metrics *m, int group, size_t cut)
{
    return percent(m->group_p[group][cut], (double)m->group_rows[group]);
}

void wisp_metrics_clear(struct wisp_metrics *m)
{
    wisp_free(m->inverse);
    wisp_free(m->group);
    wisp_free(m->ideal);
    wisp_free(m->best);
    *m = (struct wisp_metrics){ 0 };
}

/* ---- scores ---- */

void wisp_reliability_add(struct wisp_reliability *r, double score, bool is_true)
{
    /* 0 also where a score is no number, which no scorer gives: (int)NaN is anything */
    int bin = !(score > 0) ? 0 : score < 1 ? (int)(score * WISP_N_BINS) : WISP_N_BINS - 1;
    r->score[bin] += score;
    r->n[bin]++;
    r->n_true[bin] += is_true;
    wisp_reliability_keep(r, score, is_true);
}

void wisp_reliability_keep(struct wisp_reliability *r, double score, bool is_true)
{
    r->kept += score >= 0.5;
    r->kept_true += is_true && score >= 0.5;
}

double wisp_reliability_ece(const struct wisp_reliability *r)
{
    double gap = 0, n = 0;
    for (int b = 0; b < WISP_N_BINS; b++) {
        gap += fabs(r->score[b] - (double)r->n_true[b]);
        n += (double)r->n[b];
    }
    return percent(gap, n);
}

double wisp_reliability_precision(const struct wisp_reliability *r)
{
    return percent((double)r->kept_true, (double)r->kept);
}

double wisp_reliability_recall(const struct wisp_reliability *r, uint64_t n_truth)
{
    return percent((double)r->kept_true, (double)n_truth);
}

double wisp_reliability_f1(const struct wisp_reliability *r, uint64_t n_truth)
{
    return percent(2 * (double)r->kept_true, (double)r->kept + (double)n_truth);
}

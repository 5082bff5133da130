/* P@k, R@k, nDCG@k and PSP@k of ranked labels, overall and by label frequency; how far scores are
 * from probabilities.
 *
 * A row without true labels counts as a miss (it adds 0 and stays in the denominator).
 *   P@k    hits among the first k / k
 *   R@k    hits / number of true labels
 *   nDCG@k sum over hits at place i (from 1) of 1/log2(i+1), over the same sum of an ideal ranking
 *          with min(k, true labels) hits
 *   PSP@k  sum over all rows of the sum over hits of 1/p_l, divided by the sum over all rows of the
 *          best such sum that k predictions could reach; p_l = 1 / (1 + C exp(-A ln(N_l + B))),
 *          C = (ln N - 1)(B + 1)^A, N training rows, N_l of them with label l (C = 0 where N < e
 *          would make it negative, and p more than 1)
 * Head, middle and tail: labels sorted by training count (descending, ties by smaller id), cut
 * where the running sum of counts reaches one and two thirds of all occurrences: the label that
 * gets there is the last of its group, labels without training rows are tail.  P@k of a group: over
 * the rows that have a true label in the group, hits that belong to the group / k. */
#ifndef WISP_MODEL_METRICS_H
#define WISP_MODEL_METRICS_H

#include "base/error.h"

#include <stdbool.h>

enum { WISP_MAX_CUTS = 8, WISP_N_GROUPS = 3, WISP_N_BINS = 15 };

struct wisp_metrics {
    size_t n_cuts, cuts[WISP_MAX_CUTS];                             /* ascending */
    double p[WISP_MAX_CUTS], r[WISP_MAX_CUTS], ndcg[WISP_MAX_CUTS]; /* sums over rows */
    double psp[WISP_MAX_CUTS], psp_best[WISP_MAX_CUTS];
    double group_p[WISP_N_GROUPS][WISP_MAX_CUTS];
    size_t group_rows[WISP_N_GROUPS];
    size_t n_rows, n_unlabelled;
    size_t n_labels;
    double *inverse; /* (n_labels + 1) 1/p_l; the last one for labels never seen */
    uint8_t *group;  /* (n_labels) 0 head, 1 middle, 2 tail */
    double *ideal;   /* (largest cut + 1) sum of the first i discounts */
    double *best;    /* (largest cut) scratch: the largest 1/p of a row's true labels, descending */
};

/* cuts: ascending, from 1; label_rows (n_labels): training counts N_l; n_train: N; a >= 0, b > 0.
 */
wisp_status wisp_metrics_init(struct wisp_metrics *m, const size_t *cuts, size_t n_cuts,
                              const int64_t *label_rows, size_t n_labels, size_t n_train, double a,
                              double b, wisp_error *err);
/* One row: 'ranked' (n_ranked, at least the largest cut or all there is; -1 ends it early), 'truth'
 * (n_truth) ascending, both without duplicates.  True labels >= n_labels cannot be hit but count in
 * R, nDCG and PSP (p as for N_l = 0); they belong to no group. */
void wisp_metrics_add(struct wisp_metrics *m, const int32_t *ranked, size_t n_ranked,
                      const int32_t *truth, size_t n_truth);
/* Percentages; 'cut' is an index into cuts.  0 where nothing was counted. */
double wisp_metrics_p(const struct wisp_metrics *m, size_t cut);
double wisp_metrics_r(const struct wisp_metrics *m, size_t cut);
double wisp_metrics_ndcg(const struct wisp_metrics *m, size_t cut);
double wisp_metrics_psp(const struct wisp_metrics *m, size_t cut);
double wisp_metrics_group_p(const struct wisp_metrics *m, int group, size_t cut);
void wisp_metrics_clear(struct wisp_metrics *m);

/* Is the label among 'truth' (n_truth), ascending? */
bool wisp_is_true(int32_t label, const int32_t *truth, size_t n_truth);

/* Scores of predicted labels, 0..1, against whether these were true: sums over all predictions
 * (a row's k best labels are k of them).
 *   ECE    predictions fall into 15 bins of equal width by their score; the sum over bins of
 *          |sum of scores - true ones|, over the number of predictions
 *   at 1/2 predictions with a score of 1/2 or more are kept: precision is the share of them that is
 *          true, recall true ones kept over all true labels of the rows, predicted or not, F1 the
 *          harmonic mean of both */
struct wisp_reliability {
    double score[WISP_N_BINS];
    uint64_t n[WISP_N_BINS], n_true[WISP_N_BINS];
    uint64_t kept, kept_true;
};
void wisp_reliability_add(struct wisp_reliability *r, double score, bool is_true);
/* The same of a prediction that is not among those that bins are made of: it may be kept. */
void wisp_reliability_keep(struct wisp_reliability *r, double score, bool is_true);
/* Percentages, 0 where nothing was counted.  n_truth: true labels of all rows. */
double wisp_reliability_ece(const struct wisp_reliability *r);
double wisp_reliability_precision(const struct wisp_reliability *r);
double wisp_reliability_recall(const struct wisp_reliability *r, uint64_t n_truth);
double wisp_reliability_f1(const struct wisp_reliability *r, uint64_t n_truth);

#endif

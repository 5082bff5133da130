/* Deciding: which labels a row gets, and how good that is.
 *
 * A label is given where its score reaches the label's threshold.  Of rows whose labels are known,
 * each label has
 *   tp       rows that have it and get it
 *   fp       rows that get it and do not have it
 *   n_true   rows that have it
 * and of these, all sums in whole numbers,
 *   precision = tp / (tp + fp), recall = tp / n_true, F1 = 2 tp / (tp + fp + n_true)
 * with 0 for 0 / 0.  "micro" is the same of the sums over all labels; "macro" the mean of the labels'
 * own figures over the labels that some row has or gets.  (What scikit-learn calls so, with
 * zero_division=0 and these labels.)  Labels of rows that the model does not know are misses of
 * micro recall; they belong to no label of macro.
 *
 * Guesses are the scores of the rows' best labels, kept by label, for whoever looks at more than one
 * threshold. */
#ifndef WISP_MODEL_DECIDE_H
#define WISP_MODEL_DECIDE_H

#include "base/error.h"

#include <stdbool.h>

/* Labels of a row that are looked at, the best ones; a card gives no more. */
enum { WISP_DECIDE_PLACES = 64 };

struct wisp_decisions { /* of one label, or summed */
    uint64_t tp, fp, n_true;
};
double wisp_decisions_precision(struct wisp_decisions d); /* percent */
double wisp_decisions_recall(struct wisp_decisions d);
double wisp_decisions_f1(struct wisp_decisions d);

struct wisp_verdict {
    double micro_precision, micro_recall, micro_f1; /* percent */
    double macro_precision, macro_recall, macro_f1;
    size_t macro_labels; /* that macro is a mean over */
    struct wisp_decisions sum;
};
/* of (n_labels); n_unknown: labels of rows that the model does not know. */
void wisp_verdict(struct wisp_verdict *out, const struct wisp_decisions *of, size_t n_labels,
                  uint64_t n_unknown);

/* ---- guesses ---- */

struct wisp_guess {
    int32_t label;
    float score;
    uint8_t is_true, half; /* half: one of two sets of rows, 0 or 1 */
};

struct wisp_guesses {
    size_t n_labels, n_rows;
    float least; /* scores below it are not kept */
    size_t n, room;
    struct wisp_guess *g; /* (n) once sorted: by label, the highest score first */
    size_t *start;        /* (n_labels + 1) where those of a label begin, once sorted */
    uint32_t *n_true[2];  /* (n_labels) rows of each half that have the label */
    uint64_t n_unknown[2];
};
wisp_status wisp_guesses_init(struct wisp_guesses *g, size_t n_labels, float least,
                              wisp_error *err);
void wisp_guesses_clear(struct wisp_guesses *g);
/* The next row: its best labels (k, -1 ends them early), best first, with their scores, and its true
 * ones, ascending. */
wisp_status wisp_guesses_add(struct wisp_guesses *g, const int32_t *labels, const float *scores,
                             size_t k, const int32_t *truth, size_t n_truth, wisp_error *err);
wisp_status wisp_guesses_sort(struct wisp_guesses *g, wisp_error *err);
/* What thresholds (n_labels) decide for the rows of a half (0, 1), added to 'of' (n_labels). */
void wisp_guesses_decide(struct wisp_decisions *of, const struct wisp_guesses *g, int half,
                         const float *thresholds);
/* Average precision of a label, percent: over the rows in the order of its score, the sum of the
 * precision up to each group of equal scores times the recall that the group adds.  Rows of which the
 * label is no guess come last and add nothing. */
double wisp_guesses_average_precision(const struct wisp_guesses *g, size_t label);

#endif

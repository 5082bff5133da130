/* Choosing thresholds: which score of a label is enough.
 *
 * Thresholds come from a grid of 256 values, evenly apart in log-odds from 0.001 to 0.999.  For every
 * one of them the guesses say what a label's tp and fp would be, and the goal which is best:
 *
 *   f1            the highest F1
 *   precision=P   of those with a precision of P or more the one with the highest recall; where there
 *                 is none the label is never given
 *   recall=R      of those with a recall of R or more the one with the fewest wrong; else the lowest
 *   cost=A:B      the least A fp + B (n_true - tp)
 *
 * Where several are equally good, the middle of the run of them is taken.  With one threshold for all
 * labels that is done with sums over all labels.  With one per label a label of few rows would be
 * fitted to their noise, so to each label's counts those of all labels are added, scaled down to
 * WISP_SHARED_ROWS rows that have the label: rare labels get what all labels have together, frequent
 * ones their own.
 *
 * The figures that are reported are cross-fitted: thresholds fitted on one half of the rows decide
 * for the other, and the counts of both halves are added.  Those of the model are fitted on all rows. */
#ifndef WISP_MODEL_THRESHOLD_H
#define WISP_MODEL_THRESHOLD_H

#include "model/decide.h"

enum { WISP_SHARED_ROWS = 10 };
#define WISP_THRESHOLD_LEAST 0.001f
#define WISP_THRESHOLD_NEVER 2.0f /* of a label that is never given: no score is so high */

struct wisp_goal {
    enum { WISP_GOAL_F1, WISP_GOAL_PRECISION, WISP_GOAL_RECALL, WISP_GOAL_COST } kind;
    double target; /* precision or recall: above 0, up to 1 */
    double fp, fn; /* of a cost */
};
/* "f1", "precision=0.9", "recall=0.8", "cost=1:5". */
wisp_status wisp_goal_parse(struct wisp_goal *out, const char *text, wisp_error *err);

/* out (n_labels), fitted on the halves with a bit in 'halves' (1, 2, 3); one: the same for all labels.
 * WISP_EINVAL: none of these rows has a label that the model knows. */
wisp_status wisp_thresholds_fit(float *out, const struct wisp_guesses *g, unsigned halves,
                                const struct wisp_goal *goal, bool one, wisp_error *err);
/* Numbers that a fit can give? */
bool wisp_thresholds_ok(const float *t, size_t n, size_t *bad);

#endif

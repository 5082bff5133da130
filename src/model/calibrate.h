/* Calibration: from a label's score to the probability that the label applies.
 *
 *   probability = sigmoid(w0 ln p - w1 ln(1 - p) + w2 + w3 ln best)
 *
 * p is the label's raw score, 'best' that of the row's best label.  With w = 1, 1, 0, 0 it is the
 * raw score itself.  w0 and w1 are not negative, so within a row the order stays; 'best' is the
 * same for all labels of a row and tells rows with one sure label from rows with several (a
 * softmax gives each of these 1/|Y|).  The weights are fitted on validation rows, for exact and for
 * sparse prediction apart: a softmax over the labels that votes name is another score. */
#ifndef WISP_MODEL_CALIBRATE_H
#define WISP_MODEL_CALIBRATE_H

#include "base/error.h"

#include <stdbool.h>

enum {
    WISP_CALIBRATION_WEIGHTS = 4,
    WISP_CALIBRATION_FEW = 20,   /* rows; with fewer scores stay raw */
    WISP_CALIBRATION_ROWS = 4096 /* more are not looked at */
};

struct wisp_calibration { /* as in the model file: 6 floats */
    float w[WISP_CALIBRATION_WEIGHTS];
    /* percent, of the best labels of the validation rows (metrics.h); 'ece' by weights fitted on
     * four fifths of the rows, on the others */
    float ece_raw, ece;
};
enum { WISP_CALIBRATION_FLOATS = WISP_CALIBRATION_WEIGHTS + 2 };

float wisp_calibrated(const struct wisp_calibration *c, float p, float best);
/* Do scores stay as they are? */
bool wisp_calibration_is_raw(const struct wisp_calibration *c);
/* Numbers that a fit can give? */
bool wisp_calibration_ok(const struct wisp_calibration *c);

/* Predictions with known truth, to fit on. */
struct wisp_pairs {
    size_t n, room;
    size_t n_rows;
    struct wisp_pair_seen *seen; /* (room) */
};
wisp_status wisp_pairs_init(struct wisp_pairs *p, size_t room, wisp_error *err);
void wisp_pairs_clear(struct wisp_pairs *p);
/* One row: its labels, best first (-1 ends them early), with their raw scores; k at most.  Beyond
 * the room nothing is added. */
void wisp_pairs_add(struct wisp_pairs *p, const int32_t *labels, const float *scores, size_t k,
                    const int32_t *truth, size_t n_truth);
/* Fits the weights: logistic regression, drawn towards the raw score so that few rows change
 * little.  Raw it stays with fewer than WISP_CALIBRATION_FEW rows, and where weights fitted on four
 * fifths of the rows do not predict the others better than the raw scores do.  Returns the mean
 * log loss of a row by what scores are then: over its best labels, each by weights that were not
 * fitted on it, and true labels that are not among these. */
double wisp_calibration_fit(struct wisp_calibration *out, const struct wisp_pairs *p);

struct wisp_model;
struct wisp_scorer;
struct wisp_data;
/* While 's' scores n_rows rows by wisp_score_all, p collects (a part of them, evenly). */
wisp_status wisp_pairs_watch(struct wisp_pairs *p, struct wisp_scorer *s, size_t n_rows,
                             wisp_error *err);
/* Gives the model its calibration: for exact prediction from p; where it has an index also for
 * sparse prediction, which the scorer of its weights is used for. */
wisp_status wisp_model_calibrate(struct wisp_model *m, struct wisp_scorer *s, struct wisp_pairs *p,
                                 const struct wisp_data *valid, wisp_error *err);

#endif

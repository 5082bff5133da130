/* How to predict, and a predictor's inside: what wisp_predictor_*, wisp_eval and benchmarks share.
 */
#ifndef WISP_API_PREDICTOR_H
#define WISP_API_PREDICTOR_H

#include "model/explain.h"

struct wisp_prediction { /* options "inference", "scores", "device", "zeros" */
    bool sparse;         /* score the labels that the model's index names */
    bool raw;            /* scores as the loss has them, not calibrated */
    bool cuda;           /* on a card */
    enum wisp_zeros zeros;
};
/* Of these options; NULL: their defaults. */
struct wisp_prediction wisp_prediction_of(const wisp_config *cfg);
/* Has the model, and the machine, what that takes?  Allocates nothing. */
wisp_status wisp_prediction_check(struct wisp_prediction how, const wisp_model *m, wisp_error *err);

struct wisp_predictor {
    struct wisp_scorer scorer;
    const struct wisp_calibration *map; /* NULL: scores are handed out raw */
    struct wisp_explainer *explainer;   /* NULL: nothing was explained so far */
    wisp_explanation explanation;       /* the last one */
    size_t k; /* as asked for; the scorer's is cut to the number of labels */
};
wisp_status wisp_predictor_make(wisp_predictor **out, wisp_context *ctx, const wisp_model *m,
                                struct wisp_prediction how, size_t k, wisp_error *err);

#endif

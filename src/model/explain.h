/* Explaining: which features of a row made a label's score.
 *
 * What is taken apart is the label's logit z, the number that the loss turns into its raw score.  A
 * feature's part is its value times the derivative of z by that value, both as the net sees them
 * (after tf-idf, scaling, standardising):
 *
 *     z = sum over features of x_f dz/dx_f + biases + remainder
 *
 * 'biases' is the same product, summed over all biases of the net, the label's own among them, and
 * what norms add.  A net of matrices, convolutions, pools, norms and ReLUs is linear around a row
 * (and homogeneous in values and biases together), so there the remainder is rounding.  Clips and
 * functions of graphs leave one; it is what the gradient cannot tell, and is handed out as such.
 *
 * The derivatives come from the layers' own ways back.  The gradient of a weight w of the first
 * layer that feature f is multiplied with is x_f times that of the unit, so a feature's part is the
 * sum of w times the gradient of w: an update that moves nothing adds that up. */
#ifndef WISP_MODEL_EXPLAIN_H
#define WISP_MODEL_EXPLAIN_H

#include "model/model.h"

struct wisp_explainer {
    const struct wisp_model *m;
    struct wisp_context ctx; /* the caller's, but for its threads: a row is one thread's work */
    struct wisp_net net;     /* the model's weights; values and gradients of its own */
    struct wisp_layout layout;
    size_t n_features;
    bool image;             /* parts are of pixels, all of them */
    double *sum;            /* (n_features) parts by feature */
    float *h, *row, *spare; /* what the head reads of the row; a label's row; one of a layer */
    size_t spare_floats;    /* of 'spare' */
    /* the answer */
    double logit, bias, remainder;
    size_t n, room;
    wisp_reason *reasons; /* (n) by size, the largest first; ties by smaller feature */
};

/* WISP_ENOTSUP: the model has a layer whose way from the features is not known. */
wisp_status wisp_explainer_init(struct wisp_explainer *e, const struct wisp_model *m,
                                const struct wisp_context *ctx, wisp_error *err);
void wisp_explainer_clear(struct wisp_explainer *e);
/* From now on it is about this row of d. */
wisp_status wisp_explainer_row(struct wisp_explainer *e, const struct wisp_data *d, size_t row,
                               wisp_error *err);
/* The logit of a label for that row. */
double wisp_explainer_logit(const struct wisp_explainer *e, int32_t label);
/* Takes it apart. */
wisp_status wisp_explainer_label(struct wisp_explainer *e, int32_t label, wisp_error *err);

#endif

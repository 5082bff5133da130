/* Explaining: which features of a row made a label's score.
 *
 * What is taken apart is the label's logit z, the number that the loss turns into its raw score.  A
 * feature's part is its value times the derivative of z by that value, both as the model sees them
 * (after tf-idf, scaling, standardising):
 *
 *     z = sum over features of x_f dz/dx_f + biases + remainder
 *
 * A linear model is that sum; how nets are taken apart: explain_net.c.  The remainder is what the
 * gradient cannot tell, and is handed out as such.
 *
 * Rows are laid out here; what a label's logit is made of the model's kind says (kind.h), which adds
 * it to an account.  A kind of several members makes an explainer of each without the room for rows,
 * and has them add to one account, each times its weight. */
#ifndef WISP_MODEL_EXPLAIN_H
#define WISP_MODEL_EXPLAIN_H

#include "model/model.h"

struct wisp_account {
    double *sum; /* (n_features) parts by feature, of those that the row has */
    double bias, logit;
};

struct wisp_explainer {
    const struct wisp_model *m;
    struct wisp_context ctx; /* the caller's, but for its threads: a row is one thread's work */
    void *own;               /* of the model's kind */
    const struct wisp_net *reads; /* the net that says what of a row is laid out; NULL: features */
    struct wisp_layout layout;
    struct wisp_image image; /* all 0: rows are none; else parts are of pixels, all of them */
    struct wisp_account account;
    /* the answer */
    double remainder;
    size_t n, room;
    wisp_reason *reasons; /* (n) by size, the largest first; ties by smaller feature */
};

/* WISP_ENOTSUP: the model is, or has, something whose way from the features is not known. */
wisp_status wisp_explainer_init(struct wisp_explainer *e, const struct wisp_model *m,
                                const struct wisp_context *ctx, wisp_error *err);
/* The same without room to lay rows out: for a kind of several members. */
wisp_status wisp_explainer_init_member(struct wisp_explainer *e, const struct wisp_model *m,
                                       const struct wisp_context *ctx, wisp_error *err);
void wisp_explainer_clear(struct wisp_explainer *e);
/* From now on it is about this row of d. */
wisp_status wisp_explainer_row(struct wisp_explainer *e, const struct wisp_data *d, size_t row,
                               wisp_error *err);
/* Takes the logit of a label for that row apart: account, remainder and reasons. */
wisp_status wisp_explainer_label(struct wisp_explainer *e, int32_t label, wisp_error *err);

/* The functions of each kind, for its row of the table. */
#define WISP_EXPLAINS(name)                                                                        \
    wisp_status wisp_explain_##name##_ready(struct wisp_explainer *e, wisp_error *err);            \
    void wisp_explain_##name##_done(struct wisp_explainer *e);                                     \
    wisp_status wisp_explain_##name(struct wisp_account *to, struct wisp_explainer *e,             \
                                    const struct wisp_batch *b, int32_t label, double weight,      \
                                    wisp_error *err);
WISP_EXPLAINS(net)
WISP_EXPLAINS(linear)
WISP_EXPLAINS(joint)
#undef WISP_EXPLAINS

#endif

/* Going on from a model (--init): a new run whose net has all of the model's rows, and more. */
#ifndef WISP_MODEL_INIT_H
#define WISP_MODEL_INIT_H

#include "config/options.h"
#include "model/model.h"

struct wisp_init {
    struct wisp_model *model;        /* NULL: a new net */
    struct wisp_tensor_file weights; /* or weights from elsewhere (torch.h); no tensors: none */
    struct wisp_tensor_file state;   /* what its run left beside it; no tensors: nothing */
    float *raise; /* (n_labels) of the output layer, where there are new labels */
};

struct wisp_run;

/* Opens the model that the options name, if any: r->init.model, or the weights from elsewhere:
 * r->init.weights.  Before the plan is made. */
wisp_status wisp_init_open(struct wisp_run *r, const wisp_config *cfg, wisp_error *err);
/* What the model's run decided, where nothing else is named: net, loss, index, and the optimiser
 * whose state lies beside the model. */
wisp_status wisp_init_plan(struct wisp_run *r, const wisp_config *cfg, wisp_error *err);
/* Do the names of r->m begin with the model's? */
wisp_status wisp_init_names(const struct wisp_run *r, const char *path, wisp_error *err);
/* Is r's net the model's with more features and labels?  Then it is clear how fast old rows move.
 */
wisp_status wisp_init_fit(struct wisp_run *r, const wisp_config *cfg, wisp_error *err);
/* Tells the net and the optimiser, which are made, which rows are old, and how new labels' logits
 * are raised while training. */
wisp_status wisp_init_pace(struct wisp_run *r, wisp_error *err);
/* One line of the plan. */
void wisp_init_say(const struct wisp_run *r, const char *path);
/* r->m->idf holds the idf of the new rows; it becomes that of all.  A feature that the model knows
 * keeps its own.  A new one occurs in new rows only, so on old and new rows together its idf is
 *     log((old rows + new rows) / new rows with it)
 * Ids that the model has but never saw (its idf says nothing) are new ones. */
void wisp_init_idf(struct wisp_run *r);
/* The same for r->m->columns: a new column was 0 in all old rows. */
void wisp_init_columns(struct wisp_run *r);
/* Of weights from elsewhere: do they fit r's net, but for its output layer? */
wisp_status wisp_init_check_weights(const struct wisp_run *r, const wisp_config *cfg,
                                    wisp_error *err);
/* Copies them; the output layer stays new. */
wisp_status wisp_init_take_weights(struct wisp_run *r, wisp_error *err);
/* Where there are no rows to calibrate on: what the model's scores were worth, those of r->m are. */
void wisp_init_calibration(struct wisp_run *r);
/* Copies the model's weights and connections over those of a new net; rows that the model does not
 * have stay as they are. */
void wisp_init_weights(struct wisp_run *r);
/* The same for the optimiser's memory of these rows, where the model's run left it.  WISP_EMODEL:
 * no run can have left it so. */
wisp_status wisp_init_state(struct wisp_run *r, const wisp_config *cfg, wisp_error *err);

#endif

/* The training run of a linear model: what is chosen, and what lives as long as it. */
#ifndef WISP_MODEL_LINEAR_RUN_H
#define WISP_MODEL_LINEAR_RUN_H

#include "linear/linear.h"
#include "model/run.h"

struct wisp_linear_run {
    /* the plan */
    struct wisp_linear_how how;
    bool all; /* all rows are negatives; else those that votes name: */
    struct wisp_negatives_how hard;
    struct wisp_linear_done old; /* --init: what weights stay near to; start NULL: none */
    bool refit;                  /* once more, with the held-out rows, when they are done */
    /* of an epoch: the first is without held-out rows, the second with them */
    const struct wisp_data *d; /* its rows: 'kept', or all */
    struct wisp_data *kept;    /* owned */
    void *rows_block;          /* what the arrays of 'rows' lie in */
    struct wisp_linear_rows rows;
    float *factor; /* (n_labels) of votes */
    struct wisp_negatives negatives;
    struct wisp_linear_done done;
    struct wisp_linear_trainer *trainer;
};

/* Fills in the plan from options, data and the common plan of a run. */
wisp_status wisp_linear_plan(struct wisp_linear_run *l, const struct wisp_run *r,
                             const wisp_config *cfg, wisp_error *err);
/* Bytes of everything that training takes at its peak, by estimate. */
size_t wisp_linear_bytes(const struct wisp_linear_run *l, const struct wisp_run *r);
/* Lays out the rows of r's epoch, finds negatives, makes the trainer. */
wisp_status wisp_linear_epoch(struct wisp_run *r, wisp_error *err);
void wisp_linear_epoch_clear(struct wisp_linear_run *l);
/* What the model gets of l->done: lists by feature, or by label. */
wisp_status wisp_linear_give(struct wisp_run *r, wisp_error *err);

/* ---- for state.c ---- */
/* The tensors of a checkpoint. */
enum { WISP_LINEAR_TENSORS = 4 };
size_t wisp_linear_state(struct wisp_tensor out[WISP_LINEAR_TENSORS],
                         const struct wisp_linear_run *l);
/* What was done, from a checkpoint. */
wisp_status wisp_linear_restore(struct wisp_run *r, const struct wisp_tensor_file *f,
                                const char *path, wisp_error *err);

/* Weights of a file or a checkpoint: starts that ascend from 0 to n, ids that ascend in every list and
 * are below 'below'.  The first list that is not so, or 'lists'. */
size_t wisp_linear_bad_list(const int64_t *start, const int32_t *id, size_t lists, size_t n,
                            size_t below);

/* Trains a linear model: as wisp_train_run. */
wisp_status wisp_linear_train(struct wisp_report **out, struct wisp_context *ctx,
                              const wisp_config *cfg, const struct wisp_data *train,
                              const struct wisp_data *valid, const char *path,
                              wisp_on_progress on_progress, void *arg, wisp_error *err);

#endif

/* Where a run stands, and its checkpoints: PATH.state and the one before it, PATH.state.1. */
#ifndef WISP_MODEL_STATE_H
#define WISP_MODEL_STATE_H

#include "graph/graph.h"
#include "model/file.h"

struct wisp_place {     /* counters that a checkpoint keeps */
    int epoch;          /* being trained, from 1 */
    size_t step, steps; /* done so far, in all */
    size_t in_epoch;    /* steps done of this epoch */
    size_t seen;        /* rows done of this epoch */
    double loss_sum;    /* over those rows */
    double best;        /* validation P@1 of the best epoch, -1: none yet */
    double best_loss;   /* its validation loss, by which it is the best; -1: not known */
    int best_epoch, since_best;
    size_t n_averaged; /* snapshots in the mean of the parameters */
    char saved[33];    /* checksum of the model this run left at 'path'; "": none */
    bool begun;        /* its first checkpoint is there: the one that stands for the beginning */
    bool finished;     /* --resume found the model of a run that had come to its end */
};

struct wisp_run;
/* Every "key=value" of the options 'want' (as a model has them) that 'have' says otherwise, and every key
 * that is only in 'have'; how long the text became. */
size_t wisp_options_diff(char *diff, size_t room, const char *have, const char *want);
/* What tells a data set from another: sizes, counts of features and labels, first and last rows. */
uint64_t wisp_state_rows(const struct wisp_data *d);
/* What tells the rows of a run from others, as text. */
enum { WISP_STATE_DATA = 200 };
void wisp_state_data(char out[WISP_STATE_DATA], const struct wisp_run *r);
wisp_status wisp_state_begin(struct wisp_run *r, wisp_error *err); /* unless resumed */
/* Are weights, averaged weights and the optimiser's state all numbers?  Else WISP_ENUMERIC: nothing
 * may be saved then. */
wisp_status wisp_state_check(struct wisp_run *r, wisp_error *err);
wisp_status wisp_state_save(struct wisp_run *r, wisp_error *err);
/* The tensor (WISP_NAME_BYTES) that holds 'what' of a parameter: "w", "m", "v", "g2", "count". */
void wisp_state_name(char *out, const struct wisp_param *p, const char *what);
/* Could a run have left what the optimiser keeps of the parameter?  Else 'err' names the file. */
wisp_status wisp_state_param_ok(const struct wisp_param *p, const char *path, wisp_error *err);
/* What --resume means: the newest checkpoint that is whole; where there is none, the beginning, or
 * nothing (at.finished). */
wisp_status wisp_state_load(struct wisp_run *r, wisp_error *err);
/* What that will read, or the model of a finished run, for a look before there is memory; *out is
 * empty where there is none. */
wisp_status wisp_state_peek(struct wisp_tensor_file *out, const struct wisp_run *r,
                            wisp_error *err);
/* The newest checkpoint, the one before it, or both. */
void wisp_state_remove(const struct wisp_run *r, bool newest, bool before);

#endif

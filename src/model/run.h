/* A training run: everything that lives as long as it, by who uses it. */
#ifndef WISP_MODEL_RUN_H
#define WISP_MODEL_RUN_H

#include "comm/comm.h"
#include "model/calibrate.h"
#include "model/divide.h"
#include "model/init.h"
#include "model/magnitude.h"
#include "model/metrics.h"
#include "model/mishaps.h"
#include "model/order.h"
#include "model/penalty.h"
#include "model/plan.h"
#include "model/samplers.h"
#include "model/state.h"

struct wisp_sets {                         /* the rows (sample_weights.c, order.c) */
    const struct wisp_data *train, *valid; /* valid: NULL or empty: no validation */
    struct wisp_data *held_out;            /* owned; what 'valid' is when no set was given */
    float *weights; /* (train->n_rows) what its rows count for, 1 on average; NULL: all 1 */
    struct wisp_data weighted; /* 'train' with these weights: what the order hands out */
};

struct wisp_feed { /* batches, from one step to the next (train.c) */
    struct wisp_order order;
    struct wisp_layout layouts[2]; /* the batch of this step, and the next, being laid out */
    size_t *rows[2], n_rows[2];    /* (batch) of these, how many; 0: the epoch has no more */
};

struct wisp_card;
struct wisp_linear_run;
struct wisp_run {
    /* set by the caller */
    struct wisp_context *ctx;
    const char *path;       /* NULL: nothing is kept on disk */
    bool keep;              /* the model, in memory, with an index */
    struct wisp_pace *pace; /* (pace.h) NULL: nobody measures the steps */
    struct wisp_sets sets;
    struct wisp_linear_run *linear; /* (linear_run.h) NULL: it trains a net */
    bool again;                     /* made anew from its own checkpoint: nothing is said twice */
    /* made by wisp_run_make */
    char *smaller; /* the text of the net that a checkpoint has left of the plan's; NULL: there is
                      none */
    struct wisp_penalty *penalty;     /* NULL: none */
    struct wisp_magnitude *magnitude; /* NULL: none, or no more */
    struct wisp_mishaps *mishaps;     /* errors of the weights in a step; NULL: none */
    struct wisp_plan plan;
    struct wisp_model *m;
    struct wisp_init init;
    struct wisp_samplers samplers;
    struct wisp_feed feed;
    struct wisp_place at;
    struct wisp_optimizer opt;
    float *average;               /* mean of the parameters in the tail, or NULL */
    struct wisp_card *card;       /* (card.h) NULL: training on the CPU */
    struct wisp_divided *divided; /* NULL: all samples of a batch are here */
    struct wisp_scorer scorer;    /* of validation rows */
    struct wisp_pairs pairs;      /* of these, to calibrate with */
    double calibration_s;         /* spent on that since the run began */
};

/* ---- several ranks (ranks.c) ---- */

/* NULL: this process is the only one. */
static inline const struct wisp_comm *wisp_run_comm(const struct wisp_run *r)
{
    return r->ctx->comm && r->ctx->comm->size > 1 ? r->ctx->comm : NULL;
}
/* Ranks that have the whole net each, and divide the samples of a batch; NULL: there are none. */
static inline const struct wisp_comm *wisp_run_divides(const struct wisp_run *r)
{
    return r->plan.divides ? wisp_run_comm(r) : NULL;
}
/* Ranks that have a share of the rows of features and labels each; NULL: there are none. */
static inline const struct wisp_comm *wisp_run_shares(const struct wisp_run *r)
{
    return r->plan.divides ? NULL : wisp_run_comm(r);
}
/* Does this rank write what the run leaves on disk, and speak? */
static inline bool wisp_run_first(const struct wisp_run *r)
{
    return !wisp_run_comm(r) || wisp_run_comm(r)->rank == 0;
}
/* A status of this rank becomes everybody's; alone it stays. */
wisp_status wisp_run_agree(const struct wisp_run *r, wisp_status st, wisp_error *err);
/* Whether ranks divide samples or rows; refuses what several ranks cannot do, by its option. */
wisp_status wisp_ranks_check(struct wisp_run *r, const wisp_config *cfg, wisp_error *err);
/* Have all ranks the same data, options and kernels?  Else who differs. */
wisp_status wisp_ranks_compare(struct wisp_run *r, wisp_error *err);
/* Do they begin, or go on, at the same step? */
wisp_status wisp_ranks_compare_start(const struct wisp_run *r, wisp_error *err);
/* Between two steps: what ranks tell each other. */
struct wisp_pulse {
    double loss;  /* in: this rank's part of the step's; out: all of it */
    bool stop;    /* anybody was asked to stop */
    bool due, up; /* rank 0: a checkpoint is due, the time is up */
};
/* Adds to a report how many ranks there are, what a step sends to others ('sent' bytes in 'steps'), and
 * the memory of the largest rank. */
wisp_status wisp_ranks_report(struct wisp_report *t, const struct wisp_run *r, double sent,
                              size_t steps, wisp_error *err);
/* st: what this rank has to say of the next batch; a failure becomes everybody's. */
wisp_status wisp_ranks_pulse(const struct wisp_run *r, struct wisp_pulse *p, wisp_status st,
                             wisp_error *err);

/* Where each rank has scored all rows by itself: rank 0's result becomes everybody's, as kernels that
 * were chosen by their speed may round otherwise. */
wisp_status wisp_ranks_judged(const struct wisp_run *r, void *score, size_t bytes, wisp_status st,
                              wisp_error *err);

/* Everything but what the caller has set (run.c). */
wisp_status wisp_run_make(struct wisp_run *r, const wisp_config *cfg, wisp_error *err);
void wisp_run_clear(struct wisp_run *r); /* also half made */
/* The order of the rows, within so many bytes of them, and the rows that are held out, unless there are
 * others to validate on. */
wisp_status wisp_run_split(struct wisp_run *r, size_t memory, wisp_error *err);
/* Between two epochs: takes channels, or single weights, that are 0 out of the net and its state, and
 * leaves a checkpoint of what is left, from which the run is to be made again.  *shrunk: it has done
 * so (shrink.c). */
wisp_status wisp_run_shrink(struct wisp_run *r, bool *shrunk, wisp_error *err);
/* What a net that becomes smaller cannot be combined with; makes r->penalty or r->magnitude once there
 * are weights. */
wisp_status wisp_run_shrink_check(const struct wisp_run *r, wisp_error *err);
wisp_status wisp_run_shrink_make(struct wisp_run *r, wisp_error *err);
/* What every group of weights becomes shorter by after a step of the epoch that the run is in, for each
 * root of its size; 0: it stays as it is. */
double wisp_run_shorter(const struct wisp_run *r, size_t step, double lr);
/* The share of units and channels that are to be cut after that step; 0: none now. */
double wisp_run_cut(const struct wisp_run *r, size_t step);
/* A card's weights are the host's between epochs alone: cuts there, where an epoch has just ended.  True:
 * weights became 0 that were not, so that the run has to be made again from its next checkpoint. */
bool wisp_run_cut_between(struct wisp_run *r);
/* What errors in weights cannot be combined with; makes r->mishaps once there are weights. */
wisp_status wisp_run_mishaps(struct wisp_run *r, wisp_error *err);
/* r->smaller, where the run is resumed from a checkpoint that lost channels. */
wisp_status wisp_run_smaller(struct wisp_run *r, wisp_error *err);
/* Is the step in the part of the run that is averaged?  Adds the parameters to r->average; points the
 * model and the scorer at another block of parameters (average.c). */
bool wisp_average_due(const struct wisp_run *r);
void wisp_average_now(struct wisp_run *r);
void wisp_average_use(struct wisp_run *r, float *block, const float *was);
/* r->m, all but its weights (run_model.c). */
wisp_status wisp_run_model(struct wisp_run *r, const wisp_config *cfg, wisp_error *err);
/* The lines of the plan that say what the rows are. */
void wisp_run_say_data(const struct wisp_run *r);
/* Says what will happen, before any big block is taken, and whether it fits (run_say.c). */
wisp_status wisp_run_say(struct wisp_run *r, const wisp_config *cfg, wisp_error *err);
/* r->sets.weights, from the data and the options, once there is a model (sample_weights.c). */
wisp_status wisp_run_weights(struct wisp_run *r, const wisp_config *cfg, wisp_error *err);
/* Means and scales of the channels, where the net reads images: of the training rows, or as the model
 * to go on from has them; says them. */
wisp_status wisp_run_images(struct wisp_run *r, wisp_error *err);
/* How many rows have each label (n_labels), each row counted by its weight. */
void wisp_run_label_mass(double *mass, const struct wisp_run *r);
/* WISP_ENUMERIC: 'what' went wrong, where, that what is on disk stays, and what to try. */
wisp_status wisp_run_no_number(const struct wisp_run *r, const char *what, wisp_error *err);

#endif

/* A training run: everything that lives as long as it, and its state on disk. */
#ifndef WISP_MODEL_TRAIN_H
#define WISP_MODEL_TRAIN_H

#include "config/options.h"
#include "model/metrics.h"
#include "model/model.h"
#include "model/nets.h"
#include "model/optimizer.h"
#include "model/order.h"

enum { WISP_FEW_LABELS = 4096 }; /* up to here all rows are computed, and nets are wider */

struct wisp_plan { /* choices made from the options and the data (plan.c) */
    struct wisp_net_text net;
    size_t batch;
    int epochs, patience;
    double seconds;          /* of training, then the run ends; 0: no limit */
    size_t checkpoint_steps; /* between checkpoints within an epoch; 0: steps do not count */
    double checkpoint_s;     /* the same in seconds */
    double n_steps;          /* of the whole run, nearly */
    double lr, warmup, input_dropout, holdout, average;
    float old_pace; /* of rows of the model to go on from: wisp_optimizer.old_pace */
    const char *decay;
    const struct wisp_loss *loss;
    const struct wisp_optimizer_kind *optimizer;
    const char *moments; /* as asked for; 'slots' says what it came to */
    unsigned slots;      /* what the optimiser keeps, once the net is there: WISP_SLOT_* */
    const struct wisp_precision *precision;
    bool half;                     /* rows of bf16 */
    bool index;                    /* make the index for sparse prediction */
    struct wisp_sampling sampling; /* names "full": all rows */
    struct wisp_sampling hidden;   /* of 'sampled' layers; 'keep' follows from a layer's width */
    bool hogwild;
    struct wisp_values values;        /* idf, means and scales not yet set */
    char values_why[WISP_VALUES_WHY]; /* this mode; "": it was asked for */
    uint64_t seed;
    bool keep_state;    /* the finished run leaves its state */
    size_t memory;      /* bytes of data at once; 0: all */
    bool cuda;          /* trained on a card */
    size_t card_memory; /* most of it; 0: what is free */
};
/* init: the model to go on from, or NULL. */
wisp_status wisp_plan_make(struct wisp_plan *p, const wisp_config *cfg,
                           const struct wisp_kernels *k, const struct wisp_data *train,
                           const struct wisp_model *init, bool has_valid, wisp_error *err);
void wisp_plan_clear(struct wisp_plan *p);
/* What the optimiser will keep for a net of this size: WISP_SLOT_*. */
unsigned wisp_plan_slots(const struct wisp_plan *p, size_t n_params);
/* The learning rate where none is given. */
double wisp_plan_auto_lr(const struct wisp_plan *p);
/* The learning rate of step t of n, t from 0. */
double wisp_plan_lr(const struct wisp_plan *p, size_t t, size_t n);

/* How much of what matters the sampler finds: the share of a sample's exact best rows, true labels
 * excluded, among its own candidates, and in the active set (recall.c). */
struct wisp_recall {
    struct {             /* this epoch's, in the state file */
        double own, set; /* sums over samples */
        uint64_t n;
    } sums;
    double seconds; /* spent on it since the run began */
    float *scratch, *thread_scratch;
    int32_t *labels;
    float *scores;
};
wisp_status wisp_recall_init(struct wisp_recall *t, const struct wisp_layer *out, int threads,
                             wisp_error *err);
void wisp_recall_clear(struct wisp_recall *t);
/* Fits wisp_step.look; arg is the struct. */
void wisp_recall_look(void *arg, const struct wisp_layer *out, const struct wisp_step *s,
                      const float *h);

/* Settings of the output layer's sampler from the options (sampling.c). */
wisp_status wisp_sampling_plan(struct wisp_sampling *o, const wisp_config *cfg, size_t n_labels,
                               wisp_error *err);
/* Settings of hidden layers' samplers: those of the output layer where they mean the same. */
wisp_status wisp_sampling_plan_hidden(struct wisp_sampling *o, const struct wisp_sampling *output,
                                      const wisp_config *cfg, wisp_error *err);

struct wisp_card;
struct wisp_run {
    struct wisp_context *ctx;
    const struct wisp_data *train, *valid; /* valid: NULL or empty: no validation */
    struct wisp_data *held_out;            /* owned; what 'valid' is when no set was given */
    float *weights; /* (train->n_rows) what its rows count for, 1 on average; NULL: all 1 */
    struct wisp_data weighted; /* 'train' with these weights: what the order hands out */
    const char *path;          /* NULL: nothing is kept on disk */
    bool keep;                 /* the model, in memory, with an index */
    struct wisp_plan plan;
    struct wisp_model *m;
    struct wisp_model *init;            /* --init, or NULL */
    struct wisp_tensor_file init_state; /* what its run left beside it; no tensors: nothing */
    float *raise; /* (n_labels) of the output layer, where there are new labels */
    struct wisp_optimizer opt;
    struct wisp_order order;
    struct wisp_layout layouts[2]; /* the batch of this step, and the next, being laid out */
    struct wisp_scorer scorer;
    size_t batch_labels;          /* most labels of a batch, where a sampler needs to know */
    struct wisp_votes votes;      /* for the sampler, where the model keeps no index */
    struct wisp_sampler *sampler; /* of the output layer; NULL: all rows */
    struct wisp_sampler **hidden; /* (n_hidden) of the layer with this number; NULL: it has none */
    int n_hidden;
    struct wisp_recall recall;
    struct wisp_pairs pairs;    /* of the validation rows, to calibrate with */
    double calibration_s;       /* spent on that since the run began */
    struct wisp_card *card;     /* (card.h) NULL: training on the CPU */
    size_t *rows[2], n_rows[2]; /* (batch) of these, how many; 0: the epoch has no more */
    float *average;             /* mean of the parameters in the tail, or NULL */
    size_t n_averaged;
    /* where the run stands: saved in the state file */
    int epoch;          /* being trained, from 1 */
    size_t step, steps; /* done so far, in all */
    size_t in_epoch;    /* steps done of this epoch */
    size_t seen;        /* rows done of this epoch */
    double loss_sum;    /* over those rows */
    double best;        /* validation P@1 of the best epoch, -1: none yet */
    double best_loss;   /* its validation loss, by which it is the best; -1: not known */
    int best_epoch, since_best;
    char saved[33]; /* checksum of the model this run left at 'path'; "": none */
    bool begun;     /* its first checkpoint is there: the one that stands for the beginning */
    bool finished;  /* --resume found the model of a run that had come to its end */
};

/* WISP_ENUMERIC: 'what' went wrong, where, that what is on disk stays, and what to try. */
wisp_status wisp_run_no_number(const struct wisp_run *r, const char *what, wisp_error *err);
/* Is recall measured in this step of an epoch?  A few times; of epochs with few steps, in each. */
bool wisp_recall_due(const struct wisp_run *r, size_t step);

/* Everything but ctx, train, valid and path, which the caller has set (run.c). */
wisp_status wisp_run_make(struct wisp_run *r, const wisp_config *cfg, wisp_error *err);
void wisp_run_clear(struct wisp_run *r); /* also half made */

/* What the finders of the output layer are made from. */
void wisp_run_finder_setup(struct wisp_finder_setup *s, const struct wisp_run *r, size_t n_labels,
                           size_t width);
/* r->weights, from the data and the options, once there is a model (sample_weights.c). */
wisp_status wisp_run_weights(struct wisp_run *r, const wisp_config *cfg, wisp_error *err);
/* How many rows have each label (n_labels), each row counted by its weight. */
void wisp_run_label_mass(double *mass, const struct wisp_run *r);

/* Samplers of 'sampled' layers (samplers.c). */
size_t wisp_samplers_bytes(const struct wisp_run *r); /* what they will take */
wisp_status wisp_samplers_make(struct wisp_run *r, wisp_error *err);
void wisp_samplers_clear(struct wisp_run *r);

/* Checkpoints: PATH.state and the one before it, PATH.state.1 (state.c). */
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
 * nothing (r->finished). */
wisp_status wisp_state_load(struct wisp_run *r, wisp_error *err);
/* What that will read, or the model of a finished run, for a look before there is memory; *out is
 * empty where there is none. */
wisp_status wisp_state_peek(struct wisp_tensor_file *out, const struct wisp_run *r,
                            wisp_error *err);
/* The newest checkpoint, the one before it, or both. */
void wisp_state_remove(const struct wisp_run *r, bool newest, bool before);

#endif

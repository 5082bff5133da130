/* What a run will do: choices made from the options, the data and the model to go on from. */
#ifndef WISP_MODEL_PLAN_H
#define WISP_MODEL_PLAN_H

#include "config/options.h"
#include "model/inject.h"
#include "model/model.h"
#include "model/nets.h"
#include "model/optimizer.h"

struct wisp_decay { /* how the learning rate falls */
    const char *name;
    double (*share)(double left); /* of the highest; left: of the steps, 1 -> 0 */
};
const struct wisp_decay *wisp_decay_find(const char *name); /* NULL: there is none */

enum wisp_moments { WISP_MOMENTS_AUTO, WISP_MOMENTS_FP32, WISP_MOMENTS_BF16 };

/* Who adds up the gradients of cards: NCCL where that can be, the hosts, NCCL. */
enum wisp_exchange { WISP_EXCHANGE_AUTO, WISP_EXCHANGE_HOST, WISP_EXCHANGE_NCCL };

struct wisp_plan {
    struct wisp_net_text net;
    size_t batch;
    int epochs, patience;
    double seconds;          /* of training, then the run ends; 0: no limit */
    size_t checkpoint_steps; /* between checkpoints within an epoch; 0: steps do not count */
    double checkpoint_s;     /* the same in seconds */
    double n_steps;          /* of the whole run, nearly */
    double lr, warmup, input_dropout, holdout, average, weight_decay, smoothing;
    double more_zeros;     /* of ReLUs: wisp_layer_sizes.more_zeros */
    double cut;            /* share of the units and channels that are cut, the weakest; 0: none */
    double penalty;        /* on groups of weights (penalty.h); 0: none */
    int penalty_epochs;    /* the first so many have it */
    double magnitude;      /* share of weights that go one by one (magnitude.h); 0: none */
    int magnitude_epochs;  /* in the first so many */
    double penalty_warmup; /* epochs in which the penalty rises */
    const char *group_weights; /* the option, borrowed */
    bool round;                /* numbers of channels to those that are fast here (widths.h) */
    unsigned groups;           /* WISP_GROUPS_*: what it is on */
    struct wisp_errors errors; /* of weights in a step; rate 0: none */
    float old_pace;            /* of rows of the model to go on from: wisp_optimizer.old_pace */
    const struct wisp_decay *decay;
    const struct wisp_loss *loss;
    const struct wisp_optimizer_kind *optimizer;
    enum wisp_moments moments; /* as asked for; 'slots' says what it came to */
    unsigned slots;            /* what the optimiser keeps, once the net is there: WISP_SLOT_* */
    const struct wisp_precision *precision;
    enum wisp_zeros zeros;         /* of convolutions */
    bool half;                     /* rows of bf16 */
    bool index;                    /* make the index for sparse prediction */
    struct wisp_sampling sampling; /* of the output layer */
    struct wisp_sampling hidden;   /* of layers that may have a sampler; 'keep' follows from a
                                      layer's width */
    bool hogwild;
    struct wisp_values values;        /* idf, means and scales not yet set */
    char values_why[WISP_VALUES_WHY]; /* this mode; "": it was asked for */
    uint64_t seed, split;             /* split: of the choice of held-out rows */
    bool keep_state;                  /* the finished run leaves its state */
    size_t memory;                    /* bytes of data at once; 0: all */
    bool images;                      /* the net reads images */
    bool divides; /* ranks divide the samples of a batch, not the rows of features and labels */
    int depth;    /* layers with matrices below the head, on the longest way */
    bool cuda;    /* trained on a card */
    enum wisp_exchange exchange; /* who adds up the gradients of cards */
    double deadline;             /* seconds that a rank waits for another */
    size_t card_memory;          /* most of it; 0: what is free */
};
/* The first so many epochs make zeros, which are taken out of the net; 0: none. */
static inline int wisp_plan_shrink_epochs(const struct wisp_plan *p)
{
    return p->penalty > 0 || p->cut > 0 ? p->penalty_epochs
           : p->magnitude > 0           ? p->magnitude_epochs
                                        : 0;
}
/* init: the model to go on from, or NULL. */
wisp_status wisp_plan_make(struct wisp_plan *p, const wisp_config *cfg,
                           const struct wisp_kernels *k, const struct wisp_data *train,
                           const struct wisp_model *init, bool has_valid, wisp_error *err);
/* Options that shape the result, as lines "key=value", to be freed: kept in the model, compared on resume.
 * init: the checksum of the model to go on from, or NULL (run_model.c). */
wisp_status wisp_options_text(char **out, const char *init, const wisp_config *cfg,
                              wisp_error *err);
/* The option 'zeros'; cfg NULL: its default. */
enum wisp_zeros wisp_plan_zeros(const wisp_config *cfg);
void wisp_plan_clear(struct wisp_plan *p);
/* What the optimiser will keep for a net of this size: WISP_SLOT_*. */
unsigned wisp_plan_slots(const struct wisp_plan *p, size_t n_params);
/* The learning rate where none is given. */
double wisp_plan_auto_lr(const struct wisp_plan *p);
/* The learning rate of step t of n, t from 0. */
double wisp_plan_lr(const struct wisp_plan *p, size_t t, size_t n);

/* Settings of the output layer's sampler from the options (sampling.c). */
wisp_status wisp_sampling_plan(struct wisp_sampling *o, const wisp_config *cfg, size_t n_labels,
                               wisp_error *err);
/* Settings of hidden layers' samplers: those of the output layer where they mean the same. */
wisp_status wisp_sampling_plan_hidden(struct wisp_sampling *o, const struct wisp_sampling *output,
                                      const wisp_config *cfg, wisp_error *err);

#endif

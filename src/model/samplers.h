/* The samplers of a run: who chooses the rows that a step computes, of the output layer and of
 * hidden layers, what they are made from, and how much of what matters they find. */
#ifndef WISP_MODEL_SAMPLERS_H
#define WISP_MODEL_SAMPLERS_H

#include "hash/sampler.h"
#include "layer/layer.h"
#include "model/votes.h"

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
/* Fits wisp_head_step.look; arg is the struct. */
wisp_status wisp_recall_look(void *arg, const struct wisp_layer *out, const struct wisp_step *s,
                             const float *h, wisp_error *err);

struct wisp_samplers {
    size_t batch_labels;          /* most labels of a batch, where somebody needs to know */
    struct wisp_votes votes;      /* for the output layer's, where the model keeps no index */
    struct wisp_sampler *output;  /* NULL: all rows */
    struct wisp_sampler **hidden; /* (n_hidden) of the layer with this number; NULL: it has none */
    int n_hidden;
    struct wisp_recall recall; /* of the output layer's */
};

struct wisp_run;
/* What the finders of the output layer are made from. */
void wisp_run_finder_setup(struct wisp_finder_setup *s, const struct wisp_run *r, size_t n_labels,
                           size_t width);
/* Counts the labels of batches, and sets what the output layer must have room for. */
wisp_status wisp_samplers_room(struct wisp_layer_sizes *sizes, struct wisp_run *r, size_t n_labels,
                               wisp_error *err);
/* What they will take, with the votes, once the net is planned; *hidden: hidden layers' alone. */
size_t wisp_samplers_bytes(size_t *hidden, const struct wisp_run *r);
wisp_status wisp_samplers_make(struct wisp_run *r, wisp_error *err);
/* Once the net has become narrower: what they know of its rows by number stays, indexes of the rows'
 * weights are made anew. */
wisp_status wisp_samplers_renew(struct wisp_run *r, wisp_error *err);
/* Is there one?  It may look at the batch's own lists. */
bool wisp_samplers_any(const struct wisp_samplers *s);
void wisp_samplers_clear(struct wisp_samplers *s); /* also half made */
/* Is recall measured in this step of an epoch?  A few times; of epochs with few steps, in each. */
bool wisp_recall_due(const struct wisp_run *r, size_t step);

#endif

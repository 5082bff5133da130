/* Losses over an active set of labels, computed block by block.
 *
 * A block of logits z is (m labels, n samples).  block() makes of z what is, times the sample's
 * factor, the gradient without the targets, and leaves one number per sample; from their sum over
 * all blocks finish() gives the sample's loss (without the part of its true labels) and the factor.
 * The caller subtracts the targets.  So the logits are computed once and passed over once.
 *
 * All of a sample's logits are taken relative to one number, its origin, which must be near the
 * largest of them (WISP_LOSS_RANGE) and else does not matter. */
#ifndef WISP_LAYER_LOSS_H
#define WISP_LAYER_LOSS_H

#include "graph/ids.h"
#include "kernels/kernels.h"

/* Farther from the largest logit floats would come near their ends, bf16 as well. */
#define WISP_LOSS_RANGE 50.0f

struct wisp_loss {
    const char *name, *what;
    enum wisp_loss_id id; /* what kernels of a card know it by */
    /* Weight of each true label of a sample that has n_true > 0 of them. */
    float (*target)(size_t n_true);
    bool smooths; /* a share of the targets may be all labels' alike: wisp_layer.smoothing */
    /* Does a sample without labels teach anything? */
    bool uses_unlabelled;
    bool has_origin; /* else any will do */
    void (*block)(const struct wisp_kernels *k, float *z, size_t ldz, size_t m, size_t n,
                  const float *origin, float *sum);
    float (*value)(float z, float origin); /* what block makes of a single logit: it never falls */
    double (*finish)(float origin, double sum, float *factor);
    bool needs_sum; /* probability() looks at max and sum */
    /* Probability of a label whose logit is z, in a sample with maximum 'max' and sum of
     * exp(z - max) 'sum' over all labels. */
    float (*probability)(float z, float max, double sum);
    /* Start of the bias of a label that 'count' of 'n_rows' rows have, of 'total' labels in all. */
    float (*prior)(double count, double n_rows, double total);
};

const struct wisp_loss *wisp_loss_at(size_t i); /* NULL past the end */
const struct wisp_loss *wisp_loss_find(const char *name);

#endif

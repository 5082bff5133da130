/* Losses over an active set of labels, computed block by block.
 *
 * A block of logits z is (m labels, n samples).  The forward pass hands every block to
 * block(), which leaves something in z and two numbers a sample in a[] and b[]; combine() then sees
 * the numbers of all blocks, gives each sample's loss (without the part of its true labels),
 * and turns a[] into the factor that makes z the gradient; the caller
 * subtracts the targets.  So the logits are computed once and passed over twice. */
#ifndef WISP_LAYER_LOSS_H
#define WISP_LAYER_LOSS_H

#include "kernels/kernels.h"

struct wisp_loss {
    const char *name, *what;
    /* Weight of each true label of a sample that has n_true > 0 of them. */
    float (*target)(size_t n_true);
    /* Does a sample without labels teach anything? */
    bool uses_unlabelled;
    void (*block)(const struct wisp_kernels *k, float *z, size_t ldz, size_t m, size_t n, float *a,
                  float *b);
    /* a, b: (n_blocks, ld); samples first .. end-1; loss (n).  Leaves in a what z must be
     * multiplied by to be the gradient, 'scale' (n) folded in. */
    void (*combine)(float *a, const float *b, size_t ld, size_t n_blocks, size_t first, size_t end,
                    const float *scale, double *loss);
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

/* What the output layer offers beside training: the best labels of each sample. */
#ifndef WISP_LAYER_OUTPUT_H
#define WISP_LAYER_OUTPUT_H

#include "layer/layer.h"
#include "base/bounds.h"
#include "layer/loss.h"

/* Rows of W are worked on in blocks of this many, in lanes of consecutive blocks; a lane is
 * one thread's work.  Neither depends on the number of threads, so no sum does either. */
enum { WISP_OUT_BLOCK = 96, WISP_OUT_LANES = 16 };

static inline size_t wisp_out_blocks(size_t n_rows)
{
    return wisp_parts(n_rows, WISP_OUT_BLOCK);
}
static inline size_t wisp_out_lanes(size_t n_rows)
{
    size_t n = wisp_out_blocks(n_rows);
    return n < WISP_OUT_LANES ? n : WISP_OUT_LANES;
}

/* The loss that the net says; NULL: it says none. */
const struct wisp_loss *wisp_output_loss(const struct wisp_layer *l);

/* Scratch, in floats, for wisp_output_topk with up to n samples and k labels. */
size_t wisp_output_topk_floats(const struct wisp_layer *l, size_t n, size_t k);
size_t wisp_output_topk_thread_floats(const struct wisp_layer *l, size_t n, size_t k);

/* The k best rows for each of n samples h (n, n_in), best first, ties by smaller id, by exact
 * scores of all rows: labels (n, k), -1 where there are fewer than k rows; scores (n, k) are
 * probabilities.  Labels are ids, and of several ranks all get the same: fails where one is lost.  alone: a single sample is scored by dot products, which is several times as fast
 * as a product for a tile of them, and rounds otherwise. */
wisp_status wisp_output_topk(const struct wisp_layer *l, struct wisp_context *ctx,
                             const struct wisp_loss *loss, const float *h, size_t n, bool alone,
                             size_t k, int32_t *labels, float *scores, float *scratch,
                             float *thread_scratch, wisp_error *err);

#endif

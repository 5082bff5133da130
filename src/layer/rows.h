/* The active rows of a wide layer, in blocks and lanes: what the output layer and hidden sampled
 * layers share.  Blocks and lanes are those of output.h. */
#ifndef WISP_LAYER_ROWS_H
#define WISP_LAYER_ROWS_H

#include "layer/output.h"

static inline size_t wisp_row_at(const struct wisp_active *a, size_t place)
{
    return a->rows ? (size_t)a->rows[place] : place;
}

static inline size_t wisp_block_rows(const struct wisp_active *a, size_t block)
{
    size_t left = a->n - block * WISP_OUT_BLOCK;
    return left < WISP_OUT_BLOCK ? left : WISP_OUT_BLOCK;
}

/* The block's rows of w side by side: as they are, or gathered into 'to' (a block). */
const float *wisp_block_weights(float *to, const struct wisp_kernels *k, const struct wisp_param *w,
                                const struct wisp_active *a, size_t block);

/* to (n, width) = the sum over lanes of parts (n_lanes, n, width), in order; 0 of no lanes. */
void wisp_parts_add(struct wisp_context *ctx, float *to, const float *parts, size_t n_lanes,
                    size_t n, size_t width);

#endif

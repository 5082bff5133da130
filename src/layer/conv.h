/* Where a convolution (conv.c) has its numbers: for whoever folds batch norm into it, or runs it
 * elsewhere. */
#ifndef WISP_LAYER_CONV_H
#define WISP_LAYER_CONV_H

#include "conv/conv.h"
#include "graph/slide.h"
#include "layer/layer.h"

enum {
    WISP_CONV_PARAM_WEIGHT,
    WISP_CONV_PARAM_BIAS
}; /* parameters: (out, in / groups, kh, kw), (1, out) */

/* Its sizes. */
const struct wisp_conv *wisp_layer_conv_sizes(const struct wisp_layer *l);
/* Passes that it has, how many of them round to bf16, and how many skip zeros where these are many. */
struct wisp_conv_passes {
    int all, half, skip;
};
struct wisp_conv_passes wisp_layer_conv_passes(const struct wisp_layer *l);
/* What its calls did, by passes. */
struct wisp_conv_skipped {
    double share; /* of the calls: those that skipped zeros */
    double zeros; /* their mean share of what is skipped, in all calls; 0 where nobody looked */
};
void wisp_layer_conv_skipped(const struct wisp_layer *l,
                             struct wisp_conv_skipped out[WISP_CONV_PASSES]);

#endif

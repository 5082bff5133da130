/* Where a convolution (conv.c) has its numbers: for whoever folds batch norm into it, or runs it
 * elsewhere. */
#ifndef WISP_LAYER_CONV_H
#define WISP_LAYER_CONV_H

#include "conv/conv.h"
#include "layer/layer.h"

enum {
    WISP_CONV_ARG_CHANNELS,
    WISP_CONV_ARG_KERNEL,
    WISP_CONV_ARG_STRIDE,
    WISP_CONV_ARG_PAD,
    WISP_CONV_ARG_GROUPS,
    WISP_CONV_ARG_BIAS
};
enum {
    WISP_CONV_PARAM_WEIGHT,
    WISP_CONV_PARAM_BIAS
}; /* parameters: (out, in / groups, kh, kw), (1, out) */

/* Its sizes. */
const struct wisp_conv *wisp_layer_conv_sizes(const struct wisp_layer *l);

#endif

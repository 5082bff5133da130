/* A wide hidden layer that computes some of its units: which ones. */
#ifndef WISP_LAYER_SAMPLED_H
#define WISP_LAYER_SAMPLED_H

#include "layer/layer.h"

/* The rows of this step, which the layer keeps; n = 0:
 * all.  The layer's sampler writes it; where there is none it stays as it is. */
static inline struct wisp_active *wisp_sampled_active(const struct wisp_layer *l)
{
    return (struct wisp_active *)(void *)l->kept;
}

#endif

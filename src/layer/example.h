/* The output layer where each sample computes only its own part of the active set. */
#ifndef WISP_LAYER_EXAMPLE_H
#define WISP_LAYER_EXAMPLE_H

#include "layer/layer.h"

/* Asks for scratch; s->own is the most rows that all samples of a batch own together. */
void wisp_example_plan(struct wisp_layer *l, const struct wisp_layer_sizes *s);
/* Both want step->head.active.op; 'o' receives what the layer's sampler may learn from. */
void wisp_example_forward(const struct wisp_layer *l, struct wisp_step *s,
                          const struct wisp_act *in);
void wisp_example_backward(struct wisp_outcome *o, struct wisp_layer *l, struct wisp_step *s,
                           struct wisp_act *in);

#endif

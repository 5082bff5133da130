/* The connections of a layer 'sparse' (sparse.c), and what it declares for them. */
#ifndef WISP_LAYER_WIRES_H
#define WISP_LAYER_WIRES_H

#include "layer/layer.h"

extern const struct wisp_arg wisp_wires_args[];
enum { WISP_WIRES_FEATURES = 1 << 16 }; /* the most, where it reads the rows of the data */

/* Sets n_out, and declares weight, bias, inputs, and start where outputs differ in their number of
 * inputs.  Reads the file that the layer names, unless the connections are known (s->known). */
wisp_status wisp_wires_plan(struct wisp_layer *l, const struct wisp_act *in,
                            const struct wisp_layer_sizes *s, wisp_error *err);
/* Makes any layer say 'sparse kept WIDTH'. */
void wisp_wires_keep(struct wisp_layer *l, size_t width);
/* Connections, weights and biases.  What is of a file that was not read stays as it is: whoever
 * knew the connections has them. */
void wisp_wires_init(struct wisp_layer *l, uint64_t seed, struct wisp_pool *pool);
void wisp_wires_clear(struct wisp_layer *l);

#endif

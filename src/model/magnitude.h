/* Unstructured pruning: single weights, those of least magnitude, become 0 while a net trains and stay
 * 0, more and more of them on a cubic schedule.  Matrices and layers 'sparse' lose them; convolutions
 * and the output layer stay whole.  When the last are gone, matrices become layers 'sparse' with
 * connections of their own (compact.h), which are trained on.
 *
 * A weight that is 0 after a step is one that was cut: so a checkpoint needs nothing but weights. */
#ifndef WISP_MODEL_MAGNITUDE_H
#define WISP_MODEL_MAGNITUDE_H

#include "model/net.h"

struct wisp_magnitude {
    struct wisp_update update; /* first: moves a row, and what was cut of it is 0 again */
    const struct wisp_update *moves;
    const struct wisp_net *net;
    size_t n_params;  /* of the net, which may become another one before this is cleared */
    uint8_t **keep;   /* (n_params) of each weight; NULL: these stay */
    uint32_t *counts; /* for finding the least ones */
    size_t n;         /* weights that may go */
    bool *any;        /* (the widest layer) outputs that have weights */
    size_t steps;     /* until all that shall go are gone, ... */
    size_t every;     /* ... some after every so many */
};

/* Of a net that has its parameters, all of them floats; what is 0 was cut. */
wisp_status wisp_magnitude_make(struct wisp_magnitude *m, const struct wisp_net *net,
                                const struct wisp_update *moves, size_t steps, wisp_error *err);
void wisp_magnitude_clear(struct wisp_magnitude *m);
/* May the layer lose single weights? */
bool wisp_magnitude_cuts(const struct wisp_layer *l);
/* After so many steps: cuts what is due of 'share' of all weights. */
void wisp_magnitude_step(struct wisp_magnitude *m, double share, size_t done);

#endif

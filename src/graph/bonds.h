/* Which channels of a net's values can only be removed together, and what of its parameters makes and
 * reads them.
 *
 * A channel is an index of a value's first dimension; of flat values it is a unit.  Layers tie channels
 * to each other (enum wisp_ties): those of a value and of its ReLU, of all that an 'add' joins, of a map
 * and its pixels behind 'flatten'.  What is tied is one bond.
 *
 *   conv 64 as a, bn, relu, conv 64, add a       one bond for each i: channel i of all five values,
 *                                                rows i of both kernels and biases, gamma and beta i
 *
 * A bond whose parameters of WISP_AXIS_OUT are all 0 gives 0 wherever it is read: taking it away, with
 * the weights of WISP_AXIS_IN that would multiply it, changes nothing that the net says. */
#ifndef WISP_GRAPH_BONDS_H
#define WISP_GRAPH_BONDS_H

#include "graph/graph.h"

struct wisp_bonds {
    size_t n;      /* bonds */
    bool *fixed;   /* (n) may not be removed */
    size_t *first; /* (n_layers) where the channels of each value begin in 'of'; value 0 has none */
    int32_t *of;   /* the bond of each channel */
    size_t n_params;
    /* (n_params, WISP_MAX_RANK) the bonds that a dimension counts; NULL: none */
    const int32_t *(*axis)[WISP_MAX_RANK];
    /* (n_params) of 'wired' ones the bonds of the inputs that they name; NULL: features */
    const int32_t **in;
};

/* Channels of a value. */
static inline size_t wisp_channels(const struct wisp_act *a)
{
    return a->shape.rank == 3 ? a->shape.dim[0] : a->width;
}

wisp_status wisp_bonds_of(struct wisp_bonds *out, const struct wisp_graph *g,
                          const struct wisp_params *list, wisp_error *err);
void wisp_bonds_clear(struct wisp_bonds *bonds);

#endif

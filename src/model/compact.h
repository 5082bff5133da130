/* A net without some of its channels: the same layers with smaller counts, and the parameters that are
 * left, with their optimiser's state.  What goes together says graph/bonds.h.
 *
 * Layers 'sparse' lose the rows of units that go and all edges from such units, so each output has
 * inputs of its own then: they become 'sparse kept', whose connections are in the model.  A thin net
 * loses weights that are 0 too: of its layers 'sparse', and of matrices, which become such layers. */
#ifndef WISP_MODEL_COMPACT_H
#define WISP_MODEL_COMPACT_H

#include "graph/bonds.h"
#include "model/net.h"

struct wisp_left { /* connections of a layer; n_out 0: it has none, or they stay as they are */
    size_t n_out, n_edges, fan;
    int64_t *start; /* (n_out + 1) */
    bool ragged;    /* outputs differ in their number of inputs */
    int32_t *in;    /* (n_edges) by the smaller net's numbers, */
    size_t *edge;   /* and where the weight was; SIZE_MAX: it is 0 */
};

struct wisp_smaller {
    struct wisp_known known; /* first: of the layers below, while the smaller net is planned */
    const struct wisp_net *from;
    const struct wisp_bonds *bonds;
    const bool *keep; /* (bonds->n) */
    bool thin;
    char *text; /* of the smaller net */
    struct wisp_left *layers;
};

/* keep (bonds->n): bonds that may not go, that have a weight other than 0 which makes them, and one
 * which reads them; and one of each value, as a layer gives at least one channel.  Returns how many
 * go. */
wisp_status wisp_compact_choose(bool *keep, size_t *gone, const struct wisp_bonds *bonds,
                                const struct wisp_net *net, wisp_error *err);
/* Keeps more of those that could go, so that of every value of units a multiple of 'units' is left, of
 * every value of maps one of 'maps', or all.  Returns how many. */
size_t wisp_compact_round(bool *keep, const struct wisp_bonds *bonds, const struct wisp_net *net,
                          size_t units, size_t maps);
/* The text of the smaller net, and its connections.  Borrows the net, bonds and keep. */
wisp_status wisp_smaller_make(struct wisp_smaller *out, const struct wisp_net *net,
                              const struct wisp_bonds *bonds, const bool *keep, bool thin,
                              wisp_error *err);
void wisp_smaller_clear(struct wisp_smaller *s);
/* Fills the parameters of 'to', which was planned from that text with s->known and has its memory;
 * state of the optimiser where both have it. */
wisp_status wisp_compact_fill(struct wisp_net *to, const struct wisp_smaller *s, wisp_error *err);

#endif

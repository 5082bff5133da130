/* Branches of a net behind a shortcut: the layers between a value that others read too and the sum
 * that joins them to it again.
 *
 *   x -> conv -> bn -> relu -> conv -> bn -> add -> ...      one branch of five layers: without it the
 *    `-------------------------------------' shortcut        net still has a way from x on
 *
 * A branch can go as a whole: its result is an input of a layer of WISP_ADDS, which has others.  Layers
 * that read the rows of the data are in none. */
#ifndef WISP_GRAPH_BRANCHES_H
#define WISP_GRAPH_BRANCHES_H

#include "graph/graph.h"

struct wisp_branches {
    size_t n;
    int n_layers;
    bool *has; /* (n, n_layers) which layers; inner branches come before those around them */
};

/* Those that have weights to train. */
wisp_status wisp_branches_of(struct wisp_branches *out, const struct wisp_graph *g,
                             wisp_error *err);
void wisp_branches_clear(struct wisp_branches *b);

#endif

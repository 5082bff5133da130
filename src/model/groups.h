/* Kinds of groups that a penalty makes 0 (--groups), and those besides channels, which penalty.h has.
 *
 *   shapes   of a kernel: the weights of all filters at one channel and place, W[:, c, y, x].  A kernel
 *            whose outer rows or columns are 0 at either side becomes smaller (trim.h)
 *            The weights that read a channel are groups as well: when they are 0 the channel goes
 *   layers   all weights of a branch behind a shortcut (graph/branches.h): when they are 0 the branch
 *            goes (trim.h)
 *
 * Each is a proximal step of its own, one behind the other: shapes, branches from the inside, channels. */
#ifndef WISP_MODEL_GROUPS_H
#define WISP_MODEL_GROUPS_H

#include "base/text.h"
#include "graph/branches.h"
#include "model/net.h"

enum { WISP_GROUPS_CHANNELS = 1, WISP_GROUPS_SHAPES = 2, WISP_GROUPS_LAYERS = 4 };
/* Their names, one by one, then NULL; bit i of the kinds is row i. */
const struct wisp_word *wisp_groups_row(size_t i);
/* "channels+layers": several, joined by +. */
wisp_status wisp_groups_read(unsigned *kinds, const char *text, wisp_error *err);

struct wisp_group_set {
    unsigned kinds;
    double
        *weight; /* (layers) what the penalty is multiplied by; infinite: the layer is not named */
    struct wisp_branches branches;
    double *part; /* squares of one parameter, in pieces */
};

/* "operations,conv1=0,fc1=2": one factor for every layer that is named, into weight (layers), which is
 * infinite for the others.  "operations" names every layer that has some: a layer's factor is the root
 * of its operations per weight over the net's mean, so that a group counts for what it costs in time
 * and not in memory; in a net without convolutions all of them are 1.  What is said later counts.
 * A name that the net does not have is an error too, but once all others are there: *unknown. */
wisp_status wisp_groups_weights(double *weight, const struct wisp_net *net, const char *text,
                                bool *unknown, wisp_error *err);

wisp_status wisp_groups_make(struct wisp_group_set *g, const struct wisp_net *net, unsigned kinds,
                             wisp_error *err);
void wisp_groups_clear(struct wisp_group_set *g);
/* Columns of kernels, and branches, shorter by by * sqrt(size), times the least weight of their layers
 * that are named. */
void wisp_groups_move(struct wisp_group_set *g, struct wisp_net *net, double by,
                      struct wisp_pool *pool);

#endif

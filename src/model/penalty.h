/* A penalty on groups of weights, by which whole channels become 0 while a net trains (structured
 * sparsity): lambda * sqrt(size) * length of the weights that make a bond of channels (graph/bonds.h).
 *
 * After an update each group is made shorter by lr * lambda * sqrt(size), down to 0: the proximal step
 * of the penalty, which leaves zeros that are exact.  A group that is 0 has no momentum.
 *
 * Where units are many and alike, all of them become weak and none vanishes.  Then the weakest can be
 * cut as they are, some at a time. */
#ifndef WISP_MODEL_PENALTY_H
#define WISP_MODEL_PENALTY_H

#include "graph/bonds.h"
#include "model/groups.h"

struct wisp_weak {       /* a bond */
    int32_t bond, value; /* the first that has it */
    double strength;     /* squared length of the weights that make it, times that of its readers */
};

struct wisp_penalty {
    struct wisp_bonds bonds;
    struct wisp_group_set groups; /* channels, and others besides or instead */
    double *square;               /* (bonds.n) of each group */
    float *scale;   /* (bonds.n) what it is multiplied by; 1 of those that stay as they are */
    size_t *size;   /* (bonds.n) its weights */
    double *weight; /* (bonds.n) of the layers that are named; infinite: none is */
    struct wisp_weak *weak; /* (bonds.n) room to sort them */
    double *part;           /* squares of one parameter, by piece and index */
    float *by;              /* (the longest dimension) 'scale' of one parameter's indices */
    size_t every;           /* steps from one move to the next, which takes as much more */
    size_t *ends; /* (epochs with it) the steps of a run when each has ended; NULL: nobody says */
};

/* Of a net that has its parameters, all of them floats.  kinds: WISP_GROUPS_*. */
wisp_status wisp_penalty_make(struct wisp_penalty *p, const struct wisp_net *net, unsigned kinds,
                              wisp_error *err);
void wisp_penalty_clear(struct wisp_penalty *p);
/* Every group shorter by by * sqrt(size). */
void wisp_penalty_move(struct wisp_penalty *p, struct wisp_net *net, double by,
                       struct wisp_pool *pool);
/* Of the channels of every value the weakest, this share of them, become 0; one stays.  Returns how many
 * were not 0 before. */
size_t wisp_penalty_cut(struct wisp_penalty *p, struct wisp_net *net, double share,
                        struct wisp_pool *pool);

#endif

/* Parts of a parameter: the numbers whose indices stay, with the optimiser's state. */
#ifndef WISP_MODEL_GATHER_H
#define WISP_MODEL_GATHER_H

#include "graph/graph.h"

struct wisp_gather {
    int rank;
    size_t from[WISP_MAX_RANK], to[WISP_MAX_RANK]; /* sizes */
    size_t first[WISP_MAX_RANK]; /* the index that stays first, where they are side by side */
    const size_t *index[WISP_MAX_RANK]; /* (to) those that stay; NULL: side by side */
};

/* Numbers of so many bytes; nothing where either is NULL. */
void wisp_gather(void *to, const void *from, size_t bytes, const struct wisp_gather *g);
/* Weights, or what stands for them, and state; not the connections of a layer. */
void wisp_gather_param(struct wisp_param *to, const struct wisp_param *from,
                       const struct wisp_gather *g);

#endif

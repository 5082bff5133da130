/* The proximal step of a group penalty (model/penalty.h), on the card: every group of weights becomes
 * shorter by by * sqrt(size), down to 0.
 *
 *   add_squares   a block has some rows or columns of one parameter: squares, in parts
 *   join_parts    a thread per group: its parts in their order, and what it is multiplied by
 *   scale         the blocks of the first again: weights, their copies in bf16, and of groups that
 *                 become 0 the momentum
 *
 * No sum depends on the order in which blocks run.  Bytes: all weights of groups are read twice and
 * written once. */
#ifndef WISP_CUDA_PENALTY_CUH
#define WISP_CUDA_PENALTY_CUH

#include "cuda/kind.cuh"

struct wisp_dside { /* of a parameter: the dimension by which groups are counted */
    size_t layer;   /* of the net, and */
    int k;          /* which of its parameters */
    bool rows;      /* a group has rows of it, else columns */
    size_t n;       /* of these, that the host has: what is beyond is padding */
    size_t weights; /* of each, without padding */
    double times;   /* what its layer has the penalty multiplied by; infinite: nothing of its own */
    const int64_t *start; /* (n + 1) where rows of different lengths begin; NULL: all have these */
    int32_t *of;          /* (n) the group of each; on the host, but for the card's copy of this */
    /* wisp_dpenalty_lay: */
    struct wisp_dparam p;
    const int64_t *begin; /* the card's 'start' */
    size_t chunk;         /* rows of a block, where groups have columns, */
    uint32_t tiles;       /* and blocks beside each other */
    uint32_t block, part; /* the first of its own */
};

struct wisp_dpenalty {
    size_t n;          /* groups */
    const bool *fixed; /* (n) those that stay as they are */
    size_t n_sides;    /* 0: there is no penalty */
    struct wisp_dside *sides;
    /* wisp_dpenalty_lay: */
    uint32_t n_blocks, n_parts;
    struct wisp_dside *on_card; /* (n_sides) */
    int32_t *of;                /* of all of them */
    double *part;               /* (n_parts) squares */
    uint32_t *start, *list;     /* (n + 1), the parts of each group, ascending */
    double *root;               /* (n) of its size, times what its layers say; below 0: it stays */
    float *scale;               /* (n) */
};

struct wisp_bonds;
/* Which parameters of a net that has been made have groups; bonds NULL: none.  times (layers of g).  To
 * be cleared. */
wisp_status wisp_dpenalty_make(struct wisp_dpenalty *d, const struct wisp_dnet *n,
                               const struct wisp_graph *g, const struct wisp_bonds *bonds,
                               const double *times, wisp_error *err);
void wisp_dpenalty_clear(struct wisp_dpenalty *d);
/* After the net's own parameters. */
void wisp_dpenalty_lay(struct wisp_dpenalty *d, const struct wisp_dnet *n, void *block, size_t *at);
void wisp_dpenalty_fill(struct wisp_dcopy *c, const struct wisp_dpenalty &d);
void wisp_dpenalty_move(const struct wisp_dpenalty &d, double by, cudaStream_t s);

#endif

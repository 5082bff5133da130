/* Kinds of layers on the card: a .cu file with the kernels and one entry of a table (below) each.
 *
 * What a layer is, its arguments, shapes, parameters and connections, is said once, on the host
 * (graph/graph.h).  A row, found by the kind's name, has the launches and what the kind lays in the
 * card's memory for itself.
 *
 * A ReLU and a dropout behind a layer become a part of it where nobody else reads what lies between
 * (graph/fuse.c).  So a value has an 'after': what was done to its maker's sums before they were
 * written.  Its gradient is that of the sums: whoever makes it goes back through 'after' on the
 * way. */
#ifndef WISP_CUDA_KIND_CUH
#define WISP_CUDA_KIND_CUH

#include "cuda/ops.cuh"
#include "graph/graph.h"

enum {
    WISP_DLAYERS = 255, /* most of a net */
    WISP_DPARAMS = 4,   /* of a layer */
    WISP_DOWN = 3,      /* arrays that a layer's kind lays for itself */
    WISP_DWORDS = 160   /* of what cards have no form for */
};

struct wisp_dact { /* a value of the graph, on the card */
    size_t width;
    float *x; /* (batch, width); NULL: the batch's rows, or what lies between fused layers */
    float *g; /* (batch, width) gradient of what 'after' was done to; NULL: only forward */
    size_t x_at, g_at; /* in the memory of a step */
    struct wisp_dafter after;
};

struct wisp_card_kind;
struct wisp_dnode {             /* a layer, with what became a part of it */
    const struct wisp_layer *l; /* the host's */
    const struct wisp_card_kind *kind;
    int out;                   /* the value that it gives */
    float *gx[WISP_MAX_FROM];  /* where gradients of what it reads go: to these values' own, or */
    bool aside[WISP_MAX_FROM]; /* aside, and are added */
    float *kept;               /* from forward to backward, as its kind says */
    float *scratch;            /* when it goes back */
    size_t gx_at[WISP_MAX_FROM], kept_at, scratch_at; /* in the memory of a step */
    struct wisp_dparam param[WISP_DPARAMS];           /* in the order of l->params, ... */
    int32_t *ids;                                     /* ... but for that of WISP_FIXED, and */
    int64_t *rows;                                    /* that of WISP_STARTS; NULL: there is none */
    void *own[WISP_DOWN];                             /* as the kind's lay took them */
};

struct wisp_dnet { /* all layers but the head */
    const struct wisp_dnow *now;
    size_t batch, lanes; /* lanes: batch rounded up to 32 */
    size_t most_touched; /* features in a step */
    struct wisp_dopt opt;
    bool training;
    size_t n_layers;
    struct wisp_dnode layers[WISP_DLAYERS];
    struct wisp_dact acts[WISP_DLAYERS + 1]; /* by their numbers in the graph */
    int last;                                /* the one that the head reads */
    /* Of a value with several readers the last, which is the first on the way back, sets the
     * gradient; what others make is set aside, and added to it.  A reader goes back through 'after'
     * before that. */
    size_t work_bytes, work_bound; /* of the memory of a step; the most that is needed at once */
    bool keep;                     /* nothing in it lies over anything else: for tests */
};

struct wisp_dcopy;
struct wisp_card_kind {
    const char *name; /* of layer/kinds.c */
    unsigned is;      /* WISP_FUSE_*: what it can become of the layer before; 0: nothing */
    unsigned takes;   /* which of them can become a part of it */
    unsigned uses;    /* WISP_USES_X, _Y: what its way back looks at besides gradients */
    /* Says what of this layer cards have no form for, in a few words; false, as where there is no
     * function: nothing. */
    bool (*lacks)(char what[WISP_DWORDS], const struct wisp_layer *l);
    /* Of kinds that can become a part of others: adds what they do. */
    void (*after)(struct wisp_dafter *a, const struct wisp_layer *l, bool training);
    /* Takes l->own of a block, where there is one: what is lent with the parameters.  NULL:
     * nothing. */
    void (*lay)(struct wisp_dnode *l, const struct wisp_dnet &n, void *block, size_t *at);
    /* Floats that it keeps from its way forward to its way back, and of scratch that the latter
     * takes; NULL: none. */
    size_t (*kept)(const struct wisp_dnode &l, const struct wisp_dnet &n);
    size_t (*scratch)(const struct wisp_dnode &l, const struct wisp_dnet &n);
    /* Fills what 'lay' took; NULL: nothing. */
    void (*fill)(struct wisp_dcopy *c, const struct wisp_dnode &l);
    /* NULL: a head, whose steps are the trainer's. */
    void (*forward)(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s);
    /* Moves its rows, and sets l.gx. */
    void (*backward)(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s);
};
/* The table: one entry per kind, declared here and listed in kinds.cu, which has the head besides. */
#define WISP_CARD_KINDS(X)                                                                         \
    X(input)                                                                                       \
    X(dense)                                                                                       \
    X(sparse)                                                                                      \
    X(relu)                                                                                        \
    X(dropout)                                                                                     \
    X(identity)                                                                                    \
    X(flatten)                                                                                     \
    X(clip)                                                                                        \
    X(add)                                                                                         \
    X(concat)                                                                                      \
    X(bn)
#define WISP_CARD_KIND(name) extern const struct wisp_card_kind wisp_card_##name;
WISP_CARD_KINDS(WISP_CARD_KIND)
#undef WISP_CARD_KIND

/* NULL: there is none. */
const struct wisp_card_kind *wisp_card_kind_find(const char *name);
/* 'lacks' of kinds with a width of their own, which is to be a multiple of 4. */
bool wisp_card_width(char what[WISP_DWORDS], const struct wisp_layer *l);

static inline bool wisp_dreads_rows(const struct wisp_dnode &l)
{
    return l.l->from[0] == 0;
}
/* The first value that a layer reads, and the one that it gives. */
static inline const struct wisp_dact &wisp_dread(const struct wisp_dnet &n,
                                                 const struct wisp_dnode &l)
{
    return n.acts[l.l->from[0]];
}
static inline const struct wisp_dact &wisp_dgiven(const struct wisp_dnet &n,
                                                  const struct wisp_dnode &l)
{
    return n.acts[l.out];
}

/* ---- sparse.cu ---- */

enum {              /* what a layer has of its own */
       WISP_DSTART, /* (n_in + 1) its connections by input: edges start[i] .. start[i + 1] - 1 of */
       WISP_DEDGE,  /* (edges) number of an edge, ascending, and */
       WISP_DOUTPUT /* (edges) output; when training */
};

/* ---- same.cu ---- */

/* to = gradient of a's sums, from g (batch, width), that of a.x; they may be the same. */
void wisp_same_through(const struct wisp_dnet &n, const struct wisp_dact &a, const float *g,
                       float *to, cudaStream_t s);

/* ---- join.cu ---- */

/* a.g += g */
void wisp_join_gradient(const struct wisp_dnet &n, const struct wisp_dact &a, const float *g,
                        cudaStream_t s);

/* ---- work.cu ---- */

/* What of a step of n->batch samples lies where, and for how long. */
wisp_status wisp_dnet_plan(struct wisp_dnet *n, wisp_error *err);
void wisp_dnet_lay_work(struct wisp_dnet *n, void *block, size_t *at);

/* ---- net.cu ---- */

struct wisp_dcopy { /* copies in one direction; the first failure sticks */
    bool down;
    cudaError_t e;
};
/* Where one of them is missing, nothing is copied. */
void wisp_dcopy_bytes(struct wisp_dcopy *c, void *card, void *host, size_t bytes);
void wisp_dcopy_param(struct wisp_dcopy *c, const struct wisp_dparam *d,
                      const struct wisp_param *p);
/* What the host has of a parameter gets room; outside: w, m and v stay on the host, where the card
 * reaches them. */
struct wisp_dparam wisp_dparam_lay(const struct wisp_param *p, bool outside, void *block,
                                   size_t *at);

/* Who does what: the layers of a graph for which wisp_dnet_check said yes, those that become parts
 * of others, and what each reads and gives. */
void wisp_dnet_make(struct wisp_dnet *n, const struct wisp_graph *g, bool training);
/* Parameters (a lender's, whose net was made of a graph alike, where there is one), and the memory
 * of a step, which has been planned. */
void wisp_dnet_lay(struct wisp_dnet *n, const struct wisp_dnet *lender, void *block, size_t *at);
/* Parameters and, up, connections. */
void wisp_dnet_copy(struct wisp_dcopy *c, const struct wisp_dnet *n);
/* The layers that read the batch's rows, or those that do not: forward in this order, backward in
 * reverse. */
void wisp_dnet_forward(const struct wisp_dnet &n, bool rows, cudaStream_t s);
void wisp_dnet_backward(const struct wisp_dnet &n, bool rows, cudaStream_t s);

#endif

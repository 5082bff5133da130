/* Kinds of layers on the card: a .cu file with the kernels and one entry of a table (below) each.
 *
 * What a layer is, its arguments, shapes, parameters and connections, is said once, on the host
 * (graph/graph.h).  A row, found by the kind's name, has the launches and what the kind lays in the
 * card's memory for itself.
 *
 * A ReLU and a dropout behind a layer become a part of it where nobody else reads what lies between
 * (graph/fuse.c).  So a value has an 'after': what was done to its maker's sums before they were
 * written.  Its gradient is that of the sums: whoever makes it goes back through 'after' on the
 * way.
 *
 * A value of channels with height and width lies as (n, h, w, pitch): pitch is the channels rounded
 * up to 4, and those past the last are 0 in values and in gradients, always; parameters of such
 * layers are padded alike (struct wisp_dorder), and what they are padded with stays 0.  Gradients of
 * samples beyond the batch's are 0, too (conv.cuh says why): whoever makes one writes it for all. */
#ifndef WISP_CUDA_KIND_CUH
#define WISP_CUDA_KIND_CUH

#include "cuda/conv.cuh"
#include "cuda/ops.cuh"
#include "cuda/planes.cuh"
#include "graph/graph.h"

enum {
    WISP_DLAYERS = 255, /* most of a net */
    WISP_DPARAMS = 6,   /* of a layer */
    WISP_DOWN = 5,      /* arrays that a layer's kind lays for itself */
    WISP_DWORDS = 160   /* of what cards have no form for */
};

struct wisp_dact {    /* a value of the graph, on the card */
    size_t width;     /* numbers of a sample */
    size_t h, w, c;   /* pixels and channels; 0: units */
    size_t pitch;     /* channels in memory */
    bool half;        /* planes of bf16, x and g: pointers to floats are to these */
    bool learns;      /* it gets a gradient */
    mutable float *x; /* (batch, width), where it lies at this point of a step; NULL: the batch's
                         rows, or what lies between fused layers */
    mutable float *x_first; /* where it is made, or a lot of it; */
    float *x_again;         /* where it is made again, or NULL */
    mutable float *g; /* (batch, width) gradient of what 'after' was done to; NULL: only forward */
    size_t x_at, g_at, again_at; /* in the memory of a step */
    struct wisp_dafter after;
    float l1;                       /* what it counts for in the loss (model/l1.c) */
    mutable struct wisp_dlive live; /* where it is counted at this point of a step, ... */
    struct wisp_dlive live_first;   /* ... which is nowhere where it is made again */
};

/* Of a sample, in memory. */
static inline size_t wisp_dact_floats(const struct wisp_dact &a)
{
    return a.half ? a.width / 2 : a.width;
}

struct wisp_card_kind;
struct wisp_dnode {             /* a layer, with what became a part of it */
    const struct wisp_layer *l; /* the host's */
    const struct wisp_card_kind *kind;
    int n_from, from[WISP_MAX_FROM]; /* values that it reads: the layer's, then what is beside */
    int out;                         /* the value that it gives */
    float *gx[WISP_MAX_FROM];  /* where gradients of what it reads go: to these values' own, or */
    bool aside[WISP_MAX_FROM]; /* aside, and are added */
    bool relu;                 /* it does one, and its way back goes through it (kind->masks) */
    bool adds;                 /* it adds to the gradient of its first value by itself */
    bool outside;              /* the optimiser's state of its first parameter is the host's */
    void *made;                /* what its kind has made, on the host, for ... */
    size_t made_for;           /* ... so many samples; 0: nothing was asked for */
    int back, again;           /* moments at which it goes back, and forward again; -1: never */
    mutable float *front;      /* scratch when it goes forward */
    mutable bool again_now;    /* it does so again */
    float *front_first, *front_again; /* the first time, and when it goes again */
    mutable float *kept;              /* from forward to backward, as its kind says; as above: */
    mutable float *kept_first;
    float *kept_again; /* NULL: as the first time */
    float *scratch;    /* when it goes back */
    float *sum; /* what its rows move by, summed over lots; NULL: it does all samples at once */
    size_t gx_at[WISP_MAX_FROM], front_at, again_front_at, kept_at, again_kept_at, scratch_at,
        sum_at;                             /* in the memory of a step */
    struct wisp_dparam param[WISP_DPARAMS]; /* in the order of l->params, ... */
    int32_t *ids[WISP_DPARAMS];             /* ... but for those of WISP_FIXED, and */
    int64_t *rows;                          /* that of WISP_STARTS; NULL: there is none */
    void *own[WISP_DOWN];                   /* as the kind's lay took them */
};

struct wisp_dsource { /* images: */
    const uint8_t
        *bytes;          /* (rows, c, h, w) of all, training, or of this batch; what each becomes */
    const float *table;  /* (c, 256); or */
    const float *planes; /* of this batch, as they are, (batch, c, h, w); NULL: bytes */
};

/* How the numbers of a parameter lie on the card: a row of (channels, pixels) there is (pixels,
 * pitch), zeros where the host has nothing. */
struct wisp_dorder {
    size_t rows, channels, pixels, pitch;
};

/* The first layers may go a lot of samples at a time (lots.cu). */
struct wisp_dlots {
    int first;             /* so many layers; 0: none */
    size_t samples, n;     /* of a lot; lots */
    struct wisp_dnow *now; /* (n) what each of them is of the batch */
    size_t now_at;         /* in the memory of a step */
    mutable size_t at;     /* the one that is being done */
    /* The first layer that can be none of these, where some were asked for in vain; -1: none were. */
    int stop;
};

enum { WISP_DSLOTS = 4 };
struct wisp_dstate {    /* the optimiser's state of some layers, on the host (state.cu) */
    size_t least, slot; /* bytes of a layer's that are worth it; of a chunk, about */
    size_t n, bytes;    /* layers; theirs */
    size_t slot_floats; /* of a ring's, */
    float *slots;       /* (WISP_DSLOTS, slot_floats) on the card */
    float *home;        /* (bytes) on the host */
    cudaStream_t up, move, down;
    cudaEvent_t ready, filled[WISP_DSLOTS], moved[WISP_DSLOTS], freed[WISP_DSLOTS], done;
    mutable size_t turn; /* chunks so far in this step */
};

struct wisp_dranks;
struct wisp_dnet {                       /* all layers but the head */
    mutable const struct wisp_dnow *now; /* of the batch, or of a lot: so is */
    const struct wisp_dranks *ranks;     /* that divide the batch (ranks.cuh); NULL: none */
    mutable size_t batch;
    size_t lanes;        /* batch rounded up to 32 */
    size_t most_touched; /* features in a step */
    struct wisp_dopt opt;
    bool training;
    enum wisp_dconv_math math; /* of convolutions, and of dense layers */
    enum wisp_zeros zeros;     /* of convolutions that learn */
    size_t large;              /* whose weights are at least so many, by tensor cores */
    struct wisp_dsource images;
    mutable wisp_status refused; /* what a library said to a launch; WISP_OK: nothing so far */
    mutable wisp_error why;
    size_t n_layers;
    struct wisp_dnode layers[WISP_DLAYERS];
    struct wisp_dact acts[WISP_DLAYERS + 1]; /* by their numbers in the graph */
    int last;                                /* the one that the head reads */
    /* Of a value with several readers the last, which is the first on the way back, sets the
     * gradient; what others make is set aside, and added to it.  A reader goes back through 'after'
     * before that. */
    size_t work_bytes, work_bound; /* of the memory of a step; the most that is needed at once */
    void *work;                    /* where it lies; NULL: not yet */
    bool keep;                     /* nothing in it lies over anything else: for tests */
    size_t limit;       /* of it, which values are made again for, on the way back; 0: none */
    size_t work_whole;  /* what it would take else; */
    int n_again;        /* layers that go forward again, */
    size_t again_bytes; /* bytes of what they give, */
    double again_us;    /* and microseconds that it takes them, about */
    struct wisp_dlots lots;
    struct wisp_dstate state;
    /* weigh and move of a layer run on a stream of their own, beside the way back down to the next
     * layer that has them. */
    bool beside;
    struct wisp_dside {
        cudaStream_t stream;
        cudaEvent_t ready, done; /* it may go on; it is done */
        mutable bool begun;      /* something that was not waited for yet */
    } side;
};

struct wisp_dcopy;
struct wisp_card_kind {
    const char *name; /* of layer/kinds.c */
    unsigned forms;   /* WISP_ROWS, _FLAT, _PLANES: of what it reads first */
    unsigned is;      /* WISP_FUSE_*: what it can become of the layer before; 0: nothing */
    unsigned takes;   /* which of them can become a part of it */
    unsigned uses;    /* WISP_USES_X, _Y: what its way back looks at besides gradients */
    bool masks;  /* it goes back through a ReLU that it has taken by itself: readers need not */
    bool gated;  /* goes back through a ReLU before it without a look at what it read */
    bool skips;  /* makes no gradient where l.gx is NULL */
    bool counts; /* its way forward counts what is not 0 of planes (zeros.cuh) */
    /* Says what of this layer cards have no form for, in a few words; false, as where there is no
     * function: nothing. */
    bool (*lacks)(char what[WISP_DWORDS], const struct wisp_graph *g, const struct wisp_layer *l);
    /* Of kinds that can become a part of others: adds what they do. */
    void (*after)(struct wisp_dafter *a, const struct wisp_layer *l, bool training);
    /* Parameter k lies in another order, or with other sizes; false, as where there is no function:
     * as on the host. */
    bool (*order)(struct wisp_dorder *o, const struct wisp_dnode &l, const struct wisp_dnet &n,
                  int k);
    /* Makes l->made for n.batch samples, and frees it; NULL: nothing to make. */
    wisp_status (*make)(struct wisp_dnode *l, const struct wisp_dnet &n, wisp_error *err);
    void (*clear)(struct wisp_dnode *l);
    /* Where planes are bf16: it multiplies a copy of its first parameter in bf16; NULL: it does not. */
    bool (*halves)(const struct wisp_dnode &l);
    /* It can add to the gradient of what it reads, where others have set it; NULL: it cannot. */
    bool (*adds)(const struct wisp_dnode &l, const struct wisp_dnet &n);
    /* Takes l->own of a block, where there is one: what is lent with the parameters.  NULL:
     * nothing. */
    void (*lay)(struct wisp_dnode *l, const struct wisp_dnet &n, void *block, size_t *at);
    /* Floats of scratch that its way forward takes, that it keeps from there to its way back, and
     * of scratch that the latter takes; NULL: none. */
    size_t (*front)(const struct wisp_dnode &l, const struct wisp_dnet &n);
    size_t (*kept)(const struct wisp_dnode &l, const struct wisp_dnet &n);
    size_t (*scratch)(const struct wisp_dnode &l, const struct wisp_dnet &n);
    /* Fills what 'lay' took; NULL: nothing. */
    void (*fill)(struct wisp_dcopy *c, const struct wisp_dnode &l);
    /* NULL: a head, whose steps are the trainer's. */
    void (*forward)(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s);
    /* Sets l.gx, and moves its rows; where there is a 'move': neither before it. */
    void (*backward)(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s);
    /* Beside 'backward', which is then but for l.gx: what its rows move by.  NULL: nothing. */
    void (*weigh)(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s);
    /* After both: moves them.  NULL: backward does. */
    void (*move)(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s);
    /* Floats that 'weigh' leaves in the scratch where l.sum is not NULL, from float 'at' on, both
     * multiples of 4; 'move' takes l.sum in their place.  NULL: with parameters it cannot do a lot at
     * a time. */
    size_t (*weighed)(size_t *at, const struct wisp_dnode &l);
    /* Rows of the first parameter can be moved some at a time, a multiple of so many; 0, as where there
     * is no function: all at once. */
    size_t (*some)(const struct wisp_dnode &l, const struct wisp_dnet &n);
    /* Instead of 'move', for first = 0, ..., in ascending order: rows first .. first + rows - 1, of
     * which m and v lie here (NULL: there is none).  What else moves does so with the first of them, or
     * with the last; nothing of l.scratch is used. */
    void (*move_some)(const struct wisp_dnet &n, const struct wisp_dnode &l, size_t first,
                      size_t rows, float *m, float *v, cudaStream_t s);
};
/* The table: one entry per kind, declared here and listed in kinds.cu, which has the head besides. */
#define WISP_CARD_KINDS(X)                                                                         \
    X(input)                                                                                       \
    X(dense)                                                                                       \
    X(sparse)                                                                                      \
    X(dag)                                                                                         \
    X(relu)                                                                                        \
    X(dropout)                                                                                     \
    X(identity)                                                                                    \
    X(flatten)                                                                                     \
    X(clip)                                                                                        \
    X(add)                                                                                         \
    X(concat)                                                                                      \
    X(bn)                                                                                          \
    X(image)                                                                                       \
    X(conv)                                                                                        \
    X(maxpool)                                                                                     \
    X(avgpool)                                                                                     \
    X(globalavg)                                                                                   \
    X(flatten_planes)                                                                              \
    X(concat_planes)                                                                               \
    X(dropout_planes)                                                                              \
    X(bn_planes)
#define WISP_CARD_KIND(name) extern const struct wisp_card_kind wisp_card_##name;
WISP_CARD_KINDS(WISP_CARD_KIND)
#undef WISP_CARD_KIND

/* Passes of convolutions in a step, and those that leave out slices of zeros (layer_conv.cu). */
void wisp_dconv_count(const struct wisp_dnet *n, int *passes, int *skipping);

/* By its name, whatever it reads; NULL: there is none. */
const struct wisp_card_kind *wisp_card_kind_find(const char *name);
/* The row for this layer; NULL: there is none. */
const struct wisp_card_kind *wisp_card_kind_of(const struct wisp_graph *g,
                                               const struct wisp_layer *l);
/* 'lacks' of kinds with a width of their own, which is to be a multiple of 4. */
bool wisp_card_width(char what[WISP_DWORDS], const struct wisp_graph *g,
                     const struct wisp_layer *l);
/* Of those with n connections, whose numbers are of 32 bits. */
bool wisp_card_edges(char what[WISP_DWORDS], const struct wisp_layer *l, size_t n);

static inline bool wisp_dreads_rows(const struct wisp_dnode &l)
{
    return l.from[0] == 0;
}
/* The first value that a layer reads, and the one that it gives. */
static inline const struct wisp_dact &wisp_dread(const struct wisp_dnet &n,
                                                 const struct wisp_dnode &l)
{
    return n.acts[l.from[0]];
}
static inline const struct wisp_dact &wisp_dgiven(const struct wisp_dnet &n,
                                                  const struct wisp_dnode &l)
{
    return n.acts[l.out];
}

/* What is added to a layer's sums, which it has taken (WISP_FUSE_ADD); NULL: nothing. */
static inline const struct wisp_dact *wisp_dbeside(const struct wisp_dnet &n,
                                                   const struct wisp_dnode &l)
{
    return l.n_from > l.l->n_from ? &n.acts[l.from[l.l->n_from]] : NULL;
}

/* A value as planes.cuh has it. */
static inline struct wisp_dplanes wisp_dplanes_of(const struct wisp_dnet &n,
                                                  const struct wisp_dact &a)
{
    return { n.batch, a.h, a.w, a.pitch, a.half, n.now ? &n.now->n : NULL, a.c };
}

/* ---- sparse.cu ---- */

enum {              /* what a layer has of its own */
       WISP_DSTART, /* (n_in + 1) its connections by input: edges start[i] .. start[i + 1] - 1 of */
       WISP_DEDGE,  /* (edges) number of an edge, ascending, and */
       WISP_DOUTPUT /* (edges) output; when training */
};

/* ---- same.cu ---- */

/* to = gradient of a's sums, from g (batch, width), that of a.x; they may be the same.  0 for
 * samples beyond. */
void wisp_same_through(const struct wisp_dnet &n, const struct wisp_dact &a, const float *g,
                       float *to, cudaStream_t s);

/* a.g += a.l1 / n where a.x is above 0. */
void wisp_same_more_zeros(const struct wisp_dnet &n, const struct wisp_dact &a, cudaStream_t s);

/* ---- norm.cu ---- */

/* Scale and shift move by totals (2, width), the running means by 'measured' (3, width) of n x side
 * numbers each; 'used' of the width are the host's. */
void wisp_norm_move(const struct wisp_dnet &n, const struct wisp_dnode &l, size_t width,
                    size_t used, size_t side, float *measured, const float *totals, cudaStream_t s);
/* 'measured' and totals of this rank's samples become those of the whole batch, where ranks divide
 * it. */
void wisp_norm_join(const struct wisp_dnet &n, const struct wisp_dnode &l, size_t width,
                    size_t side, float *measured, cudaStream_t s);
void wisp_norm_join_totals(const struct wisp_dnet &n, size_t width, float *totals, cudaStream_t s);

/* ---- join.cu ---- */

/* a.g += g */
void wisp_join_gradient(const struct wisp_dnet &n, const struct wisp_dact &a, const float *g,
                        cudaStream_t s);

/* ---- work.cu ---- */

/* Makes what kinds make for n->batch samples; what of a step of so many lies where, and for how
 * long.  To be cleared, also where it failed. */
wisp_status wisp_dnet_plan(struct wisp_dnet *n, wisp_error *err);
void wisp_dnet_clear(struct wisp_dnet *n);
/* Microseconds that a layer takes forward, about: to compare. */
double wisp_dnet_forward_us(const struct wisp_dnet &n, const struct wisp_dnode &l);
/* The same with the lots that n->lots says. */
wisp_status wisp_dnet_place(struct wisp_dnet *n, wisp_error *err);
void wisp_dnet_lay_work(struct wisp_dnet *n, void *block, size_t *at);

/* ---- lots.cu ---- */

/* Can so many of the first layers be in lots, and all others not? */
bool wisp_dlots_can_end(const struct wisp_dnet &n, int first);
/* Floats from what the last of these layers keeps of a lot to that of the next. */
size_t wisp_dlots_kept(const struct wisp_dnet &n);
/* Chooses lots where a step does not fit n->limit without them, and plans it with them. */
wisp_status wisp_dlots_choose(struct wisp_dnet *n, wisp_error *err);
/* The first layers forward, and back, lot by lot. */
void wisp_dlots_forward(const struct wisp_dnet &n, cudaStream_t s);
void wisp_dlots_back(const struct wisp_dnet &n, cudaStream_t s);
/* Adds what a layer's rows move by to l.sum, which the first lot sets. */
void wisp_dlots_add(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s);
/* Is layer i one of them? */
static inline bool wisp_din_lots(const struct wisp_dnet &n, size_t i)
{
    return i < (size_t)n.lots.first;
}

/* ---- state.cu ---- */

/* The state of so many layers, the largest, will be the host's, before anything is laid; false: there
 * are not so many. */
bool wisp_dstate_outside(struct wisp_dnet *n, size_t layers);
/* Microseconds per step that it is on its way, and those that this costs, about. */
double wisp_dstate_us(const struct wisp_dnet &n);
double wisp_dstate_cost(const struct wisp_dnet &n);
cudaError_t wisp_dstate_open(struct wisp_dstate *t); /* streams and events */
void wisp_dstate_close(struct wisp_dstate *t);
/* Room of the host's from which copies go beside other work. */
cudaError_t wisp_dstate_keep(struct wisp_dstate *t);
void wisp_dstate_drop(struct wisp_dstate *t);
/* What is kept there becomes what the host's arrays have, or, down, the other way round. */
void wisp_dstate_copy(const struct wisp_dcopy *c, const struct wisp_dnet &n);
/* Moves the rows of such a layer beside what comes next on s, which at last waits for them. */
void wisp_dstate_move(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s);
void wisp_dstate_wait(const struct wisp_dnet &n, cudaStream_t s);

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

/* Has it values of channels with height and width? */
bool wisp_dnet_has_planes(const struct wisp_graph *g);
/* Who does what: the layers of a graph for which wisp_dnet_check said yes, those that become parts
 * of others, and what each reads and gives. */
void wisp_dnet_make(struct wisp_dnet *n, const struct wisp_graph *g, bool training);
/* Parameters (a lender's, whose net was made of a graph alike, where there is one), and the memory
 * of a step, which has been planned: the lender's, too, where it is large enough, for both run on
 * one stream, and nothing in it outlasts a step. */
void wisp_dnet_lay(struct wisp_dnet *n, const struct wisp_dnet *lender, void *block, size_t *at);
/* Parameters and, up, connections. */
void wisp_dnet_copy(struct wisp_dcopy *c, const struct wisp_dnet *n);
/* Has a library refused a launch since this was asked last? */
wisp_status wisp_dnet_status(const struct wisp_dnet &n, wisp_error *err);
/* The layers that read the batch's rows, or those that do not: forward in this order, backward in
 * reverse: first those that do not; then nothing is left on a stream of n's own. */
void wisp_dnet_forward(const struct wisp_dnet &n, bool rows, cudaStream_t s);
void wisp_dnet_backward(const struct wisp_dnet &n, bool rows, cudaStream_t s);
/* One layer, and what was begun on the other stream is done before s goes on. */
void wisp_dnet_go_forward(const struct wisp_dnet &n, const struct wisp_dnode &l, bool again,
                          cudaStream_t s);
void wisp_dnet_go_back(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s);
void wisp_dnet_wait_for_side(const struct wisp_dnet &n, cudaStream_t s);

#endif

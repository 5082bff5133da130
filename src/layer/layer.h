/* Layers: one file per kind, one table (kinds.c).
 *
 * A layer declares its parameters in plan(); optimiser, model file and everything else that
 * walks over parameters is written once over that list.  forward() and backward() work on
 * a whole batch; backward() also updates the layer's own rows, each touched row once, by one
 * thread, through step->update. */
#ifndef WISP_LAYER_LAYER_H
#define WISP_LAYER_LAYER_H

#include "base/bounds.h"
#include "conv/conv.h"
#include "base/context.h"
#include "base/cut.h"
#include "graph/graph.h"
#include "hash/sampler.h"
#include "kernels/weights.h"
#include "layer/phase.h"

#include <stdbool.h>

struct wisp_wires { /* a layer's fixed connections: parameter "inputs"; n_out 0: it has none */
    size_t n_out, n_edges;
    size_t fan;           /* inputs of each output, or the most of them */
    const int64_t *start; /* (n_out + 1) where those of an output begin; NULL: 'fan' of each */
    const int32_t *in;    /* (n_edges) their ids, ascending for each output, no id twice */
    size_t n_units;       /* of the result, where that is only some of the outputs: parameter
                             "outputs"; 0: all */
};
/* Where the inputs of an output begin, and how many they are. */
static inline size_t wisp_wires_row(const struct wisp_wires *w, size_t o, size_t *n)
{
    *n = w->start ? (size_t)(w->start[o + 1] - w->start[o]) : w->fan;
    return w->start ? (size_t)w->start[o] : o * w->fan;
}

struct wisp_layer;
/* Who knows the connections of layers that name a file: a model, a checkpoint, another net. */
struct wisp_known {
    /* out->n_out stays 0 where these are not known. */
    wisp_status (*wires)(const struct wisp_known *k, struct wisp_wires *out,
                         const struct wisp_layer *l, wisp_error *err);
};

struct wisp_update { /* how a row moves: model/optimizer.c */
    void (*row)(const struct wisp_update *u, struct wisp_param *p, size_t row, const float *g);
};

struct wisp_batch { /* rows laid out for a step: model/batch.c */
    size_t n;
    size_t before,
        all;          /* of a batch that ranks divide: samples of the ranks before this one, and of
                           all of them; all 0: none is elsewhere */
    const size_t *id; /* (n) number of each row in its set, borrowed */
    float *weight;    /* (n) what each sample's loss is multiplied by; NULL: 1 */
    uint32_t *xp;     /* (n+1) */
    int32_t *xi;      /* (xp[n]) features, values transformed */
    float *xv;
    float *planes; /* (n, channels, height, width) images, for the layer 'image'; NULL: none.  Where
                      nobody reads rows besides, they have no features */
    const uint8_t **px; /* (n) where the bytes of images lie, which have no planes then; NULL: they
                           have */
    uint32_t *yp;       /* (n+1) */
    int32_t *yi;        /* (yp[n]) labels */
    /* room for the output layer to file the true labels by block of rows: (yp[n]) each */
    uint32_t *place; /* in the active set */
    uint32_t *sample;
    float *logit;
    /* of these features those whose rows this rank has, by the rows; NULL: it has all */
    uint32_t *in_p; /* (n+1) */
    int32_t *in_i;  /* (in_p[n]) */
    float *in_v;
    /* the same non-zeros by row, for the backward pass */
    size_t n_touched;
    int32_t *touched; /* (n_touched) rows */
    uint32_t *tp;     /* (n_touched+1) */
    int32_t *ts;      /* (xp[n]) sample */
    float *tv;        /* (xp[n]) value */
};

/* Samples that the gradient is a mean over. */
static inline float wisp_batch_all(const struct wisp_batch *b)
{
    return (float)(b->all ? b->all : b->n);
}

static inline float wisp_batch_weight(const struct wisp_batch *b, size_t sample)
{
    return b->weight ? b->weight[sample] : 1;
}

struct wisp_loss;
struct wisp_precision;

struct wisp_head_step { /* what only the head of a net needs of a step, and leaves there */
    const struct wisp_loss *loss;
    struct wisp_active active; /* its rows; chosen by the layer's sampler if it has one, else n = 0:
                                  all */
    /* Called between choosing and computing, or NULL. */
    wisp_status (*look)(void *arg, const struct wisp_layer *out, const struct wisp_step *s,
                        const float *h, wisp_error *err);
    void *look_arg;
    double loss_sum; /* out: sum over samples */
    bool hogwild;    /* samples with rows of their own move them at once, without locks */
    struct wisp_outcome outcome; /* of 'back', for 'move' */
};

struct wisp_laps {          /* which layers the time of steps goes to, for whoever measures them */
    double last;            /* when the layer before was done */
    double *forward, *back; /* (n_layers) seconds, summed; the head's are all in 'forward' */
    double
        *data; /* (n_layers) of 'back', what convolutions took for the gradient of what they read */
};

/* Who looks at values as they are made, and at their gradients when these are whole, right before the
 * way back of the layer that made them. */
struct wisp_peek {
    void (*look)(void *arg, int layer, const struct wisp_act *a, size_t n, bool gradient);
    void *arg;
};

struct wisp_comm;
struct wisp_sums { /* of several ranks that divide a batch: each has a part of every gradient */
    const struct wisp_comm *ranks;
    /* The layer, and all after it, have handed their gradients to the update. */
    wisp_status (*made)(struct wisp_sums *t, int layer, wisp_error *err);
};

struct wisp_step { /* one batch on its way through the network */
    struct wisp_context *ctx;
    const struct wisp_batch *batch;
    bool training;
    bool alone;  /* its one row was asked for by itself: others need not round as this one does */
    bool again;  /* a layer's forward runs once more, only to give the same value as before: what it
                   has chosen, drawn or counted then stays, and so does its scratch */
    bool traces; /* a way back follows although nothing is trained: whatever it looks at is kept,
                    as in training, and means and deviations are those that the model has */
    uint64_t seed, number; /* of the run, of the step: dropout's counters */
    const struct wisp_update *update;
    struct wisp_sums *sums; /* NULL: all samples of the batch are here */
    struct wisp_head_step head;
    struct wisp_laps *laps;       /* NULL: nobody measures */
    const struct wisp_peek *peek; /* NULL: nobody looks */
};

struct wisp_layer_sizes { /* what plan may size scratch by */
    bool keep; /* values stay where they are to the end of a step, for whoever looks at them */
    size_t batch;
    size_t memory; /* bytes that a step's values, gradients and scratch should take at most, by
                      making values again; 0: no limit */
    size_t labels;
    struct wisp_share share; /* of the rows of features and labels */
    size_t active;           /* most output rows in a step */
    bool training;
    bool traces; /* beside 'training': only gradients are wanted, down to the pixels of images, and
                    steps have 'traces' instead of 'training' */
    bool still;  /* nobody changes the weights while the net is there: layers may keep copies */
    const struct wisp_precision *precision; /* of wide products; NULL: fp32 */
    enum wisp_zeros zeros;                  /* of convolutions */
    float more_zeros; /* what the mean of such a result counts for: wisp_layer.l1 */
    bool half;        /* rows of the input and the output layer are bf16 */
    size_t best;      /* of each sample's best rows that the output layer collects */
    size_t own;       /* most rows that the samples of a batch own together; 0: one set for all */
    const struct wisp_known *known; /* while planning, or NULL */
    const struct wisp_context *ctx; /* that steps will be run with; NULL: nothing is known of it */
    const struct wisp_loss *loss;   /* what a head must have, if it says one; NULL: any, ... */
    const char *loss_by;            /* ... by this: "--loss" */
    float smoothing;                /* wisp_layer.smoothing of the head */
    struct wisp_shape image;        /* of a row, (channels, height, width); rank 0: rows are none */
};

const struct wisp_layer_kind *wisp_layer_kind_at(size_t i); /* NULL past the end */
const struct wisp_layer_kind *wisp_layer_kind_find(const char *name);
extern const struct wisp_layer_kind *wisp_layer_kind_more; /* one of a test's own; else NULL */
/* The table: one entry per kind, each in a file of its own. */
#define WISP_LAYER_KINDS(X)                                                                        \
    X(input)                                                                                       \
    X(image)                                                                                       \
    X(dense)                                                                                       \
    X(relu)                                                                                        \
    X(dropout)                                                                                     \
    X(sampled)                                                                                     \
    X(sparse)                                                                                      \
    X(dag)                                                                                         \
    X(bn)                                                                                          \
    X(conv)                                                                                        \
    X(maxpool)                                                                                     \
    X(avgpool)                                                                                     \
    X(globalavg)                                                                                   \
    X(add)                                                                                         \
    X(concat)                                                                                      \
    X(flatten)                                                                                     \
    X(identity)                                                                                    \
    X(clip)                                                                                        \
    X(output)
#define WISP_LAYER_KIND(name) extern const struct wisp_layer_kind wisp_layer_##name;
WISP_LAYER_KINDS(WISP_LAYER_KIND)
#undef WISP_LAYER_KIND
/* Arguments of kinds that need a width alone. */
enum { WISP_MAX_WIDTH = 1 << 20 };
extern const struct wisp_arg wisp_args_width[];

/* A plan() for layers whose result has the shape and the form of what they read. */
wisp_status wisp_layer_plan_same(struct wisp_layer *l, const struct wisp_act *const *in,
                                 struct wisp_act *out, const struct wisp_layer_sizes *s,
                                 wisp_error *err);
/* For plan(): declares the next parameter, named "NAME.<what>", or "<layer number>.<kind>.<what>"
 * of a layer without a name.  What it returns is for flags, until the next one is declared. */
struct wisp_param *wisp_layer_declare(struct wisp_layer *l, const char *what, enum wisp_role role,
                                      enum wisp_by by, int rank, const size_t *dim);
/* The usual case: numbers to train, in rows. */
struct wisp_param *wisp_layer_declare_rows(struct wisp_layer *l, const char *what, enum wisp_by by,
                                           size_t rows, size_t cols);
/* Rows by feature or label, of which this rank has its share: 'total' is how many there are. */
struct wisp_param *wisp_layer_declare_share(struct wisp_layer *l, const char *what, enum wisp_by by,
                                            struct wisp_share share, size_t total, size_t cols);
/* What its first two dimensions count. */
static inline void wisp_param_axes(struct wisp_param *p, enum wisp_axis rows, enum wisp_axis cols)
{
    p->axis[0] = rows;
    p->axis[1] = cols;
}
/* The name that it gives: out has WISP_PARAM_NAME bytes. */
void wisp_layer_param_name(char *out, const struct wisp_layer *l, const char *what);
/* The layer's connections, if it has declared some. */
static inline struct wisp_wires wisp_layer_wires(const struct wisp_layer *l)
{
    struct wisp_wires w = { 0 };
    for (int i = 0; i < l->n_params; i++) {
        const struct wisp_param *p = &l->params[i];
        if (p->role != WISP_FIXED) continue;
        if (!w.n_out)
            w = (struct wisp_wires){ p->rows, wisp_param_n(p), p->cols, p->start, p->ids, 0 };
        else w.n_units = p->rows; /* 'outputs' is the last one */
    }
    return w;
}
/* For init(): normal values with this standard deviation. */
void wisp_param_normal(struct wisp_param *p, double deviation, uint64_t seed, int stream,
                       struct wisp_pool *pool);

/* An init() for layers before a ReLU (He: keeps the variance): weight and bias, the first two
 * parameters. */
void wisp_layer_init_he(struct wisp_layer *l, uint64_t seed, struct wisp_pool *pool);

/* A flops() for layers of a matrix, all of whose rows are computed. */
double wisp_layer_flops_matrix(const struct wisp_layer *l);

/* The gradient of a bias (1, width): the sum over samples of g (n, width); moves the bias. */
void wisp_layer_move_bias(struct wisp_layer *l, struct wisp_step *s, struct wisp_param *bias,
                          const float *g);

/* Runs of numbers, each by itself: y of a and b, which may be the same place, or NULL. */
typedef void wisp_run_fn(const struct wisp_kernels *k, float *y, const float *a, const float *b,
                         size_t n);
/* fn over n of them, by all threads; what is cut where does not matter to it. */
void wisp_layer_runs(struct wisp_context *ctx, wisp_run_fn *fn, float *y, const float *a,
                     const float *b, size_t n);
/* y += a, y = a */
wisp_run_fn wisp_run_add, wisp_run_copy;

/* ---- zeros (graph/zeros.h, zeros.c) ---- */

/* Where forward() counts what it makes; NULL: nobody wants to know.  Who asks has to count. */
static inline struct wisp_zeros_of *wisp_layer_zeros(const struct wisp_step *s,
                                                     const struct wisp_act *out)
{
    if (!out->zeros || !s->training || s->again) return NULL;
    out->zeros->counted = s->batch->n;
    return out->zeros;
}
/* Runs of numbers, as above, of a value: fn returns how many of y are not 0. */
typedef size_t wisp_count_fn(const struct wisp_kernels *k, float *y, const float *a, size_t n);
void wisp_layer_count_runs(struct wisp_context *ctx, wisp_count_fn *fn, struct wisp_zeros_of *z,
                           const struct wisp_act *of, float *y, const float *a, size_t samples);
/* The plain way: reads what was written once more, unless somebody has counted it. */
void wisp_layer_count(const struct wisp_step *s, const struct wisp_act *out);

static inline struct wisp_weights wisp_param_weights(const struct wisp_param *p)
{
    return (struct wisp_weights){ p->cols,  p->w,     p->b16,   p->i8,
                                  p->scale, p->codes, p->value, p->bits };
}
/* A single weight of whatever type. */
float wisp_param_at(const struct wisp_param *p, size_t i);
/* Weight and bias, the first two parameters, as finders see them. */
static inline struct wisp_matrix wisp_layer_matrix(const struct wisp_layer *l)
{
    return (struct wisp_matrix){ l->n_out, l->n_in, wisp_param_weights(&l->params[0]),
                                 l->params[1].w };
}

static inline float *wisp_layer_thread(const struct wisp_layer *l, int thread)
{
    return l->thread_scratch + (size_t)thread * l->thread_apart;
}
/* To cut the scratch, or that of a thread, as plan did. */
static inline struct wisp_cut wisp_layer_cut(const struct wisp_layer *l, enum wisp_cut_mode mode)
{
    return wisp_cut_of(l->scratch, l->scratch_floats * sizeof(float), mode);
}
/* And what it keeps, which never begins anew. */
static inline struct wisp_cut wisp_layer_kept_cut(const struct wisp_layer *l)
{
    return wisp_cut_of(l->kept, l->kept_floats * sizeof(float), WISP_CUT_AGAIN);
}
static inline struct wisp_cut wisp_layer_thread_cut(const struct wisp_layer *l, int thread,
                                                    enum wisp_cut_mode mode)
{
    return wisp_cut_of(wisp_layer_thread(l, thread), l->thread_floats * sizeof(float), mode);
}

/* Asks for a row of an array that will be written soon; NULL is no array.  Always inlined: gcc 12
 * takes a function that does nothing but prefetch for one without effect, and drops the calls. */
static inline __attribute__((always_inline)) void wisp_row_fetch(const void *array, size_t row,
                                                                 size_t bytes)
{
    for (size_t c = 0; array && c < bytes; c += 64)
        __builtin_prefetch((const char *)array + row * bytes + c, 1, 2);
}

/* Asks for a row of a parameter that is needed soon; with its optimiser state if it will move. */
static inline __attribute__((always_inline)) void wisp_param_fetch(const struct wisp_param *p,
                                                                   size_t row, bool moves)
{
    wisp_row_fetch(p->w, row, p->cols * sizeof *p->w);
    wisp_row_fetch(p->b16, row, p->cols * sizeof *p->b16);
    if (!moves) return;
    wisp_row_fetch(p->m, row, p->cols * sizeof *p->m);
    wisp_row_fetch(p->v, row, p->cols * sizeof *p->v);
    wisp_row_fetch(p->m16, row, p->cols * sizeof *p->m16);
    wisp_row_fetch(p->v16, row, p->cols * sizeof *p->v16);
    if (p->g2) __builtin_prefetch(p->g2 + row, 1);
    if (p->count) __builtin_prefetch(p->count + row, 1);
}

/* Work on samples is cut into tiles of this many rows, whatever the number of threads. */
enum { WISP_TILE = 16 };
static inline size_t wisp_tiles(size_t n)
{
    return wisp_parts(n, WISP_TILE);
}
static inline size_t wisp_tile_rows(size_t n, size_t tile)
{
    size_t left = n - tile * WISP_TILE;
    return left < WISP_TILE ? left : WISP_TILE;
}

#endif

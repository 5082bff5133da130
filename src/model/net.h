/* A network: a graph of layers, made from a text (graph/say.c).
 *
 *   "input 256, relu, dropout 0.3"   (the output layer is added)
 *   "sparse radix 1024, relu, sparse random 1024 32, relu"
 *   "input 256, relu, 3 x block (as x, dense 256, relu, dense 256, add x, relu)"
 *
 * plan computes all sizes and allocates only the lists of layers, values and parameters; the blocks
 * come later, one each: parameters with fixed connections (or a mapped file), optimiser state,
 * values between layers, scratch. */
#ifndef WISP_MODEL_NET_H
#define WISP_MODEL_NET_H

#include "data/data.h"
#include "graph/arena.h"
#include "layer/layer.h"
#include "layer/loss.h"

struct wisp_part { /* of the memory of a step */
    const char *what;
    int layer;
    size_t floats; /* of one */
    int parts;     /* one for each thread */
};

enum wisp_work_pass { WISP_WORK_FORWARD, WISP_WORK_BACK, WISP_WORK_AGAIN };

struct wisp_lots { /* the first layers, some samples of the batch at a time (lots.c) */
    int first;     /* so many layers; 0: none.  Others read value 'first' alone of what they give */
    size_t samples; /* of a lot */
    size_t at;      /* the first sample of the lot that is being done, */
    size_t all;     /* of so many on the way back; 0: the whole batch is */
    int sums;       /* part of what their parameters move by, so far, */
    size_t *sum;    /* (parameters) and places in it, in floats */
};

struct wisp_work { /* the memory of a step (work.c) */
    int n;
    struct wisp_item *items;   /* (n) when and where */
    struct wisp_part *parts;   /* (n) what */
    int *x, *g;                /* by value: their parts */
    int *scratch, *threads[3]; /* by layer; threads' by pass */
    int *front, *back;         /* by layer */
    int *again;                /* by layer: the moment at which it runs forward again, or -1 */
    int *again_x;              /* by value: its part from then on */
    int *again_front;          /* by layer */
    int *aside;                /* (layers, WISP_MAX_FROM) */
    size_t bytes, bound;       /* of the block; no block could be shorter than the bound */
    size_t whole;              /* bytes of the block if nothing were made again */
    int n_again;               /* layers that run again, */
    size_t again_bytes;        /* bytes of their values */
    double again_flops;        /* and what a sample costs there */
    double again_us;           /* about how long that takes */
    struct wisp_lots lots;
    size_t kept; /* bytes that stay from step to step */
    char *block, *kept_block;
};

struct wisp_counts { /* of zeros, of the values that have some (zeros.c) */
    int n, threads;
    struct wisp_zeros_of *of; /* (n) */
    size_t *each;             /* the arrays of all of them */
    uint64_t *live;
    float *shares;
};

struct wisp_net {
    size_t n_features, n_labels;
    int n_layers; /* the last one is the output layer */
    struct wisp_layer *layers;
    struct wisp_params list; /* the parameters of all layers */
    struct wisp_act *acts;   /* (n_layers) the batch, then what each layer but the last gives */
    struct wisp_layer_sizes sizes;
    float *params, *state;
    struct wisp_work work;
    int32_t *wires; /* ids of WISP_FIXED */
    struct wisp_counts counts;
};

/* A text of the net language; 'where' stands before messages: the option, or a file's name. */
wisp_status wisp_net_plan_text(struct wisp_net *net, const char *text, const char *where,
                               size_t n_features, size_t n_labels,
                               const struct wisp_layer_sizes *sizes, wisp_error *err);
wisp_status wisp_net_plan(struct wisp_net *net, const char *spec, size_t n_features,
                          size_t n_labels, const struct wisp_layer_sizes *sizes, wisp_error *err);
void wisp_net_clear(struct wisp_net *net);

size_t wisp_net_n_params(const struct wisp_net *net); /* weights and biases, of all ranks */
/* Multiplications and additions of a sample with a layer's weights (wisp_layer_kind.flops): forward,
 * or in a step of training, which has as many for the gradient of the weights, and for that of what
 * the layer reads, where anything learns below it. */
double wisp_net_layer_flops(const struct wisp_net *net, int layer, bool training);
double wisp_net_flops(const struct wisp_net *net, bool training); /* of all layers */
/* Sizes of the blocks in floats (64-byte aligned parts). */
size_t wisp_net_param_floats(const struct wisp_net *net);
size_t wisp_net_wire_ids(const struct wisp_net *net); /* int32: fixed connections */
size_t wisp_net_state_floats(const struct wisp_net *net, unsigned slots);

wisp_status wisp_net_alloc_params(struct wisp_net *net, wisp_error *err);
/* Weights of matrices and kernels, not biases and norms, lose this share in each update. */
void wisp_net_decay(struct wisp_net *net, float share);
wisp_status wisp_net_alloc_state(struct wisp_net *net, unsigned slots, wisp_error *err);

void wisp_net_init(struct wisp_net *net, uint64_t seed, struct wisp_pool *pool);
/* Is every one of them (floats, bf16) a number, neither infinite nor NaN? */
bool wisp_finite(const void *floats, size_t n);
bool wisp_finite16(const void *halves, size_t n);
/* Lets the parameters of 'to', which was planned alike, lie where those of 'from' do. */
void wisp_net_lend(struct wisp_net *to, const struct wisp_net *from);

/* The layer that reads images; NULL: there is none. */
const struct wisp_layer *wisp_net_image(const struct wisp_net *net);
/* What the rows are images of, where there is such a layer; else all 0. */
struct wisp_image wisp_net_images(const struct wisp_net *net);
/* Does it say that images of other sizes become these? */
bool wisp_net_resizes(const struct wisp_net *net);
/* The same as a shape of value 0; all 0: rows are no images. */
struct wisp_shape wisp_image_shape(struct wisp_image i);

/* For a device. */
static inline struct wisp_graph wisp_net_graph(const struct wisp_net *net)
{
    return (struct wisp_graph){ net->n_features, net->n_labels, net->n_layers, net->layers,
                                net->acts };
}

/* ---- zeros (graph/zeros.h) ---- */

/* From now on steps count the zeros of values that have some: acts[i].zeros. */
wisp_status wisp_net_count(struct wisp_net *net, int threads, wisp_error *err);
void wisp_net_counted(struct wisp_net *net); /* a step is over */
void wisp_counts_clear(struct wisp_counts *c);
/* {"1.relu":0.61,...}: shares of zeros by the layer's name, of values that were counted; out has
 * wisp_net_zeros_room bytes. */
size_t wisp_net_zeros_room(const struct wisp_net *net);
void wisp_net_zeros_text(char *out, const struct wisp_net *net);
/* The same as a line for a person, made in 'room', which is as long. */
void wisp_net_zeros_say(const struct wisp_context *ctx, const struct wisp_net *net, char *room);

/* ---- the memory of a step ---- */

/* Who needs what when, and where it will lie: net->work, all but its blocks.  Where net->sizes.memory
 * is too little, work.bytes is above it: the least that was found. */
wisp_status wisp_work_plan(struct wisp_net *net, int threads, wisp_error *err);
/* The blocks; plans first where that was not done. */
wisp_status wisp_work_alloc(struct wisp_net *net, int threads, wisp_error *err);
void wisp_work_clear(struct wisp_work *w);
/* Places the parts of a step with the lots that work.lots says, which has lists. */
wisp_status wisp_work_place(struct wisp_net *net, int threads, wisp_error *err);
/* The step comes to this moment: in tests borders are set and looked at. */
void wisp_work_turn(const struct wisp_net *net, int moment);
/* Where what a row of the parameter moves by adds up over lots. */
float *wisp_work_sum(const struct wisp_net *net, const struct wisp_param *p, size_t row);
/* The first moment of the lots' way back. */
static inline int wisp_work_lots_back(const struct wisp_net *net)
{
    return 2 * net->n_layers - 1 - net->work.lots.first;
}
/* The layer's scratch, and the place of its value, are now those of this pass. */
void wisp_work_pass(struct wisp_net *net, int layer, enum wisp_work_pass pass);
/* Does the layer's result lie where its input does, values and gradients? */
bool wisp_work_in_place(const struct wisp_net *net, int layer);
/* Chooses lots where a step does not fit net->sizes.memory without them (lots.c). */
wisp_status wisp_work_choose_lots(struct wisp_net *net, int threads, wisp_error *err);
/* Finds layers that are done together; of a net whose layers are all planned. */
void wisp_net_fuse(struct wisp_net *net);

/* Which results count in the loss, and for how much; their part of the gradient of what a layer
 * gives, which all readers have set (l1.c). */
void wisp_net_l1(struct wisp_net *net);
void wisp_net_l1_back(const struct wisp_net *net, int layer, const struct wisp_step *s);
/* Where a layer sets the gradient of an input that has others already; NULL: it is the first. */
float *wisp_work_aside(const struct wisp_net *net, int layer, int input);

static inline struct wisp_layer *wisp_net_output(const struct wisp_net *net)
{
    return &net->layers[net->n_layers - 1];
}

/* What the output layer reads. */
static inline struct wisp_act *wisp_net_last(const struct wisp_net *net)
{
    return &net->acts[wisp_net_output(net)->from[0]];
}

/* Forward through all layers below the output; wisp_net_last has the values then. */
wisp_status wisp_net_hidden(struct wisp_net *net, struct wisp_step *s, wisp_error *err);
/* One sample forward, and back again from the gradient 'g' of what the output layer reads (its units),
 * of a net that was planned with sizes.traces; s->update is handed the gradients of all trained rows.
 * *dot: the sum of g times these units. */
wisp_status wisp_net_trace(double *dot, struct wisp_net *net, struct wisp_step *s, const float *g,
                           wisp_error *err);
/* Forward, loss, backward, update.  s->loss_sum is the batch's loss. */
wisp_status wisp_net_step(struct wisp_net *net, struct wisp_step *s, wisp_error *err);

#endif

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

#include "layer/layer.h"
#include "layer/loss.h"

struct wisp_net {
    size_t n_features, n_labels;
    int n_layers; /* the last one is the output layer */
    struct wisp_layer *layers;
    struct wisp_params list; /* the parameters of all layers */
    struct wisp_act *acts;   /* (n_layers) the batch, then what each layer but the last gives */
    bool *set;               /* (n_layers) by value: a reader has set its gradient in this step */
    float *spare[WISP_MAX_FROM]; /* gradients of a value that has others already */
    struct wisp_layer_sizes sizes;
    float *params, *state, *work;
    int32_t *wires; /* ids of WISP_FIXED */
};

/* A text of the net language; 'where' stands before messages: the option, or a file's name. */
wisp_status wisp_net_plan_text(struct wisp_net *net, const char *text, const char *where,
                               size_t n_features, size_t n_labels,
                               const struct wisp_layer_sizes *sizes, wisp_error *err);
wisp_status wisp_net_plan(struct wisp_net *net, const char *spec, size_t n_features,
                          size_t n_labels, const struct wisp_layer_sizes *sizes, wisp_error *err);
void wisp_net_clear(struct wisp_net *net);

size_t wisp_net_n_params(const struct wisp_net *net); /* weights and biases */
/* Sizes of the blocks in floats (64-byte aligned parts). */
size_t wisp_net_param_floats(const struct wisp_net *net);
size_t wisp_net_wire_ids(const struct wisp_net *net); /* int32: fixed connections */
size_t wisp_net_state_floats(const struct wisp_net *net, unsigned slots);
size_t wisp_net_work_floats(const struct wisp_net *net, int threads);

wisp_status wisp_net_alloc_params(struct wisp_net *net, wisp_error *err);
wisp_status wisp_net_alloc_state(struct wisp_net *net, unsigned slots, wisp_error *err);
wisp_status wisp_net_alloc_work(struct wisp_net *net, int threads, wisp_error *err);

void wisp_net_init(struct wisp_net *net, uint64_t seed, struct wisp_pool *pool);
/* Is every one of them (floats, bf16) a number, neither infinite nor NaN? */
bool wisp_finite(const void *floats, size_t n);
bool wisp_finite16(const void *halves, size_t n);
/* Lets the parameters of 'to', which was planned alike, lie where those of 'from' do. */
void wisp_net_lend(struct wisp_net *to, const struct wisp_net *from);

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
wisp_status wisp_net_hidden(const struct wisp_net *net, struct wisp_step *s, wisp_error *err);
/* Forward, loss, backward, update.  s->loss_sum is the batch's loss. */
wisp_status wisp_net_step(struct wisp_net *net, struct wisp_step *s, wisp_error *err);

#endif

/* Scoring on a card: exact prediction by cuda/cuda.h, the same answers as layer/topk.c's up to
 * rounding.
 *
 * Rows are laid out by the CPU (batch.c), a batch at a time, and sent; labels and logits come back,
 * and with a softmax its maximum and sum over all labels, which make probabilities of logits. */
#include "base/mem.h"
#include "cuda/cuda.h"
#include "model/gpu.h"

#include <stdio.h>

enum { MOST_K = 64, MOST_WIDTH = 4096, MOST_LAST = 1024, MOST_FAN = 1024 };

/* ---- what a card can do ---- */

/* Layer kinds that a card has, by what cuda.h calls them. */
static const struct {
    const struct wisp_layer_kind *kind;
    enum wisp_cuda_kind name;
} kinds[] = { { &wisp_layer_input, WISP_CUDA_KIND_INPUT },
              { &wisp_layer_dense, WISP_CUDA_KIND_DENSE },
              { &wisp_layer_sparse, WISP_CUDA_KIND_SPARSE },
              { &wisp_layer_relu, WISP_CUDA_KIND_RELU },
              { &wisp_layer_dropout, WISP_CUDA_KIND_DROPOUT } };
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static size_t find_kind(const struct wisp_layer_kind *kind)
{
    size_t i = 0;
    while (i < N_KINDS && kinds[i].kind != kind) i++;
    return i;
}

wisp_status wisp_gpu_check_net(const struct wisp_net *net, wisp_error *err)
{
    int last = net->n_layers - 1;
    if (last > WISP_CUDA_LAYERS) return wisp_not_on_card(err, "a net of more than 255 layers");
    for (int i = 0; i < last; i++) {
        const struct wisp_layer *l = &net->layers[i];
        char what[64];
        snprintf(what, sizeof what, "a layer '%s'", l->kind->name);
        if (find_kind(l->kind) == N_KINDS) return wisp_not_on_card(err, what);
        if (l->n_params && l->params[0].ragged)
            return wisp_not_on_card(
                err, "a layer 'sparse' whose outputs differ in their number of inputs");
        if (wisp_layer_wires(l).fan > MOST_FAN)
            return wisp_not_on_card(err,
                                    "a layer 'sparse' with more than 1024 inputs of an output");
        if (l->n_from != 1 || l->from[0] != i || net->layers[last].from[0] != last)
            return wisp_not_on_card(err, "a net with branches");
        if (l->n_out % 4 || l->n_out > MOST_WIDTH)
            return wisp_not_on_card(err,
                                    "a hidden width that is no multiple of 4, or more than 4096,");
    }
    if (net->layers[last - 1].n_out > MOST_LAST)
        return wisp_not_on_card(err, "a last hidden width of more than 1024");
    return WISP_OK;
}

static wisp_status check_weights(const struct wisp_net *net, wisp_error *err)
{
    for (size_t i = 0; i < net->list.n; i++)
        if (net->list.p[i].i8) return wisp_not_on_card(err, "a model with weights of int8");
    return WISP_OK;
}

wisp_status wisp_card_check(const struct wisp_model *m, wisp_error *err)
{
    const struct wisp_cuda *api;
    wisp_status st = wisp_gpu_check_net(&m->net, err);
    if (st == WISP_OK) st = check_weights(&m->net, err);
    return st == WISP_OK ? wisp_cuda_open(&api, err) : st;
}

/* ---- the scorer ---- */

static struct wisp_cuda_param param(const struct wisp_param *p)
{
    return (struct wisp_cuda_param){ p->rows, p->cols, p->w, p->b16, p->m, p->v, p->g2, p->count };
}

wisp_status wisp_gpu_net(struct wisp_cuda_net *out, struct wisp_cuda_hidden **layers,
                         const struct wisp_net *net, wisp_error *err)
{
    const struct wisp_layer *o = wisp_net_output(net);
    size_t n = (size_t)net->n_layers - 1;
    *out = (struct wisp_cuda_net){ .n_features = net->n_features,
                                   .n_labels = net->n_labels,
                                   .width = o->n_in,
                                   .n_layers = n,
                                   .out_w = param(&o->params[0]),
                                   .out_bias = param(&o->params[1]) };
    out->layers = *layers = wisp_zalloc(n, sizeof **layers);
    if (!*layers) return wisp_fail_mem(err, n * sizeof **layers, "the card's layers");
    for (size_t i = 0; i < n; i++) {
        const struct wisp_layer *l = &net->layers[i];
        const struct wisp_wires wires = wisp_layer_wires(l);
        struct wisp_cuda_hidden *h = &(*layers)[i];
        *h = (struct wisp_cuda_hidden){ .kind = kinds[find_kind(l->kind)].name,
                                        .number = l->number,
                                        .n_in = l->n_in,
                                        .n_out = l->n_out,
                                        .fan = wires.fan,
                                        .in = wires.in };
        if (l->kind == &wisp_layer_dropout) h->share = l->arg[0];
        if (l->n_params) h->w = param(&l->params[0]), h->bias = param(&l->params[1]);
    }
    return WISP_OK;
}

wisp_status wisp_scorer_use_card(struct wisp_scorer *s, struct wisp_cuda_trainer *t, bool ranks,
                                 wisp_error *err)
{
    struct wisp_cuda_net net;
    struct wisp_cuda_hidden *layers = NULL;
    if (s->shortlist.votes) return wisp_not_on_card(err, "sparse prediction");
    if (s->k > MOST_K) return wisp_not_on_card(err, "prediction of more than 64 labels a row");
    wisp_status st = wisp_card_check(s->m, err);
    if (st == WISP_OK) st = wisp_cuda_open(&s->cuda, err);
    if (st == WISP_OK) st = wisp_gpu_net(&net, &layers, &s->net, err);
    if (st == WISP_OK)
        st = s->cuda->create_scorer(&s->card, t ? NULL : &net, t, WISP_SCORE_BATCH, s->k, err);
    wisp_free(layers);
    s->ranks = ranks;
    return st;
}

wisp_status wisp_scorer_run_card(struct wisp_scorer *s, wisp_error *err)
{
    const struct wisp_batch *b = &s->layout.batch;
    const struct wisp_loss *loss = s->m->loss;
    float max[WISP_SCORE_BATCH];
    double sum[WISP_SCORE_BATCH];
    const struct wisp_cuda_block rows = { .n = b->n, .xp = b->xp, .xi = b->xi, .xv = b->xv };
    struct wisp_cuda_best best = { .labels = s->labels, .logits = s->scores };
    bool sums = !s->ranks && loss->needs_sum;
    if (sums) best.max = max, best.sum = sum;
    wisp_status st = s->cuda->score(s->card, &best, &rows, err);
    if (st != WISP_OK) return st;
    s->n_scored += b->n * s->net.n_labels;
    for (size_t at = 0; at < b->n * s->k && !s->ranks; at++) {
        size_t i = at / s->k;
        s->scores[at] = s->labels[at] < 0 ? 0
                                          : loss->probability(s->scores[at], sums ? max[i] : 0,
                                                              sums ? sum[i] : 1);
    }
    return WISP_OK;
}

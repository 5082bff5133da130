/* Scoring on a card: exact prediction by cuda/cuda.h, the same answers as layer/topk.c's up to
 * rounding.
 *
 * Rows are laid out by the CPU (batch.c), a batch at a time, and sent; labels and logits come back,
 * and with a softmax its maximum and sum over all labels, which make probabilities of logits. */
#include "cuda/cuda.h"
#include "model/gpu.h"

enum { MOST_K = 64, MOST_WIDTH = 1024 };

wisp_status wisp_not_on_card(wisp_error *err, const char *what)
{
    return wisp_fail(err, WISP_ENOTSUP,
                     "--device cuda: %s is not there on the card; take --device cpu", what);
}

/* ---- what a card can do ---- */

wisp_status wisp_gpu_check_net(const struct wisp_net *net, wisp_error *err)
{
    int i = 1, last = net->n_layers - 1;
    if (i < last && net->layers[i].kind == &wisp_layer_relu) i++;
    if (i < last && net->layers[i].kind == &wisp_layer_dropout) i++;
    if (net->layers[0].kind != &wisp_layer_input || i != last)
        return wisp_not_on_card(err, "a net other than 'input N, relu, dropout P'");
    if (net->layers[0].n_out % 4 || net->layers[0].n_out > MOST_WIDTH)
        return wisp_not_on_card(err, "a hidden width that is no multiple of 4, or more than 1024,");
    return WISP_OK;
}

static wisp_status check_weights(const struct wisp_net *net, wisp_error *err)
{
    for (int i = 0; i < net->n_layers; i++)
        for (int p = 0; p < net->layers[i].n_params; p++)
            if (net->layers[i].params[p].i8)
                return wisp_not_on_card(err, "a model with weights of int8");
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

struct wisp_cuda_net wisp_gpu_net(const struct wisp_net *net)
{
    const struct wisp_layer *in = &net->layers[0], *out = wisp_net_output(net);
    struct wisp_cuda_net n = { .n_features = net->n_features,
                               .n_labels = net->n_labels,
                               .width = in->n_out,
                               .in_w = param(&in->params[0]),
                               .in_bias = param(&in->params[1]),
                               .out_w = param(&out->params[0]),
                               .out_bias = param(&out->params[1]) };
    for (int i = 1; i < net->n_layers - 1; i++) n.relu |= net->layers[i].kind == &wisp_layer_relu;
    return n;
}

wisp_status wisp_scorer_use_card(struct wisp_scorer *s, struct wisp_cuda_trainer *t, bool ranks,
                                 wisp_error *err)
{
    struct wisp_cuda_net net = wisp_gpu_net(&s->net);
    if (s->sparse.votes) return wisp_not_on_card(err, "sparse prediction");
    if (s->k > MOST_K) return wisp_not_on_card(err, "prediction of more than 64 labels a row");
    wisp_status st = wisp_card_check(s->m, err);
    if (st == WISP_OK) st = wisp_cuda_open(&s->cuda, err);
    if (st == WISP_OK)
        st = s->cuda->create_scorer(&s->card, t ? NULL : &net, t, WISP_SCORE_BATCH, s->k, err);
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

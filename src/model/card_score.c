/* Scoring on a card: exact prediction by cuda/cuda.h, the same answers as layer/topk.c's up to
 * rounding.
 *
 * Rows are laid out by the CPU (batch.c), a batch at a time, and sent, images as bytes; labels and logits come back,
 * and with a softmax its maximum and sum over all labels, which make probabilities of logits. */
#include "base/bounds.h"
#include "cuda/cuda.h"
#include "model/kind.h"
#include "model/card.h"

#define MOST_K 64

/* ---- what a card can do ---- */

static wisp_status check_weights(const struct wisp_net *net, wisp_error *err)
{
    for (size_t i = 0; i < net->list.n; i++)
        if (net->list.p[i].codes)
            return wisp_not_on_card(err, "a model with weights of 16 or 64 values");
        else if (net->list.p[i].i8) return wisp_not_on_card(err, "a model with weights of int8");
    return WISP_OK;
}

wisp_status wisp_card_check_model(const struct wisp_model *m, wisp_error *err)
{
    const struct wisp_cuda *api;
    const struct wisp_graph g = wisp_net_graph(&m->net);
    if (m->comm && m->comm->size > 1)
        return wisp_fail(err, WISP_ENOTSUP,
                         "--device cuda: not with several ranks, which have a share of the rows "
                         "each; take one process, or leave the option out");
    wisp_status st = wisp_model_need_net(m, "--device cuda", err);
    if (st == WISP_OK) st = check_weights(&m->net, err);
    if (st == WISP_OK) st = wisp_cuda_open(&api, err);
    return st == WISP_OK ? api->check(&g, NULL, err) : st;
}

/* ---- the scorer ---- */

wisp_status wisp_scorer_use_card(struct wisp_scorer *s, struct wisp_cuda_trainer *t, bool ranks,
                                 wisp_error *err)
{
    const struct wisp_graph g = wisp_net_graph(&s->net);
    if (s->shortlist.votes) return wisp_not_on_card(err, "sparse prediction");
    if (s->net.sizes.zeros == WISP_ZEROS_FORCE)
        return wisp_not_on_card(err, "prediction with --zeros force");
    if (s->k > MOST_K)
        return wisp_not_on_card(err,
                                "prediction of more than " WISP_TEXT(MOST_K) " labels per row");
    wisp_status st = wisp_card_check_model(s->m, err);
    if (st == WISP_OK) st = wisp_cuda_open(&s->cuda, err);
    if (st == WISP_OK)
        st = s->cuda->create_scorer(&s->card, t ? NULL : &g, t, WISP_SCORE_BATCH, s->k, err);
    if (st == WISP_OK) s->batch = WISP_SCORE_BATCH; /* the host holds what is sent alone */
    s->ranks = ranks;
    s->layout.as_bytes = st == WISP_OK;
    return st;
}

wisp_status wisp_scorer_run_card(struct wisp_scorer *s, wisp_error *err)
{
    const struct wisp_batch *b = &s->layout.batch;
    const struct wisp_loss *loss = s->m->loss;
    float max[WISP_SCORE_BATCH];
    double sum[WISP_SCORE_BATCH];
    const struct wisp_cuda_block rows = { .n = b->n,
                                          .xp = b->xp,
                                          .xi = b->xi,
                                          .xv = b->xv,
                                          .planes = b->planes,
                                          .bytes = b->px,
                                          .table = s->layout.table };
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

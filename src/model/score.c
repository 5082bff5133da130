/* Scoring: batches of rows laid out, and the k best labels of each, by what the model is (kind.h). */
#include "base/bounds.h"
#include "base/mem.h"
#include "cuda/cuda.h"
#include "model/kind.h"
#include "model/metrics.h"

#include <math.h>

enum { FEATURES = 1 << 16, LABELS = 1 << 14 }; /* of a batch, before laying it out allocates */

/* Where rows are laid out, for whatever the model's kind reads of them. */
static wisp_status lay_out(struct wisp_scorer *s, wisp_error *err)
{
    const struct wisp_model *m = s->m;
    const size_t columns = m->values.mode == WISP_VALUES_STANDARD ? m->net.n_features : 0,
                 features = wisp_most(columns * s->batch, FEATURES);
    wisp_status st = wisp_layout_init(&s->layout, m->net.n_features, m->net.n_labels, false, err);
    const struct wisp_model_kind *kind = wisp_kind_of(m);
    const struct wisp_net *net = kind->reads ? kind->reads(s) : &s->net;
    if (st == WISP_OK && net && net->n_layers) st = wisp_layout_for(&s->layout, net, false, err);
    if (st == WISP_OK) st = wisp_layout_reserve(&s->layout, s->batch, features, LABELS, err);
    s->layout.pool = s->ctx->pool;
    return st;
}

wisp_status wisp_scorer_init_member(struct wisp_scorer *s, const struct wisp_model *m,
                                    struct wisp_context *ctx, enum wisp_zeros zeros, size_t k,
                                    wisp_error *err)
{
    *s = (struct wisp_scorer){ .m = m,
                               .kind = wisp_kind_of(m),
                               .ctx = ctx,
                               .batch = wisp_kind_of(m)->batch(m),
                               .k = k < m->net.n_labels ? k : m->net.n_labels };
    s->labels = wisp_alloc(WISP_SCORE_BATCH * s->k, sizeof *s->labels);
    s->scores = wisp_alloc(WISP_SCORE_BATCH * s->k, sizeof *s->scores);
    wisp_status st = s->labels && s->scores
                         ? wisp_kind_of(m)->ready(s, zeros, err)
                         : wisp_fail_mem(err, WISP_SCORE_BATCH * s->k * 8, "scoring");
    if (st != WISP_OK) wisp_scorer_clear(s);
    return st;
}

wisp_status wisp_scorer_init(struct wisp_scorer *s, const struct wisp_model *m,
                             struct wisp_context *ctx, enum wisp_zeros zeros, size_t k,
                             wisp_error *err)
{
    wisp_status st = wisp_scorer_init_member(s, m, ctx, zeros, k, err);
    if (st == WISP_OK && (st = lay_out(s, err)) != WISP_OK) wisp_scorer_clear(s);
    return st;
}

wisp_status wisp_no_index(const struct wisp_model *m, wisp_error *err)
{
    return wisp_fail(err, WISP_ENOTSUP,
                     "--inference sparse: the model has no index; train it with %s",
                     wisp_kind_of(m)->index);
}

wisp_status wisp_scorer_use_some(struct wisp_scorer *s, wisp_error *err)
{
    if (wisp_model_guide(s->m) == WISP_GUIDE_NONE) return wisp_no_index(s->m, err);
    if (s->m->comm)
        return wisp_fail(err, WISP_ENOTSUP,
                         "--inference sparse: not with several ranks; leave it out, or start one");
    s->layout.no_lists = false; /* features vote */
    return wisp_kind_of(s->m)->use_some(s, NULL, err);
}

void wisp_scorer_use_all(struct wisp_scorer *s)
{
    wisp_kind_of(s->m)->use_all(s);
}

void wisp_scorer_clear(struct wisp_scorer *s)
{
    if (s->card) s->cuda->free_scorer(s->card);
    if (s->kind) s->kind->done(s);
    wisp_layout_clear(&s->layout);
    wisp_free(s->labels);
    wisp_free(s->scores);
    *s = (struct wisp_scorer){ 0 };
}

/* Finite rows and weights can still give logits that are not: sums overflow.  Every row has k
 * answers, and all of them are numbers, or nobody sees them. */
static wisp_status check_scores(const struct wisp_scorer *s, wisp_error *err)
{
    const struct wisp_batch *b = &s->layout.batch;
    const struct wisp_data *d = s->layout.d;
    for (size_t at = 0; at < b->n * s->k; at++)
        if (s->labels[at] < 0 || !isfinite(s->scores[at]))
            return wisp_fail_row(err, WISP_ENUMERIC, d->rows_before + b->id[at / s->k],
                                 wisp_row_base(d),
                                 "its scores are not numbers: sums of its values times the "
                                 "model's weights overflow; expected values as those trained on");
    return WISP_OK;
}

static wisp_status score_rows(struct wisp_scorer *s, const struct wisp_data *d, const size_t *rows,
                              size_t n, wisp_error *err)
{
    struct wisp_drop none = { 0 };
    wisp_status st = wisp_layout_fill(&s->layout, d, rows, n, &s->m->values, &none, err);
    if (st != WISP_OK) return st;
    st =
        s->card ? wisp_scorer_run_card(s, err) : wisp_kind_of(s->m)->best(s, &s->layout.batch, err);
    return st == WISP_OK ? check_scores(s, err) : st;
}

/* A mapped model that was changed since it was verified gives no answer. */
wisp_status wisp_scorer_run(struct wisp_scorer *s, const struct wisp_data *d, const size_t *rows,
                            size_t n, wisp_error *err)
{
    wisp_status st = wisp_map_check(&s->m->file.map, err);
    return st == WISP_OK ? wisp_map_blame(&s->m->file.map, score_rows(s, d, rows, n, err), err)
                         : st;
}

wisp_status wisp_score_all(struct wisp_metrics *out, struct wisp_scorer *s,
                           const struct wisp_data *d, bool (*stop)(void *arg), void *arg,
                           wisp_error *err)
{
    bool ranks = s->ranks;
    for (size_t first = 0, block = 0; first < d->n_rows; first += s->batch) {
        size_t ids[WISP_SCORE_BATCH],
            m = d->n_rows - first < s->batch ? d->n_rows - first : s->batch;
        for (size_t i = 0; i < m; i++) ids[i] = first + i;
        for (; d->first[block + 1] <= first; block++)
            wisp_data_forget(d, block); /* rows pass through once */
        if (stop && stop(arg)) return wisp_fail(err, WISP_ESTOPPED, "stopped");
        bool look = s->look && first / WISP_SCORE_BATCH % s->look_every == 0;
        s->ranks = ranks && !look;
        wisp_status st = wisp_scorer_run(s, d, ids, m, err);
        s->ranks = ranks;
        if (st != WISP_OK) return st;
        if (look) s->look(s->look_arg, s);
        const struct wisp_batch *b = &s->layout.batch;
        for (size_t i = 0; i < m; i++)
            wisp_metrics_add(out, s->labels + i * s->k, s->k, b->yi + b->yp[i],
                             b->yp[i + 1] - b->yp[i]);
    }
    return WISP_OK;
}

/* Scoring: batches of rows through the hidden layers, then the k best labels of each. */
#include "base/mem.h"
#include "cuda/cuda.h"
#include "layer/output.h"
#include "model/known.h"
#include "model/metrics.h"
#include "model/model.h"

#include <math.h>

enum { FEATURES = 1 << 16, LABELS = 1 << 14 }; /* of a batch, before laying it out allocates */

/* What images may take: at 224 pixels 256 of them would take gigabytes in every value. */
static const double MOST_BYTES = 64 << 20;

size_t wisp_score_batch(const struct wisp_net *net)
{
    size_t most = 0, batch = WISP_SCORE_BATCH;
    if (!wisp_net_image(net)) return batch;
    for (int i = 0; i < net->n_layers; i++) {
        size_t floats = net->layers[i].kind->head ? 0 : net->acts[i + 1].floats;
        for (int k = 0; k < net->layers[i].n_from; k++)
            floats += net->acts[net->layers[i].from[k]].floats;
        most = wisp_most(most, floats);
    }
    while (batch > 8 && 4.0 * (double)batch * (double)most > MOST_BYTES) batch /= 2;
    return batch;
}

wisp_status wisp_scorer_init(struct wisp_scorer *s, const struct wisp_model *m,
                             struct wisp_context *ctx, enum wisp_zeros zeros, size_t k,
                             wisp_error *err)
{
    *s = (struct wisp_scorer){ .m = m,
                               .ctx = ctx,
                               .batch = wisp_score_batch(&m->net),
                               .k = k < m->net.n_labels ? k : m->net.n_labels };
    const struct wisp_net_known like = wisp_net_known(&m->net);
    struct wisp_layer_sizes sizes = { .batch = s->batch,
                                      .still = !m->net.params, /* they lie in a mapped file */
                                      .zeros = zeros,
                                      .known = &like.known,
                                      .ctx = ctx,
                                      .image = wisp_image_shape(wisp_net_images(&m->net)) };
    wisp_status st =
        wisp_net_plan(&s->net, m->spec, m->net.n_features, m->net.n_labels, &sizes, err);
    if (st != WISP_OK) return st;
    wisp_net_lend(&s->net, &m->net);
    const struct wisp_layer *out = wisp_net_output(&s->net);
    int threads = wisp_pool_threads(ctx->pool);
    size_t columns = m->values.mode == WISP_VALUES_STANDARD ? m->net.n_features : 0;
    size_t features = columns * s->batch > FEATURES ? columns * s->batch : FEATURES;
    size_t shared = wisp_output_topk_floats(out, s->batch, s->k);
    size_t each = wisp_output_topk_thread_floats(out, s->batch, s->k);
    if ((st = wisp_work_alloc(&s->net, threads, err)) != WISP_OK ||
        (st = wisp_layout_init(&s->layout, m->net.n_features, m->net.n_labels, false, err)) !=
            WISP_OK ||
        (st = wisp_layout_for(&s->layout, &s->net, false, err)) != WISP_OK ||
        (st = wisp_layout_reserve(&s->layout, s->batch, features, LABELS, err)) != WISP_OK)
        goto done;
    s->layout.pool = ctx->pool;
    s->scratch = wisp_alloc(shared, sizeof(float));
    s->thread_scratch = wisp_alloc(each * (size_t)threads, sizeof(float));
    s->labels = wisp_alloc(WISP_SCORE_BATCH * s->k, sizeof *s->labels);
    s->scores = wisp_alloc(WISP_SCORE_BATCH * s->k, sizeof *s->scores);
    if (!s->scratch || !s->thread_scratch || !s->labels || !s->scores)
        st = wisp_fail_mem(err, (shared + each) * sizeof(float), "scoring");
done:
    if (st != WISP_OK) wisp_scorer_clear(s);
    return st;
}

wisp_status wisp_no_index(wisp_error *err)
{
    return wisp_fail(err, WISP_ENOTSUP,
                     "--inference sparse: the model has no index; train it with --index yes");
}

wisp_status wisp_scorer_use_votes(struct wisp_scorer *s, wisp_error *err)
{
    const struct wisp_model *m = s->m;
    if (!m->votes.start) return wisp_no_index(err);
    s->layout.no_lists = false; /* features vote */
    return wisp_shortlist_init(&s->shortlist, &m->votes, s->ctx, m->label_rows, m->net.n_labels,
                               s->batch, s->k, err);
}

void wisp_scorer_clear(struct wisp_scorer *s)
{
    if (s->card) s->cuda->free_scorer(s->card);
    wisp_shortlist_clear(&s->shortlist);
    wisp_net_clear(&s->net);
    wisp_layout_clear(&s->layout);
    wisp_free(s->scratch);
    wisp_free(s->thread_scratch);
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

static wisp_status run_cpu(struct wisp_scorer *s, wisp_error *err)
{
    struct wisp_step step = {
        .ctx = s->ctx, .batch = &s->layout.batch, .alone = s->alone, .peek = s->peek
    };
    wisp_status st = wisp_net_hidden(&s->net, &step, err);
    if (st != WISP_OK) return st;
    const float *h = wisp_net_last(&s->net)->x;
    if (s->shortlist.votes) {
        s->n_scored += wisp_shortlist_topk(&s->shortlist, wisp_net_output(&s->net), s->m->loss,
                                           step.batch, h, s->k, s->labels, s->scores);
        return WISP_OK;
    }
    size_t n = step.batch->n;
    wisp_output_topk(wisp_net_output(&s->net), s->ctx, s->m->loss, h, n, s->alone, s->k, s->labels,
                     s->scores, s->scratch, s->thread_scratch);
    s->n_scored += n * s->net.n_labels;
    return WISP_OK;
}

static wisp_status score_rows(struct wisp_scorer *s, const struct wisp_data *d, const size_t *rows,
                              size_t n, wisp_error *err)
{
    struct wisp_drop none = { 0 };
    wisp_status st = wisp_layout_fill(&s->layout, d, rows, n, &s->m->values, &none, err);
    if (st != WISP_OK) return st;
    st = s->card ? wisp_scorer_run_card(s, err) : run_cpu(s, err);
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

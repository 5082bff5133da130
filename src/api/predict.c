/* Prediction: a predictor holds all that a call needs, so that calls only compute. */
#include "api/predictor.h"
#include "base/mem.h"
#include "config/options.h"
#include "model/kind.h"
#include "model/plan.h"

#include <string.h>

struct wisp_prediction wisp_prediction_of(const wisp_config *cfg)
{
    return (struct wisp_prediction){
        .sparse = wisp_opt_is(cfg, OPT_INFERENCE, "sparse"),
        .raw = wisp_opt_is(cfg, OPT_SCORES, "raw"),
        .cuda = wisp_opt_is(cfg, OPT_DEVICE, "cuda"),
        .zeros = wisp_plan_zeros(cfg),
    };
}

wisp_status wisp_prediction_check(struct wisp_prediction how, const wisp_model *m, wisp_error *err)
{
    if (how.sparse && wisp_model_guide(m) == WISP_GUIDE_NONE) return wisp_no_index(m, err);
    if (how.sparse && how.cuda) return wisp_not_on_card(err, "sparse prediction");
    return how.cuda ? wisp_card_check_model(m, err) : WISP_OK;
}

wisp_status wisp_predictor_make(wisp_predictor **out, wisp_context *ctx, const wisp_model *m,
                                struct wisp_prediction how, size_t k, wisp_error *err)
{
    *out = NULL;
    if (k == 0) return wisp_fail(err, WISP_EINVAL, "k must be 1 or more");
    wisp_status st = wisp_prediction_check(how, m, err);
    if (st != WISP_OK) return st;
    wisp_predictor *p = wisp_zalloc(1, sizeof *p);
    if (!p) return wisp_fail_mem(err, sizeof *p, "a predictor");
    p->k = k;
    p->map = how.raw ? NULL : wisp_model_calibration(m, how.sparse);
    st = wisp_scorer_init(&p->scorer, m, ctx, how.zeros, k, err);
    if (st == WISP_OK && how.sparse) st = wisp_scorer_use_some(&p->scorer, err);
    if (st == WISP_OK && how.cuda) st = wisp_scorer_use_card(&p->scorer, NULL, false, err);
    if (st == WISP_OK) *out = p;
    else wisp_predictor_free(p);
    return st;
}

wisp_status wisp_predictor_create(wisp_predictor **out, wisp_context *ctx, const wisp_model *m,
                                  const wisp_config *cfg, size_t k, wisp_error *err)
{
    return wisp_predictor_make(out, ctx, m, wisp_prediction_of(cfg), k, err);
}

wisp_status wisp_predictor_check(const wisp_model *m, const wisp_config *cfg, wisp_error *err)
{
    return wisp_prediction_check(wisp_prediction_of(cfg), m, err);
}

int wisp_predictor_calibrated(const wisp_predictor *p)
{
    return p->map != NULL;
}

void wisp_predictor_free(wisp_predictor *p)
{
    if (!p) return;
    if (p->explainer) wisp_explainer_clear(p->explainer);
    wisp_free(p->explainer);
    wisp_scorer_clear(&p->scorer);
    wisp_free(p);
}

/* The scorer's answers for n rows, k places each. */
static void hand_out(int32_t *labels, float *scores, const wisp_predictor *p, size_t n)
{
    const struct wisp_scorer *s = &p->scorer;
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < p->k; c++) {
            int32_t label = c < s->k ? s->labels[i * s->k + c] : -1;
            float score = label >= 0 ? s->scores[i * s->k + c] : 0;
            if (p->map && label >= 0) score = wisp_calibrated(p->map, score, s->scores[i * s->k]);
            labels[i * p->k + c] = label;
            scores[i * p->k + c] = score;
        }
}

/* A batch of rows. */
static wisp_status run_batch(int32_t *labels, float *scores, wisp_predictor *p, const wisp_data *d,
                             size_t first, size_t n, wisp_error *err)
{
    size_t rows[WISP_SCORE_BATCH];
    rows[0] = first; /* there is one */
    for (size_t i = 1; i < n; i++) rows[i] = first + i;
    wisp_status st = wisp_scorer_run(&p->scorer, d, rows, n, err);
    if (st == WISP_OK) hand_out(labels, scores, p, n);
    return st;
}

static size_t batch_rows(const wisp_predictor *p, size_t left)
{
    return left < p->scorer.batch ? left : p->scorer.batch;
}

wisp_status wisp_predictor_run(int32_t *labels, float *scores, wisp_predictor *p,
                               const wisp_data *d, size_t first, size_t n, wisp_error *err)
{
    if (first > d->n_rows || n > d->n_rows - first)
        return wisp_fail(err, WISP_EINVAL, "rows %zu..%zu asked for, the data has %zu", first,
                         first + n, d->n_rows);
    wisp_status st = WISP_OK;
    p->scorer.alone = n == 1;
    for (size_t at = 0; st == WISP_OK && at < n; at += p->scorer.batch)
        st = run_batch(labels + at * p->k, scores + at * p->k, p, d, first + at,
                       batch_rows(p, n - at), err);
    return st;
}

wisp_status wisp_predictor_run_csr(int32_t *labels, float *scores, wisp_predictor *p, size_t n_rows,
                                   size_t n_features, const void *x_ptr, const void *x_idx,
                                   const void *x_val, unsigned types, wisp_error *err)
{
    struct wisp_view v;
    wisp_status st = WISP_OK;
    _Static_assert((int)WISP_SCORE_BATCH <= (int)WISP_VIEW_ROWS, "a batch is a view");
    p->scorer.alone = n_rows == 1;
    for (size_t at = 0, n; st == WISP_OK && at < n_rows; at += n) {
        n = batch_rows(p, n_rows - at);
        st = wisp_view_init(&v, at, n, n_features, x_ptr, x_idx, x_val, types, err);
        if (st == WISP_OK)
            st = run_batch(labels + at * p->k, scores + at * p->k, p, &v.d, 0, n, err);
    }
    return st;
}

wisp_status wisp_predict(int32_t *labels, float *scores, wisp_context *ctx, const wisp_model *m,
                         const wisp_data *d, size_t first, size_t n, size_t k, wisp_error *err)
{
    wisp_predictor *p;
    wisp_status st = wisp_predictor_create(&p, ctx, m, NULL, k, err);
    if (st == WISP_OK) st = wisp_predictor_run(labels, scores, p, d, first, n, err);
    wisp_predictor_free(p);
    return st;
}

/* wisp_explain: the parts of a label's score, beside the score that the predictor gives it. */
#include "api/predictor.h"
#include "base/mem.h"
#include "model/kind.h"

/* Room, and what a row is, with the first explanation. */
static wisp_status make_explainer(wisp_predictor *p, wisp_error *err)
{
    const struct wisp_scorer *s = &p->scorer;
    if (p->explainer) return WISP_OK;
    if (s->card) return wisp_not_on_card(err, "explaining");
    struct wisp_explainer *e = wisp_alloc(1, sizeof *e);
    if (!e) return wisp_fail_mem(err, sizeof *e, "explaining");
    wisp_status st = wisp_explainer_init(e, s->m, s->ctx, err);
    if (st == WISP_OK) p->explainer = e;
    else wisp_free(e);
    return st;
}

/* Of any label, after the best ones were found. */
static float score_of(wisp_predictor *p, int32_t label)
{
    struct wisp_scorer *s = &p->scorer;
    float score = s->scores[0];
    if (label != s->labels[0])
        wisp_kind_of(s->m)->score(&score, s, &s->layout.batch, 0, &label, 1, 0);
    return p->map ? wisp_calibrated(p->map, score, s->scores[0]) : score;
}

wisp_status wisp_explain(const wisp_explanation **out, wisp_predictor *p, const wisp_data *d,
                         size_t row, int32_t label, wisp_error *err)
{
    struct wisp_scorer *s = &p->scorer;
    const size_t n_labels = wisp_model_n_labels(s->m);
    *out = NULL;
    if (label < -1 || (label >= 0 && (size_t)label >= n_labels))
        return wisp_fail(err, WISP_EINVAL, "label %d asked for, the model has %zu", label,
                         n_labels);
    if (row >= d->n_rows)
        return wisp_fail(err, WISP_EINVAL, "row %zu asked for, the data has %zu", row, d->n_rows);
    wisp_status st = make_explainer(p, err);
    s->alone = true;
    if (st == WISP_OK) st = wisp_scorer_run(s, d, &row, 1, err);
    if (st == WISP_OK) st = wisp_explainer_row(p->explainer, d, row, err);
    if (label < 0) label = st == WISP_OK ? s->labels[0] : 0;
    if (st == WISP_OK) st = wisp_explainer_label(p->explainer, label, err);
    if (st != WISP_OK) return st;
    const struct wisp_explainer *e = p->explainer;
    p->explanation = (wisp_explanation){ .label = label,
                                         .score = score_of(p, label),
                                         .logit = e->account.logit,
                                         .bias = e->account.bias,
                                         .remainder = e->remainder,
                                         .n = e->n,
                                         .reasons = e->reasons,
                                         .channels = e->image.channels,
                                         .height = e->image.height,
                                         .width = e->image.width };
    *out = &p->explanation;
    return WISP_OK;
}

int64_t wisp_model_feature_id(const wisp_model *m, int32_t feature)
{
    return (int64_t)feature + m->index_base;
}

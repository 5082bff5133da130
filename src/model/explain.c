/* Explaining, whatever the model is: rows laid out, and the account of a label as a list. */
#include "model/explain.h"
#include "base/mem.h"
#include "model/kind.h"

#include <math.h>
#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    const wisp_reason *x = a, *y = b;
    const double m = fabs(x->part), n = fabs(y->part);
    if (m != n) return m > n ? -1 : 1;
    return x->feature < y->feature ? -1 : x->feature > y->feature;
}

/* Features of the row that is laid out, or pixels. */
static size_t n_reasons(const struct wisp_explainer *e)
{
    return e->image.channels ? e->m->net.n_features : e->layout.batch.xp[1];
}

static int32_t feature_of(const struct wisp_explainer *e, size_t reason)
{
    return e->image.channels ? (int32_t)reason : e->layout.batch.xi[reason];
}

/* Whatever the last explanation left, of another row or where it failed. */
static void clear_account(struct wisp_explainer *e)
{
    e->account.logit = e->account.bias = 0;
    for (size_t i = 0; i < n_reasons(e); i++) e->account.sum[feature_of(e, i)] = 0;
}

/* False: one of them is no number.  A net whose score is one may have gradients that overflow. */
static bool list_reasons(struct wisp_explainer *e)
{
    const struct wisp_batch *b = &e->layout.batch;
    const bool image = e->image.channels > 0;
    double sum = 0;
    bool finite = true;
    e->n = n_reasons(e);
    for (size_t i = 0; i < e->n; i++) {
        const int32_t f = feature_of(e, i);
        const double part = e->account.sum[f];
        e->reasons[i] = (wisp_reason){ f, image ? b->planes[i] : b->xv[i], part };
        sum += part;
        finite = finite && isfinite(part);
    }
    if (e->n) qsort(e->reasons, e->n, sizeof *e->reasons, by_size);
    e->remainder = e->account.logit - e->account.bias - sum;
    return finite &&
           isfinite(e->remainder); /* which it is not where the logit or the bias is not */
}

wisp_status wisp_explainer_label(struct wisp_explainer *e, int32_t label, wisp_error *err)
{
    clear_account(e);
    wisp_status st = wisp_map_check(&e->m->file.map, err);
    if (st == WISP_OK)
        st = wisp_kind_of(e->m)->explain(&e->account, e, &e->layout.batch, label, 1, err);
    st = wisp_map_blame(&e->m->file.map, st, err);
    if (st != WISP_OK || list_reasons(e)) return st;
    const struct wisp_data *d = e->layout.d;
    return wisp_fail_row(err, WISP_ENUMERIC, d->rows_before + e->layout.batch.id[0],
                         wisp_row_base(d),
                         "the parts of its score are not numbers: products of the model's weights "
                         "overflow; expected weights as training leaves them");
}

wisp_status wisp_explainer_row(struct wisp_explainer *e, const struct wisp_data *d, size_t row,
                               wisp_error *err)
{
    struct wisp_drop none = { 0 };
    wisp_status st = wisp_layout_fill(&e->layout, d, &row, 1, &e->m->values, &none, err);
    const size_t n = st == WISP_OK ? n_reasons(e) : 0;
    if (n <= e->room) return st;
    wisp_reason *more = wisp_alloc(n, sizeof *more);
    if (!more) return wisp_fail_mem(err, n * sizeof *more, "the parts of a score");
    wisp_free(e->reasons);
    e->reasons = more, e->room = n;
    return WISP_OK;
}

wisp_status wisp_explainer_init_member(struct wisp_explainer *e, const struct wisp_model *m,
                                       const struct wisp_context *ctx, wisp_error *err)
{
    *e = (struct wisp_explainer){ .m = m, .ctx = *ctx };
    e->ctx.pool = NULL;
    e->ctx.conv = NULL; /* one row is not worth measuring */
    const struct wisp_model_kind *kind = wisp_kind_of(m);
    wisp_status st =
        kind->explain
            ? kind->explain_ready(e, err)
            : wisp_fail(err, WISP_ENOTSUP,
                        "a %s model: how its scores are made of features is not known", kind->name);
    if (st != WISP_OK) wisp_explainer_clear(e);
    return st;
}

wisp_status wisp_explainer_init(struct wisp_explainer *e, const struct wisp_model *m,
                                const struct wisp_context *ctx, wisp_error *err)
{
    wisp_status st = wisp_explainer_init_member(e, m, ctx, err);
    if (st != WISP_OK) return st;
    const size_t n = m->net.n_features;
    const bool lists = !wisp_model_is_net(m); /* what else may read the features of an image */
    if (e->reads) e->image = wisp_net_images(e->reads);
    st = wisp_layout_init(&e->layout, n, m->net.n_labels, true, err);
    if (st == WISP_OK && e->reads) st = wisp_layout_for(&e->layout, e->reads, lists, err);
    e->account.sum = wisp_zalloc(n, sizeof *e->account.sum);
    if (st == WISP_OK && !e->account.sum)
        st = wisp_fail_mem(err, n * sizeof *e->account.sum, "explaining");
    if (st != WISP_OK) wisp_explainer_clear(e);
    return st;
}

void wisp_explainer_clear(struct wisp_explainer *e)
{
    if (e->own) wisp_kind_of(e->m)->explain_done(e);
    wisp_layout_clear(&e->layout);
    wisp_free(e->account.sum);
    wisp_free(e->reasons);
    *e = (struct wisp_explainer){ 0 };
}

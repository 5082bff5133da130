/* What a training run of a linear model chooses, the rows of its epochs, and its checkpoints.
 *
 * Rows are laid out once, as the model sees them (tf-idf, length 1), and stay in memory:
 *
 *   | xp | x: (id, value) of every feature | square | yp | yi | lp | lr | weight |
 *
 * A first epoch is without the held-out rows: their votes, too, would know the answers. */
#include "model/linear_run.h"
#include "base/bounds.h"
#include "base/mem.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

/* Measured on held-out rows: docs/linear.md. */
static const double COST_ALL = 0.3, COST_VOTES = 0.2;
static const double DROP_ALL = 0.02, DROP_VOTES = 0.05;
static const double REFIT_SHARE = 0.03; /* of the rows that are held out */
static const float PRECISION = 0.3f;
enum { PASSES = 50, CHUNK = 256 /* rows laid out at once */ };
static const struct wisp_negatives_how HARD = {
    .always = 40, .up_to = 400, .share = 0.2, .random = 100
};

/* ---- the plan ---- */

/* A line of a model's card; "": it has none. */
static void of_card(char out[40], const struct wisp_model *m, const char *key)
{
    const char *at = m->about ? strstr(m->about, key) : NULL;
    *out = 0;
    if (at) wisp_print(out, 40, "%.*s", (int)strcspn(at + strlen(key), "\n"), at + strlen(key));
}

/* What the model to go on from was trained by, where nothing else is said.  Few new rows must not outweigh what
 * many old ones have taught, so their cost is multiplied by the root of their share (docs/linear.md).
 * The model's weights mean something only for rows like those that they were learnt on, so negatives are
 * found as before. */
static wisp_status go_on(struct wisp_linear_run *l, const struct wisp_run *r,
                         const wisp_config *cfg, wisp_error *err)
{
    const struct wisp_model *init = r->init.model;
    char text[40];
    if (!wisp_opt_auto(cfg, OPT_NEGATIVES) && wisp_opt_is(cfg, OPT_NEGATIVES, "all") != l->all)
        return wisp_fail_option(err, "negatives",
                                "the model --init %s has learnt from '%s'; leave the option out",
                                wisp_opt_text(cfg, OPT_INIT), l->all ? "all" : "votes");
    of_card(text, init, "linear_loss=");
    if (wisp_opt_auto(cfg, OPT_LOSS) && wisp_linear_loss_find(text))
        l->how.loss = wisp_linear_loss_find(text);
    of_card(text, init, "\ncost=");
    const double cost = wisp_strtod(text, NULL);
    if (wisp_opt_num(cfg, OPT_COST) == 0 && cost > 0) l->how.cost = (float)cost;
    const double pace = wisp_opt_num(cfg, OPT_OLD_PACE);
    const double share = (double)r->sets.train->n_rows / (double)wisp_most(init->n_train, 1);
    l->how.old_pace = (float)(pace >= 0 ? pace : fmin(1, sqrt(share)));
    wisp_linear_done_clear(&l->old);
    return wisp_linear_by_label(&l->old, &init->linear, err);
}

wisp_status wisp_linear_plan(struct wisp_linear_run *l, const struct wisp_run *r,
                             const wisp_config *cfg, wisp_error *err)
{
    const struct wisp_model *m = r->m;
    const double cost = wisp_opt_num(cfg, OPT_COST), drop = wisp_opt_num(cfg, OPT_DROP_BELOW);
    const char *loss = wisp_opt_text(cfg, OPT_LOSS);
    l->all = r->init.model                       ? r->init.model->linear.by_feature
             : wisp_opt_auto(cfg, OPT_NEGATIVES) ? m->net.n_labels <= WISP_FEW_LABELS
                                                 : wisp_opt_is(cfg, OPT_NEGATIVES, "all");
    l->hard = HARD;
    l->refit = wisp_opt_auto(cfg, OPT_REFIT) ? r->plan.holdout > REFIT_SHARE
                                             : wisp_opt_is(cfg, OPT_REFIT, "yes");
    if (r->plan.holdout == 0) l->refit = false; /* nothing is held out */
    l->how = (struct wisp_linear_how){
        .loss = wisp_opt_auto(cfg, OPT_LOSS) ? wisp_linear_loss_at(0) : wisp_linear_loss_find(loss),
        .cost = (float)(cost > 0 ? cost
                        : l->all ? COST_ALL
                                 : COST_VOTES),
        .drop = (float)(drop >= 0 ? drop
                        : l->all  ? DROP_ALL
                                  : DROP_VOTES),
        .precision = PRECISION,
        .passes = PASSES,
        .seed = r->plan.seed,
    };
    if (!l->how.loss)
        return wisp_fail_option(
            err, "loss", "%s is for nets; a linear model has squared-hinge, hinge or logistic",
            loss);
    if (!wisp_opt_is(cfg, OPT_DEVICE, "cuda"))
        return r->init.model ? go_on(l, r, cfg, err) : WISP_OK;
    return wisp_fail_option(err, "device", "linear models are trained on processors; take cpu");
}

/* Features of all rows as the model sees them: standardised ones have all columns. */
static size_t entries(const struct wisp_run *r, const struct wisp_data *d)
{
    return r->m->values.mode == WISP_VALUES_STANDARD ? d->n_rows * r->m->net.n_features : d->nnz;
}

static size_t rows_bytes(const struct wisp_run *r)
{
    const struct wisp_data *d = r->sets.train;
    return entries(r, d) * sizeof(struct wisp_linear_entry) + d->n_rows * 24 + d->n_lab * 8 +
           r->m->net.n_labels * 8;
}

size_t wisp_linear_bytes(const struct wisp_linear_run *l, const struct wisp_run *r)
{
    const struct wisp_data *d = r->sets.train;
    const size_t threads = (size_t)wisp_pool_threads(r->ctx->pool), n = r->m->net.n_features;
    size_t bytes = rows_bytes(r), making, staying;
    if (r->plan.holdout > 0) bytes += d->bytes; /* the rows that are not held out */
    bytes += l->old.n * 8;
    if (l->all) return bytes + threads * (d->n_rows * 13 + n * 4);
    wisp_votes_bytes(&making, &staying, d, n, (int)threads);
    return bytes + staying + d->n_rows * wisp_negatives_each(&l->hard) * 4 +
           wisp_linear_filed_bytes() + threads * (d->n_rows * 10 + n * 12);
}

/* ---- the rows of an epoch ---- */

static bool keeps(const void *order, size_t row)
{
    return wisp_order_trains(order, row);
}

struct arrays { /* of struct wisp_linear_rows, to be filled */
    size_t *xp, *yp, *lp;
    struct wisp_linear_entry *x;
    int32_t *yi;
    uint32_t *lr;
    float *square, *weight;
};

static void lay_out(struct arrays *a, struct wisp_cut *c, const struct wisp_run *r)
{
    const struct wisp_data *d = r->linear->d;
    const size_t n_labels = r->m->net.n_labels;
    a->xp = wisp_cut_take(c, d->n_rows + 1, sizeof *a->xp);
    a->x = wisp_cut_take(c, entries(r, d), sizeof *a->x);
    a->square = wisp_cut_take(c, d->n_rows, sizeof *a->square);
    a->yp = wisp_cut_take(c, d->n_rows + 1, sizeof *a->yp);
    a->yi = wisp_cut_take(c, d->n_lab, sizeof *a->yi);
    a->lp = wisp_cut_take(c, n_labels + 2, sizeof *a->lp);
    a->lr = wisp_cut_take(c, d->n_lab, sizeof *a->lr);
    a->weight = r->sets.weights ? wisp_cut_take(c, d->n_rows, sizeof *a->weight) : NULL;
}

/* Rows i .. of the batch behind those that are there. */
static void take_batch(struct arrays *a, const struct wisp_batch *b, size_t first)
{
    for (size_t i = 0; i < b->n; i++) {
        size_t x = a->xp[first + i], y = a->yp[first + i];
        double square = 1;
        for (uint32_t e = b->xp[i]; e < b->xp[i + 1]; e++) {
            a->x[x++] = (struct wisp_linear_entry){ b->xi[e], b->xv[e] };
            square += (double)b->xv[e] * b->xv[e];
        }
        for (uint32_t e = b->yp[i]; e < b->yp[i + 1]; e++) a->yi[y++] = b->yi[e];
        a->square[first + i] = (float)square;
        a->xp[first + i + 1] = x, a->yp[first + i + 1] = y;
    }
}

static wisp_status fill_rows(struct arrays *a, const struct wisp_run *r, const struct wisp_data *d,
                             wisp_error *err)
{
    const struct wisp_drop none = { 0 };
    struct wisp_layout layout;
    size_t rows[CHUNK];
    wisp_status st =
        wisp_layout_init(&layout, r->m->net.n_features, r->m->net.n_labels, false, err);
    if (st != WISP_OK) return st;
    layout.pool = r->ctx->pool;
    a->xp[0] = a->yp[0] = 0;
    for (size_t first = 0; st == WISP_OK && first < d->n_rows; first += CHUNK) {
        const size_t n = d->n_rows - first < CHUNK ? d->n_rows - first : CHUNK;
        for (size_t i = 0; i < n; i++) rows[i] = first + i;
        st = wisp_layout_fill(&layout, d, rows, n, &r->m->values, &none, err);
        if (st == WISP_OK) take_batch(a, &layout.batch, first);
    }
    wisp_layout_clear(&layout);
    return st;
}

/* Rows by label: count, prefix sum, fill. */
static void file_rows(struct arrays *a, size_t n_rows, size_t n_labels)
{
    memset(a->lp, 0, (n_labels + 2) * sizeof *a->lp);
    for (size_t i = 0; i < a->yp[n_rows]; i++) a->lp[a->yi[i] + 2]++;
    for (size_t l = 0; l < n_labels; l++) a->lp[l + 2] += a->lp[l + 1];
    for (size_t row = 0; row < n_rows; row++)
        for (size_t i = a->yp[row]; i < a->yp[row + 1]; i++)
            a->lr[a->lp[a->yi[i] + 1]++] = (uint32_t)row;
}

/* Cost and the limit below which weights are dropped are for rows of length 1: those of a table are
 * longer. */
static struct wisp_linear_how fit_to(const struct wisp_linear_how *how,
                                     const struct wisp_linear_rows *rows)
{
    struct wisp_linear_how fitted = *how;
    double sum = 0;
    for (size_t i = 0; i < rows->n_rows; i++) sum += (double)rows->square[i] - 1;
    const double mean = rows->n_rows ? sum / (double)rows->n_rows : 1;
    if (!(mean > 0)) return fitted;
    fitted.cost = (float)(how->cost / mean);
    fitted.drop = (float)(how->drop / sqrt(mean));
    return fitted;
}

/* Weights of the rows that are trained on, in their order. */
static void take_weights(float *to, const struct wisp_run *r)
{
    const struct wisp_linear_run *l = r->linear;
    for (size_t i = 0, n = 0; to && i < r->sets.train->n_rows; i++)
        if (l->d == r->sets.train || wisp_order_trains(&r->feed.order, i))
            to[n++] = r->sets.weights[i];
}

static wisp_status make_rows(struct wisp_run *r, wisp_error *err)
{
    struct wisp_linear_run *l = r->linear;
    const size_t n_labels = r->m->net.n_labels;
    struct arrays a;
    struct wisp_cut plan = { 0 };
    lay_out(&a, &plan, r);
    l->rows_block = wisp_alloc(plan.at, 1);
    if (!l->rows_block) return wisp_fail_mem(err, plan.at, "rows");
    struct wisp_cut c = wisp_cut_of(l->rows_block, plan.at, WISP_CUT_FRESH);
    lay_out(&a, &c, r);
    wisp_status st = fill_rows(&a, r, l->d, err);
    if (st != WISP_OK) return st;
    file_rows(&a, l->d->n_rows, n_labels);
    take_weights(a.weight, r);
    l->rows = (struct wisp_linear_rows){ .n_rows = l->d->n_rows,
                                         .n_features = r->m->net.n_features,
                                         .n_labels = n_labels,
                                         .xp = a.xp,
                                         .x = a.x,
                                         .square = a.square,
                                         .yp = a.yp,
                                         .yi = a.yi,
                                         .lp = a.lp,
                                         .lr = a.lr,
                                         .weight = a.weight };
    return WISP_OK;
}

/* The model keeps the votes: prediction asks them for candidates. */
static wisp_status find_negatives(struct wisp_run *r, wisp_error *err)
{
    struct wisp_linear_run *l = r->linear;
    struct wisp_model *m = r->m;
    const size_t n_labels = m->net.n_labels;
    wisp_votes_clear(&m->votes);
    wisp_status st =
        wisp_votes_make(&m->votes, r->ctx, l->d, m->net.n_features, &m->values, r->plan.seed, err);
    if (st == WISP_OK && r->init.model)
        st = wisp_votes_join(&m->votes, r->ctx, &r->init.model->votes, err);
    if (st != WISP_OK) return st;
    l->factor = wisp_alloc(n_labels, sizeof *l->factor);
    if (!l->factor) return wisp_fail_mem(err, n_labels * sizeof *l->factor, "votes");
    for (size_t i = 0; i < n_labels; i++) l->factor[i] = wisp_negatives_factor(m->label_rows[i]);
    return wisp_negatives_find(&l->negatives, r->ctx, &l->rows, &m->votes, l->factor, &l->hard,
                               r->plan.seed, err);
}

wisp_status wisp_linear_epoch(struct wisp_run *r, wisp_error *err)
{
    struct wisp_linear_run *l = r->linear;
    const bool kept = r->at.epoch == 1 && r->feed.order.n_rows < r->sets.train->n_rows;
    wisp_linear_epoch_clear(l);
    l->d = r->sets.train;
    wisp_status st =
        kept ? wisp_data_pick(&l->kept, r->sets.train, keeps, &r->feed.order, err) : WISP_OK;
    if (kept) l->d = l->kept;
    if (st == WISP_OK) st = make_rows(r, err);
    if (st == WISP_OK && !l->all) st = find_negatives(r, err);
    wisp_data_free(l->kept); /* what training reads is laid out */
    l->kept = NULL;
    if (st == WISP_OK && !l->done.start)
        st = wisp_linear_done_init(&l->done, r->m->net.n_labels, err);
    if (st != WISP_OK) return st;
    const struct wisp_linear_how how = fit_to(&l->how, &l->rows);
    return wisp_linear_trainer_make(&l->trainer, r->ctx, &l->rows, l->all ? NULL : &l->negatives,
                                    &how, l->old.start ? &l->old : NULL, &l->done, err);
}

void wisp_linear_epoch_clear(struct wisp_linear_run *l)
{
    wisp_linear_trainer_free(l->trainer);
    wisp_negatives_clear(&l->negatives);
    wisp_free(l->rows_block);
    wisp_free(l->factor);
    wisp_data_free(l->kept);
    l->trainer = NULL, l->rows_block = NULL, l->factor = NULL, l->kept = NULL;
    l->rows = (struct wisp_linear_rows){ 0 };
}

/* ---- to the model ---- */

wisp_status wisp_linear_give(struct wisp_run *r, wisp_error *err)
{
    struct wisp_linear_run *l = r->linear;
    struct wisp_model *m = r->m;
    struct wisp_linear_done *d = &l->done;
    const size_t n_features = m->net.n_features;
    wisp_linear_clear(&m->linear);
    struct wisp_linear to = { .n_features = n_features,
                              .n_labels = m->net.n_labels,
                              .by_feature = l->all,
                              .owned = true,
                              .bias = d->bias,
                              .start = d->start,
                              .id = d->id,
                              .f32 = d->weight };
    if (l->all) {
        int64_t *start = wisp_alloc(n_features + 1, sizeof *start);
        int32_t *id = wisp_alloc(d->n, sizeof *id);
        float *weight = wisp_alloc(d->n, sizeof *weight);
        if (start && id && weight) wisp_linear_by_feature(start, id, weight, d, n_features);
        to.start = start, to.id = id, to.f32 = weight;
        wisp_free(d->start), wisp_free(d->id), wisp_free(d->weight);
        m->linear = to;
        *d = (struct wisp_linear_done){ 0 };
        return start && id && weight ? WISP_OK : wisp_fail_mem(err, d->n * 8, "weights");
    }
    m->linear = to;
    *d = (struct wisp_linear_done){ 0 };
    return WISP_OK;
}

/* ---- checkpoints ---- */

size_t wisp_linear_state(struct wisp_tensor out[WISP_LINEAR_TENSORS],
                         const struct wisp_linear_run *l)
{
    const struct wisp_linear_done *d = &l->done;
    const struct {
        const char *name;
        enum wisp_dtype type;
        size_t n;
        const void *data;
    } parts[WISP_LINEAR_TENSORS] = { { "linear.start", WISP_I64, d->n_labels + 1, d->start },
                                     { "linear.feature", WISP_I32, d->n, d->id },
                                     { "linear.weight", WISP_F32, d->n, d->weight },
                                     { "linear.bias", WISP_F32, d->n_labels, d->bias } };
    if (!d->start) return 0; /* all is in the model */
    for (size_t i = 0; i < WISP_LINEAR_TENSORS; i++) {
        out[i] = (struct wisp_tensor){ .dtype = parts[i].type,
                                       .n_dims = 1,
                                       .shape = { parts[i].n },
                                       .data = parts[i].data,
                                       .bytes = parts[i].n * wisp_dtypes[parts[i].type].bytes };
        memcpy(out[i].name, parts[i].name, strlen(parts[i].name) + 1);
    }
    return WISP_LINEAR_TENSORS;
}

wisp_status wisp_linear_restore(struct wisp_run *r, const struct wisp_tensor_file *f,
                                const char *path, wisp_error *err)
{
    struct wisp_linear_done *d = &r->linear->done;
    const struct wisp_tensor *start = wisp_tensor_file_find(f, "linear.start"),
                             *id = wisp_tensor_file_find(f, "linear.feature"),
                             *weight = wisp_tensor_file_find(f, "linear.weight"),
                             *bias = wisp_tensor_file_find(f, "linear.bias");
    const size_t n_labels = r->m->net.n_labels, done = bias ? bias->bytes / 4 : 0,
                 n = id ? id->bytes / 4 : 0;
    const bool ok =
        start && id && weight && bias && start->dtype == WISP_I64 && id->dtype == WISP_I32 &&
        weight->dtype == WISP_F32 && bias->dtype == WISP_F32 && weight->finite && bias->finite &&
        done <= n_labels && start->bytes == (done + 1) * 8 && weight->bytes == n * 4 &&
        r->at.step == done + (size_t)(r->at.epoch - 1) * n_labels &&
        wisp_linear_bad_list(start->data, id->data, done, n, r->m->net.n_features) == done;
    if (!start && !id && !weight && !bias && r->at.step == (size_t)(r->at.epoch - 1) * n_labels)
        return WISP_OK; /* stopped between the two times */
    if (!ok)
        return wisp_fail_at(err, WISP_EMODEL, path, 0,
                            "its weights cannot be of this run: expected 'linear.start', "
                            "'linear.feature', 'linear.weight' and 'linear.bias' of the labels "
                            "that are done");
    wisp_status st = wisp_linear_done_init(d, n_labels, err);
    if (st != WISP_OK) return st;
    d->id = wisp_alloc(n, sizeof *d->id);
    d->weight = wisp_alloc(n, sizeof *d->weight);
    if (!d->id || !d->weight) return wisp_fail_mem(err, n * 8, "weights");
    d->n_labels = done, d->n = d->cap = n;
    d->objective = r->at.loss_sum;
    memcpy(d->start, start->data, start->bytes);
    if (n) memcpy(d->id, id->data, id->bytes), memcpy(d->weight, weight->data, weight->bytes);
    if (done) memcpy(d->bias, bias->data, bias->bytes);
    return WISP_OK;
}

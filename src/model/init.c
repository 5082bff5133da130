/* Going on from a model: what a run takes over of it.
 *
 * The net is the model's with more rows: the input layer has one per feature, the output layer one
 * per label, and ids of the model stay what they are, so its rows come first and new ones follow.
 * All its weights are kept bit by bit; new rows start as in a new net. */
#include "model/kind.h"
#include "model/init.h"
#include "model/run.h"
#include "model/torch.h"
#include "base/mem.h"
#include "base/text.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

wisp_status wisp_init_open(struct wisp_run *r, const wisp_config *cfg, wisp_error *err)
{
    const char *path = wisp_opt_text(cfg, OPT_INIT);
    if (!*path) return WISP_OK;
    if (!wisp_torch_is(path)) {
        wisp_status st = wisp_model_open(&r->init.model, r->ctx->pool, path, err);
        const struct wisp_model_kind *wanted = r->linear ? &wisp_kind_linear : &wisp_kind_net;
        if (st != WISP_OK || wisp_kind_of(r->init.model) == wanted) return st;
        const bool named = wisp_opt_given(cfg, OPT_NET) || wisp_opt_given(cfg, OPT_HIDDEN) ||
                           wisp_opt_given(cfg, OPT_DROPOUT);
        return wisp_fail(
            err, WISP_ENOTSUP, "--init %s: found a %s model, expected a %s%s", path,
            wisp_kind_of(r->init.model)->name, r->linear ? "linear model" : "net",
            named ? "; leave out --net, --hidden and --dropout to go on with what it is" : "");
    }
    if (r->linear)
        return wisp_fail(err, WISP_ENOTSUP,
                         "--init %s: found weights of layers, expected a linear model", path);
    if (!wisp_opt_given(cfg, OPT_NET))
        return wisp_fail(err, WISP_EINVAL,
                         "--init %s: weights from elsewhere, which say nothing of their net; name "
                         "it: --net resnet18, or another",
                         path);
    return wisp_tensor_file_open_plain(&r->init.weights, r->ctx->pool, path, err);
}

wisp_status wisp_init_check_weights(const struct wisp_run *r, const wisp_config *cfg,
                                    wisp_error *err)
{
    return wisp_torch_check(&r->init.weights, wisp_opt_text(cfg, OPT_INIT), &r->m->net, false, err);
}

wisp_status wisp_init_take_weights(struct wisp_run *r, wisp_error *err)
{
    wisp_status st = wisp_torch_take(&r->m->net, &r->init.weights, false, err);
    return wisp_map_blame(&r->init.weights.map, st, err);
}

/* The optimiser whose memory a state file holds, by what it keeps of the first layer's weights. */
static const struct wisp_optimizer_kind *optimizer_of(const struct wisp_tensor_file *state,
                                                      const struct wisp_net *net)
{
    char name[WISP_NAME_BYTES];
    const struct wisp_param *w = &net->list.p[0];
    wisp_state_name(name, w, "g2");
    if (wisp_tensor_file_find(state, name)) return wisp_optimizer_find("adagrad");
    wisp_state_name(name, w, "v");
    if (wisp_tensor_file_find(state, name)) return wisp_optimizer_find("adam");
    return wisp_optimizer_find("sgd");
}

static void state_path(char path[PATH_MAX + 8], const char *model)
{
    snprintf(path, PATH_MAX + 8, "%s.state", model);
}

/* The state file of the model's run, if it lies beside it and is of this very model. */
static wisp_status open_state(struct wisp_run *r, const char *model, wisp_error *err)
{
    char path[PATH_MAX + 8];
    wisp_error why = { 0 };
    state_path(path, model);
    if (strlen(model) >= PATH_MAX || access(path, F_OK) != 0) return WISP_OK;
    wisp_status st = wisp_tensor_file_open_own(&r->init.state, r->ctx->pool, path, model, &why);
    if (st == WISP_ENOMEM) return wisp_fail_as(err, st, &why);
    const char *of = st == WISP_OK ? wisp_tensor_file_meta(&r->init.state, "model") : NULL;
    if (of && strcmp(of, r->init.model->file.check) == 0) return WISP_OK;
    wisp_say(r->ctx, "init      the optimizer's memory is not used: %.400s",
             st == WISP_OK ? "the state file belongs to another model" : why.text);
    wisp_tensor_file_close(&r->init.state);
    return WISP_OK;
}

wisp_status wisp_init_plan(struct wisp_run *r, const wisp_config *cfg, wisp_error *err)
{
    struct wisp_plan *p = &r->plan;
    bool named = wisp_opt_given(cfg, OPT_NET) || wisp_opt_given(cfg, OPT_HIDDEN) ||
                 wisp_opt_given(cfg, OPT_DROPOUT);
    if (!named) {
        wisp_net_text_clear(&p->net);
        wisp_status made = wisp_net_text_set(&p->net, r->init.model->spec, err);
        if (made != WISP_OK) return made;
    }
    if (!wisp_opt_given(cfg, OPT_LOSS)) p->loss = r->init.model->loss;
    /* An index of the new rows alone would not name the old labels. */
    if (wisp_opt_auto(cfg, OPT_INDEX)) p->index &= !!r->init.model->votes.start;
    wisp_status st = open_state(r, wisp_opt_text(cfg, OPT_INIT), err);
    if (st != WISP_OK || !r->init.state.n_tensors) return st;
    const struct wisp_optimizer_kind *kind = optimizer_of(&r->init.state, &r->init.model->net);
    if (wisp_opt_auto(cfg, OPT_OPTIMIZER)) p->optimizer = kind;
    if (wisp_opt_num(cfg, OPT_LR) == 0) p->lr = wisp_plan_auto_lr(p);
    if (p->optimizer != kind) {
        wisp_say(r->ctx, "init      the optimizer's memory is not used: it is of %s", kind->name);
        wisp_tensor_file_close(&r->init.state);
    }
    return WISP_OK;
}

/* What the labels from 'old' on have of the targets of all rows, where those of a row sum to 1. */
static double new_share(const struct wisp_data *d, size_t old)
{
    double sum = 0;
    for (size_t b = 0; b < d->n_blocks; b++)
        for (size_t i = 0; i < d->blocks[b].n; i++) {
            const struct wisp_rows *r = &d->blocks[b];
            uint32_t n = 0, all = r->yp[i + 1] - r->yp[i];
            for (uint32_t y = r->yp[i]; y < r->yp[i + 1]; y++) n += (size_t)r->yi[y] >= old;
            if (all) sum += (double)n / all;
        }
    return sum;
}

/* New labels are in new rows only, so these have more of them than all rows together: logits learnt
 * here would be too high elsewhere.  Of n new rows c have the label, of all N rows too; the odds
 * are c / (n - c) here and c / (N - c) there (as in a case-control study), so while training a
 * logit is raised by the logarithm of what is between them, and the bias learns without it.  Where
 * labels compete, c is what all new labels have together. */
static wisp_status raise_new(struct wisp_run *r, wisp_error *err)
{
    const struct wisp_data *d = r->sets.train;
    struct wisp_layer *out = wisp_net_output(&r->m->net);
    size_t old = r->init.model->net.n_labels;
    bool compete = r->plan.loss->target(2) < 1;
    double n = (double)d->n_rows, all = (double)r->m->n_train;
    if (out->n_out == old) return WISP_OK;
    r->init.raise = wisp_zalloc(out->n_out, sizeof *r->init.raise);
    if (!r->init.raise)
        return wisp_fail_mem(err, out->n_out * sizeof *r->init.raise, "logits of new labels");
    double share = compete ? new_share(d, old) : 0;
    for (size_t l = old; l < d->n_labels; l++) {
        double c = compete ? share : (double)d->label_rows[l];
        r->init.raise[l] = (float)log((all - c + 1) / (n - c + 1));
    }
    out->raise = r->init.raise;
    return WISP_OK;
}

/* Rows that a parameter has of the model; one that became another kind of layer has nothing else. */
static size_t old_rows(const struct wisp_param *p, const struct wisp_params *model)
{
    for (size_t i = 0; i < model->n; i++)
        if (strcmp(model->p[i].name, p->name) == 0 && model->p[i].rows < p->rows)
            return model->p[i].rows;
    return p->rows;
}

wisp_status wisp_init_pace(struct wisp_run *r, wisp_error *err)
{
    struct wisp_net *net = &r->m->net;
    r->opt.old_pace = r->plan.old_pace;
    for (size_t i = 0; i < net->list.n; i++)
        net->list.p[i].old = old_rows(&net->list.p[i], &r->init.model->net.list);
    return raise_new(r, err);
}

static wisp_status check_names(const struct wisp_names *names, const struct wisp_names *old,
                               const struct wisp_names *own, const char *what, const char *path,
                               wisp_error *err)
{
    if (!old->n && own->n)
        return wisp_fail(err, WISP_EMODEL,
                         "--init %s: its %s have numbers only, this run's have names: they cannot "
                         "be matched",
                         path, what);
    if (!names->n || wisp_names_begin(names, old)) return WISP_OK;
    return wisp_fail(err, WISP_EMODEL,
                     "--init %s: its %s have other names than this run's, which must begin with "
                     "them: open the rows with option 'init' set, or give such a file",
                     path, what);
}

wisp_status wisp_init_names(const struct wisp_run *r, const char *path, wisp_error *err)
{
    const struct wisp_model *m = r->m, *init = r->init.model;
    wisp_status st =
        check_names(&m->labels, &init->labels, &r->sets.train->labels, "labels", path, err);
    return st == WISP_OK
               ? check_names(&m->vocab, &init->vocab, &r->sets.train->vocab, "features", path, err)
               : st;
}

/* The same parameter, but for rows that are further features or labels. */
static bool same_param(const struct wisp_param *a, const struct wisp_param *b)
{
    bool same = strcmp(a->name, b->name) == 0 && a->role == b->role && a->rank == b->rank;
    for (int i = a->by == WISP_BY_NONE ? 0 : 1; same && i < a->rank; i++)
        same = a->dim[i] == b->dim[i];
    return same;
}

static bool same_inputs(const struct wisp_layer *a, const struct wisp_layer *b)
{
    return a->n_from == b->n_from &&
           memcmp(a->from, b->from, (size_t)a->n_from * sizeof *a->from) == 0;
}

static bool same_net(const struct wisp_net *a, const struct wisp_net *b)
{
    bool same = a->n_layers == b->n_layers && a->list.n == b->list.n;
    for (int i = 0; same && i < a->n_layers; i++)
        same = a->layers[i].kind == b->layers[i].kind &&
               same_inputs(&a->layers[i], &b->layers[i]) &&
               strcmp(a->layers[i].file, b->layers[i].file) == 0;
    for (size_t i = 0; same && i < a->list.n; i++) same = same_param(&a->list.p[i], &b->list.p[i]);
    return same;
}

wisp_status wisp_init_fit(struct wisp_run *r, const wisp_config *cfg, wisp_error *err)
{
    const struct wisp_net *a = &r->m->net, *b = &r->init.model->net;
    if (!r->smaller && !same_net(a, b)) /* what is smaller was checked before it became so */
        return wisp_fail(err, WISP_EMODEL,
                         "--init %s: its net is '%.150s', this run's is '%.150s'; leave out --net "
                         "and --hidden, or name the same",
                         wisp_opt_text(cfg, OPT_INIT), r->init.model->spec, r->m->spec);
    double pace = wisp_opt_num(cfg, OPT_OLD_PACE);
    r->plan.old_pace = pace >= 0 ? (float)pace : a->n_labels > b->n_labels ? 0 : 1;
    return WISP_OK;
}

/* Of weights from elsewhere. */
static void say_weights(const struct wisp_run *r, const char *path)
{
    const struct wisp_layer *head = wisp_net_output(&r->m->net);
    wisp_say(r->ctx, "init      %s: %zu tensors; the output layer%s%s is new, with %zu labels",
             path, r->init.weights.n_tensors, *head->name ? " " : "", head->name,
             r->m->net.n_labels);
}

void wisp_init_say(const struct wisp_run *r, const char *path)
{
    if (!r->init.model) {
        say_weights(r, path);
        return;
    }
    const struct wisp_net *net = &r->m->net, *old = &r->init.model->net;
    size_t labels = net->n_labels - old->n_labels, features = net->n_features - old->n_features;
    char pace[60] = "";
    if (r->linear) {
        wisp_say(r->ctx,
                 "init      %s: %zu old labels kept, %zu new; %zu old features, %zu new; labels "
                 "without new rows stay what they are",
                 path, old->n_labels, labels, old->n_features, features);
        return;
    }
    if (r->plan.old_pace == 0) wisp_print(pace, sizeof pace, ", old rows do not move");
    else if (r->plan.old_pace < 1)
        wisp_print(pace, sizeof pace, ", old rows at %g of the learning rate", r->plan.old_pace);
    wisp_say(r->ctx,
             "init      %s: %zu old labels kept, %zu new; %zu old features, %zu new%s; optimizer "
             "state %s%s",
             path, old->n_labels, labels, old->n_features, features,
             features && wisp_layer_wires(&net->layers[0]).n_out
                 ? " (out of reach of fixed connections)"
                 : "",
             r->init.state.n_tensors ? "kept" : "fresh", pace);
}

void wisp_init_calibration(struct wisp_run *r)
{
    const struct wisp_model *init = r->init.model;
    for (int i = 0; i < WISP_N_WAYS; i++)
        if (init->calibration[i]) {
            r->m->fitted[i] = *init->calibration[i];
            r->m->calibration[i] = &r->m->fitted[i];
        }
}

void wisp_init_idf(struct wisp_run *r)
{
    const struct wisp_data *d = r->sets.train;
    const struct wisp_model *init = r->init.model;
    float *idf = r->m->idf,
          all = (float)log((double)(init->n_train + d->n_rows) / (double)d->n_rows);
    if (!init->values.idf) return;
    for (size_t f = 0; f < d->n_features; f++) {
        bool says = idf[f] > 0, old = f < init->net.n_features;
        if (old && (init->values.idf[f] > 0 || !says)) idf[f] = init->values.idf[f];
        else if (d->feature_rows[f]) idf[f] += all;
    }
    for (size_t f = d->n_features; f < init->net.n_features; f++) idf[f] = init->values.idf[f];
}

void wisp_init_columns(struct wisp_run *r)
{
    const struct wisp_data *d = r->sets.train;
    const struct wisp_model *init = r->init.model;
    float *mean = r->m->columns, *scale = mean + r->m->net.n_features;
    const double share = (double)d->n_rows / (double)(init->n_train + d->n_rows);
    for (size_t f = 0; f < r->m->net.n_features; f++)
        if (f < init->net.n_features && (init->values.scale[f] > 0 || scale[f] == 0)) {
            mean[f] = init->values.mean[f];
            scale[f] = init->values.scale[f];
        } else if (scale[f] > 0) {
            double was = (double)mean[f], deviation = 1 / (double)scale[f];
            double square = share * (deviation * deviation + was * was), now = share * was;
            mean[f] = (float)now;
            scale[f] = (float)(1 / sqrt(square - now * now));
        }
}

/* From rows of int8 or codes, which are never trained, in pieces. */
static void copy_narrow(struct wisp_param *to, const struct wisp_param *from,
                        const struct wisp_kernels *k)
{
    enum { PIECE = WISP_CODES_PIECE };
    const struct wisp_weights w = wisp_param_weights(from);
    float piece[PIECE];
    for (size_t row = 0; row < from->rows; row++)
        for (size_t c = 0; c < to->cols; c += PIECE) {
            size_t n = to->cols - c < PIECE ? to->cols - c : PIECE, at = row * to->cols + c;
            float *out = to->w ? to->w + at : piece;
            if (from->i8) k->from8(out, from->i8 + at, from->scale[row], n);
            else
                k->from_codes(out, wisp_weights_codes(&w, row, c), w.bits, w.value, w.scale[row],
                              n);
            if (to->b16) k->to16(to->b16 + at, piece, n);
        }
}

/* The rows of 'from', between any two types. */
static void copy_weights(struct wisp_param *to, const struct wisp_param *from,
                         const struct wisp_kernels *k)
{
    size_t n = wisp_param_n(from);
    if (from->i8 || from->codes) {
        copy_narrow(to, from, k);
        return;
    }
    if (to->b16 && from->b16) memcpy(to->b16, from->b16, n * sizeof *to->b16);
    else if (to->b16) k->to16(to->b16, from->w, n);
    else if (from->b16) k->from16(to->w, from->b16, n);
    else memcpy(to->w, from->w, n * sizeof *to->w);
}

void wisp_init_weights(struct wisp_run *r)
{
    for (size_t i = 0; i < r->m->net.list.n; i++) {
        struct wisp_param *to = &r->m->net.list.p[i];
        const struct wisp_param *from = &r->init.model->net.list.p[i];
        if (to->role == WISP_FIXED) /* whatever they are */
            memcpy(to->ids, from->ids, wisp_param_n(to) * sizeof *to->ids);
        else if (to->role == WISP_STARTS)
            memcpy(to->start, from->start, wisp_param_n(to) * sizeof *to->start);
        else copy_weights(to, from, r->ctx->k);
    }
}

struct slot { /* where an optimiser keeps numbers: fp32 or bf16, or counts */
    const char *name;
    float *f32;
    uint16_t *b16;
    uint32_t *count;
    size_t n;
};

/* Numbers of a state file, of either type where they are floats. */
static wisp_status copy_slot(const struct slot *to, const struct wisp_param *p,
                             const struct wisp_run *r, const char *path, wisp_error *err)
{
    const struct wisp_kernels *k = r->ctx->k;
    char name[WISP_NAME_BYTES];
    wisp_state_name(name, p, to->name);
    const struct wisp_tensor *t =
        to->f32 || to->b16 || to->count ? wisp_tensor_file_find(&r->init.state, name) : NULL;
    if (!t) return WISP_OK; /* the other run had no such layer */
    const bool half = t->dtype == WISP_BF16,
               fits = to->count ? t->dtype == WISP_I32 : half || t->dtype == WISP_F32;
    if (!fits || t->bytes != to->n * wisp_dtypes[t->dtype].bytes || !t->finite)
        return wisp_fail_at(err, WISP_EMODEL, path, 0,
                            "tensor '%s' has another type or size, or a value that is infinite or "
                            "no number; remove the file to begin with a fresh optimizer state",
                            name);
    if (to->count) memcpy(to->count, t->data, t->bytes);
    else if (to->f32 && half) k->from16(to->f32, t->data, to->n);
    else if (to->b16 && !half) k->to16(to->b16, t->data, to->n);
    else memcpy(to->f32 ? (void *)to->f32 : to->b16, t->data, t->bytes);
    return WISP_OK;
}

static wisp_status copy_state(struct wisp_param *p, const struct wisp_param *from,
                              const struct wisp_run *r, const char *path, wisp_error *err)
{
    const size_t n = wisp_param_n(from), rows = from->rows;
    const struct slot slots[] = { { "m", p->m, p->m16, NULL, n },
                                  { "v", p->v, p->v16, NULL, n },
                                  { "g2", p->g2, NULL, NULL, rows },
                                  { "count", NULL, NULL, p->count, rows } };
    wisp_status st = WISP_OK;
    for (size_t i = 0; i < sizeof slots / sizeof *slots && st == WISP_OK; i++)
        st = copy_slot(&slots[i], p, r, path, err);
    return st == WISP_OK ? wisp_state_param_ok(p, path, err) : st;
}

wisp_status wisp_init_state(struct wisp_run *r, const wisp_config *cfg, wisp_error *err)
{
    struct wisp_net *net = &r->m->net;
    wisp_status st = WISP_OK;
    char path[PATH_MAX + 8];
    if (!r->init.state.n_tensors) return st;
    state_path(path, wisp_opt_text(cfg, OPT_INIT));
    for (size_t i = 0; i < net->list.n && st == WISP_OK; i++)
        st = copy_state(&net->list.p[i], &r->init.model->net.list.p[i], r, path, err);
    return st;
}

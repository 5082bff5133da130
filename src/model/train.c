/* The training run: plan, epochs of steps, validation, the best model on disk.
 *
 * Life of a step: order.c hands out row numbers, batch.c lays the rows out, net.c runs forward,
 * loss, backward and update.  After each epoch the validation rows are scored; a better model
 * replaces the file at 'path' (atomically), then the state is written beside it. */
#include "model/train.h"
#include "base/mem.h"
#include "base/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SNAPSHOTS_AN_EPOCH = 4 };
static const double SAY_EVERY_S = 0.2;

/* ---- making a run ---- */

/* Options that shape the result, as lines "key=value": kept in the model, compared on resume. */
static wisp_status options_text(char **out, const wisp_config *cfg, wisp_error *err)
{
    static const enum wisp_opt aside[] = { OPT_RESUME,  OPT_LOG,    OPT_JSON,
                                           OPT_THREADS, OPT_CONFIG, OPT_CACHE,
                                           OPT_VALID,   OPT_LABELS, OPT_VOCAB };
    size_t room = 1;
    for (int i = 0; i < N_OPTS; i++)
        room += strlen(wisp_option_row((size_t)i)->key) +
                strlen(wisp_opt_text(cfg, (enum wisp_opt)i)) + 2;
    char *p = *out = wisp_alloc(room, 1);
    if (!p) return wisp_fail_mem(err, room, "options");
    *p = 0;
    for (int i = 0; i < N_OPTS; i++) {
        const wisp_option *o = wisp_option_row((size_t)i);
        bool skip = !strstr(o->commands, "train");
        for (size_t k = 0; k < sizeof aside / sizeof *aside; k++)
            skip |= aside[k] == (enum wisp_opt)i;
        if (!skip) p += sprintf(p, "%s=%s\n", o->key, wisp_opt_text(cfg, (enum wisp_opt)i));
    }
    for (p = *out; *p; p++) /* metadata must be UTF-8, a path need not be */
        if ((unsigned char)*p >= 0x80) *p = '?';
    return WISP_OK;
}

/* Names from the data itself (text) or from a file; as many as there are ids. */
static wisp_status take_names(struct wisp_names *out, const struct wisp_names *own,
                              const char *path, size_t n, const char *what, wisp_error *err)
{
    wisp_status st = WISP_OK;
    if (*path) st = wisp_names_load(out, path, err);
    else if (own->n) st = wisp_names_init(out, own->text, own->bytes, true, err);
    if (st == WISP_OK && out->n && out->n != n)
        return wisp_fail(err, WISP_EINVAL, "%s: has %zu names, the data has %zu %s",
                         *path ? path : "text", out->n, n, what);
    return st;
}

/* The output biases start at the labels' log prior: without it the first epochs go into learning
 * it. */
static void set_prior(struct wisp_run *r)
{
    struct wisp_param *bias = &wisp_net_output(&r->m->net)->params[1];
    double total = (double)r->train->n_lab + 0.5 * (double)bias->rows;
    for (size_t l = 0; l < bias->rows; l++)
        bias->w[l] =
            r->plan.loss->prior((double)r->train->label_rows[l], (double)r->train->n_rows, total);
}

static wisp_status start_from(struct wisp_run *r, const char *path, wisp_error *err)
{
    struct wisp_model *from;
    wisp_status st = wisp_model_open(&from, r->ctx->pool, path, err);
    if (st != WISP_OK) return st;
    struct wisp_net *a = &r->m->net, *b = &from->net;
    bool same =
        a->n_features == b->n_features && a->n_labels == b->n_labels && a->n_layers == b->n_layers;
    for (int i = 0; same && i < a->n_layers; i++)
        for (int k = 0; same && k < a->layers[i].n_params; k++)
            same = strcmp(a->layers[i].params[k].name, b->layers[i].params[k].name) == 0 &&
                   a->layers[i].params[k].cols == b->layers[i].params[k].cols;
    if (!same)
        st = wisp_fail(err, WISP_EMODEL,
                       "--init %s: its net is '%.100s' with %zu features and %zu labels, this "
                       "run's is '%.100s' with %zu and %zu",
                       path, from->spec, b->n_features, b->n_labels, r->m->spec, a->n_features,
                       a->n_labels);
    for (int i = 0; st == WISP_OK && i < a->n_layers; i++)
        for (int k = 0; k < a->layers[i].n_params; k++) {
            struct wisp_param *to = &a->layers[i].params[k];
            memcpy(to->w, b->layers[i].params[k].w, to->rows * to->cols * sizeof(float));
        }
    if (st == WISP_OK) { /* its weights were learnt on its own values */
        r->m->values.mode = from->values.mode;
        if (from->values.idf) memcpy(r->m->idf, from->values.idf, a->n_features * sizeof(float));
    }
    wisp_model_free(from);
    return st;
}

static wisp_status make_model(struct wisp_run *r, const wisp_config *cfg, wisp_error *err)
{
    const struct wisp_data *d = r->train;
    struct wisp_model *m = r->m = wisp_zalloc(1, sizeof *m);
    if (!m) return wisp_fail_mem(err, sizeof *m, "a model");
    m->loss = r->plan.loss;
    m->values = r->plan.values;
    m->text = d->vocab.n > 0;
    m->pairs = d->pairs;
    m->label_rows = d->label_rows;
    m->n_train = d->n_rows;
    m->spec = wisp_strdup(r->plan.spec);
    m->idf = wisp_alloc(d->n_features, sizeof *m->idf);
    if (!m->spec || !m->idf) return wisp_fail_mem(err, d->n_features * sizeof *m->idf, "idf");
    wisp_values_idf(m->idf, d);
    m->values.idf = m->idf;
    struct wisp_layer_sizes sizes = { .batch = r->plan.batch,
                                      .active = d->n_labels,
                                      .training = true };
    wisp_status st;
    if ((st = options_text(&m->options, cfg, err)) != WISP_OK) return st;
    if ((st = take_names(&m->labels, &d->labels, wisp_opt_text(cfg, OPT_LABELS), d->n_labels,
                         "labels", err)) != WISP_OK ||
        (st = take_names(&m->vocab, &d->vocab, wisp_opt_text(cfg, OPT_VOCAB), d->n_features,
                         "features", err)) != WISP_OK)
        return st;
    return wisp_net_plan(&m->net, m->spec, d->n_features, d->n_labels, &sizes, err);
}

static double gib(size_t bytes)
{
    return (double)bytes / (1 << 30);
}

/* The plan, before any big block is taken: a person sees what will happen and whether it fits. */
static wisp_status print_plan(struct wisp_run *r, wisp_error *err)
{
    const struct wisp_plan *p = &r->plan;
    const struct wisp_data *d = r->train;
    const struct wisp_net *net = &r->m->net;
    size_t weights = wisp_net_param_floats(net) * 4,
           state = wisp_net_state_floats(net, p->optimizer->slots) * 4;
    size_t work = wisp_net_work_floats(net, wisp_pool_threads(r->ctx->pool)) * 4;
    size_t need = weights * (p->average > 0 ? 2 : 1) + state + work, have = wisp_mem_available();
    wisp_say(r->ctx, "rows      %zu training, %zu validation%s", r->order.n_rows, r->valid->n_rows,
             r->held_out && r->held_out->n_rows ? " (held out)" : "");
    wisp_say(r->ctx,
             "data      %zu features, %zu labels; %.1f features and %.2f labels a row; values %s",
             d->n_features, d->n_labels, (double)d->nnz / (double)d->n_rows,
             (double)d->n_lab / (double)d->n_rows, wisp_values_name(r->m->values.mode));
    wisp_say(r->ctx, "net       %s, output %zu; %s loss; %.2f million parameters", r->m->spec,
             d->n_labels, p->loss->name, (double)wisp_net_n_params(net) / 1e6);
    wisp_say(r->ctx,
             "training  %d epochs, batch %zu, %s lr %g, input dropout %g, sampling %s, seed %llu",
             p->epochs, p->batch, p->optimizer->name, p->lr, p->input_dropout, p->sampler->name,
             (unsigned long long)p->seed);
    wisp_say(r->ctx,
             "memory    %.2f GiB needed (weights %.2f, optimizer %.2f, batch %.2f), %.1f GiB free",
             gib(need), gib(weights), gib(state), gib(work), gib(have));
    wisp_say(r->ctx, "machine   cpu, %d threads, %s kernels", wisp_pool_threads(r->ctx->pool),
             r->ctx->k->name);
    if (have && need > have)
        return wisp_fail(err, WISP_ENOMEM,
                         "%.1f GiB needed, %.1f GiB free: take a smaller --hidden or --batch, or "
                         "--optimizer adagrad",
                         gib(need), gib(have));
    return WISP_OK;
}

static wisp_status make_run(struct wisp_run *r, const wisp_config *cfg, wisp_error *err)
{
    const char *init = wisp_opt_text(cfg, OPT_INIT);
    const struct wisp_data *d = r->train;
    wisp_status st;
    if (d->n_rows == 0) return wisp_fail(err, WISP_EINVAL, "there are no rows to train on");
    if ((st = wisp_plan_make(&r->plan, cfg, d, r->valid != NULL, err)) != WISP_OK) return st;
    struct wisp_plan *p = &r->plan;
    if ((st = make_model(r, cfg, err)) != WISP_OK) return st;
    if ((st = wisp_order_init(&r->order, d, p->seed, p->holdout, p->memory, err)) != WISP_OK)
        return st;
    if (r->order.n_rows == 0)
        return wisp_fail(err, WISP_EINVAL, "no rows are left to train on: lower --holdout");
    if (!r->valid) {
        if ((st = wisp_order_held_out(&r->held_out, &r->order, err)) != WISP_OK) return st;
        r->valid = r->held_out;
    }
    if ((st = print_plan(r, err)) != WISP_OK) return st;

    struct wisp_net *net = &r->m->net;
    if ((st = wisp_net_alloc_params(net, err)) != WISP_OK ||
        (st = wisp_net_alloc_state(net, p->optimizer->slots, err)) != WISP_OK ||
        (st = wisp_net_alloc_work(net, wisp_pool_threads(r->ctx->pool), err)) != WISP_OK ||
        (st = wisp_optimizer_init(&r->opt, p->optimizer, r->ctx->k, wisp_opt_num(cfg, OPT_MOMENTUM),
                                  err)) != WISP_OK ||
        (st = wisp_layout_init(&r->layout, d->n_features, d->n_labels, true, err)) != WISP_OK ||
        (st = wisp_scorer_init(&r->scorer, r->m, r->ctx, 5, err)) != WISP_OK)
        return st;
    if (!(r->rows = wisp_alloc(p->batch, sizeof *r->rows)))
        return wisp_fail_mem(err, p->batch * 8, "a batch");
    size_t floats = wisp_net_param_floats(net);
    if (p->average > 0 && !(r->average = wisp_zalloc(floats, sizeof *r->average)))
        return wisp_fail_mem(err, floats * 4, "the averaged parameters");
    wisp_net_init(net, p->seed);
    set_prior(r);
    if (*init && (st = start_from(r, init, err)) != WISP_OK) return st;
    r->epoch = 1;
    r->best = -1;
    for (int e = 1; e <= p->epochs; e++) r->steps += wisp_order_steps(&r->order, e, p->batch);
    return wisp_opt_on(cfg, OPT_RESUME) ? wisp_state_load(r, err) : WISP_OK;
}

static void clear_run(struct wisp_run *r)
{
    wisp_scorer_clear(&r->scorer);
    wisp_layout_clear(&r->layout);
    wisp_optimizer_clear(&r->opt);
    wisp_order_clear(&r->order);
    wisp_model_free(r->m);
    wisp_data_free(r->held_out);
    wisp_free(r->rows);
    wisp_free(r->average);
}

/* ---- tail averaging ---- */

struct averaging {
    float *to;
    const float *from;
    size_t n;
    float share;
};
enum { AVERAGE_CHUNK = 1 << 16 };

static void average_chunk(void *arg, size_t i, int thread)
{
    (void)thread;
    const struct averaging *a = arg;
    size_t end = (i + 1) * AVERAGE_CHUNK < a->n ? (i + 1) * AVERAGE_CHUNK : a->n;
    for (size_t k = i * AVERAGE_CHUNK; k < end; k++) a->to[k] += (a->from[k] - a->to[k]) * a->share;
}

static void average_now(struct wisp_run *r)
{
    struct averaging a = { r->average, r->m->net.params, wisp_net_param_floats(&r->m->net),
                           1.0f / (float)++r->n_averaged };
    wisp_parallel_for(r->ctx->pool, (a.n + AVERAGE_CHUNK - 1) / AVERAGE_CHUNK, average_chunk, &a);
}

static bool in_tail(const struct wisp_run *r)
{
    return r->average && (double)r->step > (1 - r->plan.average) * (double)r->steps;
}

/* Points the model and the scorer at another block of parameters. */
static void use_block(struct wisp_run *r, float *block, const float *was)
{
    struct wisp_net *nets[] = { &r->m->net, &r->scorer.net };
    for (int i = 0; i < 2; i++)
        for (int l = 0; l < nets[i]->n_layers; l++)
            for (int p = 0; p < nets[i]->layers[l].n_params; p++)
                nets[i]->layers[l].params[p].w = block + (nets[i]->layers[l].params[p].w - was);
}

/* ---- epochs ---- */

struct clock { /* what is told about speed */
    double began, said, trained_s;
    size_t rows;
};

static void tell(struct wisp_progress *p, const struct wisp_run *r, const struct clock *c)
{
    double rate = c->trained_s > 0 ? (double)c->rows / c->trained_s : 0;
    double left =
        (double)(r->plan.epochs - r->epoch + 1) * (double)r->order.n_rows - (double)r->seen;
    *p = (struct wisp_progress){ .epoch = r->epoch,
                                 .epochs = r->plan.epochs,
                                 .rows_done = r->seen,
                                 .n_rows = r->order.n_rows,
                                 .loss = r->seen ? r->loss_sum / (double)r->seen : 0,
                                 .rows_per_s = rate,
                                 .eta_s = rate > 0 ? left / rate : 0,
                                 .valid = -1 };
}

static wisp_status step(struct wisp_run *r, size_t n, wisp_error *err)
{
    struct wisp_drop drop = { r->plan.input_dropout, r->plan.seed, r->step };
    wisp_status st =
        wisp_layout_fill(&r->layout, &r->order.d, r->rows, n, &r->m->values, &drop, err);
    if (st != WISP_OK) return st;
    r->opt.lr = (float)wisp_plan_lr(&r->plan, r->step, r->steps);
    struct wisp_step s = { .ctx = r->ctx,
                           .batch = &r->layout.batch,
                           .training = true,
                           .seed = r->plan.seed,
                           .number = r->step,
                           .update = &r->opt.update,
                           .loss = r->plan.loss };
    wisp_net_step(&r->m->net, &s, r->plan.sampler);
    if (!isfinite(s.loss_sum))
        return wisp_fail(err, WISP_ENUMERIC,
                         "the loss became %g in epoch %d, step %zu: the last good model is kept; "
                         "try a lower --lr than %g",
                         s.loss_sum, r->epoch, r->in_epoch + 1, r->plan.lr);
    r->loss_sum += s.loss_sum;
    r->seen += n;
    r->step++;
    r->in_epoch++;
    size_t every = r->steps / (size_t)r->plan.epochs / SNAPSHOTS_AN_EPOCH;
    if (in_tail(r) && (every == 0 || r->in_epoch % every == 0)) average_now(r);
    return WISP_OK;
}

/* The steps left of this epoch.  *stopped: on_progress asked to stop. */
static wisp_status train_epoch(struct wisp_run *r, struct clock *c, wisp_on_progress on_progress,
                               void *arg, bool *stopped, wisp_error *err)
{
    wisp_order_start(&r->order, r->epoch);
    for (size_t i = 0; i < r->in_epoch; i++)
        wisp_order_next(&r->order, r->rows, r->plan.batch); /* done before a resume */
    double began = wisp_now(), before = c->trained_s;
    for (size_t n; (n = wisp_order_next(&r->order, r->rows, r->plan.batch)) > 0;) {
        wisp_status st = step(r, n, err);
        if (st != WISP_OK) return st;
        c->rows += n;
        double now = wisp_now();
        c->trained_s = before + now - began;
        if (!on_progress || now - c->said < SAY_EVERY_S) continue;
        c->said = now;
        struct wisp_progress p;
        tell(&p, r, c);
        if (on_progress(arg, &p)) {
            *stopped = true;
            return WISP_OK;
        }
    }
    return WISP_OK;
}

static wisp_status validate(struct wisp_metrics *out, struct wisp_run *r, wisp_error *err)
{
    const size_t cuts[] = { 1, 3, 5 };
    wisp_status st = wisp_metrics_init(out, cuts, 3, r->m->label_rows, r->m->net.n_labels,
                                       r->m->n_train, 0.55, 1.5, err);
    return st == WISP_OK ? wisp_score_all(out, &r->scorer, r->valid, err) : st;
}

struct score { /* of an epoch's model, percent; -1: no validation rows */
    double p1, p3, p5;
    bool best;
};

/* Scores the validation rows and, if they are the best so far, saves the model. */
static wisp_status judge(struct score *out, struct wisp_run *r, wisp_error *err)
{
    *out = (struct score){ -1, -1, -1, true };
    if (!wisp_net_finite(&r->m->net)) /* the last step may do it, after its loss was fine */
        return wisp_fail(err, WISP_ENUMERIC,
                         "a weight is no number after epoch %d: the last good model is kept; try a "
                         "lower --lr than %g",
                         r->epoch, r->plan.lr);
    if (r->valid->n_rows > 0) {
        struct wisp_metrics m = { 0 };
        wisp_status st = validate(&m, r, err);
        if (st == WISP_OK)
            *out = (struct score){ wisp_metrics_p(&m, 0), wisp_metrics_p(&m, 1),
                                   wisp_metrics_p(&m, 2), false };
        wisp_metrics_clear(&m);
        if (st != WISP_OK) return st;
        out->best = out->p1 > r->best;
    }
    r->since_best = out->best ? 0 : r->since_best + 1;
    if (!out->best) return WISP_OK;
    r->best = out->p1;
    r->best_epoch = r->epoch;
    return wisp_model_save(r->m, r->path, r->best, r->epoch, err);
}

/* Hands the epoch to on_progress, with a line for a log; true: it asks to stop. */
static bool tell_epoch(const struct wisp_run *r, const struct clock *c, const struct score *s,
                       wisp_on_progress on_progress, void *arg)
{
    struct wisp_progress p;
    char json[600];
    size_t rows = r->m->net.n_labels;
    tell(&p, r, c);
    snprintf(json, sizeof json,
             "{\"epoch\":%d,\"epochs\":%d,\"step\":%zu,\"loss\":%.6f,\"lr\":%.6g,\"valid_p@1\":%."
             "4f,\"valid_p@3\":%.4f,"
             "\"valid_p@5\":%.4f,\"best\":%d,\"rows_per_s\":%.1f,\"active_mean\":%zu,\"scored_"
             "mean\":%zu,\"seconds\":%.3f}",
             r->epoch, r->plan.epochs, r->step, p.loss, r->opt.lr, s->p1, s->p3, s->p5, s->best,
             p.rows_per_s, rows, rows, wisp_now() - c->began);
    p.epoch_ended = 1;
    p.valid = s->p1;
    p.best = s->best;
    p.json = json;
    return on_progress && on_progress(arg, &p);
}

static wisp_status end_epoch(struct wisp_run *r, struct clock *c, wisp_on_progress on_progress,
                             void *arg, bool *stopped, wisp_error *err)
{
    bool averaged = r->n_averaged > 0;
    struct score s;
    if (averaged) use_block(r, r->average, r->m->net.params);
    wisp_status st = judge(&s, r, err);
    if (averaged) use_block(r, r->m->net.params, r->average);
    if (st == WISP_OK && tell_epoch(r, c, &s, on_progress, arg)) *stopped = true;
    r->epoch++;
    r->in_epoch = r->seen = 0;
    r->loss_sum = 0;
    return st;
}

static bool finished(const struct wisp_run *r)
{
    return r->epoch > r->plan.epochs || (r->plan.patience && r->since_best >= r->plan.patience);
}

static wisp_status run_epochs(struct wisp_run *r, struct clock *c, wisp_on_progress on_progress,
                              void *arg, wisp_error *err)
{
    bool stopped = false;
    while (!finished(r)) {
        wisp_status st = train_epoch(r, c, on_progress, arg, &stopped, err);
        if (st == WISP_OK && !stopped) st = end_epoch(r, c, on_progress, arg, &stopped, err);
        if (st == WISP_OK && !finished(r)) st = wisp_state_save(r, err);
        if (st != WISP_OK) return st;
        if (!stopped || finished(r)) continue;
        if (r->best_epoch == 0 &&
            access(r->path, F_OK) != 0) /* an older model there is better than a part of an epoch */
            st = wisp_model_save(r->m, r->path, -1, 0, err);
        if (st != WISP_OK) return st;
        return wisp_fail(err, WISP_ESTOPPED, "stopped in epoch %d; go on with --resume", r->epoch);
    }
    return WISP_OK;
}

static wisp_status report(struct wisp_report **out, const struct wisp_run *r, const struct clock *c,
                          wisp_error *err)
{
    struct wisp_report *t = wisp_report_create();
    wisp_report_num(t, "valid_p@1", r->best);
    wisp_report_num(t, "epochs", r->epoch - 1);
    wisp_report_num(t, "best_epoch", r->best_epoch);
    wisp_report_num(t, "rows", (double)r->train->n_rows);
    wisp_report_num(t, "samples_per_s", c->trained_s > 0 ? (double)c->rows / c->trained_s : 0);
    wisp_report_num(t, "seconds", wisp_now() - c->began);
    wisp_report_num(t, "train_seconds", c->trained_s);
    wisp_report_num(t, "active_mean", (double)r->m->net.n_labels);
    wisp_report_num(t, "scored_mean", (double)r->m->net.n_labels);
    wisp_report_num(t, "retrieval_recall", 1);
    wisp_report_num(t, "parameters", (double)wisp_net_n_params(&r->m->net));
    wisp_report_num(t, "peak_bytes", (double)wisp_mem_peak());
    return wisp_report_done(out, t, err);
}

wisp_status wisp_train_run(struct wisp_report **out, struct wisp_context *ctx,
                           const wisp_config *cfg, const struct wisp_data *train,
                           const struct wisp_data *valid, const char *path,
                           wisp_on_progress on_progress, void *arg, wisp_error *err)
{
    *out = NULL;
    struct wisp_run r = { .ctx = ctx, .train = train, .valid = valid, .path = path };
    struct clock c = { .began = wisp_now() };
    wisp_status st = make_run(&r, cfg, err);
    if (st == WISP_OK) st = run_epochs(&r, &c, on_progress, arg, err);
    if (st == WISP_OK) wisp_state_remove(&r);
    if (st == WISP_OK) st = report(out, &r, &c, err);
    clear_run(&r);
    return st;
}

/* Pruning: from a net to the smallest one that is as accurate, by training alone.
 *
 *   PATH.0   the net as it is, trained: what the others are held against
 *   PATH.1   goes on from it with a penalty on groups (model/penalty.h), by which channels vanish, and
 *            without it for the last third of the epochs
 *   PATH.2   goes on from that with a larger penalty, and so on, while validation P@1 allows; the
 *            first that does not is tried again with penalties between
 *
 * Unstructured, a rung takes a share of the single weights that the last good one has, the smallest
 * (model/magnitude.h): first most of them, then half of what is left, again and again.
 *
 * Every one is an ordinary model, trained by an ordinary run: --resume finds those that are finished,
 * and goes on with the one that is not.  The last good one becomes PATH, the others are removed. */
#include "api/frontier.h"
#include "api/predictor.h"
#include "base/bounds.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/report.h"
#include "base/text.h"
#include "config/options.h"
#include "model/memory.h"
#include "model/run.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_RUNGS = 16, USUAL = 9, TIMES = 5, MOST_MISSED = 3 };

/* How nets become smaller.  Where nothing is said a penalty begins low, as nobody knows the scale of
 * the loss; of weights one by one most are never missed. */
static const struct way {
    enum wisp_opt option;
    const char *key, *name;
    double first;
} GROUPS = { OPT_GROUP_PENALTY, "group-penalty", "penalty", 5e-4 },
  UNITS = { OPT_GROUP_CUT, "group-cut", "share", 0.5 },
  SINGLE = { OPT_MAGNITUDE, "magnitude", "share", 0.8 };
static const double NEXT_SHARE = 0.5, MOST_PENALTY = 1000; /* what the option takes */
static const double NARROW = 1.1; /* penalties that differ by less are not told apart */

/* Rungs are longer than the first run: units vanish slowly by a small penalty, and those that stay are
 * better ones.  784-256-256-10 on MNIST, one seed, validation P@1 and parameters: from one net 98.03 and
 * 60,171 by 0.001 in 10 epochs, 98.50 and 84,559 by 0.0005 in 20; from the next one 97.73 and 29,739 by
 * 0.002 in 10, 97.91 and 30,479 by 0.0014 in 20. */
static const double LONGER = 2;

/* Validation rows. */
static const double MANY = 10000;

static const size_t BATCHES[2] = { 1, WISP_RUNG_BATCH };

/* SGD's own default is for few epochs. */
static const char RATE[] = "0.1";

struct pruning {
    wisp_context *ctx;
    const wisp_config *cfg;
    const struct wisp_data *train, *valid;
    const char *path;
    bool images; /* the net reads them: such nets have rates of their own */
    const struct way *way;
    wisp_on_progress told;
    void *arg;
    struct wisp_rung rungs[MOST_RUNGS];
    double took[MOST_RUNGS]; /* seconds of each, held-out rows and measurements included */
    int n, best, missed;     /* rungs; the smallest good one; those that were too much */
    double batch, epochs;    /* of the net as it is */
    double began, budget;    /* seconds; 0: none was given */
};

/* Many labels are trained as 'train' would: sampled, with rates for rows that are seldom seen. */
static bool wide(const struct pruning *p)
{
    return p->train->n_labels > WISP_FEW_LABELS;
}

/* Epochs of a rung, beside those of the net as it is. */
static double longer(const struct pruning *p)
{
    const bool given = wisp_opt_num(p->cfg, OPT_EPOCHS) > 0;
    return given || p->images || wide(p) ? 1 : LONGER;
}

static double least_valid(const struct pruning *p)
{
    return p->rungs[0].valid - wisp_opt_num(p->cfg, OPT_TARGET_DROP);
}

static struct wisp_frontier frontier(const struct pruning *p)
{
    return (struct wisp_frontier){ p->rungs, p->n, p->best, least_valid(p), p->way->name };
}

/* ---- what is to come ---- */

/* Rungs after the one that is being trained, about: nobody knows how many will be good. */
static int rungs_to_come(const struct pruning *p)
{
    if (p->missed > 0) return MOST_MISSED - p->missed;
    return p->n < USUAL - MOST_MISSED ? USUAL - p->n : MOST_MISSED;
}

/* Seconds of a rung, by the last one, or by the net as it is; those that a run before this one has
 * trained took none here. */
static double rung_seconds(const struct pruning *p, double whole)
{
    for (int i = p->n - 1; i > 0; i--)
        if (p->took[i] > 0) return p->took[i];
    return (p->took[0] > 0 ? p->took[0] : whole) * longer(p);
}

/* A run's progress, with the time that all of them will take. */
static int tell(void *arg, const wisp_progress *at)
{
    const struct pruning *p = arg;
    wisp_progress all = *at;
    all.eta_s += rungs_to_come(p) * rung_seconds(p, at->train_s + at->eta_s);
    return p->told(p->arg, &all);
}

static void say_plan(const struct pruning *p)
{
    const double speedup = wisp_opt_num(p->cfg, OPT_TARGET_SPEEDUP),
                 first = wisp_opt_num(p->cfg, p->way->option);
    char fast[80] = "", time[60] = "";
    if (speedup > 0) wisp_print(fast, sizeof fast, ", or it is %g times as fast", speedup);
    if (p->budget > 0) wisp_print(time, sizeof time, ", as far as %g s reach", p->budget);
    wisp_say(
        p->ctx,
        "prune     the net as it is, then smaller ones, each from the last that was good: %s "
        "%g at first, until %d lost more than %g points of validation P@1%s; %d nets at most%s",
        p->way->name, first > 0 ? first : p->way->first, MOST_MISSED,
        wisp_opt_num(p->cfg, OPT_TARGET_DROP), fast, MOST_RUNGS, time);
}

static void say_next(const struct pruning *p, double lambda)
{
    double left = (1 + rungs_to_come(p)) * rung_seconds(p, 0);
    if (p->budget > 0) left = fmin(left, p->budget - (wisp_now() - p->began));
    wisp_say(p->ctx,
             "prune     net %d, %s %g, from the %.0f parameters of net %d; about %.0f %s left",
             p->n, p->way->name, lambda, p->rungs[p->best].params, p->best,
             left < 180 ? left : left / 60, left < 180 ? "s" : "min");
}

/* ---- a rung ---- */

static void rung_path(char out[PATH_MAX], const struct pruning *p, int i)
{
    snprintf(out, PATH_MAX, "%s.%d", p->path, i);
}

/* Tenths of a point must be seen: a tenth of the rows, or what --holdout takes by itself, where that is
 * more than MANY. */
static double holdout(double n)
{
    return fmin(0.1, fmax(MANY, fmin(0.02 * n, 2 * MANY)) / n);
}

static wisp_status set_num(wisp_config *cfg, const char *key, double x, wisp_error *err)
{
    char text[40];
    wisp_print(text, sizeof text, "%.9g", x);
    return wisp_config_set(cfg, key, text, err);
}

/* Of a rung that goes on from another: batches as the first had them, since a rate fits a batch, and
 * epochs (see LONGER). */
static wisp_status go_on(wisp_config *cfg, const struct pruning *p, int from, wisp_error *err)
{
    char init[PATH_MAX];
    rung_path(init, p, from);
    wisp_status st = wisp_config_set(cfg, "init", init, err);
    if (st == WISP_OK && wisp_opt_num(p->cfg, OPT_BATCH) == 0)
        st = set_num(cfg, "batch", p->batch, err);
    if (st == WISP_OK && wisp_opt_num(p->cfg, OPT_EPOCHS) == 0)
        st = set_num(cfg, "epochs", p->epochs * longer(p), err);
    return st;
}

/* The options of a rung's run: those of the command, but for what makes it a rung. */
static wisp_status settings(wisp_config **out, const struct pruning *p, int i, int from,
                            wisp_error *err)
{
    /* The time is that of all rungs; the net of one that goes on is the model's. */
    static const enum wisp_opt aside[] = { OPT_BUDGET, OPT_NET, OPT_HIDDEN, OPT_DROPOUT, OPT_INIT };
    const size_t n_aside = i > 0 ? sizeof aside / sizeof *aside : 1;
    wisp_status st = wisp_config_create(out, err);
    if (st == WISP_OK) st = wisp_config_take(*out, p->cfg, aside, n_aside, err);
    if (st == WISP_OK && !wide(p) && wisp_opt_auto(p->cfg, OPT_OPTIMIZER))
        st = wisp_config_set(*out, "optimizer", "sgd", err); /* whose steps the penalty's fit */
    if (st == WISP_OK && wisp_opt_auto(p->cfg, OPT_LOSS) && p->train->n_lab == p->train->n_rows)
        st = wisp_config_set(*out, "loss", "softmax", err);
    if (st == WISP_OK && !wide(p) && wisp_opt_num(p->cfg, OPT_LR) == 0 && !p->images)
        st = wisp_config_set(*out, "lr", RATE, err);
    if (st == WISP_OK && !wide(p) && !wisp_opt_given(p->cfg, OPT_SAMPLING))
        st = wisp_config_set(*out, "sampling", "full", err);
    if (st == WISP_OK && !p->valid && wisp_opt_num(p->cfg, OPT_HOLDOUT) < 0 &&
        (double)p->train->n_rows > 2 * MANY)
        st = set_num(*out, "holdout", holdout((double)p->train->n_rows), err);
    if (st == WISP_OK && p->way == &GROUPS && !wisp_opt_given(p->cfg, OPT_GROUP_WEIGHTS))
        st = wisp_config_set(*out, "group-weights", "operations", err); /* time is what counts */
    if (st == WISP_OK) st = set_num(*out, p->way->key, i ? p->rungs[i].lambda : 0, err);
    if (st == WISP_OK && wisp_opt_auto(p->cfg, OPT_ROUND))
        st = wisp_config_set(*out, "round", "yes", err);
    return st == WISP_OK && i > 0 ? go_on(*out, p, from, err) : st;
}

/* Microseconds of a row: the least of some rounds, of one thread, or of the card. */
static wisp_status measure(double *us, const struct pruning *p, const struct wisp_model *m,
                           const struct wisp_data *rows, size_t batch, wisp_error *err)
{
    struct wisp_context one = { .k = p->ctx->k, .conv = p->ctx->conv };
    struct wisp_prediction how = wisp_prediction_of(p->cfg);
    wisp_predictor *predictor = NULL;
    const size_t n = rows->n_rows < batch ? rows->n_rows : batch;
    int32_t *labels = wisp_alloc(batch, sizeof *labels);
    float *scores = wisp_alloc(batch, sizeof *scores);
    if (how.cuda) how.zeros = WISP_ZEROS_OFF; /* which is of training there */
    wisp_status st = labels && scores ? wisp_pool_create(&one.pool, 1, err)
                                      : wisp_fail_mem(err, batch * 8, "predictions");
    if (st == WISP_OK) st = wisp_predictor_make(&predictor, &one, m, how, 1, err);
    *us = INFINITY;
    for (int t = 0; st == WISP_OK && t < TIMES; t++) {
        const double began = wisp_now();
        size_t calls = 0;
        for (; st == WISP_OK && (calls == 0 || wisp_now() - began < 0.02); calls++)
            st = wisp_predictor_run(labels, scores, predictor, rows, 0, n, err);
        *us = fmin(*us, 1e6 * (wisp_now() - began) / (double)(calls * n));
    }
    wisp_predictor_free(predictor);
    wisp_pool_free(one.pool);
    wisp_free(labels);
    wisp_free(scores);
    return st;
}

/* Operations of a row; of layers that read lists of features, whose number is the row's, by the mean. */
static double operations(const struct wisp_net *net, const struct wisp_data *rows)
{
    double n = wisp_net_flops(net, false);
    for (size_t i = 0; i < net->list.n; i++) {
        const struct wisp_param *q = &net->list.p[i];
        if (q->by == WISP_BY_FEATURE && !net->layers[q->layer].kind->flops)
            n += 2 * (double)q->cols * (double)rows->nnz / (double)rows->n_rows;
    }
    return n;
}

/* What the model of a rung is, and how fast. */
static wisp_status look_at(struct wisp_rung *r, const struct pruning *p, const char *path,
                           wisp_error *err)
{
    struct wisp_model *m = NULL;
    wisp_status st = wisp_model_open(&m, p->ctx->pool, path, err);
    for (int i = 0; i < 2 && st == WISP_OK; i++)
        st = measure(&r->us[i], p, m, p->train, BATCHES[i], err);
    if (st == WISP_OK) {
        r->params = (double)wisp_net_n_params(&m->net);
        r->flops = operations(&m->net, p->train);
    }
    wisp_model_free(m);
    return st;
}

static wisp_status train_rung(struct pruning *p, int from, wisp_error *err)
{
    const int i = p->n;
    struct wisp_rung *r = &p->rungs[i];
    wisp_config *cfg = NULL;
    struct wisp_report *report = NULL;
    char path[PATH_MAX];
    const double began = wisp_now();
    rung_path(path, p, i);
    wisp_status st = settings(&cfg, p, i, from, err);
    if (st == WISP_OK)
        st = wisp_train_run(&report, p->ctx, cfg, p->train, p->valid, path, p->told ? tell : NULL,
                            p, err);
    if (st == WISP_OK) {
        wisp_report_get(report, "valid_p@1", &r->valid);
        wisp_report_get(report, "train_seconds", &r->seconds);
        if (i == 0) wisp_report_get(report, "batch", &p->batch);
        if (i == 0) wisp_report_get(report, "epochs", &p->epochs);
        if (r->valid < 0)
            st = wisp_fail(err, WISP_EINVAL,
                           "pruning needs validation rows to choose by: --valid FILE, or --holdout "
                           "above 0");
    }
    if (st == WISP_OK) st = look_at(r, p, path, err);
    p->took[i] = r->seconds > 0 ? wisp_now() - began : 0;
    wisp_report_free(report);
    wisp_config_free(cfg);
    if (st == WISP_OK) p->n++;
    return st;
}

static void say_rung(const struct pruning *p, const struct wisp_rung *r)
{
    const struct wisp_rung *whole = &p->rungs[0];
    char flops[WISP_FLOPS_TEXT];
    if (r == whole) {
        wisp_say(p->ctx,
                 "prune     as it is: validation P@1 %.2f, %.0f parameters, %s per row, %.1f us "
                 "with one row per call, %.2f us with %zu%s",
                 r->valid, r->params, wisp_flops_text(flops, r->flops), r->us[0], r->us[1],
                 BATCHES[1], wisp_opt_is(p->cfg, OPT_DEVICE, "cuda") ? ", on the card" : "");
        return;
    }
    wisp_say(p->ctx,
             "prune     %s %g: validation P@1 %.2f (%+.2f), %.0f parameters (%.1f times "
             "fewer), %.1f times fewer operations, %.2f times as fast with one row per call, %.2f "
             "times with %zu%s",
             p->way->name, r->lambda, r->valid, r->valid - whole->valid, r->params,
             whole->params / r->params, whole->flops / r->flops, whole->us[0] / r->us[0],
             whole->us[1] / r->us[1], BATCHES[1], r->good ? "" : ": not accurate enough");
}

static bool fast_enough(const struct pruning *p, double speedup)
{
    return speedup > 0 && p->rungs[0].us[1] >= speedup * p->rungs[p->best].us[1];
}

/* Is there time for one more, which takes no longer than the last? */
static bool reaches(const struct pruning *p)
{
    return p->budget == 0 || wisp_now() - p->began + rung_seconds(p, 0) < p->budget;
}

/* The next penalty after one that was good, by the operations that it took out, of what there was
 * before: parameters may go by the half in late layers, and the time of the early ones stay.  Once one
 * was too much, between the largest good one and the smallest that was too much.  Shares are of what the
 * last good one has: half, and less once that was too much. */
static double next_penalty(const struct pruning *p, const struct wisp_rung *last, double last_flops,
                           double too_much)
{
    const double left = last->flops / last_flops;
    if (p->way != &GROUPS && !last->good) return 1 - sqrt(1 - last->lambda);
    if (p->way != &GROUPS) return too_much > 0 ? last->lambda : NEXT_SHARE;
    if (too_much > 0) return sqrt(too_much * fmax(p->rungs[p->best].lambda, too_much / 4));
    return last->lambda * (left > 0.99 ? 4 : left > 0.9 ? 2 : sqrt(2));
}

/* Is there nothing left to try between the largest good penalty and the smallest that was too much? */
static bool narrow(const struct pruning *p, double too_much)
{
    return p->way == &GROUPS && too_much > 0 && too_much < NARROW * p->rungs[p->best].lambda;
}

/* From rung to rung, each from the last good one, until some were too much. */
static wisp_status climb(struct pruning *p, wisp_error *err)
{
    const double speedup = wisp_opt_num(p->cfg, OPT_TARGET_SPEEDUP);
    double lambda = wisp_opt_num(p->cfg, p->way->option), too_much = 0;
    if (lambda == 0) lambda = p->way->first;
    say_plan(p);
    wisp_status st = train_rung(p, 0, err);
    if (st != WISP_OK) return st;
    say_rung(p, &p->rungs[0]);
    while (st == WISP_OK && p->n < MOST_RUNGS && p->missed < MOST_MISSED &&
           lambda <= MOST_PENALTY && !narrow(p, too_much) && !fast_enough(p, speedup)) {
        struct wisp_rung *r = &p->rungs[p->n];
        const double flops = p->rungs[p->best].flops;
        if (!reaches(p)) {
            wisp_say(p->ctx, "prune     the time does not reach for another net");
            break;
        }
        r->lambda = lambda;
        say_next(p, lambda);
        if ((st = train_rung(p, p->best, err)) != WISP_OK) break;
        r->good = r->valid >= least_valid(p);
        say_rung(p, r);
        if (r->good) p->best = p->n - 1;
        else too_much = lambda, p->missed++;
        lambda = next_penalty(p, r, flops, too_much);
    }
    return st;
}

static wisp_status report(struct wisp_report **out, const struct pruning *p, double seconds,
                          wisp_error *err)
{
    const struct wisp_rung *whole = &p->rungs[0], *small = &p->rungs[p->best];
    struct wisp_report *t = wisp_report_create();
    const struct wisp_frontier f = frontier(p);
    char *rungs = wisp_frontier_json(&f);
    wisp_report_num(t, "weights_before", whole->params);
    wisp_report_num(t, "weights", small->params);
    wisp_report_num(t, "weights_ratio", whole->params / small->params);
    wisp_report_num(t, "flops_ratio", small->flops > 0 ? whole->flops / small->flops : 1);
    wisp_report_num(t, "valid_p@1_before", whole->valid);
    wisp_report_num(t, "valid_p@1", small->valid);
    wisp_report_num(t, "accuracy_drop", whole->valid - small->valid);
    wisp_report_num(t, "time_ratio", whole->us[1] / small->us[1]);
    wisp_report_num(t, "time_ratio_1", whole->us[0] / small->us[0]);
    wisp_report_num(t, p->way->name, small->lambda);
    wisp_report_num(t, "seconds", seconds);
    if (rungs) wisp_report_object(t, "frontier", rungs);
    wisp_free(rungs);
    return wisp_report_done(out, t, err);
}

/* The best rung becomes the model; the others go. */
static wisp_status settle(const struct pruning *p, wisp_error *err)
{
    char path[PATH_MAX];
    rung_path(path, p, p->best);
    if (rename(path, p->path) != 0)
        return wisp_fail_errno(err, WISP_EIO, p->path, "the model cannot be put there");
    for (int i = 0; i < p->n; i++) {
        rung_path(path, p, i);
        if (i != p->best) unlink(path);
    }
    if (p->best == 0)
        wisp_say(p->ctx, "prune     no smaller net was %s: the model is the net as it is",
                 p->n > 1 ? "as accurate" : "tried");
    for (int b = 0; b < 2 && p->best > 0; b++)
        if (p->rungs[p->best].us[b] > 0.95 * p->rungs[0].us[b])
            wisp_say(p->ctx, "prune     the smaller net is not faster here with %zu row%s per call",
                     BATCHES[b], wisp_plural(BATCHES[b]));
    return WISP_OK;
}

static wisp_status reads_images(bool *out, const wisp_config *cfg, wisp_error *err)
{
    struct wisp_net_text text = { 0 };
    struct wisp_model *m = NULL;
    const char *init = wisp_opt_text(cfg, OPT_INIT), *net = wisp_opt_text(cfg, OPT_NET);
    wisp_status st = WISP_OK;
    *out = false;
    if (*net) st = wisp_net_text_read(&text, net, err);
    else if (*init) st = wisp_model_open(&m, NULL, init, err);
    if (st == WISP_OK && *net) *out = wisp_net_text_images(&text, NULL);
    else if (m) *out = wisp_net_image(&m->net) != NULL;
    wisp_net_text_clear(&text);
    wisp_model_free(m);
    return st;
}

/* A picture that cannot be written is to be told of before the nets are trained. */
static wisp_status try_plot(const char *path, wisp_error *err)
{
    struct wisp_out *file;
    wisp_status st = wisp_out_create(&file, path, err);
    if (st == WISP_OK) wisp_out_abort(file);
    return st;
}

wisp_status wisp_prune(wisp_report **out, wisp_context *ctx, const wisp_config *cfg,
                       const wisp_data *train, const wisp_data *valid, const char *path,
                       wisp_on_progress on_progress, void *arg, wisp_error *err)
{
    struct pruning p = { .ctx = ctx,
                         .cfg = cfg,
                         .train = train,
                         .valid = valid,
                         .path = path,
                         .told = on_progress,
                         .arg = arg,
                         .began = wisp_now() };
    const bool single = wisp_opt_on(cfg, OPT_UNSTRUCTURED) || wisp_opt_num(cfg, OPT_MAGNITUDE) > 0;
    char plot[PATH_MAX];
    struct wisp_lock lock;
    *out = NULL;
    const bool units = wisp_opt_num(cfg, OPT_GROUP_CUT) > 0 ||
                       (wide(&p) && wisp_opt_num(cfg, OPT_GROUP_PENALTY) == 0);
    p.way = single ? &SINGLE : units ? &UNITS : &GROUPS;
    if (strlen(path) + 40 >= PATH_MAX)
        return wisp_fail(err, WISP_EINVAL, "%.100s...: the path is too long", path);
    if (*wisp_opt_text(cfg, OPT_PLOT))
        snprintf(plot, sizeof plot, "%s", wisp_opt_text(cfg, OPT_PLOT));
    else snprintf(plot, sizeof plot, "%s.svg", path);
    wisp_status st = wisp_opt_time(&p.budget, cfg, OPT_BUDGET, err);
    if (st == WISP_OK) st = reads_images(&p.images, cfg, err);
    if (st == WISP_OK) st = wisp_lock_take(&lock, path, err);
    if (st != WISP_OK) return st;
    st = try_plot(plot, err);
    if (st == WISP_OK) st = climb(&p, err);
    const struct wisp_frontier f = frontier(&p);
    if (st == WISP_OK) wisp_frontier_say(&f, ctx);
    if (st == WISP_OK) st = wisp_frontier_plot(&f, plot, path, err);
    if (st == WISP_OK) st = report(out, &p, wisp_now() - p.began, err);
    if (st == WISP_OK && (st = settle(&p, err)) != WISP_OK) {
        wisp_report_free(*out);
        *out = NULL;
    }
    wisp_lock_give(&lock);
    return st;
}

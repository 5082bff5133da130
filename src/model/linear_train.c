/* Training a linear model, as a run like any other: a plan that is said first, progress, held-out rows,
 * calibration, checkpoints, --resume.
 *
 * There are no epochs as nets have them.  Labels are trained one after the other without the held-out
 * rows; these say how good the model is, and calibrate it.  Where they are many, all labels are then
 * trained a second time with them, and the calibration stays: that is epoch 2.  Steps are labels. */
#include "base/bounds.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/report.h"
#include "base/text.h"
#include "model/about.h"
#include "model/kind.h"
#include "model/linear_run.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static const double SAY_EVERY_S = 0.1;

struct watch {
    struct wisp_run *r;
    wisp_on_progress on_progress; /* may be NULL */
    void *arg;
    double began, said, trained_s, kept_at;
    size_t first_step; /* where the run began or was resumed */
    size_t kept_step;
    char *head; /* what the run is (about.h) */
    char *json; /* the line of an epoch: LINE_ROOM, and room for the head */
};
enum { LINE_ROOM = 600 };

/* ---- the plan ---- */

/* Seconds of training by estimate: visits of rows, 3 ns for each of their features and 10 besides. */
static double guess_seconds(const struct wisp_run *r)
{
    const struct wisp_linear_run *l = r->linear;
    const struct wisp_data *d = r->sets.train;
    const double rows = (double)d->n_rows, labels = (double)r->m->net.n_labels,
                 nnz = (double)d->nnz / rows, threads = wisp_pool_threads(r->ctx->pool);
    const double each = (double)wisp_negatives_each(&l->hard);
    const double pairs =
        l->all ? rows * labels : rows * each + (double)d->n_lab + labels * (double)l->hard.random;
    const double visit = 10 + 3 * nnz, votes = l->all ? 0 : 2e-6 * nnz * rows;
    return (l->refit ? 2 : 1) * (6e-9 * pairs * visit + votes) / threads;
}

static wisp_status say_plan(const struct wisp_run *r, const wisp_config *cfg, wisp_error *err)
{
    const struct wisp_linear_run *l = r->linear;
    const struct wisp_negatives_how *hard = &l->hard;
    const size_t need = wisp_linear_bytes(l, r), have = wisp_mem_available();
    const int threads = wisp_pool_threads(r->ctx->pool);
    char needed[WISP_BYTES_TEXT], found[WISP_BYTES_TEXT];
    wisp_run_say_data(r);
    wisp_say(r->ctx,
             "model     linear; %zu labels, %s loss, cost %g, weights below %g dropped; seed %llu",
             r->m->net.n_labels, l->how.loss->name, (double)l->how.cost, (double)l->how.drop,
             (unsigned long long)r->plan.seed);
    if (l->all) wisp_say(r->ctx, "negatives all rows that do not have a label");
    else
        wisp_say(
            r->ctx,
            "negatives by votes of features: of each row %zu labels and %g %% of the next %zu, "
            "%zu random rows per label",
            hard->always, 100 * hard->share, hard->up_to - hard->always, hard->random);
    if (r->init.model) wisp_init_say(r, wisp_opt_text(cfg, OPT_INIT));
    if (l->refit) wisp_say(r->ctx, "training  twice: the second time with the held-out rows");
    wisp_bytes_text(needed, need), wisp_bytes_text(found, have);
    wisp_say(r->ctx, "memory    %s needed, and what the weights take; %s free", needed, found);
    wisp_say(r->ctx, "machine   cpu, %d thread%s, %s kernels; about %.0f s", threads,
             wisp_plural((size_t)threads), r->ctx->k->name, ceil(guess_seconds(r)));
    if (r->plan.memory && need > r->plan.memory)
        return wisp_fail_option(err, "memory",
                                "a linear model is trained with all rows in memory: %s needed (%zu "
                                "bytes); raise it, or train a net",
                                needed, need);
    if (have && need > have)
        return wisp_fail(err, WISP_ENOMEM, "%s needed, %s free: train a net, or fewer rows", needed,
                         found);
    return WISP_OK;
}

/* Everything but what the caller has set. */
static wisp_status make(struct wisp_run *r, const wisp_config *cfg, wisp_error *err)
{
    struct wisp_plan *p = &r->plan;
    const struct wisp_data *d = r->sets.train;
    wisp_status st;
    if ((st = wisp_need_labels(d, "train on", err)) != WISP_OK) return st;
    if ((st = wisp_init_open(r, cfg, err)) != WISP_OK ||
        (st = wisp_plan_make(p, cfg, r->ctx->k, d, r->init.model, r->sets.valid != NULL, err)) !=
            WISP_OK ||
        (st = wisp_run_model(r, cfg, err)) != WISP_OK ||
        (st = wisp_run_weights(r, cfg, err)) != WISP_OK ||
        (st = wisp_run_split(r, 0, err)) != WISP_OK)
        return st;
    if ((st = wisp_linear_plan(r->linear, r, cfg, err)) != WISP_OK ||
        (st = say_plan(r, cfg, err)) != WISP_OK || (st = wisp_about_run(r, err)) != WISP_OK)
        return st;
    if (r->init.model && r->sets.valid->n_rows == 0) wisp_init_calibration(r);
    if (r->init.model && (st = wisp_map_check(&r->init.model->file.map, err)) != WISP_OK) return st;
    p->epochs = r->linear->refit ? 2 : 1;
    p->patience = 0;
    r->at.epoch = 1;
    r->at.best = r->at.best_loss = -1;
    r->at.steps = (size_t)p->epochs * r->m->net.n_labels;
    if (wisp_opt_on(cfg, OPT_RESUME)) st = wisp_state_load(r, err);
    return st == WISP_OK ? wisp_state_begin(r, err) : st;
}

/* ---- progress ---- */

static void tell(struct wisp_progress *p, const struct watch *c)
{
    const struct wisp_run *r = c->r;
    const double n_labels = (double)r->m->net.n_labels,
                 done = (double)r->at.step - (r->at.epoch - 1) * n_labels, share = done / n_labels,
                 n_rows = (double)r->feed.order.n_rows,
                 trained = (double)(r->at.step - c->first_step),
                 rate = c->trained_s > 0 ? trained / c->trained_s : 0; /* of labels */
    *p = (struct wisp_progress){
        .epoch = r->at.epoch,
        .epochs = r->plan.epochs,
        .rows_done = (size_t)(share * n_rows),
        .n_rows = r->feed.order.n_rows,
        .loss = done > 0 ? r->at.loss_sum / done : 0,
        .rows_per_s = rate * n_rows / n_labels,
        .eta_s = rate > 0 ? (double)(r->at.steps - r->at.step) / rate : 0,
        .rows_trained = (size_t)(trained * n_rows / n_labels),
        .train_s = c->trained_s,
        .active = n_labels,
        .scored = n_labels,
        .recall = 1,
        .valid = -1,
        .run = c->head,
    };
}

static bool asked_to_stop(void *watch)
{
    struct watch *c = watch;
    const double now = wisp_now();
    if (now - c->said < SAY_EVERY_S) return false;
    c->said = now;
    if (!c->on_progress) return false;
    struct wisp_progress p;
    tell(&p, c);
    return c->on_progress(c->arg, &p) != 0;
}

/* The first epoch is the only one that is told: the second is not judged, so its line would say nothing. */
static bool tell_epoch(struct watch *c, const double valid[3], double loss)
{
    const struct wisp_run *r = c->r;
    struct wisp_progress p;
    tell(&p, c);
    wisp_print(c->json, LINE_ROOM + strlen(c->head),
               "{\"epoch\":%d,\"epochs\":1,\"step\":%zu,\"loss\":%.6f,\"valid_p@1\":%.4f,"
               "\"valid_p@3\":%.4f,\"valid_p@5\":%.4f,\"valid_loss\":%.6f,\"best\":1,"
               "\"rows_per_s\":%.1f,\"train_seconds\":%.3f,\"seconds\":%.3f,\"peak_bytes\":%zu,"
               "\"last\":1,\"run\":%s}",
               r->at.epoch, r->at.step, p.loss, valid[0], valid[1], valid[2], loss, p.rows_per_s,
               c->trained_s, wisp_now() - c->began, wisp_mem_peak(), c->head);
    p.epoch_ended = 1;
    p.valid = valid[0];
    p.best = 1;
    p.json = c->json;
    return c->on_progress && c->on_progress(c->arg, &p);
}

/* ---- the run ---- */

static wisp_status checkpoint(struct watch *c, wisp_error *err)
{
    struct wisp_run *r = c->r;
    if (!r->path || c->kept_step == r->at.step) return WISP_OK;
    wisp_status st = wisp_state_save(r, err);
    c->kept_at = wisp_now();
    c->kept_step = r->at.step;
    return st;
}

static bool checkpoint_due(const struct watch *c)
{
    const struct wisp_plan *p = &c->r->plan;
    return (p->checkpoint_steps && c->r->at.step - c->kept_step >= p->checkpoint_steps) ||
           (p->checkpoint_s > 0 && wisp_now() - c->kept_at >= p->checkpoint_s);
}

/* The labels that are left of this epoch. */
static wisp_status train_epoch(struct watch *c, wisp_error *err)
{
    struct wisp_run *r = c->r;
    struct wisp_linear_run *l = r->linear;
    const size_t n_labels = r->m->net.n_labels, before = (size_t)(r->at.epoch - 1) * n_labels;
    double began = wisp_now() - c->trained_s;
    wisp_status st = wisp_linear_epoch(r, err);
    while (st == WISP_OK && l->done.n_labels < n_labels) {
        st = wisp_linear_train_some(l->trainer, err);
        r->at.step = before + l->done.n_labels;
        r->at.loss_sum = l->done.objective;
        c->trained_s = wisp_now() - began;
        if (st == WISP_OK && l->done.n_labels < n_labels && checkpoint_due(c)) {
            const double at = wisp_now();
            st = checkpoint(c, err);
            began += wisp_now() - at; /* saving is not training */
        }
        if (st == WISP_OK && asked_to_stop(c)) st = WISP_ESTOPPED;
    }
    return st;
}

/* Scores the held-out rows by the model as it is, and calibrates it. */
static wisp_status judge(struct watch *c, double valid[3], double *loss, wisp_error *err)
{
    struct wisp_run *r = c->r;
    struct wisp_model *m = r->m;
    static const size_t cuts[] = { 1, 3, 5 };
    struct wisp_metrics found = { 0 };
    struct wisp_calibration fit;
    wisp_scorer_clear(&r->scorer);
    wisp_status st = wisp_scorer_init(&r->scorer, m, r->ctx, WISP_ZEROS_OFF, 5, err);
    if (st == WISP_OK)
        st = wisp_metrics_init(&found, cuts, 3, m->label_rows, m->net.n_labels, m->n_train, 0.55,
                               1.5, err);
    if (st == WISP_OK) st = wisp_pairs_watch(&r->pairs, &r->scorer, r->sets.valid->n_rows, err);
    if (st == WISP_OK)
        st = wisp_score_all(&found, &r->scorer, r->sets.valid, asked_to_stop, c, err);
    for (int i = 0; i < 3 && st == WISP_OK; i++) valid[i] = wisp_metrics_p(&found, (size_t)i);
    if (st == WISP_OK) *loss = wisp_calibration_fit(&fit, &r->pairs);
    wisp_metrics_clear(&found);
    if (st != WISP_OK) return st;
    wisp_about_validation(m, valid[1], valid[2], *loss);
    return wisp_model_calibrate(m, &r->scorer, &r->pairs, r->sets.valid, err);
}

/* The model of an epoch.  Held-out rows judge the first: those of the second were trained on. */
static wisp_status end_epoch(struct watch *c, wisp_error *err)
{
    struct wisp_run *r = c->r;
    double valid[3] = { r->at.best, -1, -1 }, loss = r->at.best_loss;
    wisp_status st = wisp_linear_give(r, err);
    wisp_linear_epoch_clear(r->linear);
    if (st == WISP_OK && r->at.epoch == 1 && r->sets.valid->n_rows > 0)
        st = judge(c, valid, &loss, err);
    if (st != WISP_OK) return st;
    r->at.best = valid[0];
    r->at.best_loss = loss;
    r->at.best_epoch = r->at.epoch;
    if (r->path) st = wisp_model_save(r->m, r->path, r->at.best, r->at.epoch, r->at.saved, err);
    if (st != WISP_OK) return st;
    const bool stop = r->at.epoch == 1 && tell_epoch(c, valid, loss);
    r->at.epoch++;
    r->at.loss_sum = 0;
    return stop ? WISP_ESTOPPED : WISP_OK;
}

static wisp_status run_epochs(struct watch *c, wisp_error *err)
{
    struct wisp_run *r = c->r;
    wisp_status st = WISP_OK;
    while (st == WISP_OK && !r->at.finished && r->at.epoch <= r->plan.epochs) {
        st = train_epoch(c, err);
        if (st == WISP_OK) st = end_epoch(c, err);
    }
    if (st != WISP_ESTOPPED || r->at.epoch > r->plan.epochs)
        return st == WISP_ESTOPPED ? WISP_OK : st;
    if ((st = checkpoint(c, err)) != WISP_OK) return st;
    return wisp_fail(err, WISP_ESTOPPED, "stopped after %zu of %zu labels%s", r->at.step,
                     r->at.steps, r->path ? "; go on with --resume" : "");
}

static wisp_status report(struct wisp_report **out, const struct watch *c, wisp_error *err)
{
    const struct wisp_run *r = c->r;
    const struct wisp_calibration *exact = r->m->calibration[WISP_EXACT];
    struct wisp_report *t = wisp_report_create();
    struct wisp_progress p;
    tell(&p, c);
    wisp_report_num(t, "valid_p@1", r->at.best);
    wisp_report_num(t, "valid_loss", r->at.best_loss);
    wisp_report_num(t, "epochs", r->at.epoch - 1);
    wisp_report_num(t, "best_epoch", r->at.best_epoch);
    wisp_report_num(t, "valid_ece_raw", exact ? exact->ece_raw : -1);
    wisp_report_num(t, "valid_ece", exact ? exact->ece : -1);
    wisp_report_num(t, "rows", (double)r->sets.train->n_rows);
    wisp_report_num(t, "samples_per_s", p.rows_per_s);
    wisp_report_num(t, "seconds", wisp_now() - c->began);
    wisp_report_num(t, "train_seconds", c->trained_s);
    if (r->m->linear.start)
        wisp_report_num(t, "parameters", (double)wisp_kind_linear.n_params(r->m));
    wisp_report_num(t, "peak_bytes", (double)wisp_mem_peak());
    return wisp_report_done(out, t, err);
}

static wisp_status make_lines(struct watch *c, wisp_error *err)
{
    wisp_status st = wisp_about_head(&c->head, c->r, err);
    const size_t room = st == WISP_OK ? LINE_ROOM + strlen(c->head) : 0;
    if (st == WISP_OK && !(c->json = wisp_alloc(room, 1)))
        st = wisp_fail_mem(err, room, "the line of an epoch");
    return st;
}

wisp_status wisp_linear_train(struct wisp_report **out, struct wisp_context *ctx,
                              const wisp_config *cfg, const struct wisp_data *train,
                              const struct wisp_data *valid, const char *path,
                              wisp_on_progress on_progress, void *arg, wisp_error *err)
{
    struct wisp_linear_run linear = { 0 };
    struct wisp_run r = {
        .ctx = ctx, .sets = { .train = train, .valid = valid }, .path = path, .linear = &linear
    };
    struct watch c = { .r = &r, .on_progress = on_progress, .arg = arg, .began = wisp_now() };
    *out = NULL;
    wisp_status st = make(&r, cfg, err);
    if (st == WISP_OK) st = make_lines(&c, err);
    c.first_step = c.kept_step = r.at.step, c.kept_at = wisp_now();
    if (st == WISP_OK) st = run_epochs(&c, err);
    if (path && st == WISP_OK) wisp_state_remove(&r, true, true);
    else if (r.at.begun && c.kept_step == 0 && !r.at.saved[0]) wisp_state_remove(&r, true, false);
    if (st == WISP_OK) st = report(out, &c, err);
    wisp_free(c.head);
    wisp_free(c.json);
    wisp_linear_epoch_clear(&linear);
    wisp_linear_done_clear(&linear.done);
    wisp_linear_done_clear(&linear.old);
    wisp_run_clear(&r);
    return st;
}

/* The training run: epochs of steps, validation, the best model on disk.
 *
 * Life of a step: order.c hands out row numbers, batch.c lays the rows out, net.c runs forward,
 * loss, backward and update.  After each epoch the validation rows are scored; a better model
 * replaces the file at 'path' (atomically), then a checkpoint is written beside it.  So it is
 * between two steps when one is due (--checkpoint-steps, --checkpoint-minutes), and when the run is
 * asked to stop. */
#include "base/bounds.h"
#include "base/text.h"
#include "model/about.h"
#include "model/card.h"
#include "base/mem.h"
#include "base/report.h"
#include "model/pace.h"
#include "model/train_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double SAY_EVERY_S = 0.2;

/* ---- epochs ---- */

struct watch { /* who is told how it goes, and what about speed */
    struct wisp_run *r;
    wisp_on_progress on_progress; /* may be NULL */
    void *arg;
    double began, said, trained_s;
    size_t rows;
    /* where the account of phases begins: after the first step, which touches all memory */
    double first_s, first_serial, first_phases[WISP_PHASES];
    double sent;         /* bytes to other ranks in steps that measured no recall, ... */
    size_t steps;        /* ... and how many these were */
    double nnz, touched; /* non-zeros, and feature rows touched, summed over steps */
    size_t first_rows;
    double kept_at;   /* when the last checkpoint was made, or the run began or was resumed, */
    size_t kept_step; /* at which step, */
    int kept_epoch;   /* and in which epoch */
    double keeping_s; /* what writing it took */
    size_t checked;   /* step after which all was numbers */
    struct wisp_pulse told; /* of several ranks: what they agreed on after the last step */
    char *head;             /* what the run is, as JSON (wisp_about_head) */
    bool introduced;        /* a line of the log has said it */
    char *json;             /* the line of an epoch, ... */
    char *zeros;            /* ... and what it says of zeros, behind it */
};
enum { LINE_ROOM = 600 }; /* of the line, without that */

struct seen { /* means of what sampling did; the last epoch's recall */
    double active, scored, own, set;
};

static struct seen seen(const struct wisp_run *r)
{
    double all = (double)r->m->net.n_labels;
    if (!r->samplers.output) return (struct seen){ all, all, 1, 1 };
    const struct wisp_sampler_counts *c = wisp_sampler_counts(r->samplers.output);
    double n = r->samplers.recall.sums.n ? (double)r->samplers.recall.sums.n : 1;
    return (struct seen){ c->steps ? (double)c->active / (double)c->steps : 0,
                          c->samples ? (double)c->scored / (double)c->samples : 0,
                          r->samplers.recall.sums.own / n, r->samplers.recall.sums.set / n };
}

static void tell(struct wisp_progress *p, const struct watch *c)
{
    const struct wisp_run *r = c->r;
    double rate = c->trained_s > 0 ? (double)c->rows / c->trained_s : 0;
    double left = (double)(r->plan.epochs - r->at.epoch + 1) * (double)r->feed.order.n_rows -
                  (double)r->at.seen;
    double eta = rate > 0 ? left / rate : 0;
    if (r->plan.seconds > 0) eta = fmin(eta, fmax(0, r->plan.seconds - c->trained_s));
    struct seen at = seen(r);
    *p = (struct wisp_progress){ .epoch = r->at.epoch,
                                 .epochs = r->plan.epochs,
                                 .rows_done = r->at.seen,
                                 .n_rows = r->feed.order.n_rows,
                                 .loss = r->at.seen ? r->at.loss_sum / (double)r->at.seen : 0,
                                 .rows_per_s = rate,
                                 .eta_s = eta,
                                 .rows_trained = c->rows,
                                 .train_s = c->trained_s,
                                 .active = at.active,
                                 .scored = at.scored,
                                 .recall = at.own,
                                 .sampled = !wisp_sampling_is_full(r->plan.sampling.names),
                                 .valid = -1,
                                 .run = c->head };
}

/* Tells a few times a second; true: asked to stop.  Fits wisp_score_all. */
static bool asked_to_stop(void *watch)
{
    struct watch *c = watch;
    double now = wisp_now();
    if (now - c->said < SAY_EVERY_S) return false;
    c->said = now;
    if (!c->on_progress) return false;
    struct wisp_progress p;
    tell(&p, c);
    return c->on_progress(c->arg, &p) != 0;
}

/* By this process's clock. */
static bool out_of_time(const struct watch *c)
{
    const struct wisp_run *r = c->r;
    return r->plan.seconds > 0 && c->trained_s >= r->plan.seconds && wisp_pace_enough(r->pace);
}

static bool time_is_up(const struct watch *c)
{
    return wisp_run_comm(c->r) ? c->told.up : out_of_time(c);
}

/* Fetches the numbers of the batch after 'ahead' more steps and has it laid out while others work:
 * the batch of step s lies in layout s % 2. */
static void fetch(struct wisp_run *r, size_t ahead)
{
    size_t at = (r->at.step + ahead) % 2;
    struct wisp_drop drop = { r->plan.input_dropout, r->plan.seed, r->at.step + ahead };
    struct wisp_layout *l = &r->feed.layouts[at];
    const size_t n = wisp_order_next(&r->feed.order, r->feed.rows[at], r->plan.batch);
    size_t before = 0, share = n;
    r->feed.n_rows[at] = n;
    if (wisp_run_divides(r)) wisp_divided_share(&before, &share, wisp_run_divides(r), n);
    l->epoch = r->feed.order.epoch;
    l->batch.before = before;
    l->batch.all = wisp_run_divides(r) ? n : 0;
    if (n > 0)
        wisp_layout_start(l, &r->feed.order.d, r->feed.rows[at] + before, share, &r->m->values,
                          &drop);
}

wisp_status wisp_run_no_number(const struct wisp_run *r, const char *what, wisp_error *err)
{
    bool raw = r->m->values.mode == WISP_VALUES_RAW;
    return wisp_fail(
        err, WISP_ENUMERIC,
        "%s in epoch %d, by step %zu: the last good model and checkpoint are kept; try "
        "a lower --lr than %g%s%s",
        what, r->at.epoch, r->at.in_epoch, r->plan.lr,
        r->mishaps ? ", a lower --error-rate, or --error-guard zero" : "",
        raw ? ", or --values unit: the data's are used as they are" : "");
}

/* The step itself, in memory with errors where there is one.  Weak bits are always the same, so their
 * number is, too; others become more over the first half of the run. */
static wisp_status run_step(struct wisp_run *r, struct wisp_step *s, wisp_error *err)
{
    const struct wisp_errors *e = &r->plan.errors;
    if (r->divided) return wisp_divided_step(r->divided, s, err);
    if (!r->mishaps) return wisp_net_step(&r->m->net, s, err);
    const double share = 2 * (double)(s->number + 1) / (double)r->at.steps;
    wisp_mishaps_begin(r->mishaps, e->fixed || share >= 1 ? e->rate : e->rate * share, s);
    wisp_status st = wisp_net_step(&r->m->net, s, err);
    wisp_mishaps_end(r->mishaps);
    return st;
}

static bool checkpoint_due(const struct watch *c);

/* What this rank has to tell the others. */
static void set_pulse(struct watch *c, double loss)
{
    c->told = (struct wisp_pulse){ .loss = loss,
                                   .stop = asked_to_stop(c) || c->told.stop,
                                   .due = checkpoint_due(c),
                                   .up = out_of_time(c) };
}

/* What several ranks tell each other after a step: its loss, whether all could lay out the next
 * batch, and what is to be done. */
static wisp_status tell_ranks(struct wisp_run *r, struct watch *c, double *loss, wisp_error *err)
{
    const size_t next = (r->at.step + 1) % 2;
    wisp_status st = WISP_OK;
    if (r->feed.n_rows[next] > 0) st = wisp_layout_finish(&r->feed.layouts[next], err);
    set_pulse(c, *loss);
    st = wisp_ranks_pulse(r, &c->told, st, err);
    *loss = c->told.loss;
    return st;
}

static wisp_status step(struct wisp_run *r, struct watch *c, bool look, wisp_error *err)
{
    size_t at = r->at.step % 2, n = r->feed.n_rows[at];
    struct wisp_pace *pace = r->pace && wisp_pace_counts(r->pace) ? r->pace : NULL;
    const double began = wisp_now();
    wisp_phase(r->ctx->pool, 0, WISP_PHASE_LAYOUT);
    wisp_status st = wisp_layout_finish(&r->feed.layouts[at], err);
    if (st != WISP_OK) return st;
    if (pace) pace->layout += wisp_now() - began;
    fetch(r, 1);
    r->opt.lr = (float)wisp_plan_lr(&r->plan, r->at.step, r->at.steps);
    r->opt.step = r->at.step;
    struct wisp_step s = { .ctx = r->ctx,
                           .batch = &r->feed.layouts[at].batch,
                           .training = true,
                           .seed = r->plan.seed,
                           .number = r->at.step,
                           .update = r->magnitude ? &r->magnitude->update : &r->opt.update,
                           .head.loss = r->plan.loss,
                           .head.hogwild = r->plan.hogwild,
                           .laps = pace ? &pace->laps : NULL };
    if (pace && pace->peek && pace->n % pace->peek_every == 0) s.peek = pace->peek;
    if (r->samplers.output && look)
        s.head.look = wisp_recall_look, s.head.look_arg = &r->samplers.recall;
    const struct wisp_comm *ranks = wisp_run_comm(r);
    const uint64_t sent = ranks ? ranks->sent() : 0;
    if ((st = run_step(r, &s, err)) != WISP_OK) return st;
    const double shorter = wisp_run_shorter(r, r->at.step, r->opt.lr);
    const double cut = wisp_run_cut(r, r->at.step);
    if (shorter > 0) wisp_penalty_move(r->penalty, &r->m->net, shorter, r->ctx->pool);
    if (cut > 0) wisp_penalty_cut(r->penalty, &r->m->net, cut, r->ctx->pool);
    double loss = s.head.loss_sum;
    if (ranks && (st = tell_ranks(r, c, &loss, err)) != WISP_OK) return st;
    if (ranks && !s.head.look) c->sent += (double)(ranks->sent() - sent), c->steps++;
    r->at.loss_sum += loss;
    r->at.seen += n;
    r->at.step++;
    r->at.in_epoch++;
    if (r->magnitude) wisp_magnitude_step(r->magnitude, r->plan.magnitude, r->at.step);
    if (!isfinite(loss))
        return wisp_run_no_number(r, isnan(loss) ? "the loss became nan" : "the loss became inf",
                                  err);
    size_t every = r->at.steps / (size_t)r->plan.epochs / WISP_SNAPSHOTS;
    if (wisp_average_due(r) && (every == 0 || r->at.in_epoch % every == 0)) wisp_average_now(r);
    if (!look && !s.peek) wisp_pool_beat(r->ctx->pool, (double)n, wisp_now() - began);
    return WISP_OK;
}

/* ---- checkpoints ---- */

/* A step may break a weight or a moment after its loss was fine: nothing is saved then. */
static wisp_status check_numbers(struct wisp_run *r, struct watch *c, wisp_error *err)
{
    if (c->checked == r->at.step) return WISP_OK;
    wisp_status st = wisp_state_check(r, err);
    if (st == WISP_OK) c->checked = r->at.step;
    return st;
}

static wisp_status checkpoint(struct wisp_run *r, struct watch *c, wisp_error *err)
{
    bool there = c->kept_step == r->at.step && c->kept_epoch == r->at.epoch;
    wisp_status st = check_numbers(r, c, err);
    const double began = wisp_now();
    if (st == WISP_OK && !there) st = wisp_state_save(r, err);
    if (st != WISP_OK) return st;
    c->kept_at = wisp_now();
    if (!there) c->keeping_s = c->kept_at - began;
    c->kept_step = r->at.step;
    c->kept_epoch = r->at.epoch;
    return WISP_OK;
}

/* Not where a card has hash tables: it makes them anew where an epoch begins or a run is resumed,
 * so that only there both have the same. */
static bool checkpoint_due(const struct watch *c)
{
    const struct wisp_run *r = c->r;
    const struct wisp_plan *p = &r->plan;
    if (!r->path || (r->card && wisp_card_has_tables(r))) return false;
    return (p->checkpoint_steps && r->at.step - c->kept_step >= p->checkpoint_steps) ||
           (p->checkpoint_s > 0 && wisp_now() - c->kept_at >= p->checkpoint_s);
}

/* Short epochs of a large net would be saved for longer than they take: an epoch ends without a checkpoint until
 * twenty times as much time has passed as the last one took.  Several ranks do not agree on clocks. */
static bool checkpoint_is_young(const struct watch *c)
{
    static const double QUICK_S = 0.1, RARE = 20;
    return c->keeping_s > QUICK_S && wisp_now() - c->kept_at < RARE * c->keeping_s &&
           !c->r->plan.checkpoint_steps && !wisp_run_comm(c->r);
}

/* Steps on the cards of several ranks, and what they tell each other after them. */
static wisp_status steps_of_ranks(struct wisp_run *r, struct watch *c, size_t *rows, bool last,
                                  wisp_error *err)
{
    const struct wisp_comm *ranks = wisp_run_comm(r);
    const uint64_t sent = ranks->sent();
    const size_t first = r->at.step;
    wisp_status st = wisp_card_steps(r, rows, last, err);
    if (st == WISP_OK) st = wisp_card_wait(r, err);
    if (st != WISP_OK) return wisp_comm_fail_alone(ranks, st, err);
    c->sent += (double)(ranks->sent() - sent), c->steps += r->at.step - first;
    set_pulse(c, 0);
    return wisp_card_tell(r, &c->told, err);
}

/* train_epoch on a card, which is some steps ahead of what is counted here, but for the first call
 * and the last. */
static wisp_status train_on_card(struct wisp_run *r, struct watch *c, wisp_error *err)
{
    const double before = c->trained_s;
    const size_t first = r->at.step;
    double began = wisp_now() - c->trained_s - r->samplers.recall.seconds;
    size_t rows = 1;
    const bool alone = !wisp_run_comm(r);
    wisp_status st = WISP_OK;
    bool last = false;
    while (st == WISP_OK && !last && rows > 0) {
        last = time_is_up(c);
        st = alone ? wisp_card_steps(r, &rows, last, err) : steps_of_ranks(r, c, &rows, last, err);
        c->rows += rows;
        bool waits = alone && (c->first_rows == 0 || wisp_now() - c->said > SAY_EVERY_S);
        if (st == WISP_OK && waits) st = wisp_card_wait(r, err);
        c->trained_s = wisp_now() - began - r->samplers.recall.seconds;
        if (c->first_rows == 0) c->first_rows = c->rows, c->first_s = c->trained_s;
        if (st == WISP_OK && (alone ? checkpoint_due(c) : c->told.due)) {
            double at = wisp_now();
            st = wisp_run_agree(r, wisp_card_fetch(r, err), err);
            if (st == WISP_OK) st = checkpoint(r, c, err);
            began += wisp_now() - at; /* saving is not training */
        }
        if (st == WISP_OK && (alone ? asked_to_stop(c) : c->told.stop)) st = WISP_ESTOPPED;
    }
    if (st == WISP_OK && !last && r->at.epoch < r->plan.epochs)
        wisp_order_ready(&r->feed.order, r->at.epoch + 1); /* while the card is at the last steps */
    const bool whole = st == WISP_OK || st == WISP_ESTOPPED; /* the same at every rank */
    wisp_status waited = whole ? wisp_card_wait(r, err) : st;
    c->trained_s = wisp_now() - began - r->samplers.recall.seconds;
    if (r->pace) wisp_pace_add(r->pace, r->at.step - first, c->trained_s - before);
    c->touched = wisp_card_touched(r);
    c->nnz = (double)c->rows * (double)r->sets.train->nnz / (double)r->sets.train->n_rows;
    if (waited == WISP_OK) waited = wisp_card_fetch(r, err);
    if (whole) waited = wisp_run_agree(r, waited, err);
    return waited == WISP_OK ? st : waited;
}

/* The steps left of this epoch, or of the time: the last one then tells the recall.  WISP_ESTOPPED
 * when asked to stop. */
static wisp_status train_epoch(struct wisp_run *r, struct watch *c, wisp_error *err)
{
    wisp_order_start(&r->feed.order, r->at.epoch);
    if (r->at.in_epoch == 0)
        r->samplers.recall.sums.own = r->samplers.recall.sums.set = 0,
        r->samplers.recall.sums.n = 0;
    for (size_t i = 0; i < r->at.in_epoch; i++)
        wisp_order_next(&r->feed.order, r->feed.rows[0], r->plan.batch); /* done before a resume */
    if (r->card) return train_on_card(r, c, err);
    double began = wisp_now() - c->trained_s - r->samplers.recall.seconds;
    wisp_status st = WISP_OK;
    bool last = false;
    fetch(r, 0);
    if (wisp_run_comm(r)) {
        st = wisp_layout_finish(&r->feed.layouts[r->at.step % 2], err);
        st = wisp_run_agree(r, st, err);
    }
    while (st == WISP_OK && !last && r->feed.n_rows[r->at.step % 2] > 0) {
        size_t n = r->feed.n_rows[r->at.step % 2];
        last = time_is_up(c);
        st = step(r, c, last || wisp_recall_due(r, r->at.in_epoch), err);
        if (st != WISP_OK) break;
        c->rows += n;
        const struct wisp_batch *b =
            &r->feed.layouts[(r->at.step - 1) % 2].batch; /* of that step */
        c->nnz += b->xp[b->n];
        c->touched += (double)b->n_touched;
        const double before = c->trained_s;
        c->trained_s =
            wisp_now() - began - r->samplers.recall.seconds; /* measuring is not training */
        if (r->pace) wisp_pace_add(r->pace, 1, c->trained_s - before);
        if (c->first_rows == 0) {
            c->first_rows = c->rows;
            c->first_s = c->trained_s;
            c->first_serial = wisp_serial_seconds(r->ctx->pool);
            wisp_phase_seconds(r->ctx->pool, c->first_phases);
        }
        const bool alone = !wisp_run_comm(r);
        if (alone ? checkpoint_due(c) : c->told.due) {
            double at = wisp_now();
            st = checkpoint(r, c, err);
            began += wisp_now() - at; /* saving is not training */
        }
        if (st == WISP_OK && (alone ? asked_to_stop(c) : c->told.stop)) st = WISP_ESTOPPED;
    }
    wisp_later_finish(r->ctx->pool); /* nobody will look at what was fetched too early */
    return st;
}

/* Of several ranks none stops alone: what it was asked is told after the next step. */
static bool hear(void *watch)
{
    struct watch *c = watch;
    c->told.stop |= asked_to_stop(c);
    return false;
}

static wisp_status validate(struct wisp_metrics *out, struct wisp_run *r, struct watch *c,
                            wisp_error *err)
{
    const size_t cuts[] = { 1, 3, 5 };
    wisp_status st = wisp_metrics_init(out, cuts, 3, r->m->label_rows, r->m->net.n_labels,
                                       r->m->n_train, 0.55, 1.5, err);
    if (st == WISP_OK) st = wisp_pairs_watch(&r->pairs, &r->scorer, r->sets.valid->n_rows, err);
    return st == WISP_OK ? wisp_score_all(out, &r->scorer, r->sets.valid,
                                          wisp_run_comm(r) ? hear : asked_to_stop, c, err)
                         : st;
}

struct score {         /* of an epoch's model, on the validation rows; -1: there are none */
    double p1, p3, p5; /* percent */
    double loss;       /* of a row, by calibrated scores */
    bool best;
};

/* P@1 of some hundred rows moves by whole points from epoch to epoch, and that of a toy is 100
 * after the first: the first epoch that reaches the highest is a lucky one, or a hesitant one.  So
 * the loss decides.  It is that of calibrated scores (calibrate.h): a model that is surer than it
 * is right, as bce's are in late epochs, is not blamed for what calibration mends.  What is less
 * than LEAST_GAIN of it is no gain. */
static const double LEAST_GAIN = 1e-4;

/* While the net becomes smaller, the latest is the best; and where weights have errors in steps, which
 * validation does not see. */
static bool better(const struct wisp_run *r, double loss)
{
    return r->at.best_epoch == 0 || r->mishaps ||
           r->at.best_epoch <= wisp_plan_shrink_epochs(&r->plan) ||
           loss < (1 - LEAST_GAIN) * r->at.best_loss;
}

/* Scores the validation rows and, if they are the best so far, saves the model. */
static wisp_status judge(struct score *out, struct wisp_run *r, struct watch *c, wisp_error *err)
{
    *out = (struct score){ -1, -1, -1, -1, true };
    wisp_status st = WISP_OK;
    if (r->sets.valid->n_rows > 0) {
        struct wisp_metrics m = { 0 };
        struct wisp_calibration of_epoch;
        st = validate(&m, r, c, err);
        if (st == WISP_OK)
            *out =
                (struct score){ wisp_metrics_p(&m, 0), wisp_metrics_p(&m, 1), wisp_metrics_p(&m, 2),
                                wisp_calibration_fit(&of_epoch, &r->pairs), false };
        wisp_metrics_clear(&m);
        if ((st = wisp_ranks_judged(r, out, sizeof *out, st, err)) != WISP_OK) return st;
        out->best = better(r, out->loss);
    }
    r->at.since_best = out->best ? 0 : r->at.since_best + 1;
    if (!out->best) return WISP_OK;
    r->at.best = out->p1;
    r->at.best_loss = out->loss;
    r->at.best_epoch = r->at.epoch;
    if (r->sets.valid->n_rows > 0) wisp_about_validation(r->m, out->p3, out->p5, out->loss);
    if (!r->path) return WISP_OK;
    double began = wisp_now();
    if (r->sets.valid->n_rows > 0)
        st = wisp_model_calibrate(r->m, &r->scorer, &r->pairs, r->sets.valid, err);
    r->calibration_s += wisp_now() - began;
    return st == WISP_OK ? wisp_model_save(r->m, r->path, r->at.best, r->at.epoch, r->at.saved, err)
                         : st;
}

/* Is the run at its end when this epoch would be the next one, after 'in_epoch' steps of it? */
static bool ends_before(const struct watch *c, int epoch, size_t in_epoch)
{
    const struct wisp_run *r = c->r;
    return r->at.finished || epoch > r->plan.epochs ||
           (r->plan.patience && r->at.since_best >= r->plan.patience) ||
           (time_is_up(c) && in_epoch == 0);
}

/* Hands the epoch to on_progress, with a line for a log; true: it asks to stop. */
static bool tell_epoch(struct watch *c, const struct score *s)
{
    const struct wisp_run *r = c->r;
    struct wisp_progress p;
    const bool counts = r->m->net.counts.n > 0;
    struct seen at = seen(r);
    if (counts) wisp_net_zeros_text(c->zeros, &r->m->net);
    tell(&p, c);
    const bool first = !c->introduced, last = ends_before(c, r->at.epoch + 1, 0);
    c->introduced = true;
    wisp_print(c->json, LINE_ROOM + strlen(c->head) + wisp_net_zeros_room(&r->m->net),
               "{\"epoch\":%d,\"epochs\":%d,\"step\":%zu,\"loss\":%.6f,\"lr\":%.6g,\"valid_p@1\":%."
               "4f,\"valid_p@3\":%.4f,"
               "\"valid_p@5\":%.4f,\"valid_loss\":%.6f,\"best\":%d,\"rows_per_s\":%.1f,\"active_"
               "mean\":%.1f,"
               "\"scored_mean\":%.1f,\"retrieval_recall\":%.4f,\"recall_union\":%.4f,"
               "\"train_seconds\":%.3f,\"seconds\":%.3f,\"peak_bytes\":%zu,\"last\":%d%s%s%s%s}",
               r->at.epoch, r->plan.epochs, r->at.step, p.loss, r->opt.lr, s->p1, s->p3, s->p5,
               s->loss, s->best, p.rows_per_s, at.active, at.scored, at.own, at.set, c->trained_s,
               wisp_now() - c->began, wisp_mem_peak(), last, counts ? ",\"zeros\":" : "",
               counts ? c->zeros : "", first ? ",\"run\":" : "", first ? c->head : "");
    p.epoch_ended = 1;
    p.valid = s->p1;
    p.best = s->best;
    p.json = c->json;
    return c->on_progress && c->on_progress(c->arg, &p);
}

/* WISP_ESTOPPED while judging leaves the epoch open: a resumed run judges again. */
static wisp_status end_epoch(struct wisp_run *r, struct watch *c, wisp_error *err)
{
    bool averaged = r->at.n_averaged > 0;
    struct score s;
    wisp_status st = check_numbers(r, c, err);
    if (st != WISP_OK) return st;
    if (averaged) wisp_average_use(r, r->average, r->m->net.params);
    st = judge(&s, r, c, err);
    if (averaged) wisp_average_use(r, r->m->net.params, r->average);
    if (st != WISP_OK) return st;
    c->told.stop |= tell_epoch(c, &s);
    c->told.up = out_of_time(c);
    st = wisp_ranks_pulse(r, &c->told, WISP_OK, err);
    if (st != WISP_OK) return st;
    const bool stop = c->told.stop;
    r->at.epoch++;
    r->at.in_epoch = r->at.seen = 0;
    r->at.loss_sum = 0;
    return stop ? WISP_ESTOPPED : WISP_OK;
}

static bool finished(const struct watch *c)
{
    return ends_before(c, c->r->at.epoch, c->r->at.in_epoch);
}

/* Leaves what --resume goes on from, and a model where there is none: an older one there is better
 * than a part of an epoch. */
static wisp_status keep_stopped(struct wisp_run *r, struct watch *c, wisp_error *err)
{
    wisp_status st = checkpoint(r, c, err);
    double absent = access(r->path, F_OK) != 0;
    if (st == WISP_OK && wisp_run_comm(r))
        st = wisp_run_comm(r)->spread(&absent, sizeof absent, 0, err);
    if (st == WISP_OK && r->at.best_epoch == 0 && absent != 0)
        st = wisp_model_save(r->m, r->path, -1, 0, r->at.saved, err);
    return st;
}

/* The run again, from the checkpoint that it has just left. */
static wisp_status make_again(struct wisp_run *r, const wisp_config *cfg, wisp_error *err)
{
    struct wisp_run next = { .ctx = r->ctx, .path = r->path, .keep = r->keep, .pace = r->pace };
    next.sets.train = r->sets.train;
    next.sets.valid = r->sets.held_out ? NULL : r->sets.valid;
    next.calibration_s = r->calibration_s;
    next.again = true;
    wisp_run_clear(r);
    *r = next;
    return wisp_run_make(r, cfg, err);
}

static wisp_status run_epochs(struct wisp_run *r, struct watch *c, const wisp_config *cfg,
                              wisp_error *err)
{
    while (!finished(c)) {
        wisp_status st = WISP_OK;
        for (bool shrunk = true; shrunk && st == WISP_OK;) { /* more may go than at first */
            st = wisp_run_shrink(r, &shrunk, err);
            if (st == WISP_OK && shrunk) st = make_again(r, cfg, err);
        }
        if (st != WISP_OK) return st;
        st = train_epoch(r, c, err);
        if (st == WISP_OK) st = end_epoch(r, c, err);
        bool stopped = st == WISP_ESTOPPED;
        if (st != WISP_OK && !stopped) return st;
        if (finished(c)) break; /* asked to stop at the very end */
        const bool cut = wisp_run_cut_between(r);
        const bool keep = r->path && (cut || !checkpoint_is_young(c));
        st = r->path && stopped ? keep_stopped(r, c, err) : keep ? checkpoint(r, c, err) : WISP_OK;
        if (st != WISP_OK) return st;
        if (stopped)
            return wisp_fail(err, WISP_ESTOPPED, "stopped in epoch %d%s", r->at.epoch,
                             r->path ? "; go on with --resume" : "");
        if (cut && (st = make_again(r, cfg, err)) != WISP_OK) return st;
    }
    return WISP_OK;
}

/* Microseconds of all threads a row; what is left of their time they waited for each other. */
static void report_phases(struct wisp_report *t, const struct wisp_run *r, const struct watch *c)
{
    double seconds[WISP_PHASES], rows = fmax(1, (double)(c->rows - c->first_rows));
    double left = (c->trained_s - c->first_s) * wisp_pool_threads(r->ctx->pool);
    wisp_phase_seconds(r->ctx->pool, seconds);
    for (int i = WISP_PHASE_LAYOUT; i < WISP_PHASES; i++) {
        char key[32];
        double s = i == WISP_PHASE_WAIT ? fmax(0, left) : seconds[i] - c->first_phases[i];
        snprintf(key, sizeof key, "%s_us", wisp_phase_name(i));
        wisp_report_num(t, key, 1e6 * s / rows);
        left -= s;
    }
    double serial = wisp_serial_seconds(r->ctx->pool) - c->first_serial;
    wisp_report_num(t, "serial_us", 1e6 * serial / rows);
}

static wisp_status report(struct wisp_report **out, struct wisp_run *r, const struct watch *c,
                          wisp_error *err)
{
    struct wisp_report *t = wisp_report_create();
    wisp_report_num(t, "valid_p@1", r->at.best);
    wisp_report_num(t, "valid_loss", r->at.best_loss);
    wisp_report_num(t, "epochs", r->at.epoch - 1);
    wisp_report_num(t, "best_epoch", r->at.best_epoch);
    wisp_report_num(t, "batch", (double)r->plan.batch);
    wisp_report_calibration(t, r);
    wisp_report_num(t, "rows", (double)r->sets.train->n_rows);
    wisp_report_num(t, "samples_per_s", c->trained_s > 0 ? (double)c->rows / c->trained_s : 0);
    wisp_report_num(t, "seconds", wisp_now() - c->began);
    wisp_report_num(t, "train_seconds", c->trained_s);
    struct seen at = seen(r);
    wisp_report_num(t, "active_mean", at.active);
    wisp_report_num(t, "scored_mean", at.scored);
    wisp_report_num(t, "retrieval_recall", at.own);
    wisp_report_num(t, "recall_union", at.set);
    wisp_status st = WISP_OK;
    if (r->card) st = wisp_card_report(t, r, err);
    else report_phases(t, r, c);
    wisp_report_work(
        t, r, &(struct wisp_done){ (double)c->rows, c->nnz, c->touched, at.active, at.scored });
    if (r->m->net.counts.n) {
        wisp_net_zeros_text(c->zeros, &r->m->net);
        wisp_report_object(t, "zeros", c->zeros);
    }
    wisp_report_num(t, "parameters", (double)wisp_net_n_params(&r->m->net));
    if (st == WISP_OK) st = wisp_ranks_report(t, r, c->sent, c->steps, err);
    if (st == WISP_OK) return wisp_report_done(out, t, err);
    wisp_report_free(t);
    return st;
}

static wisp_status make_lines(struct watch *c, wisp_error *err)
{
    wisp_status st = wisp_about_head(&c->head, c->r, err);
    if (st != WISP_OK) return st;
    const size_t zeros = wisp_net_zeros_room(&c->r->m->net), line = LINE_ROOM + strlen(c->head);
    c->json = wisp_alloc(line + 2 * zeros, 1);
    if (!c->json) return wisp_fail_mem(err, line + 2 * zeros, "the line of an epoch");
    c->zeros = c->json + line + zeros;
    return WISP_OK;
}

/* The model with its last weights, averaged if so; what only training needs is freed. */
static struct wisp_model *take_model(struct wisp_run *r)
{
    struct wisp_model *m = r->m;
    struct wisp_net *net = &m->net;
    if (r->at.n_averaged > 0)
        memcpy(net->params, r->average, wisp_net_param_floats(net) * sizeof *net->params);
    wisp_free(net->state);
    wisp_work_clear(&net->work);
    net->state = NULL;
    r->m = NULL;
    return m;
}

/* What the caller has not set of r is made here, and all of it cleared; model NULL: not kept. */
static wisp_status run(struct wisp_report **out, struct wisp_run *r, struct wisp_model **model,
                       const wisp_config *cfg, wisp_on_progress on_progress, void *arg,
                       wisp_error *err)
{
    *out = NULL;
    if (model) *model = NULL;
    struct watch c = { .r = r, .on_progress = on_progress, .arg = arg, .began = wisp_now() };
    wisp_status st = wisp_run_make(r, cfg, err);
    if (st == WISP_OK) st = make_lines(&c, err);
    if (st == WISP_OK && r->pace) st = wisp_pace_begin(r->pace, r->m->net.n_layers, err);
    c.kept_at = wisp_now(), c.kept_step = c.checked = r->at.step, c.kept_epoch = r->at.epoch;
    if (st == WISP_OK) st = run_epochs(r, &c, cfg, err);
    if (st == WISP_OK && wisp_net_image(&r->m->net))
        wisp_net_zeros_say(r->ctx, &r->m->net, c.zeros);
    bool keeps = r->plan.keep_state && !r->at.finished;
    if (r->path && st == WISP_OK && keeps) st = wisp_state_save(r, err);
    if (r->path && st == WISP_OK) wisp_state_remove(r, !keeps, true);
    else if (r->at.begun && c.kept_step == 0 && !r->at.saved[0]) wisp_state_remove(r, true, false);
    if (st == WISP_OK) st = report(out, r, &c, err);
    if (st == WISP_OK && model) *model = take_model(r);
    wisp_free(c.head);
    wisp_free(c.json);
    wisp_run_clear(r);
    return st;
}

wisp_status wisp_train_run(struct wisp_report **out, struct wisp_context *ctx,
                           const wisp_config *cfg, const struct wisp_data *train,
                           const struct wisp_data *valid, const char *path,
                           wisp_on_progress on_progress, void *arg, wisp_error *err)
{
    struct wisp_run r = { .ctx = ctx, .sets = { .train = train, .valid = valid }, .path = path };
    return run(out, &r, NULL, cfg, on_progress, arg, err);
}

wisp_status wisp_train_model(struct wisp_model **model, struct wisp_report **out,
                             struct wisp_pace *pace, struct wisp_context *ctx,
                             const wisp_config *cfg, const struct wisp_data *train,
                             const struct wisp_data *valid, wisp_on_progress on_progress, void *arg,
                             wisp_error *err)
{
    struct wisp_run r = {
        .ctx = ctx, .sets = { .train = train, .valid = valid }, .keep = !pace, .pace = pace
    };
    return run(out, &r, model, cfg, on_progress, arg, err);
}

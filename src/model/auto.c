/* What --net auto tries, and how it decides.
 *
 * On rows of many sparse features a linear model is ahead of a net on small sets, a net on others, and both
 * together are nearly always ahead of either: their errors differ.  So both are trained, over the
 * same held-out rows, and these choose the weight of each, which may be nothing.
 *
 *   effort low      the linear model and a net
 *   effort normal   the same; three nets where nets cost little
 *   effort high     nets of other widths, rates and dropouts are tried first, for a quarter of the
 *                   epochs, the better half of them for half of the epochs; then three of the best
 *   --budget TIME   as effort high, as far as the time reaches, by what the runs before took
 *
 * Without a budget nothing hangs on the clock, so that a run repeats to the same bytes.  With one, the
 * number of trials does; a resumed run repeats those that the list (trials.c) has, and goes on from
 * there. */
#include "base/bounds.h"
#include "base/mem.h"
#include "model/joint.h"
#include "model/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_ROWS = 200, FEW_FEATURES = 300, NETS = 3, SCOUTS = 4 };

/* ---- when it is meant ---- */

/* Options of training that say nothing about a net; of the groups below all others do. */
static const enum wisp_opt neutral[] = {
    OPT_COST,     OPT_DROP_BELOW,   OPT_NEGATIVES, OPT_REFIT, /* of linear models */
    OPT_SEED,     OPT_VALID,        OPT_HOLDOUT,   OPT_SPLIT_SEED, OPT_INDEX,
    OPT_ENSEMBLE, OPT_BUDGET,       OPT_EFFORT,    OPT_TRIED,      OPT_NET,
    OPT_WEIGHTS,  OPT_CLASS_WEIGHT, /* of rows, whatever learns from them */
};

bool wisp_auto_of_net(enum wisp_opt k)
{
    const wisp_option *o = wisp_option_row((size_t)k);
    static const char *const groups[] = { "The network", "Training", "Which output rows",
                                          "Hash tables", "Memory with errors" };
    for (size_t i = 0; i < sizeof neutral / sizeof *neutral; i++)
        if (neutral[i] == k) return false;
    if (k == OPT_INIT || k == OPT_MEMORY || k == OPT_KEEP_STATE || k == OPT_DEVICE) return true;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strncmp(o->group, groups[i], strlen(groups[i])) == 0) return true;
    return false;
}

/* Rows of words and their like: few of many features each, and enough of them to hold some out to choose by. */
static bool text_like(const struct wisp_data *d)
{
    char why[WISP_VALUES_WHY];
    const enum wisp_values_mode mode = wisp_values_choose(why, d);
    const double per_row = d->n_rows ? (double)d->nnz / (double)d->n_rows : 0;
    return (mode == WISP_VALUES_TFIDF || mode == WISP_VALUES_UNIT) && d->n_rows >= FEW_ROWS &&
           d->n_features >= FEW_FEATURES && per_row < 0.25 * (double)d->n_features;
}

/* Members are weighed on held-out rows that all count the same: where rows do not, nothing is chosen that way unless it is
 * asked for. */
bool wisp_auto_is_meant(const wisp_config *cfg, const struct wisp_data *train)
{
    const wisp_option *o;
    const bool weighted =
        train->weights || wisp_opt_given(cfg, OPT_WEIGHTS) || wisp_opt_given(cfg, OPT_CLASS_WEIGHT);
    if (*wisp_opt_text(cfg, OPT_NET) || wisp_opt_num(cfg, OPT_ENSEMBLE) > 1 || weighted)
        return false;
    for (size_t k = 0; (o = wisp_option_row(k)); k++)
        if (strstr(o->commands, "train") && wisp_opt_given(cfg, (enum wisp_opt)k) &&
            wisp_auto_of_net((enum wisp_opt)k))
            return false;
    return text_like(train);
}

/* ---- how much ---- */

struct amount {
    double budget; /* seconds; 0: none was given */
    int nets;
    double epochs; /* of members; 0: as many as nets have by themselves */
    bool scouts;
};

struct shape {
    /* width 0: all as nets are by default; rate: times that one's */
    double width, dropout, input_dropout, rate;
};
/* What nets beside a linear model are like, by the set.  The first is that of a model's first net.  Where this one weighs
 * more than the linear model, the others are of shape 'later'.  The rest were better on some set (docs/choosing.md). */
struct shapes {
    int later;
    struct shape shape[SCOUTS];
};

/* What the user says of nets holds for all of them. */
static bool shape_is_given(const wisp_config *cfg)
{
    static const enum wisp_opt of_shape[] = { OPT_HIDDEN, OPT_DROPOUT, OPT_INPUT_DROPOUT, OPT_LR,
                                              OPT_PATIENCE };
    for (size_t i = 0; i < sizeof of_shape / sizeof *of_shape; i++)
        if (wisp_opt_given(cfg, of_shape[i])) return true;
    return false;
}

static const struct shapes *shapes_of(const struct wisp_trials *p)
{
    const struct wisp_data *d = p->train;
    static const struct shapes as_given = { 0, { { 0, 0, 0, 1 } } };
    static const struct shapes few_labels = {
        1, { { 1024, 0.7, 0.1, 1 }, { 2048, 0.8, 0.1, 1 }, { 0, 0, 0, 1 }, { 1024, 0.6, 0, 0.5 } }
    };
    static const struct shapes few_rows = {
        0, { { 512, 0.5, 0, 1 }, { 0, 0, 0, 1 }, { 1024, 0.7, 0, 1 }, { 512, 0.5, 0, 0.5 } }
    };
    static const struct shapes large = {
        0, { { 0, 0, 0, 1 }, { 512, 0.3, 0, 0.5 }, { 512, 0.4, 0, 1 }, { 1024, 0.5, 0, 0.5 } }
    };
    return shape_is_given(p->cfg)           ? &as_given
           : d->n_labels <= WISP_FEW_LABELS ? &few_labels
           : d->n_rows < WISP_FEW_ROWS      ? &few_rows
                                            : &large;
}

/* Operations of training a net of a shape, about, in those of processors: what decides must not be measured. */
static double net_cost(const struct wisp_plan *plan, const struct wisp_data *d,
                       const struct shape *s)
{
    /* Rows of the output layer, where they are sampled: 3,500, read from memory.  A card has done 18 to 30 times as many
     * in a second as the 16 cores beside it. */
    enum { SCORED = 5000, CARD = 20 };
    const bool few = d->n_labels <= WISP_FEW_LABELS;
    const double labels = few ? (double)d->n_labels : SCORED;
    const double width = s->width > 0 ? s->width : few ? WISP_WIDTH_FEW : WISP_WIDTH_MANY;
    return 2 * width * plan->epochs * (2 * (double)d->nnz + 3 * labels * (double)d->n_rows) /
           (plan->cuda ? CARD : 1);
}
/* Some minutes on two cores.  Nets share a cost of about COSTLY, up to NETS of them; one that costs more by
 * itself is trained for fewer epochs beside a linear model: on 591,071 rows with 25,400 labels three
 * instead of five, validation P@1 of both together 39.0. */
static const double COSTLY = 1.7e13;
enum { FEW_EPOCHS = 3 };

/* Both kinds instead of the better one have to gain this share of P@1 + P@3 + P@5 of the held-out rows.  Raw text
 * of cooking: 0.0017 for a model 40 times as large and 30 times as slow, with the same test P@1; sets on
 * which both are better gain 0.01 and more. */
static const double LEAST_GAIN = 0.004;

static wisp_status amount_of(struct amount *out, const struct wisp_trials *p,
                             const struct wisp_plan *plan, wisp_error *err)
{
    const bool low = wisp_opt_is(p->cfg, OPT_EFFORT, "low"),
               high = wisp_opt_is(p->cfg, OPT_EFFORT, "high");
    *out = (struct amount){ .nets = 1 };
    wisp_status st = wisp_opt_time(&out->budget, p->cfg, OPT_BUDGET, err);
    if (st != WISP_OK) return st;
    const struct shapes *s = shapes_of(p);
    const double cost = net_cost(plan, p->train, &s->shape[0]),
                 later = net_cost(plan, p->train, &s->shape[s->later]);
    if (!low) out->nets += (int)fmax(0, fmin(NETS - 1, (COSTLY - cost) / later));
    if (!high && cost > COSTLY && plan->epochs > FEW_EPOCHS) out->epochs = FEW_EPOCHS;
    if (high || out->budget > 0) out->nets = NETS, out->scouts = !shape_is_given(p->cfg);
    if (wisp_opt_num(p->cfg, OPT_ENSEMBLE) > 1) out->nets = (int)wisp_opt_num(p->cfg, OPT_ENSEMBLE);
    return WISP_OK;
}

/* Is there time for a trial of so many seconds?  Where an earlier part of this run came this far, it has
 * decided: by this trial, or by another one in its place. */
static bool reaches(const struct wisp_trials *p, const struct amount *a, const char *what,
                    double seconds)
{
    double spent = wisp_now() - p->began;
    if (a->budget == 0) return true;
    if (wisp_trials_known(p, p->n)) return wisp_trials_was(p, p->n, what);
    for (int i = 0; i < p->n; i++)
        if (wisp_trials_known(p, i)) spent += p->trial[i].seconds;
    return spent + seconds < a->budget;
}

/* ---- nets ---- */

enum { WHAT = 80 };

/* epochs 0: as many as nets have by themselves. */
static void name_net(char out[WHAT], const struct wisp_trials *p, const struct shape *s,
                     const struct wisp_plan *plan, int nth, double epochs)
{
    char during[24] = "";
    if (epochs > 0) wisp_print(during, sizeof during, ", %.0f epochs", epochs);
    const double seed = wisp_opt_num(p->cfg, OPT_SEED) + nth;
    if (s->width == 0) wisp_print(out, WHAT, "net, seed %.0f%s", seed, during);
    else
        wisp_print(out, WHAT, "net of %g, dropout %g and %g, rate %g, seed %.0f%s", s->width,
                   s->dropout, s->input_dropout, s->rate * plan->lr, seed, during);
}

static struct wisp_trial *add_net(struct wisp_trials *p, const struct shape *s,
                                  const struct wisp_plan *plan, int nth, double epochs)
{
    const double seed = wisp_opt_num(p->cfg, OPT_SEED) + nth;
    char what[WHAT];
    name_net(what, p, s, plan, nth, epochs);
    struct wisp_trial *t = wisp_trials_add(p, 1, what);
    if (s->width > 0) {
        wisp_trial_set_num(t, "hidden", s->width);
        wisp_trial_set_num(t, "dropout", s->dropout);
        wisp_trial_set_num(t, "input-dropout", s->input_dropout);
        wisp_trial_set_num(t, "patience", 0); /* its last epochs, of small rates, are its best */
    }
    if (s->rate != 1) wisp_trial_set_num(t, "lr", s->rate * plan->lr);
    if (epochs > 0) { /* what is tried for fewer epochs has the loss of the whole run */
        wisp_trial_set_num(t, "epochs", epochs);
        wisp_trial_set(t, "loss", plan->loss->name);
    }
    wisp_trial_set_num(t, "seed", seed);
    return t;
}

/* Successive halving: all shapes for a quarter of the epochs, the better half for half of them.  Each is trained
 * from the beginning, since rates fall over the whole of a run. */
static wisp_status scout(const struct shape **best, struct wisp_trials *p,
                         const struct wisp_plan *plan, const struct amount *a, wisp_error *err)
{
    const struct shape *const shapes = shapes_of(p)->shape;
    int left[SCOUTS] = { 0, 1, 2, 3 }, n = SCOUTS;
    double seconds = 0;
    for (int part = 4; n > 1; part /= 2) {
        double loss[SCOUTS];
        int tried = 0;
        for (; tried < n; tried++) {
            const double epochs = fmax(1, round(plan->epochs / (double)part));
            char what[WHAT];
            name_net(what, p, &shapes[left[tried]], plan, 0, epochs);
            if (!reaches(p, a, what, seconds)) break;
            add_net(p, &shapes[left[tried]], plan, 0, epochs)->member = false;
            wisp_status st = wisp_trials_train(p, err);
            if (st != WISP_OK) return st;
            loss[tried] = p->trial[p->n - 1].loss;
            seconds = fmax(seconds, 1.5 * p->trial[p->n - 1].seconds);
        }
        if (tried < n && tried < 2) break; /* no time: what is first is best so far */
        for (int i = 1; i < tried; i++)    /* by the loss, those that are equal in their order */
            for (int k = i; k > 0 && loss[k] < loss[k - 1]; k--) {
                const double l = loss[k];
                const int s = left[k];
                loss[k] = loss[k - 1], left[k] = left[k - 1];
                loss[k - 1] = l, left[k - 1] = s;
            }
        n = tried > 2 ? (tried + 1) / 2 : 1;
        seconds *= 2;
    }
    *best = &shapes[left[0]];
    return WISP_OK;
}

/* The members that are nets: others of a net that is worth no weight beside the linear model would not be worth
 * one, either. */
static wisp_status try_nets(struct wisp_trials *p, const struct shape *best,
                            const struct wisp_plan *plan, const struct amount *a, wisp_error *err)
{
    const struct shapes *s = shapes_of(p);
    const struct shape *shape = best ? best : &s->shape[0];
    double seconds = 0;
    wisp_status st = WISP_OK;
    for (int i = 0; i < a->nets && st == WISP_OK; i++) {
        char what[WHAT];
        name_net(what, p, shape, plan, i, a->epochs);
        if (i > 0 && !reaches(p, a, what, seconds)) break;
        add_net(p, shape, plan, i, a->epochs);
        st = wisp_trials_train(p, err);
        seconds = 1.1 * p->trial[p->n - 1].seconds;
        if (i > 0 || a->nets == 1 || st != WISP_OK) continue;
        st = wisp_trials_weigh(p, err);
        const float weight = p->trial[p->n - 1].weight;
        if (weight > 0.5F && !best) shape = &s->shape[s->later];
        if (weight > 0) continue;
        wisp_say(p->ctx, "auto      the net adds nothing to the linear model: no more nets");
        break;
    }
    return st;
}

static void say_plan(const struct wisp_trials *p, const struct amount *a)
{
    char budget[60] = "";
    if (a->budget > 0) wisp_print(budget, sizeof budget, ", as far as %g s reach", a->budget);
    wisp_say(p->ctx,
             "auto      a linear model%s, then %d net%s%s; weights of both kinds are chosen on "
             "held-out rows (--net, or any option of a net, says what to train instead)",
             a->scouts ? ", nets of some widths, rates and dropouts for a while" : "", a->nets,
             a->nets > 1 ? "s" : "", budget);
}

wisp_status wisp_auto_try(struct wisp_trials *p, wisp_error *err)
{
    struct wisp_plan plan;
    struct amount a;
    const struct shape *best = NULL;
    wisp_status st = wisp_trials_plan(&plan, p, err);
    if (st != WISP_OK) return st;
    p->least_gain = LEAST_GAIN;
    st = amount_of(&a, p, &plan, err);
    if (st == WISP_OK) {
        p->planned = 1 + a.nets + (a.scouts ? SCOUTS + SCOUTS / 2 : 0);
        say_plan(p, &a);
        st = wisp_trials_linear(p, 0, err);
    }
    if (st == WISP_OK && a.scouts) st = scout(&best, p, &plan, &a, err);
    if (st == WISP_OK) st = try_nets(p, best, &plan, &a, err);
    wisp_plan_clear(&plan);
    return st;
}

/* The runs of a joint training: the user's options with a few of their own, and the same held-out rows. */
#include "base/mem.h"
#include "base/report.h"
#include "model/joint.h"
#include "model/order.h"
#include "model/plan.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct wisp_trial *wisp_trials_add(struct wisp_trials *p, int group, const char *what)
{
    if (p->n == WISP_JOINT_MOST) return NULL;
    struct wisp_trial *part = &p->part[p->n++];
    *part = (struct wisp_trial){ .group = group };
    snprintf(part->what, sizeof part->what, "%s", what);
    return part;
}

void wisp_trial_set(struct wisp_trial *part, const char *key, const char *value)
{
    part->set[part->n_set].key = key;
    snprintf(part->set[part->n_set++].value, sizeof part->set->value, "%s", value);
}

void wisp_trial_set_num(struct wisp_trial *part, const char *key, double value)
{
    char text[40];
    wisp_print(text, sizeof text, "%.15g", value);
    wisp_trial_set(part, key, text);
}

void wisp_trials_path(char out[PATH_MAX], const struct wisp_trials *p, int i)
{
    snprintf(out, PATH_MAX, "%s.%d", p->path, i);
}

/* Options that say how parts become one model, and which rows they leave out: no part has the first,
 * all have the second alike. */
static wisp_status options_of(wisp_config **out, const struct wisp_trials *p, int i, wisp_error *err)
{
    const wisp_option *o;
    wisp_status st = wisp_config_create(out, err);
    for (size_t k = 0; st == WISP_OK && (o = wisp_option_row(k)); k++) {
        const bool joins = k == OPT_NET || k == OPT_ENSEMBLE || k == OPT_SPLIT_SEED;
        if (strstr(o->commands, "train") && wisp_opt_given(p->cfg, (enum wisp_opt)k) && !joins)
            st = wisp_config_set(*out, o->key, wisp_opt_text(p->cfg, (enum wisp_opt)k), err);
    }
    const double split = wisp_opt_num(p->cfg, OPT_SPLIT_SEED);
    char seed[40];
    wisp_print(seed, sizeof seed, "%.15g", split < 0 ? wisp_opt_num(p->cfg, OPT_SEED) : split);
    if (st == WISP_OK) st = wisp_config_set(*out, "split-seed", seed, err);
    for (int k = 0; i >= 0 && k < p->part[i].n_set && st == WISP_OK; k++)
        st = wisp_config_set(*out, p->part[i].set[k].key, p->part[i].set[k].value, err);
    return st;
}

/* A part's progress, with the time that those after it will take, by the part itself. */
static int tell(void *arg, const wisp_progress *at)
{
    const struct wisp_trials *p = arg;
    wisp_progress all = *at;
    all.eta_s += (p->n - 1 - p->now) * (at->train_s + at->eta_s);
    return p->told(p->arg, &all);
}

wisp_status wisp_trials_train(struct wisp_trials *p, int i, wisp_error *err)
{
    wisp_config *cfg = NULL;
    struct wisp_report *report = NULL;
    struct wisp_trial *part = &p->part[i];
    char path[PATH_MAX];
    const double began = wisp_now();
    p->now = i;
    wisp_trials_path(path, p, i);
    wisp_status st = options_of(&cfg, p, i, err);
    if (st == WISP_OK) wisp_say(p->ctx, "member    %d of %d: %s", i + 1, p->n, part->what);
    if (st == WISP_OK)
        st = wisp_kind_of_text(wisp_opt_text(cfg, OPT_NET))
                 ->train(&report, p->ctx, cfg, p->train, p->valid, path, p->told ? tell : NULL, p,
                         err);
    if (st == WISP_OK) wisp_report_get(report, "valid_p@1", &part->valid);
    part->seconds = wisp_now() - began;
    wisp_report_free(report);
    wisp_config_free(cfg);
    return st;
}

wisp_status wisp_trials_rows(const struct wisp_data **out, struct wisp_trials *p, wisp_error *err)
{
    wisp_config *cfg = NULL;
    struct wisp_plan plan = { .batch = 0 };
    struct wisp_order order = { 0 };
    *out = p->valid ? p->valid : p->held_out;
    if (*out) return WISP_OK;
    wisp_status st = options_of(&cfg, p, -1, err);
    if (st == WISP_OK) st = wisp_plan_make(&plan, cfg, p->ctx->k, p->train, NULL, false, err);
    if (st == WISP_OK)
        st = wisp_order_init(&order, p->train, plan.seed, plan.split, plan.holdout, plan.memory,
                             err);
    if (st == WISP_OK) st = wisp_order_held_out(&p->held_out, &order, err);
    wisp_order_clear(&order);
    wisp_plan_clear(&plan);
    wisp_config_free(cfg);
    *out = p->held_out;
    return st;
}

void wisp_trials_remove(const struct wisp_trials *p)
{
    char path[PATH_MAX];
    for (int i = 0; i < p->n; i++) {
        wisp_trials_path(path, p, i);
        unlink(path);
    }
}

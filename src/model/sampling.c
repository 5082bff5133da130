/* Samplers: settings from the options and the sizes of the data. */
#include "model/plan.h"
#include "base/bounds.h"
#include "hash/family.h"

#include <stdio.h>
#include <string.h>

/* Measured choices (docs/sampling.md).  Up to WISP_FEW_LABELS computing all rows is as fast as
 * choosing some.  From MANY_LABELS on so many rows are nobody's neighbour yet that hashing, which
 * finds few true competitors but ever new ones, helps more than votes; its tables take 300 bytes a
 * row, which from TOO_MANY on is too much.  Votes are made from all rows at once: not under
 * --memory. */
enum { MANY_LABELS = 200000, TOO_MANY = 4000000 };

static const char *auto_names(size_t n_labels, bool bounded, bool cuda)
{
    if (n_labels <= WISP_FEW_LABELS) return "full";
    if (cuda)
        return n_labels < MANY_LABELS ? "scan"
               : n_labels < TOO_MANY  ? "neighbours+lsh"
                                      : "neighbours+random";
    if (n_labels >= MANY_LABELS && n_labels < TOO_MANY) return "neighbours+lsh";
    return bounded ? "neighbours+random" : "neighbours+features+random";
}

static bool yes(const wisp_config *cfg, enum wisp_opt o)
{
    return wisp_opt_is(cfg, o, "yes");
}

static size_t count(const wisp_config *cfg, enum wisp_opt o)
{
    return (size_t)wisp_opt_num(cfg, o);
}

static size_t count_or(const wisp_config *cfg, enum wisp_opt o, size_t otherwise)
{
    return wisp_opt_num(cfg, o) < 0 ? otherwise : count(cfg, o);
}

static enum wisp_strategy strategy(const wisp_config *cfg)
{
    return wisp_opt_is(cfg, OPT_STRATEGY, "vanilla") ? WISP_VANILLA
           : wisp_opt_is(cfg, OPT_STRATEGY, "topk")  ? WISP_TOPK
                                                     : WISP_THRESHOLD;
}

/* The finders that an option names. */
static wisp_status set_names(struct wisp_sampling *o, const char *names, const char *option,
                             bool has_labels, wisp_error *err)
{
    if (strlen(names) >= sizeof o->names)
        return wisp_fail_option(err, option, "'%.40s...' is too long", names);
    snprintf(o->names, sizeof o->names, "%s", names);
    return wisp_sampling_check(names, option, has_labels, err);
}

/* Rows that are drawn, and carried over, in each batch. */
static void set_drawn(struct wisp_sampling *o, const wisp_config *cfg, size_t n_labels)
{
    const bool alone = wisp_sampling_only_draws(o->names); /* all there is */
    const size_t enough = alone ? 2000 : 500;
    size_t few = wisp_most(n_labels / (alone ? 10 : 200), 100);
    if (few > enough) few = enough;
    o->n_random = count_or(cfg, OPT_RANDOM, few);
    o->n_carried = count_or(cfg, OPT_CARRY, n_labels < MANY_LABELS ? few : 0);
}

static wisp_status check_bounds(const struct wisp_sampling *o, wisp_error *err)
{
    if (o->most && o->least > o->most)
        return wisp_fail_option(err, "active-min", "%zu is more than --active-max %zu", o->least,
                                o->most);
    if (o->least && o->per_example)
        return wisp_fail_option(err, "active-min",
                                "fills up the rows of a batch; not with --active-per example");
    return WISP_OK;
}

wisp_status wisp_sampling_plan(struct wisp_sampling *o, const wisp_config *cfg, size_t n_labels,
                               wisp_error *err)
{
    const bool cuda = wisp_opt_is(cfg, OPT_DEVICE, "cuda");
    *o = (struct wisp_sampling){
        .keep = count(cfg, OPT_KEEP),
        .least = count(cfg, OPT_ACTIVE_MIN),
        .most = count_or(cfg, OPT_ACTIVE_MAX, cuda ? 0 : wisp_most(n_labels * 12 / 100, 2500)),
        .n_frequent = count(cfg, OPT_FREQUENT),
        .correct = (float)wisp_opt_num(cfg, OPT_CORRECT),
        .rescore = yes(cfg, OPT_RESCORE),
        .per_example = wisp_opt_is(cfg, OPT_ACTIVE_PER, "example"),
        .bits = (int)wisp_opt_num(cfg, OPT_BITS),
        .tables = (int)wisp_opt_num(cfg, OPT_TABLES),
        .bucket = count(cfg, OPT_BUCKET),
        .reservoir = wisp_opt_is(cfg, OPT_REPLACE, "reservoir"),
        .strategy = strategy(cfg),
        .votes = (int)wisp_opt_num(cfg, OPT_VOTES),
        .transform = yes(cfg, OPT_TRANSFORM),
        .rebuild = count(cfg, OPT_REBUILD),
        .redraw = count(cfg, OPT_REDRAW),
        .lists = count(cfg, OPT_LISTS),
        .probes = count(cfg, OPT_PROBES),
    };
    wisp_status st = set_names(o,
                               wisp_opt_auto(cfg, OPT_SAMPLING)
                                   ? auto_names(n_labels, count(cfg, OPT_MEMORY), cuda)
                                   : wisp_opt_text(cfg, OPT_SAMPLING),
                               "sampling", true, err);
    if (st != WISP_OK) return st;
    set_drawn(o, cfg, n_labels);
    snprintf(o->family, sizeof o->family, "%s",
             wisp_opt_auto(cfg, OPT_HASH) ? WISP_HASH_USUAL : wisp_opt_text(cfg, OPT_HASH));
    if (o->least > o->most && !wisp_opt_given(cfg, OPT_ACTIVE_MAX)) o->most = o->least;
    return check_bounds(o, err);
}

wisp_status wisp_sampling_plan_hidden(struct wisp_sampling *o, const struct wisp_sampling *output,
                                      const wisp_config *cfg, wisp_error *err)
{
    *o = *output;
    o->keep = o->least = o->most = 0;
    o->correct = 0; /* units are not labels: there is no loss to correct */
    o->per_example = false;
    return set_names(o, wisp_opt_text(cfg, OPT_HIDDEN_SAMPLING), "hidden-sampling", false, err);
}

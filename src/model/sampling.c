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
    return strcmp(wisp_opt_text(cfg, o), "yes") == 0;
}

static size_t count(const wisp_config *cfg, enum wisp_opt o)
{
    return (size_t)wisp_opt_num(cfg, o);
}

static size_t count_or(const wisp_config *cfg, enum wisp_opt o, size_t otherwise)
{
    return wisp_opt_num(cfg, o) < 0 ? otherwise : count(cfg, o);
}

static enum wisp_strategy strategy(const char *name)
{
    return strcmp(name, "vanilla") == 0 ? WISP_VANILLA
           : strcmp(name, "topk") == 0  ? WISP_TOPK
                                        : WISP_THRESHOLD;
}

wisp_status wisp_sampling_plan(struct wisp_sampling *o, const wisp_config *cfg, size_t n_labels,
                               wisp_error *err)
{
    const char *names = wisp_opt_text(cfg, OPT_SAMPLING), *family = wisp_opt_text(cfg, OPT_HASH);
    bool cuda = strcmp(wisp_opt_text(cfg, OPT_DEVICE), "cuda") == 0;
    if (strcmp(names, "auto") == 0) names = auto_names(n_labels, count(cfg, OPT_MEMORY), cuda);
    bool alone = strcmp(names, "random") == 0; /* all there is */
    size_t few = wisp_most(n_labels / (alone ? 10 : 200), 100), enough = alone ? 2000 : 500;
    if (few > enough) few = enough;
    *o = (struct wisp_sampling){
        .keep = count(cfg, OPT_KEEP),
        .least = count(cfg, OPT_ACTIVE_MIN),
        .most = count_or(cfg, OPT_ACTIVE_MAX, cuda ? 0 : wisp_most(n_labels * 12 / 100, 2500)),
        .n_random = count_or(cfg, OPT_RANDOM, few),
        .n_frequent = count(cfg, OPT_FREQUENT),
        .n_carried = count_or(cfg, OPT_CARRY, n_labels < MANY_LABELS ? few : 0),
        .correct = (float)wisp_opt_num(cfg, OPT_CORRECT),
        .rescore = yes(cfg, OPT_RESCORE),
        .per_example = strcmp(wisp_opt_text(cfg, OPT_ACTIVE_PER), "example") == 0,
        .bits = (int)wisp_opt_num(cfg, OPT_BITS),
        .tables = (int)wisp_opt_num(cfg, OPT_TABLES),
        .bucket = count(cfg, OPT_BUCKET),
        .reservoir = strcmp(wisp_opt_text(cfg, OPT_REPLACE), "reservoir") == 0,
        .strategy = strategy(wisp_opt_text(cfg, OPT_STRATEGY)),
        .votes = (int)wisp_opt_num(cfg, OPT_VOTES),
        .transform = yes(cfg, OPT_TRANSFORM),
        .rebuild = count(cfg, OPT_REBUILD),
        .redraw = count(cfg, OPT_REDRAW),
        .lists = count(cfg, OPT_LISTS),
        .probes = count(cfg, OPT_PROBES),
    };
    if (strlen(names) >= sizeof o->names)
        return wisp_fail(err, WISP_EINVAL, "--sampling: '%.40s...' is too long", names);
    snprintf(o->names, sizeof o->names, "%s", names);
    snprintf(o->family, sizeof o->family, "%s",
             strcmp(family, "auto") == 0 ? WISP_HASH_USUAL : family);
    if (o->least > o->most && !wisp_opt_given(cfg, OPT_ACTIVE_MAX)) o->most = o->least;
    if (o->most && o->least > o->most)
        return wisp_fail(err, WISP_EINVAL, "--active-min: %zu is more than --active-max %zu",
                         o->least, o->most);
    if (o->least && o->per_example)
        return wisp_fail(
            err, WISP_EINVAL,
            "--active-min: fills up the rows of a batch; not with --active-per example");
    return wisp_sampling_check(names, true, err);
}

wisp_status wisp_sampling_plan_hidden(struct wisp_sampling *o, const struct wisp_sampling *output,
                                      const wisp_config *cfg, wisp_error *err)
{
    const char *names = wisp_opt_text(cfg, OPT_HIDDEN_SAMPLING);
    wisp_error why;
    *o = *output;
    o->keep = o->least = o->most = 0;
    o->correct = 0; /* units are not labels: there is no loss to correct */
    o->per_example = false;
    if (strlen(names) >= sizeof o->names)
        return wisp_fail(err, WISP_EINVAL, "--hidden-sampling: '%.40s...' is too long", names);
    snprintf(o->names, sizeof o->names, "%s", names);
    wisp_status st = wisp_sampling_check(names, false, &why);
    return st == WISP_OK ? st : wisp_fail(err, st, "--hidden-%s", why.text + strlen("--"));
}

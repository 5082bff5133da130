/* The output layer's sampler: settings from the options and the sizes of the data. */
#include "model/train.h"

#include <stdio.h>
#include <string.h>

/* Below this many labels computing all of them is as fast as choosing (docs/sampling.md). */
enum { FEW_LABELS = 4096 };
static const char AUTO[] = "neighbours+random";

static bool yes(const wisp_config *cfg, enum wisp_opt o)
{
    return strcmp(wisp_opt_text(cfg, o), "yes") == 0;
}

static size_t count(const wisp_config *cfg, enum wisp_opt o)
{
    return (size_t)wisp_opt_num(cfg, o);
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
    if (strcmp(names, "auto") == 0) names = n_labels <= FEW_LABELS ? "full" : AUTO;
    *o = (struct wisp_sampling){
        .keep = count(cfg, OPT_KEEP),
        .least = count(cfg, OPT_ACTIVE_MIN),
        .most = count(cfg, OPT_ACTIVE_MAX),
        .n_random = count(cfg, OPT_RANDOM),
        .n_frequent = count(cfg, OPT_FREQUENT),
        .n_carried = count(cfg, OPT_CARRY),
        .correct = yes(cfg, OPT_CORRECT),
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
    snprintf(o->family, sizeof o->family, "%s", strcmp(family, "auto") == 0 ? "dwta" : family);
    return wisp_sampling_check(names, true, err);
}

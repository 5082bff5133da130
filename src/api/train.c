/* wisp_train: by one process, or by several ranks, of which the first one writes. */
#include "base/lock.h"
#include "comm/comm.h"
#include "config/options.h"
#include "model/joint.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A folder that is not there or not ours must show now, not after the first epoch. */
static wisp_status check_output(const char *path, wisp_error *err)
{
    struct stat at;
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];
    if (strlen(path) + 32 >= sizeof folder)
        return wisp_fail(err, WISP_EINVAL, "%.100s...: the path is too long", path);
    wisp_folder_of(folder, path);
    if (!*path || (slash && !slash[1]) || (stat(path, &at) == 0 && S_ISDIR(at.st_mode)))
        return wisp_fail_at(err, WISP_EIO, path, 0,
                            "expected the path of a model file, not of a folder");
    if (access(folder, W_OK | X_OK) != 0)
        return wisp_fail_errno(err, WISP_EIO, folder, "no model can be written there");
    return WISP_OK;
}

/* Several ranks train nets. */
static wisp_status check_kind(const struct wisp_model_kind *kind, const struct wisp_comm *c,
                              wisp_error *err)
{
    if (c->size == 1 || kind == wisp_kind_of_text("")) return WISP_OK;
    return wisp_fail(err, WISP_ENOTSUP, "--net %s: not with several ranks; take a net of layers",
                     kind->name);
}

/* Before any work, whatever learns first. */
static wisp_status check_exchange(const wisp_config *cfg, wisp_error *err)
{
    if (wisp_opt_auto(cfg, OPT_EXCHANGE) || wisp_opt_is(cfg, OPT_DEVICE, "cuda")) return WISP_OK;
    return wisp_fail_option(err, "exchange",
                            "says how cards exchange; add --device cuda, or leave it out");
}

/* A run may end with a model that knows no more than which label is frequent: that should not have to be found out
 * by looking at its answers. */
static void say_if_useless(wisp_context *ctx, const wisp_report *report, const wisp_data *d,
                           const struct wisp_model_kind *kind)
{
    int64_t most = 0;
    double p1 = -1;
    wisp_report_get(report, "valid_p@1", &p1);
    for (size_t l = 0; l < d->n_labels; l++)
        if (d->label_rows[l] > most) most = d->label_rows[l];
    const double share = 100 * (double)most / (double)(d->n_rows ? d->n_rows : 1);
    if (p1 < 0 || p1 >= 100 || p1 > share) return;
    wisp_say(ctx,
             "warning   validation P@1 %.2f: no better than naming the most frequent label always "
             "(%.2f); try %s",
             p1, share, kind->learn);
}

/* Options that say nothing to what is trained: nobody should believe that they do something. */
static void say_unused(wisp_context *ctx, const wisp_config *cfg,
                       const struct wisp_model_kind *kind)
{
    enum { MOST = 16 };
    static const struct {
        const struct wisp_model_kind *kind;
        const char *why;
        enum wisp_opt o[MOST]; /* up to OPT_NET, which always says something */
    } rows[] = {
        { &wisp_kind_net,
          "options of linear models, or of --net auto; this is a net",
          { OPT_COST, OPT_DROP_BELOW, OPT_NEGATIVES, OPT_REFIT, OPT_BUDGET, OPT_EFFORT, OPT_TRIED,
            OPT_NET } },
        { &wisp_kind_linear,
          "options of nets, or of --net auto; a linear model has no such thing",
          { OPT_EPOCHS, OPT_BATCH, OPT_LR, OPT_OPTIMIZER, OPT_SAMPLING, OPT_PATIENCE,
            OPT_INPUT_DROPOUT, OPT_AVERAGE, OPT_DECAY, OPT_WEIGHT_DECAY, OPT_WARMUP, OPT_SMOOTHING,
            OPT_PRECISION, OPT_BUDGET, OPT_EFFORT, OPT_TRIED } },
        { &wisp_kind_joint,
          "options of --net auto; here it is said what is trained",
          { OPT_BUDGET, OPT_EFFORT, OPT_NET } },
    };
    char text[400];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t at = 0;
        for (size_t k = 0; rows[i].kind == kind && k < MOST && rows[i].o[k] != OPT_NET; k++)
            if (wisp_opt_given(cfg, rows[i].o[k]))
                at += (size_t)wisp_print(text + at, sizeof text - at, "%s--%s", at ? ", " : "",
                                         wisp_option_row(rows[i].o[k])->key);
        if (at) wisp_say(ctx, "unused    %s: %s", text, rows[i].why);
    }
}

wisp_status wisp_train(wisp_report **out, wisp_context *ctx, const wisp_config *cfg,
                       const wisp_data *train, const wisp_data *valid, const char *path,
                       wisp_on_progress on_progress, void *arg, wisp_error *err)
{
    *out = NULL;
    struct wisp_lock lock;
    if (train->n_labels && !train->label_rows)
        return wisp_fail(err, WISP_EINVAL,
                         "rows that were read for a model cannot be trained on: read them without "
                         "it, or with option \"init\"");
    const struct wisp_comm *c = ctx->comm && ctx->comm->size > 1 ? ctx->comm : &wisp_comm_self;
    const struct wisp_model_kind *kind = wisp_kind_to_train(cfg, c->size > 1 ? NULL : train);
    const bool writes = c->rank == 0;
    wisp_status st = check_kind(kind, c, err);
    if (st == WISP_OK) st = check_exchange(cfg, err);
    if (st == WISP_OK) st = wisp_need_labels(train, "train on", err);
    if (st == WISP_OK && valid && valid->n_rows) st = wisp_need_labels(valid, "validate by", err);
    if (st == WISP_OK && writes) st = check_output(path, err);
    if (st == WISP_OK && writes) st = wisp_lock_take(&lock, path, err);
    const bool locked = st == WISP_OK && writes;
    c->patience(wisp_opt_num(cfg, OPT_DEADLINE));
    st = wisp_comm_agree(c, st, err);
    if (st == WISP_OK && strcmp(wisp_opt_text(cfg, OPT_NET), "auto") != 0 &&
        !wisp_auto_is_meant(cfg, train))
        say_unused(ctx, cfg, kind);
    if (st == WISP_OK) st = kind->train(out, ctx, cfg, train, valid, path, on_progress, arg, err);
    if (st == WISP_OK && writes && kind != &wisp_kind_joint) wisp_trials_forget(path);
    if (st == WISP_OK && writes) say_if_useless(ctx, *out, train, kind);
    if (locked) wisp_lock_give(&lock);
    return st;
}

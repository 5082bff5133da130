/* Training a joint model: its members, one after the other, each an ordinary run with checkpoints of its own at
 * PATH.0, PATH.1 and so on; then the weights of the members and the calibration of all, on the rows
 * that none of them was trained on; then the model at PATH, and the others are removed.  Members that
 * are worth no weight are left out; if one is left, it is the model.
 *
 * Killed anywhere, --resume finds the members that are finished and goes on with the one that is not.
 * What comes after the last one is made of their models alone, so it is simply made again.  Once PATH
 * is there with the options of this run, nothing is left to do. */
#include "base/bounds.h"
#include "base/mem.h"
#include "base/report.h"
#include "base/text.h"
#include "cuda/cuda.h"
#include "model/about.h"
#include "model/joint.h"
#include "model/plan.h"
#include "model/state.h"
#include "model/torch.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- what is said of it ---- */

/* The lines of a member's card that are true of all: they come first, up to "weighted". */
static size_t common_lines(const char *card)
{
    const char *last = strstr(card, "\nweighted=");
    return last ? (size_t)(last - card) + 1 + strcspn(last + 1, "\n") + 1 : 0;
}

/* A card: 'n' characters of the members', then what was tried. */
static wisp_status card_of(char **out, const char *from, size_t n, const struct wisp_trials *p,
                           wisp_error *err)
{
    const size_t room = n + 200 + 200 * (size_t)p->n;
    char *text = *out = wisp_alloc(room, 1);
    if (!text) return wisp_fail_mem(err, room, "a model's card");
    memcpy(text, from, n);
    size_t at = n;
    at += (size_t)wisp_print(text + at, room - at, "tried=%d\n", p->n);
    for (int i = 0; i < p->n; i++) {
        const struct wisp_trial *t = &p->trial[i];
        char valid[80] = "";
        if (t->valid >= 0)
            wisp_print(valid, sizeof valid, "; validation P@1 %.2f, loss %.4f", t->valid, t->loss);
        at += (size_t)wisp_print(text + at, room - at, "trial_%d=%s%s; weight %.4g\n", i, t->what,
                                 valid, (double)t->weight);
    }
    return WISP_OK;
}

static void say_result(const struct wisp_trials *p, const struct wisp_judged *at)
{
    for (int i = 0; i < p->n; i++) {
        char valid[40] = "";
        if (p->trial[i].valid >= 0)
            wisp_print(valid, sizeof valid, "validation P@1 %.2f, ", p->trial[i].valid);
        wisp_say(p->ctx, "joint     %s: %sweight %.2f", p->trial[i].what, valid,
                 (double)p->trial[i].weight);
    }
    if (at->p[0] >= 0)
        wisp_say(p->ctx, "joint     the model: validation P@1 %.2f, P@3 %.2f, P@5 %.2f", at->p[0],
                 at->p[1], at->p[2]);
}

static wisp_status report(struct wisp_report **out, const struct wisp_trials *p,
                          const struct wisp_model *m, const struct wisp_judged *at, wisp_error *err)
{
    static const char *const keys[WISP_N_WAYS] = { "valid_ece", "valid_ece_sparse" };
    struct wisp_report *t = wisp_report_create();
    double trained = 0;
    for (int i = 0; i < p->n; i++) trained += p->trial[i].seconds;
    wisp_report_num(t, "valid_p@1", at->p[0]);
    wisp_report_num(t, "valid_p@3", at->p[1]);
    wisp_report_num(t, "valid_p@5", at->p[2]);
    wisp_report_num(t, "valid_loss", at->loss);
    wisp_report_num(t, "best_epoch", 1);
    for (int k = 0; k < WISP_TRIAL_FIGURES; k++)
        wisp_report_num(t, wisp_trial_figures[k], p->figures[k]);
    for (int i = 0; i < WISP_N_WAYS; i++)
        if (m->calibration[i]) {
            char raw[40];
            snprintf(raw, sizeof raw, "%s_raw", keys[i]);
            wisp_report_num(t, raw, (double)m->calibration[i]->ece_raw);
            wisp_report_num(t, keys[i], (double)m->calibration[i]->ece);
        }
    wisp_report_text(t, "kind", wisp_kind_of(m)->name);
    wisp_report_num(t, "members", m->joint ? (double)m->joint->n : 1);
    wisp_report_num(t, "tried", p->n);
    wisp_report_num(t, "rows", (double)p->train->n_rows);
    wisp_report_num(t, "seconds", wisp_now() - p->began);
    wisp_report_num(t, "train_seconds", trained);
    wisp_report_num(t, "parameters", (double)wisp_kind_of(m)->n_params(m));
    wisp_report_num(t, "peak_bytes", (double)wisp_mem_peak());
    return wisp_report_done(out, t, err);
}

/* What a model's file says of held-out rows. */
static void recall(struct wisp_judged *at, const struct wisp_model *m)
{
    const char *p1 = wisp_tensor_file_meta(&m->file, "valid_p@1"), *rest;
    if (p1) at->p[0] = wisp_strtod(p1, NULL);
    if ((rest = strstr(m->validation, "p@3="))) at->p[1] = wisp_strtod(rest + 4, NULL);
    if ((rest = strstr(m->validation, "p@5="))) at->p[2] = wisp_strtod(rest + 4, NULL);
    if ((rest = strstr(m->validation, "loss="))) at->loss = wisp_strtod(rest + 5, NULL);
}

/* ---- the model at its path ---- */

/* A single trial that all the weight fell to: its file, with the options and the card of the whole run. */
static wisp_status save_alone(struct wisp_judged *at, const struct wisp_trials *p, int i,
                              const char *options, wisp_error *err)
{
    char path[PATH_MAX], *card = NULL;
    struct wisp_model *m = NULL;
    wisp_trials_path(path, p, i);
    wisp_status st = wisp_model_open(&m, p->ctx->pool, path, err);
    if (st != WISP_OK) return st;
    recall(at, m);
    st = card_of(&card, m->about, strlen(m->about), p, err);
    struct wisp_pair *meta = wisp_alloc(m->file.n_meta, sizeof *meta);
    if (st == WISP_OK && !meta) st = wisp_fail_mem(err, m->file.n_meta * sizeof *meta, "metadata");
    for (size_t k = 0; k < m->file.n_meta && st == WISP_OK; k++) {
        meta[k] = m->file.meta[k];
        if (strcmp(meta[k].key, "options") == 0) meta[k].value = options;
        if (strcmp(meta[k].key, "card") == 0) meta[k].value = card;
    }
    if (st == WISP_OK)
        st = wisp_tensor_file_write(p->path, m->file.tensors, m->file.n_tensors, meta,
                                    m->file.n_meta, NULL, err);
    wisp_free(meta);
    wisp_free(card);
    wisp_model_free(m);
    return st;
}

static wisp_status save_joint(const struct wisp_judged *at, const struct wisp_trials *p,
                              const char *options, wisp_error *err)
{
    struct wisp_model *m = NULL;
    wisp_status st = wisp_trials_open(&m, p, err);
    if (st != WISP_OK) return st;
    const char *card = m->joint->members[0]->about;
    for (int i = 0; i < WISP_N_WAYS; i++)
        if (at->calibrated[i]) m->fitted[i] = at->map[i], m->calibration[i] = &m->fitted[i];
    st = card_of(&m->about, card, common_lines(card), p, err);
    if (st == WISP_OK && !(m->options = wisp_strdup(options)))
        st = wisp_fail_mem(err, strlen(options), "options");
    if (st == WISP_OK && at->p[0] >= 0) wisp_about_validation(m, at->p[1], at->p[2], at->loss);
    if (st == WISP_OK) st = wisp_model_save(m, p->path, at->p[0], 1, NULL, err);
    wisp_model_free(m);
    return st;
}

static wisp_status settle(struct wisp_judged *at, struct wisp_trials *p, const char *options,
                          wisp_error *err)
{
    const struct wisp_data *rows;
    int n = 0, last = 0;
    wisp_status st = wisp_trials_rows(&rows, p, err);
    if (st == WISP_OK) st = wisp_trials_weigh(p, err);
    for (int i = 0; i < p->n; i++) n += p->trial[i].weight > 0;
    if (st == WISP_OK && n > 1) st = wisp_trials_judge(at, p, rows, err);
    if (st == WISP_OK) st = wisp_trials_refit(p, rows, err);
    if (st != WISP_OK) return st;
    for (int i = 0; i < p->n; i++)
        if (p->trial[i].weight > 0) last = i;
    st = n > 1 ? save_joint(at, p, options, err) : save_alone(at, p, last, options, err);
    if (st == WISP_OK) say_result(p, at);
    p->whole = true;
    return st == WISP_OK ? wisp_trials_note(p, err) : st;
}

/* ---- the run ---- */

/* Do the model's counts say that it was trained on these rows, and those of the model it went on from? */
static bool same_rows(const struct wisp_model *m, const struct wisp_trials *p)
{
    const struct wisp_data *d = p->train;
    const size_t before = p->init ? p->init->net.n_labels : 0;
    bool same = m->n_train == d->n_rows + (p->init ? p->init->n_train : 0) &&
                m->net.n_labels >= wisp_most(d->n_labels, before);
    for (size_t l = 0; same && l < m->net.n_labels; l++)
        same = m->label_rows[l] ==
               (l < d->n_labels ? d->label_rows[l] : 0) + (l < before ? p->init->label_rows[l] : 0);
    return same;
}

/* Whose model is at the path?  *out is it if it is that of a run with these options that has come to its
 * end; any other is refused, unless this run was stopped, and would have replaced it. */
static wisp_status judge_model(struct wisp_model **out, const struct wisp_trials *p,
                               const char *options, wisp_error *err)
{
    static const char to_do[] =
        "there is no run to go on with; train without --resume to replace it";
    char diff[300];
    struct wisp_model *m = NULL;
    wisp_error why = { 0 };
    wisp_status st = wisp_model_open(&m, p->ctx->pool, p->path, &why);
    if (st != WISP_OK && st != WISP_EMODEL) return wisp_fail_as(err, st, &why);
    const bool other = st == WISP_OK && wisp_options_diff(diff, sizeof diff, m->options, options),
               rows = st == WISP_OK && same_rows(m, p);
    if (st == WISP_OK && !other && rows) {
        *out = m;
        return WISP_OK;
    }
    wisp_model_free(m);
    if (p->before && p->stopped) return WISP_OK;
    if (st != WISP_OK)
        return wisp_fail_at(err, st, p->path, 0, "%.350s; %s", why.text + why.place_bytes, to_do);
    if (other)
        return wisp_fail_at(err, WISP_EMODEL, p->path, 0, "belongs to another run: %s; %s", diff,
                            to_do);
    return wisp_fail_at(err, WISP_EMODEL, p->path, 0, "was trained on other data; %s", to_do);
}

/* What --resume finds, once the list was recalled; *out is NULL where there is something left to do. */
static wisp_status find_finished(struct wisp_model **out, const struct wisp_trials *p,
                                 const char *options, wisp_error *err)
{
    char state[PATH_MAX];
    wisp_status st = WISP_OK;
    *out = NULL;
    if (!wisp_opt_on(p->cfg, OPT_RESUME)) return WISP_OK;
    snprintf(state, sizeof state, "%s.state", p->path);
    const bool one = access(state, F_OK) == 0 && !(p->before && p->stopped);
    if (access(p->path, F_OK) == 0 && (!one || p->before)) st = judge_model(out, p, options, err);
    if (st == WISP_OK && !*out && one)
        st = wisp_fail_at(
            err, WISP_EMODEL, state, 0,
            "belongs to a run of one model that was stopped; give its options to go on "
            "with it, or train without --resume to start anew");
    return st;
}

/* The nets of an ensemble: the user's seed, and those after it. */
static wisp_status try_nets(struct wisp_trials *p, int n, int group, wisp_error *err)
{
    const double seed = wisp_opt_num(p->cfg, OPT_SEED);
    const char *net = wisp_opt_text(p->cfg, OPT_NET);
    wisp_status st = WISP_OK;
    for (int i = 0; i < n && st == WISP_OK; i++) {
        char what[60];
        wisp_print(what, sizeof what, "net, seed %.0f", seed + i);
        struct wisp_trial *t = wisp_trials_add(p, group, what);
        wisp_trial_set_num(t, "seed", seed + i);
        if (*net && group == 0) wisp_trial_set(t, "net", net);
        st = wisp_trials_train(p, err);
    }
    return st;
}

static wisp_status try_all(struct wisp_trials *p, wisp_error *err)
{
    const char *net = wisp_opt_text(p->cfg, OPT_NET);
    const int n = (int)wisp_opt_num(p->cfg, OPT_ENSEMBLE);
    const bool pair = strcmp(net, "linear+net") == 0;
    if (p->init) return wisp_joint_go_on(p, err);
    if (strcmp(net, "auto") == 0 || wisp_auto_is_meant(p->cfg, p->train))
        return wisp_auto_try(p, err);
    if (n < 2 && !pair)
        return wisp_fail_option(err, "net",
                                "'joint' is made of several models: use --ensemble N, or --net "
                                "linear+net");
    p->planned = pair + n;
    wisp_say(p->ctx,
             "joint     %d members, one after the other: %s%d net%s; then one model of them, whose "
             "probabilities are averaged%s",
             p->planned, pair ? "a linear model and " : "", n, n > 1 ? "s" : "",
             pair ? " by weights that are chosen on held-out rows" : "");
    wisp_status st = WISP_OK;
    if (pair) st = wisp_trials_linear(p, 0, err);
    return st == WISP_OK ? try_nets(p, n, pair, err) : st;
}

/* The model that --init names, if it is joint.  Nets see to all others themselves. */
static wisp_status open_init(struct wisp_model **out, struct wisp_context *ctx,
                             const wisp_config *cfg, wisp_error *err)
{
    const char *path = wisp_opt_text(cfg, OPT_INIT);
    if (!*path || wisp_torch_is(path)) return WISP_OK;
    wisp_status st = wisp_model_open(out, ctx->pool, path, err);
    if (st != WISP_OK || (*out)->joint) return st;
    wisp_model_free(*out);
    *out = NULL;
    return WISP_OK;
}

wisp_status wisp_joint_train(struct wisp_report **out, struct wisp_context *ctx,
                             const wisp_config *cfg, const struct wisp_data *train,
                             const struct wisp_data *valid, const char *path,
                             wisp_on_progress on_progress, void *arg, wisp_error *err)
{
    struct wisp_trials p = { .ctx = ctx,
                             .cfg = cfg,
                             .train = train,
                             .valid = valid,
                             .path = path,
                             .told = on_progress,
                             .arg = arg,
                             .began = wisp_now() };
    struct wisp_judged at = { .p = { -1, -1, -1 }, .loss = -1 };
    struct wisp_model *m = NULL, *init = NULL;
    char *options = NULL;
    *out = NULL;
    if (strlen(path) + 40 >= PATH_MAX)
        return wisp_fail(err, WISP_EINVAL, "%.100s...: the path is too long", path);
    wisp_status st = open_init(&init, ctx, cfg, err);
    p.init = init;
    const struct wisp_cuda *card;
    if (st == WISP_OK) st = wisp_options_text(&options, init ? init->file.check : NULL, cfg, err);
    if (st == WISP_OK) wisp_trials_name(&p, options);
    if (st == WISP_OK) st = wisp_trials_recall(&p, err);
    if (st == WISP_OK) st = find_finished(&m, &p, options, err);
    if (m) {
        wisp_say(ctx, "resume    %s: the run is finished: nothing is left to do", path);
        recall(&at, m);
    } else {
        if (st == WISP_OK && wisp_opt_is(cfg, OPT_DEVICE, "cuda"))
            st = wisp_cuda_open(&card, err); /* now, and not when the linear model is trained */
        if (st == WISP_OK) st = try_all(&p, err);
        if (st == WISP_OK) st = settle(&at, &p, options, err);
        if (st == WISP_OK) st = wisp_model_open(&m, ctx->pool, path, err);
    }
    if (st == WISP_OK) st = report(out, &p, m, &at, err);
    if (st == WISP_OK) wisp_trials_remove(&p);
    wisp_free(options);
    wisp_free(p.before);
    wisp_model_free(m);
    wisp_model_free(init);
    wisp_data_free(p.held_out);
    return st;
}

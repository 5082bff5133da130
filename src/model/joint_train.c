/* Training a joint model: its parts, one after the other, each an ordinary run with checkpoints of its own at
 * PATH.0, PATH.1 and so on; then the weights of the parts and the calibration of all, on the rows that
 * none of them was trained on; then the model at PATH, and the parts are removed.
 *
 * Killed anywhere, --resume finds the parts that are finished and goes on with the one that is not.  What
 * comes after the last part is made of its models alone, so it is simply made again.  Once PATH is
 * there with the options of this run, nothing is left to do. */
#include "base/mem.h"
#include "base/report.h"
#include "base/text.h"
#include "model/joint.h"
#include "model/about.h"
#include "model/plan.h"
#include "model/metrics.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct judged { /* the joint model, on held-out rows */
    double p[3], loss;
};

/* ---- the model of the parts ---- */

static wisp_status open_parts(struct wisp_model **out, const struct wisp_trials *p, wisp_error *err)
{
    struct wisp_model *members[WISP_JOINT_MOST];
    wisp_status st = WISP_OK;
    int n = 0;
    for (; n < p->n && st == WISP_OK; n += st == WISP_OK) {
        char path[PATH_MAX];
        wisp_trials_path(path, p, n);
        st = wisp_model_open(&members[n], p->ctx->pool, path, err);
    }
    if (st == WISP_OK) return wisp_joint_make(out, members, (size_t)n, err);
    for (int i = 0; i < n; i++) wisp_model_free(members[i]);
    return st;
}

/* All rows through the scorer, once. */
static wisp_status score_rows(double p[3], struct wisp_scorer *s, const struct wisp_data *d,
                              wisp_error *err)
{
    const size_t cuts[] = { 1, 3, 5 };
    struct wisp_metrics metrics = { 0 };
    wisp_status st = wisp_metrics_init(&metrics, cuts, 3, s->m->label_rows, s->m->net.n_labels,
                                       s->m->n_train, 0.55, 1.5, err);
    if (st == WISP_OK) st = wisp_score_all(&metrics, s, d, NULL, NULL, err);
    for (size_t k = 0; k < 3 && st == WISP_OK; k++) p[k] = wisp_metrics_p(&metrics, k);
    wisp_metrics_clear(&metrics);
    return st;
}

static int count_groups(const struct wisp_trials *p, int *group)
{
    int n = 0;
    for (int i = 0; i < p->n; i++) {
        group[i] = p->part[i].group;
        if (group[i] >= n) n = group[i] + 1;
    }
    return n;
}

/* The weights; with a single group they are equal, and nothing has to be scored. */
static wisp_status choose_mix(struct wisp_model *m, struct wisp_scorer *s,
                              const struct wisp_trials *p, const struct wisp_data *rows,
                              wisp_error *err)
{
    int group[WISP_JOINT_MOST];
    const int n_groups = count_groups(p, group);
    struct wisp_mix_seen seen;
    double ignored[3];
    if (n_groups < 2) return WISP_OK;
    wisp_status st = wisp_joint_watch(s, &seen, rows->n_rows, err);
    if (st != WISP_OK) return st;
    st = score_rows(ignored, s, rows, err);
    if (st == WISP_OK) wisp_mix_choose(m->joint->mix, &seen, group, n_groups);
    wisp_joint_unwatch(s);
    return st;
}

static wisp_status settle(struct judged *out, struct wisp_model *m, const struct wisp_trials *p,
                          const struct wisp_data *rows, wisp_error *err)
{
    struct wisp_scorer s;
    struct wisp_pairs pairs = { 0 };
    *out = (struct judged){ { -1, -1, -1 }, -1 };
    if (rows->n_rows == 0) return WISP_OK;
    wisp_status st = wisp_scorer_init(&s, m, p->ctx, WISP_ZEROS_OFF, 5, err);
    if (st != WISP_OK) return st;
    st = choose_mix(m, &s, p, rows, err);
    if (st == WISP_OK) st = wisp_pairs_watch(&pairs, &s, rows->n_rows, err);
    if (st == WISP_OK) st = score_rows(out->p, &s, rows, err);
    if (st == WISP_OK) out->loss = wisp_calibration_fit(&m->fitted[WISP_EXACT], &pairs);
    if (st == WISP_OK) st = wisp_model_calibrate(m, &s, &pairs, rows, err);
    wisp_pairs_clear(&pairs);
    wisp_scorer_clear(&s);
    return st;
}

/* ---- what is said of it ---- */

/* The lines of a part's card that are true of all: they come first, up to "weighted". */
static size_t common_lines(const char *card)
{
    const char *last = strstr(card, "\nweighted=");
    return last ? (size_t)(last - card) + 1 + strcspn(last + 1, "\n") + 1 : 0;
}

static wisp_status describe(struct wisp_model *m, const struct wisp_trials *p, wisp_error *err)
{
    const struct wisp_joint *j = m->joint;
    const char *card = j->members[0]->about;
    const size_t common = common_lines(card), room = common + 200 + 160 * j->n;
    char *text = m->about = wisp_alloc(room, 1);
    if (!text) return wisp_fail_mem(err, room, "a model's card");
    memcpy(text, card, common);
    size_t at = common;
    at += (size_t)wisp_print(text + at, room - at, "members=%zu\n", j->n);
    for (size_t i = 0; i < j->n; i++)
        at += (size_t)wisp_print(text + at, room - at, "member_%zu=%s, weight %.4g\n", i,
                                 p->part[i].what, (double)j->mix[i]);
    return WISP_OK;
}

static void say_plan(const struct wisp_trials *p)
{
    wisp_say(p->ctx,
             "joint     %d members, one after the other, then one model of them: their "
             "probabilities are averaged%s",
             p->n, p->part[p->n - 1].group ? " by weights that are chosen on held-out rows" : "");
    for (int i = 0; i < p->n; i++) wisp_say(p->ctx, "          %d: %s", i + 1, p->part[i].what);
}

static void say_result(const struct wisp_trials *p, const struct wisp_model *m,
                       const struct judged *at)
{
    for (int i = 0; i < p->n; i++)
        wisp_say(p->ctx, "joint     %s: weight %.2f, validation P@1 %.2f, %.1f s", p->part[i].what,
                 (double)m->joint->mix[i], p->part[i].valid, p->part[i].seconds);
    if (at->p[0] >= 0)
        wisp_say(p->ctx, "joint     all of them: validation P@1 %.2f, P@3 %.2f, P@5 %.2f", at->p[0],
                 at->p[1], at->p[2]);
}

static wisp_status report(struct wisp_report **out, const struct wisp_trials *p,
                          const struct wisp_model *m, const struct judged *at, double seconds,
                          wisp_error *err)
{
    static const char *const keys[WISP_N_WAYS] = { "valid_ece", "valid_ece_sparse" };
    struct wisp_report *t = wisp_report_create();
    double trained = 0;
    for (int i = 0; i < p->n; i++) trained += p->part[i].seconds;
    wisp_report_num(t, "valid_p@1", at->p[0]);
    wisp_report_num(t, "valid_p@3", at->p[1]);
    wisp_report_num(t, "valid_p@5", at->p[2]);
    wisp_report_num(t, "valid_loss", at->loss);
    wisp_report_num(t, "best_epoch", 1);
    for (int i = 0; i < WISP_N_WAYS; i++)
        if (m->calibration[i]) {
            char raw[40];
            snprintf(raw, sizeof raw, "%s_raw", keys[i]);
            wisp_report_num(t, raw, (double)m->calibration[i]->ece_raw);
            wisp_report_num(t, keys[i], (double)m->calibration[i]->ece);
        }
    wisp_report_num(t, "members", (double)p->n);
    wisp_report_num(t, "rows", (double)p->train->n_rows);
    wisp_report_num(t, "seconds", seconds);
    wisp_report_num(t, "train_seconds", trained);
    wisp_report_num(t, "parameters", (double)wisp_kind_of(m)->n_params(m));
    wisp_report_num(t, "peak_bytes", (double)wisp_mem_peak());
    return wisp_report_done(out, t, err);
}

/* ---- the run ---- */

/* The model that a run with these options has left at its end; NULL: there is none. */
static wisp_status find_finished(struct wisp_model **out, const struct wisp_trials *p,
                                 const char *options)
{
    struct wisp_model *m = NULL;
    wisp_error why = { 0 };
    *out = NULL;
    if (!wisp_opt_on(p->cfg, OPT_RESUME) || access(p->path, F_OK) != 0) return WISP_OK;
    wisp_status st = wisp_model_open(&m, p->ctx->pool, p->path, &why);
    if (st == WISP_OK && strcmp(m->options, options) == 0 && m->n_train == p->train->n_rows &&
        m->net.n_labels >= p->train->n_labels &&
        memcmp(m->label_rows, p->train->label_rows, p->train->n_labels * sizeof *m->label_rows) ==
            0)
        *out = m;
    else wisp_model_free(m);
    return st == WISP_ENOMEM ? st : WISP_OK; /* anything else is replaced, as an older model is */
}

/* What the finished model says of itself, for the report. */
static void recall(struct judged *at, const struct wisp_model *m)
{
    const char *p1 = wisp_tensor_file_meta(&m->file, "valid_p@1"), *rest;
    *at = (struct judged){ { -1, -1, -1 }, -1 };
    if (p1) at->p[0] = wisp_strtod(p1, NULL);
    if ((rest = strstr(m->validation, "p@3="))) at->p[1] = wisp_strtod(rest + 4, NULL);
    if ((rest = strstr(m->validation, "p@5="))) at->p[2] = wisp_strtod(rest + 4, NULL);
    if ((rest = strstr(m->validation, "loss="))) at->loss = wisp_strtod(rest + 5, NULL);
}

static wisp_status join(struct wisp_model **out, struct judged *at, struct wisp_trials *p,
                        char **options, wisp_error *err)
{
    struct wisp_model *m = NULL;
    const struct wisp_data *rows;
    wisp_status st = open_parts(&m, p, err);
    if (st == WISP_OK) st = wisp_trials_rows(&rows, p, err);
    if (st == WISP_OK) st = settle(at, m, p, rows, err);
    if (st == WISP_OK) st = describe(m, p, err);
    if (st == WISP_OK) {
        m->options = *options;
        *options = NULL;
        if (at->p[0] >= 0) wisp_about_validation(m, at->p[1], at->p[2], at->loss);
        st = wisp_model_save(m, p->path, at->p[0], 1, NULL, err);
    }
    if (st == WISP_OK) say_result(p, m, at);
    *out = m;
    return st;
}

static wisp_status run(struct wisp_report **out, struct wisp_trials *p, wisp_error *err)
{
    const double began = wisp_now();
    struct wisp_model *m = NULL;
    struct judged at;
    char *options = NULL;
    wisp_status st = wisp_options_text(&options, NULL, p->cfg, err);
    if (st == WISP_OK) st = find_finished(&m, p, options);
    if (m) {
        wisp_say(p->ctx, "resume    %s: the run is finished: nothing is left to do", p->path);
        recall(&at, m);
    } else if (st == WISP_OK) {
        say_plan(p);
        for (int i = 0; i < p->n && st == WISP_OK; i++) st = wisp_trials_train(p, i, err);
        if (st == WISP_OK) st = join(&m, &at, p, &options, err);
    }
    if (st == WISP_OK) st = report(out, p, m, &at, wisp_now() - began, err);
    if (st == WISP_OK) wisp_trials_remove(p);
    wisp_free(options);
    wisp_model_free(m);
    wisp_data_free(p->held_out);
    return st;
}

/* The nets of an ensemble: the user's seed, and those after it. */
static void add_nets(struct wisp_trials *p, int n, int group)
{
    const double seed = wisp_opt_num(p->cfg, OPT_SEED);
    for (int i = 0; i < n; i++) {
        char what[60];
        wisp_print(what, sizeof what, "net, seed %.0f", seed + i);
        struct wisp_trial *part = wisp_trials_add(p, group, what);
        if (!part) return;
        wisp_trial_set_num(part, "seed", seed + i);
        if (wisp_opt_given(p->cfg, OPT_NET))
            wisp_trial_set(part, "net", wisp_opt_text(p->cfg, OPT_NET));
    }
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
                            .arg = arg };
    const int n = (int)wisp_opt_num(cfg, OPT_ENSEMBLE);
    *out = NULL;
    if (strlen(path) + 40 >= PATH_MAX)
        return wisp_fail(err, WISP_EINVAL, "%.100s...: the path is too long", path);
    if (n < 2)
        return wisp_fail_option(err, "net", "'joint' is made of several models: use --ensemble N");
    add_nets(&p, n, 0);
    return run(out, &p, err);
}

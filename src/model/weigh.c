/* What is made of the trials that are members: their weights and the calibration of all, on rows that none of them
 * has seen, and then the same members trained with these rows, too. */
#include "base/mem.h"
#include "model/joint.h"
#include "model/metrics.h"

#include <stdio.h>
#include <string.h>

static const float LEAST_WEIGHT = 0.06f; /* of a group; less makes it no better, only slower */

/* Where more of the rows than this are held out, the linear model is trained once more with them. */
static const double REFIT_SHARE = 0.05;

/* A model that goes on keeps its weights where fewer rows are held out: by so few they would be chosen worse. */
enum { FEW_ROWS = 200 };

static wisp_status open_member(struct wisp_model **out, const struct wisp_trials *p, int i,
                               wisp_error *err)
{
    char path[PATH_MAX];
    wisp_trials_path(path, p, i);
    return wisp_model_open(out, p->ctx->pool, path, err);
}

/* Of all members that have a weight. */
wisp_status wisp_trials_open(struct wisp_model **out, const struct wisp_trials *p, wisp_error *err)
{
    struct wisp_model *members[WISP_JOINT_MOST];
    float mix[WISP_JOINT_MOST];
    wisp_status st = WISP_OK;
    size_t n = 0;
    for (int i = 0; i < p->n && st == WISP_OK; i++) {
        if (p->trial[i].weight == 0) continue;
        st = open_member(&members[n], p, i, err);
        mix[n] = p->trial[i].weight;
        n += st == WISP_OK;
    }
    if (st == WISP_OK && (st = wisp_joint_make(out, members, n, err)) != WISP_OK) return st;
    if (st == WISP_OK) memcpy((*out)->joint->mix, mix, n * sizeof *mix);
    for (size_t i = 0; i < n && st != WISP_OK; i++) wisp_model_free(members[i]);
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

/* Equal weights of all members, or those that they had in the model to go on from; how many groups there are. */
static int begin_weights(struct wisp_trials *p, int *group)
{
    int n_groups = 0, n = 0;
    for (int i = 0; i < p->n; i++)
        if (p->trial[i].member) {
            group[n++] = p->trial[i].group;
            if (p->trial[i].group >= n_groups) n_groups = p->trial[i].group + 1;
        }
    for (int i = 0; i < p->n; i++) {
        struct wisp_trial *t = &p->trial[i];
        t->weight = !t->member ? 0 : t->from ? p->init->joint->mix[t->from - 1] : 1 / (float)n;
    }
    return n_groups;
}

/* The weights that were chosen, to the trials; a group with too little is left out. */
static void take_weights(struct wisp_trials *p, const float *mix)
{
    float of_group[WISP_JOINT_MOST] = { 0 }, sum = 0;
    for (int i = 0, k = 0; i < p->n; i++)
        if (p->trial[i].member) {
            p->trial[i].weight = mix[k++];
            of_group[p->trial[i].group] += p->trial[i].weight;
        }
    for (int i = 0; i < p->n; i++) {
        if (of_group[p->trial[i].group] < LEAST_WEIGHT) p->trial[i].weight = 0;
        sum += p->trial[i].weight;
    }
    for (int i = 0; i < p->n; i++) p->trial[i].weight /= sum;
}

/* With one group weights are equal, and nothing has to be scored. */
wisp_status wisp_trials_weigh(struct wisp_trials *p, wisp_error *err)
{
    int group[WISP_JOINT_MOST];
    const int n_groups = begin_weights(p, group);
    struct wisp_model *m = NULL;
    struct wisp_scorer s;
    struct wisp_mix_seen seen;
    const struct wisp_data *rows;
    float mix[WISP_JOINT_MOST];
    double ignored[3];
    wisp_status st = wisp_trials_rows(&rows, p, err);
    if (st != WISP_OK || n_groups < 2 || rows->n_rows < (p->init ? FEW_ROWS : 1)) return st;
    st = wisp_trials_open(&m, p, err);
    if (st != WISP_OK) return st;
    st = wisp_scorer_init(&s, m, p->ctx, WISP_ZEROS_OFF, 5, err);
    if (st == WISP_OK) {
        st = wisp_joint_watch(&s, &seen, rows->n_rows, err);
        if (st == WISP_OK) st = score_rows(ignored, &s, rows, err);
        if (st == WISP_OK) wisp_mix_choose(mix, &seen, group, n_groups);
        if (st == WISP_OK && p->least_gain > 0)
            wisp_mix_simplify(mix, &seen, group, n_groups, p->least_gain);
        if (st == WISP_OK) take_weights(p, mix);
        wisp_joint_unwatch(&s);
        wisp_scorer_clear(&s);
    }
    wisp_model_free(m);
    return st;
}

/* How good the members are together, and the calibration of what they say: by models that have not seen the
 * rows. */
wisp_status wisp_trials_judge(struct wisp_judged *out, const struct wisp_trials *p,
                              const struct wisp_data *rows, wisp_error *err)
{
    struct wisp_scorer s;
    struct wisp_model *m = NULL;
    struct wisp_pairs pairs = { 0 };
    for (int i = 0; i < WISP_N_WAYS && p->init; i++) /* where there are no rows to fit one on */
        if ((out->calibrated[i] = p->init->calibration[i] != NULL))
            out->map[i] = *p->init->calibration[i];
    if (rows->n_rows == 0) return WISP_OK;
    wisp_status st = wisp_trials_open(&m, p, err);
    if (st != WISP_OK) return st;
    st = wisp_scorer_init(&s, m, p->ctx, WISP_ZEROS_OFF, 5, err);
    if (st == WISP_OK) {
        st = wisp_pairs_watch(&pairs, &s, rows->n_rows, err);
        if (st == WISP_OK) st = score_rows(out->p, &s, rows, err);
        if (st == WISP_OK) out->loss = wisp_calibration_fit(&m->fitted[WISP_EXACT], &pairs);
        if (st == WISP_OK) st = wisp_model_calibrate(m, &s, &pairs, rows, err);
        wisp_pairs_clear(&pairs);
        wisp_scorer_clear(&s);
    }
    for (int i = 0; i < WISP_N_WAYS && st == WISP_OK; i++)
        if ((out->calibrated[i] = m->calibration[i] != NULL)) out->map[i] = *m->calibration[i];
    wisp_model_free(m);
    return st;
}

wisp_status wisp_trials_refit(struct wisp_trials *p, const struct wisp_data *rows, wisp_error *err)
{
    const int n = p->n;
    wisp_status st = WISP_OK;
    if (p->valid || (double)rows->n_rows < REFIT_SHARE * (double)p->train->n_rows) return st;
    for (int i = 0; i < n && st == WISP_OK; i++) {
        if (p->trial[i].weight == 0 || !p->trial[i].linear) continue;
        struct wisp_trial *t = wisp_trials_add(p, p->trial[i].group, "linear, all rows");
        t->linear = true;
        t->from = p->trial[i].from;
        wisp_trial_set(t, "net", "linear");
        wisp_trial_set(t, "refit", "yes");
        st = wisp_trials_train(p, err);
        p->trial[p->n - 1].weight = p->trial[i].weight;
        p->trial[i].weight = 0;
    }
    return st;
}

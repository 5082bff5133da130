/* wisp_eval: metrics on labelled rows, by exact prediction (on the CPU or a card) or by sparse
 * beside exact. */
#include "api/label_table.h"
#include "api/predictor.h"
#include "base/bounds.h"
#include "base/mem.h"
#include "base/report.h"
#include "config/options.h"
#include "model/kind.h"
#include "model/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void report_metrics(struct wisp_report *r, const struct wisp_metrics *m)
{
    static const char *const groups[] = { "head", "middle", "tail" };
    char key[40];
    for (int what = 0; what < 4; what++)
        for (size_t i = 0; i < m->n_cuts; i++) {
            static const char *const names[] = { "p", "r", "ndcg", "psp" };
            double v = what == 0   ? wisp_metrics_p(m, i)
                       : what == 1 ? wisp_metrics_r(m, i)
                       : what == 2 ? wisp_metrics_ndcg(m, i)
                                   : wisp_metrics_psp(m, i);
            snprintf(key, sizeof key, "%s@%zu", names[what], m->cuts[i]);
            wisp_report_num(r, key, v);
        }
    for (int g = 0; g < WISP_N_GROUPS; g++)
        for (size_t i = 0; i < m->n_cuts; i++) {
            snprintf(key, sizeof key, "p@%zu_%s", m->cuts[i], groups[g]);
            wisp_report_num(r, key, wisp_metrics_group_p(m, g, i));
        }
}

static int ascending(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

static wisp_status cut_offs(size_t *cuts, size_t *n, const wisp_config *cfg, wisp_error *err)
{
    double k[WISP_MAX_CUTS] = { 1, 3, 5 };
    *n = 3;
    wisp_status st = WISP_OK;
    if (*wisp_opt_text(cfg, OPT_K)) st = wisp_opt_list(k, n, WISP_MAX_CUTS, cfg, OPT_K, err);
    for (size_t i = 0; st == WISP_OK && i < *n; i++) {
        if (!(k[i] >= 1 && k[i] <= WISP_MOST_K && k[i] == (double)(size_t)k[i]))
            st = wisp_fail_option(err, "k", "%.15g is not a whole number from 1 to %d", k[i],
                                  WISP_MOST_K);
        else cuts[i] = (size_t)k[i];
    }
    if (st == WISP_OK) qsort(cuts, *n, sizeof *cuts, ascending);
    return st;
}

struct scores {                         /* of the best labels of all rows, against the truth */
    const struct wisp_calibration *map; /* NULL: raw */
    const struct wisp_model *m;
    size_t k; /* places that calibration is judged by; decisions look at all there are */
    struct wisp_reliability raw, mapped;
    uint64_t n_truth, n_unknown, rows_cut;
    struct wisp_decisions *at_half, *at_own; /* (n_labels); at_own NULL: no thresholds */
    bool all;                                /* guesses are kept: */
    struct wisp_guesses guesses;
    float *places; /* (a row's) scores */
    wisp_status st;
    wisp_error err;
};

static wisp_status scores_init(struct scores *t, const struct wisp_model *m, bool sparse, size_t k,
                               bool all, wisp_error *err)
{
    const size_t n = m->net.n_labels;
    *t = (struct scores){ .map = wisp_model_calibration(m, sparse), .m = m, .k = k, .all = all };
    t->at_half = wisp_zalloc(n, sizeof *t->at_half);
    t->at_own = m->threshold ? wisp_zalloc(n, sizeof *t->at_own) : NULL;
    t->places = wisp_alloc(wisp_most(k, wisp_eval_places(n, all)), sizeof *t->places);
    if (!t->at_half || !t->places || (m->threshold && !t->at_own))
        return wisp_fail_mem(err, n * sizeof *t->at_half, "counts of labels");
    return all ? wisp_guesses_init(&t->guesses, n, 0, err) : WISP_OK;
}

static void scores_clear(struct scores *t)
{
    wisp_free(t->at_half);
    wisp_free(t->at_own);
    wisp_free(t->places);
    wisp_guesses_clear(&t->guesses);
}

/* Gives a label of a row, whose score is known, by a threshold. */
static void decide(struct wisp_decisions *d, bool given, bool hit)
{
    if (given && hit) d->tp++;
    else if (given) d->fp++;
}

static void count_truth(struct scores *t, const int32_t *truth, size_t n)
{
    t->n_truth += n;
    for (size_t i = 0; i < n; i++) {
        const bool known = truth[i] >= 0 && (size_t)truth[i] < t->m->net.n_labels;
        t->n_unknown += !known;
        if (known) t->at_half[truth[i]].n_true++;
        if (known && t->at_own) t->at_own[truth[i]].n_true++;
    }
}

/* One row; its last place still given means that others may be. */
static void look_at_row(struct scores *t, const struct wisp_scorer *s, const int32_t *labels,
                        const float *scores, const int32_t *truth, size_t n_truth)
{
    size_t n = 0;
    bool cut = false;
    count_truth(t, truth, n_truth);
    for (size_t c = 0; c < s->k && labels[c] >= 0; c++) {
        const float raw = scores[c], p = t->map ? wisp_calibrated(t->map, raw, scores[0]) : raw;
        const bool hit = wisp_is_true(labels[c], truth, n_truth);
        const int32_t l = labels[c];
        if (c < t->k) {
            wisp_reliability_add(&t->raw, raw, hit);
            wisp_reliability_add(&t->mapped, p, hit);
        } else wisp_reliability_keep(&t->raw, raw, hit);
        decide(&t->at_half[l], p >= 0.5f, hit);
        cut = p >= 0.5f;
        if (t->at_own) decide(&t->at_own[l], p >= t->m->threshold[l], hit);
        if (t->at_own) cut |= p >= t->m->threshold[l];
        t->places[n++] = p;
    }
    t->rows_cut += cut && n < t->m->net.n_labels;
    if (t->all && t->st == WISP_OK)
        t->st = wisp_guesses_add(&t->guesses, labels, t->places, n, truth, n_truth, &t->err);
}

/* Fits wisp_scorer.look. */
static void look_at_scores(void *arg, const struct wisp_scorer *s)
{
    const struct wisp_batch *b = &s->layout.batch;
    for (size_t i = 0; i < b->n; i++)
        look_at_row(arg, s, s->labels + i * s->k, s->scores + i * s->k, b->yi + b->yp[i],
                    b->yp[i + 1] - b->yp[i]);
}

static void report_verdict(struct wisp_report *r, const struct scores *t,
                           const struct wisp_decisions *of, const char *suffix)
{
    struct wisp_verdict v;
    wisp_verdict(&v, of, t->m->net.n_labels, t->n_unknown);
    const struct {
        const char *key;
        double value;
    } figures[] = {
        { "micro_precision", v.micro_precision },
        { "micro_recall", v.micro_recall },
        { "micro_f1", v.micro_f1 },
        { "macro_precision", v.macro_precision },
        { "macro_recall", v.macro_recall },
        { "macro_f1", v.macro_f1 },
        { "macro_labels", (double)v.macro_labels },
    };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        char key[40];
        snprintf(key, sizeof key, "%s%s", figures[i].key, suffix);
        wisp_report_num(r, key, figures[i].value);
    }
}

static void report_scores(struct wisp_report *r, const struct scores *t)
{
    wisp_report_num(r, "ece_raw", wisp_reliability_ece(&t->raw));
    wisp_report_num(r, "micro_precision_raw", wisp_reliability_precision(&t->raw));
    wisp_report_num(r, "micro_recall_raw", wisp_reliability_recall(&t->raw, t->n_truth));
    wisp_report_num(r, "micro_f1_raw", wisp_reliability_f1(&t->raw, t->n_truth));
    wisp_report_num(r, "ece", wisp_reliability_ece(&t->mapped));
    report_verdict(r, t, t->at_half, "");
    if (t->at_own) report_verdict(r, t, t->at_own, "_model");
    wisp_report_num(r, "rows_cut", (double)t->rows_cut);
    wisp_report_num(r, "calibrated", t->map != NULL);
}

struct both { /* the same rows by both ways of prediction */
    struct wisp_scorer exact, sparse;
    struct wisp_metrics by_exact, by_sparse;
    double exact_s, sparse_s;
    double found[WISP_MAX_CUTS]; /* share of the exact best labels that sparse found, summed */
};

static void compare(struct both *b, size_t n, const size_t *cuts, size_t n_cuts)
{
    size_t k = b->exact.k;
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < n_cuts; c++) {
            size_t hits = 0, most = cuts[c] < k ? cuts[c] : k;
            for (size_t x = 0; x < most; x++)
                for (size_t y = 0; y < most; y++)
                    hits += b->exact.labels[i * k + x] == b->sparse.labels[i * k + y];
            b->found[c] += (double)hits / (double)most;
        }
}

static void add_batch(struct wisp_metrics *m, const struct wisp_scorer *s, size_t n)
{
    const struct wisp_batch *b = &s->layout.batch;
    for (size_t i = 0; i < n; i++)
        wisp_metrics_add(m, s->labels + i * s->k, s->k, b->yi + b->yp[i], b->yp[i + 1] - b->yp[i]);
}

static wisp_status score_both(struct both *b, const struct wisp_data *d, const size_t *cuts,
                              size_t n_cuts, wisp_error *err)
{
    size_t ids[WISP_SCORE_BATCH];
    for (size_t first = 0; first < d->n_rows; first += b->exact.batch) {
        size_t n = d->n_rows - first < b->exact.batch ? d->n_rows - first : b->exact.batch;
        for (size_t i = 0; i < n; i++) ids[i] = first + i;
        double t0 = wisp_now();
        wisp_status st = wisp_scorer_run(&b->exact, d, ids, n, err);
        double t1 = wisp_now();
        if (st == WISP_OK) st = wisp_scorer_run(&b->sparse, d, ids, n, err);
        if (st != WISP_OK) return st;
        b->exact_s += t1 - t0;
        b->sparse_s += wisp_now() - t1;
        add_batch(&b->by_exact, &b->exact, n);
        add_batch(&b->by_sparse, &b->sparse, n);
        b->sparse.look(b->sparse.look_arg, &b->sparse);
        compare(b, n, cuts, n_cuts);
    }
    return WISP_OK;
}

static void report_both(struct wisp_report *r, const struct both *b)
{
    char key[40];
    double n = b->by_exact.n_rows ? (double)b->by_exact.n_rows : 1;
    report_metrics(r, &b->by_sparse);
    for (size_t c = 0; c < b->by_exact.n_cuts; c++) {
        snprintf(key, sizeof key, "exact_p@%zu", b->by_exact.cuts[c]);
        wisp_report_num(r, key, wisp_metrics_p(&b->by_exact, c));
    }
    for (size_t c = 0; c < b->by_exact.n_cuts; c++) {
        snprintf(key, sizeof key, "recall@%zu", b->by_exact.cuts[c]);
        wisp_report_num(r, key, b->found[c] / n);
    }
    wisp_report_num(r, "scored_mean", (double)b->sparse.n_scored / n);
    wisp_report_num(r, "labels", (double)b->exact.m->net.n_labels);
    wisp_report_num(r, "exact_seconds", b->exact_s);
}

static void report_rows(struct wisp_report *r, const struct wisp_metrics *m,
                        const struct wisp_model *model, double seconds)
{
    wisp_report_num(r, "rows", (double)m->n_rows);
    wisp_report_num(r, "rows_unlabelled", (double)m->n_unlabelled);
    wisp_report_num(r, "seconds", seconds);
    wisp_report_num(r, "weight_bytes", (double)wisp_kind_of(model)->bytes(model));
}

wisp_status wisp_eval(wisp_report **out, wisp_context *ctx, const wisp_model *m, const wisp_data *d,
                      const wisp_config *cfg, wisp_error *err)
{
    *out = NULL;
    size_t cuts[WISP_MAX_CUTS], n_cuts, n_ab;
    double ab[2], began = wisp_now();
    const struct wisp_prediction how = wisp_prediction_of(cfg);
    const bool sparse = how.sparse;
    wisp_status st = wisp_need_labels(d, "evaluate the model on", err);
    if (st == WISP_OK) st = cut_offs(cuts, &n_cuts, cfg, err);
    if (st == WISP_OK) st = wisp_opt_list(ab, &n_ab, 2, cfg, OPT_PROPENSITY, err);
    if (st != WISP_OK) return st;
    if (n_ab != 2) return wisp_fail_option(err, "propensity", "expected two numbers A,B");
    if ((st = wisp_prediction_check(how, m, err)) != WISP_OK) return st;
    struct both b = { 0 };
    const char *table = wisp_opt_text(cfg, OPT_PER_LABEL);
    /* Sparse prediction looks at more labels where more are asked for: its figures would not be those of
     * 'predict' any more. */
    const size_t most = cuts[n_cuts - 1],
                 places =
                     sparse ? most : wisp_most(most, wisp_eval_places(m->net.n_labels, *table));
    struct scores scores;
    st = scores_init(&scores, m, sparse, most, *table, err);
    struct wisp_metrics *metrics[] = { &b.by_exact, &b.by_sparse };
    for (int i = 0; i < (sparse ? 2 : 1) && st == WISP_OK; i++)
        st = wisp_metrics_init(metrics[i], cuts, n_cuts, m->label_rows, m->net.n_labels, m->n_train,
                               ab[0], ab[1], err);
    if (st == WISP_OK) st = wisp_scorer_init(&b.exact, m, ctx, how.zeros, places, err);
    if (st == WISP_OK && how.cuda) st = wisp_scorer_use_card(&b.exact, NULL, false, err);
    if (st == WISP_OK && sparse &&
        (st = wisp_scorer_init(&b.sparse, m, ctx, how.zeros, places, err)) == WISP_OK)
        st = wisp_scorer_use_some(&b.sparse, err);
    struct wisp_scorer *judged = sparse ? &b.sparse : &b.exact;
    judged->look = look_at_scores, judged->look_arg = &scores, judged->look_every = 1;
    if (st == WISP_OK)
        st = sparse ? score_both(&b, d, cuts, n_cuts, err)
                    : wisp_score_all(&b.by_exact, &b.exact, d, NULL, NULL, err);
    if (st == WISP_OK && (st = scores.st) != WISP_OK && err) *err = scores.err;
    if (st == WISP_OK && *table)
        st = wisp_label_table(table, m, scores.at_own ? scores.at_own : scores.at_half,
                              &scores.guesses, err);
    if (st == WISP_OK) {
        struct wisp_report *r = wisp_report_create();
        if (sparse) report_both(r, &b);
        else report_metrics(r, &b.by_exact);
        report_scores(r, &scores);
        report_rows(r, &b.by_exact, m, sparse ? b.sparse_s : wisp_now() - began);
        st = wisp_report_done(out, r, err);
    }
    scores_clear(&scores);
    wisp_scorer_clear(&b.exact);
    wisp_scorer_clear(&b.sparse);
    wisp_metrics_clear(&b.by_exact);
    wisp_metrics_clear(&b.by_sparse);
    return st;
}

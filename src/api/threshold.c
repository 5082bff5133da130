/* wisp_threshold: thresholds of labels, chosen on labelled rows and kept in the model file. */
#include "api/predictor.h"
#include "base/mem.h"
#include "base/report.h"
#include "base/sort.h"
#include "base/text.h"
#include "config/options.h"
#include "model/threshold.h"

#include <stdio.h>
#include <string.h>

float wisp_model_threshold(const wisp_model *m, int32_t label)
{
    const bool known = m->threshold && label >= 0 && (size_t)label < m->net.n_labels;
    return known ? m->threshold[label] : 0;
}

/* ---- guesses ---- */

static wisp_status guess_all(struct wisp_guesses *g, wisp_predictor *p, const wisp_data *d,
                             wisp_error *err)
{
    const struct wisp_scorer *s = &p->scorer;
    int32_t *labels = wisp_alloc(s->batch * p->k, sizeof *labels);
    float *scores = wisp_alloc(s->batch * p->k, sizeof *scores);
    wisp_status st = labels && scores
                         ? WISP_OK
                         : wisp_fail_mem(err, s->batch * p->k * 8, "the answers of a batch");
    for (size_t first = 0; st == WISP_OK && first < d->n_rows; first += s->batch) {
        const size_t n = d->n_rows - first < s->batch ? d->n_rows - first : s->batch;
        st = wisp_predictor_run(labels, scores, p, d, first, n, err);
        const struct wisp_batch *b = &s->layout.batch;
        for (size_t i = 0; st == WISP_OK && i < n; i++)
            st = wisp_guesses_add(g, labels + i * p->k, scores + i * p->k, p->k, b->yi + b->yp[i],
                                  b->yp[i + 1] - b->yp[i], err);
    }
    wisp_free(labels);
    wisp_free(scores);
    return st == WISP_OK ? wisp_guesses_sort(g, err) : st;
}

/* ---- fitting, and how good it is ---- */

enum { HALF, HELD_OUT, SAME_ROWS, N_JUDGED };

struct choice {
    struct wisp_goal goal;
    bool one;
    struct wisp_guesses g;
    float *t;                  /* (n_labels) */
    struct wisp_decisions *of; /* (n_labels) */
    struct wisp_verdict by[N_JUDGED];
};

/* Thresholds of 'fit' (0: 1/2 for all labels) on the rows of 'judged', both sets of halves. */
static wisp_status judge(struct choice *c, unsigned fit, unsigned judged, wisp_error *err)
{
    for (size_t l = 0; l < c->g.n_labels && !fit; l++) c->t[l] = 0.5f;
    wisp_status st = fit ? wisp_thresholds_fit(c->t, &c->g, fit, &c->goal, c->one, err) : WISP_OK;
    for (int h = 0; h < 2 && st == WISP_OK; h++)
        if (judged >> h & 1) wisp_guesses_decide(c->of, &c->g, h, c->t);
    return st;
}

static wisp_status choose(struct choice *c, wisp_error *err)
{
    static const struct {
        int by;
        unsigned fit[2], judged[2];
    } rounds[] = {
        { HALF, { 0, 0 }, { 3, 0 } },
        { HELD_OUT, { 1, 2 }, { 2, 1 } },
        { SAME_ROWS, { 3, 3 }, { 3, 0 } }, /* the last: its thresholds are the model's */
    };
    const uint64_t unknown = c->g.n_unknown[0] + c->g.n_unknown[1];
    wisp_status st = WISP_OK;
    for (size_t r = 0; r < sizeof rounds / sizeof *rounds && st == WISP_OK; r++) {
        memset(c->of, 0, c->g.n_labels * sizeof *c->of);
        for (int i = 0; i < 2 && st == WISP_OK; i++)
            st = judge(c, rounds[r].fit[i], rounds[r].judged[i], err);
        wisp_verdict(&c->by[rounds[r].by], c->of, c->g.n_labels, unknown);
    }
    return st;
}

/* ---- the report and the file ---- */

/* Leaves c->of without meaning. */
static void report_thresholds(struct wisp_report *r, const struct choice *c)
{
    size_t n = 0;
    float *sorted = (float *)c->of; /* smaller, and no longer needed */
    for (size_t l = 0; l < c->g.n_labels; l++)
        if (c->t[l] <= 1) sorted[n++] = c->t[l];
    wisp_sort_floats(sorted, n);
    wisp_report_num(r, "threshold_least", n ? (double)sorted[0] : 0);
    wisp_report_num(r, "threshold_median", n ? (double)sorted[n / 2] : 0);
    wisp_report_num(r, "threshold_most", n ? (double)sorted[n - 1] : 0);
    wisp_report_num(r, "labels_never", (double)(c->g.n_labels - n));
}

static void report_verdicts(struct wisp_report *r, const struct choice *c)
{
    static const char *const before[N_JUDGED] = {
        [HALF] = "half_", [HELD_OUT] = "", [SAME_ROWS] = "same_rows_"
    };
    static const int order[] = { HELD_OUT, SAME_ROWS, HALF };
    for (int i = 0; i < N_JUDGED; i++) {
        const struct wisp_verdict *v = &c->by[order[i]];
        const struct {
            const char *key;
            double value;
        } figures[] = {
            { "micro_precision", v->micro_precision },
            { "micro_recall", v->micro_recall },
            { "micro_f1", v->micro_f1 },
            { "macro_precision", v->macro_precision },
            { "macro_recall", v->macro_recall },
            { "macro_f1", v->macro_f1 },
        };
        char key[60];
        for (size_t k = 0; k < sizeof figures / sizeof *figures; k++) {
            snprintf(key, sizeof key, "%s%s", before[order[i]], figures[k].key);
            wisp_report_num(r, key, figures[k].value);
        }
        if (c->goal.kind != WISP_GOAL_COST) continue;
        snprintf(key, sizeof key, "%scost", before[order[i]]);
        wisp_report_num(
            r, key,
            (c->goal.fp * (double)v->sum.fp + c->goal.fn * (double)(v->sum.n_true - v->sum.tp)) /
                (double)c->g.n_rows);
    }
}

/* The model's tensors and metadata as they are, but for the thresholds. */
static wisp_status write_model(const struct choice *c, const wisp_model *m, const char *how,
                               const char *path, wisp_error *err)
{
    const struct wisp_tensor_file *f = &m->file;
    struct wisp_tensor *t = wisp_alloc(f->n_tensors + 1, sizeof *t);
    struct wisp_pair *meta = wisp_alloc(f->n_meta + 1, sizeof *meta);
    size_t n = 0, n_meta = 0;
    wisp_status st =
        t && meta ? WISP_OK : wisp_fail_mem(err, f->n_tensors * sizeof *t, "the list of tensors");
    for (size_t i = 0; st == WISP_OK && i < f->n_tensors; i++)
        if (strcmp(f->tensors[i].name, "threshold") != 0) t[n++] = f->tensors[i];
    for (size_t i = 0; st == WISP_OK && i < f->n_meta; i++)
        if (strcmp(f->meta[i].key, "threshold") != 0) meta[n_meta++] = f->meta[i];
    if (st == WISP_OK) {
        t[n] = (struct wisp_tensor){ .name = "threshold",
                                     .dtype = WISP_F32,
                                     .n_dims = 1,
                                     .shape = { c->g.n_labels },
                                     .data = c->t,
                                     .bytes = c->g.n_labels * sizeof *c->t };
        meta[n_meta] = (struct wisp_pair){ "threshold", how };
        st = wisp_tensor_file_write(path, t, n + 1, meta, n_meta + 1, NULL, err);
    }
    wisp_free(t);
    wisp_free(meta);
    return wisp_map_blame(&f->map, st, err);
}

static wisp_status keep(wisp_report **out, const struct choice *c, const wisp_model *m,
                        const wisp_config *cfg, const char *path, wisp_error *err)
{
    char how[400];
    const struct wisp_verdict *v = &c->by[HELD_OUT];
    wisp_print(how, sizeof how,
               "for=%.100s\nper=%s\nrows=%zu\nmicro_precision=%.4f\nmicro_recall=%.4f\n"
               "micro_f1=%.4f\nmacro_f1=%.4f\n",
               wisp_opt_text(cfg, OPT_FOR), c->one ? "one" : "label", c->g.n_rows,
               v->micro_precision, v->micro_recall, v->micro_f1, v->macro_f1);
    wisp_status st = write_model(c, m, how, path, err);
    if (st != WISP_OK) return st;
    struct wisp_report *r = wisp_report_create();
    wisp_report_text(r, "path", path);
    wisp_report_text(r, "for", wisp_opt_text(cfg, OPT_FOR));
    wisp_report_text(r, "per", c->one ? "one" : "label");
    wisp_report_num(r, "rows", (double)c->g.n_rows);
    wisp_report_num(r, "labels", (double)c->g.n_labels);
    wisp_report_num(r, "macro_labels", (double)v->macro_labels);
    report_verdicts(r, c);
    report_thresholds(r, c);
    return wisp_report_done(out, r, err);
}

wisp_status wisp_threshold(wisp_report **out, wisp_context *ctx, const wisp_model *m,
                           const wisp_data *d, const wisp_config *cfg, const char *path,
                           wisp_error *err)
{
    *out = NULL;
    struct choice c = { .one = wisp_opt_is(cfg, OPT_PER, "one") };
    const size_t n_labels = m->net.n_labels;
    wisp_predictor *p = NULL;
    wisp_status st = wisp_goal_parse(&c.goal, wisp_opt_text(cfg, OPT_FOR), err);
    if (st != WISP_OK) return st;
    if (!m->file.map.p)
        return wisp_fail(err, WISP_ENOTSUP, "thresholds are for a model that was read from a file");
    const size_t k = n_labels < WISP_DECIDE_PLACES ? n_labels : WISP_DECIDE_PLACES;
    st = wisp_predictor_make(&p, ctx, m, (struct wisp_prediction){ 0 }, k, err);
    if (st == WISP_OK) st = wisp_guesses_init(&c.g, n_labels, WISP_THRESHOLD_LEAST, err);
    if (st == WISP_OK) st = guess_all(&c.g, p, d, err);
    c.t = wisp_alloc(n_labels, sizeof *c.t);
    c.of = wisp_alloc(n_labels, sizeof *c.of);
    if (st == WISP_OK && (!c.t || !c.of))
        st = wisp_fail_mem(err, n_labels * sizeof *c.of, "the thresholds");
    if (st == WISP_OK) st = choose(&c, err);
    if (st == WISP_OK) st = keep(out, &c, m, cfg, path, err);
    wisp_predictor_free(p);
    wisp_guesses_clear(&c.g);
    wisp_free(c.t);
    wisp_free(c.of);
    return st;
}

/* What the rows of a training run count for: the weights of the data set, of --weights and of
 * --class-weight, multiplied, and scaled so that rows that count do so by 1 on average.  Then a
 * learning rate means the same with weights and without, and a row of weight 2 is two rows. */
#include "base/mem.h"
#include "base/dict.h"
#include "model/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

struct file { /* of weights, being read */
    const char *path;
    float *to; /* (n) the weights, multiplied by those of the file */
    size_t n, lines;
    const char *what;            /* n of what */
    const struct wisp_dict *ids; /* of names; NULL: lines have none */
    bool by_line, by_name;       /* lines without a name were seen, lines with one */
};

/* ---- files ---- */

static wisp_status take_at(const struct file *f, size_t line, size_t at, float weight,
                           wisp_error *err)
{
    if (at >= f->n)
        return wisp_fail_at(err, WISP_EINVAL, f->path, line,
                            "a weight for %s %zu, but there are %zu of them", f->what, at, f->n);
    f->to[at] *= weight;
    return WISP_OK;
}

/* Line i is for row i. */
static wisp_status take_row(void *file, size_t line, const char *name, size_t bytes, float weight,
                            wisp_error *err)
{
    struct file *f = file;
    f->lines = line;
    if (bytes)
        return wisp_fail_at(err, WISP_EFORMAT, f->path, line,
                            "'%.*s' before the weight, expected one number",
                            (int)(bytes < 40 ? bytes : 40), name);
    return take_at(f, line, line - 1, weight, err);
}

/* The id that a label's name stands for, or the id itself where labels have no names. */
static bool find_label(size_t *out, const struct file *f, const char *name, size_t bytes)
{
    if (f->ids->n) {
        const struct wisp_dict_entry *e =
            wisp_dict_find(f->ids, name, bytes, wisp_dict_hash(name, bytes));
        if (e) *out = (size_t)e->value;
        return e != NULL;
    }
    *out = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (name[i] < '0' || name[i] > '9' || *out > INT32_MAX) return false;
        *out = *out * 10 + (size_t)(name[i] - '0');
    }
    return bytes > 0;
}

static wisp_status take_label(void *file, size_t line, const char *name, size_t bytes, float weight,
                              wisp_error *err)
{
    struct file *f = file;
    size_t at = line - 1;
    *(bytes ? &f->by_name : &f->by_line) = true;
    f->lines = line;
    if (f->by_name && f->by_line)
        return wisp_fail_at(err, WISP_EFORMAT, f->path, line,
                            "lines with a label and lines without one; expected 'label weight' "
                            "in each, or a weight alone in each");
    if (bytes && !find_label(&at, f, name, bytes))
        return wisp_fail_at(err, WISP_EINVAL, f->path, line, "the data has no label '%.*s'",
                            (int)(bytes < 100 ? bytes : 100), name);
    return take_at(f, line, at, weight, err);
}

static wisp_status read_rows(float *weights, const char *path, size_t n, wisp_error *err)
{
    struct file f = { .path = path, .to = weights, .n = n, .what = "row" };
    wisp_status st = wisp_sample_weights_read(path, take_row, &f, err);
    if (st == WISP_OK && f.lines != n)
        return wisp_fail_at(err, WISP_EINVAL, path, 0,
                            "has %zu weights, the data has %zu rows; expected one line for each",
                            f.lines, n);
    return st;
}

static wisp_status read_labels(float *of_label, const char *path, const struct wisp_names *names,
                               size_t n, wisp_error *err)
{
    struct wisp_dict ids = { 0 };
    wisp_status st = WISP_OK;
    for (size_t i = 0; st == WISP_OK && i < names->n; i++) {
        const char *name = names->text + names->start[i];
        size_t bytes = names->start[i + 1] - names->start[i] - 1;
        struct wisp_dict_entry *e;
        st = wisp_dict_add(&e, &ids, name, bytes, wisp_dict_hash(name, bytes), err);
        if (st == WISP_OK) e->value = (int64_t)i;
    }
    struct file f = { .path = path, .to = of_label, .n = n, .what = "label", .ids = &ids };
    if (st == WISP_OK) st = wisp_sample_weights_read(path, take_label, &f, err);
    if (st == WISP_OK && f.by_line && f.lines != n)
        st = wisp_fail_at(err, WISP_EINVAL, path, 0,
                          "has %zu weights, there are %zu labels; expected one line for each, or "
                          "lines 'label weight'",
                          f.lines, n);
    wisp_dict_clear(&ids);
    return st;
}

/* ---- labels ---- */

/* Labels that rows have weigh the same in all: 1 for each occurrence on average. */
static void balance(float *of_label, const struct wisp_data *d)
{
    double seen = 0;
    for (size_t l = 0; l < d->n_labels; l++) seen += d->label_rows[l] > 0;
    for (size_t l = 0; l < d->n_labels; l++)
        if (d->label_rows[l])
            of_label[l] = (float)((double)d->n_lab / (seen * (double)d->label_rows[l]));
}

/* Multiplies a row's weight by the mean of those of its labels; rows without labels stay. */
static void weigh_rows(float *weights, const struct wisp_data *d, const float *of_label)
{
    for (size_t b = 0; b < d->n_blocks; b++)
        for (size_t i = 0; i < d->blocks[b].n; i++) {
            const struct wisp_rows *k = &d->blocks[b];
            uint32_t first = k->yp[i], end = k->yp[i + 1];
            double sum = 0;
            for (uint32_t e = first; e < end; e++) sum += of_label[k->yi[e]];
            if (end > first) weights[d->first[b] + i] *= (float)(sum / (end - first));
        }
}

static wisp_status weigh_labels(float *weights, const struct wisp_run *r, const wisp_config *cfg,
                                wisp_error *err)
{
    size_t n = r->m->net.n_labels;
    float *of_label = wisp_alloc(n, sizeof *of_label);
    if (!of_label) return wisp_fail_mem(err, n * sizeof *of_label, "the weights of labels");
    for (size_t l = 0; l < n; l++) of_label[l] = 1;
    wisp_status st = WISP_OK;
    if (wisp_opt_is(cfg, OPT_CLASS_WEIGHT, "balanced")) balance(of_label, r->sets.train);
    else st = read_labels(of_label, wisp_opt_text(cfg, OPT_CLASS_WEIGHT), &r->m->labels, n, err);
    if (st == WISP_OK) weigh_rows(weights, r->sets.train, of_label);
    wisp_free(of_label);
    return st;
}

/* ---- all of them ---- */

/* To 1 on average of those above 0. */
static wisp_status scale(float *weights, size_t n, wisp_error *err)
{
    double sum = 0, rows = 0;
    for (size_t i = 0; i < n; i++) sum += (double)weights[i], rows += weights[i] > 0;
    if (rows == 0)
        return wisp_fail(err, WISP_EINVAL, "all rows have weight 0: none is left to train on");
    if (!isfinite(sum) || !isfinite((float)(rows / sum)))
        return wisp_fail(err, WISP_EINVAL,
                         "the weights of the rows sum to %g: they are too large or too small", sum);
    for (size_t i = 0; i < n; i++) weights[i] = (float)((double)weights[i] * (rows / sum));
    return WISP_OK;
}

/* A resumed run must have the same: their checksum is one of the options that are compared. */
static wisp_status note(struct wisp_model *m, const float *weights, size_t n, wisp_error *err)
{
    size_t room = strlen(m->options) + 64;
    char *text = wisp_alloc(room, 1);
    if (!text) return wisp_fail_mem(err, room, "options");
    snprintf(text, room, "%sweights-checksum=%016llx\n", m->options,
             (unsigned long long)XXH3_64bits(weights, n * sizeof *weights));
    wisp_free(m->options);
    m->options = text;
    return WISP_OK;
}

wisp_status wisp_run_weights(struct wisp_run *r, const wisp_config *cfg, wisp_error *err)
{
    const struct wisp_data *d = r->sets.train;
    const char *path = wisp_opt_text(cfg, OPT_WEIGHTS);
    bool by_label = !wisp_opt_is(cfg, OPT_CLASS_WEIGHT, "none");
    wisp_status st = WISP_OK;
    r->sets.weighted = *d;
    r->sets.weighted.weights = NULL;
    if (!d->weights && !*path && !by_label) return WISP_OK;
    float *weights = r->sets.weights = wisp_alloc(d->n_rows, sizeof *weights);
    if (!weights) return wisp_fail_mem(err, d->n_rows * sizeof *weights, "the weights of rows");
    for (size_t i = 0; i < d->n_rows; i++) weights[i] = d->weights ? d->weights[i] : 1;
    if (*path) st = read_rows(weights, path, d->n_rows, err);
    if (st == WISP_OK && by_label) st = weigh_labels(weights, r, cfg, err);
    if (st == WISP_OK) st = scale(weights, d->n_rows, err);
    r->sets.weighted.weights = weights;
    return st == WISP_OK ? note(r->m, weights, d->n_rows, err) : st;
}

void wisp_run_label_mass(double *mass, const struct wisp_run *r)
{
    const struct wisp_data *d = r->sets.train;
    for (size_t l = 0; l < r->m->net.n_labels; l++)
        mass[l] = (double)(r->sets.weights ? 0 : r->m->counts[l]);
    if (!r->sets.weights) return;
    for (size_t l = 0; r->init.model && l < r->init.model->net.n_labels; l++)
        mass[l] = (double)r->init.model->label_rows[l];
    for (size_t b = 0; b < d->n_blocks; b++)
        for (size_t i = 0; i < d->blocks[b].n; i++) {
            const struct wisp_rows *k = &d->blocks[b];
            for (uint32_t e = k->yp[i]; e < k->yp[i + 1]; e++)
                mass[k->yi[e]] += (double)r->sets.weights[d->first[b] + i];
        }
}

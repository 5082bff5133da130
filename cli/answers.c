/* The answers of 'wisp predict': how many labels a row gets, and how they are printed.
 *
 *   -k N                N labels per row
 *   neither             5 labels
 *   --threshold T       all labels that reach T (of 0: all labels).  How many that are is not known before, and room
 *                       for all labels of all rows would be too much (4096 rows of 670,091 labels:
 *                       22 GB).  So k grows: rows are asked for 64 labels, and those whose last one
 *                       still reaches T again, one by one, for 1,000 and for 10,000.  There it
 *                       ends, as -k does, and that is said.
 *   --threshold model   the same, with a threshold for each label: k grows by the lowest of them
 *
 *   lines   name:score name:score ...    a line per row
 *   --tsv   row, rank, name, score       a line per label, tabs between
 *   --json  {"labels":[...]}             an object per row */
#include "answers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FEW = 5, ROWS = 4096, PLACES = 1 << 22 };

/* The name, or the id where the model has no names. */
static void put_label(const struct answers *s, int32_t label)
{
    size_t bytes = 0;
    const char *name = wisp_model_label_name(s->model, label, &bytes);
    if (name) put_safe(name, bytes, s->to);
    else fprintf(s->to, "%d", label);
}

static void lines_label(const struct answers *s, size_t rank, int32_t label, float score)
{
    if (rank > 1) fputc(' ', s->to);
    put_label(s, label);
    fprintf(s->to, ":%.4f", score);
}

static void tsv_label(const struct answers *s, size_t rank, int32_t label, float score)
{
    fprintf(s->to, "%zu\t%zu\t", s->row, rank);
    put_label(s, label);
    fprintf(s->to, "\t%.6g\n", score);
}

static void json_label(const struct answers *s, size_t rank, int32_t label, float score)
{
    size_t bytes = 0;
    const char *name = wisp_model_label_name(s->model, label, &bytes);
    fprintf(s->to, "%s{\"label\":%d,", rank > 1 ? "," : "", label);
    if (name) {
        fputs("\"name\":", s->to);
        put_json(name, bytes, s->to);
        fputc(',', s->to);
    }
    fprintf(s->to, "\"score\":%.6g}", score);
}

struct form {
    const char *option;         /* flag that asks for it; NULL: the default */
    const char *before, *after; /* of a row */
    void (*label)(const struct answers *s, size_t rank, int32_t label, float score);
};
static const struct form forms[] = {
    { NULL, "", "\n", lines_label },
    { "tsv", "", "", tsv_label },
    { "json", "{\"labels\":[", "]}\n", json_label },
};
enum { N_FORMS = sizeof forms / sizeof *forms };

/* A predictor, and room for what it answers. */
static wisp_status level_up(struct answers *s, size_t i, wisp_error *err)
{
    struct level *l = &s->levels[i];
    if (l->predictor) return WISP_OK;
    wisp_status st =
        wisp_predictor_create(&l->predictor, s->ctx, s->model, s->args->cfg, l->k, err);
    if (st != WISP_OK) return st;
    l->labels = malloc(l->rows * l->k * sizeof *l->labels);
    l->scores = malloc(l->rows * l->k * sizeof *l->scores);
    if (l->labels && l->scores) return WISP_OK;
    return refuse(err, WISP_ENOMEM, "out of memory for predictions");
}

int answers_init(struct answers *s, const struct args *a)
{
    const size_t k = (size_t)strtod(args_text(a, "k"), NULL); /* 0: it was not given */
    *s = (struct answers){ .args = a, .to = stdout, .form = &forms[0] };
    s->own = strcmp(args_text(a, "threshold"), "model") == 0;
    s->threshold = s->own ? 0 : strtod(args_text(a, "threshold"), NULL);
    for (size_t i = 1; i < N_FORMS; i++) {
        if (!args_on(a, forms[i].option)) continue;
        if (s->form != &forms[0])
            return usage_error(a->command, "--%s and --%s: take one of them", s->form->option,
                               forms[i].option);
        s->form = &forms[i];
    }
    s->grows = k == 0 && *args_text(a, "threshold") != 0;
    s->levels[0].k = k ? k : s->grows ? 64 : FEW;
    s->levels[1].k = 1000;
    s->levels[2].k = WISP_MOST_K;
    s->levels[0].rows = PLACES / s->levels[0].k < ROWS ? PLACES / s->levels[0].k : ROWS;
    for (size_t i = 1; i < N_LEVELS; i++) s->levels[i].rows = 1;
    return 0;
}

/* A threshold on scores that are no probabilities would not do what it says. */
static void tell_raw(const struct answers *s)
{
    if (s->threshold > 0 && !wisp_predictor_calibrated(s->levels[0].predictor) &&
        strcmp(args_text(s->args, "scores"), "raw") != 0)
        tell("scores    the model has no calibration for --inference %s (too few validation rows, "
             "or none, when it was trained): --threshold takes its raw scores",
             args_text(s->args, "inference"));
}

/* The model's own thresholds: are there any, and which is the lowest? */
static wisp_status take_thresholds(struct answers *s, wisp_error *err)
{
    const size_t n = wisp_model_n_labels(s->model);
    if (strcmp(args_text(s->args, "scores"), "raw") == 0)
        return refuse(err, WISP_EINVAL,
                      "--threshold model and --scores raw: the model's thresholds are for "
                      "calibrated scores; leave out one of them");
    s->threshold = wisp_model_threshold(s->model, 0);
    if (s->threshold == 0)
        return refuse(err, WISP_EINVAL,
                      "--threshold model: the model has no thresholds; 'wisp threshold MODEL DATA "
                      "-o MODEL2' chooses them");
    for (size_t l = 1; l < n; l++) {
        const double t = wisp_model_threshold(s->model, (int32_t)l);
        if (t < s->threshold) s->threshold = t;
    }
    return WISP_OK;
}

/* Is the label given? */
static bool is_given(const struct answers *s, int32_t label, float score)
{
    return score >= (s->own ? wisp_model_threshold(s->model, label) : s->threshold);
}

wisp_status answers_open(struct answers *s, wisp_context *ctx, const wisp_model *m, wisp_error *err)
{
    s->ctx = ctx;
    s->model = m;
    wisp_status st = s->own ? take_thresholds(s, err) : WISP_OK;
    if (st == WISP_OK) st = level_up(s, 0, err);
    if (st == WISP_OK && !args_on(s->args, "quiet")) tell_raw(s);
    if (st != WISP_OK || !s->args->out) return st;
    if ((s->to = open_write(s->args->out, 0))) return WISP_OK;
    return refuse(err, WISP_EIO, "-o: %.300s: cannot be written: %s", s->args->out,
                  strerror(errno));
}

/* Do all places of a row reach the threshold, and are there labels beyond them? */
static bool is_full(const struct answers *s, const struct level *l, size_t i)
{
    return l->k < wisp_model_n_labels(s->model) && l->labels[(i + 1) * l->k - 1] >= 0 &&
           l->scores[(i + 1) * l->k - 1] >= s->threshold;
}

/* Prints row i of the level's answers; 'at' is its row of the data. */
static wisp_status print_row(struct answers *s, size_t i, const wisp_data *d, size_t at,
                             wisp_error *err)
{
    size_t level = 0;
    for (; s->grows && is_full(s, &s->levels[level], level ? 0 : i); level++) {
        if (level + 1 == N_LEVELS) {
            if (!s->cut && !args_on(s->args, "quiet"))
                tell("row %zu has more than %d labels of %g or more: the best %d are printed",
                     s->row + 1, WISP_MOST_K, s->threshold, WISP_MOST_K);
            s->cut = true;
            break;
        }
        struct level *next = &s->levels[level + 1];
        wisp_status st = level_up(s, level + 1, err);
        if (st == WISP_OK)
            st = wisp_predictor_run(next->labels, next->scores, next->predictor, d, at, 1, err);
        if (st != WISP_OK) return st;
    }
    const struct level *l = &s->levels[level];
    const int32_t *labels = l->labels + (level ? 0 : i) * l->k;
    const float *scores = l->scores + (level ? 0 : i) * l->k;
    size_t rank = 0;
    s->row++;
    fputs(s->form->before, s->to);
    for (size_t c = 0; c < l->k && labels[c] >= 0; c++)
        if (is_given(s, labels[c], scores[c])) s->form->label(s, ++rank, labels[c], scores[c]);
    fputs(s->form->after, s->to);
    return WISP_OK;
}

wisp_status answers_rows(struct answers *s, const wisp_data *d, wisp_error *err)
{
    struct level *l = &s->levels[0];
    wisp_data_stats stats;
    wisp_data_stats_get(d, &stats);
    wisp_status st = WISP_OK;
    for (size_t at = 0; st == WISP_OK && at < stats.n_rows; at += l->rows) {
        size_t n = stats.n_rows - at < l->rows ? stats.n_rows - at : l->rows;
        st = wisp_predictor_run(l->labels, l->scores, l->predictor, d, at, n, err);
        for (size_t i = 0; st == WISP_OK && i < n; i++) st = print_row(s, i, d, at + i, err);
    }
    fflush(s->to);
    return st;
}

wisp_status answers_close(struct answers *s, wisp_status st, wisp_error *err)
{
    for (size_t i = 0; i < N_LEVELS; i++) {
        wisp_predictor_free(s->levels[i].predictor);
        free(s->levels[i].labels);
        free(s->levels[i].scores);
    }
    if (!s->to || s->to == stdout) return st; /* main looks at stdout */
    if ((ferror(s->to) | fclose(s->to)) == 0 || st != WISP_OK) return st;
    return refuse(err, WISP_EIO, "-o: %.300s: could not be written whole", s->args->out);
}

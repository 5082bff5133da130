/* wisp explain MODEL [ROW|DATA|-]
 *
 * Each row's best labels, or --label, and which features made their scores.  What is the name of a
 * file is data, all else the row itself; without it rows come from stdin. */
#include "cli.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REGIONS = 8 }; /* that the height and the width of an image are cut into, at most */

struct job {
    const struct args *a;
    wisp_context *ctx;
    wisp_model *model;
    wisp_predictor *predictor;
    wisp_data *rows;
    size_t k, features; /* labels per row; features that are printed, 0: all */
    int32_t label;      /* -1: the best ones */
    int32_t *labels;    /* (k) */
    float *scores;
    bool json;
};

/* ---- words ---- */

static void put_name(const char *name, size_t bytes, long id, bool json)
{
    if (name && json) put_json(name, bytes, stdout);
    else if (name) put_safe(name, bytes, stdout);
    else printf("%ld", id);
}

static void put_label(const struct job *j, int32_t label)
{
    size_t bytes = 0;
    const char *name = wisp_model_label_name(j->model, label, &bytes);
    put_name(name, bytes, label, false);
}

static size_t shown(const struct job *j, const wisp_explanation *e)
{
    return j->features && j->features < e->n ? j->features : e->n;
}

static double sum_from(const wisp_explanation *e, size_t first)
{
    double sum = 0;
    for (size_t i = first; i < e->n; i++) sum += e->reasons[i].part;
    return sum;
}

/* ---- images: sums over regions ---- */

struct regions {
    size_t rows, columns; /* regions */
    size_t high, wide;    /* pixels of one, fewer at the end */
    double part[REGIONS][REGIONS];
};

static void sum_regions(struct regions *r, const wisp_explanation *e)
{
    *r = (struct regions){ .high = (e->height + REGIONS - 1) / REGIONS,
                           .wide = (e->width + REGIONS - 1) / REGIONS };
    r->rows = (e->height + r->high - 1) / r->high;
    r->columns = (e->width + r->wide - 1) / r->wide;
    for (size_t i = 0; i < e->n; i++) {
        const size_t pixel = (size_t)e->reasons[i].feature % (e->height * e->width);
        r->part[pixel / e->width / r->high][pixel % e->width / r->wide] += e->reasons[i].part;
    }
}

static void print_regions(const wisp_explanation *e)
{
    struct regions r;
    sum_regions(&r, e);
    printf("  regions of %zu x %zu pixels, the image's upper left first\n", r.high, r.wide);
    for (size_t y = 0; y < r.rows; y++) {
        for (size_t x = 0; x < r.columns; x++) printf(" %+8.3f", r.part[y][x]);
        putchar('\n');
    }
}

static void json_regions(const wisp_explanation *e)
{
    struct regions r;
    sum_regions(&r, e);
    printf("\"region\":[%zu,%zu],\"parts\":[", r.high, r.wide);
    for (size_t y = 0; y < r.rows; y++)
        for (size_t x = 0; x < r.columns; x++)
            printf("%s%.9g%s",
                   x   ? ","
                   : y ? ",["
                       : "[",
                   r.part[y][x], x + 1 == r.columns ? "]" : "");
    putchar(']');
}

/* ---- a label ---- */

static void print_features(const struct job *j, const wisp_explanation *e)
{
    const size_t n = shown(j, e);
    printf("      part     value  feature\n");
    for (size_t i = 0; i < n; i++) {
        size_t bytes = 0;
        const wisp_reason *r = &e->reasons[i];
        const char *name = wisp_model_feature_name(j->model, r->feature, &bytes);
        printf("  %+8.4f  %8.4f  ", r->part, (double)r->value);
        put_name(name, bytes, (long)wisp_model_feature_id(j->model, r->feature), false);
        putchar('\n');
    }
    if (n < e->n)
        printf("  %+8.4f            %zu more feature%s\n", sum_from(e, n), e->n - n,
               e->n - n > 1 ? "s" : "");
}

static void print_label(const struct job *j, size_t row, const wisp_explanation *e)
{
    printf("row %zu: ", row);
    put_label(j, e->label);
    printf(" %.4f, logit %+.4f\n", (double)e->score, e->logit);
    if (e->height) print_regions(e);
    else print_features(j, e);
    printf("  %+8.4f            biases\n", e->bias);
    printf("  %+8.4f            remainder\n", e->remainder);
}

static void json_features(const struct job *j, const wisp_explanation *e)
{
    const size_t n = shown(j, e);
    fputs("\"features\":[", stdout);
    for (size_t i = 0; i < n; i++) {
        size_t bytes = 0;
        const wisp_reason *r = &e->reasons[i];
        const char *name = wisp_model_feature_name(j->model, r->feature, &bytes);
        printf("%s{\"feature\":%ld,", i ? "," : "",
               (long)wisp_model_feature_id(j->model, r->feature));
        if (name) {
            fputs("\"name\":", stdout);
            put_json(name, bytes, stdout);
            putchar(',');
        }
        printf("\"value\":%.9g,\"part\":%.9g}", (double)r->value, r->part);
    }
    printf("],\"more\":%zu,\"more_part\":%.9g", e->n - n, sum_from(e, n));
}

static void json_label(const struct job *j, size_t rank, const wisp_explanation *e)
{
    size_t bytes = 0;
    const char *name = wisp_model_label_name(j->model, e->label, &bytes);
    printf("%s{\"label\":%d,", rank ? "," : "", e->label);
    if (name) {
        fputs("\"name\":", stdout);
        put_json(name, bytes, stdout);
        putchar(',');
    }
    printf("\"score\":%.6g,\"logit\":%.9g,\"bias\":%.9g,\"remainder\":%.9g,", (double)e->score,
           e->logit, e->bias, e->remainder);
    if (e->height) json_regions(e);
    else json_features(j, e);
    putchar('}');
}

/* ---- rows ---- */

static wisp_status explain_row(const struct job *j, size_t row, wisp_error *err)
{
    const wisp_explanation *e;
    wisp_status st = WISP_OK;
    size_t n = 1;
    if (j->label < 0) {
        st = wisp_predictor_run(j->labels, j->scores, j->predictor, j->rows, row, 1, err);
        for (n = 0; st == WISP_OK && n < j->k && j->labels[n] >= 0;) n++;
    }
    if (st == WISP_OK && j->json) printf("{\"row\":%zu,\"labels\":[", row + 1);
    for (size_t c = 0; st == WISP_OK && c < n; c++) {
        const int32_t label = j->label < 0 ? j->labels[c] : j->label;
        st = wisp_explain(&e, j->predictor, j->rows, row, label, err);
        if (st != WISP_OK) break;
        if (j->json) json_label(j, c, e);
        else print_label(j, row + 1, e);
    }
    if (j->json && st == WISP_OK) puts("]}");
    return st;
}

/* The row itself, or rows of a file or of stdin. */
static wisp_status open_rows(struct job *j, wisp_error *err)
{
    const char *given = j->a->n_files > 1 ? j->a->files[1] : "-";
    if (strcmp(given, "-") == 0 || access(given, F_OK) == 0)
        return wisp_data_open(&j->rows, j->ctx, given, j->a->cfg, j->model, err);
    if (!strpbrk(given, " \t") && !args_on(j->a, "quiet"))
        tell("there is no file '%s': it is taken for a row", given);
    return wisp_data_parse(&j->rows, j->ctx, given, strlen(given), "ROW", j->a->cfg, j->model, err);
}

static wisp_status find_label(struct job *j, wisp_error *err)
{
    const char *name = args_text(j->a, "label");
    char *end;
    if (!*name) return WISP_OK;
    j->label = wisp_model_label(j->model, name, strlen(name));
    if (j->label >= 0) return WISP_OK;
    const long id = strtol(name, &end, 10);
    size_t bytes;
    if (*end == 0 && id >= 0 && (size_t)id < wisp_model_n_labels(j->model) &&
        !wisp_model_label_name(j->model, 0, &bytes)) {
        j->label = (int32_t)id;
        return WISP_OK;
    }
    return refuse(
        err, WISP_EINVAL,
        "--label: the model has no label '%.200s'; wisp inspect MODEL --labels lists them", name);
}

static wisp_status explain(struct job *j, wisp_error *err)
{
    wisp_data_stats stats = { 0 };
    wisp_status st = open_context(&j->ctx, j->a, err);
    if (st == WISP_OK) st = load_model(&j->model, j->a, err);
    if (st == WISP_OK) st = find_label(j, err);
    if (st == WISP_OK)
        st = wisp_predictor_create(&j->predictor, j->ctx, j->model, j->a->cfg, j->k, err);
    if (st == WISP_OK) st = open_rows(j, err);
    j->labels = malloc(j->k * sizeof *j->labels);
    j->scores = malloc(j->k * sizeof *j->scores);
    if (st == WISP_OK && (!j->labels || !j->scores))
        st = refuse(err, WISP_ENOMEM, "out of memory for %zu labels", j->k);
    if (st == WISP_OK) wisp_data_stats_get(j->rows, &stats);
    for (size_t i = 0; st == WISP_OK && i < stats.n_rows; i++) st = explain_row(j, i, err);
    free(j->labels);
    free(j->scores);
    wisp_data_free(j->rows);
    wisp_predictor_free(j->predictor);
    wisp_model_free(j->model);
    wisp_context_free(j->ctx);
    return st;
}

int cmd_explain(const struct args *a)
{
    wisp_error err = { 0 };
    struct job j = { .a = a, .label = -1, .json = args_on(a, "json") };
    j.k = (size_t)strtod(args_text(a, "k"), NULL);
    j.features = (size_t)strtod(args_text(a, "features"), NULL);
    return explain(&j, &err) == WISP_OK ? 0 : fail(&err);
}

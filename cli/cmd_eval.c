/* wisp eval MODEL DATA */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One line of the table, if the report has it. */
static void row(const wisp_report *r, const char *title, const char *fmt, const int *k, int n)
{
    for (int i = 0; i < n; i++) {
        char key[40];
        double v = 0;
        snprintf(key, sizeof key, fmt, k[i]);
        if (!wisp_report_get(r, key, &v)) return;
        if (i == 0) printf("%-10s", title);
        printf(" %8.2f", v);
    }
    putchar('\n');
}

/* Scores as probabilities: how far off, and what a threshold of 1/2 keeps. */
static void print_scores(const wisp_report *r)
{
    double calibrated = 0;
    wisp_report_get(r, "calibrated", &calibrated);
    for (int raw = 1; raw >= 0; raw--) {
        static const char *const keys[] = { "ece", "micro_precision", "micro_recall", "micro_f1" };
        double v[4] = { 0 };
        for (int i = 0; i < 4; i++) {
            char key[40];
            snprintf(key, sizeof key, "%s%s", keys[i], raw ? "_raw" : "");
            wisp_report_get(r, key, &v[i]);
        }
        if (!raw && !calibrated) printf("the model has no calibration: scores stay raw\n");
        else
            printf("scores, %-10s  ECE %.2f; 0.5 or more: precision %.2f, recall %.2f, F1 %.2f\n",
                   raw ? "raw" : "calibrated", v[0], v[1], v[2], v[3]);
    }
}

/* Labels that are given: at 1/2, and by thresholds that the model has. */
static void print_decisions(const wisp_report *r)
{
    for (int own = 0; own < 2; own++) {
        static const char *const keys[] = { "micro_precision", "micro_recall", "micro_f1",
                                            "macro_precision", "macro_recall", "macro_f1",
                                            "macro_labels" };
        double v[7] = { 0 };
        char key[40];
        for (int i = 0; i < 7; i++) {
            snprintf(key, sizeof key, "%s%s", keys[i], own ? "_model" : "");
            if (!wisp_report_get(r, key, &v[i])) return;
        }
        printf(
            "labels, %-10s  micro precision %.2f, recall %.2f, F1 %.2f; macro %.2f, %.2f, %.2f of "
            "%.0f labels\n",
            own ? "model" : "at 0.5", v[0], v[1], v[2], v[3], v[4], v[5], v[6]);
    }
}

static void print_table(const wisp_report *r)
{
    int k[16], n = 0;
    for (int i = 1; i <= WISP_MOST_K && n < 16; i++) { /* the cut-offs that are there */
        char key[40];
        double v;
        snprintf(key, sizeof key, "p@%d", i);
        if (wisp_report_get(r, key, &v)) k[n++] = i;
    }
    printf("%-10s", "");
    for (int i = 0; i < n; i++) printf("       @%d", k[i]);
    putchar('\n');
    row(r, "P", "p@%d", k, n);
    row(r, "R", "r@%d", k, n);
    row(r, "nDCG", "ndcg@%d", k, n);
    row(r, "PSP", "psp@%d", k, n);
    row(r, "P head", "p@%d_head", k, n);
    row(r, "P middle", "p@%d_middle", k, n);
    row(r, "P tail", "p@%d_tail", k, n);
    row(r, "P exact", "exact_p@%d", k, n); /* these two with --inference sparse */
    row(r, "recall", "recall@%d", k, n);
    print_scores(r);
    print_decisions(r);
    double rows = 0, none = 0, seconds = 0, scored, labels, exact;
    wisp_report_get(r, "rows", &rows);
    wisp_report_get(r, "rows_unlabelled", &none);
    wisp_report_get(r, "seconds", &seconds);
    printf("%.0f rows (%.0f without labels, counted as misses), %.2f s, %.1f us per row\n", rows,
           none, seconds, rows > 0 ? 1e6 * seconds / rows : 0);
    if (wisp_report_get(r, "scored_mean", &scored) && wisp_report_get(r, "labels", &labels) &&
        wisp_report_get(r, "exact_seconds", &exact))
        printf("sparse: %.0f of %.0f rows scored (%.2f %%); exact prediction takes %.2f s\n",
               scored, labels, 100 * scored / labels, exact);
}

static wisp_status eval(const struct args *a, wisp_context *ctx, wisp_error *err)
{
    wisp_model *model = NULL;
    wisp_data *data = NULL;
    wisp_report *report = NULL;
    wisp_status st = load_model_share(&model, ctx, a, err);
    if (st == WISP_OK) /* before data are read, which may take long */
        st = wisp_predictor_check(model, a->cfg, err);
    if (st == WISP_OK) st = wisp_data_open(&data, ctx, a->files[1], a->cfg, model, err);
    if (st == WISP_OK) st = wisp_eval(&report, ctx, model, data, a->cfg, err);
    const int speaks = st == WISP_OK && wisp_context_rank(ctx) == 0;
    if (speaks && args_on(a, "json")) printf("%s\n", wisp_report_json(report));
    else if (speaks) print_table(report);
    wisp_report_free(report);
    wisp_data_free(data);
    wisp_model_free(model);
    return st;
}

int cmd_eval(const struct args *a)
{
    wisp_error err = { 0 };
    if (strcmp(args_text(a, "blank-lines"), "auto") == 0) /* they have no label to be hit */
        wisp_config_set(a->cfg, "blank-lines", "skip", &err);
    wisp_context *ctx = NULL;
    wisp_status st = join_context(&ctx, a, &err);
    if (st == WISP_OK) st = eval(a, ctx, &err);
    const int rc = st == WISP_OK ? 0 : fail_of_rank(&err, wisp_context_rank(ctx));
    fflush(stdout);
    wisp_context_free(ctx);
    return rc;
}

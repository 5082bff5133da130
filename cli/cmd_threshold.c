/* wisp threshold MODEL DATA -o MODEL2 */
#include "cli.h"

#include <stdio.h>
#include <string.h>

static double get(const wisp_report *r, const char *before, const char *key)
{
    char name[60];
    double v = 0;
    snprintf(name, sizeof name, "%s%s", before, key);
    wisp_report_get(r, name, &v);
    return v;
}

/* One line for each way to decide: at 1/2, and by the thresholds that were chosen. */
static void print_table(const wisp_report *r, const struct args *a)
{
    static const struct {
        const char *title, *before;
    } lines[] = {
        { "at 0.5", "half_" },
        { "chosen, on rows held out", "" },
        { "chosen, on the same rows", "same_rows_" },
    };
    static const char *const keys[] = { "micro_precision", "micro_recall", "micro_f1", "macro_f1",
                                        "cost" };
    double v;
    const int n = wisp_report_get(r, "cost", &v) ? 5 : 4;
    printf("%-26s %9s %9s %9s %9s%s\n", "", "precision", "recall", "micro F1", "macro F1",
           n == 5 ? "  cost per row" : "");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        printf("%-26s", lines[i].title);
        for (int k = 0; k < n; k++)
            printf(k == 4 ? " %13.4f" : " %9.2f", get(r, lines[i].before, keys[k]));
        putchar('\n');
    }
    printf("thresholds for %s, %s: %.3f to %.3f, median %.3f; chosen on %.0f rows\n",
           args_text(a, "for"),
           args_text(a, "per")[0] == 'o' ? "one for all labels" : "one per label",
           get(r, "", "threshold_least"), get(r, "", "threshold_most"),
           get(r, "", "threshold_median"), get(r, "", "rows"));
    if (get(r, "", "labels_never") > 0)
        printf("%.0f of %.0f labels do not reach it at any threshold, and will never be given\n",
               get(r, "", "labels_never"), get(r, "", "labels"));
    if (strcmp(args_text(a, "for"), "f1") == 0 &&
        get(r, "", "micro_f1") < get(r, "half_", "micro_f1") &&
        get(r, "", "macro_f1") < get(r, "half_", "macro_f1"))
        printf("on rows held out they do worse than 0.5: there are too few rows to choose by\n");
    printf("saved     %s\n", a->out);
}

static wisp_status threshold(const struct args *a, wisp_error *err)
{
    wisp_context *ctx = NULL;
    wisp_model *model = NULL;
    wisp_data *data = NULL;
    wisp_report *report = NULL;
    wisp_status st = open_context(&ctx, a, err);
    if (st == WISP_OK) st = load_model(&model, a, err);
    if (st == WISP_OK) st = wisp_data_open(&data, ctx, a->files[1], a->cfg, model, err);
    if (st == WISP_OK) st = wisp_threshold(&report, ctx, model, data, a->cfg, a->out, err);
    if (st == WISP_OK && args_on(a, "json")) printf("%s\n", wisp_report_json(report));
    else if (st == WISP_OK) print_table(report, a);
    wisp_report_free(report);
    wisp_data_free(data);
    wisp_model_free(model);
    wisp_context_free(ctx);
    return st;
}

int cmd_threshold(const struct args *a)
{
    wisp_error err = { 0 };
    if (!a->out) return usage_error(a->command, "-o MODEL2 is missing: the model with thresholds");
    tidy_on_signals();
    return threshold(a, &err) == WISP_OK ? 0 : fail(&err);
}

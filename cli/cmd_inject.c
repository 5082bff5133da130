/* wisp inject MODEL [DATA]: bit errors in a model's memory. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

/* Beside JSON, lines for a person go to stderr. */
static void print_line(void *arg, const char *line)
{
    const struct args *a = arg;
    if (!args_on(a, "json")) {
        puts(line);
        fflush(stdout);
    } else if (!args_on(a, "quiet")) tell("%s", line);
}

static wisp_status inject(const struct args *a, wisp_error *err)
{
    wisp_context *ctx = NULL;
    wisp_model *model = NULL;
    wisp_data *data = NULL, *test = NULL;
    wisp_report *report = NULL;
    const char *test_path = args_text(a, "test");
    wisp_status st = open_context(&ctx, a, err);
    if (st == WISP_OK) st = load_model(&model, a, err);
    if (st == WISP_OK && a->n_files > 1)
        st = wisp_data_open(&data, ctx, a->files[1], a->cfg, model, err);
    if (st == WISP_OK && *test_path) st = wisp_data_open(&test, ctx, test_path, a->cfg, model, err);
    if (st == WISP_OK)
        st = wisp_inject(&report, ctx, model, data, test, a->cfg, a->out, print_line, (void *)a,
                         err);
    if (st == WISP_OK && args_on(a, "json")) printf("%s\n", wisp_report_json(report));
    wisp_report_free(report);
    wisp_data_free(test);
    wisp_data_free(data);
    wisp_model_free(model);
    wisp_context_free(ctx);
    return st;
}

int cmd_inject(const struct args *a)
{
    wisp_error err = { 0 };
    if (strcmp(args_text(a, "blank-lines"), "auto") == 0) /* they have no label to be hit */
        wisp_config_set(a->cfg, "blank-lines", "skip", &err);
    heed_signals();
    return inject(a, &err) == WISP_OK ? 0 : fail(&err);
}

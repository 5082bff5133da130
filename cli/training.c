/* What commands that train in several runs share: rows, the run, what is said at its end. */
#include "cli.h"

#include <stdio.h>

static wisp_status work(const struct args *a, trains *run, tells *said, struct screen *s,
                        wisp_error *err)
{
    wisp_context *ctx = NULL;
    wisp_data *data = NULL, *valid = NULL;
    wisp_report *report = NULL;
    const char *valid_path = args_text(a, "valid");
    wisp_status st = open_context(&ctx, a, err);
    if (st == WISP_OK) st = screen_watch(s, a, ctx, err);
    if (st == WISP_OK) st = wisp_data_open(&data, ctx, a->files[0], a->cfg, NULL, err);
    if (st == WISP_OK && *valid_path)
        st = wisp_data_open_like(&valid, ctx, valid_path, a->cfg, data, err);
    if (st == WISP_OK) st = run(&report, ctx, a->cfg, data, valid, a->out, screen_train, s, err);
    if (st == WISP_OK) said(a, report);
    if (st == WISP_OK && args_on(a, "json")) printf("%s\n", wisp_report_json(report));
    wisp_report_free(report);
    wisp_data_free(valid);
    wisp_data_free(data);
    wisp_context_free(ctx);
    return st;
}

int train_and_tell(const struct args *a, trains *run, tells *said)
{
    struct screen s;
    wisp_error err = { 0 };
    if (!a->out) return usage_error(a->command, "-o MODEL is missing");
    heed_signals();
    int rc = screen_open(&s, a);
    return rc ? rc : screen_close(&s, work(a, run, said, &s, &err), &err);
}

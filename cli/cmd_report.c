/* wisp report LOG... -o report.html */
#include "cli.h"

static wisp_status report(const struct args *a, wisp_error *err)
{
    wisp_context *ctx = NULL;
    wisp_status st = open_context(&ctx, a, err);
    if (st == WISP_OK) st = wisp_log_report(ctx, a->out, a->files, (size_t)a->n_files, err);
    if (st == WISP_OK && !args_on(a, "quiet"))
        tell("saved     %s: %d log%s", a->out, a->n_files, a->n_files == 1 ? "" : "s");
    wisp_context_free(ctx);
    return st;
}

int cmd_report(const struct args *a)
{
    wisp_error err = { 0 };
    if (!a->out) return usage_error(a->command, "-o FILE is missing");
    heed_signals();
    return report(a, &err) == WISP_OK ? 0 : fail(&err);
}

/* wisp prune DATA -o MODEL */
#include "cli.h"

#include <stdio.h>

static void tell_pruned(const wisp_report *r, const char *path)
{
    double weights = 0, ratio = 0, drop = 0, fast = 0, fast_1 = 0, seconds = 0;
    wisp_report_get(r, "weights", &weights);
    wisp_report_get(r, "weights_ratio", &ratio);
    wisp_report_get(r, "accuracy_drop", &drop);
    wisp_report_get(r, "time_ratio", &fast);
    wisp_report_get(r, "time_ratio_1", &fast_1);
    wisp_report_get(r, "seconds", &seconds);
    tell("saved     %s after %.1f s: %.0f parameters, %.1f times fewer; validation P@1 lower by "
         "%.2f; %.1f times as fast with 256 rows per call, %.1f times with one",
         path, seconds, weights, ratio, drop, fast, fast_1);
}

static wisp_status prune(const struct args *a, struct screen *s, wisp_error *err)
{
    wisp_context *ctx = NULL;
    wisp_data *data = NULL, *valid = NULL;
    wisp_report *report = NULL;
    const char *valid_path = args_text(a, "valid");
    wisp_status st = open_context(&ctx, a, err);
    if (st == WISP_OK) st = screen_watch(s, a, err);
    if (st == WISP_OK) st = wisp_data_open(&data, ctx, a->files[0], a->cfg, NULL, err);
    if (st == WISP_OK && *valid_path)
        st = wisp_data_open_like(&valid, ctx, valid_path, a->cfg, data, err);
    if (st == WISP_OK)
        st = wisp_prune(&report, ctx, a->cfg, data, valid, a->out, screen_train, s, err);
    if (st == WISP_OK && !s->quiet) tell_pruned(report, a->out);
    if (st == WISP_OK && args_on(a, "json")) printf("%s\n", wisp_report_json(report));
    wisp_report_free(report);
    wisp_data_free(valid);
    wisp_data_free(data);
    wisp_context_free(ctx);
    return st;
}

int cmd_prune(const struct args *a)
{
    struct screen s;
    wisp_error err = { 0 };
    if (!a->out) return usage_error(a->command, "-o MODEL is missing");
    heed_signals();
    int rc = screen_open(&s, a);
    return rc ? rc : screen_close(&s, prune(a, &s, &err), &err);
}

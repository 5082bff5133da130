/* wisp train DATA -o MODEL */
#include "cli.h"

#include <stdio.h>

/* What became of the scores: the expected calibration error on the validation rows. */
static void tell_calibration(const wisp_report *r)
{
    static const char *const keys[] = { "valid_ece", "valid_ece_sparse" };
    for (int i = 0; i < 2; i++) {
        char key[40];
        double raw = -1, fitted = -1;
        snprintf(key, sizeof key, "%s_raw", keys[i]);
        wisp_report_get(r, key, &raw);
        wisp_report_get(r, keys[i], &fitted);
        const char *how = i ? " (--inference sparse)" : "";
        if (raw < 0 && i == 0)
            tell("scores    raw: there were no validation rows to calibrate them on");
        else if (raw >= 0 && raw == fitted)
            tell("scores    raw%s: the validation rows are too few to do better; calibration "
                 "error %.2f %%",
                 how, raw);
        else if (raw >= 0)
            tell("scores    calibrated%s: expected calibration error %.2f %%, raw %.2f", how,
                 fitted, raw);
    }
}

static void tell_saved(const wisp_report *r, const char *path)
{
    double best = -1, epoch = 0, seconds = 0, peak = 0;
    char valid[60] = "";
    wisp_report_get(r, "valid_p@1", &best);
    wisp_report_get(r, "best_epoch", &epoch);
    wisp_report_get(r, "seconds", &seconds);
    wisp_report_get(r, "peak_bytes", &peak);
    if (best >= 0) snprintf(valid, sizeof valid, ", validation P@1 %.2f", best);
    tell("saved     %s (epoch %.0f%s) after %.1f s, peak memory %.0f MiB", path, epoch, valid,
         seconds, peak / (1 << 20));
    tell_calibration(r);
}

static wisp_status train(const struct args *a, wisp_context *ctx, struct screen *s, wisp_error *err)
{
    wisp_data *data = NULL, *valid = NULL;
    wisp_report *report = NULL;
    const char *valid_path = args_text(a, "valid");
    wisp_status st = screen_watch(s, a, ctx, err);
    if (st == WISP_OK) st = wisp_data_open(&data, ctx, a->files[0], a->cfg, NULL, err);
    if (st == WISP_OK && *valid_path)
        st = wisp_data_open_like(&valid, ctx, valid_path, a->cfg, data, err);
    if (st == WISP_OK)
        st = wisp_train(&report, ctx, a->cfg, data, valid, a->out, screen_train, s, err);
    if (st == WISP_OK && !s->quiet) tell_saved(report, a->out);
    if (st == WISP_OK && args_on(a, "json") && wisp_context_rank(ctx) == 0)
        printf("%s\n", wisp_report_json(report));
    wisp_report_free(report);
    wisp_data_free(valid);
    wisp_data_free(data);
    return st;
}

int cmd_train(const struct args *a)
{
    struct screen s;
    wisp_error err = { 0 };
    if (!a->out) return usage_error(a->command, "-o MODEL is missing");
    heed_signals();
    wisp_context *ctx = NULL;
    int rc = screen_open(&s, a);
    if (rc) return rc;
    wisp_status st = join_context(&ctx, a, &err);
    if (st == WISP_OK) st = start_ranks(a, ctx, &err);
    if (st == WISP_OK) screen_of(&s, ctx);
    if (st == WISP_OK) st = train(a, ctx, &s, &err);
    rc = screen_close(&s, st, &err);
    fflush(stdout);
    wisp_context_free(
        ctx); /* after what there was to say: mpirun ends all ranks when one has failed */
    return rc;
}

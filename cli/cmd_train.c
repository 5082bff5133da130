/* wisp train DATA -o MODEL */
#include "cli.h"

#include <stdio.h>

/* The first call comes after the first batch.  Until then a signal ends the command at once,
 * however long reading, counting votes or making tables takes: there is nothing to save that is not
 * on disk.
 */
static int show(void *screen, const wisp_progress *p)
{
    watch_signals();
    return screen_show(screen, p);
}

/* What became of the scores: the expected calibration error on the validation rows. */
static void say_calibration(const wisp_report *r)
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
            fprintf(stderr, "scores    raw: there were no validation rows to calibrate them on\n");
        else if (raw >= 0 && raw == fitted)
            fprintf(stderr,
                    "scores    raw%s: the validation rows are too few to do better; calibration "
                    "error %.2f %%\n",
                    how, raw);
        else if (raw >= 0)
            fprintf(stderr,
                    "scores    calibrated%s: expected calibration error %.2f %%, raw %.2f\n", how,
                    fitted, raw);
    }
}

static wisp_status train(const struct args *a, struct screen *s, wisp_error *err)
{
    wisp_context *ctx = NULL;
    wisp_data *data = NULL, *valid = NULL;
    wisp_report *report = NULL;
    const char *valid_path = args_text(a, "valid");
    wisp_status st = open_context(&ctx, a, err);
    if (st == WISP_OK) st = wisp_data_open(&data, ctx, a->files[0], a->cfg, NULL, err);
    if (st == WISP_OK && *valid_path)
        st = wisp_data_open_like(&valid, ctx, valid_path, a->cfg, data, err);
    if (st == WISP_OK) st = wisp_train(&report, ctx, a->cfg, data, valid, a->out, show, s, err);
    if (st == WISP_OK) {
        double best, epoch, seconds, peak;
        wisp_report_get(report, "valid_p@1", &best);
        wisp_report_get(report, "best_epoch", &epoch);
        wisp_report_get(report, "seconds", &seconds);
        wisp_report_get(report, "peak_bytes", &peak);
        fprintf(stderr, "saved     %s (epoch %.0f", a->out, epoch);
        if (best >= 0) fprintf(stderr, ", validation P@1 %.2f", best);
        fprintf(stderr, ") after %.1f s, peak memory %.2f GiB\n", seconds, peak / (1 << 30));
        say_calibration(report);
        if (args_on(a, "json")) printf("%s\n", wisp_report_json(report));
    }
    wisp_report_free(report);
    wisp_data_free(valid);
    wisp_data_free(data);
    wisp_context_free(ctx);
    return st;
}

int cmd_train(int argc, char **argv)
{
    static const char usage[] = "train DATA -o MODEL [options]";
    struct args a;
    wisp_error err = { 0 };
    int rc = args_read(&a, "train", argc, argv, 1, 1, usage);
    if (rc) return rc;
    if (!a.out) {
        fprintf(stderr, "wisp train: -o MODEL is missing\nusage: wisp %s\n", usage);
        args_clear(&a);
        return 2;
    }
    struct screen s;
    heed_signals();
    rc = screen_open(&s, &a);
    if (rc == 0) rc = screen_close(&s, train(&a, &s, &err), &err);
    args_clear(&a);
    return rc;
}

/* wisp train DATA -o MODEL */
#include "cli.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct screen {
    FILE *log;
    int terminal;
};

static void print_time(char *out, size_t room, double s)
{
    long t = (long)(s + 0.5);
    if (t >= 3600) snprintf(out, room, "%ld:%02ld:%02ld", t / 3600, t / 60 % 60, t % 60);
    else snprintf(out, room, "%ld:%02ld", t / 60, t % 60);
}

static int on_progress(void *arg, const wisp_progress *p)
{
    struct screen *s = arg;
    char eta[32];
    print_time(eta, sizeof eta, p->eta_s);
    if (p->epoch_ended) {
        if (s->terminal) fputs("\r\033[K", stderr);
        fprintf(stderr, "epoch %*d/%d  loss %.4f  ", p->epochs > 9 ? 2 : 1, p->epoch, p->epochs,
                p->loss);
        if (p->valid >= 0) fprintf(stderr, "valid P@1 %.2f%s  ", p->valid, p->best ? " *" : "  ");
        fprintf(stderr, "%.0f rows/s\n", p->rows_per_s);
        if (s->log) {
            fprintf(s->log, "%s\n", p->json);
            fflush(s->log);
        }
    } else if (s->terminal) {
        fprintf(stderr, "\repoch %d/%d  %3.0f%%  loss %.4f  %.0f rows/s  ETA %s\033[K", p->epoch,
                p->epochs, 100.0 * (double)p->rows_done / (double)p->n_rows, p->loss, p->rows_per_s,
                eta);
    }
    return stop_signal() != 0;
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
    if (st == WISP_OK)
        watch_signals(); /* until here there is nothing to save: a signal just ends */
    if (st == WISP_OK)
        st = wisp_train(&report, ctx, a->cfg, data, valid, a->out, on_progress, s, err);
    if (st == WISP_OK) {
        double best, epoch, seconds, peak;
        wisp_report_get(report, "valid_p@1", &best);
        wisp_report_get(report, "best_epoch", &epoch);
        wisp_report_get(report, "seconds", &seconds);
        wisp_report_get(report, "peak_bytes", &peak);
        fprintf(stderr, "saved     %s (epoch %.0f", a->out, epoch);
        if (best >= 0) fprintf(stderr, ", validation P@1 %.2f", best);
        fprintf(stderr, ") after %.1f s, peak memory %.2f GiB\n", seconds, peak / (1 << 30));
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
    struct screen s = { .terminal = isatty(2) };
    const char *log = args_text(&a, "log");
    if (*log && !(s.log = fopen(log, args_on(&a, "resume") ? "a" : "w"))) {
        fprintf(stderr, "wisp: --log: %s cannot be written\n", log);
        args_clear(&a);
        return 5;
    }
    wisp_status st = train(&a, &s, &err);
    if (st != WISP_OK && s.terminal) fputc('\n', stderr);
    rc = st == WISP_OK ? 0 : fail(&err);
    if (s.log && (ferror(s.log) | fclose(s.log)) != 0) {
        fprintf(stderr, "wisp: --log: %s could not be written whole\n", log);
        if (rc == 0) rc = 5;
    }
    args_clear(&a);
    return rc;
}

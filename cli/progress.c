/* What a person sees of training: a line that moves on a terminal, one line an epoch, the log. */
#include "cli.h"

#include <stdio.h>
#include <unistd.h>

static void print_time(char *out, size_t room, double s)
{
    long t = (long)(s + 0.5);
    if (t >= 3600) snprintf(out, room, "%ld:%02ld:%02ld", t / 3600, t / 60 % 60, t % 60);
    else snprintf(out, room, "%ld:%02ld", t / 60, t % 60);
}

int screen_show(void *screen, const wisp_progress *p)
{
    struct screen *s = screen;
    char eta[32];
    print_time(eta, sizeof eta, p->eta_s);
    if (p->epoch_ended) {
        if (s->terminal) fputs("\r\033[K", stderr);
        fprintf(stderr, "epoch %*d/%d  loss %.4f  ", p->epochs > 9 ? 2 : 1, p->epoch, p->epochs,
                p->loss);
        if (p->valid >= 0) fprintf(stderr, "valid P@1 %.2f%s  ", p->valid, p->best ? " *" : "  ");
        fprintf(stderr, "%.0f rows/s  active %.0f  scored %.0f  recall %.2f\n", p->rows_per_s,
                p->active, p->scored, p->recall);
        if (s->log) {
            fprintf(s->log, "%s\n", p->json);
            fflush(s->log);
        }
    } else if (s->terminal) {
        fprintf(stderr, "\repoch %d/%d  %3.0f%%  loss %.4f  %.0f rows/s  active %.0f  ETA %s\033[K",
                p->epoch, p->epochs, 100.0 * (double)p->rows_done / (double)p->n_rows, p->loss,
                p->rows_per_s, p->active, eta);
    }
    return stop_signal() != 0;
}

int screen_open(struct screen *s, const struct args *a)
{
    *s = (struct screen){ .log_path = args_text(a, "log"), .terminal = isatty(2) };
    if (!*s->log_path || (s->log = fopen(s->log_path, args_on(a, "resume") ? "a" : "w"))) return 0;
    fprintf(stderr, "wisp: --log: %s cannot be written\n", s->log_path);
    return 5;
}

int screen_close(struct screen *s, wisp_status st, const wisp_error *err)
{
    if (st != WISP_OK && s->terminal) fputc('\n', stderr);
    int rc = st == WISP_OK ? 0 : fail(err);
    if (s->log && (ferror(s->log) | fclose(s->log)) != 0) {
        fprintf(stderr, "wisp: --log: %s could not be written whole\n", s->log_path);
        if (rc == 0) rc = 5;
    }
    return rc;
}

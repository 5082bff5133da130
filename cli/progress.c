/* What a person sees of training: a line that moves on a terminal, one line per epoch, the log. */
#include "cli.h"
#include "serve/watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print_time(char *out, size_t room, double s)
{
    long t = (long)(s + 0.5);
    if (t >= 3600) snprintf(out, room, "%ld:%02ld:%02ld", t / 3600, t / 60 % 60, t % 60);
    else snprintf(out, room, "%ld:%02ld", t / 60, t % 60);
}

static void print_epoch(const struct screen *s, const wisp_progress *p)
{
    if (s->terminal) fputs("\r\033[K", stderr);
    fprintf(stderr, "epoch %*d/%d  loss %.4f  ", p->epochs > 9 ? 2 : 1, p->epoch, p->epochs,
            p->loss);
    if (p->valid >= 0) fprintf(stderr, "valid P@1 %.2f%s  ", p->valid, p->best ? " *" : "  ");
    fprintf(stderr, "%.*f rows/s", rate_digits(p->rows_per_s), p->rows_per_s);
    if (p->sampled)
        fprintf(stderr, "  active %.0f  scored %.0f  recall %.2f", p->active, p->scored, p->recall);
    fputc('\n', stderr);
}

int screen_show(void *screen, const wisp_progress *p)
{
    struct screen *s = screen;
    char eta[32];
    if (s->watch) watch_show(s->watch, p);
    print_time(eta, sizeof eta, p->eta_s);
    if (p->epoch_ended) {
        if (!s->quiet) print_epoch(s, p);
        if (s->log) {
            fprintf(s->log, "%s\n", p->json);
            fflush(s->log);
        }
    } else if (s->terminal) {
        fprintf(stderr, "\repoch %d/%d  %3.0f%%  loss %.4f  %.*f rows/s", p->epoch, p->epochs,
                100.0 * (double)p->rows_done / (double)p->n_rows, p->loss,
                rate_digits(p->rows_per_s), p->rows_per_s);
        if (p->sampled) fprintf(stderr, "  active %.0f", p->active);
        fprintf(stderr, "  ETA %s\033[K", eta);
    }
    return stop_signal() != 0;
}

int screen_open(struct screen *s, const struct args *a)
{
    *s = (struct screen){ .log_path = args_text(a, "log"), .quiet = args_on(a, "quiet") };
    s->terminal = isatty(2) && !s->quiet;
    if (!*s->log_path || (s->log = open_write(s->log_path, args_on(a, "resume")))) return 0;
    tell("wisp: --log: %s cannot be written: %s", s->log_path, strerror(errno));
    return 5;
}

wisp_status screen_watch(struct screen *s, const struct args *a, const wisp_context *ctx,
                         wisp_error *err)
{
    const int port = atoi(args_text(a, "watch"));
    if (port < 0 || s->rank != 0) return WISP_OK;
    const wisp_status st = watch_start(&s->watch, port, err);
    if (st == WISP_OK && !s->quiet) tell("watch     http://127.0.0.1:%d/", watch_port(s->watch));
    if (st == WISP_OK || wisp_context_ranks(ctx) == 1) return st;
    tell("watch     no page: %s", err->text); /* the other ranks have begun and would wait */
    return WISP_OK;
}

/* Of several ranks the first one speaks. */
void screen_of(struct screen *s, const wisp_context *ctx)
{
    s->rank = wisp_context_rank(ctx);
    if (s->rank == 0) return;
    s->quiet = 1;
    s->terminal = 0;
    if (s->log) fclose(s->log);
    s->log = NULL;
}

int screen_train(void *screen, const wisp_progress *p)
{
    watch_signals();
    return screen_show(screen, p);
}

int screen_close(struct screen *s, wisp_status st, const wisp_error *err)
{
    if (st != WISP_OK && s->terminal) fputc('\n', stderr);
    int rc = st == WISP_OK ? 0 : fail_of_rank(err, s->rank);
    watch_end(s->watch, st, st == WISP_OK ? "The run has ended." : err->text);
    if (s->log && (ferror(s->log) | fclose(s->log)) != 0) {
        tell("wisp: --log: %s could not be written whole", s->log_path);
        if (rc == 0) rc = 5;
    }
    return rc;
}

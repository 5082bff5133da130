/* The nets of a pruning in three forms. */
#include "api/frontier.h"
#include "base/draw.h"
#include "base/mem.h"
#include "base/plot.h"
#include "base/text.h"
#include "model/memory.h"

#include <math.h>
#include <string.h>

char *wisp_frontier_json(const struct wisp_frontier *f)
{
    const size_t room = 300 * (size_t)(f->n + 1);
    char *text = wisp_alloc(room, 1);
    size_t at = 0;
    for (int i = 0; text && i < f->n; i++) {
        const struct wisp_rung *r = &f->rungs[i];
        at += (size_t)wisp_print(text + at, room - at,
                                 "%s{\"%s\":%.6g,\"valid_p@1\":%.4f,\"weights\":%.0f,\"flops\":"
                                 "%.6g,\"us_1\":%.3f,\"us_256\":%.3f,\"train_seconds\":%.2f}",
                                 i ? "," : "[", f->by, r->lambda, r->valid, r->params, r->flops,
                                 r->us[0], r->us[1], r->seconds);
    }
    if (text) wisp_print(text + at, room - at, "]");
    return text;
}

void wisp_frontier_say(const struct wisp_frontier *f, const struct wisp_context *ctx)
{
    char flops[WISP_FLOPS_TEXT];
    wisp_say(ctx, "prune       %8s     P@1  parameters   operations  us of 1  us of %d", f->by,
             WISP_RUNG_BATCH);
    for (int i = 0; i < f->n; i++) {
        const struct wisp_rung *r = &f->rungs[i];
        wisp_say(ctx, "prune     %c %8.3g  %6.2f  %10.0f  %11s  %7.1f  %9.2f%s",
                 i == f->best ? '*' : ' ', r->lambda, r->valid, r->params,
                 wisp_flops_text(flops, r->flops), r->us[0], r->us[1],
                 i == 0 || r->good ? "" : "  not accurate enough");
    }
}

/* What became of a number: "1.86M to 35.7k: 52.2 times less". */
static void note(char out[100], double before, double now)
{
    char a[WISP_SHORT_NUMBER], b[WISP_SHORT_NUMBER];
    wisp_short_number(a, before);
    wisp_short_number(b, now);
    if (now == before) wisp_print(out, 100, "%s", b);
    else
        wisp_print(out, 100, "%s to %s: %.1f times %s", a, b, fmax(before / now, now / before),
                   now < before ? "less" : "more");
}

enum { PARAMS, FLOPS, TIME_1, TIME_256, N_AXES };

static double number(const struct wisp_rung *r, int axis)
{
    const double all[N_AXES] = { r->params, r->flops, r->us[0], r->us[1] };
    return all[axis];
}

wisp_status wisp_frontier_plot(const struct wisp_frontier *f, const char *path, const char *model,
                               wisp_error *err)
{
    static const char *const names[N_AXES] = { "parameters", "operations per row",
                                               "microseconds per row, one row per call",
                                               "microseconds per row, 256 rows per call" };
    const size_t n = (size_t)f->n;
    const char *slash = strrchr(model, '/');
    char title[200], notes[N_AXES][100];
    struct wisp_plot p = { .title = title,
                           .y_name = "P@1 of the validation rows, percent",
                           .n = f->n,
                           .mark_names = { "as it is", "smaller", "not accurate enough", "chosen" },
                           .level = f->least,
                           .level_name = "accurate enough",
                           .n_panels = N_AXES };
    double *y = wisp_alloc(n * (N_AXES + 1), sizeof *y);
    enum wisp_mark *mark = wisp_alloc(n, sizeof *mark);
    if (!y || !mark) {
        wisp_free(y);
        wisp_free(mark);
        return wisp_fail_mem(err, n * 48, "a plot");
    }
    wisp_print(title, sizeof title, "%.100s: smaller nets, and what they cost",
               slash ? slash + 1 : model);
    for (size_t i = 0; i < n; i++) {
        const struct wisp_rung *r = &f->rungs[i];
        y[i] = r->valid;
        mark[i] = (int)i == f->best ? WISP_MARK_CHOSEN
                  : i == 0          ? WISP_MARK_BEGIN
                  : r->good         ? WISP_MARK_GOOD
                                    : WISP_MARK_MISSED;
        for (int a = 0; a < N_AXES; a++) y[n * (size_t)(a + 1) + i] = fmax(number(r, a), 1e-9);
    }
    p.y = y;
    p.mark = mark;
    for (int a = 0; a < N_AXES; a++) {
        note(notes[a], number(&f->rungs[0], a), number(&f->rungs[f->best], a));
        p.panel[a] = (struct wisp_panel){ names[a], notes[a], y + n * (size_t)(a + 1) };
    }
    wisp_status st = wisp_plot_write(path, &p, err);
    wisp_free(y);
    wisp_free(mark);
    return st;
}

/* The page of a training report, from top to bottom: what the runs are, how they ended, what differs
 * between them, their curves, zeros per layer, every epoch, and what the logs do not say. */
#include "report/page.h"
#include "base/draw.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "report/chart.h"
#include "report/style.h"
#include "report/tables.h"

#include <math.h>
#include <string.h>

struct page {
    struct wisp_drawing g;
    const struct wisp_logs *logs;
    struct wisp_curve *curve; /* room for one per run, or one per layer */
    double *room;             /* x and y of all points of all curves */
    size_t most;              /* numbers in it */
};

/* ---- curves ---- */

/* A curve of each run's figure f, by epoch or by seconds. */
static void draw_figure(struct page *p, const char *title, const char *note, enum wisp_figure f,
                        bool by_time)
{
    struct wisp_chart c = { .title = title,
                            .note = note,
                            .x_name = by_time ? "seconds" : "epoch",
                            .whole = !by_time,
                            .n = p->logs->n,
                            .curve = p->curve };
    double *at = p->room;
    for (size_t k = 0; k < c.n; k++) {
        const struct wisp_log_run *r = &p->logs->run[k];
        const bool judged = f == WISP_FIGURE_P1 || f == WISP_FIGURE_VALID_LOSS;
        p->curve[k] = (struct wisp_curve){
            .name = r->name, .colour = (int)k, .n = r->n, .ring = SIZE_MAX, .x = at, .y = at + r->n
        };
        for (size_t i = 0; i < r->n; i++) {
            at[i] = by_time ? r->epoch[i].at[WISP_FIGURE_TRAIN_S] : r->epoch[i].epoch;
            at[r->n + i] = r->epoch[i].at[f];
            if (judged && &r->epoch[i] == wisp_log_best(r)) p->curve[k].ring = i;
        }
        at += 2 * r->n;
    }
    if (wisp_chart_any(&c)) wisp_chart_draw(&p->g, &c);
}

static void draw_curves(struct page *p)
{
    static const struct {
        enum wisp_figure figure;
        const char *title, *note;
        bool by_time;
    } charts[] = {
        { WISP_FIGURE_LOSS, "Training loss", "lower is better", false },
        { WISP_FIGURE_VALID_LOSS, "Validation loss", "lower is better; ring: the kept epoch",
          false },
        { WISP_FIGURE_P1, "P@1", "percent of validation rows; ring: the kept epoch", false },
        { WISP_FIGURE_P1, "P@1 by training time", "percent; validation left out of the time",
          true },
        { WISP_FIGURE_P3, "P@3", "percent of validation rows", false },
        { WISP_FIGURE_P5, "P@5", "percent of validation rows", false },
        { WISP_FIGURE_RATE, "Rows per second", "trained, since the run began or was resumed",
          false },
        { WISP_FIGURE_SCORED, "Rows scored", "output rows looked at for a sample, on average",
          false },
        { WISP_FIGURE_ACTIVE, "Rows active", "output rows that a step computes, on average",
          false },
        { WISP_FIGURE_RECALL, "Recall", "percent of the 20 best wrong labels found", false },
        { WISP_FIGURE_LR, "Learning rate", "at the end of the epoch", false },
        { WISP_FIGURE_TRAIN_S, "Training time", "seconds, from the beginning", false },
    };
    wisp_draw(&p->g, "<h2>Curves</h2>\n");
    if (p->logs->n > 1) {
        wisp_draw(&p->g, "<ul class=\"legend\">\n");
        for (size_t i = 0; i < p->logs->n; i++) {
            wisp_draw(&p->g, "<li>");
            wisp_chart_swatch(&p->g, (int)i);
            wisp_draw_text(&p->g, p->logs->run[i].name);
            wisp_draw(&p->g, "</li>\n");
        }
        wisp_draw(&p->g, "</ul>\n");
    }
    wisp_draw(&p->g, "<div class=\"grid\">\n");
    for (size_t i = 0; i < sizeof charts / sizeof *charts; i++)
        draw_figure(p, charts[i].title, charts[i].note, charts[i].figure, charts[i].by_time);
    wisp_draw(&p->g, "</div>\n");
}

/* ---- zeros ---- */

static double zeros_at(const struct wisp_log_epoch *e, size_t layer)
{
    return layer < e->n_zeros ? e->zeros[layer] : NAN;
}

/* The last that is known. */
static double last_zeros(const struct wisp_log_run *r, size_t layer)
{
    for (size_t i = r->n; i-- > 0;)
        if (!isnan(zeros_at(&r->epoch[i], layer))) return zeros_at(&r->epoch[i], layer);
    return NAN;
}

static void draw_bars(struct page *p, const struct wisp_log_run *r)
{
    wisp_draw(&p->g, "<div class=\"card\"><h3>");
    wisp_draw_text(&p->g, r->name);
    wisp_draw(&p->g, "</h3><p class=\"soft\">in the last epoch</p>\n<ul class=\"bars\">\n");
    for (size_t i = 0; i < r->n_layers; i++) {
        const double share = last_zeros(r, i);
        if (isnan(share)) continue;
        wisp_draw(&p->g, "<li><span class=\"name\">");
        wisp_draw_text(&p->g, r->layer[i]);
        wisp_draw(&p->g,
                  "</span><span class=\"value\">%.1f %%</span><svg viewBox=\"0 0 100 8\" "
                  "preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect width=\"%.1f\" "
                  "height=\"8\"/></svg></li>\n",
                  100 * share, 100 * share);
    }
    wisp_draw(&p->g, "</ul></div>\n");
}

/* A curve per layer, where they can be told apart. */
static void draw_layers(struct page *p, const struct wisp_log_run *r)
{
    char title[300];
    wisp_print(title, sizeof title, "Zeros of %.200s", r->name);
    const struct wisp_chart c = { .title = title,
                                  .note = "percent of a layer's values, one line per layer",
                                  .x_name = "epoch",
                                  .whole = true,
                                  .n = r->n_layers,
                                  .curve = p->curve };
    if (r->n_layers > WISP_CHART_COLOURS || (r->n_layers + 1) * r->n > p->most) return;
    for (size_t i = 0; i < r->n; i++) p->room[i] = r->epoch[i].epoch;
    for (size_t k = 0; k < r->n_layers; k++) {
        double *y = p->room + (k + 1) * r->n;
        for (size_t i = 0; i < r->n; i++) y[i] = 100 * zeros_at(&r->epoch[i], k);
        p->curve[k] = (struct wisp_curve){ r->layer[k], (int)k, r->n, SIZE_MAX, p->room, y };
    }
    if (wisp_chart_any(&c)) wisp_chart_draw(&p->g, &c);
}

static void draw_zeros(struct page *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->logs->n; i++) n += p->logs->run[i].n_layers;
    if (n == 0) return;
    wisp_draw(&p->g, "<h2>Zeros per layer</h2>\n<p>The share of values that are 0 behind a layer: "
                     "what steps and predictions need not multiply.</p>\n<div class=\"grid\">\n");
    for (size_t i = 0; i < p->logs->n; i++) {
        if (p->logs->run[i].n_layers == 0) continue;
        draw_bars(p, &p->logs->run[i]);
        draw_layers(p, &p->logs->run[i]);
    }
    wisp_draw(&p->g, "</div>\n");
}

/* ---- the page ---- */

static void draw_tile(struct wisp_drawing *g, const char *name, const char *value, const char *more)
{
    const char *blank = strchr(value, ' '); /* before a unit */
    char number[WISP_FIGURE_TEXT];
    if (!*value) return;
    wisp_print(number, sizeof number, "%.*s", (int)strcspn(value, " "), value);
    wisp_draw(g, "<div><dt>");
    wisp_draw_text(g, name);
    wisp_draw(g, "</dt><dd>");
    wisp_draw_text(g, number);
    wisp_draw(g, "<small> ");
    wisp_draw_text(g, blank ? blank + 1 : more);
    wisp_draw(g, "</small></dd></div>\n");
}

/* What one looks for first, where there is one run only. */
static void draw_tiles(struct wisp_drawing *g, const struct wisp_log_run *r)
{
    static const struct {
        enum wisp_figure figure;
        const char *name, *more;
        bool kept; /* of the kept epoch, not of the last */
    } tiles[] = {
        { WISP_FIGURE_P1, "P@1", "%", true },
        { WISP_FIGURE_P3, "P@3", "%", true },
        { WISP_FIGURE_P5, "P@5", "%", true },
        { WISP_FIGURE_VALID_LOSS, "Validation loss", "", true },
        { WISP_FIGURE_RATE, "Rows per second", "", false },
        { WISP_FIGURE_SCORED, "Rows scored", "", false },
        { WISP_FIGURE_RECALL, "Recall", "%", false },
        { WISP_FIGURE_TRAIN_S, "Training time", "", false },
        { WISP_FIGURE_SECONDS, "Time in all", "", false },
        { WISP_FIGURE_PEAK, "Peak memory", "", false },
    };
    char text[WISP_FIGURE_TEXT], more[60];
    wisp_draw(g, "<h2>Final figures</h2>\n<dl class=\"tiles\">\n");
    wisp_print(text, sizeof text, "%d", wisp_log_end(r)->epoch);
    wisp_print(more, sizeof more, r->epochs ? "of %d, %s" : "", r->epochs, wisp_log_state(r));
    draw_tile(g, "Epochs", text, more);
    wisp_print(text, sizeof text, "%d", wisp_log_best(r)->epoch);
    draw_tile(g, "Kept epoch", text, "");
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        const struct wisp_log_epoch *e = tiles[i].kept ? wisp_log_best(r) : wisp_log_end(r);
        draw_tile(g, tiles[i].name, wisp_figure_text(text, tiles[i].figure, e->at[tiles[i].figure]),
                  tiles[i].more);
    }
    wisp_draw(g, "</dl>\n<p class=\"soft\">P@k and the validation loss are those of the kept "
                 "epoch, all else "
                 "of the last one.</p>\n");
}

static void draw_top(struct page *p)
{
    struct wisp_drawing *g = &p->g;
    const struct wisp_log_run *one = &p->logs->run[0];
    const char *data = wisp_log_fact(one, "data"), *net = wisp_log_fact(one, "net");
    wisp_draw(g,
              "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
              "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
              "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
              "style-src 'unsafe-inline'\">\n<meta name=\"generator\" content=\"wisp " WISP_VERSION
              "\">\n<title>Training report: ");
    wisp_draw_text(g, one->name);
    if (p->logs->n > 1) wisp_draw(g, " and %zu more", p->logs->n - 1);
    wisp_draw(g, "</title>\n<style>\n");
    wisp_draw_raw(g, wisp_style, wisp_style_bytes);
    wisp_draw(g, "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the "
                 "figures</a>\n<header>\n<h1>");
    if (p->logs->n > 1) wisp_draw(g, "%zu training runs", p->logs->n);
    else wisp_draw_text(g, one->name);
    wisp_draw(g, "</h1>\n<p class=\"lead\">");
    wisp_draw_text(g, p->logs->n > 1 ? "Side by side, from their logs"
                      : data         ? data
                                     : "A training run, from its log");
    if (p->logs->n == 1 && net) {
        wisp_draw(g, " &middot; ");
        wisp_draw_text(g, net);
    }
    wisp_draw(g, "</p>\n</header>\n<main id=\"main\">\n");
}

static void draw_notes(struct page *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->logs->n; i++) n += p->logs->run[i].n_notes;
    if (n == 0) return;
    wisp_draw(&p->g, "<h2>What the logs do not say</h2>\n<ul class=\"notes\">\n");
    for (size_t i = 0; i < p->logs->n; i++)
        for (size_t k = 0; k < p->logs->run[i].n_notes; k++) {
            wisp_draw(&p->g, "<li><strong>");
            wisp_draw_text(&p->g, p->logs->run[i].name);
            wisp_draw(&p->g, "</strong>: ");
            wisp_draw_text(&p->g, p->logs->run[i].note[k]);
            wisp_draw(&p->g, "</li>\n");
        }
    wisp_draw(&p->g, "</ul>\n");
}

static void draw_page(struct page *p)
{
    struct wisp_drawing *g = &p->g;
    draw_top(p);
    if (p->logs->n == 1) draw_tiles(g, &p->logs->run[0]);
    else wisp_table_final(g, p->logs);
    wisp_table_options(g, p->logs);
    draw_notes(p);
    draw_curves(p);
    draw_zeros(p);
    wisp_draw(g, "<h2>Every epoch</h2>\n");
    wisp_table_epochs(g, p->logs);
    wisp_draw(g, "</main>\n<footer>Made by <code>wisp report</code> " WISP_VERSION
                 " from the logs of <code>wisp train --log</code>. This file needs nothing "
                 "else.</footer>\n</body>\n</html>\n");
}

wisp_status wisp_report_page(const char *path, const struct wisp_logs *logs, wisp_error *err)
{
    struct page p = { .g.err = err, .logs = logs };
    for (size_t i = 0; i < logs->n; i++) p.most += 2 * logs->run[i].n;
    p.most *= (WISP_CHART_COLOURS + 1) / 2 + 1; /* a run alone may have that many layers */
    p.room = wisp_alloc(p.most, sizeof *p.room);
    p.curve = wisp_alloc(WISP_MOST_RUNS + WISP_CHART_COLOURS, sizeof *p.curve);
    wisp_status st = p.room && p.curve ? wisp_out_create(&p.g.out, path, err)
                                       : wisp_fail_mem(err, p.most * 8, "the curves of a report");
    if (st == WISP_OK) {
        draw_page(&p);
        st = p.g.st;
        if (st == WISP_OK) st = wisp_out_commit(p.g.out, err);
        else wisp_out_abort(p.g.out);
    }
    wisp_free(p.room);
    wisp_free(p.curve);
    return st;
}

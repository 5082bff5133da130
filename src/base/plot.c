/* An SVG of points in panels, two beside each other.
 *
 *   title
 *   +--------------+  +--------------+      y has one scale for all panels, linear;
 *   | panel 0      |  | panel 1      |      every x its own, logarithmic
 *   +--------------+  +--------------+
 *   +--------------+  +--------------+
 *   | panel 2      |  | panel 3      |
 *   +--------------+  +--------------+
 *   legend
 *
 * Colours are set in one style sheet, which has a second set for dark surroundings; the background is
 * the file's own, so that it can be read wherever it is shown. */
#include "base/plot.h"
#include "base/draw.h"
#include "base/file.h"
#include "base/text.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { LEFT = 64, TOP = 76, WIDE = 330, HIGH = 190, ACROSS = 430, DOWN = 280 };

static const char STYLE[] =
    "<style>\n"
    "svg { --paper: #ffffff; --ink: #1f2328; --soft: #59636e; --grid: #d8dee4; --line: #0969da; "
    "--miss: #bc4c00 }\n"
    "@media (prefers-color-scheme: dark) { svg { --paper: #0d1117; --ink: #e6edf3; --soft: "
    "#9198a1; "
    "--grid: #30363d; --line: #58a6ff; --miss: #f0883e } }\n"
    "text { font: 12px system-ui, sans-serif; fill: #1f2328; fill: var(--ink) }\n"
    ".title { font-size: 16px; font-weight: 600 } .note { font-weight: 600 }\n"
    ".soft { fill: #59636e; fill: var(--soft) } .end { text-anchor: end } .mid { text-anchor: "
    "middle }\n"
    ".paper { fill: #ffffff; fill: var(--paper) }\n"
    ".grid { stroke: #d8dee4; stroke: var(--grid); fill: none }\n"
    ".level { stroke: #59636e; stroke: var(--soft); stroke-dasharray: 5 4; fill: none }\n"
    ".path { stroke: #0969da; stroke: var(--line); stroke-width: 1.5; fill: none }\n"
    ".dot { fill: #0969da; fill: var(--line) }\n"
    ".ring { stroke: #0969da; stroke: var(--line); stroke-width: 2; fill: none }\n"
    ".miss { stroke: #bc4c00; stroke: var(--miss); stroke-width: 2; fill: none }\n"
    "</style>\n";

static void put_mark(struct wisp_drawing *g, enum wisp_mark mark, double x, double y)
{
    switch (mark) {
    case WISP_MARK_BEGIN:
        wisp_draw(g, "<rect x=\"%.1f\" y=\"%.1f\" width=\"8\" height=\"8\" class=\"dot\"/>\n",
                  x - 4, y - 4);
        break;
    case WISP_MARK_MISSED:
        wisp_draw(g, "<path d=\"M%.1f %.1fl8 8m0 -8l-8 8\" class=\"miss\"/>\n", x - 4, y - 4);
        break;
    case WISP_MARK_CHOSEN:
        wisp_draw(g, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"8\" class=\"ring\"/>\n", x, y);
        wisp_draw(g, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" class=\"dot\"/>\n", x, y);
        break;
    case WISP_MARK_GOOD:
    case WISP_N_MARKS:
        wisp_draw(g, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" class=\"dot\"/>\n", x, y);
    }
}

static void put_axes(struct wisp_drawing *g, const struct wisp_plot *p,
                     const struct wisp_panel *panel, const struct wisp_scale *x,
                     const struct wisp_scale *y)
{
    double at[WISP_MOST_TICKS];
    char text[WISP_SHORT_NUMBER];
    wisp_draw(g, "<path class=\"grid\" d=\"");
    int n = wisp_scale_ticks(at, x);
    for (int i = 0; i < n; i++)
        wisp_draw(g, "M%.1f %.1fV%.1f", wisp_scale_at(x, at[i]), y->from, y->to);
    const int n_y = wisp_scale_ticks(at, y);
    for (int i = 0; i < n_y; i++)
        wisp_draw(g, "M%.1f %.1fH%.1f", x->from, wisp_scale_at(y, at[i]), x->to);
    wisp_draw(g, "M%.1f %.1fV%.1fH%.1f\"/>\n", x->from, y->to, y->from, x->to);
    for (int i = 0; i < n_y; i++) {
        wisp_print(text, sizeof text, "%.6g", fabs(at[i]) < 1e-9 ? 0 : at[i]);
        wisp_draw_label(g, x->from - 6, wisp_scale_at(y, at[i]) + 4, "soft end", text);
    }
    n = wisp_scale_ticks(at, x);
    for (int i = 0; i < n; i++) {
        wisp_draw_label(g, wisp_scale_at(x, at[i]), y->from + 16, "soft mid",
                        wisp_short_number(text, at[i]));
    }
    wisp_draw_label(g, (x->from + x->to) / 2, y->from + 34, "mid", panel->name);
    wisp_draw_label(g, x->from, y->to - 8, "note", panel->note);
    if (!isnan(p->level))
        wisp_draw(g, "<path class=\"level\" d=\"M%.1f %.1fH%.1f\"/>\n", x->from,
                  wisp_scale_at(y, p->level), x->to);
}

/* A missed point far below all others would leave no room for them: the scale ends at this y. */
static double lowest(const struct wisp_plot *p)
{
    double least = isnan(p->level) ? INFINITY : p->level, most = -INFINITY;
    for (int i = 0; i < p->n; i++) {
        if (p->mark[i] != WISP_MARK_MISSED) least = fmin(least, p->y[i]);
        most = fmax(most, p->y[i]);
    }
    return isfinite(least) ? least - fmax(1.5 * (most - least), 0.5) : -INFINITY;
}

static struct wisp_scale scale_of_y(const struct wisp_plot *p)
{
    const double low = lowest(p);
    struct wisp_scale y = { INFINITY, -INFINITY, 0, 0, false };
    for (int i = 0; i < p->n; i++) {
        const double one = fmax(p->y[i], low);
        const struct wisp_scale s = wisp_scale_of(&one, 1, p->level, false);
        y.least = fmin(y.least, s.least);
        y.most = fmax(y.most, s.most);
    }
    return y;
}

static void put_point(struct wisp_drawing *g, const struct wisp_plot *p,
                      const struct wisp_panel *panel, int k, const struct wisp_scale *x,
                      const struct wisp_scale *y)
{
    const double low = lowest(p), at = wisp_scale_at(y, fmax(p->y[k], low));
    char text[WISP_SHORT_NUMBER];
    wisp_draw(g, "<g><title>%.6g: %.6g</title>", panel->x[k], p->y[k]);
    put_mark(g, p->mark[k], wisp_scale_at(x, panel->x[k]), at);
    if (p->y[k] < low) /* how far below */
        wisp_draw_label(g, wisp_scale_at(x, panel->x[k]) + 8, at + 4 - 14 * (k % 3), "soft",
                        wisp_short_number(text, p->y[k]));
    wisp_draw(g, "</g>\n");
}

static void put_panel(struct wisp_drawing *g, const struct wisp_plot *p, int i)
{
    const struct wisp_panel *panel = &p->panel[i];
    struct wisp_scale x = wisp_scale_of(panel->x, p->n, NAN, true), y = scale_of_y(p);
    x.from = LEFT + i % 2 * ACROSS;
    x.to = x.from + WIDE;
    y.to = TOP + i / 2 * DOWN;
    y.from = y.to + HIGH;
    put_axes(g, p, panel, &x, &y);
    wisp_draw(g, "<path class=\"path\" d=\"");
    bool first = true;
    for (int k = 0; k < p->n; k++) {
        if (p->mark[k] == WISP_MARK_MISSED) continue;
        wisp_draw(g, "%c%.1f %.1f", first ? 'M' : 'L', wisp_scale_at(&x, panel->x[k]),
                  wisp_scale_at(&y, p->y[k]));
        first = false;
    }
    wisp_draw(g, "\"/>\n");
    for (int k = 0; k < p->n; k++) put_point(g, p, panel, k, &x, &y);
}

static void put_legend(struct wisp_drawing *g, const struct wisp_plot *p, double y)
{
    double x = LEFT;
    for (int m = 0; m < WISP_N_MARKS; m++) {
        if (!p->mark_names[m]) continue;
        put_mark(g, (enum wisp_mark)m, x, y - 4);
        wisp_draw_label(g, x + 14, y, "soft", p->mark_names[m]);
        x += 44 + 7 * (double)strlen(p->mark_names[m]);
    }
    if (isnan(p->level)) return;
    wisp_draw(g, "<path class=\"level\" d=\"M%.1f %.1fh24\"/>\n", x - 6, y - 4);
    wisp_draw_label(g, x + 24, y, "soft", p->level_name);
}

wisp_status wisp_plot_write(const char *path, const struct wisp_plot *p, wisp_error *err)
{
    struct wisp_drawing g = { .err = err };
    const int rows = (p->n_panels + 1) / 2, wide = LEFT + ACROSS + WIDE + 26,
              high = TOP + rows * DOWN + 10;
    wisp_status st = wisp_out_create(&g.out, path, err);
    if (st != WISP_OK) return st;
    wisp_draw(&g,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
              "height=\"%d\" role=\"img\">\n<title>",
              wide, high, wide, high);
    wisp_draw_text(&g, p->title);
    wisp_draw(&g, "</title>\n");
    wisp_draw_raw(&g, STYLE, sizeof STYLE - 1);
    wisp_draw(&g, "<rect width=\"%d\" height=\"%d\" class=\"paper\"/>\n", wide, high);
    wisp_draw_label(&g, LEFT, 26, "title", p->title);
    wisp_draw_label(&g, LEFT, 46, "soft", p->y_name);
    for (int i = 0; i < p->n_panels; i++) put_panel(&g, p, i);
    put_legend(&g, p, high - 16);
    wisp_draw(&g, "</svg>\n");
    if (g.st == WISP_OK) return wisp_out_commit(g.out, err);
    wisp_out_abort(g.out);
    return g.st;
}

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
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

enum { LEFT = 64, TOP = 76, WIDE = 330, HIGH = 190, ACROSS = 430, DOWN = 280, MOST_TICKS = 12 };

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

struct page {
    struct wisp_out *out;
    wisp_status st; /* the first failure sticks */
    wisp_error *err;
};

__attribute__((format(printf, 2, 3))) static void put(struct page *g, const char *fmt, ...)
{
    char line[600];
    va_list ap;
    va_start(ap, fmt);
    const int n = wisp_vprint(line, sizeof line, fmt, ap);
    va_end(ap);
    const size_t bytes = (size_t)n < sizeof line ? (size_t)n : sizeof line - 1;
    if (g->st == WISP_OK) g->st = wisp_out_write(g->out, line, bytes, g->err);
}

/* What stands between two tags. */
static void put_text(struct page *g, const char *text)
{
    const size_t n = strlen(text);
    uint32_t c;
    for (size_t i = 0, bytes; i < n; i += bytes) {
        bytes = wisp_utf8_get(&c, (const unsigned char *)text + i, n - i);
        const bool shown = bytes > 0 && c >= ' ' && c != 0xfffe && c != 0xffff;
        if (bytes == 0) bytes = 1;
        if (!shown) put(g, "?");
        else if (c == '<') put(g, "&lt;");
        else if (c == '&') put(g, "&amp;");
        else if (c == '>') put(g, "&gt;");
        else put(g, "%.*s", (int)bytes, text + i);
    }
}

static void put_label(struct page *g, double x, double y, const char *kind, const char *text)
{
    put(g, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, kind);
    put_text(g, text);
    put(g, "</text>\n");
}

struct scale { /* of a number, or of its logarithm, to pixels */
    double least, most;
    double from, to;
    bool log;
};

static double pixel(const struct scale *s, double v)
{
    const double at = s->log ? log10(v) : v;
    return s->from + (at - s->least) / (s->most - s->least) * (s->to - s->from);
}

/* From the least to the largest, with room around them. */
static struct scale scale_of(const double *v, int n, double more, bool logarithm)
{
    struct scale s = { INFINITY, -INFINITY, 0, 0, logarithm };
    for (int i = 0; i <= n; i++) {
        const double at = i == n ? more : logarithm ? log10(v[i]) : v[i];
        if (i == n && isnan(more)) continue;
        s.least = fmin(s.least, at);
        s.most = fmax(s.most, at);
    }
    const double room = fmax(0.07 * (s.most - s.least), logarithm ? 0.05 : 0.02);
    s.least -= room;
    s.most += room;
    return s;
}

/* Round numbers of a scale, ascending. */
static int ticks(double out[MOST_TICKS], const struct scale *s)
{
    static const double steps[] = { 1, 2, 5 };
    int n = 0;
    if (s->log && s->most - s->least < 0.8) { /* less than a decade: as if it were linear */
        const struct scale plain = { pow(10, s->least), pow(10, s->most), 0, 0, false };
        return ticks(out, &plain);
    }
    if (s->log) {
        const int all = s->most - s->least < 1.7 ? 3 : 1; /* of 1, 2, 5 */
        for (int e = (int)floor(s->least); e <= (int)ceil(s->most) && n < MOST_TICKS; e++)
            for (int k = 0; k < all && n < MOST_TICKS; k++) {
                const double v = steps[k] * pow(10, e), at = log10(v);
                if (at >= s->least && at <= s->most) out[n++] = v;
            }
        return n;
    }
    double step = pow(10, floor(log10((s->most - s->least) / 5)));
    for (int k = 2; k >= 0; k--)
        if ((s->most - s->least) / (steps[k] * step) >= 4) {
            step *= steps[k];
            break;
        }
    for (double v = ceil(s->least / step) * step; v <= s->most && n < MOST_TICKS; v += step)
        out[n++] = v;
    return n;
}

const char *wisp_short_number(char out[WISP_SHORT_NUMBER], double v)
{
    static const struct {
        double of;
        const char *name;
    } units[] = { { 1e12, "T" }, { 1e9, "G" }, { 1e6, "M" }, { 1e3, "k" }, { 0, "" } };
    size_t u = 0;
    while (fabs(v) < 0.9995 * units[u].of) u++;
    wisp_print(out, WISP_SHORT_NUMBER, "%.3g%s", units[u].of > 0 ? v / units[u].of : v,
               units[u].name);
    return out;
}

static void put_mark(struct page *g, enum wisp_mark mark, double x, double y)
{
    switch (mark) {
    case WISP_MARK_BEGIN:
        put(g, "<rect x=\"%.1f\" y=\"%.1f\" width=\"8\" height=\"8\" class=\"dot\"/>\n", x - 4,
            y - 4);
        break;
    case WISP_MARK_MISSED:
        put(g, "<path d=\"M%.1f %.1fl8 8m0 -8l-8 8\" class=\"miss\"/>\n", x - 4, y - 4);
        break;
    case WISP_MARK_CHOSEN:
        put(g, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"8\" class=\"ring\"/>\n", x, y);
        put(g, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" class=\"dot\"/>\n", x, y);
        break;
    case WISP_MARK_GOOD:
    case WISP_N_MARKS:
        put(g, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" class=\"dot\"/>\n", x, y);
    }
}

static void put_axes(struct page *g, const struct wisp_plot *p, const struct wisp_panel *panel,
                     const struct scale *x, const struct scale *y)
{
    double at[MOST_TICKS];
    char text[WISP_SHORT_NUMBER];
    put(g, "<path class=\"grid\" d=\"");
    int n = ticks(at, x);
    for (int i = 0; i < n; i++) put(g, "M%.1f %.1fV%.1f", pixel(x, at[i]), y->from, y->to);
    const int n_y = ticks(at, y);
    for (int i = 0; i < n_y; i++) put(g, "M%.1f %.1fH%.1f", x->from, pixel(y, at[i]), x->to);
    put(g, "M%.1f %.1fV%.1fH%.1f\"/>\n", x->from, y->to, y->from, x->to);
    for (int i = 0; i < n_y; i++) {
        wisp_print(text, sizeof text, "%.6g", fabs(at[i]) < 1e-9 ? 0 : at[i]);
        put_label(g, x->from - 6, pixel(y, at[i]) + 4, "soft end", text);
    }
    n = ticks(at, x);
    for (int i = 0; i < n; i++) {
        put_label(g, pixel(x, at[i]), y->from + 16, "soft mid", wisp_short_number(text, at[i]));
    }
    put_label(g, (x->from + x->to) / 2, y->from + 34, "mid", panel->name);
    put_label(g, x->from, y->to - 8, "note", panel->note);
    if (!isnan(p->level))
        put(g, "<path class=\"level\" d=\"M%.1f %.1fH%.1f\"/>\n", x->from, pixel(y, p->level),
            x->to);
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

static struct scale scale_of_y(const struct wisp_plot *p)
{
    const double low = lowest(p);
    struct scale y = { INFINITY, -INFINITY, 0, 0, false };
    for (int i = 0; i < p->n; i++) {
        const double one = fmax(p->y[i], low);
        const struct scale s = scale_of(&one, 1, p->level, false);
        y.least = fmin(y.least, s.least);
        y.most = fmax(y.most, s.most);
    }
    return y;
}

static void put_point(struct page *g, const struct wisp_plot *p, const struct wisp_panel *panel,
                      int k, const struct scale *x, const struct scale *y)
{
    const double low = lowest(p), at = pixel(y, fmax(p->y[k], low));
    char text[WISP_SHORT_NUMBER];
    put(g, "<g><title>%.6g: %.6g</title>", panel->x[k], p->y[k]);
    put_mark(g, p->mark[k], pixel(x, panel->x[k]), at);
    if (p->y[k] < low) /* how far below */
        put_label(g, pixel(x, panel->x[k]) + 8, at + 4 - 14 * (k % 3), "soft",
                  wisp_short_number(text, p->y[k]));
    put(g, "</g>\n");
}

static void put_panel(struct page *g, const struct wisp_plot *p, int i)
{
    const struct wisp_panel *panel = &p->panel[i];
    struct scale x = scale_of(panel->x, p->n, NAN, true), y = scale_of_y(p);
    x.from = LEFT + i % 2 * ACROSS;
    x.to = x.from + WIDE;
    y.to = TOP + i / 2 * DOWN;
    y.from = y.to + HIGH;
    put_axes(g, p, panel, &x, &y);
    put(g, "<path class=\"path\" d=\"");
    bool first = true;
    for (int k = 0; k < p->n; k++) {
        if (p->mark[k] == WISP_MARK_MISSED) continue;
        put(g, "%c%.1f %.1f", first ? 'M' : 'L', pixel(&x, panel->x[k]), pixel(&y, p->y[k]));
        first = false;
    }
    put(g, "\"/>\n");
    for (int k = 0; k < p->n; k++) put_point(g, p, panel, k, &x, &y);
}

static void put_legend(struct page *g, const struct wisp_plot *p, double y)
{
    double x = LEFT;
    for (int m = 0; m < WISP_N_MARKS; m++) {
        if (!p->mark_names[m]) continue;
        put_mark(g, (enum wisp_mark)m, x, y - 4);
        put_label(g, x + 14, y, "soft", p->mark_names[m]);
        x += 44 + 7 * (double)strlen(p->mark_names[m]);
    }
    if (isnan(p->level)) return;
    put(g, "<path class=\"level\" d=\"M%.1f %.1fh24\"/>\n", x - 6, y - 4);
    put_label(g, x + 24, y, "soft", p->level_name);
}

wisp_status wisp_plot_write(const char *path, const struct wisp_plot *p, wisp_error *err)
{
    struct page g = { .err = err };
    const int rows = (p->n_panels + 1) / 2, wide = LEFT + ACROSS + WIDE + 26,
              high = TOP + rows * DOWN + 10;
    wisp_status st = wisp_out_create(&g.out, path, err);
    if (st != WISP_OK) return st;
    put(&g,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
        "height=\"%d\" role=\"img\">\n<title>",
        wide, high, wide, high);
    put_text(&g, p->title);
    put(&g, "</title>\n");
    if (g.st == WISP_OK) g.st = wisp_out_write(g.out, STYLE, sizeof STYLE - 1, err);
    put(&g, "<rect width=\"%d\" height=\"%d\" class=\"paper\"/>\n", wide, high);
    put_label(&g, LEFT, 26, "title", p->title);
    put_label(&g, LEFT, 46, "soft", p->y_name);
    for (int i = 0; i < p->n_panels; i++) put_panel(&g, p, i);
    put_legend(&g, p, high - 16);
    put(&g, "</svg>\n");
    if (g.st == WISP_OK) return wisp_out_commit(g.out, err);
    wisp_out_abort(g.out);
    return g.st;
}

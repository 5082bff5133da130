/* A chart of curves: 400 by 236 units, scaled to the width that the page has for it. */
#include "report/chart.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

enum { LEFT = 50, RIGHT = 390, TOP = 10, BOTTOM = 192, WIDE = 400, HIGH = 236, MOST_POINTS = 300 };
enum { DIGIT = 7 }; /* a digit's width at most */

static int dash_of(int colour)
{
    return (colour + colour / WISP_CHART_COLOURS) % WISP_CHART_DASHES;
}

static bool is_there(const struct wisp_curve *k, size_t i)
{
    return !isnan(k->x[i]) && !isnan(k->y[i]);
}

bool wisp_chart_any(const struct wisp_chart *c)
{
    for (size_t k = 0; k < c->n; k++)
        for (size_t i = 0; i < c->curve[k].n; i++)
            if (is_there(&c->curve[k], i)) return true;
    return false;
}

static struct wisp_scale scale_of(const struct wisp_chart *c, bool of_y)
{
    struct wisp_scale s = { .least = INFINITY, .most = -INFINITY };
    for (size_t k = 0; k < c->n; k++)
        for (size_t i = 0; i < c->curve[k].n; i++) {
            const struct wisp_curve *at = &c->curve[k];
            if (!is_there(at, i)) continue;
            const double v = of_y ? at->y[i] : at->x[i];
            s.least = fmin(s.least, v);
            s.most = fmax(s.most, v);
        }
    const double size = fmax(fabs(s.least), fabs(s.most));
    double room = 0.06 * (s.most - s.least);
    if (room <= 1e-6 * size) room = size > 0 ? 0.1 * size : 1; /* one number */
    s.least -= room;
    s.most += room;
    return s;
}

/* A tick that is 0 but for rounding is 0. */
static double tidy(const struct wisp_scale *s, double v)
{
    return fabs(v) < 1e-6 * (s->most - s->least) ? 0 : v;
}

static void draw_axes(struct wisp_drawing *g, const struct wisp_chart *c,
                      const struct wisp_scale *x, const struct wisp_scale *y)
{
    double at[WISP_MOST_TICKS];
    char text[WISP_SHORT_NUMBER];
    int n = wisp_scale_ticks(at, y);
    wisp_draw(g, "<path class=\"grid\" d=\"");
    for (int i = 0; i < n; i++) wisp_draw(g, "M%d %.1fH%d", LEFT, wisp_scale_at(y, at[i]), RIGHT);
    wisp_draw(g, "\"/>\n<path class=\"axis\" d=\"M%d %dH%d\"/>\n", LEFT, BOTTOM, RIGHT);
    for (int i = 0; i < n; i++) {
        if (fabs(y->most) >= 10000) wisp_short_number(text, tidy(y, at[i]));
        else wisp_print(text, sizeof text, "%.5g", tidy(y, at[i]));
        wisp_draw_label(g, LEFT - 6, wisp_scale_at(y, at[i]) + 4, "end", text);
    }
    n = wisp_scale_ticks(at, x);
    double free_from = 0; /* numbers that would touch the one before are left out */
    for (int i = 0; i < n; i++) {
        if (c->whole && at[i] != floor(at[i])) continue;
        const double middle = wisp_scale_at(x, at[i]);
        const double half = DIGIT * (double)strlen(wisp_short_number(text, tidy(x, at[i]))) / 2;
        if (middle - half < free_from) continue;
        wisp_draw_label(g, middle, BOTTOM + 16, "mid", text);
        free_from = middle + half + DIGIT;
    }
    wisp_draw_label(g, (LEFT + RIGHT) / 2.0, BOTTOM + 36, "mid", c->x_name);
}

static void draw_point(struct wisp_drawing *g, const struct wisp_chart *c,
                       const struct wisp_curve *k, size_t i, double x, double y)
{
    char text[60];
    wisp_draw(g, "<g><title>");
    wisp_draw_text(g, k->name);
    wisp_print(text, sizeof text, ", %s %.6g: %.6g", c->x_name, k->x[i], k->y[i]);
    wisp_draw_text(g, text);
    wisp_draw(g, "</title><circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"/>", x, y);
    if (i == k->ring)
        wisp_draw(g, "<circle class=\"ring\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\"/>", x, y);
    wisp_draw(g, "</g>\n");
}

/* At most MOST_POINTS of the points, the first, the last and the ring among them. */
static bool is_drawn(const struct wisp_curve *k, size_t i)
{
    const size_t step = (k->n + MOST_POINTS - 1) / MOST_POINTS;
    return is_there(k, i) && (i % step == 0 || i == k->n - 1 || i == k->ring);
}

static void draw_curve(struct wisp_drawing *g, const struct wisp_chart *c,
                       const struct wisp_curve *k, const struct wisp_scale *x,
                       const struct wisp_scale *y)
{
    bool first = true;
    size_t n = 0;
    wisp_draw(g, "<g class=\"c%d d%d\">\n<path d=\"", k->colour % WISP_CHART_COLOURS,
              dash_of(k->colour));
    for (size_t i = 0; i < k->n; i++) {
        if (!is_drawn(k, i)) continue;
        wisp_draw(g, "%c%.1f %.1f", first ? 'M' : 'L', wisp_scale_at(x, k->x[i]),
                  wisp_scale_at(y, k->y[i]));
        first = false;
        n++;
    }
    wisp_draw(g, "\"/>\n");
    for (size_t i = 0; i < k->n; i++)
        if (is_drawn(k, i) && (n <= 60 || i == k->ring))
            draw_point(g, c, k, i, wisp_scale_at(x, k->x[i]), wisp_scale_at(y, k->y[i]));
    wisp_draw(g, "</g>\n");
}

/* The chart in words, for who cannot see it: where each curve begins and ends. */
static void draw_words(struct wisp_drawing *g, const struct wisp_chart *c)
{
    wisp_draw_text(g, c->title);
    for (size_t k = 0; k < c->n && k < 12; k++) {
        const struct wisp_curve *at = &c->curve[k];
        size_t from = 0, to = at->n;
        char text[80];
        while (from < at->n && !is_there(at, from)) from++;
        while (to > from && !is_there(at, to - 1)) to--;
        if (from == to) continue;
        wisp_draw(g, ". ");
        wisp_draw_text(g, at->name);
        wisp_print(text, sizeof text, ": from %.4g to %.4g", at->y[from], at->y[to - 1]);
        wisp_draw_text(g, text);
    }
}

void wisp_chart_draw(struct wisp_drawing *g, const struct wisp_chart *c)
{
    struct wisp_scale x = scale_of(c, false), y = scale_of(c, true);
    x.from = LEFT, x.to = RIGHT, y.from = BOTTOM, y.to = TOP;
    wisp_draw(g, "<figure class=\"chart\"><figcaption><h3>");
    wisp_draw_text(g, c->title);
    wisp_draw(g, "</h3><p>");
    wisp_draw_text(g, c->note);
    wisp_draw(g, "</p></figcaption>\n<svg viewBox=\"0 0 %d %d\" role=\"img\">\n<title>", WIDE,
              HIGH);
    draw_words(g, c);
    wisp_draw(g, "</title>\n");
    draw_axes(g, c, &x, &y);
    for (size_t k = c->n; k-- > 0;) draw_curve(g, c, &c->curve[k], &x, &y); /* the first on top */
    wisp_draw(g, "</svg></figure>\n");
}

void wisp_chart_swatch(struct wisp_drawing *g, int colour)
{
    wisp_draw(g,
              "<svg class=\"swatch\" viewBox=\"0 0 28 10\" aria-hidden=\"true\"><g class=\"c%d "
              "d%d\"><path d=\"M1 5H27\"/></g></svg>",
              colour % WISP_CHART_COLOURS, dash_of(colour));
}

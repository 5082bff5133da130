/* What drawings share: writing markup, scales and their ticks, numbers for people. */
#include "base/draw.h"
#include "base/file.h"
#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

void wisp_draw_raw(struct wisp_drawing *g, const char *text, size_t n)
{
    if (g->st == WISP_OK) g->st = wisp_out_write(g->out, text, n, g->err);
}

void wisp_draw(struct wisp_drawing *g, const char *fmt, ...)
{
    char line[1000];
    va_list ap;
    va_start(ap, fmt);
    const int n = wisp_vprint(line, sizeof line, fmt, ap);
    va_end(ap);
    assert(n >= 0 && (size_t)n < sizeof line); /* texts of any length are not for printf */
    wisp_draw_raw(g, line, (size_t)n);
}

void wisp_draw_text(struct wisp_drawing *g, const char *text)
{
    const size_t n = strlen(text);
    uint32_t c;
    for (size_t i = 0, bytes; i < n; i += bytes) {
        bytes = wisp_utf8_get(&c, (const unsigned char *)text + i, n - i);
        const bool shown = bytes > 0 && c >= ' ' && c != 0xfffe && c != 0xffff;
        if (bytes == 0) bytes = 1;
        if (!shown) wisp_draw(g, "?");
        else if (c == '<') wisp_draw(g, "&lt;");
        else if (c == '&') wisp_draw(g, "&amp;");
        else if (c == '>') wisp_draw(g, "&gt;");
        else if (c == '"') wisp_draw(g, "&quot;");
        else wisp_draw(g, "%.*s", (int)bytes, text + i);
    }
}

void wisp_draw_label(struct wisp_drawing *g, double x, double y, const char *kind, const char *text)
{
    wisp_draw(g, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, kind);
    wisp_draw_text(g, text);
    wisp_draw(g, "</text>\n");
}

double wisp_scale_at(const struct wisp_scale *s, double v)
{
    const double at = s->log ? log10(v) : v;
    return s->from + (at - s->least) / (s->most - s->least) * (s->to - s->from);
}

struct wisp_scale wisp_scale_of(const double *v, int n, double more, bool logarithm)
{
    struct wisp_scale s = { INFINITY, -INFINITY, 0, 0, logarithm };
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

int wisp_scale_ticks(double out[WISP_MOST_TICKS], const struct wisp_scale *s)
{
    static const double steps[] = { 1, 2, 5 };
    int n = 0;
    if (s->log && s->most - s->least < 0.8) { /* less than a decade: as if it were linear */
        const struct wisp_scale plain = { pow(10, s->least), pow(10, s->most), 0, 0, false };
        return wisp_scale_ticks(out, &plain);
    }
    if (s->log) {
        const int all = s->most - s->least < 1.7 ? 3 : 1; /* of 1, 2, 5 */
        for (int e = (int)floor(s->least); e <= (int)ceil(s->most) && n < WISP_MOST_TICKS; e++)
            for (int k = 0; k < all && n < WISP_MOST_TICKS; k++) {
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
    for (double v = ceil(s->least / step) * step; v <= s->most && n < WISP_MOST_TICKS; v += step)
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

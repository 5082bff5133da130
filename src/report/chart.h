/* Curves of several runs in one inline SVG, coloured by the style sheet of the page around it. */
#ifndef WISP_REPORT_CHART_H
#define WISP_REPORT_CHART_H

#include "base/draw.h"

struct wisp_curve {
    const char *name;
    int colour;     /* from 0; WISP_CHART_COLOURS of them come in turn, then with other dashes */
    size_t n, ring; /* points, ascending by x; the one that has a ring, SIZE_MAX: none */
    const double *x, *y; /* (n) NAN: there is no point, and the curve goes on behind it */
};
enum { WISP_CHART_COLOURS = 8, WISP_CHART_DASHES = 4 };

struct wisp_chart {
    const char *title, *note, *x_name;
    bool whole; /* x are whole numbers */
    size_t n;
    const struct wisp_curve *curve; /* (n) */
};

/* Is there a point at all? */
bool wisp_chart_any(const struct wisp_chart *c);
/* A figure of HTML; texts may hold anything. */
void wisp_chart_draw(struct wisp_drawing *g, const struct wisp_chart *c);
/* A short piece of a curve's line, for a legend or a table. */
void wisp_chart_swatch(struct wisp_drawing *g, int colour);

#endif

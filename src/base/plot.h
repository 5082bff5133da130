/* Points in panels as an SVG file that needs nothing else: for results that are looked at. */
#ifndef WISP_BASE_PLOT_H
#define WISP_BASE_PLOT_H

#include "base/error.h"

enum wisp_mark {                   /* how a point is drawn, and what the legend says of it */
                 WISP_MARK_BEGIN,  /* a square */
                 WISP_MARK_GOOD,   /* a disc */
                 WISP_MARK_MISSED, /* a cross */
                 WISP_MARK_CHOSEN, /* a disc in a ring */
                 WISP_N_MARKS
};
enum { WISP_MOST_PANELS = 4 };

struct wisp_panel {          /* x, on a logarithmic scale, against the plot's y */
    const char *name, *note; /* under the axis; over the panel */
    const double *x;         /* (n) above 0 */
};

struct wisp_plot {
    const char *title, *y_name;
    int n;
    const double *y; /* (n) */
    const enum wisp_mark
        *mark; /* (n) those but the missed ones are joined by a line; missed ones far
                                   below lie at the lower edge, with their y beside them */
    const char *mark_names[WISP_N_MARKS]; /* NULL: not in the legend */
    double level;                         /* of y, a line across; NAN: none */
    const char *level_name;
    int n_panels;
    struct wisp_panel panel[WISP_MOST_PANELS];
};

/* Texts may hold anything; the file is replaced whole or not at all. */
wisp_status wisp_plot_write(const char *path, const struct wisp_plot *p, wisp_error *err);

#endif

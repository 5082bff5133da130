/* The tables of a training report. */
#ifndef WISP_REPORT_TABLES_H
#define WISP_REPORT_TABLES_H

#include "base/draw.h"
#include "report/log.h"

enum { WISP_FIGURE_TEXT = 40 };
/* A figure for people, or "" where it is NAN.  Returns out. */
const char *wisp_figure_text(char out[WISP_FIGURE_TEXT], enum wisp_figure f, double v);

/* How each run ended: one row per run, the best of a column marked. */
void wisp_table_final(struct wisp_drawing *g, const struct wisp_logs *logs);
/* What the runs were told and chose: what differs between them, and what they share. */
void wisp_table_options(struct wisp_drawing *g, const struct wisp_logs *logs);
/* Every epoch of every run, folded. */
void wisp_table_epochs(struct wisp_drawing *g, const struct wisp_logs *logs);

#endif

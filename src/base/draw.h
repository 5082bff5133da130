/* What drawings share: markup (SVG, HTML) that is written by hand, scales from numbers to pixels,
 * numbers for people. */
#ifndef WISP_BASE_DRAW_H
#define WISP_BASE_DRAW_H

#include "base/error.h"

#include <stdbool.h>

struct wisp_out; /* base/file.h */

struct wisp_drawing {
    struct wisp_out *out;
    wisp_status st; /* the first failure sticks, and later calls do nothing */
    wisp_error *err;
};

/* A piece of markup, below 1000 bytes. */
void wisp_draw(struct wisp_drawing *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Bytes as they are, however many. */
void wisp_draw_raw(struct wisp_drawing *g, const char *text, size_t n);
/* Text between two tags or inside of an attribute's quotes.  It may hold anything: what means
 * something in markup is escaped, what markup cannot hold becomes a question mark. */
void wisp_draw_text(struct wisp_drawing *g, const char *text);
/* A text of SVG. */
void wisp_draw_label(struct wisp_drawing *g, double x, double y, const char *kind,
                     const char *text);

struct wisp_scale { /* of a number, or of its logarithm, to pixels */
    double least, most;
    double from, to;
    bool log;
};
enum { WISP_MOST_TICKS = 12 };

/* From the least to the largest of n numbers, and of 'more' where that is a number, with room around
 * them; the pixels are the caller's to set. */
struct wisp_scale wisp_scale_of(const double *v, int n, double more, bool logarithm);
double wisp_scale_at(const struct wisp_scale *s, double v);
/* Round numbers of a scale, ascending; returns how many. */
int wisp_scale_ticks(double out[WISP_MOST_TICKS], const struct wisp_scale *s);

/* For people: 1500000 as 1.5M, three digits at most.  Returns out. */
enum { WISP_SHORT_NUMBER = 24 };
const char *wisp_short_number(char out[WISP_SHORT_NUMBER], double v);

#endif

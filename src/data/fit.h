/* Images made larger or smaller: resized until they cover the wanted size, both sides alike, and the
 * middle cut out.
 *
 * A pixel of the result is a mean of the source under a triangle about its place (bilinear).  The
 * triangle is as wide as a pixel of the result, or of the source where that is wider: made smaller,
 * no pixel is left out (antialiased).  Sums are doubles in one order, so that neither threads nor
 * instruction sets matter. */
#ifndef WISP_DATA_FIT_H
#define WISP_DATA_FIT_H

#include "data/data.h"

struct wisp_fit {
    uint32_t height, width;       /* of the source */
    uint32_t to_height, to_width; /* of the result */
    double step, top, left; /* pixels of the source for one of the result; where that begins */
    double *sum, *line;     /* (width) */
};
/* Both to be cleared, whatever init says. */
wisp_status wisp_fit_init(struct wisp_fit *f, uint32_t height, uint32_t width, uint32_t to_height,
                          uint32_t to_width, wisp_error *err);
void wisp_fit_clear(struct wisp_fit *f);

/* Writes the pixels of line y of channel c of the source. */
typedef void wisp_fit_read(double *to, const void *source, uint32_t c, uint32_t y);
/* Line y of channel c of the result: 'row' has to_width numbers, which are not outside those of the
 * source. */
void wisp_fit_line(double *row, struct wisp_fit *f, wisp_fit_read *read, const void *source,
                   uint32_t c, uint32_t y);
/* A whole plane of bytes, rounded. */
wisp_status wisp_fit_bytes(uint8_t *to, struct wisp_fit *f, wisp_fit_read *read, const void *source,
                           uint32_t c, wisp_error *err);

#endif

/* What the files of the way 'bf16' share: a lot of the source, rounded to bf16 and laid out such that
 * no place of a kernel is special (bf16_view.c).
 *
 * A lot is some samples, or some rows of places of one.  Its pixels lie row after row with a border
 * of zeros on the left and above only: to the right of a row comes the next row's border, below a
 * sample the next sample's.  So places have one index, from the first row of the first sample to the
 * last of the last, and what a tap sees of place i is pixel i + something:
 *
 *     0 0 0 0 0          3 x 3 pixels, kernel 3x3, pad 1: 'pitch' is 4, 'high' is 4.
 *     0 a b c            Places 3, 7, 11 and 12 .. 15 of each sample are computed for nobody.
 *     0 d e f
 *     0 g h i            16 places of a tile are rows of memory with one distance,
 *     0 0 0 0            whatever the image's width is.
 *
 * With stride s > 1 view pixels (s y + a, s x + b) form planes of their own, by phase (a, b): then
 * places are neighbours again, and a tap reads one plane.
 *
 * A pixel has 32 channels, a chunk, which is one step of the tiles; chunks are planes, too:
 * (phases, chunks, pixels, 32).  Few channels would waste that: where it takes fewer steps the view is
 * 'thin', (phases of rows, pixels, channels), and a step takes 32 numbers from there on, several pixels
 * of a row of taps at once, those past the last with weights of 0. */
#ifndef WISP_CONV_BF16_H
#define WISP_CONV_BF16_H

#include "conv/direct.h"

#include <stdint.h>

enum {
    WISP_CONV_CHUNK = 32,                      /* channels of a step */
    WISP_CONV_PANEL = 16 * WISP_CONV_CHUNK / 2 /* words of its weights for 16 outputs */
};

struct wisp_conv_view16 {
    size_t channels, block, sh, sw;                       /* of the source; its pixels */
    size_t step, top, left, reach_h, reach_w, rows, cols; /* as in struct wisp_conv_walk */
    size_t pitch, high; /* places from row to row; rows of places from sample to sample */
    size_t phases_h, phases_w;
    bool thin;
    size_t chunks; /* steps of a tap, or of a row of taps where it is thin */
    size_t wide;   /* numbers from place to place */
};

struct wisp_conv_lot { /* some samples, or some rows of places of one */
    size_t samples, first, rows;
};

/* The view of a walk; thin where it may be and is better. */
struct wisp_conv_view16 wisp_conv_view16(const struct wisp_conv_walk *w, size_t channels,
                                         bool may_be_thin);
/* Rows of places that a sample of a lot has in a plane. */
size_t wisp_conv_view_rows16(const struct wisp_conv_view16 *v, const struct wisp_conv_lot *l);
/* Places of a lot up to its last one. */
size_t wisp_conv_places(const struct wisp_conv_view16 *v, const struct wisp_conv_lot *l);
/* Numbers of one plane of a lot, with what tiles read past the end of it; planes of a view. */
size_t wisp_conv_plane16(const struct wisp_conv_view16 *v, const struct wisp_conv_lot *l);
size_t wisp_conv_planes16(const struct wisp_conv_view16 *v);
/* Fills plane number 'plane'; source is the first sample's, samples lie 'apart' floats apart; room:
 * wisp_conv_room16 floats. */
void wisp_conv_fill16(const struct wisp_conv_view16 *v, const struct wisp_conv_lot *l,
                      const struct wisp_kernels *k, size_t plane, const float *source, size_t apart,
                      uint16_t *to, float *room);
size_t wisp_conv_room16(const struct wisp_conv_view16 *v);
/* The places of a row, from *begin on, whose column of phase b, b + place * step - left, is the
 * source's; returns where they end. */
size_t wisp_conv_inside16(const struct wisp_conv_view16 *v, size_t b, size_t *begin);
/* Where tap (y, x) of a view lies: the plane of its phase and the place in it. */
size_t wisp_conv_tap_phase(const struct wisp_conv_view16 *v, size_t y, size_t x);
size_t wisp_conv_tap_place(const struct wisp_conv_view16 *v, size_t y, size_t x);

/* The gradient of the weights, bf16_weights.c. */
size_t wisp_conv_bf16_gw_floats(const struct wisp_conv *c);
size_t wisp_conv_bf16_gw_scratch(const struct wisp_conv *c);
void wisp_conv_bf16_rows(const struct wisp_conv *c, const struct wisp_kernels *k, const float *gw,
                         size_t row, float *out);
void wisp_conv_bf16_weights(const struct wisp_conv *c, const struct wisp_conv_job *j);

#endif

/* What the ways on blocks of 16 channels share (direct.c, direct_weights.c). */
#ifndef WISP_CONV_DIRECT_H
#define WISP_CONV_DIRECT_H

#include "conv/conv.h"

enum {
    WISP_CONV_SQUARE = WISP_PLANE_BLOCK * WISP_PLANE_BLOCK, /* weights between two blocks */
    WISP_CONV_TAPS = 1024,                                  /* products of one sum, at most */
};

/* Forward and data are one walk over places of a source: x to y, or gy to gx.
 *
 * The source is seen through a view, a copy of some rows with its borders of zeros, so that no place
 * is special.  Where there are no borders the view is the source itself.
 *
 *   forward   place (p, q) is pixel (p, q) of y and sees rows p stride .. p stride + kh - 1
 *   data      a pixel (u, v) of gx meets only the taps i with (u + pad - i) a multiple of the stride:
 *             u + pad = p stride + phase, i = phase + t stride, row p - t of gy.  So a place holds
 *             stride * stride pixels, and each phase is a convolution of its own, of stride 1, with
 *             some of the taps.  Many phases have none where the kernel is smaller than the stride:
 *             their pixels are 0. */
struct wisp_conv_walk {
    size_t in, out;        /* blocks of one group, of the source and of the result */
    size_t block;          /* of the source */
    size_t sh, sw, dh, dw; /* pixels of the source and of the result */
    size_t step;           /* pixels of the view from place to place */
    size_t spread;         /* pixel of the result: place * spread + phase - before */
    size_t before_h, before_w;
    size_t rows, cols;       /* places */
    size_t top, left;        /* rows and columns of the view before the source's first */
    size_t reach_h, reach_w; /* pixels of the view that one place sees */
    size_t band, bands;      /* rows of places of a task; tasks of a sample */
    bool copy;               /* the view has borders */
};

struct wisp_conv_view {
    const float *at;
    size_t plane, row; /* floats from block to block, from row to row */
};

struct wisp_conv_walk wisp_conv_walk(const struct wisp_conv *c, enum wisp_conv_pass pass);
/* Floats of a view of so many rows of places and all blocks; 0: it is the source. */
size_t wisp_conv_view_floats(const struct wisp_conv_walk *w, size_t blocks, size_t rows);
/* The view of rows of places first .. first + rows - 1 and of blocks b .. b + blocks - 1 of a
 * sample; 'room' holds the copy. */
struct wisp_conv_view wisp_conv_view(const struct wisp_conv_walk *w, const float *source, size_t b,
                                     size_t blocks, size_t first, size_t rows, float *room);

/* Blocks, or channels where the block is 1, of one group of x. */
static inline size_t wisp_conv_in_blocks(const struct wisp_conv *c)
{
    return wisp_parts(c->in / c->groups, c->block);
}
static inline size_t wisp_conv_out_blocks(const struct wisp_conv *c)
{
    return wisp_parts(c->out / c->groups, WISP_PLANE_BLOCK);
}
/* Weights of a block of y and a block of x, all taps. */
static inline size_t wisp_conv_unit(const struct wisp_conv *c)
{
    return c->kh * c->kw * c->block * WISP_PLANE_BLOCK;
}

/* The gradient of the weights, direct_weights.c. */
size_t wisp_conv_direct_gw_floats(const struct wisp_conv *c);
size_t wisp_conv_direct_gw_scratch(const struct wisp_conv *c);
void wisp_conv_direct_rows(const struct wisp_conv *c, const struct wisp_kernels *k, const float *gw,
                           size_t row, float *out);
void wisp_conv_direct_weights(const struct wisp_conv *c, const struct wisp_conv_job *j);

#endif

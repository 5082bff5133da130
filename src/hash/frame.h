/* The frame: vectors as hash functions see them, so that near vectors have a high score.
 *
 * A row's score for a query h is h . w + b.  Ranks do not change under
 *
 *     q = (h - mean) / scale            x = scale * w - centre       per coordinate
 *     score = q . x + y + (the same for all rows),   y = b + mean . w - centre_bias
 *
 * with mean and scale those of the queries seen lately (scale: standard deviation, not below a
 * twentieth of the mean one) and the centres those of x and y over the rows.  Queries then have no
 * preferred direction, and neither have rows.  Families that see only the order of coordinates
 * (wta, dwta, minhash) hash q and x; norm and bias have no place there.
 *
 * Families of angles get two coordinates more,
 *
 *     [ x,  beta * y,  sqrt(M^2 - |x|^2 - (beta y)^2) ]   and   [ q,  1 / beta,  0 ],
 *
 * so that all rows have the length M and the largest product is the smallest angle.  beta = sqrt(X
 * / (Q Y)), from the root mean squares of |x|, |q| and y, gives the products of lengths least, that
 * is, the angles most.  M is a high quantile of the lengths over a sample of rows, not the largest:
 * one long row would drown all others in the last coordinate.  Longer rows get 0 there. */
#ifndef WISP_HASH_FRAME_H
#define WISP_HASH_FRAME_H

#include "hash/finder.h"

enum { WISP_FRAME_SAMPLE = 1024 }; /* rows looked at, most */

struct wisp_frame { /* lies in wisp_frame_floats(width) floats, in this order */
    size_t width;
    size_t appended;               /* 0 or 2 coordinates */
    float *mean, *scale, *centre;  /* (width) */
    float *centre_bias, *beta, *m; /* one each */
};

static inline size_t wisp_frame_floats(size_t width)
{
    return 3 * width + 3;
}
void wisp_frame_place(struct wisp_frame *f, float *block, size_t width, size_t appended);

/* Running mean and mean square (width) of queries: old values keep 'keep' of their weight. */
void wisp_frame_observe(float *mean, float *square, const float *h, size_t n, size_t width,
                        float keep);
/* Sets the frame from these and from the rows.  'work': WISP_FRAME_SAMPLE + 2 width floats. */
void wisp_frame_measure(struct wisp_frame *f, const struct wisp_kernels *k, const float *mean,
                        const float *square, const struct wisp_matrix *rows, float *work);
/* out (width + appended) */
void wisp_frame_row(const struct wisp_frame *f, const struct wisp_kernels *k, float *out,
                    const float *w, float bias);
void wisp_frame_query(const struct wisp_frame *f, float *out, const float *h);

#endif

/* Rows of weights in one of several types: what is not NULL. */
#ifndef WISP_KERNELS_WEIGHTS_H
#define WISP_KERNELS_WEIGHTS_H

#include "kernels/kernels.h"

#include <string.h>

struct wisp_weights {
    size_t cols;
    const float *f32;
    const uint16_t *b16;
    const int8_t *i8;
    const float *scale; /* of each row of i8 */
};

/* out[i] = row idx[i] . x, i < m */
static inline void wisp_weights_dots(const struct wisp_kernels *k, float *out,
                                     const struct wisp_weights *w, const int32_t *idx, size_t m,
                                     const float *x)
{
    if (w->i8) k->dots8(out, w->i8, w->scale, w->cols, idx, m, x, w->cols);
    else if (w->b16) k->dots16(out, w->b16, w->cols, idx, m, x, w->cols);
    else k->dots(out, w->f32, w->cols, idx, m, x, w->cols);
}

/* out += sum over i of val[i] times row idx[i] */
static inline void wisp_weights_bag(const struct wisp_kernels *k, float *out,
                                    const struct wisp_weights *w, const int32_t *idx,
                                    const float *val, size_t n)
{
    if (w->i8) k->bag8(out, w->i8, w->scale, w->cols, idx, val, n, w->cols);
    else if (w->b16) k->bag16(out, w->b16, w->cols, idx, val, n, w->cols);
    else k->bag(out, w->f32, w->cols, idx, val, n, w->cols);
}

/* Asks for a row that is needed soon, into the second-level cache.  Always inline: gcc 12 takes a
 * function that only prefetches for one without effect and drops the call. */
__attribute__((always_inline)) static inline void wisp_weights_fetch(const struct wisp_weights *w,
                                                                     size_t row)
{
    size_t bytes = w->cols * (w->i8 ? sizeof *w->i8 : w->b16 ? sizeof *w->b16 : sizeof *w->f32);
    const char *at = w->i8    ? (const char *)w->i8
                     : w->b16 ? (const char *)w->b16
                              : (const char *)w->f32;
    for (size_t c = 0; at && c < bytes; c += 64) __builtin_prefetch(at + row * bytes + c, 0, 2);
}

/* A row as floats: where it lies, or in 'spare' (cols). */
static inline const float *wisp_weights_row(const struct wisp_kernels *k,
                                            const struct wisp_weights *w, size_t row, float *spare)
{
    if (w->f32) return w->f32 + row * w->cols;
    if (w->i8) k->from8(spare, w->i8 + row * w->cols, w->scale[row], w->cols);
    else k->from16(spare, w->b16 + row * w->cols, w->cols);
    return spare;
}

/* A row as floats, in 'to' (cols). */
static inline void wisp_weights_copy(const struct wisp_kernels *k, float *to,
                                     const struct wisp_weights *w, size_t row)
{
    const float *from = wisp_weights_row(k, w, row, to);
    if (from != to) memcpy(to, from, w->cols * sizeof *to);
}

#endif

/* Rows of weights in one of several types: what is not NULL. */
#ifndef WISP_KERNELS_WEIGHTS_H
#define WISP_KERNELS_WEIGHTS_H

#include "kernels/codes.h"
#include "kernels/kernels.h"

#include <string.h>

struct wisp_weights {
    size_t cols;
    const float *f32;
    const uint16_t *b16;
    const int8_t *i8;
    const float *scale; /* of each row of i8 or codes */
    /* numbers of values that all rows share (codes.h) */
    const uint8_t *codes;
    const float *value;
    int bits; /* of a number */
};

/* Rows of codes are widened some columns at a time: whole groups of them. */
enum { WISP_CODES_PIECE = 256 };

static inline size_t wisp_weights_row_bytes(const struct wisp_weights *w)
{
    return w->codes ? wisp_codes_bytes(w->bits, w->cols)
           : w->i8  ? w->cols * sizeof *w->i8
           : w->b16 ? w->cols * sizeof *w->b16
                    : w->cols * sizeof *w->f32;
}

static inline const uint8_t *wisp_weights_codes(const struct wisp_weights *w, size_t row,
                                                size_t col)
{
    return w->codes + row * wisp_codes_bytes(w->bits, w->cols) + wisp_codes_bytes(w->bits, col);
}

static inline void wisp_codes_dots(const struct wisp_kernels *k, float *out,
                                   const struct wisp_weights *w, const int32_t *idx, size_t m,
                                   const float *x)
{
    float piece[WISP_CODES_PIECE];
    for (size_t i = 0; i < m; i++) {
        const size_t row = (size_t)idx[i];
        float sum = 0;
        for (size_t c = 0; c < w->cols; c += WISP_CODES_PIECE) {
            const size_t n = w->cols - c < WISP_CODES_PIECE ? w->cols - c : WISP_CODES_PIECE;
            k->from_codes(piece, wisp_weights_codes(w, row, c), w->bits, w->value, 1, n);
            sum += k->dot(piece, x + c, n);
        }
        out[i] = w->scale[row] * sum;
    }
}

static inline void wisp_codes_bag(const struct wisp_kernels *k, float *out,
                                  const struct wisp_weights *w, const int32_t *idx,
                                  const float *val, size_t nnz)
{
    float piece[WISP_CODES_PIECE];
    for (size_t i = 0; i < nnz; i++)
        for (size_t c = 0; c < w->cols; c += WISP_CODES_PIECE) {
            const size_t n = w->cols - c < WISP_CODES_PIECE ? w->cols - c : WISP_CODES_PIECE,
                         row = (size_t)idx[i];
            k->from_codes(piece, wisp_weights_codes(w, row, c), w->bits, w->value, w->scale[row],
                          n);
            k->axpy(out + c, piece, val[i], n);
        }
}

/* out[i] = row idx[i] . x, i < m */
static inline void wisp_weights_dots(const struct wisp_kernels *k, float *out,
                                     const struct wisp_weights *w, const int32_t *idx, size_t m,
                                     const float *x)
{
    if (w->codes) wisp_codes_dots(k, out, w, idx, m, x);
    else if (w->i8) k->dots8(out, w->i8, w->scale, w->cols, idx, m, x, w->cols);
    else if (w->b16) k->dots16(out, w->b16, w->cols, idx, m, x, w->cols);
    else k->dots(out, w->f32, w->cols, idx, m, x, w->cols);
}

/* out += sum over i of val[i] times row idx[i] */
static inline void wisp_weights_bag(const struct wisp_kernels *k, float *out,
                                    const struct wisp_weights *w, const int32_t *idx,
                                    const float *val, size_t n)
{
    if (w->codes) wisp_codes_bag(k, out, w, idx, val, n);
    else if (w->i8) k->bag8(out, w->i8, w->scale, w->cols, idx, val, n, w->cols);
    else if (w->b16) k->bag16(out, w->b16, w->cols, idx, val, n, w->cols);
    else k->bag(out, w->f32, w->cols, idx, val, n, w->cols);
}

/* Asks for a row that is needed soon, into the second-level cache.  Always inline: gcc 12 takes a
 * function that only prefetches for one without effect and drops the call. */
__attribute__((always_inline)) static inline void wisp_weights_fetch(const struct wisp_weights *w,
                                                                     size_t row)
{
    const size_t bytes = wisp_weights_row_bytes(w);
    const char *at = w->codes ? (const char *)w->codes
                     : w->i8  ? (const char *)w->i8
                     : w->b16 ? (const char *)w->b16
                              : (const char *)w->f32;
    for (size_t c = 0; at && c < bytes; c += 64) __builtin_prefetch(at + row * bytes + c, 0, 2);
}

/* A row as floats: where it lies, or in 'spare' (cols). */
static inline const float *wisp_weights_row(const struct wisp_kernels *k,
                                            const struct wisp_weights *w, size_t row, float *spare)
{
    if (w->f32) return w->f32 + row * w->cols;
    if (w->codes)
        k->from_codes(spare, wisp_weights_codes(w, row, 0), w->bits, w->value, w->scale[row],
                      w->cols);
    else if (w->i8) k->from8(spare, w->i8 + row * w->cols, w->scale[row], w->cols);
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

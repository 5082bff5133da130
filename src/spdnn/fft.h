/* The discrete Fourier transform of any length, in double precision, for images.c. */
#ifndef WISP_SPDNN_FFT_H
#define WISP_SPDNN_FFT_H

#include "base/error.h"

struct wisp_roots { /* e^(-2 pi i j / n) from two short tables, as a product */
    size_t n;
    unsigned shift;     /* 'low' has 2^shift entries */
    double *low, *high; /* pairs: real, imaginary; one block at 'low' */
};
wisp_status wisp_roots_init(struct wisp_roots *r, size_t n, wisp_error *err);
void wisp_roots_clear(struct wisp_roots *r);
/* 0 <= j < n */
static inline void wisp_root(double *re, double *im, const struct wisp_roots *r, size_t j)
{
    const double *a = r->high + 2 * (j >> r->shift);
    const double *b = r->low + 2 * (j & (((size_t)1 << r->shift) - 1));
    *re = a[0] * b[0] - a[1] * b[1];
    *im = a[0] * b[1] + a[1] * b[0];
}

struct wisp_fft;
wisp_status wisp_fft_create(struct wisp_fft **out, size_t n, wisp_error *err);
void wisp_fft_free(struct wisp_fft *f);            /* NULL is fine */
size_t wisp_fft_scratch(const struct wisp_fft *f); /* doubles, for each call at work */
/* out[k] = sum over j of x[j] e^(-2 pi i j k / n).  x is overwritten.  For the other sign give
 * imaginary parts as real ones and real parts as imaginary ones, of both x and out. */
void wisp_fft_run(const struct wisp_fft *f, double *out_re, double *out_im, double *re, double *im,
                  double *scratch);

#endif

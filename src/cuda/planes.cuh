/* Values of several pixels on the card, (n, h, w, channels), floats or bf16: pooling, batch norm,
 * images and the way to plain units.
 *
 * As in ops.cuh, functions only launch kernels on a stream, no float is added by an atomic, and
 * sums have a fixed order.  'now_n' is on the card: samples of this step; NULL: all n.  Gradients of
 * samples beyond are written as 0 (conv.cuh says why). */
#ifndef WISP_CUDA_PLANES_CUH
#define WISP_CUDA_PLANES_CUH

#include "cuda/step.cuh"
#include "cuda/zeros.cuh"

struct wisp_dplanes { /* sizes of a value */
    size_t n, h, w, c;
    bool half; /* bf16 */
    const uint32_t *now_n;
    size_t used; /* of the c channels: the others are 0, and no units of the host; 0: all */
};

/* ---- pool.cu ---- */

struct wisp_dpool { /* windows of x that give y */
    struct wisp_dplanes x;
    size_t oh, ow, kh, kw, stride, pad_h, pad_w; /* kh kw at most 254 */
    struct wisp_dlive live;                      /* of y */
};
/* which (n, oh, ow, c): the place in its window of each y, the first of equals; NULL: not wanted.
 * gate: x was made by a ReLU that the way back is to go through, too: where y is not positive it is
 * nobody's. */
void wisp_dpool_max(const struct wisp_dpool &p, void *y, uint8_t *which, bool gate, const void *x,
                    cudaStream_t s);
void wisp_dpool_max_back(const struct wisp_dpool &p, void *gx, const void *gy, const uint8_t *which,
                         cudaStream_t s);
/* Sums over the window divided by kh kw, as if pixels outside were there and 0. */
void wisp_dpool_mean(const struct wisp_dpool &p, void *y, const void *x, cudaStream_t s);
/* gate: x, if it was made by a ReLU that gx is to go back through; NULL: none. */
void wisp_dpool_mean_back(const struct wisp_dpool &p, void *gx, const void *gy, const void *gate,
                          cudaStream_t s);
/* y (n, used) floats: means of all pixels; and back. */
void wisp_dpool_all(const struct wisp_dplanes &p, float *y, const void *x, cudaStream_t s);
void wisp_dpool_all_back(const struct wisp_dplanes &p, void *gx, const float *gy, const void *gate,
                         cudaStream_t s);

/* ---- layout.cu ---- */

/* y (n, used, h, w) floats, the order of units on the host, of x; and back. */
void wisp_dflatten(const struct wisp_dplanes &p, float *y, const void *x, cudaStream_t s);
void wisp_dflatten_back(const struct wisp_dplanes &p, void *gx, const float *gy, cudaStream_t s);

struct wisp_dimages {
    const uint8_t *bytes;           /* (rows, channels, h, w), as many pixels as x */
    size_t channels;                /* at most those of x */
    const uint32_t *row;            /* (n) of each sample; NULL: in their order */
    const struct wisp_moved *moved; /* (n); NULL: nothing is moved */
    const struct wisp_dnow *now;    /* not NULL: these two are its own */
    const float *table;             /* (channels, 256) what each byte becomes */
};
/* Sets x; pixels outside the image, channels beyond its own and samples beyond the last are 0. */
void wisp_dimages_lay(const struct wisp_dplanes &p, const struct wisp_dimages &images, void *x,
                      cudaStream_t s);

/* ---- planes.cu: batch norm ---- */

struct wisp_dnorm {
    struct wisp_dplanes x;
    float eps;
    const float *scale, *shift; /* (c) */
    float *measured; /* (3, c) mean, 1 / deviation, variance of the batch; predicting: the
                               first two of the running ones, set by wisp_dnorm_use */
    float *work;     /* wisp_dnorm_floats */
    bool relu;
    struct wisp_dlive live; /* of y */
    /* Not NULL: x has this rank's part of a batch, and 'measured' is to be that of the whole of it
     * before y is made, as totals are before gx is. */
    const struct wisp_dnow *divided;
};
size_t wisp_dnorm_floats(const struct wisp_dplanes &x);
/* Measures x. */
void wisp_dnorm_measure(const struct wisp_dnorm &l, const void *x, cudaStream_t s);
/* Sets 'measured' of the running means and variances. */
void wisp_dnorm_use(const struct wisp_dnorm &l, const float *mean, const float *variance,
                    cudaStream_t s);
/* y = (x - mean) / deviation * scale + shift (+ beside), then max(., 0) where l.relu. */
void wisp_dnorm_on(const struct wisp_dnorm &l, void *y, const void *x, const void *beside,
                   cudaStream_t s);
struct wisp_dnorm_beside {
    const void *y; /* what came of it */
    void *gx;      /* set: the gradient of what is beside; it may be g */
};
/* Totals (2, c): the gradients of scale and shift, and beside.gx.  g is the gradient of y; a ReLU is
 * gone back through here.  beside: of what was added; NULL: nothing was. */
void wisp_dnorm_add(const struct wisp_dnorm &l, float *totals, const void *g, const void *x,
                    const struct wisp_dnorm_beside *beside, cudaStream_t s);
/* Then gx, which may be g, but that beside.gx is another. */
void wisp_dnorm_below(const struct wisp_dnorm &l, void *gx, const float *totals, const void *g,
                      const void *x, const struct wisp_dnorm_beside *beside, cudaStream_t s);

#endif

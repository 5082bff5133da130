/* One convolution, and the ways to compute it: one file per way, one table (ways.c).
 *
 *   forward   y(o, p, q)      = bias(o) + sum over c, i, j of
 *                               w(o, c, i, j) x(first + c, p stride - pad_h + i, q stride - pad_w + j)
 *   data      gx(c, u, v)     = the gradient of x, from gy and w
 *   weights   gw(o, c, i, j)  = the gradient of w: sum over samples and pixels of gy x
 *
 * 'first' is the first input channel of o's group.  x outside the image is 0.  The way 'plain' is the
 * definition; the others equal it up to rounding (relative to the sum of the absolute terms).
 *
 * x and gx are (n, blocks, h, w, block) with the input's block, y and gy the same with blocks of 16
 * (graph/planes.h): channels past the last are 0 in x and gy, and a way writes them as 0 in y and gx.
 * Weights have a plain order, (out, in / groups, kh, kw); a way may want them packed.  One output
 * channel of them is a row.
 *
 * A way never gives other bytes for another number of threads: tasks own what they write, and sums
 * over samples have a fixed order. */
#ifndef WISP_CONV_CONV_H
#define WISP_CONV_CONV_H

#include "base/error.h"
#include "graph/ids.h"
#include "graph/planes.h"

#include <stdbool.h>
#include <stddef.h>

struct wisp_kernels;
struct wisp_pool;

enum wisp_conv_pass { WISP_CONV_FORWARD, WISP_CONV_DATA, WISP_CONV_WEIGHTS, WISP_CONV_PASSES };

struct wisp_conv {                               /* all sizes of a convolution */
    size_t in, out, h, w, oh, ow;                /* channels and pixels; oh, ow: of the result */
    size_t kh, kw, stride, pad_h, pad_w, groups; /* groups divide in and out */
    size_t block;                                /* of x and gx: 16 or 1 */
    size_t batch;                                /* most samples of a call, ... */
    int threads;                                 /* ... and threads, for a way that plans by them */
    bool kept; /* packed weights of forward are: packing them takes no time */
};

/* Whose zeros the way 'skip' skips in the pass of the weights. */
enum wisp_conv_source { WISP_CONV_ANY, WISP_CONV_OF_X, WISP_CONV_OF_GY };

struct wisp_conv_job { /* one call; what a pass does not name may be NULL */
    struct wisp_pool *pool;
    const struct wisp_kernels *k;
    size_t n;          /* samples */
    const float *x;    /* forward, weights */
    const float *gy;   /* data, weights */
    const float *w;    /* forward, data: packed for this pass, or plain (see weight_floats) */
    const float *bias; /* forward: (out); NULL: none */
    float *y, *gx;     /* set by forward, by data */
    float *gw;         /* set by weights, as the way lays it; rows() reads it */
    bool relu;         /* forward: y = max(y, 0) at the end */
    enum wisp_conv_source source; /* weights, 'skip'; ANY: of those that have more */
    const float *mask; /* data, of ways that can: 0 in gx where this, laid out as gx, is not above
                              0; NULL: nowhere */
    uint64_t
        *live; /* forward, of ways that can: (threads, live_apart) a thread adds how many of y are
                       not 0, by blocks; NULL: nobody counts */
    size_t live_apart;
    /* (threads) of thread_floats each, 64-byte aligned, so many floats apart.  The passes of a layer
     * share it: a way that cuts it up ends that (wisp_cut_end) before it returns. */
    float *thread_scratch;
    size_t thread_apart;
};

struct wisp_conv_way {
    const char *name, *what;
    /* 0: each number is off by rounding of its own terms.  Else by so much of the largest sum of
     * absolute terms beside it, at most. */
    float rough;
    bool masks, counts; /* knows job->mask, job->live */
    /* Only where its name is given: how fast it is depends on the numbers. */
    bool asked;
    bool half; /* what it multiplies is rounded to bf16: taken only where the run's precision is */
    /* May be called for this pass with these sizes and kernels.  The other functions are called
     * only then. */
    bool (*can)(const struct wisp_conv *c, enum wisp_conv_pass pass, const struct wisp_kernels *k);
    /* Of forward and data: floats of the packed weights; 0: job->w is the plain weights, nothing is
     * packed.  Of weights: floats of gw, with what else is needed to sum it up. */
    size_t (*weight_floats)(const struct wisp_conv *c, enum wisp_conv_pass pass);
    /* Scratch of each thread; NULL: none. */
    size_t (*thread_floats)(const struct wisp_conv *c, enum wisp_conv_pass pass);
    /* Packs 16 rows, w (16, in / groups, kh, kw), 'row' and those after it (wisp_conv_rows_from),
     * into 'to', which is all of the packed weights; row is a multiple of 16.  Where channels do not
     * fill blocks of 16, all of 'to' was set to 0 before.  Blocks of rows may be packed at the same
     * time.  NULL where weight_floats is 0. */
    void (*pack)(const struct wisp_conv *c, enum wisp_conv_pass pass, const struct wisp_kernels *k,
                 float *to, const float *w, size_t row);
    /* The gradient of 16 rows, 'row' and those after it as in pack, in plain order, of what 'weights'
     * left in gw. */
    void (*rows)(const struct wisp_conv *c, const struct wisp_kernels *k, const float *gw,
                 size_t row, float *out);
    wisp_status (*run)(const struct wisp_conv *c, enum wisp_conv_pass pass,
                       const struct wisp_conv_job *j, wisp_error *err);
};

/* Where a thread counts a block of y, or NULL. */
static inline uint64_t *wisp_conv_live(const struct wisp_conv_job *j, bool forward, int thread,
                                       size_t block)
{
    return forward && j->live ? j->live + (size_t)thread * j->live_apart + block : NULL;
}

/* Weights of one output channel. */
static inline size_t wisp_conv_row(const struct wisp_conv *c)
{
    return c->in / c->groups * c->kh * c->kw;
}
/* Rows of the block of 16 that begins with 'row'. */
static inline size_t wisp_conv_rows_from(const struct wisp_conv *c, size_t row)
{
    return c->out - row < WISP_PLANE_BLOCK ? c->out - row : WISP_PLANE_BLOCK;
}
/* Floats of a sample of x, and of y. */
static inline size_t wisp_conv_in_floats(const struct wisp_conv *c)
{
    return wisp_planes_floats(c->in, c->h, c->w, c->block);
}
static inline size_t wisp_conv_out_floats(const struct wisp_conv *c)
{
    return wisp_planes_floats(c->out, c->oh, c->ow, WISP_PLANE_BLOCK);
}
/* Pixels of a result along one direction; 0: the kernel is larger than the image with its borders. */
static inline size_t wisp_conv_pixels(size_t pixels, size_t kernel, size_t stride, size_t pad)
{
    return pixels + 2 * pad < kernel ? 0 : (pixels + 2 * pad - kernel) / stride + 1;
}

/* The table, the fastest first. */
const struct wisp_conv_way *wisp_conv_way_at(size_t i); /* NULL past the end */

struct wisp_conv_choice {         /* who may be chosen, and how (choose.c) */
    const struct wisp_kernels *k; /* NULL: 'plain' alone */
    const char *only; /* names of ways, "direct,plain": the first that can; NULL: all but those that
                         want to be asked for, and ... */
    bool measure;     /* ... the fastest; else the first of the table that can */
    bool half;        /* ways that round to bf16 are among them */
    enum wisp_zeros zeros; /* of wisp_conv_zeros: auto is from a share of them on */
    /* What was measured before, and is added to; the second where the first cannot be written; NULL:
     * none. */
    const char *file, *other;
};
/* 'plain' always can. */
const struct wisp_conv_way *wisp_conv_choose(const struct wisp_conv *c, enum wisp_conv_pass pass,
                                             const struct wisp_conv_choice *how);
/* The way for calls with many zeros: from these shares of zeros on, of x and of gy, it is faster than
 * the one that was chosen for all others.  Above 1: never by these. */
struct wisp_conv_zeros {
    const struct wisp_conv_way *way; /* NULL: never */
    double of_x, of_gy;
};
/* It is measured beside 'dense', which was chosen for this pass, and kept like that one; where names
 * of ways are given it is none, but by WISP_ZEROS_FORCE. */
struct wisp_conv_zeros wisp_conv_zeros(const struct wisp_conv *c, enum wisp_conv_pass pass,
                                       const struct wisp_conv_choice *how,
                                       const struct wisp_conv_way *dense);
/* The way for the numbers of this call, a function of them alone; sets j->source.  *share is that of
 * the zeros that are skipped, or would be if there were more of them; 0 where nobody looked. */
const struct wisp_conv_way *wisp_conv_way_for(const struct wisp_conv *c, enum wisp_conv_pass pass,
                                              const struct wisp_conv_zeros *z,
                                              const struct wisp_conv_way *dense,
                                              struct wisp_conv_job *j, double *share);
/* The share of zeros of x, or of gy, of some pixels (skip.c). */
double wisp_conv_zero_share(const struct wisp_conv *c, const struct wisp_conv_job *j, bool of_x);
/* The ways there are, those of wisp-dnnl.so included; NULL past the end. */
const struct wisp_conv_way *wisp_conv_any(size_t i);
/* The first of these names that is no way's, neither here nor in wisp-dnnl.so; NULL: there is none. */
const char *wisp_conv_unknown(const char *names, size_t *length);
extern const struct wisp_conv_way wisp_conv_bf16, wisp_conv_direct, wisp_conv_winograd,
    wisp_conv_few, wisp_conv_skip, wisp_conv_plain;

/* Packs all rows of w, plain, into 'to'; 16 rows are a task. */
void wisp_conv_pack(const struct wisp_conv_way *way, const struct wisp_conv *c,
                    enum wisp_conv_pass pass, struct wisp_pool *pool, const struct wisp_kernels *k,
                    float *to, const float *w);

#endif

/* One convolution on the card, and the ways to compute it: one file per way, one table (conv.cu).
 *
 *   forward   y(n, p, q, o)    = bias(o) + sum over i, j, c of
 *                                w(o, i, j, c) x(n, p stride - pad_h + i, q stride - pad_w + j,
 *                                                first + c), then max(., 0) where relu
 *   data      gx               = the gradient of x, from gy and w; 0 where 'gate' is not positive
 *   weights   gw(o, i, j, c)   = the gradient of w: sum over samples and pixels of gy x
 *
 * 'first' is the first input channel of o's group; x outside the image is 0.  Values lie as (n, h, w,
 * channels), weights as (out, kh, kw, in / groups): a row of the host's, its channels innermost, so
 * that who moves rows need not care.  Values, gradients of values and the weights that are
 * multiplied are floats, or all bf16 (math BF16); sums are fp32, and so are gw and the bias.
 *
 * A pass only launches kernels on a stream, so that a step can be captured as a graph; what has to be
 * found out or allocated is done by wisp_dconv_make.  No float is added by an atomic: a pass
 * repeats bit for bit.  Samples from *n on: y of them is anything, gx is 0 if gy is; their gy must
 * be 0, for a library sums over all that it was made for. */
#ifndef WISP_CUDA_CONV_CUH
#define WISP_CUDA_CONV_CUH

#include "cuda/step.cuh"
#include "wisp/wisp.h"

enum wisp_dconv_pass { WISP_DCONV_FORWARD, WISP_DCONV_DATA, WISP_DCONV_WEIGHTS, WISP_DCONV_PASSES };

enum wisp_dconv_math {                  /* how products are made of */
                       WISP_DCONV_FP32, /* floats, as they are */
                       WISP_DCONV_TF32, /* floats, rounded to 11 bits for tensor cores */
                       WISP_DCONV_BF16  /* bf16 */
};

struct wisp_dconv {                              /* all sizes of a convolution */
    size_t n;                                    /* most samples */
    size_t in, out, h, w, oh, ow;                /* channels and pixels; oh, ow: of the result */
    size_t kh, kw, stride, pad_h, pad_w, groups; /* groups divide in and out */
    enum wisp_dconv_math math;
};

struct wisp_dconv_job { /* one call; what a pass does not name may be NULL */
    const uint32_t
        *n;         /* on the card: samples of this step, at most those of the sizes; NULL: all */
    const void *x;  /* (n, h, w, in) forward, weights */
    const void *gy; /* (n, oh, ow, out) data, weights */
    const void *w;  /* (out, kh, kw, in / groups) forward, data */
    const float *bias; /* (out) forward; NULL: none */
    void *y, *gx;      /* set by forward, by data */
    float *gw;         /* set by weights; */
    bool as_made;      /* it may be bf16: it is where wisp_dconv_gives_halves() says so */
    bool relu;         /* forward */
    const void *gate;  /* (n, h, w, in) data; NULL: none */
    bool add;          /* data, where wisp_dconv_adds(), without a gate: gx += */
    void *work;        /* bytes that the plan says, at a multiple of 256 */
    bool aside;        /* another pass may be under way on another stream */
};

struct wisp_dconv_way {
    const char *name, *what;
    bool (*can)(const struct wisp_dconv *c, enum wisp_dconv_pass pass);
    /* Prepares a pass, in memory of the host and, for a while, of the card: 'made' of the other
     * functions.  false: it cannot be done here.  NULL: nothing to prepare. */
    bool (*make)(void **made, const struct wisp_dconv *c, enum wisp_dconv_pass pass);
    void (*free)(void *made);
    size_t (*bytes)(const struct wisp_dconv *c, enum wisp_dconv_pass pass, const void *made);
    /* false: a library refused; 'made' was of no use. */
    bool (*run)(const struct wisp_dconv *c, enum wisp_dconv_pass pass, const void *made,
                const struct wisp_dconv_job *j, cudaStream_t s);
};
/* Plain is the definition and does everything; the others equal it up to rounding. */
extern const struct wisp_dconv_way wisp_dconv_plain, wisp_dconv_tensor, wisp_dconv_cudnn,
    wisp_dconv_few, wisp_dconv_skip;
/* NULL: no more. */
const struct wisp_dconv_way *wisp_dconv_way_at(size_t i);

struct wisp_dconv_plan { /* a convolution with its ways */
    struct wisp_dconv c;
    const struct wisp_dconv_way *way[WISP_DCONV_PASSES];
    void *made[WISP_DCONV_PASSES];
    size_t bytes[WISP_DCONV_PASSES]; /* of work */
};
/* For each pass that is wanted (bit i: pass i) the first way of the table that can, or one that is
 * known to be faster.  only: none but this one, and plain where it cannot; NULL: any.  Which it is
 * depends on the sizes, the card and its libraries alone, not on a measurement: a run repeats.  zeros:
 * the way that skips them, where it can, always or where it is measured to be faster (conv_choose.cu),
 * which is the one exception. */
void wisp_dconv_make(struct wisp_dconv_plan *p, const struct wisp_dconv *c, const char *only,
                     unsigned passes = (1u << WISP_DCONV_PASSES) - 1,
                     enum wisp_zeros zeros = WISP_ZEROS_OFF);
void wisp_dconv_clear(struct wisp_dconv_plan *p);
bool wisp_dconv_gives_halves(const struct wisp_dconv_plan *p);
bool wisp_dconv_adds(const struct wisp_dconv_plan *p);
wisp_status wisp_dconv_run(const struct wisp_dconv_plan *p, enum wisp_dconv_pass pass,
                           const struct wisp_dconv_job *j, cudaStream_t s, wisp_error *err);

/* The gradient of the bias: sums (channels) of gy (n, pixels, channels) over samples and pixels, by
 * parts of up to 1024 pixels in their order.  work: wisp_dconv_bias_bytes. */
size_t wisp_dconv_bias_bytes(size_t n, size_t pixels, size_t channels);
void wisp_dconv_bias(float *sums, const void *gy, bool half, const uint32_t *now_n, size_t n,
                     size_t pixels, size_t channels, void *work, cudaStream_t s);

/* ---- what ways share (conv.cu) ---- */

static inline size_t wisp_dconv_row(const struct wisp_dconv *c) /* weights of an output channel */
{
    return c->in / c->groups * c->kh * c->kw;
}
static inline size_t wisp_dconv_size(const struct wisp_dconv *c) /* bytes of a value */
{
    return c->math == WISP_DCONV_BF16 ? 2 : 4;
}
/* to (floats) = the sum of 'parts' arrays one after the other, added in their order. */
void wisp_dconv_add(float *to, const float *parts, size_t floats, size_t n_parts, cudaStream_t s);
/* Streaming multiprocessors of the card, and its compute capability times ten. */
int wisp_dconv_multis(void);
int wisp_dconv_capability(void);

/* ---- conv_choose.cu ---- */

/* Is skipping faster than the way of the plan, with as many live slices as real nets have at best?
 * Measured once in a process; false where the card has no memory for that. */
bool wisp_dconv_skip_wins(const struct wisp_dconv_plan *p, enum wisp_dconv_pass pass);

/* ---- conv_dnn.cu ---- */

/* Bytes that a pass in fp32 may take to turn values in; beyond it the batch goes in pieces.  Tests set
 * it. */
extern size_t wisp_dconv_turned;

/* What 'wisp info' says: "cuDNN 9.14.0", or why there is none. */
const char *wisp_dconv_library(void);

struct wisp_dconv_seen { /* an algorithm of cuDNN's, as it measured it */
    int algorithm;
    bool repeats;
    float ms;
    size_t bytes;
};
/* Runs all of a pass, fastest first; returns how many. */
size_t wisp_dconv_cudnn_measure(struct wisp_dconv_seen *seen, size_t most,
                                const struct wisp_dconv *c, enum wisp_dconv_pass pass,
                                const struct wisp_dconv_job *j, size_t work_bytes);

#endif

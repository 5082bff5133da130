/* Convolution on the card that leaves out slices of zeros: what its two files share.  conv_skip.cu is
 * the way, with forward and data; conv_skip_w.cu has the gradient of weights.
 *
 *   mark     one bit for every unit (4 or 16 bytes of channels) of every pixel: any number not 0?
 *   list     for each block of the product, the slices of its sum that are live, one after the other
 *   multiply the products of conv_tensor.cu, their tiles filled from the lists alone
 *
 * A slice of forward and data is a tap and a unit of channels, over the 128 pixels of a block; one of
 * the weights' gradient is a pixel, over a block's outputs and its taps and channels.  Lists are in
 * the order of what they list, so that a pass repeats bit for bit, and equals the dense one up to the
 * order of additions.  A product of a zero in a slice that is left out with an infinite number or NaN
 * is left out, too; a NaN or infinite number in a slice makes it live. */
#ifndef WISP_CUDA_CONV_SKIP_CUH
#define WISP_CUDA_CONV_SKIP_CUH

#include "cuda/conv_tensor.cuh"

struct wisp_dmarks { /* (pixels, words) bits: unit u of a pixel is bit u % 32 of word u / 32 */
    uint32_t *bits;
    int units, words; /* of a pixel */
};
static inline struct wisp_dmarks wisp_dmarks_of(uint32_t *bits, size_t channel_bytes, int unit)
{
    const int units = (int)(channel_bytes / (size_t)unit);
    return { bits, units, (units + 31) / 32 };
}
static inline size_t wisp_dmarks_bytes(size_t pixels, size_t channel_bytes, int unit)
{
    return wisp_up(pixels * (size_t)wisp_dmarks_of(NULL, channel_bytes, unit).words * 4, 256);
}
/* Marks all pixels of x, whose channels are a multiple of 16 bytes.  unit: 4 or 16. */
void wisp_dmark(const struct wisp_dmarks &m, const void *x, size_t pixels, size_t channel_bytes,
                int unit, bool half, cudaStream_t s);

struct wisp_dby { /* to divide numbers below 2^31 by */
    uint32_t by, times, shift;
};
static inline struct wisp_dby wisp_dby_of(uint32_t by)
{
    uint32_t log = 0;
    while (((uint64_t)1 << log) < by) log++;
    if (by == 1) return { 1, 0, 0 };
    return { by, (uint32_t)((((uint64_t)1 << (31 + log)) + by - 1) / by), log - 1 };
}
static __device__ inline int wisp_dquotient(int x, const struct wisp_dby &d)
{
    return d.by == 1 ? x : (int)(__umulhi((uint32_t)x, d.times) >> d.shift);
}

/* ---- seen, for those who ask ---- */

struct wisp_dlive { /* slices of a pass that are live, and all that there are, whole blocks */
    size_t live, all;
};
/* Of the last run, which is over, with this work. */
struct wisp_dlive wisp_dconv_skip_seen(const struct wisp_dconv *c, enum wisp_dconv_pass pass,
                                       const void *work);
/* From n counts on the card. */
struct wisp_dlive wisp_dconv_live(const int *counts, size_t n, size_t all);

/* ---- conv_skip_w.cu ---- */

bool wisp_dconv_skip_w_can(const struct wisp_dconv *c);
size_t wisp_dconv_skip_w_bytes(const struct wisp_dconv *c);
void wisp_dconv_skip_w(const struct wisp_dconv *c, const struct wisp_dconv_job *j, cudaStream_t s);
struct wisp_dlive wisp_dconv_skip_w_seen(const struct wisp_dconv *c, const void *work);

#endif

/* What the ways that skip zeros share (skip.c, skip_weights.c).
 *
 * The side whose zeros are skipped, x or gy, is the source; its pixels meet those of the other side
 * through the taps of the kernel.  With a stride a pixel meets only some taps: pixels of x with the
 * same remainder of the division by the stride, and taps with the same remainder where gy is the
 * source.  Of each remainder, along each direction, pixel l and slot m of the kernel meet
 *
 *   pixel to_step (l + m) + to of the other side                    (if there is one)
 *
 * so it is a convolution of stride 1, of fewer pixels or taps. */
#ifndef WISP_CONV_SKIP_H
#define WISP_CONV_SKIP_H

#include "conv/conv.h"
#include "kernels/kernels.h"

enum { WISP_CONV_SKIP_TAPS = 1024 }; /* of a kernel, at most */

struct wisp_skip_axis {    /* of one remainder */
    size_t first, step, n; /* pixels of the source: first + step l, l < n */
    size_t slots;          /* taps of the kernel that these pixels meet; 0: none */
    size_t tap;            /* of slot 0 ... */
    bool back;             /* ... the last one: taps come from there by strides, else forward */
    long to;
    size_t to_step;
};

/* Of pixels of x (of_x) or of gy. */
static inline struct wisp_skip_axis wisp_skip_axis(size_t pixels, size_t kernel, size_t stride,
                                                   size_t pad, bool of_x, size_t remainder)
{
    struct wisp_skip_axis a = { .step = 1, .n = pixels, .tap = remainder, .to_step = stride };
    if (of_x) {
        a.first = remainder, a.step = stride, a.to_step = 1, a.back = true;
        a.n = pixels > remainder ? wisp_parts(pixels - remainder, stride) : 0;
        a.tap = (remainder + pad) % stride;
    }
    a.slots = a.tap < kernel ? wisp_parts(kernel - a.tap, stride) : 0;
    a.to =
        of_x ? (long)((remainder + pad) / stride) + 1 - (long)a.slots : (long)remainder - (long)pad;
    if (of_x && a.slots) a.tap += (a.slots - 1) * stride;
    return a;
}

/* The tap of a slot. */
static inline size_t wisp_skip_tap(const struct wisp_skip_axis *a, size_t stride, size_t slot)
{
    return a->back ? a->tap - slot * stride : a->tap + slot * stride;
}

/* n things shared out to 'parts' as evenly as may be: where part i begins. */
static inline size_t wisp_skip_begin(size_t n, size_t parts, size_t i)
{
    return i * n / parts;
}

/* The gradient of the weights, skip_weights.c. */
size_t wisp_skip_gw_floats(const struct wisp_conv *c);
size_t wisp_skip_gw_scratch(const struct wisp_conv *c);
void wisp_skip_rows(const struct wisp_conv *c, const struct wisp_kernels *k, const float *gw,
                    size_t row, float *out);
void wisp_skip_weights(const struct wisp_conv *c, const struct wisp_conv_job *j);

#endif

/* Values with channels, height and width, for the kinds that read them: their sizes, and loops over
 * blocks of channels.  A value of either form is (n, blocks, pixels, block); of images as they come
 * a block is one channel (graph/planes.h). */
#ifndef WISP_LAYER_PLANES_H
#define WISP_LAYER_PLANES_H

#include "layer/layer.h"

/* More floats of a sample than any machine has memory for; products of sizes stay far from 2^63. */
#define WISP_MAX_PLANES ((size_t)1 << 32)
enum { WISP_MAX_CHANNELS = 1 << 16, WISP_MAX_KERNEL = 1024 };

struct wisp_planes {
    size_t channels, h, w;
    size_t block, blocks; /* channels side by side; how many of those */
    size_t floats;        /* of a sample */
};

static inline struct wisp_planes wisp_planes_of(const struct wisp_act *a)
{
    const size_t block = wisp_act_block(a), *dim = a->shape.dim;
    return (
        struct wisp_planes){ dim[0], dim[1], dim[2], block, wisp_parts(dim[0], block), a->floats };
}
/* Where a block of a sample begins. */
static inline size_t wisp_planes_block(const struct wisp_planes *p, size_t sample, size_t block)
{
    return sample * p->floats + block * p->h * p->w * p->block;
}

/* For plan(): refuses a value without height and width. */
wisp_status wisp_planes_check(const struct wisp_layer *l, const struct wisp_act *in,
                              wisp_error *err);
/* For plan(): sets the shape and the form of what is made by moving a kernel over it, unless the
 * kernel is larger than the image with its borders, or these as wide as the kernel. */
wisp_status wisp_planes_slide(struct wisp_layer *l, const struct wisp_act *in, struct wisp_act *out,
                              size_t channels, enum wisp_form form, size_t kh, size_t kw,
                              size_t stride, size_t pad_h, size_t pad_w, wisp_error *err);

#endif

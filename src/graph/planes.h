/* How images and what convolutions give lie in memory: a sample is (blocks, height, width, block),
 * channels in blocks of so many side by side.
 *
 *   block 16 (WISP_PLANES)   c0 c1 .. c15 of pixel (0, 0) | of (0, 1) | ...   then c16 .. c31
 *   block 1  (WISP_FLAT)     all pixels of c0, then all of c1: as images come
 *
 * 16 floats are one vector of AVX-512, two of AVX2.  Channels past the last, up to the next multiple
 * of 16, are there and hold 0, in values and in gradients alike: whoever writes writes them, too. */
#ifndef WISP_GRAPH_PLANES_H
#define WISP_GRAPH_PLANES_H

#include "base/bounds.h"

#include <stdint.h>

enum { WISP_PLANE_BLOCK = 16 };

/* Floats of one sample. */
static inline size_t wisp_planes_floats(size_t channels, size_t h, size_t w, size_t block)
{
    return wisp_up(channels, block) * h * w;
}

/* The place of a pixel of a channel in its sample. */
static inline size_t wisp_plane_at(size_t channel, size_t y, size_t x, size_t h, size_t w,
                                   size_t block)
{
    return ((channel / block * h + y) * w + x) * block + channel % block;
}

/* How an image is cut out (data/image.h): pixel (y, x) of the result is (y + down, x' + right) of the
 * image, x' being x or, in its mirror, w - 1 - x. */
struct wisp_moved {
    int32_t down, right, mirrored;
};

#endif

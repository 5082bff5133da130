/* A window that moves over an image: what pools share.  Sizes are those of PyTorch,
 * floor((pixels + 2 pad - kernel) / stride) + 1; a window lies at least partly on the image. */
#ifndef WISP_LAYER_WINDOW_H
#define WISP_LAYER_WINDOW_H

#include "graph/slide.h"
#include "layer/planes.h"

struct wisp_window {
    struct wisp_planes in, out;
    size_t kh, kw, stride, pad_h, pad_w;
};

/* A plan() for layers with these arguments. */
wisp_status wisp_window_plan(struct wisp_layer *l, const struct wisp_act *in, struct wisp_act *out,
                             wisp_error *err);
struct wisp_window wisp_window_of(const struct wisp_layer *l, const struct wisp_act *in,
                                  const struct wisp_act *out);

/* The pixels of the image under the window at place p of the result, along one direction. */
static inline void wisp_window_span(size_t *first, size_t *end, size_t p, size_t kernel,
                                    size_t stride, size_t pad, size_t pixels)
{
    const size_t at = p * stride; /* + pad */
    *first = at < pad ? 0 : at - pad;
    *end = at + kernel - pad < pixels ? at + kernel - pad : pixels;
}

#endif

/* How a kernel moves over an image, as the arguments of a layer say it: once for all devices. */
#ifndef WISP_GRAPH_SLIDE_H
#define WISP_GRAPH_SLIDE_H

#include "graph/graph.h"

enum { /* arguments of 'conv' */
       WISP_CONV_ARG_CHANNELS,
       WISP_CONV_ARG_KERNEL,
       WISP_CONV_ARG_STRIDE,
       WISP_CONV_ARG_PAD,
       WISP_CONV_ARG_GROUPS,
       WISP_CONV_ARG_BIAS
};
enum { WISP_WINDOW_KERNEL, WISP_WINDOW_STRIDE, WISP_WINDOW_PAD }; /* of 'maxpool', 'avgpool' */

struct wisp_slide {
    size_t kh, kw, stride, pad_h, pad_w;
};

/* Half the kernel is put around the image where nothing is said. */
static inline struct wisp_slide wisp_slide_conv(const struct wisp_layer *l)
{
    const double kernel = l->arg[WISP_CONV_ARG_KERNEL], pad = l->arg[WISP_CONV_ARG_PAD];
    const bool padded = l->given & 1u << WISP_CONV_ARG_PAD;
    struct wisp_slide s = { wisp_size_height(kernel), wisp_size_width(kernel),
                            (size_t)l->arg[WISP_CONV_ARG_STRIDE], wisp_size_height(pad),
                            wisp_size_width(pad) };
    if (!padded) s.pad_h = (s.kh - 1) / 2, s.pad_w = (s.kw - 1) / 2;
    return s;
}

/* A window moves by its own size where nothing is said. */
static inline struct wisp_slide wisp_slide_window(const struct wisp_layer *l)
{
    const double kernel = l->arg[WISP_WINDOW_KERNEL], pad = l->arg[WISP_WINDOW_PAD];
    struct wisp_slide s = { wisp_size_height(kernel), wisp_size_width(kernel),
                            (size_t)l->arg[WISP_WINDOW_STRIDE], wisp_size_height(pad),
                            wisp_size_width(pad) };
    if (!(l->given & 1u << WISP_WINDOW_STRIDE)) s.stride = wisp_most(s.kh, s.kw);
    return s;
}

#endif

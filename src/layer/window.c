/* The sizes of a window that moves over an image. */
#include "layer/window.h"

wisp_status wisp_window_plan(struct wisp_layer *l, const struct wisp_act *in, struct wisp_act *out,
                             wisp_error *err)
{
    wisp_status st = wisp_planes_check(l, in, err);
    if (st != WISP_OK) return st;
    const struct wisp_window w = wisp_window_of(l, in, in);
    return wisp_planes_slide(l, in, out, w.in.channels, in->form, w.kh, w.kw, w.stride, w.pad_h,
                             w.pad_w, err);
}

struct wisp_window wisp_window_of(const struct wisp_layer *l, const struct wisp_act *in,
                                  const struct wisp_act *out)
{
    const double kernel = l->arg[WISP_WINDOW_KERNEL], pad = l->arg[WISP_WINDOW_PAD];
    struct wisp_window w = { .in = wisp_planes_of(in),
                             .out = wisp_planes_of(out),
                             .kh = wisp_size_height(kernel),
                             .kw = wisp_size_width(kernel),
                             .stride = (size_t)l->arg[WISP_WINDOW_STRIDE],
                             .pad_h = wisp_size_height(pad),
                             .pad_w = wisp_size_width(pad) };
    if (!(l->given & 1u << WISP_WINDOW_STRIDE)) w.stride = wisp_most(w.kh, w.kw);
    return w;
}

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
    const struct wisp_slide s = wisp_slide_window(l);
    return (struct wisp_window){ .in = wisp_planes_of(in),
                                 .out = wisp_planes_of(out),
                                 .kh = s.kh,
                                 .kw = s.kw,
                                 .stride = s.stride,
                                 .pad_h = s.pad_h,
                                 .pad_w = s.pad_w };
}

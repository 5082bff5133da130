/* What kinds that read channels with height and width share: checks of shapes. */
#include "layer/planes.h"
#include "conv/conv.h"

wisp_status wisp_planes_check(const struct wisp_layer *l, const struct wisp_act *in,
                              wisp_error *err)
{
    char found[WISP_SHAPE_TEXT];
    if (in->shape.rank == 3) return WISP_OK;
    return wisp_fail(err, WISP_EINVAL,
                     "'%s' takes channels with height and width, found %s; a net of images begins "
                     "with 'image'",
                     l->kind->name, wisp_shape_text(found, in->shape));
}

wisp_status wisp_planes_slide(struct wisp_layer *l, const struct wisp_act *in, struct wisp_act *out,
                              size_t channels, enum wisp_form form, size_t kh, size_t kw,
                              size_t stride, size_t pad_h, size_t pad_w, wisp_error *err)
{
    char found[WISP_SHAPE_TEXT];
    const size_t h = in->shape.dim[1], w = in->shape.dim[2],
                 oh = wisp_conv_pixels(h, kh, stride, pad_h),
                 ow = wisp_conv_pixels(w, kw, stride, pad_w);
    wisp_shape_text(found, in->shape);
    if (pad_h >= kh || pad_w >= kw)
        return wisp_fail(err, WISP_EINVAL,
                         "'%s' has a pad of %zux%zu, expected less than its kernel of %zux%zu",
                         l->kind->name, pad_h, pad_w, kh, kw);
    if (oh == 0 || ow == 0)
        return wisp_fail(
            err, WISP_EINVAL,
            "'%s' has a kernel of %zux%zu, larger than what it reads, %s, with its pad "
            "of %zux%zu; take a smaller one, or larger images",
            l->kind->name, kh, kw, found, pad_h, pad_w);
    out->shape = (struct wisp_shape){ 3, { channels, oh, ow } };
    out->form = form;
    l->n_out = wisp_units(out->shape);
    if (wisp_planes_floats(channels, oh, ow, WISP_PLANE_BLOCK) > WISP_MAX_PLANES)
        return wisp_fail(err, WISP_EINVAL, "'%s' makes %s of %s, expected at most 2^32 numbers",
                         l->kind->name, wisp_shape_text((char[WISP_SHAPE_TEXT]){ 0 }, out->shape),
                         found);
    return WISP_OK;
}

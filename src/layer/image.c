/* Images: what the batch has laid out as planes (model/batch.c), as the net's first value.
 *
 * Means and scales of channels are parameters of role state, so a model keeps them; who makes a run
 * sets them from its training rows.  How images are moved while training is said here and done
 * where batches are laid out, ahead of the step: a function of (seed, epoch, row) alone. */
#include "layer/image.h"
#include "layer/layer.h"

#include <string.h>

static const struct wisp_arg args[] = {
    [WISP_IMAGE_PAD] = { .name = "pad",
                         .what = "most pixels that an image is moved by while training",
                         .type = WISP_ARG_INT,
                         .most = 1024,
                         .fallback = "0",
                         .by_name = true },
    [WISP_IMAGE_FLIP] = { .name = "flip",
                          .what = "whether half of the images are mirrored while training",
                          .type = WISP_ARG_WORD,
                          .words = "no|yes",
                          .fallback = "no",
                          .by_name = true },
    [WISP_IMAGE_SIZE] = { .name = "size",
                          .what = "that images of other sizes are resized to when files are read",
                          .type = WISP_ARG_SIZE,
                          .least = 1,
                          .most = WISP_SIZE_STEP - 1,
                          .fallback = "",
                          .by_name = true },
    { .name = NULL },
};

static wisp_status plan(struct wisp_layer *l, const struct wisp_act *const *in,
                        struct wisp_act *out, const struct wisp_layer_sizes *s, wisp_error *err)
{
    const struct wisp_shape shape = in[0]->shape;
    const size_t high = wisp_size_height(l->arg[WISP_IMAGE_SIZE]),
                 wide = wisp_size_width(l->arg[WISP_IMAGE_SIZE]);
    (void)s;
    if (shape.rank != 3)
        return wisp_fail(err, WISP_EINVAL,
                         "'image' reads images, but the data are rows of %zu features without "
                         "height and width; expected images (docs/data.md), or begin with 'input'",
                         in[0]->width);
    if (high && (high != shape.dim[1] || wide != shape.dim[2]))
        return wisp_fail(err, WISP_EINVAL,
                         "size=%zux%zu is for images that are read from files; these have %zu x "
                         "%zu pixels: resize them, or leave it out",
                         high, wide, shape.dim[1], shape.dim[2]);
    if (l->arg[WISP_IMAGE_PAD] >= (double)shape.dim[1] ||
        l->arg[WISP_IMAGE_PAD] >= (double)shape.dim[2])
        return wisp_fail(err, WISP_EINVAL,
                         "pad=%g moves images of %zu x %zu pixels out of sight; expected less than "
                         "their height and width",
                         l->arg[WISP_IMAGE_PAD], shape.dim[1], shape.dim[2]);
    if (l->turn > 0)
        return wisp_fail(err, WISP_EINVAL,
                         "a net has one 'image'; name it ('image as x'), and read it again with "
                         "'from x'");
    out->shape = shape;
    l->n_out = wisp_units(shape);
    const size_t dim[2] = { 1, shape.dim[0] };
    wisp_layer_declare(l, "mean", WISP_STATE, WISP_BY_NONE, 2, dim);
    wisp_layer_declare(l, "scale", WISP_STATE, WISP_BY_NONE, 2, dim);
    return WISP_OK;
}

static void init(struct wisp_layer *l, uint64_t seed, struct wisp_pool *pool)
{
    (void)seed, (void)pool;
    for (size_t c = 0; c < l->params[WISP_IMAGE_MEAN].cols; c++) {
        l->params[WISP_IMAGE_MEAN].w[c] = 0;
        l->params[WISP_IMAGE_SCALE].w[c] = 1;
    }
}

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    (void)in, (void)err;
    memcpy(out->x, s->batch->planes, s->batch->n * l->n_out * sizeof *out->x);
    return WISP_OK;
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    (void)l, (void)s, (void)in, (void)out, (void)err; /* nothing below it learns */
    return WISP_OK;
}

const struct wisp_layer_kind wisp_layer_image = {
    .name = "image",
    .what = "the images of the data, each channel with mean 0 and deviation 1",
    .args = args,
    .takes = WISP_ROWS,
    .uses = WISP_IMAGES | WISP_BY_SAMPLE,
    .plan = plan,
    .init = init,
    .forward = forward,
    .backward = backward,
};

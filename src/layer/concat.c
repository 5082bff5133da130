/* Concat: values side by side, in the order in which they are named.  Of values with height and
 * width, which must be equal, the channels follow each other.
 *
 * Units, and channels one after the other, are one copy per value.  Channels in blocks of 16 are
 * copied as runs of those that lie side by side in both: whole blocks where all values but the last
 * have a multiple of 16 of them. */
#include "layer/planes.h"

#include <string.h>

static wisp_status plan(struct wisp_layer *l, const struct wisp_act *const *in,
                        struct wisp_act *out, const struct wisp_layer_sizes *s, wisp_error *err)
{
    char first[WISP_SHAPE_TEXT], other[WISP_SHAPE_TEXT];
    (void)s;
    out->shape = in[0]->shape;
    for (int i = 1; i < l->n_from; i++) {
        struct wisp_shape x = in[i]->shape;
        out->shape.dim[0] += x.dim[0];
        x.dim[0] = in[0]->shape.dim[0];
        if (!wisp_same_shape(x, in[0]->shape))
            return wisp_fail(
                err, WISP_EINVAL,
                "'concat' needs values of the same height and width: the first has %s, number %d "
                "has %s",
                wisp_shape_text(first, in[0]->shape), i + 1, wisp_shape_text(other, in[i]->shape));
    }
    for (int i = 0; i < l->n_from; i++)
        if (in[i]->form == WISP_PLANES) out->form = WISP_PLANES;
    const bool planes = out->shape.rank == 3;
    const size_t most = planes ? WISP_MAX_CHANNELS : WISP_MAX_WIDTH;
    l->n_out = wisp_units(out->shape);
    if (out->shape.dim[0] > most)
        return wisp_fail(err, WISP_EINVAL, "'concat' gives %zu %s, expected at most %zu",
                         out->shape.dim[0], planes ? "channels" : "units", most);
    return WISP_OK;
}

/* Units: as if each were a channel of one pixel. */
static struct wisp_planes planes_of(const struct wisp_act *a)
{
    if (a->shape.rank == 3) return wisp_planes_of(a);
    return (struct wisp_planes){ a->width, 1, 1, a->width, 1, a->width };
}

/* Channels of a value of one sample, to or from their place 'at' among those of the whole. */
static void copy(float *whole, const struct wisp_planes *w, float *part,
                 const struct wisp_planes *p, size_t at, bool back)
{
    const size_t pixels = p->h * p->w;
    for (size_t c = 0, n; c < p->channels; c += n) {
        const size_t wide = at + c; /* the same channel there */
        float *a = whole + wide / w->block * pixels * w->block + wide % w->block,
              *b = part + c / p->block * pixels * p->block + c % p->block;
        n = p->block - c % p->block;
        if (w->block - wide % w->block < n) n = w->block - wide % w->block;
        if (p->channels - c < n) n = p->channels - c;
        for (size_t i = 0; i < pixels; i++, a += w->block, b += p->block)
            memcpy(back ? b : a, back ? a : b, n * sizeof *a);
    }
}

/* What lies past the last channel of a sample. */
static void clear_rest(float *x, const struct wisp_planes *p)
{
    const size_t pixels = p->h * p->w, rest = p->blocks * p->block - p->channels;
    float *last = x + (p->blocks - 1) * pixels * p->block;
    for (size_t i = 0; i < pixels && rest; i++)
        memset(last + (i + 1) * p->block - rest, 0, rest * sizeof *last);
}

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    const struct wisp_planes whole = planes_of(out);
    (void)err;
    for (size_t row = 0; row < s->batch->n; row++) {
        float *to = out->x + row * whole.floats;
        for (int i = 0, at = 0; i < l->n_from; i++) {
            const struct wisp_planes part = planes_of(in[i]);
            copy(to, &whole, in[i]->x + row * part.floats, &part, (size_t)at, false);
            at += (int)part.channels;
        }
        clear_rest(to, &whole);
    }
    return WISP_OK;
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    const struct wisp_planes whole = planes_of(out);
    (void)err;
    for (size_t row = 0; row < s->batch->n; row++) {
        float *from = out->g + row * whole.floats;
        for (int i = 0, at = 0; i < l->n_from; i++) {
            const struct wisp_planes part = planes_of(in[i]);
            if (in[i]->g) {
                float *to = in[i]->g + row * part.floats;
                copy(from, &whole, to, &part, (size_t)at, true);
                clear_rest(to, &part);
            }
            at += (int)part.channels;
        }
    }
    return WISP_OK;
}

const struct wisp_layer_kind wisp_layer_concat = {
    .name = "concat",
    .what = "several values side by side",
    .takes = WISP_FLAT | WISP_PLANES,
    .uses = WISP_BY_SAMPLE,
    .least_from = 2,
    .most_from = WISP_MAX_FROM,
    .ties = WISP_TIES_ROW,
    .plan = plan,
    .forward = forward,
    .backward = backward,
};

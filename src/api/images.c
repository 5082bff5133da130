/* Images that the caller has in memory, as rows of data. */
#include "base/mem.h"
#include "data/data.h"
#include "data/feed.h"

#include <math.h>
#include <string.h>

struct images { /* as the caller has them */
    size_t n_rows, pixels, n_labels;
    const void *values; /* (n_rows, pixels) uint8_t or float */
    bool floats;
    const int64_t *y_ptr;
    const int32_t *y_idx;
};

static wisp_status add_bytes(struct wisp_builder *b, const struct images *m, size_t row,
                             wisp_error *err)
{
    uint8_t *to = wisp_builder_image(b, m->pixels, err);
    if (!to) return WISP_ENOMEM;
    memcpy(to, (const uint8_t *)m->values + row * m->pixels, m->pixels);
    return WISP_OK;
}

static wisp_status add_floats(struct wisp_builder *b, const struct images *m, size_t row,
                              wisp_error *err)
{
    const float *x = (const float *)m->values + row * m->pixels;
    wisp_status st = WISP_OK;
    for (size_t i = 0; i < m->pixels && st == WISP_OK; i++) {
        if (!isfinite(x[i]))
            return wisp_fail_row(err, WISP_ENUMERIC, row, 0, "pixel %zu has the value %g", i,
                                 (double)x[i]);
        if (x[i] != 0) st = wisp_builder_feature(b, (int32_t)i, x[i], err);
    }
    return st;
}

static wisp_status add_labels(struct wisp_builder *b, const struct images *m, size_t row,
                              wisp_error *err)
{
    wisp_status st = WISP_OK;
    if (!m->y_ptr) return st;
    if (m->y_ptr[row] > m->y_ptr[row + 1])
        return wisp_fail_row(err, WISP_EINVAL, row, 0, "offsets must not fall");
    for (int64_t e = m->y_ptr[row]; e < m->y_ptr[row + 1] && st == WISP_OK; e++)
        st = m->y_idx[e] < 0 || (size_t)m->y_idx[e] >= m->n_labels
                 ? wisp_fail_row(err, WISP_EINVAL, row, 0, "label %d is not in 0..%zu", m->y_idx[e],
                                 m->n_labels - 1)
                 : wisp_builder_label(b, m->y_idx[e], err);
    return st;
}

static wisp_status add_rows(struct wisp_sink *sink, const struct images *m, wisp_error *err)
{
    struct wisp_builder b = { 0 };
    wisp_status st = WISP_OK;
    for (size_t row = 0; row < m->n_rows && st == WISP_OK;) {
        const size_t end = row + wisp_feed_images_cut(m->n_rows - row, m->pixels);
        for (; row < end && st == WISP_OK; row++) {
            st = add_labels(&b, m, row, err);
            if (st == WISP_OK) st = (m->floats ? add_floats : add_bytes)(&b, m, row, err);
            if (st == WISP_OK) st = wisp_builder_end_row(&b, err);
        }
        if (st == WISP_OK) st = wisp_sink_add(sink, &b, err);
        wisp_builder_reset(&b);
    }
    wisp_builder_clear(&b);
    return st;
}

wisp_status wisp_data_from_images(wisp_data **out, size_t n_rows, size_t channels, size_t height,
                                  size_t width, const void *values, int floats, size_t n_labels,
                                  const int64_t *y_ptr, const int32_t *y_idx, wisp_error *err)
{
    *out = NULL;
    if (!channels || !height || !width || channels > INT32_MAX || height > INT32_MAX / channels ||
        width > INT32_MAX / channels / height)
        return wisp_fail(
            err, WISP_EINVAL,
            "images of %zu x %zu x %zu (channels x height x width), expected 1 to 2^31 "
            "- 1 pixels",
            channels, height, width);
    const struct images m = {
        n_rows, channels * height * width, n_labels, values, floats != 0, y_ptr, y_idx
    };
    struct wisp_sink *sink = NULL;
    wisp_status st = wisp_sink_create(&sink, NULL, err);
    if (st != WISP_OK) return st;
    wisp_sink_at_least(sink, m.pixels, n_labels);
    wisp_sink_images(sink,
                     (struct wisp_image){ (uint32_t)channels, (uint32_t)height, (uint32_t)width });
    st = add_rows(sink, &m, err);
    if (st == WISP_OK) return wisp_sink_finish(out, sink, err);
    wisp_sink_abort(sink);
    return st;
}

/* Resizing images: first the lines of the source into one, then its pixels. */
#include "data/fit.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

wisp_status wisp_fit_init(struct wisp_fit *f, uint32_t height, uint32_t width, uint32_t to_height,
                          uint32_t to_width, wisp_error *err)
{
    const double high = (double)height / to_height, wide = (double)width / to_width;
    *f = (struct wisp_fit){ .height = height,
                            .width = width,
                            .to_height = to_height,
                            .to_width = to_width,
                            .step = high < wide ? high : wide };
    f->top = (height - f->step * to_height) / 2;
    f->left = (width - f->step * to_width) / 2;
    if (wisp_mem_fits(2 * width * sizeof *f->sum)) f->sum = wisp_alloc(width, 2 * sizeof *f->sum);
    if (!f->sum) return wisp_fail_mem(err, 2 * width * sizeof *f->sum, "a line of pixels");
    f->line = f->sum + width;
    return WISP_OK;
}

void wisp_fit_clear(struct wisp_fit *f)
{
    wisp_free(f->sum);
    *f = (struct wisp_fit){ 0 };
}

/* The triangle of pixel 'at' of the result, along one direction of n pixels of the source. */
struct tap {
    uint32_t first, last; /* inclusive */
    double middle, reach;
};

static struct tap tap_of(uint32_t at, double from, double step, uint32_t n)
{
    struct tap t = { .middle = from + (at + 0.5) * step - 0.5, .reach = step > 1 ? step : 1 };
    const double first = ceil(t.middle - t.reach), last = floor(t.middle + t.reach);
    t.first = first > 0 ? (uint32_t)first : 0;
    t.last = last < n - 1.0 ? (uint32_t)last : n - 1;
    return t;
}

static double weight(const struct tap *t, uint32_t i)
{
    const double far = fabs((double)i - t->middle) / t->reach;
    return far < 1 ? 1 - far : 0;
}

void wisp_fit_line(double *row, struct wisp_fit *f, wisp_fit_read *read, const void *source,
                   uint32_t c, uint32_t y)
{
    const struct tap v = tap_of(y, f->top, f->step, f->height);
    double mass = 0;
    memset(f->sum, 0, f->width * sizeof *f->sum);
    for (uint32_t i = v.first; i <= v.last; i++) {
        const double w = weight(&v, i);
        if (w == 0) continue;
        read(f->line, source, c, i);
        for (uint32_t x = 0; x < f->width; x++) f->sum[x] += w * f->line[x];
        mass += w;
    }
    for (uint32_t x = 0; x < f->to_width; x++) {
        const struct tap h = tap_of(x, f->left, f->step, f->width);
        double sum = 0, weights = 0;
        for (uint32_t i = h.first; i <= h.last; i++) {
            const double w = weight(&h, i);
            sum += w * f->sum[i];
            weights += w;
        }
        row[x] = sum / (mass * weights);
    }
}

wisp_status wisp_fit_bytes(uint8_t *to, struct wisp_fit *f, wisp_fit_read *read, const void *source,
                           uint32_t c, wisp_error *err)
{
    double *row = wisp_alloc(f->to_width, sizeof *row);
    if (!row) return wisp_fail_mem(err, f->to_width * sizeof *row, "a line of pixels");
    for (uint32_t y = 0; y < f->to_height; y++) {
        wisp_fit_line(row, f, read, source, c, y);
        for (uint32_t x = 0; x < f->to_width; x++) *to++ = (uint8_t)(row[x] + 0.5);
    }
    wisp_free(row);
    return WISP_OK;
}

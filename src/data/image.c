/* Laying out images as planes, moved and normalised; means of channels. */
#include "data/image.h"
#include "base/mem.h"
#include "base/rand.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STREAM_IMAGE = 18 }; /* a kind of streams (base/rand.h): + epoch << 8 */

struct wisp_image_move wisp_image_move(const struct wisp_image_how *how, uint64_t seed, int epoch,
                                       size_t row)
{
    struct wisp_image_move m = { 0 };
    const uint64_t stream = wisp_stream(STREAM_IMAGE, (uint64_t)epoch), i = 3 * (uint64_t)row;
    if (epoch == 0) return m;
    if (how->pad) {
        m.down = (int32_t)wisp_rand_below(seed, stream, i, 2 * how->pad + 1) - (int32_t)how->pad;
        m.right =
            (int32_t)wisp_rand_below(seed, stream, i + 1, 2 * how->pad + 1) - (int32_t)how->pad;
    }
    m.mirrored = how->flip && wisp_rand(seed, stream, i + 2) >> 63;
    return m;
}

static float normal(float x, const struct wisp_image_how *how, size_t c)
{
    return (x - how->mean[c]) * how->scale[c];
}

void wisp_image_table(float *table, const struct wisp_image_how *how)
{
    for (size_t c = 0; c < how->image.channels; c++)
        for (int v = 0; v < 256; v++)
            table[c * 256 + (size_t)v] = normal(wisp_pixel_value((uint8_t)v), how, c);
}

/* A line of n pixels; those outside [first, last) are 0.  'from' is where pixel 0 would lie, 'step'
 * is 1, or -1 of a mirrored line. */
static void lay_line(float *out, const uint8_t *line, const float *table, int64_t n, int64_t first,
                     int64_t last, int64_t from, int64_t step)
{
    for (int64_t x = 0; x < first; x++) out[x] = 0;
    for (int64_t x = first; x < last; x++) out[x] = table[line[from + step * x]];
    for (int64_t x = last; x < n; x++) out[x] = 0;
}

static int64_t within(int64_t x, int64_t most)
{
    return x < 0 ? 0 : x > most ? most : x;
}

static void lay_pixels(float *out, const uint8_t *px, const struct wisp_image_how *how,
                       const float *table, struct wisp_image_move m)
{
    const int64_t h = how->image.height, w = how->image.width;
    /* Columns x of the result whose pixel x' + right lies in the image. */
    const int64_t begin = within(-(int64_t)m.right, w), end = within(w - m.right, w);
    const int64_t first = m.mirrored ? w - end : begin, last = m.mirrored ? w - begin : end;
    const int64_t from = m.mirrored ? w - 1 + m.right : m.right, step = m.mirrored ? -1 : 1;
    for (size_t c = 0; c < how->image.channels; c++)
        for (int64_t y = 0; y < h; y++, out += w) {
            const bool outside = y + m.down < 0 || y + m.down >= h;
            const uint8_t *line = px + ((int64_t)c * h + (outside ? 0 : y + m.down)) * w;
            lay_line(out, line, table + c * 256, w, outside ? w : first, outside ? w : last, from,
                     step);
        }
}

/* The same by definition: for rows of floats, which are rare. */
static void lay_list(float *out, const struct wisp_rows *r, size_t row,
                     const struct wisp_image_how *how, struct wisp_image_move m)
{
    const int64_t h = how->image.height, w = how->image.width, plane = h * w;
    for (size_t c = 0; c < how->image.channels; c++)
        for (int64_t y = 0; y < h; y++)
            for (int64_t x = 0; x < w; x++) {
                const int64_t sy = y + m.down, sx = (m.mirrored ? w - 1 - x : x) + m.right;
                const bool outside = sy < 0 || sy >= h || sx < 0 || sx >= w;
                out[((int64_t)c * h + y) * w + x] = outside ? 0 : normal(0, how, c);
            }
    for (uint32_t e = r->xp[row]; e < r->xp[row + 1]; e++) {
        const int64_t id = wisp_row_id(r, e), c = id / plane;
        if (c >= (int64_t)how->image.channels) break;
        const int64_t y = id % plane / w - m.down, at = id % w - m.right;
        const int64_t x = m.mirrored ? w - 1 - at : at;
        if (y < 0 || y >= h || x < 0 || x >= w) continue;
        out[(c * h + y) * w + x] = normal(wisp_row_value(r, e), how, (size_t)c);
    }
}

void wisp_image_lay(float *out, const struct wisp_rows *r, size_t row,
                    const struct wisp_image_how *how, const float *table, struct wisp_image_move m)
{
    if (r->px) lay_pixels(out, r->px + row * r->pixels, how, table, m);
    else lay_list(out, r, row, how, m);
}

/* ---- means ---- */

struct sums {                /* of one channel */
    uint64_t bytes, squares; /* of pixels: exact */
    double x, xx;            /* of floats */
};

static void add_pixels(struct sums *s, const struct wisp_rows *r, size_t channels)
{
    const size_t plane = r->pixels / channels;
    for (size_t i = 0; i < r->n * channels; i++) {
        const uint8_t *px = r->px + i * plane;
        uint64_t sum = 0, squares = 0;
        for (size_t p = 0; p < plane; p++) {
            sum += px[p];
            squares += (uint32_t)px[p] * px[p];
        }
        s[i % channels].bytes += sum;
        s[i % channels].squares += squares;
    }
}

static void add_list(struct sums *s, const struct wisp_rows *r, struct wisp_image image)
{
    const size_t plane = (size_t)image.height * image.width;
    for (size_t e = 0; e < r->xp[r->n]; e++) {
        const size_t c = (size_t)wisp_row_id(r, e) / plane;
        const double x = (double)wisp_row_value(r, e);
        if (c >= image.channels) continue;
        s[c].x += x;
        s[c].xx += x * x;
    }
}

wisp_status wisp_image_means(float *mean, float *scale, const struct wisp_data *d, wisp_error *err)
{
    const size_t channels = d->image.channels;
    const double n = (double)d->n_rows * d->image.height * d->image.width;
    struct sums *s = wisp_zalloc(channels, sizeof *s);
    if (!s) return wisp_fail_mem(err, channels * sizeof *s, "means of channels");
    for (size_t b = 0; b < d->n_blocks; b++) {
        if (d->blocks[b].px) add_pixels(s, &d->blocks[b], channels);
        else add_list(s, &d->blocks[b], d->image);
        wisp_data_forget(d, b);
    }
    for (size_t c = 0; c < channels; c++) {
        const double x = ((double)s[c].bytes / 255 + s[c].x) / n,
                     xx = ((double)s[c].squares / (255.0 * 255) + s[c].xx) / n;
        const double variance = xx - x * x;
        mean[c] = (float)x;
        scale[c] = variance > 1e-9 * xx && isfinite((float)(1 / sqrt(variance)))
                       ? (float)(1 / sqrt(variance))
                       : 1;
    }
    wisp_free(s);
    return wisp_map_check(&d->map, err);
}

const char *wisp_image_text(char *out, struct wisp_image i)
{
    snprintf(out, WISP_IMAGE_TEXT, "%u x %u x %u", i.channels, i.height, i.width);
    return out;
}

const char *wisp_image_hint(char *out, struct wisp_image found, struct wisp_image wanted)
{
    out[0] = 0;
    if (found.channels == wanted.channels)
        snprintf(
            out, WISP_IMAGE_HINT,
            "; resize them, or train with 'image size=%ux%u', which does so when files are read",
            wanted.height, wanted.width);
    return out;
}

bool wisp_image_read(struct wisp_image *out, const char *text)
{
    uint32_t *const sizes[3] = { &out->channels, &out->height, &out->width };
    char again[WISP_IMAGE_TEXT];
    const char *p = text;
    for (int i = 0; i < 3; i++, p += strspn(p, " x")) {
        *sizes[i] = 0;
        for (; *p >= '0' && *p <= '9' && *sizes[i] < 100000000; p++)
            *sizes[i] = 10 * *sizes[i] + (uint32_t)(*p - '0');
    }
    return strcmp(wisp_image_text(again, *out), text) == 0;
}

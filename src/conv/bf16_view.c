/* Views in bf16: bf16.h has the drawing. */
#include "conv/bf16.h"
#include "kernels/kernels.h"

#include <string.h>

enum { BLOCK = WISP_PLANE_BLOCK, CHUNK = WISP_CONV_CHUNK };

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}
static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Places from one line to the next, such that taps past the end of a line see the next one's border:
 * of 'places', each 'step' pixels on, that see 'reach' pixels, the source's after 'before' zeros. */
static size_t line(size_t places, size_t step, size_t reach, size_t before, size_t pixels)
{
    const size_t seen = (places - 1) * step + reach, data = least(before + pixels, seen);
    const size_t wanted = seen > before ? most(data, seen - before) : data;
    return most(places, wisp_parts(wanted, step));
}

struct wisp_conv_view16 wisp_conv_view16(const struct wisp_conv_walk *w, size_t channels,
                                         bool may_be_thin)
{
    struct wisp_conv_view16 v = { .channels = channels,
                                  .block = w->block,
                                  .sh = w->sh,
                                  .sw = w->sw,
                                  .step = w->step,
                                  .top = w->top,
                                  .left = w->left,
                                  .reach_h = w->reach_h,
                                  .reach_w = w->reach_w,
                                  .rows = w->rows,
                                  .cols = w->cols };
    const size_t thick = wisp_parts(channels, CHUNK),
                 thin = wisp_parts(w->reach_w * channels, CHUNK);
    v.pitch = line(w->cols, w->step, w->reach_w, w->left, w->sw);
    v.high = line(w->rows, w->step, w->reach_h, w->top, w->sh);
    v.phases_h = least(w->step, w->reach_h), v.phases_w = least(w->step, w->reach_w);
    v.thin = may_be_thin && channels <= BLOCK && (thin < thick * w->reach_w || w->block == 1);
    v.chunks = v.thin ? thin : thick;
    v.wide = v.thin ? w->step * channels : CHUNK;
    if (v.thin) v.phases_w = 1;
    return v;
}

size_t wisp_conv_view_rows16(const struct wisp_conv_view16 *v, const struct wisp_conv_lot *l)
{
    if (l->rows == v->rows) return v->high;
    return wisp_parts((l->rows - 1) * v->step + v->reach_h, v->step);
}

size_t wisp_conv_places(const struct wisp_conv_view16 *v, const struct wisp_conv_lot *l)
{
    return ((l->samples - 1) * v->high + l->rows - 1) * v->pitch + v->cols;
}

size_t wisp_conv_plane16(const struct wisp_conv_view16 *v, const struct wisp_conv_lot *l)
{
    const size_t filled = l->samples * wisp_conv_view_rows16(v, l) * v->pitch;
    const size_t read = wisp_up(wisp_conv_places(v, l), CHUNK) +
                        (v->reach_h - 1) / v->step * v->pitch + (v->reach_w - 1) / v->step + 1;
    return wisp_up(most(filled, read) * v->wide + v->chunks * CHUNK, CHUNK);
}

size_t wisp_conv_planes16(const struct wisp_conv_view16 *v)
{
    return v->phases_h * v->phases_w * (v->thin ? 1 : v->chunks);
}

size_t wisp_conv_room16(const struct wisp_conv_view16 *v)
{
    return v->thin ? wisp_up(v->sw * v->channels, BLOCK) : 0;
}

size_t wisp_conv_tap_phase(const struct wisp_conv_view16 *v, size_t y, size_t x)
{
    return y % v->step * v->phases_w + (v->thin ? 0 : x % v->step);
}

size_t wisp_conv_tap_place(const struct wisp_conv_view16 *v, size_t y, size_t x)
{
    return y / v->step * v->pitch + (v->thin ? 0 : x / v->step);
}

/* ---- filling ---- */

size_t wisp_conv_inside16(const struct wisp_conv_view16 *v, size_t b, size_t *begin)
{
    const size_t low = v->left > b ? wisp_parts(v->left - b, v->step) : 0;
    const size_t high = v->sw + v->left > b ? wisp_parts(v->sw + v->left - b, v->step) : 0;
    const size_t end = least(high, v->pitch);
    *begin = least(low, end);
    return end;
}

/* A row of a chunk. */
static void fill_row(const struct wisp_conv_view16 *v, const struct wisp_kernels *k,
                     const float *source, size_t chunk, size_t y, size_t b, uint16_t *to)
{
    const size_t plane = v->sh * v->sw * BLOCK, s = v->step;
    size_t begin;
    const size_t end = wisp_conv_inside16(v, b, &begin);
    const float *from = source + 2 * chunk * plane + y * v->sw * BLOCK;
    if (end > begin) {
        from += (b + begin * s - v->left) * BLOCK;
        k->join16(to + begin * CHUNK, from,
                  2 * chunk * BLOCK + BLOCK < v->channels ? from + plane : NULL, s * BLOCK,
                  end - begin);
    }
    memset(to, 0, begin * CHUNK * sizeof *to);
    memset(to + end * CHUNK, 0, (v->pitch - end) * CHUNK * sizeof *to);
}

/* A row of a thin view: pixels with their channels side by side. */
static void fill_thin(const struct wisp_conv_view16 *v, const struct wisp_kernels *k,
                      const float *source, size_t y, uint16_t *to, float *room)
{
    const size_t whole = v->pitch * v->wide, left = least(v->left * v->channels, whole);
    const size_t n = least(v->sw * v->channels, whole - left);
    if (v->block == 1)
        k->transpose(room, v->channels, source + y * v->sw, v->sh * v->sw, v->channels, v->sw);
    else
        for (size_t x = 0; x < v->sw; x++)
            memcpy(room + x * v->channels, source + (y * v->sw + x) * BLOCK,
                   v->channels * sizeof *room);
    memset(to, 0, left * sizeof *to);
    k->to16(to + left, room, n);
    memset(to + left + n, 0, (whole - left - n) * sizeof *to);
}

void wisp_conv_fill16(const struct wisp_conv_view16 *v, const struct wisp_conv_lot *l,
                      const struct wisp_kernels *k, size_t plane, const float *source, size_t apart,
                      uint16_t *to, float *room)
{
    const size_t chunk = v->thin ? 0 : plane % v->chunks,
                 phase = v->thin ? plane : plane / v->chunks, a = phase / v->phases_w,
                 b = phase % v->phases_w;
    const size_t rows = wisp_conv_view_rows16(v, l), row = v->pitch * v->wide;
    uint16_t *end = to + wisp_conv_plane16(v, l);
    for (size_t s = 0; s < l->samples; s++, source += apart)
        for (size_t r = 0; r < rows; r++, to += row) {
            const size_t y = (l->first + r) * v->step + a - v->top; /* past the end: below 0 */
            if (y >= v->sh) memset(to, 0, row * sizeof *to);
            else if (v->thin) fill_thin(v, k, source, y, to, room);
            else fill_row(v, k, source, chunk, y, b, to);
        }
    memset(to, 0, (size_t)(end - to) * sizeof *to);
}

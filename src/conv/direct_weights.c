/* The gradient of the weights, the way 'direct'.  A tile (16 channels of x, 16 of y) of one tap is
 * the sum over pixels of x^T gy: k->tiles with the pixels of a row as the inner index, so borders
 * only make rows shorter.
 *
 *   gw (parts, blocks of y, blocks of x in the group, kh, kw, 16, 16)
 *
 * A task is a block of x and one or two of y, all taps, of one part of the samples; it runs through
 * its samples in order, some rows at a time which stay in the first cache while all taps use them.
 * Layers with few blocks would give too few tasks: their samples are cut into more parts, as many as
 * the sizes say, not the threads, and the parts are added in order.
 *
 * Where x comes in blocks of 1 (images), the taps of a row are what 16 channels are elsewhere; rows
 * are copied with their borders first, and a task has all channels. */
#include "conv/direct.h"
#include "base/pool.h"
#include "kernels/kernels.h"

#include <string.h>

enum {
    BLOCK = WISP_PLANE_BLOCK,
    SQUARE = WISP_CONV_SQUARE,
    SET = 2, /* blocks of y of a task; twice as many of images and of kernels of one tap */
    ENOUGH_TASKS = 32, /* and no more parts than MOST_PARTS */
    MOST_PARTS = 16,
    BAND_FLOATS = 8 * 1024, /* of x and gy, in the first cache */
    MOST_ROWS = 64,
    COLUMNS = 64, /* of images at a time, for the same reason */
};

struct sizes {
    size_t set, sets; /* blocks of y of a task; of a group */
    size_t units;     /* tasks of a part */
    size_t parts;     /* of the samples, at most */
    size_t band;      /* rows of gy at a time */
    size_t gw;        /* floats of one part */
};

static struct sizes sizes_of(const struct wisp_conv *c)
{
    const size_t out = wisp_conv_out_blocks(c), in = wisp_conv_in_blocks(c), taps = c->kh * c->kw;
    struct sizes s = { .set = c->block == 1 || taps == 1 ? 2 * SET : SET };
    if (s.set > out) s.set = out;
    s.sets = wisp_parts(out, s.set);
    s.units = s.sets * c->groups * (c->block == 1 ? 1 : in);
    s.parts = wisp_parts(ENOUGH_TASKS, s.units);
    if (s.parts > MOST_PARTS) s.parts = MOST_PARTS;
    s.gw = c->groups * out * in * wisp_conv_unit(c);
    const size_t x = c->stride * c->w * (c->block == 1 ? in : BLOCK), gy = s.set * c->ow * BLOCK;
    s.band = BAND_FLOATS / (x + gy) + 1;
    if (s.band > MOST_ROWS || taps == 1) s.band = MOST_ROWS; /* one tap reads each row once */
    if (s.band > c->oh) s.band = c->oh;
    return s;
}

size_t wisp_conv_direct_gw_floats(const struct wisp_conv *c)
{
    const struct sizes s = sizes_of(c);
    return s.gw * s.parts;
}

size_t wisp_conv_direct_gw_scratch(const struct wisp_conv *c)
{
    if (c->block != 1) return 0;
    const struct wisp_conv_walk w = wisp_conv_walk(c, WISP_CONV_FORWARD);
    return wisp_conv_view_floats(&w, w.in, sizes_of(c).band);
}

/* Rows fill one block: either groups have whole ones, or there is one group. */
void wisp_conv_direct_rows(const struct wisp_conv *c, const struct wisp_kernels *k, const float *gw,
                           size_t row, float *out)
{
    const size_t ins = c->in / c->groups, outs = c->out / c->groups, taps = c->kh * c->kw,
                 block = c->block;
    gw += (row / outs * wisp_conv_out_blocks(c) + row % outs / BLOCK) * wisp_conv_in_blocks(c) *
          wisp_conv_unit(c);
    for (size_t i = 0; i < ins; i++, out += taps)
        k->transpose(out, ins * taps, gw + (i / block * taps * block + i % block) * BLOCK,
                     block * BLOCK, taps, wisp_conv_rows_from(c, row));
}

struct summing {
    const struct wisp_conv *c;
    const struct wisp_conv_job *j;
    struct sizes s;
    struct wisp_conv_walk w; /* of images */
    size_t parts;
};

/* Places first .. first + n - 1 of the result lie on pixels that are there, for tap k. */
static size_t places(size_t *first, size_t result, size_t pixels, size_t k, size_t stride,
                     size_t pad)
{
    const size_t low = pad > k ? wisp_parts(pad - k, stride) : 0;
    const size_t high = pixels + pad > k ? wisp_parts(pixels + pad - k, stride) : 0;
    *first = low;
    return (high < result ? high : result) > low ? (high < result ? high : result) - low : 0;
}

/* All taps of rows row .. end - 1 of one sample: x and gy are its planes, gw begins with the tile. */
static void sum_taps(const struct summing *g, struct wisp_tiles t, const float *x, const float *gy,
                     float *gw, size_t row, size_t end)
{
    const struct wisp_conv *c = g->c;
    size_t a_at[MOST_ROWS], b_at[MOST_ROWS];
    t.a_at = a_at, t.b_at = b_at;
    for (size_t i = 0; i < c->kh; i++) {
        size_t low, high = places(&low, c->oh, c->h, i, c->stride, c->pad_h);
        high += low;
        t.n = 0;
        for (size_t p = row < low ? low : row; p < end && p < high; p++) {
            a_at[t.n] = (p * c->stride + i - c->pad_h) * c->w * BLOCK;
            b_at[t.n++] = p * c->ow * BLOCK;
        }
        for (size_t k = 0; k < c->kw; k++) {
            size_t q;
            t.k = places(&q, c->ow, c->w, k, c->stride, c->pad_w);
            t.a = t.k ? x + (q * c->stride + k - c->pad_w) * BLOCK : x;
            t.b = t.k ? gy + q * BLOCK : gy;
            t.c = gw + (i * c->kw + k) * SQUARE;
            g->j->k->tiles(&t);
        }
    }
}

/* The same of an image: all channels. */
static void sum_image(const struct summing *g, struct wisp_tiles t, const float *x, const float *gy,
                      float *gw, size_t row, size_t end, float *room)
{
    const struct wisp_conv *c = g->c;
    const struct wisp_conv_view v = wisp_conv_view(&g->w, x, 0, c->in, row, end - row, room);
    size_t a_at[MOST_ROWS], b_at[MOST_ROWS];
    for (size_t p = row; p < end; p++) {
        a_at[p - row] = (p - row) * c->stride * v.row;
        b_at[p - row] = p * c->ow * BLOCK;
    }
    t.n = end - row, t.a_at = a_at, t.b_at = b_at;
    for (size_t q = 0; q < c->ow; q += COLUMNS, t.add = true) {
        t.k = c->ow - q < COLUMNS ? c->ow - q : COLUMNS;
        t.b = gy + q * BLOCK;
        for (size_t ch = 0; ch < c->in; ch++)
            for (size_t i = 0; i < c->kh; i++) {
                t.a = v.at + ch * v.plane + i * v.row + q * c->stride;
                t.c = gw + (ch * c->kh + i) * c->kw * BLOCK;
                g->j->k->tiles(&t);
            }
    }
}

static void sum_part(void *arg, size_t task, int thread)
{
    const struct summing *g = arg;
    const struct wisp_conv *c = g->c;
    const size_t in = wisp_conv_in_blocks(c), out = wisp_conv_out_blocks(c),
                 ins = c->block == 1 ? 1 : in, unit = wisp_conv_unit(c);
    const size_t part = task / g->s.units, i = task % ins, set = task / ins % g->s.sets,
                 group = task / ins / g->s.sets % c->groups;
    const size_t first = set * g->s.set, o = group * out + first;
    const size_t x_plane = c->h * c->w * c->block, y_plane = c->oh * c->ow * BLOCK;
    float *gw = g->j->gw + part * g->s.gw + (o * in + i) * unit;
    float *room = g->j->thread_scratch + (size_t)thread * g->j->thread_apart;
    const size_t few = c->in < BLOCK ? c->in : BLOCK;
    struct wisp_tiles t = { .m = c->block == 1 ? c->kw : few,
                            .blocks = out - first < g->s.set ? out - first : g->s.set,
                            .ras = 1,
                            .cas = c->stride * c->block,
                            .ldb = BLOCK,
                            .b_block = y_plane,
                            .ldc = BLOCK,
                            .c_block = in * unit };
    for (size_t s = part * g->j->n / g->parts; s < (part + 1) * g->j->n / g->parts; s++) {
        const float *x = g->j->x + s * wisp_conv_in_floats(c) + (group * in + i) * x_plane;
        const float *gy = g->j->gy + s * wisp_conv_out_floats(c) + o * y_plane;
        for (size_t row = 0; row < c->oh; row += g->s.band, t.add = true) {
            const size_t end = c->oh - row < g->s.band ? c->oh : row + g->s.band;
            if (c->block == 1) sum_image(g, t, x, gy, gw, row, end, room);
            else sum_taps(g, t, x, gy, gw, row, end);
        }
    }
}

static void add_parts(void *arg, size_t block, int thread)
{
    (void)thread;
    const struct summing *g = arg;
    const size_t n = g->s.gw / (g->c->groups * wisp_conv_out_blocks(g->c));
    for (size_t p = 1; p < g->parts; p++)
        g->j->k->axpy(g->j->gw + block * n, g->j->gw + p * g->s.gw + block * n, 1, n);
}

void wisp_conv_direct_weights(const struct wisp_conv *c, const struct wisp_conv_job *j)
{
    struct summing g = { c, j, sizes_of(c), wisp_conv_walk(c, WISP_CONV_FORWARD), 0 };
    if (j->n == 0) memset(j->gw, 0, g.s.gw * sizeof *j->gw);
    g.parts = j->n < g.s.parts ? j->n : g.s.parts;
    wisp_parallel_for(j->pool, g.s.units * g.parts, sum_part, &g);
    if (g.parts > 1) wisp_parallel_for(j->pool, c->groups * wisp_conv_out_blocks(c), add_parts, &g);
}

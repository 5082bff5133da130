/* The way 'winograd', for stride 1: F(4x4, 3x3) for kernels of 3x3, a quarter of the multiplications, and
 * F(2x2, 5x5) for kernels of 5x5, little more than a third of them.
 *
 * A tile is 4x4 or 2x2 pixels of the result, from 6x6 of the source.  Both, and the taps, are transformed
 * (kernels.h) to 36 points; at each point a tile is a vector of channels, and all tiles together are
 * one product with the weights of that point:
 *
 *   V (point, blocks of the source, tiles, 16)        transformed tiles of the source
 *   U (point, blocks of the result, blocks of the source, 16, 16)     packed weights
 *   M (point, blocks of the result, tiles, 16) = V U                  transformed back: the result
 *
 * Forward and data are the same with x, w and gy, w turned by half a circle.  A task is a run of
 * tiles, across samples: the more there are, the more often the weights of a point are used while
 * they are in the cache.
 *
 * Weights: gU (point, ..) = sum over tiles of V^t Y, where Y are tiles of gy transformed, and then gw
 * as 'direct' lays it.  A task has some blocks of x and y and a part of the tiles, and goes through
 * them in groups.  Parts are as many as the sizes say, not the threads, and added in order.
 *
 * The transforms cost about two digits in the last place: results differ from sums over taps by some
 * 1e-6 of the largest terms of the tile. */
#include "conv/direct.h"
#include "base/pool.h"
#include "kernels/kernels.h"

#include <string.h>

enum {
    BLOCK = WISP_PLANE_BLOCK,
    SQUARE = WISP_CONV_SQUARE,
    POINTS = 36,
    FROM = 6,    /* pixels of a tile of the source */
    MOST_TO = 4, /* of the result */
    MOST_TAPS = 25,
    FEW_TILES = 56, /* of a task, multiples of what fills registers (14 rows) */
    MANY_TILES = 112,
    PARTS_FLOATS = 36 * 64 * 1024, /* of all gU, but one; 4 of 128 x 128 channels */
    MOST_PARTS = 8,
    FEWEST_BLOCKS = 4, /* of x and y of a task which is cut so that all threads have one */
    WIDE = 512,        /* channels, both together, from which on a task has many */
};

/* Pixels of a tile of the result. */
static size_t to_of(const struct wisp_conv *c)
{
    return FROM + 1 - c->kh;
}

static size_t taps_of(const struct wisp_conv *c)
{
    return c->kh * c->kw;
}

/* The transform of kernels of 5x5 that stands for one of 3x3. */
static enum wisp_winograd form(const struct wisp_conv *c, enum wisp_winograd of_3)
{
    static const enum wisp_winograd of_5[] = { [WISP_WINOGRAD_X] = WISP_WINOGRAD_X,
                                               [WISP_WINOGRAD_Y] = WISP_WINOGRAD_Y5,
                                               [WISP_WINOGRAD_GY] = WISP_WINOGRAD_GY5,
                                               [WISP_WINOGRAD_W] = WISP_WINOGRAD_W5,
                                               [WISP_WINOGRAD_GW] = WISP_WINOGRAD_GW5 };
    return c->kh == 5 ? of_5[of_3] : of_3;
}

/* Tiles of a task, at most; of a group. */
static size_t most_tiles(const struct wisp_conv *c)
{
    return c->in + c->out >= WIDE ? MANY_TILES : FEW_TILES;
}

/* Floats from point to point.  One line more than needed, or points would meet in one set of the
 * cache. */
static size_t apart(size_t blocks, size_t tiles)
{
    return blocks * tiles * BLOCK + BLOCK;
}

/* The same for weights. */
static size_t point_of(const struct wisp_conv *c)
{
    return wisp_conv_in_blocks(c) * wisp_conv_out_blocks(c) * SQUARE + BLOCK;
}

struct side { /* x, y or their gradients */
    size_t blocks, h, w;
};

struct sliding {
    const struct wisp_conv *c;
    const struct wisp_conv_job *j;
    struct side from, to;
    const float *source;
    float *result;
    size_t pad_h, pad_w;
    size_t tile;                      /* pixels, each way, of the result */
    size_t across, per_sample, tiles; /* of a row, of a sample, in all */
    size_t of_task;
    bool forward;
};

static size_t side_floats(const struct side *s)
{
    return s->blocks * s->h * s->w * BLOCK;
}

/* The tile of one block, pixels from (y, x) on, those outside are 0: in place or in 'room'. */
static const float *tile_at(const struct side *s, const float *plane, size_t y, size_t x,
                            size_t pixels, float *room, size_t *row)
{
    if (y < s->h && x < s->w && y + pixels <= s->h && x + pixels <= s->w) {
        *row = s->w * BLOCK;
        return plane + (y * s->w + x) * BLOCK;
    }
    *row = pixels * BLOCK;
    for (size_t i = 0; i < pixels; i++)
        for (size_t k = 0; k < pixels; k++) {
            const size_t v = y + i, u = x + k; /* past the end where they are below 0 */
            float *to = room + (i * pixels + k) * BLOCK;
            if (v < s->h && u < s->w)
                memcpy(to, plane + (v * s->w + u) * BLOCK, BLOCK * sizeof *to);
            else memset(to, 0, BLOCK * sizeof *to);
        }
    return room;
}

/* Tiles first .. first + n - 1 of block b of 'from', transformed, into (point, .., tile, 16). */
static void transform_tiles(const struct sliding *g, enum wisp_winograd which,
                            const struct side *from, const float *source, size_t b, size_t first,
                            size_t n, float *to, size_t point)
{
    const bool pixels_of_x = which == WISP_WINOGRAD_X;
    float room[FROM * FROM * BLOCK];
    struct wisp_transform t = {
        .which = form(g->c, which), .to_row = FROM * point, .to_col = point, .from_col = BLOCK
    };
    for (size_t i = 0; i < n; i++) {
        const size_t sample = (first + i) / g->per_sample, at = (first + i) % g->per_sample;
        const size_t y = at / g->across * g->tile, x = at % g->across * g->tile;
        const float *plane = source + sample * side_floats(from) + b * from->h * from->w * BLOCK;
        t.to = to + i * BLOCK;
        t.from = pixels_of_x
                     ? tile_at(from, plane, y - g->pad_h, x - g->pad_w, FROM, room, &t.from_row)
                     : tile_at(from, plane, y, x, g->tile, room, &t.from_row);
        g->j->k->winograd(&t);
    }
}

/* ---- forward and data ---- */

/* Tiles of the result of block b, from M. */
static void transform_back(const struct sliding *g, size_t b, size_t first, size_t n,
                           const float *m, size_t point, uint64_t *live)
{
    const struct side *to = &g->to;
    const size_t side = g->tile;
    float bias[BLOCK] = { 0 }, room[MOST_TO * MOST_TO * BLOCK];
    const bool biased = g->forward && g->j->bias, masked = !g->forward && g->j->mask;
    for (size_t i = 0; biased && i < BLOCK && b * BLOCK + i < g->c->out; i++)
        bias[i] = g->j->bias[b * BLOCK + i];
    struct wisp_transform t = { .which = form(g->c, WISP_WINOGRAD_Y),
                                .to_col = BLOCK,
                                .from_row = FROM * point,
                                .from_col = point,
                                .bias = biased ? bias : NULL,
                                .relu = g->forward && g->j->relu };
    for (size_t i = 0; i < n; i++) {
        const size_t sample = (first + i) / g->per_sample, at = (first + i) % g->per_sample;
        const size_t y = at / g->across * side, x = at % g->across * side;
        const size_t rows = to->h - y < side ? to->h - y : side,
                     cols = to->w - x < side ? to->w - x : side;
        float *pixels =
            g->result + sample * side_floats(to) + ((b * to->h + y) * to->w + x) * BLOCK;
        const bool whole = rows == side && cols == side;
        t.from = m + i * BLOCK;
        const float *mask = masked ? g->j->mask + (pixels - g->result) : NULL;
        t.to = whole ? pixels : room;
        t.mask = whole ? mask : NULL;
        t.live = whole ? live : NULL;
        t.to_row = (whole ? to->w : side) * BLOCK;
        g->j->k->winograd(&t);
        for (size_t r = 0; !whole && r < rows; r++) {
            const size_t line = r * to->w * BLOCK;
            const float *from = room + r * side * BLOCK;
            if (mask) g->j->k->relu_back(pixels + line, from, mask + line, cols * BLOCK);
            else memcpy(pixels + line, from, cols * BLOCK * sizeof *room);
            if (live) *live += g->j->k->live_count(from, cols * BLOCK);
        }
    }
}

static void slide(void *arg, size_t task, int thread)
{
    const struct sliding *g = arg;
    const size_t first = task * g->of_task, in = g->from.blocks, out = g->to.blocks;
    const size_t n = g->tiles - first < g->of_task ? g->tiles - first : g->of_task;
    const size_t v_point = apart(in, n), m_point = apart(out, n);
    float *v = g->j->thread_scratch + (size_t)thread * g->j->thread_apart;
    float *m = v + POINTS * v_point;
    size_t a_at[WISP_CONV_TAPS], b_at[WISP_CONV_TAPS];
    for (size_t b = 0; b < in; b++) {
        transform_tiles(g, WISP_WINOGRAD_X, &g->from, g->source, b, first, n, v + b * n * BLOCK,
                        v_point);
        a_at[b] = b * n * BLOCK;
        b_at[b] = b * SQUARE;
    }
    struct wisp_tiles t = { .m = n,
                            .blocks = out,
                            .k = BLOCK,
                            .n = in,
                            .ras = BLOCK,
                            .cas = 1,
                            .ldb = BLOCK,
                            .b_block = in * SQUARE,
                            .a_at = a_at,
                            .b_at = b_at,
                            .ldc = BLOCK,
                            .c_block = n * BLOCK };
    for (size_t p = 0; p < POINTS; p++) {
        t.a = v + p * v_point, t.b = g->j->w + p * point_of(g->c), t.c = m + p * m_point;
        g->j->k->tiles(&t);
    }
    for (size_t b = 0; b < out; b++)
        transform_back(g, b, first, n, m + b * n * BLOCK, m_point,
                       wisp_conv_live(g->j, g->forward, thread, b));
}

static struct sliding sliding_of(const struct wisp_conv *c, enum wisp_conv_pass pass,
                                 const struct wisp_conv_job *j)
{
    struct sliding g = { .c = c, .j = j, .forward = pass == WISP_CONV_FORWARD };
    const struct side x = { wisp_conv_in_blocks(c), c->h, c->w },
                      y = { wisp_conv_out_blocks(c), c->oh, c->ow };
    const bool data = pass == WISP_CONV_DATA;
    g.from = data ? y : x, g.to = data ? x : y;
    g.source = data ? j->gy : j->x;
    g.result = data ? j->gx : j->y;
    g.pad_h = data ? c->kh - 1 - c->pad_h : c->pad_h;
    g.pad_w = data ? c->kw - 1 - c->pad_w : c->pad_w;
    g.tile = to_of(c);
    g.across = wisp_parts(g.to.w, g.tile);
    g.per_sample = g.across * wisp_parts(g.to.h, g.tile);
    g.tiles = g.per_sample * j->n;
    return g;
}

static void run_slide(const struct wisp_conv *c, enum wisp_conv_pass pass,
                      const struct wisp_conv_job *j)
{
    struct sliding g = sliding_of(c, pass, j);
    const size_t threads = (size_t)wisp_pool_threads(j->pool);
    size_t tasks = wisp_parts(g.tiles, most_tiles(c));
    if (tasks == 0) return;
    tasks = wisp_up(tasks, threads < g.tiles ? threads : g.tiles); /* the last ones end together */
    g.of_task = wisp_parts(g.tiles, tasks);
    wisp_parallel_for(j->pool, wisp_parts(g.tiles, g.of_task), slide, &g);
}

/* ---- weights ---- */

struct summing {
    struct sliding g;
    size_t parts;         /* of the tiles, each with a gU of its own */
    size_t in, out;       /* blocks of a task */
    size_t of_in, of_out; /* tasks side by side */
    float *gu, *gw;
};

/* Parts of the tiles, at most: as many as are small. */
static size_t most_parts(const struct wisp_conv *c)
{
    const size_t gu = POINTS * wisp_conv_in_blocks(c) * wisp_conv_out_blocks(c) * SQUARE;
    const size_t parts = PARTS_FLOATS / gu;
    return parts < 1 ? 1 : parts > MOST_PARTS ? MOST_PARTS : parts;
}

static size_t gw_floats(const struct wisp_conv *c)
{
    const size_t squares = wisp_conv_in_blocks(c) * wisp_conv_out_blocks(c);
    return taps_of(c) * squares * SQUARE + most_parts(c) * POINTS * point_of(c);
}

/* Some blocks of x and of y, one part of the tiles. */
static void sum_part(void *arg, size_t task, int thread)
{
    const struct summing *s = arg;
    const struct sliding *g = &s->g;
    const size_t part = task / (s->of_in * s->of_out), i = task % s->of_in * s->in,
                 o = task / s->of_in % s->of_out * s->out;
    const size_t in = g->from.blocks - i < s->in ? g->from.blocks - i : s->in,
                 out = g->to.blocks - o < s->out ? g->to.blocks - o : s->out;
    const size_t point = point_of(g->c), group = most_tiles(g->c), zero = 0;
    const size_t begin = part * g->tiles / s->parts, end = (part + 1) * g->tiles / s->parts;
    float *v = g->j->thread_scratch + (size_t)thread * g->j->thread_apart;
    float *y = v + POINTS * apart(s->in, group);
    float *gu = s->gu + part * POINTS * point + (o * g->from.blocks + i) * SQUARE;
    struct wisp_tiles t = { .m = BLOCK,
                            .blocks = out,
                            .n = 1,
                            .ras = 1,
                            .cas = BLOCK,
                            .ldb = BLOCK,
                            .a_at = &zero,
                            .b_at = &zero,
                            .ldc = BLOCK,
                            .c_block = g->from.blocks * SQUARE };
    for (size_t first = begin; first < end; first += group, t.add = true) {
        const size_t n = end - first < group ? end - first : group;
        for (size_t b = 0; b < in; b++)
            transform_tiles(g, WISP_WINOGRAD_X, &g->from, g->j->x, i + b, first, n,
                            v + b * n * BLOCK, apart(in, n));
        for (size_t b = 0; b < out; b++)
            transform_tiles(g, WISP_WINOGRAD_GY, &g->to, g->j->gy, o + b, first, n,
                            y + b * n * BLOCK, apart(out, n));
        t.k = n, t.b_block = n * BLOCK;
        for (size_t p = 0; p < POINTS; p++)
            for (size_t b = 0; b < in; b++) {
                t.a = v + p * apart(in, n) + b * n * BLOCK;
                t.b = y + p * apart(out, n);
                t.c = gu + p * point + b * SQUARE;
                g->j->k->tiles(&t);
            }
    }
}

/* A square of gw, of all parts. */
static void transform_gu(void *arg, size_t square, int thread)
{
    const struct summing *s = arg;
    const struct wisp_conv *c = s->g.c;
    const size_t point = point_of(c);
    float *gu = s->gu + square * SQUARE;
    (void)thread;
    for (size_t part = 1; part < s->parts; part++)
        for (size_t p = 0; p < POINTS; p++)
            s->g.j->k->axpy(gu + p * point, gu + (part * POINTS + p) * point, 1, SQUARE);
    struct wisp_transform t = { .which = form(c, WISP_WINOGRAD_GW),
                                .to_row = c->kw * SQUARE,
                                .to_col = SQUARE,
                                .from_row = FROM * point,
                                .from_col = point };
    for (size_t i = 0; i < BLOCK; i++) {
        t.to = s->gw + square * taps_of(c) * SQUARE + i * BLOCK;
        t.from = gu + i * BLOCK;
        s->g.j->k->winograd(&t);
    }
}

static void run_weights(const struct wisp_conv *c, const struct wisp_conv_job *j)
{
    struct summing s = { .g = sliding_of(c, WISP_CONV_WEIGHTS, j), .of_in = 1, .of_out = 1 };
    const size_t in = s.g.from.blocks, out = s.g.to.blocks, squares = in * out,
                 threads = (size_t)wisp_pool_threads(j->pool);
    s.gw = j->gw, s.gu = s.gw + taps_of(c) * squares * SQUARE;
    s.in = in, s.out = out;
    s.parts = most_parts(c) < s.g.tiles ? most_parts(c) : s.g.tiles;
    if (s.g.tiles == 0) {
        memset(s.gw, 0, taps_of(c) * squares * SQUARE * sizeof *s.gw);
        return;
    }
    /* Halves, until there are tasks for all: each transforms what it reads for itself. */
    while (threads > 1 && s.parts * s.of_in * s.of_out < 2 * threads &&
           (s.in > FEWEST_BLOCKS || s.out > FEWEST_BLOCKS)) {
        size_t *half = s.in > s.out ? &s.in : &s.out;
        *half = wisp_parts(*half, 2);
        s.of_in = wisp_parts(in, s.in), s.of_out = wisp_parts(out, s.out);
    }
    wisp_parallel_for(j->pool, s.parts * s.of_in * s.of_out, sum_part, &s);
    wisp_parallel_for(j->pool, squares, transform_gu, &s);
}

/* ---- the way ---- */

static bool can(const struct wisp_conv *c, enum wisp_conv_pass pass, const struct wisp_kernels *k)
{
    (void)pass, (void)k;
    const size_t most = (size_t)WISP_CONV_TAPS * BLOCK;
    return (c->kh == 3 || c->kh == 5) && c->kw == c->kh && c->stride == 1 && c->pad_h < c->kh &&
           c->pad_w < c->kw && c->groups == 1 && c->block == BLOCK && c->in <= most &&
           c->out <= most;
}

static size_t weight_floats(const struct wisp_conv *c, enum wisp_conv_pass pass)
{
    if (pass == WISP_CONV_WEIGHTS) return gw_floats(c);
    return POINTS * point_of(c);
}

static size_t thread_floats(const struct wisp_conv *c, enum wisp_conv_pass pass)
{
    const size_t n = most_tiles(c);
    (void)pass;
    return POINTS * (apart(wisp_conv_in_blocks(c), n) + apart(wisp_conv_out_blocks(c), n));
}

/* Forward: 16 outputs side by side, for each input.  Data: 16 inputs side by side, for each output,
 * and taps from last to first. */
static void pack(const struct wisp_conv *c, enum wisp_conv_pass pass, const struct wisp_kernels *k,
                 float *to, const float *w, size_t row)
{
    const size_t in = wisp_conv_in_blocks(c), out = wisp_conv_out_blocks(c), o = row / BLOCK;
    const size_t rows = wisp_conv_rows_from(c, row), point = point_of(c), n_taps = taps_of(c);
    const bool forward = pass == WISP_CONV_FORWARD;
    float taps[MOST_TAPS * BLOCK] = { 0 }, turned[MOST_TAPS * BLOCK];
    struct wisp_transform t = { .which = form(c, WISP_WINOGRAD_W),
                                .to_row = FROM * point,
                                .to_col = point,
                                .from = forward ? taps : turned,
                                .from_row = c->kw * BLOCK,
                                .from_col = BLOCK };
    for (size_t b = 0; b < in; b++) {
        const size_t n = c->in - b * BLOCK < BLOCK ? c->in - b * BLOCK : BLOCK;
        const size_t lines = forward ? n : rows, lanes = forward ? rows : n;
        t.to = to + (forward ? o * in + b : b * out + o) * SQUARE;
        if (lanes < BLOCK) memset(taps, 0, sizeof taps);
        for (size_t i = 0; i < lines; i++, t.to += BLOCK) {
            const float *from = w + b * BLOCK * n_taps + i * (forward ? n_taps : c->in * n_taps);
            k->transpose(taps, BLOCK, from, forward ? c->in * n_taps : n_taps, lanes, n_taps);
            for (size_t e = 0; !forward && e < n_taps; e++)
                memcpy(turned + e * BLOCK, taps + (n_taps - 1 - e) * BLOCK, BLOCK * sizeof *taps);
            k->winograd(&t);
        }
    }
}

static wisp_status run(const struct wisp_conv *c, enum wisp_conv_pass pass,
                       const struct wisp_conv_job *j, wisp_error *err)
{
    (void)err;
    if (pass == WISP_CONV_WEIGHTS) run_weights(c, j);
    else run_slide(c, pass, j);
    return WISP_OK;
}

const struct wisp_conv_way wisp_conv_winograd = {
    .name = "winograd",
    .rough = 5e-6f,
    .what = "3x3 taps on 4x4 pixels at once with a quarter of the multiplications, 5x5 taps on 2x2 "
            "with little more than a third",
    .masks = true,
    .counts = true,
    .can = can,
    .weight_floats = weight_floats,
    .thread_floats = thread_floats,
    .pack = pack,
    .rows = wisp_conv_direct_rows,
    .run = run,
};

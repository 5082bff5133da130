/* The way 'direct': sums over taps and channels on blocks of 16 channels, forward and data.  The
 * arithmetic is k->tiles, a sum of small products: a row of a view (pixels, 16 channels) times the
 * weights of a tap (16, 16) to a row of the result, for all taps of some blocks of the source.
 *
 * A task is a band of rows of one sample, all blocks of the result or some of them:
 *
 *   for each set of blocks of the result             2 or 4: what a tile of registers holds
 *     for each chunk of blocks of the source         their weights stay in the first cache
 *       for each row of the band                     the view stays in the second
 *
 * Packed weights: (blocks of the result, blocks of the source in the group, kh, kw, 16, 16), for
 * data with x and y changed over.  Images with few channels come in blocks of 1: there a product is
 * a row of pixels times the weights of a row of taps (kw, 16).
 *
 * Rows of taps that lie above or below the source are left out.
 *
 * A number of the result is one sum over blocks and taps in a fixed order: it depends neither on the
 * number of threads nor on how the work is shared out. */
#include "conv/direct.h"
#include "base/pool.h"
#include "kernels/kernels.h"

#include <string.h>

enum {
    BLOCK = WISP_PLANE_BLOCK,
    SQUARE = WISP_CONV_SQUARE,
    SET = 4,                  /* blocks of the result at a time, at most */
    FEW_PIXELS = 7,           /* rows as short as this: SET blocks, else half of them */
    VIEW_FLOATS = 128 * 1024, /* of a band */
    CHUNK_FLOATS = 32 * 1024, /* weights of a chunk; 8 and 2 K were 2 to 4 % slower */
    TASKS = 4,                /* for each thread, at least */
};

/* ---- views ---- */

static size_t seen(size_t places, size_t step, size_t reach)
{
    return (places - 1) * step + reach;
}

static size_t view_row(const struct wisp_conv_walk *w)
{
    return seen(w->cols, w->step, w->reach_w) * w->block;
}

size_t wisp_conv_view_floats(const struct wisp_conv_walk *w, size_t blocks, size_t rows)
{
    return w->copy ? blocks * seen(rows, w->step, w->reach_h) * view_row(w) : 0;
}

struct wisp_conv_walk wisp_conv_walk(const struct wisp_conv *c, enum wisp_conv_pass pass)
{
    struct wisp_conv_walk w;
    const size_t in = wisp_conv_in_blocks(c), out = wisp_conv_out_blocks(c);
    if (pass != WISP_CONV_DATA) {
        w = (struct wisp_conv_walk){ .in = in,
                                     .out = out,
                                     .block = c->block,
                                     .step = c->stride,
                                     .spread = 1,
                                     .rows = c->oh,
                                     .cols = c->ow,
                                     .top = c->pad_h,
                                     .left = c->pad_w,
                                     .reach_h = c->kh,
                                     .reach_w = c->kw };
        w.sh = c->h, w.sw = c->w, w.dh = c->oh, w.dw = c->ow;
    } else {
        w = (struct wisp_conv_walk){ .in = out,
                                     .out = in,
                                     .block = BLOCK,
                                     .step = 1,
                                     .spread = c->stride,
                                     .before_h = c->pad_h,
                                     .before_w = c->pad_w };
        w.sh = c->oh, w.sw = c->ow, w.dh = c->h, w.dw = c->w;
        w.rows = (c->h - 1 + c->pad_h) / c->stride + 1;
        w.cols = (c->w - 1 + c->pad_w) / c->stride + 1;
        w.reach_h = wisp_parts(c->kh, c->stride), w.reach_w = wisp_parts(c->kw, c->stride);
        w.top = w.reach_h - 1, w.left = w.reach_w - 1;
    }
    w.copy = w.top || w.left || seen(w.rows, w.step, w.reach_h) > w.sh ||
             seen(w.cols, w.step, w.reach_w) > w.sw;
    w.band = w.rows;
    while (w.band > 1 && wisp_conv_view_floats(&w, w.in, w.band) > VIEW_FLOATS) w.band--;
    w.bands = wisp_parts(w.rows, w.band);
    w.band = wisp_parts(w.rows, w.bands);
    w.bands = wisp_parts(w.rows, w.band);
    return w;
}

struct wisp_conv_view wisp_conv_view(const struct wisp_conv_walk *w, const float *source, size_t b,
                                     size_t blocks, size_t first, size_t rows, float *room)
{
    const size_t pixels = w->sw * w->block, plane = w->sh * pixels, block = w->block;
    source += b * plane;
    if (!w->copy)
        return (struct wisp_conv_view){ source + first * w->step * pixels, plane, pixels };
    const size_t height = seen(rows, w->step, w->reach_h), row = view_row(w);
    const size_t left = w->left * block < row ? w->left * block : row;
    const size_t middle = pixels < row - left ? pixels : row - left;
    float *to = room;
    for (size_t i = 0; i < blocks; i++)
        for (size_t r = 0; r < height; r++, to += row) {
            const size_t y = first * w->step + r - w->top; /* past the end where it is below 0 */
            if (y >= w->sh) {
                memset(to, 0, row * sizeof *to);
                continue;
            }
            memset(to, 0, left * sizeof *to);
            memcpy(to + left, source + i * plane + y * pixels, middle * sizeof *to);
            memset(to + left + middle, 0, (row - left - middle) * sizeof *to);
        }
    return (struct wisp_conv_view){ room, height * row, row };
}

/* ---- forward and data ---- */

struct walking {
    const struct wisp_conv *c;
    const struct wisp_conv_job *j;
    struct wisp_conv_walk w;
    const float *source;
    float *result;
    size_t source_floats, result_floats; /* of a sample */
    size_t set, sets, parts;             /* blocks of a set; sets of a group; tasks of a band */
    bool forward;
};

/* Where the taps of a phase lie in the view, and their weights, for blocks first .. of the source:
 * row of taps by row of taps.  Returns how many a row has. */
static size_t find_taps(const struct walking *g, const struct wisp_conv_view *v, size_t first,
                        size_t blocks, size_t phase_h, size_t phase_w, size_t *a_at, size_t *b_at)
{
    const struct wisp_conv *c = g->c;
    const struct wisp_conv_walk *w = &g->w;
    const bool whole_rows = w->block == 1;
    size_t n = 0, rows = 0;
    for (size_t i = phase_h; i < c->kh; i += w->spread, rows++)
        for (size_t b = first; b < first + blocks; b++) {
            const size_t y = g->forward ? rows : w->reach_h - 1 - rows;
            for (size_t k = phase_w, s = 0; k < (whole_rows ? 1 : c->kw); k += w->spread, s++) {
                const size_t x = g->forward ? s : w->reach_w - 1 - s;
                a_at[n] = b * v->plane + y * v->row + x * w->block;
                b_at[n++] = ((b * c->kh + i) * c->kw + k) * w->block * BLOCK;
            }
        }
    return rows ? n / rows : 0;
}

/* The rows of taps, of 'rows' of a phase, that lie on the source for places in 'row': from *first
 * on; returns how many. */
static size_t on_source(const struct walking *g, size_t row, size_t rows, size_t *first)
{
    const struct wisp_conv_walk *w = &g->w;
    const size_t above = w->top > row * w->step ? w->top - row * w->step : 0;
    const size_t below = w->sh + w->top > row * w->step ? w->sh + w->top - row * w->step : 0;
    /* rows above .. below - 1 of what the place sees; for data the last row of it is tap 0 */
    const size_t low = g->forward ? above : below < w->reach_h ? w->reach_h - below : 0;
    const size_t high = g->forward ? below : above < w->reach_h ? w->reach_h - above : 0;
    *first = low;
    return (high < rows ? high : rows) > low ? (high < rows ? high : rows) - low : 0;
}

/* The places from *first on whose pixel of this phase lies in the result; returns how many. */
static size_t in_result(size_t *first, size_t end, size_t spread, size_t phase, size_t before,
                        size_t pixels)
{
    const size_t low = before > phase ? wisp_parts(before - phase, spread) : 0;
    const size_t high = pixels + before > phase ? wisp_parts(pixels + before - phase, spread) : 0;
    if (*first < low) *first = low;
    if (end > high) end = high;
    return end > *first ? end - *first : 0;
}

/* A phase of some rows of places of blocks o .. o + blocks - 1 of the result. */
static void walk_phase(const struct walking *g, const struct wisp_conv_view *v, struct wisp_tiles t,
                       float *result, size_t row, size_t end, size_t phase_h, size_t phase_w)
{
    const struct wisp_conv_walk *w = &g->w;
    const size_t begin = row, unit = wisp_conv_unit(g->c), blocks = t.blocks;
    size_t a_at[WISP_CONV_TAPS], b_at[WISP_CONV_TAPS], col = 0;
    const size_t taps = w->block == 1 ? g->c->kh : g->c->kh * g->c->kw;
    size_t chunk = CHUNK_FLOATS / (unit * blocks) + 1, rows;
    if (chunk > WISP_CONV_TAPS / taps) chunk = WISP_CONV_TAPS / taps;
    rows = in_result(&row, end, w->spread, phase_h, w->before_h, w->dh);
    t.m = in_result(&col, w->cols, w->spread, phase_w, w->before_w, w->dw);
    if (!rows || !t.m) return;
    const float *from = v->at + (row - begin) * w->step * v->row + col * w->step * w->block;
    float *to = result + ((row * w->spread + phase_h - w->before_h) * w->dw + col * w->spread +
                          phase_w - w->before_w) *
                             BLOCK;
    const size_t tap_rows = phase_h < g->c->kh ? wisp_parts(g->c->kh - phase_h, w->spread) : 0;
    const bool long_row = w->spread == 1 && w->step == 1 && w->reach_h == 1 && w->top == 0 &&
                          t.m == w->dw && v->row == t.m * w->block;
    if (long_row) t.m *= rows, rows = 1;
    const float *bias = t.bias;
    uint64_t *live = t.live;
    for (size_t first = 0; first < w->in; first += chunk) {
        const size_t some = w->in - first < chunk ? w->in - first : chunk;
        const size_t of_row = find_taps(g, v, first, some, phase_h, phase_w, a_at, b_at);
        t.bias = first ? NULL : bias;
        t.add = first > 0;
        t.relu = g->forward && g->j->relu && first + some == w->in;
        t.live = first + some == w->in ? live : NULL;
        const float *mask = !g->forward && first + some == w->in ? g->j->mask : NULL;
        for (size_t r = 0; r < rows; r++) {
            size_t low;
            t.n = on_source(g, row + r, tap_rows, &low) * of_row;
            t.a_at = a_at + low * of_row, t.b_at = b_at + low * of_row;
            t.a = from + r * w->step * v->row;
            t.c = to + r * w->spread * w->dw * BLOCK;
            t.mask = mask ? mask + (t.c - g->result) : NULL;
            g->j->k->tiles(&t);
        }
    }
}

static void walk(void *arg, size_t task, int thread)
{
    const struct walking *g = arg;
    const struct wisp_conv_walk *w = &g->w;
    const size_t part = task % g->parts, band = task / g->parts % w->bands,
                 sample = task / g->parts / w->bands;
    const size_t row = band * w->band, end = row + w->band < w->rows ? row + w->band : w->rows;
    const size_t all = g->sets * g->c->groups, last = (part + 1) * all / g->parts;
    float *room = g->j->thread_scratch + (size_t)thread * g->j->thread_apart;
    const size_t channels = g->forward ? g->c->in : g->c->out; /* those past the last are 0 */
    const size_t depth = channels < BLOCK ? channels : BLOCK;
    struct wisp_conv_view v = { 0 };
    size_t group = (size_t)-1;
    for (size_t set = part * all / g->parts; set < last; set++) {
        if (set / g->sets != group) {
            group = set / g->sets;
            v = wisp_conv_view(w, g->source + sample * g->source_floats, group * w->in, w->in, row,
                               end - row, room);
        }
        const size_t in_group = set % g->sets * g->set, o = group * w->out + in_group;
        const size_t blocks = w->out - in_group < g->set ? w->out - in_group : g->set;
        const size_t unit = wisp_conv_unit(g->c), plane = w->dh * w->dw * BLOCK;
        float bias[SET * BLOCK] = { 0 };
        for (size_t i = 0; g->j->bias && i < blocks * BLOCK && o * BLOCK + i < g->c->out; i++)
            bias[i] = g->j->bias[o * BLOCK + i];
        struct wisp_tiles t = { .blocks = blocks,
                                .k = w->block == 1 ? g->c->kw : depth,
                                .ras = w->step * w->block,
                                .cas = 1,
                                .b = g->j->w + o * w->in * unit,
                                .ldb = BLOCK,
                                .b_block = w->in * unit,
                                .ldc = w->spread * BLOCK,
                                .c_block = plane,
                                .bias = g->forward && g->j->bias ? bias : NULL,
                                .live = wisp_conv_live(g->j, g->forward, thread, o) };
        float *result = g->result + sample * g->result_floats + o * plane;
        for (size_t p = 0; p < w->spread * w->spread; p++)
            walk_phase(g, &v, t, result, row, end, p / w->spread, p % w->spread);
    }
}

static void run_walk(const struct wisp_conv *c, enum wisp_conv_pass pass,
                     const struct wisp_conv_job *j)
{
    struct walking g = {
        .c = c, .j = j, .w = wisp_conv_walk(c, pass), .forward = pass == WISP_CONV_FORWARD
    };
    const size_t x = wisp_conv_in_floats(c), y = wisp_conv_out_floats(c);
    g.source = g.forward ? j->x : j->gy, g.source_floats = g.forward ? x : y;
    g.result = g.forward ? j->y : j->gx, g.result_floats = g.forward ? y : x;
    g.set = g.w.cols > FEW_PIXELS ? SET / 2 : SET;
    g.sets = wisp_parts(g.w.out, g.set);
    const int threads = wisp_pool_threads(j->pool);
    const size_t tasks = j->n * g.w.bands, wanted = threads > 1 ? TASKS * (size_t)threads : 1;
    if (tasks == 0) return;
    g.parts = wisp_parts(wanted, tasks);
    if (g.parts > g.sets * c->groups) g.parts = g.sets * c->groups;
    wisp_parallel_for(j->pool, tasks * g.parts, walk, &g);
}

/* ---- the way ---- */

static bool can(const struct wisp_conv *c, enum wisp_conv_pass pass, const struct wisp_kernels *k)
{
    (void)k;
    const bool whole = c->in / c->groups % BLOCK == 0 && c->out / c->groups % BLOCK == 0;
    if (c->block == 1 && (pass == WISP_CONV_DATA || c->groups > 1)) return false;
    return (c->groups == 1 || whole) && c->kh <= WISP_CONV_TAPS / c->kw;
}

static size_t weight_floats(const struct wisp_conv *c, enum wisp_conv_pass pass)
{
    if (pass == WISP_CONV_WEIGHTS) return wisp_conv_direct_gw_floats(c);
    return c->groups * wisp_conv_out_blocks(c) * wisp_conv_in_blocks(c) * wisp_conv_unit(c);
}

static size_t thread_floats(const struct wisp_conv *c, enum wisp_conv_pass pass)
{
    if (pass == WISP_CONV_WEIGHTS) return wisp_conv_direct_gw_scratch(c);
    struct wisp_conv_walk w = wisp_conv_walk(c, pass);
    return wisp_conv_view_floats(&w, w.in, w.band);
}

static void pack(const struct wisp_conv *c, enum wisp_conv_pass pass, const struct wisp_kernels *k,
                 float *to, const float *w, size_t row)
{
    const size_t ins = c->in / c->groups, taps = c->kh * c->kw, in = wisp_conv_in_blocks(c),
                 out = wisp_conv_out_blocks(c), group = row / (c->out / c->groups),
                 o = row % (c->out / c->groups) / BLOCK, unit = wisp_conv_unit(c),
                 rows = wisp_conv_rows_from(c, row);
    for (size_t b = 0; b < in; b++) { /* all taps between a block of x and these rows */
        const size_t first = b * c->block, n = ins - first < c->block ? ins - first : c->block;
        const float *from = w + first * taps;
        float *unit_at = to + (pass == WISP_CONV_FORWARD ? (group * out + o) * in + b
                                                         : (group * in + b) * out + o) *
                                  unit;
        if (pass == WISP_CONV_FORWARD) /* (taps, inputs, rows) of (rows, inputs, taps) */
            for (size_t i = 0; i < n; i++)
                k->transpose(unit_at + i * BLOCK, c->block * BLOCK, from + i * taps, ins * taps,
                             rows, taps);
        else /* (taps, rows, inputs) */
            for (size_t r = 0; r < rows; r++)
                k->transpose(unit_at + r * BLOCK, SQUARE, from + r * ins * taps, taps, n, taps);
    }
}

static wisp_status run(const struct wisp_conv *c, enum wisp_conv_pass pass,
                       const struct wisp_conv_job *j, wisp_error *err)
{
    (void)err;
    if (pass == WISP_CONV_WEIGHTS) wisp_conv_direct_weights(c, j);
    else run_walk(c, pass, j);
    return WISP_OK;
}

const struct wisp_conv_way wisp_conv_direct = {
    .name = "direct",
    .what = "sums over taps on blocks of 16 channels",
    .masks = true,
    .counts = true,
    .can = can,
    .weight_floats = weight_floats,
    .thread_floats = thread_floats,
    .pack = pack,
    .rows = wisp_conv_direct_rows,
    .run = run,
};

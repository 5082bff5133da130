/* The way 'bf16': sums over taps and channels of numbers that are rounded to bf16 (nearest, ties to
 * even), in fp32.  Forward and data here, the gradient of the weights in bf16_weights.c.
 *
 * A task rounds a lot of the source (bf16.h), then k->tiles16 computes all places of it, two blocks
 * of the result at a time; a product is a tap and a chunk of channels.  Where places lie in the
 * result is a list, which has -1 for those between rows and samples; so phases of a stride's data
 * pass are lists, too.
 *
 *   packed weights   (blocks of the result, chunks of the source, kh kw, panel of 16 x 16 words)
 *   thin             (blocks of the result, kh, chunks of a row of taps, panel)
 *   of a thread      the view | where places lie | where taps and their weights lie | a row of pixels
 *
 * A number of the result is one sum over products in a fixed order, whatever the lot and the tile. */
#include "conv/bf16.h"
#include "base/cut.h"
#include "base/pool.h"
#include "kernels/kernels.h"

#include <string.h>

enum {
    BLOCK = WISP_PLANE_BLOCK,
    CHUNK = WISP_CONV_CHUNK,
    PANEL = WISP_CONV_PANEL,
    VIEW_BYTES = 768 * 1024, /* of a lot, in the second cache with some weights */
    MOST_SAMPLES = 64,
    TAPS = 16, /* of weights, packed at a time */
    TASKS = 4, /* for each thread, at least */
};

struct sizes {
    struct wisp_conv_walk w;
    struct wisp_conv_view16 v;
    struct wisp_conv_lot lot; /* the largest */
    size_t channels, blocks;  /* of the source; of the result */
    size_t products;          /* of a sum, at most */
};

static size_t lot_bytes(const struct wisp_conv_view16 *v, const struct wisp_conv_lot *l)
{
    return wisp_conv_planes16(v) * wisp_conv_plane16(v, l) * sizeof(uint16_t);
}

static struct sizes sizes_of(const struct wisp_conv *c, enum wisp_conv_pass pass)
{
    const bool forward = pass == WISP_CONV_FORWARD;
    struct sizes s = { .w = wisp_conv_walk(c, pass), .channels = forward ? c->in : c->out };
    s.v = wisp_conv_view16(&s.w, s.channels, s.w.spread == 1);
    s.blocks = wisp_parts(forward ? c->out : c->in, BLOCK);
    s.products = s.v.chunks * c->kh * (s.v.thin ? 1 : c->kw);
    s.lot = (struct wisp_conv_lot){ .samples = 1, .rows = s.w.rows };
    const size_t batch = c->batch ? c->batch : 1;
    while (s.lot.rows > 1 && lot_bytes(&s.v, &s.lot) > VIEW_BYTES) s.lot.rows--;
    const size_t bands = wisp_parts(s.w.rows, s.lot.rows);
    s.lot.rows = wisp_parts(s.w.rows, bands);
    while (bands == 1 && s.lot.samples < batch && s.lot.samples < MOST_SAMPLES &&
           lot_bytes(&s.v, &s.lot) < VIEW_BYTES)
        s.lot.samples++;
    return s;
}

struct room { /* of a thread, cut up */
    uint16_t *view;
    int32_t *at;
    size_t *a_at, *b_at;
    float *row;
};

static struct room lay(struct wisp_cut *cut, const struct sizes *s)
{
    struct room r;
    r.view = wisp_cut_take(cut, lot_bytes(&s->v, &s->lot), 1);
    r.at = wisp_cut_take(cut, wisp_conv_places(&s->v, &s->lot), sizeof *r.at);
    r.a_at = wisp_cut_take(cut, s->products, sizeof *r.a_at);
    r.b_at = wisp_cut_take(cut, s->products, sizeof *r.b_at);
    r.row = wisp_cut_take(cut, wisp_conv_room16(&s->v), sizeof *r.row);
    return r;
}

/* ---- a task ---- */

struct walking {
    const struct wisp_conv *c;
    const struct wisp_conv_job *j;
    struct sizes s;
    bool forward;
    const float *source;
    float *result;
    size_t source_floats, result_floats; /* of a sample */
    size_t samples, bands, parts;        /* of a lot; lots of a sample; tasks of a lot */
    size_t apart;                        /* bytes of a thread's room */
};

/* Where the pixels of a phase lie in the result. */
static void find_places(const struct walking *g, const struct wisp_conv_lot *l, size_t phase_h,
                        size_t phase_w, int32_t *at)
{
    const struct wisp_conv_walk *w = &g->s.w;
    const struct wisp_conv_view16 *v = &g->s.v;
    const size_t n = wisp_conv_places(v, l);
    for (size_t i = 0; i < n; i++) at[i] = -1;
    for (size_t s = 0; s < l->samples; s++)
        for (size_t r = 0; r < l->rows; r++) {
            const size_t y = (l->first + r) * w->spread + phase_h - w->before_h;
            int32_t *to = at + (s * v->high + r) * v->pitch;
            for (size_t q = 0; y < w->dh && q < w->cols; q++) {
                const size_t x = q * w->spread + phase_w - w->before_w;
                if (x < w->dw) to[q] = (int32_t)(s * g->result_floats + (y * w->dw + x) * BLOCK);
            }
        }
}

/* Where the taps of a phase lie in the view, and their weights; returns how many there are. */
static size_t find_taps(const struct walking *g, size_t plane, size_t phase_h, size_t phase_w,
                        size_t *a_at, size_t *b_at)
{
    const struct wisp_conv *c = g->c;
    const struct wisp_conv_walk *w = &g->s.w;
    const struct wisp_conv_view16 *v = &g->s.v;
    size_t n = 0;
    for (size_t q = 0; q < v->chunks; q++)
        for (size_t i = phase_h, t = 0; i < c->kh; i += w->spread, t++)
            for (size_t k = phase_w, u = 0; k < (v->thin ? 1 : c->kw); k += w->spread, u++) {
                const size_t y = g->forward ? t : w->reach_h - 1 - t,
                             x = g->forward ? u : w->reach_w - 1 - u,
                             at = wisp_conv_tap_place(v, y, x) * v->wide,
                             phase = wisp_conv_tap_phase(v, y, x);
                if (v->thin) {
                    a_at[n] = phase * plane + at + q * CHUNK;
                    b_at[n++] = (i * v->chunks + q) * PANEL;
                } else {
                    a_at[n] = (phase * v->chunks + q) * plane + at;
                    b_at[n++] = (q * c->kh * c->kw + i * c->kw + k) * PANEL;
                }
            }
    return n;
}

static void walk(void *arg, size_t task, int thread)
{
    const struct walking *g = arg;
    const struct sizes *s = &g->s;
    const size_t part = task % g->parts, band = task / g->parts % g->bands,
                 sample = task / g->parts / g->bands * g->samples;
    struct wisp_conv_lot l = s->lot;
    float *scratch = g->j->thread_scratch + (size_t)thread * g->j->thread_apart;
    struct wisp_cut cut = wisp_cut_of(scratch, g->apart, WISP_CUT_FRESH);
    struct room r = lay(&cut, s);
    l.samples = g->j->n - sample < g->samples ? g->j->n - sample : g->samples;
    l.first = band * s->lot.rows;
    if (s->w.rows - l.first < l.rows) l.rows = s->w.rows - l.first;
    const size_t plane = wisp_conv_plane16(&s->v, &l), planes = wisp_conv_planes16(&s->v);
    for (size_t p = 0; p < planes; p++)
        wisp_conv_fill16(&s->v, &l, g->j->k, p, g->source + sample * g->source_floats,
                         g->source_floats, r.view + p * plane, r.row);
    const size_t sets = wisp_parts(s->blocks, 2), last = (part + 1) * sets / g->parts;
    struct wisp_tiles16 t = { .m = wisp_conv_places(&s->v, &l),
                              .a = r.view,
                              .ras = s->v.wide,
                              .b_block = s->products * PANEL,
                              .a_at = r.a_at,
                              .b_at = r.b_at,
                              .c_block = s->w.dh * s->w.dw * BLOCK,
                              .c_at = r.at,
                              .relu = g->forward && g->j->relu };
    for (size_t p = 0; p < s->w.spread * s->w.spread; p++) {
        const size_t phase_h = p / s->w.spread, phase_w = p % s->w.spread;
        find_places(g, &l, phase_h, phase_w, r.at);
        t.n = find_taps(g, plane, phase_h, phase_w, r.a_at, r.b_at);
        for (size_t set = part * sets / g->parts; set < last; set++) {
            const size_t o = 2 * set;
            float bias[2 * BLOCK] = { 0 };
            for (size_t i = 0; g->j->bias && i < 2 * BLOCK && o * BLOCK + i < g->c->out; i++)
                bias[i] = g->j->bias[o * BLOCK + i];
            t.blocks = s->blocks - o < 2 ? s->blocks - o : 2;
            t.b = (const uint32_t *)(const void *)g->j->w + o * t.b_block;
            t.c = g->result + sample * g->result_floats + o * t.c_block;
            t.bias = g->forward && g->j->bias ? bias : NULL;
            t.live = wisp_conv_live(g->j, g->forward, thread, o);
            t.mask = !g->forward && g->j->mask ? g->j->mask + (t.c - g->result) : NULL;
            g->j->k->tiles16(&t);
        }
    }
    wisp_cut_end(scratch, g->apart);
}

static size_t thread_floats(const struct wisp_conv *c, enum wisp_conv_pass pass)
{
    if (pass == WISP_CONV_WEIGHTS) return wisp_conv_bf16_gw_scratch(c);
    const struct sizes s = sizes_of(c, pass);
    struct wisp_cut cut = { 0 };
    lay(&cut, &s);
    return wisp_parts(cut.at, sizeof(float));
}

static void run_walk(const struct wisp_conv *c, enum wisp_conv_pass pass,
                     const struct wisp_conv_job *j)
{
    struct walking g = {
        .c = c, .j = j, .s = sizes_of(c, pass), .forward = pass == WISP_CONV_FORWARD
    };
    const size_t x = wisp_conv_in_floats(c), y = wisp_conv_out_floats(c),
                 threads = (size_t)wisp_pool_threads(j->pool);
    if (j->n == 0) return;
    g.source = g.forward ? j->x : j->gy, g.source_floats = g.forward ? x : y;
    g.result = g.forward ? j->y : j->gx, g.result_floats = g.forward ? y : x;
    g.apart = thread_floats(c, pass) * sizeof(float);
    g.bands = wisp_parts(g.s.w.rows, g.s.lot.rows);
    g.samples = wisp_parts(j->n, threads);
    if (g.samples > g.s.lot.samples) g.samples = g.s.lot.samples;
    const size_t lots = wisp_parts(j->n, g.samples) * g.bands, sets = wisp_parts(g.s.blocks, 2);
    g.parts = wisp_parts(threads > 1 ? TASKS * threads : 1, lots);
    if (g.parts > sets) g.parts = sets;
    wisp_parallel_for(j->pool, lots * g.parts, walk, &g);
}

/* ---- packing ---- */

/* 16 rows, some taps and 32 inputs of each: (16, TAPS, 32) of (rows, ins, taps); zeros elsewhere. */
static void gather(const struct wisp_conv *c, const struct wisp_kernels *k, const float *w,
                   size_t rows, size_t first, size_t tap, size_t taps, float *to)
{
    const size_t n = c->in - first < CHUNK ? c->in - first : CHUNK, all = c->kh * c->kw;
    if (n < CHUNK || rows < BLOCK) memset(to, 0, (size_t)BLOCK * TAPS * CHUNK * sizeof *to);
    for (size_t r = 0; r < rows; r++)
        k->transpose(to + r * TAPS * CHUNK, CHUNK, w + (r * c->in + first) * all + tap, all, n,
                     taps);
}

static void pack_thick(const struct wisp_conv *c, enum wisp_conv_pass pass,
                       const struct wisp_kernels *k, uint32_t *to, const float *w, size_t row)
{
    const size_t all = c->kh * c->kw, rows = wisp_conv_rows_from(c, row);
    const size_t outs = wisp_parts(c->out, CHUNK), ins = wisp_parts(c->in, CHUNK);
    float some[BLOCK * TAPS * CHUNK];
    for (size_t q = 0; q < ins; q++)
        for (size_t tap = 0; tap < all; tap += TAPS) {
            const size_t taps = all - tap < TAPS ? all - tap : TAPS, ld = TAPS * CHUNK;
            gather(c, k, w, rows, q * CHUNK, tap, taps, some);
            if (pass == WISP_CONV_FORWARD) {
                k->pairs_t(to + ((row / BLOCK * ins + q) * all + tap) * PANEL, 0, some, ld,
                           taps * CHUNK, BLOCK);
                continue;
            }
            /* these rows are half a chunk of the source; the last one's other half is zeros */
            const size_t half = row / BLOCK % 2, next = outs * all * PANEL,
                         whole = half == 0 && row + BLOCK >= c->out ? CHUNK : BLOCK,
                         n = c->in - q * CHUNK > BLOCK ? CHUNK : BLOCK;
            uint32_t *at =
                to + ((2 * q * outs + row / CHUNK) * all + tap) * PANEL + half * PANEL / 2;
            for (size_t t = 0; t < taps; t++, at += PANEL)
                k->pairs(at, next, some + t * CHUNK, ld, NULL, rows, whole, n);
        }
}

/* Number i of a row of taps, which are 'n' for 16 columns, as halves of words. */
static void put(uint32_t *row, size_t i, size_t column, float x)
{
    row[i / CHUNK * PANEL + i % CHUNK / 2 * 16 + column] |= (uint32_t)wisp_round16(x) << i % 2 * 16;
}

static void pack_thin(const struct wisp_conv *c, enum wisp_conv_pass pass, uint32_t *to,
                      const float *w, size_t row)
{
    const bool forward = pass == WISP_CONV_FORWARD;
    const size_t source = forward ? c->in : c->out, chunks = wisp_parts(c->kw * source, CHUNK),
                 block = c->kh * chunks * PANEL, rows = wisp_conv_rows_from(c, row),
                 blocks = forward ? 1 : wisp_parts(c->in, BLOCK); /* forward: of these rows alone */
    if (forward) to += row / BLOCK * block;
    memset(to, 0, blocks * block * sizeof *to); /* data: these rows are all there are */
    for (size_t r = 0; r < rows; r++)
        for (size_t in = 0; in < c->in; in++)
            for (size_t i = 0; i < c->kh; i++)
                for (size_t k = 0; k < c->kw; k++) {
                    const float x = *w++;
                    if (forward) put(to + i * chunks * PANEL, k * c->in + in, r, x);
                    else
                        put(to + in / BLOCK * block + i * chunks * PANEL,
                            (c->kw - 1 - k) * c->out + r, in % BLOCK, x);
                }
}

/* ---- the way ---- */

static bool can(const struct wisp_conv *c, enum wisp_conv_pass pass, const struct wisp_kernels *k)
{
    (void)k;
    if (c->block == 1 && (pass == WISP_CONV_DATA || c->in > BLOCK)) return false;
    return c->groups == 1 && c->kh <= WISP_CONV_TAPS / c->kw;
}

static size_t weight_floats(const struct wisp_conv *c, enum wisp_conv_pass pass)
{
    if (pass == WISP_CONV_WEIGHTS) return wisp_conv_bf16_gw_floats(c);
    const struct sizes s = sizes_of(c, pass);
    return s.blocks * s.products * PANEL;
}

static void pack(const struct wisp_conv *c, enum wisp_conv_pass pass, const struct wisp_kernels *k,
                 float *to, const float *w, size_t row)
{
    if (sizes_of(c, pass).v.thin) pack_thin(c, pass, (uint32_t *)(void *)to, w, row);
    else pack_thick(c, pass, k, (uint32_t *)(void *)to, w, row);
}

static wisp_status run(const struct wisp_conv *c, enum wisp_conv_pass pass,
                       const struct wisp_conv_job *j, wisp_error *err)
{
    (void)err;
    if (pass == WISP_CONV_WEIGHTS) wisp_conv_bf16_weights(c, j);
    else run_walk(c, pass, j);
    return WISP_OK;
}

const struct wisp_conv_way wisp_conv_bf16 = {
    .name = "bf16",
    .what = "the same of numbers rounded to bf16, sums in fp32",
    .half = true,
    .masks = true,
    .counts = true,
    .can = can,
    .weight_floats = weight_floats,
    .thread_floats = thread_floats,
    .pack = pack,
    .rows = wisp_conv_bf16_rows,
    .run = run,
};

/* The gradient of the weights, the way 'bf16': for each tap a product over places, x^T gy, of a lot
 * (bf16.h) at a time.
 *
 *   gw (kh kw, in up to 32, out with a gap) | x turned (phases, channels, places) | gy in panels of pairs of
 *   places (blocks, places / 2, 16 words)
 *
 * A tap is only a distance in x turned, as places have one index; places between rows and samples
 * are zeros in gy.  Lots go one after the other: first chunks of channels of x and gy are rounded and
 * turned, each a task, then tiles of gw are summed up (k->sums16), some places at a time, which stay in
 * the first cache while all taps use them.  Each number of gw is one sum in the order of samples and places. */
#include "conv/bf16.h"
#include "base/cut.h"
#include "base/pool.h"
#include "kernels/kernels.h"

#include <string.h>

enum {
    BLOCK = WISP_PLANE_BLOCK,
    CHUNK = WISP_CONV_CHUNK,
    LOT_BYTES = 1024 * 1024, /* and half of gw, which each lot reads and writes */
    PLACES = 256,            /* of a product; ... */
    PLACES_OF_ONE = 1024,    /* ... where one tap is all there is */
    INS = 64,                /* a tile of gw, in the second cache with its x and gy */
    OUTS = 128,
    TASKS = 4, /* for each thread, at least */
    GAP = 16,  /* keeps rows of gw from falling on each other in the cache */
};

struct sizes {
    struct wisp_conv_view16 x, y;
    struct wisp_conv_lot lot; /* the largest */
    size_t rows;              /* of x turned: phases times channels, ... */
    size_t ldx, ldy;          /* ... numbers of each; words of a panel of gy */
    size_t blocks;            /* of gy, an even number */
    size_t ldw, tap, gw;      /* floats from row to row of gw, from tap to tap, and of all of it */
};

/* Of x turned: whole tiles. */
static size_t channels_of(const struct wisp_conv *c)
{
    return wisp_up(c->in, c->block == 1 ? BLOCK : CHUNK);
}

/* x turned has an odd number of lines of the cache in each row, for the same reason as GAP. */
static void measure(struct sizes *s)
{
    const size_t places = wisp_conv_plane16(&s->x, &s->lot) / CHUNK;
    s->ldx = wisp_up(places, CHUNK) + (wisp_up(places, CHUNK) / CHUNK % 2 ? 0 : CHUNK);
    s->ldy = wisp_up(wisp_conv_places(&s->x, &s->lot), CHUNK) / 2 * BLOCK;
}

static size_t lot_bytes(struct sizes *s)
{
    measure(s);
    return s->rows * s->ldx * sizeof(uint16_t) + s->blocks * s->ldy * sizeof(uint32_t);
}

static struct sizes sizes_of(const struct wisp_conv *c)
{
    const struct wisp_conv_walk w = wisp_conv_walk(c, WISP_CONV_FORWARD);
    struct sizes s = { .x = wisp_conv_view16(&w, c->in, false) };
    s.y = (struct wisp_conv_view16){ .channels = c->out,
                                     .block = BLOCK,
                                     .sh = c->oh,
                                     .sw = c->ow,
                                     .step = 1,
                                     .reach_h = 1,
                                     .reach_w = 1,
                                     .rows = c->oh,
                                     .cols = c->ow,
                                     .pitch = s.x.pitch,
                                     .high = s.x.high,
                                     .phases_h = 1,
                                     .phases_w = 1,
                                     .chunks = wisp_parts(c->out, CHUNK),
                                     .wide = CHUNK };
    s.rows = s.x.phases_h * s.x.phases_w * channels_of(c);
    s.blocks = 2 * s.y.chunks;
    s.ldw = wisp_up(c->out, BLOCK) + GAP;
    s.tap = channels_of(c) * s.ldw;
    s.gw = c->kh * c->kw * s.tap;
    s.lot = (struct wisp_conv_lot){ .samples = 1, .rows = c->oh };
    const size_t limit = LOT_BYTES + s.gw * sizeof(float) / 2, batch = c->batch ? c->batch : 1;
    while (s.lot.rows > 1 && lot_bytes(&s) > limit) s.lot.rows--;
    const size_t bands = wisp_parts(c->oh, s.lot.rows);
    s.lot.rows = wisp_parts(c->oh, bands);
    while (bands == 1 && s.lot.samples < batch && lot_bytes(&s) < limit) s.lot.samples++;
    measure(&s);
    return s;
}

struct shared {
    float *gw;
    uint16_t *x;
    uint32_t *y;
};

static struct shared lay(struct wisp_cut *cut, const struct sizes *s)
{
    struct shared h;
    h.gw = wisp_cut_take(cut, s->gw, sizeof *h.gw);
    h.x = wisp_cut_take(cut, s->rows * s->ldx, sizeof *h.x);
    h.y = wisp_cut_take(cut, s->blocks * s->ldy, sizeof *h.y);
    return h;
}

size_t wisp_conv_bf16_gw_floats(const struct wisp_conv *c)
{
    const struct sizes s = sizes_of(c);
    struct wisp_cut cut = { 0 };
    lay(&cut, &s);
    return wisp_parts(cut.at, sizeof(float));
}

/* A plane of a chunk, before it is turned. */
size_t wisp_conv_bf16_gw_scratch(const struct wisp_conv *c)
{
    const struct sizes s = sizes_of(c);
    const size_t x = wisp_conv_plane16(&s.x, &s.lot), y = wisp_conv_plane16(&s.y, &s.lot);
    return wisp_parts(x > y ? x : y, 2);
}

void wisp_conv_bf16_rows(const struct wisp_conv *c, const struct wisp_kernels *k, const float *gw,
                         size_t row, float *out)
{
    const size_t taps = c->kh * c->kw, ldw = wisp_up(c->out, BLOCK) + GAP;
    for (size_t i = 0; i < c->in; i++, out += taps)
        k->transpose(out, c->in * taps, gw + i * ldw + row, channels_of(c) * ldw, taps,
                     wisp_conv_rows_from(c, row));
}

struct summing {
    const struct wisp_conv *c;
    const struct wisp_conv_job *j;
    struct sizes s;
    struct shared h;
    struct wisp_conv_lot l; /* the one at hand */
    size_t sample;          /* its first */
    bool add;               /* it is not the first lot */
    size_t ins, outs, cuts; /* tasks: parts of the inputs, of the outputs, of the rows of taps */
};

/* ---- rounding and turning ---- */

/* A channel of an image, which has no blocks, and a phase of it; channels past the last are 0.
 * room: (pitch) */
static void turn_image(const struct summing *g, size_t phase, size_t channel, float *room)
{
    const struct wisp_conv_view16 *v = &g->s.x;
    const size_t a = phase / v->phases_w, b = phase % v->phases_w,
                 rows = wisp_conv_view_rows16(v, &g->l);
    size_t begin;
    const size_t past = wisp_conv_inside16(v, b, &begin);
    uint16_t *to = g->h.x + (phase * channels_of(g->c) + channel) * g->s.ldx, *end = to + g->s.ldx;
    for (size_t s = 0; s < g->l.samples && channel < g->c->in; s++) {
        const float *x =
            g->j->x + (g->sample + s) * wisp_conv_in_floats(g->c) + channel * v->sh * v->sw;
        for (size_t r = 0; r < rows; r++, to += v->pitch) {
            const size_t y = (g->l.first + r) * v->step + a - v->top; /* past the end: below 0 */
            memset(to, 0, v->pitch * sizeof *to);
            if (y >= v->sh) continue;
            const float *line = x + y * v->sw;
            for (size_t q = begin; q < past; q++) room[q] = line[b + q * v->step - v->left];
            g->j->k->to16(to + begin, room + begin, past - begin);
        }
    }
    memset(to, 0, (size_t)(end - to) * sizeof *to);
}

static void turn(void *arg, size_t task, int thread)
{
    const struct summing *g = arg;
    const struct sizes *s = &g->s;
    const struct wisp_kernels *k = g->j->k;
    float *room = g->j->thread_scratch + (size_t)thread * g->j->thread_apart;
    uint16_t *some = (uint16_t *)(void *)room;
    const size_t x = wisp_conv_in_floats(g->c), y = wisp_conv_out_floats(g->c);
    if (task < s->y.chunks) {
        const size_t places = wisp_conv_places(&s->x, &g->l);
        wisp_conv_fill16(&s->y, &g->l, k, task, g->j->gy + g->sample * y, y, some, NULL);
        k->pairs16(g->h.y + 2 * task * s->ldy, s->ldy, some, CHUNK, places, wisp_up(places, CHUNK),
                   CHUNK);
        return;
    }
    task -= s->y.chunks;
    if (g->c->block == 1) {
        turn_image(g, task / channels_of(g->c), task % channels_of(g->c), room);
        return;
    }
    wisp_conv_fill16(&s->x, &g->l, k, task, g->j->x + g->sample * x, x, some, NULL);
    k->turn16(g->h.x + task * CHUNK * s->ldx, s->ldx, some, CHUNK,
              wisp_conv_plane16(&s->x, &g->l) / CHUNK, CHUNK);
}

/* ---- products ---- */

static void sum(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct summing *g = arg;
    const struct wisp_conv *c = g->c;
    const struct sizes *s = &g->s;
    const size_t cut = task % g->cuts, in = task / g->cuts % g->ins * INS,
                 out = task / g->cuts / g->ins * OUTS, all = channels_of(c);
    const size_t places = wisp_up(wisp_conv_places(&s->x, &g->l), CHUNK),
                 step = c->kh * c->kw == 1 ? PLACES_OF_ONE : PLACES;
    size_t a_at[WISP_CONV_TAPS], c_at[WISP_CONV_TAPS], n = 0;
    for (size_t i = cut * c->kh / g->cuts; i < (cut + 1) * c->kh / g->cuts; i++)
        for (size_t e = 0; e < c->kw; e++) {
            a_at[n] = (wisp_conv_tap_phase(&s->x, i, e) * all + in) * s->ldx +
                      wisp_conv_tap_place(&s->x, i, e);
            c_at[n++] = (i * c->kw + e) * s->tap + in * s->ldw + out;
        }
    for (size_t p = 0; p < places; p += step) {
        const struct wisp_sums16 t = { .m = all - in < INS ? all - in : INS,
                                       .blocks = wisp_parts(
                                           c->out - out < OUTS ? c->out - out : OUTS, BLOCK),
                                       .k = places - p < step ? places - p : step,
                                       .n = n,
                                       .a = g->h.x + p,
                                       .lda = s->ldx,
                                       .b = g->h.y + out / BLOCK * s->ldy + p * (BLOCK / 2),
                                       .ldb = s->ldy,
                                       .c = g->h.gw,
                                       .ldc = s->ldw,
                                       .a_at = a_at,
                                       .c_at = c_at,
                                       .add = g->add || p > 0 };
        g->j->k->sums16(&t);
    }
}

void wisp_conv_bf16_weights(const struct wisp_conv *c, const struct wisp_conv_job *j)
{
    struct summing g = { .c = c, .j = j, .s = sizes_of(c) };
    struct wisp_cut cut =
        wisp_cut_of(j->gw, wisp_conv_bf16_gw_floats(c) * sizeof *j->gw, WISP_CUT_FRESH);
    const size_t threads = (size_t)wisp_pool_threads(j->pool),
                 phases = g.s.x.phases_h * g.s.x.phases_w;
    g.h = lay(&cut, &g.s);
    if (j->n == 0) memset(g.h.gw, 0, g.s.gw * sizeof *g.h.gw);
    g.ins = wisp_parts(c->in, INS), g.outs = wisp_parts(c->out, OUTS);
    g.cuts = wisp_parts(threads > 1 ? TASKS * threads : 1, g.ins * g.outs);
    if (g.cuts > c->kh) g.cuts = c->kh;
    for (g.sample = 0; g.sample < j->n; g.sample += g.s.lot.samples) {
        g.l = g.s.lot;
        if (j->n - g.sample < g.l.samples) g.l.samples = j->n - g.sample;
        for (; g.l.first < c->oh; g.l.first += g.s.lot.rows, g.add = true) {
            g.l.rows = c->oh - g.l.first < g.s.lot.rows ? c->oh - g.l.first : g.s.lot.rows;
            wisp_parallel_for(
                j->pool, g.s.y.chunks + phases * (c->block == 1 ? channels_of(c) : g.s.x.chunks),
                turn, &g);
            wisp_parallel_for(j->pool, g.ins * g.outs * g.cuts, sum, &g);
        }
    }
}

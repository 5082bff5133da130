/* The way 'skip': products with zeros are left out.  Here are forward, for zeros of x, and data, for
 * zeros of gy; skip.h says how pixels meet.
 *
 * The numbers of a place that are not 0 are found once, as bits, for some vectors of 16 channels at a
 * time (a chunk: rows of taps of one block of channels, or several), and serve all blocks of the
 * result.  A task is a band of rows, across samples:
 *
 *   for each remainder of columns, each chunk of the source
 *     copy the places of the band side by side, with their bits
 *     for each set of blocks of the result, each group of up to 3 taps    weights in the first cache
 *       for each row of the band: k->live_row                             sums in the second
 *
 *   sums (sets of blocks, rows, places, blocks, 16)       of a task; then copied to the result
 *   packed weights (sets of blocks, remainders of rows, remainders of columns, groups of taps,
 *                   blocks of the source, rows of taps, 16, taps, blocks of the set, 16)
 *
 * A place of sums is a column of the result, or of those with the same remainder (data), with some
 * columns beside it that meet taps only.
 *
 * A sum has a fixed order: neither the number of threads nor a task's share changes it.  It differs
 * from a dense one in one case: 0 times an infinite number or a NaN is NaN, and is left out here
 * where the 0 is the source's.  A NaN of the source is not 0. */
#include "conv/skip.h"
#include "base/pool.h"

#include <string.h>

enum {
    BLOCK = WISP_PLANE_BLOCK,
    BAND_FLOATS = 224 * 1024, /* sums and places of a band, in the second cache */
    MOST_ROWS = 256,
    TASKS = 2, /* for each thread, at least */
    /* Of the vectors of 16 channels so many are looked at for their zeros, one for so many
     * multiply-adds of the pass: looking takes about 0.3 % of it, and with 2000 the share is off by
     * 0.003, which is 1 % of the time. */
    SAMPLED_WORK = 300000,
    SAMPLED_LEAST = 128,
    SAMPLED_MOST = 4096,
};

struct plan {
    const struct wisp_conv *c;
    bool forward;
    size_t in, out;        /* blocks of the source and of the result */
    size_t sh, sw, dh, dw; /* pixels of both */
    size_t rows;           /* remainders of rows of the result: 1, or the stride for data */
    long first;            /* forward: the column of the result that place 0 of sums is */
    size_t places;         /* of a row of sums, all remainders */
    size_t most;           /* places of the source in a row */
    size_t band;           /* rows */
};

static struct wisp_skip_axis columns(const struct plan *p, size_t remainder)
{
    const struct wisp_conv *c = p->c;
    return wisp_skip_axis(p->sw, c->kw, c->stride, c->pad_w, p->forward, remainder);
}

static size_t ends(const struct wisp_skip_axis *a)
{
    return a->n && a->slots ? a->n + a->slots - 1 : 0;
}

static struct plan plan_of(const struct wisp_conv *c, enum wisp_conv_pass pass)
{
    const size_t in = wisp_parts(c->in, BLOCK), out = wisp_parts(c->out, BLOCK);
    struct plan p = { .c = c, .forward = pass == WISP_CONV_FORWARD };
    if (p.forward) {
        p.in = in, p.out = out, p.rows = 1;
        p.sh = c->h, p.sw = c->w, p.dh = c->oh, p.dw = c->ow;
    } else {
        p.in = out, p.out = in, p.rows = c->stride;
        p.sh = c->oh, p.sw = c->ow, p.dh = c->h, p.dw = c->w;
    }
    long last = 0;
    for (size_t i = 0; i < c->stride; i++) {
        const struct wisp_skip_axis a = columns(&p, i);
        if (!ends(&a)) continue;
        if (p.forward && (p.places == 0 || a.to < p.first)) p.first = a.to;
        if (p.forward && (p.places == 0 || a.to + (long)ends(&a) > last))
            last = a.to + (long)ends(&a);
        p.places = p.forward ? (size_t)(last - p.first) : p.places + ends(&a);
        p.most = wisp_most(p.most, a.n);
    }
    p.band =
        BAND_FLOATS / (p.places * p.out * BLOCK + p.most * (WISP_LIVE_SOURCES * BLOCK + 2) + 1);
    if (p.band < 1) p.band = 1;
    if (p.band > MOST_ROWS) p.band = MOST_ROWS;
    return p;
}

/* Where the sums of a remainder's place 0 begin. */
static size_t places_before(const struct plan *p, size_t remainder)
{
    size_t n = 0;
    if (p->forward) return (size_t)(columns(p, remainder).to - p->first);
    for (size_t i = 0; i < remainder; i++) {
        const struct wisp_skip_axis a = columns(p, i);
        n += ends(&a);
    }
    return n;
}

/* ---- rows ---- */

/* Taps of a remainder of rows: forward has one remainder and all taps. */
static size_t row_taps(const struct plan *p, size_t remainder)
{
    if (p->forward) return p->c->kh;
    return remainder < p->c->kh ? wisp_parts(p->c->kh - remainder, p->c->stride) : 0;
}

/* Rows of the result with this remainder, and the first of them. */
static size_t row_first(const struct plan *p, size_t remainder)
{
    const size_t stride = p->c->stride;
    return p->forward ? 0 : (remainder + stride - p->c->pad_h % stride) % stride;
}
static size_t row_count(const struct plan *p, size_t remainder)
{
    const size_t first = row_first(p, remainder);
    if (p->forward) return p->dh;
    return first < p->dh ? wisp_parts(p->dh - first, p->c->stride) : 0;
}

/* The row of the source that the result's row meets through a tap of its remainder; past the end
 * where there is none. */
static size_t source_row(const struct plan *p, size_t row, size_t remainder, size_t tap)
{
    const struct wisp_conv *c = p->c;
    if (p->forward) return row * c->stride + tap - c->pad_h; /* past the end where it is below 0 */
    return (row + c->pad_h - remainder) / c->stride - tap;
}

/* ---- weights ---- */

/* Blocks of the result at a time: one number for all groups of taps. */
static size_t set_of(const struct plan *p, const struct wisp_kernels *k)
{
    size_t taps = 1;
    for (size_t i = 0; i < p->c->stride; i++) {
        const struct wisp_skip_axis a = columns(p, i);
        if (a.slots)
            taps = wisp_most(taps, wisp_parts(a.slots, wisp_parts(a.slots, WISP_LIVE_TAPS)));
    }
    return k->live_forms->row_blocks[taps];
}

/* Vectors of the source at a time, such that weights of one set and group stay near. */
static size_t chunk_of(const struct wisp_kernels *k, size_t slots, size_t blocks)
{
    const size_t taps = wisp_parts(slots, wisp_parts(slots, WISP_LIVE_TAPS));
    const size_t n = k->live_forms->near_floats / (BLOCK * taps * blocks * BLOCK);
    return n < 1 ? 1 : n > WISP_LIVE_SOURCES ? WISP_LIVE_SOURCES : n;
}

/* Floats, times those of a set, before the weights of these remainders and slots. */
static size_t weights_before(const struct plan *p, size_t rows, size_t cols, size_t slot)
{
    size_t n = 0;
    for (size_t i = 0; i < rows; i++) n += row_taps(p, i) * p->c->kw;
    for (size_t i = 0; i < cols; i++) slot += columns(p, i).slots;
    return (n + row_taps(p, rows) * slot) * p->in * BLOCK;
}

static size_t weight_floats(const struct wisp_conv *c, enum wisp_conv_pass pass)
{
    if (pass == WISP_CONV_WEIGHTS) return wisp_skip_gw_floats(c);
    return wisp_parts(c->in, BLOCK) * wisp_parts(c->out, BLOCK) * BLOCK * BLOCK * c->kh * c->kw;
}

struct packing {
    const struct plan *p;
    size_t begin, blocks; /* of the set of the result's block ... */
    float *to;            /* ... and its weights, which begin here */
};

static struct packing packing_of(const struct plan *p, const struct wisp_kernels *k, float *to,
                                 size_t o)
{
    const size_t sets = wisp_parts(p->out, set_of(p, k));
    struct packing g = { .p = p };
    size_t set = 0;
    while (o >= wisp_skip_begin(p->out, sets, set + 1)) set++;
    g.begin = wisp_skip_begin(p->out, sets, set);
    g.blocks = wisp_skip_begin(p->out, sets, set + 1) - g.begin;
    g.to = to + g.begin * BLOCK * p->in * BLOCK * p->c->kh * p->c->kw + (o - g.begin) * BLOCK;
    return g;
}

/* Vectors (n, kh, kw, 16) between channels first .. first + n - 1 of a block of the source and a
 * block of the result go to their places. */
static void place_taps(const struct packing *g, const float *from, size_t block, size_t first,
                       size_t n)
{
    const struct plan *p = g->p;
    const struct wisp_conv *c = p->c;
    const size_t line = g->blocks * BLOCK;
    for (size_t rows = 0; rows < p->rows; rows++)
        for (size_t cols = 0; cols < c->stride; cols++) {
            const struct wisp_skip_axis a = columns(p, cols);
            const size_t many = row_taps(p, rows), groups = wisp_parts(a.slots, WISP_LIVE_TAPS);
            for (size_t e = 0; e < groups * many; e++) {
                const size_t slot = wisp_skip_begin(a.slots, groups, e / many),
                             slots = wisp_skip_begin(a.slots, groups, e / many + 1) - slot,
                             t = e % many, y = p->forward ? t : rows + t * c->stride;
                float *to = g->to + (weights_before(p, rows, cols, slot) +
                                     ((block * many + t) * BLOCK + first) * slots) *
                                        line;
                for (size_t i = 0; i < n; i++)
                    for (size_t s = 0; s < slots; s++, to += line) {
                        const size_t tap = y * c->kw + wisp_skip_tap(&a, c->stride, slot + s);
                        memcpy(to, from + (i * c->kh * c->kw + tap) * BLOCK, BLOCK * sizeof *to);
                    }
            }
        }
}

static void pack(const struct wisp_conv *c, enum wisp_conv_pass pass, const struct wisp_kernels *k,
                 float *to, const float *w, size_t row)
{
    const struct plan p = plan_of(c, pass);
    const size_t taps = c->kh * c->kw, rows = wisp_conv_rows_from(c, row), n = wisp_conv_row(c),
                 channels = p.forward ? c->in : rows, results = p.forward ? 1 : p.out;
    float room[WISP_CONV_SKIP_TAPS * BLOCK] = { 0 };
    size_t most = WISP_CONV_SKIP_TAPS / taps; /* channels of the source at a time */
    if (most > BLOCK) most = BLOCK;
    for (size_t o = 0; o < results; o++) {
        const struct packing g = packing_of(&p, k, to, p.forward ? row / BLOCK : o);
        const size_t ins = c->in - o * BLOCK < BLOCK ? c->in - o * BLOCK : BLOCK;
        if (ins < BLOCK) memset(room, 0, sizeof room);
        for (size_t i = 0, some; i < channels; i += some) {
            const size_t whole = i % BLOCK + most > BLOCK ? BLOCK - i % BLOCK : most;
            some = channels - i < whole ? channels - i : whole;
            if (p.forward) k->transpose(room, BLOCK, w + i * taps, n, rows, some * taps);
            for (size_t e = 0; !p.forward && e < some; e++)
                k->transpose(room + e * taps * BLOCK, BLOCK, w + (i + e) * n + o * BLOCK * taps,
                             taps, ins, taps);
            place_taps(&g, room, p.forward ? i / BLOCK : row / BLOCK, i % BLOCK, some);
        }
    }
}

/* ---- a task ---- */

struct walking {
    struct plan p;
    const struct wisp_conv_job *j;
    const float *source;
    float *result;
    size_t source_floats, result_floats; /* of a sample */
    size_t set, sets, parts;             /* tasks of a band */
    size_t bands, remainder;             /* of rows: one after the other */
};

struct task {
    size_t first, rows; /* of all rows of this remainder, across samples */
    size_t set, last;   /* sets */
    size_t block;       /* the first of its blocks */
    float *x, *sums;    /* (rows, places, chunk, 16); as above */
    uint64_t *live;     /* (rows, places) */
};

static float *sums_of(const struct plan *p, const struct task *t, size_t block, size_t blocks,
                      size_t row)
{
    return t->sums + (((block - t->block) * t->rows + row * blocks) * p->places) * BLOCK;
}

static void find_rows(const struct walking *g, const struct task *t, const struct wisp_skip_axis *a,
                      size_t vector, size_t chunk)
{
    const struct plan *p = &g->p;
    const size_t count = row_count(p, g->remainder), first = row_first(p, g->remainder),
                 taps = row_taps(p, g->remainder);
    for (size_t r = 0; r < t->rows; r++) {
        const size_t sample = (t->first + r) / count,
                     row = first + (t->first + r) % count * p->rows;
        const float *from[WISP_LIVE_SOURCES];
        for (size_t v = 0; v < chunk; v++) {
            const size_t b = (vector + v) / taps,
                         y = source_row(p, row, g->remainder, (vector + v) % taps);
            from[v] = y < p->sh ? g->source + sample * g->source_floats +
                                      ((b * p->sh + y) * p->sw + a->first) * BLOCK
                                : NULL;
        }
        g->j->k->live_find(t->x + r * a->n * chunk * BLOCK, t->live + r * a->n, from, chunk, a->n,
                           a->step);
    }
}

/* All that one chunk adds. */
static void add_chunk(const struct walking *g, const struct task *t, const struct wisp_skip_axis *a,
                      size_t cols, size_t vector, size_t chunk)
{
    const struct plan *p = &g->p;
    const size_t groups = wisp_parts(a->slots, WISP_LIVE_TAPS), before = places_before(p, cols),
                 all = p->in * BLOCK * p->c->kh * p->c->kw;
    for (size_t set = t->set; set < t->last; set++) {
        const size_t block = wisp_skip_begin(p->out, g->sets, set),
                     blocks = wisp_skip_begin(p->out, g->sets, set + 1) - block;
        for (size_t i = 0; i < groups; i++) {
            const size_t slot = wisp_skip_begin(a->slots, groups, i),
                         taps = wisp_skip_begin(a->slots, groups, i + 1) - slot;
            const size_t one = BLOCK * taps * blocks * BLOCK; /* weights of a vector */
            const float *w = g->j->w + block * BLOCK * all +
                             weights_before(p, g->remainder, cols, slot) * blocks * BLOCK +
                             vector * one;
            /* the next set's weights lie all * blocks * BLOCK on, if it has as many blocks */
            const float *soon = set + 1 < t->last ? w + all * blocks * BLOCK : NULL;
            const size_t lines = chunk * one / BLOCK;
            for (size_t r = 0; r < t->rows; r++) {
                const struct wisp_live_row job = {
                    .n = a->n,
                    .sources = chunk,
                    .x = t->x + r * a->n * chunk * BLOCK,
                    .live = t->live + r * a->n,
                    .taps = taps,
                    .blocks = blocks,
                    .w = w,
                    .c = sums_of(p, t, block, blocks, r) + (before + slot) * blocks * BLOCK,
                    .soon = soon && (r + 1) * a->n <= lines ? soon + r * a->n * BLOCK : NULL,
                };
                g->j->k->live_row(&job);
            }
        }
    }
}

/* All sums begin with the bias. */
static void begin_sums(const struct walking *g, const struct task *t)
{
    const struct plan *p = &g->p;
    for (size_t set = t->set; set < t->last; set++) {
        const size_t block = wisp_skip_begin(p->out, g->sets, set),
                     blocks = wisp_skip_begin(p->out, g->sets, set + 1) - block, n = blocks * BLOCK;
        float *to = sums_of(p, t, block, blocks, 0);
        if (!g->j->bias || !p->forward) {
            memset(to, 0, t->rows * p->places * n * sizeof *to);
            continue;
        }
        for (size_t i = 0; i < n; i++)
            to[i] = block * BLOCK + i < p->c->out ? g->j->bias[block * BLOCK + i] : 0;
        for (size_t i = 1; i < t->rows * p->places; i++) memcpy(to + i * n, to, n * sizeof *to);
    }
}

/* The place of a column of the result; past the last where it meets nothing. */
static size_t place_of(const struct plan *p, size_t col)
{
    if (p->forward) {
        const long at = (long)col - p->first;
        return at < 0 ? p->places : (size_t)at;
    }
    const size_t remainder = (col + p->c->pad_w) % p->c->stride,
                 at = (col + p->c->pad_w) / p->c->stride;
    const struct wisp_skip_axis a = columns(p, remainder);
    return at < ends(&a) ? places_before(p, remainder) + at : p->places;
}

static void end_sums(const struct walking *g, const struct task *t, int thread)
{
    const struct plan *p = &g->p;
    const size_t count = row_count(p, g->remainder), first = row_first(p, g->remainder);
    for (size_t set = t->set; set < t->last; set++) {
        const size_t block = wisp_skip_begin(p->out, g->sets, set),
                     blocks = wisp_skip_begin(p->out, g->sets, set + 1) - block;
        for (size_t col = 0; col < p->dw; col++) {
            const size_t at = place_of(p, col);
            for (size_t e = 0; e < t->rows * blocks; e++) {
                const size_t r = e / blocks, b = e % blocks, sample = (t->first + r) / count,
                             row = first + (t->first + r) % count * p->rows;
                float *to = g->result + sample * g->result_floats +
                            (((block + b) * p->dh + row) * p->dw + col) * BLOCK;
                const float *from = sums_of(p, t, block, blocks, r) + (at * blocks + b) * BLOCK;
                if (at < p->places) memcpy(to, from, BLOCK * sizeof *to);
                else
                    for (size_t i = 0; i < BLOCK; i++)
                        to[i] = g->j->bias && p->forward && (block + b) * BLOCK + i < p->c->out
                                    ? g->j->bias[(block + b) * BLOCK + i]
                                    : 0;
            }
        }
        const float *mask = p->forward ? NULL : g->j->mask;
        for (size_t e = 0; ((p->forward && g->j->relu) || mask) && e < t->rows * blocks; e++) {
            const size_t sample = (t->first + e / blocks) / count,
                         row = first + (t->first + e / blocks) % count * p->rows, n = p->dw * BLOCK,
                         at = sample * g->result_floats + ((block + e % blocks) * p->dh + row) * n;
            float *to = g->result + at;
            uint64_t *live = wisp_conv_live(g->j, p->forward, thread, block + e % blocks);
            if (mask) g->j->k->relu_back(to, to, mask + at, n);
            else if (live) *live += g->j->k->relu_live(to, to, n);
            else g->j->k->relu(to, to, n);
        }
    }
}

static void walk(void *arg, size_t number, int thread)
{
    const struct walking *g = arg;
    const struct plan *p = &g->p;
    const size_t band = number / g->parts, part = number % g->parts,
                 all = g->j->n * row_count(p, g->remainder);
    struct task t = { .first = wisp_skip_begin(all, g->bands, band),
                      .set = wisp_skip_begin(g->sets, g->parts, part),
                      .last = wisp_skip_begin(g->sets, g->parts, part + 1) };
    t.rows = wisp_skip_begin(all, g->bands, band + 1) - t.first;
    t.block = wisp_skip_begin(p->out, g->sets, t.set);
    t.sums = g->j->thread_scratch + (size_t)thread * g->j->thread_apart;
    t.x = t.sums + p->band * p->places * p->out * BLOCK;
    t.live = (uint64_t *)(void *)(t.x + p->band * p->most * WISP_LIVE_SOURCES * BLOCK);
    begin_sums(g, &t);
    for (size_t cols = 0; cols < p->c->stride; cols++) {
        const struct wisp_skip_axis a = columns(p, cols);
        const size_t vectors = p->in * row_taps(p, g->remainder);
        if (!ends(&a)) continue;
        const size_t chunk = chunk_of(g->j->k, a.slots, g->set);
        for (size_t v = 0; v < vectors; v += chunk) {
            const size_t some = vectors - v < chunk ? vectors - v : chunk;
            find_rows(g, &t, &a, v, some);
            add_chunk(g, &t, &a, cols, v, some);
        }
    }
    end_sums(g, &t, thread);
}

/* Tasks of about one size, and as many for each thread: bands as they fit, or up to twice as many, each
 * with all sets; where that is not enough, sets are shared out, too, and each part looks for zeros
 * again. */
static void share_out(struct walking *g, size_t rows, int threads)
{
    const size_t fitting = wisp_parts(rows, g->p.band),
                 wanted = threads > 1 ? TASKS * (size_t)threads : 1;
    g->parts = 0;
    do {
        do g->parts++;
        while (g->sets % g->parts);
        size_t each = wisp_parts(wanted, g->parts); /* bands come in so many */
        while (each * g->parts % (size_t)threads) each++;
        g->bands = wisp_parts(fitting, each) * each;
    } while (g->parts < g->sets && g->bands > 2 * fitting);
    if (g->bands > rows) g->bands = rows;
}

static void run_walk(const struct wisp_conv *c, enum wisp_conv_pass pass,
                     const struct wisp_conv_job *j)
{
    struct walking g = { .p = plan_of(c, pass), .j = j };
    const size_t x = wisp_conv_in_floats(c), y = wisp_conv_out_floats(c);
    g.source = g.p.forward ? j->x : j->gy, g.source_floats = g.p.forward ? x : y;
    g.result = g.p.forward ? j->y : j->gx, g.result_floats = g.p.forward ? y : x;
    g.set = set_of(&g.p, j->k);
    g.sets = wisp_parts(g.p.out, g.set);
    for (g.remainder = 0; g.remainder < g.p.rows; g.remainder++) {
        const size_t all = j->n * row_count(&g.p, g.remainder);
        if (all == 0) continue;
        share_out(&g, all, wisp_pool_threads(j->pool));
        wisp_parallel_for(j->pool, g.bands * g.parts, walk, &g);
    }
}

/* ---- zeros ---- */

/* Vectors of 16 channels, evenly, each somewhere in its part: no two images or blocks of channels
 * are asked at the same pixel. */
double wisp_conv_zero_share(const struct wisp_conv *c, const struct wisp_conv_job *j, bool of_x)
{
    const float *from = of_x ? j->x : j->gy;
    const size_t all = j->n * (of_x ? wisp_conv_in_floats(c) : wisp_conv_out_floats(c)) / BLOCK,
                 work = j->n * c->oh * c->ow * c->out * wisp_conv_row(c) / SAMPLED_WORK,
                 wanted = work < SAMPLED_LEAST  ? SAMPLED_LEAST
                          : work > SAMPLED_MOST ? SAMPLED_MOST
                                                : work,
                 some = wanted < all ? wanted : all;
    uint32_t zeros[BLOCK] = { 0 };
    size_t sum = 0;
    for (size_t i = 0; i < some; i++) {
        const uint64_t within = (uint32_t)i * 2654435769u; /* of 2^32, by the golden ratio */
        const float *x = from + (i * all + (size_t)(within * all >> 32)) / some * BLOCK;
        for (size_t e = 0; e < BLOCK; e++) zeros[e] += x[e] == 0;
    }
    for (size_t e = 0; e < BLOCK; e++) sum += zeros[e];
    return some ? (double)sum / (double)(some * BLOCK) : 0;
}

/* ---- the way ---- */

static bool can(const struct wisp_conv *c, enum wisp_conv_pass pass, const struct wisp_kernels *k)
{
    (void)pass, (void)k;
    return c->block == BLOCK && c->groups == 1 && c->kh <= WISP_CONV_SKIP_TAPS / c->kw;
}

static size_t thread_floats(const struct wisp_conv *c, enum wisp_conv_pass pass)
{
    if (pass == WISP_CONV_WEIGHTS) return wisp_skip_gw_scratch(c);
    const struct plan p = plan_of(c, pass);
    return p.band * (p.places * p.out * BLOCK + p.most * (WISP_LIVE_SOURCES * BLOCK + 2));
}

static wisp_status run(const struct wisp_conv *c, enum wisp_conv_pass pass,
                       const struct wisp_conv_job *j, wisp_error *err)
{
    (void)err;
    if (pass == WISP_CONV_WEIGHTS) wisp_skip_weights(c, j);
    else run_walk(c, pass, j);
    return WISP_OK;
}

const struct wisp_conv_way wisp_conv_skip = {
    .name = "skip",
    .what = "sums over taps without the products with zeros; where WISP_CONV names it",
    .masks = true,
    .counts = true,
    .asked = true,
    .can = can,
    .weight_floats = weight_floats,
    .thread_floats = thread_floats,
    .pack = pack,
    .rows = wisp_skip_rows,
    .run = run,
};

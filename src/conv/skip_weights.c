/* The gradient of the weights, the way 'skip': for zeros of x or of gy, whichever has more of them.
 *
 * The side with more zeros is the source, the other one comes as vectors; skip.h says how they meet.
 * A number of the source that is not 0 is multiplied with the vectors of a group of up to 3x3 taps,
 * which lie around it, for some blocks of the other side: sums (taps, blocks, 16) of one channel of
 * the source, in registers while all numbers of that channel in a tile are walked:
 *
 *   tile       up to 8 x 14 pixels of the source, so that the vectors they meet, 10 x 16 pixels of up
 *              to 3 blocks, fill most of the first cache
 *
 *   for each range of channels of the source, each remainder of rows and of columns      (a task)
 *     for some tiles: turn them to (channel, place) with their bits
 *       for each set of blocks, each group of taps, each tile
 *         copy the vectors of the tile side by side
 *         k->live_sums for all channels of the range
 *
 *   gw (parts, remainders of rows, of columns, sets of blocks, groups of taps,
 *       channels of the source, rows of taps, taps, blocks of the set, 16), then a struct heading
 *
 * Parts of the samples are as many as the sizes say, not the threads, and added in order. */
#include "conv/skip.h"
#include "base/pool.h"

#include <string.h>

enum {
    BLOCK = WISP_PLANE_BLOCK,
    RANGE = 8,               /* blocks of the source of a task */
    MOST_ROWS = 8,           /* of a tile */
    MOST_WORDS = 2,          /* of its bits */
    SOME_TILES = 8,          /* turned at a time: the second cache holds them, and the sums */
    NEAR_FLOATS = 12 * 1024, /* no set of kernels has more */
    ENOUGH_TASKS = 8,        /* and no more parts than these */
    HEADING = 16,            /* floats */
};

struct heading { /* what row() must know of the run */
    const struct wisp_live_forms *forms;
    bool of_x;
};

struct side { /* x or gy */
    const float *p;
    size_t channels, blocks, h, w, floats; /* floats: of a sample */
};

struct summing {
    const struct wisp_conv *c;
    const struct wisp_conv_job *j;
    struct heading head;
    struct side from, to; /* the source; what comes as vectors */
    size_t ranges, parts, slices;
};

/* ---- how gw lies ---- */

struct region { /* of one remainder of rows and of columns */
    struct wisp_skip_axis rows, cols;
    size_t row_groups, col_groups; /* groups of taps */
    size_t most_rows, most_cols;   /* taps of the largest */
    size_t sets;                   /* of blocks */
    size_t at;                     /* floats before it */
};

static struct region region_of(const struct wisp_conv *c, const struct heading *h, size_t row,
                               size_t col)
{
    const struct wisp_live_forms *f = h->forms;
    const size_t both = wisp_up(c->in, BLOCK) * wisp_up(c->out, BLOCK);
    const size_t blocks = wisp_parts(h->of_x ? c->out : c->in, BLOCK);
    struct region r = {
        .rows = wisp_skip_axis(h->of_x ? c->h : c->oh, c->kh, c->stride, c->pad_h, h->of_x, row),
        .cols = wisp_skip_axis(h->of_x ? c->w : c->ow, c->kw, c->stride, c->pad_w, h->of_x, col)
    };
    if (!r.rows.slots || !r.cols.slots) return r;
    r.row_groups = wisp_parts(r.rows.slots, f->rows);
    r.col_groups = wisp_parts(r.cols.slots, WISP_LIVE_TAPS);
    r.most_rows = wisp_parts(r.rows.slots, r.row_groups);
    r.most_cols = wisp_parts(r.cols.slots, r.col_groups);
    r.sets = wisp_parts(blocks, f->sum_blocks[r.most_rows][r.most_cols]);
    for (size_t i = 0; i < row; i++)
        r.at += wisp_skip_axis(c->h, c->kh, c->stride, c->pad_h, h->of_x, i).slots * c->kw;
    for (size_t i = 0; i < col; i++)
        r.at += r.rows.slots * wisp_skip_axis(c->w, c->kw, c->stride, c->pad_w, h->of_x, i).slots;
    r.at *= both;
    return r;
}

struct group {                   /* of taps, of one set of blocks */
    size_t row, rows, col, cols; /* slots */
    size_t block, blocks;
    size_t at; /* floats before its first channel */
};

/* 'channels' are the source's, filled up; 'all' blocks of the other side. */
static struct group group_of(const struct region *r, size_t channels, size_t all, size_t set,
                             size_t row, size_t col)
{
    struct group g = { .row = wisp_skip_begin(r->rows.slots, r->row_groups, row),
                       .col = wisp_skip_begin(r->cols.slots, r->col_groups, col),
                       .block = wisp_skip_begin(all, r->sets, set) };
    g.rows = wisp_skip_begin(r->rows.slots, r->row_groups, row + 1) - g.row;
    g.cols = wisp_skip_begin(r->cols.slots, r->col_groups, col + 1) - g.col;
    g.blocks = wisp_skip_begin(all, r->sets, set + 1) - g.block;
    g.at = r->at + channels * BLOCK *
                       (g.block * r->rows.slots * r->cols.slots +
                        g.blocks * (g.row * r->cols.slots + g.rows * g.col));
    return g;
}

static size_t part_floats(const struct wisp_conv *c)
{
    return wisp_up(c->in, BLOCK) * wisp_up(c->out, BLOCK) * c->kh * c->kw;
}

/* Parts of the samples, at most. */
static size_t most_parts(const struct wisp_conv *c)
{
    const size_t in = wisp_parts(c->in, BLOCK), out = wisp_parts(c->out, BLOCK);
    return wisp_parts(ENOUGH_TASKS, wisp_parts(in * out, RANGE));
}

size_t wisp_skip_gw_floats(const struct wisp_conv *c)
{
    return part_floats(c) * most_parts(c) + HEADING;
}

static float *heading_at(const struct wisp_conv *c, float *gw)
{
    return gw + part_floats(c) * most_parts(c);
}

/* Where the vectors of one block of the other side lie: of each tap that of the source's channel 0,
 * and how far on the next channel's is. */
struct taps {
    size_t at[WISP_CONV_SKIP_TAPS], apart[WISP_CONV_SKIP_TAPS];
};

static void find_taps(struct taps *to, const struct wisp_conv *c, const struct heading *h,
                      size_t block)
{
    const size_t channels = wisp_up(h->of_x ? c->in : c->out, BLOCK),
                 all = wisp_parts(h->of_x ? c->out : c->in, BLOCK);
    for (size_t e = 0; e < c->stride * c->stride; e++) {
        const struct region r = region_of(c, h, e / c->stride, e % c->stride);
        const size_t groups = r.row_groups * r.col_groups;
        for (size_t i = 0; i < groups * r.sets; i++) {
            const struct group g = group_of(&r, channels, all, i / groups,
                                            i % groups / r.col_groups, i % r.col_groups);
            if (block < g.block || block >= g.block + g.blocks) continue;
            for (size_t t = 0; t < g.rows * g.cols; t++) {
                const size_t y = wisp_skip_tap(&r.rows, c->stride, g.row + t / g.cols),
                             x = wisp_skip_tap(&r.cols, c->stride, g.col + t % g.cols);
                to->at[y * c->kw + x] = g.at + (t * g.blocks + block - g.block) * BLOCK;
                to->apart[y * c->kw + x] = g.rows * g.cols * g.blocks * BLOCK;
            }
        }
    }
}

/* Vectors (n, taps, 16) of channels first .. first + n - 1. */
static void take_taps(float *to, const struct taps *t, size_t taps, const float *gw, size_t first,
                      size_t n)
{
    for (size_t i = first; i < first + n; i++)
        for (size_t e = 0; e < taps; e++, to += BLOCK)
            memcpy(to, gw + t->at[e] + i * t->apart[e], BLOCK * sizeof *to);
}

void wisp_skip_rows(const struct wisp_conv *c, const struct wisp_kernels *k, const float *gw,
                    size_t row, float *out)
{
    struct heading h;
    struct taps t;
    float room[WISP_CONV_SKIP_TAPS * BLOCK];
    memcpy(&h, gw + part_floats(c) * most_parts(c), sizeof h);
    const size_t taps = c->kh * c->kw, rows = wisp_conv_rows_from(c, row), n = wisp_conv_row(c),
                 most = WISP_CONV_SKIP_TAPS / taps;
    if (h.of_x) find_taps(&t, c, &h, row / BLOCK);
    for (size_t i = 0, some; h.of_x && i < c->in; i += some) {
        some = c->in - i < most ? c->in - i : most;
        take_taps(room, &t, taps, gw, i, some);
        k->transpose(out + i * taps, n, room, BLOCK, some * taps, rows);
    }
    for (size_t i = 0; !h.of_x && i < c->in; i += BLOCK) {
        find_taps(&t, c, &h, i / BLOCK);
        for (size_t r = 0; r < rows; r++) {
            take_taps(room, &t, taps, gw, row + r, 1);
            k->transpose(out + r * n + i * taps, taps, room, BLOCK, taps,
                         c->in - i < BLOCK ? c->in - i : BLOCK);
        }
    }
}

/* ---- tiles ---- */

struct grid { /* the tiles of a region of one sample */
    size_t down, across;
    size_t rows, cols; /* of the source, of one tile at most */
    size_t words;
};

static struct grid grid_of(const struct region *r, const struct wisp_live_forms *f)
{
    const size_t blocks = f->sum_blocks[r->most_rows][r->most_cols];
    struct grid g;
    g.rows = f->near_floats / (WISP_LIVE_COLS * blocks * BLOCK) + 1 - r->most_rows;
    if (g.rows > MOST_ROWS) g.rows = MOST_ROWS;
    g.cols = WISP_LIVE_COLS + 1 - r->most_cols;
    g.down = wisp_parts(r->rows.n, g.rows);
    g.across = wisp_parts(r->cols.n, g.cols);
    g.words = wisp_parts(g.rows, BLOCK * 4 / WISP_LIVE_COLS);
    return g;
}

struct tile {
    size_t sample, row, rows, col, cols; /* pixels of the region: see skip.h */
};

static struct tile tile_of(const struct region *r, const struct grid *g, size_t first, size_t i)
{
    const size_t down = i / g->across % g->down, across = i % g->across;
    struct tile t = { .sample = first + i / g->across / g->down,
                      .row = wisp_skip_begin(r->rows.n, g->down, down),
                      .col = wisp_skip_begin(r->cols.n, g->across, across) };
    t.rows = wisp_skip_begin(r->rows.n, g->down, down + 1) - t.row;
    t.cols = wisp_skip_begin(r->cols.n, g->across, across + 1) - t.col;
    return t;
}

/* Blocks of the source to (channels, words, 64) and bits. */
static void turn(const struct summing *s, const struct region *r, const struct grid *g,
                 const struct tile *t, size_t block, size_t blocks, float *x, uint64_t *live)
{
    const size_t apart = g->words * 64;
    const struct side *from = &s->from;
    memset(x, 0, blocks * BLOCK * apart * sizeof *x);
    for (size_t b = 0; b < blocks; b++)
        for (size_t i = 0; i < t->rows; i++) {
            const size_t y = r->rows.first + (t->row + i) * r->rows.step,
                         at = r->cols.first + t->col * r->cols.step;
            s->j->k->transpose(x + b * BLOCK * apart + i * WISP_LIVE_COLS, apart,
                               from->p + t->sample * from->floats +
                                   (((block + b) * from->h + y) * from->w + at) * BLOCK,
                               r->cols.step * BLOCK, t->cols, BLOCK);
        }
    s->j->k->live_pack(live, x, blocks * BLOCK, g->words);
}

struct vectors { /* that a tile meets through a group of taps: (rows, 16, blocks, 16) */
    size_t rows, cols, begin, end;                       /* columns begin .. end - 1 are there */
    const float *from[(MOST_ROWS + 2) * WISP_LIVE_COLS]; /* (rows, blocks); NULL: no such row */
};

static void find_vectors(struct vectors *v, const struct summing *s, const struct region *r,
                         const struct group *g, const struct tile *t)
{
    const struct side *to = &s->to;
    const long step = (long)r->cols.to_step,
               left = step * (long)(t->col + g->col) + r->cols.to; /* of the first column */
    v->rows = t->rows + g->rows - 1;
    v->begin = 0, v->end = v->cols = t->cols + g->cols - 1;
    while (v->begin < v->cols && left + (long)v->begin * step < 0) v->begin++;
    while (v->end > v->begin && left + (long)(v->end - 1) * step >= (long)to->w) v->end--;
    for (size_t i = 0; i < v->rows * g->blocks; i++) {
        const long y = (long)r->rows.to_step * (long)(t->row + g->row + i / g->blocks) + r->rows.to;
        const bool there = y >= 0 && y < (long)to->h && v->begin < v->end;
        v->from[i] = there ? to->p + t->sample * to->floats +
                                 (((g->block + i % g->blocks) * to->h + (size_t)y) * to->w +
                                  (size_t)(left + (long)v->begin * step)) *
                                     BLOCK
                           : NULL;
    }
}

static void gather(const struct vectors *v, const struct wisp_kernels *k, size_t blocks,
                   size_t step, float *to)
{
    static const float *const none[WISP_LIVE_COLS];
    const size_t line = blocks * BLOCK;
    for (size_t i = 0; i < v->rows; i++, to += WISP_LIVE_COLS * line) {
        k->weave(to, none, blocks, v->begin, 0);
        k->weave(to + v->begin * line, v->from + i * blocks, blocks, v->end - v->begin, step);
        k->weave(to + v->end * line, none, blocks, v->cols - v->end, 0);
    }
}

/* ---- a task ---- */

struct task {
    size_t first, last;   /* samples */
    size_t block, blocks; /* of the source */
    size_t slice;
    float *gw;
    float *v, *x; /* (rows, 16, blocks, 16); (SOME_TILES, channels, words, 64) */
    uint64_t *live;
};

static size_t sums_before(const struct group *g, size_t channel)
{
    return g->at + channel * g->rows * g->cols * g->blocks * BLOCK;
}

static void sum_region(const struct summing *s, const struct task *t, const struct region *r)
{
    const struct grid grid = grid_of(r, s->head.forms);
    const size_t tiles = (t->last - t->first) * grid.down * grid.across,
                 apart = t->blocks * BLOCK * grid.words, groups = r->row_groups * r->col_groups,
                 channels = s->from.blocks * BLOCK;
    const size_t begin = wisp_skip_begin(r->sets, s->slices, t->slice) * groups,
                 end = wisp_skip_begin(r->sets, s->slices, t->slice + 1) * groups;
    for (size_t i = begin; i < end; i++) {
        const struct group g = group_of(r, channels, s->to.blocks, i / groups,
                                        i % groups / r->col_groups, i % r->col_groups);
        memset(t->gw + sums_before(&g, t->block * BLOCK), 0,
               (sums_before(&g, t->blocks * BLOCK) - g.at) * sizeof *t->gw);
    }
    if (begin == end) return;
    for (size_t first = 0; first < tiles; first += SOME_TILES) {
        const size_t some = tiles - first < SOME_TILES ? tiles - first : SOME_TILES;
        struct tile tile[SOME_TILES];
        for (size_t e = 0; e < some; e++) {
            tile[e] = tile_of(r, &grid, t->first, first + e);
            turn(s, r, &grid, &tile[e], t->block, t->blocks, t->x + e * apart * 64,
                 t->live + e * apart);
        }
        for (size_t i = begin; i < end; i++) {
            const struct group g = group_of(r, channels, s->to.blocks, i / groups,
                                            i % groups / r->col_groups, i % r->col_groups);
            struct vectors
                v[2]; /* this tile's, and the next one's, which are asked for meanwhile */
            find_vectors(&v[0], s, r, &g, &tile[0]);
            for (size_t e = 0; e < some; e++) {
                const struct vectors *now = &v[e % 2], *next = &v[(e + 1) % 2];
                const bool more = e + 1 < some;
                if (more) find_vectors(&v[(e + 1) % 2], s, r, &g, &tile[e + 1]);
                gather(now, s->j->k, g.blocks, r->cols.to_step, t->v);
                const struct wisp_live_sums job = {
                    .n = t->blocks * BLOCK,
                    .words = grid.words,
                    .x = t->x + e * apart * 64,
                    .live = t->live + e * apart,
                    .rows = g.rows,
                    .taps = g.cols,
                    .blocks = g.blocks,
                    .v = t->v,
                    .c = t->gw + sums_before(&g, t->block * BLOCK),
                    .soon = next->from,
                    .n_soon = more ? next->rows * g.blocks : 0,
                    .lines = more ? (next->end - next->begin) * r->cols.to_step : 0,
                };
                s->j->k->live_sums(&job);
            }
        }
    }
}

static void sum_part(void *arg, size_t number, int thread)
{
    const struct summing *s = arg;
    const size_t part = number / s->slices / s->ranges, range = number / s->slices % s->ranges;
    struct task t = { .first = wisp_skip_begin(s->j->n, s->parts, part),
                      .last = wisp_skip_begin(s->j->n, s->parts, part + 1),
                      .block = wisp_skip_begin(s->from.blocks, s->ranges, range),
                      .slice = number % s->slices,
                      .gw = s->j->gw + part * part_floats(s->c) };
    t.blocks = wisp_skip_begin(s->from.blocks, s->ranges, range + 1) - t.block;
    t.v = s->j->thread_scratch + (size_t)thread * s->j->thread_apart;
    t.x = t.v + NEAR_FLOATS;
    t.live = (uint64_t *)(void *)(t.x + SOME_TILES * RANGE * BLOCK * MOST_WORDS * 64);
    for (size_t e = 0; e < s->c->stride * s->c->stride; e++) {
        const struct region r = region_of(s->c, &s->head, e / s->c->stride, e % s->c->stride);
        if (r.sets) sum_region(s, &t, &r);
    }
}

size_t wisp_skip_gw_scratch(const struct wisp_conv *c)
{
    (void)c;
    return NEAR_FLOATS + SOME_TILES * RANGE * BLOCK * MOST_WORDS * (64 + 2);
}

static void add_parts(void *arg, size_t i, int thread)
{
    (void)thread;
    const struct summing *s = arg;
    const size_t all = part_floats(s->c), n = all / s->from.blocks;
    for (size_t p = 1; p < s->parts; p++)
        s->j->k->axpy(s->j->gw + i * n, s->j->gw + p * all + i * n, 1, n);
}

void wisp_skip_weights(const struct wisp_conv *c, const struct wisp_conv_job *j)
{
    const struct side x = { j->x, c->in, wisp_parts(c->in, BLOCK),
                            c->h, c->w,  wisp_conv_in_floats(c) },
                      gy = { j->gy, c->out, wisp_parts(c->out, BLOCK),
                             c->oh, c->ow,  wisp_conv_out_floats(c) };
    struct summing s = { .c = c, .j = j, .head = { .forms = j->k->live_forms } };
    const int threads = wisp_pool_threads(j->pool);
    s.head.of_x = j->source == WISP_CONV_ANY
                      ? wisp_conv_zero_share(c, j, true) >= wisp_conv_zero_share(c, j, false)
                      : j->source == WISP_CONV_OF_X;
    s.from = s.head.of_x ? x : gy;
    s.to = s.head.of_x ? gy : x;
    s.ranges = wisp_parts(s.from.blocks, RANGE);
    s.parts = most_parts(c);
    if (s.parts > j->n) s.parts = j->n ? j->n : 1;
    s.slices = threads > 1 ? wisp_parts(2 * (size_t)threads, s.ranges * s.parts) : 1;
    memcpy(heading_at(c, j->gw), &s.head, sizeof s.head);
    wisp_parallel_for(j->pool, s.ranges * s.parts * s.slices, sum_part, &s);
    if (s.parts > 1) wisp_parallel_for(j->pool, s.from.blocks, add_parts, &s);
}

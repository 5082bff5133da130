/* Upkeep of the hashing finder, cut into equal shares for the steps of a cycle so that none stalls.
 *
 * In each cycle of 'gap' steps the other generation is made: functions, a frame, and tables of all
 * rows.
 *
 *     step   0 ............ all blocks hashed and sorted ............ all parts filled ... gap
 *
 * Then it is put to use, all at once: queries and rows always meet under the same functions and the
 * same frame, and a row that moved is found where it belongs after two cycles at most.  The first
 * gap is 'rebuild' steps (0: 50, or one for each 2000 rows); each next one is a fifth longer, up to
 * 20 times the first.  The frame is measured anew in every cycle, functions are drawn anew in every
 * 'redraw'-th.
 *
 * All rows are hashed, moved or not: by the end of the first cycle 42 % of 670,091 rows have moved,
 * of the fourth 72 %, and rows in order need neither marks nor keys kept from one cycle to the
 * next. */
#include "hash/lsh.h"
#include "base/bounds.h"
#include "base/rand.h"
#include "graph/ids.h"

#include <string.h>

enum { CHUNK = 64 };
/* Of the steps of a cycle three in four hash, as a row takes three times as long to hash and sort
 * as to fill in (127 and 42 ns at 128 coordinates and 12 tables): all steps cost the same. */
enum { HASHING = 3, OF = 4 };
static const uint64_t STREAM_KEEP = WISP_STREAM_HASH | 1ull << 63;  /* + cycle << 8 */
static const uint64_t STREAM_FIRST = WISP_STREAM_HASH | 3ull << 62; /* value 'cycle' */

struct job {
    struct wisp_lsh *s;
    const struct wisp_kernels *k;
    const struct wisp_query *q;
    size_t gen, first; /* the generation being made, and its first row */
    size_t from, to;   /* places to hash, */
    size_t end_block;  /* and the blocks before this one are then complete */
};

static struct job job_of(struct wisp_lsh *s, struct wisp_context *ctx, const struct wisp_query *q)
{
    size_t first = wisp_rand_below(s->seed, STREAM_FIRST, s->c->cycle, s->n_rows);
    return (struct job){ s, ctx->k, q, s->c->now ^ 1, first, 0, 0, 0 };
}

/* ---- hashing ---- */

/* Keys of up to WISP_HASH_BLOCK rows from a place on. */
static void hash_rows(const struct job *j, const struct wisp_lsh_work *w, size_t place, size_t m)
{
    const struct wisp_lsh *s = j->s;
    const struct wisp_matrix *rows = &j->q->rows;
    const size_t n_tables = s->shape.n_tables;
    for (size_t i = 0; i < m; i++) {
        size_t row = j->first + place + i;
        if (row >= s->n_rows) row -= s->n_rows;
        const float *v = wisp_weights_row(j->k, &rows->w, row, w->row);
        float *x = w->x + i * s->shape.width;
        if (s->o.transform) wisp_frame_row(&s->frame[j->gen], j->k, x, v, rows->bias[row]);
        else memcpy(x, v, s->width * sizeof *x);
    }
    s->family->hash(w->keys, s->functions[j->gen], &s->shape, j->k, w->x, m, 0, n_tables,
                    w->family);
    for (size_t t = 0; t < n_tables; t++) {
        uint32_t *to = wisp_tables_keys(&s->t, t, place);
        for (size_t i = 0; i < m; i++) to[i] = wisp_lsh_bucket(s, w->keys[i * n_tables + t]);
    }
}

static void hash_chunk(void *arg, size_t chunk, int thread)
{
    const struct job *j = arg;
    struct wisp_lsh_work w = wisp_lsh_work_of(j->s, thread);
    size_t place = j->from + chunk * CHUNK, to = j->to - place < CHUNK ? j->to : place + CHUNK;
    for (size_t m; place < to; place += m) {
        m = to - place < WISP_HASH_BLOCK ? to - place : WISP_HASH_BLOCK;
        hash_rows(j, &w, place, m);
    }
}

static void sort_table(void *arg, size_t table, int thread)
{
    (void)thread;
    const struct job *j = arg;
    struct wisp_tables *t = &j->s->t;
    for (size_t b = j->from / t->block; b < j->end_block; b++) wisp_tables_sort(t, table, b);
}

/* Hashes rows up to place 'due' and sorts the blocks that are complete. */
static void hash_up_to(struct job j, struct wisp_context *ctx, size_t due)
{
    struct wisp_lsh_counters *c = j.s->c;
    const struct wisp_tables *t = &j.s->t;
    j.from = c->hashed, j.to = due < t->n_rows ? due / CHUNK * CHUNK : t->n_rows;
    j.end_block = due < t->n_rows ? j.to / t->block : t->n_blocks;
    if (j.from >= j.to) return;
    wisp_parallel_for(ctx->pool, wisp_parts(j.to - j.from, CHUNK), hash_chunk, &j);
    if (j.from / t->block < j.end_block) wisp_parallel_for(ctx->pool, t->n_tables, sort_table, &j);
    c->hashed = j.to;
}

/* ---- filling ---- */

static void fill_part(void *arg, size_t i, int thread)
{
    const struct job *j = arg;
    const struct wisp_tables *t = &j->s->t;
    const struct wisp_lsh_counters *c = j->s->c;
    struct wisp_lsh_work w = wisp_lsh_work_of(j->s, thread);
    size_t part = c->parts + i;
    struct wisp_filling f = { (int)j->gen, j->first, j->s->seed,
                              wisp_stream(STREAM_KEEP, c->cycle) };
    wisp_tables_fill(t, &f, part / t->n_parts, part % t->n_parts, w.count);
}

/* Fills parts until 'due' rows are in; UINT64_MAX: all parts, also empty ones. */
static void fill_parts(struct job j, struct wisp_context *ctx, uint64_t due)
{
    const struct wisp_tables *t = &j.s->t;
    struct wisp_lsh_counters *c = j.s->c;
    size_t part = c->parts, all = t->n_tables * t->n_parts;
    for (; part < all && c->filled < due; part++) c->filled += t->total[part];
    wisp_parallel_for(ctx->pool, part - c->parts, fill_part, &j);
    c->parts = part;
}

/* ---- cycles ---- */

/* What is due at this step of the cycle. */
static void work_on(struct wisp_lsh *s, struct wisp_context *ctx, const struct wisp_query *q)
{
    const struct wisp_lsh_counters *c = s->c;
    struct job j = job_of(s, ctx, q);
    uint64_t hashing = c->gap * HASHING / OF, filling = c->gap - hashing;
    hash_up_to(j, ctx, c->pos < hashing ? s->n_rows * c->pos / hashing : s->n_rows);
    if (c->pos == c->gap) fill_parts(j, ctx, UINT64_MAX);
    else if (c->pos > hashing)
        fill_parts(j, ctx, s->shape.n_tables * s->n_rows * (c->pos - hashing) / filling);
}

/* What the other generation begins with; the first draws and measures whatever the cycle. */
static void begin_cycle(struct wisp_lsh *s, struct wisp_context *ctx, const struct wisp_query *q,
                        uint64_t gap)
{
    struct wisp_lsh_counters *c = s->c;
    size_t old = c->now, gen = old ^ 1;
    c->gap = gap;
    c->pos = c->hashed = c->parts = c->filled = 0;
    wisp_tables_begin(&s->t);
    bool draw = s->o.redraw && c->cycle > 0 && c->cycle % s->o.redraw == 0;
    c->draw[gen] = c->draw[old] + draw;
    if (draw || c->cycle == 0) s->family->init(s->functions[gen], &s->shape, s->seed, c->draw[gen]);
    else memcpy(s->functions[gen], s->functions[old], s->function_bytes);
    if (s->o.transform)
        wisp_frame_measure(&s->frame[gen], ctx->k, s->mean, s->square, &q->rows, s->measuring);
}

static void end_cycle(struct wisp_lsh *s)
{
    s->c->now ^= 1;
    s->c->cycle++;
}

void wisp_lsh_build(struct wisp_lsh *s, struct wisp_context *ctx, const struct wisp_query *q)
{
    wisp_frame_observe(s->mean, s->square, q->h, q->n, s->width, 0);
    begin_cycle(s, ctx, q, 1);
    s->c->pos = 1;
    work_on(s, ctx, q);
    end_cycle(s);
    begin_cycle(s, ctx, q, s->first_gap);
    s->c->built = 1;
}

/* One tile of the batch, another in each step, is enough: about the last 50 weigh in. */
static void observe(struct wisp_lsh *s, const struct wisp_query *q)
{
    enum { TILE = 32 };
    size_t tiles = wisp_parts(q->n, TILE), first = tiles ? q->step % tiles * TILE : 0;
    size_t n = q->n - first < TILE ? q->n - first : TILE;
    wisp_frame_observe(s->mean, s->square, q->h + first * s->width, n, s->width, 0.98f);
}

void wisp_lsh_keep_up(struct wisp_lsh *s, struct wisp_context *ctx, const struct wisp_query *q)
{
    struct wisp_lsh_counters *c = s->c;
    observe(s, q);
    c->pos++;
    work_on(s, ctx, q);
    if (c->pos < c->gap) return;
    uint64_t longer = c->gap + (c->gap + 4) / 5, most = WISP_LSH_GROWTH * s->first_gap;
    end_cycle(s);
    begin_cycle(s, ctx, q, longer < most ? longer : most);
}

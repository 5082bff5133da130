/* Upkeep of the hashing finder, spread over a cycle of 'gap' steps so that no step stalls.
 *
 * In each cycle a sweep passes over all rows and hashes those that moved, and every table is built
 * once, one after the other.  The first gap is 'rebuild' steps (0: 50, or one for each 2000 rows);
 * each next one is a fifth longer, up to 20 times the first.
 *
 * Some cycles refresh: after every 'redraw' cycles the functions are drawn anew, and after 1, 2, 4,
 * 8, ... cycles the frame is measured anew, as rows and queries change most at first.  All rows are
 * then hashed into the other of two generations (functions and frame), GROUP tables at a time; a
 * table changes over when all its keys are made and it is built:
 *
 *     tables   0 ...... tables ...... keyed ...... keyed + GROUP ......
 *     keys of      new          new     being made            old
 *     queries      new          old         old               old
 *
 * so queries and rows of a table always meet under the same functions. */
#include "hash/lsh.h"
#include "base/rand.h"

#include <string.h>

enum { GROUP = WISP_LSH_GROUP, CHUNK = 256, MOST_GROWTH = 20 };
static const uint64_t STREAM_KEEP = WISP_STREAM_HASH | 1ull << 63; /* + build << 8 */

struct job {
    struct wisp_lsh *s;
    const struct wisp_kernels *k;
    const struct wisp_query *q;
    size_t gen, from, to, first, n; /* rows from .. to-1, tables first .. first+n-1 */
};

/* Hashes up to a block of rows for the job's tables. */
static void hash_rows(const struct job *j, const struct wisp_lsh_work *w, const int32_t *row,
                      size_t m, size_t gen, size_t first, size_t n)
{
    struct wisp_lsh *s = j->s;
    const struct wisp_matrix *rows = &j->q->rows;
    if (n == 0 || m == 0) return;
    for (size_t i = 0; i < m; i++) {
        const float *v = wisp_weights_row(j->k, &rows->w, (size_t)row[i], w->row);
        float *x = w->x + i * s->shape.width;
        if (s->o.transform) wisp_frame_row(&s->frame[gen], j->k, x, v, rows->bias[row[i]]);
        else memcpy(x, v, s->width * sizeof *x);
    }
    s->family->hash(w->keys, s->functions[gen], &s->shape, j->k, w->x, m, first, n, w->family);
    wisp_lsh_fold(s, w->keys, m * n);
    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < m; i++)
            wisp_tables_set_key(&s->t, first + t, (size_t)row[i], w->keys[i * n + t]);
}

static void all_chunk(void *arg, size_t chunk, int thread)
{
    const struct job *j = arg;
    struct wisp_lsh_work w = wisp_lsh_work_of(j->s, thread);
    size_t from = j->from + chunk * CHUNK, to = j->to - from < CHUNK ? j->to : from + CHUNK;
    int32_t row[WISP_HASH_BLOCK];
    for (size_t m; from < to; from += m) {
        for (m = 0; m < WISP_HASH_BLOCK && from + m < to; m++) row[m] = (int32_t)(from + m);
        hash_rows(j, &w, row, m, j->gen, j->first, j->n);
    }
}

static void hash_all(struct wisp_lsh *s, struct wisp_context *ctx, const struct wisp_query *q,
                     size_t gen, size_t from, size_t to, size_t first, size_t n)
{
    struct job j = { s, ctx->k, q, gen, from, to, first, n };
    wisp_parallel_for(ctx->pool, (to - from + CHUNK - 1) / CHUNK, all_chunk, &j);
}

/* Moved rows: tables below 'first' are, or will be, of the other generation. */
static void hash_moved(const struct job *j, const struct wisp_lsh_work *w, const int32_t *row,
                       size_t m)
{
    hash_rows(j, w, row, m, j->gen ^ 1, 0, j->first);
    hash_rows(j, w, row, m, j->gen, j->first, j->n);
}

static void moved_chunk(void *arg, size_t chunk, int thread)
{
    const struct job *j = arg;
    struct wisp_lsh_work w = wisp_lsh_work_of(j->s, thread);
    size_t from = j->from + chunk * CHUNK, to = j->to - from < CHUNK ? j->to : from + CHUNK;
    int32_t row[WISP_HASH_BLOCK];
    size_t m = 0;
    for (size_t r = from; r < to; r++) {
        uint32_t bit = 1u << r % 32, *word = &j->s->dirty[r / 32];
        if (!(*word & bit)) continue;
        *word &= ~bit;
        row[m++] = (int32_t)r;
        if (m < WISP_HASH_BLOCK) continue;
        hash_moved(j, &w, row, m);
        m = 0;
    }
    hash_moved(j, &w, row, m);
}

/* ---- upkeep ---- */

static void build_table(void *arg, size_t i, int thread)
{
    const struct job *j = arg;
    struct wisp_lsh_work w = wisp_lsh_work_of(j->s, thread);
    const struct wisp_lsh_counters *c = j->s->c;
    wisp_tables_build(&j->s->t, j->first + i, c->sweep, w.count, j->s->seed,
                      STREAM_KEEP + ((c->builds + i) << 8));
}

static void build(struct wisp_lsh *s, struct wisp_context *ctx, size_t first, size_t n)
{
    struct job j = { .s = s, .first = first };
    wisp_parallel_for(ctx->pool, n, build_table, &j);
    s->c->builds += n;
}

static void new_generation(struct wisp_lsh *s, struct wisp_context *ctx, const struct wisp_query *q,
                           size_t gen, uint64_t draw)
{
    s->c->draw[gen] = draw;
    s->family->init(s->functions[gen], &s->shape, s->seed, draw);
    if (s->o.transform)
        wisp_frame_measure(&s->frame[gen], ctx->k, s->mean, s->square, &q->rows, s->measuring);
}

void wisp_lsh_build(struct wisp_lsh *s, struct wisp_context *ctx, const struct wisp_query *q)
{
    wisp_frame_observe(s->mean, s->square, q->h, q->n, s->width, 0);
    new_generation(s, ctx, q, 0, 0);
    hash_all(s, ctx, q, 0, 0, s->n_rows, 0, s->shape.n_tables);
    build(s, ctx, 0, s->shape.n_tables);
    s->c->gap = s->first_gap;
    s->c->built = 1;
}

/* The sweep's rows of this step.  Its places are whole words of 'dirty', which one thread owns. */
static void sweep(struct wisp_lsh *s, struct wisp_context *ctx, const struct wisp_query *q)
{
    struct wisp_lsh_counters *c = s->c;
    size_t n_tables = s->shape.n_tables, other = c->refresh ? c->keyed + GROUP : 0;
    size_t to = c->pos < c->gap ? s->n_rows * c->pos / c->gap / CHUNK * CHUNK : s->n_rows;
    if (other > n_tables) other = n_tables;
    if (to <= c->sweep) return;
    struct job j = { s, ctx->k, q, c->now, c->sweep, to, other, n_tables - other };
    wisp_parallel_for(ctx->pool, (to - c->sweep + CHUNK - 1) / CHUNK, moved_chunk, &j);
    c->sweep = to;
}

/* Hashes the next 'todo' rows into the other generation, a group of tables after the other. */
static void rekey(struct wisp_lsh *s, struct wisp_context *ctx, const struct wisp_query *q,
                  uint64_t todo)
{
    struct wisp_lsh_counters *c = s->c;
    while (todo > 0 && c->keyed < s->shape.n_tables) {
        size_t left = s->n_rows - c->rows, rows = todo < left ? todo : left;
        size_t tables = s->shape.n_tables - c->keyed;
        if (tables > GROUP) tables = GROUP;
        hash_all(s, ctx, q, c->now ^ 1, c->rows, c->rows + rows, c->keyed, tables);
        c->rows += rows;
        todo -= rows;
        if (c->rows < s->n_rows) continue;
        c->keyed += tables;
        c->rows = 0;
    }
}

/* What is due at this step of the cycle.  When refreshing, building is a group behind hashing. */
static void work_on(struct wisp_lsh *s, struct wisp_context *ctx, const struct wisp_query *q)
{
    struct wisp_lsh_counters *c = s->c;
    uint64_t n_tables = s->shape.n_tables, groups = (n_tables + GROUP - 1) / GROUP;
    uint64_t lag = c->refresh ? c->gap / (groups + 1) : 0, steps = c->gap - lag;
    if (c->refresh) {
        uint64_t pos = c->pos < steps ? c->pos : steps;
        uint64_t done = (c->keyed + GROUP - 1) / GROUP * s->n_rows + c->rows;
        rekey(s, ctx, q, groups * s->n_rows * pos / steps - done);
    }
    uint64_t due = c->pos < lag ? 0 : n_tables * (c->pos - lag) / steps;
    if (c->refresh && due > c->keyed) due = c->keyed;
    build(s, ctx, c->tables, due - c->tables);
    c->tables = due;
}

static void next_cycle(struct wisp_lsh *s, struct wisp_context *ctx, const struct wisp_query *q)
{
    struct wisp_lsh_counters *c = s->c;
    uint64_t longer = c->gap + (c->gap + 4) / 5, most = MOST_GROWTH * s->first_gap;
    if (c->refresh) c->now ^= 1;
    c->cycle++;
    c->gap = longer < most ? longer : most;
    c->pos = c->sweep = c->tables = c->keyed = c->rows = 0;
    bool draw = s->o.redraw && c->cycle % s->o.redraw == 0;
    bool measure = s->o.transform && (c->cycle & (c->cycle - 1)) == 0;
    c->refresh = draw || measure;
    if (c->refresh) new_generation(s, ctx, q, c->now ^ 1, c->draw[c->now] + draw);
}

static void mark_moved(struct wisp_lsh *s, const struct wisp_active *a)
{
    if (!a->rows) memset(s->dirty, 0xff, s->dirty_bytes);
    else
        for (size_t i = 0; i < a->n; i++) s->dirty[a->rows[i] / 32] |= 1u << a->rows[i] % 32;
}

void wisp_lsh_keep_up(struct wisp_lsh *s, struct wisp_context *ctx, const struct wisp_query *q,
                      const struct wisp_active *moved)
{
    wisp_frame_observe(s->mean, s->square, q->h, q->n, s->width, 0.9f);
    mark_moved(s, moved);
    s->c->pos++;
    sweep(s, ctx, q);
    work_on(s, ctx, q);
    if (s->c->pos == s->c->gap) next_cycle(s, ctx, q);
}

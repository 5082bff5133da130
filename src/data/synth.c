/* Runs the generator of synth_row.c over all rows: once to count features for idf, then again to
 * lay rows out in blocks, or to format them as XC text.  Rows are made in parallel in rounds
 * of a few chunks and taken in order, so memory does not depend on their number. */
#include "data/synth.h"
#include "base/bounds.h"
#include "base/mem.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHARDS = 16, /* copies of the df counters, so that threads seldom meet */
    CHUNK = 256, /* rows */
};

struct run { /* rows 'first' on, 'n_rows' of them, in jobs */
    struct wisp_synth g;
    struct wisp_pool *pool;
    size_t n_threads;
    struct wisp_synth_row *rows; /* (n_threads) */
    atomic_uint *df;             /* (shards, n_features), during the first pass */
    size_t n_shards;
    struct job *jobs; /* (n_jobs) */
    size_t n_jobs, first, end, rows_per_job;
};

static void count_chunk(void *arg, size_t chunk, int thread)
{
    struct run *u = arg;
    struct wisp_synth_row *r = &u->rows[thread];
    atomic_uint *df = u->df + (size_t)thread % u->n_shards * u->g.s.n_features;
    size_t end = (chunk + 1) * CHUNK < u->g.s.n_rows ? (chunk + 1) * CHUNK : u->g.s.n_rows;
    for (size_t i = chunk * CHUNK; i < end; i++) {
        wisp_synth_row_draw(r, &u->g, i);
        for (size_t k = 0; k < r->n; k++)
            atomic_fetch_add_explicit(&df[r->draws[k] >> 32], 1, memory_order_relaxed);
    }
}

static wisp_status count_features(struct run *u, wisp_error *err)
{
    size_t n = u->g.s.n_features;
    u->n_shards = u->n_threads < SHARDS ? u->n_threads : SHARDS;
    u->df = wisp_zalloc(n * u->n_shards, sizeof *u->df);
    u->g.idf = wisp_alloc(n, sizeof *u->g.idf);
    if (!u->df || !u->g.idf)
        return wisp_fail_mem(err, n * u->n_shards * sizeof *u->df, "counts of synthetic features");
    wisp_parallel_for(u->pool, wisp_parts(u->g.s.n_rows, CHUNK), count_chunk, u);
    for (size_t f = 0; f < n; f++) {
        double df = 0;
        for (size_t k = 0; k < u->n_shards; k++) df += atomic_load(&u->df[k * n + f]);
        u->g.idf[f] = (float)log(((double)u->g.s.n_rows + 1) / (df < 1 ? 1 : df));
    }
    wisp_free(u->df);
    u->df = NULL;
    return WISP_OK;
}

static wisp_status run_init(struct run *u, struct wisp_context *ctx,
                            const struct wisp_synth_shape *s, wisp_error *err)
{
    *u = (struct run){ .pool = ctx ? ctx->pool : NULL };
    wisp_status st = wisp_synth_init(&u->g, s, err);
    if (st) return st;
    u->n_threads = (size_t)wisp_pool_threads(u->pool);
    u->rows = wisp_zalloc(u->n_threads, sizeof *u->rows);
    if (!u->rows) return wisp_fail_mem(err, u->n_threads * sizeof *u->rows, "synthetic rows");
    for (size_t t = 0; t < u->n_threads && !st; t++)
        st = wisp_synth_row_init(&u->rows[t], &u->g, err);
    return st ? st : count_features(u, err);
}

struct job { /* a chunk of text, or a block */
    char *text;
    size_t n, cap;
    struct wisp_builder b;
    wisp_status st;
    wisp_error err;
};

static void run_clear(struct run *u)
{
    for (size_t t = 0; u->rows && t < u->n_threads; t++) wisp_synth_row_clear(&u->rows[t]);
    for (size_t k = 0; u->jobs && k < u->n_jobs; k++) {
        wisp_free(u->jobs[k].text);
        wisp_builder_clear(&u->jobs[k].b);
    }
    wisp_free(u->jobs);
    wisp_free(u->rows);
    wisp_free(u->df);
    wisp_free(u->g.idf);
}

/* Makes rows first .. end-1 in jobs of rows_per_job, a round of n_jobs at a time: 'make' runs in
 * parallel, 'take' in order. */
static wisp_status run_rows(struct run *u, size_t first, size_t end,
                            void (*make)(void *run, size_t job, int thread),
                            wisp_status (*take)(void *to, struct job *j, wisp_error *err), void *to,
                            wisp_error *err)
{
    wisp_status st = WISP_OK;
    for (u->first = first, u->end = end; u->first < end && !st;) {
        size_t n = wisp_parts(end - u->first, u->rows_per_job);
        if (n > u->n_jobs) n = u->n_jobs;
        wisp_parallel_for(u->pool, n, make, u);
        for (size_t k = 0; k < n && !st; k++) {
            if ((st = u->jobs[k].st) != WISP_OK) wisp_fail_as(err, st, &u->jobs[k].err);
            else st = take(to, &u->jobs[k], err);
        }
        u->first += n * u->rows_per_job;
    }
    return st;
}

static wisp_status make_jobs(struct run *u, size_t n_jobs, size_t rows_per_job, wisp_error *err)
{
    u->rows_per_job = rows_per_job;
    u->n_jobs = n_jobs;
    u->jobs = wisp_zalloc(n_jobs, sizeof *u->jobs);
    return u->jobs ? WISP_OK : wisp_fail_mem(err, n_jobs * sizeof *u->jobs, "synthetic rows");
}

static void job_range(const struct run *u, size_t job, size_t *first, size_t *end)
{
    *first = u->first + job * u->rows_per_job;
    *end = u->end - *first < u->rows_per_job ? u->end : *first + u->rows_per_job;
}

/* ---- in memory ---- */

static void make_block(void *arg, size_t job, int thread)
{
    struct run *u = arg;
    struct job *j = &u->jobs[job];
    struct wisp_synth_row *r = &u->rows[thread];
    size_t i, end;
    wisp_builder_reset(&j->b);
    j->st = WISP_OK;
    for (job_range(u, job, &i, &end); i < end && !j->st; i++) {
        wisp_synth_row_draw(r, &u->g, i);
        wisp_synth_row_finish(r, &u->g);
        for (size_t k = 0; k < r->n_labels && !j->st; k++)
            j->st = wisp_builder_label(&j->b, (int32_t)r->labels[k], &j->err);
        for (size_t k = 0; k < r->n && !j->st; k++)
            j->st =
                wisp_builder_feature(&j->b, (int32_t)(r->draws[k] >> 32), r->values[k], &j->err);
        if (!j->st) j->st = wisp_builder_end_row(&j->b, &j->err);
    }
}

static wisp_status take_block(void *to, struct job *j, wisp_error *err)
{
    return wisp_sink_add(to, &j->b, err);
}

wisp_status wisp_synth_data(struct wisp_data **out, struct wisp_context *ctx,
                            const struct wisp_synth_shape *shape, bool test, wisp_error *err)
{
    *out = NULL;
    struct run u;
    struct wisp_sink *sink = NULL;
    wisp_status st = run_init(&u, ctx, shape, err);
    size_t fit = WISP_BLOCK_NNZ / (u.g.max_features + 1);
    fit = fit < 1 ? 1 : fit > WISP_BLOCK_ROWS ? WISP_BLOCK_ROWS : fit;
    if (!st) st = make_jobs(&u, u.n_threads, fit, err);
    if (!st) st = wisp_sink_create(&sink, NULL, err);
    if (!st) {
        size_t first = test ? shape->n_rows : 0;
        wisp_sink_at_least(sink, shape->n_features, shape->n_labels);
        st = run_rows(&u, first, first + (test ? shape->n_test : shape->n_rows), make_block,
                      take_block, sink, err);
    }
    run_clear(&u);
    if (!st) return wisp_sink_finish(out, sink, err);
    wisp_sink_abort(sink);
    return st;
}

/* ---- as text ---- */

static char *put_int(char *p, uint64_t v)
{
    char digits[20];
    int n = 0;
    do digits[n++] = (char)('0' + v % 10);
    while (v /= 10);
    while (n) *p++ = digits[--n];
    return p;
}

static char *put_value(char *p, float v) /* 0 < v <= 1 */
{
    unsigned at;
    uint32_t digits = wisp_synth_decimal((double)v, &at);
    int n = (int)at + 5;
    while (n > 0 && digits % 10 == 0) digits /= 10, n--;
    if (n == 0) return put_int(p, digits);
    *p++ = '0';
    *p++ = '.';
    for (int k = n - 1; k >= 0; k--, digits /= 10) p[k] = (char)('0' + digits % 10);
    return p + n;
}

static void make_text(void *arg, size_t job, int thread)
{
    struct run *u = arg;
    struct job *j = &u->jobs[job];
    struct wisp_synth_row *r = &u->rows[thread];
    size_t i, end;
    j->n = 0;
    j->st = WISP_OK;
    for (job_range(u, job, &i, &end); i < end && !j->st; i++) {
        wisp_synth_row_draw(r, &u->g, i);
        wisp_synth_row_finish(r, &u->g);
        size_t need = j->n + 11 * r->n_labels + 40 * r->n + 2; /* " id:0." and 20 decimals */
        if (need > j->cap) {
            char *more = wisp_realloc(j->text, j->n, 2 * need, 1);
            if (!more) {
                j->st = wisp_fail_mem(&j->err, 2 * need, "synthetic text");
                return;
            }
            j->text = more;
            j->cap = 2 * need;
        }
        char *p = j->text + j->n;
        for (size_t k = 0; k < r->n_labels; k++) {
            if (k) *p++ = ',';
            p = put_int(p, r->labels[k]);
        }
        for (size_t k = 0; k < r->n; k++) {
            *p++ = ' ';
            p = put_int(p, r->draws[k] >> 32);
            *p++ = ':';
            p = put_value(p, r->values[k]);
        }
        *p++ = '\n';
        j->n = (size_t)(p - j->text);
    }
}

static wisp_status take_text(void *to, struct job *j, wisp_error *err)
{
    return wisp_out_write(to, j->text, j->n, err);
}

static wisp_status write_file(struct run *u, const char *prefix, const char *ending, size_t first,
                              size_t n, wisp_error *err)
{
    size_t room = strlen(prefix) + strlen(ending) + 1;
    char *path = wisp_alloc(room, 1), head[80];
    if (!path) return wisp_fail_mem(err, room, "a path");
    snprintf(path, room, "%s%s", prefix, ending);
    int bytes = snprintf(head, sizeof head, "%zu %zu %zu\n", n, u->g.s.n_features, u->g.s.n_labels);
    struct wisp_out *out;
    wisp_status st = wisp_out_create(&out, path, err);
    if (!st) st = wisp_out_write(out, head, (size_t)bytes, err);
    if (!st) st = run_rows(u, first, first + n, make_text, take_text, out, err);
    if (!st) st = wisp_out_commit(out, err);
    else wisp_out_abort(out);
    wisp_free(path);
    return st;
}

wisp_status wisp_synth_write(struct wisp_context *ctx, const char *prefix,
                             const struct wisp_synth_shape *shape, wisp_error *err)
{
    struct run u;
    wisp_status st = run_init(&u, ctx, shape, err);
    if (!st) st = make_jobs(&u, 4 * u.n_threads, CHUNK, err);
    if (!st) st = write_file(&u, prefix, "_train.txt", 0, shape->n_rows, err);
    if (!st) st = write_file(&u, prefix, "_test.txt", shape->n_rows, shape->n_test, err);
    run_clear(&u);
    return st;
}

static const struct wisp_synth_known known[] = {
    { "amazon670k", { 490449, 0, 135909, 670091, 75, 5.45, 1 } },
    { "delicious200k", { 196606, 0, 782585, 205443, 302, 75, 1 } },
};

const struct wisp_synth_known *wisp_synth_at(size_t i)
{
    return i < sizeof known / sizeof *known ? &known[i] : NULL;
}

/* Three numbers with an x between them. */
static bool read_shape(struct wisp_synth_shape *out, const char *name)
{
    size_t n[3];
    for (int i = 0; i < 3; i++) {
        char *end;
        if (*name < '1' || *name > '9') return false;
        n[i] = strtoull(name, &end, 10);
        if (*end != (i < 2 ? 'x' : 0) || n[i] > INT32_MAX) return false;
        name = end + 1;
    }
    *out = (struct wisp_synth_shape){ n[0], 0, n[1], n[2], WISP_ROW_FEATURES, WISP_ROW_LABELS, 1 };
    return true;
}

bool wisp_synth_find(struct wisp_synth_shape *out, const char *name)
{
    const struct wisp_synth_known *k;
    bool found = false;
    for (size_t i = 0; !found && (k = wisp_synth_at(i)); i++)
        if ((found = !strcmp(name, k->name))) *out = k->shape;
    if (!found && !read_shape(out, name)) return false;
    out->n_test = wisp_synth_tests(out->n_rows);
    return true;
}

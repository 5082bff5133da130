/* Inverted lists: assignment, flat lists, means, and products with centres (see lists.h).
 *
 * Products are done in tiles of 64 vectors: the tile lies transposed (width + 2, 64), blocks of 64
 * centres come by, and Z (64 centres, 64 vectors) is looked at while it is in the cache.
 *
 * Flat lists are made by count, prefix sum, fill: fixed slices of rows count in parallel, a prefix
 * sum over (list, slice) gives each slice its place in each list, then the slices fill.
 *
 * scratch of each thread: vectors (64, width + 2) | transposed (width + 2, 64) | Z (64, 64) |
 * best (64) | places (64) */
#include "hash/lists.h"
#include "base/bounds.h"
#include "base/cut.h"
#include "base/mem.h"
#include "base/rand.h"
#include "graph/ids.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { TILE = 64, SLICES = WISP_LIST_SLICES, SUM_PARTS = 32, SCORE_CENTRES = 512, DRAWS = 8 };

static const float RIDGE = 0.5f; /* see lists.h */

struct tile {
    float *x, *xt, *z, *best;
    int32_t *where;
};

static struct tile lay_tile(struct wisp_cut *c, size_t width)
{
    struct tile t;
    t.x = wisp_cut_take(c, TILE * (width + 2), sizeof *t.x);
    t.xt = wisp_cut_take(c, TILE * (width + 2), sizeof *t.xt);
    t.z = wisp_cut_take(c, TILE * TILE, sizeof *t.z);
    t.best = wisp_cut_take(c, TILE, sizeof *t.best);
    t.where = wisp_cut_take(c, TILE, sizeof *t.where);
    return t;
}

static size_t tile_bytes(size_t width)
{
    struct wisp_cut plan = { 0 };
    lay_tile(&plan, width);
    return plan.at;
}

static struct tile tile_of(const struct wisp_lists *l, int thread)
{
    size_t bytes = tile_bytes(l->width);
    struct wisp_cut c = wisp_cut_of(l->scratch + (size_t)thread * bytes, bytes, WISP_CUT_FRESH);
    return lay_tile(&c, l->width);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- memory ---- */

static void lay_out(struct wisp_lists *l, struct wisp_cut *c)
{
    size_t n = l->n, rows = l->n_rows, width = l->width;
    l->metric = wisp_cut_take(c, (width + 1) * (width + 1), sizeof *l->metric);
    l->centre = wisp_cut_take(c, n * (width + 1), sizeof *l->centre);
    l->nearness = wisp_cut_take(c, n * (width + 2), sizeof *l->nearness);
    l->sum = wisp_cut_take(c, n * (width + 1), sizeof *l->sum);
    l->list_of = wisp_cut_take(c, rows, sizeof *l->list_of);
    l->start = wisp_cut_take(c, n + 1, sizeof *l->start);
    l->row = wisp_cut_take(c, rows, sizeof *l->row);
    l->place = wisp_cut_take(c, SLICES * n, sizeof *l->place);
    l->scratch = wisp_cut_take(c, (size_t)l->threads, tile_bytes(width));
}

size_t wisp_lists_bytes(size_t n_rows, size_t width, size_t n, int threads)
{
    struct wisp_lists l = { .n_rows = n_rows, .width = width, .n = n, .threads = threads };
    struct wisp_cut plan = { 0 };
    lay_out(&l, &plan);
    return sizeof l + plan.at;
}

wisp_status wisp_lists_create(struct wisp_lists **out, size_t n_rows, size_t width, size_t n,
                              int threads, wisp_error *err)
{
    assert(n >= 1 && n <= n_rows && n_rows <= INT32_MAX);
    *out = NULL;
    struct wisp_lists *l = wisp_zalloc(1, sizeof *l);
    if (!l) return wisp_fail_mem(err, sizeof *l, "the inverted lists");
    *l = (struct wisp_lists){ .n_rows = n_rows, .width = width, .n = n, .threads = threads };
    struct wisp_cut plan = { 0 };
    lay_out(l, &plan);
    char *block = wisp_zalloc(plan.at, 1);
    if (!block) {
        wisp_free(l);
        return wisp_fail_mem(err, plan.at, "the inverted lists");
    }
    struct wisp_cut c = wisp_cut_of(block, plan.at, WISP_CUT_KEEP);
    lay_out(l, &c);
    wisp_lists_forget(l);
    *out = l;
    return WISP_OK;
}

void wisp_lists_free(struct wisp_lists *l)
{
    if (!l) return;
    wisp_free(l->metric); /* the first piece: the block */
    wisp_free(l);
}

void wisp_lists_forget(struct wisp_lists *l)
{
    memset(l->list_of, -1, l->n_rows * sizeof *l->list_of);
    memset(l->sum, 0, l->n * (l->width + 1) * sizeof *l->sum);
}

/* ---- loops over threads ---- */

struct job {
    struct wisp_lists *l;
    const struct wisp_kernels *k;
    const struct wisp_matrix *m;
    size_t first, n, among;
    const float *h;
    float *score;
};

static size_t row_at(const struct job *j, size_t i)
{
    return (size_t)((wisp_u128)(j->first + i) * j->l->n_rows / j->among);
}

/* ---- nearest centres ---- */

static void assign_tile(void *arg, size_t i, int thread)
{
    const struct job *j = arg;
    struct wisp_lists *l = j->l;
    struct tile t = tile_of(l, thread);
    size_t first = i * TILE, n = least(TILE, j->n - first), ld = l->width + 2;
    int32_t list[TILE] = { 0 };
    for (size_t r = 0; r < n; r++) {
        size_t row = row_at(j, first + r);
        float *x = t.x + r * ld;
        wisp_weights_copy(j->k, x, &j->m->w, row);
        x[l->width] = j->m->bias[row];
        x[l->width + 1] = 1;
        t.best[r] = -INFINITY;
    }
    j->k->transpose(t.xt, TILE, t.x, ld, n, ld);
    for (size_t c = 0; c < l->n; c += TILE) {
        size_t m = least(TILE, l->n - c);
        j->k->gemm(t.z, TILE, l->nearness + c * ld, ld, 1, t.xt, TILE, m, n, ld, false);
        for (size_t a = 0; a < m; a++) {
            const float *z = t.z + a * TILE;
            size_t found = j->k->above(t.where, z, t.best, n);
            for (size_t f = 0; f < found; f++) {
                t.best[t.where[f]] = z[t.where[f]];
                list[t.where[f]] = (int32_t)(c + a);
            }
        }
    }
    for (size_t r = 0; r < n; r++) l->list_of[row_at(j, first + r)] = list[r];
}

/* One part of the lists adds up its rows, in the order of the rows. */
static void sum_part(void *arg, size_t part, int thread)
{
    (void)thread;
    const struct job *j = arg;
    struct wisp_lists *l = j->l;
    size_t lo = part * l->n / SUM_PARTS, hi = (part + 1) * l->n / SUM_PARTS;
    for (size_t i = 0; i < j->n && lo < hi; i++) {
        size_t row = row_at(j, i), c = (size_t)l->list_of[row];
        if (c < lo || c >= hi) continue;
        float *sum = l->sum + c * (l->width + 1);
        const int32_t id = (int32_t)row;
        const float one = 1;
        wisp_weights_bag(j->k, sum, &j->m->w, &id, &one, 1);
        sum[l->width] += j->m->bias[row];
    }
}

void wisp_lists_assign(struct wisp_lists *l, struct wisp_context *ctx, const struct wisp_matrix *m,
                       size_t first, size_t n, size_t among)
{
    assert(first + n <= among && among <= l->n_rows);
    struct job j = { .l = l, .k = ctx->k, .m = m, .first = first, .n = n, .among = among };
    wisp_parallel_for(ctx->pool, wisp_parts(n, TILE), assign_tile, &j);
    wisp_parallel_for(ctx->pool, SUM_PARTS, sum_part, &j);
}

/* ---- flat lists ---- */

static void count_slice(void *arg, size_t slice, int thread)
{
    (void)thread;
    struct wisp_lists *l = ((struct job *)arg)->l;
    uint32_t *count = l->place + slice * l->n;
    memset(count, 0, l->n * sizeof *count);
    for (size_t r = slice * l->n_rows / SLICES; r < (slice + 1) * l->n_rows / SLICES; r++)
        if (l->list_of[r] >= 0) count[l->list_of[r]]++;
}

static void fill_slice(void *arg, size_t slice, int thread)
{
    (void)thread;
    struct wisp_lists *l = ((struct job *)arg)->l;
    uint32_t *place = l->place + slice * l->n;
    for (size_t r = slice * l->n_rows / SLICES; r < (slice + 1) * l->n_rows / SLICES; r++)
        if (l->list_of[r] >= 0) l->row[place[l->list_of[r]]++] = (int32_t)r;
}

static void fill(struct wisp_lists *l, struct wisp_context *ctx)
{
    struct job j = { .l = l };
    wisp_parallel_for(ctx->pool, SLICES, count_slice, &j);
    uint32_t at = 0;
    for (size_t c = 0; c < l->n; c++) {
        l->start[c] = at;
        for (size_t s = 0; s < SLICES; s++) {
            uint32_t count = l->place[s * l->n + c];
            l->place[s * l->n + c] = at;
            at += count;
        }
    }
    l->start[l->n] = at;
    wisp_parallel_for(ctx->pool, SLICES, fill_slice, &j);
}

/* ---- centres ---- */

static void centre_at_row(struct wisp_lists *l, const struct wisp_kernels *k, size_t c,
                          const struct wisp_matrix *m, size_t row)
{
    float *centre = l->centre + c * (l->width + 1);
    wisp_weights_copy(k, centre, &m->w, row);
    centre[l->width] = m->bias[row];
}

/* A row of a long list: the longest of those that a few random rows belong to. */
static size_t row_of_long_list(const struct wisp_lists *l, size_t c, uint64_t seed, uint64_t turn)
{
    size_t found = 0;
    uint32_t most = 0;
    for (size_t i = 0; i < DRAWS; i++) {
        size_t row =
            wisp_rand_below(seed, wisp_stream(WISP_STREAM_IVF, turn), c * DRAWS + i, l->n_rows);
        int32_t list = l->list_of[row];
        uint32_t length = list < 0 ? 0 : l->start[list + 1] - l->start[list];
        if (i > 0 && length <= most) continue;
        found = row;
        most = length;
    }
    return found;
}

static void derive_block(void *arg, size_t block, int thread)
{
    (void)thread;
    const struct job *j = arg;
    struct wisp_lists *l = j->l;
    size_t first = block * TILE, n = least(TILE, l->n - first), dims = l->width + 1;
    const float *centre = l->centre + first * dims;
    float *to = l->nearness + first * (dims + 1);
    j->k->gemm(to, dims + 1, centre, dims, 1, l->metric, dims, n, dims, dims, false);
    for (size_t c = 0; c < n; c++, centre += dims, to += dims + 1)
        to[dims] = -0.5f * j->k->dot(to, centre, dims);
}

void wisp_lists_derive(struct wisp_lists *l, struct wisp_context *ctx)
{
    struct job j = { .l = l, .k = ctx->k };
    wisp_parallel_for(ctx->pool, wisp_parts(l->n, TILE), derive_block, &j);
}

static void set_metric(struct wisp_lists *l, struct wisp_context *ctx, const float *metric)
{
    size_t dims = l->width + 1;
    memcpy(l->metric, metric, dims * dims * sizeof *metric);
    for (size_t i = 0; i < dims; i++) l->metric[i * dims + i] *= 1 + RIDGE;
    wisp_lists_derive(l, ctx);
}

void wisp_lists_seed(struct wisp_lists *l, struct wisp_context *ctx, const struct wisp_matrix *m,
                     const float *metric, uint64_t seed)
{
    for (size_t c = 0; c < l->n; c++) { /* one from each stretch of rows: none twice */
        size_t lo = c * l->n_rows / l->n, hi = (c + 1) * l->n_rows / l->n;
        centre_at_row(l, ctx->k, c, m, lo + wisp_rand_below(seed, WISP_STREAM_IVF, c, hi - lo));
    }
    set_metric(l, ctx, metric);
}

void wisp_lists_turn(struct wisp_lists *l, struct wisp_context *ctx, const struct wisp_matrix *m,
                     const float *metric, uint64_t seed, uint64_t turn)
{
    fill(l, ctx);
    for (size_t c = 0; c < l->n; c++) {
        uint32_t length = l->start[c + 1] - l->start[c];
        float *centre = l->centre + c * (l->width + 1), *sum = l->sum + c * (l->width + 1);
        if (length == 0) centre_at_row(l, ctx->k, c, m, row_of_long_list(l, c, seed, turn));
        else
            for (size_t i = 0; i <= l->width; i++) centre[i] = sum[i] / (float)length;
    }
    memset(l->sum, 0, l->n * (l->width + 1) * sizeof *l->sum);
    set_metric(l, ctx, metric);
}

/* ---- queries ---- */

static void score_piece(void *arg, size_t i, int thread)
{
    const struct job *j = arg;
    const struct wisp_lists *l = j->l;
    struct tile t = tile_of(l, thread);
    size_t parts = wisp_parts(l->n, SCORE_CENTRES), ld = l->width + 1;
    size_t first = i / parts * TILE, n = least(TILE, j->n - first);
    size_t c = i % parts * SCORE_CENTRES, end = least(l->n, c + SCORE_CENTRES);
    for (size_t s = 0; s < n; s++) {
        memcpy(t.x + s * ld, j->h + (first + s) * l->width, l->width * sizeof(float));
        t.x[s * ld + l->width] = 1;
    }
    j->k->transpose(t.xt, TILE, t.x, ld, n, ld);
    for (; c < end; c += TILE) {
        size_t m = least(TILE, end - c);
        j->k->gemm(t.z, TILE, l->centre + c * ld, ld, 1, t.xt, TILE, m, n, ld, false);
        j->k->transpose(j->score + first * l->n + c, l->n, t.z, TILE, m, n);
    }
}

void wisp_lists_score(const struct wisp_lists *l, struct wisp_context *ctx, float *score,
                      const float *h, size_t n)
{
    struct job j = { .l = (struct wisp_lists *)l, .k = ctx->k, .n = n, .h = h, .score = score };
    size_t parts = wisp_parts(l->n, SCORE_CENTRES);
    wisp_parallel_for(ctx->pool, wisp_parts(n, TILE) * parts, score_piece, &j);
}

struct heap { /* the best so far, the worst of them on top */
    float *value;
    int32_t *id;
};

static bool worse(const struct heap *h, size_t a, size_t b)
{
    if (h->value[a] != h->value[b]) return h->value[a] < h->value[b];
    return h->id[a] > h->id[b];
}

static void sink(struct heap *h, size_t at, size_t n)
{
    float value = h->value[at];
    int32_t id = h->id[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && worse(h, child + 1, child)) child++;
        if (!(h->value[child] < value || (h->value[child] == value && h->id[child] > id))) break;
        h->value[at] = h->value[child];
        h->id[at] = h->id[child];
    }
    h->value[at] = value;
    h->id[at] = id;
}

size_t wisp_lists_best(const struct wisp_lists *l, const float *score, size_t k, float *value,
                       int32_t *best)
{
    struct heap h = { value, best };
    size_t n = 0, c = 0;
    for (; c < l->n && n < k; c++) {
        if (l->start[c + 1] == l->start[c]) continue;
        value[n] = isnan(score[c]) ? -INFINITY : score[c];
        best[n++] = (int32_t)c;
    }
    for (size_t i = n / 2; i-- > 0;) sink(&h, i, n);
    for (; c < l->n && n > 0; c++) {
        if (!(score[c] > value[0]) || l->start[c + 1] == l->start[c]) continue;
        value[0] = score[c];
        best[0] = (int32_t)c;
        sink(&h, 0, n);
    }
    for (size_t i = n; i-- > 1;) { /* the worst goes to the back */
        float v = value[0];
        int32_t id = best[0];
        value[0] = value[i], best[0] = best[i];
        value[i] = v, best[i] = id;
        sink(&h, 0, i);
    }
    return n;
}

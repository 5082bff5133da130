/* Finder "ivf": rows lie in lists around centres (lists.h); a sample looks into the lists whose
 * centres score best with it, best first.
 *
 * A sample costs one product for each centre, and one for each row it looks at: by default about
 * 2 sqrt(n) and 6 sqrt(n) of n rows.  Lists near a sample's best rows are often short, the others
 * long, so by default it is rows that are counted, not lists.
 *
 * Rows move, so every step assigns the next n / gap rows anew, and when a sweep is through, lists
 * and centres are renewed.  Sweeps are fast at first, when rows move far, and then each takes
 * twice the steps of the last, between two bounds of what a step may cost: at most 8, later 2
 * times the rows of the batch, as each of them also meets every centre once.
 *
 * The first build is bounded too: of very many rows it takes a part, spread evenly; the others are
 * in no list until the first sweep has passed. */
#include "hash/lists.h"
#include "base/bounds.h"
#include "base/cut.h"
#include "base/mem.h"
#include "base/rand.h"
#include "graph/ids.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    GAP_FIRST = 16,
    GAP_LAST = 256,
    BATCHES_FIRST = 8,
    BATCHES_LAST = 2,
    ROWS_PER_LIST = 16,  /* of the first build, at least */
    MOMENT_SAMPLES = 64, /* of each batch: enough for a running mean */
    MOMENT_TILE = 64
};
static const double BUILD_MACS = 0x1p33; /* multiplications of the first build, about 0.2 s */
static const double MOMENT_RATE = 0.01;

struct counters {   /* saved as they are */
    uint64_t turns; /* 0: not built yet */
    uint64_t next;  /* row of the sweep */
    uint64_t steps; /* learned from */
};

struct ivf {
    struct wisp_lists *lists;
    size_t batch, probes; /* lists a sample looks into, at most */
    size_t rows;          /* rows it looks at, at most */
    uint64_t seed;
    struct counters count;
    float *moment; /* (width + 1, width + 1) running mean of (h, 1) (h, 1)^T */
    float *seen;   /* (MOMENT_SAMPLES, width + 1) scratch: samples to learn it from */
    float *score;  /* (batch, lists) */
    float *value;  /* (threads, probes) scores of the best lists, */
    int32_t *best; /* (threads, probes) and these */
};

/* ---- sizes ---- */

static size_t n_lists(const struct wisp_finder_setup *s)
{
    size_t n = s->o->lists;
    if (n == 0) n = wisp_up((size_t)(2 * sqrt((double)s->n_rows)), 16);
    return n < s->n_rows ? n : s->n_rows;
}

static size_t n_probes(const struct wisp_finder_setup *s)
{
    size_t lists = n_lists(s), n = s->o->probes;
    if (n == 0) n = lists / 8 < 8 ? 8 : lists / 8;
    return n < lists ? n : lists;
}

static size_t n_seen(const struct wisp_finder_setup *s) /* rows a sample looks at */
{
    size_t most = WISP_POT_ROOM / 4 * 3; /* the rest is for other finders */
    double n = 6 * sqrt((double)s->n_rows);
    if (s->o->probes > 0) return SIZE_MAX; /* the user counts lists */
    return n < (double)most ? (size_t)n : most;
}

static void lay_moments(struct ivf *f, struct wisp_cut *c, size_t width)
{
    f->moment = wisp_cut_take(c, (width + 1) * (width + 1), sizeof *f->moment);
    f->seen = wisp_cut_take(c, MOMENT_SAMPLES * (width + 1), sizeof *f->seen);
}

static size_t moment_bytes(size_t width)
{
    struct ivf none;
    struct wisp_cut plan = { 0 };
    lay_moments(&none, &plan, width);
    return plan.at;
}

static size_t bytes(const struct wisp_finder_setup *s)
{
    size_t lists = n_lists(s), of_threads = (size_t)s->threads * n_probes(s);
    return sizeof(struct ivf) + wisp_lists_bytes(s->n_rows, s->width, lists, s->threads) +
           moment_bytes(s->width) + (s->batch * lists + of_threads) * sizeof(float) +
           of_threads * sizeof(int32_t);
}

/* ---- life ---- */

static void destroy(void *state)
{
    struct ivf *f = state;
    if (!f) return;
    wisp_lists_free(f->lists);
    wisp_free(f->moment);
    wisp_free(f->score);
    wisp_free(f->value);
    wisp_free(f->best);
    wisp_free(f);
}

static wisp_status create(void **state, const struct wisp_finder_setup *s, wisp_error *err)
{
    *state = NULL;
    struct ivf *f = wisp_zalloc(1, sizeof *f);
    if (!f) return wisp_fail_mem(err, sizeof *f, "the finder 'ivf'");
    size_t lists = n_lists(s), of_threads = (size_t)s->threads * n_probes(s);
    f->batch = s->batch;
    f->probes = n_probes(s);
    f->rows = n_seen(s);
    f->seed = s->seed;
    wisp_status st = wisp_lists_create(&f->lists, s->n_rows, s->width, lists, s->threads, err);
    if (st == WISP_OK) {
        f->moment = wisp_zalloc(moment_bytes(s->width), 1);
        f->score = wisp_alloc(s->batch * lists, sizeof *f->score);
        f->value = wisp_alloc(of_threads, sizeof *f->value);
        f->best = wisp_alloc(of_threads, sizeof *f->best);
        if (!f->moment || !f->score || !f->value || !f->best)
            st = wisp_fail_mem(err, bytes(s), "the finder 'ivf'");
    }
    if (st != WISP_OK) {
        destroy(f);
        return st;
    }
    struct wisp_cut c = wisp_cut_of(f->moment, moment_bytes(s->width), WISP_CUT_KEEP);
    lay_moments(f, &c, s->width);
    *state = f;
    return WISP_OK;
}

/* ---- upkeep ---- */

struct moment_job {
    struct ivf *f;
    const struct wisp_kernels *k;
    size_t n;
    float keep;
};

static void moment_tile(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct moment_job *j = arg;
    size_t dims = j->f->lists->width + 1, first = tile * MOMENT_TILE;
    size_t m = dims - first < MOMENT_TILE ? dims - first : MOMENT_TILE;
    float *to = j->f->moment + first * dims;
    for (size_t i = 0; i < m * dims; i++) to[i] *= j->keep;
    j->k->gemm(to, dims, j->f->seen + first, 1, dims, j->f->seen, dims, m, dims, j->n, true);
}

/* A plain mean over the first steps, then one that forgets. */
static void learn_moment(struct ivf *f, struct wisp_context *ctx, const struct wisp_query *q)
{
    size_t n = q->n < MOMENT_SAMPLES ? q->n : MOMENT_SAMPLES, width = f->lists->width;
    if (n == 0) return;
    double rate = 1.0 / (double)++f->count.steps;
    if (rate < MOMENT_RATE) rate = MOMENT_RATE;
    float share = (float)sqrt(rate / (double)n);
    for (size_t s = 0; s < n; s++) {
        const float *h = q->h + s * q->n / n * width;
        float *to = f->seen + s * (width + 1);
        for (size_t i = 0; i < width; i++) to[i] = share * h[i];
        to[width] = share;
    }
    struct moment_job j = { f, ctx->k, n, (float)(1 - rate) };
    wisp_parallel_for(ctx->pool, width / MOMENT_TILE + 1, moment_tile, &j);
}

static void build(struct ivf *f, struct wisp_context *ctx, const struct wisp_query *q)
{
    struct wisp_lists *l = f->lists;
    double afford = BUILD_MACS / ((double)l->n * (double)(l->width + 2));
    size_t some = ROWS_PER_LIST * l->n, more = some;
    if ((double)more < afford) more = afford < (double)l->n_rows ? (size_t)afford : l->n_rows;
    if (some > l->n_rows) some = l->n_rows;
    if (more > l->n_rows) more = l->n_rows;
    learn_moment(f, ctx, q);
    wisp_lists_seed(l, ctx, &q->rows, f->moment, f->seed);
    wisp_lists_assign(l, ctx, &q->rows, 0, some, some);
    wisp_lists_turn(l, ctx, &q->rows, f->moment, f->seed, ++f->count.turns);
    wisp_lists_forget(l);
    wisp_lists_assign(l, ctx, &q->rows, 0, more, more);
    wisp_lists_turn(l, ctx, &q->rows, f->moment, f->seed, ++f->count.turns);
}

/* Rows to assign in a step: see the top. */
static size_t rows_a_step(const struct ivf *f)
{
    size_t n = f->lists->n_rows, first = n / (BATCHES_FIRST * f->batch);
    size_t last = n / (BATCHES_LAST * f->batch);
    if (first < GAP_FIRST) first = GAP_FIRST;
    if (last < GAP_LAST) last = GAP_LAST;
    size_t gap = first;
    for (uint64_t turn = 2; turn < f->count.turns && gap < last; turn++) gap *= 2;
    if (gap > last) gap = last;
    return wisp_parts(n, gap);
}

static void learn(void *state, struct wisp_context *ctx, const struct wisp_query *q,
                  const struct wisp_outcome *o)
{
    (void)o;
    struct ivf *f = state;
    struct wisp_lists *l = f->lists;
    if (f->count.turns == 0) return; /* no batch has begun */
    learn_moment(f, ctx, q);
    size_t first = (size_t)f->count.next, n = rows_a_step(f);
    if (n > l->n_rows - first) n = l->n_rows - first;
    wisp_lists_assign(l, ctx, &q->rows, first, n, l->n_rows);
    f->count.next = first + n;
    if (f->count.next < l->n_rows) return;
    f->count.next = 0;
    wisp_lists_turn(l, ctx, &q->rows, f->moment, f->seed, ++f->count.turns);
}

/* ---- finding ---- */

static void begin(void *state, struct wisp_context *ctx, const struct wisp_query *q)
{
    struct ivf *f = state;
    assert(q->n <= f->batch && wisp_pool_threads(ctx->pool) <= f->lists->threads);
    if (f->count.turns == 0) build(f, ctx, q);
    wisp_lists_score(f->lists, ctx, f->score, q->h, q->n);
}

static void sample(const void *state, const struct wisp_query *q, size_t i, int thread,
                   struct wisp_pot *pot)
{
    const struct ivf *f = state;
    const struct wisp_lists *l = f->lists;
    size_t of_thread = (size_t)thread * f->probes, left = f->rows;
    int32_t *best = f->best + of_thread;
    size_t n = wisp_lists_best(l, f->score + i * l->n, f->probes, f->value + of_thread, best);
    pot->products += l->n;
    for (size_t p = 0; p < n && left > 0; p++) {
        const int32_t *row = l->row + l->start[best[p]];
        size_t length = l->start[best[p] + 1] - l->start[best[p]], at = 0, end = length;
        if (length >
            left) { /* from anywhere, else the first rows of a long list are all one sees */
            at = wisp_rand_below(f->seed, wisp_stream(WISP_STREAM_IVF_CUT, q->step), i, length);
            end = at + left;
        }
        left -= end - at;
        for (; at < end && pot->n < pot->room; at++)
            wisp_pot_add(pot, row[at < length ? at : at - length]);
    }
}

/* ---- checkpoints ---- */

static size_t blobs(void *state, struct wisp_blob *out)
{
    struct ivf *f = state;
    struct wisp_lists *l = f->lists;
    size_t dims = l->width + 1, metric = dims * dims * sizeof(float);
    size_t centres = l->n * dims * sizeof(float), rows = l->n_rows * sizeof(int32_t);
    const struct wisp_blob all[] = {
        { "ivf.counters", &f->count, sizeof f->count },
        { "ivf.moment", f->moment, metric },
        { "ivf.metric", l->metric, metric },
        { "ivf.centres", l->centre, centres },
        { "ivf.sums", l->sum, centres },
        { "ivf.list_of", l->list_of, rows },
        { "ivf.starts", l->start, (l->n + 1) * sizeof *l->start },
        { "ivf.rows", l->row, rows },
    };
    _Static_assert(sizeof all / sizeof *all <= WISP_MAX_BLOBS, "too many");
    memcpy(out, all, sizeof all);
    return sizeof all / sizeof *all;
}

static bool restored(void *state, struct wisp_context *ctx)
{
    struct ivf *f = state;
    struct wisp_lists *l = f->lists;
    bool good = f->count.next < l->n_rows && l->start[l->n] <= l->n_rows;
    for (size_t c = 0; c < l->n; c++) good &= l->start[c] <= l->start[c + 1];
    if (!good || !wisp_rows_are_good(l->list_of, l->n_rows, -1, l->n) ||
        !wisp_rows_are_good(l->row, l->n_rows, 0, l->n_rows))
        return false;
    const size_t dims = l->width + 1;
    if (f->count.turns && (!wisp_floats_are_good(f->moment, dims * dims) ||
                           !wisp_floats_are_good(l->metric, dims * dims) ||
                           !wisp_floats_are_good(l->centre, l->n * dims) ||
                           !wisp_floats_are_good(l->sum, l->n * dims)))
        return false;
    wisp_lists_derive(l, ctx);
    return true;
}

const struct wisp_finder_kind wisp_finder_ivf = {
    .name = "ivf",
    .what = "inverted lists around centres of the rows",
    .by_weights = true,
    .bytes = bytes,
    .create = create,
    .free = destroy,
    .begin = begin,
    .sample = sample,
    .learn = learn,
    .blobs = blobs,
    .restored = restored,
};

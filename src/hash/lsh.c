/* The hashing finder: rows in L hash tables, a sample's candidates from the buckets of its key.
 *
 * Tables are built from keys (tables.h) that a family of functions (family.h) makes of the rows as
 * a frame shows them (frame.h).  Strategies, for 'want' rows (5 keep when the sampler re-scores,
 * else keep):
 *     vanilla    tables in a random order until 'want' rows are found
 *     topk       all tables; the 'want' rows found in most of them
 *     threshold  all tables; every row found in at least 'votes' of them
 *
 * One block:  lsh | counters | queries' moments, 2 frames | tables (tables.h) | 2 functions |
 *             keys of the batch | work of measuring | work of each thread
 * Of these, counters to tables are the state of a run; functions are drawn again from the counters.
 */
#include "hash/lsh.h"
#include "base/bounds.h"
#include "base/mem.h"
#include "base/rand.h"
#include "graph/ids.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { MOST_BITS = 32 };
static const uint64_t STREAM_ORDER = WISP_STREAM_HASH | 1ull << 62; /* + step << 8 */

/* ---- sizes and memory ---- */

static void lay_work(const struct wisp_lsh *s, struct wisp_lsh_work *w, struct wisp_cut *c)
{
    w->x = wisp_cut_take(c, WISP_HASH_BLOCK * s->shape.width, sizeof *w->x);
    w->row = wisp_cut_take(c, s->width, sizeof *w->row);
    w->keys = wisp_cut_take(c, WISP_HASH_BLOCK * s->shape.n_tables, sizeof *w->keys);
    w->count = wisp_cut_take(c, (size_t)1 << s->t.low_bits, sizeof *w->count);
    w->order = wisp_cut_take(c, s->shape.n_tables, sizeof *w->order);
    w->family = wisp_cut_take(c, s->family->scratch(&s->shape), 1);
}

struct wisp_lsh_work wisp_lsh_work_of(const struct wisp_lsh *s, int thread)
{
    struct wisp_lsh_work w;
    assert(thread < s->threads);
    struct wisp_cut c =
        wisp_cut_of(s->work + (size_t)thread * s->work_bytes, s->work_bytes, WISP_CUT_FRESH);
    lay_work(s, &w, &c);
    return w;
}

static void lay_out(struct wisp_lsh *s, struct wisp_cut *c)
{
    struct wisp_lsh_work w;
    struct wisp_cut work = { 0 };
    size_t frame = wisp_frame_floats(s->width);
    s->float_bytes = (2 * s->width + 2 * frame) * sizeof(float);
    s->function_bytes = s->family->size(&s->shape);
    wisp_cut_take(c, 1, sizeof *s);
    s->c = wisp_cut_take(c, 1, sizeof *s->c);
    s->mean = wisp_cut_take(c, s->float_bytes, 1);
    wisp_tables_lay(&s->t, c);
    for (int g = 0; g < 2; g++) s->functions[g] = wisp_cut_take(c, s->function_bytes, 1);
    s->query_keys = wisp_cut_take(c, s->batch * s->shape.n_tables, sizeof *s->query_keys);
    s->measuring = wisp_cut_take(c, WISP_FRAME_SAMPLE + 2 * s->width, sizeof *s->measuring);
    lay_work(s, &w, &work);
    s->work_bytes = work.at;
    s->work = wisp_cut_take(c, (size_t)s->threads, s->work_bytes);
    if (!c->block) return;
    s->square = s->mean + s->width;
    for (size_t g = 0; g < 2; g++)
        wisp_frame_place(&s->frame[g], s->square + s->width + g * frame, s->width,
                         s->shape.appended);
}

static int log2_down(size_t n)
{
    int bits = 0;
    while (n >>= 1) bits++;
    return bits;
}

static wisp_status check(const struct wisp_sampling *o, const struct wisp_hash_family *family,
                         wisp_error *err)
{
    if (!family) {
        char names[100] = "";
        for (size_t i = 0, at = 0; (family = wisp_hash_family_at(i)) && at < sizeof names; i++)
            at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "",
                                   family->name);
        return wisp_fail(err, WISP_EINVAL, "hash family '%s' is not known: expected one of %s",
                         o->family, names);
    }
    if (o->bits < 0 || o->bits > MOST_BITS)
        return wisp_fail(err, WISP_EINVAL, "hash keys of %d bits: expected 1 to %d", o->bits,
                         MOST_BITS);
    if (o->tables < 0 || o->tables > WISP_MOST_TABLES)
        return wisp_fail(err, WISP_EINVAL, "%d hash tables: expected 1 to %d", o->tables,
                         WISP_MOST_TABLES);
    return WISP_OK;
}

/* Is there a finder beside it that remembers rows? */
static bool beside_memory(const char *names)
{
    size_t length;
    bool found = false;
    for (const char *p = names; *p && !found;) {
        const struct wisp_finder_kind *k = wisp_finder_next(&p, &length);
        found = k && k->remembers;
    }
    return found;
}

/* All sizes.  Keys have a few rows per bucket; 50 tables, beside neighbours 12 do as well
 * (docs/sampling.md); 20 rows kept. */
static wisp_status plan(struct wisp_lsh *s, const struct wisp_finder_setup *setup, wisp_error *err)
{
    const struct wisp_sampling *o = setup->o;
    *s = (struct wisp_lsh){
        .o = *o,
        .family = wisp_hash_family_find(o->family[0] ? o->family : WISP_HASH_USUAL),
        .n_rows = setup->n_rows,
        .width = setup->width,
        .batch = setup->batch,
        .keep = o->keep ? o->keep : 20,
        .votes = o->votes > 0 ? (size_t)o->votes : 2,
        .seed = setup->seed,
        .threads = setup->threads,
    };
    wisp_status st = check(o, s->family, err);
    if (st != WISP_OK) return st;
    s->first_gap = s->n_rows < 100000 ? 50 : s->n_rows / 2000;
    if (o->rebuild) s->first_gap = o->rebuild;
    int rows_bits = log2_down(s->n_rows), bits = o->bits;
    if (!bits) bits = rows_bits - 1 < 4 ? 4 : rows_bits - 1;
    int digit = s->family->digit_bits(s->width), digits = (bits + digit / 2) / digit;
    if (digits < 1) digits = 1;
    if (digits * digit > MOST_BITS) digits = MOST_BITS / digit;
    s->shape = (struct wisp_hash_shape){
        .appended = o->transform && s->family->cosine ? 2 : 0,
        .n_tables = o->tables                 ? (size_t)o->tables
                    : beside_memory(o->names) ? WISP_TABLES_BESIDE
                                              : WISP_TABLES,
        .digits = digits,
        .digit_bits = digit,
    };
    s->shape.width = s->width + s->shape.appended;
    /* more buckets than rows would be memory for nothing: longer keys are folded */
    int most = rows_bits + 1 < 24 ? rows_bits + 1 : 24;
    s->t = (struct wisp_tables){
        .n_rows = s->n_rows,
        .n_tables = s->shape.n_tables,
        .bits = digits * digit < most ? digits * digit : most,
        .cap = o->bucket,
        .reservoir = o->reservoir,
    };
    s->key_shift = digits * digit > most ? 32 - most : 0;
    s->key_mask = s->key_shift ? UINT32_MAX : UINT32_MAX >> (32 - s->t.bits);
    return WISP_OK;
}

static size_t bytes(const struct wisp_finder_setup *setup)
{
    struct wisp_lsh s;
    struct wisp_cut c = { 0 };
    if (plan(&s, setup, NULL) == WISP_OK) lay_out(&s, &c);
    return c.at;
}

static wisp_status create(void **state, const struct wisp_finder_setup *setup, wisp_error *err)
{
    struct wisp_lsh s;
    *state = NULL;
    wisp_status st = plan(&s, setup, err);
    if (st != WISP_OK) return st;
    size_t total = bytes(setup);
    char *block = wisp_zalloc(total, 1);
    if (!block) return wisp_fail_mem(err, total, "the hash tables");
    struct wisp_cut c = wisp_cut_of(block, total, WISP_CUT_KEEP);
    lay_out(&s, &c);
    memcpy(block, &s, sizeof s);
    *state = block;
    return WISP_OK;
}

/* ---- finding ---- */

struct job { /* hash the batch */
    const struct wisp_lsh *s;
    const struct wisp_kernels *k;
    const struct wisp_query *q;
};

static void query_block(void *arg, size_t block, int thread)
{
    const struct job *j = arg;
    const struct wisp_lsh *s = j->s;
    struct wisp_lsh_work w = wisp_lsh_work_of(s, thread);
    size_t i0 = block * WISP_HASH_BLOCK, m = j->q->n - i0, n_tables = s->shape.n_tables;
    if (m > WISP_HASH_BLOCK) m = WISP_HASH_BLOCK;
    const float *h = j->q->h + i0 * s->width;
    uint32_t *keys = s->query_keys + i0 * n_tables;
    for (size_t i = 0; s->o.transform && i < m; i++)
        wisp_frame_query(&s->frame[s->c->now], w.x + i * s->shape.width, h + i * s->width);
    s->family->hash(keys, s->functions[s->c->now], &s->shape, j->k, s->o.transform ? w.x : h, m, 0,
                    n_tables, w.family);
    for (size_t i = 0; i < m * n_tables; i++) keys[i] = wisp_lsh_bucket(s, keys[i]);
}

static void begin(void *state, struct wisp_context *ctx, const struct wisp_query *q)
{
    struct wisp_lsh *s = state;
    assert(q->n <= s->batch && q->rows.n == s->n_rows && q->rows.width == s->width);
    if (!s->c->built) wisp_lsh_build(s, ctx, q);
    struct job j = { s, ctx->k, q };
    wisp_parallel_for(ctx->pool, wisp_parts(q->n, WISP_HASH_BLOCK), query_block, &j);
}

/* A bucket's rows; no more than the pot could hold. */
static const int32_t *bucket(const struct wisp_lsh *s, size_t table, const uint32_t *keys,
                             size_t *n, const struct wisp_pot *pot)
{
    const int32_t *rows = wisp_tables_bucket(&s->t, (int)s->c->now, table, keys[table], n);
    if (*n > pot->room) *n = pot->room;
    return rows;
}

static void find_some(const struct wisp_lsh *s, const uint32_t *keys, uint32_t *order, size_t want,
                      uint64_t stream, size_t i, struct wisp_pot *pot)
{
    size_t n_tables = s->shape.n_tables, end = pot->n + want;
    for (size_t t = 0; t < n_tables; t++) order[t] = (uint32_t)t;
    for (size_t t = 0; t < n_tables; t++) {
        size_t with = t + wisp_rand_below(s->seed, stream, i * n_tables + t, n_tables - t), n;
        uint32_t table = order[with];
        order[with] = order[t];
        const int32_t *rows = bucket(s, table, keys, &n, pot);
        for (size_t r = 0; r < n && pot->n < end; r++) wisp_pot_add(pot, rows[r]);
        if (pot->n >= end) return;
    }
}

static void find_all(const struct wisp_lsh *s, const uint32_t *keys, struct wisp_pot *pot)
{
    enum { AHEAD = 4 };
    size_t n_tables = s->shape.n_tables, n;
    for (size_t t = 0; t < n_tables; t++)
        __builtin_prefetch(wisp_tables_start(&s->t, (int)s->c->now, t, keys[t]));
    for (size_t t = 0; t < n_tables; t++) {
        if (t + AHEAD < n_tables) __builtin_prefetch(bucket(s, t + AHEAD, keys, &n, pot));
        const int32_t *rows = bucket(s, t, keys, &n, pot);
        wisp_pot_add_all(pot, rows, n);
    }
}

static void sample(const void *state, const struct wisp_query *q, size_t i, int thread,
                   struct wisp_pot *pot)
{
    const struct wisp_lsh *s = state;
    const uint32_t *keys = s->query_keys + i * s->shape.n_tables;
    size_t first = pot->n, want = s->o.rescore ? 5 * s->keep : s->keep;
    struct wisp_lsh_work w = wisp_lsh_work_of(s, thread);
    switch (s->o.strategy) {
    case WISP_VANILLA:
        find_some(s, keys, w.order, want, wisp_stream(STREAM_ORDER, q->step), i, pot);
        break;
    case WISP_TOPK:
        find_all(s, keys, pot);
        wisp_pot_trim(pot, first, want, 1);
        break;
    case WISP_THRESHOLD:
        find_all(s, keys, pot);
        wisp_pot_trim(pot, first, pot->room, (unsigned)s->votes);
        break;
    }
}

/* ---- learning, state ---- */

static void learn(void *state, struct wisp_context *ctx, const struct wisp_query *q,
                  const struct wisp_outcome *o)
{
    (void)o; /* which rows moved does not matter: all are hashed again */
    struct wisp_lsh *s = state;
    if (s->c->built) wisp_lsh_keep_up(s, ctx, q);
}

static size_t blobs(void *state, struct wisp_blob *out)
{
    struct wisp_lsh *s = state;
    const struct wisp_tables *t = &s->t;
    const struct wisp_blob all[] = {
        { "lsh.counters", s->c, sizeof *s->c },
        { "lsh.frames", s->mean, s->float_bytes },
        { "lsh.entry", t->entry, t->entry_bytes },
        { "lsh.cut", t->cut, t->cut_bytes },
        { "lsh.total", t->total, t->total_bytes },
        { "lsh.start", t->start[0], 2 * t->start_bytes }, /* both sets: one lies after the other */
        { "lsh.rows", t->rows[0], 2 * t->row_bytes },
    };
    memcpy(out, all, sizeof all);
    return sizeof all / sizeof *all;
}

static bool restored(void *state, struct wisp_context *ctx)
{
    (void)ctx;
    struct wisp_lsh *s = state;
    const struct wisp_lsh_counters *c = s->c;
    const size_t parts = s->t.n_tables * s->t.n_parts;
    if (c->built > 1 || c->now > 1 || (c->built && (c->gap == 0 || c->pos >= c->gap)) ||
        c->gap > WISP_LSH_GROWTH * s->first_gap || c->hashed > s->n_rows || c->parts > parts ||
        (c->parts && c->hashed < s->n_rows) ||
        !wisp_floats_are_good(s->mean, s->float_bytes / sizeof(float)) ||
        !wisp_tables_are_good(&s->t, (size_t)c->hashed))
        return false;
    uint64_t filled = 0;
    for (size_t p = 0; p < c->parts; p++) filled += s->t.total[p];
    if (c->filled != filled) return false;
    for (int g = 0; g < 2; g++) s->family->init(s->functions[g], &s->shape, s->seed, c->draw[g]);
    return true;
}

/* The card makes tables of its own, under the first functions: none are in use here then. */
static void device(struct wisp_finders *out, const struct wisp_finder_setup *setup, void *state)
{
    struct wisp_lsh planned, *s = state;
    struct wisp_cut sizes = { 0 };
    if (!s) {
        if (plan(&planned, setup, NULL) != WISP_OK) return; /* create() says why */
        s = &planned;
        lay_out(s, &sizes);
    } else {
        s->family->init(s->functions[0], &s->shape, s->seed, 0);
        out->hash.functions = s->functions[0];
    }
    out->hash.family = s->family->name;
    out->hash.n_tables = s->shape.n_tables;
    out->hash.digits = s->shape.digits;
    out->hash.digit_bits = s->shape.digit_bits;
    out->hash.bits = s->t.bits;
    out->hash.key_shift = s->key_shift;
    out->hash.key_mask = s->key_mask;
    out->hash.appended = s->shape.appended;
    out->hash.transform = s->o.transform;
    out->hash.function_bytes = s->function_bytes;
    out->hash.first_gap = s->first_gap;
}

const struct wisp_finder_kind wisp_finder_lsh = {
    .name = "lsh",
    .what = "hash tables over the rows, of the family --hash",
    .by_weights = true,
    .bytes = bytes,
    .create = create,
    .free = wisp_free,
    .begin = begin,
    .sample = sample,
    .learn = learn,
    .blobs = blobs,
    .restored = restored,
    .device = device,
};

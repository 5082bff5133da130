/* Joining finders: pots of samples, the union, the accounts. */
#include "hash/sampler.h"
#include "hash/best.h"
#include "base/bounds.h"
#include "base/mem.h"
#include "base/rand.h"
#include "graph/ids.h"
#include "hash/swap.h"
#include "hash/unite.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { GROUP = 4 }; /* samples per task */

struct wisp_sampler {
    struct wisp_sampling o;
    size_t n_rows, batch, room;
    uint64_t seed;
    int n_finders;
    const struct wisp_finder_kind *kind[WISP_MAX_FINDERS];
    void *state[WISP_MAX_FINDERS];
    struct wisp_pot *pots; /* (threads) */
    unsigned char *pot_blocks;
    int32_t *own; /* (batch, keep) */
    struct wisp_wants wants;
    int32_t *found; /* (batch, wants.deep) best of the pot, -1: none */
    float *limit;   /* (batch) score of the last of them; -INFINITY: the pot had fewer */
    uint32_t *n_own;
    uint64_t *products; /* (batch) */
    struct wisp_rows_for_all all;
    /* the union: (row, shift) in order of arrival, then sorted */
    uint32_t *place; /* (n_rows) place in the set plus 1, or 0 */
    uint64_t *mark_words;
    struct wisp_marks marks; /* rows of the set being made */
    size_t n;
    int32_t *rows, *spare; /* (room) */
    float *shift, *shift_spare;
    uint32_t *op, *op_own; /* (batch + 1), (room of all samples' own rows) */
    struct wisp_sampler_counts counts;
    /* of several ranks */
    struct wisp_share share;
    uint64_t *swap, *asked; /* (batch, width), (batch, hops) keys that are exchanged */
    uint64_t *heat;         /* (room) keys */
    int32_t *here;          /* (room) rows of the set that are this rank's */
    float *here_shift;
};

/* ---- sizes ---- */

static size_t rows_for_all_room(const struct wisp_finder_setup *s)
{
    size_t n = 0, length;
    for (const char *p = s->o->names; *p;) {
        const struct wisp_finder_kind *k = wisp_finder_next(&p, &length);
        if (k && k->most_for_all) n += k->most_for_all(s);
    }
    return n;
}

struct wisp_wants wisp_sampler_wants(const struct wisp_finder_setup *s)
{
    struct wisp_wants all = { 0, 0 };
    size_t length;
    for (const char *p = s->o->names; *p;) {
        const struct wisp_finder_kind *k = wisp_finder_next(&p, &length);
        if (!k || !k->wants) continue;
        struct wisp_wants w = k->wants(s);
        if (w.best > all.best) all.best = w.best;
        if (w.deep > all.deep) all.deep = w.deep;
    }
    return all;
}

size_t wisp_sampler_room(const struct wisp_finder_setup *s, size_t batch_labels)
{
    const struct wisp_sampling *o = s->o;
    size_t n = s->batch * o->keep + rows_for_all_room(s) + batch_labels;
    size_t most = o->most > batch_labels ? o->most : batch_labels; /* labels are always in */
    if (o->most && n > most) n = most;
    if (n < o->least) n = o->least;
    return n < s->n_rows ? n : s->n_rows;
}

size_t wisp_sampler_own_room(const struct wisp_finder_setup *s, size_t batch_labels)
{
    return s->o->per_example ? s->batch * (s->o->keep + rows_for_all_room(s)) + batch_labels : 0;
}

/* Keys of a sample that several ranks exchange at once. */
static size_t swap_width(const struct wisp_finder_setup *s)
{
    const size_t deep = wisp_sampler_wants(s).deep,
                 n = s->o->keep > deep ? s->o->keep : deep; /* of the pot */
    return n > 0 ? n : 1;
}

/* ... or of the batch, where that is more. */
static size_t swap_room(const struct wisp_finder_setup *s)
{
    const size_t n = s->batch * swap_width(s);
    return n > s->o->n_carried ? n : s->o->n_carried;
}

/* The blocks of a sampler without its finders: fn is asked for each. */
static bool blocks(struct wisp_sampler *t, const struct wisp_finder_setup *s, size_t batch_labels,
                   bool (*fn)(void *arg, void **p, size_t n, size_t size), void *arg)
{
    size_t room = wisp_sampler_room(s, batch_labels), all = rows_for_all_room(s),
           own = wisp_sampler_own_room(s, batch_labels), threads = (size_t)s->threads;
    return fn(arg, (void **)&t->pots, threads, sizeof *t->pots) &&
           fn(arg, (void **)&t->pot_blocks, threads, wisp_pot_bytes(WISP_POT_ROOM)) &&
           fn(arg, (void **)&t->own, s->batch * s->o->keep, sizeof *t->own) &&
           fn(arg, (void **)&t->found, s->batch * wisp_sampler_wants(s).deep, sizeof *t->found) &&
           fn(arg, (void **)&t->limit, s->batch, sizeof *t->limit) &&
           fn(arg, (void **)&t->n_own, s->batch, sizeof *t->n_own) &&
           fn(arg, (void **)&t->products, s->batch, sizeof *t->products) &&
           fn(arg, (void **)&t->all.row, all, sizeof *t->all.row) &&
           fn(arg, (void **)&t->all.shift, all, sizeof *t->all.shift) &&
           fn(arg, (void **)&t->place, s->n_rows, sizeof *t->place) &&
           fn(arg, (void **)&t->mark_words, wisp_marks_words(s->n_rows), sizeof(uint64_t)) &&
           fn(arg, (void **)&t->rows, room, sizeof *t->rows) &&
           fn(arg, (void **)&t->spare, room, sizeof *t->spare) &&
           fn(arg, (void **)&t->shift, room, sizeof *t->shift) &&
           fn(arg, (void **)&t->shift_spare, room, sizeof *t->shift_spare) &&
           (wisp_share_all(s->share) ||
            (fn(arg, (void **)&t->swap, swap_room(s), sizeof *t->swap) &&
             fn(arg, (void **)&t->asked, s->batch * WISP_POT_HOPS, sizeof *t->asked) &&
             fn(arg, (void **)&t->heat, room, sizeof *t->heat) &&
             fn(arg, (void **)&t->here, room, sizeof *t->here) &&
             fn(arg, (void **)&t->here_shift, room, sizeof *t->here_shift))) &&
           (own == 0 || (fn(arg, (void **)&t->op, s->batch + 1, sizeof *t->op) &&
                         fn(arg, (void **)&t->op_own, own, sizeof *t->op_own)));
}

static bool add_up(void *arg, void **p, size_t n, size_t size)
{
    (void)p;
    *(size_t *)arg += n * size;
    return true;
}

static bool take(void *arg, void **p, size_t n, size_t size)
{
    (void)arg;
    *p = wisp_zalloc(n, size);
    return *p != NULL;
}

static bool give(void *arg, void **p, size_t n, size_t size)
{
    (void)arg, (void)n, (void)size;
    wisp_free(*p);
    return true;
}

size_t wisp_sampler_bytes(const struct wisp_finder_setup *s, size_t batch_labels)
{
    struct wisp_sampler none;
    size_t bytes = 0, length;
    blocks(&none, s, batch_labels, add_up, &bytes);
    struct wisp_finder_setup setup = *s;
    setup.active = wisp_sampler_room(s, batch_labels);
    for (const char *p = s->o->names; *p;) bytes += wisp_finder_next(&p, &length)->bytes(&setup);
    return bytes;
}

wisp_status wisp_sampler_create(struct wisp_sampler **out, const struct wisp_finder_setup *s,
                                const struct wisp_kernels *k, size_t batch_labels, wisp_error *err)
{
    *out = NULL;
    struct wisp_sampler *t = wisp_zalloc(1, sizeof *t);
    if (!t) return wisp_fail_mem(err, sizeof *t, "the sampler");
    t->o = *s->o;
    t->n_rows = s->n_rows;
    t->batch = s->batch;
    t->seed = s->seed;
    t->share = s->share;
    t->room = wisp_sampler_room(s, batch_labels);
    t->all.room = rows_for_all_room(s);
    t->wants = wisp_sampler_wants(s);
    wisp_status st = WISP_OK;
    if (!blocks(t, s, batch_labels, take, NULL))
        st = wisp_fail_mem(err, wisp_sampler_bytes(s, batch_labels), "the sampler");
    wisp_marks_place(&t->marks, t->mark_words, s->n_rows);
    if (st == WISP_OK) memset(t->found, 255, s->batch * t->wants.deep * sizeof *t->found);
    for (int i = 0; st == WISP_OK && i < s->threads; i++)
        wisp_pot_init(&t->pots[i], k, t->pot_blocks + (size_t)i * wisp_pot_bytes(WISP_POT_ROOM),
                      WISP_POT_ROOM);
    struct wisp_finder_setup setup = *s;
    setup.active = t->room;
    size_t length;
    for (const char *p = t->o.names; st == WISP_OK && *p;) {
        assert(t->n_finders < WISP_MAX_FINDERS);
        const struct wisp_finder_kind *f = t->kind[t->n_finders] = wisp_finder_next(&p, &length);
        st = f->create(&t->state[t->n_finders], &setup, err);
        if (st == WISP_OK) t->n_finders++;
    }
    if (st != WISP_OK) wisp_sampler_free(t);
    else *out = t;
    return st;
}

void wisp_sampler_free(struct wisp_sampler *s)
{
    if (!s) return;
    for (int i = 0; i < s->n_finders; i++) s->kind[i]->free(s->state[i]);
    struct wisp_finder_setup any = {
        .o = &s->o, .n_rows = s->n_rows, .batch = s->batch, .share = s->share
    };
    blocks(s, &any, 0, give, NULL);
    wisp_free(s);
}

/* ---- choosing ---- */

struct job {
    struct wisp_sampler *s;
    const struct wisp_query *q;
    size_t n_groups;
    size_t width;   /* keys of a sample that ranks exchange */
    uint64_t *hops; /* what finders go on from, of all ranks; NULL: none of them does */
};

/* The old set's places are taken back; the new one's rows are marked. */
static void mark_group(const struct job *j, size_t group, size_t first, size_t end)
{
    struct wisp_sampler *s = j->s;
    size_t old = group * s->n / j->n_groups, old_end = (group + 1) * s->n / j->n_groups;
    for (size_t r = old; r < old_end; r++) s->place[s->rows[r]] = 0;
    for (size_t y = j->q->yp ? j->q->yp[first] : 0; j->q->yp && y < j->q->yp[end]; y++)
        wisp_marks_add(&s->marks, j->q->yi[y]);
    for (size_t i = first; i < end; i++)
        for (size_t c = 0; c < s->n_own[i]; c++)
            wisp_marks_add(&s->marks, s->own[i * s->o.keep + c]);
}

static void find_group(void *arg, size_t group, int thread)
{
    const struct job *j = arg;
    struct wisp_sampler *s = j->s;
    struct wisp_pot *pot = &s->pots[thread];
    size_t keep = s->o.keep, end = (group + 1) * GROUP < j->q->n ? (group + 1) * GROUP : j->q->n;
    for (size_t i = group * GROUP; i < end; i++) {
        wisp_pot_start(pot, j->q, i);
        for (int f = 0; f < s->n_finders; f++)
            if (s->kind[f]->sample) s->kind[f]->sample(s->state[f], j->q, i, thread, pot);
        size_t n, ranked = 0;
        const uint64_t *best = NULL;
        if (s->o.rescore || pot->n_scored > 0) { /* a finder that scores has made the choice */
            wisp_pot_score(pot);
            best = wisp_pot_best(pot, keep > s->wants.deep ? keep : s->wants.deep, &ranked);
            n = ranked < keep ? ranked : keep;
            for (size_t c = 0; c < n; c++) s->own[i * keep + c] = wisp_key_row(best[c]);
        } else {
            wisp_pot_trim(pot, 0, keep, 0);
            n = pot->n;
            memcpy(s->own + i * keep, pot->row, n * sizeof *s->own);
        }
        for (size_t c = 0; c < s->wants.deep; c++)
            s->found[i * s->wants.deep + c] = c < ranked ? wisp_key_row(best[c]) : -1;
        s->limit[i] = s->wants.deep && ranked >= s->wants.deep
                          ? wisp_key_score(best[s->wants.deep - 1])
                          : -INFINITY;
        s->n_own[i] = (uint32_t)n;
        s->products[i] = pot->products;
    }
    mark_group(j, group, group * GROUP, end);
}

/* Adds a row to the union, unless 'most' are in; one chosen for a reason too has no shift. */
static void add(struct wisp_sampler *s, int32_t row, float shift, size_t most)
{
    if (s->place[row]) {
        if (shift == 0) s->shift[s->place[row] - 1] = 0;
        return;
    }
    if (s->n >= most) return;
    s->rows[s->n] = row;
    s->shift[s->n++] = shift;
    s->place[row] = (uint32_t)s->n;
}

static void unite(struct wisp_sampler *s, const struct wisp_query *q)
{
    s->n = 0;
    for (size_t i = 0; q->yp && i < q->yp[q->n]; i++) add(s, q->yi[i], 0, s->room);
    size_t most = s->o.most > s->n ? s->o.most : s->n;
    if (!s->o.most || most > s->room) most = s->room;
    for (size_t i = 0; i < s->all.n; i++)
        add(s, s->all.row[i], s->o.correct * s->all.shift[i], most);
    for (size_t rank = 0; rank < s->o.keep; rank++)
        for (size_t i = 0; i < q->n; i++)
            if (rank < s->n_own[i]) add(s, s->own[i * s->o.keep + rank], 0, most);
    size_t least = s->o.least < s->n_rows ? s->o.least : s->n_rows;
    uint64_t stream = wisp_stream(WISP_STREAM_PAD, q->step);
    for (uint64_t t = 0; s->n < least && s->n < s->room; t++) {
        int32_t row = (int32_t)wisp_rand_below(s->seed, stream, t, s->n_rows);
        if (!s->place[row]) add(s, row, 0, s->room); /* one that is in keeps its shift */
    }
}

/* The union of what is marked and the rows for all, where nothing has to be cut or filled up, and
 * no row has a shift: then the order of arrival does not matter. */
static bool unite_marked(struct wisp_sampler *s, struct wisp_context *ctx)
{
    if (s->o.correct > 0) return false;
    for (size_t i = 0; i < s->all.n; i++) wisp_marks_add(&s->marks, s->all.row[i]);
    size_t n = wisp_marks_count(&s->marks, ctx);
    if (n > s->room || (s->o.most && n > s->o.most) || n < s->o.least) return false;
    wisp_marks_take(&s->marks, ctx, s->rows, s->place);
    s->n = n;
    return true;
}

/* By row, ascending: a radix sort, 11 bits per pass. */
static void sort(struct wisp_sampler *s)
{
    enum { BITS = 11, BUCKETS = 1 << BITS };
    for (int bit = 0; bit < 31 && s->n_rows >> bit; bit += BITS) {
        uint32_t start[BUCKETS] = { 0 }, sum = 0;
        for (size_t i = 0; i < s->n; i++) start[s->rows[i] >> bit & (BUCKETS - 1)]++;
        for (int b = 0; b < BUCKETS; b++) {
            uint32_t count = start[b];
            start[b] = sum;
            sum += count;
        }
        for (size_t i = 0; i < s->n; i++) {
            uint32_t to = start[s->rows[i] >> bit & (BUCKETS - 1)]++;
            s->spare[to] = s->rows[i];
            s->shift_spare[to] = s->shift[i];
        }
        int32_t *rows = s->rows;
        float *shift = s->shift;
        s->rows = s->spare, s->shift = s->shift_spare;
        s->spare = rows, s->shift_spare = shift;
    }
    for (size_t i = 0; i < s->n; i++) s->place[s->rows[i]] = (uint32_t)i + 1;
}

static void sort_places(uint32_t *x, size_t n) /* short lists, nearly random */
{
    for (size_t gap = n / 2; gap > 0; gap /= 2)
        for (size_t i = gap; i < n; i++) {
            uint32_t v = x[i];
            size_t at = i;
            for (; at >= gap && x[at - gap] > v; at -= gap) x[at] = x[at - gap];
            x[at] = v;
        }
}

/* Each sample's own part: its labels, its own rows, the rows for all. */
static void own_parts(struct wisp_sampler *s, const struct wisp_query *q)
{
    size_t at = 0;
    for (size_t i = 0; i < q->n; i++) {
        size_t first = at;
        s->op[i] = (uint32_t)at;
        for (uint32_t y = q->yp ? q->yp[i] : 0; q->yp && y < q->yp[i + 1]; y++)
            s->op_own[at++] = s->place[q->yi[y]] - 1;
        for (size_t c = 0; c < s->n_own[i]; c++)
            if (s->place[s->own[i * s->o.keep + c]])
                s->op_own[at++] = s->place[s->own[i * s->o.keep + c]] - 1;
        for (size_t a = 0; a < s->all.n; a++)
            if (s->place[s->all.row[a]]) s->op_own[at++] = s->place[s->all.row[a]] - 1;
        sort_places(s->op_own + first, at - first);
        size_t to = first;
        for (size_t e = first; e < at; e++) /* a row for all may also be the sample's own */
            if (e == first || s->op_own[e] != s->op_own[e - 1]) s->op_own[to++] = s->op_own[e];
        at = to;
    }
    s->op[q->n] = (uint32_t)at;
}

/* What was found for the samples and for all becomes the set. */
static void join(struct wisp_active *out, struct wisp_sampler *s, struct wisp_context *ctx,
                 const struct wisp_query *q)
{
    s->all.n = 0;
    for (int f = 0; f < s->n_finders; f++)
        if (s->kind[f]->rows_for_all) s->kind[f]->rows_for_all(s->state[f], q, &s->all);
    assert(s->all.n <= s->all.room);
    if (!unite_marked(s, ctx)) {
        wisp_marks_clear(&s->marks);
        unite(s, q);
        sort(s);
    }
    *out = (struct wisp_active){ .n = s->n, .rows = s->rows, .place = s->place };
    if (s->o.correct > 0) out->shift = s->shift;
    if (s->o.per_example) {
        own_parts(s, q);
        out->op = s->op;
        out->own = s->op_own;
    }
    s->counts.steps++;
    s->counts.samples += q->n;
    s->counts.active += s->n;
    s->counts.scored += s->o.per_example ? s->op[q->n] : s->n * q->n;
    for (size_t i = 0; i < q->n; i++) s->counts.scored += s->products[i];
}

void wisp_sampler_choose(struct wisp_active *out, struct wisp_sampler *s, struct wisp_context *ctx,
                         const struct wisp_query *q)
{
    assert(q->n <= s->batch && q->rows.n == s->n_rows);
    for (int f = 0; f < s->n_finders; f++)
        if (s->kind[f]->begin) s->kind[f]->begin(s->state[f], ctx, q);
    struct job j = { s, q, wisp_parts(q->n, GROUP), 0, NULL };
    wisp_parallel_for(ctx->pool, j.n_groups, find_group, &j);
    join(out, s, ctx, q);
}

/* ---- several ranks ---- */

static void find_for(const struct job *j, struct wisp_pot *pot, size_t i, int thread)
{
    const struct wisp_sampler *s = j->s;
    pot->share = s->share;
    wisp_pot_start(pot, j->q, i);
    for (int f = 0; f < s->n_finders; f++)
        if (s->kind[f]->sample) s->kind[f]->sample(s->state[f], j->q, i, thread, pot);
}

/* The best rows of this rank that finders would go on from. */
static void ask(void *arg, size_t i, int thread)
{
    const struct job *j = arg;
    struct wisp_pot *pot = &j->s->pots[thread];
    pot->hops = j->s->asked + i * WISP_POT_HOPS;
    pot->told = false;
    memset(pot->hops, 0, WISP_POT_HOPS * sizeof *pot->hops);
    find_for(j, pot, i, thread);
}

/* What is found from there, and the best of this rank. */
static void find_own(void *arg, size_t i, int thread)
{
    const struct job *j = arg;
    struct wisp_sampler *s = j->s;
    struct wisp_pot *pot = &s->pots[thread];
    const size_t k = j->width;
    uint64_t *to = s->swap + i * k;
    pot->hops = j->hops ? j->hops + i * WISP_POT_HOPS : NULL;
    pot->told = true;
    find_for(j, pot, i, thread);
    memset(to, 0, k * sizeof *to);
    s->n_own[i] = 0;
    if (s->o.rescore || pot->n_scored > 0) {
        size_t n;
        wisp_pot_score(pot);
        const uint64_t *best = wisp_pot_best(pot, k, &n);
        memcpy(to, best, n * sizeof *to);
    } else { /* no scores: all ranks have found the same */
        wisp_pot_trim(pot, 0, s->o.keep, 0);
        s->n_own[i] = (uint32_t)pot->n;
        memcpy(s->own + i * s->o.keep, pot->row, pot->n * sizeof *s->own);
    }
    s->products[i] = pot->products;
}

/* The best of all ranks, as find_group has them. */
static void take_merged(const struct job *j, size_t i)
{
    struct wisp_sampler *s = j->s;
    const uint64_t *best = s->swap + i * j->width;
    const size_t keep = s->o.keep, deep = s->wants.deep;
    size_t n = 0;
    while (n < j->width && best[n]) n++;
    for (size_t c = 0; c < n && c < keep; c++) s->own[i * keep + c] = wisp_key_row(best[c]);
    if (n > 0) s->n_own[i] = (uint32_t)(n < keep ? n : keep);
    for (size_t c = 0; c < deep; c++) s->found[i * deep + c] = c < n ? wisp_key_row(best[c]) : -1;
    s->limit[i] = deep && n >= deep ? wisp_key_score(best[deep - 1]) : -INFINITY;
}

/* This rank's rows of the set. */
static void keep_own(struct wisp_active *out, struct wisp_sampler *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        const size_t id = (size_t)s->rows[i];
        if (!wisp_share_has(s->share, id)) continue;
        if (out->shift) s->here_shift[n] = out->shift[i];
        s->here[n++] = (int32_t)wisp_share_row(s->share, id);
    }
    *out =
        (struct wisp_active){ .n = n, .rows = s->here, .shift = out->shift ? s->here_shift : NULL };
}

wisp_status wisp_sampler_choose_shared(struct wisp_active *out, struct wisp_sampler *s,
                                       struct wisp_context *ctx, const struct wisp_query *q,
                                       wisp_error *err)
{
    struct job j = { s, q, wisp_parts(q->n, GROUP), 0, NULL };
    const struct wisp_finder_setup sizes = { .o = &s->o, .n_rows = s->n_rows, .batch = s->batch };
    wisp_status st = WISP_OK;
    bool hops = false;
    assert(q->n <= s->batch);
    j.width = swap_width(&sizes);
    for (int f = 0; f < s->n_finders; f++) hops |= s->kind[f]->hops;
    for (int f = 0; f < s->n_finders; f++)
        if (s->kind[f]->begin) s->kind[f]->begin(s->state[f], ctx, q);
    if (hops) {
        wisp_parallel_for(ctx->pool, q->n, ask, &j);
        st = wisp_keys_swap(s->asked, ctx->comm, q->n, WISP_POT_HOPS, err);
        j.hops = s->asked;
    }
    if (st != WISP_OK) return st;
    wisp_parallel_for(ctx->pool, q->n, find_own, &j);
    st = wisp_keys_swap(s->swap, ctx->comm, q->n, j.width, err);
    if (st != WISP_OK) return st;
    for (size_t i = 0; i < q->n; i++) take_merged(&j, i);
    for (size_t g = 0; g < j.n_groups; g++)
        mark_group(&j, g, g * GROUP, (g + 1) * GROUP < q->n ? (g + 1) * GROUP : q->n);
    join(out, s, ctx, q);
    keep_own(out, s);
    return WISP_OK;
}

wisp_status wisp_sampler_learn_shared(struct wisp_sampler *s, struct wisp_context *ctx,
                                      const struct wisp_query *q, const struct wisp_outcome *o,
                                      wisp_error *err)
{
    const size_t most = s->o.n_carried < s->n_rows ? s->o.n_carried : s->n_rows;
    struct wisp_outcome all = *o;
    struct wisp_active hot = { .rows = s->here };
    size_t n = 0;
    for (size_t i = 0; most && i < o->active->n; i++)
        if (o->heat[i] > 0) {
            const size_t id = wisp_share_id(s->share, (size_t)o->active->rows[i]);
            s->heat[n++] = wisp_key(o->heat[i], (int32_t)id);
        }
    if (most) {
        const size_t kept = n < most ? n : most;
        wisp_keys_select(s->heat, n, kept);
        wisp_keys_sort(s->heat, kept);
        memset(s->swap, 0, most * sizeof *s->swap);
        memcpy(s->swap, s->heat, kept * sizeof *s->swap);
        wisp_status st = wisp_keys_swap(s->swap, ctx->comm, 1, most, err);
        if (st != WISP_OK) return st;
        for (; hot.n < most && s->swap[hot.n]; hot.n++) { /* the set itself is done with */
            s->here[hot.n] = wisp_key_row(s->swap[hot.n]);
            s->here_shift[hot.n] = wisp_key_score(s->swap[hot.n]);
        }
    }
    all.active = &hot;
    all.heat = most ? s->here_shift : NULL;
    wisp_sampler_learn(s, ctx, q, &all);
    return WISP_OK;
}

bool wisp_sampler_chose(const struct wisp_sampler *s, int32_t row)
{
    return s->place[row] > 0;
}

/* ---- learning and state ---- */

size_t wisp_sampler_best(const struct wisp_sampler *s)
{
    return s->wants.best;
}

struct wisp_wants wisp_sampler_wants_of(const struct wisp_sampler *s)
{
    return s->wants;
}

const struct wisp_finder_kind *wisp_sampler_device(struct wisp_finders *out,
                                                   const struct wisp_finder_setup *s,
                                                   struct wisp_sampler *t)
{
    size_t length, f = 0;
    *out = (struct wisp_finders){ 0 };
    for (const char *p = s->o->names; *p; f++) {
        const struct wisp_finder_kind *k = wisp_finder_next(&p, &length);
        if (!k->device) return k;
        k->device(out, s, t ? t->state[f] : NULL);
    }
    return NULL;
}

const float *wisp_sampler_limits(const struct wisp_sampler *s)
{
    return s->limit;
}

void wisp_sampler_learn(struct wisp_sampler *s, struct wisp_context *ctx,
                        const struct wisp_query *q, const struct wisp_outcome *o)
{
    struct wisp_outcome all = *o;
    all.deep = s->wants.deep;
    all.found = s->found;
    for (int f = 0; f < s->n_finders; f++)
        if (s->kind[f]->learn) s->kind[f]->learn(s->state[f], ctx, q, &all);
}

const int32_t *wisp_sampler_own(const struct wisp_sampler *s, size_t i, size_t *n)
{
    *n = s->n_own[i];
    return s->own + i * s->o.keep;
}

struct wisp_sampler_counts *wisp_sampler_counts(struct wisp_sampler *s)
{
    return &s->counts;
}

size_t wisp_sampler_blobs(struct wisp_sampler *s, struct wisp_blob *out)
{
    size_t n = 1;
    out[0] = (struct wisp_blob){ "counts", &s->counts, sizeof s->counts };
    for (int f = 0; f < s->n_finders; f++)
        if (s->kind[f]->blobs) n += s->kind[f]->blobs(s->state[f], out + n);
    return n;
}

void wisp_sampler_inherit(struct wisp_sampler *s, struct wisp_sampler *from)
{
    struct wisp_blob to[WISP_MAX_BLOBS], old[WISP_MAX_BLOBS];
    s->counts = from->counts;
    for (int f = 0; f < s->n_finders; f++) {
        if (s->kind[f]->by_weights || !s->kind[f]->blobs) continue;
        const size_t n = s->kind[f]->blobs(s->state[f], to);
        from->kind[f]->blobs(from->state[f], old);
        for (size_t i = 0; i < n; i++) {
            assert(to[i].bytes == old[i].bytes);
            memcpy(to[i].data, old[i].data, to[i].bytes);
        }
    }
}

bool wisp_sampler_restored(struct wisp_sampler *s, struct wisp_context *ctx)
{
    for (int f = 0; f < s->n_finders; f++)
        if (s->kind[f]->restored && !s->kind[f]->restored(s->state[f], ctx)) return false;
    return true;
}

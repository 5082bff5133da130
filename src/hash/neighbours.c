/* Neighbours: rows that lately scored high where they were wrong.
 *
 * Three memories, filled from scores the step computes anyway:
 *   rings    (rows, ring): for each label, rows that competed with it in samples it is true for,
 *            and labels that came together with it; the oldest is overwritten
 *   last     (samples, last): each sample's best wrong rows at its last visit
 *   carried  the rows with the most wrong probability in the last batch, for the whole next batch
 * A sample's pot gets its last rows and its labels' rings; these are scored, and the rings of the
 * 'hops' best follow: a competitor's competitors.  Nothing is searched, so the cost of a query does
 * not depend on the number of rows. */
#include "base/bounds.h"
#include "base/mem.h"
#include "base/rand.h"
#include "graph/ids.h"
#include "hash/best.h"
#include "hash/finder.h"

#include <string.h>

struct reach {
    size_t ring, last, hops; /* sizes of its memories, rings followed */
};

/* Measured (docs/sampling.md).  With many rows a ring is visited a few times an epoch, and what
 * hashing finds beside it makes up for a shorter memory. */
static struct reach reach_of(size_t n_rows)
{
    enum { MANY = 200000 };
    return n_rows < MANY ? (struct reach){ 56, 40, 10 } : (struct reach){ 24, 20, 4 };
}

enum {
    TOGETHER = 6,    /* labels of the same sample that a ring takes at a visit */
    TO_ALL = 4,      /* best wrong rows that every label's ring takes; the rest are dealt out */
    MOST_RINGS = 10, /* labels whose rings are looked at; samples with more take turns */
    LANES = 16,      /* fixed parts of the work of learning */
    GROUP = 16,      /* samples per task */
};

struct neighbours {
    size_t n_rows, n_samples, most_carried;
    struct reach r;
    uint64_t seed;
    int32_t *ring;    /* (n_rows, r.ring), -1: empty */
    uint8_t *next;    /* (n_rows) place of the oldest; padded to a multiple of 4 */
    int32_t *last;    /* (n_samples, r.last), -1: none */
    int32_t *carried; /* (1 + most_carried): how many, and they */
    int32_t *wrong;   /* (batch, r.last) scratch: best wrong rows of each sample, -1: no more */
    uint64_t *heat;   /* (rows of an active set) scratch to select them */
};

static size_t n_carried(const struct wisp_finder_setup *s)
{
    return s->o->n_carried < s->n_rows ? s->o->n_carried : s->n_rows;
}

static size_t next_bytes(size_t n_rows)
{
    return (n_rows + 3) & ~(size_t)3;
}

static size_t heat_room(const struct wisp_finder_setup *s)
{
    return n_carried(s) ? s->active : 0;
}

static size_t bytes(const struct wisp_finder_setup *s)
{
    struct reach r = reach_of(s->n_rows);
    return s->n_rows * r.ring * sizeof(int32_t) + next_bytes(s->n_rows) +
           s->n_samples * r.last * sizeof(int32_t) + (1 + n_carried(s)) * sizeof(int32_t) +
           s->batch * r.last * sizeof(int32_t) + heat_room(s) * sizeof(uint64_t);
}

static void release(void *state)
{
    struct neighbours *t = state;
    wisp_free(t->ring);
    wisp_free(t->next);
    wisp_free(t->last);
    wisp_free(t->carried);
    wisp_free(t->wrong);
    wisp_free(t->heat);
    wisp_free(t);
}

static wisp_status create(void **state, const struct wisp_finder_setup *s, wisp_error *err)
{
    struct neighbours *t = *state = wisp_zalloc(1, sizeof *t);
    if (!t) return wisp_fail_mem(err, sizeof *t, "neighbours");
    *t = (struct neighbours){ .n_rows = s->n_rows,
                              .n_samples = s->n_samples,
                              .most_carried = n_carried(s),
                              .r = reach_of(s->n_rows),
                              .seed = s->seed };
    t->ring = wisp_alloc(s->n_rows * t->r.ring, sizeof *t->ring);
    t->next = wisp_zalloc(next_bytes(s->n_rows), 1);
    t->last = wisp_alloc(s->n_samples * t->r.last, sizeof *t->last);
    t->carried = wisp_zalloc(1 + t->most_carried, sizeof *t->carried);
    t->wrong = wisp_alloc(s->batch * t->r.last, sizeof *t->wrong);
    t->heat = wisp_alloc(heat_room(s), sizeof *t->heat);
    if (!t->ring || !t->next || !t->last || !t->carried || !t->wrong || !t->heat) {
        release(t);
        return wisp_fail_mem(err, bytes(s), "neighbours");
    }
    memset(t->ring, 255, s->n_rows * t->r.ring * sizeof *t->ring);
    memset(t->last, 255, s->n_samples * t->r.last * sizeof *t->last);
    return WISP_OK;
}

/* ---- finding ---- */

static const int32_t *ring_of(const struct neighbours *t, int32_t row)
{
    return t->ring + (size_t)row * t->r.ring;
}

/* Always inline: else gcc 12 drops it, as it has no effect. */
__attribute__((always_inline)) static inline void fetch(const int32_t *list, size_t n)
{
    enum { LINE = 16 };
    for (size_t i = 0; i < n; i += LINE) __builtin_prefetch(list + i);
    __builtin_prefetch(list + n - 1);
}

/* Asks for what the next sample of the batch will look at. */
__attribute__((always_inline)) static inline void fetch_next(const struct neighbours *t,
                                                             const struct wisp_query *q, size_t i)
{
    if (i >= q->n) return;
    if (q->id && q->id[i] < t->n_samples) fetch(t->last + q->id[i] * t->r.last, t->r.last);
    for (uint32_t y = q->yp[i]; y < q->yp[i + 1] && y < q->yp[i] + MOST_RINGS; y++)
        fetch(ring_of(t, q->yi[y]), t->r.ring);
}

static void sample(const void *state, const struct wisp_query *q, size_t i, int thread,
                   struct wisp_pot *pot)
{
    (void)thread;
    const struct neighbours *t = state;
    size_t n = q->yp[i + 1] - q->yp[i], first = 0, hops;
    fetch_next(t, q, i + 1);
    if (q->id && q->id[i] < t->n_samples)
        wisp_pot_add_all(pot, t->last + q->id[i] * t->r.last, t->r.last);
    if (n > MOST_RINGS)
        first = wisp_rand_below(t->seed, wisp_stream(WISP_STREAM_RINGS, q->step), i, n);
    for (size_t y = 0; y < n && y < MOST_RINGS; y++)
        wisp_pot_add_all(pot, ring_of(t, q->yi[q->yp[i] + (first + y) % n]), t->r.ring);
    const uint64_t *best = wisp_pot_hops(pot, t->r.hops, &hops);
    for (size_t h = 0; h < hops; h++) fetch(ring_of(t, wisp_key_row(best[h])), t->r.ring);
    for (size_t h = 0; h < hops; h++)
        wisp_pot_add_all(pot, ring_of(t, wisp_key_row(best[h])), t->r.ring);
}

static size_t most_for_all(const struct wisp_finder_setup *s)
{
    return n_carried(s);
}

static void rows_for_all(const void *state, const struct wisp_query *q,
                         struct wisp_rows_for_all *out)
{
    (void)q;
    const struct neighbours *t = state;
    for (int32_t i = 0; i < t->carried[0]; i++) {
        out->row[out->n] = t->carried[1 + i];
        out->shift[out->n++] = 0;
    }
}

/* ---- learning ---- */

static void put(struct neighbours *t, const struct wisp_kernels *k, int32_t label, int32_t row)
{
    int32_t *ring = t->ring + (size_t)label * t->r.ring;
    if (k->holds(ring, t->r.ring, row)) return;
    ring[t->next[label]] = row;
    t->next[label] = (uint8_t)((t->next[label] + 1u) % t->r.ring);
}

struct job {
    struct neighbours *t;
    const struct wisp_kernels *k;
    const struct wisp_query *q;
    const struct wisp_outcome *o;
};

static bool is_label(const struct wisp_query *q, size_t i, int32_t row)
{
    for (uint32_t y = q->yp[i]; y < q->yp[i + 1]; y++)
        if (q->yi[y] == row) return true;
    return false;
}

/* The best wrong rows of a sample: those of the active set, then what else its pot had. */
static void gather_wrong(const struct job *j, size_t i)
{
    const struct wisp_outcome *o = j->o;
    size_t n = 0, last = j->t->r.last;
    int32_t *wrong = j->t->wrong + i * last;
    for (size_t b = 0; b < o->k && n < last && o->best[i * o->k + b] >= 0; b++)
        if (!is_label(j->q, i, o->best[i * o->k + b])) wrong[n++] = o->best[i * o->k + b];
    for (size_t f = 0; f < o->deep && n < last && o->found[i * o->deep + f] >= 0; f++) {
        size_t at = 0;
        while (at < n && wrong[at] != o->found[i * o->deep + f]) at++;
        if (at == n) wrong[n++] = o->found[i * o->deep + f];
    }
    while (n < last) wrong[n++] = -1;
    if (j->q->id && j->q->id[i] < j->t->n_samples)
        memcpy(j->t->last + j->q->id[i] * last, wrong, last * sizeof *wrong);
}

static void gather_group(void *arg, size_t group, int thread)
{
    (void)thread;
    const struct job *j = arg;
    size_t end = (group + 1) * GROUP < j->q->n ? (group + 1) * GROUP : j->q->n;
    for (size_t i = group * GROUP; i < end; i++) gather_wrong(j, i);
}

/* A lane looks at all samples and changes the rings of its own labels only, so every ring sees
 * the samples in their order. */
static void fill_rings(void *arg, size_t lane, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct wisp_query *q = j->q;
    size_t last = j->t->r.last;
    for (size_t i = 0; i < q->n; i++) {
        const int32_t *wrong = j->t->wrong + i * last, *labels = q->yi + q->yp[i];
        size_t n = q->yp[i + 1] - q->yp[i];
        for (size_t y = 0; y < n; y++) {
            if ((size_t)labels[y] % LANES != lane) continue;
            for (size_t c = 1; c < n && c <= TOGETHER; c++)
                put(j->t, j->k, labels[y], labels[(y + c) % n]);
            for (size_t w = 0; w < last && wrong[w] >= 0; w++)
                if (w < TO_ALL || w % n == y) put(j->t, j->k, labels[y], wrong[w]);
        }
    }
}

/* Wrong probability of a row: what its logit's gradient sums to, where that is above 0. */
static void carry(struct neighbours *t, const struct wisp_outcome *o)
{
    size_t n = 0;
    for (size_t i = 0; i < o->active->n; i++)
        if (o->heat[i] > 0) {
            int32_t row = o->active->rows ? o->active->rows[i] : (int32_t)i;
            t->heat[n++] = wisp_key(o->heat[i], row);
        }
    size_t most = n < t->most_carried ? n : t->most_carried;
    wisp_keys_select(t->heat, n, most);
    t->carried[0] = (int32_t)most;
    for (size_t i = 0; i < most; i++) t->carried[1 + i] = wisp_key_row(t->heat[i]);
}

static void learn(void *state, struct wisp_context *ctx, const struct wisp_query *q,
                  const struct wisp_outcome *o)
{
    struct neighbours *t = state;
    struct job j = { t, ctx->k, q, o };
    if (o->k) {
        wisp_parallel_for(ctx->pool, wisp_parts(q->n, GROUP), gather_group, &j);
        wisp_parallel_for(ctx->pool, LANES, fill_rings, &j);
    }
    if (t->most_carried && o->heat) carry(t, o);
}

static struct wisp_wants wants(const struct wisp_finder_setup *s)
{
    size_t last = reach_of(s->n_rows).last;
    return (struct wisp_wants){ last + (last < 24 ? 12 : 24), last };
}

static size_t blobs(void *state, struct wisp_blob *out)
{
    struct neighbours *t = state;
    out[0] = (struct wisp_blob){ "rings", t->ring, t->n_rows * t->r.ring * sizeof *t->ring };
    out[1] = (struct wisp_blob){ "rings.next", t->next, next_bytes(t->n_rows) };
    out[2] = (struct wisp_blob){ "last", t->last, t->n_samples * t->r.last * sizeof *t->last };
    out[3] =
        (struct wisp_blob){ "carried", t->carried, (1 + t->most_carried) * sizeof *t->carried };
    return 4;
}

static bool restored(void *state, struct wisp_context *ctx)
{
    (void)ctx;
    const struct neighbours *t = state;
    bool good = t->carried[0] >= 0 && (size_t)t->carried[0] <= t->most_carried;
    for (size_t i = 0; i < t->n_rows; i++) good &= t->next[i] < t->r.ring;
    return good && wisp_rows_are_good(t->ring, t->n_rows * t->r.ring, -1, t->n_rows) &&
           wisp_rows_are_good(t->last, t->n_samples * t->r.last, -1, t->n_rows) &&
           wisp_rows_are_good(t->carried + 1, (size_t)t->carried[0], 0, t->n_rows);
}

static void device(struct wisp_finders *out, const struct wisp_finder_setup *s, void *state)
{
    const struct neighbours *t = state;
    struct reach r = reach_of(s->n_rows);
    out->neighbours.ring = r.ring, out->neighbours.last = r.last, out->neighbours.hops = r.hops;
    out->neighbours.n_carried = n_carried(s);
    if (!t) return;
    out->neighbours.rings = t->ring, out->neighbours.next = t->next;
    out->neighbours.lasts = t->last, out->neighbours.carried = t->carried;
}

const struct wisp_finder_kind wisp_finder_neighbours = {
    .name = "neighbours",
    .what = "rows that competed with the sample's labels, or with the sample itself, before",
    .needs_labels = true,
    .remembers = true,
    .hops = true,
    .shared = true,
    .bytes = bytes,
    .create = create,
    .free = release,
    .sample = sample,
    .rows_for_all = rows_for_all,
    .most_for_all = most_for_all,
    .learn = learn,
    .wants = wants,
    .blobs = blobs,
    .restored = restored,
    .device = device,
};

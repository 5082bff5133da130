/* Wrong bits in the weights of a training step.
 *
 *   largest    of every piece, where the guard asks for it
 *   find       what numbers are hit, and what becomes of them: all weights are still right
 *   swap       they change places with the true ones
 *   (step)     rows that move get their true numbers back first
 *   end        all others do
 *
 * Finding costs as much as there are errors in what the step reads: of rows of features only those that
 * its batch has are looked at.  A guard reads all weights once, and int8 the rows that are hit, for
 * their scales. */
#include "model/mishaps.h"
#include "base/bounds.h"
#include "base/mem.h"

#include <math.h>

enum { PIECES = 64 }; /* of a task */

/* The first number of a piece, and how many it has. */
static size_t first_of(const struct wisp_mishaps_of *o)
{
    return o->piece * WISP_FLIP_PIECE;
}

static size_t numbers_of(const struct wisp_mishaps_of *o)
{
    const size_t left = o->p->n - first_of(o);
    return left < WISP_FLIP_PIECE ? left : WISP_FLIP_PIECE;
}

/* More than will ever be hit: eight deviations above the mean. */
static uint32_t room_for(size_t n, const struct wisp_errors *e)
{
    const double mean = (double)n * wisp_memory_bits(e->type) * e->rate,
                 room = mean + 8 * sqrt(mean) + 32;
    return (uint32_t)(room < (double)n ? room : (double)n);
}

/* The first hit of a piece that is not before 'at'. */
static uint32_t find_hit(const struct wisp_mishaps_of *o, size_t at)
{
    uint32_t low = 0, high = o->n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (o->hits[middle].at < at) low = middle + 1;
        else high = middle;
    }
    return low;
}

static void put_back(const struct wisp_mishaps_of *o, uint32_t i)
{
    struct wisp_mishap *h = &o->hits[i];
    if (!h->back) o->p->w[first_of(o) + h->at] = h->other;
    h->back = true;
}

/* A row is moved: by one thread, once nobody reads it any more. */
static void move_row(const struct wisp_update *u, struct wisp_param *p, size_t row, const float *g)
{
    const struct wisp_mishaps *m = (const struct wisp_mishaps *)u;
    const size_t number = (size_t)(p - m->list->p), first = m->first[number];
    size_t n, at = wisp_param_row(p, row, &n);
    for (size_t i = at / WISP_FLIP_PIECE;
         first + i < m->first[number + 1] && i * WISP_FLIP_PIECE < at + n; i++) {
        const struct wisp_mishaps_of *o = &m->of[first + i];
        const size_t begin = first_of(o), from = at > begin ? at - begin : 0;
        for (uint32_t k = find_hit(o, from); k < o->n && begin + o->hits[k].at < at + n; k++)
            put_back(o, k);
    }
    m->moves->row(m->moves, p, row, g);
}

wisp_status wisp_mishaps_make(struct wisp_mishaps *m, const struct wisp_net *net,
                              const struct wisp_errors *e, wisp_error *err)
{
    const struct wisp_params *list = &net->list;
    size_t room = 0;
    *m = (struct wisp_mishaps){ .update = { move_row }, .list = list, .e = *e };
    for (size_t i = 0; i < list->n; i++)
        if (wisp_errors_in(&list->p[i])) m->n += wisp_parts(list->p[i].n, WISP_FLIP_PIECE);
    m->of = wisp_alloc(m->n, sizeof *m->of);
    m->first = wisp_alloc(list->n + 1, sizeof *m->first);
    m->used = wisp_alloc(m->n, sizeof *m->used);
    if (!m->of || !m->first || !m->used) goto full;
    m->n = 0;
    for (size_t i = 0; i < list->n; i++) {
        struct wisp_param *p = &list->p[i];
        m->first[i] = m->n;
        for (size_t k = 0; wisp_errors_in(p) && k < wisp_parts(p->n, WISP_FLIP_PIECE); k++) {
            struct wisp_mishaps_of *o = &m->of[m->n++];
            *o = (struct wisp_mishaps_of){ .p = p, .piece = k };
            room += o->room = room_for(numbers_of(o), e);
        }
    }
    m->first[list->n] = m->n;
    m->hits = wisp_alloc(room, sizeof *m->hits);
    if (!m->hits) goto full;
    struct wisp_mishap *at = m->hits;
    for (size_t i = 0; i < m->n; at += m->of[i++].room) m->of[i].hits = at;
    return WISP_OK;
full:
    wisp_mishaps_clear(m);
    return wisp_fail_mem(err, room * sizeof *m->hits, "errors of a step");
}

void wisp_mishaps_clear(struct wisp_mishaps *m)
{
    wisp_free(m->of);
    wisp_free(m->first);
    wisp_free(m->used);
    wisp_free(m->hits);
    *m = (struct wisp_mishaps){ 0 };
}

/* ---- of a step ---- */

/* Of all pieces, whatever the step reads of them. */
static void look(void *arg, size_t i, int thread)
{
    (void)thread;
    const struct wisp_mishaps *m = arg;
    for (size_t k = i * PIECES; k < (i + 1) * PIECES && k < m->n; k++)
        m->of[k].largest = wisp_largest(m->of[k].p->w + first_of(&m->of[k]), numbers_of(&m->of[k]));
}

static void find_in(const struct wisp_mishaps *m, struct wisp_mishaps_of *o)
{
    const struct wisp_param *p = o->p;
    struct wisp_flips flips;
    struct wisp_flip f;
    size_t end = 0; /* of the row whose scale is known */
    float scale = 0;
    wisp_flips_begin(&flips, &m->e, (uint64_t)(p - m->list->p), o->piece, p->n);
    while (o->n < o->room && wisp_flips_next(&f, &flips)) {
        if (m->e.type == WISP_MEMORY_INT8 && f.at >= end) {
            size_t n, begin = wisp_param_row(p, wisp_param_row_of(p, f.at), &n);
            end = begin + n;
            scale = wisp_memory_scale(wisp_largest(p->w + begin, n));
        }
        const float x = wisp_flipped(m->e.type, p->w[f.at], f.mask, scale);
        o->hits[o->n++] = (struct wisp_mishap){ wisp_guarded(m->e.guard, x, o->limit),
                                                (uint16_t)(f.at - first_of(o)), false };
    }
}

static void find(void *arg, size_t i, int thread)
{
    (void)thread;
    const struct wisp_mishaps *m = arg;
    for (size_t k = i * PIECES; k < (i + 1) * PIECES && k < m->n_used; k++)
        find_in(m, &m->of[m->used[k]]);
}

static void swap(void *arg, size_t i, int thread)
{
    (void)thread;
    const struct wisp_mishaps *m = arg;
    for (size_t k = i * PIECES; k < (i + 1) * PIECES && k < m->n_used; k++) {
        const struct wisp_mishaps_of *o = &m->of[m->used[k]];
        for (uint32_t h = 0; h < o->n; h++) {
            float *w = &o->p->w[first_of(o) + o->hits[h].at], was = *w;
            *w = o->hits[h].other;
            o->hits[h].other = was;
        }
    }
}

static void use(struct wisp_mishaps *m, size_t piece)
{
    if (!m->of[piece].used) m->used[m->n_used++] = piece;
    m->of[piece].used = true;
}

/* Which pieces the step reads: of rows of features those that its batch has, else all. */
static void choose(struct wisp_mishaps *m, const struct wisp_batch *b)
{
    for (size_t i = 0; i < m->list->n; i++) {
        const struct wisp_param *p = &m->list->p[i];
        const size_t first = m->first[i], end = m->first[i + 1];
        if (p->by != WISP_BY_FEATURE)
            for (size_t k = first; k < end; k++) use(m, k);
        for (size_t t = 0; p->by == WISP_BY_FEATURE && first < end && t < b->n_touched; t++) {
            size_t n, at = wisp_param_row(p, (size_t)b->touched[t], &n);
            for (size_t k = at / WISP_FLIP_PIECE; k * WISP_FLIP_PIECE < at + n; k++)
                use(m, first + k);
        }
    }
}

/* Limits of guards: of all pieces of a parameter. */
static void set_limits(struct wisp_mishaps *m)
{
    for (size_t i = 0; i < m->list->n; i++) {
        float most = 0;
        for (size_t k = m->first[i]; k < m->first[i + 1]; k++) most = fmaxf(most, m->of[k].largest);
        for (size_t k = m->first[i]; k < m->first[i + 1]; k++)
            m->of[k].limit = wisp_guard_limit(m->e.type, most);
    }
}

void wisp_mishaps_begin(struct wisp_mishaps *m, double rate, struct wisp_step *s)
{
    struct wisp_pool *pool = s->ctx->pool;
    m->moves = s->update;
    s->update = &m->update;
    m->e.rate = rate;
    m->e.draw = s->number;
    if (m->e.guard != WISP_GUARD_OFF) {
        wisp_parallel_for(pool, wisp_parts(m->n, PIECES), look, m);
        set_limits(m);
    }
    choose(m, s->batch);
    wisp_parallel_for(pool, wisp_parts(m->n_used, PIECES), find, m);
    wisp_parallel_for(pool, wisp_parts(m->n_used, PIECES), swap, m);
}

void wisp_mishaps_end(struct wisp_mishaps *m)
{
    for (size_t i = 0; i < m->n_used; i++) {
        struct wisp_mishaps_of *o = &m->of[m->used[i]];
        for (uint32_t k = 0; k < o->n; k++) put_back(o, k);
        o->n = 0;
        o->used = false;
    }
    m->n_used = 0;
}

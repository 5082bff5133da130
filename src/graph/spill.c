/* What to make again: a search over sets of values.
 *
 * A set is judged by the bytes that are needed at each moment.  From several sets to begin with (of
 * none, and of all but the smallest of each of 2, 3, 4, 6, ... stretches of layers) values are added
 * one by one, always that which takes away the most excess, in bytes times moments, per microsecond;
 * then those that turn out not to be needed are taken out again, the dearest first.  Of the sets that
 * keep to the limit the one that costs the least time is chosen.
 *
 * Judging takes one pass over values and moments; a round judges at most CANDIDATES of them, those
 * with the most bytes per microsecond, and in large nets adds several. */
#include "graph/spill.h"
#include "base/mem.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CANDIDATES = 64, ROUNDS = 256, HALVINGS = 14 };

struct set { /* of values that are made again, judged */
    bool *drop;
    double us;
    size_t peak;
    double excess; /* bytes times moments */
};

struct search {
    struct wisp_spill *s;
    size_t limit;
    size_t *start;               /* (n + 1) where a value's reads begin in 'reads' */
    int *reads;                  /* (n_reads) */
    int *at, *until;             /* (n) as the last judged set has them; at INT_MAX: never again */
    int64_t *alive;              /* (n_moments + 1) */
    int *above;                  /* (n_moments + 1) moments above the limit before each */
    size_t *order;               /* (n) */
    double *rate;                /* (n) */
    struct set now, best, least; /* being changed; the best, and that with the lowest peak so far */
    bool found;                  /* 'best' keeps to the limit */
};

/* ---- judging ---- */

static bool can(const struct wisp_spill_value *v)
{
    return v->us >= 0;
}

/* Nobody looks at it on the way back. */
static bool passing(const struct wisp_spill_value *v)
{
    return v->back < 0;
}

static void add(struct search *f, int first, int last, size_t bytes)
{
    f->alive[first] += (int64_t)bytes;
    f->alive[last + 1] -= (int64_t)bytes;
}

/* When each value of the set is made again, and until when all are needed. */
static void time_values(struct search *f, const struct set *set)
{
    const struct wisp_spill *s = f->s;
    for (size_t i = 0; i < s->n; i++) {
        const struct wisp_spill_value *v = &s->values[i];
        f->at[i] = set->drop[i] && !passing(v) ? v->back : INT_MAX;
        f->until[i] = v->last > v->front ? v->last : v->front;
    }
    for (size_t i = s->n; i-- > 0;) {
        if (f->at[i] == INT_MAX) continue;
        for (size_t r = f->start[i]; r < f->start[i + 1]; r++) {
            const int u = f->reads[r];
            if (f->at[i] > f->until[u]) f->until[u] = f->at[i];
            const bool again = set->drop[u] || (passing(&s->values[u]) && can(&s->values[u]));
            if (again && f->at[i] < f->at[u]) f->at[u] = f->at[i];
        }
    }
}

static void judge(struct search *f, struct set *set)
{
    const struct wisp_spill *s = f->s;
    time_values(f, set);
    memset(f->alive, 0, ((size_t)s->n_moments + 1) * sizeof *f->alive);
    set->us = set->excess = 0;
    set->peak = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct wisp_spill_value *v = &s->values[i];
        const bool again = f->at[i] != INT_MAX;
        add(f, v->first, again ? v->front : f->until[i], v->bytes);
        if (!again) continue;
        add(f, f->at[i], f->until[i], v->bytes);
        add(f, f->at[i], f->at[i], v->room);
        set->us += v->us;
    }
    int64_t alive = 0;
    f->above[0] = 0;
    for (int t = 0; t < s->n_moments; t++) {
        alive += f->alive[t];
        const size_t all = (size_t)alive + s->other[t];
        if (all > set->peak) set->peak = all;
        if (all > f->limit) set->excess += (double)(all - f->limit);
        f->above[t + 1] = f->above[t] + (all > f->limit);
    }
}

static void copy_set(struct set *to, const struct set *from, size_t n)
{
    memcpy(to->drop, from->drop, n * sizeof *to->drop);
    to->us = from->us, to->peak = from->peak, to->excess = from->excess;
}

/* Keeps the set if it is the best so far. */
static void note(struct search *f, const struct set *set)
{
    const size_t n = f->s->n;
    if (set->peak < f->least.peak) copy_set(&f->least, set, n);
    if (set->peak > f->limit || (f->found && set->us >= f->best.us)) return;
    f->found = true;
    copy_set(&f->best, set, n);
}

/* The set with one value more, or less. */
static void judge_other(struct search *f, struct set *set, size_t i)
{
    set->drop[i] = !set->drop[i];
    judge(f, set);
    if (set->peak < f->least.peak) copy_set(&f->least, set, f->s->n);
}

/* ---- changing ---- */

/* Values worth a look, those with the most bytes per microsecond first: not in the set, and not
 * needed at a moment that needs too much. */
static size_t candidates(struct search *f)
{
    const struct wisp_spill *s = f->s;
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct wisp_spill_value *v = &s->values[i];
        if (f->now.drop[i] || !can(v) || passing(v)) continue;
        if (f->above[v->back] == f->above[v->front + 1]) continue;
        const double rate = (double)v->bytes / (v->us + 1e-3);
        size_t to = n < CANDIDATES ? n++ : CANDIDATES;
        for (; to > 0 && f->rate[to - 1] < rate; to--)
            if (to < CANDIDATES) f->rate[to] = f->rate[to - 1], f->order[to] = f->order[to - 1];
        if (to < CANDIDATES) f->rate[to] = rate, f->order[to] = i;
    }
    return n;
}

/* Orders them by what they take away per microsecond; how many take away anything. */
static size_t weigh(struct search *f, size_t n)
{
    const struct set before = f->now;
    size_t good = 0;
    for (size_t c = 0; c < n; c++) {
        const size_t i = f->order[c];
        judge_other(f, &f->now, i);
        const double gain = before.excess - f->now.excess, cost = f->now.us - before.us;
        const double rate = gain / (cost > 1e-3 ? cost : 1e-3);
        f->now.drop[i] = false;
        if (gain <= 0) continue;
        size_t to = good++;
        for (; to > 0 && f->rate[to - 1] < rate; to--)
            f->rate[to] = f->rate[to - 1], f->order[to] = f->order[to - 1];
        f->rate[to] = rate, f->order[to] = i;
    }
    f->now.us = before.us, f->now.peak = before.peak, f->now.excess = before.excess;
    return good;
}

/* Adds values until the limit is kept to, or none helps. */
static void grow(struct search *f)
{
    const size_t at_once = 1 + f->s->n / ROUNDS;
    for (judge(f, &f->now); f->now.excess > 0;) {
        const size_t good = weigh(f, candidates(f));
        if (good == 0) break;
        for (size_t c = 0; c < good && c < at_once; c++) {
            const double before = f->now.excess;
            judge_other(f, &f->now, f->order[c]);
            if (f->now.excess >= before) judge_other(f, &f->now, f->order[c]);
        }
        judge(f, &f->now); /* for 'above' */
    }
    note(f, &f->now);
}

/* Takes out what is not needed, the dearest first. */
static void shrink(struct search *f)
{
    const struct wisp_spill *s = f->s;
    size_t n = 0;
    if (f->now.excess > 0) return;
    for (size_t i = 0; i < s->n; i++) {
        size_t to = n;
        if (!f->now.drop[i]) continue;
        for (n++; to > 0 && s->values[f->order[to - 1]].us < s->values[i].us; to--)
            f->order[to] = f->order[to - 1];
        f->order[to] = i;
    }
    for (size_t c = 0; c < n; c++) {
        const double us = f->now.us;
        judge_other(f, &f->now, f->order[c]);
        if (f->now.excess > 0 || f->now.us > us) judge_other(f, &f->now, f->order[c]);
    }
    note(f, &f->now);
}

/* All but the smallest of each of so many stretches of equal bytes. */
static void stretch(struct search *f, size_t parts)
{
    const struct wisp_spill *s = f->s;
    double total = 0, sum = 0;
    size_t small = SIZE_MAX, part = 0;
    for (size_t i = 0; i < s->n; i++) {
        f->now.drop[i] = can(&s->values[i]) && !passing(&s->values[i]);
        if (f->now.drop[i]) total += (double)s->values[i].bytes;
    }
    for (size_t i = 0; i < s->n; i++) {
        if (!f->now.drop[i]) continue;
        const size_t in = (size_t)(sum / total * (double)parts);
        sum += (double)s->values[i].bytes;
        if (in != part && small != SIZE_MAX) f->now.drop[small] = false;
        if (in != part || small == SIZE_MAX || s->values[i].bytes < s->values[small].bytes)
            small = i;
        part = in;
    }
}

static void search(struct search *f)
{
    f->found = false;
    memset(f->now.drop, 0, f->s->n * sizeof *f->now.drop);
    grow(f);
    if (f->now.us == 0 && f->found) return; /* nothing need be made again */
    shrink(f);
    for (size_t parts = 1; parts <= f->s->n; parts += parts < 4 ? 1 : parts / 2) {
        stretch(f, parts);
        grow(f);
        shrink(f);
    }
}

/* ---- all of it ---- */

static wisp_status take(struct search *f, wisp_error *err)
{
    const struct wisp_spill *s = f->s;
    const size_t n = s->n, moments = (size_t)s->n_moments + 1;
    f->start = wisp_zalloc(n + 2, sizeof *f->start);
    f->reads = wisp_alloc(s->n_reads + 1, sizeof *f->reads);
    f->at = wisp_alloc(2 * n + 1, sizeof *f->at);
    f->alive = wisp_alloc(moments, sizeof *f->alive);
    f->above = wisp_alloc(moments, sizeof *f->above);
    f->order = wisp_alloc(n + 1, sizeof *f->order);
    f->rate = wisp_alloc(n + 1, sizeof *f->rate);
    f->now.drop = wisp_zalloc(3 * n + 1, sizeof *f->now.drop);
    if (!f->start || !f->reads || !f->at || !f->alive || !f->above || !f->order || !f->rate ||
        !f->now.drop)
        return wisp_fail_mem(err, n * 100 + moments * 12, "a plan of memory");
    f->until = f->at + n;
    f->best.drop = f->now.drop + n, f->least.drop = f->best.drop + n;
    for (size_t r = 0; r < s->n_reads; r++) f->start[s->reads[r].value + 2]++;
    for (size_t i = 0; i < n; i++) f->start[i + 2] += f->start[i + 1];
    for (size_t r = 0; r < s->n_reads; r++)
        f->reads[f->start[s->reads[r].value + 1]++] = s->reads[r].reads;
    return WISP_OK;
}

static void give_back(struct search *f)
{
    wisp_free(f->start);
    wisp_free(f->reads);
    wisp_free(f->at);
    wisp_free(f->alive);
    wisp_free(f->above);
    wisp_free(f->order);
    wisp_free(f->rate);
    wisp_free(f->now.drop);
}

/* The lowest limit that is kept to, between 0 and what is known to be possible; then the cheapest set
 * for it. */
static void lower(struct search *f)
{
    f->least.peak = SIZE_MAX;
    f->limit = 0;
    search(f);
    for (size_t i = 0, low = 0; i < HALVINGS; i++) {
        f->limit = low + (f->least.peak - low) / 2;
        search(f);
        if (!f->found) low = f->limit;
    }
    f->limit = f->least.peak;
    search(f);
    if (!f->found) copy_set(&f->best, &f->least, f->s->n);
}

wisp_status wisp_spill_choose(struct wisp_spill *s, size_t limit, wisp_error *err)
{
    struct search f = { .s = s, .limit = limit, .least.peak = SIZE_MAX };
    wisp_status st = take(&f, err);
    if (st == WISP_OK) {
        if (limit) search(&f);
        else lower(&f);
        judge(&f, f.found || !limit ? &f.best : &f.least);
        s->bytes = f.found || !limit ? f.best.peak : f.least.peak;
        s->us = f.found || !limit ? f.best.us : f.least.us;
        for (size_t i = 0; i < s->n; i++) {
            s->values[i].again = f.at[i] == INT_MAX ? -1 : f.at[i];
            s->values[i].until = f.until[i];
        }
    }
    give_back(&f);
    return st;
}

wisp_status wisp_spill_fit(struct wisp_spill *s, size_t limit, wisp_spill_place *place, void *arg,
                           wisp_error *err)
{
    enum { TRIES = 6 };
    size_t bytes = 0, within = limit;
    for (int i = 0; i < TRIES; i++) {
        wisp_status st = wisp_spill_choose(s, within, err);
        if (st == WISP_OK) st = place(arg, &bytes, err);
        if (st != WISP_OK || bytes <= limit) return st;
        if (s->bytes > within || bytes - limit >= within) break;
        within -= bytes - limit;
    }
    wisp_status st = wisp_spill_choose(s, 0, err);
    return st == WISP_OK ? place(arg, &bytes, err) : st;
}

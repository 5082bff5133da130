/* Placing by size: the largest first, each into the lowest gap between those that are placed and
 * alive with it.  Where that wastes more than 2 %, other orders are tried, and the best one is kept:
 * by bytes times moments, by time, and each of these with what ended highest placed first, again and
 * again. */
#include "graph/arena.h"
#include "base/bounds.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

static size_t up(size_t bytes)
{
    return wisp_up(bytes, ALIGN);
}

struct order { /* an item on its way to a place */
    struct wisp_item *item;
    double weight; /* larger ones first */
    size_t number; /* then in the order given */
};

static int heavier(const void *a, const void *b)
{
    const struct order *x = a, *y = b;
    if (x->weight != y->weight) return x->weight > y->weight ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

static double by_bytes(const struct wisp_item *i)
{
    return (double)i->bytes;
}
static double by_area(const struct wisp_item *i)
{
    return (double)i->bytes * (double)(i->last - i->first + 1);
}
static double by_time(const struct wisp_item *i)
{
    return -(double)i->first;
}
static double (*const weights[])(const struct wisp_item *) = { by_bytes, by_area, by_time };
enum { N_WEIGHTS = sizeof weights / sizeof *weights };
enum { RAISES = 40, MANY = 2000 }; /* tries with what ended highest first, unless items are many */

static bool together(const struct wisp_item *a, const struct wisp_item *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest place for 'item' among 'n' placed ones, which ascend by their places. */
static size_t gap_for(const struct wisp_item *item, struct wisp_item *const *placed, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (!together(item, placed[i])) continue;
        if (placed[i]->at >= at + up(item->bytes)) break;
        if (placed[i]->at + up(placed[i]->bytes) > at) at = placed[i]->at + up(placed[i]->bytes);
    }
    return at;
}

static size_t place_in_order(const struct order *order, struct wisp_item **placed, size_t n)
{
    size_t end = 0;
    for (size_t i = 0; i < n; i++) {
        struct wisp_item *item = order[i].item;
        size_t to = i;
        item->at = gap_for(item, placed, i);
        while (to > 0 && placed[to - 1]->at > item->at) to--;
        memmove(placed + to + 1, placed + to, (i - to) * sizeof *placed);
        placed[to] = item;
        if (item->at + up(item->bytes) > end) end = item->at + up(item->bytes);
    }
    return end;
}

/* The most that is alive at once, by the changes at each moment. */
static wisp_status find_bound(size_t *bound, const struct wisp_item *items, size_t n,
                              wisp_error *err)
{
    int last = 0;
    for (size_t i = 0; i < n; i++) last = items[i].last > last ? items[i].last : last;
    size_t *more = wisp_zalloc((size_t)last + 2, sizeof *more), alive = 0;
    if (!more) return wisp_fail_mem(err, ((size_t)last + 2) * sizeof *more, "a plan of memory");
    for (size_t i = 0; i < n; i++) {
        more[items[i].first] += up(items[i].bytes);
        more[items[i].last + 1] -= up(items[i].bytes);
    }
    *bound = 0;
    for (int t = 0; t <= last; t++) {
        alive += more[t];
        if (alive > *bound) *bound = alive;
    }
    wisp_free(more);
    return WISP_OK;
}

/* What ends highest goes to the front of the order. */
static void raise_highest(struct order *order, size_t n)
{
    size_t high = 0;
    for (size_t i = 1; i < n; i++) {
        const struct wisp_item *a = order[i].item, *b = order[high].item;
        if (a->at + up(a->bytes) > b->at + up(b->bytes)) high = i;
    }
    const struct order first = order[high];
    memmove(order + 1, order, high * sizeof *order);
    order[0] = first;
}

struct placing {
    size_t n, *best, *bytes, enough;
    struct order *order;
    struct wisp_item **placed;
};

/* Keeps the places if they take less than the best so far; true: they are good enough. */
static bool try_order(struct placing *p)
{
    const size_t end = place_in_order(p->order, p->placed, p->n);
    for (size_t i = 0; i < p->n && end < *p->bytes; i++)
        p->best[p->order[i].number] = p->order[i].item->at;
    if (end < *p->bytes) *p->bytes = end;
    return *p->bytes <= p->enough;
}

static void try_orders(struct placing *p, struct wisp_item *items)
{
    for (int tries = 0; tries <= (p->n < MANY ? RAISES : 0); tries += RAISES)
        for (size_t w = 0; w < N_WEIGHTS; w++) {
            for (size_t i = 0; i < p->n; i++)
                p->order[i] = (struct order){ &items[i], weights[w](&items[i]), i };
            qsort(p->order, p->n, sizeof *p->order, heavier);
            if (try_order(p)) return;
            for (int i = 0; i < tries; i++) {
                raise_highest(p->order, p->n);
                if (try_order(p)) return;
            }
        }
}

wisp_status wisp_arena_place(struct wisp_item *items, size_t n, size_t *bytes, size_t *bound,
                             wisp_error *err)
{
    *bytes = *bound = 0;
    if (n == 0) return WISP_OK;
    wisp_status st = find_bound(bound, items, n, err);
    struct order *order = wisp_alloc(n, sizeof *order);
    struct wisp_item **placed = wisp_alloc(n, sizeof(struct wisp_item *));
    size_t *best = wisp_alloc(n, sizeof *best);
    if (st == WISP_OK && (!order || !placed || !best))
        st = wisp_fail_mem(err, n * sizeof *order, "a plan of memory");
    struct placing p = { n, best, bytes, *bound + *bound / 50, order, placed };
    *bytes = SIZE_MAX;
    if (st == WISP_OK) try_orders(&p, items);
    for (size_t i = 0; i < n && st == WISP_OK; i++) items[i].at = best[i];
    wisp_free(order);
    wisp_free(placed);
    wisp_free(best);
    return st;
}

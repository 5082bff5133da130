/* Placing by size: the largest first, each into the lowest gap between those that are placed and
 * alive with it.  Where that wastes more than 2 %, other orders are tried, and the best one is kept:
 * by bytes times moments, and by time. */
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
    *bytes = SIZE_MAX;
    for (size_t w = 0; w < N_WEIGHTS && st == WISP_OK; w++) {
        if (*bytes <= *bound + *bound / 50) break;
        for (size_t i = 0; i < n; i++)
            order[i] = (struct order){ &items[i], weights[w](&items[i]), i };
        qsort(order, n, sizeof *order, heavier);
        size_t end = place_in_order(order, placed, n);
        if (end >= *bytes) continue;
        *bytes = end;
        for (size_t i = 0; i < n; i++) best[i] = items[i].at;
    }
    for (size_t i = 0; i < n && st == WISP_OK; i++) items[i].at = best[i];
    wisp_free(order);
    wisp_free(placed);
    wisp_free(best);
    return st;
}

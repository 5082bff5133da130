/* Which first layers go a lot of samples at a time: all that can end there are tried, with halves,
 * quarters, eighths, ... of the batch. */
#include "graph/lots.h"
#include "base/bounds.h"

static bool is_better(const struct wisp_lots_choice *a, const struct wisp_lots_choice *b,
                      size_t limit)
{
    const bool fits = a->bytes <= limit, fitted = b->bytes <= limit;
    return fits ? !fitted || a->us < b->us : !fitted && a->bytes < b->bytes;
}

wisp_status wisp_lots_choose(const struct wisp_lots_search *s, struct wisp_lots_choice now,
                             wisp_error *err)
{
    struct wisp_lots_choice best = now;
    wisp_status st = WISP_OK;
    for (size_t samples = wisp_parts(s->batch, 2), last = s->batch; samples < last && st == WISP_OK;
         last = samples, samples = wisp_parts(samples, 2))
        for (int first = 1; first < s->n_layers && st == WISP_OK; first++) {
            struct wisp_lots_choice c = { first, samples, 0, 0 };
            if (!s->can_end(s->arg, first)) continue;
            st = s->place(s->arg, &c, err);
            if (st == WISP_OK && is_better(&c, &best, s->limit)) best = c;
        }
    return st == WISP_OK ? s->place(s->arg, &best, err) : st;
}

/* The times of a run's steps. */
#include "model/pace.h"
#include "base/mem.h"

enum { MOST_STEPS = 1 << 16 };

wisp_status wisp_pace_begin(struct wisp_pace *p, int n_layers, wisp_error *err)
{
    const size_t layers = (size_t)n_layers;
    p->each = wisp_alloc(MOST_STEPS, sizeof *p->each);
    p->laps.forward = wisp_zalloc(3 * layers, sizeof *p->laps.forward);
    if (!p->each || !p->laps.forward)
        return wisp_fail_mem(err, MOST_STEPS * sizeof *p->each, "the times of steps");
    p->laps.back = p->laps.forward + layers;
    p->laps.data = p->laps.back + layers;
    p->room = MOST_STEPS;
    return WISP_OK;
}

void wisp_pace_clear(struct wisp_pace *p)
{
    wisp_free(p->each);
    wisp_free(p->laps.forward);
}

void wisp_pace_add(struct wisp_pace *p, size_t steps, double seconds)
{
    for (size_t i = 0; i < steps; i++) {
        if (wisp_pace_counts(p)) p->each[p->n++] = seconds / (double)steps;
        p->seen++;
    }
}

/* The times of a run's steps. */
#include "model/pace.h"
#include "base/mem.h"
#include "base/sort.h"

enum { MOST_STEPS = 1 << 16, LAP_STEPS = 1 << 11 };

wisp_status wisp_pace_begin(struct wisp_pace *p, int n_layers, wisp_error *err)
{
    const size_t layers = (size_t)n_layers;
    p->each = wisp_alloc(MOST_STEPS, sizeof *p->each);
    p->laps.forward = wisp_zalloc(3 * layers, sizeof *p->laps.forward);
    p->lap = wisp_alloc(LAP_STEPS * 2 * layers, sizeof *p->lap);
    p->until = wisp_zalloc(2 * layers, sizeof *p->until);
    if (!p->each || !p->laps.forward || !p->lap || !p->until)
        return wisp_fail_mem(err, MOST_STEPS * sizeof *p->each, "the times of steps");
    p->laps.back = p->laps.forward + layers;
    p->laps.data = p->laps.back + layers;
    p->room = MOST_STEPS;
    p->n_layers = n_layers;
    return WISP_OK;
}

void wisp_pace_clear(struct wisp_pace *p)
{
    wisp_free(p->each);
    wisp_free(p->laps.forward);
    wisp_free(p->lap);
    wisp_free(p->until);
}

/* The laps of one step: what the sums have become more. */
static void keep_laps(struct wisp_pace *p)
{
    const size_t n = 2 * (size_t)p->n_layers; /* those of the way back lie behind the others */
    if (p->n_laps == LAP_STEPS) return;
    double *to = p->lap + n * p->n_laps++;
    for (size_t i = 0; i < n; i++) {
        to[i] = p->laps.forward[i] - p->until[i];
        p->until[i] = p->laps.forward[i];
    }
}

double wisp_pace_median(struct wisp_pace *p)
{
    wisp_sort_doubles(p->each, p->n);
    return p->each[p->n / 2];
}

double wisp_pace_lap(const struct wisp_pace *p, const int *layers, int n, bool back)
{
    double *sum = p->n_laps ? wisp_zalloc(p->n_laps, sizeof *sum) : NULL;
    if (!sum) return 0;
    for (size_t s = 0; s < p->n_laps; s++) {
        const double *lap = p->lap + (2 * s + back) * (size_t)p->n_layers;
        for (int i = 0; i < n; i++) sum[s] += lap[layers[i]];
    }
    wisp_sort_doubles(sum, p->n_laps);
    const double median = sum[p->n_laps / 2];
    wisp_free(sum);
    return median;
}

void wisp_pace_add(struct wisp_pace *p, size_t steps, double seconds)
{
    if (steps == 1 && wisp_pace_counts(p) && p->lap) keep_laps(p);
    for (size_t i = 0; i < steps; i++) {
        if (wisp_pace_counts(p)) p->each[p->n++] = seconds / (double)steps;
        p->seen++;
    }
}

/* How long the steps of a run take, each, which layers take it, and what memory was planned: for
 * whoever measures a run.  A run that nobody measures pays one comparison per layer. */
#ifndef WISP_MODEL_PACE_H
#define WISP_MODEL_PACE_H

#include "layer/layer.h"

struct wisp_pace {
    /* set by the caller */
    size_t
        warm; /* the first steps, which touch all memory and make what the others use: not counted */
    size_t least; /* steps that are counted at least, whatever the limit of time says */
    const struct wisp_peek *peek; /* looks at some of the counted steps; NULL: nobody does */
    size_t peek_every;
    /* filled in by the run */
    size_t seen; /* steps */
    size_t n;    /* of which are counted, ... */
    double
        *each; /* (room) ... with their seconds; on a card each of an epoch has the epoch's mean */
    size_t room;
    double layout;         /* seconds that the counted steps waited for their batches */
    struct wisp_laps laps; /* of the counted steps; on a card nothing */
    int n_layers;
    size_t n_laps;     /* counted steps, the first of all, whose laps are kept one by one: ... */
    double *lap;       /* (LAP_STEPS, 2 n_layers) forward, back */
    double *until;     /* (2 n_layers) the sums of laps until the last step */
    size_t plan_bytes; /* weights, optimizer, values and scratch, ... */
    size_t step_bytes, bound_bytes; /* ... of which the latter; the most of these needed at once */
    size_t start_bytes;             /* the process had when the run began */
};

wisp_status wisp_pace_begin(struct wisp_pace *p, int n_layers, wisp_error *err);
void wisp_pace_clear(struct wisp_pace *p);
/* So many steps took so long together.  After the last one that there is room for nothing counts. */
void wisp_pace_add(struct wisp_pace *p, size_t steps, double seconds);
/* Seconds of a counted step: the median, since a step that something held up says nothing. */
double wisp_pace_median(struct wisp_pace *p); /* puts 'each' in order */
/* The same of n of its layers together, forward or back; 0: there is no memory, or nothing was
 * measured. */
double wisp_pace_lap(const struct wisp_pace *p, const int *layers, int n, bool back);
/* Is the next step counted? */
static inline bool wisp_pace_counts(const struct wisp_pace *p)
{
    return p->seen >= p->warm && p->n < p->room;
}
/* The caller has what it wanted at least; true where there is none. */
static inline bool wisp_pace_enough(const struct wisp_pace *p)
{
    return !p || p->n >= p->least;
}

#endif

/* Doing with less memory: values of a step of training that are not kept from the way forward to the
 * way back, but made again there.
 *
 *   kept        first ........ front ........ back ... last
 *   made again  first ........ front          again .. last      (again <= back)
 *
 * Making a value again reads others.  Those that are kept stay for it; those that are not are made
 * again at the same moment or before, so that a whole stretch of layers may run again from the last
 * value that was kept.  A value that the way back never looks at is never kept for this: it is made
 * again where it is read. */
#ifndef WISP_GRAPH_SPILL_H
#define WISP_GRAPH_SPILL_H

#include "base/error.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wisp_spill_value {
    size_t bytes;
    int first, front; /* moments on the way forward: of its maker, of its last reader */
    int back, last;   /* the first and the last that look at it on the way back; -1: none does */
    double us;        /* microseconds that making it again takes; below 0: it cannot be */
    size_t room;      /* bytes besides that are needed at that moment */
    /* out: */
    int again; /* the moment at which it is made again; -1: it is not */
    int until; /* the last moment at which it is needed, made again or not */
};

struct wisp_spill_read { /* making a value again reads another, which comes before it in the list */
    int value, reads;
};

struct wisp_spill {
    size_t n, n_reads;
    struct wisp_spill_value *values; /* in the order in which the way forward has made them */
    const struct wisp_spill_read *reads;
    int n_moments;
    const size_t *other; /* (n_moments) bytes of all else that is needed */
    /* out: */
    size_t bytes; /* the most that is needed at one moment */
    double us;    /* that is spent on making values again */
};

/* Chooses what is made again so that no moment needs more than 'limit' bytes, by bytes that this
 * takes away at the moments that need more, per microsecond.  Where s->bytes is above the limit then,
 * nothing was found that keeps to it; limit 0: finds the least. */
wisp_status wisp_spill_choose(struct wisp_spill *s, size_t limit, wisp_error *err);

/* The same with places: 'place' lays out what was chosen in *bytes.  As that may waste a little, a
 * lower limit is tried where it is too much, and in the end the lowest. */
typedef wisp_status wisp_spill_place(void *arg, size_t *bytes, wisp_error *err);
wisp_status wisp_spill_fit(struct wisp_spill *s, size_t limit, wisp_spill_place *place, void *arg,
                           wisp_error *err);

#ifdef __cplusplus
}
#endif

#endif

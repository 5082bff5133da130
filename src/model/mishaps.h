/* Training in memory with errors (inject.h): a step's weights have wrong bits on its way forward and
 * back, and what it moves are the true ones.
 *
 * Only the numbers that are hit are touched: before a step they are replaced where they lie, and the
 * true ones kept; the update of a row puts those back first, as nobody reads the row after that, and
 * what is left is put back after the step.  So weights are right between steps: models, checkpoints
 * and validation see no errors. */
#ifndef WISP_MODEL_MISHAPS_H
#define WISP_MODEL_MISHAPS_H

#include "model/inject.h"

struct wisp_mishap { /* a number that is wrong */
    float other;     /* what it is to be; from then on what it was */
    uint16_t at;     /* in its piece */
    bool back;       /* the true one is back */
};

struct wisp_mishaps_of { /* a piece of a parameter */
    struct wisp_param *p;
    size_t piece;
    struct wisp_mishap *hits; /* (room) ascending */
    uint32_t n, room;
    float largest; /* of the piece */
    float limit;   /* of its parameter, for the guard */
    bool used;     /* it has errors in this step */
};

struct wisp_mishaps {
    struct wisp_update update; /* first: the layers see only this */
    const struct wisp_update *moves;
    const struct wisp_params *list;
    struct wisp_errors e; /* of the step */
    size_t n;
    struct wisp_mishaps_of *of; /* (n) */
    size_t *first;              /* (parameters + 1) where the pieces of each begin */
    size_t n_used, *used;       /* (n) pieces that this step reads */
    struct wisp_mishap *hits;
};

/* Of a net that has its parameters; e->rate is the highest that steps will have. */
wisp_status wisp_mishaps_make(struct wisp_mishaps *m, const struct wisp_net *net,
                              const struct wisp_errors *e, wisp_error *err);
void wisp_mishaps_clear(struct wisp_mishaps *m);
/* Before step s: its rows are moved by m->update then, which hands them to what it had. */
void wisp_mishaps_begin(struct wisp_mishaps *m, double rate, struct wisp_step *s);
/* After it, also one that failed. */
void wisp_mishaps_end(struct wisp_mishaps *m);

#endif

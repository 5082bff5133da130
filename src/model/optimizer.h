/* Optimisers: how a touched row moves.  All are row-lazy: a row without a gradient costs nothing.
 *
 * Each row has its own clock (param->count): Adam's moments decay, and its bias correction
 * counts, by the updates of that row, not by the steps of the run.  Where every row is touched in
 * every step this is Adam exactly; a rare row moves as if the steps without it had not been. */
#ifndef WISP_MODEL_OPTIMIZER_H
#define WISP_MODEL_OPTIMIZER_H

#include "graph/ids.h"
#include "layer/layer.h"

enum {
    WISP_SLOT_M = 1,
    WISP_SLOT_V = 2,
    WISP_SLOT_G2 = 4,
    WISP_SLOT_COUNT = 8,
    WISP_SLOT_HALF = 16 /* m and v are bf16, but for biases, which are small */
};

struct wisp_optimizer_kind {
    const char *name, *what;
    enum wisp_optimizer_id id; /* what kernels of a card know it by */
    unsigned slots;            /* state it needs: WISP_SLOT_* */
    double lr;                 /* default learning rate */
    void (*row)(const struct wisp_update *u, struct wisp_param *p, size_t row, const float *g);
};

struct wisp_optimizer {
    struct wisp_update update; /* first: the layers see only this */
    const struct wisp_optimizer_kind *kind;
    const struct wisp_kernels *k;
    float lr, momentum;
    float old_pace; /* old rows (wisp_param.old) move by the learning rate times this; 0: not */
    uint64_t step;  /* of the run: rounding at random differs from step to step */
    float *correct1, *correct2; /* 1 - beta^t for t = 0 .. */
};

const struct wisp_optimizer_kind *wisp_optimizer_at(size_t i); /* NULL past the end */
const struct wisp_optimizer_kind *wisp_optimizer_find(const char *name);
wisp_status wisp_optimizer_init(struct wisp_optimizer *o, const struct wisp_optimizer_kind *kind,
                                const struct wisp_kernels *k, double momentum, wisp_error *err);
/* Could a run have left this state of a parameter?  Squares from 0 on, clocks that have not run
 * past their end (which the rows' updates index a table by).  To be asked after it came from a
 * file. */
bool wisp_optimizer_state_ok(const struct wisp_param *p);
void wisp_optimizer_clear(struct wisp_optimizer *o);

#endif

/* What a thread is doing in a training step: the phases that a pool counts seconds for, with their
 * names in reports (`wisp bench train`). */
#ifndef WISP_LAYER_PHASE_H
#define WISP_LAYER_PHASE_H

#include "base/pool.h"

enum {
    WISP_PHASE_LAYOUT = WISP_PHASE_OTHER + 1, /* rows of the data into a batch */
    WISP_PHASE_INPUT,                         /* hidden layers forward */
    WISP_PHASE_QUERY,                         /* finding rows, joining them */
    WISP_PHASE_GATHER,                        /* active rows side by side */
    WISP_PHASE_PRODUCTS,                      /* batch times rows, forward and backward */
    WISP_PHASE_LOSS,                          /* loss, gradients of logits, best rows */
    WISP_PHASE_UPDATE,                        /* active rows move */
    WISP_PHASE_BACK,                          /* hidden layers backward, their rows move */
    WISP_PHASE_UPKEEP,                        /* finders learn, indexes are kept fresh */
};
_Static_assert((int)WISP_PHASE_UPKEEP < (int)WISP_PHASE_WAIT, "the pool counts too few phases");

/* Of the pool's own two phases, too. */
const char *wisp_phase_name(int phase);

#endif

/* A net without branches that are 0, and with smaller kernels where their edges are 0: what channels
 * (compact.h) do not say.
 *
 *   branches   a value that is 0 whatever the net reads is left out of the sums that read it; what
 *              nobody reads any more goes, and so does a sum of one value
 *   kernels    5x5 becomes 3x5 where the first and the last row are 0 and there is a pixel of padding
 *              to take away with them; a kernel without padding, or with an edge of 0 at one side alone,
 *              stays as it is
 *
 * The smaller net says the same numbers. */
#ifndef WISP_MODEL_TRIM_H
#define WISP_MODEL_TRIM_H

#include "model/net.h"

struct wisp_edge { /* rows and columns that go, at either side */
    size_t y, x;
};

struct wisp_trim {
    const struct wisp_net *from; /* borrowed */
    size_t n_layers, n_kernels;  /* that go; that become smaller */
    bool *gone;                  /* (layers) */
    struct wisp_edge *edge;      /* (layers) */
    char *text;                  /* of the smaller net; NULL: it is the same */
};

wisp_status wisp_trim_make(struct wisp_trim *out, const struct wisp_net *net, wisp_error *err);
void wisp_trim_clear(struct wisp_trim *t);
/* Fills the parameters of 'to', which was planned from that text and has its memory; state of the
 * optimiser where both have it. */
void wisp_trim_fill(struct wisp_net *to, const struct wisp_trim *t);

#endif

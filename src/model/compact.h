/* A net without some of its channels: the same layers with smaller counts, and the parameters that are
 * left, with their optimiser's state.  What goes together says graph/bonds.h. */
#ifndef WISP_MODEL_COMPACT_H
#define WISP_MODEL_COMPACT_H

#include "graph/bonds.h"
#include "model/net.h"

/* keep (bonds->n): bonds that have a weight other than 0, or may not go; and one of each value, as a
 * layer gives at least one channel.  Returns how many go. */
size_t wisp_compact_choose(bool *keep, const struct wisp_bonds *bonds, const struct wisp_net *net);
/* The text of the smaller net, to be freed. */
wisp_status wisp_compact_text(char **out, const struct wisp_net *net,
                              const struct wisp_bonds *bonds, const bool *keep, wisp_error *err);
/* Fills the parameters of 'to', which was planned from that text and has its memory, from those of
 * 'from'; state of the optimiser where both have it. */
wisp_status wisp_compact_fill(struct wisp_net *to, const struct wisp_net *from,
                              const struct wisp_bonds *bonds, const bool *keep, wisp_error *err);

#endif

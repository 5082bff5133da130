/* Places in one block for things that are alive at different times: two of them may lie over each
 * other unless there is a moment at which both are needed. */
#ifndef WISP_GRAPH_ARENA_H
#define WISP_GRAPH_ARENA_H

#include "base/error.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wisp_item {
    size_t bytes;
    int first, last; /* moments at which it is needed, both included */
    size_t at;       /* out: its place, a multiple of 64 */
};

/* Places all items; *bytes: how long the block must be, *bound: the most bytes that are needed at
 * one moment, which no placing can do without. */
wisp_status wisp_arena_place(struct wisp_item *items, size_t n, size_t *bytes, size_t *bound,
                             wisp_error *err);

#ifdef __cplusplus
}
#endif

#endif

/* Levels of a graph without cycles (spdnn/dag.h): nodes are numbered so that each comes after those it
 * reads, and a level is as many nodes in a row as do not read each other.  C and C++. */
#ifndef WISP_GRAPH_LEVELS_H
#define WISP_GRAPH_LEVELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The end of the level that begins with node 'first'.  Node r reads from[start[r]] .. , ascending: inputs,
 * which are numbered from n_nodes on, come last. */
static inline size_t wisp_level_end(const int64_t *start, const int32_t *from, size_t n_nodes,
                                    size_t first)
{
    for (size_t r = first + 1; r < n_nodes; r++) {
        int64_t e = start[r + 1];
        while (e > start[r] && (size_t)from[e - 1] >= n_nodes) e--;
        if (e > start[r] && (size_t)from[e - 1] >= first) return r;
    }
    return n_nodes;
}

#endif

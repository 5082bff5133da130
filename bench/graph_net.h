/* The graphs that are timed on both devices (bench/graph.c, tests/gpu/test_dag.cu): 10^5 nodes and 10^6
 * edges.  Levels are equally wide; edges begin in the level before, or, one in four, in any.  C and C++. */
#ifndef WISP_BENCH_GRAPH_NET_H
#define WISP_BENCH_GRAPH_NET_H

#include "base/rand.h"

#include <stdlib.h>

enum { GRAPH_NODES = 99000, GRAPH_INPUTS = 1000, GRAPH_FAN = 10, GRAPH_OUTPUTS = 100 };
enum { GRAPH_BATCH = 64 };

static inline int graph_by_id(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Some node of a level (0: the inputs). */
static inline int32_t graph_node_of(size_t level, size_t width, uint64_t random)
{
    return (int32_t)(level ? (level - 1) * width + random % width
                           : GRAPH_NODES + random % GRAPH_INPUTS);
}

/* start (nodes + 1), from, w (nodes x fan), out (outputs). */
static inline void graph_draw(int64_t *start, int32_t *from, float *w, int32_t *out, size_t levels)
{
    const size_t width = GRAPH_NODES / levels;
    uint64_t i = 0;
    for (size_t r = 0; r < GRAPH_NODES; r++) {
        const size_t level = r / width; /* of those that it reads, the highest */
        int32_t *to = from + r * GRAPH_FAN;
        start[r] = (int64_t)(r * GRAPH_FAN);
        for (size_t k = 0; k < GRAPH_FAN; k++) {
            const uint64_t random = wisp_rand(1, 2, i++);
            const size_t at = random % 4 ? level : (random >> 8) % (level + 1);
            to[k] = graph_node_of(at, width, random >> 24);
            for (size_t m = 0; m < k; m++)
                if (to[m] == to[k]) k--, m = k;
        }
        qsort(to, GRAPH_FAN, sizeof *to, graph_by_id);
        for (size_t k = 0; k < GRAPH_FAN; k++)
            w[r * GRAPH_FAN + k] =
                (float)(wisp_rand(1, 3, r * GRAPH_FAN + k) % 2001) / 1000.0f * 0.4f - 0.4f;
    }
    start[GRAPH_NODES] = (int64_t)GRAPH_NODES * GRAPH_FAN;
    for (int32_t o = 0; o < GRAPH_OUTPUTS; o++) out[o] = GRAPH_NODES - GRAPH_OUTPUTS + o;
}

#endif

/* Values turned round, (units, lanes): those of a unit for 32 samples are 128 bytes in a row, and an edge
 * is such a row times one number.  What layers of few connections (sparse.cu) and graphs (dag.cu)
 * share.
 *
 * Only tiles of 32 samples that have any are written, with zeros beyond the last sample. */
#ifndef WISP_CUDA_TURN_CUH
#define WISP_CUDA_TURN_CUH

#include "cuda/kind.cuh"

enum { WISP_TURN_SIDE = 32 }; /* units and samples of a tile */

static inline dim3 wisp_turn_tiles(const struct wisp_dnet &n, size_t width)
{
    return dim3((unsigned)wisp_parts(width, WISP_TURN_SIDE), (unsigned)(n.lanes / WISP_TURN_SIDE));
}

/* to (width, lanes) = from (n, width); sums, where not NULL, (tiles of samples, width). */
void wisp_turn_units(const struct wisp_dnet &n, const float *from, size_t width, float *to,
                     float *sums, cudaStream_t s);
/* The same of the batch's rows, which are lists. */
void wisp_turn_rows(const struct wisp_dnet &n, size_t width, float *to, cudaStream_t s);

/* 32 units and 32 samples, from these on, by at least 256 threads: to (n, width), as 'after' leaves
 * them, or, BACK, through what it did to h. */
template <bool BACK>
static __device__ inline void wisp_turn_back(
    const struct wisp_dnow *now, const float (&tile)[WISP_TURN_SIDE][WISP_TURN_SIDE + 1],
    size_t unit, size_t sample, const struct wisp_dafter &after, const float *h, float *to,
    size_t width)
{
    const uint32_t i = threadIdx.x / (WISP_TURN_SIDE / 4),
                   u = threadIdx.x % (WISP_TURN_SIDE / 4) * 4;
    if (i >= WISP_TURN_SIDE || sample + i >= now->n || unit + u >= width) return;
    const size_t at = (sample + i) * width + unit + u;
    float4 y = make_float4(tile[u][i], tile[u + 1][i], tile[u + 2][i], tile[u + 3][i]);
    if (BACK) y = wisp_dafter_back(after, now, at, h, y);
    else y = wisp_dafter_on(after, now, at, y);
    *(float4 *)(to + at) = y;
}

#endif

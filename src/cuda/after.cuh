/* What follows a layer's sums at once: ReLU, then dropout (layer/relu.c, dropout.c), four units of
 * a sample at a time.
 *
 *   forward   h = max(sum, 0), kept and multiplied by 1 / (1 - rate), or 0
 *   back      gradient of the sum = gradient of h where the unit stayed, multiplied by the same
 *
 * The mask of dropout is a function of (seed, layer, step, place), drawn again on the way back;
 * with a ReLU it is not needed: what was dropped has h = 0, and so has what was not positive. */
#ifndef WISP_CUDA_AFTER_CUH
#define WISP_CUDA_AFTER_CUH

#include "cuda/step.cuh"
#include "base/rand.h"
#include "graph/ids.h"

struct wisp_dafter {
    bool relu, drops;
    uint32_t limit;  /* a unit stays if its 16 random bits are this or more */
    float keep;      /* what those that stay are multiplied by; 1 where nothing drops */
    uint64_t stream; /* of random numbers */
    size_t width;    /* numbers of a sample: places count those of other ranks' samples, too */
};

/* share: of dropout, 0: none; layer: its number in the net. */
static inline struct wisp_dafter wisp_dafter_of(bool relu, double share, int layer)
{
    struct wisp_dafter a = { relu, share > 0, (uint32_t)(share * 65536), (float)(1 / (1 - share)),
                             WISP_STREAM_DROPOUT + ((uint64_t)layer << 8) };
    return a;
}

/* at: the place of the first of the four in (n, width), a multiple of 4. */
static __device__ inline float4 wisp_ddrop(const struct wisp_dafter &a, const struct wisp_dnow *now,
                                           size_t at, float4 x)
{
    const uint64_t key = wisp_drand(now->seed, a.stream, now->step);
    const size_t place = now->before * a.width + at;
    const uint64_t bits = wisp_dmix(key + 0x9e3779b97f4a7c15u * (place / 4 + 1));
    x.x = (bits & 0xffff) >= a.limit ? x.x * a.keep : 0;
    x.y = (bits >> 16 & 0xffff) >= a.limit ? x.y * a.keep : 0;
    x.z = (bits >> 32 & 0xffff) >= a.limit ? x.z * a.keep : 0;
    x.w = bits >> 48 >= a.limit ? x.w * a.keep : 0;
    return x;
}

static __device__ inline float4 wisp_dafter_on(const struct wisp_dafter &a,
                                               const struct wisp_dnow *now, size_t at, float4 sum)
{
    if (a.relu) {
        sum.x = sum.x > 0 ? sum.x : 0, sum.y = sum.y > 0 ? sum.y : 0;
        sum.z = sum.z > 0 ? sum.z : 0, sum.w = sum.w > 0 ? sum.w : 0;
    }
    return a.drops ? wisp_ddrop(a, now, at, sum) : sum;
}

/* h: where the results lie, (n, width). */
static __device__ inline float4 wisp_dafter_back(const struct wisp_dafter &a,
                                                 const struct wisp_dnow *now, size_t at,
                                                 const float *h, float4 g)
{
    if (!a.relu) return a.drops ? wisp_ddrop(a, now, at, g) : g;
    const float4 x = *(const float4 *)(h + at);
    g.x = x.x > 0 ? g.x * a.keep : 0, g.y = x.y > 0 ? g.y * a.keep : 0;
    g.z = x.z > 0 ? g.z * a.keep : 0, g.w = x.w > 0 ? g.w * a.keep : 0;
    return g;
}

#endif

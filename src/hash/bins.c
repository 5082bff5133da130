/* Bins of coordinates: what the families that look at the order of coordinates share. */
#include "hash/family.h"
#include "base/rand.h"
#include "graph/ids.h"

#include <string.h>

void wisp_bins_lay(uint32_t *place, size_t n, size_t width, size_t keep, uint32_t *order,
                   uint64_t seed, uint64_t draw)
{
    uint64_t stream = wisp_stream(WISP_STREAM_HASH, draw);
    for (size_t i = 0; i < width; i++) order[i] = (uint32_t)i;
    for (size_t i = 0; i < n; i++) { /* Fisher-Yates; any order is good to start the next from */
        size_t at = i % keep, with = at + wisp_rand_below(seed, stream, i, width - at);
        uint32_t taken = order[with];
        order[with] = order[at];
        place[i] = order[at] = taken;
    }
}

size_t wisp_bins_borrow(size_t bin, unsigned attempt, size_t n_bins)
{
    uint64_t x = wisp_mix(((uint64_t)bin << 8) + attempt + 0x9e3779b97f4a7c15u);
    return (size_t)(((wisp_u128)x * n_bins) >> 64);
}

void wisp_bins_turn(float *xt, const struct wisp_kernels *k, const float *x, size_t m, size_t width)
{
    if (m < WISP_HASH_BLOCK) memset(xt, 0, width * WISP_HASH_BLOCK * sizeof *xt);
    k->transpose(xt, WISP_HASH_BLOCK, x, width, m, width);
}

/* Moving averages of the share of zeros of a value. */
#include "graph/zeros.h"

#include <math.h>

static double share_of(uint64_t live, size_t numbers)
{
    const double share = numbers ? 1 - (double)live / (double)numbers : 0;
    return share > 0 ? share
                     : 0; /* of channels past the last, a NaN would be more than there are */
}

/* The first steps have the plain mean; then each counts for 1 / WISP_ZEROS_STEPS. */
void wisp_zeros_take(struct wisp_zeros_of *z, const uint64_t *live, size_t samples, size_t steps)
{
    uint64_t all = 0;
    size_t numbers = 0;
    if (samples == 0 || steps == 0) return;
    z->steps += steps;
    const double most = WISP_ZEROS_STEPS, seen = (double)z->steps, plain = (double)steps / seen,
                 moving = 1 - pow(1 - 1 / most, (double)steps),
                 weight = seen <= most ? plain : moving;
    for (size_t b = 0; b < z->blocks; b++) {
        all += live[b];
        numbers += z->each[b];
        z->shares[b] +=
            (float)weight * ((float)share_of(live[b], z->each[b] * samples) - z->shares[b]);
    }
    z->share += weight * (share_of(all, numbers * samples) - z->share);
}

void wisp_zeros_step(struct wisp_zeros_of *z, int threads)
{
    uint64_t *sum = wisp_zeros_live(z, 0);
    for (int t = 1; t < threads; t++)
        for (size_t b = 0; b < z->blocks; b++) {
            sum[b] += wisp_zeros_live(z, t)[b];
            wisp_zeros_live(z, t)[b] = 0;
        }
    wisp_zeros_take(z, sum, z->counted, z->counted > 0);
    for (size_t b = 0; b < z->blocks; b++) sum[b] = 0;
    z->counted = 0;
}

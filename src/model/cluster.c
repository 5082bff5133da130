/* The values that stand best for many numbers: k-means on a line (Lloyd's algorithm).
 *
 * Sorted numbers with running sums make a round cost k searches.  It begins with values at equal
 * distances, so that the few large numbers, which count most, have some near them. */
#include "model/cluster.h"
#include "base/sort.h"

/* How many of x (n, ascending) are below 'limit'. */
static size_t below(const float *x, size_t n, double limit)
{
    size_t low = 0;
    while (n > 0) {
        const size_t half = n / 2;
        if ((double)x[low + half] < limit) low += half + 1, n -= half + 1;
        else n = half;
    }
    return low;
}

void wisp_cluster(float *value, size_t k, float *x, double *sum, size_t n)
{
    enum { ROUNDS = 100 };
    double at[WISP_CLUSTER_MOST];
    wisp_sort_floats(x, n);
    sum[0] = 0;
    for (size_t i = 0; i < n; i++) sum[i + 1] = sum[i] + (double)x[i];
    const double low = n ? (double)x[0] : 0, high = n ? (double)x[n - 1] : 0;
    for (size_t i = 0; i < k; i++) at[i] = low + (high - low) * ((double)i + 0.5) / (double)k;
    for (int round = 0; round < ROUNDS; round++) {
        bool moved = false;
        for (size_t i = 0, first = 0; i < k; i++) {
            const double was = at[i];
            const size_t end = i + 1 < k ? below(x, n, 0.5 * (was + at[i + 1])) : n;
            if (end > first) at[i] = (sum[end] - sum[first]) / (double)(end - first);
            moved |= at[i] != was;
            first = end > first ? end : first;
        }
        if (!moved) break;
    }
    for (size_t i = 0; i < k; i++) value[i] = (float)at[i];
}

void wisp_cluster_limits(double *limit, const float *value, size_t k)
{
    for (size_t i = 0; i + 1 < k; i++) limit[i] = 0.5 * ((double)value[i] + (double)value[i + 1]);
}

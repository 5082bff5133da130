/* Active sets. */
#include "hash/active.h"

size_t wisp_active_place(const struct wisp_active *a, int32_t row)
{
    if (!a->rows) return (size_t)row < a->n ? (size_t)row : SIZE_MAX;
    if (a->place) return a->place[row] ? a->place[row] - 1 : SIZE_MAX;
    size_t lo = 0, hi = a->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (a->rows[mid] < row) lo = mid + 1;
        else hi = mid;
    }
    return lo < a->n && a->rows[lo] == row ? lo : SIZE_MAX;
}

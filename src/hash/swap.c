/* Merging the lists of several ranks. */
#include "hash/swap.h"

#include <string.h>

/* One list from the first k keys of each.  The best k are counted first and written
 * from the last on: 'to' may be one of the lists, of which what is still to be read lies before what
 * is written. */
static void merge(uint64_t *to, const void *const *part, int n_parts, size_t first, size_t k)
{
    uint32_t n[WISP_COMM_MOST_RANKS] = { 0 };
    size_t m = 0;
    for (; m < k; m++) {
        uint64_t most = 0;
        int from = 0;
        for (int q = 0; q < n_parts; q++) {
            const uint64_t *keys = (const uint64_t *)part[q] + first;
            if (n[q] < k && keys[n[q]] > most) most = keys[n[q]], from = q;
        }
        if (most == 0) break;
        n[from]++;
    }
    for (size_t c = m; c > 0; c--) {
        uint64_t least = UINT64_MAX;
        int from = 0;
        for (int q = 0; q < n_parts; q++) {
            const uint64_t *keys = (const uint64_t *)part[q] + first;
            if (n[q] > 0 && keys[n[q] - 1] < least) least = keys[n[q] - 1], from = q;
        }
        to[c - 1] = least;
        n[from]--;
    }
    memset(to + m, 0, (k - m) * sizeof *to);
}

/* Fits wisp_join: n lists of so many bytes. */
static void join_lists(void *to, const void *const *part, int n_parts, size_t n, size_t bytes)
{
    const size_t k = bytes / sizeof(uint64_t);
    for (size_t i = 0; i < n; i++) merge((uint64_t *)to + i * k, part, n_parts, i * k, k);
}

wisp_status wisp_keys_swap(uint64_t *keys, const struct wisp_comm *c, size_t n, size_t k,
                           wisp_error *err)
{
    return c->all_join(keys, n, k * sizeof *keys, join_lists, err);
}

/* Merging the lists of several ranks. */
#include "hash/swap.h"

static void merge(uint64_t *to, const uint64_t *all, size_t ranks, size_t n, size_t k, size_t s)
{
    uint16_t at[WISP_COMM_MOST_RANKS] = { 0 };
    for (size_t c = 0; c < k; c++) {
        uint64_t most = 0;
        size_t from = 0;
        for (size_t q = 0; q < ranks; q++) {
            const uint64_t key = at[q] < k ? all[(q * n + s) * k + at[q]] : 0;
            if (key > most) most = key, from = q;
        }
        to[c] = most;
        at[from] = (uint16_t)(at[from] + (most > 0));
    }
}

wisp_status wisp_keys_swap(uint64_t *merged, uint64_t *all, const struct wisp_comm *c, size_t n,
                           size_t k, wisp_error *err)
{
    const size_t each = n * k;
    wisp_status st = c->all_gather(all, all + (size_t)c->rank * each, each * sizeof *all, err);
    for (size_t s = 0; s < n && st == WISP_OK; s++)
        merge(merged + s * k, all, (size_t)c->size, n, k, s);
    return st;
}

/* The best rows of several ranks: each has lists of its own, and all get the best of all. */
#ifndef WISP_HASH_SWAP_H
#define WISP_HASH_SWAP_H

#include "comm/comm.h"

/* Lists of keys (best.h) with ids in the place of rows, best first, ended by 0 where they are shorter:
 * all (ranks, n, k), of which this rank has filled its own part; merged (n, k) receives the best of
 * each sample. */
wisp_status wisp_keys_swap(uint64_t *merged, uint64_t *all, const struct wisp_comm *c, size_t n,
                           size_t k, wisp_error *err);

#endif

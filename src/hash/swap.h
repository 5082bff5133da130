/* The best rows of several ranks: each has lists of its own, and all get the best of all. */
#ifndef WISP_HASH_SWAP_H
#define WISP_HASH_SWAP_H

#include "comm/comm.h"

/* Lists of keys (best.h) with ids in the place of rows, best first, ended by 0 where they are shorter:
 * keys (n, k) are this rank's, and become the best of all ranks' for each sample.  Merged slice by
 * slice, as sums are: where there are more lists than ranks, a rank sends its lists at most twice,
 * however many ranks there are.  A list is not divided. */
wisp_status wisp_keys_swap(uint64_t *keys, const struct wisp_comm *c, size_t n, size_t k,
                           wisp_error *err);

#endif

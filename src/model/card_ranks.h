/* Cards of several ranks that divide the samples of a batch. */
#ifndef WISP_MODEL_CARD_RANKS_H
#define WISP_MODEL_CARD_RANKS_H

#include "cuda/cuda.h"
#include "model/run.h"

struct wisp_rank_card { /* what a rank says of its card: whole numbers, as it travels */
    unsigned char id[WISP_CUDA_CARD_ID];
    uint64_t bytes;   /* of it that may be taken */
    uint64_t library; /* NCCL is there: 0 or 1 */
};
/* What each of n ranks may take: the least that one has, those of a card alike. */
size_t wisp_card_share(const struct wisp_rank_card *of, int n);
/* Has each a card of its own? */
bool wisp_card_apart(const struct wisp_rank_card *of, int n);

struct wisp_card_ranks {
    struct wisp_cuda_ranks ranks;
    unsigned char id[WISP_CUDA_ID]; /* that they meet by, where NCCL adds up */
};

/* Are the gradients of a card added up with those of others, or of none, where that is asked for? */
bool wisp_card_exchanges(const struct wisp_run *r);
/* The card of this rank. */
wisp_status wisp_card_open(const struct wisp_cuda **api, const struct wisp_run *r, wisp_error *err);
/* By all ranks at once: what they do together, and the memory that each may take of its card; *most:
 * what it was allowed to, 0: what is free. */
wisp_status wisp_card_agree(struct wisp_card_ranks *out, size_t *most, const struct wisp_cuda *api,
                            const struct wisp_run *r, wisp_error *err);

#endif

/* A batch that several ranks divide, each with a card, or with its part of one (model/divide.h is the
 * same on cores): every rank has all weights and makes the gradients of its samples; the sums of all
 * ranks move the weights of every rank alike.
 *
 *   block   | output: weight, flags, bias, flags | the layer below: ... | ... | first layer |
 *
 * The kernels that move rows keep each row's gradient in this block instead (WISP_DKEEP), and a flag
 * that says that there is one.  When the way back is done the block is added up over all ranks, and rows
 * with a flag on any of them move.
 *
 * Who adds up: NCCL (nccl.cu), from card to card; or the host, which is the plain form: what is to be
 * added travels to memory of its own, is joined by messages of ranks (comm/comm.h) in the order of
 * ranks, and travels back.  There the host waits for the card in the middle of a step: so steps of
 * ranks are launched, not replayed.  By NCCL the card waits, and the host is one step ahead of it. */
#ifndef WISP_CUDA_RANKS_CUH
#define WISP_CUDA_RANKS_CUH

#include "cuda/cuda.h"
#include "cuda/kind.cuh"

struct wisp_dmoving { /* a parameter whose gradients are added up */
    struct wisp_dparam p;
    const int64_t
        *start;  /* (rows + 1) where rows of different lengths begin; NULL: all have p.cols */
    size_t used; /* columns that the host has */
};

struct wisp_dnccl;
struct wisp_dranks {
    const struct wisp_cuda_ranks *how; /* NULL: this process has all samples */
    struct wisp_dopt opt;              /* moves rows by the sums */
    float *block;                      /* (floats) */
    size_t floats, n_numbers;
    double *numbers; /* (n_numbers) what batch norm adds up; n_numbers 0: there is none */
    double *host_numbers;
    float *host;                /* (floats) pinned, as host_numbers are; NULL: NCCL adds up */
    cudaEvent_t copied[2];      /* to the host; none where NCCL adds up */
    cudaEvent_t stepped;        /* the step whose end was last recorded, where NCCL adds up */
    struct wisp_dnccl *library; /* NULL: the host does, or they have not met yet */
    size_t n;
    struct wisp_dmoving moving[WISP_DLAYERS * WISP_DPARAMS + 2];
};

/* ---- ranks.cu ---- */

/* Gradients of the head's parameters and of all layers get room, after these have theirs. */
void wisp_dranks_lay(struct wisp_dranks *r, struct wisp_dnet *n, const struct wisp_layer *head,
                     struct wisp_dparam *weight, struct wisp_dparam *bias, void *block, size_t *at);
/* Events, and the host's memory for messages where there is no library; to be cleared, also where it
 * failed. */
wisp_status wisp_dranks_make(struct wisp_dranks *r, wisp_error *err);
void wisp_dranks_clear(struct wisp_dranks *r);
/* A step begins: there are no gradients. */
void wisp_dranks_begin(const struct wisp_dranks &r, cudaStream_t s);
/* n numbers at r.numbers become those of all ranks.  What fails is left in n.refused. */
void wisp_dranks_add(const struct wisp_dnet &n, size_t count, cudaStream_t s);
/* A step ends: gradients become the sums of all ranks, and rows move by them. */
void wisp_dranks_move(const struct wisp_dnet &n, cudaStream_t s);
/* Behind a step's last launch, where NCCL adds up: waits for the step before, each with a patience of
 * its own.  Further ahead launches that nobody takes from their queue would hold the host as well. */
void wisp_dranks_pace(const struct wisp_dnet &n, cudaStream_t s);
/* Until all steps are done, where NCCL adds up. */
wisp_status wisp_dranks_wait(const struct wisp_dranks &r, cudaStream_t s, wisp_error *err);

/* ---- nccl.cu ---- */

const char *wisp_dnccl_says(bool *there);
wisp_status wisp_dnccl_id(unsigned char id[WISP_CUDA_ID], wisp_error *err);
/* By all ranks at once. */
wisp_status wisp_dnccl_join(struct wisp_dnccl **out, const struct wisp_cuda_ranks *how,
                            const unsigned char id[WISP_CUDA_ID], wisp_error *err);
void wisp_dnccl_leave(struct wisp_dnccl *l); /* NULL is fine */
/* Sums of n floats or doubles of all ranks, where they lie. */
wisp_status wisp_dnccl_add(struct wisp_dnccl *l, void *x, size_t n, bool doubles, cudaStream_t s,
                           wisp_error *err);
/* Until an event has come; WISP_EPEER: not within the patience of ranks. */
wisp_status wisp_dnccl_wait(struct wisp_dnccl *l, cudaEvent_t done, wisp_error *err);

#endif

/* A training run on the card: what trainer.cu (steps), trainer_memory.cu and net.cu (what lies
 * where, and copies to and from the host) and scorer.cu share. */
#ifndef WISP_CUDA_TRAINER_CUH
#define WISP_CUDA_TRAINER_CUH

#include "cuda/cuda.h"
#include "cuda/kind.cuh"
#include "cuda/penalty.cuh"
#include "cuda/ranks.cuh"

enum { WISP_LOOK = 20, WISP_LOOKED = 32 }; /* recall: of so many best rows, of so many samples */

struct wisp_dturn { /* where the next step's batch is described */
    const struct wisp_dnow *from;
    uint32_t at;
};

struct wisp_dsums { /* on the card, since the trainer was made */
    double loss;
    uint64_t counts[3]; /* active, scored, samples */
    uint64_t own, set, looked, touched;
};

/* Where the output layer's rows lie.  A copy in bf16 serves to find rows, and for products in bf16;
 * rows that move are written to both. */
enum wisp_dplacing {
    WISP_DINSIDE, /* on the card */
    WISP_DCOPIED, /* in the host's memory, which the card reads and writes; the copy on the card */
    WISP_DOUTSIDE /* in the host's memory, no copy */
};

struct wisp_cuda_trainer {
    struct wisp_cuda_setup s;
    void *block;         /* all memory on the card */
    size_t steps;        /* most of a chunk */
    size_t scorer_bytes; /* that will be taken beside, with all rows on the card */
    enum wisp_dplacing placing;
    cudaStream_t main, side[2], weights, lay; /* weights: net.side */
    cudaEvent_t forked, joined[2], laid[2], used[2];
    cudaEvent_t ready, done; /* of net.side */
    cudaEvent_t looks[2];    /* around the last measuring of recall */
    bool looked;             /* its time is not counted yet */
    double look_s;
    cudaGraphExec_t graph, several; /* a step; some steps in a row */
    struct wisp_ddata data;
    struct wisp_dchunk chunk[2];
    struct wisp_dnow *host_now[2]; /* pinned */
    uint32_t *host_ids[2];
    struct wisp_moved *host_moved[2], *moved[2]; /* of images; pinned, and on the card */
    size_t n_chunks;                             /* begun so far */
    size_t last_steps, last_nnz, last_labels;
    struct wisp_dnow *now;
    struct wisp_dturn *place;
    struct wisp_dsums *sums;
    uint32_t *n_looked; /* samples that recall is measured on */
    struct wisp_dnet net;
    struct wisp_dpenalty penalty; /* on its weights */
    struct wisp_dranks ranks;     /* that divide its batches */
    struct wisp_dout out;
    struct wisp_dfind find;
    struct wisp_dhash hash;
    struct wisp_dscan scan, look;
    float *correct;
    unsigned long long *live, *host_live; /* counts of values (zeros.cuh), on the card and here */
    size_t n_live;
    uint32_t *first_row; /* (n_blocks) of each block, on the host */
    uint64_t gap, next_build;
};

wisp_status wisp_dfail(wisp_error *err, wisp_status code, const char *fmt, ...);
/* WISP_OK, or what the card says. */
wisp_status wisp_dcheck(cudaError_t e, const char *what, wisp_error *err);

/* ---- card.cu: see struct wisp_cuda ---- */

wisp_status wisp_dcard_ask(struct wisp_cuda_card *out, wisp_error *err);
wisp_status wisp_dcard_choose(int place, wisp_error *err);

/* ---- kinds.cu ---- */

/* Have cards a form of everything in it?  See struct wisp_cuda. */
wisp_status wisp_dnet_check(const struct wisp_graph *g, const struct wisp_finders *f,
                            wisp_error *err);

/* ---- trainer_memory.cu ---- */

/* What a run takes of the card; see struct wisp_cuda. */
wisp_status wisp_trainer_bytes(struct wisp_cuda_bytes *out, const struct wisp_cuda_setup *s,
                               wisp_error *err);
/* Takes them, lays everything out and copies what the run begins with. */
wisp_status wisp_trainer_fill(struct wisp_cuda_trainer *t, wisp_error *err);
void wisp_trainer_empty(struct wisp_cuda_trainer *t); /* gives them back */
/* Parameters and the memory of neighbours, to the host. */
wisp_status wisp_trainer_fetch(struct wisp_cuda_trainer *t, wisp_error *err);

/* Prediction (scorer.cu): see struct wisp_cuda. */
wisp_status wisp_dscorer_create(struct wisp_cuda_scorer **out, const struct wisp_graph *g,
                                struct wisp_cuda_trainer *t, size_t batch, size_t k,
                                wisp_error *err);
void wisp_dscorer_free(struct wisp_cuda_scorer *s);
/* What one that uses the trainer's weights will take of the card, beside what the trainer does, whose
 * net has been planned. */
wisp_status wisp_dscorer_bytes(size_t *out, struct wisp_cuda_trainer *t, size_t batch, size_t k,
                               wisp_error *err);
wisp_status wisp_dscorer_score(struct wisp_cuda_scorer *s, const struct wisp_cuda_best *out,
                               const struct wisp_cuda_block *rows, wisp_error *err);

#endif

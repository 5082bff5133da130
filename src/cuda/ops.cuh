/* The operations of a training step on the card, one file each.  Every function only launches
 * kernels on a stream: no allocation, no copy to the host, no waiting, so that a step can be
 * captured as a graph (what ranks add up, ranks.cuh, stands between such functions).  Structs are
 * filled by the trainer (trainer.cu) and passed by value. */
#ifndef WISP_CUDA_OPS_CUH
#define WISP_CUDA_OPS_CUH

#include "cuda/after.cuh"
#include "cuda/step.cuh"

/* Takes the next bytes of a block, at a multiple of 256; where there is none yet, only counts. */
static inline void *wisp_dtake(void *block, size_t *at, size_t bytes)
{
    void *p = block ? (char *)block + *at : NULL;
    *at += (bytes + 255) / 256 * 256;
    return p;
}

/* Where there is no card plans are for an H200: its compute capability times ten, multiprocessors and
 * shared memory. */
enum { WISP_DPLAN_CAPABILITY = 90, WISP_DPLAN_MULTIS = 132, WISP_DPLAN_SHARED = 227 * 1024 };

/* The most bytes of shared memory that a block can have on this card. */
static inline size_t wisp_dshared(void)
{
    int device = 0, bytes = 48 * 1024;
    if (cudaGetDevice(&device) != cudaSuccess) return WISP_DPLAN_SHARED;
    cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    return (size_t)bytes;
}

/* ---- rows.cu: a chunk of steps laid out ----
 *
 * The rows of many steps are laid out at once: values transformed (model/batch.c: fill_row), then
 * features and labels of each step filed by feature and by label, with one sort by (step, id). */

struct wisp_ddata { /* the training set on the card */
    size_t n_rows, n_features, n_labels;
    const uint64_t *xp; /* (n_rows + 1) */
    const int32_t *xi;
    const float *xv;
    const uint64_t *yp; /* (n_rows + 1) */
    const int32_t *yi;
    const float *idf; /* (n_features) */
    int mode;         /* enum wisp_values_mode of model/batch.h */
    float drop;       /* share of features dropped */
};

struct wisp_dchunk {
    size_t steps, batch;       /* most steps, most rows of a step */
    size_t nnz_room, lab_room; /* most non-zeros and labels of a chunk */
    void *block;               /* wisp_chunk_lay() bytes */
    uint32_t *ids;             /* (steps * batch) row numbers, uploaded by the trainer: step s has
                                  ids[s * batch .. s * batch + n of step s) */
    struct wisp_dnow *now;     /* (steps) n, step, seed, lr set by the trainer; rows.cu fills in the
                                  rest, on the card */
    /* ... arrays of the layout, private to rows.cu, follow here */
    uint32_t *xp, *xn, *yp; /* (rows + 1), (rows), (rows + 1); rows: steps * batch */
    int32_t *xi, *yi;       /* (nnz_room), (lab_room) */
    float *xv;              /* (nnz_room) */
    uint64_t *key[2];       /* (nnz_room + lab_room) step, feature or label, sample */
    float *value[2];        /* (nnz_room + lab_room) go along: once sorted they are tv */
    uint32_t *sample;       /* (nnz_room + lab_room) ts and ls */
    int32_t *run_id;        /* (nnz_room + lab_room) touched and distinct of all steps */
    uint32_t *run_at;       /* (nnz_room + lab_room + 1) tp and lp */
    uint32_t *first;        /* (2 steps + 1) first run of each step: of features, of labels */
    uint32_t *tiles;        /* runs that begin in each tile of keys */
    void *work;             /* CUB's */
    size_t work_bytes;
};
/* Lays the arrays out in 'block'; returns the bytes it takes (block NULL: only that). */
size_t wisp_chunk_lay(struct wisp_dchunk *c, void *block, size_t n_features, size_t n_labels);
/* nnz, labels: of all rows of this chunk together, before dropping (the host knows them). */
void wisp_chunk_fill(const struct wisp_dchunk &c, const struct wisp_ddata &d, size_t n_steps,
                     size_t nnz, size_t labels, uint64_t seed, cudaStream_t s);

/* ---- input.cu: the first layer, and what follows it ---- */

struct wisp_din {
    const struct wisp_dnow *now;
    size_t batch, width;
    size_t most_touched;        /* in a step: the size of the grid */
    struct wisp_dparam w, bias; /* (n_features, width), (1, width) */
    struct wisp_dopt opt;
    struct wisp_dafter after;
    float *h;          /* (batch, width) the result: what the next layer sees */
    const float *back; /* (batch, width) gradient of the sums, before 'after' */
    float *far; /* wisp_input_far() floats, for gradients of rows that shared memory cannot hold */
};
/* 0: it can. */
size_t wisp_input_far(size_t width);
void wisp_input_forward(const struct wisp_din &in, cudaStream_t s);
/* Touched rows and the bias move. */
void wisp_input_backward(const struct wisp_din &in, cudaStream_t s);

/* ---- out.cu: the output layer on the active set (layer/output.c) ---- */

struct wisp_dout {
    const struct wisp_dnow *now;
    size_t batch, width;
    enum wisp_loss_id loss;
    float smoothing; /* share of a sample's targets that all active rows have alike (softmax) */
    enum wisp_precision_id precision;
    struct wisp_dparam w, bias; /* (n_labels, width), (n_labels, 1) */
    struct wisp_dopt opt;
    struct wisp_dactive active;
    size_t lab_room;     /* most labels of a step */
    const float *h;      /* (batch, width) */
    float *g;            /* (batch, width) out: gradient of h */
    float pass;          /* not 0: g is multiplied by it where h is above 0, and 0 elsewhere: the
                            gradient of what ReLU and dropout made h of */
    const float *origin; /* (batch) what a sample's logits are taken relative to (softmax) */
    double *loss_sum;    /* one: += the step's loss, summed over samples */
    bool outside;        /* w lies in the host's memory: far away */
    float *tile_max; /* (tiles of 32 active rows, lde) out: the largest E of each, before combine,
                        where 'fast' says that forward finds it; NULL: not asked for */
    /* laid by wisp_out_lay: */
    void *e;       /* (room, lde) E, float or bf16: logits become exp(z - origin) or sigmoid(z) */
    size_t lde;    /* batch rounded up to 128 */
    float *factor; /* (lde) E * factor is the gradient of the logits, but for the targets */
    float *heat;   /* (room) sum over samples of the gradient of a row's logit */
    bool fast;     /* by out_wgmma.cu */
    /* ... scratch, private to out.cu, follows here */
    void *w_panel, *h_panel, *fh_panel; /* (room, k), (lde, k), (lde, k) of E's type */
    float *b_panel, *block_sum, *parts, *grad;
    float *part_rows; /* (parts of the rows, k + 1) sums of rows and biases, where targets are */
    double *all_rows; /* (k + 1) smoothed; and of all */
    double *losses;
};
size_t wisp_out_lay(struct wisp_dout *o, void *block);
/* E, and sums of it. */
void wisp_out_forward(const struct wisp_dout &o, cudaStream_t s);
/* Loss and factor of each sample; E of the true labels, of all where they are smoothed, less target /
 * factor. */
void wisp_out_combine(const struct wisp_dout &o, cudaStream_t s);
/* g = factor E^T W, with W as it was in forward; losses added up. */
void wisp_out_hidden(const struct wisp_dout &o, cudaStream_t s);
/* Rows and biases move by E (factor h); heat. */
void wisp_out_rows(const struct wisp_dout &o, cudaStream_t s);

/* ---- find.cu: neighbours, hashing, rows at random; the union (hash/ on the CPU) ---- */

struct wisp_dlsh {   /* tables of one generation */
    size_t n_tables; /* 0: none */
    int bits;        /* of a bucket's number */
    uint32_t *start; /* (n_tables, 2^bits + 1) */
    int32_t *rows;   /* (n_tables, n_rows) by bucket, ascending in each */
    uint32_t *query; /* (batch, n_tables) buckets of this batch's samples */
};

enum {
    WISP_DFAR = 50
}; /* logits beyond are taken relative to the best: WISP_LOSS_RANGE of
      layer/loss.h */
enum {
    WISP_FIND_HASHED = 512, /* most rows of a sample's buckets that are scored */
    WISP_FIND_TABLES = 256, /* tables that are looked at */
};

struct wisp_dfind {
    const struct wisp_dnow *now;
    size_t batch, width, n_rows;
    struct wisp_dparam w, bias;
    const float *h;    /* (batch, width) */
    size_t keep, deep; /* best rows of a sample that join the set; that are remembered */
    size_t k;          /* best active rows of each sample, for learning */
    uint64_t seed;
    /* neighbours (hash/neighbours.c) */
    bool neighbours;
    size_t ring, last, hops, n_samples;
    int32_t *rings; /* (n_rows, ring) -1: empty */
    uint8_t *next;  /* (n_rows) */
    int32_t *lasts; /* (n_samples, last) -1: none */
    size_t n_carried;
    int32_t *carried; /* (1 + n_carried) */
    struct wisp_dlsh lsh;
    size_t n_random, n_frequent;
    const double *up_to; /* (n_rows) for n_frequent, as in hash/random.c */
    /* found: */
    int32_t *own;       /* (batch, keep) best first, -1: no more */
    int32_t *found;     /* (batch, deep) -1: no more */
    float *limit;       /* (batch) */
    float *origin;      /* (batch) out: 0, or the best score where that is beyond 50 */
    uint32_t *products; /* (batch) rows scored for each sample */
    struct wisp_dactive active;
    uint32_t *chunk;  /* (n_rows / 32 / 1024 + 2) scratch of the union */
    int32_t *best;    /* (batch, k) best active rows, best first, -1: no more */
    uint64_t *counts; /* [0] += active rows, [1] += scored (active * n + products), [2] += n */
    /* ... scratch, private to learn.cu, laid by wisp_find_lay */
    int32_t *wrong;  /* (batch, last) best wrong rows of each sample, -1: no more */
    float *tile_max; /* (tiles, batch rounded up to 128) largest E of 32 active rows */
};
/* The private scratch, from batch, k, last and active.room. */
size_t wisp_find_lay(struct wisp_dfind *f, void *block);
/* Bytes of shared memory that a block takes to find rows: more than the card has, it cannot. */
size_t wisp_find_shared(const struct wisp_dfind &f);
/* own, found, limit, products; marks own rows, true labels, random and carried rows in
 * active.bits, which must be 0. */
void wisp_find_rows(const struct wisp_dfind &f, cudaStream_t s);
/* active.n, rows, before from active.bits; counts. */
void wisp_find_unite(const struct wisp_dfind &f, cudaStream_t s);
/* The k best active rows of each sample, by E. */
void wisp_find_best(const struct wisp_dfind &f, const struct wisp_dout &o, cudaStream_t s);
/* Rings, memories of samples, carried rows. */
void wisp_find_learn(const struct wisp_dfind &f, const struct wisp_dout &o, cudaStream_t s);

/* ---- lsh.cu: tables and their upkeep ---- */

struct wisp_dhash {
    size_t n_rows, width, batch, n_tables;
    int family; /* wisp_hash_family() of its name */
    int digits, digit_bits, bits, key_shift;
    uint32_t key_mask;
    size_t appended;
    bool transform;
    struct wisp_dparam w, bias;
    const struct wisp_dnow *now;
    const float *h;
    const void *functions; /* as hash/<family>.c draws them, uploaded */
    /* laid by wisp_hash_lay: */
    float *moments; /* (2, width) running mean and mean square of queries */
    float *frame;   /* (3 width + 3) as hash/frame.h */
    struct wisp_dlsh tables;
    /* ... scratch, private to lsh.cu */
    size_t group;                 /* tables made at a time */
    uint32_t rows_at_once;        /* vectors a block can hold, a power of two up to 32 */
    uint32_t *keys, *keys_sorted; /* (group, n_rows) */
    int32_t *ids;                 /* (group, n_rows) */
    float *sample;                /* (2, 1024) */
    void *work;
    size_t work_bytes;
};
/* What a family of hash/ is called here; -1: there is no form of it. */
int wisp_hash_family(const char *name);
/* The widest vectors that this card hashes. */
size_t wisp_hash_most_width(void);
size_t wisp_hash_lay(struct wisp_dhash *t, void *block);
/* Moments of queries from this step's h (lsh_upkeep.c: observe); first: begins anew. */
void wisp_hash_observe(const struct wisp_dhash &t, bool first, cudaStream_t s);
/* The frame from the moments and the rows, then all tables, all rows. */
void wisp_hash_build(const struct wisp_dhash &t, cudaStream_t s);
/* tables.query of this step's samples. */
void wisp_hash_query(const struct wisp_dhash &t, cudaStream_t s);

/* ---- scan.cu: exact best rows ---- */

struct wisp_dscan {
    size_t n_rows, width, batch, k; /* k at most 64 */
    struct wisp_dparam w, bias;
    const float *h;              /* (batch, width) */
    const uint32_t *n;           /* samples, on the card */
    const __nv_bfloat16 *rows16; /* (n_rows, width) a copy of the rows in bf16; NULL: convert */
    /* true labels that do not count, as in wisp_dnow; yp NULL: none */
    const struct wisp_dnow *now;
    bool skip_labels;
    int32_t *rows; /* (batch, k) best first; -1: no more */
    float *scores; /* (batch, k) */
    /* ... scratch, private to scan.cu */
    uint64_t *lists; /* (batch, room) keys that may be among the best */
    uint32_t *count; /* (batch) how many were found */
    float *limit;    /* (batch) what a score must reach */
    float *peaks;    /* best scores of buckets of some rows: the limits come from them */
    __nv_bfloat16 *h16;
    int sms, shared, version; /* of the card; version: of the bf16 kernel, see scan.cu */
};
size_t wisp_scan_lay(struct wisp_dscan *t, void *block);
/* By products in bf16 on tensor cores; nothing but the best is written. */
void wisp_scan_bf16(const struct wisp_dscan &t, cudaStream_t s);
/* The same in fp32: exact prediction. */
void wisp_scan_fp32(const struct wisp_dscan &t, cudaStream_t s);

/* ---- sum.cu: what probabilities of a softmax are relative to ---- */

struct wisp_dsum {
    size_t n_rows, width, batch;
    struct wisp_dparam w, bias;
    const float *h;    /* (batch, width) */
    const uint32_t *n; /* samples, on the card */
    float *max;        /* (batch) the largest z = h . W[row] + bias[row] of all rows */
    double *sum;       /* (batch) sum over all rows of exp(z - max) */
    /* ... scratch, private to sum.cu */
    unsigned splits; /* blocks that share the rows of a tile of samples */
    float *parts;    /* (splits, 2, batch rounded up to 128) maximum and sum of each */
};
size_t wisp_sum_lay(struct wisp_dsum *t, void *block);
/* In fp32; no score is written. */
void wisp_sum_exp(const struct wisp_dsum &t, cudaStream_t s);

#endif

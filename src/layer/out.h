/* The output layer's scratch and how its files share it: output.c (plan and phases), out_score.c,
 * out_combine.c, out_back.c. */
#ifndef WISP_LAYER_OUT_H
#define WISP_LAYER_OUT_H

#include "hash/best.h"
#include "layer/output.h"
#include "layer/product.h"
#include "layer/rows.h"

struct wisp_out_sums { /* of a sample's logits: what ranks exchange */
    double sum;        /* of what the loss left of its blocks */
    float max, logits; /* the largest; where targets are smoothed, their sum */
};

struct wisp_out_view { /* the scratch, cut up for this step */
    float *block_max, *block_sum, *factor, *max, *origin, *limit, *gb;
    float *block_z;             /* sums of logits, where targets are smoothed; else NULL */
    struct wisp_out_sums *sums; /* (batch) where several ranks have rows; else NULL */
    void *shared[WISP_PRODUCT_PARTS];
    float *part[WISP_OUT_LANES];            /* of the gradient of h */
    struct wisp_best lists[WISP_OUT_LANES]; /* of the best rows */
    int32_t *best;                          /* (batch, k) of the lists, joined: rows, ... */
    uint64_t *keys; /* (batch, k) ... or ids, where several ranks have rows and exchange these */
    double *loss;
    uint32_t *start; /* (blocks + 1) true labels of a block: places start[i] .. start[i+1] of the
                        batch's lists */
    size_t ld, n_blocks, n_lanes;
    size_t k; /* best rows collected of each sample; 0: none */
};

struct wisp_out_work { /* of a thread, on a block */
    float *gw, *row;
    int32_t *where;
    float *products;
};

struct wisp_out_job { /* the layer in a step */
    struct wisp_layer *l;
    struct wisp_step *s;
    const struct wisp_act *in;
    struct wisp_out_view v;
    struct wisp_product p;
};

struct wisp_out_work wisp_out_work(const struct wisp_out_job *j, int thread);
uint64_t *wisp_out_keys(const struct wisp_out_job *j, int thread);

static inline void wisp_out_phase(const struct wisp_out_job *j, int thread, int phase)
{
    wisp_phase(j->s->ctx->pool, thread, phase);
}
/* Are the layer's rows those of several ranks? */
static inline bool wisp_out_shared(const struct wisp_layer *l)
{
    return !wisp_share_all(l->params[0].share);
}
static inline size_t wisp_out_n_true(const struct wisp_batch *b, size_t sample)
{
    return b->yp[sample + 1] - b->yp[sample];
}

/* The share of a sample's targets that each computed row has: the plan sees to it that these are all
 * labels.  0: targets are not smoothed. */
static inline float wisp_out_level(const struct wisp_out_job *j)
{
    const size_t n = wisp_out_shared(j->l) ? j->l->params[0].total_rows : j->s->head.active.n;
    return j->l->smoothing > 0 ? j->l->smoothing / (float)n : 0;
}
/* The target of a true label of a sample. */
static inline float wisp_out_target(const struct wisp_out_job *j, size_t sample)
{
    const float plain = j->s->head.loss->target(wisp_out_n_true(j->s->batch, sample));
    return (1 - j->l->smoothing) * plain + wisp_out_level(j);
}

/* Files the true labels by block, and makes h what the products read. */
void wisp_out_begin(struct wisp_out_job *j);
/* Products and what the loss makes of them, by blocks. */
void wisp_out_score(struct wisp_out_job *j);
/* Each sample's loss and factor; *again: some logits lie too far from their origin, score again. */
wisp_status wisp_out_combine(struct wisp_out_job *j, bool *again, wisp_error *err);
/* The gradient of h, and the rows moved. */
wisp_status wisp_out_back(struct wisp_out_job *j, wisp_error *err);

#endif

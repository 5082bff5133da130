/* Batches: rows picked from a data set, values transformed, laid out for a step. */
#ifndef WISP_MODEL_BATCH_H
#define WISP_MODEL_BATCH_H

#include "data/image.h"
#include "layer/layer.h"
#include "model/net.h"
#include "model/values.h"

struct wisp_drop { /* input dropout; rate 0: none */
    double rate;
    uint64_t seed, step;
};

struct wisp_layout { /* a batch and the room it grows in */
    struct wisp_batch batch;
    size_t cap_rows, cap_nnz, cap_lab;
    size_t n_features, n_labels;
    struct wisp_share share; /* of the features' rows, where batch.in_p is wanted */
    bool by_feature;         /* fill the lists by feature too (training) */
    uint32_t *slot;          /* (n_features) place in batch.touched plus 1, or 0 */
    uint32_t *kept;          /* (rows) features left of each */
    float *weight;           /* (rows) what batch.weight is where the set has weights */
    struct wisp_pool *pool;  /* rows are laid out in parallel; NULL: by the caller alone */
    /* Images (wisp_layout_for); all 0: there are none. */
    struct wisp_image_how how;
    float *table;      /* (channels, 256) */
    size_t cap_planes; /* rows */
    uint64_t seed;     /* how they are moved: set by the caller, ... */
    int epoch;         /* ... 0: not at all */
    bool no_lists;     /* features of rows are not wanted */
    bool as_bytes; /* who reads the batch lays out images itself: batch.px, where all are bytes */
    const uint8_t **px; /* (rows) room for it */
    /* what is being laid out */
    const struct wisp_data *d;
    const size_t *rows;
    struct wisp_values v;
    struct wisp_drop drop;
    wisp_status status;
    wisp_error err;
};

wisp_status wisp_layout_init(struct wisp_layout *l, size_t n_features, size_t n_labels,
                             bool by_feature, wisp_error *err);
void wisp_layout_clear(struct wisp_layout *l);
/* Room for batches of n rows with nnz features and 'lab' labels in all: up to there filling
 * allocates nothing. */
wisp_status wisp_layout_reserve(struct wisp_layout *l, size_t n, size_t nnz, size_t lab,
                                wisp_error *err);

/* Lays out what the net reads: of several ranks the features whose rows are here; planes for its layer 'image', whose parameters are borrowed, and read
 * anew for each batch; and no features where no other layer reads rows, unless 'lists'. */
wisp_status wisp_layout_for(struct wisp_layout *l, const struct wisp_net *net, bool lists,
                            wisp_error *err);

/* Lays out rows[0 .. n-1] of d.  Features beyond n_features are left out, labels kept when
 * training only if they are below n_labels.  Fails for lack of memory, beyond 2^32 non-zeros, or
 * with WISP_ENUMERIC where a row's values overflow: all that is laid out is finite. */
wisp_status wisp_layout_fill(struct wisp_layout *l, const struct wisp_data *d, const size_t *rows,
                             size_t n, const struct wisp_values *v, const struct wisp_drop *drop,
                             wisp_error *err);
/* The same beside other work of the pool (wisp_later): rows and d must stay until it is done. */
void wisp_layout_start(struct wisp_layout *l, const struct wisp_data *d, const size_t *rows,
                       size_t n, const struct wisp_values *v, const struct wisp_drop *drop);
wisp_status wisp_layout_finish(struct wisp_layout *l, wisp_error *err);

#endif

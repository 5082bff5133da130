/* Finders: ways to find the rows of a wide layer that matter for a sample.
 *
 * One file a finder, one table (finders.c).  For every sample of a batch a finder puts rows into
 * the sample's pot; rows for the whole batch (drawn at random, carried over) go into one list.
 * Whatever several finders found is joined by the sampler (sampler.h): the rows in the pot are
 * scored exactly, the best are kept, and all samples' rows become one active set.
 *
 * Everything is a function of (seed, step, sample), so results do not depend on threads. */
#ifndef WISP_HASH_FINDER_H
#define WISP_HASH_FINDER_H

#include "base/context.h"
#include "base/share.h"
#include "graph/ids.h"
#include "hash/active.h"
#include "kernels/weights.h"

#include <stdbool.h>

enum wisp_strategy { WISP_VANILLA, WISP_TOPK, WISP_THRESHOLD };

struct wisp_sampling {                      /* settings; 0: chosen by the finder from the sizes */
    char names[100];                        /* of the finders, joined by '+' */
    size_t keep;                            /* rows kept of what was found for a sample */
    size_t least, most;                     /* floor and ceiling of the active set; most 0: none */
    size_t n_random, n_frequent, n_carried; /* rows per batch */
    float correct;    /* share of the log-probability correction of rows drawn at random */
    bool rescore;     /* keep by exact score, not by votes */
    bool per_example; /* each sample computes its own rows only */
    /* hashing */
    char family[16];
    int bits, tables;
    size_t bucket;  /* most rows a bucket holds; 0: all */
    bool reservoir; /* full buckets keep a random choice, not the newest */
    enum wisp_strategy strategy;
    int votes;      /* tables that must agree (threshold) */
    bool transform; /* norms and biases taken into account, where the family allows */
    size_t rebuild; /* steps before the first rebuild; later gaps grow */
    size_t redraw;  /* rebuilds between two draws of new hash functions */
    /* inverted lists */
    size_t lists, probes;
};

struct wisp_matrix { /* the rows to choose from, as they stand now */
    size_t n, width;
    struct wisp_weights w; /* (n, width) */
    const float *bias;     /* (n) */
};

struct wisp_query { /* a batch at the layer's door */
    size_t n;
    const float *h;     /* (n, width) input of the layer */
    const uint32_t *yp; /* (n+1) true labels of sample i: yi[yp[i] .. yp[i+1]); NULL: not known */
    const int32_t *yi;
    const size_t *id;   /* (n) number of each sample in the training set; NULL: not known */
    const uint32_t *xp; /* (n+1) features of sample i and their values; NULL: not known */
    const int32_t *xi;
    const float *xv;
    uint64_t step;
    struct wisp_matrix rows;
};

/* ---- the pot: what was found for one sample (pot.c) ---- */

struct wisp_pot {
    const struct wisp_kernels *k;
    const struct wisp_matrix *rows;
    const float *h; /* (width) of the sample */
    size_t n, room; /* rows found, most that fit: more are ignored */
    int32_t *row;   /* (room) in the order they came; no row twice, no true label */
    float *score;   /* (room) exact, of the first n_scored */
    float *votes;   /* (room) sum of the votes for each */
    float *spare;   /* (room) */
    size_t n_scored;
    uint64_t products;     /* of h with a row or a centre, spent on this sample */
    const int32_t *labels; /* (n_labels) true labels, ascending: never added */
    size_t n_labels;
    /* open addressing: place in 'row' plus 1, or 0; the first mask + 1 of (2 room), more as the pot
     * fills, so that a small one stays in the cache */
    uint32_t *slot;
    size_t mask;
    /* Of several ranks: rows are ids, and only those of this rank are scored. */
    struct wisp_share share;
    uint64_t *hops; /* (WISP_POT_HOPS) keys of the best rows so far: of this rank, to be told ... */
    bool told;      /* ... or of all */
    uint32_t *at;   /* (room) the slot of each row */
    uint64_t *keys; /* (room) of the rows, best first as far as asked for */
};

enum { WISP_POT_ROOM = 1 << 13, WISP_POT_HOPS = 10 };
size_t wisp_pot_bytes(size_t room);
/* Lays the pot out in a block of wisp_pot_bytes(room) zero bytes; room is a power of two. */
void wisp_pot_init(struct wisp_pot *p, const struct wisp_kernels *k, void *block, size_t room);
/* Empties the pot for sample i of a batch, whose true labels will not be added. */
void wisp_pot_start(struct wisp_pot *p, const struct wisp_query *q, size_t i);
/* Adds a row with one vote, or with these votes, to those it has. */
void wisp_pot_vote(struct wisp_pot *p, int32_t row, float votes);
static inline void wisp_pot_add(struct wisp_pot *p, int32_t row)
{
    wisp_pot_vote(p, row, 1);
}
/* Adds up to n rows with a vote each; they end at one below 0.  Their weights are asked for: they
 * will be scored. */
void wisp_pot_add_all(struct wisp_pot *p, const int32_t *rows, size_t n);
/* Scores what is not scored yet: h . w + bias. */
void wisp_pot_score(struct wisp_pot *p);
/* Keys (best.h) of the (up to) n best rows, best first; *found: how many.  All rows must be
 * scored; the keys stay until the next call. */
const uint64_t *wisp_pot_best(struct wisp_pot *p, size_t n, size_t *found);
/* Scores, and the keys of the (up to) n <= WISP_POT_HOPS best rows so far, for a finder that goes on
 * from there.  Of several ranks it is called twice: first there are none. */
const uint64_t *wisp_pot_hops(struct wisp_pot *p, size_t n, size_t *found);
/* Of the rows from place 'first' on keeps those with at least min_votes, and of these the n with
 * most votes, ties by who came first; their order is kept.  Those rows must not be scored yet. */
void wisp_pot_trim(struct wisp_pot *p, size_t first, size_t n, float min_votes);

/* The n-th largest of x, which is reordered; 1 <= n <= size. */
float wisp_nth_largest(float *x, size_t size, size_t n);

/* ---- finders ---- */

struct wisp_votes;
struct wisp_finder_setup { /* what a finder is made from; borrowed for the call unless said */
    const struct wisp_sampling *o;
    size_t n_rows, width, batch;
    size_t active;    /* most rows of an active set; the sampler fills it in */
    size_t n_samples; /* training rows; 0: samples have no numbers */
    const int64_t
        *label_rows; /* (n_rows) how often each row is a true label, kept; NULL: no labels */
    const struct wisp_votes *votes; /* of features for rows (votes.h), kept; NULL: there are none */
    uint64_t seed;
    int threads;
    struct wisp_share share; /* of the rows, where several ranks have them: then rows are ids */
};

struct wisp_rows_for_all { /* rows for every sample of the batch */
    size_t n, room;
    int32_t *row;
    float *shift; /* log of one over its probability to be drawn; 0: chosen for a reason */
};

struct wisp_outcome {                 /* what the step knows afterwards */
    const struct wisp_active *active; /* rows that moved */
    size_t k;                         /* 0: nothing was collected */
    const int32_t *best; /* (n, k) the active rows with the highest scores, best first; -1: none */
    const float *heat;   /* (active->n) sum over samples of the gradient of the row's logit */
    /* The sampler adds what it knows: (n, deep) the best rows of each sample's pot, best first, -1:
     * none.  'best' then need not hold rows that score less than the last of them. */
    size_t deep;
    const int32_t *found;
};

struct wisp_wants {
    size_t best; /* of its best active rows */
    size_t deep; /* of its pot; less than 'best' by the labels of most samples */
};

struct wisp_blob { /* a piece of state, for the checkpoint */
    const char *name;
    void *data;
    size_t bytes; /* a multiple of 4 */
};
enum { WISP_MAX_BLOBS = 8 };

struct wisp_finder_kind {
    const char *name, *what;
    bool needs_labels; /* works only where true labels are known: the output layer */
    bool needs_votes;  /* of features for rows: the setup must have them */
    bool draws;        /* rows whatever the sample is: alone it must draw many */
    bool by_weights; /* its state is made of the rows' weights: of no use where rows have others */
    bool remembers;  /* rows that competed before: hashing beside it looks for fewer */
    bool hops;       /* calls wisp_pot_hops */
    bool shared;     /* its state is not made of weights: it serves several ranks */
    /* Bytes create() will take. */
    size_t (*bytes)(const struct wisp_finder_setup *s);
    wisp_status (*create)(void **state, const struct wisp_finder_setup *s, wisp_error *err);
    void (*free)(void *state);
    /* Once a batch, before the samples; may use all threads.  NULL: nothing to do. */
    void (*begin)(void *state, struct wisp_context *ctx, const struct wisp_query *q);
    /* Puts rows for sample i into the pot; called by many threads at a time.  NULL: none. */
    void (*sample)(const void *state, const struct wisp_query *q, size_t i, int thread,
                   struct wisp_pot *pot);
    /* Rows for the whole batch; at most most_for_all() of them.  NULL: none. */
    void (*rows_for_all)(const void *state, const struct wisp_query *q,
                         struct wisp_rows_for_all *out);
    size_t (*most_for_all)(const struct wisp_finder_setup *s);
    /* After the step: learns from it, keeps the index fresh.  NULL: nothing. */
    void (*learn)(void *state, struct wisp_context *ctx, const struct wisp_query *q,
                  const struct wisp_outcome *o);
    /* What learn() wants to see of each sample.  NULL: nothing. */
    struct wisp_wants (*wants)(const struct wisp_finder_setup *s);
    /* Names what a resumed run needs; returns how many.  NULL: nothing. */
    size_t (*blobs)(void *state, struct wisp_blob *out);
    /* After the blobs were filled from a checkpoint.  False: no run can have left them so (rows
     * that there are not, places out of range), and they must not be used.  NULL: any bytes will
     * do. */
    bool (*restored)(void *state, struct wisp_context *ctx);
    /* Its part of what a card needs to do the same: sizes, and pointers into its state; state NULL:
     * sizes only, it has not been made.  The setup has passed create(), or will be given to it.
     * NULL: it has no form for cards. */
    void (*device)(struct wisp_finders *out, const struct wisp_finder_setup *s, void *state);
};

/* For 'restored': are all of these rows from 'least' (0, or -1 for none) to n_rows - 1? */
static inline bool wisp_rows_are_good(const int32_t *row, size_t n, int32_t least, size_t n_rows)
{
    bool good = true;
    for (size_t i = 0; i < n; i++) good &= row[i] >= least && row[i] < (int64_t)n_rows;
    return good;
}

/* And are all of these numbers finite? */
static inline bool wisp_floats_are_good(const float *x, size_t n)
{
    bool good = true;
    for (size_t i = 0; i < n; i++) good &= x[i] - x[i] == 0;
    return good;
}

const struct wisp_finder_kind *wisp_finder_at(size_t i); /* NULL past the end */
const struct wisp_finder_kind *wisp_finder_find(const char *name, size_t length);
/* The first of names joined by '+', and on to the next; *length: of its name.  NULL: not known. */
const struct wisp_finder_kind *wisp_finder_next(const char **names, size_t *length);
/* The table: one entry per finder, each in a file of its own, but for full, which finds nothing. */
#define WISP_FINDERS(X)                                                                            \
    X(full)                                                                                        \
    X(random)                                                                                      \
    X(frequency)                                                                                   \
    X(neighbours)                                                                                  \
    X(features)                                                                                    \
    X(ivf)                                                                                         \
    X(lsh)                                                                                         \
    X(scan)
#define WISP_FINDER(name) extern const struct wisp_finder_kind wisp_finder_##name;
WISP_FINDERS(WISP_FINDER)
#undef WISP_FINDER

#endif

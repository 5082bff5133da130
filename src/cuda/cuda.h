/* Training, prediction and deep sparse networks on a card: what the rest of wisp sees of it.  No
 * CUDA type is shown here.
 *
 * The kernels lie in a shared object of their own, wisp-cuda.so, which is opened when a card is
 * asked for (device.c): one binary serves machines with and without one.  It exports one function,
 * wisp_cuda_table(), and knows nothing of the library but this header, wisp.h, base and graph. */
#ifndef WISP_CUDA_CUDA_H
#define WISP_CUDA_CUDA_H

#include "graph/graph.h"
#include "graph/ids.h"
#include "wisp/wisp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { WISP_CUDA_VERSION = 16 }; /* of this interface */

/* What the width of a layer that gives units is a multiple of. */
enum { WISP_CUDA_UNITS = 4 };

/* How all of wisp says that a card cannot do something. */
#define WISP_CUDA_LACKS "--device cuda: %s has no form for cards; use --device cpu"

/* Bytes of a card's own number, and of what ranks with cards meet by (NCCL's id). */
enum { WISP_CUDA_CARD_ID = 16, WISP_CUDA_ID = 128 };

struct wisp_cuda_card {
    char name[128];
    unsigned char id[WISP_CUDA_CARD_ID]; /* no other card has the same */
    int major, minor, n_multi;
    size_t free_bytes, total_bytes;
};

struct wisp_cuda_block { /* rows in CSR order */
    size_t n;
    const uint32_t *xp; /* (n + 1) */
    const int32_t *xi;
    const float *xv;
    const uint32_t *yp; /* (n + 1) */
    const int32_t *yi;
    /* of a net that reads images */
    const uint8_t *px;   /* to train on: (n, pixels) */
    const float *planes; /* to predict: (n, pixels) as the net sees them; or, where not NULL, */
    const uint8_t *const *bytes; /* (n) where the pixels of each lie, and */
    const float *table;          /* (channels, 256) what each byte becomes */
};

/* Ranks that divide the samples of each batch: all have the same net, and the sums of their gradients
 * move it. */
struct wisp_cuda_ranks {
    int rank, size;
    bool library;    /* NCCL adds up, from card to card, once they have met; else the host does */
    double patience; /* seconds that a rank waits for others, where NCCL adds up */
    const void *comm;
    /* Sums of n numbers of all ranks, at every rank; 'begin' only begins, up to 'finish'. */
    wisp_status (*add)(const void *comm, double *x, size_t n, wisp_error *err);
    wisp_status (*begin)(const void *comm, float *x, size_t n, wisp_error *err);
    wisp_status (*finish)(const void *comm, wisp_error *err);
};

struct wisp_cuda_share { /* of a batch */
    uint32_t n;          /* samples that this process has, */
    uint32_t before;     /* those of the ranks before it, a multiple of 4 where n is not 0, */
    uint32_t all;        /* and those of all ranks; 0: all are here */
};

struct wisp_bonds;
struct wisp_cuda_setup { /* what a trainer is made from; pointers stay the caller's.  The net and
                            the memory of neighbours must live as long as the trainer */
    struct wisp_graph graph;
    size_t batch;                        /* most samples of one that are here */
    const struct wisp_cuda_ranks *ranks; /* NULL: all samples of a batch are here */
    enum wisp_optimizer_id optimizer;
    float momentum;
    const float *correct1, *correct2; /* (WISP_CLOCK_FACTORS) */
    enum wisp_loss_id loss;
    float smoothing; /* of its targets */
    enum wisp_precision_id precision;
    enum wisp_zeros zeros;          /* of convolutions */
    const struct wisp_bonds *bonds; /* whose weights run() makes shorter; NULL: none */
    const double *group_weights; /* (layers) by how much more; infinite: a layer without its own */
    uint64_t seed;
    size_t most_bytes; /* of the card; beyond it the output layer's rows stay where they are */
    size_t score_batch,
        score_k; /* of the scorer that will use its weights; 0: there will be none */
    /* rows */
    size_t n_rows, n_blocks;
    const struct wisp_cuda_block *blocks;
    const float *idf; /* (n_features) */
    int values;       /* enum wisp_values_mode */
    float input_dropout;
    size_t pixels;      /* of a row, of nets that read images; 0: they do not */
    const float *table; /* (channels, 256) what each byte of a pixel becomes */
    /* the active set */
    size_t room;        /* most rows of it */
    size_t most_labels; /* of a batch */
    size_t keep, deep, best;
    struct wisp_finders finders;
};

struct wisp_cuda_bytes { /* of the card, that a run takes */
    size_t all, least;   /* with all rows on it, and the scorer's; with those of the output layer on
                            the host */
    /* of these: values, gradients and scratch of the layers below the head, in a step; the most of
     * them that is needed at once; what they would be if no values were made again on the way back,
     * layers that do so, bytes of their values, and about how long that takes in a step */
    size_t step, bound, whole, again;
    int n_again;
    int passes, skipping; /* of convolutions; those that leave out slices of zeros */
    double again_us;
    size_t outside; /* bytes of the optimiser's state that are on the host instead, of layers, */
    int n_outside;
    double outside_us;  /* and how long they are on their way, beside the way back, in a step */
    int lot_layers;     /* so many of the first layers go ... */
    size_t lot_samples; /* ... so many samples at a time; 0: none do */
    int lot_stop; /* where that was wanted in vain: the first layer that cannot; -1: it was not */
    size_t libraries; /* of 'all' and 'least', about: what libraries load, and recorded steps */
};

struct wisp_cuda_seen { /* sums since the trainer was made */
    double loss;
    uint64_t active, scored, samples; /* over steps, over samples, samples */
    uint64_t touched;                 /* feature rows, over steps */
    double recall_own, recall_set;
    uint64_t recall_n; /* samples it was measured on */
    double recall_s;   /* seconds that took, if wait() follows every call of run() that looks */
};

enum wisp_cuda_part { /* of a step, in order */
                      WISP_CUDA_BEGIN,
                      WISP_CUDA_INPUT,          /* layers that read the rows, forward */
                      WISP_CUDA_LAYERS_FORWARD, /* other layers below the head, forward */
                      WISP_CUDA_HASH,           /* keys of the samples */
                      WISP_CUDA_SCAN,           /* best rows of all */
                      WISP_CUDA_FIND,           /* neighbours, buckets; candidates scored */
                      WISP_CUDA_UNITE,          /* the active set */
                      WISP_CUDA_FORWARD,        /* gather, product, E */
                      WISP_CUDA_COMBINE,        /* loss, targets */
                      WISP_CUDA_HIDDEN,         /* gradient of the hidden values */
                      WISP_CUDA_ROWS,           /* gradient of the rows; they move */
                      WISP_CUDA_BEST,           /* best active rows of each sample */
                      WISP_CUDA_LEARN,       /* rings and memories; moments of the hidden values */
                      WISP_CUDA_LAYERS_BACK, /* other layers backward; their rows move */
                      WISP_CUDA_BACK,        /* layers that read the rows, backward */
                      WISP_CUDA_PARTS
};
static const char *const wisp_cuda_part_names[] = { "begin",   "input",       "layers", "hash",
                                                    "scan",    "find",        "unite",  "forward",
                                                    "combine", "hidden",      "rows",   "best",
                                                    "learn",   "layers_back", "back" };
struct wisp_cuda_times {        /* microseconds a step */
    double us[WISP_CUDA_PARTS]; /* each part alone */
    double step_us;             /* the whole step as it is run: parts overlap */
    double layout_us;           /* laying out a step's rows, beside other steps */
    double tables_us;           /* making hash tables, once */
    double penalty_us;          /* making groups of weights shorter, once */
    double copy_gb_per_s;       /* of the card: bytes read and written */
};

struct wisp_cuda_best { /* of n rows */
    int32_t *labels;    /* (n, k) best first, ties by smaller id; -1: no more */
    float *logits;      /* (n, k) */
    float *max;  /* (n) the largest logit of all labels; NULL: neither it nor 'sum' is wanted */
    double *sum; /* (n) sum over all labels of exp(logit - max) */
};

/* ---- deep sparse networks (spdnn/spdnn.h has the words) ---- */

struct wisp_cuda_layer { /* y = min(clip, max(0, W x + bias)), or W x + bias where linear */
    uint32_t n_in, n_out, n_groups;
    bool linear;
    const uint32_t *in_start, *in; /* group g reads inputs in[in_start[g] .. in_start[g + 1] - 1] */
    const uint32_t *out_start, *out; /* and writes outputs out[out_start[g] ..] */
    float weight;                    /* of all edges where w is NULL */
    const float *w;                  /* group g: (inputs, outputs) at w_start[g] */
    const uint64_t *w_start;
    float bias;
    const float *biases; /* (n_out) by id; NULL: all are 'bias' */
};

struct wisp_cuda_deep { /* what a runner is made from; pointers stay the caller's, and must live as
                           long as the runner, which may read layers again */
    size_t n_layers;
    const struct wisp_cuda_layer *layers;
    float clip; /* INFINITY: none */
    bool drop;  /* use the rules below */
    /* An all-zero (all-clip) vector that enters this layer or a later one stays so to the end. */
    size_t zero_from, full_from;
    size_t most_bytes; /* of the card; 0: what is free.  Layers and inputs beyond it are streamed */
    /* n vectors of bits, or CSR (start, id, value) where bits is NULL */
    size_t n, words;
    const uint64_t *bits;
    const uint64_t *start;
    const uint32_t *id;
    const float *value;
};

struct wisp_cuda_deep_times {
    double seconds;   /* of the inference: the fastest of the repeats */
    double upload_s;  /* layers and inputs to the card, inputs made dense there */
    uint64_t work;    /* inputs times layers that were computed */
    uint64_t bytes;   /* of the card that were taken */
    bool streamed;    /* layers, or inputs, did not all fit: 'seconds' includes their copies */
    const char *form; /* which kernel */
};

struct wisp_cuda_trainer;
struct wisp_cuda_scorer;
struct wisp_cuda_runner;

struct wisp_cuda {
    int version;
    /* Of the structs that a net is handed over in: those of another build may differ. */
    size_t graph_bytes, layer_bytes, act_bytes, param_bytes;
    unsigned optimizers, losses, precisions; /* that it has: bit i is the one with id i */
    bool (*has_family)(const char *name);    /* of hash functions */
    bool (*has_kind)(const char *name);      /* of layers */
    const char *(*convolver)(void);          /* the library that convolves, or why there is none */
    /* NCCL's name, or why there is none. */
    const char *(*adder)(bool *there);
    /* This thread works on card number 'place' from here on, counted round and round the cards. */
    wisp_status (*choose)(int place, wisp_error *err);
    wisp_status (*card)(struct wisp_cuda_card *out, wisp_error *err); /* that it works on */
    /* Is there a form for this card of every layer, and of what finds rows in training (NULL: the
     * net only predicts)?  WISP_ENOTSUP names the first that has none. */
    wisp_status (*check)(const struct wisp_graph *g, const struct wisp_finders *f, wisp_error *err);
    /* What create() will take of the card. */
    wisp_status (*bytes)(struct wisp_cuda_bytes *out, const struct wisp_cuda_setup *s,
                         wisp_error *err);
    wisp_status (*create)(struct wisp_cuda_trainer **out, const struct wisp_cuda_setup *s,
                          wisp_error *err);
    void (*free)(struct wisp_cuda_trainer *t);
    /* What trainers of ranks meet by, made by one of them; and meeting, by all of them at once. */
    wisp_status (*new_id)(unsigned char id[WISP_CUDA_ID], wisp_error *err);
    wisp_status (*meet)(struct wisp_cuda_trainer *t, const unsigned char id[WISP_CUDA_ID],
                        wisp_error *err);
    /* Most steps that run() takes at a time. */
    size_t (*most_steps)(const struct wisp_cuda_trainer *t);
    /* Steps first .. first + n_steps - 1 of the run: step s has n[s].n rows, at ids[s * batch], whose
     * images are moved as moved[s * batch] says (NULL: not at all).  After it every group of weights
     * becomes shorter by shorter[s] times the root of its size (penalty.cuh), where that is not 0.
     * Returns when they are under way.  look: recall is measured in the last of them; anew: what
     * is made of the weights is made anew before the first, as where an epoch begins. */
    wisp_status (*run)(struct wisp_cuda_trainer *t, const uint32_t *ids,
                       const struct wisp_moved *moved, const struct wisp_cuda_share *n,
                       const float *lr, const double *shorter, size_t n_steps, uint64_t first,
                       bool look, bool anew, wisp_error *err);
    /* Waits until all steps are done. */
    wisp_status (*wait)(struct wisp_cuda_trainer *t, struct wisp_cuda_seen *out, wisp_error *err);
    /* Of planes that a layer gives, as they were at the last wait(), since the trainer was made:
     * numbers that are not 0 in live (blocks of 16 channels); returns how many samples these are of,
     * 0 where nobody counts. */
    size_t (*live)(const struct wisp_cuda_trainer *t, int layer, uint64_t *live);
    /* Waits, then copies parameters and the memory of neighbours to the host. */
    wisp_status (*fetch)(struct wisp_cuda_trainer *t, wisp_error *err);
    /* Times the parts of a step on the rows of the last chunk; the weights move. */
    wisp_status (*time)(struct wisp_cuda_trainer *t, struct wisp_cuda_times *out, wisp_error *err);
    /* For up to 'batch' rows at a time and k (at most 64, and at most n_labels) labels per row.  The
     * graph's weights (of each w or b16) are copied to the card; or, with graph NULL, those of a
     * trainer are used where they are, as its steps have left them: it is freed after the scorer. */
    wisp_status (*create_scorer)(struct wisp_cuda_scorer **out, const struct wisp_graph *g,
                                 struct wisp_cuda_trainer *t, size_t batch, size_t k,
                                 wisp_error *err);
    void (*free_scorer)(struct wisp_cuda_scorer *s); /* NULL is fine */
    /* Exact, in fp32.  Values of the rows are transformed; their labels are not looked at. */
    wisp_status (*score)(struct wisp_cuda_scorer *s, const struct wisp_cuda_best *out,
                         const struct wisp_cuda_block *rows, wisp_error *err);
    /* A deep sparse network and its inputs, on the card: inputs as dense floats. */
    wisp_status (*create_runner)(struct wisp_cuda_runner **out, const struct wisp_cuda_deep *d,
                                 wisp_error *err);
    void (*free_runner)(struct wisp_cuda_runner *r); /* NULL is fine */
    /* Runs all inputs through all layers 'repeats' times.  ends (n): 1 where the result is not all
     * zero; values (n, n_out of the last layer), NULL: not wanted. */
    wisp_status (*run_deep)(struct wisp_cuda_runner *r, uint8_t *ends, float *values, int repeats,
                            struct wisp_cuda_deep_times *times, wisp_error *err);
};

#ifdef __cplusplus
}
#endif

/* Opens wisp-cuda.so and asks for a card; *out stays valid until the process ends.  WISP_ENOTSUP
 * with the reason where there is none. */
wisp_status wisp_cuda_open(const struct wisp_cuda **out, wisp_error *err);
/* The same, and this thread works on card number 'place' from here on (choose). */
wisp_status wisp_cuda_open_at(const struct wisp_cuda **out, int place, wisp_error *err);

#endif

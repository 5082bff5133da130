/* What both devices know a run's choices by: one enum for optimisers, losses, precisions and
 * functions of nodes each, the streams of random numbers, and what finders hand to a card.
 *
 * A row of the host's table (model/optimizer.c, layer/losses.c, layer/product_*.c) carries its
 * number, kernels take the same one, and a part for cards says which of them it has as a set of
 * bits: a row without one is refused by its name.  C and C++. */
#ifndef WISP_GRAPH_IDS_H
#define WISP_GRAPH_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wisp_optimizer_id { WISP_ADAM, WISP_ADAGRAD, WISP_SGD, WISP_OPTIMIZERS };
enum wisp_loss_id { WISP_SOFTMAX, WISP_BCE, WISP_LOSSES };
enum wisp_precision_id { WISP_IN_FP32, WISP_IN_BF16, WISP_IN_TF32, WISP_PRECISIONS };
/* Functions of the nodes of a graph (spdnn/functions.c).  Numbers stay: models have them. */
enum wisp_node_function_id {
    WISP_NODE_IDENTITY,
    WISP_NODE_RELU,
    WISP_NODE_TANH,
    WISP_NODE_SIGMOID,
    WISP_NODE_GAUSS,
    WISP_NODE_SIN,
    WISP_NODE_ABS,
    WISP_NODE_STEP,
    WISP_NODE_FUNCTIONS
};
/* Whether convolutions leave out zeros: never, where it was measured to be faster, always. */
enum wisp_zeros { WISP_ZEROS_OFF, WISP_ZEROS_AUTO, WISP_ZEROS_FORCE };

/* Kinds of streams of random numbers (base/rand.h), one for each choice that is drawn; data and
 * spdnn have theirs in their own files.  Numbers stay: a model's bytes depend on them. */
enum {
    WISP_STREAM_SHUFFLE = 1, /* + epoch << 8 */
    WISP_STREAM_HOLDOUT = 2,
    WISP_STREAM_INPUT_DROP = 3, /* + step << 8 */
    WISP_STREAM_DROPOUT = 4,    /* + layer << 8 */
    WISP_STREAM_PAD = 6,        /* + step << 8; the next one too */
    WISP_STREAM_RANDOM = 7,
    WISP_STREAM_HASH = 8,       /* + draw << 8; from bit 62 on: its tables (hash/lsh*.c) */
    WISP_STREAM_IVF = 9,        /* + turn << 8 */
    WISP_STREAM_FREQUENCY = 10, /* + step << 8; the next two, too */
    WISP_STREAM_RINGS = 11,
    WISP_STREAM_IVF_CUT = 12,
    WISP_STREAM_VOTES = 13,
    WISP_STREAM_HIDDEN = 14,
    WISP_STREAM_INIT = 16,      /* + parameter number << 8 */
    WISP_STREAM_WIRES = 17,     /* + layer << 8 */
    WISP_STREAM_LINEAR = 40,    /* + label << 8: the order of its rows */
    WISP_STREAM_NEGATIVES = 41, /* of rows; + (label + 1) << 8: rows drawn for it */
    WISP_STREAM_ERRORS = 20     /* + parameter number, or layer, << 8 (model/inject.c) */
};

/* The finders of a sampler (hash/finder.h), each by its own part; 0 where it is not among them.
 * Pointers stay the finders'. */
struct wisp_finders {
    bool full; /* all rows: nothing is looked for */
    bool scan;
    struct {                     /* (hash/neighbours.c); ring 0: none */
        size_t ring, last, hops; /* sizes of its memories, rings that are followed */
        size_t n_carried;        /* most rows that are carried over */
        int32_t *rings;          /* (rows, ring) -1: empty */
        uint8_t *next;           /* (rows) place of the oldest */
        int32_t *lasts;          /* (samples, last) -1: none */
        int32_t *carried;        /* (1 + n_carried) how many, and they */
    } neighbours;
    size_t n_random, n_frequent; /* rows per batch */
    const double *up_to;         /* (rows) running sum of label counts, for n_frequent */
    struct {                     /* (hash/lsh.c); n_tables 0: none */
        const char *family;      /* by its name: a card has a table of its own */
        size_t n_tables;
        int digits, digit_bits, bits, key_shift;
        uint32_t key_mask;
        size_t appended;
        bool transform;
        const void *functions; /* as the family draws them */
        size_t function_bytes;
        uint64_t first_gap; /* steps before the tables are made anew; later gaps grow */
    } hash;
};

#endif

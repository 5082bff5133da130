/* Very deep networks whose connections are few and fixed.
 *
 * Layer l:  y = min(clip, max(0, W x + bias)); a layer may also be linear, y = W x + bias.
 * Outputs that have the same inputs form a *group*: their values share every load of an input.
 *
 *     edges (layer by layer) --> net: groups (layer.c)          any widths, weights, biases, clip
 *                                 |  rules.c: which vectors stay as they are to the end
 *                                 |  merge.c: a smaller net with the same answers
 *                                 v
 *     inputs (inputs.c) -------> run (run.c on cores, card.c on a card) --> which rows end non-zero
 *
 * Three modes, never mixed: 'raw' computes every edge of every input; 'exact' drops inputs that are
 * all zero and retires those that are all at the clip, where rules.c has shown that no later layer
 * changes them; 'merged' is 'exact' on the merged net. */
#ifndef WISP_SPDNN_SPDNN_H
#define WISP_SPDNN_SPDNN_H

#include "base/context.h"

#include <stdbool.h>

struct wisp_edges { /* of one layer, by output: CSR */
    uint32_t n_in, n_out;
    const uint64_t *start; /* (n_out + 1) */
    const uint32_t *in;    /* ids of inputs of an output, ascending; one that is there twice counts
                              twice */
    const float *w;        /* beside 'in'; NULL: all are 'weight' */
    float weight;
    const float *biases; /* (n_out); NULL: all are 'bias' */
    float bias;
    bool linear; /* no bounds: y = W x + bias */
};

struct wisp_splayer {
    uint32_t n_in, n_out;
    bool linear;      /* no bounds: y = W x + bias */
    uint64_t n_edges; /* of the groups: inputs times outputs */
    uint32_t n_groups;
    uint32_t *in_start;  /* (n_groups + 1) places in 'in' */
    uint32_t *in;        /* ids of a group's inputs, ascending */
    uint32_t *out_start; /* (n_groups + 1) places in 'out' */
    uint32_t *out;       /* (n_out) ids of outputs, each once */
    float weight;        /* of all edges where w is NULL */
    float *w;            /* group g: (inputs, outputs) at w_start[g] */
    uint64_t *w_start;   /* (n_groups) */
    float bias;
    float *biases; /* (n_out) by id; NULL: all are 'bias' */
};

struct wisp_spnet {
    size_t n_layers, room;
    struct wisp_splayer *layers;
    float clip;       /* INFINITY: none */
    uint64_t n_edges; /* of the net that was given, before any merging */
    /* A vector that is all zero (all clip) and enters layer 'zero_from' ('full_from') or a later
     * one stays so to the end.  n_layers: no layer keeps it, but nothing follows the last one. */
    size_t zero_from, full_from;
};

/* ---- nets (layer.c) ---- */

struct wisp_spnet *wisp_spnet_create(float clip); /* NULL: out of memory */
void wisp_spnet_free(struct wisp_spnet *net);     /* NULL is fine */
/* One more layer; its inputs must be as many as the last one's outputs.  Finds the groups. */
wisp_status wisp_spnet_add(struct wisp_spnet *net, const struct wisp_edges *e, wisp_error *err);
/* Makes the groups of a layer alone, for callers that make many at once. */
wisp_status wisp_splayer_make(struct wisp_splayer *out, const struct wisp_edges *e,
                              wisp_error *err);
void wisp_splayer_clear(struct wisp_splayer *l);
/* The net owns the layer from now on, also on failure; *l becomes empty. */
wisp_status wisp_spnet_push(struct wisp_spnet *net, struct wisp_splayer *l, wisp_error *err);
uint32_t wisp_spnet_width(const struct wisp_spnet *net); /* the largest of any layer, inputs too */

/* ---- rules (rules.c) ---- */

/* Fills zero_from and full_from. */
wisp_status wisp_spnet_rules(struct wisp_spnet *net, struct wisp_pool *pool, wisp_error *err);

/* ---- merging (merge.c) ---- */

struct wisp_merged {  /* what merging found */
    uint64_t n_edges; /* of the merged net */
    uint32_t widest;  /* of its layers' outputs */
    uint32_t *last;   /* (outputs of the net) output of the merged net that has its value */
    uint32_t n_last;
};
/* The merged net; its rules are those of 'net', which must have them.  A net without equal neurons
 * gives an equal one. */
wisp_status wisp_spnet_merge(struct wisp_spnet **out, struct wisp_merged *what,
                             const struct wisp_spnet *net, wisp_error *err);
void wisp_merged_clear(struct wisp_merged *what);

/* ---- inputs (inputs.c) ---- */

struct wisp_spinputs { /* n vectors, either of bits or of numbers */
    size_t n;
    uint32_t width;
    size_t words;    /* of a row of bits: width / 64, rounded up */
    uint64_t *bits;  /* (n, words): bit i % 64 of word i / 64 is value i; NULL: numbers */
    uint64_t *start; /* (n + 1) CSR */
    uint32_t *id;
    float *value;
};
void wisp_spinputs_clear(struct wisp_spinputs *x);
wisp_status wisp_spinputs_bits(struct wisp_spinputs *out, size_t n, uint32_t width,
                               wisp_error *err); /* all zero */
/* Keeps rows first .. first+n-1 alone, and gives the memory of the others back. */
void wisp_spinputs_keep(struct wisp_spinputs *x, size_t first, size_t n);

/* ---- the official networks (radix.c) ---- */

struct wisp_radix {
    uint32_t n_neurons; /* a power of 2 from 32 to 2^26; if random, any from 32 on */
    size_t n_layers;
    bool random;   /* 32 random inputs a neuron instead of the butterflies */
    uint64_t seed; /* of the permutations, or of the inputs */
};
float wisp_radix_bias(uint32_t n_neurons);
/* -1: no such official network */
long wisp_radix_categories(uint32_t n_neurons, size_t n_layers);
wisp_status wisp_radix_net(struct wisp_spnet **out, const struct wisp_radix *r,
                           struct wisp_pool *pool, wisp_error *err);
/* Edges of layer l, in memory of the caller: start (n + 1), in (32 n). */
wisp_status wisp_radix_layer(uint64_t *start, uint32_t *in, const struct wisp_radix *r, size_t l,
                             wisp_error *err);

/* n of 0 .. all-1 without repetition, ascending, each set as likely as any other (Floyd): the k-th
 * draw, random number first + k of the stream, is from 0 .. all - n + k, and that last one stands
 * in for one that is there already. */
void wisp_choose(uint32_t *to, size_t n, size_t all, uint64_t seed, uint64_t stream,
                 uint64_t first);

/* ---- their inputs (images.c) ---- */

struct wisp_images {  /* what making them found */
    double threshold; /* half of the largest value */
    uint64_t ones;
};
/* Images of n x 28 x 28 bytes, interpolated to side x side (28 to 65535) and cut at half of the
 * largest value of all. */
wisp_status wisp_images_make(struct wisp_spinputs *out, struct wisp_images *found,
                             const unsigned char *pixels, size_t n, uint32_t side,
                             const struct wisp_context *ctx, wisp_error *err);

/* ---- files (tsv.c) ---- */

/* neuronN/nN-lK.tsv, K = 1 .. n_layers, below 'dir'. */
wisp_status wisp_challenge_net(struct wisp_spnet **out, const char *dir, uint32_t n_neurons,
                               size_t n_layers, const struct wisp_context *ctx, wisp_error *err);
/* sparse-images-N.tsv */
wisp_status wisp_challenge_inputs(struct wisp_spinputs *out, const char *dir, uint32_t n_neurons,
                                  const struct wisp_context *ctx, wisp_error *err);
/* neuronN-lL-categories.tsv: rows from 0, ascending.  No such file: *rows is NULL. */
wisp_status wisp_challenge_truth(uint32_t **rows, size_t *n, const char *dir, uint32_t n_neurons,
                                 size_t n_layers, wisp_error *err);

/* ---- running (run.c on cores, card.c on a card) ---- */

struct wisp_sprun {
    bool drop;     /* by the rules of the net */
    uint8_t *ends; /* (n) 1: not all zero at the end */
    float *values; /* (n, outputs of the net) at the end; NULL: not wanted */
    /* found */
    double seconds; /* of the inference alone */
    uint64_t work;  /* inputs times layers that were computed */
};
wisp_status wisp_spnet_run(struct wisp_sprun *r, const struct wisp_spnet *net,
                           const struct wisp_spinputs *x, const struct wisp_context *ctx,
                           wisp_error *err);

struct wisp_spcard {
    size_t most_bytes; /* of the card; 0: what is free */
    int repeats;       /* 'seconds' is the fastest */
    /* found */
    double upload_s;
    uint64_t bytes;
    bool streamed;
    const char *form;
};
wisp_status wisp_spnet_run_card(struct wisp_sprun *r, struct wisp_spcard *c,
                                const struct wisp_spnet *net, const struct wisp_spinputs *x,
                                wisp_error *err);
/* The definition, for tests: one input, edge by edge, in double precision.  values: (outputs of the
 * net); scratch: twice the net's width. */
void wisp_spnet_plain(double *values, const struct wisp_spnet *net, const struct wisp_spinputs *x,
                      size_t row, double *scratch);

#endif

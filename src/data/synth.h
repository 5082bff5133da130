/* The synthetic generator's inside: synth_row.c draws rows, synth.c runs it over all rows. */
#ifndef WISP_DATA_SYNTH_H
#define WISP_DATA_SYNTH_H

#include "data/data.h"

struct wisp_synth {
    struct wisp_synth_shape s;
    double half_span;                /* sqrt(n_features + 1) - 1 */
    double label_span;               /* (n_labels + 1)^(1/4) - 1 */
    double log_features, log_more;   /* log(n_features + 1); log of the chance of one more label */
    unsigned half_bits;              /* of the Feistel network over labels */
    size_t max_labels, max_features; /* of a row */
    float *idf;                      /* (n_features); set by the caller before rows are finished */
};

struct wisp_synth_row { /* one per thread, used again for each row */
    size_t n_labels, n;
    uint64_t *labels; /* (max_labels) ascending when finished, labels[0] the first before */
    uint64_t *draws;  /* (max_features) feature << 32 | times drawn; ascending when finished */
    float *values;    /* (max_features), set by finish */
    uint64_t *table;  /* (mask + 1) place in draws + 1; 0: free */
    size_t mask;
};

wisp_status wisp_synth_init(struct wisp_synth *g, const struct wisp_synth_shape *s,
                            wisp_error *err);
wisp_status wisp_synth_row_init(struct wisp_synth_row *r, const struct wisp_synth *g,
                                wisp_error *err);
void wisp_synth_row_clear(struct wisp_synth_row *r);
/* Labels and draws of row i: all that counting needs. */
void wisp_synth_row_draw(struct wisp_synth_row *r, const struct wisp_synth *g, size_t i);
/* Sorts, and computes the values. */
void wisp_synth_row_finish(struct wisp_synth_row *r, const struct wisp_synth *g);

/* v > 0 as digits / 10^(*at + 5), six significant ones.  The float nearest to that gives the
 * same digits again. */
uint32_t wisp_synth_decimal(double v, unsigned *at);

#endif

/* Lists of the k best rows of each sample, filled block by block.
 *
 * Rows come in ascending order and only a strictly better score displaces, so ties keep the
 * smaller id; lists of parts that were scanned side by side are merged in order by the same
 * rule. */
#ifndef WISP_LAYER_BEST_H
#define WISP_LAYER_BEST_H

#include "kernels/kernels.h"

struct wisp_best {
    size_t n, k;
    float *value; /* (n, k) best first */
    int32_t *id;  /* (n, k), -1: none */
    float *limit; /* (n) a score must be above it to get in */
};

size_t wisp_best_floats(size_t n, size_t k);
struct wisp_best wisp_best_at(float *block, size_t n, size_t k);
void wisp_best_reset(struct wisp_best *b);
void wisp_best_reset_one(struct wisp_best *b, size_t s); /* the list of sample s */
/* One score of sample s. */
void wisp_best_add(struct wisp_best *b, size_t s, float v, int32_t id);
/* Scores z (m, n) of rows[0 .. m-1], or of first .. first+m-1 where rows is NULL; 'where' has room
 * for n. */
void wisp_best_collect(struct wisp_best *b, const struct wisp_kernels *k, const float *z, size_t m,
                       const int32_t *rows, size_t first, int32_t *where);
/* Adds the list of sample s of 'from', whose rows come after those of 'to'. */
void wisp_best_merge(struct wisp_best *to, const struct wisp_best *from, size_t s);

#endif

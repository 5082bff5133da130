/* Inverted lists: rows of a matrix grouped around centres, and the groups near a vector.
 *
 * A row counts with its bias as one more coordinate, x = (w, bias), and belongs to the centre c
 * with the least
 *
 *     (x - c)^T M (x - c),   M = mean of (h, 1) (h, 1)^T over vectors h that are asked for:
 *
 * the mean square of the error when the score h . w + bias is taken from the centre instead of the
 * row.  M is known from few samples, so half its diagonal is added.  Measured (share of the exact
 * top 20 among the rows looked at; two sweeps): 'real' is the output layer of a model after three
 * epochs on a tenth of yso (25,400 rows, width 256, 320 lists, 956 rows looked at), 'planted' are
 * noisy rows in clusters (100,000 rows, width 128, 640 lists, 1897 looked at).
 *
 *     M + a * diagonal, a =   0     1/4    1/2     1      3    diagonal alone
 *     real                   .86    .85    .84    .85    .83   .69
 *     planted                .76    .84    .87    .89    .92   .89
 *
 * Upkeep is a sweep: wisp_lists_assign() over all rows, a few at a time, then wisp_lists_turn(),
 * which makes the new lists and moves the centres.  Between turns lists and centres stand still.
 * All sums run in a fixed order: results do not depend on threads.  Only create allocates. */
#ifndef WISP_HASH_LISTS_H
#define WISP_HASH_LISTS_H

#include "base/context.h"
#include "hash/finder.h"

struct wisp_lists {
    size_t n_rows, width, n; /* n: lists */
    int threads;
    float *metric;    /* (width + 1, width + 1) M and half its diagonal, as of the last turn */
    float *centre;    /* (n, width + 1) last the bias */
    float *nearness;  /* (n, width + 2) M c, then -c^T M c / 2: the product with (w, bias, 1) is
                         greatest where the distance is least */
    float *sum;       /* (n, width + 1) of the rows assigned since the turn */
    int32_t *list_of; /* (n_rows) as last assigned; -1: not yet */
    uint32_t *start;  /* (n + 1) list c holds row[start[c] .. start[c + 1]), as of the turn */
    int32_t *row;     /* (n_rows) ascending in each list */
    uint32_t *place;  /* (WISP_LIST_SLICES, n) where each slice of rows goes on in each list */
    char *scratch;    /* (threads) a tile each */
};
enum { WISP_LIST_SLICES = 16 };

size_t wisp_lists_bytes(size_t n_rows, size_t width, size_t n, int threads);
/* 1 <= n <= n_rows.  No row is in a list and the metric is 0 until told otherwise. */
wisp_status wisp_lists_create(struct wisp_lists **out, size_t n_rows, size_t width, size_t n,
                              int threads, wisp_error *err);
void wisp_lists_free(struct wisp_lists *l);

/* Takes random rows as centres.  metric (width + 1, width + 1): M. */
void wisp_lists_seed(struct wisp_lists *l, struct wisp_context *ctx, const struct wisp_matrix *m,
                     const float *metric, uint64_t seed);
/* Finds the nearest centre for 'n' rows from number 'first' on, of 'among' rows spread evenly over
 * the matrix (among = n_rows: every row). */
void wisp_lists_assign(struct wisp_lists *l, struct wisp_context *ctx, const struct wisp_matrix *m,
                       size_t first, size_t n, size_t among);
/* Lists from what was assigned; centres become the means of their rows (each row assigned once
 * since the last turn), those of empty lists a row from a long list; M from here on.
 * turn: from 1, of this seed. */
void wisp_lists_turn(struct wisp_lists *l, struct wisp_context *ctx, const struct wisp_matrix *m,
                     const float *metric, uint64_t seed, uint64_t turn);
/* Takes rows out of all lists: the next turn holds only those assigned from here on. */
void wisp_lists_forget(struct wisp_lists *l);
/* Derives 'nearness' from centres and metric. */
void wisp_lists_derive(struct wisp_lists *l, struct wisp_context *ctx);

/* score (n, l->n) = products of vectors h (n, width) with the centres, plus the centres' bias. */
void wisp_lists_score(const struct wisp_lists *l, struct wisp_context *ctx, float *score,
                      const float *h, size_t n);
/* The k lists that are not empty and have the highest scores, best first, ties by smaller number;
 * into best, with room for k scores in 'value'.  Returns how many. */
size_t wisp_lists_best(const struct wisp_lists *l, const float *score, size_t k, float *value,
                       int32_t *best);

#endif

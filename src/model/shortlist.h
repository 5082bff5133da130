/* Sparse prediction: the best labels by exact scores of a few rows, those that the sample's
 * features vote for (hash/votes.h), or those that another model of a joint one has named.
 *
 * Scores of labels that were not looked at are unknown: probabilities of a softmax are shares
 * among the rows that were.  A sample that no feature speaks for gets the most frequent labels. */
#ifndef WISP_MODEL_SHORTLIST_H
#define WISP_MODEL_SHORTLIST_H

#include "layer/layer.h"
#include "layer/loss.h"
#include "hash/votes.h"

struct wisp_shortlist {
    const struct wisp_votes *votes; /* NULL: rows are given */
    const int32_t *given; /* (samples of a batch, candidates), -1 behind the last of them */
    struct wisp_context *ctx;
    size_t candidates;               /* rows scored for a sample, at most */
    struct wisp_election *elections; /* (threads) */
    size_t n_elections;              /* that are made */
    int32_t *rows;                   /* (threads, candidates) */
    float *scores;
    uint64_t *keys;
    size_t n_frequent;
    int32_t *frequent; /* (n_frequent) labels with most training rows */
    uint64_t *scored;  /* (samples of a batch) */
};

/* label_rows (n_labels): training rows of each label.  k: most that topk will be asked for. */
wisp_status wisp_shortlist_init(struct wisp_shortlist *s, const struct wisp_votes *votes,
                                struct wisp_context *ctx, const int64_t *label_rows,
                                size_t n_labels, size_t batch, size_t k, wisp_error *err);
/* The rows of sample i are given[i * n_given ...], whenever topk is called; at least as many as it is asked for. */
wisp_status wisp_shortlist_init_given(struct wisp_shortlist *s, const int32_t *given,
                                      size_t n_given, struct wisp_context *ctx, size_t batch,
                                      wisp_error *err);
void wisp_shortlist_clear(struct wisp_shortlist *s);
/* As wisp_output_topk; b has the samples' features.  Returns the rows scored in all. */
uint64_t wisp_shortlist_topk(struct wisp_shortlist *s, const struct wisp_layer *out,
                             const struct wisp_loss *loss, const struct wisp_batch *b,
                             const float *h, size_t k, int32_t *labels, float *scores);
/* The n labels with most training rows, the most frequent first; n <= n_labels. */
void wisp_most_frequent(int32_t *out, size_t n, const int64_t *rows, size_t n_labels);

#endif

/* Votes: an index from the features of a sample to the rows worth scoring.
 *
 * Every feature has a short list of labels that its training rows have, with a weight; a sample's
 * features vote for their labels with value * weight, and the labels with most votes are
 * candidates.  No row and no centre is looked at, no label need be known, and the cost does not
 * depend on the number of labels.  (Made by model/votes.c from the training rows.) */
#ifndef WISP_HASH_VOTES_H
#define WISP_HASH_VOTES_H

#include "hash/finder.h"

struct wisp_votes {
    size_t n_features;
    int64_t *start; /* (n_features + 1) */
    int32_t *label; /* (start[n_features]) of feature f: start[f] .. start[f+1], heaviest first */
    float *weight;
};

/* The 'voters' features with the largest values (ties: who comes first) give votes to their 'each'
 * heaviest labels; of the rows that got votes the n with most are kept in the pot.  Only as many
 * non-zeros as the pot has room are looked at.  voters, n > 0. */
void wisp_votes_cast(const struct wisp_votes *v, const int32_t *xi, const float *xv, size_t nnz,
                     size_t voters, size_t each, size_t n, struct wisp_pot *pot);

#endif

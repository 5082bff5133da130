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

/* Voters and labels of each that elections are made for. */
enum { WISP_VOTERS = 64, WISP_VOTES_EACH = 128 };

/* ---- elections: the same for one sample alone, faster ---- */

struct wisp_voter {
    int64_t start; /* of its list */
    size_t n;      /* labels it votes for */
    float x;
};
struct wisp_election { /* room to count in; no label has votes between calls */
    size_t voters, each;
    size_t room;   /* non-zeros of a sample that are looked at */
    uint32_t last; /* label */
    float *sum;    /* (last + 1) votes of each label so far */
    int32_t *row; /* (voters * each + 1) labels in the order in which they came, with their votes */
    float *votes;
    float *spare;             /* (room) */
    struct wisp_voter *voter; /* (voters) */
    const float *factor;      /* (labels) multiplies a label's votes in the end; NULL: 1 */
};
wisp_status wisp_election_init(struct wisp_election *e, size_t voters, size_t each, size_t n_labels,
                               wisp_error *err);
void wisp_election_clear(struct wisp_election *e);
/* Counts the votes of a row's features: the labels that got some into e->row, in the order in which
 * they came, with their votes in e->votes and e->spare; returns how many.  Voters are chosen as by
 * wisp_votes_cast, among the first 'room' non-zeros. */
size_t wisp_votes_count(struct wisp_election *e, const struct wisp_votes *v, const int32_t *xi,
                        const float *xv, size_t nnz);
/* The up to n > 0 labels with most votes, none below 0 (ties: who came first), in the order in
 * which they came, into rows (n); returns how many. */
size_t wisp_votes_elect(int32_t *rows, struct wisp_election *e, const struct wisp_votes *v,
                        const struct wisp_kernels *k, const int32_t *xi, const float *xv,
                        size_t nnz, size_t n);

#endif

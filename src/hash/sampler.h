/* The sampler: joins what finders find into one active set, and keeps the accounts.
 *
 *   each sample:  pot <- finder, finder, ...; scored exactly; the best 'keep' are its own
 *   the batch:    true labels | rows for all | own rows, best of every sample first | floor
 *                 without repeats, cut at the ceiling (labels are never cut), ascending
 *
 * 'own' is what recall is measured on; 'scored' counts every product of a sample's vector with a
 * row or a centre: those of the pot and those of the active set. */
#ifndef WISP_HASH_SAMPLER_H
#define WISP_HASH_SAMPLER_H

#include "hash/finder.h"

struct wisp_sampler;

/* Is "neighbours+random", which an option says, a list of finders?  has_labels: true labels are
 * known to the layer. */
wisp_status wisp_sampling_check(const char *names, const char *option, bool has_labels,
                                wisp_error *err);
/* Of such a list: are they all rows, with nothing to find?  Is there only one, which draws? */
bool wisp_sampling_is_full(const char *names);
bool wisp_sampling_only_draws(const char *names);
/* Does one of them look at the votes of features? */
bool wisp_sampling_needs_votes(const char *names);
/* Most rows an active set can have when a batch has up to batch_labels labels. */
size_t wisp_sampler_room(const struct wisp_finder_setup *s, size_t batch_labels);
/* Most rows that all samples of a batch own together; 0 unless each has a set of its own. */
size_t wisp_sampler_own_room(const struct wisp_finder_setup *s, size_t batch_labels);
size_t wisp_sampler_bytes(const struct wisp_finder_setup *s, size_t batch_labels);

/* The setup's settings are copied. */
wisp_status wisp_sampler_create(struct wisp_sampler **out, const struct wisp_finder_setup *s,
                                const struct wisp_kernels *k, size_t batch_labels, wisp_error *err);
void wisp_sampler_free(struct wisp_sampler *s);

/* The active set of a batch; valid until the next call. */
void wisp_sampler_choose(struct wisp_active *out, struct wisp_sampler *s, struct wisp_context *ctx,
                         const struct wisp_query *q);
/* The same where several ranks have the rows: every rank looks for ids, scores its own rows, and they
 * exchange the best of each sample, so that all find the same; *out are this rank's rows of the set. */
wisp_status wisp_sampler_choose_shared(struct wisp_active *out, struct wisp_sampler *s,
                                       struct wisp_context *ctx, const struct wisp_query *q,
                                       wisp_error *err);
/* And then: o->best are ids already, o->heat is of this rank's rows. */
wisp_status wisp_sampler_learn_shared(struct wisp_sampler *s, struct wisp_context *ctx,
                                      const struct wisp_query *q, const struct wisp_outcome *o,
                                      wisp_error *err);
/* Is the row, or id, in the set that was chosen last? */
bool wisp_sampler_chose(const struct wisp_sampler *s, int32_t row);
/* Of such a list of names: the first finder that does not serve several ranks; NULL: all do. */
const struct wisp_finder_kind *wisp_sampling_alone(const char *names);
/* What its finders want to learn from; and how many of each sample's best rows that is. */
struct wisp_wants wisp_sampler_wants(const struct wisp_finder_setup *s);
size_t wisp_sampler_best(const struct wisp_sampler *s);
struct wisp_wants wisp_sampler_wants_of(const struct wisp_sampler *s);
/* What a card needs to do the same as the sampler made from this setup: sizes, and pointers into
 * its memory, which stays its own; t NULL: sizes only, it has not been made.  Returns NULL, or the
 * finder that has no form for cards. */
const struct wisp_finder_kind *wisp_sampler_device(struct wisp_finders *out,
                                                   const struct wisp_finder_setup *s,
                                                   struct wisp_sampler *t);
/* (n) scores that a row of the last batch must pass to be worth telling learn(): the pot's best are
 * known already. */
const float *wisp_sampler_limits(const struct wisp_sampler *s);
void wisp_sampler_learn(struct wisp_sampler *s, struct wisp_context *ctx,
                        const struct wisp_query *q, const struct wisp_outcome *o);

/* Rows kept for sample i of the last batch. */
const int32_t *wisp_sampler_own(const struct wisp_sampler *s, size_t i, size_t *n);

struct wisp_sampler_counts { /* since the run began */
    uint64_t steps, samples;
    uint64_t active; /* rows, summed over steps */
    uint64_t scored; /* products, summed over samples */
};
struct wisp_sampler_counts *wisp_sampler_counts(struct wisp_sampler *s);

/* State for the checkpoint; returns how many blobs. */
enum { WISP_MAX_FINDERS = 7, WISP_SAMPLER_BLOBS = 1 + WISP_MAX_FINDERS * WISP_MAX_BLOBS };
size_t wisp_sampler_blobs(struct wisp_sampler *s, struct wisp_blob *out);
bool wisp_sampler_restored(struct wisp_sampler *s, struct wisp_context *ctx);
/* What 'from' knows of rows by their numbers, for one that was made from the same settings and has
 * chosen nothing yet, for as many rows with other weights. */
void wisp_sampler_inherit(struct wisp_sampler *s, struct wisp_sampler *from);

#endif

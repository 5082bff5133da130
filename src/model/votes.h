/* Making the index of votes (hash/votes.h) from training rows. */
#ifndef WISP_MODEL_VOTES_H
#define WISP_MODEL_VOTES_H

#include "hash/votes.h"
#include "model/batch.h"

/* About how many bytes making it takes, and how many stay. */
void wisp_votes_bytes(size_t *making, size_t *staying, const struct wisp_data *d, size_t n_features,
                      int threads);
/* n_features: of the model, at least the data's.  On success *out owns its arrays. */
wisp_status wisp_votes_make(struct wisp_votes *out, struct wisp_context *ctx,
                            const struct wisp_data *d, size_t n_features,
                            const struct wisp_values *values, uint64_t seed, wisp_error *err);
/* Adds the votes of other rows, which have at most v's features.  Weights of the same label are
 * added: at most sqrt(2) times what one pass over all rows would give, the rows of each feature
 * being unknown by now. */
wisp_status wisp_votes_join(struct wisp_votes *v, struct wisp_context *ctx,
                            const struct wisp_votes *other, wisp_error *err);
void wisp_votes_clear(struct wisp_votes *v);

#endif

/* Training on a card: the run's net, rows and sampler handed to cuda/cuda.h.
 *
 * The host's copies of weights, optimiser state and the sampler's memory stay where they are; the
 * card has its own while an epoch runs.  After wisp_card_fetch they are equal, so model file, state
 * and resume know nothing of the card.  Validation rows are scored there, by the card's weights,
 * unless the output layer's rows stay on the host: then the CPU scores them. */
#ifndef WISP_MODEL_CARD_H
#define WISP_MODEL_CARD_H

#include "cuda/cuda.h"
#include "model/run.h"

/* Is there a card, and can it do what the plan says?  Names what it cannot. */
wisp_status wisp_card_check_run(const struct wisp_run *r, wisp_error *err);
/* The same for a part that is open. */
wisp_status wisp_card_check_with(const struct wisp_cuda *api, const struct wisp_run *r,
                                 wisp_error *err);
/* What the run's finders hand to a card, with pointers once there is a sampler; refuses one without
 * a form by its name. */
wisp_status wisp_card_finders(struct wisp_finders *out, const struct wisp_run *r, wisp_error *err);
/* Opens the card, says what will be taken and what is free, and copies everything there; the run's
 * scorer uses the weights there, if they are.  After weights, state, sampler and scorer of the run
 * are set. */
wisp_status wisp_card_make(struct wisp_run *r, wisp_error *err);
void wisp_card_free(struct wisp_card *g); /* after the run's scorer; NULL is fine */
/* The next steps of the epoch, as many as are sent to the card at once; *rows: how many rows they
 * have, 0: the epoch is over.  May return before they are done. */
wisp_status wisp_card_steps(struct wisp_run *r, size_t *rows, bool last, wisp_error *err);
/* Waits, and brings the run's sums up to date. */
wisp_status wisp_card_wait(struct wisp_run *r, wisp_error *err);
/* Between steps that are done with, of several ranks: what they tell each other; the loss is the
 * card's. */
wisp_status wisp_card_tell(struct wisp_run *r, struct wisp_pulse *p, wisp_error *err);
wisp_status wisp_card_fetch(struct wisp_run *r, wisp_error *err);
bool wisp_card_has_tables(const struct wisp_run *r); /* of hashed rows, on the card alone */
double wisp_card_touched(const struct wisp_run *r);  /* feature rows, over all steps */
/* Adds what each part of a step takes. */
wisp_status wisp_card_report(struct wisp_report *t, struct wisp_run *r, wisp_error *err);

#endif

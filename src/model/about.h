/* What a model says of itself (metadata "card", as model cards are called). */
#ifndef WISP_MODEL_ABOUT_H
#define WISP_MODEL_ABOUT_H

#include "model/model.h"

struct wisp_run;

/* Fills m->about, once the plan is made. */
wisp_status wisp_about_run(struct wisp_run *r, wisp_error *err);
/* What a run is, for its log and for whoever watches it: an object of the card, the machine, and the
 * options that are not at their defaults.  The caller frees *out. */
wisp_status wisp_about_head(char **out, const struct wisp_run *r, wisp_error *err);
/* Fills m->validation: percent, and the loss. */
void wisp_about_validation(struct wisp_model *m, double p3, double p5, double loss);
/* Fills m->describe of a model that is loaded. */
wisp_status wisp_about_describe(struct wisp_model *m, const char *path, wisp_error *err);

#endif

/* What memory a net takes, and when: a step's parts by their lifetimes (work.c), for a person. */
#ifndef WISP_MODEL_MEMORY_H
#define WISP_MODEL_MEMORY_H

#include "model/model.h"

struct wisp_config;
enum { WISP_MOMENT_NAME = 64 };
/* The moment of a step: "1.relu" on the way forward, "1.relu back" on the way back. */
/* "1.5 GFLOP", "830 MFLOP" */
enum { WISP_FLOPS_TEXT = 24 };
const char *wisp_flops_text(char out[WISP_FLOPS_TEXT], double flops);
void wisp_moment_name(char out[WISP_MOMENT_NAME], const struct wisp_net *net, int moment);
/* The n largest parts, the largest first; fewer where there are no more: how many. */
int wisp_work_largest(int *out, int n, const struct wisp_work *w);
/* One line each for the arena of a planned step and its largest parts. */
void wisp_memory_say(const struct wisp_context *ctx, const struct wisp_net *net);

/* One line where the first layers do some samples at a time; a card's plan has it, too. */
void wisp_memory_say_lots(const struct wisp_context *ctx, int layers, size_t samples);

/* Of all parameters, as they are kept: in fp32, bf16, int8 or numbers of values. */
size_t wisp_net_stored_bytes(const struct wisp_net *net);
/* "prediction" and "training" of a model: JSON objects, to be freed.  cfg: "batch" of training, 0:
 * that of the model's run. */
wisp_status wisp_memory_describe(char **prediction, char **training, const struct wisp_model *m,
                                 const struct wisp_context *ctx, const struct wisp_config *cfg,
                                 wisp_error *err);

#endif

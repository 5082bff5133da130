/* Trained nets as deep sparse ones (spdnn/). */
#ifndef WISP_MODEL_DEEP_H
#define WISP_MODEL_DEEP_H

#include "spdnn/spdnn.h"

/* The net of a file: of a deep sparse network, or of a model whose net can be one.  A model's
 * outputs are the logits of its labels.  WISP_ENOTSUP names the layer that has no such form. */
wisp_status wisp_spnet_open(struct wisp_spnet **out, const struct wisp_context *ctx,
                            const char *path, wisp_error *err);

#endif

/* Weights of a net of images by the names that PyTorch has for them (torch.c says which). */
#ifndef WISP_MODEL_TORCH_H
#define WISP_MODEL_TORCH_H

#include "config/options.h"
#include "model/file.h"
#include "model/net.h"

struct wisp_model;

/* Is it a file of weights from elsewhere?  false: one of wisp, or any other. */
bool wisp_torch_is(const char *path);

/* Does the file have all tensors of the net, in its shapes, and no others?  head false: those of the
 * output layer may be anything, or missing.  WISP_EMODEL names the first that does not fit, with
 * both shapes. */
wisp_status wisp_torch_check(const struct wisp_tensor_file *f, const char *path,
                             const struct wisp_net *net, bool head, wisp_error *err);
/* Copies what was checked into the parameters of the net, widened to fp32; all but those of 'image'. */
wisp_status wisp_torch_take(struct wisp_net *net, const struct wisp_tensor_file *f, bool head,
                            wisp_error *err);
/* Labels that the file's weights of the output layer have; 0: there are none. */
size_t wisp_torch_labels(const struct wisp_tensor_file *f, const struct wisp_net *net);

/* Means and scales (channels) of images as the weights expect them: those of the file's metadata,
 * else ImageNet's where there are three channels.  *whose says which, for messages; NULL: neither,
 * nothing is set.  WISP_EMODEL: metadata that is no list of so many numbers. */
wisp_status wisp_torch_means(float *mean, float *scale, size_t channels, const char **whose,
                             const struct wisp_tensor_file *f, const char *path, wisp_error *err);

#endif

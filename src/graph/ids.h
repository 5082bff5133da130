/* Numbers that both devices know a choice by: one enum for optimisers, losses and precisions each.
 *
 * A row of the host's table (model/optimizer.c, layer/losses.c, layer/product_*.c) carries its
 * number, kernels take the same one, and a part for cards says which of them it has as a set of
 * bits: a row without one is refused by its name.  C and C++. */
#ifndef WISP_GRAPH_IDS_H
#define WISP_GRAPH_IDS_H

enum wisp_optimizer_id { WISP_ADAM, WISP_ADAGRAD, WISP_SGD, WISP_OPTIMIZERS };
enum wisp_loss_id { WISP_SOFTMAX, WISP_BCE, WISP_LOSSES };
enum wisp_precision_id { WISP_IN_FP32, WISP_IN_BF16, WISP_PRECISIONS };

#endif

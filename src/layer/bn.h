/* Where batch norm (bn.c) has its numbers: for whoever makes it part of the weights before it. */
#ifndef WISP_LAYER_BN_H
#define WISP_LAYER_BN_H

enum { WISP_BN_MOMENTUM, WISP_BN_EPS };                           /* arguments */
enum { WISP_BN_SCALE, WISP_BN_SHIFT, WISP_BN_MEAN, WISP_BN_VAR }; /* parameters (1, width) */

#endif

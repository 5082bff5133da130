/* The layer 'image': what others than the layer need of it. */
#ifndef WISP_LAYER_IMAGE_H
#define WISP_LAYER_IMAGE_H

enum { WISP_IMAGE_PAD, WISP_IMAGE_FLIP, WISP_IMAGE_SIZE }; /* its arguments */
enum { WISP_IMAGE_MEAN, WISP_IMAGE_SCALE };                /* its parameters, (1, channels) */

#endif

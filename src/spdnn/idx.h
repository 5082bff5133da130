/* idx files: images and labels as bytes, as MNIST has them. */
#ifndef WISP_SPDNN_IDX_H
#define WISP_SPDNN_IDX_H

#include "base/file.h"

struct wisp_idx { /* mapped */
    struct wisp_map map;
    int n_dims;          /* 1: labels; 3: images */
    uint32_t size[3];    /* items, rows, columns; 1 where there is no such dimension */
    const uint8_t *data; /* (size[0], size[1], size[2]) */
};

/* n_dims: what is wanted, 1 or 3.  On failure *out is empty. */
wisp_status wisp_idx_open(struct wisp_idx *out, const char *path, int n_dims, wisp_error *err);
void wisp_idx_close(struct wisp_idx *x);

#endif

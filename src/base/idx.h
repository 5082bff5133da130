/* idx files: images and labels as bytes, as MNIST has them. */
#ifndef WISP_BASE_IDX_H
#define WISP_BASE_IDX_H

#include "base/file.h"

struct wisp_idx {
    struct wisp_map map; /* of the file; nothing when the bytes are someone else's */
    int n_dims;          /* 1: labels; 3: images */
    uint32_t size[3];    /* items, rows, columns; 1 where there is no such dimension */
    const uint8_t *data; /* (size[0], size[1], size[2]) */
};

/* n_dims: what is wanted, 1 or 3.  On failure *out is empty. */
wisp_status wisp_idx_open(struct wisp_idx *out, const char *path, int n_dims, wisp_error *err);
/* The same from bytes that the caller keeps. */
wisp_status wisp_idx_parse(struct wisp_idx *out, const unsigned char *p, size_t bytes,
                           const char *path, int n_dims, wisp_error *err);
void wisp_idx_close(struct wisp_idx *x);
/* How long a file with these first bytes should be; 0: they begin none that is read here. */
size_t wisp_idx_bytes(const unsigned char *head, size_t n);

#endif

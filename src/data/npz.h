/* The two halves of the npz format: npz.c reads, npz_write.c writes. */
#ifndef WISP_DATA_NPZ_H
#define WISP_DATA_NPZ_H

#include "data/data.h"

/* NAME.y.npz for NAME.npz, to be freed; NULL: out of memory. */
char *wisp_npz_labels_path(const char *path);
wisp_status wisp_npz_write(const struct wisp_data *d, struct wisp_context *ctx, const char *path,
                           wisp_error *err);

#endif

/* The parts of the npz format: npz.c reads matrices, npz_write.c writes them, arrays.c reads images.
 */
#ifndef WISP_DATA_NPZ_H
#define WISP_DATA_NPZ_H

#include "data/data.h"

/* NAME.y.npz for NAME.npz, to be freed; NULL: out of memory. */
char *wisp_npz_labels_path(const char *path);
wisp_status wisp_npz_write(const struct wisp_data *d, struct wisp_context *ctx, const char *path,
                           wisp_error *err);

/* Arrays of images (arrays.c), where the archive holds some, and no matrix: *images says so. */
wisp_status wisp_arrays_npz(bool *images, struct wisp_source *src, struct wisp_sink *sink,
                            wisp_error *err);

#endif

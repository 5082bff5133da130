/* A model's tensors on their way to its file and from it: what all kinds of models share.
 *
 * The tensors and the metadata of a joint model's member have the same names as those of a model of
 * its own, behind a prefix: "0/", "1/" and so on.  Nobody but the functions here sees it. */
#ifndef WISP_MODEL_LOADER_H
#define WISP_MODEL_LOADER_H

#include "model/model.h"

/* ---- to a file ---- */

struct wisp_tensor_list {
    struct wisp_tensor *t;
    size_t n, cap;
    const char *prefix;           /* of the names that are added; "" for a model of its own */
    const struct wisp_comm *comm; /* of several ranks, of which each has a share of some rows */
    bool full; /* out of memory, or a name is too long: asked for once, at the end */
};
void wisp_list_add_shape(struct wisp_tensor_list *l, const char *name, enum wisp_dtype dtype,
                         int rank, const size_t *dim, const void *data);
/* A parameter's numbers: of all ranks. */
void wisp_list_add_param(struct wisp_tensor_list *l, const struct wisp_param *p,
                         enum wisp_dtype dtype, const void *data);
void wisp_list_add(struct wisp_tensor_list *l, const char *name, enum wisp_dtype dtype, size_t n,
                   const void *data);

void wisp_list_calibrations(struct wisp_tensor_list *l, const struct wisp_model *m);

/* ---- from a file ---- */

struct wisp_loader {
    struct wisp_model *m;
    const struct wisp_tensor_file *file;
    const char *path;
    const char *prefix;
};

/* NULL: it is not there. */
const struct wisp_tensor *wisp_loader_find(const struct wisp_loader *ld, const char *name);
const char *wisp_loader_meta(const struct wisp_loader *ld, const char *key);
/* A tensor of this type and shape, all of whose numbers are finite; else WISP_EMODEL. */
wisp_status wisp_need_shape(const struct wisp_tensor **out, const struct wisp_loader *ld,
                            const char *name, enum wisp_dtype dtype, int n_dims,
                            const size_t *shape, wisp_error *err);
wisp_status wisp_need(const struct wisp_tensor **out, const struct wisp_loader *ld,
                      const char *name, enum wisp_dtype dtype, size_t n, wisp_error *err);
/* Weights of values or rows: not below 0. */
wisp_status wisp_expect_from_0(const struct wisp_loader *ld, const char *name, const float *x,
                               size_t n, wisp_error *err);
/* A whole number of the metadata, up to 'most'; one that is missing is 0. */
wisp_status wisp_need_number(size_t *out, const struct wisp_loader *ld, const char *key,
                             uint64_t most, wisp_error *err);
/* ld->m's calibrations, where the file has some. */
wisp_status wisp_loader_calibrations(const struct wisp_loader *ld, wisp_error *err);

#endif

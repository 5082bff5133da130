/* Arrays as numpy writes them (.npy), alone or in a zip archive (.npz):
 *
 *   "\x93NUMPY" version | length of the header | {'descr': '<f4', 'fortran_order': False, ...} | data
 *
 * Little-endian numbers or text, no structures. */
#ifndef WISP_DATA_NPY_H
#define WISP_DATA_NPY_H

#include "data/zip.h"

#include <stdbool.h>

enum { WISP_NPY_DIMS = 4 };

struct wisp_npy {
    const char *path, *name;
    void *owned; /* inflated bytes, or NULL: they lie in the map */
    const unsigned char *p;
    char kind;    /* of numpy: f, i, u, b, S, U */
    size_t item;  /* bytes */
    bool columns; /* the first dimension runs fastest */
    int n_dims;
    size_t dim[WISP_NPY_DIMS]; /* the first of them */
    size_t n;                  /* elements */
};

/* "PATH: array 'NAME': what" */
wisp_status wisp_npy_wrong(const struct wisp_npy *a, const char *what, wisp_error *err);
/* The header of an array of so many bytes, of which the first 'there' are at p. */
wisp_status wisp_npy_parse(struct wisp_npy *a, const unsigned char *p, size_t there, size_t bytes,
                           wisp_error *err);

/* An array of an archive, by its name without ".npy": a->owned is the caller's, also on failure. */
wisp_status wisp_npy_load(struct wisp_npy *a, const struct wisp_zip *z, const char *name,
                          wisp_error *err);
/* The same for arrays of a few numbers: a long one is not unpacked. */
wisp_status wisp_npy_load_small(struct wisp_npy *a, const struct wisp_zip *z, const char *name,
                                wisp_error *err);
/* Type and length alone: nothing is unpacked but the header.  Of an entry: a has path and name. */
wisp_status wisp_npy_peek(struct wisp_npy *a, const struct wisp_zip *z, const char *name,
                          wisp_error *err);
wisp_status wisp_npy_peek_entry(struct wisp_npy *a, const struct wisp_zip *z,
                                const struct wisp_zip_entry *e, wisp_error *err);

/* Element i, of an array of integers, of one of numbers. */
int64_t wisp_npy_int(const struct wisp_npy *a, size_t i);
double wisp_npy_value(const struct wisp_npy *a, size_t i);

#endif

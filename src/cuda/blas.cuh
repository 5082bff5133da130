/* Products of matrices by cuBLASLt, opened at run time as cuDNN is: wisp-cuda.so is built and runs
 * without it. */
#ifndef WISP_CUDA_BLAS_CUH
#define WISP_CUDA_BLAS_CUH

#include <cuda_runtime.h>
#include <stddef.h>

/* c (rows, cols) floats = a b, of a (rows, depth) and b (depth, cols), or where 'turned' b^T of b
 * (cols, depth); rows lie one after the other.  half: a and b are bf16; else they are floats, rounded
 * to TF32. */
struct wisp_dblas_sizes {
    size_t rows, cols, depth;
    bool turned, half;
};

/* A product, prepared.  What it launches depends on the sizes, the card and the library alone, and
 * it has memory of its caller's: it repeats bit for bit, and can be captured. */
struct wisp_dblas;
/* NULL: there is no library here, or it has no form for these sizes. */
struct wisp_dblas *wisp_dblas_make(const struct wisp_dblas_sizes *z);
void wisp_dblas_free(struct wisp_dblas *p);          /* NULL is fine */
size_t wisp_dblas_bytes(const struct wisp_dblas *p); /* of work, at a multiple of 256 */
/* false: it refused. */
bool wisp_dblas_run(const struct wisp_dblas *p, float *c, const void *a, const void *b, void *work,
                    cudaStream_t s);

/* For tests, to be set before all else: no library is opened, cuDNN neither, as where there is none. */
extern bool wisp_dlibraries_off;

/* "cuBLAS 13.1.0", or why there is none. */
const char *wisp_dblas_library(void);

#endif

/* What dense.cu and dense_move.cu share. */
#ifndef WISP_CUDA_DENSE_CUH
#define WISP_CUDA_DENSE_CUH

#include "cuda/kind.cuh"

/* Rows of W, and the bias, move by their gradient (in + 1, out). */
void wisp_dense_move_by(const struct wisp_dnet &n, const struct wisp_dnode &l, const float *grad,
                        cudaStream_t s);

/* ---- dense_move.cu ---- */

/* Can this card? */
bool wisp_dense_moves(void);
/* The same by x^T back on tensor cores; floats of l.scratch that it takes. */
void wisp_dense_move(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s);
/* The same of some rows, a multiple of so many, whose m and v lie here; 0: it moves all at once. */
size_t wisp_dense_some(const struct wisp_dnet &n);
void wisp_dense_move_some(const struct wisp_dnet &n, const struct wisp_dnode &l, size_t first,
                          size_t rows, float *m, float *v, cudaStream_t s);
size_t wisp_dense_move_floats(const struct wisp_dnode &l, const struct wisp_dnet &n);

#endif

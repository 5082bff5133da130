/* A bag of rows and their products with a vector, in one read of the rows, with 256-bit vectors. */
#include "kernels/kernels.h"
#include "kernels/lanes_avx2.h"

/* Into the second-level cache: see avx2.c. */
INLINE void fetch(const int V, const float *row)
{
    UNROLL for (int v = 0; v < V; v += 2)
        _mm_prefetch((const char *)(row + v * LANES), _MM_HINT_T1);
}

/* V vectors of the output and of x stay in registers; 'n' is V * LANES, or less for V = 1. */
INLINE void bag_dots_chunk(const int V, size_t n, float *out, float *dots_out, const float *w,
                           size_t ld, const int32_t *idx, const float *val, size_t nnz,
                           const float *x, bool add)
{
    enum { AHEAD = 8 };
    __m256 acc[4], xs[4];
    UNROLL for (int v = 0; v < V; v++) acc[v] = load(n, out + v * LANES),
                                       xs[v] = load(n, x + v * LANES);
    for (size_t i = 0; i < AHEAD && i < nnz; i++) fetch(V, w + (size_t)idx[i] * ld);
    for (size_t i = 0; i < nnz; i++) {
        const float *row = w + (size_t)idx[i] * ld;
        const __m256 a = _mm256_set1_ps(val[i]);
        __m256 p = _mm256_setzero_ps();
        if (i + AHEAD < nnz) fetch(V, w + (size_t)idx[i + AHEAD] * ld);
        UNROLL for (int v = 0; v < V; v++)
        {
            const __m256 y = load(n, row + v * LANES);
            acc[v] = _mm256_fmadd_ps(a, y, acc[v]);
            p = _mm256_fmadd_ps(xs[v], y, p);
        }
        dots_out[i] = (add ? dots_out[i] : 0) + total8(p);
    }
    UNROLL for (int v = 0; v < V; v++) store(out + v * LANES, n, acc[v]);
}

static void bag_dots(float *out, float *dots_out, const float *w, size_t ld, const int32_t *idx,
                     const float *val, size_t nnz, const float *x, size_t n, bool add)
{
    size_t j = 0;
    for (; j + 4 * LANES <= n; j += 4 * LANES)
        bag_dots_chunk(4, 4 * LANES, out + j, dots_out, w + j, ld, idx, val, nnz, x + j, add || j);
    for (; j < n || j == 0; j += LANES)
        bag_dots_chunk(1, n - j, out + j, dots_out, w + j, ld, idx, val, nnz, x + j, add || j);
}

void wisp_kernels_bags_avx2(struct wisp_kernels *k)
{
    k->bag_dots = bag_dots;
}

/* A bag of rows and their products with a vector, in one read of the rows, with 512-bit vectors; ends are done by masks. */
#include "kernels/kernels.h"
#include "kernels/lanes_avx512.h"

/* Into the second-level cache: see avx512.c. */
INLINE void fetch(const int V, const float *row)
{
    UNROLL for (int v = 0; v < V; v++) _mm_prefetch((const char *)(row + v * LANES), _MM_HINT_T1);
}

/* The sums of four vectors, as four lanes: pairs of lanes, then pairs of vectors, then quarters. */
INLINE __m128 totals(const __m512 p[4])
{
    const __m512 a = _mm512_add_ps(_mm512_unpacklo_ps(p[0], p[1]), _mm512_unpackhi_ps(p[0], p[1])),
                 b = _mm512_add_ps(_mm512_unpacklo_ps(p[2], p[3]), _mm512_unpackhi_ps(p[2], p[3]));
    const __m512 c = _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
    const __m256 d = _mm256_add_ps(_mm512_castps512_ps256(c), _mm512_extractf32x8_ps(c, 1));
    return _mm_add_ps(_mm256_castps256_ps128(d), _mm256_extractf128_ps(d, 1));
}

/* V vectors of the output and of x stay in registers.  A sum across lanes takes longer than the products of a
 * short row, so four rows share one. */
INLINE void bag_dots_chunk(const int V, __mmask16 k, float *out, float *dots_out, const float *w,
                           size_t ld, const int32_t *idx, const float *val, size_t nnz,
                           const float *x, bool add)
{
    enum { AHEAD = 8 };
    __m512 acc[4], xs[4];
    UNROLL for (int v = 0; v < V; v++) acc[v] = load(k, out + v * LANES),
                                       xs[v] = load(k, x + v * LANES);
    for (size_t i = 0; i < AHEAD && i < nnz; i++) fetch(V, w + (size_t)idx[i] * ld);
    for (size_t i = 0; i < nnz; i += 4) {
        const __mmask8 some = nnz - i >= 4 ? 15 : (__mmask8)((1u << (nnz - i)) - 1);
        __m512 p[4];
        UNROLL for (int r = 0; r < 4; r++)
        {
            p[r] = _mm512_setzero_ps();
            if (i + r >= nnz) continue;
            const float *row = w + (size_t)idx[i + r] * ld;
            const __m512 a = _mm512_set1_ps(val[i + r]);
            if (i + r + AHEAD < nnz) fetch(V, w + (size_t)idx[i + r + AHEAD] * ld);
            UNROLL for (int v = 0; v < V; v++)
            {
                const __m512 y = load(k, row + v * LANES);
                acc[v] = _mm512_fmadd_ps(a, y, acc[v]);
                p[r] = _mm512_fmadd_ps(xs[v], y, p[r]);
            }
        }
        __m128 sum4 = totals(p);
        if (add) sum4 = _mm_add_ps(sum4, _mm_maskz_loadu_ps(some, dots_out + i));
        _mm_mask_storeu_ps(dots_out + i, some, sum4);
    }
    UNROLL for (int v = 0; v < V; v++) store(out + v * LANES, k, acc[v]);
}

static void bag_dots(float *out, float *dots_out, const float *w, size_t ld, const int32_t *idx,
                     const float *val, size_t nnz, const float *x, size_t n, bool add)
{
    size_t j = 0;
    for (; j + 4 * LANES <= n; j += 4 * LANES)
        bag_dots_chunk(4, ALL, out + j, dots_out, w + j, ld, idx, val, nnz, x + j, add || j);
    for (; j + 2 * LANES <= n; j += 2 * LANES)
        bag_dots_chunk(2, ALL, out + j, dots_out, w + j, ld, idx, val, nnz, x + j, add || j);
    for (; j < n || j == 0; j += LANES)
        bag_dots_chunk(1, first(n - j), out + j, dots_out, w + j, ld, idx, val, nnz, x + j,
                       add || j);
}

void wisp_kernels_bags_avx512(struct wisp_kernels *k)
{
    k->bag_dots = bag_dots;
}

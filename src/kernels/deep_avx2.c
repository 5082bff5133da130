/* Deep sparse layers with 256-bit vectors: as deep_avx512.c, a vector being 8 inputs and 8 outputs
 * of a group summed at a time. */
#include "kernels/kernels.h"

#include <immintrin.h>
#include <math.h>

#define INLINE static inline __attribute__((always_inline))
/* For loops over accumulators, which must stay in registers. */
#define UNROLL _Pragma("GCC unroll 16")
enum { LANES = 8 };

struct ends { /* largest and smallest value so far, of 8 lanes */
    __m256 most, least;
};

INLINE __m256 finish(const struct wisp_groups *g, __m256 sum, __m256 all, uint32_t id)
{
    sum = _mm256_fmadd_ps(sum, all, _mm256_set1_ps(g->biases ? g->biases[id] : g->bias));
    if (g->linear) return sum;
    return _mm256_min_ps(_mm256_max_ps(sum, _mm256_setzero_ps()), _mm256_set1_ps(g->clip));
}

/* M outputs of a group, 8 lanes.  What the sums start with is hidden from the compiler, which would
 * find that equal weights make equal sums. */
INLINE void sum_outputs(float *y, const float *x, size_t lanes, const struct wisp_groups *g,
                        const uint32_t *in, size_t n, const float *w, size_t ldw,
                        const uint32_t *out, const int M, struct ends *e)
{
    __m256 sum[LANES];
    UNROLL
    for (int o = 0; o < M; o++) {
        sum[o] = _mm256_setzero_ps();
        __asm__("" : "+x"(sum[o]));
    }
    const __m256 one = _mm256_set1_ps(1);
    for (size_t k = 0; k < n; k++) {
        const __m256 v = _mm256_loadu_ps(x + (size_t)in[k] * lanes);
        UNROLL
        for (int o = 0; o < M; o++) {
            if (w) sum[o] = _mm256_fmadd_ps(_mm256_set1_ps(w[k * ldw + o]), v, sum[o]);
            else sum[o] = o % 2 ? _mm256_fmadd_ps(v, one, sum[o]) : _mm256_add_ps(sum[o], v);
        }
    }
    const __m256 all = _mm256_set1_ps(w ? 1 : g->weight);
    UNROLL
    for (int o = 0; o < M; o++) {
        const __m256 r = finish(g, sum[o], all, out[o]);
        _mm256_storeu_ps(y + (size_t)out[o] * lanes, r);
        if (!e) continue;
        e->most = _mm256_max_ps(e->most, r);
        e->least = _mm256_min_ps(e->least, r);
    }
}

INLINE void outputs_of(float *y, const float *x, size_t lanes, const struct wisp_groups *g,
                       uint32_t i, const float *w, struct ends *e)
{
    const uint32_t *in = g->in + g->in_start[i], *out = g->out + g->out_start[i];
    const size_t n = g->in_start[i + 1] - g->in_start[i];
    const size_t m = g->out_start[i + 1] - g->out_start[i];
    if (w) w += g->w_start[i];
    for (size_t c = 0; c < lanes; c += LANES) {
        struct ends *at = e ? e + c / LANES : NULL;
        size_t o = 0;
#define TAKE(M)                                                                                    \
    for (; o + M <= m; o += M)                                                                     \
        sum_outputs(y + c, x + c, lanes, g, in, n, w ? w + o : NULL, m, out + o, M, at);
        TAKE(8)
        TAKE(4)
        TAKE(2)
        TAKE(1)
#undef TAKE
    }
}

static void groups(float *y, const float *x, size_t lanes, const struct wisp_groups *g, float *most,
                   float *least)
{
    struct ends e[WISP_PANEL_MOST / LANES], *at = most ? e : NULL;
    const struct wisp_groups own = *g; /* cannot alias y */
    for (size_t c = 0; c < lanes / LANES; c++)
        e[c] = (struct ends){ _mm256_set1_ps(-INFINITY), _mm256_set1_ps(INFINITY) };
    if (own.w)
        for (uint32_t i = 0; i < own.n_groups; i++) outputs_of(y, x, lanes, &own, i, own.w, at);
    else
        for (uint32_t i = 0; i < own.n_groups; i++) outputs_of(y, x, lanes, &own, i, NULL, at);
    if (!most) return;
    for (size_t c = 0; c < lanes / LANES; c++) {
        _mm256_storeu_ps(most + c * LANES, e[c].most);
        _mm256_storeu_ps(least + c * LANES, e[c].least);
    }
}

void wisp_kernels_deep_avx2(struct wisp_kernels *k)
{
    k->groups = groups;
}

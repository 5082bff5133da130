/* Deep sparse layers with 256-bit vectors: as deep_avx512.c, a vector being 8 inputs and 8 outputs
 * of a group summed at a time. */
#include "kernels/kernels.h"

#include <immintrin.h>
#include <math.h>

#define INLINE static inline __attribute__((always_inline))
/* For loops over accumulators, which must stay in registers. */
#define UNROLL _Pragma("GCC unroll 16")
enum { LANES = 8 };

struct ends { /* bits of all values so far, of 8 lanes: or, and */
    __m256 any, all;
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
        e->any = _mm256_or_ps(e->any, r);
        e->all = _mm256_and_ps(e->all, r);
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

/* -0 counts as 0; values at the clip are its bits, and no others. */
static void look(struct wisp_lanes *seen, const struct ends *e, size_t n, float clip)
{
    const __m256i top = _mm256_castps_si256(_mm256_set1_ps(clip)), zero = _mm256_setzero_si256();
    *seen = (struct wisp_lanes){ 0, 0 };
    for (size_t c = 0; c < n; c++) {
        const __m256i any = _mm256_castps_si256(e[c].any), all = _mm256_castps_si256(e[c].all);
        const __m256i none = _mm256_cmpeq_epi32(_mm256_slli_epi32(any, 1), zero);
        const __m256i full =
            _mm256_and_si256(_mm256_cmpeq_epi32(any, top), _mm256_cmpeq_epi32(all, top));
        const int z = _mm256_movemask_ps(_mm256_castsi256_ps(none));
        const int f = _mm256_movemask_ps(_mm256_castsi256_ps(full));
        seen->zero |= (uint64_t)(unsigned)z << c * LANES;
        seen->full |= (uint64_t)(unsigned)f << c * LANES;
    }
}

static void groups(float *y, const float *x, size_t lanes, const struct wisp_groups *g,
                   struct wisp_lanes *seen)
{
    struct ends e[WISP_PANEL_MOST / LANES], *at = seen ? e : NULL;
    const struct wisp_groups own = *g; /* cannot alias y */
    const __m256 ones = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
    for (size_t c = 0; c < lanes / LANES; c++) e[c] = (struct ends){ _mm256_setzero_ps(), ones };
    if (own.w)
        for (uint32_t i = 0; i < own.n_groups; i++) outputs_of(y, x, lanes, &own, i, own.w, at);
    else
        for (uint32_t i = 0; i < own.n_groups; i++) outputs_of(y, x, lanes, &own, i, NULL, at);
    if (seen) look(seen, e, lanes / LANES, own.clip);
}

void wisp_kernels_deep_avx2(struct wisp_kernels *k)
{
    k->groups = groups;
}

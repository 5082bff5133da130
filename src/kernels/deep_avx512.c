/* Deep sparse layers with 512-bit vectors: a vector is 16 inputs, so a layer is sums of whole rows
 * of the panel.  Up to 16 outputs of a group are summed at a time: one load serves them all, and
 * the adders are the limit (16 edges per lane for each load).  Additions and multiply-adds take
 * turns, as some processors have units for each.
 *
 * Outputs of a group whose weights are equal have equal sums.  They are computed all the same: what
 * the accumulators start with is hidden from the compiler, which would find that out. */
#include "kernels/kernels.h"

#include <immintrin.h>
#include <math.h>

#define INLINE static inline __attribute__((always_inline))
/* For loops over accumulators, which must stay in registers. */
#define UNROLL _Pragma("GCC unroll 16")
enum { LANES = WISP_PANEL, WIDE = 4 };

struct ends { /* bits of all values so far, of 16 lanes: or, and */
    __m512i any, all;
};

INLINE __m512 finish(const struct wisp_groups *g, __m512 sum, __m512 all, uint32_t id)
{
    sum = _mm512_fmadd_ps(sum, all, _mm512_set1_ps(g->biases ? g->biases[id] : g->bias));
    if (g->linear) return sum;
    return _mm512_min_ps(_mm512_max_ps(sum, _mm512_setzero_ps()), _mm512_set1_ps(g->clip));
}

INLINE void note(struct ends *e, __m512 y)
{
    e->any = _mm512_or_si512(e->any, _mm512_castps_si512(y));
    e->all = _mm512_and_si512(e->all, _mm512_castps_si512(y));
}

/* M outputs of a group, 16 lanes. */
INLINE void sum_outputs(float *y, const float *x, size_t lanes, const struct wisp_groups *g,
                        const uint32_t *in, size_t n, const float *w, size_t ldw,
                        const uint32_t *out, const int M, struct ends *e)
{
    __m512 sum[LANES];
    UNROLL
    for (int o = 0; o < M; o++) {
        sum[o] = _mm512_setzero_ps();
        __asm__("" : "+v"(sum[o]));
    }
    const __m512 one = _mm512_set1_ps(1);
    for (size_t k = 0; k < n; k++) {
        const __m512 v = _mm512_loadu_ps(x + (size_t)in[k] * lanes);
        UNROLL
        for (int o = 0; o < M; o++) {
            if (w) sum[o] = _mm512_fmadd_ps(_mm512_set1_ps(w[k * ldw + o]), v, sum[o]);
            else sum[o] = o % 2 ? _mm512_fmadd_ps(v, one, sum[o]) : _mm512_add_ps(sum[o], v);
        }
    }
    const __m512 all = _mm512_set1_ps(w ? 1 : g->weight);
    UNROLL
    for (int o = 0; o < M; o++) {
        const __m512 r = finish(g, sum[o], all, out[o]);
        _mm512_storeu_ps(y + (size_t)out[o] * lanes, r);
        if (e) note(e, r);
    }
}

/* A layer whose groups have one output each, V vectors of lanes: an id and a weight serve them all.
 */
INLINE void thin(float *y, const float *x, size_t lanes, const struct wisp_groups *g,
                 const float *w, const bool linear, struct ends *e, const int V)
{
    const __m512 all = _mm512_set1_ps(w ? 1 : g->weight), zero = _mm512_setzero_ps();
    const __m512 clip = _mm512_set1_ps(g->clip), one_bias = _mm512_set1_ps(g->bias);
    struct ends own[WIDE];
    UNROLL
    for (int v = 0; v < V; v++)
        own[v] = (struct ends){ _mm512_setzero_si512(), _mm512_set1_epi32(-1) };
    for (uint32_t i = 0; i < g->n_groups; i++) {
        const uint32_t *in = g->in + g->in_start[i], id = g->out[i];
        const size_t n = g->in_start[i + 1] - g->in_start[i];
        const float *wi = w ? w + g->w_start[i] : NULL;
        __m512 sum[WIDE], other[WIDE];
        size_t k = 0;
        if (n >= 2 && !w) { /* most layers that merging leaves have no more */
            const float *p = x + (size_t)in[0] * lanes, *q = x + (size_t)in[1] * lanes;
            UNROLL
            for (int v = 0; v < V; v++) {
                sum[v] = _mm512_loadu_ps(p + v * LANES);
                other[v] = _mm512_loadu_ps(q + v * LANES);
            }
            k = 2;
        } else {
            UNROLL
            for (int v = 0; v < V; v++) sum[v] = other[v] = zero;
        }
        for (; k + 2 <= n; k += 2) {
            const float *p = x + (size_t)in[k] * lanes, *q = x + (size_t)in[k + 1] * lanes;
            UNROLL
            for (int v = 0; v < V; v++) {
                const __m512 a = _mm512_loadu_ps(p + v * LANES), b = _mm512_loadu_ps(q + v * LANES);
                if (w) {
                    sum[v] = _mm512_fmadd_ps(_mm512_set1_ps(wi[k]), a, sum[v]);
                    other[v] = _mm512_fmadd_ps(_mm512_set1_ps(wi[k + 1]), b, other[v]);
                } else {
                    sum[v] = _mm512_add_ps(sum[v], a);
                    other[v] = _mm512_add_ps(other[v], b);
                }
            }
        }
        if (k < n) {
            const float *p = x + (size_t)in[k] * lanes;
            const __m512 by = _mm512_set1_ps(w ? wi[k] : 1);
            UNROLL
            for (int v = 0; v < V; v++)
                sum[v] = _mm512_fmadd_ps(by, _mm512_loadu_ps(p + v * LANES), sum[v]);
        }
        const __m512 bias = g->biases ? _mm512_set1_ps(g->biases[id]) : one_bias;
        UNROLL
        for (int v = 0; v < V; v++) {
            __m512 r = _mm512_fmadd_ps(_mm512_add_ps(sum[v], other[v]), all, bias);
            if (!linear) r = _mm512_min_ps(_mm512_max_ps(r, zero), clip);
            _mm512_storeu_ps(y + (size_t)id * lanes + v * LANES, r);
            if (e) note(&own[v], r);
        }
    }
    UNROLL
    for (int v = 0; v < V; v++)
        if (e) e[v] = own[v];
}

/* All lanes of such a layer, in the form for its weights, its bounds, and what is asked. */
INLINE void thin_lanes(float *y, const float *x, size_t lanes, const struct wisp_groups *g,
                       const float *w, const bool linear, struct ends *e)
{
    size_t c = 0;
    for (; c + WIDE * LANES <= lanes; c += WIDE * LANES)
        thin(y + c, x + c, lanes, g, w, linear, e ? e + c / LANES : NULL, WIDE);
    for (; c + 2 * LANES <= lanes; c += 2 * LANES)
        thin(y + c, x + c, lanes, g, w, linear, e ? e + c / LANES : NULL, 2);
    for (; c < lanes; c += LANES)
        thin(y + c, x + c, lanes, g, w, linear, e ? e + c / LANES : NULL, 1);
}

static void thin_layer(float *y, const float *x, size_t lanes, const struct wisp_groups *g,
                       struct ends *e)
{
    if (g->w && g->linear) thin_lanes(y, x, lanes, g, g->w, true, e);
    else if (g->w) thin_lanes(y, x, lanes, g, g->w, false, e);
    else if (g->linear) thin_lanes(y, x, lanes, g, NULL, true, e);
    else thin_lanes(y, x, lanes, g, NULL, false, e);
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
        TAKE(16)
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
    const __m512i top = _mm512_castps_si512(_mm512_set1_ps(clip));
    *seen = (struct wisp_lanes){ 0, 0 };
    for (size_t c = 0; c < n; c++) {
        const __mmask16 some = _mm512_test_epi32_mask(e[c].any, _mm512_set1_epi32(INT32_MAX));
        const __mmask16 full = _mm512_cmpeq_epi32_mask(e[c].any, top);
        const __mmask16 only = _mm512_mask_cmpeq_epi32_mask(full, e[c].all, top);
        seen->zero |= (uint64_t)(uint16_t)~some << c * LANES;
        seen->full |= (uint64_t)only << c * LANES;
    }
}

static void groups(float *y, const float *x, size_t lanes, const struct wisp_groups *g,
                   struct wisp_lanes *seen)
{
    struct ends e[WISP_PANEL_MOST / LANES], *at = seen ? e : NULL;
    const struct wisp_groups own = *g; /* cannot alias y */
    for (size_t c = 0; c < lanes / LANES; c++)
        e[c] = (struct ends){ _mm512_setzero_si512(), _mm512_set1_epi32(-1) };
    const bool alone = own.out_start[own.n_groups] == own.n_groups; /* one output per group */
    if (alone) thin_layer(y, x, lanes, &own, at);
    else if (own.w && seen)
        for (uint32_t i = 0; i < own.n_groups; i++) outputs_of(y, x, lanes, &own, i, own.w, at);
    else if (own.w)
        for (uint32_t i = 0; i < own.n_groups; i++) outputs_of(y, x, lanes, &own, i, own.w, NULL);
    else if (seen)
        for (uint32_t i = 0; i < own.n_groups; i++) outputs_of(y, x, lanes, &own, i, NULL, at);
    else
        for (uint32_t i = 0; i < own.n_groups; i++) outputs_of(y, x, lanes, &own, i, NULL, NULL);
    if (seen) look(seen, e, lanes / LANES, own.clip);
}

static void spread(float *x, size_t lanes, const uint64_t *const row[16], size_t words)
{
    const __m512 one = _mm512_set1_ps(1);
    for (size_t i = 0; i < words; i++) {
        uint64_t word[LANES];
        for (int j = 0; j < LANES; j++) word[j] = row[j][i];
        const __m512i lo = _mm512_loadu_si512(word), hi = _mm512_loadu_si512(word + 8);
        for (int b = 0; b < 64; b++, x += lanes) {
            const __m512i bit = _mm512_set1_epi64((long long)(1ull << b));
            const __mmask16 set =
                (__mmask16)(_mm512_test_epi64_mask(lo, bit) | _mm512_test_epi64_mask(hi, bit) << 8);
            _mm512_storeu_ps(x, _mm512_maskz_mov_ps(set, one));
        }
    }
}

/* One of four rounds that exchange rows and columns of a 16 x 16 block of bytes in each quarter of
 * the vectors: the eight bits (row, column) of a byte's place turn by one. */
INLINE void turn(__m512i to[16], const __m512i from[16])
{
    UNROLL
    for (int i = 0; i < 8; i++) {
        to[2 * i] = _mm512_unpacklo_epi8(from[i], from[i + 8]);
        to[2 * i + 1] = _mm512_unpackhi_epi8(from[i], from[i + 8]);
    }
}

static void tally(float *x, size_t lanes, const uint64_t *const row[16], size_t words,
                  size_t planes)
{
    const __m512i one = _mm512_set1_epi8(1);
    for (size_t i = 0; i < words; i++, x += 64 * lanes) {
        __m512i a[LANES], b[LANES];
        for (int j = 0; j < LANES; j++) {
            const uint64_t *bits = row[j] + i;
            __m512i n = _mm512_setzero_si512(), m = n;
            size_t p = 0;
            for (; p + 2 <= planes; p += 2) {
                n = _mm512_mask_add_epi8(n, bits[p * words], n, one);
                m = _mm512_mask_add_epi8(m, bits[(p + 1) * words], m, one);
            }
            if (p < planes) n = _mm512_mask_add_epi8(n, bits[p * words], n, one);
            a[j] = _mm512_add_epi8(n, m);
        }
        turn(b, a);
        turn(a, b);
        turn(b, a);
        turn(a, b);
        UNROLL
        for (int j = 0; j < LANES; j++) {
            float *to = x + (size_t)j * lanes;
#define QUARTER(q)                                                                                 \
    _mm512_storeu_ps(to + (q)*LANES * lanes, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(              \
                                                 _mm512_extracti32x4_epi32(a[j], q))));
            QUARTER(0)
            QUARTER(1)
            QUARTER(2)
            QUARTER(3)
#undef QUARTER
        }
    }
}

static void pack(float *y, size_t ldy, const float *x, size_t ldx, const uint8_t which[16],
                 size_t n, size_t rows)
{
    const __mmask16 some = (__mmask16)((1u << n) - 1);
    const __m512i from = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(some, which));
    for (size_t i = 0; i < rows; i++)
        _mm512_mask_storeu_ps(y + i * ldy, some,
                              _mm512_permutexvar_ps(from, _mm512_loadu_ps(x + i * ldx)));
}

void wisp_kernels_deep_avx512(struct wisp_kernels *k)
{
    k->groups = groups;
    k->spread = spread;
    k->tally = tally;
    k->pack = pack;
}

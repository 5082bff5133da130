/* Plain C: the definition of every kernel.  Loops in the order a person would write
 * them, sums from the first term to the last; the other instruction sets are tested against this.
 */
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

static void axpy(float *y, const float *x, float a, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] += a * x[i];
}

static void scale(float *y, const float *x, float a, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = a * x[i];
}

static float dot(const float *x, const float *y, size_t n)
{
    float s = 0;
    for (size_t i = 0; i < n; i++) s += x[i] * y[i];
    return s;
}

static float sum(const float *x, size_t n)
{
    float s = 0;
    for (size_t i = 0; i < n; i++) s += x[i];
    return s;
}

static void bag(float *out, const float *w, size_t ld, const int32_t *idx, const float *val,
                size_t nnz, size_t n)
{
    for (size_t i = 0; i < nnz; i++) {
        const float *row = w + (size_t)idx[i] * ld;
        for (size_t j = 0; j < n; j++) out[j] += val[i] * row[j];
    }
}

static void dots(float *out, const float *w, size_t ld, const int32_t *idx, size_t m,
                 const float *x, size_t n)
{
    for (size_t i = 0; i < m; i++) out[i] = dot(w + (size_t)idx[i] * ld, x, n);
}

static void bag_dots(float *out, float *dots_out, const float *w, size_t ld, const int32_t *idx,
                     const float *val, size_t nnz, const float *x, size_t n, bool add)
{
    bag(out, w, ld, idx, val, nnz, n);
    for (size_t i = 0; i < nnz; i++)
        dots_out[i] = (add ? dots_out[i] : 0) + dot(w + (size_t)idx[i] * ld, x, n);
}

static void matvec(float *out, const float *w, size_t ld, size_t m, const float *x, size_t n)
{
    for (size_t i = 0; i < m; i++) out[i] = dot(w + i * ld, x, n);
}

static void gemm(float *c, size_t ldc, const float *a, size_t ras, size_t cas, const float *b,
                 size_t ldb, size_t m, size_t n, size_t k, bool add)
{
    for (size_t i = 0; i < m; i++) {
        float *ci = c + i * ldc;
        if (!add)
            for (size_t j = 0; j < n; j++) ci[j] = 0;
        for (size_t p = 0; p < k; p++) {
            float x = a[i * ras + p * cas];
            for (size_t j = 0; j < n; j++) ci[j] += x * b[p * ldb + j];
        }
    }
}

static void gemm_few(float *c, size_t ldc, const float *a, size_t lda, const float *b, size_t ldb,
                     size_t m, size_t n, size_t k)
{
    gemm(c, ldc, a, lda, 1, b, ldb, m, n, k, true);
}

static void gemm_live(float *c, size_t ldc, const float *a, size_t lda, const float *b, size_t ldb,
                      const int32_t *live, size_t m, size_t n, size_t k)
{
    for (size_t q = 0; q < k; q++)
        gemm(c, ldc, a + live[q], lda, 1, b + (size_t)live[q] * ldb, ldb, m, n, 1, true);
}

static void back_few(const struct wisp_back *t)
{
    for (size_t r = 0; r < t->rows; r++) {
        const float *w = t->w + r * t->w_row, *x = t->x + r;
        gemm(t->gw + r * t->n, t->n, x, 1, t->x_row, t->gy, t->gy_row, 1, t->n, t->m, false);
        for (size_t i = 0; t->gx && i < t->m; i++)
            t->gx[i * t->x_row + r] = dot(t->gy + i * t->gy_row, w, t->n);
    }
}

static void gemm_bias(float *c, size_t ldc, const float *a, size_t lda, const float *b, size_t ldb,
                      const float *bias, size_t m, size_t n, size_t k)
{
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) c[i * ldc + j] = bias[i];
    gemm(c, ldc, a, lda, 1, b, ldb, m, n, k, true);
}

/* ---- bf16 ---- */

static float widen(uint32_t half)
{
    uint32_t u = half << 16;
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static void to16(uint16_t *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = wisp_round16(x[i]);
}

static void from16(float *y, const uint16_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = widen(x[i]);
}

static void axpy16(uint16_t *x, const float *g, float a, size_t n, uint32_t random)
{
    for (size_t i = 0; i < n; i++) {
        float sum = widen(x[i]) + a * g[i];
        uint32_t bits, low = (random + (uint32_t)i * WISP_GOLDEN16) & 0xffff;
        memcpy(&bits, &sum, sizeof bits);
        if ((bits & 0x7f800000) != 0x7f800000) bits += low; /* not of infinity or NaN */
        x[i] = (uint16_t)(bits >> 16);
    }
}

static void bag16(float *out, const uint16_t *w, size_t ld, const int32_t *idx, const float *val,
                  size_t nnz, size_t n)
{
    for (size_t i = 0; i < nnz; i++)
        for (size_t j = 0; j < n; j++) out[j] += val[i] * widen(w[(size_t)idx[i] * ld + j]);
}

static void dots16(float *out, const uint16_t *w, size_t ld, const int32_t *idx, size_t m,
                   const float *x, size_t n)
{
    for (size_t i = 0; i < m; i++) {
        out[i] = 0;
        for (size_t j = 0; j < n; j++) out[i] += widen(w[(size_t)idx[i] * ld + j]) * x[j];
    }
}

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static void pairs(uint32_t *out, size_t ldo, const float *x, size_t ldx, const float *s, size_t k,
                  size_t whole, size_t n)
{
    for (size_t j = 0; j < round_up(n, 16); j++)
        for (size_t p = 0; p < whole; p += 2) {
            uint32_t half[2];
            for (size_t h = 0; h < 2; h++) {
                float v = p + h < k && j < n ? x[(p + h) * ldx + j] * (s ? s[p + h] : 1) : 0;
                half[h] = wisp_round16(v);
            }
            out[j / 16 * ldo + p / 2 * 16 + j % 16] = half[0] | half[1] << 16;
        }
}

static void pairs16(uint32_t *out, size_t ldo, const uint16_t *x, size_t ldx, size_t k,
                    size_t whole, size_t n)
{
    for (size_t j = 0; j < round_up(n, 16); j++)
        for (size_t p = 0; p < whole; p += 2) {
            uint32_t even = p < k && j < n ? x[p * ldx + j] : 0;
            uint32_t odd = p + 1 < k && j < n ? x[(p + 1) * ldx + j] : 0;
            out[j / 16 * ldo + p / 2 * 16 + j % 16] = even | odd << 16;
        }
}

static void pairs_t(uint32_t *out, size_t ldo, const float *x, size_t ldx, size_t k, size_t n)
{
    for (size_t j = 0; j < round_up(n, 16); j++)
        for (size_t p = 0; p < round_up(k, 32); p += 2) {
            uint32_t half[2];
            for (size_t h = 0; h < 2; h++)
                half[h] = p + h < k && j < n ? wisp_round16(x[j * ldx + p + h]) : 0;
            out[j / 16 * ldo + p / 2 * 16 + j % 16] = half[0] | half[1] << 16;
        }
}

static void turn16(uint16_t *out, size_t ldo, const uint16_t *in, size_t ldi, size_t m, size_t n)
{
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < round_up(m, 32); i++) out[j * ldo + i] = i < m ? in[i * ldi + j] : 0;
}

static void gemm16(float *c, size_t ldc, const uint16_t *a, size_t lda, const uint32_t *b,
                   size_t ldb, const float *bias, size_t m, size_t n, size_t k, bool add)
{
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            const uint32_t *panel = b + j / 16 * ldb + j % 16;
            float sum = bias ? bias[i] : 0;
            for (size_t p = 0; p < k; p += 2) {
                uint32_t pair = panel[p / 2 * 16];
                sum += widen(a[i * lda + p]) * widen(pair & 0xffff);
                sum += widen(a[i * lda + p + 1]) * widen(pair >> 16);
            }
            c[i * ldc + j] = add ? c[i * ldc + j] + sum : sum;
        }
}

/* ---- int8 ---- */

static void from8(float *y, const int8_t *x, float scale_by, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = scale_by * x[i];
}

static void bag8(float *out, const int8_t *w, const float *scales, size_t ld, const int32_t *idx,
                 const float *val, size_t nnz, size_t n)
{
    for (size_t i = 0; i < nnz; i++) {
        float x = val[i] * scales[idx[i]];
        for (size_t j = 0; j < n; j++) out[j] += x * w[(size_t)idx[i] * ld + j];
    }
}

static void dots8(float *out, const int8_t *w, const float *scales, size_t ld, const int32_t *idx,
                  size_t m, const float *x, size_t n)
{
    for (size_t i = 0; i < m; i++) {
        float s = 0;
        for (size_t j = 0; j < n; j++) s += w[(size_t)idx[i] * ld + j] * x[j];
        out[i] = scales[idx[i]] * s;
    }
}

static void transpose(float *out, size_t ldo, const float *in, size_t ldi, size_t m, size_t n)
{
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) out[j * ldo + i] = in[i * ldi + j];
}

static void relu(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = x[i] < 0 ? 0 : x[i]; /* this way round a NaN stays */
}

static void relu_back(float *gx, const float *gy, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) gx[i] = y[i] > 0 ? gy[i] : 0;
}

static void col_max(float *max, const float *z, size_t ldz, size_t m, size_t n)
{
    for (size_t j = 0; j < n; j++) max[j] = z[j];
    for (size_t i = 1; i < m; i++)
        for (size_t j = 0; j < n; j++)
            if (z[i * ldz + j] > max[j]) max[j] = z[i * ldz + j];
}

/* exp(-87) is just above the smallest normal number: no denormals leave here.  A NaN is
 * not below -87 and stays. */
static float exp_or_0(float x)
{
    return x < -87 ? 0 : expf(x);
}

static void col_exp(float *z, size_t ldz, float *total, const float *max, size_t m, size_t n)
{
    for (size_t j = 0; j < n; j++) total[j] = 0;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float e = exp_or_0(z[i * ldz + j] - max[j]);
            z[i * ldz + j] = e;
            total[j] += e;
        }
}

static void col_sigmoid(float *z, size_t ldz, float *loss, size_t m, size_t n)
{
    for (size_t j = 0; j < n; j++) loss[j] = 0;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float x = z[i * ldz + j];
            float e = exp_or_0(-fabsf(x)); /* never above 1, so nothing overflows */
            loss[j] += (x > 0 ? x : 0) + log1pf(e);
            z[i * ldz + j] = (x < 0 ? e : 1) / (1 + e);
        }
}

static void row_sigmoid(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float e = exp_or_0(-fabsf(x[i]));
        y[i] = (x[i] < 0 ? e : 1) / (1 + e);
    }
}

static void row_tanh(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = tanhf(x[i]);
}

static void row_gauss(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = exp_or_0(-x[i] * x[i]);
}

static size_t above(int32_t *where, const float *x, const float *limit, size_t n)
{
    size_t found = 0;
    for (size_t j = 0; j < n; j++)
        if (!(x[j] <= limit[j])) where[found++] = (int32_t)j;
    return found;
}

static size_t count_from(const float *x, size_t n, float least)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++) found += x[i] >= least;
    return found;
}

static bool holds(const int32_t *x, size_t n, int32_t v)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] == v) return true;
    return false;
}

static uint32_t winner(uint32_t key[32], const float *xt, const uint32_t place[8])
{
    uint32_t empty = 0;
    for (size_t i = 0; i < 32; i++) {
        float best = xt[(size_t)place[0] * 32 + i];
        uint32_t at = 0;
        for (uint32_t j = 1; j < 8; j++) {
            float v = xt[(size_t)place[j] * 32 + i];
            if (v > best) best = v, at = j;
        }
        key[i] = key[i] << 3 | at;
        empty |= (uint32_t)(best == -INFINITY) << i;
    }
    return empty;
}

static void adam(float *w, float *m, float *v, const float *g, size_t n, const struct wisp_adam *c)
{
    for (size_t i = 0; i < n; i++) {
        m[i] = c->beta1 * m[i] + (1 - c->beta1) * g[i];
        v[i] = c->beta2 * v[i] + (1 - c->beta2) * g[i] * g[i];
        float d = sqrtf(v[i]) + c->eps;
        if (d != 0)
            w[i] -=
                c->step * m[i] / d; /* 0 only where all gradients so far were 0, or their squares */
    }
}

static void momentum(float *w, float *m, const float *g, size_t n, float beta, float step,
                     float decay)
{
    for (size_t i = 0; i < n; i++) {
        m[i] = beta * m[i] + (decay > 0 ? g[i] + decay * w[i] : g[i]);
        w[i] -= step * m[i];
    }
}

void wisp_kernels_scalar(struct wisp_kernels *k)
{
    *k = (struct wisp_kernels){
        .axpy = axpy,
        .scale = scale,
        .dot = dot,
        .sum = sum,
        .bag = bag,
        .dots = dots,
        .bag_dots = bag_dots,
        .matvec = matvec,
        .gemm = gemm,
        .gemm_few = gemm_few,
        .gemm_live = gemm_live,
        .back_few = back_few,
        .gemm_bias = gemm_bias,
        .to16 = to16,
        .from16 = from16,
        .axpy16 = axpy16,
        .bag16 = bag16,
        .dots16 = dots16,
        .pairs = pairs,
        .pairs16 = pairs16,
        .pairs_t = pairs_t,
        .turn16 = turn16,
        .gemm16 = gemm16,
        .from8 = from8,
        .bag8 = bag8,
        .dots8 = dots8,
        .transpose = transpose,
        .relu = relu,
        .relu_back = relu_back,
        .col_max = col_max,
        .col_exp = col_exp,
        .col_sigmoid = col_sigmoid,
        .row_sigmoid = row_sigmoid,
        .row_tanh = row_tanh,
        .row_gauss = row_gauss,
        .above = above,
        .count_from = count_from,
        .holds = holds,
        .winner = winner,
        .adam = adam,
        .momentum = momentum,
    };
    wisp_kernels_tiles_scalar(k);
    wisp_kernels_planes_scalar(k);
    wisp_kernels_live_scalar(k);
    wisp_kernels_codes_scalar(k);
    wisp_kernels_deep_scalar(k);
}

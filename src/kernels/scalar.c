/* Plain C: the definition of every kernel.  Loops in the order a person would write
 * them, sums from the first term to the last; the other instruction sets are tested against this.
 */
#include "kernels/kernels.h"

#include <math.h>

static void axpy(float *y, const float *x, float a, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] += a * x[i];
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

static void col_scale(float *z, size_t ldz, const float *s, size_t m, size_t n)
{
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) z[i * ldz + j] *= s[j];
}

static void col_sigmoid(float *z, size_t ldz, float *loss, const float *s, size_t m, size_t n)
{
    for (size_t j = 0; j < n; j++) loss[j] = 0;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float x = z[i * ldz + j];
            float e = exp_or_0(-fabsf(x)); /* never above 1, so nothing overflows */
            loss[j] += (x > 0 ? x : 0) + log1pf(e);
            z[i * ldz + j] = s[j] * (x < 0 ? e : 1) / (1 + e);
        }
}

static size_t above(int32_t *where, const float *x, const float *limit, size_t n)
{
    size_t found = 0;
    for (size_t j = 0; j < n; j++)
        if (x[j] > limit[j]) where[found++] = (int32_t)j;
    return found;
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

static void momentum(float *w, float *m, const float *g, size_t n, float beta, float step)
{
    for (size_t i = 0; i < n; i++) {
        m[i] = beta * m[i] + g[i];
        w[i] -= step * m[i];
    }
}

void wisp_kernels_scalar(struct wisp_kernels *k)
{
    *k = (struct wisp_kernels){
        .axpy = axpy,
        .dot = dot,
        .sum = sum,
        .bag = bag,
        .dots = dots,
        .gemm = gemm,
        .transpose = transpose,
        .relu = relu,
        .relu_back = relu_back,
        .col_max = col_max,
        .col_exp = col_exp,
        .col_scale = col_scale,
        .col_sigmoid = col_sigmoid,
        .above = above,
        .adam = adam,
        .momentum = momentum,
    };
}

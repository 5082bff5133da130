/* What layers do with blocks of 16 channels, in plain C: the definition. */
#include "kernels/kernels.h"

enum { BLOCK = 16 };

static void norm_moments(float *sum, float *square, const float *x, const float *from, size_t n)
{
    float s[BLOCK] = { 0 }, q[BLOCK] = { 0 };
    for (size_t i = 0; i < n; i++, x += BLOCK)
        for (int c = 0; c < BLOCK; c++) {
            const float d = x[c] - from[c];
            s[c] += d;
            q[c] += d * d;
        }
    for (int c = 0; c < BLOCK; c++) sum[c] += s[c], square[c] += q[c];
}

static inline float normed(const struct wisp_norm *b, size_t at, int c)
{
    return (b->x[at + (size_t)c] - b->mean[c]) * b->scale[c] + b->shift[c];
}

static void norm(const struct wisp_norm *b)
{
    for (size_t at = 0; at < b->n * BLOCK; at += BLOCK)
        for (int c = 0; c < BLOCK; c++) {
            const float y = normed(b, at, c);
            b->y[at + (size_t)c] = b->relu && y < 0 ? 0 : y;
            if (b->live) *b->live += b->y[at + (size_t)c] != 0;
        }
}

static inline float gradient(const struct wisp_norm *b, size_t at, int c)
{
    return b->relu && !(normed(b, at, c) > 0) ? 0 : b->gy[at + (size_t)c];
}

static void norm_sums(const struct wisp_norm *b)
{
    float s[BLOCK] = { 0 }, d[BLOCK] = { 0 };
    for (size_t at = 0; at < b->n * BLOCK; at += BLOCK)
        for (int c = 0; c < BLOCK; c++) {
            const float g = gradient(b, at, c);
            s[c] += g;
            d[c] += g * (b->x[at + (size_t)c] - b->mean[c]);
        }
    for (int c = 0; c < BLOCK; c++) b->sum[c] += s[c], b->dot[c] += d[c];
}

static void norm_back(const struct wisp_norm *b)
{
    for (size_t at = 0; at < b->n * BLOCK; at += BLOCK)
        for (int c = 0; c < BLOCK; c++)
            b->gx[at + (size_t)c] = gradient(b, at, c) * b->times[c] +
                                    (b->x[at + (size_t)c] - b->mean[c]) * b->slope[c] + b->rest[c];
}

static void maxpool(const struct wisp_maxpool *p)
{
    for (size_t i = 0; i < p->n; i++)
        for (size_t c = 0; c < BLOCK; c++) {
            const float *x = p->x + i * p->next + c;
            float most = *x;
            size_t where = 0;
            for (size_t u = 0; u < p->rows; u++)
                for (size_t v = 0; v < p->cols; v++) {
                    const float at = x[u * p->row + v * BLOCK];
                    if (at <= most || most != most) continue;
                    most = at;
                    where = u * p->apart + v;
                }
            if (p->relu && !(most > 0)) where = WISP_NO_PLACE;
            p->y[i * BLOCK + c] = most;
            if (p->live) *p->live += most != 0;
            if (p->place) p->place[i * BLOCK + c] = (uint8_t)where;
        }
}

static void maxpool_back(const struct wisp_maxpool *p)
{
    for (size_t i = 0; i < p->n; i++)
        for (size_t u = 0; u < p->rows; u++)
            for (size_t v = 0; v < p->cols; v++)
                for (size_t c = 0; c < BLOCK; c++) {
                    float *to = p->gx + i * p->next + u * p->row + v * BLOCK + c;
                    const bool it = p->place[i * BLOCK + c] == u * p->apart + v;
                    *to = (p->add ? *to : 0) + (it ? p->gy[i * BLOCK + c] : 0);
                }
}

void wisp_kernels_planes_scalar(struct wisp_kernels *k)
{
    k->norm_moments = norm_moments;
    k->norm = norm;
    k->norm_sums = norm_sums;
    k->norm_back = norm_back;
    k->maxpool = maxpool;
    k->maxpool_back = maxpool_back;
}

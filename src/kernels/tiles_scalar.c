/* Sums of small products in plain C, and the transforms of Winograd's convolution by their
 * matrices: the definition. */
#include "kernels/kernels.h"

static void tiles(const struct wisp_tiles *t)
{
    for (size_t v = 0; v < t->blocks; v++)
        for (size_t r = 0; r < t->m; r++) {
            float *c = t->c + v * t->c_block + r * t->ldc, sum[16] = { 0 };
            for (size_t i = 0; i < t->n; i++) {
                const float *a = t->a + t->a_at[i] + r * t->ras;
                const float *b = t->b + t->b_at[i] + v * t->b_block;
                for (size_t p = 0; p < t->k; p++)
                    for (size_t j = 0; j < 16; j++) sum[j] += a[p * t->cas] * b[p * t->ldb + j];
            }
            for (size_t j = 0; j < 16; j++) {
                if (t->add) sum[j] += c[j];
                if (t->bias) sum[j] += t->bias[v * 16 + j];
                if (t->mask && !(t->mask[c - t->c + (ptrdiff_t)j] > 0)) sum[j] = 0;
                c[j] = t->relu && sum[j] < 0 ? 0 : sum[j];
                if (t->live) t->live[v] += c[j] != 0;
            }
        }
}

static float widen(uint32_t half)
{
    union {
        uint32_t u;
        float f;
    } bits = { half << 16 };
    return bits.f;
}

static void tiles16(const struct wisp_tiles16 *t)
{
    for (size_t v = 0; v < t->blocks; v++)
        for (size_t r = 0; r < t->m; r++) {
            float sum[16] = { 0 };
            if (t->c_at[r] < 0) continue;
            for (size_t i = 0; i < t->n; i++) {
                const uint16_t *a = t->a + t->a_at[i] + r * t->ras;
                const uint32_t *b = t->b + t->b_at[i] + v * t->b_block;
                for (size_t p = 0; p < 32; p++)
                    for (size_t j = 0; j < 16; j++)
                        sum[j] += widen(a[p]) * widen(b[p / 2 * 16 + j] >> p % 2 * 16 & 0xffff);
            }
            for (size_t j = 0; j < 16; j++) {
                const size_t at = (size_t)t->c_at[r] + v * t->c_block + j;
                if (t->bias) sum[j] += t->bias[v * 16 + j];
                if (t->mask && !(t->mask[at] > 0)) sum[j] = 0;
                t->c[at] = t->relu && sum[j] < 0 ? 0 : sum[j];
                if (t->live) t->live[v] += t->c[at] != 0;
            }
        }
}

static void sums16(const struct wisp_sums16 *t)
{
    for (size_t i = 0; i < t->n; i++)
        for (size_t r = 0; r < t->m; r++)
            for (size_t v = 0; v < t->blocks; v++) {
                const uint16_t *a = t->a + t->a_at[i] + r * t->lda;
                const uint32_t *b = t->b + v * t->ldb;
                float *c = t->c + t->c_at[i] + r * t->ldc + v * 16, sum[16] = { 0 };
                for (size_t j = 0; t->add && j < 16; j++) sum[j] = c[j];
                for (size_t p = 0; p < t->k; p++)
                    for (size_t j = 0; j < 16; j++)
                        sum[j] += widen(a[p]) * widen(b[p / 2 * 16 + j] >> p % 2 * 16 & 0xffff);
                for (size_t j = 0; j < 16; j++) c[j] = sum[j];
            }
}

static void join16(uint16_t *to, const float *a, const float *b, size_t apart, size_t n)
{
    for (size_t i = 0; i < n; i++, a += apart, to += 32) {
        for (size_t j = 0; j < 16; j++) to[j] = wisp_round16(a[j]);
        for (size_t j = 0; j < 16; j++) to[16 + j] = b ? wisp_round16(b[i * apart + j]) : 0;
    }
}

static const float T[][6][6] = {
    [WISP_WINOGRAD_X] = { { 4, 0, -5, 0, 1, 0 },
                          { 0, -4, -4, 1, 1, 0 },
                          { 0, 4, -4, -1, 1, 0 },
                          { 0, -2, -1, 2, 1, 0 },
                          { 0, 2, -1, -2, 1, 0 },
                          { 0, 4, 0, -5, 0, 1 } },
    [WISP_WINOGRAD_Y] = { { 1, 1, 1, 1, 1, 0 },
                          { 0, 1, -1, 2, -2, 0 },
                          { 0, 1, 1, 4, 4, 0 },
                          { 0, 1, -1, 8, -8, 1 } },
    [WISP_WINOGRAD_GY] = { { 1, 0, 0, 0 },
                           { 1, 1, 1, 1 },
                           { 1, -1, 1, -1 },
                           { 1, 2, 4, 8 },
                           { 1, -2, 4, -8 },
                           { 0, 0, 0, 1 } },
    [WISP_WINOGRAD_W] = { { 1.0f / 4, 0, 0 },
                          { -1.0f / 6, -1.0f / 6, -1.0f / 6 },
                          { -1.0f / 6, 1.0f / 6, -1.0f / 6 },
                          { 1.0f / 24, 1.0f / 12, 1.0f / 6 },
                          { 1.0f / 24, -1.0f / 12, 1.0f / 6 },
                          { 0, 0, 1 } },
    [WISP_WINOGRAD_GW] = { { 1.0f / 4, -1.0f / 6, -1.0f / 6, 1.0f / 24, 1.0f / 24, 0 },
                           { 0, -1.0f / 6, 1.0f / 6, 1.0f / 12, -1.0f / 12, 0 },
                           { 0, -1.0f / 6, -1.0f / 6, 1.0f / 6, 1.0f / 6, 1 } },
    [WISP_WINOGRAD_Y5] = { { 1, 1, 1, 1, 1, 0 }, { 0, 1, -1, 2, -2, 1 } },
    [WISP_WINOGRAD_GY5] = { { 1, 0 }, { 1, 1 }, { 1, -1 }, { 1, 2 }, { 1, -2 }, { 0, 1 } },
    [WISP_WINOGRAD_W5] = { { 1.0f / 4, 0, 0, 0, 0 },
                           { -1.0f / 6, -1.0f / 6, -1.0f / 6, -1.0f / 6, -1.0f / 6 },
                           { -1.0f / 6, 1.0f / 6, -1.0f / 6, 1.0f / 6, -1.0f / 6 },
                           { 1.0f / 24, 1.0f / 12, 1.0f / 6, 1.0f / 3, 2.0f / 3 },
                           { 1.0f / 24, -1.0f / 12, 1.0f / 6, -1.0f / 3, 2.0f / 3 },
                           { 0, 0, 0, 0, 1 } },
    [WISP_WINOGRAD_GW5] = { { 1.0f / 4, -1.0f / 6, -1.0f / 6, 1.0f / 24, 1.0f / 24, 0 },
                            { 0, -1.0f / 6, 1.0f / 6, 1.0f / 12, -1.0f / 12, 0 },
                            { 0, -1.0f / 6, -1.0f / 6, 1.0f / 6, 1.0f / 6, 0 },
                            { 0, -1.0f / 6, 1.0f / 6, 1.0f / 3, -1.0f / 3, 0 },
                            { 0, -1.0f / 6, -1.0f / 6, 2.0f / 3, 2.0f / 3, 1 } },
};
static const size_t rows_to[] = { 6, 4, 6, 6, 3, 2, 6, 6, 5 },
                    rows_from[] = { 6, 6, 4, 3, 6, 6, 2, 5, 6 };

static void winograd(const struct wisp_transform *t)
{
    const size_t n = rows_to[t->which], m = rows_from[t->which];
    for (size_t lane = 0; lane < 16; lane++) {
        float half[6][6] = { { 0 } };
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < m; j++)
                for (size_t k = 0; k < m; k++)
                    half[i][j] +=
                        T[t->which][i][k] * t->from[k * t->from_row + j * t->from_col + lane];
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++) {
                float sum = 0;
                for (size_t k = 0; k < m; k++) sum += half[i][k] * T[t->which][j][k];
                if (t->bias) sum += t->bias[lane];
                const size_t at = i * t->to_row + j * t->to_col + lane;
                if (t->mask && !(t->mask[at] > 0)) sum = 0;
                t->to[at] = t->relu && sum < 0 ? 0 : sum;
                if (t->live) *t->live += t->to[at] != 0;
            }
    }
}

void wisp_kernels_tiles_scalar(struct wisp_kernels *k)
{
    k->tiles = tiles;
    k->winograd = winograd;
    k->tiles16 = tiles16;
    k->sums16 = sums16;
    k->join16 = join16;
}

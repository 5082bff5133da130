/* Sums of small products in plain C, the definition, and the transforms of Winograd's way. */
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
                c[j] = t->relu && sum[j] < 0 ? 0 : sum[j];
            }
        }
}

void wisp_kernels_tiles_scalar(struct wisp_kernels *k)
{
    k->tiles = tiles;
}

/* Rows of few values, plain. */
#include "kernels/codes.h"
#include "kernels/kernels.h"

static void from_codes(float *y, const uint8_t *codes, int bits, const float *value, float scale,
                       size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = scale * value[wisp_codes_at(codes, bits, i)];
}

void wisp_kernels_codes_scalar(struct wisp_kernels *k)
{
    k->from_codes = from_codes;
}

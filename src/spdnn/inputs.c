/* Inputs of a net: rows of bits, or rows of numbers. */
#include "spdnn/spdnn.h"
#include "base/mem.h"

void wisp_spinputs_clear(struct wisp_spinputs *x)
{
    wisp_free(x->bits);
    wisp_free(x->start);
    wisp_free(x->id);
    wisp_free(x->value);
    *x = (struct wisp_spinputs){ 0 };
}

wisp_status wisp_spinputs_bits(struct wisp_spinputs *out, size_t n, uint32_t width, wisp_error *err)
{
    *out = (struct wisp_spinputs){ .n = n, .width = width, .words = ((size_t)width + 63) / 64 };
    out->bits = wisp_zalloc(n, out->words * sizeof *out->bits);
    if (out->bits) return WISP_OK;
    size_t bytes = n * out->words * sizeof *out->bits;
    *out = (struct wisp_spinputs){ 0 };
    return wisp_fail_mem(err, bytes, "inputs");
}

/* Inputs of a net: rows of bits, or rows of numbers. */
#include "spdnn/spdnn.h"
#include "base/bounds.h"
#include "base/mem.h"

#include <string.h>

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
    *out = (struct wisp_spinputs){ .n = n, .width = width, .words = wisp_parts(width, 64) };
    out->bits = wisp_zalloc(n, out->words * sizeof *out->bits);
    if (out->bits) return WISP_OK;
    size_t bytes = n * out->words * sizeof *out->bits;
    *out = (struct wisp_spinputs){ 0 };
    return wisp_fail_mem(err, bytes, "inputs");
}

/* Moves n values from 'first' to the begin of a block of 'all'.  A block that cannot be made
 * smaller stays as it is. */
static void *keep(void *p, size_t all, size_t first, size_t n, size_t size)
{
    memmove(p, (char *)p + first * size, n * size);
    void *smaller = wisp_realloc(p, all, n, size);
    return smaller ? smaller : p;
}

void wisp_spinputs_keep(struct wisp_spinputs *x, size_t first, size_t n)
{
    if (n == x->n) return;
    if (x->bits) {
        x->bits = keep(x->bits, x->n * x->words, first * x->words, n * x->words, sizeof *x->bits);
    } else {
        const uint64_t all = x->start[x->n], from = x->start[first], end = x->start[first + n];
        x->id = keep(x->id, all, from, end - from, sizeof *x->id);
        x->value = keep(x->value, all, from, end - from, sizeof *x->value);
        x->start = keep(x->start, x->n + 1, first, n + 1, sizeof *x->start);
        for (size_t i = 0; i <= n; i++) x->start[i] -= from;
    }
    x->n = n;
}

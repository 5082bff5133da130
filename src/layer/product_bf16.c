/* Products in bf16, sums in float: half the bytes, and several times the speed where the processor
 * has instructions for it (kernels.h: pairs, panels).
 *
 * The gradient of h is made transposed, so that only the rows of W have to be turned, once a block.
 * With N = n rounded up to a multiple of 32, and W = width likewise:
 *
 * shared: h^T as panels (N W / 2 words) | f h as panels (N W / 2 words) | active rows (W halves
 * each) part:   (width, N) of a thread: W^T (W, 96) | E (96, N) | E as panels (96 N / 2 words), or
 * a tile's sum (width, 32) */
#include "layer/product.h"
#include "layer/rows.h"

#include <string.h>

enum { AHEAD = 12 };

static size_t up(size_t x)
{
    return (x + 31) / 32 * 32;
}

static size_t shared_floats(size_t n, size_t width, size_t active)
{
    return up(n) * up(width) + (active + 16) * up(width) / 2;
}

static size_t part_floats(size_t n, size_t width)
{
    return width * up(n);
}

static size_t thread_floats(size_t n, size_t width)
{
    size_t back = WISP_OUT_BLOCK * (up(width) + 2 * up(n)) / 2, sum = 32 * width;
    return back > sum ? back : sum;
}

static uint32_t *h_panels(const struct wisp_product *p)
{
    return (uint32_t *)p->shared;
}

static uint32_t *scaled_h_panels(const struct wisp_product *p)
{
    return h_panels(p) + up(p->n) * up(p->width) / 2;
}

static uint16_t *row_halves(const struct wisp_product *p, size_t block)
{
    uint16_t *all = (uint16_t *)(h_panels(p) + up(p->n) * up(p->width));
    return all + block * WISP_OUT_BLOCK * up(p->width);
}

static void begin(const struct wisp_product *p, size_t first, size_t n)
{
    size_t panel = up(p->width) * 8;
    p->k->pairs_t(h_panels(p) + first / 16 * panel, panel, p->h + first * p->width, p->width,
                  p->width, n);
}

static void factors(const struct wisp_product *p, const float *f, size_t first, size_t n)
{
    size_t whole = first + n < p->n ? n : up(p->n) - first; /* tiles are even, but for the last */
    p->k->pairs(scaled_h_panels(p) + first * 8, up(p->n) * 8, p->h + first * p->width, p->width,
                f + first, n, whole, p->width);
}

static const void *rows(const struct wisp_product *p, size_t block, float *scratch)
{
    (void)scratch;
    size_t first = block * WISP_OUT_BLOCK, m = wisp_block_rows(p->a, block), ld = up(p->width);
    uint16_t *to = row_halves(p, block);
    for (size_t i = 0; i < m; i++) {
        if (first + i + AHEAD < p->a->n)
            wisp_param_fetch(p->w, wisp_row_at(p->a, first + i + AHEAD), false);
        size_t at = wisp_row_at(p->a, first + i) * p->width;
        if (p->w->b16) memcpy(to + i * ld, p->w->b16 + at, p->width * sizeof *to);
        else p->k->to16(to + i * ld, p->w->w + at, p->width);
        memset(to + i * ld + p->width, 0, (ld - p->width) * sizeof *to);
    }
    return to;
}

static const void *rows_again(const struct wisp_product *p, size_t block, float *scratch)
{
    (void)scratch;
    for (size_t i = 0; i < wisp_block_rows(p->a, block); i++)
        wisp_param_fetch(p->w, wisp_row_at(p->a, block * WISP_OUT_BLOCK + i), true);
    return row_halves(p, block);
}

static void forward(const struct wisp_product *p, float *z, const void *w, const float *bias,
                    size_t m)
{
    size_t k = up(p->width);
    p->k->gemm16(z, p->n, w, k, h_panels(p), k * 8, bias, m, p->n, k, false);
}

static void backward(const struct wisp_product *p, float *part, bool add, float *gw, const float *e,
                     const void *w, size_t m, float *scratch)
{
    size_t n = up(p->n), width = up(p->width), k = up(m);
    uint16_t *turned = (uint16_t *)scratch, *plain = turned + width * WISP_OUT_BLOCK;
    uint32_t *panels = (uint32_t *)(plain + WISP_OUT_BLOCK * n);
    p->k->turn16(turned, WISP_OUT_BLOCK, w, width, m, p->width);
    p->k->pairs(panels, k * 8, e, p->n, NULL, m, k, p->n);
    p->k->gemm16(part, n, turned, WISP_OUT_BLOCK, panels, k * 8, NULL, p->width, p->n, k, add);
    for (size_t i = 0; i < m; i++) {
        p->k->to16(plain + i * n, e + i * p->n, p->n);
        memset(plain + i * n + p->n, 0, (n - p->n) * sizeof *plain);
    }
    p->k->gemm16(gw, p->width, plain, n, scaled_h_panels(p), n * 8, NULL, m, p->width, n, false);
}

static void end(const struct wisp_product *p, float *g, const float *parts, size_t n_lanes,
                const float *f, size_t first, size_t n, float *scratch)
{
    size_t ld = up(p->n), width = p->width;
    memset(scratch, 0, width * 32 * sizeof *scratch);
    for (size_t lane = 0; lane < n_lanes; lane++, parts += width * ld)
        for (size_t c = 0; c < width; c++)
            p->k->axpy(scratch + c * 32, parts + c * ld + first, 1, n);
    p->k->transpose(g + first * width, width, scratch, 32, width, n);
    for (size_t i = first; i < first + n; i++)
        p->k->scale(g + i * width, g + i * width, f[i], width);
}

const struct wisp_precision wisp_precision_bf16 = {
    .name = "bf16",
    .what = "products of bf16, sums and rows in single precision",
    .shared_floats = shared_floats,
    .part_floats = part_floats,
    .thread_floats = thread_floats,
    .begin = begin,
    .factors = factors,
    .rows = rows,
    .rows_again = rows_again,
    .forward = forward,
    .backward = backward,
    .end = end,
};

/* Products in bf16, sums in float: half the bytes, and several times the speed where the processor
 * has instructions for it (kernels.h: pairs, panels).
 *
 * The gradient of h is made transposed, so that only the rows of W have to be turned, once a block.
 * With N = n rounded up to a multiple of 32, and W = width likewise, in halves of a float:
 *
 * shared: h^T as panels (N W) | f h as panels (N W) | active rows (W each) | E (N each)
 * part:   (width, N) floats
 * of a thread, one after the other: Z of a block (96, n) floats; W^T (W, 96) and E as panels
 *         (96, N) halves; a tile's sum (width, tile) floats */
#include "layer/product.h"
#include "base/bounds.h"
#include "layer/rows.h"

#include <string.h>

enum { AHEAD = 12, SPARE_ROWS = 16 /* that a product may read beyond the last */ };

static size_t up(size_t x)
{
    return wisp_up(x, 32);
}

enum { TURNED, SCALED, ROWS, E };

static void lay(void *shared[], struct wisp_cut *c, size_t n, size_t width, size_t active)
{
    shared[TURNED] = wisp_cut_take(c, up(n) * up(width), sizeof(uint16_t));
    shared[SCALED] = wisp_cut_take(c, up(n) * up(width), sizeof(uint16_t));
    shared[ROWS] = wisp_cut_take(c, (active + SPARE_ROWS) * up(width), sizeof(uint16_t));
    shared[E] = wisp_cut_take(c, (active + SPARE_ROWS) * up(n), sizeof(uint16_t));
}

static size_t part_floats(size_t n, size_t width)
{
    return width * up(n);
}

struct turned { /* a thread's work on the way back */
    uint16_t *w;
    uint32_t *e;
};

static struct turned lay_turned(struct wisp_cut *c, size_t n, size_t width)
{
    struct turned t;
    t.w = wisp_cut_take(c, up(width) * WISP_OUT_BLOCK, sizeof *t.w);
    t.e = wisp_cut_take(c, WISP_OUT_BLOCK / 2 * up(n), sizeof *t.e);
    return t;
}

static size_t thread_floats(size_t n, size_t width)
{
    size_t forward = WISP_OUT_BLOCK * n, sum = WISP_TILE * width;
    struct wisp_cut plan = { 0 };
    lay_turned(&plan, n, width);
    size_t backward = plan.at / sizeof(float);
    return wisp_most(wisp_most(forward, backward), sum);
}

static uint32_t *h_panels(const struct wisp_product *p)
{
    return p->shared[TURNED];
}

static uint32_t *scaled_h_panels(const struct wisp_product *p)
{
    return p->shared[SCALED];
}

static uint16_t *weights_at(const struct wisp_product *p, size_t place)
{
    return (uint16_t *)p->shared[ROWS] + place * up(p->width);
}

static uint16_t *e_at(const struct wisp_product *p, size_t place)
{
    return (uint16_t *)p->shared[E] + place * up(p->n);
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

static const void *gather(const struct wisp_product *p, size_t block, bool again, float *scratch)
{
    (void)scratch;
    size_t ld = up(p->width), first = block * WISP_OUT_BLOCK, m = wisp_block_rows(p->a, block);
    uint16_t *to = weights_at(p, first);
    for (size_t i = 0; again && i < m; i++)
        wisp_param_fetch(p->w, wisp_row_at(p->a, first + i), true);
    for (size_t i = 0; !again && i < m; i++, to += ld) {
        if (first + i + AHEAD < p->a->n)
            wisp_param_fetch(p->w, wisp_row_at(p->a, first + i + AHEAD), false);
        size_t at = wisp_row_at(p->a, first + i) * p->width;
        if (p->w->b16) memcpy(to, p->w->b16 + at, p->width * sizeof *to);
        else p->k->to16(to, p->w->w + at, p->width);
        memset(to + p->width, 0, (ld - p->width) * sizeof *to);
    }
    return weights_at(p, first);
}

static float *forward(const struct wisp_product *p, size_t block, size_t m, const void *w,
                      const float *bias, float *scratch)
{
    (void)block;
    size_t k = up(p->width);
    p->k->gemm16(scratch, p->n, w, k, h_panels(p), k * 8, bias, m, p->n, k, false);
    return scratch;
}

static void keep(const struct wisp_product *p, size_t block, size_t m, const float *e)
{
    size_t ld = up(p->n);
    uint16_t *to = e_at(p, block * WISP_OUT_BLOCK);
    for (size_t i = 0; i < m; i++, to += ld, e += p->n) {
        p->k->to16(to, e, p->n);
        memset(to + p->n, 0, (ld - p->n) * sizeof *to);
    }
}

static const float *row(const struct wisp_product *p, size_t place, float *spare)
{
    p->k->from16(spare, e_at(p, place), p->n);
    return spare;
}

static void set(const struct wisp_product *p, size_t place, size_t sample, float e)
{
    e_at(p, place)[sample] = wisp_round16(e);
}

static void backward(const struct wisp_product *p, size_t block, size_t m, const void *w,
                     float *part, bool add, float *gw, float *scratch)
{
    size_t n = up(p->n), width = up(p->width), k = up(m);
    const uint16_t *e = e_at(p, block * WISP_OUT_BLOCK);
    struct wisp_cut c =
        wisp_cut_of(scratch, thread_floats(p->n, p->width) * sizeof *scratch, WISP_CUT_FRESH);
    struct turned t = lay_turned(&c, p->n, p->width);
    p->k->turn16(t.w, WISP_OUT_BLOCK, w, width, m, p->width);
    p->k->pairs16(t.e, k * 8, e, n, m, k, p->n);
    p->k->gemm16(part, n, t.w, WISP_OUT_BLOCK, t.e, k * 8, NULL, p->width, p->n, k, add);
    p->k->gemm16(gw, p->width, e, n, scaled_h_panels(p), n * 8, NULL, m, p->width, n, false);
}

static void end(const struct wisp_product *p, float *g, float *const *parts, size_t n_lanes,
                const float *f, size_t first, size_t n, float *scratch)
{
    size_t ld = up(p->n), width = p->width;
    memset(scratch, 0, width * WISP_TILE * sizeof *scratch);
    for (size_t lane = 0; lane < n_lanes; lane++)
        for (size_t c = 0; c < width; c++)
            p->k->axpy(scratch + c * WISP_TILE, parts[lane] + c * ld + first, 1, n);
    p->k->transpose(g + first * width, width, scratch, WISP_TILE, width, n);
    for (size_t i = first; i < first + n; i++)
        p->k->scale(g + i * width, g + i * width, f[i], width);
}

const struct wisp_precision wisp_precision_bf16 = {
    .name = "bf16",
    .what = "products of bf16, sums in single precision",
    .id = WISP_IN_BF16,
    .lay = lay,
    .part_floats = part_floats,
    .thread_floats = thread_floats,
    .begin = begin,
    .factors = factors,
    .gather = gather,
    .forward = forward,
    .keep = keep,
    .row = row,
    .set = set,
    .backward = backward,
    .end = end,
};

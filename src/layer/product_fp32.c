/* Products in fp32, and the table of precisions.
 *
 * shared: h^T (width, n) | f h (n, width) | E (active, n)      part: (n, width)
 * of a thread: rows of a block (96, width) */
#include "layer/product.h"
#include "layer/rows.h"

#include <string.h>

enum { TURNED, SCALED, E };

static void lay(void *shared[], struct wisp_cut *c, size_t n, size_t width, size_t active)
{
    shared[TURNED] = wisp_cut_take(c, width * n, sizeof(float));
    shared[SCALED] = wisp_cut_take(c, n * width, sizeof(float));
    shared[E] = wisp_cut_take(c, active * n, sizeof(float));
}

static size_t part_floats(size_t n, size_t width)
{
    return n * width;
}

static size_t thread_floats(size_t n, size_t width)
{
    (void)n;
    return WISP_OUT_BLOCK * width;
}

static float *scaled_h(const struct wisp_product *p)
{
    return p->shared[SCALED];
}

static float *e_at(const struct wisp_product *p, size_t place)
{
    return (float *)p->shared[E] + place * p->n;
}

static void begin(const struct wisp_product *p, size_t first, size_t n)
{
    float *turned = p->shared[TURNED];
    p->k->transpose(turned + first, p->n, p->h + first * p->width, p->width, n, p->width);
}

static void factors(const struct wisp_product *p, const float *f, size_t first, size_t n)
{
    float *to = scaled_h(p) + first * p->width;
    for (size_t i = 0; i < n; i++)
        p->k->scale(to + i * p->width, p->h + (first + i) * p->width, f[first + i], p->width);
}

static const void *gather(const struct wisp_product *p, size_t block, bool again, float *scratch)
{
    (void)again; /* they are asked for as those that move */
    return wisp_block_weights(scratch, p->k, p->w, p->a, block);
}

static float *forward(const struct wisp_product *p, size_t block, size_t m, const void *w,
                      const float *bias, float *scratch)
{
    (void)scratch; /* holds w */
    float *z = e_at(p, block * WISP_OUT_BLOCK);
    p->k->gemm_bias(z, p->n, w, p->width, p->shared[TURNED], p->n, bias, m, p->n, p->width);
    return z;
}

static void keep(const struct wisp_product *p, size_t block, size_t m, const float *e)
{
    (void)p, (void)block, (void)m, (void)e; /* it lies where it was made */
}

static const float *row(const struct wisp_product *p, size_t place, float *spare)
{
    (void)spare;
    return e_at(p, place);
}

static void set(const struct wisp_product *p, size_t place, size_t sample, float e)
{
    e_at(p, place)[sample] = e;
}

static void backward(const struct wisp_product *p, size_t block, size_t m, const void *w,
                     float *part, bool add, float *gw, float *scratch)
{
    (void)scratch;
    const float *e = e_at(p, block * WISP_OUT_BLOCK);
    p->k->gemm(part, p->width, e, 1, p->n, w, p->width, p->n, p->width, m, add);
    p->k->gemm(gw, p->width, e, p->n, 1, scaled_h(p), p->width, m, p->width, p->n, false);
}

static void end(const struct wisp_product *p, float *g, float *const *parts, size_t n_lanes,
                const float *f, size_t first, size_t n, float *scratch)
{
    (void)scratch;
    size_t at = first * p->width, size = n * p->width;
    g += at;
    memset(g, 0, size * sizeof *g);
    for (size_t lane = 0; lane < n_lanes; lane++) p->k->axpy(g, parts[lane] + at, 1, size);
    for (size_t i = 0; i < n; i++)
        p->k->scale(g + i * p->width, g + i * p->width, f[first + i], p->width);
}

/* Of the output layer both are the same. */
#define IN_FLOATS                                                                                  \
    .lay = lay, .part_floats = part_floats, .thread_floats = thread_floats, .begin = begin,        \
    .factors = factors, .gather = gather, .forward = forward, .keep = keep, .row = row,            \
    .set = set, .backward = backward, .end = end

const struct wisp_precision wisp_precision_fp32 = {
    .name = "fp32", .what = "products in single precision", .id = WISP_IN_FP32, IN_FLOATS
};

const struct wisp_precision wisp_precision_tf32 = {
    .name = "tf32",
    .what = "fp32, rounded to 11 bits in convolutions and dense layers; on cards alone",
    .id = WISP_IN_TF32,
    .card = true,
    IN_FLOATS
};

static const struct wisp_precision *const kinds[] = { &wisp_precision_fp32, &wisp_precision_bf16,
                                                      &wisp_precision_tf32 };

const struct wisp_precision *wisp_precision_at(size_t i)
{
    return i < sizeof kinds / sizeof *kinds ? kinds[i] : NULL;
}

const struct wisp_precision *wisp_precision_find(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i]->name, name) == 0) return kinds[i];
    return NULL;
}

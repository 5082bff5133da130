/* The way 'few': the gradient of few channels, of which blocks of 16 would be mostly zeros.
 *
 * A pixel of gy, 16 channels of it at a time, is multiplied with all weights at once, and what comes
 * out is added where it belongs:
 *
 *   T (columns of a row of gy, kh, kw * in filled up to whole vectors) = sum over blocks gy W
 *   P (rows, columns * in) += T, one row of taps after the other: kw * in numbers side by side
 *
 * P is gx with its borders, channels side by side; then it is spread out to blocks of 16.  Packed
 * weights: (blocks of y, kh, vectors of a row of taps, 16 channels of y, 16).
 *
 * A task is a sample, so no sum depends on the number of threads. */
#include "conv/direct.h"
#include "base/pool.h"
#include "kernels/kernels.h"

#include <string.h>

enum { BLOCK = WISP_PLANE_BLOCK, FEW = 8 };

static size_t row_of_taps(const struct wisp_conv *c) /* floats */
{
    return wisp_up(c->kw * c->in, BLOCK);
}

/* P: pixels that a tap lies on, and the floats of a row, with room for a whole vector at its end. */
static size_t rows_of(const struct wisp_conv *c)
{
    return (c->oh - 1) * c->stride + c->kh;
}
static size_t cols_of(const struct wisp_conv *c)
{
    return (c->ow - 1) * c->stride + c->kw;
}
static size_t wide(const struct wisp_conv *c)
{
    return cols_of(c) * c->in + 2 * BLOCK;
}

static bool can(const struct wisp_conv *c, enum wisp_conv_pass pass, const struct wisp_kernels *k)
{
    (void)k;
    return pass == WISP_CONV_DATA && c->block == BLOCK && c->groups == 1 && c->in <= FEW &&
           wisp_conv_out_blocks(c) <= WISP_CONV_TAPS && c->kh <= WISP_CONV_TAPS / c->kw;
}

static size_t unit_of(const struct wisp_conv *c)
{
    return c->kh * row_of_taps(c) * BLOCK;
}

static size_t weight_floats(const struct wisp_conv *c, enum wisp_conv_pass pass)
{
    (void)pass;
    return wisp_conv_out_blocks(c) * unit_of(c);
}

static size_t thread_floats(const struct wisp_conv *c, enum wisp_conv_pass pass)
{
    (void)pass;
    return c->ow * c->kh * row_of_taps(c) + rows_of(c) * wide(c);
}

static void pack(const struct wisp_conv *c, enum wisp_conv_pass pass, const struct wisp_kernels *k,
                 float *to, const float *w, size_t row)
{
    (void)pass, (void)k;
    to += row / BLOCK * unit_of(c);
    for (size_t o = 0; o < wisp_conv_rows_from(c, row); o++)
        for (size_t ch = 0; ch < c->in; ch++)
            for (size_t i = 0; i < c->kh; i++)
                for (size_t j = 0; j < c->kw; j++) {
                    const size_t at = i * row_of_taps(c) + j * c->in + ch;
                    to[(at / BLOCK * BLOCK + o) * BLOCK + at % BLOCK] =
                        w[((o * c->in + ch) * c->kh + i) * c->kw + j];
                }
}

/* Whole vectors. */
static void add(float *restrict to, const float *restrict from, size_t n)
{
    for (size_t i = 0; i < n; i += BLOCK)
        for (size_t e = 0; e < BLOCK; e++) to[i + e] += from[i + e];
}

/* A row of P, from its column pad_w on, to a row of gx. */
static void spread(const struct wisp_conv *c, float *restrict gx, const float *restrict from)
{
    const size_t there = cols_of(c) > c->pad_w ? cols_of(c) - c->pad_w : 0;
    for (size_t v = 0; v < c->w; v++, gx += BLOCK) {
        memset(gx, 0, BLOCK * sizeof *gx);
        for (size_t ch = 0; v < there && ch < c->in; ch++) gx[ch] = from[v * c->in + ch];
    }
}

struct job {
    const struct wisp_conv *c;
    const struct wisp_conv_job *j;
};

static void over_sample(void *arg, size_t sample, int thread)
{
    const struct job *g = arg;
    const struct wisp_conv *c = g->c;
    const size_t taps = row_of_taps(c), line = wide(c), plane = c->oh * c->ow * BLOCK;
    float *t = g->j->thread_scratch + (size_t)thread * g->j->thread_apart,
          *p = t + c->ow * c->kh * taps, *gx = g->j->gx + sample * wisp_conv_in_floats(c);
    size_t a_at[WISP_CONV_TAPS], b_at[WISP_CONV_TAPS];
    struct wisp_tiles product = { .m = c->ow,
                                  .blocks = c->kh * taps / BLOCK,
                                  .k = c->out < BLOCK ? c->out : BLOCK,
                                  .n = wisp_conv_out_blocks(c),
                                  .ras = BLOCK,
                                  .cas = 1,
                                  .b = g->j->w,
                                  .ldb = BLOCK,
                                  .b_block = WISP_CONV_SQUARE,
                                  .a_at = a_at,
                                  .b_at = b_at,
                                  .c = t,
                                  .ldc = c->kh * taps,
                                  .c_block = BLOCK };
    for (size_t o = 0; o < product.n; o++) a_at[o] = o * plane, b_at[o] = o * unit_of(c);
    memset(p, 0, rows_of(c) * line * sizeof *p);
    for (size_t y = 0; y < c->oh; y++) {
        product.a = g->j->gy + sample * wisp_conv_out_floats(c) + y * c->ow * BLOCK;
        g->j->k->tiles(&product);
        for (size_t i = 0; i < c->kh; i++)
            for (size_t x = 0; x < c->ow; x++)
                add(p + (y * c->stride + i) * line + x * c->stride * c->in,
                    t + (x * c->kh + i) * taps, taps);
    }
    for (size_t u = 0; u < c->h; u++, gx += c->w * BLOCK)
        if (u + c->pad_h < rows_of(c)) spread(c, gx, p + (u + c->pad_h) * line + c->pad_w * c->in);
        else memset(gx, 0, c->w * BLOCK * sizeof *gx);
}

static wisp_status run(const struct wisp_conv *c, enum wisp_conv_pass pass,
                       const struct wisp_conv_job *j, wisp_error *err)
{
    (void)pass, (void)err;
    struct job g = { c, j };
    wisp_parallel_for(j->pool, j->n, over_sample, &g);
    return WISP_OK;
}

const struct wisp_conv_way wisp_conv_few = {
    .name = "few",
    .what = "all taps of few channels at once (their gradient)",
    .can = can,
    .weight_floats = weight_floats,
    .thread_floats = thread_floats,
    .pack = pack,
    .run = run,
};

/* Blocks of active rows, and partial sums of lanes. */
#include "layer/rows.h"

#include <string.h>

enum { AHEAD = 8 };

const float *wisp_block_weights(float *to, const struct wisp_kernels *k, const struct wisp_param *w,
                                const struct wisp_active *a, size_t block)
{
    size_t first = block * WISP_OUT_BLOCK, width = w->cols;
    if (!a->rows && w->w) return w->w + first * width;
    struct wisp_weights from = wisp_param_weights(w);
    for (size_t i = 0; i < wisp_block_rows(a, block); i++) {
        if (first + i + AHEAD < a->n) wisp_param_fetch(w, wisp_row_at(a, first + i + AHEAD), true);
        wisp_weights_copy(k, to + i * width, &from, wisp_row_at(a, first + i));
    }
    return to;
}

struct job {
    struct wisp_context *ctx;
    float *to;
    const float *parts;
    size_t n_lanes, n, width;
};

static void add_tile(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct job *j = arg;
    size_t all = j->n * j->width, first = tile * WISP_TILE * j->width;
    size_t n = wisp_tile_rows(j->n, tile) * j->width;
    if (j->n_lanes) memcpy(j->to + first, j->parts + first, n * sizeof *j->to);
    else memset(j->to + first, 0, n * sizeof *j->to);
    for (size_t lane = 1; lane < j->n_lanes; lane++)
        j->ctx->k->axpy(j->to + first, j->parts + lane * all + first, 1, n);
}

void wisp_parts_add(struct wisp_context *ctx, float *to, const float *parts, size_t n_lanes,
                    size_t n, size_t width)
{
    struct job j = { ctx, to, parts, n_lanes, n, width };
    wisp_parallel_for(ctx->pool, wisp_tiles(n), add_tile, &j);
}

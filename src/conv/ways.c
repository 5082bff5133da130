/* The table of ways to compute a convolution, and what all of them share. */
#include "conv/conv.h"
#include "base/pool.h"

#include <string.h>

static const struct wisp_conv_way *const ways[] = {
    &wisp_conv_bf16, &wisp_conv_direct, &wisp_conv_winograd,
    &wisp_conv_few,  &wisp_conv_skip,   &wisp_conv_plain, /* the last one: it can always */
};
enum { N_WAYS = sizeof ways / sizeof *ways };

const struct wisp_conv_way *wisp_conv_way_at(size_t i)
{
    return i < N_WAYS ? ways[i] : NULL;
}

struct packing {
    const struct wisp_conv_way *way;
    const struct wisp_conv *c;
    enum wisp_conv_pass pass;
    const struct wisp_kernels *k;
    float *to;
    const float *w;
};

static void pack_block(void *arg, size_t block, int thread)
{
    (void)thread;
    const struct packing *p = arg;
    const size_t row = block * WISP_PLANE_BLOCK;
    p->way->pack(p->c, p->pass, p->k, p->to, p->w + row * wisp_conv_row(p->c), row);
}

void wisp_conv_pack(const struct wisp_conv_way *way, const struct wisp_conv *c,
                    enum wisp_conv_pass pass, struct wisp_pool *pool, const struct wisp_kernels *k,
                    float *to, const float *w)
{
    struct packing p = { way, c, pass, k, to, w };
    if (c->in / c->groups % WISP_PLANE_BLOCK || c->out / c->groups % WISP_PLANE_BLOCK)
        memset(to, 0, way->weight_floats(c, pass) * sizeof *to);
    wisp_parallel_for(pool, wisp_parts(c->out, WISP_PLANE_BLOCK), pack_block, &p);
}

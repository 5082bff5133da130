/* The products of a wide layer's step with a batch, in one of several precisions (one file each,
 * one table):
 *
 *     forward    Z (m, n)       = W h^T + bias     W: a block of active rows
 *     backward   part          += E^T W            the gradient of h, of a lane's blocks
 *                gw (m, width)  = E (f h)          the gradient of W
 *
 * E is what the loss made of Z, f each sample's factor: f E is the gradient of Z.  So f is not
 * multiplied into E, which is large, but into h, which is small.  E of all blocks is the one large
 * thing that lies between forward and backward; its type is the precision's.
 *
 * Blocks and lanes are those of output.h; work on samples comes in tiles. */
#ifndef WISP_LAYER_PRODUCT_H
#define WISP_LAYER_PRODUCT_H

#include "graph/ids.h"
#include "layer/output.h"

enum { WISP_PRODUCT_PARTS = 4 };

struct wisp_product { /* of one step */
    const struct wisp_precision *kind;
    const struct wisp_kernels *k;
    const struct wisp_param *w;
    const struct wisp_active *a;
    size_t n, width;
    const float *h;                   /* (n, width) */
    void *shared[WISP_PRODUCT_PARTS]; /* what kind->lay cut */
};

struct wisp_precision {
    const char *name, *what;
    enum wisp_precision_id id; /* what kernels of a card know it by */
    bool card;                 /* no processor has it: only cards are asked for it */
    /* What a step shares (E and forms of h), as the next parts of a block; the sizes of a lane's
     * part of the gradient of h, and of a thread's work. */
    void (*lay)(void *shared[], struct wisp_cut *c, size_t n, size_t width, size_t active);
    size_t (*part_floats)(size_t n, size_t width);
    size_t (*thread_floats)(size_t n, size_t width);
    /* Samples first .. first+n-1, a tile: h is there; f is there too. */
    void (*begin)(const struct wisp_product *p, size_t first, size_t n);
    void (*factors)(const struct wisp_product *p, const float *f, size_t first, size_t n);
    /* The rows of a block side by side, for forward and once more for backward, when they will
     * move; what it returns stays while the thread works on the block. */
    const void *(*gather)(const struct wisp_product *p, size_t block, bool again, float *scratch);
    /* Z of a block of m rows, where the loss may work on it; then it is kept as E. */
    float *(*forward)(const struct wisp_product *p, size_t block, size_t m, const void *w,
                      const float *bias, float *scratch);
    void (*keep)(const struct wisp_product *p, size_t block, size_t m, const float *e);
    /* A row of E as floats, in 'spare' (n) if it has to be made; one number of it. */
    const float *(*row)(const struct wisp_product *p, size_t place, float *spare);
    void (*set)(const struct wisp_product *p, size_t place, size_t sample, float e);
    /* Backward of a block; add: to what 'part' has, else it begins here. */
    void (*backward)(const struct wisp_product *p, size_t block, size_t m, const void *w,
                     float *part, bool add, float *gw, float *scratch);
    /* g (n, width) of a tile = f times the sum of all lanes' parts, in order. */
    void (*end)(const struct wisp_product *p, float *g, float *const *parts, size_t n_lanes,
                const float *f, size_t first, size_t n, float *scratch);
};

const struct wisp_precision *wisp_precision_at(size_t i); /* NULL past the end */
const struct wisp_precision *wisp_precision_find(const char *name);
extern const struct wisp_precision wisp_precision_fp32, wisp_precision_bf16, wisp_precision_tf32;

#endif

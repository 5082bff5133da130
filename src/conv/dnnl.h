/* oneDNN's convolutions: a shared object of its own, wisp-dnnl.so, built where dnnl.h is found and
 * opened when a convolution is first planned.  It knows nothing of the library but conv.h. */
#ifndef WISP_CONV_DNNL_H
#define WISP_CONV_DNNL_H

#include "conv/conv.h"

enum { WISP_DNNL_VERSION = 2 }; /* of this interface, of struct wisp_conv, _job and _way */

typedef void wisp_dnnl_loop(struct wisp_pool *pool, size_t n,
                            void (*fn)(void *arg, size_t i, int thread), void *arg);

struct wisp_dnnl_part { /* what wisp-dnnl.so offers, through wisp_dnnl_table() */
    int version;
    const struct wisp_conv_way *const *ways; /* the fastest first; NULL behind the last */
    /* To be called first, with wisp_parallel_for.  slow: also what oneDNN computes without a kernel
     * made for the processor, to compare results where it has no AVX-512. */
    void (*use)(wisp_dnnl_loop *loop, bool slow);
};

#endif

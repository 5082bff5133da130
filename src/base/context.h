/* What every part is handed: threads, kernels, and a way to tell the person something. */
#ifndef WISP_BASE_CONTEXT_H
#define WISP_BASE_CONTEXT_H

#include "base/pool.h"

struct wisp_kernels;     /* kernels/kernels.h */
struct wisp_comm;        /* comm/comm.h */
struct wisp_conv_choice; /* conv/conv.h */

struct wisp_context {
    struct wisp_pool *pool;
    const struct wisp_kernels *k;
    struct wisp_comm *comm;              /* NULL: the only process */
    const struct wisp_conv_choice *conv; /* how convolutions are computed; NULL: not measured */
    void (*say)(void *arg, const char *line); /* NULL: nobody listens */
    void *say_arg;
};

/* One line to the person; ctx may be NULL. */
void wisp_say(const struct wisp_context *ctx, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif

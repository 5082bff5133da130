/* The time of one hidden layer, forward and backward with Adam: dense against sparse of the same
 * widths.  Usage: layers THREADS; one line of JSON per layer. */
#include "base/mem.h"
#include "model/batch.h"
#include "model/net.h"
#include "model/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void one(struct wisp_context *ctx, const char *kind, size_t width, size_t batch)
{
    enum { MOST = 100 };
    char spec[100];
    double forward = INFINITY, backward = INFINITY; /* the fastest: others use the machine too */
    struct wisp_net net;
    struct wisp_optimizer opt;
    struct wisp_layer_sizes sizes = {
        .batch = batch, .active = 10, .training = true, .keep = true
    };
    wisp_error err = { 0 };
    snprintf(spec, sizeof spec, "input %zu, %s %zu, relu", width, kind, width);
    if (wisp_net_plan(&net, spec, 10, 10, &sizes, &err) != WISP_OK ||
        wisp_optimizer_init(&opt, wisp_optimizer_find("adam"), ctx->k, 0.9, &err) != WISP_OK ||
        wisp_net_alloc_params(&net, &err) != WISP_OK ||
        wisp_net_alloc_state(&net, opt.kind->slots, &err) != WISP_OK ||
        wisp_work_alloc(&net, wisp_pool_threads(ctx->pool), &err) != WISP_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    wisp_net_init(&net, 1, ctx->pool);
    opt.lr = 1e-4f;
    struct wisp_layer *l = &net.layers[1];
    struct wisp_act *in[] = { &net.acts[l->from[0]] }, *out = &net.acts[2]; /* 0 is the batch */
    const struct wisp_act *read[] = { in[0] };
    for (size_t i = 0; i < batch * width; i++) {
        in[0]->x[i] = (float)((i * 2654435761u >> 8) & 255) / 255;
        out->g[i] = (float)((i * 2246822519u >> 8) & 255) / 255 - 0.5f;
    }
    struct wisp_batch b = { .n = batch };
    struct wisp_step s = { .ctx = ctx, .batch = &b, .training = true, .update = &opt.update };
    wisp_status st = WISP_OK;
    size_t n = kind[0] == 'd' && width > 2000 ? 8 : MOST;
    for (size_t i = 0; i < n && st == WISP_OK; i++) {
        wisp_work_pass(&net, 1, WISP_WORK_FORWARD);
        double t = wisp_now();
        st = l->kind->forward(l, &s, read, out, &err);
        forward = fmin(forward, wisp_now() - t);
        wisp_work_pass(&net, 1, WISP_WORK_BACK);
        t = wisp_now();
        if (st == WISP_OK) st = l->kind->backward(l, &s, in, out, &err);
        backward = fmin(backward, wisp_now() - t);
    }
    if (st != WISP_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    printf("{\"layer\":\"%s\",\"width\":%zu,\"batch\":%zu,\"threads\":%d,\"kernels\":\"%s\","
           "\"forward_ms\":%.3f,\"backward_ms\":%.3f,\"ms\":%.3f}\n",
           kind, width, batch, wisp_pool_threads(ctx->pool), ctx->k->name, forward * 1e3,
           backward * 1e3, (forward + backward) * 1e3);
    fflush(stdout);
    wisp_optimizer_clear(&opt);
    wisp_net_clear(&net);
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = { "dense", "sparse radix", "sparse random" };
    struct wisp_context *ctx;
    wisp_error err = { 0 };
    if (wisp_context_create(&ctx, argc > 1 ? atoi(argv[1]) : 1, &err) != WISP_OK) return 1;
    for (size_t width = 1024; width <= 4096; width *= 4)
        for (size_t batch = 128; batch <= 256; batch *= 2)
            for (int k = 0; k < 3; k++) one(ctx, kinds[k], width, batch);
    wisp_context_free(ctx);
    return 0;
}

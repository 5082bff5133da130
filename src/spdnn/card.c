/* A deep sparse net on a card: hands it over to cuda/. */
#include "spdnn/spdnn.h"
#include "base/mem.h"
#include "cuda/cuda.h"

static void describe(struct wisp_cuda_layer *to, const struct wisp_splayer *l)
{
    *to = (struct wisp_cuda_layer){ .n_in = l->n_in,
                                    .n_out = l->n_out,
                                    .n_groups = l->n_groups,
                                    .linear = l->linear,
                                    .in_start = l->in_start,
                                    .in = l->in,
                                    .out_start = l->out_start,
                                    .out = l->out,
                                    .weight = l->weight,
                                    .w = l->w,
                                    .w_start = l->w_start,
                                    .bias = l->bias,
                                    .biases = l->biases };
}

wisp_status wisp_spnet_run_card(struct wisp_sprun *r, struct wisp_spcard *c,
                                const struct wisp_spnet *net, const struct wisp_spinputs *x,
                                wisp_error *err)
{
    const struct wisp_cuda *cuda;
    wisp_status st = wisp_cuda_open(&cuda, err);
    if (st != WISP_OK) return st;
    struct wisp_cuda_layer *layers = wisp_alloc(net->n_layers, sizeof *layers);
    if (!layers) return wisp_fail_mem(err, net->n_layers * sizeof *layers, "a list of layers");
    for (size_t i = 0; i < net->n_layers; i++) describe(&layers[i], &net->layers[i]);
    const struct wisp_cuda_deep d = { .n_layers = net->n_layers,
                                      .layers = layers,
                                      .clip = net->clip,
                                      .drop = r->drop,
                                      .zero_from = net->zero_from,
                                      .full_from = net->full_from,
                                      .most_bytes = c->most_bytes,
                                      .n = x->n,
                                      .words = x->words,
                                      .bits = x->bits,
                                      .start = x->start,
                                      .id = x->id,
                                      .value = x->value };
    struct wisp_cuda_runner *runner = NULL;
    struct wisp_cuda_deep_times t = { 0 };
    st = cuda->create_runner(&runner, &d, err);
    if (st == WISP_OK) st = cuda->run_deep(runner, r->ends, r->values, c->repeats, &t, err);
    cuda->free_runner(runner);
    wisp_free(layers);
    r->seconds = t.seconds;
    r->work = t.work;
    c->upload_s = t.upload_s;
    c->bytes = t.bytes;
    c->streamed = t.streamed;
    c->form = t.form;
    return st;
}

/* Results that count in the loss, so that more of them are 0 (--more-zeros): an L1 term.
 *
 *   loss of a sample   += more_zeros * mean of the result, for each of these layers
 *   gradient           += more_zeros / (units * n) where the result is above 0
 *
 * These are ReLUs of planes; where nobody but a max pooling reads one, that pooling instead, whose
 * result is what is multiplied: the gradient of what it left out stays 0.  The gradient is pushed when
 * all readers have set it, before the way back of the layer; whether a reader has gone back through
 * the ReLU already makes no difference, as nothing is pushed where that let nothing through. */
#include "model/net.h"

void wisp_net_l1(struct wisp_net *net)
{
    for (int i = 0; i < net->n_layers - 1; i++) {
        const struct wisp_act *a = &net->acts[i + 1];
        struct wisp_layer *l = &net->layers[i], *reader = &net->layers[a->last_reader];
        if (l->kind != &wisp_layer_relu || a->form != WISP_PLANES) continue;
        if (a->n_readers == 1 && reader->kind == &wisp_layer_maxpool) l = reader;
        l->l1 = net->sizes.more_zeros / (float)net->acts[l->number + 1].width;
    }
}

struct pushing {
    const struct wisp_step *s;
    const struct wisp_act *a;
    float more;
};

static void push_sample(void *arg, size_t sample, int thread)
{
    (void)thread;
    const struct pushing *p = arg;
    const size_t n = p->a->floats, at = sample * n;
    p->s->ctx->k->push(p->a->g + at, p->a->x + at, p->more, n);
}

void wisp_net_l1_back(const struct wisp_net *net, int layer, const struct wisp_step *s)
{
    const size_t n = s->batch->n, lots = net->work.lots.all;
    const float all = lots && !s->batch->all ? (float)lots : wisp_batch_all(s->batch);
    struct pushing p = { s, &net->acts[layer + 1], net->layers[layer].l1 / all };
    if (net->layers[layer].l1 > 0) wisp_parallel_for(s->ctx->pool, n, push_sample, &p);
}

/* What the tests of smaller nets share: do two nets say the same, and the presets. */
#ifndef WISP_TEST_SMALL_RIG_H
#define WISP_TEST_SMALL_RIG_H

#include "layer_rig.h"
#include "model/nets.h"

/* The last that this machine has. */
static inline struct wisp_kernels best_kernels(void)
{
    struct wisp_kernels k = { 0 };
    for (size_t i = 0; wisp_kernels_isa(i, NULL); i++) {
        struct wisp_kernels more = { 0 };
        if (wisp_kernels_select(&more, wisp_kernels_isa(i, NULL), &err) == WISP_OK) k = more;
    }
    return k;
}

/* Running variances are above 0. */
static inline void lift_variances(struct wisp_net *net)
{
    for (size_t p = 0; p < net->list.n; p++)
        for (size_t i = 0; net->list.p[p].role == WISP_STATE && i < net->list.p[p].n; i++)
            net->list.p[p].w[i] = 0.5f + fabsf(net->list.p[p].w[i]);
}

static inline double *logits(struct wisp_net *net, struct wisp_step step)
{
    const struct wisp_layer *l = wisp_net_output(net);
    const size_t n = step.batch->n;
    double *z = calloc(n * l->n_out, sizeof *z);
    step.training = false;
    CHECK(wisp_net_hidden(net, &step, &err) == WISP_OK, "%s", err.text);
    const float *x = wisp_net_last(net)->x;
    for (size_t i = 0; i < n; i++)
        for (size_t o = 0; o < l->n_out; o++) {
            double *to = &z[i * l->n_out + o];
            *to = l->params[1].w[o];
            for (size_t k = 0; k < l->n_in; k++)
                *to += (double)l->params[0].w[o * l->n_in + k] * x[i * l->n_in + k];
        }
    return z;
}

static inline void check_same(struct wisp_net *net, struct wisp_net *small, struct wisp_step step,
                              const char *spec, const char *text)
{
    double *a = logits(net, step), *b = logits(small, step), most = 0, far = 0;
    for (size_t i = 0; i < step.batch->n * net->n_labels; i++) {
        most = fmax(most, fabs(a[i]));
        far = fmax(far, fabs(a[i] - b[i]));
    }
    CHECK(far <= 2e-5 * most + 1e-6, "'%s' -> '%s': logits to %g differ by %g", spec, text, most,
          far);
    free(a), free(b);
}

/* Calls fn with every net of images that wisp brings along, on small ones. */
static inline void each_preset(const struct wisp_kernels *k,
                               void (*fn)(struct wisp_net *net, struct wisp_step step,
                                          const char *name))
{
    static const struct {
        const char *name;
        size_t side, channels;
    } nets[] = {
        { "lenet", 28, 1 },    { "alexnet", 64, 3 },        { "vgg16", 32, 3 },
        { "resnet18", 32, 3 }, { "resnet18-cifar", 16, 3 },
    };
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        enum { BATCH = 2, LABELS = 7 };
        const size_t pixels = nets[i].channels * nets[i].side * nets[i].side;
        struct wisp_net_text text;
        struct wisp_context ctx = { .k = k };
        struct wisp_layer_sizes sizes = {
            .batch = BATCH,
            .active = LABELS,
            .training = true,
            .ctx = &ctx,
            .image = { 3, { nets[i].channels, nets[i].side, nets[i].side } }
        };
        struct wisp_net net = { 0 };
        float *planes = calloc(BATCH * pixels, sizeof *planes);
        struct wisp_batch batch = { .n = BATCH, .planes = planes };
        struct wisp_step step = { .ctx = &ctx, .batch = &batch };
        seed = i + 1;
        for (size_t e = 0; e < BATCH * pixels; e++) planes[e] = test_randf(&seed);
        bool ok = wisp_pool_create(&ctx.pool, 2, &err) == WISP_OK &&
                  wisp_net_text_read(&text, nets[i].name, &err) == WISP_OK &&
                  wisp_net_plan(&net, text.line, pixels, LABELS, &sizes, &err) == WISP_OK &&
                  wisp_net_alloc_params(&net, &err) == WISP_OK &&
                  wisp_work_alloc(&net, 2, &err) == WISP_OK;
        CHECK(ok, "%s: %s", nets[i].name, err.text);
        if (ok) {
            wisp_net_init(&net, 5, ctx.pool);
            fn(&net, step, nets[i].name);
            wisp_net_text_clear(&text);
        }
        wisp_net_clear(&net);
        wisp_pool_free(ctx.pool);
        free(planes);
    }
}

#endif

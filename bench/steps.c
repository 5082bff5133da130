/* Training steps of nets of images, by layer: milliseconds of each layer's way forward and back.
 *
 *   bench/run build steps                         (one thread, all nets)
 *   steps [threads [net [set of kernels]]]
 *
 * Batches and sizes are those of issue 17 (docs/benchmarks.md): random pixels, SGD with momentum and
 * decay of weights.  Times are the best of several steps, of processor time where there is one thread.
 * What is left of a step beside its layers are sums of gradients of values with several readers. */
#include "base/mem.h"
#include "base/pool.h"
#include "conv/conv.h"
#include "kernels/kernels.h"
#include "model/net.h"
#include "model/nets.h"
#include "model/optimizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LEAST_STEPS = 3, MOST_STEPS = 200, MOST_LAYERS = 128 };
static const double ENOUGH_SECONDS = 1.5;

static const struct bench {
    const char *net;
    size_t batch, channels, pixels, labels;
} benches[] = {
    { "lenet", 64, 1, 28, 10 },      { "resnet18-cifar", 64, 3, 32, 10 },
    { "resnet18", 8, 3, 224, 1000 }, { "alexnet", 8, 3, 224, 1000 },
    { "vgg16", 8, 3, 224, 1000 },
};
enum { N_BENCHES = sizeof benches / sizeof *benches };

static struct wisp_kernels kernels;
static struct wisp_context ctx;
static struct wisp_error err;

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(ctx.pool ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(wisp_status st)
{
    if (st == WISP_OK) return;
    fprintf(stderr, "steps: %s\n", err.text);
    exit(1);
}

/* ---- kinds that count their seconds ---- */

static struct timed { /* of a layer */
    struct wisp_layer_kind kind;
    const struct wisp_layer_kind *real;
    double forward, back, best_forward, best_back;
} timed[MOST_LAYERS];

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *e)
{
    struct timed *t = &timed[l->number];
    const double start = seconds_now();
    wisp_status st = t->real->forward(l, s, in, out, e);
    t->forward += seconds_now() - start;
    return st;
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *e)
{
    struct timed *t = &timed[l->number];
    const double start = seconds_now();
    wisp_status st = t->real->backward(l, s, in, out, e);
    t->back += seconds_now() - start;
    return st;
}

static void count_seconds(struct wisp_net *net)
{
    for (int i = 0; i < net->n_layers; i++) {
        struct timed *t = &timed[i];
        *t = (struct timed){ .kind = *net->layers[i].kind,
                             .real = net->layers[i].kind,
                             .best_forward = 1e9,
                             .best_back = 1e9 };
        if (t->real->head) continue;
        t->kind.forward = forward, t->kind.backward = backward;
        net->layers[i].kind = &t->kind;
    }
}

/* ---- a batch ---- */

static void fill_batch(struct wisp_batch *b, const struct bench *what)
{
    const size_t n = what->batch, floats = n * what->channels * what->pixels * what->pixels;
    *b = (struct wisp_batch){ .n = n };
    b->planes = wisp_alloc(floats, sizeof *b->planes);
    for (size_t i = 0; i < floats; i++) b->planes[i] = (float)(i * 7919 % 1013) / 506.5f - 1;
    b->xp = wisp_zalloc(n + 1, sizeof *b->xp);
    b->yp = wisp_zalloc(n + 1, sizeof *b->yp);
    b->yi = wisp_zalloc(n, sizeof *b->yi);
    b->place = wisp_zalloc(n, sizeof *b->place);
    b->sample = wisp_zalloc(n, sizeof *b->sample);
    b->logit = wisp_zalloc(n, sizeof *b->logit);
    for (size_t i = 0; i < n; i++) {
        b->yi[i] = (int32_t)(i * 37 % what->labels);
        b->yp[i + 1] = b->yp[i] + 1;
    }
}

static void free_batch(struct wisp_batch *b)
{
    wisp_free(b->planes), wisp_free(b->xp), wisp_free(b->yp), wisp_free(b->yi);
    wisp_free(b->place), wisp_free(b->sample), wisp_free(b->logit);
}

/* ---- a net ---- */

static void print_layers(const struct wisp_net *net, double step)
{
    double known = 0;
    printf("%10s %10s  layer\n", "forward", "back");
    for (int i = 0; i < net->n_layers; i++) {
        const struct timed *t = &timed[i];
        if (t->real->head) continue;
        if (t->best_back > 1e8) timed[i].best_back = 0;
        known += t->best_forward + t->best_back;
        printf("%10.3f %10.3f  %d %s %s\n", 1e3 * t->best_forward, 1e3 * t->best_back, i,
               t->real->name, net->layers[i].name);
    }
    for (size_t k = 0; wisp_layer_kind_at(k); k++) {
        double ahead = 0, back = 0;
        for (int i = 0; i < net->n_layers; i++)
            if (timed[i].real == wisp_layer_kind_at(k) && !timed[i].real->head)
                ahead += timed[i].best_forward, back += timed[i].best_back;
        if (ahead > 0)
            printf("%10.3f %10.3f  all %s\n", 1e3 * ahead, 1e3 * back, wisp_layer_kind_at(k)->name);
    }
    printf("%21.3f  head and sums of gradients\n", 1e3 * (step - known));
}

static double run_steps(struct wisp_net *net, const struct bench *what)
{
    struct wisp_batch batch;
    struct wisp_optimizer o;
    check(wisp_optimizer_init(&o, wisp_optimizer_find("sgd"), &kernels, 0.9, &err));
    fill_batch(&batch, what);
    o.lr = 1e-4f;
    struct wisp_step s = { .ctx = &ctx, .batch = &batch, .training = true, .update = &o.update };
    double best = 1e9, sum = 0;
    for (int step = 0; step < LEAST_STEPS || (step < MOST_STEPS && sum < ENOUGH_SECONDS); step++) {
        for (int i = 0; i < net->n_layers; i++) timed[i].forward = timed[i].back = 0;
        s.head = (struct wisp_head_step){ .loss = wisp_loss_find("softmax") };
        s.number = o.step = (uint64_t)step;
        const double start = seconds_now();
        check(wisp_net_step(net, &s, &err));
        const double seconds = seconds_now() - start;
        sum += seconds;
        if (seconds >= best) continue; /* all layers of one step: they add up */
        best = seconds;
        for (int i = 0; i < net->n_layers; i++)
            timed[i].best_forward = timed[i].forward, timed[i].best_back = timed[i].back;
    }
    free_batch(&batch);
    wisp_optimizer_clear(&o);
    return best;
}

static void run_net(const struct bench *what)
{
    struct wisp_net_text text;
    struct wisp_net net = { 0 };
    const size_t features = what->channels * what->pixels * what->pixels;
    struct wisp_layer_sizes sizes = { .batch = what->batch,
                                      .labels = what->batch,
                                      .active = what->labels,
                                      .training = true,
                                      .ctx = &ctx,
                                      .image = { 3,
                                                 { what->channels, what->pixels, what->pixels } } };
    check(wisp_net_text_read(&text, what->net, &err));
    check(wisp_net_plan_text(&net, text.text, what->net, features, what->labels, &sizes, &err));
    check(wisp_net_alloc_params(&net, &err));
    wisp_net_init(&net, 1, ctx.pool);
    wisp_net_decay(&net, 5e-4f);
    check(wisp_net_alloc_state(&net, WISP_SLOT_M, &err));
    check(wisp_work_alloc(&net, wisp_pool_threads(ctx.pool), &err));
    count_seconds(&net);
    const double best = run_steps(&net, what);
    printf("%s: %.3f ms per step of %zu, %.1f MiB\n", what->net, 1e3 * best, what->batch,
           (double)net.work.bytes / 1048576);
    print_layers(&net, best);
    fflush(stdout);
    for (int i = 0; i < net.n_layers; i++) net.layers[i].kind = timed[i].real;
    wisp_net_clear(&net);
    wisp_net_text_clear(&text);
}

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? atoi(argv[1]) : 1;
    const char *cache = getenv("WISP_CONV_FILE");
    check(wisp_kernels_select(&kernels, argc > 3 ? argv[3] : NULL, &err));
    struct wisp_conv_choice choice = { .k = &kernels, .measure = true, .file = cache };
    ctx = (struct wisp_context){ .k = &kernels, .conv = &choice };
    if (threads > 1) check(wisp_pool_create(&ctx.pool, threads, &err));
    printf("kernels %s, %d threads\n", kernels.name, threads);
    for (size_t i = 0; i < N_BENCHES; i++)
        if (argc < 3 || strcmp(argv[2], benches[i].net) == 0) run_net(&benches[i]);
    wisp_pool_free(ctx.pool);
    return 0;
}

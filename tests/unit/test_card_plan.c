/* What a card's step takes within less of its memory, planned without a card: nets of images, by the
 * part for cards, where it was built (cuda/cuda.h).  Sizes are those of kernels of our own; with a
 * card and its libraries they are others, and the same must hold. */
#include "base/mem.h"
#include "model/card.h"
#include "model/nets.h"
#include "model/optimizer.h"
#include "test.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

enum { LABELS = 1000, ROWS = 256 };

static wisp_error err;
static wisp_context ctx;
static const struct wisp_cuda *api;

static double mib(size_t bytes)
{
    return (double)bytes / (1 << 20);
}

/* Weights and SGD's state are counted, never touched: no memory is taken for them. */
static void lend_state(struct wisp_net *net)
{
    static float somewhere;
    for (size_t i = 0; i < net->list.n; i++) {
        struct wisp_param *p = &net->list.p[i];
        p->w = &somewhere;
        p->m = p->role == WISP_TRAINED ? &somewhere : NULL;
    }
}

struct asked {
    const char *net;
    size_t side, channels, batch;
    enum wisp_precision_id precision;
};

static bool plan(struct wisp_cuda_bytes *out, const struct asked *a, size_t most)
{
    static uint32_t starts[ROWS + 1];
    static uint8_t pixels[1];
    struct wisp_net_text text;
    struct wisp_net net;
    const struct wisp_layer_sizes sizes = { .batch = a->batch,
                                            .active = LABELS,
                                            .training = true,
                                            .image = { 3, { a->channels, a->side, a->side } },
                                            .ctx = &ctx };
    const size_t n = a->channels * a->side * a->side;
    wisp_status st = wisp_net_text_read(&text, a->net, &err);
    if (st == WISP_OK) st = wisp_net_plan(&net, text.line, n, LABELS, &sizes, &err);
    CHECK(st == WISP_OK, "%s: %s", a->net, err.text);
    if (st != WISP_OK) return false;
    lend_state(&net);
    const struct wisp_cuda_block rows = { .n = ROWS, .xp = starts, .yp = starts, .px = pixels };
    const struct wisp_cuda_setup s = { .graph = wisp_net_graph(&net),
                                       .batch = a->batch,
                                       .optimizer = WISP_SGD,
                                       .loss = WISP_SOFTMAX,
                                       .precision = a->precision,
                                       .most_bytes = most,
                                       .n_rows = ROWS,
                                       .n_blocks = 1,
                                       .blocks = &rows,
                                       .pixels = n,
                                       .room = LABELS,
                                       .most_labels = a->batch,
                                       .keep = 1,
                                       .deep = 1,
                                       .finders = { .full = true } };
    st = api->bytes(out, &s, &err);
    CHECK(st == WISP_OK, "%s: %s", a->net, err.text);
    wisp_net_clear(&net);
    wisp_net_text_clear(&text);
    return st == WISP_OK;
}

/* Half of what vgg16 needs is enough, by lots and by state on the host. */
static void test_half(void)
{
    TEST("vgg16 within half of what it needs");
    for (int i = 0; i < 2; i++) {
        const struct asked a = { "vgg16", 224, 3, 64, i ? WISP_IN_TF32 : WISP_IN_BF16 };
        struct wisp_cuda_bytes whole, half;
        if (!plan(&whole, &a, SIZE_MAX) || !plan(&half, &a, whole.all / 2)) return;
        printf("     %s: %.0f MiB, of a step %.0f; within half: %.0f, of a step %.0f (%.0f at "
               "once), %d layers through %zu samples at a time, %d again, %.1f ms; state of %d on "
               "the host, %.0f MiB, %.1f ms on its way\n",
               i ? "tf32" : "bf16", mib(whole.all), mib(whole.step), mib(half.all), mib(half.step),
               mib(half.bound), half.lot_layers, half.lot_samples, half.n_again,
               half.again_us / 1e3, half.n_outside, mib(half.outside), half.outside_us / 1e3);
        CHECK(whole.lot_layers == 0 && whole.lot_stop == -1 && whole.n_again == 0, "%d layers",
              whole.lot_layers);
        CHECK(half.all <= whole.all / 2, "%.1f of %.1f MiB", mib(half.all), mib(whole.all));
        CHECK(whole.n_outside == 0 && half.n_outside > 0 && half.n_outside <= 2,
              "state of %d and %d layers on the host", whole.n_outside, half.n_outside);
        CHECK(half.lot_layers > 1 && half.lot_samples < a.batch && half.lot_stop == -1,
              "%d layers, %zu samples", half.lot_layers, half.lot_samples);
        CHECK((double)half.step <= 1.05 * (double)half.bound, "%zu bytes, bound %zu", half.step,
              half.bound);
    }
}

/* Batch norm behind the first convolution: nothing to be had by lots. */
static void test_norm(void)
{
    TEST("batch norm forbids lots, and the plan has its layer");
    const struct asked a = { "resnet18", 224, 3, 128, WISP_IN_BF16 };
    struct wisp_cuda_bytes whole, least;
    if (!plan(&whole, &a, SIZE_MAX) || !plan(&least, &a, 1)) return;
    printf("     %.0f MiB of a step, at least %.0f\n", mib(whole.step), mib(least.step));
    CHECK(least.lot_layers == 0 && least.lot_stop == 2, "%d layers, stop at %d", least.lot_layers,
          least.lot_stop);
    CHECK(least.step < whole.step && least.n_again > 0, "%zu of %zu bytes", least.step, whole.step);
}

static const struct wisp_cuda *open_part(void)
{
    char path[1100] = "", *end;
    const ssize_t n = readlink("/proc/self/exe", path, 1000);
    for (int up = 0; n > 0 && up < 3; up++) /* BUILD/tests/unit/test_card_plan */
        if ((end = strrchr(path, '/'))) *end = 0;
    strcat(path, "/wisp-cuda.so");
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct wisp_cuda *(*table)(void) = NULL;
    if (so) *(void **)&table = dlsym(so, "wisp_cuda_table");
    return table ? table() : NULL;
}

int main(void)
{
    struct wisp_kernels k;
    CHECK(wisp_kernels_select(&k, NULL, &err) == WISP_OK &&
              wisp_pool_create(&ctx.pool, 1, &err) == WISP_OK,
          "%s", err.text);
    ctx.k = &k;
    api = open_part();
    if (!api) {
        TEST("a card's plan");
        SKIP("no wisp-cuda.so: it is built where nvcc is found");
        return test_end();
    }
    CHECK(api->version == WISP_CUDA_VERSION, "version %d", api->version);
    test_half();
    test_norm();
    wisp_pool_free(ctx.pool);
    return test_end();
}

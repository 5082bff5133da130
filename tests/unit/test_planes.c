/* Kinds that read channels with height and width: the sizes of what they give, lines that are
 * refused, and small cases by hand.  (Gradients: property/test_layers.c.) */
#include "layer_rig.h"

static wisp_status plan(struct wisp_net *net, const char *text)
{
    const struct wisp_layer_sizes sizes = { .batch = 3, .active = 4, .training = true };
    memset(&err, 0, sizeof err);
    return wisp_net_plan(net, text, 5, 4, &sizes, &err);
}

/* ---- sizes ---- */

static void test_sizes(void)
{
    static const struct {
        const char *text; /* behind "input ..., unflat ..." */
        size_t c, h, w;   /* of what it reads */
        size_t oc, oh, ow;
        size_t weights; /* of the last layer */
    } cases[] = {
        { "conv 64 11 stride=4 pad=2", 3, 224, 224, 64, 55, 55, 64 * 3 * 121 + 64 },
        { "conv 64 7x7 stride=2 pad=3 bias=no", 3, 224, 224, 64, 112, 112, 64 * 3 * 49 },
        { "conv 6 5", 1, 28, 28, 6, 28, 28, 6 * 25 + 6 },
        { "conv 6 5 pad=0", 1, 28, 28, 6, 24, 24, 6 * 25 + 6 },
        { "conv 5 2", 2, 7, 8, 5, 6, 7, 5 * 2 * 4 + 5 }, /* an even kernel: no larger image */
        { "conv 5 4", 2, 7, 8, 5, 6, 7, 5 * 2 * 16 + 5 },
        { "conv 5 1x3", 2, 7, 8, 5, 7, 8, 5 * 2 * 3 + 5 },
        { "conv 5 1x3 pad=0x1", 2, 7, 8, 5, 7, 8, 5 * 2 * 3 + 5 },
        { "conv 4 3 groups=2", 6, 3, 3, 4, 3, 3, 4 * 3 * 9 + 4 },
        { "conv 6 3 groups=6 bias=no", 6, 3, 3, 6, 3, 3, 6 * 9 },
        { "maxpool 2", 3, 28, 28, 3, 14, 14, 0 },
        { "maxpool 2", 3, 5, 7, 3, 2, 3, 0 },
        { "maxpool 3 2", 3, 55, 55, 3, 27, 27, 0 },
        { "maxpool 3 stride=2 pad=1", 3, 112, 112, 3, 56, 56, 0 },
        { "maxpool kernel=3x2 stride=1", 3, 5, 5, 3, 3, 4, 0 },
        { "avgpool 7", 3, 7, 7, 3, 1, 1, 0 },
        { "avgpool 2 2 1", 3, 4, 4, 3, 3, 3, 0 },
        { "conv 17 3, bn", 3, 4, 5, 17, 4, 5, 34 }, /* scale and shift of each channel */
        { "conv 17 3, relu, dropout 0.5, clip 3, identity", 3, 4, 5, 17, 4, 5, 0 },
        { "as a, conv 20 3, concat a", 3, 4, 5, 23, 4, 5, 0 },
    };
    TEST("planes: sizes of results, and of weights");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200];
        struct wisp_net net;
        snprintf(text, sizeof text, "input %zu, unflat %zu %zux%zu, %s, flatten",
                 cases[i].c * cases[i].h * cases[i].w, cases[i].c, cases[i].h, cases[i].w,
                 cases[i].text);
        CHECK(plan(&net, text) == WISP_OK, "%s: %s", text, err.text);
        if (!net.layers) continue;
        const struct wisp_act *a = &net.acts[net.n_layers - 2];
        const struct wisp_layer *l = &net.layers[net.n_layers - 3];
        size_t weights = 0;
        for (int k = 0; k < l->n_params; k++)
            if (l->params[k].role == WISP_TRAINED) weights += l->params[k].n;
        CHECK(a->shape.rank == 3 && a->shape.dim[0] == cases[i].oc &&
                  a->shape.dim[1] == cases[i].oh && a->shape.dim[2] == cases[i].ow,
              "%s: %zu x %zu x %zu", text, a->shape.dim[0], a->shape.dim[1], a->shape.dim[2]);
        CHECK(a->width == cases[i].oc * cases[i].oh * cases[i].ow, "%s: %zu", text, a->width);
        CHECK(a->floats == (a->form == WISP_PLANES
                                ? wisp_up(cases[i].oc, 16) * cases[i].oh * cases[i].ow
                                : a->width),
              "%s: %zu floats", text, a->floats);
        CHECK(weights == cases[i].weights, "%s: %zu weights", text, weights);
        wisp_net_clear(&net);
    }
}

/* ---- lines that are refused ---- */

static void test_refused(void)
{
#define IMAGE "input 48, unflat 3 4, " /* 22 characters */
    static const struct {
        const char *text, *why;
    } bad[] = {
        { "input 8, conv 4 3", "--net:1:10: 'conv' takes channels with height and width, found 8 "
                               "units; a net of images begins with 'image'" },
        { "input 8, maxpool 2", ":10: 'maxpool' takes channels with height and width" },
        { "input 8, avgpool 2", ":10: 'avgpool' takes channels with height and width" },
        { "input 8, globalavg", ":10: 'globalavg' takes channels with height and width" },
        { "conv 4 3", "--net:1:1: the first layer must be 'input'" },
        { "maxpool 3", "--net:1:1: the first layer must be 'input'" },
        { IMAGE "dense 4", "--net:1:23: 'dense' takes units, found 3 x 4 x 4 (channels x height x "
                           "width); 'flatten' makes units of them" },
        { IMAGE "conv 5 3, dense 4", ":33: 'dense' takes units, found 5 x 4 x 4" },
        { IMAGE "conv 5 3, sampled 4", ":33: 'sampled' takes units, found 5 x 4 x 4" },
        { IMAGE "conv 5 3, sparse random 4", ":33: 'sparse' takes units, found 5 x 4 x 4" },
        { IMAGE "conv 5 3", ":31: 'output' takes units, found 5 x 4 x 4" },
        { IMAGE "conv 5 3, output", ":33: 'output' takes units, found 5 x 4 x 4" },
        { IMAGE "conv 5 5 pad=0", ":23: 'conv' has a kernel of 5x5, larger than what it reads, 3 x "
                                  "4 x 4 (channels x height x width), with its pad of 0x0; take a "
                                  "smaller one, or larger images" },
        { IMAGE "conv 5 1x7 pad=1x1", "'conv' has a pad of 1x1, expected less than its kernel of "
                                      "1x7" },
        { IMAGE "conv 5 1x7 pad=0x1", "larger than what it reads" },
        { IMAGE "maxpool 5",
          "'maxpool' has a kernel of 5x5, larger than what it reads, 3 x 4 x 4" },
        { IMAGE "maxpool 2 2 2", "'maxpool' has a pad of 2x2, expected less than its kernel of "
                                 "2x2" },
        { IMAGE "avgpool 5x2", "'avgpool' has a kernel of 5x2, larger than" },
        { IMAGE "conv 4 3 groups=2",
          ":23: 'conv' has 2 groups, which do not divide its 3 and 4 channels" },
        { IMAGE "conv 4 3 groups=3", "'conv' has 3 groups, which do not divide its 3 and 4" },
        { IMAGE "conv 5 3 as a, conv 6 3, add a, flatten",
          "'add' needs values of one shape: the first has 6 x 4 x 4 (channels x height x width), "
          "number 2 has 5 x 4 x 4 (channels x height x width)" },
        { IMAGE "conv 5 3 as a, conv 5 3 stride=2, add a, flatten",
          "the first has 5 x 2 x 2 (channels x height x width), number 2 has 5 x 4 x 4" },
        { IMAGE "as a, conv 3 3, add a, flatten", "'add' cannot add an image as it is read" },
        { IMAGE "as a, conv 5 3 stride=2, concat a, flatten",
          "'concat' needs values of the same height and width: the first has 5 x 2 x 2 (channels x "
          "height x width), number 2 has 3 x 4 x 4" },
        { IMAGE "conv 5 3, flatten as a, from a, dense 4 as b, concat a b, flatten, conv 3 3",
          "'conv' takes channels with height and width, found 88 units" },
        { IMAGE "flatten as a, unflat 3 4, concat a, flatten",
          "the first has 3 x 4 x 4 (channels x height x width), number 2 has 48 units" },
    };
    TEST("planes: lines that are refused say both shapes and the place");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct wisp_net net;
        wisp_status st = plan(&net, bad[i].text);
        CHECK(st == WISP_EINVAL && strstr(err.text, bad[i].why), "'%s': %d '%s'", bad[i].text, st,
              err.text);
        CHECK(strlen(err.text) < 300, "'%s'", err.text);
        wisp_net_clear(&net);
    }
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);
}

/* ---- by hand ---- */

/* Layer 2 of the net, by itself, forward and backward. */
static void run_layer(struct wisp_net *net, size_t n, float *x, float *y, float *gx, float *gy)
{
    struct wisp_kernels k;
    struct wisp_context ctx = { .k = &k };
    struct wisp_batch b = { .n = n };
    struct wisp_step s = { .ctx = &ctx, .batch = &b, .training = true };
    wisp_kernels_scalar(&k);
    struct wisp_layer *l = &net->layers[2];
    struct wisp_act in = net->acts[2], out = net->acts[3], *back = &in;
    const struct wisp_act *from = &in;
    in.x = x, in.g = gx, out.x = y, out.g = gy;
    CHECK(wisp_work_alloc(net, 1, &err) == WISP_OK, "%s", err.text);
    CHECK(l->kind->forward(l, &s, &from, &out, &err) == WISP_OK, "%s", err.text);
    if (gx) CHECK(l->kind->backward(l, &s, &back, &out, &err) == WISP_OK, "%s", err.text);
}

static bool equal(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i]) return false;
    return true;
}

static void test_pools(void)
{
    float x[12] = { 1, 5, 5, /**/ 2, 5, 0, /**/ -3, -1, -1, /**/ -2, -7, -1 }, y[8], gx[12];
    struct wisp_net net;
    TEST("planes: the gradient goes to the first of equal largest values");
    CHECK(plan(&net, "input 6, unflat 1 2x3, maxpool 2 1, flatten") == WISP_OK, "%s", err.text);
    run_layer(&net, 2, x, y, gx, (float[]){ 1, 10, 100, 1000 });
    CHECK(equal(y, (float[]){ 5, 5, -1, -1 }, 4), "%g %g %g %g", y[0], y[1], y[2], y[3]);
    CHECK(equal(gx, (float[]){ 0, 11, 0, 0, 0, 0, 0, 1100, 0, 0, 0, 0 }, 12), "%g %g, %g %g", gx[1],
          gx[2], gx[7], gx[8]);
    wisp_net_clear(&net);

    TEST("planes: what lies outside does not count for maxpool, and is 0 for avgpool");
    CHECK(plan(&net, "input 6, unflat 1 2x3, maxpool 2 2 1, flatten") == WISP_OK, "%s", err.text);
    run_layer(&net, 2, x, y, gx, (float[]){ 1, 2, 3, 4, 5, 6, 7, 8 });
    CHECK(equal(y, (float[]){ 1, 5, 2, 5, -3, -1, -2, -1 }, 8), "%g %g %g %g", y[4], y[5], y[6],
          y[7]);
    CHECK(equal(gx, (float[]){ 1, 2, 0, 3, 4, 0, 5, 6, 0, 7, 0, 8 }, 12), "%g %g", gx[0], gx[1]);
    wisp_net_clear(&net);
    CHECK(plan(&net, "input 6, unflat 1 2x3, avgpool 2 2 1, flatten") == WISP_OK, "%s", err.text);
    run_layer(&net, 1, x, y, gx, (float[]){ 4, 8, 12, 16 });
    CHECK(equal(y, (float[]){ 0.25, 2.5, 0.5, 1.25 }, 4), "%g %g %g %g", y[0], y[1], y[2], y[3]);
    CHECK(equal(gx, (float[]){ 1, 2, 2, 3, 4, 4 }, 6), "%g %g", gx[0], gx[1]);
    wisp_net_clear(&net);

    TEST("planes: a NaN is seen");
    x[3] = NAN;
    CHECK(plan(&net, "input 6, unflat 1 2x3, maxpool 2 1, flatten") == WISP_OK, "%s", err.text);
    run_layer(&net, 1, x, y, NULL, NULL);
    CHECK(isnan(y[0]) && y[1] == 5, "%g %g", y[0], y[1]);
    wisp_net_clear(&net);
}

static void test_orders(void)
{
    enum { C = 18, H = 2, W = 3, UNITS = C * H * W, FLOATS = 32 * H * W };
    float x[FLOATS], y[UNITS], gx[FLOATS], gy[UNITS];
    struct wisp_net net;
    TEST("planes: 'flatten' gives channels, rows, columns, and channels past the last are 0");
    CHECK(plan(&net, "input 12, unflat 2 2x3, conv 18 1, flatten") == WISP_OK, "%s", err.text);
    for (size_t i = 0; i < FLOATS; i++) x[i] = gx[i] = -1;
    for (size_t c = 0; c < C; c++)
        for (size_t i = 0; i < H * W; i++)
            x[wisp_plane_at(c, i / W, i % W, H, W, 16)] = (float)(c * H * W + i);
    for (size_t i = 0; i < UNITS; i++) gy[i] = (float)i;
    struct wisp_batch b = { .n = 1 };
    struct wisp_context ctx = { 0 };
    struct wisp_step s = { .ctx = &ctx, .batch = &b };
    struct wisp_layer *l = &net.layers[3];
    struct wisp_act in = net.acts[3], out = net.acts[4], *back = &in;
    const struct wisp_act *from = &in;
    in.x = x, in.g = gx, out.x = y, out.g = gy;
    CHECK(in.floats == FLOATS && out.floats == UNITS && in.form == WISP_PLANES &&
              out.form == WISP_FLAT,
          "%zu and %zu floats", in.floats, out.floats);
    l->kind->forward(l, &s, &from, &out, &err);
    l->kind->backward(l, &s, &back, &out, &err);
    for (size_t i = 0; i < UNITS; i++) CHECK(y[i] == (float)i, "unit %zu: %g", i, y[i]);
    for (size_t c = 0; c < 32; c++)
        for (size_t i = 0; i < H * W; i++) {
            float want = c < C ? (float)(c * H * W + i) : 0,
                  got = gx[wisp_plane_at(c, i / W, i % W, H, W, 16)];
            CHECK(got == want, "channel %zu, pixel %zu: %g", c, i, got);
        }
    wisp_net_clear(&net);
}

/* ---- what nobody computes ---- */

/* The places past the last channel of n samples that are not 0. */
static size_t not_zero(const float *x, const struct wisp_planes *p, size_t n)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t c = p->channels; c < p->blocks * p->block; c++)
            for (size_t q = 0; q < p->h * p->w; q++)
                found +=
                    x[i * p->floats + wisp_plane_at(c, q / p->w, q % p->w, p->h, p->w, p->block)] !=
                    0;
    return found;
}

static void test_rest(const struct wisp_kernels *k)
{
    char name[100];
    size_t seen = 0;
    snprintf(name, sizeof name, "planes: %s: channels past the last are 0 in values and gradients",
             k->name);
    TEST(name);
    rig_planes = rig_keep = true;
    for (uint64_t i = 0; i < 60; i++) {
        struct rig r;
        if (!rig_init(&r, k, 2, 2000003 * (i + 1), 1, false)) break;
        gradients(&r, wisp_loss_at(0), (struct wisp_active){ .n = r.n_labels }, false);
        for (int v = 1; v < r.net.n_layers; v++) {
            const struct wisp_act *a = &r.net.acts[v];
            if (a->form != WISP_PLANES) continue;
            const struct wisp_planes p = wisp_planes_of(a);
            const size_t n = r.step.batch->n, x = not_zero(a->x, &p, n),
                         g = a->learns ? not_zero(a->g, &p, n) : 0;
            CHECK(x + g == 0, "'%s': what '%s' (%d) gives has %zu values and %zu gradients", r.spec,
                  r.net.layers[v - 1].kind->name, v - 1, x, g);
            seen += p.channels % p.block != 0;
        }
        rig_clear(&r);
    }
    rig_planes = rig_keep = false;
    CHECK(seen > 100, "only %zu values", seen);
    test_close(); /* before 'name' goes */
}

/* ---- weights that are packed once ---- */

/* As near as a norm that is part of weights is to one behind them. */
static bool close_to(const float *a, const float *b, size_t n)
{
    float most = 1, off = 0;
    for (size_t i = 0; i < n; i++) most = fmaxf(most, fabsf(a[i]));
    for (size_t i = 0; i < n; i++)
        if (!isnan(a[i]) || !isnan(b[i])) off = fmaxf(off, fabsf(a[i] - b[i]));
    return off <= 3e-5f * most;
}

static void test_still(const struct wisp_kernels *k)
{
    char name[100];
    int kept = 0, folded = 0;
    snprintf(name, sizeof name, "planes: %s: nets whose weights stay pack them once", k->name);
    TEST(name);
    rig_planes = true;
    for (uint64_t i = 0; i < 20; i++) {
        struct rig r;
        struct wisp_net net[2];
        if (!rig_init(&r, k, 1, 3000017 * (i + 1), 1, false)) break;
        for (int still = 0; still < 2; still++) {
            const struct wisp_layer_sizes sizes = {
                .batch = r.step.batch->n, .active = r.n_labels, .still = still, .ctx = &r.ctx
            };
            CHECK(wisp_net_plan(&net[still], r.spec, r.n_features, r.n_labels, &sizes, &err) ==
                          WISP_OK &&
                      wisp_work_alloc(&net[still], 1, &err) == WISP_OK,
                  "%s", err.text);
            wisp_net_lend(&net[still], &r.net);
        }
        struct wisp_step s = r.step;
        s.training = false;
        float *first = NULL;
        for (int turn = 0; turn < 3; turn++) { /* the third with other weights */
            const struct wisp_act *a = wisp_net_last(&net[0]), *b = wisp_net_last(&net[1]);
            const size_t bytes = s.batch->n * a->floats * sizeof *a->x;
            CHECK(wisp_net_hidden(&net[0], &s, &err) == WISP_OK &&
                      wisp_net_hidden(&net[1], &s, &err) == WISP_OK,
                  "%s", err.text);
            if (turn < 2)
                CHECK(strstr(r.spec, "bn") ? close_to(a->x, b->x, bytes / 4)
                                           : memcmp(a->x, b->x, bytes) == 0,
                      "'%s': kept weights differ", r.spec);
            for (int l = 0; l < net[1].n_layers; l++) folded += net[1].layers[l].norm != NULL;
            if (turn == 0) memcpy(first = malloc(bytes), a->x, bytes);
            if (turn == 2 && strstr(r.spec, "conv") && !strstr(r.spec, "bn"))
                CHECK(!wisp_finite(a->x, bytes / 4), "'%s': weights of before", r.spec);
            if (turn == 1)
                CHECK(memcmp(a->x, first, bytes) == 0, "'%s': the second time differs", r.spec);
            if (turn == 2) kept += strstr(r.spec, "conv") && wisp_finite(b->x, bytes / 4);
            for (int l = 0; turn == 1 && l < r.net.n_layers; l++)
                if (r.net.layers[l].kind == &wisp_layer_conv)
                    for (size_t e = 0; e < r.net.layers[l].params[0].n; e++)
                        r.net.layers[l].params[0].w[e] = NAN;
        }
        free(first);
        wisp_net_clear(&net[0]), wisp_net_clear(&net[1]);
        rig_clear(&r);
    }
    rig_planes = false;
    CHECK(kept > 3, "%d nets kept their weights", kept);
    CHECK(folded > 3, "%d norms were part of weights", folded);
    test_close(); /* before 'name' goes */
}

int main(void)
{
    test_sizes();
    test_refused();
    test_pools();
    test_orders();
    for (size_t i = 0; wisp_kernels_isa(i, NULL); i++) {
        struct wisp_kernels k = { 0 };
        if (wisp_kernels_select(&k, wisp_kernels_isa(i, NULL), &err) != WISP_OK) continue;
        test_rest(&k);
        test_still(&k);
    }
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);
    return test_end();
}

/* How many numbers of a value are 0: what layers count as they write against a plain count, on random
 * nets, by all instruction sets, ways to convolve and numbers of threads; averages by hand; and that
 * counting changes nothing. */
#include "layer/product.h"
#include "layer_rig.h"

/* ---- averages ---- */

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-6;
}

static void test_averages(void)
{
    size_t each[2] = { 160, 40 };
    float shares[2] = { 0 };
    uint64_t live[2][8] = { { 40, 40 }, { 40, 0 } };
    struct wisp_zeros_of z = {
        .blocks = 2, .each = each, .shares = shares, .counted = 1, .live = live[0], .apart = 8
    };
    TEST("zeros: the first steps have their mean, by value and by block");
    wisp_zeros_step(&z, 2); /* 80 of 160 and 40 of 40 are not 0 */
    CHECK(z.steps == 1 && near(z.share, 0.4) && near(shares[0], 0.5) && near(shares[1], 0),
          "%g: %g %g", z.share, (double)shares[0], (double)shares[1]);
    CHECK(z.counted == 0 && live[0][0] == 0 && live[0][1] == 0 && live[1][0] == 0, "not forgotten");
    live[1][0] = 320, live[0][1] = 40, z.counted = 2; /* a step of two samples */
    wisp_zeros_step(&z, 2);
    CHECK(z.steps == 2 && near(z.share, 0.25) && near(shares[0], 0.25) && near(shares[1], 0.25),
          "%g: %g %g", z.share, (double)shares[0], (double)shares[1]);

    TEST("zeros: a step that nobody counted is none");
    wisp_zeros_step(&z, 2);
    CHECK(z.steps == 2 && near(z.share, 0.25), "%llu steps, %g", (unsigned long long)z.steps,
          z.share);

    TEST("zeros: after many steps the latest count for a fixed share");
    const uint64_t none[2] = { 0, 0 }, all[2] = { 160, 40 };
    for (int i = 0; i < 2000; i++) wisp_zeros_take(&z, all, 1, 1);
    CHECK(near(z.share, 0), "%g", z.share);
    wisp_zeros_take(&z, none, 1, 1);
    CHECK(near(z.share, 1.0 / WISP_ZEROS_STEPS), "%g", z.share);
    struct wisp_zeros_of other = z;
    float others[2] = { shares[0], shares[1] };
    other.shares = others;
    for (int i = 0; i < 7; i++) wisp_zeros_take(&z, none, 1, 1);
    wisp_zeros_take(&other, none, 7, 7);
    CHECK(near(z.share, other.share) && near(shares[1], others[1]), "seven steps at once: %g, %g",
          other.share, z.share);

    TEST("zeros: more than there are do not make a share below 0");
    const uint64_t many[2] = { 1 << 20, 1 << 20 };
    for (int i = 0; i < 3000; i++) wisp_zeros_take(&z, many, 1, 1);
    CHECK(z.share >= 0 && shares[0] >= 0, "%g", z.share);
}

/* ---- counts ---- */

/* Numbers of a block that are not 0, one by one: channels past the last are no numbers. */
static uint64_t plain(const struct wisp_act *a, size_t n, size_t block, size_t *numbers)
{
    const bool planes = a->form == WISP_PLANES;
    const size_t channels = planes ? a->shape.dim[0] : a->width,
                 pixels = planes ? a->shape.dim[1] * a->shape.dim[2] : 1,
                 first = planes ? block * 16 : 0,
                 end = planes && first + 16 < channels ? first + 16 : channels;
    uint64_t live = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t c = first; c < end; c++)
            for (size_t q = 0; q < pixels; q++) {
                const size_t at = planes ? (block * pixels + q) * 16 + c % 16 : c;
                live += a->x[i * a->floats + at] != 0;
            }
    *numbers = (end - first) * pixels;
    return live;
}

/* Layer by layer, as a value may lie over another one; returns how many values were looked at. */
static int check_counts(struct rig *r, int threads, const char *way, bool pass)
{
    const struct wisp_net *net = &r->net;
    int seen = 0;
    for (int i = 0; i < net->n_layers - 1; i++) {
        const struct wisp_layer *l = &net->layers[i];
        struct wisp_act *out = &net->acts[i + 1];
        const struct wisp_act *in[WISP_MAX_FROM];
        for (int k = 0; k < l->n_from; k++) in[k] = &net->acts[l->from[k]];
        wisp_work_turn(net, i);
        wisp_work_pass(&r->net, i, WISP_WORK_FORWARD);
        if (l->done) continue;
        CHECK(l->kind->forward(l, &r->step, in, out, &err) == WISP_OK, "%s", err.text);
        const struct wisp_zeros_of *z = out->zeros;
        if (!z || l->kind->uses & WISP_HANDS_ON) continue;
        CHECK(z->counted == r->step.batch->n, "'%s': %zu counted", r->spec, z->counted);
        if (pass) { /* the plain way */
            for (int t = 0; t < threads; t++) memset(wisp_zeros_live(z, t), 0, z->blocks * 8);
            out->zeros->counted = 0;
            wisp_layer_count(&r->step, out);
        }
        for (size_t b = 0; b < z->blocks; b++) {
            size_t numbers;
            uint64_t got = 0, want = plain(out, r->step.batch->n, b, &numbers);
            for (int t = 0; t < threads; t++) got += wisp_zeros_live(z, t)[b];
            CHECK(got == want && numbers == z->each[b],
                  "'%s' (%s): layer %d, block %zu: %llu of %zu, not %llu of %zu", r->spec, way, i,
                  b, (unsigned long long)got, z->each[b], (unsigned long long)want, numbers);
        }
        seen++;
    }
    return seen;
}

/* All sizes of tiles, and some that the borders cut. */
static const char *const large[] = {
    "input 90, unflat 2 5x9, conv 70 3 pad=2, relu, maxpool 3 2 1, conv 50 3, bn, relu, flatten",
    "input 300, unflat 3 10, conv 130 3, relu, conv 33 3, relu, avgpool 2, conv 33 5, relu, "
    "flatten",
    "input 324, unflat 1 18, conv 40 11 stride=4 pad=2, relu, conv 66 3, relu, maxpool 2, flatten",
};

static void test_counts(const struct wisp_kernels *k, const char *way, bool half)
{
    static char names[2][120];
    static int turn;
    char *name = names[turn++ % 2]; /* the one before is printed when this one begins */
    const struct wisp_conv_choice how = { .k = k, .only = way };
    int seen = 0;
    snprintf(name, sizeof names[0], "zeros: %s, %s: counts are those of a plain loop", k->name,
             way ? way : "units");
    TEST(name);
    rig_planes = way != NULL;
    rig_conv = way ? &how : NULL;
    rig_precision = half ? &wisp_precision_bf16 : NULL;
    for (uint64_t i = 0; i < 40; i++)
        for (int threads = 1; threads <= 3; threads += 2) {
            struct rig r;
            rig_spec = way && i < sizeof large / sizeof *large ? large[i] : NULL;
            if (!rig_init(&r, k, threads, 77003 * (i + 1), 2, false)) return;
            CHECK(wisp_net_count(&r.net, threads, &err) == WISP_OK, "%s", err.text);
            seen += check_counts(&r, threads, way ? way : "", i % 8 == 7);
            wisp_net_counted(&r.net);
            for (int v = 0; v < r.net.counts.n; v++)
                CHECK(r.net.counts.of[v].steps == 1, "'%s': value %d", r.spec, v);
            rig_clear(&r);
        }
    CHECK(seen > 80, "only %d values", seen);
    rig_planes = false, rig_spec = NULL, rig_conv = NULL, rig_precision = NULL;
}

/* ---- steps ---- */

static void test_same(const struct wisp_kernels *k)
{
    TEST("zeros: gradients and losses are the same bytes with and without");
    rig_planes = true;
    for (uint64_t i = 0; i < 20; i++) {
        struct rig r[2];
        double loss[2];
        for (int with = 0; with < 2; with++) {
            if (!rig_init(&r[with], k, 1 + 2 * with, 31 * (i + 1), 1, false)) return;
            if (with) CHECK(wisp_net_count(&r[1].net, 3, &err) == WISP_OK, "%s", err.text);
            loss[with] = gradients(&r[with], wisp_loss_at(0),
                                   (struct wisp_active){ .n = r[with].n_labels }, false);
        }
        CHECK(memcmp(&loss[0], &loss[1], sizeof *loss) == 0 &&
                  memcmp(r[0].rec.g, r[1].rec.g, r[0].floats * sizeof *r[0].rec.g) == 0,
              "'%s'", r[0].spec);
        for (int v = 0; v < r[1].net.counts.n; v++)
            CHECK(r[1].net.counts.of[v].steps == 1, "'%s': value %d", r[1].spec, v);
        rig_clear(&r[0]), rig_clear(&r[1]);
    }
    rig_planes = false;
}

static void test_wires(const struct wisp_kernels *k)
{
    TEST("zeros: who shares an account, and which values have none");
    struct rig r;
    rig_spec = "input 48, unflat 3 4, conv 17 3, relu, maxpool 2, flatten, dense 5, relu";
    if (!rig_init(&r, k, 1, 5, 1, false)) return;
    CHECK(wisp_net_count(&r.net, 1, &err) == WISP_OK, "%s", err.text);
    const struct wisp_act *a = r.net.acts + 1;
    CHECK(r.net.counts.n == 3 && !a[0].zeros && !a[1].zeros && !a[6].zeros, "%d", r.net.counts.n);
    CHECK(a[2].zeros && a[2].zeros == a[3].zeros && a[3].zeros->layer == 3, "the convolution's");
    CHECK(a[4].zeros && a[4].zeros != a[3].zeros && a[5].zeros == a[4].zeros, "the pool's");
    CHECK(a[7].zeros && a[7].zeros->blocks == 1 && a[7].zeros->each[0] == 5, "the units'");
    CHECK(a[3].zeros->blocks == 2 && a[3].zeros->each[0] == 256 && a[3].zeros->each[1] == 16,
          "blocks of 17 channels");
    char text[500];
    CHECK(wisp_net_zeros_room(&r.net) <= sizeof text, "more room");
    wisp_net_zeros_text(text, &r.net);
    CHECK(strcmp(text, "{}") == 0, "%s", text);
    gradients(&r, wisp_loss_at(0), (struct wisp_active){ .n = r.n_labels }, false);
    r.net.counts.of[0].share = 0.125;
    wisp_net_zeros_text(text, &r.net);
    CHECK(strncmp(text, "{\"3.relu\":0.1250,\"4.maxpool\":", 29) == 0, "%s", text);
    rig_clear(&r);
    rig_spec = NULL;
}

static void test_odd(const struct wisp_kernels *k)
{
    float x[20] = { 0 }, y[20];
    x[0] = -0.0f, x[1] = NAN, x[2] = -NAN, x[3] = 1e-45f, x[4] = -1, x[17] = INFINITY,
    x[18] = -1e-45f;
    TEST("zeros: -0 is 0, a NaN and the smallest number are not");
    for (size_t n = 0; n <= 20; n++) {
        size_t want = 0, kept = 0;
        for (size_t i = 0; i < n; i++) want += i == 1 || i == 2 || i == 3 || i == 17;
        kept = want + (n > 4) + (n > 18);
        CHECK(k->relu_live(y, x, n) == want, "%s: %zu: %zu", k->name, n, k->relu_live(y, x, n));
        CHECK(k->live_count(x, n) == kept, "%s: %zu: %zu", k->name, n, k->live_count(x, n));
    }
}

int main(void)
{
    const char *isa;
    test_averages();
    for (size_t i = 0; (isa = wisp_kernels_isa(i, NULL)); i++) {
        struct wisp_kernels k;
        if (wisp_kernels_select(&k, isa, NULL) != WISP_OK) continue;
        test_odd(&k);
        test_counts(&k, NULL, false);
        test_counts(&k, "direct,plain", false);
        test_counts(&k, "winograd,direct,plain", false);
        test_counts(&k, "skip,direct,plain", false);
        test_counts(&k, "bf16,direct,plain", true);
        test_counts(&k, "plain", false);
        if (i > 0) test_same(&k);
        if (i == 0) test_wires(&k);
    }
    return test_end();
}

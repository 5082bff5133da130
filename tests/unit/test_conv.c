/* Every way to compute a convolution (conv/ways.c), with every instruction set of this machine:
 * against sums written down another way round (each product is added to all that it is a part of),
 * over random sizes; 1, 2 and 4 threads give the same bytes; channels past the last are 0.
 *
 * A way in bf16 has to be as right as the others where all numbers are bf16 already, and within that
 * rounding elsewhere. */
#include "test.h"
#include "base/cut.h"
#include "base/mem.h"
#include "base/pool.h"
#include "conv/conv.h"
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#ifdef __SANITIZE_THREAD__
enum { TRIALS = 6, FEW_SETS = 1 }; /* who writes where is the same for all numbers */
#else
enum { TRIALS = 60, FEW_SETS = 0 };
#endif
enum { SETS = 8, THREADS = 3 };
static const int n_threads[THREADS] = { 1, 2, 4 };

static uint64_t seed = 7;
static wisp_error err;

static size_t below(size_t n)
{
    return (size_t)(test_rand(&seed) % n);
}

/* ---- arrays with borders ---- */

struct array {
    void *block;
    float *p;
    size_t n;
};

/* Parts of n floats that hold nothing, '*apart' floats apart, each with a border behind it. */
static struct array parts_of(size_t n, int parts, size_t *apart)
{
    struct wisp_cut plan = { 0 };
    for (int i = 0; i < parts; i++) wisp_cut_take(&plan, n, sizeof(float));
    struct array a = { wisp_alloc(plan.at, 1), NULL, n };
    struct wisp_cut c = wisp_cut_of(a.block, plan.at, WISP_CUT_FRESH);
    a.p = wisp_cut_take(&c, n, sizeof(float));
    for (int i = 1; i < parts; i++) wisp_cut_take(&c, n, sizeof(float));
    *apart = plan.at / (size_t)parts / sizeof(float);
    return a;
}

static struct array array_of(size_t n)
{
    size_t apart;
    return parts_of(n, 1, &apart);
}

/* Random in (n, channels, pixels), so many of 10 are zeros, of either sign; 0 past the last
 * channel. */
static struct array random_planes(size_t n, size_t channels, size_t h, size_t w, size_t block,
                                  size_t zeros)
{
    const size_t floats = wisp_planes_floats(channels, h, w, block);
    struct array a = array_of(n * floats);
    memset(a.p, 0, a.n * sizeof *a.p);
    for (size_t s = 0; s < n; s++)
        for (size_t c = 0; c < channels; c++)
            for (size_t i = 0; i < h * w; i++)
                a.p[s * floats + wisp_plane_at(c, i / w, i % w, h, w, block)] =
                    below(10) < zeros ? (below(2) ? 0.0f : -0.0f) : test_randf(&seed);
    return a;
}

/* ---- what it should be ---- */

struct sums { /* with the sum of the absolute terms beside each */
    double *v, *mass;
    bool *met; /* it has terms, be they 0 */
    size_t n;
};

static struct sums sums_of(size_t n)
{
    return (struct sums){ calloc(n, sizeof(double)), calloc(n, sizeof(double)),
                          calloc(n, sizeof(bool)), n };
}
static void add(const struct sums *s, size_t at, double v)
{
    s->v[at] += v;
    s->mass[at] += fabs(v);
    s->met[at] = true;
}

struct want {
    struct sums y, gx, gw; /* as x and y lie; plain */
};

static struct want expect(const struct wisp_conv *c, size_t n, const float *x, const float *w,
                          const float *bias, const float *gy)
{
    const size_t xf = wisp_conv_in_floats(c), yf = wisp_conv_out_floats(c), row = wisp_conv_row(c),
                 ins = c->in / c->groups, outs = c->out / c->groups;
    struct want t = { sums_of(n * yf), sums_of(n * xf), sums_of(c->out * row) };
    for (size_t s = 0; s < n; s++)
        for (size_t o = 0; o < c->out; o++)
            for (size_t at = 0; at < c->oh * c->ow; at++) {
                const size_t p = at / c->ow, q = at % c->ow,
                             y = s * yf + wisp_plane_at(o, p, q, c->oh, c->ow, WISP_PLANE_BLOCK);
                if (bias) add(&t.y, y, (double)bias[o]);
                for (size_t e = 0; e < row; e++) {
                    const long u = (long)(p * c->stride + e / c->kw % c->kh) - (long)c->pad_h,
                               v = (long)(q * c->stride + e % c->kw) - (long)c->pad_w;
                    if (u < 0 || v < 0 || u >= (long)c->h || v >= (long)c->w) continue;
                    const size_t ch = o / outs * ins + e / (c->kh * c->kw),
                                 i = s * xf +
                                     wisp_plane_at(ch, (size_t)u, (size_t)v, c->h, c->w, c->block);
                    add(&t.y, y, (double)x[i] * (double)w[o * row + e]);
                    add(&t.gx, i, (double)gy[y] * (double)w[o * row + e]);
                    add(&t.gw, o * row + e, (double)gy[y] * (double)x[i]);
                }
            }
    return t;
}

/* ---- a call ---- */

static const struct wisp_conv_way *way;
static struct wisp_kernels sets[SETS];
static const struct wisp_kernels *k;
static struct wisp_pool *pools[THREADS];

static void say_sizes(char *to, size_t room, const struct wisp_conv *c, size_t n)
{
    snprintf(to, room,
             "%s %s n=%zu %zux%zux%zu (block %zu) -> %zux%zux%zu kernel %zux%zu stride "
             "%zu pad %zux%zu groups %zu",
             way->name, k->name, n, c->in, c->h, c->w, c->block, c->out, c->oh, c->ow, c->kh, c->kw,
             c->stride, c->pad_h, c->pad_w, c->groups);
}

/* Both factors of a term are off by 2^-8 at most. */
static const double TWO_HALVES = 0x1p-7 + 0x1p-16 + 3e-6;

static void round_all(struct array *a)
{
    for (size_t i = 0; i < a->n; i++) {
        const uint32_t bits = (uint32_t)wisp_round16(a->p[i]) << 16;
        memcpy(&a->p[i], &bits, sizeof bits);
    }
}

static void compare(const struct wisp_conv *c, size_t n, const char *what, const float *got,
                    const struct sums *want, bool relu, bool rounds)
{
    char sizes[200];
    double most = 0;
    for (size_t i = 0; i < want->n; i++) most = fmax(most, want->mass[i]);
    for (size_t i = 0; i < want->n; i++) {
        const double rough = want->met[i] ? (double)way->rough * most : 0;
        double v = relu ? fmax(want->v[i], 0) : want->v[i];
        if (fabs((double)got[i] - v) <= (rounds ? TWO_HALVES : 3e-6) * want->mass[i] + rough)
            continue;
        say_sizes(sizes, sizeof sizes, c, n);
        CHECK(false, "%s: %s[%zu] is %g, expected %g", sizes, what, i, (double)got[i], v);
        return;
    }
}

/* One pass into 'out', which holds nothing yet.  The scratch of the threads is another pass's after it,
 * from its first byte to its last (layer/conv.c): no border of the way's own may stay behind there. */
static void call(const struct wisp_conv *c, enum wisp_conv_pass pass, int which,
                 struct wisp_conv_job j, const float *w, struct array *out)
{
    const size_t weights = way->weight_floats(c, pass);
    size_t each = way->thread_floats ? way->thread_floats(c, pass) : 0;
    struct array packed = array_of(weights),
                 scratch = parts_of(each, n_threads[which], &j.thread_apart);
    j.pool = pools[which];
    j.k = k;
    j.thread_scratch = scratch.p;
    j.y = pass == WISP_CONV_FORWARD ? out->p : NULL;
    j.gx = pass == WISP_CONV_DATA ? out->p : NULL;
    j.gw = pass == WISP_CONV_WEIGHTS ? packed.p : NULL;
    if (pass != WISP_CONV_WEIGHTS && weights) wisp_conv_pack(way, c, pass, j.pool, k, packed.p, w);
    if (pass != WISP_CONV_WEIGHTS) j.w = weights ? packed.p : w;
    if (pass == WISP_CONV_DATA) j.x = NULL;
    if (pass == WISP_CONV_FORWARD) j.gy = NULL;
    CHECK(way->run(c, pass, &j, &err) == WISP_OK, "%s", err.text);
    for (int t = 0; t < n_threads[which]; t++)
        memset(scratch.p + (size_t)t * j.thread_apart, 0, each * sizeof(float));
    for (size_t o = 0; pass == WISP_CONV_WEIGHTS && o < c->out; o += WISP_PLANE_BLOCK)
        way->rows(c, k, packed.p, o, out->p + o * wisp_conv_row(c));
    wisp_free(packed.block), wisp_free(scratch.block);
}

static void try_sizes(const struct wisp_conv *c, size_t n)
{
    static const char *const names[] = { "y", "gx", "gw" };
    char sizes[200];
    static const size_t zeros[] = { 0, 0, 5, 7, 9, 10 };
    struct array x = random_planes(n, c->in, c->h, c->w, c->block, zeros[below(6)]),
                 gy = random_planes(n, c->out, c->oh, c->ow, WISP_PLANE_BLOCK, zeros[below(6)]),
                 w = random_planes(1, c->out * wisp_conv_row(c), 1, 1, 1, 0),
                 bias = random_planes(1, c->out, 1, 1, 1, 0);
    const bool has_bias = below(2), relu = below(2), rounds = way->half && below(4) == 0;
    if (way->half && !rounds) round_all(&x), round_all(&gy), round_all(&w);
    struct want want = expect(c, n, x.p, w.p, has_bias ? bias.p : NULL, gy.p);
    const struct sums *wanted[] = { &want.y, &want.gx, &want.gw };
    const bool masked = way->masks && below(2);
    for (size_t i = 0; masked && i < want.gx.n; i++)
        if (!(x.p[i] > 0)) want.gx.v[i] = want.gx.mass[i] = want.gx.met[i] = 0;
    for (int pass = 0; pass < WISP_CONV_PASSES; pass++) {
        if (!way->can(c, (enum wisp_conv_pass)pass, k)) continue;
        struct array out[THREADS];
        struct wisp_conv_job j = {
            .n = n, .x = x.p, .gy = gy.p, .relu = relu, .bias = has_bias ? bias.p : NULL
        };
        if (masked && pass == WISP_CONV_DATA) j.mask = x.p;
        for (int t = 0; t < THREADS; t++) {
            out[t] = array_of(wanted[pass]->n);
            call(c, (enum wisp_conv_pass)pass, t, j, w.p, &out[t]);
        }
        compare(c, n, names[pass], out[0].p, wanted[pass], relu && pass == WISP_CONV_FORWARD,
                rounds);
        say_sizes(sizes, sizeof sizes, c, n);
        for (int t = 1; t < THREADS; t++) {
            CHECK(memcmp(out[0].p, out[t].p, out[0].n * sizeof(float)) == 0,
                  "%s: %s differs with %d threads", sizes, names[pass], n_threads[t]);
            wisp_free(out[t].block);
        }
        wisp_free(out[0].block);
    }
    for (int i = 0; i < 3; i++) free(wanted[i]->v), free(wanted[i]->mass), free(wanted[i]->met);
    wisp_free(x.block), wisp_free(gy.block), wisp_free(w.block), wisp_free(bias.block);
}

/* ---- sizes ---- */

static struct wisp_conv with_result(struct wisp_conv c)
{
    c.oh = wisp_conv_pixels(c.h, c.kh, c.stride, c.pad_h);
    c.ow = wisp_conv_pixels(c.w, c.kw, c.stride, c.pad_w);
    return c;
}

static struct wisp_conv random_sizes(void)
{
    static const size_t channels[] = { 1, 2, 3, 5, 15, 16, 17, 31, 32, 33, 48 },
                        kernels[] = { 1, 1, 2, 3, 3, 3, 4, 5, 7, 11 };
    struct wisp_conv c = { .groups = 1, .block = below(3) ? 16 : 1 };
    do {
        c.kh = kernels[below(10)], c.kw = below(3) ? c.kh : kernels[below(10)];
        c.h = 1 + below(below(4) ? 14 : 30), c.w = 1 + below(below(4) ? 14 : 30);
        c.stride = 1 + below(below(2) ? 2 : 4);
        c.pad_h = below(below(4) ? c.kh : 4), c.pad_w = below(below(4) ? c.kw : 4);
        c = with_result(c);
    } while (c.oh == 0 || c.ow == 0);
    c.in = channels[below(c.block == 1 ? 5 : 11)], c.out = channels[below(11)];
    if (below(4) == 0) { /* groups */
        c.groups = below(2) ? 2 : 3;
        c.in *= c.groups, c.out *= c.groups;
    } else if (below(6) == 0) { /* each channel alone */
        c.groups = c.in;
        c.out = c.in * (1 + below(2));
    }
    return c;
}

static struct wisp_conv random_3x3(void)
{
    struct wisp_conv c = { .kh = 3, .kw = 3, .stride = 1, .groups = 1, .block = WISP_PLANE_BLOCK };
    do {
        c.h = 1 + below(30), c.w = 1 + below(30);
        c.pad_h = below(3), c.pad_w = below(3);
        c = with_result(c);
    } while (c.oh == 0 || c.ow == 0);
    c.in = 1 + below(below(2) ? 16 : 40), c.out = 1 + below(below(2) ? 16 : 80);
    return c;
}

/* Kernels as large as the image with its borders, or nearly so, and lots of many samples. */
static struct wisp_conv random_small(void)
{
    struct wisp_conv c = { .groups = 1, .block = below(3) ? 16 : 1 };
    do {
        c.h = 1 + below(8), c.w = 1 + below(8);
        c.pad_h = below(4), c.pad_w = below(4);
        c.kh = c.h + 2 * c.pad_h - below(4), c.kw = c.w + 2 * c.pad_w - below(4);
        c.stride = 1 + below(4);
    } while (c.kh - 1 >= 11 || c.kw - 1 >= 11); /* 0, and below it, too */
    c = with_result(c);
    c.in = 1 + below(c.block == 1 ? 4 : 40), c.out = 1 + below(40);
    return c;
}

/* Layers of nets that people use, with fewer channels or pixels.  batch: samples, where they matter. */
static const struct wisp_conv known[] = {
    { .in = 3,
      .out = 64,
      .h = 22,
      .w = 23,
      .kh = 11,
      .kw = 11,
      .stride = 4,
      .pad_h = 2,
      .pad_w = 2,
      .groups = 1,
      .block = 1 },
    { .in = 3,
      .out = 32,
      .h = 20,
      .w = 31,
      .kh = 7,
      .kw = 7,
      .stride = 2,
      .pad_h = 3,
      .pad_w = 3,
      .groups = 1,
      .block = 1 },
    { .in = 32,
      .out = 64,
      .h = 14,
      .w = 15,
      .kh = 3,
      .kw = 3,
      .stride = 1,
      .pad_h = 1,
      .pad_w = 1,
      .groups = 1,
      .block = 16 },
    { .in = 64,
      .out = 32,
      .h = 9,
      .w = 9,
      .kh = 3,
      .kw = 3,
      .stride = 2,
      .pad_h = 1,
      .pad_w = 1,
      .groups = 1,
      .block = 16 },
    { .in = 64,
      .out = 128,
      .h = 8,
      .w = 7,
      .kh = 1,
      .kw = 1,
      .stride = 2,
      .groups = 1,
      .block = 16 },
    { .in = 1,
      .out = 6,
      .h = 28,
      .w = 28,
      .kh = 5,
      .kw = 5,
      .stride = 1,
      .pad_h = 2,
      .pad_w = 2,
      .groups = 1,
      .block = 1 },
    { .in = 6,
      .out = 16,
      .h = 14,
      .w = 14,
      .kh = 5,
      .kw = 5,
      .stride = 1,
      .groups = 1,
      .block = 16 },
    { .in = 32,
      .out = 32,
      .h = 40,
      .w = 37,
      .kh = 3,
      .kw = 3,
      .stride = 1,
      .pad_h = 1,
      .pad_w = 1,
      .groups = 1,
      .block = 16 },
    { .in = 64,
      .out = 64,
      .h = 10,
      .w = 10,
      .kh = 3,
      .kw = 3,
      .stride = 1,
      .pad_h = 1,
      .pad_w = 1,
      .groups = 2,
      .block = 16 },
    { .in = 160, /* more blocks than a chunk, and than a task */
      .out = 96,
      .h = 5,
      .w = 6,
      .kh = 3,
      .kw = 3,
      .stride = 1,
      .pad_h = 1,
      .pad_w = 1,
      .groups = 1,
      .block = 16 },
    { .in = 2, /* more columns than are taken at a time */
      .out = 24,
      .h = 6,
      .w = 150,
      .kh = 3,
      .kw = 5,
      .stride = 2,
      .pad_h = 1,
      .pad_w = 2,
      .groups = 1,
      .block = 1 },
    { .in = 6, /* lenet's, of 16 x 16 pixels */
      .out = 16,
      .h = 8,
      .w = 8,
      .kh = 5,
      .kw = 5,
      .stride = 1,
      .groups = 1,
      .block = 16,
      .batch = 32 },
    { .in = 8, /* more samples than a lot has */
      .out = 8,
      .h = 30,
      .w = 30,
      .kh = 3,
      .kw = 3,
      .stride = 1,
      .pad_h = 1,
      .pad_w = 1,
      .groups = 1,
      .block = 16,
      .batch = 13 },
};

/* n samples of a batch that may have more. */
static void try_samples(struct wisp_conv c, size_t n)
{
    c.batch = n + below(3), c.threads = n_threads[THREADS - 1];
    try_sizes(&c, n);
}

static void test_way(void)
{
    char name[100];
    snprintf(name, sizeof name, "way %s, %s kernels", way->name, k->name);
    TEST(name);
    for (int i = 0; i < TRIALS; i++) try_samples(random_sizes(), 1 + below(4));
    for (int i = 0; i < TRIALS / 2; i++) try_samples(random_3x3(), 1 + below(3)); /* Winograd's */
    for (int i = 0; i < TRIALS / 2; i++) try_samples(random_small(), 1 + below(20));
    try_samples(random_sizes(), 0); /* a rank that a short batch has no sample for */
    try_samples(random_3x3(), 0);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        try_samples(with_result(known[i]), known[i].batch ? known[i].batch : 1 + i % 2);
    test_close();
}

static void test_choice(void)
{
    struct wisp_conv c = with_result(known[2]);
    const struct wisp_conv_choice how = { .k = k };
    size_t n = 0;
    TEST("the table: the first that can");
    while (wisp_conv_way_at(n)) n++;
    CHECK(n > 0 && wisp_conv_way_at(n - 1) == &wisp_conv_plain, "'plain' must be the last");
    for (int pass = 0; pass < WISP_CONV_PASSES; pass++) {
        size_t i = 0;
        while (wisp_conv_way_at(i)->half ||
               !wisp_conv_way_at(i)->can(&c, (enum wisp_conv_pass)pass, k))
            i++;
        CHECK(wisp_conv_choose(&c, (enum wisp_conv_pass)pass, &how) == wisp_conv_way_at(i),
              "pass %d: not the first", pass);
    }
    CHECK(wisp_conv_pixels(5, 7, 1, 1) == 1 && wisp_conv_pixels(5, 8, 1, 1) == 0 &&
              wisp_conv_pixels(224, 11, 4, 2) == 55,
          "pixels of results");
}

/* Which way numbers go: x has zeros alone, gy 3 of 4. */
static void test_way_for(const struct wisp_conv *c, enum wisp_conv_pass pass,
                         struct wisp_conv_job j)
{
    static const struct {
        double of_x, of_gy;
        enum wisp_conv_source forward, data, weights; /* ANY: not skipped */
    } cases[] = {
        { 0.9, 0.7, WISP_CONV_OF_X, WISP_CONV_OF_GY, WISP_CONV_OF_X },
        { 0.9, 0.8, WISP_CONV_OF_X, WISP_CONV_ANY, WISP_CONV_OF_X },
        { 2, 0.7, WISP_CONV_ANY, WISP_CONV_OF_GY, WISP_CONV_OF_GY },
        { 2, 0.8, WISP_CONV_ANY, WISP_CONV_ANY, WISP_CONV_ANY },
    };
    double share = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct wisp_conv_zeros z = { &wisp_conv_skip, cases[i].of_x, cases[i].of_gy };
        const enum wisp_conv_source want = pass == WISP_CONV_FORWARD ? cases[i].forward
                                           : pass == WISP_CONV_DATA  ? cases[i].data
                                                                     : cases[i].weights;
        const struct wisp_conv_way *went =
            wisp_conv_way_for(c, pass, &z, &wisp_conv_direct, &j, &share);
        CHECK(j.source == want && went == (want ? &wisp_conv_skip : &wisp_conv_direct),
              "case %zu of pass %d: %s of %d", i, (int)pass, went->name, (int)j.source);
    }
}

/* When zeros are skipped. */
static void test_zeros(void)
{
    static float x[2 * 32 * 14 * 15], gy[2 * 64 * 14 * 15];
    struct wisp_conv c = with_result(known[2]);
    char path[] = "/tmp/wisp-conv-XXXXXX";
    const struct wisp_conv_job j = { .n = 2, .x = x, .gy = gy };
    struct wisp_conv_choice how = { .k = k, .measure = true };
    c.batch = 2, c.threads = 1;
    TEST("zeros: their share, and from which on they are skipped");
    for (size_t i = 0; i < sizeof gy / sizeof *gy; i++) gy[i] = i % 4 ? 0.0f : 1.0f;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = 1;
    CHECK(wisp_conv_zero_share(&c, &j, true) <= 0, "x has none");
    CHECK(fabs(wisp_conv_zero_share(&c, &j, false) - 0.75) < 1e-9, "gy has 3 of 4");
    memset(x, 0, sizeof x);
    CHECK(wisp_conv_zero_share(&c, &j, true) >= 1, "all of x");
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = i / 16 % 14 ? 1.0f : 0.0f;
    const double edge = wisp_conv_zero_share(&c, &j, true); /* the first column of pixels */
    CHECK(edge > 0.03 && edge < 0.11, "one of 14 columns: %g", edge);
    memset(x, 0, sizeof x);

    const int fd = mkstemp(path);
    CHECK(fd >= 0, "no file in /tmp");
    close(fd);
    how.file = path;
    for (int p = 0; p < WISP_CONV_PASSES; p++) {
        const enum wisp_conv_pass pass = (enum wisp_conv_pass)p;
        how.only = NULL, how.zeros = WISP_ZEROS_OFF;
        CHECK(!wisp_conv_zeros(&c, pass, &how, &wisp_conv_direct).way, "off");
        how.zeros = WISP_ZEROS_AUTO; /* 'plain' is slower than anything */
        const struct wisp_conv_zeros z = wisp_conv_zeros(&c, pass, &how, &wisp_conv_plain),
                                     again = wisp_conv_zeros(&c, pass, &how, &wisp_conv_plain);
        const bool of_x = p != WISP_CONV_DATA, of_gy = p != WISP_CONV_FORWARD;
        CHECK(z.way == &wisp_conv_skip && (z.of_x < 0.9) == of_x && (z.of_gy < 0.9) == of_gy,
              "pass %d: %g, %g", p, z.of_x, z.of_gy);
        CHECK(again.way == z.way && fabs(again.of_x - z.of_x) < 1e-9 &&
                  fabs(again.of_gy - z.of_gy) < 1e-9,
              "it is kept: %g, %g and %g, %g", z.of_x, z.of_gy, again.of_x, again.of_gy);
        how.only = "direct";
        CHECK(!wisp_conv_zeros(&c, pass, &how, &wisp_conv_direct).way, "a way is named");
        how.zeros = WISP_ZEROS_FORCE;
        const struct wisp_conv_zeros f = wisp_conv_zeros(&c, pass, &how, &wisp_conv_direct);
        CHECK(f.way == &wisp_conv_skip && f.of_x <= 0 && f.of_gy <= 0, "always");
        test_way_for(&c, pass, j);
    }
    unlink(path);
    c.groups = 2;
    CHECK(!wisp_conv_zeros(&c, WISP_CONV_FORWARD, &how, &wisp_conv_plain).way,
          "not where it cannot");
}

/* test_conv [way]: all of them, or this one alone. */
int main(int argc, char **argv)
{
    int n_sets = 0;
    for (const char *isa; n_sets < SETS && (isa = wisp_kernels_isa((size_t)n_sets, NULL)); n_sets++)
        if (wisp_kernels_select(&sets[n_sets], isa, NULL) != WISP_OK) break;
    for (int t = 0; t < THREADS; t++)
        CHECK(wisp_pool_create(&pools[t], n_threads[t], &err) == WISP_OK, "%s", err.text);
    for (size_t i = 0; (way = wisp_conv_way_at(i)); i++)
        for (int s = 0; s < n_sets; s++) {
            if (way == &wisp_conv_plain && s) continue; /* it uses no kernels */
            if (FEW_SETS && s > 0 && s < n_sets - 1) continue;
            if (argc > 1 && strcmp(argv[1], way->name) != 0) continue;
            k = &sets[s];
            seed = 7;
            test_way();
        }
    k = &sets[n_sets - 1];
    test_choice();
    test_zeros();
    for (int t = 0; t < THREADS; t++) wisp_pool_free(pools[t]);
    return test_end();
}

/* oneDNN's convolutions (wisp-dnnl.so) against the definition.  Where the processor has no AVX-512
 * oneDNN computes them slowly, but it computes them. */
#include "test.h"
#include "base/mem.h"
#include "base/pool.h"
#include "conv/dnnl.h"
#include "kernels/kernels.h"

#include <dlfcn.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

static wisp_error err;
static struct wisp_kernels k;
static struct wisp_pool *pool;
static int n_tried;

static const struct wisp_conv shapes[] = {
    { 16, 16, 6, 6, 6, 6, 3, 3, 1, 1, 1, 1, 16, 0, 0, 0 },
    { 17, 33, 9, 7, 9, 7, 3, 3, 1, 1, 1, 1, 16, 0, 0, 0 },
    { 32, 16, 10, 10, 5, 5, 3, 3, 2, 1, 1, 1, 16, 0, 0, 0 },
    { 64, 32, 7, 9, 4, 5, 1, 1, 2, 0, 0, 1, 16, 0, 0, 0 },
    { 3, 20, 13, 15, 6, 7, 5, 5, 2, 1, 1, 1, 1, 0, 0, 0 },
    { 1, 6, 12, 12, 12, 12, 5, 5, 1, 2, 2, 1, 1, 0, 0, 0 },
    { 32, 64, 4, 5, 4, 5, 5, 5, 1, 2, 2, 2, 16, 0, 0, 0 },
    { 32, 32, 12, 12, 12, 12, 3, 3, 1, 1, 1, 1, 16, 0, 0, 0 },
};

struct arrays {
    float *x, *gy, *w, *bias; /* what is given; channels past the last are 0 */
    float *to, *want, *packed, *gw, *row, *row_want, *scratch;
};

static float *numbers(size_t n, uint64_t *seed)
{
    float *p = wisp_alloc(n, sizeof *p);
    CHECK(p != NULL, "no memory");
    for (size_t i = 0; i < n; i++) p[i] = test_randf(seed) - 0.5f;
    return p;
}

/* (n, blocks, pixels, 16): what is no channel is 0. */
static void clear_rest(float *p, size_t n, size_t channels, size_t pixels)
{
    const size_t all = wisp_up(channels, WISP_PLANE_BLOCK);
    for (size_t s = 0; s < n; s++)
        for (size_t c = channels; c < all; c++)
            for (size_t i = 0; i < pixels; i++)
                p[s * all * pixels + wisp_plane_at(c, 0, i, 1, pixels, WISP_PLANE_BLOCK)] = 0;
}

static void check_same(const char *what, const float *got, const float *want, size_t n)
{
    double most = 0, scale = 1e-3;
    for (size_t i = 0; i < n; i++) scale = fmax(scale, fabs((double)want[i]));
    for (size_t i = 0; i < n; i++) most = fmax(most, fabs((double)got[i] - (double)want[i]));
    CHECK(most <= 1e-4 * scale, "%s: %g off, the largest number is %g", what, most, scale);
}

static void check_pass(const struct wisp_conv_way *way, const struct wisp_conv *c,
                       enum wisp_conv_pass pass, size_t n, const struct arrays *a)
{
    char what[100];
    snprintf(what, sizeof what,
             "%s, %zu to %zu channels, %zux%zu, pass %d, %zu samples, %d threads", way->name, c->in,
             c->out, c->kh, c->kw, (int)pass, n, c->threads);
    if (!way->can(c, pass, &k)) return;
    n_tried++;
    const size_t floats = way->weight_floats(c, pass),
                 scratch = wisp_up(way->thread_floats(c, pass), 16),
                 sizes[] = { n * wisp_conv_out_floats(c), n * wisp_conv_in_floats(c) };
    /* What is before the threads' scratch is nobody's. */
    const size_t before = scratch * (size_t)c->threads;
    float *mine = wisp_alloc(floats, sizeof *mine),
          *room = scratch ? wisp_zalloc(2 * before, sizeof *room) : NULL,
          *to = wisp_alloc(sizes[0] + sizes[1] + c->out * wisp_conv_row(c), sizeof *to),
          *want = wisp_zalloc(sizes[0] + sizes[1], sizeof *want),
          *gw = wisp_zalloc(c->out * wisp_conv_row(c), sizeof *gw);
    CHECK(mine && (room || !scratch) && to && want && gw, "no memory");
    struct wisp_conv_job j = { .pool = pool,
                               .k = &k,
                               .n = n,
                               .x = a->x,
                               .gy = a->gy,
                               .w = a->w,
                               .bias = a->bias,
                               .y = want,
                               .gx = want,
                               .gw = gw,
                               .relu = pass == WISP_CONV_FORWARD };
    CHECK(wisp_conv_plain.run(c, pass, &j, &err) == WISP_OK, "%s", err.text);
    j.y = j.gx = to;
    j.gw = mine;
    j.thread_scratch = room ? room + before : NULL;
    j.thread_apart = scratch;
    if (pass != WISP_CONV_WEIGHTS) {
        wisp_conv_pack(way, c, pass, pool, &k, mine, a->w);
        j.w = mine;
    }
    CHECK(way->run(c, pass, &j, &err) == WISP_OK, "%s: %s", what, err.text);
    size_t written = 0;
    for (size_t i = 0; i < before; i++) written += room[i] != 0;
    CHECK(written == 0, "%s: %zu floats before its scratch are written", what, written);
    if (pass != WISP_CONV_WEIGHTS) check_same(what, to, want, sizes[pass]);
    for (size_t row = 0; row < c->out && pass == WISP_CONV_WEIGHTS; row += WISP_PLANE_BLOCK)
        way->rows(c, &k, mine, row, to + row * wisp_conv_row(c));
    if (pass == WISP_CONV_WEIGHTS) check_same(what, to, gw, c->out * wisp_conv_row(c));
    wisp_free(mine), wisp_free(room), wisp_free(to), wisp_free(want), wisp_free(gw);
}

static void check_shape(const struct wisp_dnnl_part *part, struct wisp_conv c, size_t batch,
                        size_t n, int threads)
{
    uint64_t seed = 1 + c.in;
    c.batch = batch;
    c.threads = threads;
    struct arrays a = { .x = numbers(n * wisp_conv_in_floats(&c), &seed),
                        .gy = numbers(n * wisp_conv_out_floats(&c), &seed),
                        .w = numbers(c.out * wisp_conv_row(&c), &seed),
                        .bias = numbers(c.out, &seed) };
    if (c.block > 1) clear_rest(a.x, n, c.in, c.h * c.w);
    clear_rest(a.gy, n, c.out, c.oh * c.ow);
    for (size_t i = 0; part->ways[i]; i++)
        for (int pass = 0; pass < WISP_CONV_PASSES; pass++)
            check_pass(part->ways[i], &c, (enum wisp_conv_pass)pass, n, &a);
    wisp_free(a.x), wisp_free(a.gy), wisp_free(a.w), wisp_free(a.bias);
}

static const struct wisp_dnnl_part *open_part(void)
{
    char path[1100] = "", *end;
    ssize_t n = readlink("/proc/self/exe", path, 1000);
    for (int up = 0; n > 0 && up < 3; up++) /* BUILD/tests/unit/test_dnnl */
        if ((end = strrchr(path, '/'))) *end = 0;
    strcat(path, "/wisp-dnnl.so");
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!so) return NULL;
    const struct wisp_dnnl_part *(*table)(void) = NULL;
    *(void **)&table = dlsym(so, "wisp_dnnl_table");
    return table ? table() : NULL;
}

int main(void)
{
    const struct wisp_dnnl_part *part = open_part();
    TEST("oneDNN: passes against the definition");
    if (!part) {
        SKIP("no wisp-dnnl.so: it is built where oneDNN's header is found (libdnnl-dev)");
        return test_end();
    }
    CHECK(part->version == WISP_DNNL_VERSION, "version %d", part->version);
    part->use(wisp_parallel_for, true);
    CHECK(wisp_kernels_select(&k, NULL, &err) == WISP_OK, "%s", err.text);
    for (int threads = 1; threads <= 3; threads += 2) {
        CHECK(wisp_pool_create(&pool, threads, &err) == WISP_OK, "%s", err.text);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (size_t n = 1; n <= 5; n += 4) check_shape(part, shapes[i], 5, n, threads);
        wisp_pool_free(pool);
    }
    /* Winograd needs more memory for 61 samples than for the 64 that it was planned for. */
    CHECK(wisp_pool_create(&pool, 1, &err) == WISP_OK, "%s", err.text);
    const struct wisp_conv odd = { 32, 64, 16, 16, 16, 16, 3, 3, 1, 1, 1, 1, 16, 0, 0, 0 };
    check_shape(part, odd, 64, 61, 1);
    wisp_pool_free(pool);
    CHECK(n_tried > 50, "only %d passes could be tried", n_tried);
    return test_end();
}

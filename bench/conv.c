/* Speed of the ways to compute convolutions (src/conv), for the layers of five nets.
 *
 *   bench/run build conv                      (one thread, all nets)
 *   conv [--zeros SHARE] [--layer IN,OUT,PIXELS] [--way NAME] [--pass NAME] [--batch N]
 *        [threads [net [set of kernels]]]
 *
 * --zeros makes so many of x and gy zeros, at random (0: none); ways that skip them are the faster the
 * more there are.  --layer takes the layers of these sizes alone, --way one way, --pass one pass,
 * --batch other numbers of samples.
 *
 * A line is a layer: how often the net has it, GFLOP/s of each way and pass, counted as sums over
 * taps (2 n out oh ow in kh kw) whatever the way does, packing of weights and laying out their
 * gradient by rows included as in a training step; the share of the floor, independent multiply-adds in registers, beside it.  Times are the
 * best of several runs, of processor time where there is one thread.  The last lines add up the
 * convolutions of a training step, the fastest way for each pass (the first layer has no data pass):
 * of those in fp32, and with those in bf16.
 * oneDNN's ways are there where wisp-dnnl.so lies beside the program. */
#include "base/mem.h"
#include "base/pool.h"
#include "kernels/kernels.h"
#include "convs.h"
#include "peak.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEAST_RUNS = 5, MOST_RUNS = 40, MOST_WAYS = 16 };
static const double ENOUGH_SECONDS = 0.12;

static struct wisp_kernels kernels;
static struct wisp_pool *pool;
static double zeros;
static const char *only_way, *only_pass;
static size_t batch; /* 0: each layer's own */
static const char *const passes[] = { "forward", "data", "weights" };
static size_t only[3]; /* in, out, pixels; 0: all layers */

struct totals { /* seconds */
    double fp32, bf16;
};

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(pool ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fill(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = (float)(i * 7 % 13) * 1e-3f - 5.5e-3f;
}

static float *filled(size_t n)
{
    float *x = wisp_alloc(n, sizeof *x);
    if (!x) {
        fputs("conv: out of memory\n", stderr);
        exit(1);
    }
    fill(x, n);
    return x;
}

/* Some of x are zeros. */
static float *with_zeros(float *x, size_t n)
{
    uint64_t s = 1;
    for (size_t i = 0; i < n; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        if ((double)(s >> 33) < zeros * 2147483648.0) x[i] = 0;
        else if (x[i] == 0) x[i] = 1e-3f;
    }
    return x;
}

/* One way of one pass.  Seconds are the least: of a run, and of packing the weights before
 * it or laying out their gradient by rows after it. */
struct racer {
    const struct wisp_conv_way *way;
    size_t floats, each;            /* of packed weights or gw; of a thread's scratch */
    float *packed, *scratch, *rows; /* rows: 16 for each thread */
    double run, pack, sum;
    int runs;
};

static struct racer racer_of(const struct wisp_conv_way *way, const struct wisp_conv *c,
                             enum wisp_conv_pass pass)
{
    struct racer r = { .way = way, .floats = way->weight_floats(c, pass), .run = 1e9, .pack = 1e9 };
    r.each = wisp_up(way->thread_floats ? way->thread_floats(c, pass) : 0, 16);
    r.packed = filled(r.floats);
    r.scratch = filled(r.each * (size_t)wisp_pool_threads(pool));
    r.rows = filled(WISP_PLANE_BLOCK * wisp_conv_row(c) * (size_t)wisp_pool_threads(pool));
    return r;
}

struct laying {
    const struct racer *r;
    const struct wisp_conv *c;
};

/* 16 rows of the weights' gradient, as the optimizer wants them. */
static void lay_rows(void *arg, size_t task, int thread)
{
    const struct laying *g = arg;
    g->r->way->rows(g->c, &kernels, g->r->packed, task * WISP_PLANE_BLOCK,
                    g->r->rows + (size_t)thread * WISP_PLANE_BLOCK * wisp_conv_row(g->c));
}

static void run_once(struct racer *r, const struct wisp_conv *c, enum wisp_conv_pass pass,
                     struct wisp_conv_job j, const float *w)
{
    const bool packs = pass != WISP_CONV_WEIGHTS && r->floats;
    j.pool = pool, j.k = &kernels, j.thread_scratch = r->scratch, j.thread_apart = r->each;
    j.w = r->floats ? r->packed : w, j.gw = r->packed;
    double start = seconds_now();
    if (packs) wisp_conv_pack(r->way, c, pass, pool, &kernels, r->packed, w);
    double middle = packs ? seconds_now() : start;
    if (r->way->run(c, pass, &j, NULL) != WISP_OK) exit(1);
    double end = seconds_now(), pack = middle - start;
    if (pass == WISP_CONV_WEIGHTS) {
        struct laying g = { r, c };
        wisp_parallel_for(pool, wisp_parts(c->out, WISP_PLANE_BLOCK), lay_rows, &g);
        pack = seconds_now() - end;
    }
    if (pack < r->pack) r->pack = pack;
    if (end - middle < r->run) r->run = end - middle;
    r->sum += end - start + pack;
    r->runs++;
}

/* The ways of a pass take turns, so that all have the machine's better and worse moments; returns
 * the least seconds. */
static struct totals race(const struct wisp_conv *c, enum wisp_conv_pass pass,
                          const struct wisp_conv_job *j, const float *w, double work,
                          double peak_rate)
{
    struct racer racers[MOST_WAYS];
    size_t n = 0;
    struct totals least = { INFINITY, INFINITY };
    for (size_t i = 0; wisp_conv_any(i) && n < MOST_WAYS; i++) {
        const struct wisp_conv_way *way = wisp_conv_any(i);
        if (way == &wisp_conv_plain || !way->can(c, pass, &kernels)) continue;
        if (only_way && strcmp(way->name, only_way) != 0) continue;
        racers[n++] = racer_of(way, c, pass);
    }
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < n; i++) {
            const struct racer *r = &racers[i];
            if (r->runs >= LEAST_RUNS && (r->runs >= MOST_RUNS || r->sum >= ENOUGH_SECONDS))
                continue;
            run_once(&racers[i], c, pass, *j, w);
            more = true;
        }
    }
    for (size_t i = 0; i < n; i++) {
        const struct racer *r = &racers[i];
        const double seconds = r->run + r->pack;
        printf("  %s %s %.1f (%.0f%%) %.2f+%.2fms", passes[pass], r->way->name, work / seconds,
               100 * work / seconds / peak_rate, 1e3 * r->run, 1e3 * r->pack);
        if (!r->way->half) least.fp32 = fmin(least.fp32, seconds);
        least.bf16 = fmin(least.bf16, seconds);
        wisp_free(r->packed), wisp_free(r->scratch), wisp_free(r->rows);
    }
    return least;
}

static void time_layer(const struct layer *of, double peak_rate, struct totals *total)
{
    struct layer own = *of;
    const struct layer *l = &own;
    if (batch) own.n = batch;
    const struct wisp_conv c = conv_of(l, wisp_pool_threads(pool));
    const double work = 2e-9 * (double)(l->n * c.out * c.oh * c.ow * wisp_conv_row(&c));
    const size_t in = l->n * wisp_conv_in_floats(&c), out = l->n * wisp_conv_out_floats(&c);
    float *x = with_zeros(filled(in), in), *gx = filled(in), *gy = filled(out), *y = filled(out),
          *w = filled(c.out * wisp_conv_row(&c));
    printf("%-14s x%d %4zu->%-4zu %3zu px %2zux%-2zu/%zu", l->net, l->times, l->in, l->out,
           l->pixels, l->kernel, l->kernel, l->stride);
    for (int pass = 0; pass < WISP_CONV_PASSES; pass++) {
        const struct wisp_conv_job j = { .n = l->n, .x = x, .gy = gy, .y = y, .gx = gx };
        if (pass == WISP_CONV_DATA && l->block == 1) continue;
        if (only_pass && strcmp(only_pass, passes[pass]) != 0) continue;
        if (pass == WISP_CONV_DATA) with_zeros(gy, out); /* weights: those of x, gy as it is */
        if (pass == WISP_CONV_WEIGHTS) fill(gy, out);
        const struct totals least = race(&c, (enum wisp_conv_pass)pass, &j, w, work, peak_rate);
        total->fp32 += least.fp32 * l->times;
        total->bf16 += least.bf16 * l->times;
    }
    putchar('\n');
    fflush(stdout);
    wisp_free(x), wisp_free(gx), wisp_free(gy), wisp_free(y), wisp_free(w);
}

int main(int argc, char **argv)
{
    while (argc > 2 && strncmp(argv[1], "--", 2) == 0) {
        if (strcmp(argv[1], "--zeros") == 0) zeros = atof(argv[2]);
        else if (strcmp(argv[1], "--way") == 0) only_way = argv[2];
        else if (strcmp(argv[1], "--pass") == 0) only_pass = argv[2];
        else if (strcmp(argv[1], "--batch") == 0) batch = strtoul(argv[2], NULL, 10);
        else if (strcmp(argv[1], "--layer") != 0 ||
                 sscanf(argv[2], "%zu,%zu,%zu", only, only + 1, only + 2) != 3) {
            fputs("conv: expected --zeros SHARE, --layer IN,OUT,PIXELS, --way NAME, --pass NAME or "
                  "--batch N\n",
                  stderr);
            return 2;
        }
        argc -= 2, argv += 2;
    }
    const int threads = argc > 1 ? atoi(argv[1]) : 1;
    const char *net = argc > 2 && *argv[2] ? argv[2] : NULL,
               *set = argc > 3 && *argv[3] ? argv[3] : NULL;
    struct totals total = { 0 };
    if (wisp_kernels_select(&kernels, set, NULL) != 0) {
        fprintf(stderr, "conv: this machine has no kernels '%s'\n", set);
        return 1;
    }
    if (threads != 1 && wisp_pool_create(&pool, threads, NULL) != WISP_OK) return 1;
    const double floor_rate = peak(kernels.name) * wisp_pool_threads(pool);
    printf("%s kernels, %d threads, %.0f %% zeros; multiply-adds in registers: %.1f GFLOP/s\n",
           kernels.name, wisp_pool_threads(pool), 100 * zeros, floor_rate);
    for (size_t i = 0; i < N_LAYERS; i++) {
        const struct layer *l = &layers[i];
        if (net && strcmp(net, l->net) != 0) continue;
        if (only[0] && (only[0] != l->in || only[1] != l->out || only[2] != l->pixels)) continue;
        time_layer(l, floor_rate, &total);
        if (only[0] || only_pass) continue;
        if (i + 1 < N_LAYERS && strcmp(layers[i].net, layers[i + 1].net) == 0) continue;
        printf("%s: convolutions in a step of %zu: %.1f ms in fp32, %.1f with bf16 (inf: --way has "
               "none for some pass)\n",
               layers[i].net, layers[i].n, 1e3 * total.fp32, 1e3 * total.bf16);
        total = (struct totals){ 0 };
    }
    wisp_pool_free(pool);
    return 0;
}

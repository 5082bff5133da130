/* What `--zeros auto` loses: the way it chooses beside all others, at 40 points.
 *
 *   bench/run build policy
 *   policy [--points N] [--shift N] [--part I/N] [net]
 *
 * A point is a layer of four nets, a pass and a share of zeros, 0 to 95 %; --shift N takes the shares
 * N places on.  Zeros lie as a ReLU leaves them, in patches and more of them in some channels than in
 * others; gradients with 75 % and more have those of a max pool of 2x2 in front of the ReLU's, too.
 * The choice is made as in training: what was measured at start (here: right before the point, kept
 * nowhere), and the numbers' share of zeros by sampling.
 *
 * Then the ways take turns with cold caches, as in training, one thread, processor time, packing and
 * rows of the gradient by their share of a batch; the way that was chosen is there twice.  A line says
 * what was chosen and how long it takes with the sampling, what is the fastest, what is lost by the
 * choice, and by how much the two entries of the same way differ: no loss below that means anything.
 * Times are medians; what is lost is the median of what is lost in each turn, in which all ways have
 * the same moment of the machine.
 *
 * The rule is that no call is more than 2 % slower than the best dense way. */
#include "base/file.h"
#include "base/mem.h"
#include "kernels/kernels.h"
#include "convs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    TURNS = 11,
    MOST_WAYS = 16,
    CELL = 6,
    BINS = 4096,
    CHILL_FLOATS = 2 << 20,
    LINE_FLOATS = 16
};
static const double ENOUGH_FLOPS = 15e9;
static const double shares[] = { 0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95 };
enum { SHARES = sizeof shares / sizeof *shares };
static struct wisp_kernels kernels;

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *floats(size_t n)
{
    float *x = wisp_zalloc(n + 1, sizeof *x);
    if (!x) {
        fputs("policy: out of memory\n", stderr);
        exit(1);
    }
    return x;
}

/* ---- numbers ---- */

static uint64_t state = 1;
static float uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (float)(state >> 40) / (float)(1 << 24);
}
static float normal(void) /* more or less */
{
    return (uniform() + uniform() + uniform() + uniform() - 2) * 1.732f;
}

struct planes { /* (n, blocks, h, w, 16) */
    float *x;
    size_t n, channels, h, w;
};

/* One channel of one sample: its own mean, a smooth field, noise. */
static void fill_channel(float *x, const struct planes *p, float mean)
{
    const size_t gh = p->h / CELL + 2, gw = p->w / CELL + 2;
    float *grid = floats(gh * gw);
    for (size_t i = 0; i < gh * gw; i++) grid[i] = normal();
    for (size_t i = 0; i < p->h; i++)
        for (size_t e = 0; e < p->w; e++) {
            const float *g = grid + i / CELL * gw + e / CELL, v = (float)(i % CELL) / CELL,
                        u = (float)(e % CELL) / CELL;
            x[(i * p->w + e) * WISP_PLANE_BLOCK] = mean + 0.5f * normal() +
                                                   (1 - v) * ((1 - u) * g[0] + u * g[1]) +
                                                   v * ((1 - u) * g[gw] + u * g[gw + 1]);
        }
    wisp_free(grid);
}

/* One pixel of each patch of 2x2 stays. */
static void pool_channel(float *x, const struct planes *p, float none)
{
    for (size_t i = 0; i < p->h; i += 2)
        for (size_t e = 0; e < p->w; e += 2) {
            const size_t kept = (size_t)(uniform() * 4);
            for (size_t at = 0; at < 4; at++)
                if (at != kept && i + at / 2 < p->h && e + at % 2 < p->w)
                    x[((i + at / 2) * p->w + e + at % 2) * WISP_PLANE_BLOCK] = none;
        }
}

/* The share of zeros is made exact by the number that is taken away before the ReLU. */
static void fill(const struct planes *p, double share, bool pooled)
{
    const size_t block = p->h * p->w * WISP_PLANE_BLOCK, blocks = p->channels / WISP_PLANE_BLOCK;
    const size_t all = p->n * blocks * block;
    static size_t bins[BINS];
    float means[1024];
    for (size_t c = 0; c < p->channels; c++) means[c] = 0.7f * normal();
    memset(bins, 0, sizeof bins);
    for (size_t i = 0; i < p->n * p->channels; i++) {
        float *x = p->x + i / WISP_PLANE_BLOCK * block + i % WISP_PLANE_BLOCK;
        fill_channel(x, p, means[i % p->channels]);
        if (pooled) pool_channel(x, p, -10);
    }
    for (size_t i = 0; i < all; i++)
        bins[(size_t)fminf(fmaxf((p->x[i] + 6) / 12 * BINS, 0), BINS - 1)]++;
    size_t bin = 0;
    for (double below = 0; bin < BINS && below + (double)bins[bin] / 2 < share * (double)all; bin++)
        below += (double)bins[bin];
    const float from = share > 0 ? (float)bin * 12 / BINS - 6 : -INFINITY;
    for (size_t i = 0; i < all; i++)
        p->x[i] = p->x[i] < from ? 0
                  : isinf(from)  ? p->x[i] + (p->x[i] == 0)
                                 : p->x[i] - from + 1e-3f;
}

/* ---- a point ---- */

struct racer {
    const struct wisp_conv_way *way;
    size_t floats, apart;
    float *own, *room;
    double took[TURNS];
};

struct point {
    const struct layer *l;
    struct wisp_conv c;
    enum wisp_conv_pass pass;
    double of_x, of_gy; /* zeros */
    struct wisp_conv_job j;
    float *x, *gy, *to, *w, *rows;
    struct racer racers[MOST_WAYS + 1];
    size_t n;
};

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(const double *times)
{
    double t[TURNS];
    memcpy(t, times, sizeof t);
    qsort(t, TURNS, sizeof *t, ascending);
    return t[TURNS / 2];
}

/* By how much a takes longer, turn by turn. */
static double over(const struct racer *a, const struct racer *b)
{
    double ratio[TURNS];
    for (int i = 0; i < TURNS; i++) ratio[i] = a->took[i] / b->took[i];
    return median(ratio);
}

static void join(struct point *p, const struct wisp_conv_way *way)
{
    struct racer *r = &p->racers[p->n++];
    *r = (struct racer){ .way = way, .floats = way->weight_floats(&p->c, p->pass) };
    r->apart = wisp_up(way->thread_floats ? way->thread_floats(&p->c, p->pass) : 0, 16);
    r->own = floats(r->floats), r->room = floats(r->apart);
}

/* In training all other layers come between two calls (conv/measure.c). */
static void chill(void)
{
    static float other[CHILL_FLOATS];
    for (size_t i = 0; i < CHILL_FLOATS; i += LINE_FLOATS) other[i] += 1;
}

static double take(const struct point *p, struct racer *r, enum wisp_conv_source source)
{
    const bool weights = p->pass == WISP_CONV_WEIGHTS, packs = !weights && r->floats;
    struct wisp_conv_job j = p->j;
    j.source = source, j.w = packs ? r->own : p->w, j.gw = r->own;
    j.thread_scratch = r->room, j.thread_apart = r->apart;
    chill();
    const double start = seconds_now();
    if (packs) wisp_conv_pack(r->way, &p->c, p->pass, NULL, &kernels, r->own, p->w);
    const double packed = seconds_now();
    if (r->way->run(&p->c, p->pass, &j, NULL) != WISP_OK) exit(1);
    const double ran = seconds_now();
    for (size_t row = 0; weights && row < p->c.out; row += WISP_PLANE_BLOCK)
        r->way->rows(&p->c, &kernels, r->own, row, p->rows);
    const double beside = packed - start + seconds_now() - ran;
    return ran - packed + beside * (double)j.n / (double)p->c.batch;
}

static void begin(struct point *p)
{
    struct wisp_conv *c = &p->c;
    const double each = 2.0 * (double)(c->out * c->oh * c->ow) * (double)wisp_conv_row(c);
    size_t n = (size_t)ceil(ENOUGH_FLOPS / each);
    if (n > p->l->n) n = p->l->n;
    const size_t in = n * wisp_conv_in_floats(c), out = n * wisp_conv_out_floats(c);
    const bool forward = p->pass == WISP_CONV_FORWARD, data = p->pass == WISP_CONV_DATA;
    p->x = floats(in), p->gy = floats(out), p->to = floats(forward ? out : data ? in : 1);
    p->w = floats(c->out * wisp_conv_row(c)), p->rows = floats(16 * wisp_conv_row(c));
    for (size_t i = 0; i < c->out * wisp_conv_row(c); i++) p->w[i] = 0.01f * normal();
    if (!data) fill(&(struct planes){ p->x, n, c->in, c->h, c->w }, p->of_x, false);
    if (!forward)
        fill(&(struct planes){ p->gy, n, c->out, c->oh, c->ow }, p->of_gy, p->of_gy > 0.75);
    p->j = (struct wisp_conv_job){ .k = &kernels, .n = n, .x = p->x, .gy = p->gy };
    p->j.y = p->j.gx = p->to;
}

static void end(struct point *p)
{
    for (size_t i = 0; i < p->n; i++) wisp_free(p->racers[i].own), wisp_free(p->racers[i].room);
    wisp_free(p->x), wisp_free(p->gy), wisp_free(p->to), wisp_free(p->w), wisp_free(p->rows);
}

struct sums {
    double worst, dense, lost, noise, log_gain, choosing; /* dense: the worst beside dense ways */
    int n, over, behind, skipped; /* behind: the best dense way by more than 2 % */
};

static void run(struct point *p, struct sums *s)
{
    static const char *const passes[] = { "forward", "data", "weights" };
    const struct wisp_conv_choice how = { .k = &kernels,
                                          .measure = true,
                                          .zeros = WISP_ZEROS_AUTO };
    begin(p);
    double start = wisp_now(), sampling[TURNS], share;
    const struct wisp_conv_way *dense = wisp_conv_choose(&p->c, p->pass, &how);
    const struct wisp_conv_zeros z = wisp_conv_zeros(&p->c, p->pass, &how, dense);
    s->choosing += wisp_now() - start;
    const struct wisp_conv_way *chosen = NULL, *way;
    for (int turn = 0; turn < TURNS; turn++) {
        start = seconds_now();
        chosen = wisp_conv_way_for(&p->c, p->pass, &z, dense, &p->j, &share);
        sampling[turn] = seconds_now() - start;
    }
    join(p, chosen); /* once more below */
    for (size_t i = 0; (way = wisp_conv_any(i)) && p->n <= MOST_WAYS; i++)
        if (way != &wisp_conv_plain && !way->half && way->can(&p->c, p->pass, &kernels))
            join(p, way);
    const enum wisp_conv_source source = p->j.source;
    for (int turn = -1; turn < TURNS; turn++)
        for (size_t i = 0; i < p->n; i++) {
            /* 'skip' as it was chosen, or of those with more zeros */
            const double took =
                take(p, &p->racers[i], p->racers[i].way == chosen ? source : WISP_CONV_ANY);
            if (turn >= 0) p->racers[i].took[turn] = took;
        }
    const struct racer *best = NULL, *other = NULL, *mine = NULL, *best_dense = NULL;
    for (const struct racer *r = p->racers + 1; r < p->racers + p->n; r++) {
        if (r->way == chosen) mine = r;
        if (r->way == dense) other = r;
        if (!best || median(r->took) < median(best->took)) best = r;
        if (r->way != &wisp_conv_skip &&
            (!best_dense || median(r->took) < median(best_dense->took)))
            best_dense = r;
    }
    const double sampled = median(sampling), took = median(mine->took) + sampled,
                 least = median(best->took), lost = 100 * (over(mine, best) - 1 + sampled / least),
                 noise = 100 * fabs(over(p->racers, mine) - 1);
    printf("%-14s %3zu->%-3zu %3zu px %zux%zu/%zu %-7s %3.0f %3.0f %% (%4.1f %4.1f)  from %4.0f "
           "%4.0f  %-8s %8.3f ms  best %-8s %8.3f  lost %5.2f %%, sampling %4.2f, noise %.2f\n",
           p->l->net, p->l->in, p->l->out, p->l->pixels, p->l->kernel, p->l->kernel, p->l->stride,
           passes[p->pass], 100 * p->of_x, 100 * p->of_gy,
           p->pass == WISP_CONV_DATA ? 0 : 100 * wisp_conv_zero_share(&p->c, &p->j, true),
           p->pass == WISP_CONV_FORWARD ? 0 : 100 * wisp_conv_zero_share(&p->c, &p->j, false),
           100 * z.of_x, 100 * z.of_gy, chosen->name, 1e3 * took, best->way->name, 1e3 * least,
           lost, 100 * sampled / least, noise);
    fflush(stdout);
    s->n++, s->lost += lost, s->noise += noise, s->log_gain += log(median(other->took) / took);
    s->worst = fmax(s->worst, lost);
    const double behind = 100 * (over(mine, best_dense) - 1 + sampled / median(best_dense->took));
    s->dense = fmax(s->dense, behind), s->behind += behind > 2;
    s->over += lost > 2, s->skipped += chosen == &wisp_conv_skip;
    end(p);
}

int main(int argc, char **argv)
{
    size_t points = 40, shift = 0, part = 1, parts = 1, candidates = 0, done = 0;
    const char *net = NULL;
    for (; argc > 1; argc--, argv++) {
        if (argc > 2 && strcmp(argv[1], "--points") == 0) points = strtoul(argv[2], NULL, 10);
        else if (argc > 2 && strcmp(argv[1], "--shift") == 0) shift = strtoul(argv[2], NULL, 10);
        else if (argc > 2 && strcmp(argv[1], "--part") == 0 &&
                 sscanf(argv[2], "%zu/%zu", &part, &parts) == 2 && part > 0 && part <= parts) {
        } else if (argv[1][0] != '-' && !net) {
            net = argv[1];
            continue;
        } else {
            fputs("policy: expected --points N, --shift N, --part I/N or the name of a net\n",
                  stderr);
            return 2;
        }
        argc--, argv++;
    }
    if (wisp_kernels_select(&kernels, NULL, NULL) != WISP_OK) return 1;
    printf("%s kernels, one thread; zeros of x, of gy (as sampled); the shares from which on zeros "
           "are skipped\n",
           kernels.name);
    struct sums s = { 0 };
    for (int count = 1; count >= 0;
         count--) /* first how many there are, then some of them, evenly */
        for (size_t i = 0, at = 0; i < N_LAYERS; i++) {
            const struct layer *l = &layers[i];
            if (l->block == 1 || strcmp(l->net, "lenet") == 0 || (net && strcmp(net, l->net) != 0))
                continue;
            for (int pass = 0; pass < WISP_CONV_PASSES; pass++, at++) {
                if (count) candidates++;
                if (count || at * points / candidates == (at + 1) * points / candidates) continue;
                const size_t point = done++, level = (3 * point + shift) % SHARES;
                if (point % parts != part - 1) continue;
                const bool norm = strncmp(l->net, "resnet", 6) == 0;
                struct point p = { .l = l, .c = conv_of(l, 1), .pass = (enum wisp_conv_pass)pass };
                if (pass != WISP_CONV_DATA) p.of_x = shares[level];
                if (pass == WISP_CONV_DATA) p.of_gy = shares[level];
                if (pass == WISP_CONV_WEIGHTS && !norm) p.of_gy = shares[(level + 3) % SHARES];
                run(&p, &s);
            }
        }
    printf("%d points: lost %.2f %% at worst (%.2f beside the best dense way), %.2f on average; %d "
           "lost more than 2 %% (%d beside dense ways); noise %.2f on average; %d skip zeros; %.2f "
           "times as fast as without (geometric mean); %.1f s for choosing\n",
           s.n, s.worst, s.dense, s.lost / s.n, s.over, s.behind, s.noise / s.n, s.skipped,
           exp(s.log_gain / s.n), s.choosing);
    return 0;
}

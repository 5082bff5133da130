/* Times of the ways of a pass; which is the fastest, and with how many zeros. */
#include "conv/measure.h"
#include "base/mem.h"
#include "base/sort.h"
#include "kernels/kernels.h"

#include <math.h>
#include <time.h>

enum {
    TURNS = 3,
    MOST_TURNS = 9,
    FEW_PAIRS = 3,
    PAIRS = 5,
    MOST_SAMPLES = 64,
    MOST_RACERS = 16,
    CHILL_FLOATS = 2 << 20, /* some times what the second cache holds */
    LINE_FLOATS = 16,
    PATCH = 16,    /* pixels */
    CONFIRMED = 3, /* times, at most */
};
/* Of a turn, where the batch has so many samples.  Winograd's weights are read once for all pixels of
 * a call: with 1,800 pixels its rate was 6 to 28 % below that of a batch, with 12,000 it is 1 to 5 %
 * (256 to 512 channels, 28 pixels, 1 / 2 / 4 / 8 samples: 298, 438, 515, 580 GFLOP/s, oneDNN's 270, 371,
 * 543, 616), so skipping seemed to pay too early, and one of two Winograds was the wrong one. */
static const double ENOUGH_FLOPS = 1e9, ENOUGH_PIXELS = 12000;
static const double CLOSE = 1.05; /* times of two ways that may be equally fast */

size_t wisp_conv_samples(const struct wisp_conv *c)
{
    double each = 2.0 * (double)(c->out * c->oh * c->ow) * (double)wisp_conv_row(c),
           n = ceil(fmax(ENOUGH_FLOPS / each, ENOUGH_PIXELS / (double)(c->oh * c->ow)));
    size_t most = c->batch < MOST_SAMPLES ? c->batch : MOST_SAMPLES;
    return n < (double)most ? (size_t)n : most;
}

/* Of this thread: what others do meanwhile does not count. */
static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- a race ---- */

struct racer {
    const struct wisp_conv_way *way;
    size_t floats, apart; /* of 'own' and 'room' */
    float *own, *room;    /* packed weights or their gradient; the thread's scratch */
    bool packed;          /* weights are in 'own' */
    double least;         /* seconds; infinite before the first turn, and of one that failed */
};

struct race {
    struct wisp_conv c; /* of the samples that are measured */
    enum wisp_conv_pass pass;
    double of_batch; /* these samples' share of one */
    struct wisp_conv_job j;
    float *x, *y, *w, *rows; /* rows: 16 of the weights' gradient */
    float *other;            /* what the caches hold before a turn */
    size_t in, out;          /* floats of x, of y */
    struct racer racers[MOST_RACERS];
    size_t n;
};

static void fill(float *p, size_t n)
{
    for (size_t i = 0; i < n; i++) p[i] = (float)((i * 37) % 64) / 64 - 0.5f;
}

static bool begin(struct race *r, const struct wisp_conv *of, enum wisp_conv_pass pass,
                  const struct wisp_kernels *k)
{
    const size_t n = wisp_conv_samples(of), weights = of->out * wisp_conv_row(of);
    *r = (struct race){ .c = *of, .pass = pass };
    r->of_batch = of->kept ? 0 : (double)n / (double)of->batch;
    r->c.batch = n, r->c.threads = 1;
    r->in = n * wisp_conv_in_floats(of), r->out = n * wisp_conv_out_floats(of);
    r->x = wisp_alloc(r->in, sizeof(float));
    r->y = wisp_alloc(r->out, sizeof(float));
    r->w = wisp_alloc(weights, sizeof(float));
    r->rows = wisp_alloc(WISP_PLANE_BLOCK * wisp_conv_row(of), sizeof(float));
    r->other = wisp_zalloc(CHILL_FLOATS, sizeof(float));
    if (!r->x || !r->y || !r->w || !r->rows || !r->other) return false;
    fill(r->x, r->in), fill(r->y, r->out), fill(r->w, weights);
    r->j = (struct wisp_conv_job){ .k = k, .n = n, .x = r->x, .gy = r->y, .y = r->y, .gx = r->x };
    return true;
}

static void end(struct race *r)
{
    for (size_t i = 0; i < r->n; i++) wisp_free(r->racers[i].own), wisp_free(r->racers[i].room);
    wisp_free(r->x);
    wisp_free(r->y);
    wisp_free(r->w);
    wisp_free(r->rows);
    wisp_free(r->other);
}

/* One without memory is not in the race. */
static void join(struct race *r, const struct wisp_conv_way *way)
{
    struct racer *it = &r->racers[r->n];
    if (r->n == MOST_RACERS || !way->can(&r->c, r->pass, r->j.k)) return;
    *it = (struct racer){ .way = way, .least = INFINITY };
    it->floats = way->weight_floats(&r->c, r->pass);
    it->apart = way->thread_floats ? wisp_up(way->thread_floats(&r->c, r->pass), 16) : 0;
    it->own = wisp_alloc(it->floats + 1, sizeof(float));
    it->room = wisp_alloc(it->apart + 1, sizeof(float));
    if (it->own && it->room) r->n++;
    else wisp_free(it->own), wisp_free(it->room);
}

/* In training all other layers come between two calls: a way finds nothing of its own in the caches
 * of the core.  Right after another turn of the same two, Winograd, which reads four times as many
 * weights as there are, seemed to be up to 10 % faster than it is then. */
static void chill(const struct race *r)
{
    for (size_t i = 0; i < CHILL_FLOATS; i += LINE_FLOATS) r->other[i] += 1;
}

/* One turn; its seconds, infinite where it failed. */
static double take(const struct race *r, struct racer *it)
{
    const bool weights = r->pass == WISP_CONV_WEIGHTS, packs = !weights && it->floats;
    const bool again = r->c.kept && it->packed;
    struct wisp_conv_job j = r->j;
    j.w = packs ? it->own : r->w, j.gw = it->own;
    j.thread_scratch = it->room, j.thread_apart = it->apart;
    chill(r);
    const double start = seconds_now();
    if (packs && !again) wisp_conv_pack(it->way, &r->c, r->pass, NULL, j.k, it->own, r->w);
    it->packed = true;
    const double packed = seconds_now();
    if (it->way->run(&r->c, r->pass, &j, NULL) != WISP_OK) return INFINITY;
    const double ran = seconds_now();
    for (size_t row = 0; weights && row < r->c.out; row += WISP_PLANE_BLOCK)
        it->way->rows(&r->c, j.k, it->own, row, r->rows);
    return ran - packed + (packed - start + seconds_now() - ran) * r->of_batch;
}

/* Those within so many times the least time take another turn; how many there are. */
static size_t turn(struct race *r, double within)
{
    double best = INFINITY;
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) best = fmin(best, r->racers[i].least);
    for (struct racer *it = r->racers; it < r->racers + r->n; it++)
        if (!isfinite(best) || it->least <= within * best)
            it->least = fmin(it->least, take(r, it)), n++;
    return n;
}

/* Turns of all, but of those that are clearly slower than another one; the first one warms up.  Then
 * some more of those that are about as fast: a moment of the machine must not decide between them. */
static void run(struct race *r)
{
    for (int i = 0; i <= TURNS; i++) turn(r, 2);
    for (int i = TURNS; r->n > 1 && i < MOST_TURNS && turn(r, CLOSE) > 1; i++) {}
}

const struct wisp_conv_way *wisp_conv_fastest(const struct wisp_conv *c, enum wisp_conv_pass pass,
                                              const struct wisp_kernels *k,
                                              const struct wisp_conv_way *const *ways, size_t n)
{
    struct race r;
    const struct racer *best = NULL;
    if (begin(&r, c, pass, k)) {
        for (size_t i = 0; i < n; i++) join(&r, ways[i]);
        run(&r);
    }
    for (const struct racer *it = r.racers; it < r.racers + r.n; it++)
        if (isfinite(it->least) && (!best || it->least < best->least)) best = it;
    const struct wisp_conv_way *way = best ? best->way : NULL;
    end(&r);
    return way;
}

double wisp_conv_seconds(const struct wisp_conv *c, enum wisp_conv_pass pass,
                         const struct wisp_kernels *k, const struct wisp_conv_way *way)
{
    struct race r;
    double least = INFINITY;
    if (begin(&r, c, pass, k)) {
        join(&r, way);
        run(&r);
        if (r.n) least = r.racers[0].least;
    }
    end(&r);
    return least;
}

/* ---- zeros ---- */

/* 'Skip' is taken where it takes so much of the other's time, or less: two measurements have to be
 * wrong by 3 % before it is 2 % slower; a larger margin would lose that much beside the faster way. */
static const double WORTH = 0.99, NEAR = 0.01, NEVER = 2, FIRST = 0.95, SECOND = 0.5;

static double uniform(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (double)(*s >> 33) / 2147483648.0;
}

/* About such a share of x are zeros, as they lie behind a ReLU: of 16 pixels of a channel side by side
 * some share^2 are zeros altogether.  In vgg16, where 50 to 74 % are zeros, 21 to 59 % of them are
 * (docs/speed.md); of zeros by chance there are hardly 16 together, and skipping them is slower.
 * Returns their share. */
static double fill_zeros(float *x, size_t n, double share)
{
    uint64_t s = 1;
    size_t zeros = 0;
    bool none[WISP_PLANE_BLOCK] = { 0 };
    for (size_t i = 0; i < n; i++) {
        const size_t lane = i % WISP_PLANE_BLOCK;
        if (i % (PATCH * WISP_PLANE_BLOCK) == lane) none[lane] = uniform(&s) < share * share;
        x[i] = none[lane] || uniform(&s) < share / (1 + share) ? 0 : 0.25f;
        zeros += x[i] == 0;
    }
    return n ? (double)zeros / (double)n : 0;
}

struct point {
    double share, ratio; /* 'skip's time, over the other's */
};

/* The median of pairs: the two of a pair are measured right after each other, and whatever slows the
 * machine down slows down both. */
static struct point measure(struct race *r, bool of_x, double share, int pairs)
{
    double ratio[PAIRS];
    share = fill_zeros(of_x ? r->x : r->y, of_x ? r->in : r->out, share);
    for (int i = 0; i < pairs; i++) {
        const double dense = take(r, &r->racers[0]);
        ratio[i] = take(r, &r->racers[1]) / dense;
    }
    wisp_sort_doubles(ratio, (size_t)pairs);
    return (struct point){ share, ratio[pairs / 2] };
}

/* Where the straight line through both comes to WORTH; a has more zeros. */
static double crossing(struct point a, struct point b)
{
    if (!(a.ratio < b.ratio)) return a.share;
    const double at = a.share + (b.share - a.share) * (WORTH - a.ratio) / (b.ratio - a.ratio);
    return at > 0 ? at < a.share ? at : a.share : 0;
}

/* The time falls with the share of zeros, nearly along a straight line: b, of fewer zeros, comes from
 * below 'skip's place or from above it, a always is a share with which it is faster. */
static double search(struct race *r, bool of_x, struct point a)
{
    struct point b = measure(r, of_x, SECOND, FEW_PAIRS);
    for (int i = 0; i < 2; i++) {
        const struct point p = measure(r, of_x, crossing(a, b), PAIRS);
        if (fabs(p.ratio - WORTH) < NEAR || (p.share <= 0 && p.ratio < WORTH)) return p.share;
        if (b.ratio < WORTH) a = b, b = p;
        else if (p.ratio < WORTH) a = p;
        else b = p;
    }
    return crossing(a, b);
}

/* A place that a lucky moment found has to hold a second time, else it moves to more zeros, where the
 * line from there to 'first' comes to WORTH; never to fewer. */
static double confirm(struct race *r, bool of_x, struct point first, double from)
{
    for (int i = 0; i < CONFIRMED && from < first.share; i++) {
        const struct point p = measure(r, of_x, from, PAIRS);
        if (p.ratio < WORTH + NEAR) break;
        from = fmax(from, crossing(first, p));
    }
    return from;
}

static double place(struct race *r, bool of_x)
{
    const struct point first = measure(r, of_x, FIRST, FEW_PAIRS);
    return first.ratio < WORTH ? confirm(r, of_x, first, search(r, of_x, first)) : NEVER;
}

double wisp_conv_zeros_from(const struct wisp_conv *c, enum wisp_conv_pass pass,
                            const struct wisp_kernels *k, const struct wisp_conv_way *dense,
                            bool of_x)
{
    struct race r;
    double from = NEVER;
    if (begin(&r, c, pass, k)) {
        r.j.source = of_x ? WISP_CONV_OF_X : WISP_CONV_OF_GY;
        join(&r, dense);
        join(&r, &wisp_conv_skip);
        if (r.n == 2) take(&r, &r.racers[0]), take(&r, &r.racers[1]); /* warms up */
        if (r.n == 2) from = place(&r, of_x);
    }
    end(&r);
    return from;
}

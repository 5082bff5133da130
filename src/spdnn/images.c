/* Inputs of the official networks: images, enlarged by Fourier interpolation and cut.
 *
 * All n images stand side by side, X (28, 28 n), N = 28 n.  With F its two-dimensional transform,
 * m the side asked for and M = m n,
 *
 *   Z[y, x] = | 1 / (28 N) sum over k = -14 .. 13, K = -N/2 .. N/2 - 1 of
 *                          F[k, K] e^(2 pi i (k y / m + K x / M)) |,    a pixel is Z > max(Z) / 2.
 *
 * Waves come in pairs k and -k, so they sum to real ones, but for the last (-14 and -N/2), which
 * stand alone.  So a column of X is 28 real coefficients, of cos(2 pi k y / m), k = 0 .. 14, and of
 * sin(2 pi k y / m), k = 1 .. 13:
 *
 *   pixels --> coefficients (28, N) --> their spectra along x --> coefficients (28, M) --> columns
 *
 * Two real rows share a complex transform.  The third arrow is taken for a *phase* at a time,
 * x = s, s + S, s + 2 S, ... (a shift of the spectrum by s < S), so of the 28 x M numbers only a
 * part is ever there.  A column is evaluated for y, m/2 - y, m/2 + y, m - y at once: they share the
 * sums of even and odd cosines and sines.  With t = 28 pi x / m and u = 28 pi y / m, the
 * lone waves do this:
 *
 *   coefficient r grows by v[r] e^(-it), v being the spectra at -N/2, and cos(u) becomes e^(-iu).
 *
 * Two passes over the phases: one for the maximum, one to cut.  The second goes backwards, as the
 * last phase is still there. */
#include "spdnn/spdnn.h"
#include "base/bounds.h"
#include "base/mem.h"
#include "spdnn/fft.h"

#include <math.h>
#include <string.h>

enum {
    SIDE = 28,
    ROWS = 28, /* of coefficients: cosines of even and odd k, sines of even and odd k */
    ODD_COS = 8,
    EVEN_SIN = 15,
    ODD_SIN = 21,
    LAST_COS = 7, /* k = 14 */
    PAIRS = ROWS / 2,
    LANES = 8,   /* columns evaluated at once */
    IMAGES = 64, /* of a task */
};

struct thread {
    double best; /* largest Z^2 so far */
    uint64_t ones;
    double *scratch; /* two rows and what a transform needs, or columns (side, LANES) */
};

struct work {
    const unsigned char *pixels;
    size_t n;
    uint32_t side, n_phases, per_image; /* columns of an image in a phase; side = both multiplied */
    size_t n_in, n_grid;                /* columns of X, columns of a phase */
    size_t phase;
    struct wisp_fft *forward, *back;
    struct wisp_roots roots;    /* of M */
    double weight[ROWS][SIDE];  /* coefficients from pixels */
    double alone[ROWS], margin; /* v; the sum of |v| */
    double *spectrum;           /* (ROWS, n_in) */
    double *grid;               /* (ROWS, n_grid + LANES) of the phase */
    double *wave;               /* (side, ROWS) */
    double *turn;               /* (side, 2) cos and sin of u, or of t */
    double *lean;               /* (side) sum over r of v[r] wave[r] */
    uint32_t step;              /* the search for the maximum looks at each step-th y first */
    double reach;               /* times the best: Z^2 up to that has no new best between */
    struct thread *threads;
    size_t n_threads;
    double cut; /* of Z^2 */
    struct wisp_spinputs *out;
};

/* Wave of coefficient r at y of m. */
static double wave(int r, size_t y, uint32_t m)
{
    bool cosine = r < EVEN_SIN;
    int k = r < ODD_COS   ? 2 * r
            : cosine      ? 2 * (r - ODD_COS) + 1
            : r < ODD_SIN ? 2 * (r - EVEN_SIN) + 2
                          : 2 * (r - ODD_SIN) + 1;
    double t = 2 * M_PI * (double)((size_t)k * y % m) / m;
    return cosine ? cos(t) : sin(t);
}

/* ---- pixels to spectra ---- */

static void coefficients(const struct work *w, double *re, double *im, size_t pair)
{
    const double *a = w->weight[2 * pair], *b = w->weight[2 * pair + 1];
    for (size_t i = 0; i < w->n; i++, re += SIDE, im += SIDE) {
        const unsigned char *p = w->pixels + i * SIDE * SIDE;
        for (int x = 0; x < SIDE; x++) re[x] = im[x] = 0;
        for (int y = 0; y < SIDE; y++, p += SIDE) {
            for (int x = 0; x < SIDE; x++) re[x] += a[y] * p[x];
            for (int x = 0; x < SIDE; x++) im[x] += b[y] * p[x];
        }
    }
}

static void make_spectrum(void *arg, size_t pair, int thread)
{
    struct work *w = arg;
    double *re = w->threads[thread].scratch, *im = re + w->n_in, *rest = im + w->n_in;
    double *to_re = w->spectrum + 2 * pair * w->n_in, *to_im = to_re + w->n_in;
    coefficients(w, re, im, pair);
    wisp_fft_run(w->forward, to_re, to_im, re, im, rest);
    w->alone[2 * pair] = to_re[w->n_in / 2];
    w->alone[2 * pair + 1] = to_im[w->n_in / 2];
    to_re[w->n_in / 2] = to_im[w->n_in / 2] = 0;
}

/* ---- spectra to coefficients of a phase ---- */

static void make_phase(void *arg, size_t pair, int thread)
{
    struct work *w = arg;
    size_t half = w->n_in / 2, n = w->n_grid;
    double *re = w->threads[thread].scratch, *im = re + n, *rest = im + n;
    const double *from_re = w->spectrum + 2 * pair * w->n_in, *from_im = from_re + w->n_in;
    memset(re + half, 0, (n - 2 * half) * sizeof *re);
    memset(im + half, 0, (n - 2 * half) * sizeof *im);
    for (size_t k = 0; k < half; k++) {
        double c, s;
        wisp_root(&c, &s, &w->roots, k * w->phase); /* conjugate of the shift */
        re[k] = from_re[k] * c + from_im[k] * s;
        im[k] = from_im[k] * c - from_re[k] * s;
        size_t minus = w->n_in - 1 - k, to = n - 1 - k;
        wisp_root(&c, &s, &w->roots, (k + 1) * w->phase);
        re[to] = from_re[minus] * c - from_im[minus] * s;
        im[to] = from_im[minus] * c + from_re[minus] * s;
    }
    double *to_re = w->grid + 2 * pair * (n + LANES), *to_im = to_re + n + LANES;
    wisp_fft_run(w->back, to_im, to_re, im, re, rest);
}

static void set_phase(struct work *w, struct wisp_pool *pool, size_t phase)
{
    if (w->phase == phase) return;
    w->phase = phase;
    wisp_parallel_for(pool, PAIRS, make_phase, w);
}

/* ---- columns ---- */

struct columns { /* LANES of them */
    double value[ROWS][LANES];
    double cos[LANES], sin[LANES]; /* of t */
    size_t n;                      /* those that count */
};

/* Columns 'first' on of the phase.  Says whether any can have Z^2 above 'least'. */
static bool load_columns(struct columns *c, const struct work *w, size_t first, size_t end,
                         double least)
{
    double bound[LANES] = { 0 }, most = 0; /* no wave is above 1 */
    c->n = end - first < LANES ? end - first : LANES;
    for (int r = 0; r < ROWS; r++) {
        const double *v = w->grid + (size_t)r * (w->n_grid + LANES) + first;
        for (int b = 0; b < LANES; b++) {
            c->value[r][b] = v[b];
            bound[b] += fabs(v[b]);
        }
    }
    for (size_t b = 0; b < c->n; b++) most = fmax(most, bound[b]);
    if ((most + w->margin) * (most + w->margin) <= least) return false;
    for (int b = 0; b < LANES; b++) {
        size_t x = (first + (size_t)b) % w->per_image * w->n_phases + w->phase;
        c->cos[b] = w->turn[2 * x];
        c->sin[b] = w->turn[2 * x + 1];
    }
    for (int r = 0; r < ROWS; r++)
        for (int b = 0; b < LANES; b++) c->value[r][b] += w->alone[r] * c->cos[b];
    return true;
}

typedef double two __attribute__((vector_size(16))); /* any machine has these registers */

/* Written so that sums stay in registers: a loop over lanes keeps them in memory, 3 times slower.
 */
static inline void sum_waves(double sum[LANES], const struct columns *c, const double *wave_y,
                             int from, int to)
{
    two s[LANES / 2] = { 0 }, v[LANES / 2];
    for (int r = from; r < to; r++) {
        two f = { wave_y[r], wave_y[r] };
        memcpy(v, c->value[r], sizeof v);
        s[0] += f * v[0];
        s[1] += f * v[1];
        s[2] += f * v[2];
        s[3] += f * v[3];
    }
    memcpy(sum, s, sizeof s);
}

/* a + b + c + d to 'up', a + b - c - d to 'down', which may be the same place. */
static inline void put_mirrored(double *up, double *down, const double *a, const double *b,
                                const double *c, const double *d)
{
    double plus[LANES], minus[LANES];
    for (int i = 0; i < LANES; i++) {
        plus[i] = a[i] + b[i] + (c[i] + d[i]);
        minus[i] = a[i] + b[i] - (c[i] + d[i]);
    }
    memcpy(down, minus, sizeof minus);
    memcpy(up, plus, sizeof plus);
}

/* Real parts of Z at y and at what mirrors it, into z (side, LANES); y = side is y = 0. */
static void sum_mirrored(double *z, const struct columns *c, const struct work *w, uint32_t y)
{
    const double *at = w->wave + (size_t)y * ROWS;
    double ec[LANES], oc[LANES], es[LANES], os[LANES];
    sum_waves(ec, c, at, 0, ODD_COS);
    sum_waves(oc, c, at, ODD_COS, EVEN_SIN);
    sum_waves(es, c, at, EVEN_SIN, ODD_SIN);
    sum_waves(os, c, at, ODD_SIN, ROWS);
    size_t m = w->side;
    put_mirrored(z + y * LANES, z + (m - y) % m * LANES, ec, oc, es, os);
    if (m % 2) return;
    for (int b = 0; b < LANES; b++) {
        oc[b] = -oc[b];
        os[b] = -os[b];
    }
    put_mirrored(z + (m / 2 + y) % m * LANES, z + (m / 2 - y) * LANES, ec, oc, es, os);
}

/* Z^2 of each step-th y into z (side, LANES); the largest of the columns that count. */
static double evaluate(double *restrict z, const struct columns *restrict c, const struct work *w,
                       uint32_t step)
{
    double lone[LANES], most[LANES] = { 0 }, best = 0;
    uint32_t last = w->side % 2 ? w->side / 2 : w->side / 4;
    for (uint32_t y = 0; y <= last; y += step) sum_mirrored(z, c, w, y);
    for (int b = 0; b < LANES; b++) lone[b] = w->alone[LAST_COS] * c->sin[b];
    for (uint32_t y = 0; y < w->side; y += step) {
        double *at = z + (size_t)y * LANES, s = w->turn[2 * y + 1], lean = w->lean[y];
        for (int b = 0; b < LANES; b++) {
            double re = at[b] - s * lone[b];
            double im = c->sin[b] * lean + s * c->value[LAST_COS][b];
            double zz = re * re + im * im;
            at[b] = zz;
            most[b] = most[b] > zz ? most[b] : zz;
        }
    }
    for (size_t b = 0; b < c->n; b++) best = fmax(best, most[b]);
    return best;
}

/* ---- passes over a phase, by blocks of images ---- */

static size_t last_column(const struct work *w, size_t block)
{
    size_t end = (block + 1) * IMAGES * w->per_image;
    return end < w->n_grid ? end : w->n_grid;
}

static void find_best(void *arg, size_t block, int thread)
{
    struct work *w = arg;
    struct thread *t = &w->threads[thread];
    struct columns c;
    size_t end = last_column(w, block);
    for (size_t x = block * IMAGES * w->per_image; x < end; x += LANES) {
        if (!load_columns(&c, w, x, end, t->best)) continue;
        double best = evaluate(t->scratch, &c, w, w->step);
        if (w->step > 1 && best > w->reach * t->best) best = evaluate(t->scratch, &c, w, 1);
        t->best = fmax(t->best, best);
    }
}

/* Bits of a column: places 'at' on of a row of the output. */
static uint64_t put_bits(uint64_t *row, size_t at, const double *z, const struct work *w)
{
    uint64_t ones = 0;
    for (size_t y = 0; y < w->side;) {
        uint64_t word = 0;
        size_t bit = at % 64, n = 64 - bit < w->side - y ? 64 - bit : w->side - y;
        for (size_t k = 0; k < n; k++, y++) word |= (uint64_t)(z[y * LANES] > w->cut) << (bit + k);
        row[at / 64] |= word;
        ones += (uint64_t)__builtin_popcountll(word);
        at += n;
    }
    return ones;
}

static void cut(void *arg, size_t block, int thread)
{
    struct work *w = arg;
    struct thread *t = &w->threads[thread];
    struct columns c;
    size_t end = last_column(w, block);
    for (size_t first = block * IMAGES * w->per_image; first < end; first += LANES) {
        if (!load_columns(&c, w, first, end, w->cut)) continue;
        if (evaluate(t->scratch, &c, w, 1) <= w->cut) continue;
        for (size_t b = 0; b < c.n; b++) {
            size_t x = (first + b) % w->per_image * w->n_phases + w->phase;
            uint64_t *row = w->out->bits + (first + b) / w->per_image * w->out->words;
            t->ones += put_bits(row, x * w->side, t->scratch + b, w);
        }
    }
}

/* ---- all ---- */

static void init_tables(struct work *w)
{
    for (int r = 0; r < ROWS; r++) {
        double scale = (r == 0 || r == LAST_COS ? 1. : 2.) / SIDE / (double)w->n_in;
        for (int y = 0; y < SIDE; y++) w->weight[r][y] = scale * wave(r, (size_t)y, SIDE);
    }
    for (size_t y = 0; y < w->side; y++) {
        double t = 2 * M_PI * (double)(y * (SIDE / 2) % w->side) / w->side;
        w->turn[2 * y] = cos(t);
        w->turn[2 * y + 1] = sin(t);
        for (int r = 0; r < ROWS; r++) w->wave[y * ROWS + (size_t)r] = wave(r, y, w->side);
    }
    /* A sum of waves up to k falls from its maximum no faster than cos(k y) does (Bernstein and
     * Szego), and a y that is looked at is at most half a step away. */
    w->step = w->side % 16 == 0 && w->side / 4 >= 2 * SIDE ? 4 : 1;
    if (w->side % 8 == 0 && w->step == 1 && w->side / 2 >= 2 * SIDE) w->step = 2;
    double slope = cos(M_PI * (SIDE / 2) * w->step / w->side);
    w->reach = slope * slope * (1 - 1e-9);
}

static wisp_status make_threads(struct work *w, wisp_error *err)
{
    size_t there = 2 * w->n_in + wisp_fft_scratch(w->forward);
    size_t back = 2 * w->n_grid + wisp_fft_scratch(w->back), columns = (size_t)w->side * LANES;
    size_t most = wisp_most(wisp_most(there, back), columns);
    for (size_t t = 0; t < w->n_threads; t++) {
        w->threads[t].scratch = wisp_alloc(most, sizeof(double));
        if (!w->threads[t].scratch)
            return wisp_fail_mem(err, most * sizeof(double), "a row of images");
    }
    return WISP_OK;
}

static wisp_status init(struct work *w, size_t n_threads, wisp_error *err)
{
    w->n_phases = w->side / SIDE;
    while (w->side % w->n_phases) w->n_phases--;
    w->per_image = w->side / w->n_phases;
    w->n_in = SIDE * w->n;
    w->n_grid = w->per_image * w->n;
    w->phase = w->n_phases; /* none */
    size_t spectra = ROWS * w->n_in, grid = ROWS * (w->n_grid + LANES);
    wisp_status st = wisp_fft_create(&w->forward, w->n_in, err);
    if (!st) st = wisp_fft_create(&w->back, w->n_grid, err);
    if (!st) st = wisp_roots_init(&w->roots, w->n * w->side, err);
    if (st) return st;
    w->spectrum = wisp_alloc(spectra, sizeof *w->spectrum);
    w->grid = wisp_alloc(grid, sizeof *w->grid);
    w->wave = wisp_alloc(w->side, ROWS * sizeof *w->wave);
    w->turn = wisp_alloc(w->side, 2 * sizeof *w->turn);
    w->lean = wisp_alloc(w->side, sizeof *w->lean);
    w->threads = wisp_zalloc(n_threads, sizeof *w->threads);
    if (!w->spectrum || !w->grid || !w->wave || !w->turn || !w->lean || !w->threads)
        return wisp_fail_mem(err, (spectra + grid) * sizeof(double), "images");
    w->n_threads = n_threads;
    for (int r = 0; r < ROWS; r++) /* behind the last column */
        memset(w->grid + (size_t)(r + 1) * (w->n_grid + LANES) - LANES, 0, LANES * sizeof(double));
    init_tables(w);
    return make_threads(w, err);
}

static void clear(struct work *w)
{
    for (size_t t = 0; t < w->n_threads; t++) wisp_free(w->threads[t].scratch);
    wisp_free(w->threads);
    wisp_free(w->lean);
    wisp_free(w->turn);
    wisp_free(w->wave);
    wisp_free(w->grid);
    wisp_free(w->spectrum);
    wisp_roots_clear(&w->roots);
    wisp_fft_free(w->back);
    wisp_fft_free(w->forward);
}

static void make(struct work *w, struct wisp_images *found, struct wisp_pool *pool)
{
    size_t n_blocks = wisp_parts(w->n, IMAGES);
    wisp_parallel_for(pool, PAIRS, make_spectrum, w);
    for (int r = 0; r < ROWS; r++) w->margin += fabs(w->alone[r]);
    for (size_t y = 0; y < w->side; y++) {
        w->lean[y] = 0;
        for (int r = 0; r < ROWS; r++) w->lean[y] += w->alone[r] * w->wave[y * ROWS + (size_t)r];
    }
    for (size_t s = 0; s < w->n_phases; s++) {
        set_phase(w, pool, s);
        wisp_parallel_for(pool, n_blocks, find_best, w);
    }
    double best = 0;
    for (size_t t = 0; t < w->n_threads; t++) best = fmax(best, w->threads[t].best);
    w->cut = best / 4;
    for (size_t s = w->n_phases; s-- > 0;) {
        set_phase(w, pool, s);
        wisp_parallel_for(pool, n_blocks, cut, w);
    }
    *found = (struct wisp_images){ .threshold = sqrt(best) / 2 };
    for (size_t t = 0; t < w->n_threads; t++) found->ones += w->threads[t].ones;
}

wisp_status wisp_images_make(struct wisp_spinputs *out, struct wisp_images *found,
                             const unsigned char *pixels, size_t n, uint32_t side,
                             const struct wisp_context *ctx, wisp_error *err)
{
    *out = (struct wisp_spinputs){ 0 };
    if (side < SIDE || side > UINT16_MAX)
        return wisp_fail(err, WISP_EINVAL,
                         "side %u: images of 28 x 28 can be enlarged to a side of 28 .. 65535",
                         side);
    if (n == 0 || n > SIZE_MAX / ((size_t)side * side * 8))
        return wisp_fail(err, WISP_EINVAL, "%zu images: at least 1 is needed, and all must fit", n);
    struct wisp_pool *pool = ctx ? ctx->pool : NULL;
    struct work w = { .pixels = pixels, .n = n, .side = side, .out = out };
    wisp_status st = init(&w, (size_t)wisp_pool_threads(pool), err);
    if (!st) st = wisp_spinputs_bits(out, n, side * side, err);
    if (!st) {
        if (n * side * side > 200000000)
            wisp_say(ctx, "enlarging %zu images to %u x %u", n, side, side);
        make(&w, found, pool);
    }
    clear(&w);
    return st;
}

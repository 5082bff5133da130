/* Inputs of the official networks: the Fourier transform against its definition, enlarged images
 * against theirs, and the official count for MNIST. */
#include "test.h"
#include "base/bounds.h"
#include "base/file.h"
#include "base/mem.h"
#include "spdnn/fft.h"
#include "spdnn/spdnn.h"

#include <complex.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef double complex number;

static wisp_error err;
static uint64_t seed = 11;

static void *get(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (!p) exit(2);
    return p;
}

static number unit(double turns)
{
    return cexp(2 * M_PI * I * turns);
}

/* ---- the transform ---- */

/* n numbers that end where no memory may be touched. */
struct edge {
    char *map;
    size_t bytes;
    double *p;
};

static struct edge edge(size_t n)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = wisp_up(n * sizeof(double), page);
    struct edge e = { .bytes = bytes + page };
    e.map = mmap(NULL, e.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (e.map == MAP_FAILED || mprotect(e.map + bytes, page, PROT_NONE) != 0) exit(2);
    e.p = (double *)(e.map + bytes) - n;
    return e;
}

static void check_transform(size_t n)
{
    struct wisp_fft *f;
    CHECK(wisp_fft_create(&f, n, &err) == WISP_OK, "%zu: %s", n, err.text);
    struct edge parts[2] = { edge(n), edge(n) };
    double *x = get(4 * n, sizeof *x), *out = x + 2 * n, *re = parts[0].p, *im = parts[1].p,
           worst = 0;
    double *scratch = wisp_alloc(wisp_fft_scratch(f), sizeof *scratch);
    number *root = get(n, sizeof *root);
    for (size_t j = 0; j < 2 * n; j++) x[j] = (double)test_randf(&seed);
    for (size_t j = 0; j < n; j++) root[j] = unit(-(double)j / (double)n);
    memset(scratch, 0xff, wisp_fft_scratch(f) * sizeof *scratch); /* not a number */
    memcpy(re, x, n * sizeof *x);
    memcpy(im, x + n, n * sizeof *x);
    wisp_fft_run(f, out, out + n, re, im, scratch);
    size_t step = n / 50 + 1;
    for (size_t k = 0; k < n; k += step) {
        number sum = 0;
        for (size_t j = 0; j < n; j++) sum += (x[j] + I * x[n + j]) * root[j * k % n];
        double off = cabs(sum - (out[k] + I * out[n + k]));
        if (!(off <= worst)) worst = off;
    }
    CHECK(worst < 1e-14 * (double)n + 1e-13, "length %zu: off by %g", n, worst);
    memcpy(re, out, n * sizeof *x); /* and back, with parts exchanged */
    memcpy(im, out + n, n * sizeof *x);
    wisp_fft_run(f, out + n, out, im, re, scratch);
    for (size_t j = 0; j < 2 * n; j++)
        CHECK(fabs(out[j] / (double)n - x[j]) < 1e-12, "length %zu: %zu does not come back", n, j);
    wisp_fft_free(f);
    for (int i = 0; i < 2; i++) munmap(parts[i].map, parts[i].bytes);
    wisp_free(scratch);
    free(x);
    free(root);
}

/* ---- images by definition ---- */

/* Z (side, side n) */
static double *enlarge(const unsigned char *pixels, size_t n, size_t side)
{
    size_t wide = 28 * n, to = side * n, half = wide / 2;
    number *f = get(28 * wide, sizeof *f), *g = get(28 * to, sizeof *g);
    number *root = get(wide, sizeof *root), *fine = get(to, sizeof *fine);
    double *z = get(side * to, sizeof *z);
    for (size_t j = 0; j < wide; j++) root[j] = unit(-(double)j / (double)wide);
    for (size_t j = 0; j < to; j++) fine[j] = unit((double)j / (double)to);
    for (size_t y = 0; y < 28; y++) /* along x */
        for (size_t x = 0; x < wide; x++) {
            double v = pixels[x / 28 * 784 + y * 28 + x % 28];
            for (size_t k = 0; k < wide && v != 0; k++) f[y * wide + k] += v * root[x * k % wide];
        }
    for (size_t y = 0; y < 28; y++)
        for (size_t x = 0; x < to; x++) {
            number sum = 0;
            for (size_t k = 0; k < wide; k++) /* from half on: k - wide, below zero */
                sum += f[y * wide + k] * fine[(k < half ? k : to - wide + k) * x % to];
            g[y * to + x] = sum / (double)wide;
        }
    for (size_t x = 0; x < to; x++) { /* along y */
        number h[28] = { 0 };
        for (int k = -14; k < 14; k++)
            for (int y = 0; y < 28; y++)
                h[k + 14] += g[(size_t)y * to + x] * unit(-k * y / 28.) / 28.;
        for (size_t y = 0; y < side; y++) {
            number sum = 0;
            for (int k = -14; k < 14; k++) sum += h[k + 14] * unit(k * (double)y / (double)side);
            z[y * to + x] = cabs(sum);
        }
    }
    free(f), free(g), free(root), free(fine);
    return z;
}

enum picture { NOISE, STROKES, STRIPES };

static unsigned char *paint(size_t n, enum picture what)
{
    unsigned char *p = get(n, 784);
    for (size_t i = 0; i < n; i++)
        for (size_t y = 0; y < 28; y++)
            for (size_t x = 0; x < 28; x++) {
                size_t dark = x < 8 || x > 19 || y < 5 || (x * (i + 2) + 3 * y + i) % 11 < 6;
                unsigned random = (unsigned)(test_rand(&seed) >> 56);
                /* stripes: nothing but the lone waves, whose parts do not cancel */
                p[i * 784 + y * 28 + x] = (unsigned char)(what == NOISE     ? random
                                                          : what == STRIPES ? 255 * ((x + y) % 2)
                                                          : dark            ? 0
                                                                            : 255 - random / 16);
            }
    return p;
}

static void check_images(size_t n, uint32_t side, int threads, enum picture what)
{
    struct wisp_context ctx = { 0 };
    struct wisp_spinputs x;
    struct wisp_images found = { 0 };
    unsigned char *pixels = paint(n, what);
    double *z = enlarge(pixels, n, side), most = 0;
    if (wisp_pool_create(&ctx.pool, threads, &err) != WISP_OK) exit(2);
    CHECK(wisp_images_make(&x, &found, pixels, n, side, &ctx, &err) == WISP_OK, "%s", err.text);
    CHECK(x.n == n && x.width == side * side && x.words == (side * side + 63) / 64, "%zu x %u", x.n,
          x.width);
    for (size_t i = 0; i < side * side * n; i++) most = fmax(most, z[i]);
    CHECK(fabs(found.threshold - most / 2) < 1e-9, "%zu x %u: cut at %.12f, not %.12f", n, side,
          found.threshold, most / 2);
    uint64_t ones = 0, close = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t at = 0; at < side * side; at++) {
            double v = z[at % side * side * n + i * side + at / side] - most / 2;
            bool one = x.bits[i * x.words + at / 64] >> at % 64 & 1;
            ones += one;
            close += fabs(v) < 1e-9;
            CHECK(one == (v > 0) || fabs(v) < 1e-9, "%zu x %u: image %zu, neuron %zu is %d at %g",
                  n, side, i, at, one, v);
        }
    CHECK(ones == found.ones && ones > 0, "%lu ones, not %lu", (unsigned long)found.ones,
          (unsigned long)ones);
    CHECK(what == STRIPES || close < 3, "%lu values cannot be judged", (unsigned long)close);
    for (size_t i = 0; i < n && (side * side) % 64; i++)
        CHECK(x.bits[(i + 1) * x.words - 1] >> side * side % 64 == 0, "bits behind row %zu", i);
    wisp_spinputs_clear(&x);
    wisp_pool_free(ctx.pool);
    free(z);
    free(pixels);
}

/* ---- MNIST ---- */

static void test_mnist(void)
{
    const char *unpack = "../shared/data/unpack";
    if (access(unpack, X_OK) != 0) {
        SKIP("there is no ../shared/data/unpack beside this checkout");
        return;
    }
    char dir[4096] = "", path[4200], command[80];
    snprintf(command, sizeof command, "%s mnist", unpack);
    FILE *f = popen(command, "r");
    CHECK(f && fgets(dir, sizeof dir, f), "%s prints no folder", command);
    CHECK(f && pclose(f) == 0, "%s failed (is xz installed?)", command);
    dir[strcspn(dir, "\n")] = 0;
    snprintf(path, sizeof path, "%s/mnist/train-images-idx3-ubyte", dir);
    struct wisp_map m = { 0 };
    struct wisp_context ctx = { 0 };
    struct wisp_spinputs x = { 0 };
    struct wisp_images found = { 0 };
    CHECK(wisp_map_open(&m, path, &err) == WISP_OK, "%s", err.text);
    CHECK(m.bytes == 16 + 60000 * 784, "%s: %zu bytes", path, m.bytes);
    if (m.bytes != 16 + 60000 * 784) return;
    if (wisp_pool_create(&ctx.pool, 0, &err) != WISP_OK) exit(2);
    CHECK(wisp_images_make(&x, &found, m.p + 16, 60000, 32, &ctx, &err) == WISP_OK, "%s", err.text);
    CHECK(found.ones == 6374505, "%lu ones, not 6374505", (unsigned long)found.ones);
    CHECK(fabs(found.threshold - 184.660242573) < 6e-10, "cut at %.9f", found.threshold);
    wisp_spinputs_clear(&x);
    wisp_pool_free(ctx.pool);
    wisp_map_close(&m);
}

static void test_errors(void)
{
    static const unsigned char pixels[784];
    struct wisp_spinputs x;
    struct wisp_images found;
    CHECK(wisp_images_make(&x, &found, pixels, 1, 27, NULL, &err) == WISP_EINVAL, "side 27");
    CHECK(wisp_images_make(&x, &found, pixels, 1, 65536, NULL, &err) == WISP_EINVAL, "side 2^16");
    CHECK(wisp_images_make(&x, &found, pixels, 0, 32, NULL, &err) == WISP_EINVAL, "no image");
    CHECK(wisp_images_make(&x, &found, pixels, 1, 32, NULL, &err) == WISP_OK, "%s", err.text);
    CHECK(found.ones == 0 && found.threshold == 0, "black: %lu ones", (unsigned long)found.ones);
    wisp_spinputs_clear(&x);
}

static void test_memory(void)
{
    unsigned char *pixels = paint(37, NOISE);
    long live = atomic_load(&wisp_mem_live), n = 0;
    for (;; n++) {
        struct wisp_spinputs x;
        struct wisp_images found;
        atomic_store(&wisp_mem_budget, n);
        wisp_status st = wisp_images_make(&x, &found, pixels, 37, 32, NULL, &err);
        atomic_store(&wisp_mem_budget, -1);
        wisp_spinputs_clear(&x);
        CHECK(atomic_load(&wisp_mem_live) == live, "after %ld: a leak", n);
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM, "after %ld: %s", n, err.text);
    }
    CHECK(n > 15, "only %ld allocations", n);
    free(pixels);
}

int main(void)
{
    TEST("images: Fourier transforms of all lengths to 200, and some more");
    static const size_t more[] = { 961, 1024, 3840, 4001, 4096, 28 * 331, 30000, 32 * 3 * 343 };
    for (size_t n = 1; n <= 200; n++) check_transform(n);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) check_transform(more[i]);

    TEST("images: as defined, the official sides");
    for (uint32_t side = 32; side <= 256; side *= 2)
        for (size_t n = 1; n < 4; n++) check_images(n, side, 1, n % 2 ? NOISE : STROKES);

    TEST("images: as defined, any side");
    static const uint32_t sides[] = { 28, 29, 30, 31, 42, 56, 57, 84, 100, 112, 224 };
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) check_images(2, sides[i], 2, NOISE);

    TEST("images: as defined, lone waves");
    check_images(1, 32, 1, STRIPES);
    check_images(3, 45, 1, STRIPES);

    TEST("images: as defined, any number");
    check_images(7, 32, 2, STROKES);
    check_images(7, 128, 4, STROKES);
    check_images(37, 30, 2, STROKES);
    check_images(67, 32, 4, STROKES);
    check_images(65, 29, 3, NOISE);

    TEST("images: the largest value is found wherever it is");
    for (int i = 0; i < 12; i++) check_images(1, i % 2 ? 256 : 128, 1, i % 3 ? NOISE : STROKES);

    TEST("images: MNIST has the official number of ones");
    test_mnist();

    TEST("images: errors");
    test_errors();

    TEST("images: failing allocations");
    test_memory();
    return test_end();
}

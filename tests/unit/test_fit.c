/* Images made larger and smaller: against the definition, Pillow's numbers, and how cameras were
 * held. */
#include "test.h"
#include "base/mem.h"
#include "base/rand.h"
#include "data/decode.h"
#include "data/fit.h"
#include "pictures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 40 };
static uint8_t pixels[MOST * MOST];
static uint32_t width;

static void read_line(double *to, const void *source, uint32_t c, uint32_t y)
{
    (void)c;
    for (uint32_t x = 0; x < width; x++) to[x] = ((const uint8_t *)source)[y * width + x];
}

static wisp_status fit(uint8_t *to, uint32_t h, uint32_t w, uint32_t to_h, uint32_t to_w)
{
    struct wisp_fit f;
    wisp_error err;
    width = w;
    wisp_status st = wisp_fit_init(&f, h, w, to_h, to_w, &err);
    if (st == WISP_OK) st = wisp_fit_bytes(to, &f, read_line, pixels, 0, &err);
    wisp_fit_clear(&f);
    return st;
}

/* The mean under a triangle about (y, x), pixel by pixel. */
static double by_definition(uint32_t h, uint32_t w, double y, double x, double reach)
{
    double sum = 0, mass = 0;
    for (uint32_t i = 0; i < h; i++)
        for (uint32_t j = 0; j < w; j++) {
            const double v = fmax(0, 1 - fabs(i - y) / reach) * fmax(0, 1 - fabs(j - x) / reach);
            sum += v * pixels[i * w + j];
            mass += v;
        }
    return sum / mass;
}

static void test_definition(void)
{
    TEST("fit: larger, smaller, and cut: the definition");
    static const uint32_t sizes[][4] = { { 7, 9, 3, 3 },    { 9, 7, 20, 30 }, { 40, 31, 5, 4 },
                                         { 1, 1, 6, 5 },    { 12, 40, 1, 1 }, { 8, 8, 8, 8 },
                                         { 30, 20, 20, 20 } };
    uint8_t out[MOST * MOST];
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(wisp_rand(7, 1, i) >> 56);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const uint32_t *s = sizes[k];
        const double step = fmin((double)s[0] / s[2], (double)s[1] / s[3]);
        CHECK(fit(out, s[0], s[1], s[2], s[3]) == WISP_OK, "no memory");
        for (uint32_t i = 0; i < s[2] * s[3]; i++) {
            const double y = (s[0] - step * s[2]) / 2 + (i / s[3] + 0.5) * step - 0.5,
                         x = (s[1] - step * s[3]) / 2 + (i % s[3] + 0.5) * step - 0.5,
                         want = by_definition(s[0], s[1], y, x, fmax(step, 1));
            CHECK(fabs(out[i] - want) <= 0.5 + 1e-9, "%zu, pixel %u: %d, not %g", k, i, out[i],
                  want);
        }
    }
}

static void test_pillow(void)
{
    TEST("fit: what Pillow makes of it (Image.BILINEAR)");
    static const uint8_t smaller[] = { 84, 114, 151, 86, 120, 128, 136, 173, 127 },
                         larger[] = { 0, 1, 4, 5, 5, 7, 13, 15, 15, 20, 30, 35, 20, 26, 39, 45 };
    uint8_t out[MOST * MOST];
    for (uint32_t i = 0; i < 64; i++) pixels[i] = (uint8_t)(i * i * 5);
    CHECK(fit(out, 8, 8, 3, 3) == WISP_OK, "no memory");
    for (size_t i = 0; i < sizeof smaller; i++)
        CHECK(abs(out[i] - smaller[i]) <= 1, "%zu: %d, not %d", i, out[i], smaller[i]);
    CHECK(fit(out, 2, 2, 4, 4) == WISP_OK, "no memory");
    for (size_t i = 0; i < sizeof larger; i++)
        CHECK(abs(out[i] - larger[i]) <= 1, "%zu: %d, not %d", i, out[i], larger[i]);
}

static void test_memory(void)
{
    TEST("fit: memory that runs out");
    uint8_t out[16];
    for (long n = 0; n < 2; n++) {
        wisp_mem_budget = n;
        CHECK(fit(out, 8, 8, 4, 4) == WISP_ENOMEM, "%ld blocks were enough", n);
        wisp_mem_budget = -1;
    }
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);
}

/* All its numbers in the other order of bytes. */
static void make_little(uint8_t *segment)
{
    static const uint8_t words[][2] = { { 12, 2 }, { 14, 4 }, { 18, 2 }, { 20, 2 },
                                        { 22, 2 }, { 24, 4 }, { 28, 2 } };
    memset(segment + 10, 'I', 2);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        uint8_t *p = segment + words[i][0], *q = p + words[i][1] - 1;
        for (; p < q; p++, q--) {
            const uint8_t was = *p;
            *p = *q, *q = was;
        }
    }
}

static void test_orientation(void)
{
    TEST("Exif: how the camera was held; whatever is odd is upright");
    enum { BEFORE = 8, ALL = BEFORE + PICTURE_EXIF };
    uint8_t file[ALL] = { 0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2 }, *segment = file + BEFORE;
    for (int i = 0; i < 16; i++) {
        picture_exif(segment, i / 2 + 1);
        if (i & 1) make_little(segment);
        CHECK(wisp_jpeg_orientation(file, ALL) == i / 2 + 1, "%d: %d", i,
              wisp_jpeg_orientation(file, ALL));
        for (size_t cut = 0; cut < ALL; cut++) {
            uint8_t *part = wisp_alloc(cut, 1); /* so that sanitizers see its end */
            if (cut) memcpy(part, file, cut);
            CHECK(wisp_jpeg_orientation(part, cut) == 1, "%d, cut at %zu", i, cut);
            wisp_free(part);
        }
    }
    static const struct {
        size_t at;
        uint8_t byte;
        const char *what;
    } odd[] = { { 29, 9, "9" },
                { 29, 0, "0" },
                { 21, 0x13, "another tag" },
                { 23, 4, "another type" },
                { 14, 0xff, "a list far away" },
                { 13, 43, "no TIFF" } };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        picture_exif(segment, 6);
        segment[odd[i].at] = odd[i].byte;
        CHECK(wisp_jpeg_orientation(file, ALL) == 1, "%s", odd[i].what);
    }
}

int main(void)
{
    test_definition();
    test_pillow();
    test_memory();
    test_orientation();
    return test_end();
}

/* Decoding of pictures, and fitting them to a size.
 *
 * TurboJPEG's own interface and libpng's simplified one are used: both report errors by what they
 * return, and neither jumps out of a call.  Their functions are looked up by name, and what they take
 * is declared here as their documentation has it, so that building needs neither of them. */
#include "data/decode.h"
#include "base/mem.h"

#include <dlfcn.h>
#include <math.h>
#include <string.h>

enum { MOST_PIXELS = 1 << 28 }; /* of a picture: what a small file may claim */

const char *wisp_picture_missing;

void wisp_picture_clear(struct wisp_picture *p)
{
    wisp_free(p->px);
    *p = (struct wisp_picture){ 0 };
}

/* ---- libraries ---- */

struct jpeg { /* as TurboJPEG declares them */
    void *(*init)(void);
    int (*header)(void *h, const unsigned char *p, unsigned long n, int *width, int *height,
                  int *subsampling, int *colours);
    int (*decode)(void *h, const unsigned char *p, unsigned long n, unsigned char *to, int width,
                  int pitch, int height, int format, int flags);
    char *(*error)(void *h);
    int (*free)(void *h);
};
enum { TJPF_RGB = 0, TJPF_GRAY = 6, TJCS_GRAY = 2, TJCS_CMYK = 3, TJCS_YCCK = 4 };
enum { TJFLAG_ACCURATEDCT = 4096, TJFLAG_STOPONWARNING = 8192, TJFLAG_LIMITSCANS = 32768 };

struct png_image { /* as libpng declares it: version 1 of its simplified interface */
    void *opaque;
    uint32_t version, width, height, format, flags, colormap_entries, warning_or_error;
    char message[64];
};
enum { PNG_IMAGE_VERSION = 1, PNG_FORMAT_GRAY = 0, PNG_FORMAT_RGB = 2, PNG_FLAG_COLOUR = 2 };
struct png {
    int (*begin)(struct png_image *i, const void *p, size_t n);
    int (*finish)(struct png_image *i, const void *background, void *to, int32_t stride,
                  void *colormap);
    void (*free)(struct png_image *i);
};

struct symbol {
    const char *name;
    void *to; /* the function's place */
};

/* Opened anew at each call and never closed: the system counts, and has it open already. */
static wisp_status open_library(const char *file, const char *package, const struct symbol *s,
                                size_t n, const char *path, const char *what, wisp_error *err)
{
    const bool missing = wisp_picture_missing && strcmp(wisp_picture_missing, file) == 0;
    void *library = missing ? NULL : dlopen(file, RTLD_NOW | RTLD_LOCAL);
    bool whole = library != NULL;
    for (size_t i = 0; i < n && whole; i++) {
        void *symbol = dlsym(library, s[i].name);
        memcpy(s[i].to, &symbol, sizeof symbol); /* ISO C knows no cast to a function */
        whole = symbol != NULL;
    }
    if (whole) return WISP_OK;
    return wisp_fail_at(err, WISP_ENOTSUP, path, 0,
                        "%s, but %s is not there, which reads them; install it (Debian: apt-get "
                        "install %s)",
                        what, file, package);
}

static wisp_status open_jpeg(struct jpeg *j, const char *path, wisp_error *err)
{
    const struct symbol s[] = { { "tjInitDecompress", &j->init },
                                { "tjDecompressHeader3", &j->header },
                                { "tjDecompress2", &j->decode },
                                { "tjGetErrorStr2", &j->error },
                                { "tjDestroy", &j->free } };
    return open_library("libturbojpeg.so.0", "libturbojpeg0", s, sizeof s / sizeof *s, path,
                        "a JPEG file", err);
}

static wisp_status open_png(struct png *g, const char *path, wisp_error *err)
{
    const struct symbol s[] = { { "png_image_begin_read_from_memory", &g->begin },
                                { "png_image_finish_read", &g->finish },
                                { "png_image_free", &g->free } };
    return open_library("libpng16.so.16", "libpng16-16", s, sizeof s / sizeof *s, path,
                        "a PNG file", err);
}

/* ---- one picture ---- */

/* Room for it, once its sizes are believed. */
static wisp_status make_room(struct wisp_picture *out, const char *path, wisp_error *err)
{
    const uint64_t n = (uint64_t)out->height * out->width;
    if (n == 0 || n > MOST_PIXELS)
        return wisp_fail_at(err, WISP_EFORMAT, path, 0,
                            "%u x %u pixels (height x width); expected 1 to %d in all", out->height,
                            out->width, MOST_PIXELS);
    if (wisp_mem_fits(n * out->channels)) out->px = wisp_zalloc(n, out->channels);
    return out->px ? WISP_OK : wisp_fail_mem(err, n * out->channels, "a picture");
}

static wisp_status read_jpeg(struct wisp_picture *out, const unsigned char *p, size_t n, bool all,
                             const char *path, wisp_error *err)
{
    struct jpeg j;
    int width = 0, height = 0, subsampling, colours = 0;
    wisp_status st = open_jpeg(&j, path, err);
    if (st != WISP_OK) return st;
    void *h = j.init();
    if (!h) return wisp_fail_mem(err, 1 << 16, "a JPEG decoder");
    if (j.header(h, p, n, &width, &height, &subsampling, &colours) != 0)
        st = wisp_fail_at(err, WISP_EFORMAT, path, 0, "no JPEG file that can be read: %.100s",
                          j.error(h));
    else if (colours == TJCS_CMYK || colours == TJCS_YCCK)
        st = wisp_fail_at(err, WISP_EFORMAT, path, 0,
                          "a JPEG file of four colours (CMYK); expected grey or RGB");
    out->height = (uint32_t)height, out->width = (uint32_t)width;
    out->channels = colours == TJCS_GRAY ? 1 : 3;
    if (st == WISP_OK && all) st = make_room(out, path, err);
    if (st == WISP_OK && all &&
        j.decode(h, p, n, out->px, width, 0, height, colours == TJCS_GRAY ? TJPF_GRAY : TJPF_RGB,
                 TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS) != 0)
        st = wisp_fail_at(err, WISP_EFORMAT, path, 0, "a damaged JPEG file: %.100s", j.error(h));
    j.free(h);
    return st;
}

static wisp_status read_png(struct wisp_picture *out, const unsigned char *p, size_t n, bool all,
                            const char *path, wisp_error *err)
{
    struct png g;
    struct png_image i = { .version = PNG_IMAGE_VERSION };
    wisp_status st = open_png(&g, path, err);
    if (st != WISP_OK) return st;
    if (!g.begin(&i, p, n))
        st = wisp_fail_at(err, WISP_EFORMAT, path, 0, "no PNG file that can be read: %.63s",
                          i.message);
    out->height = i.height, out->width = i.width;
    out->channels = i.format & PNG_FLAG_COLOUR ? 3 : 1;
    i.format = out->channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    if (st == WISP_OK && all) st = make_room(out, path, err); /* black: what shows through */
    if (st == WISP_OK && all && !g.finish(&i, NULL, out->px, 0, NULL))
        st = wisp_fail_at(err, WISP_EFORMAT, path, 0, "a damaged PNG file: %.63s", i.message);
    g.free(&i);
    return st;
}

static bool is_jpeg(const unsigned char *p, size_t n)
{
    return n >= 3 && memcmp(p, "\xff\xd8\xff", 3) == 0;
}

static bool is_png(const unsigned char *p, size_t n)
{
    return n >= 8 && memcmp(p, "\x89PNG\r\n\x1a\n", 8) == 0;
}

bool wisp_picture_probe(const unsigned char *head, size_t n)
{
    return is_jpeg(head, n) || is_png(head, n);
}

static wisp_status read_picture(struct wisp_picture *out, const unsigned char *p, size_t n,
                                bool all, const char *path, wisp_error *err)
{
    *out = (struct wisp_picture){ 0 };
    wisp_status st;
    if (is_jpeg(p, n)) st = read_jpeg(out, p, n, all, path, err);
    else if (is_png(p, n)) st = read_png(out, p, n, all, path, err);
    else
        st = wisp_fail_at(err, WISP_EFORMAT, path, 0,
                          "no picture: expected a JPEG or PNG file, which begin with ff d8 ff or "
                          "89 'PNG'");
    if (st != WISP_OK) wisp_picture_clear(out);
    return st;
}

wisp_status wisp_picture_peek(struct wisp_picture *out, const unsigned char *p, size_t n,
                              const char *path, wisp_error *err)
{
    return read_picture(out, p, n, false, path, err);
}

wisp_status wisp_picture_decode(struct wisp_picture *out, const unsigned char *p, size_t n,
                                const char *path, wisp_error *err)
{
    return read_picture(out, p, n, true, path, err);
}

/* ---- fitting ---- */

/* Channel c of a picture of 1 or 3, as one of 'channels'. */
static double sample(const struct wisp_picture *p, uint32_t y, uint32_t x, uint32_t c,
                     uint32_t channels)
{
    const uint8_t *px = p->px + ((size_t)y * p->width + x) * p->channels;
    if (p->channels == 1) return px[0];
    if (channels == 1) return 0.299 * px[0] + 0.587 * px[1] + 0.114 * px[2];
    return px[c];
}

/* A triangle about the place in the source that pixel 'at' of n comes from, as wide as a pixel of
 * the result, or of the source where that is wider: no pixel is left out when made smaller. */
struct tap {
    int64_t first, last; /* of the source, inclusive */
    double middle, reach;
};
static struct tap tap_of(uint32_t at, double from, double step, uint32_t n)
{
    struct tap t = { .middle = from + (at + 0.5) * step - 0.5, .reach = step > 1 ? step : 1 };
    t.first = (int64_t)ceil(t.middle - t.reach);
    t.last = (int64_t)floor(t.middle + t.reach);
    if (t.first < 0) t.first = 0;
    if (t.last > (int64_t)n - 1) t.last = (int64_t)n - 1;
    return t;
}
static double weight(const struct tap *t, int64_t i)
{
    const double far = fabs((double)i - t->middle) / t->reach;
    return far < 1 ? 1 - far : 0;
}

static uint8_t blend(const struct wisp_picture *p, const struct tap *v, const struct tap *h,
                     uint32_t c, uint32_t channels)
{
    double sum = 0, mass = 0;
    for (int64_t y = v->first; y <= v->last; y++) {
        const double wy = weight(v, y);
        for (int64_t x = h->first; x <= h->last && wy > 0; x++) {
            const double w = wy * weight(h, x);
            sum += w * sample(p, (uint32_t)y, (uint32_t)x, c, channels);
            mass += w;
        }
    }
    return (uint8_t)(sum / mass + 0.5);
}

/* A picture that has the size already. */
static void split(uint8_t *out, const struct wisp_picture *p)
{
    const size_t plane = (size_t)p->height * p->width;
    for (size_t c = 0; c < p->channels; c++)
        for (size_t i = 0; i < plane; i++) *out++ = p->px[i * p->channels + c];
}

void wisp_picture_fit(uint8_t *out, const struct wisp_picture *p, uint32_t channels,
                      uint32_t height, uint32_t width)
{
    if (p->height == height && p->width == width && p->channels == channels) {
        split(out, p);
        return;
    }
    const double high = (double)p->height / height, wide = (double)p->width / width;
    const double step = high < wide ? high : wide; /* pixels of the source for one of the result */
    const double top = (p->height - step * height) / 2, left = (p->width - step * width) / 2;
    for (uint32_t c = 0; c < channels; c++)
        for (uint32_t y = 0; y < height; y++) {
            const struct tap v = tap_of(y, top, step, p->height);
            for (uint32_t x = 0; x < width; x++) {
                const struct tap h = tap_of(x, left, step, p->width);
                *out++ = blend(p, &v, &h, c, channels);
            }
        }
}

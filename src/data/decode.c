/* Decoding of pictures, and fitting them to a size.
 *
 * TurboJPEG's own interface and libpng's simplified one are used: both report errors by what they
 * return, and neither jumps out of a call.  Their functions are looked up by name, and what they take
 * is declared here as their documentation has it, so that building needs neither of them. */
#include "data/decode.h"
#include "base/mem.h"
#include "data/fit.h"

#include <dlfcn.h>
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
enum { PNG_FLAG_16BIT_SRGB = 4 }; /* 16 bits are no other scale than 8: the file says no other */
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

/* Room for it, where all of it is wanted; its sizes are looked at in any case: a head that is cut may
 * leave them 0. */
static wisp_status make_room(struct wisp_picture *out, bool all, const char *path, wisp_error *err)
{
    const uint64_t n = (uint64_t)out->height * out->width;
    if (n == 0 || n > MOST_PIXELS)
        return wisp_fail_at(err, WISP_EFORMAT, path, 0,
                            "%u x %u pixels (height x width); expected 1 to %d in all", out->height,
                            out->width, MOST_PIXELS);
    if (!all) return WISP_OK;
    if (wisp_mem_fits(n * out->channels)) out->px = wisp_zalloc(n, out->channels);
    return out->px ? WISP_OK : wisp_fail_mem(err, n * out->channels, "a picture");
}

/* Upright: 'orientation' says how the camera was held.  A picture without pixels has new sizes. */
static wisp_status turn(struct wisp_picture *p, int orientation, wisp_error *err)
{
    const bool lying = orientation >= 5; /* lines are columns */
    const bool down = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7,
               mirrored =
                   orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    struct wisp_picture t = { lying ? p->width : p->height, lying ? p->height : p->width,
                              p->channels, NULL };
    const size_t n = (size_t)t.height * t.width;
    if (orientation == 1) return WISP_OK;
    if (p->px) {
        if (wisp_mem_fits(n * t.channels)) t.px = wisp_alloc(n, t.channels);
        if (!t.px) return wisp_fail_mem(err, n * t.channels, "a picture");
        for (size_t i = 0; i < n; i++) {
            const size_t row = i / t.width, column = i % t.width;
            const size_t y = lying ? column : row, x = lying ? row : column;
            const size_t from =
                (down ? p->height - 1 - y : y) * p->width + (mirrored ? p->width - 1 - x : x);
            memcpy(t.px + i * t.channels, p->px + from * t.channels, t.channels);
        }
    }
    wisp_picture_clear(p);
    *p = t;
    return WISP_OK;
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
    if (st == WISP_OK) st = make_room(out, all, path, err);
    if (st == WISP_OK && all &&
        j.decode(h, p, n, out->px, width, 0, height, colours == TJCS_GRAY ? TJPF_GRAY : TJPF_RGB,
                 TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS) != 0)
        st = wisp_fail_at(err, WISP_EFORMAT, path, 0, "a damaged JPEG file: %.100s", j.error(h));
    j.free(h);
    return st == WISP_OK ? turn(out, wisp_jpeg_orientation(p, n), err) : st;
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
    i.flags |= PNG_FLAG_16BIT_SRGB;
    out->height = i.height, out->width = i.width;
    out->channels = i.format & PNG_FLAG_COLOUR ? 3 : 1;
    i.format = out->channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    if (st == WISP_OK) st = make_room(out, all, path, err); /* black: what shows through */
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

struct source {
    const struct wisp_picture *p;
    uint32_t channels; /* of the result */
};

/* Channel c of a picture of 1 or 3, as one of 'channels'. */
static void read_line(double *to, const void *arg, uint32_t c, uint32_t y)
{
    const struct source *s = arg;
    const uint32_t n = s->p->channels;
    const uint8_t *px = s->p->px + (size_t)y * s->p->width * n;
    for (uint32_t x = 0; x < s->p->width; x++, px += n)
        to[x] = n == s->channels ? px[c]
                : n == 1         ? px[0]
                                 : 0.299 * px[0] + 0.587 * px[1] + 0.114 * px[2];
}

/* A picture that has the size already. */
static void split(uint8_t *out, const struct wisp_picture *p)
{
    const size_t plane = (size_t)p->height * p->width;
    for (size_t c = 0; c < p->channels; c++)
        for (size_t i = 0; i < plane; i++) *out++ = p->px[i * p->channels + c];
}

wisp_status wisp_picture_fit(uint8_t *out, const struct wisp_picture *p, uint32_t channels,
                             uint32_t height, uint32_t width, wisp_error *err)
{
    const struct source s = { p, channels };
    const size_t plane = (size_t)height * width;
    struct wisp_fit f;
    if (p->height == height && p->width == width && p->channels == channels) {
        split(out, p);
        return WISP_OK;
    }
    wisp_status st = wisp_fit_init(&f, p->height, p->width, height, width, err);
    for (uint32_t c = 0; c < channels && st == WISP_OK; c++)
        st = wisp_fit_bytes(out + c * plane, &f, read_line, &s, c, err);
    wisp_fit_clear(&f);
    return st;
}

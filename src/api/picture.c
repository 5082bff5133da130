/* A JPEG or PNG file in memory, as the pixels of one image (wisp_picture_pixels). */
#include "data/decode.h"
#include "wisp/wisp.h"

enum { MOST_PIXELS = 1 << 26 }; /* what a file of some bytes may claim to hold */

wisp_status wisp_picture_pixels(uint8_t *out, size_t channels, size_t height, size_t width,
                                const void *file, size_t bytes, wisp_error *err)
{
    static const char name[] = "a picture";
    struct wisp_picture p = { 0 };
    if (!wisp_picture_probe(file, bytes))
        return wisp_fail(err, WISP_EFORMAT, "expected the bytes of a JPEG or PNG file");
    wisp_status st = wisp_picture_peek(&p, file, bytes, name, err);
    if (st == WISP_OK && (uint64_t)p.height * p.width > MOST_PIXELS)
        st =
            wisp_fail(err, WISP_EFORMAT, "a picture of %u x %u pixels, expected at most %d million",
                      p.width, p.height, MOST_PIXELS >> 20);
    if (st == WISP_OK) st = wisp_picture_decode(&p, file, bytes, name, err);
    if (st == WISP_OK)
        st = wisp_picture_fit(out, &p, (uint32_t)channels, (uint32_t)height, (uint32_t)width, err);
    wisp_picture_clear(&p);
    return st;
}

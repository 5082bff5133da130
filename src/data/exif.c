/* How a camera was held: the orientation that JPEG files have in a segment of the kind Exif.
 *
 *   ff d8 { ff MARKER LENGTH bytes }     segment e1 that begins with "Exif\0\0" holds a TIFF file:
 *   "II" | "MM", 42, place of a list     integers of either byte order
 *   n, n x (tag, type, count, value)     tag 274 is the orientation, 1 to 8
 *
 * Whatever is not so has none: a picture can be read all the same. */
#include "data/decode.h"

#include <string.h>

enum { SEGMENT_EXIF = 0xe1, SEGMENT_PIXELS = 0xda, TAG_ORIENTATION = 274, TYPE_SHORT = 3 };

struct tiff {
    const unsigned char *p;
    size_t n;
    bool little; /* the lowest byte is the first */
};

static uint32_t number(const struct tiff *t, size_t at, size_t bytes)
{
    uint32_t v = 0;
    for (size_t i = 0; i < bytes; i++) v = v << 8 | t->p[t->little ? at + bytes - 1 - i : at + i];
    return v;
}

static int orientation(const unsigned char *p, size_t n)
{
    const struct tiff t = { p, n, n > 0 && p[0] == 'I' };
    if (n < 8 || (memcmp(p, "II", 2) && memcmp(p, "MM", 2)) || number(&t, 2, 2) != 42) return 1;
    const size_t list = number(&t, 4, 4);
    if (list > n - 2) return 1;
    const size_t entries = number(&t, list, 2);
    for (size_t i = 0, at = list + 2; i < entries && n >= 12 && at <= n - 12; i++, at += 12) {
        if (number(&t, at, 2) != TAG_ORIENTATION) continue;
        const uint32_t v = number(&t, at + 8, 2);
        return number(&t, at + 2, 2) == TYPE_SHORT && v >= 1 && v <= 8 ? (int)v : 1;
    }
    return 1;
}

int wisp_jpeg_orientation(const unsigned char *p, size_t n)
{
    for (size_t at = 2; at + 4 <= n && p[at] == 0xff && p[at + 1] != SEGMENT_PIXELS;) {
        const size_t bytes = (size_t)p[at + 2] << 8 | p[at + 3];
        if (bytes < 2 || bytes > n - at - 2) return 1;
        if (p[at + 1] == SEGMENT_EXIF && bytes >= 8 && memcmp(p + at + 4, "Exif\0", 6) == 0)
            return orientation(p + at + 10, bytes - 8);
        at += 2 + bytes;
    }
    return 1;
}

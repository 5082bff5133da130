/* Pictures in files: JPEG by libturbojpeg, PNG by libpng, both opened at run time where they are
 * found, so that nothing else needs them. */
#ifndef WISP_DATA_DECODE_H
#define WISP_DATA_DECODE_H

#include "base/error.h"

#include <stdbool.h>

struct wisp_picture {
    uint32_t height, width;
    uint32_t channels; /* 1 or 3 */
    uint8_t *px;       /* (height, width, channels), owned */
};
void wisp_picture_clear(struct wisp_picture *p);

/* Do files begin so? */
bool wisp_picture_probe(const unsigned char *head, size_t n);
/* Sizes alone, from the head of the file: px is NULL.  WISP_ENOTSUP: the library is not there. */
wisp_status wisp_picture_peek(struct wisp_picture *out, const unsigned char *p, size_t n,
                              const char *path, wisp_error *err);
/* All of it, upright; a file that is cut or damaged is refused. */
wisp_status wisp_picture_decode(struct wisp_picture *out, const unsigned char *p, size_t n,
                                const char *path, wisp_error *err);
/* As Exif counts: 1 is upright, 2 to 8 are mirrored, turned, or both. */
int wisp_jpeg_orientation(const unsigned char *p, size_t n);
/* Fitted to (channels, height, width), as planes (fit.h). */
wisp_status wisp_picture_fit(uint8_t *out, const struct wisp_picture *p, uint32_t channels,
                             uint32_t height, uint32_t width, wisp_error *err);

extern const char *wisp_picture_missing; /* tests: a library that is not found; else NULL */

#endif

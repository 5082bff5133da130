/* Images as a net reads them: planes of floats, each channel with mean 0 and deviation 1 over the
 * training rows, and while training moved a little, differently in each epoch.
 *
 *   out (channels, height, width):   out(c, y, x) = (v(c, y + down, x' + right) - mean(c)) * scale(c)
 *
 * v is the pixel's byte / 255, or the value of a row of lists; x' is x, or width - 1 - x in a
 * mirrored image; what lies outside the image is 0, the mean. */
#ifndef WISP_DATA_IMAGE_H
#define WISP_DATA_IMAGE_H

#include "data/data.h"

struct wisp_image_how {
    struct wisp_image image;
    const float *mean, *scale; /* (channels) */
    uint32_t pad;              /* most pixels that an image is moved by, in each direction */
    bool flip;                 /* half of the images are mirrored */
};

struct wisp_image_move { /* of one row in one epoch; all 0: as it is */
    int32_t down, right;
    bool mirrored;
};
/* A function of these alone; epoch 0: no move. */
struct wisp_image_move wisp_image_move(const struct wisp_image_how *how, uint64_t seed, int epoch,
                                       size_t row);

/* table (channels, 256): what each byte becomes. */
void wisp_image_table(float *table, const struct wisp_image_how *how);
/* One row, pixels or lists, into out (channels, height, width).  Instruction sets do not differ:
 * bytes are looked up, and nothing is summed. */
void wisp_image_lay(float *out, const struct wisp_rows *r, size_t row,
                    const struct wisp_image_how *how, const float *table, struct wisp_image_move m);

/* The mean of each channel over all rows, and one over its deviation; 1 where it has a single
 * value. */
wisp_status wisp_image_means(float *mean, float *scale, const struct wisp_data *d, wisp_error *err);

/* "3 x 32 x 32": channels, height, width (WISP_IMAGE_TEXT bytes). */
enum { WISP_IMAGE_TEXT = 40 };
const char *wisp_image_text(char *out, struct wisp_image i);
/* Behind "images of ...; expected ...": how images of any size can be used, or nothing where the size
 * is not what is wrong. */
enum { WISP_IMAGE_HINT = 120 };
const char *wisp_image_hint(char *out, struct wisp_image found, struct wisp_image wanted);
bool wisp_image_read(struct wisp_image *out, const char *text); /* the same back; false: is none */
static inline bool wisp_same_image(struct wisp_image a, struct wisp_image b)
{
    return a.channels == b.channels && a.height == b.height && a.width == b.width;
}

#endif

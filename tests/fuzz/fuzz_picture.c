/* Fuzzing pictures: any bytes as a JPEG or PNG file, alone or in a folder of a class.
 *
 * Their libraries read them; what comes back must be whole, or an error. */
#define FUZZ_NAME   "fuzz_picture"
#define FUZZ_ERRORS WISP_EFORMAT, WISP_ENOTSUP
#define FUZZ_WORDS                                                                                 \
    "\xff\xd8\xff", "\x89PNG\r\n\x1a\n", "IHDR", "IDAT", "IEND", "\xff\xc0", "\xff\xda",           \
        "\xff\xe1", "Exif"
#define FUZZ_MUTANTS 6000
#include "fuzz/rows.h"

#include "data/decode.h"
#include "pictures.h"

enum { FOLDER = 1, SMALL = 2, GREY = 4 };

static wisp_status fuzz_read(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    const struct wisp_read_options o = {
        .format = "images",
        .image = { how & (SMALL | GREY) ? (how & GREY ? 1 : 3) : 0, 3, 4 },
    };
    struct wisp_data *d;
    struct wisp_picture picture;
    if (!fuzz_measuring) wisp_ids_max = 1 << 12;
    wisp_status st = wisp_picture_decode(&picture, p, n, "p", err);
    if (!picture.px != (st != WISP_OK)) fuzz_die("an error, and a picture", err);
    unsigned sum = 0;
    for (size_t i = 0; st == WISP_OK && i < (size_t)picture.height * picture.width; i++)
        sum += picture.px[i * picture.channels];
    fuzz_sink = sum;
    const bool large = st == WISP_OK && (size_t)picture.height * picture.width > 1 << 16;
    wisp_picture_clear(&picture);
    if (st != WISP_OK || large) return st;
    mkdir(fuzz_path("f"), 0777);
    mkdir(fuzz_path("f/class"), 0777);
    const char *file = fuzz_save(how & FOLDER ? "f/class/1.png" : "1.jpg", p, n);
    st = wisp_data_read(&d, NULL, how & FOLDER ? fuzz_path("f") : file, &o, err);
    if (!d != (st != WISP_OK)) fuzz_die("an error, and data", err);
    if (d) rows_check(d, true);
    wisp_data_free(d);
    return st;
}

static size_t fuzz_seed(uint8_t *to, size_t i)
{
    static uint8_t turned[sizeof picture_grey_jpeg + PICTURE_EXIF];
    static const struct {
        unsigned how;
        const uint8_t *p;
        size_t n;
    } seeds[] = {
        { 0, picture_colour_jpeg, sizeof picture_colour_jpeg },
        { FOLDER | SMALL, picture_grey_jpeg, sizeof picture_grey_jpeg },
        { GREY, picture_colour_png, sizeof picture_colour_png },
        { FOLDER, picture_grey_png, sizeof picture_grey_png },
        { 0, picture_cmyk_jpeg, sizeof picture_cmyk_jpeg },
        { 0, (const uint8_t *)"GIF89a", 6 },
        { SMALL, turned, sizeof turned },
    };
    memcpy(turned, picture_grey_jpeg, 2);
    picture_exif(turned + 2, 6);
    memcpy(turned + 2 + PICTURE_EXIF, picture_grey_jpeg + 2, sizeof picture_grey_jpeg - 2);
    return i < sizeof seeds / sizeof *seeds ? fuzz_put(to, seeds[i].how, seeds[i].p, seeds[i].n)
                                            : 0;
}

#ifndef WISP_LIBFUZZER
static void fuzz_tests(void)
{
    TEST(FUZZ_NAME ": nothing is there");
    const struct wisp_read_options o = { .format = "images" };
    struct wisp_data *d;
    wisp_error err;
    CHECK(wisp_data_read(&d, NULL, fuzz_path("nowhere"), &o, &err) == WISP_EIO, "%s", err.text);
}
#endif

/* Folders of pictures: labels, sizes, fitting, models; what is refused; missing libraries; memory. */
#include "data_rig.h"
#include "data/decode.h"
#include "data/image.h"
#include "pictures.h"

#include <stdlib.h>

enum { HIGH = 6, WIDE = 8, PLANE = HIGH * WIDE };

static const char *put(const char *name, const void *p, size_t n)
{
    char path[400];
    snprintf(path, sizeof path, "%s", in_folder(name));
    for (char *s = path + strlen(folder) + 1; (s = strchr(s, '/')); s++) {
        *s = 0;
        mkdir(path, 0777);
        *s = '/';
    }
    save(path, p, n);
    return in_folder(name);
}
#define PUT(name, picture) put(name, picture, sizeof picture)

static wisp_status try_read(struct wisp_data **d, const char *name,
                            const struct wisp_read_options *o, wisp_error *err)
{
    static const struct wisp_read_options none = { .index_base = -1 };
    *err = (wisp_error){ 0 };
    n_said = 0;
    said[0] = 0;
    return wisp_data_read(d, &four, in_folder(name), o ? o : &none, err);
}

static bool have_libraries(void)
{
    struct wisp_picture p;
    wisp_error err;
    bool both =
        wisp_picture_peek(&p, picture_grey_jpeg, sizeof picture_grey_jpeg, "j", &err) == WISP_OK &&
        wisp_picture_peek(&p, picture_grey_png, sizeof picture_grey_png, "p", &err) == WISP_OK;
    if (!both) printf("skip folders of pictures: %s\n", err.text);
    return both;
}

static void decoding(void)
{
    TEST("pictures: JPEG and PNG, colour and grey, as other programs read them");
    struct wisp_picture p;
    wisp_error err;
    CHECK(wisp_picture_decode(&p, picture_colour_jpeg, sizeof picture_colour_jpeg, "j", &err) ==
              WISP_OK,
          "%s", err.text);
    CHECK(p.height == HIGH && p.width == WIDE && p.channels == 3 &&
              memcmp(p.px, picture_decoded, sizeof picture_decoded) == 0,
          "%u x %u x %u", p.channels, p.height, p.width);
    wisp_picture_clear(&p);
    CHECK(wisp_picture_decode(&p, picture_colour_png, sizeof picture_colour_png, "p", &err) ==
              WISP_OK,
          "%s", err.text);
    for (int i = 0; i < PLANE; i++)
        CHECK(p.px[3 * i] == 40 * (i % WIDE / 2) && p.px[3 * i + 1] == 30 * (i / WIDE / 2) &&
                  p.px[3 * i + 2] == 100,
              "pixel %d", i);
    static uint8_t out[3 * 100 * 100];
    CHECK(wisp_picture_fit(out, &p, 3, HIGH, WIDE, &err) == WISP_OK, "%s", err.text);
    for (int i = 0; i < 3 * PLANE; i++)
        CHECK(out[i] == p.px[i % PLANE * 3 + i / PLANE], "plane %d", i);
    CHECK(wisp_picture_fit(out, &p, 1, HIGH, WIDE, &err) == WISP_OK, "%s", err.text);
    for (int i = 0; i < PLANE; i++)
        CHECK(out[i] == (uint8_t)(0.299 * p.px[3 * i] + 0.587 * p.px[3 * i + 1] + 11.4 + 0.5),
              "grey %d: %d", i, out[i]);
    CHECK(wisp_picture_fit(out, &p, 3, 3, 4, &err) == WISP_OK, "%s",
          err.text); /* halves: each pixel's own four weigh most */
    for (int i = 0; i < 12; i++)
        CHECK(abs(out[i] - 40 * (i % 4)) <= 12 && out[24 + i] == 100, "half %d: %d", i, out[i]);
    CHECK(wisp_picture_fit(out, &p, 3, HIGH, HIGH, &err) == WISP_OK, "%s",
          err.text); /* the middle: columns 1 to 6 */
    for (int i = 0; i < HIGH * HIGH; i++)
        CHECK(out[i] == 40 * ((i % HIGH + 1) / 2), "middle %d: %d", i, out[i]);
    CHECK(wisp_picture_fit(out, &p, 3, 60, 80, &err) == WISP_OK, "%s",
          err.text); /* larger: between its neighbours */
    for (int i = 0; i < 4800; i++) CHECK(out[i] <= 120 && out[9600 + i] == 100, "larger %d", i);
    wisp_picture_clear(&p);
    CHECK(wisp_picture_decode(&p, picture_grey_png, sizeof picture_grey_png, "p", &err) ==
                  WISP_OK &&
              p.channels == 1,
          "%s", err.text);
    CHECK(wisp_picture_fit(out, &p, 3, HIGH, WIDE, &err) == WISP_OK, "%s", err.text);
    CHECK(memcmp(out, p.px, PLANE) == 0 && memcmp(out + 2 * PLANE, p.px, PLANE) == 0, "of grey");
    wisp_picture_clear(&p);
}

/* What Exif says of a picture: at which sides of it the first line and the first column are. */
static void orientations(void)
{
    TEST("pictures: upright, however the camera was held");
    static const struct {
        bool lying, far_line, far_column; /* far: the bottom, or the right */
    } how[9] = { [1] = { 0, 0, 0 }, [2] = { 0, 0, 1 }, [3] = { 0, 1, 1 }, [4] = { 0, 1, 0 },
                 [5] = { 1, 0, 0 }, [6] = { 1, 1, 0 }, [7] = { 1, 1, 1 }, [8] = { 1, 0, 1 } };
    static uint8_t file[sizeof picture_colour_jpeg + PICTURE_EXIF];
    struct wisp_picture p, sizes;
    wisp_error err;
    memcpy(file, picture_colour_jpeg, 2);
    memcpy(file + 2 + PICTURE_EXIF, picture_colour_jpeg + 2, sizeof picture_colour_jpeg - 2);
    for (int o = 1; o <= 8; o++) {
        picture_exif(file + 2, o);
        CHECK(wisp_picture_decode(&p, file, sizeof file, "j", &err) == WISP_OK &&
                  wisp_picture_peek(&sizes, file, sizeof file, "j", &err) == WISP_OK,
              "%s", err.text);
        CHECK(p.height == (how[o].lying ? WIDE : HIGH) && p.width == (how[o].lying ? HIGH : WIDE) &&
                  sizes.height == p.height && sizes.width == p.width,
              "%d: %u x %u", o, p.height, p.width);
        for (uint32_t i = 0; i < PLANE && p.px; i++) {
            const uint32_t line = how[o].far_line ? HIGH - 1 - i / WIDE : i / WIDE,
                           column = how[o].far_column ? WIDE - 1 - i % WIDE : i % WIDE,
                           at = how[o].lying ? column * HIGH + line : line * WIDE + column;
            CHECK(memcmp(p.px + 3 * at, picture_decoded + 3 * i, 3) == 0, "%d, pixel %u", o, i);
        }
        wisp_picture_clear(&p);
    }
}

static void labels(void)
{
    TEST("folders: classes are labels with names; a model's labels; pictures without labels");
    struct wisp_data *d, *e;
    wisp_error err;
    PUT("a/dog/1.PNG", picture_colour_png);
    PUT("a/cat/2.jpg", picture_colour_jpeg);
    PUT("a/cat/1.jpeg", picture_grey_jpeg);
    put("a/cat/notes.txt", "x", 1);
    put("a/cat/.hidden.png", "x", 1);
    CHECK(try_read(&d, "a", NULL, &err) == WISP_OK, "%s", err.text);
    if (!d) return;
    const struct wisp_image want = { 3, HIGH, WIDE };
    CHECK(d->n_rows == 3 && d->n_labels == 2 && wisp_same_image(d->image, want) &&
              d->blocks[0].px && d->named == WISP_NAMED_LABELS,
          "%zu rows, %zu labels", d->n_rows, d->n_labels);
    CHECK(d->labels.n == 2 && memcmp(d->labels.text, "cat\ndog\n", 8) == 0, "names");
    CHECK(d->blocks[0].yi[0] == 0 && d->blocks[0].yi[1] == 0 && d->blocks[0].yi[2] == 1, "labels");
    CHECK(strstr(said, "1 files that are no .jpg"), "said '%s'", said);
    for (int i = 0; i < 3 * PLANE; i++)
        CHECK(d->blocks[0].px[3 * PLANE + i] == picture_decoded[i % PLANE * 3 + i / PLANE], "%d",
              i);
    char names[] = "zebra\ndog\n";
    struct wisp_names model;
    CHECK(wisp_names_init(&model, names, 10, true, &err) == WISP_OK, "%s", err.text);
    const struct wisp_read_options o = { .labels = &model,
                                         .named = WISP_NAMED_LABELS,
                                         .decided = WISP_NAMED_LABELS,
                                         .n_labels = 2,
                                         .image = { 1, 4, 4 },
                                         .n_features = 16 };
    CHECK(try_read(&e, "a", &o, &err) == WISP_OK, "%s", err.text);
    if (e)
        CHECK(e->n_features == 16 && e->image.height == 4 && e->blocks[0].yi[2] == 1 &&
                  e->blocks[0].yi[0] == 2 && e->n_dropped_labels == 2,
              "%zu dropped", e->n_dropped_labels);
    wisp_data_free(e);
    wisp_names_clear(&model);
    wisp_data_free(d);
    CHECK(try_read(&d, "a/cat", NULL, &err) == WISP_OK && d->n_rows == 2 && d->n_labels == 0, "%s",
          err.text);
    wisp_data_free(d);
    CHECK(try_read(&d, "a/dog/1.PNG", NULL, &err) == WISP_OK && d->n_rows == 1 &&
              d->format == &wisp_format_images,
          "%s", err.text);
    wisp_data_free(d);
}

static void caching(void)
{
    TEST("folders: a cache beside them, stale when a picture changes or comes");
    struct wisp_data *d;
    wisp_error err;
    const struct wisp_read_options o = { .index_base = -1, .use_cache = true };
    wisp_cache_min = 0;
    PUT("c/x/1.png", picture_grey_png);
    PUT("c/y/1.png", picture_colour_png);
    for (int i = 0; i < 4; i++) {
        if (i == 2) PUT("c/x/2.png", picture_grey_png);
        if (i == 3) PUT("c/x/1.png", picture_colour_png);
        CHECK(try_read(&d, "c", &o, &err) == WISP_OK, "%s", err.text);
        CHECK(d && (d->source_bytes == 0) == (i == 1) && d->n_rows == (i < 2 ? 2u : 3u) &&
                  d->n_labels == 2 && d->labels.n == 2,
              "%d: %zu bytes", i, d ? d->source_bytes : 0);
        wisp_data_free(d);
    }
    CHECK(access(in_folder("c.wispcache"), F_OK) == 0, "beside the folder");
}

static void refused(void)
{
    TEST("folders: what is refused, with which words");
    struct wisp_data *d;
    wisp_error err;
    mkdir(in_folder("empty"), 0777);
    CHECK(try_read(&d, "empty", NULL, &err) == WISP_EFORMAT &&
              strstr(err.text, "empty: no pictures: expected folders"),
          "%s", err.text);
    PUT("mixed/1.png", picture_grey_png);
    PUT("mixed/x/1.png", picture_grey_png);
    CHECK(try_read(&d, "mixed", NULL, &err) == WISP_EFORMAT &&
              strstr(err.text, "mixed/1.png: a picture beside folders"),
          "%s", err.text);
    put("odd/x/1.png", "GIF89a", 6);
    CHECK(try_read(&d, "odd", NULL, &err) == WISP_EFORMAT &&
              strstr(err.text, "odd/x/1.png: no picture: expected a JPEG or PNG"),
          "%s", err.text);
    PUT("four/x/1.jpg", picture_cmyk_jpeg);
    CHECK(try_read(&d, "four", NULL, &err) == WISP_EFORMAT && strstr(err.text, "CMYK"), "%s",
          err.text);
    const struct wisp_read_options few = { .n_features = 7, .index_base = -1 };
    CHECK(try_read(&d, "a", &few, &err) == WISP_EFORMAT &&
              strstr(err.text, "the model knows 7 features and not how they lie"),
          "%s", err.text);
    static uint8_t big[sizeof picture_grey_png];
    memcpy(big, picture_grey_png, sizeof big); /* 2^31 - 1 pixels wide; the crc is wrong, too */
    memset(big + 16, 0x7f, 8);
    put("huge/x/1.png", big, sizeof big);
    CHECK(try_read(&d, "huge", NULL, &err) == WISP_EFORMAT && strstr(err.text, "huge/x/1.png: "),
          "%s", err.text);
    TEST("folders: pictures of several sizes become squares, and it is said");
    PUT("sizes/x/1.png", picture_colour_png);
    static uint8_t other[sizeof picture_colour_jpeg];
    memcpy(other, picture_colour_jpeg, sizeof other);
    uint8_t *frame = memmem(other, sizeof other, "\xff\xc0", 2);
    frame[6] = 4; /* its height */
    put("sizes/x/2.jpg", other, sizeof other);
    PUT("sizes/x/3.png", picture_grey_png);
    CHECK(try_read(&d, "sizes", NULL, &err) == WISP_OK && d->image.height == 6 &&
              d->image.width == 6 &&
              strstr(said, "pictures of several sizes: the middle of each "
                           "becomes 6 x 6"),
          "%s, said '%s'", err.text, said);
    wisp_data_free(d);
    TEST("folders: files cut at every byte are refused");
    static const struct {
        const uint8_t *p;
        size_t n;
    } all[] = { { picture_colour_jpeg, sizeof picture_colour_jpeg },
                { picture_grey_png, sizeof picture_grey_png } };
    for (size_t k = 0; k < 2; k++)
        for (size_t n = 0; n + 2 < all[k].n; n++) { /* JPEG: all but its last two bytes */
            struct wisp_picture p;
            if (k == 1 && n + 12 >= all[k].n) continue; /* PNG: all but its last chunk */
            CHECK(wisp_picture_decode(&p, all[k].p, n, "t", &err) != WISP_OK && !p.px,
                  "picture %zu, cut %zu", k, n);
            if (wisp_picture_peek(&p, all[k].p, n, "t", &err) == WISP_OK)
                CHECK(p.height == HIGH && p.width == WIDE, "picture %zu, cut %zu: %u x %u", k, n,
                      p.height, p.width);
            wisp_picture_clear(&p);
        }
    TEST("folders: a library that is not there is named, with how to get it");
    wisp_picture_missing = "libpng16.so.16";
    CHECK(try_read(&d, "c", NULL, &err) == WISP_ENOTSUP &&
              strstr(err.text, "a PNG file, but libpng16.so.16 is not there, which reads them; "
                               "install it (Debian: apt-get install libpng16-16)"),
          "%s", err.text);
    wisp_picture_missing = "libturbojpeg.so.0";
    CHECK(try_read(&d, "a", NULL, &err) == WISP_ENOTSUP && strstr(err.text, "libturbojpeg0"), "%s",
          err.text);
    wisp_picture_missing = NULL;
}

static void memory(void)
{
    TEST("folders: memory that runs out");
    read_without_memory(in_folder("a"), &(struct wisp_read_options){ .index_base = -1 });
}

int main(void)
{
    if (!rig_open()) return 1;
    long live = wisp_mem_live;
    if (have_libraries()) {
        decoding();
        orientations();
        labels();
        caching();
        refused();
        memory();
    }
    return rig_close(live);
}

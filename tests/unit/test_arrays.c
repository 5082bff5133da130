/* Arrays of images: every order and type, labels of every type, what is refused, cuts, memory. */
#include "data_rig.h"

enum { ROWS = 3, CHANNELS = 2, HIGH = 5, WIDE = 6, PIXELS = CHANNELS * HIGH * WIDE };
static uint8_t pixels[ROWS * PIXELS]; /* (rows, channels, height, width) */
static const struct wisp_image shape = { CHANNELS, HIGH, WIDE };

/* A file of numpy's; returns its length. */
static size_t array(char *to, const char *type, const char *dims, const char *order,
                    const void *data, size_t bytes)
{
    memset(to, ' ', 128);
    memcpy(to, "\x93NUMPY\1\0\x76\0", 10);
    int n = snprintf(to + 10, 118, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", type,
                     order, dims);
    to[10 + n] = ' ';
    to[127] = '\n';
    memcpy(to + 128, data, bytes);
    return 128 + bytes;
}

static void put(const char *name, const char *type, const char *dims, const void *data,
                size_t bytes)
{
    static char file[9000];
    save(in_folder(name), file, array(file, type, dims, "False", data, bytes));
}

static wisp_status try_read(struct wisp_data **d, size_t n_features, wisp_error *err)
{
    const struct wisp_read_options o = { .index_base = -1, .n_features = n_features };
    *err = (wisp_error){ 0 };
    n_said = 0;
    return wisp_data_read(d, &four, in_folder("a.npy"), &o, err);
}

static void check(const struct wisp_data *d, struct wisp_image want, bool bytes)
{
    const size_t n = wisp_image_pixels(want);
    CHECK(d->n_rows == ROWS * PIXELS / n && d->n_features == n &&
              memcmp(&d->image, &want, sizeof want) == 0 && !d->blocks[0].px == !bytes,
          "%zu rows of %u x %u x %u", d->n_rows, d->image.channels, d->image.height,
          d->image.width);
    CHECK(d->format == &wisp_format_npy, "format");
    if (bytes) {
        CHECK(memcmp(d->blocks[0].px, pixels, ROWS * PIXELS) == 0, "pixels");
        return;
    }
    const struct wisp_rows *r = &d->blocks[0];
    for (size_t row = 0, e = 0; row < r->n; row++)
        for (size_t i = 0; i < n; i++) {
            if (pixels[row * n + i] == 0) continue;
            CHECK(r->xi[e] == (int32_t)i && r->xv[e] == pixels[row * n + i] / 8.0f, "row %zu, %zu",
                  row, i);
            e++;
        }
}

static void reading(void)
{
    static uint8_t last[ROWS * PIXELS];
    static float f4[ROWS * PIXELS];
    static double f8[ROWS * PIXELS];
    static const int64_t i8[] = { 2, 0, 7 };
    static const uint8_t u1[] = { 2, 0, 7 };
    struct wisp_data *d;
    wisp_error err;
    for (size_t i = 0; i < ROWS * PIXELS; i++) {
        const size_t row = i / PIXELS, at = i % PIXELS, plane = HIGH * WIDE;
        last[row * PIXELS + at % plane * CHANNELS + at / plane] = pixels[i];
        f8[i] = f4[i] = pixels[i] / 8.0f;
    }
    TEST("npy: images of bytes and floats, channels first, last or alone; labels");
    unlink(in_folder("a.y.npy"));
    put("a.npy", "|u1", "(3, 2, 5, 6)", pixels, sizeof pixels);
    CHECK(try_read(&d, 0, &err) == WISP_OK && d->n_labels == 0 && n_said == 1, "%s", err.text);
    if (d) check(d, shape, true);
    wisp_data_free(d);
    put("a.y.npy", "<i8", "(3,)", i8, sizeof i8);
    CHECK(try_read(&d, 0, &err) == WISP_OK && d->n_labels == 8 && d->blocks[0].yi[2] == 7, "%s",
          err.text);
    wisp_data_free(d);
    put("a.y.npy", "|u1", "(3, 1)", u1, sizeof u1);
    put("a.npy", "|u1", "(3, 5, 6, 2)", last, sizeof last);
    CHECK(try_read(&d, 0, &err) == WISP_OK && d->n_labels == 8 && d->blocks[0].yi[0] == 2, "%s",
          err.text);
    if (d) check(d, shape, true);
    wisp_data_free(d);
    put("a.npy", "<f4", "(3, 2, 5, 6)", f4, sizeof f4);
    CHECK(try_read(&d, 0, &err) == WISP_OK, "%s", err.text);
    if (d) check(d, shape, false);
    wisp_data_free(d);
    put("a.npy", "<f8", "(3, 10, 6)", f8, sizeof f8);
    CHECK(try_read(&d, 0, &err) == WISP_OK, "%s", err.text);
    if (d) check(d, (struct wisp_image){ 1, 10, 6 }, false);
    wisp_data_free(d);
    TEST("npy: a model that knows fewer features; one that reads other images");
    put("a.npy", "|u1", "(3, 5, 6, 2)", last, sizeof last);
    CHECK(try_read(&d, 40, &err) == WISP_OK && d->n_features == 40 && !d->blocks[0].px &&
              d->n_dropped_features > 10,
          "%s", err.text);
    wisp_data_free(d);
    const struct wisp_read_options o = { .image = { 3, 5, 6 }, .n_features = 90 };
    CHECK(wisp_data_read(&d, &one, in_folder("a.npy"), &o, &err) == WISP_EFORMAT && !d &&
              strstr(err.text, "a.npy: images of 2 x 5 x 6 (channels x height x width); expected "
                               "3 x 5 x 6"),
          "%s", err.text);
    save(in_folder("t.svm"), "1 1:1\n", 6);
    CHECK(wisp_data_read(&d, &one, in_folder("t.svm"), &o, &err) == WISP_EFORMAT && !d &&
              strstr(err.text, "rows that are no images; expected images of 3 x 5 x 6"),
          "%s", err.text);
}

static void refused(void)
{
    static const float nan[PIXELS] = { NAN };
    static const int8_t negative[16] = { 0, -1, 2 };
    static const struct {
        const char *type, *dims;
        size_t bytes;
        const char *y_type, *y_dims, *words;
        size_t y_bytes;
    } cases[] = {
        { "|u1", "(3, 60)", 180, NULL, NULL, "'images': expected images: (n, channels", 0 },
        { "|u1", "(180,)", 180, NULL, NULL, "'images': expected images: (n, channels", 0 },
        { "<i4", "(3, 1, 5, 3)", 180, NULL, NULL, "expected images of uint8, float32", 0 },
        { "<f2", "(3, 1, 5, 6)", 180, NULL, NULL, "expected images of uint8, float32", 0 },
        { "|u1", "(3, 0, 5, 6)", 0, NULL, NULL, "dimension 1 is 0", 0 },
        { "|u1", "(0, 2, 5, 6)", 0, NULL, NULL, "dimension 0 is 0", 0 },
        { "|u1", "(3, 2, 5, 7)", 180, NULL, NULL, "210 elements of 1 bytes in 180 bytes", 0 },
        { "|u1", "(3, 2, 5, 6, 1)", 180, NULL, NULL, "expected images: (n, channels", 0 },
        { "<f4", "(1, 2, 5, 6)", 240, NULL, NULL, "'images': nan in row 0", 0 },
        { "|u1", "(3, 2, 5, 6)", 180, "<i4", "(2,)", "'labels': 2 labels for 3 images", 8 },
        { "|u1", "(3, 2, 5, 6)", 180, "<f4", "(3,)", "'labels': expected labels: one", 12 },
        { "|u1", "(3, 2, 5, 6)", 180, "|i1", "(3,)", "'labels': label -1 of row 1", 3 },
    };
    TEST("npy: what is refused, with which words");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wisp_data *d;
        wisp_error err;
        unlink(in_folder("a.y.npy"));
        put("a.npy", cases[i].type, cases[i].dims,
            strstr(cases[i].words, "nan") ? (const void *)nan : pixels, cases[i].bytes);
        if (cases[i].y_type)
            put("a.y.npy", cases[i].y_type, cases[i].y_dims, negative, cases[i].y_bytes);
        CHECK(try_read(&d, 0, &err) == WISP_EFORMAT && !d && strstr(err.text, cases[i].words),
              "%zu: '%s'", i, err.text);
    }
    static char file[9000];
    struct wisp_data *d;
    wisp_error err;
    size_t n = array(file, "|u1", "(3, 2, 5, 6)", "True", pixels, sizeof pixels);
    save(in_folder("a.npy"), file, n);
    CHECK(try_read(&d, 0, &err) == WISP_EFORMAT && strstr(err.text, "Fortran"), "%s", err.text);
    CHECK(wisp_data_read_text(&d, &one, file, n, "t",
                              &(struct wisp_read_options){ .format = "npy" }, &err) == WISP_ENOTSUP,
          "%s", err.text);
    TEST("npy: cut at every byte");
    n = array(file, "|u1", "(3, 2, 5, 6)", "False", pixels, sizeof pixels);
    for (size_t cut = 0; cut < n; cut++) {
        save(in_folder("a.npy"), file, cut);
        CHECK(try_read(&d, 0, &err) != WISP_OK && !d, "cut %zu", cut);
    }
    TEST("npy: memory that runs out");
    save(in_folder("a.npy"), file, n);
    put("a.y.npy", "|u1", "(3,)", pixels, 3);
    for (long left = 0;; left++) {
        const long live = wisp_mem_live;
        wisp_mem_budget = left;
        wisp_status st = wisp_data_read(&d, &one, in_folder("a.npy"),
                                        &(struct wisp_read_options){ .format = "npy" }, &err);
        wisp_mem_budget = -1;
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM && !d && wisp_mem_live == live, "after %ld: %s", left, err.text);
    }
    wisp_data_free(d);
}

int main(void)
{
    if (!rig_open()) return 1;
    long live = wisp_mem_live;
    uint64_t s = 4;
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = test_rand(&s) % 4 ? (uint8_t)test_rand(&s) : 0;
    reading();
    refused();
    return rig_close(live);
}

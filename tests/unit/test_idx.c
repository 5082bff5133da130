/* idx images: rows and labels as plain reading gives them, packed or not; what is refused, with
 * which words; files cut at every byte; memory that runs out; values as a run uses them. */
#include "data_rig.h"
#include "model/run.h"

enum { ROWS = 30, HIGH = 3, WIDE = 5, PIXELS = HIGH * WIDE };

static char images[16 + ROWS * PIXELS], labels[8 + ROWS], packed[4000];
static char x_path[300], y_path[300];

static void put32(char *to, uint32_t v)
{
    for (int i = 0; i < 4; i++) to[i] = (char)(v >> (24 - 8 * i));
}

/* Random images with many zeros; labels 0 to 6. */
static void make(void)
{
    uint64_t s = 5;
    memcpy(images, "\0\0\10\3", 4);
    put32(images + 4, ROWS), put32(images + 8, HIGH), put32(images + 12, WIDE);
    memcpy(labels, "\0\0\10\1", 4);
    put32(labels + 4, ROWS);
    for (int i = 0; i < ROWS * PIXELS; i++)
        images[16 + i] = test_rand(&s) % 3 ? 0 : (char)test_rand(&s);
    for (int i = 0; i < ROWS; i++) labels[8 + i] = (char)(test_rand(&s) % 7);
    labels[8 + 4] = 6;
    snprintf(x_path, sizeof x_path, "%s", in_folder("t-images-idx3-ubyte"));
    snprintf(y_path, sizeof y_path, "%s", in_folder("t-labels-idx1-ubyte"));
}

static void put_both(void)
{
    save(x_path, images, sizeof images);
    save(y_path, labels, sizeof labels);
}

static wisp_status try_read(struct wisp_data **d, const char *path, const char *format,
                            wisp_error *err)
{
    struct wisp_read_options o = { .format = format, .index_base = -1 };
    *err = (wisp_error){ 0 };
    n_said = 0;
    said[0] = 0;
    return wisp_data_read(d, &four, path, &o, err);
}

/* The rows against the bytes; limit: features that the reader was told there are, 0: all. */
static void check_rows(const struct wisp_data *d, bool labelled, int limit)
{
    int most = limit ? limit : PIXELS;
    CHECK(d->n_rows == ROWS && d->n_features == (size_t)most &&
              d->n_labels == (labelled ? 7u : 0u) &&
              d->n_unlabelled == (labelled ? 0u : (size_t)ROWS),
          "%zu rows, %zu features, %zu labels", d->n_rows, d->n_features, d->n_labels);
    const struct wisp_image want = { 1, HIGH, WIDE };
    CHECK(limit ? d->image.channels == 0 : memcmp(&d->image, &want, sizeof want) == 0, "image");
    struct wisp_lists lists = { 0 };
    for (size_t row = 0; row < d->n_rows; row++) {
        size_t at;
        const struct wisp_rows *r = wisp_data_row(d, row, &at);
        CHECK(!r->px == (limit != 0), "row %zu: lists or pixels", row);
        CHECK(wisp_rows_lists(&r, &lists, r, NULL) == WISP_OK, "lists");
        uint32_t e = r->xp[at];
        for (int i = 0; i < most; i++) {
            unsigned char v = (unsigned char)images[16 + row * PIXELS + (size_t)i];
            if (v == 0) continue;
            CHECK(e < r->xp[at + 1] && r->xi[e] == i && r->xv[e] == (float)v / 255,
                  "row %zu, pixel %d", row, i);
            e++;
        }
        CHECK(e == r->xp[at + 1], "row %zu has more", row);
        if (labelled)
            CHECK(r->yp[at + 1] - r->yp[at] == 1 && r->yi[r->yp[at]] == labels[8 + row],
                  "row %zu: label", row);
    }
    wisp_lists_clear(&lists);
}

static void reading(void)
{
    static const char *const ending[] = { "", ".gz", ".zst" };
    struct wisp_data *d;
    wisp_error err;
    TEST("idx: rows and labels, plain and packed, by their first bytes");
    put_both();
    for (int kind = 0; kind < 3; kind++) {
        char x[400], y[400];
        snprintf(x, sizeof x, "%s%s", x_path, ending[kind]);
        snprintf(y, sizeof y, "%s%s", y_path, ending[kind]);
        save(x, packed, pack(kind, packed, sizeof packed, images, sizeof images));
        save(y, packed, pack(kind, packed, sizeof packed, labels, sizeof labels));
        CHECK(try_read(&d, x, NULL, &err) == WISP_OK, "%s", err.text);
        if (!d) continue;
        check_rows(d, true, 0);
        CHECK(d->format == &wisp_format_idx && d->index_base == 0, "format");
        wisp_data_free(d);
    }
    TEST("idx: a model's number of features; the cache is stale when the labels change");
    struct wisp_read_options o = { .index_base = -1, .n_features = 7, .use_cache = true };
    wisp_cache_min = 0;
    d = read_file(x_path, &o);
    check_rows(d, true, 7);
    CHECK(strstr(said, "left out"), "said '%s'", said);
    wisp_data_free(d);
    labels[8]++;
    struct timespec t[2] = { { 0 }, { .tv_sec = 1000000000 } };
    save(y_path, labels, sizeof labels);
    utimensat(AT_FDCWD, y_path, t, 0);
    d = read_file(x_path, &o);
    check_rows(d, true, 7);
    wisp_data_free(d);
    labels[8]--;
    save(y_path, labels, sizeof labels);
}

static void no_labels(void)
{
    struct wisp_data *d;
    wisp_error err;
    TEST("idx: images without a file of labels");
    unlink(y_path);
    CHECK(try_read(&d, x_path, NULL, &err) == WISP_OK && strstr(said, "no labels: there is no") &&
              strstr(said, y_path),
          "%s; said '%s'", err.text, said);
    check_rows(d, false, 0);
    wisp_data_free(d);
    const char *plain = in_folder("pictures");
    save(plain, images, sizeof images);
    CHECK(try_read(&d, plain, NULL, &err) == WISP_OK && strstr(said, "its name has no 'images'"),
          "%s; said '%s'", err.text, said);
    check_rows(d, false, 0);
    wisp_data_free(d);
    d = read_text(&one, NULL, images, sizeof images);
    check_rows(d, false, 0);
    wisp_data_free(d);
    put_both();
}

static void refused(void)
{
    static const struct {
        const char *what;
        bool of_labels;
        size_t at, bytes; /* bytes there become 'now'; bytes 0: the file is as long as 'at' */
        const char *now, *text;
    } bad[] = {
        { "images cut", false, sizeof images - 1, 0, NULL,
          "t-images-idx3-ubyte: 449 bytes of data, but its sizes are 30 x 3 x 5: cut off" },
        { "images cut in the head", false, 15, 0, NULL, "15 bytes; an idx file of 3 dimensions" },
        { "one image more", false, 7, 1, "\37", "sizes are 31 x 3 x 5" },
        { "labels instead of images", false, 3, 1, "\1", "expected 00 00 08 03" },
        { "floats", false, 2, 1, "\15", "begins with 00 00 0d 03; expected 00 00 08 03" },
        { "sizes that overflow", false, 4, 12, "\377\377\377\377\377\377\377\377\377\377\377\377",
          "sizes are 4294967295 x 4294967295 x 4294967295" },
        { "labels cut", true, sizeof labels - 1, 0, NULL,
          "t-labels-idx1-ubyte: 29 bytes of data, but its sizes are 30" },
        { "labels empty", true, 0, 0, NULL, "t-labels-idx1-ubyte: 0 bytes" },
        { "images as labels", true, 3, 1, "\3", "expected 00 00 08 01, an idx file of labels" },
    };
    char copy[sizeof images];
    struct wisp_data *d;
    wisp_error err;
    TEST("idx: what is refused");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t n = bad[i].of_labels ? sizeof labels : sizeof images;
        memcpy(copy, bad[i].of_labels ? labels : images, n);
        if (bad[i].bytes) memcpy(copy + bad[i].at, bad[i].now, bad[i].bytes);
        put_both();
        save(bad[i].of_labels ? y_path : x_path, copy, bad[i].bytes ? n : bad[i].at);
        wisp_status st = try_read(&d, x_path, "idx", &err);
        CHECK(st == WISP_EFORMAT && strstr(err.text, bad[i].text) && !d, "%s: %d '%s'", bad[i].what,
              st, err.text);
    }
    put_both();
    memcpy(copy, labels, sizeof labels);
    put32(copy + 4, ROWS - 1);
    save(y_path, copy, sizeof labels - 1);
    CHECK(try_read(&d, x_path, NULL, &err) == WISP_EFORMAT &&
              strstr(err.text, "t-labels-idx1-ubyte: 29 labels, but ") &&
              strstr(err.text, "t-images-idx3-ubyte has 30 images; expected one for each"),
          "another length: '%s'", err.text);
    put_both();
    for (int dim = 0; dim < 3; dim++) { /* nothing to learn from */
        memcpy(copy, images, 16);
        put32(copy + 4 + 4 * dim, 0);
        save(x_path, copy, 16);
        CHECK(try_read(&d, x_path, NULL, &err) == WISP_EFORMAT &&
                  strstr(err.text, "expected at least one, of 1 to"),
              "size 0: '%s'", err.text);
    }
    memcpy(copy, images, 16);
    put32(copy + 4, 3), put32(copy + 8, 1 << 16), put32(copy + 12, 1 << 15);
    memcpy(copy, "\0\0\10\3", 4);
    save(x_path, copy, 16);
    CHECK(try_read(&d, x_path, NULL, &err) == WISP_EFORMAT && strstr(err.text, "cut off"), "'%s'",
          err.text);
    put_both();
}

static void cut_files(void)
{
    struct wisp_data *d;
    wisp_error err;
    TEST("idx: cut at every byte, plain and packed");
    for (int kind = 0; kind < 3; kind++) {
        size_t n = pack(kind, packed, sizeof packed, images, sizeof images);
        for (size_t cut = 0; cut < n; cut++) {
            char *exact = malloc(cut + 1);
            memcpy(exact, packed, cut);
            struct wisp_read_options o = { .format = "idx", .index_base = -1 };
            wisp_status st = wisp_data_read_text(&d, &one, exact, cut, "t", &o, &err);
            CHECK(st == WISP_EFORMAT && !d, "%d, %zu of %zu bytes: %d %s", kind, cut, n, st,
                  err.text);
            free(exact);
        }
    }
    TEST("idx: an archive that holds more than its head says is not unpacked further");
    enum { PIECE = 1 << 20, TIMES = 256 };
    char *piece = calloc(PIECE, 1), *archive = malloc(PIECE);
    size_t m = pack(1, archive, PIECE, images, sizeof images), k, before = wisp_mem_peak();
    k = pack(1, archive + m, PIECE - m, piece, PIECE);
    for (size_t i = 1; i < TIMES; i++) memcpy(archive + m + i * k, archive + m, k);
    struct wisp_read_options o = { .format = "idx", .index_base = -1 };
    CHECK(wisp_data_read_text(&d, &one, archive, m + TIMES * k, "t", &o, &err) == WISP_EFORMAT,
          "more than its sizes say");
    CHECK(wisp_mem_peak() - before < (size_t)48 << 20, "grew by %zu", wisp_mem_peak() - before);
    free(piece), free(archive);
}

static void memory(void)
{
    TEST("idx: memory that runs out");
    char x[400];
    snprintf(x, sizeof x, "%s.gz", x_path);
    for (int kind = 0; kind < 2; kind++)
        for (long n = 0;; n++) {
            struct wisp_data *d;
            wisp_error err;
            long live = wisp_mem_live;
            wisp_mem_budget = n;
            wisp_status st = try_read(&d, kind ? x : x_path, NULL, &err);
            wisp_mem_budget = -1;
            if (st == WISP_OK) check_rows(d, true, 0);
            wisp_data_free(d);
            if (st == WISP_OK) break;
            CHECK(st == WISP_ENOMEM && !d && wisp_mem_live == live, "after %ld: %d %s", n, st,
                  err.text);
            if (st != WISP_ENOMEM) break;
        }
}

/* --values auto: images as they are; the same rows as numbers of no format are scaled. */
static void values(void)
{
    TEST("idx: values are used as they are, unless another mode is named");
    wisp_error err = { 0 };
    wisp_config *c;
    struct wisp_kernels k = { 0 };
    struct wisp_data *d;
    struct wisp_plan p;
    CHECK(try_read(&d, x_path, NULL, &err) == WISP_OK && wisp_config_create(&c, &err) == WISP_OK &&
              wisp_kernels_select(&k, "scalar", &err) == WISP_OK &&
              wisp_plan_make(&p, c, &k, d, NULL, false, &err) == WISP_OK,
          "%s", err.text);
    CHECK(p.values.mode == WISP_VALUES_RAW, "auto is %s", wisp_values_name(p.values.mode));
    wisp_plan_clear(&p);
    CHECK(wisp_config_set(c, "values", "unit", &err) == WISP_OK &&
              wisp_plan_make(&p, c, &k, d, NULL, false, &err) == WISP_OK &&
              p.values.mode == WISP_VALUES_UNIT,
          "unit is %s", wisp_values_name(p.values.mode));
    CHECK(wisp_config_set(c, "values", "auto", &err) == WISP_OK, "%s", err.text);
    d->format = NULL;
    wisp_plan_clear(&p);
    CHECK(wisp_plan_make(&p, c, &k, d, NULL, false, &err) == WISP_OK &&
              p.values.mode == WISP_VALUES_RAW,
          "images without a format are %s", wisp_values_name(p.values.mode));
    wisp_plan_clear(&p);
    wisp_config_free(c);
    wisp_data_free(d);
}

int main(void)
{
    if (!rig_open()) return 1;
    long live = wisp_mem_live;
    make();
    reading();
    no_labels();
    refused();
    cut_files();
    memory();
    values();
    return rig_close(live);
}

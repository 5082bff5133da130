/* CIFAR's binary records: images and labels of both kinds, what is refused, cuts, memory. */
#include "data_rig.h"

enum { ROWS = 5, PIXELS = 3072 };
static unsigned char ten[ROWS * (1 + PIXELS)], hundred[ROWS * (2 + PIXELS)];

static void make(void)
{
    uint64_t s = 9;
    for (int i = 0; i < ROWS; i++) {
        unsigned char *a = ten + i * (1 + PIXELS), *b = hundred + i * (2 + PIXELS);
        a[0] = (unsigned char)(9 - i);
        b[0] = (unsigned char)(19 - i);
        b[1] = (unsigned char)(99 - i);
        for (int p = 0; p < PIXELS; p++)
            a[1 + p] = b[2 + p] = (unsigned char)(test_rand(&s) % 5 ? test_rand(&s) : 0);
    }
}

static wisp_status try_read(struct wisp_data **d, const void *p, size_t n, const char *format,
                            wisp_error *err)
{
    const struct wisp_read_options o = { .format = format, .index_base = -1 };
    const char *path = in_folder("c.bin");
    save(path, p, n);
    *err = (wisp_error){ 0 };
    return wisp_data_read(d, &four, path, &o, err);
}

static void check(const struct wisp_data *d, const unsigned char *p, size_t labels, size_t n_labels)
{
    const struct wisp_image want = { 3, 32, 32 };
    CHECK(d->n_rows == ROWS && d->n_features == PIXELS && d->n_labels == n_labels &&
              memcmp(&d->image, &want, sizeof want) == 0,
          "%zu rows, %zu features, %zu labels", d->n_rows, d->n_features, d->n_labels);
    CHECK(d->format == &wisp_format_cifar, "format %s", d->format->name);
    for (size_t i = 0; i < ROWS; i++) {
        const unsigned char *r = p + i * (labels + PIXELS);
        CHECK(d->blocks[0].yi[i] == r[labels - 1], "label of row %zu", i);
        CHECK(memcmp(d->blocks[0].px + i * PIXELS, r + labels, PIXELS) == 0, "row %zu", i);
    }
}

static void reading(void)
{
    struct wisp_data *d;
    wisp_error err;
    TEST("cifar: records with one label and with two, named and by their bytes");
    for (int named = 0; named < 2; named++) {
        const char *format = named ? "cifar" : NULL;
        CHECK(try_read(&d, ten, sizeof ten, format, &err) == WISP_OK, "%s", err.text);
        if (d) check(d, ten, 1, 10);
        wisp_data_free(d);
        CHECK(try_read(&d, hundred, sizeof hundred, format, &err) == WISP_OK, "%s", err.text);
        if (d) check(d, hundred, 2, 100);
        wisp_data_free(d);
    }
    TEST("cifar: a length that both kinds have: labels decide");
    static unsigned char both[3073 * 3074];
    for (size_t i = 0; i < sizeof both; i++) both[i] = 50;
    for (size_t i = 0; i < 3073; i++) both[i * 3074] = 3, both[i * 3074 + 1] = 77;
    CHECK(try_read(&d, both, sizeof both, NULL, &err) == WISP_OK && d->n_labels == 100 &&
              d->n_rows == 3073 && d->label_rows[77] == 3073,
          "%s", err.text);
    wisp_data_free(d);
    TEST("cifar: features that a model does not know are left out");
    const struct wisp_read_options o = { .format = "cifar", .n_features = 100 };
    CHECK(wisp_data_read_text(&d, &four, (char *)ten, sizeof ten, "t", &o, &err) == WISP_OK &&
              d->n_features == 100 && !d->blocks[0].px && d->n_dropped_features > 1000,
          "%s", err.text);
    wisp_data_free(d);
}

static void refused(void)
{
    static const struct {
        size_t bytes, at;
        int kind;
        unsigned char value;
        const char *words;
    } cases[] = {
        { 0, 0, 0, 0, "0 bytes; expected records of 3073" },
        { sizeof ten - 1, 0, 0, 9, "15364 bytes; expected records of 3073" },
        { sizeof ten, 2 * 3073, 0, 10, "record 2 has the label 10; expected 0 to 9" },
        { sizeof hundred, 3074, 1, 20, "record 1 has the coarse label 20; expected 0 to 19" },
        { sizeof hundred, 3075, 1, 100, "record 1 has the label 100; expected 0 to 99" },
    };
    TEST("cifar: what is refused, with which words");
    static unsigned char bad[sizeof hundred];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wisp_data *d;
        wisp_error err;
        memcpy(bad, cases[i].kind ? hundred : ten, cases[i].kind ? sizeof hundred : sizeof ten);
        bad[cases[i].at] = cases[i].value;
        CHECK(try_read(&d, bad, cases[i].bytes, "cifar", &err) == WISP_EFORMAT && !d &&
                  strstr(err.text, cases[i].words),
              "'%s'", err.text);
    }
    TEST("cifar: cut anywhere, it is no CIFAR file by its bytes");
    for (size_t n = 0; n < sizeof ten; n += 500) {
        struct wisp_data *d;
        wisp_error err;
        wisp_status st = try_read(&d, ten, n, NULL, &err);
        CHECK(st != WISP_OK || d->format != &wisp_format_cifar, "%zu bytes", n);
        wisp_data_free(d);
    }
}

static void memory(void)
{
    TEST("cifar: memory that runs out");
    save(in_folder("c.bin"), ten, sizeof ten);
    read_without_memory(in_folder("c.bin"), &(struct wisp_read_options){ .format = "cifar" });
}

int main(void)
{
    if (!rig_open()) return 1;
    long live = wisp_mem_live;
    make();
    reading();
    refused();
    memory();
    return rig_close(live);
}

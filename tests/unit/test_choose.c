/* Which way a convolution goes: by name, by what a file says, by measuring. */
#include "test.h"
#include "base/file.h"
#include "base/mem.h"
#include "conv/conv.h"
#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static wisp_error err;
static struct wisp_kernels k;
static const struct wisp_conv conv = { .in = 16,
                                       .out = 16,
                                       .h = 6,
                                       .w = 6,
                                       .oh = 6,
                                       .ow = 6,
                                       .kh = 3,
                                       .kw = 3,
                                       .stride = 1,
                                       .pad_h = 1,
                                       .pad_w = 1,
                                       .groups = 1,
                                       .block = 16,
                                       .batch = 4,
                                       .threads = 2 };
static char folder[] = "/tmp/wisp-choose-XXXXXX", path[100];

static const char *choose(const struct wisp_conv_choice *how)
{
    return wisp_conv_choose(&conv, WISP_CONV_FORWARD, how)->name;
}

static char *content(size_t *bytes)
{
    struct wisp_map m;
    CHECK(wisp_map_open(&m, path, &err) == WISP_OK, "%s", err.text);
    char *text = wisp_zalloc(m.bytes + 1, 1);
    memcpy(text, m.p, m.bytes);
    *bytes = m.bytes;
    wisp_map_close(&m);
    return text;
}

static void put(const char *text, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(text, 1, bytes, f) == bytes && fclose(f) == 0, "cannot write %s", path);
}

static void test_names(void)
{
    size_t n = 0;
    TEST("names: the first that can, else 'plain'");
    CHECK(strcmp(choose(&(struct wisp_conv_choice){ .k = NULL }), "plain") == 0, "without kernels");
    CHECK(strcmp(choose(&(struct wisp_conv_choice){ .k = &k, .only = "plain,direct" }), "plain") ==
              0,
          "plain was named first");
    CHECK(strcmp(choose(&(struct wisp_conv_choice){ .k = &k, .only = "nothing" }), "plain") == 0,
          "a name that is no way's");
    CHECK(!wisp_conv_unknown("direct,plain", &n), "both are ways");
    const char *odd = wisp_conv_unknown("direct,dirct", &n);
    CHECK(odd && n == 5 && memcmp(odd, "dirct", 5) == 0, "the second is none");
}

static void test_file(void)
{
    size_t bytes, again;
    struct wisp_conv_choice how = { .k = &k, .measure = true, .file = path };
    TEST("what was measured is put down, and believed");
    const char *first = choose(&how);
    CHECK(strcmp(first, "plain") != 0 || !wisp_conv_way_at(1) ||
              !wisp_conv_way_at(0)->can(&conv, WISP_CONV_FORWARD, &k),
          "'plain' is measured only where it is alone");
    char *text = content(&bytes), *name = strrchr(text, '\t');
    CHECK(name && strncmp(name + 1, first, strlen(first)) == 0, "the file says '%s'", text);
    CHECK(strcmp(choose(&how), first) == 0, "not the same again");
    wisp_free(content(&again));
    CHECK(again == bytes, "a second line for the same sizes");
    strcpy(name + 1, "plain\n");
    put(text, strlen(text));
    CHECK(strcmp(choose(&how), "plain") == 0, "the file was not read");

    TEST("lines that are not true are measured anew");
    strcpy(name + 1, "nobody\n");
    put(text, strlen(text));
    CHECK(strcmp(choose(&how), "nobody") != 0, "a way that is not there");
    put("garbage\0\n\t\n", 11);
    choose(&how);
    put(text, strlen(text) - 1); /* without the end of its line */
    choose(&how);
    char *last = content(&again);
    CHECK(again && last[again - 1] == '\n', "the last line has no end");
    wisp_free(last);
    wisp_free(text);

    TEST("a file that cannot be written stands in nobody's way");
    how.file = "/proc/nowhere/wisp/conv";
    CHECK(choose(&how) != NULL, "nothing was chosen");

    TEST("another place is taken where the first cannot be written");
    unlink(path);
    how.other = path;
    first = choose(&how);
    text = content(&bytes);
    name = strrchr(text, '\t');
    CHECK(name && strncmp(name + 1, first, strlen(first)) == 0, "it says '%s'", text);
    strcpy(name + 1, "plain\n");
    put(text, strlen(text));
    CHECK(strcmp(choose(&how), "plain") == 0, "it was not read");
    wisp_free(text);
}

/* fp32 is never bf16 without a word, whoever asks and whatever a file says. */
static void test_half(void)
{
    struct wisp_conv_choice how = { .k = &k, .only = "bf16,direct" }, half = how;
    const bool fast16 = k.fast16;
    half.half = true;
    TEST("ways that round to bf16 are chosen only where that is the precision");
    CHECK(strcmp(choose(&how), "direct") == 0, "named, but not allowed");
    CHECK(strcmp(choose(&half), "bf16") == 0, "named and allowed");
    how.only = half.only = NULL;
    k.fast16 = true;
    CHECK(strcmp(choose(&how), "bf16") != 0, "the first that can: not allowed");
    CHECK(strcmp(choose(&half), "bf16") == 0, "the first that can");
    how.measure = half.measure = true;
    how.file = half.file = path;
    size_t bytes, again;
    unlink(path);
    choose(&half);
    char *text = content(&bytes), *name = strrchr(text, '\t');
    CHECK(name && strstr(text, " in bf16\t"), "the file says '%s'", text);
    strcpy(name + 1, "bf16\n");
    put(text, strlen(text));
    CHECK(strcmp(choose(&half), "bf16") == 0, "the file is believed");
    CHECK(strcmp(choose(&how), "bf16") != 0, "a line of another precision was believed");
    wisp_free(text);
    text = content(&again);
    name = strstr(text, k.name); /* its line says bf16 without being of that precision */
    CHECK(name && again > bytes, "no second line");
    char *mark = strstr(text, " in bf16\t");
    if (mark) {
        memmove(mark, mark + 8, strlen(mark + 8) + 1);
        char *end = strchr(text, '\n');
        end[1] = 0;
        put(text, strlen(text));
        CHECK(strcmp(choose(&how), "bf16") != 0, "a file talked fp32 into bf16");
    }
    wisp_free(text);
    unlink(path);
    k.fast16 = false;
    CHECK(strcmp(choose(&half), "bf16") != 0, "slower than fp32: not tried");
    k.fast16 = fast16;
    unlink(path);
}

/* Of 256 channels at 28 pixels Winograd's products are two to three times as fast as sums over taps,
 * on every processor that was tried; noise would have to slow each of its tries down by as much. */
static void test_fastest(void)
{
    struct wisp_conv wide = conv;
    struct wisp_conv_choice how = { .k = &k, .measure = true };
    wide.in = wide.out = 256;
    wide.h = wide.w = wide.oh = wide.ow = 28;
    TEST("the fastest is chosen, not the first of the table");
    if (strcmp(k.name, "scalar") == 0) return;
    for (int pass = 0; pass < WISP_CONV_PASSES; pass++)
        CHECK(strcmp(wisp_conv_choose(&wide, (enum wisp_conv_pass)pass, &how)->name, "direct") != 0,
              "pass %d goes the slow way", pass);

    TEST("the only way there is is not measured: 'plain' of a large image would take a minute");
    wide.in = 3, wide.out = 64, wide.block = 1, wide.batch = 8;
    wide.h = wide.w = 224, wide.kh = wide.kw = 11, wide.oh = wide.ow = 214,
    wide.pad_h = wide.pad_w = 0;
    const clock_t began = clock();
    CHECK(strcmp(wisp_conv_choose(&wide, WISP_CONV_DATA, &how)->name, "plain") == 0, "not plain");
    CHECK(clock() - began < CLOCKS_PER_SEC, "it was measured");

    TEST("what is measured does not depend on the number of threads");
    size_t bytes = 0, again;
    how.file = path;
    unlink(path);
    wide = conv;
    for (wide.threads = 1; wide.threads <= 8; wide.threads *= 2) {
        wisp_conv_choose(&wide, WISP_CONV_DATA, &how);
        wisp_free(content(&again));
        if (wide.threads == 1) bytes = again;
        CHECK(again == bytes, "%d threads have a line of their own", wide.threads);
    }
}

static void test_memory(void)
{
    TEST("without memory to measure with, the first that can");
    struct wisp_conv_choice how = { .k = &k, .measure = true };
    for (long n = 0; n < 8; n++) {
        wisp_mem_budget = n;
        CHECK(choose(&how) != NULL, "nothing was chosen");
        wisp_mem_budget = -1;
    }
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);
}

int main(void)
{
    CHECK(wisp_kernels_select(&k, NULL, &err) == WISP_OK, "%s", err.text);
    CHECK(mkdtemp(folder) != NULL, "no folder");
    snprintf(path, sizeof path, "%s/conv", folder);
    test_names();
    test_file();
    test_half();
    test_fastest();
    test_memory();
    unlink(path);
    rmdir(folder);
    return test_end();
}

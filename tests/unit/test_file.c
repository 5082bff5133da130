/* The model file: round trip, every bit and every cut, hostile headers, failing memory and disks.
 */
#include "test.h"
#include "base/mem.h"
#include "model/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

static char folder[] = "/tmp/wisp_file_XXXXXX", model[64], at_fd[40];
static int fd; /* a file in memory, opened by the name at_fd */
static struct wisp_error err;

static float w[6] = { 1, -2, 3.5f, 1e-30f, 5, 6 };
static int64_t counts[3] = { 7, (int64_t)1 << 40, -9 };
static int32_t ids[5] = { 1, 2, 3, 4, -5 };
static unsigned char bytes[70];
static int8_t small[6] = { -128, 127, 0, -1, 5, 6 };
static struct wisp_tensor tensors[] = {
    { "w", WISP_F32, 2, { 2, 3 }, w, sizeof w, true, { 0 } },
    { "counts", WISP_I64, 1, { 3 }, counts, sizeof counts, true, { 0 } },
    { "empty", WISP_I32, 2, { 0, 4 }, NULL, 0, true, { 0 } },
    { "ids", WISP_I32, 1, { 5 }, ids, sizeof ids, true, { 0 } },
    { "scalar", WISP_F32, 0, { 0 }, w, 4, true, { 0 } },
    { "small", WISP_I8, 2, { 3, 2 }, small, sizeof small, true, { 0 } },
    { "cube", WISP_I32, 3, { 1, 5, 1 }, ids, sizeof ids, true, { 0 } },
    { "planes", WISP_F32, 4, { 1, 3, 2, 1 }, w, sizeof w, true, { 0 } },
    { "names", WISP_U8, 1, { 70 }, bytes, sizeof bytes, true, { 0 } },
};
enum { N = sizeof tensors / sizeof *tensors };
static const struct wisp_pair meta[] = {
    { "format", "1" },
    { "text", "line\nquote\" back\\ tab\t bell\a unit\x1f \xc3\xa9 \xf0\x9f\x90\xa6" },
    { "none", "" }
};
enum { N_META = sizeof meta / sizeof *meta };

static wisp_status write_model(char *check)
{
    return wisp_tensor_file_write(model, tensors, N, meta, N_META, check, &err);
}

static wisp_status open_model(struct wisp_tensor_file *f, const char *path)
{
    memset(&err, 0, sizeof err);
    return wisp_tensor_file_open(f, NULL, path, &err);
}

static size_t files_in_folder(void)
{
    size_t n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}

static void round_trip(struct wisp_pool *pool)
{
    char check[33];
    struct wisp_tensor_file f;
    CHECK(write_model(check) == WISP_OK, "%s", err.text);
    wisp_status st = wisp_tensor_file_open(&f, pool, model, &err);
    CHECK(st == WISP_OK, "%s", err.text);
    if (st != WISP_OK) return;
    CHECK(strcmp(f.check, check) == 0 && strlen(check) == 32, "%s, written %s", f.check, check);
    CHECK(f.n_tensors == N && f.n_meta == N_META, "%zu tensors, %zu metadata", f.n_tensors,
          f.n_meta);
    for (size_t i = 0; i < N_META; i++) {
        const char *v = wisp_tensor_file_meta(&f, meta[i].key);
        CHECK(v && strcmp(v, meta[i].value) == 0, "%s: %s", meta[i].key, v ? v : "missing");
        CHECK(strcmp(f.meta[i].key, meta[i].key) == 0, "order: %s", f.meta[i].key);
    }
    CHECK(!wisp_tensor_file_meta(&f, "nothing") && !wisp_tensor_file_find(&f, "nothing"), "found");
    CHECK(!wisp_tensor_file_find(&f, "__integrity__") && !wisp_tensor_file_find(&f, "__pad_0__"),
          "private tensors are shown");
    for (size_t i = 0; i < N; i++) {
        const struct wisp_tensor *t = wisp_tensor_file_find(&f, tensors[i].name), *s = &tensors[i];
        CHECK(t != NULL, "%s", s->name);
        if (!t) continue;
        CHECK(t->dtype == s->dtype && t->n_dims == s->n_dims && t->bytes == s->bytes, "%s",
              s->name);
        for (int d = 0; d < WISP_MAX_DIMS; d++)
            CHECK(t->shape[d] == (d < s->n_dims ? s->shape[d] : 1), "%s %d", s->name, d);
        CHECK((uintptr_t)t->data % 64 == 0, "%s at %p", s->name, t->data);
        CHECK(!t->bytes || memcmp(t->data, s->data, t->bytes) == 0, "%s: other bytes", s->name);
    }
    wisp_tensor_file_close(&f);
    CHECK(wisp_mem_live == (pool ? 3 : 0), "%ld blocks left", (long)wisp_mem_live);
}

static void test_round_trip(void)
{
    struct wisp_pool *pool;
    size_t normal = wisp_tensor_chunk;
    TEST("file: round trip");
    round_trip(NULL);
    TEST("file: round trip with many chunks and threads");
    CHECK(wisp_pool_create(&pool, 3, &err) == WISP_OK, "%s", err.text);
    for (wisp_tensor_chunk = 1; wisp_tensor_chunk < 80; wisp_tensor_chunk += 3) round_trip(pool);
    wisp_tensor_chunk = normal;
    wisp_pool_free(pool);
    TEST("file: no tensors, no metadata");
    struct wisp_tensor_file f;
    CHECK(wisp_tensor_file_write(model, NULL, 0, NULL, 0, NULL, &err) == WISP_OK, "%s", err.text);
    CHECK(open_model(&f, model) == WISP_OK && f.n_tensors == 0 && f.n_meta == 0, "%s", err.text);
    wisp_tensor_file_close(&f);
    TEST("file: the same content gives the same bytes");
    char one[33], two[33];
    CHECK(write_model(one) == WISP_OK && write_model(two) == WISP_OK, "%s", err.text);
    CHECK(strcmp(one, two) == 0, "%s, then %s", one, two);
}

static void test_bad_arguments(void)
{
    TEST("file: what cannot be read back is not written");
    static const char *const names[] = {
        "", "a b", "a\"b", "a\\b", "\x80", "a\n", "w", "__pad_3__", "__integrity__", "__metadata__"
    };
    CHECK(write_model(NULL) == WISP_OK, "%s", err.text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct wisp_tensor t[2] = { tensors[0], tensors[1] };
        snprintf(t[1].name, sizeof t[1].name, "%s", names[i]);
        CHECK(wisp_tensor_file_write(model, t, 2, NULL, 0, NULL, &err) == WISP_EINVAL, "'%s'",
              names[i]);
    }
    struct wisp_tensor t = tensors[0];
    t.bytes--;
    CHECK(wisp_tensor_file_write(model, &t, 1, NULL, 0, NULL, &err) == WISP_EINVAL, "size");
    t = tensors[0];
    t.n_dims = WISP_MAX_DIMS + 1;
    CHECK(wisp_tensor_file_write(model, &t, 1, NULL, 0, NULL, &err) == WISP_EINVAL, "dims");
    static const char *const bad[] = { "\xff",         "a\xc3",        "\xc0\x80",
                                       "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                       "\xf0\x9f\x90" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct wisp_pair m = { "k", bad[i] };
        CHECK(wisp_tensor_file_write(model, NULL, 0, &m, 1, NULL, &err) == WISP_EINVAL, "%zu", i);
    }
    struct wisp_pair twice[] = { { "k", "1" }, { "k", "2" } };
    CHECK(wisp_tensor_file_write(model, NULL, 0, twice, 2, NULL, &err) == WISP_EINVAL, "twice");
    struct wisp_tensor_file f;
    CHECK(open_model(&f, model) == WISP_OK && f.n_tensors == N, "the old file: %s", err.text);
    wisp_tensor_file_close(&f);
}

static void test_damage(void)
{
    static unsigned char file[8192];
    CHECK(write_model(NULL) == WISP_OK, "%s", err.text);
    int in = open(model, O_RDONLY);
    ssize_t n = read(in, file, sizeof file);
    close(in);
    struct wisp_tensor_file f;
    long missed = 0, tried = 0;

    TEST("file: every bit flip is detected");
    CHECK(n > 0 && n < (ssize_t)sizeof file, "%zd bytes", n);
    CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, file, (size_t)n, 0) == n, "memory file");
    CHECK(open_model(&f, at_fd) == WISP_OK, "%s", err.text);
    wisp_tensor_file_close(&f);
    for (ssize_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++, tried++) {
            unsigned char c = (unsigned char)(file[i] ^ 1 << bit);
            if (pwrite(fd, &c, 1, i) != 1) missed++;
            missed += open_model(&f, at_fd) != WISP_EMODEL || !err.text[0] || f.map.p || f.tensors;
            wisp_tensor_file_close(&f);
            if (pwrite(fd, &file[i], 1, i) != 1) missed++;
        }
    CHECK(missed == 0 && tried == 8 * n, "%ld of %ld flips", missed, tried);

    TEST("file: every cut is detected");
    for (ssize_t i = n - 1; i >= 0; i--) {
        missed += ftruncate(fd, i) != 0 || open_model(&f, at_fd) != WISP_EMODEL || !err.text[0];
        wisp_tensor_file_close(&f);
    }
    CHECK(missed == 0, "%ld of %zd cuts", missed, n);

    TEST("file: appended bytes are detected");
    CHECK(pwrite(fd, file, (size_t)n, 0) == n, "memory file");
    for (ssize_t i = 1; i <= 200; i++) {
        CHECK(pwrite(fd, i % 2 ? "" : "x", 1, n + i - 1) == 1, "memory file");
        CHECK(open_model(&f, at_fd) == WISP_EMODEL && strstr(err.text, "too many"), "%s", err.text);
        wisp_tensor_file_close(&f);
    }
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);
    printf("     %zd bytes: %ld flips, %zd cuts\n", n, tried, n);
}

/* A file of this header and n_data zeros; length 0: the true one. */
static void make_file(const char *json, size_t n_data, uint64_t length)
{
    size_t n = strlen(json), padded = (n + 8 + 63) / 64 * 64 - 8;
    char *all = calloc(1, 8 + padded + n_data);
    if (!all) exit(1);
    uint64_t said = length ? length : padded;
    memcpy(all, &said, 8);
    memset(all + 8, ' ', padded);
    memcpy(all + 8, json, n);
    CHECK(ftruncate(fd, 0) == 0, "memory file");
    CHECK(pwrite(fd, all, 8 + padded + n_data, 0) == (ssize_t)(8 + padded + n_data), "memory file");
    free(all);
}

/* clang-format off */
#define T(name, dtype, shape, offsets) \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define A(shape, offsets) T("a", "F32", shape, offsets)
#define GOOD A("[16]", "[0,64]")
#define SUMS T("__integrity__", "U8", "[40]", "[64,104]")
#define LONG "a234567890123456789012345678901234567890123456789012345678901234"

static const struct {
    const char *says, *json;
    uint64_t length; /* 0: the true one */
} hostile[] = {
    { "checksum of __integrity__",  "{" GOOD "," SUMS "}", 0 },
    { "overlaps",                   "{" GOOD "," T("b", "F32", "[1]", "[60,64]") "," SUMS "}", 0 },
    { "hole",                       "{" A("[15]", "[0,60]") "," SUMS "}", 0 },
    { "hole",                       "{" A("[15]", "[4,64]") "," SUMS "}", 0 },
    { "not aligned",                "{" T("b", "U8", "[4]", "[0,4]") ","
                                    A("[15]", "[4,64]") "," SUMS "}", 0 },
    { "shape is too large",         "{" A("[4294967296,4294967296]", "[0,0]") "," SUMS "}", 0 },
    { "shape is too large",         "{" A("[4611686018427387920]", "[0,64]") "," SUMS "}", 0 },
    { "shape is too large",         "{" A("[99999999999999999999]", "[0,64]") "," SUMS "}", 0 },
    { "at most 4",                  "{" A("[2,2,4,1,1]", "[0,64]") "," SUMS "}", 0 },
    { "whole number from 0",        "{" A("[-16]", "[0,64]") "," SUMS "}", 0 },
    { "whole number from 0",        "{" A("[16.0]", "[0,64]") "," SUMS "}", 0 },
    { "not a list",                 "{" A("16", "[0,64]") "," SUMS "}", 0 },
    { "its shape needs 60",         "{" A("[15]", "[0,64]") "," SUMS "}", 0 },
    { "duplicate",                  "{" GOOD "," GOOD "," SUMS "}", 0 },
    { "none of U8",                 "{" T("a", "F64", "[8]", "[0,64]") "," SUMS "}", 0 },
    { "0 <= begin <= end",          "{" A("[16]", "[-64,0]") "," SUMS "}", 0 },
    { "0 <= begin <= end",          "{" A("[16]", "[64,0]") "," SUMS "}", 0 },
    { "0 <= begin <= end",          "{" A("[16]", "[0]") "," SUMS "}", 0 },
    { "cut off: tensor",            "{" A("[26]", "[9223372036854775703,9223372036854775807]") "}", 0 },
    { "plain characters",           "{" T("a b", "F32", "[16]", "[0,64]") "," SUMS "}", 0 },
    { "plain characters",           "{" T("a\\n", "F32", "[16]", "[0,64]") "," SUMS "}", 0 },
    { "1 to 63",                    "{" T(LONG, "F32", "[16]", "[0,64]") "," SUMS "}", 0 },
    { "expected dtype, shape and",  "{\"a\":{\"dtype\":\"F32\",\"shape\":[16]}," SUMS "}", 0 },
    { "expected dtype, shape and",  "{\"a\":7," SUMS "}", 0 },
    { "no __integrity__",           "{" A("[26]", "[0,104]") "}", 0 },
    { "no __integrity__",           "{" T("__integrity__", "U8", "[64]", "[0,64]") ","
                                    T("a", "U8", "[40]", "[64,104]") "}", 0 },
    { "no __integrity__",           "{" GOOD "," T("__integrity__", "F32", "[10]", "[64,104]") "}", 0 },
    { "has 64 bytes, expected 40",  "{" T("__pad_0__", "U8", "[40]", "[0,40]") ","
                                    T("__integrity__", "U8", "[64]", "[40,104]") "}", 0 },
    { "too many",                   "{" T("__integrity__", "U8", "[0]", "[0,0]") "}", 0 },
    { "'k' is not a string",        "{\"__metadata__\":{\"k\":1}," GOOD "," SUMS "}", 0 },
    { "a key of __metadata__",      "{\"__metadata__\":{\"\":\"\"}," GOOD "," SUMS "}", 0 },
    { "__metadata__ is not",        "{\"__metadata__\":\"k\"," GOOD "," SUMS "}", 0 },
    { "expected UTF-8",             "{\"__metadata__\":{\"k\":\"\xff\"}}", 0 },
    { "\\u0000",                    "{\"__metadata__\":{\"k\":\"\\u0000\"}}", 0 },
    { "hexadecimal",                "{\"__metadata__\":{\"k\":\"\\u00g0\"}}", 0 },
    { "not one half",               "{\"__metadata__\":{\"k\":\"\\uDC00\"}}", 0 },
    { "second half",                "{\"__metadata__\":{\"k\":\"\\uD800\\u0041\"}}", 0 },
    { "one of \"\\/bfnrtu",          "{\"__metadata__\":{\"k\":\"\\x\"}}", 0 },
    { "control character",          "{\"__metadata__\":{\"k\":\"\n\"}}", 0 },
    { "the end of a string",        "{\"__metadata__", 0 },
    { "duplicate key: metadata 'k'", "{\"__metadata__\":{\"k\":\"\",\"k\":\"\"}}", 0 },
    { "duplicate key: __metadata__", "{\"__metadata__\":{},\"__metadata__\":{}}", 0 },
    { "once each",                  "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0 },
    { "once each",                  "{\"a\":{\"dtypes\":\"F32\"}}", 0 },
    { "expected ':'",               "{\"a\" 1}", 0 },
    { "',' or '}'",                 "{" GOOD ";" SUMS "}", 0 },
    { "expected a string",          "{" GOOD ",}", 0 },
    { "',' or ']'",                 "{" A("[16 1]", "[0,64]") "," SUMS "}", 0 },
    { "whole number from 0",        "{" A("[016]", "[0,64]") "," SUMS "}", 0 },
    { "whole number from 0",        "{" A("[1e1]", "[0,64]") "," SUMS "}", 0 },
    { "no tensors",                 "{}", 0 },
    { "not a JSON object",          "[]", 0 },
    { "not valid JSON",             "\n\x01", 0 },
    { "not valid JSON",             "{} x", 0 },
    { "not valid JSON",             "{}", 1 },
    { "cut off: a header",          "{}", 161 },
    { "at most 100000000",          "{}", 100000001 },
    { "at most 100000000",          "{}", UINT64_MAX },
};
/* clang-format on */

static void test_hostile(void)
{
    TEST("file: hostile headers, each refused with its own words");
    struct wisp_tensor_file f;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        make_file(hostile[i].json, 104, hostile[i].length);
        CHECK(open_model(&f, at_fd) == WISP_EMODEL && strstr(err.text, hostile[i].says) &&
                  !strchr(err.text, '\n') && strstr(err.text, at_fd) == err.text,
              "%s: '%s', expected '%s'", hostile[i].json, err.text, hostile[i].says);
        wisp_tensor_file_close(&f);
    }
    char *deep = malloc(1 << 20);
    if (!deep) exit(1);
    memset(deep, '[', 1 << 20);
    memcpy(deep, "{\"a\":", 5);
    deep[(1 << 20) - 1] = 0;
    make_file(deep, 104, 0);
    CHECK(open_model(&f, at_fd) == WISP_EMODEL && strstr(err.text, "'a': expected dtype"), "%s",
          err.text);
    free(deep);
    CHECK(open_model(&f, folder) == WISP_EIO, "a folder: %s", err.text);
    CHECK(open_model(&f, "/nowhere/m") == WISP_EIO, "no such file: %s", err.text);
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);
}

/* The file that stands at 'model' is whole, and the only one in its folder. */
static int old_file_kept(const char *check)
{
    struct wisp_tensor_file f;
    struct wisp_error e = { 0 };
    wisp_status st = wisp_tensor_file_open(&f, NULL, model, &e);
    int same = st == WISP_OK && strcmp(f.check, check) == 0;
    wisp_tensor_file_close(&f);
    return same && files_in_folder() == 1 && wisp_mem_live == 0;
}

/* ---- headers of other writers ---- */

static void sum128(unsigned char *to, const unsigned char *p, size_t n)
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits(p, n));
    memcpy(to, c.digest, sizeof c.digest);
}

/* The file at 'model' with each 'from' of its header written as 'to', and all sums right. */
static void rewrite(const char *from, const char *to)
{
    static unsigned char old[1 << 14], now[1 << 15];
    int in = open(model, O_RDONLY);
    ssize_t n = read(in, old, sizeof old);
    close(in);
    uint64_t head;
    memcpy(&head, old, 8);
    size_t used = 8, step = strlen(from);
    for (size_t i = 8; i < 8 + head;) {
        bool hit = i + step <= 8 + head && memcmp(old + i, from, step) == 0;
        memcpy(now + used, hit ? (const unsigned char *)to : old + i, hit ? strlen(to) : 1);
        used += hit ? strlen(to) : 1;
        i += hit ? step : 1;
    }
    while (used % 64) now[used++] = ' ';
    uint64_t longer = used - 8;
    memcpy(now, &longer, 8);
    size_t data = (size_t)n - 8 - head;
    memcpy(now + used, old + 8 + head, data);
    struct wisp_tensor_file f;
    CHECK(open_model(&f, model) == WISP_OK, "%s", err.text);
    size_t n_sums = 32 + 8 * (2 * N - 3); /* tensors that are not empty, and the pads between */
    wisp_tensor_file_close(&f);
    unsigned char *sums = now + used + data - n_sums;
    sum128(sums, now, used);
    sum128(sums + n_sums - 16, sums, n_sums - 16);
    int out = open(model, O_WRONLY | O_TRUNC);
    CHECK(write(out, now, used + data) == (ssize_t)(used + data), "cannot write");
    close(out);
}

static void test_other_writers(void)
{
    static const char *const same[][2] = {
        { ",\"", " ,\r\n\t\"" },
        { "\":", "\" : " },
        { "\"F32\"", "\"\\u0046\\u00332\"" },
        { "\"dtype\":\"I64\",\"shape\":[3]", "\"shape\":[ 3 ],\"dtype\":\"I64\"" },
        { "\xf0\x9f\x90\xa6", "\\uD83D\\uDC26" },
        { "\xc3\xa9", "\\u00E9" },
        { "line\\n", "line\\u000a" },
    };
    struct wisp_tensor_file f;
    TEST("file: spaces, other orders and escapes are read as what they mean");
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        write_model(NULL);
        rewrite(same[i][0], same[i][1]);
        wisp_status st = open_model(&f, model);
        CHECK(st == WISP_OK && f.n_tensors == N && f.n_meta == N_META, "%s: %d %s", same[i][1], st,
              err.text);
        for (size_t k = 0; st == WISP_OK && k < N_META; k++)
            CHECK(strcmp(f.meta[k].value, meta[k].value) == 0, "%s", f.meta[k].value);
        for (size_t k = 0; st == WISP_OK && k < N; k++)
            CHECK(strcmp(f.tensors[k].name, tensors[k].name) == 0 &&
                      f.tensors[k].bytes == tensors[k].bytes,
                  "tensor %zu", k);
        wisp_tensor_file_close(&f);
    }
    TEST("file: a key twice under right checksums is a bad model, not a lack of memory");
    write_model(NULL);
    rewrite("\"ids\"", "\"counts\"");
    CHECK(open_model(&f, model) == WISP_EMODEL &&
              strstr(err.text, "duplicate key: tensor 'counts'"),
          "%s", err.text);
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);
}

/* A header that is nothing but JSON: its tree would take 80 times its bytes. */
static void test_bloated(void)
{
    TEST("file: a long header is refused where it stops making sense, in its own size");
    static const char *const parts[][3] = {
        { "{\"a\":[", "{},", "{}]}" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[", "0,", "0]}}" },
        { "{\"__metadata__\":{", "\"k\":\"\",", "\"l\":\"\"}}" },
        { "{", T("a", "U8", "[0]", "[0,0]") ",", T("a", "U8", "[0]", "[0,0]") "}" },
    };
    enum { LONG_HEADER = 99000000 };
    char *json = malloc(LONG_HEADER);
    struct wisp_tensor_file f;
    if (!json) exit(1);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t begin = strlen(parts[i][0]), step = strlen(parts[i][1]), at = begin;
        memcpy(json, parts[i][0], begin);
        for (; at + step + 200 < LONG_HEADER / (i ? 8 : 1); at += step)
            memcpy(json + at, parts[i][1], step);
        strcpy(json + at, parts[i][2]);
        make_file(json, 104, 0);
        size_t before = wisp_mem_peak();
        CHECK(open_model(&f, at_fd) == WISP_EMODEL, "%s", err.text);
        size_t more = wisp_mem_peak() - before;
        CHECK(more < (200 << 20), "%s: %zu bytes for a header of %zu", parts[i][1], more, at);
    }
    free(json);
}

static void test_memory(void)
{
    char check[33];
    long n, m;
    struct wisp_tensor_file f;
    CHECK(write_model(check) == WISP_OK, "%s", err.text);
    TEST("file: the n-th allocation fails while writing");
    for (n = 0; n < 9999; n++) {
        wisp_mem_budget = n;
        wisp_status st = wisp_tensor_file_write(model, tensors, 2, meta, 1, NULL, &err);
        wisp_mem_budget = -1;
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM && old_file_kept(check), "after %ld: %d %s", n, st, err.text);
    }
    CHECK(n > 4 && n < 9999, "%ld allocations", n);
    TEST("file: the n-th allocation fails while opening");
    CHECK(write_model(check) == WISP_OK, "%s", err.text);
    for (m = 0; m < 9999; m++) {
        wisp_mem_budget = m;
        wisp_status st = open_model(&f, model);
        wisp_mem_budget = -1;
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM && !f.map.p && wisp_mem_live == 0, "after %ld: %d %s", m, st,
              err.text);
    }
    wisp_tensor_file_close(&f);
    CHECK(m > 5 && m < 9999, "%ld allocations", m);
    printf("     %ld allocations to write, %ld to open\n", n, m);
}

static void test_disk(void)
{
    char check[33];
    CHECK(write_model(check) == WISP_OK, "%s", err.text);
    TEST("file: a folder that is not there");
    wisp_status st =
        wisp_tensor_file_write("/tmp/wisp_no_such_folder/m", tensors, N, meta, N_META, NULL, &err);
    CHECK(st == WISP_EIO && strstr(err.text, "wisp_no_such_folder"), "%d %s", st, err.text);
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);

    TEST("file: a full disk keeps the old file");
    struct rlimit old, limit;
    static unsigned char big[3 << 20];
    struct wisp_tensor t = { "big", WISP_U8, 1, { sizeof big }, big, sizeof big, true, { 0 } };
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    for (rlim_t room = 0; room < sizeof big; room = 2 * room + 300) {
        limit = (struct rlimit){ room, old.rlim_max };
        fflush(stdout); /* it may be a file, and the limit holds for it too */
        setrlimit(RLIMIT_FSIZE, &limit);
        st = wisp_tensor_file_write(model, &t, 1, meta, N_META, NULL, &err);
        setrlimit(RLIMIT_FSIZE, &old);
        CHECK(st == WISP_EIO && strstr(err.text, model), "%llu: %d %s", (unsigned long long)room,
              st, err.text);
        CHECK(old_file_kept(check), "%llu: the old file is gone", (unsigned long long)room);
    }
    signal(SIGXFSZ, SIG_DFL);
}

static void test_python(void)
{
    TEST("file: an independent reader in Python agrees");
    if (system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0) {
        SKIP("/usr/bin/python3 has no numpy");
        return;
    }
    CHECK(write_model(NULL) == WISP_OK, "%s", err.text);
    char cmd[600];
    double sum = 0;
    for (size_t i = 0; i < 6; i++) sum += w[i];
    snprintf(cmd, sizeof cmd,
             "/usr/bin/python3 tests/golden/safetensors_reader.py %s w=%.17g counts=%lld empty=0 "
             "ids=5 scalar=1 small=9 names=%d >%s/out",
             model, sum, (long long)(counts[0] + counts[1] + counts[2]), 70 * 69 / 2, folder);
    CHECK(system(cmd) == 0, "%s", cmd);
    strcat(strstr(cmd, "w="), " 2>&1");
    memcpy(strstr(cmd, "ids=5"), "ids=6", 5);
    CHECK(system(cmd) != 0, "a wrong sum is accepted");
    snprintf(cmd, sizeof cmd, "%s/out", folder);
    unlink(cmd);
}

int main(void)
{
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)i;
    fd = memfd_create("model", 0);
    if (fd < 0 || !mkdtemp(folder)) return 1;
    snprintf(at_fd, sizeof at_fd, "/proc/self/fd/%d", fd);
    snprintf(model, sizeof model, "%s/m.safetensors", folder);
    test_round_trip();
    test_bad_arguments();
    test_damage();
    test_hostile();
    test_other_writers();
    test_bloated();
    test_memory();
    test_disk();
    test_python();
    unlink(model);
    CHECK(rmdir(folder) == 0, "%s is not empty", folder);
    return test_end();
}

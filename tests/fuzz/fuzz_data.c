/* Fuzzing of the formats that can be read from memory: text, and idx images.
 *
 * Byte 0 of an input picks the format and options, the rest is the file (plain, gzip or zstd by its
 * own first bytes).  Each input is read twice, in chunks of the usual size and of a few bytes: both
 * must end alike, and what was read must keep the promises of data.h.
 *
 * With -DWISP_LIBFUZZER (clang -fsanitize=fuzzer) libFuzzer drives.  Otherwise main() replays the
 * files and folders it is given and then runs N seeded mutations of built-in texts (fuzz_data -n
 * N). */
#include "test.h"

#include "base/mem.h"
#include "data/rowtext.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void die(const char *why)
{
    fprintf(stderr, "fuzz_data: %s\n", why);
    abort(); /* both drivers keep the input of an abort */
}

static void check_list(const uint32_t *ptr, const int32_t *id, size_t n_rows, size_t n_ids,
                       int64_t *counts)
{
    if (ptr[0] != 0) die("offsets do not start at 0");
    for (size_t r = 0; r < n_rows; r++) {
        if (ptr[r] > ptr[r + 1]) die("offsets fall");
        for (size_t k = ptr[r]; k < ptr[r + 1]; k++) {
            if (id[k] < 0 || (size_t)id[k] >= n_ids) die("id out of range");
            if (k > ptr[r] && id[k - 1] >= id[k]) die("ids do not ascend");
            counts[id[k]]--;
        }
    }
}

static void check_data(const struct wisp_data *d)
{
    size_t rows = 0, nnz = 0;
    for (size_t b = 0; b < d->n_blocks; b++) {
        const struct wisp_rows *r = &d->blocks[b];
        check_list(r->xp, r->xi, r->n, d->n_features, d->feature_rows);
        check_list(r->yp, r->yi, r->n, d->n_labels, d->label_rows);
        for (size_t k = 0; k < r->xp[r->n]; k++)
            if (!isfinite(r->xv[k]) || r->xv[k] == 0) die("a value that is not finite, or 0");
        rows += r->n;
        nnz += r->xp[r->n];
    }
    if (rows != d->n_rows || nnz != d->nnz) die("wrong totals");
    for (size_t i = 0; i < d->n_features; i++)
        if (d->feature_rows[i] != 0) die("wrong count of a feature");
    for (size_t i = 0; i < d->n_labels; i++)
        if (d->label_rows[i] != 0) die("wrong count of a label");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const formats[] = { "xc", "libsvm", "fasttext", NULL };
    if (size == 0) return 0;
    struct wisp_context ctx = { 0 };
    struct wisp_read_options o = { .format = formats[data[0] & 3],
                                   .no_header = data[0] & 4,
                                   .index_base = data[0] & 8 ? (data[0] >> 4) & 1 : -1,
                                   .n_features = data[0] & 32 ? 3 : 0,
                                   .pairs = data[0] & 64,
                                   .min_count = 1 };
    wisp_error err[2] = { { 0 }, { 0 } };
    wisp_status st[2];
    struct wisp_data *d[2];
    size_t usual = wisp_text_chunk;
    long live = wisp_mem_live;
    wisp_ids_max = 1 << 12; /* counts per id are arrays: keep them small */
    for (int i = 0; i < 2; i++) {
        wisp_text_chunk = i ? (size_t)1 + data[0] % 13 : usual;
        st[i] =
            wisp_data_read_text(&d[i], &ctx, (const char *)data + 1, size - 1, "t", &o, &err[i]);
    }
    wisp_text_chunk = usual;
    /* Of a damaged archive more or less may be unpacked before the damage is met. */
    bool archive = strstr(err[0].text, "zstd data") || strstr(err[1].text, "zstd data") ||
                   strstr(err[0].text, "gzip data") || strstr(err[1].text, "gzip data");
    if (st[0] != st[1] || (!archive && strcmp(err[0].text, err[1].text))) {
        fprintf(stderr, "in one chunk: %s\nin several: %s\n", err[0].text, err[1].text);
        die("chunks change the outcome");
    }
    if (st[0] != WISP_OK && (d[0] || d[1])) die("an error, and data");
    if (st[0] != WISP_OK && (err[0].code != st[0] || !err[0].text[0]))
        die("an error without words");
    if (st[0] == WISP_OK && (d[0]->nnz != d[1]->nnz || d[0]->n_lab != d[1]->n_lab ||
                             d[0]->n_features != d[1]->n_features))
        die("chunks change the rows");
    for (int i = 0; i < 2 && st[0] == WISP_OK; i++) {
        check_data(d[i]);
        wisp_data_free(d[i]);
    }
    if (wisp_mem_live != live) die("memory leaked");
    return 0;
}

#ifndef WISP_LIBFUZZER
#include <dirent.h>
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

#define SEED(s)                                                                                    \
    {                                                                                              \
        s, sizeof(s) - 1                                                                           \
    }
static const struct {
    const char *bytes;
    size_t n; /* there may be zeros among them */
} seeds[] = {
    SEED("\4"
         "0,3 1:2 5:0.25\n 2:1\n\n7 0:1e-3 3:-4.5e2\n"),
    SEED("\0"
         "3 10 8\n0,3 1:2 5:0.25\n 2:1\n7 0:1e-3 3:-4.5e2\n"),
    SEED("\0"
         "\xef\xbb\xbf"
         "2 10 8\r\n0,3 1:2 5:0.25\r\n2:1\r\n"),
    SEED("\1"
         "3 1:2 5:0.25 # comment\n+1,2.0 2:1\n\n \n4 7:inf\n"),
    SEED("\3"
         "1 2:3 2:4 1:1\n2 qid:1 1:1\n"),
    SEED("\2"
         "__label__cat __label__dog a cat and a dog\n__label__dog woof woof\nno label\n"),
    SEED("\102"
         "__label__x one two three one two\n\n__label__y \xc3\xa4\xc3\xb6 \xff two\n"),
    SEED("\050"
         "2 10 8\n0,3 1:2 9:0.125\n1,1,1 2:1 2:1 2:3.4e38\n"),
    SEED("\3" /* two images of 2 x 3 pixels */
         "\0\0\10\3\0\0\0\2\0\0\0\2\0\0\0\3"
         "\0\1\377\0\0\7\0\0\0\0\0\200"),
};
enum { N_SEEDS = sizeof seeds / sizeof *seeds, ROOM = 2048 };

/* Changes a few places of b (n bytes); returns the new length. */
static size_t mutate(uint8_t *b, size_t n, uint64_t *s)
{
    static const char odd[] = "0123456789:,.-+eE \t\n\r#\0\xff_a";
    for (size_t times = 1 + test_rand(s) % 6; times-- > 0 && n > 1;) {
        size_t at = test_rand(s) % n, len = 1 + test_rand(s) % 8;
        if (len > n - at) len = n - at;
        switch (test_rand(s) % 6) {
        case 0:
            b[at] ^= (uint8_t)(1 << test_rand(s) % 8);
            break;
        case 1:
            b[at] = (uint8_t)odd[test_rand(s) % (sizeof odd - 1)];
            break;
        case 2: /* take out */
            memmove(b + at, b + at + len, n - at - len);
            n -= len;
            break;
        case 3: /* double */
            if (n + len > ROOM) break;
            memmove(b + at + len, b + at, n - at);
            n += len;
            break;
        case 4: /* put in */
            if (n + 1 > ROOM) break;
            memmove(b + at + 1, b + at, n - at);
            b[at] = (uint8_t)odd[test_rand(s) % (sizeof odd - 1)];
            n++;
            break;
        default: { /* a piece of another seed */
            size_t other = test_rand(s) % N_SEEDS, from = test_rand(s) % seeds[other].n;
            if (len > seeds[other].n - from) len = seeds[other].n - from;
            memcpy(b + at, seeds[other].bytes + from, len);
        }
        }
    }
    return n;
}

/* Packs what follows the first byte. */
static size_t pack(uint8_t *b, size_t n, bool zstd)
{
    uint8_t to[ROOM];
    size_t m;
    if (zstd) {
        m = ZSTD_compress(to, sizeof to, b + 1, n - 1, 1);
    } else {
        z_stream z = {
            .next_in = b + 1, .avail_in = (unsigned)n - 1, .next_out = to, .avail_out = ROOM
        };
        deflateInit2(&z, 1, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY);
        deflate(&z, Z_FINISH);
        m = z.total_out;
        deflateEnd(&z);
    }
    if (m > ROOM - 1) return n;
    memcpy(b + 1, to, m);
    return m + 1;
}

static void replay(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) die(path);
    if (S_ISDIR(st.st_mode)) {
        DIR *dir = opendir(path);
        for (struct dirent *e; dir && (e = readdir(dir));) {
            char inner[4096];
            snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
            if (e->d_name[0] != '.') replay(inner);
        }
        if (dir) closedir(dir);
        return;
    }
    FILE *f = fopen(path, "rb");
    uint8_t *b = malloc((size_t)st.st_size + 1);
    if (!f || !b) die(path);
    size_t n = fread(b, 1, (size_t)st.st_size, f);
    fclose(f);
    LLVMFuzzerTestOneInput(b, n);
    free(b);
}

int main(int argc, char **argv)
{
    long n = 20000;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-n") == 0 && i + 1 < argc) n = atol(argv[++i]);
        else replay(argv[i]);
    }
    TEST("fuzz_data");
    for (long i = 0; i < n; i++) { /* input i depends on i alone: a failure can be run again */
        uint64_t s = 0x9e3779b97f4a7c15u * (uint64_t)(i + 1);
        uint8_t b[ROOM];
        size_t from = test_rand(&s) % N_SEEDS, len = seeds[from].n;
        memcpy(b, seeds[from].bytes, len);
        int packed = test_rand(&s) % 8 == 0;
        if (packed) len = pack(b, len, test_rand(&s) % 2);
        if (i >= 2 * N_SEEDS) len = mutate(b, len, &s);
        uint8_t *exact = malloc(len); /* a sanitizer sees a read beyond it */
        memcpy(exact, b, len);
        LLVMFuzzerTestOneInput(exact, len);
        free(exact);
    }
    return test_end();
}
#endif

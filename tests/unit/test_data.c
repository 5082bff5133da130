/* The data core: numbers, builder, text in chunks, text formats, the cache. */
#include "test.h"

#include "base/mem.h"
#include "data/cache.h"
#include "data/number.h"
#include "data/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#if defined(__has_feature) /* clang */
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static char folder[] = "/tmp/wisp-test-data-XXXXXX";
static struct wisp_context one, four;
static int n_said;
static char said[1000];

static void say(void *arg, const char *line)
{
    (void)arg;
    n_said++;
    snprintf(said, sizeof said, "%s", line);
}

static const char *in_folder(const char *name)
{
    static char path[64][300];
    static unsigned turn; /* a result lives for the next 63 calls */
    char *p = path[turn++ % 64];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static void save(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n) abort();
    fclose(f);
}

static size_t slurp(const char *path, char *to, size_t room)
{
    FILE *f = fopen(path, "rb");
    if (!f) return 0;
    size_t n = fread(to, 1, room, f);
    fclose(f);
    return n;
}

static size_t pack(int kind, char *to, size_t room, const char *text, size_t n)
{
    if (kind == 2) return ZSTD_compress(to, room, text, n, 3);
    if (kind == 0) {
        memcpy(to, text, n);
        return n;
    }
    z_stream z = { .next_in = (unsigned char *)text,
                   .avail_in = (unsigned)n,
                   .next_out = (unsigned char *)to,
                   .avail_out = (unsigned)room };
    if (deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) != Z_OK) abort();
    deflate(&z, Z_FINISH);
    deflateEnd(&z);
    return z.total_out;
}

/* Rows of every kind: empty, without labels, without features, unsorted; returns its length. */
static size_t make_text(char *to, size_t room, int rows, bool libsvm, uint64_t seed)
{
    uint64_t s = seed;
    size_t n = 0;
    if (!libsvm) n += (size_t)snprintf(to, room, "%d 50 20\n", rows);
    for (int r = 0; r < rows; r++) {
        unsigned labels = (unsigned)(test_rand(&s) % 4), features = (unsigned)(test_rand(&s) % 6);
        for (unsigned i = 0; i < labels; i++)
            n += (size_t)snprintf(to + n, room - n, i ? ",%d" : "%d", (int)(test_rand(&s) % 20));
        for (unsigned i = 0; i < features; i++)
            n += (size_t)snprintf(to + n, room - n, " %d:%.9g", (int)(test_rand(&s) % 49) + 1,
                                  (double)(test_randf(&s) * (i ? 1 : 1000)));
        if (libsvm && labels + features == 0) to[n++] = ' ';
        to[n++] = '\n';
    }
    return n;
}

static bool same_rows(const struct wisp_rows *a, const struct wisp_rows *b)
{
    return a->n == b->n && !memcmp(a->xp, b->xp, 4 * (a->n + 1)) &&
           !memcmp(a->yp, b->yp, 4 * (a->n + 1)) && !memcmp(a->xi, b->xi, 4 * a->xp[a->n]) &&
           !memcmp(a->xv, b->xv, 4 * a->xp[a->n]) && !memcmp(a->yi, b->yi, 4 * a->yp[a->n]);
}

static bool same(const struct wisp_data *a, const struct wisp_data *b)
{
    if (a->n_rows != b->n_rows || a->n_features != b->n_features || a->n_labels != b->n_labels ||
        a->nnz != b->nnz || a->n_lab != b->n_lab || a->n_unlabelled != b->n_unlabelled ||
        a->max_row_nnz != b->max_row_nnz || a->counts != b->counts || a->n_blocks != b->n_blocks ||
        a->bytes != b->bytes)
        return false;
    if (memcmp(a->feature_rows, b->feature_rows, 8 * a->n_features) ||
        memcmp(a->label_rows, b->label_rows, 8 * a->n_labels))
        return false;
    for (size_t i = 0; i < a->n_blocks; i++)
        if (!same_rows(&a->blocks[i], &b->blocks[i]) || a->first[i + 1] != b->first[i + 1])
            return false;
    return true;
}

static struct wisp_data *read_text(struct wisp_context *ctx, const char *format, const char *text,
                                   size_t n)
{
    struct wisp_read_options o = { .format = format, .index_base = -1 };
    struct wisp_data *d;
    wisp_error err = { 0 };
    wisp_status st = wisp_data_read_text(&d, ctx, text, n, "t", &o, &err);
    CHECK(st == WISP_OK, "%s", err.text);
    return d;
}

static void numbers(void)
{
    TEST("numbers read as strtof reads them, and print so that they read back");
    uint64_t s = 7;
    char text[80];
    const char *fixed[] = { "16777217",
                            "16777219",
                            "1.00000017881393432617187499",
                            "8388608.5",
                            "1.00000017881393432617187501",
                            "0.1",
                            "1e-45",
                            "7e-46",
                            "1e22",
                            "9007199254740993",
                            "3.4028235677973366e38",
                            "1.17549435e-38",
                            "1e23" };
    for (int i = 0; i < 300000; i++) {
        int digits = 1 + (int)(test_rand(&s) % 20);
        if (i < (int)(sizeof fixed / sizeof *fixed)) {
            strcpy(text, fixed[i]);
        } else if (i & 1) { /* the middle between two floats, nearly */
            float f = ldexpf(1 + fabsf(test_randf(&s)), (int)(test_rand(&s) % 60) - 30);
            double middle = ((double)f + (double)nextafterf(f, INFINITY)) / 2;
            snprintf(text, sizeof text, "%.*g", digits, middle);
        } else {
            snprintf(text, sizeof text, "%.*ge%d", digits, (double)test_randf(&s),
                     (int)(test_rand(&s) % 90) - 45);
            char *e = strchr(text, 'e'), *e2 = strrchr(text, 'e');
            if (e != e2) *e2 = 0; /* %g wrote an exponent already */
        }
        float want = strtof(text, NULL), got = -1;
        const char *end = wisp_number_parse(&got, text);
        CHECK(end && *end == 0 && memcmp(&got, &want, 4) == 0, "%s: %.9g, strtof says %.9g", text,
              (double)got, (double)want);
        if (!isfinite(want)) continue;
        char printed[WISP_NUMBER_ROOM];
        size_t n = wisp_number_print(printed, want);
        printed[n] = 0;
        CHECK(strtof(printed, NULL) == want, "%.9g printed as %s", (double)want, printed);
    }
}

static void builder(void)
{
    TEST("a row is sorted, summed, without repeats and zeros");
    struct wisp_builder b = { 0 };
    uint64_t s = 3;
    for (size_t n = 0; n < 300; n++) { /* short and long rows, against plain counting */
        float sum[64] = { 0 };
        bool has[64] = { 0 };
        wisp_builder_reset(&b);
        for (size_t i = 0; i < n; i++) {
            int id = (int)(test_rand(&s) % 64);
            float v = (float)((int)(test_rand(&s) % 5) - 2);
            sum[id] += v;
            wisp_builder_feature(&b, id, v, NULL);
            has[id = (int)(test_rand(&s) % 64)] = true;
            wisp_builder_label(&b, id, NULL);
        }
        CHECK(wisp_builder_end_row(&b, NULL) == WISP_OK && b.n_rows == 1, "end_row");
        size_t x = 0, y = 0;
        for (int id = 0; id < 64; id++) {
            if (sum[id] != 0) {
                CHECK(x < b.nnz && b.xi[x] == id && b.xv[x] == sum[id], "n=%zu: feature %d", n, id);
                x++;
            }
            if (has[id]) {
                CHECK(y < b.n_lab && b.yi[y] == id, "n=%zu: label %d", n, id);
                y++;
            }
        }
        CHECK(x == b.nnz && y == b.n_lab && b.xp[1] == x && b.yp[1] == y, "n=%zu: sizes", n);
    }
    wisp_builder_clear(&b);
}

static void blocks(void)
{
    TEST("rows are cut into blocks by rows and by nonzeros; a huge row is a block");
    struct wisp_builder b = { 0 };
    struct wisp_sink *sink;
    struct wisp_data *d;
    wisp_error err;
    CHECK(wisp_sink_create(&sink, NULL, &err) == WISP_OK, "%s", err.text);
    for (int r = 0; r < 20000; r++) {
        size_t n = r == 100 ? 2 * (size_t)WISP_BLOCK_NNZ : r == 10000 ? WISP_BLOCK_NNZ - 10 : 1;
        for (size_t i = 0; i < n; i++) wisp_builder_feature(&b, (int)i, 1, &err);
        wisp_builder_end_row(&b, &err);
        if (r % 777 == 0 || r == 19999) {
            CHECK(wisp_sink_add(sink, &b, &err) == WISP_OK, "%s", err.text);
            wisp_builder_reset(&b);
        }
    }
    CHECK(wisp_sink_finish(&d, sink, &err) == WISP_OK, "%s", err.text);
    CHECK(d->n_rows == 20000 && d->max_row_nnz == 2 * (size_t)WISP_BLOCK_NNZ, "totals");
    CHECK(d->first[1] == 100 && d->blocks[1].n == 1, "block 1 is the huge row");
    for (size_t i = 0; i < d->n_blocks; i++)
        CHECK(d->blocks[i].n <= WISP_BLOCK_ROWS &&
                  (d->blocks[i].n == 1 || d->blocks[i].xp[d->blocks[i].n] <= WISP_BLOCK_NNZ),
              "block %zu: %zu rows", i, d->blocks[i].n);
    size_t place;
    for (size_t row = 0; row < 20000; row += 99) {
        const struct wisp_rows *r = wisp_data_row(d, row, &place);
        CHECK(d->first[r - d->blocks] + place == row && place < r->n, "row %zu", row);
    }
    wisp_builder_clear(&b);
    wisp_data_free(d);
}

static void round_trips(void)
{
    static const char *const packing[] = { "plain", "gzip", "zstd" };
    static char text[20000], packed[20000], again[20000];
    for (int f = 0; f < 2; f++) {
        const char *format = f ? "libsvm" : "xc";
        for (int kind = 0; kind < 3; kind++) {
            char name[60];
            snprintf(name, sizeof name, "round trip: %s, %s", format, packing[kind]);
            TEST(name);
            for (uint64_t seed = 1; seed < 20; seed++) {
                wisp_error err = { 0 };
                size_t n = make_text(text, sizeof text, 1 + (int)seed * 5, f, seed);
                struct wisp_data *a = read_text(&one, format, text, n), *b;
                const struct wisp_format *w = wisp_format_find(format);
                const char *path = in_folder("trip");
                CHECK(w->write(a, &one, path, &err) == WISP_OK, "%s", err.text);
                n = slurp(path, again, sizeof again);
                size_t m = pack(kind, packed, sizeof packed, again, n);
                save(path, packed, m);
                struct wisp_read_options o = { .index_base = -1 }; /* also finds the format */
                CHECK(wisp_data_read(&b, &four, path, &o, &err) == WISP_OK, "%s", err.text);
                CHECK(b && same(a, b), "seed %d", (int)seed);
                CHECK(b && b->source_bytes == m, "bytes read");
                wisp_data_free(a);
                wisp_data_free(b);
            }
            test_close();
        }
    }
}

static void chunks(void)
{
    TEST("any chunk size, any packing, 1 and 4 threads: the same rows");
    static char text[20000], packed[20000];
    size_t usual = wisp_text_chunk;
    size_t n = make_text(text, sizeof text, 60, false, 5) - 1; /* no final line end */
    struct wisp_data *want = read_text(&one, "xc", text, n);
    for (int kind = 0; kind < 3; kind++) {
        size_t m = pack(kind, packed, sizeof packed, text, n);
        for (size_t c = 1; c < 300; c += c < 64 ? 1 : 7) {
            wisp_text_chunk = c;
            struct wisp_data *a = read_text(&one, "xc", packed, m);
            CHECK(a && same(a, want), "packing %d, chunks of %zu, 1 thread", kind, c);
            wisp_data_free(a);
            if (c != 1 && c % 25 != 0) continue;
            a = read_text(&four, "xc", packed, m);
            CHECK(a && same(a, want), "packing %d, chunks of %zu, 4 threads", kind, c);
            wisp_data_free(a);
        }
    }
    wisp_data_free(want);
    wisp_text_chunk = usual;
}

static void first_error(void)
{
    TEST("of several errors the one on the earliest line is reported");
    static char text[20000], packed[20000];
    size_t usual = wisp_text_chunk;
    struct wisp_read_options o = { .format = "xc", .index_base = -1 };
    for (int kind = 0; kind < 3; kind++)
        for (int bad = 2; bad < 62; bad += 29) {
            size_t n = make_text(text, sizeof text, 60, false, 5);
            int line = 1;
            for (size_t i = 0; i < n; i++) { /* every line from 'bad' on is wrong in its own way */
                line += text[i] == '\n';
                if (line >= bad && text[i] == '\n' && i + 1 < n) text[i + 1] = line % 2 ? 'x' : 0;
            }
            size_t m = pack(kind, packed, sizeof packed, text, n);
            char want[20];
            snprintf(want, sizeof want, "t:%d: ", bad);
            for (size_t c = 1; c < 2000; c = c * 5 + 2) {
                wisp_text_chunk = c;
                struct wisp_data *d;
                wisp_error err = { 0 };
                wisp_status st = wisp_data_read_text(&d, &four, packed, m, "t", &o, &err);
                CHECK(st == WISP_EFORMAT && strncmp(err.text, want, strlen(want)) == 0,
                      "chunks of %zu: %s, expected %s", c, err.text, want);
            }
        }
    wisp_text_chunk = usual;
}

static void cut_files(void)
{
    TEST("a file cut at any byte is refused or read, never a crash; a cut archive is refused");
    static char text[4000], packed[4000];
    struct wisp_read_options o = { .index_base = -1 };
    for (int f = 0; f < 2; f++)
        for (int kind = 0; kind < 3; kind++) {
            size_t n = make_text(text, sizeof text, 20, f, 9);
            size_t m = pack(kind, packed, sizeof packed, text, n);
            o.format = f ? "libsvm" : "xc";
            for (size_t cut = 0; cut < m; cut++) {
                struct wisp_data *d;
                wisp_error err = { 0 };
                char *exact = wisp_alloc(cut, 1); /* a sanitizer sees a read beyond it */
                memcpy(exact, packed, cut);
                wisp_status st = wisp_data_read_text(&d, &one, exact, cut, "t", &o, &err);
                CHECK(st == WISP_OK || st == WISP_EFORMAT, "%d: %s", st, err.text);
                CHECK(kind == 0 || cut < 4 || st == WISP_EFORMAT, "%s cut at %zu", o.format, cut);
                CHECK(f || kind || cut + 2 >= n || st != WISP_OK || text[cut - 1] != '\n',
                      "xc cut at %zu lost rows unseen", cut);
                wisp_data_free(d);
                wisp_free(exact);
            }
            packed[m] = 'x'; /* one byte too many */
            struct wisp_data *d;
            wisp_error err = { 0 };
            if (kind) {
                wisp_status st = wisp_data_read_text(&d, &one, packed, m + 1, "t", &o, &err);
                CHECK(st == WISP_EFORMAT && strstr(err.text, "other bytes follow"), "%s", err.text);
                m += pack(kind, packed + m, sizeof packed - m, text, n); /* a second member */
                o.format = "libsvm";
                CHECK(f == 0 || wisp_data_read_text(&d, &one, packed, m, "t", &o, &err) == WISP_OK,
                      "%s", err.text);
                if (f) CHECK(d && d->n_rows == 40, "two members are one text");
                wisp_data_free(d);
            }
        }
}

static void long_lines_and_bombs(void)
{
    TEST("a line beyond the limit is refused, packed or not");
    static char text[3000], packed[3000];
    size_t line_max = wisp_text_line_max, chunk = wisp_text_chunk;
    struct wisp_read_options o = { .format = "libsvm", .index_base = -1 };
    wisp_text_line_max = 1000;
    wisp_text_chunk = 64;
    for (int kind = 0; kind < 3; kind++)
        for (size_t n = 900; n < 1100; n += 10) {
            struct wisp_data *d;
            wisp_error err = { 0 };
            memset(text, ' ', sizeof text);
            memcpy(text, "1 1:1\n", 6);
            text[6 + n] = '\n';
            size_t m = pack(kind, packed, sizeof packed, text, 6 + n + 1);
            wisp_status st = wisp_data_read_text(&d, &four, packed, m, "t", &o, &err);
            if (n < 1000) CHECK(st == WISP_OK && d->n_rows == 2, "%zu: %s", n, err.text);
            else if (n > 1001)
                CHECK(st == WISP_EFORMAT && strstr(err.text, "t:2: a line longer"), "%zu: %d %s", n,
                      st, err.text);
            wisp_data_free(d);
        }
    wisp_text_line_max = line_max;
    wisp_text_chunk = chunk;

    TEST("128 MiB in a small archive: memory stays small");
    enum { PIECE = 1 << 20, TIMES = 128 };
    char *piece = malloc(PIECE), *archive = malloc(PIECE);
    memset(piece, '#', PIECE);
    for (size_t i = 99; i < PIECE; i += 100) piece[i] = '\n';
    for (int kind = 1; kind < 3; kind++) {
        size_t m = pack(kind, archive, PIECE, piece, PIECE), before = wisp_mem_peak();
        for (size_t i = 1; i < TIMES; i++) memcpy(archive + i * m, archive, m);
        struct wisp_data *d = read_text(&four, "libsvm", archive, TIMES * m);
        CHECK(d && d->n_rows == 0, "comments are no rows");
        CHECK(wisp_mem_peak() - before < (size_t)48 << 20, "grew by %zu", wisp_mem_peak() - before);
        wisp_data_free(d);
    }
    free(piece);
    free(archive);
}

static struct wisp_data *read_file(const char *path, const struct wisp_read_options *o)
{
    struct wisp_data *d;
    wisp_error err = { 0 };
    n_said = 0;
    said[0] = 0;
    wisp_status st = wisp_data_read(&d, &four, path, o, &err);
    CHECK(st == WISP_OK, "%s", err.text);
    return d;
}

/* Reads 'path' and compares with 'want'; from_cache: nothing of the source was read. */
static void expect(const char *path, const struct wisp_read_options *o,
                   const struct wisp_data *want, bool from_cache, const char *words)
{
    struct wisp_data *d = read_file(path, o);
    CHECK(d && same(d, want), "other rows");
    CHECK(d && (d->source_bytes == 0) == from_cache, "read %zu bytes of the source",
          d ? d->source_bytes : 0);
    if (words) CHECK(strstr(said, words), "said '%s', expected '%s'", said, words);
    else CHECK(n_said == 0, "said '%s'", said);
    wisp_data_free(d);
}

static void touch(const char *path)
{
    struct timespec t[2] = { { 0 }, { .tv_sec = 1000000000 } };
    utimensat(AT_FDCWD, path, t, 0);
}

static void cache(void)
{
    static char text[20000];
    const char *path = in_folder("c.txt");
    size_t n = make_text(text, sizeof text, 30, false, 11);
    struct wisp_read_options o = { .index_base = -1, .use_cache = true };
    struct wisp_data *want = read_text(&one, "xc", text, n), *d;
    save(path, text, n);

    TEST("cache: written, found, stale when the source changes");
    expect(path, &o, want, false, NULL);
    CHECK(access(in_folder("c.txt.wispcache"), F_OK) == 0, "beside its source");
    expect(path, &o, want, true, NULL);
    touch(path);
    expect(path, &o, want, false, "c.txt.wispcache: stale");
    expect(path, &o, want, true, NULL);

    TEST("cache: other options, other rows; a limit that drops nothing shares it");
    o.n_features = want->n_features;
    expect(path, &o, want, true, NULL);
    o.n_features = 10;
    d = read_file(path, &o);
    CHECK(d && d->n_features == 10 && d->nnz < want->nnz, "features dropped");
    CHECK(strstr(said, "feature values were dropped"), "said %s", said);
    wisp_data_free(d);
    d = read_file(path, &o);
    CHECK(d && d->n_features == 10 && d->source_bytes == 0, "and found again");
    CHECK(n_said == 1 && strstr(said, "feature values were dropped"), "said %s", said);
    wisp_data_free(d);
    o.n_features = 0;
    expect(path, &o, want, false, "stale");
    wisp_data_free(want);
}

static void cache_names(void)
{
    TEST("cache: names survive; a name file is read");
    struct wisp_sink *sink;
    struct wisp_data *d;
    struct wisp_names labels, vocab;
    struct wisp_builder b = { 0 };
    wisp_error err = { 0 };
    const char *path = in_folder("names.txt");
    const char text[] = "\xef\xbb\xbfhttp://x\tone\r\n\r\nthree\tthree b";
    save(path, text, sizeof text - 1);
    CHECK(wisp_names_load(&labels, path, &err) == WISP_OK, "%s", err.text);
    CHECK(labels.n == 3 && labels.bytes == 13 && !memcmp(labels.text, "one\n\nthree b\n", 13),
          "text");
    CHECK(wisp_names_init(&vocab, wisp_strdup("a\nbc"), 4, false, &err) == WISP_OK, "%s", err.text);
    CHECK(vocab.n == 2 && vocab.start[1] == 2 && vocab.start[2] == 5, "no final line end");
    CHECK(wisp_sink_create(&sink, in_folder("n.wispcache"), &err) == WISP_OK, "%s", err.text);
    wisp_builder_label(&b, 2, &err);
    wisp_builder_feature(&b, 1, 0.5f, &err);
    wisp_builder_end_row(&b, &err);
    CHECK(wisp_sink_add(sink, &b, &err) == WISP_OK, "%s", err.text);
    wisp_sink_names(sink, &labels, &vocab);
    wisp_sink_at_least(sink, 7, 3);
    CHECK(labels.n == 0 && vocab.text == NULL, "moved");
    CHECK(wisp_sink_finish(&d, sink, &err) == WISP_OK, "%s", err.text);
    CHECK(d && d->labels.n == 3 && d->vocab.n == 2 && d->labels.start[1] == 4 &&
              memcmp(d->vocab.text + d->vocab.start[1], "bc", 2) == 0,
          "names");
    CHECK(d && d->n_features == 7 && d->n_labels == 3 && d->feature_rows[1] == 1 &&
              d->feature_rows[6] == 0 && d->label_rows[2] == 1 && !d->counts,
          "totals");
    wisp_data_free(d);
    wisp_builder_clear(&b);
    save(path, "a\nb\0c\n", 6);
    CHECK(wisp_names_load(&labels, path, &err) == WISP_EFORMAT && strstr(err.text, ":2: a NUL"),
          "%s", err.text);
}

static void damaged_cache(void)
{
    TEST("cache: damage at any byte, cuts and added bytes are found, and repaired");
    static char text[500], good[5000], bad[5000];
    const char *path = in_folder("d.txt"), *place = in_folder("d.txt.wispcache");
    size_t n = make_text(text, sizeof text, 4, false, 3);
    struct wisp_read_options o = { .index_base = -1, .use_cache = true };
    struct wisp_data *want = read_text(&one, "xc", text, n);
    save(path, text, n);
    expect(path, &o, want, false, NULL);
    size_t m = slurp(place, good, sizeof good);
    CHECK(m > 300 && m < sizeof good - 1, "%zu bytes", m);
    struct wisp_data
        *d; /* opened directly, changed in place: rebuilding costs an fsync each time */
    int fd = open(place, O_RDWR);
    for (size_t i = 0; i < m; i++) {
        char flipped = (char)(good[i] ^ (1 << i % 8));
        CHECK(pwrite(fd, &flipped, 1, (off_t)i) == 1, "cannot write");
        CHECK(wisp_cache_open(&d, NULL, place, NULL, NULL, NULL, NULL) == WISP_EFORMAT, "byte %zu",
              i);
        CHECK(pwrite(fd, good + i, 1, (off_t)i) == 1, "cannot write");
    }
    CHECK(wisp_cache_open(&d, NULL, place, NULL, NULL, NULL, NULL) == WISP_OK, "as it was");
    wisp_data_free(d);
    for (size_t i = m; i-- > 0;) {
        CHECK(ftruncate(fd, (off_t)i) == 0, "cannot cut");
        CHECK(wisp_cache_open(&d, NULL, place, NULL, NULL, NULL, NULL) == WISP_EFORMAT, "cut %zu",
              i);
    }
    close(fd);
    memcpy(bad, good, m);
    bad[m] = 0;
    save(place, bad, m + 1);
    expect(path, &o, want, false, "d.txt.wispcache: damaged (");
    expect(path, &o, want, true, NULL);
    good[200] ^= 1;
    save(place, good, m);
    expect(path, &o, want, false, "damaged (block 0: checksum) - reading");
    expect(path, &o, want, true, NULL);
    save(place, "", 0);
    expect(path, &o, want, false, "damaged (");
    wisp_data_free(want);
}

static void cache_places(void)
{
    static char text[20000];
    const char *path = in_folder("p.txt"), *other = in_folder("deep/er/cache");
    size_t n = make_text(text, sizeof text, 30, false, 12);
    struct wisp_read_options o = { .index_base = -1, .use_cache = true };
    struct wisp_data *want = read_text(&one, "xc", text, n);
    save(path, text, n);

    TEST("cache: elsewhere when it cannot lie beside, in memory when nowhere");
    mkdir(in_folder("p.txt.wispcache"), 0777); /* in the way: also for root */
    expect(path, &o, want, false, "are kept in memory");
    o.cache = other;
    expect(path, &o, want, false, "damaged");
    expect(path, &o, want, true, "damaged");
    o.cache = "/dev/null/no";
    expect(path, &o, want, false, "are kept in memory");
    rmdir(in_folder("p.txt.wispcache"));

    TEST("cache: a full disk is no error");
    struct rlimit old, tiny = { .rlim_cur = 700, .rlim_max = RLIM_INFINITY };
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    tiny.rlim_max = old.rlim_max;
    setrlimit(RLIMIT_FSIZE, &tiny);
    o.cache = NULL;
    expect(path, &o, want, false, "are kept in memory");
    setrlimit(RLIMIT_FSIZE, &old);
    wisp_data_free(want);

    TEST("cache: an error in the source leaves nothing behind");
    save(path, "1 5 5\n0 9:1\n", 12);
    wisp_error err = { 0 };
    CHECK(wisp_data_read(&want, &four, path, &o, &err) == WISP_EFORMAT, "%s", err.text);
    CHECK(strstr(err.text, "p.txt:2: feature 9"), "%s", err.text);
    CHECK(wisp_data_read(&want, &four, in_folder("absent"), &o, &err) == WISP_EIO, "%s", err.text);
    CHECK(wisp_data_read(&want, &four, folder, &o, &err) == WISP_EIO, "%s", err.text);
    o.format = "csv";
    CHECK(wisp_data_read(&want, &four, path, &o, &err) == WISP_EINVAL, "%s", err.text);
}

static int n_files(void)
{
    DIR *dir = opendir(folder);
    int n = 0;
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}

static void failing_memory(void)
{
    static char text[2000], packed[2000];
    size_t n = make_text(text, sizeof text, 20, false, 4);
    for (int way = 0; way < 4; way++) { /* plain or gzip, without and with a cache */
        char name[80];
        snprintf(name, sizeof name, "the n-th allocation fails: %s, %s", way & 1 ? "gzip" : "plain",
                 way & 2 ? "cache" : "memory");
        TEST(name);
        char path[300], place[320];
        snprintf(path, sizeof path, "%s/m.txt", folder);
        snprintf(place, sizeof place, "%s.wispcache", path);
        save(path, packed, pack(way & 1, packed, sizeof packed, text, n));
        struct wisp_read_options o = { .index_base = -1, .use_cache = way & 2 };
        long live = wisp_mem_live, k = 0;
        for (int ok = 0; ok < 1 + (way >> 1); k++) { /* with a cache: built, then found */
            struct wisp_data *d;
            wisp_error err = { 0 };
            int files = n_files();
            wisp_mem_budget = k;
            wisp_status st = wisp_data_read(&d, &four, path, &o, &err);
            wisp_mem_budget = -1;
            if (st == WISP_OK) {
                CHECK(d->n_rows == 20, "rows");
                wisp_data_free(d);
                ok++;
                if (ok == 1) k = -1;
                continue;
            }
            CHECK(st == WISP_ENOMEM && !d && strstr(err.text, "out of memory"), "%ld: %d %s", k, st,
                  err.text);
            if (k > 1000) break;
            CHECK(wisp_mem_live == live, "%ld: %ld blocks leaked", k, wisp_mem_live - live);
            if (n_files() != files) { /* the cache was complete, only mapping it failed */
                CHECK(access(place, F_OK) == 0, "%ld: a file is left", k);
                unlink(place);
            }
        }
        CHECK(wisp_mem_live == live, "%ld blocks leaked", wisp_mem_live - live);
        unlink(place);
        test_close();
    }
}

static void huge_ids(void)
{
    TEST("ids too large for the memory there is are an error, not a killed process");
#if SANITIZED
    SKIP("a sanitizer needs the address space");
#else
    struct wisp_read_options o = { .format = "libsvm", .index_base = -1 };
    struct wisp_data *d = NULL;
    wisp_error err = { 0 };
    struct rlimit old, tight;
    getrlimit(RLIMIT_AS, &old);
    tight = old;
    tight.rlim_cur = (size_t)8 << 30; /* the counts would take 16 GiB */
    setrlimit(RLIMIT_AS, &tight);
    const char text[] = "1 2147483647:1\n";
    wisp_status st = wisp_data_read_text(&d, &one, text, sizeof text - 1, "t", &o, &err);
    setrlimit(RLIMIT_AS, &old);
    CHECK(st == WISP_ENOMEM && strstr(err.text, "highest feature id"), "%d %s", st, err.text);
#endif
}

static void real_data(void)
{
    TEST("bibtex: the published statistics");
    char path[400];
    const char *home = getenv("HOME"), *data = getenv("WISP_DATA");
    snprintf(path, sizeof path, "%s%s/bibtex/bibtex_train.txt",
             data   ? data
             : home ? home
                    : "",
             data ? "" : "/.cache/wisp-data");
    if (access(path, R_OK) != 0) {
        SKIP("bibtex is not unpacked");
        return;
    }
    struct wisp_read_options o = { .index_base = -1 };
    struct wisp_data *d = read_file(path, &o);
    CHECK(d && d->n_rows == 4880 && d->n_features == 1836 && d->n_labels == 159, "shape");
    CHECK(d && fabs((double)d->n_lab / 4880 - 2.38) < 0.01 && d->n_unlabelled == 0, "labels");
    wisp_data_free(d);
}

int main(void)
{
    wisp_error err;
    if (!mkdtemp(folder) || wisp_pool_create(&four.pool, 4, &err) != WISP_OK) return 1;
    four.say = say;
    long live = wisp_mem_live;
    numbers();
    builder();
    blocks();
    long_lines_and_bombs();
    round_trips();
    chunks();
    first_error();
    cut_files();
    cache();
    cache_names();
    damaged_cache();
    cache_places();
    failing_memory();
    huge_ids();
    real_data();
    TEST("nothing leaked");
    CHECK(wisp_mem_live == live, "%ld blocks", wisp_mem_live - live);
    wisp_pool_free(four.pool);
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0) return 1;
    return test_end();
}

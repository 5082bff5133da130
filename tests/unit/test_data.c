/* The data core: numbers, builder, text in chunks, text formats. */
#include "data_rig.h"

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

/* Written in a format and read again; may_refuse: the format may say that it cannot hold them. */
static bool writer_trip(const struct wisp_format *f, const char *text, bool may_refuse)
{
    wisp_error err = { 0 };
    struct wisp_data *a = read_text(&one, "fasttext", text, strlen(text)), *b = NULL;
    char name[100];
    const char *ending = f->endings ? f->endings : "";
    snprintf(name, sizeof name, "written%.*s", (int)strcspn(ending, " "), ending);
    const char *path = in_folder(name);
    CHECK(!f->endings || wisp_format_ends(f, path), "%s: %s", f->name, path);
    wisp_status st = f->write(a, &one, path, &err);
    const bool refused = may_refuse && st == WISP_ENOTSUP;
    CHECK(st == WISP_OK || refused, "%s: %s", f->name, err.text);
    if (!refused) {
        struct wisp_read_options o = { .index_base = -1 };
        CHECK(wisp_data_read(&b, &four, path, &o, &err) == WISP_OK, "%s: %s", f->name, err.text);
        CHECK(b && b->format == f, "%s is taken for %s", f->name, b ? b->format->name : "nothing");
        CHECK(b && a->n_rows == b->n_rows && a->n_labels == b->n_labels && a->nnz == b->nnz &&
                  same_rows(&a->blocks[0], &b->blocks[0]),
              "%s: other rows", f->name);
    }
    wisp_data_free(a);
    wisp_data_free(b);
    return !refused;
}

/* Counts of words, and names for everything; rows with one label each every format can hold. */
static void every_writer(void)
{
    TEST("round trip: every format that can be written, found by its bytes");
    const struct wisp_format *f;
    size_t n = 0;
    for (size_t i = 0; (f = wisp_format_at(i)); i++) {
        if (!f->write) continue;
        writer_trip(f, "__label__a x y y z\n__label__b y\n__label__c z w\n", false);
        n += writer_trip(f, "__label__a x y y z\n__label__b __label__a y\n__label__c z w\n", true);
    }
    CHECK(n > 3, "%zu formats hold rows with several labels", n);
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

static void huge_ids(void)
{
    TEST("ids too large for the memory there is do not take it");
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
    CHECK(st == WISP_OK && d && d->n_features == 1, "ids are made compact: %d %s", st, err.text);
    wisp_data_free(d);
#endif
}

int main(void)
{
    if (!rig_open()) return 1;
    long live = wisp_mem_live;
    numbers();
    builder();
    blocks();
    long_lines_and_bombs();
    round_trips();
    every_writer();
    chunks();
    first_error();
    cut_files();
    huge_ids();
    return rig_close(live);
}

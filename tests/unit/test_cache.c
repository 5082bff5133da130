/* The cache of parsed text: found, stale, damaged, misplaced; and reading with failing memory. */
#include "data_rig.h"

#include <stddef.h>
#include <xxhash.h>

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
    CHECK(strstr(said, "feature values that the model does not know"), "said %s", said);
    wisp_data_free(d);
    d = read_file(path, &o);
    CHECK(d && d->n_features == 10 && d->source_bytes == 0, "and found again");
    CHECK(n_said == 1 && strstr(said, "feature values that the model does not know"), "said %s",
          said);
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

/* Ids that stand for names do so, too, when the rows come from the cache. */
static void cache_named(void)
{
    TEST("cache: ids by name");
    const char *path = in_folder("far.txt");
    const char text[] = "1 2000000000:1 5:1\n2 5:1\n";
    struct wisp_read_options o = { .index_base = -1, .use_cache = true };
    save(path, text, sizeof text - 1);
    for (int again = 0; again < 2; again++) {
        struct wisp_data *d = read_file(path, &o);
        CHECK(d && (d->source_bytes == 0) == again, "from the cache: %d", again);
        CHECK(d && d->named & WISP_NAMED_FEATURES && d->n_features == 2 && d->vocab.n == 2,
              "%s: sides %u, %zu features", again ? "again" : "first", d ? d->named : 0,
              d ? d->n_features : 0);
        wisp_data_free(d);
    }
}

/* What is in proportion for one model to go on from is not for another. */
static void cache_known(void)
{
    TEST("cache: ids that another model knows");
    const char *path = in_folder("known.txt"), *place = in_folder("known.txt.wispcache");
    const size_t usual = wisp_ids_free;
    struct wisp_read_options o = { .format = "libsvm",
                                   .index_base = -1,
                                   .old_features = 1000,
                                   .old_labels = 960,
                                   .grow = true,
                                   .like = &wisp_format_libsvm,
                                   .like_base = 1,
                                   .decided = WISP_NAMED_LABELS | WISP_NAMED_FEATURES,
                                   .use_cache = true };
    struct wisp_data *d = NULL;
    wisp_error err = { 0 };
    wisp_ids_free = 64;
    save(path, "7 3:1 899:2\n950 999:1\n", 22);
    wisp_data_free(read_file(path, &o));
    CHECK(access(place, F_OK) == 0, "no cache");
    o.old_features = 100;
    CHECK(wisp_data_read(&d, &one, path, &o, &err) == WISP_EFORMAT, "features: %s", err.text);
    wisp_data_free(d);
    o.old_features = 1000, o.old_labels = 100;
    CHECK(wisp_data_read(&d, &one, path, &o, &err) == WISP_EFORMAT, "labels: %s", err.text);
    wisp_data_free(d);
    wisp_ids_free = usual;
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

/* Rows that are taken out of a cache which somebody cuts meanwhile are not taken: they read as zeros. */
static void cut_cache(void)
{
    TEST("cache: cut while rows are taken from it");
    wisp_error err = { 0 };
    static char text[300000];
    const char *path = in_folder("cut.txt"), *place = in_folder("cut.txt.wispcache");
    const size_t was = wisp_map_copy_max;
    size_t n = 0;
    for (int i = 0; i < 10000; i++)
        n += (size_t)sprintf(text + n, "%d %d:1 %d:2\n", i % 7, 1 + i % 50, 60 + i % 9);
    struct wisp_read_options o = { .index_base = -1, .use_cache = true, .memory = 100 << 20 };
    struct wisp_data *d = NULL, *some = NULL;
    save(path, text, n);
    wisp_map_copy_max = 100;
    CHECK(wisp_data_read(&d, &one, path, &o, &err) == WISP_OK && d->map.slot, "%s", err.text);
    CHECK(wisp_data_pick(&some, d, NULL, NULL, &err) == WISP_OK && some->n_rows == 10000, "%s",
          err.text);
    wisp_data_free(some);
    CHECK(truncate(place, 4096) == 0, "cannot cut");
    CHECK(wisp_data_pick(&some, d, NULL, NULL, &err) == WISP_EIO && !some &&
              strstr(err.text, "was cut"),
          "%s", some ? "taken" : err.text);
    wisp_data_free(d);
    wisp_map_copy_max = was;
}

/* A cache with good checksums whose index says something else: field 'at' of it becomes 'n'. */
static void lie(const char *place, size_t at, uint64_t n)
{
    static char b[9000];
    size_t bytes = slurp(place, b, sizeof b);
    uint64_t offset, size, check; /* the tail begins with them, and ends with its own checksum */
    char *tail = b + bytes - 64;
    memcpy(&offset, tail, 8);
    memcpy(&size, tail + 8, 8);
    memcpy(b + offset + at, &n, 8);
    check = XXH3_64bits(b + offset, size);
    memcpy(tail + 16, &check, 8);
    check = XXH3_64bits(tail, 56);
    memcpy(tail + 56, &check, 8);
    save(place, b, bytes);
}

static void lying_cache(void)
{
    TEST("cache: one that claims 2^31 labels or features is made again");
    static char text[500];
    const char *path = in_folder("lie.txt"), *place = in_folder("lie.txt.wispcache");
    size_t n = make_text(text, sizeof text, 4, false, 3);
    struct wisp_read_options o = { .index_base = -1, .use_cache = true };
    struct wisp_data *want = read_text(&one, "xc", text, n);
    save(path, text, n);
    static const size_t fields[] = { offsetof(struct wisp_cache_index, n_labels),
                                     offsetof(struct wisp_cache_index, n_features) };
    for (size_t i = 0; i < 2; i++) {
        static const uint64_t claims[] = { 0x7fffffff, 0x80000000, (uint64_t)1 << 40, 0 };
        for (size_t c = 0; c < sizeof claims / sizeof *claims; c++) {
            wisp_data_free(read_file(path, &o));
            lie(place, fields[i], claims[c]);
            expect(path, &o, want, false, "lie.txt.wispcache: damaged (index: sizes)");
            expect(path, &o, want, true, NULL);
        }
    }
    wisp_data_free(want);
}

/* Three rows of features 1, 1 and 2: two counts, 2 and 1, which may not be others. */
static void lying_counts(void)
{
    TEST("cache: counts of ids that the rows cannot have");
    static const char text[] = "3 3 1\n0 1:1\n0 1:1\n0 1:1 2:1\n";
    static const struct {
        uint64_t count[3];
        wisp_status st;
    } said_of[] = {
        { { 0, 3, 1 }, WISP_OK },
        { { 1, 3, 0 }, WISP_OK },
        { { 0, 4, 0 }, WISP_EFORMAT },
        { { 0, 3, 0 }, WISP_EFORMAT },
        { { 1, 3, 1 }, WISP_EFORMAT },
        { { 3, 3, 3 }, WISP_EFORMAT },
        { { 5, 0, (uint64_t)-1 }, WISP_EFORMAT },
    };
    const char *path = in_folder("counts.txt"), *place = in_folder("counts.txt.wispcache");
    struct wisp_read_options o = { .index_base = -1, .use_cache = true };
    save(path, text, sizeof text - 1);
    wisp_data_free(read_file(path, &o));
    size_t counts = sizeof(struct wisp_cache_index) + sizeof(struct wisp_cache_entry);
    for (size_t i = 0; i < sizeof said_of / sizeof *said_of; i++) {
        for (size_t f = 0; f < 3; f++) lie(place, counts + 8 * f, said_of[i].count[f]);
        struct wisp_data *d;
        wisp_error err = { 0 };
        wisp_status st = wisp_cache_open(&d, NULL, place, NULL, NULL, NULL, &err);
        CHECK(st == said_of[i].st, "counts %zu: %d '%s'", i, st, err.text);
        wisp_data_free(d);
    }
}

/* ---- caches of others, and caches that change ---- */

static mode_t mode_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_mode & 07777 : 0;
}

static void foreign_cache(void)
{
    static char text[20000], bytes[20000];
    const char *path = in_folder("f.txt"), *place = in_folder("f.txt.wispcache"),
               *victim = in_folder("victim");
    size_t n = make_text(text, sizeof text, 30, false, 13);
    struct wisp_read_options o = { .index_base = -1, .use_cache = true };
    struct wisp_data *want = read_text(&one, "xc", text, n);
    struct stat st;
    save(path, text, n);

    TEST("cache: a link in its place is neither read nor written through");
    save(victim, "precious", 8);
    CHECK(symlink("victim", place) == 0, "link");
    expect(path, &o, want, false, "found a link");
    CHECK(slurp(victim, bytes, sizeof bytes) == 8, "the victim was overwritten");
    CHECK(lstat(place, &st) == 0 && S_ISREG(st.st_mode), "the link is still there");
    expect(path, &o, want, true, NULL);

    TEST("cache: a pipe in its place is not waited for");
    unlink(place);
    CHECK(mkfifo(place, 0666) == 0, "pipe");
    alarm(60);
    expect(path, &o, want, false, "are kept in memory");
    alarm(0);
    unlink(place);

    TEST("cache: as open as its source, not more");
    chmod(path, 0600);
    expect(path, &o, want, false, NULL);
    CHECK(mode_of(place) == 0600, "mode %o", mode_of(place));
    chmod(path, 0644);

    TEST("cache: another user's is not believed, the owner's of the source is");
    if (geteuid() != 0) {
        SKIP("only root can give files away");
    } else {
        CHECK(chown(place, 65534, 65534) == 0, "chown");
        expect(path, &o, want, false, "belongs to another user");
        expect(path, &o, want, true, NULL);
        CHECK(chown(place, 65534, 65534) == 0 && chown(path, 65534, 65534) == 0, "chown");
        expect(path, &o, want, true, NULL);
    }
    wisp_data_free(want);
}

static void small_sources(void)
{
    TEST("cache: small sources leave none, unless memory is limited");
    static char text[20000];
    const char *path = in_folder("small.txt"), *place = in_folder("small.txt.wispcache");
    size_t n = make_text(text, sizeof text, 30, false, 14);
    struct wisp_read_options o = { .index_base = -1, .use_cache = true };
    struct wisp_data *want = read_text(&one, "xc", text, n);
    save(path, text, n);
    wisp_cache_min = n + 1;
    expect(path, &o, want, false, NULL);
    CHECK(access(place, F_OK) != 0, "there is one");
    o.memory = 1 << 30;
    expect(path, &o, want, false, NULL);
    expect(path, &o, want, true, NULL);
    o.memory = 0;
    unlink(place);
    wisp_cache_min = n;
    expect(path, &o, want, false, NULL);
    CHECK(access(place, F_OK) == 0, "there is none");
    wisp_cache_min = 0;
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
    expect(path, &o, want, false, "found a folder");
    expect(path, &o, want, true, "found a folder");
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
    CHECK(wisp_data_read(&want, &four, folder, &o, &err) == WISP_EFORMAT, "%s", err.text);
    o.format = "parquet";
    CHECK(wisp_data_read(&want, &four, path, &o, &err) == WISP_EINVAL, "%s", err.text);
}

static bool is_read(const struct wisp_data *d, const struct wisp_format *f, int base)
{
    return d && d->format == f && d->index_base == base;
}

static void format_and_base(void)
{
    TEST("a set knows its format and first id, read or cached; saying them finds the same cache");
    const char *path = in_folder("b.svm");
    struct wisp_read_options o = { .index_base = -1, .use_cache = true };
    save(path, "1 1:1 3:2\n0 2:1\n", 16);
    for (int i = 0; i < 3; i++) { /* read, cached, cached and said */
        struct wisp_data *d = read_file(path, &o);
        CHECK(is_read(d, &wisp_format_libsvm, 1), "%d", i);
        CHECK(d && (d->source_bytes == 0) == (i > 0) && n_said == 0, "%d: said '%s'", i, said);
        wisp_data_free(d);
        if (i == 1)
            o = (struct wisp_read_options){
                .format = "libsvm", .index_base = 1, .no_header = true, .use_cache = true
            };
    }
    o.index_base = 0;
    struct wisp_data *d = read_file(path, &o);
    CHECK(is_read(d, &wisp_format_libsvm, 0) && d->source_bytes, "base 0: read again");
    wisp_data_free(d);
    d = read_text(&one, "xc", "1 1 1\n0 0:1\n", 12);
    CHECK(is_read(d, &wisp_format_xc, 0), "xc");
    wisp_data_free(d);
    d = read_text(&one, NULL, "__label__a b\n", 13);
    CHECK(is_read(d, &wisp_format_fasttext, 0), "fasttext");
    wisp_data_free(d);
}

static void empty_lines(void)
{
    TEST("libsvm text: every line is a row where answers are counted by lines");
    static const char text[] = "1 1:1\n\n# no row\n\r\n  # no\n2 2:1\n";
    struct wisp_read_options o = { .format = "libsvm", .index_base = -1 };
    for (int model = 0; model < 2; model++) {
        struct wisp_data *d;
        wisp_error err = { 0 };
        o.n_features = model ? 5 : 0;
        o.every_line = model;
        wisp_status st = wisp_data_read_text(&d, &one, text, sizeof text - 1, "t", &o, &err);
        CHECK(st == WISP_OK, "%s", err.text);
        CHECK(d && d->n_rows == (model ? 6 : 2) && d->nnz == 2, "%d: %zu rows", model,
              d ? d->n_rows : 0);
        wisp_data_free(d);
    }
    save(in_folder("e.svm"), text, sizeof text - 1);
    o.use_cache = true; /* a cache of one kind must not serve the other */
    for (int i = 0; i < 4; i++) {
        o.every_line = i / 2 % 2;
        struct wisp_data *d = read_file(in_folder("e.svm"), &o);
        CHECK(d && d->n_rows == (o.every_line ? 6 : 2) && (n_said > 0) == (i == 2), "file %d: %s",
              i, said);
        wisp_data_free(d);
    }
    save(in_folder("f.svm"), "1 1:1\n2 2:1\n", 12); /* unless there is no such line */
    for (int i = 0; i < 2; i++) {
        o.every_line = i;
        struct wisp_data *d = read_file(in_folder("f.svm"), &o);
        CHECK(d && d->n_rows == 2 && n_said == 0, "file without: %s", said);
        wisp_data_free(d);
    }
}

static void model_names(void)
{
    TEST("cache: words for training and for two models lie side by side; notices come again");
    const char *path = in_folder("w.txt");
    static const char text[] = "__label__p a b\n__label__q __label__new c a\n__label__new a\n";
    struct wisp_names labels, vocab, other;
    save(path, text, sizeof text - 1);
    wisp_names_init(&labels, wisp_strdup("p\nq\nr\n"), 6, false, NULL);
    wisp_names_init(&vocab, wisp_strdup("a\nb\nc\nd\n"), 8, false, NULL);
    wisp_names_init(&other, wisp_strdup("c\nb\n"), 4, false, NULL);
    struct wisp_read_options train = { .index_base = -1, .min_count = 1, .use_cache = true },
                             first = train, second;
    first.labels = &labels, first.vocab = &vocab, first.n_features = 4, first.n_labels = 3;
    second = first;
    second.vocab = &other, second.n_features = 2;
    for (int i = 0; i < 2; i++) {
        struct wisp_data *d[3] = { read_file(path, &train) };
        CHECK(n_said == 0, "said '%s'", said);
        d[1] = read_file(path, &first);
        CHECK(n_said == 1 &&
                  strstr(said, "w.txt: 2 labels that the model does not know count as misses"),
              "%d: said '%s'", i, said);
        d[2] = read_file(path, &second);
        CHECK(n_said == 2, "%d: %d notices", i, n_said);
        for (int k = 0; k < 3; k++)
            CHECK(d[k] && (d[k]->source_bytes == 0) == i, "%d, %d: read again", i, k);
        CHECK(d[1] && d[1]->n_features == 4 && d[1]->n_labels == 4 && d[1]->n_lab == 4, "kept");
        for (int k = 0; k < 3; k++) wisp_data_free(d[k]);
    }
    wisp_names_clear(&labels);
    wisp_names_clear(&vocab);
    wisp_names_clear(&other);
}

static void memory_limit(void)
{
    TEST("rows above --memory need a cache");
    static char text[20000];
    const char *path = in_folder("l.txt");
    size_t n = make_text(text, sizeof text, 300, false, 21);
    save(path, text, n);
    struct wisp_data *want = read_text(&one, "xc", text, n), *d;
    wisp_error err = { 0 };
    struct wisp_read_options o = { .index_base = -1, .memory = want->bytes };
    expect(path, &o, want, false, NULL);
    o.memory = 6 << 10;
    CHECK(want->bytes > o.memory, "too few rows");
    wisp_status st = wisp_data_read(&d, &four, path, &o, &err);
    CHECK(st == WISP_ENOMEM && !d &&
              strstr(err.text, "l.txt: its rows do not fit --memory 6k without a cache: pass "
                               "--cache DIR or raise --memory"),
          "%d %s", st, err.text);
    o.use_cache = true;
    o.cache = "/dev/null/no";
    mkdir(in_folder("l.txt.wispcache"), 0777);
    CHECK(wisp_data_read(&d, &four, path, &o, &err) == WISP_ENOMEM && !d, "no place");
    rmdir(in_folder("l.txt.wispcache"));
    expect(path, &o, want, false, NULL);
    st = wisp_data_read_text(&d, &one, text, n, "t", &o, &err);
    CHECK(st == WISP_OK, "text is in memory anyway: %s", err.text);
    wisp_data_free(d);
    wisp_data_free(want);
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

int main(void)
{
    if (!rig_open()) return 1;
    wisp_cache_min = 0;
    long live = wisp_mem_live;
    cache();
    cache_names();
    cache_named();
    cache_known();
    damaged_cache();
    cut_cache();
    lying_cache();
    lying_counts();
    foreign_cache();
    small_sources();
    cache_places();
    format_and_base();
    empty_lines();
    model_names();
    memory_limit();
    failing_memory();
    return rig_close(live);
}

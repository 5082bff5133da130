/* fastText text: tokens, pairs, min_count, a model's names, any number of threads and any
 * chunk size, writing, full memory. */
#include "test.h"
#include "base/mem.h"
#include "base/dict.h"
#include "data/text.h"

#include <string.h>
#include <unistd.h>

static int n_threads = 1;
static size_t n_dropped, n_dropped_labels;

static wisp_status load(struct wisp_data **d, const char *text, const struct wisp_read_options *o,
                        wisp_error *err)
{
    struct wisp_context ctx = { 0 };
    struct wisp_sink *sink = NULL;
    *d = NULL;
    wisp_status st = n_threads > 1 ? wisp_pool_create(&ctx.pool, n_threads, err) : WISP_OK;
    if (st == WISP_OK) st = wisp_sink_create(&sink, NULL, err);
    struct wisp_source src = {
        .ctx = &ctx, .path = "t", .o = o, .text = text, .text_bytes = strlen(text)
    };
    if (st == WISP_OK) st = wisp_format_fasttext.read(&src, sink, err);
    n_dropped = src.n_dropped_features;
    n_dropped_labels = src.n_dropped_labels;
    if (st == WISP_OK) st = wisp_sink_finish(d, sink, err);
    else wisp_sink_abort(sink);
    wisp_pool_free(ctx.pool);
    return st;
}

static const char *name(const struct wisp_names *n, int32_t id)
{
    static char buf[4][64];
    static int turn;
    char *p = buf[turn++ % 4];
    if ((size_t)id >= n->n) snprintf(p, 64, "#%d", id);
    else
        snprintf(p, 64, "%.*s", (int)(n->start[id + 1] - n->start[id] - 1), n->text + n->start[id]);
    return p;
}

/* All rows as "label,label|word:count word:count;", with ids in front of names. */
static const char *show(const struct wisp_data *d)
{
    static char out[1 << 16];
    size_t at = 0;
    out[0] = 0;
    for (size_t row = 0; row < d->n_rows; row++) {
        size_t r;
        const struct wisp_rows *b = wisp_data_row(d, row, &r);
        for (size_t k = b->yp[r]; k < b->yp[r + 1]; k++)
            at += (size_t)snprintf(out + at, sizeof out - at, "%s%s", k > b->yp[r] ? "," : "",
                                   name(&d->labels, b->yi[k]));
        at += (size_t)snprintf(out + at, sizeof out - at, "|");
        for (size_t k = b->xp[r]; k < b->xp[r + 1]; k++)
            at += (size_t)snprintf(out + at, sizeof out - at, "%s%s:%g", k > b->xp[r] ? " " : "",
                                   name(&d->vocab, b->xi[k]), (double)b->xv[k]);
        at += (size_t)snprintf(out + at, sizeof out - at, ";");
    }
    return out;
}

static void expect(const char *text, const struct wisp_read_options *o, const char *want)
{
    struct wisp_data *d;
    wisp_error err;
    wisp_status st = load(&d, text, o, &err);
    CHECK(st == WISP_OK, "%s", err.text);
    if (st != WISP_OK) return;
    CHECK(!strcmp(show(d), want), "got  %s\n    want %s", show(d), want);
    wisp_data_free(d);
}

static const struct wisp_read_options plain = { .index_base = -1 };

static void test_tokens(void)
{
    expect("__label__x __label__y some words here\n", &plain, "x,y|some:1 words:1 here:1;");
    expect("b a __label__q\tb\t b\r\n\n \t\r\n__label__p a", &plain, "q|b:3 a:1;p|a:1;");
    expect("Gr\xc3\xbc\xc3\x9f"
           "e gr\xc3\xbc\xc3\x9f"
           "e A a",
           &plain,
           "|Gr\xc3\xbc\xc3\x9f"
           "e:1 gr\xc3\xbc\xc3\x9f"
           "e:1 A:1 a:1;");
    expect("__label__only\nwords only\n", &plain, "only|;|words:1 only:1;");
    expect("__label__a __label__a __label w__label__b\n", &plain, "a|__label:1 w__label__b:1;");
    expect("", &plain, "");
    struct wisp_data *d;
    wisp_error err;
    CHECK(load(&d, "a\n\nb __label__ c\n", &plain, &err) == WISP_EFORMAT &&
              !strcmp(err.text, "t:3: a label without a name after '__label__'"),
          "%s", err.text);
}

static void test_pairs(void)
{
    struct wisp_read_options o = { .text.pairs = true };
    expect("a b __label__x  a b\n", &o, "x|a:2 b:2 a b:2;"); /* what occurs once: words alone */
    o.min_count = 1;
    expect("a b __label__x  a b\n", &o, "x|a:2 b:2 a b:2 b a:1;");
    expect("a\nb\n", &o, "|a:1;|b:1;");
    expect("a\tb a b\n", &o, "|a:2 b:2 a b:2 b a:1;");
    o.min_count = 2;
    expect("a b c a b\nc a\n", &o, "|a:2 b:2 a b:2 c:1 c a:1;|a:1 c:1 c a:1;");
    o.text.pairs = false;
    o.min_count = 3;
    expect("z a b c a b\n__label__rare c a\n", &o, "|a:2;rare|a:1;");
    o.min_count = 9;
    expect("a b\n", &o, "|;");
}

static wisp_status names(struct wisp_names *n, const char *text)
{
    char *copy = wisp_strdup(text);
    return copy ? wisp_names_init(n, copy, strlen(text), false, NULL) : WISP_ENOMEM;
}

static void test_model(void)
{
    struct wisp_names labels, vocab;
    struct wisp_data *d;
    wisp_error err;
    names(&labels, "p\nq\n");
    names(&vocab, "x\na\na\nb c\n");
    struct wisp_read_options o = { .labels = &labels,
                                   .vocab = &vocab,
                                   .n_features = 6,
                                   .n_labels = 2,
                                   .text.pairs = true,
                                   .min_count = 5 };
    wisp_status st = load(
        &d, "a b c __label__q __label__new a\n__label__new2 __label__p __label__new3\n", &o, &err);
    CHECK(st == WISP_OK, "%s", err.text);
    CHECK(!strcmp(show(d), "#1,#2|#1:2 #3:1;#0,#2,#3|;"), "%s", show(d));
    CHECK(d->n_features == 6 && d->n_labels == 4, "%zu x %zu", d->n_features, d->n_labels);
    CHECK(n_dropped == 2, "%zu unknown words", n_dropped);
    CHECK(n_dropped_labels == 3, "%zu unknown labels", n_dropped_labels);
    wisp_data_free(d);

    o.n_features = o.n_labels = 0; /* names alone: there are as many as they say */
    CHECK(load(&d, "a __label__p\n", &o, &err) == WISP_OK && d->n_features == 4 && d->n_labels == 2,
          "features and labels that the rows do not have");
    wisp_data_free(d);
    o.n_features = 6;
    o.n_labels = 2;

    o.labels = NULL; /* the model's labels are numbers: none can be known */
    CHECK(load(&d, "__label__q a\n", &o, &err) == WISP_OK && !strcmp(show(d), "#2|#1:1;"),
          "labels");
    wisp_data_free(d);
    o.labels = &labels;
    o.vocab = NULL;
    CHECK(load(&d, "a\n", &o, &err) == WISP_EINVAL && strstr(err.text, "vocabulary"), "%s",
          err.text);
    wisp_names_clear(&labels);
    wisp_names_clear(&vocab);
}

static void test_threads(void)
{
    static char text[40000], want[1 << 16];
    uint64_t s = 3;
    size_t at = 0;
    while (at < 20000) {
        uint64_t v = test_rand(&s) % 3000;
        v = v * v / 3000;
        at += (size_t)sprintf(text + at, "%s%llu%s", test_rand(&s) % 9 ? "w" : "__label__",
                              (unsigned long long)v, test_rand(&s) % 12 ? " " : "\n");
    }
    struct wisp_read_options o = { .text.pairs = true, .min_count = 2 };
    struct wisp_data *d;
    wisp_error err;
    size_t chunk = wisp_text_chunk;
    if (load(&d, text, &o, &err) != WISP_OK) exit(2);
    strcpy(want, show(d));
    wisp_data_free(d);
    for (n_threads = 1; n_threads <= 4; n_threads += 3)
        for (wisp_text_chunk = 16; wisp_text_chunk <= 4096; wisp_text_chunk *= 16) {
            expect(text, &o, want);
        }
    wisp_text_chunk = chunk;
    n_threads = 1;
}

static void test_probe(void)
{
    const char *yes[] = { "__label__a b\n", "\n  \n\t__label__a", "some words __label__z\nx",
                          "a   __label__b", "no label here\n__label__a b\n" };
    const char *no[] = { "", "\n", "words only\n", "a__label__b\n", "__labe" };
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        CHECK(wisp_format_fasttext.probe("p", yes[i], strlen(yes[i])), "%s", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        CHECK(!wisp_format_fasttext.probe("p", no[i], strlen(no[i])), "%s", no[i]);
}

static void test_write(void)
{
    char path[] = "/tmp/wisp_ft_XXXXXX";
    struct wisp_data *d;
    wisp_error err;
    struct wisp_map m;
    close(mkstemp(path));
    if (load(&d, "b a __label__x b __label__y\nc\n__label__x\n", &plain, &err) != WISP_OK) exit(2);
    CHECK(wisp_format_fasttext.write(d, NULL, path, &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_map_open(&m, path, &err) == WISP_OK, "%s", err.text);
    const char *want = "__label__x __label__y b b a\nc\n__label__x\n";
    CHECK(m.bytes == strlen(want) && !memcmp(m.p, want, m.bytes), "%.*s", (int)m.bytes, m.p);
    wisp_map_close(&m);
    wisp_names_clear(&d->vocab);
    CHECK(wisp_format_fasttext.write(d, NULL, path, &err) == WISP_ENOTSUP &&
              strstr(err.text, "needs names: 0 of 3"),
          "%s", err.text);
    wisp_data_free(d);
    if (load(&d, "a b\n", &(struct wisp_read_options){ .text.pairs = true, .min_count = 1 },
             &err) != WISP_OK)
        exit(2);
    CHECK(wisp_format_fasttext.write(d, NULL, path, &err) == WISP_ENOTSUP &&
              strstr(err.text, "'a b'"),
          "%s", err.text);
    wisp_data_free(d);
    unlink(path);
}

static void test_dict(void)
{
    struct wisp_dict d = { 0 };
    struct wisp_dict_entry *e;
    wisp_error err;
    char word[20];
    CHECK(!wisp_dict_find(&d, "a", 1, wisp_dict_hash("a", 1)), "empty");
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < 5000; i++) { /* few hashes: probing must tell the words apart */
            size_t n = (size_t)sprintf(word, "w%d", i % 2500);
            CHECK(wisp_dict_add(&e, &d, word, n, wisp_dict_hash(word, n) & 0x3f0, &err) == WISP_OK,
                  "add");
            CHECK(e->value == (i < 2500 ? 0 : i % 2500 + 1), "value %lld", (long long)e->value);
            e->value = i % 2500 + 1;
        }
        CHECK(d.n == 2500 && !memcmp(d.text, "w0\nw1\n", 6), "%zu words", d.n);
        CHECK(!wisp_dict_find(&d, "w", 1, 0x10), "w is there");
        wisp_dict_reset(&d);
        CHECK(!wisp_dict_find(&d, "w1", 2, wisp_dict_hash("w1", 2) & 0x3f0), "w1 is still there");
    }
    wisp_dict_clear(&d);
}

static void test_memory(void)
{
    struct wisp_names vocab;
    struct wisp_data *d;
    wisp_error err;
    names(&vocab, "a\nb\n");
    struct wisp_read_options o[2] = { { .text.pairs = true, .min_count = 2 }, { .vocab = &vocab } };
    long live = wisp_mem_live;
    for (int i = 0; i < 2; i++) {
        for (long n = 0;; n++) {
            wisp_mem_budget = n;
            wisp_status st = load(&d, "a b\tc __label__x\na  b __label__y d\n", &o[i], &err);
            wisp_mem_budget = -1;
            if (st == WISP_OK) break;
            CHECK(st == WISP_ENOMEM && !d && wisp_mem_live == live, "after %ld: %s", n, err.text);
        }
        wisp_data_free(d);
        CHECK(wisp_mem_live == live, "%ld blocks left", wisp_mem_live - live);
    }
    wisp_names_clear(&vocab);
}

int main(void)
{
    TEST("dict: words apart, in order");
    test_dict();
    TEST("fasttext: tokens");
    test_tokens();
    TEST("fasttext: pairs and min_count");
    test_pairs();
    TEST("fasttext: a model's names");
    test_model();
    TEST("fasttext: any number of threads, any chunks");
    test_threads();
    TEST("fasttext: probe");
    test_probe();
    TEST("fasttext: writing");
    test_write();
    TEST("fasttext: failing allocations");
    test_memory();
    return test_end();
}

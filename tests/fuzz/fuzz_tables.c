/* Fuzzing formats of words: csv, tsv, json lines and texts in memory, with every way to cut text
 * into features.
 *
 * Each input is read twice, in one chunk and in chunks of a few bytes: both must end alike, and
 * what was read must keep the promises of data.h. */
#define FUZZ_NAME   "fuzz_tables"
#define FUZZ_ERRORS WISP_EFORMAT, WISP_EINVAL
#define FUZZ_WORDS                                                                                 \
    "\"", "\"\"", "\",\"", "\r\n", "text,label\n", "text\tlabel\n",                                \
        "{\"text\":", "\"label\":", "\\u00e4", "\\ud83d\\ude00", "\\n", "[[[[[[[[", "}", "]",      \
        "null", "-1.5e3", "\xc3\x89", "\xe6\x97\xa5", "\xe2\x80\x94", "\xff", "\xef\xbb\xbf",      \
        "__label__x "
#define FUZZ_MUTANTS 12000
#include "fuzz/rows.h"

#include "data/text.h"

/* how: */
enum {
    FORMAT = 3, /* csv, tsv, jsonl, memory */
    NO_HEADER = 4,
    WORDS = 8,
    PAIRS = 16,
    CHARS = 32,
    MODEL = 64, /* names of words and labels are given */
    EVERY_LINE = 128,
    COLUMNS = 256, /* are named */
    STOP = 512,
    SEPARATED = 1024,
    GROW = 2048,
    NUMBERS = 4096, /* columns by number */
    GZIP = 8192,
};

static wisp_status read_once(struct wisp_data **d, unsigned how, const uint8_t *p, size_t n,
                             const struct wisp_read_options *o, wisp_error *err)
{
    if ((how & FORMAT) < 3)
        return wisp_data_read_text(d, &fuzz_one_thread, (const char *)p, n, "t", o, err);
    /* texts in memory: rows end at '|' */
    static uint64_t start[FUZZ_ROOM + 2];
    static int64_t y_ptr[FUZZ_ROOM + 2];
    static int32_t y_idx[FUZZ_ROOM + 2];
    size_t rows = 0;
    start[0] = 0;
    y_ptr[0] = 0;
    for (size_t i = 0; i < n; i++) {
        if (p[i] != '|' && i + 1 < n) continue;
        y_idx[rows] = (int32_t)(rows % 3);
        start[++rows] = i + 1;
        y_ptr[rows] = (int64_t)rows;
    }
    const struct wisp_memory_rows m = { rows, 3, (const char *)p, start, y_ptr, y_idx };
    return wisp_data_read_rows(d, &fuzz_one_thread, &m, o, err);
}

static wisp_status fuzz_read(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    static const char *const formats[] = { "csv", "tsv", "jsonl", NULL };
    static char label_text[] = "a\nb\n\nb\n", word_text[] = "the\ncat\nthe cat\n";
    static size_t label_start[] = { 0, 2, 4, 5, 7 }, word_start[] = { 0, 4, 8, 16 };
    static uint8_t packed[2 * FUZZ_ROOM];
    const struct wisp_names labels = { 4, label_text, 7, label_start, true },
                            words = { 3, word_text, 16, word_start, true };
    uint32_t slots[16] = { 0 };
    const struct wisp_lookup none = { &words, slots, 16 };
    struct wisp_read_options o = { .format = formats[how & FORMAT],
                                   .index_base = -1,
                                   .no_header = how & NO_HEADER,
                                   .every_line = how & EVERY_LINE,
                                   .min_count = 1,
                                   .stop = how & STOP ? &none : NULL,
                                   .labels = how & MODEL ? &labels : NULL,
                                   .vocab = how & MODEL ? &words : NULL,
                                   .grow = how & GROW };
    o.text.tokens = how & WORDS ? WISP_TOKENS_WORDS : WISP_TOKENS_BLANKS;
    o.text.pairs = how & PAIRS;
    if (how & CHARS) o.text.chars_min = 2, o.text.chars_max = 3;
    if (how & COLUMNS) {
        strcpy(o.text.text_column, how & NUMBERS ? "2,1" : "t,body");
        strcpy(o.text.label_column, how & NUMBERS ? "3" : "y");
    }
    if (how & SEPARATED) strcpy(o.text.label_separator, "; ");
    if (how & GZIP && n < FUZZ_ROOM && (how & FORMAT) < 3) {
        n = fuzz_pack(FUZZ_GZIP, packed, sizeof packed, p, n);
        p = packed;
    }
    wisp_error e[2] = { { 0 }, { 0 } };
    wisp_status st[2];
    struct wisp_data *d[2];
    const size_t usual = wisp_text_chunk;
    for (int i = 0; i < 2; i++) {
        wisp_text_chunk = i ? (size_t)1 + how % 13 : 1 << 16;
        st[i] = read_once(&d[i], how, p, n, &o, &e[i]);
    }
    wisp_text_chunk = usual;
    *err = e[0];
    rows_same_by_chunks(d, st, e, !fuzz_starved, true);
    if (d[0]) rows_check(d[0], true);
    wisp_data_free(d[0]);
    wisp_data_free(d[1]);
    return st[0];
}

static const struct fuzz_text_seed seeds[] = {
    SEED(WORDS, "text,label\nHow long?,bread\n\"a \"\"b\"\",\nc\",x\n\ny,\"z\"\n"),
    SEED(WORDS | PAIRS | GZIP, "id,label,text\r\n1,a,x y\r\n2,b,\"y, z\"\r\n"),
    SEED(WORDS | CHARS, "label,text\nx,5\" pipe\ny,\"\"\n,z"),
    SEED(1 | WORDS, "Text\tLabels\na, b\tx\n\"c\td\"\ty\n"),
    SEED(COLUMNS | SEPARATED, "y,body,t\nx; y,b1,t1\nz,,t2\n;,b,t\n"),
    SEED(COLUMNS | NUMBERS | NO_HEADER, "a,b,c\nd,e,f\n"),
    SEED(COLUMNS | NUMBERS, "a,b,c\nd,e,f\n"),
    SEED(NO_HEADER, "a,b,c\n"),
    SEED(EVERY_LINE | MODEL, "text,n\nthe cat,1\n\nb,2\n"),
    SEED(MODEL | GROW | STOP, "text,label\nthe cat,a\nthe dog,c\n"),
    SEED(0, "text,label\n\"a,b\nc,d\n"),
    SEED(0, "\"text,label\na,b\n"),
    SEED(0, "text,label\na,b,c\n"),
    SEED(0, "text,label\n\"a\"b,c\n"),
    SEED(0, "words,label\na,b\n"),
    SEED(0, "text,label\na,\"b\nc\"\n"),
    SEED(0, ""),
    SEED(0, "\n"),
    SEED(2 | WORDS, "{\"text\": \"How long?\", \"labels\": [\"bread\", \"keep\"]}\n\n"
                    "{\"x\":{\"text\":[1,{\"a\":null}]},\"label\":\"a b\",\"text\":\"x\\ny\"}\r\n"),
    SEED(2 | WORDS | CHARS, "{\"label\": 3, \"text\": \"\\u00c4\\ud83d\\ude00 \\\"q\\\"\"} \n"
                            "{\"text\":null,\"tags\":[true,-1.5e3,null,[]]}"),
    SEED(2 | SEPARATED, "{\"text\":\"x\",\"label\":\"p; q\"}\n"),
    SEED(2 | COLUMNS, "{\"body\":\"x\",\"y\":\"p\",\"t\":\"y\"}\n{\"t\":\"y\"}\n"),
    SEED(2 | EVERY_LINE, "{\"text\":\"a\"}\n \n{}\n"),
    SEED(2, "{\"text\":\"a\"} x\n"),
    SEED(2, "{\"text\":\"\\x\"}\n"),
    SEED(2, "{\"text\":tru}\n"),
    SEED(2, "{\"text\" \"a\"}\n"),
    SEED(2, "{\"text\":{\"a\":1}}\n"),
    SEED(2, "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n"),
    SEED(3 | WORDS | PAIRS | CHARS, "Stra\xc3\x9f"
                                    "e GR\xc3\x9c\xc3\x9f"
                                    "E|\xe6\x97\xa5\xe6\x9c\xac go|\xff\xfe"
                                    "a b\xc3|"),
    SEED(3 | WORDS | MODEL, "The CAT|the, cat; sat|"),
    SEED(3 | PAIRS | STOP, "a b  c\td\ne|x"),
    SEED(3, ""),
};

static size_t fuzz_seed(uint8_t *to, size_t i)
{
    const size_t n = sizeof seeds / sizeof *seeds;
    return i < n ? fuzz_put(to, seeds[i].how, seeds[i].text, seeds[i].n) : 0;
}

#ifndef WISP_LIBFUZZER
static void fuzz_tests(void)
{
}
#endif

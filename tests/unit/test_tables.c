/* Tables of text (CSV, TSV, JSON lines) and texts in memory: cells, columns, labels, errors, any
 * chunks and threads. */
#include "test.h"
#include "base/mem.h"
#include "data/text.h"

#include <string.h>

static const char *show(const struct wisp_data *d) /* "label,label|word:count ...;" */
{
    static char out[1 << 14];
    size_t at = 0;
    out[0] = 0;
    for (size_t row = 0; row < d->n_rows; row++) {
        size_t r;
        const struct wisp_rows *b = wisp_data_row(d, row, &r);
        for (size_t k = b->yp[r]; k < b->yp[r + 1]; k++) {
            const size_t *s = d->labels.start + b->yi[k];
            at += (size_t)snprintf(out + at, sizeof out - at, "%s%.*s", k > b->yp[r] ? "," : "",
                                   d->labels.n ? (int)(s[1] - s[0] - 1) : 1,
                                   d->labels.n ? d->labels.text + s[0] : &"0123456789"[b->yi[k]]);
        }
        at += (size_t)snprintf(out + at, sizeof out - at, "|");
        for (size_t k = b->xp[r]; k < b->xp[r + 1]; k++) {
            const size_t *s = d->vocab.start + b->xi[k];
            at += (size_t)snprintf(out + at, sizeof out - at, "%s%.*s:%g", k > b->xp[r] ? " " : "",
                                   (int)(s[1] - s[0] - 1), d->vocab.text + s[0], (double)b->xv[k]);
        }
        at += (size_t)snprintf(out + at, sizeof out - at, ";");
    }
    return out;
}

static const struct wisp_read_options usual = { .text.tokens = WISP_TOKENS_WORDS, .min_count = 1 };
static struct wisp_context one, four;

/* What the text gives, in chunks of any size, with one thread and four. */
static void reads(const char *format, const struct wisp_read_options *options, const char *text,
                  const char *want)
{
    struct wisp_read_options o = *options;
    o.format = format;
    static const size_t chunks[] = { 1 << 20, 1, 7, 20 };
    for (int i = 0; i < 8; i++) {
        struct wisp_data *d;
        wisp_error err = { 0 };
        wisp_text_chunk = chunks[i % 4];
        wisp_status st =
            wisp_data_read_text(&d, i < 4 ? &one : &four, text, strlen(text), "t", &o, &err);
        CHECK(st == WISP_OK, "%s: %s", text, err.text);
        if (st == WISP_OK) CHECK(strcmp(show(d), want) == 0, "got %s, not %s", show(d), want);
        wisp_data_free(d);
    }
    wisp_text_chunk = 4 << 20;
}

static void refuses(const char *format, const struct wisp_read_options *options, const char *text,
                    wisp_status code, const char *want)
{
    struct wisp_read_options o = *options;
    o.format = format;
    for (int i = 0; i < 2; i++) {
        struct wisp_data *d;
        wisp_error err = { 0 };
        wisp_text_chunk = i ? 3 : 4 << 20;
        wisp_status st = wisp_data_read_text(&d, &four, text, strlen(text), "t", &o, &err);
        CHECK(st == code && strstr(err.text, want), "%s: %d, %s", text, st, err.text);
        wisp_data_free(d);
    }
    wisp_text_chunk = 4 << 20;
}

static void test_csv(void)
{
    reads("csv", &usual, "text,label\nHow long?,bread\n", "bread|how:1 long:1;");
    reads("csv", &usual, "id,label,text\r\n1,a,x y\r\n2,b,\"y, z\"\r\n", "a|x:1 y:1;b|y:1 z:1;");
    reads("csv", &usual, "text,label\n\"two\nlines, \"\"one\"\" cell\",a b\n\nz,c",
          "a b|two:1 lines:1 one:1 cell:1;c|z:1;");
    reads("csv", &usual, "label,text\nx,5\" pipe\ny,\"\"\n,z\n", "x|5:1 pipe:1;y|;|z:1;");
    reads("csv", &usual, "\"text\",\"label\"\n\"a\r\nb\",\"q\"\"r\"\n", "q\"r|a:1 b:1;");
    reads("csv", &usual, "text,label\r\n\"a\",\"b\"\r\n\"c\"\"\",\"d\"\"\"\"e\"\r\n\"f\",\"g\"\r",
          "b|a:1;d\"\"e|c:1;g|f:1;");
    reads("csv", &usual, "text,body,label,labels\na,b,c,d\n", "c|a:1;"); /* the first of its kind */
    reads("tsv", &usual, "Text\tLabels\na, b\tx\n\"c\td\"\ty\n", "x|a:1 b:1;y|c:1 d:1;");
    struct wisp_read_options o = usual;
    strcpy(o.text.text_column, "title,body");
    strcpy(o.text.label_column, "kind");
    strcpy(o.text.label_separator, "|");
    reads("csv", &o, "kind,body,title\nx | y,b1,t1\nz,,t2\n|,b,t\n",
          "x,y|b1:1 t1:1;z|t2:1;|b:1 t:1;");
    o = usual;
    o.no_header = true;
    strcpy(o.text.text_column, "2");
    strcpy(o.text.label_column, "1");
    reads("csv", &o, "x,a b\ny,c\n", "x|a:1 b:1;y|c:1;");
    o.no_header = false;
    reads("csv", &o, "l,t\nx,a b\n", "x|a:1 b:1;");
    strcpy(o.text.label_column, "1"); /* a name before a number */
    strcpy(o.text.text_column, "text");
    reads("csv", &o, "l,1,text\nx,y,a b\n", "y|a:1 b:1;");
    strcpy(o.text.text_column, "tag,text"); /* which is no column of labels then */
    o.text.label_column[0] = 0;
    reads("csv", &o, "tag,text,label\nx,a b,y\n", "y|x:1 a:1 b:1;");
    o.every_line = true; /* labels are not needed: whichever is meant */
    reads("csv", &usual, "te\rxt,text,label\nx,a b,y\n", "y|a:1 b:1;");
    strcpy(o.text.text_column, "3");
    strcpy(o.text.label_column, "3");
    reads("csv", &o, "l,t,u\nx,a b,y\n", "|y:1;");
    o = usual;
    strcpy(o.text.text_column, "2");
    strcpy(o.text.label_column, "1");
    o.text.no_header = true; /* as the model remembers */
    reads("csv", &o, "l,t\nx,a b\n", "l|t:1;x|a:1 b:1;");
    o = usual;
    strcpy(o.text.text_column, "2");
    reads("csv", &o, "label,n\nx,a b\n", "x|a:1 b:1;");
    o = usual;
    strcpy(o.text.label_column, "1");
    reads("csv", &o, "n,text\nx,a b\n", "x|a:1 b:1;");
    o = usual;
    o.every_line = true; /* each line is answered, labels are not needed */
    reads("csv", &o, "text,n\na,1\n\nb,2\n", "|a:1;|;|b:1;");
    reads("csv", &o, "text\na\n\nb\n", "|a:1;|;|b:1;");
    strcpy(o.text.text_column, "2"); /* no labels: not the first column either */
    reads("csv", &o, "l,t\nx,a\n", "|a:1;");
}

static void test_bad_csv(void)
{
    struct wisp_read_options same = usual;
    refuses("csv", &usual, "text,text,label\na,b,c\n", WISP_EFORMAT,
            "two columns are called 'text'");
    refuses("csv", &usual, "text,tag,tag\na,b,c\n", WISP_EFORMAT, "two columns are called 'tag'");
    refuses("csv", &usual, "text,label\ra,b\r", WISP_EFORMAT, "t:1: lines that end in CR alone");
    strcpy(same.text.text_column, "a,b");
    strcpy(same.text.label_column, "b");
    refuses("csv", &same, "a,b\nx,y\n", WISP_EINVAL, "column 2 is that of text and that of labels");
    refuses("csv", &usual, "text,label\na,b,c\n", WISP_EFORMAT, "t:2: 3 cells, but the first line");
    refuses("csv", &usual, "text,label\n\"a\nb\",x\nc\n", WISP_EFORMAT, "t:4: 1 cell, but");
    refuses("csv", &usual, "text,label\n\"a,b\nc,d\n", WISP_EFORMAT, "t:2: 'a,b': a quoted cell");
    refuses("csv", &usual, "text,label\n\"a\"b,c\n", WISP_EFORMAT, "t:2: ");
    refuses("csv", &usual, "words,label\na,b\n", WISP_EFORMAT,
            "t:1: no column of text among 'words', 'label'");
    refuses("csv", &usual, "text,kind\na,b\n", WISP_EFORMAT, "t:1: no column of labels among");
    refuses("csv", &usual, "text,label\na,\"b\nc\"\n", WISP_EFORMAT, "a label with a control");
    refuses("csv", &usual, "\"text,label\na,b\n", WISP_EFORMAT, "t:1: a quoted cell of the first");
    struct wisp_read_options o = usual;
    o.no_header = true;
    refuses("csv", &o, "a,b\n", WISP_EINVAL, "by their numbers");
    strcpy(o.text.text_column, "3");
    strcpy(o.text.label_column, "1");
    refuses("csv", &o, "a,b\n", WISP_EFORMAT, "no column of text '3'");
    strcpy(o.text.text_column, "title,body");
    o.no_header = false;
    refuses("csv", &o, "title,label\na,b\n", WISP_EFORMAT, "no column of text 'title,body'");
}

static void test_jsonl(void)
{
    reads("jsonl", &usual, "{\"text\": \"How long?\", \"labels\": [\"bread\", \"keep\"]}\n",
          "bread,keep|how:1 long:1;");
    reads("jsonl", &usual,
          "{\"x\":{\"text\":[1,{\"a\":null}]},\"label\":\"a b\",\"text\":\"x\\ny\"}\r\n\n"
          " {\"label\": 3, \"text\": \"\\u00c4\\ud83d\\ude00 \\\"q\\\"\"} \n{\"text\":\"z\"}",
          "a b|x:1 y:1;3|\xc3\xa4:1 \xf0\x9f\x98\x80:1 q:1;|z:1;");
    reads("jsonl", &usual, "{\"text\":null,\"tags\":[true,-1.5e3,null,[]]}\n", "true,-1.5e3|;");
    struct wisp_read_options o = usual;
    strcpy(o.text.text_column, "t,b");
    strcpy(o.text.label_separator, ",");
    reads("jsonl", &o, "{\"b\":\"x\",\"label\":\"p, q\",\"t\":\"y\"}\n", "p,q|x:1 y:1;");
    reads("jsonl", &usual, /* of members with a usual name the first */
          "{\"text\":\"a\",\"text\":\"b\",\"labels\":[\"p\",\"q\"],\"label\":\"r\"}\n", "p,q|a:1;");
}

/* A label keeps its characters, so it shows what a string of JSON stands for; NULL: refused. */
static void test_json_strings(void)
{
    static const struct {
        const char *json, *want;
    } cases[] = {
        { "a\\u0041\\u007a\\u00FF\\u00ff", "aAz\xc3\xbf\xc3\xbf" },
        { "\\u1a9A\\uf0f9", "\xe1\xaa\x9a\xef\x83\xb9" },
        { "\\u00g0", NULL },
        { "\\u00G0", NULL },
        { "\\u00`0", NULL },
        { "\\u00@0", NULL },
        { "\\u00/0", NULL },
        { "\\u00:0", NULL },
        { "\\u004", NULL },
        { "\\q", NULL },
        { "\\u0000", "\xef\xbf\xbd" }, /* what cannot be is a sign of its own */
        { "\\ud7ff\\ue000", "\xed\x9f\xbf\xee\x80\x80" },
        { "\\ud800x", "\xef\xbf\xbdx" },
        { "\\udbffx", "\xef\xbf\xbdx" },
        { "\\udc00x", "\xef\xbf\xbdx" },
        { "\\udfffx", "\xef\xbf\xbdx" },
        { "\\ud800\\udc00", "\xf0\x90\x80\x80" }, /* pairs */
        { "\\ud801\\udc01", "\xf0\x90\x90\x81" },
        { "\\udbff\\udfff", "\xf4\x8f\xbf\xbf" },
        { "\\ud800\\udbff", "\xef\xbf\xbd\xef\xbf\xbd" },
        { "\\ud800\\ue000", "\xef\xbf\xbd\xee\x80\x80" },
        { "\\udc00\\udc00", "\xef\xbf\xbd\xef\xbf\xbd" },
        { "\\ud800\\n", NULL }, /* a label with a line end */
        { "\\/\\\\\\\"", "/\\\"" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200], want[100];
        snprintf(text, sizeof text, "{\"text\":\"t\",\"label\":\"%s\"}\n", cases[i].json);
        snprintf(want, sizeof want, "%s|t:1;", cases[i].want ? cases[i].want : "");
        if (cases[i].want) reads("jsonl", &usual, text, want);
        else refuses("jsonl", &usual, text, WISP_EFORMAT, "t:1: ");
    }
    reads("jsonl", &usual, "{\"text\":\"a\\bb\\fc\\nd\\re\\tf\",\"label\":1}\n",
          "1|a:1 b:1 c:1 d:1 e:1 f:1;");
    reads("jsonl", &usual, "\t {\t\"text\" \r:\t\"a\" ,\t\"label\": 1e5\t}\t\r\n", "1e5|a:1;");
    static const char *const plain[] = { "0", "9", "-0", "-9.5e+3", "1E-9", "true", "false" };
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        char text[100], want[100];
        snprintf(text, sizeof text, "{\"text\":\"a\",\"label\":%s}\n", plain[i]);
        snprintf(want, sizeof want, "%s|a:1;", plain[i]);
        reads("jsonl", &usual, text, want);
    }
    static const char *const none[] = { "",    "-",     "-a", "/1",  "1/",     ":1",  "1:2",
                                        "nul", "nulll", "+1", "0x1", "\x01\"", "'a'", ".5" };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        char text[100];
        snprintf(text, sizeof text, "{\"text\":\"a\",\"label\":%s}\n", none[i]);
        refuses("jsonl", &usual, text, WISP_EFORMAT, "t:1: ");
    }
    refuses("jsonl", &usual, "{\"text\":\"a\x1f\"}\n", WISP_EFORMAT, "without control characters");
}

/* Columns by their numbers: from 1 to a million, as many as may be listed. */
static void test_column_numbers(void)
{
    static const struct {
        const char *text, *label, *want;
    } cases[] = {
        { "1", "3", "z|x:1;" },   { "3,1", "2", "y|x:1 z:1;" }, { "1,2", "3", "z|x:1 y:1;" },
        { "2", "1000000", NULL }, { "2", "4", NULL },           { "0", "3", NULL },
        { "1", "0", NULL },       { "1", "2x", NULL },          { "1;2", "3", NULL },
        { "1000000", "1", NULL }, { "1000001", "1", NULL },     { "4", "1", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wisp_read_options o = usual;
        o.no_header = true;
        strcpy(o.text.text_column, cases[i].text);
        strcpy(o.text.label_column, cases[i].label);
        if (cases[i].want) reads("csv", &o, "x,y,z\n", cases[i].want);
        else {
            struct wisp_data *d;
            wisp_error err = { 0 };
            o.format = "csv";
            wisp_status st = wisp_data_read_text(&d, &one, "x,y,z\n", 6, "t", &o, &err);
            CHECK(st == WISP_EFORMAT || st == WISP_EINVAL, "text %s, label %s: %d", cases[i].text,
                  cases[i].label, st);
            wisp_data_free(d);
        }
    }
}

static void test_bad_jsonl(void)
{
    refuses("jsonl", &usual, "{\"text\":\"a\"}\n{\"label\":\"b\"}\n", WISP_EFORMAT,
            "t:2: no member 'text'");
    refuses("jsonl", &usual, "[1]\n", WISP_EFORMAT, "t:1: '[1]': expected an object");
    refuses("jsonl", &usual, "{\"text\":\"a\"} x\n", WISP_EFORMAT, "nothing after the object");
    refuses("jsonl", &usual, "{\"text\":\"a}\n", WISP_EFORMAT, "ends too early");
    refuses("jsonl", &usual, "{\"text\":\"\\x\"}\n", WISP_EFORMAT, "an escape of JSON");
    refuses("jsonl", &usual, "{\"text\":tru}\n", WISP_EFORMAT, "'tru}': expected a value of JSON");
    refuses("jsonl", &usual, "{\"text\" \"a\"}\n", WISP_EFORMAT, "':' after a member's name");
    refuses("jsonl", &usual, "{\"text\":{\"a\":1}}\n", WISP_EFORMAT, "a string of text");
    refuses("jsonl", &usual, "{\"text\":\"a\",\"label\":\"x\\ty\"}\n", WISP_EFORMAT,
            "a label with a control");
    char deep[300] = "{\"text\":\"a\",\"x\":";
    memset(deep + strlen(deep), '[', 200);
    refuses("jsonl", &usual, deep, WISP_EFORMAT, "lists within lists");
}

static void test_probe(void)
{
    static const struct {
        const char *path, *head, *format;
    } files[] = {
        { "a.csv", "what,ever\n", "csv" },
        { "a.CSV.gz", "1,2 3:4\n", "csv" },
        { "a.tsv", "x\ty\n", "tsv" },
        { "a", "text,label\na,b\n", "csv" },
        { "a", "Label\tid\tText\r\nb\t1\ta\n", "tsv" },
        { "a", "\n {\"a\": 1}\n", "jsonl" },
        { "a", "{}\n", "jsonl" },
        { "a", "1,5 3:0.5\n", "libsvm" },
        { "a", "3 4 5\n", "xc" },
        { "a", "first line\n__label__x second\n", "fasttext" },
        { "a", "text of no label\n", "" },
        { "a", "text,\n", "" },
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const struct wisp_format *f =
            wisp_format_probe(files[i].path, files[i].head, strlen(files[i].head));
        CHECK(strcmp(f ? f->name : "", files[i].format) == 0, "%s: %s is %s", files[i].path,
              files[i].head, f ? f->name : "none");
    }
}

static void test_memory(void)
{
    static const char text[] = "How LONG?long\nagain\0x";
    static const uint64_t start[] = { 0, 9, 9, 19, 21 };
    static const int64_t y_ptr[] = { 0, 2, 2, 3, 3 };
    static const int32_t y_idx[] = { 2, 0, 1 };
    const struct wisp_memory_rows rows = { 4, 3, text, start, y_ptr, y_idx };
    static const size_t chunks[] = { 1 << 20, 1, 9 };
    for (int i = 0; i < 6; i++) {
        struct wisp_data *d;
        wisp_error err = { 0 };
        wisp_text_chunk = chunks[i % 3];
        wisp_status st = wisp_data_read_rows(&d, i < 3 ? &one : &four, &rows, &usual, &err);
        CHECK(st == WISP_OK, "%s", err.text);
        if (st != WISP_OK) continue;
        CHECK(strcmp(show(d), "0,2|how:1 long:1;|;1|long:1 again:1;|x:1;") == 0, "%s", show(d));
        CHECK(d->n_labels == 3 && d->n_rows == 4 && d->text.tokens == WISP_TOKENS_WORDS, "sizes");
        wisp_data_free(d);
    }
    wisp_text_chunk = 4 << 20;
    struct wisp_data *d;
    wisp_error err;
    const struct wisp_memory_rows none = { 0, 0, text, start, NULL, NULL };
    CHECK(wisp_data_read_rows(&d, &one, &none, &usual, &err) == WISP_OK && d->n_rows == 0, "none");
    wisp_data_free(d);
}

/* Rows of n words each, the last of which is a row's own; with line breaks inside where 'breaks'.
 */
static const char *rows_of(size_t n, bool breaks)
{
    static char text[1 << 14];
    size_t at = (size_t)snprintf(text, sizeof text, "text,label\n");
    for (size_t row = 0; row < 8; row++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "\"");
        for (size_t i = 1; i < n; i++)
            at += (size_t)snprintf(text + at, sizeof text - at, "bread%s", breaks ? "\n" : " ");
        at += (size_t)snprintf(text + at, sizeof text - at, "own%zu\",x\n", row);
    }
    return text;
}

static void test_pieces(void)
{
    static const struct {
        size_t words;
        bool breaks;
        int most;
    } cases[] = { { 10, false, 5 }, { 10, true, 5 }, { 30, false, 5 },
                  { 31, false, 0 }, { 31, true, 0 }, { 90, true, 0 } };
    struct wisp_read_options o = { .format = "csv", .text = usual.text };
    o.text.chars_auto = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = rows_of(cases[i].words, cases[i].breaks);
        struct wisp_data *d;
        wisp_error err = { 0 };
        wisp_status st =
            wisp_data_read_text(&d, i % 2 ? &four : &one, text, strlen(text), "t", &o, &err);
        CHECK(st == WISP_OK, "%s", err.text);
        if (st != WISP_OK) continue;
        CHECK(d->text.chars_max == cases[i].most && !d->text.chars_auto, "%zu words: up to %d",
              cases[i].words, d->text.chars_max);
        /* bread, own0 ... own7; of <bread> 12 pieces, of <own?> those that all have: <ow, own, <own
         */
        CHECK(d->vocab.n == (cases[i].most ? 9 + 12 + 3 : 9), "%zu words: %zu features",
              cases[i].words, d->vocab.n);
        wisp_data_free(d);
    }
    const uint64_t start[] = { 0, 9, 18 };
    const struct wisp_memory_rows m = { 2, 0, "two wordsfew words", start, NULL, NULL };
    struct wisp_data *d;
    wisp_error err = { 0 };
    o.format = NULL;
    CHECK(wisp_data_read_rows(&d, &one, &m, &o, &err) == WISP_OK, "%s", err.text);
    CHECK(d && d->text.chars_min == 3 && d->text.chars_max == 5, "in memory");
    wisp_data_free(d);
}

static void test_no_memory(void)
{
    const char text[] = "text,label\n\"a \"\"b\"\" c\",x\nd e,y\n";
    struct wisp_read_options o = usual;
    o.format = "csv";
    o.text.pairs = true;
    o.text.chars_auto = true;
    long live = wisp_mem_live;
    for (long n = 0;; n++) {
        struct wisp_data *d;
        wisp_error err = { 0 };
        wisp_mem_budget = n;
        wisp_status st = wisp_data_read_text(&d, &one, text, sizeof text - 1, "t", &o, &err);
        wisp_mem_budget = -1;
        wisp_data_free(d);
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM && !d && wisp_mem_live == live, "after %ld: %s", n, err.text);
    }
}

int main(void)
{
    wisp_error err;
    CHECK(wisp_pool_create(&four.pool, 4, &err) == WISP_OK, "%s", err.text);
    TEST("tables: csv and tsv");
    test_csv();
    TEST("tables: csv that is none");
    test_bad_csv();
    TEST("tables: json lines");
    test_jsonl();
    TEST("tables: strings and values of JSON");
    test_json_strings();
    TEST("tables: columns by their numbers");
    test_column_numbers();
    TEST("tables: json lines that are none");
    test_bad_jsonl();
    TEST("tables: told by name and first line");
    test_probe();
    TEST("tables: texts in memory");
    test_memory();
    TEST("tables: short texts get pieces of words, long ones do not");
    test_pieces();
    TEST("tables: failing allocations");
    test_no_memory();
    wisp_pool_free(four.pool);
    CHECK(wisp_mem_live == 0, "%ld blocks not freed", (long)wisp_mem_live);
    return test_end();
}

/* Fuzzing the bodies of requests: those of POST /predict, and tensors of the Open Inference protocol. */
#define FUZZ_NAME   "fuzz_request"
#define FUZZ_ERRORS WISP_EFORMAT
#define FUZZ_WORDS                                                                                 \
    "{\"text\":\"a\"}", "\"rows\":[", "\"features\":{", "\"ids\":[1,2]", "\"values\":[1e3,-0.5]",  \
        "\"indptr\":[0,1]", "\"pixels\":[[0,255]]", "\"image\":\"iVBORw0=\"", "\"model\":\"m\"",   \
        "\"k\":3", "\"explain\":true", "\\ud83d\\ude00", "\\u0000", "\xf0\x9f\x98\x80",            \
        "\xed\xa0", "\"inputs\":[", "\"datatype\":\"BYTES\"", "\"shape\":[1,2]", "\"data\":[",     \
        "null", "1e308"
#define FUZZ_MUTANTS 200000
#include "fuzz/rig.h"
#include "serve/base64.c"
#include "serve/json.c"
#include "serve/request.c"
#include "serve/tensors.c"
#include "serve/text.c"

enum { MOST = 50 };

/* What was read hangs together, and took no more memory than the body is worth. */
static void check_request(const struct request *q, size_t n)
{
    const size_t all = q->kind == ROWS_FEATURES ? q->n_entries : q->text.n;
    if (q->kind == ROWS_NONE || q->n_rows > MOST || !q->start || q->start[0] != 0)
        fuzz_die("rows that are none", NULL);
    for (size_t i = 0; i < q->n_rows; i++)
        if (q->start[i] > q->start[i + 1]) fuzz_die("rows that end before they begin", NULL);
    if (q->start[q->n_rows] > all) fuzz_die("rows beyond their end", NULL);
    for (size_t i = 0; i < q->n_entries; i++) {
        const struct entry *e = &q->entries[i];
        if (e->id < 0 && (size_t)e->name + e->bytes > q->names.n) fuzz_die("no name", NULL);
        if (!isfinite(e->value)) fuzz_die("a value that is none", NULL);
    }
    if (q->kind == ROWS_TEXT)
        for (size_t i = 0, bytes; i < q->text.n; i += bytes)
            if (!(bytes = utf8_character(q->text.at + i, q->text.n - i)))
                fuzz_die("a text that is no UTF-8", NULL);
    if (q->how.k > WISP_MOST_K || q->how.threshold > 1) fuzz_die("out of range", NULL);
    const size_t took = q->text.room + q->names.room + q->model.room +
                        q->entries_room * sizeof *q->entries + q->start_room * sizeof *q->start;
    if (took > 4096 + 24 * n) fuzz_die("too much memory", NULL);
}

static wisp_status fuzz_read(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    struct request q;
    struct request_error why = { 0 };
    struct text id = { 0 };
    char *body = malloc(n + 1); /* to the byte, so that reading on is seen */
    memcpy(body, p, n);
    body[n] = 0;
    const bool ok = how & 1 ? tensors_read(&q, &id, body, n, MOST, &why)
                            : request_read(&q, body, n, MOST, &why);
    if (ok) check_request(&q, n);
    else if (why.status != 400 || !*why.text) fuzz_die("no reason", NULL);
    if (!ok) snprintf(err->text, sizeof err->text, "%s", why.text);
    err->code = ok ? WISP_OK : WISP_EFORMAT;
    request_clear(&q);
    text_clear(&id);
    free(body);
    return err->code;
}

static size_t fuzz_seed(uint8_t *to, size_t i)
{
    static const struct fuzz_text_seed seeds[] = {
        SEED(0, "{\"text\":\"how long does bread keep\"}"),
        SEED(0, "{\"text\":[\"a\",\"\\u00e9 \\ud83d\\ude00 \\n\"],\"k\":3,\"threshold\":0.5}"),
        SEED(0, "{\"features\":{\"bread\":1.5,\"17\":-2e-3},\"inference\":\"sparse\",\"scores\":"
                "\"raw\"}"),
        SEED(0, "{\"features\":[\"bread\",17]}"),
        SEED(0, "{\"ids\":[3],\"threshold\":\"model\"}"),
        SEED(0, "{\"ids\":[3],\"threshold\":\"none\"}"),
        SEED(0, "{\"features\":[{\"a\":1},[\"b\"]],\"model\":\"m\"}"),
        SEED(0, "{\"ids\":[3,17],\"values\":[1,2],\"explain\":true}"),
        SEED(0, "{\"indptr\":[0,2,3],\"indices\":[1,2,3],\"data\":[1,1,0.25],\"explain\":7}"),
        SEED(0, "{\"pixels\":[[0,255],[1,2]]}"),
        SEED(0, "{\"image\":\"data:image/png;base64,iVBORw0KGgo=\"}"),
        SEED(0, "{\"rows\":[{\"text\":\"a\"},\"b\",{\"text\":\"\"}]}"),
        SEED(0, "{\"rows\":[{\"ids\":[1],\"values\":[2]},{\"features\":{\"a\":1}}]}"),
        SEED(0, "{\"rows\":[]}"),
        SEED(0, "{\"text\":\"\\ud800\"}"),
        SEED(0, "{\"text\":\"\xff\"}"),
        SEED(0, "{\"ids\":[1e400]}"),
        SEED(0, "{\"ids\":[123456789012345678901234567890]}"),
        SEED(0, "{\"pixels\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["),
        SEED(0, "{\"ids\":[1],\"text\":\"a\"}"),
        SEED(0, "{\"txet\":1}"),
        SEED(0, ""),
        SEED(1, "{\"inputs\":[{\"name\":\"text\",\"datatype\":\"BYTES\",\"shape\":[2],\"data\":["
                "\"a\",\"b\"]}]}"),
        SEED(1, "{\"id\":\"7\",\"parameters\":{\"k\":2},\"inputs\":[{\"name\":\"x\","
                "\"parameters\":{\"x\":[1,{}]},\"datatype\":\"FP32\","
                "\"shape\":[2,2],\"data\":[[0,1],[2,0.5]]}],\"outputs\":[{\"name\":\"labels\"}]}"),
        SEED(1, "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"UINT8\",\"shape\":[1,1,2,2],\"data\":["
                "0,1,2,255]}]}"),
        SEED(1, "{\"inputs\":[{\"name\":\"ids\",\"datatype\":\"INT32\",\"shape\":[1,3],\"data\":[1,"
                "5,-1]},"
                "{\"name\":\"values\",\"datatype\":\"FP32\",\"shape\":[1,3],\"data\":[1,2,0]}]}"),
        SEED(1, "{\"inputs\":[{\"name\":\"indptr\",\"shape\":[2],\"data\":[0,1]},{\"name\":"
                "\"indices\",\"shape\":[1],"
                "\"data\":[4]},{\"name\":\"data\",\"shape\":[1],\"data\":[2]}]}"),
        SEED(1, "{\"inputs\":[{\"shape\":[0],\"data\":[]}]}"),
    };
    return i < sizeof seeds / sizeof *seeds ? fuzz_put(to, seeds[i].how, seeds[i].text, seeds[i].n)
                                            : 0;
}

#ifndef WISP_LIBFUZZER
/* Shares of all sizes, numbers with few digits, and those next to the middle between two. */
static double some_real(size_t i)
{
    static const double tens[] = { 1, 0.1, 0.01, 0.001, 1e-4, 1e-5, 1e-9, 1e3, 1e7, -1 };
    static uint64_t rng = 7;
    const double ten = tens[i / 8 % 10], whole = (double)(test_rand(&rng) % 1000000);
    switch (i % 8) {
    case 0:
        return whole / 1e6 * ten;
    case 1:
        return (whole + 0.5) / 1e6 * ten;
    case 2:
        return nextafter((whole + 0.5) / 1e6 * ten, (double)(i / 80 % 2));
    case 3:
        return (1 - whole * 1e-12) * ten;
    case 4:
        return (float)(whole / 1e6) * ten;
    default:
        return (double)(test_rand(&rng) >> 11) * 0x1p-53 * ten;
    }
}

static void check_real(double x)
{
    char want[32];
    struct text got = { 0 };
    snprintf(want, sizeof want, "%.6g", x);
    text_real(&got, x);
    CHECK(got.n == strlen(want) && memcmp(got.at, want, got.n) == 0, "%.17g: %.*s, not %s", x,
          (int)got.n, got.at, want);
    text_clear(&got);
}

static void fuzz_tests(void)
{
    TEST(FUZZ_NAME ": numbers are those of strtod");
    static const char *const numbers[] = {
        "0",      "-0",    "1",       "0.1",   "123456789012345",
        "1e-5",   "1E+22", "0.30",    "-2.50", "9007199254740993",
        "5e-324", "1e308", "0.000001"
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct json j;
        jread_open(&j, numbers[i], strlen(numbers[i]));
        const double x = jread_number(&j, "a number"), y = strtod(numbers[i], NULL);
        CHECK(memcmp(&x, &y, sizeof x) == 0 && jread_close(&j), "%s: %.17g", numbers[i], x);
    }
    TEST(FUZZ_NAME ": numbers of answers are those of printf");
    for (size_t i = 0; i < 300000 && !test_bad; i++) check_real(some_real(i));
    static const long long wholes[] = {
        0, 1, -1, 9, 10, 99, -100, INT32_MAX, INT64_MAX, INT64_MIN
    };
    for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++) {
        char want[32];
        struct text got = { 0 };
        snprintf(want, sizeof want, "%lld", wholes[i]);
        text_whole(&got, wholes[i]);
        CHECK(got.n == strlen(want) && memcmp(got.at, want, got.n) == 0, "%s: %.*s", want,
              (int)got.n, got.at);
        text_clear(&got);
    }
}
#endif

/* What a request to predict says, read from the bytes of its body. */
#include "serve/request.h"
#include "serve/base64.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct how how_unsaid = { .threshold = -1, .inference = -1, .scores = -1 };

struct reader {
    struct request *q;
    struct json j;
    size_t most_rows;
    size_t n_values; /* of 'values' or 'data' */
    float *values;
    size_t values_room;
    int64_t *ptr; /* of 'indptr' */
    size_t n_ptr, ptr_room;
};

bool request_fail(struct request_error *why, int status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    why->status = status;
    vsnprintf(why->text, sizeof why->text, fmt, ap);
    va_end(ap);
    return false;
}

bool request_end_row(struct request *q)
{
    if (!array_grow(&q->start, q->n_rows + 1, &q->start_room, sizeof *q->start)) return false;
    q->start[0] = 0;
    q->start[++q->n_rows] = q->kind == ROWS_FEATURES ? q->n_entries : q->text.n;
    return true;
}

bool request_add(struct request *q, int32_t id, float value, const char *name, size_t bytes)
{
    if (!array_grow(&q->entries, q->n_entries, &q->entries_room, sizeof *q->entries)) return false;
    struct entry *e = &q->entries[q->n_entries++];
    *e = (struct entry){
        .id = id, .value = value, .name = (uint32_t)q->names.n, .bytes = (uint32_t)bytes
    };
    if (id < 0) text_add(&q->names, name, bytes);
    return !q->names.failed && q->names.n <= UINT32_MAX;
}

/* ---- rows ---- */

static void no_memory(struct reader *r)
{
    jread_fail(&r->j, "out of memory");
}

/* Every row of a request is of one kind. */
static bool is_kind(struct reader *r, enum row_kind kind)
{
    static const char *const names[] = { "", "text", "features", "pixels", "image" };
    struct request *q = r->q;
    if (q->n_rows == r->most_rows) {
        jread_fail(&r->j, "more than %zu rows (--max-rows)", r->most_rows);
        return false;
    }
    if (q->kind == ROWS_NONE) q->kind = kind;
    if (q->kind == kind) return true;
    jread_fail(&r->j, "found '%s' in row %zu, expected '%s' as in the rows before", names[kind],
               q->n_rows, names[q->kind]);
    return false;
}

static void end_row(struct reader *r)
{
    if (!r->j.failed && !request_end_row(r->q)) no_memory(r);
}

static void read_one_text(struct reader *r)
{
    if (!is_kind(r, ROWS_TEXT)) return;
    jread_string(&r->j, &r->q->text, "a text");
    end_row(r);
}

static void read_text(struct reader *r)
{
    if (jread_next(&r->j) != '[') {
        read_one_text(r);
        return;
    }
    jread_enter(&r->j, '[', "texts");
    while (jread_item(&r->j)) read_one_text(r);
}

/* Is the key an id?  Whole numbers up to nine digits are. */
static bool is_id(const char *s, size_t n, int32_t *id)
{
    *id = 0;
    if (n == 0 || n > 9 || (n > 1 && *s == '0')) return false;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9') return false;
        *id = *id * 10 + (s[i] - '0');
    }
    return true;
}

static float read_value(struct json *j)
{
    const double x = jread_number(j, "a value");
    if (fabs(x) <= 3e38) return (float)x;
    jread_fail(j, "found %g, expected a value below 3e38", x);
    return 0;
}

static void add(struct reader *r, int32_t id, float value, const char *name, size_t bytes)
{
    if (!r->j.failed && !request_add(r->q, id, value, name, bytes)) no_memory(r);
}

/* {"name": value} or ["name", id]. A name that looks like an id is first looked up as a name. */
static void read_one_features(struct reader *r)
{
    struct json *j = &r->j;
    const char *key;
    size_t n;
    if (!is_kind(r, ROWS_FEATURES)) return;
    if (jread_next(j) == '[') {
        struct text name = { 0 };
        jread_enter(j, '[', "features");
        while (jread_item(j)) {
            name.n = 0;
            if (jread_next(j) == 'n')
                add(r, (int32_t)jread_whole(j, 0, INT32_MAX - 1, "an id"), 1, NULL, 0);
            else jread_string(j, &name, "the name of a feature, or its id");
            if (name.n) add(r, -1, 1, name.at, name.n);
        }
        text_clear(&name);
    } else if (jread_enter(j, '{', "features: names with values, or a list of names")) {
        while (jread_key(j, &key, &n)) {
            add(r, -1, 1, key, n); /* reading the value may overwrite the key */
            const float value = read_value(j);
            if (!j->failed) r->q->entries[r->q->n_entries - 1].value = value;
        }
    }
    end_row(r);
}

/* An object is one row; a list of objects or lists is several, a list of names one. */
static void read_features(struct reader *r)
{
    const char *p = r->j.at;
    if (jread_next(&r->j) == '[') { /* what does the list begin with? */
        p = r->j.at + 1;
        while (p < r->j.end && strchr(" \t\r\n", *p) && *p) p++;
        if (p < r->j.end && (*p == '{' || *p == '[')) {
            jread_enter(&r->j, '[', "rows of features");
            while (jread_item(&r->j)) read_one_features(r);
            return;
        }
    }
    read_one_features(r);
}

static void read_ids(struct reader *r)
{
    jread_enter(&r->j, '[', "a list of ids");
    while (jread_item(&r->j))
        add(r, (int32_t)jread_whole(&r->j, 0, INT32_MAX - 1, "an id"), 1, NULL, 0);
}

static void read_values(struct reader *r)
{
    jread_enter(&r->j, '[', "a list of values");
    while (jread_item(&r->j)) {
        const float x = read_value(&r->j);
        if (array_grow(&r->values, r->n_values, &r->values_room, sizeof *r->values))
            r->values[r->n_values++] = x;
        else no_memory(r);
    }
}

static void read_indptr(struct reader *r)
{
    jread_enter(&r->j, '[', "a list of offsets");
    while (jread_item(&r->j)) {
        const int64_t at = jread_whole(&r->j, 0, INT64_C(1) << 40, "an offset");
        if (r->j.failed) return;
        if (r->n_ptr > r->most_rows)
            jread_fail(&r->j, "more than %zu rows (--max-rows)", r->most_rows);
        else if (array_grow(&r->ptr, r->n_ptr, &r->ptr_room, sizeof *r->ptr))
            r->ptr[r->n_ptr++] = at;
        else no_memory(r);
    }
}

/* A list of numbers 0..255, which may be nested as numpy has them. */
static void read_pixels(struct reader *r)
{
    struct json *j = &r->j;
    const int outer = j->depth;
    if (!is_kind(r, ROWS_PIXELS) || !jread_enter(j, '[', "a list of pixels")) return;
    while (!j->failed && j->depth > outer) {
        if (!jread_item(j)) continue;
        if (jread_next(j) == '[') {
            jread_enter(j, '[', "pixels");
            continue;
        }
        const char byte = (char)jread_whole(j, 0, 255, "a pixel");
        text_add(&r->q->text, &byte, 1);
    }
    if (r->q->text.failed) no_memory(r);
    end_row(r);
}

static void read_image(struct reader *r)
{
    struct text *t = &r->q->text;
    const size_t from = t->n;
    if (!is_kind(r, ROWS_PICTURES)) return;
    jread_string(&r->j, t, "a PNG or JPEG file as base64");
    if (r->j.failed) return;
    const char *at = t->at ? t->at + from : "";
    size_t n = t->n - from;
    const char *comma = n > 5 && memcmp(at, "data:", 5) == 0 ? memchr(at, ',', n) : NULL;
    if (comma) { /* a data URL, as browsers make them */
        n -= (size_t)(comma + 1 - at);
        at = comma + 1;
    }
    if (n == 0 || !base64_decode(t->at + from, &n, at)) {
        jread_fail(&r->j, "row %zu: 'image' is no base64", r->q->n_rows);
        return;
    }
    t->n = from + n;
    end_row(r);
}

/* ---- objects ---- */

static void read_row(struct reader *r);

static void read_rows(struct reader *r)
{
    jread_enter(&r->j, '[', "a list of rows");
    while (jread_item(&r->j)) {
        if (jread_next(&r->j) == '"') read_one_text(r);
        else read_row(r);
    }
}

static void read_model(struct reader *r)
{
    jread_string(&r->j, &r->q->model, "the name of a model");
    if (r->q->model.n == 0) jread_fail(&r->j, "found an empty text, expected the name of a model");
    if (r->q->model.n > 200) jread_fail(&r->j, "a name of more than 200 bytes");
}

enum { TOP = 1, LATER = 2 }; /* at the top only; the rows end when the object does */
static const struct {
    const char *key;
    void (*read)(struct reader *r);
    int how;
    unsigned group; /* of the ways to say rows, as bits: an object has one of them */
} keys[] = {
    { "text", read_text, 0, 1 },          { "features", read_features, 0, 2 },
    { "pixels", read_pixels, 0, 4 },      { "image", read_image, 0, 8 },
    { "ids", read_ids, LATER, 16 },       { "values", read_values, LATER, 16 },
    { "indices", read_ids, LATER, 32 },   { "data", read_values, LATER, 32 },
    { "indptr", read_indptr, LATER, 32 }, { "rows", read_rows, TOP, 64 },
    { "model", read_model, TOP, 0 },
};
enum { N_KEYS = sizeof keys / sizeof *keys, IDS = 16, CSR = 32 };
static const char ROW_KEYS[] = "text, features, ids, pixels, image";

/* The rows whose ids, values and offsets have been read. */
static void end_lists(struct reader *r, size_t from)
{
    struct request *q = r->q;
    struct json *j = &r->j;
    const size_t n = q->n_entries - from;
    if (j->failed) return;
    if (r->n_values && r->n_values != n)
        jread_fail(j, "found %zu values for %zu ids, expected as many", r->n_values, n);
    for (size_t i = 0; i < r->n_values && !j->failed; i++)
        q->entries[from + i].value = r->values[i];
    if (r->n_ptr == 0) {
        if (is_kind(r, ROWS_FEATURES)) end_row(r);
    } else if (r->ptr[0] != 0 || r->ptr[r->n_ptr - 1] != (int64_t)n) {
        jread_fail(j, "'indptr' goes from %lld to %lld, expected 0 to %zu, the number of ids",
                   (long long)r->ptr[0], (long long)r->ptr[r->n_ptr - 1], n);
    }
    q->n_entries = from; /* rows end where offsets say */
    for (size_t i = 1; i < r->n_ptr && !j->failed; i++) {
        if (r->ptr[i] < r->ptr[i - 1]) jread_fail(j, "'indptr' falls at %zu", i);
        q->n_entries = from + (size_t)r->ptr[i];
        if (is_kind(r, ROWS_FEATURES)) end_row(r);
    }
    if (!j->failed) q->n_entries = from + n;
    r->n_values = r->n_ptr = 0;
}

static void unknown_key(struct reader *r, const char *key, size_t n, bool top)
{
    const char *names[N_KEYS + N_HOW];
    size_t m = 0;
    for (size_t i = 0; i < N_KEYS; i++)
        if (top || !(keys[i].how & TOP)) names[m++] = keys[i].key;
    if (top) {
        request_how_keys(names + m);
        m += N_HOW;
    }
    jread_unknown(&r->j, key, n, names, m);
}

/* Reads one key of an object; false: it is none that rows have. */
static bool read_key(struct reader *r, const char *key, size_t n, bool top, unsigned *seen)
{
    for (size_t i = 0; i < N_KEYS; i++) {
        if (!top && (keys[i].how & TOP)) continue;
        if (!jread_is(&r->j, key, n, keys[i].key, seen, i)) continue;
        if (!r->j.failed) keys[i].read(r);
        return true;
    }
    return false;
}

/* An object says rows in one way; lists become rows at its end. */
static void end_object(struct reader *r, unsigned seen, size_t from, bool top)
{
    unsigned groups = 0;
    for (size_t i = 0; i < N_KEYS; i++)
        if (seen & 1u << i) groups |= keys[i].group;
    if (groups == 0 || (groups & (groups - 1)))
        jread_fail(&r->j, "%s: expected one of %s%s", groups ? "rows are given twice" : "no rows",
                   ROW_KEYS, top ? ", indptr with indices, rows" : "");
    if (groups == IDS || groups == CSR) end_lists(r, from);
}

static void read_row(struct reader *r)
{
    const char *key;
    size_t n;
    const size_t rows = r->q->n_rows, from = r->q->n_entries;
    unsigned seen = 0;
    if (!jread_enter(&r->j, '{', "a row: an object, or a text")) return;
    while (jread_key(&r->j, &key, &n))
        if (!read_key(r, key, n, false, &seen)) unknown_key(r, key, n, false);
    end_object(r, seen, from, false);
    if (!r->j.failed && r->q->n_rows != rows + 1)
        jread_fail(&r->j, "row %zu has %zu rows in it, expected one", rows, r->q->n_rows - rows);
}

static int read_choice(struct json *j, const char *zero, const char *one)
{
    struct text word = { 0 };
    jread_string(j, &word, zero);
    int is = -1;
    const char *const names[] = { zero, one };
    for (int i = 0; i < 2; i++)
        if (word.n == strlen(names[i]) && memcmp(word.at, names[i], word.n) == 0) is = i;
    if (is < 0)
        jread_fail(j, "found '%.*s', expected '%s' or '%s'", text_shown(&word),
                   word.at ? word.at : "", zero, one);
    text_clear(&word);
    return is;
}

/* A number, or "model": the thresholds that the model has for its labels. */
static void read_threshold(struct how *how, struct json *j)
{
    struct text word = { 0 };
    how->threshold = 0;
    if ((how->own = jread_next(j) == '"')) {
        jread_string(j, &word, "a threshold");
        if (word.n != 5 || memcmp(word.at, "model", 5) != 0)
            jread_fail(j, "found '%.*s', expected a threshold in 0..1, or \"model\"",
                       text_shown(&word), word.at ? word.at : "");
        text_clear(&word);
        return;
    }
    how->threshold = jread_number(j, "a threshold in 0..1, or \"model\"");
    if (how->threshold < 0 || how->threshold > 1)
        jread_fail(j, "found %g, expected a threshold in 0..1", how->threshold);
}

static void read_k(struct how *how, struct json *j)
{
    how->k = (size_t)jread_whole(j, 1, WISP_MOST_K, "k");
}
static void read_inference(struct how *how, struct json *j)
{
    how->inference = read_choice(j, "exact", "sparse");
}
static void read_scores(struct how *how, struct json *j)
{
    how->scores = read_choice(j, "calibrated", "raw");
}
static void read_explain(struct how *how, struct json *j)
{
    if (jread_next(j) == 'n') how->explain = (int)jread_whole(j, 0, 100, "features per label");
    else how->explain = jread_bool(j, "true, false or features per label") ? 5 : 0;
}

static const struct {
    const char *key;
    void (*read)(struct how *how, struct json *j);
} words[N_HOW] = { { "k", read_k },
                   { "threshold", read_threshold },
                   { "inference", read_inference },
                   { "scores", read_scores },
                   { "explain", read_explain } };

bool request_how(struct how *how, unsigned *seen, struct json *j, const char *key, size_t n)
{
    for (size_t i = 0; i < N_HOW; i++) {
        if (!jread_is(j, key, n, words[i].key, seen, i)) continue;
        if (!j->failed) words[i].read(how, j);
        return true;
    }
    return false;
}

void request_how_keys(const char *names[N_HOW])
{
    for (size_t i = 0; i < N_HOW; i++) names[i] = words[i].key;
}

bool request_close(struct json *j, struct request_error *why)
{
    return jread_close(j) || request_fail(why, strcmp(j->why, "out of memory") == 0 ? 503 : 400,
                                          "byte %zu: %s", j->where, j->why);
}

bool request_read(struct request *q, const char *bytes, size_t n, size_t most_rows,
                  struct request_error *why)
{
    struct reader r = { .q = q, .most_rows = most_rows };
    const char *key;
    size_t bytes_key;
    unsigned seen = 0, how_seen = 0;
    *q = (struct request){ .how = how_unsaid };
    jread_open(&r.j, bytes, n);
    jread_enter(&r.j, '{', "an object, like {\"text\":\"...\"}");
    while (jread_key(&r.j, &key, &bytes_key))
        if (!read_key(&r, key, bytes_key, true, &seen) &&
            !request_how(&q->how, &how_seen, &r.j, key, bytes_key))
            unknown_key(&r, key, bytes_key, true);
    end_object(&r, seen, 0, true);
    if (!r.j.failed && q->kind == ROWS_NONE) q->kind = ROWS_FEATURES; /* an empty list of rows */
    if (!r.j.failed && !q->start && !array_grow(&q->start, 0, &q->start_room, sizeof *q->start))
        no_memory(&r);
    if (q->start && q->n_rows == 0) q->start[0] = 0;
    free(r.values);
    free(r.ptr);
    return request_close(&r.j, why);
}

void request_clear(struct request *q)
{
    text_clear(&q->model);
    text_clear(&q->text);
    text_clear(&q->names);
    free(q->start);
    free(q->entries);
    free(q->ptr);
    free(q->idx);
    free(q->val);
    *q = (struct request){ 0 };
}

/* ---- rows for a model ---- */

static int by_id(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The id of an entry, or -1. */
static int32_t id_of(const struct request *q, const struct entry *e, const wisp_model *m)
{
    int32_t id = e->id;
    if (id < 0) {
        const char *name = q->names.at + e->name;
        if ((id = wisp_model_feature(m, name, e->bytes)) < 0 && !is_id(name, e->bytes, &id))
            return -1;
    }
    return (size_t)id < wisp_model_n_features(m) ? id : -1;
}

/* One row: ids ascending, equal ones added up, no zeros. */
static size_t tidy(struct request *q, size_t row, size_t at, const wisp_model *m)
{
    struct entry *e = q->entries + q->start[row];
    size_t n = (size_t)(q->start[row + 1] - q->start[row]), known = 0;
    bool sorted = true;
    for (size_t i = 0; i < n; i++) {
        const int32_t id = id_of(q, &e[i], m);
        if (id < 0) {
            q->n_unknown++;
            continue;
        }
        e[known] = e[i];
        e[known].id = id;
        sorted = sorted && (known == 0 || e[known - 1].id < id);
        known++;
    }
    if (!sorted) qsort(e, known, sizeof *e, by_id);
    for (size_t i = 0, end; i < known; i = end) {
        double sum = 0;
        for (end = i; end < known && e[end].id == e[i].id; end++) sum += e[end].value;
        q->idx[at] = e[i].id;
        q->val[at] = (float)sum;
        at += (float)sum != 0 && isfinite((float)sum);
    }
    return at;
}

/* Pixels stay bytes; there must be as many as the model reads. */
static bool check_pixels(const struct request *q, size_t units, struct request_error *why)
{
    if (units == 0)
        return request_fail(why, 400, "found 'pixels', but the model does not read images");
    for (size_t i = 0; i < q->n_rows; i++)
        if (q->start[i + 1] - q->start[i] != units)
            return request_fail(why, 400, "row %zu has %zu pixels, expected %zu", i,
                                (size_t)(q->start[i + 1] - q->start[i]), units);
    return true;
}

bool request_resolve(struct request *q, const wisp_model *m, size_t units,
                     struct request_error *why)
{
    if (q->kind == ROWS_PIXELS) return check_pixels(q, units, why);
    if (q->kind != ROWS_FEATURES) return true;
    q->ptr = malloc((q->n_rows + 1) * sizeof *q->ptr);
    q->idx = malloc((q->n_entries + 1) * sizeof *q->idx);
    q->val = malloc((q->n_entries + 1) * sizeof *q->val);
    if (!q->ptr || !q->idx || !q->val) return request_fail(why, 503, "out of memory for the rows");
    q->ptr[0] = 0;
    for (size_t row = 0; row < q->n_rows; row++)
        q->ptr[row + 1] = (int64_t)tidy(q, row, (size_t)q->ptr[row], m);
    return true;
}

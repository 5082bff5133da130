/* The body of a request of the Open Inference protocol (v2). */
#include "serve/tensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TENSORS = 3, MOST_RANK = 4 };

struct tensor {
    struct text name, type;
    size_t shape[MOST_RANK], rank;
    float *numbers; /* (n), or strings */
    int32_t *whole; /* (n) the same as integers, or -1 */
    size_t n, numbers_room, whole_room;
    struct text strings;
    uint64_t *start; /* (n_strings + 1) */
    size_t n_strings, start_room;
};

struct body {
    struct json j;
    struct request *q;
    struct text *id; /* what the client calls its request */
    struct tensor t[MOST_TENSORS];
    size_t n;
};

/* ---- reading ---- */

typedef void reads_part(struct json *j, struct tensor *t);
typedef void reads_key(struct body *b);

static void read_string(struct json *j, struct tensor *t)
{
    jread_string(j, &t->strings, "a string");
    if (!array_grow(&t->start, t->n_strings + 1, &t->start_room, sizeof *t->start)) {
        jread_fail(j, "out of memory");
        return;
    }
    t->start[0] = 0;
    t->start[++t->n_strings] = t->strings.n;
}

static void read_number(struct json *j, struct tensor *t)
{
    const double x = jread_number(j, "a number");
    if (fabs(x) > 3e38) jread_fail(j, "found %g, expected a number below 3e38", x);
    if (!array_grow(&t->numbers, t->n, &t->numbers_room, sizeof *t->numbers) ||
        !array_grow(&t->whole, t->n, &t->whole_room, sizeof *t->whole)) {
        jread_fail(j, "out of memory");
        return;
    }
    t->numbers[t->n] = (float)x;
    t->whole[t->n++] = x == floor(x) && x >= 0 && x < INT32_MAX ? (int32_t)x : -1;
}

/* Numbers or strings, nested or not. */
static void read_data(struct json *j, struct tensor *t)
{
    const int outer = j->depth;
    jread_enter(j, '[', "a list, the data of a tensor");
    while (!j->failed && j->depth > outer) {
        if (!jread_item(j)) continue;
        if (jread_next(j) == '[') jread_enter(j, '[', "data");
        else if (jread_next(j) == '"') read_string(j, t);
        else read_number(j, t);
    }
    if (t->n && t->n_strings) jread_fail(j, "strings among numbers");
}

static void read_shape(struct json *j, struct tensor *t)
{
    jread_enter(j, '[', "the shape of a tensor");
    while (jread_item(j)) {
        const size_t size = (size_t)jread_whole(j, 0, INT32_MAX, "a size");
        if (t->rank == MOST_RANK) jread_fail(j, "expected a shape of at most %d sizes", MOST_RANK);
        else t->shape[t->rank++] = size;
    }
}

static bool is_key(const char *key, size_t n, const char *name)
{
    return strlen(name) == n && memcmp(key, name, n) == 0;
}

/* Products of sizes are bounded: each is below 2^31, and the data is no longer than the body. */
static void check_tensor(struct json *j, const struct tensor *t)
{
    const size_t n = t->n ? t->n : t->n_strings;
    double wanted = 1;
    for (size_t i = 0; i < t->rank; i++) wanted *= (double)t->shape[i];
    if (t->rank == 0) jread_fail(j, "a tensor without 'shape'");
    else if (wanted != (double)n)
        jread_fail(j, "tensor '%.*s' has %zu values, its shape asks for %.0f", (int)t->name.n,
                   t->name.at ? t->name.at : "", n, wanted);
}

static void read_name(struct json *j, struct tensor *t)
{
    jread_string(j, &t->name, "the name of a tensor");
}

static void read_type(struct json *j, struct tensor *t)
{
    jread_string(j, &t->type, "FP32, INT64, BYTES ...");
}

static void skip_parameters(struct json *j, struct tensor *t)
{
    (void)t;
    jread_skip(j);
}

static void read_tensor(struct body *b)
{
    enum { N = 5 };
    static const char *const names[N] = { "name", "datatype", "shape", "data", "parameters" };
    static reads_part *const reads[N] = { read_name, read_type, read_shape, read_data,
                                          skip_parameters };
    struct json *j = &b->j;
    struct tensor *t = &b->t[b->n];
    const char *key;
    size_t n;
    unsigned seen = 0;
    if (b->n == MOST_TENSORS) {
        jread_fail(j, "expected at most %d inputs", MOST_TENSORS);
        return;
    }
    b->n++;
    jread_enter(j, '{', "a tensor");
    while (jread_key(j, &key, &n)) {
        const int i = jread_which(j, key, n, names, N, &seen);
        if (i >= 0) reads[i](j, t);
    }
    check_tensor(j, t);
}

static void read_inputs(struct body *b)
{
    jread_enter(&b->j, '[', "a list of tensors");
    while (jread_item(&b->j)) read_tensor(b);
}

/* Those of requests, and one that clients of Triton add wherever they would take a binary answer,
 * too: it changes nothing. */
static void read_parameters(struct body *b)
{
    struct json *j = &b->j;
    const char *names[N_HOW + 1] = { [N_HOW] = "binary_data_output" }, *key;
    size_t n;
    unsigned seen = 0;
    request_how_keys(names);
    jread_enter(j, '{', "parameters");
    while (jread_key(j, &key, &n)) {
        if (jread_is(j, key, n, names[N_HOW], &seen, N_HOW)) jread_bool(j, "true or false");
        else if (!request_how(&b->q->how, &seen, j, key, n))
            jread_unknown(j, key, n, names, N_HOW + 1);
        if (b->q->how.explain)
            jread_fail(j, "found 'explain', but tensors have no place for reasons: ask /predict");
    }
}

static void read_id(struct body *b)
{
    jread_string(&b->j, b->id, "the name of the request");
}

static void skip_outputs(struct body *b)
{
    jread_skip(&b->j); /* all are given */
}

static void read_body(struct body *b)
{
    enum { N = 4 };
    static const char *const names[N] = { "inputs", "parameters", "id", "outputs" };
    static reads_key *const reads[N] = { read_inputs, read_parameters, read_id, skip_outputs };
    struct json *j = &b->j;
    const char *key;
    size_t n;
    unsigned seen = 0;
    jread_enter(j, '{', "an object with 'inputs'");
    while (jread_key(j, &key, &n)) {
        const int i = jread_which(j, key, n, names, N, &seen);
        if (i >= 0) reads[i](b);
    }
    if (b->n == 0) jread_fail(j, "no 'inputs'");
}

/* ---- rows ---- */

static struct tensor *tensor_named(struct body *b, const char *name)
{
    for (size_t i = 0; i < b->n; i++)
        if (is_key(b->t[i].name.at ? b->t[i].name.at : "", b->t[i].name.n, name)) return &b->t[i];
    return NULL;
}

static bool no_room(struct request_error *why)
{
    return request_fail(why, 503, "out of memory for the rows");
}

static bool texts(struct request *q, struct tensor *t, struct request_error *why)
{
    q->kind = ROWS_TEXT;
    q->text = t->strings;
    t->strings = (struct text){ 0 };
    q->start = t->start;
    q->n_rows = t->n_strings;
    t->start = NULL;
    return q->start || request_end_row(q) || no_room(why);
}

static bool from_bytes(struct request *q, const struct tensor *t, size_t n_rows,
                       struct request_error *why)
{
    q->kind = ROWS_PIXELS;
    const size_t width = n_rows ? t->n / n_rows : 0;
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t k = i * width; k < (i + 1) * width; k++) {
            if (t->whole[k] < 0 || t->whole[k] > 255)
                return request_fail(why, 400, "row %zu: found %g, expected 0..255 (UINT8)", i,
                                    (double)t->numbers[k]);
            text_add(&q->text, &(char){ (char)t->whole[k] }, 1);
        }
        if (!request_end_row(q) || q->text.failed) return no_room(why);
    }
    return true;
}

static bool dense(struct request *q, const struct tensor *t, size_t n_rows,
                  struct request_error *why)
{
    const size_t width = n_rows ? t->n / n_rows : 0;
    q->kind = ROWS_FEATURES;
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t k = 0; k < width; k++)
            if (t->numbers[i * width + k] != 0 &&
                !request_add(q, (int32_t)k, t->numbers[i * width + k], NULL, 0))
                return no_room(why);
        if (!request_end_row(q)) return no_room(why);
    }
    return true;
}

/* Rows of entries from..to of ids and values; ids below 0 fill up. */
static bool add_row(struct request *q, const struct tensor *ids, const struct tensor *values,
                    size_t from, size_t to, struct request_error *why)
{
    for (size_t k = from; k < to; k++) {
        if (ids->numbers[k] < 0) continue;
        if (ids->whole[k] < 0)
            return request_fail(why, 400, "found %g, expected an id", (double)ids->numbers[k]);
        if (!request_add(q, ids->whole[k], values ? values->numbers[k] : 1, NULL, 0))
            return no_room(why);
    }
    return request_end_row(q) || no_room(why);
}

/* Are these (NULL: not there) all tensors of the body, and the first of them there?  One whose name is
 * not known, or comes again, would count for nothing. */
static bool uses_all(const struct body *b, const struct tensor *const used[MOST_TENSORS],
                     struct request_error *why)
{
    struct text found = { 0 };
    size_t n = 0;
    for (size_t i = 0; i < MOST_TENSORS; i++) n += used[i] != NULL;
    if (used[0] && n == b->n) return true;
    for (size_t i = 0; i < b->n; i++)
        text_print(&found, "%s'%.*s'", i ? " and " : "", text_shown(&b->t[i].name),
                   b->t[i].name.at ? b->t[i].name.at : "");
    request_fail(
        why, 400,
        "found tensors %.*s; expected 'ids' and 'values', or 'indptr', 'indices' and 'data'",
        (int)found.n, found.at ? found.at : "");
    text_clear(&found);
    return false;
}

static bool sparse(struct request *q, struct body *b, size_t n_rows, struct request_error *why)
{
    const struct tensor *ids = tensor_named(b, "ids"), *values = tensor_named(b, "values"),
                        *ptr = tensor_named(b, "indptr");
    if (ptr) {
        ids = tensor_named(b, "indices");
        values = tensor_named(b, "data");
        n_rows = ptr->n ? ptr->n - 1 : 0;
    }
    q->kind = ROWS_FEATURES;
    if (!uses_all(b, (const struct tensor *[]){ ids, values, ptr }, why)) return false;
    if (values && values->n != ids->n)
        return request_fail(why, 400, "found %zu values for %zu ids, expected as many", values->n,
                            ids->n);
    const size_t width = n_rows ? ids->n / n_rows : 0;
    for (size_t i = 0; i < n_rows; i++) {
        size_t from = i * width, to = from + width;
        if (ptr) {
            if (ptr->whole[i] < 0 || ptr->whole[i + 1] < ptr->whole[i] ||
                (size_t)ptr->whole[i + 1] > ids->n || ptr->whole[0] != 0 ||
                (size_t)ptr->whole[n_rows] != ids->n)
                return request_fail(why, 400, "'indptr' at %zu: expected 0 to %zu, rising", i,
                                    ids->n);
            from = (size_t)ptr->whole[i];
            to = (size_t)ptr->whole[i + 1];
        }
        if (!add_row(q, ids, values, from, to, why)) return false;
    }
    return true;
}

static bool make_rows(struct request *q, struct body *b, size_t most_rows,
                      struct request_error *why)
{
    struct tensor *t = &b->t[0], *ptr = tensor_named(b, "indptr");
    const size_t n_rows = ptr ? (ptr->n ? ptr->n - 1 : 0) : t->shape[0];
    if (n_rows > most_rows)
        return request_fail(why, 400, "found %zu rows, expected at most %zu (--max-rows)", n_rows,
                            most_rows);
    const bool lists = b->n > 1 || ptr || tensor_named(b, "ids");
    for (size_t i = 0; i < b->n && lists; i++)
        if (b->t[i].n_strings)
            return request_fail(why, 400,
                                "a tensor of strings beside others, or named 'ids' or 'indptr': "
                                "expected it alone, by another name");
    if (lists) return sparse(q, b, n_rows, why);
    if (t->n_strings || is_key(t->type.at ? t->type.at : "", t->type.n, "BYTES"))
        return texts(q, t, why);
    if (is_key(t->type.at ? t->type.at : "", t->type.n, "UINT8"))
        return from_bytes(q, t, n_rows, why);
    return dense(q, t, n_rows, why);
}

bool tensors_read(struct request *q, struct text *id, const char *bytes_of, size_t n,
                  size_t most_rows, struct request_error *why)
{
    struct body *b = calloc(1, sizeof *b);
    *q = (struct request){ .how = how_unsaid };
    if (!b) return no_room(why);
    b->q = q;
    b->id = id;
    jread_open(&b->j, bytes_of, n);
    read_body(b);
    bool ok = request_close(&b->j, why) && make_rows(q, b, most_rows, why);
    if (ok && !q->start) {
        q->start = calloc(1, sizeof *q->start); /* no rows */
        ok = q->start || no_room(why);
    }
    for (size_t i = 0; i < MOST_TENSORS; i++) {
        text_clear(&b->t[i].name);
        text_clear(&b->t[i].type);
        text_clear(&b->t[i].strings);
        free(b->t[i].numbers);
        free(b->t[i].whole);
        free(b->t[i].start);
    }
    free(b);
    return ok;
}

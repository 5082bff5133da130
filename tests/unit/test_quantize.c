/* Models made smaller: what becomes narrow and how exactly, what stays, what is predicted with it
 * and trained from it, and what is refused, when making one and when loading one. */
#include "model_rig.h"

#include <float.h>
#include <math.h>

static wisp_data *d;
enum { K = 4 };

struct answers {
    int32_t label[6 * K];
    float score[6 * K];
};

static struct answers ask(wisp_context *c, const struct wisp_model *m)
{
    struct answers a;
    memset(&a, 0, sizeof a);
    CHECK(wisp_predict(a.label, a.score, c, m, d, 0, 6, K, &err) == WISP_OK, "%s", err.text);
    return a;
}

static struct wisp_model *load(const char *path)
{
    struct wisp_model *m;
    CHECK(wisp_model_load(&m, path, &err) == WISP_OK, "%s", err.text);
    return m;
}

/* The model by hand at 'path', with a row of zeros, one that is tiny and one that is large. */
static void make(const char *path)
{
    struct wisp_model *m = hand_made(d);
    struct wisp_param *in = &m->net.layers[0].params[0];
    for (size_t c = 0; c < in->cols; c++) {
        in->w[c] = 0;
        in->w[2 * in->cols + c] *= 1e-30f;
        in->w[3 * in->cols + c] *= 1e20f;
    }
    CHECK(wisp_model_save(m, path, 12.5, 2, NULL, &err) == WISP_OK, "%s", err.text);
    wisp_model_free(m);
}

static struct wisp_model *quantized(const char *from, const char *type)
{
    struct wisp_model *m = load(from);
    CHECK(wisp_model_quantize(m, other, type, &err) == WISP_OK, "%s", err.text);
    wisp_model_free(m);
    return load(other);
}

static float widen(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static bool is_wide(int layer, int param, const struct wisp_net *net)
{
    return param == 0 && (layer == 0 || layer == net->n_layers - 1);
}

static void check_int8(const struct wisp_param *p, const struct wisp_param *q)
{
    CHECK(q->i8 && q->scale && !q->w && !q->b16, "%s is not int8", q->name);
    for (size_t r = 0; r < p->rows; r++) {
        float most = 0;
        int top = 0;
        for (size_t c = r * p->cols; c < (r + 1) * p->cols; c++) {
            double x = (double)q->i8[c] * q->scale[r], off = fabs(x - p->w[c]);
            CHECK(off <= 0.5000001 * q->scale[r], "row %zu: %g becomes %g", r, p->w[c], x);
            most = fmaxf(most, fabsf(p->w[c]));
            top = abs(q->i8[c]) > top ? abs(q->i8[c]) : top;
        }
        CHECK(q->scale[r] == most / 127 && top == (most > 0 ? 127 : 0), "row %zu: scale %g, %d", r,
              q->scale[r], top);
    }
}

/* The nearest of the row's values, and the scale is about the best: 1 % more or less is no better. */
static void check_codes(const struct wisp_param *p, const struct wisp_param *q, int bits)
{
    const size_t k = (size_t)1 << bits;
    CHECK(q->codes && q->value && q->scale && q->bits == bits && !q->w && !q->b16 && !q->i8,
          "%s has other types", q->name);
    for (size_t i = 1; i < k; i++) CHECK(q->value[i] >= q->value[i - 1], "value %zu", i);
    for (size_t r = 0; r < p->rows; r++) {
        double left[3] = { 0 }, all = 0;
        for (size_t c = r * p->cols; c < (r + 1) * p->cols; c++) {
            const double have = wisp_param_at(q, c), w = p->w[c];
            double nearest = INFINITY;
            for (int scale = 0; scale < 3; scale++) {
                double least = INFINITY;
                for (size_t i = 0; i < k; i++)
                    least = fmin(least, fabs(w - (0.99 + 0.01 * scale) * (double)q->scale[r] *
                                                     (double)q->value[i]));
                if (scale == 1) nearest = least;
                left[scale] += least * least;
            }
            CHECK(fabs(fabs(w - have) - nearest) <= 1e-6 * fabs(w) + 1e-44,
                  "row %zu: %g becomes %g", r, w, have);
            all += w * w;
        }
        CHECK(left[1] <= 1.1 * left[0] + 1e-80 && left[1] <= 1.1 * left[2] + 1e-80,
              "row %zu: %g is left, %g and %g with other scales", r, left[1], left[0], left[2]);
        CHECK(left[1] <= (bits == 4 ? 0.02 : 0.003) * all, "row %zu: %g of %g is left", r, left[1],
              all);
    }
}

static void check_bf16(const struct wisp_param *p, const struct wisp_param *q)
{
    CHECK(q->b16 && !q->w && !q->i8, "%s is not bf16", q->name);
    for (size_t i = 0; i < p->rows * p->cols; i++)
        CHECK(q->b16[i] == wisp_round16(p->w[i]), "%s [%zu]", q->name, i);
}

/* All tensors but those that became narrow, and all metadata. */
static void check_rest(const struct wisp_model *a, const struct wisp_model *b, const char *type)
{
    size_t same = 0;
    for (size_t i = 0; i < a->file.n_tensors; i++) {
        const struct wisp_tensor *t = &a->file.tensors[i],
                                 *u = wisp_tensor_file_find(&b->file, t->name);
        CHECK(u && t->n_dims == u->n_dims && t->shape[0] == u->shape[0] &&
                  (t->shape[1] == u->shape[1] || (t->dtype != WISP_U8 && u->dtype == WISP_U8)),
              "%s has another shape", t->name);
        same += u && t->dtype == u->dtype && memcmp(t->data, u->data, t->bytes) == 0;
    }
    CHECK(same == a->file.n_tensors - 2, "%zu of %zu tensors stayed", same, a->file.n_tensors);
    CHECK(b->file.n_tensors == a->file.n_tensors + (type[0] == 'c'              ? 4
                                                    : strcmp(type, "int8") == 0 ? 2
                                                                                : 0),
          "%zu tensors", b->file.n_tensors);
    for (size_t i = 0; i < a->file.n_meta; i++) {
        const char *v = wisp_tensor_file_meta(&b->file, a->file.meta[i].key);
        CHECK(v && strcmp(v, a->file.meta[i].value) == 0, "%s", a->file.meta[i].key);
    }
    const char *v = wisp_tensor_file_meta(&b->file, "quantized");
    CHECK(v && strcmp(v, type) == 0 && b->file.n_meta == a->file.n_meta + 1, "quantized: %s",
          v ? v : "not there");
    CHECK(strstr(wisp_model_describe(b), type[0] == 'c'              ? "\"U8\""
                                         : strcmp(type, "int8") == 0 ? "\"I8\""
                                                                     : "\"BF16\""),
          "%s", wisp_model_describe(b));
}

static void test_weights(const char *type)
{
    struct wisp_model *a = load(model), *b = quantized(model, type);
    for (int i = 0; i < a->net.n_layers; i++)
        for (int k = 0; k < a->net.layers[i].n_params; k++) {
            const struct wisp_param *p = &a->net.layers[i].params[k],
                                    *q = &b->net.layers[i].params[k];
            if (!is_wide(i, k, &a->net))
                CHECK(q->w && !memcmp(p->w, q->w, p->rows * p->cols * 4), "%s", p->name);
            else if (strcmp(type, "int8") == 0) check_int8(p, q);
            else if (strcmp(type, "bf16") == 0) check_bf16(p, q);
            else check_codes(p, q, type[1] == '1' ? 4 : 6);
        }
    check_rest(a, b, type);
    wisp_model_free(a);
    wisp_model_free(b);
}

/* ---- use ---- */

/* A model in floats with just the weights that the narrow one has. */
static void save_widened(const struct wisp_model *narrow, const char *path)
{
    struct wisp_model *m = hand_made(d);
    for (int i = 0; i < m->net.n_layers; i++)
        for (int k = 0; k < m->net.layers[i].n_params; k++) {
            struct wisp_param *p = &m->net.layers[i].params[k];
            const struct wisp_param *q = &narrow->net.layers[i].params[k];
            for (size_t at = 0; at < p->rows * p->cols; at++)
                p->w[at] = q->i8      ? (float)q->i8[at] * q->scale[at / p->cols]
                           : q->codes ? wisp_param_at(q, at)
                           : q->b16   ? widen(q->b16[at])
                                      : q->w[at];
        }
    CHECK(wisp_model_save(m, path, 1, 1, NULL, &err) == WISP_OK, "%s", err.text);
    wisp_model_free(m);
}

static void test_predictions(const char *type)
{
    char plain[80];
    snprintf(plain, sizeof plain, "%s/plain", folder);
    struct wisp_model *narrow = quantized(model, type);
    save_widened(narrow, plain);
    struct wisp_model *wide = load(plain);
    for (size_t i = 0; wisp_kernels_isa(i, NULL); i++) {
        setenv("WISP_ISA", wisp_kernels_isa(i, NULL), 1);
        wisp_context *c;
        if (wisp_context_create(&c, 2, NULL) != WISP_OK) continue;
        struct answers a = ask(c, wide), b = ask(c, narrow);
        for (size_t x = 0; x < 6; x++)
            for (size_t y = 0; y < K; y++) { /* h is rounded to bf16 where products take bf16 */
                float tolerance = strcmp(type, "bf16") == 0 ? 0.01f : 1e-5f;
                size_t z = 0;
                while (z < K && b.label[x * K + z] != a.label[x * K + y]) z++;
                CHECK(z < K && fabsf(a.score[x * K + y] - b.score[x * K + z]) <= tolerance,
                      "%s: row %zu, place %zu: %g and %g", c->k->name, x, y, a.score[x * K + y],
                      b.score[x * K + (z < K ? z : 0)]);
            }
        wisp_context_free(c);
    }
    unsetenv("WISP_ISA");
    wisp_model_free(wide);
    wisp_model_free(narrow);
    unlink(plain);
}

/* Training from it starts at its weights: steps too small to move any but those at 0. */
static void test_init(const char *type, const char *rows)
{
    static const char *const options[] = { "optimizer", "sgd",    "lr", "1e-40",   "batch",
                                           "4",         "epochs", "1",  "holdout", "0" };
    char trained[80];
    struct wisp_model *from = quantized(model, type);
    wisp_config *c;
    CHECK(wisp_config_create(&c, &err) == WISP_OK, "%s", err.text);
    for (size_t i = 0; i < sizeof options / sizeof *options; i += 2)
        set(c, options[i], options[i + 1]);
    set(c, "init", other), set(c, "rows", rows);
    snprintf(trained, sizeof trained, "%s/trained", folder);
    wisp_report *r;
    CHECK(wisp_train(&r, ctx, c, d, NULL, trained, NULL, NULL, &err) == WISP_OK, "%s", err.text);
    wisp_report_free(r);
    wisp_config_free(c);
    struct wisp_model *to = load(trained);
    for (int i = 0; i < from->net.n_layers; i += from->net.n_layers - 1) {
        const struct wisp_param *p = &from->net.layers[i].params[0],
                                *q = &to->net.layers[i].params[0];
        for (size_t at = 0; at < p->rows * p->cols; at++) {
            float want = p->i8      ? (float)p->i8[at] * p->scale[at / p->cols]
                         : p->codes ? wisp_param_at(p, at)
                                    : widen(p->b16[at]);
            if (strcmp(rows, "bf16") == 0) want = widen(wisp_round16(want));
            float have = q->b16 ? widen(q->b16[at]) : q->w[at];
            CHECK(fabsf(have - want) < 1e-36f, "%s from %s [%zu]: %a, not %a", rows, type, at, have,
                  want);
        }
        CHECK(!q->b16 == (strcmp(rows, "fp32") == 0), "%s is not %s", q->name, rows);
    }
    wisp_model_free(from);
    wisp_model_free(to);
    unlink(trained);
}

/* ---- what is refused ---- */

static void refuse(const char *from, const char *type, wisp_status want, const char *text)
{
    struct wisp_model *m = load(from);
    char none[80];
    snprintf(none, sizeof none, "%s/none", folder);
    wisp_status st = wisp_model_quantize(m, none, type, &err);
    CHECK(st == want && strstr(err.text, text), "%s: %d, '%s'", type, st, err.text);
    CHECK(access(none, F_OK) != 0, "%s was written", none);
    wisp_model_free(m);
}

static void test_twice(void)
{
    struct wisp_model *half = quantized(model, "bf16"), *byte;
    refuse(other, "bf16", WISP_EINVAL, "'0.input.weight' is BF16 already");
    byte = quantized(other, "int8"); /* over the file that is mapped */
    for (int i = 0; i < half->net.n_layers; i += half->net.n_layers - 1) {
        const struct wisp_param *p = &half->net.layers[i].params[0],
                                *q = &byte->net.layers[i].params[0];
        for (size_t at = 0; at < p->rows * p->cols; at++)
            CHECK(fabsf(widen(p->b16[at]) - (float)q->i8[at] * q->scale[at / p->cols]) <=
                      0.500001f * q->scale[at / p->cols],
                  "[%zu]", at);
    }
    const char *v = wisp_tensor_file_meta(&byte->file, "quantized");
    CHECK(v && strcmp(v, "int8") == 0 && byte->file.n_meta == half->file.n_meta, "metadata");
    refuse(other, "bf16", WISP_EINVAL, "is I8 already");
    refuse(other, "int8", WISP_EINVAL, "is I8 already");
    refuse(model, "int4", WISP_EINVAL, "'int4' is not bf16, int8, c64 or c16");
    wisp_model_free(quantized(other, "c64")); /* from int8, and on */
    refuse(other, "c64", WISP_EINVAL, "is c64 already");
    refuse(other, "int8", WISP_EINVAL, "is c64 already");
    wisp_model_free(quantized(other, "c16"));
    refuse(other, "c64", WISP_EINVAL, "is c16 already");
    wisp_model_free(half);
    wisp_model_free(byte);
}

static void test_numbers(void)
{
    const float odd[] = { NAN, INFINITY, -INFINITY, FLT_MAX };
    for (size_t i = 0; i < 4; i++) {
        struct wisp_model *m = hand_made(d);
        m->net.layers[m->net.n_layers - 1].params[0].w[9 + 5] = odd[i]; /* 9 columns */
        CHECK(wisp_model_save(m, other, 1, 1, NULL, &err) == WISP_OK, "%s", err.text);
        wisp_model_free(m);
        if (i == 3) refuse(other, "bf16", WISP_ENUMERIC, "at row 1, column 5: bf16 cannot");
        else
            CHECK(wisp_model_load(&m, other, &err) == WISP_EMODEL &&
                      strstr(err.text, i ? "'5.output.weight' is inf in row 1"
                                         : "'5.output.weight' is nan in row 1"),
                  "%s", err.text);
    }
    char large[80];
    snprintf(large, sizeof large, "%s/large", folder);
    CHECK(rename(other, large) == 0, "%s", large);
    static const char *const scaled[] = { "int8", "c64", "c16" };
    for (size_t i = 0; i < 3; i++) { /* FLT_MAX is held by a scale */
        struct wisp_model *m = quantized(large, scaled[i]);
        const float x = wisp_param_at(&m->net.layers[m->net.n_layers - 1].params[0], 9 + 5);
        CHECK(x > 0.9f * FLT_MAX && isfinite(x), "%s: %g", scaled[i], x);
        wisp_model_free(m);
    }
    unlink(large);
    for (float tiny = 0x1p-149f; tiny < 0x1p-140f;
         tiny *= 1.5f) { /* scales that are coarse, or 0 */
        struct wisp_model *m = hand_made(d);
        struct wisp_param *p = &m->net.layers[0].params[0];
        for (size_t c = 0; c < p->cols; c++) p->w[c] = c % 2 ? tiny : -tiny;
        CHECK(wisp_model_save(m, other, 1, 1, NULL, &err) == WISP_OK, "%s", err.text);
        wisp_model_free(m);
        m = quantized(other, "int8");
        p = &m->net.layers[0].params[0];
        for (size_t c = 0; c < p->cols; c++)
            CHECK(fabsf((float)p->i8[c] * p->scale[0] - (c % 2 ? tiny : -tiny)) < 0x1p-142f,
                  "%a becomes %d * %a", tiny, p->i8[c], p->scale[0]);
        wisp_model_free(m);
    }
}

/* Weights of one column: a scale for each would be more than the weight. */
static void test_nothing(void)
{
    struct wisp_model *m = hand_made(d);
    struct wisp_layer_sizes sizes = { .batch = 16 };
    wisp_net_clear(&m->net);
    wisp_free(m->spec);
    m->spec = wisp_strdup("input 1, relu");
    CHECK(wisp_net_plan(&m->net, m->spec, d->n_features, d->n_labels, &sizes, &err) == WISP_OK &&
              wisp_net_alloc_params(&m->net, &err) == WISP_OK &&
              wisp_model_save(m, other, 1, 1, NULL, &err) == WISP_OK,
          "%s", err.text);
    wisp_model_free(m);
    refuse(other, "int8", WISP_EINVAL, "more than one column");
}

static void test_memory(const char *type)
{
    struct wisp_model *m = load(model);
    long live = wisp_mem_live, n = 0;
    size_t files = n_files();
    for (;; n++) {
        wisp_mem_budget = n;
        wisp_status st = wisp_model_quantize(m, model, type, &err); /* where it lies itself */
        wisp_mem_budget = -1;
        CHECK(wisp_mem_live == live && n_files() == files, "after %ld: %ld blocks left, %zu files",
              n, (long)wisp_mem_live - live, n_files());
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM, "after %ld: %s", n, err.text);
    }
    CHECK(n > 4, "%ld allocations", n);
    wisp_model_free(m);
    wisp_model_free(load(model));
    make(model);
}

struct fault {
    const char *what, *tensor, *text;
    enum { MISSING, AS_I8, AS_BF16, AS_U8, SHORTER, FLAT, SQUARE, PUT } how;
    float value;
};
static const struct fault of_int8[] = {
    { "no scale", "0.input.weight.scale", "'0.input.weight.scale' is missing", MISSING, 0 },
    { "no scale", "5.output.weight.scale", "'5.output.weight.scale' is missing", MISSING, 0 },
    { "a scale too few", "0.input.weight.scale", "shape than F32 10: it is F32 9", SHORTER, 0 },
    { "scales in rows", "0.input.weight.scale", "shape than F32 10: it is F32 10 x 1", SQUARE, 0 },
    { "scales of bytes", "0.input.weight.scale", "shape than F32 10: it is I8 40", AS_I8, 0 },
    { "scales of halves", "0.input.weight.scale", "than F32 10: it is BF16 20", AS_BF16, 0 },
    { "NaN", "0.input.weight.scale", "scale' is nan in row 4, expected a number", PUT, NAN },
    { "-NaN", "5.output.weight.scale", "nan in row", PUT, -NAN },
    { "infinity", "0.input.weight.scale", "scale' is inf in row 4", PUT, INFINITY },
    { "below 0", "0.input.weight.scale", "scale' is -0.5 in row 4", PUT, -0.5f },
    { "a row too few", "0.input.weight", "than I8 10 x 13: it is I8 9 x 13", SHORTER, 0 },
    { "no rows", "0.input.weight", "than I8 10 x 13: it is I8 130", FLAT, 0 },
    { "unsigned", "0.input.weight", "'0.input.weight.value' is missing", AS_U8, 0 },
    { "an int8 bias", "5.output.bias", "than F32 4 x 1: it is I8 4 x 4", AS_I8, 0 },
    { "a bf16 bias", "5.output.bias", "than F32 4 x 1: it is BF16 4 x 2", AS_BF16, 0 },
    { "int8 between", "3.dense.weight", "than F32 13 x 9: it is I8 13 x 36", AS_I8, 0 },
    { "bf16 between", "3.dense.weight", "than F32 13 x 9: it is BF16 13 x 18", AS_BF16, 0 },
    { 0 },
};
static const struct fault of_codes[] = {
    { "no scale", "0.input.weight.scale", "'0.input.weight.scale' is missing", MISSING, 0 },
    { "no values", "5.output.weight.value", "'5.output.weight.value' is missing", MISSING, 0 },
    { "a value too few", "0.input.weight.value", "than F32 16: it is F32 15", SHORTER, 0 },
    { "values of bytes", "0.input.weight.value", "than F32 16: it is I8 64", AS_I8, 0 },
    { "a value above 1", "0.input.weight.value", "value' is 1.5 at 4, expected a", PUT, 1.5f },
    { "a value below -1", "5.output.weight.value", "value' is -2 at 4, expected", PUT, -2 },
    { "NaN", "0.input.weight.value", "value' is nan in row 4", PUT, NAN },
    { "below 0", "0.input.weight.scale", "scale' is -0.5 in row 4", PUT, -0.5f },
    { "a row too few", "0.input.weight", "than U8 10 x 16: it is U8 9 x 16", SHORTER, 0 },
    { "no rows", "0.input.weight", "than U8 10 x 16: it is U8 160", FLAT, 0 },
    { "signed", "0.input.weight", "than I8 10 x 13: it is I8 10 x 16", AS_I8, 0 },
    { "codes between", "3.dense.weight", "than F32 13 x 9: it is U8 13 x 36", AS_U8, 0 },
    { 0 },
};

/* The same bytes called something else; 'copy' holds what must be changed. */
static void spoil(struct wisp_tensor *t, const struct fault *f, float *copy)
{
    static const enum wisp_dtype as[] = {
        [AS_I8] = WISP_I8, [AS_BF16] = WISP_BF16, [AS_U8] = WISP_U8
    };
    size_t size = wisp_dtypes[t->dtype].bytes;
    if (f->how == SHORTER) {
        t->shape[0]--, t->bytes -= size * t->shape[1];
    } else if (f->how == FLAT) {
        t->n_dims = 1, t->shape[0] *= t->shape[1];
    } else if (f->how == SQUARE) {
        t->n_dims = 2, t->shape[1] = 1;
    } else if (f->how == PUT) {
        memcpy(copy, t->data, t->bytes);
        copy[t->shape[0] > 4 ? 4 : 1] = f->value;
        t->data = copy;
    } else {
        t->dtype = as[f->how];
        t->shape[t->n_dims - 1] *= size / wisp_dtypes[t->dtype].bytes;
    }
}

static void test_crafted(const char *type, const struct fault *faults)
{
    struct wisp_model *m = quantized(model, type), *bad;
    const struct wisp_tensor_file *file = &m->file;
    struct wisp_tensor t[40];
    float copy[64];
    CHECK(d->n_features == 10 && d->n_labels == 4, "%zu features, %zu labels", d->n_features,
          d->n_labels);
    for (size_t i = 0; i == 0 || faults[i - 1].what; i++) {
        const struct fault *f = i ? &faults[i - 1] : NULL; /* first without a fault */
        size_t n = 0, found = 0;
        for (size_t k = 0; k < file->n_tensors; k++) {
            bool it = f && strcmp(file->tensors[k].name, f->tensor) == 0;
            found += it;
            if (it && f->how == MISSING) continue;
            t[n] = file->tensors[k];
            if (it) spoil(&t[n], f, copy);
            n++;
        }
        CHECK(!f || found == 1, "no tensor '%s'", f->tensor);
        CHECK(wisp_tensor_file_write(other, t, n, file->meta, file->n_meta, NULL, &err) == WISP_OK,
              "%s", err.text);
        wisp_status st = wisp_model_load(&bad, other, &err);
        if (!f) CHECK(st == WISP_OK, "%s", err.text);
        else
            CHECK(st == WISP_EMODEL && !bad && strstr(err.text, f->text) && strstr(err.text, other),
                  "%s: %d, '%s'", f->what, st, err.text);
        wisp_model_free(bad);
    }
    wisp_model_free(m);
}

static void test_kinds(void)
{
    static const struct {
        const char *text, *kind;
    } files[] = { { "2 3 2\n0 0:1\n1 1:1 2:1\n", "xc" }, { "1 1:1 2:1\n", "libsvm" },
                  { "__label__a b c\n", "fasttext" },    { "", "" },
                  { "\x1f\x8b cut archive", "" },        { "{a: 1} and so on", "" } };
    const char *kind;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        put_file(other, files[i].text);
        CHECK(wisp_file_kind(&kind, other, &err) == WISP_OK && strcmp(kind, files[i].kind) == 0,
              "'%s' is '%s'", files[i].text, kind);
    }
    CHECK(wisp_file_kind(&kind, model, &err) == WISP_OK && strcmp(kind, "model") == 0, "%s", kind);
    CHECK(wisp_file_kind(&kind, "none", &err) == WISP_EIO && !*kind, "%s", err.text);
}

int main(void)
{
    rig_init();
    d = words();
    make(model);
    TEST("int8: the nearest of 255 multiples of the row's scale; all else stays");
    test_weights("int8");
    TEST("bf16: rounded to nearest; all else stays");
    test_weights("bf16");
    TEST("c64, c16: the nearest of the layer's values times the row's scale; all else stays");
    test_weights("c64");
    test_weights("c16");
    TEST("predictions are those of the widened weights, every instruction set");
    test_predictions("int8");
    test_predictions("bf16");
    test_predictions("c64");
    test_predictions("c16");
    TEST("training starts from narrow weights");
    test_init("int8", "fp32"), test_init("int8", "bf16");
    test_init("bf16", "fp32"), test_init("bf16", "bf16");
    test_init("c64", "fp32"), test_init("c16", "bf16");
    TEST("bf16 to int8, and what is narrow already");
    test_twice();
    TEST("numbers that cannot be held, and the smallest ones");
    test_numbers();
    TEST("nothing to make smaller");
    test_nothing();
    TEST("memory runs out: nothing is left, the old file stays");
    test_memory("int8");
    test_memory("c16");
    TEST("crafted files are refused with a reason");
    test_crafted("int8", of_int8);
    test_crafted("c16", of_codes);
    TEST("what a file is");
    test_kinds();
    wisp_data_free(d);
    return rig_end();
}

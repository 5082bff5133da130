/* Models to and from their file.
 *
 * Tensors: every declared parameter under its name, beside one of I8 "NAME.scale" (F32), beside one of
 * U8 (numbers of values, packed: kernels/codes.h) also "NAME.value" (F32, 16 or 64); fixed
 * connections "N.KIND.inputs" (I32: ids of the inputs of each output, ascending), with
 * "N.KIND.start" (I64: where those of an output begin) if not all have as many; "labels", "vocab"
 * and "stop_words" (U8, lines); "idf" (F32), or "mean" and "scale" (F32); "label_rows" (I64);
 * "votes.start" (I64), "votes.label" (I32), "votes.weight" (F32); "calibration.exact",
 * "calibration.sparse" (F32: struct wisp_calibration).  Metadata: what is listed in save();
 * "quantized" (quantize.c). */
#include "model/model.h"
#include "model/about.h"
#include "model/known.h"
#include "base/mem.h"
#include "data/image.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char FORMAT[] = "wisp-model 1";
static const uint64_t MOST_ROWS = (uint64_t)1 << 48; /* of training; doubles hold them exactly */

void wisp_model_free(struct wisp_model *m)
{
    if (!m) return;
    wisp_net_clear(&m->net);
    wisp_names_clear(&m->labels);
    wisp_names_clear(&m->vocab);
    wisp_names_clear(&m->stop);
    wisp_lookup_clear(&m->find_word);
    wisp_lookup_clear(&m->find_label);
    wisp_lookup_clear(&m->find_stop);
    if (!m->file.map.p) wisp_votes_clear(&m->votes); /* else it lies in the file */
    wisp_tensor_file_close(&m->file);
    wisp_free(m->spec);
    wisp_free(m->idf);
    wisp_free(m->columns);
    wisp_free(m->counts);
    wisp_free(m->options);
    wisp_free(m->about);
    wisp_free(m->describe);
    wisp_free(m);
}

/* By m->named. */
static const char *const named_sides[] = { "none", "labels", "features", "labels and features" };
static const char *const calibrations[WISP_N_WAYS] = { "calibration.exact", "calibration.sparse" };

const struct wisp_calibration *wisp_model_calibration(const struct wisp_model *m, bool sparse)
{
    const struct wisp_calibration *c = m->calibration[sparse ? WISP_SPARSE : WISP_EXACT];
    return !c || wisp_calibration_is_raw(c) ? NULL : c;
}

/* ---- saving ---- */

struct list {
    struct wisp_tensor *t;
    size_t n, cap;
    bool full; /* out of memory: asked for once, at the end */
};

static void add_shape(struct list *l, const char *name, enum wisp_dtype dtype, int rank,
                      const size_t *dim, const void *data)
{
    if (l->full || !wisp_grow(&l->t, l->n, &l->cap, sizeof *l->t)) {
        l->full = true;
        return;
    }
    struct wisp_tensor *t = &l->t[l->n++];
    *t = (struct wisp_tensor){ .dtype = dtype, .n_dims = rank, .data = data };
    memcpy(t->shape, dim, (size_t)rank * sizeof *dim);
    wisp_tensor_size(&t->bytes, dtype, rank, dim);
    snprintf(t->name, sizeof t->name, "%s", name);
}

static void add(struct list *l, const char *name, enum wisp_dtype dtype, size_t n, const void *data)
{
    add_shape(l, name, dtype, 1, &n, data);
}

/* Numbers, or the connections, which come after all numbers. */
static void add_params(struct list *l, const struct wisp_params *params, bool fixed)
{
    for (size_t i = 0; i < params->n; i++) {
        const struct wisp_param *p = &params->p[i];
        const bool starts = p->role == WISP_STARTS;
        if ((p->role == WISP_FIXED || starts) != fixed) continue;
        if (starts) add_shape(l, p->name, WISP_I64, p->rank, p->dim, p->start);
        else if (fixed) add_shape(l, p->name, WISP_I32, p->rank, p->dim, p->ids);
        else if (p->b16) add_shape(l, p->name, WISP_BF16, p->rank, p->dim, p->b16);
        else add_shape(l, p->name, WISP_F32, p->rank, p->dim, p->w);
    }
}

/* The tensors of a model, in the order of its file. */
static void add_all(struct list *l, const struct wisp_model *m)
{
    add_params(l, &m->net.list, false);
    add_params(l, &m->net.list, true);
    add(l, "label_rows", WISP_I64, m->net.n_labels, m->label_rows);
    if (m->values.mode == WISP_VALUES_TFIDF)
        add(l, "idf", WISP_F32, m->net.n_features, m->values.idf);
    if (m->values.mode == WISP_VALUES_STANDARD) {
        add(l, "mean", WISP_F32, m->net.n_features, m->values.mean);
        add(l, "scale", WISP_F32, m->net.n_features, m->values.scale);
    }
    if (m->votes.start) {
        const struct wisp_votes *v = &m->votes;
        size_t n = (size_t)v->start[v->n_features];
        add(l, "votes.start", WISP_I64, v->n_features + 1, v->start);
        add(l, "votes.label", WISP_I32, n, v->label);
        add(l, "votes.weight", WISP_F32, n, v->weight);
    }
    for (int i = 0; i < WISP_N_WAYS; i++)
        if (m->calibration[i])
            add(l, calibrations[i], WISP_F32, WISP_CALIBRATION_FLOATS, m->calibration[i]);
    if (m->labels.n) add(l, "labels", WISP_U8, m->labels.bytes, m->labels.text);
    if (m->vocab.n) add(l, "vocab", WISP_U8, m->vocab.bytes, m->vocab.text);
    if (m->stop.n) add(l, "stop_words", WISP_U8, m->stop.bytes, m->stop.text);
}

wisp_status wisp_model_save(struct wisp_model *m, const char *path, double best, int epoch,
                            char *check, wisp_error *err)
{
    struct list l = { 0 };
    char number[5][32], chars[16], image[WISP_IMAGE_TEXT];
    add_all(&l, m);
    wisp_image_text(image, wisp_net_images(&m->net));
    wisp_chars_print(chars, &m->how);
    snprintf(number[0], 32, "%zu", m->net.n_features);
    snprintf(number[1], 32, "%zu", m->net.n_labels);
    snprintf(number[2], 32, "%zu", m->n_train);
    wisp_print(number[3], 32, "%.6f", best);
    snprintf(number[4], 32, "%d", epoch);
    const struct wisp_pair meta[] = {
        { "format", FORMAT },
        { "engine", "wisp " WISP_VERSION },
        { "net", m->spec },
        { "loss", m->loss->name },
        { "values", wisp_values_name(m->values.mode) },
        { "input", m->how.pairs ? "words and pairs"
                   : m->text    ? "words"
                                : "ids" },
        { "tokens", wisp_tokens_name(m->how.tokens) },
        { "chars", chars },
        { "text_column", m->how.text_column },
        { "label_column", m->how.label_column },
        { "label_separator", m->how.label_separator },
        { "ids_by_name", named_sides[m->named & 3] },
        { "data_format", m->format ? m->format->name : "memory" },
        { "index_base", m->index_base ? "1" : "0" },
        { "features", number[0] },
        { "labels", number[1] },
        { "train_rows", number[2] },
        { "valid_p@1", number[3] },
        { "epoch", number[4] },
        { "card", m->about ? m->about : "" },
        { "validation", m->validation },
        { "options", m->options ? m->options : "" },
        { "image", image }, /* only where the net reads images */
    };
    const size_t n_meta = sizeof meta / sizeof *meta - !wisp_net_image(&m->net);
    wisp_status st = l.full ? wisp_fail_mem(err, l.n * sizeof *l.t, "the list of tensors")
                            : wisp_tensor_file_write(path, l.t, l.n, meta, n_meta, check, err);
    wisp_free(l.t);
    return st;
}

/* ---- loading ---- */

struct loader {
    struct wisp_model *m;
    const struct wisp_tensor_file *file;
    const char *path;
};

/* Where a tensor that is not finite is not. */
static wisp_status no_number(const struct loader *ld, const struct wisp_tensor *t, wisp_error *err)
{
    const bool half = t->dtype == WISP_BF16;
    size_t i = 0;
    while (half ? wisp_finite16((const uint16_t *)t->data + i, 1)
                : wisp_finite((const float *)t->data + i, 1))
        i++;
    size_t row = i;
    for (int d = 1; d < t->n_dims; d++) row /= t->shape[d];
    bool nan = half ? ((const uint16_t *)t->data)[i] & 0x7f : isnan(((const float *)t->data)[i]);
    return wisp_fail_at(err, WISP_EMODEL, ld->path, 0, "'%s' is %s in row %zu, expected a number",
                        t->name, nan ? "nan" : "inf", row);
}

static wisp_status need_shape(const struct wisp_tensor **out, const struct loader *ld,
                              const char *name, enum wisp_dtype dtype, int n_dims,
                              const size_t *shape, wisp_error *err)
{
    const struct wisp_tensor *t = *out = wisp_tensor_file_find(ld->file, name);
    char want[WISP_TENSOR_TEXT], have[WISP_TENSOR_TEXT];
    if (!t) return wisp_fail_at(err, WISP_EMODEL, ld->path, 0, "tensor '%s' is missing", name);
    if (t->dtype != dtype || t->n_dims != n_dims ||
        memcmp(t->shape, shape, (size_t)n_dims * sizeof *shape) != 0)
        return wisp_fail_at(err, WISP_EMODEL, ld->path, 0,
                            "tensor '%s' has another type or shape than %s: it is %s", name,
                            wisp_tensor_text(want, dtype, n_dims, shape),
                            wisp_tensor_text(have, t->dtype, t->n_dims, t->shape));
    return t->finite ? WISP_OK : no_number(ld, t, err);
}

static wisp_status need(const struct wisp_tensor **out, const struct loader *ld, const char *name,
                        enum wisp_dtype dtype, size_t n, wisp_error *err)
{
    return need_shape(out, ld, name, dtype, 1, &n, err);
}

/* Weights of values or rows: not below 0. */
static wisp_status expect_from_0(const struct loader *ld, const char *name, const float *x,
                                 size_t n, wisp_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] < 0)
            return wisp_fail_at(err, WISP_EMODEL, ld->path, 0,
                                "'%s' is %g in row %zu, expected a number from 0", name, x[i], i);
    return WISP_OK;
}

/* The scales of the rows of an int8 parameter, or of one of codes. */
static wisp_status map_scale(struct wisp_param *p, const struct loader *ld, wisp_error *err)
{
    char name[WISP_NAME_BYTES];
    const struct wisp_tensor *t;
    snprintf(name, sizeof name, "%s.scale", p->name);
    wisp_status st = need(&t, ld, name, WISP_F32, p->rows, err);
    if (st != WISP_OK) return st;
    p->scale = (float *)t->data;
    return expect_from_0(ld, name, p->scale, p->rows, err);
}

/* Numbers of values, which any bytes are, and the values: 16 or 64, so that no weight is more than its
 * row's scale. */
static wisp_status map_codes(struct wisp_param *p, const struct loader *ld, wisp_error *err)
{
    char name[WISP_NAME_BYTES];
    const struct wisp_tensor *t;
    snprintf(name, sizeof name, "%s.value", p->name);
    const struct wisp_tensor *values = wisp_tensor_file_find(&ld->m->file, name);
    p->bits = values && values->bytes == 4 * wisp_codes_values(6) ? 6 : 4;
    wisp_status st = need(&values, ld, name, WISP_F32, wisp_codes_values(p->bits), err);
    if (st != WISP_OK) return st;
    const size_t shape[] = { p->rows, wisp_codes_bytes(p->bits, p->cols) };
    if ((st = need_shape(&t, ld, p->name, WISP_U8, 2, shape, err)) != WISP_OK) return st;
    p->codes = (uint8_t *)t->data;
    p->value = (float *)values->data;
    for (size_t i = 0; i < wisp_codes_values(p->bits); i++)
        if (!(p->value[i] >= -1 && p->value[i] <= 1))
            return wisp_fail_at(err, WISP_EMODEL, ld->path, 0,
                                "'%s' is %g at %zu, expected a number from -1 to 1", name,
                                p->value[i], i);
    return map_scale(p, ld, err);
}

/* Fixed connections: ids that ascend in each row, within the layer's inputs. */
static wisp_status map_ids(struct wisp_param *p, const struct loader *ld, wisp_error *err)
{
    const struct wisp_tensor *t;
    wisp_status st = need_shape(&t, ld, p->name, WISP_I32, p->rank, p->dim, err);
    if (st != WISP_OK) return st;
    p->ids = (int32_t *)t->data;
    size_t row, n, bad = wisp_param_bad_id(p, &row);
    if (bad == wisp_param_n(p)) return WISP_OK;
    int32_t before = bad > wisp_param_row(p, row, &n) ? p->ids[bad - 1] : -1;
    return wisp_fail_at(err, WISP_EMODEL, ld->path, 0,
                        "'%s' has input %d after %d at output %zu, expected ascending ids below "
                        "%zu",
                        p->name, p->ids[bad], before, row, p->below);
}

/* Where rows of different lengths begin: known.c has looked at them. */
static wisp_status map_starts(struct wisp_params *list, const struct loader *ld, wisp_error *err)
{
    const struct wisp_tensor *t;
    wisp_status st = WISP_OK;
    for (size_t i = 0; i < list->n && st == WISP_OK; i++) {
        struct wisp_param *p = &list->p[i];
        if (p->role != WISP_STARTS) continue;
        st = need_shape(&t, ld, p->name, WISP_I64, p->rank, p->dim, err);
        if (st == WISP_OK) p->start = (int64_t *)t->data;
    }
    wisp_params_join(list);
    return st;
}

/* Read-only memory: only forward passes use it. */
static wisp_status map_param(struct wisp_param *p, const struct loader *ld, wisp_error *err)
{
    if (p->role == WISP_FIXED) return map_ids(p, ld, err);
    if (p->role == WISP_STARTS) return WISP_OK; /* before all others */
    const struct wisp_tensor *t = wisp_tensor_file_find(&ld->m->file, p->name);
    if (t && p->narrow && t->dtype == WISP_U8) return map_codes(p, ld, err);
    bool narrow = t && p->narrow && (t->dtype == WISP_BF16 || t->dtype == WISP_I8);
    wisp_status st =
        need_shape(&t, ld, p->name, narrow ? t->dtype : WISP_F32, p->rank, p->dim, err);
    if (st != WISP_OK) return st;
    if (t->dtype == WISP_F32) p->w = (float *)t->data;
    else if (t->dtype == WISP_BF16) p->b16 = (uint16_t *)t->data;
    else p->i8 = (int8_t *)t->data;
    return p->i8 ? map_scale(p, ld, err) : WISP_OK;
}

static wisp_status load_names(struct wisp_names *n, const struct loader *ld, const char *name,
                              size_t expected, wisp_error *err)
{
    const struct wisp_tensor *t = wisp_tensor_file_find(&ld->m->file, name);
    if (!t) return WISP_OK;
    wisp_status st = need(&t, ld, name, WISP_U8, t->bytes, err);
    if (st == WISP_OK) st = wisp_names_init(n, (char *)t->data, t->bytes, true, err);
    if (st == WISP_OK && n->n != expected)
        st = wisp_fail_at(err, WISP_EMODEL, ld->path, 0, "'%s' has %zu names for %zu ids", name,
                          n->n, expected);
    return st;
}

/* The index for sparse prediction, if there is one; every offset and label must be in range. */
static wisp_status load_votes(const struct loader *ld, wisp_error *err)
{
    struct wisp_model *m = ld->m;
    const struct wisp_tensor *start, *label, *weight;
    if (!wisp_tensor_file_find(&m->file, "votes.start") &&
        !wisp_tensor_file_find(&m->file, "votes.label") &&
        !wisp_tensor_file_find(&m->file, "votes.weight"))
        return WISP_OK;
    size_t n_features = m->net.n_features, n;
    wisp_status st = need(&start, ld, "votes.start", WISP_I64, n_features + 1, err);
    if (st != WISP_OK) return st;
    const int64_t *at = start->data;
    bool ok = at[0] == 0;
    for (size_t f = 0; ok && f < n_features; f++) ok = at[f + 1] >= at[f];
    n = ok ? (size_t)at[n_features] : 0;
    if (ok && ((st = need(&label, ld, "votes.label", WISP_I32, n, err)) != WISP_OK ||
               (st = need(&weight, ld, "votes.weight", WISP_F32, n, err)) != WISP_OK))
        return st;
    for (size_t i = 0; ok && i < n; i++) {
        int32_t l = ((const int32_t *)label->data)[i];
        ok = l >= 0 && (size_t)l < m->net.n_labels;
    }
    if (!ok)
        return wisp_fail_at(err, WISP_EMODEL, ld->path, 0,
                            "the index ('votes') has offsets or labels out of "
                            "range");
    m->votes = (struct wisp_votes){ n_features, (int64_t *)start->data, (int32_t *)label->data,
                                    (float *)weight->data };
    return WISP_OK;
}

wisp_status wisp_model_copy_calibration(struct wisp_model *m, const struct wisp_tensor_file *f,
                                        const char *path, wisp_error *err)
{
    const struct loader ld = { m, f, path };
    for (int i = 0; i < WISP_N_WAYS; i++) {
        const struct wisp_tensor *t;
        if (!wisp_tensor_file_find(f, calibrations[i])) continue;
        wisp_status st = need(&t, &ld, calibrations[i], WISP_F32, WISP_CALIBRATION_FLOATS, err);
        if (st != WISP_OK) return st;
        if (!wisp_calibration_ok(t->data))
            return wisp_fail_at(err, WISP_EMODEL, path, 0,
                                "'%s' has numbers out of range, expected 4 weights, of which the "
                                "first two are not negative, and 2 percentages",
                                calibrations[i]);
        memcpy(&m->fitted[i], t->data, sizeof m->fitted[i]);
        m->calibration[i] = &m->fitted[i];
    }
    return WISP_OK;
}

/* A whole number of the metadata, up to 'most'; one that is missing is 0. */
static wisp_status number(size_t *out, const struct loader *ld, const char *key, uint64_t most,
                          wisp_error *err)
{
    const char *s = wisp_tensor_file_meta(&ld->m->file, key);
    *out = 0;
    for (; s && *s >= '0' && *s <= '9' && *out <= most; s++)
        *out = 10 * *out + (size_t)(*s - '0'); /* 'most' is far from overflowing */
    if (!s || (!*s && *out <= most)) return WISP_OK;
    return wisp_fail_at(err, WISP_EMODEL, ld->path, 0,
                        "metadata '%s' is '%.40s', expected 0 to %llu", key,
                        wisp_tensor_file_meta(&ld->m->file, key), (unsigned long long)most);
}

/* How often each label occurs: in some of the training rows. */
static wisp_status load_counts(const struct loader *ld, wisp_error *err)
{
    struct wisp_model *m = ld->m;
    const struct wisp_tensor *t;
    wisp_status st = need(&t, ld, "label_rows", WISP_I64, m->net.n_labels, err);
    if (st != WISP_OK) return st;
    m->label_rows = t->data;
    int64_t sum = 0;
    for (size_t l = 0; l < m->net.n_labels; l++)
        if (m->label_rows[l] < 0 || (uint64_t)m->label_rows[l] > m->n_train ||
            __builtin_add_overflow(sum, m->label_rows[l], &sum))
            return wisp_fail_at(err, WISP_EMODEL, ld->path, 0,
                                "'label_rows' has %lld rows of label %zu, expected 0 to %zu, the "
                                "training rows",
                                (long long)m->label_rows[l], l, m->n_train);
    return WISP_OK;
}

/* What values become with: idf, or means and scales of columns. */
static wisp_status load_values(const struct loader *ld, wisp_error *err)
{
    struct wisp_model *m = ld->m;
    size_t n = m->net.n_features;
    struct {
        enum wisp_values_mode mode;
        const char *name;
        const float **to;
        bool from_0;
    } const parts[] = { { WISP_VALUES_TFIDF, "idf", &m->values.idf, true },
                        { WISP_VALUES_STANDARD, "mean", &m->values.mean, false },
                        { WISP_VALUES_STANDARD, "scale", &m->values.scale, true } };
    wisp_status st = WISP_OK;
    for (size_t i = 0; st == WISP_OK && i < sizeof parts / sizeof *parts; i++) {
        const struct wisp_tensor *t;
        if (parts[i].mode != m->values.mode) continue;
        st = need(&t, ld, parts[i].name, WISP_F32, n, err);
        if (st == WISP_OK) *parts[i].to = t->data;
        if (st == WISP_OK && parts[i].from_0)
            st = expect_from_0(ld, parts[i].name, t->data, n, err);
    }
    return st;
}

/* Metadata as text of bounded length; where it is missing (an older file), as it stands. */
static bool copy_meta(char *to, size_t room, const struct wisp_tensor_file *f, const char *key)
{
    const char *s = wisp_tensor_file_meta(f, key);
    if (s && strlen(s) >= room) return false;
    if (s) snprintf(to, room, "%s", s);
    return true;
}

/* How text becomes features.  Models of before 0.2 say nothing: they were cut at blanks. */
static bool load_how(struct wisp_text_how *how, const struct wisp_tensor_file *f)
{
    const char *tokens = wisp_tensor_file_meta(f, "tokens"),
               *chars = wisp_tensor_file_meta(f, "chars");
    return (!tokens || wisp_tokens_find(&how->tokens, tokens)) &&
           (!chars || wisp_chars_read(how, chars)) &&
           copy_meta(how->text_column, sizeof how->text_column, f, "text_column") &&
           copy_meta(how->label_column, sizeof how->label_column, f, "label_column") &&
           copy_meta(how->label_separator, sizeof how->label_separator, f, "label_separator");
}

/* What rows are images of; all 0 where nothing is said. */
static bool load_image(struct wisp_image *out, const struct wisp_tensor_file *f, size_t n_features)
{
    const char *text = wisp_tensor_file_meta(f, "image");
    *out = (struct wisp_image){ 0 };
    if (!text) return true;
    return wisp_image_read(out, text) && out->channels && out->height && out->width &&
           out->height <= n_features / out->channels / out->width;
}

/* Indexes of words and names, made once, so that a line of text costs what it holds. */
static wisp_status load_words(const struct loader *ld, wisp_error *err)
{
    struct wisp_model *m = ld->m;
    const struct wisp_tensor *stop = wisp_tensor_file_find(&m->file, "stop_words");
    wisp_status st = WISP_OK;
    if (stop) st = wisp_names_init(&m->stop, (char *)stop->data, stop->bytes, true, err);
    if (st == WISP_OK && m->stop.n) st = wisp_lookup_init(&m->find_stop, &m->stop, err);
    if (st == WISP_OK) st = wisp_lookup_init(&m->find_word, &m->vocab, err);
    return st == WISP_OK ? wisp_lookup_init(&m->find_label, &m->labels, err) : st;
}

static wisp_status load_meta(const struct loader *ld, wisp_error *err)
{
    struct wisp_model *m = ld->m;
    const struct wisp_tensor_file *f = &m->file;
    const char *format = wisp_tensor_file_meta(f, "format"),
               *loss = wisp_tensor_file_meta(f, "loss"),
               *values = wisp_tensor_file_meta(f, "values"),
               *data = wisp_tensor_file_meta(f, "data_format");
    size_t base;
    if (!format || strcmp(format, FORMAT) != 0)
        return wisp_fail_at(err, WISP_EMODEL, ld->path, 0, "expected a '%s' file, found '%s'",
                            FORMAT, format ? format : "no format");
    if (!wisp_tensor_file_meta(f, "net") || !loss || !values || !(m->loss = wisp_loss_find(loss)) ||
        !wisp_values_find(&m->values.mode, values))
        return wisp_fail_at(err, WISP_EMODEL, ld->path, 0,
                            "metadata 'net', 'loss' or 'values' is missing or unknown");
    m->format = data ? wisp_format_find(data) : NULL;
    wisp_status st = number(&base, ld, "index_base", 1, err);
    m->index_base = (int)base;
    return st == WISP_OK ? number(&m->n_train, ld, "train_rows", MOST_ROWS, err) : st;
}

/* What it says of its run and of text. */
static wisp_status load_texts(const struct loader *ld, wisp_error *err)
{
    struct wisp_model *m = ld->m;
    const struct wisp_tensor_file *f = &m->file;
    const char *spec = wisp_tensor_file_meta(f, "net"),
               *options = wisp_tensor_file_meta(f, "options"),
               *about = wisp_tensor_file_meta(f, "card"),
               *validation = wisp_tensor_file_meta(f, "validation"),
               *input = wisp_tensor_file_meta(f, "input"),
               *named = wisp_tensor_file_meta(f, "ids_by_name");
    for (unsigned i = 0; i < 4 && named; i++)
        if (strcmp(named, named_sides[i]) == 0) m->named = i;
    m->how.pairs = input && strcmp(input, "words and pairs") == 0;
    m->text = m->how.pairs || (input && strcmp(input, "words") == 0);
    if (!load_how(&m->how, f))
        return wisp_fail_at(err, WISP_EMODEL, ld->path, 0,
                            "metadata 'tokens', 'chars' or columns of tables: "
                            "unknown, or too long");
    m->spec = wisp_strdup(spec);
    m->options = wisp_strdup(options ? options : "");
    m->about = wisp_strdup(about ? about : "");
    snprintf(m->validation, sizeof m->validation, "%s", validation ? validation : "");
    return m->spec && m->options && m->about ? WISP_OK
                                             : wisp_fail_mem(err, strlen(spec), "a model");
}

static wisp_status load_net(const struct loader *ld, wisp_error *err)
{
    struct wisp_model *m = ld->m;
    const struct wisp_file_known known = wisp_file_known(&m->file, true);
    wisp_error why = { 0 };
    size_t n_features, n_labels;
    struct wisp_image image;
    wisp_status st = number(&n_features, ld, "features", INT32_MAX + 1ull, err);
    if (st == WISP_OK) st = number(&n_labels, ld, "labels", INT32_MAX + 1ull, err);
    if (st != WISP_OK) return st;
    if (!load_image(&image, &m->file, n_features))
        return wisp_fail_at(err, WISP_EMODEL, ld->path, 0,
                            "metadata 'image' is not 'CHANNELS x HEIGHT x WIDTH' of the features");
    struct wisp_layer_sizes sizes = { .batch = WISP_SCORE_BATCH,
                                      .known = &known.known,
                                      .image = wisp_image_shape(image),
                                      .loss = m->loss,
                                      .loss_by = "the loss in the metadata" };
    st = wisp_net_plan_text(&m->net, m->spec, "net", n_features, n_labels, &sizes, &why);
    if (st == WISP_ENOMEM) return wisp_fail_as(err, st, &why);
    if (st != WISP_OK) return wisp_fail_at(err, WISP_EMODEL, ld->path, 0, "%.400s", why.text);
    st = map_starts(&m->net.list, ld, err);
    for (size_t i = 0; i < m->net.list.n && st == WISP_OK; i++)
        st = map_param(&m->net.list.p[i], ld, err);
    return st;
}

static wisp_status load(const struct loader *ld, wisp_error *err)
{
    struct wisp_model *m = ld->m;
    wisp_status st;
    if ((st = load_meta(ld, err)) != WISP_OK || (st = load_texts(ld, err)) != WISP_OK ||
        (st = load_net(ld, err)) != WISP_OK || (st = load_counts(ld, err)) != WISP_OK ||
        (st = load_values(ld, err)) != WISP_OK || (st = load_votes(ld, err)) != WISP_OK ||
        (st = wisp_model_copy_calibration(m, &m->file, ld->path, err)) != WISP_OK ||
        (st = load_names(&m->labels, ld, "labels", m->net.n_labels, err)) != WISP_OK ||
        (st = load_names(&m->vocab, ld, "vocab", m->net.n_features, err)) != WISP_OK)
        return st;
    return m->text || m->named ? load_words(ld, err) : WISP_OK;
}

wisp_status wisp_model_open(struct wisp_model **out, struct wisp_pool *pool, const char *path,
                            wisp_error *err)
{
    struct wisp_tensor_file file;
    *out = NULL;
    wisp_status st = wisp_tensor_file_open(&file, pool, path, err);
    return st == WISP_OK ? wisp_model_of_file(out, &file, path, err) : st;
}

wisp_status wisp_model_of_file(struct wisp_model **out, struct wisp_tensor_file *file,
                               const char *path, wisp_error *err)
{
    *out = NULL;
    struct wisp_model *m = wisp_zalloc(1, sizeof *m);
    if (!m) {
        wisp_tensor_file_close(file);
        return wisp_fail_mem(err, sizeof *m, "a model");
    }
    m->file = *file;
    struct loader ld = { m, &m->file, path };
    wisp_status st = load(&ld, err);
    if (st == WISP_OK) st = wisp_about_describe(m, path, err);
    if (st != WISP_OK) {
        wisp_model_free(m);
        return st;
    }
    *out = m;
    return WISP_OK;
}

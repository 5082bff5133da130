/* Models to and from their file.
 *
 * Tensors: every declared parameter under its name, beside one of I8 "NAME.scale" (F32), beside one of
 * U8 (numbers of values, packed: kernels/codes.h) also "NAME.value" (F32, 16 or 64); fixed
 * connections "N.KIND.inputs" (I32: ids of the inputs of each output, ascending), with
 * "N.KIND.start" (I64: where those of an output begin) if not all have as many; "labels", "vocab"
 * and "stop_words" (U8, lines); "idf" (F32), or "mean" and "scale" (F32); "label_rows" (I64);
 * "votes.start" (I64), "votes.label" (I32), "votes.weight" (F32); "calibration.exact",
 * "calibration.sparse" (F32: struct wisp_calibration); "threshold" (F32, one per label).  Metadata: what is listed in save();
 * "quantized" (quantize.c), "threshold" (api/threshold.c). */
#include "model/about.h"
#include "model/kind.h"
#include "base/mem.h"
#include "data/image.h"
#include "base/text.h"
#include "model/threshold.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char FORMAT[] = "wisp-model 1";
enum { N_META = 24 };                                /* of any model */
static const uint64_t MOST_ROWS = (uint64_t)1 << 48; /* of training; doubles hold them exactly */

void wisp_model_free(struct wisp_model *m)
{
    if (!m) return;
    wisp_kind_of(m)->clear(m);
    wisp_names_clear(&m->labels);
    wisp_names_clear(&m->vocab);
    wisp_names_clear(&m->stop);
    wisp_lookup_clear(&m->find_word);
    wisp_lookup_clear(&m->find_label);
    wisp_lookup_clear(&m->find_stop);
    for (int i = 0; i < 2; i++) {
        struct wisp_lookup *l = atomic_load(&m->find_later[i]);
        if (l) wisp_lookup_clear(l);
        wisp_free(l);
    }
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

/* Scores of labels that a member has named are those of exact prediction. */
const struct wisp_calibration *wisp_model_calibration(const struct wisp_model *m, bool sparse)
{
    const bool others = sparse && wisp_model_guide(m) == WISP_GUIDE_VOTES;
    const struct wisp_calibration *c = m->calibration[others ? WISP_SPARSE : WISP_EXACT];
    return !c || wisp_calibration_is_raw(c) ? NULL : c;
}

/* ---- saving ---- */

/* The tensors of a model, in the order of its file. */
static void add_all(struct wisp_tensor_list *l, const struct wisp_model *m)
{
    wisp_kind_of(m)->list(l, m);
    wisp_list_add(l, "label_rows", WISP_I64, m->net.n_labels, m->label_rows);
    if (m->values.mode == WISP_VALUES_TFIDF)
        wisp_list_add(l, "idf", WISP_F32, m->net.n_features, m->values.idf);
    if (m->values.mode == WISP_VALUES_STANDARD) {
        wisp_list_add(l, "mean", WISP_F32, m->net.n_features, m->values.mean);
        wisp_list_add(l, "scale", WISP_F32, m->net.n_features, m->values.scale);
    }
    if (m->votes.start) {
        const struct wisp_votes *v = &m->votes;
        size_t n = (size_t)v->start[v->n_features];
        wisp_list_add(l, "votes.start", WISP_I64, v->n_features + 1, v->start);
        wisp_list_add(l, "votes.label", WISP_I32, n, v->label);
        wisp_list_add(l, "votes.weight", WISP_F32, n, v->weight);
    }
    wisp_list_calibrations(l, m);
    if (m->threshold) wisp_list_add(l, "threshold", WISP_F32, m->net.n_labels, m->threshold);
    if (m->labels.n) wisp_list_add(l, "labels", WISP_U8, m->labels.bytes, m->labels.text);
    if (m->vocab.n) wisp_list_add(l, "vocab", WISP_U8, m->vocab.bytes, m->vocab.text);
    if (m->stop.n) wisp_list_add(l, "stop_words", WISP_U8, m->stop.bytes, m->stop.text);
}

wisp_status wisp_model_save(struct wisp_model *m, const char *path, double best, int epoch,
                            char *check, wisp_error *err)
{
    struct wisp_tensor_list l = { .prefix = "", .comm = m->comm };
    char number[5][32], chars[16], image[WISP_IMAGE_TEXT];
    add_all(&l, m);
    wisp_image_text(image, wisp_net_images(&m->net));
    wisp_chars_print(chars, &m->how);
    snprintf(number[0], 32, "%zu", m->net.n_features);
    snprintf(number[1], 32, "%zu", m->net.n_labels);
    snprintf(number[2], 32, "%zu", m->n_train);
    wisp_print(number[3], 32, "%.6f", best);
    snprintf(number[4], 32, "%d", epoch);
    struct wisp_pair meta[N_META + WISP_KIND_META] = {
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
        { "header", m->how.no_header ? "no" : "yes" }, /* of tables */
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
    const struct wisp_model_kind *kind = wisp_kind_of(m);
    size_t n_meta = (size_t)N_META - !wisp_net_image(&m->net);
    if (kind->meta) n_meta += kind->meta(meta + n_meta, m);
    const bool writes = !m->copies || m->copies->rank == 0;
    wisp_status st = WISP_OK;
    if (l.full) st = wisp_fail_mem(err, l.n * sizeof *l.t, "the list of tensors");
    else if (writes) st = wisp_tensor_file_write(path, l.t, l.n, meta, n_meta, check, err);
    wisp_free(l.t);
    if (m->copies) st = wisp_comm_agree(m->copies, st, err);
    if (m->copies && st == WISP_OK && check) st = m->copies->spread(check, 33, 0, err);
    return st;
}

/* ---- loading ---- */

static wisp_status load_names(struct wisp_names *n, const struct wisp_loader *ld, const char *name,
                              size_t expected, wisp_error *err)
{
    const struct wisp_tensor *t = wisp_loader_find(ld, name);
    if (!t) return WISP_OK;
    wisp_status st = wisp_need(&t, ld, name, WISP_U8, t->bytes, err);
    if (st == WISP_OK) st = wisp_names_init(n, (char *)t->data, t->bytes, true, err);
    if (st == WISP_OK && n->n != expected)
        st = wisp_fail_at(err, WISP_EMODEL, ld->path, 0, "'%s' has %zu names for %zu ids", name,
                          n->n, expected);
    return st;
}

/* The index for sparse prediction, if there is one; every offset and label must be in range. */
static wisp_status load_votes(const struct wisp_loader *ld, wisp_error *err)
{
    struct wisp_model *m = ld->m;
    const struct wisp_tensor *start, *label, *weight;
    if (!wisp_tensor_file_find(&m->file, "votes.start") &&
        !wisp_tensor_file_find(&m->file, "votes.label") &&
        !wisp_tensor_file_find(&m->file, "votes.weight"))
        return WISP_OK;
    size_t n_features = m->net.n_features, n;
    wisp_status st = wisp_need(&start, ld, "votes.start", WISP_I64, n_features + 1, err);
    if (st != WISP_OK) return st;
    const int64_t *at = start->data;
    bool ok = at[0] == 0;
    for (size_t f = 0; ok && f < n_features; f++) ok = at[f + 1] >= at[f];
    n = ok ? (size_t)at[n_features] : 0;
    if (ok && ((st = wisp_need(&label, ld, "votes.label", WISP_I32, n, err)) != WISP_OK ||
               (st = wisp_need(&weight, ld, "votes.weight", WISP_F32, n, err)) != WISP_OK))
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
    const struct wisp_loader ld = { m, f, path, "" };
    return wisp_loader_calibrations(&ld, err);
}

/* How often each label occurs: in some of the training rows. */
static wisp_status load_counts(const struct wisp_loader *ld, wisp_error *err)
{
    struct wisp_model *m = ld->m;
    const struct wisp_tensor *t;
    wisp_status st = wisp_need(&t, ld, "label_rows", WISP_I64, m->net.n_labels, err);
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
static wisp_status load_values(const struct wisp_loader *ld, wisp_error *err)
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
        st = wisp_need(&t, ld, parts[i].name, WISP_F32, n, err);
        if (st == WISP_OK) *parts[i].to = t->data;
        if (st == WISP_OK && parts[i].from_0)
            st = wisp_expect_from_0(ld, parts[i].name, t->data, n, err);
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
               *chars = wisp_tensor_file_meta(f, "chars"),
               *header = wisp_tensor_file_meta(f, "header");
    how->no_header = header && strcmp(header, "no") == 0;
    return (!header || how->no_header || strcmp(header, "yes") == 0) &&
           (!tokens || wisp_tokens_find(&how->tokens, tokens)) &&
           (!chars || wisp_chars_read(how, chars)) &&
           copy_meta(how->text_column, sizeof how->text_column, f, "text_column") &&
           copy_meta(how->label_column, sizeof how->label_column, f, "label_column") &&
           copy_meta(how->label_separator, sizeof how->label_separator, f, "label_separator");
}

/* Indexes of words and names, made once, so that a line of text costs what it holds. */
static wisp_status load_words(const struct wisp_loader *ld, wisp_error *err)
{
    struct wisp_model *m = ld->m;
    const struct wisp_tensor *stop = wisp_tensor_file_find(&m->file, "stop_words");
    wisp_status st = WISP_OK;
    if (stop) st = wisp_names_init(&m->stop, (char *)stop->data, stop->bytes, true, err);
    if (st == WISP_OK && m->stop.n) st = wisp_lookup_init(&m->find_stop, &m->stop, err);
    if (st == WISP_OK) st = wisp_lookup_init(&m->find_word, &m->vocab, err);
    return st == WISP_OK ? wisp_lookup_init(&m->find_label, &m->labels, err) : st;
}

static wisp_status load_meta(const struct wisp_loader *ld, wisp_error *err)
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
    wisp_status st = wisp_need_number(&base, ld, "index_base", 1, err);
    m->index_base = (int)base;
    return st == WISP_OK ? wisp_need_number(&m->n_train, ld, "train_rows", MOST_ROWS, err) : st;
}

/* What it says of its run and of text. */
static wisp_status load_texts(const struct wisp_loader *ld, wisp_error *err)
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

/* What kind it is, and of how many features and labels. */
static wisp_status load_sizes(const struct wisp_loader *ld, wisp_error *err)
{
    struct wisp_model *m = ld->m;
    wisp_status st = wisp_need_number(&m->net.n_features, ld, "features", INT32_MAX + 1ull, err);
    m->kind = wisp_kind_of_text(m->spec);
    return st == WISP_OK ? wisp_need_number(&m->net.n_labels, ld, "labels", INT32_MAX + 1ull, err)
                         : st;
}

/* Scores, or what says that a label is never given. */
static wisp_status load_thresholds(const struct wisp_loader *ld, wisp_error *err)
{
    const struct wisp_tensor *t;
    const size_t n = ld->m->net.n_labels;
    size_t bad;
    if (!wisp_loader_find(ld, "threshold")) return WISP_OK;
    wisp_status st = wisp_need(&t, ld, "threshold", WISP_F32, n, err);
    if (st != WISP_OK) return st;
    ld->m->threshold = t->data;
    if (wisp_thresholds_ok(t->data, n, &bad)) return WISP_OK;
    return wisp_fail_at(
        err, WISP_EMODEL, ld->path, 0,
        "'threshold' is %g of label %zu, expected a number from 0 to 1, or 2: never",
        (double)ld->m->threshold[bad], bad);
}

static wisp_status load(const struct wisp_loader *ld, wisp_error *err)
{
    struct wisp_model *m = ld->m;
    wisp_status st;
    if ((st = load_meta(ld, err)) != WISP_OK || (st = load_texts(ld, err)) != WISP_OK ||
        (st = load_sizes(ld, err)) != WISP_OK || (st = wisp_kind_of(m)->load(ld, err)) != WISP_OK ||
        (st = load_counts(ld, err)) != WISP_OK || (st = load_values(ld, err)) != WISP_OK ||
        (st = load_votes(ld, err)) != WISP_OK ||
        (st = wisp_loader_calibrations(ld, err)) != WISP_OK ||
        (st = load_thresholds(ld, err)) != WISP_OK ||
        (st = load_names(&m->labels, ld, "labels", m->net.n_labels, err)) != WISP_OK ||
        (st = load_names(&m->vocab, ld, "vocab", m->net.n_features, err)) != WISP_OK)
        return st;
    if (m->kind->whole && (st = m->kind->whole(ld, err)) != WISP_OK) return st;
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
    struct wisp_loader ld = { m, &m->file, path, "" };
    wisp_status st = load(&ld, err);
    if (st == WISP_OK) st = wisp_about_describe(m, path, err);
    if (st != WISP_OK) {
        wisp_model_free(m);
        return st;
    }
    *out = m;
    return WISP_OK;
}

/* What a model says of itself: what the run chose (not what was asked for), on which
 * data, and how good it was.  Kept as metadata "card" and "validation", lines "key=value"; in the
 * description (wisp_model_describe) they are objects, with numbers as numbers.
 *
 * The same run gives the same bytes, so nothing here depends on the clock, the machine's threads or
 * where a cache lies; when a model was made is when its file was written, and the description has
 * that from the file. */
#include "model/about.h"
#include "model/kind.h"
#include "model/linear_run.h"
#include "base/mem.h"
#include "base/text.h"
#include "layer/product.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <xxhash.h>

/* ---- the data ---- */

enum { SOME = 256 };

static void hash_number(XXH3_state_t *h, uint32_t n)
{
    XXH3_64bits_update(h, &n, sizeof n);
}

/* Features of a row as ids of 32 bits and floats, whatever the block has. */
static void hash_features(XXH3_state_t *h, const struct wisp_rows *b, size_t first, size_t n)
{
    if (b->xi && b->xv) {
        XXH3_64bits_update(h, b->xi + first, n * sizeof *b->xi);
        XXH3_64bits_update(h, b->xv + first, n * sizeof *b->xv);
        return;
    }
    int32_t ids[SOME];
    float values[SOME];
    for (size_t at = 0; at < n; at += SOME) { /* all ids, then all values, as above */
        size_t m = n - at < SOME ? n - at : SOME;
        for (size_t i = 0; i < m; i++) ids[i] = wisp_row_id(b, first + at + i);
        XXH3_64bits_update(h, ids, m * sizeof *ids);
    }
    for (size_t at = 0; at < n; at += SOME) {
        size_t m = n - at < SOME ? n - at : SOME;
        for (size_t i = 0; i < m; i++) values[i] = wisp_row_value(b, first + at + i);
        XXH3_64bits_update(h, values, m * sizeof *values);
    }
}

/* XXH3 of all rows, labels and features: the same for the same rows in any format, from text or a
 * cache.  0: no memory for it. */
static uint64_t checksum(const struct wisp_data *d)
{
    XXH3_state_t *h = XXH3_createState();
    if (!h) return 0;
    XXH3_64bits_reset(h);
    struct wisp_lists lists = { 0 };
    bool whole = true;
    for (size_t k = 0; k < d->n_blocks && whole; k++) {
        const struct wisp_rows *b;
        whole = wisp_rows_lists(&b, &lists, &d->blocks[k], NULL) == WISP_OK;
        for (size_t i = 0; whole && i < b->n; i++) {
            size_t n_labels = b->yp[i + 1] - b->yp[i], n = b->xp[i + 1] - b->xp[i];
            hash_number(h, (uint32_t)n_labels);
            XXH3_64bits_update(h, b->yi + b->yp[i], n_labels * sizeof *b->yi);
            hash_number(h, (uint32_t)n);
            hash_features(h, b, b->xp[i], n);
        }
    }
    wisp_lists_clear(&lists);
    uint64_t sum = XXH3_64bits_digest(h);
    XXH3_freeState(h);
    return whole ? sum : 0;
}

/* ---- writing ---- */

struct lines {
    char text[4000];
    size_t n;
};

__attribute__((format(printf, 3, 4))) static void add(struct lines *l, const char *key,
                                                      const char *fmt, ...)
{
    char value[600];
    va_list ap;
    va_start(ap, fmt);
    wisp_vprint(value, sizeof value, fmt, ap);
    va_end(ap);
    int n = wisp_print(l->text + l->n, sizeof l->text - l->n, "%s=%s\n", key, value);
    if (n > 0 && (size_t)n < sizeof l->text - l->n) l->n += (size_t)n;
    else l->text[l->n] = 0; /* no room: whole lines only */
}

static wisp_status keep(struct wisp_run *r, const struct lines *l, wisp_error *err)
{
    r->m->about = wisp_strdup(l->text);
    return r->m->about ? WISP_OK : wisp_fail_mem(err, l->n + 1, "a model's card");
}

static wisp_status about_linear(struct wisp_run *r, struct lines *l, wisp_error *err)
{
    const struct wisp_linear_run *t = r->linear;
    add(l, "linear_loss", "%s", t->how.loss->name);
    add(l, "cost", "%.9g", (double)t->how.cost);
    add(l, "drop_below", "%.9g", (double)t->how.drop);
    add(l, "negatives", "%s", t->all ? "all" : "votes");
    add(l, "refit", "%s", t->refit ? "yes" : "no");
    add(l, "seed", "%llu", (unsigned long long)r->plan.seed);
    return keep(r, l, err);
}

wisp_status wisp_about_run(struct wisp_run *r, wisp_error *err)
{
    const struct wisp_plan *p = &r->plan;
    const struct wisp_data *d = r->sets.train;
    struct lines l = { .n = 0 };
    if (!r->path) return WISP_OK; /* nobody would read it */
    add(&l, "data", "%s", *d->source ? d->source : "memory");
    if (!p->memory) add(&l, "data_checksum", "xxh3:%016llx", (unsigned long long)checksum(d));
    add(&l, "data_rows", "%zu", d->n_rows);
    add(&l, "training_rows", "%zu", r->feed.order.n_rows);
    add(&l, "validation_rows", "%zu", r->sets.valid->n_rows);
    add(&l, "held_out", "%s", r->sets.held_out && r->sets.held_out->n_rows ? "yes" : "no");
    add(&l, "weighted", "%s", r->sets.weights ? "yes" : "no");
    if (*p->values_why) add(&l, "values_why", "%s", p->values_why);
    if (r->linear) return about_linear(r, &l, err);
    add(&l, "epochs", "%d", p->epochs);
    add(&l, "patience", "%d", p->patience);
    add(&l, "batch", "%zu", p->batch);
    add(&l, "optimizer", "%s", p->optimizer->name);
    add(&l, "lr", "%.9g", p->lr);
    add(&l, "decay", "%s", p->decay->name);
    add(&l, "warmup", "%.9g", p->warmup);
    add(&l, "weight_decay", "%.9g", p->weight_decay);
    if (p->smoothing > 0) add(&l, "smoothing", "%.9g", p->smoothing);
    if (p->more_zeros > 0) add(&l, "more_zeros", "%.9g", p->more_zeros);
    add(&l, "average", "%.9g", p->average);
    add(&l, "input_dropout", "%.9g", p->input_dropout);
    add(&l, "moments", "%s", p->slots & WISP_SLOT_HALF ? "bf16" : "fp32");
    add(&l, "precision", "%s", p->precision->name);
    add(&l, "rows", "%s", p->half ? "bf16" : "fp32");
    add(&l, "sampling", "%s", p->sampling.names);
    add(&l, "index", "%s", p->index ? "yes" : "no");
    add(&l, "seed", "%llu", (unsigned long long)p->seed);
    if (r->init.model) add(&l, "init_checksum", "%s", r->init.model->file.check);
    if (r->init.weights.n_tensors) add(&l, "init_checksum", "%s", r->init.weights.check);
    return keep(r, &l, err);
}

void wisp_about_validation(struct wisp_model *m, double p3, double p5, double loss)
{
    wisp_print(m->validation, sizeof m->validation, "p@3=%.6f\np@5=%.6f\nloss=%.6f\n", p3, p5,
               loss);
}

/* ---- lines as JSON ---- */

/* A value as JSON: a number where it is one. */
static json_t *value_json(const char *s, size_t n)
{
    char text[40], *end = text;
    if (n > 0 && n < sizeof text && (strchr("+-.", *s) || (*s >= '0' && *s <= '9'))) {
        memcpy(text, s, n);
        text[n] = 0;
        double v = wisp_strtod(text, &end);
        if (*end == 0 && isfinite(v) && strspn(text, "0123456789+-.eE") == n)
            return v == floor(v) && fabs(v) < 0x1p53 && !strpbrk(text, ".eE")
                       ? json_integer((json_int_t)v)
                       : json_real(v);
    }
    return json_stringn(s, n);
}

/* Lines "key=value" as an object; 'wanted' NULL: all of them. */
static json_t *lines_json(const char *s,
                          bool (*wanted)(const char *key, const char *value, size_t n))
{
    json_t *o = json_object();
    while (*s) {
        size_t n = strcspn(s, "\n"), at = strcspn(s, "=\n");
        char key[64];
        snprintf(key, sizeof key, "%.*s", (int)(at < 63 ? at : 63), s);
        if (at < n && (!wanted || wanted(key, s + at + 1, n - at - 1)))
            json_object_set_new(o, key, value_json(s + at + 1, n - at - 1));
        s += n + (s[n] == '\n');
    }
    return o;
}

/* A text of jansson's as one of ours; NULL stays NULL. */
static char *take_text(char *text)
{
    char *own = text ? wisp_strdup(text) : NULL;
    if (text) {
        json_free_t release; /* what jansson allocated, jansson's own way */
        json_get_alloc_funcs(NULL, &release);
        release(text);
    }
    return own;
}

/* ---- the head of a log ---- */

/* Is the option at something else than its default? */
static bool chosen(const char *key, const char *value, size_t n)
{
    const wisp_option *o;
    for (size_t i = 0; (o = wisp_option_row(i)); i++)
        if (strcmp(o->key, key) == 0)
            return n != strlen(o->fallback) || strncmp(value, o->fallback, n) != 0;
    return true;
}

wisp_status wisp_about_head(char **out, const struct wisp_run *r, wisp_error *err)
{
    const struct wisp_model *m = r->m;
    json_t *o = json_object(), *card = lines_json(m->about ? m->about : "", NULL);
    const size_t n_params = wisp_net_n_params(&m->net); /* 0: not known before the end */
    const struct {
        const char *key;
        json_t *value;
    } facts[] = {
        { "wisp", json_string(WISP_VERSION) },
        { "model", json_string(r->path ? r->path : "") },
        { "net", json_string(m->spec) },
        { "loss", json_string(m->loss ? m->loss->name : "") },
        { "features", json_integer((json_int_t)m->net.n_features) },
        { "labels", json_integer((json_int_t)m->net.n_labels) },
        { "parameters", n_params ? json_integer((json_int_t)n_params) : NULL },
        { "device", json_string(r->plan.cuda ? "cuda" : "cpu") },
        { "threads", json_integer(wisp_pool_threads(r->ctx->pool)) },
        { "kernels", json_string(r->ctx->k->name) },
        { "card", card },
        { "options", lines_json(m->options ? m->options : "", chosen) },
    };
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        json_object_set_new(o, facts[i].key, facts[i].value);
    *out = take_text(json_dumps(o, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9)));
    json_decref(o);
    return *out ? WISP_OK : wisp_fail_mem(err, 4096, "what a log says of its run");
}

/* ---- a model that is loaded ---- */

static json_t *tensors_json(const struct wisp_tensor_file *f)
{
    json_t *list = json_array();
    for (size_t i = 0; i < f->n_tensors; i++) {
        const struct wisp_tensor *t = &f->tensors[i];
        json_t *shape = json_array();
        for (int k = 0; k < t->n_dims; k++)
            json_array_append_new(shape, json_integer((json_int_t)t->shape[k]));
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:I}", "name", t->name, "dtype",
                                              wisp_dtypes[t->dtype].name, "shape", shape, "bytes",
                                              (json_int_t)t->bytes));
    }
    return list;
}

/* How an entry of the metadata is told; others are text. */
static json_t *meta_json(const struct wisp_pair *p)
{
    static const char *const numbers[] = { "index_base", "features", "labels", "train_rows",
                                           "valid_p@1",  "epoch",    "members" };
    static const char *const objects[] = { "card", "validation", "threshold" };
    const size_t member = strspn(p->key, "0123456789"); /* of a joint model: "1/card" */
    const char *key = member && p->key[member] == '/' ? p->key + member + 1 : p->key;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(key, numbers[i]) == 0) return value_json(p->value, strlen(p->value));
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
        if (strcmp(key, objects[i]) == 0) return lines_json(p->value, NULL);
    return json_string(p->value);
}

/* When the file was written; in memory there is none. */
static void add_date(json_t *o, const char *path)
{
    struct stat st;
    struct tm tm;
    char date[40];
    if (stat(path, &st) != 0 || !gmtime_r(&st.st_mtime, &tm)) return;
    if (strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &tm))
        json_object_set_new(o, "date", json_string(date));
}

wisp_status wisp_about_describe(struct wisp_model *m, const char *path, wisp_error *err)
{
    json_t *o = json_object();
    for (size_t i = 0; i < m->file.n_meta; i++)
        json_object_set_new(o, m->file.meta[i].key, meta_json(&m->file.meta[i]));
    add_date(o, path);
    json_object_set_new(o, "parameters", json_integer((json_int_t)wisp_kind_of(m)->n_params(m)));
    json_object_set_new(o, "file_bytes", json_integer((json_int_t)m->file.map.bytes));
    json_object_set_new(o, "checksum", json_string(m->file.check));
    json_object_set_new(o, "tensors", tensors_json(&m->file));
    m->describe =
        take_text(json_dumps(o, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9)));
    json_decref(o);
    return m->describe ? WISP_OK : wisp_fail_mem(err, 4096, "a model's description");
}

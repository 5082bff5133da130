/* The functions of wisp.h that are more than a name for something inside. */
#include "api/grow.h"
#include "base/mem.h"
#include "conv/conv.h"
#include "base/report.h"
#include "base/text.h"
#include "comm/comm.h"
#include "config/options.h"
#include "data/spool.h"
#include "data/text.h"
#include "data/words.h"
#include "kernels/kernels.h"
#include "model/kind.h"
#include "model/nets.h"
#include "model/torch.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *wisp_version(void)
{
    return WISP_VERSION;
}

/* ---- context ---- */

enum { CONV_PLACE = 4096 };
struct conv_choice { /* with what it points to */
    struct wisp_conv_choice c;
    char place[2][CONV_PLACE];
    char only[];
};

/* The user's folder of caches; and where that cannot be written, the folder of this session, or one
 * of the user's own in /tmp. */
static void conv_places(struct conv_choice *c)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME"),
               *session = getenv("XDG_RUNTIME_DIR");
    char own[40];
    snprintf(own, sizeof own, "/tmp/wisp-%lu", (unsigned long)geteuid());
    int n = -1, m;
    if (cache && cache[0] == '/') n = snprintf(c->place[0], CONV_PLACE, "%s/wisp/conv", cache);
    else if (home && home[0] == '/')
        n = snprintf(c->place[0], CONV_PLACE, "%s/.cache/wisp/conv", home);
    if (session && session[0] == '/')
        m = snprintf(c->place[1], CONV_PLACE, "%s/wisp/conv", session);
    else m = snprintf(c->place[1], CONV_PLACE, "%s/conv", own);
    if (n > 0 && n < CONV_PLACE) c->c.file = c->place[0];
    if (m > 0 && m < CONV_PLACE) c->c.other = c->place[1];
}

/* How convolutions are computed: WISP_CONV names ways, else they are measured, and what was found is
 * kept. */
static wisp_status conv_choice(const struct wisp_conv_choice **out, wisp_error *err)
{
    const char *only = getenv("WISP_CONV");
    size_t length = 0;
    const char *odd = only && *only ? wisp_conv_unknown(only, &length) : NULL;
    if (odd)
        return wisp_fail(err, WISP_ENOTSUP,
                         "WISP_CONV: no way '%.*s' to compute convolutions; "
                         "'wisp info' lists them",
                         (int)length, odd);
    const size_t bytes = sizeof(struct conv_choice) + strlen(only ? only : "") + 1;
    struct conv_choice *c = wisp_zalloc(1, bytes);
    if (!c) return wisp_fail_mem(err, bytes, "a context");
    c->c.measure = true;
    if (only && *only) c->c.only = strcpy(c->only, only);
    else conv_places(c);
    *out = &c->c;
    return WISP_OK;
}

wisp_status wisp_context_create(wisp_context **out, int threads, wisp_error *err)
{
    *out = NULL;
    wisp_context *ctx = wisp_zalloc(1, sizeof *ctx);
    struct wisp_kernels *k = wisp_zalloc(1, sizeof *k);
    wisp_status st = ctx && k ? WISP_OK : wisp_fail_mem(err, sizeof *ctx, "a context");
    const char *cap = getenv("WISP_ISA");
    if (st == WISP_OK) st = wisp_kernels_select(k, cap && *cap ? cap : NULL, err);
    if (st == WISP_OK) st = conv_choice(&ctx->conv, err);
    if (st == WISP_OK) st = wisp_pool_create(&ctx->pool, threads, err);
    if (st != WISP_OK) {
        if (ctx) wisp_free((void *)ctx->conv);
        wisp_free(ctx);
        wisp_free(k);
        return st;
    }
    ctx->k = k;
    *out = ctx;
    return WISP_OK;
}

void wisp_context_free(wisp_context *ctx)
{
    if (!ctx) return;
    if (ctx->comm) ctx->comm->leave();
    wisp_pool_free(ctx->pool);
    wisp_free(ctx->comm);
    wisp_free((void *)ctx->conv);
    wisp_free((void *)ctx->k);
    wisp_free(ctx);
}

void wisp_context_on_notice(wisp_context *ctx, void (*say)(void *arg, const char *line), void *arg)
{
    ctx->say = say;
    ctx->say_arg = arg;
}

/* ---- files ---- */

static const char model_kind[] = "model", weights_kind[] = "safetensors";

wisp_status wisp_file_kind(const char **kind, const char *path, wisp_error *err)
{
    struct wisp_map map;
    char head[4096];
    size_t n;
    *kind = "";
    if (wisp_spool_wants(path)) return WISP_OK; /* it can be read once only */
    const struct wisp_format *folder = wisp_format_of_folder(path);
    if (folder) {
        *kind = folder->name;
        return WISP_OK;
    }
    wisp_status st = wisp_map_open(&map, path, err);
    if (st != WISP_OK) return st;
    if (wisp_tensor_file_probe(map.p, map.bytes)) {
        *kind = wisp_tensor_file_is_plain(map.p, map.bytes) ? weights_kind : model_kind;
    } else {
        st = wisp_text_head(head, sizeof head, &n, map.p, map.bytes, path, err);
        const struct wisp_format *f = st == WISP_OK ? wisp_format_probe(path, head, n) : NULL;
        if (f) *kind = f->name;
        if (st == WISP_EFORMAT) st = WISP_OK; /* a damaged archive is neither */
    }
    return wisp_map_end(&map, st, err);
}

int wisp_format_by_lines(const char *format)
{
    const struct wisp_format *f = wisp_format_find(format);
    return !f || !(f->table || f->binary);
}

/* ---- data ---- */

static wisp_status copy_option(char *to, size_t room, const wisp_config *cfg, enum wisp_opt o,
                               wisp_error *err)
{
    const char *text = wisp_opt_text(cfg, o);
    if (strlen(text) >= room)
        return wisp_fail_option(err, wisp_option_row((size_t)o)->key, "longer than %zu bytes",
                                room - 1);
    memcpy(to, text, strlen(text) + 1);
    return WISP_OK;
}

/* The format is that of the rows before, unless the bytes say otherwise, and so are names. */
static void go_with(struct wisp_read_options *o, const struct wisp_format *format, int index_base,
                    unsigned named)
{
    o->like = format;
    o->like_base = index_base;
    o->named = named;
    o->decided = WISP_NAMED_LABELS | WISP_NAMED_FEATURES;
}

/* How text becomes features, as the options say. */
static wisp_status text_options(struct wisp_text_how *how, const wisp_config *cfg, wisp_error *err)
{
    wisp_tokens_find(&how->tokens, wisp_opt_text(cfg, OPT_TOKENS));
    how->pairs = wisp_opt_on(cfg, OPT_PAIRS);
    how->chars_auto = wisp_opt_is(cfg, OPT_CHARS, "auto");
    how->no_header = wisp_opt_on(cfg, OPT_NO_HEADER);
    if (!how->chars_auto && !wisp_chars_read(how, wisp_opt_text(cfg, OPT_CHARS)))
        return wisp_fail_option(err, "chars",
                                "'%s' is not a number of characters from 1 to %d, a range of "
                                "them such as 3-5, 0 or auto",
                                wisp_opt_text(cfg, OPT_CHARS), WISP_CHARS_MAX);
    wisp_status st =
        copy_option(how->text_column, sizeof how->text_column, cfg, OPT_TEXT_COLUMN, err);
    if (st == WISP_OK)
        st = copy_option(how->label_column, sizeof how->label_column, cfg, OPT_LABEL_COLUMN, err);
    if (st == WISP_OK)
        st = copy_option(how->label_separator, sizeof how->label_separator, cfg,
                         OPT_LABEL_SEPARATOR, err);
    return st;
}

/* What the option "net" says of the size of images; 0 x 0 where it does not, or is no net: whoever
 * makes it says why. */
static struct wisp_image size_of_net(const wisp_config *cfg)
{
    const char *option = wisp_opt_text(cfg, OPT_NET);
    struct wisp_image size = { 0 };
    struct wisp_net_text net;
    if (!*option || wisp_net_text_read(&net, option, NULL) != WISP_OK) return size;
    wisp_net_text_images(&net, &size);
    wisp_net_text_clear(&net);
    return size;
}

static wisp_status read_options(struct wisp_read_options *out, const wisp_config *cfg,
                                const wisp_model *m, wisp_error *err)
{
    const char *format = wisp_opt_text(cfg, OPT_FORMAT), *cache = wisp_opt_text(cfg, OPT_CACHE);
    struct wisp_read_options o = {
        .format = strcmp(format, "auto") == 0 ? NULL : format,
        .index_base = (int)wisp_opt_num(cfg, OPT_INDEX_BASE),
        .no_header = wisp_opt_on(cfg, OPT_NO_HEADER),
        .every_line = wisp_opt_is(cfg, OPT_BLANK_LINES, "rows"),
        .min_count = (int)wisp_opt_num(cfg, OPT_MIN_COUNT),
        .cache = *cache && strcmp(cache, "-") != 0 ? cache : NULL,
        .use_cache = strcmp(cache, "-") != 0,
        .memory = (size_t)wisp_opt_num(cfg, OPT_MEMORY),
    };
    wisp_status st = text_options(&o.text, cfg, err);
    o.image = size_of_net(cfg);
    o.resize = o.image.height > 0;
    /* Names in a file are of ids that are numbers. */
    if (*wisp_opt_text(cfg, OPT_LABELS)) o.decided |= WISP_NAMED_LABELS;
    if (*wisp_opt_text(cfg, OPT_VOCAB)) o.decided |= WISP_NAMED_FEATURES;
    if (m) {
        bool words = m->text && !(m->format && m->format->words);
        go_with(&o, words ? &wisp_format_fasttext : m->format, m->index_base, m->named);
        o.every_line = !wisp_opt_is(cfg, OPT_BLANK_LINES, "skip");
        o.n_features = m->net.n_features;
        o.image = wisp_net_images(wisp_model_reads(m));
        o.resize = wisp_net_resizes(wisp_model_reads(m));
        o.n_labels = m->net.n_labels;
        o.labels = m->labels.n ? &m->labels : NULL;
        o.vocab = m->vocab.n ? &m->vocab : NULL;
        o.min_count = 1;
        wisp_text_of_model(&o.text, &m->how, cfg);
        o.find_word = m->find_word.slots ? &m->find_word : NULL;
        o.find_label = m->find_label.slots ? &m->find_label : NULL;
        o.stop = m->stop.n ? &m->find_stop : NULL;
    }
    *out = o;
    return st;
}

struct stop_words { /* of option "stop-words" */
    struct wisp_names names;
    struct wisp_lookup find;
};

static wisp_status load_stop_words(struct stop_words *s, struct wisp_read_options *o,
                                   const wisp_config *cfg, wisp_error *err)
{
    const char *path = wisp_opt_text(cfg, OPT_STOP_WORDS);
    if (!*path || o->stop) return WISP_OK;
    wisp_status st = wisp_names_load(&s->names, path, err);
    if (st == WISP_OK) st = wisp_lookup_init(&s->find, &s->names, err);
    if (st == WISP_OK && s->names.n) o->stop = &s->find;
    return st;
}

static void clear_stop_words(struct stop_words *s)
{
    wisp_names_clear(&s->names);
    wisp_lookup_clear(&s->find);
}

/* Options that are about other data than this would be ignored: better told. */
static wisp_status options_apply(const wisp_data *d, const char *path, const wisp_config *cfg,
                                 wisp_error *err)
{
    static const struct {
        enum wisp_opt o;
        bool words;       /* is about text; else about ids, which have no names of their own */
        const char *none; /* beside its default: a value that asks for nothing */
    } about[] = { { OPT_LABELS, false, "" },    { OPT_VOCAB, false, "" }, { OPT_PAIRS, true, "0" },
                  { OPT_MIN_COUNT, true, "1" }, { OPT_TOKENS, true, "" }, { OPT_CHARS, true, "0" },
                  { OPT_STOP_WORDS, true, "" } };
    for (size_t i = 0; d->format && i < sizeof about / sizeof *about; i++) {
        const wisp_option *o = wisp_option_row(about[i].o);
        const char *value = wisp_opt_text(cfg, about[i].o);
        if (strcmp(value, o->fallback) == 0 || strcmp(value, about[i].none) == 0) continue;
        if (about[i].o == OPT_LABELS && d->format->classes)
            return wisp_fail_option(err, o->key,
                                    "%s has names of its own, those of its folders; leave the "
                                    "option out",
                                    path);
        if (about[i].words != d->format->words)
            return wisp_fail_option(err, o->key, "%s has %s; leave the option out", path,
                                    about[i].words ? "ids, the option is about words"
                                                   : "names of its own, it is text");
    }
    return WISP_OK;
}

/* The file's name, for the model's card; what is no UTF-8 becomes '?'. */
static void name_source(wisp_data *d, const char *path)
{
    const char *slash = strrchr(path, '/'), *s = slash ? slash + 1 : path;
    size_t n = 0, left = strlen(s);
    for (size_t step; left > 0; s += step, left -= step) {
        size_t bytes = wisp_utf8_bytes((const unsigned char *)s, left);
        bool bad = bytes == 0 || (unsigned char)*s < ' ' || *s == 0x7f;
        step = bytes ? bytes : 1;
        if (n + step >= sizeof d->source) break;
        if (bad) d->source[n++] = '?';
        else {
            memcpy(d->source + n, s, step);
            n += step;
        }
    }
    d->source[n] = 0;
}

/* Do the rows go with those of a model?  Weights from elsewhere have no names of features or labels. */
static bool grows(const wisp_config *cfg)
{
    const char *path = wisp_opt_text(cfg, OPT_INIT);
    return *path && !wisp_torch_is(path);
}

static wisp_status open_data(wisp_data **out, wisp_context *ctx, const char *path,
                             const wisp_config *cfg, const wisp_model *model, wisp_error *err)
{
    *out = NULL;
    struct wisp_read_options o;
    struct stop_words stop = { 0 };
    wisp_status st = read_options(&o, cfg, model, err);
    if (st == WISP_OK && !model) st = load_stop_words(&stop, &o, cfg, err);
    if (st == WISP_OK && !model && grows(cfg)) st = wisp_grow_open(out, ctx, path, cfg, &o, err);
    else if (st == WISP_OK) st = wisp_data_read(out, ctx, path, &o, err);
    clear_stop_words(&stop);
    if (st == WISP_OK) name_source(*out, path);
    if (st == WISP_OK && !model && (st = options_apply(*out, path, cfg, err)) != WISP_OK) {
        wisp_data_free(*out);
        *out = NULL;
    }
    return st;
}

/* Options for rows that go with 'like'; 'stop', which is cleared afterwards, finds its stop words.
 */
static wisp_status options_like(struct wisp_read_options *o, struct wisp_lookup *stop,
                                const wisp_config *cfg, const wisp_data *like, wisp_error *err)
{
    wisp_status st = read_options(o, cfg, NULL, err);
    go_with(o, like->format, like->index_base, like->named);
    if (like->named || (like->format && like->format->words)) {
        o->labels = like->labels.n ? &like->labels : NULL;
        o->vocab = like->vocab.n ? &like->vocab : NULL;
        o->text = like->text;
        o->min_count = 1;
    }
    if (like->format && like->format->sized) o->image = like->image;
    if (st == WISP_OK && like->stop.n) st = wisp_lookup_init(stop, &like->stop, err);
    if (stop->slots) o->stop = stop;
    return st;
}

static wisp_status open_data_like(wisp_data **out, wisp_context *ctx, const char *path,
                                  const wisp_config *cfg, const wisp_data *like, wisp_error *err)
{
    struct wisp_read_options o;
    struct wisp_lookup stop = { 0 };
    struct wisp_names labels = { 0 }; /* of option "labels": what ids of 'like' are called */
    const char *names = wisp_opt_text(cfg, OPT_LABELS);
    bool words = like->format && like->format->words;
    *out = NULL;
    wisp_status st = options_like(&o, &stop, cfg, like, err);
    if (st == WISP_OK && !o.labels && *names) st = wisp_names_load(&labels, names, err);
    if (labels.n) o.labels = &labels;
    if (st == WISP_OK && !words && !like->named && grows(cfg)) {
        o.old_features = like->n_features;
        o.old_labels = like->n_labels;
        st = wisp_grow_open(out, ctx, path, cfg, &o, err);
    } else if (st == WISP_OK) {
        o.n_features = like->n_features;
        o.n_labels = like->n_labels;
        o.counted = true;
        st = wisp_data_read(out, ctx, path, &o, err);
    }
    wisp_lookup_clear(&stop);
    wisp_names_clear(&labels);
    return st;
}

/* ---- the same by several ranks, one after the other ---- */

struct opening {
    wisp_data **out;
    wisp_context *ctx;
    const char *path;
    const wisp_config *cfg;
    const wisp_model *model;
    const wisp_data *like;
};

static wisp_status open_one(void *arg, wisp_error *err)
{
    const struct opening *o = arg;
    return o->like ? open_data_like(o->out, o->ctx, o->path, o->cfg, o->like, err)
                   : open_data(o->out, o->ctx, o->path, o->cfg, o->model, err);
}

static wisp_status open_all(struct opening *o, wisp_error *err)
{
    const struct wisp_comm *c = o->ctx->comm;
    *o->out = NULL;
    if (!c || c->size == 1) return open_one(o, err);
    c->patience(12 * wisp_opt_num(o->cfg, OPT_DEADLINE)); /* making a cache takes its time */
    wisp_status st = wisp_comm_in_turn(c, open_one, o, err);
    c->patience(wisp_opt_num(o->cfg, OPT_DEADLINE));
    if (st == WISP_OK) return st;
    wisp_data_free(*o->out);
    *o->out = NULL;
    return st;
}

wisp_status wisp_data_open(wisp_data **out, wisp_context *ctx, const char *path,
                           const wisp_config *cfg, const wisp_model *model, wisp_error *err)
{
    struct opening o = { .out = out, .ctx = ctx, .path = path, .cfg = cfg, .model = model };
    return open_all(&o, err);
}

wisp_status wisp_data_open_like(wisp_data **out, wisp_context *ctx, const char *path,
                                const wisp_config *cfg, const wisp_data *like, wisp_error *err)
{
    struct opening o = { .out = out, .ctx = ctx, .path = path, .cfg = cfg, .like = like };
    return open_all(&o, err);
}

/* Offsets that do not fall, ids in range. */
static wisp_status check_rows(const struct wisp_memory_rows *m, wisp_error *err)
{
    for (size_t i = 0; i < m->n_rows; i++) {
        if (m->start[i] > m->start[i + 1] || (m->y_ptr && m->y_ptr[i] > m->y_ptr[i + 1]))
            return wisp_fail_row(err, WISP_EINVAL, i, 0, "offsets must not fall");
        for (int64_t e = m->y_ptr ? m->y_ptr[i] : 0; m->y_ptr && e < m->y_ptr[i + 1]; e++)
            if (m->y_idx[e] < 0 || (size_t)m->y_idx[e] >= m->n_labels)
                return wisp_fail_row(err, WISP_EINVAL, i, 0, "label %d is not in 0..%zu",
                                     m->y_idx[e], m->n_labels - 1);
    }
    return WISP_OK;
}

wisp_status wisp_data_from_text(wisp_data **out, wisp_context *ctx, size_t n_rows, const char *text,
                                const uint64_t *start, size_t n_labels, const int64_t *y_ptr,
                                const int32_t *y_idx, const wisp_config *cfg,
                                const wisp_model *model, wisp_error *err)
{
    const struct wisp_memory_rows m = { n_rows, n_labels, text, start, y_ptr, y_idx };
    *out = NULL;
    if (model && !model->text)
        return wisp_fail(err, WISP_EMODEL,
                         "the model was trained on numbered features, not on text: it cannot read "
                         "words");
    struct wisp_read_options o;
    struct stop_words stop = { 0 };
    wisp_status st = read_options(&o, cfg, model, err);
    if (st == WISP_OK) st = check_rows(&m, err);
    if (st == WISP_OK && !model) st = load_stop_words(&stop, &o, cfg, err);
    if (st == WISP_OK && !model && grows(cfg)) st = wisp_grow_text(out, ctx, &m, cfg, &o, err);
    else if (st == WISP_OK) st = wisp_data_read_rows(out, ctx, &m, &o, err);
    clear_stop_words(&stop);
    return st;
}

wisp_status wisp_data_from_text_like(wisp_data **out, wisp_context *ctx, size_t n_rows,
                                     const char *text, const uint64_t *start, size_t n_labels,
                                     const int64_t *y_ptr, const int32_t *y_idx,
                                     const wisp_config *cfg, const wisp_data *like, wisp_error *err)
{
    const struct wisp_memory_rows m = { n_rows, n_labels, text, start, y_ptr, y_idx };
    struct wisp_read_options o;
    struct wisp_lookup stop = { 0 };
    *out = NULL;
    if (!like->format || !like->format->words)
        return wisp_fail(err, WISP_EINVAL,
                         "the rows to go with have numbered features, these are text");
    wisp_status st = options_like(&o, &stop, cfg, like, err);
    if (st == WISP_OK) st = check_rows(&m, err);
    if (st == WISP_OK) st = wisp_data_read_rows(out, ctx, &m, &o, err);
    wisp_lookup_clear(&stop);
    return st;
}

/* More than one. */
static bool has_lines(const char *text, size_t bytes)
{
    const char *end = memchr(text, '\n', bytes);
    return end && end + 1 < text + bytes;
}

wisp_status wisp_data_parse(wisp_data **out, wisp_context *ctx, const char *text, size_t bytes,
                            const char *name, const wisp_config *cfg, const wisp_model *model,
                            wisp_error *err)
{
    struct wisp_read_options o;
    wisp_status st = read_options(&o, cfg, model, err);
    *out = NULL;
    if (st != WISP_OK) return st;
    o.use_cache = false;
    o.no_header = true;
    if (!o.format && model && model->text) {
        const struct wisp_format *f = wisp_format_probe(name, text ? text : "", bytes);
        const bool known = f && f->table;
        const struct wisp_format *table = known ? f : o.like;
        /* Its labels would be read as words, and its header as a text; a line that comes alone is a text. */
        if (known || (text && table && table->table && !(f && f->words) && has_lines(text, bytes) &&
                      wisp_table_columns(table, &o.text, text, bytes) > 1))
            return wisp_fail_at(err, WISP_EINVAL, name, 1,
                                "found the first line of a table, expected lines of text; name "
                                "the format: --format %s",
                                table->name);
        o.format = f && f->words ? f->name : wisp_format_fasttext.name; /* else a line is a text */
    }
    if (!o.format) /* as the model's own rows were */
        o.format = o.like && !o.like->binary ? o.like->name : "xc";
    return wisp_data_read_text(out, ctx, text, bytes, name, &o, err);
}

void wisp_data_stats_get(const wisp_data *d, wisp_data_stats *out)
{
    *out = (wisp_data_stats){ .n_rows = d->n_rows,
                              .n_features = d->n_features,
                              .n_labels = d->n_labels,
                              .n_values = d->nnz,
                              .n_label_values = d->n_lab,
                              .n_unlabelled = d->n_unlabelled,
                              .source_bytes = d->source_bytes,
                              .bytes = d->bytes,
                              .n_unknown_values = d->n_dropped_features,
                              .n_unknown_labels = d->n_dropped_labels };
}

wisp_status wisp_data_from_csr(wisp_data **out, size_t n_rows, size_t n_features, size_t n_labels,
                               const int64_t *x_ptr, const int32_t *x_idx, const float *x_val,
                               const int64_t *y_ptr, const int32_t *y_idx, wisp_error *err)
{
    *out = NULL;
    struct wisp_sink *sink = NULL;
    struct wisp_builder b = { 0 };
    wisp_status st = wisp_sink_create(&sink, NULL, err);
    for (size_t i = 0; st == WISP_OK && i < n_rows; i++) {
        if (x_ptr[i] > x_ptr[i + 1] || (y_ptr && y_ptr[i] > y_ptr[i + 1]))
            st = wisp_fail_row(err, WISP_EINVAL, i, 0, "offsets must not fall");
        for (int64_t e = x_ptr[i]; st == WISP_OK && e < x_ptr[i + 1]; e++) {
            if (x_idx[e] < 0 || (size_t)x_idx[e] >= n_features)
                st = wisp_fail_row(err, WISP_EINVAL, i, 0, "feature %d is not in 0..%zu", x_idx[e],
                                   n_features - 1);
            else if (!(x_val[e] - x_val[e] == 0))
                st = wisp_fail_row(err, WISP_ENUMERIC, i, 0, "feature %d has the value %g",
                                   x_idx[e], x_val[e]);
            else st = wisp_builder_feature(&b, x_idx[e], x_val[e], err);
        }
        for (int64_t e = y_ptr ? y_ptr[i] : 0; y_ptr && st == WISP_OK && e < y_ptr[i + 1]; e++) {
            if (y_idx[e] < 0 || (size_t)y_idx[e] >= n_labels)
                st = wisp_fail_row(err, WISP_EINVAL, i, 0, "label %d is not in 0..%zu", y_idx[e],
                                   n_labels - 1);
            else st = wisp_builder_label(&b, y_idx[e], err);
        }
        if (st == WISP_OK) st = wisp_builder_end_row(&b, err);
        if (st == WISP_OK &&
            (b.n_rows == WISP_BLOCK_ROWS || b.nnz >= WISP_BLOCK_NNZ || i + 1 == n_rows)) {
            st = wisp_sink_add(sink, &b, err);
            wisp_builder_reset(&b);
        }
    }
    wisp_builder_clear(&b);
    if (st != WISP_OK) {
        wisp_sink_abort(sink);
        return st;
    }
    wisp_sink_at_least(sink, n_features, n_labels);
    return wisp_sink_finish(out, sink, err);
}

/* The format that the ending of a path names. */
static wisp_status by_ending(const struct wisp_format **out, const char *path, wisp_error *err)
{
    char known[200] = "";
    const struct wisp_format *f;
    for (size_t i = 0, n = 0; (f = wisp_format_at(i)) && n < sizeof known; i++) {
        if (!f->write || !f->endings) continue;
        *out = f;
        if (wisp_format_ends(f, path)) return WISP_OK;
        n += (size_t)wisp_print(known + n, sizeof known - n, "%s%s (%s)", n ? ", " : "", f->endings,
                                f->name);
    }
    return wisp_fail_at(err, WISP_EINVAL, path, 0,
                        "its ending names no format that can be written; expected one of %s",
                        known);
}

wisp_status wisp_data_write(const wisp_data *d, wisp_context *ctx, const char *path,
                            const char *format, wisp_error *err)
{
    const char *dot = strrchr(path, '.');
    if (dot && (strcmp(dot, ".gz") == 0 || strcmp(dot, ".zst") == 0))
        return wisp_fail_at(err, WISP_ENOTSUP, path, 0,
                            "packed text can be read but not written; name a plain file");
    const struct wisp_format *f = format ? wisp_format_find(format) : NULL;
    if (!format) {
        wisp_status st = by_ending(&f, path, err);
        if (st != WISP_OK) return st;
    }
    if (!f || !f->write)
        return wisp_fail(err, WISP_ENOTSUP, "no format '%s' that can be written", format);
    return f->write(d, ctx, path, err);
}

void wisp_data_labels_by_name(wisp_data *d)
{
    d->named |= WISP_NAMED_LABELS;
}

wisp_status wisp_data_write_names(size_t *n, const wisp_data *d, const char *which,
                                  const char *path, wisp_error *err)
{
    static const char *const sides[] = { "labels", "features" };
    const struct wisp_names *names = NULL;
    *n = 0;
    for (int i = 0; i < 2; i++)
        if (strcmp(which, sides[i]) == 0) names = i ? &d->vocab : &d->labels;
    if (!names)
        return wisp_fail(err, WISP_EINVAL, "names of '%s': expected labels or features", which);
    struct wisp_out *o;
    if (names->n == 0) return WISP_OK;
    wisp_status st = wisp_out_create(&o, path, err);
    if (st != WISP_OK) return st;
    wisp_out_write(o, names->text, names->bytes, NULL);
    if (names->bytes > 0 && names->text[names->bytes - 1] != '\n') wisp_out_write(o, "\n", 1, NULL);
    st = wisp_out_commit(o, err);
    if (st == WISP_OK) *n = names->n;
    return st;
}

/* ---- training and use ---- */

wisp_status wisp_model_load(wisp_model **out, const char *path, wisp_error *err)
{
    wisp_status st = wisp_model_open(out, NULL, path, err);
    const char *kind = "";
    if (st == WISP_EMODEL && wisp_file_kind(&kind, path, NULL) == WISP_OK && *kind &&
        kind != model_kind && kind != weights_kind)
        return wisp_fail_at(err, st, path, 0, "found data in the format %s, expected a model",
                            kind);
    return st;
}

size_t wisp_model_n_labels(const wisp_model *m)
{
    return m->net.n_labels;
}

wisp_status wisp_model_load_memory(wisp_model **out, const void *bytes, size_t n, wisp_error *err)
{
    static const char name[] = "a model in memory";
    struct wisp_tensor_file file;
    *out = NULL;
    wisp_status st = wisp_tensor_file_copy(&file, NULL, bytes, n, name, err);
    return st == WISP_OK ? wisp_model_of_file(out, &file, name, err) : st;
}

size_t wisp_model_n_features(const wisp_model *m)
{
    return m->net.n_features;
}

static const char *name_of(const struct wisp_names *names, int32_t id, size_t *bytes)
{
    if (id < 0 || (size_t)id >= names->n) return NULL;
    const size_t *start = names->start + id;
    *bytes = start[1] - start[0] - 1;
    return names->text + start[0];
}

const char *wisp_model_label_name(const wisp_model *m, int32_t label, size_t *bytes)
{
    return name_of(&m->labels, label, bytes);
}

const char *wisp_model_feature_name(const wisp_model *m, int32_t feature, size_t *bytes)
{
    return name_of(&m->vocab, feature, bytes);
}

const char *wisp_model_describe(const wisp_model *m)
{
    return m->describe;
}

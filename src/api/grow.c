/* Rows that training goes on with (--init) get the ids of the model, by name where there are names.
 *
 * Text has names of its own: it is read with the model's, and further words and labels are added
 * to them.  Other formats have ids only, which mean the model's unless name files say otherwise
 * (--labels, --vocab): where these do not begin with the model's names, rows are renumbered. */
#include "api/grow.h"
#include "base/mem.h"
#include "model/kind.h"

#include <string.h>

struct side {                /* labels, or features */
    const char *what, *path; /* of the names; "": none are given */
    struct wisp_names names; /* the model's and further ones; n = 0: ids are as they should be */
    int32_t *map;            /* (ids in the file) NULL: names follow the model's */
};

/* Which ids the names in a file stand for.  n: ids that the rows have. */
static wisp_status match(struct side *s, const struct wisp_names *model, size_t n, wisp_error *err)
{
    struct wisp_names file;
    if (!*s->path || !model->n) return WISP_OK;
    wisp_status st = wisp_names_load(&file, s->path, err);
    if (st != WISP_OK) return st;
    if (file.n < n)
        st = wisp_fail_at(err, WISP_EINVAL, s->path, 0, "has %zu names, the data has %zu %s",
                          file.n, n, s->what);
    if (st == WISP_OK && wisp_names_begin(&file, model)) {
        s->names = file;
        return WISP_OK;
    }
    if (st == WISP_OK && !(s->map = wisp_alloc(file.n, sizeof *s->map)))
        st = wisp_fail_mem(err, file.n * sizeof *s->map, "ids of names");
    if (st == WISP_OK) st = wisp_names_merge(&s->names, s->map, model, &file, err);
    wisp_names_clear(&file);
    return st;
}

static void move_names(struct wisp_names *to, struct wisp_names *from)
{
    if (!from->n) return;
    wisp_names_clear(to);
    *to = *from;
    *from = (struct wisp_names){ 0 };
}

static wisp_status match_names(wisp_data **d, const wisp_config *cfg, const wisp_model *m,
                               const char *path, wisp_error *err)
{
    struct side labels = { .what = "labels", .path = wisp_opt_text(cfg, OPT_LABELS) },
                vocab = { .what = "features", .path = wisp_opt_text(cfg, OPT_VOCAB) };
    wisp_data *other = NULL;
    wisp_status st = match(&labels, &m->labels, (*d)->n_labels, err);
    if (st == WISP_OK) st = match(&vocab, &m->vocab, (*d)->n_features, err);
    bool anew = labels.map || vocab.map;
    if (st == WISP_OK && anew && wisp_opt_num(cfg, OPT_MEMORY) > 0)
        st = wisp_fail_option(
            err, "memory",
            "%s: other ids than the model's, by the names in --labels or "
            "--vocab: all rows would be copied; let the names begin with the model's, "
            "or leave out --memory",
            path);
    if (st == WISP_OK && anew) st = wisp_data_renumber(&other, *d, vocab.map, labels.map, err);
    if (st == WISP_OK && anew) {
        wisp_data_free(*d);
        *d = other;
    }
    if (st == WISP_OK) {
        move_names(&(*d)->labels, &labels.names);
        move_names(&(*d)->vocab, &vocab.names);
    }
    wisp_names_clear(&labels.names);
    wisp_names_clear(&vocab.names);
    wisp_free(labels.map);
    wisp_free(vocab.map);
    return st;
}

void wisp_text_of_model(struct wisp_text_how *how, const struct wisp_text_how *m,
                        const wisp_config *cfg)
{
    struct wisp_text_how given = *how;
    *how = *m;
    if (wisp_opt_given(cfg, OPT_NO_HEADER)) how->no_header = given.no_header;
    if (wisp_opt_given(cfg, OPT_TEXT_COLUMN))
        memcpy(how->text_column, given.text_column, sizeof how->text_column);
    if (wisp_opt_given(cfg, OPT_LABEL_COLUMN))
        memcpy(how->label_column, given.label_column, sizeof how->label_column);
    if (wisp_opt_given(cfg, OPT_LABEL_SEPARATOR))
        memcpy(how->label_separator, given.label_separator, sizeof how->label_separator);
}

/* Options to read text with, where the model is one of text: its words and names, and further ones,
 * cut as it was trained; pairs may join them. */
static struct wisp_read_options grown(const struct wisp_read_options *options, const wisp_model *m,
                                      const wisp_config *cfg)
{
    struct wisp_read_options o = *options;
    if (!o.like) {
        o.like = m->format;
        o.like_base = m->index_base;
    }
    o.named = m->named;
    o.decided = WISP_NAMED_LABELS | WISP_NAMED_FEATURES;
    o.grow = true;
    o.old_features = wisp_most(o.old_features, m->net.n_features);
    o.old_labels = wisp_most(o.old_labels, m->net.n_labels);
    if (!o.image.height) {
        o.image = wisp_net_images(wisp_model_reads(m));
        o.resize = wisp_net_resizes(wisp_model_reads(m));
    }
    o.labels = m->labels.n ? &m->labels : NULL;
    if (m->text || m->named) o.vocab = m->vocab.n ? &m->vocab : NULL;
    if (!m->text) return o;
    wisp_text_of_model(&o.text, &m->how, cfg);
    o.text.pairs |= options->text.pairs;
    o.stop = m->stop.n ? &m->find_stop : NULL;
    return o;
}

wisp_status wisp_grow_open(wisp_data **out, wisp_context *ctx, const char *path,
                           const wisp_config *cfg, const struct wisp_read_options *options,
                           wisp_error *err)
{
    wisp_model *m;
    *out = NULL;
    wisp_status st = wisp_model_open(&m, ctx->pool, wisp_opt_text(cfg, OPT_INIT), err);
    if (st != WISP_OK) return st;
    const struct wisp_read_options o = grown(options, m, cfg);
    if (m->named && (*wisp_opt_text(cfg, OPT_LABELS) || *wisp_opt_text(cfg, OPT_VOCAB)))
        st = wisp_fail(err, WISP_EINVAL,
                       "--labels, --vocab: the ids of the model --init %s stand for names of its "
                       "data; leave these options out",
                       wisp_opt_text(cfg, OPT_INIT));
    if (st == WISP_OK) st = wisp_data_read(out, ctx, path, &o, err);
    if (st == WISP_OK && !m->named && !(*out)->format->words)
        st = match_names(out, cfg, m, path, err);
    if (st != WISP_OK) {
        wisp_data_free(*out);
        *out = NULL;
    }
    wisp_model_free(m);
    return st;
}

wisp_status wisp_grow_text(wisp_data **out, wisp_context *ctx, const struct wisp_memory_rows *rows,
                           const wisp_config *cfg, const struct wisp_read_options *options,
                           wisp_error *err)
{
    wisp_model *m;
    *out = NULL;
    wisp_status st = wisp_model_open(&m, ctx->pool, wisp_opt_text(cfg, OPT_INIT), err);
    if (st != WISP_OK) return st;
    struct wisp_read_options o = grown(options, m, cfg);
    o.labels = NULL; /* labels come by id */
    if (!m->text)
        st = wisp_fail_at(err, WISP_EMODEL, wisp_opt_text(cfg, OPT_INIT), 0,
                          "trained on numbered features, not on text");
    else st = wisp_data_read_rows(out, ctx, rows, &o, err);
    wisp_model_free(m);
    return st;
}

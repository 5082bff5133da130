/* Words and labels to ids: two passes with dictionaries, or a model's names. */
#include "data/words.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/dict.h"

#include <string.h>

struct reading {
    struct wisp_source *src;
    const struct wisp_words_format *f;
    struct wisp_dict words, labels; /* value: count in pass 1, then the id, or -1 */
    bool fixed_words, fixed_labels; /* the model's: pass 1 leaves them alone */
    struct wisp_lookup own[2];      /* made here, where the options bring none */
    const struct wisp_lookup *find_word, *find_label; /* of what is fixed; NULL: by number only */
    size_t known_words, known_labels; /* the model's, first of the dictionaries: they have ids */
    bool counting;
    size_t n_words, n_labels; /* ids in use */
};

struct wisp_words { /* of a chunk */
    const struct reading *r;
    struct wisp_builder *out;
    struct wisp_tokenizer tokens;
    struct wisp_dict words, labels;
    char *room; /* (cap) for formats */
    size_t cap;
    size_t n_unknown_words, n_unknown_labels, n_blank;
    struct wisp_look seen; /* of a text that is only looked at */
    int32_t row_unknown;   /* labels of the row in progress */
};

static wisp_status count(struct wisp_dict *d, const char *p, size_t n, int64_t times,
                         wisp_error *err)
{
    struct wisp_dict_entry *e;
    wisp_status st = wisp_dict_add(&e, d, p, n, wisp_dict_hash(p, n), err);
    if (!st) e->value += times;
    return st;
}

/* A pair or a piece that is there once says little, and most are: where the choice is ours it has
 * to occur twice, which a word does at once. */
enum { OUR_MIN_COUNT = 2 };

/* The id of a name, -1: it was dropped, -2: it is not known. */
static int64_t id_of(const struct wisp_lookup *fixed, const struct wisp_dict *d, const char *p,
                     size_t n)
{
    if (fixed) {
        int32_t id = wisp_lookup_find(fixed, p, n);
        return id < 0 ? -2 : id;
    }
    const struct wisp_dict_entry *e = wisp_dict_find(d, p, n, wisp_dict_hash(p, n));
    return e ? e->value : -2;
}

static wisp_status see_feature(void *words, const char *p, size_t n, bool word, wisp_error *err)
{
    struct wisp_words *w = words;
    if (w->r->src->look) {
        w->seen.n_words += word;
        return WISP_OK;
    }
    int64_t times = word && w->r->src->o->min_count == 0 ? OUR_MIN_COUNT : 1;
    if (w->r->counting) return w->r->fixed_words ? WISP_OK : count(&w->words, p, n, times, err);
    int64_t id = id_of(w->r->find_word, &w->r->words, p, n);
    if (id == -2) w->n_unknown_words += word;
    return id < 0 ? WISP_OK : wisp_builder_feature(w->out, (int32_t)id, 1, err);
}

wisp_status wisp_words_text(struct wisp_words *w, const char *p, size_t n, wisp_error *err)
{
    return wisp_tokenizer_text(&w->tokens, p, n, err);
}

wisp_status wisp_words_label(struct wisp_words *w, const char *p, size_t n, wisp_error *err)
{
    const struct reading *r = w->r;
    if (n == 0) return wisp_fail(err, WISP_EFORMAT, "a label without a name");
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)p[i] < ' ')
            return wisp_fail(err, WISP_EFORMAT,
                             "a label with a control character (code %d), expected a name on one "
                             "line, without tabs",
                             p[i]);
    if (r->counting) return r->fixed_labels ? WISP_OK : count(&w->labels, p, n, 1, err);
    int64_t id = id_of(r->find_label, &r->labels, p, n);
    if (id >= 0) return wisp_builder_label(w->out, (int32_t)id, err);
    w->n_unknown_labels++;
    return wisp_builder_label(w->out, (int32_t)r->n_labels + w->row_unknown++, err);
}

wisp_status wisp_words_labels(struct wisp_words *w, const char *p, size_t n, const char *separator,
                              wisp_error *err)
{
    const char *end = p + n;
    size_t step = strlen(separator);
    wisp_status st = WISP_OK;
    while (p < end && st == WISP_OK) {
        const char *stop = step ? memmem(p, (size_t)(end - p), separator, step) : NULL;
        const char *next = stop ? stop + step : end;
        if (!stop) stop = end;
        while (p < stop && (*p == ' ' || *p == '\t')) p++;
        while (p < stop && (stop[-1] == ' ' || stop[-1] == '\t')) stop--;
        if (p < stop) st = wisp_words_label(w, p, (size_t)(stop - p), err);
        p = next;
    }
    return st;
}

wisp_status wisp_words_label_id(struct wisp_words *w, int32_t id, wisp_error *err)
{
    return w->r->counting ? WISP_OK : wisp_builder_label(w->out, id, err);
}

wisp_status wisp_words_end(struct wisp_words *w, wisp_error *err)
{
    wisp_tokenizer_begin(&w->tokens);
    w->row_unknown = 0;
    w->seen.n_rows++;
    return w->r->counting ? WISP_OK : wisp_builder_end_row(w->out, err);
}

wisp_status wisp_words_blank(struct wisp_words *w, wisp_error *err)
{
    w->n_blank++;
    return w->r->src->o->every_line ? wisp_words_end(w, err) : WISP_OK;
}

char *wisp_words_room(struct wisp_words *w, size_t n, wisp_error *err)
{
    if (n <= w->cap) return w->room;
    wisp_free(w->room);
    w->cap = 0;
    w->room = wisp_alloc(n, 2);
    if (w->room) w->cap = 2 * n;
    else wisp_fail_mem(err, 2 * n, "a field of text");
    return w->room;
}

/* ---- passes ---- */

static wisp_status first(void *arg, const char *begin, const char *end, bool *taken,
                         wisp_error *err)
{
    const struct wisp_words_format *f = ((struct reading *)arg)->f;
    return f->first(f->arg, begin, end, taken, err);
}

static const char *cut(void *arg, const char *begin, const char *end)
{
    const struct wisp_words_format *f = ((struct reading *)arg)->f;
    return f->cut(f->arg, begin, end);
}

static wisp_status parse(void *arg, const struct wisp_chunk *c, struct wisp_builder *out,
                         void *local, wisp_error *err)
{
    const struct reading *r = arg;
    struct wisp_words *w = local;
    size_t line = 0;
    wisp_error why;
    w->r = r;
    w->out = out;
    w->tokens.how = &r->src->o->text;
    w->tokens.stop = r->src->o->stop;
    w->tokens.see = see_feature;
    w->tokens.arg = w;
    wisp_tokenizer_begin(&w->tokens);
    w->row_unknown = 0;
    wisp_status st = r->f->parse(r->f->arg, w, c, &line, &why);
    return st ? wisp_fail_at(err, st, c->path, c->line + line, "%s", why.text) : WISP_OK;
}

static wisp_status merge_dict(struct wisp_dict *to, struct wisp_dict *from, size_t known,
                              wisp_error *err)
{
    wisp_status st = WISP_OK;
    for (size_t i = 0; i < from->n && !st; i++) {
        const struct wisp_dict_entry *f = &from->entries[i];
        struct wisp_dict_entry *e;
        st = wisp_dict_add(&e, to, from->text + f->start, f->bytes, f->hash, err);
        if (!st && (size_t)(e - to->entries) >= known) e->value += f->value;
    }
    wisp_dict_reset(from);
    return st;
}

static wisp_status merge(void *arg, const struct wisp_chunk *c, struct wisp_builder *out,
                         void *local, wisp_error *err)
{
    struct reading *r = arg;
    struct wisp_words *w = local;
    (void)c;
    (void)out;
    if (r->src->look) *r->src->look = w->seen;
    r->src->n_dropped_features += w->n_unknown_words;
    r->src->n_dropped_labels += w->n_unknown_labels;
    r->src->n_blank += w->n_blank;
    w->n_unknown_words = w->n_unknown_labels = w->n_blank = 0;
    wisp_status st = merge_dict(&r->words, &w->words, r->known_words, err);
    return st ? st : merge_dict(&r->labels, &w->labels, r->known_labels, err);
}

static void clear_local(void *local)
{
    struct wisp_words *w = local;
    wisp_dict_clear(&w->words);
    wisp_dict_clear(&w->labels);
    wisp_tokenizer_clear(&w->tokens);
    wisp_free(w->room);
}

/* Counts become ids, from n on; rare ones -1.  Returns how many ids there are then. */
static size_t number(struct wisp_dict *d, size_t known, size_t n, int64_t min_count)
{
    for (size_t i = known; i < d->n; i++)
        d->entries[i].value = d->entries[i].value < min_count ? -1 : (int64_t)n++;
    return n;
}

/* A model's names that may grow: equal ones mean the first. */
static wisp_status begin_with(struct wisp_dict *d, const struct wisp_names *names, wisp_error *err)
{
    wisp_status st = WISP_OK;
    for (size_t i = 0; i < names->n && !st; i++) {
        const char *p = names->text + names->start[i];
        size_t n = names->start[i + 1] - names->start[i] - 1, before = d->n;
        struct wisp_dict_entry *e;
        st = wisp_dict_add(&e, d, p, n, wisp_dict_hash(p, n), err);
        if (!st && d->n > before) e->value = (int64_t)i;
    }
    return st;
}

/* The model's names and those of the dictionary beside them, less what was dropped. */
static wisp_status join_names(struct wisp_names *names, const struct wisp_names *model,
                              const struct wisp_dict *d, size_t known, wisp_error *err)
{
    size_t bytes = 0, room = model->bytes + 1 + d->text_bytes;
    char *text = wisp_alloc(room, 1);
    if (!text) return wisp_fail_mem(err, room, "names");
    memcpy(text, model->text, bytes = model->bytes);
    if (text[bytes - 1] != '\n') text[bytes++] = '\n';
    for (size_t i = known; i < d->n; i++) {
        const struct wisp_dict_entry *e = &d->entries[i];
        if (e->value < 0) continue;
        memcpy(text + bytes, d->text + e->start, e->bytes + 1);
        bytes += e->bytes + 1;
    }
    wisp_status st = wisp_names_init(names, text, bytes, false, err);
    if (st) wisp_free(text);
    return st;
}

/* The text of the dictionary, less what was dropped, becomes the names. */
static wisp_status name_ids(struct wisp_names *names, const struct wisp_names *model,
                            struct wisp_dict *d, size_t known, wisp_error *err)
{
    if (known) return join_names(names, model, d, known, err);
    size_t bytes = 0;
    for (size_t i = 0; i < d->n; i++) {
        const struct wisp_dict_entry *e = &d->entries[i];
        if (e->value < 0) continue;
        memmove(d->text + bytes, d->text + e->start, e->bytes + 1);
        bytes += e->bytes + 1;
    }
    if (bytes == 0) return WISP_OK;
    wisp_status st = wisp_names_init(names, d->text, bytes, false, err);
    if (!st) d->text = NULL; /* moved */
    return st;
}

/* What is fixed is looked up in the index that the options bring, or in one made here. */
static wisp_status fix(const struct wisp_lookup **out, struct wisp_lookup *own,
                       const struct wisp_lookup *ready, const struct wisp_names *names,
                       wisp_error *err)
{
    *out = ready;
    if (ready) return WISP_OK;
    *out = own;
    return names ? wisp_lookup_init(own, names, err) : WISP_OK;
}

static wisp_status prepare(struct reading *r, struct wisp_sink *sink,
                           const struct wisp_text_parser *parser, wisp_error *err)
{
    const struct wisp_read_options *o = r->src->o;
    r->fixed_words = o->vocab && o->vocab->n && !o->grow;
    r->fixed_labels = ((o->labels && o->labels->n) || o->n_labels) && !o->grow;
    if (!r->fixed_words && o->n_features)
        return wisp_fail_at(err, WISP_EINVAL, r->src->path, 0,
                            "words, but the features are known by number only: give a vocabulary "
                            "(line i names feature i)");
    wisp_status st = WISP_OK;
    if (r->fixed_words) st = fix(&r->find_word, &r->own[0], o->find_word, o->vocab, err);
    else if (o->vocab) st = begin_with(&r->words, o->vocab, err);
    if (!st && r->fixed_labels) st = fix(&r->find_label, &r->own[1], o->find_label, o->labels, err);
    else if (!st && o->labels) st = begin_with(&r->labels, o->labels, err);
    r->known_words = r->words.n;
    r->known_labels = r->labels.n;
    if (!st && !(r->fixed_words && r->fixed_labels)) {
        r->counting = true;
        st = wisp_text_read(r->src, sink, parser, err);
        r->counting = false;
    }
    size_t words = o->vocab ? o->vocab->n : 0, labels = o->labels ? o->labels->n : 0;
    r->n_words = r->fixed_words ? words
                                : number(&r->words, r->known_words, words,
                                         o->min_count ? o->min_count : OUR_MIN_COUNT);
    r->n_labels = r->fixed_labels ? labels : number(&r->labels, r->known_labels, labels, 0);
    if (o->n_features > r->n_words) r->n_words = o->n_features;
    if (o->n_labels > r->n_labels) r->n_labels = o->n_labels;
    return st;
}

/* What the beginning of the text is like. */
static wisp_status look(struct reading *r, struct wisp_sink *sink,
                        const struct wisp_text_parser *parser, wisp_error *err)
{
    enum { LOOK = 1 << 18 };
    struct wisp_text_parser brief = *parser;
    brief.only = LOOK;
    r->counting = r->fixed_words = r->fixed_labels = true;
    return wisp_text_read(r->src, sink, &brief, err);
}

wisp_status wisp_words_read(struct wisp_source *src, struct wisp_sink *sink,
                            const struct wisp_words_format *f, wisp_error *err)
{
    struct reading r = { .src = src, .f = f };
    struct wisp_text_parser parser = { .arg = &r,
                                       .parse = parse,
                                       .merge = merge,
                                       .clear = clear_local,
                                       .local_bytes = sizeof(struct wisp_words),
                                       .first = f->first ? first : NULL,
                                       .cut = f->cut ? cut : NULL };
    struct wisp_names labels = { 0 }, vocab = { 0 };
    if (src->look) return look(&r, sink, &parser, err);
    wisp_status st = prepare(&r, sink, &parser, err);
    if (!st) wisp_sink_at_least(sink, r.n_words, r.n_labels);
    if (!st) st = wisp_text_read(src, sink, &parser, err);
    if (!st && !r.fixed_labels)
        st = name_ids(&labels, src->o->labels, &r.labels, r.known_labels, err);
    if (!st && !r.fixed_words) st = name_ids(&vocab, src->o->vocab, &r.words, r.known_words, err);
    if (!st) wisp_sink_names(sink, &labels, &vocab);
    wisp_names_clear(&labels);
    wisp_names_clear(&vocab);
    wisp_dict_clear(&r.words);
    wisp_dict_clear(&r.labels);
    for (int i = 0; i < 2; i++) wisp_lookup_clear(&r.own[i]);
    return st;
}

/* ---- columns ---- */

/* The place of a name in "a,b,c", case counting or not; -1: it is not there. */
static int place_in(const char *list, const char *name, size_t bytes, bool fold)
{
    for (int i = 0;; i++) {
        size_t n = strcspn(list, ",");
        if (n == bytes && (fold ? wisp_ncasecmp : strncmp)(list, name, n) == 0) return i;
        if (!list[n]) return -1;
        list += n + 1;
    }
}

static int column(const char *listed, const char *usual, const char *name, size_t bytes)
{
    if (*listed) return place_in(listed, name, bytes, false);
    int i = place_in(usual, name, bytes, true);
    return i < 0 ? -1 : 0;
}

int wisp_text_column(const struct wisp_text_how *how, const char *name, size_t bytes)
{
    return column(how->text_column,
                  "text,sentence,document,content,body,review,question,query,utterance", name,
                  bytes);
}

int wisp_label_column(const struct wisp_text_how *how, const char *name, size_t bytes)
{
    return column(how->label_column,
                  "label,labels,class,category,categories,tag,tags,intent,target", name, bytes);
}

int wisp_text_columns_listed(const struct wisp_text_how *how)
{
    int n = *how->text_column != 0;
    for (const char *p = how->text_column; *p; p++) n += *p == ',';
    return n;
}

/* Text with labels, as fastText reads it:
 *
 *   __label__sport __label__uk some words of the text
 *
 * A token ends at a blank (space, tab, CR, VT, FF); bytes are kept as they are: no lower-casing, no
 * change of UTF-8.  Labels may stand anywhere on the line; lines of blanks alone are no rows
 * (for a model and in memory, as from stdin: rows without features).
 * Features are the words, valued by how often they occur, and with 'pairs' also neighbouring words
 * (labels between them do not count) as "a b".
 *
 * The text is read twice.  Pass 1 counts: each chunk fills its own dictionaries, which are merged
 * in the order of the text, so a word's number is that of its first appearance for any number of
 * threads.  What occurs fewer than min_count times is then dropped, the rest renumbered in
 * order.  Pass 2 makes the rows; the dictionaries no longer change, so chunks just look up.
 * With a model's names pass 1 is not needed: unknown words are dropped and counted, the k-th
 * unknown label of a row becomes id n_labels + k, which no prediction can hit.
 * Where a model's names may grow, they come first in the dictionaries, with their ids, and what
 * pass 1 finds beside them is numbered from there on. */
#include "data/dict.h"
#include "data/text.h"
#include "base/mem.h"

#include <string.h>

static const char mark[] = "__label__";
enum { MARK = sizeof mark - 1 };

struct reading {
    struct wisp_source *src;
    struct wisp_dict words, labels;   /* value: count in pass 1, then the id, or -1 */
    bool fixed_words, fixed_labels;   /* the model's: pass 1 leaves them alone */
    size_t known_words, known_labels; /* the model's, first of the dictionaries: they have ids */
    bool counting;
    size_t n_words, n_labels; /* ids in use */
};

struct local { /* of a chunk */
    struct wisp_dict words, labels;
    char *pair; /* (cap) two words joined */
    size_t cap;
    size_t n_unknown_words, n_unknown_labels, n_blank;
    int32_t row_unknown; /* labels of the row in progress */
};

static bool blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_label(const char *p, size_t n)
{
    return n >= MARK && !memcmp(p, mark, MARK);
}

static wisp_status count(struct wisp_dict *d, const char *p, size_t n, wisp_error *err)
{
    struct wisp_dict_entry *e;
    wisp_status st = wisp_dict_add(&e, d, p, n, wisp_dict_hash(p, n), err);
    if (!st) e->value++;
    return st;
}

static wisp_status see_feature(const struct reading *r, struct local *l, struct wisp_builder *out,
                               const char *p, size_t n, bool pair, wisp_error *err)
{
    if (r->counting) return r->fixed_words ? WISP_OK : count(&l->words, p, n, err);
    const struct wisp_dict_entry *e = wisp_dict_find(&r->words, p, n, wisp_dict_hash(p, n));
    if (!e) l->n_unknown_words += !pair;
    else if (e->value >= 0) return wisp_builder_feature(out, (int32_t)e->value, 1, err);
    return WISP_OK;
}

static wisp_status see_label(const struct reading *r, struct local *l, struct wisp_builder *out,
                             const char *p, size_t n, wisp_error *err)
{
    if (r->counting) return r->fixed_labels ? WISP_OK : count(&l->labels, p, n, err);
    const struct wisp_dict_entry *e = wisp_dict_find(&r->labels, p, n, wisp_dict_hash(p, n));
    if (e) return wisp_builder_label(out, (int32_t)e->value, err);
    l->n_unknown_labels++;
    return wisp_builder_label(out, (int32_t)r->n_labels + l->row_unknown++, err);
}

/* The words 'a' and 'b' joined by one space: where they stand, or a copy. */
static wisp_status see_pair(const struct reading *r, struct local *l, struct wisp_builder *out,
                            const char *a, size_t n_a, const char *b, size_t n_b, wisp_error *err)
{
    size_t n = n_a + 1 + n_b;
    if (a + n_a + 1 == b && a[n_a] == ' ') return see_feature(r, l, out, a, n, true, err);
    if (n > l->cap) {
        wisp_free(l->pair);
        l->cap = 0;
        l->pair = wisp_alloc(2 * n, 1);
        if (!l->pair) return wisp_fail_mem(err, 2 * n, "a pair of words");
        l->cap = 2 * n;
    }
    memcpy(l->pair, a, n_a);
    l->pair[n_a] = ' ';
    memcpy(l->pair + n_a + 1, b, n_b);
    return see_feature(r, l, out, l->pair, n, true, err);
}

/* One line, without its end.  *n_tokens: 0 for a line of blanks. */
static wisp_status parse_line(const struct reading *r, struct local *l, struct wisp_builder *out,
                              const char *p, const char *end, size_t *n_tokens, wisp_error *err)
{
    const char *before = NULL; /* the last word */
    size_t n_before = 0;
    l->row_unknown = 0;
    wisp_status st = WISP_OK;
    for (*n_tokens = 0; !st; ++*n_tokens) {
        while (p < end && blank(*p)) p++;
        const char *start = p;
        while (p < end && !blank(*p)) p++;
        size_t n = (size_t)(p - start);
        if (n == 0) break;
        if (is_label(start, n)) {
            if (n == MARK)
                return wisp_fail(err, WISP_EFORMAT, "a label without a name after '%s'", mark);
            st = see_label(r, l, out, start + MARK, n - MARK, err);
            continue;
        }
        st = see_feature(r, l, out, start, n, false, err);
        if (!st && before && r->src->o->pairs)
            st = see_pair(r, l, out, before, n_before, start, n, err);
        before = start;
        n_before = n;
    }
    return st;
}

static wisp_status parse(void *arg, const struct wisp_chunk *c, struct wisp_builder *out,
                         void *local, wisp_error *err)
{
    const struct reading *r = arg;
    size_t line = c->line, n_tokens;
    for (const char *p = c->begin, *end; p < c->end; p = end + 1, line++) {
        end = memchr(p, '\n', (size_t)(c->end - p));
        wisp_error why;
        wisp_status st = parse_line(r, local, out, p, end, &n_tokens, &why);
        ((struct local *)local)->n_blank += !st && !n_tokens;
        if (!st && (n_tokens || r->src->o->every_line) && !r->counting)
            st = wisp_builder_end_row(out, &why);
        if (st) return wisp_fail(err, st, "%s:%zu: %s", c->path, line, why.text);
    }
    return WISP_OK;
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
    struct local *l = local;
    (void)c;
    (void)out;
    r->src->n_dropped_features += l->n_unknown_words;
    r->src->n_dropped_labels += l->n_unknown_labels;
    r->src->n_blank += l->n_blank;
    l->n_unknown_words = l->n_unknown_labels = l->n_blank = 0;
    wisp_status st = merge_dict(&r->words, &l->words, r->known_words, err);
    return st ? st : merge_dict(&r->labels, &l->labels, r->known_labels, err);
}

static void clear_local(void *local)
{
    struct local *l = local;
    wisp_dict_clear(&l->words);
    wisp_dict_clear(&l->labels);
    wisp_free(l->pair);
}

/* Counts become ids, from n on; rare ones -1.  Returns how many ids there are then. */
static size_t number(struct wisp_dict *d, size_t known, size_t n, int64_t min_count)
{
    for (size_t i = known; i < d->n; i++)
        d->entries[i].value = d->entries[i].value < min_count ? -1 : (int64_t)n++;
    return n;
}

/* A model's names: equal ones mean the first. */
static wisp_status look_up(struct wisp_dict *d, const struct wisp_names *names, wisp_error *err)
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

static wisp_status prepare(struct reading *r, struct wisp_sink *sink,
                           const struct wisp_text_parser *parser, wisp_error *err)
{
    const struct wisp_read_options *o = r->src->o;
    r->fixed_words = o->vocab && o->vocab->n && !o->grow;
    r->fixed_labels = ((o->labels && o->labels->n) || o->n_labels) && !o->grow;
    if (!r->fixed_words && o->n_features)
        return wisp_fail(err, WISP_EINVAL,
                         "%s: words, but the features are known by number only: give a vocabulary "
                         "(line i names feature i)",
                         r->src->path);
    wisp_status st = o->vocab ? look_up(&r->words, o->vocab, err) : WISP_OK;
    if (!st && o->labels) st = look_up(&r->labels, o->labels, err);
    r->known_words = r->words.n;
    r->known_labels = r->labels.n;
    if (!st && !(r->fixed_words && r->fixed_labels)) {
        r->counting = true;
        st = wisp_text_read(r->src, sink, parser, err);
        r->counting = false;
    }
    size_t words = o->vocab ? o->vocab->n : 0, labels = o->labels ? o->labels->n : 0;
    r->n_words = r->fixed_words ? words : number(&r->words, r->known_words, words, o->min_count);
    r->n_labels = r->fixed_labels ? labels : number(&r->labels, r->known_labels, labels, 0);
    if (o->n_features > r->n_words) r->n_words = o->n_features;
    if (o->n_labels > r->n_labels) r->n_labels = o->n_labels;
    return st;
}

static wisp_status fasttext_read(struct wisp_source *src, struct wisp_sink *sink, wisp_error *err)
{
    struct reading r = { .src = src };
    struct wisp_text_parser parser = { .arg = &r,
                                       .parse = parse,
                                       .merge = merge,
                                       .clear = clear_local,
                                       .local_bytes = sizeof(struct local) };
    struct wisp_names labels = { 0 }, vocab = { 0 };
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
    return st;
}

/* Ours if a token of the first line with anything on it is a label. */
static bool fasttext_probe(const char *path, const char *head, size_t n)
{
    (void)path;
    const char *p = head, *end = head + n;
    while (p < end && (blank(*p) || *p == '\n')) p++;
    const char *nl = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
    if (nl) end = nl;
    for (; p < end; p++) {
        if (is_label(p, (size_t)(end - p))) return true;
        while (p < end && !blank(*p)) p++;
    }
    return false;
}

/* ---- writing ---- */

static wisp_status check_names(const struct wisp_names *names, size_t n, const char *what,
                               wisp_error *err)
{
    if (names->n < n)
        return wisp_fail(err, WISP_ENOTSUP,
                         "fasttext text needs names: %zu of %zu %s have one; write xc or libsvm",
                         names->n, n, what);
    for (size_t i = 0; i < n; i++) {
        const char *p = names->text + names->start[i], *end = names->text + names->start[i + 1] - 1;
        bool bad = p == end;
        for (const char *c = p; c < end; c++) bad |= blank(*c);
        if (bad)
            return wisp_fail(
                err, WISP_ENOTSUP,
                "fasttext text cannot hold the name '%.*s' of %s %zu: a name there has "
                "no blanks (word pairs are not written); write xc or libsvm",
                end - p < 40 ? (int)(end - p) : 40, p, what, i);
    }
    return WISP_OK;
}

static wisp_status put_name(struct wisp_out *out, const struct wisp_names *names, int32_t id,
                            const char *before, wisp_error *err)
{
    wisp_status st = wisp_out_write(out, before, strlen(before), err);
    size_t n = names->start[id + 1] - names->start[id] - 1;
    return st ? st : wisp_out_write(out, names->text + names->start[id], n, err);
}

static wisp_status put_row(struct wisp_out *out, const struct wisp_data *d,
                           const struct wisp_rows *b, size_t row, wisp_error *err)
{
    wisp_status st = WISP_OK;
    const char *before = "";
    for (size_t k = b->yp[row]; k < b->yp[row + 1] && !st; k++) {
        st = wisp_out_write(out, before, strlen(before), err);
        if (!st) st = put_name(out, &d->labels, b->yi[k], mark, err);
        before = " ";
    }
    for (size_t k = b->xp[row]; k < b->xp[row + 1]; k++)
        for (float times = wisp_row_value(b, k); times >= 1 && !st; times--) {
            st = put_name(out, &d->vocab, wisp_row_id(b, k), before, err);
            before = " ";
        }
    return st ? st : wisp_out_write(out, "\n", 1, err);
}

/* Would the first word be taken for something else: packed text, a byte order mark?  Each of these
 * has a byte among its first four that is no plain character. */
static bool begins_oddly(const struct wisp_data *d)
{
    if (d->n_rows == 0) return false;
    const struct wisp_rows *r = &d->blocks[0];
    if (r->yp[1] > 0 || r->xp[1] == 0) return false; /* a label is first, or nothing */
    const char *p = d->vocab.text + d->vocab.start[wisp_row_id(r, 0)];
    bool odd = false;
    for (int i = 0; i < 4 && p[i] != '\n'; i++) odd |= (unsigned char)p[i] - 0x20u >= 0x5f;
    return odd;
}

static wisp_status fasttext_write(const struct wisp_data *d, struct wisp_context *ctx,
                                  const char *path, wisp_error *err)
{
    (void)ctx;
    wisp_status st = check_names(&d->labels, d->n_labels, "label", err);
    if (!st) st = check_names(&d->vocab, d->n_features, "feature", err);
    if (!st && !d->counts)
        st = wisp_fail(
            err, WISP_ENOTSUP,
            "fasttext text holds counts only, and these values are not: write xc or libsvm");
    struct wisp_out *out = NULL;
    if (!st) st = wisp_out_create(&out, path, err);
    if (!st && begins_oddly(d)) st = wisp_out_write(out, "\n", 1, err); /* no row */
    for (size_t i = 0; i < d->n_blocks && !st; i++)
        for (size_t row = 0; row < d->blocks[i].n && !st; row++)
            st = put_row(out, d, &d->blocks[i], row, err);
    if (!st) return wisp_out_commit(out, err);
    wisp_out_abort(out);
    return st;
}

const struct wisp_format wisp_format_fasttext = {
    .name = "fasttext",
    .what = "lines of words with labels marked __label__",
    .index_base = -1,
    .words = true,
    .probe = fasttext_probe,
    .read = fasttext_read,
    .write = fasttext_write,
};

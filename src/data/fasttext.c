/* Text with labels, as fastText reads it:
 *
 *   __label__sport __label__uk some words of the text
 *
 * Labels are the tokens (cut at blanks) that begin with the mark; they may stand anywhere on the
 * line.  The rest of the line is the text; what it becomes is said by the options (tokens.h).
 * Lines of blanks alone are no rows, unless every line is to be answered. */
#include "data/words.h"
#include "base/mem.h"

#include <string.h>

static const char mark[] = "__label__";
enum { MARK = sizeof mark - 1 };

static bool blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The token at or after p that is a label, its end in *stop; NULL: there is none.  Labels are few,
 * so the mark is searched for, not every token looked at. */
static const char *next_label(const char *p, const char *begin, const char *end, const char **stop)
{
    while ((p = memmem(p, (size_t)(end - p), mark, MARK))) {
        if (p == begin || blank(p[-1])) {
            for (*stop = p; *stop < end && !blank(**stop);) ++*stop;
            return p;
        }
        p += MARK;
    }
    return NULL;
}

static wisp_status parse_line(struct wisp_words *w, const char *p, const char *end, wisp_error *err)
{
    const char *begin = p, *stop = NULL, *label;
    wisp_status st = WISP_OK;
    while (st == WISP_OK && (label = next_label(p, begin, end, &stop))) {
        st = wisp_words_text(w, p, (size_t)(label - p), err);
        if (st == WISP_OK && stop - label == MARK)
            return wisp_fail(err, WISP_EFORMAT, "a label without a name after '%s'", mark);
        if (st == WISP_OK)
            st = wisp_words_label(w, label + MARK, (size_t)(stop - label) - MARK, err);
        p = stop;
    }
    if (st == WISP_OK) st = wisp_words_text(w, p, (size_t)(end - p), err);
    return st == WISP_OK ? wisp_words_end(w, err) : st;
}

static wisp_status parse(void *arg, struct wisp_words *w, const struct wisp_chunk *c, size_t *line,
                         wisp_error *err)
{
    (void)arg;
    wisp_status st = WISP_OK;
    for (const char *p = c->begin, *end; p < c->end && st == WISP_OK; p = end + 1) {
        end = memchr(p, '\n', (size_t)(c->end - p));
        const char *q = p;
        while (q < end && blank(*q)) q++;
        st = q == end ? wisp_words_blank(w, err) : parse_line(w, p, end, err);
        if (st == WISP_OK) ++*line;
    }
    return st;
}

static wisp_status fasttext_read(struct wisp_source *src, struct wisp_sink *sink, wisp_error *err)
{
    const struct wisp_words_format f = { .parse = parse };
    return wisp_words_read(src, sink, &f, err);
}

/* Ours if a token anywhere in the first bytes is a label. */
static bool fasttext_probe(const char *path, const char *head, size_t n)
{
    (void)path;
    const char *stop;
    return next_label(head, head, head + n, &stop) != NULL;
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

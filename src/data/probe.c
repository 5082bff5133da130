/* Which format a file or a text has: what the caller says; else what the bytes say; and where they
 * leave it open (rows of numbers without a header are XC text from 0, or LibSVM text from 1), what
 * the rows are like that these go with: those that a model, or a training set, was made from. */
#include "base/text.h"
#include "data/rowtext.h"
#include "data/spool.h"
#include "data/words.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { HEAD = 8192 };

struct probe {
    const char *path, *head;
    size_t n;
};

/* "xc, libsvm, ...": the names of all formats. */
static const char *names(char *to, size_t room)
{
    const struct wisp_format *f;
    size_t n = 0;
    to[0] = 0;
    for (size_t i = 0; (f = wisp_format_at(i)) && n + strlen(f->name) + 3 < room; i++)
        n += (size_t)snprintf(to + n, room - n, "%s%s", i ? ", " : "", f->name);
    return to;
}

bool wisp_path_ends(const char *path, const char *ending)
{
    size_t n = strlen(path), bytes = strlen(ending);
    if (n > 3 && wisp_casecmp(path + n - 3, ".gz") == 0) n -= 3;
    else if (n > 4 && wisp_casecmp(path + n - 4, ".zst") == 0) n -= 4;
    return n > bytes && wisp_ncasecmp(path + n - bytes, ending, bytes) == 0;
}

bool wisp_format_ends(const struct wisp_format *f, const char *path)
{
    for (const char *p = f->endings, *end; p && *p; p = *end ? end + 1 : end) {
        char one[20];
        end = p + strcspn(p, " ");
        snprintf(one, sizeof one, "%.*s", (int)(end - p), p);
        if (wisp_path_ends(path, one)) return true;
    }
    return false;
}

static wisp_status other_kind(const struct probe *p, const char *found, const char *wanted,
                              const char *format, wisp_error *err)
{
    char line[WISP_EXCERPT];
    return wisp_fail_at(err, WISP_EFORMAT, p->path, 1,
                        "'%s': found %s, but these rows go with %s (format %s); name the format "
                        "with --format if they do fit",
                        wisp_text_excerpt(line, p->head, p->head + p->n, NULL), found, wanted,
                        format);
}

/* The format of rows that go with 'like', when the bytes look like 'found' (NULL: nothing known).
 */
static wisp_status go_with(const struct wisp_format **f, struct wisp_read_options *o,
                           const struct wisp_format *found, const struct probe *p, wisp_error *err)
{
    const struct wisp_format *like = o->like;
    bool open = !found || (!found->binary && !found->header && found->words == like->words);
    *f = found;
    if (found && found->binary) return WISP_OK;
    if (like->words && wisp_rowtext_certain(p->head, p->n))
        return other_kind(p, "numbers", "words", like->name, err);
    if (like->words) { /* a line of text needs no mark to be known by; "3 4 5" are words there */
        /* Lines that are typed to be answered are texts, even if the model's columns have names. */
        const bool typed = o->every_line && strcmp(p->path, wisp_spool_name("-")) == 0;
        const bool table = (*o->text.text_column && !typed) ||
                           (like->table && wisp_table_columns(like, &o->text, p->head, p->n) > 0);
        *f = found && found->words ? found : table ? like : &wisp_format_fasttext;
        return WISP_OK;
    }
    if (!like->words && found && found->words && (!o->vocab || o->named & WISP_NAMED_FEATURES))
        return other_kind(p, "words", "numbers", like->name, err);
    if (!open) return WISP_OK;
    bool svm = like->header && wisp_format_ends(&wisp_format_libsvm, p->path);
    *f = svm ? &wisp_format_libsvm : like;
    o->no_header |= (*f)->header;
    return WISP_OK;
}

const struct wisp_format *wisp_format_of_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode) ? &wisp_format_images : NULL;
}

wisp_status wisp_format_choose(const struct wisp_format **f, struct wisp_read_options *o,
                               const char *path, const char *text, size_t bytes, wisp_error *err)
{
    struct wisp_map map = { 0 };
    char head[HEAD], line[WISP_EXCERPT], known[200];
    size_t n = 0;
    wisp_status st = WISP_OK;
    *f = o->format ? wisp_format_find(o->format) : NULL;
    if (o->format && !*f)
        return wisp_fail(err, WISP_EINVAL, "format: '%.40s' is none of %s", o->format,
                         names(known, sizeof known));
    if (!*f && !text) *f = wisp_format_of_folder(path);
    if (!*f) {
        if (!text) st = wisp_map_open(&map, path, err);
        if (st == WISP_OK)
            st = wisp_text_head(head, sizeof head, &n, text ? (const unsigned char *)text : map.p,
                                text ? bytes : map.bytes, path, err);
        st = wisp_map_end(&map, st, err);
        if (st != WISP_OK) return st;
        *f = wisp_format_probe(path, head, n);
        const struct probe p = { path, head, n };
        if (o->no_header && !(*f && (*f)->words)) *f = &wisp_format_xc;
        else if (o->like && !o->like->binary) st = go_with(f, o, *f, &p, err);
        else if (*f && (*f)->words && o->n_features && !o->vocab)
            st = other_kind(&p, "words", "numbers", "none", err);
        if (st != WISP_OK) return st;
    }
    if (!*f && n == 0) return wisp_fail_at(err, WISP_EFORMAT, path, 1, "empty, expected rows");
    if (!*f)
        return wisp_fail_at(err, WISP_EFORMAT, path, 1,
                            "'%s' is the beginning of no known format (%s); name it with "
                            "--format",
                            wisp_text_excerpt(line, head, head + n, NULL),
                            names(known, sizeof known));
    if (o->index_base < 0 && *f == o->like) o->index_base = o->like_base;
    return WISP_OK;
}

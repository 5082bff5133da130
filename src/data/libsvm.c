/* LibSVM text: label[,label...] id:value ... , no header, '#' starts a comment.
 *
 * Feature ids start at 1 (--index-base 0 for files that start at 0).  Labels are class numbers and
 * taken as they are, whole numbers from 0, with no base; or names: words, or numbers of which some
 * are negative (-1 and +1).  A line that begins with a blank has no labels; an empty line is
 * skipped, unless every line must be a row; qid fields are refused.  The rest is in rowtext.c. */
#include "data/rowtext.h"

static bool probe(const char *path, const char *head, size_t n)
{
    (void)path;
    return wisp_rowtext_probe(head, n);
}

static wisp_status read_libsvm(struct wisp_source *src, struct wisp_sink *sink, wisp_error *err)
{
    const struct wisp_read_options *o = src->o;
    struct wisp_dialect d = { .libsvm = true,
                              .every_line = o->every_line,
                              .base = wisp_index_base(&wisp_format_libsvm, o),
                              .n_rows = SIZE_MAX,
                              .n_features = wisp_ids_max,
                              .n_labels = wisp_ids_max };
    return wisp_rowtext_read(&d, src, sink, err);
}

static wisp_status write_libsvm(const struct wisp_data *data, struct wisp_context *ctx,
                                const char *path, wisp_error *err)
{
    (void)ctx;
    struct wisp_dialect d = { .libsvm = true, .base = 1 };
    struct wisp_out *out;
    wisp_status st = wisp_out_create(&out, path, err);
    if (st != WISP_OK) return st;
    st = wisp_rowtext_write(out, data, &d, err);
    if (st == WISP_OK) return wisp_out_commit(out, err);
    wisp_out_abort(out);
    return st;
}

const struct wisp_format wisp_format_libsvm = {
    .name = "libsvm",
    .what = "label,label id:value ..., ids from 1; labels are numbers or names (also .gz, .zst)",
    .endings = ".svm .libsvm",
    .index_base = 1,
    .probe = probe,
    .read = read_libsvm,
    .write = write_libsvm,
};

/* XC text, the format of the Extreme Classification repository:
 *
 *   rows features labels                  header; a file without it is read with --no-header
 *   label,label feature:value ...         one row a line (rowtext.c), an empty line is an empty row
 *
 * All ids start at 0 (or at --index-base) and lie below the header's numbers; there are exactly as
 * many rows as it says. */
#include "data/number.h"
#include "data/rowtext.h"

#include <stdio.h>

/* Three whole numbers, and nothing else. */
static bool read_header(uint64_t n[3], const char *p, const char *end)
{
    for (int i = 0; i < 3; i++) {
        while (p < end && (*p == ' ' || *p == '\t')) p++;
        const char *begin = p;
        for (n[i] = 0; p < end && wisp_is_digit(*p); p++) n[i] = n[i] * 10 + (uint64_t)(*p - '0');
        if (p == begin || p - begin > 19) return false; /* 19 digits fit */
        if (i < 2 && p < end && *p != ' ' && *p != '\t') return false;
    }
    while (p < end && (*p == ' ' || *p == '\t')) p++;
    return p == end;
}

bool wisp_xc_header(const char *head, size_t n)
{
    uint64_t numbers[3];
    const char *nl = memchr(head, '\n', n), *end = nl ? nl : head + n;
    if (end > head && end[-1] == '\r') end--;
    return read_header(numbers, head, end);
}

static bool probe(const char *path, const char *head, size_t n)
{
    (void)path;
    return wisp_xc_header(head, n);
}

struct xc { /* wisp_rowtext_parser's argument comes first */
    struct wisp_dialect d;
    const char *path;
};

static wisp_status header(void *arg, const char *begin, const char *end, bool *taken,
                          wisp_error *err)
{
    struct xc *xc = arg;
    uint64_t n[3];
    char buf[WISP_EXCERPT];
    if (!read_header(n, begin, end))
        return wisp_fail(err, WISP_EFORMAT,
                         "%s:1: expected the header 'rows features labels', found '%s'; "
                         "a file without header is read with --no-header",
                         xc->path, wisp_text_excerpt(buf, begin, end, NULL));
    if (n[1] > wisp_ids_max || n[2] > wisp_ids_max)
        return wisp_fail(
            err, WISP_EFORMAT,
            "%s:1: the header says %llu features and %llu labels; at most %zu are read", xc->path,
            (unsigned long long)n[1], (unsigned long long)n[2], wisp_ids_max);
    xc->d.header = *taken = true;
    xc->d.n_rows = n[0];
    xc->d.n_features = n[1];
    xc->d.n_labels = n[2];
    return WISP_OK;
}

static wisp_status read_xc(struct wisp_source *src, struct wisp_sink *sink, wisp_error *err)
{
    const struct wisp_read_options *o = src->o;
    struct xc xc = { .d = { .base = wisp_index_base(&wisp_format_xc, o),
                            .n_rows = SIZE_MAX,
                            .n_features = wisp_ids_max,
                            .n_labels = wisp_ids_max,
                            .keep_features = o->n_features },
                     .path = src->path };
    struct wisp_text_parser parser = wisp_rowtext_parser(&xc.d);
    if (!o->no_header) parser.first = header;
    wisp_status st = wisp_text_read(src, sink, &parser, err);
    src->n_dropped_features += xc.d.n_dropped;
    if (st != WISP_OK || o->no_header) return st;
    if (!xc.d.header)
        return wisp_fail(err, WISP_EFORMAT,
                         "%s:1: empty, expected the header 'rows features labels'", src->path);
    if (xc.d.rows_read != xc.d.n_rows)
        return wisp_fail(err, WISP_EFORMAT,
                         "%s:%zu: %zu rows, but the header says %zu: was the file cut?", src->path,
                         xc.d.rows_read + 1, xc.d.rows_read, xc.d.n_rows);
    size_t kept = xc.d.n_features;
    if (o->n_features && kept > o->n_features) kept = o->n_features;
    wisp_sink_at_least(sink, kept, xc.d.n_labels);
    return WISP_OK;
}

static wisp_status write_xc(const struct wisp_data *data, struct wisp_context *ctx,
                            const char *path, wisp_error *err)
{
    (void)ctx;
    struct wisp_dialect d = { 0 };
    struct wisp_out *out;
    wisp_status st = wisp_out_create(&out, path, err);
    if (st != WISP_OK) return st;
    char line[80];
    int n = snprintf(line, sizeof line, "%zu %zu %zu\n", data->n_rows, data->n_features,
                     data->n_labels);
    st = wisp_out_write(out, line, (size_t)n, err);
    if (st == WISP_OK) st = wisp_rowtext_write(out, data, &d, err);
    if (st == WISP_OK) return wisp_out_commit(out, err);
    wisp_out_abort(out);
    return st;
}

const struct wisp_format wisp_format_xc = {
    .name = "xc",
    .what =
        "text of the XC repository: header, then label,label feature:value ... (also .gz, .zst)",
    .index_base = 0,
    .header = true,
    .probe = probe,
    .read = read_xc,
    .write = write_xc,
};

/* XC text, the format of the Extreme Classification repository:
 *
 *   rows features labels                  header; a file without it is read with --no-header
 *   label,label feature:value ...         one row per line (rowtext.c); an empty line: an empty row
 *
 * All ids start at 0 (or at --index-base), and there are as many of them as the header says at most;
 * there are exactly as many rows as it says.  Labels keep the numbers that they have here.  Numbers that are out of proportion to the text are made compact (ids.h).
 */
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

struct xc { /* the dialect comes first: it is what 'header' gets */
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
        return wisp_fail_at(err, WISP_EFORMAT, xc->path, 1,
                            "expected the header 'rows features labels', found '%s'; "
                            "a file without header is read with --no-header",
                            wisp_text_excerpt(buf, begin, end, NULL));
    if (n[1] > wisp_ids_max || n[2] > wisp_ids_max - (size_t)xc->d.base)
        return wisp_fail_at(err, WISP_EFORMAT, xc->path, 1,
                            "the header says %llu features and %llu labels; at most %zu are read",
                            (unsigned long long)n[1], (unsigned long long)n[2], wisp_ids_max);
    if (!wisp_rowtext_header(&xc->d, (uint64_t[]){ n[2] + (size_t)xc->d.base, n[1] }))
        return wisp_fail_at(err, WISP_EFORMAT, xc->path, 1,
                            "the header says %llu features and %llu labels, out of proportion "
                            "to the text; leave out --labels, --vocab and --init, so that ids are "
                            "made compact",
                            (unsigned long long)n[1], (unsigned long long)n[2]);
    if (xc->d.wants) return WISP_ESTOPPED;
    xc->d.header = *taken = true;
    xc->d.n_rows = n[0];
    xc->d.n_features = n[1];
    xc->d.n_labels = n[2] + (size_t)xc->d.base; /* they keep their numbers: 0 is nobody's then */
    return WISP_OK;
}

/* At least what the header says, unless ids are by name; not more than a model knows, or than is in
 * proportion. */
static void set_sizes(struct wisp_sink *sink, const struct xc *xc, const struct wisp_source *src)
{
    const size_t keep = src->o->n_features, *room = xc->d.room;
    const size_t most = keep && keep < room[1] ? keep : room[1];
    const size_t features = xc->d.n_features > most ? most : xc->d.n_features;
    const size_t labels = xc->d.n_labels > room[0] ? room[0] : xc->d.n_labels;
    const unsigned named = src->named | src->o->named;
    wisp_sink_at_least(sink, named & WISP_NAMED_FEATURES ? 0 : features,
                       named & WISP_NAMED_LABELS ? 0 : labels);
}

static wisp_status read_xc(struct wisp_source *src, struct wisp_sink *sink, wisp_error *err)
{
    const struct wisp_read_options *o = src->o;
    struct xc xc = { .d = { .base = wisp_index_base(&wisp_format_xc, o),
                            .first = o->no_header ? NULL : header,
                            .n_rows = SIZE_MAX,
                            .n_features = wisp_ids_max,
                            .n_labels = wisp_ids_max },
                     .path = src->path };
    wisp_status st = wisp_rowtext_read(&xc.d, src, sink, err);
    if (st != WISP_OK || o->no_header || src->again) return st;
    if (!xc.d.header)
        return wisp_fail_at(err, WISP_EFORMAT, src->path, 1,
                            "empty, expected the header 'rows features labels'");
    if (xc.d.rows_read != xc.d.n_rows)
        return wisp_fail_at(err, WISP_EFORMAT, src->path, xc.d.rows_read + 1,
                            "%zu rows, but the header says %zu: was the file cut?", xc.d.rows_read,
                            xc.d.n_rows);
    set_sizes(sink, &xc, src);
    return WISP_OK;
}

/* As many ids as the numbers of the text need, where ids stand for these. */
static size_t most_ids(const struct wisp_data *d, unsigned side, size_t n)
{
    const struct wisp_names *numbers = wisp_rowtext_numbers(d, side);
    for (size_t i = 0; numbers && i < numbers->n; i++) {
        const size_t number = (size_t)wisp_names_number(numbers, i);
        if (number >= n) n = number + 1;
    }
    return n;
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
    int n = snprintf(line, sizeof line, "%zu %zu %zu\n", data->n_rows,
                     most_ids(data, WISP_NAMED_FEATURES, data->n_features),
                     most_ids(data, WISP_NAMED_LABELS, data->n_labels));
    st = wisp_out_write(out, line, (size_t)n, err);
    if (st == WISP_OK) st = wisp_rowtext_write(out, data, &d, err);
    if (st == WISP_OK) return wisp_out_commit(out, err);
    wisp_out_abort(out);
    return st;
}

const struct wisp_format wisp_format_xc = {
    .name = "xc",
    .what = "text of the XC repository: header, then label,label feature:value ..., ids from 0 "
            "(also .gz, "
            ".zst)",
    .endings = ".txt .xc",
    .index_base = 0,
    .header = true,
    .probe = probe,
    .read = read_xc,
    .write = write_xc,
};

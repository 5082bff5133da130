/* Rows from stdin, answered as they come: whatever whole lines have arrived form a batch.  They may
 * be packed, and may begin with the header line of XC text. */
#include "answers.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct stream {
    struct answers *answers;
    size_t *n_unknown; /* values that the model does not know */
    wisp_context *ctx;
    const wisp_model *model;
    const wisp_config *cfg;
};

/* Answers whole lines, the first of which is line 'line' of stdin. */
static wisp_status answer(const struct stream *s, const char *text, size_t bytes, size_t line,
                          wisp_error *err)
{
    wisp_data *d = NULL;
    size_t good = 0;
    wisp_status st = wisp_data_parse(&d, s->ctx, text, bytes, "stdin", s->cfg, s->model, err);
    if (st == WISP_OK) {
        wisp_data_stats stats;
        wisp_data_stats_get(d, &stats);
        *s->n_unknown += stats.n_unknown_values;
        st = answers_rows(s->answers, d, err);
    }
    wisp_data_free(d);
    if (st == WISP_OK) return st;
    const wisp_error why = *err;
    const size_t bad = why.line ? why.line : why.row; /* a row is a line */
    if (!bad) return st;

    /* The lines before the bad one are answered, however they were cut into batches. */
    for (size_t n = 1; n < bad && good < bytes; good++) n += text[good] == '\n';
    if (good > 0 && good < bytes && (st = answer(s, text, good, line, err)) != WISP_OK) return st;
    return refuse(err, why.code, "stdin:%zu: %.440s", line + bad - 1, why.text + why.place_bytes);
}

/* Three whole numbers, and nothing else. */
static bool is_header(const char *p, const char *end)
{
    int n = 0;
    while (p < end && strchr(" \t\r\n", *p) == NULL && n < 4) {
        const char *word = p;
        while (p < end && *p >= '0' && *p <= '9') p++;
        if (p == word) return false;
        while (p < end && (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n')) p++;
        n++;
    }
    return n == 3 && p == end;
}

/* Bytes of the first line if it is a header: numbers that are no row for this model. */
static size_t header_bytes(const struct stream *s, const char *text, size_t bytes)
{
    const char *nl = memchr(text, '\n', bytes);
    const size_t first = nl ? (size_t)(nl + 1 - text) : bytes;
    wisp_data *d = NULL;
    if (!is_header(text, text + first)) return 0;
    wisp_status st = wisp_data_parse(&d, s->ctx, text, first, "stdin", s->cfg, s->model, NULL);
    wisp_data_free(d);
    return st == WISP_EFORMAT ? first : 0;
}

wisp_status answer_stdin(struct answers *answers, size_t *n_unknown, wisp_context *ctx,
                         const wisp_model *model, const wisp_config *cfg, wisp_error *err)
{
    const struct stream s = { answers, n_unknown, ctx, model, cfg };
    wisp_lines *lines;
    const char *text;
    size_t bytes = 1, line;
    wisp_status st = wisp_lines_open(&lines, 0, "stdin", err);
    while (st == WISP_OK && bytes > 0) {
        st = wisp_lines_next(lines, &text, &bytes, &line, err);
        if (st != WISP_OK || bytes == 0) break;
        const size_t skip = line == 1 ? header_bytes(&s, text, bytes) : 0;
        if (skip < bytes) st = answer(&s, text + skip, bytes - skip, line + (skip > 0), err);
    }
    wisp_lines_free(lines);
    return st;
}

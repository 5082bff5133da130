/* The line format that XC and LibSVM text share: label,label feature:value feature:value */
#ifndef WISP_DATA_ROWTEXT_H
#define WISP_DATA_ROWTEXT_H

#include "data/text.h"

struct wisp_dialect {
    bool libsvm; /* '#' comments, whole numbers such as "1.0" as labels, empty lines are no rows */
    bool every_line; /* ... but here they are: each line is one */
    bool header;     /* the limits below are from a header, and say so in messages */
    int base;        /* first feature id, and in XC text first label id */
    size_t n_rows, n_features, n_labels; /* limits; SIZE_MAX: none (n_rows), wisp_ids_max */
    size_t keep_features; /* features from here on are dropped and counted; 0: none */
    /* out */
    size_t rows_read, n_dropped, n_blank;
};

/* A parser over 'd'; set its 'first' if there is a header. */
struct wisp_text_parser wisp_rowtext_parser(struct wisp_dialect *d);
/* All rows of 'data', with ids from 'base'. */
wisp_status wisp_rowtext_write(struct wisp_out *out, const struct wisp_data *data,
                               const struct wisp_dialect *d, wisp_error *err);
/* Does the first row read "label,label feature:value" or "feature:value"? */
bool wisp_rowtext_probe(const char *head, size_t n);
/* Are these rows of numbers, and nothing else?  Every line is "label,label feature:value ...", some
 * features are there, and the first line may be a header of XC text. */
bool wisp_rowtext_certain(const char *head, size_t n);
/* Is the first line "rows features labels"? */
bool wisp_xc_header(const char *head, size_t n);

#endif

/* The line format that XC and LibSVM text share: label,label feature:value feature:value */
#ifndef WISP_DATA_ROWTEXT_H
#define WISP_DATA_ROWTEXT_H

#include "data/ids.h"
#include "data/text.h"

struct wisp_dialect {
    bool libsvm;     /* '#' comments, labels of other forms than digits, empty lines are no rows */
    bool every_line; /* ... but here they are: each line is one */
    bool header;     /* the limits below are from a header, and say so in messages */
    int base;        /* first feature id, and in XC text first label id */
    size_t n_rows, n_features, n_labels; /* limits; SIZE_MAX: none (n_rows), wisp_ids_max */
    /* Sees the first line, as in a wisp_text_parser whose argument is the dialect; NULL: none. */
    wisp_status (*first)(void *arg, const char *begin, const char *end, bool *taken,
                         wisp_error *err);
    /* out */
    size_t rows_read, n_dropped, n_blank, n_unknown;
    /* while it is read */
    struct wisp_ids labels, features;
    unsigned decided, wants; /* WISP_NAMED_...: not for the text to choose; to begin again with */
    bool drop;               /* what is not known is dropped, and counted */
    bool counting;           /* a pass that collects names */
    size_t text_bytes;
    size_t room[2];        /* ids of labels, features from here on are out of proportion */
    size_t keep_features;  /* features from here on are dropped and counted; 0: none */
    size_t plain_features; /* those below need no second look */
    size_t seen[2];        /* lines of the first label that is a number, a word; 0: none */
};

/* Reads src into the sink.  src->again: what was read is of no use, ids have to be by name. */
wisp_status wisp_rowtext_read(struct wisp_dialect *d, struct wisp_source *src,
                              struct wisp_sink *sink, wisp_error *err);
/* For 'first': the header says so many labels, features.  False: they are out of proportion, and
 * must stay numbers.  d->wants: reading is to begin again. */
bool wisp_rowtext_header(struct wisp_dialect *d, const uint64_t n[2]);
/* All rows of 'data', with ids from 'base'. */
wisp_status wisp_rowtext_write(struct wisp_out *out, const struct wisp_data *data,
                               const struct wisp_dialect *d, wisp_error *err);
/* The names of a side (WISP_NAMED_...) of d that are numbers from 0, all of them; else NULL. */
const struct wisp_names *wisp_rowtext_numbers(const struct wisp_data *d, unsigned side);
/* Does the first row read "label,label feature:value" or "feature:value"? */
bool wisp_rowtext_probe(const char *head, size_t n);
/* Are these rows of numbers, and nothing else?  Every line is "label,label feature:value ...", some
 * features are there, and the first line may be a header of XC text. */
bool wisp_rowtext_certain(const char *head, size_t n);
/* Is the first line "rows features labels"? */
bool wisp_xc_header(const char *head, size_t n);

static inline bool wisp_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

#endif

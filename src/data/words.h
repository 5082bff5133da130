/* Formats of words: rows are texts with named labels.  A format says how a piece of a file is cut
 * into rows, texts and labels; what is common to all is here: words become features by their
 * number, counted over the row, and labels by theirs.
 *
 * The text is read twice.  Pass 1 counts: each chunk fills its own dictionaries, which are merged
 * in the order of the text, so a word's number is that of its first appearance for any number of
 * threads.  What occurs fewer than min_count times is then dropped, the rest renumbered in
 * order.  (Before both, where pieces of words are to be features of short texts only, the first
 * 256 KiB are looked at.)  Pass 2 makes the rows; the dictionaries no longer change, so chunks just
 * look up. With a model's names pass 1 is not needed: unknown words are dropped and counted, the
 * k-th unknown label of a row becomes id n_labels + k, which no prediction can hit. Where a model's
 * names may grow, they come first in the dictionaries, with their ids, and what pass 1 finds beside
 * them is numbered from there on. */
#ifndef WISP_DATA_WORDS_H
#define WISP_DATA_WORDS_H

#include "data/text.h"

struct wisp_words; /* a piece of text being read */

struct wisp_words_format {
    void *arg; /* for the functions below */
    /* As in struct wisp_text_parser; NULL: none. */
    wisp_status (*first)(void *arg, const char *begin, const char *end, bool *taken,
                         wisp_error *err);
    const char *(*cut)(void *arg, const char *begin, const char *end);
    /* All rows of a chunk, by the functions below.  On failure *line may be set to the number of
     * the line (from 0) in the chunk; the message comes without a place. */
    wisp_status (*parse)(void *arg, struct wisp_words *w, const struct wisp_chunk *c, size_t *line,
                         wisp_error *err);
};

wisp_status wisp_words_text(struct wisp_words *w, const char *p, size_t n, wisp_error *err);
/* A label by its name; refused if it is empty or holds a control character. */
wisp_status wisp_words_label(struct wisp_words *w, const char *p, size_t n, wisp_error *err);
/* The labels of a cell, cut at the separator; blanks around them do not count. */
wisp_status wisp_words_labels(struct wisp_words *w, const char *p, size_t n, const char *separator,
                              wisp_error *err);
/* A label by its id, where labels have no names. */
wisp_status wisp_words_label_id(struct wisp_words *w, int32_t id, wisp_error *err);
/* A blank line is a row where every line is answered (rows for a model), else it is none. */
wisp_status wisp_words_blank(struct wisp_words *w, wisp_error *err);
wisp_status wisp_words_end(struct wisp_words *w, wisp_error *err); /* of a row */
/* Room for n bytes that a format may use within a row. */
char *wisp_words_room(struct wisp_words *w, size_t n, wisp_error *err);

wisp_status wisp_words_read(struct wisp_source *src, struct wisp_sink *sink,
                            const struct wisp_words_format *f, wisp_error *err);

/* ---- columns of tables (csv.c, jsonl.c) ---- */

enum { WISP_TEXT_COLUMNS = 16 };
/* Is 'name' one of the names that the options list (or, where they do not, one that such a column
 * usually has)?  Its place in the list, or -1. */
int wisp_text_column(const struct wisp_text_how *how, const char *name, size_t bytes);
int wisp_label_column(const struct wisp_text_how *how, const char *name, size_t bytes);
/* How many text columns the options list; 0: none. */
int wisp_text_columns_listed(const struct wisp_text_how *how);
/* Does a text begin with the header of such a table (csv, tsv), labels or none?  Its columns; 0: it
 * does not look like one. */
int wisp_table_columns(const struct wisp_format *f, const struct wisp_text_how *how,
                       const char *head, size_t n);

#endif

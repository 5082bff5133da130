/* From text to features: words, pairs of neighbouring words, pieces of words.
 *
 *   blanks   a token ends at a blank (space, tab, CR, LF, VT, FF, NUL); its bytes stay as they are
 *   words    a token is a run of letters, digits and '_', in lower case; punctuation and symbols
 *            only separate.  Letters are those of UTF-8; where a script has no blanks (Chinese,
 *            Japanese), every character is a token.  Bytes that are no UTF-8 count as letters.
 *
 * Stop words are dropped first: pairs are made of what is left.  Pieces are the runs of chars_min
 * to chars_max characters of "<word>", named "~piece", so that none is taken for a word. */
#ifndef WISP_DATA_TOKENS_H
#define WISP_DATA_TOKENS_H

#include "base/error.h"
#include "base/text.h"

#include <stdbool.h>

enum wisp_tokens { WISP_TOKENS_BLANKS, WISP_TOKENS_WORDS };
const struct wisp_word *wisp_tokens_at(size_t i); /* NULL past the end */
const char *wisp_tokens_name(enum wisp_tokens t);
bool wisp_tokens_find(enum wisp_tokens *out, const char *name);

enum { WISP_CHARS_MAX = 10, WISP_COLUMN_BYTES = 256 };

/* What a text's features are, and where text and labels stand in a table: part of a model. */
struct wisp_text_how {
    enum wisp_tokens tokens;
    bool pairs;                           /* of neighbouring words, too */
    int chars_min, chars_max;             /* pieces of words of so many characters; 0: none */
    bool chars_auto;                      /* until the text was looked at: pieces if it is short */
    char text_column[WISP_COLUMN_BYTES];  /* "title,body": joined; "": by their usual names */
    char label_column[WISP_COLUMN_BYTES]; /* likewise, one */
    char label_separator[16];             /* between labels in one cell; "": a cell is a label */
    bool no_header;                       /* tables without a first line that names columns */
};
/* "3-5", "4", "0" -> chars_min, chars_max; false: something else. */
bool wisp_chars_read(struct wisp_text_how *how, const char *text);
void wisp_chars_print(char out[16], const struct wisp_text_how *how);

struct wisp_lookup; /* data.h */

struct wisp_tokenizer { /* one row after the other; all zero but for how and stop to begin with */
    const struct wisp_text_how *how;
    const struct wisp_lookup *stop; /* words to drop, or NULL */
    /* receives each feature; 'word' is false for pairs and pieces */
    wisp_status (*see)(void *arg, const char *p, size_t n, bool word, wisp_error *err);
    void *arg;
    char *buf; /* (cap) "before word", then room for a piece */
    size_t cap;
    size_t n_before; /* bytes of the word before; 0: there is none */
    size_t n_words;  /* of this row, stop words included */
};

void wisp_tokenizer_begin(struct wisp_tokenizer *t); /* a row */
/* Text of the row; a word does not go on from one call to the next. */
wisp_status wisp_tokenizer_text(struct wisp_tokenizer *t, const char *p, size_t n, wisp_error *err);
void wisp_tokenizer_clear(struct wisp_tokenizer *t);

#endif

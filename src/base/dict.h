/* A dictionary of words: bytes -> number in order of first appearance, with one value each.
 *
 *   entries  | hash, start, bytes, value |   in order of appearance
 *   slots    entry + 1, by open addressing; 0: free
 *   text     the words, each ended by '\n': the text of a struct wisp_names */
#ifndef WISP_BASE_DICT_H
#define WISP_BASE_DICT_H

#include "base/error.h"

struct wisp_dict_entry {
    uint64_t hash;
    size_t start; /* in text */
    uint32_t bytes;
    int64_t value;
};

struct wisp_dict { /* all zero: empty */
    struct wisp_dict_entry *entries;
    size_t n, cap;
    uint32_t *slots;
    size_t n_slots; /* a power of two, at least twice n */
    char *text;
    size_t text_bytes, text_cap;
};

uint64_t wisp_dict_hash(const char *word, size_t bytes);
/* NULL: not there. */
const struct wisp_dict_entry *wisp_dict_find(const struct wisp_dict *d, const char *word,
                                             size_t bytes, uint64_t hash);
/* Finds, or adds with value 0.  The entry moves when another is added. */
wisp_status wisp_dict_add(struct wisp_dict_entry **out, struct wisp_dict *d, const char *word,
                          size_t bytes, uint64_t hash, wisp_error *err);
void wisp_dict_reset(struct wisp_dict *d); /* empty, but keeps the memory */
void wisp_dict_clear(struct wisp_dict *d);

#endif

/* Ids of labels and features that a text of numbers calls by name.
 *
 * As a rule such a text says ids.  Where it says words (labels such as "spam", or -1 and +1), or
 * numbers that are far out of proportion to its size (features hashed to 2^31 places, in a file of
 * kilobytes), every different one is a name and gets an id of its own: weights, counts and caches
 * are as long as the ids, and must be in proportion to the text.  The names of such a set are kept
 * with it and in the model; a number is named by its digits, counted from 0 whatever the first id
 * of the text.
 *
 * Ids of numbers ascend with them, ids of words follow their first appearance: they do not depend
 * on how the text was cut, nor on threads. */
#ifndef WISP_DATA_IDS_H
#define WISP_DATA_IDS_H

#include "data/data.h"
#include "base/dict.h"

struct wisp_ids { /* all zero: ids are what the text says */
    bool named;
    bool open;                      /* further names get ids; else they are unknown */
    bool words;                     /* further ones keep their order: not all are numbers */
    const struct wisp_names *table; /* names that have ids from 0, or NULL */
    const struct wisp_lookup *find; /* where these are looked up, if it is not open */
    struct wisp_lookup own;         /* made for that, or nothing */
    size_t n_known;                 /* entries of the dictionary that are the table's */
    struct wisp_dict dict;          /* if it is open; its values are ids, once they are numbered */
    size_t n;                       /* ids, once they are numbered */
};

/* Ids by name on a side (WISP_NAMED_...): those of the options' table, if that side has one there;
 * without one, or if it may grow, further ones. */
wisp_status wisp_ids_init(struct wisp_ids *ids, const struct wisp_read_options *o, unsigned side,
                          wisp_error *err);
void wisp_ids_clear(struct wisp_ids *ids);
/* Adds the names in 'from', in their order, and empties it. */
wisp_status wisp_ids_merge(struct wisp_ids *ids, struct wisp_dict *from, wisp_error *err);
/* Adds a number, by its digits. */
wisp_status wisp_ids_add_number(struct wisp_ids *ids, int64_t number, wisp_error *err);
/* Gives ids to what was added; 'names' (all zero) becomes the names of all of them. */
wisp_status wisp_ids_number(struct wisp_ids *ids, struct wisp_names *names, wisp_error *err);
/* -1: unknown. */
int64_t wisp_ids_find(const struct wisp_ids *ids, const char *name, size_t bytes);
int64_t wisp_ids_find_number(const struct wisp_ids *ids, int64_t number);

/* The number that a name is, or -1: a word, a negative number, or one with leading zeros. */
int64_t wisp_name_number(const char *name, size_t bytes);
/* The same of name i; -1, too, where there is no such name. */
int64_t wisp_names_number(const struct wisp_names *names, size_t i);

#endif

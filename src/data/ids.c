/* Names to ids; ids.h says which. */
#include "data/ids.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 24 }; /* of an int64_t, its sign and the end */

static wisp_status add_table(struct wisp_ids *ids, wisp_error *err)
{
    const struct wisp_names *table = ids->table;
    wisp_status st = WISP_OK;
    for (size_t i = 0; table && i < table->n && st == WISP_OK; i++) {
        const char *name = table->text + table->start[i];
        size_t bytes = table->start[i + 1] - table->start[i] - 1, before = ids->dict.n;
        struct wisp_dict_entry *e;
        st = wisp_dict_add(&e, &ids->dict, name, bytes, wisp_dict_hash(name, bytes), err);
        if (st == WISP_OK && ids->dict.n > before) e->value = (int64_t)i; /* the first of equals */
    }
    ids->n_known = ids->dict.n;
    return st;
}

wisp_status wisp_ids_init(struct wisp_ids *ids, const struct wisp_read_options *o, unsigned side,
                          wisp_error *err)
{
    const bool labels = side == WISP_NAMED_LABELS;
    const struct wisp_names *table = !(o->named & side) ? NULL : labels ? o->labels : o->vocab;
    const size_t n = labels ? o->n_labels : o->n_features;
    *ids = (struct wisp_ids){ .named = true, .open = !table || o->grow, .table = table };
    ids->n = table ? table->n : 0;
    if (ids->open) return add_table(ids, err);
    if (ids->n < n) ids->n = n;
    ids->find = labels ? o->find_label : o->find_word;
    if (ids->find) return WISP_OK;
    ids->find = &ids->own;
    return wisp_lookup_init(&ids->own, table, err);
}

void wisp_ids_clear(struct wisp_ids *ids)
{
    wisp_dict_clear(&ids->dict);
    wisp_lookup_clear(&ids->own);
    *ids = (struct wisp_ids){ 0 };
}

wisp_status wisp_ids_merge(struct wisp_ids *ids, struct wisp_dict *from, wisp_error *err)
{
    wisp_status st = WISP_OK;
    for (size_t i = 0; i < from->n && st == WISP_OK; i++) {
        const struct wisp_dict_entry *f = &from->entries[i];
        struct wisp_dict_entry *e;
        st = wisp_dict_add(&e, &ids->dict, from->text + f->start, f->bytes, f->hash, err);
    }
    wisp_dict_reset(from);
    return st;
}

wisp_status wisp_ids_add_number(struct wisp_ids *ids, int64_t number, wisp_error *err)
{
    char name[DIGITS];
    struct wisp_dict_entry *e;
    const size_t n = (size_t)snprintf(name, sizeof name, "%lld", (long long)number);
    return wisp_dict_add(&e, &ids->dict, name, n, wisp_dict_hash(name, n), err);
}

struct place {
    int64_t number;
    size_t entry;
};

static int by_number(const void *a, const void *b)
{
    const int64_t x = ((const struct place *)a)->number, y = ((const struct place *)b)->number;
    return (x > y) - (x < y);
}

wisp_status wisp_ids_number(struct wisp_ids *ids, struct wisp_names *names, wisp_error *err)
{
    const struct wisp_dict *d = &ids->dict;
    const size_t n = d->n - ids->n_known, old = ids->table ? ids->table->bytes : 0;
    size_t bytes = 0, room = old + 1 + d->text_bytes;
    struct place *order = wisp_alloc(n, sizeof *order);
    char *text = wisp_alloc(room, 1);
    wisp_status st = order && text ? WISP_OK : wisp_fail_mem(err, room, "names");
    for (size_t i = 0; i < n && st == WISP_OK; i++) {
        const struct wisp_dict_entry *e = &d->entries[ids->n_known + i];
        order[i] = (struct place){ (int64_t)i, ids->n_known + i };
        if (!ids->words) order[i].number = strtoll(d->text + e->start, NULL, 10);
    }
    if (st == WISP_OK && n) qsort(order, n, sizeof *order, by_number);
    if (st == WISP_OK && old) memcpy(text, ids->table->text, bytes = old);
    if (bytes && text[bytes - 1] != '\n') text[bytes++] = '\n';
    for (size_t i = 0; i < n && st == WISP_OK; i++) {
        struct wisp_dict_entry *e = &ids->dict.entries[order[i].entry];
        e->value = (int64_t)ids->n++;
        memcpy(text + bytes, d->text + e->start, e->bytes + 1); /* with its '\n' */
        bytes += e->bytes + 1;
    }
    if (st == WISP_OK && bytes) st = wisp_names_init(names, text, bytes, false, err);
    if (names->text != text) wisp_free(text);
    wisp_free(order);
    return st;
}

int64_t wisp_ids_find(const struct wisp_ids *ids, const char *name, size_t bytes)
{
    if (ids->find) return wisp_lookup_find(ids->find, name, bytes);
    const struct wisp_dict_entry *e =
        wisp_dict_find(&ids->dict, name, bytes, wisp_dict_hash(name, bytes));
    return e ? e->value : -1;
}

int64_t wisp_ids_find_number(const struct wisp_ids *ids, int64_t number)
{
    char name[DIGITS];
    int n = snprintf(name, sizeof name, "%lld", (long long)number);
    return wisp_ids_find(ids, name, (size_t)n);
}

int64_t wisp_name_number(const char *name, size_t bytes)
{
    int64_t number = 0;
    if (bytes == 0 || bytes > 18 || (*name == '0' && bytes > 1)) return -1;
    for (size_t i = 0; i < bytes; i++) {
        if (name[i] < '0' || name[i] > '9') return -1;
        number = number * 10 + (name[i] - '0');
    }
    return number;
}

int64_t wisp_names_number(const struct wisp_names *names, size_t i)
{
    if (i >= names->n) return -1;
    return wisp_name_number(names->text + names->start[i],
                            names->start[i + 1] - names->start[i] - 1);
}

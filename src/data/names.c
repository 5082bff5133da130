/* Names of labels and features: one per line, line i names id i. */
#include "data/data.h"
#include "base/dict.h"
#include "base/mem.h"

#include <string.h>

wisp_status wisp_names_init(struct wisp_names *n, char *text, size_t bytes, bool borrowed,
                            wisp_error *err)
{
    size_t lines = 0;
    for (size_t i = 0; i < bytes; i++) lines += text[i] == '\n';
    if (bytes > 0 && text[bytes - 1] != '\n') lines++;
    size_t *start = wisp_alloc(lines + 1, sizeof *start);
    if (!start) return wisp_fail_mem(err, (lines + 1) * sizeof *start, "names");
    size_t at = 0;
    for (size_t i = 0; i < lines; i++) {
        start[i] = at;
        const char *nl = memchr(text + at, '\n', bytes - at);
        at = nl ? (size_t)(nl - text) + 1 : bytes + 1; /* as if the last line had its end */
    }
    start[lines] = at;
    *n = (struct wisp_names){
        .n = lines, .text = text, .bytes = bytes, .start = start, .borrowed = borrowed
    };
    return WISP_OK;
}

void wisp_names_clear(struct wisp_names *n)
{
    if (!n->borrowed) wisp_free(n->text);
    wisp_free(n->start);
    *n = (struct wisp_names){ 0 };
}

wisp_status wisp_names_load(struct wisp_names *n, const char *path, wisp_error *err)
{
    *n = (struct wisp_names){ 0 };
    struct wisp_map map;
    wisp_status st = wisp_map_open(&map, path, err);
    if (st != WISP_OK) return st;
    const char *p = map.p ? (const char *)map.p : "", *end = p + map.bytes;
    char *text = wisp_alloc(map.bytes + 1, 1);
    if (!text) st = wisp_fail_mem(err, map.bytes, "names");
    if (map.bytes >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) p += 3;
    size_t bytes = 0, line = 1;
    for (const char *nl; st == WISP_OK && p < end; p = nl + 1, line++) {
        nl = memchr(p, '\n', (size_t)(end - p));
        if (!nl) nl = end;
        if (memchr(p, 0, (size_t)(nl - p)))
            st = wisp_fail_at(err, WISP_EFORMAT, path, line, "a NUL byte, expected a name");
        const char *stop = nl > p && nl[-1] == '\r' ? nl - 1 : nl;
        const char *tab = stop > p ? memrchr(p, '\t', (size_t)(stop - p)) : NULL;
        if (tab) p = tab + 1;
        memcpy(text + bytes, p, (size_t)(stop - p));
        bytes += (size_t)(stop - p);
        text[bytes++] = '\n';
    }
    st = wisp_map_end(&map, st, err);
    if (st == WISP_OK) st = wisp_names_init(n, text, bytes, false, err);
    if (st != WISP_OK) wisp_free(text);
    return st;
}

static size_t bytes_of(const struct wisp_names *n, size_t i)
{
    return n->start[i + 1] - n->start[i] - 1;
}

bool wisp_names_begin(const struct wisp_names *a, const struct wisp_names *b)
{
    bool same = a->n >= b->n;
    for (size_t i = 0; same && i < b->n; i++)
        same = bytes_of(a, i) == bytes_of(b, i) &&
               memcmp(a->text + a->start[i], b->text + b->start[i], bytes_of(a, i)) == 0;
    return same;
}

/* Adds names, whose ids follow those before; anew: only those that are not there yet.  map (NULL:
 * not wanted) receives the ids of all of them. */
static wisp_status number(struct wisp_dict *d, char *text, size_t *bytes, int64_t *next,
                          int32_t *map, const struct wisp_names *n, bool anew, wisp_error *err)
{
    wisp_status st = WISP_OK;
    for (size_t i = 0; st == WISP_OK && i < n->n; i++) {
        const char *name = n->text + n->start[i];
        size_t size = bytes_of(n, i), before = d->n;
        struct wisp_dict_entry *e;
        st = wisp_dict_add(&e, d, name, size, wisp_dict_hash(name, size), err);
        if (st != WISP_OK) break;
        bool known = d->n == before;
        if (!known) e->value = *next;
        if (map) map[i] = (int32_t)e->value;
        if (known && anew) continue;
        memcpy(text + *bytes, name, size);
        *bytes += size;
        text[(*bytes)++] = '\n';
        ++*next;
    }
    return st;
}

wisp_status wisp_names_merge(struct wisp_names *out, int32_t *map, const struct wisp_names *a,
                             const struct wisp_names *b, wisp_error *err)
{
    struct wisp_dict d = { 0 };
    size_t room = a->bytes + b->bytes + 2, bytes = 0;
    char *text = wisp_alloc(room, 1);
    int64_t next = 0;
    wisp_status st = text ? WISP_OK : wisp_fail_mem(err, room, "names");
    *out = (struct wisp_names){ 0 };
    if (st == WISP_OK) st = number(&d, text, &bytes, &next, NULL, a, false, err);
    if (st == WISP_OK) st = number(&d, text, &bytes, &next, map, b, true, err);
    if (st == WISP_OK) st = wisp_names_init(out, text, bytes, false, err);
    if (st != WISP_OK) wisp_free(text);
    wisp_dict_clear(&d);
    return st;
}

wisp_status wisp_names_copy(struct wisp_names *out, const struct wisp_names *n, wisp_error *err)
{
    *out = (struct wisp_names){ 0 };
    if (!n->n) return WISP_OK;
    char *text = wisp_alloc(n->bytes, 1);
    if (!text) return wisp_fail_mem(err, n->bytes, "names");
    memcpy(text, n->text, n->bytes);
    wisp_status st = wisp_names_init(out, text, n->bytes, false, err);
    if (st != WISP_OK) wisp_free(text);
    return st;
}

/* ---- looking names up ---- */

/* The slot of the name, or the free one where it would go. */
static uint32_t *slot_of(const struct wisp_lookup *l, const char *name, size_t bytes)
{
    size_t mask = l->n_slots - 1;
    for (size_t i = wisp_dict_hash(name, bytes) & mask;; i = (i + 1) & mask) {
        if (!l->slots[i]) return &l->slots[i];
        size_t id = l->slots[i] - 1;
        if (bytes_of(l->names, id) == bytes &&
            !memcmp(l->names->text + l->names->start[id], name, bytes))
            return &l->slots[i];
    }
}

wisp_status wisp_lookup_init(struct wisp_lookup *l, const struct wisp_names *names, wisp_error *err)
{
    *l = (struct wisp_lookup){ .names = names, .n_slots = 16 };
    while (l->n_slots < 2 * names->n) l->n_slots *= 2;
    l->slots = wisp_zalloc(l->n_slots, sizeof *l->slots);
    if (!l->slots) {
        wisp_status st = wisp_fail_mem(err, l->n_slots * sizeof *l->slots, "an index of names");
        wisp_lookup_clear(l);
        return st;
    }
    for (size_t i = 0; i < names->n; i++) {
        uint32_t *slot = slot_of(l, names->text + names->start[i], bytes_of(names, i));
        if (!*slot) *slot = (uint32_t)i + 1;
    }
    return WISP_OK;
}

int32_t wisp_lookup_find(const struct wisp_lookup *l, const char *name, size_t bytes)
{
    return l->slots ? (int32_t)*slot_of(l, name, bytes) - 1 : -1;
}

void wisp_lookup_clear(struct wisp_lookup *l)
{
    wisp_free(l->slots);
    *l = (struct wisp_lookup){ 0 };
}

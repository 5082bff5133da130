/* The dictionary: linear probing over 32-bit entry numbers; whole hashes are kept in the entries,
 * so growing does not look at the words and few probes do. */
#include "base/dict.h"
#include "base/mem.h"

#include <string.h>
#include <xxhash.h>

uint64_t wisp_dict_hash(const char *word, size_t bytes)
{
    return XXH3_64bits(word, bytes);
}

/* The slot of the word, or the free one where it would go. */
static uint32_t *probe(const struct wisp_dict *d, const char *word, size_t bytes, uint64_t hash)
{
    for (size_t i = hash & (d->n_slots - 1);; i = (i + 1) & (d->n_slots - 1)) {
        if (!d->slots[i]) return &d->slots[i];
        const struct wisp_dict_entry *e = &d->entries[d->slots[i] - 1];
        if (e->hash == hash && e->bytes == bytes && !memcmp(d->text + e->start, word, bytes))
            return &d->slots[i];
    }
}

const struct wisp_dict_entry *wisp_dict_find(const struct wisp_dict *d, const char *word,
                                             size_t bytes, uint64_t hash)
{
    if (d->n == 0) return NULL;
    uint32_t slot = *probe(d, word, bytes, hash);
    return slot ? &d->entries[slot - 1] : NULL;
}

static int more_slots(struct wisp_dict *d)
{
    size_t n = d->n_slots ? 2 * d->n_slots : 64;
    uint32_t *slots = wisp_zalloc(n, sizeof *slots);
    if (!slots) return 0;
    for (size_t k = 0; k < d->n; k++) {
        size_t i = d->entries[k].hash & (n - 1);
        while (slots[i]) i = (i + 1) & (n - 1);
        slots[i] = (uint32_t)k + 1;
    }
    wisp_free(d->slots);
    d->slots = slots;
    d->n_slots = n;
    return 1;
}

static int more_text(struct wisp_dict *d, size_t bytes)
{
    if (bytes <= d->text_cap - d->text_bytes) return 1;
    size_t cap = 2 * d->text_cap + bytes + 1024;
    char *text = wisp_realloc(d->text, d->text_bytes, cap, 1);
    if (!text) return 0;
    d->text = text;
    d->text_cap = cap;
    return 1;
}

wisp_status wisp_dict_add(struct wisp_dict_entry **out, struct wisp_dict *d, const char *word,
                          size_t bytes, uint64_t hash, wisp_error *err)
{
    uint32_t *slot = d->n_slots ? probe(d, word, bytes, hash) : NULL;
    if (slot && *slot) {
        *out = &d->entries[*slot - 1];
        return WISP_OK;
    }
    if (d->n >= INT32_MAX || bytes > UINT32_MAX)
        return wisp_fail(err, WISP_EFORMAT, "more than %d different words, or one of 4 GiB",
                         INT32_MAX);
    if ((2 * (d->n + 1) > d->n_slots && !more_slots(d)) || !more_text(d, bytes + 1) ||
        !wisp_grow(&d->entries, d->n, &d->cap, sizeof *d->entries))
        return wisp_fail_mem(err, 3 * d->n * sizeof *d->entries, "a dictionary");
    *out = &d->entries[d->n];
    **out =
        (struct wisp_dict_entry){ .hash = hash, .start = d->text_bytes, .bytes = (uint32_t)bytes };
    memcpy(d->text + d->text_bytes, word, bytes);
    d->text[d->text_bytes + bytes] = '\n';
    d->text_bytes += bytes + 1;
    *probe(d, word, bytes, hash) = (uint32_t)++d->n;
    return WISP_OK;
}

void wisp_dict_reset(struct wisp_dict *d)
{
    if (d->n) memset(d->slots, 0, d->n_slots * sizeof *d->slots);
    d->n = d->text_bytes = 0;
}

void wisp_dict_clear(struct wisp_dict *d)
{
    wisp_free(d->entries);
    wisp_free(d->slots);
    wisp_free(d->text);
    *d = (struct wisp_dict){ 0 };
}

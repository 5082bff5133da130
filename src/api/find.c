/* Ids of names: wisp_model_feature, wisp_model_label.
 *
 * Models of text and of named ids have their names indexed when they are loaded.  Names of options
 * "vocab" and "labels", which reading rows does not need, are indexed when somebody first asks: a
 * model is shared between threads, so the index is made aside and the first one that is done stays. */
#include "base/mem.h"
#include "model/model.h"

static const struct wisp_lookup *indexed(const struct wisp_model *m, int labels)
{
    const struct wisp_lookup *ready = labels ? &m->find_label : &m->find_word;
    const struct wisp_names *names = labels ? &m->labels : &m->vocab;
    _Atomic(struct wisp_lookup *) *later = &((struct wisp_model *)m)->find_later[labels];
    struct wisp_lookup *l = atomic_load(later), *first = NULL;
    if (ready->slots || l || names->n == 0) return l ? l : ready;
    l = wisp_zalloc(1, sizeof *l);
    if (!l || wisp_lookup_init(l, names, NULL) != WISP_OK) {
        wisp_free(l);
        return ready;
    }
    if (atomic_compare_exchange_strong(later, &first, l)) return l;
    wisp_lookup_clear(l);
    wisp_free(l);
    return first;
}

int32_t wisp_model_feature(const wisp_model *m, const char *word, size_t bytes)
{
    return wisp_lookup_find(indexed(m, 0), word, bytes);
}

int32_t wisp_model_label(const wisp_model *m, const char *name, size_t bytes)
{
    return wisp_lookup_find(indexed(m, 1), name, bytes);
}

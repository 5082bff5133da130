/* Finders by number and by name. */
#include "hash/finder.h"

#include <string.h>

/* All rows: nothing to find. */
static void full_device(struct wisp_finders *out, const struct wisp_finder_setup *s, void *state)
{
    (void)s;
    (void)state;
    out->full = true;
}

const struct wisp_finder_kind wisp_finder_full = {
    .name = "full",
    .what = "every row",
    .device = full_device,
};

#define ROW(name) &wisp_finder_##name,
static const struct wisp_finder_kind *const kinds[] = { WISP_FINDERS(ROW) };
enum { N_KINDS = sizeof kinds / sizeof *kinds };

const struct wisp_finder_kind *wisp_finder_at(size_t i)
{
    return i < N_KINDS ? kinds[i] : NULL;
}

const struct wisp_finder_kind *wisp_finder_find(const char *name, size_t length)
{
    for (size_t i = 0; i < N_KINDS; i++)
        if (strlen(kinds[i]->name) == length && memcmp(kinds[i]->name, name, length) == 0)
            return kinds[i];
    return NULL;
}

const struct wisp_finder_kind *wisp_finder_next(const char **names, size_t *length)
{
    const char *name = *names;
    *length = strcspn(name, "+");
    *names = name + *length + (name[*length] == '+');
    return wisp_finder_find(name, *length);
}

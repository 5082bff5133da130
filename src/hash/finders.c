/* The table of finders. */
#include "hash/finder.h"

#include <string.h>

/* All rows: nothing to find. */
static void full_device(struct wisp_finders *out, const struct wisp_finder_setup *s, void *state)
{
    (void)s;
    (void)state;
    out->full = true;
}

static const struct wisp_finder_kind full = {
    .name = "full",
    .what = "every row",
    .device = full_device,
};

static const struct wisp_finder_kind *const kinds[] = {
    &full,
    &wisp_finder_random,
    &wisp_finder_frequency,
    &wisp_finder_neighbours,
    &wisp_finder_features,
    &wisp_finder_ivf,
    &wisp_finder_lsh,
    &wisp_finder_scan,
};
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

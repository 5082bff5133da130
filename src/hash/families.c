/* Hash families by number and by name. */
#include "hash/family.h"

#include <string.h>

#define ROW(name) &wisp_hash_##name,
static const struct wisp_hash_family *const families[] = { WISP_HASH_FAMILIES(ROW) };

const struct wisp_hash_family *wisp_hash_family_at(size_t i)
{
    return i < sizeof families / sizeof *families ? families[i] : NULL;
}

const struct wisp_hash_family *wisp_hash_family_find(const char *name)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i]->name, name) == 0) return families[i];
    return NULL;
}

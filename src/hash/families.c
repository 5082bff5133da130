/* The table of hash families. */
#include "hash/family.h"

#include <string.h>

static const struct wisp_hash_family *const families[] = {
    &wisp_hash_simhash,
    &wisp_hash_wta,
    &wisp_hash_dwta,
    &wisp_hash_minhash,
};

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

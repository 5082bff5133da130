/* Opening a part of wisp that may be missing. */
#include "base/part.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The folder that this code was loaded from.  A command found through PATH is known by its bare
 * name. */
static bool own_folder(char out[PATH_MAX])
{
    Dl_info info;
    if (!dladdr((const void *)(uintptr_t)&wisp_part_table, &info) || !info.dli_fname) return false;
    if (strchr(info.dli_fname, '/')) {
        if (snprintf(out, PATH_MAX, "%s", info.dli_fname) >= PATH_MAX) return false;
    } else {
        const ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
        out[n > 0 ? n : 0] = 0;
    }
    char *end = strrchr(out, '/');
    if (end) *end = 0;
    return end != NULL;
}

static void *open_part(const char *file, bool global, char *why, size_t room)
{
    static const char *const beside[] = { "", "../lib/" };
    const int how = RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL);
    char folder[PATH_MAX], path[PATH_MAX + 64];
    void *part = NULL;
    snprintf(why, room, "not found");
    for (size_t i = 0; i < 2 && !part && own_folder(folder); i++) {
        snprintf(path, sizeof path, "%s/%s%.40s", folder, beside[i], file);
        part = dlopen(path, how);
        const char *said = part ? NULL : dlerror();
        /* a library that the part itself needs may be what is not there */
        if (said && (!strstr(said, "No such file") || strncmp(said, path, strlen(path)) != 0))
            snprintf(why, room, "%s", said);
    }
    return part ? part : dlopen(file, how);
}

const void *wisp_part_table(const char *file, const char *name, int version, bool global, char *why,
                            size_t room)
{
    void *part = open_part(file, global, why, room), *symbol = part ? dlsym(part, name) : NULL;
    if (!part) return NULL;
    const void *(*table)(void);
    memcpy(&table, &symbol, sizeof table); /* ISO C knows no cast from an object to a function */
    const int *found = symbol ? table() : NULL;
    if (found && *found == version) return found;
    snprintf(why, room,
             "of another version of wisp (interface %d, expected %d); build both together",
             found ? *found : 0, version);
    return NULL;
}

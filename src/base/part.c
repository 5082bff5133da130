/* Opening a part of wisp that may be missing. */
#include "base/part.h"
#include "base/text.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The folder of the file that this code was loaded from, as the system knows it: what a program was
 * called with, the folder that it stands in and LD_LIBRARY_PATH say nothing here. */
static bool own_folder(char out[PATH_MAX])
{
    const uintptr_t self = (uintptr_t)&wisp_part_table;
    char line[PATH_MAX + 200];
    bool found = false;
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && !found && fgets(line, sizeof line, f)) {
        unsigned long from, to;
        int at = 0;
        if (wisp_scan(line, "%lx-%lx %*s %*s %*s %*s %n", &from, &to, &at) != 2 || !at) continue;
        char *end = line[at] == '/' ? strrchr(line + at, '/') : NULL;
        if (self < from || self >= to || !end || end - (line + at) >= PATH_MAX) continue;
        *end = 0;
        snprintf(out, PATH_MAX, "%.*s", PATH_MAX - 1, line + at);
        found = true;
    }
    if (f) fclose(f);
    return found;
}

static void *open_part(const char *file, bool global, char *why, size_t room)
{
    /* Beside a library or a program; where 'make install' puts parts, seen from lib, from bin, and
     * from a folder of lib that is named after the machine (Debian). */
    static const char *const beside[] = { "", "../lib/", "wisp/", "../lib/wisp/", "../wisp/" };
    const int how = RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL);
    char folder[PATH_MAX], path[PATH_MAX + 64];
    void *part = NULL;
    snprintf(why, room, "not found");
    for (size_t i = 0; i < sizeof beside / sizeof *beside && !part && own_folder(folder); i++) {
        snprintf(path, sizeof path, "%s/%s%.40s", folder, beside[i], file);
        if (access(path, F_OK) != 0) continue;
        part = dlopen(path, how);
        if (!part) snprintf(why, room, "%s", dlerror()); /* what it needs may not be there */
    }
    return part;
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

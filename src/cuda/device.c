/* Opening the part that needs a card. */
#include "base/error.h"
#include "cuda/cuda.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char FILE_NAME[] = "wisp-cuda.so";

/* The folder that this code was loaded from. */
static bool own_folder(char *out, size_t room)
{
    Dl_info info;
    if (!dladdr((const void *)(uintptr_t)&wisp_cuda_open, &info) || !info.dli_fname) return false;
    const char *end = strrchr(info.dli_fname, '/');
    if (!end || (size_t)(end - info.dli_fname) >= room) return false;
    memcpy(out, info.dli_fname, (size_t)(end - info.dli_fname));
    out[end - info.dli_fname] = 0;
    return true;
}

/* Beside the library or the command, in the lib folder beside its bin, where the system looks. */
static void *open_part(char *why, size_t room)
{
    static const char *const beside[] = { "", "../lib/" };
    char folder[PATH_MAX], path[PATH_MAX + 32];
    void *part = NULL;
    snprintf(why, room, "not found");
    for (size_t i = 0; i < 2 && !part && own_folder(folder, sizeof folder); i++) {
        snprintf(path, sizeof path, "%s/%s%s", folder, beside[i], FILE_NAME);
        part = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        const char *said = part ? NULL : dlerror();
        if (said && !strstr(said, "No such file")) snprintf(why, room, "%s", said);
    }
    return part ? part : dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
}

wisp_status wisp_cuda_open(const struct wisp_cuda **out, wisp_error *err)
{
    char why[300];
    *out = NULL;
    void *part = open_part(why, sizeof why);
    if (!part)
        return wisp_fail(err, WISP_ENOTSUP,
                         "--device cuda: %s: %s; it is built by 'make' where nvcc is installed",
                         FILE_NAME, why);
    const struct wisp_cuda *(*table)(void);
    void *symbol = dlsym(part, "wisp_cuda_table");
    memcpy(&table, &symbol, sizeof table); /* ISO C knows no cast from an object to a function */
    const struct wisp_cuda *t = symbol ? table() : NULL;
    if (!t || t->version != WISP_CUDA_VERSION)
        return wisp_fail(err, WISP_ENOTSUP,
                         "--device cuda: %s is of another version of wisp (interface %d, expected "
                         "%d); build both together",
                         FILE_NAME, t ? t->version : 0, WISP_CUDA_VERSION);
    struct wisp_cuda_card card;
    wisp_status st = t->card(&card, err);
    if (st == WISP_OK) *out = t;
    return st;
}

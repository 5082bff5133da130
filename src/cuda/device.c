/* Opening the part that needs a card. */
#include "base/error.h"
#include "base/part.h"
#include "cuda/cuda.h"

#include <dlfcn.h>
#include <string.h>

static const char FILE_NAME[] = "wisp-cuda.so";

wisp_status wisp_cuda_open(const struct wisp_cuda **out, wisp_error *err)
{
    char why[300];
    *out = NULL;
    void *part = wisp_part_open(FILE_NAME, 0, why, sizeof why);
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

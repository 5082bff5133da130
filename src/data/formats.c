/* Data formats by number, by name, and by the first bytes of a file. */
#include "data/data.h"

#include <string.h>

#define ROW(name) &wisp_format_##name,
static const struct wisp_format *const formats[] = { WISP_FORMATS(ROW) };

const struct wisp_format *wisp_format_at(size_t i)
{
    return i < sizeof formats / sizeof *formats ? formats[i] : NULL;
}

const struct wisp_format *wisp_format_probe(const char *path, const char *head, size_t n)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i]->probe(path, head, n)) return formats[i];
    return NULL;
}

const struct wisp_format *wisp_format_find(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i]->name, name) == 0) return formats[i];
    return NULL;
}

/* The table of data formats, in the order in which a file is probed. */
#include "data/data.h"

#include <string.h>

static const struct wisp_format *const formats[] = {
    &wisp_format_csv,    &wisp_format_tsv,      &wisp_format_jsonl, &wisp_format_xc,
    &wisp_format_libsvm, &wisp_format_fasttext, &wisp_format_npz,   &wisp_format_idx,
};

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

/* The fields of an error against its text, which is read here by itself. */
#ifndef WISP_TESTS_ERROR_RIG_H
#define WISP_TESTS_ERROR_RIG_H

#include "wisp/wisp.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Does it say what "name:line: ..." or "name: ..." says, for a name without a colon? */
static bool place_agrees(const wisp_error *e)
{
    const size_t name = strcspn(e->text, ":");
    char *p = (char *)e->text + name;
    size_t line = 0;
    if (p[0] == ':' && p[1] >= '0' && p[1] <= '9') line = strtoul(p + 1, &p, 10);
    return strncmp(p, ": ", 2) == 0 && e->file_bytes == name && e->line == line &&
           e->place_bytes == p + 2 - e->text;
}

#endif

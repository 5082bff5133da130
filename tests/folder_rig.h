/* A folder of a test's own, and files in it: 'if (!mkdtemp(folder)) return 1;' at the start of
 * main, 'return folder_end();' at its end. */
#ifndef WISP_TESTS_FOLDER_RIG_H
#define WISP_TESTS_FOLDER_RIG_H

#include "test.h"

#include <stdbool.h>
#include <string.h>

static char folder[] = "/tmp/wisp-test-XXXXXX";

static inline const char *in_folder(const char *name)
{
    static char path[64][300];
    static unsigned turn; /* a result lives for the next 63 calls */
    char *p = path[turn++ % 64];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static inline void save(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) abort();
}

static inline const char *save_in(const char *name, const void *bytes, size_t n)
{
    const char *path = in_folder(name);
    save(path, bytes, n);
    return path;
}

static inline const char *save_text(const char *name, const char *text)
{
    return save_in(name, text, strlen(text));
}

static inline size_t slurp(const char *path, char *to, size_t room)
{
    FILE *f = fopen(path, "rb");
    if (!f) return 0;
    size_t n = fread(to, 1, room, f);
    fclose(f);
    return n;
}

/* Nothing but this text (of less than 100 bytes). */
static inline bool holds(const char *path, const char *text)
{
    char got[100];
    size_t n = slurp(path, got, sizeof got);
    return n == strlen(text) && memcmp(got, text, n) == 0;
}

static inline int folder_end(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0) return 1;
    return test_end();
}

#endif

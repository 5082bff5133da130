/* Lines of keys and values in a file. */
#include "conv/kept.h"
#include "base/file.h"
#include "base/open.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_LINE = 500, MOST_FILE = 1 << 20, TRIES = 20 };

static bool find(const struct wisp_map *m, const char *key, wisp_kept_good *good, void *arg)
{
    const size_t length = strlen(key);
    const char *at = (const char *)m->p, *end = at + m->bytes, *stop;
    for (; at < end && (stop = memchr(at, '\n', (size_t)(end - at))); at = stop + 1) {
        const size_t n = (size_t)(stop - at);
        if (n > length && memcmp(at, key, length) == 0 && good(arg, at + length, n - length))
            return true;
    }
    return false;
}

/* A file that grows while it is read is read again. */
bool wisp_kept_find(const char *path, const char *key, wisp_kept_good *good, void *arg)
{
    struct wisp_map m = { 0 };
    wisp_status st = WISP_EIO;
    for (int i = 0; i < TRIES && st != WISP_OK && (i == 0 || access(path, F_OK) == 0); i++)
        st = wisp_map_open_own(&m, path, NULL, false, NULL);
    const bool found = st == WISP_OK && m.bytes <= MOST_FILE && find(&m, key, good, arg);
    wisp_map_close(&m);
    return found;
}

/* A line that was cut off, by a full disk or a crash, is ended first.  A file that is too long is
 * begun anew: it is none that we wrote. */
bool wisp_kept_add(const char *path, const char *key, const char *value)
{
    char line[MOST_LINE], last = '\n';
    size_t bytes;
    const int fd = wisp_open_append(&bytes, path, NULL);
    if (fd < 0) return false;
    bool ok = bytes <= MOST_FILE - MOST_LINE || ftruncate(fd, 0) == 0;
    if (ok && bytes > 0 && bytes <= MOST_FILE - MOST_LINE)
        ok = pread(fd, &last, 1, (off_t)bytes - 1) == 1;
    const int n = snprintf(line, sizeof line, "%s%s%s\n", last == '\n' ? "" : "\n", key, value);
    ok = ok && n > 0 && n < MOST_LINE && write(fd, line, (size_t)n) == n;
    return close(fd) == 0 && ok;
}

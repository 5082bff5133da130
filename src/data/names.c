/* Names of labels and features: one per line, line i names id i. */
#include "data/data.h"
#include "base/mem.h"

#include <string.h>

wisp_status wisp_names_init(struct wisp_names *n, char *text, size_t bytes, bool borrowed,
                            wisp_error *err)
{
    size_t lines = 0;
    for (size_t i = 0; i < bytes; i++) lines += text[i] == '\n';
    if (bytes > 0 && text[bytes - 1] != '\n') lines++;
    size_t *start = wisp_alloc(lines + 1, sizeof *start);
    if (!start) return wisp_fail_mem(err, (lines + 1) * sizeof *start, "names");
    size_t at = 0;
    for (size_t i = 0; i < lines; i++) {
        start[i] = at;
        const char *nl = memchr(text + at, '\n', bytes - at);
        at = nl ? (size_t)(nl - text) + 1 : bytes + 1; /* as if the last line had its end */
    }
    start[lines] = at;
    *n = (struct wisp_names){
        .n = lines, .text = text, .bytes = bytes, .start = start, .borrowed = borrowed
    };
    return WISP_OK;
}

void wisp_names_clear(struct wisp_names *n)
{
    if (!n->borrowed) wisp_free(n->text);
    wisp_free(n->start);
    *n = (struct wisp_names){ 0 };
}

wisp_status wisp_names_load(struct wisp_names *n, const char *path, wisp_error *err)
{
    *n = (struct wisp_names){ 0 };
    struct wisp_map map;
    wisp_status st = wisp_map_open(&map, path, err);
    if (st != WISP_OK) return st;
    const char *p = map.p ? (const char *)map.p : "", *end = p + map.bytes;
    char *text = wisp_alloc(map.bytes + 1, 1);
    if (!text) st = wisp_fail_mem(err, map.bytes, "names");
    if (map.bytes >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) p += 3;
    size_t bytes = 0, line = 1;
    for (const char *nl; st == WISP_OK && p < end; p = nl + 1, line++) {
        nl = memchr(p, '\n', (size_t)(end - p));
        if (!nl) nl = end;
        if (memchr(p, 0, (size_t)(nl - p)))
            st = wisp_fail(err, WISP_EFORMAT, "%s:%zu: a NUL byte, expected a name", path, line);
        const char *stop = nl > p && nl[-1] == '\r' ? nl - 1 : nl;
        const char *tab = stop > p ? memrchr(p, '\t', (size_t)(stop - p)) : NULL;
        if (tab) p = tab + 1;
        memcpy(text + bytes, p, (size_t)(stop - p));
        bytes += (size_t)(stop - p);
        text[bytes++] = '\n';
    }
    if (st == WISP_OK) st = wisp_names_init(n, text, bytes, false, err);
    if (st != WISP_OK) wisp_free(text);
    wisp_map_close(&map);
    return st;
}

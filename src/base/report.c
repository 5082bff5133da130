/* Reports: a list of key and value that turns into one JSON object on one line. */
#include "base/report.h"
#include "base/mem.h"
#include "base/text.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct entry {
    char key[40];
    double value;
    char *text; /* NULL: a number */
    bool json;  /* the text stands as it is */
};

struct wisp_report {
    struct entry *entries; /* (n) */
    size_t n, cap;
    bool failed;
    char *json;
};

struct wisp_report *wisp_report_create(void)
{
    return wisp_zalloc(1, sizeof(struct wisp_report));
}

void wisp_report_free(struct wisp_report *r)
{
    if (!r) return;
    for (size_t i = 0; i < r->n; i++) wisp_free(r->entries[i].text);
    wisp_free(r->entries);
    wisp_free(r->json);
    wisp_free(r);
}

static struct entry *add(struct wisp_report *r, const char *key)
{
    if (!r || r->failed) return NULL;
    if (!wisp_grow(&r->entries, r->n, &r->cap, sizeof *r->entries)) {
        r->failed = true;
        return NULL;
    }
    struct entry *e = &r->entries[r->n++];
    *e = (struct entry){ .value = 0 };
    snprintf(e->key, sizeof e->key, "%s", key);
    return e;
}

void wisp_report_num(struct wisp_report *r, const char *key, double value)
{
    struct entry *e = add(r, key);
    if (e) e->value = value;
}

void wisp_report_text(struct wisp_report *r, const char *key, const char *value)
{
    struct entry *e = add(r, key);
    if (e && !(e->text = wisp_strdup(value))) r->failed = true;
}

void wisp_report_object(struct wisp_report *r, const char *key, const char *json)
{
    wisp_report_text(r, key, json);
    if (r && !r->failed) r->entries[r->n - 1].json = true;
}

int wisp_report_get(const wisp_report *r, const char *key, double *value)
{
    for (size_t i = 0; i < r->n; i++)
        if (!r->entries[i].text && strcmp(r->entries[i].key, key) == 0) {
            *value = r->entries[i].value;
            return 1;
        }
    return 0;
}

const char *wisp_report_json(const wisp_report *r)
{
    return r->json;
}

enum { NUMBER_ROOM = 32 }; /* of the 56 bytes that a number has */

/* Writes s as a JSON string; returns the end.  Room: 6 bytes a character and the quotes. */
static char *quote(char *o, const char *s)
{
    *o++ = '"';
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') *o++ = '\\', *o++ = (char)c;
        else if (c < 0x20) o += sprintf(o, "\\u%04x", c);
        else *o++ = (char)c;
    }
    *o++ = '"';
    return o;
}

wisp_status wisp_report_done(struct wisp_report **out, struct wisp_report *r, wisp_error *err)
{
    *out = NULL;
    size_t room = 3;
    for (size_t i = 0; r && i < r->n; i++)
        room += 6 * (strlen(r->entries[i].key) +
                     (r->entries[i].text ? strlen(r->entries[i].text) : 8)) +
                8;
    if (r && !r->failed) r->json = wisp_alloc(room, 1);
    if (!r || !r->json) {
        wisp_report_free(r);
        return wisp_fail_mem(err, room, "a report");
    }
    char *o = r->json;
    *o++ = '{';
    for (size_t i = 0; i < r->n; i++) {
        const struct entry *e = &r->entries[i];
        if (i) *o++ = ',';
        o = quote(o, e->key);
        *o++ = ':';
        if (e->json) o = stpcpy(o, e->text);
        else if (e->text) o = quote(o, e->text);
        else if (!isfinite(e->value)) o += sprintf(o, "null"); /* JSON has no NaN */
        else o += wisp_print(o, NUMBER_ROOM, "%.10g", e->value);
    }
    *o++ = '}';
    *o = 0;
    *out = r;
    return WISP_OK;
}

/* Annif, the subject indexer of libraries: the two requests of its REST interface that its 'http'
 * backend makes, so that a model of wisp is a project of Annif's.
 *
 *   GET /v1/projects/MODEL            {"project_id":..., "is_trained":true, "modification_time":...}
 *   POST /v1/projects/MODEL/suggest   a form with 'text' and 'limit';
 *                                     {"results":[{"uri":..., "label":..., "score":...}]}
 *
 * The uri of a label is its name, so a model for Annif is trained with the URIs of its subjects. */
#include "serve/service.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static void begin(struct text *t, const struct job *j)
{
    (void)j;
    text_put(t, "{\"results\":[");
}

static void row(struct text *t, const struct job *j, size_t i, const struct best *b)
{
    (void)i;
    for (size_t k = 0; k < b->n; k++) {
        char id[16];
        size_t bytes = (size_t)snprintf(id, sizeof id, "%d", b->labels[k]);
        const char *name = wisp_model_label_name(j->s->m, b->labels[k], &bytes);
        if (!name) name = id;
        text_put(t, k ? ",{\"uri\":" : "{\"uri\":");
        text_json(t, name, bytes);
        text_put(t, ",\"label\":");
        text_json(t, name, bytes);
        text_put(t, ",\"notation\":null,\"score\":");
        text_real(t, b->scores[k]);
        text_add(t, "}", 1);
    }
}

static void end(struct text *t, const struct job *j)
{
    (void)j;
    text_put(t, "]}\n");
}

static const struct form form = { begin, row, end, NULL };

static int hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The value of 'key' in a form (application/x-www-form-urlencoded), decoded and appended; false: it is
 * not there, or is no UTF-8. */
static bool form_value(struct text *to, const char *body, size_t n, const char *key)
{
    const char *end = body + n, *p = body;
    const size_t bytes = strlen(key), from = to->n;
    while (p < end &&
           !((size_t)(end - p) > bytes && memcmp(p, key, bytes) == 0 && p[bytes] == '=')) {
        p = memchr(p, '&', (size_t)(end - p));
        if (!p) return false;
        p++;
    }
    if (p >= end) return false;
    for (p += bytes + 1; p < end && *p != '&'; p++) {
        char c = *p == '+' ? ' ' : *p;
        if (*p == '%' && end - p > 2 && hex(p[1]) >= 0 && hex(p[2]) >= 0) {
            c = (char)(hex(p[1]) << 4 | hex(p[2]));
            p += 2;
        }
        text_add(to, &c, 1);
    }
    for (size_t i = from, one; i < to->n; i += one)
        if (!(one = utf8_character(to->at + i, to->n - i))) return false;
    return !to->failed;
}

/* "MODEL/suggest": the model; false: another path. */
static bool project_of(struct text *model, const char *rest, const char *what)
{
    const size_t n = strcspn(rest, "/");
    text_add(model, rest, n);
    return n > 0 && strcmp(rest + n, what) == 0;
}

static void suggest(struct http_request *r)
{
    struct service *s = r->arg;
    struct job *j = job_make(r, &form, sizeof *j);
    struct text limit = { 0 };
    if (!j) return;
    j->q.kind = ROWS_TEXT;
    const bool ours = project_of(&j->q.model, r->rest, "/suggest");
    if (form_value(&limit, r->body, r->bytes, "limit")) {
        text_add(&limit, "", 1);
        const long k = strtol(limit.at, NULL, 10);
        j->q.how.k = k < 1 ? 1 : k > WISP_MOST_K ? WISP_MOST_K : (size_t)k;
    }
    text_clear(&limit);
    if (ours && form_value(&j->q.text, r->body, r->bytes, "text") && request_end_row(&j->q)) {
        predict_job(s, j);
        return;
    }
    if (ours) http_fail(r, 400, "no 'text' in UTF-8; expected a form, text=...&limit=10");
    else
        http_fail(r, 404, "there is nothing at '%.200s': expected /v1/projects/NAME/suggest",
                  r->path);
    job_free(j);
}

static void about(struct http_request *r)
{
    struct service *s = r->arg;
    struct text name = { 0 }, *t = &r->answer.body;
    struct slot *slot =
        project_of(&name, r->rest, "") ? models_find(&s->models, name.at, name.n) : NULL;
    struct served *now = slot ? models_take(&s->models, slot) : NULL;
    text_clear(&name);
    if (!slot) {
        http_fail(r, 404, "no model at '%.200s'; GET /models lists them", r->path);
        return;
    }
    char when[32] = "";
    const time_t loaded = now ? (time_t)now->loaded_s : 0;
    struct tm utc;
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S+00:00", gmtime_r(&loaded, &utc));
    text_print(t,
               "{\"project_id\":\"%s\",\"name\":\"%s\",\"backend\":{\"backend_id\":\"wisp\"},"
               "\"is_trained\":%s,\"modification_time\":",
               slot->name, slot->name, now ? "true" : "false");
    text_print(t, now ? "\"%s\"}\n" : "null}\n", when);
    served_free(now);
}

void route_annif(struct http_request *r)
{
    if (strcmp(r->route->method, "POST") == 0) suggest(r);
    else about(r);
}

/* Annif, the subject indexer of libraries: the two requests of its REST interface that its 'http'
 * backend makes, so that a model of wisp is a project of Annif's.
 *
 *   GET /v1/projects/MODEL            {"project_id":..., "is_trained":true, "modification_time":...}
 *   POST /v1/projects/MODEL/suggest   a form with 'text', 'limit' and 'threshold';
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

/* From..end of a form (application/x-www-form-urlencoded), decoded. */
static void decode(struct text *to, const char *from, const char *end)
{
    for (const char *p = from; p < end; p++) {
        char c = *p == '+' ? ' ' : *p;
        if (*p == '%' && end - p > 2 && hex(p[1]) >= 0 && hex(p[2]) >= 0) {
            c = (char)(hex(p[1]) << 4 | hex(p[2]));
            p += 2;
        }
        text_add(to, &c, 1);
    }
    text_add(to, "", 1); /* a zero behind it */
    if (!to->failed) to->n--;
}

/* The next 'key=value' of a form; false: it has ended. */
static bool next_pair(struct json *j, struct text *key, struct text *value)
{
    while (j->at < j->end && *j->at == '&') j->at++;
    if (j->failed || j->at == j->end) return false;
    const char *stop = memchr(j->at, '&', (size_t)(j->end - j->at));
    if (!stop) stop = j->end;
    const char *is = memchr(j->at, '=', (size_t)(stop - j->at));
    if (!is) is = stop;
    key->n = value->n = 0;
    decode(key, j->at, is);
    decode(value, is < stop ? is + 1 : stop, stop);
    j->at = stop;
    if (key->failed || value->failed) jread_fail(j, "out of memory");
    return !j->failed;
}

/* A number, which means what 'like' does in a request to /predict. */
static void read_number(struct how *how, struct json *j, const char *key, const char *like,
                        const struct text *value, const char *expected)
{
    struct json v;
    unsigned seen = 0;
    jread_open(&v, value->at, value->n);
    if (jread_next(&v) != 'n') jread_fail(&v, "no number");
    request_how(how, &seen, &v, like, strlen(like));
    if (!jread_close(&v)) jread_fail(j, "found %s=%.40s, expected %s", key, value->at, expected);
}

static void read_text(struct request *q, struct json *j, struct text *value)
{
    for (size_t i = 0, bytes; i < value->n; i += bytes)
        if (!(bytes = utf8_character(value->at + i, value->n - i))) {
            jread_fail(j, "'text' has a byte that is no UTF-8 (0x%02x)",
                       (unsigned char)value->at[i]);
            return;
        }
    q->kind = ROWS_TEXT;
    q->text = *value;
    *value = (struct text){ 0 };
    if (!request_end_row(q)) jread_fail(j, "out of memory");
}

/* The keys that Annif has, and 'project', which its 'http' backend may send.  A label has one name, in no
 * language: what is said of it, of a project and by 'metadata_...' changes nothing. */
static bool read_form(struct request *q, const char *body, size_t n, struct request_error *why)
{
    enum { TEXT, LIMIT, THRESHOLD, N = 5 };
    static const char *const names[N] = { "text", "limit", "threshold", "language", "project" };
    static const char metadata[] = "metadata_";
    char whole[60];
    struct json j;
    struct text key = { 0 }, value = { 0 };
    unsigned seen = 0;
    snprintf(whole, sizeof whole, "a whole number in 1..%d", WISP_MOST_K);
    jread_open(&j, body, n);
    while (next_pair(&j, &key, &value)) {
        if (strncmp(key.at, metadata, sizeof metadata - 1) == 0) continue;
        const int i = jread_which(&j, key.at, key.n, names, N, &seen);
        if (i == TEXT) read_text(q, &j, &value);
        if (i == LIMIT) read_number(&q->how, &j, names[i], "k", &value, whole);
        if (i == THRESHOLD)
            read_number(&q->how, &j, names[i], names[i], &value, "a number in 0..1");
    }
    if (!(seen & 1u << TEXT)) jread_fail(&j, "no 'text': expected a form, text=...&limit=10");
    text_clear(&key);
    text_clear(&value);
    return request_close(&j, why);
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
    struct request_error why;
    struct job *j = job_make(r, &form, sizeof *j);
    if (!j) return;
    if (!project_of(&j->q.model, r->rest, "/suggest")) {
        http_fail(r, 404, "there is nothing at '%.200s': expected /v1/projects/NAME/suggest",
                  r->path);
        job_free(j);
    } else if (!read_form(&j->q, r->body, r->bytes, &why)) {
        http_fail(r, why.status, "%s", why.text);
        job_free(j);
    } else {
        predict_job(s, j);
    }
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

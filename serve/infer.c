/* The Open Inference protocol, version 2 (KServe, Triton): GET /v2, /v2/models/M, /v2/models/M/ready
 * and POST /v2/models/M/infer, all also with /versions/V behind M.  Its errors are {"error":"..."}. */
#include "serve/service.h"
#include "serve/tensors.h"

#include <stdlib.h>
#include <string.h>

/* The parts of an answer that are written row by row, and joined at the end. */
struct parts {
    struct job job; /* first: it is handed on as a job */
    struct text id, labels, scores, names;
    size_t k; /* places of a row */
};

static void begin(struct text *t, const struct job *j)
{
    (void)t;
    (void)j;
}

static void row(struct text *t, const struct job *j, size_t i, const struct best *b)
{
    struct parts *p = (struct parts *)j;
    size_t bytes;
    (void)t;
    for (size_t k = 0; k < p->k; k++) {
        const char *comma = i || k ? "," : "";
        const int32_t label = k < b->n ? b->labels[k] : -1;
        const char *name = label < 0 ? NULL : wisp_model_label_name(j->s->m, label, &bytes);
        text_put(&p->labels, comma);
        text_whole(&p->labels, label);
        text_put(&p->scores, comma);
        text_real(&p->scores, k < b->n ? b->scores[k] : 0);
        text_put(&p->names, comma);
        if (name) text_json(&p->names, name, bytes);
        else text_print(&p->names, label < 0 ? "\"\"" : "\"%d\"", label);
    }
}

static void put_tensor(struct text *t, const char *name, const char *type, const struct parts *p,
                       const struct text *data)
{
    text_print(t, "{\"name\":\"%s\",\"datatype\":\"%s\",\"shape\":[%zu,%zu],\"data\":[", name, type,
               p->job.q.n_rows, p->k);
    text_add(t, data->at ? data->at : "", data->n);
    text_put(t, "]}");
    if (data->failed) t->failed = true;
}

static void end(struct text *t, const struct job *j)
{
    struct parts *p = (struct parts *)j;
    text_put(t, "{\"model_name\":");
    text_json(t, j->s->slot->name, strlen(j->s->slot->name));
    text_print(t, ",\"model_version\":\"%ld\"", j->s->version);
    if (p->id.n) {
        text_put(t, ",\"id\":");
        text_json(t, p->id.at, p->id.n);
    }
    text_put(t, ",\"outputs\":[");
    put_tensor(t, "labels", "INT32", p, &p->labels);
    text_add(t, ",", 1);
    put_tensor(t, "scores", "FP32", p, &p->scores);
    text_add(t, ",", 1);
    put_tensor(t, "names", "BYTES", p, &p->names);
    text_put(t, "]}\n");
}

static void clear(struct job *j)
{
    struct parts *p = (struct parts *)j;
    text_clear(&p->id);
    text_clear(&p->labels);
    text_clear(&p->scores);
    text_clear(&p->names);
}

static const struct form form = { begin, row, end, clear };

/* "M", "M/ready", "M/versions/V/infer": the model, and what is wanted of it. */
static const char *split(const char *rest, struct text *model, const char **version)
{
    const size_t n = strcspn(rest, "/");
    text_add(model, rest, n);
    rest += n + (rest[n] == '/');
    *version = NULL;
    if (strncmp(rest, "versions/", 9) == 0) {
        *version = rest + 9;
        rest = *version + strcspn(*version, "/");
        rest += *rest == '/';
    }
    return rest;
}

/* One version is there at a time. */
static bool is_version(const struct served *s, const char *version)
{
    char now[32];
    const int n = snprintf(now, sizeof now, "%ld", s->version);
    return !version ||
           (strncmp(version, now, (size_t)n) == 0 && (version[n] == 0 || version[n] == '/'));
}

void route_infer(struct http_request *r)
{
    struct service *s = r->arg;
    struct request_error why;
    struct text model = { 0 };
    const char *version;
    const bool infer = strcmp(split(r->rest, &model, &version), "infer") == 0;
    struct parts *p = infer ? (struct parts *)job_make(r, &form, sizeof *p) : NULL;
    if (!infer)
        http_fail(r, 404, "there is nothing at '%.200s': expected /v2/models/NAME/infer", r->path);
    if (p && !tensors_read(&p->job.q, &p->id, r->body, r->bytes, s->most_rows, &why)) {
        http_fail(r, why.status, "%s", why.text);
        job_free(&p->job);
        p = NULL;
    }
    if (!p) {
        text_clear(&model);
        return;
    }
    p->job.q.model = model;
    struct slot *slot = version ? models_find(&s->models, model.at, model.n) : NULL;
    struct served *now = slot ? models_take(&s->models, slot) : NULL;
    const bool other = now && !is_version(now, version);
    served_free(now);
    if (other) {
        http_fail(r, 404, "'%.200s': the model has another version now", r->path);
        job_free(&p->job);
        return;
    }
    p->k = p->job.q.how.k ? p->job.q.how.k : s->models.how.k;
    p->job.q.how.k = p->k; /* tensors have one shape, whatever a threshold leaves of it */
    predict_job(s, &p->job);
}

static void put_model(struct text *t, const struct slot *slot, const struct served *s)
{
    text_put(t, "{\"name\":");
    text_json(t, slot->name, strlen(slot->name));
    text_print(t, ",\"versions\":[\"%ld\"],\"platform\":\"wisp\",\"inputs\":[", s->version);
    if (s->text) text_put(t, "{\"name\":\"text\",\"datatype\":\"BYTES\",\"shape\":[-1]}");
    else if (s->units)
        text_print(t, "{\"name\":\"image\",\"datatype\":\"UINT8\",\"shape\":[-1,%zu,%zu,%zu]}",
                   s->image[0], s->image[1], s->image[2]);
    else
        text_put(t, "{\"name\":\"ids\",\"datatype\":\"INT32\",\"shape\":[-1,-1]},"
                    "{\"name\":\"values\",\"datatype\":\"FP32\",\"shape\":[-1,-1]}");
    text_put(t, "],\"outputs\":[{\"name\":\"labels\",\"datatype\":\"INT32\",\"shape\":[-1,-1]},"
                "{\"name\":\"scores\",\"datatype\":\"FP32\",\"shape\":[-1,-1]},"
                "{\"name\":\"names\",\"datatype\":\"BYTES\",\"shape\":[-1,-1]}]}\n");
}

static void about_model(struct http_request *r, struct service *s)
{
    struct text name = { 0 };
    const char *version, *what = split(r->rest, &name, &version);
    struct slot *slot = models_find(&s->models, name.at, name.n);
    struct served *now = slot ? models_take(&s->models, slot) : NULL;
    if (!slot || name.n == 0 || (*what && strcmp(what, "ready") != 0) ||
        (now && !is_version(now, version)))
        http_fail(r, 404, "no model at '%.200s'; GET /models lists them", r->path);
    else if (*what) {
        r->answer.status = now ? 200 : 503;
        text_print(&r->answer.body, "{\"name\":\"%s\",\"ready\":%s}\n", slot->name,
                   now ? "true" : "false");
    } else if (!now) {
        http_fail(r, 503, "model '%s' is not ready: its file is being written to", slot->name);
    } else {
        put_model(&r->answer.body, slot, now);
    }
    served_free(now);
    text_clear(&name);
}

void route_v2(struct http_request *r)
{
    if (*r->rest) about_model(r, r->arg);
    else
        text_print(&r->answer.body, "{\"name\":\"wisp\",\"version\":\"%s\",\"extensions\":[]}\n",
                   wisp_version());
}

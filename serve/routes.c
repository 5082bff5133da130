/* POST /predict and GET /models: wisp's own form of requests and answers. */
#include "serve/service.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_EXPLAINED = 20 /* labels of a row */, MOST_PARTS = 1 << 14 /* pixels of an image */ };

static void put_name(struct text *t, const wisp_model *m, int32_t label)
{
    size_t bytes = 0;
    const char *name = wisp_model_label_name(m, label, &bytes);
    if (name) text_json(t, name, bytes);
    else text_print(t, "\"%d\"", label);
}

static void begin(struct text *t, const struct job *j)
{
    text_put(t, "{\"model\":");
    text_json(t, j->s->slot->name, strlen(j->s->slot->name));
    text_print(t, ",\"version\":\"%ld\",\"rows\":[", j->s->version);
}

/* The parts of all pixels, in their order. */
static void put_parts(struct text *t, const wisp_explanation *e)
{
    float *parts = calloc(e->n + 1, sizeof *parts);
    for (size_t i = 0; parts && i < e->n; i++)
        if ((size_t)e->reasons[i].feature < e->n)
            parts[e->reasons[i].feature] = (float)e->reasons[i].part;
    text_put(t, ",\"parts\":[");
    for (size_t i = 0; parts && i < e->n; i++)
        text_print(t, i ? ",%.3g" : "%.3g", (double)parts[i]);
    text_add(t, "]", 1);
    if (!parts) t->failed = true;
    free(parts);
}

/* The features that count most; of small images all pixels instead. */
static void put_why(struct text *t, const struct job *j, const wisp_explanation *e)
{
    const size_t most = (size_t)j->how.explain;
    size_t bytes;
    text_put(t, ",\"bias\":");
    text_real(t, e->bias);
    text_put(t, ",\"logit\":");
    text_real(t, e->logit);
    if (e->channels && e->n <= MOST_PARTS) {
        put_parts(t, e);
        return;
    }
    text_put(t, ",\"why\":[");
    for (size_t i = 0; i < e->n && i < most; i++) {
        const wisp_reason *r = &e->reasons[i];
        const char *name = wisp_model_feature_name(j->s->m, r->feature, &bytes);
        text_put(t, i ? ",{\"feature\":" : "{\"feature\":");
        if (name) text_json(t, name, bytes);
        else text_print(t, "\"%d\"", r->feature);
        text_print(t, ",\"id\":%d,\"value\":", r->feature);
        text_real(t, r->value);
        text_put(t, ",\"part\":");
        text_real(t, r->part);
        text_add(t, "}", 1);
    }
    text_add(t, "]", 1);
}

static void row(struct text *t, const struct job *j, size_t i, const struct best *b)
{
    text_put(t, i ? ",{\"labels\":[" : "{\"labels\":[");
    for (size_t k = 0; k < b->n; k++) {
        text_put(t, k ? ",{\"label\":" : "{\"label\":");
        put_name(t, j->s->m, b->labels[k]);
        text_put(t, ",\"id\":");
        text_whole(t, b->labels[k]);
        text_put(t, ",\"score\":");
        text_real(t, b->scores[k]);
        const wisp_explanation *e = k < MOST_EXPLAINED ? best_explain(b, b->labels[k]) : NULL;
        if (e) put_why(t, j, e);
        text_add(t, "}", 1);
    }
    text_put(t, "]}");
}

static void end(struct text *t, const struct job *j)
{
    text_add(t, "]", 1);
    if (j->q.n_unknown) text_print(t, ",\"unknown\":%zu", j->q.n_unknown);
    text_put(t, "}\n");
}

static const struct form form = { begin, row, end, NULL };

/* The model of the path is that of the body, or the body names none. */
static bool take_name(struct job *j, const char *path)
{
    struct text *body = &j->q.model;
    if (*path && body->n == 0) text_put(body, path);
    if (!*path || (strlen(path) == body->n && memcmp(path, body->at, body->n) == 0)) return true;
    http_fail(
        j->r, 400,
        "the path names model '%.200s' and the body '%.*s': expected one of them, or the same "
        "in both",
        path, (int)body->n, body->at);
    return false;
}

void route_predict(struct http_request *r)
{
    struct service *s = r->arg;
    struct request_error why;
    struct job *j = job_make(r, &form, sizeof *j);
    if (!j) return;
    if (!request_read(&j->q, r->body, r->bytes, s->most_rows, &why)) {
        http_fail(r, why.status, "%s", why.text);
        job_free(j);
    } else if (!take_name(j, r->rest)) {
        job_free(j);
    } else {
        predict_job(s, j);
    }
}

static void put_model(struct text *t, const struct slot *slot, const struct served *s)
{
    text_put(t, "{\"name\":");
    text_json(t, slot->name, strlen(slot->name));
    text_print(t, ",\"ready\":%s", s ? "true" : "false");
    if (s) {
        size_t bytes;
        text_print(t, ",\"version\":\"%ld\",\"reads\":\"%s\"", s->version,
                   s->text    ? "text"
                   : s->units ? "image"
                              : "features");
        if (s->units)
            text_print(t, ",\"shape\":[%zu,%zu,%zu]", s->image[0], s->image[1], s->image[2]);
        text_print(
            t,
            ",\"features\":%zu,\"labels\":%zu,\"names\":%s,\"feature_names\":%s,\"sparse\":%s,"
            "\"calibrated\":%s,\"thresholds\":%s,\"bytes\":%zu,\"about\":%s",
            wisp_model_n_features(s->m), wisp_model_n_labels(s->m),
            wisp_model_label_name(s->m, 0, &bytes) ? "true" : "false",
            wisp_model_feature_name(s->m, 0, &bytes) ? "true" : "false",
            s->sparse ? "true" : "false", s->calibrated ? "true" : "false",
            s->threshold > 0 ? "true" : "false", s->bytes, wisp_model_describe(s->m));
    }
    text_add(t, "}", 1);
}

void route_models(struct http_request *r)
{
    struct service *s = r->arg;
    struct text *t = &r->answer.body;
    text_put(t, "{\"models\":[");
    for (size_t i = 0; i < s->models.n; i++) {
        struct served *now = models_take(&s->models, &s->models.slots[i]);
        if (i) text_add(t, ",", 1);
        put_model(t, &s->models.slots[i], now);
        served_free(now);
    }
    text_put(t, "]}\n");
}

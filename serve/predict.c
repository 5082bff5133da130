/* Rows to labels.
 *
 * Small requests whose rows cost little (sparse prediction, few labels) are predicted by the thread
 * that has read them, with a desk of its own: nothing is handed over, nobody waits.  All others go to
 * the queue, whose thread predicts what has gathered as one batch with all cores: exact prediction
 * reads every weight once for a batch instead of once for a row.
 *
 * Where many clients ask at once, small requests go there, too, as long as nothing that takes longer
 * is ahead of them.  A thread that predicts does not read and send meanwhile; so the clients of one
 * thread get their answers together, ask together again, and cores stand still in between. */
#include "serve/predict.h"
#include "serve/part.h"
#include "serve/service.h"

#include <stdlib.h>
#include <string.h>

enum { FEW_ROWS = 16, FEW_SCORES = 4096, PLACES = 1 << 20 };
enum {
    FEW_CLIENTS = 4,  /* connections per thread up to which nothing is handed over */
    NO_PAUSE_US = 50, /* between two requests of a thread, so that the second has been waiting */
    CROWD_US = 10000  /* that small requests are gathered after such a one */
};

/* ---- jobs ---- */

struct job *job_make(struct http_request *r, const struct form *form, size_t bytes)
{
    struct job *j = calloc(1, bytes);
    if (!j) {
        http_fail(r, 503, "out of memory for the request");
        return NULL;
    }
    j->r = r;
    j->form = form;
    j->q.how = how_unsaid;
    return j;
}

void job_free(struct job *j)
{
    if (j->form->clear) j->form->clear(j);
    request_clear(&j->q);
    served_free(j->s);
    free(j);
}

void job_fail(struct job *j, const wisp_error *err)
{
    http_fail_as(j->r, err);
}

static void settle_how(struct job *j, const struct how *server)
{
    struct how *how = &j->how;
    *how = j->q.how;
    if (how->threshold < 0) {
        how->threshold = server->threshold;
        how->own = server->own;
    }
    if (how->inference < 0) how->inference = server->inference;
    if (how->scores < 0) how->scores = server->scores;
    j->grows = how->k == 0 && server->k_default && how->threshold >= 0;
    if (how->k == 0) how->k = j->grows ? 100 : server->k;
    if (how->own && j->s) how->threshold = j->s->threshold; /* below it no label is given */
}

/* Pictures become pixels of the model's size. */
static bool decode(struct job *j)
{
    struct request *q = &j->q;
    struct text all = { 0 };
    wisp_error err = { 0 };
    uint8_t *one = malloc(j->s->units);
    wisp_status st = one ? WISP_OK : http_refuse(&err, WISP_ENOMEM, "out of memory for a picture");
    for (size_t i = 0, from = 0; i < q->n_rows && st == WISP_OK; i++) {
        const size_t end = q->start[i + 1];
        st = wisp_picture_pixels(one, j->s->image[0], j->s->image[1], j->s->image[2],
                                 q->text.at + from, end - from, &err);
        if (st == WISP_OK) text_add(&all, (const char *)one, j->s->units);
        if (st == WISP_OK && all.failed)
            st = http_refuse(&err, WISP_ENOMEM, "out of memory for pictures");
        from = end;
        q->start[i + 1] = all.n;
        if (st != WISP_OK) http_fail(j->r, http_status_of(st), "row %zu: %s", i, err.text);
    }
    if (!one) job_fail(j, &err);
    free(one);
    text_clear(&q->text);
    q->text = all;
    q->kind = ROWS_PIXELS;
    return st == WISP_OK;
}

bool job_settle(struct service *s, struct job *j)
{
    struct request *q = &j->q;
    struct request_error why;
    struct slot *slot = models_find(&s->models, q->model.at, q->model.n);
    if (!slot) {
        http_fail(j->r, 404, "no model '%.*s'; GET /models lists them", (int)q->model.n,
                  q->model.at);
        return false;
    }
    j->s = models_take(&s->models, slot);
    settle_how(j, &s->models.how);
    if (!j->s) {
        http_fail(j->r, 503, "model '%s' is not ready: its file is being written to", slot->name);
    } else if (q->kind == ROWS_TEXT && !j->s->text) {
        http_fail(j->r, 400, "found 'text', but model '%s' was trained on %s: expected '%s'",
                  slot->name, j->s->units ? "images" : "numbered features",
                  j->s->units ? "pixels' or 'image" : "features");
    } else if (q->kind == ROWS_PICTURES && !j->s->units) {
        http_fail(j->r, 400, "found 'image', but model '%s' does not read images", slot->name);
    } else if (j->how.inference == 1 && !j->s->sparse) {
        http_fail(j->r, 400, "model '%s' has no index for \"inference\":\"sparse\"", slot->name);
    } else if (j->how.own && j->s->threshold == 0) {
        http_fail(j->r, 400,
                  "model '%s' has no thresholds for \"threshold\":\"model\"; 'wisp threshold' "
                  "chooses them",
                  slot->name);
    } else if (j->how.own && j->how.scores == 1) {
        http_fail(j->r, 400,
                  "the thresholds of model '%s' are for calibrated scores, and \"scores\":\"raw\" "
                  "was asked for: say a \"threshold\"",
                  slot->name);
    } else if (q->kind == ROWS_PICTURES && !decode(j)) {
        return false;
    } else if (!request_resolve(q, j->s->m, j->s->units, &why)) {
        http_fail(j->r, why.status, "%s", why.text);
    } else {
        j->r->rows = q->n_rows;
        atomic_fetch_add(&slot->n_rows, q->n_rows);
        return true;
    }
    return false;
}

int job_level(const struct job *j)
{
    int level = 0;
    while (level + 1 < N_LEVELS && level_k[level] < j->how.k) level++;
    return level;
}

/* ---- rows of one batch ---- */

struct batch {
    size_t n;
    const int64_t *ptr; /* CSR, or */
    const int32_t *idx;
    const float *val;
    wisp_data *d; /* text, pictures */
    void *owned[3];
};

static wisp_status run_rows(int32_t *labels, float *scores, wisp_predictor *p, const struct desk *d,
                            const struct batch *b, size_t first, size_t n, wisp_error *err)
{
    if (b->d) return wisp_predictor_run(labels, scores, p, b->d, first, n, err);
    return wisp_predictor_run_csr(labels, scores, p, n, wisp_model_n_features(d->of->m),
                                  b->ptr + first, b->idx, b->val, WISP_CSR_PTR64, err);
}

static wisp_status join_csr(struct batch *b, const struct job *first, wisp_error *err)
{
    size_t n_values = 0, row = 0, at = 0;
    if (!first->next) {
        b->ptr = first->q.ptr;
        b->idx = first->q.idx;
        b->val = first->q.val;
        return WISP_OK;
    }
    for (const struct job *j = first; j; j = j->next) n_values += (size_t)j->q.ptr[j->q.n_rows];
    int64_t *ptr = b->owned[0] = malloc((b->n + 1) * sizeof *ptr);
    int32_t *idx = b->owned[1] = malloc((n_values + 1) * sizeof *idx);
    float *val = b->owned[2] = malloc((n_values + 1) * sizeof *val);
    if (!ptr || !idx || !val) return http_refuse(err, WISP_ENOMEM, "out of memory for a batch");
    ptr[0] = 0;
    for (const struct job *j = first; j; j = j->next) {
        const size_t n = (size_t)j->q.ptr[j->q.n_rows];
        memcpy(idx + at, j->q.idx, n * sizeof *idx);
        memcpy(val + at, j->q.val, n * sizeof *val);
        for (size_t i = 0; i < j->q.n_rows; i++) ptr[++row] = (int64_t)at + j->q.ptr[i + 1];
        at += n;
    }
    b->ptr = ptr;
    b->idx = idx;
    b->val = val;
    return WISP_OK;
}

/* All texts, or all pixels, one after the other. */
static wisp_status join_bytes(const char **text, const uint64_t **start, struct batch *b,
                              const struct job *first, wisp_error *err)
{
    size_t bytes = 0, row = 0, at = 0;
    *text = first->q.text.at ? first->q.text.at : "";
    *start = first->q.start;
    if (!first->next) return WISP_OK;
    for (const struct job *j = first; j; j = j->next) bytes += j->q.text.n;
    char *all = b->owned[0] = malloc(bytes + 1);
    uint64_t *starts = b->owned[1] = malloc((b->n + 1) * sizeof *starts);
    if (!all || !starts) return http_refuse(err, WISP_ENOMEM, "out of memory for a batch");
    starts[0] = 0;
    for (const struct job *j = first; j; j = j->next) {
        if (j->q.text.n) memcpy(all + at, j->q.text.at, j->q.text.n);
        for (size_t i = 0; i < j->q.n_rows; i++) starts[++row] = at + j->q.start[i + 1];
        at += j->q.text.n;
    }
    *text = all;
    *start = starts;
    return WISP_OK;
}

/* The rows of all jobs as one batch. */
static wisp_status join(struct batch *b, const struct job *first, const struct service *s,
                        struct desk *d, wisp_error *err)
{
    const struct served *of = d->of;
    const char *text;
    const uint64_t *start;
    if (b->n == 0) return WISP_OK;
    if (first->q.kind == ROWS_FEATURES) return join_csr(b, first, err);
    const wisp_status st = join_bytes(&text, &start, b, first, err);
    if (st != WISP_OK) return st;
    if (first->q.kind == ROWS_TEXT)
        return wisp_data_from_text(&b->d, d->ctx, b->n, text, start, 0, NULL, NULL,
                                   s->models.cfg[0][0], of->m, err);
    return wisp_data_from_images(&b->d, b->n, of->image[0], of->image[1], of->image[2], text, 0, 0,
                                 NULL, NULL, err);
}

static void batch_clear(struct batch *b)
{
    wisp_data_free(b->d);
    for (int i = 0; i < 3; i++) free(b->owned[i]);
}

/* ---- answers ---- */

/* Do all places of a row reach the threshold, and are there labels beyond them? */
static bool is_full(const struct job *j, const int32_t *labels, const float *scores, size_t k)
{
    return j->grows && k < wisp_model_n_labels(j->s->m) && labels[k - 1] >= 0 &&
           scores[k - 1] >= j->how.threshold;
}

/* Those of the k labels that are given; they move to the front. */
static struct best cut(const struct job *j, int32_t *labels, float *scores, size_t k)
{
    struct best b = { labels, scores, 0, NULL };
    for (size_t i = 0; i < k && labels[i] >= 0 && scores[i] >= j->how.threshold; i++) {
        if (j->how.own && scores[i] < wisp_model_threshold(j->s->m, labels[i])) continue;
        labels[b.n] = labels[i];
        scores[b.n++] = scores[i];
    }
    return b;
}

/* ---- reasons ---- */

struct reasons {
    wisp_predictor *p;
    const wisp_data *d;
    size_t row;
    wisp_status st;
    wisp_error *err;
};

const wisp_explanation *best_explain(const struct best *b, int32_t label)
{
    const wisp_explanation *e = NULL;
    if (!b->why || b->why->st != WISP_OK) return NULL;
    b->why->st = wisp_explain(&e, b->why->p, b->why->d, b->why->row, label, b->why->err);
    return b->why->st == WISP_OK ? e : NULL;
}

/* Writes the row's answer, with reasons where they were asked for. */
static wisp_status write_row(struct job *j, struct desk *d, const struct service *s,
                             const struct batch *b, size_t i, size_t row, struct best *best,
                             int level, wisp_error *err)
{
    struct reasons why = { .d = b->d, .row = i, .err = err };
    wisp_data *own = NULL;
    if (j->how.explain) {
        why.st = desk_ready(&why.p, d, &s->models, &j->how, level, 1, err);
        if (why.st == WISP_OK && !b->d) {
            const int64_t ptr[2] = { 0, b->ptr[i + 1] - b->ptr[i] };
            why.st = wisp_data_view_csr(&own, 1, wisp_model_n_features(d->of->m), 0, ptr,
                                        b->idx + b->ptr[i], b->val + b->ptr[i], WISP_CSR_PTR64,
                                        NULL, NULL, err);
            why.d = own;
            why.row = 0;
        }
        best->why = &why;
    }
    if (why.st == WISP_OK) j->form->row(&j->r->answer.body, j, row, best);
    wisp_data_free(own);
    /* a model that cannot be explained answers without reasons */
    return why.st == WISP_ENOTSUP ? WISP_OK : why.st;
}

/* Row 'i' of the batch, at k places; a row with more labels than places is predicted again. */
static wisp_status answer_row(struct service *s, struct desk *d, struct job *j,
                              const struct batch *b, size_t i, size_t row, int32_t *labels,
                              float *scores, int level, wisp_error *err)
{
    struct desk more = { .of = d->of, .ctx = d->ctx };
    wisp_status st = WISP_OK;
    memcpy(more.p, d->p, sizeof more.p);
    while (st == WISP_OK && is_full(j, labels, scores, level_k[level]) && level + 1 < N_LEVELS) {
        wisp_predictor *p;
        st = desk_ready(&p, &more, &s->models, &j->how, ++level, 1, err);
        labels = more.labels;
        scores = more.scores;
        if (st == WISP_OK) st = run_rows(labels, scores, p, d, b, i, 1, err);
    }
    memcpy(d->p, more.p, sizeof more.p);
    if (st == WISP_OK) {
        const size_t most = level_k[level];
        struct best best = cut(j, labels, scores, j->grows || j->how.k > most ? most : j->how.k);
        st = write_row(j, d, s, b, i, row, &best, level, err);
    }
    free(more.labels);
    free(more.scores);
    return st;
}

static wisp_status answer_all(struct service *s, struct desk *d, struct job *first,
                              const struct batch *b, wisp_error *err)
{
    const int level = job_level(first);
    const size_t k = level_k[level], most = PLACES / k;
    struct job *j = first;
    size_t row = 0; /* of the job */
    wisp_status st = WISP_OK;
    wisp_predictor *p;
    for (size_t at = 0, n; at < b->n && st == WISP_OK; at += n) {
        n = b->n - at < most ? b->n - at : most;
        st = desk_ready(&p, d, &s->models, &first->how, level, n, err);
        if (st == WISP_OK) st = run_rows(d->labels, d->scores, p, d, b, at, n, err);
        for (size_t i = 0; i < n && st == WISP_OK; i++, row++) {
            while (row == j->q.n_rows) {
                j = j->next;
                row = 0;
            }
            st = answer_row(s, d, j, b, at + i, row, d->labels + i * k, d->scores + i * k, level,
                            err);
        }
    }
    return st;
}

void predict_batch(struct service *s, struct desk *d, struct job *first, size_t n_rows)
{
    struct batch b = { .n = n_rows };
    wisp_error err = { 0 };
    metrics_batch(&s->metrics, n_rows);
    for (struct job *j = first; j; j = j->next) j->form->begin(&j->r->answer.body, j);
    wisp_status st = join(&b, first, s, d, &err);
    if (st == WISP_OK) st = answer_all(s, d, first, &b, &err);
    for (struct job *j = first; j; j = j->next) {
        if (st == WISP_OK) j->form->end(&j->r->answer.body, j);
        else job_fail(j, &err);
    }
    batch_clear(&b);
}

/* ---- now or later ---- */

static bool is_quick(const struct service *s, const struct job *j)
{
    if (s->card || s->max_wait_us >= 0 || j->s->units || j->how.explain) return false;
    return j->how.inference == 1 ? j->q.n_rows <= FEW_ROWS
                                 : j->q.n_rows * wisp_model_n_labels(j->s->m) <= FEW_SCORES;
}

/* When this thread was done with the request before. */
static _Thread_local int64_t free_since_us;

/* Do others ask at the same time, so that it is better to predict together?  Once they do, that is
 * taken to go on for a while. */
static bool is_crowded(struct service *s, const struct job *j)
{
    if (queue_is_slow(s->queue)) return false;
    if (http_connections(j->r->server) > (size_t)(FEW_CLIENTS * s->threads) &&
        j->r->begun_us - free_since_us < NO_PAUSE_US)
        s->crowded_until_us = j->r->begun_us + CROWD_US;
    return j->r->begun_us < s->crowded_until_us;
}

static void predict_here(struct service *s, struct job *j)
{
    wisp_error err = { 0 };
    struct desk *d = desk_take(j->s, &err);
    if (d) predict_batch(s, d, j, j->q.n_rows);
    else job_fail(j, &err);
    if (d) desk_put(d);
    job_free(j);
}

static void run_job(struct service *s, struct job *j)
{
    if (!job_settle(s, j)) {
        job_free(j);
        return;
    }
    j->quick = is_quick(s, j);
    if (j->quick && !is_crowded(s, j)) predict_here(s, j);
    else if (queue_put(s->queue, j)) return;
    else if (j->quick) predict_here(s, j); /* the queue is full */
    else {
        http_fail(j->r, 503, "%zu rows are waiting already (--max-queue)", queue_rows(s->queue));
        job_free(j);
    }
}

void predict_job(struct service *s, struct job *j)
{
    run_job(s, j);
    free_since_us = http_now_us();
}

/* The kind of model that is linear: its weights to and from a file, and scoring.
 *
 * Tensors: "linear.start" (I64), "linear.label" or "linear.feature" (I32: lists are those of features
 * and name labels, or the other way round), "linear.weight" (F32, BF16 or I8, then with
 * "linear.weight.scale", F32 per list) and "linear.bias" (F32).
 *
 * Lists by feature: all labels of a row are scored.  Lists by label: those that its features vote for
 * are, CANDIDATES of them, or FEW in sparse prediction; the weights of a label were trained against
 * rows that vote for it, and mean nothing for others. */
#include "base/bounds.h"
#include "base/mem.h"
#include "hash/best.h"
#include "model/kind.h"
#include "model/linear_run.h"

#include <math.h>
#include <string.h>

enum { CANDIDATES = 50, FEW = 20, JUDGED = 100 /* labels that 'score' knows of a row */ };

/* From a margin to a raw score; what a score is worth calibration finds out. */
static const float SHARP = 4;

static bool is_linear(const char *spec)
{
    return strcmp(spec, "linear") == 0;
}

/* ---- from a file and to it ---- */

size_t wisp_linear_bad_list(const int64_t *start, const int32_t *id, size_t lists, size_t n,
                            size_t below)
{
    if (start[0] != 0 || start[lists] != (int64_t)n) return 0;
    for (size_t l = 0; l < lists; l++) {
        if (start[l + 1] < start[l] || start[l + 1] > (int64_t)n) return l;
        int64_t last = -1;
        for (int64_t e = start[l]; e < start[l + 1]; last = id[e++])
            if (id[e] <= last || (size_t)id[e] >= below) return l;
    }
    return lists;
}

static wisp_status load_weights(struct wisp_linear *l, const struct wisp_loader *ld, size_t n,
                                wisp_error *err)
{
    const struct wisp_tensor *t = wisp_loader_find(ld, "linear.weight"), *scale;
    const bool narrow = t && (t->dtype == WISP_BF16 || t->dtype == WISP_I8);
    const size_t lists = wisp_linear_lists(l);
    wisp_status st = wisp_need(&t, ld, "linear.weight", narrow ? t->dtype : WISP_F32, n, err);
    if (st != WISP_OK) return st;
    if (t->dtype == WISP_F32) l->f32 = t->data;
    else if (t->dtype == WISP_BF16) l->b16 = t->data;
    else l->i8 = t->data;
    if (!l->i8) return WISP_OK;
    st = wisp_need(&scale, ld, "linear.weight.scale", WISP_F32, lists, err);
    if (st != WISP_OK) return st;
    l->scale = scale->data;
    return wisp_expect_from_0(ld, "linear.weight.scale", l->scale, lists, err);
}

static wisp_status load(const struct wisp_loader *ld, wisp_error *err)
{
    struct wisp_model *m = ld->m;
    struct wisp_linear l = { .n_features = m->net.n_features, .n_labels = m->net.n_labels };
    const struct wisp_tensor *start, *id, *bias;
    l.by_feature = wisp_loader_find(ld, "linear.label") != NULL;
    const char *name = l.by_feature ? "linear.label" : "linear.feature";
    const size_t lists = wisp_linear_lists(&l), below = l.by_feature ? l.n_labels : l.n_features;
    wisp_status st = wisp_need(&start, ld, "linear.start", WISP_I64, lists + 1, err);
    if (st != WISP_OK) return st;
    l.start = start->data;
    const size_t n = l.start[lists] < 0 ? 0 : (size_t)l.start[lists];
    if ((st = wisp_need(&id, ld, name, WISP_I32, n, err)) != WISP_OK ||
        (st = load_weights(&l, ld, n, err)) != WISP_OK ||
        (st = wisp_need(&bias, ld, "linear.bias", WISP_F32, l.n_labels, err)) != WISP_OK)
        return st;
    l.id = id->data;
    l.bias = bias->data;
    const size_t bad = wisp_linear_bad_list(l.start, l.id, lists, n, below);
    if (bad < lists)
        return wisp_fail_at(err, WISP_EMODEL, ld->path, 0,
                            "'linear.start' or '%s' is wrong at %s %zu, expected starts from 0 on "
                            "that do not fall, and ids that ascend, below %zu",
                            name, l.by_feature ? "feature" : "label", bad, below);
    m->linear = l;
    return WISP_OK;
}

static wisp_status whole(const struct wisp_loader *ld, wisp_error *err)
{
    if (ld->m->linear.by_feature || ld->m->votes.start) return WISP_OK;
    return wisp_fail_at(err, WISP_EMODEL, ld->path, 0,
                        "the index ('votes') is missing: this linear model knows by it which "
                        "labels to score");
}

static void list(struct wisp_tensor_list *t, const struct wisp_model *m)
{
    const struct wisp_linear *l = &m->linear;
    const size_t n = wisp_linear_weights(l), lists = wisp_linear_lists(l);
    wisp_list_add(t, "linear.start", WISP_I64, lists + 1, l->start);
    wisp_list_add(t, l->by_feature ? "linear.label" : "linear.feature", WISP_I32, n, l->id);
    if (l->f32) wisp_list_add(t, "linear.weight", WISP_F32, n, l->f32);
    else if (l->b16) wisp_list_add(t, "linear.weight", WISP_BF16, n, l->b16);
    else wisp_list_add(t, "linear.weight", WISP_I8, n, l->i8);
    if (l->i8) wisp_list_add(t, "linear.weight.scale", WISP_F32, lists, l->scale);
    wisp_list_add(t, "linear.bias", WISP_F32, l->n_labels, l->bias);
}

static void clear(struct wisp_model *m)
{
    wisp_linear_clear(&m->linear);
}

static size_t n_params(const struct wisp_model *m)
{
    return wisp_linear_weights(&m->linear) + m->linear.n_labels;
}

static size_t bytes(const struct wisp_model *m)
{
    const struct wisp_linear *l = &m->linear;
    const size_t n = wisp_linear_weights(l), of_weight = l->f32 ? 4 : l->b16 ? 2 : 1;
    return n * (4 + of_weight) + (wisp_linear_lists(l) + 1) * 8 + l->n_labels * 4;
}

/* ---- scoring ---- */

struct own {
    struct wisp_linear l; /* the model's, with places of features */
    float *places;
    size_t room;       /* labels of a thread: all, or the candidates */
    size_t candidates; /* 0: all labels are scored */
    int32_t *labels;   /* (threads, room), or (room) of all labels */
    float *scores;     /* (threads, room) */
    size_t key_room;
    uint64_t *keys;                  /* (threads, key_room) */
    struct wisp_election *elections; /* (threads) */
    size_t n_elections;
    float *factor;      /* (n_labels) of votes */
    int32_t *frequent;  /* (k) labels with most training rows */
    int32_t *judged;    /* (batch, room) labels by votes, most first, ... */
    uint32_t *n_judged; /* (batch) how many */
    uint64_t *scored;   /* (batch) */
};

struct job {
    struct wisp_scorer *s;
    const struct wisp_batch *b;
};

static size_t batch(const struct wisp_model *m)
{
    (void)m;
    return WISP_SCORE_BATCH;
}

static float raw(float margin)
{
    return isfinite(margin) ? 1 / (1 + expf(-SHARP * margin)) : NAN;
}

static wisp_status ready_votes(struct wisp_scorer *s, struct own *o, size_t threads,
                               wisp_error *err)
{
    const struct wisp_model *m = s->m;
    const size_t n_labels = m->linear.n_labels;
    o->places = wisp_alloc(m->linear.n_features, sizeof *o->places);
    o->factor = wisp_alloc(n_labels, sizeof *o->factor);
    o->frequent = wisp_alloc(s->k, sizeof *o->frequent);
    o->elections = wisp_zalloc(threads, sizeof *o->elections);
    o->judged = wisp_alloc(s->batch * o->room, sizeof *o->judged);
    o->n_judged = wisp_alloc(s->batch, sizeof *o->n_judged);
    if (!o->places || !o->factor || !o->frequent || !o->elections || !o->judged || !o->n_judged)
        return wisp_fail_mem(err, n_labels * 4, "prediction");
    for (size_t l = 0; l < n_labels; l++) o->factor[l] = wisp_negatives_factor(m->label_rows[l]);
    wisp_linear_places(o->places, &m->linear);
    o->l.places = o->places;
    wisp_most_frequent(o->frequent, s->k, m->label_rows, n_labels);
    for (; o->n_elections < threads; o->n_elections++) {
        struct wisp_election *e = &o->elections[o->n_elections];
        wisp_status st = wisp_election_init(e, WISP_VOTERS, WISP_VOTES_EACH, n_labels, err);
        if (st != WISP_OK) return st;
        e->factor = o->factor;
    }
    return WISP_OK;
}

static wisp_status ready(struct wisp_scorer *s, enum wisp_zeros zeros, wisp_error *err)
{
    (void)zeros;
    const struct wisp_linear *l = &s->m->linear;
    const size_t threads = (size_t)wisp_pool_threads(s->ctx->pool);
    struct own *o = s->own = wisp_zalloc(1, sizeof *o);
    if (!o) return wisp_fail_mem(err, sizeof *o, "prediction");
    o->l = *l;
    o->candidates = l->by_feature ? 0 : CANDIDATES;
    o->room = l->by_feature ? l->n_labels : s->k > JUDGED ? s->k : JUDGED;
    o->labels = wisp_alloc((l->by_feature ? 1 : threads) * o->room, sizeof *o->labels);
    o->scores = wisp_alloc(threads * o->room, sizeof *o->scores);
    o->key_room = l->by_feature ? o->room : wisp_most(o->room, WISP_VOTERS * WISP_VOTES_EACH);
    o->keys = wisp_alloc(threads * o->key_room, sizeof *o->keys);
    o->scored = wisp_alloc(s->batch, sizeof *o->scored);
    if (!o->labels || !o->scores || !o->keys || !o->scored)
        return wisp_fail_mem(err, threads * o->room * 16, "prediction");
    for (size_t i = 0; l->by_feature && i < o->room; i++) o->labels[i] = (int32_t)i;
    return l->by_feature ? WISP_OK : ready_votes(s, o, threads, err);
}

static void done(struct wisp_scorer *s)
{
    struct own *o = s->own;
    if (!o) return;
    for (size_t i = 0; i < o->n_elections; i++) wisp_election_clear(&o->elections[i]);
    wisp_free(o->labels);
    wisp_free(o->scores);
    wisp_free(o->keys);
    wisp_free(o->elections);
    wisp_free(o->places);
    wisp_free(o->factor);
    wisp_free(o->frequent);
    wisp_free(o->judged);
    wisp_free(o->n_judged);
    wisp_free(o->scored);
    wisp_free(o);
    s->own = NULL;
}

static wisp_status use_some(struct wisp_scorer *s, const struct wisp_scorer *lead, wisp_error *err)
{
    (void)lead, (void)err;
    struct own *o = s->own;
    if (o->candidates) o->candidates = FEW; /* else few weights are read as it is */
    return WISP_OK;
}

static void use_all(struct wisp_scorer *s)
{
    struct own *o = s->own;
    if (o->candidates) o->candidates = CANDIDATES;
}

/* The labels with most votes: 'candidates' of them to be scored, and more to be known; frequent ones
 * where there are fewer than k. */
static size_t elect(int32_t *labels, const struct job *j, size_t row, int thread)
{
    struct own *o = j->s->own;
    const struct wisp_batch *b = j->b;
    const struct wisp_votes *v = &j->s->m->votes;
    struct wisp_election *e = &o->elections[thread];
    uint64_t *keys = o->keys + (size_t)thread * o->key_room;
    const size_t seen =
        wisp_votes_count(e, v, b->xi + b->xp[row], b->xv + b->xp[row], b->xp[row + 1] - b->xp[row]);
    const size_t found = wisp_keys_best(keys, e->votes, e->row, seen, o->room);
    size_t n = 0;
    for (; n < found && wisp_key_score(keys[n]) > 0; n++) labels[n] = wisp_key_row(keys[n]);
    memcpy(o->judged + row * o->room, labels, n * sizeof *labels);
    o->n_judged[row] = (uint32_t)n;
    size_t to = wisp_most(o->candidates, j->s->k);
    if (to > n) to = n;
    const size_t elected = to;
    for (size_t i = 0; to < j->s->k; i++)
        if (!j->s->ctx->k->holds(labels, elected, o->frequent[i])) labels[to++] = o->frequent[i];
    return to;
}

static void best_of_row(void *arg, size_t row, int thread)
{
    const struct job *j = arg;
    const struct wisp_scorer *s = j->s;
    const struct wisp_batch *b = j->b;
    struct own *o = s->own;
    const struct wisp_linear *l = &o->l;
    const int32_t *xi = b->xi + b->xp[row];
    const float *xv = b->xv + b->xp[row];
    const size_t nnz = b->xp[row + 1] - b->xp[row], first = (size_t)thread * o->room;
    int32_t *labels = o->labels + (l->by_feature ? 0 : first);
    float *z = o->scores + first;
    uint64_t *keys = o->keys + (size_t)thread * o->key_room;
    size_t n = o->room;
    if (l->by_feature) {
        wisp_linear_all(z, l, xi, xv, nnz);
    } else {
        n = elect(labels, j, row, thread);
        wisp_linear_some(z, l, xi, xv, nnz, labels, n);
    }
    o->scored[row] = n;
    const size_t found = wisp_keys_best(keys, z, labels, n, s->k);
    for (size_t i = 0; i < s->k; i++) {
        s->labels[row * s->k + i] = i < found ? wisp_key_row(keys[i]) : -1;
        s->scores[row * s->k + i] = i < found ? raw(wisp_key_score(keys[i])) : NAN;
    }
}

static wisp_status best(struct wisp_scorer *s, const struct wisp_batch *b, wisp_error *err)
{
    (void)err;
    const struct own *o = s->own;
    struct job j = { s, b };
    wisp_parallel_for(s->ctx->pool, b->n, best_of_row, &j);
    for (size_t i = 0; i < b->n; i++) s->n_scored += o->scored[i];
    return WISP_OK;
}

static void score(float *out, struct wisp_scorer *s, const struct wisp_batch *b, size_t row,
                  const int32_t *labels, size_t n, int thread)
{
    (void)thread;
    const struct own *o = s->own;
    wisp_linear_some(out, &o->l, b->xi + b->xp[row], b->xv + b->xp[row],
                     b->xp[row + 1] - b->xp[row], labels, n);
    for (size_t i = 0; i < n; i++) {
        const bool judged = !o->candidates || s->ctx->k->holds(o->judged + row * o->room,
                                                               o->n_judged[row], labels[i]);
        out[i] = judged ? raw(out[i]) : 0;
    }
}

const struct wisp_model_kind wisp_kind_linear = {
    .name = "linear",
    .index = "--negatives votes",
    .learn = "another --cost, or a net (--hidden)",
    .is = is_linear,
    .load = load,
    .whole = whole,
    .list = list,
    .clear = clear,
    .n_params = n_params,
    .bytes = bytes,
    .batch = batch,
    .ready = ready,
    .done = done,
    .use_some = use_some,
    .use_all = use_all,
    .best = best,
    .score = score,
    .explain_ready = wisp_explain_linear_ready,
    .explain_done = wisp_explain_linear_done,
    .explain = wisp_explain_linear,
    .train = wisp_linear_train,
};

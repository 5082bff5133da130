/* The kind of model that has members: its file, and the scores of several as one. */
#include "base/bounds.h"
#include "base/mem.h"
#include "hash/best.h"
#include "model/joint.h"
#include "model/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX = 24 };

static bool is_joint(const char *spec)
{
    return strcmp(spec, "joint") == 0;
}

static void member_prefix(char out[PREFIX], size_t i)
{
    snprintf(out, PREFIX, "%zu/", i);
}

/* ---- from a file ---- */

/* What a member says of itself: its net, by which its kind is known, and its loss. */
static wisp_status load_texts(const struct wisp_loader *ld, wisp_error *err)
{
    struct wisp_model *m = ld->m;
    const char *spec = wisp_loader_meta(ld, "net"), *loss = wisp_loader_meta(ld, "loss"),
               *about = wisp_loader_meta(ld, "card");
    m->loss = loss ? wisp_loss_find(loss) : NULL;
    if (!spec || !m->loss || is_joint(spec))
        return wisp_fail_at(err, WISP_EMODEL, ld->path, 0,
                            "metadata '%snet' or '%sloss' is missing or unknown", ld->prefix,
                            ld->prefix);
    m->spec = wisp_strdup(spec);
    m->about = wisp_strdup(about ? about : "");
    m->kind = wisp_kind_of_text(spec);
    return m->spec && m->about ? WISP_OK : wisp_fail_mem(err, strlen(spec), "a model");
}

/* What members have in common with the joint model. */
static void lend(struct wisp_model *member, const struct wisp_model *m)
{
    member->net.n_features = m->net.n_features;
    member->net.n_labels = m->net.n_labels;
    member->values = m->values;
    member->votes = m->votes;
    member->label_rows = m->label_rows;
    member->n_train = m->n_train;
}

static wisp_status load_member(struct wisp_joint *j, const struct wisp_loader *all, size_t i,
                               wisp_error *err)
{
    char prefix[PREFIX];
    struct wisp_model *m = wisp_zalloc(1, sizeof *m);
    if (!m) return wisp_fail_mem(err, sizeof *m, "a model");
    j->members[j->n++] = m;
    member_prefix(prefix, i);
    const struct wisp_loader ld = { m, all->file, all->path, prefix };
    lend(m, all->m);
    wisp_status st = load_texts(&ld, err);
    if (st == WISP_OK) st = m->kind->load(&ld, err);
    if (st == WISP_OK && m->kind->whole) st = m->kind->whole(&ld, err);
    return st == WISP_OK ? wisp_loader_calibrations(&ld, err) : st;
}

static wisp_status load_mix(struct wisp_joint *j, const struct wisp_loader *ld, size_t n,
                            wisp_error *err)
{
    const struct wisp_tensor *t;
    wisp_status st = wisp_need(&t, ld, "mix", WISP_F32, n, err);
    if (st != WISP_OK) return st;
    memcpy(j->mix, t->data, n * sizeof *j->mix);
    double sum = 0;
    bool ok = true;
    for (size_t i = 0; i < n; i++) ok &= j->mix[i] >= 0, sum += (double)j->mix[i];
    if (ok && fabs(sum - 1) < 1e-5) return WISP_OK;
    return wisp_fail_at(err, WISP_EMODEL, ld->path, 0,
                        "'mix' has weights below 0, or whose sum is %g, expected 1", sum);
}

/* Once values, counts and votes are there: members use them. */
static wisp_status load_whole(const struct wisp_loader *ld, wisp_error *err)
{
    size_t n;
    wisp_status st = wisp_need_number(&n, ld, "members", WISP_JOINT_MOST, err);
    if (st != WISP_OK) return st;
    if (n < 2)
        return wisp_fail_at(err, WISP_EMODEL, ld->path, 0,
                            "metadata 'members' says %zu, expected 2 to %d", n, WISP_JOINT_MOST);
    if ((st = load_mix(ld->m->joint, ld, n, err)) != WISP_OK) return st;
    for (size_t i = 0; i < n && st == WISP_OK; i++) st = load_member(ld->m->joint, ld, i, err);
    return st;
}

static wisp_status load(const struct wisp_loader *ld, wisp_error *err)
{
    ld->m->joint = wisp_zalloc(1, sizeof *ld->m->joint);
    return ld->m->joint ? WISP_OK : wisp_fail_mem(err, sizeof *ld->m->joint, "a joint model");
}

static void clear(struct wisp_model *m)
{
    struct wisp_joint *j = m->joint;
    if (j && j->lent) {
        m->labels = m->vocab = m->stop = (struct wisp_names){ 0 };
        m->votes = (struct wisp_votes){ 0 };
    }
    for (size_t i = 0; j && i < j->n; i++) {
        struct wisp_model *member = j->members[i];
        if (!j->lent) member->votes = (struct wisp_votes){ 0 };
        wisp_model_free(member);
    }
    wisp_free(j);
    m->joint = NULL;
}

/* ---- to a file ---- */

static void list(struct wisp_tensor_list *l, const struct wisp_model *m)
{
    const struct wisp_joint *j = m->joint;
    for (size_t i = 0; i < j->n; i++) {
        char prefix[PREFIX];
        member_prefix(prefix, i);
        l->prefix = prefix;
        wisp_kind_of(j->members[i])->list(l, j->members[i]);
        wisp_list_calibrations(l, j->members[i]);
        l->prefix = "";
    }
    wisp_list_add(l, "mix", WISP_F32, j->n, j->mix);
}

/* Members come from files of their own, whose metadata say how good each was. */
static size_t add_meta(struct wisp_pair *to, const struct wisp_model *m)
{
    static const char *const keys[] = { "net",       "loss",  "card", "validation",
                                        "valid_p@1", "epoch", "image" };
    static const char *const numbers[] = { "0", "1",  "2",  "3",  "4",  "5",  "6",  "7", "8",
                                           "9", "10", "11", "12", "13", "14", "15", "16" };
    struct wisp_joint *j = m->joint;
    size_t n = 0;
    to[n++] = (struct wisp_pair){ "members", numbers[j->n] };
    for (size_t i = 0; i < j->n; i++)
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            const struct wisp_model *member = j->members[i];
            const char *value = k == 0   ? member->spec
                                : k == 1 ? member->loss->name
                                         : wisp_tensor_file_meta(&member->file, keys[k]);
            if (!value) continue;
            snprintf(j->keys[i][k], sizeof j->keys[i][k], "%zu/%s", i, keys[k]);
            to[n++] = (struct wisp_pair){ j->keys[i][k], value };
        }
    return n;
}

wisp_status wisp_joint_make(struct wisp_model **out, struct wisp_model **members, size_t n,
                            wisp_error *err)
{
    struct wisp_model *m = *out = wisp_zalloc(1, sizeof *m);
    const struct wisp_model *first = members[0];
    struct wisp_joint *j = m ? wisp_zalloc(1, sizeof *j) : NULL;
    wisp_status st = j ? WISP_OK : wisp_fail_mem(err, sizeof *m, "a joint model");
    for (size_t i = 1; i < n && st == WISP_OK; i++)
        if (members[i]->net.n_features != first->net.n_features ||
            members[i]->net.n_labels != first->net.n_labels ||
            members[i]->values.mode != first->values.mode)
            st = wisp_fail(err, WISP_EMODEL,
                           "members of a joint model: %zu features and %zu labels beside %zu and "
                           "%zu, or other values, expected the same",
                           members[i]->net.n_features, members[i]->net.n_labels,
                           first->net.n_features, first->net.n_labels);
    if (st != WISP_OK) {
        for (size_t i = 0; i < n; i++) wisp_model_free(members[i]);
        wisp_free(j);
        wisp_free(m);
        *out = NULL;
        return st;
    }
    *m = (struct wisp_model){ .kind = &wisp_kind_joint,
                              .joint = j,
                              .net = { .n_features = first->net.n_features,
                                       .n_labels = first->net.n_labels },
                              .spec = wisp_strdup("joint"),
                              .loss = wisp_loss_find("bce"),
                              .values = first->values,
                              .labels = first->labels,
                              .vocab = first->vocab,
                              .stop = first->stop,
                              .text = first->text,
                              .how = first->how,
                              .named = first->named,
                              .format = first->format,
                              .index_base = first->index_base,
                              .votes = first->votes,
                              .label_rows = first->label_rows,
                              .n_train = first->n_train };
    j->n = n;
    j->lent = true;
    for (size_t i = 0; i < n; i++) j->members[i] = members[i], j->mix[i] = 1 / (float)n;
    if (m->spec) return WISP_OK;
    wisp_model_free(m);
    *out = NULL;
    return wisp_fail_mem(err, 8, "a joint model");
}

/* ---- scoring ---- */

struct scorers {
    size_t n;
    struct wisp_scorer of[WISP_JOINT_MOST];
    size_t room; /* candidates of a row, at most */
    bool sparse;
    int32_t *labels;            /* (threads, room) candidates, ascending */
    float *one, *sum;           /* (threads, room) a member's scores of them; those of all */
    uint64_t *keys;             /* (threads, room) */
    struct wisp_mix_seen *seen; /* NULL: nobody looks */
};

static size_t batch(const struct wisp_model *m)
{
    size_t least = WISP_SCORE_BATCH;
    for (size_t i = 0; i < m->joint->n; i++) {
        const struct wisp_model *member = m->joint->members[i];
        const size_t its = wisp_kind_of(member)->batch(member);
        least = its < least ? its : least;
    }
    return least;
}

static wisp_status ready(struct wisp_scorer *s, enum wisp_zeros zeros, wisp_error *err)
{
    const struct wisp_joint *j = s->m->joint;
    const size_t threads = (size_t)wisp_pool_threads(s->ctx->pool),
                 each = wisp_most(s->k, WISP_JOINT_CANDIDATES);
    struct scorers *o = s->own = wisp_zalloc(1, sizeof *o);
    if (!o) return wisp_fail_mem(err, sizeof *o, "scoring");
    for (; o->n < j->n; o->n++) {
        wisp_status st =
            wisp_scorer_init_member(&o->of[o->n], j->members[o->n], s->ctx, zeros, each, err);
        if (st != WISP_OK) return st;
        o->room += o->of[o->n].k;
    }
    o->labels = wisp_alloc(threads * o->room, sizeof *o->labels);
    o->one = wisp_alloc(threads * o->room, sizeof *o->one);
    o->sum = wisp_alloc(threads * o->room, sizeof *o->sum);
    o->keys = wisp_alloc(threads * o->room, sizeof *o->keys);
    return o->labels && o->one && o->sum && o->keys
               ? WISP_OK
               : wisp_fail_mem(err, threads * o->room * 20, "scoring");
}

static void done(struct wisp_scorer *s)
{
    struct scorers *o = s->own;
    if (!o) return;
    for (size_t i = 0; i < o->n; i++) wisp_scorer_clear(&o->of[i]);
    wisp_free(o->labels);
    wisp_free(o->one);
    wisp_free(o->sum);
    wisp_free(o->keys);
    wisp_free(o);
    s->own = NULL;
}

static const struct wisp_net *reads(const struct wisp_scorer *s)
{
    const struct scorers *o = s->own;
    for (size_t i = 0; i < o->n; i++)
        if (o->of[i].net.n_layers) return &o->of[i].net;
    return NULL;
}

static wisp_status use_votes(struct wisp_scorer *s, wisp_error *err)
{
    struct scorers *o = s->own;
    wisp_status st = WISP_OK;
    for (size_t i = 0; i < o->n && st == WISP_OK; i++)
        st = wisp_kind_of(o->of[i].m)->use_votes(&o->of[i], err);
    o->sparse = st == WISP_OK;
    return st;
}

static void use_all(struct wisp_scorer *s)
{
    struct scorers *o = s->own;
    for (size_t i = 0; i < o->n; i++) wisp_kind_of(o->of[i].m)->use_all(&o->of[i]);
    o->sparse = false;
}

static int ascending(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* The best labels of all members, ascending, each once. */
static size_t unite(int32_t *labels, const struct scorers *o, size_t row)
{
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < o->n; i++) {
        const struct wisp_scorer *s = &o->of[i];
        for (size_t c = 0; c < s->k && s->labels[row * s->k + c] >= 0; c++)
            labels[n++] = s->labels[row * s->k + c];
    }
    qsort(labels, n, sizeof *labels, ascending);
    for (size_t c = 0; c < n; c++)
        if (c == 0 || labels[c] != labels[c - 1]) labels[kept++] = labels[c];
    return kept;
}

struct job {
    struct wisp_scorer *s;
    const struct wisp_batch *b;
    size_t first_seen; /* where the rows of this batch are kept */
};

/* What a member says, as probabilities. */
static void ask(float *out, struct wisp_scorer *s, bool sparse, const struct wisp_batch *b,
                size_t row, const int32_t *labels, size_t n, int thread)
{
    const struct wisp_calibration *map = wisp_model_calibration(s->m, sparse);
    const float best = s->scores[row * s->k];
    wisp_kind_of(s->m)->score(out, s, b, row, labels, n, thread);
    for (size_t c = 0; c < n && map; c++) out[c] = wisp_calibrated(map, out[c], best);
}

static void keep(struct wisp_mix_seen *to, size_t at, size_t member, const float *p, size_t n)
{
    if (at < to->rows_room)
        memcpy(to->p + (at * to->n_members + member) * to->room, p, n * sizeof *p);
}

static void keep_truth(struct wisp_mix_seen *to, size_t at, const int32_t *labels, size_t n,
                       const struct wisp_batch *b, size_t row)
{
    if (at >= to->rows_room) return;
    to->n_candidates[at] = (uint16_t)n;
    for (size_t c = 0; c < n; c++)
        to->hit[at * to->room + c] =
            wisp_is_true(labels[c], b->yi + b->yp[row], b->yp[row + 1] - b->yp[row]);
}

static void mix_row(void *arg, size_t row, int thread)
{
    const struct job *job = arg;
    struct wisp_scorer *s = job->s;
    struct scorers *o = s->own;
    const struct wisp_joint *j = s->m->joint;
    const size_t first = (size_t)thread * o->room;
    int32_t *labels = o->labels + first;
    float *one = o->one + first, *sum = o->sum + first;
    const size_t n = unite(labels, o, row);
    memset(sum, 0, n * sizeof *sum);
    for (size_t i = 0; i < o->n; i++) {
        ask(one, &o->of[i], o->sparse, job->b, row, labels, n, thread);
        for (size_t c = 0; c < n; c++) sum[c] += j->mix[i] * one[c];
        if (o->seen) keep(o->seen, job->first_seen + row, i, one, n);
    }
    if (o->seen) keep_truth(o->seen, job->first_seen + row, labels, n, job->b, row);
    const size_t found = wisp_keys_best(o->keys + first, sum, labels, n, s->k);
    for (size_t c = 0; c < s->k; c++) {
        const bool there = c < found;
        s->labels[row * s->k + c] = there ? wisp_key_row(o->keys[first + c]) : -1;
        s->scores[row * s->k + c] = there ? wisp_key_score(o->keys[first + c]) : NAN;
    }
}

static wisp_status best(struct wisp_scorer *s, const struct wisp_batch *b, wisp_error *err)
{
    struct scorers *o = s->own;
    for (size_t i = 0; i < o->n; i++) {
        struct wisp_scorer *of = &o->of[i];
        of->alone = s->alone;
        of->n_scored = 0;
        wisp_status st = wisp_kind_of(of->m)->best(of, b, err);
        if (st != WISP_OK) return st;
        s->n_scored += of->n_scored;
    }
    struct job job = { s, b, o->seen ? o->seen->n_rows : 0 };
    wisp_parallel_for(s->ctx->pool, b->n, mix_row, &job);
    if (o->seen) {
        const size_t left = o->seen->rows_room - o->seen->n_rows;
        o->seen->n_rows += b->n < left ? b->n : left;
    }
    return WISP_OK;
}

/* By the weights that members have, for whoever asks for labels of its own. */
static void score(float *out, struct wisp_scorer *s, const struct wisp_batch *b, size_t row,
                  const int32_t *labels, size_t n, int thread)
{
    struct scorers *o = s->own;
    float *one = o->one + (size_t)thread * o->room;
    memset(out, 0, n * sizeof *out);
    for (size_t at = 0; at < n; at += o->room) {
        const size_t some = n - at < o->room ? n - at : o->room;
        for (size_t i = 0; i < o->n; i++) {
            ask(one, &o->of[i], o->sparse, b, row, labels + at, some, thread);
            for (size_t c = 0; c < some; c++) out[at + c] += s->m->joint->mix[i] * one[c];
        }
    }
}

wisp_status wisp_joint_watch(struct wisp_scorer *s, struct wisp_mix_seen *to, size_t n_rows,
                             wisp_error *err)
{
    struct scorers *o = s->own;
    wisp_status st = wisp_mix_init(to, o->n, o->room, n_rows, err);
    o->seen = st == WISP_OK ? to : NULL;
    return st;
}

void wisp_joint_unwatch(struct wisp_scorer *s)
{
    struct scorers *o = s->own;
    if (o->seen) wisp_mix_clear(o->seen);
    o->seen = NULL;
}

/* ---- the row ---- */

static size_t n_params(const struct wisp_model *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->joint->n; i++)
        n += wisp_kind_of(m->joint->members[i])->n_params(m->joint->members[i]);
    return n;
}

static size_t bytes(const struct wisp_model *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->joint->n; i++)
        n += wisp_kind_of(m->joint->members[i])->bytes(m->joint->members[i]);
    return n;
}

const struct wisp_model_kind wisp_kind_joint = {
    .name = "joint",
    .is = is_joint,
    .load = load,
    .whole = load_whole,
    .list = list,
    .meta = add_meta,
    .clear = clear,
    .n_params = n_params,
    .bytes = bytes,
    .batch = batch,
    .ready = ready,
    .done = done,
    .reads = reads,
    .use_votes = use_votes,
    .use_all = use_all,
    .best = best,
    .score = score,
    .explain_ready = wisp_explain_joint_ready,
    .explain_done = wisp_explain_joint_done,
    .explain = wisp_explain_joint,
    .train = wisp_joint_train,
};

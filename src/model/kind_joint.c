/* The kind of model that has members: its file, and the row of its functions. */
#include "base/mem.h"
#include "model/joint.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_joint(const char *spec)
{
    static const char *const names[] = { "joint", "linear+net", "auto" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(spec, names[i]) == 0) return true;
    return false;
}

void wisp_joint_prefix(char out[WISP_JOINT_PREFIX], size_t i)
{
    snprintf(out, WISP_JOINT_PREFIX, "%zu/", i);
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
    char prefix[WISP_JOINT_PREFIX];
    struct wisp_model *m = wisp_zalloc(1, sizeof *m);
    if (!m) return wisp_fail_mem(err, sizeof *m, "a model");
    j->members[j->n++] = m;
    wisp_joint_prefix(prefix, i);
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
    const struct wisp_votes votes = m->votes;
    if (j && j->lent) {
        m->labels = m->vocab = m->stop = (struct wisp_names){ 0 };
        m->votes = (struct wisp_votes){ 0 };
    }
    for (size_t i = 0; j && i < j->n; i++) {
        struct wisp_model *member = j->members[i];
        const bool owner = j->lent && (i == j->voter || member->votes.start != votes.start);
        if (!owner) member->votes = (struct wisp_votes){ 0 };
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
        char prefix[WISP_JOINT_PREFIX];
        wisp_joint_prefix(prefix, i);
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
    struct wisp_joint *j = m->joint;
    size_t n = 0;
    snprintf(j->count, sizeof j->count, "%zu", j->n);
    to[n++] = (struct wisp_pair){ "members", j->count };
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

/* Votes are those of the training rows, whichever member has them: for the others, too, as when the
 * file is read. */
static void share_votes(struct wisp_model *m, struct wisp_joint *j)
{
    while (j->voter + 1 < j->n && !j->members[j->voter]->votes.start) j->voter++;
    m->votes = j->members[j->voter]->votes;
    for (size_t i = 0; i < j->n; i++)
        if (!j->members[i]->votes.start) j->members[i]->votes = m->votes;
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
                              .label_rows = first->label_rows,
                              .n_train = first->n_train };
    j->n = n;
    j->lent = true;
    for (size_t i = 0; i < n; i++) j->members[i] = members[i], j->mix[i] = 1 / (float)n;
    share_votes(m, j);
    if (m->spec) return WISP_OK;
    wisp_model_free(m);
    *out = NULL;
    return wisp_fail_mem(err, 8, "a joint model");
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
    .index = "--index yes",
    .learn = "more --epochs, another --loss (softmax, bce) or --lr",
    .is = is_joint,
    .load = load,
    .whole = load_whole,
    .list = list,
    .meta = add_meta,
    .clear = clear,
    .n_params = n_params,
    .bytes = bytes,
    .batch = wisp_joint_batch,
    .ready = wisp_joint_ready,
    .done = wisp_joint_done,
    .reads = wisp_joint_reads,
    .guide = wisp_joint_guide,
    .use_some = wisp_joint_use_some,
    .use_all = wisp_joint_use_all,
    .best = wisp_joint_best,
    .score = wisp_joint_score,
    .explain_ready = wisp_explain_joint_ready,
    .explain_done = wisp_explain_joint_done,
    .explain = wisp_explain_joint,
    .train = wisp_joint_train,
};

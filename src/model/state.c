/* Checkpoints, the training state beside a model: parameters, optimiser state, counters.
 *
 * A checkpoint is a tensor file like the model, so it is checked and committed the same way.  Two
 * are kept: PATH.state, and PATH.state.1, which was PATH.state before.  At any moment:
 *
 *   from its beginning to its end a run has a PATH.state, or for an instant only a PATH.state.1;
 *   the first one (wisp_state_begin) has no tensors and stands for the beginning
 *   the model of an epoch is written before the state that knows of it: a run resumed from an older
 *   state does that epoch again and writes the same model again
 *   both states are removed when the model is final: a model with the options of a run and no state
 *   beside it is that run's last word
 *
 * Of several ranks the first one writes, and gathers the rows of the others on the way (parts.h); so a
 * checkpoint says nothing of ranks, and any number of them goes on from it.
 *
 * So --resume takes PATH.state; if that is damaged, or not there, PATH.state.1; without both it
 * begins anew, unless there is a model that says that the run is finished, or that it was another, or a list
 * of trials that a run of several models has left.
 */
#include "base/bounds.h"
#include "base/mem.h"
#include "base/text.h"
#include "model/joint.h"
#include "model/linear_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define XXH_STATIC_LINKING_ONLY /* for a hash state that needs no heap */
#include <xxhash.h>

static const char FORMAT[] = "wisp-state 2";
enum { ROOM = 4200 };

struct list {
    struct wisp_tensor *t;
    size_t n, cap;
    const struct wisp_comm *comm; /* of several ranks */
    bool full;                    /* out of memory: asked for once, when the list is whole */
};

void wisp_state_name(char *out, const struct wisp_param *p, const char *what)
{
    snprintf(out, WISP_NAME_BYTES, "%s.%s", p->name, what);
}

static void add(struct list *l, const struct wisp_param *p, const char *what, enum wisp_dtype dtype,
                void *data, size_t count)
{
    if (!data || l->full) return;
    if (!wisp_grow(&l->t, l->n, &l->cap, sizeof *l->t)) {
        l->full = true;
        return;
    }
    struct wisp_tensor *t = &l->t[l->n++];
    *t = (struct wisp_tensor){
        .dtype = dtype,
        .n_dims = 1,
        .shape = { count },
        .data = data,
        .bytes = wisp_dtypes[dtype].bytes * count,
    };
    wisp_state_name(t->name, p, what);
}

/* Connections as in the model's file: by their own name, in their shape. */
static void add_wires(struct list *l, const struct wisp_param *p)
{
    const size_t n = l->n;
    add(l, p, "", p->ids ? WISP_I32 : WISP_I64, p->ids ? (void *)p->ids : p->start,
        wisp_param_n(p));
    if (l->n == n) return;
    struct wisp_tensor *t = &l->t[n];
    snprintf(t->name, sizeof t->name, "%s", p->name);
    t->n_dims = p->rank;
    memcpy(t->shape, p->dim, sizeof p->dim);
}

/* Numbers of a parameter, 'each' in a row, or as many as a row has (0): of all ranks. */
static void add_rows(struct list *l, const struct wisp_param *p, const char *what,
                     enum wisp_dtype dtype, void *data, size_t each)
{
    const size_t n = l->n, cols = each ? each : p->cols;
    const bool shared = !wisp_share_all(p->share);
    const size_t here = each ? p->rows * each : wisp_param_n(p);
    add(l, p, what, dtype, data, shared ? p->total_rows * cols : here);
    if (l->n > n && shared)
        l->t[n].parts = (struct wisp_parts){ l->comm, p->share, p->total_rows,
                                             cols * wisp_dtypes[dtype].bytes };
}

/* Everything of a parameter that a run changes, or could not make again. */
static void list_param(struct list *l, const struct wisp_param *p)
{
    if (p->kept) add_wires(l, p);
    add_rows(l, p, "w", WISP_F32, p->w, 0);
    add_rows(l, p, "w", WISP_BF16, p->b16, 0);
    add_rows(l, p, "m", WISP_F32, p->m, 0);
    add_rows(l, p, "m", WISP_BF16, p->m16, 0);
    add_rows(l, p, "v", WISP_F32, p->v, 0);
    add_rows(l, p, "v", WISP_BF16, p->v16, 0);
    add_rows(l, p, "g2", WISP_F32, p->g2, 1);
    add_rows(l, p, "count", WISP_I32, p->count, 1);
}

/* Bytes of a tensor that are here. */
static size_t own_bytes(const struct wisp_tensor *t)
{
    return t->parts.comm ? wisp_share_rows(t->parts.share, t->parts.total) * t->parts.row_bytes
                         : t->bytes;
}

static void list_sampler(struct list *l, struct wisp_sampler *s, const struct wisp_param *as)
{
    struct wisp_blob blobs[WISP_SAMPLER_BLOBS];
    size_t n = s ? wisp_sampler_blobs(s, blobs) : 0;
    for (size_t i = 0; i < n; i++)
        add(l, as, blobs[i].name, WISP_I32, blobs[i].data, blobs[i].bytes / 4);
}

static wisp_status list_all(struct list *l, struct wisp_run *r, wisp_error *err)
{
    *l = (struct list){ .comm = wisp_run_shares(r) };
    if (r->linear) {
        struct wisp_tensor t[WISP_LINEAR_TENSORS];
        const size_t n = wisp_linear_state(t, r->linear);
        for (size_t i = 0; i < n; i++)
            if (wisp_grow(&l->t, l->n, &l->cap, sizeof *l->t)) l->t[l->n++] = t[i];
            else l->full = true;
    }
    for (size_t i = 0; i < r->m->net.list.n; i++) list_param(l, &r->m->net.list.p[i]);
    struct wisp_param sampler = { .name = "sampler" };
    list_sampler(l, r->samplers.output, &sampler);
    for (int i = 0; i < r->samplers.n_hidden; i++) {
        snprintf(sampler.name, sizeof sampler.name, "%d.sampler", i);
        list_sampler(l, r->samplers.hidden[i], &sampler);
    }
    struct wisp_param recall = { .name = "recall" };
    if (r->samplers.output)
        add(l, &recall, "sums", WISP_I32, &r->samplers.recall.sums,
            sizeof r->samplers.recall.sums / 4);
    struct wisp_param whole = { .name = "average" };
    add(l, &whole, "w", WISP_F32, r->average, wisp_net_param_floats(&r->m->net));
    return l->full ? wisp_fail_mem(err, l->n * sizeof *l->t, "the list of tensors") : WISP_OK;
}

static void state_path(char *out, const struct wisp_run *r)
{
    snprintf(out, ROOM, "%s.state", r->path);
}

/* Counters as text; doubles in hexadecimal, so that nothing is rounded. */
static void counters(char *out, size_t room, const struct wisp_run *r)
{
    wisp_print(out, room, "%d %zu %zu %zu %zu %a %a %a %d %d %zu", r->at.epoch, r->at.step,
               r->at.steps, r->at.in_epoch, r->at.seen, r->at.loss_sum, r->at.best, r->at.best_loss,
               r->at.best_epoch, r->at.since_best, r->at.n_averaged);
}

/* Checksums keep accidents away, not a hand that makes them anew: could a run stand there? */
static bool counters_fit(struct wisp_run *r)
{
    const int last = r->plan.epochs;
    return r->at.epoch >= 1 && r->at.epoch <= last + 1 && r->at.step <= r->at.steps &&
           r->at.in_epoch <= (r->at.epoch > last
                                  ? 0
                                  : wisp_order_steps(&r->feed.order, r->at.epoch, r->plan.batch)) &&
           r->at.seen <= r->feed.order.n_rows && isfinite(r->at.loss_sum) && r->at.best >= -1 &&
           r->at.best <= 100 && isfinite(r->at.best_loss) && r->at.best_loss >= -1 &&
           r->at.best_epoch >= 0 && r->at.best_epoch <= r->at.epoch && r->at.since_best >= 0 &&
           r->at.since_best <= r->at.epoch && r->at.n_averaged <= (r->average ? r->at.step : 0);
}

static wisp_status hash_more(void *state, const void *bytes, size_t n)
{
    XXH3_64bits_update(state, bytes, n);
    return WISP_OK;
}

static uint64_t hash_block(const struct wisp_data *d, size_t block, uint64_t h)
{
    XXH3_state_t state;
    XXH3_INITSTATE(&state); /* resetting with a seed looks at the seed before */
    XXH3_64bits_reset_withSeed(&state, h);
    wisp_rows_give(&d->blocks[block], hash_more, &state);
    return XXH3_64bits_digest(&state);
}

uint64_t wisp_state_rows(const struct wisp_data *d)
{
    const uint64_t sizes[] = { d->n_rows, d->nnz, d->n_lab };
    uint64_t h = XXH3_64bits(sizes, sizeof sizes);
    h = XXH3_64bits_withSeed(d->feature_rows, d->n_features * sizeof *d->feature_rows, h);
    h = XXH3_64bits_withSeed(d->label_rows, d->n_labels * sizeof *d->label_rows, h);
    return d->n_blocks ? hash_block(d, d->n_blocks - 1, hash_block(d, 0, h)) : h;
}

void wisp_state_data(char out[WISP_STATE_DATA], const struct wisp_run *r)
{
    const struct wisp_data *d = r->sets.train;
    snprintf(out, WISP_STATE_DATA,
             "%zu rows, %zu features, %zu labels (%016llx), validation %016llx", d->n_rows,
             d->n_features, d->n_labels, (unsigned long long)wisp_state_rows(d),
             (unsigned long long)wisp_state_rows(r->sets.valid));
}

/* Options are "key=value" and an end of line each.  A value may have lines of its own (a net): those
 * never look like a key. */
struct setting {
    const char *key, *value; /* key NULL: there is none */
    size_t key_bytes, value_bytes;
};

static size_t key_bytes(const char *line)
{
    size_t n = strspn(line, "abcdefghijklmnopqrstuvwxyz-");
    return line[n] == '=' ? n : 0;
}

/* The one at 'at', where a key begins; *at moves on to the next. */
static struct setting next_setting(const char **at)
{
    struct setting o = { *at, NULL, key_bytes(*at), 0 };
    if (o.key_bytes == 0) return (struct setting){ 0 };
    o.value = *at + o.key_bytes + 1;
    const char *end = o.value;
    do {
        end += strcspn(end, "\n");
        o.value_bytes = (size_t)(end - o.value);
        end += *end != 0;
    } while (*end && key_bytes(end) == 0);
    *at = end;
    return o;
}

static struct setting find_setting(const char *lines, const char *key, size_t bytes)
{
    struct setting o;
    while ((o = next_setting(&lines)).key)
        if (o.key_bytes == bytes && memcmp(o.key, key, bytes) == 0) break;
    return o;
}

/* What an option was that is younger than the file: its default. */
static struct setting default_of(const char *key, size_t bytes)
{
    const wisp_option *o;
    for (size_t i = 0; (o = wisp_option_row(i)); i++)
        if (strlen(o->key) == bytes && memcmp(o->key, key, bytes) == 0)
            return (struct setting){ o->key, o->fallback, bytes, strlen(o->fallback) };
    return (struct setting){ .value = "" };
}

size_t wisp_options_diff(char *diff, size_t room, const char *have, const char *want)
{
    size_t at = 0;
    struct setting now, was;
    diff[0] = 0;
    for (const char *w = want; at < room && (now = next_setting(&w)).key;) {
        was = find_setting(have, now.key, now.key_bytes);
        if (!was.key) was = default_of(now.key, now.key_bytes);
        if (was.value_bytes == now.value_bytes &&
            memcmp(was.value, now.value, now.value_bytes) == 0)
            continue;
        at += (size_t)snprintf(diff + at, room - at, "%s--%.*s was '%.*s' and is '%.*s'",
                               at ? ", " : "", (int)now.key_bytes, now.key, (int)was.value_bytes,
                               was.value, (int)now.value_bytes, now.value);
    }
    for (const char *h = have; at < room && (was = next_setting(&h)).key;)
        if (!find_setting(want, was.key, was.key_bytes).key)
            at += (size_t)snprintf(diff + at, room - at, "%s--%.*s is not of this version",
                                   at ? ", " : "", (int)was.key_bytes, was.key);
    return at;
}

/* Options that shape the result: are those in the metadata those of this run?  Else 'err' names what
 * differs, and says what to do. */
static wisp_status expect_options(const struct wisp_run *r, const struct wisp_tensor_file *f,
                                  const char *path, const char *to_do, wisp_error *err)
{
    const char *have = wisp_tensor_file_meta(f, "options");
    char diff[300] = "its options are missing";
    if (have && wisp_options_diff(diff, sizeof diff, have, r->m->options) == 0) return WISP_OK;
    return wisp_fail_at(err, WISP_EMODEL, path, 0, "belongs to another run: %s; %s", diff, to_do);
}

/* The epoch that a model was saved after; 0: none, or no model. */
static int epoch_of(const struct wisp_tensor_file *f)
{
    const char *epoch = wisp_tensor_file_meta(f, "epoch");
    return epoch ? atoi(epoch) : 0;
}

/* The best model so far must still lie at 'path': the run may not find a better one.  It may also
 * be this run's from an epoch that will be done again. */
static wisp_status expect_model(struct wisp_run *r, const char *saved, wisp_error *err)
{
    if (r->at.best_epoch == 0) return WISP_OK;
    struct wisp_model *best;
    wisp_error why = { 0 };
    bool there = access(r->path, F_OK) == 0;
    wisp_status st = wisp_model_open(&best, r->ctx->pool, r->path, &why);
    if (st != WISP_OK && (!there || st == WISP_EMODEL))
        return wisp_fail_at(err, WISP_EMODEL, r->path, 0,
                            "%.400s: the run's best model is gone; train without --resume",
                            why.text + why.place_bytes);
    if (st != WISP_OK) return wisp_fail_as(err, st, &why);
    const struct wisp_tensor_file *f = &best->file;
    bool ours = strcmp(f->check, saved) == 0 ||
                (epoch_of(f) >= r->at.epoch && expect_options(r, f, r->path, "", NULL) == WISP_OK);
    /* For the report, and for a model that is saved without being judged again (a linear one's second
     * time). */
    if (ours) st = wisp_model_copy_calibration(r->m, f, r->path, err);
    if (ours) memcpy(r->m->validation, best->validation, sizeof r->m->validation);
    wisp_model_free(best);
    if (ours) return st;
    return wisp_fail_at(err, WISP_EMODEL, r->path, 0,
                        "is not the model that this run saved; train without --resume");
}

wisp_status wisp_state_check(struct wisp_run *r, wisp_error *err)
{
    struct list l;
    wisp_status st = list_all(&l, r, err);
    for (size_t i = 0; st == WISP_OK && i < l.n; i++) {
        const struct wisp_tensor *t = &l.t[i];
        const size_t n = own_bytes(t) / wisp_dtypes[t->dtype].bytes;
        char what[WISP_NAME_BYTES + 40];
        if ((t->dtype == WISP_F32 && !wisp_finite(t->data, n)) ||
            (t->dtype == WISP_BF16 && !wisp_finite16(t->data, n))) {
            snprintf(what, sizeof what, "'%s' has a value that is no number", t->name);
            st = wisp_run_no_number(r, what, err);
        }
    }
    wisp_free(l.t);
    return wisp_run_agree(r, st, err);
}

static wisp_status write_state(const struct wisp_run *r, const struct list *l, wisp_error *err)
{
    char at[400], data[WISP_STATE_DATA], path[ROOM];
    counters(at, sizeof at, r);
    wisp_state_data(data, r);
    state_path(path, r);
    const struct wisp_pair meta[] = {
        { "format", FORMAT },
        { "model", r->at.saved[0] ? r->at.saved : "none" },
        { "at", at },
        { "data", data },
        { "net", r->m->spec },
        { "options", r->m->options },
        { "kernels", r->ctx->k->name },
    };
    return wisp_tensor_file_replace(path, r->path, l->t, l->n, meta, sizeof meta / sizeof *meta,
                                    err);
}

wisp_status wisp_state_begin(struct wisp_run *r, wisp_error *err)
{
    if (!r->path || r->at.step > 0 || r->at.begun || r->at.finished) return WISP_OK;
    wisp_status st = WISP_OK;
    if (wisp_run_first(r)) st = write_state(r, &(struct list){ 0 }, err);
    st = wisp_run_agree(r, st, err);
    r->at.begun = st == WISP_OK;
    return st;
}

wisp_status wisp_state_save(struct wisp_run *r, wisp_error *err)
{
    struct list l;
    wisp_status st = wisp_run_agree(r, list_all(&l, r, err), err);
    if (st == WISP_OK && (wisp_run_shares(r) || wisp_run_first(r))) st = write_state(r, &l, err);
    wisp_free(l.t);
    return wisp_run_divides(r) ? wisp_run_agree(r, st, err) : st;
}

static wisp_status expect(const struct wisp_tensor_file *f, const char *path, const char *key,
                          const char *want, wisp_error *err)
{
    const char *have = wisp_tensor_file_meta(f, key);
    if (have && strcmp(have, want) == 0) return WISP_OK;
    return wisp_fail_at(err, WISP_EMODEL, path, 0,
                        "belongs to another run: its %s is '%.150s', this one's is '%.150s'; "
                        "train without --resume to start anew",
                        key, have ? have : "missing", want);
}

static wisp_status copy_all(struct wisp_run *r, const struct wisp_tensor_file *f, const char *path,
                            wisp_error *err)
{
    struct list l;
    wisp_status st = list_all(&l, r, err);
    for (size_t i = 0; st == WISP_OK && i < l.n; i++) {
        const struct wisp_tensor *t = wisp_tensor_file_find(f, l.t[i].name);
        if (!t || t->dtype != l.t[i].dtype || t->bytes != l.t[i].bytes)
            st = wisp_fail_at(err, WISP_EMODEL, path, 0,
                              "tensor '%s' is missing or has another type or size", l.t[i].name);
        else if (!t->finite)
            st = wisp_fail_at(err, WISP_EMODEL, path, 0,
                              "tensor '%s' has a value that is infinite or no number, which no "
                              "run saves",
                              l.t[i].name);
        else if (l.t[i].parts.comm) wisp_parts_pick(&l.t[i].parts, (void *)l.t[i].data, t->data);
        else memcpy((void *)l.t[i].data, t->data, t->bytes);
    }
    wisp_free(l.t);
    return st;
}

static wisp_status read_counters(struct wisp_run *r, const struct wisp_tensor_file *f,
                                 const char *path, wisp_error *err)
{
    const char *at = wisp_tensor_file_meta(f, "at");
    if (at &&
        wisp_scan(at, "%d %zu %zu %zu %zu %la %la %la %d %d %zu", &r->at.epoch, &r->at.step,
                  &r->at.steps, &r->at.in_epoch, &r->at.seen, &r->at.loss_sum, &r->at.best,
                  &r->at.best_loss, &r->at.best_epoch, &r->at.since_best,
                  &r->at.n_averaged) == 11 &&
        counters_fit(r))
        return WISP_OK;
    return wisp_fail_at(err, WISP_EMODEL, path, 0,
                        "metadata 'at' is not a list of counters of this run");
}

wisp_status wisp_state_param_ok(const struct wisp_param *p, const char *path, wisp_error *err)
{
    size_t row;
    bool wires = !p->kept || (p->ids ? wisp_param_bad_id(p, &row) == wisp_param_n(p)
                                     : wisp_starts_ok(p->start, p->rows - 1, p->below));
    if (!wires)
        return wisp_fail_at(err, WISP_EMODEL, path, 0,
                            "the connections '%s' cannot be of a run: expected ids of inputs that "
                            "ascend for each output",
                            p->name);
    if (wisp_optimizer_state_ok(p)) return WISP_OK;
    return wisp_fail_at(err, WISP_EMODEL, path, 0,
                        "the optimizer's state of '%s' cannot be of a run: expected squares from 0 "
                        "on and counts up to %d",
                        p->name, WISP_CLOCK_MAX);
}

/* Mean hits of a sample are 0 .. 1. */
static bool recall_fits(const struct wisp_recall *t)
{
    const double n = (double)t->sums.n;
    return t->sums.own >= 0 && t->sums.own <= n && t->sums.set >= 0 && t->sums.set <= n;
}

/* Everything of a run from a checkpoint that is whole. */
static wisp_status restore(struct wisp_run *r, const struct wisp_tensor_file *f, const char *path,
                           wisp_error *err)
{
    char data[WISP_STATE_DATA];
    wisp_state_data(data, r);
    wisp_status st;
    if ((st = expect(f, path, "format", FORMAT, err)) != WISP_OK ||
        (st = expect_options(r, f, path,
                             "train with its options, or without --resume to start anew", err)) !=
            WISP_OK ||
        (st = expect(f, path, "data", data, err)) != WISP_OK ||
        (st = expect(f, path, "net", r->m->spec, err)) != WISP_OK ||
        (st = read_counters(r, f, path, err)) != WISP_OK)
        return st;
    r->at.begun = r->at.step == 0;
    if (r->at.begun) {
        wisp_say(r->ctx, "resume    %s: nothing was done before the stop: from the beginning",
                 path);
        return WISP_OK;
    }
    st = r->linear ? wisp_linear_restore(r, f, path, err) : copy_all(r, f, path, err);
    for (size_t i = 0; i < r->m->net.list.n && st == WISP_OK; i++)
        st = wisp_state_param_ok(&r->m->net.list.p[i], path, err);
    if (st != WISP_OK) return st;
    const char *kernels = wisp_tensor_file_meta(f, "kernels"),
               *saved = wisp_tensor_file_meta(f, "model");
    if (kernels && strcmp(kernels, r->ctx->k->name) != 0)
        wisp_say(
            r->ctx,
            "resume    the run began with %s kernels and goes on with %s: rounding will differ",
            kernels, r->ctx->k->name);
    bool usable = !r->samplers.output || wisp_sampler_restored(r->samplers.output, r->ctx);
    for (int i = 0; usable && i < r->samplers.n_hidden; i++)
        if (r->samplers.hidden[i]) usable = wisp_sampler_restored(r->samplers.hidden[i], r->ctx);
    if (!usable || (r->samplers.output && !recall_fits(&r->samplers.recall)))
        return wisp_fail_at(err, WISP_EMODEL, path, 0,
                            "what it keeps for --sampling cannot be of this run");
    if ((st = expect_model(r, saved ? saved : "none", err)) != WISP_OK) return st;
    if (saved && strcmp(saved, "none") != 0) snprintf(r->at.saved, sizeof r->at.saved, "%s", saved);
    if (r->linear)
        wisp_say(r->ctx, "resume    %s: %zu of %zu labels are done%s", path,
                 r->linear->done.n_labels, r->m->net.n_labels,
                 r->at.epoch > 1 ? ", of the second time" : "");
    else if (!r->again)
        wisp_say(r->ctx, "resume    %s: from epoch %d, %zu steps of it done", path, r->at.epoch,
                 r->at.in_epoch);
    return WISP_OK;
}

/* The epochs of a finished run, as far as its best one tells. */
static int epochs_done(const struct wisp_run *r)
{
    int last = r->at.best_epoch + r->plan.patience;
    return r->plan.patience && last < r->plan.epochs ? last : r->plan.epochs;
}

/* There is no checkpoint: is there a model that the run left at its end?  Its options, sizes and
 * counts of labels tell. */
static wisp_status without_state(struct wisp_run *r, wisp_error *err)
{
    static const char to_do[] = "there is no checkpoint to go on from; train without --resume to "
                                "replace it";
    char left[PATH_MAX];
    const bool there = access(r->path, F_OK) == 0;
    if (!there && wisp_trials_left(left, r->path))
        return wisp_fail_at(err, WISP_EMODEL, left, 0,
                            "belongs to a run of several models that was stopped; give its options "
                            "to go on with it, or train without --resume to start anew");
    if (!there) {
        wisp_say(r->ctx, "resume    %s: there is no checkpoint yet: from the beginning", r->path);
        return WISP_OK;
    }
    struct wisp_model *last; /* whole, or it is nobody's last word */
    wisp_status st = wisp_model_open(&last, r->ctx->pool, r->path, err);
    if (st == WISP_EMODEL && err) {
        const wisp_error why = *err;
        return wisp_fail_at(err, st, r->path, 0, "%.350s; %s", why.text + why.place_bytes, to_do);
    }
    if (st != WISP_OK) return st;
    const struct wisp_tensor_file *f = &last->file;
    const struct wisp_tensor *counts = wisp_tensor_file_find(f, "label_rows");
    size_t bytes = r->m->net.n_labels * sizeof *r->m->label_rows;
    const char *best = wisp_tensor_file_meta(f, "valid_p@1");
    st = expect_options(r, f, r->path, to_do, err);
    if (st == WISP_OK &&
        (!counts || counts->bytes != bytes || memcmp(counts->data, r->m->label_rows, bytes) != 0))
        st = wisp_fail_at(err, WISP_EMODEL, r->path, 0, "was trained on other data; %s", to_do);
    if (st == WISP_OK) {
        r->at.best_epoch = epoch_of(f);
        r->at.best = best ? wisp_strtod(best, NULL) : -1;
        if (r->at.best_epoch < 0 || r->at.best_epoch > r->plan.epochs || !(r->at.best >= -1) ||
            !(r->at.best <= 100))
            st = wisp_fail_at(err, WISP_EMODEL, r->path, 0,
                              "its epoch or validation P@1 cannot be of a run of %d epochs; %s",
                              r->plan.epochs, to_do);
    }
    if (st == WISP_OK) {
        r->at.finished = r->at.best_epoch > 0;
        if (r->at.finished) r->at.epoch = 1 + epochs_done(r);
        if (r->at.finished) st = wisp_model_copy_calibration(r->m, f, r->path, err);
        wisp_say(r->ctx,
                 r->at.finished ? "resume    %s: the run is finished: nothing is left to do"
                                : "resume    %s: its checkpoint is gone: from the beginning",
                 r->path);
    }
    wisp_model_free(last);
    return st;
}

wisp_status wisp_state_peek(struct wisp_tensor_file *out, const struct wisp_run *r, wisp_error *err)
{
    char paths[2][WISP_BEFORE_BYTES];
    wisp_error why = { 0 };
    wisp_status st = WISP_OK;
    bool any = false;
    *out = (struct wisp_tensor_file){ 0 };
    if (!r->path) return WISP_OK;
    state_path(paths[0], r);
    wisp_out_before(paths[1], paths[0]);
    for (int i = 0; i < 2; i++) {
        if (access(paths[i], F_OK) != 0) continue;
        any = true;
        st = wisp_tensor_file_open_own(out, r->ctx->pool, paths[i], r->path, &why);
        if (st == WISP_OK || st == WISP_ENOMEM) break;
    }
    if (!any) st = wisp_tensor_file_open(out, r->ctx->pool, r->path, &why);
    if (!any && st == WISP_OK && epoch_of(out) < 1) wisp_tensor_file_close(out);
    return st == WISP_ENOMEM ? wisp_fail_as(err, st, &why) : WISP_OK;
}

wisp_status wisp_state_load(struct wisp_run *r, wisp_error *err)
{
    char paths[2][WISP_BEFORE_BYTES];
    const char *bad = NULL;
    wisp_error damaged = { 0 };
    state_path(paths[0], r);
    wisp_out_before(paths[1], paths[0]);
    for (int i = 0; i < 2; i++) {
        struct wisp_tensor_file f;
        wisp_error why = { 0 };
        if (access(paths[i], F_OK) != 0) continue;
        wisp_status st = wisp_tensor_file_open_own(&f, r->ctx->pool, paths[i], r->path, &why);
        if (st == WISP_EMODEL && !damaged.code) damaged = why, bad = paths[i];
        if (st == WISP_EMODEL) continue;
        if (st != WISP_OK) return wisp_fail_as(err, st, &why);
        if (damaged.code)
            wisp_say(r->ctx, "resume    %s; going on from the checkpoint before it, %s",
                     damaged.text, paths[i]);
        st = restore(r, &f, paths[i], err);
        st = wisp_map_blame(&f.map, st, err);
        wisp_tensor_file_close(&f);
        return st;
    }
    if (!damaged.code) return without_state(r, err);
    return wisp_fail_at(err, WISP_EMODEL, bad, 0,
                        "%.400s; there is no checkpoint before it: train without --resume",
                        damaged.text + damaged.place_bytes);
}

/* The older one first: whatever a kill in between leaves leads to the same end. */
void wisp_state_remove(const struct wisp_run *r, bool newest, bool before)
{
    char path[ROOM], older[WISP_BEFORE_BYTES];
    if (!wisp_run_first(r)) return;
    state_path(path, r);
    wisp_out_before(older, path);
    if (before) unlink(older);
    if (newest) unlink(path);
    wisp_out_sweep(path);
}

/* The training state beside a model: parameters, optimiser state, counters.
 *
 * It is a tensor file like the model, so it is checked and committed the same way.  The
 * model on disk is written before the state: after a kill in between, the state is one epoch
 * older, and the resumed run writes the same model again. */
#include "base/mem.h"
#include "model/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define XXH_STATIC_LINKING_ONLY /* for a hash state that needs no heap */
#include <xxhash.h>

static const char FORMAT[] = "wisp-state 1";
enum { ROOM = 4200, PARAM_PARTS = 5 };

struct list {
    struct wisp_tensor *t;
    size_t n;
};

static void add(struct list *l, const struct wisp_param *p, const char *what, enum wisp_dtype dtype,
                void *data, size_t count)
{
    if (!data) return;
    struct wisp_tensor *t = &l->t[l->n++];
    *t = (struct wisp_tensor){
        .dtype = dtype,
        .n_dims = 1,
        .shape = { count },
        .data = data,
        .bytes = wisp_dtypes[dtype].bytes * count,
    };
    snprintf(t->name, sizeof t->name, "%.40s.%s", p->name, what);
}

/* Everything of a parameter that a run changes. */
static wisp_status list_param(void *arg, struct wisp_param *p, wisp_error *err)
{
    (void)err;
    add(arg, p, "w", WISP_F32, p->w, p->rows * p->cols);
    add(arg, p, "w", WISP_BF16, p->b16, p->rows * p->cols);
    add(arg, p, "m", WISP_F32, p->m, p->rows * p->cols);
    add(arg, p, "m", WISP_BF16, p->m16, p->rows * p->cols);
    add(arg, p, "v", WISP_F32, p->v, p->rows * p->cols);
    add(arg, p, "v", WISP_BF16, p->v16, p->rows * p->cols);
    add(arg, p, "g2", WISP_F32, p->g2, p->rows);
    add(arg, p, "count", WISP_I32, p->count, p->rows);
    return WISP_OK;
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
    size_t each = WISP_MAX_PARAMS * PARAM_PARTS + WISP_SAMPLER_BLOBS,
           most = (size_t)r->m->net.n_layers * each + 1;
    *l = (struct list){ wisp_zalloc(most, sizeof *l->t), 0 };
    if (!l->t) return wisp_fail_mem(err, most * sizeof *l->t, "the list of tensors");
    wisp_net_each(&r->m->net, list_param, l, NULL);
    struct wisp_param sampler = { .name = "sampler" };
    list_sampler(l, r->sampler, &sampler);
    for (int i = 0; i < r->n_hidden; i++) {
        snprintf(sampler.name, sizeof sampler.name, "%d.sampler", i);
        list_sampler(l, r->hidden[i], &sampler);
    }
    struct wisp_param recall = { .name = "recall" };
    if (r->sampler) add(l, &recall, "sums", WISP_I32, &r->recall.sums, sizeof r->recall.sums / 4);
    struct wisp_param whole = { .name = "average" };
    add(l, &whole, "w", WISP_F32, r->average, wisp_net_param_floats(&r->m->net));
    return WISP_OK;
}

static void state_path(char *out, const struct wisp_run *r)
{
    snprintf(out, ROOM, "%s.state", r->path);
}

/* Counters as text; doubles in hexadecimal, so that nothing is rounded. */
static void counters(char *out, size_t room, const struct wisp_run *r)
{
    snprintf(out, room, "%d %zu %zu %zu %zu %a %a %d %d %zu", r->epoch, r->step, r->steps,
             r->in_epoch, r->seen, r->loss_sum, r->best, r->best_epoch, r->since_best,
             r->n_averaged);
}

static wisp_status hash_more(void *state, const void *bytes, size_t n)
{
    XXH3_64bits_update(state, bytes, n);
    return WISP_OK;
}

static uint64_t hash_block(const struct wisp_data *d, size_t block, uint64_t h)
{
    XXH3_state_t state;
    XXH3_64bits_reset_withSeed(&state, h);
    wisp_rows_give(&d->blocks[block], hash_more, &state);
    return XXH3_64bits_digest(&state);
}

/* What tells a data set from another: sizes, counts of features and labels, first and last rows. */
static uint64_t fingerprint(const struct wisp_data *d)
{
    const uint64_t sizes[] = { d->n_rows, d->nnz, d->n_lab };
    uint64_t h = XXH3_64bits(sizes, sizeof sizes);
    h = XXH3_64bits_withSeed(d->feature_rows, d->n_features * sizeof *d->feature_rows, h);
    h = XXH3_64bits_withSeed(d->label_rows, d->n_labels * sizeof *d->label_rows, h);
    return d->n_blocks ? hash_block(d, d->n_blocks - 1, hash_block(d, 0, h)) : h;
}

static void data_line(char *out, size_t room, const struct wisp_run *r)
{
    const struct wisp_data *d = r->train;
    snprintf(out, room, "%zu rows, %zu features, %zu labels (%016llx), validation %016llx",
             d->n_rows, d->n_features, d->n_labels, (unsigned long long)fingerprint(d),
             (unsigned long long)fingerprint(r->valid));
}

/* The best model so far must still lie at 'path': the run may not find a better one.  After a kill
 * between the two files it may be the one of the epoch that is done again. */
static wisp_status expect_model(const struct wisp_run *r, const char *saved, wisp_error *err)
{
    if (r->best_epoch == 0) return WISP_OK;
    struct wisp_tensor_file f;
    wisp_error why = { 0 };
    wisp_status st = wisp_tensor_file_open(&f, r->ctx->pool, r->path, &why);
    if (st == WISP_ENOMEM) return wisp_fail(err, st, "%s", why.text);
    if (st != WISP_OK)
        return wisp_fail(err, WISP_EMODEL,
                         "%.400s: the run's best model is gone; train without --resume", why.text);
    const char *epoch = wisp_tensor_file_meta(&f, "epoch");
    bool ours = strcmp(f.check, saved) == 0 || (epoch && atoi(epoch) == r->epoch);
    wisp_tensor_file_close(&f);
    if (ours) return WISP_OK;
    return wisp_fail(err, WISP_EMODEL,
                     "%s: is not the model that this run saved; train without --resume", r->path);
}

wisp_status wisp_state_save(struct wisp_run *r, wisp_error *err)
{
    struct list l;
    wisp_status st = list_all(&l, r, err);
    if (st != WISP_OK) return st;
    char at[400], data[200], path[ROOM];
    counters(at, sizeof at, r);
    data_line(data, sizeof data, r);
    state_path(path, r);
    const struct wisp_pair meta[] = {
        { "format", FORMAT },
        { "model", r->saved[0] ? r->saved : "none" },
        { "at", at },
        { "data", data },
        { "net", r->m->spec },
        { "options", r->m->options },
        { "kernels", r->ctx->k->name },
    };
    st = wisp_tensor_file_write(path, l.t, l.n, meta, sizeof meta / sizeof *meta, NULL, err);
    wisp_free(l.t);
    return st;
}

static wisp_status expect(const struct wisp_tensor_file *f, const char *path, const char *key,
                          const char *want, wisp_error *err)
{
    const char *have = wisp_tensor_file_meta(f, key);
    if (have && strcmp(have, want) == 0) return WISP_OK;
    return wisp_fail(err, WISP_EMODEL,
                     "%s: belongs to another run: its %s is '%.150s', this one's is '%.150s'; "
                     "train without --resume to start anew",
                     path, key, have ? have : "missing", want);
}

/* Options are lines "key=value": names each one that differs. */
static wisp_status expect_options(const struct wisp_tensor_file *f, const char *path,
                                  const char *want, wisp_error *err)
{
    const char *have = wisp_tensor_file_meta(f, "options");
    if (have && strcmp(have, want) == 0) return WISP_OK;
    char diff[300] = "";
    size_t at = 0;
    for (const char *w = want, *end; have && *w && at < sizeof diff; w = end + (*end != 0)) {
        end = w + strcspn(w, "\n");
        size_t key = strcspn(w, "=") + 1; /* with its '=' */
        const char *h = have;
        while (*h && strncmp(h, w, key) != 0) {
            h += strcspn(h, "\n");
            h += *h != 0;
        }
        size_t was = strcspn(h, "\n");
        if (was == (size_t)(end - w) && memcmp(h, w, was) == 0) continue;
        at += (size_t)snprintf(diff + at, sizeof diff - at, "%s--%.*s was '%.*s' and is '%.*s'",
                               at ? ", " : "", (int)key - 1, w, *h ? (int)(was - key) : 0,
                               *h ? h + key : "", (int)(end - w - (long)key), w + key);
    }
    return wisp_fail(
        err, WISP_EMODEL,
        "%s: belongs to another run: %s; train with its options, or without --resume to start anew",
        path, at ? diff : "its options are missing or of another version");
}

static wisp_status copy_all(struct wisp_run *r, const struct wisp_tensor_file *f, const char *path,
                            wisp_error *err)
{
    struct list l;
    wisp_status st = list_all(&l, r, err);
    for (size_t i = 0; st == WISP_OK && i < l.n; i++) {
        const struct wisp_tensor *t = wisp_tensor_file_find(f, l.t[i].name);
        if (!t || t->bytes != l.t[i].bytes)
            st = wisp_fail(err, WISP_EMODEL, "%s: tensor '%s' is missing or has another size", path,
                           l.t[i].name);
        else memcpy((void *)l.t[i].data, t->data, t->bytes);
    }
    wisp_free(l.t);
    return st;
}

wisp_status wisp_state_load(struct wisp_run *r, wisp_error *err)
{
    char path[ROOM], data[200];
    state_path(path, r);
    data_line(data, sizeof data, r);
    if (access(path, F_OK) != 0)
        return wisp_fail_errno(err, WISP_EIO,
                               "%s: there is no stopped run to go on with; train without --resume",
                               path);
    struct wisp_tensor_file f;
    wisp_status st = wisp_tensor_file_open(&f, r->ctx->pool, path, err);
    if (st != WISP_OK) return st;
    const char *at = wisp_tensor_file_meta(&f, "at");
    if ((st = expect(&f, path, "format", FORMAT, err)) == WISP_OK &&
        (st = expect_options(&f, path, r->m->options, err)) == WISP_OK &&
        (st = expect(&f, path, "data", data, err)) == WISP_OK &&
        (st = expect(&f, path, "net", r->m->spec, err)) == WISP_OK)
        st = copy_all(r, &f, path, err);
    const char *kernels = wisp_tensor_file_meta(&f, "kernels");
    if (st == WISP_OK && kernels && strcmp(kernels, r->ctx->k->name) != 0)
        wisp_say(
            r->ctx,
            "resume    the run began with %s kernels and goes on with %s: rounding will differ",
            kernels, r->ctx->k->name);
    if (st == WISP_OK &&
        (!at || sscanf(at, "%d %zu %zu %zu %zu %la %la %d %d %zu", &r->epoch, &r->step, &r->steps,
                       &r->in_epoch, &r->seen, &r->loss_sum, &r->best, &r->best_epoch,
                       &r->since_best, &r->n_averaged) != 10))
        st = wisp_fail(err, WISP_EMODEL, "%s: metadata 'at' is not a list of counters", path);
    if (st == WISP_OK && r->sampler) wisp_sampler_restored(r->sampler, r->ctx);
    for (int i = 0; st == WISP_OK && i < r->n_hidden; i++)
        if (r->hidden[i]) wisp_sampler_restored(r->hidden[i], r->ctx);
    const char *saved = wisp_tensor_file_meta(&f, "model");
    if (st == WISP_OK) st = expect_model(r, saved ? saved : "none", err);
    if (st == WISP_OK && saved && strcmp(saved, "none") != 0)
        snprintf(r->saved, sizeof r->saved, "%s", saved);
    wisp_tensor_file_close(&f);
    return st;
}

void wisp_state_remove(const struct wisp_run *r)
{
    char path[ROOM];
    state_path(path, r);
    unlink(path);
    wisp_out_sweep(path);
}

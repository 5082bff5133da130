/* What the tests of models and of training share: a folder of their own, files as bytes, options
 * that rely on no default, a small text and a model made by hand. */
#ifndef WISP_TEST_MODEL_RIG_H
#define WISP_TEST_MODEL_RIG_H

#include "test.h"
#include "base/mem.h"
#include "model/run.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/wisp_model_XXXXXX", model[64], other[64];
static struct wisp_error err;
static wisp_context *ctx;
static uint64_t seed = 20240301;

static inline void rig_init(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* a crash must not swallow what was said */
    TEST("a folder and a context");
    CHECK(mkdtemp(folder) && chdir(folder) == 0, "no folder");
    snprintf(model, sizeof model, "%s/model", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    CHECK(wisp_context_create(&ctx, 2, &err) == WISP_OK, "%s", err.text);
}

static inline int rig_end(void)
{
    wisp_context_free(ctx);
    TEST("nothing is left");
    CHECK(wisp_mem_live == 0, "%ld blocks", (long)wisp_mem_live);
    unlink(model), unlink(other);
    CHECK(chdir("/") == 0 && rmdir(folder) == 0, "%s is not empty", folder);
    return test_end();
}

/* ---- files and options ---- */

struct bytes {
    unsigned char *p;
    size_t n;
};

static inline struct bytes slurp(const char *path)
{
    struct bytes b = { 0 };
    struct stat st;
    int fd = open(path, O_RDONLY);
    if (fd < 0) return b;
    if (fstat(fd, &st) == 0 && (b.p = malloc((size_t)st.st_size + 1)))
        b.n = (size_t)read(fd, b.p, (size_t)st.st_size);
    close(fd);
    return b;
}

static inline bool same_bytes(struct bytes a, struct bytes b)
{
    return a.p && b.p && a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
}

static inline bool file_is(const char *path, struct bytes want)
{
    struct bytes have = slurp(path);
    bool same = same_bytes(have, want);
    free(have.p);
    return same;
}

static inline void put_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0, "%s cannot be written", path);
}

/* Caches do not count: one that is complete may stay when memory runs out later. */
static inline size_t n_files(void)
{
    size_t n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        const char *end = strrchr(e->d_name, '.');
        n += e->d_name[0] != '.' && !(end && strcmp(end, ".wispcache") == 0);
    }
    closedir(d);
    return n;
}

static inline void set(wisp_config *c, const char *key, const char *value)
{
    CHECK(wisp_config_set(c, key, value, &err) == WISP_OK, "%s", err.text);
    if (strcmp(key, "net") != 0 || !*value) return;
    set(c, "hidden", ""); /* a net says all layers */
    set(c, "dropout", "-1");
}

/* "key value key value ..." on top of settings that say everything. */
static inline wisp_config *config(const char *more)
{
    static const char base[] =
        "hidden 8 dropout 0 input-dropout 0 loss softmax epochs 1 batch 32 lr 0.01 optimizer adam "
        "momentum 0.9 warmup 0.1 decay linear average 0 sampling full seed 3 holdout 0.2 "
        "patience 0 values unit memory 0 k 1,3,5 propensity 0.55,1.5 format auto cache - min-count "
        "1";
    wisp_config *c;
    char line[1000], *p = line;
    CHECK(wisp_config_create(&c, &err) == WISP_OK, "%s", err.text);
    snprintf(line, sizeof line, "%s %s", base, more);
    for (char *key; (key = strsep(&p, " ")) && *key;) set(c, key, strsep(&p, " "));
    return c;
}

/* A predictor with settings: "inference sparse scores raw".  NULL: refused, err says why. */
static inline wisp_predictor *predictor_so(wisp_context *with, const struct wisp_model *m, size_t k,
                                           const char *how)
{
    wisp_config *c = config(how);
    wisp_predictor *p;
    CHECK((wisp_predictor_create(&p, with, m, c, k, &err) == WISP_OK) == !!p, "%s", err.text);
    wisp_config_free(c);
    return p;
}

/* wisp_predict with settings. */
static inline wisp_status predict_so(int32_t *labels, float *scores, wisp_context *with,
                                     const struct wisp_model *m, const wisp_data *d, size_t first,
                                     size_t n, size_t k, const char *how)
{
    wisp_predictor *p = predictor_so(with, m, k, how);
    wisp_status st = p ? wisp_predictor_run(labels, scores, p, d, first, n, &err) : err.code;
    wisp_predictor_free(p);
    return st;
}

/* ---- data and a model ---- */

static inline wisp_data *words(void)
{
    static const char text[] =
        "__label__fruit red apple apple pie\n__label__fruit __label__sour green apple\n"
        "__label__sour lemon\nno label here\n__label__caf\xc3\xa9 coffee and pie\n__label__empty\n";
    wisp_config *c = config("format fasttext chars 0");
    wisp_data *d;
    CHECK(wisp_data_parse(&d, ctx, text, sizeof text - 1, "words", c, NULL, &err) == WISP_OK, "%s",
          err.text);
    wisp_config_free(c);
    return d;
}

static inline struct wisp_model *hand_made(const struct wisp_data *d)
{
    struct wisp_model *m = wisp_zalloc(1, sizeof *m);
    struct wisp_layer_sizes sizes = { .batch = 16, .active = d->n_labels, .training = true };
    m->spec = wisp_strdup("input 13, relu, dropout 0.3, dense 9, relu");
    m->options = wisp_strdup("seed=3\n");
    m->loss = wisp_loss_find("bce");
    m->idf = wisp_alloc(d->n_features, sizeof *m->idf);
    wisp_values_idf(m->idf, d);
    m->values = (struct wisp_values){ .mode = WISP_VALUES_TFIDF, .idf = m->idf };
    m->label_rows = d->label_rows;
    m->n_train = d->n_rows;
    m->text = true;
    CHECK(wisp_names_init(&m->labels, d->labels.text, d->labels.bytes, true, &err) == WISP_OK &&
              wisp_names_init(&m->vocab, d->vocab.text, d->vocab.bytes, true, &err) == WISP_OK &&
              wisp_net_plan(&m->net, m->spec, d->n_features, d->n_labels, &sizes, &err) ==
                  WISP_OK &&
              wisp_net_alloc_params(&m->net, &err) == WISP_OK,
          "%s", err.text);
    for (size_t i = 0; i < wisp_net_param_floats(&m->net); i++)
        m->net.params[i] = test_randf(&seed);
    return m;
}

/* ---- runs ---- */

static inline wisp_data *rig_synth(size_t rows, size_t features, size_t labels, double row_labels)
{
    struct wisp_synth_shape s = { .n_rows = rows,
                                  .n_features = features,
                                  .n_labels = labels,
                                  .row_features = 12,
                                  .row_labels = row_labels,
                                  .seed = 9 };
    wisp_data *d = NULL;
    CHECK(wisp_synth_data(&d, ctx, &s, false, &err) == WISP_OK, "%s", err.text);
    return d;
}

static inline int rig_stop_at(void *arg, const wisp_progress *p)
{
    return p->epoch_ended && p->epoch == *(int *)arg;
}

/* net "": from the options.  stop: after this epoch, 0: never. */
static inline wisp_status rig_train(wisp_context *with, const wisp_data *d, const char *net,
                                    const char *more, int stop, const char *path, double *p1)
{
    wisp_config *c = config(more);
    wisp_report *r = NULL;
    set(c, "net", net);
    err.text[0] = 0;
    wisp_status st = wisp_train(&r, with, c, d, NULL, path, rig_stop_at, &stop, &err);
    if (p1) *p1 = -1;
    if (r && p1) wisp_report_get(r, "valid_p@1", p1);
    wisp_report_free(r);
    wisp_config_free(c);
    return st;
}

/* scores (n, k): the best of rows 0 .. n-1 of a set of at least 2n rows. */
static inline bool rig_score(float *scores, const struct wisp_model *m, const wisp_data *d,
                             size_t n, size_t k)
{
    struct wisp_scorer s;
    size_t rows[1000];
    bool ok = n <= 1000 && wisp_scorer_init(&s, m, ctx, WISP_ZEROS_OFF, k, &err) == WISP_OK;
    CHECK(ok, "%s", err.text);
    if (!ok) return false;
    for (int turn = 0; turn < 3; turn++) { /* nothing of one batch is left in the next */
        for (size_t i = 0; i < n; i++) rows[i] = turn == 1 ? n + i : i;
        CHECK(wisp_scorer_run(&s, d, rows, n, &err) == WISP_OK, "%s", err.text);
        if (turn == 0) memcpy(scores, s.scores, n * k * sizeof *scores);
    }
    CHECK(memcmp(scores, s.scores, n * k * sizeof *scores) == 0, "another batch before changes it");
    wisp_scorer_clear(&s);
    return true;
}

/* A model of options on top of the usual ones; it has been saved to 'model'. */
static inline struct wisp_model *rig_trained(const wisp_data *d, const char *more)
{
    wisp_config *c = config(more);
    wisp_report *r = NULL;
    struct wisp_model *m = NULL;
    CHECK(wisp_train(&r, ctx, c, d, NULL, model, NULL, NULL, &err) == WISP_OK &&
              wisp_model_load(&m, model, &err) == WISP_OK,
          "'%s': %s", more, err.text);
    wisp_report_free(r);
    wisp_config_free(c);
    if (!m) abort();
    return m;
}

/* Fails the n-th allocation of a run, for every n until it succeeds (beyond 200 for every
 * 'stride'-th): an error, and nothing lost.  net "": from the options. */
static inline void rig_train_without_memory(const wisp_data *d, const char *net, const char *more,
                                            long stride)
{
    long live = wisp_mem_live, n = 0;
    wisp_status st = WISP_ENOMEM;
    for (; st == WISP_ENOMEM; n += n < 200 ? 1 : stride) {
        wisp_config *c = config(more);
        wisp_report *r = NULL;
        set(c, "net", net);
        long before = wisp_mem_live;
        wisp_mem_budget = n;
        st = wisp_train(&r, ctx, c, d, NULL, model, NULL, NULL, &err);
        wisp_mem_budget = -1;
        CHECK(st == WISP_OK ||
                  (st == WISP_ENOMEM && !r && strncmp(err.text, "out of memory", 13) == 0),
              "after %ld: %d '%s'", n, st, err.text);
        wisp_report_free(r);
        CHECK(wisp_mem_live == before, "after %ld: %ld blocks lost", n, wisp_mem_live - before);
        wisp_config_free(c);
    }
    CHECK(n > 20 && wisp_mem_live == live, "%ld allocations, %ld blocks lost", n,
          wisp_mem_live - live);
}

#endif

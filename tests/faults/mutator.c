/* Mutants of models, checkpoints and caches, with their checksums made right, through the library.
 *
 *   mutator KIND N SEED [FIRST]       mutants FIRST .. FIRST + N - 1 of models, states or caches
 *   mutator KIND N SEED FIRST FOLDER  writes them into FOLDER instead, with what goes with them:
 *                                     I, I.state, I.options, I.rows or I-images, I-labels
 *   mutator caches N SEED FIRST FOLDER CACHE   mutants of this cache
 *
 * Every mutant goes through inspect, eval, predict, train --init and train --resume.  Each must end
 * with success or one of the errors that stand for a bad file, with one line of words; what is
 * answered must be numbers; no memory may be lost.  A child process works through a batch; one that
 * crashes, hangs or takes too much memory has failed at one mutant, which is kept with its number,
 * and the next child goes on behind it.
 * The last lines say how the calls ended, and 'N passed, N failed'. */
#include "mutate.h"

#include "base/file.h"
#include "base/mem.h"
#include "model/model.h"

#include <math.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { INSPECT, EVAL, PREDICT, INIT, RESUME, N_OPS };
static const char *const op_names[] = { "inspect", "eval", "predict", "init", "resume" };
enum { BATCH = 250, SECONDS = 20, MEGABYTES = 400, N_STATUS = 10, MOST_BASES = 24 };
enum { FREE_IDS = 1 << 20 };

struct base { /* a good file, what it came from, and how to read and train that */
    char path[200];
    const char *rows;    /* text of the data */
    const char *options; /* of the run, "key value ..." */
    wisp_data *data;
    struct wisp_tensor_file file; /* models, states */
    uint8_t *bytes;               /* caches; the model of a state */
    size_t n_bytes;
};

static struct shared { /* with the children */
    size_t next, failed;
    int op;
    size_t ends[N_OPS][N_STATUS];
    size_t most_memory;
    char what[400];
} * shared;

static char folder[64];
static wisp_context *ctx;
static struct base bases[MOST_BASES];
static size_t n_bases;

static _Noreturn void die(const char *what, const char *why)
{
    fflush(stdout);
    fprintf(stderr, "mutant %zu, %s: %s: %s%s\n", shared ? shared->next : 0,
            shared ? op_names[shared->op] : "setting up", what, why, shared ? shared->what : "");
    _exit(99);
}

static const char *in_folder(const char *name) /* lives for the next 7 calls */
{
    static char path[8][200];
    static unsigned turn;
    char *p = path[turn++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static void save(const char *path, const void *p, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || (n && write(fd, p, n) != (ssize_t)n)) die("cannot write", path);
    close(fd);
}

static uint8_t *slurp(size_t *n, const char *path)
{
    struct wisp_map m;
    wisp_error err;
    if (wisp_map_open(&m, path, &err) != WISP_OK) die("cannot read", err.text);
    uint8_t *p = malloc(m.bytes + 1);
    memcpy(p, m.p, m.bytes);
    *n = m.bytes;
    wisp_map_close(&m);
    return p;
}

/* ---- good files ---- */

static const char words[] =
    "__label__fruit red apple apple pie\n__label__fruit __label__sour green apple\n"
    "__label__sour lemon juice\nno label here\n__label__cafe coffee and pie\n"
    "__label__fruit apple\n__label__sour lemon\n__label__cafe coffee cup\n"
    "__label__fruit green pie\n__label__sour green lemon\n__label__cafe red cup\n"
    "__label__fruit red\n__label__sour juice\n__label__cafe coffee\n__label__fruit pie apple\n"
    "__label__sour __label__cafe lemon coffee\n";
static const char ids[] =
    "0,3 0:1 1:1 5:.5\n1 2:1\n2 3:1 1:1\n0 0:1\n1,4 2:1 3:1\n2 3:2\n0 1:1\n1 2:2 5:1\n3 4:1\n"
    "4 4:1 5:1\n0 0:1 1:2\n1 2:1 0:.5\n2 3:1\n3 4:2\n4 5:2\n0,1 0:1 2:1\n";

/* Images of 4 x 4 pixels; a class has its own quarter brighter. */
enum { PICTURES = 24, PIXELS = 16, CLASSES = 4 };
static const char pictures[] = "pictures"; /* as 'rows' of a base: these */
static uint8_t pixels[PICTURES * PIXELS];

static void draw_pictures(void)
{
    for (size_t i = 0; i < PICTURES; i++)
        for (size_t p = 0; p < PIXELS; p++)
            pixels[i * PIXELS + p] =
                (uint8_t)((i * 37 + p * 11) % 90 + (p / 8 * 2 + p % 4 / 2 == i % CLASSES) * 150);
}

static wisp_status see_pictures(wisp_data **d, wisp_error *err)
{
    int64_t at[PICTURES + 1];
    int32_t labels[PICTURES];
    for (int i = 0; i <= PICTURES; i++) at[i] = i;
    for (int i = 0; i < PICTURES; i++) labels[i] = i % CLASSES;
    return wisp_data_from_images(d, PICTURES, 1, 4, 4, pixels, 0, CLASSES, at, labels, err);
}

/* As idx files have them. */
static void write_pictures(const char *to, size_t i)
{
    uint8_t images[16 + sizeof pixels] = { 0, 0, 8, 3, 0, 0, 0, PICTURES, 0, 0, 0, 4, 0, 0, 0, 4 };
    uint8_t labels[8 + PICTURES] = { 0, 0, 8, 1, 0, 0, 0, PICTURES };
    char path[420];
    memcpy(images + 16, pixels, sizeof pixels);
    for (size_t r = 0; r < PICTURES; r++) labels[8 + r] = (uint8_t)(r % CLASSES);
    snprintf(path, sizeof path, "%s/%zu-images", to, i);
    save(path, images, sizeof images);
    snprintf(path, sizeof path, "%s/%zu-labels", to, i);
    save(path, labels, sizeof labels);
}

static wisp_config *config(const char *more)
{
    static const char base[] = "input-dropout 0 epochs 3 batch 4 holdout 0.25 patience 0 cache - "
                               "lr 0.01";
    const char *layers = strstr(more, "net ") ? "" : "hidden 4 dropout 0 "; /* a net says them */
    wisp_error err = { 0 };
    wisp_config *c;
    char line[600], *p = line;
    wisp_status st = wisp_config_create(&c, &err);
    snprintf(line, sizeof line, "%s%s %s", layers, base, more);
    for (char *key; st == WISP_OK && (key = strsep(&p, " ")) && *key;) {
        char *value = strsep(&p, " ");
        for (char *v = value; *v; v++) *v = *v == '_' ? ' ' : *v;
        st = wisp_config_set(c, key, value, &err);
    }
    if (st != WISP_OK) die("options", err.text);
    return c;
}

static wisp_data *parse(const char *text, const wisp_model *m)
{
    wisp_config *c = config(text == words ? "format fasttext" : "format xc no-header 1");
    wisp_data *d = NULL;
    wisp_error err = { 0 };
    if (text == pictures) see_pictures(&d, &err);
    else wisp_data_parse(&d, ctx, text, strlen(text), "rows", c, m, &err);
    wisp_config_free(c);
    if (!d && !m) die("no rows", err.text);
    return d;
}

static int stop_after_1(void *arg, const wisp_progress *p)
{
    return *(bool *)arg && p->epoch_ended && p->epoch == 1;
}

static wisp_status train(const wisp_data *d, const char *options, const char *path, bool stop,
                         wisp_error *err)
{
    wisp_config *c = config(options);
    wisp_report *r = NULL;
    wisp_status st = wisp_train(&r, ctx, c, d, NULL, path, stop_after_1, &stop, err);
    wisp_report_free(r);
    wisp_config_free(c);
    return st;
}

static struct base *add_base(const char *rows, const char *options)
{
    if (n_bases == MOST_BASES) die("too many bases", options);
    struct base *b = &bases[n_bases];
    *b = (struct base){ .rows = rows, .options = options, .data = parse(rows, NULL) };
    snprintf(b->path, sizeof b->path, "%s/base%zu", folder, n_bases++);
    return b;
}

static void open_base(struct base *b, const char *ending)
{
    wisp_error err = { 0 };
    char path[220];
    snprintf(path, sizeof path, "%s%s", b->path, ending);
    if (wisp_tensor_file_open(&b->file, NULL, path, &err) != WISP_OK) die("a base", err.text);
}

/* The base's model with thresholds, or with narrow weights. */
static wisp_status make_again(const struct base *b, const char *how, const char *path,
                              wisp_error *err)
{
    wisp_model *m = NULL;
    wisp_report *r = NULL;
    wisp_config *c = config("");
    wisp_status st = wisp_model_load(&m, b->path, err);
    if (st == WISP_OK && strcmp(how, "threshold") == 0)
        st = wisp_threshold(&r, ctx, m, b->data, c, path, err);
    else if (st == WISP_OK) st = wisp_model_quantize(m, path, how, err);
    wisp_report_free(r);
    wisp_config_free(c);
    wisp_model_free(m);
    return st;
}

static void make_models(void)
{
    static const struct {
        const char *rows, *options, *again;
    } list[] = {
        { words, "values tfidf loss softmax index yes", NULL },
        { ids, "values raw loss bce index yes optimizer adagrad", NULL },
        { ids, "values unit loss softmax index yes", "bf16" },
        { words, "values tfidf loss bce index no", "int8" },
        { ids, "values unit loss bce index yes", "threshold" },
        { ids, "values unit loss softmax index no net input_16,_relu,_sparse_random_8_4,_relu",
          NULL },
        { words, "values tfidf net linear refit no", NULL },
        { ids, "values unit net linear negatives votes", NULL },
        { ids, "values unit net linear negatives votes", "int8" },
        { ids, "values unit net linear", "threshold" },
        { words, "values tfidf net linear+net hidden 4 dropout 0 ensemble 2", NULL },
        { ids, "values unit net linear+net hidden 4 dropout 0", "int8" },
        { words, "values tfidf net linear+net hidden 4 dropout 0", "threshold" },
        { ids, "values unit loss bce index yes", "c64" },
        { words, "values tfidf loss softmax index no", "c16" },
        { ids,
          "values unit index no group-cut 0.5 penalty-epochs 2 net dense_8,_relu,_dense_8,_relu",
          NULL },
        { ids,
          "values unit index no magnitude 0.6 penalty-epochs 2 net dense_8,_relu,_dense_8,_relu",
          NULL },
        { pictures,
          "loss softmax index no net image,_conv_4_3,_bn,_relu,_maxpool_2,_flatten,_dense_6,_relu",
          NULL },
        { pictures,
          "loss softmax index no group-cut 0.5 penalty-epochs 2 "
          "net image,_conv_4_3,_relu_as_x,_conv_4_3,_bn,_add_x,_relu,_globalavg",
          NULL },
    };
    wisp_error err = { 0 };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        struct base *b = add_base(list[i].rows, list[i].options);
        if (train(b->data, b->options, b->path, false, &err) != WISP_OK) die("a model", err.text);
        if (list[i].again) {
            char path[220];
            snprintf(path, sizeof path, "%s.again", b->path);
            if (make_again(b, list[i].again, path, &err) != WISP_OK || rename(path, b->path) != 0)
                die(list[i].again, err.text);
        }
        open_base(b, "");
    }
}

static void make_states(void)
{
    static const struct {
        const char *rows, *options;
    } list[] = {
        { ids, "values unit loss softmax optimizer adam average 0.5 index no" },
        { ids, "values raw loss bce optimizer adagrad sampling neighbours+lsh+ivf+random keep 2 "
               "tables 2 bits 2 rebuild 2 lists 2 index no" },
        { words, "values tfidf loss softmax optimizer adam moments bf16 index yes" },
        { ids, "values unit loss softmax optimizer sgd sampling lsh hash simhash keep 2 tables 3 "
               "bits 3 rebuild 1 bucket 2 index no" },
        { ids, "values unit loss bce optimizer adam sampling features+frequency+neighbours keep 2 "
               "index yes" },
        { ids, "values unit loss softmax optimizer adagrad sampling lsh hash minhash replace "
               "reservoir keep 2 tables 2 rebuild 3 rows bf16 index no" },
        { ids, "values unit net linear refit yes" },
        { ids, "values unit net linear refit yes negatives votes" },
        { ids, "values unit index no group-cut 0.5 penalty-epochs 2 "
               "net dense_8,_relu,_dense_8,_relu" },
        { ids, "values unit index no magnitude 0.6 penalty-epochs 2 "
               "net dense_8,_relu,_dense_8,_relu" },
        { pictures, "loss softmax index no optimizer sgd momentum 0.9 "
                    "net image,_conv_4_3,_bn,_relu,_maxpool_2,_flatten,_dense_6,_relu" },
        { pictures, "loss softmax index no group-cut 0.5 penalty-epochs 2 "
                    "net image,_conv_4_3,_relu_as_x,_conv_4_3,_bn,_add_x,_relu,_globalavg" },
    };
    wisp_error err = { 0 };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        struct base *b = add_base(list[i].rows, list[i].options);
        if (train(b->data, b->options, b->path, true, &err) != WISP_ESTOPPED)
            die("a state", err.text);
        b->bytes = slurp(&b->n_bytes, b->path);
        open_base(b, ".state");
    }
}

/* The rows through a sink: whatever may be said of small files, this is a cache. */
static void make_caches(void)
{
    wisp_error err = { 0 };
    for (int i = 0; i < 2; i++) {
        struct base *b = add_base(i ? words : ids, "values unit loss softmax index no");
        struct wisp_builder rows = { 0 };
        struct wisp_sink *s;
        wisp_data *d;
        wisp_status st = wisp_sink_create(&s, b->path, &err);
        for (size_t r = 0; st == WISP_OK && r < b->data->n_rows; r++) {
            size_t at;
            const struct wisp_rows *from = wisp_data_row(b->data, r, &at);
            for (uint32_t e = from->xp[at]; st == WISP_OK && e < from->xp[at + 1]; e++)
                st = wisp_builder_feature(&rows, from->xi[e], from->xv[e], &err);
            for (uint32_t e = from->yp[at]; st == WISP_OK && e < from->yp[at + 1]; e++)
                st = wisp_builder_label(&rows, from->yi[e], &err);
            if (st == WISP_OK) st = wisp_builder_end_row(&rows, &err);
        }
        if (st == WISP_OK) st = wisp_sink_add(s, &rows, &err);
        struct wisp_names labels = { 0 }, vocab = { 0 };
        if (i) {
            wisp_names_init(&labels, b->data->labels.text, b->data->labels.bytes, true, &err);
            wisp_names_init(&vocab, b->data->vocab.text, b->data->vocab.bytes, true, &err);
            wisp_sink_names(s, &labels, &vocab);
        }
        if (st != WISP_OK || wisp_sink_finish(&d, s, &err) != WISP_OK) die("a cache", err.text);
        wisp_data_free(d);
        wisp_builder_clear(&rows);
        b->bytes = slurp(&b->n_bytes, b->path);
        char path[220];
        snprintf(path, sizeof path, "%s.model", b->path);
        if (train(b->data, b->options, path, false, &err) != WISP_OK) die("a model", err.text);
    }
}

/* ---- what is done with a mutant ---- */

static void count(wisp_status st, const wisp_error *err)
{
    bool known = st == WISP_OK || st == WISP_EMODEL || st == WISP_EFORMAT || st == WISP_ENOMEM ||
                 st == WISP_ENUMERIC || st == WISP_EINVAL || st == WISP_ENOTSUP;
    if (!known) die("an error of another kind", err->text);
    if (st != WISP_OK && (err->code != st || !err->text[0])) die("an error without words", "");
    for (const char *c = err->text; *c && st != WISP_OK; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f) die("more than a line of words", err->text);
    shared->ends[shared->op][-st]++;
}

static wisp_error *begin(int op)
{
    static wisp_error err;
    shared->op = op;
    alarm(SECONDS);
    err = (wisp_error){ 0 };
    return &err;
}

static void inspect(const char *path)
{
    wisp_error *err = begin(INSPECT);
    wisp_model *m = NULL;
    wisp_status st = wisp_model_load(&m, path, err);
    if (st == WISP_OK) {
        size_t n = wisp_model_n_labels(m), bytes;
        if (!strchr(wisp_model_describe(m), '}')) die("no description", "");
        for (size_t l = 0; l < n && l < 10; l++) wisp_model_label_name(m, (int32_t)l, &bytes);
        wisp_error why = { 0 };
        count(wisp_model_quantize(m, in_folder("out"), "int8", &why), &why);
    }
    count(st, err);
    wisp_model_free(m);
}

static void judge(const char *path, const wisp_data *rows, bool sparse)
{
    wisp_error *err = begin(EVAL);
    wisp_model *m = NULL;
    wisp_report *r = NULL;
    wisp_config *c = config(sparse ? "inference sparse k 1,3" : "k 1,3");
    wisp_status st = wisp_model_load(&m, path, err);
    if (st == WISP_OK) st = wisp_eval(&r, ctx, m, rows, c, err);
    double p = 0, ece = 0;
    if (r && (!wisp_report_get(r, "p@1", &p) || !(p >= 0 && p <= 100) ||
              !wisp_report_get(r, "ece", &ece) || !(ece >= 0 && ece <= 100)))
        die("figures that are none", wisp_report_json(r));
    count(st, err);
    wisp_report_free(r);
    wisp_config_free(c);
    wisp_model_free(m);
}

/* Of the first row: parts that are numbers. */
static wisp_status explain(const wisp_model *m, const wisp_data *d, wisp_error *err)
{
    wisp_predictor *p = NULL;
    const wisp_explanation *e = NULL;
    wisp_status st = wisp_predictor_create(&p, ctx, m, NULL, 1, err);
    if (st == WISP_OK) st = wisp_explain(&e, p, d, 0, -1, err);
    for (size_t i = 0; st == WISP_OK && i < e->n; i++)
        if (e->reasons[i].feature < 0 ||
            (size_t)e->reasons[i].feature >= wisp_model_n_features(m) ||
            !isfinite(e->reasons[i].part))
            die("a reason that is none", "");
    wisp_predictor_free(p);
    return st;
}

static void predict(const char *path, const struct base *b, const wisp_data *rows)
{
    enum { K = 3, ROWS = 8 };
    int32_t labels[ROWS * K];
    float scores[ROWS * K];
    wisp_error *err = begin(PREDICT);
    wisp_model *m = NULL;
    wisp_status st = wisp_model_load(&m, path, err);
    wisp_data *own = st == WISP_OK && !rows ? parse(b->rows, m) : NULL; /* read as the model says */
    const wisp_data *d = rows ? rows : own ? own : b->data;
    size_t n = d->n_rows < ROWS ? d->n_rows : ROWS;
    if (st == WISP_OK) st = wisp_predict(labels, scores, ctx, m, d, 0, n, K, err);
    if (st == WISP_OK)
        for (size_t i = 0; i < n * K; i++)
            if ((labels[i] < 0 && i % K < wisp_model_n_labels(m)) ||
                (labels[i] >= 0 && (size_t)labels[i] >= wisp_model_n_labels(m)) ||
                !(scores[i] >= 0 && scores[i] <= 1))
                die("an answer that is none", "");
    if (st == WISP_OK && n > 0) st = explain(m, d, err);
    count(st, err);
    wisp_data_free(own);
    wisp_model_free(m);
}

/* What a run leaves can be loaded. */
static void go_on(int op, const wisp_data *rows, const char *options, const char *path)
{
    wisp_error *err = begin(op), why = { 0 };
    wisp_model *m = NULL;
    wisp_status st = train(rows, options, path, false, err);
    if (st == WISP_OK && wisp_model_load(&m, path, &why) != WISP_OK)
        die("the model that was trained is none", why.text);
    count(st, err);
    wisp_model_free(m);
}

static void remove_runs(void)
{
    static const char *const names[] = { "m",   "m.state",   "m.state.1",
                                         "out", "out.state", "out.state.1" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(in_folder(names[i]));
}

static const char *with_init(const char *options, const char *path)
{
    static char line[600];
    snprintf(line, sizeof line, "%s init %s", options, path);
    return line;
}

static void try_model(const struct base *b, const uint8_t *p, size_t n)
{
    const char *path = in_folder("m");
    char more[600];
    save(path, p, n);
    inspect(path);
    judge(path, b->data, false);
    judge(path, b->data, true);
    predict(path, b, NULL);
    go_on(INIT, b->data, with_init("epochs 1 index auto", path), in_folder("out"));
    snprintf(more, sizeof more, "%s resume 1", b->options);
    go_on(RESUME, b->data, more, path);
}

static void try_state(const struct base *b, const uint8_t *p, size_t n)
{
    const char *path = in_folder("m"), *state = in_folder("m.state");
    char more[600];
    save(path, b->bytes, b->n_bytes);
    save(state, p, n);
    inspect(state);
    judge(state, b->data, false);
    predict(state, b, NULL);
    go_on(INIT, b->data, with_init("epochs 1 index no", path), in_folder("out"));
    snprintf(more, sizeof more, "%s resume 1", b->options);
    go_on(RESUME, b->data, more, path);
}

static void try_cache(const struct base *b, const uint8_t *p, size_t n)
{
    const char *path = in_folder("c");
    char model[220], more[600];
    wisp_data *d = NULL;
    wisp_data_stats stats;
    save(path, p, n);
    wisp_error *err = begin(INSPECT);
    wisp_status st = wisp_cache_open(&d, NULL, path, NULL, NULL, NULL, err);
    count(st, err);
    if (st != WISP_OK) return;
    wisp_data_stats_get(d, &stats);
    if (stats.n_features > FREE_IDS || stats.n_labels > FREE_IDS) { /* as a text's header may say */
        wisp_data_free(d);
        return;
    }
    snprintf(model, sizeof model, "%s.model", b->path);
    judge(model, d, false);
    predict(model, b, d);
    go_on(INIT, d, with_init("epochs 1 index auto", model), in_folder("out"));
    snprintf(more, sizeof more, "%s resume 1", b->options);
    go_on(RESUME, d, more, in_folder("m"));
    wisp_data_free(d);
}

/* ---- one mutant, a batch of them, all of them ---- */

static const struct kind {
    const char *name, *ending;
    void (*make)(void);
    void (*try)(const struct base *b, const uint8_t *p, size_t n);
    uint64_t salt;
} kinds[] = {
    { "models", "", make_models, try_model, 1 },
    { "states", ".state", make_states, try_state, 2 },
    { "caches", "", make_caches, try_cache, 3 },
};

static uint8_t bytes[3 * MUTATE_ROOM];

/* Mutant i into 'bytes'; 'from' is what it is a mutant of. */
static size_t make_mutant(const struct kind *k, uint64_t seed, size_t i, const struct base **from,
                          char what[400])
{
    static struct mutant m;
    m = (struct mutant){ .rng = (seed * 1000003 + i) * 8 + k->salt };
    for (int w = 0; w < 8; w++) test_rand(&m.rng);
    const struct base *b = *from = &bases[mutate_below(&m, n_bases)];
    size_t n;
    if (b->file.map.p) n = mutate_tensors(&m, bytes, &b->file);
    else {
        memcpy(bytes, b->bytes, b->n_bytes);
        n = mutate_cache(&m, bytes, b->n_bytes);
    }
    mutate_clear(&m);
    memcpy(what, m.what, sizeof m.what);
    return n;
}

static size_t peak_memory(bool reset)
{
    if (reset) {
        int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
        if (fd >= 0 && write(fd, "5", 1) != 1) return 0;
        close(fd);
    }
    return wisp_mem_peak();
}

static _Noreturn void child(const struct kind *k, uint64_t seed, size_t end)
{
    const size_t before = peak_memory(true);
    for (; shared->next < end; shared->next++) {
        const struct base *b;
        size_t n = make_mutant(k, seed, shared->next, &b, shared->what);
        const long live = wisp_mem_live;
        k->try(b, bytes, n);
        remove_runs();
        if (wisp_mem_live != live) die("memory leaked", "");
        size_t peak = wisp_mem_peak(), more = peak > before ? peak - before : 0;
        if (more > shared->most_memory) shared->most_memory = more;
        if (more > (size_t)MEGABYTES << 20) die("too much memory", "");
    }
    fflush(stdout);
    _exit(0);
}

/* The mutant that a child died of is kept. */
static void keep(const struct kind *k, uint64_t seed, int status)
{
    const struct base *b;
    char what[400], path[300];
    const char *to = getenv("MUTANTS_FOUND");
    size_t n = make_mutant(k, seed, shared->next, &b, what);
    snprintf(path, sizeof path, "%s/%s-%llu-%zu", to ? to : "/tmp", k->name,
             (unsigned long long)seed, shared->next);
    save(path, bytes, n);
    printf("FAIL %s %llu, mutant %zu of %s, in %s: %s %d%s; kept as %s\n", k->name,
           (unsigned long long)seed, shared->next, b->path, op_names[shared->op],
           WIFSIGNALED(status) ? "signal" : "exit code",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), what, path);
    fflush(stdout);
    shared->failed++;
    shared->next++;
}

static void run(const struct kind *k, uint64_t seed, size_t first, size_t n)
{
    for (shared->next = first; shared->next < first + n;) {
        size_t end = shared->next + BATCH < first + n ? shared->next + BATCH : first + n;
        pid_t pid = fork();
        if (pid == 0) child(k, seed, end);
        int status = 0;
        if (pid < 0 || waitpid(pid, &status, 0) != pid) die("no child", "");
        if (status != 0) keep(k, seed, status);
    }
}

static void report(const struct kind *k, size_t n)
{
    static const char *const ends[] = { "ok",        "usage", "memory",  "files", "data",
                                        "not there", "model", "numbers", "peer",  "stopped" };
    for (int op = 0; op < N_OPS; op++) {
        printf("%-7s %-8s", k->name, op_names[op]);
        for (int st = 0; st < N_STATUS; st++)
            if (shared->ends[op][st]) printf("  %s %zu", ends[st], shared->ends[op][st]);
        putchar('\n');
    }
    printf("%-7s at most %zu MB for a mutant\n", k->name, shared->most_memory >> 20);
    printf("%zu passed, %zu failed\n", n - shared->failed, shared->failed);
}

static void write_out(const struct kind *k, uint64_t seed, size_t first, size_t n, const char *to)
{
    for (size_t i = first; i < first + n; i++) {
        const struct base *b;
        char what[400], path[400], side[420];
        size_t bytes_n = make_mutant(k, seed, i, &b, what);
        for (char *c = what; *c; c++)
            if (*c < ' ') *c = '?';
        printf("%zu%s\n", i, what);
        snprintf(path, sizeof path, "%s/%zu%s", to, i, k->ending);
        save(path, bytes, bytes_n);
        if (k->ending[0]) { /* the model beside its state */
            snprintf(side, sizeof side, "%s/%zu", to, i);
            save(side, b->bytes, b->n_bytes);
        }
        if (!b->rows) continue;
        snprintf(side, sizeof side, "%s/%zu.rows", to, i);
        if (b->rows == pictures) write_pictures(to, i);
        else save(side, b->rows, strlen(b->rows));
        snprintf(side, sizeof side, "%s/%zu.options", to, i);
        save(side, b->options, strlen(b->options));
    }
}

static void clean_up(void)
{
    for (size_t i = 0; i < n_bases; i++) {
        wisp_data_free(bases[i].data);
        wisp_tensor_file_close(&bases[i].file);
        free(bases[i].bytes);
    }
    wisp_context_free(ctx);
    char line[100];
    snprintf(line, sizeof line, "rm -rf %s", folder);
    if (system(line) != 0) puts("the folder of mutants is left");
}

int main(int argc, char **argv)
{
    wisp_error err = { 0 };
    const struct kind *k = NULL;
    for (size_t i = 0; argc >= 4 && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(argv[1], kinds[i].name) == 0) k = &kinds[i];
    if (!k) {
        fprintf(stderr, "usage: mutator models|states|caches N SEED [FIRST [FOLDER [CACHE]]]\n");
        return 2;
    }
    const size_t n = strtoull(argv[2], NULL, 10),
                 first = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    const uint64_t seed = strtoull(argv[3], NULL, 10);
    snprintf(folder, sizeof folder, "%s/wisp-mutants-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(folder) || wisp_context_create(&ctx, 1, &err) != WISP_OK)
        die("no folder", err.text);
    draw_pictures();
    if (argc > 6) {
        bases[0].bytes = slurp(&bases[0].n_bytes, argv[6]);
        n_bases = bases[0].n_bytes <= sizeof bytes ? 1 : 0;
        if (!n_bases) die("a cache that is too large", argv[6]);
    } else {
        k->make();
    }
    if (argc > 5) {
        write_out(k, seed, first, n, argv[5]);
        clean_up();
        return 0;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 1;
    run(k, seed, first, n);
    report(k, n);
    clean_up();
    return shared->failed != 0;
}

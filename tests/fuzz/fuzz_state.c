/* Fuzzing the state of a stopped run: --resume refuses the bytes, with a reason, or the run goes on
 * to its end and leaves a model that loads.  With FIX the checksums are made to match first. */
#define FUZZ_NAME   "fuzz_state"
#define FUZZ_ERRORS WISP_EMODEL, WISP_ENUMERIC, WISP_EINVAL
#define FUZZ_WORDS                                                                                 \
    "wisp-state 1", "none", "18446744073709551615", "-1", "0x1p+1023", "nan", "inf", "\"at\":\"",  \
        " 0", " 9", "sampling=", "\"F32\"", "\"BF16\"", "\\n"
#define FUZZ_MUTANTS 600
#include "fuzz/tensors.h"

#include "model/model.h"

enum { FIX = 1, SAMPLED = 2 };  /* how: checksums made right; the run that samples; */
enum { BEFORE = 4, FINAL = 8 }; /* the checkpoint before, the last being damaged; a model alone */

static wisp_context *ctx;
static wisp_config *configs[2];
static wisp_data *rows;
static uint8_t models[2][FUZZ_ROOM], states[2][FUZZ_ROOM];
static size_t model_bytes[2], state_bytes[2];

static int stop_after_1(void *arg, const wisp_progress *p)
{
    (void)arg;
    return p->epoch_ended && p->epoch == 1;
}

static wisp_config *options(const char *more)
{
    static const char base[] = "hidden 2 dropout 0 input-dropout 0 loss softmax epochs 3 batch 4 "
                               "optimizer adagrad holdout 0.25 patience 0 values raw";
    wisp_error err = { 0 };
    wisp_config *c;
    char line[400], *p = line;
    wisp_status st = wisp_config_create(&c, &err);
    snprintf(line, sizeof line, "%s %s", base, more);
    for (char *key; st == WISP_OK && (key = strsep(&p, " ")) && *key;)
        st = wisp_config_set(c, key, strsep(&p, " "), &err);
    if (st != WISP_OK) fuzz_die("no options", &err);
    return c;
}

static void clean_up(void)
{
    wisp_data_free(rows);
    for (int i = 0; i < 2; i++) wisp_config_free(configs[i]);
    wisp_context_free(ctx);
}

/* Two runs that were stopped after their first epoch: all labels, and a sample of them. */
static void make_runs(void)
{
    static const char text[] =
        "0 0:1 1:1\n1 2:1\n2 3:1 1:1\n0 0:1\n1 2:1 3:1\n2 3:2\n0 1:1\n1 2:2\n";
    static const char *const more[] = { "sampling full average 0.5",
                                        "sampling neighbours+lsh+ivf+random keep 2 "
                                        "tables 2 bits 2 rebuild 2 lists 2 index no average 0" };
    wisp_error err = { 0 };
    if (ctx) return;
    for (int i = 0; i < 2; i++) configs[i] = options(more[i]);
    wisp_config *reading = options("format xc no-header 1");
    if (wisp_context_create(&ctx, 1, &err) != WISP_OK || atexit(clean_up) != 0 ||
        wisp_data_parse(&rows, ctx, text, sizeof text - 1, "t", reading, NULL, &err) != WISP_OK)
        fuzz_die("no data", &err);
    wisp_config_free(reading);
    for (int i = 0; i < 2; i++) {
        wisp_report *r = NULL;
        wisp_status st =
            wisp_train(&r, ctx, configs[i], rows, NULL, fuzz_path("m"), stop_after_1, NULL, &err);
        wisp_report_free(r);
        if (st != WISP_ESTOPPED) fuzz_die("the run did not stop", &err);
        model_bytes[i] = fuzz_load("m", models[i], FUZZ_ROOM);
        state_bytes[i] = fuzz_load("m.state", states[i], FUZZ_ROOM);
        if (wisp_config_set(configs[i], "resume", "1", &err) != WISP_OK) fuzz_die("resume", &err);
    }
}

static wisp_status fuzz_read(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    static uint8_t b[4 * FUZZ_ROOM];
    const int run = how & SAMPLED ? 1 : 0;
    wisp_report *r = NULL;
    wisp_model *m;
    if (n > sizeof b) n = sizeof b;
    if (n) memcpy(b, p, n);
    if (how & FIX) tensors_fix(b, n);
    fuzz_save("m", models[run], model_bytes[run]);
    unlink(fuzz_path("m.state"));
    unlink(fuzz_path("m.state.1"));
    fuzz_save(how & FINAL ? "m" : how & BEFORE ? "m.state.1" : "m.state", b, n);
    if (how & BEFORE) fuzz_save("m.state", "damaged", 7);
    wisp_status st = wisp_train(&r, ctx, configs[run], rows, NULL, fuzz_path("m"), NULL, NULL, err);
    wisp_report_free(r);
    long budget = wisp_mem_budget;
    wisp_error why = { 0 };
    wisp_mem_budget = -1;
    if (how & FINAL) m = NULL; /* it is what was read */
    else if (wisp_model_load(&m, fuzz_path("m"), &why) != WISP_OK)
        fuzz_die("the model is lost", &why);
    wisp_model_free(m);
    wisp_mem_budget = budget;
    return st;
}

static size_t fuzz_seed(uint8_t *to, size_t i)
{
    make_runs();
    if (i == 4) return fuzz_put(to, BEFORE | FIX, states[0], state_bytes[0]);
    if (i == 5) return fuzz_put(to, FINAL | FIX, models[0], model_bytes[0]);
    if (i == 6) return fuzz_put(to, FINAL, "{}", 2);
    if (i >= 4) return 0;
    return fuzz_put(to, (i % 2 ? FIX : 0) | (i / 2 ? SAMPLED : 0), states[i / 2],
                    state_bytes[i / 2]);
}

#ifdef WISP_LIBFUZZER
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static uint8_t b[FUZZ_ROOM];
    (void)argc, (void)argv;
    fuzz_set_up();
    fuzz_seed(b, 0);
    return 0;
}
#else
/* The state with field 'k' of its counters replaced; false: there is no such field. */
static bool with_counter(struct wisp_pair *meta, size_t n_meta, char *line, size_t room, size_t k,
                         const char *value)
{
    for (size_t i = 0; i < n_meta; i++) {
        if (strcmp(meta[i].key, "at") != 0) continue;
        const char *from = meta[i].value;
        for (; k > 0 && *from; k--) from += strcspn(from, " ") + (from[strcspn(from, " ")] != 0);
        if (!*from) return false;
        snprintf(line, room, "%.*s%s%s", (int)(from - meta[i].value), meta[i].value, value,
                 from + strcspn(from, " "));
        meta[i].value = line;
        return true;
    }
    return false;
}

/* The state of a run, changed and written anew, is resumed or refused. */
static void try_tensors(int run, const struct wisp_tensor_file *f, const char *what)
{
    static uint8_t b[FUZZ_ROOM];
    wisp_error err = { 0 };
    CHECK(wisp_tensor_file_write(fuzz_path("new"), f->tensors, f->n_tensors, f->meta, f->n_meta,
                                 NULL, &err) == WISP_OK,
          "%s", err.text);
    size_t n = fuzz_load("new", b, sizeof b - FUZZ_HEAD);
    memmove(b + FUZZ_HEAD, b, n);
    memset(b, 0, FUZZ_HEAD);
    b[0] = run ? SAMPLED : 0;
    wisp_status st = fuzz_one(b, FUZZ_HEAD + n, &err);
    CHECK(st == WISP_OK || st == WISP_EMODEL, "%s: %d %s", what, st, err.text);
}

static void open_state(struct wisp_tensor_file *f, int run)
{
    wisp_error err = { 0 };
    fuzz_save("old", states[run], state_bytes[run]);
    if (wisp_tensor_file_open(f, NULL, fuzz_path("old"), &err) != WISP_OK) fuzz_die("state", &err);
}

static void absurd_counters(void)
{
    static const char *const values[] = { "-1",
                                          "0",
                                          "7",
                                          "2147483647",
                                          "-2147483648",
                                          "4294967297",
                                          "18446744073709551615",
                                          "nan",
                                          "inf",
                                          "-0x1p+1000",
                                          "x" };
    const size_t n_values = sizeof values / sizeof *values;
    size_t k = 0;
    for (bool more = true; more; k++)
        for (size_t v = 0; v < 2 * n_values && more; v++) {
            struct wisp_tensor_file f;
            char line[400];
            open_state(&f, v >= n_values);
            more = with_counter(f.meta, f.n_meta, line, sizeof line, k, values[v % n_values]);
            if (more) try_tensors(v >= n_values, &f, line);
            wisp_tensor_file_close(&f);
        }
    CHECK(k > 8, "only %zu counters", k);
}

/* Rows and places that there are not, in what samplers keep. */
static void absurd_memory(void)
{
    static const int32_t values[] = { -2, 3, 65536, INT32_MAX, INT32_MIN };
    struct wisp_tensor_file f;
    size_t n = 0;
    open_state(&f, 1);
    for (size_t i = 0; i < f.n_tensors; i++) {
        struct wisp_tensor *t = &f.tensors[i];
        if (strncmp(t->name, "sampler.", 8) != 0 || t->dtype != WISP_I32) continue;
        const void *was = t->data;
        int32_t *changed = malloc(t->bytes);
        size_t each = t->bytes / 4 < 6 ? 1 : t->bytes / 4 / 6;
        for (size_t at = 0; at < t->bytes / 4; at += each)
            for (size_t v = 0; v < sizeof values / sizeof *values; v++, n++) {
                memcpy(changed, was, t->bytes);
                changed[at] = values[v];
                t->data = changed;
                try_tensors(1, &f, t->name);
            }
        t->data = was;
        free(changed);
    }
    wisp_tensor_file_close(&f);
    CHECK(n > 100, "only %zu changes", n);
}

static void fuzz_tests(void)
{
    TEST(FUZZ_NAME ": a state that was left alone is resumed; counters that cannot be are refused");
    wisp_error err;
    CHECK(fuzz_one(fuzz_seeds[0], fuzz_seed_bytes[0], &err) == WISP_OK, "%s", err.text);
    CHECK(fuzz_one(fuzz_seeds[2], fuzz_seed_bytes[2], &err) == WISP_OK, "%s", err.text);
    absurd_counters();
    TEST(FUZZ_NAME ": rows and places that there are not");
    absurd_memory();
}
#endif

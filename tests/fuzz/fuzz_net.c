/* Fuzzing the net language: a text, the layers that it says, these printed as a text again, which
 * must say the same layers.  What is accepted is planned, and small nets get memory and weights.
 *
 * Names that a repeat has made cannot be written outside of it: printed layers go without. */
#define FUZZ_NAME   "fuzz_net"
#define FUZZ_ERRORS WISP_EINVAL
#define FUZZ_WORDS                                                                                 \
    "input 8", ", ", "\n", "relu", "dense 4", "as a", "from a", "from rows", "add a",              \
        "concat a b", "2 x (", "3 x b (", ")", "# ", "width=", "sparse random 8",                  \
        "sparse radix 64", "inputs=3", "dropout 0.3", "clip 3", "output", "b.0.a", "1e3", "nan",   \
        "0x10", "1048576", "4096 x (", "sparse mask=a", "file=b", "bias=0.5"
#define FUZZ_MUTANTS 30000
#include "fuzz/rig.h"

#include "model/net.h"
#include "model/nets.h"

#define MARK "printed-"
enum { A_FILE = 1 }; /* how */
enum { ROOM = 1 << 16, SMALL = 1 << 14 };

static char printed[ROOM];
static size_t at;

__attribute__((format(printf, 1, 2))) static void put(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(printed + at, ROOM - at, fmt, ap);
    va_end(ap);
    at = at + (size_t)n < ROOM ? at + (size_t)n : ROOM - 1;
}

static void put_arg(const struct wisp_arg *a, double v, const char *file)
{
    size_t n;
    if (a->type == WISP_ARG_FILE) {
        put(" %s=%s", a->name, file);
        return;
    }
    if (a->type == WISP_ARG_SIZE) {
        put(" %s=%zux%zu", a->name, wisp_size_height(v), wisp_size_width(v));
        return;
    }
    if (a->type != WISP_ARG_WORD) {
        put(" %s=%.17g", a->name, v);
        return;
    }
    const char *word = wisp_arg_word(a, (size_t)v, &n);
    put(" %s=%.*s", a->name, (int)n, word);
}

/* As it can be written. */
static const char *own_name(const struct wisp_said *s)
{
    return strchr(s->name, '.') ? "" : s->name;
}

/* Every value gets a name, which names no layer. */
static void print_net(const struct wisp_said *said, int n)
{
    at = 0;
    put("as " MARK "0\n");
    for (int i = 0; i < n; i++) {
        const struct wisp_said *s = &said[i];
        if (s->from[0] != i) put("from " MARK "%d\n", s->from[0]);
        put("%s", s->kind->name);
        for (int k = 0; k < WISP_MAX_ARGS && s->given >> k; k++)
            if (s->given >> k & 1) put_arg(&s->kind->args[k], s->arg[k], s->file);
        for (int k = 1; k < s->n_from; k++) put(" " MARK "%d", s->from[k]);
        if (*own_name(s)) put(" as %s", own_name(s));
        if (!s->kind->head) put("\nas " MARK "%d\n", i + 1);
    }
}

static bool same(const struct wisp_said *a, const struct wisp_said *b)
{
    bool ok = a->kind == b->kind && a->given == b->given && a->n_from == b->n_from &&
              strcmp(a->file, b->file) == 0;
    for (int k = 0; ok && k < WISP_MAX_ARGS; k++) ok = a->arg[k] == b->arg[k];
    for (int k = 0; ok && k < a->n_from; k++) ok = a->from[k] == b->from[k];
    return ok;
}

static void read_again(const struct wisp_said *said, int n)
{
    struct wisp_said *again;
    int m;
    wisp_error err = { 0 };
    for (int i = 0; i < n; i++)
        if (strncmp(said[i].name, MARK, strlen(MARK)) == 0) return;
    print_net(said, n);
    if (at == ROOM - 1) return;
    wisp_status st = wisp_say_net(&again, &m, printed, "--net", wisp_layer_kind_at, &err);
    if (st == WISP_ENOMEM && fuzz_starved) return;
    if (st != WISP_OK) fuzz_die("what it prints is refused", &err);
    if (m != n) fuzz_die("what it prints has another length", &err);
    for (int i = 0; i < n; i++)
        if (!same(&said[i], &again[i]) || strcmp(own_name(&said[i]), again[i].name) != 0)
            fuzz_die("what it prints is another net", &err);
    wisp_free(again);
}

/* On one line, as a model keeps it: the same layers, with the same names. */
static void read_line(const struct wisp_said *said, int n, const char *text)
{
    static char line[2 * FUZZ_ROOM + 1];
    struct wisp_said *again;
    int m;
    wisp_error err = { 0 };
    wisp_net_line(line, text);
    if (strpbrk(line, "#\n")) fuzz_die("not one line", &err);
    wisp_status st = wisp_say_net(&again, &m, line, "--net", wisp_layer_kind_at, &err);
    if (st == WISP_ENOMEM && fuzz_starved) return;
    if (st != WISP_OK) fuzz_die("its line is refused", &err);
    for (int i = 0; i < n && m == n; i++)
        if (!same(&said[i], &again[i]) || strcmp(said[i].name, again[i].name) != 0)
            fuzz_die("its line is another net", &err);
    if (m != n) fuzz_die("its line has another length", &err);
    wisp_free(again);
}

/* Layers read what comes before them, and parameters have names of their own. */
static void check_net(const struct wisp_net *net, const wisp_error *err)
{
    for (int i = 0; i < net->n_layers; i++) {
        const struct wisp_layer *l = &net->layers[i];
        if (!l->kind->head == (i == net->n_layers - 1)) fuzz_die("a head in between", err);
        if (l->n_in > WISP_MAX_WIDTH || l->n_out > WISP_MAX_WIDTH) fuzz_die("too wide", err);
        for (int k = 0; k < l->n_from; k++)
            if (l->from[k] < 0 || l->from[k] > i) fuzz_die("it reads what is not there", err);
    }
    if (net->list.n > 200) return;
    for (size_t i = 0; i < net->list.n; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(net->list.p[i].name, net->list.p[k].name) == 0)
                fuzz_die("two parameters of one name", err);
}

static void plan_net(const char *text, wisp_error *err)
{
    const struct wisp_layer_sizes sizes = { .batch = 4, .active = 8, .training = true };
    struct wisp_net net;
    wisp_error why = { 0 };
    wisp_status st = wisp_net_plan(&net, text, 40, 8, &sizes, &why);
    if (st == WISP_OK) {
        check_net(&net, err);
        st = wisp_work_plan(&net, 3, &why);
        if (st != WISP_OK && !(st == WISP_ENOMEM && fuzz_starved))
            fuzz_die("the memory of a step", &why);
        const size_t floats = wisp_net_param_floats(&net) + wisp_net_state_floats(&net, ~0u) +
                              net.work.bytes / 4 + wisp_net_wire_ids(&net);
        if (st == WISP_OK && floats < SMALL && wisp_net_alloc_params(&net, &why) == WISP_OK &&
            wisp_net_alloc_state(&net, ~0u, &why) == WISP_OK &&
            wisp_work_alloc(&net, 3, &why) == WISP_OK)
            wisp_net_init(&net, 1, fuzz_three_threads.pool);
    } else if (st != WISP_EINVAL && !(st == WISP_ENOMEM && fuzz_starved)) {
        fuzz_die("planning ends otherwise", &why);
    }
    wisp_net_clear(&net);
}

static wisp_status fuzz_read(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    static char text[FUZZ_ROOM + 1];
    struct wisp_said *said;
    int m;
    if (n > FUZZ_ROOM) n = FUZZ_ROOM;
    if (n) memcpy(text, p, n);
    text[n] = 0;
    const char *where = how & A_FILE ? "my.net" : "--net";
    wisp_status st = wisp_say_net(&said, &m, text, where, wisp_layer_kind_at, err);
    if (st == WISP_EINVAL && (strncmp(err->text, where, strlen(where)) != 0 ||
                              strlen(err->text) >= 300 || (how & A_FILE && err->line == 0)))
        fuzz_die("an error without a place, or too long", err);
    if (!said != (st != WISP_OK) || !m != (st != WISP_OK)) fuzz_die("an error, and layers", err);
    if (st == WISP_OK) {
        read_again(said, m);
        read_line(said, m, text);
        plan_net(text, err);
    }
    wisp_free(said);
    return st;
}

static const struct fuzz_text_seed seeds[] = {
    SEED(0, "input 8, relu, dropout 0.3, dense 4"),
    SEED(0, "input width=8, relu,"),
    SEED(A_FILE, "# a net\ninput 8 # rows\n\nrelu\r\ndense 4\noutput\n"),
    SEED(0, "sparse radix 64, relu, sparse random 32 9, relu"),
    SEED(0, "sparse width=64 form=random inputs=5"),
    SEED(0, "input 8, bn, relu, bn momentum=0.5 eps=1e-3"),
    SEED(0, "input 8, sampled 16, clip 32, identity, flatten"),
    SEED(0, "input 8, relu, 3 x block (as x, dense 8 as fc, relu, dense 8, add x, relu), output"),
    SEED(0, "input 8 as left, relu as a, from rows, sparse random 8 3, relu, concat a, dense 4"),
    SEED(0, "input 8 as a, relu as b, from a, clip 2, add b a a, output as out"),
    SEED(0, "input 8, 2 x o (2 x i (relu as r), add i.0.r), add o.0.i.1.r o.1.i.0.r"),
    SEED(0, "input 8, 2 x (1 x i (relu as r), add i.0.r)"),
    SEED(0, "input 8, 3 x (3 x (3 x (relu)))"),
    SEED(0, "as rows0, input 8, from rows0, input 8, as b, add b"),
    SEED(0, "input 8, 4096 x (4096 x (4096 x (relu)))"),
    SEED(0, "input 1e400"),
    SEED(0, "input 0x10"),
    SEED(0, "input 8 9"),
    SEED(0, "input widht=8"),
    SEED(0, "input 8, from b"),
    SEED(0, "input 8, add"),
    SEED(0, "input 8, 2 x ("),
    SEED(0, "input 8, 2 x b (relu as r), 2 x b (relu as r)"),
    SEED(A_FILE, "input 8\n)"),
    SEED(0, "output, relu"),
    SEED(0, ""),
};

static size_t fuzz_seed(uint8_t *to, size_t i)
{
    if (i >= sizeof seeds / sizeof *seeds) return 0;
    return fuzz_put(to, seeds[i].how, seeds[i].text, seeds[i].n);
}

#ifndef WISP_LIBFUZZER
static void fuzz_tests(void)
{
    wisp_error err;
    struct wisp_said *said;
    int n;
    TEST(FUZZ_NAME ": a net as it is printed");
    CHECK(wisp_say_net(&said, &n, "input 8 as a, relu, 2 x (sparse random 8 2), add a", "--net",
                       wisp_layer_kind_at, &err) == WISP_OK,
          "%s", err.text);
    print_net(said, n);
    CHECK(strcmp(printed, "as printed-0\ninput width=8 as a\nas printed-1\nrelu\nas printed-2\n"
                          "sparse form=random width=8 inputs=2\nas printed-3\n"
                          "sparse form=random width=8 inputs=2\nas printed-4\n"
                          "add printed-1\nas printed-5\noutput") == 0,
          "%s", printed);
    wisp_free(said);
}
#endif

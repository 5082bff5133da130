/* Fuzzing options: files of them, values of single ones, lists, and the line of layers.
 *
 * What was accepted is within its range, and set again from its own text gives the same. */
#define FUZZ_NAME   "fuzz_config"
#define FUZZ_ERRORS WISP_EFORMAT, WISP_EINVAL
#define FUZZ_WORDS                                                                                 \
    "epochs = 3\n", "hidden=", "lr", "config", "# ", "seed", "nan", "inf", "0x10", "1e400", "-0",  \
        "1.5G", "yes", "auto", "fp32", "\xef\xbb\xbf", "\r\n", "input 8, relu, ",                  \
        "sparse radix 64", "dropout 0.3", "dense 4 2", "9007199254740993", "1,3,5", " = "
#define FUZZ_MUTANTS 20000
#include "fuzz/rig.h"

#include "config/options.h"
#include "model/net.h"

#include <math.h>

enum { FILE_OF = 0, VALUE = 1, LIST = 2, NET = 3, KIND = 3 }; /* how; its other bits: the option */

/* The value of a NUL-ended copy, as a command line would hand it over. */
static const char *text_of(const uint8_t *p, size_t n)
{
    static char s[FUZZ_ROOM];
    if (n >= sizeof s) n = sizeof s - 1;
    if (n) memcpy(s, p, n);
    s[n] = 0;
    return s;
}

static void check_option(const wisp_config *c, size_t i, const wisp_error *err)
{
    const wisp_option *o = wisp_option_row(i);
    const char *range = strrchr(o->range, '|') ? strrchr(o->range, '|') + 1 : o->range;
    const char *dots = strstr(range, "..");
    double v = wisp_opt_num(c, (enum wisp_opt)i);
    if (!isfinite(v)) fuzz_die("a number that is none", err);
    if (!strcmp(o->type, "size") && !(v >= 0 && v < 0x1p62)) fuzz_die("a size out of range", err);
    if ((!strcmp(o->type, "int") || !strcmp(o->type, "real")) && dots &&
        !(v >= strtod(range, NULL) && v <= strtod(dots + 2, NULL)))
        fuzz_die("a number out of range", err);
    if (!strcmp(o->type, "int") && v != floor(v)) fuzz_die("not a whole number", err);
}

/* Every option of c is in range and comes back from its own text. */
static void check_config(const wisp_config *c)
{
    wisp_config *again;
    wisp_error err = { 0 };
    if (wisp_config_create(&again, &err) != WISP_OK) return; /* no memory */
    for (size_t i = 0; i < N_OPTS; i++) {
        const wisp_option *o = wisp_option_row(i);
        check_option(c, i, &err);
        wisp_status st = wisp_config_set(again, o->key, wisp_config_get(c, o->key), &err);
        if (st == WISP_ENOMEM && fuzz_starved) continue;
        if (st != WISP_OK) fuzz_die("its own text is refused", &err);
        if (wisp_opt_num(again, (enum wisp_opt)i) != wisp_opt_num(c, (enum wisp_opt)i) ||
            strcmp(wisp_config_get(again, o->key), wisp_config_get(c, o->key)))
            fuzz_die("its own text is another value", &err);
    }
    wisp_config_free(again);
}

static wisp_status plan_net(const char *spec, wisp_error *err)
{
    struct wisp_net net;
    const struct wisp_layer_sizes sizes = { .batch = 4, .active = 8, .training = true };
    wisp_status st = wisp_net_plan(&net, spec, 5, 8, &sizes, err);
    if (st == WISP_OK && (net.n_layers < 1 || wisp_net_n_params(&net) == 0))
        fuzz_die("a net of nothing", err);
    wisp_net_clear(&net);
    return st;
}

static wisp_status fuzz_read(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    const wisp_option *o = wisp_option_row((how >> 2) % (N_OPTS + 1));
    double list[8];
    size_t n_list;
    wisp_config *c;
    if ((how & KIND) == NET) return plan_net(text_of(p, n), err);
    wisp_status st = wisp_config_create(&c, err);
    if (st != WISP_OK) return st;
    if ((how & KIND) == FILE_OF) {
        st = wisp_config_load(c, fuzz_save("config", p, n), err);
    } else if ((how & KIND) == VALUE) {
        st = wisp_config_set(c, o ? o->key : text_of(p, n), text_of(p, n), err);
    } else {
        st = wisp_config_set(c, "k", text_of(p, n), err);
        if (st == WISP_OK) st = wisp_opt_list(list, &n_list, 8, c, OPT_K, err);
        for (size_t i = 0; st == WISP_OK && i < n_list; i++)
            if (!isfinite(list[i])) fuzz_die("a list with no number", err);
    }
    check_config(c); /* also after a failure: what was set before stays */
    wisp_config_free(c);
    return st;
}

static const struct {
    unsigned how;
    const char *text;
} seeds[] = {
    { FILE_OF,
      "# a run\nepochs = 3\nhidden=64,32 # two\r\n\n  lr = 0.01\nresume = yes\nmemory = 2G" },
    { FILE_OF, "\xef\xbb\xbf"
               "seed = 5\n" },
    { FILE_OF, "loss = softmax\nrows = bf16\nnet = input 8, relu\nno-header = no\n" },
    { FILE_OF, "config = other\n" },
    { FILE_OF, "epochs\n" },
    { FILE_OF, "nothing = 1\n" },
    { FILE_OF, "epochs = many\n" },
    { FILE_OF, "epochs = -1\n" },
    { FILE_OF, "memory = 1Q\n" },
    { FILE_OF, "json = perhaps\n" },
    { FILE_OF, "rows = some\n" },
    { FILE_OF, "rows = 12\nmemory = 1.5kB\n" },
    { FILE_OF, "loss = l2\n" },
    { FILE_OF, "= 3\n" },
    { VALUE | OPT_MEMORY << 2, "512MiB" },
    { VALUE | OPT_SEED << 2, "12" },
    { VALUE | OPT_LOSS << 2, "bce" },
    { VALUE | OPT_LR << 2, "1e-3" },
    { VALUE | OPT_ROWS << 2, "fp32" },
    { VALUE | N_OPTS << 2, "unknown" },
    { LIST, "1,3,5" },
    { LIST, "1,,5" },
    { LIST, "1,2,3,4,5,6,7,8,9" },
    { LIST, "" },
    { NET, "input 8, relu, dropout 0.3, dense 4" },
    { NET, "sparse radix 64, relu" },
    { NET, "input 8, sampled 16" },
    { NET, "" },
    { NET, "relu 3" },
    { NET, "input 8 relu" },
};
enum { N_SEEDS = sizeof seeds / sizeof *seeds };

static size_t fuzz_seed(uint8_t *to, size_t i)
{
    static char long_line[5000] = "log = ";
    if (i < N_SEEDS) return fuzz_put(to, seeds[i].how, seeds[i].text, strlen(seeds[i].text));
    if (i == N_SEEDS) return fuzz_put(to, FILE_OF, "log = a\0b\nseed = 3\n", 19);
    if (i == N_SEEDS + 1) return fuzz_put(to, FILE_OF, "log = a\0b", 9);
    if (i > N_SEEDS + 2) return 0;
    memset(long_line + 6, 'x', 4990);
    return fuzz_put(to, FILE_OF, long_line, 4996);
}

#ifndef WISP_LIBFUZZER
static void fuzz_tests(void)
{
    wisp_error err;
    TEST(FUZZ_NAME ": no such file, a folder; beyond the table");
    wisp_config *c;
    if (wisp_config_create(&c, &err) != WISP_OK) return;
    CHECK(wisp_config_load(c, fuzz_path("nowhere"), &err) == WISP_EIO, "%s", err.text);
    CHECK(wisp_config_load(c, fuzz_folder, &err) == WISP_EIO, "%s", err.text);
    CHECK(!wisp_config_get(c, "nothing") && !wisp_option_row(N_OPTS), "beyond the table");
    wisp_config_free(c);
}
#endif

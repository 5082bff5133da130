/* Options: names of tables in their ranges and in help, defaults, values and what is refused. */
#include "base/pool.h"
#include "config/options.h"
#include "test.h"

#include <stdatomic.h>
#include <string.h>

static atomic_int n_incomplete;

static void look(void *arg, size_t task, int thread)
{
    (void)arg, (void)task, (void)thread;
    const wisp_option *o;
    for (size_t i = 0; (o = wisp_option_row(i)); i++)
        if (!o->key || strchr(o->range, '@') || strchr(o->help, '@')) n_incomplete++;
}

/* The first calls of all: several threads at once. */
static void test_first(void)
{
    TEST("options: whoever asks first, names of tables are filled in");
    struct wisp_pool *pool;
    CHECK(wisp_pool_create(&pool, 4, NULL) == WISP_OK, "no pool");
    wisp_parallel_for(pool, 64, look, NULL);
    wisp_pool_free(pool);
    CHECK(n_incomplete == 0, "%d rows were not", n_incomplete);
}

static bool has(const char *range, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = range; (p = strstr(p, word)); p += n)
        if ((p == range || p[-1] == '|') && (p[n] == 0 || p[n] == '|')) return true;
    return false;
}

static size_t n_words(const char *range)
{
    size_t n = 1;
    for (; *range; range++) n += *range == '|';
    return n;
}

static void test_tables(void)
{
    TEST("options: every row of a table is a value of its option, and nothing else is");
    static const struct {
        enum wisp_opt o;
        const char *table;
        size_t more; /* words that are no rows: auto, and rows of another table */
    } of[] = {
        { OPT_NET, "nets", 0 },
        { OPT_LOSS, "losses", 4 },
        { OPT_LOSS, "margins", 3 },
        { OPT_OPTIMIZER, "optimizers", 1 },
        { OPT_FORMAT, "formats", 1 },
        { OPT_HASH, "hashes", 1 },
        { OPT_PRECISION, "precisions", 1 },
        { OPT_VALUES, "values", 1 },
        { OPT_SAMPLING, "samplers", 1 },
        { OPT_TOKENS, "tokens", 0 },
        { OPT_SHAPE, "shapes", 0 },
    };
    wisp_config *c;
    wisp_error err;
    CHECK(wisp_config_create(&c, &err) == WISP_OK, "%s", err.text);
    for (size_t t = 0; t < sizeof of / sizeof *of; t++) {
        const wisp_option *o = wisp_option_row(of[t].o);
        const char *name, *what;
        size_t n = 0;
        for (; wisp_table_row(of[t].table, n, &name, &what); n++) {
            CHECK(has(o->range, name), "--%s: no %s in %s", o->key, name, o->range);
            CHECK(wisp_config_set(c, o->key, name, &err) == WISP_OK, "%s", err.text);
            CHECK(strcmp(wisp_config_get(c, o->key), name) == 0, "--%s %s", o->key, name);
        }
        CHECK(n > 1 && n_words(o->range) == n + of[t].more, "--%s: %zu rows, but %s", o->key, n,
              o->range);
        if (strcmp(o->type, "choice") != 0) continue; /* of texts others are judges */
        CHECK(wisp_config_set(c, o->key, "nonsense", &err) == WISP_EINVAL, "--%s", o->key);
        CHECK(strstr(err.text, o->range) && err.place_bytes == strlen(o->key) + 4, "%zu of '%s'",
              (size_t)err.place_bytes, err.text);
    }
    wisp_config_free(c);
}

static void test_help(void)
{
    TEST("options: help has the rows of a table with what they are");
    const wisp_option *o = wisp_option_row(OPT_LOSS);
    const char *name, *what;
    for (size_t i = 0; wisp_table_row("losses", i, &name, &what); i++) {
        char row[200];
        snprintf(row, sizeof row, "%s: %s; ", name, what);
        CHECK(strstr(o->help, row), "no '%s' in '%s'", row, o->help);
    }
}

static void test_every_table(void)
{
    TEST("tables: each is listed, has rows, and ends");
    const char *table, *about, *name, *what;
    size_t n = 0;
    for (; wisp_table_row("tables", n, &table, &about); n++) {
        char of[40];
        size_t rows = 0;
        snprintf(of, sizeof of, "%s", table);
        CHECK(*about, "%s: nothing is said of it", of);
        while (wisp_table_row(of, rows, &name, &what)) {
            CHECK(*name && *what, "%s: row %zu", of, rows);
            rows++;
        }
        CHECK(rows > 0 && !wisp_table_row(of, rows + 1, &name, &what) &&
                  !wisp_table_row(of, SIZE_MAX, &name, &what),
              "%s: %zu rows", of, rows);
    }
    CHECK(n > 10, "%zu tables", n);
    CHECK(!wisp_table_row("nonsense", 0, &name, &what) &&
              !wisp_table_row("layers/nonsense", 0, &name, &what) &&
              !wisp_table_row("layer", 0, &name, &what) && !wisp_table_row("", 0, &name, &what),
          "a table that there is not");
}

static void test_defaults(void)
{
    TEST("options: a default is a value");
    wisp_config *c;
    wisp_error err;
    CHECK(wisp_config_create(&c, &err) == WISP_OK, "%s", err.text);
    const wisp_option *o;
    for (size_t i = 0; (o = wisp_option_row(i)); i++)
        CHECK(wisp_config_set(c, o->key, o->fallback, &err) == WISP_OK, "%s", err.text);
    wisp_config_free(c);
}

static void test_commands(void)
{
    TEST("options: a command means its own, and its defaults are values or nothing");
    static const char *const commands[] = { "train", "eval",      "predict", "convert", "synth",
                                            "bench", "challenge", "inspect", "info" };
    wisp_error err;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        wisp_config *c;
        const wisp_option *o;
        CHECK(wisp_config_create(&c, &err) == WISP_OK &&
                  wisp_config_command(c, commands[i], &err) == WISP_OK,
              "%s", err.text);
        for (size_t k = 0; (o = wisp_option_of(commands[i], k)); k++) {
            CHECK(strcmp(wisp_config_get(c, o->key), o->fallback) == 0, "%s --%s", commands[i],
                  o->key);
            CHECK(!*o->fallback || wisp_config_set(c, o->key, o->fallback, &err) == WISP_OK,
                  "%s: %s", commands[i], err.text);
        }
        wisp_config_free(c);
    }
    static const struct {
        const char *command, *key, *good, *bad, *words;
    } rows[] = {
        { "synth", "rows", "1000", "bf16", "--rows: 'bf16' is not a whole number" },
        { "synth", "rows", "1", "0", "--rows: 0 is not in 1..4294967295" },
        { "synth", "labels", "30", "names.txt", "--labels: 'names.txt' is not a whole number" },
        { "train", "rows", "bf16", "1000", "--rows: '1000' is not one of fp32|bf16" },
        { "inspect", "labels", "1", "names.txt", "--labels: 'names.txt' is not yes or no" },
        { "predict", "k", "10000", "10001", "--k: 10001 is not in 1..10000" },
        { "predict", "k", "7", "1,3", "--k: '1,3' is not a whole number" },
        { "challenge", "seed", "7", "-1", "--seed: -1 is not in 0..9007199254740992" },
        { "bench", "test-rows", "0", "-2", "--test-rows: -2 is not in -1..4294967295" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        wisp_config *c;
        CHECK(wisp_config_create(&c, &err) == WISP_OK &&
                  wisp_config_command(c, rows[i].command, &err) == WISP_OK &&
                  wisp_config_set(c, rows[i].key, rows[i].good, &err) == WISP_OK,
              "%s --%s: %s", rows[i].command, rows[i].key, err.text);
        CHECK(wisp_config_set(c, rows[i].key, rows[i].bad, &err) == WISP_EINVAL &&
                  strcmp(err.text, rows[i].words) == 0,
              "%s --%s: %s", rows[i].command, rows[i].key, err.text);
        CHECK(strcmp(wisp_config_get(c, rows[i].key), rows[i].good) == 0, "the good one stays");
        CHECK(wisp_config_command(c, "train", &err) == WISP_EINVAL && strstr(err.text, rows[i].key),
              "a command after options: %s", err.text);
        wisp_config_free(c);
    }
    wisp_config *c;
    CHECK(wisp_config_create(&c, &err) == WISP_OK &&
              wisp_config_command(c, "nonsense", &err) == WISP_EINVAL &&
              wisp_config_command(c, "", &err) == WISP_EINVAL,
          "a command that there is not");
    wisp_config_free(c);
}

int main(void)
{
    test_first();
    test_tables();
    test_help();
    test_every_table();
    test_defaults();
    test_commands();
    return test_end();
}

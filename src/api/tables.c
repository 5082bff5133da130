/* The tables of this build, row by row: what 'wisp info' prints. */
#include "conv/conv.h"
#include "base/bounds.h"
#include "base/text.h"
#include "cuda/cuda.h"
#include "data/text.h"
#include "hash/family.h"
#include "kernels/kernels.h"
#include "layer/product.h"
#include "model/groups.h"
#include "model/model.h"
#include "model/nets.h"
#include "model/optimizer.h"
#include "spdnn/dag.h"

#include <string.h>

/* A card is listed where there is one. */
static int device_row(size_t i, const char **name, const char **what)
{
    static _Thread_local char text[200];
    const struct wisp_cuda *cuda;
    struct wisp_cuda_card c;
    if (i > 1) return 0;
    if (i == 0) {
        *name = "cpu";
        *what = "threads and vector instructions";
        return 1;
    }
    if (wisp_cuda_open(&cuda, NULL) != WISP_OK || cuda->card(&c, NULL) != WISP_OK) return 0;
    wisp_print(text, sizeof text, "%s, sm_%d%d, %.0f GiB", c.name, c.major, c.minor,
               wisp_gib(c.total_bytes));
    *name = "cuda";
    *what = text;
    return 1;
}

/* Arguments of a layer in their order, then the values that it reads besides the one before it. */
static int argument_row(const struct wisp_layer_kind *k, size_t i, const char **name,
                        const char **what)
{
    static _Thread_local char text[300], key[40];
    char range[WISP_ARG_RANGE];
    size_t n = 0;
    while (k->args && k->args[n].name) n++;
    if (i > n || (i == n && k->most_from < 2)) return 0;
    *name = key;
    *what = text;
    if (i == n) {
        wisp_print(key, sizeof key, "NAME ...");
        wisp_print(text, sizeof text, "names of %d to %d further values", k->least_from - 1,
                   k->most_from - 1);
        return 1;
    }
    const struct wisp_arg *a = &k->args[i];
    const bool given = a->fallback && *a->fallback;
    wisp_arg_range(range, a);
    wisp_print(key, sizeof key, "%s%s", a->name, a->by_name ? "=" : "");
    wisp_print(text, sizeof text, "%s (%s%s%s)", a->what, range, given ? "; else " : "",
               given ? a->fallback : "");
    return 1;
}

/* A net that wisp brings along, and its layers. */
static int net_row(size_t i, const char **name, const char **what)
{
    static _Thread_local char text[8192];
    size_t n = 0;
    while (wisp_presets[n].name) n++;
    if (i >= n || 2 * strlen(wisp_presets[i].text) >= sizeof text) return 0;
    wisp_net_line(text, wisp_presets[i].text);
    *name = wisp_presets[i].name;
    *what = text;
    return 1;
}

/* A shape of synthetic data, and its sizes. */
static int shape_row(size_t i, const char **name, const char **what)
{
    static _Thread_local char text[100];
    const struct wisp_synth_known *k = wisp_synth_at(i);
    if (!k) return 0;
    wisp_print(text, sizeof text, "%zu rows, %zu features, %zu labels", k->shape.n_rows,
               k->shape.n_features, k->shape.n_labels);
    *name = k->name;
    *what = text;
    return 1;
}

/* ---- the tables ---- */

#define TABLE(of, at)                                                                              \
    static int of##_row(size_t i, const char **name, const char **what)                            \
    {                                                                                              \
        if (!(at)) return 0;                                                                       \
        *name = (at)->name;                                                                        \
        *what = (at)->what;                                                                        \
        return 1;                                                                                  \
    }
TABLE(format, wisp_format_at(i))
TABLE(tokens, wisp_tokens_at(i))
TABLE(values, wisp_values_at(i))
TABLE(layer, wisp_layer_kind_at(i))
TABLE(loss, wisp_loss_at(i))
TABLE(margin, wisp_linear_loss_at(i))
TABLE(optimizer, wisp_optimizer_at(i))
TABLE(group, wisp_groups_row(i))
TABLE(precision, wisp_precision_at(i))
TABLE(finder, wisp_finder_at(i))
TABLE(family, wisp_hash_family_at(i))
TABLE(conv, wisp_conv_any(i))
TABLE(function, wisp_node_function_at(i))

static int kernels_row(size_t i, const char **name, const char **what)
{
    if (!wisp_kernels_isa(i, NULL)) return 0;
    *name = wisp_kernels_isa(i, what);
    return 1;
}

/* ---- what a card has ---- */

static bool card_has_layer(const struct wisp_cuda *c, size_t i)
{
    return c->has_kind(wisp_layer_kind_at(i)->name);
}
static bool card_has_loss(const struct wisp_cuda *c, size_t i)
{
    return c->losses >> wisp_loss_at(i)->id & 1;
}
static bool card_has_optimizer(const struct wisp_cuda *c, size_t i)
{
    return c->optimizers >> wisp_optimizer_at(i)->id & 1;
}
static bool card_has_precision(const struct wisp_cuda *c, size_t i)
{
    return c->precisions >> wisp_precision_at(i)->id & 1;
}
static bool card_has_finder(const struct wisp_cuda *c, size_t i)
{
    (void)c;
    return wisp_finder_at(i)->device != NULL;
}
static bool card_has_family(const struct wisp_cuda *c, size_t i)
{
    return c->has_family(wisp_hash_family_at(i)->name);
}

static const struct {
    const char *table;
    int (*row)(size_t i, const char **name, const char **what);
    bool (*has)(const struct wisp_cuda *c, size_t i);
} on_card[] = {
    { "layers", layer_row, card_has_layer },
    { "losses", loss_row, card_has_loss },
    { "optimizers", optimizer_row, card_has_optimizer },
    { "samplers", finder_row, card_has_finder },
    { "hashes", family_row, card_has_family },
    { "precisions", precision_row, card_has_precision },
};
enum { N_ON_CARD = sizeof on_card / sizeof *on_card, CARD_LIBRARIES = 2, CARD_TEXT = 1000 };

/* Appends the names of those rows of a table that the card has, or has not. */
static void list_rows(char text[CARD_TEXT], size_t table, const struct wisp_cuda *c, bool has,
                      const char *before)
{
    const char *name, *what;
    for (size_t i = 0; on_card[table].row(i, &name, &what); i++) {
        if (on_card[table].has(c, i) != has) continue;
        size_t at = strlen(text);
        wisp_print(text + at, CARD_TEXT - at, "%s%s", before, name);
        before = ", ";
    }
}

/* Where there is no card, the only row says why. */
static int card_row(size_t i, const char **name, const char **what)
{
    static _Thread_local char text[CARD_TEXT];
    const struct wisp_cuda *c;
    wisp_error err;
    if (i >= N_ON_CARD + CARD_LIBRARIES) return 0;
    *what = text;
    text[0] = 0;
    if (wisp_cuda_open(&c, &err) != WISP_OK) {
        *name = "none";
        wisp_print(text, sizeof text, "%s", err.text);
        return i == 0;
    }
    if (i == N_ON_CARD) {
        *name = "convolutions";
        wisp_print(text, sizeof text, "%s; own kernels", c->convolver());
        return 1;
    }
    if (i > N_ON_CARD) {
        bool there;
        *name = "ranks";
        wisp_print(text, sizeof text, "%s; messages of hosts", c->adder(&there));
        return 1;
    }
    *name = on_card[i].table;
    list_rows(text, i, c, true, "");
    list_rows(text, i, c, false, "; not ");
    return 1;
}

static const struct table {
    const char *name, *what;
    int (*row)(size_t i, const char **name, const char **what);
} tables[] = {
    { "formats", "data files (--format)", format_row },
    { "tokens", "what a text is cut into (--tokens)", tokens_row },
    { "values", "how values reach the net (--values)", values_row },
    { "layers", "kinds of layers, and their arguments (--net)", layer_row },
    { "nets", "nets that wisp brings along (--net)", net_row },
    { "losses", "what training makes small (--loss)", loss_row },
    { "margins", "the same for linear models (--net linear --loss)", margin_row },
    { "optimizers", "how weights move (--optimizer)", optimizer_row },
    { "groups", "what a penalty makes 0 (--groups)", group_row },
    { "samplers", "which output rows a step computes (--sampling)", finder_row },
    { "hashes", "hash families (--hash)", family_row },
    { "precisions", "what the output layer and convolutions multiply in (--precision)",
      precision_row },
    { "functions", "functions of the nodes of a graph (--function)", function_row },
    { "shapes", "shapes of synthetic rows (--shape)", shape_row },
    { "kernels", "instruction sets", kernels_row },
    { "convolutions", "ways to compute them; the fastest is measured", conv_row },
    { "devices", "where it works on this machine (--device)", device_row },
    { "card", "what a card has (--device cuda)", card_row },
};
enum { N_TABLES = sizeof tables / sizeof *tables };

static const struct table *table_at(size_t i)
{
    return i < N_TABLES ? &tables[i] : NULL;
}
TABLE(table, table_at(i))

int wisp_table_row(const char *table, size_t i, const char **name, const char **what)
{
    if (strcmp(table, "tables") == 0) return table_row(i, name, what);
    if (strncmp(table, "layers/", 7) == 0 && wisp_layer_kind_find(table + 7))
        return argument_row(wisp_layer_kind_find(table + 7), i, name, what);
    for (size_t t = 0; t < N_TABLES; t++)
        if (strcmp(table, tables[t].name) == 0) return tables[t].row(i, name, what);
    return 0;
}

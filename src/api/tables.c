/* The tables of this build, row by row: what 'wisp info' prints. */
#include "base/bounds.h"
#include "base/text.h"
#include "cuda/cuda.h"
#include "data/text.h"
#include "hash/family.h"
#include "kernels/kernels.h"
#include "layer/product.h"
#include "model/model.h"
#include "model/nets.h"
#include "model/optimizer.h"

#include <string.h>

#define ROW(at)                                                                                    \
    do {                                                                                           \
        if (!(at)) return 0;                                                                       \
        *name = (at)->name;                                                                        \
        *what = (at)->what;                                                                        \
        return 1;                                                                                  \
    } while (0)

/* A card is listed where there is one. */
static int device_row(size_t i, const char **name, const char **what)
{
    static _Thread_local char text[200];
    const struct wisp_cuda *cuda;
    struct wisp_cuda_card c;
    *name = i ? "cuda" : "cpu";
    *what = i ? text : "threads and vector instructions";
    if (i == 0) return 1;
    if (wisp_cuda_open(&cuda, NULL) != WISP_OK || cuda->card(&c, NULL) != WISP_OK) return 0;
    wisp_print(text, sizeof text, "%s, sm_%d%d, %.0f GiB", c.name, c.major, c.minor,
               wisp_gib(c.total_bytes));
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
    static _Thread_local char text[1000];
    size_t n = 0;
    while (wisp_presets[n].name) n++;
    if (i >= n || 2 * strlen(wisp_presets[i].text) >= sizeof text) return 0;
    wisp_net_line(text, wisp_presets[i].text);
    *name = wisp_presets[i].name;
    *what = text;
    return 1;
}

int wisp_table_row(const char *table, size_t i, const char **name, const char **what)
{
    if (strcmp(table, "formats") == 0) ROW(wisp_format_at(i));
    if (strcmp(table, "layers") == 0) ROW(wisp_layer_kind_at(i));
    if (strncmp(table, "layers/", 7) == 0 && wisp_layer_kind_find(table + 7))
        return argument_row(wisp_layer_kind_find(table + 7), i, name, what);
    if (strcmp(table, "nets") == 0) return net_row(i, name, what);
    if (strcmp(table, "losses") == 0) ROW(wisp_loss_at(i));
    if (strcmp(table, "optimizers") == 0) ROW(wisp_optimizer_at(i));
    if (strcmp(table, "precisions") == 0) ROW(wisp_precision_at(i));
    if (strcmp(table, "samplers") == 0) ROW(wisp_finder_at(i));
    if (strcmp(table, "hashes") == 0) ROW(wisp_hash_family_at(i));
    if (strcmp(table, "kernels") == 0 && wisp_kernels_isa(i, NULL)) {
        *name = wisp_kernels_isa(i, what);
        return 1;
    }
    if (strcmp(table, "devices") == 0 && i < 2) return device_row(i, name, what);
    return 0;
}

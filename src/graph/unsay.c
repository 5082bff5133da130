/* The net language the other way round: from layers to a text.
 *
 * Every layer stands by itself, repeats written out, arguments that were given by their names; values
 * that are read out of turn and have no name get one, "v3" of layer 3.  wisp_say_net reads the
 * text as the same layers with the same names, and so with the same parameters. */
#include "base/mem.h"
#include "base/text.h"
#include "graph/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct writer {
    const struct wisp_graph *g;
    char *text;
    size_t n, cap;
    bool full;                     /* out of memory */
    char (*name)[WISP_LAYER_NAME]; /* (n_layers) of the value that each layer gives; "": none */
};

__attribute__((format(printf, 2, 3))) static void put(struct writer *w, const char *fmt, ...)
{
    char part[WISP_FILE_NAME + 100];
    va_list ap;
    va_start(ap, fmt);
    const int n = wisp_vprint(part, sizeof part, fmt, ap);
    va_end(ap);
    for (int i = 0; i <= n && !w->full; i++) { /* its end too, over the last one */
        w->full = !wisp_grow(&w->text, w->n + (size_t)i, &w->cap, 1);
        if (!w->full) w->text[w->n + (size_t)i] = part[i];
    }
    w->n += (size_t)n;
}

/* As short as it can be: 0.1 is not 0.10000000000000001. */
static void put_number(struct writer *w, double v)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        wisp_print(text, sizeof text, "%.*g", digits, v);
        if (wisp_strtod(text, NULL) == v) break;
    }
    put(w, "%s", text);
}

static void put_arg(struct writer *w, const struct wisp_layer *l, int i)
{
    const struct wisp_arg *a = &l->kind->args[i];
    size_t n;
    const char *word;
    put(w, " %s=", a->name);
    switch (a->type) {
    case WISP_ARG_WORD:
        word = wisp_arg_word(a, (size_t)l->arg[i], &n);
        put(w, "%.*s", (int)n, word ? word : "");
        break;
    case WISP_ARG_FILE:
        put(w, "%s", l->file);
        break;
    case WISP_ARG_SIZE:
        put(w, "%zux%zu", wisp_size_height(l->arg[i]), wisp_size_width(l->arg[i]));
        break;
    case WISP_ARG_INT:
        put(w, "%.0f", l->arg[i]);
        break;
    case WISP_ARG_REAL:
        put_number(w, l->arg[i]);
    }
}

static bool taken(const struct wisp_graph *g, const char *name)
{
    for (int i = 0; i < g->n_layers; i++)
        if (strcmp(g->layers[i].name, name) == 0) return true;
    return false;
}

/* Values that are read out of turn need names. */
static void name_values(struct writer *w)
{
    const struct wisp_graph *g = w->g;
    for (int i = 0; i < g->n_layers; i++)
        for (int k = 0; k < g->layers[i].n_from; k++) {
            const int maker = g->layers[i].from[k] - 1;
            if (maker < 0 || (k == 0 && maker == i - 1) || w->name[maker][0]) continue;
            if (g->layers[maker].name[0])
                memcpy(w->name[maker], g->layers[maker].name, WISP_LAYER_NAME);
            else snprintf(w->name[maker], WISP_LAYER_NAME, "v%d", maker);
            while (!g->layers[maker].name[0] && taken(g, w->name[maker]))
                strncat(w->name[maker], "_", WISP_LAYER_NAME - 1 - strlen(w->name[maker]));
        }
}

static void put_layer(struct writer *w, int i)
{
    const struct wisp_layer *l = &w->g->layers[i];
    const int before = l->from[0] - 1;
    if (i) put(w, ", ");
    if (before < 0 && i) put(w, "from rows, ");
    else if (before >= 0 && before != i - 1) put(w, "from %s, ", w->name[before]);
    put(w, "%s", l->kind->name);
    for (int a = 0; l->kind->args && l->kind->args[a].name; a++)
        if (l->given & 1u << a) put_arg(w, l, a);
    for (int k = 1; k < l->n_from; k++) put(w, " %s", w->name[l->from[k] - 1]);
    if (l->name[0]) put(w, " as %s", l->name);
    else if (w->name[i][0]) put(w, ", as %s", w->name[i]);
}

wisp_status wisp_graph_text(char **out, const struct wisp_graph *g, wisp_error *err)
{
    struct writer w = { .g = g };
    w.name = wisp_zalloc((size_t)g->n_layers, sizeof *w.name);
    w.full = !w.name;
    if (w.name) name_values(&w);
    for (int i = 0; i < g->n_layers && !w.full; i++) put_layer(&w, i);
    wisp_free(w.name);
    if (w.full) wisp_free(w.text);
    *out = w.full ? NULL : w.text;
    return w.full ? wisp_fail_mem(err, w.cap, "the text of a net") : WISP_OK;
}

/* The table of layer kinds on the card, and what it has no form for. */
#include "cuda/kind.cuh"
#include "cuda/trainer.cuh"

#include <stdio.h>
#include <string.h>

/* ---- limits ---- */

bool wisp_card_width(char what[WISP_DWORDS], const struct wisp_graph *, const struct wisp_layer *l)
{
    if (l->n_out % WISP_CUDA_UNITS == 0) return false;
    snprintf(what, WISP_DWORDS, "layer %d, '%s' with a width of %zu, which is no multiple of %d,",
             l->number, l->kind->name, l->n_out, WISP_CUDA_UNITS);
    return true;
}

bool wisp_card_edges(char what[WISP_DWORDS], const struct wisp_layer *l, size_t n)
{
    if (n <= UINT32_MAX) return false;
    snprintf(what, WISP_DWORDS, "layer %d, '%s' with %zu connections, more than %u,", l->number,
             l->kind->name, n, UINT32_MAX);
    return true;
}

/* Rows of the output layer are hashed as wide as what the head reads. */
static bool lacks_hash(char what[WISP_DWORDS], const struct wisp_graph *g,
                       const struct wisp_finders *f)
{
    const struct wisp_layer *head = wisp_graph_head(g), *l = &g->layers[head->from[0] - 1];
    const size_t most = wisp_hash_most_width();
    if (!f || !f->hash.n_tables || head->n_in <= most) return false;
    snprintf(what, WISP_DWORDS,
             "layer %d, '%s' with a width of %zu, where --sampling lsh hashes at most %zu on this "
             "card,",
             l->number, l->kind->name, head->n_in, most);
    return true;
}

/* The head: its steps are out.cu's, as the trainer calls them. */
static struct wisp_card_kind output_row()
{
    struct wisp_card_kind k = {};
    k.name = "output", k.forms = WISP_FLAT;
    return k;
}
static const struct wisp_card_kind output = output_row();

/* ---- the table ---- */

#define ROW(name) &wisp_card_##name,
static const struct wisp_card_kind *const kinds[] = { &output, WISP_CARD_KINDS(ROW) };

const struct wisp_card_kind *wisp_card_kind_find(const char *name)
{
    for (const struct wisp_card_kind *k : kinds)
        if (strcmp(k->name, name) == 0) return k;
    return NULL;
}

/* Images, too, which are units on the host. */
static enum wisp_form form_of(const struct wisp_graph *g, int value)
{
    if (value == 0) return WISP_ROWS;
    return g->acts[value].shape.rank == 3 ? WISP_PLANES : WISP_FLAT;
}

const struct wisp_card_kind *wisp_card_kind_of(const struct wisp_graph *g,
                                               const struct wisp_layer *l)
{
    const enum wisp_form form = form_of(g, l->from[0]);
    for (const struct wisp_card_kind *k : kinds)
        if (strcmp(k->name, l->kind->name) == 0 && k->forms & form) return k;
    return NULL;
}

/* Of a layer. */
static bool lacks(char what[WISP_DWORDS], const struct wisp_graph *g, const struct wisp_layer *l)
{
    const struct wisp_card_kind *k = wisp_card_kind_of(g, l);
    if (!k)
        snprintf(what, WISP_DWORDS, "a layer '%s'%s", l->kind->name,
                 wisp_card_kind_find(l->kind->name) ? " of channels with height and width" : "");
    return !k || (k->lacks && k->lacks(what, g, l));
}

wisp_status wisp_dnet_check(const struct wisp_graph *g, const struct wisp_finders *f,
                            wisp_error *err)
{
    char what[WISP_DWORDS] = "";
    bool found = g->n_layers - 1 > WISP_DLAYERS;
    if (found) snprintf(what, sizeof what, "a net of more than %d layers", WISP_DLAYERS);
    for (int i = 0; i < g->n_layers && !found; i++) found = lacks(what, g, &g->layers[i]);
    if (!found) found = lacks_hash(what, g, f);
    return found ? wisp_dfail(err, WISP_ENOTSUP, WISP_CUDA_LACKS, what) : WISP_OK;
}

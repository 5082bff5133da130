/* The table of layer kinds on the card, and what it has no form for. */
#include "cuda/kind.cuh"
#include "cuda/trainer.cuh"

#include <stdio.h>
#include <string.h>

enum { MOST_WIDTH = 4096, MOST_LAST = 1024 };

/* ---- limits ---- */

const char *wisp_card_width(const struct wisp_layer *l)
{
    return l->n_out % 4 || l->n_out > MOST_WIDTH
               ? "a hidden width that is no multiple of 4, or more than 4096,"
               : NULL;
}

static const char *last_width(const struct wisp_layer *l)
{
    return l->n_in > MOST_LAST ? "a last hidden width of more than 1024" : NULL;
}

/* The head: its steps are out.cu's, as the trainer calls them. */
static struct wisp_card_kind output_row()
{
    struct wisp_card_kind k = {};
    k.name = "output", k.lacks = last_width;
    return k;
}
static const struct wisp_card_kind output = output_row();

/* ---- the table ---- */

static const struct wisp_card_kind *const kinds[] = {
    &wisp_card_input,   &wisp_card_dense,    &wisp_card_sparse,  &wisp_card_relu,
    &wisp_card_dropout, &wisp_card_identity, &wisp_card_flatten, &wisp_card_clip,
    &wisp_card_add,     &wisp_card_concat,   &wisp_card_bn,      &output,
};

const struct wisp_card_kind *wisp_card_kind_find(const char *name)
{
    for (const struct wisp_card_kind *k : kinds)
        if (strcmp(k->name, name) == 0) return k;
    return NULL;
}

wisp_status wisp_dnet_check(const struct wisp_graph *g, wisp_error *err)
{
    const char *lacks = g->n_layers - 1 > WISP_DLAYERS ? "a net of more than 255 layers" : NULL;
    char what[64];
    for (int i = 0; i < g->n_layers && !lacks; i++) {
        const struct wisp_layer *l = &g->layers[i];
        const struct wisp_card_kind *k = wisp_card_kind_find(l->kind->name);
        snprintf(what, sizeof what, "a layer '%s'", l->kind->name);
        lacks = k ? k->lacks ? k->lacks(l) : NULL : what;
    }
    return lacks ? wisp_dfail(err, WISP_ENOTSUP, WISP_CUDA_LACKS, lacks) : WISP_OK;
}

/* Layers of planes that are done together on CPUs: a ReLU by the layer before it, whose result it would
 * read and write once more, and its way back by that layer, or by the one reader of its result; a batch
 * norm by the weights of the convolution before it, where both stay as they are (prediction). */
#include "model/net.h"

/* Whose work, and that of whose way back, is layer i? */
static void join(struct wisp_net *net, int i, int maker)
{
    struct wisp_layer *l = &net->layers[i], *by = &net->layers[maker];
    by->parts |= l->kind->part;
    if (l->kind->part == WISP_FUSE_NORM) by->norm = l;
    l->done = true;
    l->undone = by->kind->undoes & l->kind->part;
}

/* The only reader of a value, if it has one. */
static struct wisp_layer *reader_of(struct wisp_net *net, int value)
{
    struct wisp_layer *l = &net->layers[net->acts[value].last_reader];
    return net->acts[value].n_readers == 1 && l->n_from == 1 ? l : NULL;
}

/* What others may do of layer i. */
static unsigned part_of(const struct wisp_net *net, int i)
{
    const unsigned part = net->layers[i].kind->part;
    const bool still = net->sizes.still && !net->sizes.training;
    if (part == WISP_FUSE_NORM && !still) return 0;
    return part && wisp_work_in_place(net, i) ? part : 0;
}

void wisp_net_fuse(struct wisp_net *net)
{
    unsigned is[WISP_MAX_LAYERS], takes[WISP_MAX_LAYERS];
    int into[WISP_MAX_LAYERS];
    const struct wisp_graph g = wisp_net_graph(net);
    for (int i = 0; i < net->n_layers; i++) {
        const struct wisp_layer_kind *kind = net->layers[i].kind;
        const bool planes = !kind->head && net->acts[i + 1].form == WISP_PLANES;
        is[i] = planes ? part_of(net, i) : 0;
        takes[i] = planes ? kind->does : 0;
    }
    wisp_graph_fuse(into, &g, is, takes);
    for (int i = 0; i < net->n_layers; i++) {
        if (into[i] == i) continue;
        join(net, i, into[i]);
        struct wisp_layer *l = &net->layers[i], *reader = reader_of(net, i + 1);
        if (l->undone || l->kind->part != WISP_FUSE_RELU || !reader) continue;
        l->undone = reader->masked = reader->kind->masks && reader->kind->masks(reader);
    }
}

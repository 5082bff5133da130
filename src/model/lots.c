/* The first layers of a net, a lot of samples at a time: which layers, and how many samples.
 *
 *   forward   for each lot: the first layers; their last value goes where the whole batch's lies
 *             the layers above, all samples at once
 *   back      the layers above
 *             for each lot: the first layers forward once more, and back, from its part of the
 *             gradient; with the last lot their rows move, by the sums over all lots (step.c)
 *
 * So values between these layers are those of one lot, and numbers are the same up to the rounding of
 * sums over samples.  Layers that can be among the first look at each sample by itself
 * (WISP_BY_SAMPLE): no batch norm, no draws, which are numbered by a sample's place in the batch. */
#include "graph/lots.h"
#include "model/net.h"

struct search {
    struct wisp_net *net;
    int threads;
};

/* Can the first layers be apart from the others?  Of what they give those read the last value only, which
 * has a place of its own. */
static bool can_end(void *arg, int first)
{
    const struct wisp_net *net = ((const struct search *)arg)->net;
    for (int i = 0; i < net->n_layers; i++) {
        const struct wisp_layer *l = &net->layers[i];
        const bool reads_rows = l->from[0] == 0, image = l->kind->uses & WISP_IMAGES;
        if (i < first && (!(l->kind->uses & WISP_BY_SAMPLE) || (reads_rows && !image)))
            return false;
        for (int k = 0; k < l->n_from && i >= first; k++)
            if (l->from[k] < first) return false;
    }
    const struct wisp_layer *last = &net->layers[first - 1];
    return net->acts[first].learns && net->acts[first].n_readers > 0 && !last->done &&
           !wisp_work_in_place(net, first - 1);
}

static wisp_status place(void *arg, struct wisp_lots_choice *c, wisp_error *err)
{
    const struct search *s = arg;
    struct wisp_work *w = &s->net->work;
    w->lots.first = c->first, w->lots.samples = c->samples;
    wisp_status st = wisp_work_place(s->net, s->threads, err);
    c->bytes = w->bytes, c->us = w->again_us;
    return st;
}

wisp_status wisp_work_choose_lots(struct wisp_net *net, int threads, wisp_error *err)
{
    struct search s = { net, threads };
    const struct wisp_lots_search search = { .n_layers = net->n_layers,
                                             .batch = net->sizes.batch,
                                             .limit = net->sizes.memory,
                                             .can_end = can_end,
                                             .place = place,
                                             .arg = &s };
    const struct wisp_lots_choice now = { 0, 0, net->work.bytes, net->work.again_us };
    return wisp_lots_choose(&search, now, err);
}

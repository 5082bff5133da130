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
#include "base/bounds.h"
#include "model/net.h"

/* Can the first layers be apart from the others?  Of what they give those read the last value only, which
 * has a place of its own. */
static bool can_end(const struct wisp_net *net, int first)
{
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

struct choice {
    int first;
    size_t samples, bytes;
    double us;
};

/* The cheapest that keeps to the limit, or else the smallest. */
static bool is_better(const struct choice *a, const struct choice *b, size_t limit)
{
    const bool fits = a->bytes <= limit, fitted = b->bytes <= limit;
    return fits ? !fitted || a->us < b->us : !fitted && a->bytes < b->bytes;
}

static wisp_status place(struct wisp_net *net, int first, size_t samples, int threads,
                         wisp_error *err)
{
    net->work.lots.first = first, net->work.lots.samples = samples;
    return wisp_work_place(net, threads, err);
}

wisp_status wisp_work_choose_lots(struct wisp_net *net, int threads, wisp_error *err)
{
    const size_t batch = net->sizes.batch;
    struct choice best = { 0, 0, net->work.bytes, net->work.again_us };
    wisp_status st = WISP_OK;
    for (size_t samples = wisp_parts(batch, 2), last = batch; samples < last && st == WISP_OK;
         last = samples, samples = wisp_parts(samples, 2))
        for (int first = 1; first < net->n_layers && st == WISP_OK; first++) {
            if (!can_end(net, first)) continue;
            st = place(net, first, samples, threads, err);
            const struct choice c = { first, samples, net->work.bytes, net->work.again_us };
            if (st == WISP_OK && is_better(&c, &best, net->sizes.memory)) best = c;
        }
    return st == WISP_OK ? place(net, best.first, best.samples, threads, err) : st;
}

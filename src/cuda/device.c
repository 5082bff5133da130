/* Opening the part that needs a card. */
#include "base/error.h"
#include "base/part.h"
#include "cuda/cuda.h"

static const char FILE_NAME[] = "wisp-cuda.so";

/* place -1: whichever this thread works on. */
static wisp_status open_part(const struct wisp_cuda **out, int place, wisp_error *err)
{
    char why[300];
    *out = NULL;
    const struct wisp_cuda *t =
        wisp_part_table(FILE_NAME, "wisp_cuda_table", WISP_CUDA_VERSION, false, why, sizeof why);
    if (!t)
        return wisp_fail(err, WISP_ENOTSUP,
                         "--device cuda: %s: %s; it is built by 'make' where nvcc is installed",
                         FILE_NAME, why);
    if (t->graph_bytes != sizeof(struct wisp_graph) ||
        t->layer_bytes != sizeof(struct wisp_layer) || t->act_bytes != sizeof(struct wisp_act) ||
        t->param_bytes != sizeof(struct wisp_param))
        return wisp_fail(err, WISP_ENOTSUP,
                         "--device cuda: %s: its nets are not those of this build; build both "
                         "together",
                         FILE_NAME);
    struct wisp_cuda_card card;
    wisp_status st = place >= 0 ? t->choose(place, err) : WISP_OK;
    if (st == WISP_OK) st = t->card(&card, err);
    if (st == WISP_OK) *out = t;
    return st;
}

wisp_status wisp_cuda_open(const struct wisp_cuda **out, wisp_error *err)
{
    return open_part(out, -1, err);
}

wisp_status wisp_cuda_open_at(const struct wisp_cuda **out, int place, wisp_error *err)
{
    return open_part(out, place, err);
}

/* A loaded model dealt out to several ranks: each keeps the rows of its features and labels in memory
 * of its own, and leaves the file. */
#include "base/mem.h"
#include "kernels/codes.h"
#include "model/known.h"
#include "model/model.h"
#include "model/kind.h"
#include "model/parts.h"

#include <string.h>

enum { ALIGN = 64 };

/* Takes this rank's rows of an array into the block; block NULL: only counts.  Returns where they lie. */
static void *take(unsigned char *block, size_t *at, const struct wisp_param *p, const void *all,
                  size_t row_bytes)
{
    if (!all) return NULL;
    const struct wisp_parts parts = { NULL, p->share, p->total_rows, row_bytes };
    void *to = block ? block + *at : NULL;
    if (to) wisp_parts_pick(&parts, to, all);
    *at += (p->rows * row_bytes + ALIGN - 1) / ALIGN * ALIGN;
    return to;
}

static size_t take_all(struct wisp_net *net, unsigned char *block)
{
    size_t at = 0;
    for (size_t i = 0; i < net->list.n; i++) {
        struct wisp_param *p = &net->list.p[i];
        if (wisp_share_all(p->share)) continue;
        struct wisp_param own = *p;
        own.w = take(block, &at, p, p->w, p->cols * sizeof *p->w);
        own.b16 = take(block, &at, p, p->b16, p->cols * sizeof *p->b16);
        own.i8 = take(block, &at, p, p->i8, p->cols);
        own.codes =
            take(block, &at, p, p->codes, p->codes ? wisp_codes_bytes(p->bits, p->cols) : 0);
        own.scale = take(block, &at, p, p->scale, sizeof *p->scale);
        if (block) *p = own;
    }
    return at;
}

wisp_status wisp_model_deal(struct wisp_model *m, const struct wisp_comm *c, wisp_error *err)
{
    struct wisp_net net;
    wisp_status st = wisp_model_need_net(m, "several ranks", err);
    if (st != WISP_OK) return st;
    const struct wisp_net_known like = wisp_net_known(&m->net);
    struct wisp_layer_sizes sizes = m->net.sizes;
    sizes.share = wisp_comm_deal(c);
    sizes.known = &like.known;
    st = wisp_net_plan_text(&net, m->spec, "net", m->net.n_features, m->net.n_labels, &sizes, err);
    if (st != WISP_OK) return st;
    wisp_net_lend(&net, &m->net);
    const size_t bytes = take_all(&net, NULL);
    unsigned char *block = wisp_alloc(bytes, 1);
    if (!block) {
        wisp_net_clear(&net);
        return wisp_fail_mem(err, bytes, "this rank's rows of the model");
    }
    take_all(&net, block);
    net.params = (float *)block;
    wisp_net_clear(&m->net);
    m->net = net;
    m->comm = c;
    wisp_map_forget(&m->file.map, m->file.map.p, m->file.map.bytes);
    return WISP_OK;
}

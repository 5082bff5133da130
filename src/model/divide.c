/* Gradients of several ranks that divide a batch.
 *
 * Layers hand each row's gradient to an update (layer.h).  Here that update does not move the row but
 * keeps the gradient, in the order in which the way back makes them, so that whatever is made can be
 * sent while the layers below are at work:
 *
 *     block   | output: weight, bias, flags | the layer below: ... | ... | first layer |
 *             |<------------- bucket ------------->|<---- bucket ---->|
 *
 * A flag per row says that somebody had a gradient for it: rows that the batch does not touch do not
 * move, as on one rank.  When all sums are there every rank moves its copy of the weights by them, and
 * all copies stay the same, bit for bit.  Rows are cleared as they move, so that the next step begins
 * with zeros. */
#include "model/divide.h"
#include "base/bounds.h"
#include "base/mem.h"

#include <string.h>

enum {
    BUCKET = 64 * 1024, /* floats that are worth a message */
    ROWS = 64,          /* of a parameter in a task */
    APART = 4           /* samples that a rank takes at once */
};

struct wisp_divided {
    struct wisp_sums sums; /* first: what steps see */
    struct wisp_update update;
    const struct wisp_update *moves;
    struct wisp_net *net;
    float *block;
    size_t floats;
    size_t *place; /* (parameters) where gradients begin; behind them are the flags of their rows */
    size_t *end;   /* (layers) where what is made once a layer is done ends */
    size_t sent;   /* floats whose sums have begun */
};

/* ---- which samples ---- */

void wisp_divided_share(size_t *before, size_t *share, const struct wisp_comm *ranks, size_t n)
{
    size_t first, some;
    wisp_comm_share(&first, &some, ranks, wisp_parts(n, APART));
    *before = first * APART < n ? first * APART : n;
    *share = (first + some) * APART < n ? some * APART : n - *before;
}

size_t wisp_divided_most(const struct wisp_comm *ranks, size_t n)
{
    const size_t most = wisp_parts(wisp_parts(n, APART), (size_t)ranks->size) * APART;
    return most < n ? most : n;
}

/* ---- gradients ---- */

/* Places of all trained parameters, the last layer's first; returns how many floats they take. */
static size_t lay_out(size_t *place, size_t *end, const struct wisp_net *net)
{
    size_t at = 0;
    for (int layer = net->n_layers - 1; layer >= 0; layer--) {
        for (size_t i = 0; i < net->list.n; i++) {
            const struct wisp_param *p = &net->list.p[i];
            if (p->role != WISP_TRAINED || p->layer != layer) continue;
            if (place) place[i] = at;
            at += wisp_param_n(p) + p->rows;
        }
        if (end) end[layer] = at;
    }
    return at;
}

size_t wisp_divided_bytes(const struct wisp_net *net)
{
    return lay_out(NULL, NULL, net) * sizeof(float);
}

static float *flag_of(const struct wisp_divided *d, const struct wisp_param *p, size_t row)
{
    return d->block + d->place[p - d->net->list.p] + wisp_param_n(p) + row;
}

static float *gradient_of(const struct wisp_divided *d, const struct wisp_param *p, size_t row,
                          size_t *n)
{
    return d->block + d->place[p - d->net->list.p] + wisp_param_row(p, row, n);
}

static void keep_row(const struct wisp_update *u, struct wisp_param *p, size_t row, const float *g)
{
    const struct wisp_divided *d =
        (const struct wisp_divided *)((const char *)u - offsetof(struct wisp_divided, update));
    size_t n;
    float *to = gradient_of(d, p, row, &n);
    memcpy(to, g, n * sizeof *to);
    *flag_of(d, p, row) = 1;
}

static wisp_status made(struct wisp_sums *t, int layer, wisp_error *err)
{
    struct wisp_divided *d = (struct wisp_divided *)t;
    const size_t n = d->end[layer] - d->sent;
    wisp_status st = t->ranks->join_go_on(err);
    if (st != WISP_OK || n == 0 || (n < BUCKET && layer > 0)) return st;
    st = wisp_comm_begin_sum(t->ranks, d->block + d->sent, n, err);
    d->sent = d->end[layer];
    return st;
}

struct moving {
    const struct wisp_divided *d;
    struct wisp_param *p;
};

static void move_rows(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct moving *m = arg;
    const size_t first = task * ROWS;
    for (size_t row = first; row < m->p->rows && row < first + ROWS; row++) {
        size_t n;
        float *flag = flag_of(m->d, m->p, row), *g = gradient_of(m->d, m->p, row, &n);
        if (*flag == 0) continue;
        m->d->moves->row(m->d->moves, m->p, row, g);
        memset(g, 0, n * sizeof *g);
        *flag = 0;
    }
}

wisp_status wisp_divided_step(struct wisp_divided *d, struct wisp_step *s, wisp_error *err)
{
    d->moves = s->update;
    d->sent = 0;
    s->update = &d->update;
    s->sums = &d->sums;
    wisp_status st = wisp_net_step(d->net, s, err);
    if (st == WISP_OK) st = d->sums.ranks->join_finish(err);
    s->update = d->moves;
    for (size_t i = 0; i < d->net->list.n && st == WISP_OK; i++) {
        struct moving m = { d, &d->net->list.p[i] };
        if (m.p->role == WISP_TRAINED)
            wisp_parallel_for(s->ctx->pool, wisp_parts(m.p->rows, ROWS), move_rows, &m);
    }
    return st;
}

/* ---- life ---- */

wisp_status wisp_divided_make(struct wisp_divided **out, struct wisp_net *net,
                              const struct wisp_comm *ranks, wisp_error *err)
{
    struct wisp_divided *d = *out = wisp_zalloc(1, sizeof *d);
    if (!d) return wisp_fail_mem(err, sizeof *d, "sums of gradients");
    d->sums = (struct wisp_sums){ ranks, made };
    d->update.row = keep_row;
    d->net = net;
    d->place = wisp_alloc(net->list.n, sizeof *d->place);
    d->end = wisp_alloc((size_t)net->n_layers, sizeof *d->end);
    if (d->place && d->end) d->floats = lay_out(d->place, d->end, net);
    d->block = wisp_zalloc(d->floats, sizeof *d->block);
    if (d->place && d->end && d->block) return WISP_OK;
    return wisp_fail_mem(err, wisp_divided_bytes(net), "sums of gradients");
}

void wisp_divided_free(struct wisp_divided *d)
{
    if (!d) return;
    wisp_free(d->place);
    wisp_free(d->end);
    wisp_free(d->block);
    wisp_free(d);
}

/* Networks: from a line of text to layers with memory, and the step through them. */
#include "model/net.h"
#include "base/bounds.h"
#include "base/text.h"
#include "model/optimizer.h"
#include "layer/image.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- planning ---- */

struct planner {
    struct wisp_net *net;
    const char *text, *where;
    const struct wisp_said *said;
    wisp_error *err;
};

/* "'input' or 'sparse'": kinds that take values of this form. */
static const char *takers(char out[200], enum wisp_form form)
{
    const struct wisp_layer_kind *k;
    size_t at = 0;
    out[0] = 0;
    for (size_t i = 0; (k = wisp_layer_kind_at(i)) && at < 150; i++)
        if (k->takes & (unsigned)form)
            at += (size_t)snprintf(out + at, 200 - at, "%s'%s'", at ? " or " : "", k->name);
    return out;
}

static wisp_status check_forms(const struct planner *p, const struct wisp_layer *l,
                               const struct wisp_act *const *in, size_t at)
{
    char list[200], shape[WISP_SHAPE_TEXT];
    for (int i = 0; i < l->n_from; i++) {
        if (in[i]->form != WISP_ROWS && in[i]->shape.rank == 3 && l->kind->takes & WISP_FLAT &&
            !(l->kind->takes & WISP_PLANES))
            return wisp_say_fail(p->err, p->where, p->text, at,
                                 "'%s' takes units, found %s; 'flatten' makes units of them",
                                 l->kind->name, wisp_shape_text(shape, in[i]->shape));
        if (l->kind->takes & (unsigned)in[i]->form) continue;
        if (in[i]->form != WISP_ROWS)
            return wisp_say_fail(p->err, p->where, p->text, at,
                                 "'%s' reads the rows of the data: it must come first, or behind "
                                 "'from rows'; use 'dense' for later layers",
                                 l->kind->name);
        if (l->n_from > 1)
            return wisp_say_fail(p->err, p->where, p->text, at,
                                 "'%s' joins what layers give, but number %d of its values is the "
                                 "rows of the data",
                                 l->kind->name, i + 1);
        return wisp_say_fail(p->err, p->where, p->text, at,
                             "the first layer must be %s, found '%s'", takers(list, WISP_ROWS),
                             l->kind->name);
    }
    return WISP_OK;
}

/* Layers of the same kind before it, and of the same first word if it has one; a layer that could
 * have one and has none is like no other. */
static int turn_of(const struct wisp_net *net, const struct wisp_layer *l)
{
    const bool word = l->kind->args && l->kind->args[0].type == WISP_ARG_WORD;
    int turn = 0;
    for (int k = 0; k < net->n_layers; k++)
        turn += net->layers[k].kind == l->kind &&
                (!word || (net->layers[k].given & 1 && net->layers[k].arg[0] == l->arg[0]));
    return turn;
}

static wisp_status plan_layer(const struct planner *p, int i)
{
    struct wisp_net *net = p->net;
    const struct wisp_said *said = &p->said[i];
    struct wisp_layer *l = &net->layers[i];
    const struct wisp_act *in[WISP_MAX_FROM];
    struct wisp_act *out = said->kind->head ? NULL : &net->acts[i + 1];
    const bool of_rows = said->kind->of_rows && said->from[0] == 0;
    *l = (struct wisp_layer){ .kind = of_rows ? said->kind->of_rows : said->kind,
                              .number = i,
                              .n_from = said->n_from,
                              .given = said->given,
                              .list = &net->list,
                              .trains = net->sizes.training };
    memcpy(l->arg, said->arg, sizeof l->arg);
    memcpy(l->file, said->file, sizeof l->file);
    memcpy(l->from, said->from, sizeof l->from);
    memcpy(l->name, said->name, sizeof l->name);
    for (int k = 0; k < l->n_from; k++) {
        in[k] = &net->acts[l->from[k]];
        net->acts[l->from[k]].n_readers++;
        net->acts[l->from[k]].last_reader = i;
    }
    l->n_in = in[0]->width;
    l->turn = turn_of(net, l);
    wisp_error why = { 0 };
    wisp_status st = check_forms(p, l, in, said->at);
    if (st == WISP_OK && (st = l->kind->plan(l, in, out, &net->sizes, &why)) != WISP_OK)
        return st == WISP_ENOMEM || st == WISP_EMODEL /* a file's fault, not the text's */
                   ? wisp_fail(p->err, st, "%s", why.text)
                   : wisp_say_fail(p->err, p->where, p->text, said->at, "%s", why.text);
    if (st != WISP_OK) return st;
    if (out) {
        if (!out->shape.rank) out->shape = wisp_flat(l->n_out);
        if (!out->form) out->form = WISP_FLAT;
        out->width = wisp_units(out->shape);
        out->floats = out->form == WISP_PLANES
                          ? wisp_planes_floats(out->shape.dim[0], out->shape.dim[1],
                                               out->shape.dim[2], WISP_PLANE_BLOCK)
                          : out->width;
        for (int k = 0; k < l->n_from; k++) out->learns |= in[k]->learns;
        out->learns |= net->sizes.traces && l->kind->uses & WISP_IMAGES;
        for (int k = 0; k < l->n_params; k++) out->learns |= l->params[k].role == WISP_TRAINED;
    }
    net->n_layers++;
    return WISP_OK;
}

/* What nobody reads would never get a gradient. */
static wisp_status check_read(const struct planner *p)
{
    for (int i = 0; i + 1 < p->net->n_layers; i++)
        if (p->net->acts[i + 1].n_readers == 0)
            return wisp_say_fail(p->err, p->where, p->text, p->said[i].at,
                                 "nobody reads what this '%s' gives; join it to what follows, or "
                                 "leave it out",
                                 p->said[i].kind->name);
    return WISP_OK;
}

/* The list is whole and moves no more. */
static wisp_status settle(struct wisp_net *net, wisp_error *err)
{
    struct wisp_param *p = net->list.p;
    if (net->list.full) return wisp_fail_mem(err, net->list.n * sizeof *p, "the parameters");
    for (int i = 0; i < net->n_layers; i++) {
        net->layers[i].params = p;
        net->layers[i].list = NULL;
        p += net->layers[i].n_params;
    }
    return WISP_OK;
}

wisp_status wisp_net_plan(struct wisp_net *net, const char *spec, size_t n_features,
                          size_t n_labels, const struct wisp_layer_sizes *sizes, wisp_error *err)
{
    return wisp_net_plan_text(net, spec, "--net", n_features, n_labels, sizes, err);
}

wisp_status wisp_net_plan_text(struct wisp_net *net, const char *text, const char *where,
                               size_t n_features, size_t n_labels,
                               const struct wisp_layer_sizes *sizes, wisp_error *err)
{
    *net = (struct wisp_net){ .n_features = n_features, .n_labels = n_labels, .sizes = *sizes };
    net->sizes.labels = n_labels;
    if (n_features == 0 || n_features > INT32_MAX || n_labels == 0 || n_labels > INT32_MAX)
        return wisp_fail(err, WISP_EINVAL,
                         "a network needs 1 to 2^31-1 features and labels; the data has %zu "
                         "features and %zu labels",
                         n_features, n_labels);
    struct wisp_said *said = NULL;
    int n = 0;
    wisp_status st = wisp_say_net(&said, &n, text, where, wisp_layer_kind_at, err);
    struct planner p = { net, text, where, said, err };
    if (st == WISP_OK) {
        net->layers = wisp_zalloc((size_t)n, sizeof *net->layers);
        net->acts = wisp_zalloc((size_t)n, sizeof *net->acts);
        if (!net->layers || !net->acts)
            st = wisp_fail_mem(err, (size_t)n * sizeof *net->layers, "the layers");
        else
            net->acts[0] = (struct wisp_act){ .shape = sizes->image.rank ? sizes->image
                                                                         : wisp_flat(n_features),
                                              .form = WISP_ROWS,
                                              .width = n_features,
                                              .floats = n_features };
    }
    for (int i = 0; st == WISP_OK && i < n; i++) st = plan_layer(&p, i);
    if (st == WISP_OK) st = check_read(&p);
    wisp_free(said);
    net->sizes.known = NULL; /* as long as the caller has it */
    if (st == WISP_OK) st = settle(net, err);
    if (st == WISP_OK && net->sizes.training && net->sizes.more_zeros > 0) wisp_net_l1(net);
    if (st == WISP_OK) wisp_net_fuse(net);
    if (st != WISP_OK) wisp_net_clear(net);
    return st;
}

void wisp_net_clear(struct wisp_net *net)
{
    for (int i = 0; i < net->n_layers; i++)
        if (net->layers[i].kind->clear) net->layers[i].kind->clear(&net->layers[i]);
    wisp_params_clear(&net->list);
    wisp_free(net->layers);
    wisp_free(net->acts);
    wisp_free(net->params);
    wisp_free(net->wires);
    wisp_free(net->state);
    wisp_work_clear(&net->work);
    wisp_counts_clear(&net->counts);
    *net = (struct wisp_net){ 0 };
}

void wisp_net_lend(struct wisp_net *to, const struct wisp_net *from)
{
    for (size_t i = 0; i < to->list.n; i++) {
        struct wisp_param *p = &to->list.p[i];
        const struct wisp_param *q = &from->list.p[i];
        p->w = q->w, p->b16 = q->b16, p->ids = q->ids;
        p->i8 = q->i8, p->scale = q->scale, p->start = q->start;
        p->codes = q->codes, p->value = q->value, p->bits = q->bits;
    }
}

/* ---- images ---- */

const struct wisp_layer *wisp_net_image(const struct wisp_net *net)
{
    for (int i = 0; i < net->n_layers; i++)
        if (net->layers[i].kind->uses & WISP_IMAGES) return &net->layers[i];
    return NULL;
}

struct wisp_image wisp_net_images(const struct wisp_net *net)
{
    if (!wisp_net_image(net))
        return (struct wisp_image){ 0 }; /* other kinds of models have no values */
    const size_t *dim = net->acts[0].shape.dim;
    return (struct wisp_image){ (uint32_t)dim[0], (uint32_t)dim[1], (uint32_t)dim[2] };
}

bool wisp_net_resizes(const struct wisp_net *net)
{
    const struct wisp_layer *l = wisp_net_image(net);
    return l && l->arg[WISP_IMAGE_SIZE] > 0;
}

struct wisp_shape wisp_image_shape(struct wisp_image i)
{
    if (!i.channels) return (struct wisp_shape){ 0 };
    return (struct wisp_shape){ 3, { i.channels, i.height, i.width } };
}

/* ---- sizes ---- */

size_t wisp_net_n_params(const struct wisp_net *net)
{
    size_t n = 0;
    for (size_t i = 0; i < net->list.n; i++)
        if (net->list.p[i].role == WISP_TRAINED)
            n += wisp_share_all(net->list.p[i].share)
                     ? wisp_param_n(&net->list.p[i])
                     : net->list.p[i].total_rows * net->list.p[i].cols;
    return n;
}

double wisp_net_layer_flops(const struct wisp_net *net, int layer, bool training)
{
    const struct wisp_layer *l = &net->layers[layer];
    const double passes = !training ? 1 : net->acts[l->from[0]].learns ? 3 : 2;
    return l->kind->flops ? passes * l->kind->flops(l) : 0;
}

double wisp_net_flops(const struct wisp_net *net, bool training)
{
    double n = 0;
    for (int i = 0; i < net->n_layers; i++) n += wisp_net_layer_flops(net, i, training);
    return n;
}

static size_t floats_of(const struct wisp_param *p)
{
    size_t n = p->role == WISP_FIXED || p->role == WISP_STARTS ? 0 : wisp_param_n(p);
    return wisp_up(p->half ? (n + 1) / 2 : n, 16);
}

static bool half_moments(const struct wisp_param *p, unsigned slots)
{
    return slots & WISP_SLOT_HALF && p->rows > 1 && p->cols > 1;
}

size_t wisp_net_param_floats(const struct wisp_net *net)
{
    size_t n = 0;
    for (size_t i = 0; i < net->list.n; i++) n += floats_of(&net->list.p[i]);
    return n;
}

/* The other blocks are cut by the functions that plan them: without a block they only count. */

static void lay_wires(const struct wisp_net *net, struct wisp_cut *c)
{
    for (size_t i = 0; i < net->list.n; i++) {
        struct wisp_param *p = &net->list.p[i];
        bool fixed = p->role == WISP_FIXED, starts = p->role == WISP_STARTS;
        int32_t *ids = fixed ? wisp_cut_take(c, wisp_param_n(p), sizeof *ids) : NULL;
        int64_t *start = starts ? wisp_cut_take(c, wisp_param_n(p), sizeof *start) : NULL;
        if (c->block && fixed) p->ids = ids;
        if (c->block && starts) p->start = start;
    }
}

static void lay_state(const struct wisp_net *net, unsigned slots, struct wisp_cut *c)
{
    for (size_t i = 0; i < net->list.n; i++) {
        struct wisp_param *q = &net->list.p[i];
        if (q->role != WISP_TRAINED) continue;
        bool half = half_moments(q, slots);
        size_t n = wisp_param_n(q), size = half ? sizeof *q->m16 : sizeof *q->m;
        void *m = slots & WISP_SLOT_M ? wisp_cut_take(c, n, size) : NULL;
        void *v = slots & WISP_SLOT_V ? wisp_cut_take(c, n, size) : NULL;
        float *g2 = slots & WISP_SLOT_G2 ? wisp_cut_take(c, q->rows, sizeof *g2) : NULL;
        uint32_t *count = slots & WISP_SLOT_COUNT ? wisp_cut_take(c, q->rows, sizeof *count) : NULL;
        if (!c->block) continue;
        if (half) q->m16 = m, q->v16 = v;
        else q->m = m, q->v = v;
        q->g2 = g2;
        q->count = count;
    }
}

size_t wisp_net_wire_ids(const struct wisp_net *net)
{
    struct wisp_cut plan = { 0 };
    lay_wires(net, &plan);
    return plan.at / sizeof(int32_t);
}

size_t wisp_net_state_floats(const struct wisp_net *net, unsigned slots)
{
    struct wisp_cut plan = { 0 };
    lay_state(net, slots, &plan);
    return plan.at / sizeof(float);
}

/* ---- memory ---- */

wisp_status wisp_net_alloc_params(struct wisp_net *net, wisp_error *err)
{
    size_t n = wisp_net_param_floats(net);
    float *p = net->params = wisp_zalloc(n, sizeof *p);
    if (!p) return wisp_fail_mem(err, n * sizeof *p, "the parameters");
    size_t n_ids = wisp_net_wire_ids(net);
    if (n_ids && !(net->wires = wisp_zalloc(n_ids, sizeof *net->wires)))
        return wisp_fail_mem(err, n_ids * sizeof *net->wires, "the connections");
    struct wisp_cut c = wisp_cut_of(net->wires, n_ids * sizeof *net->wires, WISP_CUT_KEEP);
    if (n_ids) lay_wires(net, &c);
    wisp_params_join(&net->list);
    for (size_t i = 0; i < net->list.n; i++) {
        struct wisp_param *q = &net->list.p[i];
        if (q->role == WISP_FIXED || q->role == WISP_STARTS) continue;
        if (q->half) q->b16 = (uint16_t *)p;
        else q->w = p;
        p += floats_of(q);
    }
    return WISP_OK;
}

wisp_status wisp_net_alloc_state(struct wisp_net *net, unsigned slots, wisp_error *err)
{
    size_t n = wisp_net_state_floats(net, slots);
    net->state = wisp_zalloc(n, sizeof *net->state);
    if (!net->state) return wisp_fail_mem(err, n * sizeof *net->state, "the optimizer's state");
    struct wisp_cut c = wisp_cut_of(net->state, n * sizeof *net->state, WISP_CUT_KEEP);
    lay_state(net, slots, &c);
    return WISP_OK;
}

void wisp_net_decay(struct wisp_net *net, float share)
{
    for (size_t i = 0; i < net->list.n; i++) {
        struct wisp_param *p = &net->list.p[i];
        p->decay = wisp_param_is_matrix(p) ? share : 0;
    }
}

void wisp_net_init(struct wisp_net *net, uint64_t seed, struct wisp_pool *pool)
{
    for (int i = 0; i < net->n_layers; i++)
        if (net->layers[i].kind->init) net->layers[i].kind->init(&net->layers[i], seed, pool);
}

/* By their bits, in runs of a fixed length, which become vector instructions at -O2: the loader
 * looks at every weight of a model. */
enum { RUN32 = 16, RUN16 = 32 };

bool wisp_finite(const void *floats, size_t n)
{
    const char *x = floats; /* may lie at any address */
    int32_t odd[RUN32] = { 0 }, bits[RUN32];
    int any = 0;
    size_t i = 0;
    for (; i + RUN32 <= n; i += RUN32) {
        memcpy(bits, x + i * sizeof *bits, sizeof bits);
        for (int k = 0; k < RUN32; k++) odd[k] |= (bits[k] & INT32_MAX) > 0x7f7fffff;
    }
    for (; i < n; i++) {
        memcpy(bits, x + i * sizeof *bits, sizeof *bits);
        any |= (bits[0] & INT32_MAX) > 0x7f7fffff;
    }
    for (int k = 0; k < RUN32; k++) any |= odd[k];
    return !any;
}

bool wisp_finite16(const void *halves, size_t n)
{
    const char *x = halves;
    int16_t odd[RUN16] = { 0 }, bits[RUN16];
    int any = 0;
    size_t i = 0;
    for (; i + RUN16 <= n; i += RUN16) {
        memcpy(bits, x + i * sizeof *bits, sizeof bits);
        for (int k = 0; k < RUN16; k++) odd[k] |= (bits[k] & INT16_MAX) > 0x7f7f;
    }
    for (; i < n; i++) {
        memcpy(bits, x + i * sizeof *bits, sizeof *bits);
        any |= (bits[0] & INT16_MAX) > 0x7f7f;
    }
    for (int k = 0; k < RUN16; k++) any |= odd[k];
    return !any;
}

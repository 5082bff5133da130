/* Networks: from a line of text to layers with memory, and the step through them. */
#include "model/net.h"
#include "base/text.h"
#include "model/optimizer.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LAYERS = 256, MAX_WIDTH = 1 << 20 };

static size_t round16(size_t floats) /* 64 bytes */
{
    return (floats + 15) & ~(size_t)15;
}

/* The word after a name, for kinds that have a choice of them; *p moves behind it. */
static wisp_status parse_word(struct wisp_layer *l, const char **p, wisp_error *err)
{
    const char *const *words = l->kind->words, *s = *p + strspn(*p, " ");
    size_t n = strcspn(s, " ,");
    for (int i = 0; words[i]; i++)
        if (strlen(words[i]) == n && strncmp(words[i], s, n) == 0) {
            l->word = i;
            *p = s + n;
            return WISP_OK;
        }
    char list[80] = "";
    for (size_t i = 0, at = 0; words[i] && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? " or " : "", words[i]);
    return wisp_fail(err, WISP_EINVAL,
                     "--net: '%s' needs %s and a width, as in '%s %s 1024'; found '%.*s'",
                     l->kind->name, list, l->kind->name, words[0], n < 20 ? (int)n : 20, s);
}

/* One "name word number number" between commas, of which a kind may have none but the name; *p
 * moves behind it. */
static wisp_status parse_layer(struct wisp_layer *l, const char **p, const char *spec,
                               wisp_error *err)
{
    char name[32];
    size_t n = 0;
    const char *s = *p;
    while (*s == ' ') s++;
    while (*s && *s != ' ' && *s != ',' && n + 1 < sizeof name) name[n++] = *s++;
    name[n] = 0;
    l->kind = wisp_layer_kind_find(name);
    if (!l->kind || l->kind == &wisp_layer_output)
        return wisp_fail(err, WISP_EINVAL,
                         "--net: no layer '%s' in '%s'; 'wisp info' lists the kinds", name, spec);
    wisp_status st = l->kind->words ? parse_word(l, &s, err) : WISP_OK;
    if (st != WISP_OK) return st;
    char *end;
    l->arg = wisp_strtod(s, &end);
    bool there = end != s;
    if (l->kind->arg == WISP_ARG_WIDTH &&
        !(there && l->arg >= 1 && l->arg <= MAX_WIDTH && l->arg == floor(l->arg)))
        return wisp_fail(err, WISP_EINVAL, "--net: '%s' needs a width from 1 to %d, as in '%s 256'",
                         name, MAX_WIDTH, name);
    if (l->kind->arg == WISP_ARG_SHARE && !(there && l->arg >= 0 && l->arg < 1))
        return wisp_fail(err, WISP_EINVAL, "--net: '%s' needs a share below 1, as in '%s 0.3'",
                         name, name);
    if (l->kind->arg == WISP_ARG_NONE && there)
        return wisp_fail(err, WISP_EINVAL, "--net: '%s' takes no number, found '%.20s'", name,
                         s + 1);
    if (l->kind->more && there) {
        s = end;
        l->more = wisp_strtod(s, &end);
        if (end != s && !(l->more >= 1))
            return wisp_fail(err, WISP_EINVAL,
                             "--net: '%s' takes a second number from 1 on, found '%.20s'", name,
                             s + 1);
    }
    for (s = end; *s == ' ';) s++;
    if (*s && *s != ',')
        return wisp_fail(err, WISP_EINVAL,
                         "--net: expected ',' or the end after '%s', found '%.20s'", name, s);
    *p = *s ? s + 1 : s;
    return WISP_OK;
}

static wisp_status plan_layer(struct wisp_net *net, wisp_error *err)
{
    int i = net->n_layers;
    struct wisp_layer *l = &net->layers[i];
    l->number = i;
    l->n_in = i == 0 ? net->n_features : net->layers[i - 1].n_out;
    l->trains = net->sizes.training;
    l->list = &net->list;
    for (int k = 0; k < i; k++)
        l->turn += net->layers[k].kind == l->kind && net->layers[k].word == l->word;
    wisp_status st = l->kind->plan(l, &net->sizes, err);
    if (st == WISP_OK) net->n_layers++;
    return st;
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
    *net = (struct wisp_net){ .n_features = n_features, .n_labels = n_labels, .sizes = *sizes };
    if (n_features == 0 || n_features > INT32_MAX || n_labels == 0 || n_labels > INT32_MAX)
        return wisp_fail(err, WISP_EINVAL,
                         "a network needs 1 to 2^31-1 features and labels; the data has %zu "
                         "features and %zu labels",
                         n_features, n_labels);
    net->layers = wisp_zalloc(MAX_LAYERS, sizeof *net->layers);
    net->acts = wisp_zalloc(MAX_LAYERS, sizeof *net->acts);
    wisp_status st =
        net->layers && net->acts ? WISP_OK : wisp_fail_mem(err, MAX_LAYERS * 256, "the layers");
    const char *p = spec;
    while (st == WISP_OK && *p) {
        if (net->n_layers == MAX_LAYERS - 1)
            st = wisp_fail(err, WISP_EINVAL, "--net: more than %d layers", MAX_LAYERS - 1);
        else if ((st = parse_layer(&net->layers[net->n_layers], &p, spec, err)) == WISP_OK)
            st = plan_layer(net, err);
    }
    if (st == WISP_OK) {
        net->layers[net->n_layers].kind = &wisp_layer_output;
        net->layers[net->n_layers].arg = (double)n_labels;
        st = plan_layer(net, err);
    }
    if (st == WISP_OK) st = settle(net, err);
    if (st != WISP_OK) wisp_net_clear(net);
    return st;
}

void wisp_net_clear(struct wisp_net *net)
{
    wisp_params_clear(&net->list);
    wisp_free(net->layers);
    wisp_free(net->acts);
    wisp_free(net->params);
    wisp_free(net->wires);
    wisp_free(net->state);
    wisp_free(net->work);
    *net = (struct wisp_net){ 0 };
}

void wisp_net_lend(struct wisp_net *to, const struct wisp_net *from)
{
    for (size_t i = 0; i < to->list.n; i++) {
        struct wisp_param *p = &to->list.p[i];
        const struct wisp_param *q = &from->list.p[i];
        p->w = q->w, p->b16 = q->b16, p->ids = q->ids;
        p->i8 = q->i8, p->scale = q->scale;
    }
}

/* ---- sizes ---- */

size_t wisp_net_n_params(const struct wisp_net *net)
{
    size_t n = 0;
    for (size_t i = 0; i < net->list.n; i++)
        if (net->list.p[i].role == WISP_TRAINED) n += wisp_param_n(&net->list.p[i]);
    return n;
}

static size_t floats_of(const struct wisp_param *p)
{
    size_t n = p->role == WISP_FIXED ? 0 : wisp_param_n(p);
    return round16(p->half ? (n + 1) / 2 : n);
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
        if (p->role != WISP_FIXED) continue;
        int32_t *ids = wisp_cut_take(c, wisp_param_n(p), sizeof *ids);
        if (c->block) p->ids = ids;
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

static void lay_work(const struct wisp_net *net, int threads, struct wisp_cut *c)
{
    for (int i = 0; i < net->n_layers; i++) {
        struct wisp_layer *l = &net->layers[i];
        size_t values = net->sizes.batch * l->n_out;
        struct wisp_act a = { .width = l->n_out };
        if (i < net->n_layers - 1) {
            a.x = wisp_cut_take(c, values, sizeof *a.x);
            if (net->sizes.training) a.g = wisp_cut_take(c, values, sizeof *a.g);
            if (c->block) net->acts[i] = a;
        }
        float *scratch = wisp_cut_take(c, l->scratch_floats, sizeof *scratch);
        if (c->block) l->scratch = scratch;
        for (int t = 0; t < threads; t++) {
            size_t before = c->at;
            float *own = wisp_cut_take(c, l->thread_floats, sizeof *own);
            if (!c->block) continue;
            if (t == 0) l->thread_scratch = own;
            l->thread_apart = (c->at - before) / sizeof *own;
        }
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

size_t wisp_net_work_floats(const struct wisp_net *net, int threads)
{
    struct wisp_cut plan = { 0 };
    lay_work(net, threads, &plan);
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
    for (size_t i = 0; i < net->list.n; i++) {
        struct wisp_param *q = &net->list.p[i];
        if (q->role == WISP_FIXED) continue;
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

wisp_status wisp_net_alloc_work(struct wisp_net *net, int threads, wisp_error *err)
{
    size_t n = wisp_net_work_floats(net, threads);
    net->work = wisp_zalloc(n, sizeof *net->work);
    if (!net->work) return wisp_fail_mem(err, n * sizeof *net->work, "the values of a batch");
    struct wisp_cut c = wisp_cut_of(net->work, n * sizeof *net->work, WISP_CUT_KEEP);
    lay_work(net, threads, &c);
    return WISP_OK;
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

/* ---- the step ---- */

const float *wisp_net_hidden(const struct wisp_net *net, struct wisp_step *s)
{
    for (int i = 0; i < net->n_layers - 1; i++)
        net->layers[i].kind->forward(&net->layers[i], s, i ? &net->acts[i - 1] : NULL,
                                     &net->acts[i]);
    return net->acts[net->n_layers - 2].x;
}

/* What a step finds between the layers is left over from the last one. */
static void spoil_acts(const struct wisp_net *net)
{
    for (int i = 0; i < net->n_layers - 1; i++) {
        size_t bytes = net->sizes.batch * net->acts[i].width * sizeof(float);
        wisp_cut_spoil(net->acts[i].x, bytes);
        if (net->acts[i].g) wisp_cut_spoil(net->acts[i].g, bytes);
    }
}

void wisp_net_step(struct wisp_net *net, struct wisp_step *s)
{
    int last = net->n_layers - 1;
    spoil_acts(net);
    struct wisp_pool *pool = s->ctx->pool;
    wisp_phase(pool, 0, WISP_PHASE_INPUT);
    wisp_net_hidden(net, s);
    net->layers[last].kind->forward(&net->layers[last], s, &net->acts[last - 1], NULL);
    for (int i = last; i >= 0; i--) {
        net->layers[i].kind->backward(&net->layers[i], s, i ? &net->acts[i - 1] : NULL,
                                      &net->acts[i]);
        wisp_phase(pool, 0, i > 0 ? WISP_PHASE_BACK : WISP_PHASE_OTHER);
    }
}

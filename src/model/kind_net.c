/* The kind of model that is a net: its parameters to and from a file, and scoring, which is the hidden
 * layers forward and then the best of all labels (layer/topk.c), or of those that votes name. */
#include "base/mem.h"
#include "data/image.h"
#include "layer/output.h"
#include "model/kind.h"
#include "model/known.h"
#include "model/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- to and from a file ---- */

/* Rows of int8 or of codes, and what goes with them. */
static void add_narrow(struct wisp_tensor_list *l, const struct wisp_param *p)
{
    char name[WISP_NAME_BYTES];
    const size_t shape[] = { p->rows, p->codes ? wisp_codes_bytes(p->bits, p->cols) : p->cols };
    if (p->i8) wisp_list_add_param(l, p, WISP_I8, p->i8);
    else wisp_list_add_shape(l, p->name, WISP_U8, 2, shape, p->codes);
    snprintf(name, sizeof name, "%s.scale", p->name);
    wisp_list_add(l, name, WISP_F32, p->rows, p->scale);
    if (p->i8) return;
    snprintf(name, sizeof name, "%s.value", p->name);
    wisp_list_add(l, name, WISP_F32, wisp_codes_values(p->bits), p->value);
}

/* Numbers, or the connections, which come after all numbers. */
static void add_params(struct wisp_tensor_list *l, const struct wisp_params *params, bool fixed)
{
    for (size_t i = 0; i < params->n; i++) {
        const struct wisp_param *p = &params->p[i];
        const bool starts = p->role == WISP_STARTS;
        if ((p->role == WISP_FIXED || starts) != fixed) continue;
        if (starts) wisp_list_add_shape(l, p->name, WISP_I64, p->rank, p->dim, p->start);
        else if (fixed) wisp_list_add_shape(l, p->name, WISP_I32, p->rank, p->dim, p->ids);
        else if (p->i8 || p->codes) add_narrow(l, p);
        else if (p->b16) wisp_list_add_param(l, p, WISP_BF16, p->b16);
        else wisp_list_add_param(l, p, WISP_F32, p->w);
    }
}

/* The scales of the rows of an int8 parameter, or of one of codes. */
static wisp_status map_scale(struct wisp_param *p, const struct wisp_loader *ld, wisp_error *err)
{
    char name[WISP_NAME_BYTES];
    const struct wisp_tensor *t;
    snprintf(name, sizeof name, "%s.scale", p->name);
    wisp_status st = wisp_need(&t, ld, name, WISP_F32, p->rows, err);
    if (st != WISP_OK) return st;
    p->scale = (float *)t->data;
    return wisp_expect_from_0(ld, name, p->scale, p->rows, err);
}

/* Numbers of values, which any bytes are, and the values: 16 or 64, so that no weight is more than its
 * row's scale. */
static wisp_status map_codes(struct wisp_param *p, const struct wisp_loader *ld, wisp_error *err)
{
    char name[WISP_NAME_BYTES];
    const struct wisp_tensor *t;
    snprintf(name, sizeof name, "%s.value", p->name);
    const struct wisp_tensor *values = wisp_loader_find(ld, name);
    p->bits = values && values->bytes == 4 * wisp_codes_values(6) ? 6 : 4;
    wisp_status st = wisp_need(&values, ld, name, WISP_F32, wisp_codes_values(p->bits), err);
    if (st != WISP_OK) return st;
    const size_t shape[] = { p->rows, wisp_codes_bytes(p->bits, p->cols) };
    if ((st = wisp_need_shape(&t, ld, p->name, WISP_U8, 2, shape, err)) != WISP_OK) return st;
    p->codes = (uint8_t *)t->data;
    p->value = (float *)values->data;
    for (size_t i = 0; i < wisp_codes_values(p->bits); i++)
        if (!(p->value[i] >= -1 && p->value[i] <= 1))
            return wisp_fail_at(err, WISP_EMODEL, ld->path, 0,
                                "'%s' is %g at %zu, expected a number from -1 to 1", name,
                                p->value[i], i);
    return map_scale(p, ld, err);
}

/* Fixed connections: ids that ascend in each row, within the layer's inputs. */
static wisp_status map_ids(struct wisp_param *p, const struct wisp_loader *ld, wisp_error *err)
{
    const struct wisp_tensor *t;
    wisp_status st = wisp_need_shape(&t, ld, p->name, WISP_I32, p->rank, p->dim, err);
    if (st != WISP_OK) return st;
    p->ids = (int32_t *)t->data;
    size_t row, n, bad = wisp_param_bad_id(p, &row);
    if (bad == wisp_param_n(p)) return WISP_OK;
    int32_t before = bad > wisp_param_row(p, row, &n) ? p->ids[bad - 1] : -1;
    return wisp_fail_at(err, WISP_EMODEL, ld->path, 0,
                        "'%s' has input %d after %d at output %zu, expected ascending ids below "
                        "%zu",
                        p->name, p->ids[bad], before, row, p->below);
}

/* Where rows of different lengths begin: known.c has looked at them. */
static wisp_status map_starts(struct wisp_params *list, const struct wisp_loader *ld,
                              wisp_error *err)
{
    const struct wisp_tensor *t;
    wisp_status st = WISP_OK;
    for (size_t i = 0; i < list->n && st == WISP_OK; i++) {
        struct wisp_param *p = &list->p[i];
        if (p->role != WISP_STARTS) continue;
        st = wisp_need_shape(&t, ld, p->name, WISP_I64, p->rank, p->dim, err);
        if (st == WISP_OK) p->start = (int64_t *)t->data;
    }
    wisp_params_join(list);
    return st;
}

/* Read-only memory: only forward passes use it. */
static wisp_status map_param(struct wisp_param *p, const struct wisp_loader *ld, wisp_error *err)
{
    if (p->role == WISP_FIXED) return map_ids(p, ld, err);
    if (p->role == WISP_STARTS) return WISP_OK; /* before all others */
    const struct wisp_tensor *t = wisp_loader_find(ld, p->name);
    if (t && p->narrow && t->dtype == WISP_U8) return map_codes(p, ld, err);
    bool narrow = t && p->narrow && (t->dtype == WISP_BF16 || t->dtype == WISP_I8);
    wisp_status st =
        wisp_need_shape(&t, ld, p->name, narrow ? t->dtype : WISP_F32, p->rank, p->dim, err);
    if (st != WISP_OK) return st;
    if (t->dtype == WISP_F32) p->w = (float *)t->data;
    else if (t->dtype == WISP_BF16) p->b16 = (uint16_t *)t->data;
    else p->i8 = (int8_t *)t->data;
    return p->i8 ? map_scale(p, ld, err) : WISP_OK;
}

/* What rows are images of; all 0 where nothing is said. */
static bool load_image(struct wisp_image *out, const struct wisp_loader *ld, size_t n_features)
{
    const char *text = wisp_loader_meta(ld, "image");
    *out = (struct wisp_image){ 0 };
    if (!text) return true;
    return wisp_image_read(out, text) && out->channels && out->height && out->width &&
           out->height <= n_features / out->channels / out->width &&
           wisp_image_pixels(*out) == n_features;
}

static wisp_status load_net(const struct wisp_loader *ld, wisp_error *err)
{
    struct wisp_model *m = ld->m;
    const struct wisp_file_known known = wisp_file_known(ld->file, ld->prefix, true);
    wisp_error why = { 0 };
    const size_t n_features = m->net.n_features, n_labels = m->net.n_labels;
    struct wisp_image image;
    if (!load_image(&image, ld, n_features))
        return wisp_fail_at(err, WISP_EMODEL, ld->path, 0,
                            "metadata 'image' is not 'CHANNELS x HEIGHT x WIDTH' of the features");
    struct wisp_layer_sizes sizes = { .batch = WISP_SCORE_BATCH,
                                      .known = &known.known,
                                      .image = wisp_image_shape(image),
                                      .loss = m->loss,
                                      .loss_by = "the loss in the metadata" };
    wisp_status st =
        wisp_net_plan_text(&m->net, m->spec, "net", n_features, n_labels, &sizes, &why);
    if (st == WISP_ENOMEM) return wisp_fail_as(err, st, &why);
    if (st != WISP_OK) return wisp_fail_at(err, WISP_EMODEL, ld->path, 0, "%.400s", why.text);
    st = map_starts(&m->net.list, ld, err);
    for (size_t i = 0; i < m->net.list.n && st == WISP_OK; i++)
        st = map_param(&m->net.list.p[i], ld, err);
    return st;
}

/* ---- scoring ---- */

/* What images may take: at 224 pixels 256 of them would take gigabytes in every value. */
static const double MOST_BYTES = 64 << 20;

size_t wisp_score_batch(const struct wisp_net *net)
{
    size_t most = 0, batch = WISP_SCORE_BATCH;
    if (!wisp_net_image(net)) return batch;
    for (int i = 0; i < net->n_layers; i++) {
        size_t floats = net->layers[i].kind->head ? 0 : net->acts[i + 1].floats;
        for (int k = 0; k < net->layers[i].n_from; k++)
            floats += net->acts[net->layers[i].from[k]].floats;
        most = wisp_most(most, floats);
    }
    while (batch > 8 && 4.0 * (double)batch * (double)most > MOST_BYTES) batch /= 2;
    return batch;
}

static size_t net_batch(const struct wisp_model *m)
{
    return wisp_score_batch(&m->net);
}

static wisp_status ready(struct wisp_scorer *s, enum wisp_zeros zeros, wisp_error *err)
{
    const struct wisp_model *m = s->m;
    const struct wisp_net_known like = wisp_net_known(&m->net);
    struct wisp_layer_sizes sizes = { .batch = s->batch,
                                      .still = !m->net.params, /* they lie in a mapped file */
                                      .zeros = zeros,
                                      .known = &like.known,
                                      .share = m->net.sizes.share,
                                      .ctx = s->ctx,
                                      .image = wisp_image_shape(wisp_net_images(&m->net)) };
    wisp_status st =
        wisp_net_plan(&s->net, m->spec, m->net.n_features, m->net.n_labels, &sizes, err);
    if (st != WISP_OK) return st;
    wisp_net_lend(&s->net, &m->net);
    const struct wisp_layer *out = wisp_net_output(&s->net);
    const int threads = wisp_pool_threads(s->ctx->pool);
    const size_t shared = wisp_output_topk_floats(out, s->batch, s->k);
    const size_t each = wisp_output_topk_thread_floats(out, s->batch, s->k);
    if ((st = wisp_work_alloc(&s->net, threads, err)) != WISP_OK) return st;
    s->scratch = wisp_alloc(shared, sizeof(float));
    s->thread_scratch = wisp_alloc(each * (size_t)threads, sizeof(float));
    return s->scratch && s->thread_scratch
               ? WISP_OK
               : wisp_fail_mem(err, (shared + each) * sizeof(float), "scoring");
}

static void done(struct wisp_scorer *s)
{
    wisp_shortlist_clear(&s->shortlist);
    wisp_net_clear(&s->net);
    wisp_free(s->scratch);
    wisp_free(s->thread_scratch);
}

static wisp_status use_some(struct wisp_scorer *s, const struct wisp_scorer *lead, wisp_error *err)
{
    const struct wisp_model *m = s->m;
    if (lead)
        return wisp_shortlist_init_given(&s->shortlist, lead->labels, lead->k, s->ctx, s->batch,
                                         err);
    return wisp_shortlist_init(&s->shortlist, &m->votes, s->ctx, m->label_rows, m->net.n_labels,
                               s->batch, s->k, err);
}

static void use_all(struct wisp_scorer *s)
{
    wisp_shortlist_clear(&s->shortlist);
}

static wisp_status best(struct wisp_scorer *s, const struct wisp_batch *b, wisp_error *err)
{
    struct wisp_step step = { .ctx = s->ctx, .batch = b, .alone = s->alone, .peek = s->peek };
    wisp_status st = wisp_net_hidden(&s->net, &step, err);
    if (st != WISP_OK) return st;
    const float *h = wisp_net_last(&s->net)->x;
    if (s->shortlist.candidates) {
        s->n_scored += wisp_shortlist_topk(&s->shortlist, wisp_net_output(&s->net), s->m->loss, b,
                                           h, s->k, s->labels, s->scores);
        return WISP_OK;
    }
    s->n_scored += b->n * s->net.n_labels;
    return wisp_output_topk(wisp_net_output(&s->net), s->ctx, s->m->loss, h, b->n, s->alone, s->k,
                            s->labels, s->scores, s->scratch, s->thread_scratch, err);
}

/* A softmax knows the others by the best label: p = p_best exp(z - z_best), whatever the sum was over. */
static void score(float *out, struct wisp_scorer *s, const struct wisp_batch *b, size_t row,
                  const int32_t *labels, size_t n, int thread)
{
    (void)b, (void)thread;
    const struct wisp_matrix w = wisp_layer_matrix(wisp_net_output(&s->net));
    const struct wisp_loss *loss = s->m->loss;
    const float *h = wisp_net_last(&s->net)->x + row * w.width, p_best = s->scores[row * s->k];
    const int32_t first = s->labels[row * s->k];
    float z_best = 0;
    if (loss->needs_sum) {
        wisp_weights_dots(s->ctx->k, &z_best, &w.w, &first, 1, h);
        z_best += w.bias[first];
    }
    wisp_weights_dots(s->ctx->k, out, &w.w, labels, n, h);
    for (size_t i = 0; i < n; i++) {
        const float z = out[i] + w.bias[labels[i]];
        out[i] = loss->needs_sum ? p_best * fminf(1, expf(z - z_best)) : loss->probability(z, 0, 1);
    }
}

/* ---- the row ---- */

static void list(struct wisp_tensor_list *l, const struct wisp_model *m)
{
    add_params(l, &m->net.list, false);
    add_params(l, &m->net.list, true);
}

static void clear(struct wisp_model *m)
{
    wisp_net_clear(&m->net);
}

static size_t n_params(const struct wisp_model *m)
{
    return wisp_net_n_params(&m->net);
}

static size_t bytes(const struct wisp_model *m)
{
    return wisp_net_stored_bytes(&m->net);
}

const struct wisp_model_kind wisp_kind_net = {
    .name = "net",
    .index = "--index yes",
    .learn = "more --epochs, another --loss (softmax, bce) or --lr, or --net linear",
    .load = load_net,
    .list = list,
    .clear = clear,
    .n_params = n_params,
    .bytes = bytes,
    .batch = net_batch,
    .ready = ready,
    .done = done,
    .use_some = use_some,
    .use_all = use_all,
    .best = best,
    .score = score,
    .explain_ready = wisp_explain_net_ready,
    .explain_done = wisp_explain_net_done,
    .explain = wisp_explain_net,
    .train = wisp_train_run,
};

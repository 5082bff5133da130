/* Laying out a batch: tf-idf, unit length, input dropout, and the same non-zeros by feature. */
#include "model/batch.h"
#include "base/cut.h"
#include "base/mem.h"
#include "base/rand.h"
#include "layer/image.h"
#include "graph/ids.h"

#include <math.h>
#include <string.h>

wisp_status wisp_layout_init(struct wisp_layout *l, size_t n_features, size_t n_labels,
                             bool by_feature, wisp_error *err)
{
    *l = (struct wisp_layout){ .n_features = n_features,
                               .n_labels = n_labels,
                               .by_feature = by_feature };
    if (!by_feature) return WISP_OK;
    l->slot = wisp_zalloc(n_features, sizeof *l->slot);
    return l->slot ? WISP_OK : wisp_fail_mem(err, n_features * sizeof *l->slot, "a batch");
}

static void free_rows(struct wisp_layout *l)
{
    wisp_free(l->batch.xp);
    wisp_free(l->batch.yp);
    wisp_free(l->batch.in_p);
    wisp_free(l->kept);
    wisp_free(l->weight);
    l->batch.in_p = NULL;
    l->batch.xp = l->batch.yp = l->kept = NULL;
    l->batch.weight = l->weight = NULL;
}

static void free_nnz(struct wisp_batch *b)
{
    wisp_free(b->xi);
    wisp_free(b->xv);
    wisp_free(b->touched);
    wisp_free(b->tp);
    wisp_free(b->ts);
    wisp_free(b->tv);
    wisp_free(b->in_i);
    wisp_free(b->in_v);
    b->xi = b->touched = b->ts = b->in_i = NULL;
    b->xv = b->tv = b->in_v = NULL;
    b->tp = NULL;
}

static void free_labels(struct wisp_batch *b)
{
    wisp_free(b->yi);
    wisp_free(b->place);
    wisp_free(b->sample);
    wisp_free(b->logit);
    b->yi = NULL;
    b->place = b->sample = NULL;
    b->logit = NULL;
}

void wisp_layout_clear(struct wisp_layout *l)
{
    free_rows(l);
    free_nnz(&l->batch);
    free_labels(&l->batch);
    wisp_free(l->slot);
    wisp_free(l->table);
    wisp_free(l->batch.planes);
    wisp_free(l->px);
    *l = (struct wisp_layout){ 0 };
}

wisp_status wisp_layout_for(struct wisp_layout *l, const struct wisp_net *net, bool lists,
                            wisp_error *err)
{
    const struct wisp_layer *image = wisp_net_image(net);
    for (size_t i = 0; i < net->list.n; i++)
        if (net->list.p[i].by == WISP_BY_FEATURE) l->share = net->list.p[i].share;
    if (!image) return WISP_OK;
    for (int i = 0; i < net->n_layers; i++)
        for (int k = 0; k < net->layers[i].n_from; k++)
            lists |= net->layers[i].from[k] == 0 && &net->layers[i] != image;
    const size_t n = image->params[WISP_IMAGE_MEAN].cols * 256;
    l->no_lists = !lists;
    l->how = (struct wisp_image_how){ .image = wisp_net_images(net),
                                      .mean = image->params[WISP_IMAGE_MEAN].w,
                                      .scale = image->params[WISP_IMAGE_SCALE].w,
                                      .pad = (uint32_t)image->arg[WISP_IMAGE_PAD],
                                      .flip = image->arg[WISP_IMAGE_FLIP] != 0 };
    l->table = wisp_alloc(n, sizeof *l->table);
    return l->table ? WISP_OK : wisp_fail_mem(err, n * sizeof *l->table, "a batch of images");
}

/* Of the batch's rows; false: not all of them are bytes. */
static bool point_at_bytes(struct wisp_layout *l)
{
    size_t at;
    for (size_t i = 0; i < l->batch.n; i++) {
        const struct wisp_rows *r = wisp_data_row(l->d, l->rows[i], &at);
        if (!r->px) return false;
        l->px[i] = r->px + at * r->pixels;
    }
    return true;
}

/* Room for the planes of n images, or where their bytes lie. */
static wisp_status reserve_images(struct wisp_layout *l, size_t n, wisp_error *err)
{
    const size_t pixels = wisp_image_pixels(l->how.image);
    l->batch.px = NULL;
    if (l->as_bytes) {
        wisp_free(l->px);
        l->px = wisp_alloc(n, sizeof *l->px);
        if (!l->px) return wisp_fail_mem(err, n * sizeof *l->px, "a batch of images");
        if (point_at_bytes(l)) l->batch.px = l->px;
        if (l->batch.px) return WISP_OK;
    }
    if (n <= l->cap_planes) return WISP_OK;
    wisp_free(l->batch.planes);
    l->cap_planes = 0;
    l->batch.planes = wisp_alloc(n * pixels, sizeof *l->batch.planes);
    if (!l->batch.planes)
        return wisp_fail_mem(err, n * pixels * sizeof *l->batch.planes, "a batch of images");
    l->cap_planes = n;
    return WISP_OK;
}

/* What is there is not kept. */
wisp_status wisp_layout_reserve(struct wisp_layout *l, size_t n, size_t nnz, size_t lab,
                                wisp_error *err)
{
    struct wisp_batch *b = &l->batch;
    const bool shared = !wisp_share_all(l->share);
    bool ok = true;
    if (n > l->cap_rows) {
        free_rows(l);
        b->xp = wisp_alloc(n + 1, sizeof *b->xp);
        b->yp = wisp_alloc(n + 1, sizeof *b->yp);
        l->kept = wisp_alloc(n, sizeof *l->kept);
        l->weight = wisp_alloc(n, sizeof *l->weight);
        if (shared) b->in_p = wisp_alloc(n + 1, sizeof *b->in_p);
        ok = b->xp && b->yp && l->kept && l->weight && (b->in_p || !shared);
        l->cap_rows = ok ? n : 0;
    }
    if (ok && (nnz > l->cap_nnz || !b->xi)) {
        nnz += nnz / 4 + 64;
        free_nnz(b);
        b->xi = wisp_alloc(nnz, sizeof *b->xi);
        b->xv = wisp_alloc(nnz, sizeof *b->xv);
        b->touched = wisp_alloc(nnz, sizeof *b->touched);
        b->tp = wisp_alloc(nnz + 1, sizeof *b->tp);
        b->ts = wisp_alloc(nnz, sizeof *b->ts);
        b->tv = wisp_alloc(nnz, sizeof *b->tv);
        if (shared) b->in_i = wisp_alloc(nnz, sizeof *b->in_i);
        if (shared) b->in_v = wisp_alloc(nnz, sizeof *b->in_v);
        ok = b->xi && b->xv && b->touched && b->tp && b->ts && b->tv &&
             (!shared || (b->in_i && b->in_v));
        l->cap_nnz = ok ? nnz : 0;
    }
    if (ok && (lab > l->cap_lab || !b->yi)) {
        lab += lab / 4 + 64;
        free_labels(b);
        b->yi = wisp_alloc(lab, sizeof *b->yi);
        b->place = wisp_alloc(lab, sizeof *b->place);
        b->sample = wisp_alloc(lab, sizeof *b->sample);
        b->logit = wisp_alloc(lab, sizeof *b->logit);
        ok = b->yi && b->place && b->sample && b->logit;
        l->cap_lab = ok ? lab : 0;
    }
    return ok ? WISP_OK : wisp_fail_mem(err, nnz * 24 + lab * 16, "a batch");
}

enum { OVERFLOWS = UINT32_MAX }; /* in place of how many features are left of a row */

/* The most features that a row of the set has for the network. */
static size_t row_room(const struct wisp_layout *l, const struct wisp_rows *r, size_t row)
{
    if (l->no_lists) return 0;
    return l->v.mode == WISP_VALUES_STANDARD ? l->n_features : r->xp[row + 1] - r->xp[row];
}

/* The columns of a table; what input dropout takes is as if it had the mean. */
static uint32_t fill_table_row(const struct wisp_layout *l, const struct wisp_rows *r, size_t row,
                               size_t sample, const struct wisp_values *v,
                               const struct wisp_drop *drop)
{
    int32_t *xi = l->batch.xi + l->batch.xp[sample];
    float *xv = l->batch.xv + l->batch.xp[sample];
    uint32_t all = wisp_values_fill(xi, xv, r, row, l->n_features, v), n = 0;
    uint64_t stream = wisp_stream(WISP_STREAM_INPUT_DROP, drop->step);
    for (uint32_t i = 0; i < all && drop->rate > 0; i++) {
        uint64_t place = (uint64_t)(l->batch.before + sample) << 32 | i;
        if (wisp_rand_unit(drop->seed, stream, place) < drop->rate) continue;
        xi[n] = xi[i];
        xv[n++] = xv[i] * (float)(1 / (1 - drop->rate));
    }
    return drop->rate > 0 ? n : all;
}

/* Lays out one row's features as those of a sample, transformed; returns how many. */
static uint32_t fill_row(const struct wisp_layout *l, const struct wisp_rows *r, size_t row,
                         size_t sample, const struct wisp_values *v, const struct wisp_drop *drop)
{
    int32_t *xi = l->batch.xi + l->batch.xp[sample]; /* with the room of the whole row */
    float *xv = l->batch.xv + l->batch.xp[sample];
    uint32_t n = 0;
    double sum = 0;
    uint64_t stream = wisp_stream(WISP_STREAM_INPUT_DROP, drop->step);
    if (v->mode == WISP_VALUES_STANDARD) return fill_table_row(l, r, row, sample, v, drop);
    const uint32_t alone[2] = { 0, r->xp[row + 1] - r->xp[row] };
    const struct wisp_rows listed = { .xp = alone, .xi = xi, .xv = xv };
    if (r->px) { /* at the row's own place, where what is kept is never ahead of what is read */
        wisp_row_pixels(xi, xv, r, row);
        r = &listed;
        row = 0;
    }
    for (uint32_t i = r->xp[row]; i < r->xp[row + 1]; i++) {
        int32_t id = wisp_row_id(r, i);
        if ((size_t)id >= l->n_features) break; /* ids ascend */
        uint64_t place = (uint64_t)(l->batch.before + sample) << 32 | (i - r->xp[row]);
        if (drop->rate > 0 && wisp_rand_unit(drop->seed, stream, place) < drop->rate) continue;
        float x = wisp_row_value(r, i);
        if (v->mode == WISP_VALUES_TFIDF) x = (x > 1 ? 1 + logf(x) : x) * v->idf[id];
        sum += (double)x * x;
        xi[n] = id;
        xv[n++] = x;
    }
    if (!isfinite(sum)) return OVERFLOWS; /* squares of floats do not, in double: idf did it */
    /* Length 1 after dropping: a row keeps its scale.  (Dividing by 1 - rate instead cost 1.5
     * points of P@1 at rate 0.2 on short rows.) */
    float scale = v->mode == WISP_VALUES_RAW ? (float)(1 / (1 - drop->rate))
                  : sum > 0                  ? (float)(1 / sqrt(sum))
                                             : 0;
    for (uint32_t i = 0; i < n; i++) xv[i] *= scale;
    return n;
}

/* A tile of samples at the places of their whole rows; l->kept tells what is left of each. */
static void fill_tile(void *layout, size_t tile, int thread)
{
    (void)thread;
    struct wisp_layout *l = layout;
    struct wisp_batch *b = &l->batch;
    if (l->status != WISP_OK) return;
    size_t at, first = tile * WISP_TILE, end = first + wisp_tile_rows(b->n, tile);
    for (size_t i = first; i < end; i++) {
        const struct wisp_rows *r = wisp_data_row(l->d, l->rows[i], &at);
        l->kept[i] = l->no_lists ? 0 : fill_row(l, r, at, i, &l->v, &l->drop);
        if (l->table && !b->px)
            wisp_image_lay(b->planes + i * wisp_image_pixels(l->how.image), r, at, &l->how,
                           l->table, wisp_image_move(&l->how, l->seed, l->epoch, l->rows[i]));
    }
}

/* Closes the gaps that dropped features left. */
static void close_gaps(struct wisp_layout *l)
{
    struct wisp_batch *b = &l->batch;
    uint32_t to = 0;
    for (size_t i = 0; i < b->n; i++) {
        uint32_t from = b->xp[i];
        if (from != to) {
            memmove(b->xi + to, b->xi + from, l->kept[i] * sizeof *b->xi);
            memmove(b->xv + to, b->xv + from, l->kept[i] * sizeof *b->xv);
        }
        b->xp[i] = to;
        to += l->kept[i];
    }
    b->xp[b->n] = to;
}

/* Those features whose rows are here, by the rows: the one place where ids become rows. */
static void pick_own(struct wisp_layout *l)
{
    struct wisp_batch *b = &l->batch;
    uint32_t n = 0;
    for (size_t i = 0; i < b->n; i++) {
        b->in_p[i] = n;
        for (uint32_t e = b->xp[i]; e < b->xp[i + 1]; e++) {
            if (!wisp_share_has(l->share, (size_t)b->xi[e])) continue;
            b->in_i[n] = (int32_t)wisp_share_row(l->share, (size_t)b->xi[e]);
            b->in_v[n++] = b->xv[e];
        }
    }
    b->in_p[b->n] = n;
}

/* The non-zeros by feature, in order of first appearance: count, prefix sum, fill. */
static void by_feature(struct wisp_layout *l)
{
    struct wisp_batch *b = &l->batch;
    const uint32_t *p = b->in_p ? b->in_p : b->xp;
    const int32_t *rows = b->in_p ? b->in_i : b->xi;
    const float *values = b->in_p ? b->in_v : b->xv;
    size_t nnz = p[b->n], n = 0;
    for (size_t i = 0; i < nnz; i++) {
        uint32_t *slot = &l->slot[rows[i]];
        if (!*slot) {
            b->touched[n] = rows[i];
            b->tp[n] = 0;
            *slot = (uint32_t)++n;
        }
        b->tp[*slot - 1]++;
    }
    uint32_t sum = 0;
    for (size_t t = 0; t < n; t++) {
        uint32_t count = b->tp[t];
        b->tp[t] = sum;
        sum += count;
    }
    for (size_t i = 0; i < b->n; i++)
        for (uint32_t e = p[i]; e < p[i + 1]; e++) {
            uint32_t at = b->tp[l->slot[rows[e]] - 1]++;
            b->ts[at] = (int32_t)i;
            b->tv[at] = values[e];
        }
    for (size_t t = n; t > 0; t--) b->tp[t] = b->tp[t - 1]; /* starts again */
    b->tp[0] = 0;
    for (size_t t = 0; t < n; t++) l->slot[b->touched[t]] = 0;
    b->n_touched = n;
}

/* Sizes of the batch; labels are few and copied at once. */
static void fill_labels(struct wisp_layout *l)
{
    struct wisp_batch *b = &l->batch;
    size_t at;
    b->xp[0] = b->yp[0] = 0;
    b->weight = l->d->weights ? l->weight : NULL;
    for (size_t i = 0; i < b->n; i++) {
        if (b->weight) b->weight[i] = l->d->weights[l->rows[i]];
        const struct wisp_rows *r = wisp_data_row(l->d, l->rows[i], &at);
        b->xp[i + 1] = b->xp[i] + (uint32_t)row_room(l, r, at);
        uint32_t y = b->yp[i];
        for (uint32_t e = r->yp[at]; e < r->yp[at + 1]; e++)
            if (!l->by_feature || (size_t)r->yi[e] < l->n_labels) b->yi[y++] = r->yi[e];
        b->yp[i + 1] = y;
    }
}

/* ---- the stages ---- */

/* What is left of the batch before. */
static void spoil(const struct wisp_layout *l, size_t nnz, size_t lab)
{
    const struct wisp_batch *b = &l->batch;
    void *const by_nnz[] = { b->xi, b->xv, b->touched, b->tp, b->ts, b->tv };
    void *const by_label[] = { b->yi, b->place, b->sample, b->logit };
    for (size_t i = 0; i < sizeof by_nnz / sizeof *by_nnz; i++) wisp_cut_spoil(by_nnz[i], nnz * 4);
    for (size_t i = 0; i < sizeof by_label / sizeof *by_label; i++)
        wisp_cut_spoil(by_label[i], lab * 4);
}

static wisp_status check_images(struct wisp_layout *l)
{
    char found[WISP_IMAGE_TEXT], wanted[WISP_IMAGE_TEXT];
    if (wisp_same_image(l->d->image, l->how.image)) return WISP_OK;
    wisp_image_text(wanted, l->how.image);
    if (!l->d->image.channels)
        return wisp_fail(&l->err, WISP_EFORMAT,
                         "rows that are no images; the net reads images of %s (channels x height x "
                         "width)",
                         wanted);
    return wisp_fail(&l->err, WISP_EFORMAT,
                     "images of %s (channels x height x width); the net reads images of %s",
                     wisp_image_text(found, l->d->image), wanted);
}

static void measure(void *layout, size_t i, int thread)
{
    (void)i, (void)thread;
    struct wisp_layout *l = layout;
    size_t nnz = 0, lab = 0, at;
    for (size_t s = 0; s < l->batch.n; s++) {
        const struct wisp_rows *r = wisp_data_row(l->d, l->rows[s], &at);
        nnz += row_room(l, r, at);
        lab += r->yp[at + 1] - r->yp[at];
    }
    l->status = wisp_map_check(&l->d->map, &l->err);
    if (l->status != WISP_OK) return;
    if (nnz >= UINT32_MAX || lab >= UINT32_MAX)
        l->status = wisp_fail(&l->err, WISP_EINVAL,
                              "a batch of %zu rows has %zu non-zeros; take a smaller --batch",
                              l->batch.n, nnz);
    else l->status = wisp_layout_reserve(l, l->batch.n, nnz, lab, &l->err);
    if (l->status == WISP_OK && l->table) l->status = check_images(l);
    if (l->status == WISP_OK && l->table) l->status = reserve_images(l, l->batch.n, &l->err);
    if (l->status != WISP_OK) return;
    if (l->table) wisp_image_table(l->table, &l->how);
    if (wisp_borders) spoil(l, nnz, lab);
    fill_labels(l);
}

/* Is every row laid out?  No NaN leaves here. */
static void check_rows(struct wisp_layout *l)
{
    for (size_t i = 0; i < l->batch.n && l->status == WISP_OK; i++)
        if (l->kept[i] == OVERFLOWS)
            l->status = wisp_fail_row(&l->err, WISP_ENUMERIC, l->d->rows_before + l->rows[i],
                                      wisp_row_base(l->d),
                                      "its values times their idf are beyond what a float can "
                                      "hold; expected values of common size");
}

static void file(void *layout, size_t i, int thread)
{
    (void)i, (void)thread;
    struct wisp_layout *l = layout;
    if (l->status == WISP_OK) l->status = wisp_map_check(&l->d->map, &l->err);
    if (l->status == WISP_OK) check_rows(l);
    if (l->status != WISP_OK) return;
    close_gaps(l);
    if (l->batch.in_p) pick_own(l);
    if (l->by_feature) by_feature(l);
}

static void prepare(struct wisp_layout *l, const struct wisp_data *d, const size_t *rows, size_t n,
                    const struct wisp_values *v, const struct wisp_drop *drop)
{
    l->d = d;
    l->rows = rows;
    l->v = *v;
    l->drop = *drop;
    l->batch.n = n;
    l->batch.id = rows;
}

static wisp_status outcome(const struct wisp_layout *l, wisp_error *err)
{
    if (l->status != WISP_OK && err) *err = l->err;
    return l->status;
}

wisp_status wisp_layout_fill(struct wisp_layout *l, const struct wisp_data *d, const size_t *rows,
                             size_t n, const struct wisp_values *v, const struct wisp_drop *drop,
                             wisp_error *err)
{
    prepare(l, d, rows, n, v, drop);
    measure(l, 0, 0);
    wisp_parallel_for(l->pool, wisp_tiles(n), fill_tile, l);
    file(l, 0, 0);
    return outcome(l, err);
}

void wisp_layout_start(struct wisp_layout *l, const struct wisp_data *d, const size_t *rows,
                       size_t n, const struct wisp_values *v, const struct wisp_drop *drop)
{
    const struct wisp_stage stages[] = { { 1, measure },
                                         { wisp_tiles(n), fill_tile },
                                         { 1, file } };
    prepare(l, d, rows, n, v, drop);
    wisp_later(l->pool, stages, 3, l);
}

wisp_status wisp_layout_finish(struct wisp_layout *l, wisp_error *err)
{
    wisp_later_finish(l->pool);
    return outcome(l, err);
}

/* What lies where on the card, and the copies to and from the host.
 *
 * All memory is one block; each part of a step lays its own arrays in it.  Without a block laying
 * only counts, so the plan and the run cannot differ. */
#include "cuda/trainer.cuh"

#include <new>
#include <stdarg.h>
#include <stdio.h>

enum { MOST_STEPS = 64, CHUNK_ROWS = 1 << 14 };

/* ---- failing ---- */

wisp_status wisp_dfail(wisp_error *err, wisp_status code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (err) {
        *err = {};
        err->code = code;
        vsnprintf(err->text, sizeof err->text, fmt, args);
    }
    va_end(args);
    return code;
}

wisp_status wisp_dcheck(cudaError_t e, const char *what, wisp_error *err)
{
    if (e == cudaSuccess) return WISP_OK;
    cudaGetLastError(); /* the next call begins without it */
    return wisp_dfail(err, e == cudaErrorMemoryAllocation ? WISP_ENOMEM : WISP_ENOTSUP,
                      "--device cuda: %s: %s", what, cudaGetErrorString(e));
}

/* ---- memory ---- */

static const uint32_t *starts_of(const struct wisp_cuda_block *b, bool labels)
{
    return labels ? b->yp : b->xp;
}

/* The most features (or labels) that 'n' rows can have together, in any choice of them. */
static size_t most_of(const struct wisp_cuda_setup *s, bool labels, size_t n)
{
    size_t longest = 0, sum = 0;
    for (size_t b = 0; b < s->n_blocks; b++) {
        const uint32_t *p = starts_of(&s->blocks[b], labels);
        for (size_t i = 0; i < s->blocks[b].n; i++)
            longest = p[i + 1] - p[i] > longest ? p[i + 1] - p[i] : longest;
    }
    uint64_t *rows = new (std::nothrow) uint64_t[longest + 1]();
    if (!rows) return n * longest;
    for (size_t b = 0; b < s->n_blocks; b++) {
        const uint32_t *p = starts_of(&s->blocks[b], labels);
        for (size_t i = 0; i < s->blocks[b].n; i++) rows[p[i + 1] - p[i]]++;
    }
    for (size_t length = longest; length > 0 && n > 0; length--) {
        size_t take = rows[length] < n ? rows[length] : n;
        sum += take * length;
        n -= take;
    }
    delete[] rows;
    return sum;
}

struct sizes { /* what laying needs to know of the rows; slow to count */
    size_t steps, nnz, labels, chunk_nnz, chunk_labels, step_nnz;
};

static struct sizes sizes_of(const struct wisp_cuda_setup *s)
{
    struct sizes z = {};
    for (size_t b = 0; b < s->n_blocks; b++) {
        z.nnz += s->blocks[b].xp[s->blocks[b].n] - s->blocks[b].xp[0];
        z.labels += s->blocks[b].yp[s->blocks[b].n] - s->blocks[b].yp[0];
    }
    z.steps = CHUNK_ROWS / s->batch;
    if (z.steps > MOST_STEPS) z.steps = MOST_STEPS;
    if (z.steps < 1) z.steps = 1;
    z.chunk_nnz = most_of(s, false, z.steps * s->batch);
    z.chunk_labels = most_of(s, true, z.steps * s->batch);
    z.step_nnz = most_of(s, false, s->batch);
    return z;
}

/* What the head reads. */
static const struct wisp_dact *last_act(const struct wisp_cuda_trainer *t)
{
    return &t->net.acts[t->net.last];
}

enum { WEIGHT, BIAS }; /* parameters of the head */

/* Of what it reads. */
static size_t width_of(const struct wisp_cuda_setup *s)
{
    return wisp_graph_head(&s->graph)->n_in;
}

static const struct wisp_param *head_param(const struct wisp_cuda_setup *s, int which)
{
    return &wisp_graph_head(&s->graph)->params[which];
}

/* Of the layer 'image', which the host says is there. */
static size_t table_floats(const struct wisp_cuda_setup *s)
{
    return s->graph.acts[0].shape.dim[0] * 256;
}

static void lay_data(struct wisp_cuda_trainer *t, const struct sizes *z, void *b, size_t *at)
{
    const struct wisp_cuda_setup *s = &t->s;
    struct wisp_ddata *d = &t->data;
    d->n_rows = s->n_rows, d->n_features = s->graph.n_features, d->n_labels = s->graph.n_labels;
    d->mode = s->values, d->drop = s->input_dropout;
    d->xp = (uint64_t *)wisp_dtake(b, at, (s->n_rows + 1) * 8);
    d->yp = (uint64_t *)wisp_dtake(b, at, (s->n_rows + 1) * 8);
    d->xi = (int32_t *)wisp_dtake(b, at, z->nnz * 4);
    d->xv = (float *)wisp_dtake(b, at, z->nnz * 4);
    d->yi = (int32_t *)wisp_dtake(b, at, z->labels * 4);
    d->idf = (float *)wisp_dtake(b, at, s->graph.n_features * 4);
    if (s->pixels) {
        t->net.images.bytes = (uint8_t *)wisp_dtake(b, at, s->n_rows * s->pixels);
        t->net.images.table = (float *)wisp_dtake(b, at, table_floats(s) * 4);
    }
    for (int c = 0; c < 2; c++) {
        struct wisp_dchunk *k = &t->chunk[c];
        if (s->pixels)
            t->moved[c] =
                (struct wisp_moved *)wisp_dtake(b, at, z->steps * s->batch * sizeof *t->moved[c]);
        k->steps = z->steps, k->batch = s->batch;
        k->nnz_room = z->chunk_nnz, k->lab_room = z->chunk_labels;
        size_t bytes = wisp_chunk_lay(k, NULL, s->graph.n_features, s->graph.n_labels);
        wisp_chunk_lay(k, wisp_dtake(b, at, bytes), s->graph.n_features, s->graph.n_labels);
    }
}

/* Where products are in bf16, rows are found by what those see. */
static struct wisp_dparam seen_by_finders(const struct wisp_cuda_trainer *t)
{
    struct wisp_dparam p = t->out.w;
    if (t->s.precision == WISP_IN_BF16 && p.copy) p.w = NULL, p.b16 = p.copy;
    return p;
}

static void lay_find(struct wisp_cuda_trainer *t, void *b, size_t *at)
{
    const struct wisp_cuda_setup *s = &t->s;
    const auto *near = &s->finders.neighbours;
    struct wisp_dfind *f = &t->find;
    size_t words = s->graph.n_labels / 32 + 1;
    f->now = t->now, f->batch = s->batch, f->width = width_of(s), f->n_rows = s->graph.n_labels;
    f->w = seen_by_finders(t), f->bias = t->out.bias, f->h = last_act(t)->x;
    f->keep = s->keep, f->deep = s->deep, f->k = near->ring ? s->best : 0;
    f->seed = s->seed;
    f->neighbours = near->ring > 0;
    f->ring = near->ring, f->last = near->last, f->hops = near->hops, f->n_samples = s->n_rows;
    f->n_carried = near->n_carried;
    if (f->neighbours) {
        f->rings = (int32_t *)wisp_dtake(b, at, s->graph.n_labels * near->ring * 4);
        f->next = (uint8_t *)wisp_dtake(b, at, s->graph.n_labels + 4);
        f->lasts = (int32_t *)wisp_dtake(b, at, s->n_rows * near->last * 4);
        f->carried = (int32_t *)wisp_dtake(b, at, (1 + near->n_carried) * 4);
    }
    f->n_random = s->finders.n_random, f->n_frequent = s->finders.n_frequent;
    if (f->n_frequent) f->up_to = (double *)wisp_dtake(b, at, s->graph.n_labels * 8);
    f->own = (int32_t *)wisp_dtake(b, at, s->batch * (s->keep + 1) * 4);
    f->found = (int32_t *)wisp_dtake(b, at, s->batch * (s->deep + 1) * 4);
    f->limit = (float *)wisp_dtake(b, at, s->batch * 4);
    f->origin = (float *)wisp_dtake(b, at, s->batch * 4);
    f->products = (uint32_t *)wisp_dtake(b, at, s->batch * 4);
    f->active.n_rows = s->graph.n_labels, f->active.room = s->room;
    f->active.n = (uint32_t *)wisp_dtake(b, at, 4);
    f->active.rows = (int32_t *)wisp_dtake(b, at, s->room * 4);
    f->active.bits = (uint32_t *)wisp_dtake(b, at, words * 4);
    f->active.before = (uint32_t *)wisp_dtake(b, at, words * 4);
    f->chunk = (uint32_t *)wisp_dtake(b, at, (words / 1024 + 2) * 4);
    f->best = (int32_t *)wisp_dtake(b, at, s->batch * (f->k + 1) * 4);
    f->counts = t->sums ? t->sums->counts : NULL;
    size_t bytes = wisp_find_lay(f, NULL);
    wisp_find_lay(f, wisp_dtake(b, at, bytes));
}

static void lay_hash(struct wisp_cuda_trainer *t, void *b, size_t *at)
{
    const struct wisp_cuda_setup *s = &t->s;
    const auto *h = &s->finders.hash;
    struct wisp_dhash *d = &t->hash;
    if (!h->n_tables) return;
    d->n_rows = s->graph.n_labels, d->width = width_of(s), d->batch = s->batch,
    d->n_tables = h->n_tables;
    d->family = wisp_hash_family(h->family), d->digits = h->digits, d->digit_bits = h->digit_bits;
    d->bits = h->bits, d->key_shift = h->key_shift, d->key_mask = h->key_mask;
    d->appended = h->appended, d->transform = h->transform;
    d->w = t->find.w, d->bias = t->out.bias, d->now = t->now, d->h = last_act(t)->x;
    d->functions = wisp_dtake(b, at, h->function_bytes);
    size_t bytes = wisp_hash_lay(d, NULL);
    wisp_hash_lay(d, wisp_dtake(b, at, bytes));
    t->find.lsh = d->tables;
}

/* n: on the card, how many samples are looked at, at most 'batch'. */
static void lay_scan(struct wisp_cuda_trainer *t, struct wisp_dscan *d, size_t batch,
                     const uint32_t *n, size_t k, void *b, size_t *at)
{
    const struct wisp_cuda_setup *s = &t->s;
    d->n_rows = s->graph.n_labels, d->width = width_of(s), d->batch = batch, d->k = k;
    d->w = t->out.w, d->bias = t->out.bias, d->h = last_act(t)->x;
    d->rows16 = t->out.w.copy ? t->out.w.copy : t->out.w.b16;
    d->now = t->now;
    d->n = n;
    d->skip_labels = true;
    d->rows = (int32_t *)wisp_dtake(b, at, batch * k * 4);
    d->scores = (float *)wisp_dtake(b, at, batch * k * 4);
    size_t bytes = wisp_scan_lay(d, NULL);
    wisp_scan_lay(d, wisp_dtake(b, at, bytes));
}

/* Counts of the values of planes that the host wants to know of. */
static void lay_live(struct wisp_cuda_trainer *t, void *b, size_t *at)
{
    size_t words = 0;
    for (int pass = 0; pass < 2; pass++) { /* how many, then where */
        if (pass) t->live = (unsigned long long *)wisp_dtake(b, at, words * sizeof *t->live);
        t->n_live = words, words = 0;
        for (size_t i = 0; i < t->net.n_layers; i++) {
            const int v = t->net.layers[i].out;
            const struct wisp_zeros_of *z = t->s.graph.acts[v].zeros;
            struct wisp_dact *a = &t->net.acts[v];
            if (!z || z->layer != v - 1 || !a->h) continue;
            if (pass && t->live) a->live_first = { t->live + words, wisp_parts(a->c, 16) };
            words += wisp_dlive_words(wisp_parts(a->c, 16));
        }
    }
}

/* Where ranks divide a batch, gradients wait for those of the others. */
static enum wisp_optimizer_id kept_or_moved(const struct wisp_cuda_setup *s)
{
    return s->ranks ? WISP_DKEEP : s->optimizer;
}

/* Lays everything out in one block; returns its bytes. */
static size_t lay(struct wisp_cuda_trainer *t, const struct sizes *z, void *b)
{
    const struct wisp_cuda_setup *s = &t->s;
    size_t at = 0, width = width_of(s);
    t->steps = z->steps;
    t->now = (struct wisp_dnow *)wisp_dtake(b, &at, sizeof *t->now);
    t->place = (struct wisp_dturn *)wisp_dtake(b, &at, sizeof *t->place);
    t->sums = (struct wisp_dsums *)wisp_dtake(b, &at, sizeof *t->sums);
    t->correct = (float *)wisp_dtake(b, &at, 2 * WISP_CLOCK_FACTORS * 4);
    struct wisp_dopt opt = { s->optimizer, s->momentum, t->correct,
                             t->correct + WISP_CLOCK_FACTORS };
    t->ranks.opt = opt;
    opt.kind = kept_or_moved(s);
    t->net.now = t->now, t->net.opt = opt;
    t->net.most_touched = z->step_nnz < s->graph.n_features ? z->step_nnz : s->graph.n_features;
    wisp_dnet_lay(&t->net, NULL, b, &at);
    wisp_dpenalty_lay(&t->penalty, &t->net, b, &at);
    lay_live(t, b, &at);
    t->out.w = wisp_dparam_lay(head_param(s, WEIGHT), t->placing != WISP_DINSIDE, b, &at);
    t->out.bias = wisp_dparam_lay(head_param(s, BIAS), false, b, &at);
    bool copied = s->finders.scan || (s->precision == WISP_IN_BF16 && !s->finders.full);
    if (copied && head_param(s, WEIGHT)->w && t->placing != WISP_DOUTSIDE)
        t->out.w.copy = (__nv_bfloat16 *)wisp_dtake(b, &at, s->graph.n_labels * width * 2);
    wisp_dranks_lay(&t->ranks, &t->net, wisp_graph_head(&s->graph), &t->out.w, &t->out.bias, b,
                    &at);
    const struct wisp_dact *last = last_act(t);
    t->out.now = t->now, t->out.batch = s->batch, t->out.width = width, t->out.opt = opt;
    lay_data(t, z, b, &at);
    lay_find(t, b, &at);
    lay_hash(t, b, &at);
    t->out.loss = s->loss, t->out.smoothing = s->smoothing;
    t->out.precision = s->precision;
    t->out.active = t->find.active;
    t->out.outside = t->placing != WISP_DINSIDE;
    t->out.tile_max = t->find.k ? t->find.tile_max : NULL;
    t->out.lab_room = s->most_labels;
    t->out.h = last->x, t->out.g = last->g, t->out.origin = t->find.origin;
    t->out.pass = last->after.relu ? last->after.keep : 0; /* the gradient goes through at once */
    t->out.loss_sum = t->sums ? &t->sums->loss : NULL;
    size_t bytes = wisp_out_lay(&t->out, NULL);
    wisp_out_lay(&t->out, wisp_dtake(b, &at, bytes));
    t->n_looked = (uint32_t *)wisp_dtake(b, &at, 4);
    if (s->finders.scan) lay_scan(t, &t->scan, s->batch, &t->now->n, s->keep, b, &at);
    if (!s->finders.full)
        lay_scan(t, &t->look, WISP_LOOKED < s->batch ? WISP_LOOKED : s->batch, t->n_looked,
                 WISP_LOOK < s->graph.n_labels ? WISP_LOOK : s->graph.n_labels, b, &at);
    return at;
}

/* fp32 is fp32, as on the CPU: no rounding for tensor cores. */
static enum wisp_dconv_math math_of(enum wisp_precision_id id)
{
    if (id == WISP_IN_BF16) return WISP_DCONV_BF16;
    return id == WISP_IN_TF32 ? WISP_DCONV_TF32 : WISP_DCONV_FP32;
}

static wisp_status make_net(struct wisp_cuda_trainer *t, wisp_error *err)
{
    t->net.batch = t->s.batch;
    t->net.math = math_of(t->s.precision), t->net.opt.kind = kept_or_moved(&t->s);
    t->ranks.how = t->s.ranks;
    t->net.ranks = t->s.ranks ? &t->ranks : NULL;
    t->net.zeros = t->s.zeros;
    t->net.beside = wisp_dnet_has_planes(&t->s.graph);
    wisp_dnet_make(&t->net, &t->s.graph, true);
    wisp_status st =
        wisp_dpenalty_make(&t->penalty, &t->net, &t->s.graph, t->s.bonds, t->s.group_weights, err);
    return st == WISP_OK ? wisp_dnet_plan(&t->net, err) : st;
}

/* What is taken beside blocks of our own: seen on an H200 with cuDNN 9.19, resnet18 in bf16: handles 18
 * MiB, kernels 16, graphs of one step and of four 20. */
static size_t libraries_of(const struct wisp_cuda_trainer *t)
{
    return wisp_dnet_has_planes(&t->s.graph) ? (size_t)64 << 20 : 0;
}

/* Of a trainer whose net is made; rows of the host's are not scored on the card. */
static size_t bytes_of(struct wisp_cuda_trainer *t, const struct sizes *z,
                       enum wisp_dplacing placing)
{
    t->placing = placing;
    return lay(t, z, NULL) + libraries_of(t) + (placing == WISP_DINSIDE ? t->scorer_bytes : 0);
}

static wisp_status ask_scorer(struct wisp_cuda_trainer *t, wisp_error *err)
{
    if (!t->s.score_k) return WISP_OK;
    return wisp_dscorer_bytes(&t->scorer_bytes, t, t->s.score_batch, t->s.score_k, err);
}

/* Plans a step with what may be taken besides all else. */
static wisp_status plan_within(struct wisp_cuda_trainer *t, const struct sizes *z, wisp_error *err)
{
    const size_t most = t->s.most_bytes, others = bytes_of(t, z, WISP_DINSIDE) - t->net.work_bytes;
    t->net.limit = most > others ? most - others : 1;
    const wisp_status st = wisp_dnet_plan(&t->net, err);
    return st == WISP_OK ? ask_scorer(t, err) : st;
}

/* Nets of images keep to what may be taken of the card: values are made again, the first layers do a
 * lot of samples at a time, the optimiser's state of large layers stays on the host.  Of that for
 * none, one, two, ... layers what costs least time is taken, or else what takes least memory. */
static wisp_status fit(struct wisp_cuda_trainer *t, const struct sizes *z, wisp_error *err)
{
    const size_t most = t->s.most_bytes;
    size_t best = 0, best_bytes = 0;
    double best_us = 0;
    wisp_status st = ask_scorer(t, err);
    if (st != WISP_OK || !t->s.pixels || bytes_of(t, z, WISP_DINSIDE) <= most) return st;
    const size_t layers = t->s.bonds ? 0 : SIZE_MAX; /* a penalty looks at the state of all */
    for (size_t k = 0; st == WISP_OK && k <= layers && wisp_dstate_outside(&t->net, k); k++) {
        st = plan_within(t, z, err);
        const size_t bytes = bytes_of(t, z, WISP_DINSIDE);
        const double us = t->net.again_us + wisp_dstate_cost(t->net);
        const bool fits = bytes <= most, fitted = best_bytes <= most;
        if (k && (fits ? fitted && us >= best_us : fitted || bytes >= best_bytes)) continue;
        best = k, best_bytes = bytes, best_us = us;
    }
    wisp_dstate_outside(&t->net, best);
    return st == WISP_OK ? plan_within(t, z, err) : st;
}

wisp_status wisp_trainer_bytes(struct wisp_cuda_bytes *out, const struct wisp_cuda_setup *s,
                               wisp_error *err)
{
    const struct sizes z = sizes_of(s);
    struct wisp_cuda_trainer *t = new (std::nothrow) wisp_cuda_trainer();
    if (!t) return wisp_dfail(err, WISP_ENOMEM, "no memory left for the card's plan");
    t->s = *s;
    wisp_status st = make_net(t, err);
    if (st == WISP_OK) st = fit(t, &z, err);
    if (st == WISP_OK) {
        out->all = bytes_of(t, &z, WISP_DINSIDE);
        out->least = bytes_of(t, &z, WISP_DOUTSIDE);
        out->step = t->net.work_bytes, out->bound = t->net.work_bound;
        out->whole = t->net.work_whole, out->n_again = t->net.n_again;
        out->libraries = libraries_of(t);
        out->again = t->net.again_bytes, out->again_us = t->net.again_us;
        out->outside = t->net.state.bytes, out->n_outside = (int)t->net.state.n;
        out->outside_us = wisp_dstate_us(t->net);
        const struct wisp_dlots &lots = t->net.lots;
        out->lot_layers = lots.first ? t->net.layers[lots.first - 1].out : 0;
        out->lot_samples = lots.samples, out->lot_stop = lots.stop;
        wisp_dconv_count(&t->net, &out->passes, &out->skipping);
    }
    wisp_dpenalty_clear(&t->penalty);
    wisp_dnet_clear(&t->net);
    delete t;
    return st;
}

/* ---- between host and card ---- */

/* What a run changes: parameters, optimiser state, the memory of neighbours. */
static void move_state(struct wisp_dcopy *m, struct wisp_cuda_trainer *t)
{
    const struct wisp_cuda_setup *s = &t->s;
    wisp_dnet_copy(m, &t->net);
    struct wisp_param out = *head_param(s, WEIGHT);
    if (t->placing != WISP_DINSIDE)
        out.w = out.m = out.v = NULL, out.b16 = NULL; /* one copy serves both */
    wisp_dcopy_param(m, &t->out.w, &out);
    wisp_dcopy_param(m, &t->out.bias, head_param(s, BIAS));
    const auto *near = &s->finders.neighbours;
    if (!near->ring) return;
    wisp_dcopy_bytes(m, t->find.rings, near->rings, s->graph.n_labels * near->ring * 4);
    wisp_dcopy_bytes(m, t->find.next, near->next, s->graph.n_labels);
    wisp_dcopy_bytes(m, t->find.lasts, near->lasts, s->n_rows * near->last * 4);
    wisp_dcopy_bytes(m, t->find.carried, near->carried, (1 + near->n_carried) * 4);
}

static void move_rows(struct wisp_dcopy *m, struct wisp_cuda_trainer *t)
{
    const struct wisp_cuda_setup *s = &t->s;
    uint64_t *start = NULL, x = 0, y = 0, row = 0;
    m->e = cudaMallocHost((void **)&start, 2 * (s->n_rows + 1) * 8);
    if (m->e != cudaSuccess) return;
    uint64_t *labels = start + s->n_rows + 1;
    for (size_t b = 0; b < s->n_blocks; b++) {
        const struct wisp_cuda_block *k = &s->blocks[b];
        size_t nx = k->xp[k->n] - k->xp[0], ny = k->yp[k->n] - k->yp[0];
        for (size_t i = 0; i < k->n; i++, row++) {
            start[row] = x + (k->xp[i] - k->xp[0]);
            labels[row] = y + (k->yp[i] - k->yp[0]);
        }
        wisp_dcopy_bytes(m, (int32_t *)t->data.xi + x, (void *)(k->xi + k->xp[0]), nx * 4);
        wisp_dcopy_bytes(m, (float *)t->data.xv + x, (void *)(k->xv + k->xp[0]), nx * 4);
        if (s->pixels)
            wisp_dcopy_bytes(m, (uint8_t *)t->net.images.bytes + (row - k->n) * s->pixels,
                             (void *)k->px, k->n * s->pixels);
        wisp_dcopy_bytes(m, (int32_t *)t->data.yi + y, (void *)(k->yi + k->yp[0]), ny * 4);
        x += nx, y += ny;
    }
    start[row] = x, labels[row] = y;
    wisp_dcopy_bytes(m, (void *)t->data.xp, start, (s->n_rows + 1) * 8);
    wisp_dcopy_bytes(m, (void *)t->data.yp, labels, (s->n_rows + 1) * 8);
    cudaFreeHost(start);
}

__global__ static void round_rows(__nv_bfloat16 *to, const float *from, size_t n)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        to[i] = __float2bfloat16_rn(from[i]);
}

/* All rows are active, in every step. */
__global__ static void mark_all(struct wisp_dactive a)
{
    size_t step = (size_t)gridDim.x * blockDim.x, first = blockIdx.x * blockDim.x + threadIdx.x;
    if (first == 0) *a.n = (uint32_t)a.n_rows;
    for (size_t i = first; i < a.n_rows; i += step) a.rows[i] = (int32_t)i;
    for (size_t w = first; w < a.n_rows / 32 + 1; w += step) {
        a.before[w] = (uint32_t)(32 * w);
        a.bits[w] = 32 * w + 32 <= a.n_rows ? 0xffffffffu : (1u << a.n_rows % 32) - 1;
    }
}

static wisp_status upload(struct wisp_cuda_trainer *t, wisp_error *err)
{
    const struct wisp_cuda_setup *s = &t->s;
    struct wisp_dcopy m = { false, cudaSuccess };
    move_state(&m, t);
    wisp_dpenalty_fill(&m, t->penalty);
    move_rows(&m, t);
    wisp_dcopy_bytes(&m, (void *)t->data.idf, (void *)s->idf, s->graph.n_features * 4);
    if (s->pixels)
        wisp_dcopy_bytes(&m, (void *)t->net.images.table, (void *)s->table, table_floats(s) * 4);
    wisp_dcopy_bytes(&m, t->correct, (void *)s->correct1, WISP_CLOCK_FACTORS * 4);
    wisp_dcopy_bytes(&m, t->correct + WISP_CLOCK_FACTORS, (void *)s->correct2,
                     WISP_CLOCK_FACTORS * 4);
    wisp_dcopy_bytes(&m, (void *)t->find.up_to, (void *)s->finders.up_to,
                     s->finders.n_frequent ? s->graph.n_labels * 8 : 0);
    wisp_dcopy_bytes(&m, (void *)t->hash.functions, (void *)s->finders.hash.functions,
                     s->finders.hash.function_bytes);
    if (m.e == cudaSuccess) m.e = cudaMemset(t->sums, 0, sizeof *t->sums);
    if (m.e == cudaSuccess && t->n_live) m.e = cudaMemset(t->live, 0, t->n_live * sizeof *t->live);
    if (m.e == cudaSuccess) m.e = cudaMemset(t->find.origin, 0, s->batch * 4);
    if (t->out.w.copy)
        round_rows<<<1024, 256>>>(t->out.w.copy, t->out.w.w, s->graph.n_labels * width_of(s));
    if (s->finders.full) mark_all<<<256, 256>>>(t->find.active);
    if (m.e == cudaSuccess) m.e = cudaDeviceSynchronize();
    return wisp_dcheck(m.e, "copying to the card", err);
}

/* ---- all of it ---- */

/* The host's array, where the card reaches it. */
static cudaError_t pin(void **on_card, void *host, size_t bytes)
{
    if (!host) return cudaSuccess;
    cudaError_t e = cudaHostRegister(host, bytes, cudaHostRegisterMapped);
    return e == cudaSuccess ? cudaHostGetDevicePointer(on_card, host, 0) : e;
}

static wisp_status pin_rows(struct wisp_cuda_trainer *t, wisp_error *err)
{
    const struct wisp_param *p = head_param(&t->s, WEIGHT);
    struct wisp_dparam d = t->out.w;
    size_t n = wisp_param_n(p);
    cudaError_t e = pin((void **)&d.w, p->w, n * 4);
    if (e == cudaSuccess) e = pin((void **)&d.b16, p->b16, n * 2);
    if (e == cudaSuccess) e = pin((void **)&d.m, p->m, n * 4);
    if (e == cudaSuccess) e = pin((void **)&d.v, p->v, n * 4);
    t->out.w = t->scan.w = t->look.w = d;
    t->find.w = t->hash.w = seen_by_finders(t);
    return wisp_dcheck(e, "keeping the output layer's rows on the host", err);
}

/* Shared memory is asked for when a step is begun: too late to say what is wrong. */
static wisp_status check_finding(const struct wisp_cuda_trainer *t, wisp_error *err)
{
    const size_t takes = wisp_find_shared(t->find), has = wisp_dshared();
    if (t->s.finders.full || takes <= has) return WISP_OK;
    return wisp_dfail(err, WISP_ENOTSUP,
                      "--device cuda: finding rows takes %zu bytes of shared memory with --keep "
                      "%zu, this card has %zu for a block; take a smaller --keep, or --device cpu",
                      takes, t->s.keep, has);
}

wisp_status wisp_trainer_fill(struct wisp_cuda_trainer *t, wisp_error *err)
{
    struct sizes z = sizes_of(&t->s);
    int placing = WISP_DINSIDE;
    wisp_status st = make_net(t, err);
    if (st == WISP_OK) st = fit(t, &z, err);
    if (st != WISP_OK) return st;
    while (placing < WISP_DOUTSIDE &&
           bytes_of(t, &z, (enum wisp_dplacing)placing) > t->s.most_bytes)
        placing++;
    t->placing = (enum wisp_dplacing)placing;
    const size_t bytes = lay(t, &z, NULL);
    st = check_finding(t, err);
    if (st == WISP_OK)
        st = wisp_dcheck(cudaMalloc(&t->block, bytes), "taking memory of the card", err);
    if (st != WISP_OK) return st;
    lay(t, &z, t->block);
    if (t->placing != WISP_DINSIDE) st = pin_rows(t, err);
    if (st == WISP_OK)
        st = wisp_dcheck(wisp_dstate_keep(&t->net.state),
                         "keeping the optimizer's state on the host", err);
    if (t->n_live && !(t->host_live = new (std::nothrow) unsigned long long[t->n_live]()))
        return wisp_dfail(err, WISP_ENOMEM, "no memory left for counts of zeros");
    return st == WISP_OK ? upload(t, err) : st;
}

void wisp_trainer_empty(struct wisp_cuda_trainer *t)
{
    const struct wisp_param *p = head_param(&t->s, WEIGHT);
    void *pinned[] = { p->w, p->b16, p->m, p->v };
    for (void *host : pinned)
        if (t->placing != WISP_DINSIDE && host) cudaHostUnregister(host);
    cudaGetLastError(); /* of those that had not been pinned yet */
    wisp_dstate_drop(&t->net.state);
    wisp_dpenalty_clear(&t->penalty);
    wisp_dnet_clear(&t->net);
    delete[] t->host_live;
    cudaFree(t->block);
}

wisp_status wisp_trainer_fetch(struct wisp_cuda_trainer *t, wisp_error *err)
{
    struct wisp_dcopy m = { true, cudaDeviceSynchronize() };
    move_state(&m, t);
    return wisp_dcheck(m.e, "copying from the card", err);
}

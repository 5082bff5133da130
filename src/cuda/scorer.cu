/* Exact prediction on the card.
 *
 *   host: a batch's rows, in one copy   mail    now | xp | xn | table, images | xi | xv
 *   net.cu                              h       (n, width) what the last hidden layer gives
 *   scan.cu   exact best rows           answer  labels (n, k) | logits (n, k) |
 *   sum.cu    where it is asked for             max (n) | sum of exp(logit - max) (n)
 *   host: the answer, in one copy
 *
 * Mail and answer lie the same way on both sides; the host's are pinned.  A batch's own numbers of
 * rows and non-zeros say where its mail ends and, 'now' telling the kernels, where lists begin;
 * images lie where they lie in every batch: as bytes, or as what the net sees.  Weights are the scorer's
 * own, or a trainer's: then everything runs on its stream, so after all steps begun before, and values
 * lie where a step has its own.  Those of images are large: rows are scored as many at a time as find
 * room there, or within BOUND.
 *
 * 670,091 labels, width 128, 256 rows: each of scan and sum 44 GFLOP and 343 MB, about a
 * millisecond in fp32; 150 KB of mail, 13 KB of answer (k = 5). */
#include "cuda/trainer.cuh"

#include <new>
#include <string.h>

enum { FIRST_ROOM = 1 << 16 }; /* non-zeros of a batch before room has to grow */
static const size_t BOUND = (size_t)512 << 20;

struct mail {
    struct wisp_dnow *now;
    uint32_t *xp, *xn; /* (batch) */
    float *table; /* (channels, 256) of nets that read images, and these, (n, pixels) bytes or */
    void *images; /* floats: always at the same places */
    int32_t *xi;  /* (nnz) */
    float *xv;    /* (nnz) */
};

struct answer {
    int32_t *rows; /* (batch, k) */
    float *scores; /* (batch, k) */
    float *max;    /* (batch) */
    double *sum;   /* (batch) */
};

enum { WEIGHT, BIAS }; /* parameters of the head */

struct wisp_cuda_scorer {
    const struct wisp_layer *head;
    size_t batch; /* rows at a time */
    size_t k, width, n_labels;
    size_t pixels, channels;          /* of an image; 0: the net reads none */
    size_t each;                      /* bytes of a pixel that mail has room for */
    struct wisp_cuda_trainer *lender; /* of weights and stream; NULL: they are its own */
    cudaStream_t stream;
    void *block; /* weights, h, answer, scratch */
    size_t room; /* non-zeros that mail has room for */
    void *mail_card, *mail_host;
    struct answer answer, host; /* on the card; pinned */
    size_t answer_bytes;
    struct wisp_dnet net;
    struct wisp_dscan scan;
    struct wisp_dsum sum;
};

/* ---- what lies where ---- */

/* Mail of n rows with so many non-zeros and bytes of each pixel; returns its own bytes. */
static size_t lay_mail(struct mail *m, void *block, const struct wisp_cuda_scorer *s, size_t n,
                       size_t nnz, size_t each)
{
    size_t at = 0;
    m->now = (struct wisp_dnow *)wisp_dtake(block, &at, sizeof *m->now);
    m->xp = (uint32_t *)wisp_dtake(block, &at, s->batch * sizeof *m->xp);
    m->xn = (uint32_t *)wisp_dtake(block, &at, s->batch * sizeof *m->xn);
    m->table = (float *)wisp_dtake(block, &at, s->channels * 256 * sizeof *m->table);
    m->images = wisp_dtake(block, &at, n * s->pixels * each);
    m->xi = (int32_t *)wisp_dtake(block, &at, nnz * sizeof *m->xi);
    m->xv = (float *)wisp_dtake(block, &at, nnz * sizeof *m->xv);
    return at;
}

static size_t lay_answer(struct answer *a, void *block, size_t batch, size_t k)
{
    size_t at = 0;
    a->rows = (int32_t *)wisp_dtake(block, &at, batch * k * sizeof *a->rows);
    a->scores = (float *)wisp_dtake(block, &at, batch * k * sizeof *a->scores);
    a->max = (float *)wisp_dtake(block, &at, batch * sizeof *a->max);
    a->sum = (double *)wisp_dtake(block, &at, batch * sizeof *a->sum);
    return at;
}

/* Lays everything but mail out in one block; returns its bytes. */
static size_t lay(struct wisp_cuda_scorer *s, void *b)
{
    size_t at = 0, bytes;
    wisp_dnet_lay(&s->net, s->lender ? &s->lender->net : NULL, b, &at);
    if (!s->lender) {
        s->scan.w = wisp_dparam_lay(&s->head->params[WEIGHT], false, b, &at);
        s->scan.bias = wisp_dparam_lay(&s->head->params[BIAS], false, b, &at);
    }
    const float *h = s->net.acts[s->net.last].x;
    s->answer_bytes = lay_answer(&s->answer, NULL, s->batch, s->k);
    lay_answer(&s->answer, wisp_dtake(b, &at, s->answer_bytes), s->batch, s->k);

    struct wisp_dscan *d = &s->scan;
    d->n_rows = s->n_labels, d->width = s->width, d->batch = s->batch, d->k = s->k;
    d->h = h, d->rows = s->answer.rows, d->scores = s->answer.scores;
    bytes = wisp_scan_lay(d, NULL);
    wisp_scan_lay(d, wisp_dtake(b, &at, bytes));

    struct wisp_dsum *m = &s->sum;
    m->n_rows = s->n_labels, m->width = s->width, m->batch = s->batch;
    m->w = d->w, m->bias = d->bias;
    m->h = h, m->max = s->answer.max, m->sum = s->answer.sum;
    bytes = wisp_sum_lay(m, NULL);
    wisp_sum_lay(m, wisp_dtake(b, &at, bytes));
    return at;
}

/* ---- making and freeing ---- */

/* Room for batches of so many non-zeros and bytes of each pixel; there is nothing under way. */
static wisp_status make_mail(struct wisp_cuda_scorer *s, size_t nnz, size_t each, wisp_error *err)
{
    struct mail m;
    size_t bytes = lay_mail(&m, NULL, s, s->batch, nnz, each);
    cudaFree(s->mail_card);
    cudaFreeHost(s->mail_host);
    s->mail_card = s->mail_host = NULL;
    s->room = 0;
    cudaError_t e = cudaMalloc(&s->mail_card, bytes);
    if (e == cudaSuccess) e = cudaMallocHost(&s->mail_host, bytes);
    if (e != cudaSuccess) return wisp_dcheck(e, "taking memory for rows", err);
    s->room = nnz, s->each = each;
    lay_mail(&m, s->mail_card, s, s->batch, nnz, each);
    s->net.now = m.now;
    s->scan.n = s->sum.n = &m.now->n;
    return WISP_OK;
}

static wisp_status take_block(struct wisp_cuda_scorer *s, wisp_error *err)
{
    size_t bytes = lay(s, NULL), free_bytes = 0, all = 0;
    cudaGetLastError(); /* of kernels that this card cannot have; they are not launched */
    cudaError_t e = cudaMalloc(&s->block, bytes);
    if (e == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        cudaMemGetInfo(&free_bytes, &all);
        return wisp_dfail(err, WISP_ENOMEM,
                          "--device cuda: %.2f GiB needed to predict, %.2f GiB free on the card; "
                          "take --device cpu",
                          wisp_gib(bytes), wisp_gib(free_bytes));
    }
    if (e != cudaSuccess) return wisp_dcheck(e, "taking memory of the card", err);
    lay(s, s->block);
    cudaGetLastError();
    return WISP_OK;
}

static wisp_status fill(struct wisp_cuda_scorer *s, wisp_error *err)
{
    wisp_status st = take_block(s, err);
    if (st == WISP_OK) st = make_mail(s, FIRST_ROOM, 1, err);
    if (st != WISP_OK) return st;
    void *host = NULL;
    cudaError_t e = cudaMallocHost(&host, s->answer_bytes);
    if (e == cudaSuccess) lay_answer(&s->host, host, s->batch, s->k);
    if (e == cudaSuccess && !s->lender) {
        struct wisp_dcopy c = { false, cudaSuccess };
        wisp_dnet_copy(&c, &s->net);
        wisp_dcopy_param(&c, &s->scan.w, &s->head->params[WEIGHT]);
        wisp_dcopy_param(&c, &s->scan.bias, &s->head->params[BIAS]);
        e = c.e == cudaSuccess ? cudaDeviceSynchronize() : c.e; /* the stream waits for no copy */
        if (e == cudaSuccess) e = cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking);
    }
    return wisp_dcheck(e, "copying to the card", err);
}

void wisp_dscorer_free(struct wisp_cuda_scorer *s)
{
    if (!s) return;
    if (s->stream) cudaStreamSynchronize(s->stream);
    if (s->stream && !s->lender) cudaStreamDestroy(s->stream);
    wisp_dnet_clear(&s->net);
    cudaFree(s->block);
    cudaFree(s->mail_card);
    cudaFreeHost(s->mail_host);
    cudaFreeHost(s->host.rows); /* where the answer begins */
    delete s;
}

/* Plans for 'batch' rows at a time, or for half of them, a quarter and so on, until values of images
 * find room. */
static wisp_status plan_net(struct wisp_cuda_scorer *s, size_t batch, wisp_error *err)
{
    const size_t most = s->lender ? s->lender->net.work_bytes : BOUND;
    for (;;) {
        s->batch = s->net.batch = batch;
        const wisp_status st = wisp_dnet_plan(&s->net, err);
        const size_t takes = s->net.work_bytes;
        if (st != WISP_OK || !s->pixels || takes <= most || batch == 1) return st;
        wisp_dnet_clear(&s->net);
        do batch /= 2;
        while (batch > 1 && takes / s->batch * batch > most);
    }
}

/* All but memory of the card. */
static wisp_status prepare(struct wisp_cuda_scorer **out, const struct wisp_graph *g,
                           struct wisp_cuda_trainer *t, size_t batch, size_t k, wisp_error *err)
{
    struct wisp_cuda_scorer *s = *out = new (std::nothrow) wisp_cuda_scorer();
    if (!s) return wisp_dfail(err, WISP_ENOMEM, "no memory left for scoring on the card");
    s->k = k;
    if (!g) {
        s->lender = t, s->stream = t->main, g = &t->s.graph;
        s->scan.w = t->out.w, s->scan.bias = t->out.bias;
    }
    s->head = wisp_graph_head(g), s->width = s->head->n_in, s->n_labels = g->n_labels;
    for (int i = 0; i < g->n_layers - 1; i++)
        if (wisp_card_kind_of(g, &g->layers[i]) == &wisp_card_image)
            s->pixels = g->acts[i + 1].width, s->channels = g->acts[i + 1].shape.dim[0];
    wisp_dnet_make(&s->net, g, false);
    return plan_net(s, batch, err);
}

wisp_status wisp_dscorer_create(struct wisp_cuda_scorer **out, const struct wisp_graph *g,
                                struct wisp_cuda_trainer *t, size_t batch, size_t k,
                                wisp_error *err)
{
    *out = NULL;
    wisp_status st = g ? wisp_dnet_check(g, NULL, err) : WISP_OK;
    if (st == WISP_OK) st = prepare(out, g, t, batch, k, err);
    if (st == WISP_OK) st = fill(*out, err);
    if (st != WISP_OK) {
        wisp_dscorer_free(*out);
        *out = NULL;
    }
    return st;
}

wisp_status wisp_dscorer_bytes(size_t *out, struct wisp_cuda_trainer *t, size_t batch, size_t k,
                               wisp_error *err)
{
    struct wisp_cuda_scorer *s = NULL;
    struct mail m;
    const wisp_status st = prepare(&s, NULL, t, batch, k, err);
    if (st == WISP_OK) *out = lay(s, NULL) + lay_mail(&m, NULL, s, s->batch, FIRST_ROOM, 1);
    wisp_dscorer_free(s);
    return st;
}

/* ---- scoring ---- */

/* Of a pixel of these rows. */
static size_t pixel_bytes(const struct wisp_cuda_block *r)
{
    return r->bytes || !r->planes ? 1 : sizeof *r->planes;
}

/* Where images lie on the card is told to the net. */
static void write_images(struct wisp_cuda_scorer *s, const struct wisp_cuda_block *r,
                         const struct mail &here, const struct mail &there)
{
    struct wisp_dsource *from = &s->net.images;
    *from = {};
    if (!s->pixels) return;
    if (!r->bytes) {
        memcpy(here.images, r->planes, r->n * s->pixels * sizeof *r->planes);
        from->planes = (const float *)there.images;
        return;
    }
    memcpy(here.table, r->table, s->channels * 256 * sizeof *r->table);
    for (size_t i = 0; i < r->n; i++)
        memcpy((char *)here.images + i * s->pixels, r->bytes[i], s->pixels);
    from->bytes = (const uint8_t *)there.images, from->table = there.table;
}

/* A batch's rows, as the kernels want them; returns the bytes to send. */
static size_t write_mail(struct wisp_cuda_scorer *s, const struct wisp_cuda_block *r, size_t nnz)
{
    struct mail here, there;
    size_t bytes = lay_mail(&here, s->mail_host, s, r->n, nnz, pixel_bytes(r));
    const uint32_t first = r->xp[0];
    lay_mail(&there, s->mail_card, s, r->n, nnz, pixel_bytes(r));
    memset(here.now, 0, sizeof *here.now);
    here.now->n = (uint32_t)r->n;
    here.now->xp = there.xp, here.now->xn = there.xn;
    here.now->xi = there.xi, here.now->xv = there.xv;
    for (size_t i = 0; i < r->n; i++) {
        here.xp[i] = r->xp[i] - first;
        here.xn[i] = r->xp[i + 1] - r->xp[i];
    }
    memcpy(here.xi, r->xi + first, nnz * sizeof *here.xi);
    memcpy(here.xv, r->xv + first, nnz * sizeof *here.xv);
    write_images(s, r, here, there);
    return bytes;
}

/* At most s->batch rows. */
static wisp_status score_some(struct wisp_cuda_scorer *s, const struct wisp_cuda_best *out,
                              const struct wisp_cuda_block *rows, wisp_error *err)
{
    const size_t n = rows->n;
    const size_t nnz = rows->xp[n] - rows->xp[0];
    const size_t each = wisp_most(s->each, pixel_bytes(rows));
    if (nnz > s->room || each > s->each || !s->mail_host) {
        wisp_status st = make_mail(s, wisp_most(s->room, nnz + nnz / 4), each, err);
        if (st != WISP_OK) return st;
    }
    size_t bytes = write_mail(s, rows, nnz);
    cudaError_t e =
        cudaMemcpyAsync(s->mail_card, s->mail_host, bytes, cudaMemcpyHostToDevice, s->stream);
    if (e == cudaSuccess) {
        wisp_dnet_forward(s->net, true, s->stream);
        wisp_dnet_forward(s->net, false, s->stream);
        wisp_scan_fp32(s->scan, s->stream);
        if (out->max) wisp_sum_exp(s->sum, s->stream);
        e = cudaGetLastError();
    }
    if (e == cudaSuccess)
        e = cudaMemcpyAsync(s->host.rows, s->answer.rows, s->answer_bytes, cudaMemcpyDeviceToHost,
                            s->stream);
    cudaError_t waited = cudaStreamSynchronize(s->stream); /* before mail is written again */
    if (e == cudaSuccess) e = waited;
    const wisp_status refused = wisp_dnet_status(s->net, err);
    if (refused != WISP_OK) return refused;
    if (e != cudaSuccess) return wisp_dcheck(e, "scoring rows", err);
    memcpy(out->labels, s->host.rows, n * s->k * sizeof *out->labels);
    memcpy(out->logits, s->host.scores, n * s->k * sizeof *out->logits);
    if (!out->max) return WISP_OK;
    memcpy(out->max, s->host.max, n * sizeof *out->max);
    memcpy(out->sum, s->host.sum, n * sizeof *out->sum);
    return WISP_OK;
}

wisp_status wisp_dscorer_score(struct wisp_cuda_scorer *s, const struct wisp_cuda_best *out,
                               const struct wisp_cuda_block *rows, wisp_error *err)
{
    wisp_status st = WISP_OK;
    for (size_t at = 0; at < rows->n && st == WISP_OK; at += s->batch) {
        struct wisp_cuda_block some = *rows;
        struct wisp_cuda_best to = { out->labels + at * s->k, out->logits + at * s->k, NULL, NULL };
        some.n = rows->n - at < s->batch ? rows->n - at : s->batch;
        some.xp += at;
        if (rows->bytes) some.bytes += at;
        if (rows->planes) some.planes += at * s->pixels;
        if (out->max) to.max = out->max + at, to.sum = out->sum + at;
        st = score_some(s, &to, &some, err);
    }
    return st;
}

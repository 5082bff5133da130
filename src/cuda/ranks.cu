/* Gradients of ranks that divide a batch: kept, added up, and what rows move by (ranks.cuh). */
#include "cuda/ranks.cuh"
#include "cuda/trainer.cuh"
#include "cuda/update.cuh"

enum { THREADS = 256 };
enum { BUCKET = 1 << 20 }; /* floats that travel to the host together */

/* ---- what lies where ---- */

static void take(struct wisp_dranks *r, struct wisp_dparam *p, const struct wisp_param *host,
                 const int64_t *start, void *block, size_t *at)
{
    const size_t n = host->ragged ? wisp_param_n(host) : p->rows * p->cols;
    p->grad = (float *)wisp_dtake(block, at, n * 4);
    p->flag = (float *)wisp_dtake(block, at, p->rows * 4);
    r->moving[r->n++] = { *p, host->ragged ? start : NULL, host->cols };
}

static bool is_norm(const struct wisp_dnode &l)
{
    return l.kind == &wisp_card_bn || l.kind == &wisp_card_bn_planes;
}

void wisp_dranks_lay(struct wisp_dranks *r, struct wisp_dnet *n, const struct wisp_layer *head,
                     struct wisp_dparam *weight, struct wisp_dparam *bias, void *block, size_t *at)
{
    if (!r->how) return;
    const size_t first = *at;
    r->n = r->n_numbers = 0;
    r->block = block ? (float *)((char *)block + first) : NULL;
    take(r, weight, &head->params[0], NULL, block, at);
    take(r, bias, &head->params[1], NULL, block, at);
    for (size_t i = n->n_layers; i-- > 0;) {
        struct wisp_dnode *l = &n->layers[i];
        for (int k = 0; k < l->l->n_params; k++)
            if (l->l->params[k].role == WISP_TRAINED)
                take(r, &l->param[k], &l->l->params[k], l->rows, block, at);
        if (is_norm(*l)) /* which adds up three numbers of each unit, or channel */
            r->n_numbers = wisp_most(r->n_numbers, 3 * l->param[0].cols);
    }
    r->floats = (*at - first) / 4;
    r->numbers = (double *)wisp_dtake(block, at, r->n_numbers * 8);
}

wisp_status wisp_dranks_make(struct wisp_dranks *r, wisp_error *err)
{
    static const char what[] = "taking memory for messages of ranks";
    cudaError_t e = cudaSuccess;
    if (!r->how) return WISP_OK;
    if (r->how->library)
        return wisp_dcheck(cudaEventCreateWithFlags(&r->stepped, cudaEventDisableTiming), what,
                           err);
    for (cudaEvent_t &v : r->copied)
        if (e == cudaSuccess) e = cudaEventCreateWithFlags(&v, cudaEventDisableTiming);
    if (e == cudaSuccess) e = cudaMallocHost((void **)&r->host, r->floats * 4);
    if (e == cudaSuccess && r->n_numbers)
        e = cudaMallocHost((void **)&r->host_numbers, r->n_numbers * 8);
    return wisp_dcheck(e, what, err);
}

void wisp_dranks_clear(struct wisp_dranks *r)
{
    wisp_dnccl_leave(r->library);
    for (cudaEvent_t v : r->copied)
        if (v) cudaEventDestroy(v);
    if (r->stepped) cudaEventDestroy(r->stepped);
    cudaFreeHost(r->host);
    cudaFreeHost(r->host_numbers);
    r->library = NULL, r->host = NULL, r->host_numbers = NULL;
    r->copied[0] = r->copied[1] = r->stepped = NULL;
}

/* ---- adding up ---- */

static void refuse(const struct wisp_dnet &n, wisp_status st, const wisp_error &why)
{
    if (st != WISP_OK && n.refused == WISP_OK) n.refused = st, n.why = why;
}

void wisp_dranks_begin(const struct wisp_dranks &r, cudaStream_t s)
{
    cudaMemsetAsync(r.block, 0, r.floats * 4, s);
}

static wisp_status add_on_host(const struct wisp_dranks &r, size_t count, cudaStream_t s,
                               wisp_error *err)
{
    const size_t bytes = count * sizeof *r.numbers;
    cudaError_t e = cudaMemcpyAsync(r.host_numbers, r.numbers, bytes, cudaMemcpyDeviceToHost, s);
    if (e == cudaSuccess) e = cudaStreamSynchronize(s);
    wisp_status st = wisp_dcheck(e, "adding up numbers of ranks", err);
    if (st == WISP_OK) st = r.how->add(r.how->comm, r.host_numbers, count, err);
    if (st != WISP_OK) return st;
    e = cudaMemcpyAsync(r.numbers, r.host_numbers, bytes, cudaMemcpyHostToDevice, s);
    return wisp_dcheck(e, "adding up numbers of ranks", err);
}

void wisp_dranks_add(const struct wisp_dnet &n, size_t count, cudaStream_t s)
{
    const struct wisp_dranks &r = *n.ranks;
    wisp_error err = {};
    if (n.refused != WISP_OK) return;
    const wisp_status st = r.library ? wisp_dnccl_add(r.library, r.numbers, count, true, s, &err)
                                     : add_on_host(r, count, s, &err);
    refuse(n, st, err);
}

static size_t bucket_of(const struct wisp_dranks &r, size_t first)
{
    return r.floats - first < BUCKET ? r.floats - first : BUCKET;
}

static cudaError_t fetch_bucket(const struct wisp_dranks &r, size_t first, cudaStream_t s)
{
    if (first >= r.floats) return cudaSuccess;
    const cudaError_t e = cudaMemcpyAsync(r.host + first, r.block + first, bucket_of(r, first) * 4,
                                          cudaMemcpyDeviceToHost, s);
    return e == cudaSuccess ? cudaEventRecord(r.copied[first / BUCKET % 2], s) : e;
}

/* A bucket is on its way from the card while the one before is on its way to other ranks. */
static wisp_status sum_on_host(const struct wisp_dranks &r, cudaStream_t s, wisp_error *err)
{
    static const char what[] = "adding up gradients of ranks";
    wisp_status st = wisp_dcheck(fetch_bucket(r, 0, s), what, err);
    for (size_t at = 0; at < r.floats && st == WISP_OK; at += BUCKET) {
        cudaError_t e = fetch_bucket(r, at + BUCKET, s);
        if (e == cudaSuccess) e = cudaEventSynchronize(r.copied[at / BUCKET % 2]);
        st = wisp_dcheck(e, what, err);
        if (st == WISP_OK) st = r.how->begin(r.how->comm, r.host + at, bucket_of(r, at), err);
    }
    if (st == WISP_OK) st = r.how->finish(r.how->comm, err);
    if (st != WISP_OK) return st;
    return wisp_dcheck(cudaMemcpyAsync(r.block, r.host, r.floats * 4, cudaMemcpyHostToDevice, s),
                       what, err);
}

/* ---- one step after the other ---- */

wisp_status wisp_dranks_wait(const struct wisp_dranks &r, cudaStream_t s, wisp_error *err)
{
    if (!r.library) return WISP_OK;
    const wisp_status st =
        wisp_dcheck(cudaEventRecord(r.stepped, s), "adding up gradients of ranks", err);
    return st == WISP_OK ? wisp_dnccl_wait(r.library, r.stepped, err) : st;
}

void wisp_dranks_pace(const struct wisp_dnet &n, cudaStream_t s)
{
    const struct wisp_dranks &r = *n.ranks;
    wisp_error err = {};
    if (!r.library || n.refused != WISP_OK) return;
    wisp_status st = wisp_dnccl_wait(r.library, r.stepped, &err);
    if (st == WISP_OK)
        st = wisp_dcheck(cudaEventRecord(r.stepped, s), "adding up gradients of ranks", &err);
    refuse(n, st, err);
}

/* ---- rows move ---- */

/* A block per row. */
__global__ static void __launch_bounds__(THREADS)
    move_rows(const struct wisp_dnow *now, const __grid_constant__ struct wisp_dopt opt,
              const __grid_constant__ struct wisp_dmoving m)
{
    __shared__ float room[THREADS / 32];
    const size_t row = blockIdx.x;
    if (m.p.flag[row] == 0) return;
    wisp_dmove_block(opt, m.p, row, m.p.grad + row * m.p.cols, now->lr, now->step, m.used, room);
}

/* A warp per row, of which columns are no quads. */
__global__ static void __launch_bounds__(THREADS)
    move_few(const struct wisp_dnow *now, const __grid_constant__ struct wisp_dopt opt,
             const __grid_constant__ struct wisp_dmoving m)
{
    const size_t row = (size_t)blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (row >= m.p.rows || m.p.flag[row] == 0) return;
    const size_t first = m.start ? (size_t)m.start[row] : row * m.p.cols;
    const size_t n = m.start ? (size_t)(m.start[row + 1] - m.start[row]) : m.p.cols;
    wisp_dmove_few(opt, m.p, row, first, n, m.p.grad + first, now->lr, now->step);
}

static void move(const struct wisp_dranks &r, const struct wisp_dnow *now,
                 const struct wisp_dmoving &m, cudaStream_t s)
{
    const size_t rows = m.p.rows, quads = m.p.cols / 4;
    if (rows == 0) return;
    if (m.start || m.p.cols % 4 != 0) {
        move_few<<<(unsigned)wisp_parts(rows, THREADS / 32), THREADS, 0, s>>>(now, r.opt, m);
        return;
    }
    const unsigned threads = (unsigned)wisp_up(quads < THREADS ? quads : THREADS, 32);
    move_rows<<<(unsigned)rows, threads, 0, s>>>(now, r.opt, m);
}

void wisp_dranks_move(const struct wisp_dnet &n, cudaStream_t s)
{
    const struct wisp_dranks &r = *n.ranks;
    wisp_error err = {};
    if (n.refused != WISP_OK) return;
    const wisp_status st = r.library ? wisp_dnccl_add(r.library, r.block, r.floats, false, s, &err)
                                     : sum_on_host(r, s, &err);
    refuse(n, st, err);
    for (size_t i = 0; i < r.n && st == WISP_OK; i++) move(r, n.now, r.moving[i], s);
}

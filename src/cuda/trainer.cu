/* The training step on the card, and everything that stays there between steps.
 *
 *   host                 lay stream                 main stream                      side streams
 *   row numbers  ------> chunk of steps laid out
 *   of a chunk           (rows.cu), two chunks  --> step: advance, hidden layers forward,
 *                        take turns                 hash, find, unite,
 *                                                   out forward, combine --+-------> rows move
 *                                                   hidden gradient        +-------> best, learn
 *                                                   hidden layers back  <--+
 *                                                   (net.beside: --------------------> their rows
 *                                                   convolutions, large dense ones) <- move)
 *
 * A step is captured once as a graph and replayed, and so are some in a row: its first kernel
 * copies the batch's description (struct wisp_dnow) from the chunk to where all others look.
 * Nothing comes back to the host but sums, when they are asked for.  Two things are done otherwise:
 * steps of ranks are launched one by one (ranks.cuh), and state that lies in the host's memory travels
 * on two more streams beside the way back (state.cu). */
#include "cuda/trainer.cuh"
#include "cuda/deep.cuh"

#include <new>
#include <stdio.h>
#include <string.h>

enum { MOST_GROWTH = 20, SEVERAL = 4 };

/* ---- the step ---- */

__global__ static void set_place(struct wisp_dturn *p, const struct wisp_dnow *from)
{
    p->from = from;
    p->at = 0;
}

enum { ADVANCE_THREADS = 256 };

/* The first block brings the batch's description; by 0: only looks.  The others clear the marks of
 * the last active set. */
__global__ static void advance(struct wisp_dnow *now, struct wisp_dturn *p, struct wisp_dsums *sums,
                               uint32_t *n_looked, uint32_t by, uint32_t *bits, size_t n_words)
{
    __shared__ struct wisp_dnow next;
    const size_t first = (size_t)(blockIdx.x - 1) * ADVANCE_THREADS + threadIdx.x;
    const size_t all = (size_t)(gridDim.x - 1) * ADVANCE_THREADS;
    for (size_t w = first; blockIdx.x > 0 && w < n_words; w += all) bits[w] = 0;
    if (blockIdx.x > 0) return;
    static_assert(sizeof next % 4 == 0 && sizeof next / 4 <= ADVANCE_THREADS, "a word a thread");
    if (threadIdx.x < sizeof next / 4)
        ((uint32_t *)now)[threadIdx.x] = ((uint32_t *)&next)[threadIdx.x] =
            ((const uint32_t *)&p->from[p->at])[threadIdx.x];
    __syncthreads();
    if (threadIdx.x > 0) return;
    p->at += by;
    sums->touched += by * next.n_touched;
    *n_looked = next.n < WISP_LOOKED ? next.n : WISP_LOOKED;
}

static void begin(struct wisp_cuda_trainer *t, uint32_t by, cudaStream_t s)
{
    size_t words = by && !t->s.finders.full ? t->s.graph.n_labels / 32 + 1 : 0;
    size_t blocks = (words + 4 * ADVANCE_THREADS - 1) / (4 * ADVANCE_THREADS);
    if (blocks > 512) blocks = 512;
    advance<<<1 + (unsigned)blocks, ADVANCE_THREADS, 0, s>>>(t->now, t->place, t->sums, t->n_looked,
                                                             by, t->find.active.bits, words);
}

__global__ static void count_all(const struct wisp_dnow *now, struct wisp_dsums *sums,
                                 size_t n_rows)
{
    sums->counts[0] += n_rows;
    sums->counts[1] += n_rows * now->n;
    sums->counts[2] += now->n;
}

/* Rows that the scan found join the set; where logits are far from 0 they are taken relative to the
 * best (find.cu does the same). */
__global__ static void mark_scanned(struct wisp_dscan d, struct wisp_dfind f)
{
    const struct wisp_dactive a = f.active;
    uint32_t i = blockIdx.x;
    if (i >= *d.n) return;
    if (threadIdx.x == 0) {
        float best = d.rows[i * d.k] >= 0 ? d.scores[i * d.k] : 0;
        f.products[i] = (uint32_t)d.n_rows;
        f.origin[i] = fabsf(best) > WISP_DFAR ? best : 0;
    }
    for (size_t c = threadIdx.x; c < d.k; c += blockDim.x) {
        int32_t row = d.rows[i * d.k + c];
        if (row >= 0) atomicOr(&a.bits[row / 32], 1u << row % 32);
    }
}

/* How many of the exact best rows of a sample were its own candidates, and are in the set.  With a
 * scan its own are the scan's. */
__global__ static void compare(struct wisp_dscan look, const int32_t *own, size_t keep,
                               struct wisp_dactive a, struct wisp_dsums *sums)
{
    uint32_t i = blockIdx.x;
    if (i >= *look.n) return;
    if (threadIdx.x == 0) atomicAdd((unsigned long long *)&sums->looked, 1ull);
    for (size_t c = threadIdx.x; c < look.k; c += blockDim.x) {
        int32_t row = look.rows[i * look.k + c];
        if (row < 0) continue;
        bool mine = false;
        for (size_t o = 0; o < keep; o++) mine |= own[i * keep + o] == row;
        if (mine) atomicAdd((unsigned long long *)&sums->own, 1ull);
        if (a.bits[row / 32] >> row % 32 & 1) atomicAdd((unsigned long long *)&sums->set, 1ull);
    }
}

static void run_part(struct wisp_cuda_trainer *t, enum wisp_cuda_part part, cudaStream_t s)
{
    const struct wisp_cuda_setup *u = &t->s;
    const struct wisp_dact *last = &t->net.acts[t->net.last]; /* which the head reads */
    bool lists = u->finders.neighbours.ring > 0;
    switch (part) {
    case WISP_CUDA_BEGIN:
        begin(t, 1, s);
        if (u->finders.full) count_all<<<1, 1, 0, s>>>(t->now, t->sums, u->graph.n_labels);
        break;
    case WISP_CUDA_INPUT:
        wisp_dnet_forward(t->net, true, s);
        break;
    case WISP_CUDA_LAYERS_FORWARD:
        wisp_dnet_forward(t->net, false, s);
        break;
    case WISP_CUDA_HASH:
        if (u->finders.hash.n_tables) wisp_hash_query(t->hash, s);
        break;
    case WISP_CUDA_SCAN:
        if (u->finders.scan) wisp_scan_bf16(t->scan, s);
        break;
    case WISP_CUDA_FIND:
        if (!u->finders.full) wisp_find_rows(t->find, s);
        if (u->finders.scan) mark_scanned<<<(unsigned)u->batch, 32, 0, s>>>(t->scan, t->find);
        break;
    case WISP_CUDA_UNITE:
        if (!u->finders.full) wisp_find_unite(t->find, s);
        break;
    case WISP_CUDA_FORWARD:
        wisp_out_forward(t->out, s);
        break;
    case WISP_CUDA_COMBINE:
        wisp_out_combine(t->out, s);
        break;
    case WISP_CUDA_HIDDEN:
        wisp_out_hidden(t->out, s);
        if (last->after.drops && !last->after.relu) /* else out.pass has done it */
            wisp_same_through(t->net, *last, t->out.g, t->out.g, s);
        break;
    case WISP_CUDA_ROWS:
        wisp_out_rows(t->out, s);
        break;
    case WISP_CUDA_BEST:
        if (lists) wisp_find_best(t->find, t->out, s);
        break;
    case WISP_CUDA_LEARN:
        if (lists) wisp_find_learn(t->find, t->out, s);
        if (u->finders.hash.n_tables) wisp_hash_observe(t->hash, false, s);
        break;
    case WISP_CUDA_LAYERS_BACK:
        wisp_dnet_backward(t->net, false, s);
        break;
    case WISP_CUDA_BACK:
        wisp_dnet_backward(t->net, true, s);
        break;
    case WISP_CUDA_PARTS:
        break;
    }
}

static void look(struct wisp_cuda_trainer *t, cudaStream_t s)
{
    const struct wisp_cuda_setup *u = &t->s;
    if (u->finders.full) return;
    wisp_scan_fp32(t->look, s);
    compare<<<(unsigned)t->look.batch, 32, 0, s>>>(
        t->look, u->finders.scan ? t->scan.rows : t->find.own, u->keep, t->find.active, t->sums);
}

static void fork_side(struct wisp_cuda_trainer *t, int side)
{
    cudaEventRecord(t->forked, t->main);
    cudaStreamWaitEvent(t->side[side], t->forked, 0);
}

static void join_side(struct wisp_cuda_trainer *t, int side)
{
    cudaEventRecord(t->joined[side], t->side[side]);
    cudaStreamWaitEvent(t->main, t->joined[side], 0);
}

/* Of the three that follow combine the hidden gradient, which most waits for, is sent first, and
 * rows last, which fill what is left; blocks that are there once stay until they are done, whatever
 * their priority.  Carried rows are chosen by heat, which moving the rows leaves: then learning
 * follows it. */
static void step(struct wisp_cuda_trainer *t, bool looks)
{
    for (int p = WISP_CUDA_BEGIN; p <= WISP_CUDA_UNITE; p++)
        run_part(t, (enum wisp_cuda_part)p, t->main);
    if (looks) {
        cudaEventRecord(t->looks[0], t->main);
        look(t, t->main);
        cudaEventRecord(t->looks[1], t->main);
        t->looked = true;
    }
    run_part(t, WISP_CUDA_FORWARD, t->main);
    run_part(t, WISP_CUDA_COMBINE, t->main);
    fork_side(t, 0);
    fork_side(t, 1);
    run_part(t, WISP_CUDA_HIDDEN, t->main);
    run_part(t, WISP_CUDA_BEST, t->side[1]);
    run_part(t, WISP_CUDA_ROWS, t->side[0]);
    if (t->s.finders.neighbours.n_carried) {
        cudaEventRecord(t->joined[0], t->side[0]);
        cudaStreamWaitEvent(t->side[1], t->joined[0], 0);
    }
    run_part(t, WISP_CUDA_LEARN, t->side[1]);
    run_part(t, WISP_CUDA_LAYERS_BACK, t->main);
    run_part(t, WISP_CUDA_BACK, t->main);
    join_side(t, 0);
    join_side(t, 1);
}

/* A library loads what it launches the first time, which a capture does not allow: all layers run
 * once on a batch of no samples, by which nothing moves. */
static cudaError_t warm_up(struct wisp_cuda_trainer *t)
{
    bool made = false;
    for (size_t i = 0; i < t->net.n_layers; i++) made |= t->net.layers[i].made != NULL;
    if (!made) return cudaSuccess;
    cudaError_t e = cudaMemsetAsync(t->now, 0, sizeof *t->now, t->main);
    for (bool rows : { true, false }) wisp_dnet_forward(t->net, rows, t->main);
    for (bool rows : { false, true }) wisp_dnet_backward(t->net, rows, t->main);
    return e == cudaSuccess ? cudaGetLastError() : e;
}

static cudaError_t capture_steps(struct wisp_cuda_trainer *t, size_t n, cudaGraphExec_t *out)
{
    cudaGraph_t graph = NULL;
    cudaError_t e = cudaStreamBeginCapture(t->main, cudaStreamCaptureModeThreadLocal);
    if (e != cudaSuccess) return e;
    for (size_t s = 0; s < n; s++) step(t, false);
    e = cudaStreamEndCapture(t->main, &graph);
    if (e == cudaSuccess) e = cudaGraphInstantiate(out, graph, 0);
    if (graph) cudaGraphDestroy(graph);
    return e;
}

static wisp_status capture(struct wisp_cuda_trainer *t, wisp_error *err)
{
    cudaError_t e = warm_up(t);
    if (e == cudaSuccess) e = capture_steps(t, 1, &t->graph);
    if (e == cudaSuccess) e = capture_steps(t, SEVERAL, &t->several);
    const wisp_status st = wisp_dnet_status(t->net, err);
    return st == WISP_OK ? wisp_dcheck(e, "recording a step", err) : st;
}

/* Steps within a graph follow each other sooner than graphs do. */
static cudaError_t replay(struct wisp_cuda_trainer *t, size_t n)
{
    cudaError_t e = cudaSuccess;
    for (; n >= SEVERAL && e == cudaSuccess; n -= SEVERAL) e = cudaGraphLaunch(t->several, t->main);
    for (; n > 0 && e == cudaSuccess; n--) e = cudaGraphLaunch(t->graph, t->main);
    return e;
}

/* Steps of ranks: what is to be added up stands between kernels, and the host may have to wait there.
 * No label is sampled, so that there is no recall to look at, and no net becomes smaller (model/ranks.c). */
static cudaError_t run_with_ranks(struct wisp_cuda_trainer *t, size_t n)
{
    for (size_t s = 0; s < n && t->net.refused == WISP_OK; s++) {
        wisp_dranks_begin(t->ranks, t->main);
        step(t, false);
        wisp_dranks_move(t->net, t->main);
        wisp_dranks_pace(t->net, t->main);
    }
    return cudaGetLastError();
}

/* Steps, and what a penalty does after some of them; looks: recall is measured in the last one, which
 * is not replayed then. */
static cudaError_t run_steps(struct wisp_cuda_trainer *t, const double *shorter, size_t n,
                             bool looks)
{
    cudaError_t e = cudaSuccess;
    if (t->net.ranks) return run_with_ranks(t, n);
    for (size_t s = 0, end; s < n && e == cudaSuccess; s = end) {
        for (end = s + 1; end < n && shorter[end - 1] == 0;) end++;
        const bool last = looks && end == n;
        e = replay(t, end - s - last);
        if (last && e == cudaSuccess) step(t, true);
        if (shorter[end - 1] > 0) wisp_dpenalty_move(t->penalty, shorter[end - 1], t->main);
    }
    return e;
}

/* ---- runs of steps ---- */

/* Adds the time of the last measuring of recall, once that is done. */
static cudaError_t count_look(struct wisp_cuda_trainer *t)
{
    float ms = 0;
    if (!t->looked) return cudaSuccess;
    cudaError_t e = cudaEventSynchronize(t->looks[1]);
    if (e == cudaSuccess) e = cudaEventElapsedTime(&ms, t->looks[0], t->looks[1]);
    t->looked = false;
    t->look_s += 1e-3 * ms;
    return e;
}

static size_t most_steps(const struct wisp_cuda_trainer *t)
{
    return t->steps;
}

/* Tables are made when the first step of an epoch comes (so a resumed run has the same), then every
 * 'gap' steps, looked at where a chunk begins. */
static void keep_tables(struct wisp_cuda_trainer *t, uint64_t first, bool anew)
{
    const auto *h = &t->s.finders.hash;
    if (!h->n_tables || (!anew && first < t->next_build)) return;
    if (anew) {
        begin(t, 0, t->main);
        wisp_dnet_forward(t->net, true, t->main);
        wisp_dnet_forward(t->net, false, t->main);
        wisp_hash_observe(t->hash, true, t->main);
        t->gap = h->first_gap;
    } else {
        t->gap += (t->gap + 4) / 5;
        if (t->gap > MOST_GROWTH * h->first_gap) t->gap = MOST_GROWTH * h->first_gap;
    }
    t->next_build = first + t->gap;
    wisp_hash_build(t->hash, t->main);
}

/* Adds the features and labels of a row. */
static void count_row(const struct wisp_cuda_trainer *t, uint32_t row, size_t *nnz, size_t *labels)
{
    size_t lo = 0, hi = t->s.n_blocks;
    while (hi - lo > 1) {
        size_t mid = (lo + hi) / 2;
        if (t->first_row[mid] <= row) lo = mid;
        else hi = mid;
    }
    const struct wisp_cuda_block *b = &t->s.blocks[lo];
    uint32_t at = row - t->first_row[lo];
    *nnz += b->xp[at + 1] - b->xp[at];
    *labels += b->yp[at + 1] - b->yp[at];
}

static wisp_status run(struct wisp_cuda_trainer *t, const uint32_t *ids,
                       const struct wisp_moved *moved, const struct wisp_cuda_share *n,
                       const float *lr, const double *shorter, size_t n_steps, uint64_t first,
                       bool looks, bool anew, wisp_error *err)
{
    size_t c = t->n_chunks++ % 2, batch = t->s.batch, nnz = 0, labels = 0;
    struct wisp_dchunk *k = &t->chunk[c];
    wisp_status st = wisp_dcheck(cudaEventSynchronize(t->laid[c]), "a step", err);
    if (st != WISP_OK) return st;
    memset(t->host_now[c], 0, n_steps * sizeof *t->host_now[c]);
    for (size_t s = 0; s < n_steps; s++) {
        struct wisp_dnow *now = &t->host_now[c][s];
        const uint32_t m = n[s].n;
        now->n = m, now->before = n[s].before, now->all = n[s].all;
        now->step = first + s, now->seed = t->s.seed, now->lr = lr[s];
        now->moved = moved && t->s.pixels ? t->moved[c] + s * batch : NULL;
        if (now->moved) memcpy(t->host_moved[c] + s * batch, moved + s * batch, m * sizeof *moved);
        memcpy(t->host_ids[c] + s * batch, ids + s * batch, m * sizeof *ids);
        for (size_t i = 0; i < m; i++) count_row(t, ids[s * batch + i], &nnz, &labels);
    }
    cudaStreamWaitEvent(t->lay, t->used[c], 0);
    cudaMemcpyAsync(k->now, t->host_now[c], n_steps * sizeof *k->now, cudaMemcpyHostToDevice,
                    t->lay);
    cudaMemcpyAsync(k->ids, t->host_ids[c], n_steps * batch * sizeof *ids, cudaMemcpyHostToDevice,
                    t->lay);
    if (moved && t->s.pixels)
        cudaMemcpyAsync(t->moved[c], t->host_moved[c], n_steps * batch * sizeof *moved,
                        cudaMemcpyHostToDevice, t->lay);
    wisp_chunk_fill(*k, t->data, n_steps, nnz, labels, t->s.seed, t->lay);
    cudaEventRecord(t->laid[c], t->lay);
    cudaStreamWaitEvent(t->main, t->laid[c], 0);
    set_place<<<1, 1, 0, t->main>>>(t->place, k->now);
    keep_tables(t, first, anew);
    if (!t->graph && !t->net.ranks) st = capture(t, err);
    cudaError_t e = looks ? count_look(t) : cudaSuccess; /* its events are used again */
    if (st == WISP_OK && e == cudaSuccess) e = run_steps(t, shorter, n_steps, looks);
    if (st == WISP_OK) st = wisp_dnet_status(t->net, err);
    cudaEventRecord(t->used[c], t->main);
    t->last_steps = n_steps, t->last_nnz = nnz, t->last_labels = labels;
    if (e == cudaSuccess) e = cudaGetLastError();
    return st == WISP_OK ? wisp_dcheck(e, "a step", err) : st;
}

static wisp_status wait_for_steps(struct wisp_cuda_trainer *t, struct wisp_cuda_seen *out,
                                  wisp_error *err)
{
    struct wisp_dsums s;
    const wisp_status st = wisp_dranks_wait(t->ranks, t->main, err);
    if (st != WISP_OK) return st;
    cudaError_t e = cudaStreamSynchronize(t->main);
    if (e == cudaSuccess) e = cudaMemcpy(&s, t->sums, sizeof s, cudaMemcpyDeviceToHost);
    if (e == cudaSuccess && t->n_live)
        e = cudaMemcpy(t->host_live, t->live, t->n_live * sizeof *t->live, cudaMemcpyDeviceToHost);
    if (e == cudaSuccess) e = count_look(t);
    if (e != cudaSuccess) return wisp_dcheck(e, "a step", err);
    double k = t->look.k ? (double)t->look.k : 1;
    *out = { s.loss,    s.counts[0],       s.counts[1],       s.counts[2],
             s.touched, (double)s.own / k, (double)s.set / k, s.looked,
             t->look_s };
    return WISP_OK;
}

static size_t live_of(const struct wisp_cuda_trainer *t, int layer, uint64_t *live)
{
    const struct wisp_dlive &l = t->net.acts[layer + 1].live_first;
    if (!l.at) return 0;
    const unsigned long long *from = t->host_live + (l.at - t->live);
    size_t samples = 0;
    for (size_t b = 0; b < l.blocks; b++) live[b] = 0;
    for (size_t i = 0; i < WISP_DLIVE_COPIES; i++, from += 1 + l.blocks) {
        samples += from[0];
        for (size_t b = 0; b < l.blocks; b++) live[b] += from[1 + b];
    }
    return samples;
}

/* ---- making and freeing ---- */

static void release(struct wisp_cuda_trainer *t)
{
    if (!t) return;
    wisp_dranks_wait(t->ranks, t->main,
                     NULL); /* or gives up: what waits for a lost rank never ends */
    cudaDeviceSynchronize();
    wisp_dranks_clear(&t->ranks);
    if (t->graph) cudaGraphExecDestroy(t->graph);
    if (t->several) cudaGraphExecDestroy(t->several);
    wisp_trainer_empty(t);
    wisp_dstate_close(&t->net.state);
    cudaEvent_t events[] = { t->forked,   t->joined[0], t->joined[1], t->laid[0],
                             t->laid[1],  t->used[0],   t->used[1],   t->looks[0],
                             t->looks[1], t->ready,     t->done };
    cudaStream_t streams[] = { t->main, t->side[0], t->side[1], t->weights, t->lay };
    for (cudaEvent_t e : events)
        if (e) cudaEventDestroy(e);
    for (cudaStream_t s : streams)
        if (s) cudaStreamDestroy(s);
    for (int c = 0; c < 2; c++) {
        cudaFreeHost(t->host_now[c]);
        cudaFreeHost(t->host_ids[c]);
        cudaFreeHost(t->host_moved[c]);
    }
    delete[] t->first_row;
    delete t;
}

/* What the next step waits for longest goes first: the hidden gradient and the first layer (main),
 * best rows and learning (side 1); then moving rows (side 0), which fills the card by itself, and
 * those of layers of image nets (weights); the next chunk takes what is left.  Nodes of the graph have the priority of their stream. */
static cudaError_t make_streams(struct wisp_cuda_trainer *t)
{
    int low = 0, high = 0; /* smaller numbers go first */
    cudaError_t e = cudaDeviceGetStreamPriorityRange(&low, &high);
    const struct {
        cudaStream_t *stream;
        int priority;
    } streams[] = { { &t->main, high },
                    { &t->side[0], (low + high) / 2 },
                    { &t->side[1], high },
                    { &t->weights, (low + high) / 2 },
                    { &t->lay, low } };
    cudaEvent_t *events[] = { &t->forked,  &t->joined[0], &t->joined[1], &t->laid[0], &t->laid[1],
                              &t->used[0], &t->used[1],   &t->ready,     &t->done };
    for (auto &s : streams)
        if (e == cudaSuccess)
            e = cudaStreamCreateWithPriority(s.stream, cudaStreamNonBlocking, s.priority);
    for (cudaEvent_t *v : events)
        if (e == cudaSuccess) e = cudaEventCreateWithFlags(v, cudaEventDisableTiming);
    for (cudaEvent_t &v : t->looks)
        if (e == cudaSuccess) e = cudaEventCreate(&v);
    for (int c = 0; c < 2 && e == cudaSuccess; c++) {
        e = cudaMallocHost((void **)&t->host_now[c], t->steps * sizeof *t->host_now[c]);
        if (e == cudaSuccess)
            e = cudaMallocHost((void **)&t->host_ids[c], t->steps * t->s.batch * 4);
        if (e == cudaSuccess && t->s.pixels)
            e = cudaMallocHost((void **)&t->host_moved[c],
                               t->steps * t->s.batch * sizeof *t->host_moved[c]);
    }
    return e;
}

static wisp_status create(struct wisp_cuda_trainer **out, const struct wisp_cuda_setup *s,
                          wisp_error *err)
{
    *out = NULL;
    wisp_status st = wisp_dnet_check(&s->graph, &s->finders, err);
    if (st != WISP_OK) return st;
    struct wisp_cuda_trainer *t = *out = new (std::nothrow) wisp_cuda_trainer();
    if (t) t->first_row = new (std::nothrow) uint32_t[s->n_blocks + 1];
    if (!t || !t->first_row) {
        delete t;
        *out = NULL;
        return wisp_dfail(err, WISP_ENOMEM, "no memory left for the card's run");
    }
    t->s = *s;
    for (size_t b = 0, row = 0; b < s->n_blocks; row += s->blocks[b++].n)
        t->first_row[b] = (uint32_t)row;
    st = wisp_trainer_fill(t, err);
    if (st == WISP_OK) st = wisp_dcheck(make_streams(t), "making streams", err);
    if (st == WISP_OK) st = wisp_dranks_make(&t->ranks, err);
    if (st == WISP_OK && t->net.state.n)
        st = wisp_dcheck(wisp_dstate_open(&t->net.state), "making streams", err);
    t->net.side.stream = t->weights, t->net.side.ready = t->ready, t->net.side.done = t->done;
    if (st != WISP_OK) {
        release(t);
        *out = NULL;
    }
    return st;
}

static wisp_status meet(struct wisp_cuda_trainer *t, const unsigned char id[WISP_CUDA_ID],
                        wisp_error *err)
{
    return wisp_dnccl_join(&t->ranks.library, t->ranks.how, id, err);
}

/* ---- times ---- */

static double copy_speed(struct wisp_cuda_trainer *t, cudaEvent_t a, cudaEvent_t b)
{
    size_t free_bytes = 0, all = 0, bytes;
    char *p = NULL;
    float ms = 0;
    cudaMemGetInfo(&free_bytes, &all);
    bytes = free_bytes / 4 < (size_t)1 << 30 ? free_bytes / 4 : (size_t)1 << 30;
    if (cudaMalloc((void **)&p, 2 * bytes) != cudaSuccess) return 0;
    for (int i = 0; i < 12; i++) {
        if (i == 2) cudaEventRecord(a, t->main);
        cudaMemcpyAsync(p + bytes, p, bytes, cudaMemcpyDeviceToDevice, t->main);
    }
    cudaEventRecord(b, t->main);
    cudaEventSynchronize(b);
    cudaEventElapsedTime(&ms, a, b);
    cudaFree(p);
    return ms > 0 ? 10 * 2e-6 * (double)bytes / ms : 0;
}

/* All groups become shorter, so that all are written, by next to nothing. */
static const double TINY_PENALTY = 1e-6;
enum { PENALTIES = 10 };

/* Each part alone, over the steps of the last chunk. */
static wisp_status time_parts(struct wisp_cuda_trainer *t, struct wisp_cuda_times *out,
                              wisp_error *err)
{
    cudaEvent_t at[WISP_CUDA_PARTS + 1];
    double ms[WISP_CUDA_PARTS] = {};
    size_t c = (t->n_chunks - 1) % 2, n = t->last_steps;
    cudaError_t e = cudaDeviceSynchronize();
    for (int p = 0; p <= WISP_CUDA_PARTS && e == cudaSuccess; p++) e = cudaEventCreate(&at[p]);
    if (e != cudaSuccess) return wisp_dcheck(e, "timing", err);
    *out = {};
    set_place<<<1, 1, 0, t->main>>>(t->place, t->chunk[c].now);
    for (size_t s = 0; s < n; s++) {
        for (int p = 0; p < WISP_CUDA_PARTS; p++) {
            cudaEventRecord(at[p], t->main);
            run_part(t, (enum wisp_cuda_part)p, t->main);
        }
        cudaEventRecord(at[WISP_CUDA_PARTS], t->main);
        cudaEventSynchronize(at[WISP_CUDA_PARTS]);
        for (int p = 0; p < WISP_CUDA_PARTS; p++) {
            float one = 0;
            cudaEventElapsedTime(&one, at[p], at[p + 1]);
            ms[p] += one;
        }
    }
    for (int p = 0; p < WISP_CUDA_PARTS; p++) out->us[p] = 1e3 * ms[p] / (double)n;
    float one = 0;
    set_place<<<1, 1, 0, t->main>>>(t->place, t->chunk[c].now);
    cudaEventRecord(at[0], t->main);
    e = replay(t, n);
    cudaEventRecord(at[1], t->main);
    wisp_chunk_fill(t->chunk[c], t->data, n, t->last_nnz, t->last_labels, t->s.seed, t->main);
    cudaEventRecord(at[2], t->main);
    if (t->s.finders.hash.n_tables) wisp_hash_build(t->hash, t->main);
    cudaEventRecord(at[3], t->main);
    for (int i = 0; i < PENALTIES; i++) wisp_dpenalty_move(t->penalty, TINY_PENALTY, t->main);
    cudaEventRecord(at[4], t->main);
    cudaEventSynchronize(at[4]);
    cudaEventElapsedTime(&one, at[0], at[1]);
    out->step_us = 1e3 * one / (double)n;
    cudaEventElapsedTime(&one, at[1], at[2]);
    out->layout_us = 1e3 * one / (double)n;
    cudaEventElapsedTime(&one, at[2], at[3]);
    out->tables_us = t->s.finders.hash.n_tables ? 1e3 * one : 0;
    cudaEventElapsedTime(&one, at[3], at[4]);
    out->penalty_us = t->penalty.n_sides ? 1e3 * one / PENALTIES : 0;
    out->copy_gb_per_s = copy_speed(t, at[0], at[1]);
    for (int p = 0; p <= WISP_CUDA_PARTS; p++) cudaEventDestroy(at[p]);
    return wisp_dcheck(e == cudaSuccess ? cudaGetLastError() : e, "timing", err);
}

static bool has_family(const char *name)
{
    return wisp_hash_family(name) >= 0;
}

static bool has_kind(const char *name)
{
    return wisp_card_kind_find(name) != NULL;
}

/* ---- the table: C++17 has no designated initialisers ---- */

static struct wisp_cuda filled()
{
    struct wisp_cuda t = {};
    t.version = WISP_CUDA_VERSION;
    t.graph_bytes = sizeof(struct wisp_graph), t.layer_bytes = sizeof(struct wisp_layer);
    t.act_bytes = sizeof(struct wisp_act), t.param_bytes = sizeof(struct wisp_param);
    t.optimizers = 1u << WISP_ADAM | 1u << WISP_ADAGRAD | 1u << WISP_SGD;
    t.losses = 1u << WISP_SOFTMAX | 1u << WISP_BCE;
    t.precisions = 1u << WISP_IN_FP32 | 1u << WISP_IN_BF16 | 1u << WISP_IN_TF32;
    t.has_family = has_family;
    t.has_kind = has_kind;
    t.convolver = wisp_dconv_library;
    t.adder = wisp_dnccl_says;
    t.choose = wisp_dcard_choose;
    t.card = wisp_dcard_ask;
    t.new_id = wisp_dnccl_id;
    t.meet = meet;
    t.check = wisp_dnet_check;
    t.bytes = wisp_trainer_bytes;
    t.create = create;
    t.free = release;
    t.most_steps = most_steps;
    t.run = run;
    t.wait = wait_for_steps;
    t.live = live_of;
    t.fetch = wisp_trainer_fetch;
    t.time = time_parts;
    t.create_scorer = wisp_dscorer_create;
    t.free_scorer = wisp_dscorer_free;
    t.score = wisp_dscorer_score;
    t.create_runner = wisp_ddeep_create;
    t.free_runner = wisp_ddeep_free;
    t.run_deep = wisp_ddeep_run;
    return t;
}

extern "C" __attribute__((visibility("default"))) const struct wisp_cuda *wisp_cuda_table(void)
{
    static const struct wisp_cuda table = filled();
    return &table;
}

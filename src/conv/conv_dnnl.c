/* The ways 'onednn' and 'onednn-winograd': convolutions of oneDNN 2 (wisp-dnnl.so).
 *
 * oneDNN's blocks of 16 channels (nChw16c) are ours, and its orders of weights are packed here:
 *
 *   forward   OIhw16i16o; of an input of few channels (block 1) Ohwi16o
 *   data      OIhw16o16i
 *   weights   as forward: gw, one for each part of the batch, added up in the order of parts
 *
 * A batch is divided among our threads, and each calls oneDNN for its part on itself alone: OpenMP's
 * threads, which oneDNN would start, would fight ours for the cores.  So the gradient of the weights
 * is summed by as many parts as there are threads, and only here bytes depend on their number.
 *
 * A primitive is code that oneDNN makes for one problem and one number of samples.  They are made
 * when they are first needed, and kept in a list until the process ends. */
#include "conv/dnnl.h"

#include <dnnl.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct problem {
    struct wisp_conv c; /* without batch and threads */
    enum wisp_conv_pass pass;
    dnnl_alg_kind_t alg;
    size_t n;
    bool bias, relu;
};

struct made { /* a primitive, or that there is none */
    struct problem of;
    dnnl_primitive_t code; /* NULL: oneDNN cannot */
    bool slow;             /* computed without a kernel made for it */
    size_t scratch_bytes;
    dnnl_memory_desc_t in, weights, out, bias, scratch;
    struct made *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct made *list;
static dnnl_engine_t engine;
static bool slow_allowed;
static wisp_dnnl_loop *loop; /* the library's wisp_parallel_for */

/* ---- primitives ---- */

static bool describe(dnnl_memory_desc_t *out, int dims, const dnnl_dim_t *dim,
                     dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(out, dims, dim, dnnl_f32, tag) == dnnl_success;
}

static bool describe_weights(dnnl_memory_desc_t *out, const struct wisp_conv *c, bool transposed)
{
    const dnnl_dim_t groups = (dnnl_dim_t)c->groups, o = (dnnl_dim_t)(c->out / c->groups),
                     i = (dnnl_dim_t)(c->in / c->groups), h = (dnnl_dim_t)c->kh,
                     w = (dnnl_dim_t)c->kw;
    if (c->groups > 1)
        return describe(out, 5, (dnnl_dims_t){ groups, o, i, h, w },
                        transposed      ? dnnl_gOIhw16o16i
                        : c->block == 1 ? dnnl_gOhwi16o
                                        : dnnl_gOIhw16i16o);
    return describe(out, 4, (dnnl_dims_t){ o, i, h, w },
                    transposed      ? dnnl_OIhw16o16i
                    : c->block == 1 ? dnnl_Ohwi16o
                                    : dnnl_OIhw16i16o);
}

static bool describe_all(struct made *m)
{
    const struct wisp_conv *c = &m->of.c;
    const dnnl_dim_t n = (dnnl_dim_t)m->of.n, out = (dnnl_dim_t)c->out;
    return describe(&m->in, 4,
                    (dnnl_dims_t){ n, (dnnl_dim_t)c->in, (dnnl_dim_t)c->h, (dnnl_dim_t)c->w },
                    c->block == 1 ? dnnl_nchw : dnnl_nChw16c) &&
           describe(&m->out, 4, (dnnl_dims_t){ n, out, (dnnl_dim_t)c->oh, (dnnl_dim_t)c->ow },
                    dnnl_nChw16c) &&
           describe(&m->bias, 1, (dnnl_dims_t){ out }, dnnl_a) &&
           describe_weights(&m->weights, c, m->of.pass == WISP_CONV_DATA);
}

static dnnl_status_t describe_op(dnnl_convolution_desc_t *op, const struct made *m)
{
    const struct wisp_conv *c = &m->of.c;
    const dnnl_dims_t stride = { (dnnl_dim_t)c->stride, (dnnl_dim_t)c->stride },
                      pad = { (dnnl_dim_t)c->pad_h, (dnnl_dim_t)c->pad_w },
                      /* what is past the last place of the kernel is not read */
        end = { (dnnl_dim_t)((c->oh - 1) * c->stride + c->kh) - (dnnl_dim_t)(c->h + c->pad_h),
                (dnnl_dim_t)((c->ow - 1) * c->stride + c->kw) - (dnnl_dim_t)(c->w + c->pad_w) };
    switch (m->of.pass) {
    case WISP_CONV_FORWARD:
        return dnnl_convolution_forward_desc_init(op, dnnl_forward_training, m->of.alg, &m->in,
                                                  &m->weights, m->of.bias ? &m->bias : NULL,
                                                  &m->out, stride, pad, end);
    case WISP_CONV_DATA:
        return dnnl_convolution_backward_data_desc_init(op, m->of.alg, &m->in, &m->weights, &m->out,
                                                        stride, pad, end);
    default:
        return dnnl_convolution_backward_weights_desc_init(op, m->of.alg, &m->in, &m->weights, NULL,
                                                           &m->out, stride, pad, end);
    }
}

static dnnl_primitive_attr_t attributes(bool relu)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    if (dnnl_primitive_attr_create(&attr) != dnnl_success) return NULL;
    bool ok =
        dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) == dnnl_success;
    if (ok && relu)
        ok = dnnl_post_ops_create(&ops) == dnnl_success &&
             dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_relu, 0, 0) == dnnl_success &&
             dnnl_primitive_attr_set_post_ops(attr, ops) == dnnl_success;
    if (ops) dnnl_post_ops_destroy(ops);
    if (!ok) dnnl_primitive_attr_destroy(attr);
    return ok ? attr : NULL;
}

/* As many channels as a group has, but in blocks of 16. */
static bool blocks_fit(const struct wisp_conv *c)
{
    return c->groups == 1 || (c->in / c->groups % WISP_PLANE_BLOCK == 0 &&
                              c->out / c->groups % WISP_PLANE_BLOCK == 0);
}

static void make(struct made *m)
{
    dnnl_convolution_desc_t op;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_primitive_attr_t attr = NULL;
    const char *name = NULL;
    if (!engine && dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) return;
    if (!blocks_fit(&m->of.c) || !describe_all(m) || describe_op(&op, m) != dnnl_success) return;
    if (!(attr = attributes(m->of.relu))) return;
    omp_set_num_threads(1); /* of the calling thread; also what is planned for */
    if (dnnl_primitive_desc_create(&desc, &op, attr, engine, NULL) == dnnl_success &&
        dnnl_primitive_create(&m->code, desc) == dnnl_success) {
        dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name);
        m->slow = !name || strncmp(name, "jit", 3) != 0;
        m->scratch = *dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
        m->scratch_bytes = dnnl_memory_desc_get_size(&m->scratch);
    }
    if (desc) dnnl_primitive_desc_destroy(desc);
    dnnl_primitive_attr_destroy(attr);
}

static bool same(const struct problem *a, const struct problem *b)
{
    const struct wisp_conv *c = &a->c, *d = &b->c;
    return a->pass == b->pass && a->alg == b->alg && a->n == b->n && a->bias == b->bias &&
           a->relu == b->relu && c->in == d->in && c->out == d->out && c->h == d->h &&
           c->w == d->w && c->kh == d->kh && c->kw == d->kw && c->stride == d->stride &&
           c->pad_h == d->pad_h && c->pad_w == d->pad_w && c->groups == d->groups &&
           c->block == d->block;
}

/* NULL: out of memory, or oneDNN cannot. */
static const struct made *any_primitive(struct problem of)
{
    pthread_mutex_lock(&lock);
    struct made *m = list;
    while (m && !same(&m->of, &of)) m = m->next;
    if (!m && (m = calloc(1, sizeof *m))) {
        m->of = of;
        make(m);
        m->next = list;
        list = m;
    }
    pthread_mutex_unlock(&lock);
    return m && m->code ? m : NULL;
}

/* One that is worth choosing; a way that was chosen goes on with any where a batch is shorter. */
static const struct made *primitive(struct problem of)
{
    const struct made *m = any_primitive(of);
    return m && (!m->slow || slow_allowed) ? m : NULL;
}

static struct problem problem_of(const struct wisp_conv *c, enum wisp_conv_pass pass,
                                 dnnl_alg_kind_t alg, size_t n)
{
    return (struct problem){ .c = *c, .pass = pass, .alg = alg, .n = n };
}

/* ---- what a way says of itself ---- */

/* Samples of the largest part of a batch. */
static size_t part_of(const struct wisp_conv *c, size_t n)
{
    return wisp_parts(n, (size_t)c->threads);
}

static bool can(const struct wisp_conv *c, enum wisp_conv_pass pass, dnnl_alg_kind_t alg)
{
    return primitive(problem_of(c, pass, alg, part_of(c, c->batch)));
}

/* Floats of packed weights, or of one gw. */
static size_t weight_floats_of(const struct wisp_conv *c, bool transposed)
{
    size_t ins = c->in / c->groups;
    if (c->block > 1 || transposed) ins = wisp_up(ins, WISP_PLANE_BLOCK);
    return c->groups * wisp_up(c->out / c->groups, WISP_PLANE_BLOCK) * ins * c->kh * c->kw;
}

static size_t weight_floats(const struct wisp_conv *c, enum wisp_conv_pass pass)
{
    return weight_floats_of(c, pass == WISP_CONV_DATA) *
           (pass == WISP_CONV_WEIGHTS ? (size_t)c->threads : 1);
}

static size_t thread_floats(const struct wisp_conv *c, enum wisp_conv_pass pass,
                            dnnl_alg_kind_t alg)
{
    size_t most = 0;
    for (size_t n = part_of(c, c->batch); n > 0; n /= 2) /* other numbers: see run_part */
        for (int with = 0; with < (pass == WISP_CONV_FORWARD ? 4 : 1); with++) {
            struct problem of = problem_of(c, pass, alg, n);
            of.bias = with & 1, of.relu = with & 2;
            const struct made *m = primitive(of);
            if (m && m->scratch_bytes > most) most = m->scratch_bytes;
        }
    return wisp_parts(most, sizeof(float));
}

/* Where weight (o, i, p, q) of a group lies. */
static size_t place(const struct wisp_conv *c, bool transposed, size_t o, size_t i, size_t p,
                    size_t q)
{
    enum { B = WISP_PLANE_BLOCK };
    if (c->block == 1 && !transposed)
        return (((o / B * c->kh + p) * c->kw + q) * (c->in / c->groups) + i) * B + o % B;
    size_t blocks = wisp_parts(c->in / c->groups, B),
           at = ((o / B * blocks + i / B) * c->kh + p) * c->kw + q;
    return at * B * B + (transposed ? o % B * B + i % B : i % B * B + o % B);
}

static size_t first_of_group(const struct wisp_conv *c, bool transposed, size_t row)
{
    return row / (c->out / c->groups) * (weight_floats_of(c, transposed) / c->groups);
}

static void pack(const struct wisp_conv *c, enum wisp_conv_pass pass, const struct wisp_kernels *k,
                 float *to, const float *w, size_t row)
{
    (void)k;
    const bool data = pass == WISP_CONV_DATA;
    for (size_t end = row + wisp_conv_rows_from(c, row); row < end; row++) {
        float *group = to + first_of_group(c, data, row);
        const size_t o = row % (c->out / c->groups);
        for (size_t i = 0; i < c->in / c->groups; i++)
            for (size_t p = 0; p < c->kh; p++)
                for (size_t q = 0; q < c->kw; q++) group[place(c, data, o, i, p, q)] = *w++;
    }
}

static void rows(const struct wisp_conv *c, const struct wisp_kernels *k, const float *gw,
                 size_t row, float *out)
{
    (void)k;
    for (size_t end = row + wisp_conv_rows_from(c, row); row < end; row++) {
        const float *group = gw + first_of_group(c, false, row);
        const size_t o = row % (c->out / c->groups);
        for (size_t i = 0; i < c->in / c->groups; i++)
            for (size_t p = 0; p < c->kh; p++)
                for (size_t q = 0; q < c->kw; q++) *out++ = group[place(c, false, o, i, p, q)];
    }
}

/* ---- running ---- */

struct call {
    const struct wisp_conv *c;
    const struct wisp_conv_job *j;
    enum wisp_conv_pass pass;
    dnnl_alg_kind_t alg;
    size_t parts;
    atomic_bool failed, no_memory; /* of any part */
};

enum { MOST_ARGS = 6 };
struct arguments {
    dnnl_exec_arg_t arg[MOST_ARGS];
    int n;
    bool ok;
};

static void put(struct arguments *a, int what, const dnnl_memory_desc_t *md, const void *at)
{
    dnnl_memory_t memory = NULL;
    a->ok &= dnnl_memory_create(&memory, md, engine, (void *)(uintptr_t)at) == dnnl_success;
    a->arg[a->n++] = (dnnl_exec_arg_t){ what, memory };
}

static bool execute(const struct made *m, struct arguments *a)
{
    dnnl_stream_t stream = NULL;
    bool ok =
        a->ok && dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) == dnnl_success;
    omp_set_num_threads(1);
    ok = ok && dnnl_primitive_execute(m->code, stream, a->n, a->arg) == dnnl_success &&
         dnnl_stream_wait(stream) == dnnl_success;
    if (stream) dnnl_stream_destroy(stream);
    for (int i = 0; i < a->n; i++) dnnl_memory_destroy(a->arg[i].memory);
    return ok;
}

/* Where oneDNN may work: in the thread's scratch, or in a block of its own, *taken, where that is too
 * short.  Winograd's needs more than twice as much for some shorter batches than for the whole one (61
 * samples: 22 MB, 64: 9), and only trying each number of samples would tell which: the last batch of an
 * epoch, whose length may be such a number, takes it from the heap.  False: no memory. */
static bool scratch_of(void **scratch, void **taken, const struct made *m,
                       const struct wisp_conv_job *j, int thread)
{
    *scratch = *taken = NULL;
    if (m->scratch_bytes == 0) return true;
    if (m->scratch_bytes > j->thread_apart * sizeof(float))
        *scratch = *taken = aligned_alloc(64, wisp_up(m->scratch_bytes, 64));
    else *scratch = j->thread_scratch + (size_t)thread * j->thread_apart;
    return *scratch;
}

static void run_part(void *arg, size_t part, int thread)
{
    struct call *call = arg;
    const struct wisp_conv *c = call->c;
    const struct wisp_conv_job *j = call->j;
    const size_t first = j->n * part / call->parts, n = j->n * (part + 1) / call->parts - first,
                 in = first * wisp_conv_in_floats(c), out = first * wisp_conv_out_floats(c);
    struct problem of = problem_of(c, call->pass, call->alg, n);
    of.bias = j->bias && call->pass == WISP_CONV_FORWARD;
    of.relu = j->relu && call->pass == WISP_CONV_FORWARD;
    const struct made *m = any_primitive(of);
    struct arguments a = { .ok = true };
    void *taken, *scratch;
    if (!m || !scratch_of(&scratch, &taken, m, j, thread)) {
        *(m ? &call->no_memory : &call->failed) = true;
        return;
    }
    switch (call->pass) {
    case WISP_CONV_FORWARD:
        put(&a, DNNL_ARG_SRC, &m->in, j->x + in);
        put(&a, DNNL_ARG_WEIGHTS, &m->weights, j->w);
        if (of.bias) put(&a, DNNL_ARG_BIAS, &m->bias, j->bias);
        put(&a, DNNL_ARG_DST, &m->out, j->y + out);
        break;
    case WISP_CONV_DATA:
        put(&a, DNNL_ARG_DIFF_SRC, &m->in, j->gx + in);
        put(&a, DNNL_ARG_WEIGHTS, &m->weights, j->w);
        put(&a, DNNL_ARG_DIFF_DST, &m->out, j->gy + out);
        break;
    default:
        put(&a, DNNL_ARG_SRC, &m->in, j->x + in);
        put(&a, DNNL_ARG_DIFF_WEIGHTS, &m->weights, j->gw + part * weight_floats_of(c, false));
        put(&a, DNNL_ARG_DIFF_DST, &m->out, j->gy + out);
    }
    put(&a, DNNL_ARG_SCRATCHPAD, &m->scratch, scratch);
    if (!execute(m, &a)) call->failed = true;
    free(taken);
}

enum { PIECE = 4096 };

static void add_piece(void *arg, size_t piece, int thread)
{
    (void)thread;
    const struct call *call = arg;
    const size_t all = weight_floats_of(call->c, false), at = piece * PIECE,
                 n = all - at < PIECE ? all - at : PIECE;
    float *sum = call->j->gw + at;
    for (size_t part = 1; part < call->parts; part++)
        for (size_t i = 0; i < n; i++) sum[i] += sum[part * all + i];
}

static wisp_status fail(const struct call *call, wisp_error *err)
{
    const struct wisp_conv *c = call->c;
    const wisp_status st = call->failed ? WISP_ENOTSUP : WISP_ENOMEM;
    if (!err) return st;
    *err = (wisp_error){ .code = st };
    snprintf(err->text, sizeof err->text,
             "oneDNN %s a convolution of %zu samples from %zu x %zu x %zu to %zu channels with a "
             "kernel of %zux%zu; set WISP_CONV=direct",
             call->failed ? "cannot compute" : "finds no memory for", call->j->n, c->in, c->h, c->w,
             c->out, c->kh, c->kw);
    return st;
}

static wisp_status run(const struct wisp_conv *c, enum wisp_conv_pass pass,
                       const struct wisp_conv_job *j, dnnl_alg_kind_t alg, wisp_error *err)
{
    const size_t threads = (size_t)c->threads;
    struct call call = { c, j, pass, alg, j->n < threads ? j->n : threads, false, false };
    if (j->n == 0) { /* nothing to call oneDNN for; gradients of no samples are 0 */
        if (pass == WISP_CONV_WEIGHTS) memset(j->gw, 0, weight_floats_of(c, false) * sizeof *j->gw);
        return WISP_OK;
    }
    loop(j->pool, call.parts, run_part, &call);
    if (call.failed || call.no_memory) return fail(&call, err);
    if (pass == WISP_CONV_WEIGHTS && call.parts > 1)
        loop(j->pool, wisp_parts(weight_floats_of(c, false), PIECE), add_piece, &call);
    return WISP_OK;
}

/* ---- the two ways ---- */

#define WAY(name, alg)                                                                             \
    static bool name##_can(const struct wisp_conv *c, enum wisp_conv_pass pass,                    \
                           const struct wisp_kernels *k)                                           \
    {                                                                                              \
        (void)k;                                                                                   \
        return can(c, pass, alg);                                                                  \
    }                                                                                              \
    static size_t name##_thread_floats(const struct wisp_conv *c, enum wisp_conv_pass pass)        \
    {                                                                                              \
        return thread_floats(c, pass, alg);                                                        \
    }                                                                                              \
    static wisp_status name##_run(const struct wisp_conv *c, enum wisp_conv_pass pass,             \
                                  const struct wisp_conv_job *j, wisp_error *err)                  \
    {                                                                                              \
        return run(c, pass, j, alg, err);                                                          \
    }
WAY(direct, dnnl_convolution_direct)
WAY(winograd, dnnl_convolution_winograd)

static const struct wisp_conv_way direct_way = {
    .name = "onednn",
    .what = "oneDNN's direct convolution",
    .can = direct_can,
    .weight_floats = weight_floats,
    .thread_floats = direct_thread_floats,
    .pack = pack,
    .rows = rows,
    .run = direct_run,
};
static const struct wisp_conv_way winograd_way = {
    .name = "onednn-winograd",
    .what = "oneDNN's Winograd transform, for kernels of 3x3",
    .can = winograd_can,
    .weight_floats = weight_floats,
    .thread_floats = winograd_thread_floats,
    .pack = pack,
    .rows = rows,
    .run = winograd_run,
};

static void use(wisp_dnnl_loop *with, bool slow)
{
    pthread_mutex_lock(&lock);
    loop = with;
    slow_allowed = slow;
    pthread_mutex_unlock(&lock);
}

WISP_API const struct wisp_dnnl_part *wisp_dnnl_table(void);
const struct wisp_dnnl_part *wisp_dnnl_table(void)
{
    static const struct wisp_conv_way *const ways[] = { &winograd_way, &direct_way, NULL };
    static const struct wisp_dnnl_part part = { WISP_DNNL_VERSION, ways, use };
    return &part;
}

/* The table of layer kinds, and what they share. */
#include "layer/layer.h"
#include "base/bounds.h"
#include "base/rand.h"
#include "graph/ids.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ROW(name) &wisp_layer_##name,
static const struct wisp_layer_kind *const kinds[] = { WISP_LAYER_KINDS(ROW) };
enum { N_KINDS = sizeof kinds / sizeof *kinds };

const struct wisp_layer_kind *wisp_layer_kind_more;

const struct wisp_layer_kind *wisp_layer_kind_at(size_t i)
{
    return i < N_KINDS ? kinds[i] : i == N_KINDS ? wisp_layer_kind_more : NULL;
}

const struct wisp_layer_kind *wisp_layer_kind_find(const char *name)
{
    const struct wisp_layer_kind *k;
    for (size_t i = 0; (k = wisp_layer_kind_at(i)); i++)
        if (strcmp(k->name, name) == 0) return k;
    return NULL;
}

const struct wisp_arg wisp_args_width[] = {
    { .name = "width",
      .what = "units",
      .type = WISP_ARG_INT,
      .least = 1,
      .most = WISP_MAX_WIDTH,
      .counts = true },
    { .name = NULL },
};

wisp_status wisp_layer_plan_same(struct wisp_layer *l, const struct wisp_act *const *in,
                                 struct wisp_act *out, const struct wisp_layer_sizes *s,
                                 wisp_error *err)
{
    (void)s, (void)err;
    out->shape = in[0]->shape;
    out->form = in[0]->form;
    l->n_out = l->n_in;
    return WISP_OK;
}

void wisp_layer_param_name(char *out, const struct wisp_layer *l, const char *what)
{
    if (l->name[0]) snprintf(out, WISP_PARAM_NAME, "%s.%s", l->name, what);
    else snprintf(out, WISP_PARAM_NAME, "%d.%s.%s", l->number, l->kind->name, what);
}

struct wisp_param *wisp_layer_declare(struct wisp_layer *l, const char *what, enum wisp_role role,
                                      enum wisp_by by, int rank, const size_t *dim)
{
    struct wisp_param *p = wisp_params_add(l->list, rank, dim);
    p->role = role;
    p->by = by;
    p->layer = l->number;
    wisp_layer_param_name(p->name, l, what);
    if (!l->list->full) l->params = p - l->n_params++; /* they stand side by side */
    return p;
}

struct wisp_param *wisp_layer_declare_rows(struct wisp_layer *l, const char *what, enum wisp_by by,
                                           size_t rows, size_t cols)
{
    return wisp_layer_declare(l, what, WISP_TRAINED, by, 2, (size_t[]){ rows, cols });
}

struct wisp_param *wisp_layer_declare_share(struct wisp_layer *l, const char *what, enum wisp_by by,
                                            struct wisp_share share, size_t total, size_t cols)
{
    struct wisp_param *p =
        wisp_layer_declare_rows(l, what, by, wisp_share_rows(share, total), cols);
    p->share = share;
    p->total_rows = total;
    return p;
}

void wisp_layer_move_bias(struct wisp_layer *l, struct wisp_step *s, struct wisp_param *bias,
                          const float *g)
{
    float *sum = wisp_layer_thread(l, 0);
    memset(sum, 0, bias->cols * sizeof *sum);
    for (size_t i = 0; i < s->batch->n; i++)
        s->ctx->k->axpy(sum, g + i * bias->cols, 1, bias->cols);
    s->update->row(s->update, bias, 0, sum);
}

struct runs {
    const struct wisp_kernels *k;
    wisp_run_fn *fn;
    float *y;
    const float *a, *b;
    size_t n;
};
enum { RUN = 1 << 14 };

static void one_run(void *arg, size_t i, int thread)
{
    (void)thread;
    const struct runs *r = arg;
    const size_t at = i * RUN, n = r->n - at < RUN ? r->n - at : RUN;
    r->fn(r->k, r->y + at, r->a ? r->a + at : NULL, r->b ? r->b + at : NULL, n);
}

void wisp_layer_runs(struct wisp_context *ctx, wisp_run_fn *fn, float *y, const float *a,
                     const float *b, size_t n)
{
    struct runs r = { ctx->k, fn, y, a, b, n };
    wisp_parallel_for(ctx->pool, wisp_parts(n, RUN), one_run, &r);
}

void wisp_run_add(const struct wisp_kernels *k, float *y, const float *a, const float *b, size_t n)
{
    (void)b;
    k->axpy(y, a, 1, n);
}

void wisp_run_copy(const struct wisp_kernels *k, float *y, const float *a, const float *b, size_t n)
{
    (void)k, (void)b;
    memcpy(y, a, n * sizeof *y);
}

float wisp_param_at(const struct wisp_param *p, size_t i)
{
    const size_t row = i / p->cols;
    if (p->w) return p->w[i];
    if (p->i8) return (float)p->i8[i] * p->scale[row];
    if (p->codes)
        return p->scale[row] *
               p->value[wisp_codes_at(p->codes + row * wisp_codes_bytes(p->bits, p->cols), p->bits,
                                      i % p->cols)];
    union {
        uint32_t u;
        float f;
    } bits = { (uint32_t)p->b16[i] << 16 };
    return bits.f;
}

struct normal {
    struct wisp_param *p;
    double deviation;
    uint64_t seed, stream;
};
enum { NORMAL_CHUNK = 1 << 14 };

static void normal_chunk(void *arg, size_t chunk, int thread)
{
    (void)thread;
    const struct normal *n = arg;
    size_t all = wisp_param_n(n->p), end = (chunk + 1) * NORMAL_CHUNK;
    for (size_t i = chunk * NORMAL_CHUNK; i < end && i < all; i++) {
        size_t id = i; /* of the number in the rows of all ranks */
        if (!wisp_share_all(n->p->share))
            id = wisp_share_id(n->p->share, i / n->p->cols) * n->p->cols + i % n->p->cols;
        float x = (float)(n->deviation * wisp_rand_normal(n->seed, n->stream, id));
        if (n->p->b16) n->p->b16[i] = wisp_round16(x);
        else n->p->w[i] = x;
    }
}

void wisp_param_normal(struct wisp_param *p, double deviation, uint64_t seed, int stream,
                       struct wisp_pool *pool)
{
    struct normal n = { p, deviation, seed, wisp_stream(WISP_STREAM_INIT, (uint64_t)stream) };
    wisp_parallel_for(pool, wisp_parts(wisp_param_n(p), NORMAL_CHUNK), normal_chunk, &n);
}

void wisp_layer_init_he(struct wisp_layer *l, uint64_t seed, struct wisp_pool *pool)
{
    wisp_param_normal(&l->params[0], sqrt(2.0 / (double)l->n_in), seed, 2 * l->number, pool);
    memset(l->params[1].w, 0, l->n_out * sizeof(float));
}

double wisp_layer_flops_matrix(const struct wisp_layer *l)
{
    return 2 * (double)l->n_in * (double)l->n_out;
}

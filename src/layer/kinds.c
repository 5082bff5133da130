/* The table of layer kinds, and what they share. */
#include "layer/layer.h"
#include "base/rand.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct wisp_layer_kind *const kinds[] = {
    &wisp_layer_input,   &wisp_layer_dense,  &wisp_layer_relu,   &wisp_layer_dropout,
    &wisp_layer_sampled, &wisp_layer_sparse, &wisp_layer_output,
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

const struct wisp_layer_kind *wisp_layer_kind_at(size_t i)
{
    return i < N_KINDS ? kinds[i] : NULL;
}

const struct wisp_layer_kind *wisp_layer_kind_find(const char *name)
{
    for (size_t i = 0; i < N_KINDS; i++)
        if (strcmp(kinds[i]->name, name) == 0) return kinds[i];
    return NULL;
}

void wisp_layer_declare(struct wisp_layer *l, const char *what, size_t rows, size_t cols)
{
    assert(l->n_params < WISP_MAX_PARAMS);
    struct wisp_param *p = &l->params[l->n_params++];
    *p = (struct wisp_param){ .rows = rows, .cols = cols };
    snprintf(p->name, sizeof p->name, "%d.%s.%s", l->number, l->kind->name, what);
}

void wisp_layer_declare_wires(struct wisp_layer *l, size_t fan)
{
    l->wires = (struct wisp_wires){ .fan = fan };
    snprintf(l->wires.name, sizeof l->wires.name, "%d.%s.inputs", l->number, l->kind->name);
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
    size_t all = n->p->rows * n->p->cols, end = (chunk + 1) * NORMAL_CHUNK;
    for (size_t i = chunk * NORMAL_CHUNK; i < end && i < all; i++) {
        float x = (float)(n->deviation * wisp_rand_normal(n->seed, n->stream, i));
        if (n->p->b16) n->p->b16[i] = wisp_round16(x);
        else n->p->w[i] = x;
    }
}

void wisp_param_normal(struct wisp_param *p, double deviation, uint64_t seed, int stream,
                       struct wisp_pool *pool)
{
    struct normal n = { p, deviation, seed, WISP_STREAM_INIT + ((uint64_t)stream << 8) };
    wisp_parallel_for(pool, (p->rows * p->cols + NORMAL_CHUNK - 1) / NORMAL_CHUNK, normal_chunk,
                      &n);
}

void wisp_layer_init_he(struct wisp_layer *l, uint64_t seed, struct wisp_pool *pool)
{
    wisp_param_normal(&l->params[0], sqrt(2.0 / (double)l->n_in), seed, 2 * l->number, pool);
    memset(l->params[1].w, 0, l->n_out * sizeof(float));
}

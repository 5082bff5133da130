/* Tail averaging: the mean of the parameters over the last part of a run. */
#include "base/bounds.h"
#include "model/run.h"

struct averaging {
    float *to;
    const float *from;
    size_t n;
    float share;
};
enum { AVERAGE_CHUNK = 1 << 16 };

static void average_chunk(void *arg, size_t i, int thread)
{
    (void)thread;
    const struct averaging *a = arg;
    size_t end = (i + 1) * AVERAGE_CHUNK < a->n ? (i + 1) * AVERAGE_CHUNK : a->n;
    for (size_t k = i * AVERAGE_CHUNK; k < end; k++) a->to[k] += (a->from[k] - a->to[k]) * a->share;
}

void wisp_average_now(struct wisp_run *r)
{
    struct averaging a = { r->average, r->m->net.params, wisp_net_param_floats(&r->m->net),
                           1.0f / (float)++r->at.n_averaged };
    wisp_parallel_for(r->ctx->pool, wisp_parts(a.n, AVERAGE_CHUNK), average_chunk, &a);
}

bool wisp_average_due(const struct wisp_run *r)
{
    return r->average && (double)r->at.step > (1 - r->plan.average) * (double)r->at.steps;
}

void wisp_average_use(struct wisp_run *r, float *block, const float *was)
{
    struct wisp_net *nets[] = { &r->m->net, &r->scorer.net };
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < nets[i]->list.n; k++) {
            struct wisp_param *p = &nets[i]->list.p[k];
            if (p->w) p->w = block + (p->w - was);
        }
}

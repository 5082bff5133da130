/* The optimisers: Adam, row-wise AdaGrad, SGD with momentum. */
#include "model/optimizer.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

static const float BETA1 = 0.9f, BETA2 = 0.999f, EPS = 1e-8f;
enum { CORRECT_TO = 20000 }; /* from there on 1 - beta2^t is 1 to float's precision */

static void adam_row(const struct wisp_update *u, struct wisp_param *p, size_t row, const float *g)
{
    const struct wisp_optimizer *o = (const struct wisp_optimizer *)u;
    uint32_t t = p->count[row]; /* read once: under hogwild others count too */
    if (t < CORRECT_TO) p->count[row] = ++t;
    float root = sqrtf(o->correct2[t]);
    struct wisp_adam c = { BETA1, BETA2, o->lr * root / o->correct1[t], EPS * root };
    size_t at = row * p->cols;
    o->k->adam(p->w + at, p->m + at, p->v + at, g, p->cols, &c);
}

/* One number a row: the running sum of the row's mean squared gradient. */
static void adagrad_row(const struct wisp_update *u, struct wisp_param *p, size_t row,
                        const float *g)
{
    const struct wisp_optimizer *o = (const struct wisp_optimizer *)u;
    p->g2[row] += o->k->dot(g, g, p->cols) / (float)p->cols;
    if (p->g2[row] > 0) o->k->axpy(p->w + row * p->cols, g, -o->lr / sqrtf(p->g2[row]), p->cols);
}

static void sgd_row(const struct wisp_update *u, struct wisp_param *p, size_t row, const float *g)
{
    const struct wisp_optimizer *o = (const struct wisp_optimizer *)u;
    size_t at = row * p->cols;
    o->k->momentum(p->w + at, p->m + at, g, p->cols, o->momentum, o->lr);
}

static const struct wisp_optimizer_kind kinds[] = {
    { "adam", "each row has its own clock", WISP_SLOT_M | WISP_SLOT_V | WISP_SLOT_COUNT, 4e-3,
      adam_row },
    { "adagrad", "row-wise: one number of state a row", WISP_SLOT_G2, 0.1, adagrad_row },
    { "sgd", "with momentum", WISP_SLOT_M, 0.5, sgd_row },
};

const struct wisp_optimizer_kind *wisp_optimizer_at(size_t i)
{
    return i < sizeof kinds / sizeof *kinds ? &kinds[i] : NULL;
}

const struct wisp_optimizer_kind *wisp_optimizer_find(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
    return NULL;
}

wisp_status wisp_optimizer_init(struct wisp_optimizer *o, const struct wisp_optimizer_kind *kind,
                                const struct wisp_kernels *k, double momentum, wisp_error *err)
{
    *o = (struct wisp_optimizer){
        .update = { kind->row }, .kind = kind, .k = k, .momentum = (float)momentum
    };
    o->correct1 = wisp_alloc(2 * (CORRECT_TO + 1), sizeof(float));
    if (!o->correct1) return wisp_fail_mem(err, 8 * CORRECT_TO, "the optimizer");
    o->correct2 = o->correct1 + CORRECT_TO + 1;
    for (int t = 0; t <= CORRECT_TO; t++) {
        o->correct1[t] = (float)(1 - pow(BETA1, t));
        o->correct2[t] = (float)(1 - pow(BETA2, t));
    }
    return WISP_OK;
}

void wisp_optimizer_clear(struct wisp_optimizer *o)
{
    wisp_free(o->correct1);
    *o = (struct wisp_optimizer){ 0 };
}

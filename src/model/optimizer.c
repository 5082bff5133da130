/* The optimisers: Adam, row-wise AdaGrad, SGD with momentum. */
#include "model/optimizer.h"
#include "base/mem.h"
#include "base/rand.h"

#include <math.h>
#include <string.h>

static const float BETA1 = 0.9f, BETA2 = 0.999f, EPS = 1e-8f;
enum { CORRECT_TO = 20000 }; /* from there on 1 - beta2^t is 1 to float's precision */

/* ---- rows of bf16 ----
 *
 * Where other numbers of the row take part, a piece of it is widened, moved, and the difference
 * added by rounding at random.  The random bits depend on the row and the step alone. */

enum { PIECE = 256 };

static uint32_t bits_for(const struct wisp_optimizer *o, const struct wisp_param *p, size_t row)
{
    return (uint32_t)wisp_mix(o->step * 0x9e3779b97f4a7c15u + row * p->cols);
}

typedef void move_piece(const struct wisp_optimizer *o, struct wisp_param *p, float *w, size_t at,
                        const float *g, size_t n, const void *how);

/* Moves the row through 'fn', in place or by pieces. */
static void move_row(const struct wisp_optimizer *o, struct wisp_param *p, size_t row,
                     const float *g, move_piece *fn, const void *how)
{
    size_t at = row * p->cols;
    if (!p->b16) {
        fn(o, p, p->w + at, at, g, p->cols, how);
        return;
    }
    float w[PIECE], was[PIECE];
    for (size_t c = 0; c < p->cols; c += PIECE) {
        size_t n = p->cols - c < PIECE ? p->cols - c : PIECE;
        o->k->from16(w, p->b16 + at + c, n);
        memcpy(was, w, n * sizeof *w);
        fn(o, p, w, at + c, g + c, n, how);
        for (size_t i = 0; i < n; i++) w[i] -= was[i];
        o->k->axpy16(p->b16 + at + c, w, 1, n, bits_for(o, p, row) + (uint32_t)c * WISP_GOLDEN16);
    }
}

/* ---- the kinds ---- */

static void adam_piece(const struct wisp_optimizer *o, struct wisp_param *p, float *w, size_t at,
                       const float *g, size_t n, const void *how)
{
    o->k->adam(w, p->m + at, p->v + at, g, n, how);
}

static void adam_row(const struct wisp_update *u, struct wisp_param *p, size_t row, const float *g)
{
    const struct wisp_optimizer *o = (const struct wisp_optimizer *)u;
    uint32_t t = p->count[row]; /* read once: under hogwild others count too */
    if (t < CORRECT_TO) p->count[row] = ++t;
    float root = sqrtf(o->correct2[t]);
    struct wisp_adam c = { BETA1, BETA2, o->lr * root / o->correct1[t], EPS * root };
    move_row(o, p, row, g, adam_piece, &c);
}

/* One number a row: the running sum of the row's mean squared gradient. */
static void adagrad_row(const struct wisp_update *u, struct wisp_param *p, size_t row,
                        const float *g)
{
    const struct wisp_optimizer *o = (const struct wisp_optimizer *)u;
    size_t at = row * p->cols;
    float g2 = p->g2[row] += o->k->dot(g, g, p->cols) / (float)p->cols;
    if (!(g2 > 0)) return;
    float step = -o->lr / sqrtf(g2);
    if (p->b16) o->k->axpy16(p->b16 + at, g, step, p->cols, bits_for(o, p, row));
    else o->k->axpy(p->w + at, g, step, p->cols);
}

static void sgd_piece(const struct wisp_optimizer *o, struct wisp_param *p, float *w, size_t at,
                      const float *g, size_t n, const void *how)
{
    (void)how;
    o->k->momentum(w, p->m + at, g, n, o->momentum, o->lr);
}

static void sgd_row(const struct wisp_update *u, struct wisp_param *p, size_t row, const float *g)
{
    move_row((const struct wisp_optimizer *)u, p, row, g, sgd_piece, NULL);
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

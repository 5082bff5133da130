/* The optimisers: Adam, row-wise AdaGrad, SGD with momentum. */
#include "model/optimizer.h"
#include "base/bounds.h"
#include "base/mem.h"
#include "base/rand.h"

#include <math.h>
#include <string.h>

/* ---- numbers kept in bf16 ----
 *
 * Weights, moments or both.  A piece of the row is widened, moved, and put back rounded up or down
 * at random, so that nothing is lost on average.  Rounding to the nearest would lose it all: near
 * its mean v moves by about a thousandth in a step, and bf16 numbers lie 4 to 8 thousandths apart.
 * The random bits depend on the row and the step alone. */

enum { PIECE = 256 };
enum { W, M, V, N_ARRAYS }; /* of a row that move */

/* 16 bits for each of the arrays, from the lowest on, by where the row begins; step + 1, since
 * wisp_mix(0) is 0. */
static uint64_t bits_for(const struct wisp_optimizer *o, size_t first)
{
    return wisp_mix((o->step + 1) * 0x9e3779b97f4a7c15u + first);
}

/* Rounds x itself, as a change of 0: the change from what was there is no number where both are
 * infinite, as v is after a gradient above 1.8e19. */
static void put_back(const struct wisp_kernels *k, uint16_t *to, const float *x, size_t n,
                     uint32_t random)
{
    uint16_t half[PIECE];
    memset(half, 0, n * sizeof *half);
    k->axpy16(half, x, 1, n, random);
    memcpy(to, half, n * sizeof *half);
}

typedef void move_piece(const struct wisp_optimizer *o, float *const x[N_ARRAYS], const float *g,
                        size_t n, const void *how);

/* Moves the row through 'fn': in one piece where it lies, if all of it is fp32. */
static void move_row(const struct wisp_optimizer *o, struct wisp_param *p, size_t row,
                     const float *g, move_piece *fn, const void *how)
{
    float *const f32[N_ARRAYS] = { p->w, p->m, p->v };
    uint16_t *const b16[N_ARRAYS] = { p->b16, p->m16, p->v16 };
    float wide[N_ARRAYS][PIECE], *x[N_ARRAYS];
    size_t all, first = wisp_param_row(p, row, &all);
    size_t most = p->b16 || p->m16 || p->v16 ? PIECE : all;
    for (size_t c = 0; c < all; c += most) {
        size_t n = all - c < most ? all - c : most, at = first + c;
        for (int i = 0; i < N_ARRAYS; i++) {
            x[i] = b16[i] ? wide[i] : f32[i] ? f32[i] + at : NULL;
            if (b16[i]) o->k->from16(wide[i], b16[i] + at, n);
        }
        fn(o, x, g + c, n, how);
        for (int i = 0; i < N_ARRAYS; i++)
            if (b16[i])
                put_back(o->k, b16[i] + at, wide[i], n,
                         (uint32_t)(bits_for(o, first) >> 16 * i) + (uint32_t)c * WISP_GOLDEN16);
    }
}

/* ---- the kinds ----
 *
 * Decay of weights: SGD adds it to the gradient, as others do; Adam and AdaGrad, which divide by the
 * size of gradients, take it from the weights themselves. */

/* Does the row move, and at which learning rate?  If not, its state does not change either. */
static bool moves(float *lr, const struct wisp_optimizer *o, const struct wisp_param *p, size_t row)
{
    bool old = row < p->old;
    *lr = old ? o->lr * o->old_pace : o->lr;
    return !old || o->old_pace > 0;
}

/* What is left of weights that decay. */
static float left_of(const struct wisp_param *p, float lr)
{
    return 1 - lr * p->decay;
}

struct adam {
    struct wisp_adam c;
    float left;
};

static void adam_piece(const struct wisp_optimizer *o, float *const x[N_ARRAYS], const float *g,
                       size_t n, const void *how)
{
    const struct adam *a = how;
    if (a->left < 1) o->k->scale(x[W], x[W], a->left, n);
    o->k->adam(x[W], x[M], x[V], g, n, &a->c);
}

static void adam_row(const struct wisp_update *u, struct wisp_param *p, size_t row, const float *g)
{
    const struct wisp_optimizer *o = (const struct wisp_optimizer *)u;
    float lr;
    if (!moves(&lr, o, p, row)) return;
    uint32_t t = p->count[row]; /* read once: under hogwild others count too */
    if (t < WISP_CLOCK_MAX) p->count[row] = ++t;
    float root = sqrtf(o->correct2[t]);
    struct adam a = { { WISP_ADAM_BETA1, WISP_ADAM_BETA2, lr * root / o->correct1[t],
                        WISP_ADAM_EPS * root },
                      left_of(p, lr) };
    move_row(o, p, row, g, adam_piece, &a);
}

struct adagrad {
    float step, left;
};

static void adagrad_piece(const struct wisp_optimizer *o, float *const x[N_ARRAYS], const float *g,
                          size_t n, const void *how)
{
    const struct adagrad *a = how;
    o->k->scale(x[W], x[W], a->left, n);
    o->k->axpy(x[W], g, a->step, n);
}

/* One number per row: the running sum of the row's mean squared gradient. */
static void adagrad_row(const struct wisp_update *u, struct wisp_param *p, size_t row,
                        const float *g)
{
    const struct wisp_optimizer *o = (const struct wisp_optimizer *)u;
    size_t n, at = wisp_param_row(p, row, &n);
    float lr;
    if (!moves(&lr, o, p, row)) return;
    float g2 = p->g2[row] += o->k->dot(g, g, n) / (float)n;
    if (!(g2 > 0)) return;
    float step = -lr / sqrtf(g2);
    if (p->decay > 0)
        move_row(o, p, row, g, adagrad_piece, &(struct adagrad){ step, left_of(p, lr) });
    else if (p->b16) o->k->axpy16(p->b16 + at, g, step, n, (uint32_t)bits_for(o, at));
    else o->k->axpy(p->w + at, g, step, n);
}

struct sgd {
    float lr, decay;
};

static void sgd_piece(const struct wisp_optimizer *o, float *const x[N_ARRAYS], const float *g,
                      size_t n, const void *how)
{
    const struct sgd *s = how;
    o->k->momentum(x[W], x[M], g, n, o->momentum, s->lr, s->decay);
}

static void sgd_row(const struct wisp_update *u, struct wisp_param *p, size_t row, const float *g)
{
    const struct wisp_optimizer *o = (const struct wisp_optimizer *)u;
    struct sgd s = { .decay = p->decay };
    if (moves(&s.lr, o, p, row)) move_row(o, p, row, g, sgd_piece, &s);
}

static const struct wisp_optimizer_kind kinds[] = {
    {
        .name = "adam",
        .what = "each row has its own clock",
        .id = WISP_ADAM,
        .slots = WISP_SLOT_M | WISP_SLOT_V | WISP_SLOT_COUNT,
        .lr = 4e-3,
        .row = adam_row,
    },
    {
        .name = "adagrad",
        .what = "row-wise: one number of state per row",
        .id = WISP_ADAGRAD,
        .slots = WISP_SLOT_G2,
        .lr = 0.1,
        .row = adagrad_row,
    },
    {
        .name = "sgd",
        .what = "with momentum",
        .id = WISP_SGD,
        .slots = WISP_SLOT_M,
        .lr = 0.5,
        .row = sgd_row,
    },
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

static void lay_corrections(struct wisp_optimizer *o, struct wisp_cut *c)
{
    o->correct1 = wisp_cut_take(c, WISP_CLOCK_FACTORS, sizeof *o->correct1);
    o->correct2 = wisp_cut_take(c, WISP_CLOCK_FACTORS, sizeof *o->correct2);
}

wisp_status wisp_optimizer_init(struct wisp_optimizer *o, const struct wisp_optimizer_kind *kind,
                                const struct wisp_kernels *k, double momentum, wisp_error *err)
{
    *o = (struct wisp_optimizer){
        .update = { kind->row }, .kind = kind, .k = k, .momentum = (float)momentum, .old_pace = 1
    };
    struct wisp_cut plan = { 0 };
    lay_corrections(o, &plan);
    void *block = wisp_alloc(plan.at, 1);
    if (!block) return wisp_fail_mem(err, plan.at, "the optimizer");
    struct wisp_cut c = wisp_cut_of(block, plan.at, WISP_CUT_FRESH);
    lay_corrections(o, &c);
    for (int t = 0; t < WISP_CLOCK_FACTORS; t++) {
        o->correct1[t] = (float)(1 - pow(WISP_ADAM_BETA1, t));
        o->correct2[t] = (float)(1 - pow(WISP_ADAM_BETA2, t));
    }
    return WISP_OK;
}

/* A number of bf16 is from 0 on where its sign is not set, or all else is 0. */
static bool from_0(const float *x, const uint16_t *x16, size_t n)
{
    bool ok = true;
    for (size_t i = 0; x && i < n; i++) ok &= x[i] >= 0;
    for (size_t i = 0; x16 && i < n; i++) ok &= x16[i] <= 0x8000;
    return ok;
}

bool wisp_optimizer_state_ok(const struct wisp_param *p)
{
    bool ok = from_0(p->v, p->v16, wisp_param_n(p)) && from_0(p->g2, NULL, p->rows);
    for (size_t i = 0; p->count && i < p->rows; i++) ok &= p->count[i] <= WISP_CLOCK_MAX;
    return ok;
}

void wisp_optimizer_clear(struct wisp_optimizer *o)
{
    wisp_free(o->correct1);
    *o = (struct wisp_optimizer){ 0 };
}

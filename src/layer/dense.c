/* Dense layer between hidden layers: out = in W + bias, W (n_in, n_out).
 *
 * Forward is split by tiles of samples and by columns of W.  On the way back a task is some rows of W,
 * which it reads from memory once: it transposes them in the thread's scratch for the gradient of the
 * layer below, sums their own gradient by tiles of rows, and moves each row.  Of few samples and a W
 * that comes from memory a kernel makes both gradients of two rows in one read, and asks for the
 * optimizer's numbers of these rows, which is all that the move then waits for.
 *
 * Where most values are zeros (after a ReLU, after dropout) the rows of W that meet nothing else in a
 * tile of samples are not read, and the gradient of a row is the sum over the samples that it met.
 * That is asked for by sizes.zeros, counted in each call, and changes no bit of the result but the
 * sign of a 0, and 0 times an infinite number or a NaN, which is left out.  Rows without a gradient
 * move all the same: they have momentum, and decay.
 *
 *   a thread's scratch   rows of W transposed (n_out, rows) | gradient of a tile of rows |
 *                        samples that a row met, and their values
 *   front (scratch)      for each tile of samples: how many inputs are not 0 in all of them, which */
#include "layer/layer.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

enum {
    PANEL = 64,               /* rows of W in a task of the way back, ... */
    PANEL_FLOATS = 64 * 1024, /* ... or fewer, but for a tile, where they are longer: cached */
    COLUMNS = 1024,           /* of W in a task of the way forward, ... */
    LARGE = 256 * 1024,       /* ... where W has so many numbers: it comes from memory */
    WIDE = 256,               /* columns that are worth counting the zeros of their row's input */
    IN_ORDER = 256,           /* samples that k->gemm sums up in their order */
    LOOK = 256,               /* inputs that are looked at together */
};

/* The most of the inputs, and of all values of a tile, that are not 0 where skipping the others pays:
 * rows that are read one by one cost more than those side by side. */
static const double LIVE_ROWS = 0.95, LIVE_VALUES = 0.5;

struct own {
    enum wisp_zeros zeros;
};

static enum wisp_zeros zeros_of(const struct wisp_layer *l)
{
    return ((const struct own *)l->own)->zeros;
}

static size_t panel_rows(const struct wisp_layer *l)
{
    const size_t rows = PANEL_FLOATS / l->n_out / WISP_TILE * WISP_TILE;
    return rows < WISP_TILE ? WISP_TILE : rows < PANEL ? rows : PANEL;
}

struct room { /* a thread's scratch */
    float *turned, *g;
    int32_t *met; /* (n) samples, ... */
    float *value; /* ... and what they have */
};

static struct room lay_thread(const struct wisp_layer *l, struct wisp_cut *c, size_t n)
{
    const size_t met = zeros_of(l) == WISP_ZEROS_OFF ? 0 : n;
    struct room r;
    r.turned = wisp_cut_take(c, panel_rows(l) * l->n_out, sizeof *r.turned);
    r.g = wisp_cut_take(c, WISP_TILE * l->n_out, sizeof *r.g);
    r.met = wisp_cut_take(c, met, sizeof *r.met);
    r.value = wisp_cut_take(c, met, sizeof *r.value);
    return r;
}

struct live {           /* front, cut up */
    int32_t *n, *which; /* (tiles): below 0 where all rows are read; (tiles, n_in) */
};

static struct live lay_live(const struct wisp_layer *l, struct wisp_cut *c, size_t n)
{
    struct live v;
    v.n = wisp_cut_take(c, wisp_tiles(n), sizeof *v.n);
    v.which = wisp_cut_take(c, wisp_tiles(n) * l->n_in, sizeof *v.which);
    return v;
}

static bool large(const struct wisp_layer *l)
{
    return l->n_in * l->n_out >= LARGE;
}

/* May rows of W be left out? */
static bool may_skip_rows(const struct wisp_layer *l)
{
    const enum wisp_zeros zeros = zeros_of(l);
    if (zeros == WISP_ZEROS_OFF || l->n_out % 16 || l->n_in > INT32_MAX) return false;
    return zeros == WISP_ZEROS_FORCE || (large(l) && l->n_out >= WIDE);
}

static wisp_status plan(struct wisp_layer *l, const struct wisp_act *const *in,
                        struct wisp_act *out, const struct wisp_layer_sizes *s, wisp_error *err)
{
    (void)in, (void)out;
    struct own *o = l->own = wisp_zalloc(1, sizeof *o);
    if (!o) return wisp_fail_mem(err, sizeof *o, "a dense layer");
    o->zeros = s->zeros;
    l->n_out = (size_t)l->arg[0];
    wisp_param_axes(wisp_layer_declare_rows(l, "weight", WISP_BY_NONE, l->n_in, l->n_out),
                    WISP_AXIS_IN, WISP_AXIS_OUT);
    wisp_param_axes(wisp_layer_declare_rows(l, "bias", WISP_BY_NONE, 1, l->n_out), WISP_AXIS_NONE,
                    WISP_AXIS_OUT);
    struct wisp_cut front = { 0 }, thread = { 0 };
    if (may_skip_rows(l)) lay_live(l, &front, s->batch);
    if (s->training) lay_thread(l, &thread, s->batch);
    l->front_floats = wisp_parts(front.at, sizeof(float));
    l->thread_floats = wisp_parts(thread.at, sizeof(float));
    return WISP_OK;
}

static void clear(struct wisp_layer *l)
{
    wisp_free(l->own);
    l->own = NULL;
}

struct job {
    struct wisp_layer *l;
    struct wisp_step *s;
    const struct wisp_act *in, *out;
    size_t columns;   /* of a task of forward */
    struct live live; /* n NULL: all rows are read */
};

/* The inputs first .. first + n - 1 that are not 0 in all of 'rows' samples; returns how many. */
static size_t live_of(int32_t *which, const float *x, size_t ld, size_t rows, size_t first,
                      size_t n)
{
    uint32_t any[LOOK] = { 0 }, bits[LOOK] = { 0 };
    size_t found = 0;
    for (size_t i = 0; i < rows; i++) {
        memcpy(bits, x + i * ld + first, n * sizeof *bits);
        for (size_t p = 0; p < LOOK; p++) any[p] |= bits[p] << 1; /* -0 is 0 */
    }
    for (size_t p = 0; p < n; p++) { /* without a jump that nobody foresees */
        which[found] = (int32_t)(first + p);
        found += any[p] != 0;
    }
    return found;
}

static void find_live(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct wisp_layer *l = j->l;
    const size_t first = tile * WISP_TILE, rows = wisp_tile_rows(j->s->batch->n, tile);
    int32_t *which = j->live.which + tile * l->n_in;
    size_t found = 0;
    for (size_t p = 0; p < l->n_in; p += LOOK)
        found += live_of(which + found, j->in->x + first * l->n_in, l->n_in, rows, p,
                         l->n_in - p < LOOK ? l->n_in - p : LOOK);
    const bool pays = (double)found <= LIVE_ROWS * (double)l->n_in;
    j->live.n[tile] = pays || zeros_of(l) == WISP_ZEROS_FORCE ? (int32_t)found : -1;
}

static void forward_part(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct wisp_layer *l = j->l;
    const struct wisp_kernels *k = j->s->ctx->k;
    const size_t parts = wisp_parts(l->n_out, j->columns), tile = task / parts,
                 c = task % parts * j->columns, first = tile * WISP_TILE,
                 n = wisp_tile_rows(j->s->batch->n, tile),
                 m = l->n_out - c < j->columns ? l->n_out - c : j->columns;
    float *out = j->out->x + first * l->n_out + c;
    const float *in = j->in->x + first * l->n_in, *w = l->params[0].w + c;
    for (size_t i = 0; i < n; i++) memcpy(out + i * l->n_out, l->params[1].w + c, m * sizeof *out);
    const int32_t live = j->live.n ? j->live.n[tile] : -1;
    if (live >= 0)
        k->gemm_live(out, l->n_out, in, l->n_in, w, l->n_out, j->live.which + tile * l->n_in, n, m,
                     (size_t)live);
    else if (large(l) && m % 16 == 0)
        k->gemm_few(out, l->n_out, in, l->n_in, w, l->n_out, n, m, l->n_in);
    else k->gemm(out, l->n_out, in, l->n_in, 1, w, l->n_out, n, m, l->n_in, true);
}

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    (void)err;
    const size_t tiles = wisp_tiles(s->batch->n);
    struct job j = { (struct wisp_layer *)l, s, in[0], out, large(l) ? COLUMNS : l->n_out,
                     { NULL, NULL } };
    if (may_skip_rows(l)) {
        struct wisp_cut c = wisp_cut_of(l->front, l->front_floats * sizeof(float), WISP_CUT_FRESH);
        j.live = lay_live(l, &c, s->batch->n);
        wisp_parallel_for(s->ctx->pool, tiles, find_live, &j);
    }
    wisp_parallel_for(s->ctx->pool, tiles * wisp_parts(l->n_out, j.columns), forward_part, &j);
    return WISP_OK;
}

static void below_panel(const struct job *j, size_t first, size_t n, float *turned)
{
    const struct wisp_layer *l = j->l;
    const struct wisp_kernels *k = j->s->ctx->k;
    k->transpose(turned, n, l->params[0].w + first * l->n_out, l->n_out, n, l->n_out);
    k->gemm(j->in->g + first, l->n_in, j->out->g, l->n_out, 1, turned, n, j->s->batch->n, n,
            l->n_out, false);
}

/* The samples of which input i is not 0, and their values; returns how many. */
static size_t samples_met(const struct job *j, size_t i, const struct room *r)
{
    size_t met = 0;
    for (size_t e = 0; e < j->s->batch->n; e++) {
        const float x = j->in->x[e * j->l->n_in + i];
        r->met[met] = (int32_t)e;
        r->value[met] = x;
        met += x != 0;
    }
    return met;
}

/* Are there few enough values of these inputs that are not 0? */
static bool skips_values(const struct job *j, size_t first, size_t n)
{
    const enum wisp_zeros zeros = zeros_of(j->l);
    const size_t samples = j->s->batch->n;
    size_t live = 0;
    if (zeros == WISP_ZEROS_OFF || samples > IN_ORDER) return false;
    if (zeros == WISP_ZEROS_FORCE) return true;
    if (j->l->n_out < WIDE) return false;
    for (size_t e = 0; e < samples; e++)
        for (size_t i = first; i < first + n; i++) live += j->in->x[e * j->l->n_in + i] != 0;
    return (double)live <= LIVE_VALUES * (double)(n * samples);
}

static void weight_tile(const struct job *j, size_t tile, const struct room *r)
{
    struct wisp_layer *l = j->l;
    const struct wisp_kernels *k = j->s->ctx->k;
    const struct wisp_update *u = j->s->update;
    const size_t first = tile * WISP_TILE, n = wisp_tile_rows(l->n_in, tile), width = l->n_out;
    if (skips_values(j, first, n)) {
        for (size_t i = first; i < first + n; i++) {
            const size_t met = samples_met(j, i, r);
            memset(r->g, 0, width * sizeof *r->g);
            k->bag(r->g, j->out->g, width, r->met, r->value, met, width);
            u->row(u, &l->params[0], i, r->g);
        }
        return;
    }
    k->gemm(r->g, width, j->in->x + first, 1, l->n_in, j->out->g, width, n, width, j->s->batch->n,
            false);
    for (size_t i = 0; i < n; i++) u->row(u, &l->params[0], first + i, r->g + i * width);
}

/* Two rows, or the last one. */
static void few_rows(const struct job *j, size_t row, size_t n, float *g)
{
    struct wisp_layer *l = j->l;
    struct wisp_param *p = &l->params[0];
    const size_t at = row * l->n_out;
    j->s->ctx->k->back_few(
        &(struct wisp_back){ .m = j->s->batch->n,
                             .n = l->n_out,
                             .rows = n,
                             .gy = j->out->g,
                             .gy_row = l->n_out,
                             .w = p->w + at,
                             .w_row = l->n_out,
                             .x = j->in->x + row,
                             .x_row = l->n_in,
                             .gx = j->in->g ? j->in->g + row : NULL,
                             .gw = g,
                             .soon = { p->m ? p->m + at : NULL, p->v ? p->v + at : NULL } });
    for (size_t i = 0; i < n; i++) j->s->update->row(j->s->update, p, row + i, g + i * l->n_out);
}

static bool few(const struct job *j)
{
    return large(j->l) && j->l->n_out % 16 == 0 && j->s->batch->n <= WISP_BACK_SAMPLES;
}

static void back_panel(void *arg, size_t panel, int thread)
{
    const struct job *j = arg;
    const struct wisp_layer *l = j->l;
    const size_t rows = panel_rows(l), first = panel * rows,
                 n = l->n_in - first < rows ? l->n_in - first : rows;
    struct wisp_cut c = wisp_layer_thread_cut(l, thread, WISP_CUT_FRESH);
    const struct room r = lay_thread(l, &c, j->s->batch->n);
    for (size_t i = 0; few(j) && i < n; i += WISP_BACK_ROWS)
        few_rows(j, first + i, n - i < WISP_BACK_ROWS ? n - i : WISP_BACK_ROWS, r.g);
    if (few(j)) return;
    if (j->in->g) below_panel(j, first, n, r.turned); /* with the weights as they were */
    for (size_t tile = first / WISP_TILE; tile * WISP_TILE < first + n; tile++)
        weight_tile(j, tile, &r);
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    (void)err;
    struct job j = { l, s, in[0], out, 0, { NULL, NULL } };
    wisp_parallel_for(s->ctx->pool, wisp_parts(l->n_in, panel_rows(l)), back_panel, &j);
    wisp_layer_move_bias(l, s, &l->params[1], out->g);
    return WISP_OK;
}

const struct wisp_layer_kind wisp_layer_dense = {
    .name = "dense",
    .what = "values times a matrix",
    .args = wisp_args_width,
    .takes = WISP_FLAT,
    .uses = WISP_USES_X,
    .ties = WISP_TIES_NEW,
    .thins = true,
    .of_rows = &wisp_layer_input,
    .plan = plan,
    .init = wisp_layer_init_he,
    .clear = clear,
    .flops = wisp_layer_flops_matrix,
    .forward = forward,
    .backward = backward,
};

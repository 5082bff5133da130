/* Dense layer between hidden layers: out = in W + bias, W (n_in, n_out).
 *
 * Forward is split by tiles of samples and by columns of W.  On the way back a task is some rows of W,
 * which it reads from memory once: it transposes them in the thread's scratch for the gradient of the
 * layer below, sums their own gradient by tiles of rows, and moves each row.
 *
 *   a thread's scratch   rows of W transposed (n_out, rows) | gradient of a tile of rows */
#include "layer/layer.h"

#include <math.h>
#include <string.h>

enum {
    PANEL = 64,               /* rows of W in a task of the way back, ... */
    PANEL_FLOATS = 64 * 1024, /* ... or fewer, but for a tile, where they are longer: cached */
    COLUMNS = 1024,           /* of W in a task of the way forward, ... */
    LARGE = 256 * 1024,       /* ... where W has so many numbers: it comes from memory */
};

static size_t panel_rows(const struct wisp_layer *l)
{
    const size_t rows = PANEL_FLOATS / l->n_out / WISP_TILE * WISP_TILE;
    return rows < WISP_TILE ? WISP_TILE : rows < PANEL ? rows : PANEL;
}

struct room { /* a thread's scratch */
    float *turned, *g;
};

static struct room lay_thread(const struct wisp_layer *l, struct wisp_cut *c)
{
    struct room r;
    r.turned = wisp_cut_take(c, panel_rows(l) * l->n_out, sizeof *r.turned);
    r.g = wisp_cut_take(c, WISP_TILE * l->n_out, sizeof *r.g);
    return r;
}

static wisp_status plan(struct wisp_layer *l, const struct wisp_act *const *in,
                        struct wisp_act *out, const struct wisp_layer_sizes *s, wisp_error *err)
{
    (void)in, (void)out, (void)err;
    l->n_out = (size_t)l->arg[0];
    wisp_layer_declare_rows(l, "weight", WISP_BY_NONE, l->n_in, l->n_out);
    wisp_layer_declare_rows(l, "bias", WISP_BY_NONE, 1, l->n_out);
    if (!s->training) return WISP_OK;
    struct wisp_cut c = { 0 };
    lay_thread(l, &c);
    l->thread_floats = c.at / sizeof(float);
    return WISP_OK;
}

struct job {
    struct wisp_layer *l;
    struct wisp_step *s;
    const struct wisp_act *in, *out;
    size_t columns; /* of a task of forward */
};

static bool large(const struct wisp_layer *l)
{
    return l->n_in * l->n_out >= LARGE;
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
    if (large(l) && m % 16 == 0)
        k->gemm_few(out, l->n_out, in, l->n_in, w, l->n_out, n, m, l->n_in);
    else k->gemm(out, l->n_out, in, l->n_in, 1, w, l->n_out, n, m, l->n_in, true);
}

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    (void)err;
    struct job j = { (struct wisp_layer *)l, s, in[0], out, large(l) ? COLUMNS : l->n_out };
    wisp_parallel_for(s->ctx->pool, wisp_tiles(s->batch->n) * wisp_parts(l->n_out, j.columns),
                      forward_part, &j);
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

static void weight_tile(const struct job *j, size_t tile, float *g)
{
    struct wisp_layer *l = j->l;
    size_t first = tile * WISP_TILE, n = wisp_tile_rows(l->n_in, tile);
    j->s->ctx->k->gemm(g, l->n_out, j->in->x + first, 1, l->n_in, j->out->g, l->n_out, n, l->n_out,
                       j->s->batch->n, false);
    for (size_t i = 0; i < n; i++)
        j->s->update->row(j->s->update, &l->params[0], first + i, g + i * l->n_out);
}

static void back_panel(void *arg, size_t panel, int thread)
{
    const struct job *j = arg;
    const struct wisp_layer *l = j->l;
    const size_t rows = panel_rows(l), first = panel * rows,
                 n = l->n_in - first < rows ? l->n_in - first : rows;
    struct wisp_cut c = wisp_layer_thread_cut(l, thread, WISP_CUT_FRESH);
    const struct room r = lay_thread(l, &c);
    if (j->in->g) below_panel(j, first, n, r.turned); /* with the weights as they were */
    for (size_t tile = first / WISP_TILE; tile * WISP_TILE < first + n; tile++)
        weight_tile(j, tile, r.g);
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    (void)err;
    struct job j = { l, s, in[0], out, 0 };
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
    .plan = plan,
    .init = wisp_layer_init_he,
    .flops = wisp_layer_flops_matrix,
    .forward = forward,
    .backward = backward,
};

/* Which inputs the outputs of a layer 'sparse' have:
 *
 *   radix    the butterflies of RadiX-Net: 2 runs of 16 inputs, evenly spaced around the ring of
 *            inputs, from places o and o + 2^(turn mod layers), where 'turn' counts the radix
 *            layers of the net.  With n inputs and n outputs, n = 16 times a power of two, these
 *            are the Graph Challenge's; log2(n / 16) of them in a row connect all to all.
 *   random   'fan' distinct inputs of each output, by the seed
 *   mask=    those of a file, each output with its own number of inputs, also none
 *   file=    the same, and weights begin with those of the file
 *   kept     those that a model or a checkpoint has of the layer, as pruning leaves them
 *
 * A file is read when the layer is planned, as it says how many connections there are, and kept
 * until init() has them.  Where they are known already, as those of a model, no file is opened. */
#include "layer/wires.h"
#include "base/mem.h"
#include "base/rand.h"
#include "graph/ids.h"
#include "spdnn/mtx.h"

#include <math.h>
#include <string.h>

enum { RADIX, RANDOM, KEPT };
enum { FORM, WIDTH, INPUTS, MASK, WEIGHTS, BIAS }; /* arguments */
enum { WEIGHT_P, BIAS_P, START_P };                /* parameters; the last one is 'inputs' */
enum { RUN = 16, FAN = 2 * RUN, FAN_MOST = 1024 };
enum { OF_FILE = 1 << MASK | 1 << WEIGHTS };

const struct wisp_arg wisp_wires_args[] = {
    { .name = "form",
      .what = "how outputs are connected; kept: as a model has it",
      .type = WISP_ARG_WORD,
      .words = "radix|random|kept",
      .unless = OF_FILE },
    { .name = "width",
      .what = "units; of a file: those it has",
      .type = WISP_ARG_INT,
      .least = 1,
      .most = WISP_MAX_WIDTH,
      .unless = OF_FILE },
    { .name = "inputs",
      .what = "of each output; of 'random'",
      .type = WISP_ARG_INT,
      .least = 1,
      .most = FAN_MOST,
      .fallback = "32" },
    { .name = "mask",
      .what = "a file of connections",
      .type = WISP_ARG_FILE,
      .fallback = "",
      .by_name = true },
    { .name = "file",
      .what = "a file of connections and weights",
      .type = WISP_ARG_FILE,
      .fallback = "",
      .by_name = true },
    { .name = "bias",
      .what = "what biases begin with",
      .type = WISP_ARG_REAL,
      .least = -1e6,
      .most = 1e6,
      .fallback = "0",
      .by_name = true },
    { .name = NULL },
};

/* ---- planning ---- */

/* Rows of different lengths, one behind the other, instead of (rows, cols). */
static void make_ragged(struct wisp_param *p, size_t rows, size_t longest)
{
    p->rows = p->total_rows = rows;
    p->cols = longest;
    p->ragged = true;
}

static void declare(struct wisp_layer *l, const struct wisp_wires *w, bool kept)
{
    const bool ragged = w->start != NULL;
    const size_t dim[] = { ragged ? w->n_edges : w->n_out, w->fan };
    struct wisp_param *p =
        wisp_layer_declare(l, "weight", WISP_TRAINED, WISP_BY_NONE, ragged ? 1 : 2, dim);
    if (ragged) make_ragged(p, w->n_out, w->fan);
    p->wired = true;
    p->axis[0] = WISP_AXIS_OUT;
    wisp_param_axes(wisp_layer_declare_rows(l, "bias", WISP_BY_NONE, 1, w->n_out), WISP_AXIS_NONE,
                    WISP_AXIS_OUT);
    if (ragged) {
        p = wisp_layer_declare(l, "start", WISP_STARTS, WISP_BY_NONE, 1,
                               (size_t[]){ w->n_out + 1 });
        p->below = w->n_edges;
        p->kept = kept;
    }
    p = wisp_layer_declare(l, "inputs", WISP_FIXED, WISP_BY_NONE, ragged ? 1 : 2, dim);
    if (ragged) make_ragged(p, w->n_out, w->fan);
    p->below = l->n_in;
    p->kept = kept;
}

/* Sets 'fan': the most inputs of an output.  Are all equal? */
static bool measure(struct wisp_wires *w)
{
    int64_t least = w->start[1], most = least;
    for (size_t o = 1; o < w->n_out; o++) {
        int64_t n = w->start[o + 1] - w->start[o];
        if (n < least) least = n;
        if (n > most) most = n;
    }
    w->fan = (size_t)most;
    return least == most;
}

static wisp_status read_file(struct wisp_wires *out, struct wisp_layer *l, wisp_error *err)
{
    struct wisp_mtx *m = wisp_zalloc(1, sizeof *m);
    if (!m) return wisp_fail_mem(err, sizeof *m, "connections");
    wisp_status st = wisp_mtx_read_any(m, l->file, (uint32_t)l->n_in, (uint32_t)l->arg[WIDTH], err);
    if (st != WISP_OK) {
        wisp_free(m);
        return st;
    }
    l->own = m;
    *out = (struct wisp_wires){ .n_out = m->e.n_out,
                                .n_edges = (size_t)m->e.start[m->e.n_out],
                                .start = (const int64_t *)m->e.start,
                                .in = (const int32_t *)m->e.in };
    return WISP_OK;
}

static bool kept(const struct wisp_layer *l)
{
    return !(l->given & OF_FILE) && l->arg[FORM] == KEPT;
}

/* Connections of a file, or of whoever knows them. */
static wisp_status find_wires(struct wisp_wires *w, struct wisp_layer *l,
                              const struct wisp_layer_sizes *s, wisp_error *err)
{
    wisp_status st = s->known ? s->known->wires(s->known, w, l, err) : WISP_OK;
    const bool known = w->n_out > 0;
    if (st == WISP_OK && !known && kept(l))
        return wisp_fail(err, WISP_EINVAL,
                         "'sparse kept' has the connections of a model, and there is none; take "
                         "--init MODEL, or a file of connections, mask=FILE");
    if (st == WISP_OK && !known) st = read_file(w, l, err);
    if (st != WISP_OK) return st;
    bool ok = w->n_edges > 0 && w->n_out <= WISP_MAX_WIDTH &&
              (!(l->given & 1u << WIDTH) || w->n_out == (size_t)l->arg[WIDTH]);
    if (ok && w->start && !w->fan && measure(w) && !known) w->start = NULL;
    if (ok && w->fan > 0 && w->fan <= l->n_in) return WISP_OK;
    wisp_wires_clear(l);
    return wisp_fail(err, WISP_EINVAL,
                     "%s: %zu connections to %zu outputs, of up to %zu inputs; expected at least "
                     "one, %s%zu outputs and %zu inputs",
                     kept(l) ? "'sparse kept'" : l->file, w->n_edges, w->n_out, w->fan,
                     l->given & 1u << WIDTH ? "" : "at most ",
                     l->given & 1u << WIDTH ? (size_t)l->arg[WIDTH] : (size_t)WISP_MAX_WIDTH,
                     l->n_in);
}

wisp_status wisp_wires_plan(struct wisp_layer *l, const struct wisp_act *in,
                            const struct wisp_layer_sizes *s, wisp_error *err)
{
    const size_t fan = (size_t)l->arg[INPUTS];
    const bool file = l->given & OF_FILE;
    if (file && l->given & (1u << FORM | 1u << INPUTS))
        return wisp_fail(err, WISP_EINVAL,
                         "'sparse' has its connections from the file '%s'; leave out '%s'", l->file,
                         l->given & 1u << FORM ? "form" : "inputs");
    if (kept(l) && l->given & 1u << INPUTS)
        return wisp_fail(err, WISP_EINVAL,
                         "'sparse kept' takes one number, its width: a model has its inputs");
    if (!file && l->arg[FORM] == RADIX && l->given & 1u << INPUTS)
        return wisp_fail(err, WISP_EINVAL,
                         "'sparse radix' takes one number, its width: %d inputs of each output are "
                         "fixed; take 'sparse random %g %zu'",
                         FAN, l->arg[WIDTH], fan);
    if (in->form == WISP_ROWS && l->n_in > WISP_WIRES_FEATURES)
        return wisp_fail(
            err, WISP_EINVAL,
            "'sparse' takes up to %d features from the data, which has %zu; begin with "
            "'input'",
            WISP_WIRES_FEATURES, l->n_in);
    struct wisp_wires w = { 0 };
    if (file || kept(l)) {
        wisp_status st = find_wires(&w, l, s, err);
        if (st != WISP_OK) return st;
    } else {
        w.n_out = (size_t)l->arg[WIDTH];
        w.fan = fan < l->n_in ? fan : l->n_in; /* of each */
    }
    l->n_out = w.n_out;
    declare(l, &w, file || kept(l));
    return WISP_OK;
}

void wisp_wires_keep(struct wisp_layer *l, size_t width)
{
    l->kind = &wisp_layer_sparse;
    l->given = 1u << FORM | 1u << WIDTH;
    memset(l->arg, 0, sizeof l->arg);
    memset(l->file, 0, sizeof l->file);
    l->arg[FORM] = KEPT;
    l->arg[WIDTH] = (double)width;
}

void wisp_wires_clear(struct wisp_layer *l)
{
    if (l->own) wisp_mtx_clear(l->own);
    wisp_free(l->own);
    l->own = NULL;
}

/* ---- making them ---- */

static void sort(int32_t *x, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        int32_t v = x[i];
        size_t k = i;
        for (; k > 0 && x[k - 1] > v; k--) x[k] = x[k - 1];
        x[k] = v;
    }
}

/* Two runs of 16 around the ring.  The gaps in a run are n_in / 16, rounded up or down, and the
 * second begins less than a gap after the first: no input occurs twice.  Fewer outputs than a gap
 * is wide could not reach all inputs so: they divide them evenly, as 32 inputs or less are. */
static void wire_radix(int32_t *to, size_t fan, size_t o, const struct wisp_layer *l)
{
    size_t n = l->n_in, gap = n / RUN, layers = 1;
    while ((size_t)1 << layers < gap) layers++;
    for (size_t t = 0; t < fan; t++) {
        size_t from = t < RUN ? o : o + ((size_t)1 << (size_t)l->turn % layers);
        size_t ring = (from + t % RUN * n / RUN) % n;
        size_t share = (t * l->n_out + o) * n / (fan * l->n_out);
        to[t] = (int32_t)(n <= FAN || l->n_out < gap ? share : ring);
    }
    sort(to, fan);
}

static void wire(const struct wisp_layer *l, uint64_t seed)
{
    struct wisp_param *inputs = &l->params[l->n_params - 1];
    const struct wisp_mtx *m = l->own;
    const uint64_t stream = wisp_stream(WISP_STREAM_WIRES, (uint64_t)l->number);
    size_t fan = inputs->cols;
    if (m) {
        memcpy(inputs->ids, m->e.in, inputs->n * sizeof *inputs->ids);
        if (inputs->ragged)
            memcpy(l->params[START_P].start, m->e.start, l->params[START_P].n * sizeof *m->e.start);
    }
    for (size_t o = 0; o < l->n_out && !(l->given & OF_FILE) && !kept(l); o++) {
        if (l->arg[FORM] == RADIX) wire_radix(inputs->ids + o * fan, fan, o, l);
        else wisp_choose((uint32_t *)inputs->ids + o * fan, fan, l->n_in, seed, stream, o * fan);
    }
}

/* Before a ReLU they keep the variance of an output, by its own number of inputs. */
static void draw_weights(const struct wisp_layer *l, uint64_t seed, struct wisp_pool *pool)
{
    struct wisp_param *w = &l->params[WEIGHT_P];
    const double deviation = w->ragged ? 1 : sqrt(2.0 / (double)w->cols);
    wisp_param_normal(w, deviation, seed, 2 * l->number, pool);
    for (size_t o = 0; w->ragged && o < w->rows; o++) {
        size_t n, at = wisp_param_row(w, o, &n);
        for (size_t k = 0; k < n; k++) w->w[at + k] *= sqrtf(2 / (float)n);
    }
}

static void copy_weights(float *to, size_t n, const struct wisp_edges *e)
{
    for (size_t i = 0; i < n; i++) to[i] = e->w ? e->w[i] : e->weight;
}

void wisp_wires_init(struct wisp_layer *l, uint64_t seed, struct wisp_pool *pool)
{
    const struct wisp_mtx *m = l->own;
    wire(l, seed);
    if (!(l->given & 1u << WEIGHTS)) draw_weights(l, seed, pool);
    else if (m) copy_weights(l->params[WEIGHT_P].w, l->params[WEIGHT_P].n, &m->e);
    for (size_t o = 0; o < l->n_out; o++) l->params[BIAS_P].w[o] = (float)l->arg[BIAS];
    wisp_wires_clear(l);
}

/* Random nets for the tests of layers, as texts: chains and branches of units, and of channels with
 * height and width. */
#ifndef WISP_TEST_LAYER_NETS_H
#define WISP_TEST_LAYER_NETS_H

#include "test.h"
#include "conv/conv.h"
#include "layer/layer.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

static uint64_t seed;

static inline size_t below(size_t n)
{
    return (size_t)(test_rand(&seed) % n);
}

/* A net that is being written down. */
struct text {
    char *to;
    size_t room, at, width; /* of the value that was made last */
};

enum { MASKS = 4 };
static char rig_masks[MASKS][32]; /* files of connections that the next net names */
static int n_masks;

/* Connections from n_in to n_out: outputs with none, with some and with all inputs. */
static inline const char *random_mask(size_t n_in, size_t n_out)
{
    char *path = rig_masks[n_masks++];
    strcpy(path, "/tmp/wisp_mask_XXXXXX");
    int fd = mkstemp(path);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    CHECK(f, "%s cannot be made", path);
    if (!f) return path;
    size_t one = below(n_out);
    for (size_t o = 0; o < n_out; o++) {
        size_t share = below(4) ? below(n_in + 1) : below(2) ? 0 : n_in;
        for (size_t i = 0; i < n_in; i++)
            if (below(n_in) < share || (o == one && i == 0)) fprintf(f, "%zu\t%zu\n", i + 1, o + 1);
    }
    fclose(f);
    return path;
}

static inline void remove_masks(void)
{
    while (n_masks > 0) unlink(rig_masks[--n_masks]);
}

__attribute__((format(printf, 2, 3))) static inline void put(struct text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    t->at += (size_t)vsnprintf(t->to + t->at, t->room - t->at, fmt, ap);
    va_end(ap);
}

/* Adds all kinds that give the shape they take, of one value, and have no arguments, but for relu,
 * which is everywhere: a new one is in the nets by being in the table. */
static inline void put_same(struct text *t)
{
    const struct wisp_layer_kind *k;
    for (size_t i = 0; (k = wisp_layer_kind_at(i)); i++)
        if (k->plan == wisp_layer_plan_same && !k->args && !k->most_from && k != &wisp_layer_relu)
            put(t, ", %s", k->name);
}

/* A place where values part and meet again, numbered so that names differ. */
static inline void random_branch(struct text *t, int number)
{
    const size_t other = 1 + below(20);
    switch (below(7)) {
    case 0: /* a residual block */
        put(t, ", as a%d, dense %zu, relu, dense %zu, add a%d", number, other, t->width, number);
        break;
    case 1: /* three readers, of which one reads twice */
        put(t, ", as a%d, dense %zu as b%d, add a%d a%d, add b%d", number, t->width, number, number,
            number, number);
        break;
    case 2: /* unequal widths side by side, dropout in one of them */
        put(t, ", as a%d, dense %zu, dropout 0.3, concat a%d", number, other, number);
        t->width += other;
        break;
    case 3: /* the rows a second time */
        put(t, ", as a%d, from rows, input %zu, add a%d", number, t->width, number);
        break;
    case 4: /* and by few connections; two values that were both made before */
        put(t,
            ", as a%d, from rows, sparse random %zu 4 as b%d, from a%d, identity, concat b%d a%d",
            number, other, number, number, number, number);
        t->width = 2 * t->width + other;
        break;
    case 5:
        put(t, ", relu, bn, dense %zu, relu, bn eps=0.01",
            t->width); /* a bias right before bn has no gradient */
        break;
    default:
        put(t, ", flatten, 2 x (clip 0.4"), put_same(t), put(t, ")");
    }
}

/* "input 13, relu, dropout 0.3, dense 5, ..." with 1 to 3 layers that have weights, and branches.
 */
static inline void random_spec(char *spec, size_t room, int hidden, size_t n_features)
{
    static const char *const first[] = { "input", "input", "sparse" }, *const later[] = {
        "dense", "sampled", "sampled", "sparse", "sparse"
    };
    struct text t = { spec, room, 0, n_features };
    for (int i = 0; i < hidden; i++) {
        const char *kind = i ? later[below(5)] : first[below(3)], *form = "";
        bool wide = strcmp(kind, "sampled") == 0, sparse = strcmp(kind, "sparse") == 0;
        size_t n_in = t.width;
        t.width = 1 + below((wide || sparse) && below(3) == 0 ? 200 : 35);
        if (sparse) form = below(2) ? " radix" : " random";
        const char *mask = sparse && below(2) ? random_mask(n_in, t.width) : NULL;
        if (mask) put(&t, "%ssparse mask=%s width=%zu", i ? ", " : "", mask, t.width);
        else put(&t, "%s%s%s %zu", i ? ", " : "", kind, form, t.width);
        if (!mask && sparse && form[2] == 'a' && form[3] == 'n' && below(2))
            put(&t, " %zu", 1 + below(9));
        if (below(4)) put(&t, ", relu");
        if (below(2)) put(&t, ", dropout %.2f", 0.1 * (double)below(6));
        if (below(2)) random_branch(&t, i);
    }
}

/* ---- nets of images ---- */

/* A kind of these tests alone: units, or the rows of the batch, as channels with height and width.
 * Of units it has a gradient, which an image has not. */
static inline wisp_status unflat_plan(struct wisp_layer *l, const struct wisp_act *const *in,
                                      struct wisp_act *out, const struct wisp_layer_sizes *s,
                                      wisp_error *e)
{
    (void)s;
    out->shape = (struct wisp_shape){
        3, { (size_t)l->arg[0], wisp_size_height(l->arg[1]), wisp_size_width(l->arg[1]) }
    };
    l->n_out = wisp_units(out->shape);
    return l->n_out == in[0]->width ? WISP_OK : wisp_fail(e, WISP_EINVAL, "unflat: %zu", l->n_out);
}
static inline wisp_status unflat_forward(const struct wisp_layer *l, struct wisp_step *s,
                                         const struct wisp_act *const *in, struct wisp_act *out,
                                         wisp_error *e)
{
    if (in[0]->form != WISP_ROWS) return wisp_layer_identity.forward(l, s, in, out, e);
    const struct wisp_batch *b = s->batch;
    memset(out->x, 0, b->n * out->floats * sizeof *out->x);
    for (size_t i = 0; i < b->n; i++)
        for (uint32_t k = b->xp[i]; k < b->xp[i + 1]; k++)
            out->x[i * out->floats + (size_t)b->xi[k]] = b->xv[k];
    return WISP_OK;
}
static inline wisp_status unflat_backward(struct wisp_layer *l, struct wisp_step *s,
                                          struct wisp_act *const *in, const struct wisp_act *out,
                                          wisp_error *e)
{
    return wisp_layer_identity.backward(l, s, in, out, e);
}
static const struct wisp_arg unflat_args[] = {
    { .name = "channels", .type = WISP_ARG_INT, .least = 1, .most = 1000 },
    { .name = "size", .type = WISP_ARG_SIZE, .least = 1, .most = 1000 },
    { .name = NULL },
};
static const struct wisp_layer_kind unflat = {
    .name = "unflat",
    .what = "units as channels with height and width",
    .args = unflat_args,
    .takes = WISP_ROWS | WISP_FLAT,
    .uses = WISP_IN_PLACE,
    .plan = unflat_plan,
    .forward = unflat_forward,
    .backward = unflat_backward,
};
__attribute__((constructor)) static void rig_begin(void)
{
    wisp_layer_kind_more = &unflat;
}

struct planes_text {
    struct text t;
    size_t c, h, w;
};

static inline size_t random_channels(void)
{
    static const size_t some[] = { 1, 2, 3, 5, 16, 17, 20, 33 };
    return some[below(sizeof some / sizeof *some)];
}

/* A kernel with a stride and a pad that fit. */
static inline void random_window(struct planes_text *p, bool pool)
{
    size_t kh, kw, stride, pad_h, pad_w, oh, ow;
    do {
        kh = 1 + below(4), kw = below(2) ? kh : 1 + below(4);
        stride = 1 + below(3), pad_h = below(kh), pad_w = below(kw);
        oh = wisp_conv_pixels(p->h, kh, stride, pad_h);
        ow = wisp_conv_pixels(p->w, kw, stride, pad_w);
    } while (oh == 0 || ow == 0);
    if (kh == kw && below(2)) put(&p->t, " %zu", kh);
    else put(&p->t, " %zux%zu", kh, kw);
    if (pool && below(2)) put(&p->t, " %zu", stride);
    else put(&p->t, " stride=%zu", stride);
    put(&p->t, " pad=%zux%zu", pad_h, pad_w);
    p->h = oh, p->w = ow;
}

static inline void random_conv(struct planes_text *p)
{
    size_t out = random_channels(), groups = 1;
    if (below(3) == 0 && p->c % 2 == 0) groups = 2, out += out % 2;
    else if (below(5) == 0) groups = p->c, out = p->c * (1 + below(2));
    put(&p->t, ", conv %zu", out);
    random_window(p, false);
    if (groups > 1) put(&p->t, " groups=%zu", groups);
    if (below(2)) put(&p->t, " bias=no");
    p->c = out;
}

static inline void random_planes_layer(struct planes_text *p, int number)
{
    const size_t other = random_channels();
    switch (below(10)) {
    case 0:
        put(&p->t, ", maxpool"), random_window(p, true);
        break;
    case 1:
        put(&p->t, ", avgpool"), random_window(p, true);
        break;
    case 2:
        put(&p->t, ", bn eps=0.1");
        break;
    case 3:
        put(&p->t, ", dropout 0.3, clip 2"), put_same(&p->t);
        break;
    case 4: /* a residual block, and one with a convolution on its short way */
        put(&p->t, ", conv %zu 1, as a%d, conv %zu 3 bias=no, relu, conv %zu 3x1, add a%d", p->c,
            number, other, p->c, number);
        break;
    case 5:
        put(&p->t, ", as a%d, conv %zu 1 as b%d, from a%d, conv %zu 3, relu, add b%d", number,
            other, number, number, other, number);
        p->c = other;
        break;
    case 6: /* channels side by side */
        put(&p->t, ", as a%d, conv %zu 3, relu, concat a%d", number, other, number);
        p->c += other;
        break;
    case 7:
        put(&p->t, ", as a%d, conv %zu 3, as b%d, concat a%d b%d", number, other, number, number,
            number);
        p->c += 2 * other;
        break;
    case 8: /* what is done together; a bias right before bn has no gradient */
        put(&p->t, ", conv %zu 3 bias=no, bn eps=0.1%s", other, below(2) ? ", relu" : "");
        if (below(2)) put(&p->t, ", maxpool"), random_window(p, true);
        p->c = other;
        break;
    default:
        random_conv(p), put(&p->t, ", relu");
        if (below(3) == 0) put(&p->t, ", maxpool"), random_window(p, true);
    }
}

/* "input 48, unflat 3 4x4, conv 17 3 ..., globalavg", or the same of the rows themselves; returns
 * how many features they must have then, else 0. */
static inline size_t random_planes_spec(char *spec, size_t room)
{
    struct planes_text p = {
        .t = { spec, room, 0, 0 }, .c = 1 + below(3), .h = 1 + below(6), .w = 1 + below(6)
    };
    const size_t units = p.c * p.h * p.w, rows = below(2) ? units : 0;
    const bool few = rows && below(4) == 0; /* of which nothing below the end may learn */
    if (!rows) put(&p.t, "input %zu, ", units);
    put(&p.t, "unflat %zu %zux%zu", p.c, p.h, p.w);
    if (few) put(&p.t, ", dropout 0.2, maxpool 1, as z, concat z");
    for (int i = 0, n = 1 + (int)below(4); !few && i < n; i++) random_planes_layer(&p, i);
    if (!few) random_conv(&p);
    put(&p.t, below(2) ? ", relu, globalavg" : ", relu, flatten");
    if (few && below(2)) put(&p.t, ", sampled 5");
    else if (below(2)) put(&p.t, ", dense %zu, relu", 1 + below(9));
    return rows;
}

#endif

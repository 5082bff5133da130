/* A smaller copy of a model, to predict with.
 *
 *   bf16   each weight rounded to nearest, ties to even
 *   int8   weight = q * scale;  scale = the row's largest |weight| / 127, or 0 of a row of zeros;
 *          q = weight / scale, rounded to nearest.  No offset: weights lie about 0, and a product
 *          of rows needs one multiplication more for a row, not for a weight.
 *   c64    weight = value * scale, where value is one of 64 that the layer's rows share: the best for
 *          weights divided by their row's largest (cluster.h).  Each takes the nearest; then the
 *          row's scale is the one that leaves the least squares, and each takes the nearest again.
 *   c16    the same with 16 values.  (Values of each row's own, at the same bytes, leave more:
 *          docs/prune.md.)
 *
 * Parameters that layers read by wisp_weights become narrow (the weights of the input and of the
 * output layer; those of one column stay), and those of linear models, where a list is a row; of a
 * joint model those of every member.  All other tensors are copied, and the metadata with "quantized"
 * added: names, idf, counts and the index are the model's own. */
#include "base/bounds.h"
#include "base/mem.h"
#include "model/cluster.h"
#include "model/joint.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

struct type {
    const char *name, *is; /* as asked for, and of what is there */
    enum wisp_dtype dtype;
    int bits;    /* of a weight */
    bool scaled; /* by one number of each row */
    bool coded;  /* numbers of values */
};
static const struct type types[] = {
    { "bf16", "BF16", WISP_BF16, 16, false, false },
    { "int8", "I8", WISP_I8, 8, true, false },
    { "c64", "c64", WISP_U8, 6, true, true },
    { "c16", "c16", WISP_U8, 4, true, true },
};

enum { SAMPLE = 1 << 20 }; /* weights that values are fitted to, at most */

struct job {
    const struct wisp_model *m;
    const struct type *to;
    struct wisp_tensor *t; /* for the file, in the order of the old one */
    size_t n;
    char *block; /* the new weights */
    size_t used;
};

static bool becomes_narrow(const struct wisp_param *p)
{
    return p->narrow && p->cols > 1;
}

/* The parameter that becomes narrow under this name, or NULL. */
static const struct wisp_param *find(const struct wisp_net *net, const char *name)
{
    for (size_t i = 0; i < net->list.n; i++) {
        const struct wisp_param *p = &net->list.p[i];
        if (becomes_narrow(p) && strcmp(p->name, name) == 0) return p;
    }
    return NULL;
}

/* Is it the scales or the values of one? */
static bool beside_narrow(const struct wisp_net *net, const char *name)
{
    for (size_t i = 0; i < net->list.n; i++) {
        const struct wisp_param *p = &net->list.p[i];
        const size_t n = strlen(p->name);
        if (becomes_narrow(p) && strncmp(p->name, name, n) == 0 &&
            (strcmp(name + n, ".scale") == 0 || strcmp(name + n, ".value") == 0))
            return true;
    }
    return false;
}

static int bits_of(const struct wisp_param *p)
{
    return p->codes ? p->bits : p->i8 ? 8 : p->b16 ? 16 : 32;
}

static const char *type_of(const struct wisp_param *p)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].bits == bits_of(p)) return types[i].is;
    return "F32";
}

static size_t row_bytes(const struct type *to, size_t cols)
{
    return to->coded ? wisp_codes_bytes(to->bits, cols) : cols * wisp_dtypes[to->dtype].bytes;
}

/* Can it be done for a net?  *bytes: those of the new weights are added. */
static wisp_status check_net(size_t *bytes, const struct job *j, const struct wisp_model *m,
                             wisp_error *err)
{
    const struct wisp_net *net = &m->net;
    for (size_t i = 0; i < net->list.n; i++) {
        const struct wisp_param *p = &net->list.p[i];
        if (!becomes_narrow(p)) continue;
        if (bits_of(p) <= j->to->bits)
            return wisp_fail(err, WISP_EINVAL,
                             "quantize: the model's '%s' is %s already, expected weights that "
                             "%s makes smaller",
                             p->name, type_of(p), j->to->name);
        *bytes += wisp_up(p->rows * row_bytes(j->to, p->cols), 64);
        if (j->to->scaled) *bytes += wisp_up(p->rows * sizeof *p->scale, 64);
        if (j->to->coded) *bytes += wisp_up(wisp_codes_values(j->to->bits) * sizeof *p->value, 64);
    }
    return WISP_OK;
}

/* ---- rows ---- */

/* Where the row has a number that is none in its new type; cols: nowhere. */
static size_t round_row(uint16_t *to, const struct wisp_param *p, size_t row)
{
    size_t first = row * p->cols;
    for (size_t c = 0; c < p->cols; c++) {
        to[c] = wisp_round16(wisp_param_at(p, first + c));
        if ((to[c] & 0x7f80) == 0x7f80) return c;
    }
    return p->cols;
}

static size_t scale_row(int8_t *to, float *scale, const struct wisp_param *p, size_t row)
{
    size_t first = row * p->cols;
    float most = 0;
    for (size_t c = 0; c < p->cols; c++) {
        float size = fabsf(wisp_param_at(p, first + c));
        if (!isfinite(size)) return c;
        if (size > most) most = size;
    }
    *scale = most / 127;
    if (!isfinite(127 * *scale)) *scale = nextafterf(*scale, 0); /* of the largest floats */
    for (size_t c = 0; c < p->cols; c++) { /* denormal scales are coarse: q may pass 127 */
        float q = *scale > 0 ? rintf(wisp_param_at(p, first + c) / *scale) : 0;
        to[c] = (int8_t)(q > 127 ? 127 : q < -127 ? -127 : q);
    }
    return p->cols;
}

/* A row as floats. */
static float *widen_row(float *to, const struct wisp_param *p, size_t row)
{
    for (size_t c = 0; c < p->cols; c++) to[c] = wisp_param_at(p, row * p->cols + c);
    return to;
}

/* Of finite numbers; else what is not. */
static float largest(const float *x, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++) {
        const float size = fabsf(x[i]);
        if (!isfinite(size)) return size;
        if (size > most) most = size;
    }
    return most;
}

struct codes { /* of a parameter, while it is made */
    int bits;
    size_t k; /* values */
    float *value;
    double limit[WISP_CLUSTER_MOST];
    float *row; /* (cols) room */
};

/* The values for the weights of a parameter, from rows at equal distances. */
static wisp_status fit_values(struct codes *to, const struct wisp_param *p, wisp_error *err)
{
    const size_t apart = wisp_parts(p->rows * p->cols, SAMPLE),
                 room = wisp_parts(p->rows, apart) * p->cols;
    float *x = wisp_alloc(room, sizeof *x);
    double *sum = wisp_alloc(room + 1, sizeof *sum);
    const bool ok = x && sum;
    size_t n = 0;
    for (size_t row = 0; ok && row < p->rows; row += apart) {
        const float most = largest(widen_row(to->row, p, row), p->cols);
        for (size_t c = 0; isfinite(most) && most > 0 && c < p->cols; c++)
            x[n++] = (float)((double)to->row[c] / (double)most);
    }
    if (ok) wisp_cluster(to->value, to->k, x, sum, n);
    wisp_cluster_limits(to->limit, to->value, to->k);
    wisp_free(x);
    wisp_free(sum);
    return ok ? WISP_OK : wisp_fail_mem(err, room * 12, "the values of weights");
}

/* The scale by which the nearest values leave the least squares, once they are chosen by 'by'. */
static double better_scale(const struct codes *v, size_t cols, double by)
{
    double square = 0, product = 0;
    for (size_t c = 0; c < cols; c++) {
        const double x = (double)v->row[c],
                     value = (double)v->value[wisp_cluster_nearest(v->limit, v->k, x / by)];
        square += value * value;
        product += value * x;
    }
    return square > 0 && product > 0 ? product / square : by;
}

/* 'to' is all 0. */
static size_t code_row(uint8_t *to, float *scale, const struct codes *v, const struct wisp_param *p,
                       size_t row)
{
    enum { FITS = 3 };
    double by = (double)largest(widen_row(v->row, p, row), p->cols);
    for (size_t c = 0; !isfinite(by) && c < p->cols; c++)
        if (!isfinite(v->row[c])) return c;
    for (int fit = 0; by > 0 && fit < FITS; fit++) by = better_scale(v, p->cols, by);
    *scale = (float)fmin(by, FLT_MAX);
    for (size_t c = 0; *scale > 0 && c < p->cols; c++)
        wisp_codes_put(to, v->bits, c,
                       wisp_cluster_nearest(v->limit, v->k, (double)v->row[c] / (double)*scale));
    return p->cols;
}

/* ---- tensors ---- */

static void *take(struct job *j, size_t bytes)
{
    char *p = j->block + j->used;
    j->used += wisp_up(bytes, 64);
    return p;
}

/* The next tensor of the file, its bytes to be filled. */
static void *add(struct job *j, const struct wisp_tensor *like, const char *more,
                 enum wisp_dtype type, int n_dims, const size_t *shape)
{
    struct wisp_tensor *t = &j->t[j->n++];
    *t = *like;
    strcat(t->name, more);
    t->dtype = type;
    t->n_dims = n_dims;
    for (int d = 0; d < n_dims; d++) t->shape[d] = shape[d];
    wisp_tensor_size(&t->bytes, type, n_dims, t->shape);
    void *data = take(j, t->bytes);
    t->data = data;
    return data;
}

static wisp_status add_narrow(struct job *j, const struct wisp_tensor *old,
                              const struct wisp_param *p, wisp_error *err)
{
    const struct type *type = j->to;
    const size_t bytes = row_bytes(type, p->cols), rows[] = { p->rows, bytes },
                 n_values = type->coded ? wisp_codes_values(type->bits) : 0;
    uint8_t *to = add(j, old, "", type->dtype, type->coded ? 2 : old->n_dims,
                      type->coded ? rows : old->shape);
    float *scale = type->scaled ? add(j, old, ".scale", WISP_F32, 1, rows) : NULL;
    struct codes v = { .bits = type->bits, .k = n_values };
    wisp_status st = WISP_OK;
    memset(to, 0, p->rows * bytes);
    if (type->coded) {
        v.value = add(j, old, ".value", WISP_F32, 1, &n_values);
        v.row = wisp_alloc(p->cols, sizeof *v.row);
        st = v.row ? fit_values(&v, p, err)
                   : wisp_fail_mem(err, p->cols * sizeof *v.row, "a row of weights");
    }
    for (size_t row = 0; st == WISP_OK && row < p->rows; row++) {
        size_t at = row * p->cols, bad;
        if (v.value) bad = code_row(to + row * bytes, scale + row, &v, p, row);
        else if (scale) bad = scale_row((int8_t *)to + at, scale + row, p, row);
        else bad = round_row((uint16_t *)to + at, p, row);
        if (bad < p->cols)
            st = wisp_fail(err, WISP_ENUMERIC,
                           "quantize: '%s' is %g at row %zu, column %zu: %s cannot hold that",
                           p->name, wisp_param_at(p, at + bad), row, bad, type->name);
    }
    wisp_free(v.row);
    return st;
}

/* 'name': of the tensor in a file of this model alone. */
static wisp_status add_of_net(struct job *j, const struct wisp_model *m, const char *name,
                              const struct wisp_tensor *t, wisp_error *err)
{
    const struct wisp_param *p = find(&m->net, name);
    if (beside_narrow(&m->net, name)) return WISP_OK; /* made anew */
    if (p) return add_narrow(j, t, p, err);
    j->t[j->n++] = *t;
    return WISP_OK;
}

/* ---- linear models: lists of weights in place of rows ---- */

static wisp_status check_linear(size_t *bytes, const struct job *j, const struct wisp_model *m,
                                wisp_error *err)
{
    const struct wisp_linear *l = &m->linear;
    const int bits = l->i8 ? 8 : l->b16 ? 16 : 32;
    if (j->to->coded)
        return wisp_fail(err, WISP_ENOTSUP,
                         "quantize: found a linear model, which becomes bf16 or int8, not %s",
                         j->to->name);
    if (bits <= j->to->bits)
        return wisp_fail(err, WISP_EINVAL,
                         "quantize: the model's 'linear.weight' is %s already, expected weights "
                         "that %s makes smaller",
                         l->i8 ? "I8" : "BF16", j->to->name);
    *bytes += wisp_up(wisp_linear_weights(l) * wisp_dtypes[j->to->dtype].bytes, 64) +
              wisp_up(wisp_linear_lists(l) * sizeof *l->scale, 64);
    return WISP_OK;
}

/* A list of weights as a parameter of one row. */
static struct wisp_param list_of(const struct wisp_linear *l, size_t list)
{
    const size_t first = (size_t)l->start[list];
    struct wisp_param p = { .rows = 1, .cols = (size_t)l->start[list + 1] - first };
    if (l->f32) p.w = (float *)l->f32 + first;
    else p.b16 = (uint16_t *)l->b16 + first;
    return p;
}

static wisp_status add_of_linear(struct job *j, const struct wisp_model *m, const char *name,
                                 const struct wisp_tensor *t, wisp_error *err)
{
    const struct wisp_linear *l = &m->linear;
    const size_t lists = wisp_linear_lists(l);
    if (strcmp(name, "linear.weight") != 0) {
        j->t[j->n++] = *t;
        return WISP_OK;
    }
    char *to = add(j, t, "", j->to->dtype, 1, t->shape);
    float *scale = j->to->scaled ? add(j, t, ".scale", WISP_F32, 1, &lists) : NULL;
    for (size_t i = 0; i < lists; i++) {
        const struct wisp_param p = list_of(l, i);
        const size_t first = (size_t)l->start[i];
        if (scale) scale_row((int8_t *)to + first, scale + i, &p, 0);
        else round_row((uint16_t *)to + first, &p, 0);
    }
    if (scale || wisp_finite16((uint16_t *)to, t->shape[0])) return WISP_OK;
    return wisp_fail(err, WISP_ENUMERIC, /* the largest floats round to infinity */
                     "quantize: '%s' has a number that bf16 cannot hold", t->name);
}

/* ---- a model, or the members of one ---- */

static size_t n_parts(const struct wisp_model *m)
{
    return m->joint ? m->joint->n : 1;
}

/* A part of the model, and what the names of its tensors begin with. */
static const struct wisp_model *part_of(char prefix[WISP_JOINT_PREFIX], const struct wisp_model *m,
                                        size_t i)
{
    *prefix = 0;
    if (m->joint) wisp_joint_prefix(prefix, i);
    return m->joint ? m->joint->members[i] : m;
}

static wisp_status check(size_t *bytes, const struct job *j, wisp_error *err)
{
    wisp_status st = WISP_OK;
    *bytes = 0;
    for (size_t i = 0; i < n_parts(j->m) && st == WISP_OK; i++) {
        char prefix[WISP_JOINT_PREFIX];
        const struct wisp_model *m = part_of(prefix, j->m, i);
        const bool net = wisp_model_is_net(m);
        st = net ? check_net(bytes, j, m, err) : check_linear(bytes, j, m, err);
    }
    if (st == WISP_OK && *bytes == 0)
        st = wisp_fail(err, WISP_EINVAL, "quantize: no weights of more than one column");
    return st;
}

static wisp_status add_tensor(struct job *j, const struct wisp_tensor *t, wisp_error *err)
{
    for (size_t i = 0; i < n_parts(j->m); i++) {
        char prefix[WISP_JOINT_PREFIX];
        const struct wisp_model *m = part_of(prefix, j->m, i);
        const size_t n = strlen(prefix);
        if (strncmp(t->name, prefix, n) != 0) continue;
        return wisp_model_is_net(m) ? add_of_net(j, m, t->name + n, t, err)
                                    : add_of_linear(j, m, t->name + n, t, err);
    }
    j->t[j->n++] = *t; /* what members have in common */
    return WISP_OK;
}

static wisp_status write_file(const struct job *j, const char *path, wisp_error *err)
{
    const struct wisp_tensor_file *f = &j->m->file;
    struct wisp_pair *meta = wisp_alloc(f->n_meta + 1, sizeof *meta);
    if (!meta) return wisp_fail_mem(err, (f->n_meta + 1) * sizeof *meta, "metadata");
    size_t n = 0;
    for (size_t i = 0; i < f->n_meta; i++)
        if (strcmp(f->meta[i].key, "quantized") != 0) meta[n++] = f->meta[i];
    meta[n++] = (struct wisp_pair){ "quantized", j->to->name };
    wisp_status st = wisp_tensor_file_write(path, j->t, j->n, meta, n, NULL, err);
    wisp_free(meta);
    return st;
}

wisp_status wisp_model_quantize(const struct wisp_model *m, const char *path, const char *type,
                                wisp_error *err)
{
    assert(m->file.map.p); /* as loaded */
    struct job j = { .m = m };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, type) == 0) j.to = &types[i];
    if (!j.to)
        return wisp_fail(err, WISP_EINVAL, "quantize: '%s' is not bf16, int8, c64 or c16", type);
    size_t bytes;
    wisp_status st = check(&bytes, &j, err);
    if (st != WISP_OK) return st;
    j.t = wisp_alloc(3 * m->file.n_tensors, sizeof *j.t);
    j.block = wisp_alloc(bytes, 1);
    if (!j.t || !j.block) st = wisp_fail_mem(err, bytes, "the smaller weights");
    for (size_t i = 0; i < m->file.n_tensors && st == WISP_OK; i++)
        st = add_tensor(&j, &m->file.tensors[i], err);
    st = wisp_map_blame(&m->file.map, st, err);
    if (st == WISP_OK) st = wisp_map_blame(&m->file.map, write_file(&j, path, err), err);
    wisp_free(j.t);
    wisp_free(j.block);
    return st;
}

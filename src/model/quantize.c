/* A smaller copy of a model, to predict with.
 *
 *   bf16   each weight rounded to nearest, ties to even
 *   int8   weight = q * scale;  scale = the row's largest |weight| / 127, or 0 of a row of zeros;
 *          q = weight / scale, rounded to nearest.  No offset: weights lie about 0, and a product
 *          of rows needs one multiplication more for a row, not for a weight.
 *
 * Parameters that layers read by wisp_weights become narrow (the weights of the input and of the
 * output layer; those of one column stay).  All other tensors are copied, and the metadata with
 * "quantized" added: names, idf, counts and the index are the model's own. */
#include "base/bounds.h"
#include "base/mem.h"
#include "model/model.h"

#include <assert.h>
#include <math.h>
#include <string.h>

struct job {
    const struct wisp_model *m;
    enum wisp_dtype to;
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

static enum wisp_dtype type_of(const struct wisp_param *p)
{
    return p->i8 ? WISP_I8 : p->b16 ? WISP_BF16 : WISP_F32;
}

/* Is there something to do?  *bytes: of the new weights. */
static wisp_status check(size_t *bytes, const struct job *j, const char *type, wisp_error *err)
{
    const struct wisp_net *net = &j->m->net;
    *bytes = 0;
    for (size_t i = 0; i < net->list.n; i++) {
        const struct wisp_param *p = &net->list.p[i];
        if (!becomes_narrow(p)) continue;
        if (wisp_dtypes[type_of(p)].bytes <= wisp_dtypes[j->to].bytes)
            return wisp_fail(err, WISP_EINVAL,
                             "quantize: the model's '%s' is %s already, expected weights that "
                             "%s makes smaller",
                             p->name, wisp_dtypes[type_of(p)].name, type);
        *bytes += wisp_up(p->rows * p->cols * wisp_dtypes[j->to].bytes, 64);
        if (j->to == WISP_I8) *bytes += wisp_up(p->rows * sizeof *p->scale, 64);
    }
    if (*bytes == 0)
        return wisp_fail(err, WISP_EINVAL, "quantize: no weights of more than one column");
    return WISP_OK;
}

/* ---- rows ---- */

static float weight(const struct wisp_param *p, size_t at)
{
    if (p->w) return p->w[at];
    uint32_t bits = (uint32_t)p->b16[at] << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Where the row has a number that is none in its new type; cols: nowhere. */
static size_t round_row(uint16_t *to, const struct wisp_param *p, size_t row)
{
    size_t first = row * p->cols;
    for (size_t c = 0; c < p->cols; c++) {
        to[c] = wisp_round16(weight(p, first + c));
        if ((to[c] & 0x7f80) == 0x7f80) return c;
    }
    return p->cols;
}

static size_t scale_row(int8_t *to, float *scale, const struct wisp_param *p, size_t row)
{
    size_t first = row * p->cols;
    float most = 0;
    for (size_t c = 0; c < p->cols; c++) {
        float size = fabsf(weight(p, first + c));
        if (!isfinite(size)) return c;
        if (size > most) most = size;
    }
    *scale = most / 127;
    for (size_t c = 0; c < p->cols; c++) { /* denormal scales are coarse: q may pass 127 */
        float q = *scale > 0 ? rintf(weight(p, first + c) / *scale) : 0;
        to[c] = (int8_t)(q > 127 ? 127 : q < -127 ? -127 : q);
    }
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
static void *add(struct job *j, const struct wisp_tensor *like, enum wisp_dtype type, int n_dims)
{
    struct wisp_tensor *t = &j->t[j->n++];
    *t = *like;
    t->dtype = type;
    t->n_dims = n_dims;
    wisp_tensor_size(&t->bytes, type, n_dims, t->shape);
    void *data = take(j, t->bytes);
    t->data = data;
    return data;
}

static wisp_status add_narrow(struct job *j, const struct wisp_tensor *old,
                              const struct wisp_param *p, const char *type, wisp_error *err)
{
    void *to = add(j, old, j->to, old->n_dims);
    float *scale = NULL;
    if (j->to == WISP_I8) {
        scale = add(j, old, WISP_F32, 1);
        strcat(j->t[j->n - 1].name, ".scale");
    }
    for (size_t row = 0; row < p->rows; row++) {
        size_t at = row * p->cols, bad;
        if (scale) bad = scale_row((int8_t *)to + at, scale + row, p, row);
        else bad = round_row((uint16_t *)to + at, p, row);
        if (bad < p->cols)
            return wisp_fail(err, WISP_ENUMERIC,
                             "quantize: '%s' is %g at row %zu, column %zu: %s cannot hold that",
                             p->name, weight(p, at + bad), row, bad, type);
    }
    return WISP_OK;
}

static wisp_status add_all(struct job *j, const char *type, wisp_error *err)
{
    const struct wisp_tensor_file *f = &j->m->file;
    wisp_status st = WISP_OK;
    for (size_t i = 0; i < f->n_tensors && st == WISP_OK; i++) {
        const struct wisp_param *p = find(&j->m->net, f->tensors[i].name);
        if (p) st = add_narrow(j, &f->tensors[i], p, type, err);
        else j->t[j->n++] = f->tensors[i];
    }
    return st;
}

static wisp_status write_file(const struct job *j, const char *path, const char *type,
                              wisp_error *err)
{
    const struct wisp_tensor_file *f = &j->m->file;
    struct wisp_pair *meta = wisp_alloc(f->n_meta + 1, sizeof *meta);
    if (!meta) return wisp_fail_mem(err, (f->n_meta + 1) * sizeof *meta, "metadata");
    size_t n = 0;
    for (size_t i = 0; i < f->n_meta; i++)
        if (strcmp(f->meta[i].key, "quantized") != 0) meta[n++] = f->meta[i];
    meta[n++] = (struct wisp_pair){ "quantized", type };
    wisp_status st = wisp_tensor_file_write(path, j->t, j->n, meta, n, NULL, err);
    wisp_free(meta);
    return st;
}

wisp_status wisp_model_quantize(const struct wisp_model *m, const char *path, const char *type,
                                wisp_error *err)
{
    assert(m->file.map.p); /* as loaded */
    bool int8 = strcmp(type, "int8") == 0;
    if (!int8 && strcmp(type, "bf16") != 0)
        return wisp_fail(err, WISP_EINVAL, "quantize: '%s' is not bf16 or int8", type);
    struct job j = { .m = m, .to = int8 ? WISP_I8 : WISP_BF16 };
    size_t bytes;
    wisp_status st = check(&bytes, &j, type, err);
    if (st != WISP_OK) return st;
    j.t = wisp_alloc(2 * m->file.n_tensors, sizeof *j.t);
    j.block = wisp_alloc(bytes, 1);
    if (!j.t || !j.block) st = wisp_fail_mem(err, bytes, "the smaller weights");
    if (st == WISP_OK) st = add_all(&j, type, err);
    st = wisp_map_blame(&m->file.map, st, err);
    if (st == WISP_OK) st = wisp_map_blame(&m->file.map, write_file(&j, path, type, err), err);
    wisp_free(j.t);
    wisp_free(j.block);
    return st;
}

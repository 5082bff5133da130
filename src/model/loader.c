/* Tensors to and from a file, by their names behind a prefix. */
#include "model/loader.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void wisp_list_add_shape(struct wisp_tensor_list *l, const char *name, enum wisp_dtype dtype,
                         int rank, const size_t *dim, const void *data)
{
    if (l->full || strlen(l->prefix) + strlen(name) >= sizeof l->t->name ||
        !wisp_grow(&l->t, l->n, &l->cap, sizeof *l->t)) {
        l->full = true;
        return;
    }
    struct wisp_tensor *t = &l->t[l->n++];
    *t = (struct wisp_tensor){ .dtype = dtype, .n_dims = rank, .data = data };
    memcpy(t->shape, dim, (size_t)rank * sizeof *dim);
    wisp_tensor_size(&t->bytes, dtype, rank, dim);
    snprintf(t->name, sizeof t->name, "%s%s", l->prefix, name);
}

void wisp_list_add_param(struct wisp_tensor_list *l, const struct wisp_param *p,
                         enum wisp_dtype dtype, const void *data)
{
    size_t dim[WISP_MAX_RANK], n = l->n;
    memcpy(dim, p->dim, sizeof dim);
    if (!wisp_share_all(p->share)) dim[0] = p->total_rows;
    wisp_list_add_shape(l, p->name, dtype, p->rank, dim, data);
    if (l->n > n && !wisp_share_all(p->share))
        l->t[n].parts = (struct wisp_parts){ l->comm, p->share, p->total_rows,
                                             p->cols * wisp_dtypes[dtype].bytes };
}

void wisp_list_add(struct wisp_tensor_list *l, const char *name, enum wisp_dtype dtype, size_t n,
                   const void *data)
{
    wisp_list_add_shape(l, name, dtype, 1, &n, data);
}

static const char *const calibrations[WISP_N_WAYS] = { "calibration.exact", "calibration.sparse" };

void wisp_list_calibrations(struct wisp_tensor_list *l, const struct wisp_model *m)
{
    for (int i = 0; i < WISP_N_WAYS; i++)
        if (m->calibration[i])
            wisp_list_add(l, calibrations[i], WISP_F32, WISP_CALIBRATION_FLOATS, m->calibration[i]);
}

/* ---- from a file ---- */

/* The longest name that is asked for, and the longest key. */
enum { NAME_ROOM = WISP_NAME_BYTES + 16 };

static const char *prefixed(char out[NAME_ROOM], const struct wisp_loader *ld, const char *name)
{
    snprintf(out, NAME_ROOM, "%s%s", ld->prefix, name);
    return out;
}

const struct wisp_tensor *wisp_loader_find(const struct wisp_loader *ld, const char *name)
{
    char whole[NAME_ROOM];
    return wisp_tensor_file_find(ld->file, prefixed(whole, ld, name));
}

const char *wisp_loader_meta(const struct wisp_loader *ld, const char *key)
{
    char whole[NAME_ROOM];
    return wisp_tensor_file_meta(ld->file, prefixed(whole, ld, key));
}

/* Where a tensor that is not finite is not. */
static wisp_status no_number(const struct wisp_loader *ld, const struct wisp_tensor *t,
                             wisp_error *err)
{
    const bool half = t->dtype == WISP_BF16;
    size_t i = 0;
    while (half ? wisp_finite16((const uint16_t *)t->data + i, 1)
                : wisp_finite((const float *)t->data + i, 1))
        i++;
    size_t row = i;
    for (int d = 1; d < t->n_dims; d++) row /= t->shape[d];
    bool nan = half ? ((const uint16_t *)t->data)[i] & 0x7f : isnan(((const float *)t->data)[i]);
    return wisp_fail_at(err, WISP_EMODEL, ld->path, 0, "'%s' is %s in row %zu, expected a number",
                        t->name, nan ? "nan" : "inf", row);
}

wisp_status wisp_need_shape(const struct wisp_tensor **out, const struct wisp_loader *ld,
                            const char *name, enum wisp_dtype dtype, int n_dims,
                            const size_t *shape, wisp_error *err)
{
    const struct wisp_tensor *t = *out = wisp_loader_find(ld, name);
    char want[WISP_TENSOR_TEXT], have[WISP_TENSOR_TEXT];
    if (!t)
        return wisp_fail_at(err, WISP_EMODEL, ld->path, 0, "tensor '%s%s' is missing", ld->prefix,
                            name);
    if (t->dtype != dtype || t->n_dims != n_dims ||
        memcmp(t->shape, shape, (size_t)n_dims * sizeof *shape) != 0)
        return wisp_fail_at(err, WISP_EMODEL, ld->path, 0,
                            "tensor '%s' has another type or shape than %s: it is %s", t->name,
                            wisp_tensor_text(want, dtype, n_dims, shape),
                            wisp_tensor_text(have, t->dtype, t->n_dims, t->shape));
    return t->finite ? WISP_OK : no_number(ld, t, err);
}

wisp_status wisp_need(const struct wisp_tensor **out, const struct wisp_loader *ld,
                      const char *name, enum wisp_dtype dtype, size_t n, wisp_error *err)
{
    return wisp_need_shape(out, ld, name, dtype, 1, &n, err);
}

wisp_status wisp_expect_from_0(const struct wisp_loader *ld, const char *name, const float *x,
                               size_t n, wisp_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] < 0)
            return wisp_fail_at(err, WISP_EMODEL, ld->path, 0,
                                "'%s%s' is %g in row %zu, expected a number from 0", ld->prefix,
                                name, x[i], i);
    return WISP_OK;
}

wisp_status wisp_need_number(size_t *out, const struct wisp_loader *ld, const char *key,
                             uint64_t most, wisp_error *err)
{
    const char *s = wisp_loader_meta(ld, key), *text = s;
    *out = 0;
    for (; s && *s >= '0' && *s <= '9' && *out <= most; s++)
        *out = 10 * *out + (size_t)(*s - '0'); /* 'most' is far from overflowing */
    if (!s || (!*s && *out <= most)) return WISP_OK;
    return wisp_fail_at(err, WISP_EMODEL, ld->path, 0,
                        "metadata '%s%s' is '%.40s', expected 0 to %llu", ld->prefix, key, text,
                        (unsigned long long)most);
}

wisp_status wisp_loader_calibrations(const struct wisp_loader *ld, wisp_error *err)
{
    struct wisp_model *m = ld->m;
    for (int i = 0; i < WISP_N_WAYS; i++) {
        const struct wisp_tensor *t;
        if (!wisp_loader_find(ld, calibrations[i])) continue;
        wisp_status st = wisp_need(&t, ld, calibrations[i], WISP_F32, WISP_CALIBRATION_FLOATS, err);
        if (st != WISP_OK) return st;
        if (!wisp_calibration_ok(t->data))
            return wisp_fail_at(err, WISP_EMODEL, ld->path, 0,
                                "'%s' has numbers out of range, expected 4 weights, of which the "
                                "first two are not negative, and 2 percentages",
                                t->name);
        memcpy(&m->fitted[i], t->data, sizeof m->fitted[i]);
        m->calibration[i] = &m->fitted[i];
    }
    return WISP_OK;
}

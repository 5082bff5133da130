/* Weights of a net of images by PyTorch's names, from and to plain safetensors files.
 *
 * A tensor's name is the layer's name, with '.' for '-', and the part's: what the table below says
 * of the layer's kind.  So `conv 64 3 as features-0` is features.0.weight and features.0.bias, and
 * conv1 in the second turn of `2 x layer1 (...)` is layer1.1.conv1.weight: the names of torchvision,
 * because the nets that wisp brings along name their layers so.  No net is known here.
 *
 * Means and deviations of images are no tensors there: PyTorch's programs subtract them before the
 * net.  They travel as the metadata "mean" and "std", which PyTorch does not look at. */
#include "model/kind.h"
#include "model/torch.h"
#include "base/mem.h"
#include "base/text.h"
#include "data/image.h"
#include "layer/image.h"
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum form {
    SAME,   /* the shape is ours */
    VECTOR, /* (n) of our (1, n) or (n, 1) */
    TURNED, /* (b, a) of our (a, b) */
    COUNT,  /* a whole number beside the others, which we do not keep */
    ASIDE   /* ours alone: metadata */
};

static const struct row {
    const struct wisp_layer_kind *kind;
    const char *ours, *theirs; /* ours NULL: there is none */
    enum form form;
    bool from_0; /* no number is below 0 */
} rows[] = {
    { &wisp_layer_conv, "weight", "weight", SAME, false },
    { &wisp_layer_conv, "bias", "bias", VECTOR, false },
    { &wisp_layer_dense, "weight", "weight", TURNED, false },
    { &wisp_layer_dense, "bias", "bias", VECTOR, false },
    { &wisp_layer_output, "weight", "weight", SAME, false },
    { &wisp_layer_output, "bias", "bias", VECTOR, false },
    { &wisp_layer_bn, "scale", "weight", VECTOR, false },
    { &wisp_layer_bn, "shift", "bias", VECTOR, false },
    { &wisp_layer_bn, "running_mean", "running_mean", VECTOR, false },
    { &wisp_layer_bn, "running_var", "running_var", VECTOR, true },
    { &wisp_layer_bn, NULL, "num_batches_tracked", COUNT, false },
    { &wisp_layer_image, "mean", NULL, ASIDE, false },
    { &wisp_layer_image, "scale", NULL, ASIDE, false },
};
enum { N_ROWS = sizeof rows / sizeof *rows };

/* What torchvision's weights were trained with. */
static const float imagenet_mean[3] = { 0.485f, 0.456f, 0.406f },
                   imagenet_std[3] = { 0.229f, 0.224f, 0.225f };

/* ---- tensors of a net ---- */

struct item { /* a tensor as PyTorch has it; its data are not set */
    struct wisp_tensor t;
    const struct row *row;
    struct wisp_param *p; /* NULL: COUNT */
    const struct wisp_layer *layer;
};

struct items {
    struct item *item;
    size_t n, cap;
};

static void name_item(struct item *to, const struct wisp_layer *l, const char *what)
{
    char name[WISP_PARAM_NAME];
    wisp_layer_param_name(name, l, what);
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++) to->t.name[i] = name[i] == '-' ? '.' : name[i];
    to->t.name[n] = 0;
}

static void shape_item(struct item *to)
{
    const struct wisp_param *p = to->p;
    struct wisp_tensor *t = &to->t;
    t->dtype = to->row->form == COUNT ? WISP_I64 : WISP_F32;
    for (int i = 0; i < WISP_MAX_DIMS; i++) t->shape[i] = 1;
    if (to->row->form == VECTOR) t->n_dims = 1, t->shape[0] = wisp_param_n(p);
    else if (to->row->form == TURNED) t->n_dims = 2, t->shape[0] = p->cols, t->shape[1] = p->rows;
    else if (to->row->form == SAME) {
        t->n_dims = p->rank;
        memcpy(t->shape, p->dim, (size_t)p->rank * sizeof *p->dim);
    }
    wisp_tensor_size(&t->bytes, t->dtype, t->n_dims, t->shape);
}

/* The layer's parameter of this name, or NULL. */
static struct wisp_param *param_of(const struct wisp_layer *l, const char *what)
{
    char name[WISP_PARAM_NAME];
    wisp_layer_param_name(name, l, what);
    for (int i = 0; i < l->n_params; i++)
        if (strcmp(l->params[i].name, name) == 0) return &l->params[i];
    return NULL;
}

static wisp_status list_layer(struct items *to, const struct wisp_layer *l, wisp_error *err)
{
    int known = 0;
    for (const struct row *r = rows; r < rows + N_ROWS; r++) {
        struct wisp_param *p = r->ours && r->kind == l->kind ? param_of(l, r->ours) : NULL;
        if (r->kind != l->kind || (r->ours && !p)) continue;
        known += p != NULL;
        if (r->form == ASIDE) continue;
        if (!wisp_grow(&to->item, to->n, &to->cap, sizeof *to->item))
            return wisp_fail_mem(err, to->n * sizeof *to->item, "the list of tensors");
        struct item *item = &to->item[to->n++];
        *item = (struct item){ .row = r, .p = p, .layer = l };
        name_item(item, l, r->theirs);
        shape_item(item);
    }
    return known == l->n_params
               ? WISP_OK
               : wisp_fail(err, WISP_ENOTSUP,
                           "weights of '%s' have no name and form in PyTorch that wisp knows; "
                           "expected a net of 'image', 'conv', 'bn', 'dense' and 'output'",
                           l->kind->name);
}

static wisp_status list_net(struct items *to, const struct wisp_net *net, wisp_error *err)
{
    *to = (struct items){ 0 };
    if (!wisp_net_image(net))
        return wisp_fail(err, WISP_ENOTSUP,
                         "only nets that read images ('image') have weights by PyTorch's names");
    wisp_status st = WISP_OK;
    for (int i = 0; i < net->n_layers && st == WISP_OK; i++)
        st = list_layer(to, &net->layers[i], err);
    if (st != WISP_OK) wisp_free(to->item);
    return st;
}

/* ---- from a file ---- */

bool wisp_torch_is(const char *path)
{
    struct wisp_map map;
    if (wisp_map_open(&map, path, NULL) != WISP_OK) return false;
    const bool is = wisp_tensor_file_is_plain(map.p, map.bytes);
    wisp_map_close(&map);
    return is;
}

/* Number i of a tensor, which may lie anywhere. */
static float number_at(const struct wisp_tensor *t, size_t i)
{
    const char *p = (const char *)t->data + i * wisp_dtypes[t->dtype].bytes;
    uint32_t bits;
    uint16_t half;
    float x;
    if (t->dtype == WISP_F32) {
        memcpy(&x, p, sizeof x);
        return x;
    }
    memcpy(&half, p, sizeof half);
    bits = (uint32_t)half << 16;
    memcpy(&x, &bits, sizeof x);
    if (t->dtype == WISP_BF16) return x;
    const int exponent = half >> 10 & 31, fraction = half & 1023; /* sign | 5 bits | 10 bits */
    x = exponent ? ldexpf((float)(fraction + 1024), exponent - 25) : ldexpf((float)fraction, -24);
    return half >> 15 ? -x : x;
}

static bool is_float(const struct wisp_tensor *t)
{
    return t->dtype == WISP_F32 || t->dtype == WISP_BF16 || t->dtype == WISP_F16;
}

static bool same_shape(const struct wisp_tensor *a, const struct wisp_tensor *b)
{
    return a->n_dims == b->n_dims &&
           memcmp(a->shape, b->shape, (size_t)a->n_dims * sizeof *a->shape) == 0;
}

static wisp_status check_item(const struct wisp_tensor_file *f, const char *path,
                              const struct item *want, wisp_error *err)
{
    char have[WISP_TENSOR_TEXT], expected[WISP_TENSOR_TEXT];
    const struct wisp_tensor *t = wisp_tensor_file_find(f, want->t.name);
    wisp_tensor_text(expected, want->t.dtype, want->t.n_dims, want->t.shape);
    if (!t && want->row->form == COUNT) return WISP_OK;
    if (!t)
        return wisp_fail_at(err, WISP_EMODEL, path, 0,
                            "tensor '%s' (%s) of the net is missing; the file has '%s', ...",
                            want->t.name, expected, f->tensors[0].name);
    wisp_tensor_text(have, t->dtype, t->n_dims, t->shape);
    if (!same_shape(t, &want->t))
        return wisp_fail_at(err, WISP_EMODEL, path, 0, "tensor '%s' is %s, the net's is %s",
                            t->name, have, expected);
    if (want->row->form == COUNT) return WISP_OK;
    if (!is_float(t))
        return wisp_fail_at(err, WISP_EMODEL, path, 0,
                            "tensor '%s' is %s, expected numbers of F32, BF16 or F16", t->name,
                            have);
    if (!t->finite)
        return wisp_fail_at(err, WISP_EMODEL, path, 0,
                            "tensor '%s' has a value that is infinite or no number", t->name);
    for (size_t i = 0, n = wisp_param_n(want->p); want->row->from_0 && i < n; i++)
        if (number_at(t, i) < 0)
            return wisp_fail_at(err, WISP_EMODEL, path, 0,
                                "tensor '%s' is %g at %zu, expected a variance, from 0", t->name,
                                (double)number_at(t, i), i);
    return WISP_OK;
}

static bool taken(const struct item *i, bool head)
{
    return head || !i->layer->kind->head;
}

/* A tensor that is no layer's. */
static wisp_status check_extra(const struct wisp_tensor_file *f, const char *path,
                               const struct items *list, wisp_error *err)
{
    for (size_t k = 0; k < f->n_tensors; k++) {
        const struct wisp_tensor *t = &f->tensors[k];
        char have[WISP_TENSOR_TEXT];
        size_t i = 0;
        while (i < list->n && strcmp(list->item[i].t.name, t->name) != 0) i++;
        if (i == list->n)
            return wisp_fail_at(err, WISP_EMODEL, path, 0,
                                "tensor '%s' (%s) is of no layer of the net", t->name,
                                wisp_tensor_text(have, t->dtype, t->n_dims, t->shape));
    }
    return WISP_OK;
}

wisp_status wisp_torch_check(const struct wisp_tensor_file *f, const char *path,
                             const struct wisp_net *net, bool head, wisp_error *err)
{
    struct items list;
    wisp_status st = list_net(&list, net, err);
    if (st != WISP_OK) return st;
    for (size_t i = 0; i < list.n && st == WISP_OK; i++)
        if (taken(&list.item[i], head)) st = check_item(f, path, &list.item[i], err);
    if (st == WISP_OK) st = check_extra(f, path, &list, err);
    wisp_free(list.item);
    return st;
}

static void take_item(const struct item *to, const struct wisp_tensor *t)
{
    struct wisp_param *p = to->p;
    if (to->row->form != TURNED)
        for (size_t i = 0; i < wisp_param_n(p); i++) p->w[i] = number_at(t, i);
    else
        for (size_t r = 0; r < p->rows; r++)
            for (size_t c = 0; c < p->cols; c++)
                p->w[r * p->cols + c] = number_at(t, c * p->rows + r);
}

wisp_status wisp_torch_take(struct wisp_net *net, const struct wisp_tensor_file *f, bool head,
                            wisp_error *err)
{
    struct items list;
    wisp_status st = list_net(&list, net, err);
    if (st != WISP_OK) return st;
    for (size_t i = 0; i < list.n; i++)
        if (list.item[i].p && taken(&list.item[i], head))
            take_item(&list.item[i], wisp_tensor_file_find(f, list.item[i].t.name));
    wisp_free(list.item);
    return WISP_OK;
}

size_t wisp_torch_labels(const struct wisp_tensor_file *f, const struct wisp_net *net)
{
    struct item head = { 0 };
    name_item(&head, wisp_net_output(net), "weight");
    const struct wisp_tensor *t = wisp_tensor_file_find(f, head.t.name);
    return t && t->n_dims > 0 ? t->shape[0] : 0;
}

/* ---- means and deviations ---- */

/* "0.485 0.456 0.406"; false: these are not so many numbers. */
static bool read_numbers(float *to, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++) {
        char *end;
        const double x = wisp_strtod(text, &end);
        if (end == text || !isfinite(x)) return false;
        to[i] = (float)x;
        text = end;
        while (*text == ' ' || *text == ',') text++;
    }
    return *text == 0;
}

wisp_status wisp_torch_means(float *mean, float *scale, size_t channels, const char **whose,
                             const struct wisp_tensor_file *f, const char *path, wisp_error *err)
{
    const char *means = wisp_tensor_file_meta(f, "mean"), *stds = wisp_tensor_file_meta(f, "std");
    *whose = NULL;
    if (means && stds) {
        bool ok = read_numbers(mean, channels, means) && read_numbers(scale, channels, stds);
        for (size_t c = 0; ok && c < channels; c++) {
            ok = scale[c] > 0 && isfinite(1 / scale[c]);
            scale[c] = 1 / scale[c];
        }
        if (!ok)
            return wisp_fail_at(err, WISP_EMODEL, path, 0,
                                "metadata 'mean' and 'std' are '%.80s' and '%.80s', expected %zu "
                                "numbers each, deviations above 0",
                                means, stds, channels);
        *whose = "the file's";
    } else if (channels == 3) {
        for (size_t c = 0; c < 3; c++) {
            mean[c] = imagenet_mean[c];
            scale[c] = 1 / imagenet_std[c];
        }
        *whose = "ImageNet's";
    }
    return WISP_OK;
}

/* ---- to a file ---- */

static void give_item(float *to, const struct item *from)
{
    const struct wisp_param *p = from->p;
    if (from->row->form != TURNED)
        for (size_t i = 0; i < wisp_param_n(p); i++) to[i] = wisp_param_at(p, i);
    else
        for (size_t c = 0; c < p->cols; c++)
            for (size_t r = 0; r < p->rows; r++)
                to[c * p->rows + r] = wisp_param_at(p, r * p->cols + c);
}

enum { MEANS_TEXT = 400 };

/* So many digits that the same floats come back. */
static void print_means(char mean[MEANS_TEXT], char std[MEANS_TEXT], const struct wisp_layer *l)
{
    size_t m = 0, s = 0;
    for (size_t c = 0; c < l->params[WISP_IMAGE_MEAN].cols && m < MEANS_TEXT && s < MEANS_TEXT;
         c++) {
        m += (size_t)wisp_print(mean + m, MEANS_TEXT - m, "%s%.9g", c ? " " : "",
                                (double)l->params[WISP_IMAGE_MEAN].w[c]);
        s += (size_t)wisp_print(std + s, MEANS_TEXT - s, "%s%.17g", c ? " " : "",
                                1 / (double)l->params[WISP_IMAGE_SCALE].w[c]);
    }
}

/* Whole numbers first: a reader's view of eight bytes wants their address to be a multiple. */
static size_t arrange(struct wisp_tensor *t, const struct items *list, float *block)
{
    static const int64_t none = 0;
    size_t n = 0;
    for (int floats = 0; floats < 2; floats++)
        for (size_t i = 0; i < list->n; i++) {
            const struct item *from = &list->item[i];
            if ((from->p != NULL) != floats) continue;
            t[n] = from->t;
            t[n].data = &none;
            if (floats) {
                give_item(block, from);
                t[n].data = block;
                block += wisp_param_n(from->p);
            }
            n++;
        }
    return n;
}

wisp_status wisp_model_export(const struct wisp_model *m, const char *path, wisp_error *err)
{
    struct items list;
    char mean[MEANS_TEXT] = "", std[MEANS_TEXT] = "", image[WISP_IMAGE_TEXT];
    wisp_status st = wisp_model_need_net(m, "weights as PyTorch names them", err);
    if (st == WISP_OK) st = list_net(&list, &m->net, err);
    if (st != WISP_OK) return st;
    size_t floats = 0;
    for (size_t i = 0; i < list.n; i++) floats += list.item[i].p ? wisp_param_n(list.item[i].p) : 0;
    float *block = wisp_alloc(floats, sizeof *block);
    struct wisp_tensor *t = wisp_alloc(list.n, sizeof *t);
    if (!block || !t) st = wisp_fail_mem(err, floats * sizeof *block, "the weights to write");
    if (st == WISP_OK) {
        print_means(mean, std, wisp_net_image(&m->net));
        const struct wisp_pair meta[] = {
            { "format", "pt" }, /* what Python's readers ask for */
            { "net", m->spec },
            { "loss", m->loss->name },
            { "image", wisp_image_text(image, wisp_net_images(&m->net)) },
            { "mean", mean },
            { "std", std },
        };
        const size_t n = arrange(t, &list, block);
        st = wisp_map_check(&m->file.map, err);
        if (st == WISP_OK)
            st = wisp_tensor_file_write_plain(path, t, n, meta, sizeof meta / sizeof *meta, err);
    }
    wisp_free(block);
    wisp_free(t);
    wisp_free(list.item);
    return st;
}

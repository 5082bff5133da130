/* A model made of weights from elsewhere: what the file's metadata, or options, say of the net, the
 * images and the loss; the weights; names of labels.  Nobody counted rows, so it has none. */
#include "base/mem.h"
#include "base/report.h"
#include "data/image.h"
#include "layer/image.h"
#include "layer/output.h"
#include "model/model.h"
#include "model/nets.h"
#include "model/torch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct import {
    const char *path; /* of the weights */
    const wisp_config *cfg;
    struct wisp_tensor_file file;
    struct wisp_net_text text;
    struct wisp_model *m;
    const char *whose; /* means and deviations */
};

/* An option, or what the file says in its place; NULL: neither. */
static const char *said(const struct import *j, enum wisp_opt o)
{
    return wisp_opt_given(j->cfg, o) ? wisp_opt_text(j->cfg, o)
                                     : wisp_tensor_file_meta(&j->file, wisp_option_row(o)->key);
}

static wisp_status find_net(struct import *j, wisp_error *err)
{
    const char *text = said(j, OPT_NET);
    if (!text || !*text)
        return wisp_fail(err, WISP_EINVAL,
                         "--net: %s does not say of which net its weights are; name it, e.g. --net "
                         "resnet18",
                         j->path);
    return wisp_opt_given(j->cfg, OPT_NET) ? wisp_net_text_read(&j->text, text, err)
                                           : wisp_net_text_set(&j->text, text, err);
}

/* "3x224x224", with or without blanks. */
static bool read_image(struct wisp_image *out, const char *text)
{
    char spaced[WISP_IMAGE_TEXT];
    size_t n = 0;
    for (; *text && n + 3 < sizeof spaced; text++) {
        if (*text == ' ') continue;
        if (*text == 'x') spaced[n++] = ' ';
        spaced[n++] = *text;
        if (*text == 'x') spaced[n++] = ' ';
    }
    spaced[n] = 0;
    return !*text && wisp_image_read(out, spaced) && out->channels && out->height && out->width &&
           (uint64_t)out->channels * out->height <= INT32_MAX / out->width;
}

static wisp_status find_image(struct wisp_image *out, const struct import *j, wisp_error *err)
{
    const char *text = said(j, OPT_IMAGE);
    if (!text || !*text)
        return wisp_fail(
            err, WISP_EINVAL,
            "--image: %s does not say what images its net reads; name their size, e.g. "
            "--image 3x224x224",
            j->path);
    if (!read_image(out, text))
        return wisp_fail_option(err, "image",
                                "'%.40s' is not CHANNELSxHEIGHTxWIDTH, e.g. 3x224x224", text);
    return WISP_OK;
}

static wisp_status find_loss(struct import *j, wisp_error *err)
{
    const char *given = said(j, OPT_LOSS);
    const char *name = given && strcmp(given, "auto") != 0 ? given : "softmax";
    j->m->loss = wisp_loss_find(name);
    return j->m->loss ? WISP_OK
                      : wisp_fail_at(err, WISP_EMODEL, j->path, 0,
                                     "metadata 'loss' is '%.40s', which is none", name);
}

/* The net with as many labels as the weights of its output layer have. */
static wisp_status plan(struct import *j, struct wisp_image image, wisp_error *err)
{
    const size_t n_features = (size_t)image.channels * image.height * image.width;
    struct wisp_net *net = &j->m->net;
    struct wisp_layer_sizes sizes = { .batch = WISP_SCORE_BATCH,
                                      .image = wisp_image_shape(image),
                                      .loss = j->m->loss,
                                      .loss_by = "--loss" };
    wisp_status st =
        wisp_net_plan_text(net, j->text.text, j->text.where, n_features, 1, &sizes, err);
    if (st != WISP_OK) return st;
    const size_t n_labels = wisp_torch_labels(&j->file, net);
    if (n_labels > 1) {
        wisp_net_clear(net);
        st =
            wisp_net_plan_text(net, j->text.text, j->text.where, n_features, n_labels, &sizes, err);
    }
    if (st != WISP_OK) return st;
    const struct wisp_loss *own = wisp_output_loss(wisp_net_output(net));
    if (own) j->m->loss = own;
    return WISP_OK;
}

/* Of the options, both of them; else as wisp_torch_means has them. */
static wisp_status set_means(struct import *j, wisp_error *err)
{
    static const enum wisp_opt both[2] = { OPT_MEAN, OPT_STD };
    const struct wisp_layer *l = wisp_net_image(&j->m->net);
    float *const to[2] = { l->params[WISP_IMAGE_MEAN].w, l->params[WISP_IMAGE_SCALE].w };
    const size_t channels = l->params[WISP_IMAGE_MEAN].cols;
    if (wisp_opt_given(j->cfg, OPT_MEAN) != wisp_opt_given(j->cfg, OPT_STD))
        return wisp_fail(err, WISP_EINVAL, "--mean and --std are given together, or neither is");
    if (!wisp_opt_given(j->cfg, OPT_MEAN)) {
        wisp_status st =
            wisp_torch_means(to[0], to[1], channels, &j->whose, &j->file, j->path, err);
        if (st == WISP_OK && !j->whose)
            st = wisp_fail(err, WISP_EINVAL,
                           "--mean, --std: %s does not say what was subtracted from images of %zu "
                           "channel%s and what they were divided by; name both (--mean 0 --std 1: "
                           "values from 0 to 1)",
                           j->path, channels, channels == 1 ? "" : "s");
        return st;
    }
    for (int i = 0; i < 2; i++) {
        double x[64];
        size_t n;
        wisp_status st = wisp_opt_list(x, &n, 64, j->cfg, both[i], err);
        if (st != WISP_OK) return st;
        if (n != channels)
            return wisp_fail_option(err, wisp_option_row(both[i])->key,
                                    "%zu numbers, expected one for each of %zu channels", n,
                                    channels);
        for (size_t c = 0; c < n; c++) {
            to[i][c] = (float)(i ? 1 / x[c] : x[c]);
            if (!isfinite(to[i][c]) || (i && to[i][c] <= 0))
                return wisp_fail_option(err, wisp_option_row(both[i])->key,
                                        "%g cannot be, expected a %s", x[c],
                                        i ? "deviation above 0" : "number");
        }
    }
    j->whose = "the options'";
    return WISP_OK;
}

static wisp_status set_names(struct import *j, wisp_error *err)
{
    const char *path = wisp_opt_text(j->cfg, OPT_LABELS);
    struct wisp_model *m = j->m;
    if (!*path) return WISP_OK;
    wisp_status st = wisp_names_load(&m->labels, path, err);
    if (st == WISP_OK && m->labels.n != m->net.n_labels)
        st = wisp_fail_at(err, WISP_EINVAL, path, 0, "has %zu names, %s has %zu labels",
                          m->labels.n, j->path, m->net.n_labels);
    return st;
}

static wisp_status make(struct import *j, wisp_error *err)
{
    struct wisp_model *m = j->m;
    struct wisp_image image;
    wisp_status st;
    if ((st = find_net(j, err)) != WISP_OK || (st = find_image(&image, j, err)) != WISP_OK ||
        (st = find_loss(j, err)) != WISP_OK || (st = plan(j, image, err)) != WISP_OK ||
        (st = wisp_torch_check(&j->file, j->path, &m->net, true, err)) != WISP_OK ||
        (st = set_names(j, err)) != WISP_OK ||
        (st = wisp_net_alloc_params(&m->net, err)) != WISP_OK ||
        (st = wisp_torch_take(&m->net, &j->file, true, err)) != WISP_OK ||
        (st = set_means(j, err)) != WISP_OK)
        return wisp_map_blame(&j->file.map, st, err);
    m->spec = wisp_strdup(j->text.line);
    m->counts = wisp_zalloc(m->net.n_labels, sizeof *m->counts);
    m->label_rows = m->counts;
    m->values.mode = WISP_VALUES_RAW;
    if (!m->spec || !m->counts) return wisp_fail_mem(err, strlen(j->text.line), "a model");
    return wisp_map_check(&j->file.map, err);
}

static wisp_status report(struct wisp_report **out, struct wisp_context *ctx,
                          const struct import *j, const char *path, wisp_error *err)
{
    struct wisp_report *r = wisp_report_create();
    char size[WISP_IMAGE_TEXT];
    wisp_report_text(r, "path", path);
    wisp_report_num(r, "labels", (double)j->m->net.n_labels);
    wisp_report_num(r, "parameters", (double)wisp_net_n_params(&j->m->net));
    wisp_report_text(r, "image", wisp_image_text(size, wisp_net_images(&j->m->net)));
    wisp_report_text(r, "means", j->whose);
    wisp_say(
        ctx,
        "%s: %zu labels, %zu parameters; images of %s (channels x height x width), %s mean and "
        "deviation; loss %s",
        path, j->m->net.n_labels, wisp_net_n_params(&j->m->net), size, j->whose, j->m->loss->name);
    return wisp_report_done(out, r, err);
}

wisp_status wisp_model_import(struct wisp_report **out, struct wisp_context *ctx,
                              const char *weights, const wisp_config *cfg, const char *path,
                              wisp_error *err)
{
    struct import j = { .path = weights, .cfg = cfg };
    *out = NULL;
    wisp_status st = wisp_tensor_file_open_plain(&j.file, ctx->pool, weights, err);
    if (st != WISP_OK) return st;
    j.m = wisp_zalloc(1, sizeof *j.m);
    st = j.m ? make(&j, err) : wisp_fail_mem(err, sizeof *j.m, "a model");
    if (st == WISP_OK) st = wisp_model_save(j.m, path, -1, 0, NULL, err);
    if (st == WISP_OK) st = report(out, ctx, &j, path, err);
    wisp_model_free(j.m);
    wisp_net_text_clear(&j.text);
    wisp_tensor_file_close(&j.file);
    return st;
}

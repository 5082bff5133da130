/* The model of a run, before it has weights: names, net, values of features, counts of labels, and
 * the options that it keeps. */
#include "base/bounds.h"
#include "base/mem.h"
#include "base/text.h"
#include "data/image.h"
#include "layer/image.h"
#include "layer/output.h"
#include "model/kind.h"
#include "model/known.h"
#include "model/run.h"
#include "model/torch.h"

#include <stdio.h>
#include <string.h>

/* Where the first byte is that is no UTF-8, or a control character; the length: there is none. */
static size_t first_odd(const char *s, bool lines)
{
    size_t at = 0, left = strlen(s);
    for (size_t step; left > 0; at += step, left -= step) {
        step = wisp_utf8_bytes((const unsigned char *)s + at, left);
        bool control = (unsigned char)s[at] < ' ' && !(lines && s[at] == '\n');
        if (step == 0 || control || s[at] == 0x7f) break;
    }
    return at;
}

wisp_status wisp_options_text(char **out, const char *init, const wisp_config *cfg, wisp_error *err)
{
    static const enum wisp_opt aside[] = { OPT_RESUME,     OPT_LOG,         OPT_JSON,
                                           OPT_QUIET,      OPT_THREADS,     OPT_CONFIG,
                                           OPT_CACHE,      OPT_DEVICE,      OPT_VALID,
                                           OPT_LABELS,     OPT_VOCAB,       OPT_CHECKPOINT_STEPS,
                                           OPT_KEEP_STATE, OPT_CARD_MEMORY, OPT_CHECKPOINT_MINUTES,
                                           OPT_DEADLINE,   OPT_WATCH,       OPT_TRIED,
                                           OPT_DIVIDE,     OPT_EXCHANGE,    OPT_CARDS };
    size_t room = 100;
    for (int i = 0; i < N_OPTS; i++)
        room += strlen(wisp_option_row((size_t)i)->key) +
                strlen(wisp_opt_text(cfg, (enum wisp_opt)i)) + 2;
    char *p = *out = wisp_alloc(room, 1);
    if (!p) return wisp_fail_mem(err, room, "options");
    *p = 0;
    for (int i = 0; i < N_OPTS; i++) {
        const wisp_option *o = wisp_option_row((size_t)i);
        bool skip = !strstr(o->commands, "train");
        for (size_t k = 0; k < sizeof aside / sizeof *aside; k++)
            skip |= aside[k] == (enum wisp_opt)i;
        if (skip) continue;
        int n = sprintf(p, "%s=%s", o->key, wisp_opt_text(cfg, (enum wisp_opt)i));
        for (int k = 0; k < n; k++)
            if (p[k] == '\n') p[k] = ' '; /* a net may have lines, an option is one */
        p += n;
        *p++ = '\n';
        *p = 0;
    }
    if (init) sprintf(p, "init-checksum=%s\n", init); /* a path may be reused */
    const char *note = wisp_opt_text(cfg, OPT_NOTE);
    size_t bad = first_odd(note, false);
    if (note[bad])
        return wisp_fail_option(err, "note",
                                "byte 0x%02x at %zu: expected one line of text in UTF-8",
                                (unsigned char)note[bad], bad);
    for (char *s = *out; *(s += first_odd(s, true)); s++) *s = '?'; /* a path need not be UTF-8 */
    return WISP_OK;
}

/* Names from the data itself (text, or matched with the model's that training goes on from), from a
 * file, or from that model.  n: ids in use. */
static wisp_status take_names(struct wisp_names *out, const struct wisp_names *own,
                              const struct wisp_names *init, const char *path, size_t n,
                              const char *what, wisp_error *err)
{
    const struct wisp_names *from = own->n ? own : !*path && init && init->n ? init : NULL;
    wisp_status st = WISP_OK;
    if (from) st = wisp_names_init(out, from->text, from->bytes, true, err);
    else if (*path) st = wisp_names_load(out, path, err);
    bool of_init = from && from == init;
    if (st == WISP_OK && out->n && out->n < n)
        return wisp_fail_at(err, WISP_EINVAL,
                            of_init ? "--init"
                            : *path ? path
                                    : "text",
                            0, "has %zu names, the data has %zu %s%s", out->n, n, what,
                            of_init ? "; give the names of all of them in a file" : "");
    return st;
}

/* The training counts of labels, for metrics and priors: with those of the model to start from, as
 * if all rows had been trained on at once.  Names may know labels no row has. */
static wisp_status count_labels(struct wisp_run *r, size_t n_labels, wisp_error *err)
{
    struct wisp_model *m = r->m;
    const struct wisp_data *d = r->sets.train;
    m->counts = wisp_zalloc(n_labels, sizeof *m->counts);
    if (!m->counts) return wisp_fail_mem(err, n_labels * sizeof *m->counts, "counts of labels");
    memcpy(m->counts, d->label_rows, d->n_labels * sizeof *m->counts);
    for (size_t l = 0; r->init.model && l < r->init.model->net.n_labels; l++)
        m->counts[l] += r->init.model->label_rows[l];
    m->label_rows = m->counts;
    m->n_train = d->n_rows + (r->init.model ? r->init.model->n_train : 0);
    return WISP_OK;
}

/* The values a row's features take: idf, or means and scales, of the training rows; features of the
 * model to start from keep its own, which their weights were learnt on. */
static wisp_status set_values(struct wisp_run *r, size_t n_features, wisp_error *err)
{
    struct wisp_model *m = r->m;
    m->values = r->init.model ? r->init.model->values : r->plan.values;
    m->idf = wisp_zalloc(n_features, sizeof *m->idf);
    if (!m->idf) return wisp_fail_mem(err, n_features * sizeof *m->idf, "idf");
    wisp_values_idf(m->idf, r->sets.train);
    if (r->init.model) wisp_init_idf(r);
    m->values.idf = m->idf;
    if (m->values.mode != WISP_VALUES_STANDARD) return WISP_OK;
    float *mean = m->columns = wisp_zalloc(2 * n_features, sizeof *mean),
          *scale = mean + n_features;
    if (!mean) return wisp_fail_mem(err, 2 * n_features * sizeof *mean, "means of columns");
    wisp_status st = wisp_values_columns(mean, scale, r->sets.train, err);
    if (st != WISP_OK) return st;
    if (r->init.model) wisp_init_columns(r);
    m->values.mean = mean, m->values.scale = scale;
    for (size_t f = 0; f < n_features; f++)
        if (scale[f] > 0) return WISP_OK;
    return wisp_fail_option(err, "values standard",
                            "every column of the training rows has a single value; "
                            "take --values raw or unit");
}

/* Names, and how text is cut: of the data, or of the model to go on from. */
static wisp_status set_names(struct wisp_run *r, const wisp_config *cfg, wisp_error *err)
{
    const struct wisp_data *d = r->sets.train;
    const struct wisp_model *init = r->init.model;
    struct wisp_model *m = r->m;
    bool words = d->vocab.n && d->format && d->format->words;
    m->text = words || (init && init->text);
    m->how = words || !init ? d->text : init->how;
    m->named = d->named | (init ? init->named : 0);
    const struct wisp_names *stop = words || !init ? &d->stop : &init->stop;
    wisp_status st;
    if ((st = take_names(&m->labels, &d->labels, init ? &init->labels : NULL,
                         wisp_opt_text(cfg, OPT_LABELS), d->n_labels, "labels", err)) != WISP_OK ||
        (st = take_names(&m->vocab, &d->vocab, init ? &init->vocab : NULL,
                         wisp_opt_text(cfg, OPT_VOCAB), d->n_features, "features", err)) !=
            WISP_OK ||
        (st = wisp_names_copy(&m->stop, stop, err)) != WISP_OK)
        return st;
    return init ? wisp_init_names(r, wisp_opt_text(cfg, OPT_INIT), err) : WISP_OK;
}

/* What is validated on must be what is trained on, and what the model to go on from was. */
static wisp_status check_images(const struct wisp_run *r, const wisp_config *cfg, wisp_error *err)
{
    const struct wisp_image want = wisp_net_images(&r->m->net);
    const struct wisp_image other[2] = { r->sets.valid ? r->sets.valid->image : want,
                                         r->init.model && wisp_net_image(&r->init.model->net)
                                             ? wisp_net_images(&r->init.model->net)
                                             : want };
    char found[WISP_IMAGE_TEXT], wanted[WISP_IMAGE_TEXT], hint[WISP_IMAGE_HINT];
    if (want.channels && !wisp_opt_auto(cfg, OPT_VALUES) && !wisp_opt_is(cfg, OPT_VALUES, "raw"))
        return wisp_fail(err, WISP_EINVAL,
                         "--values %s is for rows of features; 'image' gives each channel mean 0 "
                         "and deviation 1: leave the option out",
                         wisp_opt_text(cfg, OPT_VALUES));
    if (want.channels && r->plan.input_dropout > 0)
        return wisp_fail(err, WISP_EINVAL,
                         "--input-dropout %g drops features of rows; a net that reads images says "
                         "'image, dropout %g'",
                         r->plan.input_dropout, r->plan.input_dropout);
    for (int i = 0; i < 2 && want.channels; i++)
        if (!wisp_same_image(other[i], want))
            return wisp_fail(err, WISP_EINVAL,
                             "%s: images of %s (channels x height x width), but those to train on "
                             "are %s%s",
                             i ? "--init" : "--valid", wisp_image_text(found, other[i]),
                             wisp_image_text(wanted, want),
                             i ? "" : wisp_image_hint(hint, other[i], want));
    if (want.channels && r->m->net.n_features != wisp_image_pixels(want))
        return wisp_fail(err, WISP_EINVAL,
                         "images of %zu pixels, but --vocab or --init has %zu features",
                         wisp_image_pixels(want), r->m->net.n_features);
    return WISP_OK;
}

wisp_status wisp_run_images(struct wisp_run *r, wisp_error *err)
{
    const struct wisp_layer *l = wisp_net_image(&r->m->net);
    if (!l) return WISP_OK;
    float *mean = l->params[WISP_IMAGE_MEAN].w, *scale = l->params[WISP_IMAGE_SCALE].w;
    const char *whose = NULL;
    wisp_status st = WISP_OK;
    if (r->init.weights.n_tensors)
        st = wisp_torch_means(mean, scale, l->params[WISP_IMAGE_MEAN].cols, &whose,
                              &r->init.weights, "--init", err);
    if (st == WISP_OK && !whose && !r->init.model)
        st = wisp_image_means(mean, scale, r->sets.train, err);
    if (st != WISP_OK) return st;
    char size[WISP_IMAGE_TEXT], channels[120] = "", moved[60] = "";
    if (l->arg[WISP_IMAGE_PAD] > 0)
        wisp_print(moved, sizeof moved, "; moved by up to %.0f pixels", l->arg[WISP_IMAGE_PAD]);
    size_t at = 0;
    for (size_t c = 0; c < r->sets.train->image.channels && at < sizeof channels - 40; c++)
        at += (size_t)wisp_print(channels + at, sizeof channels - at, "%s%.3f +- %.3f",
                                 c ? ", " : "", (double)mean[c], 1 / (double)scale[c]);
    wisp_say(r->ctx, "images    %s (channels x height x width); values %s%s%s%s%s",
             wisp_image_text(size, r->sets.train->image), channels, whose ? ", " : "",
             whose ? whose : "", moved,
             l->arg[WISP_IMAGE_FLIP] > 0 ? "; half of them mirrored" : "");
    return WISP_OK;
}

/* As many features and labels as the data, the names and the model to go on from know. */
static void count_ids(struct wisp_run *r)
{
    const struct wisp_data *d = r->sets.train;
    const struct wisp_model *init = r->init.model;
    struct wisp_model *m = r->m;
    m->net.n_features = wisp_most(d->n_features, m->vocab.n);
    m->net.n_labels = wisp_most(d->n_labels, m->labels.n);
    if (!init) return;
    m->net.n_features = wisp_most(m->net.n_features, init->net.n_features);
    m->net.n_labels = wisp_most(m->net.n_labels, init->net.n_labels);
}

/* The net of a checkpoint, where that is smaller by now, or of the options. */
static wisp_status plan_text(struct wisp_run *r, const struct wisp_layer_sizes *sizes,
                             wisp_error *err)
{
    struct wisp_net *net = &r->m->net;
    const size_t n_features = net->n_features, n_labels = net->n_labels;
    wisp_error why = { 0 };
    if (!r->smaller)
        return wisp_net_plan_text(net, r->plan.net.text, r->plan.net.where, n_features, n_labels,
                                  sizes, err);
    wisp_status st = wisp_net_plan_text(net, r->smaller, "the checkpoint's net", n_features,
                                        n_labels, sizes, &why);
    if (st == WISP_EINVAL)
        return wisp_fail_at(err, WISP_EMODEL, r->path, 0, "%.400s; train without --resume",
                            why.text);
    return st == WISP_OK ? st : wisp_fail_as(err, st, &why);
}

/* The net, for training. */
static wisp_status plan_net(struct wisp_run *r, const wisp_config *cfg, wisp_error *err)
{
    const struct wisp_data *d = r->sets.train;
    const struct wisp_model *init = r->init.model;
    struct wisp_model *m = r->m;
    count_ids(r);
    const size_t n_labels = m->net.n_labels;
    struct wisp_run_known known;
    wisp_run_known_init(&known, r, r->again || wisp_opt_on(cfg, OPT_RESUME));
    const struct wisp_comm *divides = wisp_run_divides(r), *shares = wisp_run_shares(r);
    const size_t batch = r->plan.batch;
    struct wisp_layer_sizes sizes = { .batch = divides ? wisp_divided_most(divides, batch) : batch,
                                      .memory = r->plan.images ? r->plan.memory : 0,
                                      .share = wisp_comm_deal(shares),
                                      .active = n_labels,
                                      .training = true,
                                      .precision = r->plan.precision,
                                      .zeros = r->plan.cuda ? WISP_ZEROS_OFF : r->plan.zeros,
                                      .more_zeros = (float)r->plan.more_zeros,
                                      .half = r->plan.half,
                                      .smoothing = (float)r->plan.smoothing,
                                      .known = &known.known,
                                      .ctx = r->ctx,
                                      .image = wisp_image_shape(d->image),
                                      .loss = wisp_loss_find(wisp_opt_text(cfg, OPT_LOSS)),
                                      .loss_by = "--loss" };
    wisp_status st = wisp_samplers_room(&sizes, r, n_labels, err);
    if (st == WISP_OK) st = plan_text(r, &sizes, err);
    wisp_run_known_clear(&known);
    if (st == WISP_OK) st = check_images(r, cfg, err);
    if (st == WISP_OK && r->init.weights.n_tensors) st = wisp_init_check_weights(r, cfg, err);
    return st == WISP_OK && init ? wisp_init_fit(r, cfg, err) : st;
}

wisp_status wisp_run_model(struct wisp_run *r, const wisp_config *cfg, wisp_error *err)
{
    struct wisp_model *m = r->m = wisp_zalloc(1, sizeof *m);
    if (!m) return wisp_fail_mem(err, sizeof *m, "a model");
    m->kind = r->linear ? &wisp_kind_linear : &wisp_kind_net;
    m->comm = wisp_run_shares(r);
    m->copies = wisp_run_divides(r);
    m->format = r->sets.train->format;
    m->index_base = r->sets.train->index_base;
    const char *text = r->smaller ? r->smaller : r->plan.net.line;
    if (!(m->spec = wisp_strdup(text))) return wisp_fail_mem(err, strlen(text), "a model");
    const char *init = r->init.model               ? r->init.model->file.check
                       : r->init.weights.n_tensors ? r->init.weights.check
                                                   : NULL;
    wisp_status st;
    if ((st = wisp_options_text(&m->options, init, cfg, err)) != WISP_OK ||
        (st = set_names(r, cfg, err)) != WISP_OK ||
        (!r->linear && (st = plan_net(r, cfg, err)) != WISP_OK))
        return st;
    if (r->linear) count_ids(r);
    if ((st = set_values(r, m->net.n_features, err)) != WISP_OK) return st;
    if (r->linear) {
        m->loss = wisp_loss_find("bce"); /* scores are those of each label by itself */
        return count_labels(r, m->net.n_labels, err);
    }
    const struct wisp_loss *said = wisp_output_loss(wisp_net_output(&m->net));
    if (said) r->plan.loss = said;
    m->loss = r->plan.loss;
    if (r->plan.smoothing > 0 && !m->loss->smooths)
        return wisp_fail_option(err, "smoothing",
                                "the %s loss has no smoothed targets; use --loss softmax or "
                                "--smoothing 0",
                                m->loss->name);
    bool more = false;
    for (int i = 0; i < m->net.n_layers; i++) more |= m->net.layers[i].l1 > 0;
    if (r->plan.more_zeros > 0 && !more)
        return wisp_fail_option(err, "more-zeros",
                                "the net has no 'relu' of channels with height and width, as one "
                                "behind a 'conv' is; leave the option out");
    r->plan.slots = wisp_plan_slots(&r->plan, wisp_net_n_params(&m->net));
    return count_labels(r, m->net.n_labels, err);
}

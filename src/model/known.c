/* Connections that are known without their file. */
#include "model/known.h"
#include "model/run.h"

#include <stdio.h>

/* ---- of a net ---- */

static wisp_status net_wires(const struct wisp_known *k, struct wisp_wires *out,
                             const struct wisp_layer *l, wisp_error *err)
{
    const struct wisp_net *net = ((const struct wisp_net_known *)k)->net;
    (void)err;
    if (l->number < net->n_layers) *out = wisp_layer_wires(&net->layers[l->number]);
    return WISP_OK;
}

struct wisp_net_known wisp_net_known(const struct wisp_net *net)
{
    return (struct wisp_net_known){ { net_wires }, net };
}

/* ---- of a file ---- */

enum { NAME_ROOM = WISP_PARAM_NAME + 16 };

static void prefixed(char out[NAME_ROOM], const struct wisp_file_known *f,
                     const struct wisp_layer *l, const char *part)
{
    char name[WISP_PARAM_NAME];
    wisp_layer_param_name(name, l, part);
    snprintf(out, NAME_ROOM, "%s%s", f->prefix, name);
}

static wisp_status file_wires(const struct wisp_known *k, struct wisp_wires *out,
                              const struct wisp_layer *l, wisp_error *err)
{
    const struct wisp_file_known *f = (const struct wisp_file_known *)k;
    char inputs[NAME_ROOM], start[NAME_ROOM], outputs[NAME_ROOM];
    prefixed(inputs, f, l, "inputs");
    prefixed(start, f, l, "start");
    prefixed(outputs, f, l, "outputs");
    const struct wisp_tensor *in = wisp_tensor_file_find(f->file, inputs),
                             *from = wisp_tensor_file_find(f->file, start),
                             *out_ids = wisp_tensor_file_find(f->file, outputs);
    if (!in && !f->must) return WISP_OK;
    if (!in) return wisp_fail(err, WISP_EMODEL, "tensor '%s' is missing", inputs);
    bool ragged = in->n_dims == 1;
    if (in->dtype != WISP_I32 || in->n_dims < 1 || in->n_dims > 2 ||
        (ragged && (!from || from->dtype != WISP_I64 || from->n_dims != 1 || from->shape[0] < 2)))
        return wisp_fail(err, WISP_EMODEL,
                         "'%s' must be I32 of two dimensions, or of one beside '%s', I64", inputs,
                         start);
    if (ragged && !wisp_starts_ok(from->data, from->shape[0] - 1, in->shape[0]))
        return wisp_fail(err, WISP_EMODEL,
                         "'%s' must ascend from 0 to %zu, the number of connections", start,
                         in->shape[0]);
    *out =
        (struct wisp_wires){ .n_out = ragged ? from->shape[0] - 1 : in->shape[0],
                             .n_edges = in->bytes / sizeof *out->in,
                             .fan = ragged ? 0 : in->shape[1],
                             .start = ragged ? from->data : NULL,
                             .in = in->data,
                             .n_units = out_ids && out_ids->n_dims == 1 ? out_ids->shape[0] : 0 };
    return WISP_OK;
}

struct wisp_file_known wisp_file_known(const struct wisp_tensor_file *file, const char *prefix,
                                       bool must)
{
    return (struct wisp_file_known){ { file_wires }, file, prefix, must };
}

/* ---- of a run ---- */

static wisp_status run_wires(const struct wisp_known *k, struct wisp_wires *out,
                             const struct wisp_layer *l, wisp_error *err)
{
    struct wisp_run_known *own = (struct wisp_run_known *)k;
    if (own->resumes && !own->tried) {
        wisp_status st = wisp_state_peek(&own->state, own->run, err);
        if (st != WISP_OK) return st;
        own->tried = true;
    }
    const struct wisp_file_known state = wisp_file_known(&own->state, "", false);
    wisp_error why = { 0 };
    wisp_status st = file_wires(&state.known, out, l, &why);
    if (st != WISP_OK)
        return wisp_fail(err, st, "the checkpoint of %s: %s; train without --resume",
                         own->run->path, why.text);
    if (out->n_out || !own->run->init.model) return st;
    const struct wisp_net_known init = wisp_net_known(&own->run->init.model->net);
    return net_wires(&init.known, out, l, err);
}

void wisp_run_known_init(struct wisp_run_known *k, const struct wisp_run *r, bool resumes)
{
    *k = (struct wisp_run_known){ .known = { run_wires }, .run = r, .resumes = resumes };
}

void wisp_run_known_clear(struct wisp_run_known *k)
{
    wisp_tensor_file_close(&k->state);
}

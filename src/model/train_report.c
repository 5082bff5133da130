/* What the report of a training run says of its work and its scores. */
#include "model/train_report.h"
#include "layer/product.h"

#include <math.h>

/* What a sample must cost at least, on average: bytes of weights, optimiser state and E that move,
 * each feature row of a step counted once; operations of the first and the last layer, of images those
 * of all layers. */
void wisp_report_work(struct wisp_report *t, const struct wisp_run *r, const struct wisp_done *d)
{
    const struct wisp_net *net = &r->m->net;
    unsigned slots = r->plan.slots;
    double rows = fmax(1, d->rows), nnz = d->nnz / rows, touched = d->touched / rows;
    double in = (double)net->layers[0].n_out, out = (double)wisp_net_output(net)->n_in;
    double weight = r->plan.half ? 2 : 4, e = r->plan.precision == &wisp_precision_bf16 ? 2 : 4;
    double moment = slots & WISP_SLOT_HALF ? 2 : 4;
    double state = moment * ((slots & WISP_SLOT_M ? 1 : 0) + (slots & WISP_SLOT_V ? 1 : 0));
    double active = d->active / (double)r->plan.batch; /* a row serves the whole batch */
    double own = fmax(0, d->scored - d->active);       /* rows scored for one sample alone */
    double all = (double)net->n_labels;
    double read =
        r->card && own > 0.99 * all ? all / (double)r->plan.batch : own; /* a card's scan */
    double bytes = touched * in * (3 * weight + 2 * state) + read * out * weight +
                   active * out * (3 * weight + 2 * state) + 2 * d->active * e;
    double flops = 4 * nnz * in + 6 * d->active * out + 2 * own * out;
    if (wisp_net_image(net)) flops = wisp_net_flops(net, true);
    wisp_report_num(t, "bytes_per_sample", bytes);
    wisp_report_num(t, "flops_per_sample", flops);
}

/* How far the saved model's scores are from probabilities, before and after; -1: not known. */
void wisp_report_calibration(struct wisp_report *t, const struct wisp_run *r)
{
    const struct wisp_calibration *exact = r->m->calibration[WISP_EXACT],
                                  *sparse = r->m->calibration[WISP_SPARSE];
    wisp_report_num(t, "valid_ece_raw", exact ? exact->ece_raw : -1);
    wisp_report_num(t, "valid_ece", exact ? exact->ece : -1);
    wisp_report_num(t, "valid_ece_sparse_raw", sparse ? sparse->ece_raw : -1);
    wisp_report_num(t, "valid_ece_sparse", sparse ? sparse->ece : -1);
    wisp_report_num(t, "calibration_seconds", r->calibration_s);
}

/* Recall of the sampler, measured on a few samples by an exact scan. */
#include "base/mem.h"
#include "layer/output.h"
#include "model/run.h"

enum {
    LOOKS_AN_EPOCH = 4,
    SAMPLES = 32,
    TOP = 20,
    SCAN = 64 /* with room for true labels among the best */
};

wisp_status wisp_recall_init(struct wisp_recall *t, const struct wisp_layer *out, int threads,
                             wisp_error *err)
{
    size_t shared = wisp_output_topk_floats(out, SAMPLES, SCAN);
    size_t each = wisp_output_topk_thread_floats(out, SAMPLES, SCAN);
    *t = (struct wisp_recall){ .scratch = wisp_alloc(shared, sizeof(float)),
                               .thread_scratch = wisp_alloc(each * (size_t)threads, sizeof(float)),
                               .labels = wisp_alloc(SAMPLES * SCAN, sizeof(int32_t)),
                               .scores = wisp_alloc(SAMPLES * SCAN, sizeof(float)) };
    return t->scratch && t->thread_scratch && t->labels && t->scores
               ? WISP_OK
               : wisp_fail_mem(err, shared * sizeof(float), "measuring recall");
}

void wisp_recall_clear(struct wisp_recall *t)
{
    wisp_free(t->scratch);
    wisp_free(t->thread_scratch);
    wisp_free(t->labels);
    wisp_free(t->scores);
    *t = (struct wisp_recall){ 0 };
}

static bool among(const int32_t *list, size_t n, int32_t row)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == row) return true;
    return false;
}

wisp_status wisp_recall_look(void *arg, const struct wisp_layer *out, const struct wisp_step *s,
                             const float *h, wisp_error *err)
{
    struct wisp_recall *t = arg;
    const struct wisp_batch *b = s->batch;
    double began = wisp_now();
    size_t n = b->n < SAMPLES ? b->n : SAMPLES, k = SCAN;
    if (out->params[0].total_rows < k) k = out->params[0].total_rows;
    wisp_status st = wisp_output_topk(out, s->ctx, s->head.loss, h, n, false, k, t->labels,
                                      t->scores, t->scratch, t->thread_scratch, err);
    if (st != WISP_OK) return st;
    for (size_t i = 0; i < n; i++) {
        size_t n_own, seen = 0, own = 0, set = 0;
        const int32_t *mine = wisp_sampler_own(out->sampler, i, &n_own);
        for (size_t c = 0; c < k && seen < TOP; c++) {
            int32_t row = t->labels[i * k + c];
            if (row < 0 || among(b->yi + b->yp[i], b->yp[i + 1] - b->yp[i], row)) continue;
            seen++;
            own += among(mine, n_own, row);
            set += wisp_sampler_chose(out->sampler, row);
        }
        if (!seen) continue;
        t->sums.own += (double)own / (double)seen;
        t->sums.set += (double)set / (double)seen;
        t->sums.n++;
    }
    t->seconds += wisp_now() - began;
    return WISP_OK;
}

bool wisp_recall_due(const struct wisp_run *r, size_t step)
{
    size_t each = r->at.steps / (size_t)r->plan.epochs, every = each / LOOKS_AN_EPOCH;
    return every == 0 || step % every == every - 1;
}

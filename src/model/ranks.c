/* A run of several ranks: what they cannot do, whether they are alike, and what they tell each other
 * between steps.
 *
 * Every rank makes the same run, with the same rows in the same order.  Either ranks divide the samples
 * of each batch, and each has the whole net (divide.c); or the rows of features and labels are dealt
 * out (base/share.h).  Then everything between the first layer and the last is everybody's, and comes
 * out the same everywhere, as what is exchanged is joined in one order (comm.h):
 *
 *     input layer    sums over a rank's own features, then those of all ranks    batch x hidden floats
 *     output layer   each sample's largest logit and sum (softmax)               batch x 16 bytes
 *                    gradient of what it reads, from a rank's own labels         batch x hidden floats
 *     step           loss, and whether to stop                                   5 numbers
 *
 * Whatever depends on the clock or on a signal is decided by one rank and told to all. */
#include "base/mem.h"
#include "base/report.h"
#include "model/run.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

wisp_status wisp_run_agree(const struct wisp_run *r, wisp_status st, wisp_error *err)
{
    const struct wisp_comm *c = wisp_run_comm(r);
    return c ? wisp_comm_agree(c, st, err) : st;
}

/* ---- what there is no form for ---- */

/* Rows that a sampler chooses are chosen for the samples of a batch together. */
static bool samples_rows(const struct wisp_plan *p)
{
    return !wisp_sampling_is_full(p->sampling.names) || wisp_net_text_samples(&p->net);
}

/* Samples, where each is work enough and the net is small; a rank would compute all layers but the
 * first and the last for all samples else. */
static bool should_divide(const struct wisp_run *r, const wisp_config *cfg)
{
    const struct wisp_plan *p = &r->plan;
    if (!wisp_opt_is(cfg, OPT_DIVIDE, "auto")) return wisp_opt_is(cfg, OPT_DIVIDE, "samples");
    const bool dense = r->sets.train->image.channels || p->values.mode == WISP_VALUES_STANDARD;
    return dense && !samples_rows(p);
}

wisp_status wisp_ranks_check(struct wisp_run *r, const wisp_config *cfg, wisp_error *err)
{
    struct wisp_plan *p = &r->plan;
    const struct wisp_comm *c = wisp_run_comm(r);
    const bool asked = p->exchange != WISP_EXCHANGE_AUTO; /* also of one rank */
    if (!c && asked && (samples_rows(p) || wisp_plan_shrink_epochs(p) > 0))
        return wisp_fail_option(err, "exchange",
                                "not with sampled labels, where --sampling full is needed, or a "
                                "net that becomes smaller; leave it out");
    if (!c && wisp_opt_num(cfg, OPT_CARDS) > 1)
        return wisp_fail_option(err, "cards",
                                "the command 'wisp train' starts ranks, a program does not; start "
                                "it by mpirun");
    if (!c) return WISP_OK;
    p->divides = should_divide(r, cfg);
    const struct {
        bool asked;
        const char *what, *instead;
    } lacks[] = {
        { p->cuda && !p->divides, "device cuda",
          "cards divide the samples of a batch alone: take --divide samples, or leave the option "
          "out" },
        { p->average > 0, "average", "leave it out" },
        { r->init.model || r->init.weights.n_tensors, "init", "train from the beginning" },
        { wisp_plan_shrink_epochs(p) > 0, "group-penalty, --cut or --magnitude",
          "make the net smaller on one rank" },
        { p->errors.rate > 0, "error-rate", "leave it out" },
        { p->sampling.per_example, "active-per example", "take --active-per batch" },
        { p->index, "index yes", "take --index no" },
        { p->sampling.n_carried > WISP_COMM_CHUNK / sizeof(uint64_t), "carry",
          "take 8388608 or less" }, /* one message has the keys of them all */
        { p->divides && samples_rows(p), "divide samples",
          "take --sampling full, and no layer 'sampled', or --divide rows" },
    };
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++)
        if (lacks[i].asked)
            return wisp_fail(err, WISP_ENOTSUP, "--%s: not with several ranks; %s", lacks[i].what,
                             lacks[i].instead);
    const struct wisp_finder_kind *alone = wisp_sampling_alone(p->sampling.names);
    if (!alone) return WISP_OK;
    return wisp_fail(
        err, WISP_ENOTSUP,
        "--sampling %s: '%s' has an index of all rows, and several ranks have parts of "
        "them; take neighbours, features, random and frequency, or full",
        p->sampling.names, alone->name);
}

/* ---- are all ranks alike? ---- */

wisp_status wisp_ranks_compare(struct wisp_run *r, wisp_error *err)
{
    enum { PARTS = 3 };
    static const char *const names[PARTS] = { "kernels", "options", "data" };
    static const char *const to_do[PARTS] = {
        "set WISP_ISA to what all processors have",
        "give all ranks the same options",
        "give every machine the same files",
    };
    const struct wisp_comm *c = wisp_run_comm(r);
    char data[WISP_STATE_DATA];
    uint64_t all[WISP_COMM_MOST_RANKS][PARTS], mine[PARTS];
    if (!c) return WISP_OK;
    wisp_state_data(data, r);
    const char *texts[PARTS] = { r->ctx->k->name, r->m->options, data };
    for (int i = 0; i < PARTS; i++) mine[i] = XXH3_64bits(texts[i], strlen(texts[i]));
    wisp_status st = c->all_gather(all, mine, sizeof mine, err);
    if (st != WISP_OK) return st;
    for (int i = 0; i < PARTS && st == WISP_OK; i++)
        if (mine[i] != all[0][i])
            st = wisp_fail(err, WISP_EPEER, "its %s is '%.150s', and rank 0 has another; %s",
                           names[i], i == 1 ? "..." : texts[i], to_do[i]);
    return wisp_comm_agree(c, st, err);
}

wisp_status wisp_ranks_compare_start(const struct wisp_run *r, wisp_error *err)
{
    const struct wisp_comm *c = wisp_run_comm(r);
    double all[WISP_COMM_MOST_RANKS][2], mine[] = { r->at.epoch, (double)r->at.step };
    if (!c) return WISP_OK;
    wisp_status st = c->all_gather(all, mine, sizeof mine, err);
    if (st != WISP_OK) return st;
    if (memcmp(mine, all[0], sizeof mine) != 0)
        st = wisp_fail(err, WISP_EPEER,
                       "its checkpoint is of epoch %.0f, step %.0f, and that of rank 0 of epoch "
                       "%.0f, step %.0f; give every machine the same checkpoint",
                       mine[0], mine[1], all[0][0], all[0][1]);
    return wisp_comm_agree(c, st, err);
}

/* ---- between steps ---- */

wisp_status wisp_ranks_pulse(const struct wisp_run *r, struct wisp_pulse *p, wisp_status st,
                             wisp_error *err)
{
    const struct wisp_comm *c = wisp_run_comm(r);
    if (!c) return st;
    const bool rules = c->rank == 0;
    double x[] = { p->loss, st != WISP_OK, p->stop, rules && p->due, rules && p->up };
    wisp_status told = wisp_comm_add(c, x, sizeof x / sizeof *x, err);
    if (told != WISP_OK) return told;
    *p = (struct wisp_pulse){ x[0], x[2] > 0, x[3] > 0, x[4] > 0 };
    return x[1] > 0 ? wisp_comm_agree(c, st, err) : WISP_OK;
}

wisp_status wisp_ranks_judged(const struct wisp_run *r, void *score, size_t bytes, wisp_status st,
                              wisp_error *err)
{
    const struct wisp_comm *c = wisp_run_divides(r);
    if (!c) return st;
    st = wisp_comm_agree(c, st, err);
    return st == WISP_OK ? c->spread(score, bytes, 0, err) : st;
}

wisp_status wisp_ranks_report(struct wisp_report *t, const struct wisp_run *r, double sent,
                              size_t steps, wisp_error *err)
{
    const struct wisp_comm *c = wisp_run_comm(r);
    double most[] = { steps ? sent / (double)steps : 0, (double)wisp_mem_peak() };
    if (!c) {
        wisp_report_num(t, "peak_bytes", most[1]);
        return WISP_OK;
    }
    wisp_status st = wisp_comm_max(c, most, sizeof most / sizeof *most, err);
    wisp_report_num(t, "peak_bytes", most[1]);
    wisp_report_num(t, "ranks", c->size);
    wisp_report_num(t, "sent_bytes_per_step", most[0]);
    return st;
}

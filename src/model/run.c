/* Making a training run: the plan, the model, the order of rows, all memory, the first weights. */
#include "model/run.h"
#include "base/mem.h"
#include "model/about.h"
#include "model/card.h"
#include "model/kind.h"

/* The first weights: random rows, biases at the labels' log prior (without it the first epochs go
 * into learning it); over these those of the model to start from. */
static wisp_status first_weights(struct wisp_run *r, wisp_error *err)
{
    struct wisp_net *net = &r->m->net;
    struct wisp_param *bias = &wisp_net_output(net)->params[1];
    const size_t n = net->n_labels;
    double total = 0.5 * (double)n, *mass = wisp_alloc(n, sizeof *mass);
    if (!mass) return wisp_fail_mem(err, n * sizeof *mass, "the labels' priors");
    wisp_run_label_mass(mass, r);
    for (size_t l = 0; l < n; l++) total += mass[l];
    wisp_net_init(net, r->plan.seed, r->ctx->pool);
    for (size_t row = 0; row < bias->rows; row++)
        bias->w[row] = r->plan.loss->prior(mass[wisp_share_id(bias->share, row)],
                                           (double)r->m->n_train, total);
    wisp_free(mass);
    wisp_status st = WISP_OK;
    if (r->init.model && !r->smaller) wisp_init_weights(r); /* else a checkpoint has them */
    if (r->init.weights.n_tensors) st = wisp_init_take_weights(r, err);
    return st == WISP_OK ? wisp_run_images(r, err) : st;
}

static wisp_status take_memory(struct wisp_run *r, const wisp_config *cfg, wisp_error *err)
{
    struct wisp_net *net = &r->m->net;
    const struct wisp_plan *p = &r->plan;
    wisp_status st;
    if ((st = wisp_net_alloc_params(net, err)) != WISP_OK ||
        (st = wisp_net_alloc_state(net, p->slots, err)) != WISP_OK ||
        (st = wisp_work_alloc(net, wisp_pool_threads(r->ctx->pool), err)) != WISP_OK ||
        (st = wisp_net_count(net, wisp_pool_threads(r->ctx->pool), err)) != WISP_OK ||
        (st = wisp_optimizer_init(&r->opt, p->optimizer, r->ctx->k, wisp_opt_num(cfg, OPT_MOMENTUM),
                                  err)) != WISP_OK ||
        (r->init.model && (st = wisp_init_pace(r, err)) != WISP_OK) ||
        (st = wisp_scorer_init(&r->scorer, r->m, r->ctx, WISP_ZEROS_OFF, 5, err)) != WISP_OK ||
        (st = wisp_samplers_make(r, err)) != WISP_OK)
        return st;
    wisp_net_decay(net, (float)p->weight_decay);
    for (int i = 0; i < 2; i++) {
        st = wisp_layout_init(&r->feed.layouts[i], net->n_features, net->n_labels, true, err);
        if (st != WISP_OK) return st;
        r->feed.layouts[i].pool = r->ctx->pool;
        r->feed.layouts[i].seed = p->seed;
        st = wisp_layout_for(&r->feed.layouts[i], net, wisp_samplers_any(&r->samplers), err);
        if (st != WISP_OK) return st;
        if (!(r->feed.rows[i] = wisp_alloc(p->batch, sizeof *r->feed.rows[i])))
            return wisp_fail_mem(err, p->batch * sizeof *r->feed.rows[i], "a batch");
    }
    if (wisp_run_divides(r) && !p->cuda &&
        (st = wisp_divided_make(&r->divided, net, wisp_run_divides(r), err)) != WISP_OK)
        return st;
    size_t floats = wisp_net_param_floats(net);
    if (p->average > 0 && !(r->average = wisp_zalloc(floats, sizeof *r->average)))
        return wisp_fail_mem(err, floats * sizeof *r->average, "the averaged parameters");
    return WISP_OK;
}

wisp_status wisp_run_mishaps(struct wisp_run *r, wisp_error *err)
{
    const struct wisp_plan *p = &r->plan;
    const struct wisp_errors *e = &p->errors;
    bool sampled = r->samplers.output;
    for (int i = 0; i < r->samplers.n_hidden; i++) sampled |= r->samplers.hidden[i] != NULL;
    if (p->half)
        return wisp_fail_option(err, "error-rate",
                                "rows of bf16 are moved in their own type; use --rows fp32, and "
                                "--error-type bf16");
    if (sampled)
        return wisp_fail_option(err, "error-rate",
                                "indexes of rows would be made of wrong ones; use --sampling full, "
                                "and no layer 'sampled'");
    if (!r->again)
        wisp_say(r->ctx, "errors    %g of the bits of %s weights, guard %s, %s", e->rate,
                 wisp_memory_name(e->type), wisp_guard_name(e->guard),
                 e->fixed ? "the same in every step" : "rising over the first half of the steps");
    r->mishaps = wisp_zalloc(1, sizeof *r->mishaps);
    if (!r->mishaps) return wisp_fail_mem(err, sizeof *r->mishaps, "errors of a step");
    return wisp_mishaps_make(r->mishaps, &r->m->net, e, err);
}

wisp_status wisp_run_split(struct wisp_run *r, size_t memory, wisp_error *err)
{
    const struct wisp_plan *p = &r->plan;
    wisp_status st = wisp_order_init(&r->feed.order, &r->sets.weighted, p->seed, p->split,
                                     p->holdout, memory, err);
    if (st != WISP_OK) return st;
    if (r->feed.order.n_rows == 0)
        return wisp_fail(err, WISP_EINVAL, "no rows are left to train on: lower --holdout");
    if (r->sets.valid) return WISP_OK;
    st = wisp_order_held_out(&r->sets.held_out, &r->feed.order, err);
    r->sets.valid = r->sets.held_out;
    return st;
}

/* The plan, the model without weights, the order of rows, and those held out. */
static wisp_status make_plan(struct wisp_run *r, const wisp_config *cfg, bool resumes,
                             wisp_error *err)
{
    const struct wisp_data *d = r->sets.train;
    struct wisp_plan *p = &r->plan;
    wisp_status st;
    if ((st = wisp_need_labels(d, "train on", err)) != WISP_OK) return st;
    if (wisp_kind_named(cfg) == &wisp_kind_linear)
        return wisp_fail_option(err, "net",
                                "found a linear model, expected a net: 'wisp train --net linear' "
                                "trains one by itself");
    if ((st = wisp_init_open(r, cfg, err)) != WISP_OK ||
        (st = wisp_plan_make(p, cfg, r->ctx->k, d, r->init.model, r->sets.valid != NULL, err)) !=
            WISP_OK)
        return st;
    if (!r->path) p->index = r->keep; /* else nobody would keep it */
    if (wisp_run_comm(r) && wisp_opt_auto(cfg, OPT_INDEX)) p->index = false;
    if ((st = wisp_ranks_check(r, cfg, err)) != WISP_OK) return st;
    if (r->init.model && (st = wisp_init_plan(r, cfg, err)) != WISP_OK) return st;
    if ((st = wisp_run_shrink_check(r, err)) != WISP_OK ||
        (resumes && (st = wisp_run_smaller(r, err)) != WISP_OK) ||
        (st = wisp_run_model(r, cfg, err)) != WISP_OK ||
        (st = wisp_run_weights(r, cfg, err)) != WISP_OK ||
        (st = wisp_run_split(r, p->memory, err)) != WISP_OK)
        return st;
    return WISP_OK;
}

/* All memory, the first weights, or those of a checkpoint. */
static wisp_status make_rest(struct wisp_run *r, const wisp_config *cfg, bool resumes,
                             wisp_error *err)
{
    struct wisp_plan *p = &r->plan;
    wisp_status st;
    if ((p->cuda && (st = wisp_card_check_run(r, err)) != WISP_OK) ||
        (!r->again && (st = wisp_run_say(r, cfg, err)) != WISP_OK) ||
        (st = wisp_about_run(r, err)) != WISP_OK || (st = take_memory(r, cfg, err)) != WISP_OK ||
        (st = first_weights(r, err)) != WISP_OK)
        return st;
    if (r->init.model && ((!r->smaller && (st = wisp_init_state(r, cfg, err)) != WISP_OK) ||
                          (st = wisp_map_check(&r->init.model->file.map, err)) != WISP_OK ||
                          (st = wisp_map_check(&r->init.state.map, err)) != WISP_OK))
        return st;
    if (r->init.model && r->sets.valid->n_rows == 0) wisp_init_calibration(r);
    r->at.epoch = 1;
    r->at.best = r->at.best_loss = -1;
    for (int e = 1; e <= p->epochs; e++)
        r->at.steps += wisp_order_steps(&r->feed.order, e, p->batch);
    if (resumes) st = wisp_state_load(r, err);
    if (st == WISP_OK) st = wisp_run_shrink_make(r, err);
    if (st == WISP_OK && p->errors.rate > 0) st = wisp_run_mishaps(r, err);
    return st;
}

wisp_status wisp_run_make(struct wisp_run *r, const wisp_config *cfg, wisp_error *err)
{
    const bool resumes = r->again || wisp_opt_on(cfg, OPT_RESUME);
    wisp_status st = wisp_run_agree(r, make_plan(r, cfg, resumes, err), err);
    if (st == WISP_OK) st = wisp_ranks_compare(r, err);
    if (st == WISP_OK) st = wisp_run_agree(r, make_rest(r, cfg, resumes, err), err);
    if (st == WISP_OK) st = wisp_ranks_compare_start(r, err);
    if (st == WISP_OK && r->plan.cuda && !r->at.finished) st = wisp_card_make(r, err);
    return st == WISP_OK ? wisp_state_begin(r, err) : st;
}

void wisp_run_clear(struct wisp_run *r)
{
    wisp_plan_clear(&r->plan);
    wisp_scorer_clear(&r->scorer);
    wisp_card_free(r->card);
    wisp_divided_free(r->divided);
    wisp_samplers_clear(&r->samplers);
    wisp_pairs_clear(&r->pairs);
    for (int i = 0; i < 2; i++) {
        wisp_layout_clear(&r->feed.layouts[i]);
        wisp_free(r->feed.rows[i]);
    }
    wisp_optimizer_clear(&r->opt);
    wisp_order_clear(&r->feed.order);
    wisp_model_free(r->m);
    wisp_data_free(r->sets.held_out);
    wisp_free(r->average);
    wisp_free(r->sets.weights);
    wisp_free(r->smaller);
    if (r->penalty) wisp_penalty_clear(r->penalty);
    wisp_free(r->penalty);
    if (r->magnitude) wisp_magnitude_clear(r->magnitude);
    wisp_free(r->magnitude);
    if (r->mishaps) wisp_mishaps_clear(r->mishaps);
    wisp_free(r->mishaps);
    wisp_free(r->init.raise);
    wisp_tensor_file_close(&r->init.state);
    wisp_tensor_file_close(&r->init.weights);
    wisp_model_free(r->init.model);
}

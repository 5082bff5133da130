/* What a run will do, from the options and the data: the defaults live here.
 *
 * The choices were made on validation rows of the sets in docs/training.md, which has the
 * measurements. */
#include "base/bounds.h"
#include "base/text.h"
#include "layer/product.h"
#include "model/groups.h"
#include "model/plan.h"
#include "model/kind.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    MANY_WEIGHTS = 1 << WISP_HALF_MOMENTS,
    MOST_BATCH = 128,
    STEPS_AN_EPOCH = 32,
    STEPS = 1500,
    IMAGES_SEEN = 600000,
    ENOUGH_STEPS = 800,
    SOME_LABELS = 100,
    ENOUGH_VISITS = 1000
};

/* "512,256" -> "input 512, relu, dense 256, relu", with dropout after each ReLU.  Where labels are
 * few, twice the width costs little (on bibtex, 3 seeds, it gained 0.2 to 1.4 points). */
static wisp_status spec_from_hidden(struct wisp_plan *p, const wisp_config *cfg, size_t n_labels,
                                    double dropout, wisp_error *err)
{
    double width[16];
    char text[1000];
    size_t n, at = 0;
    wisp_status st = wisp_opt_list(width, &n, 16, cfg, OPT_HIDDEN, err);
    if (st != WISP_OK) return st;
    if (n == 0) width[n++] = n_labels <= WISP_FEW_LABELS ? WISP_WIDTH_FEW : WISP_WIDTH_MANY;
    for (size_t i = 0; i < n; i++) {
        at += (size_t)wisp_print(text + at, sizeof text - at, "%s%s %.15g, relu", i ? ", " : "",
                                 i ? "dense" : "input", width[i]);
        if (dropout > 0)
            at += (size_t)wisp_print(text + at, sizeof text - at, ", dropout %g", dropout);
    }
    return wisp_net_text_set(&p->net, text, err);
}

/* Pieces of a word say the same several times: what is learnt must not hang on one of them
 * (cooking's titles, 3 seeds, P@1 with 0.2 and 0.3: 70.1 and 70.4; words alone lose by it). */
static const double PIECES_DROP = 0.3;

static double clamp(double x, double lo, double hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* How often a run comes by a label that some row has, on average over these: epochs times the rows that have the
 * label, too. */
static double visits(const struct wisp_data *d, int epochs)
{
    double sum = 0, squares = 0;
    for (size_t l = 0; l < d->n_labels; l++) {
        sum += (double)d->label_rows[l];
        squares += (double)d->label_rows[l] * (double)d->label_rows[l];
    }
    return sum > 0 ? epochs * squares / sum : 0;
}

/* Bce ends 1 to 4 points of P@1 higher where rows or labels are few, but learns slowly: after 2
 * epochs of 591,071 rows with 25,400 labels it stood at 19 where softmax stood at 30.  Where a label is
 * seen a few hundred times only, it hardly leaves the ground: docs/training.md has the crossing. */
static const char *auto_loss(double n_rows, size_t n_labels, double n_visits)
{
    const bool large = n_rows >= WISP_FEW_ROWS && n_labels > WISP_FEW_LABELS;
    return large || (n_labels > SOME_LABELS && n_visits < ENOUGH_VISITS) ? "softmax" : "bce";
}

/* On 591,071 rows with 25,400 labels, validation P@1 after 4 epochs: 31.4 with Adam, 35.9 with
 * row-wise AdaGrad, whose cold rows jump less; on 45,017 rows Adam ends 2 points higher. */
static const char *auto_optimizer(double n_rows, size_t n_labels)
{
    return n_rows < WISP_FEW_ROWS || n_labels <= WISP_FEW_LABELS ? "adam" : "adagrad";
}

/* For nets of images: what is usual for SGD, and a rate for batches of 128 that is right for nets
 * without norms as well; smaller batches take shorter steps, by the root of their size. */
static const double IMAGES_DECAY = 5e-4, IMAGES_LR = 0.05;

/* SGD at 0.5 is for one hidden layer or two; more of them multiply each other's gradients, and it has
 * to be smaller, by the square of their number: 0.125 for four, 0.025 for the nine of residual-mlp.
 * P@1 after 8 epochs on bibtex and cooking, rates 0.5, 0.2, 0.1, 0.05, 0.02: two layers 60 58 48 40 14
 * and 64 62 55 31 10; four NaN 43 53 43 18 and 7 59 57 52 10; residual-mlp NaN 25 14 44 45 and 10 10 48
 * 54 51. */
static double sgd_lr(const struct wisp_plan *p)
{
    if (p->images) return IMAGES_LR * sqrt((double)p->batch / MOST_BATCH);
    return p->optimizer->lr * fmin(1, 4.0 / ((double)p->depth * p->depth));
}

/* A row that is not computed in every step makes up for it by longer steps; with Adam always, with
 * AdaGrad where there is one epoch only (670,091 labels, P@1 with 0.1 and 0.15: 35.4 and 37.9 after
 * one epoch, 57.8 and 57.0 after four).  A small set with few epochs has so few steps that Adam's,
 * whose length does not depend on the gradient, would not get far: they are up to 4 times as long
 * (100 rows, 20 epochs: a true label of the README's example scores 0.98 instead of 0.70). */
double wisp_plan_auto_lr(const struct wisp_plan *p)
{
    bool sampled = !wisp_sampling_is_full(p->sampling.names);
    bool adam = p->optimizer->id == WISP_ADAM;
    bool adagrad = p->optimizer->id == WISP_ADAGRAD;
    if (p->optimizer->id == WISP_SGD) return sgd_lr(p);
    bool longer = sampled && (adam || (adagrad && p->epochs == 1));
    double lr = longer ? 1.5 * p->optimizer->lr : p->optimizer->lr;
    return adam && p->n_steps < ENOUGH_STEPS ? lr * clamp(ENOUGH_STEPS / p->n_steps, 1, 4) : lr;
}

/* Few rows need small batches, else an epoch is one step: 8 to 128 for 32 steps an epoch. */
static size_t auto_batch(double n)
{
    if (n >= WISP_FEW_ROWS) return 256;
    size_t batch = MOST_BATCH;
    while (batch > 8 && (double)batch * STEPS_AN_EPOCH > n) batch /= 2;
    return batch;
}

/* Nets of images learn slowly: they see IMAGES_SEEN at least, which are 10 epochs of MNIST, but 40
 * epochs are enough.  Validation P@1 of the last epoch, one seed: 10,500 images of CIFAR-10 and three
 * convolutions, 21 and 42 epochs: 57.0 and 62.5; lenet on 5,000 of MNIST, 25 and 40 epochs: 98.0 and
 * 98.4, on 1,000, 25 and 50 epochs: 96.0 and 96.3. */
static double images_epochs(double n)
{
    return fmin(round(IMAGES_SEEN / n), 40);
}

/* Few rows need many epochs: STEPS steps, but 100 epochs at most.  Not where a model goes on, which
 * would learn a few new rows by heart and forget the old ones. */
static int auto_epochs(double n, double batch, bool goes_on, bool images)
{
    bool few = n < MOST_BATCH * STEPS_AN_EPOCH && !goes_on;
    double for_steps = few ? ceil(STEPS / ceil(n / batch)) : 0;
    double usual = clamp(round(12 * sqrt(45000 / n)), 5, 25);
    if (images && !goes_on) usual = fmax(usual, images_epochs(n));
    return (int)fmax(usual, fmin(for_steps, 100));
}

/* A tenth of small sets, 2,000 to 20,000 rows of others.  Fewer than 20 rows tell neither epochs
 * apart nor can scores be calibrated on them, and training misses them: iris, 5 folds, 3
 * seeds: 96.0 with 12 of 120 rows held out, 96.7 without. */
static double auto_holdout(double n)
{
    if (0.1 * n < WISP_CALIBRATION_FEW) return 0;
    return clamp(2000 / n, fmin(0.02, 20000 / n), 0.1);
}

/* ---- the plan ---- */

/* A card measures each time and never wins on real nets, and another run may go another way: there
 * zeros are skipped where that was asked for. */
enum wisp_zeros wisp_plan_zeros(const wisp_config *cfg)
{
    if (wisp_opt_is(cfg, OPT_DEVICE, "cuda") && !wisp_opt_given(cfg, OPT_ZEROS))
        return WISP_ZEROS_OFF;
    return wisp_opt_is(cfg, OPT_ZEROS, "off")     ? WISP_ZEROS_OFF
           : wisp_opt_is(cfg, OPT_ZEROS, "force") ? WISP_ZEROS_FORCE
                                                  : WISP_ZEROS_AUTO;
}

/* What the options say; what they leave open is 0, NULL or below 0. */
static void read_options(struct wisp_plan *p, const wisp_config *cfg)
{
    *p = (struct wisp_plan){
        .epochs = (int)wisp_opt_num(cfg, OPT_EPOCHS),
        .batch = (size_t)wisp_opt_num(cfg, OPT_BATCH),
        .patience = (int)wisp_opt_num(cfg, OPT_PATIENCE),
        .seconds = wisp_opt_num(cfg, OPT_SECONDS),
        .checkpoint_steps = (size_t)wisp_opt_num(cfg, OPT_CHECKPOINT_STEPS),
        .checkpoint_s = 60 * wisp_opt_num(cfg, OPT_CHECKPOINT_MINUTES),
        .lr = wisp_opt_num(cfg, OPT_LR),
        .warmup = wisp_opt_num(cfg, OPT_WARMUP),
        .weight_decay = wisp_opt_num(cfg, OPT_WEIGHT_DECAY),
        .smoothing = wisp_opt_num(cfg, OPT_SMOOTHING),
        .penalty = wisp_opt_num(cfg, OPT_GROUP_PENALTY),
        .cut = wisp_opt_num(cfg, OPT_GROUP_CUT),
        .penalty_epochs = (int)wisp_opt_num(cfg, OPT_PENALTY_EPOCHS),
        .magnitude = wisp_opt_num(cfg, OPT_MAGNITUDE),
        .magnitude_epochs = (int)wisp_opt_num(cfg, OPT_MAGNITUDE_EPOCHS),
        .group_weights = wisp_opt_text(cfg, OPT_GROUP_WEIGHTS),
        .round = wisp_opt_is(cfg, OPT_ROUND, "yes"),
        .penalty_warmup = wisp_opt_num(cfg, OPT_PENALTY_WARMUP),
        .more_zeros = wisp_opt_num(cfg, OPT_MORE_ZEROS),
        .errors = { .rate = wisp_opt_num(cfg, OPT_ERROR_RATE),
                    .type = wisp_memory_find(wisp_opt_text(cfg, OPT_ERROR_TYPE)),
                    .guard = wisp_guard_find(wisp_opt_text(cfg, OPT_ERROR_GUARD)),
                    .fixed = wisp_opt_is(cfg, OPT_ERROR_MAP, "fixed"),
                    .seed = (uint64_t)wisp_opt_num(cfg, OPT_ERROR_SEED) },
        .decay = wisp_decay_find(wisp_opt_text(cfg, OPT_DECAY)),
        .average = wisp_opt_num(cfg, OPT_AVERAGE),
        .loss = wisp_loss_find(wisp_opt_text(cfg, OPT_LOSS)),
        .optimizer = wisp_optimizer_find(wisp_opt_text(cfg, OPT_OPTIMIZER)),
        .moments = wisp_opt_auto(cfg, OPT_MOMENTS)         ? WISP_MOMENTS_AUTO
                   : wisp_opt_is(cfg, OPT_MOMENTS, "bf16") ? WISP_MOMENTS_BF16
                                                           : WISP_MOMENTS_FP32,
        .precision = wisp_precision_find(wisp_opt_text(cfg, OPT_PRECISION)),
        .zeros = wisp_plan_zeros(cfg),
        .half = wisp_opt_is(cfg, OPT_ROWS, "bf16"),
        .input_dropout = wisp_opt_num(cfg, OPT_INPUT_DROPOUT),
        .holdout = wisp_opt_num(cfg, OPT_HOLDOUT),
        .index = wisp_opt_is(cfg, OPT_INDEX, "yes"),
        .seed = (uint64_t)wisp_opt_num(cfg, OPT_SEED),
        .memory = (size_t)wisp_opt_num(cfg, OPT_MEMORY),
        .keep_state = wisp_opt_on(cfg, OPT_KEEP_STATE),
        .cuda = wisp_opt_is(cfg, OPT_DEVICE, "cuda"),
        .exchange = wisp_opt_is(cfg, OPT_EXCHANGE, "nccl")   ? WISP_EXCHANGE_NCCL
                    : wisp_opt_is(cfg, OPT_EXCHANGE, "host") ? WISP_EXCHANGE_HOST
                                                             : WISP_EXCHANGE_AUTO,
        .deadline = wisp_opt_num(cfg, OPT_DEADLINE),
        .card_memory = (size_t)wisp_opt_num(cfg, OPT_CARD_MEMORY),
        .hogwild = wisp_opt_is(cfg, OPT_HOGWILD, "yes"),
    };
}

struct facts { /* that decide what the options leave open */
    const struct wisp_data *train;
    const struct wisp_kernels *k;
    const struct wisp_model *init; /* to go on from; NULL: none */
    double n_rows, seen;           /* of the data; by the model, in the end */
    size_t n_labels;               /* with those of the model to go on from */
    bool has_valid;
};

static wisp_status fit(struct wisp_plan *p, const struct facts *f, const wisp_config *cfg,
                       wisp_error *err)
{
    if (!p->optimizer)
        p->optimizer =
            wisp_optimizer_find(p->images ? "sgd" : auto_optimizer(f->seen, f->n_labels));
    if (p->weight_decay < 0) p->weight_decay = p->images ? IMAGES_DECAY : 0;
    if (p->smoothing < 0) p->smoothing = 0;
    if (!p->precision) /* convolutions in bf16 lose digits that nobody gave away: they are asked for */
        p->precision =
            wisp_precision_find((f->k->fast16 && !p->images) || p->cuda ? "bf16" : "fp32");
    if (p->input_dropout < 0) p->input_dropout = f->train->text.chars_max ? PIECES_DROP : 0;
    if (p->batch == 0) p->batch = auto_batch(f->seen);
    if (p->epochs == 0)
        p->epochs = auto_epochs(f->n_rows, (double)p->batch, f->init != NULL, p->images);
    const double n_visits = f->train->label_rows ? visits(f->train, p->epochs) : ENOUGH_VISITS;
    if (!p->loss)
        p->loss = wisp_loss_find(p->images ? "softmax" : auto_loss(f->seen, f->n_labels, n_visits));
    if (p->penalty_epochs == 0) /* units that are cut early leave more time to those that stay */
        p->penalty_epochs =
            p->cut > 0 ? (int)wisp_most((size_t)p->epochs / 3, 1) : (2 * p->epochs + 2) / 3;
    if (p->magnitude_epochs == 0) p->magnitude_epochs = (2 * p->epochs + 1) / 3;
    const double split = wisp_opt_num(cfg, OPT_SPLIT_SEED);
    p->split = split < 0 ? p->seed : (uint64_t)split;
    if (p->holdout < 0) p->holdout = auto_holdout(f->n_rows);
    if (f->has_valid) p->holdout = 0;
    wisp_status st = wisp_groups_read(&p->groups, wisp_opt_text(cfg, OPT_GROUPS), err);
    if (st == WISP_OK) st = wisp_sampling_plan(&p->sampling, cfg, f->n_labels, err);
    if (st == WISP_OK) st = wisp_sampling_plan_hidden(&p->hidden, &p->sampling, cfg, err);
    if (st != WISP_OK) return st;
    p->n_steps = f->init
                     ? ENOUGH_STEPS /* the model has had them */
                     : (double)p->epochs * ceil(f->n_rows * (1 - p->holdout) / (double)p->batch);
    if (p->lr == 0) p->lr = wisp_plan_auto_lr(p);
    if (wisp_opt_auto(cfg, OPT_INDEX)) p->index = f->n_labels > WISP_FEW_LABELS && !p->memory;
    if (!wisp_values_find(&p->values.mode, wisp_opt_text(cfg, OPT_VALUES)))
        p->values.mode = wisp_values_choose(p->values_why, f->train);
    return WISP_OK;
}

/* The net that is named, or the plain one. */
static wisp_status set_net(struct wisp_plan *p, const struct facts *f, const wisp_config *cfg,
                           wisp_error *err)
{
    const char *net = wisp_opt_text(cfg, OPT_NET);
    double dropout = wisp_opt_num(cfg, OPT_DROPOUT);
    if (*net && (*wisp_opt_text(cfg, OPT_HIDDEN) || dropout >= 0))
        return wisp_fail_option(err, *wisp_opt_text(cfg, OPT_HIDDEN) ? "hidden" : "dropout",
                                "--net says all layers; leave one of the two out, or say it there");
    const bool linear =
        (f->init ? wisp_kind_of(f->init) : wisp_kind_named(cfg)) == &wisp_kind_linear;
    if (!linear && wisp_linear_loss_find(wisp_opt_text(cfg, OPT_LOSS)))
        return wisp_fail_option(err, "loss", "%s is for linear models; take --net linear, or %s",
                                wisp_opt_text(cfg, OPT_LOSS), "--loss softmax or bce");
    if (linear) return wisp_net_text_set(&p->net, wisp_kind_linear.name, err);
    if (*net) return wisp_net_text_read(&p->net, net, err);
    if (dropout < 0)
        dropout = f->n_labels <= WISP_FEW_LABELS ? 0.5 : f->n_rows < WISP_FEW_ROWS ? 0.3 : 0.1;
    return spec_from_hidden(p, cfg, f->n_labels, dropout, err);
}

/* Choices that do not go together. */
static wisp_status check(const struct wisp_plan *p, wisp_error *err)
{
    bool full = wisp_sampling_is_full(p->sampling.names);
    if (p->precision->card && !p->cuda)
        return wisp_fail_option(err, "precision",
                                "'%s' is for cards, and this run is on a processor; take fp32 or "
                                "bf16, or --device cuda",
                                p->precision->name);
    if (p->half && p->average > 0)
        return wisp_fail_option(err, "average",
                                "rows of bf16 are too coarse to average; take --rows fp32");
    if (p->smoothing > 0 && !full)
        return wisp_fail_option(err, "smoothing",
                                "--sampling %s computes some of the labels, and all of them have a "
                                "part in smoothed targets; use --sampling full or --smoothing 0",
                                p->sampling.names);
    if (!p->hogwild || (p->sampling.per_example && !full)) return WISP_OK;
    return wisp_fail_option(err, "hogwild yes",
                            "needs --active-per example%s: samples must have rows of their "
                            "own",
                            full ? " and a --sampling other than full" : "");
}

wisp_status wisp_plan_make(struct wisp_plan *p, const wisp_config *cfg,
                           const struct wisp_kernels *k, const struct wisp_data *train,
                           const struct wisp_model *init, bool has_valid, wisp_error *err)
{
    const double n = (double)train->n_rows;
    const struct facts f = {
        .train = train,
        .k = k,
        .init = init,
        .n_rows = n,
        .seen = n + (init ? (double)init->n_train : 0),
        .n_labels = wisp_most(train->n_labels, init ? init->net.n_labels : 0),
        .has_valid = has_valid,
    };
    read_options(p, cfg);
    wisp_status st = set_net(p, &f, cfg, err);
    if (st != WISP_OK) return st;
    p->images = wisp_net_text_images(&p->net, NULL) ||
                (init && !*wisp_opt_text(cfg, OPT_NET) && wisp_net_image(&init->net));
    p->depth = wisp_net_text_depth(
        init && init->spec && !*wisp_opt_text(cfg, OPT_NET) ? init->spec : p->net.text);
    st = fit(p, &f, cfg, err);
    if (st == WISP_OK) st = check(p, err);
    if (st != WISP_OK) wisp_plan_clear(p);
    return st;
}

void wisp_plan_clear(struct wisp_plan *p)
{
    wisp_net_text_clear(&p->net);
}

/* Moments in bf16 save memory, which is short where weights are many. */
unsigned wisp_plan_slots(const struct wisp_plan *p, size_t n_params)
{
    unsigned slots = p->optimizer->slots;
    bool half = p->moments == WISP_MOMENTS_AUTO ? n_params >= MANY_WEIGHTS && !p->cuda
                                                : p->moments == WISP_MOMENTS_BF16;
    return half && slots & (WISP_SLOT_M | WISP_SLOT_V) ? slots | WISP_SLOT_HALF : slots;
}

/* ---- the learning rate ---- */

static double linear(double left)
{
    return left;
}
static double cosine(double left)
{
    return 0.5 * (1 + cos(3.141592653589793 * (1 - left)));
}
static double constant(double left)
{
    (void)left;
    return 1;
}
static const struct wisp_decay decays[] = {
    { "linear", linear },
    { "cosine", cosine },
    { "none", constant },
};

const struct wisp_decay *wisp_decay_find(const char *name)
{
    for (size_t i = 0; i < sizeof decays / sizeof *decays; i++)
        if (strcmp(decays[i].name, name) == 0) return &decays[i];
    return NULL;
}

double wisp_plan_lr(const struct wisp_plan *p, size_t t, size_t n)
{
    double warm = p->warmup * (double)n, x = (double)t + 1;
    if (x < warm) return p->lr * x / warm;
    double left = ((double)n - (double)t) / ((double)n - warm + 1); /* 1 -> 0 */
    return p->lr * p->decay->share(left);
}

/* What a card is asked for before a run begins, without a card: every row of the host's tables has
 * a form or is refused by its own name, settings that a card lacks are refused, and finders
 * describe what they keep themselves.  The part for cards is a table made here, with a function that
 * knows hash families and one that looks at the net. */
#include "base/mem.h"
#include "hash/family.h"
#include "layer/product.h"
#include "model/card.h"
#include "test.h"

#include <string.h>

enum { FEATURES = 9, LABELS = 30, ROWS = 40, WIDTH = 8, BATCH = 4 };

static wisp_error err;
static wisp_context *ctx;
static struct wisp_model m;
static struct wisp_data train = { .n_rows = ROWS };
static int64_t label_rows[LABELS];
static const char *missing; /* the hash family that the part does not have */

static bool has_family(const char *name)
{
    return strcmp(name, missing) != 0;
}

/* Of this net; the layer that it does not have is the first. */
static bool no_layer;
static wisp_status check_graph(const struct wisp_graph *g, const struct wisp_finders *finders,
                               wisp_error *e)
{
    CHECK(finders, "no finders: a run has some, a scorer none");
    CHECK(g->n_layers == m.net.n_layers && g->layers == m.net.layers && g->acts == m.net.acts &&
              g->n_labels == LABELS && g->n_features == FEATURES,
          "another net");
    if (!no_layer) return WISP_OK;
    return wisp_fail(e, WISP_ENOTSUP, WISP_CUDA_LACKS, g->layers[0].kind->name);
}

static struct wisp_cuda whole_part(void)
{
    missing = "";
    no_layer = false;
    return (struct wisp_cuda){ .optimizers = (1u << WISP_OPTIMIZERS) - 1,
                               .losses = (1u << WISP_LOSSES) - 1,
                               .precisions = (1u << WISP_PRECISIONS) - 1,
                               .has_family = has_family,
                               .check = check_graph };
}

static struct wisp_run run_of(const char *sampling)
{
    struct wisp_run r = { .ctx = ctx,
                          .sets.train = &train,
                          .m = &m,
                          .plan = { .batch = BATCH,
                                    .seed = 7,
                                    .optimizer = wisp_optimizer_at(0),
                                    .loss = wisp_loss_at(0),
                                    .precision = wisp_precision_at(0),
                                    .sampling = { .keep = 5,
                                                  .n_random = 6,
                                                  .n_frequent = 3,
                                                  .n_carried = 50,
                                                  .rescore = true,
                                                  .transform = true } } };
    snprintf(r.plan.sampling.names, sizeof r.plan.sampling.names, "%s", sampling);
    return r;
}

/* The check takes no memory: not one block could be had. */
static wisp_status check(const struct wisp_cuda *api, const struct wisp_run *r)
{
    err.text[0] = 0;
    wisp_mem_budget = 0;
    wisp_status st = wisp_card_check_with(api, r, &err);
    wisp_mem_budget = -1;
    return st;
}

static void refused(const struct wisp_cuda *api, const struct wisp_run *r, const char *what)
{
    char text[200];
    snprintf(text, sizeof text, "--device cuda: %s has no form for cards; use --device cpu", what);
    wisp_status st = check(api, r);
    CHECK(st == WISP_ENOTSUP && strcmp(err.text, text) == 0, "'%s': %d, '%s'", what, st, err.text);
}

static void refused_row(const struct wisp_cuda *api, const struct wisp_run *r, const char *option,
                        const char *name)
{
    char what[100];
    snprintf(what, sizeof what, "--%s %s", option, name);
    refused(api, r, what);
}

/* ---- ids ---- */

/* Every row of a table has an id of its own, and every id a row. */
#define CHECK_IDS(type, at, most)                                                                  \
    do {                                                                                           \
        unsigned had = 0;                                                                          \
        for (size_t i = 0; at(i); i++) {                                                           \
            const type *k = at(i);                                                                 \
            CHECK(k->id < most && !(had >> k->id & 1), "%s has id %d", k->name, (int)k->id);       \
            had |= 1u << k->id;                                                                    \
        }                                                                                          \
        CHECK(had == (1u << most) - 1, "ids 0x%x of %d", had, (int)most);                          \
    } while (0)

static void test_ids(void)
{
    TEST("rows of optimisers, losses and precisions have ids of their own");
    CHECK_IDS(struct wisp_optimizer_kind, wisp_optimizer_at, WISP_OPTIMIZERS);
    CHECK_IDS(struct wisp_loss, wisp_loss_at, WISP_LOSSES);
    CHECK_IDS(struct wisp_precision, wisp_precision_at, WISP_PRECISIONS);
}

/* ---- rows ---- */

static void test_rows(void)
{
    TEST("a row without a form is refused by its name, and no other");
    struct wisp_run r = run_of("lsh");
    for (size_t i = 0; (r.plan.optimizer = wisp_optimizer_at(i)); i++) {
        struct wisp_cuda api = whole_part();
        CHECK(check(&api, &r) == WISP_OK, "%s", err.text);
        api.optimizers &= ~(1u << r.plan.optimizer->id);
        refused_row(&api, &r, "optimizer", r.plan.optimizer->name);
    }
    r = run_of("lsh");
    for (size_t i = 0; (r.plan.loss = wisp_loss_at(i)); i++) {
        struct wisp_cuda api = whole_part();
        CHECK(check(&api, &r) == WISP_OK, "%s", err.text);
        api.losses &= ~(1u << r.plan.loss->id);
        refused_row(&api, &r, "loss", r.plan.loss->name);
    }
    r = run_of("lsh");
    for (size_t i = 0; (r.plan.precision = wisp_precision_at(i)); i++) {
        struct wisp_cuda api = whole_part();
        CHECK(check(&api, &r) == WISP_OK, "%s", err.text);
        api.precisions &= ~(1u << r.plan.precision->id);
        refused_row(&api, &r, "precision", r.plan.precision->name);
    }
    r = run_of("lsh");
    const struct wisp_cuda part = whole_part();
    no_layer = true;
    refused(&part, &r, m.net.layers[0].kind->name);
    const struct wisp_hash_family *family;
    for (size_t i = 0; (family = wisp_hash_family_at(i)); i++) {
        struct wisp_cuda api = whole_part();
        r = run_of("lsh");
        snprintf(r.plan.sampling.family, sizeof r.plan.sampling.family, "%s", family->name);
        CHECK(check(&api, &r) == WISP_OK, "%s", err.text);
        missing = family->name;
        refused_row(&api, &r, "hash", family->name);
        snprintf(r.plan.sampling.names, sizeof r.plan.sampling.names, "random");
        CHECK(check(&api, &r) == WISP_OK, "nothing is hashed: %s", err.text);
    }
}

static void test_finders(void)
{
    TEST("every finder has a form, or is refused by its name");
    const struct wisp_cuda api = whole_part();
    const struct wisp_finder_kind *kind;
    for (size_t i = 0; (kind = wisp_finder_at(i)); i++) {
        struct wisp_run r = run_of(kind->name);
        if (kind->device) CHECK(check(&api, &r) == WISP_OK, "%s: %s", kind->name, err.text);
        else refused_row(&api, &r, "sampling", kind->name);
    }
    struct wisp_run r = run_of("neighbours+ivf+random");
    refused_row(&api, &r, "sampling", "ivf");
    r = run_of("random+features");
    refused_row(&api, &r, "sampling", "features");
}

/* ---- settings ---- */

#define LACKS(sampling, change, what)                                                              \
    do {                                                                                           \
        struct wisp_run r = run_of(sampling);                                                      \
        change;                                                                                    \
        refused(&api, &r, what);                                                                   \
    } while (0)
#define TAKES(sampling, change)                                                                    \
    do {                                                                                           \
        struct wisp_run r = run_of(sampling);                                                      \
        change;                                                                                    \
        CHECK(check(&api, &r) == WISP_OK, "%s: %s", #change, err.text);                            \
    } while (0)

static void test_settings(void)
{
    TEST("settings that a card lacks are refused");
    const struct wisp_cuda api = whole_part();
    struct wisp_model init = { .net = { .n_labels = LABELS } };
    struct wisp_data many = { .n_rows = (size_t)INT32_MAX + 1 };
    float weights = 1;
    LACKS("random", r.plan.sampling.per_example = true, "--active-per example");
    LACKS("random", r.plan.sampling.correct = 0.5f, "--correct");
    LACKS("lsh", r.plan.sampling.rescore = false, "--rescore no");
    LACKS("random", r.plan.sampling.least = 1, "--active-min or --active-max");
    LACKS("random", r.plan.sampling.most = 1, "--active-min or --active-max");
    LACKS("lsh", r.plan.sampling.keep = 1001, "--keep of more than 1000");
    TAKES("lsh", r.plan.sampling.keep = 1000);
    LACKS("random+scan", r.plan.sampling.keep = 65, "--sampling scan with --keep of more than 64");
    TAKES("random+scan", r.plan.sampling.keep = 64);
    LACKS("neighbours", r.plan.sampling.n_carried = 2001, "--carry of more than 2000");
    LACKS("full", r.plan.average = 0.5, "--average");
    LACKS("full", r.plan.magnitude = 0.5, "--magnitude");
    TAKES("full", (r.plan.penalty = 0.1, r.plan.groups = WISP_GROUPS_CHANNELS));
    LACKS("full", (r.plan.penalty = 0.1, r.plan.groups = WISP_GROUPS_SHAPES),
          "--groups shapes or layers");
    LACKS("full", r.sets.weights = &weights, "training with weights of rows or labels");
    TAKES("full", (r.init.model = &init, r.plan.old_pace = 1));
    LACKS("full", (r.init.model = &init, r.plan.old_pace = 0.5f),
          "--init with new labels, or with an --old-pace other than 1,");
    init.net.n_labels--;
    LACKS("full", (r.init.model = &init, r.plan.old_pace = 1),
          "--init with new labels, or with an --old-pace other than 1,");
    LACKS("full", r.plan.slots = WISP_SLOT_M | WISP_SLOT_HALF, "--moments bf16");
    TAKES("full", r.plan.slots = WISP_SLOT_M);
    LACKS("full", r.plan.memory = 1, "--memory");
    TAKES("full", r.plan.batch = 1 << 14); /* as far as its memory goes */
    TAKES("scan", r.plan.batch = 1 << 14);
    LACKS("full", r.sets.train = &many, "a set of more than 2^31 rows");
}

/* ---- what finders hand over ---- */

static void *blob(struct wisp_sampler *s, const char *name)
{
    struct wisp_blob blobs[WISP_SAMPLER_BLOBS];
    size_t n = wisp_sampler_blobs(s, blobs);
    for (size_t i = 0; i < n; i++)
        if (strcmp(blobs[i].name, name) == 0) return blobs[i].data;
    return NULL;
}

/* Sizes are the same before there is a sampler and with one. */
static void same_sizes(const struct wisp_finders *a, const struct wisp_finders *b)
{
#define SAME(x) CHECK(a->x == b->x, "%s: %lld, %lld", #x, (long long)a->x, (long long)b->x)
    SAME(full);
    SAME(scan);
    SAME(n_random);
    SAME(n_frequent);
    SAME(neighbours.ring);
    SAME(neighbours.last);
    SAME(neighbours.hops);
    SAME(neighbours.n_carried);
    SAME(hash.n_tables);
    SAME(hash.digits);
    SAME(hash.digit_bits);
    SAME(hash.bits);
    SAME(hash.key_shift);
    SAME(hash.key_mask);
    SAME(hash.appended);
    SAME(hash.transform);
    SAME(hash.function_bytes);
    SAME(hash.first_gap);
    CHECK(a->hash.family == b->hash.family, "the family");
}

static void check_functions(const struct wisp_finders *f, const struct wisp_run *r)
{
    const struct wisp_hash_family *family = wisp_hash_family_find(f->hash.family);
    struct wisp_hash_shape shape = { .width = WIDTH + f->hash.appended,
                                     .appended = f->hash.appended,
                                     .n_tables = f->hash.n_tables,
                                     .digits = f->hash.digits,
                                     .digit_bits = f->hash.digit_bits };
    void *want = calloc(1, f->hash.function_bytes);
    CHECK(family->size(&shape) == f->hash.function_bytes, "%s: bytes of functions", family->name);
    family->init(want, &shape, r->plan.seed, 0);
    CHECK(memcmp(want, f->hash.functions, f->hash.function_bytes) == 0, "%s: other functions",
          family->name);
    free(want);
}

static void test_handed(const char *names, const char *family)
{
    struct wisp_run r = run_of(names);
    struct wisp_finders plan, f;
    struct wisp_finder_setup setup;
    snprintf(r.plan.sampling.family, sizeof r.plan.sampling.family, "%s", family);
    CHECK(wisp_card_finders(&plan, &r, &err) == WISP_OK, "%s", err.text);
    CHECK(!plan.neighbours.rings && !plan.up_to && !plan.hash.functions, "nothing to point at");
    wisp_run_finder_setup(&setup, &r, LABELS, WIDTH);
    CHECK(wisp_sampler_create(&r.samplers.output, &setup, ctx->k, LABELS, &err) == WISP_OK, "%s",
          err.text);
    CHECK(wisp_card_finders(&f, &r, &err) == WISP_OK, "%s", err.text);
    same_sizes(&plan, &f);
    bool near = strstr(names, "neighbours"), often = strstr(names, "frequency"),
         hashed = strstr(names, "lsh");
    CHECK(f.scan == !!strstr(names, "scan") && !f.full, "%s: the scan", names);
    CHECK(f.n_random == (strstr(names, "random") ? 6 : 0), "%s: rows at random", names);
    CHECK((f.neighbours.ring > 0) == near && f.neighbours.n_carried == (near ? LABELS : 0),
          "%s: neighbours", names);
    CHECK(f.neighbours.rings == blob(r.samplers.output, "rings") &&
              f.neighbours.next == blob(r.samplers.output, "rings.next") &&
              f.neighbours.lasts == blob(r.samplers.output, "last") &&
              f.neighbours.carried == blob(r.samplers.output, "carried"),
          "%s: other memories than the checkpoint's", names);
    CHECK(f.n_frequent == (often ? 3 : 0) && !f.up_to == !often, "%s: frequency", names);
    for (size_t i = 0; often && i < LABELS; i++) {
        double count = f.up_to[i] - (i ? f.up_to[i - 1] : 0) - (double)label_rows[i];
        CHECK(count > 0.9e-3 && count < 1.1e-3, "%s: label %zu", names, i);
    }
    CHECK(f.hash.n_tables == (!hashed ? 0 : near ? 12 : 50), "%zu tables", f.hash.n_tables);
    CHECK(hashed ? strcmp(f.hash.family, family) == 0 : !f.hash.family, "%s: the family", names);
    if (hashed) check_functions(&f, &r);
    wisp_sampler_free(r.samplers.output);
}

static void test_all_handed(void)
{
    TEST("finders hand over what they keep");
    const struct wisp_hash_family *family;
    test_handed("random", "dwta");
    test_handed("scan", "dwta");
    test_handed("scan+frequency+neighbours", "dwta");
    for (size_t i = 0; (family = wisp_hash_family_at(i)); i++) {
        test_handed("lsh+random", family->name);
        test_handed("random+lsh+neighbours", family->name);
    }
    struct wisp_run r = run_of("full");
    struct wisp_finders f;
    CHECK(wisp_card_finders(&f, &r, &err) == WISP_OK && f.full && !f.scan, "all rows");
}

int main(void)
{
    struct wisp_layer_sizes sizes = { .batch = BATCH, .active = LABELS, .training = true };
    CHECK(wisp_context_create(&ctx, 2, &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_net_plan(&m.net, "input 8, relu", FEATURES, LABELS, &sizes, &err) == WISP_OK, "%s",
          err.text);
    for (size_t i = 0; i < LABELS; i++) label_rows[i] = (int64_t)(i * i % 11);
    m.label_rows = label_rows;
    test_ids();
    test_rows();
    test_finders();
    test_settings();
    test_all_handed();
    wisp_net_clear(&m.net);
    wisp_context_free(ctx);
    TEST("nothing is left");
    CHECK(wisp_mem_live == 0, "%ld blocks", (long)wisp_mem_live);
    return test_end();
}

/* A part for cards without a card, in the place of wisp-cuda.so, for tests of what the host does with it: which
 * card a rank works on, its share of each batch, what ranks add up, when they wait for each other, what
 * they say when one of them fails.
 *
 * It trains nothing.  What it calls the loss of a sample is a function of its row, of the step and of
 * what all ranks have added up so far, so that a row that is missing, or there twice, changes the losses
 * of all later steps.
 *
 *   FAKE_CARDS=N      cards of the machine, of 1 GiB each
 *   FAKE_NCCL=1       NCCL is there, and adds up as the host does
 *   FAKE_FAIL=CALL    the rank that has the last card fails in create, meet, run or wait
 */
#include "cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 7, GRADIENTS = 50 };

struct wisp_cuda_trainer {
    const struct wisp_cuda_setup *s;
    struct wisp_cuda_seen seen;
    double so_far; /* of all ranks */
    bool met;
};
struct wisp_cuda_scorer {
    size_t k;
};

static int mine; /* the card that this process works on */

static int number_of(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

static wisp_status fail(wisp_error *err, const char *what)
{
    *err = (wisp_error){ .code = WISP_ENOTSUP };
    snprintf(err->text, sizeof err->text, "fake: %s failed on card %d", what, mine);
    return WISP_ENOTSUP;
}

static bool fails(const char *call)
{
    const char *at = getenv("FAKE_FAIL");
    return at && strcmp(at, call) == 0 && mine == number_of("FAKE_CARDS", 1) - 1;
}

static const char *adder(bool *there)
{
    *there = number_of("FAKE_NCCL", 0);
    return *there ? "NCCL 0.0.0" : "no NCCL: it is a fake";
}

static const char *convolver(void)
{
    return "none";
}

static bool has(const char *name)
{
    return name != NULL;
}

static wisp_status choose(int place, wisp_error *err)
{
    (void)err;
    mine = place % number_of("FAKE_CARDS", 1);
    return WISP_OK;
}

static wisp_status card(struct wisp_cuda_card *out, wisp_error *err)
{
    (void)err;
    *out = (struct wisp_cuda_card){ .major = 9, .n_multi = 1, .free_bytes = 1 << 30 };
    snprintf(out->name, sizeof out->name, "fake %d", mine);
    out->id[0] = (unsigned char)(1 + mine);
    out->total_bytes = out->free_bytes;
    return WISP_OK;
}

static wisp_status check(const struct wisp_graph *g, const struct wisp_finders *f, wisp_error *err)
{
    (void)g, (void)f, (void)err;
    return WISP_OK;
}

static wisp_status bytes(struct wisp_cuda_bytes *out, const struct wisp_cuda_setup *s,
                         wisp_error *err)
{
    (void)s, (void)err;
    *out = (struct wisp_cuda_bytes){ .all = (size_t)number_of("FAKE_BYTES", 1 << 20) };
    out->least = out->all;
    return WISP_OK;
}

static wisp_status create(struct wisp_cuda_trainer **out, const struct wisp_cuda_setup *s,
                          wisp_error *err)
{
    *out = NULL;
    if (fails("create")) return fail(err, "create");
    *out = calloc(1, sizeof **out);
    (*out)->s = s;
    return WISP_OK;
}

static void release(struct wisp_cuda_trainer *t)
{
    free(t);
}

static wisp_status new_id(unsigned char id[WISP_CUDA_ID], wisp_error *err)
{
    (void)err;
    memset(id, 42, WISP_CUDA_ID);
    return WISP_OK;
}

static wisp_status meet(struct wisp_cuda_trainer *t, const unsigned char id[WISP_CUDA_ID],
                        wisp_error *err)
{
    if (fails("meet") || id[0] != 42 || id[WISP_CUDA_ID - 1] != 42) return fail(err, "meet");
    t->met = true;
    return WISP_OK;
}

static size_t most_steps(const struct wisp_cuda_trainer *t)
{
    (void)t;
    return STEPS;
}

/* What all ranks have of a step. */
static wisp_status add_up(struct wisp_cuda_trainer *t, double sum, wisp_error *err)
{
    const struct wisp_cuda_ranks *r = t->s->ranks;
    float gradient[GRADIENTS];
    double all = sum;
    wisp_status st = WISP_OK;
    if (r && r->library && !t->met) return fail(err, "run before they met");
    for (int i = 0; i < GRADIENTS; i++) gradient[i] = (float)i * (float)sum;
    if (r) st = r->add(r->comm, &all, 1, err);
    if (r && st == WISP_OK) st = r->begin(r->comm, gradient, GRADIENTS, err);
    if (r && st == WISP_OK) st = r->finish(r->comm, err);
    for (int i = 0; i < GRADIENTS && st == WISP_OK; i++)
        if (gradient[i] != (float)i * (float)all) st = fail(err, "the sum of gradients");
    t->so_far += all;
    return st;
}

static wisp_status run(struct wisp_cuda_trainer *t, const uint32_t *ids,
                       const struct wisp_moved *moved, const struct wisp_cuda_share *n,
                       const float *lr, const double *shorter, size_t n_steps, uint64_t first,
                       bool look, bool anew, wisp_error *err)
{
    (void)moved, (void)lr, (void)shorter, (void)look, (void)anew;
    wisp_status st = fails("run") ? fail(err, "run") : WISP_OK;
    for (size_t s = 0; s < n_steps && st == WISP_OK; s++) {
        const uint32_t *id = ids + s * t->s->batch;
        double sum = 0;
        if (n[s].n > t->s->batch || (n[s].n && n[s].before % 4) || n[s].before + n[s].n > n[s].all)
            return fail(err, "a share");
        for (uint32_t i = 0; i < n[s].n; i++) { /* whole numbers: no rounding in any order */
            const uint32_t place = n[s].before + i;
            sum += (double)(id[i] % 97 + place % 5);
            t->seen.loss +=
                (double)((id[i] + place + first + s) % 13) + (double)((uint64_t)t->so_far % 11);
        }
        st = add_up(t, sum, err);
    }
    return st;
}

static wisp_status wait_for(struct wisp_cuda_trainer *t, struct wisp_cuda_seen *out,
                            wisp_error *err)
{
    if (fails("wait")) return fail(err, "wait");
    *out = t->seen;
    return WISP_OK;
}

static size_t live(const struct wisp_cuda_trainer *t, int layer, uint64_t *to)
{
    (void)t, (void)layer, (void)to;
    return 0;
}

static wisp_status fetch(struct wisp_cuda_trainer *t, wisp_error *err)
{
    (void)t, (void)err;
    return WISP_OK;
}

static wisp_status take_time(struct wisp_cuda_trainer *t, struct wisp_cuda_times *out,
                             wisp_error *err)
{
    (void)t, (void)err;
    *out = (struct wisp_cuda_times){ 0 };
    return WISP_OK;
}

static wisp_status create_scorer(struct wisp_cuda_scorer **out, const struct wisp_graph *g,
                                 struct wisp_cuda_trainer *t, size_t batch, size_t k,
                                 wisp_error *err)
{
    (void)g, (void)t, (void)batch, (void)err;
    *out = calloc(1, sizeof **out);
    (*out)->k = k;
    return WISP_OK;
}

static void free_scorer(struct wisp_cuda_scorer *s)
{
    free(s);
}

/* The first k labels, for every row. */
static wisp_status score(struct wisp_cuda_scorer *s, const struct wisp_cuda_best *out,
                         const struct wisp_cuda_block *rows, wisp_error *err)
{
    (void)err;
    for (size_t i = 0; i < rows->n * s->k; i++) {
        out->labels[i] = (int32_t)(i % s->k);
        out->logits[i] = -(float)(i % s->k);
    }
    for (size_t i = 0; i < rows->n && out->max; i++) out->max[i] = 0, out->sum[i] = 2;
    return WISP_OK;
}

__attribute__((visibility("default"))) const struct wisp_cuda *wisp_cuda_table(void);

const struct wisp_cuda *wisp_cuda_table(void)
{
    static const struct wisp_cuda table = { .version = WISP_CUDA_VERSION,
                                            .graph_bytes = sizeof(struct wisp_graph),
                                            .layer_bytes = sizeof(struct wisp_layer),
                                            .act_bytes = sizeof(struct wisp_act),
                                            .param_bytes = sizeof(struct wisp_param),
                                            .optimizers = 7,
                                            .losses = 3,
                                            .precisions = 7,
                                            .has_family = has,
                                            .has_kind = has,
                                            .convolver = convolver,
                                            .adder = adder,
                                            .choose = choose,
                                            .card = card,
                                            .check = check,
                                            .bytes = bytes,
                                            .create = create,
                                            .free = release,
                                            .new_id = new_id,
                                            .meet = meet,
                                            .most_steps = most_steps,
                                            .run = run,
                                            .wait = wait_for,
                                            .live = live,
                                            .fetch = fetch,
                                            .time = take_time,
                                            .create_scorer = create_scorer,
                                            .free_scorer = free_scorer,
                                            .score = score };
    return &table;
}

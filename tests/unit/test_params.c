/* Parameters of any number, rank and role: a kind of layer of this test alone has six of them, of
 * ranks 1 to 4, one of which is kept and not trained, and names as long as names may be.  Whatever
 * walks over parameters must do so here: files, checkpoints, quantizing, averaging, --init.
 *
 *     out[s][i] = in[s][i] + sum over all trained numbers j with j mod width = i + kept[i] / 1000
 *
 * 'kept' counts the steps. */
#include "model_rig.h"

#include <math.h>

enum { ONE, TWO, THREE, FOUR, ALONE, KEPT, N_ODD };
enum { WIDTH = 12 };
static const struct {
    const char *what;
    int rank;
    size_t dim[WISP_MAX_RANK];
} odd[N_ODD] = {
    [ONE] = { "one", 1, { WIDTH } },
    [TWO] = { "two", 2, { 2, WIDTH } },
    [THREE] = { "three", 3, { 5, 2, 3 } },
    [FOUR] = { "four", 4, { 2, 3, 1, 4 } },
    [ALONE] = { "sixteen-letters-", 1, { 1 } },
    [KEPT] = { "kept", 2, { 3, 4 } },
};
#define NAME "a-name-of-forty-letters-which-is-the-mos"
static const char NET[] = "input 12 as first, relu, odd as " NAME ", relu";

static wisp_status plan(struct wisp_layer *l, const struct wisp_act *const *in,
                        struct wisp_act *out, const struct wisp_layer_sizes *s, wisp_error *e)
{
    for (int i = 0; i < N_ODD; i++) {
        struct wisp_param *p =
            wisp_layer_declare(l, odd[i].what, i == KEPT ? WISP_STATE : WISP_TRAINED, WISP_BY_NONE,
                               odd[i].rank, odd[i].dim);
        p->narrow = i == THREE;
        p->half = i == THREE && s->half;
    }
    l->scratch_floats = WIDTH;
    return wisp_layer_plan_same(l, in, out, s, e);
}

static void init(struct wisp_layer *l, uint64_t run_seed, struct wisp_pool *pool)
{
    for (int i = 0; i < KEPT; i++)
        wisp_param_normal(&l->params[i], 0.1, run_seed + (uint64_t)i, 2 * l->number, pool);
    for (size_t j = 0; j < wisp_param_n(&l->params[KEPT]); j++) l->params[KEPT].w[j] = (float)j;
}

static float number(const struct wisp_param *p, size_t j)
{
    uint32_t bits = p->b16 ? (uint32_t)p->b16[j] << 16 : 0;
    float x;
    memcpy(&x, &bits, sizeof x);
    return p->w ? p->w[j] : p->b16 ? x : (float)p->i8[j] * p->scale[j / p->cols];
}

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *e)
{
    (void)e;
    float *sum = l->scratch;
    for (size_t i = 0; i < WIDTH; i++) sum[i] = number(&l->params[KEPT], i) / 1000;
    for (int k = 0; k < KEPT; k++)
        for (size_t j = 0; j < wisp_param_n(&l->params[k]); j++)
            sum[j % WIDTH] += number(&l->params[k], j);
    for (size_t i = 0; i < s->batch->n * WIDTH; i++) out->x[i] = in[0]->x[i] + sum[i % WIDTH];
    return WISP_OK;
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *e)
{
    (void)e;
    float sum[WIDTH] = { 0 }, g[64];
    for (size_t i = 0; i < s->batch->n * WIDTH; i++)
        in[0]->g[i] = out->g[i], sum[i % WIDTH] += out->g[i];
    for (int k = 0; k < KEPT; k++) {
        struct wisp_param *p = &l->params[k];
        for (size_t row = 0; row < p->rows; row++) {
            for (size_t c = 0; c < p->cols; c++) g[c] = sum[(row * p->cols + c) % WIDTH];
            s->update->row(s->update, p, row, g);
        }
    }
    for (size_t i = 0; i < WIDTH; i++) l->params[KEPT].w[i] += 1;
    return WISP_OK;
}

static const struct wisp_layer_kind kind = {
    .name = "odd",
    .what = "many parameters",
    .takes = WISP_FLAT,
    .plan = plan,
    .init = init,
    .forward = forward,
    .backward = backward,
};

/* ---- */

static struct wisp_model *load(const char *path)
{
    struct wisp_model *m = NULL;
    CHECK(wisp_model_load(&m, path, &err) == WISP_OK, "%s", err.text);
    return m;
}

static const struct wisp_param *param_of(const struct wisp_model *m, int i)
{
    return &m->net.layers[2].params[i];
}

static const char *name_of(int i)
{
    static char name[100];
    snprintf(name, sizeof name, NAME ".%s", odd[i].what);
    return name;
}

static void train(const wisp_data *d, const char *more, int stop, const char *path)
{
    wisp_status st = rig_train(ctx, d, NET, more, stop, path, NULL);
    CHECK(st == (stop ? WISP_ESTOPPED : WISP_OK), "'%s': %d %s", more, st, err.text);
}

static bool same_numbers(const struct wisp_param *a, const struct wisp_param *b, double off)
{
    bool same = wisp_param_n(a) == wisp_param_n(b);
    for (size_t j = 0; same && j < wisp_param_n(a); j++)
        same = fabs(number(a, j) - number(b, j)) <= off;
    return same;
}

static void test_names(const wisp_data *d)
{
    TEST("params: the list, with ranks, roles and names of 57 bytes");
    train(d, "epochs 2 holdout 0", 0, model);
    struct wisp_model *m = load(model);
    if (!m) return;
    const struct wisp_params *list = &m->net.list;
    CHECK(list->n == 2 + N_ODD + 2 && m->net.layers[2].n_params == N_ODD, "%zu", list->n);
    CHECK(strlen(name_of(ALONE)) == 57, "%zu", strlen(name_of(ALONE)));
    CHECK(strcmp(list->p[0].name, "first.weight") == 0, "%s", list->p[0].name);
    for (int i = 0; i < N_ODD; i++) {
        const struct wisp_param *p = param_of(m, i);
        const struct wisp_tensor *t = wisp_tensor_file_find(&m->file, name_of(i));
        size_t n = 1;
        CHECK(strcmp(p->name, name_of(i)) == 0 && p->rank == odd[i].rank && p->layer == 2 &&
                  p->role == (i == KEPT ? WISP_STATE : WISP_TRAINED),
              "%s", p->name);
        CHECK(t && t->n_dims == odd[i].rank && t->dtype == WISP_F32, "%s in the file", name_of(i));
        for (int k = 0; t && k < odd[i].rank; k++, n *= t->shape[k - 1])
            CHECK(t->shape[k] == odd[i].dim[k], "%s: dimension %d", p->name, k);
        CHECK(wisp_param_n(p) == n && p->rows == odd[i].dim[0], "%s: %zu", p->name, n);
    }
    const float *kept = param_of(m, KEPT)->w; /* as many steps more than at the beginning */
    CHECK(kept[0] > 1 && kept[11] == kept[0] + 11, "%g %g", (double)kept[0], (double)kept[11]);
    CHECK(wisp_net_n_params(&m->net) ==
              list->p[0].rows * 12 + 12 + 12 + 24 + 30 + 24 + 1 + list->p[list->n - 2].rows * 13,
          "%zu trained numbers", wisp_net_n_params(&m->net));
    CHECK(wisp_model_save(m, other, 1, 1, NULL, &err) == WISP_OK, "%s", err.text);
    struct wisp_model *again = load(other);
    for (size_t i = 0; again && i < list->n; i++)
        CHECK(same_numbers(&list->p[i], &again->net.list.p[i], 0), "%s: saved and loaded",
              list->p[i].name);
    wisp_model_free(again);
    wisp_model_free(m);
}

static const char *const runs[] = {
    "epochs 3 holdout 0 optimizer adam", "epochs 3 holdout 0 optimizer adagrad",
    "epochs 3 holdout 0 optimizer sgd",  "epochs 3 holdout 0 optimizer adam moments bf16",
    "epochs 3 holdout 0 rows bf16",      "epochs 3 holdout 0 average 0.6",
    "epochs 3 holdout 0 loss bce",
};

/* Threads, and a run that is stopped. */
static void test_runs(const wisp_data *d)
{
    char more[200];
    TEST("params: 1 and 4 threads, resumed: the same bytes");
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        wisp_context *four;
        train(d, runs[i], 0, model);
        struct bytes whole = slurp(model);
        CHECK(wisp_context_create(&four, 4, &err) == WISP_OK &&
                  rig_train(four, d, NET, runs[i], 0, model, NULL) == WISP_OK,
              "%s", err.text);
        CHECK(file_is(model, whole), "'%s': 4 threads differ", runs[i]);
        wisp_context_free(four);
        unlink(model);
        train(d, runs[i], 2, model);
        CHECK(!file_is(model, whole), "'%s': nothing was left to do", runs[i]);
        snprintf(more, sizeof more, "%s resume yes", runs[i]);
        train(d, more, 0, model);
        CHECK(file_is(model, whole), "'%s': resumed it differs", runs[i]);
        free(whole.p);
    }
}

/* What a checkpoint has of each. */
static void test_state(const wisp_data *d)
{
    static const char *const slots[] = { "w", "m", "v", "count", "g2" };
    char path[100], name[WISP_NAME_BYTES];
    struct wisp_tensor_file f = { 0 };
    TEST("params: a checkpoint has what the optimiser keeps, and of what is kept the numbers");
    train(d, "epochs 1 holdout 0 optimizer adam moments fp32 keep-state yes", 0, model);
    snprintf(path, sizeof path, "%s.state", model);
    CHECK(wisp_tensor_file_open(&f, NULL, path, &err) == WISP_OK, "%s", err.text);
    for (int i = 0; i < N_ODD; i++)
        for (int k = 0; k < 5; k++) {
            const struct wisp_param p = { .rows = odd[i].dim[0] };
            size_t n = 1;
            for (int r = 0; r < odd[i].rank; r++) n *= odd[i].dim[r];
            snprintf(name, sizeof name, "%s.%s", name_of(i), slots[k]);
            const struct wisp_tensor *t = wisp_tensor_file_find(&f, name);
            const bool want = k == 0 || (i != KEPT && k < 4);
            CHECK(!t == !want, "%s is %s there", name, t ? "" : "not");
            CHECK(!t || t->bytes == 4 * (k < 3 ? n : p.rows), "%s: %zu bytes", name, t->bytes);
        }
    wisp_tensor_file_close(&f);
    unlink(path);
}

static void test_smaller(const wisp_data *d)
{
    enum { N = 40, K = 3 };
    static const struct {
        const char *type;
        enum wisp_dtype dtype;
    } types[] = { { "bf16", WISP_BF16 }, { "int8", WISP_I8 } };
    TEST("params: quantized, those that are read so become narrow, whatever their rank");
    train(d, "epochs 4 holdout 0", 0, model);
    for (int i = 0; i < 2; i++) {
        struct wisp_model *m = load(model), *small = NULL;
        CHECK(wisp_model_quantize(m, other, types[i].type, &err) == WISP_OK, "%s", err.text);
        if (!(small = load(other))) continue;
        for (int k = 0; k < N_ODD; k++) {
            const struct wisp_tensor *t = wisp_tensor_file_find(&small->file, name_of(k));
            CHECK(t && t->dtype == (k == THREE ? types[i].dtype : WISP_F32) &&
                      t->n_dims == odd[k].rank && t->shape[0] == odd[k].dim[0],
                  "%s: %s", types[i].type, name_of(k));
            CHECK(same_numbers(param_of(m, k), param_of(small, k), k == THREE ? 0.01 : 0), "%s: %s",
                  types[i].type, name_of(k));
        }
        int32_t labels[2][N * K];
        float scores[2][N * K], off = 0;
        CHECK(wisp_predict(labels[0], scores[0], ctx, m, d, 0, N, K, &err) == WISP_OK &&
                  wisp_predict(labels[1], scores[1], ctx, small, d, 0, N, K, &err) == WISP_OK,
              "%s", err.text);
        for (int j = 0; j < N * K; j++) off = fmaxf(off, fabsf(scores[0][j] - scores[1][j]));
        CHECK(off > 0 && off < 0.05f, "%s: scores off by %g", types[i].type, (double)off);
        wisp_model_free(small);
        wisp_model_free(m);
    }
}

static void test_init(const wisp_data *d)
{
    char more[200];
    TEST("params: --init takes all of them; the optimiser's memory too");
    train(d, "epochs 2 holdout 0 keep-state yes", 0, other);
    snprintf(more, sizeof more, "epochs 1 holdout 0 lr 1e-12 init %s", other);
    train(d, more, 0, model);
    struct wisp_model *from = load(other), *m = load(model);
    for (int i = 0; from && m && i < KEPT; i++)
        CHECK(same_numbers(param_of(m, i), param_of(from, i), 1e-6), "%s", name_of(i));
    const float *a = param_of(from, KEPT)->w, *b = param_of(m, KEPT)->w;
    CHECK(b[0] > a[0] && b[11] - b[0] == 11, "kept: %g then %g", (double)a[0], (double)b[0]);
    CHECK(b[0] == 1.5f * a[0], "kept: %g then %g", (double)a[0], (double)b[0]);
    wisp_model_free(m);
    wisp_model_free(from);
    snprintf(more, sizeof more, "epochs 1 init %s", other);
    CHECK(rig_train(ctx, d, "input 12 as first, relu, odd as another, relu", more, 0, model,
                    NULL) == WISP_EMODEL &&
              strstr(err.text, "its net is"),
          "another name: %s", err.text);
    snprintf(more, sizeof more, "%s.state", other);
    unlink(more);
}

/* Without the kind nothing of it is known. */
static void test_unknown(const wisp_data *d)
{
    struct wisp_model *m = NULL;
    TEST("params: a model of a kind that is not there");
    train(d, "epochs 1", 0, model);
    wisp_layer_kind_more = NULL;
    CHECK(wisp_model_load(&m, model, &err) == WISP_EMODEL &&
              strstr(err.text, "model: net:1:26: there is no layer 'odd'"),
          "%s", err.text);
    wisp_layer_kind_more = &kind;
}

static void test_memory(const wisp_data *d)
{
    TEST("params: memory that runs out");
    wisp_status st = WISP_ENOMEM;
    for (long n = 0; st == WISP_ENOMEM; n++) {
        const long before = wisp_mem_live;
        wisp_config *c = config("epochs 1 holdout 0");
        wisp_report *r = NULL;
        set(c, "net", NET);
        wisp_mem_budget = n;
        st = wisp_train(&r, ctx, c, d, NULL, model, NULL, NULL, &err);
        wisp_mem_budget = -1;
        CHECK(st == WISP_OK || st == WISP_ENOMEM, "after %ld: %d '%s'", n, st, err.text);
        wisp_report_free(r);
        wisp_config_free(c);
        CHECK(wisp_mem_live == before, "after %ld: %ld blocks lost", n, wisp_mem_live - before);
    }
    CHECK(st == WISP_OK, "%s", err.text);
}

int main(void)
{
    rig_init();
    wisp_layer_kind_more = &kind;
    wisp_data *d = rig_synth(300, 80, 20, 2);
    test_names(d);
    test_runs(d);
    test_state(d);
    test_smaller(d);
    test_init(d);
    test_unknown(d);
    test_memory(d);
    wisp_data_free(d);
    return rig_end();
}

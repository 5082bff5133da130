/* Losses, gradients and five steps of every optimiser against numpy (tests/golden/step.py), and
 * rows that no batch touched: they keep their bytes. */
#include "test.h"
#include "base/mem.h"
#include "data/data.h"
#include "model/batch.h"
#include "model/net.h"
#include "model/optimizer.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { MAX_BATCHES = 5, MAX_NUMBERS = 100, LINE = 8192 };
static struct wisp_error err;
static struct wisp_kernels kernels;
static struct wisp_context ctx = { .k = &kernels };

static size_t n_features, n_labels, widths[2], n_batches;
static struct wisp_layout batches[MAX_BATCHES];
static struct wisp_net net;
static float *start; /* the parameters as the file gives them */

static void record(const struct wisp_update *u, struct wisp_param *p, size_t row, const float *g);
static struct recorder { /* keeps the gradients, laid out as the parameters, and moves nothing */
    struct wisp_update update;
    float *g;
} recorder = { { record }, NULL };

static void record(const struct wisp_update *u, struct wisp_param *p, size_t row, const float *g)
{
    (void)u;
    memcpy(recorder.g + (p->w - net.params) + row * p->cols, g, p->cols * sizeof *g);
}

/* ---- reading the file ---- */

static char *next_word(char **p)
{
    char *w = strsep(p, " \n");
    while (w && !*w) w = strsep(p, " \n");
    return w ? w : (char *)"";
}

static size_t numbers(double *to, char **p)
{
    size_t n = 0;
    for (char *w; *(w = next_word(p)) && n < MAX_NUMBERS;) to[n++] = strtod(w, NULL);
    return n;
}

/* "f:v f:v | label label ; ..." */
static void read_batch(char *p)
{
    int64_t xp[33] = { 0 }, yp[33] = { 0 };
    int32_t xi[200], yi[200];
    float xv[200];
    size_t n = 0, ids[32];
    bool labels = false;
    for (char *w; *(w = next_word(&p));) {
        if (*w == '|') {
            labels = true;
        } else if (*w == ';') {
            labels = false;
            ids[n] = n;
            n++;
            xp[n + 1] = xp[n], yp[n + 1] = yp[n];
        } else if (labels) {
            yi[yp[n + 1]++] = (int32_t)strtol(w, NULL, 10);
        } else {
            xi[xp[n + 1]] = (int32_t)strtol(w, &w, 10);
            xv[xp[n + 1]++] = strtof(w + 1, NULL);
        }
    }
    struct wisp_data *d;
    struct wisp_values raw = { .mode = WISP_VALUES_RAW };
    struct wisp_drop none = { 0 };
    struct wisp_layout *l = &batches[n_batches++];
    bool ok =
        wisp_data_from_csr(&d, n, n_features, n_labels, xp, xi, xv, yp, yi, &err) == WISP_OK &&
        wisp_layout_init(l, n_features, n_labels, true, &err) == WISP_OK &&
        wisp_layout_fill(l, d, ids, n, &raw, &none, &err) == WISP_OK;
    CHECK(ok && n == 6, "%zu rows: %s", n, err.text);
    wisp_data_free(d);
}

static struct wisp_param *param(const char *name)
{
    for (size_t i = 0; i < net.list.n; i++)
        if (strcmp(net.list.p[i].name, name) == 0) return &net.list.p[i];
    CHECK(false, "no parameter '%s'", name);
    return NULL;
}

/* "NAME ROWS COLS value ..." */
static struct wisp_param *read_tensor(double *to, char **p)
{
    struct wisp_param *q = param(next_word(p));
    if (!q) return NULL;
    size_t rows = strtoul(next_word(p), NULL, 10), cols = strtoul(next_word(p), NULL, 10),
           n = numbers(to, p);
    CHECK(q->rows == rows && q->cols == cols && n == rows * cols,
          "%s: %zu x %zu, %zu numbers, expected %zu x %zu", q->name, rows, cols, n, q->rows,
          q->cols);
    return n == q->rows * q->cols ? q : NULL;
}

static bool make_net(char *p)
{
    n_features = strtoul(next_word(&p), NULL, 10), n_labels = strtoul(next_word(&p), NULL, 10);
    widths[0] = strtoul(next_word(&p), NULL, 10), widths[1] = strtoul(next_word(&p), NULL, 10);
    char spec[100];
    snprintf(spec, sizeof spec, "input %zu, relu, dense %zu, relu", widths[0], widths[1]);
    struct wisp_layer_sizes sizes = {
        .batch = 6, .active = n_labels, .training = true, .smoothing = 0.5f /* room for it */
    };
    bool ok = wisp_net_plan(&net, spec, n_features, n_labels, &sizes, &err) == WISP_OK &&
              wisp_net_alloc_params(&net, &err) == WISP_OK &&
              wisp_work_alloc(&net, 1, &err) == WISP_OK;
    CHECK(ok, "%s", err.text);
    wisp_net_output(&net)->smoothing = 0;
    start = calloc(wisp_net_param_floats(&net), sizeof *start);
    recorder.g = calloc(wisp_net_param_floats(&net), sizeof *recorder.g);
    return ok;
}

/* ---- steps ---- */

static double step(size_t batch, const struct wisp_loss *loss, const struct wisp_update *u)
{
    struct wisp_step s = { .ctx = &ctx,
                           .batch = &batches[batch].batch,
                           .training = true,
                           .update = u,
                           .head.loss = loss };
    CHECK(wisp_net_step(&net, &s, &err) == WISP_OK, "%s", err.text);
    return s.head.loss_sum / (double)s.batch->n;
}

static void compare(const char *what, const char *name, const float *got, const double *want,
                    size_t n)
{
    double scale = 0;
    for (size_t i = 0; i < n; i++) scale = fmax(scale, fabs(want[i]));
    for (size_t i = 0; i < n; i++)
        CHECK(fabs(got[i] - want[i]) <= 1e-5 * (scale + 1e-3),
              "%s: %s[%zu] = %.9g, numpy says %.9g", what, name, i, got[i], want[i]);
}

static struct wisp_optimizer opt;

/* "LOSS OPTIMIZER lr momentum loss ...": runs the steps. */
static void run(char *p)
{
    static char name[80];
    const struct wisp_loss *loss = wisp_loss_find(next_word(&p));
    const struct wisp_optimizer_kind *kind = wisp_optimizer_find(next_word(&p));
    double lr = strtod(next_word(&p), NULL), momentum = strtod(next_word(&p), NULL),
           want[MAX_NUMBERS];
    test_close(); /* its name was here */
    snprintf(name, sizeof name, "step: five steps of %s, %s loss", kind ? kind->name : "?",
             loss ? loss->name : "?");
    TEST(name);
    CHECK(loss && kind && numbers(want, &p) == n_batches, "cannot read the line");
    if (!loss || !kind) return;
    memcpy(net.params, start, wisp_net_param_floats(&net) * sizeof *start);
    wisp_free(net.state);
    net.state = NULL;
    wisp_optimizer_clear(&opt);
    CHECK(wisp_net_alloc_state(&net, kind->slots, &err) == WISP_OK &&
              wisp_optimizer_init(&opt, kind, &kernels, momentum, &err) == WISP_OK,
          "%s", err.text);
    opt.lr = (float)lr;
    for (size_t i = 0; i < n_batches; i++) {
        double got = step(i, loss, &opt.update);
        CHECK(fabs(got - want[i]) <= 1e-5 * want[i],
              "%s: loss before step %zu is %.9g, numpy says %.9g", name, i + 1, got, want[i]);
    }
    /* features 10 and 11 are in no batch */
    const struct wisp_param *w = &net.layers[0].params[0];
    CHECK(memcmp(w->w + 10 * w->cols, start + 10 * w->cols, 2 * w->cols * sizeof *start) == 0,
          "untouched rows moved");
}

/* "LOSS value": the loss of the first batch; leaves its gradients in recorder.g. */
static void first_step(char *p)
{
    static char name[80];
    const struct wisp_loss *loss = wisp_loss_find(next_word(&p));
    test_close(); /* its name was here */
    snprintf(name, sizeof name, "step: gradients of the %s loss%s%s", loss ? loss->name : "?",
             wisp_net_output(&net)->smoothing > 0 ? ", smoothed" : "",
             batches[0].batch.weight ? ", rows weighted" : "");
    TEST(name);
    CHECK(loss, "no such loss");
    if (!loss) return;
    double want = strtod(next_word(&p), NULL);
    memcpy(net.params, start, wisp_net_param_floats(&net) * sizeof *start);
    memset(recorder.g, 0, wisp_net_param_floats(&net) * sizeof *recorder.g);
    double got = step(0, loss, &recorder.update);
    CHECK(fabs(got - want) <= 2e-6 * want, "loss %.9g, numpy says %.9g", got, want);
}

/* A softmax does not see what all logits have in common, however far it takes them from 0. */
static void test_far(float smoothing)
{
    static const float far[] = { 0, 49, -49, 60, -60, 512, -512 };
    const struct wisp_loss *loss = wisp_loss_find("softmax");
    struct wisp_layer *out = wisp_net_output(&net);
    const struct wisp_param *bias = &out->params[1];
    const size_t n = wisp_net_param_floats(&net);
    double *want = calloc(n, sizeof *want), first = 0;
    TEST(smoothing > 0 ? "step: a softmax of logits far from 0, smoothed"
                       : "step: a softmax of logits far from 0");
    out->smoothing = smoothing;
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        memcpy(net.params, start, n * sizeof *start);
        for (size_t y = 0; y < bias->rows; y++) bias->w[y] += far[i];
        memset(recorder.g, 0, n * sizeof *recorder.g);
        const double got = step(0, loss, &recorder.update);
        if (i == 0) first = got;
        for (size_t k = 0; i == 0 && k < n; k++) want[k] = (double)recorder.g[k];
        CHECK(fabs(got - first) <= 1e-4 * first, "by %g: loss %.9g, expected %.9g", (double)far[i],
              got, first);
        double most = 0, off = 0;
        for (size_t k = 0; k < n; k++) {
            most = fmax(most, fabs(want[k]));
            off = isfinite(recorder.g[k]) ? fmax(off, fabs((double)recorder.g[k] - want[k]))
                                          : INFINITY;
            if (!isfinite(off)) break;
        }
        CHECK(most > 0 && off <= 1e-4 * most, "by %g: a gradient is off by %g of %g",
              (double)far[i], off, most);
    }
    free(want);
}

static void check_counts(char *p)
{
    next_word(&p), next_word(&p);
    const struct wisp_param *q = param(next_word(&p));
    double want[MAX_NUMBERS];
    size_t n = numbers(want, &p);
    if (!q || !q->count || !(opt.kind->slots & WISP_SLOT_COUNT)) return;
    CHECK(n == q->rows, "%zu counts for %zu rows", n, q->rows);
    for (size_t i = 0; i < n && i < q->rows; i++)
        CHECK(q->count[i] == want[i], "%s row %zu: %u updates, expected %g", q->name, i,
              q->count[i], want[i]);
}

/* "w w ...": what the samples of the first batch count for. */
static void read_weights(char *p)
{
    struct wisp_layout *l = &batches[0];
    double v[MAX_NUMBERS];
    size_t n = numbers(v, &p);
    CHECK(n == l->batch.n, "%zu weights for %zu rows", n, l->batch.n);
    for (size_t i = 0; i < n && i < l->batch.n; i++) l->weight[i] = (float)v[i];
    l->batch.weight = l->weight;
}

static bool take_line(char *p)
{
    double v[MAX_NUMBERS];
    const char *what = next_word(&p);
    struct wisp_param *q;
    if (strcmp(what, "net") == 0) return make_net(p);
    if (strcmp(what, "batch") == 0) read_batch(p);
    if (strcmp(what, "weights") == 0) read_weights(p);
    if (strcmp(what, "smoothing") == 0)
        wisp_net_output(&net)->smoothing = strtof(next_word(&p), NULL);
    if (strcmp(what, "tensor") == 0 && (q = read_tensor(v, &p)))
        for (size_t i = 0; i < q->rows * q->cols; i++)
            start[(size_t)(q->w - net.params) + i] = (float)v[i];
    if (strcmp(what, "loss") == 0) first_step(p);
    if (strcmp(what, "run") == 0) run(p);
    if (strcmp(what, "count") == 0) check_counts(p);
    if (strcmp(what, "grad") == 0 && (next_word(&p), q = read_tensor(v, &p)))
        compare("gradient", q->name, recorder.g + (q->w - net.params), v, q->rows * q->cols);
    if (strcmp(what, "end") == 0 && (next_word(&p), next_word(&p), q = read_tensor(v, &p)))
        compare(opt.kind->name, q->name, q->w, v, q->rows * q->cols);
    return true;
}

int main(void)
{
    static char line[LINE];
    FILE *f = fopen("tests/golden/step.txt", "r");
    TEST("step: the golden file");
    CHECK(f, "tests/golden/step.txt: run this in the root of the repository");
    CHECK(wisp_kernels_select(&kernels, "scalar", &err) == WISP_OK, "%s", err.text);
    size_t n = 0;
    for (; f && fgets(line, sizeof line, f); n++) {
        CHECK(strchr(line, '\n'), "line %zu is longer than %d characters", n + 1, LINE - 2);
        if (!take_line(line)) break;
    }
    test_far(0);
    test_far(0.25f);
    TEST("step: all of the file was read, nothing is left");
    CHECK(n == 136 && n_batches == MAX_BATCHES, "%zu lines, %zu batches", n, n_batches);
    if (f) fclose(f);
    for (size_t i = 0; i < n_batches; i++) wisp_layout_clear(&batches[i]);
    wisp_net_clear(&net);
    wisp_optimizer_clear(&opt);
    free(start), free(recorder.g);
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);
    return test_end();
}

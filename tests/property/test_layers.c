/* Layers and losses against finite differences, and the best labels against a plain sort.
 *
 * Random nets and random batches; every loss of the table, every instruction set, all rows active
 * or some of them, in the output layer and in hidden ones. */
#include "layer_differences.h"
#include "layer/product.h"

static void check_net(const struct wisp_kernels *k, uint64_t start, int hidden)
{
    struct rig r, three;
    /* Dense layers that skip zeros make the same bits; convolutions round otherwise. */
    if (rig_planes && start % 2) rig_zeros = WISP_ZEROS_FORCE;
    if (!rig_init(&r, k, 1, start, hidden, false)) return;
    if (!rig_planes) rig_zeros = WISP_ZEROS_FORCE;
    if (!rig_init(&three, k, 3, start, hidden, false)) return;
    rig_zeros = WISP_ZEROS_OFF;
    for (size_t l = 0; wisp_loss_at(l); l++) {
        const struct wisp_loss *loss = wisp_loss_at(l);
        CHECK(strcmp(loss->name, "softmax") == 0 || strcmp(loss->name, "bce") == 0,
              "no test case for loss %s", loss->name);
        struct wisp_active full = { .n = r.n_labels },
                           part = { .n = r.n_rows, .rows = r.rows, .shift = r.shift };
        int32_t *all = malloc(r.n_labels * sizeof *all);
        for (size_t i = 0; i < r.n_labels; i++) all[i] = (int32_t)i;
        double listed =
            gradients(&three, loss, (struct wisp_active){ .n = r.n_labels, .rows = all }, false);
        double want = gradients(&r, loss, full, false);
        CHECK(isfinite(want) && want >= -1e-7, "loss %g", want);
        CHECK(listed == want && memcmp(r.rec.g, three.rec.g, r.floats * 4) == 0,
              "%s '%s' %s: all rows by name differ from all rows", k->name, r.spec, loss->name);
        free(all);
        for (int some = 0; some < 2; some++) {
            double a = gradients(&r, loss, some ? part : full, some),
                   b = gradients(&three, loss, some ? part : full, some);
            CHECK(a == b && memcmp(r.rec.g, three.rec.g, r.floats * 4) == 0,
                  "%s '%s' %s: 3 threads differ from 1", k->name, r.spec, loss->name);
            check_hits(&r);
            double ref = mean_loss(&r);
            CHECK(fabs(a - ref) <= 3e-6 * (1 + ref), "%s '%s' %s: loss %.9g, expected %.9g",
                  k->name, r.spec, loss->name, a, ref);
            for (size_t i = 0; i < r.net.list.n; i++) check_param(&r, &r.net.list.p[i]);
        }
    }
    rig_clear(&r);
    rig_clear(&three);
}

/* Should the result of layer i count in the loss?  ReLUs of planes, but for those that one max pooling
 * alone reads, and these. */
static bool counts_in_loss(const struct wisp_net *net, int i)
{
    const struct wisp_layer *l = &net->layers[i];
    const bool pools = l->kind == &wisp_layer_maxpool && l->from[0] > 0;
    const int maker = pools ? l->from[0] - 1 : i;
    if (l->kind->head || net->layers[maker].kind != &wisp_layer_relu ||
        net->acts[maker + 1].form != WISP_PLANES)
        return false;
    int readers = 0, poolings = 0;
    for (int r = 0; r < net->n_layers; r++)
        for (int k = 0; k < net->layers[r].n_from; k++)
            if (net->layers[r].from[k] == maker + 1)
                readers++, poolings += net->layers[r].kind == &wisp_layer_maxpool;
    const bool pooled = readers == 1 && poolings == 1;
    return pools ? pooled : !pooled;
}

/* Results that count in the loss, against differences, for 1 and 3 threads; how many did. */
static int check_more_zeros(const struct wisp_kernels *k, uint64_t start)
{
    const struct wisp_loss *loss = wisp_loss_find("softmax");
    struct rig r, three;
    rig_more_zeros = start % 2 ? 0.5f : 20;
    bool ok = rig_init(&r, k, 1, start, 1, false) && rig_init(&three, k, 3, start, 1, false);
    rig_more_zeros = 0;
    if (!ok) return 0;
    int n = 0;
    for (int i = 0; i < r.net.n_layers; i++) {
        const struct wisp_layer *l = &r.net.layers[i];
        const bool counts = counts_in_loss(&r.net, i);
        CHECK((l->l1 > 0) == counts, "'%s': layer %d has the weight %g", r.spec, i, (double)l->l1);
        n += counts;
    }
    const struct wisp_active full = { .n = r.n_labels };
    double a = gradients(&r, loss, full, false), b = gradients(&three, loss, full, false);
    CHECK(a == b && memcmp(r.rec.g, three.rec.g, r.floats * 4) == 0,
          "%s '%s' more zeros: 3 threads differ from 1", k->name, r.spec);
    double ref = mean_loss(&r);
    CHECK(fabs(a - ref) <= 3e-6 * (1 + ref), "%s '%s' more zeros: loss %.9g, expected %.9g",
          k->name, r.spec, a, ref);
    for (size_t i = 0; i < r.net.list.n; i++) check_param(&r, &r.net.list.p[i]);
    rig_clear(&r);
    rig_clear(&three);
    return n;
}

/* Targets of which a share is all labels' alike, against differences, for 1 and 3 threads. */
static void check_smoothed(const struct wisp_kernels *k, uint64_t start)
{
    const struct wisp_loss *loss = wisp_loss_find("softmax");
    struct rig r, three;
    rig_smoothing = start % 2 ? 0.1f : 0.7f;
    bool ok = rig_init(&r, k, 1, start, 1, false) && rig_init(&three, k, 3, start, 1, false);
    rig_smoothing = 0;
    if (!ok) return;
    const struct wisp_active full = { .n = r.n_labels };
    double a = gradients(&r, loss, full, false), b = gradients(&three, loss, full, false);
    CHECK(a == b && memcmp(r.rec.g, three.rec.g, r.floats * 4) == 0,
          "%s '%s' smoothed: 3 threads differ from 1", k->name, r.spec);
    double ref = mean_loss(&r);
    CHECK(fabs(a - ref) <= 3e-6 * (1 + ref), "%s '%s' smoothed: loss %.9g, expected %.9g", k->name,
          r.spec, a, ref);
    for (size_t i = 0; i < r.net.list.n; i++) check_param(&r, &r.net.list.p[i]);
    rig_clear(&r);
    rig_clear(&three);
}

/* Radix layers wide enough that rows share their connections: as many outputs as inputs, more,
 * fewer, and numbers that do not divide each other.  Each instruction set has one of them. */
static void check_radix(const struct wisp_kernels *k, size_t which)
{
    static const char *const specs[] = {
        "input 256, relu, sparse radix 256, relu, sparse radix 256",
        "sparse radix 256, relu, sparse radix 512, relu, sparse radix 272, relu",
        "input 272, relu, sparse radix 300, relu, sparse radix 12",
    };
    rig_spec = specs[which % (sizeof specs / sizeof *specs)];
    check_net(k, 5 + which, 1);
    rig_spec = NULL;
}

/* Graphs of either form, with levels that are wide and thin, in a row, and both: as the first layer,
 * behind another, and one behind the other.  Inputs of theirs are outputs, too. */
static void check_dags(const struct wisp_kernels *k, size_t which)
{
    static const size_t thin[] = { 0, 30, 512 };
    for (size_t i = 0; i < 6; i++) {
        const uint64_t start = 1000303 * (i + 1) + 77 * which;
        char one[] = "/tmp/wisp_dag_XXXXXX", two[] = "/tmp/wisp_dag_XXXXXX", spec[200];
        seed = start; /* as many features as the rig will draw */
        const bool rows = i % 2, market = i % 3 == 2;
        const size_t n_features = 2 + below(60), n_in = rows ? n_features : 9;
        dag_make(one, start, &(struct dag_text){ n_in, 3 + 6 * i, 1 + i % 4, market, false });
        dag_make(two, start, &(struct dag_text){ 5, 20, 3, false, false });
        if (rows)
            snprintf(spec, sizeof spec, "dag file=%s, dense 5, dag mask=%s, dense 4", one, two);
        else if (market) snprintf(spec, sizeof spec, "input 9, dag mask=%s function=tanh", one);
        else snprintf(spec, sizeof spec, "input 9, relu, dag file=%s", one);
        rig_spec = spec;
        wisp_dag_thin = thin[i % 3];
        check_net(k, start, 1);
        rig_spec = NULL;
        unlink(one), unlink(two);
    }
    wisp_dag_thin = 512;
}

/* A matrix that is read from memory, for few samples: the most, and one more, which take the ways back
 * of few and of many.  Its 600 rows are no multiple of a task's. */
static void check_large(const struct wisp_kernels *k, size_t which)
{
    rig_spec = "input 600, relu, dense 448";
    static const size_t rows[] = { WISP_BACK_SAMPLES, WISP_BACK_SAMPLES + 1 };
    for (size_t i = 0; i < 2; i++) {
        rig_rows = rows[i];
        check_net(k, 9 + which, 1);
    }
    rig_spec = NULL;
    rig_rows = 0;
}

/* Products in bf16: near those in fp32, and the same bytes for any number of threads.  Logits far
 * from 0 take another way, so biases are raised or lowered for some. */
static void check_bf16(const struct wisp_kernels *k, uint64_t start)
{
    struct rig plain, r, three;
    rig_smoothing = start % 2 ? 0.2f : 0;
    bool ok = rig_init(&plain, k, 1, start, 1, false);
    rig_precision = &wisp_precision_bf16;
    ok = ok && rig_init(&r, k, 1, start, 1, false) && rig_init(&three, k, 3, start, 1, false);
    rig_precision = NULL;
    rig_smoothing = 0;
    if (!ok) return;
    struct rig *all[] = { &plain, &r, &three };
    float up = start % 3 == 0 ? 0 : start % 3 == 1 ? 120 : -120;
    for (int i = 0; i < 3; i++) {
        struct wisp_param *bias = &wisp_net_output(&all[i]->net)->params[1];
        for (size_t l = 0; l < bias->rows; l++) bias->w[l] += up;
    }
    struct wisp_active full = { .n = r.n_labels };
    const struct wisp_loss *loss = wisp_loss_find("softmax");
    double want = gradients(&plain, loss, full, false), a = gradients(&r, loss, full, false),
           b = gradients(&three, loss, full, false), most = 0, off = 0;
    for (size_t i = 0; i < r.floats; i++) {
        most = fmax(most, fabs(plain.rec.g[i]));
        off = fmax(off, fabs((double)plain.rec.g[i] - r.rec.g[i]));
    }
    CHECK(a == b && memcmp(r.rec.g, three.rec.g, r.floats * 4) == 0,
          "%s '%s': 3 threads differ from 1", k->name, r.spec);
    CHECK(fabs(a - want) <= 0.02 * (1 + want), "%s '%s': loss %g in bf16, %g in fp32", k->name,
          r.spec, a, want);
    CHECK(off <= 0.03 * most + 1e-3, "%s '%s': gradients off by %g of %g", k->name, r.spec, off,
          most);
    for (int i = 0; i < 3; i++) rig_clear(all[i]);
}

/* ---- the best labels ---- */

static const float *sort_by;
static int better(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    if (sort_by[x] != sort_by[y]) return sort_by[x] > sort_by[y] ? -1 : 1;
    return (x > y) - (x < y);
}

struct topk { /* an output layer by itself */
    struct wisp_context ctx;
    struct wisp_layer l;
    float *w, *bias, *h;
    size_t n;
};

static void topk_one(const struct topk *t, const struct wisp_loss *loss, size_t k)
{
    size_t labels = t->l.n_out, threads = (size_t)wisp_pool_threads(t->ctx.pool);
    float *scratch = wisp_alloc(wisp_output_topk_floats(&t->l, t->n, k), 4);
    float *each = wisp_alloc(wisp_output_topk_thread_floats(&t->l, t->n, k) * threads, 4);
    int32_t *got = malloc(t->n * k * 4), *order = malloc(labels * 4);
    float *score = malloc(t->n * k * 4), *z = malloc(labels * 4);
    wisp_output_topk(&t->l, (struct wisp_context *)&t->ctx, loss, t->h, t->n, false, k, got, score,
                     scratch, each, NULL);
    for (size_t s = 0; s < t->n; s++) {
        double max = -INFINITY, sum = 0, total = 0;
        for (size_t l = 0; l < labels; l++) {
            z[l] = t->bias[l]; /* small whole numbers: exact in any order */
            for (size_t i = 0; i < t->l.n_in; i++)
                z[l] += t->w[l * t->l.n_in + i] * t->h[s * t->l.n_in + i];
            max = fmax(max, z[l]);
            order[l] = (int32_t)l;
        }
        for (size_t l = 0; l < labels; l++) sum += exp(z[l] - max);
        sort_by = z;
        qsort(order, labels, sizeof *order, better);
        for (size_t c = 0; c < k; c++) {
            int32_t want = c < labels ? order[c] : -1;
            double p = c >= labels                          ? 0
                       : strcmp(loss->name, "softmax") == 0 ? exp(z[want] - max) / sum
                                                            : 1 / (1 + exp(-(double)z[want]));
            CHECK(got[s * k + c] == want, "%s, %zu labels, place %zu of %zu: %d, expected %d",
                  t->ctx.k->name, labels, c, k, got[s * k + c], want);
            CHECK(fabs(score[s * k + c] - p) <= 2e-6 * (p + 1e-6),
                  "%s %s, %zu labels, place %zu: %g, expected %g", t->ctx.k->name, loss->name,
                  labels, c, score[s * k + c], p);
            total += score[s * k + c];
        }
        CHECK(k < labels || strcmp(loss->name, "softmax") != 0 || fabs(total - 1) < 1e-5,
              "sum of probabilities %g", total);
    }
    wisp_free(scratch), wisp_free(each), free(got), free(order), free(score), free(z);
}

static void test_topk(const struct wisp_kernels *k)
{
    static const size_t sizes[] = { 1, 2, 17, 95, 96, 97, 193, 700, 1537, 5000 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int threads = 1; threads <= 3; threads += 2) {
            struct topk t = { .ctx = { .k = k }, .n = sizes[i] > 1000 ? 2 : 1 + below(40) };
            t.l = (struct wisp_layer){ .kind = &wisp_layer_output,
                                       .number = 1,
                                       .n_in = 1 + below(20) };
            struct wisp_params list = { 0 };
            t.l.list = &list;
            struct wisp_layer_sizes s = { .batch = t.n, .labels = sizes[i], .active = sizes[i] };
            CHECK(t.l.kind->plan(&t.l, NULL, NULL, &s, &err) == WISP_OK &&
                      wisp_pool_create(&t.ctx.pool, threads, &err) == WISP_OK,
                  "%s", err.text);
            t.w = t.l.params[0].w = malloc(sizes[i] * t.l.n_in * 4);
            t.bias = t.l.params[1].w = malloc(sizes[i] * 4);
            t.h = malloc(t.n * t.l.n_in * 4);
            for (size_t e = 0; e < sizes[i] * t.l.n_in; e++) t.w[e] = (float)below(3) - 1;
            for (size_t e = 0; e < sizes[i]; e++) t.bias[e] = (float)below(3);
            for (size_t e = 0; e < t.n * t.l.n_in; e++) t.h[e] = (float)below(5) - 2;
            const size_t ks[] = { 1, 5, sizes[i], sizes[i] + 7 };
            for (size_t c = 0; c < 4; c++) topk_one(&t, wisp_loss_at(c % 2 ? 1 : 0), ks[c]);
            topk_one(&t, wisp_loss_at(0), sizes[i] < 1000 ? sizes[i] + 1 : 100);
            wisp_pool_free(t.ctx.pool);
            free(t.w), free(t.bias), free(t.h);
            wisp_params_clear(&list);
        }
}

/* ---- dropout by itself ---- */

static void drop(float *out, struct wisp_layer *l, struct wisp_step *s, uint64_t number,
                 bool training)
{
    size_t n = s->batch->n * l->n_out;
    float *ones = malloc(n * sizeof *ones);
    for (size_t i = 0; i < n; i++) ones[i] = 1;
    const struct wisp_act in = { .floats = l->n_in, .x = ones }, *from = &in;
    struct wisp_act to = { .floats = l->n_out, .x = out };
    s->number = number;
    s->training = training;
    l->kind->forward(l, s, &from, &to, NULL);
    free(ones);
}

static void test_dropout(void)
{
    enum { ROWS = 70, WIDTH = 333, N = ROWS * WIDTH };
    static const double rates[] = { 0, 0.1, 0.5, 0.9 };
    struct wisp_batch b = { .n = ROWS };
    struct wisp_context ctx = { 0 };
    struct wisp_step s = { .ctx = &ctx, .batch = &b, .seed = 5 };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    TEST("layers: dropout's share, scale and independence");
    for (size_t i = 0; i < 4; i++) {
        double rate = rates[i], deviation = sqrt(rate * (1 - rate) * N);
        struct wisp_layer l = {
            .kind = &wisp_layer_dropout, .number = 2, .n_in = WIDTH, .n_out = WIDTH, .arg = { rate }
        };
        size_t zeros = 0, both = 0, again = 0;
        drop(x, &l, &s, 7, true);
        for (size_t e = 0; e < N; e++) {
            CHECK(x[e] == 0 || fabs(x[e] - 1 / (1 - rate)) < 1e-6, "rate %g: %g", rate, x[e]);
            zeros += x[e] == 0;
            if (e) both += x[e] == 0 && x[e - 1] == 0;
        }
        CHECK(fabs((double)zeros - rate * N) <= 5 * deviation + 1, "rate %g: %zu of %d dropped",
              rate, zeros, N);
        CHECK(fabs((double)both - rate * rate * N) <= 8 * deviation + 1,
              "rate %g: %zu neighbours dropped", rate, both);
        for (int other = 0; other < 2; other++) { /* another step, another layer */
            if (other) l.number = 3;
            drop(y, &l, &s, other ? 7 : 8, true);
            again = 0;
            for (size_t e = 0; e < N; e++) again += x[e] == 0 && y[e] == 0;
            CHECK(fabs((double)again - rate * rate * N) <= 5 * deviation + 1,
                  "rate %g: %zu dropped in both", rate, again);
        }
        drop(y, &l, &s, 7, false);
        for (size_t e = 0; e < N; e++) CHECK(y[e] == 1, "not training: %g", y[e]);
    }
    free(x), free(y);
}

/* ---- net lines ---- */

static void test_specs(void)
{
    static const struct {
        const char *spec, *text;
    } bad[] = {
        { "", "without a layer" },
        { "sampled 4", "first layer" },
        { "relu", "first layer" },
        { "dropout 0.5", "first layer" },
        { "sampled 9", "first layer" },
        { "input 4, sampled", "width" },
        { "input 4, input 4", "come first" },
        { "input", "width" },
        { "input 0", "width" },
        { "input 2.5", "width" },
        { "input -3", "width" },
        { "input 99999999", "width" },
        { "input 4 relu", "expected" },
        { "input 4, dropout 1", "needs share: a number from 0 to below 1; found '1'" },
        { "input 4, dropout -0.1", "to below 1" },
        { "input 4, dropout nan", "to below 1" },
        { "input 4, output 3", "takes no more arguments" },
        { "input 4, , relu", "expected a layer, found ','" },
        { "input 4, convo 3", "no layer" },
        { "input 4, dropout", "share" },
        { "input 4, relu 3", "'relu' takes no arguments" },
        { "input 4, sparse", "radix or random" },
        { "input 4, sparse 8", "radix or random" },
        { "input 4, sparse radix", "width" },
        { "input 4, sparse radixes 8",
          "--net:1:17: 'sparse' needs form: radix or random or kept; found 'radixes'" },
        { "input 4, sparse radix 8 4", "32 inputs of each output" },
        { "input 4, sparse random 8 0", "inputs: a whole number from 1 to 1024" },
        { "input 4, sparse random 8 2.5", "from 1 to 1024" },
        { "input 4, sparse random 8 1025", "from 1 to 1024" },
        { "input 4, sparse random 8 nan", "from 1 to 1024" },
        { "input 4, sparse random 8 4 3", "expected" },
        { "input 4, dense 8 4", "expected" },
    };
    TEST("nets: lines that are refused");
    struct wisp_layer_sizes sizes = { .batch = 4, .active = 4, .training = true };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct wisp_net net;
        err.text[0] = 0;
        wisp_status st = wisp_net_plan(&net, bad[i].spec, 5, 4, &sizes, &err);
        CHECK(st == WISP_EINVAL && strstr(err.text, bad[i].text), "'%s': %d '%s'", bad[i].spec, st,
              err.text);
        CHECK(!net.layers && !net.acts, "'%s' left something behind", bad[i].spec);
        if (st == WISP_OK) wisp_net_clear(&net);
    }
    struct wisp_net net;
    CHECK(wisp_net_plan(&net, "input 4", 0, 4, &sizes, &err) == WISP_EINVAL, "no features");
    CHECK(wisp_net_plan(&net, "input 4", 4, 0, &sizes, &err) == WISP_EINVAL, "no labels");
    CHECK(wisp_net_plan(&net, "sparse radix 64", 65537, 4, &sizes, &err) == WISP_EINVAL &&
              strstr(err.text, "up to 65536 features from the data, which has 65537"),
          "too many features: %s", err.text);
    CHECK(wisp_net_plan(&net, "sparse radix 64", 65536, 4, &sizes, &err) == WISP_OK, "%s",
          err.text);
    wisp_net_clear(&net);
}

int main(void)
{
    enum { NETS = 9, OF_PLANES = 24 };
    for (size_t i = 0; wisp_kernels_isa(i, NULL); i++) {
        struct wisp_kernels k = { 0 };
        char name[80];
        const char *isa = wisp_kernels_isa(i, NULL);
        bool there = wisp_kernels_select(&k, isa, &err) == WISP_OK;
        snprintf(name, sizeof name, "layers: %s gradients, finite differences", isa);
        TEST(name);
        if (!there) SKIP("not on this machine");
        for (uint64_t n = 0; there && n < NETS; n++) {
            int was = test_bad;
            uint64_t start = 1000003 * (n + 1) + 77 * i;
            check_net(&k, start, 1 + (int)(n % 3));
            if (test_bad > was) printf("  the seed was %llu\n", (unsigned long long)start);
        }
        for (uint64_t n = 0; there && n < NETS; n++) check_smoothed(&k, 1000211 * (n + 1) + 77 * i);
        if (there) check_radix(&k, i);
        if (there) check_large(&k, i);
        if (there) check_dags(&k, i);
        rig_planes = true;
        for (uint64_t n = 0; there && n < OF_PLANES; n++) {
            int was = test_bad;
            uint64_t start = 1000133 * (n + 1) + 77 * i;
            check_net(&k, start, 1);
            if (test_bad > was) printf("  the seed was %llu\n", (unsigned long long)start);
        }
        int more = 0;
        for (uint64_t n = 0; there && n < OF_PLANES; n++)
            more += check_more_zeros(&k, 1000133 * (n + 1) + 77 * i);
        CHECK(!there || more > OF_PLANES, "%d ReLUs that count in the loss", more);
        rig_planes = false;
        CHECK(n_kinks * 50 <= n_checks, "%d kinks in %d places", n_kinks, n_checks);
        test_close();
        snprintf(name, sizeof name, "layers: %s products in bf16 are near, also far from 0", isa);
        TEST(name);
        if (!there) SKIP("not on this machine");
        for (uint64_t n = 0; there && n < NETS; n++) check_bf16(&k, 1000033 * (n + 1) + 7 * i);
        test_close();
        snprintf(name, sizeof name, "layers: %s best labels, ties and all", isa);
        TEST(name);
        if (there) test_topk(&k);
        else SKIP("not on this machine");
        test_close(); /* before 'name' goes */
    }
    TEST("layers: every kind of the table was in a net");
    for (size_t i = 0; wisp_layer_kind_at(i); i++) {
        if (wisp_layer_kind_at(i) == &wisp_layer_image) continue; /* unit/test_image.c */
        CHECK(times_tested[i] > 0, "no test case for layer kind %s", wisp_layer_kind_at(i)->name);
    }
    test_dropout();
    test_specs();
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);
    return test_end();
}

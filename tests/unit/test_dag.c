/* Graphs of any shape: what is read, values and gradients against a plain walk, functions, training
 * runs, and models and checkpoints that need the file no more. */
#include "dag_rig.h"
#include "model_rig.h"
#include "kernels/kernels.h"

enum { FEATURES = 40, N = 50, K = 4 };

/* ---- what is read ---- */

static const char small[] = "# late and early\n"
                            "a h 0.5\n"
                            "output h b\n"
                            "  h\tlate -2e-1\r\n"
                            "\n"
                            "input b a\n"
                            "b late 1\n"
                            "node late tanh 0.25\n"
                            "b h 3\n"
                            "node h sin\n"
                            "output late\n"
                            "node always gauss -1\n"
                            "always late 2";

static void test_lines(void)
{
    TEST("dag: nodes and edges in any order of lines");
    struct wisp_dag_file f;
    char name[WISP_NODE_NAME];
    size_t bad;
    put_file("any", small);
    CHECK(wisp_dag_read(&f, "any", -1, &err) == WISP_OK, "%s", err.text);
    if (!f.from) return;
    const struct wisp_dag *d = &f.dag;
    CHECK(d->n_nodes == 3 && d->n_in == 2 && d->n_out == 3 && d->n_edges == 5,
          "%zu nodes, %zu inputs, %zu outputs, %zu edges", d->n_nodes, d->n_in, d->n_out,
          d->n_edges);
    static const char *const names[] = { "h", "always", "late", "b", "a" };
    for (size_t i = 0; i < 5; i++)
        CHECK(strcmp(wisp_dag_name(name, &f, i), names[i]) == 0, "node %zu is '%s'", i, name);
    static const int64_t start[] = { 0, 2, 2, 5 };
    static const int32_t from[] = { 3, 4, 0, 1, 3 }, out[] = { 0, 3, 2 }, function[] = { 5, 4, 2 };
    static const float w[] = { 3, 0.5f, -0.2f, 2, 1 }, bias[] = { 0, -1, 0.25f };
    CHECK(memcmp(d->start, start, sizeof start) == 0 && memcmp(d->from, from, sizeof from) == 0 &&
              memcmp(d->out, out, sizeof out) == 0 && memcmp(d->w, w, sizeof w) == 0 &&
              memcmp(d->bias, bias, sizeof bias) == 0 &&
              memcmp(d->function, function, sizeof function) == 0,
          "other numbers than the lines have");
    uint32_t level[4];
    const struct wisp_dag_sizes s = wisp_dag_measure(d, level);
    CHECK(s.n_levels == 2 && s.widest == 2 && s.thinnest == 1 && level[1] == 2 && level[2] == 3,
          "%zu levels", s.n_levels);
    CHECK(wisp_dag_ordered(d, &bad), "node %zu", bad);
    wisp_dag_file_clear(&f);

    TEST("dag: MatrixMarket, whose rows are where edges end");
    put_file("any",
             "%%MatrixMarket matrix coordinate pattern general\n5 5 4\n3 5\n1 3\n1 5\n2 1\n");
    CHECK(wisp_dag_read(&f, "any", 2, &err) == WISP_OK, "%s", err.text);
    if (!f.from) return;
    CHECK(f.dag.n_nodes == 3 && f.dag.n_in == 2 && f.dag.n_out == 2 && f.said[0] == 2 &&
              f.said[1] == 0 && f.said[2] == 1 && f.said[3] == 3 && f.said[4] == 4 &&
              f.dag.out[0] == 2 && f.dag.out[1] == 3 && f.dag.function[0] == 2 &&
              f.dag.function[2] == 0 && f.dag.w[3] == 1 &&
              strcmp(wisp_dag_name(name, &f, 0), "3") == 0,
          "other nodes: node 4 is input and output");
    wisp_dag_file_clear(&f);
    unlink("any");
}

static void test_refused(void)
{
    static const struct {
        const char *text, *words;
    } bad[] = {
        { "input a\nnode b relu\nnode c relu\na b 1\nb c 1\nc b 2\noutput c\n",
          "any: a cycle of 2 nodes: c -> b -> c; expected none" },
        { "input a\nnode b relu\na b 1\nb b 1\noutput b\n", "any: a cycle of 1 node: b -> b;" },
        { "input a\nnode b relu\nnode c relu\nnode d relu\nnode e relu\nnode f relu\nnode g relu\n"
          "node h relu\nb c 1\nc d 1\nd e 1\ne f 1\nf g 1\ng h 1\nh b 1\na b 1\noutput g",
          "any: a cycle of 7 nodes: ... -> " },
        { "input a\nnode b relu\na c 1\noutput b\n",
          "any:3: 'c': an unknown node; expected one of a line 'node" },
        { "input a\nnode b relu\na b 1\noutput b x\n", "any:4: 'x': an unknown node" },
        { "input a\nnode b relu\na b 1\na b 2\noutput b\n", "any:4: an edge again" },
        { "input a\nnode b relu\nb a 1\noutput b\n", "any:3: 'a': an edge to an input" },
        { "input a\nnode b relu\na b nan\noutput b\n", "any:3: 'nan': no finite number" },
        { "input a\nnode b relu\na b 1e39\noutput b\n", "any:3: '1e39': no finite number" },
        { "input a\nnode b relu inf\na b 1\noutput b\n", "any:2: 'inf': no finite number" },
        { "input a\nnode b relux\na b 1\noutput b\n",
          "any:2: 'relux': no function of a node; expected one of identity, relu, tanh, " },
        { "input a a\n", "any:1: 'a': a node again" },
        { "input a\nnode a relu\n", "any:2: 'a': a node again" },
        { "input a\nnode b relu\na b 1\noutput b b\n", "any:4: 'b': an output again" },
        { "input a\nnode b relu\na b\noutput b\n", "any:3: 'a': expected a line 'input NAME" },
        { "input a\nnode b relu\na b 1 2\noutput b\n", "any:3: '2': expected a line" },
        { "input a\nnode b\n", "any:2: 'b': expected 'node NAME FUNCTION [BIAS]'" },
        { "input a\nnode b relu 1 2\n", "any:2: '2': expected 'node" },
        { "input a output\n", "any:1: 'output': a name that begins lines of its own" },
        { "input a\x01\n", "control characters" },
        { "input \xff\n", "no UTF-8" },
        { "input a\nnode b relu\na b 1\n", "any: 2 nodes, of which 1 are inputs and 0 outputs" },
        { "input a\noutput a\n",
          "expected some inputs, some outputs and nodes that are no inputs" },
        { "", "any: 0 nodes" },
        { "node b relu\noutput b\n", "of which 0 are inputs" },
        { "\x1f\x8b zip", "packed by gzip or zstd" },
        { "%%MatrixMarket matrix coordinate real general\n3 4 1\n1 2 1\n",
          "any: 3 rows and 4 columns; a graph has as many of both" },
        { "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 2 1\n2 1 1\n",
          "any: 2 nodes, of which 0 are inputs" },
        { "%%MatrixMarket matrix coordinate real general\n3 3 3\n1 2 1\n2 1 1\n1 3 1\n",
          "any: 3 nodes, of which 1 are inputs and 0 outputs" },
        { "%%MatrixMarket matrix coordinate real general\n4 4 4\n1 2 1\n2 1 1\n1 3 1\n4 1 1\n",
          "any: a cycle of 2 nodes: 1 -> 2 -> 1" },
        { "%%MatrixMarket matrix coordinate real general\n2147483648 2147483648 1\n1 2 1\n",
          "ids from 1 to 2147483647" },
        { "%%MatrixMarket matrix coordinate real general\n2147483647 2147483647 1\n1 2 1\n",
          "2147483647 rows for 1 entries" },
        { "%%MatrixMarket matrix coordinate real general\n3 3 2\n1 2 1\n1 2 1\n", "an edge again" },
        { "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 inf\n", "no finite number" },
    };
    TEST("dag: files that are refused, in one line");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct wisp_dag_file f;
        const long live = wisp_mem_live;
        put_file("any", bad[i].text);
        err.text[0] = 0;
        const wisp_status st = wisp_dag_read(&f, "any", -1, &err);
        CHECK(st == WISP_EFORMAT && strstr(err.text, bad[i].words) && !strchr(err.text, '\n'),
              "%zu: %d '%s', expected '%s'", i, st, err.text, bad[i].words);
        CHECK(wisp_mem_live == live && !f.from, "%zu left something behind", i);
    }
    char long_name[200] = "input ";
    memset(long_name + 6, 'x', 80);
    struct wisp_dag_file f;
    put_file("any", long_name);
    CHECK(wisp_dag_read(&f, "any", -1, &err) == WISP_EFORMAT &&
              strstr(err.text, "a name of 80 bytes, expected at most 79"),
          "%s", err.text);
    put_file("any", small);
    CHECK(wisp_dag_read(&f, "any", 1, &err) == WISP_EINVAL &&
              strstr(err.text, "leave out 'function'"),
          "%s", err.text);
    CHECK(wisp_dag_read(&f, "none", -1, &err) == WISP_EIO, "%s", err.text);

    TEST("dag: layers that are refused");
    static const struct {
        const char *file, *spec, *words;
    } layers[] = {
        { small, "dag", "'dag' needs a file of its nodes and edges: file=FILE, or mask=FILE" },
        { small, "dag file=any mask=any", "takes one file, found 'any' behind 'any'" },
        { small, "dag file=any",
          "any: 2 input nodes, but 5 features in the data; expected as many" },
        { small, "input 4, dag file=any", "any: 2 input nodes, but 4 units before it" },
        { "input a\nnode b step\na b 1\noutput b\n", "input 1, dag file=any",
          "any: node 'b' has the function 'step', whose derivative is 0" },
        { small, "input 2, dag file=any function=cos", "needs function: " },
        { "input a\nnode b relu\noutput b\n", "input 1, dag mask=any",
          "any: 1 nodes, 0 edges and 1 outputs" },
    };
    struct wisp_layer_sizes sizes = { .batch = 1, .active = 1, .training = true };
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        struct wisp_net net;
        put_file("any", layers[i].file);
        const wisp_status st = wisp_net_plan(&net, layers[i].spec, 5, 3, &sizes, &err);
        CHECK(st == WISP_EINVAL && strstr(err.text, layers[i].words), "'%s': %d '%s'",
              layers[i].spec, st, err.text);
        if (st == WISP_OK) wisp_net_clear(&net);
    }
    unlink("any");
}

/* Memory that runs out at any moment. */
static void test_memory(void)
{
    TEST("dag: reading without memory");
    const long live = wisp_mem_live;
    for (int market = 0; market < 2; market++) {
        put_file("any", market ? "%%MatrixMarket matrix coordinate real general\n4 4 3\n2 1 "
                                 "1\n4 2 1\n3 1 5\n"
                               : small);
        wisp_status st = WISP_ENOMEM;
        for (long n = 0; n < 200 && st != WISP_OK; n++) {
            struct wisp_dag_file f;
            wisp_mem_budget = n;
            st = wisp_dag_read(&f, "any", -1, &err);
            wisp_mem_budget = -1;
            CHECK(st == WISP_OK || st == WISP_ENOMEM, "%ld: %d %s", n, st, err.text);
            wisp_dag_file_clear(&f);
        }
        CHECK(st == WISP_OK && wisp_mem_live == live, "%ld blocks lost", wisp_mem_live - live);
    }
    unlink("any");
}

/* ---- functions ---- */

static void test_functions(const struct wisp_kernels *k)
{
    static const float odd[] = {
        0, -0.0f, 1e-30f, -1e-5f, 90, -90, 1e4f, -1e4f, INFINITY, -INFINITY
    };
    enum { ODD = sizeof odd / sizeof *odd, MOST = 150 };
    for (size_t f = 0; wisp_node_function_at(f); f++)
        for (size_t n = 1; n <= MOST; n += 1 + n / 7) {
            float x[MOST], y[MOST], d[MOST], alone[MOST];
            for (size_t i = 0; i < n; i++)
                x[i] = i < ODD ? odd[i] : (float)(4 * test_randf(&seed)) * (i % 2 ? 1 : 0.1f);
            memcpy(y, x, sizeof x), memcpy(alone, x, sizeof x);
            const struct wisp_node_function *fn = wisp_node_function_at(f);
            const bool sine = strcmp(fn->name, "sin") == 0;
            fn->run(k, y, d, n);
            fn->run(k, alone, NULL, n);
            CHECK(memcmp(y, alone, n * sizeof *y) == 0, "%s: other values with derivatives",
                  fn->name);
            for (size_t i = 0; i < n; i++) {
                const double want = dag_function((int32_t)f, x[i]), h = 1e-6,
                             slope = (dag_function((int32_t)f, x[i] + h) -
                                      dag_function((int32_t)f, x[i] - h)) /
                                     (2 * h);
                if (isinf(x[i]) && sine) continue;
                CHECK((double)y[i] == want || fabs(y[i] - want) <= 3e-6 * fabs(want) + 1e-37,
                      "%s %s(%g): %.9g, expected %.9g", k->name, fn->name, (double)x[i],
                      (double)y[i], want);
                if (fabsf(x[i]) > 100 || fabsf(x[i]) < 1e-4f) continue;
                CHECK(fabs(d[i] - slope) <= 2e-5 * fabs(slope) + 3e-7,
                      "%s %s'(%g): %.9g, expected %.9g", k->name, fn->name, (double)x[i],
                      (double)d[i], slope);
            }
            float none[1] = { NAN };
            fn->run(k, none, NULL, 1);
            CHECK(isnan(none[0]) || strcmp(fn->name, "relu") == 0, "%s of no number is %g",
                  fn->name, (double)none[0]);
        }
}

/* ---- values and gradients ---- */

/* The number of a row and a sample in one of a run's arrays of n_rows. */
static float *number(const struct wisp_dag_run *r, float *of, size_t n_rows, size_t row, size_t s)
{
    const size_t in = s % WISP_DAG_TILE;
    return of + wisp_dag_at(r->lanes, n_rows, row, s - in) + in;
}

/* All that a run of n samples needs, for 'threads'; the same numbers each time. */
struct way {
    struct wisp_context ctx;
    struct wisp_dag_plan plan;
    struct wisp_dag_run run;
    uint32_t made[16];
    float *gy;
    float *y; /* values, as run.x had them before the way back */
};

static void way_init(struct way *y, const struct wisp_dag *d, const struct wisp_kernels *k,
                     int threads, size_t n)
{
    const size_t all = d->n_nodes + d->n_in, lanes = (n + 15) / 16 * 16;
    uint64_t own = 5;
    *y = (struct way){ .ctx = { .k = k } };
    CHECK(wisp_pool_create(&y->ctx.pool, threads, &err) == WISP_OK, "%s", err.text);
    y->plan = (struct wisp_dag_plan){ .made = y->made,
                                      .part = calloc(d->n_nodes + 1, 4),
                                      .begin = calloc(all + 1, 4),
                                      .at = calloc(d->n_edges, 4),
                                      .target = calloc(d->n_edges, 4),
                                      .place = calloc(all, 4) };
    y->gy = calloc(n * d->n_out, 4);
    y->run = (struct wisp_dag_run){ .dag = d,
                                    .plan = &y->plan,
                                    .ctx = &y->ctx,
                                    .n = n,
                                    .lanes = lanes,
                                    .x = calloc(all * lanes, 4),
                                    .d = calloc(d->n_nodes * lanes, 4),
                                    .gy = y->gy,
                                    .weight = calloc(d->n_edges, 4),
                                    .gw = calloc(d->n_edges, 4),
                                    .gb = calloc(d->n_nodes, 4),
                                    .gx = calloc(d->n_in * lanes, 4) };
    for (size_t i = 0; i < d->n_in; i++)
        for (size_t s = 0; s < n; s++)
            *number(&y->run, y->run.x, all, d->n_nodes + i, s) = test_randf(&own);
    for (size_t i = 0; i < n * d->n_out; i++) y->gy[i] = test_randf(&own);
    wisp_dag_plan(&y->plan, d);
    wisp_dag_forward(&y->run);
    y->y = malloc(all * lanes * sizeof *y->y);
    memcpy(y->y, y->run.x, all * lanes * sizeof *y->y);
    wisp_dag_backward(&y->run);
}

static void way_clear(struct way *y)
{
    wisp_pool_free(y->ctx.pool);
    free(y->plan.part), free(y->plan.begin), free(y->plan.at), free(y->plan.target);
    free(y->plan.place), free(y->gy), free(y->run.x), free(y->run.d), free(y->run.weight);
    free(y->run.gx), free(y->run.gw), free(y->run.gb), free(y->y);
}

/* A sample by a plain walk, forward and back, node by node. */
static void check_sample(const struct way *y, size_t s, const double *w, const double *bias,
                         double *gw, double *gb)
{
    const struct wisp_dag *d = y->run.dag;
    const size_t all = d->n_nodes + d->n_in;
    double *v = calloc(all, sizeof *v), *g = calloc(all, sizeof *g), off = 0, back = 0;
    for (size_t i = d->n_nodes; i < all; i++) v[i] = *number(&y->run, y->run.x, all, i, s);
    dag_walk(v, d, w, bias);
    for (size_t o = 0; o < d->n_out; o++) g[d->out[o]] = y->gy[s * d->n_out + o];
    for (size_t i = d->n_nodes; i-- > 0;) {
        double sum = bias[i];
        for (int64_t e = d->start[i]; e < d->start[i + 1]; e++) sum += w[e] * v[d->from[e]];
        const double h = 1e-6, up = dag_function(d->function[i], sum + h),
                     down = dag_function(d->function[i], sum - h);
        g[i] *= (up - down) / (2 * h);
        for (int64_t e = d->start[i]; e < d->start[i + 1]; e++) {
            g[d->from[e]] += w[e] * g[i];
            gw[e] += v[d->from[e]] * g[i];
        }
        gb[i] += g[i];
        back = fmax(back, fabs(g[i] - *number(&y->run, y->run.x, all, i, s)) / (1 + fabs(g[i])));
    }
    for (size_t i = 0; i < all; i++)
        off = fmax(off, fabs(v[i] - *number(&y->run, y->y, all, i, s)) / (1 + fabs(v[i])));
    for (size_t i = 0; i < d->n_in; i++)
        back = fmax(back, fabs(g[d->n_nodes + i] - *number(&y->run, y->run.gx, d->n_in, i, s)) /
                              (1 + fabs(g[d->n_nodes + i])));
    CHECK(off <= 1e-4, "%s: values off by %g", y->ctx.k->name, off);
    CHECK(back <= 2e-3, "%s: gradients off by %g", y->ctx.k->name, back);
    free(v), free(g);
}

static void test_walk(const struct wisp_kernels *k)
{
    static const size_t thin[] = { 0, 40, 512 }, samples[] = { 1, 40, 150, 70 };
    for (size_t i = 0; i < 8; i++) {
        char path[] = "any_XXXXXX";
        struct wisp_dag_file f;
        dag_make(path, 100 + i,
                 &(struct dag_text){ 5 + i, 30 + 20 * i, 1 + 3 * i, i % 4 == 3, false });
        CHECK(wisp_dag_read(&f, path, i % 4 == 3 ? 2 : -1, &err) == WISP_OK, "%s", err.text);
        unlink(path);
        if (!f.from) continue;
        double *w = calloc(f.dag.n_edges, sizeof *w), *bias = calloc(f.dag.n_nodes, sizeof *bias);
        for (size_t e = 0; e < f.dag.n_edges; e++) f.w[e] *= 0.4f, w[e] = f.w[e];
        for (size_t e = 0; e < f.dag.n_nodes; e++) bias[e] = f.bias[e];
        struct way one, three;
        wisp_dag_thin = thin[i % 3];
        way_init(&one, &f.dag, k, 1, samples[i % 4]);
        way_init(&three, &f.dag, k, 3, samples[i % 4]);
        wisp_dag_thin = 512;
        double *gw = calloc(f.dag.n_edges, sizeof *gw), *gb = calloc(f.dag.n_nodes, sizeof *gb);
        double off = 0;
        for (size_t s = 0; s < one.run.n; s++) check_sample(&one, s, w, bias, gw, gb);
        for (size_t e = 0; e < f.dag.n_edges; e++)
            off = fmax(off, fabs(gw[e] - one.run.gw[one.plan.at[e]]) / (1 + fabs(gw[e])));
        for (size_t e = 0; e < f.dag.n_nodes; e++)
            off = fmax(off, fabs(gb[e] - one.run.gb[e]) / (1 + fabs(gb[e])));
        CHECK(off <= 2e-3, "%s: gradients of weights and biases off by %g", k->name, off);
        free(gw), free(gb);
        const size_t lanes = one.run.lanes;
        CHECK(memcmp(one.y, three.y, (f.dag.n_nodes + f.dag.n_in) * lanes * 4) == 0 &&
                  memcmp(one.run.x, three.run.x, (f.dag.n_nodes + f.dag.n_in) * lanes * 4) == 0 &&
                  memcmp(one.run.gx, three.run.gx, f.dag.n_in * lanes * 4) == 0 &&
                  memcmp(one.run.gw, three.run.gw, f.dag.n_edges * 4) == 0 &&
                  memcmp(one.run.gb, three.run.gb, f.dag.n_nodes * 4) == 0,
              "%s: 3 threads differ from 1", k->name);
        way_clear(&one), way_clear(&three);
        free(w), free(bias);
        wisp_dag_file_clear(&f);
    }
}

/* ---- runs ---- */

static const char net[] = "dag file=first, dense 12, relu, dag mask=second, relu";

static void write_files(void)
{
    struct dag_text first = { FEATURES, 60, 4, false, false }, second = { 12, 30, 3, true, false };
    for (int i = 0; i < 2; i++) {
        FILE *f = fopen(i ? "second" : "first", "w");
        CHECK(f, "no file");
        if (!f) return;
        dag_write(f, 7 + (uint64_t)i, i ? &second : &first);
        fclose(f);
    }
}

static void remove_files(void)
{
    unlink("first"), unlink("second");
}

static void test_runs(const wisp_data *d)
{
    static const char *const how[] = { "epochs 3 holdout 0",
                                       "epochs 3 holdout 0 optimizer sgd average 0.9" };
    TEST("dag: 1, 2 and 4 threads write the same bytes, and so does a run resumed without its "
         "files");
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        char resume[200];
        struct bytes one = { 0 };
        snprintf(resume, sizeof resume, "%s resume yes", how[i]);
        write_files();
        wisp_dag_thin = i ? 0 : 512;
        for (int threads = 1; threads <= 4; threads *= 2) {
            wisp_context *c;
            CHECK(wisp_context_create(&c, threads, &err) == WISP_OK, "%s", err.text);
            unlink(model);
            CHECK(rig_train(c, d, net, how[i], 0, model, NULL) == WISP_OK, "%s", err.text);
            if (threads == 1) one = slurp(model);
            CHECK(one.n > 1000 && file_is(model, one), "%d threads differ from 1", threads);
            wisp_context_free(c);
        }
        unlink(model);
        CHECK(rig_train(ctx, d, net, how[i], 2, model, NULL) == WISP_ESTOPPED, "%s", err.text);
        put_file("first", small); /* another graph by now */
        unlink("second");
        CHECK(rig_train(ctx, d, net, resume, 0, model, NULL) == WISP_OK, "%s", err.text);
        CHECK(file_is(model, one), "'%s': resumed it differs", how[i]);
        wisp_dag_thin = 512;
        free(one.p);
    }
    write_files();
    double first, last;
    CHECK(rig_train(ctx, d, "dag mask=first", "epochs 1 lr 1e-9", 0, model, &first) == WISP_OK &&
              rig_train(ctx, d, "dag mask=first", "epochs 12 lr 0.01", 0, model, &last) == WISP_OK,
          "%s", err.text);
    CHECK(last > first + 10, "P@1 %g, before training %g", last, first);
}

/* Saves the model as it is and expects the copy to be refused. */
static void refused(struct wisp_model *m, const char *text)
{
    struct wisp_model *again = NULL;
    CHECK(wisp_model_save(m, other, 1, 1, NULL, &err) == WISP_OK, "%s", err.text);
    const wisp_status st = wisp_model_load(&again, other, &err);
    CHECK(st == WISP_EMODEL && strstr(err.text, text), "expected '%s': %d '%s'", text, st,
          err.text);
    wisp_model_free(again);
}

static void test_hostile(struct wisp_model *m)
{
    static const char *const words[] = {
        "does not read nodes before it and inputs alone", /* inputs */
        "'0.dag.functions' has input 99",
        "'0.dag.outputs' has input 2147483647",
    };
    TEST("dag: a model with a cycle, or with numbers that nothing has, is refused");
    for (int i = 0; i < 3; i++) {
        struct wisp_param *p = &m->net.layers[0].params[3 + i];
        int32_t *was = p->ids, *ids = malloc(p->n * sizeof *ids);
        memcpy(ids, was, p->n * sizeof *ids);
        if (i == 0) ids[0] = 1;
        if (i == 1) ids[3] = 99;
        if (i == 2) ids[0] = INT32_MAX;
        p->ids = ids;
        refused(m, words[i]);
        p->ids = was;
        free(ids);
    }
}

static void test_file(const wisp_data *d)
{
    static float was[N * K], is[N * K];
    struct wisp_model *m = NULL, *again = NULL;
    TEST("dag: a model needs its files no more, nor does a run that goes on from it");
    write_files();
    CHECK(rig_train(ctx, d, net, "epochs 4", 0, model, NULL) == WISP_OK &&
              wisp_model_load(&m, model, &err) == WISP_OK,
          "%s", err.text);
    if (!m || !rig_score(was, m, d, N, K)) return;
    remove_files();
    CHECK(wisp_model_load(&again, model, &err) == WISP_OK, "%s", err.text);
    if (again && rig_score(is, again, d, N, K))
        CHECK(memcmp(was, is, sizeof was) == 0, "other scores");
    wisp_model_free(again);
    again = NULL;
    char more[200];
    snprintf(more, sizeof more, "epochs 1 lr 1e-9 seed 77 init %s", model);
    CHECK(rig_train(ctx, d, net, more, 0, other, NULL) == WISP_OK &&
              wisp_model_load(&again, other, &err) == WISP_OK,
          "%s", err.text);
    if (again && rig_score(is, again, d, N, K))
        for (int i = 0; i < N * K; i++) CHECK(fabsf(was[i] - is[i]) < 1e-3f, "score %d", i);
    wisp_model_free(again);
    wisp_data *wider = rig_synth(500, FEATURES + 9, 20, 1);
    again = NULL;
    CHECK(rig_train(ctx, wider, net, more, 0, other, NULL) == WISP_OK &&
              wisp_model_load(&again, other, &err) == WISP_OK,
          "%s", err.text);
    if (again && rig_score(is, again, d, N, K))
        for (int i = 0; i < N * K; i++)
            CHECK(fabsf(was[i] - is[i]) < 1e-3f, "with more features, score %d", i);
    wisp_model_free(again);
    wisp_data_free(wider);
    test_hostile(m);
    wisp_model_free(m);
}

static void test_run_memory(const wisp_data *d)
{
    TEST("dag: memory that runs out in a run");
    write_files();
    unlink(model);
    rig_train_without_memory(d, net, "epochs 1 batch 16", 1);
    remove_files();
}

int main(void)
{
    rig_init();
    test_lines();
    test_refused();
    test_memory();
    for (size_t i = 0; wisp_kernels_isa(i, NULL); i++) {
        struct wisp_kernels k = { 0 };
        char name[80];
        const char *isa = wisp_kernels_isa(i, NULL);
        const bool there = wisp_kernels_select(&k, isa, &err) == WISP_OK;
        snprintf(name, sizeof name, "dag: %s functions and their derivatives", isa);
        TEST(name);
        if (there) test_functions(&k);
        else SKIP("not on this machine");
        test_close();
        snprintf(name, sizeof name, "dag: %s values and gradients are a plain walk's", isa);
        TEST(name);
        if (there) test_walk(&k);
        else SKIP("not on this machine");
        test_close();
    }
    wisp_data *d = rig_synth(500, FEATURES, 20, 1), *few = rig_synth(60, FEATURES, 20, 1);
    test_runs(d);
    test_file(d);
    test_run_memory(few);
    wisp_data_free(d), wisp_data_free(few);
    return rig_end();
}

/* Joint models: the scores of a plain program that asks each member by itself, whatever the batch, the threads and
 * the way of prediction, and no memory taken by a call; weights that rank best; files that are not
 * whole are refused. */
#include "model_rig.h"
#include "model/joint.h"

#include <math.h>

enum { FEATURES = 60, LABELS = 300, N = 400, K = 5, MEMBERS = 3 };
static const float MIX[MEMBERS] = { 0.5f, 0.125f, 0.375f };
static const char *const seeds[MEMBERS] = { "3", "4", "5" };
static char paths[MEMBERS][80];

/* A feature stands for five labels, of which a row has one or two. */
static wisp_data *planted(void)
{
    static int64_t xp[N + 1], yp[N + 1];
    static int32_t xi[N * 3], yi[N * 2];
    static float xv[N * 3];
    wisp_data *d = NULL;
    for (size_t i = 0; i < N; i++) {
        const size_t f = test_rand(&seed) % FEATURES;
        int64_t x = xp[i], y = yp[i];
        for (size_t k = 0; k < 1 + i % 3; k++) {
            xi[x] = (int32_t)((f + 7 * k) % FEATURES);
            xv[x++] = 0.5f + fabsf(test_randf(&seed));
        }
        const size_t first = test_rand(&seed) % 4;
        yi[y++] = (int32_t)(f * 5 + first);
        if (i % 2) yi[y++] = (int32_t)(f * 5 + first + 1);
        xp[i + 1] = x, yp[i + 1] = y;
    }
    CHECK(wisp_data_from_csr(&d, N, FEATURES, LABELS, xp, xi, xv, yp, yi, &err) == WISP_OK, "%s",
          err.text);
    return d;
}

static void train_members(const wisp_data *d, const char *more)
{
    for (int i = 0; i < MEMBERS; i++) {
        char options[200];
        wisp_report *r = NULL;
        snprintf(paths[i], sizeof paths[i], "%s/member%d", folder, i);
        snprintf(options, sizeof options, "seed %s split-seed 3 epochs 3 index yes %s", seeds[i],
                 more);
        wisp_config *c = config(options);
        CHECK(wisp_train(&r, ctx, c, d, NULL, paths[i], NULL, NULL, &err) == WISP_OK, "%s",
              err.text);
        wisp_report_free(r);
        wisp_config_free(c);
    }
}

static struct wisp_model *open_joint(void)
{
    struct wisp_model *members[MEMBERS], *m = NULL;
    for (int i = 0; i < MEMBERS; i++)
        CHECK(wisp_model_open(&members[i], ctx->pool, paths[i], &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_joint_make(&m, members, MEMBERS, &err) == WISP_OK, "%s", err.text);
    memcpy(m->joint->mix, MIX, sizeof MIX);
    return m;
}

/* What members say of the labels of a row, each asked by itself for as many as 'most', and how many of them
 * named a label: (LABELS). */
static void plain(double *sum, int *named, wisp_predictor *const *members, size_t most,
                  const wisp_data *d, size_t row)
{
    static int32_t label[LABELS];
    static float score[LABELS];
    memset(sum, 0, LABELS * sizeof *sum);
    memset(named, 0, LABELS * sizeof *named);
    for (int i = 0; i < MEMBERS; i++) {
        CHECK(wisp_predictor_run(label, score, members[i], d, row, 1, &err) == WISP_OK, "%s",
              err.text);
        for (size_t c = 0; c < most; c++)
            if (label[c] >= 0) {
                sum[label[c]] += (double)MIX[i] * (double)score[c];
                named[label[c]]++;
            }
    }
}

/* Sparse prediction is among rows that votes name, more of them where more answers are asked for: members
 * are asked for as many as the joint model asks them. */
static void check_scores(const struct wisp_model *m, const wisp_data *d, const char *how)
{
    const bool sparse = strstr(how, "sparse") != NULL;
    const size_t most = sparse ? WISP_JOINT_CANDIDATES : LABELS;
    wisp_predictor *members[MEMBERS], *joint;
    struct wisp_model *alone[MEMBERS];
    static int32_t label[N * K], single[K];
    static float score[N * K], single_score[K];
    char raw[80];
    snprintf(raw, sizeof raw, "%s scores raw", how);
    joint = predictor_so(ctx, m, K, raw);
    for (int i = 0; i < MEMBERS; i++) {
        CHECK(wisp_model_open(&alone[i], NULL, paths[i], &err) == WISP_OK, "%s", err.text);
        members[i] = predictor_so(ctx, alone[i], most, how);
    }
    wisp_mem_budget = 0;
    CHECK(wisp_predictor_run(label, score, joint, d, 0, N, &err) == WISP_OK, "%s", err.text);
    for (size_t row = 0; row < N; row += 37) {
        CHECK(wisp_predictor_run(single, single_score, joint, d, row, 1, &err) == WISP_OK, "%s",
              err.text);
        for (size_t c = 0; c < K; c++)
            CHECK(fabsf(single_score[c] - score[row * K + c]) < 1e-5f, "row %zu alone: %g, not %g",
                  row, (double)single_score[c], (double)score[row * K + c]);
    }
    wisp_mem_budget = -1;
    for (size_t row = 0; row < N && !test_bad; row += 11) {
        static double sum[LABELS];
        static int named[LABELS];
        double last = 2;
        size_t above = 0;
        plain(sum, named, members, most, d, row);
        for (size_t c = 0; c < K; c++) {
            const int32_t l = label[row * K + c];
            CHECK(l >= 0 && l < LABELS, "row %zu, place %zu: label %d", row, c, l);
            const double want = sum[l], have = (double)score[row * K + c];
            const bool whole = named[l] == MEMBERS;
            if (sparse && !whole) CHECK(have > want - 1e-6, "label %d: %g < %g", l, have, want);
            if (sparse && !whole) continue;
            CHECK(fabs(have - want) < 1e-4 * want + 1e-7 && want < last + 1e-6,
                  "%s: row %zu, label %d: %g, not %g", how, row, l, have, want);
            last = want;
        }
        for (size_t l = 0; l < LABELS; l++) above += sum[l] > last + 1e-6 && named[l] == MEMBERS;
        CHECK(above < K, "%s: row %zu: %zu labels are better than the last", how, row, above);
    }
    for (int i = 0; i < MEMBERS; i++) wisp_predictor_free(members[i]), wisp_model_free(alone[i]);
    wisp_predictor_free(joint);
}

static void check_threads(const struct wisp_model *m, const wisp_data *d)
{
    static int32_t label[2][N * K];
    static float score[2][N * K];
    for (int t = 0; t < 2; t++) {
        wisp_context *with;
        CHECK(wisp_context_create(&with, t ? 3 : 1, &err) == WISP_OK, "%s", err.text);
        CHECK(wisp_predict(label[t], score[t], with, m, d, 0, N, K, &err) == WISP_OK, "%s",
              err.text);
        wisp_context_free(with);
    }
    CHECK(memcmp(label[0], label[1], sizeof *label) == 0 &&
              memcmp(score[0], score[1], sizeof *score) == 0,
          "one thread and three disagree");
}

/* ---- a linear member that names the labels ---- */

/* Sparse prediction by the best labels of the linear member (number 'linear'): each of them has the score that
 * exact prediction of all members gives it, in falling order, and none is better that was left out.  A net's
 * calibration asks for the row's best score: rows whose best label of a net was not named are left aside. */
static void check_lead(const struct wisp_model *m, const wisp_data *d, int linear)
{
    enum { MOST = WISP_JOINT_CANDIDATES };
    static int32_t label[N * K], named[MOST], its[LABELS];
    static float score[N * K], its_score[LABELS], lead_score[MOST];
    wisp_predictor *joint = predictor_so(ctx, m, K, "inference sparse scores raw"), *of[MEMBERS],
                   *lead = NULL;
    struct wisp_model *alone[MEMBERS];
    size_t judged = 0;
    for (int i = 0; i < MEMBERS; i++) {
        CHECK(wisp_model_open(&alone[i], NULL, paths[i], &err) == WISP_OK, "%s", err.text);
        of[i] = predictor_so(ctx, alone[i], LABELS, "inference exact");
    }
    lead = predictor_so(ctx, alone[linear], MOST, "inference exact");
    wisp_mem_budget = 0;
    CHECK(wisp_predictor_run(label, score, joint, d, 0, N, &err) == WISP_OK, "%s", err.text);
    wisp_mem_budget = -1;
    for (size_t row = 0; row < N && !test_bad; row += 7) {
        double sum[LABELS] = { 0 }, last = 2;
        bool is_named[LABELS] = { false }, whole = true;
        size_t above = 0;
        CHECK(wisp_predictor_run(named, lead_score, lead, d, row, 1, &err) == WISP_OK, "%s",
              err.text);
        for (size_t c = 0; c < MOST; c++) is_named[named[c]] = true;
        for (int i = 0; i < MEMBERS; i++) {
            CHECK(wisp_predictor_run(its, its_score, of[i], d, row, 1, &err) == WISP_OK, "%s",
                  err.text);
            whole &= is_named[its[0]];
            for (size_t c = 0; c < LABELS; c++)
                sum[its[c]] += (double)MIX[i] * (double)its_score[c];
        }
        for (size_t c = 0; c < K && whole; c++) {
            const int32_t l = label[row * K + c];
            CHECK(l >= 0 && l < LABELS && is_named[l], "row %zu: label %d was not named", row, l);
            CHECK(fabs((double)score[row * K + c] - sum[l]) < 1e-4 * sum[l] + 1e-7,
                  "row %zu, label %d: %g, not %g", row, l, (double)score[row * K + c], sum[l]);
            CHECK(sum[l] < last + 1e-6, "row %zu: label %d is better than the one before", row, l);
            last = sum[l];
        }
        for (size_t l = 0; l < LABELS; l++) above += is_named[l] && sum[l] > last + 1e-6;
        CHECK(!whole || above < K, "row %zu: %zu labels are better than the last", row, above);
        judged += whole;
    }
    CHECK(judged > 10, "%zu rows were judged", judged);
    for (int i = 0; i < MEMBERS; i++) wisp_predictor_free(of[i]), wisp_model_free(alone[i]);
    wisp_predictor_free(lead), wisp_predictor_free(joint);
}

static void train_member(int i, const wisp_data *d, const char *options)
{
    wisp_report *r = NULL;
    wisp_config *c = config(options);
    snprintf(paths[i], sizeof paths[i], "%s/member%d", folder, i);
    CHECK(wisp_train(&r, ctx, c, d, NULL, paths[i], NULL, NULL, &err) == WISP_OK, "%s", err.text);
    wisp_report_free(r);
    wisp_config_free(c);
}

static void test_lead(const wisp_data *d)
{
    for (int linear = 0; linear < MEMBERS && !test_bad; linear += 2) { /* first, and last */
        TEST(linear ? "the last member, linear, names labels" : "the first member does");
        for (int i = 0; i < MEMBERS; i++)
            train_member(i, d,
                         i == linear ? "seed 3 split-seed 3 net linear loss auto"
                                     : "seed 3 split-seed 3 epochs 40 index no loss bce");
        struct wisp_model *m = open_joint();
        CHECK(wisp_model_guide(m) == WISP_GUIDE_LEAD, "guide %d", (int)wisp_model_guide(m));
        check_lead(m, d, linear);
        wisp_model_free(m);
    }
    TEST("scores by a softmax need all labels");
    train_member(1, d, "seed 3 split-seed 3 epochs 3 index no loss softmax");
    struct wisp_model *m = open_joint();
    wisp_config *c = config("inference sparse");
    wisp_predictor *p = NULL;
    CHECK(wisp_predictor_create(&p, ctx, m, c, K, &err) == WISP_ENOTSUP && !p, "%s", err.text);
    wisp_config_free(c);
    wisp_model_free(m);
    for (int i = 0; i < MEMBERS; i++) unlink(paths[i]);
}

/* ---- weights ---- */

/* Two members of rows with ten candidates, of which candidate 0 is true: the first member always knows, the
 * second ranks it last. */
static void test_mix(void)
{
    TEST("weights are those that rank best");
    enum { ROWS = 250, FEW = 50 };
    struct wisp_mix_seen seen;
    CHECK(wisp_mix_init(&seen, 3, 10, ROWS, &err) == WISP_OK, "%s", err.text);
    for (size_t row = 0; row < ROWS; row++) {
        seen.n_candidates[row] = 10;
        for (size_t c = 0; c < 10; c++) {
            seen.hit[row * 10 + c] = c == 0;
            seen.p[(row * 3 + 0) * 10 + c] = c == 0 ? 0.9f : 0.1f;
            seen.p[(row * 3 + 1) * 10 + c] = c == 0 ? 0.0f : 0.5f;
            seen.p[(row * 3 + 2) * 10 + c] = c == 0 ? 0.0f : 0.5f;
        }
    }
    const int group[3] = { 0, 1, 1 };
    float mix[3];
    double p[3];
    seen.n_rows = FEW; /* what is far behind has no weight by so few rows */
    wisp_mix_choose(mix, &seen, group, 2);
    CHECK(mix[0] == 1 && mix[1] == 0 && mix[2] == 0, "%g %g %g", (double)mix[0], (double)mix[1],
          (double)mix[2]);
    seen.n_rows = ROWS;
    wisp_mix_choose(mix, &seen, group, 2);
    CHECK(mix[0] == 1, "of equal shares the one of the better group alone: %g", (double)mix[0]);
    wisp_mix_choose(mix, &seen, (const int[3]){ 0, 0, 1 }, 2); /* half of the first group knows */
    CHECK(mix[0] == mix[1] && mix[2] < 0.5f, "%g %g %g", (double)mix[0], (double)mix[1],
          (double)mix[2]);
    wisp_mix_choose(mix, &seen, group, 2);
    CHECK(mix[0] > 0.4f && mix[1] == mix[2] && fabsf(mix[0] + mix[1] + mix[2] - 1) < 1e-6f,
          "%g %g %g", (double)mix[0], (double)mix[1], (double)mix[2]);
    wisp_mix_judge(p, &seen, mix);
    CHECK(p[0] == 100 && fabs(p[1] - 100.0 / 3) < 1e-9 && fabs(p[2] - 20) < 1e-9, "%g %g %g", p[0],
          p[1], p[2]);
    const float last[3] = { 0, 0.5f, 0.5f };
    wisp_mix_judge(p, &seen, last);
    CHECK(p[0] == 0 && p[2] == 0, "%g %g", p[0], p[2]);
    wisp_mix_clear(&seen);
}

/* Two members of 250 rows, each with one true label of two: together they are right in 200 rows, the first by
 * itself in 'alone'. */
static void test_simplify(void)
{
    TEST("several kinds have to gain what was asked for");
    enum { ROWS = 250, RIGHT = 200 };
    const int group[2] = { 0, 1 };
    for (size_t alone = 180; alone <= RIGHT; alone += 10) {
        struct wisp_mix_seen seen;
        CHECK(wisp_mix_init(&seen, 2, 8, ROWS, &err) == WISP_OK, "%s", err.text);
        for (size_t row = 0; row < ROWS; row++) {
            seen.n_candidates[row] = 8;
            memset(seen.hit + row * 8, 0, 8);
            memset(seen.p + row * 16, 0, 16 * sizeof *seen.p);
            seen.hit[row * 8] = 1;
            for (size_t c = 1; c < 8; c++) { /* the second puts others first, but is not as sure */
                seen.p[row * 16 + c] = row < alone ? 0 : 0.3f;
                seen.p[row * 16 + 8 + c] = row < alone || row >= RIGHT ? 0.4f : 0;
            }
            seen.p[row * 16] = row < alone ? 0.9f : 0;
            seen.p[row * 16 + 8] = row < alone || row >= RIGHT ? 0 : 0.9f;
        }
        seen.n_rows = ROWS;
        float mix[2] = { 0.5f, 0.5f };
        double both[3], first[3];
        wisp_mix_judge(both, &seen, mix);
        wisp_mix_judge(first, &seen, (const float[2]){ 1, 0 });
        CHECK(fabs(both[0] - 100.0 * RIGHT / ROWS) < 1e-9 &&
                  fabs(first[0] - 100.0 * (double)alone / ROWS) < 1e-9,
              "%g, %g", both[0], first[0]);
        const double gain = (both[0] + both[1] + both[2]) / (first[0] + first[1] + first[2]) - 1;
        wisp_mix_simplify(mix, &seen, group, 2, fmax(gain - 1e-6, 0));
        CHECK(alone == RIGHT ? mix[0] == 1 && mix[1] == 0 : mix[0] == 0.5f && mix[1] == 0.5f,
              "%zu: %g %g", alone, (double)mix[0], (double)mix[1]);
        wisp_mix_simplify(mix, &seen, group, 2, gain + 1e-6);
        CHECK(mix[0] == 1 && mix[1] == 0, "%zu: %g %g", alone, (double)mix[0], (double)mix[1]);
        wisp_mix_clear(&seen);
    }
}

/* ---- files ---- */

/* The file again with one number of a tensor, or one entry of the metadata, changed. */
static void refused(const char *tensor, float to, const char *key, const char *value,
                    const char *words)
{
    struct wisp_tensor_file f;
    struct wisp_model *m = NULL;
    struct wisp_tensor t[200];
    struct wisp_pair meta[200];
    float numbers[MEMBERS];
    size_t n = 0;
    CHECK(wisp_tensor_file_open(&f, NULL, model, &err) == WISP_OK, "%s", err.text);
    for (size_t i = 0; i < f.n_tensors; i++) {
        t[n] = f.tensors[i];
        if (tensor && strcmp(t[n].name, tensor) == 0) {
            if (isinf(to)) continue; /* it is missing */
            memcpy(numbers, t[n].data, sizeof numbers);
            numbers[1] = to;
            t[n].data = numbers;
        }
        n++;
    }
    for (size_t i = 0; i < f.n_meta; i++) {
        meta[i] = f.meta[i];
        if (key && strcmp(meta[i].key, key) == 0) meta[i].value = value;
    }
    CHECK(wisp_tensor_file_write(other, t, n, meta, f.n_meta, NULL, &err) == WISP_OK, "%s",
          err.text);
    const wisp_status st = wisp_model_open(&m, NULL, other, &err);
    CHECK(st == WISP_EMODEL && !m && strstr(err.text, words), "%s%s: %d '%s', not '%s'",
          tensor ? tensor : "", key ? key : "", st, err.text, words);
    wisp_model_free(m);
    wisp_tensor_file_close(&f);
}

static void test_files(void)
{
    TEST("files that are not whole are refused");
    refused("mix", -0.125f, NULL, NULL, "'mix' has weights below 0");
    refused("mix", 0.5f, NULL, NULL, "sum is 1.375, expected 1");
    refused("mix", NAN, NULL, NULL, "'mix' is nan");
    refused("mix", INFINITY, NULL, NULL, "'mix' is missing");
    refused("1/0.input.weight", INFINITY, NULL, NULL, "'1/0.input.weight' is missing");
    refused(NULL, 0, "members", "1", "'members' says 1, expected 2 to 16");
    refused(NULL, 0, "members", "17", "'members' is '17', expected 0 to 16");
    refused(NULL, 0, "members", "2", "'mix' has another type or shape than F32 2: it is F32 3");
    refused(NULL, 0, "2/net", "input 9, relu", "'2/0.input.weight' has another type or shape");
    refused(NULL, 0, "2/net", "joint", "'2/net' or '2/loss' is missing or unknown");
    refused(NULL, 0, "1/loss", "guess", "'1/net' or '1/loss' is missing or unknown");
    refused(NULL, 0, "labels", "299", "another type or shape");
}

int main(void)
{
    rig_init();
    test_mix();
    test_simplify();
    wisp_data *d = planted();
    for (int bce = 0; bce < 2 && !test_bad; bce++) {
        TEST(bce ? "scores of bce nets" : "scores of softmax nets");
        train_members(d, bce ? "loss bce" : "loss softmax");
        struct wisp_model *made = open_joint(), *m = NULL;
        check_scores(made, d, "inference exact");
        made->options = wisp_strdup("");
        CHECK(wisp_model_save(made, model, 1, 1, NULL, &err) == WISP_OK, "%s", err.text);
        wisp_model_free(made);
        CHECK(wisp_model_open(&m, ctx->pool, model, &err) == WISP_OK, "%s", err.text);
        if (!m) return rig_end();
        check_scores(m, d, "inference exact");
        check_scores(m, d, "inference sparse");
        check_threads(m, d);
        CHECK(wisp_kind_of(m)->n_params(m) == MEMBERS * (8 * (FEATURES + 1) + 9 * LABELS),
              "%zu parameters", wisp_kind_of(m)->n_params(m));
        wisp_model_free(m);
        for (int i = 0; i < MEMBERS; i++) unlink(paths[i]);
    }
    test_lead(d);
    test_files();
    TEST("a failure to take memory leaves nothing behind");
    for (long n = 0;; n++) {
        struct wisp_model *m = NULL;
        wisp_mem_budget = n;
        const wisp_status st = wisp_model_open(&m, NULL, model, &err);
        wisp_predictor *p = NULL;
        const wisp_status made =
            st == WISP_OK ? wisp_predictor_create(&p, ctx, m, NULL, K, &err) : st;
        wisp_mem_budget = -1;
        wisp_predictor_free(p);
        wisp_model_free(m);
        if (made == WISP_OK) break;
        CHECK(made == WISP_ENOMEM, "after %ld: %d %s", n, made, err.text);
    }
    wisp_data_free(d);
    return rig_end();
}

/* A model in memory with errors: each failing allocation, models that stay as they are, and what is said
 * of files with numbers that are none. */
#include "model_rig.h"

#include <math.h>

static wisp_data *d;

static struct wisp_model *load(const char *path)
{
    struct wisp_model *m = NULL;
    CHECK(wisp_model_load(&m, path, &err) == WISP_OK, "%s", err.text);
    return m;
}

static wisp_status inject(wisp_report **r, const struct wisp_model *m, const char *how,
                          const char *path, bool measure)
{
    wisp_config *c = config(how);
    wisp_status st =
        wisp_inject(r, ctx, m, measure ? d : NULL, measure ? d : NULL, c, path, NULL, NULL, &err);
    wisp_config_free(c);
    return st;
}

static double number(const wisp_report *r, const char *key)
{
    double x = NAN;
    CHECK(r && wisp_report_get(r, key, &x), "no '%s'", key);
    return x;
}

static void test_allocations(const struct wisp_model *m)
{
    static const struct {
        const char *how, *path;
    } forms[] = { { "rate 0.01 guard zero", other },
                  { "rate 0.01 guard clip type int8 what both draws 2", NULL },
                  { "sweep yes rates 0.001,0.01 draws 1", NULL },
                  { "target-accuracy-drop 30 guard zero draws 1 what both", NULL } };
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        TEST(forms[f].how);
        wisp_config *c = config(forms[f].how);
        const struct bytes before = slurp(model);
        const long live = wisp_mem_live;
        long n = 0;
        wisp_report *r = NULL;
        const bool measure = !forms[f].path;
        for (;; n += n < 200 ? 1 : n / 40) { /* a sweep has thousands, which are all alike */
            wisp_mem_budget = n;
            const wisp_status st = wisp_inject(&r, ctx, m, measure ? d : NULL, measure ? d : NULL,
                                               c, forms[f].path, NULL, NULL, &err);
            wisp_mem_budget = -1;
            if (st == WISP_OK) break;
            CHECK(st == WISP_ENOMEM && !r && wisp_mem_live == live, "after %ld: %d, %s, %ld blocks",
                  n, st, err.text, (long)wisp_mem_live - live);
        }
        CHECK(n > 5, "%ld allocations", n);
        CHECK(strchr(wisp_report_json(r), '{') && number(r, f == 2 ? "draws" : "bits") > 0, "%s",
              wisp_report_json(r));
        wisp_report_free(r);
        CHECK(wisp_mem_live == live, "%ld blocks are left", (long)wisp_mem_live - live);
        CHECK(file_is(model, before), "the model has changed");
        free(before.p);
        wisp_config_free(c);
    }
}

/* Every number of a weight becomes infinite, or none. */
static void test_no_numbers(void)
{
    struct wisp_model *m = hand_made(d);
    wisp_report *r = NULL;
    TEST("weights that become infinite or nan");
    for (size_t i = 0; i < wisp_net_param_floats(&m->net); i++)
        m->net.params[i] = i % 2 ? 1.5f : -1.25f;
    CHECK(wisp_model_save(m, model, -1, 0, NULL, &err) == WISP_OK, "%s", err.text);
    wisp_model_free(m);
    m = load(model);
    unlink(other); /* of the test before */
    CHECK(inject(&r, m, "rate 0.03 seed 2", other, false) == WISP_ENUMERIC && !r &&
              strstr(err.text, "would be infinite or nan") && access(other, F_OK) != 0,
          "%s", err.text);
    CHECK(inject(&r, m, "rate 0.03 seed 2", NULL, true) == WISP_OK, "%s", err.text);
    CHECK(number(r, "not_numbers_mean") > 0, "%s", wisp_report_json(r));
    CHECK(number(r, "rows_unanswered_mean") > 0, "%s", wisp_report_json(r));
    wisp_report_free(r);
    CHECK(inject(&r, m, "rate 0.03 seed 2 guard clip", other, true) == WISP_OK, "%s", err.text);
    CHECK(number(r, "not_numbers_mean") == 0 && number(r, "rows_unanswered_mean") == 0, "%s",
          wisp_report_json(r));
    wisp_report_free(r);
    wisp_model_free(m);
    m = load(other);
    CHECK(
        strstr(wisp_model_describe(m), "\"errors\": \"rate 0.03, fp32, map random, guard clip") ||
            strstr(wisp_model_describe(m), "\"errors\":\"rate 0.03, fp32, map random, guard clip"),
        "%s", wisp_model_describe(m));
    wisp_model_free(m);
}

/* Label 0 has all rows by a weight of 1, beside one of 1e6 for a unit that is always 0: in int8 that
 * takes the 1 away, and label 3 has them. */
static void test_rounding(void)
{
    struct wisp_model *m = hand_made(d);
    wisp_report *r = NULL;
    TEST("a type that loses accuracy without any errors");
    memset(m->net.params, 0, wisp_net_param_floats(&m->net) * sizeof *m->net.params);
    struct wisp_layer *dense = &m->net.layers[3], *out = wisp_net_output(&m->net);
    dense->params[1].w[0] = 1, dense->params[1].w[1] = -1;
    out->params[0].w[0] = 1, out->params[0].w[1] = 1e6f;
    for (size_t l = 1; l < d->n_labels; l++) out->params[1].w[l] = l == 3 ? 0.5f : -5;
    CHECK(wisp_model_save(m, model, -1, 0, NULL, &err) == WISP_OK, "%s", err.text);
    wisp_model_free(m);
    m = load(model);
    CHECK(inject(&r, m, "target-accuracy-drop 1 type int8", NULL, true) == WISP_EINVAL && !r &&
              strstr(err.text, "numbers of int8 lose more than 1 points without any errors"),
          "%s", err.text);
    CHECK(inject(&r, m, "target-accuracy-drop 1 type fp32 guard zero", NULL, true) == WISP_OK, "%s",
          err.text);
    CHECK(number(r, "uniform_rate") > 0, "%s", wisp_report_json(r));
    wisp_report_free(r);
    wisp_model_free(m);
}

int main(void)
{
    rig_init();
    d = words();
    struct wisp_model *m = hand_made(d);
    CHECK(wisp_model_save(m, model, -1, 0, NULL, &err) == WISP_OK, "%s", err.text);
    wisp_model_free(m);
    m = load(model);
    test_allocations(m);
    wisp_model_free(m);
    test_no_numbers();
    test_rounding();
    wisp_data_free(d);
    return rig_end();
}

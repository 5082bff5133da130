/* wisp_inject: a model with bit errors, how well it predicts with them, and which tensor bears how many.
 *
 * The last is EDEN's: at first one rate for all tensors, the highest by halving; then, in turns, each
 * tensor is tried with the next higher one while all others keep theirs, until none can have more.  A
 * rate is borne where every draw of errors keeps P@1 within the drop. */
#include "api/predictor.h"
#include "base/bounds.h"
#include "base/mem.h"
#include "base/report.h"
#include "base/sort.h"
#include "base/text.h"
#include "config/options.h"
#include "model/faulty.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RATES = 32, LINE = 400 };
enum { LEVELS = 30, A_DECADE = 4, STRIDE = 2 }; /* of rates that are tried; between turns */
static const double LEAST = 1e-8;

struct injection {
    struct wisp_faulty f;
    const struct wisp_data *data, *test;
    struct wisp_errors e;
    int draws;
    double before; /* P@1 of the data without errors */
    double *rates; /* (places) */
    wisp_on_line told;
    void *arg;
    char *json; /* of what is a list, to be freed */
    size_t at, room;
    bool full;
};

/* ---- text ---- */

__attribute__((format(printf, 2, 3))) static void tell(const struct injection *j, const char *fmt,
                                                       ...)
{
    char line[LINE];
    va_list ap;
    if (!j->told) return;
    va_start(ap, fmt);
    wisp_vprint(line, sizeof line, fmt, ap);
    va_end(ap);
    j->told(j->arg, line);
}

/* Adds to the JSON; where there is no memory it ends, which is asked for once. */
__attribute__((format(printf, 2, 3))) static void add(struct injection *j, const char *fmt, ...)
{
    va_list ap;
    if (j->at + LINE > j->room && !j->full) {
        char *more = wisp_realloc(j->json, j->at, 2 * j->room + LINE, 1);
        if (more) j->json = more, j->room = 2 * j->room + LINE;
        else j->full = true;
    }
    if (j->full) return;
    va_start(ap, fmt);
    j->at += (size_t)wisp_vprint(j->json + j->at, LINE, fmt, ap);
    va_end(ap);
}

/* What was added becomes an object of the report. */
static wisp_status put(struct wisp_report *r, const struct injection *j, const char *key,
                       wisp_error *err)
{
    if (j->full) return wisp_fail_mem(err, 2 * j->room, "the report");
    wisp_report_object(r, key, j->json);
    return WISP_OK;
}

/* ---- what the options say ---- */

static enum wisp_memory type_asked(const wisp_config *cfg)
{
    return wisp_opt_auto(cfg, OPT_TYPE) ? WISP_MEMORY_FP32
                                        : wisp_memory_find(wisp_opt_text(cfg, OPT_TYPE));
}

/* Weights that are bf16 or int8 already have errors as such. */
static wisp_status check_type(const struct injection *j, const wisp_config *cfg, wisp_error *err)
{
    for (size_t i = 0; i < j->f.n; i++) {
        const enum wisp_memory own = wisp_place_memory(&j->f, i, j->e.type);
        if (own != j->e.type && !wisp_opt_auto(cfg, OPT_TYPE))
            return wisp_fail_option(err, "type",
                                    "'%s' is %s in this model, and not %s; leave --type out, or "
                                    "take the model that was trained",
                                    j->f.places[i].name, wisp_memory_name(own),
                                    wisp_memory_name(j->e.type));
    }
    return WISP_OK;
}

static wisp_status begin(struct injection *j, wisp_context *ctx, const wisp_model *m,
                         const wisp_config *cfg, wisp_error *err)
{
    const bool values = !wisp_opt_is(cfg, OPT_WHAT, "weights"),
               weights = !wisp_opt_is(cfg, OPT_WHAT, "values");
    j->draws = (int)wisp_opt_num(cfg, OPT_DRAWS);
    j->e = (struct wisp_errors){ .rate = wisp_opt_num(cfg, OPT_RATE),
                                 .type = type_asked(cfg),
                                 .guard = wisp_guard_find(wisp_opt_text(cfg, OPT_GUARD)),
                                 .fixed = wisp_opt_is(cfg, OPT_MAP, "fixed"),
                                 .seed = (uint64_t)wisp_opt_num(cfg, OPT_SEED) };
    wisp_status st = wisp_faulty_make(
        &j->f, ctx, m, (weights ? WISP_IN_WEIGHTS : 0) | (values ? WISP_IN_VALUES : 0),
        wisp_opt_text(cfg, OPT_LAYER), err);
    if (st == WISP_OK) st = check_type(j, cfg, err);
    if (st == WISP_OK && !(j->rates = wisp_zalloc(j->f.n, sizeof *j->rates)))
        st = wisp_fail_mem(err, j->f.n * sizeof *j->rates, "rates of errors");
    return st;
}

/* The type of a place, or of all (n) of them: what the file has, where that is not fp32. */
static const char *type_name(const struct injection *j, size_t place)
{
    const enum wisp_memory first = wisp_place_memory(&j->f, place < j->f.n ? place : 0, j->e.type);
    bool same = true;
    for (size_t i = 0; i < j->f.n && place == j->f.n; i++)
        same &= wisp_place_memory(&j->f, i, j->e.type) == first;
    return same ? wisp_memory_name(first) : "mixed";
}

/* ---- measuring ---- */

struct tried { /* over the draws */
    double mean, worst;
    size_t bits, odd, rows_odd; /* of all of them */
};

static uint64_t draw_of(const struct injection *j, int i)
{
    return j->e.fixed ? 0 : (uint64_t)i;
}

/* Over the draws from 'first' on; fixed ones have other seeds instead, which are other memories.  Ends
 * with the first below 'least'. */
static wisp_status try_draws(struct tried *t, const struct injection *j, const struct wisp_data *d,
                             int first, int draws, double least, wisp_error *err)
{
    *t = (struct tried){ .worst = INFINITY };
    int n = 0;
    while (n < draws && !(t->worst < least)) {
        struct wisp_errors e = j->e;
        struct wisp_damage one;
        e.draw = draw_of(j, first + n);
        if (e.fixed) e.seed += (uint64_t)(first + n);
        wisp_status st = wisp_faulty_measure(&one, &j->f, j->rates, &e, d, err);
        if (st != WISP_OK) return st;
        t->mean += one.p1;
        t->worst = fmin(t->worst, one.p1);
        t->bits += one.bits, t->odd += one.odd, t->rows_odd += one.rows_odd;
        n++;
    }
    t->mean /= n;
    return WISP_OK;
}

static void set_all(struct injection *j, double rate)
{
    for (size_t i = 0; i < j->f.n; i++) j->rates[i] = rate;
}

static double total_bits(const struct injection *j)
{
    double bits = 0;
    for (size_t i = 0; i < j->f.n; i++)
        bits += (double)j->f.places[i].numbers *
                wisp_memory_bits(wisp_place_memory(&j->f, i, j->e.type));
    return bits;
}

static void report_how(struct wisp_report *r, const struct injection *j)
{
    wisp_report_text(r, "type", type_name(j, j->f.n));
    wisp_report_text(r, "guard", wisp_guard_name(j->e.guard));
    wisp_report_text(r, "map", j->e.fixed ? "fixed" : "random");
    wisp_report_num(r, "tensors", (double)j->f.n);
    wisp_report_num(r, "bits", total_bits(j));
}

static wisp_status inject_once(struct wisp_report *r, struct injection *j, const char *path,
                               wisp_error *err)
{
    struct wisp_damage file = { 0 };
    struct tried t;
    wisp_status st = WISP_OK;
    set_all(j, j->e.rate);
    if (path) st = wisp_faulty_write(&file, &j->f, j->rates, &j->e, path, err);
    if (st != WISP_OK) return st;
    wisp_report_num(r, "rate", j->e.rate);
    report_how(r, j);
    if (path) {
        wisp_report_num(r, "bits_wrong", (double)file.bits);
        tell(j, "%zu of %.0f bits of %zu tensors are wrong in %s", file.bits, total_bits(j), j->f.n,
             path);
    }
    if (!j->data) return WISP_OK;
    if ((st = wisp_faulty_look(&j->before, &j->f, j->data, err)) != WISP_OK ||
        (st = try_draws(&t, j, j->data, 0, j->draws, -1, err)) != WISP_OK)
        return st;
    wisp_report_num(r, "p@1_before", j->before);
    wisp_report_num(r, "p@1", t.mean);
    wisp_report_num(r, "p@1_worst", t.worst);
    wisp_report_num(r, "bits_wrong_mean", (double)t.bits / j->draws);
    wisp_report_num(r, "not_numbers_mean", (double)t.odd / j->draws);
    wisp_report_num(r, "rows_unanswered_mean", (double)t.rows_odd / j->draws);
    tell(j,
         "P@1 %.2f without errors; %.2f with them, %.2f in the worst of %d draws (%.0f wrong bits "
         "a draw)",
         j->before, t.mean, t.worst, j->draws, (double)t.bits / j->draws);
    if (t.odd || t.rows_odd)
        tell(j,
             "of all draws %zu weights were infinite or nan, and %zu rows had scores that are "
             "not numbers: they count as wrong",
             t.odd, t.rows_odd);
    return WISP_OK;
}

/* ---- the sweep ---- */

static wisp_status read_rates(double *out, size_t *n, const wisp_config *cfg, enum wisp_opt o,
                              wisp_error *err)
{
    wisp_status st = wisp_opt_list(out, n, MOST_RATES, cfg, o, err);
    for (size_t i = 0; i < *n && st == WISP_OK; i++)
        if (!(out[i] >= 0 && out[i] <= 1))
            st = wisp_fail_option(err, o == OPT_RATES ? "rates" : "partitions",
                                  "%g is not a share of bits from 0 to 1", out[i]);
    if (st == WISP_OK) wisp_sort_doubles(out, *n);
    return st;
}

/* One line: P@1 at all rates, of one place (n: of all).  Where it has come down to half, it is left: what
 * is above has no more to tell. */
static wisp_status sweep_line(struct injection *j, const double *rates, size_t n_rates,
                              size_t place, wisp_error *err)
{
    char line[LINE], cell[24];
    const char *name = place < j->f.n ? j->f.places[place].name : "all";
    struct tried t = { .mean = INFINITY };
    size_t at = (size_t)wisp_print(line, sizeof line, "%-5s %-5s %-28s", type_name(j, place),
                                   wisp_guard_name(j->e.guard), name);
    add(j, "%s{\"type\":\"%s\",\"guard\":\"%s\",\"layer\":\"%s\",\"points\":[",
        j->at > 1 ? "," : "", type_name(j, place), wisp_guard_name(j->e.guard), name);
    for (size_t k = 0; k < n_rates && !(t.mean < j->before / 2); k++) {
        for (size_t i = 0; i < j->f.n; i++)
            j->rates[i] = place == j->f.n || i == place ? rates[k] : 0;
        wisp_status st = try_draws(&t, j, j->data, 0, j->draws, -1, err);
        if (st != WISP_OK) return st;
        wisp_print(cell, sizeof cell, " %7.2f", t.mean);
        if (at + strlen(cell) < sizeof line)
            at += (size_t)wisp_print(line + at, sizeof line - at, "%s", cell);
        add(j,
            "%s{\"rate\":%.6g,\"p@1\":%.4f,\"worst\":%.4f,\"not_numbers\":%.6g,"
            "\"rows_unanswered\":%.6g}",
            k ? "," : "", rates[k], t.mean, t.worst, (double)t.odd / j->draws,
            (double)t.rows_odd / j->draws);
    }
    add(j, "]}");
    tell(j, "%s", line);
    return WISP_OK;
}

static wisp_status sweep(struct wisp_report *r, struct injection *j, const wisp_config *cfg,
                         wisp_error *err)
{
    double rates[MOST_RATES];
    char head[LINE];
    size_t n, at;
    wisp_status st = read_rates(rates, &n, cfg, OPT_RATES, err);
    if (st == WISP_OK) st = wisp_faulty_look(&j->before, &j->f, j->data, err);
    if (st != WISP_OK) return st;
    bool own = false; /* weights that are bf16 or int8 have no other type */
    for (size_t i = 0; i < j->f.n; i++)
        own |= wisp_place_memory(&j->f, i, WISP_MEMORY_FP32) != WISP_MEMORY_FP32;
    const bool all = wisp_opt_auto(cfg, OPT_TYPE) && !own, both = !wisp_opt_given(cfg, OPT_GUARD);
    tell(j, "P@1 %.2f without errors; with them, the mean of %d draws:", j->before, j->draws);
    at = (size_t)wisp_print(head, sizeof head, "%-5s %-5s %-28s", "type", "guard", "rate");
    for (size_t k = 0; k < n && at + 9 < sizeof head; k++)
        at += (size_t)wisp_print(head + at, sizeof head - at, " %7.3g", rates[k]);
    tell(j, "%s", head);
    wisp_report_num(r, "p@1_before", j->before);
    wisp_report_num(r, "draws", j->draws);
    add(j, "[");
    for (int type = 0; type < WISP_N_MEMORIES && st == WISP_OK; type++) {
        if (all) j->e.type = (enum wisp_memory)type;
        else if (type != (int)j->e.type) continue;
        for (int g = 0; g < (both ? 2 : 1) && st == WISP_OK; g++) {
            if (both) j->e.guard = g ? WISP_GUARD_ZERO : WISP_GUARD_OFF;
            st = sweep_line(j, rates, n, j->f.n, err);
            for (size_t i = 0; i < j->f.n && j->f.n > 1 && st == WISP_OK; i++)
                st = sweep_line(j, rates, n, i, err);
        }
    }
    add(j, "]");
    return st == WISP_OK ? put(r, j, "sweep", err) : st;
}

/* ---- the mapping ---- */

static double rate_of(int level)
{
    return level == 0 ? 0 : LEAST * pow(10, (double)(level - 1) / A_DECADE);
}

static wisp_status bears(bool *out, const struct injection *j, double drop, wisp_error *err)
{
    struct tried t;
    const double least = j->before - drop;
    wisp_status st = try_draws(&t, j, j->data, 0, j->draws, least, err);
    *out = st == WISP_OK && t.worst >= least;
    return st;
}

/* The highest level that all bear together; -1: the type itself loses more than the drop. */
static wisp_status find_uniform(int *level, struct injection *j, double drop, wisp_error *err)
{
    int low = 0, high = LEVELS;
    wisp_status st = WISP_OK;
    while (high - low > 1 && st == WISP_OK) {
        const int middle = (low + high) / 2;
        bool good;
        set_all(j, rate_of(middle));
        st = bears(&good, j, drop, err);
        if (good) low = middle;
        else high = middle;
    }
    bool good = true;
    set_all(j, rate_of(low));
    if (st == WISP_OK && low == 0) st = bears(&good, j, drop, err);
    *level = good ? low : -1;
    return st;
}

/* In turns, each a bit more, until none bears more. */
static wisp_status raise(int *levels, struct injection *j, double drop, wisp_error *err)
{
    const size_t n = j->f.n;
    wisp_status st = WISP_OK;
    for (size_t left = 1; left > 0 && st == WISP_OK;) {
        left = 0;
        for (size_t i = 0; i < n && st == WISP_OK; i++) {
            bool good = false;
            const int next = levels[i] + STRIDE;
            if (levels[i] < 0 || next >= LEVELS) continue; /* below 0: done, see below */
            j->rates[i] = rate_of(next);
            st = bears(&good, j, drop, err);
            if (good) levels[i] = next, left++;
            else j->rates[i] = rate_of(levels[i]), levels[i] = -1 - levels[i];
        }
    }
    for (size_t i = 0; i < n; i++)
        if (levels[i] < 0) levels[i] = -1 - levels[i];
    return st;
}

/* The partition with the most errors that a place bears; -1: none has so few. */
static int partition_of(double rate, const double *partitions, size_t n)
{
    int best = -1;
    for (size_t i = 0; i < n; i++) /* ascending */
        if (partitions[i] <= rate * (1 + 1e-9)) best = (int)i;
    return best;
}

static void tell_places(struct injection *j, const double *borne, const int *in,
                        const double *partitions)
{
    tell(j, "%-28s %12s %10s  %s", "tensor", "bits", "bears", "partition");
    add(j, "[");
    for (size_t i = 0; i < j->f.n; i++) {
        const struct wisp_place *p = &j->f.places[i];
        const enum wisp_memory type = wisp_place_memory(&j->f, i, j->e.type);
        const double bits = (double)p->numbers * wisp_memory_bits(type);
        const int at = in[i];
        char text[24] = "none";
        if (at >= 0) wisp_print(text, sizeof text, "%g", partitions[at]);
        add(j,
            "%s{\"name\":\"%s\",\"numbers\":%zu,\"bits\":%.0f,\"type\":\"%s\",\"rate\":%.6g,"
            "\"partition\":%s}",
            i ? "," : "", p->name, p->numbers, bits, wisp_memory_name(type), borne[i],
            at >= 0 ? text : "null");
        tell(j, "%-28s %12.0f %10.2g  %s", p->name, bits, borne[i], text);
    }
    add(j, "]");
}

static void tell_share(struct wisp_report *r, const struct injection *j, const int *in,
                       const double *partitions, size_t n)
{
    char list[LINE * 4] = "[";
    size_t at = 1;
    for (size_t k = n; k-- > 0;) {
        double bits = 0;
        for (size_t i = 0; i < j->f.n; i++)
            if (in[i] == (int)k)
                bits += (double)j->f.places[i].numbers *
                        wisp_memory_bits(wisp_place_memory(&j->f, i, j->e.type));
        tell(j, "partition %g: %.2f %% of the bits", partitions[k], 100 * bits / total_bits(j));
        at += (size_t)wisp_print(list + at, sizeof list - at, "%s{\"rate\":%g,\"bits\":%.0f}",
                                 at > 1 ? "," : "", partitions[k], bits);
    }
    wisp_print(list + at, sizeof list - at, "]");
    wisp_report_object(r, "partitions", list);
}

/* P@1 with every place in its partition; what has none has no errors. */
static wisp_status check_mapping(struct wisp_report *r, struct injection *j, const char *what,
                                 const struct wisp_data *d, double before, int first,
                                 wisp_error *err)
{
    struct tried t;
    char key[40];
    wisp_status st = try_draws(&t, j, d, first, j->draws, -1, err);
    if (st != WISP_OK) return st;
    if (*what) wisp_report_num(r, "test_p@1_before", before);
    wisp_print(key, sizeof key, "%sp@1", what);
    wisp_report_num(r, key, t.mean);
    wisp_print(key, sizeof key, "%sp@1_worst", what);
    wisp_report_num(r, key, t.worst);
    tell(j, "%s: P@1 %.2f without errors; %.2f in these partitions, %.2f in the worst of %d draws",
         *what ? "test rows" : "rows", before, t.mean, t.worst, j->draws);
    return WISP_OK;
}

static void set_partitions(struct injection *j, const int *in, const double *partitions)
{
    for (size_t i = 0; i < j->f.n; i++) j->rates[i] = in[i] < 0 ? 0 : partitions[in[i]];
}

/* Rates were chosen by the very draws that allowed them.  So all places are tried in their partitions by
 * twice as many new draws; where one of these loses more than the drop, the place that bears least
 * beyond what its partition has goes to the next better one, until all draws agree. */
static wisp_status settle(int *in, struct injection *j, const double *borne,
                          const double *partitions, double drop, wisp_error *err)
{
    const double least = j->before - drop;
    for (;;) {
        struct tried t;
        size_t worst = j->f.n;
        double margin = INFINITY;
        set_partitions(j, in, partitions);
        wisp_status st = try_draws(&t, j, j->data, j->draws, 2 * j->draws, least, err);
        if (st != WISP_OK || t.worst >= least) return st;
        for (size_t i = 0; i < j->f.n; i++) {
            if (in[i] < 0 || partitions[in[i]] == 0) continue;
            const double here = borne[i] / partitions[in[i]];
            if (here < margin) margin = here, worst = i;
        }
        if (worst == j->f.n) return WISP_OK; /* no errors are left */
        in[worst]--;
    }
}

static wisp_status use_partitions(struct wisp_report *r, struct injection *j, const int *in,
                                  wisp_error *err)
{
    double before;
    for (size_t i = 0; i < j->f.n; i++)
        if (in[i] < 0)
            tell(j, "%s bears no partition: it needs memory with fewer errors than any of these",
                 j->f.places[i].name);
    wisp_status st = check_mapping(r, j, "", j->data, j->before, 0, err);
    if (st != WISP_OK || !j->test) return st;
    /* ranges of values stay those of the rows that were chosen by */
    struct wisp_faulty same = j->f;
    struct wisp_place *kept = wisp_alloc(j->f.n, sizeof *kept);
    if (!kept) return wisp_fail_mem(err, j->f.n * sizeof *kept, "places");
    memcpy(kept, j->f.places, j->f.n * sizeof *kept);
    same.places = kept;
    st = wisp_faulty_look(&before, &same, j->test, err);
    if (st == WISP_OK) st = check_mapping(r, j, "test_", j->test, before, 3 * j->draws, err);
    wisp_free(kept);
    return st;
}

static wisp_status map_places(struct wisp_report *r, struct injection *j, const wisp_config *cfg,
                              wisp_error *err)
{
    const double drop = wisp_opt_num(cfg, OPT_TARGET_DROP);
    double partitions[MOST_RATES];
    size_t n;
    double *borne = wisp_alloc(j->f.n, sizeof *borne);
    int uniform, *levels = wisp_alloc(j->f.n, sizeof *levels);
    wisp_status st = levels && borne
                         ? read_rates(partitions, &n, cfg, OPT_PARTITIONS, err)
                         : wisp_fail_mem(err, j->f.n * sizeof *levels, "rates of errors");
    if (st == WISP_OK) st = wisp_faulty_look(&j->before, &j->f, j->data, err);
    if (st == WISP_OK) st = find_uniform(&uniform, j, drop, err);
    if (st == WISP_OK && uniform < 0)
        st = wisp_fail_option(err, "target-accuracy-drop",
                              "numbers of %s lose more than %g points without any errors; allow "
                              "more, or take another --type",
                              type_name(j, j->f.n), drop);
    if (st == WISP_OK) {
        tell(j,
             "P@1 %.2f without errors; all tensors bear %.2g together (%s, guard %s), within %g "
             "points in each of %d draws",
             j->before, rate_of(uniform), type_name(j, j->f.n), wisp_guard_name(j->e.guard), drop,
             j->draws);
        for (size_t i = 0; i < j->f.n; i++) levels[i] = uniform;
        wisp_report_num(r, "p@1_before", j->before);
        wisp_report_num(r, "uniform_rate", rate_of(uniform));
        report_how(r, j);
        if (n > 0) st = raise(levels, j, drop, err);
    }
    if (st == WISP_OK && n > 0) { /* from here on 'levels' are partitions */
        for (size_t i = 0; i < j->f.n; i++) {
            borne[i] = j->rates[i];
            levels[i] = partition_of(borne[i], partitions, n);
        }
        st = settle(levels, j, borne, partitions, drop, err);
    }
    if (st == WISP_OK && n > 0) {
        tell_places(j, borne, levels, partitions);
        tell_share(r, j, levels, partitions, n);
        st = use_partitions(r, j, levels, err);
    }
    if (st == WISP_OK && n > 0) st = put(r, j, "mapping", err);
    wisp_free(borne);
    wisp_free(levels);
    return st;
}

/* ---- forms ---- */

static wisp_status check_form(const wisp_config *cfg, const struct injection *j, const char *path,
                              wisp_error *err)
{
    const bool sweeps = wisp_opt_on(cfg, OPT_SWEEP), maps = wisp_opt_given(cfg, OPT_TARGET_DROP);
    if (!j->data && (sweeps || maps || !path))
        return wisp_fail(err, WISP_EINVAL,
                         "expected MODEL DATA, labelled rows to measure with, or -o MODEL2 for the "
                         "model with errors");
    if (sweeps && maps)
        return wisp_fail_option(err, "sweep", "--target-accuracy-drop is another form; give one");
    if (path && (sweeps || maps))
        return wisp_fail(err, WISP_EINVAL,
                         "-o: %s tries many models; -o MODEL2 is for one, at --rate",
                         sweeps ? "--sweep" : "--target-accuracy-drop");
    if (path && !wisp_opt_is(cfg, OPT_WHAT, "weights"))
        return wisp_fail_option(err, "what",
                                "values are made while predicting, and no file has them; give "
                                "DATA instead of -o, or --what weights");
    if (!sweeps && !maps && !wisp_opt_given(cfg, OPT_RATE))
        return wisp_fail_option(err, "rate", "it is missing; e.g. --rate 1e-5, or --sweep");
    return WISP_OK;
}

wisp_status wisp_inject(wisp_report **out, wisp_context *ctx, const wisp_model *m,
                        const wisp_data *data, const wisp_data *test, const wisp_config *cfg,
                        const char *path, wisp_on_line on_line, void *arg, wisp_error *err)
{
    struct injection j = { .data = data, .test = test, .told = on_line, .arg = arg };
    struct wisp_report *r = NULL;
    *out = NULL;
    wisp_status st = check_form(cfg, &j, path, err);
    if (st == WISP_OK) st = begin(&j, ctx, m, cfg, err);
    if (st == WISP_OK) {
        r = wisp_report_create();
        st = wisp_opt_on(cfg, OPT_SWEEP)            ? sweep(r, &j, cfg, err)
             : wisp_opt_given(cfg, OPT_TARGET_DROP) ? map_places(r, &j, cfg, err)
                                                    : inject_once(r, &j, path, err);
    }
    if (st == WISP_OK) st = wisp_report_done(out, r, err);
    else wisp_report_free(r);
    wisp_faulty_clear(&j.f);
    wisp_free(j.rates);
    wisp_free(j.json);
    return st;
}

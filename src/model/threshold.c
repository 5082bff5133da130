/* Fitting thresholds on counts at the values of a grid; threshold.h says how. */
#include "model/threshold.h"
#include "base/mem.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

enum { GRID = 256 };

struct curve { /* what each threshold of the grid would decide */
    double tp[GRID], fp[GRID];
    double n_true;
};

/* ---- goals ---- */

static bool read_number(double *out, const char **at, double most, char end)
{
    char *after;
    *out = wisp_strtod(*at, &after);
    const bool ok = after > *at && *after == end && *out > 0 && *out <= most;
    *at = after + (end != 0 && ok);
    return ok;
}

wisp_status wisp_goal_parse(struct wisp_goal *out, const char *text, wisp_error *err)
{
    const char *eq = strchr(text, '='), *at = eq ? eq + 1 : NULL;
    const size_t n = eq ? (size_t)(eq - text) : strlen(text);
    *out = (struct wisp_goal){ .kind = WISP_GOAL_F1 };
    if (!eq && strcmp(text, "f1") == 0) return WISP_OK;
    if (eq && n == 9 && strncmp(text, "precision", n) == 0) out->kind = WISP_GOAL_PRECISION;
    else if (eq && n == 6 && strncmp(text, "recall", n) == 0) out->kind = WISP_GOAL_RECALL;
    else if (eq && n == 4 && strncmp(text, "cost", n) == 0) out->kind = WISP_GOAL_COST;
    else
        return wisp_fail_option(err, "for",
                                "found '%.60s', expected f1, precision=0.9, recall=0.8 or "
                                "cost=FP:FN",
                                text);
    if (out->kind == WISP_GOAL_COST) {
        if (read_number(&out->fp, &at, 1e9, ':') && read_number(&out->fn, &at, 1e9, 0))
            return WISP_OK;
        return wisp_fail_option(err, "for",
                                "found '%.60s', expected what a wrong label and a missed one cost, "
                                "two numbers above 0: cost=1:5",
                                text);
    }
    if (read_number(&out->target, &at, 1, 0)) return WISP_OK;
    return wisp_fail_option(err, "for",
                            "found '%.60s', expected a share above 0, up to 1: %.*s=0.9", text,
                            (int)n, text);
}

/* How good counts are; the more the better. */
static double worth(const struct wisp_goal *goal, double tp, double fp, double n_true)
{
    const double slack = 1e-9; /* sums that are scaled down round */
    switch (goal->kind) {
    case WISP_GOAL_F1:
        return tp + fp + n_true > 0 ? 2 * tp / (tp + fp + n_true) : 0;
    case WISP_GOAL_PRECISION:
        return tp > 0 && tp >= goal->target * (tp + fp) * (1 - slack) ? tp : -INFINITY;
    case WISP_GOAL_RECALL:
        return tp >= goal->target * n_true * (1 - slack) ? -fp : -INFINITY;
    case WISP_GOAL_COST:
        break;
    }
    return -goal->fp * fp - goal->fn * (n_true - tp);
}

/* ---- curves ---- */

static void make_grid(float grid[GRID])
{
    const double low = log(0.001 / 0.999), high = -low;
    for (int i = 0; i < GRID; i++)
        grid[i] = (float)(1 / (1 + exp(-(low + (high - low) * i / (GRID - 1)))));
    grid[0] = WISP_THRESHOLD_LEAST;
}

/* The highest threshold that a score reaches; -1: none. */
static int reached(const float grid[GRID], float score)
{
    int low = -1, high = GRID; /* grid[low] <= score < grid[high] */
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (grid[middle] <= score) low = middle;
        else high = middle;
    }
    return low;
}

static void count_label(struct curve *c, const struct wisp_guesses *g, size_t label,
                        unsigned halves, const float grid[GRID])
{
    memset(c, 0, sizeof *c);
    for (size_t i = g->start[label]; i < g->start[label + 1]; i++) {
        const struct wisp_guess *s = &g->g[i];
        const int at = halves >> s->half & 1 ? reached(grid, s->score) : -1;
        if (at >= 0 && s->is_true) c->tp[at]++;
        else if (at >= 0) c->fp[at]++;
    }
    for (int i = GRID - 1; i > 0; i--) c->tp[i - 1] += c->tp[i], c->fp[i - 1] += c->fp[i];
    for (int h = 0; h < 2; h++)
        if (halves >> h & 1) c->n_true += (double)g->n_true[h][label];
}

static void add_curve(struct curve *to, const struct curve *c, double times)
{
    for (int i = 0; i < GRID; i++) {
        to->tp[i] += times * c->tp[i];
        to->fp[i] += times * c->fp[i];
    }
    to->n_true += times * c->n_true;
}

/* The middle of the highest run of the best. */
static float best_of(const struct curve *c, const struct wisp_goal *goal, const float grid[GRID])
{
    double best = -INFINITY, w[GRID];
    int last = -1, first;
    for (int i = 0; i < GRID; i++) {
        w[i] = worth(goal, c->tp[i], c->fp[i], c->n_true);
        if (w[i] >= best && w[i] > -INFINITY) best = w[i], last = i;
    }
    if (last < 0) return goal->kind == WISP_GOAL_PRECISION ? WISP_THRESHOLD_NEVER : grid[0];
    for (first = last; first > 0 && w[first - 1] == best;) first--;
    return grid[(first + last) / 2];
}

/* ---- fitting ---- */

wisp_status wisp_thresholds_fit(float *out, const struct wisp_guesses *g, unsigned halves,
                                const struct wisp_goal *goal, bool one, wisp_error *err)
{
    float grid[GRID];
    struct curve all = { 0 }, own;
    make_grid(grid);
    for (size_t l = 0; l < g->n_labels; l++) {
        count_label(&own, g, l, halves, grid);
        add_curve(&all, &own, 1);
    }
    if (all.n_true == 0)
        return wisp_fail(
            err, WISP_EINVAL,
            "thresholds: no row%s has a label that the model knows; expected rows with "
            "their labels",
            halves == 3 ? "" : " of one half");
    const float shared = best_of(&all, goal, grid);
    for (size_t l = 0; l < g->n_labels; l++) {
        out[l] = shared;
        if (one) continue;
        count_label(&own, g, l, halves, grid);
        if (own.n_true == 0 && own.fp[0] == 0) continue; /* nothing is known of it */
        add_curve(&own, &all, WISP_SHARED_ROWS / all.n_true);
        out[l] = best_of(&own, goal, grid);
    }
    return WISP_OK;
}

bool wisp_thresholds_ok(const float *t, size_t n, size_t *bad)
{
    for (*bad = 0; *bad < n; ++*bad) {
        const float x = t[*bad];
        if (!(x >= 0 && x <= 1) && x != WISP_THRESHOLD_NEVER) return false;
    }
    return true;
}

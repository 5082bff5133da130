/* out.cu against plain code in double, written from the definition (layer/output.c, losses.c):
 *
 *   forward    z(r,i) = W[rows[r]] . h[i] + bias[rows[r]];  E = exp(z - origin), or sigmoid(z)
 *   combine    factor[i] = 1 / (n sum over r of E), or 1 / n; the loss;
 *              E of true labels = E - target / factor; with a smoothing s, where targets are
 *              (1 - s) t + s / U, of all of the U rows
 *   hidden     g[i] = factor[i] sum over r of E(r,i) W[rows[r]]; passed on where h > 0, if asked
 *   rows       rows move by sum over i of E(r,i) factor[i] h[i], biases by heat
 *
 * Each stage is checked by itself: what the card left of E and factor is what the reference of the
 * next stage begins with, and with bf16 the reference rounds W, h and factor * h as the products
 * do.  What is allowed is then the rounding of sums, relative to the sum of absolute terms, and for
 * bf16 a rounding more of each term, which grows like the root of the sum of squares: much less
 * than one term, so that a missing one shows.
 *
 * All that may not be read is NaN before: rows of W, biases and state that are not active, samples
 * beyond n, scratch.  All that may not be written is compared bit for bit, with a border around
 * each array.  The second run is a captured graph, its scratch begins with other bytes. */
#include "gpu/out_rig.cuh"

/* ---- what is off ---- */

enum { OFF_E, OFF_TRUE, OFF_FACTOR, OFF_LOSS, OFF_G, OFF_HEAT, OFF_STATE, OFF_ROWS, OFF_BIAS };
enum { OFFS = OFF_BIAS + 1 };
static const char *const off_names[] = {
    "E", "E of true labels", "factor", "loss", "g", "heat", "state", "rows", "bias"
};
static double worst[2][OFFS]; /* by precision: largest error, as a share of what is allowed */
struct off {
    size_t n, bad, r, c;
    double got, want, most;
};
static struct off offs[OFFS];
static enum wisp_precision_id off_precision;

static void note(int what, size_t r, size_t c, double got, double want, double most)
{
    struct off *t = &offs[what];
    double d = fabs(got - want), *top = &worst[off_precision][what];
    t->n++;
    if (most > 0 && d / most > *top) *top = d / most;
    if (d <= most) return; /* a NaN goes on */
    if (t->bad++) return;
    t->r = r, t->c = c, t->got = got, t->want = want, t->most = most;
}

static void settle(void)
{
    for (int what = 0; what < OFFS; what++) {
        const struct off *t = &offs[what];
        CHECK(t->bad == 0, "%s: %zu of %zu off, first (%zu, %zu): %.9g, want %.9g +- %.2g",
              off_names[what], t->bad, t->n, t->r, t->c, t->got, t->want, t->most);
    }
    memset(offs, 0, sizeof offs);
}

/* ---- the reference ---- */

/* The operand that a product sees. */
static double seen(const struct world &x, float v)
{
    return x.k.precision == WISP_IN_BF16 ? rig_widen(rig_half(v)) : v;
}

struct truth {
    std::vector<double> w;     /* (active, width) as the products see it */
    std::vector<double> z, dz; /* (active, n) logits, and what they may be off by */
    std::vector<float> e0, e;  /* (active, n) the card's, after forward and after combine */
    std::vector<float> factor; /* (n) the card's */
    std::vector<char> is_true; /* (active, n) */
};

static size_t n_true(const struct world &x, size_t i)
{
    return x.starts[i + 1] - x.starts[i];
}

static float weight(const struct world &x, size_t row, size_t c) /* at the beginning */
{
    size_t at = row * x.s.width + c;
    return x.k.store == STORE_BF16 ? rig_widen(x.w.b16.was[x.w.b16.PAD + at])
                                   : x.w.w.was[x.w.w.PAD + at];
}

static void find_logits(struct truth *t, struct world *x)
{
    size_t n = x->s.n, used = x->s.active, width = x->s.width;
    std::vector<double> ht(width * n);
    struct sums p;
    t->w.resize(used * width), t->z.resize(used * n), t->dz.resize(used * n);
    for (size_t r = 0; r < used; r++)
        for (size_t c = 0; c < width; c++)
            t->w[r * width + c] = seen(*x, weight(*x, x->rows[r], c));
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < width; c++) ht[c * n + i] = seen(*x, x->h[i * width + c]);
    multiply(&p, t->w, used, width, ht, n);
    double most = x->k.precision == WISP_IN_FP32 ? 1e-5 : 2e-5;
    for (size_t at = 0; at < used * n; at++) {
        double b = x->bias.w.was[x->bias.w.PAD + x->rows[at / n]];
        t->z[at] = p.sum[at] + b;
        t->dz[at] = most * (p.mass[at] + fabs(b));
    }
    t->is_true.assign(used * n, 0);
    for (size_t i = 0; i < n; i++)
        for (uint32_t e = x->starts[i]; e < x->starts[i + 1]; e++) {
            size_t r =
                std::lower_bound(x->rows.begin(), x->rows.end(), x->labels[e]) - x->rows.begin();
            t->is_true[r * n + i] = 1;
        }
}

/* What is beyond exp is taken relative to the best, which the card finds itself: both may be off. */
static void move_origins(struct truth *t, struct world *x)
{
    size_t n = x->s.n, used = x->s.active;
    for (size_t i = 0; i < n; i++) {
        double best = -INFINITY;
        for (size_t r = 0; r < used; r++) best = std::max(best, t->z[r * n + i]);
        x->origin[i] = (float)best;
    }
    for (double &d : t->dz) d = 2 * d + 1e-4;
}

static double value_of(const struct world &x, double z, double origin)
{
    return x.k.loss == WISP_SOFTMAX ? exp(z - origin) : 1 / (1 + exp(-z));
}

/* What E may be off by before it is rounded. */
static double value_off(const struct world &x, double value, double dz)
{
    return value * (expm1(dz) + 1e-5) + (x.k.loss == WISP_BCE ? 1e-7 : 0);
}

static void check_forward(const struct truth &t, struct world *x)
{
    size_t n = x->s.n;
    double half = x->k.precision == WISP_IN_BF16 ? 1.0 / 256 : 0;
    for (size_t at = 0; at < t.z.size(); at++) {
        double want = value_of(*x, t.z[at], x->origin[at % n]);
        note(OFF_E, at / n, at % n, t.e0[at], want, value_off(*x, want, t.dz[at]) + half * want);
    }
}

static double target_of(const struct world &x, size_t i, bool is_true)
{
    double s = x.k.smoothing, each = x.k.loss == WISP_SOFTMAX ? 1.0 / (double)n_true(x, i) : 1;
    return (is_true ? (1 - s) * each : 0) + s / (double)x.s.active;
}

/* Factor and loss of sample i; returns the loss, adds to *most what it may be off by. */
static double check_sample(const struct truth &t, struct world *x, size_t i, double *most)
{
    size_t n = x->s.n, used = x->s.active, labels = n_true(*x, i);
    bool softmax = x->k.loss == WISP_SOFTMAX;
    double origin = x->origin[i], sum = 0, off = 0, square = 0, share = 0, dshare = 0;
    for (size_t r = 0; r < used; r++) {
        double z = t.z[r * n + i], dz = t.dz[r * n + i], value = value_of(*x, z, origin);
        double soft = z > 0 ? z + log1p(exp(-z)) : log1p(exp(z));
        sum += softmax ? value : soft;
        off += softmax ? value_off(*x, value, dz) : value * dz + 3e-6 * (1 + soft);
        square += value * value;
        double target = target_of(*x, i, t.is_true[r * n + i]);
        share += target * z, dshare += target * (dz + 1e-6 * fabs(z));
    }
    if (!softmax) {
        note(OFF_FACTOR, i, 0, t.factor[i], 1.0 / (double)n, 1e-6 / (double)n);
        *most += off + dshare;
        return sum - share;
    }
    if (labels == 0) {
        note(OFF_FACTOR, i, 0, t.factor[i], 0, 0);
        return 0;
    }
    if (x->k.precision == WISP_IN_BF16) off += 2.5 / 256 * sqrt(square);
    double want = 1 / (sum * (double)n);
    note(OFF_FACTOR, i, 0, t.factor[i], want, want * (off / sum + 1e-6));
    *most += off / sum + 1e-6 * (fabs(origin) + fabs(log(sum)) + 1) + dshare;
    return origin + log(sum) - share;
}

/* The largest E of each 32 rows, before combine; or nothing. */
static void check_maxima(const struct truth &t, struct world *x)
{
    size_t n = x->s.n, used = x->s.active, bad = 0, tiles = (used + 31) / 32;
    bool asked = x->o.fast && x->o.tile_max;
    x->tile_max.down();
    for (size_t at = 0; at < tiles * n && asked; at++) {
        float most = 0;
        for (size_t r = at / n * 32; r < at / n * 32 + 32 && r < used; r++)
            most = std::max(most, t.e0[r * n + at % n]);
        bad += x->tile_max[at / n * x->o.lde + at % n] != most;
    }
    CHECK(bad == 0, "%zu of %zu maxima are others", bad, tiles * n);
    size_t from = asked ? tiles * x->o.lde : 0;
    CHECK(x->tile_max.fences() && x->tile_max.same(from, x->tile_max.n),
          "maxima: written outside of them");
}

static void check_combine(const struct truth &t, struct world *x)
{
    size_t n = x->s.n, changed = 0;
    double loss = 0, most = 1e-9, half = x->k.precision == WISP_IN_BF16 ? 1.0 / 256 : 0;
    for (size_t i = 0; i < n; i++) loss += check_sample(t, x, i, &most);
    note(OFF_LOSS, 0, 0, x->loss[0] - 5.25, loss, most);
    for (size_t at = 0; at < t.z.size(); at++) {
        size_t i = at % n;
        if (!t.is_true[at] && (x->k.smoothing == 0 || t.factor[i] == 0)) {
            if (x->k.flavour == BEYOND) {
                double value = value_of(*x, t.z[at], x->origin[i]); /* 1e-37: below it, 0 */
                note(OFF_E, at / n, i, t.e[at], value,
                     value_off(*x, value, t.dz[at]) + half * value + 1e-37);
                continue;
            }
            changed += memcmp(&t.e[at], &t.e0[at], 4) != 0;
            continue;
        }
        /* Where targets are smoothed, what is taken from is a number of bf16 already. */
        double value = value_of(*x, t.z[at], x->origin[i]);
        double less = target_of(*x, i, t.is_true[at]) / (double)n / t.factor[i];
        double want = value - less, twice = x->k.smoothing > 0 ? half * (value + less) : 0;
        note(OFF_TRUE, at / n, i, t.e[at], want,
             value_off(*x, value, t.dz[at]) + 1e-5 * less + half * fabs(want) + twice);
    }
    CHECK(changed == 0, "combine changed E at %zu places that are no true labels", changed);
}

static void check_hidden(const struct truth &t, struct world *x)
{
    size_t n = x->s.n, used = x->s.active, width = x->s.width;
    std::vector<double> et(n * used);
    struct sums p;
    for (size_t at = 0; at < used * n; at++)
        et[at % n * used + at / n] = (double)t.factor[at % n] * t.e[at];
    multiply(&p, et, n, used, t.w, width);
    for (size_t at = 0; at < n * width; at++) {
        double pass = x->o.pass == 0 ? 1 : x->h[at] > 0 ? x->o.pass : 0;
        note(OFF_G, at / width, at % width, x->g[at], pass * p.sum[at], pass * allowed(*x, p, at));
    }
}

/* ---- moving: model/optimizer.c for gradients that are known up to 'off' ---- */

struct range { /* of numbers that are right */
    double from, to;
};

static void widen_range(struct range *r, double v)
{
    r->from = std::min(r->from, v), r->to = std::max(r->to, v);
}

static double ulp16(double v) /* the distance of bf16 numbers at v */
{
    int e;
    frexp(v, &e);
    return ldexp(1, e - 8);
}

/* The new weight is the old one less something in 'step'. */
static void check_weight(const struct world &x, struct param *p, size_t row, size_t c,
                         struct range step)
{
    size_t at = row * p->cols + c;
    bool half = p->b16.base != NULL;
    double old = half ? rig_widen(p->b16.was[p->b16.PAD + at]) : p->w.was[p->w.PAD + at];
    double got = half ? rig_widen(p->b16[at]) : p->w[at];
    double top = std::max(fabs(step.from), fabs(step.to));
    double most = (step.to - step.from) / 2 * 1.1 + 1e-5 * top + 0x1p-22 * fabs(old);
    double want = old - (step.from + step.to) / 2;
    if (half) most += ulp16(fabs(want) + most);
    note(p->cols == 1 && p == &x.bias ? OFF_BIAS : OFF_ROWS, row, c, got, want, most);
}

static void check_adagrad(const struct world &x, struct param *p, size_t row, const double *g,
                          const double *off)
{
    double mean = 0, slack = 0, cols = (double)p->cols, lr = rates[x.k.opt];
    for (size_t c = 0; c < p->cols; c++) {
        mean += g[c] * g[c] / cols;
        slack += (2 * fabs(g[c]) + off[c]) * off[c] / cols;
    }
    double g2 = p->g2.was[p->g2.PAD + row] + mean;
    double most = slack + 1e-5 * g2 + (mean > 0 ? 1e-37 : 0); /* squares may be too small */
    note(OFF_STATE, row, 0, p->g2[row], g2, most);
    for (size_t c = 0; c < p->cols; c++) {
        struct range step = { -lr * sqrt(cols), lr * sqrt(cols) }; /* no step is larger */
        if (g2 == 0) step.from = step.to = 0;
        if (g2 > most) {
            double low = sqrt(g2 - most), high = sqrt(g2 + most);
            step.from = step.to = lr * g[c] / sqrt(g2);
            for (double v : { g[c] - off[c], g[c] + off[c] })
                widen_range(&step, lr * v / low), widen_range(&step, lr * v / high);
        }
        check_weight(x, p, row, c, step);
    }
}

static void check_sgd(const struct world &x, struct param *p, size_t row, const double *g,
                      const double *off)
{
    for (size_t c = 0; c < p->cols; c++) {
        size_t at = row * p->cols + c;
        double lr = rates[x.k.opt], old = (double)MOMENTUM * p->m.was[p->m.PAD + at];
        double m = old + g[c], most = off[c] + 1e-6 * (fabs(old) + fabs(g[c]));
        note(OFF_STATE, row, c, p->m[at], m, most);
        check_weight(x, p, row, c, { lr * (m - most), lr * (m + most) });
    }
}

static void check_adam(const struct world &x, struct param *p, size_t row, const double *g,
                       const double *off)
{
    const double b1 = 0.9f, b2 = 0.999f, a1 = 1 - 0.9f, a2 = 1 - 0.999f; /* as floats have them */
    uint32_t t = std::min(p->count.was[p->count.PAD + row] + 1, 20000u);
    CHECK(p->count[row] == t, "row %zu: count %u, not %u", row, p->count[row], t);
    double root = sqrt((double)(*correct2)[t]), eps = 1e-8 * root;
    double rate = rates[x.k.opt] * root / (*correct1)[t];
    for (size_t c = 0; c < p->cols; c++) {
        size_t at = row * p->cols + c;
        double m0 = b1 * p->m.was[p->m.PAD + at], v0 = b2 * p->v.was[p->v.PAD + at];
        double m = m0 + a1 * g[c], v = v0 + a2 * g[c] * g[c];
        note(OFF_STATE, row, c, p->m[at], m, a1 * off[c] + 1e-6 * (fabs(m0) + a1 * fabs(g[c])));
        note(OFF_STATE, row, c, p->v[at], v,
             a2 * (2 * fabs(g[c]) + off[c]) * off[c] + 1e-6 * v + 1e-37);
        struct range step = { INFINITY, -INFINITY };
        for (int k = -4; k <= 4; k++) {
            double x1 = g[c] + off[c] * k / 4;
            widen_range(&step, rate * (m0 + a1 * x1) / (sqrt(v0 + a2 * x1 * x1) + eps));
        }
        check_weight(x, p, row, c, step);
    }
}

static void check_move(const struct world &x, struct param *p, size_t row, const double *g,
                       const double *off)
{
    if (x.k.opt == WISP_ADAM) check_adam(x, p, row, g, off);
    else if (x.k.opt == WISP_ADAGRAD) check_adagrad(x, p, row, g, off);
    else check_sgd(x, p, row, g, off);
    for (size_t c = 0; c < p->cols && p->copy.base; c++) {
        size_t at = row * p->cols + c;
        CHECK(p->copy[at] == rig_half(p->w[at]), "the copy of (%zu, %zu) is not w", row, c);
    }
}

static void check_rows(const struct truth &t, struct world *x, const std::vector<float> &heat)
{
    size_t n = x->s.n, used = x->s.active, width = x->s.width;
    std::vector<double> e(t.e.begin(), t.e.end()), fh(n * width), f(n), off(width);
    struct sums p, b;
    for (size_t i = 0; i < n; i++) f[i] = t.factor[i];
    for (size_t at = 0; at < n * width; at++)
        fh[at] = x->k.precision == WISP_IN_BF16 ? seen(*x, t.factor[at / width] * x->h[at])
                                                : f[at / width] * x->h[at];
    multiply(&p, e, used, n, fh, width);
    multiply(&b, e, used, n, f, 1);
    for (size_t r = 0; r < used; r++) {
        size_t row = (size_t)x->rows[r];
        double bias_off = allowed(*x, b, r);
        note(OFF_HEAT, r, 0, heat[r], b.sum[r], bias_off);
        check_move(*x, &x->bias, row, &b.sum[r], &bias_off);
        for (size_t c = 0; c < width; c++) off[c] = allowed(*x, p, r * width + c);
        check_move(*x, &x->w, row, &p.sum[r * width], off.data());
    }
}

/* ---- what must not change ---- */

template <class T>
static void check_rest(const char *what, const struct world &x, const fenced<T> &a, size_t cols,
                       bool active_may)
{
    size_t changed = 0, next = 0;
    if (!a.base) return;
    for (size_t row = 0; row < x.s.n_labels; row++) {
        bool active = next < x.rows.size() && (size_t)x.rows[next] == row;
        next += active;
        changed += !(active && active_may) && !a.same(row * cols, (row + 1) * cols);
    }
    CHECK(changed == 0, "%s: %zu rows changed that should not", what, changed);
    CHECK(a.fences(), "%s: written outside of it", what);
}

static void check_param(const struct world &x, const struct param &p, bool active_may)
{
    check_rest("w", x, p.w, p.cols, active_may);
    check_rest("b16", x, p.b16, p.cols, active_may);
    check_rest("copy", x, p.copy, p.cols, active_may);
    check_rest("m", x, p.m, p.cols, active_may);
    check_rest("v", x, p.v, p.cols, active_may);
    check_rest("g2", x, p.g2, 1, active_may);
    check_rest("count", x, p.count, 1, active_may);
}

template <class T> static void check_input(const char *what, fenced<T> *a)
{
    a->down();
    CHECK(a->same(0, a->n) && a->fences(), "%s: changed", what);
}

static void check_untouched(struct world *x, bool active_may)
{
    check_param(*x, x->w, active_may);
    check_param(*x, x->bias, active_may);
    check_input("h", &x->h), check_input("origin", &x->origin), check_input("yp", &x->yp);
    check_input("yi", &x->yi), check_input("n", &x->n), check_input("rows", &x->list);
    check_input("bits", &x->bits), check_input("before", &x->before);
    x->block.down();
    CHECK(x->block.fences(), "written outside of the block");
    CHECK(x->g.fences(), "written outside of g");
    CHECK(x->loss.fences(), "written outside of the loss");
}

/* ---- the cases ---- */

static void announce(const struct shape &s, const struct how &k)
{
    static char name[200];
    test_close(); /* which prints the old one */
    snprintf(name, sizeof name, "out %zu of %zu x %zu of %zu x %zu, %s, %s, %s, %s, %s%s", s.n,
             s.batch, s.active, s.n_labels, s.width, opt_names[k.opt], loss_names[k.loss],
             precision_names[k.precision], store_names[k.store], flavour_names[k.flavour],
             k.smoothing > 0 ? ", smoothed" : "");
    TEST(name);
    off_precision = k.precision;
}

static void check_repeats(struct world *x, const struct shot &first)
{
    struct shot second;
    begin(x, 0x7f);
    run_graph(*x);
    shoot(&second, x);
    for (int i = 0; i < SHOTS; i++)
        CHECK(first.part[i] == second.part[i], "%s: another result the second time", shot_names[i]);
}

static void check_case(struct shape s, struct how k)
{
    struct world x;
    struct truth t;
    struct shot shot;
    announce(s, k);
    build(&x, s, k);
    begin(&x, 0xff);
    wisp_out_forward(x.o, 0);
    rig_sync("forward");
    t.e0 = take_e(x);
    wisp_out_combine(x.o, 0);
    rig_sync("combine");
    t.e = take_e(x);
    t.factor = take(x.o.factor, s.n);
    wisp_out_hidden(x.o, 0);
    rig_sync("hidden");
    wisp_out_rows(x.o, 0);
    rig_sync("rows");
    shoot(&shot, &x);
    std::vector<float> heat = take(x.o.heat, s.active), e = take_e(x);
    CHECK(memcmp(e.data(), t.e.data(), e.size() * 4) == 0, "hidden or rows changed E");
    find_logits(&t, &x);
    if (k.flavour == BEYOND) move_origins(&t, &x);
    else check_forward(t, &x);
    check_maxima(t, &x);
    check_combine(t, &x);
    check_hidden(t, &x);
    check_rows(t, &x, heat);
    settle();
    check_untouched(&x, true);
    check_repeats(&x, shot);
}

/* No samples, or no active rows: nothing moves. */
static void check_nothing(struct shape s, struct how k)
{
    struct world x;
    announce(s, k);
    build(&x, s, k);
    begin(&x, 0xff);
    launch_all(x, 0);
    rig_sync("all of it");
    down(&x.w), down(&x.bias), x.g.down(), x.loss.down();
    check_untouched(&x, false);
    CHECK(x.loss[0] == 5.25, "the loss is %g", x.loss[0] - 5.25);
    for (size_t at = 0; at < s.n * s.width; at++)
        CHECK(x.g[at] == 0, "g of sample %zu is %g", at / s.width, x.g[at]);
    run_graph(x);
}

static void time_all(struct shape s)
{
    struct world x;
    struct how k = { WISP_ADAGRAD, WISP_SOFTMAX, WISP_IN_FP32, STORE_COPY, PLAIN, 0 };
    build(&x, s, k);
    x.o.outside = false, x.o.tile_max = x.tile_max.dev();
    for (int p = 0; p < 2; p++) {
        lay_out(&x, (enum wisp_precision_id)p);
        begin(&x, 0);
        double flops = 2.0 * (double)(s.n * s.active * s.width), us[4];
        us[0] = 1e3 * rig_ms([&] { wisp_out_forward(x.o, 0); });
        us[1] = 1e3 * rig_ms([&] { wisp_out_combine(x.o, 0); });
        us[2] = 1e3 * rig_ms([&] { wisp_out_hidden(x.o, 0); });
        us[3] = 1e3 * rig_ms([&] { wisp_out_rows(x.o, 0); });
        rig_sync("timing");
        static const char *const names[] = { "forward", "combine", "hidden", "rows" };
        for (int f = 0; f < 4; f++) {
            printf("  time out %-7s %s, %4zu x %5zu x %zu: %8.1f us", names[f], precision_names[p],
                   s.n, s.active, s.width, us[f]);
            if (f == 1) printf("\n");
            else printf(", %6.1f TFLOP/s\n", flops / us[f] * 1e-6);
        }
    }
}

static void make_corrections(void) /* 1 - beta^t */
{
    correct1 = new both<float>(20001), correct2 = new both<float>(20001);
    for (int t = 0; t <= 20000; t++) {
        (*correct1)[t] = (float)(1 - pow(0.9f, t));
        (*correct2)[t] = (float)(1 - pow(0.999f, t));
    }
    correct1->up(), correct2->up();
}

static const struct shape shapes[] = {
    /* the first SMALL where RIG_SMALL is set */
    { 1, 1, 1, 4, 5 },
    { 7, 8, 33, 12, 100 },
    { 64, 64, 64, 64, 300 },
    { 40, 64, 97, 20, 97 },
    { 100, 128, 200, 100, 1000 },
    { 130, 256, 500, 128, 3000 },
    { 256, 256, 1500, 256, 5000 },
    { 33, 64, 70, 512, 200 },
    { 530, 600, 300, 128, 1000 },
    { 1000, 1024, 333, 200, 900 },
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, SMALL = 4 };

int main(void)
{
    bool small = getenv("RIG_SMALL") != NULL;
    size_t turn = 0;
    make_corrections();
    for (size_t i = 0; i < (small ? SMALL : N_SHAPES); i++, turn++)
        for (int v = 0; v < 12; v++, turn++)
            check_case(shapes[i],
                       { (enum wisp_optimizer_id)(v / 4), (enum wisp_loss_id)(v / 2 % 2),
                         (enum wisp_precision_id)(v % 2), (enum store)(turn % STORES), PLAIN, 0 });
    for (int f = MANY; f <= BARE; f++)
        for (int v = 0; v < (small ? 4 : 8); v++, turn++)
            check_case(shapes[v < 4 ? 1 : 4],
                       { (enum wisp_optimizer_id)(turn % 3), (enum wisp_loss_id)(v / 2 % 2),
                         (enum wisp_precision_id)(v % 2), (enum store)(turn / 3 % STORES),
                         (enum flavour)f, 0 });
    for (int v = 0; v < (small ? 8 : 16); v++, turn++) /* nobody has looked at the logits before */
        check_case(shapes[1 + v / 4],
                   { (enum wisp_optimizer_id)(turn % 3), WISP_SOFTMAX,
                     (enum wisp_precision_id)(v % 2), (enum store)(turn / 3 % STORES), BEYOND,
                     v % 4 < 2 ? 0 : 0.1f });
    for (size_t i = 1; i < (small ? SMALL : N_SHAPES); i++) /* all rows are active */
        for (int v = 0; v < 4; v++, turn++) {
            struct shape s = shapes[i];
            s.n_labels = s.active;
            check_case(s, { (enum wisp_optimizer_id)(turn % 3), WISP_SOFTMAX,
                            (enum wisp_precision_id)(v % 2), (enum store)(turn / 3 % STORES),
                            v < 2 ? PLAIN : FAR, v < 2 ? 0.1f : 0.7f });
        }
    for (int v = 0; v < 8; v++, turn++)
        check_nothing(v < 4 ? shape{ 0, 8, 33, 12, 100 } : shape{ 7, 8, 0, 12, 100 },
                      { (enum wisp_optimizer_id)(turn % 3), (enum wisp_loss_id)(v / 2 % 2),
                        (enum wisp_precision_id)(v % 2), (enum store)(turn / 3 % STORES), BARE,
                        v % 4 == 0 ? 0.1f : 0 });
    test_close();
    for (int p = 0; p < 2; p++) {
        printf("  largest error as a share of what is allowed, %s:", precision_names[p]);
        for (int i = 0; i < OFFS; i++)
            printf("%s %s %.2g", i ? "," : "", off_names[i], worst[p][i]);
        printf("\n");
    }
    if (!small) {
        time_all({ 256, 256, 6400, 128, 670091 });
        time_all({ 1024, 1024, 20000, 128, 670091 });
        time_all({ 256, 256, 6400, 256, 670091 });
    }
    delete correct1;
    delete correct2;
    return test_end();
}

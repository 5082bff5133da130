/* Fitting calibrations: Newton's method on the pairs, serially and in double, so that the same
 * pairs give the same bytes.  6 to 10 passes over the pairs, some 30 ns a pair each. */
#include "model/calibrate.h"
#include "base/bounds.h"
#include "base/mem.h"
#include "model/metrics.h"
#include "model/kind.h"

#include <math.h>
#include <string.h>

enum { N = WISP_CALIBRATION_WEIGHTS, FOLDS = 5, STEPS = 50 };

/* The pull towards the raw score, as a penalty of PULL/2 on the squared change of a weight: 3 was
 * best or near it from 30 to 1000 rows of five data sets (docs/prediction.md). */
static const double PULL = 3;
static const double RAW[N] = { 1, 1, 0, 0 };

struct wisp_pair_seen {
    float x[2];      /* ln p, -ln(1 - p) */
    float best;      /* ln of the row's best */
    uint16_t missed; /* true labels that are not among the row's best, at the last of these */
    uint8_t fold, is_true;
};

/* ---- use ---- */

/* Scores of 0 and 1 are rounded ones: what they stand for is not known, but it is no certainty. */
static void features(double x[N], float p, float best)
{
    const double least = 1e-12, gap = 0x1p-25;
    x[0] = log(p > least ? p : least);
    x[1] = -log(1 - (double)p > gap ? 1 - (double)p : gap);
    x[2] = 1;
    x[3] = log(best > least ? best : least);
}

static double sigmoid(double z)
{
    return 1 / (1 + exp(-z));
}

float wisp_calibrated(const struct wisp_calibration *c, float p, float best)
{
    double x[N], z = 0;
    features(x, p, best);
    for (int i = 0; i < N; i++) z += c->w[i] * x[i];
    return (float)sigmoid(z);
}

bool wisp_calibration_is_raw(const struct wisp_calibration *c)
{
    for (int i = 0; i < N; i++)
        if (c->w[i] != (float)RAW[i]) return false;
    return true;
}

bool wisp_calibration_ok(const struct wisp_calibration *c)
{
    for (int i = 0; i < N; i++)
        if (!isfinite(c->w[i])) return false;
    return c->w[0] >= 0 && c->w[1] >= 0 && c->ece >= 0 && c->ece <= 100 && c->ece_raw >= 0 &&
           c->ece_raw <= 100;
}

/* ---- pairs ---- */

wisp_status wisp_pairs_init(struct wisp_pairs *p, size_t room, wisp_error *err)
{
    *p = (struct wisp_pairs){ .room = room, .seen = wisp_alloc(room, sizeof *p->seen) };
    return p->seen ? WISP_OK : wisp_fail_mem(err, room * sizeof *p->seen, "the calibration");
}

void wisp_pairs_clear(struct wisp_pairs *p)
{
    wisp_free(p->seen);
    *p = (struct wisp_pairs){ 0 };
}

void wisp_pairs_add(struct wisp_pairs *p, const int32_t *labels, const float *scores, size_t k,
                    const int32_t *truth, size_t n_truth)
{
    size_t first = p->n, missed = n_truth < UINT16_MAX ? n_truth : UINT16_MAX;
    for (size_t c = 0; c < k && labels[c] >= 0 && p->n < p->room; c++) {
        double x[N];
        features(x, scores[c], scores[0]);
        p->seen[p->n++] =
            (struct wisp_pair_seen){ .x = { (float)x[0], (float)x[1] },
                                     .best = (float)x[3],
                                     .fold = (uint8_t)(p->n_rows % FOLDS),
                                     .is_true = wisp_is_true(labels[c], truth, n_truth) };
    }
    for (size_t i = first; i < p->n && missed > 0; i++) missed -= p->seen[i].is_true;
    if (p->n > first) p->seen[p->n - 1].missed = (uint16_t)missed;
    p->n_rows++;
}

/* ---- fitting ---- */

struct sums { /* of the loss: its gradient, and the lower half of the gradient's derivative */
    double gradient[N], hessian[N][N];
};

struct fit {
    const struct wisp_pairs *p;
    bool fixed[N]; /* weights that stay 0 */
    double loss;
    struct sums fold[FOLDS];
};

static double pull(const double *w)
{
    double sum = 0;
    for (int a = 0; a < N; a++) sum += PULL / 2 * (w[a] - RAW[a]) * (w[a] - RAW[a]);
    return sum;
}

static double dot(const struct wisp_pair_seen *s, const double *w)
{
    return w[0] * s->x[0] + w[1] * s->x[1] + w[2] + w[3] * s->best;
}

/* The loss at w, and the sums of each fold. */
static void look(struct fit *f, const double *w)
{
    double product = 1; /* of 1 + e, each at most 2: one logarithm serves many pairs */
    f->loss = pull(w);
    memset(f->fold, 0, sizeof f->fold);
    for (size_t i = 0; i < f->p->n; i++) {
        const struct wisp_pair_seen *s = &f->p->seen[i];
        struct sums *to = &f->fold[s->fold];
        const double x[N] = { s->x[0], s->x[1], 1, s->best };
        double z = dot(s, w), e = exp(-fabs(z)), q = (z < 0 ? e : 1) / (1 + e);
        f->loss += fmax(z, 0) - (s->is_true ? z : 0);
        product *= 1 + e;
        if (i % 512 == 511) f->loss += log(product), product = 1;
        for (int a = 0; a < N; a++) {
            to->gradient[a] += (q - s->is_true) * x[a];
            for (int b = 0; b <= a; b++) to->hessian[a][b] += q * (1 - q) * x[a] * x[b];
        }
    }
    f->loss += log(product);
}

/* All folds but one (-1: all), with the pull; what is fixed does not move. */
static void gather(struct sums *to, const struct fit *f, const double *w, int without)
{
    *to = (struct sums){ 0 };
    for (int a = 0; a < N; a++) {
        for (int k = 0; k < FOLDS; k++) {
            if (k == without) continue;
            to->gradient[a] += f->fold[k].gradient[a];
            for (int b = 0; b <= a; b++) to->hessian[a][b] += f->fold[k].hessian[a][b];
        }
        to->gradient[a] += PULL * (w[a] - RAW[a]);
        to->hessian[a][a] += PULL;
        for (int b = 0; b <= a; b++)
            if (f->fixed[a] || f->fixed[b]) to->hessian[a][b] = a == b;
        if (f->fixed[a]) to->gradient[a] = 0;
    }
}

/* d = hessian^-1 gradient, by Cholesky: the pull makes it positive definite. */
static void solve(double *d, const struct sums *s)
{
    double l[N][N];
    for (int a = 0; a < N; a++)
        for (int b = 0; b <= a; b++) {
            double v = s->hessian[a][b];
            for (int c = 0; c < b; c++) v -= l[a][c] * l[b][c];
            l[a][b] = a == b ? sqrt(v) : v / l[b][b];
        }
    for (int a = 0; a < N; a++) {
        d[a] = s->gradient[a];
        for (int b = 0; b < a; b++) d[a] -= l[a][b] * d[b];
        d[a] /= l[a][a];
    }
    for (int a = N - 1; a >= 0; a--) {
        for (int b = a + 1; b < N; b++) d[a] -= l[b][a] * d[b];
        d[a] /= l[a][a];
    }
}

/* From w downhill to the minimum; a step that overshoots is halved.  A step of 1e-4 leaves an error
 * of about its square. */
static void descend(struct fit *f, double *w)
{
    struct sums all;
    double d[N], size = 1;
    look(f, w);
    for (int step = 0; step < STEPS && size > 1e-4; step++) {
        double loss = f->loss, share = 1, to[N];
        gather(&all, f, w, -1);
        solve(d, &all);
        for (;; share /= 2) {
            for (int a = 0; a < N; a++) to[a] = w[a] - share * d[a];
            look(f, to);
            if (f->loss <= loss || share < 1e-3) break;
        }
        if (f->loss > loss) return; /* rounding is all that is left */
        memcpy(w, to, sizeof to);
        size = 0;
        for (int a = 0; a < N; a++) size = fmax(size, fabs(share * d[a]));
    }
}

/* The minimum with w0 and w1 from 0 on: one that wants to be less is 0. */
static void minimise(struct fit *f, double *w)
{
    for (bool again = true; again;) {
        descend(f, w);
        again = false;
        for (int a = 0; a < 2; a++)
            if (w[a] < 0) w[a] = 0, f->fixed[a] = again = true;
    }
}

/* The minimum without a fold, by one step from that of all. */
static void minimise_without(double *part, const struct fit *f, const double *w, int fold)
{
    struct sums others;
    double d[N];
    gather(&others, f, w, fold);
    solve(d, &others);
    for (int a = 0; a < N; a++) part[a] = a < 2 ? fmax(0, w[a] - d[a]) : w[a] - d[a];
}

/* -ln of what was given to the truth; in a form that does not overflow. */
static double log_loss(double z, bool is_true)
{
    return fmax(z, 0) - (is_true ? z : 0) + log1p(exp(-fabs(z)));
}

/* The loss of a prediction, and of the labels that are missed: each as if it had the score of the
 * row's last, which is the least that it can cost. */
static double loss_of(const struct wisp_pair_seen *s, double z)
{
    return log_loss(z, s->is_true) + s->missed * log_loss(z, true);
}

double wisp_calibration_fit(struct wisp_calibration *out, const struct wisp_pairs *p)
{
    struct wisp_reliability raw = { 0 }, fitted = { 0 };
    struct fit f = { .p = p };
    double w[N], part[FOLDS][N], gain = 0, loss[2] = { 0 };
    bool few = p->n_rows < WISP_CALIBRATION_FEW;
    memcpy(w, RAW, sizeof w);
    if (!few) minimise(&f, w);
    for (int k = 0; k < FOLDS && !few; k++) minimise_without(part[k], &f, w, k);
    for (size_t i = 0; i < p->n; i++) {
        const struct wisp_pair_seen *s = &p->seen[i];
        double before = dot(s, RAW), after = few ? before : dot(s, part[s->fold]);
        gain += log_loss(before, s->is_true) - log_loss(after, s->is_true);
        loss[0] += loss_of(s, before);
        loss[1] += loss_of(s, after);
        wisp_reliability_add(&raw, sigmoid(before), s->is_true);
        wisp_reliability_add(&fitted, sigmoid(after), s->is_true);
    }
    bool better = gain > 0;
    for (int a = 0; a < N; a++) out->w[a] = (float)(better ? w[a] : RAW[a]);
    out->ece_raw = (float)wisp_reliability_ece(&raw);
    out->ece = better ? (float)wisp_reliability_ece(&fitted) : out->ece_raw;
    return p->n_rows ? loss[better] / (double)p->n_rows : 0;
}

/* ---- a model's ---- */

/* Fits wisp_scorer.look. */
static void collect(void *arg, const struct wisp_scorer *s)
{
    const struct wisp_batch *b = &s->layout.batch;
    for (size_t i = 0; i < b->n; i++)
        wisp_pairs_add(arg, s->labels + i * s->k, s->scores + i * s->k, s->k, b->yi + b->yp[i],
                       b->yp[i + 1] - b->yp[i]);
}

wisp_status wisp_pairs_watch(struct wisp_pairs *p, struct wisp_scorer *s, size_t n_rows,
                             wisp_error *err)
{
    size_t most = n_rows < WISP_CALIBRATION_ROWS ? n_rows : WISP_CALIBRATION_ROWS;
    wisp_status st = p->seen ? WISP_OK : wisp_pairs_init(p, most * s->k, err);
    p->n = p->n_rows = 0;
    s->look = collect, s->look_arg = p;
    s->look_every = wisp_parts(n_rows, WISP_CALIBRATION_ROWS);
    return st;
}

/* The best labels by votes of the same rows; a card is left aside. */
static wisp_status collect_sparse(struct wisp_pairs *p, struct wisp_scorer *s,
                                  const struct wisp_data *d, wisp_error *err)
{
    struct wisp_cuda_scorer *card = s->card;
    const size_t batch = s->batch;
    s->card = NULL;
    s->batch = wisp_kind_of(s->m)->batch(s->m);
    wisp_status st = wisp_scorer_use_some(s, err);
    p->n = p->n_rows = 0;
    size_t ids[WISP_SCORE_BATCH];
    for (size_t first = 0; st == WISP_OK && first < d->n_rows; first += s->batch) {
        if (first / WISP_SCORE_BATCH % s->look_every != 0) continue;
        size_t n = d->n_rows - first < s->batch ? d->n_rows - first : s->batch;
        for (size_t i = 0; i < n; i++) ids[i] = first + i;
        st = wisp_scorer_run(s, d, ids, n, err);
        if (st == WISP_OK) collect(p, s);
    }
    wisp_scorer_use_all(s);
    s->card = card;
    s->batch = batch;
    return st;
}

wisp_status wisp_model_calibrate(struct wisp_model *m, struct wisp_scorer *s, struct wisp_pairs *p,
                                 const struct wisp_data *valid, wisp_error *err)
{
    wisp_calibration_fit(&m->fitted[WISP_EXACT], p);
    m->calibration[WISP_EXACT] = &m->fitted[WISP_EXACT];
    if (wisp_model_guide(m) != WISP_GUIDE_VOTES) return WISP_OK;
    wisp_status st = collect_sparse(p, s, valid, err);
    if (st != WISP_OK) return st;
    wisp_calibration_fit(&m->fitted[WISP_SPARSE], p);
    m->calibration[WISP_SPARSE] = &m->fitted[WISP_SPARSE];
    return WISP_OK;
}

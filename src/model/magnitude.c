/* Cutting weights of least magnitude. */
#include "model/magnitude.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

enum { CUTS = 100 };             /* of a run, about */
enum { DIGIT = 16, DIGITS = 2 }; /* bits of a magnitude that are counted at once */

bool wisp_magnitude_cuts(const struct wisp_layer *l)
{
    return l->n_params && (l->kind->thins || l->params[0].wired);
}

static bool cuts(const struct wisp_net *net, const struct wisp_param *p)
{
    const struct wisp_layer *l = &net->layers[p->layer];
    return p == &l->params[0] && wisp_magnitude_cuts(l);
}

/* ---- staying 0 ---- */

static void move_row(const struct wisp_update *u, struct wisp_param *p, size_t row, const float *g)
{
    const struct wisp_magnitude *m = (const struct wisp_magnitude *)u;
    uint8_t *keep = m->keep[p - m->net->list.p];
    size_t n, at = wisp_param_row(p, row, &n);
    m->moves->row(m->moves, p, row, g);
    for (size_t i = at; keep && i < at + n; i++) {
        if (!keep[i]) p->w[i] = 0;
        keep[i] = p->w[i] != 0;
    }
}

wisp_status wisp_magnitude_make(struct wisp_magnitude *m, const struct wisp_net *net,
                                const struct wisp_update *moves, size_t steps, wisp_error *err)
{
    size_t widest = 0;
    *m = (struct wisp_magnitude){
        { move_row }, .moves = moves, .net = net, .n_params = net->list.n, .steps = steps
    };
    m->every = steps > CUTS ? steps / CUTS : 1;
    for (int i = 0; i < net->n_layers; i++)
        if (net->layers[i].n_out > widest) widest = net->layers[i].n_out;
    m->keep = wisp_zalloc(net->list.n, sizeof *m->keep);
    m->counts = wisp_alloc((size_t)1 << DIGIT, sizeof *m->counts);
    m->any = wisp_alloc(widest, sizeof *m->any);
    bool ok = m->keep && m->counts && m->any;
    for (size_t p = 0; ok && p < net->list.n; p++) {
        const struct wisp_param *q = &net->list.p[p];
        if (!cuts(net, q)) continue;
        m->keep[p] = wisp_alloc(q->n, sizeof *m->keep[p]);
        ok = m->keep[p] != NULL;
        for (size_t i = 0; ok && i < q->n; i++) m->keep[p][i] = q->w[i] != 0;
        m->n += q->n;
    }
    if (ok) return WISP_OK;
    wisp_magnitude_clear(m);
    return wisp_fail_mem(err, m->n, "the weights that are left");
}

void wisp_magnitude_clear(struct wisp_magnitude *m)
{
    for (size_t p = 0; m->keep && p < m->n_params; p++) wisp_free(m->keep[p]);
    wisp_free(m->keep);
    wisp_free(m->counts);
    wisp_free(m->any);
    m->keep = NULL, m->counts = NULL, m->any = NULL;
}

/* ---- cutting ---- */

/* Floats from 0 on are in the order of their bits. */
static uint32_t magnitude(float w)
{
    const float size = fabsf(w);
    uint32_t bits;
    memcpy(&bits, &size, sizeof bits);
    return bits;
}

/* Counts the next digit of the magnitudes that begin like 'found' above it. */
static void count(const struct wisp_magnitude *m, uint32_t found, int shift)
{
    const uint64_t above = (uint64_t)found >> (shift + DIGIT);
    memset(m->counts, 0, ((size_t)1 << DIGIT) * sizeof *m->counts);
    for (size_t p = 0; p < m->net->list.n; p++) {
        const struct wisp_param *q = &m->net->list.p[p];
        for (size_t i = 0; m->keep[p] && i < q->n; i++) {
            const uint32_t bits = magnitude(q->w[i]);
            if ((uint64_t)bits >> (shift + DIGIT) == above)
                m->counts[bits >> shift & ((1u << DIGIT) - 1)]++;
        }
    }
}

/* The magnitude that n weights are below; fewer, where several are equal to it.  Digit by digit, from
 * the highest on. */
static uint32_t limit(const struct wisp_magnitude *m, size_t n)
{
    uint32_t found = 0;
    for (int shift = DIGIT * (DIGITS - 1); shift >= 0; shift -= DIGIT) {
        uint32_t digit = 0;
        count(m, found, shift);
        while (digit + 1 < 1u << DIGIT && n >= m->counts[digit]) n -= m->counts[digit++];
        found |= digit << shift;
    }
    return found;
}

/* A unit without weights is nothing but its bias: it goes too. */
static void clear_biases(struct wisp_magnitude *m)
{
    for (int i = 0; i < m->net->n_layers; i++) {
        const struct wisp_layer *l = &m->net->layers[i];
        if (!wisp_magnitude_cuts(l)) continue;
        const struct wisp_param *w = &l->params[0];
        memset(m->any, 0, l->n_out * sizeof *m->any);
        for (size_t r = 0; r < w->rows; r++) {
            size_t n, at = wisp_param_row(w, r, &n);
            for (size_t k = 0; k < n; k++) m->any[w->wired ? r : k] |= w->w[at + k] != 0;
        }
        for (size_t o = 0; o < l->n_out; o++)
            if (!m->any[o]) l->params[1].w[o] = 0;
    }
}

/* One limit for all layers: those with few inputs have larger weights, and lose fewer of them. */
static void cut(struct wisp_magnitude *m, double share)
{
    const uint32_t least = limit(m, (size_t)(share * (double)m->n));
    for (size_t p = 0; p < m->net->list.n; p++) {
        struct wisp_param *q = &m->net->list.p[p];
        for (size_t i = 0; m->keep[p] && i < q->n; i++) {
            if (magnitude(q->w[i]) < least) q->w[i] = 0;
            m->keep[p][i] = q->w[i] != 0;
        }
    }
    clear_biases(m);
}

void wisp_magnitude_step(struct wisp_magnitude *m, double share, size_t done)
{
    const double left = 1 - (double)done / (double)m->steps;
    if (done <= m->steps && (done % m->every == 0 || done == m->steps))
        cut(m, share * (1 - left * left * left));
}

/* Times by numbers of channels, and which number to take. */
#include "model/widths.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "conv/conv.h"
#include "conv/kept.h"
#include "conv/measure.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS = 5, IN = 256, SAMPLES = 16, CALLS = 8, BLOCK = WISP_WIDTHS_BLOCK };
static const char *const FORMS[WISP_N_WIDTHS] = { "maps", "units" };
/* A channel must take less by so much for one to be let go; a layer, for others to stay. */
static const double LESS_EACH = 0.95, LESS = 0.9, WEAK = 0.01, ALIKE = 1.03;

/* ---- measuring ---- */

static bool measure_maps(double *time, const struct wisp_conv_choice *how)
{
    struct wisp_conv c = { .in = 64,
                           .out = WISP_WIDTHS_MOST,
                           .h = 16,
                           .w = 16,
                           .kh = 3,
                           .kw = 3,
                           .stride = 1,
                           .pad_h = 1,
                           .pad_w = 1,
                           .groups = 1,
                           .oh = 16,
                           .ow = 16,
                           .block = BLOCK,
                           .batch = 2,
                           .threads = 1 };
    const struct wisp_conv_way *way = wisp_conv_choose(&c, WISP_CONV_FORWARD, how);
    bool ok = true;
    for (size_t n = 1; n <= WISP_WIDTHS_MOST; n++) time[n] = INFINITY;
    for (int turn = 0; turn < TURNS; turn++)
        for (size_t n = 1; n <= WISP_WIDTHS_MOST; n++) {
            c.out = n;
            time[n] = fmin(time[n], wisp_conv_seconds(&c, WISP_CONV_FORWARD, how->k, way));
        }
    for (size_t n = 1; n <= WISP_WIDTHS_MOST; n++) ok &= isfinite(time[n]);
    return ok;
}

static bool measure_units(double *time, const struct wisp_kernels *k)
{
    float *x = wisp_zalloc(SAMPLES * IN, sizeof *x),
          *w = wisp_zalloc(IN * WISP_WIDTHS_MOST, sizeof *w),
          *y = wisp_zalloc(SAMPLES * WISP_WIDTHS_MOST, sizeof *y);
    const bool ok = x && w && y;
    for (size_t n = 1; n <= WISP_WIDTHS_MOST; n++) time[n] = INFINITY;
    for (int turn = 0; turn < TURNS && ok; turn++)
        for (size_t n = 1; n <= WISP_WIDTHS_MOST; n++) {
            const double began = wisp_now();
            for (int call = 0; call < CALLS; call++)
                k->gemm(y, n, x, IN, 1, w, n, SAMPLES, n, IN, false);
            time[n] = fmin(time[n], wisp_now() - began);
        }
    wisp_free(x);
    wisp_free(w);
    wisp_free(y);
    return ok;
}

/* ---- the file ---- */

enum { KEY = 200, VALUE = 5 * WISP_WIDTHS_MOST + 1 };

/* Thousandths of the last one's, with commas between. */
static bool read_times(void *arg, const char *value, size_t length)
{
    double *time = arg;
    size_t n = 0, at = 0;
    while (at < length && n < WISP_WIDTHS_MOST) {
        long v = 0;
        size_t digits = 0;
        for (; at < length && value[at] >= '0' && value[at] <= '9' && digits < 5; at++, digits++)
            v = 10 * v + value[at] - '0';
        if (digits == 0 || v == 0 || (at < length && value[at] != ',')) return false;
        at++;
        time[++n] = (double)v / 1000;
    }
    return n == WISP_WIDTHS_MOST && at == length + 1 && time[n] == 1;
}

static void write_times(char out[VALUE], const double *time)
{
    size_t at = 0;
    for (size_t n = 1; n <= WISP_WIDTHS_MOST; n++) {
        const double v = fmin(9999, fmax(1, round(1000 * time[n] / time[WISP_WIDTHS_MOST])));
        at += (size_t)snprintf(out + at, VALUE - at, "%s%d", n > 1 ? "," : "", (int)v);
    }
}

static bool know(double *time, int of, const struct wisp_conv_choice *how)
{
    char key[KEY], value[VALUE], cpu[WISP_CPU_NAME];
    const char *const places[2] = { how->file, how->other };
    wisp_cpu_name(cpu);
    const int length =
        snprintf(key, sizeof key, "wisp-widths 1\t%s\t%s\t%s\t", cpu, how->k->name, FORMS[of]);
    if (length <= 0 || length >= KEY) return false;
    for (int i = 0; i < 2; i++)
        if (places[i] && wisp_kept_find(places[i], key, read_times, time)) return true;
    if (!(of == WISP_WIDTHS_MAPS ? measure_maps(time, how) : measure_units(time, how->k)))
        return false;
    write_times(value, time);
    for (int i = 0; i < 2; i++) /* what lies there then, which may be another process's */
        if (places[i] && wisp_kept_add(places[i], key, value) &&
            wisp_kept_find(places[i], key, read_times, time))
            return true;
    return false;
}

/* Does a layer make the channels of this value? */
static bool makes(const struct wisp_layer *l)
{
    for (int a = 0; l->kind->args && l->kind->args[a].name; a++)
        if (l->kind->args[a].counts) return true;
    return false;
}

static int form_of(const struct wisp_act *value)
{
    return value->shape.rank == 3 ? WISP_WIDTHS_MAPS : WISP_WIDTHS_UNITS;
}

bool wisp_widths_know(struct wisp_widths *w, const struct wisp_net *net,
                      const struct wisp_context *ctx)
{
    bool had[WISP_N_WIDTHS] = { false };
    if (!ctx->conv) return false;
    struct wisp_conv_choice how = *ctx->conv;
    how.k = ctx->k;
    for (int v = 1; v < net->n_layers; v++) {
        const int of = form_of(&net->acts[v]);
        if (!makes(&net->layers[v - 1]) || had[of]) continue;
        if (!know(w->time[of], of, &how)) return false;
        had[of] = true;
    }
    return true;
}

void wisp_widths_card(struct wisp_widths *w)
{
    for (size_t n = 0; n <= WISP_WIDTHS_MOST; n++) {
        w->time[WISP_WIDTHS_MAPS][n] = (double)((n + BLOCK - 1) / BLOCK * BLOCK) / WISP_WIDTHS_MOST;
        w->time[WISP_WIDTHS_UNITS][n] = (double)n / WISP_WIDTHS_MOST;
    }
}

/* ---- choosing ---- */

double wisp_widths_time(const struct wisp_widths *w, int of, size_t n)
{
    const double *time = w->time[of];
    if (n <= WISP_WIDTHS_MOST) return time[n];
    const size_t alike = WISP_WIDTHS_MOST - BLOCK + (n - 1) % BLOCK + 1;
    const double each =
        (time[WISP_WIDTHS_MOST] - time[WISP_WIDTHS_MOST / 2]) * 2 / WISP_WIDTHS_MOST;
    return time[alike] + each * (double)(n - alike);
}

/* Of the counts from 'first' to 'end', away from n, the nearest that is about as good as the best; n:
 * none is good enough.  What counts is the time of a channel where some go, and that of all where some
 * stay that could go. */
static size_t nearest(const struct wisp_widths *w, int of, size_t n, size_t first, size_t end)
{
    const bool down = end < n;
    const double now = wisp_widths_time(w, of, n) / (down ? (double)n : 1);
    double best = (down ? LESS_EACH : LESS) * now;
    size_t found = n;
    for (int pass = 0; pass < 2; pass++)
        for (size_t m = first; (down ? m >= end : m <= end) && (pass == 0 || found == n);
             m = down ? m - 1 : m + 1) {
            const double cost = wisp_widths_time(w, of, m) / (down ? (double)m : 1);
            if (pass == 0) best = fmin(best, cost);
            else if (cost <= best * ALIKE && cost < (down ? LESS_EACH : LESS) * now) found = m;
        }
    return found;
}

size_t wisp_widths_best(const struct wisp_widths *w, int of, size_t n, size_t least, size_t most)
{
    const size_t less = least < n ? nearest(w, of, n, n - 1, least) : n;
    return less < n || most <= n ? less : nearest(w, of, n, n + 1, most);
}

struct group {
    double square;
    int32_t bond;
};

static int weaker(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    if (x->square != y->square) return x->square < y->square ? -1 : 1;
    return x->bond - y->bond;
}

/* square (bonds): of the weights that make each. */
static void squares(double *square, const struct wisp_bonds *bonds, const struct wisp_net *net)
{
    memset(square, 0, bonds->n * sizeof *square);
    for (size_t p = 0; p < net->list.n; p++) {
        const struct wisp_param *q = &net->list.p[p];
        size_t inner = q->n;
        for (int d = 0; d < q->rank; d++) {
            inner /= q->dim[d] ? q->dim[d] : 1;
            if (q->role != WISP_TRAINED || q->axis[d] != WISP_AXIS_OUT || !q->w || q->ragged)
                continue;
            for (size_t i = 0; i < q->n; i++)
                square[bonds->axis[p][d][i / inner % q->dim[d]]] +=
                    (double)q->w[i] * (double)q->w[i];
        }
    }
}

/* Of a value: its bonds, the weakest first, and how many of them are kept. */
static size_t list_groups(struct group *g, size_t *kept, double *all, const bool *keep,
                          const struct wisp_bonds *bonds, const double *square, int value, size_t n)
{
    *kept = 0;
    *all = 0;
    for (size_t i = 0; i < n; i++) {
        g[i].bond = bonds->of[bonds->first[value] + i];
        g[i].square = square[g[i].bond];
        *kept += keep[g[i].bond];
        *all += g[i].square;
    }
    qsort(g, n, sizeof *g, weaker);
    return n;
}

/* So many of a value's channels become this many. */
static size_t change(bool *keep, const struct group *g, size_t n, const struct wisp_bonds *bonds,
                     size_t kept, size_t want)
{
    size_t changed = 0;
    for (size_t i = 0; i < n && kept > want; i++) /* the weakest go */
        if (keep[g[i].bond] && !bonds->fixed[g[i].bond]) keep[g[i].bond] = false, kept--, changed++;
    for (size_t i = n; i-- > 0 && kept < want;) /* the strongest stay */
        if (!keep[g[i].bond]) keep[g[i].bond] = true, kept++, changed++;
    return changed;
}

size_t wisp_widths_round(bool *keep, const struct wisp_bonds *bonds, const struct wisp_net *net,
                         const struct wisp_widths *w, char *said, size_t room)
{
    size_t changed = 0, at = 0, widest = 0;
    if (room) said[0] = 0;
    for (int v = 1; v < net->n_layers; v++)
        if (wisp_channels(&net->acts[v]) > widest) widest = wisp_channels(&net->acts[v]);
    struct group *g = wisp_alloc(widest, sizeof *g);
    double *square = wisp_alloc(bonds->n, sizeof *square);
    if (g && square) squares(square, bonds, net);
    for (int v = 1; v < net->n_layers && g && square; v++) {
        const struct wisp_layer *l = &net->layers[v - 1];
        const size_t n = wisp_channels(&net->acts[v]);
        const int of = form_of(&net->acts[v]);
        size_t kept, least, most;
        double all, weak = 0;
        if (!makes(l)) continue;
        list_groups(g, &kept, &all, keep, bonds, square, v, n);
        least = kept;
        for (size_t i = 0; i < n && least + kept / 8 + 1 > kept && least > 1; i++) {
            if (!keep[g[i].bond] || bonds->fixed[g[i].bond]) continue;
            if ((weak += g[i].square) > WEAK * all) break;
            least--;
        }
        most = kept + kept / 4 < n ? kept + kept / 4 : n;
        const size_t want = wisp_widths_best(w, of, kept, least, most);
        if (want == kept) continue;
        changed += change(keep, g, n, bonds, kept, want);
        if (at < room)
            at += (size_t)snprintf(said + at, room - at, "%s%zu for %zu of %s", at ? ", " : "",
                                   want, kept, l->name[0] ? l->name : l->kind->name);
    }
    wisp_free(g);
    wisp_free(square);
    return changed;
}

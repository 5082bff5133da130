/* Which way a pass of a convolution goes.
 *
 * Names that the caller gave come first; then what an earlier measurement said, which a file keeps:
 * one line per processor, instruction set ("amx in bf16" where ways may round to that), sizes and
 * pass,
 *
 *   wisp-conv 7 <tab> processor <tab> kernels <tab> 64 64 56 56 3 3 1 1 1 1 16 8 <tab> 0 <tab> direct
 *
 * then a measurement: each way that can computes some samples on one thread (measure.c), and the
 * fastest is put down in the file.  So runs on one machine go the same ways, and give the same bytes,
 * as long as the file is there, even those that measure at the same time; a line that is no longer
 * true of the ways there are is measured anew.
 *
 * Beside that way a pass may have 'skip', for calls with many zeros: from which share of them on is
 * measured and kept likewise, in thousandths,
 *
 *   ... <tab> 0 zeros of x, skip after direct <tab> 613
 *
 * and each call asks its own numbers.  Moving averages over steps would save that look at some of
 * them, but a run that goes on after a break, or makes a value again, would go other ways; and as
 * weights are packed for each call, changing the way costs nothing, so it needs no hysteresis. */
#include "base/cpu.h"
#include "base/file.h"
#include "base/part.h"
#include "base/pool.h"
#include "conv/dnnl.h"
#include "conv/kept.h"
#include "conv/measure.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <string.h>

/* ---- the ways there are ---- */

enum { MOST_WAYS = 16 };
struct ways {
    const struct wisp_conv_way *way[MOST_WAYS + 1]; /* NULL behind the last */
    size_t n;
};

/* Those of the library, then those of oneDNN, which knows blocks of 16 channels where there is
 * AVX-512 (its library takes long to open); 'plain' is the last. */
static struct ways all_ways(void)
{
    struct ways w = { .n = 0 };
    char why[200];
    const struct wisp_dnnl_part *part =
        wisp_cpu_features() & CPU_AVX512
            ? wisp_part_table("wisp-dnnl.so", "wisp_dnnl_table", WISP_DNNL_VERSION, false, why,
                              sizeof why)
            : NULL;
    const struct wisp_conv_way *way;
    if (part) part->use(wisp_parallel_for, false);
    for (size_t i = 0; (way = wisp_conv_way_at(i)) && w.n < MOST_WAYS; i++)
        if (way != &wisp_conv_plain) w.way[w.n++] = way;
    for (size_t i = 0; part && part->ways[i] && w.n + 1 < MOST_WAYS; i++)
        w.way[w.n++] = part->ways[i];
    w.way[w.n++] = &wisp_conv_plain;
    return w;
}

static const struct wisp_conv_way *find(const struct ways *w, const char *name, size_t length)
{
    for (size_t i = 0; i < w->n; i++)
        if (strlen(w->way[i]->name) == length && memcmp(w->way[i]->name, name, length) == 0)
            return w->way[i];
    return NULL;
}

const struct wisp_conv_way *wisp_conv_any(size_t i)
{
    const struct ways w = all_ways();
    return i < w.n ? w.way[i] : NULL;
}

const char *wisp_conv_unknown(const char *names, size_t *length)
{
    const struct ways w = all_ways();
    for (const char *at = names; *at; at += *length, at += *at == ',') {
        *length = strcspn(at, ",");
        if (!find(&w, at, *length)) return at;
    }
    return NULL;
}

/* A way that rounds to bf16 is one only where the run says so. */
static bool may(const struct wisp_conv_way *way, const struct wisp_conv *c,
                enum wisp_conv_pass pass, const struct wisp_conv_choice *how)
{
    return (!way->half || how->half) && way->can(c, pass, how->k);
}

static const struct wisp_conv_way *first_of(const struct ways *w, const struct wisp_conv *c,
                                            enum wisp_conv_pass pass,
                                            const struct wisp_conv_choice *how)
{
    size_t length;
    for (const char *at = how->only; *at; at += length, at += *at == ',') {
        length = strcspn(at, ",");
        const struct wisp_conv_way *way = find(w, at, length);
        if (way && may(way, c, pass, how)) return way;
    }
    return &wisp_conv_plain;
}

/* ---- those that are measured ---- */

/* Without being named.  Ways in bf16 are tried where the machine has instructions for them: else they
 * are slower than those in fp32, which are as right. */
static bool worth_trying(const struct wisp_conv_way *way, const struct wisp_conv *c,
                         enum wisp_conv_pass pass, const struct wisp_conv_choice *how)
{
    return !way->asked && may(way, c, pass, how) && (!way->half || how->k->fast16);
}

/* Those worth trying for the sizes of the run and for those that are measured; 'plain' only where it
 * is alone: it takes half a minute for the gradient of large images.  Where there is one only, nothing
 * is to be measured. */
static const struct wisp_conv_way *fastest(const struct ways *w, const struct wisp_conv *c,
                                           enum wisp_conv_pass pass,
                                           const struct wisp_conv_choice *how)
{
    const struct wisp_conv_way *some[MOST_WAYS];
    size_t n = 0;
    struct wisp_conv less = *c;
    less.batch = wisp_conv_samples(c);
    less.threads = 1;
    for (size_t i = 0; i < w->n; i++)
        if (worth_trying(w->way[i], &less, pass, how) && worth_trying(w->way[i], c, pass, how) &&
            (n == 0 || w->way[i] != &wisp_conv_plain))
            some[n++] = w->way[i];
    return n == 1 ? some[0] : wisp_conv_fastest(c, pass, how->k, some, n);
}

/* ---- the file ---- */

enum { LINE = 300 };
static const char MAGIC[] = "wisp-conv 7";

/* The line without the way. */
static int key_of(char out[LINE], const struct wisp_conv *c, enum wisp_conv_pass pass,
                  const struct wisp_conv_choice *how, const char *more)
{
    char cpu[WISP_CPU_NAME];
    wisp_cpu_name(cpu);
    return snprintf(out, LINE,
                    "%s\t%s\t%s%s\t%zu %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu%s\t%d%s\t",
                    MAGIC, cpu, how->k->name, how->half ? " in bf16" : "", c->in, c->out, c->h,
                    c->w, c->kh, c->kw, c->stride, c->pad_h, c->pad_w, c->groups, c->block,
                    wisp_conv_samples(c), c->kept ? " kept" : "", (int)pass, more);
}

struct wanted {
    const struct ways *w;
    const struct wisp_conv *c;
    enum wisp_conv_pass pass;
    const struct wisp_conv_choice *how;
    const struct wisp_conv_way *way; /* the one that was found */
};

static bool usable(void *arg, const char *name, size_t length)
{
    struct wanted *t = arg;
    t->way = find(t->w, name, length);
    if (t->way && (t->way->asked || !may(t->way, t->c, t->pass, t->how))) t->way = NULL;
    return t->way != NULL;
}

static const struct wisp_conv_way *known(struct wanted *t, const char *key)
{
    const char *const places[2] = { t->how->file, t->how->other };
    for (int i = 0; i < 2; i++)
        if (places[i] && wisp_kept_find(places[i], key, usable, t)) return t->way;
    return NULL;
}

static bool put_down(const struct wisp_conv_choice *how, const char *key, const char *name)
{
    const char *const places[2] = { how->file, how->other };
    for (int i = 0; i < 2; i++)
        if (places[i] && wisp_kept_add(places[i], key, name)) return true;
    return false;
}

static const struct wisp_conv_way *known_or_measured(const struct ways *w,
                                                     const struct wisp_conv *c,
                                                     enum wisp_conv_pass pass,
                                                     const struct wisp_conv_choice *how)
{
    char key[LINE];
    const int length = key_of(key, c, pass, how, "");
    const bool file = length > 0 && length < LINE;
    struct wanted t = { w, c, pass, how, NULL };
    const struct wisp_conv_way *way = file ? known(&t, key) : NULL, *agreed = NULL;
    if (way) return way;
    way = fastest(w, c, pass, how);
    if (way && file && put_down(how, key, way->name)) agreed = known(&t, key);
    return agreed ? agreed : way;
}

const struct wisp_conv_way *wisp_conv_choose(const struct wisp_conv *c, enum wisp_conv_pass pass,
                                             const struct wisp_conv_choice *how)
{
    const struct wisp_conv_way *way = NULL;
    if (!how || !how->k) return &wisp_conv_plain;
    const struct ways w = all_ways();
    if (how->only) return first_of(&w, c, pass, how);
    if (how->measure && c->batch > 0) way = known_or_measured(&w, c, pass, how);
    for (size_t i = 0; !way && i < w.n; i++)
        if (worth_trying(w.way[i], c, pass, how)) way = w.way[i];
    return way;
}

/* ---- zeros ---- */

static const double NEVER = 2;

/* A share, in thousandths. */
static bool thousandths(void *arg, const char *value, size_t length)
{
    long n = 0;
    for (size_t i = 0; i < length; i++) {
        if (value[i] < '0' || value[i] > '9' || i > 3) return false;
        n = 10 * n + value[i] - '0';
    }
    *(double *)arg = (double)n / 1000;
    return length > 0;
}

static double share_from(const struct wisp_conv *c, enum wisp_conv_pass pass,
                         const struct wisp_conv_choice *how, const struct wisp_conv_way *dense,
                         bool of_x)
{
    char key[LINE], more[60], value[20];
    const char *const places[2] = { how->file, how->other };
    double from = NEVER;
    snprintf(more, sizeof more, " zeros of %s, skip after %s", of_x ? "x" : "gy", dense->name);
    const int length = key_of(key, c, pass, how, more);
    const bool file = length > 0 && length < LINE;
    for (int i = 0; file && i < 2; i++)
        if (places[i] && wisp_kept_find(places[i], key, thousandths, &from)) return from;
    from = wisp_conv_zeros_from(c, pass, how->k, dense, of_x);
    snprintf(value, sizeof value, "%d", (int)(from * 1000 + 0.5));
    /* what lies there now, which may be another process's */
    if (file && put_down(how, key, value))
        for (int i = 0; i < 2; i++)
            if (places[i] && wisp_kept_find(places[i], key, thousandths, &from)) break;
    return from;
}

struct wisp_conv_zeros wisp_conv_zeros(const struct wisp_conv *c, enum wisp_conv_pass pass,
                                       const struct wisp_conv_choice *how,
                                       const struct wisp_conv_way *dense)
{
    const struct wisp_conv_zeros none = { NULL, NEVER, NEVER }, always = { &wisp_conv_skip, 0, 0 };
    if (how->zeros == WISP_ZEROS_OFF || !how->k || !wisp_conv_skip.can(c, pass, how->k))
        return none;
    if (how->zeros == WISP_ZEROS_FORCE) return always;
    if (how->only || !how->measure || c->batch == 0) return none;
    struct wisp_conv_zeros z = { &wisp_conv_skip, NEVER, NEVER };
    if (pass != WISP_CONV_DATA) z.of_x = share_from(c, pass, how, dense, true);
    if (pass != WISP_CONV_FORWARD) z.of_gy = share_from(c, pass, how, dense, false);
    return z.of_x < 1 || z.of_gy < 1 ? z : none;
}

/* How far a share is beyond the one from which on zeros are worth skipping: 0 there, 1 where all are
 * zeros; below 0: not worth it. */
static double beyond(double share, double from)
{
    return from < 1 ? (share - from) / (1 - from) : -1;
}

const struct wisp_conv_way *wisp_conv_way_for(const struct wisp_conv *c, enum wisp_conv_pass pass,
                                              const struct wisp_conv_zeros *z,
                                              const struct wisp_conv_way *dense,
                                              struct wisp_conv_job *j, double *share)
{
    double x = 0, gy = 0;
    *share = 0;
    j->source = WISP_CONV_ANY;
    if (!z->way) return dense;
    if (pass != WISP_CONV_DATA && z->of_x < 1) x = wisp_conv_zero_share(c, j, true);
    if (pass != WISP_CONV_FORWARD && z->of_gy < 1) gy = wisp_conv_zero_share(c, j, false);
    const double of_x = beyond(x, z->of_x), of_gy = beyond(gy, z->of_gy);
    const bool first = pass == WISP_CONV_FORWARD || (pass == WISP_CONV_WEIGHTS && of_x >= of_gy);
    *share = first ? x : gy;
    if ((first ? of_x : of_gy) < 0) return dense;
    j->source = first ? WISP_CONV_OF_X : WISP_CONV_OF_GY;
    return z->way;
}

/* Which way a pass of a convolution goes.
 *
 * Names that the caller gave come first; then what an earlier measurement said, which a file keeps:
 * one line per processor, instruction set ("amx in bf16" where ways may round to that), sizes and
 * pass,
 *
 *   wisp-conv 3 <tab> processor <tab> kernels <tab> 64 64 56 56 3 3 1 1 1 1 16 8 <tab> 0 <tab> direct
 *
 * then a measurement: each way that can computes some samples on one thread, and the fastest is put
 * down in the file.  So runs on one machine go the same ways, and give the same bytes, as long as the
 * file is there, even those that measure at the same time; a line that is no longer true of the ways
 * there are is measured anew. */
#include "base/cpu.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/part.h"
#include "base/pool.h"
#include "conv/dnnl.h"
#include "conv/kept.h"
#include "kernels/kernels.h"

#include <math.h>
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

/* ---- measuring ---- */

enum { TRIES = 3, MOST_SAMPLES = 16 };
/* Of a try, where the batch has so many samples: the ways that go through pixels in tiles of 4x4
 * need some hundred of them. */
static const double ENOUGH_FLOPS = 1e9, ENOUGH_PIXELS = 1800;

struct arrays { /* of one measurement */
    float *x, *y, *w;
};

/* Whatever the number of threads: all of them must go one way, or their bytes would differ. */
static size_t samples_for(const struct wisp_conv *c)
{
    double each = 2.0 * (double)(c->out * c->oh * c->ow) * (double)wisp_conv_row(c),
           n = ceil(fmax(ENOUGH_FLOPS / each, ENOUGH_PIXELS / (double)(c->oh * c->ow)));
    size_t most = c->batch < MOST_SAMPLES ? c->batch : MOST_SAMPLES;
    return n < (double)most ? (size_t)n : most;
}

static void fill(float *p, size_t n)
{
    for (size_t i = 0; i < n; i++) p[i] = (float)((i * 37) % 64) / 64 - 0.5f;
}

/* Seconds of the fastest of some tries, none of which goes on once it is clear that 'best' is
 * faster; infinite: it failed, or there is no memory.  Weights are packed once for a batch of
 * 'batch' samples: these have their share of that. */
static double seconds_of(const struct wisp_conv_way *way, const struct wisp_conv *c,
                         enum wisp_conv_pass pass, const struct wisp_kernels *k, size_t n,
                         size_t batch, const struct arrays *a, double best)
{
    const size_t scratch = way->thread_floats ? wisp_up(way->thread_floats(c, pass), 16) : 0,
                 floats = way->weight_floats(c, pass);
    float *own = wisp_alloc(floats + 1, sizeof *own), *room = wisp_alloc(scratch + 1, sizeof *room);
    double least = INFINITY, packing = 0;
    wisp_error err;
    if (own && room) {
        struct wisp_conv_job j = { .k = k,
                                   .n = n,
                                   .x = a->x,
                                   .gy = a->y,
                                   .w = a->w,
                                   .y = a->y,
                                   .gx = a->x,
                                   .gw = own,
                                   .thread_scratch = room,
                                   .thread_apart = scratch };
        if (pass != WISP_CONV_WEIGHTS && floats) {
            packing = INFINITY;
            for (int i = 0; i < 2; i++) { /* the first one also takes the memory */
                double began = wisp_now();
                wisp_conv_pack(way, c, pass, NULL, k, own, a->w);
                packing = fmin(packing, wisp_now() - began);
            }
            packing *= (double)n / (double)batch;
            j.w = own;
        }
        for (int i = 0; i <= TRIES; i++) { /* the first one warms up */
            if (i > 0 && least > 2 * best) break;
            double began = wisp_now();
            if (way->run(c, pass, &j, &err) != WISP_OK) break;
            double took = wisp_now() - began;
            if (took < least) least = took;
        }
    }
    wisp_free(own);
    wisp_free(room);
    return least + packing;
}

/* What all ways of a pass are measured with. */
static bool make_arrays(struct arrays *a, const struct wisp_conv *c, size_t n)
{
    const size_t in = n * wisp_conv_in_floats(c), out = n * wisp_conv_out_floats(c),
                 row = c->out * wisp_conv_row(c);
    *a = (struct arrays){ wisp_alloc(in, sizeof(float)), wisp_alloc(out, sizeof(float)),
                          wisp_alloc(row, sizeof(float)) };
    if (!a->x || !a->y || !a->w) return false;
    fill(a->x, in), fill(a->y, out), fill(a->w, row);
    return true;
}

static void free_arrays(struct arrays *a)
{
    wisp_free(a->x);
    wisp_free(a->y);
    wisp_free(a->w);
}

/* Without being named.  Ways in bf16 are tried where the machine has instructions for them: else they
 * are slower than those in fp32, which are as right. */
static bool worth_trying(const struct wisp_conv_way *way, const struct wisp_conv *c,
                         enum wisp_conv_pass pass, const struct wisp_conv_choice *how)
{
    return !way->asked && may(way, c, pass, how) && (!way->half || how->k->fast16);
}

/* The only one that is worth trying beside 'plain', or 'plain' itself where there is none: nothing is
 * to be measured ('plain' takes half a minute for the gradient of large images, which nobody asks
 * for).  NULL: there are several. */
static const struct wisp_conv_way *alone(const struct ways *w, const struct wisp_conv *c,
                                         const struct wisp_conv *of, enum wisp_conv_pass pass,
                                         const struct wisp_conv_choice *how)
{
    const struct wisp_conv_way *it = NULL;
    for (size_t i = 0; i < w->n; i++) {
        if (!worth_trying(w->way[i], c, pass, how) || !worth_trying(w->way[i], of, pass, how) ||
            (it && w->way[i] == &wisp_conv_plain))
            continue;
        if (it) return NULL;
        it = w->way[i];
    }
    return it;
}

static const struct wisp_conv_way *fastest(const struct ways *w, const struct wisp_conv *of,
                                           enum wisp_conv_pass pass,
                                           const struct wisp_conv_choice *how)
{
    struct wisp_conv c = *of;
    c.batch = samples_for(of);
    c.threads = 1;
    const struct wisp_conv_way *best = alone(w, &c, of, pass, how);
    if (best) return best;
    const size_t n = c.batch;
    struct arrays a;
    const bool made = make_arrays(&a, of, n);
    double least = INFINITY;
    for (size_t i = 0; made && i < w->n; i++) {
        if ((best && w->way[i] == &wisp_conv_plain) || !worth_trying(w->way[i], &c, pass, how) ||
            !worth_trying(w->way[i], of, pass, how))
            continue;
        double took = seconds_of(w->way[i], &c, pass, how->k, n, of->batch, &a, least);
        if (best && took >= least) continue;
        best = w->way[i];
        least = took;
    }
    free_arrays(&a);
    return best;
}

/* ---- the file ---- */

enum { LINE = 300 };
static const char MAGIC[] = "wisp-conv 3";

/* The line without the way. */
static int key_of(char out[LINE], const struct wisp_conv *c, enum wisp_conv_pass pass,
                  const struct wisp_conv_choice *how, const char *more)
{
    char cpu[WISP_CPU_NAME];
    wisp_cpu_name(cpu);
    return snprintf(
        out, LINE, "%s\t%s\t%s%s\t%zu %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu\t%d%s\t", MAGIC,
        cpu, how->k->name, how->half ? " in bf16" : "", c->in, c->out, c->h, c->w, c->kh, c->kw,
        c->stride, c->pad_h, c->pad_w, c->groups, c->block, samples_for(c), (int)pass, more);
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

static const double SHARES[2] = { 0.5, 0.9 }, WORTH = 0.98, NEVER = 2;

/* So many of x are zeros, in no order. */
static void fill_zeros(float *x, size_t n, double share)
{
    uint64_t s = 1;
    for (size_t i = 0; i < n; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        x[i] = (double)(s >> 33) < share * 2147483648.0 ? 0 : 0.25f;
    }
}

/* The share of zeros from which on 'skip' takes WORTH of the other's time: its time is a straight
 * line, more or less. */
static double measure_zeros(const struct wisp_conv *of, enum wisp_conv_pass pass,
                            const struct wisp_conv_choice *how, const struct wisp_conv_way *dense)
{
    struct wisp_conv c = *of;
    const size_t n = samples_for(of);
    struct arrays a;
    double took[2] = { INFINITY, INFINITY }, wanted = 0;
    c.batch = n;
    c.threads = 1;
    if (make_arrays(&a, of, n) && dense->can(&c, pass, how->k)) {
        wanted = WORTH * seconds_of(dense, &c, pass, how->k, n, of->batch, &a, INFINITY);
        for (int i = 0; i < 2; i++) {
            if (pass == WISP_CONV_DATA) fill_zeros(a.y, n * wisp_conv_out_floats(of), SHARES[i]);
            else fill_zeros(a.x, n * wisp_conv_in_floats(of), SHARES[i]);
            took[i] = seconds_of(&wisp_conv_skip, &c, pass, how->k, n, of->batch, &a, INFINITY);
        }
    }
    free_arrays(&a);
    if (!(took[1] < wanted)) return NEVER;
    if (!(took[1] < took[0])) return SHARES[1];
    const double at =
        SHARES[1] - (SHARES[1] - SHARES[0]) * (wanted - took[1]) / (took[0] - took[1]);
    return at > 0 ? at : 0;
}

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
                         const struct wisp_conv_choice *how, const struct wisp_conv_way *dense)
{
    char key[LINE], more[60], value[20];
    const char *const places[2] = { how->file, how->other };
    double from = NEVER;
    snprintf(more, sizeof more, " skip after %s", dense->name);
    const int length = key_of(key, c, pass, how, more);
    const bool file = length > 0 && length < LINE;
    for (int i = 0; file && i < 2; i++)
        if (places[i] && wisp_kept_find(places[i], key, thousandths, &from)) return from;
    from = measure_zeros(c, pass, how, dense);
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
    const struct wisp_conv_zeros none = { NULL, NEVER }, always = { &wisp_conv_skip, 0 };
    if (how->zeros == WISP_ZEROS_OFF || !how->k || !wisp_conv_skip.can(c, pass, how->k))
        return none;
    if (how->zeros == WISP_ZEROS_FORCE) return always;
    if (how->only || !how->measure || c->batch == 0) return none;
    const double from = share_from(c, pass, how, dense);
    return from < 1 ? (struct wisp_conv_zeros){ &wisp_conv_skip, from } : none;
}

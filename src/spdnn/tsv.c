/* The files of the Graph Challenge, lines of numbers (mtx.h):
 *
 *     neuronN/nN-lK.tsv         'input output weight'  a layer: Y(K) = Y(K-1) W, W[input][output]
 *     sparse-images-N.tsv       'image pixel value'    in any order
 *     neuronN-lL-categories.tsv 'image'                rows that are not all zero at the end
 *
 * Layers are read side by side, images by chunks.  Both are kept in a cache (netfile.h) in the
 * folder that holds them, neuronN-lL.wispcache and sparse-images-N.tsv.wispcache, bound to the size
 * and time of every source; a folder that cannot be written has none.  Images take two readings of
 * the text, one for their number and whether all values are 1, one that sets bits: memory is the
 * bits and nothing else, whatever the order of lines. */
#include "base/mem.h"
#include "base/bounds.h"
#include "spdnn/mtx.h"
#include "spdnn/netfile.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

static size_t count_lines(const char *p, size_t bytes)
{
    size_t n = bytes > 0 && p[bytes - 1] != '\n';
    for (size_t i = 0; i < bytes; i++) n += p[i] == '\n';
    return n;
}

/* ---- finding files ---- */

/* The folder of the challenge: 'dir' itself, or the one that ../data/unpack makes in it. */
static bool find_file(char path[PATH_MAX], const char *dir, const char *name)
{
    static const char *const places[] = { "", "graphchallenge/" };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int n = snprintf(path, PATH_MAX, "%s/%s%s", dir, places[i], name);
        if (n > 0 && n < PATH_MAX && access(path, F_OK) == 0) return true;
    }
    snprintf(path, PATH_MAX, "%s/%s", dir, name);
    return false;
}

static wisp_status missing(const char *path, const char *what, wisp_error *err)
{
    return wisp_fail_at(err, WISP_EIO, path, 0,
                        "not found: %s of the Graph Challenge; expected the folder that holds "
                        "it, or make networks and inputs with --generate and the folder of MNIST",
                        what);
}

static wisp_status open_text(struct wisp_map *m, struct wisp_tsv *t, wisp_error *err)
{
    wisp_status st = wisp_map_open(m, t->path, err);
    wisp_tsv_init(t, m);
    return st;
}

/* What a failed load of a cache means: nothing but a line, unless memory is out. */
static wisp_status judge_cache(wisp_status st, const char *cache, const wisp_error *why,
                               const struct wisp_context *ctx, wisp_error *err)
{
    if (st == WISP_ENOMEM) {
        if (err) *err = *why;
        return st;
    }
    if (st == WISP_ENOTSUP)
        wisp_say(ctx, "%s: stale (its sources changed) - reading them again", cache);
    else if (st != WISP_OK && access(cache, F_OK) == 0)
        wisp_say(ctx, "%s: damaged (%s) - reading its sources again", cache, why->text);
    return WISP_OK;
}

static void say_no_cache(wisp_status st, const wisp_error *why, const struct wisp_context *ctx)
{
    if (st != WISP_OK) wisp_say(ctx, "%s - no cache is kept", why->text);
}

static struct wisp_pool *pool_of(const struct wisp_context *ctx)
{
    return ctx ? ctx->pool : NULL;
}

/* ---- networks ---- */

static const float CLIP = 32;

struct net_job {
    char base[PATH_MAX]; /* "DIR/neuronN/nN-l" */
    uint32_t n_neurons;
    size_t n_layers;
    struct wisp_file_id *ids;    /* (n_layers) */
    struct wisp_splayer *layers; /* (n_layers) */
    wisp_error *errors;          /* (n_layers) */
    _Atomic(size_t) bad;         /* the first layer that failed; n_layers: none */
};

static void layer_path(char path[PATH_MAX], const struct net_job *j, size_t i)
{
    snprintf(path, PATH_MAX, "%.4000s%zu.tsv", j->base, i + 1);
}

/* A file cut inside its last number shows where all others are equal. */
static bool looks_cut(const struct wisp_tsv *t, const struct wisp_edge_lines *l)
{
    if (l->n < 3 || t->text[t->bytes - 1] == '\n') return false;
    for (size_t i = 1; i + 1 < l->n; i++)
        if (l->w[i] != l->w[0]) return false;
    return l->w[l->n - 1] != l->w[0];
}

static wisp_status read_lines(struct wisp_edge_lines *l, struct wisp_tsv *t, wisp_error *err)
{
    struct wisp_tsv_reader r = { .t = t, .p = t->text, .last = t->text + t->bytes };
    struct wisp_tsv_line line;
    while (l->n < l->room && wisp_tsv_next(&r, &line)) {
        l->in[l->n] = line.id[0];
        l->out[l->n] = line.id[1];
        l->w[l->n++] = line.value;
    }
    wisp_tsv_close(&r);
    wisp_status st = wisp_tsv_status(t, err);
    if (st == WISP_OK && looks_cut(t, l))
        st = wisp_tsv_fail(t, wisp_tsv_place(t, t->text, l->n - 1),
                           "no line end, and not the weight of all others: cut off", err);
    return st;
}

/* The edges of all lines.  *n_out 0: it becomes the highest output there is. */
static wisp_status read_edges(struct wisp_edge_arrays *a, struct wisp_tsv *t, uint32_t n_in,
                              uint32_t *n_out, wisp_error *err)
{
    struct wisp_edge_lines l;
    wisp_status st = wisp_edge_lines_init(&l, count_lines(t->text, t->bytes), err);
    if (st != WISP_OK) return st;
    st = read_lines(&l, t, err);
    if (st != WISP_OK) {
        wisp_edge_lines_clear(&l);
        return st;
    }
    uint32_t highest = 0;
    for (size_t i = 0; i < l.n; i++)
        if (l.out[i] >= highest) highest = l.out[i] + 1;
    if (*n_out == 0) *n_out = highest;
    size_t twice, n = l.n;
    st = wisp_edge_arrays_make(a, &l, n_in, *n_out, &twice, err);
    return twice < n ? wisp_tsv_fail(t, wisp_tsv_place(t, t->text, twice), "an edge again", err)
                     : st;
}

static wisp_status make_layer(struct wisp_splayer *out, struct wisp_tsv *t, uint32_t n,
                              wisp_error *err)
{
    struct wisp_edge_arrays a;
    wisp_status st = read_edges(&a, t, n, &n, err);
    if (st != WISP_OK) return st;
    const struct wisp_edges e = { .n_in = n,
                                  .n_out = n,
                                  .start = a.start,
                                  .in = a.in,
                                  .w = a.w,
                                  .weight = a.weight,
                                  .bias = wisp_radix_bias(n) };
    st = wisp_splayer_make(out, &e, err);
    wisp_edge_arrays_clear(&a);
    return st;
}

static wisp_status read_layer(const struct net_job *j, size_t i, wisp_error *err)
{
    char path[PATH_MAX];
    struct wisp_map m;
    layer_path(path, j, i);
    struct wisp_tsv t = { .path = path,
                          .form = "input output weight",
                          .n_ids = 2,
                          .max = { j->n_neurons, j->n_neurons },
                          .value = true };
    wisp_status st = open_text(&m, &t, err);
    if (st == WISP_OK && t.bytes == 0)
        st = wisp_fail_at(err, WISP_EFORMAT, path, 0,
                          "empty; expected lines of 'input output weight'");
    else if (st == WISP_OK) st = make_layer(&j->layers[i], &t, j->n_neurons, err);
    return wisp_map_end(&m, st, err);
}

/* Does the first line that is not empty have a third field? */
static bool has_values(const struct wisp_tsv *t)
{
    const char *end = t->text + t->bytes, *p = t->text + wisp_tsv_place(t, t->text, 0);
    int n = 0;
    for (; n < 3 && !wisp_tsv_line_end(p, end); n++) {
        p = wisp_tsv_blank(p, end);
        while (p < end && (unsigned char)*p > ' ') p++;
    }
    return n > 2;
}

static wisp_status read_matrix(struct wisp_mtx *out, struct wisp_tsv *t, uint32_t n_in,
                               uint32_t n_out, wisp_error *err)
{
    const uint64_t most = wisp_tsv_most_ids(count_lines(t->text, t->bytes));
    t->value = has_values(t);
    t->form = t->value ? "input output weight" : "input output";
    t->max[0] = n_in;
    t->max[1] = n_out ? n_out : most < wisp_tsv_id_max ? (uint32_t)most : wisp_tsv_id_max;
    out->e.n_in = n_in, out->e.n_out = n_out;
    wisp_status st = read_edges(&out->own, t, n_in, &out->e.n_out, err);
    if (st == WISP_OK && out->own.start[out->e.n_out] == 0)
        st = wisp_fail_at(err, WISP_EFORMAT, t->path, 0,
                          "empty; expected lines of 'input output weight', or MatrixMarket");
    return st;
}

wisp_status wisp_mtx_read_any(struct wisp_mtx *out, const char *path, uint32_t n_in, uint32_t n_out,
                              wisp_error *err)
{
    struct wisp_map m;
    struct wisp_tsv t = { .path = path, .n_ids = 2, .blanks = true };
    *out = (struct wisp_mtx){ 0 };
    wisp_status st = open_text(&m, &t, err);
    const bool market = st == WISP_OK && t.bytes && t.text[0] == '%';
    if (st == WISP_OK && t.bytes >= 4 &&
        (memcmp(t.text, "\x1f\x8b", 2) == 0 || memcmp(t.text, "\x28\xb5\x2f\xfd", 4) == 0))
        st = wisp_fail_at(err, WISP_EFORMAT, path, 0,
                          "packed by gzip or zstd, expected plain text: unpack it first");
    if (st == WISP_OK && !market) st = read_matrix(out, &t, n_in, n_out, err);
    st = wisp_map_end(&m, st, err);
    if (st == WISP_OK && market) st = wisp_mtx_read(out, path, false, err);
    if (st == WISP_OK && (out->e.n_in != n_in || (n_out && out->e.n_out != n_out)))
        st = wisp_fail_at(err, WISP_EFORMAT, path, 0,
                          "%u rows and %u columns, expected %u columns, the inputs of the layer, "
                          "and as many rows as it is wide",
                          out->e.n_out, out->e.n_in, n_in);
    if (st != WISP_OK) wisp_mtx_clear(out);
    else wisp_mtx_show(out);
    return st;
}

static void read_layer_at(void *arg, size_t i, int thread)
{
    struct net_job *j = arg;
    (void)thread;
    size_t bad = atomic_load(&j->bad);
    if (i > bad || read_layer(j, i, &j->errors[i]) == WISP_OK) return;
    while (i < bad && !atomic_compare_exchange_weak(&j->bad, &bad, i)) {}
}

static wisp_status read_net(struct wisp_spnet *net, struct net_job *j, struct wisp_pool *pool,
                            wisp_error *err)
{
    j->bad = j->n_layers;
    wisp_parallel_for(pool, j->n_layers, read_layer_at, j);
    if (j->bad < j->n_layers) {
        if (err) *err = j->errors[j->bad];
        return j->errors[j->bad].code;
    }
    wisp_status st = WISP_OK;
    for (size_t i = 0; st == WISP_OK && i < j->n_layers; i++)
        st = wisp_spnet_push(net, &j->layers[i], err);
    return st;
}

/* What the files say is not all: the bias comes from here. */
static bool is_this_net(const struct wisp_spnet *net, const struct net_job *j)
{
    if (net->n_layers != j->n_layers || net->clip != CLIP) return false;
    for (size_t i = 0; i < net->n_layers; i++) {
        const struct wisp_splayer *l = &net->layers[i];
        if (l->n_in != j->n_neurons || l->n_out != j->n_neurons || l->linear || l->biases ||
            l->bias != wisp_radix_bias(j->n_neurons))
            return false;
    }
    return true;
}

static wisp_status load_net(struct wisp_spnet **out, const struct net_job *j, const char *cache,
                            const struct wisp_context *ctx, wisp_error *err)
{
    char first[PATH_MAX];
    layer_path(first, j, 0);
    const struct wisp_sources src = { j->ids, j->n_layers, first };
    wisp_error why = { 0 };
    wisp_status st = wisp_spnet_load(out, cache, &src, pool_of(ctx), &why);
    if (st == WISP_OK && !is_this_net(*out, j)) {
        wisp_spnet_free(*out);
        *out = NULL;
        st = WISP_ENOTSUP;
    }
    return judge_cache(st, cache, &why, ctx, err);
}

/* All files must be there before any is read. */
static wisp_status identify(struct net_job *j, const char *dir, wisp_error *err)
{
    char path[PATH_MAX], name[80], what[80];
    snprintf(name, sizeof name, "neuron%u/n%u-l1.tsv", j->n_neurons, j->n_neurons);
    find_file(j->base, dir, name);
    j->base[strlen(j->base) - strlen("1.tsv")] = 0;
    for (size_t i = 0; i < j->n_layers; i++) {
        layer_path(path, j, i);
        snprintf(what, sizeof what, "layer %zu of %zu, %u neurons,", i + 1, j->n_layers,
                 j->n_neurons);
        if (access(path, F_OK) != 0 && errno == ENOENT) return missing(path, what, err);
        wisp_status st = wisp_file_identify(&j->ids[i], path, err);
        if (st != WISP_OK) return st;
    }
    return WISP_OK;
}

static wisp_status find_net(struct wisp_spnet **out, struct net_job *j, const char *dir,
                            const struct wisp_context *ctx, wisp_error *err)
{
    char cache[PATH_MAX + 40];
    wisp_status st = identify(j, dir, err);
    if (st != WISP_OK) return st;
    const char *name = strrchr(j->base, '/'); /* "DIR/neuronN" and "/nN-l" */
    snprintf(cache, sizeof cache, "%.*s-l%zu.wispcache", (int)(name - j->base), j->base,
             j->n_layers);
    st = load_net(out, j, cache, ctx, err);
    if (st != WISP_OK || *out) return st;
    struct wisp_spnet *net = wisp_spnet_create(CLIP);
    st = net ? read_net(net, j, pool_of(ctx), err) : wisp_fail_mem(err, sizeof *net, "a network");
    if (st != WISP_OK) {
        wisp_spnet_free(net);
        return st;
    }
    char first[PATH_MAX];
    layer_path(first, j, 0);
    const struct wisp_sources src = { j->ids, j->n_layers, first };
    wisp_error why = { 0 };
    say_no_cache(wisp_spnet_save(net, cache, &src, &why), &why, ctx);
    *out = net;
    return WISP_OK;
}

wisp_status wisp_challenge_net(struct wisp_spnet **out, const char *dir, uint32_t n_neurons,
                               size_t n_layers, const struct wisp_context *ctx, wisp_error *err)
{
    *out = NULL;
    if (n_neurons == 0 || n_layers == 0)
        return wisp_fail(err, WISP_EINVAL, "%u neurons, %zu layers; both must be from 1 on",
                         n_neurons, n_layers);
    if (strlen(dir) > PATH_MAX - 200)
        return wisp_fail(err, WISP_EINVAL, "%.100s...: the path is too long", dir);
    struct net_job *j = wisp_zalloc(1, sizeof *j);
    wisp_status st = WISP_OK;
    if (j) {
        j->n_neurons = n_neurons;
        j->n_layers = n_layers;
        j->ids = wisp_zalloc(n_layers, sizeof *j->ids);
        j->layers = wisp_zalloc(n_layers, sizeof *j->layers);
        j->errors = wisp_zalloc(n_layers, sizeof *j->errors);
    }
    if (j && j->ids && j->layers && j->errors) st = find_net(out, j, dir, ctx, err);
    else st = wisp_fail_mem(err, n_layers * sizeof *j->errors, "reading a network");
    if (!j) return st;
    for (size_t i = 0; j->layers && i < n_layers; i++) wisp_splayer_clear(&j->layers[i]);
    wisp_free(j->ids);
    wisp_free(j->layers);
    wisp_free(j->errors);
    wisp_free(j);
    return st;
}

/* ---- inputs ---- */

struct image_job {
    const struct wisp_map *m;
    struct wisp_tsv t;
    struct wisp_spinputs *x;
    _Atomic(uint32_t) n_images; /* the largest id, from 1 */
    _Atomic(uint64_t) n_lines;
    _Atomic(int) numbers; /* some value is not 1 */
    _Atomic(uint64_t)
        twice;      /* the lowest image << 32 | pixel that is there twice; UINT64_MAX: none */
    uint64_t *next; /* (x->n) where the next number of an image goes */
    float *value;   /* (threads, width) scratch */
    uint64_t *set;  /* (threads, words) which of them are there */
};

static void look(void *arg, size_t i, int thread)
{
    struct image_job *j = arg;
    struct wisp_tsv_reader r = wisp_tsv_open(&j->t, i);
    struct wisp_tsv_line line;
    uint32_t most = 0, old;
    uint64_t n = 0;
    bool numbers = false;
    (void)thread;
    for (; wisp_tsv_next(&r, &line); n++) {
        if (line.id[0] >= most) most = line.id[0] + 1;
        numbers |= line.value != 1;
    }
    wisp_tsv_close(&r);
    atomic_fetch_add(&j->n_lines, n);
    if (numbers) j->numbers = 1;
    for (old = j->n_images; most > old;)
        if (atomic_compare_exchange_weak(&j->n_images, &old, most)) break;
}

static void found_twice(struct image_job *j, uint32_t image, uint32_t pixel)
{
    const uint64_t key = (uint64_t)image << 32 | pixel;
    uint64_t old = j->twice;
    while (key < old && !atomic_compare_exchange_weak(&j->twice, &old, key)) {}
}

struct pixel {
    uint64_t *word, bit;
};
enum { BATCH = 128 };

/* The order of lines, and so of threads, does not matter to bits. */
static void put_pixels(struct image_job *j, const struct pixel *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!(__atomic_fetch_or(p[i].word, p[i].bit, __ATOMIC_RELAXED) & p[i].bit)) continue;
        const size_t at = (size_t)(p[i].word - j->x->bits), words = j->x->words;
        found_twice(j, (uint32_t)(at / words),
                    (uint32_t)(at % words * 64) + (uint32_t)__builtin_ctzll(p[i].bit));
    }
}

/* The official files go pixel by pixel, so every line is of another image, far away in memory: a
 * batch is asked for before it is written. */
static void set_bits(void *arg, size_t i, int thread)
{
    struct image_job *j = arg;
    struct wisp_spinputs *x = j->x;
    struct wisp_tsv_reader r = wisp_tsv_open(&j->t, i);
    struct wisp_tsv_line line;
    struct pixel batch[BATCH];
    const char *begin = r.p;
    size_t n = 0;
    (void)thread;
    while (wisp_tsv_next(&r, &line)) {
        uint64_t *word = x->bits + line.id[0] * x->words + line.id[1] / 64;
        __builtin_prefetch(word, 1);
        batch[n++] = (struct pixel){ word, (uint64_t)1 << line.id[1] % 64 };
        if (n < BATCH) continue;
        put_pixels(j, batch, n);
        n = 0;
    }
    put_pixels(j, batch, n);
    wisp_tsv_close(&r);
    wisp_map_forget(j->m, begin, (size_t)(r.p - begin));
}

static void count_numbers(void *arg, size_t i, int thread)
{
    struct image_job *j = arg;
    struct wisp_tsv_reader r = wisp_tsv_open(&j->t, i);
    struct wisp_tsv_line line;
    (void)thread;
    while (wisp_tsv_next(&r, &line))
        __atomic_fetch_add(&j->x->start[line.id[0] + (size_t)1], 1, __ATOMIC_RELAXED);
    wisp_tsv_close(&r);
}

static void put_numbers(void *arg, size_t i, int thread)
{
    struct image_job *j = arg;
    struct wisp_tsv_reader r = wisp_tsv_open(&j->t, i);
    struct wisp_tsv_line line;
    (void)thread;
    while (wisp_tsv_next(&r, &line)) {
        uint64_t at = __atomic_fetch_add(&j->next[line.id[0]], 1, __ATOMIC_RELAXED);
        if (at >= j->x->start[line.id[0] + (size_t)1]) break; /* the file grows under our hands */
        j->x->id[at] = line.id[1];
        j->x->value[at] = line.value;
    }
    wisp_tsv_close(&r);
}

/* Puts the numbers of an image, which came in any order, into that of their pixels: through a row
 * with a place for each pixel. */
static void order_numbers(void *arg, size_t row, int thread)
{
    struct image_job *j = arg;
    struct wisp_spinputs *x = j->x;
    float *value = j->value + (size_t)thread * x->width;
    uint64_t *set = j->set + (size_t)thread * x->words, at = x->start[row];
    for (uint64_t i = at; i < x->start[row + 1]; i++) {
        const uint64_t bit = (uint64_t)1 << x->id[i] % 64;
        if (set[x->id[i] / 64] & bit) found_twice(j, (uint32_t)row, x->id[i]);
        set[x->id[i] / 64] |= bit;
        value[x->id[i]] = x->value[i];
    }
    for (size_t k = 0; k < x->words; k++)
        for (; set[k]; set[k] &= set[k] - 1) {
            x->id[at] = (uint32_t)(64 * k) + (uint32_t)__builtin_ctzll(set[k]);
            x->value[at] = value[x->id[at]];
            at++;
        }
}

/* The official files name 60000 images, even if the last ones were all zero; they are known by
 * their number of ones. */
static size_t count_images(const struct image_job *j, uint32_t n_neurons)
{
    static const struct {
        uint32_t n_neurons;
        uint64_t ones;
    } official[] = {
        { 1024, 6374505 }, { 4096, 25019051 }, { 16384, 98858913 }, { 65536, 392191985 }
    };
    for (size_t i = 0; i < sizeof official / sizeof *official; i++)
        if (official[i].n_neurons == n_neurons && official[i].ones == j->n_lines &&
            j->n_images < 60000)
            return 60000;
    return j->n_images;
}

static wisp_status read_numbers(struct image_job *j, struct wisp_pool *pool, wisp_error *err)
{
    struct wisp_spinputs *x = j->x;
    const size_t threads = pool ? (size_t)wisp_pool_threads(pool) : 1, n = (size_t)j->n_lines;
    x->start = wisp_zalloc(x->n + 1, sizeof *x->start);
    x->id = wisp_zalloc(n, sizeof *x->id);
    x->value = wisp_zalloc(n, sizeof *x->value);
    j->next = wisp_alloc(x->n, sizeof *j->next);
    j->value = wisp_alloc(threads * x->width, sizeof *j->value);
    j->set = wisp_zalloc(threads * x->words, sizeof *j->set);
    if (!x->start || !x->id || !x->value || !j->next || !j->value || !j->set)
        return wisp_fail_mem(err, 16 * x->n + 8 * n + 5 * threads * x->width, "inputs");
    wisp_parallel_for(pool, wisp_tsv_chunks(&j->t), count_numbers, j);
    for (size_t r = 0; r < x->n; r++) x->start[r + 1] += x->start[r];
    if (x->start[x->n] != n)
        return wisp_fail_at(err, WISP_EIO, j->t.path, 0, "changed while it was read");
    memcpy(j->next, x->start, x->n * sizeof *j->next);
    wisp_parallel_for(pool, wisp_tsv_chunks(&j->t), put_numbers, j);
    wisp_parallel_for(pool, x->n, order_numbers, j);
    return WISP_OK;
}

/* The second line that names the pixel. */
static wisp_status fail_twice(struct image_job *j, wisp_error *err)
{
    struct wisp_tsv_reader r = { .t = &j->t, .p = j->t.text, .last = j->t.text + j->t.bytes };
    struct wisp_tsv_line line;
    int times = 0;
    const char *at = r.p;
    for (; wisp_tsv_next(&r, &line); at = r.p)
        if (((uint64_t)line.id[0] << 32 | line.id[1]) == j->twice && ++times == 2) break;
    return wisp_tsv_fail(&j->t, (size_t)(at - j->t.text), "a pixel again", err);
}

static wisp_status read_images(struct wisp_spinputs *out, struct image_job *j, uint32_t n_neurons,
                               struct wisp_pool *pool, wisp_error *err)
{
    j->twice = UINT64_MAX;
    j->x = out;
    wisp_parallel_for(pool, wisp_tsv_chunks(&j->t), look, j);
    wisp_status st = wisp_tsv_status(&j->t, err);
    if (st != WISP_OK) return st;
    if (j->n_lines == 0)
        return wisp_fail_at(err, WISP_EFORMAT, j->t.path, 0, "empty; expected lines of '%s'",
                            j->t.form);
    const size_t n = count_images(j, n_neurons);
    if (n > wisp_tsv_most_ids(j->n_lines))
        return wisp_fail_at(err, WISP_EFORMAT, j->t.path, 0,
                            "an image %zu, but %zu lines; expected images that are numbered from 1 "
                            "with few gaps",
                            n, (size_t)j->n_lines);
    j->t.max[0] = (uint32_t)n; /* also for a file that changes meanwhile */
    if (!j->numbers) {
        st = wisp_spinputs_bits(out, n, n_neurons, err);
        if (st == WISP_OK) wisp_parallel_for(pool, wisp_tsv_chunks(&j->t), set_bits, j);
    } else {
        out->n = n;
        out->width = n_neurons;
        out->words = wisp_parts(n_neurons, 64);
        st = read_numbers(j, pool, err);
    }
    wisp_free(j->next);
    wisp_free(j->value);
    wisp_free(j->set);
    if (st == WISP_OK) st = wisp_tsv_status(&j->t, err);
    if (st == WISP_OK && j->twice != UINT64_MAX) st = fail_twice(j, err);
    return st;
}

static wisp_status read_images_file(struct wisp_spinputs *out, const char *path, uint32_t n_neurons,
                                    struct wisp_pool *pool, wisp_error *err)
{
    struct wisp_map m;
    struct image_job j = { .t = { .path = path,
                                  .form = "image pixel value",
                                  .n_ids = 2,
                                  .max = { wisp_tsv_id_max, n_neurons },
                                  .value = true } };
    wisp_status st = open_text(&m, &j.t, err);
    j.m = &m;
    if (st == WISP_OK) st = read_images(out, &j, n_neurons, pool, err);
    st = wisp_map_end(&m, st, err);
    if (st != WISP_OK) wisp_spinputs_clear(out);
    return st;
}

wisp_status wisp_challenge_inputs(struct wisp_spinputs *out, const char *dir, uint32_t n_neurons,
                                  const struct wisp_context *ctx, wisp_error *err)
{
    char path[PATH_MAX], cache[PATH_MAX + 20], name[40];
    struct wisp_file_id id;
    wisp_error why = { 0 };
    *out = (struct wisp_spinputs){ 0 };
    if (n_neurons == 0) return wisp_fail(err, WISP_EINVAL, "inputs of 0 neurons");
    snprintf(name, sizeof name, "sparse-images-%u.tsv", n_neurons);
    if (!find_file(path, dir, name)) return missing(path, "the inputs", err);
    wisp_status st = wisp_file_identify(&id, path, err);
    if (st != WISP_OK) return st;
    const struct wisp_sources src = { &id, 1, path };
    snprintf(cache, sizeof cache, "%s.wispcache", path);
    st = wisp_spinputs_load(out, cache, &src, pool_of(ctx), &why);
    if (st == WISP_OK && out->width == n_neurons) return WISP_OK;
    wisp_spinputs_clear(out);
    st = judge_cache(st == WISP_OK ? WISP_ENOTSUP : st, cache, &why, ctx, err);
    if (st == WISP_OK) st = read_images_file(out, path, n_neurons, pool_of(ctx), err);
    if (st == WISP_OK) say_no_cache(wisp_spinputs_save(out, cache, &src, &why), &why, ctx);
    return st;
}

/* ---- truth ---- */

static wisp_status read_truth(uint32_t **rows, size_t *n, struct wisp_tsv *t, wisp_error *err)
{
    struct wisp_tsv_reader r = { .t = t, .p = t->text, .last = t->text + t->bytes };
    struct wisp_tsv_line line;
    const size_t room = count_lines(t->text, t->bytes);
    uint32_t *ids = *rows = wisp_alloc(room, sizeof *ids);
    if (!ids) return wisp_fail_mem(err, room * sizeof *ids, "a list of rows");
    for (const char *at = r.p; *n < room && wisp_tsv_next(&r, &line); at = r.p) {
        if (*n > 0 && ids[*n - 1] >= line.id[0])
            return wisp_tsv_fail(t, (size_t)(at - t->text), "not above the line before", err);
        ids[(*n)++] = line.id[0];
    }
    wisp_tsv_close(&r);
    return wisp_tsv_status(t, err);
}

wisp_status wisp_challenge_truth(uint32_t **rows, size_t *n, const char *dir, uint32_t n_neurons,
                                 size_t n_layers, wisp_error *err)
{
    char path[PATH_MAX], name[80];
    struct wisp_map m;
    *rows = NULL;
    *n = 0;
    snprintf(name, sizeof name, "neuron%u-l%zu-categories.tsv", n_neurons, n_layers);
    if (!find_file(path, dir, name)) return WISP_OK;
    struct wisp_tsv t = {
        .path = path, .form = "image", .n_ids = 1, .max = { wisp_tsv_id_max, 0 }
    };
    wisp_status st = open_text(&m, &t, err);
    if (st == WISP_OK) st = read_truth(rows, n, &t, err);
    st = wisp_map_end(&m, st, err);
    if (st == WISP_OK) return WISP_OK;
    wisp_free(*rows);
    *rows = NULL;
    *n = 0;
    return st;
}

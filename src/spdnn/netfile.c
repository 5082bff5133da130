/* Writing, mapping and checking files of networks and inputs; netfile.h draws the layout. */
#include "spdnn/netfile.h"
#include "base/bounds.h"
#include "base/mem.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* for a hash state that needs no heap */
#include <xxhash.h>

enum { VERSION = 1, ALIGN = 64, SLICE = 4 << 20 };
enum kind { KIND_NET = 1, KIND_INPUTS = 2 };
enum { LINEAR = 1, WEIGHTS = 2, BIASES = 4 }; /* flags of a layer */

struct head {
    char magic[8];
    uint32_t order, version; /* order reads differently on a machine of other byte order */
    char zero[48];
};
static const struct head head_wanted = { "wispspdn", 0x01020304, VERSION, { 0 } };

struct index {
    uint64_t kind, n_parts, n_sources;
    uint64_t n_edges, n, width, numbers; /* numbers: of inputs that are not bits, else 0 */
    float clip;
    uint32_t bits; /* 1: inputs are bits */
};

struct entry {
    uint64_t offset, bytes, check;
};

struct tail {
    uint64_t offset, bytes, check; /* of the index */
    char zero[24];
    char magic[8];
    uint64_t own; /* XXH3-64 of the bytes before */
};

struct part_head {
    uint32_t n_in, n_out, n_groups, flags;
    uint64_t n_ids, n_edges;
    float weight, bias;
    char zero[24];
};
_Static_assert(sizeof(struct head) == 64 && sizeof(struct tail) == 64 &&
                   sizeof(struct index) == 64 && sizeof(struct part_head) == 64,
               "part of the file format");

static uint64_t padded(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* ---- a layer in a part ---- */

enum { IN_START, IN, OUT_START, OUT, A_BIASES, W_START, W, N_ARRAYS };

/* Places of the arrays in a part, and its length; 0: no part can be so long. */
static uint64_t lay_out(uint64_t at[N_ARRAYS], const struct part_head *h)
{
    const bool w = h->flags & WEIGHTS, biases = h->flags & BIASES;
    const uint64_t groups = h->n_groups, outs = h->n_out;
    if (h->n_ids >> 48 || h->n_edges >> 48) return 0;
    const uint64_t bytes[N_ARRAYS] = { 4 * (groups + 1),      4 * h->n_ids,
                                       4 * (groups + 1),      4 * outs,
                                       biases ? 4 * outs : 0, w ? 8 * groups : 0,
                                       w ? 4 * h->n_edges : 0 };
    uint64_t end = sizeof *h;
    for (int i = 0; i < N_ARRAYS; i++) {
        at[i] = end;
        end += padded(bytes[i]);
    }
    return end;
}

static struct wisp_splayer view_of(const unsigned char *p, const struct part_head *h,
                                   const uint64_t at[N_ARRAYS])
{
    unsigned char *base = (unsigned char *)p; /* a view: nobody writes through it */
    struct wisp_splayer l = { .n_in = h->n_in,
                              .n_out = h->n_out,
                              .linear = h->flags & LINEAR,
                              .n_edges = h->n_edges,
                              .n_groups = h->n_groups,
                              .in_start = (uint32_t *)(base + at[IN_START]),
                              .in = (uint32_t *)(base + at[IN]),
                              .out_start = (uint32_t *)(base + at[OUT_START]),
                              .out = (uint32_t *)(base + at[OUT]),
                              .weight = h->weight,
                              .bias = h->bias };
    if (h->flags & BIASES) l.biases = (float *)(base + at[A_BIASES]);
    if (h->flags & WEIGHTS) {
        l.w_start = (uint64_t *)(base + at[W_START]);
        l.w = (float *)(base + at[W]);
    }
    return l;
}

/* ---- what a layer must be ---- */

static uint64_t edges_of(const struct wisp_splayer *l, uint32_t g)
{
    return (uint64_t)(l->in_start[g + 1] - l->in_start[g]) *
           (l->out_start[g + 1] - l->out_start[g]);
}

static bool finite_all(const float *x, uint64_t n)
{
    bool good = true;
    for (uint64_t i = 0; x && i < n; i++) good &= isfinite(x[i]) != 0;
    return good;
}

static bool starts_are_good(const uint32_t *start, uint32_t n_groups, uint64_t end, uint32_t least)
{
    if (start[0] != 0 || start[n_groups] != end) return false;
    for (uint32_t g = 0; g < n_groups; g++)
        if (start[g + 1] < start[g] || start[g + 1] - start[g] < least) return false;
    return true;
}

static bool inputs_are_good(const struct wisp_splayer *l)
{
    for (uint32_t g = 0; g < l->n_groups; g++) {
        int64_t last = -1;
        bool good = true;
        for (uint32_t i = l->in_start[g]; i < l->in_start[g + 1]; i++) {
            good &= (int64_t)l->in[i] > last;
            last = l->in[i];
        }
        if (!good || last >= (int64_t)l->n_in) return false;
    }
    return true;
}

/* n_edges and, in a file, the places of weights follow from the groups. */
static bool edges_are_good(const struct wisp_splayer *l, bool in_file)
{
    uint64_t at = 0; /* at most n_in * n_out: no overflow */
    for (uint32_t g = 0; g < l->n_groups; g++) {
        if (l->w && in_file && l->w_start[g] != at) return false;
        at += edges_of(l, g);
    }
    return at == l->n_edges;
}

static bool each_once(const uint32_t *out, uint32_t n, uint64_t *seen)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t bit = (uint64_t)1 << out[i] % 64;
        if (out[i] >= n || seen[out[i] / 64] & bit) return false;
        seen[out[i] / 64] |= bit;
    }
    return true;
}

/* NULL: all is well; else what is not.  n_ids: length of 'in'; seen: n_out bits, all 0. */
static const char *fault_of(const struct wisp_splayer *l, uint64_t n_ids, bool in_file,
                            uint64_t *seen)
{
    if (l->n_in == 0 || l->n_out == 0) return "no inputs, or no outputs";
    if (!starts_are_good(l->in_start, l->n_groups, n_ids, 0)) return "places of inputs";
    if (!starts_are_good(l->out_start, l->n_groups, l->n_out, 1)) return "places of outputs";
    if (!inputs_are_good(l)) return "inputs of a group";
    if (!each_once(l->out, l->n_out, seen)) return "outputs";
    if (!edges_are_good(l, in_file)) return "number of edges";
    const float two[] = { l->weight, l->bias };
    if (!finite_all(two, 2) || !finite_all(l->biases, l->n_out)) return "a number is not finite";
    for (uint32_t g = 0; l->w && g < l->n_groups; g++)
        if (!finite_all(l->w + l->w_start[g], edges_of(l, g))) return "a weight is not finite";
    return NULL;
}

/* WISP_EINVAL and the fault, or WISP_ENOMEM. */
static wisp_status check_layer(const struct wisp_splayer *l, uint64_t n_ids, bool in_file, size_t i,
                               wisp_error *err)
{
    const size_t words = wisp_parts(l->n_out, 64);
    uint64_t *seen = wisp_zalloc(words, sizeof *seen);
    if (!seen) return wisp_fail_mem(err, words * sizeof *seen, "checking a layer");
    const char *why = fault_of(l, n_ids, in_file, seen);
    wisp_free(seen);
    if (!why) return WISP_OK;
    return wisp_fail(err, in_file ? WISP_EFORMAT : WISP_EINVAL, "layer %zu: %s", i + 1, why);
}

/* ---- writing ---- */

struct writer {
    struct wisp_out *out;
    const struct wisp_sources *src; /* or NULL */
    struct index x;
    struct entry *entries; /* (x.n_parts) */
    size_t room;
    XXH3_state_t hash; /* of the part being written */
};

static void writer_abort(struct writer *o)
{
    if (!o) return;
    wisp_out_abort(o->out);
    wisp_free(o->entries);
    wisp_free(o);
}

static wisp_status begin(struct writer **to, const char *path, enum kind kind,
                         const struct wisp_sources *src, wisp_error *err)
{
    struct writer *o = *to = wisp_zalloc(1, sizeof *o);
    if (!o) return wisp_fail_mem(err, sizeof *o, "a file of layers");
    o->src = src;
    o->x.kind = kind;
    wisp_status st = (src ? wisp_out_create_own : wisp_out_create)(&o->out, path, err);
    if (st == WISP_OK && src) wisp_out_like(o->out, src->path);
    if (st == WISP_OK) st = wisp_out_write(o->out, &head_wanted, sizeof head_wanted, err);
    if (st != WISP_OK) {
        writer_abort(o);
        *to = NULL;
    }
    return st;
}

static wisp_status begin_part(struct writer *o, wisp_error *err)
{
    if (!wisp_grow(&o->entries, o->x.n_parts, &o->room, sizeof *o->entries))
        return wisp_fail_mem(err, o->room * sizeof *o->entries, "the index of a file");
    o->entries[o->x.n_parts] = (struct entry){ .offset = wisp_out_offset(o->out) };
    XXH3_64bits_reset(&o->hash);
    return WISP_OK;
}

/* Bytes of a part; a failure is reported when the file is committed. */
static void put(struct writer *o, const void *p, uint64_t bytes)
{
    if (bytes == 0) return;
    XXH3_64bits_update(&o->hash, p, bytes);
    wisp_out_write(o->out, p, bytes, NULL);
    o->entries[o->x.n_parts].bytes += bytes;
}

static void pad(struct writer *o)
{
    static const char zeros[ALIGN];
    const uint64_t bytes = o->entries[o->x.n_parts].bytes;
    put(o, zeros, padded(bytes) - bytes);
}

static void end_part(struct writer *o)
{
    o->entries[o->x.n_parts++].check = XXH3_64bits_digest(&o->hash);
}

static void put_array(struct writer *o, const void *p, uint64_t bytes)
{
    put(o, p, bytes);
    pad(o);
}

/* w group by group, wherever the groups lie in memory. */
static void put_weights(struct writer *o, const struct wisp_splayer *l)
{
    uint64_t at = 0;
    for (uint32_t g = 0; g < l->n_groups; g++) {
        put(o, &at, sizeof at);
        at += edges_of(l, g);
    }
    pad(o);
    for (uint32_t g = 0; g < l->n_groups; g++) put(o, l->w + l->w_start[g], 4 * edges_of(l, g));
    pad(o);
}

static wisp_status writer_create(struct writer **out, const char *path, float clip,
                                 const struct wisp_sources *src, wisp_error *err)
{
    *out = NULL;
    if (!(clip > 0))
        return wisp_fail_at(err, WISP_EINVAL, path, 0, "clip %g; it must be above 0", (double)clip);
    wisp_status st = begin(out, path, KIND_NET, src, err);
    if (st == WISP_OK) (*out)->x.clip = clip;
    return st;
}

static wisp_status writer_add(struct writer *o, const struct wisp_splayer *l, wisp_error *err)
{
    const struct part_head h = { .n_in = l->n_in,
                                 .n_out = l->n_out,
                                 .n_groups = l->n_groups,
                                 .flags = (l->linear ? LINEAR : 0u) | (l->w ? WEIGHTS : 0u) |
                                          (l->biases ? BIASES : 0u),
                                 .n_ids = l->in_start[l->n_groups],
                                 .n_edges = l->n_edges,
                                 .weight = l->weight,
                                 .bias = l->bias };
    wisp_status st = check_layer(l, h.n_ids, false, (size_t)o->x.n_parts, err);
    if (st == WISP_OK) st = begin_part(o, err);
    if (st != WISP_OK) return st;
    const uint64_t starts = 4 * ((uint64_t)l->n_groups + 1);
    put(o, &h, sizeof h);
    put_array(o, l->in_start, starts);
    put_array(o, l->in, 4 * h.n_ids);
    put_array(o, l->out_start, starts);
    put_array(o, l->out, 4 * (uint64_t)l->n_out);
    if (l->biases) put_array(o, l->biases, 4 * (uint64_t)l->n_out);
    if (l->w) put_weights(o, l);
    end_part(o);
    return WISP_OK;
}

static void put_index(struct writer *o, struct tail *t, const void *p, uint64_t bytes)
{
    if (bytes == 0) return;
    XXH3_64bits_update(&o->hash, p, bytes);
    wisp_out_write(o->out, p, bytes, NULL);
    t->bytes += bytes;
}

static wisp_status writer_commit(struct writer *o, uint64_t n_edges, wisp_error *err)
{
    const struct wisp_sources *src = o->src;
    struct tail t = { .offset = wisp_out_offset(o->out), .magic = "wispsend" };
    o->x.n_edges = n_edges;
    o->x.n_sources = src ? src->n : 0;
    XXH3_64bits_reset(&o->hash);
    put_index(o, &t, &o->x, sizeof o->x);
    put_index(o, &t, o->entries, o->x.n_parts * sizeof *o->entries);
    if (src) put_index(o, &t, src->ids, src->n * sizeof *src->ids);
    t.check = XXH3_64bits_digest(&o->hash);
    t.own = XXH3_64bits(&t, offsetof(struct tail, own));
    wisp_out_write(o->out, &t, sizeof t, NULL);
    wisp_status st = wisp_out_commit(o->out, err);
    o->out = NULL;
    writer_abort(o);
    return st;
}

wisp_status wisp_spnet_save(const struct wisp_spnet *net, const char *path,
                            const struct wisp_sources *src, wisp_error *err)
{
    struct writer *o;
    wisp_status st = writer_create(&o, path, net->clip, src, err);
    for (size_t i = 0; st == WISP_OK && i < net->n_layers; i++)
        st = writer_add(o, &net->layers[i], err);
    if (st == WISP_OK) return writer_commit(o, net->n_edges, err);
    writer_abort(o);
    return st;
}

/* ---- reading ---- */

static struct entry entry(const unsigned char *entries, size_t i)
{
    struct entry e;
    memcpy(&e, entries + i * sizeof e, sizeof e);
    return e;
}

/* Parts lie one after the other from the head to the index. */
static bool parts_are_good(const unsigned char *entries, uint64_t n, uint64_t index_offset)
{
    uint64_t at = sizeof(struct head);
    for (uint64_t i = 0; i < n; i++) {
        const struct entry e = entry(entries, i);
        if (e.offset != at || e.bytes == 0 || e.bytes % ALIGN || e.bytes > index_offset - at)
            return false;
        at += e.bytes;
    }
    return at == index_offset;
}

static const char *find_index(const struct wisp_map *m, struct index *x,
                              const unsigned char **entries, enum kind kind)
{
    struct tail t;
    if (m->bytes < sizeof(struct head) + sizeof *x + sizeof t) return "too short";
    if (memcmp(m->p, &head_wanted, sizeof head_wanted) != 0) return "not of this version";
    memcpy(&t, m->p + m->bytes - sizeof t, sizeof t);
    if (memcmp(t.magic, "wispsend", 8) != 0 || t.own != XXH3_64bits(&t, offsetof(struct tail, own)))
        return "the end is missing";
    const uint64_t body = m->bytes - sizeof t;
    if (t.offset < sizeof(struct head) || t.offset > body || t.bytes != body - t.offset ||
        t.bytes < sizeof *x || t.offset % ALIGN)
        return "index out of place";
    if (XXH3_64bits(m->p + t.offset, t.bytes) != t.check) return "index: checksum";
    memcpy(x, m->p + t.offset, sizeof *x);
    const uint64_t left = t.bytes - sizeof *x, most = left / sizeof(struct entry);
    if (x->n_parts > most || x->n_sources > left / sizeof(struct wisp_file_id) ||
        x->n_parts * sizeof(struct entry) + x->n_sources * sizeof(struct wisp_file_id) != left)
        return "index: sizes";
    *entries = m->p + t.offset + sizeof *x;
    if (!parts_are_good(*entries, x->n_parts, t.offset)) return "index: parts";
    return x->kind == kind ? NULL : kind == KIND_NET ? "not a network" : "not inputs";
}

static bool same_sources(const struct index *x, const unsigned char *entries,
                         const struct wisp_sources *src)
{
    const unsigned char *ids = entries + x->n_parts * sizeof(struct entry);
    if (!src || (src->n == 0 && x->n_sources == 0)) return true;
    return x->n_sources == src->n && memcmp(ids, src->ids, src->n * sizeof *src->ids) == 0;
}

/* Maps a file and finds its index; the map is closed on failure. */
static wisp_status open_file(struct wisp_map *m, struct index *x, const unsigned char **entries,
                             const char *path, enum kind kind, const struct wisp_sources *src,
                             wisp_error *err)
{
    wisp_status st =
        src ? wisp_map_open_own(m, path, src->path, false, err) : wisp_map_open(m, path, err);
    if (st != WISP_OK) return st;
    const char *why = find_index(m, x, entries, kind);
    if (why) st = wisp_fail(err, WISP_EFORMAT, "%s", why);
    else if (!same_sources(x, *entries, src))
        st = wisp_fail(err, WISP_ENOTSUP, "made from another state of its sources");
    if (st != WISP_OK) wisp_map_close(m);
    return st;
}

wisp_status wisp_netfile_open(struct wisp_netfile *f, const char *path,
                              const struct wisp_sources *src, wisp_error *err)
{
    struct index x;
    *f = (struct wisp_netfile){ 0 };
    wisp_status st = open_file(&f->map, &x, &f->entries, path, KIND_NET, src, err);
    if (st == WISP_OK && !(x.clip > 0)) st = wisp_fail(err, WISP_EFORMAT, "clip");
    if (st != WISP_OK) {
        wisp_netfile_close(f);
        return st;
    }
    f->n_layers = (size_t)x.n_parts;
    f->clip = x.clip;
    f->n_edges = x.n_edges;
    return WISP_OK;
}

void wisp_netfile_close(struct wisp_netfile *f)
{
    wisp_map_close(&f->map);
    *f = (struct wisp_netfile){ 0 };
}

wisp_status wisp_netfile_layer(struct wisp_splayer *view, const struct wisp_netfile *f, size_t i,
                               wisp_error *err)
{
    static const char zeros[sizeof(struct part_head)];
    const struct entry e = entry(f->entries, i);
    const unsigned char *p = f->map.p + e.offset;
    struct part_head h;
    uint64_t at[N_ARRAYS];
    *view = (struct wisp_splayer){ 0 };
    if (XXH3_64bits(p, e.bytes) != e.check)
        return wisp_fail(err, WISP_EFORMAT, "layer %zu: checksum", i + 1);
    memcpy(&h, p, sizeof h); /* a part is never shorter */
    if (h.flags & ~(LINEAR | WEIGHTS | BIASES) || memcmp(h.zero, zeros, sizeof h.zero) != 0 ||
        lay_out(at, &h) != e.bytes)
        return wisp_fail(err, WISP_EFORMAT, "layer %zu: sizes", i + 1);
    struct wisp_splayer l = view_of(p, &h, at);
    wisp_status st = check_layer(&l, h.n_ids, true, i, err);
    if (st == WISP_OK) *view = l;
    return st;
}

/* ---- a whole net in memory ---- */

static void *copy_of(const void *p, uint64_t bytes, bool *full)
{
    void *to = p && !*full ? wisp_alloc((size_t)bytes, 1) : NULL;
    if (p && !to) *full = true;
    if (to) memcpy(to, p, (size_t)bytes);
    return to;
}

/* A layer of its own from a view. */
static wisp_status copy_layer(struct wisp_splayer *to, const struct wisp_splayer *v,
                              wisp_error *err)
{
    const uint64_t starts = 4 * ((uint64_t)v->n_groups + 1), outs = 4 * (uint64_t)v->n_out;
    bool full = false;
    *to = *v;
    to->in_start = copy_of(v->in_start, starts, &full);
    to->in = copy_of(v->in, 4 * (uint64_t)v->in_start[v->n_groups], &full);
    to->out_start = copy_of(v->out_start, starts, &full);
    to->out = copy_of(v->out, outs, &full);
    to->biases = copy_of(v->biases, outs, &full);
    to->w_start = copy_of(v->w_start, 8 * (uint64_t)v->n_groups, &full);
    to->w = copy_of(v->w, 4 * v->n_edges, &full);
    if (!full) return WISP_OK;
    wisp_splayer_clear(to);
    return wisp_fail_mem(err, 2 * starts + outs + 4 * v->n_edges, "a layer");
}

struct loading {
    const struct wisp_netfile *f;
    struct wisp_splayer *layers; /* (f->n_layers) */
    _Atomic(size_t) bad;         /* the first layer that failed; n_layers: none */
    _Atomic(int) full;           /* memory ran out in some layer */
};

static void load_layer(void *arg, size_t i, int thread)
{
    struct loading *j = arg;
    struct wisp_splayer view;
    (void)thread;
    wisp_status st = wisp_netfile_layer(&view, j->f, i, NULL);
    if (st == WISP_OK) st = copy_layer(&j->layers[i], &view, NULL);
    if (st == WISP_OK) return;
    if (st == WISP_ENOMEM) j->full = 1;
    size_t bad = atomic_load(&j->bad);
    while (i < bad && !atomic_compare_exchange_weak(&j->bad, &bad, i)) {}
}

static wisp_status load_layers(struct wisp_spnet *net, struct loading *j, struct wisp_pool *pool,
                               wisp_error *err)
{
    const size_t n = j->f->n_layers;
    wisp_parallel_for(pool, n, load_layer, j);
    if (j->full) return wisp_fail_mem(err, j->f->map.bytes, "a network");
    struct wisp_splayer view;
    if (j->bad < n) return wisp_netfile_layer(&view, j->f, j->bad, err); /* for its words */
    wisp_status st = WISP_OK;
    for (size_t i = 0; st == WISP_OK && i < n; i++) {
        if (i > 0 && net->layers[i - 1].n_out != j->layers[i].n_in)
            st = wisp_fail(err, WISP_EFORMAT, "layer %zu: its width", i + 1);
        else st = wisp_spnet_push(net, &j->layers[i], err);
    }
    net->n_edges = j->f->n_edges;
    return st;
}

wisp_status wisp_spnet_load(struct wisp_spnet **out, const char *path,
                            const struct wisp_sources *src, struct wisp_pool *pool, wisp_error *err)
{
    struct wisp_netfile f;
    *out = NULL;
    wisp_status st = wisp_netfile_open(&f, path, src, err);
    if (st != WISP_OK) return st;
    struct wisp_spnet *net = wisp_spnet_create(f.clip);
    struct loading j = { .f = &f,
                         .layers = wisp_zalloc(f.n_layers, sizeof *j.layers),
                         .bad = f.n_layers };
    if (net && j.layers) st = load_layers(net, &j, pool, err);
    else st = wisp_fail_mem(err, f.n_layers * sizeof *j.layers, "a network");
    for (size_t i = 0; j.layers && i < f.n_layers; i++) wisp_splayer_clear(&j.layers[i]);
    wisp_free(j.layers);
    st = wisp_map_end(&f.map, st, err);
    if (st == WISP_OK) *out = net;
    else wisp_spnet_free(net);
    return st;
}

/* ---- inputs ---- */

struct input_arrays { /* as they lie in the file */
    int n;
    unsigned char *p[3]; /* of a set in memory */
    uint64_t bytes[3], parts[3];
};

static struct input_arrays arrays_of(const struct wisp_spinputs *x, bool bits, uint64_t numbers)
{
    struct input_arrays a = { .n = bits ? 1 : 3 };
    if (bits) {
        a.p[0] = (unsigned char *)x->bits, a.bytes[0] = 8 * (uint64_t)x->n * x->words;
    } else {
        a.p[0] = (unsigned char *)x->start, a.bytes[0] = 8 * ((uint64_t)x->n + 1);
        a.p[1] = (unsigned char *)x->id, a.bytes[1] = 4 * numbers;
        a.p[2] = (unsigned char *)x->value, a.bytes[2] = 4 * numbers;
    }
    for (int i = 0; i < a.n; i++) a.parts[i] = wisp_parts(a.bytes[i], SLICE);
    return a;
}

/* Piece k: bytes of array *i from *at on. */
static uint64_t piece(const struct input_arrays *a, uint64_t k, int *i, uint64_t *at)
{
    for (*i = 0; k >= a->parts[*i]; ++*i) k -= a->parts[*i];
    *at = k * SLICE;
    const uint64_t left = a->bytes[*i] - *at;
    return left < SLICE ? left : SLICE;
}

static uint64_t n_pieces(const struct input_arrays *a)
{
    uint64_t n = 0;
    for (int i = 0; i < a->n; i++) n += a->parts[i];
    return n;
}

wisp_status wisp_spinputs_save(const struct wisp_spinputs *x, const char *path,
                               const struct wisp_sources *src, wisp_error *err)
{
    struct writer *o;
    wisp_status st = begin(&o, path, KIND_INPUTS, src, err);
    if (st != WISP_OK) return st;
    o->x.n = x->n;
    o->x.width = x->width;
    o->x.bits = x->bits != NULL;
    o->x.numbers = x->bits ? 0 : x->start[x->n];
    const struct input_arrays a = arrays_of(x, x->bits != NULL, o->x.numbers);
    for (uint64_t k = 0; st == WISP_OK && k < n_pieces(&a); k++) {
        int i;
        uint64_t at, bytes = piece(&a, k, &i, &at);
        if ((st = begin_part(o, err)) != WISP_OK) break;
        put_array(o, a.p[i] + at, bytes);
        end_part(o);
    }
    if (st == WISP_OK) return writer_commit(o, 0, err);
    writer_abort(o);
    return st;
}

struct input_loading {
    const struct wisp_map *m;
    const unsigned char *entries;
    struct input_arrays a;
    _Atomic(int) bad;
};

static void load_piece(void *arg, size_t k, int thread)
{
    struct input_loading *j = arg;
    int i;
    uint64_t at, bytes = piece(&j->a, k, &i, &at);
    const struct entry e = entry(j->entries, k);
    (void)thread;
    if (XXH3_64bits(j->m->p + e.offset, e.bytes) != e.check) j->bad = 1;
    memcpy(j->a.p[i] + at, j->m->p + e.offset, bytes);
    wisp_map_forget(j->m, j->m->p + e.offset, e.bytes);
}

static bool pieces_fit(const struct input_loading *j, uint64_t n_parts)
{
    if (n_pieces(&j->a) != n_parts) return false;
    for (uint64_t k = 0; k < n_parts; k++) {
        int i;
        uint64_t at;
        if (entry(j->entries, k).bytes != padded(piece(&j->a, k, &i, &at))) return false;
    }
    return true;
}

/* Nothing beyond the width; rows that ascend; finite numbers. */
static bool values_are_good(const struct wisp_spinputs *x, uint64_t numbers)
{
    if (x->bits) {
        const uint64_t beyond = x->width % 64 ? ~(uint64_t)0 << x->width % 64 : 0;
        uint64_t bad = 0;
        for (size_t r = 0; r < x->n; r++) bad |= x->bits[r * x->words + x->words - 1] & beyond;
        return bad == 0;
    }
    if (x->start[0] != 0 || x->start[x->n] != numbers) return false;
    for (size_t r = 0; r < x->n; r++)
        if (x->start[r + 1] < x->start[r]) return false;
    for (size_t r = 0; r < x->n; r++)
        for (uint64_t i = x->start[r]; i < x->start[r + 1]; i++)
            if (x->id[i] >= x->width || (i > x->start[r] && x->id[i] <= x->id[i - 1])) return false;
    return finite_all(x->value, numbers);
}

static wisp_status load_inputs(struct wisp_spinputs *to, struct input_loading *j,
                               const struct index *x, struct wisp_pool *pool, wisp_error *err)
{
    if (x->width == 0 || x->width > UINT32_MAX || x->bits > 1 || x->n >> 32 || x->numbers >> 48)
        return wisp_fail(err, WISP_EFORMAT, "sizes");
    *to = (struct wisp_spinputs){ .n = (size_t)x->n, .width = (uint32_t)x->width };
    to->words = wisp_parts(to->width, 64);
    j->a = arrays_of(to, x->bits, x->numbers);
    if (!pieces_fit(j, x->n_parts)) return wisp_fail(err, WISP_EFORMAT, "sizes");
    bool full = false; /* what is allocated is in the file: no promise can take more */
    for (int i = 0; i < j->a.n; i++) {
        j->a.p[i] = wisp_alloc((size_t)j->a.bytes[i], 1);
        full |= !j->a.p[i];
    }
    if (x->bits) to->bits = (uint64_t *)j->a.p[0];
    else {
        to->start = (uint64_t *)j->a.p[0];
        to->id = (uint32_t *)j->a.p[1];
        to->value = (float *)j->a.p[2];
    }
    if (full) return wisp_fail_mem(err, (size_t)j->a.bytes[0], "inputs");
    wisp_parallel_for(pool, (size_t)x->n_parts, load_piece, j);
    if (j->bad) return wisp_fail(err, WISP_EFORMAT, "checksum");
    return values_are_good(to, x->numbers) ? WISP_OK : wisp_fail(err, WISP_EFORMAT, "values");
}

wisp_status wisp_spinputs_load(struct wisp_spinputs *out, const char *path,
                               const struct wisp_sources *src, struct wisp_pool *pool,
                               wisp_error *err)
{
    struct wisp_map m;
    struct index x;
    struct input_loading j = { .m = &m };
    *out = (struct wisp_spinputs){ 0 };
    wisp_status st = open_file(&m, &x, &j.entries, path, KIND_INPUTS, src, err);
    if (st != WISP_OK) return st;
    st = wisp_map_end(&m, load_inputs(out, &j, &x, pool, err), err);
    if (st != WISP_OK) wisp_spinputs_clear(out);
    return st;
}

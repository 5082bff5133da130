/* Layers laid out for deep_panel.cu: one lane per output, 32 of them in a slice.  Plain code of the
 * host.
 *
 *   a layer's bytes   chunks of slice 0 | of slice 1 | ... | one more | ends | slots | biases
 *   a chunk           4 edges of each lane: ids (32 lanes, 4), 16 bits | weights (32 lanes, 4)
 *   ends              (slices, phases) uint32: chunks before the end of this phase of this slice
 *   slots             (outputs) uint32: slot of the i-th output, longest first
 *
 * Outputs are sorted by their number of edges, for a slice takes as long as its longest output.
 * Edges that are missing have weight 0 and the place after the last, which holds zeros.
 *
 * All inputs in shared memory (form panel): one phase, slots as outputs are sorted.
 *
 * As a window (form slice): slots are ids, so that an output's ids ascend, and so does what it
 * needs of a window that moves on over the inputs:
 *
 *   phase p   reads rows p * stretch - behind .. (p + 1) * stretch + ahead - 1, while the
 *             'stretch' rows after them are on their way
 *   ring      behind + 2 * stretch + ahead places; row r is at place r % ring
 *
 * 32 outputs of k edges each, of n inputs, are apart by about 2 n / sqrt(k) inputs when each adds
 * its next edge.  Where the window is wider no lane waits for another.  Steps are dealt out evenly
 * to the phases, as far as rows are there, so that no warp waits for another either. */
#include "cuda/deep.cuh"

#include <algorithm>

enum { LANES = 32, CHUNK = 4, ID_BYTES = 2 * CHUNK * LANES, W_BYTES = 4 * CHUNK * LANES };

struct output {
    uint32_t group, j; /* of the group's outputs */
};

struct lane { /* the edges of an output that are left */
    const uint32_t *in, *end;
    const float *w; /* NULL: none has weights */
    uint32_t w_step;
};

struct writer {
    const struct wisp_dsteps *s;
    struct wisp_dimage *image;
    struct wisp_dlayer *d;
    size_t begin, bytes; /* where the layer begins; of a chunk */
    uint32_t behind;
    uint32_t turn; /* a multiple of 'ring': the last one that is not above any row of the window */
    struct lane lane[LANES];
};

static uint32_t n_edges(const struct wisp_cuda_layer *l, const struct output *o)
{
    return l->in_start[o->group + 1] - l->in_start[o->group];
}

static uint32_t place_of(const struct writer *w, uint32_t id)
{
    const struct wisp_dsteps *s = w->s;
    const uint32_t ring = w->d->ring;
    const uint32_t at = s->window ? id - w->turn : w->d->base + (s->map ? s->map[id] : id);
    return at < ring ? at : at - ring;
}

/* One chunk: of each lane the next 4 edges, as far as their inputs are below 'here'. */
static bool put_chunk(struct writer *w, uint32_t here)
{
    const size_t at = w->begin + w->d->chunks * w->bytes;
    if (!wisp_deep_room(w->image, at + w->bytes)) return false;
    uint16_t *ids = (uint16_t *)(w->image->bytes + at), none = (uint16_t)w->d->ring;
    float *weights = (float *)(w->image->bytes + at + ID_BYTES);
    for (struct lane *t = w->lane; t < w->lane + LANES; t++, ids += CHUNK, weights += CHUNK) {
        ptrdiff_t n = 0, most = std::min<ptrdiff_t>(CHUNK, t->end - t->in);
        for (; n < most && t->in[n] < here; n++) ids[n] = (uint16_t)place_of(w, t->in[n]);
        for (ptrdiff_t e = n; e < CHUNK; e++) ids[e] = none;
        t->in += n;
        if (!t->w) continue;
        for (ptrdiff_t e = 0; e < CHUNK; e++) weights[e] = e < n ? t->w[e * t->w_step] : 0;
        t->w += n * t->w_step;
    }
    w->d->chunks++;
    return true;
}

/* Whether a chunk now would be as full as it ever will be, and whether there must be one, because
 * inputs below 'kept' will not be there in the next phase. */
static void look(const struct writer *w, uint32_t here, uint32_t kept, bool *full, bool *must)
{
    *full = true, *must = false;
    for (const struct lane *t = w->lane; t < w->lane + LANES; t++) {
        const ptrdiff_t left = t->end - t->in;
        if (left == 0) continue;
        if (*t->in < kept) *must = true;
        if (t->in[std::min<ptrdiff_t>(left, CHUNK) - 1] >= here) *full = false;
    }
}

/* All chunks of the lanes; longest: the most edges of a lane. */
static bool put_slice(struct writer *w, uint32_t longest, uint32_t *ends)
{
    const struct wisp_dlayer *d = w->d;
    const uint32_t all = 0xffffffffu;
    uint64_t done = 0;
    for (uint32_t p = 0; p < d->phases; p++) {
        const bool last = p + 1 == d->phases;
        const uint64_t next = (uint64_t)(p + 1) * d->stretch;
        const uint32_t here = last ? all : (uint32_t)std::min<uint64_t>(next + d->ahead, all);
        uint32_t kept = last ? all : next > w->behind ? (uint32_t)(next - w->behind) : 0;
        if (!last && d->n_in <= d->ring) kept = 0;
        const uint64_t first = (uint64_t)p * d->stretch;
        if (w->s->window && first > w->behind)
            w->turn = (uint32_t)((first - w->behind) / d->ring * d->ring);
        else w->turn = 0;
        const uint64_t most = (uint64_t)longest * (p + 1) / d->phases;
        for (;;) {
            bool full, must;
            look(w, here, kept, &full, &must);
            if (!must && !(full && done + CHUNK <= most)) break;
            if (!put_chunk(w, here)) return false;
            done += CHUNK;
        }
        ends[p] = d->chunks;
    }
    return true;
}

static void set_lane(struct lane *t, const struct wisp_cuda_layer *l, const struct output *o)
{
    static const float none = 0;
    *t = {};
    if (l->w) t->w = &none;
    if (!o) return;
    t->in = l->in + l->in_start[o->group], t->end = l->in + l->in_start[o->group + 1];
    if (!l->w) return;
    t->w = l->w + l->w_start[o->group] + o->j;
    t->w_step = l->out_start[o->group + 1] - l->out_start[o->group];
}

/* How inputs pass through shared memory. */
static void plan_window(struct writer *w)
{
    enum { AT_ONCE = 256 }; /* inputs that are not worth being divided */
    struct wisp_dlayer *d = w->d;
    d->ring = w->s->ring, d->phases = 1, d->stretch = d->n_in, d->ahead = 0;
    if (!w->s->window) return;
    if (d->n_in <= w->s->ring) { /* adding begins when half of them are there */
        d->ring = d->n_in;
        if (d->n_in >= AT_ONCE) d->stretch = d->ahead = (d->n_in + 3) / 4;
    } else {
        d->stretch = std::max(1u, d->ring / 8);
        d->ahead = (d->ring - 2 * d->stretch) / 2;
        w->behind = d->ring - 2 * d->stretch - d->ahead;
    }
    d->phases = (d->n_in + d->stretch - 1) / d->stretch;
}

static bool put_layer(struct writer *w, const struct output *sorted, uint32_t *ends)
{
    const struct wisp_cuda_layer *l = w->s->l;
    for (uint32_t i = 0; i < l->n_out; i += LANES, ends += w->d->phases) {
        for (uint32_t t = 0; t < LANES; t++)
            set_lane(&w->lane[t], l, i + t < l->n_out ? sorted + i + t : NULL);
        if (!put_slice(w, n_edges(l, sorted + i), ends)) return false;
    }
    for (struct lane &t : w->lane) set_lane(&t, l, NULL);
    if (!put_chunk(w, 0)) return false; /* chunks are loaded before they are needed */
    w->d->chunks--;
    return true;
}

bool wisp_steps_pack(struct wisp_dimage *image, const struct wisp_dsteps *s, size_t at)
{
    const struct wisp_cuda_layer *l = s->l;
    struct wisp_dlayer *d = &image->layers[at];
    struct writer w = {};
    w.s = s, w.image = image, w.d = d, w.begin = image->start[at];
    w.bytes = ID_BYTES + (l->w ? W_BYTES : 0);
    plan_window(&w);
    const size_t n_ends = ((size_t)l->n_out + LANES - 1) / LANES * d->phases;
    struct output *sorted = (struct output *)wisp_dheap((size_t)l->n_out * sizeof *sorted);
    uint32_t *ends = (uint32_t *)wisp_dheap((n_ends + l->n_out) * sizeof *ends), n = 0;
    for (uint32_t g = 0; g < l->n_groups && sorted; g++)
        for (uint32_t j = 0; j < l->out_start[g + 1] - l->out_start[g]; j++) sorted[n++] = { g, j };
    if (sorted)
        std::stable_sort(sorted, sorted + n, [&](const struct output &a, const struct output &b) {
            return n_edges(l, &a) > n_edges(l, &b);
        });
    const size_t about = w.begin + (l->in_start[l->n_groups] / 120 + 1) * w.bytes;
    bool ok = sorted && ends && wisp_deep_room(image, about) && put_layer(&w, sorted, ends);
    const size_t meta_at = (d->chunks + (size_t)1) * w.bytes, table = n_ends + l->n_out;
    const size_t bias_at = meta_at + (table + 3) / 4 * 16;
    const size_t bytes = (bias_at + (l->biases ? 4 * (size_t)l->n_out : 0) + 255) / 256 * 256;
    ok = ok && wisp_deep_room(image, image->start[at] + bytes);
    if (ok) {
        unsigned char *base = image->bytes + image->start[at];
        image->start[at + 1] = image->start[at] + bytes;
        memset(base + meta_at, 0, bytes - meta_at);
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t id = l->out[l->out_start[sorted[i].group] + sorted[i].j];
            const uint32_t slot = s->window ? id : i;
            ends[n_ends + i] = slot;
            s->slot[id] = slot;
            if (l->biases) ((float *)(base + bias_at))[slot] = l->biases[id];
        }
        memcpy(base + meta_at, ends, table * sizeof *ends);
        d->n_slots = l->n_out;
        d->meta = (const uint4 *)meta_at;
        d->biases = l->biases ? (const float *)bias_at : NULL;
    }
    wisp_dheap_free(sorted), wisp_dheap_free(ends);
    return ok;
}

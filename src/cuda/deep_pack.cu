/* Layers of a deep network as the card wants them: groups cut into units, outputs renumbered, ids
 * in the order in which they are loaded (deep.cuh has the pictures).  Plain code of the host.
 *
 *   a layer's bytes   ids | weights | meta | biases      each from a multiple of 16 bytes on
 *
 * For chips, ids of a unit are put in an order in which the 32 units of a slice find their inputs
 * in different banks of shared memory as often as can be: a sum has no order of its own.  For the
 * wide form, groups that share inputs become neighbours, so that the second finds them in cache;
 * where many do, ids of a unit are split into those of its own and those shared with the next one,
 * and are written as own ids, 8 per line, then shared ones, which are a multiple of 8:
 *
 *   a segment of a chain   own of 0 | of 0 and 1 | own of 1 | of 1 and 2 | ... | own of the last */
#include "cuda/deep.cuh"

#include <algorithm>
#include <math.h>
#include <new>
#include <stdlib.h>
#include <string.h>

enum { LANES = 32, LINE = 16, SEGMENT = 16 }; /* units of a chain that a warp walks */
static const int outputs_of[WISP_DEEP_PARTS] = { 16, 8, 4, 2, 1 };

struct unit {
    uint32_t group, first; /* of the group's outputs */
};

struct packer {
    const struct wisp_cuda_layer *l;
    enum wisp_deep_form form;
    bool direct; /* this layer reads memory */
    int most;
    const uint32_t *map;    /* slot of each input; NULL: its id */
    uint32_t base, missing; /* added to slots; what ids that are missing point at */
    uint32_t ring;          /* panel, slice: places, of which the first follows the last */
    uint32_t *slot;         /* slot of each output */
    struct unit *units;     /* of all parts, in order */
    uint4 *meta;            /* of all slices (units) */
    uint32_t *order;        /* (LANES, longest) positions of a unit's ids, as they are written */
    uint32_t *groups;       /* in the order in which they are taken */
    uint32_t *readers, *reader_start; /* groups that read an input */
    uint32_t *place;                  /* (inputs) 1 + position in the next unit, or 0 */
    unsigned char *had[2];            /* (longest) of a unit and the next: shared with the last */
    uint32_t n_units, n_meta, lines, w_lines;
};

static uint32_t n_ids(const struct packer *p, const struct unit *u)
{
    return p->l->in_start[u->group + 1] - p->l->in_start[u->group];
}

static uint32_t n_outputs(const struct packer *p, uint32_t group)
{
    return p->l->out_start[group + 1] - p->l->out_start[group];
}

/* Slot that the i-th id of a unit's group stands for. */
static uint32_t source(const struct packer *p, const struct unit *u, uint32_t i)
{
    const uint32_t id = p->l->in[p->l->in_start[u->group] + i];
    return p->base + (p->map ? p->map[id] : id);
}

/* ---- which units, in which order ---- */

/* Starts anywhere, goes on with a group that reads one of the last one's inputs. */
static void chain_groups(struct packer *p)
{
    const struct wisp_cuda_layer *l = p->l;
    const uint32_t n_ids_all = l->in_start[l->n_groups], none = 0xffffffffu;
    uint32_t n = 0, scan = 0, at = none, *start = p->reader_start;
    memset(start, 0, ((size_t)l->n_in + 2) * sizeof *start);
    for (uint32_t i = 0; i < n_ids_all; i++) start[l->in[i] + 2]++;
    for (uint32_t i = 0; i < l->n_in; i++) start[i + 2] += start[i + 1];
    for (uint32_t g = 0; g < l->n_groups; g++)
        for (uint32_t i = l->in_start[g]; i < l->in_start[g + 1]; i++)
            p->readers[start[l->in[i] + 1]++] = g;   /* start[i] .. start[i + 1] - 1 */
    unsigned char *taken = (unsigned char *)p->slot; /* not filled yet; n_groups <= n_out bytes */
    memset(taken, 0, l->n_groups);
    while (n < l->n_groups) {
        if (at == none) {
            while (taken[scan]) scan++;
            at = scan;
        }
        taken[at] = 1;
        p->groups[n++] = at;
        uint32_t next = none;
        for (uint32_t i = l->in_start[at]; i < l->in_start[at + 1] && next == none; i++) {
            const uint32_t id = l->in[i];
            for (uint32_t r = start[id]; r < start[id + 1] && r < start[id] + 8; r++)
                if (!taken[p->readers[r]] && next == none) next = p->readers[r];
        }
        at = next;
    }
}

static uint32_t list_units(struct packer *p, int outputs)
{
    struct unit *to = p->units + p->n_units;
    uint32_t n = 0, M = (uint32_t)outputs;
    if (outputs > p->most) return 0;
    for (uint32_t i = 0; i < p->l->n_groups; i++) {
        const uint32_t g = p->groups[i], m = n_outputs(p, g);
        if (outputs == p->most) {
            for (uint32_t t = 0; t < m / M; t++) to[n++] = { g, t * M };
        } else if (m & M) {
            to[n++] = { g, m / (2 * M) * 2 * M };
        }
    }
    if (p->form == WISP_DEEP_CHIP)
        std::stable_sort(to, to + n, [&](const struct unit &a, const struct unit &b) {
            return n_ids(p, &a) > n_ids(p, &b);
        });
    p->n_units += n;
    return n;
}

/* Whether each lane of each slice reads the neighbour of what the lane before it reads. */
static bool all_runs(const struct packer *p, const struct unit *u, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        if (i % LANES == 0) continue;
        uint32_t k = n_ids(p, u + i);
        if (k != n_ids(p, u + i - 1)) return false;
        for (uint32_t e = 0; e < k; e++)
            if (source(p, u + i, e) != source(p, u + i - 1, e) + 1) return false;
    }
    return true;
}

static uint32_t even(uint32_t k)
{
    return (k + 1) / 2 * 2;
}

/* Whether some lane of a slice has fewer ids than the slice: the rest point at slot n_in. */
static bool any_missing(const struct packer *p, const struct unit *u, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (n_ids(p, u + i) != even(n_ids(p, u + i / LANES * LANES))) return true;
    return false;
}

static enum wisp_deep_ids kind_of(const struct packer *p, const struct unit *u, uint32_t n)
{
    const uint32_t n_in = p->l->n_in;
    if (p->form != WISP_DEEP_CHIP) return n_in <= 65536 ? WISP_DEEP_16 : WISP_DEEP_32;
    if (p->direct && all_runs(p, u, n)) return WISP_DEEP_RUNS;
    if (n_in < 65536 || (n_in == 65536 && !any_missing(p, u, n))) return WISP_DEEP_16;
    return WISP_DEEP_32;
}

/* ---- chains ---- */

struct split { /* of a unit's ids; their positions are in 'order' */
    uint32_t own, shared;
};

/* Unit i of a chain of n; units are taken one after the other.  An id that the last unit shares is
 * in its sum already; of the others, those that the next unit of the segment has too are shared, as
 * far as they are a multiple of 8. */
static struct split split_unit(struct packer *p, const struct unit *u, uint32_t i, uint32_t n)
{
    const uint32_t *in = p->l->in, *start = p->l->in_start, k = n_ids(p, u + i);
    const bool first = i % SEGMENT == 0, more = i + 1 < n && (i + 1) % SEGMENT != 0;
    const uint32_t *mine = in + start[u[i].group], *next = more ? in + start[u[i + 1].group] : NULL;
    const uint32_t k_next = more ? n_ids(p, u + i + 1) : 0;
    struct split s = { 0, 0 };
    std::swap(p->had[0], p->had[1]);
    if (first) memset(p->had[0], 0, k);
    memset(p->had[1], 0, k_next);
    for (uint32_t e = 0; e < k_next; e++) p->place[next[e]] = e + 1;
    uint32_t match = 0, *order = p->order, *shared = p->order + k;
    for (uint32_t e = 0; e < k; e++)
        if (!p->had[0][e] && p->place[mine[e]]) match++, p->place[mine[e]] = 0;
    for (uint32_t e = 0; e < k_next; e++) p->place[next[e]] = e + 1;
    for (uint32_t e = 0; e < k; e++) {
        if (p->had[0][e]) continue;
        uint32_t *at = &p->place[mine[e]];
        if (*at && s.shared < match / 8 * 8) { /* an id that is there twice is taken once */
            p->had[1][*at - 1] = 1;
            *at = 0;
            shared[s.shared++] = e;
        } else {
            order[s.own++] = e;
        }
    }
    for (uint32_t e = 0; e < k_next; e++) p->place[next[e]] = 0;
    return s;
}

/* Whether walking along a chain saves a fifth of the loads or more. */
static bool chain_pays(struct packer *p, const struct unit *u, uint32_t n)
{
    uint64_t all = 0, loads = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct split s = split_unit(p, u, i, n);
        all += n_ids(p, u + i), loads += s.own + s.shared;
    }
    return 5 * loads <= 4 * all && all > 0;
}

static void lay_chain(struct packer *p, struct wisp_dpart *part, const struct unit *u)
{
    part->chain = SEGMENT, part->k = WISP_DEEP_RAGGED;
    for (uint32_t i = 0; i < part->n; i++) {
        const struct split s = split_unit(p, u, i, part->n);
        p->meta[p->n_meta++] = make_uint4(p->lines, s.own, s.shared, 0);
        p->lines += (s.own + 7) / 8 + s.shared / 8;
    }
    p->lines += 2; /* ids are loaded before they are needed, and past the last */
}

/* One part: its units, and where ids and weights of each slice (unit) lie. */
static void lay_part(struct packer *p, struct wisp_dpart *part, int outputs, uint32_t *slot)
{
    const struct unit *u = p->units + p->n_units;
    const bool chip = p->form == WISP_DEEP_CHIP;
    const uint32_t M = (uint32_t)outputs, n = list_units(p, outputs);
    *part = {};
    part->n = n, part->slot = *slot, part->meta = p->n_meta;
    *slot += (chip ? (n + LANES - 1) / LANES * LANES : n) * M;
    if (n == 0) return;
    part->ids = kind_of(p, u, n);
    if (p->form == WISP_DEEP_WIDE && outputs == WISP_DEEP_MOST && !p->l->w &&
        part->ids == WISP_DEEP_16 && chain_pays(p, u, n)) {
        lay_chain(p, part, u);
        return;
    }
    bool same = true;
    for (uint32_t i = 0; i < n; i += chip ? LANES : 1) {
        uint32_t k = n_ids(p, u + i), lines, w_lines;
        if (chip && part->ids != WISP_DEEP_RUNS) k = even(k);
        if (!chip) lines = (k + 7) / 8 * (part->ids == WISP_DEEP_16 ? 1 : 2);
        else if (part->ids == WISP_DEEP_RUNS) lines = (k + 3) / 4;
        else lines = part->ids == WISP_DEEP_16 ? 4 * k : 8 * k;
        w_lines = chip ? 8 * k * M : (k + 7) / 8 * 2 * M;
        if (!p->l->w) w_lines = 0;
        p->meta[p->n_meta] = make_uint4(p->lines, k, p->w_lines, 0);
        same = same && k == p->meta[part->meta].y;
        if (p->n_meta == part->meta) {
            part->k = k, part->at = p->lines, part->w_at = p->w_lines;
            part->step = lines, part->w_step = w_lines;
        }
        p->n_meta++;
        p->lines += lines, p->w_lines += w_lines;
    }
    if (!same) part->k = WISP_DEEP_RAGGED;
}

/* ---- ids in another order: few lanes of a slice in one bank ---- */

/* order (LANES, stride): for each lane its ids' positions.  Each step gives each lane, in turn, an
 * id of a bank that no lane before it took. */
static void spread(const struct packer *p, const struct unit *u, uint32_t n, uint32_t stride)
{
    uint32_t has[LANES] = {};                             /* banks of which a lane has ids left */
    uint32_t at[LANES][LANES + 1];                        /* place of a lane's next id of a bank */
    uint32_t *sorted = p->order + (size_t)LANES * stride; /* (LANES, stride) by bank */
    uint32_t longest = 0;
    for (uint32_t lane = 0; lane < n; lane++) {
        uint32_t k = n_ids(p, u + lane), *mine = sorted + (size_t)lane * stride;
        uint32_t count[LANES + 1] = {};
        for (uint32_t i = 0; i < k; i++) count[source(p, u + lane, i) % LANES + 1]++;
        for (uint32_t b = 0; b < LANES; b++) {
            if (count[b + 1]) has[lane] |= 1u << b;
            count[b + 1] += count[b];
        }
        memcpy(at[lane], count, sizeof count);
        for (uint32_t i = 0; i < k; i++) mine[count[source(p, u + lane, i) % LANES]++] = i;
        longest = std::max(longest, k);
    }
    for (uint32_t i = 0; i < longest; i++) {
        uint32_t used = 0;
        for (uint32_t t = 0; t < n; t++) {
            const uint32_t lane = (t + i) % n;
            if (!has[lane]) continue;
            uint32_t from = has[lane] & ~used ? has[lane] & ~used : has[lane];
            const uint32_t turn = (lane + i) % LANES; /* the lowest bit from 'turn' on */
            const uint32_t high = from & (0xffffffffu << turn);
            const uint32_t b = (uint32_t)__builtin_ctz(high ? high : from);
            const uint32_t *mine = sorted + (size_t)lane * stride;
            uint32_t pick = mine[at[lane][b]++];
            p->order[(size_t)lane * stride + i] = pick;
            used |= 1u << b;
            const uint32_t k = n_ids(p, u + lane);
            if (at[lane][b] == k || source(p, u + lane, mine[at[lane][b]]) % LANES != b)
                has[lane] &= ~(1u << b);
        }
    }
}

/* ---- writing ---- */

static void put_id(unsigned char *slice, uint32_t at, uint32_t id, bool wide)
{
    if (wide) ((uint32_t *)slice)[at] = id;
    else ((uint16_t *)slice)[at] = (uint16_t)id;
}

/* Where the i-th id of a lane lies in its slice of k ids, counted in ids. */
static uint32_t place_in_slice(uint32_t i, uint32_t k, uint32_t lane, bool wide)
{
    const uint32_t eights = k / 8 * 8;
    if (i < eights && wide) return i / 4 * 4 * LANES + lane * 4 + i % 4;
    if (i < eights) return i / 8 * 8 * LANES + lane * 8 + i % 8;
    uint32_t at = eights * LANES;
    i -= eights;
    if (k & 4) {
        if (i < 4) return at + lane * 4 + i;
        at += 4 * LANES, i -= 4;
    }
    return at + lane * 2 + i;
}

static uint32_t place_of_weight(uint32_t i, uint32_t j, uint32_t lane, uint32_t M)
{
    const uint32_t at = i * M * LANES;
    return M >= 4 ? at + (j / 4 * LANES + lane) * 4 + j % 4 : at + lane * M + j;
}

static float weight_of(const struct packer *p, const struct unit *u, uint32_t i, uint32_t j)
{
    const struct wisp_cuda_layer *l = p->l;
    return l->w[l->w_start[u->group] + (uint64_t)i * n_outputs(p, u->group) + u->first + j];
}

static void write_slice(const struct packer *p, const struct wisp_dpart *part, const struct unit *u,
                        uint32_t n, uint4 m, uint32_t M, uint4 *ids, float4 *w)
{
    unsigned char *to = (unsigned char *)(ids + m.x);
    float *to_w = (float *)(w + m.z);
    const bool runs = part->ids == WISP_DEEP_RUNS, wide = part->ids == WISP_DEEP_32;
    const uint32_t stride = m.y ? m.y : 1;
    for (uint32_t lane = 0; lane < n; lane++)
        for (uint32_t i = 0; i < n_ids(p, u + lane); i++) p->order[(size_t)lane * stride + i] = i;
    if (!p->direct) spread(p, u, n, stride);
    for (uint32_t lane = 0; lane < LANES; lane++) {
        const uint32_t k = lane < n ? n_ids(p, u + lane) : 0;
        for (uint32_t i = 0; i < m.y; i++) {
            const uint32_t o = i < k ? p->order[(size_t)lane * stride + i] : 0;
            const uint32_t id = i < k ? source(p, u + lane, o) : p->missing;
            if (runs && lane == 0) put_id(to, i, id, true);
            if (!runs) put_id(to, place_in_slice(i, m.y, lane, wide), id, wide);
            for (uint32_t j = 0; j < M && p->l->w; j++)
                to_w[place_of_weight(i, j, lane, M)] = i < k ? weight_of(p, u + lane, o, j) : 0;
        }
    }
}

static void write_unit(const struct packer *p, const struct wisp_dpart *part, const struct unit *u,
                       uint4 m, uint32_t M, uint4 *ids, float4 *w)
{
    unsigned char *to = (unsigned char *)(ids + m.x);
    float *to_w = (float *)(w + m.z);
    const uint32_t room = (m.y + 7) / 8 * 8;
    for (uint32_t i = 0; i < room; i++) { /* ids that are missing repeat the first */
        put_id(to, i, source(p, u, i < m.y ? i : 0), part->ids == WISP_DEEP_32);
        for (uint32_t j = 0; j < M && p->l->w; j++)
            to_w[i * M + j] = i < m.y ? weight_of(p, u, i, j) : 0;
    }
}

/* Unit i of a chain. */
static void write_split(struct packer *p, const struct wisp_dpart *part, const struct unit *u,
                        uint32_t i, uint4 *ids)
{
    const uint4 m = p->meta[part->meta + i];
    const struct split s = split_unit(p, u, i, part->n);
    uint16_t *to = (uint16_t *)(ids + m.x), *to_shared = to + (s.own + 7) / 8 * 8;
    for (uint32_t e = 0; e < s.own; e++) to[e] = (uint16_t)source(p, u + i, p->order[e]);
    const uint32_t *shared = p->order + n_ids(p, u + i);
    for (uint32_t e = 0; e < s.shared; e++) to_shared[e] = (uint16_t)source(p, u + i, shared[e]);
}

static void write_part(struct packer *p, const struct wisp_dpart *part, const struct unit *u,
                       uint32_t M, uint4 *ids, float4 *w, float *biases)
{
    const bool chip = p->form == WISP_DEEP_CHIP;
    const struct wisp_cuda_layer *l = p->l;
    const uint4 *m = p->meta + part->meta;
    for (uint32_t i = 0; i < part->n; i += chip ? LANES : 1, m++) {
        uint32_t left = part->n - i;
        if (part->chain) write_split(p, part, u, i, ids);
        else if (chip) write_slice(p, part, u + i, left < LANES ? left : LANES, *m, M, ids, w);
        else write_unit(p, part, u + i, *m, M, ids, w);
    }
    for (uint32_t i = 0; i < part->n; i++)
        for (uint32_t j = 0; j < M; j++) {
            const uint32_t id = l->out[l->out_start[u[i].group] + u[i].first + j];
            const uint32_t slot =
                part->slot + (chip ? (i / LANES * M + j) * LANES + i % LANES : i * M + j);
            p->slot[id] = slot;
            if (biases) biases[slot] = l->biases[id];
        }
}

/* ---- a layer ---- */

bool wisp_deep_room(struct wisp_dimage *image, size_t bytes)
{
    if (bytes <= image->room) return true;
    size_t room = std::max(bytes, image->room + image->room / 2);
    void *more = wisp_dheap(room);
    if (!more) return false;
    if (image->bytes) memcpy(more, image->bytes, image->room);
    wisp_dheap_free(image->bytes);
    image->bytes = (unsigned char *)more, image->room = room;
    return true;
}

static bool pack_layer(struct wisp_dimage *image, struct packer *p, size_t at, float clip)
{
    struct wisp_dlayer *d = &image->layers[at];
    const struct wisp_cuda_layer *l = p->l;
    uint32_t slot = 0;
    *d = {};
    d->n_in = l->n_in, d->n_out = l->n_out, d->linear = l->linear, d->weighted = l->w != NULL;
    d->base = p->base;
    d->scale = l->w ? 1 : l->weight;
    d->bias = l->bias;
    d->lo = l->linear ? -INFINITY : 0, d->hi = l->linear ? INFINITY : clip;
    if (p->form == WISP_DEEP_PANEL || p->form == WISP_DEEP_SLICE) {
        const struct wisp_dsteps s = { l, p->map, p->slot, p->ring, p->form == WISP_DEEP_SLICE };
        return wisp_steps_pack(image, &s, at);
    }
    for (uint32_t g = 0; g < l->n_groups; g++) p->groups[g] = g;
    if (p->form == WISP_DEEP_WIDE) chain_groups(p);
    p->n_units = p->n_meta = p->lines = p->w_lines = 0;
    for (int c = 0; c < WISP_DEEP_PARTS; c++) lay_part(p, &d->part[c], outputs_of[c], &slot);
    d->n_slots = slot;

    const bool biased = l->biases != NULL;
    const size_t w_at = (size_t)p->lines * LINE, meta_at = w_at + (size_t)p->w_lines * LINE;
    const size_t bias_at = meta_at + (size_t)p->n_meta * sizeof *p->meta;
    const size_t bytes = (bias_at + (biased ? 4 * (size_t)slot : 0) + 255) / 256 * 256;
    image->start[at + 1] = image->start[at] + bytes;
    if (!wisp_deep_room(image, image->start[at + 1])) return false;
    unsigned char *base = image->bytes + image->start[at];
    memset(base, 0, bytes);
    memcpy(base + meta_at, p->meta, (size_t)p->n_meta * sizeof *p->meta);
    const struct unit *u = p->units;
    for (int c = 0; c < WISP_DEEP_PARTS; c++) {
        write_part(p, &d->part[c], u, (uint32_t)outputs_of[c], (uint4 *)base,
                   (float4 *)(base + w_at), biased ? (float *)(base + bias_at) : NULL);
        u += d->part[c].n;
    }
    d->ids = (const uint4 *)0;
    d->w = (const float4 *)w_at, d->meta = (const uint4 *)meta_at;
    d->biases = biased ? (const float *)bias_at : NULL;
    return true;
}

/* ---- all layers ---- */

struct sizes {
    uint32_t in, out, groups, outputs, ids; /* the most of a layer, of a group */
    uint32_t all_ids;                       /* of a layer */
};

static wisp_status look(struct sizes *z, const struct wisp_cuda_deep *d, wisp_error *err)
{
    *z = {};
    for (size_t i = 0; i < d->n_layers; i++) {
        const struct wisp_cuda_layer *l = &d->layers[i];
        if (l->out_start[l->n_groups] != l->n_out || (i > 0 && l->n_in != l[-1].n_out))
            return wisp_dfail(err, WISP_EINVAL,
                              "layer %zu: %u inputs after %u outputs, groups with %u of %u outputs",
                              i, l->n_in, i ? l[-1].n_out : l->n_in, l->out_start[l->n_groups],
                              l->n_out);
        z->in = std::max(z->in, l->n_in), z->out = std::max(z->out, l->n_out);
        z->groups = std::max(z->groups, l->n_groups);
        z->all_ids = std::max(z->all_ids, l->in_start[l->n_groups]);
        for (uint32_t g = 0; g < l->n_groups; g++) {
            z->outputs = std::max(z->outputs, l->out_start[g + 1] - l->out_start[g]);
            z->ids = std::max(z->ids, l->in_start[g + 1] - l->in_start[g]);
        }
    }
    return WISP_OK;
}

void wisp_deep_unpack(struct wisp_dimage *image)
{
    wisp_dheap_free(image->layers);
    wisp_dheap_free(image->start);
    wisp_dheap_free(image->bytes);
    wisp_dheap_free(image->slot);
    *image = {};
}

uint32_t wisp_deep_slots(const struct wisp_cuda_layer *l, int most)
{
    uint64_t units[WISP_DEEP_PARTS] = {}, slots = 0;
    for (uint32_t g = 0; g < l->n_groups; g++) {
        const uint32_t m = l->out_start[g + 1] - l->out_start[g];
        for (int c = 0; c < WISP_DEEP_PARTS; c++) {
            const uint32_t M = (uint32_t)outputs_of[c];
            if (outputs_of[c] <= most) units[c] += outputs_of[c] == most ? m / M : (m & M) != 0;
        }
    }
    for (int c = 0; c < WISP_DEEP_PARTS; c++)
        slots += (units[c] + LANES - 1) / LANES * LANES * (uint64_t)outputs_of[c];
    return slots < 0xffffffffu ? (uint32_t)slots : 0xffffffffu;
}

wisp_status wisp_deep_pack(struct wisp_dimage *out, const struct wisp_cuda_deep *d,
                           enum wisp_deep_form form, bool direct, uint32_t width, wisp_error *err)
{
    struct sizes z;
    struct packer p = {};
    *out = {};
    wisp_status st = look(&z, d, err);
    if (st != WISP_OK) return st;
    const size_t longest = z.ids + 2, chains = form == WISP_DEEP_WIDE;
    out->n_layers = d->n_layers;
    out->widest = z.out;
    out->most = form == WISP_DEEP_CHIP && z.outputs <= 2 ? 2 : 16;
    out->layers = (struct wisp_dlayer *)wisp_dheap(d->n_layers * sizeof *out->layers);
    out->start = (size_t *)wisp_dheap_zero((d->n_layers + 1) * sizeof *out->start);
    const size_t slots = (size_t)std::max(z.out, z.groups) + 1;
    out->slot = (uint32_t *)wisp_dheap(slots * sizeof *out->slot);
    p.form = form, p.most = out->most;
    p.ring = width;
    p.slot = (uint32_t *)wisp_dheap(slots * sizeof *p.slot);
    p.units = (struct unit *)wisp_dheap(((size_t)z.out + 1) * sizeof *p.units);
    p.meta = (uint4 *)wisp_dheap(((size_t)z.out + 1) * sizeof *p.meta);
    p.order = (uint32_t *)wisp_dheap(2 * LANES * longest * sizeof *p.order);
    p.groups = (uint32_t *)wisp_dheap(((size_t)z.groups + 1) * sizeof *p.groups);
    p.readers = (uint32_t *)wisp_dheap(((size_t)z.all_ids * chains + 1) * sizeof *p.readers);
    p.reader_start =
        (uint32_t *)wisp_dheap_zero((2 * (size_t)z.in * chains + 4) * sizeof *p.reader_start);
    p.place = p.reader_start ? p.reader_start + z.in * chains + 3 : NULL;
    p.had[0] = (unsigned char *)(p.order + 2 * longest); /* a chain needs two rows of 'order' */
    p.had[1] = p.had[0] + longest;
    bool ok = out->layers && out->start && out->slot && p.slot && p.units && p.meta && p.order &&
              p.groups && p.readers && p.reader_start;
    for (size_t i = 0; i < d->n_layers && ok; i++) {
        p.l = &d->layers[i];
        p.direct = i == 0 && direct;
        p.map = i ? out->slot : NULL;
        p.base = form == WISP_DEEP_CHIP && !p.direct ? (uint32_t)(i % 2) * width : 0;
        if (form == WISP_DEEP_PANEL && i)
            p.base = (out->layers[i - 1].base + p.l[-1].n_in) % p.ring;
        p.missing = p.base + (i ? out->layers[i - 1].n_slots : p.l->n_in);
        ok = pack_layer(out, &p, i, d->clip);
        std::swap(p.slot, out->slot); /* this layer's slots are the next one's map */
    }
    wisp_dheap_free(p.slot), wisp_dheap_free(p.units), wisp_dheap_free(p.meta),
        wisp_dheap_free(p.order);
    wisp_dheap_free(p.groups), wisp_dheap_free(p.readers), wisp_dheap_free(p.reader_start);
    if (ok) return WISP_OK;
    wisp_deep_unpack(out);
    return wisp_dfail(err, WISP_ENOMEM, "no memory left to lay %zu layers out for the card",
                      d->n_layers);
}

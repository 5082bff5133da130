/* Deep sparse networks on the card: memory, inputs, the order of things, times.
 *
 *   create   form (below) --> image of all layers (deep_pack.cu) --> plan of memory --> upload
 *   run      for chunks of inputs: made dense; for ranges of layers: kernels of the form
 *
 * Most often all inputs are one chunk and all layers one range, both on the card already when the
 * clock starts.  Where memory does not suffice inputs come in chunks; where layers alone are too
 * many they come in ranges, copied into one of two buffers while the range in the other is run.
 *
 * Forms: panel and slice, where outputs share no inputs and nothing may be dropped: panel, where 32
 * inputs fit into shared memory and there are enough for all multiprocessors, slice for the rest;
 * chip, where a layer's outputs fit into shared memory twice; else wide. */
#include "cuda/deep.cuh"
#include "base/bounds.h"

#include <algorithm>
#include <math.h>
#include <new>
#include <stdlib.h>
#include <time.h>

enum { LANES = 32, STRETCH = 8 }; /* layers after which the host looks whether inputs are left */

int wisp_deep_only = -1, wisp_deep_ring = 0;

struct wisp_cuda_runner {
    struct wisp_cuda_deep d;
    enum wisp_deep_form form;
    bool drop, streamed, weighted;
    struct wisp_dimage image;
    struct wisp_dchip_plan chip;
    uint32_t width, widest; /* chip: floats of a buffer; panel, slice: places; of all layers */
    uint32_t panel_blocks;
    size_t chunk, n_ranges; /* inputs at a time */
    size_t *range;          /* (n_ranges + 1) first layer of each */
    size_t buffer_bytes;    /* for a range of layers */
    size_t piece_bytes;     /* for inputs before they are dense */
    int n_multi;
    size_t bytes;
    void *block; /* all memory on the card but 'values' */
    unsigned char *layer_mem[2];
    struct wisp_dlayer *layers; /* (n_layers) */
    uint32_t *slot;             /* (outputs of the last layer) */
    float *x;                   /* inputs of the chunk: rows, or panels of (slots, 32) */
    size_t x_step;              /* floats of a row (panel) */
    float *state[2];            /* values between layers (wide) or ranges */
    size_t state_step;
    uint8_t *ended; /* (chunk) */
    uint32_t *next, *counts, *origin[2], *source, *flags;
    unsigned long long *work;
    unsigned char *piece;
    float *values; /* (chunk, outputs of the last layer), once they are asked for */
    cudaStream_t main, copy;
    cudaEvent_t begin, end, ready[2], used[2], looked[2];
    uint32_t *seen; /* (2) pinned: inputs that were left */
    bool pinned, used_once[2];
    double upload_s;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Layer by layer through memory. */
static bool layered(const struct wisp_cuda_runner *r)
{
    return r->form == WISP_DEEP_WIDE || r->form == WISP_DEEP_SLICE;
}

static uint32_t last_width(const struct wisp_cuda_runner *r)
{
    return r->d.layers[r->d.n_layers - 1].n_out;
}

/* ---- the form ---- */

struct facts {               /* of a net */
    uint32_t widest, inputs; /* of all outputs; of the first layer's inputs */
    uint32_t slots;          /* of a chip, the most */
    uint64_t outputs, groups, edges, weighted;
};

static struct facts facts_of(const struct wisp_cuda_deep *d)
{
    struct facts f = {};
    uint32_t largest = 0; /* group's outputs */
    f.inputs = d->layers[0].n_in;
    for (size_t i = 0; i < d->n_layers; i++) {
        const struct wisp_cuda_layer *l = &d->layers[i];
        f.widest = std::max(f.widest, l->n_out);
        f.outputs += l->n_out, f.groups += l->n_groups;
        uint64_t edges = 0;
        for (uint32_t g = 0; g < l->n_groups; g++) {
            const uint32_t outputs = l->out_start[g + 1] - l->out_start[g];
            edges += (uint64_t)(l->in_start[g + 1] - l->in_start[g]) * outputs;
            largest = std::max(largest, outputs);
        }
        f.edges += edges, f.weighted += l->w ? edges : 0;
    }
    for (size_t i = 0; i < d->n_layers; i++)
        f.slots = std::max(f.slots, wisp_deep_slots(&d->layers[i], largest > 2 ? 16 : 2));
    return f;
}

/* Whether panels keep all multiprocessors busy; a slice of each does in any case. */
static bool many_panels(const struct wisp_cuda_runner *r)
{
    const size_t panels = (r->d.n + LANES - 1) / LANES, n = (size_t)r->n_multi;
    return (panels + n - 1) / n * n * 4 <= 5 * panels;
}

static wisp_status choose(struct wisp_cuda_runner *r, wisp_error *err)
{
    const struct facts f = facts_of(&r->d);
    int device = 0, shared = 0;
    cudaError_t e = cudaGetDevice(&device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&r->n_multi, cudaDevAttrMultiProcessorCount, device);
    if (e != cudaSuccess) return wisp_dcheck(e, "asking for the card's sizes", err);
    const size_t room = (size_t)shared - 64;
    const size_t width = ((size_t)f.slots + 1 + 3) / 4 * 4;
    const uint32_t all = std::max(f.widest, f.inputs);
    uint32_t rows = (uint32_t)(room / 128 - 1); /* 32 inputs each, and one of zeros */
    if (wisp_deep_ring) rows = std::min(rows, (uint32_t)wisp_deep_ring);
    const bool chip = 8 * width <= room && 2 * width <= 65536; /* ids of 16 bits */
    const bool slice = !r->drop, panel = slice && wisp_panel_fits(all, rows);
    const bool apart = f.outputs < 2 * f.groups, long_rows = f.edges >= 16 * f.outputs;
    const bool heavy = 2 * f.weighted > f.edges && f.edges >= 4 * f.outputs; /* chip: no weights */
    r->weighted = f.weighted > 0;
    if (panel && apart && (many_panels(r) || !long_rows)) r->form = WISP_DEEP_PANEL;
    else if (slice && apart && (long_rows || heavy)) r->form = WISP_DEEP_SLICE;
    else if (chip && (r->drop || 2 * f.weighted <= f.edges)) r->form = WISP_DEEP_CHIP;
    else r->form = WISP_DEEP_WIDE;
    if (wisp_deep_only >= 0) r->form = (enum wisp_deep_form)wisp_deep_only;
    if ((r->form == WISP_DEEP_CHIP && !chip) || (r->form == WISP_DEEP_PANEL && !panel) ||
        (r->form == WISP_DEEP_SLICE && !slice))
        return wisp_dfail(err, WISP_ENOTSUP, "layers of %u outputs do not fit form %d", f.widest,
                          (int)r->form);
    r->widest = all;
    r->width = r->form == WISP_DEEP_CHIP    ? (uint32_t)width
               : r->form == WISP_DEEP_PANEL ? std::min(2 * all, rows)
                                            : rows;
    r->chip.direct = ((size_t)f.inputs + 1 + 3) / 4 * 4 > width;
    return WISP_OK;
}

/* ---- memory ---- */

static size_t lay(struct wisp_cuda_runner *r, void *b)
{
    const bool ranged = r->n_ranges > 1;
    const size_t n_panels = (r->chunk + LANES - 1) / LANES, n_layers = r->d.n_layers;
    const uint32_t n_in = r->d.layers[0].n_in;
    size_t at = 0;
    for (int i = 0; i < (ranged ? 2 : 1); i++)
        r->layer_mem[i] = (unsigned char *)wisp_dtake(b, &at, r->buffer_bytes);
    r->layers = (struct wisp_dlayer *)wisp_dtake(b, &at, n_layers * sizeof *r->layers);
    r->slot = (uint32_t *)wisp_dtake(b, &at, last_width(r) * sizeof *r->slot);
    r->ended = (uint8_t *)wisp_dtake(b, &at, r->chunk);
    r->next = (uint32_t *)wisp_dtake(b, &at, sizeof *r->next);
    r->work = (unsigned long long *)wisp_dtake(b, &at, sizeof *r->work);
    r->piece = (unsigned char *)wisp_dtake(b, &at, r->piece_bytes);
    size_t n_x = n_panels, n_state = n_panels;
    if (r->form != WISP_DEEP_CHIP) {
        r->x_step = (size_t)n_in * LANES, r->state_step = (size_t)r->image.widest * LANES;
    } else {
        r->x_step = ((size_t)n_in + 1 + LANES - 1) / LANES * LANES, r->state_step = r->width;
        n_x = r->chunk, n_state = ranged ? r->chunk : 0;
    }
    r->x = (float *)wisp_dtake(b, &at, n_x * r->x_step * sizeof *r->x);
    for (int i = 0; i < (layered(r) ? 2 : 1); i++)
        r->state[i] = (float *)wisp_dtake(b, &at, n_state * r->state_step * sizeof *r->x);
    if (!layered(r)) return at;
    r->counts = (uint32_t *)wisp_dtake(b, &at, (n_layers + 1) * sizeof *r->counts);
    r->flags = (uint32_t *)wisp_dtake(b, &at, 2 * n_panels * sizeof *r->flags);
    const size_t lists = r->drop ? r->chunk : 0;
    r->source = (uint32_t *)wisp_dtake(b, &at, lists * sizeof *r->source);
    for (int i = 0; i < 2; i++)
        r->origin[i] = (uint32_t *)wisp_dtake(b, &at, lists * sizeof *r->source);
    return at;
}

/* Bytes of the card with so many inputs at a time, room for their values in them. */
static size_t need(struct wisp_cuda_runner *r, size_t chunk)
{
    r->chunk = chunk;
    return lay(r, NULL) + chunk * last_width(r) * sizeof(float);
}

/* The most inputs at a time that fit; 0: none do. */
static size_t most_inputs(struct wisp_cuda_runner *r, size_t budget)
{
    size_t low = 0, high = (r->d.n + LANES - 1) / LANES; /* panels; 'low' fit */
    while (low < high) {
        size_t mid = (low + high + 1) / 2;
        if (need(r, mid * LANES) <= budget) low = mid;
        else high = mid - 1;
    }
    return std::min(low * LANES, r->d.n);
}

/* Cuts the layers into ranges of at most buffer_bytes. */
static bool cut_layers(struct wisp_cuda_runner *r)
{
    const size_t *start = r->image.start, n = r->d.n_layers;
    if (!r->range) r->range = (size_t *)wisp_dheap_zero((n + 1) * sizeof *r->range);
    if (!r->range) return false;
    size_t first = 0;
    r->n_ranges = 0;
    for (size_t l = 0; l < n; l++)
        if (l == 0 || start[l + 1] - start[first] > r->buffer_bytes)
            r->range[r->n_ranges++] = first = l;
    r->range[r->n_ranges] = n;
    return true;
}

static wisp_status plan(struct wisp_cuda_runner *r, wisp_error *err)
{
    const size_t *start = r->image.start, all = start[r->d.n_layers], n = r->d.n;
    size_t free_bytes = 0, total = 0, longest = 0;
    cudaError_t e = cudaMemGetInfo(&free_bytes, &total);
    if (e != cudaSuccess) return wisp_dcheck(e, "asking for free memory", err);
    size_t budget = free_bytes - free_bytes / 32; /* for what the driver takes on its own */
    if (r->d.most_bytes) budget = std::min(budget, r->d.most_bytes);
    for (size_t l = 0; l < r->d.n_layers; l++) longest = std::max(longest, start[l + 1] - start[l]);

    r->piece_bytes = wisp_deep_piece(&r->d, budget / 16);
    r->buffer_bytes = all;
    if (!cut_layers(r)) return wisp_dfail(err, WISP_ENOMEM, "no memory left for a list of layers");
    const size_t whole = most_inputs(r, budget);
    size_t fit = whole;
    if (whole < std::min(n, (size_t)2048)) { /* rather layers in ranges */
        r->buffer_bytes = std::max(longest, std::min(all, budget / 8));
        cut_layers(r);
        fit = most_inputs(r, budget);
        if (fit <= whole) {
            r->buffer_bytes = all;
            cut_layers(r);
            fit = whole;
        }
    }
    if (fit == 0 && n > 0) {
        r->buffer_bytes = longest;
        cut_layers(r);
        return wisp_dfail(err, WISP_ENOMEM,
                          "--device cuda: %.3f GiB needed for the largest layer and a few inputs, "
                          "%.3f GiB may be taken (%.2f GiB free on the card)",
                          wisp_gib(need(r, std::min(n, (size_t)LANES))), wisp_gib(budget),
                          wisp_gib(free_bytes));
    }
    r->chunk = fit;
    r->streamed = fit < n || r->n_ranges > 1;
    return WISP_OK;
}

/* ---- making and freeing ---- */

static cudaError_t fill_inputs(struct wisp_cuda_runner *r, size_t first, size_t n)
{
    struct wisp_dinputs a = { &r->d,    r->x,          r->x_step, r->form != WISP_DEEP_CHIP,
                              r->piece, r->piece_bytes };
    return wisp_deep_inputs(&a, first, n, r->main);
}

/* The layers' descriptions, with places on the card. */
static cudaError_t send_layers(struct wisp_cuda_runner *r)
{
    struct wisp_dimage *m = &r->image;
    for (size_t k = 0; k < r->n_ranges; k++)
        for (size_t l = r->range[k]; l < r->range[k + 1]; l++) {
            struct wisp_dlayer *d = &m->layers[l];
            unsigned char *base = r->layer_mem[k % 2] + (m->start[l] - m->start[r->range[k]]);
            d->ids = (const uint4 *)(base + (size_t)d->ids);
            d->w = (const float4 *)(base + (size_t)d->w);
            d->meta = (const uint4 *)(base + (size_t)d->meta);
            if (d->biases) d->biases = (const float *)(base + (size_t)d->biases);
            if (r->form == WISP_DEEP_CHIP && r->chip.thin) d->thin = wisp_thin_of(d);
        }
    cudaError_t e =
        cudaMemcpy(r->layers, m->layers, m->n_layers * sizeof *m->layers, cudaMemcpyHostToDevice);
    if (e == cudaSuccess)
        e = cudaMemcpy(r->slot, m->slot, last_width(r) * sizeof *m->slot, cudaMemcpyHostToDevice);
    if (e == cudaSuccess && r->n_ranges == 1)
        e = cudaMemcpy(r->layer_mem[0], m->bytes, m->start[m->n_layers], cudaMemcpyHostToDevice);
    if (e == cudaSuccess && r->n_ranges > 1) { /* copies are faster from pinned memory */
        r->pinned = cudaHostRegister(m->bytes, m->start[m->n_layers], 0) == cudaSuccess;
        cudaGetLastError();
    }
    return e;
}

static cudaError_t make_streams(struct wisp_cuda_runner *r)
{
    cudaEvent_t *events[] = { &r->ready[0], &r->ready[1],  &r->used[0],
                              &r->used[1],  &r->looked[0], &r->looked[1] };
    cudaError_t e = cudaStreamCreateWithFlags(&r->main, cudaStreamNonBlocking);
    if (e == cudaSuccess) e = cudaStreamCreateWithFlags(&r->copy, cudaStreamNonBlocking);
    for (cudaEvent_t *v : events)
        if (e == cudaSuccess) e = cudaEventCreateWithFlags(v, cudaEventDisableTiming);
    if (e == cudaSuccess) e = cudaEventCreate(&r->begin);
    if (e == cudaSuccess) e = cudaEventCreate(&r->end);
    if (e == cudaSuccess) e = cudaMallocHost((void **)&r->seen, 2 * sizeof *r->seen);
    return e;
}

static wisp_status take_block(struct wisp_cuda_runner *r, wisp_error *err)
{
    r->bytes = lay(r, NULL);
    cudaError_t e = cudaMalloc(&r->block, r->bytes);
    if (e == cudaErrorMemoryAllocation) {
        size_t free_bytes = 0, all = 0;
        cudaGetLastError();
        cudaMemGetInfo(&free_bytes, &all);
        return wisp_dfail(err, WISP_ENOMEM,
                          "--device cuda: %.2f GiB needed for layers and inputs, %.2f GiB free on "
                          "the card",
                          wisp_gib(r->bytes), wisp_gib(free_bytes));
    }
    if (e != cudaSuccess) return wisp_dcheck(e, "taking memory of the card", err);
    lay(r, r->block);
    return WISP_OK;
}

static wisp_status fill(struct wisp_cuda_runner *r, wisp_error *err)
{
    wisp_status st = choose(r, err);
    const bool direct = r->form == WISP_DEEP_CHIP && r->chip.direct;
    if (st == WISP_OK) st = wisp_deep_pack(&r->image, &r->d, r->form, direct, r->width, err);
    if (st == WISP_OK) st = plan(r, err);
    if (st == WISP_OK) st = take_block(r, err);
    if (st != WISP_OK) return st;
    cudaError_t e = cudaSuccess;
    r->chip.whole = r->n_ranges == 1;
    if (r->form == WISP_DEEP_CHIP) e = wisp_chip_plan(&r->chip, &r->image, r->width);
    else if (r->form == WISP_DEEP_PANEL)
        e = wisp_panel_plan(&r->panel_blocks, r->widest, r->width, r->weighted, r->n_multi);
    else if (r->form == WISP_DEEP_SLICE) e = wisp_slice_plan(r->width);
    if (e == cudaSuccess) e = make_streams(r);
    if (e == cudaSuccess) e = send_layers(r);
    if (e == cudaSuccess && layered(r))
        e = cudaMemset(r->flags, 0, 2 * ((r->chunk + LANES - 1) / LANES) * sizeof *r->flags);
    if (e == cudaSuccess) e = cudaDeviceSynchronize(); /* the streams do not wait for copies */
    if (e == cudaSuccess && r->chunk == r->d.n) e = fill_inputs(r, 0, r->d.n);
    if (e == cudaSuccess) e = cudaStreamSynchronize(r->main);
    if (r->n_ranges == 1) { /* they are on the card */
        wisp_dheap_free(r->image.bytes);
        r->image.bytes = NULL;
    }
    return wisp_dcheck(e, "copying layers and inputs to the card", err);
}

void wisp_ddeep_free(struct wisp_cuda_runner *r)
{
    if (!r) return;
    cudaEvent_t events[] = { r->ready[0],  r->ready[1],  r->used[0], r->used[1],
                             r->looked[0], r->looked[1], r->begin,   r->end };
    cudaStream_t streams[] = { r->main, r->copy };
    for (cudaStream_t s : streams)
        if (s) cudaStreamSynchronize(s), cudaStreamDestroy(s);
    for (cudaEvent_t v : events)
        if (v) cudaEventDestroy(v);
    if (r->pinned) cudaHostUnregister(r->image.bytes);
    cudaFreeHost(r->seen);
    cudaFree(r->block);
    cudaFree(r->values);
    wisp_deep_unpack(&r->image);
    wisp_dheap_free(r->range);
    cudaGetLastError();
    delete r;
}

wisp_status wisp_ddeep_create(struct wisp_cuda_runner **out, const struct wisp_cuda_deep *d,
                              wisp_error *err)
{
    const double begin = now_s();
    *out = NULL;
    if (d->n_layers == 0) return wisp_dfail(err, WISP_EINVAL, "a deep network without layers");
    if (d->n > 0xffffff00u || d->n_layers > 0xffffff00u)
        return wisp_dfail(err, WISP_EINVAL, "%zu inputs and %zu layers: at most 2^32 - 256 each",
                          d->n, d->n_layers);
    struct wisp_cuda_runner *r = new (std::nothrow) wisp_cuda_runner();
    if (!r) return wisp_dfail(err, WISP_ENOMEM, "no memory left for a network on the card");
    r->d = *d;
    if (!(d->clip < INFINITY)) r->d.full_from = SIZE_MAX;
    r->drop = d->drop && (r->d.zero_from < d->n_layers || r->d.full_from < d->n_layers);
    wisp_status st = fill(r, err);
    r->upload_s = now_s() - begin;
    if (st == WISP_OK) *out = r;
    else wisp_ddeep_free(r);
    return st;
}

/* ---- running ---- */

static uint32_t from_of(const struct wisp_cuda_runner *r, size_t from)
{
    return r->drop && from < r->d.n_layers ? (uint32_t)from : 0xffffffffu;
}

static void run_chip(struct wisp_cuda_runner *r, size_t k, size_t n)
{
    struct wisp_dchip a = {};
    a.layers = r->layers;
    a.first = (uint32_t)r->range[k], a.last = (uint32_t)r->range[k + 1];
    a.n_layers = (uint32_t)r->d.n_layers, a.n = (uint32_t)n;
    a.x = k ? r->state[0] : r->x, a.x_stride = k ? r->state_step : r->x_step;
    a.state = r->state[0], a.state_stride = r->state_step;
    a.width = r->width;
    a.zero_from = from_of(r, r->d.zero_from), a.full_from = from_of(r, r->d.full_from);
    a.clip = r->d.clip;
    a.ended = r->ended, a.slot = r->slot, a.values = r->values;
    a.next = r->next, a.work = r->work;
    wisp_chip_run(&r->chip, &a, r->main);
}

static void run_panel(struct wisp_cuda_runner *r, size_t k, size_t n)
{
    struct wisp_dpanel a = {};
    a.layers = r->layers;
    a.first = (uint32_t)r->range[k], a.last = (uint32_t)r->range[k + 1];
    a.n_layers = (uint32_t)r->d.n_layers, a.n = (uint32_t)n;
    a.n_from = r->d.layers[a.first].n_in;
    a.from = k ? r->state[0] : r->x, a.from_panel = k ? r->state_step : r->x_step;
    if (r->values || a.last < a.n_layers) a.state = r->state[0];
    a.state_panel = r->state_step;
    a.widest = r->widest, a.width = r->width, a.weighted = r->weighted;
    a.ended = r->ended;
    wisp_panel_run(&a, r->panel_blocks, r->main);
}

static void run_slice_layer(struct wisp_cuda_runner *r, size_t l, size_t n)
{
    struct wisp_dslices a = {};
    a.layer = r->layers + l, a.n = (uint32_t)n;
    a.from = l ? r->state[(l - 1) % 2] : r->x, a.from_panel = l ? r->state_step : r->x_step;
    a.to = r->state[l % 2], a.to_panel = r->state_step;
    a.flags = l + 1 == r->d.n_layers ? r->flags : NULL;
    wisp_slice_layer(&a, &r->image.layers[l], r->n_multi, r->main);
}

static void run_one_layer(struct wisp_cuda_runner *r, size_t l, size_t n)
{
    const struct wisp_cuda_layer *layer = &r->d.layers[l];
    const bool last = l + 1 == r->d.n_layers, lists = r->drop || last;
    struct wisp_dlist b = {};
    b.drop_zero = !layer->linear && l + 1 >= from_of(r, r->d.zero_from);
    b.drop_full = !layer->linear && l + 1 >= from_of(r, r->d.full_from);
    b.last = last;
    b.n = r->counts + (r->drop ? l : 0), b.n_next = r->counts + l + 1;
    b.flags = r->flags;
    if (r->drop) {
        b.origin = l ? r->origin[(l - 1) % 2] : NULL;
        b.origin_next = r->origin[l % 2], b.source = r->source;
    }
    b.ended = r->ended, b.work = r->work;
    if (r->form == WISP_DEEP_SLICE) {
        run_slice_layer(r, l, n);
        if (last) wisp_wide_list(&b, r->main);
        return;
    }
    struct wisp_dwide a = {};
    a.layer = r->layers + l, a.weighted = layer->w != NULL;
    const struct wisp_dpart *part = r->image.layers[l].part;
    for (int c = 0; c < WISP_DEEP_PARTS; c++)
        if (part[c].n) (part[c].chain ? a.chained : a.rest) = true;
    a.from = l ? r->state[(l - 1) % 2] : r->x, a.from_panel = l ? r->state_step : r->x_step;
    a.to = r->state[l % 2], a.to_panel = r->state_step;
    a.source = r->drop && l ? r->source : NULL;
    a.n = b.n;
    a.flags = b.drop_zero || b.drop_full || last ? r->flags : NULL;
    a.clip = r->d.clip;
    wisp_wide_layer(&a, r->n_multi, r->main);
    if (lists) wisp_wide_list(&b, r->main);
}

/* Whether inputs were left two stretches ago; asks for the number there are now. */
static bool any_left(struct wisp_cuda_runner *r, size_t l)
{
    const size_t i = l / STRETCH;
    if (!r->drop || l == 0 || l % STRETCH) return true;
    cudaMemcpyAsync(&r->seen[i % 2], r->counts + l, sizeof *r->seen, cudaMemcpyDeviceToHost,
                    r->main);
    cudaEventRecord(r->looked[i % 2], r->main);
    if (i < 2) return true;
    cudaEventSynchronize(r->looked[(i - 1) % 2]);
    return r->seen[(i - 1) % 2] > 0;
}

__global__ static void begin_counts(uint32_t *counts, size_t n_layers, uint32_t n)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n_layers) counts[i] = i == 0 ? n : 0;
}

/* A range of layers of n inputs.  False: none of them needs more. */
static bool run_range(struct wisp_cuda_runner *r, size_t k, size_t n)
{
    if (r->form == WISP_DEEP_CHIP) run_chip(r, k, n);
    else if (r->form == WISP_DEEP_PANEL) run_panel(r, k, n);
    if (!layered(r)) return true;
    if (k == 0) {
        const unsigned blocks = (unsigned)(r->d.n_layers / 256 + 1);
        begin_counts<<<blocks, 256, 0, r->main>>>(r->counts, r->d.n_layers, (uint32_t)n);
    }
    for (size_t l = r->range[k]; l < r->range[k + 1]; l++) {
        if (!any_left(r, l)) return false;
        run_one_layer(r, l, n);
    }
    return true;
}

static void copy_range(struct wisp_cuda_runner *r, size_t k)
{
    const size_t b = k % 2, *start = r->image.start;
    const size_t first = start[r->range[k]], bytes = start[r->range[k + 1]] - first;
    if (r->used_once[b]) cudaStreamWaitEvent(r->copy, r->used[b], 0);
    cudaMemcpyAsync(r->layer_mem[b], r->image.bytes + first, bytes, cudaMemcpyHostToDevice,
                    r->copy);
    cudaEventRecord(r->ready[b], r->copy);
}

/* All layers of the inputs that lie dense on the card. */
static void run_chunk(struct wisp_cuda_runner *r, size_t n)
{
    const bool ranged = r->n_ranges > 1;
    if (ranged) copy_range(r, 0);
    for (size_t k = 0; k < r->n_ranges; k++) {
        if (ranged) cudaStreamWaitEvent(r->main, r->ready[k % 2], 0);
        bool more = run_range(r, k, n);
        if (ranged) cudaEventRecord(r->used[k % 2], r->main), r->used_once[k % 2] = true;
        if (!more) break;
        if (k + 1 < r->n_ranges) copy_range(r, k + 1);
    }
}

/* What ended how, and the values, to the host. */
static cudaError_t fetch(struct wisp_cuda_runner *r, uint8_t *ends, float *values, size_t first,
                         size_t n)
{
    const uint32_t n_out = last_width(r), last = (uint32_t)r->d.n_layers - 1;
    if (values && r->form == WISP_DEEP_PANEL) {
        begin_counts<<<1, 1, 0, r->main>>>(r->next, 0, (uint32_t)n);
        wisp_wide_values(r->values, n_out, r->state[0], r->state_step, r->slot, r->next, NULL,
                         r->ended, (uint32_t)n, r->d.clip, r->main);
    } else if (values && layered(r))
        wisp_wide_values(r->values, n_out, r->state[last % 2], r->state_step, r->slot,
                         r->counts + last + 1, r->drop ? r->origin[last % 2] : NULL, r->ended,
                         (uint32_t)n, r->d.clip, r->main);
    cudaError_t e = cudaGetLastError();
    if (e == cudaSuccess)
        e = cudaMemcpyAsync(ends + first, r->ended, n, cudaMemcpyDeviceToHost, r->main);
    if (e == cudaSuccess && values)
        e = cudaMemcpyAsync(values + first * n_out, r->values, n * n_out * sizeof *values,
                            cudaMemcpyDeviceToHost, r->main);
    if (e == cudaSuccess) e = cudaStreamSynchronize(r->main);
    for (size_t i = first; i < first + n && e == cudaSuccess; i++)
        ends[i] = ends[i] == WISP_DEEP_FULL || ends[i] == WISP_DEEP_SOME;
    return e;
}

/* All inputs once; *seconds of it. */
static cudaError_t run_once(struct wisp_cuda_runner *r, uint8_t *ends, float *values,
                            double *seconds)
{
    const bool resident = r->chunk == r->d.n;
    float ms = 0;
    cudaError_t e = cudaMemsetAsync(r->work, 0, sizeof *r->work, r->main);
    if (e == cudaSuccess) e = cudaEventRecord(r->begin, r->main);
    if (e == cudaSuccess) e = cudaStreamWaitEvent(r->copy, r->begin, 0);
    for (size_t i = 0; i < r->d.n && e == cudaSuccess; i += r->chunk) {
        const size_t n = std::min(r->chunk, r->d.n - i);
        if (!resident) e = fill_inputs(r, i, n);
        if (e == cudaSuccess) run_chunk(r, n), e = cudaGetLastError();
        if (e == cudaSuccess && resident) e = cudaEventRecord(r->end, r->main);
        if (e == cudaSuccess) e = fetch(r, ends, values, i, n);
    }
    if (e == cudaSuccess && (!resident || r->d.n == 0)) e = cudaEventRecord(r->end, r->main);
    cudaError_t waited = cudaStreamSynchronize(r->main);
    if (e == cudaSuccess) e = waited;
    if (e == cudaSuccess) e = cudaEventElapsedTime(&ms, r->begin, r->end);
    *seconds = 1e-3 * ms;
    return e;
}

static wisp_status take_values(struct wisp_cuda_runner *r, bool wanted, wisp_error *err)
{
    const size_t bytes = r->chunk * last_width(r) * sizeof *r->values;
    if (wanted && !r->values && bytes) {
        cudaError_t e = cudaMalloc((void **)&r->values, bytes);
        if (e != cudaSuccess) {
            r->values = NULL;
            return wisp_dcheck(e, "taking memory for values", err);
        }
        r->bytes += bytes;
    } else if (!wanted && r->values) {
        cudaFree(r->values);
        r->values = NULL;
        r->bytes -= bytes;
    }
    return WISP_OK;
}

wisp_status wisp_ddeep_run(struct wisp_cuda_runner *r, uint8_t *ends, float *values, int repeats,
                           struct wisp_cuda_deep_times *times, wisp_error *err)
{
    static const char *const names[] = { "chip", "wide", "panel", "slice" };
    struct wisp_cuda_deep_times t = {};
    wisp_status st = take_values(r, values != NULL, err);
    if (st != WISP_OK) return st;
    for (int i = 0; i < (repeats < 1 ? 1 : repeats); i++) {
        double seconds;
        cudaError_t e = run_once(r, ends, values, &seconds);
        if (e != cudaSuccess) {
            cudaDeviceSynchronize();
            return wisp_dcheck(e, "running a deep network", err);
        }
        if (i == 0 || seconds < t.seconds) t.seconds = seconds;
    }
    unsigned long long work = 0;
    cudaError_t e = cudaMemcpy(&work, r->work, sizeof work, cudaMemcpyDeviceToHost);
    if (e != cudaSuccess) return wisp_dcheck(e, "reading what was done", err);
    t.work = r->drop ? work : (uint64_t)r->d.n * r->d.n_layers;
    t.upload_s = r->upload_s, t.bytes = r->bytes, t.streamed = r->streamed;
    t.form = names[r->form];
    if (times) *times = t;
    return WISP_OK;
}

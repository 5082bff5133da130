/* Deep sparse networks on the card: what the parts share.
 *
 *   deep_pack.cu   layers of the host --> one image of bytes, laid out for a form
 *   deep_inputs.cu inputs made dense
 *   deep.cu        memory, ranges of layers, times
 *   deep_chip.cu   one input per block, its values in shared memory through all layers
 *   deep_thin.cu   the same where units have one output, one warp per input if it is narrow
 *   deep_wide.cu   layer by layer through memory, 32 inputs per panel, one warp per unit
 *   deep_panel.cu  32 inputs per panel, their values in shared memory, one lane per output
 *   deep_steps.cu  layers laid out for that
 *
 * A *unit* is up to 16 outputs of one group: each input it reads is loaded once and added to all of
 * them.  A group of 23 outputs is units of 16, 4, 2 and 1.  Units of one size are a *part* of their
 * layer.  Outputs are renumbered (*slots*) so that those of a unit lie where the form writes
 * fastest; ids of the next layer are slots already, so nothing is translated while it runs.
 *
 *   chip: slot = part's first + (u / 32 * outputs + j) * 32 + u % 32    a warp writes 32 neighbours
 *   else: slot = part's first + u * outputs + j                        a unit writes one stretch
 *
 * Units of a chip's part are in slices of 32, one lane per unit; a warp loads their ids as 16, 8 or
 * 4 neighbouring bytes per lane:
 *
 *   slice   8 ids of lane 0 | 8 ids of lane 1 | ... | next 8 of lane 0 | ... | 4 each | 2 each
 *
 * All lanes of a slice have the ids of its longest unit: what is missing points at the slot after
 * the last, whose value is 0.  Layer l reads buffer l % 2 of two in shared memory, and ids count
 * from the first one's begin: the buffer is in them.  Ids of the other forms lie unit by unit, 8 at
 * a time. */
#ifndef WISP_CUDA_DEEP_CUH
#define WISP_CUDA_DEEP_CUH

#include "cuda/cuda.h"
#include "cuda/ops.cuh"

#include <new>
#include <string.h>

/* Memory of the host, NULL where there is none: what can fail must say so, not throw. */
static inline void *wisp_dheap(size_t bytes)
{
    return ::operator new(bytes, std::nothrow);
}
static inline void *wisp_dheap_zero(size_t bytes)
{
    void *p = wisp_dheap(bytes);
    return p ? memset(p, 0, bytes) : NULL;
}
static inline void wisp_dheap_free(void *p)
{
    ::operator delete(p);
}

enum { WISP_DEEP_PARTS = 5, WISP_DEEP_MOST = 16 }; /* units of 16, 8, 4, 2, 1 outputs */
static const uint32_t WISP_DEEP_RAGGED = 0xffffffffu;

enum wisp_deep_form { WISP_DEEP_CHIP, WISP_DEEP_WIDE, WISP_DEEP_PANEL, WISP_DEEP_SLICE };
enum wisp_deep_ids {                /* how a part's ids are written */
                     WISP_DEEP_16,  /* 16 bits each */
                     WISP_DEEP_32,  /* 32 bits each */
                     WISP_DEEP_RUNS /* chip: lane i reads first + i; one 'first' for the slice */
};
enum wisp_deep_end { /* of an input */
                     WISP_DEEP_LIVE,
                     WISP_DEEP_ZERO, /* all zero, to the end */
                     WISP_DEEP_FULL, /* all at the clip, to the end */
                     WISP_DEEP_SOME  /* neither, and it is the end */
};

struct wisp_dpart {        /* units of one size */
    uint32_t n, slot;      /* units, first slot */
    uint32_t ids;          /* enum wisp_deep_ids */
    uint32_t k;            /* ids of each unit; WISP_DEEP_RAGGED: see 'meta' */
    uint32_t at, step;     /* where ids begin and how far apart slices (units) are, in 16 bytes */
    uint32_t w_at, w_step; /* the same of weights */
    uint32_t meta;         /* place of the first slice (unit) in the layer's 'meta' */
    uint32_t chain;        /* wide: units of a segment (deep_wide.cu); 0: units share nothing */
};

struct wisp_dthin { /* a layer without weights whose units have one output and equally many ids */
    const uint4 *ids;
    uint32_t n, k_step; /* units; ids of each, and 16 bytes between slices, in the upper half */
    float scale, bias, lo, hi;
};

struct alignas(16) wisp_dlayer {   /* y = min(hi, max(lo, scale * sum + bias)) */
    struct wisp_dthin thin;        /* the same again, where all layers are so (deep_thin.cu) */
    uint32_t n_in, n_out, n_slots; /* slots: outputs, and what is unused of the last slices */
    uint32_t linear, weighted;
    uint32_t base; /* panel: place of the first input in the ring */
    /* panel, slice (deep_steps.cu): places, phases, rows of each, rows that are there before their
     * phase begins, chunks of all slices */
    uint32_t ring, phases, stretch, ahead, chunks;
    float scale, bias, lo, hi;
    const float *biases; /* (n_slots) by slot; NULL: all are 'bias' */
    const uint4 *ids;
    const float4 *w;   /* NULL: all are 1, and 'scale' is the weight */
    const uint4 *meta; /* at, k, w_at of each slice (unit) of ragged parts; of chains: at, own ids,
                          ids shared with the next unit; panel, slice: see deep_steps.cu */
    struct wisp_dpart part[WISP_DEEP_PARTS];
};

/* A value of shared memory, of the lower id of a pair or the upper one: 'pick' is the bytes between
 * ids, or that << 8.  One instruction makes the address, which takes three where the compiler is
 * left alone. */
static __device__ __forceinline__ float wisp_dpeek(uint32_t base, uint32_t pair, uint32_t pick)
{
    float x;
    const uint32_t address = __dp2a_lo(pair, pick, base);
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(address));
    return x;
}

/* ---- deep_pack.cu ---- */

struct wisp_dimage { /* all layers as the card will hold them, in host memory */
    size_t n_layers;
    struct wisp_dlayer *layers; /* (n_layers) pointers are offsets from the layer's first byte */
    size_t *start;              /* (n_layers + 1) bytes before each layer */
    unsigned char *bytes;
    size_t room;
    uint32_t *slot;  /* (outputs of the last layer) where each is */
    uint32_t widest; /* of all outputs */
    int most;        /* outputs of a unit: 16, 2 or 1 */
};
/* Slots that a chip's layer takes. */
uint32_t wisp_deep_slots(const struct wisp_cuda_layer *l, int most);
/* width, of a chip: floats of a buffer; of panels: places of the ring.  Of a chip: direct: the
 * first layer reads its inputs from memory. */
wisp_status wisp_deep_pack(struct wisp_dimage *out, const struct wisp_cuda_deep *d,
                           enum wisp_deep_form form, bool direct, uint32_t width, wisp_error *err);
void wisp_deep_unpack(struct wisp_dimage *image); /* frees it */
/* Room for so many bytes of all layers. */
bool wisp_deep_room(struct wisp_dimage *image, size_t bytes);

/* ---- deep_steps.cu ---- */

struct wisp_dsteps { /* how a layer is laid out for deep_panel.cu */
    const struct wisp_cuda_layer *l;
    const uint32_t *map; /* panel: slot of each input; NULL: its id */
    uint32_t *slot;      /* of each output: is filled */
    uint32_t ring;       /* places, of which the first follows the last */
    bool window;         /* slice: inputs pass through the ring; else all are in it, from 'base' */
};
/* Fills in layer 'at', whose description is there but for its ids and weights.  False: no memory.
 */
bool wisp_steps_pack(struct wisp_dimage *image, const struct wisp_dsteps *s, size_t at);

/* ---- deep_inputs.cu ---- */

struct wisp_dinputs {
    const struct wisp_cuda_deep *d;
    float *x;    /* dense, on the card */
    size_t step; /* floats of a row (panel) */
    bool panels;
    unsigned char *piece; /* on the card: room for inputs on their way */
    size_t piece_bytes;
};
/* Bytes for inputs on their way: about 'most', at least the longest row. */
size_t wisp_deep_piece(const struct wisp_cuda_deep *d, size_t most);
/* Inputs first .. first + n - 1 of the net; the first of them lies at x. */
cudaError_t wisp_deep_inputs(const struct wisp_dinputs *a, size_t first, size_t n, cudaStream_t s);

/* ---- what the forms run ---- */

/* Accumulators start at zeros that only the host knows to be zeros: else the compiler would see
 * that outputs of a unit with one weight are equal, and compute one of them. */
struct wisp_dzeros {
    float v[WISP_DEEP_MOST];
};

struct wisp_dchip { /* layers first .. last - 1 of inputs 0 .. n - 1 */
    const struct wisp_dlayer *layers;
    uint32_t first, last, n_layers, n;
    const float
        *x; /* (n, x_stride): inputs, or values between ranges of layers; a 0 follows them */
    size_t x_stride;
    float *state; /* (n, state_stride) values after layer last - 1, where that is not the end */
    size_t state_stride;
    uint32_t width; /* floats of each of two buffers in shared memory */
    uint32_t zero_from, full_from;
    float clip;
    uint8_t *ended;       /* (n) enum wisp_deep_end */
    const uint32_t *slot; /* (outputs of the last layer) */
    float *values;        /* (n, outputs of the last layer), NULL: not wanted */
    uint32_t *next;       /* 0: inputs that were begun, besides the first of each block */
    unsigned long long *work;
    struct wisp_dzeros zeros;
};
struct wisp_dchip_plan {
    int most;
    bool direct, weighted; /* the first layer reads x where it lies; some layer has weights */
    bool whole;            /* all layers at once */
    bool thin, warp;       /* deep_thin.cu runs it; one warp per input */
    uint32_t threads, blocks;
    size_t shared;
};
/* Fills the rest of a plan whose 'direct' and 'whole' are set; what the card says where it cannot.
 */
cudaError_t wisp_chip_plan(struct wisp_dchip_plan *p, const struct wisp_dimage *image,
                           uint32_t width);
void wisp_chip_run(const struct wisp_dchip_plan *p, const struct wisp_dchip *a, cudaStream_t s);

/* ---- deep_thin.cu: a chip's run where layers are as merging leaves them ---- */

bool wisp_thin_fits(const struct wisp_dimage *image, bool direct);
struct wisp_dthin wisp_thin_of(const struct wisp_dlayer *d);
cudaError_t wisp_thin_plan(struct wisp_dchip_plan *p, uint32_t width, uint32_t units);
void wisp_thin_run(const struct wisp_dchip_plan *p, const struct wisp_dchip *a, cudaStream_t s);

struct wisp_dwide { /* one layer */
    const struct wisp_dlayer *layer;
    bool weighted;      /* it has weights */
    bool chained, rest; /* its units of 16 are chained; it has other units */
    const float *from;  /* panels of (slots, 32) */
    size_t from_panel;  /* floats of one */
    float *to;
    size_t to_panel;
    const uint32_t
        *source;       /* (n) column of 'from' that each column is computed of; NULL: its own */
    const uint32_t *n; /* on the card: columns */
    uint32_t *flags;   /* (panels, 2): bit i: column i has a value that is not 0, below clip */
    float clip;
    struct wisp_dzeros zeros;
};
struct wisp_dlist {         /* after a layer: which columns go on */
    const uint32_t *n;      /* on the card: columns now */
    uint32_t *n_next;       /* columns that go on */
    uint32_t *flags;        /* read, and zeroed */
    const uint32_t *origin; /* (n) input of each column; NULL: its own number */
    uint32_t *origin_next, *source;
    uint8_t *ended; /* (inputs) */
    unsigned long long *work;
    bool drop_zero, drop_full, last;
};
void wisp_wide_layer(const struct wisp_dwide *a, int n_multi, cudaStream_t s);
void wisp_wide_list(const struct wisp_dlist *a, cudaStream_t s);
/* values (n inputs, n_out) of columns that reached the end, and of those that did not. */
void wisp_wide_values(float *values, uint32_t n_out, const float *from, size_t from_panel,
                      const uint32_t *slot, const uint32_t *columns, const uint32_t *origin,
                      const uint8_t *ended, uint32_t n, float clip, cudaStream_t s);

/* ---- deep_panel.cu ---- */

struct wisp_dpanel { /* layers first .. last - 1 of panels 0 .. panels - 1 */
    const struct wisp_dlayer *layers;
    uint32_t first, last, n_layers, n, n_from; /* inputs; slots of 'from' */
    const float *from;                         /* panels of (slots, 32) */
    size_t from_panel;
    float *state; /* values after layer last - 1, panels of (slots, 32); NULL: not wanted */
    size_t state_panel;
    uint32_t widest, width; /* of all layers and inputs; places in shared memory */
    bool weighted;          /* some layer has weights */
    uint8_t *ended;
};
bool wisp_panel_fits(uint32_t widest, uint32_t ring);
/* *blocks: as many as run at a time. */
cudaError_t wisp_panel_plan(uint32_t *blocks, uint32_t widest, uint32_t ring, bool weighted,
                            int n_multi);
void wisp_panel_run(const struct wisp_dpanel *a, uint32_t blocks, cudaStream_t s);

struct wisp_dslices { /* one layer of panels of n inputs */
    const struct wisp_dlayer *layer;
    const float *from; /* panels of (slots, 32) */
    size_t from_panel;
    float *to;
    size_t to_panel;
    uint32_t n, blocks; /* blocks: of a panel, by wisp_slice_layer() */
    uint32_t *flags;    /* as struct wisp_dwide has them, the first of two; NULL: not wanted */
};
cudaError_t wisp_slice_plan(uint32_t ring);
/* host: what 'layer' points at, in host memory. */
void wisp_slice_layer(const struct wisp_dslices *a, const struct wisp_dlayer *host, int n_multi,
                      cudaStream_t s);
extern int wisp_deep_warps; /* of tests: warps of a block of slices, 0: what is best */

/* ---- deep.cu ---- */

extern int wisp_deep_only; /* of tests: the form to take, -1: what is best */
extern int wisp_deep_ring; /* of tests: at most so many rows in shared memory, 0: what fits */

wisp_status wisp_ddeep_create(struct wisp_cuda_runner **out, const struct wisp_cuda_deep *d,
                              wisp_error *err);
void wisp_ddeep_free(struct wisp_cuda_runner *r);
wisp_status wisp_ddeep_run(struct wisp_cuda_runner *r, uint8_t *ends, float *values, int repeats,
                           struct wisp_cuda_deep_times *times, wisp_error *err);

wisp_status wisp_dfail(wisp_error *err, wisp_status code, const char *fmt, ...);
wisp_status wisp_dcheck(cudaError_t e, const char *what, wisp_error *err);

#endif

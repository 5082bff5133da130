/* What a network is, as plain data that both devices read: values with shapes, layers that name the
 * values they read, and all parameters in one list.
 *
 * A layer declares its parameters when it is planned; whatever walks over parameters (optimiser,
 * model file, checkpoint, card, quantizing, averaging) is one loop over the list. */
#ifndef WISP_GRAPH_GRAPH_H
#define WISP_GRAPH_GRAPH_H

#include "base/error.h"
#include "base/share.h"
#include "graph/planes.h"
#include "graph/zeros.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { WISP_MAX_RANK = 4, WISP_PARAM_NAME = 58 };

/* Of a parameter. */
enum wisp_role {
    WISP_TRAINED, /* moved by the optimiser */
    WISP_STATE,   /* numbers that the layer keeps itself, such as running means */
    WISP_FIXED,   /* ids of fixed connections */
    WISP_STARTS   /* where rows of different lengths begin */
};
/* What a dimension counts: the channels of the layer's result, or of what it reads first; rows and
 * columns of a kernel, whose edges may go (wisp_arg.edges). */
enum wisp_axis { WISP_AXIS_NONE, WISP_AXIS_OUT, WISP_AXIS_IN, WISP_AXIS_Y, WISP_AXIS_X };
/* What the first dimension counts: where it may grow. */
enum wisp_by { WISP_BY_NONE, WISP_BY_FEATURE, WISP_BY_LABEL };

struct wisp_param {
    size_t rows, cols; /* dim[0], and the product of the others: an update moves a row */
    /* Rows of different lengths, the longest of 'cols': row r is start[r] .. start[r + 1].  NULL:
     * all have 'cols'. */
    int64_t *start; /* (rows + 1); the layer's own parameter of WISP_STARTS */
    /* (rows, cols) one of: */
    float *w;
    uint16_t *b16;
    int8_t *i8;     /* only in a model to predict with: */
    float *scale;   /* (rows) a weight is i8 * scale of its row, or */
    uint8_t *codes; /* value[number] * scale, with numbers of 'bits' bits (kernels/codes.h) */
    float *value;   /* (2^bits) from -1 to 1 */
    int bits;
    int32_t *ids; /* of WISP_FIXED: ascending within a row, none twice, ... */
    size_t below; /* ... and below this; of WISP_STARTS where the last row ends */
    /* optimiser state, whatever of it the optimiser asks for; only WISP_TRAINED has some */
    float *m, *v;        /* (rows, cols) running means of the gradient and its square, or */
    uint16_t *m16, *v16; /* (rows, cols) the same in bf16 */
    float *g2;           /* (rows) running sum of the mean squared gradient */
    uint32_t *count;     /* (rows) updates so far: each row has its own clock */
    size_t old; /* its first rows, which are those of the model that the run goes on from */
    enum wisp_role role;
    enum wisp_by by;
    float decay; /* what an update takes from its weights: this share, times the learning rate */
    bool narrow; /* the layer reads its rows by wisp_weights: they may be bf16, int8 or codes */
    bool half;   /* rows of bf16 while training */
    bool ragged; /* its rows have different lengths */
    bool wired;  /* number e multiplies the input that number e of the layer's WISP_FIXED names */
    bool kept;   /* connections that a checkpoint keeps, as they cannot be made anew */
    int layer;   /* whose it is */
    int rank;
    size_t n;                  /* numbers in all */
    size_t dim[WISP_MAX_RANK]; /* as in the model file */
    enum wisp_axis axis[WISP_MAX_RANK];
    size_t total_rows;       /* of all ranks; 'rows' are those that are here */
    struct wisp_share share; /* which of them; all: every rank has the same */
    char name[WISP_PARAM_NAME];
};

/* Numbers in all. */
static inline size_t wisp_param_n(const struct wisp_param *p)
{
    return p->n;
}
/* Is it a matrix or a kernel that is trained, and no bias or norm? */
static inline bool wisp_param_is_matrix(const struct wisp_param *p)
{
    return p->role == WISP_TRAINED && p->rows > 1 && p->n > p->rows;
}
/* Where a row begins, and how long it is. */
static inline size_t wisp_param_row(const struct wisp_param *p, size_t row, size_t *n)
{
    if (!p->start) {
        *n = p->cols;
        return row * p->cols;
    }
    *n = (size_t)(p->start[row + 1] - p->start[row]);
    return (size_t)p->start[row];
}

/* Indices of a dimension; rows of different lengths lie in one, which counts the rows. */
static inline size_t wisp_param_side(const struct wisp_param *p, int d)
{
    return p->ragged ? p->rows : p->dim[d];
}

struct wisp_params { /* of a net, in the order of their declaration */
    struct wisp_param *p;
    size_t n, cap;
    bool full;              /* out of memory: asked for once, when the list is whole */
    struct wisp_param none; /* where a declaration goes then */
};
/* The next one, all zero but for its sizes; valid until the one after it is declared. */
struct wisp_param *wisp_params_add(struct wisp_params *list, int rank, const size_t *dim);
void wisp_params_clear(struct wisp_params *list);
/* Rows of different lengths begin where their layer says: to be called when the places of
 * WISP_STARTS have memory. */
void wisp_params_join(struct wisp_params *list);
/* Do rows begin at 0, one behind the other, and end at n? */
bool wisp_starts_ok(const int64_t *start, size_t rows, size_t n);
/* The first id that does not ascend in its row, or is not below p->below; p->n: none.  Its row. */
size_t wisp_param_bad_id(const struct wisp_param *p, size_t *row);

/* ---- values ---- */

enum { WISP_MAX_FROM = 8, WISP_MAX_ARGS = 8, WISP_MAX_LAYERS = 4096 };
enum { WISP_LAYER_NAME = 41, WISP_FILE_NAME = 256 };

struct wisp_shape { /* of a sample: (units), or (channels, height, width) */
    int rank;
    size_t dim[3];
};
static inline size_t wisp_units(struct wisp_shape s)
{
    size_t n = s.rank ? 1 : 0;
    for (int i = 0; i < s.rank; i++) n *= s.dim[i];
    return n;
}
static inline struct wisp_shape wisp_flat(size_t units)
{
    struct wisp_shape s = { 1, { units } };
    return s;
}
bool wisp_same_shape(struct wisp_shape a, struct wisp_shape b);
/* For messages: "64 units", "3 x 32 x 32 (channels x height x width)". */
enum { WISP_SHAPE_TEXT = 100 };
const char *wisp_shape_text(char out[WISP_SHAPE_TEXT], struct wisp_shape s);

/* How a value lies in memory; what a kind takes is a set of these. */
enum wisp_form {
    WISP_ROWS = 1,  /* the batch's own lists: value 0 */
    WISP_FLAT = 2,  /* (n, units), units in the order of dim */
    WISP_PLANES = 4 /* (n, blocks, height, width, 16): channels in blocks (planes.h) */
};

struct wisp_act { /* a value: the result of one layer, read by any number of others; value 0 is the
                     batch */
    struct wisp_shape shape;
    enum wisp_form form;
    size_t width;  /* units */
    size_t floats; /* of a sample in memory: of WISP_PLANES those of whole blocks, else the units */
    bool learns;   /* there are weights to train below it: it gets a gradient */
    int n_readers; /* gradients of several add up */
    int last_reader; /* in the order of the text: the first on the way back */
    float *x;        /* (n, floats) */
    float *g; /* (n, floats) gradient of the loss; NULL when only predicting, of the batch, and
                 where nothing learns */
    struct wisp_zeros_of
        *zeros; /* how many of its numbers are 0 in training; NULL: nobody counts */
};
/* Channels side by side in it. */
static inline size_t wisp_act_block(const struct wisp_act *a)
{
    return a->form == WISP_PLANES ? WISP_PLANE_BLOCK : 1;
}

/* ---- layers ---- */

enum wisp_arg_type {
    WISP_ARG_INT,
    WISP_ARG_REAL,
    WISP_ARG_WORD,
    WISP_ARG_FILE,
    WISP_ARG_SIZE /* "3x5": height and width, or "3": both; the value: wisp_size_of */
};
enum { WISP_SIZE_STEP = 4096 };
static inline double wisp_size_of(size_t height, size_t width)
{
    return (double)(height * WISP_SIZE_STEP + width);
}
static inline size_t wisp_size_height(double size)
{
    return (size_t)size / WISP_SIZE_STEP;
}
static inline size_t wisp_size_width(double size)
{
    return (size_t)size % WISP_SIZE_STEP;
}

struct wisp_arg { /* of a layer, as a net says it; a list ends with a name of NULL */
    const char *name, *what;
    enum wisp_arg_type type;
    double least, most;
    bool open;         /* 'most' itself is too much */
    const char *words; /* WISP_ARG_WORD: "radix|random"; the value is the word's place */
    const char *(*word)(size_t i); /* or names of a table, one by one, then NULL */
    const char *fallback; /* as text; NULL: it must be given; "": what the kind makes of it */
    unsigned unless;      /* bit i: ... but where argument i is */
    bool by_name;         /* always 'name=value': no place among the others */
    bool counts;          /* the channels of the result: what a smaller net says otherwise */
    int edges; /* WISP_ARG_SIZE: less by so many, where a kernel loses a row or a column at either
                  side: 2 of the kernel, 1 of the pixels around the image; 0: it stays */
};

/* Word i of WISP_ARG_WORD, so many characters; NULL: there are no more. */
const char *wisp_arg_word(const struct wisp_arg *a, size_t i, size_t *n);

enum { WISP_ARG_RANGE = 120 };
/* What it may be: "a whole number from 1 to 1024", "radix or random". */
void wisp_arg_range(char out[WISP_ARG_RANGE], const struct wisp_arg *a);

struct wisp_layer;
struct wisp_step;
struct wisp_precision;
struct wisp_sampler;
struct wisp_layer_sizes;
struct wisp_pool;

/* The phases of a step at the head of a net, in this order.  Each may fail: the step ends there. */
struct wisp_head {
    /* The rows that this step computes. */
    wisp_status (*choose)(struct wisp_layer *l, struct wisp_step *s, const struct wisp_act *in,
                          wisp_error *err);
    /* Their products with what it reads, and what the loss makes of them. */
    wisp_status (*score)(struct wisp_layer *l, struct wisp_step *s, const struct wisp_act *in,
                         wisp_error *err);
    /* Losses and factors of the samples, from all rows; *again: score once more. */
    wisp_status (*combine)(struct wisp_layer *l, struct wisp_step *s, const struct wisp_act *in,
                           bool *again, wisp_error *err);
    /* The gradient of what it reads; each row moves where its own gradient was made. */
    wisp_status (*back)(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *in,
                        wisp_error *err);
    /* What comes after all rows have moved. */
    wisp_status (*move)(struct wisp_layer *l, struct wisp_step *s, const struct wisp_act *in,
                        wisp_error *err);
};

/* wisp_layer_kind.uses: what the way back looks at, whether a result may lie over the first input
 * (and that one's gradient over its own), whether a sampler may choose the layer's rows, whether it
 * reads the rows of the data as images, whether it makes zeros, which are counted then (zeros.h),
 * whether its result is what it reads, so that those of its input are its own, and whether it looks at
 * each sample by itself, wherever that is in the batch: then its scratch is as much per sample, it
 * reads nothing of the batch but images, and moves all rows of its parameters in each step; and whether
 * its result is the sum of what it reads, so that what is 0 can be left out. */
enum {
    WISP_USES_X = 1,
    WISP_USES_Y = 2,
    WISP_IN_PLACE = 4,
    WISP_SAMPLES = 8,
    WISP_IMAGES = 16,
    WISP_MAKES_ZEROS = 32,
    WISP_HANDS_ON = 64,
    WISP_BY_SAMPLE = 128,
    WISP_ADDS = 256
};

/* Layers that others can do the work of, in the order in which they may follow each other; a norm
 * only with means and deviations that stay; an add of two values, of which the layer before gives the
 * first. */
enum { WISP_FUSE_NORM = 1, WISP_FUSE_ADD = 2, WISP_FUSE_RELU = 4, WISP_FUSE_DROPOUT = 8 };

/* What becomes of channels on their way through a layer: which of them can only be removed together
 * (bonds.h).  With all its trained parameters 0, a layer that is not FIXED gives 0.  A result's channels
 * are ... */
enum wisp_ties {
    WISP_TIES_FIXED, /* not to be removed, and neither are those that it reads */
    WISP_TIES_NEW,   /* its own: those of WISP_AXIS_OUT */
    WISP_TIES_SAME,  /* those that it reads, of all inputs at once; what reads zeros gives zeros */
    WISP_TIES_ROW,   /* those of its inputs, one behind the other */
    WISP_TIES_SPREAD /* units, one run of them for each channel that it reads */
};

struct wisp_layer_kind {
    const char *name, *what;
    const struct wisp_arg *args; /* NULL: none */
    unsigned takes;              /* enum wisp_form: of its inputs.  Without WISP_PLANES they have
                                     no height and width */
    unsigned uses;               /* WISP_USES_X, ... */
    unsigned part, does, undoes; /* WISP_FUSE_* on CPUs, of planes: which it is; of which layers
                                     behind it it can do the work, and that of their way back */
    int least_from, most_from;   /* inputs; 0: one */
    enum wisp_ties ties;
    bool thins; /* a matrix and a bias alone, in rows of inputs: where most of it is 0, a layer
                   'sparse' says the same */
    const struct wisp_layer_kind *of_rows; /* what it is where it reads the rows of the data */
    const struct wisp_head *head; /* not NULL: the last layer of a net, with the loss; it has no
                                     result, and this instead of forward and backward */
    /* Checks what it reads, sets n_out or out->shape, and out->form unless it is WISP_FLAT;
     * declares parameters, asks for scratch. */
    wisp_status (*plan)(struct wisp_layer *l, const struct wisp_act *const *in,
                        struct wisp_act *out, const struct wisp_layer_sizes *s, wisp_error *err);
    void (*init)(struct wisp_layer *l, uint64_t seed,
                 struct wisp_pool *pool); /* NULL: no parameters */
    void (*clear)(struct wisp_layer *l);  /* frees what plan keeps in 'own'; NULL: nothing */
    /* Multiplications and additions with its weights on a sample's way forward, once it is planned;
     * NULL: it has no such weights, or their number depends on the row. */
    double (*flops)(const struct wisp_layer *l);
    wisp_status (*forward)(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err);
    /* Sets in[i]->g, the gradient of what it read (skipped when NULL); moves the parameters. */
    wisp_status (*backward)(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err);
    /* Can backward() leave 0 in the gradient where what it read is not above 0, and so do the way
     * back of a ReLU that made it?  NULL: it cannot. */
    bool (*masks)(const struct wisp_layer *l);
};

struct wisp_layer { /* one statement of a net; both devices read it */
    const struct wisp_layer_kind *kind;
    int number;                      /* place in the net, from 0 */
    char name[WISP_LAYER_NAME];      /* "": it has none */
    int n_from, from[WISP_MAX_FROM]; /* values it reads */
    size_t n_in, n_out;              /* units of the first of them, and of its result */
    double arg[WISP_MAX_ARGS];       /* by their places in the kind's table */
    char file[WISP_FILE_NAME];       /* that it names; "": none */
    unsigned given;                  /* bit i: argument i was */
    int turn;                        /* layers of the same kind and first word before it */
    void *own;                       /* what its kind keeps from plan on; NULL: nothing */
    struct wisp_params *list;        /* of the net */
    int n_params;
    struct wisp_param *params;              /* its own, in the list */
    const struct wisp_precision *precision; /* of its products, where it has a choice; NULL: fp32 */
    struct wisp_sampler *sampler; /* who chooses its rows while training, borrowed; NULL: all */
    bool trains;                  /* planned for training, whatever a step is for */
    /* what is done together on CPUs (model/fuse.c) */
    unsigned parts;                /* WISP_FUSE_*: layers behind it whose work is its own */
    const struct wisp_layer *norm; /* ... that of WISP_FUSE_NORM; NULL: none */
    bool done, undone;             /* another layer does its work; that of its way back */
    bool masked;                   /* it does as the kind's 'masks' says */
    const float *raise; /* (n_out) added to the output layer's logits in steps; NULL: nothing */
    float l1; /* its result, times this, is added to a sample's loss, in training (model/l1.c) */
    float smoothing; /* share of a sample's targets that all labels of the head have alike */
    /* scratch, asked for by plan, given by the net */
    size_t scratch_floats, thread_floats; /* from forward to backward; of each thread in one call */
    size_t front_floats, back_floats;     /* of forward, of backward alone */
    size_t kept_floats;                   /* from step to step; begins as zeros */
    size_t thread_apart;                  /* floats from one thread's to the next */
    float *scratch, *front, *back, *thread_scratch, *kept;
};

struct wisp_graph { /* what a device is handed of a net; everything stays the net's */
    size_t n_features, n_labels;
    int n_layers;                    /* the last one is the head */
    const struct wisp_layer *layers; /* each reads only what those before it give */
    const struct wisp_act *acts; /* (n_layers) the batch, then what each layer but the last gives */
};
static inline const struct wisp_layer *wisp_graph_head(const struct wisp_graph *g)
{
    return &g->layers[g->n_layers - 1];
}

/* ---- layers that become parts of others (fuse.c) ---- */

/* into (n_layers): who does the work of each layer, which is the layer itself, or one before it
 * that gives nothing to anyone else, and after whatever else is read.  is, takes (n_layers): which
 * WISP_FUSE_* a layer is, and of which it can do the work; each device has its own. */
void wisp_graph_fuse(int *into, const struct wisp_graph *g, const unsigned *is,
                     const unsigned *takes);

/* ---- what a net says (say.c) ---- */

struct wisp_said { /* one layer */
    const struct wisp_layer_kind *kind;
    double arg[WISP_MAX_ARGS];
    char file[WISP_FILE_NAME];       /* WISP_ARG_FILE, of which a layer has one; "": none */
    unsigned given;                  /* bit i: argument i was */
    int n_from, from[WISP_MAX_FROM]; /* values it reads: 0 is the batch, i + 1 what layer i gives */
    char name[WISP_LAYER_NAME];      /* "": it has none */
    size_t at;                       /* where in the text it stands */
};

/* Reads a net, as docs/nets.md describes them, into a list of layers, to be freed; a head is added
 * where there is none.  'where' stands before messages: the option, or a file's name.
 * 'kinds' hands out the kinds of layers one by one, then NULL. */
wisp_status wisp_say_net(struct wisp_said **out, int *n, const char *text, const char *where,
                         const struct wisp_layer_kind *(*kinds)(size_t i), wisp_error *err);
/* The text of a net whose layers are these, all written out, to be freed (unsay.c): wisp_say_net
 * reads the same layers in it, with the same names. */
wisp_status wisp_graph_text(char **out, const struct wisp_graph *g, wisp_error *err);
/* A failure at a place of the text: "WHERE:LINE:COLUMN: ...". */
__attribute__((format(printf, 5, 6))) wisp_status wisp_say_fail(wisp_error *err, const char *where,
                                                                const char *text, size_t at,
                                                                const char *fmt, ...);

#ifdef __cplusplus
}
#endif

#endif

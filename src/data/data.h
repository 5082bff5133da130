/* Data sets: sparse rows with labels, in blocks of CSR.
 *
 *   text, npz  --format-->  blocks  --writer-->  cache file  --map-->  struct wisp_data
 *
 * A set is a list of blocks.  A block is one run of bytes with the same layout in memory
 * and on disk, so a mapped cache file needs no unpacking:
 *
 *   struct wisp_block_head | xp u32[n+1] | yp u32[n+1] | xi i32[nnz] | xv f32[nnz] | yi i32[nlab]
 *   the same of images:    | xp          | yp          | px u8[n * pixels]         | yi
 *
 * each section starts at a multiple of 64 bytes from the block's start (which is itself
 * 64-aligned in the file).  Within a row features and labels ascend, without repeats.
 *
 * Rows of images whose pixels are bytes have no lists: a pixel that is not 0 is a feature, its
 * number in (channels, height, width) is the id, its byte / 255 the value.  xp counts those pixels,
 * so that sizes are known without a look at them.  Whoever wants lists asks wisp_row_pixels for a
 * row or wisp_rows_lists for a block; whoever wants planes asks wisp_image_lay (image.h).
 *
 * A view (view.c) is a set whose features and values stay in arrays of the caller; only offsets and
 * labels are made.  Its ids and values may be of wider types, so whoever reads a set's rows one by
 * one asks wisp_row_id and wisp_row_value.
 *
 * Rows keep the values of the source; tf-idf and unit length are applied when a batch is
 * laid out (model/batch.c), so one cache serves every setting. */
#ifndef WISP_DATA_DATA_H
#define WISP_DATA_DATA_H

#include "base/bounds.h"
#include "base/context.h"
#include "base/file.h"
#include "data/tokens.h"

#include <stdbool.h>

struct wisp_block_head {
    uint32_t magic; /* WISP_BLOCK_MAGIC */
    uint32_t n_rows;
    uint32_t nnz, n_lab;
    uint64_t bytes;  /* whole block, padded to 64 */
    uint64_t check;  /* XXH3-64 of everything after this head; 0 for a block in memory */
    uint64_t pixels; /* of a row; 0: lists */
};
enum {
    WISP_BLOCK_MAGIC = 0x324b4c42,
    WISP_BLOCK_ROWS = 8192,
    WISP_BLOCK_NNZ = 1 << 20,
    WISP_BLOCK_PIXELS = 1 << 25
};

struct wisp_rows { /* a view into a block */
    size_t n;
    const uint32_t *xp, *yp; /* (n+1) */
    const int32_t *xi, *yi;  /* (xp[n]), (yp[n]) */
    const float *xv;         /* (xp[n]) */
    const int64_t *xi64;     /* in place of xi, which is then NULL; ids fit 32 bits */
    const double *xv64;      /* in place of xv */
    const uint8_t *px;       /* (n, pixels) in place of ids and values, which are then NULL */
    size_t pixels;           /* 0: lists */
};
static inline int32_t wisp_row_id(const struct wisp_rows *r, size_t i)
{
    return r->xi ? r->xi[i] : (int32_t)r->xi64[i];
}
static inline float wisp_row_value(const struct wisp_rows *r, size_t i)
{
    return r->xv ? r->xv[i] : (float)r->xv64[i];
}
/* The value of a pixel. */
static inline float wisp_pixel_value(uint8_t byte)
{
    return (float)byte / 255;
}
/* The features of a row of pixels: xi and xv have room for xp[row + 1] - xp[row], which is how many
 * there are. */
void wisp_row_pixels(int32_t *xi, float *xv, const struct wisp_rows *r, size_t row);
/* Rows as lists, however they lie: *out is 'r' itself, or lists made in 'l', which stay until the
 * next call. */
struct wisp_lists {
    struct wisp_rows rows;
    int32_t *xi;
    float *xv;
    size_t cap;
};
wisp_status wisp_rows_lists(const struct wisp_rows **out, struct wisp_lists *l,
                            const struct wisp_rows *r, wisp_error *err);
void wisp_lists_clear(struct wisp_lists *l);

/* What a row is a picture of: (channels, height, width), features in this order; all 0: rows are no
 * images. */
struct wisp_image {
    uint32_t channels, height, width;
};
static inline size_t wisp_image_pixels(struct wisp_image i)
{
    return (size_t)i.channels * i.height * i.width;
}

/* A count, so that log(tf) makes sense: a whole number from 1 to 2^24. */
static inline bool wisp_is_count(float v)
{
    return v >= 1 && v <= 0x1p24f && v == (float)(int32_t)v;
}

/* Names: line i names id i.  text holds them joined by '\n', each line ended. */
struct wisp_names {
    size_t n;
    char *text;    /* owned when not part of a map */
    size_t bytes;  /* of text */
    size_t *start; /* (n+1) offsets into text; name i is text[start[i] .. start[i+1]-1) */
    bool borrowed; /* text belongs to someone else */
};

/* Sides of rows of numbers whose ids are by name: the text says words, or numbers that are out of
 * proportion to it (ids.h). */
enum { WISP_NAMED_LABELS = 1, WISP_NAMED_FEATURES = 2 };

struct wisp_data {
    size_t n_rows, n_features, n_labels;
    size_t nnz, n_lab; /* sums over rows */
    size_t n_unlabelled;
    size_t max_row_nnz;
    bool counts;             /* every value is a count */
    struct wisp_image image; /* of all rows; blocks have lists all the same where values are floats,
                                or where a model knows fewer features */
    size_t n_blocks;
    struct wisp_rows *blocks;         /* (n_blocks) */
    size_t *first;                    /* (n_blocks + 1) number of the first row of each block */
    size_t rows_before;               /* of the same call: messages count rows from there */
    int64_t *feature_rows;            /* (n_features) rows that have the feature: for idf */
    int64_t *label_rows;              /* (n_labels) rows that have the label; both NULL where rows
                                         were read for a model, from memory */
    struct wisp_names labels, vocab;  /* n = 0: no names */
    float *weights;                   /* (n_rows) what a row counts for; NULL: all 1 */
    struct wisp_text_how text;        /* of a text: how it was cut into features */
    struct wisp_names stop;           /* of a text: words that were left out; n = 0: none */
    unsigned named;                   /* WISP_NAMED_...: ids of numbers that stand for names */
    const struct wisp_format *format; /* that it was read in, and the number of its first feature */
    int index_base;                   /* there; NULL and 0 for rows that were not read */
    char source[120];                 /* name of the file that was opened; "": rows of memory */
    /* where the bytes live */
    struct wisp_map map; /* a cache file, or nothing */
    void **heap;         /* (n_blocks) blocks in memory, or NULL; of a view: what was made */
    size_t bytes;        /* of all blocks; of a view: what was made */
    size_t source_bytes; /* read from the source, as it lies there; 0 when a cache was mapped */
    size_t n_dropped_features, n_dropped_labels; /* as in struct wisp_source */
};

/* The view of row 'row': block and place in it. */
static inline const struct wisp_rows *wisp_data_row(const struct wisp_data *d, size_t row,
                                                    size_t *place)
{
    size_t lo = 0, hi = d->n_blocks; /* first[lo] <= row < first[hi] */
    while (hi - lo > 1) {
        size_t mid = (lo + hi) / 2;
        if (d->first[mid] <= row) lo = mid;
        else hi = mid;
    }
    *place = row - d->first[lo];
    return &d->blocks[lo];
}

void wisp_data_free(struct wisp_data *d);
/* Rows are there, and labels in some of them, for whoever is "to train on" or to judge by them. */
wisp_status wisp_need_labels(const struct wisp_data *d, const char *what, wisp_error *err);

/* Hands out the lines of a file of weights, "[name] number", in order: their number from 1, the
 * name (bytes 0: none) and the weight, which is finite and not negative. */
typedef wisp_status (*wisp_on_weight)(void *arg, size_t line, const char *name, size_t bytes,
                                      float weight, wisp_error *err);
wisp_status wisp_sample_weights_read(const char *path, wisp_on_weight take, void *arg,
                                     wisp_error *err);
/* Gives the pages of a mapped block back to the system. */
void wisp_data_forget(const struct wisp_data *d, size_t block);
/* Bytes behind a view, and the same rows copied to 'to' (64-aligned, so many bytes). */
size_t wisp_rows_bytes(const struct wisp_rows *r);
/* Hands the bytes behind a view to 'take', in order and in pieces: those that the rows have as a
 * block of lists, wherever they are and however they lie.  Stops at the first error. */
typedef wisp_status (*wisp_take)(void *arg, const void *bytes, size_t n);
wisp_status wisp_rows_give(const struct wisp_rows *r, wisp_take take, void *arg);
/* The same for the ids of the features alone, or their values, without padding. */
wisp_status wisp_rows_give_ids(const struct wisp_rows *r, wisp_take take, void *arg);
wisp_status wisp_rows_give_values(const struct wisp_rows *r, wisp_take take, void *arg);
struct wisp_rows wisp_rows_copy(void *to, const struct wisp_rows *r);
/* The wanted rows as a set of their own, in memory, in order. */
wisp_status wisp_data_pick(struct wisp_data **out, const struct wisp_data *d,
                           bool (*want)(const void *arg, size_t row), const void *arg,
                           wisp_error *err);
/* The same rows with other ids: feature f becomes features[f]; NULL: stays.  Labels likewise. */
wisp_status wisp_data_renumber(struct wisp_data **out, const struct wisp_data *d,
                               const int32_t *features, const int32_t *labels, wisp_error *err);
/* The same rows, all of them lists. */
wisp_status wisp_data_lists(struct wisp_data **out, const struct wisp_data *d, wisp_error *err);
/* A few of the caller's rows, without labels, as a set that takes no memory (view.c): what is laid
 * out for prediction is read from it.  It is not freed, and has no counts. */
enum { WISP_VIEW_ROWS = 256 };
struct wisp_view {
    struct wisp_data d;
    struct wisp_rows rows;
    size_t first[2];
    uint32_t xp[WISP_VIEW_ROWS + 1], yp[WISP_VIEW_ROWS + 1];
};
/* Rows first .. first+n-1 of a CSR matrix as wisp_data_view_csr takes it, n <= WISP_VIEW_ROWS. */
wisp_status wisp_view_init(struct wisp_view *v, size_t first, size_t n, size_t n_features,
                           const void *x_ptr, const void *x_idx, const void *x_val, unsigned types,
                           wisp_error *err);
void wisp_names_clear(struct wisp_names *n);
/* Indexes text (bytes long, lines ended by '\n'; a missing last '\n' is fine); takes ownership of
 * text unless 'borrowed'.  On failure nothing is taken. */
wisp_status wisp_names_init(struct wisp_names *n, char *text, size_t bytes, bool borrowed,
                            wisp_error *err);
/* A file of names: line i names id i; CRLF is accepted; "uri<TAB>name" keeps the part
 * after the last tab. */
wisp_status wisp_names_load(struct wisp_names *n, const char *path, wisp_error *err);
/* Are the first names of 'a' those of 'b', all of them? */
bool wisp_names_begin(const struct wisp_names *a, const struct wisp_names *b);
/* The names of 'a', then those of 'b' that it does not have.  map (b->n): the ids that b's names
 * have there, the first of equal ones. */
wisp_status wisp_names_merge(struct wisp_names *out, int32_t *map, const struct wisp_names *a,
                             const struct wisp_names *b, wisp_error *err);
/* A copy that owns its text. */
wisp_status wisp_names_copy(struct wisp_names *out, const struct wisp_names *n, wisp_error *err);

/* From a name to its id, the first of equal ones: made once, read by any number of threads. */
struct wisp_lookup {                /* all zero: of no names */
    const struct wisp_names *names; /* borrowed */
    uint32_t *slots;                /* id + 1, by open addressing; 0: free */
    size_t n_slots;                 /* a power of two, at least twice the names */
};
wisp_status wisp_lookup_init(struct wisp_lookup *l, const struct wisp_names *names,
                             wisp_error *err);
int32_t wisp_lookup_find(const struct wisp_lookup *l, const char *name, size_t bytes); /* or -1 */
void wisp_lookup_clear(struct wisp_lookup *l);

/* ---- reading: what a caller asks for ---- */

struct wisp_read_options {
    const char *format; /* NULL: probe */
    int index_base;     /* first id: -1 by format (xc 0, libsvm 1) */
    /* of rows that these go with (a model's, a training set's), and their first id: taken where the
     * bytes do not say otherwise; NULL: none */
    const struct wisp_format *like;
    int like_base;
    bool every_line; /* a blank line, or one with a comment only, is a row, too: answers are counted
                        by lines; else it is skipped, unless the format has it as a row */
    bool no_header;  /* xc text and tables without their first line; no format known: it is xc */
    struct wisp_text_how text;      /* of formats of words */
    const struct wisp_lookup *stop; /* words that are left out, or NULL */
    int min_count;           /* words, pairs and pieces seen fewer times are dropped; 0: the choice
                      is ours */
    struct wisp_image image; /* that rows must be (a model's); channels 0: any number of them;
                                height 0: any size, or no images */
    bool resize; /* images of other sizes become that, whatever the format; else it is for the
                    format to do so, or they are refused */
    size_t n_features,
        n_labels; /* 0: from the data; else ids from there on are dropped and counted */
    size_t old_features, old_labels; /* ids below these are in proportion to any text (grow) */
    bool counted; /* rows per feature and label are wanted of any text, as a training needs them */
    const struct wisp_names *labels, *vocab; /* names of a model (words, named ids), or NULL */
    const struct wisp_lookup *find_label, *find_word; /* the same made ready, or NULL */
    unsigned named;    /* rows of numbers: sides (WISP_NAMED_...) that are looked up in these */
    unsigned decided;  /* ... and sides where that is not for the text to choose */
    bool grow;         /* what the tables do not have gets ids after theirs, and is not unknown */
    const char *cache; /* folder for the cache when it cannot lie beside its source; NULL: none */
    bool use_cache;    /* false: parse into memory */
    size_t memory;     /* limit for blocks in flight, and for all rows if no cache can hold them;
                          0: no limit */
};

wisp_status wisp_data_read(struct wisp_data **out, struct wisp_context *ctx, const char *path,
                           const struct wisp_read_options *o, wisp_error *err);
wisp_status wisp_data_read_text(struct wisp_data **out, struct wisp_context *ctx, const char *text,
                                size_t bytes, const char *name, const struct wisp_read_options *o,
                                wisp_error *err);
struct wisp_memory_rows;
wisp_status wisp_data_read_rows(struct wisp_data **out, struct wisp_context *ctx,
                                const struct wisp_memory_rows *rows,
                                const struct wisp_read_options *o, wisp_error *err);

/* A smaller source leaves no cache: it is parsed as quickly as a cache is opened (1 MiB; tests that
 * want caches of small files lower it).  With a limit of memory every source has one. */
extern size_t wisp_cache_min;

/* Ids from here on are refused by every reader (2^31 - 1, so that their number fits an int32_t; a
 * fuzzer lowers it). */
extern size_t wisp_ids_max;
/* So many ids, or as many as the text has bytes, are in proportion to it (2^20; 16 times as many
 * where a header says so); beyond that ids are by name.  Tests lower it. */
extern size_t wisp_ids_free;

/* ---- building ---- */

/* Rows in the making; all zero to begin with.  label() and feature() add to the row in progress in
 * any order; end_row sorts it, sums equal features, drops repeated labels and features whose value
 * is 0, and starts the next.  Ids are not checked here, except that they are 0 or more. */
struct wisp_builder {
    size_t n_rows, nnz, n_lab;
    size_t cap_rows, cap_nnz, cap_lab;
    uint32_t *xp, *yp; /* (n_rows + 1), once there is a row */
    int32_t *xi, *yi;
    float *xv;
    /* of images, whose rows have no features but these */
    size_t pixels, cap_images; /* of a row; 0: lists */
    uint8_t *px;               /* (n_rows, pixels) */
};
wisp_status wisp_builder_grow_labels(struct wisp_builder *b, wisp_error *err);
wisp_status wisp_builder_grow_features(struct wisp_builder *b, wisp_error *err);
static inline wisp_status wisp_builder_label(struct wisp_builder *b, int32_t id, wisp_error *err)
{
    if (b->n_lab == b->cap_lab) {
        wisp_status st = wisp_builder_grow_labels(b, err);
        if (st != WISP_OK) return st;
    }
    b->yi[b->n_lab++] = id;
    return WISP_OK;
}
static inline wisp_status wisp_builder_feature(struct wisp_builder *b, int32_t id, float value,
                                               wisp_error *err)
{
    if (b->nnz == b->cap_nnz) {
        wisp_status st = wisp_builder_grow_features(b, err);
        if (st != WISP_OK) return st;
    }
    b->xi[b->nnz] = id;
    b->xv[b->nnz++] = value;
    return WISP_OK;
}
/* The row's pixels: once per row, in place of features, and of the same number in all rows.  Whoever
 * writes them fills what it returns, before end_row; NULL: no memory. */
uint8_t *wisp_builder_image(struct wisp_builder *b, size_t pixels, wisp_error *err);
/* WISP_EFORMAT (text without a place) when equal features sum to infinity. */
wisp_status wisp_builder_end_row(struct wisp_builder *b, wisp_error *err);
void wisp_builder_reset(struct wisp_builder *b); /* keeps the memory */
void wisp_builder_clear(struct wisp_builder *b);

/* Lays the rows of b out as a block.  'to' has wisp_block_bytes() bytes and is 64-aligned; check is
 * left 0. */
size_t wisp_block_bytes(size_t n_rows, size_t nnz, size_t n_lab, size_t pixels);
/* Whether so many may lie in one block; a single row always may. */
static inline bool wisp_block_fits(size_t n_rows, size_t nnz, size_t n_lab, size_t pixels)
{
    return n_rows <= WISP_BLOCK_ROWS && nnz <= WISP_BLOCK_NNZ && n_lab <= WISP_BLOCK_NNZ &&
           n_rows * pixels <= WISP_BLOCK_PIXELS;
}
void wisp_block_write(unsigned char *to, const struct wisp_builder *b);
struct wisp_rows wisp_block_view(const unsigned char *block);

/* Receives blocks in order, gathers totals, and ends as a wisp_data: in memory, or in a
 * cache file that is committed and mapped. */
struct wisp_sink;
/* path NULL: in memory. */
wisp_status wisp_sink_create(struct wisp_sink **out, const char *path, wisp_error *err);
/* Copies the rows of b. */
wisp_status wisp_sink_add(struct wisp_sink *s, const struct wisp_builder *b, wisp_error *err);
/* At least these many features / labels exist, whatever the rows hold. */
void wisp_sink_at_least(struct wisp_sink *s, size_t n_features, size_t n_labels);
void wisp_sink_images(struct wisp_sink *s, struct wisp_image image); /* that its rows are */
void wisp_sink_names(struct wisp_sink *s, struct wisp_names *labels,
                     struct wisp_names *vocab); /* moves */
/* Frees s in any case. */
wisp_status wisp_sink_finish(struct wisp_data **out, struct wisp_sink *s, wisp_error *err);
void wisp_sink_abort(struct wisp_sink *s);

/* ---- formats ---- */

struct wisp_memory_rows { /* texts that lie one after the other, with labels by id */
    size_t n_rows, n_labels;
    const char *text;
    const uint64_t *start; /* (n_rows + 1) */
    const int64_t *y_ptr;  /* (n_rows + 1), or NULL: no labels */
    const int32_t *y_idx;
};

struct wisp_source { /* what a format reads */
    struct wisp_context *ctx;
    const char *path;
    const struct wisp_read_options *o;
    const char *text; /* text in memory instead of a file, or NULL */
    size_t text_bytes;
    const struct wisp_memory_rows *rows; /* rows of text in memory instead of both, or NULL */
    size_t *source_bytes;                /* out: bytes read */
    size_t n_dropped_features;           /* ids beyond the model's, words it does not know */
    size_t n_dropped_labels; /* names it does not know; they stay, as ids it cannot predict */
    size_t n_blank;          /* lines that every_line decides about; 0: there are none */
    unsigned named; /* in: sides to read by name; out: and those that turned out to need it */
    bool again;     /* out: they did, and what was read is of no use */
    struct wisp_look *look; /* not NULL: only its beginning is looked at; no rows are made */
};
struct wisp_look { /* at a text (words.h) */
    size_t n_rows, n_words;
};

struct wisp_format {
    const char *name, *what;
    const char *endings; /* of files that are to be written in it: ".svm .libsvm"; NULL: none */
    int index_base;      /* of the first feature, where the reader may say otherwise; else -1 */
    bool raw;            /* its values are for use as they are: no tf-idf, not scaled to length 1 */
    bool binary;         /* no text that a person could type */
    bool words;          /* its features are the words of a text (words.h) */
    bool table;          /* its first line names columns, and rows may go over several lines */
    bool classes;        /* its labels are names of folders, whatever they look like */
    bool sized;  /* its images become those that the options ask for, even without 'resize' */
    bool header; /* begins with a line by which it is known, unless that is left out */
    /* Does this look like ours?  'head' is the (unpacked) first bytes. */
    bool (*probe)(const char *path, const char *head, size_t n);
    wisp_status (*read)(struct wisp_source *src, struct wisp_sink *sink, wisp_error *err);
    wisp_status (*write)(const struct wisp_data *d, struct wisp_context *ctx, const char *path,
                         wisp_error *err);
    /* The file beside 'path' that is read with it (to be freed), or NULL; no function: there is
     * none. */
    char *(*beside)(const char *path);
    /* What tells its source from another, where that is no single file; else NULL. */
    wisp_status (*identify)(struct wisp_file_id *out, const char *path, wisp_error *err);
};
/* The number of the first feature: the format's, or what the options say. */
static inline int wisp_index_base(const struct wisp_format *f, const struct wisp_read_options *o)
{
    if (f->index_base < 0) return 0;
    return o->index_base < 0 ? f->index_base : o->index_base;
}
const struct wisp_format *wisp_format_at(size_t i); /* NULL past the end */
const struct wisp_format *wisp_format_find(const char *name);
/* The format to read with: o's, or what the first bytes say, or o->like; o's index_base and
 * no_header become what goes with it.  'text' NULL: of the file 'path'. */
wisp_status wisp_format_choose(const struct wisp_format **f, struct wisp_read_options *o,
                               const char *path, const char *text, size_t bytes, wisp_error *err);
/* Does the path end so (in letters of either case), packed or not? */
bool wisp_path_ends(const char *path, const char *ending);
/* Does it end as files of the format do? */
bool wisp_format_ends(const struct wisp_format *f, const char *path);
/* The format of a folder; NULL: the path is none. */
const struct wisp_format *wisp_format_of_folder(const char *path);
/* The format that a file with these first bytes (unpacked) has; NULL: none. */
const struct wisp_format *wisp_format_probe(const char *path, const char *head, size_t n);

/* The table, in the order in which a file is probed. */
#define WISP_FORMATS(X)                                                                            \
    X(csv)                                                                                         \
    X(tsv)                                                                                         \
    X(jsonl)                                                                                       \
    X(xc)                                                                                          \
    X(libsvm)                                                                                      \
    X(fasttext)                                                                                    \
    X(npz)                                                                                         \
    X(npy)                                                                                         \
    X(idx)                                                                                         \
    X(images)                                                                                      \
    X(cifar)
#define WISP_FORMAT(name) extern const struct wisp_format wisp_format_##name;
WISP_FORMATS(WISP_FORMAT)
WISP_FORMAT(memory) /* no file at all: rows of a program */
#undef WISP_FORMAT
/* What messages count the rows of d from: 1 where they are lines of text, 0 where they are rows of
 * arrays, in a file or of a program. */
static inline int wisp_row_base(const struct wisp_data *d)
{
    return d->format && !d->format->binary && d->format != &wisp_format_memory;
}

/* ---- synthetic rows (synth.c) ---- */

struct wisp_synth_shape {
    size_t n_rows, n_test, n_features, n_labels;
    double row_features, row_labels; /* means */
    uint64_t seed;
};
struct wisp_synth_known { /* the shape of a data set that people know */
    const char *name;
    struct wisp_synth_shape shape;
};
const struct wisp_synth_known *wisp_synth_at(size_t i); /* NULL past the end */
/* How many test rows go with so many. */
static inline size_t wisp_synth_tests(size_t n_rows)
{
    return n_rows / 10 < WISP_SYNTH_TESTS ? n_rows / 10 : WISP_SYNTH_TESTS;
}
/* Looks up a known shape or "RxFxL"; false: no such shape. */
bool wisp_synth_find(struct wisp_synth_shape *out, const char *name);
/* Rows as XC text: the first n_rows to PREFIX_train.txt, n_test more to PREFIX_test.txt. */
wisp_status wisp_synth_write(struct wisp_context *ctx, const char *prefix,
                             const struct wisp_synth_shape *shape, wisp_error *err);
/* The first n_rows (test = false) or the n_test held-out rows (true) in memory. */
wisp_status wisp_synth_data(struct wisp_data **out, struct wisp_context *ctx,
                            const struct wisp_synth_shape *shape, bool test, wisp_error *err);

#endif

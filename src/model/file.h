/* The model file: one valid safetensors file with a checksum of everything in it.
 *
 *   u64 header length | JSON header (space-padded) | tensors, each 64-byte aligned | __integrity__
 *
 * The format allows no holes, so gaps are U8 tensors "__pad_n__".  Last comes the U8 tensor
 * "__integrity__": XXH3-128 of the 8 length bytes and the header, XXH3-64 of every 64 MiB
 * chunk of every tensor in file order (pads included, itself excluded), XXH3-128 of its own
 * preceding bytes; each in xxHash's canonical (big-endian) form, as xxhsum prints them.
 * Plain readers ignore it; ours refuses a file that does not match. */
#ifndef WISP_MODEL_FILE_H
#define WISP_MODEL_FILE_H

#include "base/context.h"
#include "base/file.h"
#include "model/parts.h"

enum wisp_dtype {
    WISP_U8,
    WISP_I8,
    WISP_I32,
    WISP_I64,
    WISP_F32,
    WISP_BF16,
    WISP_F16, /* only from elsewhere: no model has them */
    WISP_N_DTYPES
};

extern const struct wisp_dtype_info {
    const char *name; /* as in the header: "F32" */
    size_t bytes;     /* of one element */
} wisp_dtypes[WISP_N_DTYPES];

enum { WISP_NAME_BYTES = 64, WISP_MAX_DIMS = 4 };

struct wisp_tensor {
    char name[WISP_NAME_BYTES];
    enum wisp_dtype dtype;
    int n_dims;                  /* 0 to WISP_MAX_DIMS */
    size_t shape[WISP_MAX_DIMS]; /* read: 1 where there is no such dimension */
    const void *data; /* into the map when read: 64-byte aligned, but anywhere in a plain file;
                         borrowed when written */
    size_t bytes;
    bool
        finite; /* read: no number of F32, BF16 or F16 is infinite or NaN; other types always are */
    struct wisp_parts parts; /* written: 'data' are this rank's rows, 'bytes' those of all ranks */
};

struct wisp_pair { /* one entry of __metadata__ */
    const char *key, *value;
};

struct wisp_tensor_file { /* a file read and verified */
    struct wisp_map map;
    size_t n_tensors;
    struct wisp_tensor *tensors; /* (n_tensors) in file order, without pads and __integrity__ */
    size_t n_meta;
    struct wisp_pair *meta; /* (n_meta) in file order; the strings follow in the same block */
    char check[33]; /* hex XXH3-128 that names this file: the last 16 bytes of __integrity__, or of
                       all bytes of a plain file */
};

/* Writes and commits atomically; where tensors have parts all ranks call it, rank 0 writes, and all
 * get the same status and checksum.  Names of tensors and keys of metadata are unique and pass
 * wisp_tensor_name_ok; values are UTF-8 (else WISP_EINVAL).  'check' (33 chars, or NULL) receives
 * the file's checksum. */
wisp_status wisp_tensor_file_write(const char *path, const struct wisp_tensor *t, size_t n_tensors,
                                   const struct wisp_pair *meta, size_t n_meta, char *check,
                                   wisp_error *err);
/* The same for a file of wisp's own beside 'model', whose mode it gets; keeps the file that was
 * there (wisp_out_keep). */
wisp_status wisp_tensor_file_replace(const char *path, const char *model,
                                     const struct wisp_tensor *t, size_t n_tensors,
                                     const struct wisp_pair *meta, size_t n_meta, wisp_error *err);
/* A safetensors file with these tensors and no others, in this order, for programs that take every
 * tensor for a weight: without pads and checksums. */
wisp_status wisp_tensor_file_write_plain(const char *path, const struct wisp_tensor *t,
                                         size_t n_tensors, const struct wisp_pair *meta,
                                         size_t n_meta, wisp_error *err);
/* Maps and verifies; every fault is WISP_EMODEL with a text that says what is wrong (a file
 * that cannot be opened is WISP_EIO, one that cannot be mapped for lack of memory WISP_ENOMEM).
 * Every byte is seen once: in the same pass numbers are looked at (wisp_tensor.finite).  On failure
 * *out is all zero. */
wisp_status wisp_tensor_file_open(struct wisp_tensor_file *out, struct wisp_pool *pool,
                                  const char *path, wisp_error *err);
/* The same for a file of wisp's own beside 'model' (base/file.h). */
wisp_status wisp_tensor_file_open_own(struct wisp_tensor_file *out, struct wisp_pool *pool,
                                      const char *path, const char *model, wisp_error *err);
/* The same for n bytes in memory, which are copied; 'name' stands in messages. */
wisp_status wisp_tensor_file_copy(struct wisp_tensor_file *out, struct wisp_pool *pool,
                                  const void *bytes, size_t n, const char *name, wisp_error *err);
/* A safetensors file that somebody else wrote: no alignment, no checksums, else as strict. */
wisp_status wisp_tensor_file_open_plain(struct wisp_tensor_file *out, struct wisp_pool *pool,
                                        const char *path, wisp_error *err);
void wisp_tensor_file_close(struct wisp_tensor_file *f);
/* Do these bytes begin a file of this kind?  No text does: its header's length has bytes of 0. */
bool wisp_tensor_file_probe(const unsigned char *p, size_t bytes);
/* ... and is it a plain one, without checksums?  A header that cannot be read says nothing. */
bool wisp_tensor_file_is_plain(const unsigned char *p, size_t bytes);
/* NULL: not there. */
const struct wisp_tensor *wisp_tensor_file_find(const struct wisp_tensor_file *f, const char *name);
const char *wisp_tensor_file_meta(const struct wisp_tensor_file *f, const char *key);

/* 1 .. 63 printable ASCII characters, no space, quote or backslash. */
bool wisp_tensor_name_ok(const char *name);
enum { WISP_TENSOR_TEXT = 10 + 24 * WISP_MAX_DIMS };
/* "F32 3 x 4", for messages. */
const char *wisp_tensor_text(char out[WISP_TENSOR_TEXT], enum wisp_dtype dtype, int n_dims,
                             const size_t *shape);
/* Elements times element size; false when that passes SIZE_MAX, or a dimension what JSON readers
 * take (2^63 - 1). */
bool wisp_tensor_size(size_t *bytes, enum wisp_dtype dtype, int n_dims, const size_t *shape);
/* Bytes under one checksum: 64 MiB, part of the format; only tests change it. */
extern size_t wisp_tensor_chunk;
/* Checksums for 'bytes' bytes of one tensor. */
size_t wisp_tensor_n_chunks(size_t bytes);
#define WISP_PAD_PREFIX "__pad_"
#define WISP_INTEGRITY  "__integrity__"
#define WISP_METADATA   "__metadata__"
/* Limits of readers and writers: bytes of a header, its tensors (pads and __integrity__ count) and
 * keys of its metadata. */
enum { WISP_HEADER_MAX = 100000000, WISP_TENSORS_MAX = 1 << 14, WISP_META_MAX = 1 << 10 };
enum { WISP_FILE_ALIGN = 64 };

#endif

/* Inside the hashing finder: what lsh.c (memory, finding, state) and lsh_upkeep.c (keeping the
 * tables fresh) share. */
#ifndef WISP_HASH_LSH_H
#define WISP_HASH_LSH_H

#include "hash/family.h"
#include "hash/frame.h"
#include "hash/tables.h"

enum { WISP_LSH_GROWTH = 20 }; /* a gap grows to so many times the first one */

struct wisp_lsh_counters {
    uint64_t built;    /* 1: there are tables */
    uint64_t now;      /* the generation in use, 0 or 1; the other is being made */
    uint64_t draw[2];  /* of the functions of each */
    uint64_t cycle;    /* cycles completed */
    uint64_t gap, pos; /* steps of this cycle, and how many of them are done */
    uint64_t hashed;   /* rows, in this cycle; blocks of them are sorted when complete */
    uint64_t parts;    /* filled in this cycle, of all tables, */
    uint64_t filled;   /* and rows in these */
};

struct wisp_lsh {
    struct wisp_sampling o;
    const struct wisp_hash_family *family;
    struct wisp_hash_shape shape;
    size_t n_rows, width, batch, keep, votes;
    uint64_t seed, first_gap;
    int threads, key_shift; /* of long keys, to the bits of a bucket */
    uint32_t key_mask;
    size_t float_bytes, function_bytes, work_bytes;
    struct wisp_lsh_counters *c;
    float *mean, *square; /* (width) of queries */
    struct wisp_tables t; /* its two sets, a frame and functions: the generations */
    struct wisp_frame frame[2];
    void *functions[2];
    uint32_t *query_keys; /* (batch, n_tables) */
    float *measuring;     /* (WISP_FRAME_SAMPLE + 2 width) */
    char *work;           /* (threads, work_bytes) */
};

struct wisp_lsh_work { /* of one thread */
    float *x;          /* (WISP_HASH_BLOCK, shape.width) */
    float *row;        /* (width) */
    uint32_t *keys;    /* (WISP_HASH_BLOCK, n_tables) */
    uint32_t *count;   /* (2^t.low_bits) */
    uint32_t *order;   /* (n_tables) */
    void *family;
};

struct wisp_lsh_work wisp_lsh_work_of(const struct wisp_lsh *s, int thread);
/* The bucket of a key of the family.  Long keys are folded; short ones change places, so that
 * buckets with many rows, whose keys have digits in common, do not meet in one part of a table. */
static inline uint32_t wisp_lsh_bucket(const struct wisp_lsh *s, uint32_t key)
{
    return (key * 0x9e3779b1u & s->key_mask) >> s->key_shift;
}
/* The first tables, from the rows and queries of a first batch. */
void wisp_lsh_build(struct wisp_lsh *s, struct wisp_context *ctx, const struct wisp_query *q);
/* The upkeep of one step. */
void wisp_lsh_keep_up(struct wisp_lsh *s, struct wisp_context *ctx, const struct wisp_query *q);

#endif

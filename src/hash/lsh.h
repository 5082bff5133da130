/* Inside the hashing finder: what lsh.c (memory, finding, state) and lsh_upkeep.c (keeping the
 * tables fresh) share. */
#ifndef WISP_HASH_LSH_H
#define WISP_HASH_LSH_H

#include "hash/family.h"
#include "hash/frame.h"
#include "hash/tables.h"

enum { WISP_LSH_GROUP = 10 }; /* tables whose keys are made together when refreshing */

struct wisp_lsh_counters {
    uint64_t built;    /* 1: there are tables */
    uint64_t draw[2];  /* of the functions of each generation */
    uint64_t now;      /* the generation in use, 0 or 1 */
    uint64_t refresh;  /* 1: in this cycle tables change over to the other */
    uint64_t cycle;    /* cycles completed */
    uint64_t gap, pos; /* steps of this cycle, and how many of them are done */
    uint64_t sweep;    /* rows that the sweep has passed */
    uint64_t tables;   /* tables built in this cycle */
    uint64_t keyed;    /* when refreshing: tables with all keys made, */
    uint64_t rows;     /* and rows hashed for the group of tables after these */
    uint64_t builds;   /* tables built, ever */
};

struct wisp_lsh {
    struct wisp_sampling o;
    const struct wisp_hash_family *family;
    struct wisp_hash_shape shape;
    size_t n_rows, width, batch, keep, votes;
    uint64_t seed, first_gap;
    int threads;
    size_t float_bytes, dirty_bytes, key_bytes, start_bytes, row_bytes;
    struct wisp_lsh_counters *c;
    float *mean, *square; /* (width) of queries */
    struct wisp_frame frame[2];
    uint32_t *dirty; /* bit a row: it moved since it was hashed */
    struct wisp_tables t;
    void *functions[2];
    uint32_t *query_keys; /* (batch, n_tables) */
    float *measuring;     /* (WISP_FRAME_SAMPLE + 2 width) */
    char *work;           /* (threads, work_bytes) */
    size_t work_bytes;
};

struct wisp_lsh_work { /* of one thread */
    float *x;          /* (WISP_HASH_BLOCK, shape.width) */
    float *row;        /* (width) */
    uint32_t *keys;    /* (WISP_HASH_BLOCK, n_tables) */
    uint32_t *count;   /* (2^bits) */
    uint32_t *order;   /* (n_tables) */
    void *family;
};

struct wisp_lsh_work wisp_lsh_work_of(const struct wisp_lsh *s, int thread);
/* Keys of the family to numbers of buckets. */
void wisp_lsh_fold(const struct wisp_lsh *s, uint32_t *keys, size_t n);
/* The first tables, from the rows and queries of a first batch. */
void wisp_lsh_build(struct wisp_lsh *s, struct wisp_context *ctx, const struct wisp_query *q);
/* The upkeep of one step. */
void wisp_lsh_keep_up(struct wisp_lsh *s, struct wisp_context *ctx, const struct wisp_query *q,
                      const struct wisp_active *moved);
/* Tables from 0 on that queries meet under the other generation. */
static inline size_t wisp_lsh_changed(const struct wisp_lsh *s)
{
    return s->c->refresh ? s->c->tables : 0;
}

#endif

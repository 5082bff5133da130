/* The processes of a job, its *ranks*: which one this is, and the few things they do together.
 *
 *     comm_self.c   one rank: every collective is a plain copy, or nothing
 *     comm_mpi.c    ranks that mpirun or srun started: a shared object of its own, wisp-mpi.so
 *     comm.c        picks one of them; what is made of both
 *
 * wisp-mpi.so is opened when a process is one of several.  It knows nothing of the library but this
 * header and wisp.h.
 *
 * A collective is called by all ranks, in the same order.  So a rank that has failed goes on to the
 * next wisp_comm_agree, where all learn of it; WISP_EPEER (a rank is lost) needs no agreement: from
 * then on no collective waits for anybody. */
#ifndef WISP_COMM_COMM_H
#define WISP_COMM_COMM_H

#include "base/share.h"
#include "wisp/wisp.h"

enum { WISP_COMM_VERSION = 6 }; /* of this interface and of wisp_error */
enum {
    WISP_COMM_CHUNK = 64 << 20,  /* bytes of a message at most */
    WISP_COMM_MOST_RANKS = 1024, /* of a job */
    WISP_COMM_PATIENCE = 300     /* seconds of a wait, unless it is set otherwise */
};

/* What n numbers of 'bytes' bytes, of each rank, come to: part[q] are rank q's, and 'to' may be one of
 * them.  A number may be anything, also a list. */
typedef void wisp_join(void *to, const void *const *part, int n_parts, size_t n, size_t bytes);

struct wisp_comm {
    int rank, size;           /* of the job */
    int host_rank, host_size; /* among the ranks on this machine */
    int host_cores;           /* that the ranks on this machine may run on, together; 0: unknown */
    /* For measuring: left within microseconds, as waiting keeps a core busy.  All else sleeps. */
    wisp_status (*barrier)(wisp_error *err);
    /* n numbers of 'bytes' bytes each (WISP_COMM_CHUNK at most), of all ranks, joined in the order of
     * ranks: x receives the same bits at every rank. */
    wisp_status (*all_join)(void *x, size_t n, size_t bytes, wisp_join *join, wisp_error *err);
    /* The same while this rank does other things: x is not to be touched until join_finish, which
     * waits for everything that was begun.  Other collectives may come in between.  join_go_on lets
     * messages pass, and never waits: to be called now and then. */
    wisp_status (*join_begin)(void *x, size_t n, size_t bytes, wisp_join *join, wisp_error *err);
    wisp_status (*join_go_on)(wisp_error *err);
    wisp_status (*join_finish)(wisp_error *err);
    /* What each rank has, as many bytes of each, in the order of ranks, at every rank: to (size,
     * bytes), where 'mine' may lie in its own place. */
    wisp_status (*all_gather)(void *to, const void *mine, size_t bytes, wisp_error *err);
    /* Bytes of rank 'from', at every rank. */
    wisp_status (*spread)(void *p, size_t bytes, int from, wisp_error *err);
    /* What each rank has, of any length, one behind the other at rank 0, where 'to' has room for it
     * ('mine' may lie at its begin); 'to' is not used elsewhere. */
    wisp_status (*gather)(void *to, size_t room, const void *mine, size_t bytes, wisp_error *err);
    /* The longest that anything here waits for another rank: then WISP_EPEER, and who is missing. */
    void (*patience)(double seconds);
    void (*give_up)(void);  /* a rank is lost, maybe this one: from here on nobody is waited for */
    uint64_t (*sent)(void); /* bytes that this rank has sent to others since it joined */
    void (*leave)(void);    /* waits for the others, so that no rank ends while another speaks */
};

struct wisp_launch { /* how this process was started, as the environment says */
    const char *by;  /* "mpirun", for messages; NULL: alone */
    int size;        /* processes started together */
};

struct wisp_comm_part { /* what wisp-mpi.so offers, through wisp_comm_table() */
    int version;
    wisp_status (*join)(struct wisp_comm *out, wisp_error *err);
};

extern const struct wisp_comm wisp_comm_self;

/* One process: *out is wisp_comm_self; one of several: the others are joined.  WISP_ENOTSUP: it is
 * one of several, but wisp-mpi.so is missing or knows nothing of them. */
wisp_status wisp_comm_open(struct wisp_comm *out, const struct wisp_launch *how, wisp_error *err);

/* All ranks get the same status: WISP_OK if every one has it, else that of the first rank that
 * failed, with its message. */
wisp_status wisp_comm_agree(const struct wisp_comm *c, wisp_status st, wisp_error *err);

/* Of a rank that has failed where the others do not come to agree: WISP_EPEER, with its message and
 * who it is; the launcher ends the others, or their deadline does. */
wisp_status wisp_comm_fail_alone(const struct wisp_comm *c, wisp_status st, wisp_error *err);

/* The largest, or the sum, of each of n numbers, at every rank. */
wisp_status wisp_comm_max(const struct wisp_comm *c, double *x, size_t n, wisp_error *err);
wisp_status wisp_comm_add(const struct wisp_comm *c, double *x, size_t n, wisp_error *err);
/* The sums of n floats each; the second one only begins (join_begin). */
wisp_status wisp_comm_sum(const struct wisp_comm *c, float *x, size_t n, wisp_error *err);
wisp_status wisp_comm_begin_sum(const struct wisp_comm *c, float *x, size_t n, wisp_error *err);

/* fn by rank 0, which makes the caches, then by the first rank of each other machine, which may not
 * see its disk, then by the rest, which find them made.  A failure is everybody's. */
wisp_status wisp_comm_in_turn(const struct wisp_comm *c,
                              wisp_status (*fn)(void *arg, wisp_error *err), void *arg,
                              wisp_error *err);

/* This rank's share of n rows: n_share of them from 'first' on.  Shares follow each other in the
 * order of ranks and differ by at most one; rank 0 has one of the largest. */
void wisp_comm_share(size_t *first, size_t *n_share, const struct wisp_comm *c, size_t n);

/* The same of rows that are dealt out by their ids (base/share.h). */
static inline struct wisp_share wisp_comm_deal(const struct wisp_comm *c)
{
    return c ? (struct wisp_share){ c->rank, c->size } : (struct wisp_share){ 0, 1 };
}

/* Threads for this rank when nobody said how many: the cores of the machine divided by its ranks,
 * at least 1, at most 'cores', those that this rank may use. */
int wisp_comm_threads(const struct wisp_comm *c, int cores, int quota);

#endif

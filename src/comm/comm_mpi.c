/* Ranks by MPI: wisp-mpi.so, the only file that knows MPI.  All calls are made by the thread that
 * joined.
 *
 * Waiting sleeps, but for barriers: MPI's own waiting keeps a core busy, which others need while
 * one rank makes caches. */
#include "comm/comm.h"

#include <mpi.h>

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    TRIES = 200,              /* before the first sleep */
    LONGEST_NS = 1000 * 1000, /* of a sleep */
    PIECE = 1 << 30,          /* bytes of a message: MPI counts in int */
    TAG = 1
};

static MPI_Comm world = MPI_COMM_NULL; /* a copy: no message of a host program is taken for ours */
static int my_rank, n_ranks;
static bool ours; /* to finalize: nobody had initialised MPI before */
static bool lost; /* a call has failed: nobody is waited for any more */

static wisp_status fail(int rc, const char *what, wisp_error *err)
{
    char said[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    lost = true;
    MPI_Error_string(rc, said, &n);
    if (!err) return WISP_EPEER;
    *err = (wisp_error){ .code = WISP_EPEER };
    snprintf(err->text, sizeof err->text, "rank %d: %s failed, another process may be lost: %.300s",
             my_rank, what, said);
    return WISP_EPEER;
}

/* Waits for what was begun with result 'rc'; awake: without sleeping. */
static wisp_status wait_for(MPI_Request *r, int rc, bool awake, const char *what, wisp_error *err)
{
    struct timespec pause = { .tv_nsec = 10 * 1000 };
    int done = 0;
    for (int i = 0; rc == MPI_SUCCESS; i++) {
        rc = MPI_Test(r, &done, MPI_STATUS_IGNORE);
        if (done) break;
        if (awake || i < TRIES) {
            sched_yield(); /* there may be more ranks than cores */
            continue;
        }
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < LONGEST_NS) pause.tv_nsec *= 2;
    }
    return rc == MPI_SUCCESS ? WISP_OK : fail(rc, what, err);
}

static wisp_status finish(MPI_Request *r, int rc, const char *what, wisp_error *err)
{
    return wait_for(r, rc, false, what, err);
}

static wisp_status meet(bool awake, wisp_error *err)
{
    MPI_Request r;
    if (lost) return fail(MPI_ERR_OTHER, "waiting", err);
    return wait_for(&r, MPI_Ibarrier(world, &r), awake, "waiting", err);
}

static wisp_status barrier(wisp_error *err)
{
    return meet(true, err);
}

static wisp_status all(double *x, size_t n, MPI_Op op, wisp_error *err)
{
    MPI_Request r;
    if (lost) return fail(MPI_ERR_OTHER, "comparing", err);
    return finish(&r, MPI_Iallreduce(MPI_IN_PLACE, x, (int)n, MPI_DOUBLE, op, world, &r),
                  "comparing", err);
}

static wisp_status all_max(double *x, size_t n, wisp_error *err)
{
    return all(x, n, MPI_MAX, err);
}

static wisp_status all_sum(double *x, size_t n, wisp_error *err)
{
    return all(x, n, MPI_SUM, err);
}

static wisp_status spread(void *p, size_t bytes, int from, wisp_error *err)
{
    MPI_Request r;
    wisp_status st = lost ? fail(MPI_ERR_OTHER, "spreading", err) : WISP_OK;
    for (size_t at = 0; st == WISP_OK && at < bytes; at += PIECE) {
        const int n = bytes - at < PIECE ? (int)(bytes - at) : PIECE;
        st = finish(&r, MPI_Ibcast((char *)p + at, n, MPI_BYTE, from, world, &r), "spreading", err);
    }
    return st;
}

/* One rank's bytes, after their number. */
static wisp_status send(const void *p, size_t bytes, wisp_error *err)
{
    MPI_Request r;
    uint64_t n = bytes;
    wisp_status st =
        finish(&r, MPI_Isend(&n, 1, MPI_UINT64_T, 0, TAG, world, &r), "gathering", err);
    for (size_t at = 0; st == WISP_OK && at < bytes; at += PIECE) {
        const int piece = bytes - at < PIECE ? (int)(bytes - at) : PIECE;
        st = finish(&r, MPI_Isend((const char *)p + at, piece, MPI_BYTE, 0, TAG, world, &r),
                    "gathering", err);
    }
    return st;
}

static wisp_status receive(char *to, size_t room, uint64_t *n, int from, wisp_error *err)
{
    MPI_Request r;
    wisp_status st =
        finish(&r, MPI_Irecv(n, 1, MPI_UINT64_T, from, TAG, world, &r), "gathering", err);
    if (st == WISP_OK && *n > room) return fail(MPI_ERR_TRUNCATE, "gathering", err);
    for (size_t at = 0; st == WISP_OK && at < *n; at += PIECE) {
        const int piece = *n - at < PIECE ? (int)(*n - at) : PIECE;
        st =
            finish(&r, MPI_Irecv(to + at, piece, MPI_BYTE, from, TAG, world, &r), "gathering", err);
    }
    return st;
}

static wisp_status gather(void *to, size_t room, const void *mine, size_t bytes, wisp_error *err)
{
    if (lost || (my_rank == 0 && bytes > room)) return fail(MPI_ERR_OTHER, "gathering", err);
    if (my_rank > 0) return send(mine, bytes, err);
    memmove(to, mine, bytes);
    wisp_status st = WISP_OK;
    size_t at = bytes;
    for (int from = 1; st == WISP_OK && from < n_ranks; from++) {
        uint64_t n = 0;
        st = receive((char *)to + at, room - at, &n, from, err);
        at += n;
    }
    return st;
}

/* Where a rank is lost MPI could wait for it for ever: the launcher ends the others. */
static void leave(void)
{
    int over = 0;
    if (lost || world == MPI_COMM_NULL || meet(false, NULL) != WISP_OK) return;
    MPI_Comm_free(&world);
    MPI_Finalized(&over);
    if (ours && !over) MPI_Finalize();
}

/* Ranks on this machine, and the cores that any of them may use: mpirun may have bound each to its
 * own. */
static int look_at_host(struct wisp_comm *c)
{
    MPI_Comm host;
    cpu_set_t set;
    int rc = MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, my_rank, MPI_INFO_NULL, &host);
    if (rc != MPI_SUCCESS) return rc;
    MPI_Comm_rank(host, &c->host_rank);
    MPI_Comm_size(host, &c->host_size);
    if (sched_getaffinity(0, sizeof set, &set) != 0) CPU_ZERO(&set);
    rc = MPI_Allreduce(MPI_IN_PLACE, &set, (int)sizeof set, MPI_BYTE, MPI_BOR, host);
    c->host_cores = CPU_COUNT(&set);
    MPI_Comm_free(&host);
    return rc;
}

static wisp_status join(struct wisp_comm *out, wisp_error *err)
{
    int before = 0, over = 0, has = 0, rc = MPI_SUCCESS;
    lost = false;
    MPI_Finalized(&over);
    if (over) return fail(MPI_ERR_OTHER, "joining a second time", err);
    MPI_Initialized(&before);
    if (!before) rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &has);
    if (!before) ours = true;
    if (rc == MPI_SUCCESS) rc = MPI_Comm_dup(MPI_COMM_WORLD, &world);
    if (rc == MPI_SUCCESS) rc = MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    if (rc == MPI_SUCCESS) rc = MPI_Comm_rank(world, &my_rank);
    if (rc == MPI_SUCCESS) rc = MPI_Comm_size(world, &n_ranks);
    if (rc == MPI_SUCCESS) rc = look_at_host(out);
    if (rc != MPI_SUCCESS) return fail(rc, "joining", err);
    out->rank = my_rank;
    out->size = n_ranks;
    out->barrier = barrier;
    out->all_max = all_max;
    out->all_sum = all_sum;
    out->spread = spread;
    out->gather = gather;
    out->leave = leave;
    return WISP_OK;
}

WISP_API const struct wisp_comm_part *wisp_comm_table(void);

const struct wisp_comm_part *wisp_comm_table(void)
{
    static const struct wisp_comm_part part = { WISP_COMM_VERSION, join };
    return &part;
}

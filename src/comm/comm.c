/* Which ranks there are, and what is made of the collectives. */
#include "comm/comm.h"
#include "base/error.h"
#include "base/part.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char FILE_NAME[] = "wisp-mpi.so";

/* Going on alone would let every process do all the work, and print. */
static wisp_status join(struct wisp_comm *out, const struct wisp_launch *how, wisp_error *err)
{
    char why[250];
    const struct wisp_comm_part *t =
        wisp_part_table(FILE_NAME, "wisp_comm_table", WISP_COMM_VERSION, true, why, sizeof why);
    if (!t)
        return wisp_fail(err, WISP_ENOTSUP,
                         "started by %s as one of %d processes, but %s: %s; it is built by 'make' "
                         "where mpicc is installed (WISP_MPI=0: each process works alone)",
                         how->by, how->size, FILE_NAME, why);
    wisp_status st = t->join(out, err);
    if (st != WISP_OK || out->size > 1) return st;
    out->leave();
    return wisp_fail(err, WISP_ENOTSUP,
                     "started by %s as one of %d processes, but the MPI of %s sees no other: start "
                     "with the mpirun of that MPI (srun: with its --mpi), or set WISP_MPI=0 and "
                     "each process works alone",
                     how->by, how->size, FILE_NAME);
}

wisp_status wisp_comm_open(struct wisp_comm *out, const struct wisp_launch *how, wisp_error *err)
{
    *out = wisp_comm_self;
    if (how->size <= 1) return WISP_OK;
    const wisp_status st = join(out, how, err);
    if (st != WISP_OK) *out = wisp_comm_self;
    return st;
}

/* ---- joins ---- */

static void join_max(void *to, const void *const *part, int n_parts, size_t n, size_t bytes)
{
    (void)bytes;
    double *x = to;
    for (size_t i = 0; i < n; i++) {
        double most = ((const double *)part[0])[i];
        for (int q = 1; q < n_parts; q++) most = fmax(most, ((const double *)part[q])[i]);
        x[i] = most;
    }
}

static void join_add(void *to, const void *const *part, int n_parts, size_t n, size_t bytes)
{
    (void)bytes;
    double *x = to;
    for (size_t i = 0; i < n; i++) {
        double sum = ((const double *)part[0])[i];
        for (int q = 1; q < n_parts; q++) sum += ((const double *)part[q])[i];
        x[i] = sum;
    }
}

static void join_floats(void *to, const void *const *part, int n_parts, size_t n, size_t bytes)
{
    (void)bytes;
    float *x = to;
    for (size_t i = 0; i < n; i++) {
        float sum = ((const float *)part[0])[i];
        for (int q = 1; q < n_parts; q++) sum += ((const float *)part[q])[i];
        x[i] = sum;
    }
}

wisp_status wisp_comm_max(const struct wisp_comm *c, double *x, size_t n, wisp_error *err)
{
    return c->all_join(x, n, sizeof *x, join_max, err);
}

wisp_status wisp_comm_add(const struct wisp_comm *c, double *x, size_t n, wisp_error *err)
{
    return c->all_join(x, n, sizeof *x, join_add, err);
}

wisp_status wisp_comm_sum(const struct wisp_comm *c, float *x, size_t n, wisp_error *err)
{
    return c->all_join(x, n, sizeof *x, join_floats, err);
}

wisp_status wisp_comm_begin_sum(const struct wisp_comm *c, float *x, size_t n, wisp_error *err)
{
    return c->join_begin(x, n, sizeof *x, join_floats, err);
}

/* ---- agreeing ---- */

/* The message of the first rank that failed; others than rank 0 say where they are. */
static void describe(wisp_error *out, const struct wisp_comm *c, wisp_status st,
                     const wisp_error *err)
{
    char host[64] = "", text[421];
    if (!err) wisp_fail(out, st, "failed");
    else wisp_fail_as(out, st, err);
    if (c->rank == 0) return;
    gethostname(host, sizeof host - 1);
    snprintf(text, sizeof text, "%.420s", out->text);
    snprintf(out->text, sizeof out->text, "rank %d (%s): %s", c->rank, host, text);
    out->file_bytes = out->place_bytes = 0; /* the text no longer begins with them */
}

wisp_status wisp_comm_agree(const struct wisp_comm *c, wisp_status st, wisp_error *err)
{
    if (c->size == 1) return st;
    wisp_error said = { 0 }, lost = { 0 };
    double first = st == WISP_OK ? 0 : c->size - c->rank; /* the largest is the first rank's */
    wisp_status got = wisp_comm_max(c, &first, 1, &lost);
    if (got == WISP_OK && first == 0) return WISP_OK;
    const int from = c->size - (int)first;
    if (got == WISP_OK && from == c->rank) describe(&said, c, st, err);
    if (got == WISP_OK) got = c->spread(&said, sizeof said, from, &lost);
    if (got != WISP_OK && st != WISP_OK) return st; /* what went wrong here says more */
    if (got != WISP_OK) said = lost;
    if (err) *err = said;
    return said.code;
}

wisp_status wisp_comm_fail_alone(const struct wisp_comm *c, wisp_status st, wisp_error *err)
{
    wisp_error said = { 0 };
    if (c->size == 1 || st == WISP_OK || st == WISP_EPEER) return st;
    describe(&said, c, st, err);
    said.code = WISP_EPEER;
    if (err) *err = said;
    c->give_up();
    return WISP_EPEER;
}

wisp_status wisp_comm_in_turn(const struct wisp_comm *c,
                              wisp_status (*fn)(void *arg, wisp_error *err), void *arg,
                              wisp_error *err)
{
    enum { TURNS = 3 };
    const int mine = c->rank == 0 ? 0 : c->host_rank == 0 ? 1 : 2;
    wisp_status st = WISP_OK;
    for (int turn = 0; st == WISP_OK && turn < TURNS; turn++) {
        if (turn == mine) st = fn(arg, err);
        st = wisp_comm_agree(c, st, err);
    }
    return st;
}

void wisp_comm_share(size_t *first, size_t *n_share, const struct wisp_comm *c, size_t n)
{
    const size_t size = (size_t)c->size, rank = (size_t)c->rank, more = n % size;
    *n_share = n / size + (rank < more);
    *first = n / size * rank + (rank < more ? rank : more);
}

int wisp_comm_threads(const struct wisp_comm *c, int cores, int quota)
{
    int all = c->host_cores ? c->host_cores : cores;
    if (all > quota) all = quota;
    const int each = all / c->host_size > 1 ? all / c->host_size : 1;
    return each < cores ? each : cores;
}

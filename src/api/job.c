/* A context that is one of several processes. */
#include "base/context.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "model/model.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* What launchers tell the processes they start: how many there are.  Slurm's variable is that of a
 * step, which srun makes: a batch script has the number of tasks, too, but is one process. */
static const struct {
    const char *size, *by;
} launchers[] = {
    { "OMPI_COMM_WORLD_SIZE", "mpirun" }, /* Open MPI */
    { "PMI_SIZE", "mpirun" },             /* MPICH, Intel MPI */
    { "MV2_COMM_WORLD_SIZE", "mpirun" },  /* MVAPICH */
    { "SLURM_STEP_NUM_TASKS", "srun" },
};

static struct wisp_launch find_launch(void)
{
    const char *mpi = getenv("WISP_MPI");
    struct wisp_launch found = { .size = 1 };
    if (mpi && strcmp(mpi, "0") == 0) return found;
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers && found.size == 1; i++) {
        const char *text = getenv(launchers[i].size);
        const long n = text ? strtol(text, NULL, 10) : 1;
        if (n > 1 && n <= INT_MAX) found = (struct wisp_launch){ launchers[i].by, (int)n };
    }
    return found;
}

/* The first thing that ranks tell each other: another version may count its collectives otherwise. */
static wisp_status same_version(const struct wisp_comm *joined, wisp_error *err)
{
    enum { ROOM = 32 };
    char all[WISP_COMM_MOST_RANKS][ROOM] = { 0 }, mine[ROOM] = { 0 };
    strncpy(mine, wisp_version(), ROOM - 1);
    wisp_status st = joined->all_gather(all, mine, sizeof mine, err);
    if (st != WISP_OK) return st;
    if (memcmp(all[0], mine, ROOM) != 0)
        st = wisp_fail(err, WISP_EPEER,
                       "it is wisp %s, and rank 0 is wisp %.31s; install the same wisp on every "
                       "machine",
                       mine, all[0]);
    return wisp_comm_agree(joined, st, err);
}

/* From here on a failure must be known to all. */
static wisp_status make(wisp_context **out, const struct wisp_comm *joined, int threads,
                        wisp_error *err)
{
    struct wisp_comm *own = wisp_alloc(1, sizeof *own);
    if (threads == 0)
        threads = wisp_comm_threads(joined, wisp_cores(), wisp_cpu_quota(WISP_CPU_MAX));
    wisp_status st = own ? WISP_OK : wisp_fail_mem(err, sizeof *own, "a context");
    if (st == WISP_OK) st = wisp_context_create(out, threads, err);
    st = wisp_comm_agree(joined, st, err);
    if (st == WISP_OK) {
        *own = *joined;
        (*out)->comm = own;
        return WISP_OK;
    }
    wisp_free(own);
    wisp_context_free(*out);
    *out = NULL;
    return st;
}

wisp_status wisp_context_join(wisp_context **out, int threads, wisp_error *err)
{
    struct wisp_comm joined;
    const struct wisp_launch how = find_launch();
    *out = NULL;
    wisp_status st = wisp_comm_open(&joined, &how, err);
    if (st != WISP_OK) return st;
    st = joined.size > 1 ? same_version(&joined, err) : WISP_OK;
    if (st == WISP_OK) st = make(out, &joined, threads, err);
    if (st != WISP_OK) joined.leave();
    return st;
}

int wisp_context_rank(const wisp_context *ctx)
{
    return ctx && ctx->comm ? ctx->comm->rank : 0;
}

int wisp_context_ranks(const wisp_context *ctx)
{
    return ctx && ctx->comm ? ctx->comm->size : 1;
}

wisp_status wisp_context_agree(wisp_context *ctx, wisp_status st, wisp_error *err)
{
    return wisp_context_ranks(ctx) > 1 ? wisp_comm_agree(ctx->comm, st, err) : st;
}

wisp_status wisp_model_share(wisp_model *m, wisp_context *ctx, wisp_error *err)
{
    if (wisp_context_ranks(ctx) == 1 || m->comm) return WISP_OK;
    return wisp_context_agree(ctx, wisp_model_deal(m, ctx->comm, err), err);
}

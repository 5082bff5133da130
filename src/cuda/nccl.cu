/* Sums over the cards of ranks by NCCL, opened at run time: wisp-cuda.so is built and runs without it.
 *
 * The few types, numbers and functions of its interface (version 2) that are used are declared here.
 * All ranks get the same bits, and the same ranks on the same cards the same ones again.
 *
 * What it has begun waits on the card, where nobody looks at the clock: so the host does, step by step,
 * and where others do not come within the patience of ranks it gives up for all.  Only for joining
 * there is no clock: a rank that is lost just then is waited for. */
#include "cuda/ranks.cuh"
#include "cuda/trainer.cuh"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <new>

enum { FLOATS = 7, DOUBLES = 8, SUM = 0 }; /* ncclDataType_t, ncclRedOp_t */
enum { IN_PROGRESS = 7 };                  /* ncclResult_t; 0: success */
enum { TRIES = 2000, PAUSE_NS = 50 * 1000 };

struct id { /* ncclUniqueId, which is passed by value */
    char bytes[WISP_CUDA_ID];
};
typedef void *comm_t;
/* clang-format off */
#define FUNCTIONS(F) \
    F(GetVersion, int, (int *)) \
    F(GetUniqueId, int, (struct id *)) \
    F(CommInitRank, int, (comm_t *, int, struct id, int)) \
    F(AllReduce, int, (const void *, void *, size_t, int, int, comm_t, cudaStream_t)) \
    F(CommGetAsyncError, int, (comm_t, int *)) \
    F(CommAbort, int, (comm_t)) \
    F(CommDestroy, int, (comm_t)) \
    F(GetErrorString, const char *, (int))
/* clang-format on */

struct library {
#define F(name, result, arguments) result(*name) arguments;
    FUNCTIONS(F)
#undef F
    bool open;
    char says[96];
};

static struct library load_library()
{
    struct library l = {};
    void *file = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    int v = 0;
    bool all = file != NULL;
#define F(name, result, arguments)                                                                 \
    l.name = file ? (result(*) arguments)dlsym(file, "nccl" #name) : NULL;                         \
    all = all && l.name;
    FUNCTIONS(F)
#undef F
    if (!file) snprintf(l.says, sizeof l.says, "no NCCL: libnccl.so.2 cannot be opened");
    else if (!all || l.GetVersion(&v))
        snprintf(l.says, sizeof l.says, "no NCCL: libnccl.so.2 lacks a function");
    else {
        /* since 2.9: 22807 is 2.28.7 */
        snprintf(l.says, sizeof l.says, "NCCL %d.%d.%d", v / 10000, v / 100 % 100, v % 100);
        l.open = true;
    }
    return l;
}
static const struct library &library_of()
{
    static const struct library l = load_library();
    return l;
}

const char *wisp_dnccl_says(bool *there)
{
    *there = library_of().open;
    return library_of().says;
}

struct wisp_dnccl {
    comm_t comm; /* NULL: given up */
    const struct wisp_cuda_ranks *how;
};

static wisp_status refused(int rc, const char *what, wisp_error *err)
{
    return wisp_dfail(err, WISP_ENOTSUP, "--exchange nccl: %s: %s; take --exchange host", what,
                      library_of().GetErrorString(rc));
}

wisp_status wisp_dnccl_id(unsigned char id[WISP_CUDA_ID], wisp_error *err)
{
    const struct library &l = library_of();
    struct id made = {};
    if (!l.open) return wisp_dfail(err, WISP_ENOTSUP, "--exchange nccl: %s", l.says);
    const int rc = l.GetUniqueId(&made);
    if (rc) return refused(rc, "making its id", err);
    memcpy(id, made.bytes, sizeof made.bytes);
    return WISP_OK;
}

wisp_status wisp_dnccl_join(struct wisp_dnccl **out, const struct wisp_cuda_ranks *how,
                            const unsigned char id[WISP_CUDA_ID], wisp_error *err)
{
    const struct library &l = library_of();
    struct id theirs;
    *out = NULL;
    if (!l.open) return wisp_dfail(err, WISP_ENOTSUP, "--exchange nccl: %s", l.says);
    struct wisp_dnccl *n = new (std::nothrow) wisp_dnccl{};
    if (!n) return wisp_dfail(err, WISP_ENOMEM, "no memory left for NCCL");
    n->how = how;
    memcpy(theirs.bytes, id, sizeof theirs.bytes);
    const int rc = l.CommInitRank(&n->comm, how->size, theirs, how->rank);
    if (rc) {
        delete n;
        return refused(rc, "joining", err);
    }
    *out = n;
    return WISP_OK;
}

static void give_up(struct wisp_dnccl *l)
{
    if (l->comm) library_of().CommAbort(l->comm);
    l->comm = NULL;
}

void wisp_dnccl_leave(struct wisp_dnccl *l)
{
    if (!l) return;
    if (l->comm) library_of().CommDestroy(l->comm);
    delete l;
}

static wisp_status lost(struct wisp_dnccl *l, const char *why, wisp_error *err)
{
    give_up(l);
    return wisp_dfail(err, WISP_EPEER, "rank %d (NCCL): %s", l->how->rank, why);
}

wisp_status wisp_dnccl_add(struct wisp_dnccl *l, void *x, size_t n, bool doubles, cudaStream_t s,
                           wisp_error *err)
{
    if (!l->comm) return wisp_dfail(err, WISP_EPEER, "NCCL: a rank was lost before");
    const int rc = library_of().AllReduce(x, x, n, doubles ? DOUBLES : FLOATS, SUM, l->comm, s);
    return rc ? lost(l, library_of().GetErrorString(rc), err) : WISP_OK;
}

static double seconds()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What it says of itself, and the clock. */
static wisp_status look(struct wisp_dnccl *l, double began, wisp_error *err)
{
    char why[160];
    int rc = 0;
    if (library_of().CommGetAsyncError(l->comm, &rc) == 0 && (rc == 0 || rc == IN_PROGRESS)) {
        if (seconds() - began < l->how->patience) return WISP_OK;
        snprintf(why, sizeof why,
                 "waited %ld s (--deadline) for other ranks: lost, stopped or cut off",
                 (long)(l->how->patience + 0.5));
    } else {
        snprintf(why, sizeof why, "failed, another process may be lost: %.100s",
                 library_of().GetErrorString(rc));
    }
    return lost(l, why, err);
}

wisp_status wisp_dnccl_wait(struct wisp_dnccl *l, cudaEvent_t done, wisp_error *err)
{
    const double began = seconds();
    for (int i = 0;; i++) {
        const cudaError_t e = cudaEventQuery(done);
        if (e != cudaErrorNotReady) return wisp_dcheck(e, "a step", err);
        if (!l->comm) return wisp_dfail(err, WISP_EPEER, "NCCL: a rank was lost before");
        const wisp_status st = look(l, began, err);
        if (st != WISP_OK) return st;
        const struct timespec pause = { 0, PAUSE_NS };
        if (i < TRIES) sched_yield();
        else nanosleep(&pause, NULL);
    }
}

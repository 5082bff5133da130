/* Ranks by MPI: wisp-mpi.so, the only file that knows MPI.  All calls are made by the thread that
 * joined.
 *
 * Everything is made of messages between two ranks, so that whoever waits knows for whom, and what
 * is joined is joined in the order of ranks, by the same code at every rank: all get the same bits.
 *
 *     all_join   rank r gets slice r of everybody's numbers, joins them, and sends the result to
 *                all: 2 (P - 1) / P of the bytes leave each rank.  What is short goes to all at
 *                once, which saves a round.
 *
 * Waiting sleeps, but for barriers: MPI's own waiting keeps a core busy, which others need while
 * one rank makes caches.  Every wait has a deadline (patience). */
#include "comm/comm.h"

#include <mpi.h>

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    TRIES = 200,              /* before the first sleep */
    LONGEST_NS = 1000 * 1000, /* of a sleep */
    PIECE = WISP_COMM_CHUNK,  /* bytes of a message: MPI counts in int */
    SHORT = 1024,             /* bytes that are sent to all at once */
    HOST = 64,                /* of a machine's name */
    NAMED = 8,                /* ranks that a message names */
    LATER = 64,               /* joins that may be under way at once */
    LATER_TAG = 16,           /* their messages: two tags each from here on */
};

/* What is under way: messages of one kind are not taken for those of another, where ranks differ in
 * what they do. */
enum doing { MEETING = 1, GATHERING_ALL, JOINING, SPREADING, GATHERING };
static const char *const doings[] = {
    "", "meeting", "gathering from all", "joining numbers", "spreading", "gathering"
};

static MPI_Comm world = MPI_COMM_NULL; /* a copy: no message of a host program is taken for ours */
static int my_rank, n_ranks;
static bool ours; /* to finalize: nobody had initialised MPI before */
static enum doing doing;
static bool lost; /* a call has failed: nobody is waited for any more */
static double patience_s = WISP_COMM_PATIENCE;
static uint64_t sent_bytes;
static char *hosts; /* (ranks, HOST) */

struct talk {
    MPI_Request *pending; /* (2 * ranks) receptions by rank, then messages by rank */
    char *room;           /* for what comes in, grows */
    size_t room_bytes;
    int tag;
};
static struct talk talks[1 + LATER]; /* the first one waits for its end, others go on beside it */
static struct talk *talk = talks;    /* that messages are begun and waited for in */

static wisp_status fail_text(wisp_error *err, const char *what, const char *why)
{
    lost = true;
    if (!err) return WISP_EPEER;
    *err = (wisp_error){ .code = WISP_EPEER };
    snprintf(err->text, sizeof err->text, "rank %d (%s): %s %.350s", my_rank,
             hosts ? hosts + (size_t)my_rank * HOST : "?", what, why);
    return WISP_EPEER;
}

static wisp_status fail(int rc, const char *what, wisp_error *err)
{
    char said[MPI_MAX_ERROR_STRING] = "", why[400];
    int n = 0;
    MPI_Error_string(rc, said, &n);
    snprintf(why, sizeof why, "failed, another process may be lost: %.300s", said);
    return fail_text(err, what, why);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- waiting ---- */

/* Nobody came in time: who is missing?  Those that owe a message, else those that take none. */
static wisp_status missing(wisp_error *err)
{
    char why[400];
    int at = snprintf(why, sizeof why, "waited %ld s (--deadline) for ", (long)(patience_s + 0.5)),
        n = 0;
    for (int side = 0; side < 2 && n == 0; side++)
        for (int q = 0; q < n_ranks; q++) {
            if (talk->pending[side * n_ranks + q] == MPI_REQUEST_NULL) continue;
            if (n < NAMED)
                at += snprintf(why + at, sizeof why - (size_t)at, "%srank %d (%.30s)",
                               n ? ", " : "", q, hosts + (size_t)q * HOST);
            n++;
        }
    if (n > NAMED) at += snprintf(why + at, sizeof why - (size_t)at, " and %d more", n - NAMED);
    if ((size_t)at < sizeof why)
        snprintf(why + at, sizeof why - (size_t)at, ": lost, stopped or cut off");
    return fail_text(err, doings[doing], why);
}

static bool nothing_left(void)
{
    for (int i = 0; i < 2 * n_ranks; i++)
        if (talk->pending[i] != MPI_REQUEST_NULL) return false;
    return true;
}

/* Rank 0 gathers, so that it may be waiting itself for the one that is missing: it is to say so first. */
static double longest(void)
{
    bool others = my_rank == 0;
    for (int q = 1; q < n_ranks; q++)
        others |=
            talk->pending[q] != MPI_REQUEST_NULL || talk->pending[n_ranks + q] != MPI_REQUEST_NULL;
    return others ? patience_s : 1.25 * patience_s + 1;
}

/* Until everything pending is done; 'rc' is what beginning it gave.  awake: without sleeping. */
static wisp_status wait_all(int rc, bool awake, wisp_error *err)
{
    struct timespec pause = { .tv_nsec = 10 * 1000 };
    double began = 0;
    int done = 0;
    for (int i = 0; rc == MPI_SUCCESS; i++) {
        rc = MPI_Testall(2 * n_ranks, talk->pending, &done, MPI_STATUSES_IGNORE);
        if (done) break;
        if (i == TRIES) began = now();
        if (i > TRIES && i % 16 == 0 && now() - began > patience_s) {
            for (int k = 0, one; k < 2 * n_ranks; k++) /* Testall leaves all of them */
                MPI_Test(&talk->pending[k], &one, MPI_STATUS_IGNORE);
            if (nothing_left()) return WISP_OK;
            if (now() - began > longest()) return missing(err);
        }
        if (awake || i < TRIES) {
            sched_yield(); /* there may be more ranks than cores */
            continue;
        }
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < LONGEST_NS) pause.tv_nsec *= 2;
    }
    return rc == MPI_SUCCESS ? WISP_OK : fail(rc, doings[doing], err);
}

/* At most one of each between two ranks is under way. */
static int begin_send(const void *p, size_t bytes, int to)
{
    sent_bytes += bytes;
    return MPI_Isend(p, (int)bytes, MPI_BYTE, to, talk->tag, world, &talk->pending[n_ranks + to]);
}

static int begin_receive(void *p, size_t bytes, int from)
{
    return MPI_Irecv(p, (int)bytes, MPI_BYTE, from, talk->tag, world, &talk->pending[from]);
}

static wisp_status ready_in(struct talk *t, int tag, enum doing what, wisp_error *err)
{
    doing = what;
    talk = t;
    t->tag = tag;
    if (lost) return fail_text(err, doings[what], "failed: a rank was lost before");
    for (int i = 0; i < 2 * n_ranks; i++) t->pending[i] = MPI_REQUEST_NULL;
    return WISP_OK;
}

static wisp_status ready(enum doing what, wisp_error *err)
{
    return ready_in(talks, (int)what, what, err);
}

static wisp_status reserve(struct talk *t, size_t bytes, wisp_error *err)
{
    if (bytes <= t->room_bytes) return WISP_OK;
    if (t->room) MPI_Free_mem(t->room);
    t->room = NULL;
    t->room_bytes = 0;
    if (MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &t->room) != MPI_SUCCESS) {
        lost = true; /* the others wait for this rank, until their deadline */
        if (err) *err = (wisp_error){ .code = WISP_ENOMEM };
        if (err)
            snprintf(err->text, sizeof err->text, "out of memory: %zu bytes for messages", bytes);
        return WISP_ENOMEM;
    }
    t->room_bytes = bytes;
    return WISP_OK;
}

/* ---- collectives ---- */

static wisp_status meet(bool awake, wisp_error *err)
{
    char none;
    int rc = MPI_SUCCESS;
    wisp_status st = ready(MEETING, err);
    for (int q = 0; st == WISP_OK && rc == MPI_SUCCESS && q < n_ranks; q++) {
        if (q == my_rank) continue;
        rc = begin_receive(&none, 0, q);
        if (rc == MPI_SUCCESS) rc = begin_send(&none, 0, q);
    }
    return st == WISP_OK ? wait_all(rc, awake, err) : st;
}

static wisp_status barrier(wisp_error *err)
{
    return meet(true, err);
}

static wisp_status gather_piece(char *to, size_t apart, const void *mine, size_t bytes,
                                wisp_error *err)
{
    int rc = MPI_SUCCESS;
    wisp_status st = ready(GATHERING_ALL, err);
    for (int q = 0; st == WISP_OK && rc == MPI_SUCCESS && q < n_ranks; q++) {
        if (q == my_rank) continue;
        rc = begin_receive(to + (size_t)q * apart, bytes, q);
        if (rc == MPI_SUCCESS) rc = begin_send(mine, bytes, q);
    }
    return st == WISP_OK ? wait_all(rc, false, err) : st;
}

static wisp_status all_gather(void *to, const void *mine, size_t bytes, wisp_error *err)
{
    char *own = (char *)to + (size_t)my_rank * bytes;
    wisp_status st = WISP_OK;
    if (mine != own) memmove(own, mine, bytes);
    for (size_t at = 0; st == WISP_OK && at < bytes; at += PIECE) {
        const size_t n = bytes - at < PIECE ? bytes - at : PIECE;
        st = gather_piece((char *)to + at, bytes, own + at, n, err);
    }
    return st;
}

/* Everybody's numbers, joined everywhere. */
static wisp_status join_short(char *x, size_t n, size_t bytes, wisp_join *join, wisp_error *err)
{
    const size_t all = n * bytes;
    const void *part[WISP_COMM_MOST_RANKS];
    wisp_status st = reserve(talks, (size_t)n_ranks * all, err);
    if (st == WISP_OK) st = all_gather(talks->room, x, all, err);
    if (st != WISP_OK) return st;
    for (int q = 0; q < n_ranks; q++) part[q] = talks->room + (size_t)q * all;
    join(x, part, n_ranks, n, bytes);
    return WISP_OK;
}

static size_t slice(size_t n, int rank)
{
    return n * (size_t)rank / (size_t)n_ranks;
}

struct joining { /* slices of everybody's numbers to their joiners, and back */
    char *x;
    size_t n, bytes;
    wisp_join *join;
    enum { GOING, COMING, JOINED } stage;
    struct talk *talk;
    int tag; /* of the slices; that of the results is the next one */
};

static wisp_status send_slices(struct joining *j, wisp_error *err)
{
    const size_t bytes = j->bytes, own = slice(j->n, my_rank + 1) - slice(j->n, my_rank);
    int rc = MPI_SUCCESS;
    wisp_status st = reserve(j->talk, (size_t)n_ranks * own * bytes, err);
    if (st == WISP_OK) st = ready_in(j->talk, j->tag, JOINING, err);
    for (int q = 0; st == WISP_OK && rc == MPI_SUCCESS && q < n_ranks; q++) {
        const size_t first = slice(j->n, q), theirs = slice(j->n, q + 1) - first;
        if (q == my_rank) continue;
        rc = begin_receive(j->talk->room + (size_t)q * own * bytes, own * bytes, q);
        if (rc == MPI_SUCCESS) rc = begin_send(j->x + first * bytes, theirs * bytes, q);
    }
    j->stage = GOING;
    return rc == MPI_SUCCESS ? st : fail(rc, doings[doing], err);
}

static wisp_status send_results(struct joining *j, wisp_error *err)
{
    const void *part[WISP_COMM_MOST_RANKS];
    const size_t bytes = j->bytes, mine = slice(j->n, my_rank),
                 own = slice(j->n, my_rank + 1) - mine;
    int rc = MPI_SUCCESS;
    for (int q = 0; q < n_ranks; q++)
        part[q] = q == my_rank ? j->x + mine * bytes : j->talk->room + (size_t)q * own * bytes;
    j->join(j->x + mine * bytes, part, n_ranks, own, bytes);
    wisp_status st = ready_in(j->talk, j->tag + 1, JOINING, err);
    for (int q = 0; st == WISP_OK && rc == MPI_SUCCESS && q < n_ranks; q++) {
        const size_t first = slice(j->n, q), theirs = slice(j->n, q + 1) - first;
        if (q == my_rank) continue;
        rc = begin_receive(j->x + first * bytes, theirs * bytes, q);
        if (rc == MPI_SUCCESS) rc = begin_send(j->x + mine * bytes, own * bytes, q);
    }
    j->stage = COMING;
    return rc == MPI_SUCCESS ? st : fail(rc, doings[doing], err);
}

/* Its messages have come and gone. */
static wisp_status next_stage(struct joining *j, wisp_error *err)
{
    if (j->stage == GOING) return send_results(j, err);
    j->stage = JOINED;
    return WISP_OK;
}

static wisp_status end_joining(struct joining *j, wisp_error *err)
{
    wisp_status st = WISP_OK;
    while (st == WISP_OK && j->stage != JOINED) {
        talk = j->talk;
        doing = JOINING;
        st = wait_all(MPI_SUCCESS, false, err);
        if (st == WISP_OK) st = next_stage(j, err);
    }
    return st;
}

static wisp_status join_slices(char *x, size_t n, size_t bytes, wisp_join *join, wisp_error *err)
{
    struct joining j = { x, n, bytes, join, GOING, talks, LATER_TAG };
    wisp_status st = send_slices(&j, err);
    return st == WISP_OK ? end_joining(&j, err) : st;
}

static wisp_status all_join(void *x, size_t n, size_t bytes, wisp_join *join, wisp_error *err)
{
    const size_t most = PIECE / bytes;
    wisp_status st = WISP_OK;
    for (size_t at = 0; st == WISP_OK && at < n; at += most) {
        const size_t m = n - at < most ? n - at : most;
        st = (m * bytes <= SHORT ? join_short : join_slices)((char *)x + at * bytes, m, bytes, join,
                                                             err);
    }
    return st;
}

static struct joining later[LATER]; /* joins under way */
static int n_later;

static wisp_status join_finish(wisp_error *err)
{
    wisp_status st = WISP_OK;
    for (int i = 0; i < n_later && st == WISP_OK; i++) st = end_joining(&later[i], err);
    n_later = 0;
    return st;
}

static wisp_status join_go_on(wisp_error *err)
{
    wisp_status st = WISP_OK;
    for (int i = 0; i < n_later && st == WISP_OK; i++) {
        struct joining *j = &later[i];
        int done = 0, rc = MPI_SUCCESS;
        if (j->stage == JOINED) continue;
        rc = MPI_Testall(2 * n_ranks, j->talk->pending, &done, MPI_STATUSES_IGNORE);
        if (rc != MPI_SUCCESS) return fail(rc, doings[JOINING], err);
        if (done) st = next_stage(j, err);
    }
    return st;
}

static wisp_status begin_piece(char *x, size_t n, size_t bytes, wisp_join *join, wisp_error *err)
{
    wisp_status st = n_later == LATER ? join_finish(err) : WISP_OK;
    struct talk *t = &talks[1 + n_later];
    const MPI_Aint room = 2 * (MPI_Aint)n_ranks * (MPI_Aint)sizeof *t->pending;
    if (st != WISP_OK) return st;
    if (!t->pending && MPI_Alloc_mem(room, MPI_INFO_NULL, &t->pending) != MPI_SUCCESS)
        return fail_text(err, doings[JOINING], "failed: there is no memory for requests");
    struct joining *j = &later[n_later];
    *j = (struct joining){ x, n, bytes, join, GOING, t, LATER_TAG + 2 * (n_later + 1) };
    n_later++;
    return send_slices(j, err);
}

static wisp_status join_begin(void *x, size_t n, size_t bytes, wisp_join *join, wisp_error *err)
{
    const size_t most = PIECE / bytes;
    wisp_status st = WISP_OK;
    for (size_t at = 0; st == WISP_OK && at < n; at += most)
        st = begin_piece((char *)x + at * bytes, n - at < most ? n - at : most, bytes, join, err);
    return st;
}

static wisp_status spread(void *p, size_t bytes, int from, wisp_error *err)
{
    wisp_status st = WISP_OK;
    for (size_t at = 0; st == WISP_OK && at < bytes; at += PIECE) {
        const size_t n = bytes - at < PIECE ? bytes - at : PIECE;
        int rc = MPI_SUCCESS;
        if ((st = ready(SPREADING, err)) != WISP_OK) break;
        if (my_rank != from) rc = begin_receive((char *)p + at, n, from);
        for (int q = 0; my_rank == from && rc == MPI_SUCCESS && q < n_ranks; q++)
            if (q != from) rc = begin_send((char *)p + at, n, q);
        st = wait_all(rc, false, err);
    }
    return st;
}

/* One message of two ranks. */
static wisp_status one(void *p, size_t bytes, int other, bool sends, wisp_error *err)
{
    wisp_status st = ready(GATHERING, err);
    if (st != WISP_OK) return st;
    return wait_all(sends ? begin_send(p, bytes, other) : begin_receive(p, bytes, other), false,
                    err);
}

/* Any number of bytes, piece by piece. */
static wisp_status pass(char *p, size_t bytes, int other, bool sends, wisp_error *err)
{
    wisp_status st = WISP_OK;
    for (size_t at = 0; st == WISP_OK && at < bytes; at += PIECE)
        st = one(p + at, bytes - at < PIECE ? bytes - at : PIECE, other, sends, err);
    return st;
}

static wisp_status gather(void *to, size_t size, const void *mine, size_t bytes, wisp_error *err)
{
    uint64_t n = bytes;
    wisp_status st = WISP_OK;
    if (my_rank > 0) {
        st = one(&n, sizeof n, 0, true, err);
        return st == WISP_OK ? pass((char *)mine, bytes, 0, true, err) : st;
    }
    if (bytes > size) return fail_text(err, "gathering", "failed: there is no room");
    memmove(to, mine, bytes);
    size_t at = bytes;
    for (int from = 1; st == WISP_OK && from < n_ranks; from++) {
        st = one(&n, sizeof n, from, false, err);
        if (st == WISP_OK && n > size - at)
            return fail_text(err, "gathering", "failed: a rank has more than there is room for");
        if (st == WISP_OK) st = pass((char *)to + at, n, from, false, err);
        at += n;
    }
    return st;
}

static void patience(double seconds)
{
    patience_s = seconds;
}

static void give_up(void)
{
    lost = true;
}

static uint64_t sent(void)
{
    return sent_bytes;
}

/* ---- joining and leaving ---- */

static void give_back(void)
{
    for (struct talk *t = talks; t <= talks + LATER; t++) {
        if (t->room) MPI_Free_mem(t->room);
        if (t->pending) MPI_Free_mem(t->pending);
        *t = (struct talk){ 0 };
    }
    if (hosts) MPI_Free_mem(hosts);
    hosts = NULL;
    n_later = 0;
}

/* Where a rank is lost MPI could wait for it for ever: the launcher ends the others. */
static void leave(void)
{
    int over = 0;
    if (lost || world == MPI_COMM_NULL || meet(false, NULL) != WISP_OK) return;
    give_back();
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

/* The names of all machines, for messages, and room for what is pending. */
static int look_around(void)
{
    char name[MPI_MAX_PROCESSOR_NAME + 1] = "";
    int n = 0;
    const MPI_Aint ranks = n_ranks;
    MPI_Get_processor_name(name, &n);
    name[HOST - 1] = 0;
    int rc = MPI_Alloc_mem(ranks * HOST, MPI_INFO_NULL, &hosts);
    if (rc == MPI_SUCCESS)
        rc = MPI_Alloc_mem(2 * ranks * (MPI_Aint)sizeof *talks->pending, MPI_INFO_NULL,
                           &talks->pending);
    if (rc != MPI_SUCCESS) return rc;
    return MPI_Allgather(name, HOST, MPI_BYTE, hosts, HOST, MPI_BYTE, world);
}

/* Open MPI sends large messages by TCP in a way ("put") that lets a link carry one direction at a
 * time: where all ranks send at once an exchange takes twice as long as by plain sending
 * (docs/scale.md).  Whoever has said how, in the environment or
 * to mpirun, is not overruled; other MPIs do not look at it. */
static int start(void)
{
    int has;
    ours = true;
    setenv("OMPI_MCA_btl_tcp_flags", "send,inplace", 0);
    return MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &has);
}

static wisp_status join(struct wisp_comm *out, wisp_error *err)
{
    int before = 0, over = 0, rc = MPI_SUCCESS;
    lost = false;
    sent_bytes = 0;
    MPI_Finalized(&over);
    if (over) return fail(MPI_ERR_OTHER, "joining a second time", err);
    MPI_Initialized(&before);
    if (!before) rc = start();
    if (rc == MPI_SUCCESS) rc = MPI_Comm_dup(MPI_COMM_WORLD, &world);
    if (rc == MPI_SUCCESS) rc = MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    if (rc == MPI_SUCCESS) rc = MPI_Comm_rank(world, &my_rank);
    if (rc == MPI_SUCCESS) rc = MPI_Comm_size(world, &n_ranks);
    if (rc == MPI_SUCCESS && n_ranks > WISP_COMM_MOST_RANKS)
        return fail_text(err, "joining", "failed: at most 1024 ranks can work together");
    if (rc == MPI_SUCCESS) rc = look_at_host(out);
    if (rc == MPI_SUCCESS) rc = look_around();
    if (rc != MPI_SUCCESS) return fail(rc, "joining", err);
    out->rank = my_rank;
    out->size = n_ranks;
    out->barrier = barrier;
    out->all_join = all_join;
    out->join_begin = join_begin;
    out->join_go_on = join_go_on;
    out->join_finish = join_finish;
    out->all_gather = all_gather;
    out->spread = spread;
    out->gather = gather;
    out->patience = patience;
    out->give_up = give_up;
    out->sent = sent;
    out->leave = leave;
    return WISP_OK;
}

WISP_API const struct wisp_comm_part *wisp_comm_table(void);

const struct wisp_comm_part *wisp_comm_table(void)
{
    static const struct wisp_comm_part part = { WISP_COMM_VERSION, join };
    return &part;
}

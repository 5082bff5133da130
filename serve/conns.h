/* The connections of a server: what each is doing and since when, so that slow ones can be ended.
 *
 *   FRESH --request line--> READING --all there--> WORKING --answer made--> SENDING --sent--> IDLE
 *                              ^---------------------------------------------- request line ----'
 *
 * FRESH, READING, SENDING and IDLE become LATE when they last too long.
 *
 * A connection moves itself; the sweep moves it to LATE by comparing and exchanging, so that one which
 * has just become whole is answered and not ended. */
#ifndef WISP_SERVE_CONNS_H
#define WISP_SERVE_CONNS_H

#include "serve/http.h"

#include <pthread.h>
#include <stdatomic.h>

enum conn_state { CONN_FRESH, CONN_READING, CONN_WORKING, CONN_SENDING, CONN_IDLE, CONN_LATE };

struct conn {
    struct http_request r;
    int fd;
    _Atomic int state;
    _Atomic int64_t since_us; /* it is in this state */
    _Atomic size_t got;       /* bytes of the body that have arrived; SENDING: of the answer */
    size_t room;              /* of r.body */
    bool too_big, later, begun;
    atomic_bool looked; /* since it is in this state: has the other side more to say? */
    atomic_bool done;   /* the answer that was to come later is there */
    void *of;           /* what the connection is to the library below, and its daemon */
    struct conn_list *list;
    struct conn *next, **back;
};

struct conn_list {
    pthread_mutex_t lock;
    struct conn *first;
    atomic_size_t n; /* accepted, listed or about to be */
    atomic_size_t n_late;
    int64_t header_us, idle_us;
    bool tls; /* no plain words may be written */
};

void conns_init(struct conn_list *l, const struct http_options *o, bool tls);
void conns_clear(struct conn_list *l);
struct conn *conns_add(struct conn_list *l, int fd); /* NULL: no memory */
void conns_remove(struct conn *c);
/* False: it was found to be late meanwhile. */
bool conn_move(struct conn *c, enum conn_state to);
/* Ends connections that are late. */
void conns_sweep(struct conn_list *l);
/* How many have a request: they are READING, WORKING or SENDING, or what came has not been read yet. */
size_t conns_busy(struct conn_list *l);

/* One more piece of the body; pieces beyond 'most' are counted and dropped.  False: no memory. */
bool conn_body(struct conn *c, const char *piece, size_t n, size_t most);

#endif

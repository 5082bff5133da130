/* The connections of a server: what each is doing and since when. */
#include "serve/conns.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

enum {
    SLOWEST = 32 /* bytes per millisecond that a large body or answer must at least move with */
};
enum { KEPT = 1 << 16 /* bytes of room that a connection keeps for its next request */ };
enum { LOOK_US = 1000000 /* after which a connection from which nothing comes is looked at */ };

/* The coarse clock ticks every few milliseconds and costs next to nothing. */
static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

void conns_init(struct conn_list *l, const struct http_options *o, bool tls)
{
    *l = (struct conn_list){ .header_us = (int64_t)(o->header_s * 1e6),
                             .idle_us = (int64_t)(o->idle_s * 1e6),
                             .tls = tls };
    pthread_mutex_init(&l->lock, NULL);
}

void conns_clear(struct conn_list *l)
{
    pthread_mutex_destroy(&l->lock);
}

struct conn *conns_add(struct conn_list *l, int fd)
{
    struct conn *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->fd = fd;
    c->list = l;
    c->since_us = now_us();
    pthread_mutex_lock(&l->lock);
    c->next = l->first;
    c->back = &l->first;
    if (c->next) c->next->back = &c->next;
    l->first = c;
    pthread_mutex_unlock(&l->lock);
    return c;
}

void conns_remove(struct conn *c)
{
    pthread_mutex_lock(&c->list->lock);
    *c->back = c->next;
    if (c->next) c->next->back = c->back;
    pthread_mutex_unlock(&c->list->lock);
    text_clear(&c->r.answer.body);
    free((char *)c->r.body);
    free(c);
}

bool conn_move(struct conn *c, enum conn_state to)
{
    int was = c->state;
    do
        if (was == CONN_LATE) return false;
    while (!atomic_compare_exchange_weak(&c->state, &was, to));
    c->since_us = now_us();
    c->looked = false;
    if (to == CONN_READING) c->got = 0;
    if (to == CONN_IDLE && c->room > KEPT) {
        free((char *)c->r.body);
        c->r.body = NULL;
        c->room = 0;
    }
    return true;
}

/* Has the other side ended its half, with nothing of it left to read?  Its end may have come together
 * with the request, and so without an event of its own.  Looked at once in a while: idle connections
 * are many. */
static bool has_ended(struct conn *c, int state, int64_t waited)
{
    char byte;
    if (state == CONN_WORKING || state == CONN_SENDING || waited < LOOK_US || c->looked)
        return false;
    c->looked = true;
    return recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static bool is_late(struct conn *c, int state, int64_t now)
{
    const int64_t waited = now - c->since_us;
    if (has_ended(c, state, waited)) return true;
    if (state == CONN_FRESH || state == CONN_READING || state == CONN_SENDING)
        return waited > c->list->header_us + (int64_t)(c->got / SLOWEST) * 1000;
    return state == CONN_IDLE && waited > c->list->idle_us;
}

/* Whoever sends a request too slowly is told, if that can be said without waiting. */
static void end_late(struct conn *c, int was)
{
    static const char body[] =
        "{\"error\":{\"status\":408,\"message\":\"the request took too long to arrive whole\"}}\n";
    char said[400];
    const int n = snprintf(said, sizeof said,
                           "HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\n"
                           "Connection: close\r\nContent-Length: %zu\r\n\r\n%s",
                           sizeof body - 1, body);
    if (was != CONN_IDLE) c->list->n_late++;
    if (was == CONN_READING && !c->list->tls)
        send(c->fd, said, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
    shutdown(c->fd, SHUT_RDWR); /* whoever reads it finds its end */
}

void conns_sweep(struct conn_list *l)
{
    const int64_t now = now_us();
    pthread_mutex_lock(&l->lock);
    for (struct conn *c = l->first; c; c = c->next) {
        int was = c->state;
        if (is_late(c, was, now) && atomic_compare_exchange_strong(&c->state, &was, CONN_LATE))
            end_late(c, was);
    }
    pthread_mutex_unlock(&l->lock);
}

/* Bytes may lie in the system while the thread that would read them waits for a core. */
static bool is_busy(const struct conn *c)
{
    const int state = c->state;
    int unread = 0;
    if (state != CONN_FRESH && state != CONN_IDLE) return state != CONN_LATE;
    return ioctl(c->fd, FIONREAD, &unread) == 0 && unread > 0;
}

size_t conns_busy(struct conn_list *l)
{
    size_t listed = 0, n = 0;
    pthread_mutex_lock(&l->lock);
    for (struct conn *c = l->first; c; c = c->next) {
        listed++;
        n += is_busy(c);
    }
    pthread_mutex_unlock(&l->lock);
    const size_t accepted =
        l->n; /* those not listed are on their way to the loop that reads them */
    return n + (accepted > listed ? accepted - listed : 0);
}

bool conn_body(struct conn *c, const char *piece, size_t n, size_t most)
{
    const size_t had = c->got;
    c->got += n;
    if (c->too_big || n > most - had) { /* had <= most as long as it is not too big */
        c->too_big = true;
        return true;
    }
    if (had + n >= c->room) {
        size_t room = c->room ? c->room : 4096;
        while (room <= had + n) room *= 2;
        char *body = realloc((char *)c->r.body, room);
        if (!body) return false;
        c->r.body = body;
        c->room = room;
    }
    char *body = (char *)c->r.body;
    memcpy(body + had, piece, n);
    body[had + n] = 0;
    c->r.bytes = had + n;
    return true;
}

/* Which connections a server that is ending must still wait for. */
#include "serve/conns.c"
#include "serve/text.c"
#include "test.h"

#include <fcntl.h>
#include <unistd.h>

struct ends {
    int client, server;
};

static struct ends open_pair(void)
{
    int fd[2] = { -1, -1 };
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0, "no pair of sockets");
    fcntl(fd[1], F_SETFL, O_NONBLOCK);
    return (struct ends){ fd[0], fd[1] };
}

static void close_pair(struct ends e)
{
    close(e.client);
    close(e.server);
}

static void say(struct ends e, const char *what)
{
    const size_t n = strlen(what);
    CHECK(write(e.client, what, n) == (ssize_t)n, "could not write");
}

int main(void)
{
    const struct http_options o = { .header_s = 10, .idle_s = 60 };
    static const char asked[] = "POST /predict HTTP/1.1\r\n";
    char bin[100];
    struct conn_list l;
    conns_init(&l, &o, false);

    TEST("a request that is read, answered or sent is waited for");
    {
        const struct ends e = open_pair();
        struct conn *c = conns_add(&l, e.server);
        l.n++;
        CHECK(conns_busy(&l) == 0, "a fresh connection with nothing to read");
        static const enum conn_state order[] = { CONN_READING, CONN_WORKING, CONN_SENDING };
        for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
            conn_move(c, order[i]);
            CHECK(conns_busy(&l) == 1, "state %d", order[i]);
        }
        conn_move(c, CONN_IDLE);
        CHECK(conns_busy(&l) == 0, "an idle connection with nothing to read");
        conns_remove(c);
        l.n--;
        close_pair(e);
    }

    TEST("so is one that nobody has read yet, on a fresh connection and on an idle one");
    {
        const struct ends e = open_pair();
        struct conn *c = conns_add(&l, e.server);
        l.n++;
        say(e, asked);
        CHECK(conns_busy(&l) == 1, "fresh, and unread");
        CHECK(read(e.server, bin, sizeof bin) > 0, "nothing was there");
        CHECK(conns_busy(&l) == 0, "fresh, and read");
        conn_move(c, CONN_IDLE);
        say(e, asked);
        CHECK(conns_busy(&l) == 1, "idle, and unread");
        c->state = CONN_LATE; /* nobody is going to read it */
        CHECK(conns_busy(&l) == 0, "late");
        conns_remove(c);
        l.n--;
        close_pair(e);
    }

    TEST("a connection whose other side has closed is not waited for");
    {
        const struct ends e = open_pair();
        struct conn *c = conns_add(&l, e.server);
        l.n++;
        close(e.client);
        CHECK(conns_busy(&l) == 0, "closed");
        conns_remove(c);
        l.n--;
        close(e.server);
    }

    TEST("a connection that was accepted and that its loop has not seen yet is waited for");
    {
        l.n++;
        CHECK(conns_busy(&l) == 1, "accepted");
        l.n--;
    }

    conns_clear(&l);
    return test_end();
}

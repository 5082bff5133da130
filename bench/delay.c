/* A link of two machines that is slower than those at hand: packets of one tun device come out of the
 * other later.  The rate is the kernel's business (tc tbf); this is for kernels without netem.
 *   delay DEVICE DEVICE      each line of stdin is the delay from then on, in microseconds */
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { ROOM = 1 << 13, MOST = 1600 }; /* packets under way, bytes of one */

struct packet {
    int64_t due;
    size_t n;
    unsigned char bytes[MOST];
};

struct way { /* one direction */
    int from, to;
    size_t first, end; /* of what is under way, modulo ROOM */
    struct packet *packets;
};

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int device(const char *name)
{
    struct ifreq r = { .ifr_flags = IFF_TUN | IFF_NO_PI };
    const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &r) < 0) perror(name), exit(1);
    return fd;
}

static void take(struct way *w, int64_t delay)
{
    while (w->end - w->first < ROOM) {
        struct packet *p = &w->packets[w->end % ROOM];
        const ssize_t n = read(w->from, p->bytes, sizeof p->bytes);
        if (n <= 0) return;
        p->n = (size_t)n;
        p->due = now() + delay;
        w->end++;
    }
}

static void give(struct way *w)
{
    for (; w->first < w->end && w->packets[w->first % ROOM].due <= now(); w->first++) {
        const struct packet *p = &w->packets[w->first % ROOM];
        if (write(w->to, p->bytes, p->n) < 0) perror("write"); /* lost, as on any link */
    }
}

/* Nanoseconds until a packet is due; -1: there is none. */
static int64_t until(const struct way *w, size_t n_ways)
{
    int64_t least = -1;
    for (size_t i = 0; i < n_ways; i++) {
        if (w[i].first == w[i].end) continue;
        int64_t left = w[i].packets[w[i].first % ROOM].due - now();
        if (left < 0) left = 0;
        if (least < 0 || left < least) least = left;
    }
    return least;
}

int main(int argc, char **argv)
{
    if (argc != 3) return fprintf(stderr, "usage: delay DEVICE DEVICE <delays\n"), 2;
    const int a = device(argv[1]), b = device(argv[2]);
    struct way ways[] = { { a, b, 0, 0, malloc(ROOM * sizeof(struct packet)) },
                          { b, a, 0, 0, malloc(ROOM * sizeof(struct packet)) } };
    int64_t delay = 0;
    char line[64];
    if (!ways[0].packets || !ways[1].packets) return perror("delay"), 1;
    prctl(PR_SET_TIMERSLACK, 1000UL); /* ns */
    sched_setscheduler(
        0, SCHED_FIFO,
        &(struct sched_param){ 1 }); /* where that is allowed: ahead of those who use it */
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct pollfd fds[] = { { a, POLLIN, 0 }, { b, POLLIN, 0 }, { STDIN_FILENO, POLLIN, 0 } };
        const int64_t left = until(ways, 2);
        const struct timespec pause = { left / 1000000000, left % 1000000000 };
        ppoll(fds, 3, left < 0 ? NULL : &pause, NULL);
        take(&ways[0], delay);
        take(&ways[1], delay);
        give(&ways[0]);
        give(&ways[1]);
        if (!fds[2].revents) continue;
        const ssize_t n = read(STDIN_FILENO, line, sizeof line - 1);
        if (n <= 0) return 0;
        line[n] = 0;
        delay = strtoll(line, NULL, 10) * 1000;
    }
}

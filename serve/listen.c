/* The socket that a server listens on. */
#include "serve/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 4096, OTHER_FILES = 64 };

static int bound(const struct addrinfo *a)
{
    const int yes = 1;
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0) return -1;
    /* A server that was killed leaves connections behind, which must not keep the next one waiting. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) return fd;
    const int why = errno;
    close(fd);
    errno = why;
    return -1;
}

wisp_status listen_open(int *fd, int *port, const char *address, int wanted, wisp_error *err)
{
    char service[16];
    struct addrinfo *found = NULL, hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    snprintf(service, sizeof service, "%d", wanted);
    const int bad = getaddrinfo(address, service, &hints, &found);
    if (bad)
        return http_refuse(err, WISP_EINVAL,
                           "--address: '%.200s' is no address of this machine: %s; expected "
                           "127.0.0.1, 0.0.0.0, ::1 or a name",
                           address, gai_strerror(bad));
    *fd = -1;
    for (const struct addrinfo *a = found; a && *fd < 0; a = a->ai_next) *fd = bound(a);
    const int why = errno;
    freeaddrinfo(found);
    if (*fd < 0)
        return http_refuse(err, WISP_EIO, "cannot listen on %.200s port %d: %s%s", address, wanted,
                           strerror(why),
                           why == EADDRINUSE ? "; take another --port, or 0 for any" : "");
    struct sockaddr_storage at;
    socklen_t n = sizeof at;
    *port = wanted;
    if (getsockname(*fd, (struct sockaddr *)&at, &n) != 0) return WISP_OK;
    if (at.ss_family == AF_INET) *port = ntohs(((struct sockaddr_in *)&at)->sin_port);
    if (at.ss_family == AF_INET6) *port = ntohs(((struct sockaddr_in6 *)&at)->sin6_port);
    return WISP_OK;
}

size_t listen_room(size_t wanted)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) return wanted;
    files.rlim_cur = files.rlim_max; /* as many as we may have, without being asked */
    setrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_NOFILE, &files);
    const size_t room =
        files.rlim_cur > 2 * OTHER_FILES ? files.rlim_cur - OTHER_FILES : OTHER_FILES;
    return wanted < room ? wanted : room;
}

/* The socket that a server listens on. */
#ifndef WISP_SERVE_LISTEN_H
#define WISP_SERVE_LISTEN_H

#include "serve/part.h"

/* *fd does not block.  *port: the one that it got. */
wisp_status listen_open(int *fd, int *port, const char *address, int wanted, wisp_error *err);
/* As many connections as the limit of open files allows, 'wanted' at most. */
size_t listen_room(size_t wanted);

#endif

/* A live page of a training run, on a port of this machine.
 *
 * The training thread tells (watch_show, a few times a second: some hundred bytes are copied under a
 * lock), the server's thread answers; training reads nothing back, so its bytes stay the same. */
#ifndef WISP_SERVE_WATCH_H
#define WISP_SERVE_WATCH_H

#include "wisp/wisp.h"

struct watch;

/* port 0: any that is free.  WISP_ENOTSUP: there is no part for HTTP. */
wisp_status watch_start(struct watch **out, int port, wisp_error *err);
int watch_port(const struct watch *w);
void watch_show(struct watch *w, const wisp_progress *p);
/* How the run ended, in a sentence.  A page that is open is given a moment to fetch it; then the
 * server is gone.  NULL is fine. */
void watch_end(struct watch *w, wisp_status st, const char *words);

#endif

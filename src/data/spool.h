/* Data that comes through a pipe, or from stdin, as a file that can be read twice and mapped: it is
 * copied to a temporary without a name, which is gone however the process ends.  A plain file as
 * stdin is read where it is. */
#ifndef WISP_DATA_SPOOL_H
#define WISP_DATA_SPOOL_H

#include "base/error.h"

#include <stdbool.h>

struct wisp_spool {
    int fd;        /* of the temporary; -1: there is none */
    char path[40]; /* that opens it, as long as the process lives */
};

/* Is this stdin ("-"), or the name of a pipe? */
bool wisp_spool_wants(const char *path);
/* What messages call it. */
const char *wisp_spool_name(const char *path);
/* Reads all of it.  folder: where the temporary goes if it can (NULL: no such wish), else into the
 * system's folders for such files.  A pipe that nobody writes to is refused after a second. */
wisp_status wisp_spool_open(struct wisp_spool *s, const char *path, const char *folder,
                            wisp_error *err);
void wisp_spool_close(struct wisp_spool *s);

#endif

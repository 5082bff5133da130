/* A tensor whose rows several ranks have: gathered piece by piece at rank 0, so that no rank ever
 * holds all of it. */
#ifndef WISP_MODEL_PARTS_H
#define WISP_MODEL_PARTS_H

#include "comm/comm.h"

struct wisp_parts {
    const struct wisp_comm *comm; /* NULL: all rows are here */
    struct wisp_share share;
    size_t total, row_bytes; /* of the rows of all ranks */
};

/* How a tensor passes: pieces of so many bytes at most, but for one row of each rank. */
size_t wisp_parts_room(const struct wisp_parts *p);
/* Hands rows in their order to 'take' at rank 0; the others send theirs ('mine', in the order of
 * their rows), and 'take' is not called.  room: 2 * wisp_parts_room bytes at rank 0, else NULL. */
wisp_status wisp_parts_pass(const struct wisp_parts *p, const void *mine, unsigned char *room,
                            void (*take)(void *arg, const void *rows, size_t bytes), void *arg,
                            wisp_error *err);
/* The other way: this rank's rows out of all of them. */
void wisp_parts_pick(const struct wisp_parts *p, void *mine, const void *all);

#endif

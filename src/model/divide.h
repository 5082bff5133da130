/* A batch that several ranks divide: each computes the gradients of its samples, their sums move the
 * weights of every rank alike (divide.c). */
#ifndef WISP_MODEL_DIVIDE_H
#define WISP_MODEL_DIVIDE_H

#include "comm/comm.h"
#include "model/net.h"

struct wisp_divided;

/* Bytes of the gradients of a net, messages not counted. */
size_t wisp_divided_bytes(const struct wisp_net *net);
wisp_status wisp_divided_make(struct wisp_divided **out, struct wisp_net *net,
                              const struct wisp_comm *ranks, wisp_error *err);
void wisp_divided_free(struct wisp_divided *d); /* NULL is fine */

/* This rank's samples of a batch of n: 'share' of them from 'before' on, which is a multiple of 4
 * (dropout draws for four places at once).  There may be none. */
void wisp_divided_share(size_t *before, size_t *share, const struct wisp_comm *ranks, size_t n);
/* The most that a rank has of a batch of n. */
size_t wisp_divided_most(const struct wisp_comm *ranks, size_t n);

/* A step: forward, loss, backward, sums of all ranks, update by s->update. */
wisp_status wisp_divided_step(struct wisp_divided *d, struct wisp_step *s, wisp_error *err);

#endif

/* Numbers of channels that are fast on this machine: how long a layer takes by the number of its
 * channels, measured once and kept in the file of conv/choose.c.
 *
 *   maps    a convolution, 3x3 of 64 channels of 16x16 pixels      blocks of 16 channels make steps:
 *   units   a matrix with 256 rows of inputs, 16 samples           17 channels take as long as 32
 *
 * Measured are 1 to 64 channels; beyond, the last 16 are repeated and the line goes on. */
#ifndef WISP_MODEL_WIDTHS_H
#define WISP_MODEL_WIDTHS_H

#include "base/context.h"
#include "graph/bonds.h"
#include "model/net.h"

enum { WISP_WIDTHS_MAPS, WISP_WIDTHS_UNITS, WISP_N_WIDTHS, WISP_WIDTHS_MOST = 64 };
enum { WISP_WIDTHS_BLOCK = 16 }; /* channels of maps that convolutions work on together */
struct wisp_widths {
    double time[WISP_N_WIDTHS][WISP_WIDTHS_MOST + 1]; /* by count; that of WISP_WIDTHS_MOST is 1 */
};

/* What the net needs of it.  False: there is no file to keep it in, and another run would go another
 * way. */
bool wisp_widths_know(struct wisp_widths *w, const struct wisp_net *net,
                      const struct wisp_context *ctx);
/* Of a card, which has convolutions in tiles and copies 16 bytes of channels at a time: by the block.
 * What units take goes by their number. */
void wisp_widths_card(struct wisp_widths *w);
double wisp_widths_time(const struct wisp_widths *w, int of, size_t n);

/* A count instead of n: up to 'most', if that is a tenth faster, or down to 'least', if a channel then
 * takes less by a twentieth. */
size_t wisp_widths_best(const struct wisp_widths *w, int of, size_t n, size_t least, size_t most);
/* Of every value whose channels a layer makes: keeps some that could go, or lets go of the weakest,
 * which have up to a hundredth of the squares of all; up to a fourth more, or an eighth and one less.
 * Returns how many bonds it changed; 'said' (room) gets a text of it. */
size_t wisp_widths_round(bool *keep, const struct wisp_bonds *bonds, const struct wisp_net *net,
                         const struct wisp_widths *w, char *said, size_t room);

#endif

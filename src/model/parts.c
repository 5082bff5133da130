/* Rows of several ranks to and from one tensor.
 *
 * Of every 'size' consecutive rows each rank has one (base/share.h), so row r of each rank lies among
 * rows r * size .. r * size + size - 1 of the tensor: a piece of it is made of the same rows of all
 * ranks. */
#include "model/parts.h"
#include "base/bounds.h"

#include <string.h>

enum { PIECE = 8 << 20 };

/* Rows of each rank in a piece. */
static size_t piece_rows(const struct wisp_parts *p)
{
    const size_t group = p->row_bytes * (size_t)p->share.size,
                 most = wisp_share_most(p->share, p->total),
                 fit = PIECE / group < most ? PIECE / group : most;
    return fit ? fit : 1;
}

size_t wisp_parts_room(const struct wisp_parts *p)
{
    return piece_rows(p) * p->row_bytes * (size_t)p->share.size;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* What came in, rank by rank, in the order of ids; returns its bytes. */
static size_t deal_back(const struct wisp_parts *p, unsigned char *out, const unsigned char *in,
                        size_t first, size_t end)
{
    const size_t base = first * (size_t)p->share.size;
    size_t n = 0;
    for (int q = 0; q < p->share.size; q++) {
        const struct wisp_share theirs = { q, p->share.size };
        const size_t last = least(end, wisp_share_rows(theirs, p->total));
        for (size_t row = first; row < last; row++, in += p->row_bytes, n++)
            memcpy(out + (wisp_share_id(theirs, row) - base) * p->row_bytes, in, p->row_bytes);
    }
    return n * p->row_bytes;
}

wisp_status wisp_parts_pass(const struct wisp_parts *p, const void *mine, unsigned char *room,
                            void (*take)(void *arg, const void *rows, size_t bytes), void *arg,
                            wisp_error *err)
{
    const size_t most = wisp_share_most(p->share, p->total), step = piece_rows(p),
                 own = wisp_share_rows(p->share, p->total), half = wisp_parts_room(p);
    wisp_status st = WISP_OK;
    for (size_t first = 0; st == WISP_OK && first < most; first += step) {
        const size_t end = least(first + step, most), last = least(end, own);
        const unsigned char *rows = (const unsigned char *)mine + first * p->row_bytes;
        st = p->comm->gather(room, half, rows, last > first ? (last - first) * p->row_bytes : 0,
                             err);
        if (st != WISP_OK || p->share.rank > 0) continue;
        take(arg, room + half, deal_back(p, room + half, room, first, end));
    }
    return st;
}

void wisp_parts_pick(const struct wisp_parts *p, void *mine, const void *all)
{
    const size_t own = wisp_share_rows(p->share, p->total);
    for (size_t row = 0; row < own; row++)
        memcpy((char *)mine + row * p->row_bytes,
               (const char *)all + wisp_share_id(p->share, row) * p->row_bytes, p->row_bytes);
}

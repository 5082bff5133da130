/* Plain, gzip or zstd bytes as one stream of unpacked bytes. */
#ifndef WISP_DATA_UNPACK_H
#define WISP_DATA_UNPACK_H

#include "base/error.h"

#include <stdbool.h>
#include <zlib.h>

enum wisp_packing { WISP_PLAIN, WISP_GZIP, WISP_ZSTD };
enum wisp_packing wisp_unpack_kind(const unsigned char *bytes, size_t n); /* by the first bytes */

struct wisp_unpack { /* all zero: nothing to clear */
    enum wisp_packing kind;
    const unsigned char *p; /* packed bytes not yet used */
    size_t left;
    bool more;         /* further bytes will follow: an end is not the end */
    bool ended;        /* everything was unpacked */
    wisp_status code;  /* not WISP_OK: unpacking failed, ... */
    const char *fault; /* ... and this is why */
    bool open, member; /* zlib stream made; inside a gzip member or zstd frame */
    z_stream z;
    struct ZSTD_DCtx_s *d;
};

/* The kind is told from the first bytes. */
wisp_status wisp_unpack_init(struct wisp_unpack *u, const unsigned char *bytes, size_t n,
                             wisp_error *err);
/* Fills up to 'room' bytes; fewer only at the end or at a fault, or where more must follow: some
 * bytes may then be left, which are to be given again with what follows them. */
size_t wisp_unpack(struct wisp_unpack *u, char *to, size_t room);
void wisp_unpack_clear(struct wisp_unpack *u);

/* For z_stream: memory from wisp_alloc. */
void *wisp_zlib_alloc(void *arg, unsigned n, unsigned size);
void wisp_zlib_free(void *arg, void *p);

#endif

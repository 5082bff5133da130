/* Reading zip archives from memory: the central directory, entries stored or deflated, sizes
 * beyond 4 GiB (zip64).  Not there: encryption, other methods, archives in several parts. */
#ifndef WISP_DATA_ZIP_H
#define WISP_DATA_ZIP_H

#include "base/error.h"

struct wisp_zip_entry {
    const char *name; /* in the map, not ended by 0 */
    size_t name_bytes;
    const unsigned char *packed;
    size_t packed_bytes, bytes;
    uint32_t crc;
    unsigned method;
};

struct wisp_zip {
    const char *path; /* for messages; borrowed */
    struct wisp_zip_entry *entries;
    size_t n;
};

/* Checks the whole directory against the bounds of p, which must outlive z. */
wisp_status wisp_zip_init(struct wisp_zip *z, const unsigned char *p, size_t bytes,
                          const char *path, wisp_error *err);
void wisp_zip_clear(struct wisp_zip *z);
/* NULL where there is none; WISP_EFORMAT where there are two, since readers would differ. */
wisp_status wisp_zip_find(const struct wisp_zip_entry **e, const struct wisp_zip *z,
                          const char *name, wisp_error *err);

/* The first bytes of an entry, up to *n of them, which becomes how many there are; no crc. */
wisp_status wisp_zip_peek(unsigned char *to, size_t *n, const struct wisp_zip *z,
                          const struct wisp_zip_entry *e, wisp_error *err);
/* The bytes of an entry, crc checked: in the map where they are stored (*owned is NULL), else
 * inflated into *owned, which the caller frees. */
wisp_status wisp_zip_read(const unsigned char **p, void **owned, const struct wisp_zip *z,
                          const struct wisp_zip_entry *e, wisp_error *err);

#endif

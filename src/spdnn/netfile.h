/* Networks and inputs in files that are mapped: layer by layer, checked, in this machine's byte
 * order.  They serve as caches of text, which is why they may name what they were made from, and
 * for nets that are larger than memory, which is why they are written and read layer by layer.
 *
 *   head (64 bytes) | parts, each a multiple of 64 bytes | index | tail (64 bytes)
 *   index: struct index | entry[n_parts] | struct wisp_file_id sources[n_sources]
 *
 *   net:     a part is a layer: struct part_head | in_start | in | out_start | out
 *                                | biases, if any | w_start, w, if any;  each from a multiple of 64
 *   inputs:  bits, or start | id | value, each in parts of 4 MiB
 *
 * Every byte is covered: the head is constant, parts have their checksum in their entry, the index
 * has its own in the tail, and the tail ends with a checksum of itself.  A checksum keeps accidents
 * away, not malice, so all that is loaded is also looked through: whatever the bytes are, they are
 * refused or make a layer that is safe to run. */
#ifndef WISP_SPDNN_NETFILE_H
#define WISP_SPDNN_NETFILE_H

#include "base/file.h"
#include "spdnn/spdnn.h"

struct wisp_sources { /* what a file is made from: such a file is a cache, of wisp's own */
    const struct wisp_file_id *ids;
    size_t n;
    const char *path; /* of one of them: whose mode the file gets (base/file.h), or NULL */
};

/* ---- nets ---- */

/* src NULL: none.  A layer that could not be loaded again (groups without outputs, numbers that are
 * not finite) is refused with WISP_EINVAL. */
wisp_status wisp_spnet_save(const struct wisp_spnet *net, const char *path,
                            const struct wisp_sources *src, wisp_error *err);
/* WISP_EFORMAT: damaged, err->text says in a few words how, without the path; WISP_ENOTSUP: made
 * from other sources than src (NULL: any will do).  The rules of the net are not known yet:
 * wisp_spnet_rules. */
wisp_status wisp_spnet_load(struct wisp_spnet **out, const char *path,
                            const struct wisp_sources *src, struct wisp_pool *pool,
                            wisp_error *err);

/* Reading one layer at a time. */
struct wisp_netfile { /* open for reading; the caller's to close */
    struct wisp_map map;
    size_t n_layers;
    float clip;
    uint64_t n_edges;
    const unsigned char *entries; /* inside the map */
};
/* Checks the index alone; statuses as wisp_spnet_load. */
wisp_status wisp_netfile_open(struct wisp_netfile *f, const char *path,
                              const struct wisp_sources *src, wisp_error *err);
void wisp_netfile_close(struct wisp_netfile *f);
/* Layer i, checked, as a view into the map: not to be cleared or changed, gone with the file.  That
 * its inputs are as many as the last one's outputs is for the caller to see. */
wisp_status wisp_netfile_layer(struct wisp_splayer *view, const struct wisp_netfile *f, size_t i,
                               wisp_error *err);

/* ---- inputs ---- */

wisp_status wisp_spinputs_save(const struct wisp_spinputs *x, const char *path,
                               const struct wisp_sources *src, wisp_error *err);
wisp_status wisp_spinputs_load(struct wisp_spinputs *out, const char *path,
                               const struct wisp_sources *src, struct wisp_pool *pool,
                               wisp_error *err);

#endif

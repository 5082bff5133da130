/* What tests of files of rows and of networks share: a folder, two contexts, random text, comparing sets. */
#ifndef WISP_TESTS_DATA_RIG_H
#define WISP_TESTS_DATA_RIG_H

#include "folder_rig.h"

#include "base/mem.h"
#include "data/cache.h"
#include "data/number.h"
#include "data/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#if defined(__has_feature) /* clang */
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static struct wisp_context one, four;
static int n_said;
static char said[1000];

static void say(void *arg, const char *line)
{
    (void)arg;
    n_said++;
    snprintf(said, sizeof said, "%s", line);
}

static inline size_t pack(int kind, char *to, size_t room, const char *text, size_t n)
{
    if (kind == 2) return ZSTD_compress(to, room, text, n, 3);
    if (kind == 0) {
        memcpy(to, text, n);
        return n;
    }
    z_stream z = { .next_in = (unsigned char *)text,
                   .avail_in = (unsigned)n,
                   .next_out = (unsigned char *)to,
                   .avail_out = (unsigned)room };
    if (deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) != Z_OK) abort();
    deflate(&z, Z_FINISH);
    deflateEnd(&z);
    return z.total_out;
}

/* Rows of every kind: empty, without labels, without features, unsorted; returns its length. */
static inline size_t make_text(char *to, size_t room, int rows, bool libsvm, uint64_t seed)
{
    uint64_t s = seed;
    size_t n = 0;
    if (!libsvm) n += (size_t)snprintf(to, room, "%d 50 20\n", rows);
    for (int r = 0; r < rows; r++) {
        unsigned labels = (unsigned)(test_rand(&s) % 4), features = (unsigned)(test_rand(&s) % 6);
        for (unsigned i = 0; i < labels; i++)
            n += (size_t)snprintf(to + n, room - n, i ? ",%d" : "%d", (int)(test_rand(&s) % 20));
        for (unsigned i = 0; i < features; i++)
            n += (size_t)snprintf(to + n, room - n, " %d:%.9g", (int)(test_rand(&s) % 49) + 1,
                                  (double)(test_randf(&s) * (i ? 1 : 1000)));
        if (libsvm && labels + features == 0) to[n++] = ' ';
        to[n++] = '\n';
    }
    return n;
}

static bool same_rows(const struct wisp_rows *a, const struct wisp_rows *b)
{
    return a->n == b->n && !memcmp(a->xp, b->xp, 4 * (a->n + 1)) &&
           !memcmp(a->yp, b->yp, 4 * (a->n + 1)) && a->pixels == b->pixels &&
           (a->pixels ? !memcmp(a->px, b->px, a->n * a->pixels)
                      : !memcmp(a->xi, b->xi, 4 * a->xp[a->n]) &&
                            !memcmp(a->xv, b->xv, 4 * a->xp[a->n])) &&
           !memcmp(a->yi, b->yi, 4 * a->yp[a->n]);
}

static inline bool same(const struct wisp_data *a, const struct wisp_data *b)
{
    if (a->n_rows != b->n_rows || a->n_features != b->n_features || a->n_labels != b->n_labels ||
        a->nnz != b->nnz || a->n_lab != b->n_lab || a->n_unlabelled != b->n_unlabelled ||
        a->max_row_nnz != b->max_row_nnz || a->counts != b->counts || a->n_blocks != b->n_blocks ||
        a->bytes != b->bytes || memcmp(&a->image, &b->image, sizeof a->image) != 0)
        return false;
    if (memcmp(a->feature_rows, b->feature_rows, 8 * a->n_features) ||
        memcmp(a->label_rows, b->label_rows, 8 * a->n_labels))
        return false;
    for (size_t i = 0; i < a->n_blocks; i++)
        if (!same_rows(&a->blocks[i], &b->blocks[i]) || a->first[i + 1] != b->first[i + 1])
            return false;
    return true;
}

static inline struct wisp_data *read_text(struct wisp_context *ctx, const char *format,
                                          const char *text, size_t n)
{
    struct wisp_read_options o = { .format = format, .index_base = -1 };
    struct wisp_data *d;
    wisp_error err = { 0 };
    wisp_status st = wisp_data_read_text(&d, ctx, text, n, "t", &o, &err);
    CHECK(st == WISP_OK, "%s", err.text);
    return d;
}

static inline struct wisp_data *read_file(const char *path, const struct wisp_read_options *o)
{
    struct wisp_data *d;
    wisp_error err = { 0 };
    n_said = 0;
    said[0] = 0;
    wisp_status st = wisp_data_read(&d, &four, path, o, &err);
    CHECK(st == WISP_OK, "%s", err.text);
    return d;
}

static inline int rig_open(void)
{
    wisp_error err;
    if (!mkdtemp(folder) || wisp_pool_create(&four.pool, 4, &err) != WISP_OK) return 0;
    one = (struct wisp_context){ 0 }; /* no pool: the calling thread alone */
    four.say = say;
    return 1;
}

static inline int rig_close(long live)
{
    TEST("nothing leaked");
    CHECK(wisp_mem_live == live, "%ld blocks", wisp_mem_live - live);
    wisp_pool_free(four.pool);
    return folder_end();
}

/* Reads the file again and again, with one more allocation that works each time, until all do. */
static inline void read_without_memory(const char *path, const struct wisp_read_options *o)
{
    for (long n = 0;; n++) {
        struct wisp_data *d;
        wisp_error err;
        const long live = wisp_mem_live;
        wisp_mem_budget = n;
        wisp_status st = wisp_data_read(&d, &one, path, o, &err);
        wisp_mem_budget = -1;
        if (st == WISP_OK) {
            wisp_data_free(d);
            return;
        }
        CHECK(st == WISP_ENOMEM && !d && wisp_mem_live == live, "after %ld: %s", n, err.text);
    }
}

#endif

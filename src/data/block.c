/* Rows in the making, and their layout as a block (drawn in data.h). */
#include "data/data.h"
#include "base/bounds.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

size_t wisp_ids_max = INT32_MAX;
size_t wisp_ids_free = (size_t)1 << 20;

/* Room for one more in an array, and for its twin of the same length (or NULL). */
static bool grow(void *array, void *twin, size_t n, size_t *cap)
{
    size_t old = *cap;
    if (twin) {
        size_t twin_cap = old; /* grown first: if the second fails, cap still holds for both */
        if (!wisp_grow(twin, n, &twin_cap, 4)) return false;
    }
    return wisp_grow(array, n, cap, 4);
}

static wisp_status no_room(wisp_error *err, size_t n)
{
    return wisp_fail_mem(err, 4 * (n + n / 2), "rows being read");
}

wisp_status wisp_builder_grow_labels(struct wisp_builder *b, wisp_error *err)
{
    return grow(&b->yi, NULL, b->n_lab, &b->cap_lab) ? WISP_OK : no_room(err, b->n_lab);
}

wisp_status wisp_builder_grow_features(struct wisp_builder *b, wisp_error *err)
{
    return grow(&b->xi, &b->xv, b->nnz, &b->cap_nnz) ? WISP_OK : no_room(err, b->nnz);
}

static inline void swap(int32_t *id, float *v, size_t a, size_t b)
{
    int32_t i = id[a];
    id[a] = id[b];
    id[b] = i;
    if (v) {
        float x = v[a];
        v[a] = v[b];
        v[b] = x;
    }
}

static void sift(int32_t *id, float *v, size_t root, size_t n)
{
    for (size_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && id[child + 1] > id[child]) child++;
        if (id[root] >= id[child]) return;
        swap(id, v, root, child);
    }
}

/* Sorts ids and their values (v may be NULL): short rows by insertion, long ones by a heap, which
 * needs no memory and has no bad case. */
static void sort(int32_t *id, float *v, size_t n)
{
    if (n <= 64) {
        for (size_t i = 1; i < n; i++)
            for (size_t j = i; j > 0 && id[j - 1] > id[j]; j--) swap(id, v, j - 1, j);
        return;
    }
    for (size_t i = n / 2; i-- > 0;) sift(id, v, i, n);
    for (size_t i = n; i-- > 1;) {
        swap(id, v, 0, i);
        sift(id, v, 0, i);
    }
}

/* Makes ids ascend without repeats; returns how many stay. */
static size_t tidy_labels(int32_t *id, size_t n)
{
    bool good = true;
    for (size_t i = 1; i < n; i++) good &= id[i - 1] < id[i];
    if (good) return n;
    sort(id, NULL, n);
    size_t kept = 1;
    for (size_t i = 1; i < n; i++)
        if (id[i] != id[kept - 1]) id[kept++] = id[i];
    return kept;
}

static size_t tidy_features(int32_t *id, float *v, size_t n, bool *finite)
{
    bool good = v[0] != 0, sorted = true;
    for (size_t i = 1; i < n; i++) {
        sorted &= id[i - 1] < id[i];
        good &= v[i] != 0;
    }
    if (good && sorted) return n;
    if (!sorted) sort(id, v, n);
    size_t kept = 0;
    for (size_t i = 0; i < n;) {
        int32_t same = id[i];
        float sum = v[i++];
        for (; i < n && id[i] == same; i++) sum += v[i];
        *finite &= isfinite(sum) != 0;
        if (sum == 0) continue;
        id[kept] = same;
        v[kept++] = sum;
    }
    return kept;
}

static size_t count_pixels(const uint8_t *px, size_t n)
{
    size_t seen = 0;
    for (size_t i = 0; i < n; i++) seen += px[i] != 0;
    return seen;
}

wisp_status wisp_builder_end_row(struct wisp_builder *b, wisp_error *err)
{
    if (b->n_rows + 2 > b->cap_rows) {
        if (!grow(&b->xp, &b->yp, b->cap_rows, &b->cap_rows)) return no_room(err, b->n_rows);
        b->xp[0] = b->yp[0] = 0;
    }
    if (b->nnz > UINT32_MAX || b->n_lab > UINT32_MAX)
        return wisp_fail(err, WISP_EFORMAT, "a row with more than %u values", UINT32_MAX);
    size_t x = b->xp[b->n_rows], y = b->yp[b->n_rows];
    bool finite = true;
    if (b->n_lab > y) b->n_lab = y + tidy_labels(b->yi + y, b->n_lab - y);
    if (b->pixels) b->nnz += count_pixels(b->px + b->n_rows * b->pixels, b->pixels);
    else if (b->nnz > x) b->nnz = x + tidy_features(b->xi + x, b->xv + x, b->nnz - x, &finite);
    if (!finite)
        return wisp_fail(err, WISP_EFORMAT, "the values of a repeated feature sum to infinity");
    b->n_rows++;
    b->xp[b->n_rows] = (uint32_t)b->nnz;
    b->yp[b->n_rows] = (uint32_t)b->n_lab;
    return WISP_OK;
}

void wisp_builder_reset(struct wisp_builder *b)
{
    b->n_rows = b->nnz = b->n_lab = 0;
}

void wisp_builder_clear(struct wisp_builder *b)
{
    wisp_free(b->xp);
    wisp_free(b->yp);
    wisp_free(b->xi);
    wisp_free(b->yi);
    wisp_free(b->xv);
    wisp_free(b->px);
    *b = (struct wisp_builder){ 0 };
}

/* ---- blocks ---- */

struct layout { /* where the sections start, and the size of all; pixels lie at xi */
    size_t xp, yp, xi, xv, yi, bytes;
};

static size_t up(size_t n)
{
    return wisp_up(n, 64);
}

static struct layout lay_out(size_t n_rows, size_t nnz, size_t n_lab, size_t pixels)
{
    struct layout l;
    l.xp = up(sizeof(struct wisp_block_head));
    l.yp = l.xp + up(4 * (n_rows + 1));
    l.xi = l.yp + up(4 * (n_rows + 1));
    l.xv = l.xi + (pixels ? up(n_rows * pixels) : up(4 * nnz));
    l.yi = l.xv + (pixels ? 0 : up(4 * nnz));
    l.bytes = l.yi + up(4 * n_lab);
    return l;
}

size_t wisp_block_bytes(size_t n_rows, size_t nnz, size_t n_lab, size_t pixels)
{
    return lay_out(n_rows, nnz, n_lab, pixels).bytes;
}

/* Copies a section and clears the padding behind it: the checksum covers both. */
static void put_bytes(unsigned char *block, size_t at, size_t next, const void *from, size_t n)
{
    if (n) memcpy(block + at, from, n);
    memset(block + at + n, 0, next - at - n);
}

static void put(unsigned char *block, size_t at, size_t next, const void *from, size_t n)
{
    put_bytes(block, at, next, from, 4 * n);
}

void wisp_block_write(unsigned char *to, const struct wisp_builder *b)
{
    struct layout l = lay_out(b->n_rows, b->nnz, b->n_lab, b->pixels);
    struct wisp_block_head head = { .magic = WISP_BLOCK_MAGIC,
                                    .n_rows = (uint32_t)b->n_rows,
                                    .nnz = (uint32_t)b->nnz,
                                    .n_lab = (uint32_t)b->n_lab,
                                    .bytes = l.bytes,
                                    .pixels = b->pixels };
    memset(to, 0, l.xp);
    memcpy(to, &head, sizeof head);
    put(to, l.xp, l.yp, b->xp, b->n_rows + 1);
    put(to, l.yp, l.xi, b->yp, b->n_rows + 1);
    if (b->pixels) put_bytes(to, l.xi, l.xv, b->px, b->n_rows * b->pixels);
    else {
        put(to, l.xi, l.xv, b->xi, b->nnz);
        put(to, l.xv, l.yi, b->xv, b->nnz);
    }
    put(to, l.yi, l.bytes, b->yi, b->n_lab);
}

size_t wisp_rows_bytes(const struct wisp_rows *r)
{
    struct layout l = lay_out(r->n, r->xp[r->n], r->yp[r->n], r->pixels);
    return l.bytes - l.xp;
}

/* ---- the bytes of rows, wherever they are ---- */

enum { PIECE = 1024 }; /* elements made narrow at a time */

/* Elements of 4 bytes: those at 'narrow', or, where that is NULL, wide ids or values made so. */
static wisp_status give(const struct wisp_rows *r, const void *narrow, bool ids, wisp_take take,
                        void *arg)
{
    const size_t nnz = r->xp[r->n];
    if (narrow) return nnz ? take(arg, narrow, 4 * nnz) : WISP_OK;
    union {
        int32_t id;
        float value;
    } piece[PIECE];
    wisp_status st = WISP_OK;
    for (size_t i = 0, n; st == WISP_OK && i < nnz; i += n) {
        for (n = 0; n < PIECE && i + n < nnz; n++) {
            if (ids) piece[n].id = wisp_row_id(r, i + n);
            else piece[n].value = wisp_row_value(r, i + n);
        }
        st = take(arg, piece, sizeof *piece * n);
    }
    return st;
}

/* The same of pixels. */
static wisp_status give_pixels(const struct wisp_rows *r, bool ids, wisp_take take, void *arg)
{
    union {
        int32_t id;
        float value;
    } piece[PIECE];
    wisp_status st = WISP_OK;
    size_t n = 0;
    for (size_t row = 0; row < r->n; row++) {
        const uint8_t *px = r->px + row * r->pixels;
        for (size_t i = 0; st == WISP_OK && i < r->pixels; i++) {
            if (px[i] == 0) continue;
            if (ids) piece[n++].id = (int32_t)i;
            else piece[n++].value = wisp_pixel_value(px[i]);
            if (n < PIECE) continue;
            st = take(arg, piece, sizeof piece);
            n = 0;
        }
    }
    return st == WISP_OK && n ? take(arg, piece, sizeof *piece * n) : st;
}

wisp_status wisp_rows_give_ids(const struct wisp_rows *r, wisp_take take, void *arg)
{
    if (r->px) return give_pixels(r, true, take, arg);
    return give(r, r->xi, true, take, arg);
}

wisp_status wisp_rows_give_values(const struct wisp_rows *r, wisp_take take, void *arg)
{
    if (r->px) return give_pixels(r, false, take, arg);
    return give(r, r->xv, false, take, arg);
}

/* What 'put' clears behind a section of n elements. */
static wisp_status give_pad(size_t n, wisp_take take, void *arg)
{
    static const unsigned char zero[64];
    return up(4 * n) > 4 * n ? take(arg, zero, up(4 * n) - 4 * n) : WISP_OK;
}

wisp_status wisp_rows_give(const struct wisp_rows *r, wisp_take take, void *arg)
{
    const size_t nnz = r->xp[r->n], n_lab = r->yp[r->n];
    wisp_status st;
    if ((st = take(arg, r->xp, 4 * (r->n + 1))) != WISP_OK ||
        (st = give_pad(r->n + 1, take, arg)) != WISP_OK ||
        (st = take(arg, r->yp, 4 * (r->n + 1))) != WISP_OK ||
        (st = give_pad(r->n + 1, take, arg)) != WISP_OK ||
        (st = wisp_rows_give_ids(r, take, arg)) != WISP_OK ||
        (st = give_pad(nnz, take, arg)) != WISP_OK ||
        (st = wisp_rows_give_values(r, take, arg)) != WISP_OK ||
        (st = give_pad(nnz, take, arg)) != WISP_OK)
        return st;
    if (n_lab && (st = take(arg, r->yi, 4 * n_lab)) != WISP_OK) return st;
    return give_pad(n_lab, take, arg);
}

struct wisp_rows wisp_block_view(const unsigned char *block)
{
    struct wisp_block_head head;
    memcpy(&head, block, sizeof head);
    struct layout l = lay_out(head.n_rows, head.nnz, head.n_lab, head.pixels);
    struct wisp_rows r = { .n = head.n_rows,
                           .xp = (const uint32_t *)(block + l.xp),
                           .yp = (const uint32_t *)(block + l.yp),
                           .yi = (const int32_t *)(block + l.yi),
                           .pixels = head.pixels };
    if (r.pixels) {
        r.px = block + l.xi;
    } else {
        r.xi = (const int32_t *)(block + l.xi);
        r.xv = (const float *)(block + l.xv);
    }
    return r;
}

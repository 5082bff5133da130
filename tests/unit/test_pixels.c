/* Rows of pixels: blocks, caches and windows keep the bytes; whoever reads lists sees the same rows
 * as of a set of lists, to the last bit. */
#include "data_rig.h"
#include "model/batch.h"
#include "model/order.h"

enum { ROWS = 700, WIDE = 60, HIGH = 50, PIXELS = WIDE * HIGH, LABELS = 5 };
static const struct wisp_image shape = { 2, HIGH / 2, WIDE };

/* Images with many zeros, the same at each call; path NULL: in memory. */
static struct wisp_data *make(const char *path)
{
    struct wisp_sink *sink;
    struct wisp_builder b = { 0 };
    struct wisp_data *d = NULL;
    wisp_error err = { 0 };
    uint64_t s = 3;
    CHECK(wisp_sink_create(&sink, path, &err) == WISP_OK, "%s", err.text);
    for (size_t row = 0; row < ROWS; row++) {
        wisp_builder_label(&b, (int32_t)(row % LABELS), &err);
        uint8_t *px = wisp_builder_image(&b, PIXELS, &err);
        for (size_t i = 0; i < PIXELS; i++) px[i] = test_rand(&s) % 3 ? (uint8_t)test_rand(&s) : 0;
        CHECK(wisp_builder_end_row(&b, &err) == WISP_OK, "%s", err.text);
        if (row % 97 && row + 1 < ROWS) continue;
        CHECK(wisp_sink_add(sink, &b, &err) == WISP_OK, "%s", err.text);
        wisp_builder_reset(&b);
    }
    wisp_builder_clear(&b);
    wisp_sink_images(sink, shape);
    wisp_sink_at_least(sink, PIXELS, LABELS);
    CHECK(wisp_sink_finish(&d, sink, &err) == WISP_OK, "%s", err.text);
    return d;
}

static wisp_status hash(void *state, const void *bytes, size_t n)
{
    uint64_t *h = state;
    for (size_t i = 0; i < n; i++) *h = (*h ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return WISP_OK;
}

/* The bytes that the blocks hand out, whatever the pieces. */
static uint64_t given(const struct wisp_data *d)
{
    uint64_t h = 1;
    for (size_t b = 0; b < d->n_blocks; b++) wisp_rows_give(&d->blocks[b], hash, &h);
    return h;
}

static void storing(void)
{
    TEST("pixels: blocks of bytes, the same from a cache, with the image's sizes");
    struct wisp_data *d = make(NULL), *c = make(in_folder("p.wispcache"));
    CHECK(d->n_blocks > 1 && d->blocks[0].px && !d->blocks[0].xi && d->blocks[0].pixels == PIXELS,
          "%zu blocks", d->n_blocks);
    CHECK(memcmp(&d->image, &shape, sizeof shape) == 0, "%u x %u x %u", d->image.channels,
          d->image.height, d->image.width);
    CHECK(d->bytes < ROWS * (PIXELS + 16) + d->n_blocks * 512, "%zu bytes", d->bytes);
    CHECK(d->nnz > d->n_rows && !d->counts && d->max_row_nnz < PIXELS, "totals");
    CHECK(c && same(d, c) && c->map.p, "of a cache");
    size_t sum = 0;
    for (size_t f = 0; f < d->n_features; f++) sum += (size_t)d->feature_rows[f];
    CHECK(sum == d->nnz, "%zu in the counts, %zu in the rows", sum, d->nnz);
    wisp_data_free(c);
    wisp_data_free(d);
}

static void lists(void)
{
    TEST("pixels: as lists they are the same rows, in bytes that are handed out and on paper");
    struct wisp_data *d = make(NULL), *l = NULL;
    wisp_error err = { 0 };
    CHECK(wisp_data_lists(&l, d, &err) == WISP_OK, "%s", err.text);
    CHECK(l && !l->blocks[0].px && l->n_blocks == d->n_blocks && l->nnz == d->nnz &&
              memcmp(l->feature_rows, d->feature_rows, PIXELS * sizeof(int64_t)) == 0,
          "lists");
    for (size_t b = 0; b < l->n_blocks; b++)
        for (size_t row = 0; row < l->blocks[b].n; row++)
            for (uint32_t e = l->blocks[b].xp[row]; e < l->blocks[b].xp[row + 1]; e++) {
                const uint8_t v = d->blocks[b].px[row * PIXELS + (size_t)l->blocks[b].xi[e]];
                CHECK(v && l->blocks[b].xv[e] == (float)v / 255, "block %zu, row %zu", b, row);
            }
    CHECK(given(d) == given(l), "bytes");
    const struct wisp_format *xc = wisp_format_find("xc");
    CHECK(xc->write(d, &one, in_folder("a.txt"), &err) == WISP_OK &&
              xc->write(l, &one, in_folder("b.txt"), &err) == WISP_OK,
          "%s", err.text);
    static char a[1 << 25], b[1 << 25];
    size_t n = slurp(in_folder("a.txt"), a, sizeof a);
    CHECK(n > 1000 && n == slurp(in_folder("b.txt"), b, sizeof b) && memcmp(a, b, n) == 0, "text");
    wisp_data_free(l);
    wisp_data_free(d);
}

static bool odd(const void *arg, size_t row)
{
    (void)arg;
    return row % 2;
}

static void picking(void)
{
    TEST("pixels: picked rows, renamed labels and windows under --memory stay pixels");
    struct wisp_data *d = make(in_folder("w.wispcache")), *p = NULL;
    wisp_error err = { 0 };
    size_t at, to;
    CHECK(wisp_data_pick(&p, d, odd, NULL, &err) == WISP_OK, "%s", err.text);
    CHECK(p && p->n_rows == ROWS / 2 && memcmp(&p->image, &shape, sizeof shape) == 0, "picked");
    for (size_t row = 0; p && row < p->n_rows; row++) {
        const struct wisp_rows *r = wisp_data_row(d, 2 * row + 1, &at),
                               *q = wisp_data_row(p, row, &to);
        CHECK(memcmp(r->px + at * PIXELS, q->px + to * PIXELS, PIXELS) == 0, "row %zu", row);
    }
    wisp_data_free(p);
    const int32_t map[LABELS] = { 4, 3, 2, 1, 0 };
    CHECK(wisp_data_renumber(&p, d, NULL, map, &err) == WISP_OK, "%s", err.text);
    CHECK(p && p->blocks[0].px && p->blocks[0].yi[0] == 4, "renamed");
    wisp_data_free(p);
    struct wisp_order o;
    const size_t memory = 3 * wisp_rows_bytes(&d->blocks[0]);
    CHECK(wisp_order_init(&o, d, 1, 1, 0, memory, &err) == WISP_OK, "%s", err.text);
    size_t rows[64], n, seen = 0;
    wisp_order_start(&o, 1);
    while ((n = wisp_order_next(&o, rows, 64)) > 0) {
        for (size_t i = 0; i < n; i++) {
            const struct wisp_rows *r = wisp_data_row(&o.d, rows[i], &at),
                                   *q = wisp_data_row(d, rows[i], &to);
            CHECK(at == to && memcmp(r->px + at * PIXELS, q->px + to * PIXELS, PIXELS) == 0,
                  "row %zu", rows[i]);
        }
        seen += n;
    }
    CHECK(seen == ROWS, "%zu rows", seen);
    wisp_order_clear(&o);
    wisp_data_free(d);
}

/* One batch of pixels and of lists. */
static void same_batch(const struct wisp_data *d, const struct wisp_data *l,
                       const struct wisp_values *v, const struct wisp_drop *drop)
{
    struct wisp_layout a, b;
    wisp_error err = { 0 };
    size_t rows[40];
    for (size_t i = 0; i < 40; i++) rows[i] = i * 17;
    CHECK(wisp_layout_init(&a, PIXELS, LABELS, true, &err) == WISP_OK &&
              wisp_layout_init(&b, PIXELS, LABELS, true, &err) == WISP_OK,
          "%s", err.text);
    a.pool = four.pool;
    CHECK(wisp_layout_fill(&a, d, rows, 40, v, drop, &err) == WISP_OK &&
              wisp_layout_fill(&b, l, rows, 40, v, drop, &err) == WISP_OK,
          "%s", err.text);
    const uint32_t n = a.batch.xp[40];
    CHECK(n > 100 && memcmp(a.batch.xp, b.batch.xp, 41 * 4) == 0 &&
              memcmp(a.batch.xi, b.batch.xi, n * 4) == 0 &&
              memcmp(a.batch.xv, b.batch.xv, n * 4) == 0 && a.batch.n_touched == b.batch.n_touched,
          "%s, dropout %g", wisp_values_name(v->mode), drop->rate);
    wisp_layout_clear(&a);
    wisp_layout_clear(&b);
}

static void batches(void)
{
    TEST("pixels: batches of rows are those of lists, in all modes, with dropout and without");
    struct wisp_data *d = make(NULL), *l = NULL;
    wisp_error err = { 0 };
    static float idf[PIXELS], mean[2][PIXELS], scale[2][PIXELS];
    CHECK(wisp_data_lists(&l, d, &err) == WISP_OK, "%s", err.text);
    wisp_values_idf(idf, d);
    CHECK(wisp_values_columns(mean[0], scale[0], d, &err) == WISP_OK &&
              wisp_values_columns(mean[1], scale[1], l, &err) == WISP_OK &&
              memcmp(mean[0], mean[1], sizeof *mean) == 0 &&
              memcmp(scale[0], scale[1], sizeof *scale) == 0,
          "means");
    for (int mode = 0; mode < WISP_N_VALUES; mode++) {
        const struct wisp_values v = {
            .mode = (enum wisp_values_mode)mode, .idf = idf, .mean = mean[0], .scale = scale[0]
        };
        same_batch(d, l, &v, &(struct wisp_drop){ 0 });
        same_batch(d, l, &v, &(struct wisp_drop){ 0.3, 7, 2 });
    }
    wisp_data_free(l);
    wisp_data_free(d);
}

static void memory(void)
{
    TEST("pixels: the n-th allocation fails");
    struct wisp_data *d = make(NULL), *l = NULL;
    for (long n = 0;; n++) {
        wisp_error err = { 0 };
        const long live = wisp_mem_live;
        wisp_mem_budget = n;
        wisp_status st = wisp_data_lists(&l, d, &err);
        wisp_mem_budget = -1;
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM && !l && wisp_mem_live == live, "after %ld: %s", n, err.text);
    }
    wisp_data_free(l);
    for (long n = 0;; n++) {
        wisp_error err = { 0 };
        const long live = wisp_mem_live;
        wisp_mem_budget = n;
        wisp_status st = wisp_data_pick(&l, d, odd, NULL, &err);
        wisp_mem_budget = -1;
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM && !l && wisp_mem_live == live, "after %ld: %s", n, err.text);
    }
    wisp_data_free(l);
    wisp_data_free(d);
}

int main(void)
{
    if (!rig_open()) return 1;
    long live = wisp_mem_live;
    storing();
    lists();
    picking();
    batches();
    memory();
    return rig_close(live);
}

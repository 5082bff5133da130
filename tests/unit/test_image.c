/* Images as planes: moves and values by their definition, pixels and lists alike, any number of
 * threads; means of channels; the layer 'image' in a run, a model and its prediction. */
#include "data_rig.h"
#include "model/batch.h"
#include "model/run.h"

enum { ROWS = 90, CHANNELS = 3, HIGH = 7, WIDE = 9, PIXELS = CHANNELS * HIGH * WIDE, LABELS = 3 };
static const struct wisp_image shape = { CHANNELS, HIGH, WIDE };
static uint8_t pixels[ROWS][PIXELS];

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
        for (size_t i = 0; i < PIXELS; i++)
            pixels[row][i] =
                test_rand(&s) % 4 ? (uint8_t)(test_rand(&s) % 180 + row % LABELS * 30 + i / 63) : 0;
        memcpy(wisp_builder_image(&b, PIXELS, &err), pixels[row], PIXELS);
        CHECK(wisp_builder_end_row(&b, &err) == WISP_OK, "%s", err.text);
    }
    CHECK(wisp_sink_add(sink, &b, &err) == WISP_OK, "%s", err.text);
    wisp_builder_clear(&b);
    wisp_sink_images(sink, shape);
    wisp_sink_at_least(sink, PIXELS, LABELS);
    CHECK(wisp_sink_finish(&d, sink, &err) == WISP_OK, "%s", err.text);
    return d;
}

static const float mean[CHANNELS] = { 0.25f, 0.5f, 0.125f }, scale[CHANNELS] = { 4, 2, 3.5f };

/* By the definition in image.h. */
static float expected(size_t row, size_t c, int y, int x, struct wisp_image_move m)
{
    const int sy = y + m.down, sx = (m.mirrored ? WIDE - 1 - x : x) + m.right;
    if (sy < 0 || sy >= HIGH || sx < 0 || sx >= WIDE) return 0;
    const uint8_t v = pixels[row][(c * HIGH + (size_t)sy) * WIDE + (size_t)sx];
    return ((float)v / 255 - mean[c]) * scale[c];
}

static void laying(void)
{
    TEST("image: every move of every image is as defined, of pixels and of lists");
    struct wisp_data *d = make(NULL), *l = NULL;
    wisp_error err = { 0 };
    const struct wisp_image_how how = { shape, mean, scale, WIDE, true };
    static float table[CHANNELS * 256], out[2][PIXELS];
    CHECK(wisp_data_lists(&l, d, &err) == WISP_OK, "%s", err.text);
    wisp_image_table(table, &how);
    for (size_t row = 0; row < ROWS; row += 13)
        for (int32_t down = -HIGH - 1; down <= HIGH + 1; down++)
            for (int32_t right = -WIDE - 1; right <= WIDE + 1; right++)
                for (int mirrored = 0; mirrored < 2; mirrored++) {
                    const struct wisp_image_move m = { down, right, mirrored };
                    wisp_image_lay(out[0], &d->blocks[0], row, &how, table, m);
                    wisp_image_lay(out[1], &l->blocks[0], row, &how, table, m);
                    bool same = memcmp(out[0], out[1], sizeof *out) == 0;
                    for (size_t i = 0; i < PIXELS; i++)
                        same &= out[0][i] == expected(row, i / (HIGH * WIDE),
                                                      (int)(i / WIDE) % HIGH, (int)(i % WIDE), m);
                    CHECK(same, "row %zu, down %d, right %d, mirrored %d", row, down, right,
                          mirrored);
                }
    wisp_data_free(l);
    wisp_data_free(d);
}

static void moving(void)
{
    TEST("image: moves are a function of seed, epoch and row; known answers");
    const struct wisp_image_how how = { shape, mean, scale, 4, true },
                                still = { shape, mean, scale, 0, false };
    static const struct {
        uint64_t seed;
        int epoch;
        size_t row;
        struct wisp_image_move m;
    } known[] = { /* by a program in Python */
                  { 1, 1, 0, { 3, 0, false } },       { 1, 1, 1, { 4, 3, true } },
                  { 1, 2, 0, { -2, -1, false } },     { 2, 1, 0, { 1, 3, true } },
                  { 7, 30, 59999, { -1, -2, true } }, { 1, 3, (size_t)1 << 33, { -4, 2, false } }
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct wisp_image_move m =
            wisp_image_move(&how, known[i].seed, known[i].epoch, known[i].row);
        CHECK(m.down == known[i].m.down && m.right == known[i].m.right &&
                  m.mirrored == known[i].m.mirrored,
              "{ %d, %d, %d }", m.down, m.right, m.mirrored);
    }
    size_t seen[9][9] = { { 0 } }, mirrored = 0, again = 0;
    enum { N = 20000 };
    for (size_t row = 0; row < N; row++) {
        struct wisp_image_move m = wisp_image_move(&how, 5, 3, row),
                               next = wisp_image_move(&how, 5, 4, row);
        CHECK(abs(m.down) <= 4 && abs(m.right) <= 4, "beyond its pad");
        seen[m.down + 4][m.right + 4]++;
        mirrored += m.mirrored;
        again += m.down == next.down && m.right == next.right && m.mirrored == next.mirrored;
        m = wisp_image_move(&still, 5, 3, row);
        CHECK(m.down == 0 && m.right == 0 && !m.mirrored, "moves without being asked to");
        m = wisp_image_move(&how, 5, 0, row);
        CHECK(m.down == 0 && m.right == 0 && !m.mirrored, "moves outside of training");
    }
    for (int i = 0; i < 81; i++) /* 247 each, deviation 16 */
        CHECK(seen[i / 9][i % 9] > 160 && seen[i / 9][i % 9] < 340, "%zu of move %d",
              seen[i / 9][i % 9], i);
    CHECK(mirrored > N * 0.48 && mirrored < N * 0.52, "%zu mirrored", mirrored);
    CHECK(again < N / 81, "%zu as in the epoch before", again); /* one in 162 is */
}

static void means(void)
{
    TEST("image: means and deviations of channels, of pixels and of lists");
    struct wisp_data *d = make(in_folder("i.wispcache")), *l = NULL;
    wisp_error err = { 0 };
    float m[2][CHANNELS], s[2][CHANNELS];
    CHECK(wisp_data_lists(&l, d, &err) == WISP_OK &&
              wisp_image_means(m[0], s[0], d, &err) == WISP_OK &&
              wisp_image_means(m[1], s[1], l, &err) == WISP_OK,
          "%s", err.text);
    for (size_t c = 0; c < CHANNELS; c++) {
        double sum = 0, square = 0;
        const size_t plane = HIGH * WIDE, n = ROWS * plane;
        for (size_t i = 0; i < n; i++) sum += pixels[i / plane][c * plane + i % plane] / 255.0;
        for (size_t i = 0; i < n; i++) {
            const double x = pixels[i / plane][c * plane + i % plane] / 255.0 - sum / (double)n;
            square += x * x;
        }
        const double deviation = sqrt(square / (double)n);
        for (int k = 0; k < 2; k++)
            CHECK(fabs(m[k][c] - sum / (double)n) < 1e-6 && fabs(s[k][c] * deviation - 1) < 1e-5,
                  "channel %zu: %g and %g, expected %g and %g", c, m[k][c], s[k][c],
                  sum / (double)n, 1 / deviation);
    }
    wisp_data_free(l);
    wisp_data_free(d);
    struct wisp_sink *sink;
    struct wisp_builder b = { 0 };
    CHECK(wisp_sink_create(&sink, NULL, &err) == WISP_OK, "%s", err.text);
    for (int i = 0; i < 5; i++) {
        memset(wisp_builder_image(&b, 12, &err), 77, 12);
        wisp_builder_end_row(&b, &err);
    }
    wisp_sink_add(sink, &b, &err);
    wisp_builder_clear(&b);
    wisp_sink_images(sink, (struct wisp_image){ 3, 2, 2 });
    CHECK(wisp_sink_finish(&d, sink, &err) == WISP_OK &&
              wisp_image_means(m[0], s[0], d, &err) == WISP_OK && s[0][0] == 1 &&
              fabs(m[0][0] - 77 / 255.0) < 1e-7,
          "a channel of one value: %g, %g", m[0][0], s[0][0]);
    wisp_data_free(d);
}

static void batches(void)
{
    TEST("image: batches by 1 and 4 threads, ahead of a step or not; without lists; as bytes");
    struct wisp_data *d = make(NULL);
    wisp_error err = { 0 };
    const struct wisp_layer_sizes sizes = {
        .batch = ROWS, .active = LABELS, .training = true, .image = wisp_image_shape(shape)
    };
    struct wisp_net net;
    struct wisp_layout a, b;
    size_t rows[ROWS];
    for (size_t i = 0; i < ROWS; i++) rows[i] = ROWS - 1 - i;
    CHECK(wisp_net_plan(&net, "image pad=2 flip=yes, flatten, dense 4, relu", PIXELS, LABELS,
                        &sizes, &err) == WISP_OK &&
              wisp_net_alloc_params(&net, &err) == WISP_OK &&
              wisp_layout_init(&a, PIXELS, LABELS, true, &err) == WISP_OK &&
              wisp_layout_init(&b, PIXELS, LABELS, true, &err) == WISP_OK,
          "%s", err.text);
    wisp_net_init(&net, 1, NULL);
    memcpy(net.layers[0].params[0].w, mean, sizeof mean);
    memcpy(net.layers[0].params[1].w, scale, sizeof scale);
    CHECK(wisp_layout_for(&a, &net, false, &err) == WISP_OK &&
              wisp_layout_for(&b, &net, true, &err) == WISP_OK,
          "%s", err.text);
    a.pool = four.pool;
    a.seed = b.seed = 11;
    a.epoch = b.epoch = 2;
    const struct wisp_values raw = { .mode = WISP_VALUES_RAW };
    const struct wisp_drop none = { 0 };
    wisp_layout_start(&a, d, rows, ROWS, &raw, &none);
    CHECK(wisp_layout_finish(&a, &err) == WISP_OK &&
              wisp_layout_fill(&b, d, rows, ROWS, &raw, &none, &err) == WISP_OK,
          "%s", err.text);
    CHECK(a.batch.xp[ROWS] == 0 && b.batch.xp[ROWS] == d->nnz, "lists: %u and %u", a.batch.xp[ROWS],
          b.batch.xp[ROWS]);
    CHECK(memcmp(a.batch.planes, b.batch.planes, ROWS * PIXELS * sizeof(float)) == 0, "planes");
    const struct wisp_image_how how = { shape, mean, scale, 2, true };
    for (size_t i = 0; i < ROWS * (size_t)PIXELS; i++) {
        const size_t row = rows[i / PIXELS], at = i % PIXELS;
        const float want = expected(row, at / (HIGH * WIDE), (int)(at / WIDE) % HIGH,
                                    (int)(at % WIDE), wisp_image_move(&how, 11, 2, row));
        CHECK(a.batch.planes[i] == want, "row %zu, place %zu", row, at);
    }
    b.as_bytes = true;
    b.epoch = 0;
    CHECK(wisp_layout_fill(&b, d, rows, ROWS, &raw, &none, &err) == WISP_OK && b.batch.px, "%s",
          err.text);
    for (size_t i = 0; i < ROWS && b.batch.px; i++) {
        size_t at;
        const struct wisp_rows *r = wisp_data_row(d, rows[i], &at);
        CHECK(memcmp(b.batch.px[i], r->px + at * PIXELS, PIXELS) == 0, "bytes of row %zu", rows[i]);
    }
    struct wisp_data *lists;
    CHECK(wisp_data_lists(&lists, d, &err) == WISP_OK &&
              wisp_layout_fill(&b, lists, rows, ROWS, &raw, &none, &err) == WISP_OK && !b.batch.px,
          "lists as bytes");
    for (size_t i = 0; i < ROWS * (size_t)PIXELS; i++) {
        const size_t row = rows[i / PIXELS], at = i % PIXELS;
        const float want = expected(row, at / (HIGH * WIDE), (int)(at / WIDE) % HIGH,
                                    (int)(at % WIDE), (struct wisp_image_move){ 0 });
        CHECK(fabsf(b.batch.planes[i] - want) <= 1e-6f * (1 + fabsf(want)), "row %zu, place %zu",
              row, at);
    }
    wisp_data_free(lists);
    d->image.height = 1;
    CHECK(wisp_layout_fill(&a, d, rows, 1, &raw, &none, &err) == WISP_EFORMAT &&
              strstr(err.text, "images of 3 x 1 x 9 (channels x height x width); the net reads "
                               "images of 3 x 7 x 9"),
          "%s", err.text);
    d->image.channels = 0;
    CHECK(wisp_layout_fill(&a, d, rows, 1, &raw, &none, &err) == WISP_EFORMAT &&
              strstr(err.text, "rows that are no images"),
          "%s", err.text);
    wisp_layout_clear(&a);
    wisp_layout_clear(&b);
    wisp_net_clear(&net);
    wisp_data_free(d);
}

static void texts(void)
{
    static const char *const bad[] = { "",
                                       "3",
                                       "3 x 32",
                                       "3 x 32 x",
                                       "3x32x32",
                                       " 3 x 32 x 32",
                                       "3 x 32 x 32 ",
                                       "3 x -2 x 4",
                                       "03 x 2 x 4",
                                       "4294967297 x 1 x 1" };
    TEST("image: sizes as text and back");
    struct wisp_image i;
    char text[WISP_IMAGE_TEXT];
    CHECK(wisp_image_read(&i, wisp_image_text(text, shape)) && wisp_same_image(i, shape), "%s",
          text);
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        CHECK(!wisp_image_read(&i, bad[k]), "'%s' is taken", bad[k]);
}

static void refused(void)
{
    static const struct {
        const char *net, *words;
        bool image;
    } cases[] = {
        { "image, flatten, dense 4", "the data are rows of 189 features without", false },
        { "image pad=7, flatten, dense 4", "pad=7 moves images of 7 x 9 pixels out of sight",
          true },
        { "image, flatten as x, from rows, image, flatten, concat x", "a net has one 'image'",
          true },
    };
    TEST("image: nets that are refused");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct wisp_layer_sizes sizes = {
            .batch = 4,
            .active = LABELS,
            .image = wisp_image_shape(cases[i].image ? shape : (struct wisp_image){ 0 })
        };
        struct wisp_net net;
        wisp_error err = { 0 };
        CHECK(wisp_net_plan(&net, cases[i].net, PIXELS, LABELS, &sizes, &err) == WISP_EINVAL &&
                  strstr(err.text, cases[i].words),
              "'%s'", err.text);
    }
}

static wisp_status train(const char *path, const struct wisp_data *d, const struct wisp_data *valid,
                         struct wisp_context *ctx, const char *option, const char *value,
                         wisp_error *err)
{
    wisp_config *c;
    struct wisp_report *report = NULL;
    wisp_status st = wisp_config_create(&c, err);
    if (st == WISP_OK) st = wisp_config_set(c, "epochs", "3", err);
    if (st == WISP_OK) st = wisp_config_set(c, "optimizer", "adam", err); /* quick on few rows */
    if (st == WISP_OK)
        st = wisp_config_set(c, "net", "image pad=1 flip=yes, flatten, dense 8, relu", err);
    if (st == WISP_OK && option) st = wisp_config_set(c, option, value, err);
    if (st == WISP_OK) st = wisp_train_run(&report, ctx, c, d, valid, path, NULL, NULL, err);
    wisp_report_free(report);
    wisp_config_free(c);
    return st;
}

static void runs(void)
{
    TEST("image: a run gives the same bytes for any number of threads; the model keeps the means");
    struct wisp_data *d = make(NULL);
    wisp_error err = { 0 };
    static char a[1 << 20], b[1 << 20];
    CHECK(train(in_folder("a"), d, NULL, &one, NULL, NULL, &err) == WISP_OK, "%s", err.text);
    CHECK(train(in_folder("b"), d, NULL, &four, NULL, NULL, &err) == WISP_OK, "%s", err.text);
    const size_t n = slurp(in_folder("a"), a, sizeof a);
    CHECK(n > 1000 && n == slurp(in_folder("b"), b, sizeof b) && memcmp(a, b, n) == 0, "bytes");
    struct wisp_model *m = NULL;
    CHECK(wisp_model_open(&m, NULL, in_folder("a"), &err) == WISP_OK, "%s", err.text);
    if (m) {
        float want[2][CHANNELS];
        CHECK(wisp_image_means(want[0], want[1], d, &err) == WISP_OK, "%s", err.text);
        const struct wisp_param *p = m->net.layers[0].params;
        CHECK(wisp_same_image(wisp_net_images(&m->net), shape), "images of a model");
        CHECK(memcmp(p[0].w, want[0], sizeof *want) == 0 &&
                  memcmp(p[1].w, want[1], sizeof *want) == 0,
              "means of a model");
        struct wisp_scorer s;
        CHECK(wisp_scorer_init(&s, m, &four, WISP_ZEROS_OFF, 1, &err) == WISP_OK, "%s", err.text);
        size_t hits = 0, rows[ROWS];
        for (size_t i = 0; i < ROWS; i++) rows[i] = i;
        CHECK(wisp_scorer_run(&s, d, rows, ROWS, &err) == WISP_OK, "%s", err.text);
        for (size_t i = 0; i < ROWS; i++) hits += s.labels[i] == (int32_t)(i % LABELS);
        CHECK(hits > 2 * ROWS / 3, "%zu of %d right", hits, ROWS);
        wisp_scorer_clear(&s);
    }
    wisp_model_free(m);
    m = NULL;
    TEST("image: a run that goes on from a model keeps its means");
    struct wisp_data *bright = make(NULL);
    uint8_t *px = (uint8_t *)bright->heap[0] + (bright->blocks[0].px - (uint8_t *)bright->heap[0]);
    for (size_t i = 0; i < ROWS * (size_t)PIXELS; i++)
        if (px[i]) px[i] = (uint8_t)(200 + px[i] / 8);
    CHECK(train(in_folder("c"), bright, NULL, &four, "init", in_folder("a"), &err) == WISP_OK &&
              wisp_model_open(&m, NULL, in_folder("c"), &err) == WISP_OK,
          "%s", err.text);
    float old[2][CHANNELS];
    CHECK(wisp_image_means(old[0], old[1], d, &err) == WISP_OK, "%s", err.text);
    if (m)
        CHECK(memcmp(m->net.layers[0].params[0].w, old[0], sizeof *old) == 0 &&
                  memcmp(m->net.layers[0].params[1].w, old[1], sizeof *old) == 0,
              "other means");
    wisp_model_free(m);
    wisp_data_free(bright);
    TEST("image: options and sets that do not go with images");
    struct wisp_data *other = make(NULL);
    other->image = (struct wisp_image){ CHANNELS, WIDE, HIGH };
    CHECK(train(NULL, d, other, &one, NULL, NULL, &err) == WISP_EINVAL &&
              strstr(err.text, "--valid: images of 3 x 9 x 7"),
          "%s", err.text);
    CHECK(train(NULL, d, NULL, &one, "values", "unit", &err) == WISP_EINVAL &&
              strstr(err.text, "--values unit is for rows"),
          "%s", err.text);
    CHECK(train(NULL, d, NULL, &one, "input-dropout", "0.5", &err) == WISP_EINVAL &&
              strstr(err.text, "--input-dropout 0.5"),
          "%s", err.text);
    wisp_data_free(other);
    wisp_data_free(d);
}

int main(void)
{
    if (!rig_open()) return 1;
    long live = wisp_mem_live;
    static struct wisp_kernels k;
    wisp_error err;
    CHECK(wisp_kernels_select(&k, NULL, &err) == WISP_OK, "%s", err.text);
    one.k = four.k = &k;
    laying();
    moving();
    means();
    batches();
    texts();
    refused();
    runs();
    return rig_close(live);
}

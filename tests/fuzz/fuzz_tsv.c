/* Fuzzing the files of the Graph Challenge: layers, images, lists of categories.
 *
 * Images are read twice, in chunks of the usual size by one thread and of a few bytes by three:
 * both must end alike.  The own driver also compares random texts with what they say. */
#define FUZZ_NAME   "fuzz_tsv"
#define FUZZ_ERRORS WISP_EFORMAT
#define FUZZ_WORDS                                                                                 \
    "\t1\n", "70\t70\t1\n", "\r\n", "6.250000e-02", "1e400", "nan", "-0", "4294967297", "71", "0", \
        "1.00000005960464477539", "33554433.000000000000000000001", "1e-46", ".5", "\t"
#define FUZZ_MUTANTS 16000
#include "fuzz/nets.h"

#include "spdnn/mtx.h"
#include "spdnn/netfile.h"

enum { LAYER, IMAGES, TRUTH, N_KINDS, CACHED = 4 }; /* how */
enum { WIDTH = 70 };
static const char *const files[] = { "neuron70/n70-l1.tsv", "sparse-images-70.tsv",
                                     "neuron70-l1-categories.tsv" };
static const char *const caches[] = { "neuron70-l1.wispcache", "sparse-images-70.tsv.wispcache" };

static wisp_status try_layer(wisp_error *err)
{
    struct wisp_spnet *net;
    wisp_status st = wisp_challenge_net(&net, fuzz_folder, WIDTH, 1, &fuzz_one_thread, err);
    if (!net != (st != WISP_OK)) fuzz_die("an error, and a net", err);
    if (net) use_net(net);
    wisp_spnet_free(net);
    return st;
}

static wisp_status try_images(wisp_error *err)
{
    struct wisp_spinputs x[2];
    wisp_status st[2];
    wisp_error first = *err;
    const size_t usual = wisp_tsv_chunk;
    st[0] = wisp_challenge_inputs(&x[0], fuzz_folder, WIDTH, &fuzz_one_thread, &first);
    wisp_tsv_chunk = 7;
    st[1] = wisp_challenge_inputs(&x[1], fuzz_folder, WIDTH, &fuzz_three_threads, err);
    wisp_tsv_chunk = usual;
    if (!fuzz_starved && (st[0] != st[1] || strcmp(first.text, err->text) != 0))
        fuzz_die("chunks change the outcome", err);
    *err = first;
    if (st[0] == WISP_OK && st[1] == WISP_OK && !same_inputs(&x[0], &x[1]))
        fuzz_die("chunks change the inputs", err);
    for (int i = 0; i < 2; i++) {
        if (st[i] == WISP_OK) use_inputs(&x[i]);
        else if (x[i].bits || x[i].start) fuzz_die("an error, and inputs", err);
        wisp_spinputs_clear(&x[i]);
    }
    return st[0];
}

static wisp_status try_truth(wisp_error *err)
{
    uint32_t *rows;
    size_t n;
    wisp_status st = wisp_challenge_truth(&rows, &n, fuzz_folder, WIDTH, 1, err);
    if (!rows != (st != WISP_OK)) fuzz_die("an error, and rows", err);
    for (size_t i = 1; i < n; i++)
        if (rows[i] <= rows[i - 1]) fuzz_die("rows do not ascend", err);
    wisp_free(rows);
    return st;
}

/* A folder where a cache should lie keeps it away; else there is none to begin with. */
static void prepare(unsigned how)
{
    mkdir(fuzz_path("neuron70"), 0777);
    for (int i = 0; i < 2; i++) {
        if (how & CACHED) rmdir(fuzz_path(caches[i]));
        unlink(fuzz_path(caches[i]));
        if (!(how & CACHED)) mkdir(fuzz_path(caches[i]), 0777);
    }
    if (!fuzz_measuring) wisp_tsv_id_max = 1 << 12; /* arrays are as long as ids say */
}

static wisp_status read_as(unsigned kind, wisp_error *err)
{
    return kind == LAYER ? try_layer(err) : kind == IMAGES ? try_images(err) : try_truth(err);
}

static wisp_status fuzz_read(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    const unsigned kind = how % 4 % N_KINDS;
    prepare(how);
    fuzz_save(files[kind], p, n);
    wisp_status st = read_as(kind, err);
    if (st == WISP_OK && how & CACHED) { /* again, now from the cache */
        wisp_error why = { 0 };
        wisp_status again = read_as(kind, &why);
        if (again != st && !fuzz_starved) fuzz_die("another end the second time", &why);
        if (again != st) *err = why;
        st = again;
    }
    return st;
}

static const struct {
    unsigned how;
    const char *text;
} seeds[] = {
    { LAYER, "1\t1\t6.250000e-02\n3\t1\t6.250000e-02\n70\t2\t0.0625\n1\t2\t.5\r\n2 70 -1e3" },
    { LAYER | CACHED, "1\t1\t.5\n3\t1\t.5\n1\t2\t.5\n" },
    { LAYER, "3\t1\t.5\n1\t1\t.5\n1\t2\t1\n" },
    { LAYER, "1\t1\t.5\n2\t1\t.5\n1\t1\t.5\n" },       /* twice */
    { LAYER, "1\t1\t.0625\n2\t1\t.0625\n1\t2\t.062" }, /* cut */
    { LAYER, "" },
    { LAYER, "1\t71\t1\n" },
    { LAYER, "0\t1\t1\n" },
    { LAYER, "1\t1\n" },
    { LAYER, "1\t1\t1\t1\n" },
    { LAYER, "1\t1\t1e400\n" },
    { LAYER, "1\t1\t1e\n" },
    { LAYER, "1\t1\t.\n" },
    { LAYER, "x\n" },
    { LAYER, "1\t1\t1.00000005960464477539\n2\t2\t123456789012345678901234567890\n" },
    { IMAGES, "3\t70\t1\n1\t1\t1\n3\t1\t1\n2\t64\t1\n" },
    { IMAGES | CACHED, "3\t70\t1\n1\t1\t1\n3\t1\t1\n2\t64\t1\n" },
    { IMAGES, "3\t70\t1\r\n1\t1\t1\r\n3\t1\t2.5\r\n2\t64\t-1\r\n3 2 1e-3" },
    { IMAGES | CACHED, "3\t70\t1\n3\t1\t2.5\n" },
    { IMAGES, "1\t1\t1\n2\t1\t1\n1\t1\t1\n" }, /* a pixel again */
    { IMAGES, "1\t1\t2\n2\t1\t1\n1\t1\t2\n" },
    { IMAGES, "" },
    { IMAGES, "9999\t1\t1\n" },
    { TRUTH, "1\n7\n12\n4000\n" },
    { TRUTH, "7\n7\n" },
    { TRUTH, "7\n8" },
    { TRUTH, "" },
    { TRUTH, "1 2\n" },
};

static size_t fuzz_seed(uint8_t *to, size_t i)
{
    const size_t n = sizeof seeds / sizeof *seeds;
    if (i == n) { /* more ones than are set at once */
        static char text[4000];
        size_t at = 0;
        for (int k = 0; k < 300; k++)
            at +=
                (size_t)snprintf(text + at, sizeof text - at, "%d\t%d\t1\n", 1 + k % 9, 1 + k / 9);
        return fuzz_put(to, IMAGES, text, at);
    }
    return i < n ? fuzz_put(to, seeds[i].how, seeds[i].text, strlen(seeds[i].text)) : 0;
}

#ifndef WISP_LIBFUZZER
static wisp_error err;

static void numbers(void)
{
    TEST("numbers: the nearest float, as strtof");
    uint64_t s = 9;
    static const char *const odd[] = { "0",
                                       "-0",
                                       "1",
                                       "6.250000e-02",
                                       "16777217",
                                       "16777219",
                                       "1.00000005960464477539",
                                       "3.4028235e38",
                                       "1.1754944e-38",
                                       "1e-45",
                                       "7e-46",
                                       "1e-400",
                                       "0.000000000000000000000001",
                                       "123456789012345678901234567890",
                                       "9007199791611905",
                                       "33554433.000000000000000000001",
                                       "5e-324",
                                       "3.84779541491298e-05",
                                       "3.847795414912980e-05",
                                       "3.124330234527588e+01",
                                       "5.903881601989269e-02" };
    for (int i = 0; i < 200000; i++) {
        char text[64];
        if (i < (int)(sizeof odd / sizeof *odd)) snprintf(text, sizeof text, "%s", odd[i]);
        else {
            uint32_t bits = (uint32_t)test_rand(&s);
            float v;
            memcpy(&v, &bits, 4);
            if (!isfinite(v)) continue;
            snprintf(text, sizeof text, "%.*g", 1 + (int)(test_rand(&s) % 20), (double)v);
            if (!isfinite(strtof(text, NULL))) continue;
        }
        float got = NAN, want = strtof(text, NULL);
        const char *end = text + strlen(text);
        CHECK(wisp_tsv_number(&got, text, end) == end && memcmp(&got, &want, 4) == 0,
              "%s: %.9g, expected %.9g", text, (double)got, (double)want);
    }
}

/* Lines of a table in random order; returns their length. */
static size_t write_table(char *to, size_t room, float want[20][WIDTH], bool ones, uint64_t *s)
{
    size_t n = 0;
    for (int i = 0; i < 300; i++) {
        int row = i ? (int)(test_rand(s) % 20) : 19, col = (int)(test_rand(s) % WIDTH);
        if (want[row][col] != 0) continue;
        want[row][col] = ones ? 1 : test_randf(s) + 2;
        n += (size_t)snprintf(to + n, room - n, "%d\t%d\t%.9g%s", row + 1, col + 1,
                              (double)want[row][col], i % 3 ? "\n" : "\r\n");
    }
    return n;
}

static void check_layer(float want[20][WIDTH])
{
    struct wisp_spnet *net;
    if (wisp_challenge_net(&net, fuzz_folder, WIDTH, 1, &fuzz_one_thread, &err) != WISP_OK)
        fuzz_die("random layer", &err);
    const struct wisp_splayer *l = net->layers;
    for (uint32_t g = 0; g < l->n_groups; g++) {
        const uint32_t m = l->out_start[g + 1] - l->out_start[g];
        for (uint32_t o = 0; o < m; o++)
            for (uint32_t i = l->in_start[g], k = 0; i < l->in_start[g + 1]; i++, k++) {
                float *cell = &want[l->in[i]][l->out[l->out_start[g] + o]];
                CHECK(*cell == (l->w ? l->w[l->w_start[g] + k * m + o] : l->weight), "%u -> %u",
                      l->in[i], l->out[l->out_start[g] + o]);
                *cell = 0;
            }
    }
    wisp_spnet_free(net);
}

static void check_images(float want[20][WIDTH], bool ones)
{
    struct wisp_spinputs x;
    if (wisp_challenge_inputs(&x, fuzz_folder, WIDTH, &fuzz_three_threads, &err) != WISP_OK)
        fuzz_die("random images", &err);
    CHECK(x.n == 20 && !x.bits == !ones, "kind");
    for (size_t r = 0; r < x.n; r++) {
        for (uint64_t i = 0; !ones && i < x.start[r + 1] - x.start[r]; i++) {
            CHECK(want[r][x.id[x.start[r] + i]] == x.value[x.start[r] + i], "row %zu", r);
            want[r][x.id[x.start[r] + i]] = 0;
        }
        for (size_t p = 0; ones && p < WIDTH; p++)
            if (x.bits[r * x.words + p / 64] >> p % 64 & 1) want[r][p] -= 1;
    }
    wisp_spinputs_clear(&x);
}

static void random_texts(void)
{
    TEST("random texts in random order, chunks and threads: what they say, and no more");
    static char text[30000];
    static float want[20][WIDTH];
    const size_t usual = wisp_tsv_chunk;
    uint64_t s = 77;
    for (int turn = 0; turn < 200; turn++) {
        const bool ones = turn % 3 == 0, layer = turn % 2;
        memset(want, 0, sizeof want);
        size_t n = write_table(text, sizeof text, want, ones, &s), left = 0;
        wisp_tsv_chunk = turn < 6 ? usual : 1 + test_rand(&s) % 200;
        fuzz_save(files[layer ? LAYER : IMAGES], text, n);
        if (layer) check_layer(want);
        else check_images(want, ones);
        for (int i = 0; i < 20 * WIDTH; i++) left += want[i / WIDTH][i % WIDTH] != 0;
        CHECK(left == 0, "turn %d: %zu are missing", turn, left);
    }
    wisp_tsv_chunk = usual;
}

static void files_that_are_not_there(void)
{
    TEST(FUZZ_NAME ": files that are not there, and caches of something else");
    struct wisp_spnet *net;
    struct wisp_spinputs x;
    uint32_t *rows;
    size_t n;
    static char far[5000];
    memset(far, 'x', sizeof far - 1);
    CHECK(wisp_challenge_net(&net, fuzz_folder, 71, 1, NULL, &err) == WISP_EIO, "%s", err.text);
    CHECK(wisp_challenge_net(&net, fuzz_folder, 0, 1, NULL, &err) == WISP_EINVAL, "%s", err.text);
    CHECK(wisp_challenge_net(&net, far, 70, 1, NULL, &err) == WISP_EINVAL, "%s", err.text);
    CHECK(wisp_challenge_inputs(&x, fuzz_folder, 71, NULL, &err) == WISP_EIO, "%s", err.text);
    CHECK(wisp_challenge_inputs(&x, fuzz_folder, 0, NULL, &err) == WISP_EINVAL, "%s", err.text);
    CHECK(wisp_challenge_truth(&rows, &n, fuzz_folder, 71, 1, &err) == WISP_OK && !rows, "%s",
          err.text);
    prepare(CACHED);
    fuzz_save(files[LAYER], "1\t1\t.5\n", 7);
    fuzz_save(caches[LAYER], "not a cache", 11);
    CHECK(wisp_challenge_net(&net, fuzz_folder, WIDTH, 1, NULL, &err) == WISP_OK, "%s", err.text);
    wisp_spnet_free(net);
    fuzz_save(files[LAYER], "1\t1\t.5\n2\t1\t.5\n", 14); /* the cache is stale now */
    CHECK(wisp_challenge_net(&net, fuzz_folder, WIDTH, 1, NULL, &err) == WISP_OK &&
              net->n_edges == 2,
          "%s", err.text);
    wisp_spnet_free(net);
}

static void fuzz_tests(void)
{
    prepare(0);
    numbers();
    random_texts();
    files_that_are_not_there();
}
#endif

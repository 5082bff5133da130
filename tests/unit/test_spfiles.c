/* Files of sparse networks: the challenge's text, MatrixMarket, idx, and the binary files that
 * serve as caches.  Good and bad lines, cuts at every byte, memory that runs out, stale caches, and
 * the official files where they are.  The binary files themselves, and random texts:
 * tests/fuzz/fuzz_netfile.c and fuzz_tsv.c. */
#include "data_rig.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/idx.h"
#include "spdnn/mtx.h"
#include "spdnn/netfile.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static wisp_error err;

static void touch(const char *name, long seconds)
{
    struct timespec t[2] = { { 0 }, { .tv_sec = seconds } };
    if (utimensat(AT_FDCWD, in_folder(name), t, 0) != 0) abort();
}

struct wrong {
    const char *text, *words;
};

/* Weight of the edge from 'in' to 'out'; NAN: there is none. */
static float weight_of(const struct wisp_splayer *l, uint32_t in, uint32_t out)
{
    for (uint32_t g = 0; g < l->n_groups; g++)
        for (uint32_t o = l->out_start[g]; o < l->out_start[g + 1]; o++)
            for (uint32_t i = l->in_start[g]; l->out[o] == out && i < l->in_start[g + 1]; i++)
                if (l->in[i] == in)
                    return l->w ? l->w[l->w_start[g] +
                                       (i - l->in_start[g]) *
                                           (uint64_t)(l->out_start[g + 1] - l->out_start[g]) +
                                       (o - l->out_start[g])]
                                : l->weight;
    return NAN;
}

static bool same_floats(const float *a, const float *b, uint64_t n)
{
    return !a == !b && (!a || memcmp(a, b, n * sizeof *a) == 0);
}

static bool same_layer(const struct wisp_splayer *a, const struct wisp_splayer *b)
{
    return a->n_in == b->n_in && a->n_out == b->n_out && a->linear == b->linear &&
           a->n_edges == b->n_edges && a->n_groups == b->n_groups && a->weight == b->weight &&
           a->bias == b->bias && !memcmp(a->in_start, b->in_start, 4 * (a->n_groups + 1)) &&
           !memcmp(a->in, b->in, 4 * a->in_start[a->n_groups]) &&
           !memcmp(a->out_start, b->out_start, 4 * (a->n_groups + 1)) &&
           !memcmp(a->out, b->out, 4 * a->n_out) && same_floats(a->w, b->w, a->n_edges) &&
           same_floats(a->biases, b->biases, a->n_out);
}

static bool same_net(const struct wisp_spnet *a, const struct wisp_spnet *b)
{
    bool same =
        a && b && a->n_layers == b->n_layers && a->clip == b->clip && a->n_edges == b->n_edges;
    for (size_t i = 0; same && i < a->n_layers; i++)
        same = same_layer(&a->layers[i], &b->layers[i]);
    return same;
}

static bool same_inputs(const struct wisp_spinputs *a, const struct wisp_spinputs *b)
{
    if (a->n != b->n || a->width != b->width || !a->bits != !b->bits) return false;
    if (a->bits) return memcmp(a->bits, b->bits, 8 * a->n * a->words) == 0;
    return !memcmp(a->start, b->start, 8 * (a->n + 1)) &&
           !memcmp(a->id, b->id, 4 * a->start[a->n]) &&
           same_floats(a->value, b->value, a->start[a->n]);
}

/* ---- networks ---- */

static const char layer1[] =
    "1\t1\t6.25e-02\n3\t1\t0.0625\n1\t2\t.0625\n3\t2\t+6.25E-2\n2\t4\t0.0625\n";
static const char layer2[] = "4 4 -2\r\n2 1 1e-3\r\n 1 1 3.5 \r\n4 2 16777217\r\n1 3 0.1";

static struct wisp_spnet *read_net(size_t layers, const struct wisp_context *ctx)
{
    struct wisp_spnet *net;
    memset(&err, 0, sizeof err);
    n_said = 0;
    said[0] = 0;
    wisp_status st = wisp_challenge_net(&net, folder, 4, layers, ctx, &err);
    CHECK(st == WISP_OK ? net != NULL : (net == NULL && err.code == st && err.text[0]), "%d", st);
    return net;
}

static void write_net(void)
{
    mkdir(in_folder("neuron4"), 0777);
    save_text("neuron4/n4-l1.tsv", layer1);
    save_text("neuron4/n4-l2.tsv", layer2);
    unlink(in_folder("neuron4-l2.wispcache"));
}

static void good_net(void)
{
    TEST("net: rows are inputs, columns outputs; any order, CRLF, no last line end");
    write_net();
    struct wisp_spnet *net = read_net(2, &four);
    CHECK(net && net->n_layers == 2 && net->clip == 32 && net->n_edges == 10, "%s", err.text);
    if (!net) return;
    const struct wisp_splayer *l = net->layers;
    CHECK(!l->w && l->weight == 0.0625f && l->n_groups == 3 && l->bias == wisp_radix_bias(4),
          "equal weights are one, equal inputs a group");
    CHECK(weight_of(l, 0, 0) == 0.0625f && weight_of(l, 2, 1) == 0.0625f &&
              weight_of(l, 1, 3) == 0.0625f && isnan(weight_of(l, 3, 1)),
          "edges of layer 1");
    l++;
    CHECK(l->w && weight_of(l, 3, 3) == -2 && weight_of(l, 1, 0) == 1e-3f &&
              weight_of(l, 0, 0) == 3.5f && weight_of(l, 3, 1) == 16777216.0f &&
              weight_of(l, 0, 2) == 0.1f,
          "edges of layer 2");
    CHECK(n_said == 0, "%s", said);
    struct wisp_spnet *again = read_net(2, &one);
    CHECK(same_net(net, again), "from the cache");
    wisp_spnet_free(again);
    wisp_spnet_free(net);

    TEST("net: the folder that holds graphchallenge/ will do, too");
    char place[320];
    snprintf(place, sizeof place, "%s/graphchallenge", folder);
    CHECK(symlink(folder, place) == 0, "link");
    mkdir(in_folder("x"), 0777);
    snprintf(place, sizeof place, "%s/x/graphchallenge", folder);
    CHECK(symlink(folder, place) == 0 &&
              wisp_challenge_net(&net, in_folder("x"), 4, 2, &one, &err) == WISP_OK,
          "%s", err.text);
    wisp_spnet_free(net);
}

static void bad_lines(void)
{
    TEST("net: what is wrong in a line is said, with its number");
    static const struct {
        const char *words, *texts[8];
    } bad[] = {
        { ":2: an id of 0 in '0 1 1'", { "1 1 1\n0 1 1\n" } },
        { ":2: an id out of range in '1 5 1'; expected 'input output weight'",
          { "1 1 1\n1 5 1\n" } },
        { ":1: an id out of range", { "5 1 1\n", "4294967297 1 1\n" } },
        { ":1: no id",
          { "99999999999999999999999 1 1\n", "18446744073709551617 1 1\n", "-1 1 1" } },
        { ":2: no id", { "1 1 1\n\n2 2 1\n", "1 1 1\n\n", "1 1 1\nx" } },
        { ":2: a field is missing", { "1 1 1\n2\n", "1 1 1\n2 2\n3 3 1\n", "1 1 1\n1.5 1 1\n" } },
        { ":1: no finite number",
          { "2 2 \n", "1 1 nan\n", "1 1 inf\n", "1 1 1e39\n", "1 1 .\n", "1 1 1e\n",
            "1 1 -1e999999999999\n" } },
        { ":1: more than that", { "1 1 1 1\n", "1 1 1x\n", "1 1 0x10\n", "1 1 1\r1 2 1\n" } },
        { ":1: more than that in '1 2 3?", { "1 2 3\x01\xff\n" } },
        { ":3: an edge again in '1 1 1'", { "1 1 1\n2 2 1\n1 1 1\n2 2 1\n" } },
        { ":2: an edge again", { "1 1 1\n1 1 1\n" } },
        { "empty", { "" } },
        { ":3: no line end, and not the weight", { "1 1 .0625\n2 1 .0625\n3 1 .06" } }
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (int k = 0; k < 16; k++) {
            if (!bad[i].texts[k / 2]) break;
            write_net();
            save_text("neuron4/n4-l2.tsv", bad[i].texts[k / 2]);
            struct wisp_spnet *net = read_net(2, k % 2 ? &one : &four);
            CHECK(!net && err.code == WISP_EFORMAT && strstr(err.text, "n4-l2.tsv:") &&
                      strstr(err.text, bad[i].words),
                  "'%s': %s, expected %s", bad[i].texts[k / 2], err.text, bad[i].words);
            wisp_spnet_free(net);
        }
    save_in("neuron4/n4-l2.tsv", "1 1 1\n2 \0 1\n", 12);
    CHECK(!read_net(2, &four) && strstr(err.text, ":2: no id"), "%s", err.text);

    TEST("net: a file that is not there is named, with what to do");
    write_net();
    CHECK(!read_net(3, &four) && err.code == WISP_EIO && strstr(err.text, "/neuron4/n4-l3.tsv") &&
              strstr(err.text, "layer 3 of 3") && strstr(err.text, "--generate"),
          "%s", err.text);

    TEST("net: of several wrong layers the first is named");
    for (int k = 1; k < 9; k++) {
        char name[40];
        snprintf(name, sizeof name, "neuron4/n4-l%d.tsv", k);
        save_text(name, k < 3 ? layer1 : "1 1 1\nx\n");
    }
    for (int k = 0; k < 20; k++)
        CHECK(!read_net(8, &four) && strstr(err.text, "n4-l3.tsv:2: no id"), "%s", err.text);
}

static void cut_net(void)
{
    TEST("net: a layer cut at any byte is a part of it, or refused");
    write_net();
    struct wisp_spnet *whole = read_net(2, &one);
    int refused = 0;
    for (size_t n = 1; whole && n < sizeof layer2 - 1; n++) {
        unlink(in_folder("neuron4-l2.wispcache"));
        save_in("neuron4/n4-l2.tsv", layer2, n);
        struct wisp_spnet *net = read_net(2, &one);
        refused += !net;
        CHECK(net || (err.code == WISP_EFORMAT && strstr(err.text, "n4-l2.tsv:")), "%s", err.text);
        CHECK(!net || net->layers[1].n_edges <= 5, "cut %zu", n);
        wisp_spnet_free(net);
    }
    CHECK(refused >= 15, "%d", refused);
    wisp_spnet_free(whole);
}

/* ---- caches ---- */

/* Reads the net again: it is 'want', and what is said holds 'words' (NULL: nothing is). */
static void expect_net(const struct wisp_spnet *want, const char *words)
{
    struct wisp_spnet *net = read_net(2, &four);
    CHECK(same_net(net, want), "another net: %s", err.text);
    CHECK(words ? strstr(said, words) != NULL : n_said == 0, "said '%s'", said);
    wisp_spnet_free(net);
}

static void caches(void)
{
    const char *cache = "neuron4-l2.wispcache";
    TEST("cache: used while the sources are as they were, read again when one changes");
    write_net();
    struct wisp_spnet *want = read_net(2, &four), *net;
    char bytes[20000];
    size_t n = slurp(in_folder(cache), bytes, sizeof bytes);
    CHECK(n > 0, "no cache");
    struct wisp_file_id id, old;
    wisp_file_identify(&old, in_folder(cache), NULL);
    expect_net(want, NULL);
    wisp_file_identify(&id, in_folder(cache), NULL);
    CHECK(id.mtime_ns == old.mtime_ns, "a good cache is not written again");
    touch("neuron4/n4-l2.tsv", 1000000000);
    expect_net(want, "neuron4-l2.wispcache: stale");
    save_text("neuron4/n4-l2.tsv", "1 1 1\n");
    net = read_net(2, &four);
    CHECK(net && net->layers[1].n_edges == 1 && strstr(said, "stale"), "%s", said);
    wisp_spnet_free(net);
    net = read_net(2, &four);
    CHECK(net && net->layers[1].n_edges == 1 && n_said == 0, "%s", said);
    wisp_spnet_free(net);

    TEST("cache: damaged ones are told of, and replaced");
    write_net();
    wisp_spnet_free(read_net(2, &four));
    n = slurp(in_folder(cache), bytes, sizeof bytes);
    bytes[100] ^= 1;
    save_in(cache, bytes, n);
    expect_net(want, "damaged (layer 1: checksum)");
    save_in(cache, "", 0);
    expect_net(want, "damaged (too short)");
    expect_net(want, NULL);

    TEST("cache: another net under its name is not taken for this one");
    struct wisp_file_id ids[2];
    wisp_file_identify(&ids[0], in_folder("neuron4/n4-l1.tsv"), NULL);
    wisp_file_identify(&ids[1], in_folder("neuron4/n4-l2.tsv"), NULL);
    want->clip = 16;
    CHECK(wisp_spnet_save(want, in_folder(cache), &(struct wisp_sources){ .ids = ids, .n = 2 },
                          &err) == WISP_OK,
          "%s", err.text);
    want->clip = 32;
    expect_net(want, "stale");

    TEST("cache: where none can be written, reading works");
    unlink(in_folder(cache));
    mkdir(in_folder(cache), 0777); /* also in the way of root */
    expect_net(want, "no cache is kept");
    rmdir(in_folder(cache));
    wisp_spnet_free(want);
}

/* ---- inputs ---- */

static wisp_status read_inputs(struct wisp_spinputs *x, uint32_t width,
                               const struct wisp_context *ctx)
{
    char cache[80];
    snprintf(cache, sizeof cache, "sparse-images-%u.tsv.wispcache", width);
    unlink(in_folder(cache));
    memset(&err, 0, sizeof err);
    n_said = 0;
    wisp_status st = wisp_challenge_inputs(x, folder, width, ctx, &err);
    CHECK(st == WISP_OK || (!x->bits && !x->start && err.text[0]), "an error, and inputs");
    return st;
}

static void inputs(void)
{
    TEST("inputs: bits for ones, in any order");
    struct wisp_spinputs x, y;
    save_text("sparse-images-70.tsv", "3\t70\t1\n1\t1\t1\n3\t1\t1.0\r\n1\t64\t1e0\n5 65 1");
    CHECK(read_inputs(&x, 70, &four) == WISP_OK, "%s", err.text);
    CHECK(x.n == 5 && x.width == 70 && x.words == 2 && x.bits && !x.start, "shape");
    const uint64_t want[] = { 1u | (uint64_t)1 << 63, 0, 0, 0, 1, 32, 0, 0, 0, 1 };
    CHECK(x.bits && memcmp(x.bits, want, sizeof want) == 0, "bits");
    CHECK(wisp_challenge_inputs(&y, folder, 70, &four, &err) == WISP_OK && same_inputs(&x, &y),
          "from the cache: %s", err.text);
    wisp_spinputs_clear(&x);
    wisp_spinputs_clear(&y);

    TEST("inputs: numbers for the rest");
    save_text("sparse-images-70.tsv", "3 70 1\n1 1 1\n3 1 -2.5\n1 64 1\n3 7 0.5\n");
    CHECK(read_inputs(&x, 70, &four) == WISP_OK && x.n == 3 && !x.bits, "%s", err.text);
    const uint64_t start[] = { 0, 2, 2, 5 };
    const uint32_t id[] = { 0, 63, 0, 6, 69 };
    const float value[] = { 1, 1, -2.5f, 0.5f, 1 };
    CHECK(x.start && !memcmp(x.start, start, sizeof start) && !memcmp(x.id, id, sizeof id) &&
              !memcmp(x.value, value, sizeof value),
          "values");
    CHECK(wisp_challenge_inputs(&y, folder, 70, &four, &err) == WISP_OK && same_inputs(&x, &y),
          "from the cache: %s", err.text);
    wisp_spinputs_clear(&x);
    wisp_spinputs_clear(&y);
    touch("sparse-images-70.tsv", 1000000000);
    n_said = 0;
    CHECK(wisp_challenge_inputs(&y, folder, 70, &four, &err) == WISP_OK && strstr(said, "stale"),
          "%s", said);
    wisp_spinputs_clear(&y);

    TEST("inputs: wrong lines, whatever the chunks and threads");
    static const struct wrong bad[] = {
        { "1 1 1\n1 71 1\n", ":2: an id out of range in '1 71 1'; expected 'image pixel value'" },
        { "1 1 1\n0 1 1\n1 0 1\n", ":2: an id of 0" },
        { "1 1 1\n2 2\n", ":2: a field is missing" },
        { "1 1 1\n2 2 1\n1 1 1\n9 9 1\n", ":3: a pixel again in '1 1 1'" },
        { "1 1 1\n2 2 2\n5 5 5\n2 2 3\n", ":4: a pixel again in '2 2 3'" },
        { "1 1 1\n3 2 1\n1 2 x\n2 2\n", ":3: no finite number" },
        { "4000000000 1 1\n", ":1: an id out of range" },
        { "2000000000 1 1\n1 1 1\n", "an image 2000000000, but 2 lines" },
        { "", "empty" }
    };
    const size_t usual = wisp_tsv_chunk;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (size_t chunk = 1; chunk < 24; chunk++) {
            save_text("sparse-images-70.tsv", bad[i].text);
            wisp_tsv_chunk = chunk;
            CHECK(read_inputs(&x, 70, chunk % 2 ? &one : &four) == WISP_EFORMAT &&
                      strstr(err.text, bad[i].words),
                  "chunk %zu: '%s', expected '%s'", chunk, err.text, bad[i].words);
        }
    wisp_tsv_chunk = usual;
    unlink(in_folder("sparse-images-70.tsv"));
    CHECK(read_inputs(&x, 70, &four) == WISP_EIO && strstr(err.text, "sparse-images-70.tsv") &&
              strstr(err.text, "--generate"),
          "%s", err.text);
}

static void truth(void)
{
    TEST("truth: ids from 0, ascending; wrong lines; none");
    uint32_t *rows;
    size_t n;
    save_text("neuron4-l2-categories.tsv", "1\r\n7 \n60000");
    CHECK(wisp_challenge_truth(&rows, &n, folder, 4, 2, &err) == WISP_OK && n == 3 &&
              rows[0] == 0 && rows[1] == 6 && rows[2] == 59999,
          "%s", err.text);
    wisp_free(rows);
    CHECK(wisp_challenge_truth(&rows, &n, folder, 4, 3, &err) == WISP_OK && !rows && n == 0,
          "no file");
    static const struct wrong bad[] = { { "1\n1\n", ":2: not above" },
                                        { "5\n2\n", ":2: not above" },
                                        { "1\n0\n", ":2: an id of 0" },
                                        { "1\nx\n", ":2: no id" },
                                        { "1 1\n", ":1: more than that" },
                                        { "1\n\n2\n", ":2: no id" },
                                        { "99999999999\n", ":1: an id out of range" } };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        save_text("neuron4-l2-categories.tsv", bad[i].text);
        CHECK(wisp_challenge_truth(&rows, &n, folder, 4, 2, &err) == WISP_EFORMAT && !rows &&
                  n == 0 && strstr(err.text, bad[i].words),
              "%s, expected %s", err.text, bad[i].words);
    }
    save_text("neuron4-l2-categories.tsv", "");
    CHECK(wisp_challenge_truth(&rows, &n, folder, 4, 2, &err) == WISP_OK && rows && n == 0,
          "a list of none is not the same as no list");
    wisp_free(rows);
}

/* ---- MatrixMarket, idx ---- */

#define BANNER "%%MatrixMarket matrix coordinate real general\n"

static void matrix_market(void)
{
    TEST("mtx: rows are outputs, or inputs; comments, empty lines, kinds");
    static const char text[] = "%%matrixmarket MATRIX coordinate Real General\r\n% a comment\n%\n\n"
                               "2 3 4\n\n2 3 -1.5\n1 1 2\n 2\t1  4e0 \n\n1 3 8";
    struct wisp_mtx m;
    save_text("a.mtx", text);
    CHECK(wisp_mtx_read(&m, in_folder("a.mtx"), false, &err) == WISP_OK, "%s", err.text);
    const uint32_t in[] = { 0, 2, 0, 2 };
    const float w[] = { 2, 8, 4, -1.5f };
    CHECK(m.e.n_in == 3 && m.e.n_out == 2 && m.e.start && m.e.start[1] == 2 && m.e.start[2] == 4 &&
              !memcmp(m.e.in, in, sizeof in) && m.e.w && !memcmp(m.e.w, w, sizeof w) &&
              !m.e.biases && m.e.bias == 0,
          "arrays");
    wisp_mtx_clear(&m);
    CHECK(wisp_mtx_read(&m, in_folder("a.mtx"), true, &err) == WISP_OK && m.e.n_in == 2 &&
              m.e.n_out == 3 && m.e.start[1] == 2 && m.e.start[2] == 2 && m.e.in[0] == 0 &&
              m.e.in[1] == 1 && m.e.w[0] == 2 && m.e.w[1] == 4 && m.e.w[3] == -1.5f,
          "the other way round: %s", err.text);
    wisp_mtx_clear(&m);
    int refused = 0;
    for (size_t n = 0; n < sizeof text - 1; n++) {
        save_in("a.mtx", text, n);
        wisp_status st = wisp_mtx_read(&m, in_folder("a.mtx"), false, &err);
        CHECK(st == WISP_EFORMAT || (n < 50 && st == WISP_ENOTSUP), "cut %zu: %d", n, st);
        CHECK(!m.own.start && !m.own.in && !m.own.w, "empty on failure");
        refused += st != WISP_OK;
    }
    CHECK(refused == sizeof text - 1, "every cut loses an entry");
    save_text("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 2 2\n2 2\n1 1\n");
    CHECK(wisp_mtx_read(&m, in_folder("a.mtx"), false, &err) == WISP_OK && !m.e.w &&
              m.e.weight == 1 && m.e.start[2] == 2,
          "pattern: %s", err.text);
    wisp_mtx_clear(&m);
    save_text("a.mtx", "%%MatrixMarket matrix coordinate integer general\n2 2 0\n");
    CHECK(wisp_mtx_read(&m, in_folder("a.mtx"), false, &err) == WISP_OK && m.e.start[2] == 0,
          "no entries: %s", err.text);
    wisp_mtx_clear(&m);

    TEST("mtx: what is wrong is said");
    static const struct wrong bad[] = {
        { "%%MatrixMarket matrix array real general\n1 1\n1\n", "'coordinate'" },
        { "%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 1 1\n", "'general'" },
        { "%%MatrixMarket matrix coordinate real symmetric\n1 1 0\n", "'general'" },
        { "1 1 1\n", ":1: expected '%%MatrixMarket matrix" },
        { BANNER "2 2\n1 1 1\n", ":2: bad sizes" },
        { BANNER "0 2 0\n", ":2: bad sizes" },
        { BANNER "4294967296 2 0\n", ":2: bad sizes" },
        { BANNER "2 2 999999999999\n1 1 1\n", "too short for the 999999999999" },
        { BANNER "1500000000 2 1\n1 1 1\n", "1500000000 rows for 1 entries" },
        { BANNER "2 1048593 1\n1 1 1\n", "1048593 columns for 1 entries" },
        { "%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 1 5.5\n", ":3: no whole" },
        { "%%MatrixMarket matrix coordinate integer general\n2 2 2\n1 1 5\n1 2 5e0\n",
          ":4: no whole" },
        { BANNER "2 2 2\n1 1 1\n", "cut off: 1 of the 2" },
        { BANNER "2 2 1\n1 1 1\n2 2 2\n", "more than the 1" },
        { BANNER "2 2 1\n3 1 1\n", ":3: an id out of range" },
        { BANNER "2 2 1\n1 1\n", ":3: a field is missing" },
        { BANNER "2 2 1\n1 1 nan\n", ":3: no finite number" },
        { BANNER "2 2 3\n1 1 1\n\n2 2 2\n1 1 5\n", ":6: an edge again in '1 1 5'" }
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        save_text("a.mtx", bad[i].text);
        CHECK(wisp_mtx_read(&m, in_folder("a.mtx"), false, &err) ==
                      (i < 3 ? WISP_ENOTSUP : WISP_EFORMAT) &&
                  strstr(err.text, bad[i].words) && strstr(err.text, "a.mtx"),
              "%s, expected %s", err.text, bad[i].words);
    }
    CHECK(wisp_mtx_read(&m, in_folder("none.mtx"), false, NULL) == WISP_EIO, "no file");
}

static void idx_files(void)
{
    TEST("idx: images and labels, to the byte");
    static const unsigned char images[] = { 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0,
                                            1, 0, 0, 0, 3, 1, 2, 3, 4, 5, 255 };
    static const unsigned char labels[] = { 0, 0, 8, 1, 0, 0, 0, 2, 7, 9 };
    struct wisp_idx x;
    save_in("i", images, sizeof images);
    CHECK(wisp_idx_open(&x, in_folder("i"), 3, &err) == WISP_OK && x.size[0] == 2 &&
              x.size[1] == 1 && x.size[2] == 3 && x.data[0] == 1 && x.data[5] == 255,
          "%s", err.text);
    wisp_idx_close(&x);
    CHECK(wisp_idx_open(&x, in_folder("i"), 1, &err) == WISP_EFORMAT && !x.data &&
              strstr(err.text, "begins with 00 00 08 03; expected 00 00 08 01"),
          "%s", err.text);
    save_in("l", labels, sizeof labels);
    CHECK(wisp_idx_open(&x, in_folder("l"), 1, &err) == WISP_OK && x.size[0] == 2 &&
              x.size[1] == 1 && x.data[1] == 9,
          "%s", err.text);
    wisp_idx_close(&x);
    for (size_t n = 0; n < sizeof images; n++) {
        save_in("i", images, n);
        CHECK(wisp_idx_open(&x, in_folder("i"), 3, &err) == WISP_EFORMAT, "cut %zu", n);
    }
    unsigned char more[sizeof images + 1];
    memcpy(more, images, sizeof images);
    more[sizeof images] = 0;
    save_in("i", more, sizeof more);
    CHECK(wisp_idx_open(&x, in_folder("i"), 3, &err) == WISP_EFORMAT &&
              strstr(err.text, "7 bytes of data, but its sizes are 2 x 1 x 3"),
          "%s", err.text);
    memset(more + 4, 0xff, 12);
    save_in("i", more, sizeof more);
    CHECK(wisp_idx_open(&x, in_folder("i"), 3, &err) == WISP_EFORMAT, "sizes that overflow");
    save_text("i", "\x1f\x8b\x08");
    CHECK(wisp_idx_open(&x, in_folder("i"), 3, &err) == WISP_EFORMAT && strstr(err.text, "gunzip"),
          "%s", err.text);
}

/* ---- memory that runs out ---- */

static wisp_status all_reads(bool cached)
{
    struct wisp_spnet *net;
    struct wisp_spinputs x;
    struct wisp_mtx m;
    uint32_t *rows;
    size_t n;
    if (!cached) {
        unlink(in_folder("neuron4-l2.wispcache"));
        unlink(in_folder("sparse-images-70.tsv.wispcache"));
    }
    wisp_status st = wisp_challenge_net(&net, folder, 4, 2, &one, &err);
    wisp_spnet_free(net);
    if (st == WISP_OK) st = wisp_challenge_inputs(&x, folder, 70, &one, &err);
    else memset(&x, 0, sizeof x);
    wisp_spinputs_clear(&x);
    if (st == WISP_OK) st = wisp_challenge_truth(&rows, &n, folder, 4, 2, &err);
    else rows = NULL;
    wisp_free(rows);
    if (st == WISP_OK) st = wisp_mtx_read(&m, in_folder("a.mtx"), false, &err);
    else memset(&m, 0, sizeof m);
    wisp_mtx_clear(&m);
    return st;
}

static void no_memory(void)
{
    TEST("memory that runs out anywhere: said, and nothing is lost");
    write_net();
    save_text("neuron4-l2-categories.tsv", "1\n2\n");
    save_text("a.mtx", BANNER "2 2 3\n2 1 1\n1 1 2\n1 2 2\n");
    for (int k = 0; k < 4; k++) { /* bits or numbers; from text or from a cache */
        save_text("sparse-images-70.tsv", k / 2 ? "2 1 1\n1 70 2.5\n1 1 1\n" : "2 1 1\n1 70 1\n");
        CHECK(all_reads(false) == WISP_OK, "%s", err.text);
        int failed = 0;
        const long live = wisp_mem_live;
        for (long n = 0;; n++) {
            wisp_mem_budget = n;
            wisp_status st = all_reads(k % 2);
            const bool enough = wisp_mem_budget > 0;
            wisp_mem_budget = -1;
            if (enough) break;
            CHECK(st == WISP_OK || st == WISP_ENOMEM, "after %ld: %s", n, err.text);
            CHECK(wisp_mem_live == live, "after %ld: %ld blocks left", n, wisp_mem_live - live);
            failed += st == WISP_ENOMEM;
        }
        CHECK(failed > 20, "%d", failed);
    }
}

/* ---- the official files ---- */

static void count_layer(const struct wisp_splayer *l)
{
    uint32_t from[1024] = { 0 };
    for (uint32_t g = 0; g < l->n_groups; g++)
        for (uint32_t i = l->in_start[g]; i < l->in_start[g + 1]; i++)
            from[l->in[i]] += l->out_start[g + 1] - l->out_start[g];
    for (uint32_t g = 0; g < l->n_groups; g++)
        CHECK(l->in_start[g + 1] - l->in_start[g] == 32, "a neuron has %u inputs",
              l->in_start[g + 1] - l->in_start[g]);
    for (int i = 0; i < 1024; i++) CHECK(from[i] == 32, "input %d feeds %u", i, from[i]);
}

static void official(void)
{
    TEST("official files: 120 layers of 32 edges per neuron, 6374505 ones, 1812 rows");
    const char *data = getenv("WISP_DATA"), *home = getenv("HOME");
    char from[400], to[400];
    snprintf(from, sizeof from, "%s%s/graphchallenge",
             data   ? data
             : home ? home
                    : "",
             data ? "" : "/.cache/wisp-data");
    if (access(from, R_OK) != 0) {
        SKIP("no graphchallenge in $WISP_DATA; run ../shared/data/unpack graphchallenge");
        return;
    }
    static const char *const names[] = { "neuron1024", "sparse-images-1024.tsv",
                                         "neuron1024-l120-categories.tsv" };
    for (int i = 0; i < 3; i++) { /* links: the caches stay in our folder */
        snprintf(to, sizeof to, "%.300s/%s", from, names[i]);
        CHECK(symlink(to, in_folder(names[i])) == 0, "link");
    }
    struct wisp_spnet *net[2];
    struct wisp_spinputs x[2];
    uint32_t *rows;
    size_t n;
    for (int k = 0; k < 2; k++) {
        double t0 = wisp_now();
        CHECK(wisp_challenge_net(&net[k], folder, 1024, 120, &four, &err) == WISP_OK, "%s",
              err.text);
        double t1 = wisp_now();
        CHECK(wisp_challenge_inputs(&x[k], folder, 1024, &four, &err) == WISP_OK, "%s", err.text);
        double t2 = wisp_now();
        printf("  %s: network %.1f ms, inputs %.1f ms\n", k ? "from the cache" : "from text",
               1e3 * (t1 - t0), 1e3 * (t2 - t1));
    }
    CHECK(same_net(net[0], net[1]) && same_inputs(&x[0], &x[1]), "text and cache differ");
    CHECK(net[0] && net[0]->n_layers == 120 && net[0]->n_edges == 120 * 32768, "edges");
    for (size_t i = 0; net[0] && i < net[0]->n_layers; i++) {
        const struct wisp_splayer *l = &net[0]->layers[i];
        CHECK(!l->w && l->weight == 0.0625f && l->bias == -0.3f &&
                  l->n_groups == (i % 6 == 5 ? 32 : 64),
              "layer %zu", i);
        count_layer(l);
    }
    /* layer 1: class r feeds classes r and r - 1 of 64 */
    CHECK(net[0] && weight_of(net[0]->layers, 1, 0) == 0.0625f &&
              isnan(weight_of(net[0]->layers, 0, 1)),
          "rows are inputs");
    uint64_t ones = 0;
    for (size_t i = 0; x[0].bits && i < x[0].n * x[0].words; i++)
        ones += (uint64_t)__builtin_popcountll(x[0].bits[i]);
    CHECK(x[0].n == 60000 && ones == 6374505, "%zu inputs, %llu ones", x[0].n,
          (unsigned long long)ones);
    CHECK(wisp_challenge_truth(&rows, &n, folder, 1024, 120, &err) == WISP_OK && n == 1812 &&
              rows[0] == 286 && rows[1811] == 59897,
          "%zu %s", n, err.text);
    wisp_free(rows);
    for (int k = 0; k < 2; k++) {
        wisp_spnet_free(net[k]);
        wisp_spinputs_clear(&x[k]);
    }
}

int main(void)
{
    if (!rig_open()) return 1;
    const long live = wisp_mem_live;
    good_net();
    bad_lines();
    cut_net();
    caches();
    inputs();
    truth();
    matrix_market();
    idx_files();
    no_memory();
    official();
    return rig_close(live);
}

/* Fuzzing files of networks and of inputs: any bytes are refused or safe to run; what is accepted
 * is saved again and comes back.
 *
 * With FIX the checksums are made to match first, so that the checks behind them are reached. */
#define FUZZ_NAME    "fuzz_netfile"
#define FUZZ_ERRORS  WISP_EFORMAT, WISP_ENOTSUP
#define FUZZ_WORDS   "wispspdn", "wispsend", "\1\1\1\1", "\377\377\377\377", "\177\200"
#define FUZZ_MUTANTS 16000
#include "fuzz/nets.h"

#include "fuzz/checks.h"
#include "spdnn/netfile.h"

enum { INPUTS = 1, FIX = 2, THREADS = 4, SOURCES = 8 }; /* how; else a net */
enum { WIDTH = 70 };

static bool same_net(const struct wisp_spnet *a, const struct wisp_spnet *b)
{
    if (a->n_layers != b->n_layers || a->clip != b->clip || a->n_edges != b->n_edges) return false;
    for (size_t i = 0; i < a->n_layers; i++) {
        const struct wisp_splayer *x = &a->layers[i], *y = &b->layers[i];
        if (x->n_in != y->n_in || x->n_out != y->n_out || x->n_groups != y->n_groups ||
            x->linear != y->linear || x->weight != y->weight || x->bias != y->bias ||
            x->n_edges != y->n_edges || !x->w != !y->w || !x->biases != !y->biases ||
            memcmp(x->in_start, y->in_start, 4 * ((size_t)x->n_groups + 1)) ||
            memcmp(x->out_start, y->out_start, 4 * ((size_t)x->n_groups + 1)) ||
            memcmp(x->in, y->in, 4 * (size_t)x->in_start[x->n_groups]) ||
            memcmp(x->out, y->out, 4 * (size_t)x->n_out) ||
            (x->w && memcmp(x->w, y->w, 4 * x->n_edges)) ||
            (x->biases && memcmp(x->biases, y->biases, 4 * (size_t)x->n_out)))
            return false;
    }
    return true;
}

static const struct wisp_file_id ids[] = { { 1, 2 }, { 3, 4 } };
static const struct wisp_sources sources = { .ids = ids, .n = 2 };
static const struct checks_plan plan = { 64, 8, 24, 0, 0 };

static wisp_status try_net(unsigned how, const char *path, wisp_error *err)
{
    struct wisp_spnet *net, *back;
    wisp_status st = wisp_spnet_load(&net, path, how & SOURCES ? &sources : NULL,
                                     how & THREADS ? fuzz_three_threads.pool : NULL, err);
    if (!net != (st != WISP_OK)) fuzz_die("an error, and a net", err);
    if (!net) return st;
    use_net(net);
    const char *again = fuzz_path("again");
    st = wisp_spnet_save(net, again, NULL, err);
    if (st == WISP_OK) st = wisp_spnet_load(&back, again, NULL, NULL, err);
    if (st != WISP_OK && !(st == WISP_ENOMEM && fuzz_starved))
        fuzz_die("what was loaded cannot be saved and loaded", err);
    if (st == WISP_OK) {
        if (!same_net(net, back)) fuzz_die("another net came back", err);
        wisp_spnet_free(back);
    }
    wisp_spnet_free(net);
    return st;
}

static wisp_status try_inputs(unsigned how, const char *path, wisp_error *err)
{
    struct wisp_spinputs x, back;
    wisp_status st = wisp_spinputs_load(&x, path, how & SOURCES ? &sources : NULL,
                                        how & THREADS ? fuzz_three_threads.pool : NULL, err);
    if (st != WISP_OK && (x.bits || x.start)) fuzz_die("an error, and inputs", err);
    if (st != WISP_OK) return st;
    use_inputs(&x);
    const char *again = fuzz_path("again");
    st = wisp_spinputs_save(&x, again, NULL, err);
    if (st == WISP_OK) st = wisp_spinputs_load(&back, again, NULL, NULL, err);
    if (st != WISP_OK && !(st == WISP_ENOMEM && fuzz_starved))
        fuzz_die("what was loaded cannot be saved and loaded", err);
    if (st == WISP_OK) {
        if (!same_inputs(&x, &back)) fuzz_die("other inputs came back", err);
        wisp_spinputs_clear(&back);
    }
    wisp_spinputs_clear(&x);
    return st;
}
/* Two layers with all there is: weights, biases, sums, an output without inputs. */
static struct wisp_spnet *make_net(void)
{
    static const uint64_t start1[] = { 0, 2, 4, 4 }, start2[] = { 0, 3, 5 };
    static const uint32_t in1[] = { 0, 1, 0, 1 }, in2[] = { 0, 1, 2, 0, 2 };
    static const float w[] = { 1, -2, 3, 4.5f }, biases[] = { -1, 0, 2 };
    const struct wisp_edges e1 = {
        .n_in = 2, .n_out = 3, .start = start1, .in = in1, .w = w, .biases = biases
    };
    const struct wisp_edges e2 = {
        .n_in = 3, .n_out = 2, .start = start2, .in = in2, .weight = 0.5f, .bias = -0.25f
    };
    wisp_error err = { 0 };
    struct wisp_spnet *net = wisp_spnet_create(INFINITY);
    if (!net || wisp_spnet_add(net, &e1, &err) != WISP_OK ||
        wisp_spnet_add(net, &e2, &err) != WISP_OK)
        fuzz_die("no net", &err);
    net->layers[1].linear = true;
    net->n_edges = 77;
    return net;
}

static wisp_status fuzz_read(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    static uint8_t b[4 * FUZZ_ROOM];
    if (n > sizeof b) n = sizeof b;
    if (n) memcpy(b, p, n);
    if (how & FIX) checks_fix(b, n, &plan);
    const char *path = fuzz_save("file", b, n);
    return how & INPUTS ? try_inputs(how, path, err) : try_net(how, path, err);
}

enum { NET_SEED, NUMBERS_SEED = 4, BITS_SEED = 8, N_SEEDS = 12 };

static size_t fuzz_seed(uint8_t *to, size_t i)
{
    static uint8_t b[FUZZ_ROOM];
    static const unsigned hows[] = { 0, FIX, FIX | THREADS, FIX | SOURCES };
    uint64_t start[] = { 0, 2, 2, 3 }, bits[] = { 1, 32, 0, 0 };
    uint32_t id[] = { 1, 2, 69 };
    float value[] = { 1, -2, 3 };
    const struct wisp_spinputs numbers = { 3, WIDTH, 2, NULL, start, id, value };
    const struct wisp_spinputs ones = { 2, WIDTH, 2, bits, NULL, NULL, NULL };
    wisp_error err = { 0 };
    wisp_status st;
    if (i >= N_SEEDS) return 0;
    if (i < NUMBERS_SEED) {
        struct wisp_spnet *net = make_net();
        st = wisp_spnet_save(net, fuzz_path("seed"), &sources, &err);
        wisp_spnet_free(net);
    } else {
        st = wisp_spinputs_save(i < BITS_SEED ? &numbers : &ones, fuzz_path("seed"), NULL, &err);
    }
    if (st != WISP_OK) fuzz_die("no seed", &err);
    size_t n = fuzz_load("seed", b, sizeof b);
    return fuzz_put(to, hows[i % 4] | (i < NUMBERS_SEED ? 0 : INPUTS), b, n);
}

#ifndef WISP_LIBFUZZER
static wisp_error err;

static wisp_status try_bytes(int seed, const uint8_t *p, size_t n)
{
    static uint8_t b[FUZZ_ROOM];
    return fuzz_one(b, fuzz_put(b, seed < NUMBERS_SEED ? 0 : INPUTS, p, n), &err);
}

static void round_trip(void)
{
    TEST("net file: all of a net comes back; layers can be looked at alone; sources");
    static uint8_t again[FUZZ_ROOM];
    const uint8_t *good = fuzz_seeds[NET_SEED] + FUZZ_HEAD;
    const size_t good_bytes = fuzz_seed_bytes[NET_SEED] - FUZZ_HEAD;
    const struct wisp_file_id others[] = { { 1, 2 }, { 3, 5 } };
    const struct wisp_sources other = { .ids = others, .n = 2 }, less = { .ids = ids, .n = 1 };
    struct wisp_spnet *net = make_net(), *back;
    struct wisp_splayer view;
    struct wisp_netfile f;
    fuzz_save("net", good, good_bytes);
    CHECK(wisp_spnet_load(&back, fuzz_path("net"), &sources, fuzz_three_threads.pool, &err) ==
              WISP_OK,
          "%s", err.text);
    CHECK(back->n_layers == 2 && isinf(back->clip) && back->n_edges == 77, "totals");
    for (size_t i = 0; i < back->n_layers; i++) {
        const struct wisp_splayer *a = &net->layers[i], *b = &back->layers[i];
        CHECK(a->linear == b->linear && a->weight == b->weight && a->bias == b->bias &&
                  !a->w == !b->w && !a->biases == !b->biases &&
                  !memcmp(a->in, b->in, 4 * a->in_start[a->n_groups]) &&
                  (!a->w || !memcmp(a->w, b->w, 4 * a->n_edges)) &&
                  (!a->biases || !memcmp(a->biases, b->biases, 4 * a->n_out)),
              "layer %zu", i);
    }
    CHECK(wisp_spnet_save(back, fuzz_path("again"), &sources, &err) == WISP_OK &&
              fuzz_load("again", again, FUZZ_ROOM) == good_bytes &&
              !memcmp(again, good, good_bytes),
          "saved again: other bytes");
    wisp_spnet_free(back);
    CHECK(wisp_spnet_load(&back, fuzz_path("net"), &other, NULL, &err) == WISP_ENOTSUP, "other");
    CHECK(wisp_spnet_load(&back, fuzz_path("net"), &less, NULL, &err) == WISP_ENOTSUP, "fewer");
    CHECK(wisp_netfile_open(&f, fuzz_path("net"), NULL, &err) == WISP_OK && f.n_layers == 2, "%s",
          err.text);
    for (size_t i = 0; i < f.n_layers; i++) {
        CHECK(wisp_netfile_layer(&view, &f, i, &err) == WISP_OK && (uintptr_t)view.in % 64 == 0,
              "%s", err.text);
        use_layer(&view);
    }
    wisp_netfile_close(&f);
    struct wisp_spinputs x;
    CHECK(wisp_spinputs_load(&x, fuzz_path("net"), NULL, NULL, &err) == WISP_EFORMAT &&
              strstr(err.text, "not inputs"),
          "%s", err.text);

    TEST("net file: what could not be loaded is not saved");
    net->layers[0].w[1] = NAN;
    CHECK(wisp_spnet_save(net, fuzz_path("bad"), NULL, &err) == WISP_EINVAL &&
              strstr(err.text, "layer 1: a weight"),
          "%s", err.text);
    net->layers[0].w[1] = 0;
    net->layers[0].out[0] = net->layers[0].out[1];
    CHECK(wisp_spnet_save(net, fuzz_path("bad"), NULL, &err) == WISP_EINVAL, "%s", err.text);
    CHECK(access(fuzz_path("bad"), F_OK) != 0, "and leaves no file");
    wisp_spnet_free(net);
}

/* Every byte flipped, every cut. */
static void damage(int seed)
{
    static uint8_t b[FUZZ_ROOM];
    const uint8_t *good = fuzz_seeds[seed] + FUZZ_HEAD;
    const size_t good_bytes = fuzz_seed_bytes[seed] - FUZZ_HEAD;
    for (size_t i = 0; i < good_bytes; i++) {
        memcpy(b, good, good_bytes);
        b[i] ^= (uint8_t)(1 << i % 8);
        CHECK(try_bytes(seed, b, good_bytes) == WISP_EFORMAT, "byte %zu of %zu", i, good_bytes);
        CHECK(try_bytes(seed, good, i) == WISP_EFORMAT, "cut %zu", i);
    }
    memcpy(b, good, good_bytes);
    b[good_bytes] = 0;
    CHECK(try_bytes(seed, b, good_bytes + 1) == WISP_EFORMAT, "a byte more");
}

/* Values that are wrong, with checksums that are right. */
static const struct {
    int seed;
    size_t at; /* of a net: layer 1 is at 64: head, in_start, in, out_start, out, biases, w */
    uint32_t v;
    const char *words;
} wrong[] = {
    { NET_SEED, 64 + 0, 0, "no inputs" },
    { NET_SEED, 64 + 0, 1, "inputs of a group" },
    { NET_SEED, 64 + 12, 14, "sizes" },
    { NET_SEED, 64 + 40, 1, "sizes" },
    { NET_SEED, 64 + 64, 1, "places of inputs" },
    { NET_SEED, 64 + 68, 1, "number of edges" },
    { NET_SEED, 64 + 128, 1, "inputs of a group" },
    { NET_SEED, 64 + 132, 2, "inputs of a group" },
    { NET_SEED, 64 + 196, 0, "places of outputs" },
    { NET_SEED, 64 + 256, 3, "outputs" },
    { NET_SEED, 64 + 256, 1, "outputs" },
    { NET_SEED, 64 + 320, 0x7fc00000, "not finite" },
    { NET_SEED, 64 + 384, 1, "number of edges" },
    { NET_SEED, 64 + 448, 0x7f800000, "a weight" },
    { NET_SEED, 64 + 512, 4, "layer 2: its width" },
    { NUMBERS_SEED, 64 + 0, 1, "values" },
    { NUMBERS_SEED, 64 + 8, 3, "values" },
    { NUMBERS_SEED, 64 + 24, 2, "values" },
    { NUMBERS_SEED, 128, 2, "values" },
    { NUMBERS_SEED, 136, 70, "values" },
    { NUMBERS_SEED, 192, 0x7fc00000, "values" },
    { BITS_SEED, 64 + 8, 64, "values" },
};

static void malice(void)
{
    static uint8_t b[FUZZ_ROOM];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const int seed = wrong[i].seed;
        const uint8_t *good = fuzz_seeds[seed] + FUZZ_HEAD;
        const size_t good_bytes = fuzz_seed_bytes[seed] - FUZZ_HEAD;
        memcpy(b, good, good_bytes);
        memcpy(b + wrong[i].at, &wrong[i].v, 4);
        checks_fix(b, good_bytes, &plan);
        CHECK(try_bytes(seed, b, good_bytes) == WISP_EFORMAT && strstr(err.text, wrong[i].words),
              "seed %d, %zu: %u: '%s', expected '%s'", wrong[i].seed, wrong[i].at, wrong[i].v,
              err.text, wrong[i].words);
    }
    const uint8_t *good = fuzz_seeds[NET_SEED] + FUZZ_HEAD;
    const size_t good_bytes = fuzz_seed_bytes[NET_SEED] - FUZZ_HEAD;
    memcpy(b, good, good_bytes);
    uint8_t *index = b + checks_get(b + good_bytes - 64);
    const uint64_t none[] = { 0, 5 }; /* 5 sources are as long as 2 layers and 2 sources */
    memcpy(index + 8, none, sizeof none);
    checks_fix(b, good_bytes, &plan);
    CHECK(try_bytes(NET_SEED, b, good_bytes) == WISP_EFORMAT && strstr(err.text, "index: parts"),
          "bytes that are in no part: %s", err.text);
    /* both layers' places and sizes, which together still reach from the head to the index */
    memcpy(b, good, good_bytes);
    const uint64_t end = checks_get(b + good_bytes - 64), first = checks_get(index + 64 + 8);
    const uint64_t places[][4] = {
        { 64, 0, 64, end - 64 },                          /* an empty part */
        { 64, first - 32, 32 + first, end - 32 - first }, /* parts that begin anywhere */
        { 64, UINT64_MAX - 63, 0, end },                  /* sizes that pass 2^64 together */
        { 64, first, first, end - first },                /* a part that begins in another */
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        memcpy(b, good, good_bytes);
        memcpy(index + 64, places[i], 16), memcpy(index + 64 + 24, places[i] + 2, 16);
        checks_fix(b, good_bytes, &plan);
        CHECK(try_bytes(NET_SEED, b, good_bytes) == WISP_EFORMAT &&
                  strstr(err.text, "index: parts"),
              "places %zu: %s", i, err.text);
    }
}

static void fuzz_tests(void)
{
    TEST("net file: damage at any byte and cuts are found");
    damage(NET_SEED);
    TEST("inputs file: damage at any byte and cuts are found");
    damage(NUMBERS_SEED);
    damage(BITS_SEED);
    TEST("net file: wrong values behind right checksums are found");
    malice();
    round_trip();
}
#endif

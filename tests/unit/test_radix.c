/* The official networks: degrees, block 0 against the definition and the official files,
 * permutations by block and seed, random topologies, whole nets. */
#include "test.h"
#include "base/text.h"
#include "base/mem.h"
#include "spdnn/spdnn.h"

#include <string.h>
#include <unistd.h>

struct layer {
    uint64_t *start;
    uint32_t *in;
};

static wisp_error err;

static struct layer make(const struct wisp_radix *r, size_t l)
{
    struct layer a = { malloc((r->n_neurons + 1) * sizeof *a.start),
                       malloc(32 * r->n_neurons * sizeof *a.in) };
    if (!a.start || !a.in) exit(2);
    memset(a.in, 0xff, 32 * r->n_neurons * sizeof *a.in);
    CHECK(wisp_radix_layer(a.start, a.in, r, l, &err) == WISP_OK, "%s", err.text);
    return a;
}

static void drop(struct layer a)
{
    free(a.start);
    free(a.in);
}

/* 32 ascending inputs an output; 'feeds': each input has 32 outputs. */
static void check_degrees(const struct wisp_radix *r, size_t l, bool feeds)
{
    uint32_t n = r->n_neurons, *fed = calloc(n, sizeof *fed);
    struct layer a = make(r, l);
    for (uint32_t o = 0; o < n; o++) {
        const uint32_t *in = a.in + (size_t)o * 32;
        CHECK(a.start[o] == 32 * (uint64_t)o, "start of %u is %lu", o, (unsigned long)a.start[o]);
        for (int k = 0; k < 32; k++) {
            CHECK(in[k] < n && (k == 0 || in[k] > in[k - 1]), "%u, layer %zu: input %d of %u is %u",
                  n, l, k, o, in[k]);
            if (in[k] < n) fed[in[k]]++;
        }
    }
    CHECK(a.start[n] == 32 * (uint64_t)n, "%lu edges", (unsigned long)a.start[n]);
    for (uint32_t i = 0; i < n && feeds; i++)
        CHECK(fed[i] == 32, "%u, layer %zu: input %u feeds %u outputs", n, l, i, fed[i]);
    drop(a);
    free(fed);
}

static bool has(const struct layer *a, uint32_t out, uint32_t in)
{
    for (int k = 0; k < 32; k++)
        if (a->in[(size_t)out * 32 + (size_t)k] == in) return true;
    return false;
}

/* Block 0 by its definition: input i, class i mod B, feeds classes r and r - 2^s. */
static void check_definition(uint32_t n)
{
    uint32_t n_classes = n / 16, bits = 0;
    while (1u << bits < n_classes) bits++;
    struct wisp_radix r = { .n_neurons = n, .n_layers = bits, .seed = 1 };
    for (uint32_t s = 0; s < bits; s++) {
        struct layer a = make(&r, s);
        for (uint32_t i = 0; i<n; i += n> 1024 ? 37 : 1) {
            uint32_t class = i % n_classes, other = (class + n_classes - (1u << s)) % n_classes;
            for (uint32_t t = 0; t < 16; t++) {
                CHECK(has(&a, class + t * n_classes, i), "%u, layer %u: no %u to its class", n, s,
                      i);
                CHECK(has(&a, other + t * n_classes, i), "%u, layer %u: no %u to the other", n, s,
                      i);
            }
        }
        drop(a);
    }
}

/* Classes of inputs of a layer, numbered by the smallest input: inputs of one class feed the same
 * outputs.  In the last layer of a block outputs c and c + B/2 have the same inputs, so classes are
 * told from layers whose distance is less. */
static void find_classes(uint32_t *class, const struct wisp_radix *r, size_t l)
{
    uint32_t n = r->n_neurons, n_classes = n / 16;
    uint32_t(*feeds)[2] = malloc(n * sizeof *feeds); /* smallest outputs, those below B */
    memset(feeds, 0xff, n * sizeof *feeds);
    struct layer a = make(r, l);
    for (uint32_t o = 0; o < n_classes; o++)
        for (int k = 0; k < 32; k++) {
            uint32_t *f = feeds[a.in[(size_t)o * 32 + (size_t)k]];
            f[f[0] != UINT32_MAX] = o;
        }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j <= i; j++)
            if (feeds[i][0] == feeds[j][0] && feeds[i][1] == feeds[j][1]) {
                class[i] = j;
                break;
            }
    drop(a);
    free(feeds);
}

static void test_blocks(void)
{
    enum { N = 256, NB = 4 };
    struct wisp_radix r = { .n_neurons = N, .n_layers = 3 * NB, .seed = 5 };
    uint32_t class[3 * NB][N];
    for (size_t l = 0; l < r.n_layers; l++) find_classes(class[l], &r, l);

    TEST("radix: layers of a block have one permutation");
    for (size_t l = 0; l < r.n_layers; l++)
        if (l % NB < NB - 1)
            CHECK(memcmp(class[l], class[l / NB * NB], sizeof class[l]) == 0,
                  "layer %zu has other classes than the first of its block", l);

    TEST("radix: each block has another permutation");
    for (size_t a = 0; a < 3; a++)
        for (size_t b = a + 1; b < 3; b++) {
            size_t same = 0;
            for (size_t i = 0; i < N; i++) same += class[a * NB][i] == class[b * NB][i];
            CHECK(same < N / 2, "blocks %zu and %zu: %zu of %d inputs have the same class", a, b,
                  same, N);
        }

    TEST("radix: a seed changes all but block 0");
    for (size_t l = 0; l < r.n_layers; l++) {
        struct wisp_radix other = r;
        other.seed = 6;
        struct layer a = make(&r, l), b = make(&other, l), c = make(&r, l);
        size_t bytes = 32 * N * sizeof *a.in;
        CHECK((memcmp(a.in, b.in, bytes) == 0) == (l < NB), "layer %zu", l);
        CHECK(memcmp(a.in, c.in, bytes) == 0, "layer %zu differs from itself", l);
        drop(a), drop(b), drop(c);
    }
}

static void test_random(void)
{
    struct wisp_radix r = { .n_neurons = 1000, .n_layers = 4, .random = true, .seed = 9 };
    for (size_t l = 0; l < 4; l++) check_degrees(&r, l, false);
    struct layer a = make(&r, 0), b = make(&r, 1);
    size_t bytes = 32 * 1000 * sizeof *a.in, fed[1000] = { 0 }, most = 0, least = 1000;
    CHECK(memcmp(a.in, b.in, bytes) != 0, "two layers are the same");
    for (size_t e = 0; e < 32000; e++) fed[a.in[e]]++;
    for (size_t i = 0; i < 1000; i++) {
        most = fed[i] > most ? fed[i] : most;
        least = fed[i] < least ? fed[i] : least;
    }
    CHECK(most < 32 + 34 && least > 5, "inputs feed %zu to %zu; 32 +- 5.6 would be random", least,
          most);
    size_t first = 0, last = 0; /* no place is preferred */
    for (size_t i = 0; i < 100; i++) first += fed[i], last += fed[900 + i];
    CHECK(first > 3000 && first < 3400 && last > 3000 && last < 3400, "%zu and %zu of 3200", first,
          last);
    drop(a);
    struct wisp_radix other = r;
    other.seed = 10;
    a = make(&other, 1);
    CHECK(memcmp(a.in, b.in, bytes) != 0, "two seeds give the same");
    drop(a), drop(b);
    struct wisp_radix all = { .n_neurons = 32, .n_layers = 1, .random = true };
    check_degrees(&all, 0, true);
}

/* Layer files of block 0: "input output value", from 1. */
static void check_official(const char *dir)
{
    struct wisp_radix r = { .n_neurons = 1024, .n_layers = 120, .seed = 3 };
    for (size_t l = 0; l < 6; l++) {
        char path[4200];
        snprintf(path, sizeof path, "%s/graphchallenge/neuron1024/n1024-l%zu.tsv", dir, l + 1);
        FILE *f = fopen(path, "r");
        CHECK(f, "cannot open %s", path);
        if (!f) return;
        struct layer a = make(&r, l);
        unsigned in, out, n = 0;
        double value;
        char row[100];
        for (; fgets(row, sizeof row, f) && wisp_scan(row, "%u %u %lf", &in, &out, &value) == 3;
             n++)
            CHECK(value == 1. / 16 && has(&a, out - 1, in - 1), "%s: %u %u %g is not here", path,
                  in, out, value);
        CHECK(n == 32 * 1024, "%s: %u edges", path, n);
        fclose(f);
        drop(a);
    }
}

static void test_official(void)
{
    const char *unpack = "../shared/data/unpack";
    if (access(unpack, X_OK) != 0) {
        SKIP("there is no ../shared/data/unpack beside this checkout");
        return;
    }
    char dir[4096] = "", command[80];
    snprintf(command, sizeof command, "%s graphchallenge", unpack);
    FILE *f = popen(command, "r");
    CHECK(f && fgets(dir, sizeof dir, f), "%s prints no folder", command);
    CHECK(f && pclose(f) == 0, "%s failed (is xz installed?)", command);
    dir[strcspn(dir, "\n")] = 0;
    check_official(dir);
}

static void check_net(const struct wisp_radix *r, struct wisp_pool *pool, float bias,
                      uint32_t n_groups)
{
    struct wisp_spnet *net = NULL;
    CHECK(wisp_radix_net(&net, r, pool, &err) == WISP_OK, "%s", err.text);
    if (!net) return;
    CHECK(net->n_layers == r->n_layers && net->clip == 32, "%zu layers, clip %g", net->n_layers,
          (double)net->clip);
    CHECK(net->n_edges == 32ull * r->n_neurons * r->n_layers, "%llu edges",
          (unsigned long long)net->n_edges);
    for (size_t l = 0; l < net->n_layers; l++) {
        const struct wisp_splayer *s = &net->layers[l];
        struct layer a = make(r, l);
        CHECK(s->bias == bias && s->weight == 1.f / 16 && !s->w && !s->biases, "layer %zu: %g %g",
              l, (double)s->bias, (double)s->weight);
        CHECK(s->n_groups == n_groups || (l % 6 == 5 && s->n_groups == n_groups / 2),
              "layer %zu: %u groups", l, s->n_groups);
        for (uint32_t g = 0; g < s->n_groups; g++)
            for (uint32_t k = s->out_start[g]; k < s->out_start[g + 1]; k++)
                CHECK(s->in_start[g + 1] - s->in_start[g] == 32 &&
                          memcmp(s->in + s->in_start[g], a.in + 32 * (size_t)s->out[k],
                                 32 * sizeof *a.in) == 0,
                      "layer %zu: group %u has other inputs than output %u", l, g, s->out[k]);
        drop(a);
    }
    wisp_spnet_free(net);
}

static void test_nets(void)
{
    struct wisp_pool *pool;
    if (wisp_pool_create(&pool, 4, &err) != WISP_OK) exit(2);
    struct wisp_radix r = { .n_neurons = 1024, .n_layers = 20, .seed = 2 };
    check_net(&r, pool, -0.3f, 64);
    check_net(&r, NULL, -0.3f, 64);
    r.random = true;
    check_net(&r, pool, -0.3f, 1024);
    wisp_pool_free(pool);
}

static void test_errors(void)
{
    static const struct wisp_radix bad[] = {
        { .n_neurons = 1000, .n_layers = 1 },
        { .n_neurons = 48, .n_layers = 1 },
        { .n_neurons = 16, .n_layers = 1 },
        { .n_neurons = 0, .n_layers = 1 },
        { .n_neurons = 1u << 27, .n_layers = 1 },
        { .n_neurons = 1024, .n_layers = 0 },
        { .n_neurons = 31, .n_layers = 1, .random = true },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct wisp_spnet *net = (void *)&err;
        CHECK(wisp_radix_net(&net, &bad[i], NULL, &err) == WISP_EINVAL && !net, "case %zu", i);
        CHECK(wisp_radix_layer(NULL, NULL, &bad[i], 0, &err) == WISP_EINVAL, "case %zu", i);
    }
    struct wisp_radix r = { .n_neurons = 64, .n_layers = 2 };
    CHECK(wisp_radix_layer(NULL, NULL, &r, 2, &err) == WISP_EINVAL, "layer 2 of 2");
}

static void test_memory(void)
{
    struct wisp_radix r = { .n_neurons = 64, .n_layers = 20, .seed = 1 };
    long live = atomic_load(&wisp_mem_live), n = 0;
    for (;; n++) {
        struct wisp_spnet *net = NULL;
        atomic_store(&wisp_mem_budget, n);
        wisp_status st = wisp_radix_net(&net, &r, NULL, &err);
        atomic_store(&wisp_mem_budget, -1);
        wisp_spnet_free(net);
        CHECK(atomic_load(&wisp_mem_live) == live, "after %ld: a leak", n);
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM && !net, "after %ld: %s", n, err.text);
    }
    CHECK(n > 100, "only %ld allocations", n);
}

int main(void)
{
    TEST("radix: 32 inputs per output, 32 outputs per input");
    for (uint32_t n = 32; n <= 65536; n *= n < 1024 ? 2 : 4) {
        struct wisp_radix r = { .n_neurons = n, .n_layers = 30, .seed = 7 };
        for (size_t l = 0; l<r.n_layers; l += n> 4096 ? 7 : 1) check_degrees(&r, l, true);
    }

    TEST("radix: block 0 is as defined");
    for (uint32_t n = 32; n <= 65536; n *= n < 1024 ? 2 : 4) check_definition(n);

    TEST("radix: block 0 is that of the official files");
    test_official();

    test_blocks();

    TEST("radix: random topologies");
    test_random();

    TEST("radix: biases and categories");
    CHECK(wisp_radix_bias(1024) == -0.3f && wisp_radix_bias(4096) == -0.35f &&
              wisp_radix_bias(16384) == -0.4f && wisp_radix_bias(65536) == -0.45f,
          "biases");
    CHECK(wisp_radix_bias(2048) == -0.3f, "bias of 2048");
    CHECK(wisp_radix_categories(1024, 120) == 1812 && wisp_radix_categories(4096, 480) == 1801 &&
              wisp_radix_categories(16384, 1920) == 1918 &&
              wisp_radix_categories(65536, 120) == 1994 && wisp_radix_categories(2048, 120) == -1 &&
              wisp_radix_categories(1024, 20) == -1,
          "categories");

    TEST("radix: whole nets");
    test_nets();

    TEST("radix: errors");
    test_errors();

    TEST("radix: failing allocations");
    test_memory();
    return test_end();
}

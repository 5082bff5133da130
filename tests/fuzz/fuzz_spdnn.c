/* Fuzzing the files of sparse networks: any bytes are refused, with a reason, or safe to use.
 *
 * Byte 0 of an input picks the reader, the rest is the file.  Text is read twice, in chunks of the
 * usual size by one thread and of a few bytes by three: both must end alike.  What is accepted is
 * walked through as running it would.
 *
 * With -DWISP_LIBFUZZER (clang -fsanitize=fuzzer) libFuzzer drives.  Otherwise main() replays the
 * files it is given, runs N seeded mutations of good files (fuzz_spdnn -n N), half of the binary
 * ones with checksums that match, so that the checks behind them are reached too; and it tries
 * every flip and cut of small files and compares random texts with what they say. */
#include "test.h"

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
#define XXH_INLINE_ALL
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum reader { LAYER, IMAGES, TRUTH, MTX, IDX, NET, INPUTS, N_READERS };
enum { WIDTH = 70, ROOM = 8192 };

static char folder[64];
static struct wisp_context one, three;
static wisp_error err;
static volatile unsigned sink; /* reads that must not be optimised away */

static void die(const char *why)
{
    fprintf(stderr, "fuzz_spdnn: %s (%s)\n", why, err.text);
    abort(); /* both drivers keep the input of an abort */
}

static const char *in_folder(const char *name) /* until the next call */
{
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void save(const char *name, const void *bytes, size_t n)
{
    int fd = open(in_folder(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n) die("cannot write");
    close(fd);
}

static void tear_down(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0) fprintf(stderr, "fuzz_spdnn: %s stays behind\n", folder);
    wisp_pool_free(three.pool);
}

/* A folder, in memory if there is such a place, in which no cache can be written. */
static void set_up(void)
{
    if (folder[0]) return;
    snprintf(folder, sizeof folder, "%s/wisp-fuzz-spdnn-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(folder) || wisp_pool_create(&three.pool, 3, &err) != WISP_OK) die("no folder");
    if (atexit(tear_down) != 0) die("no way to clean up");
    mkdir(in_folder("neuron70"), 0777);
    mkdir(in_folder("neuron70-l1.wispcache"), 0777);
    mkdir(in_folder("sparse-images-70.tsv.wispcache"), 0777);
    wisp_tsv_id_max = 1 << 12; /* arrays are as long as ids say */
}

/* ---- what is accepted ---- */

static void use_layer(const struct wisp_splayer *l)
{
    uint64_t n = 0;
    unsigned sum = 0;
    uint8_t *seen = calloc(l->n_out, 1);
    for (uint32_t g = 0; g < l->n_groups; g++) {
        if (l->in_start[g] > l->in_start[g + 1] || l->out_start[g] >= l->out_start[g + 1])
            die("places");
        for (uint32_t i = l->in_start[g]; i < l->in_start[g + 1]; i++)
            if (l->in[i] >= l->n_in || (i > l->in_start[g] && l->in[i] <= l->in[i - 1]))
                die("an input");
        for (uint32_t o = l->out_start[g]; o < l->out_start[g + 1]; o++) {
            if (l->out[o] >= l->n_out || seen[l->out[o]]++) die("an output");
            for (uint32_t i = l->in_start[g]; i < l->in_start[g + 1]; i++, n++) {
                const uint64_t m = l->out_start[g + 1] - l->out_start[g];
                if (l->w &&
                    !isfinite(l->w[l->w_start[g] + (i - l->in_start[g]) * m + o - l->out_start[g]]))
                    die("a weight");
            }
            if (l->biases && !isfinite(l->biases[l->out[o]])) die("a bias");
        }
    }
    for (uint32_t o = 0; o < l->n_out; o++) sum += seen[o];
    free(seen);
    if (sum != l->n_out || n != l->n_edges || !isfinite(l->weight) || !isfinite(l->bias))
        die("totals");
}

static void use_net(const struct wisp_spnet *net)
{
    if (!(net->clip > 0)) die("clip");
    for (size_t i = 0; i < net->n_layers; i++) {
        use_layer(&net->layers[i]);
        if (i && net->layers[i].n_in != net->layers[i - 1].n_out) die("widths");
    }
}

static void use_inputs(const struct wisp_spinputs *x)
{
    unsigned sum = 0;
    if (x->words != ((size_t)x->width + 63) / 64 || !x->bits == !x->start) die("shape");
    for (size_t r = 0; r < x->n; r++) {
        if (x->bits) {
            for (size_t k = 0; k < x->words; k++) sum += (unsigned)x->bits[r * x->words + k];
            if (x->width % 64 && x->bits[(r + 1) * x->words - 1] >> x->width % 64)
                die("a bit beyond the width");
            continue;
        }
        if (x->start[r] > x->start[r + 1]) die("places");
        for (uint64_t i = x->start[r]; i < x->start[r + 1]; i++)
            if (x->id[i] >= x->width || (i > x->start[r] && x->id[i] <= x->id[i - 1]) ||
                !isfinite(x->value[i]))
                die("a value");
    }
    sink = sum;
}

static bool same_inputs(const struct wisp_spinputs *a, const struct wisp_spinputs *b)
{
    if (a->n != b->n || a->width != b->width || !a->bits != !b->bits) return false;
    if (a->bits) return memcmp(a->bits, b->bits, 8 * a->n * a->words) == 0;
    return !memcmp(a->start, b->start, 8 * (a->n + 1)) &&
           !memcmp(a->id, b->id, 4 * a->start[a->n]) &&
           !memcmp(a->value, b->value, 4 * a->start[a->n]);
}

/* ---- readers ---- */

static wisp_status try_layer(const char *path)
{
    struct wisp_spnet *net;
    (void)path;
    wisp_status st = wisp_challenge_net(&net, folder, WIDTH, 1, &one, &err);
    if (!net != (st != WISP_OK)) die("an error, and a net");
    if (net) use_net(net);
    wisp_spnet_free(net);
    return st;
}

static wisp_status try_images(const char *path)
{
    struct wisp_spinputs x[2];
    wisp_status st[2];
    wisp_error first = { 0 };
    const size_t usual = wisp_tsv_chunk;
    (void)path;
    st[0] = wisp_challenge_inputs(&x[0], folder, WIDTH, &one, &first);
    wisp_tsv_chunk = 7;
    st[1] = wisp_challenge_inputs(&x[1], folder, WIDTH, &three, &err);
    wisp_tsv_chunk = usual;
    if (st[0] != st[1] || (st[0] != WISP_OK && strcmp(first.text, err.text) != 0))
        die("chunks change the outcome");
    if (st[0] == WISP_OK && !same_inputs(&x[0], &x[1])) die("chunks change the inputs");
    for (int i = 0; i < 2; i++) {
        if (st[i] == WISP_OK) use_inputs(&x[i]);
        else if (x[i].bits || x[i].start) die("an error, and inputs");
        wisp_spinputs_clear(&x[i]);
    }
    return st[0];
}

static wisp_status try_truth(const char *path)
{
    uint32_t *rows;
    size_t n;
    (void)path;
    wisp_status st = wisp_challenge_truth(&rows, &n, folder, WIDTH, 1, &err);
    if (!rows != (st != WISP_OK)) die("an error, and rows");
    for (size_t i = 1; i < n; i++)
        if (rows[i] <= rows[i - 1]) die("rows do not ascend");
    wisp_free(rows);
    return st;
}

static wisp_status try_mtx(const char *path)
{
    struct wisp_mtx m;
    struct wisp_splayer l;
    wisp_status st = wisp_mtx_read(&m, path, strlen(path) % 2, &err);
    if (!m.own.start != (st != WISP_OK)) die("an error, and edges");
    if (st == WISP_OK) {
        if (wisp_splayer_make(&l, &m.e, &err) != WISP_OK) die("edges that make no layer");
        use_layer(&l);
        wisp_splayer_clear(&l);
    }
    wisp_mtx_clear(&m);
    return st;
}

static wisp_status try_idx(const char *path)
{
    struct wisp_idx x;
    unsigned sum = 0;
    wisp_status st = wisp_idx_open(&x, path, 3, &err);
    if (st != WISP_OK) st = wisp_idx_open(&x, path, 1, &err);
    for (size_t i = 0; x.data && i < (size_t)x.size[0] * x.size[1] * x.size[2]; i++)
        sum += x.data[i];
    sink = sum;
    wisp_idx_close(&x);
    return st;
}

static wisp_status try_net(const char *path)
{
    struct wisp_spnet *net;
    wisp_status st = wisp_spnet_load(&net, path, NULL, NULL, &err);
    if (!net != (st != WISP_OK)) die("an error, and a net");
    if (net) use_net(net);
    wisp_spnet_free(net);
    return st;
}

static wisp_status try_inputs(const char *path)
{
    struct wisp_spinputs x;
    wisp_status st = wisp_spinputs_load(&x, path, NULL, NULL, &err);
    if (st == WISP_OK) use_inputs(&x);
    else if (x.bits || x.start) die("an error, and inputs");
    wisp_spinputs_clear(&x);
    return st;
}

static const struct {
    const char *file;
    wisp_status (*read)(const char *path);
} readers[] = { { "neuron70/n70-l1.tsv", try_layer },
                { "sparse-images-70.tsv", try_images },
                { "neuron70-l1-categories.tsv", try_truth },
                { "a.mtx", try_mtx },
                { "idx", try_idx },
                { "net", try_net },
                { "inputs", try_inputs } };

static wisp_status try_bytes(enum reader r, const uint8_t *data, size_t size)
{
    const long live = wisp_mem_live;
    save(readers[r].file, data, size);
    memset(&err, 0, sizeof err);
    wisp_status st = readers[r].read(in_folder(readers[r].file));
    if (st != WISP_OK && st != WISP_EFORMAT && st != WISP_ENOTSUP) die("another error");
    if (st != WISP_OK && (err.code != st || !err.text[0] || strchr(err.text, '\n')))
        die("an error without words");
    if (wisp_mem_live != live) die("memory leaked");
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    set_up();
    if (size > 0) try_bytes(data[0] % N_READERS, data + 1, size - 1);
    return 0;
}

#ifndef WISP_LIBFUZZER

static size_t slurp(const char *name, uint8_t *to, size_t room)
{
    int fd = open(in_folder(name), O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, to, room);
    if (n < 0 || (size_t)n == room) die("cannot read");
    close(fd);
    return (size_t)n;
}

/* ---- good files ---- */

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
    struct wisp_spnet *net = wisp_spnet_create(INFINITY);
    if (!net || wisp_spnet_add(net, &e1, &err) != WISP_OK ||
        wisp_spnet_add(net, &e2, &err) != WISP_OK)
        die("no net");
    net->layers[1].linear = true;
    net->n_edges = 77;
    return net;
}

enum { NET_SEED = 7, NUMBERS_SEED, BITS_SEED, N_SEEDS };
static struct seed {
    enum reader reader;
    size_t n;
    uint8_t bytes[ROOM];
} seeds[N_SEEDS] = {
    { LAYER, 0, "1\t1\t6.250000e-02\n3\t1\t6.250000e-02\n70\t2\t0.0625\n1\t2\t.5\r\n2 70 -1e3" },
    { IMAGES, 0, "3\t70\t1\n1\t1\t1\n3\t1\t1\n2\t64\t1\n" },
    { IMAGES, 0, "3\t70\t1\r\n1\t1\t1\r\n3\t1\t2.5\r\n2\t64\t-1\r\n3 2 1e-3" },
    { TRUTH, 0, "1\n7\n12\n4000\n" },
    { MTX, 0,
      "%%MatrixMarket matrix coordinate real general\n% x\n\n3 4 4\n3 1 2\n1 1 .5\n\n2 4 1e2\n1 2 "
      "-3\n" },
    { MTX, 0, "%%MatrixMarket matrix coordinate pattern general\n2 2 2\n2 2\n1 1\n" },
    { IDX, 22, { 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 1, 2, 3, 4, 5, 255 } },
    { NET, 0, { 0 } },
    { INPUTS, 0, { 0 } },
    { INPUTS, 0, { 0 } },
};

static void make_seeds(void)
{
    struct wisp_spnet *net = make_net();
    const struct wisp_file_id ids[] = { { 1, 2 }, { 3, 4 } };
    uint64_t start[] = { 0, 2, 2, 3 }, bits[] = { 1, 32, 0, 0 };
    uint32_t id[] = { 1, 2, 69 };
    float value[] = { 1, -2, 3 };
    const struct wisp_spinputs numbers = { 3, WIDTH, 2, NULL, start, id, value };
    const struct wisp_spinputs ones = { 2, WIDTH, 2, bits, NULL, NULL, NULL };
    if (wisp_spnet_save(net, in_folder("7"), &(struct wisp_sources){ ids, 2 }, &err) != WISP_OK ||
        wisp_spinputs_save(&numbers, in_folder("8"), NULL, &err) != WISP_OK ||
        wisp_spinputs_save(&ones, in_folder("9"), NULL, &err) != WISP_OK)
        die("cannot save");
    wisp_spnet_free(net);
    for (int i = 0; i < N_SEEDS; i++) {
        struct seed *s = &seeds[i];
        const char name[] = { (char)('0' + i), 0 };
        if (s->reader >= NET) s->n = slurp(name, s->bytes, ROOM);
        else if (s->n == 0) s->n = strlen((char *)s->bytes);
        CHECK(try_bytes(s->reader, s->bytes, s->n) == WISP_OK, "seed %d: %s", i, err.text);
    }
}

/* ---- mutations ---- */

static uint64_t get(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static void put_check(uint8_t *to, const uint8_t *p, size_t n)
{
    const uint64_t check = XXH3_64bits(p, n);
    memcpy(to, &check, sizeof check);
}

/* Makes the checksums of a binary file match what it holds, as far as its places make sense. */
static void fix_checks(uint8_t *b, size_t n)
{
    if (n < 192) return;
    uint8_t *tail = b + n - 64;
    const uint64_t at = get(tail), bytes = get(tail + 8);
    if (at <= n - 64 && bytes <= n - 64 - at && bytes >= 64) {
        const uint64_t parts = get(b + at + 8);
        for (uint64_t i = 0; i < parts && 64 + 24 * (i + 1) <= bytes; i++) {
            uint8_t *e = b + at + 64 + 24 * i;
            if (get(e) <= n && get(e + 8) <= n - get(e)) put_check(e + 16, b + get(e), get(e + 8));
        }
        put_check(tail + 16, b + at, bytes);
    }
    put_check(tail + 56, tail, 56);
}

static size_t mutate(uint8_t *b, size_t n, bool binary, uint64_t *s)
{
    static const char odd[] = "0123456789.-+eE \t\n\r%x\0\xff";
    for (size_t times = 1 + test_rand(s) % 4; times-- > 0 && n > 1;) {
        size_t at = test_rand(s) % n, len = 1 + test_rand(s) % 8;
        if (len > n - at) len = n - at;
        switch (test_rand(s) % (binary ? 3 : 5)) {
        case 0:
            b[at] ^= (uint8_t)(1 << test_rand(s) % 8);
            break;
        case 1:
            b[at] = binary ? (uint8_t)(test_rand(s) % 5)
                           : (uint8_t)odd[test_rand(s) % (sizeof odd - 1)];
            break;
        case 2: /* cut, rarely of a binary file: then all else is lost */
            if (!binary || test_rand(s) % 16 == 0) n = at;
            else memset(b + at, test_rand(s) % 2 ? 255 : 0, len);
            break;
        case 3: /* take out */
            memmove(b + at, b + at + len, n - at - len);
            n -= len;
            break;
        default: /* double */
            if (n + len > ROOM) break;
            memmove(b + at + len, b + at, n - at);
            n += len;
        }
    }
    return n;
}

static void mutations(long n)
{
    static uint8_t b[ROOM];
    long accepted = 0;
    for (long i = 0; i < n; i++) { /* input i depends on i alone: a failure can be run again */
        uint64_t s = 0x9e3779b97f4a7c15u * (uint64_t)(i + 1);
        const struct seed *from = &seeds[test_rand(&s) % N_SEEDS];
        memcpy(b, from->bytes, from->n);
        size_t len = mutate(b, from->n, from->reader >= NET, &s);
        if (from->reader >= NET && test_rand(&s) % 8) fix_checks(b, len);
        accepted += try_bytes(from->reader, b, len) == WISP_OK;
    }
    CHECK(n < 1000 || (accepted > n / 50 && accepted < n - n / 10), "%ld of %ld", accepted, n);
}

/* ---- binary files ---- */

static void round_trip(void)
{
    TEST("net file: all of a net comes back; layers can be looked at alone; sources");
    static uint8_t again[ROOM];
    const struct seed *seed = &seeds[NET_SEED];
    const struct wisp_file_id ids[] = { { 1, 2 }, { 3, 4 } }, others[] = { { 1, 2 }, { 3, 5 } };
    const struct wisp_sources src = { ids, 2 }, other = { others, 2 }, less = { ids, 1 };
    struct wisp_spnet *net = make_net(), *back;
    struct wisp_splayer view;
    struct wisp_netfile f;
    save("net", seed->bytes, seed->n);
    CHECK(wisp_spnet_load(&back, in_folder("net"), &src, three.pool, &err) == WISP_OK, "%s",
          err.text);
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
    CHECK(wisp_spnet_save(back, in_folder("again"), &src, &err) == WISP_OK &&
              slurp("again", again, ROOM) == seed->n && !memcmp(again, seed->bytes, seed->n),
          "saved again: other bytes");
    wisp_spnet_free(back);
    CHECK(wisp_spnet_load(&back, in_folder("net"), &other, NULL, &err) == WISP_ENOTSUP, "other");
    CHECK(wisp_spnet_load(&back, in_folder("net"), &less, NULL, &err) == WISP_ENOTSUP, "fewer");
    CHECK(wisp_netfile_open(&f, in_folder("net"), NULL, &err) == WISP_OK && f.n_layers == 2, "%s",
          err.text);
    for (size_t i = 0; i < f.n_layers; i++) {
        CHECK(wisp_netfile_layer(&view, &f, i, &err) == WISP_OK && (uintptr_t)view.in % 64 == 0,
              "%s", err.text);
        use_layer(&view);
    }
    wisp_netfile_close(&f);
    struct wisp_spinputs x;
    CHECK(wisp_spinputs_load(&x, in_folder("net"), NULL, NULL, &err) == WISP_EFORMAT &&
              strstr(err.text, "not inputs"),
          "%s", err.text);

    TEST("net file: what could not be loaded is not saved");
    net->layers[0].w[1] = NAN;
    CHECK(wisp_spnet_save(net, in_folder("bad"), NULL, &err) == WISP_EINVAL &&
              strstr(err.text, "layer 1: a weight"),
          "%s", err.text);
    net->layers[0].w[1] = 0;
    net->layers[0].out[0] = net->layers[0].out[1];
    CHECK(wisp_spnet_save(net, in_folder("bad"), NULL, &err) == WISP_EINVAL, "%s", err.text);
    CHECK(access(in_folder("bad"), F_OK) != 0, "and leaves no file");
    wisp_spnet_free(net);
}

/* Every byte flipped, every cut. */
static void damage(const struct seed *seed)
{
    static uint8_t b[ROOM];
    for (size_t i = 0; i < seed->n; i++) {
        memcpy(b, seed->bytes, seed->n);
        b[i] ^= (uint8_t)(1 << i % 8);
        CHECK(try_bytes(seed->reader, b, seed->n) == WISP_EFORMAT, "byte %zu of %zu", i, seed->n);
        CHECK(try_bytes(seed->reader, seed->bytes, i) == WISP_EFORMAT, "cut %zu", i);
    }
    memcpy(b, seed->bytes, seed->n);
    b[seed->n] = 0;
    CHECK(try_bytes(seed->reader, b, seed->n + 1) == WISP_EFORMAT, "a byte more");
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
    static uint8_t b[ROOM];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct seed *seed = &seeds[wrong[i].seed];
        memcpy(b, seed->bytes, seed->n);
        memcpy(b + wrong[i].at, &wrong[i].v, 4);
        fix_checks(b, seed->n);
        CHECK(try_bytes(seed->reader, b, seed->n) == WISP_EFORMAT &&
                  strstr(err.text, wrong[i].words),
              "seed %d, %zu: %u: '%s', expected '%s'", wrong[i].seed, wrong[i].at, wrong[i].v,
              err.text, wrong[i].words);
    }
    const struct seed *seed = &seeds[NET_SEED];
    memcpy(b, seed->bytes, seed->n);
    uint8_t *index = b + get(b + seed->n - 64);
    const uint64_t none[] = { 0, 5 }; /* 5 sources are as long as 2 layers and 2 sources */
    memcpy(index + 8, none, sizeof none);
    fix_checks(b, seed->n);
    CHECK(try_bytes(NET, b, seed->n) == WISP_EFORMAT && strstr(err.text, "index: parts"),
          "bytes that are in no part: %s", err.text);
}

/* ---- texts against what they say ---- */

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
    if (wisp_challenge_net(&net, folder, WIDTH, 1, &one, &err) != WISP_OK) die("random layer");
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
    if (wisp_challenge_inputs(&x, folder, WIDTH, &three, &err) != WISP_OK) die("random images");
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
        save(readers[layer ? LAYER : IMAGES].file, text, n);
        if (layer) check_layer(want);
        else check_images(want, ones);
        for (int i = 0; i < 20 * WIDTH; i++) left += want[i / WIDTH][i % WIDTH] != 0;
        CHECK(left == 0, "turn %d: %zu are missing", turn, left);
    }
    wisp_tsv_chunk = usual;
}

static void replay(const char *path)
{
    struct wisp_map m;
    if (wisp_map_open(&m, path, &err) != WISP_OK) die(path);
    LLVMFuzzerTestOneInput(m.p, m.bytes);
    wisp_map_close(&m);
}

int main(int argc, char **argv)
{
    long n = 20000;
    set_up();
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-n") == 0 && i + 1 < argc) n = atol(argv[++i]);
        else replay(argv[i]);
    }
    TEST("good files");
    make_seeds();
    TEST("net file: damage at any byte and cuts are found");
    damage(&seeds[NET_SEED]);
    TEST("inputs file: damage at any byte and cuts are found");
    damage(&seeds[NUMBERS_SEED]);
    damage(&seeds[BITS_SEED]);
    TEST("net file: wrong values behind right checksums are found");
    malice();
    round_trip();
    numbers();
    random_texts();
    TEST("mutations");
    mutations(n);
    return test_end();
}
#endif

/* Texts of nets: from an option, a preset or a file, and as a model keeps them. */
#include "folder_rig.h"
#include "base/mem.h"
#include "error_rig.h"
#include "model/net.h"
#include "model/nets.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static wisp_error err;

static bool same_layers(const char *a, const char *b)
{
    struct wisp_said *x = NULL, *y = NULL;
    int n = 0, m = 0;
    bool same = wisp_say_net(&x, &n, a, "a", wisp_layer_kind_at, &err) == WISP_OK &&
                wisp_say_net(&y, &m, b, "b", wisp_layer_kind_at, &err) == WISP_OK && n == m;
    for (int i = 0; same && i < n; i++)
        same = x[i].kind == y[i].kind && memcmp(x[i].arg, y[i].arg, sizeof x[i].arg) == 0 &&
               x[i].n_from == y[i].n_from && strcmp(x[i].name, y[i].name) == 0 &&
               memcmp(x[i].from, y[i].from, (size_t)x[i].n_from * sizeof *x[i].from) == 0;
    wisp_free(x);
    wisp_free(y);
    return same;
}

static void test_line(void)
{
    static const struct {
        const char *text, *line;
    } cases[] = {
        { "input 8,  relu ,", "input 8,  relu ," }, /* one line stays as it is */
        { "input 8\nrelu", "input 8, relu" },
        { "\n\n# a net\n\tinput\t 8 # wide\r\n\r\n relu\n", "input 8, relu" },
        { "input 8,\nrelu,\n", "input 8, relu," },
        { "input 8 # all of it", "input 8" },
        { "input 8\n2 x b (\n  dense 8 as fc\n  relu\n)\nrelu\n",
          "input 8, 2 x b (dense 8 as fc, relu), relu" },
        { "input 8\n2 x ( # twice\n2 x (\nrelu)\n)", "input 8, 2 x (2 x (relu))" },
        { "input 8 # (\n  relu", "input 8, relu" },
    };
    TEST("nets: a text on one line");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[200];
        wisp_net_line(line, cases[i].text);
        CHECK(strcmp(line, cases[i].line) == 0, "'%s': '%s', expected '%s'", cases[i].text, line,
              cases[i].line);
        CHECK(same_layers(cases[i].text, line), "'%s' says other layers: %s", line, err.text);
    }
    char line[9] = "x";
    wisp_net_line(line, "");
    CHECK(!line[0], "nothing: '%s'", line);
    wisp_net_line(line, "# x\n\n");
    CHECK(!line[0], "a comment: '%s'", line);
}

static void test_presets(void)
{
    struct wisp_layer_sizes sizes = { .batch = 4, .active = 4, .training = true };
    size_t n = 0;
    TEST("nets: presets");
    for (; wisp_presets[n].name; n++) {
        const struct wisp_preset *p = &wisp_presets[n];
        struct wisp_net_text t;
        struct wisp_net net;
        CHECK(!wisp_layer_kind_find(p->name), "'%s' is also a layer", p->name);
        CHECK(p->text[0] == '#', "'%s' does not say what it is", p->name);
        CHECK(wisp_net_text_read(&t, p->name, &err) == WISP_OK, "%s", err.text);
        CHECK(strcmp(t.text, p->text) == 0 && same_layers(t.text, t.line), "'%s': '%s'", p->name,
              t.line);
        const bool images = strncmp(t.line, "image", 5) == 0;
        sizes.image = (struct wisp_shape){ images ? 3 : 0, { 3, 224, 224 } };
        CHECK(wisp_net_plan_text(&net, t.text, t.where, images ? 3 * 224 * 224 : 100, 4, &sizes,
                                 &err) == WISP_OK,
              "%s", err.text);
        wisp_net_clear(&net);
        wisp_net_text_clear(&t);
        sizes.image.rank = 0;
        /* In a model file a name means nothing. */
        CHECK(wisp_net_plan(&net, p->name, 100, 4, &sizes, &err) == WISP_EINVAL &&
                  strstr(err.text, "there is no layer"),
              "%s", err.text);
    }
    CHECK(n >= 3, "only %zu", n);
    struct wisp_net_text t;
    struct wisp_net net;
    CHECK(wisp_net_text_read(&t, "two-branch", &err) == WISP_OK &&
              wisp_net_plan_text(&net, t.text, t.where, 1 << 20, 4, &sizes, &err) == WISP_EINVAL &&
              strstr(err.text, "nets/two-branch.net:7:1: 'sparse' takes up to 65536 features"),
          "%s", err.text);
    wisp_net_text_clear(&t);
}

/* As PyTorch counts them. */
static void test_known(void)
{
    static const struct {
        const char *name;
        struct wisp_shape image;
        size_t labels, weights;
        double macs, first; /* multiplications of an image; of the first layer with weights */
        const char *some;   /* a parameter of it */
    } known[] = {
        { "lenet", { 3, { 1, 28, 28 } }, 10, 61706, 416520, 117600, "conv2.weight" },
        { "resnet18-cifar",
          { 3, { 3, 32, 32 } },
          10,
          11173962,
          555422720,
          1769472,
          "layer2-0-downsample-0.weight" },
        { "resnet18",
          { 3, { 3, 224, 224 } },
          1000,
          11689512,
          1814073344,
          118013952,
          "layer1.1.bn2.running_var" },
        { "alexnet",
          { 3, { 3, 224, 224 } },
          1000,
          61100840,
          714188480,
          70276800,
          "features-10.bias" },
        { "vgg16",
          { 3, { 3, 224, 224 } },
          1000,
          138357544,
          15470264320,
          86704128,
          "classifier-6.weight" },
    };
    TEST("nets: as many weights and multiplications as PyTorch's, and its names");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const struct wisp_layer_sizes sizes = {
            .batch = 4, .active = known[i].labels, .training = true, .image = known[i].image
        };
        struct wisp_net_text t;
        struct wisp_net net;
        CHECK(wisp_net_text_read(&t, known[i].name, &err) == WISP_OK &&
                  wisp_net_plan_text(&net, t.text, t.where, wisp_units(known[i].image),
                                     known[i].labels, &sizes, &err) == WISP_OK,
              "%s", err.text);
        bool found = false;
        for (size_t k = 0; k < net.list.n; k++)
            found |= strcmp(net.list.p[k].name, known[i].some) == 0;
        CHECK(found, "%s: no %s", known[i].name, known[i].some);
        CHECK(wisp_net_n_params(&net) == known[i].weights, "%s: %zu weights, expected %zu",
              known[i].name, wisp_net_n_params(&net), known[i].weights);
        CHECK(wisp_net_flops(&net, false) == 2 * known[i].macs, "%s: %.0f, expected 2 x %.0f",
              known[i].name, wisp_net_flops(&net, false), known[i].macs);
        /* A step has three of each, but images have no gradient. */
        CHECK(wisp_net_flops(&net, true) == 2 * (3 * known[i].macs - known[i].first),
              "%s: %.0f in training", known[i].name, wisp_net_flops(&net, true));
        wisp_net_clear(&net);
        wisp_net_text_clear(&t);
    }
    const struct wisp_layer_sizes small = {
        .batch = 4, .active = 4, .training = true, .image = { 3, { 3, 32, 32 } }
    };
    struct wisp_net_text t;
    struct wisp_net net;
    CHECK(wisp_net_text_read(&t, "alexnet", &err) == WISP_OK &&
              wisp_net_plan_text(&net, t.text, t.where, 3072, 4, &small, &err) == WISP_EINVAL &&
              strstr(err.text, "nets/alexnet.net:16:1: 'maxpool' has a kernel of 3x3, larger than "
                               "what it reads, 256 x 1 x 1 (channels x height x width)"),
          "%s", err.text);
    wisp_net_text_clear(&t);
}

static void test_files(void)
{
    const struct wisp_layer_sizes sizes = { .batch = 4, .active = 4, .training = true };
    static const char good[] = "# mine\ninput 8\n\nrelu # max\n", bad[] = "input 8\n  dens 4\n",
                      rows[] = "input 8\nrelu\nfrom rows\nrelu", zero[] = "input 8\0, relu";
    struct wisp_net_text t;
    struct wisp_net net;
    char want[300];
    TEST("nets: files");
    CHECK(wisp_net_text_read(&t, save_in("good.net", good, sizeof good - 1), &err) == WISP_OK, "%s",
          err.text);
    CHECK(strcmp(t.text, good) == 0 && strcmp(t.line, "input 8, relu") == 0 &&
              strcmp(t.where, in_folder("good.net")) == 0,
          "'%s' '%s' '%s'", t.text, t.line, t.where);
    wisp_net_text_clear(&t);
    CHECK(wisp_net_text_read(&t, save_in("bad.net", bad, sizeof bad - 1), &err) == WISP_OK, "%s",
          err.text);
    wisp_status st = wisp_net_plan_text(&net, t.text, t.where, 5, 4, &sizes, &err);
    snprintf(want, sizeof want, "%s:2:3: there is no layer 'dens'", in_folder("bad.net"));
    CHECK(st == WISP_EINVAL && strncmp(err.text, want, strlen(want)) == 0 && err.line == 2 &&
              err.file_bytes == strlen(t.where) && err.place_bytes == strlen(t.where) + 6,
          "'%s', line %zu", err.text, err.line);
    wisp_net_text_clear(&t);
    CHECK(wisp_net_text_read(&t, save_in("rows.net", rows, sizeof rows - 1), &err) == WISP_OK, "%s",
          err.text);
    st = wisp_net_plan_text(&net, t.text, t.where, 5, 4, &sizes, &err);
    snprintf(want, sizeof want, "%s:4:1: the first layer must be", in_folder("rows.net"));
    CHECK(st == WISP_EINVAL && strncmp(err.text, want, strlen(want)) == 0, "'%s'", err.text);
    wisp_net_text_clear(&t);
    CHECK(wisp_net_text_read(&t, save_in("empty.net", "", 0), &err) == WISP_OK &&
              wisp_net_plan_text(&net, t.text, t.where, 5, 4, &sizes, &err) == WISP_EINVAL &&
              strstr(err.text, "empty.net:1:1: a net without a layer"),
          "'%s'", err.text);
    wisp_net_text_clear(&t);

    static const char windows[] = "\xef\xbb\xbf"
                                  "\tinput 8\r\n# words\r\n\r\nrelu\t\r\n";
    CHECK(wisp_net_text_read(&t, save_in("bom.net", windows, sizeof windows - 1), &err) ==
                  WISP_OK &&
              strcmp(t.line, "input 8, relu") == 0,
          "'%s' '%s'", err.text, t.line);
    wisp_net_text_clear(&t);
    static const char mark[] = "\xef\xbb\xbf"
                               "relu";
    CHECK(wisp_net_text_read(&t, save_in("mark.net", mark, sizeof mark - 1), &err) == WISP_OK &&
              strcmp(t.line, "relu") == 0,
          "no blank behind the mark: '%s' '%s'", err.text, t.line);
    wisp_net_text_clear(&t);
    CHECK(wisp_net_text_read(&t, save_in("mark.net", mark, 3), &err) == WISP_OK && !*t.line,
          "a mark alone: '%s' '%s'", err.text, t.line);
    wisp_net_text_clear(&t);

    TEST("nets: what is refused");
    CHECK(wisp_net_text_read(&t, save_in("zero.net", zero, sizeof zero - 1), &err) == WISP_EINVAL &&
              strstr(err.text, "zero.net: a zero byte at 7") && place_agrees(&err) && !t.text,
          "'%s'", err.text);
    char *large = malloc(1 << 17);
    memset(large, ' ', 1 << 17);
    CHECK(wisp_net_text_read(&t, save_in("full.net", large, 1 << 16), &err) == WISP_OK, "%s",
          err.text);
    wisp_net_text_clear(&t);
    CHECK(wisp_net_text_read(&t, save_in("large.net", large, (1 << 16) + 1), &err) == WISP_EINVAL &&
              strstr(err.text, "a net of 65537 characters, expected at most 65536"),
          "'%s'", err.text);
    free(large);
    CHECK(wisp_net_text_read(&t, in_folder("none.net"), &err) == WISP_EIO &&
              strstr(err.text, "none.net: "),
          "'%s'", err.text);
    CHECK(mkdir(in_folder("folder.net"), 0777) == 0 &&
              wisp_net_text_read(&t, in_folder("folder.net"), &err) == WISP_EIO,
          "'%s'", err.text);
    CHECK(wisp_net_text_read(&t, "mpl", &err) == WISP_EINVAL &&
              strstr(err.text, "--net: there is no net and no layer 'mpl'; did you mean 'mlp'?"),
          "'%s'", err.text);
    CHECK(wisp_net_text_read(&t, "inception", &err) == WISP_EINVAL &&
              strstr(err.text, "'inception'; 'wisp info' lists them"),
          "'%s'", err.text);
    CHECK(!t.text && !t.line && !t.where, "an error, and a text");
}

/* A word of a net is no file's name, and no preset. */
static void test_words(void)
{
    static const char *const texts[] = {
        "relu",        "input 8",           "mlp, relu",
        "b.net, relu", "sparse mask=b.net", "input 8, 2 x b (relu as net), add b.0.net"
    };
    TEST("nets: texts that are nets themselves");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct wisp_net_text t = { 0 };
        CHECK(wisp_net_text_read(&t, texts[i], &err) == WISP_OK && strcmp(t.text, texts[i]) == 0 &&
                  strcmp(t.line, texts[i]) == 0 && strcmp(t.where, "--net") == 0,
              "'%s': %s", texts[i], err.text);
        wisp_net_text_clear(&t);
    }
}

static void test_memory(void)
{
    const char *const what[] = { "mlp", in_folder("good.net"), "input 8" };
    TEST("nets: failing allocations");
    for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
        const long before = wisp_mem_live;
        wisp_status st = WISP_ENOMEM;
        for (long n = 0; n < 50 && st != WISP_OK; n++) {
            struct wisp_net_text t;
            wisp_mem_budget = n;
            st = wisp_net_text_read(&t, what[i], &err);
            wisp_mem_budget = -1;
            CHECK(st == WISP_OK || st == WISP_ENOMEM, "'%s': %d %s", what[i], st, err.text);
            wisp_net_text_clear(&t);
            CHECK(wisp_mem_live == before, "'%s' after %ld left something", what[i], n);
        }
        CHECK(st == WISP_OK, "'%s': %s", what[i], err.text);
    }
}

int main(void)
{
    if (!mkdtemp(folder)) return 1;
    test_line();
    test_presets();
    test_known();
    test_files();
    test_words();
    test_memory();
    return folder_end();
}

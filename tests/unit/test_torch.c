/* Weights by PyTorch's names: those of torchvision's own nets, plain files, failing memory.  What the
 * numbers mean is cli/test_exchange.sh's. */
#include "folder_rig.h"
#include "base/mem.h"
#include "layer/image.h"
#include "model/model.h"
#include "model/nets.h"
#include "model/torch.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static wisp_error err;
static float numbers[512]; /* zeros: running variances are looked at */

/* ---- names and shapes ---- */

static struct wisp_tensor tensors[400];

/* The tensors of a net as tests/golden/torch_names.txt has them, which tests/exchange_torch.py wrote. */
static size_t golden(const char *net)
{
    char line[200], name[64], key[64], type[8];
    size_t n = 0;
    FILE *f = fopen("tests/golden/torch_names.txt", "r");
    CHECK(f, "tests/golden/torch_names.txt: tests run in the checkout's folder");
    while (f && fgets(line, sizeof line, f)) {
        struct wisp_tensor *t = &tensors[n];
        size_t *dim = t->shape;
        *t = (struct wisp_tensor){ .data = numbers, .finite = true };
        int found = sscanf(line, "%63s %63s %7s %zu %zu %zu %zu", name, key, type, dim, dim + 1,
                           dim + 2, dim + 3);
        if (found < 3 || strcmp(name, net) != 0) continue;
        t->n_dims = found - 3;
        t->dtype = strcmp(type, "I64") == 0 ? WISP_I64 : WISP_F32;
        memcpy(t->name, key, strlen(key) + 1);
        n++;
    }
    if (f) fclose(f);
    return n;
}

static wisp_status plan(struct wisp_net *net, const char *name, struct wisp_image image,
                        size_t labels)
{
    struct wisp_net_text text;
    struct wisp_layer_sizes sizes = { .batch = 2,
                                      .image = wisp_image_shape(image),
                                      .loss = wisp_loss_find("softmax") };
    wisp_status st = wisp_net_text_read(&text, name, &err);
    if (st != WISP_OK) return st;
    st = wisp_net_plan_text(net, text.text, name,
                            (size_t)image.channels * image.height * image.width, labels, &sizes,
                            &err);
    wisp_net_text_clear(&text);
    return st;
}

static void test_names(void)
{
    static const struct {
        const char *name;
        struct wisp_image image;
        size_t n, labels;
    } nets[] = { { "alexnet", { 3, 224, 224 }, 16, 1000 },
                 { "vgg16", { 3, 224, 224 }, 32, 1000 },
                 { "resnet18", { 3, 224, 224 }, 122, 1000 },
                 { "resnet18-cifar", { 3, 32, 32 }, 122, 10 },
                 { "lenet", { 1, 28, 28 }, 10, 10 } };
    TEST("torch: the nets that wisp brings along have torchvision's names and shapes");
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        struct wisp_net net;
        struct wisp_tensor_file f = { .n_tensors = golden(nets[i].name), .tensors = tensors };
        CHECK(f.n_tensors == nets[i].n, "%s: %zu tensors", nets[i].name, f.n_tensors);
        CHECK(plan(&net, nets[i].name, nets[i].image, nets[i].labels) == WISP_OK, "%s", err.text);
        CHECK(wisp_torch_check(&f, nets[i].name, &net, true, &err) == WISP_OK, "%s", err.text);
        CHECK(wisp_torch_labels(&f, &net) == nets[i].labels, "%s: labels", nets[i].name);
        for (size_t k = 0; k < f.n_tensors; k++) { /* each of them is looked at */
            struct wisp_tensor was = tensors[k];
            const bool head = k + 2 >= f.n_tensors; /* weight and bias, the last ones */
            tensors[k].n_dims = 3;
            CHECK(wisp_torch_check(&f, "x", &net, true, &err) == WISP_EMODEL &&
                      strstr(err.text, was.name) && strstr(err.text, "the net's is"),
                  "%s: %s: %s", nets[i].name, was.name, err.text);
            CHECK(head || wisp_torch_check(&f, "x", &net, false, &err) == WISP_EMODEL,
                  "%s: %s is not looked at", nets[i].name, was.name);
            tensors[k] = was;
        }
        tensors[nets[i].n - 1].shape[0] = tensors[nets[i].n - 2].shape[0] = 7;
        CHECK(wisp_torch_check(&f, "x", &net, false, &err) == WISP_OK, "other labels: %s",
              err.text);
        CHECK(wisp_torch_check(&f, "x", &net, true, &err) == WISP_EMODEL, "other labels");
        wisp_net_clear(&net);
    }
}

/* ---- plain files ---- */

static void test_plain(void)
{
    static const float w[3] = { 1, -2, 3 };
    static const int64_t one = 1;
    static const uint16_t halves[2][2] = { { 0x3c00, 0x7bff }, { 0x7c00, 0 } }; /* 1, 65504; inf */
    const struct wisp_tensor t[] = { { "count", WISP_I64, 0, { 0 }, &one, 8, true, { 0 } },
                                     { "w", WISP_F32, 1, { 3 }, w, 12, true, { 0 } },
                                     { "h", WISP_F16, 1, { 2 }, halves[0], 4, true, { 0 } },
                                     { "inf", WISP_F16, 2, { 1, 2 }, halves[1], 4, false, { 0 } } };
    const struct wisp_pair meta[] = { { "format", "pt" }, { "a", "b" } };
    struct wisp_tensor_file f;
    const char *path = in_folder("plain");
    TEST("torch: plain files hold the tensors and nothing else");
    CHECK(wisp_tensor_file_write_plain(path, t, 4, meta, 2, &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_torch_is(path), "a plain file");
    CHECK(wisp_tensor_file_open(&f, NULL, path, &err) == WISP_EMODEL &&
              strstr(err.text, "not written by wisp; 'wisp convert'"),
          "%s", err.text);
    CHECK(wisp_tensor_file_open_plain(&f, NULL, path, &err) == WISP_OK, "%s", err.text);
    CHECK(f.n_tensors == 4 && f.n_meta == 2 && strlen(f.check) == 32, "%zu tensors", f.n_tensors);
    for (size_t i = 0; i < f.n_tensors; i++) {
        const struct wisp_tensor *got = wisp_tensor_file_find(&f, t[i].name);
        CHECK(got && got->dtype == t[i].dtype && got->n_dims == t[i].n_dims &&
                  got->bytes == t[i].bytes && memcmp(got->data, t[i].data, t[i].bytes) == 0 &&
                  got->finite == t[i].finite,
              "%s", t[i].name);
    }
    wisp_tensor_file_close(&f);
    CHECK(wisp_tensor_file_write(path, t, 4, meta, 2, NULL, &err) == WISP_OK, "%s", err.text);
    CHECK(!wisp_torch_is(path), "one of wisp's own");
    CHECK(!wisp_torch_is("/none") && !wisp_torch_is("tests/golden/torch_names.txt"), "others");
}

/* ---- there and back ---- */

static const char small[] = "image, conv 2 3 as c-0, bn as b, flatten, dense 3 as d, output as o";

/* Weights of a small net, in a plain file. */
static void write_weights(const char *path)
{
    static float x[100];
    const struct wisp_tensor t[] = {
        { "c.0.weight", WISP_F32, 4, { 2, 1, 3, 3 }, x, 72, true, { 0 } },
        { "c.0.bias", WISP_F32, 1, { 2 }, x + 1, 8, true, { 0 } },
        { "b.weight", WISP_F32, 1, { 2 }, x + 2, 8, true, { 0 } },
        { "b.bias", WISP_F32, 1, { 2 }, x + 3, 8, true, { 0 } },
        { "b.running_mean", WISP_F32, 1, { 2 }, x + 4, 8, true, { 0 } },
        { "b.running_var", WISP_F32, 1, { 2 }, x + 5, 8, true, { 0 } },
        { "d.weight", WISP_F32, 2, { 3, 8 }, x + 6, 96, true, { 0 } },
        { "d.bias", WISP_F32, 1, { 3 }, x + 7, 12, true, { 0 } },
        { "o.weight", WISP_F32, 2, { 4, 3 }, x + 8, 48, true, { 0 } },
        { "o.bias", WISP_F32, 1, { 4 }, x + 9, 16, true, { 0 } }
    };
    const struct wisp_pair meta[] = {
        { "net", small }, { "image", "1 x 2 x 2" }, { "mean", "0.25" }, { "std", "0.5" }
    };
    for (int i = 0; i < 100; i++) x[i] = 1 + (float)i / 64;
    CHECK(wisp_tensor_file_write_plain(path, t, sizeof t / sizeof *t, meta, 4, &err) == WISP_OK,
          "%s", err.text);
}

static void test_model(void)
{
    const char *from = in_folder("from"), *to = in_folder("to");
    wisp_context *ctx = NULL;
    wisp_config *cfg = NULL;
    wisp_report *report = NULL;
    struct wisp_model *m = NULL;
    TEST("torch: a model of a file that says all; dense layers are turned");
    write_weights(from);
    CHECK(wisp_context_create(&ctx, 1, &err) == WISP_OK &&
              wisp_config_create(&cfg, &err) == WISP_OK,
          "%s", err.text);
    CHECK(wisp_model_import(&report, ctx, from, cfg, to, &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_model_open(&m, NULL, to, &err) == WISP_OK, "%s", err.text);
    if (m) {
        const struct wisp_param *mean = wisp_net_image(&m->net)->params;
        CHECK(mean[WISP_IMAGE_MEAN].w[0] == 0.25f && mean[WISP_IMAGE_SCALE].w[0] == 2, "means");
        for (size_t i = 0; i < m->net.list.n; i++) {
            const struct wisp_param *p = &m->net.list.p[i];
            if (strcmp(p->name, "d.weight") != 0) continue;
            for (size_t a = 0; a < 8; a++)
                for (size_t b = 0; b < 3; b++)
                    CHECK(p->w[3 * a + b] == 1 + (float)(6 + 8 * b + a) / 64, "d.weight");
        }
        CHECK(m->net.n_labels == 4 && strcmp(m->loss->name, "softmax") == 0, "%s", m->loss->name);
    }
    wisp_report_free(report);
    wisp_model_free(m);

    TEST("torch: without memory there is an error and no more");
    for (long n = 0;; n++) {
        wisp_mem_budget = n;
        wisp_status st = wisp_model_import(&report, ctx, from, cfg, to, &err);
        wisp_mem_budget = -1;
        wisp_report_free(report);
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM, "after %ld: %s", n, err.text);
    }
    CHECK(wisp_model_open(&m, NULL, to, &err) == WISP_OK, "%s", err.text);
    for (long n = 0; m; n++) {
        wisp_mem_budget = n;
        wisp_status st = wisp_model_export(m, from, &err);
        wisp_mem_budget = -1;
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM, "after %ld: %s", n, err.text);
    }
    wisp_model_free(m);

    TEST("torch: of a model that somebody cuts meanwhile nothing is written");
    const size_t was = wisp_map_copy_max;
    wisp_map_copy_max = 100;
    CHECK(wisp_model_open(&m, NULL, to, &err) == WISP_OK, "%s", err.text);
    CHECK(truncate(to, 200) == 0, "cannot cut");
    CHECK(m && wisp_model_export(m, in_folder("cut"), &err) != WISP_OK &&
              strstr(err.text, "was cut") && access(in_folder("cut"), F_OK) != 0,
          "%s", err.text);
    wisp_model_free(m);
    wisp_map_copy_max = was;
    wisp_config_free(cfg);
    wisp_context_free(ctx);
    CHECK(wisp_mem_live == 0, "%zu blocks are left", (size_t)wisp_mem_live);
}

int main(void)
{
    if (!mkdtemp(folder)) return 1;
    test_names();
    test_plain();
    test_model();
    return folder_end();
}

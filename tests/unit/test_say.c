/* The net language: what texts mean, and what is said of those that mean nothing. */
#include "test.h"
#include "base/mem.h"
#include "layer/layer.h"
#include "model/net.h"

#include <string.h>

static wisp_error err;

/* Layers as text: "kind(args)<values it reads>", named "NAME:" where they have names. */
static const char *show(const struct wisp_said *s, int n)
{
    static char out[1 << 15];
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        at += (size_t)snprintf(out + at, sizeof out - at, "%s%s%s%s", i ? " " : "", s[i].name,
                               s[i].name[0] ? ":" : "", s[i].kind->name);
        const struct wisp_arg *args = s[i].kind->args;
        bool open = false;
        for (int k = 0; args && args[k].name; k++) {
            if (args[k].type == WISP_ARG_WORD && s[i].arg[k] < 0) continue; /* no word */
            at +=
                (size_t)snprintf(out + at, sizeof out - at, "%s%g", open ? "," : "(", s[i].arg[k]);
            open = true;
        }
        if (open) at += (size_t)snprintf(out + at, sizeof out - at, ")");
        for (int k = 0; k < s[i].n_from; k++)
            at += (size_t)snprintf(out + at, sizeof out - at, "%s%d", k ? "+" : "<", s[i].from[k]);
    }
    return out;
}

static const struct wisp_layer_kind *(*kinds)(size_t i) = wisp_layer_kind_at;

/* want NULL: it is refused. */
static void says(const char *text, const char *want)
{
    struct wisp_said *s;
    int n;
    wisp_status st = wisp_say_net(&s, &n, text, "--net", kinds, &err);
    CHECK((st == WISP_OK) == !!want, "'%s': %s", text, err.text);
    if (st == WISP_OK && want)
        CHECK(strcmp(show(s, n), want) == 0, "'%s':\n  %s\n  %s", text, show(s, n), want);
    wisp_free(s);
}

static void test_meaning(void)
{
    TEST("say: lines of layers");
    says("input 256, relu, dropout 0.3", "input(256)<0 relu<1 dropout(0.3)<2 output<3");
    says("input 8", "input(8)<0 output<1");
    says("  input   width=8 ,relu,", "input(8)<0 relu<1 output<2");
    says("input 8, relu, output", "input(8)<0 relu<1 output<2");
    says("input 1e2", "input(100)<0 output<1");
    says("input 8, output loss=softmax", "input(8)<0 output(0)<1");
    says("input 8, output loss=bce as last,", "input(8)<0 last:output(1)<1");
    says("sparse radix 64, relu, sparse random 32 9",
         "sparse(0,64,32,0,0,0)<0 relu<1 sparse(1,32,9,0,0,0)<2 output<3");
    says("sparse width=64 form=random inputs=5", "sparse(1,64,5,0,0,0)<0 output<1");
    says("sparse random inputs=5 64", "sparse(1,64,5,0,0,0)<0 output<1");
    says("input 8 # rows\n\n  relu # max\r\n# nothing\ndense 4\n",
         "input(8)<0 relu<1 dense(4)<2 output<3");
    says("input 8,\nrelu", "input(8)<0 relu<1 output<2");

    TEST("say: names and branches");
    says("input 8 as a, relu", "a:input(8)<0 relu<1 output<2");
    says("input 8, as a, relu, add a", "input(8)<0 relu<1 add<2+1 output<3");
    says("input 8 as a, relu as b, from a, clip 2, add b a, output",
         "a:input(8)<0 b:relu<1 clip(2)<1 add<3+2+1 output<4");
    says("input 8 as left, from rows, input 8, concat left",
         "left:input(8)<0 input(8)<0 concat<2+1 output<3");
    says("input 8, as a, add a", "input(8)<0 add<1+1 output<2");
    says("input 8, as a, as b, add a b", "input(8)<0 add<1+1+1 output<2");

    TEST("say: repeats");
    says("input 8, 2 x (dense 8, relu)", "input(8)<0 dense(8)<1 relu<2 dense(8)<3 relu<4 output<5");
    says("input 8, 1 x(relu),", "input(8)<0 relu<1 output<2");
    says("input 8, 2 x (as x, relu, add x), relu",
         "input(8)<0 relu<1 add<2+1 relu<3 add<4+3 relu<5 output<6");
    says("input 8, 2 x b (dense 8 as fc, relu as r), add b.0.fc b.1.r",
         "input(8)<0 b.0.fc:dense(8)<1 b.0.r:relu<2 b.1.fc:dense(8)<3 b.1.r:relu<4 add<5+2+5 "
         "output<6");
    says("input 8, 2 x o (2 x i (relu as r)), add o.0.i.1.r",
         "input(8)<0 o.0.i.0.r:relu<1 o.0.i.1.r:relu<2 o.1.i.0.r:relu<3 o.1.i.1.r:relu<4 "
         "add<5+3 output<6");
    says("input 8, 2 x o (1 x i (relu as r), add i.0.r)",
         "input(8)<0 o.0.i.0.r:relu<1 add<2+2 o.1.i.0.r:relu<3 add<4+4 output<5");
    says("input 8, 2 x (1 x i (relu as r))", "input(8)<0 relu<1 relu<2 output<3");
    says("input 8, 2 x (1 x i (relu as r), add i.0.r)",
         "input(8)<0 relu<1 add<2+2 relu<3 add<4+4 output<5");
    says("input 8, 2 x b (relu as b, add b)",
         "input(8)<0 b.0.b:relu<1 add<2+2 b.1.b:relu<3 add<4+4 output<5");
    says("input 8, conv 16 3x5 stride=2 pad=1 bias=no",
         "input(8)<0 conv(16,12293,2,4097,1,1)<1 output<2");
    says("input 8, conv 16 3", "input(8)<0 conv(16,12291,1,0,1,0)<1 output<2");
    says("input 8, conv 65536 200 pad=0x1024 groups=65536",
         "input(8)<0 conv(65536,819400,1,1024,65536,0)<1 output<2");
    says("input 8, maxpool 2, avgpool 3x2 1 0x1",
         "input(8)<0 maxpool(8194,0,0)<1 avgpool(12290,1,1)<2 output<3");
    says("input 8 as a, 1 x (relu as a), add a", "a:input(8)<0 relu<1 add<2+1 output<3");
    says("input 8, 3 x b (relu as r), add b.0.r, add b.1.r",
         "input(8)<0 b.0.r:relu<1 b.1.r:relu<2 b.2.r:relu<3 add<4+2 add<5+3 output<6");
    says("input 8 as in, relu, output as out", "in:input(8)<0 relu<1 out:output<2");
    says("input 8\n2 x (\n  relu\n\n  dense 8,\n)\nrelu",
         "input(8)<0 relu<1 dense(8)<2 relu<3 dense(8)<4 relu<5 output<6");
}

/* A kind that has arguments and reads several values. */
static const struct wisp_layer_kind *with_mix(size_t i)
{
    static const struct wisp_arg args[] = {
        { .name = "how", .type = WISP_ARG_WORD, .words = "sum|max|least" },
        { .name = "share", .type = WISP_ARG_REAL, .most = 1, .fallback = "0.25" },
        { .name = NULL },
    };
    static const struct wisp_layer_kind mix = {
        .name = "mix", .args = args, .least_from = 1, .most_from = 3
    };
    return i ? wisp_layer_kind_at(i - 1) : &mix;
}

static void test_mixed(void)
{
    TEST("say: arguments, then names of values");
    kinds = with_mix;
    says("input 8 as a, mix max", "a:input(8)<0 mix(1,0.25)<1 output<2");
    says("input 8 as a, mix sum a", "a:input(8)<0 mix(0,0.25)<1+1 output<2");
    says("input 8 as sum, mix least 0.5 sum sum", "sum:input(8)<0 mix(2,0.5)<1+1+1 output<2");
    says("input 8 as a, mix max a 0.5", "a:input(8)<0 mix(1,0.5)<1+1 output<2");
    says("input 8 as a, mix a=1 how=max", NULL);
    says("input 8 as a, mix max 2 a", NULL);
    says("input 8 as a, mix a max", NULL);
    says("input 8 as a, mix max a a a", NULL);
    kinds = wisp_layer_kind_at;
}

/* Numbers of as many digits as there is room for. */
static void test_digits(void)
{
    char text[100] = "input ";
    TEST("say: long numbers");
    memset(text + 6, '0', 62);
    strcpy(text + 6 + 62, "8");
    says(text, "input(8)<0 output<1");
    strcat(text, " ");
    memmove(text + 7, text + 6, 65);
    text[6] = '0';
    says(text, NULL);
}

int main(void)
{
    test_meaning();
    test_mixed();
    test_digits();
    return test_end();
}

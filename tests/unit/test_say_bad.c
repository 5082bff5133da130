/* The net language: what is said of texts that mean nothing, and where; limits; failing
 * allocations. */
#include "test.h"
#include "base/mem.h"
#include "model/net.h"

#include <string.h>
#include <time.h>

static wisp_error err;
static size_t n_refused;

struct bad {
    const char *text;
    int line, column;
    const char *why; /* a piece of the message */
};

static const struct bad kinds[] = {
    { "Input 8", 1, 1, "did you mean 'input'?" },
    { "inptu 8", 1, 1, "did you mean 'input'?" },
    { "inputs 8", 1, 1, "did you mean 'input'?" },
    { "inpt 8", 1, 1, "did you mean 'input'?" },
    { "nput 8", 1, 1, "did you mean 'input'?" },
    { "INPUT 8", 1, 1, "did you mean 'input'?" },
    { "input 8, dens 4", 1, 10, "there is no layer 'dens'; did you mean 'dense'?" },
    { "input 8, desne 4", 1, 10, "did you mean 'dense'?" },
    { "input 8, Dense 4", 1, 10, "did you mean 'dense'?" },
    { "input 8, densee 4", 1, 10, "did you mean 'dense'?" },
    { "input 8, den 4", 1, 10, "did you mean 'dense'?" },
    { "input 8, relu6", 1, 10, "did you mean 'relu'?" },
    { "input 8, ReLU", 1, 10, "did you mean 'relu'?" },
    { "input 8, reul", 1, 10, "did you mean 'relu'?" },
    { "input 8, rleu", 1, 10, "did you mean 'relu'?" },
    { "input 8, rel", 1, 10, "did you mean 'relu'?" },
    { "input 8, dropuot 0.3", 1, 10, "did you mean 'dropout'?" },
    { "input 8, drop 0.3", 1, 10, "did you mean 'dropout'?" },
    { "input 8, dropout0.3", 1, 10, "did you mean 'dropout'?" },
    { "input 8, drop-out 0.3", 1, 10, "did you mean 'dropout'?" },
    { "input 8, dropouts 0.3", 1, 10, "did you mean 'dropout'?" },
    { "input 8, sampel 4", 1, 10, "did you mean 'sampled'?" },
    { "input 8, sample 4", 1, 10, "did you mean 'sampled'?" },
    { "input 8, sparce random 4", 1, 10, "did you mean 'sparse'?" },
    { "input 8, spars random 4", 1, 10, "did you mean 'sparse'?" },
    { "input 8 as a, relu, ad a", 1, 21, "there is no layer 'ad'; did you mean 'a" },
    { "input 8 as a, relu, added a", 1, 21, "did you mean 'add'?" },
    { "input 8 as a, relu, conct a", 1, 21, "did you mean 'concat'?" },
    { "input 8 as a, relu, concatenate a", 1, 21, "did you mean 'concat'?" },
    { "input 8 as a, relu, cat a", 1, 21, "there is no layer 'cat'" },
    { "input 8, flat", 1, 10, "did you mean 'flatten'?" },
    { "input 8, flaten", 1, 10, "did you mean 'flatten'?" },
    { "input 8, ident", 1, 10, "did you mean 'identity'?" },
    { "input 8, identiy", 1, 10, "did you mean 'identity'?" },
    { "input 8, clp 4", 1, 10, "did you mean 'clip'?" },
    { "input 8, clipp 4", 1, 10, "did you mean 'clip'?" },
    { "input 8, outptu", 1, 10, "did you mean 'output'?" },
    { "input 8, Output", 1, 10, "did you mean 'output'?" },
    { "input 8, form rows", 1, 10, "did you mean 'from'?" },
    { "input 8 as a, From a", 1, 15, "did you mean 'from'?" },
    { "input\xc2\xa0"
      "8",
      1, 1, "there is no layer 'input<U+00A0>8'" },
    { "input 8, sparse mask=\xc3\xa9\xe6\x97\xa5.tsv, dens 4", 1, 30, "there is no layer 'dens'" },
    { "input 8, re\xfflu", 1, 10, "there is no layer 're?lu'" },
    { "input 8, softmax", 1, 10, "there is no layer 'softmax'; 'wisp info' lists the kinds" },
    { "input 8, lstm 4", 1, 10, "'wisp info' lists the kinds" },
    { "mlp", 1, 1, "there is no layer 'mlp'" },
    { "x", 1, 1, "there is no layer 'x'" },
    { "rows", 1, 1, "there is no layer 'rows'" },
    { "linear 8", 1, 1, "there is no layer 'linear'" },
    { "input 8, a-word-that-is-longer-than-any-kind-of-layer-could-be", 1, 10,
      "there is no layer 'a-word-that-is-longe...'" },
};
static const struct bad arguments[] = {
    { "input", 1, 6, "'input' needs width: a whole number from 1 to 1048576; found the end" },
    { "input,", 1, 6, "found ','" },
    { "input, relu", 1, 6, "found ','" },
    { "input\nrelu", 1, 6, "found the end of the line" },
    { "input # wide", 1, 13, "found the end" },
    { "input )", 1, 7, "found ')'" },
    { "input as a, relu", 1, 7, "found 'as'" },
    { "input 0", 1, 7, "'input' needs width: a whole number from 1 to 1048576; found '0'" },
    { "input -0", 1, 7, "found '-0'" },
    { "input -1", 1, 7, "found '-1'" },
    { "input -8, relu", 1, 7, "found '-8'" },
    { "input 0.5", 1, 7, "found '0.5'" },
    { "input 1.5", 1, 7, "found '1.5'" },
    { "input 1e-3", 1, 7, "found '1e-3'" },
    { "input 1048577", 1, 7, "found '1048577'" },
    { "input 1048576.5", 1, 7, "found '1048576.5'" },
    { "input 1e7", 1, 7, "found '1e7'" },
    { "input 1e400", 1, 7, "found '1e400'" },
    { "input -1e400", 1, 7, "found '-1e400'" },
    { "input 1e", 1, 7, "found '1e'" },
    { "input e5", 1, 7, "found 'e5'" },
    { "input 1e+", 1, 7, "found '1e+'" },
    { "input +", 1, 7, "found '+'" },
    { "input -", 1, 7, "found '-'" },
    { "input .", 1, 7, "found '.'" },
    { "input --8", 1, 7, "found '--8'" },
    { "input 8-", 1, 7, "found '8-'" },
    { "input 8.8.8", 1, 7, "found '8.8.8'" },
    { "input nan", 1, 7, "found 'nan'" },
    { "input NaN", 1, 7, "found 'NaN'" },
    { "input inf", 1, 7, "found 'inf'" },
    { "input -inf", 1, 7, "found '-inf'" },
    { "input infinity", 1, 7, "found 'infinity'" },
    { "input 0x10", 1, 7, "found '0x10'" },
    { "input 0x1p3", 1, 7, "found '0x1p3'" },
    { "input 8k", 1, 7, "found '8k'" },
    { "input 8_000", 1, 7, "found '8_000'" },
    { "input 1,000", 1, 9, "found '000'" },
    { "input \"8\"", 1, 7, "found '\"8\"'" },
    { "input eight", 1, 7, "found 'eight'" },
    { "input relu", 1, 7, "found 'relu'" },
    { "input 8;", 1, 7, "found '8;'" },
    { "input 8/2", 1, 7, "found '8/2'" },
    { "input 00000000000000000000000000000000000000000000000000000000000000008", 1, 7,
      "found '00000000000000000000...'" },
    { "input 8 9", 1, 9, "'input' takes no more arguments, expected ',' or the end, found '9'" },
    { "input 8 relu", 1, 9,
      "'input' takes no more arguments, expected ',' or the end, found 'relu'" },
    { "input 8 rows", 1, 9, "expected ',' or the end, found 'rows'" },
    { "input 8 8 8", 1, 9, "found '8'" },
    { "input width=", 1, 13,
      "'input' needs width: a whole number from 1 to 1048576; found the end" },
    { "input width=, relu", 1, 13, "found ','" },
    { "input width= 8", 1, 13, "found '8'" },
    { "input width=0", 1, 13, "found '0'" },
    { "input width=nan", 1, 13, "found 'nan'" },
    { "input width=1048577", 1, 13, "found '1048577'" },
    { "input width==8", 1, 13, "found '=8'" },
    { "input width=8=8", 1, 13, "found '8=8'" },
    { "input 8 width=8", 1, 15, "'input' has its width already" },
    { "input width=8 width=8", 1, 21, "'input' has its width already" },
    { "input width=8 9", 1, 15, "takes no more arguments" },
    { "input Width=8", 1, 7, "'input' has no argument 'Width'; did you mean 'width'?" },
    { "input widht=8", 1, 7, "did you mean 'width'?" },
    { "input wid=8", 1, 7, "did you mean 'width'?" },
    { "input units=8", 1, 7, "'input' has no argument 'units'; its arguments: width" },
    { "input =8", 1, 7, "'input' has no argument ''; its arguments: width" },
    { "input ==8", 1, 7, "has no argument ''" },
    { "input width =8", 1, 7,
      "'input' needs width: a whole number from 1 to 1048576; found 'width'" },
    { "input 8 =", 1, 9, "has no argument ''" },
    { "input 8 loss=softmax", 1, 9, "has no argument 'loss'" },
    { "input 8, dense", 1, 15, "'dense' needs width" },
    { "input 8, dense 0", 1, 16,
      "'dense' needs width: a whole number from 1 to 1048576; found '0'" },
    { "input 8, dense 1048577", 1, 16, "found '1048577'" },
    { "input 8, dense 2.5", 1, 16, "found '2.5'" },
    { "input 8, dense inf", 1, 16, "found 'inf'" },
    { "input 8, dense 4 4", 1, 18, "'dense' takes no more arguments" },
    { "input 8, dense 4 bias=no", 1, 18, "'dense' has no argument 'bias'; its arguments: width" },
    { "input 8, sampled", 1, 17, "'sampled' needs width" },
    { "input 8, sampled 0", 1, 18, "'sampled' needs width" },
    { "input 8, sampled 4 4", 1, 20, "'sampled' takes no more arguments" },
    { "input 8, relu 3", 1, 15, "'relu' takes no arguments, expected ',' or the end, found '3'" },
    { "input 8, relu relu", 1, 15, "'relu' takes no arguments" },
    { "input 8, relu slope=0.1", 1, 15, "'relu' has no argument 'slope'; it has none" },
    { "input 8, relu width=8", 1, 15, "'relu' has no argument 'width'; it has none" },
    { "input 8, flatten 2", 1, 18, "'flatten' takes no arguments" },
    { "input 8, identity 2", 1, 19, "'identity' takes no arguments" },
    { "input 8, dropout", 1, 17,
      "'dropout' needs share: a number from 0 to below 1; found the end" },
    { "input 8, dropout 1", 1, 18, "'dropout' needs share: a number from 0 to below 1; found '1'" },
    { "input 8, dropout 1.0", 1, 18, "found '1.0'" },
    { "input 8, dropout 1e0", 1, 18, "found '1e0'" },
    { "input 8, dropout -0.1", 1, 18, "found '-0.1'" },
    { "input 8, dropout -1e-300", 1, 18, "found '-1e-300'" },
    { "input 8, dropout 1.0000001", 1, 18, "found '1.0000001'" },
    { "input 8, dropout nan", 1, 18, "found 'nan'" },
    { "input 8, dropout 30%", 1, 18, "found '30%'" },
    { "input 8, dropout 0,3", 1, 20, "expected a layer, or a repeat" },
    { "input 8, dropout 0.3x", 1, 18, "found '0.3x'" },
    { "input 8, dropout 0.3 0.3", 1, 22, "'dropout' takes no more arguments" },
    { "input 8, dropout rate=0.3", 1, 18, "'dropout' has no argument 'rate'" },
    { "input 8, dropout p=0.3", 1, 18, "'dropout' has no argument 'p'; its arguments: share" },
    { "input 8, dropout share=0.3 share=0.3", 1, 34, "'dropout' has its share already" },
    { "input 8, conv", 1, 14, "'conv' needs channels: a whole number from 1 to 65536; found the" },
    { "input 8, conv 3", 1, 16,
      "'conv' needs kernel: HEIGHTxWIDTH or one number for both, from 1 to 1024; found the end" },
    { "input 8, conv 0 3", 1, 15, "'conv' needs channels" },
    { "input 8, conv 65537 3", 1, 15, "found '65537'" },
    { "input 8, conv 3x3", 1, 15, "'conv' needs channels: a whole number from 1 to 65536; found " },
    { "input 8, conv 3 0", 1, 17, "found '0'" },
    { "input 8, conv 3 3x0", 1, 17, "from 1 to 1024; found '3x0'" },
    { "input 8, conv 3 0x3", 1, 17, "found '0x3'" },
    { "input 8, conv 3 1025", 1, 17, "found '1025'" },
    { "input 8, conv 3 3x1025", 1, 17, "found '3x1025'" },
    { "input 8, conv 3 4097x3", 1, 17, "found '4097x3'" },
    { "input 8, conv 3 3x", 1, 17, "found '3x'" },
    { "input 8, conv 3 x3", 1, 17, "found 'x3'" },
    { "input 8, conv 3 x", 1, 17, "found 'x'" },
    { "input 8, conv 3 3xx3", 1, 17, "found '3xx3'" },
    { "input 8, conv 3 3x3x3", 1, 17, "found '3x3x3'" },
    { "input 8, conv 3 3X3", 1, 17, "found '3X3'" },
    { "input 8, conv 3 3*3", 1, 17, "found '3*3'" },
    { "input 8, conv 3 2.5", 1, 17, "found '2.5'" },
    { "input 8, conv 3 3x2.5", 1, 17, "found '3x2.5'" },
    { "input 8, conv 3 -3", 1, 17, "found '-3'" },
    { "input 8, conv 3 3x-3", 1, 17, "found '3x-3'" },
    { "input 8, conv 3 nan", 1, 17, "found 'nan'" },
    { "input 8, conv 3 3xinf", 1, 17, "found '3xinf'" },
    { "input 8, conv 3 same", 1, 17, "found 'same'" },
    { "input 8, conv 3 3 x 3", 1, 19, "'conv' takes no more arguments, expected ',' or the end" },
    { "input 8, conv 3 3 2", 1, 19, "'conv' takes no more arguments" },
    { "input 8, conv 3 kernel=", 1, 24, "found the end" },
    { "input 8, conv 3 kernel=3 3", 1, 26, "takes no more arguments" },
    { "input 8, conv 3 3 kernel=3", 1, 26, "'conv' has its kernel already" },
    { "input 8, conv 3 3 stride=0", 1, 26, "'conv' needs stride: a whole number from 1 to 1024" },
    { "input 8, conv 3 3 stride=2x2", 1, 26, "found '2x2'" },
    { "input 8, conv 3 3 pad=-1", 1, 23, "'conv' needs pad: HEIGHTxWIDTH or one number for both" },
    { "input 8, conv 3 3 pad=1025", 1, 23, "from 0 to 1024; found '1025'" },
    { "input 8, conv 3 3 pad=same", 1, 23, "found 'same'" },
    { "input 8, conv 3 3 padding=1", 1, 19, "'conv' has no argument 'padding'; did you mean 'pad" },
    { "input 8, conv 3 3 groups=0", 1, 26, "'conv' needs groups: a whole number from 1 to 65536" },
    { "input 8, conv 3 3 bias=0", 1, 24, "'conv' needs bias: yes or no; found '0'" },
    { "input 8, conv 3 3 bias=none", 1, 24, "found 'none'" },
    { "input 8, conv2d 3 3", 1, 10, "did you mean 'conv'?" },
    { "input 8, maxpool", 1, 17, "'maxpool' needs kernel: HEIGHTxWIDTH or one number for both" },
    { "input 8, maxpool 17", 1, 18, "from 1 to 16; found '17'" },
    { "input 8, maxpool 2 0", 1, 20, "'maxpool' needs stride: a whole number from 1 to 16" },
    { "input 8, maxpool 2 2 1 1", 1, 24, "'maxpool' takes no more arguments" },
    { "input 8, maxpool 2 ceil=yes", 1, 20, "'maxpool' has no argument 'ceil'" },
    { "input 8, max_pool 2", 1, 10, "did you mean 'maxpool'?" },
    { "input 8, avgpool 1025", 1, 18, "found '1025'" },
    { "input 8, avgpool 2 2 -1", 1, 22, "'avgpool' needs pad" },
    { "input 8, globalavg 7", 1, 20, "'globalavg' takes no arguments" },
    { "input 8, batchnorm", 1, 10, "there is no layer 'batchnorm'" },
    { "input 8, clip", 1, 14, "'clip' needs most" },
    { "input 8, clip -1", 1, 15, "'clip' needs most: a number from 0 to 1e+30; found '-1'" },
    { "input 8, clip 2e30", 1, 15, "found '2e30'" },
    { "input 8, clip 1e31", 1, 15, "found '1e31'" },
    { "input 8, clip 3 4", 1, 17, "'clip' takes no more arguments" },
    { "input 8, clip least=3", 1, 15, "'clip' has no argument 'least'" },
    { "sparse", 1, 7, "'sparse' needs form: radix or random or kept; found the end" },
    { "sparse 64", 1, 8, "'sparse' needs form: radix or random or kept; found '64'" },
    { "sparse radixes 64", 1, 8, "found 'radixes'" },
    { "sparse Radix 64", 1, 8, "found 'Radix'" },
    { "sparse rad 64", 1, 8, "found 'rad'" },
    { "sparse radix|random 64", 1, 8, "found 'radix|random'" },
    { "sparse | 64", 1, 8, "found '|'" },
    { "sparse form= 64", 1, 13, "'sparse' needs form: radix or random or kept; found '64'" },
    { "sparse form=dense 64", 1, 13, "found 'dense'" },
    { "sparse form=random form=radix 64", 1, 25, "'sparse' has its form already" },
    { "sparse random form=random 64", 1, 20, "'sparse' has its form already" },
    { "sparse radix", 1, 13, "'sparse' needs width" },
    { "sparse radix 0", 1, 14,
      "'sparse' needs width: a whole number from 1 to 1048576; found '0'" },
    { "sparse radix 1048577", 1, 14, "found '1048577'" },
    { "sparse random 64 0", 1, 18,
      "'sparse' needs inputs: a whole number from 1 to 1024; found '0'" },
    { "sparse random 64 1025", 1, 18, "found '1025'" },
    { "sparse random 64 2.5", 1, 18, "found '2.5'" },
    { "sparse random 64 inputs=-1", 1, 25, "found '-1'" },
    { "sparse random 64 inputs=4 inputs=4", 1, 34, "has its inputs already" },
    { "sparse random fan=4", 1, 15, "'sparse' has no argument 'fan'" },
    { "input 8, sparse mask=my dir/c.tsv", 1, 25,
      "found 'dir/c.tsv' (the name of a file ends at a blank)" },
};
static const struct bad names[] = {
    { "input 8 as", 1, 11,
      "expected a name (a letter, then letters, digits, '_', '-' or '.'), found the end" },
    { "input 8 as, relu", 1, 11, "found ','" },
    { "input 8, as", 1, 12, "found the end" },
    { "input 8, as, relu", 1, 12, "found ','" },
    { "input 8, as\nrelu", 1, 12, "found the end of the line" },
    { "input 8, as )", 1, 13, "found ')'" },
    { "input 8, as (", 1, 13, "found '('" },
    { "input 8 as 8", 1, 12, "found '8'" },
    { "input 8 as 8a", 1, 12, "found '8a'" },
    { "input 8 as _a", 1, 12, "found '_a'" },
    { "input 8 as -a", 1, 12, "found '-a'" },
    { "input 8 as .a", 1, 12, "found '.a'" },
    { "input 8 as a.", 1, 12, "found 'a.'" },
    { "input 8 as a.0.b, 2 x a (dense 8 as b)", 1, 19, "the name 'a.0.b' is there already" },
    { "input 8 as b.0.a.1.x, 2 x b (3 x a (dense 8 as x))", 1, 23,
      "the name 'b.0.a.1.x' is there already" },
    { "input 8 as a=b", 1, 12, "found 'a=b'" },
    { "input 8 as a!", 1, 12, "found 'a!'" },
    { "input 8 as a'", 1, 12, "found 'a''" },
    { "input 8 as a/b", 1, 12, "found 'a/b'" },
    { "input 8 as aaaaaaaaaabbbbbbbbbbccccccccccddddddddddd", 1, 12,
      "the name 'aaaaaaaaaabbbbbbbbbb...' has 41 characters, expected at most 40" },
    { "input 8 as input", 1, 12, "'input' is a word of the language, expected a name of your own" },
    { "input 8 as dense", 1, 12, "'dense' is a word of the language" },
    { "input 8 as output", 1, 12, "'output' is a word of the language" },
    { "input 8 as as", 1, 12, "'as' is a word of the language" },
    { "input 8 as from", 1, 12, "'from' is a word of the language" },
    { "input 8 as rows", 1, 12, "'rows' is a word of the language" },
    { "input 8, as relu", 1, 13, "'relu' is a word of the language" },
    { "input 8 as votes", 1, 12, "'votes' is the name of another part of a model" },
    { "input 8, 2 x calibration (relu)", 1, 14, "is the name of another part of a model" },
    { "input 8 as a, relu as a", 1, 23, "the name 'a' is there already" },
    { "input 8 as a, as a", 1, 18, "the name 'a' is there already" },
    { "input 8, as a, relu, as a, relu", 1, 25, "the name 'a' is there already" },
    { "input 8 as a b", 1, 14, "expected ',' or the end, found 'b'" },
    { "input 8 as a as b", 1, 14, "expected ',' or the end, found 'as'" },
    { "input 8, as a b", 1, 15, "expected ',' or the end, found 'b'" },
    { "input 8, from a", 1, 15,
      "there is no value 'a' before this place; 'as NAME' behind a layer names what it gives" },
    { "input 8, from a, relu as a", 1, 15, "there is no value 'a' before this place" },
    { "input 8, 2 x left (relu), add lfet", 1, 31, "before this place; 'as NAME' behind a layer" },
    { "input 8 as left, relu, add lfet", 1, 28,
      "there is no value 'lfet' before this place; did you mean 'left'?" },
    { "input 8 as left, relu, add Left", 1, 28, "did you mean 'left'?" },
    { "input 8, relu, add b, relu as b", 1, 20, "there is no value 'b' before this place" },
    { "input 8, relu, add a.0.b", 1, 20, "there is no value 'a.0.b'" },
    { "input 8, from", 1, 14, "expected the name of a value, found the end" },
    { "input 8, from, relu", 1, 14, "found ','" },
    { "input 8, from 8", 1, 15, "expected the name of a value, found '8'" },
    { "input 8, from relu", 1, 15, "expected the name of a value, found 'relu'" },
    { "input 8, from as", 1, 15, "expected the name of a value, found 'as'" },
    { "input 8, from from", 1, 15, "expected the name of a value, found 'from'" },
    { "input 8 as a, from a b", 1, 22, "expected ',' or the end, found 'b'" },
    { "input 8 as a, from a as b", 1, 22, "expected ',' or the end, found 'as'" },
    { "input 8, from rows rows", 1, 20, "expected ',' or the end, found 'rows'" },
    { "from a", 1, 6, "there is no value" },
    { "as input, input 8", 1, 4, "is a word of the language" },
};
static const struct bad joins[] = {
    { "input 8, add", 1, 10,
      "'add' reads at least 2 values: the one before it, and others by name, as in 'add a'" },
    { "input 8, relu, add, relu", 1, 16, "'add' reads at least 2 values" },
    { "input 8, concat", 1, 10, "'concat' reads at least 2 values" },
    { "input 8, concat as a", 1, 10, "'concat' reads at least 2 values" },
    { "input 8 as a, relu, add a a a a a a a a", 1, 39,
      "'add' reads at most 8 values; join some of them first" },
    { "input 8 as a, relu, concat a a a a a a a a a a", 1, 42, "'concat' reads at most 8 values" },
    { "input 8 as a, relu, add 3", 1, 25, "expected the name of a value, found '3'" },
    { "input 8 as a, relu, add relu", 1, 25, "expected the name of a value, found 'relu'" },
    { "input 8 as a, relu, add rows", 1, 25, "expected the name of a value, found 'rows'" },
    { "input 8 as a, relu, add from", 1, 25, "expected the name of a value, found 'from'" },
    { "input 8 as a, relu, add a=3", 1, 25, "'add' has no argument 'a'; it has none" },
    { "input 8 as a, relu, add inputs=a", 1, 25, "'add' has no argument 'inputs'; it has none" },
    { "input 8 as a, relu, add a +", 1, 27, "expected the name of a value, found '+'" },
    { "input 8 as a, relu, add, a", 1, 21, "'add' reads at least 2 values" },
    { "input 8 as a, relu, add a(", 1, 26, "expected ',' or the end, found '('" },
    { "input 8 as a, dense 4, add a", 1, 24,
      "'add' needs values of one shape: the first has 4 units, number 2 has 8" },
    { "input 8 as a, dense 4 as b, from a, add a b", 1, 37, "number 3 has 4" },
    { "input 8 as a, 2 x (dense 4, add a)", 1, 29, "'add' needs values of one shape" },
    { "add", 1, 1, "'add' reads at least 2 values" },
    { "as a, add a", 1, 7,
      "'add' joins what layers give, but number 1 of its values is the rows of the data" },
    { "as a, input 8, add a", 1, 16, "number 2 of its values is the rows of the data" },
    { "as a, input 8, concat a", 1, 16,
      "'concat' joins what layers give, but number 2 of its values is the rows of the data" },
    { "as a, input 8, as b, concat b a b", 1, 22, "number 3 of its values is the rows" },
    { "relu", 1, 1,
      "the first layer must be 'input' or 'image' or 'sparse' or 'dag', found 'relu'" },
    { "dropout 0.3", 1, 1, "the first layer must be" },
    { "sampled 8", 1, 1, "the first layer must be" },
    { "clip 3", 1, 1, "the first layer must be" },
    { "flatten", 1, 1, "the first layer must be" },
    { "identity", 1, 1, "the first layer must be" },
    { "output", 1, 1,
      "the first layer must be 'input' or 'image' or 'sparse' or 'dag', found 'output'" },
    { "input 8, from rows, relu", 1, 21, "the first layer must be" },
    { "input 8, from rows", 1, 19, "the first layer must be" },
    { "input 8, from rows, sampled 8", 1, 21, "the first layer must be" },
    { "as a, input 8, from a, sampled 4", 1, 24, "the first layer must be" },
    { "input 8, input 8", 1, 10,
      "'input' reads the rows of the data: it must come first, or behind 'from rows'" },
    { "input 8, relu, input 8", 1, 16, "use 'dense' for later layers" },
    { "input 8 as a, from rows, input 8, from a, input 8", 1, 43,
      "'input' reads the rows of the data" },
    { "input 8, from rows, input 8", 1, 1,
      "nobody reads what this 'input' gives; join it to what follows, or leave it out" },
    { "input 8 as a, relu, from a", 1, 15, "nobody reads what this 'relu' gives" },
    { "input 8 as a, relu as b, from a, dense 4", 1, 15, "nobody reads what this 'relu' gives" },
    { "input 8 as a, 2 x (from a, dense 4)", 1, 28, "nobody reads what this 'dense' gives" },
    { "input 1048576 as a, concat a", 1, 21,
      "'concat' gives 2097152 units, expected at most 1048576" },
    { "input 262144 as a, concat a a a a", 1, 20, "'concat' gives 1310720 units" },
};
static const struct bad repeats[] = {
    { "input 8, 0 x (relu)", 1, 10,
      "a repeat of '0' times, expected a whole number from 1 to 4096" },
    { "input 8, 00 x (relu)", 1, 10, "a repeat of '00' times" },
    { "input 8, -1 x (relu)", 1, 10, "a repeat of '-1' times" },
    { "input 8, -0 x (relu)", 1, 10, "a repeat of '-0' times" },
    { "input 8, 4097 x (relu)", 1, 10, "a repeat of '4097' times" },
    { "input 8, 1000000000 x (relu)", 1, 10, "a repeat of '1000000000' times" },
    { "input 8, 1e9 x (relu)", 1, 10, "a repeat of '1e9' times" },
    { "input 8, 99999999999999999999 x (relu)", 1, 10, "a repeat of '99999999999999999999' times" },
    { "input 8, 2.5 x (relu)", 1, 10, "a repeat of '2.5' times, expected a whole number" },
    { "input 8, 0.5 x (relu)", 1, 10, "a repeat of '0.5' times" },
    { "input 8, 1e400 x (relu)", 1, 10,
      "expected a layer, or a repeat as in '3 x (dense 64, relu)', found '1e400'" },
    { "input 8, 2x (relu)", 1, 10,
      "expected a layer, or a repeat as in '3 x (dense 64, relu)', found '2x'" },
    { "input 8, 2x(relu)", 1, 10, "found '2x'" },
    { "input 8, 2*(relu)", 1, 10, "found '2*'" },
    { "input 8, 2 (relu)", 1, 10, "expected a layer, or a repeat" },
    { "input 8, 2 X (relu)", 1, 10, "expected a layer, or a repeat" },
    { "input 8, 2 times (relu)", 1, 10, "expected a layer, or a repeat" },
    { "input 8, 2", 1, 10,
      "expected a layer, or a repeat as in '3 x (dense 64, relu)', found '2'" },
    { "input 8, 2, relu", 1, 10, "expected a layer, or a repeat" },
    { "input 8, 0x2 x (relu)", 1, 10, "found '0x2'" },
    { "input 8, - x (relu)", 1, 10, "found '-'" },
    { "input 8, 2 x", 1, 13, "expected '(' and the layers to repeat, found the end" },
    { "input 8, 2 x , relu", 1, 14, "expected '(' and the layers to repeat, found ','" },
    { "input 8, 2 x\n(relu)", 1, 13,
      "expected '(' and the layers to repeat, found the end of the line" },
    { "input 8, 2 x )", 1, 14, "found ')'" },
    { "input 8, 2 x relu", 1, 14, "'relu' is a word of the language" },
    { "input 8, 2 x 8 (relu)", 1, 14, "expected a name" },
    { "input 8, 2 x a. (relu)", 1, 14, "expected a name" },
    { "input 8, 2 x [relu]", 1, 14, "expected a name" },
    { "input 8, 2 x block relu", 1, 20, "expected '(' and the layers to repeat, found 'relu'" },
    { "input 8, 2 x block 2 (relu)", 1, 20, "expected '(' and the layers to repeat, found '2'" },
    { "input 8, 2 x block", 1, 19, "expected '(' and the layers to repeat, found the end" },
    { "input 8, 2 x aaaaaaaaaabbbbbbbbbbccccccccccddddddddddd (relu)", 1, 14,
      "has 41 characters, expected at most 40" },
    { "input 8, 2 x (relu", 1, 10, "a repeat without its ')'" },
    { "input 8, 2 x (", 1, 10, "a repeat without its ')'" },
    { "input 8, 2 x (relu, 2 x (relu)", 1, 10, "a repeat without its ')'" },
    { "input 8, 2 x (relu, 2 x (relu", 1, 21, "a repeat without its ')'" },
    { "input 8, relu)", 1, 14, "')' without a '(' before it" },
    { ")", 1, 1, "')' without a '(' before it" },
    { "(relu)", 1, 1, "expected a layer, found '('" },
    { "input 8, (relu)", 1, 10, "expected a layer, found '('" },
    { "input 8, 2 x (relu))", 1, 20, "')' without a '(' before it" },
    { "input 8, 2 x (relu) relu", 1, 21, "expected ',' or the end, found 'relu'" },
    { "input 8, 2 x (relu) as a", 1, 21, "expected ',' or the end, found 'as'" },
    { "input 8, 2 x ()", 1, 15, "a repeat without a layer" },
    { "input 8, 2 x (as a)", 1, 19, "a repeat without a layer" },
    { "input 8, 2 x (from rows)", 1, 24, "a repeat without a layer" },
    { "input 8, 2 x (\n# nothing\n)", 3, 1, "a repeat without a layer" },
    { "input 8, 2 x (,)", 1, 15, "expected a layer, found ','" },
    { "input 8, 2 x ((relu))", 1, 15, "expected a layer, found '('" },
    { "input 8, 2 x (input 8)", 1, 15, "'input' reads the rows of the data" },
    { "input 8, 2 x (as x, relu), add x", 1, 32, "there is no value 'x' before this place" },
    { "input 8, 2 x (relu as r), add r", 1, 31, "there is no value 'r' before this place" },
    { "input 8, 2 x b (relu as r), add r", 1, 33, "there is no value 'r' before this place; " },
    { "input 8, 2 x b (relu as r), add b.r", 1, 33, "there is no value 'b.r' before this place" },
    { "input 8, 2 x b (relu as r), add b.2.r", 1, 33,
      "there is no value 'b.2.r' before this place; did you mean 'b.1.r'?" },
    { "input 8, 2 x b (relu as r), add b", 1, 33,
      "'b' names a repeat, expected a value of it, as in 'b.0.NAME'" },
    { "input 8, 2 x b (relu as r), from b", 1, 34, "'b' names a repeat" },
    { "input 8, 2 x b (add b.0.r, relu as r)", 1, 21, "there is no value 'b.0.r'" },
    { "input 8, 2 x b (relu as r), as b", 1, 32, "the name 'b' is there already" },
    { "input 8 as b, 2 x b (relu)", 1, 19, "the name 'b' is there already" },
    { "input 8, 2 x b (relu as r), 2 x b (relu as r)", 1, 33, "the name 'b' is there already" },
    { "input 8, 2 x b (relu as r, relu as r)", 1, 36, "the name 'r' is there already" },
    { "input 8, 2 x aaaaaaaaaabbbbbbbbbb (relu as ccccccccccdddddddddd)", 1, 44,
      "has 43 characters with its repeat, expected at most 40" },
    { "input 8, 2 x aaaaaaaaaabbbbbbbbbb (relu, as ccccccccccdddddddddd)", 1, 10,
      "has 43 characters with its repeat" },
    { "input 8, 2 x (2 x (2 x (2 x (2 x (2 x (2 x (2 x (2 x (relu)))))))))", 1, 50,
      "repeats stand in each other 9 deep, expected at most 8" },
    { "input 8, 4096 x (4096 x (4096 x (4096 x (4096 x (4096 x (4096 x (4096 x (relu))))))))", 1,
      74, "more than 4096 layers" },
    { "input 8, 4096 x (relu)", 1, 18, "more than 4096 layers" },
    { "input 8, 64 x (64 x (relu))", 1, 22, "more than 4096 layers" },
};
static const struct bad heads[] = {
    { "input 8, output, output", 1, 18,
      "'output' must be the last layer, found 'output' behind it" },
    { "input 8, output, relu", 1, 18, "'output' must be the last layer, found 'relu' behind it" },
    { "input 8, output, dense 4, output", 1, 18,
      "'output' must be the last layer, found 'dense' behind it" },
    { "input 8, output\nrelu", 2, 1, "'output' must be the last layer" },
    { "input 8, output, from rows", 1, 18,
      "'output' must be the last layer, found 'from' behind it" },
    { "input 8 as a, output, from a", 1, 23,
      "'output' must be the last layer, found 'from' behind it" },
    { "input 8, output, as a", 1, 18, "'output' must be the last layer, found 'as' behind it" },
    { "input 8, output as a, as b", 1, 23, "'output' must be the last layer" },
    { "input 8, output, 2 x (relu)", 1, 18,
      "'output' must be the last layer, found '2' behind it" },
    { "input 8, output, )", 1, 18, "')' without" },
    { "input 8, output, ,", 1, 18, "expected a layer, found ','" },
    { "input 8, output, nothing", 1, 18,
      "'output' must be the last layer, found 'nothing' behind it" },
    { "input 8, 1 x (output)", 1, 15, "'output' cannot be repeated" },
    { "input 8, 2 x (relu, output)", 1, 21, "'output' cannot be repeated" },
    { "input 8 as a, output as a", 1, 25, "the name 'a' is there already" },
    { "input 8, output as output", 1, 20, "is a word of the language" },
    { "input 8 as a, output a", 1, 22, "takes no" },
    { "input 8, output 5", 1, 17, "takes no" },
    { "input 8, output width=5", 1, 17, "'output' has no argument 'width'" },
    { "input 8, output bce", 1, 17, "'output' takes no more arguments" },
    { "input 8, output loss=mse", 1, 22, "'output' needs loss: softmax or bce; found 'mse'" },
    { "input 8, output loss=Softmax", 1, 22, "needs loss: softmax or bce; found 'Softmax'" },
    { "input 8, output loss=auto", 1, 22, "needs loss: softmax or bce; found 'auto'" },
    { "input 8, output loss=bcesoftmax", 1, 22, "found 'bcesoftmax'" },
    { "input 8, output loss=softmax|bce", 1, 22, "found 'softmax|bce'" },
    { "input 8, output loss=", 1, 22, "needs loss: softmax or bce; found the end" },
    { "input 8, output loss= bce", 1, 22, "needs loss: softmax or bce; found 'bce'" },
    { "input 8, output loss=1", 1, 22, "found '1'" },
    { "input 8, output loss=bce loss=bce", 1, 31, "'output' has its loss already" },
    { "input 8, output loss=bce loss=softmax", 1, 31, "'output' has its loss already" },
    { "input 8, output los=bce", 1, 17, "'output' has no argument 'los'; did you mean 'loss'?" },
    { "input 8, output loss=bce 4", 1, 26, "'output' takes no more arguments" },
    { "input 8,\noutput loss=bce,\nrelu", 3, 1, "'output' must be the last layer" },
    { "input 8, dense 4 loss=bce", 1, 18, "'dense' has no argument 'loss'" },
    { "output, input 8", 1, 9, "must be the last layer" },
    { "input 8, from rows, output", 1, 21, "the first layer must be" },
};
static const struct bad characters[] = {
    { "", 1, 1, "a net without a layer" },
    { "    ", 1, 5, "a net without a layer" },
    { "\n\n", 3, 1, "a net without a layer" },
    { "# nothing", 1, 10, "a net without a layer" },
    { "# nothing\n", 2, 1, "a net without a layer" },
    { "as a", 1, 5, "a net without a layer" },
    { "from rows", 1, 10, "a net without a layer" },
    { ",", 1, 1, "expected a layer, found ','" },
    { ",,,,", 1, 1, "expected a layer, found ','" },
    { " , input 8", 1, 2, "expected a layer, found ','" },
    { "input 8,,", 1, 9, "expected a layer, found ','" },
    { "input 8, , relu", 1, 10, "expected a layer, found ','" },
    { "input 8,\n, relu", 2, 1, "expected a layer, found ','" },
    { "input 8\n, relu", 2, 1, "expected a layer, found ','" },
    { "\001", 1, 1, "there is no layer '?'" },
    { "input \0018", 1, 7, "found '?8'" },
    { "input 8\177", 1, 7, "found '8?'" },
    { "input 8\013, relu", 1, 7, "found '8?'" },
    { "input 8, re\033[31mlu", 1, 10, "there is no layer 're?[31mlu'" },
    { "input 8, \"relu\"", 1, 10, "there is no layer '\"relu\"'" },
    { "'input 8'", 1, 1, "there is no layer ''input'" },
    { "input 8, `relu`", 1, 10, "there is no layer '`relu`'" },
    { "input 8, r\303\251seau", 1, 10, "there is no layer 'r\303\251seau'" },
    { "input \357\274\230", 1, 7, "found '\357\274\230'" },
    { "input 8 as \303\251", 1, 12, "expected a name" },
    { "input 8, \377\376", 1, 10, "there is no layer '?\?'" },
    { "\357\273\277input 8", 1, 1, "there is no layer '<U+FEFF>input'" },
    { "input 8, relu;", 1, 10, "there is no layer 'relu;'; did you mean 'relu'?" },
    { "input 8, ~relu~", 1, 10, "there is no layer '~relu~'; did you mean 'relu'?" },
    { "input 8, {relu}", 1, 10, "there is no layer '{relu}'" },
    { "input 8, -> relu", 1, 10, "expected a layer, or a repeat" },
    { "input 8, .", 1, 10, "expected a layer, or a repeat" },
    { "input 8, + relu", 1, 10, "expected a layer, or a repeat" },
    { "input 8, = relu", 1, 10, "there is no layer '='" },
    { "input 8, %s%n%n", 1, 10, "there is no layer '%s%n%n'" },
    { "input 8, $HOME", 1, 10, "there is no layer '$HOME'" },
    { "input 8, relu\r\ndens 4\r\n", 2, 1, "did you mean 'dense'?" },
    { "# one\n# two\n  input 8\n\n   relu # three\n  dens 4", 6, 3, "did you mean 'dense'?" },
    { "input 8 # dens\ndens", 2, 1, "did you mean 'dense'?" },
};

static wisp_status plan(const char *text)
{
    const struct wisp_layer_sizes sizes = { .batch = 4, .active = 4, .training = true };
    struct wisp_net net;
    const long before = wisp_mem_live;
    memset(&err, 0, sizeof err);
    wisp_status st = wisp_net_plan(&net, text, 5, 4, &sizes, &err);
    wisp_net_clear(&net);
    CHECK(wisp_mem_live == before, "'%.60s' left %ld blocks behind", text, wisp_mem_live - before);
    return st;
}

/* Refused, in one line that says where and why. */
static void refuse_one(const char *text, int line, int column, const char *why)
{
    char place[60];
    snprintf(place, sizeof place, "--net:%d:%d: ", line, column);
    wisp_status st = plan(text);
    CHECK(st == WISP_EINVAL && err.code == WISP_EINVAL, "'%.60s': %d '%s'", text, st, err.text);
    CHECK(strncmp(err.text, place, strlen(place)) == 0 && strstr(err.text, why),
          "'%.60s': '%s', expected '%s%s'", text, err.text, place, why);
    CHECK(err.place_bytes == strlen(place) && err.file_bytes == 0, "%d bytes of '%s'",
          err.place_bytes, err.text);
    CHECK(strlen(err.text) < 300 && !strpbrk(err.text, "\n\r\t\033"), "'%s'", err.text);
    n_refused++;
}

static void refuse(const char *name, const struct bad *bad, size_t n)
{
    TEST(name);
    for (size_t i = 0; i < n; i++) refuse_one(bad[i].text, bad[i].line, bad[i].column, bad[i].why);
}

/* ---- limits ---- */

static char long_text[1 << 18];

/* 'text', then 'piece' n times with its %d counted, then 'end'. */
static const char *many(const char *text, const char *piece, int n, const char *end)
{
    size_t at = (size_t)snprintf(long_text, sizeof long_text, "%s", text);
    for (int i = 0; i < n; i++) {
        const char *d = strstr(piece, "%d");
        at += d ? (size_t)snprintf(long_text + at, sizeof long_text - at, "%.*s%d%s",
                                   (int)(d - piece), piece, i, d + 2)
                : (size_t)snprintf(long_text + at, sizeof long_text - at, "%s", piece);
    }
    snprintf(long_text + at, sizeof long_text - at, "%s", end);
    return long_text;
}

/* What would be read for ever, or fill the memory, ends at once. */
static void test_limits(void)
{
    enum { MOST = 1 << 16 };
    TEST("say: limits");
    memset(long_text, ' ', MOST);
    memcpy(long_text, "input 8", 7);
    long_text[MOST] = 0;
    CHECK(plan(long_text) == WISP_OK, "%s", err.text);
    strcpy(long_text + MOST, " ");
    refuse_one(long_text, 1, MOST + 1, "a net of more than 65536 characters");
    memset(long_text, '\n', MOST + 1);
    refuse_one(long_text, MOST + 1, 1, "a net of more than 65536 characters");

    CHECK(plan("input 8, 4094 x (relu)") == WISP_OK, "%s", err.text);
    refuse_one("input 8, 4095 x (relu)", 1, 23, "more than 4096 layers");
    CHECK(plan("input 8, 2 x (2 x (2 x (2 x (2 x (2 x (2 x (2 x (relu))))))))") == WISP_OK, "%s",
          err.text);
    CHECK(plan("input 8 as aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd") == WISP_OK, "%s", err.text);
    CHECK(plan("input 1048576") == WISP_OK, "%s", err.text);
    CHECK(plan("input 524288 as a, concat a") == WISP_OK, "%s", err.text);
    CHECK(plan("input 8 as a, add a a a a a a a") == WISP_OK, "%s", err.text);

    refuse_one(many("sparse mask=", "x", 256, ", relu"), 1, 13,
               "'sparse' needs mask: the name of a file, of at most 255 characters; found 'xxxx");
    refuse_one(many("sparse mask=none/", "x", 200, ", relu"), 1, 1, "none/xx");
    const clock_t begun = clock();
    refuse_one(many("input 8, 4096 x b (relu", ", as n%d", 6000, ")"), 1, 42706,
               "more than 16384 layers, names and repeats");
    refuse_one(many("input 8, 4096 x (relu\n", "\n", 60000, ")"), 1, 10,
               "repeats of more than 4194304 characters in all");
    refuse_one(many("input 8", "\nas n%d", 7000, "\n4096 x (add n0 n1 n2 n3 n4 n5 n6)"), 7002, 9,
               "more than 4096 layers");
    refuse_one(many("input 8, 4096 x (relu", ", from rows", 5000, ")"), 1, 15182,
               "more than 16384 layers, names and repeats");
    const double seconds = (double)(clock() - begun) / CLOCKS_PER_SEC;
    CHECK(seconds < 10, "%.1f s", seconds); /* a sanitizer is slow */
}

/* ---- no memory ---- */

static void test_memory(void)
{
    static const char *const good[] = {
        "input 8, relu",
        "input 8 as left, relu as a, from rows, sparse random 8 3, relu, concat a left, dense 4",
        "input 8, 3 x block (as x, dense 8 as fc, 2 x (relu), add x), add block.1.fc",
        "input 8, 200 x b (relu as r)",
    };
    TEST("say: failing allocations");
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        wisp_status st = WISP_ENOMEM;
        for (long n = 0; n < 200 && st != WISP_OK; n++) {
            wisp_mem_budget = n;
            st = plan(good[i]);
            wisp_mem_budget = -1;
            CHECK(st == WISP_OK || (st == WISP_ENOMEM && strstr(err.text, "out of memory")),
                  "'%s', %ld allocations: %d '%s'", good[i], n, st, err.text);
            CHECK(st != WISP_OK || n > 3, "'%s' took %ld allocations", good[i], n);
        }
        CHECK(st == WISP_OK, "'%s': %s", good[i], err.text);
    }
}

int main(void)
{
    refuse("say: kinds that are not there, and near misses", kinds, sizeof kinds / sizeof *kinds);
    refuse("say: arguments", arguments, sizeof arguments / sizeof *arguments);
    refuse("say: names", names, sizeof names / sizeof *names);
    refuse("say: values that are joined", joins, sizeof joins / sizeof *joins);
    refuse("say: repeats", repeats, sizeof repeats / sizeof *repeats);
    refuse("say: heads", heads, sizeof heads / sizeof *heads);
    refuse("say: characters", characters, sizeof characters / sizeof *characters);
    test_limits();
    test_memory();
    TEST("say: 300 lines and more");
    CHECK(n_refused >= 300, "only %zu", n_refused);
    return test_end();
}

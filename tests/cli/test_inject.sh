#!/usr/bin/env bash
# wisp inject: models with bit errors, what they predict, sweeps, the mapping to partitions, and what is refused.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
synth S --rows 4000 --features 300 --labels 8 --row-features 12 --row-labels 1 --test-rows 500 --seed 4 >out
ok "a model" train S_train.txt -o m --net "dense 64, relu, dense 64, relu" --epochs 4 --seed 3 --threads 2

# The bits that differ in the file are those that it says, in matrices alone; the rest is the model's.
ok "errors" inject m --rate 1e-4 -o bad --json
cp out bad.json
cat >compare.py <<'P'
import json, struct, sys
def tensors(path):
    b = open(path, "rb").read()
    n = 8 + struct.unpack("<Q", b[:8])[0]
    head = json.loads(b[8:n])
    return {k: b[n + v["data_offsets"][0]:n + v["data_offsets"][1]] for k, v in head.items() if not k.startswith("__")}, head["__metadata__"]
(a, am), (b, bm) = tensors(sys.argv[1]), tensors(sys.argv[2])
assert a.keys() == b.keys()
wrong = {k: bin(int.from_bytes(a[k], "little") ^ int.from_bytes(b[k], "little")).count("1") for k in a}
print(json.dumps({k: v for k, v in wrong.items() if v}))
assert {k: v for k, v in bm.items() if k != "errors"} == {k: v for k, v in am.items() if k != "errors"}
print(bm["errors"])
P
check "the file is the model but for its wrong bits" /usr/bin/python3 compare.py m bad
/usr/bin/python3 compare.py m bad >said
check "in all matrices and nowhere else" /usr/bin/python3 -c '
import json
wrong = json.loads(open("said").readline())
r = json.load(open("bad.json"))
assert {"0.input.weight", "2.dense.weight"} <= set(wrong) <= {"0.input.weight", "2.dense.weight", "4.output.weight"}, wrong
assert sum(wrong.values()) == r["bits_wrong"] and 40 < r["bits_wrong"] < 130 and r["bits"] == 32 * (300 * 64 + 64 * 64 + 64 * 8), (wrong, r)'
check "it says so" grep -q '^rate 0.0001, fp32, map random, guard off, seed 1: ' said
ok "it is a model" inspect bad --json
judge "whose errors are told" 'd["errors"].startswith("rate 0.0001, fp32")'
ok "its accuracy" eval bad S_test.txt --json
cp out eval.json
ok "the same measured" inject m S_test.txt --rate 1e-4 --draws 1 --json
judge "is that of the file" 'd["p@1"] == json.load(open("eval.json"))["p@1"] and d["p@1_before"] > 90 and d["bits_wrong_mean"] == json.load(open("bad.json"))["bits_wrong"]'
ok "and the same bytes" inject m --rate 1e-4 -o again --threads 1
same "with any number of threads" bad again
ok "another seed" inject m --rate 1e-4 --seed 2 -o again
check "gives others" not cmp -s bad again
ok "errors upon errors" inject bad --rate 1e-5 --guard zero -o twice
ok "are both told" inspect twice --json
judge "of" '"; rate 1e-05, fp32" in d["errors"]'
for t in bf16 int8; do
    ok "$t" inject m --rate 1e-3 --type $t --guard zero -o $t
    ok "$t predicts" eval $t S_test.txt
    ok "a model of $t" convert m own.$t --quantize $t
    ok "its own bits" inject own.$t --rate 1e-3 --guard zero -o own.bad --json
    judge "are those of $t" "d['type'] == 'mixed' and d['bits'] == {'bf16': 16, 'int8': 8}['$t'] * (300 * 64 + 64 * 8) + 32 * 64 * 64"
    ok "which predict" eval own.bad S_test.txt
    refuse "$t is no fp32" 2 "'0.input.weight' is $t in this model" inject own.$t --rate 1e-3 --type fp32 -o x
done
ok "one layer" inject m --rate 1e-2 --layer 2.dense --guard zero -o one
/usr/bin/python3 compare.py m one >said
check "has errors alone" grep -q '^{"2.dense.weight": [0-9]*}$' said
ok "a bias, by its name" inject m --rate 0.1 --layer 2.dense.bias,4.output --guard clip -o one
/usr/bin/python3 compare.py m one >said
check "has errors, too" grep -q '^{"2.dense.bias": [0-9]*, "4.output.weight": [0-9]*}$' said

# What would be no number: no such file, and rows without an answer are wrong ones.
refuse "numbers that are none" 7 "weights would be infinite or nan, the first of them number [0-9]+ of '.*--guard zero" inject m --rate 0.2 -o none
check "no file is left" [ ! -e none ]
ok "measured" inject m S_test.txt --rate 0.2 --json
judge "and told of" 'd["not_numbers_mean"] > 0 and d["p@1"] <= 40'
ok "a guard" inject m S_test.txt --rate 1e-3 --guard zero --json
cp out guarded.json
ok "no guard" inject m S_test.txt --rate 1e-3 --json
judge "loses more" 'd["p@1"] + 20 < json.load(open("guarded.json"))["p@1"] and d["guard"] == "off"'

ok "values" inject m S_test.txt --rate 1e-3 --what values --json
judge "have errors" 'd["tensors"] == 2 and d["bits"] == 32 * 128 and abs(d["bits_wrong_mean"] - 500 * 32 * 128e-3) < 200 and 50 < d["p@1"] < d["p@1_before"]'
cp out values.json
ok "the same" inject m S_test.txt --rate 1e-3 --what values --json --threads 1
same "with any number of threads" out values.json
ok "weak bits" inject m S_test.txt --rate 1e-3 --what values --map fixed --guard zero --json
judge "are in every row" 'd["map"] == "fixed" and round(3 * d["bits_wrong_mean"]) % 500 == 0 and d["p@1"] > 80'

ok "a sweep" inject m S_test.txt --sweep --rates 0,1e-3,0.3 --draws 2 --json
judge "of types, guards and layers" '[(x["type"], x["guard"]) for x in d["sweep"] if x["layer"] == "all"] == [(t, g) for t in ("fp32", "bf16", "int8") for g in ("off", "zero")] and len(d["sweep"]) == 24'
judge "without errors as before" 'all(abs(x["points"][0]["p@1"] - d["p@1_before"]) < (1e-9 if x["type"] == "fp32" else 2) for x in d["sweep"])'
ok "a sweep of mixed types" inject own.int8 S_test.txt --sweep --rates 1e-3 --draws 1 --guard zero --json
judge "has each tensor's own" '[x["type"] for x in d["sweep"]] == ["mixed", "int8", "fp32", "int8"]'
ok "for a person" inject m S_test.txt --sweep --rates 1e-3 --type int8 --draws 1
check "a line each" [ "$(grep -c '^int8  \(off\|zero\) ' out)" = 8 ]

ok "the mapping" inject m S_test.txt --target-accuracy-drop 1 --guard zero --partitions 1e-1,1e-2,1e-4,0 --test S_test.txt --json
judge "every tensor bears some, and has a partition" 'len(d["mapping"]) == 3 and all(x["rate"] >= d["uniform_rate"] > 1e-4 and x["partition"] <= x["rate"] and x["partition"] in (0.1, 0.01, 1e-4, 0) for x in d["mapping"])'
judge "in which it is as accurate" 'd["p@1_worst"] >= d["p@1_before"] - 1 and d["test_p@1_before"] == d["p@1_before"] and d["test_p@1_worst"] > 85'
judge "all bits lie somewhere" 'sum(x["bits"] for x in d["partitions"]) == d["bits"] and [x["rate"] for x in d["partitions"]] == [0.1, 0.01, 1e-4, 0]'

# Images: values lie in blocks of 16 channels, and a norm and a ReLU are done together with their convolution.
/usr/bin/python3 - <<'P' || exit 1
import random
random.seed(1)
with open("i.bin", "wb") as o: # CIFAR records
    for i in range(500):
        y = random.randrange(4)
        x = bytearray(random.randrange(200) for _ in range(3072))
        if y == 1: x = bytearray(v // 2 for v in x)
        if y == 2: x[:1024] = bytes(1024)
        if y == 3: x[:256] = bytes([255]) * 256
        o.write(bytes([y]) + x)
P
ok "a net of images" train i.bin -o im --net "image, conv 20 3 pad=1 stride=2 bias=no, bn, relu, maxpool 2, conv 8 3, relu, globalavg, dense 16, relu" --epochs 4 --batch 32 --seed 2
ok "its accuracy" eval im i.bin --json
cp out eval.json
ok "values without errors" inject im i.bin --what values --rate 0 --json
judge "are as they were" 'd["p@1"] == json.load(open("eval.json"))["p@1"] == d["p@1_before"] and d["p@1"] > 60 and d["bits_wrong_mean"] == 0'
ok "values and weights" inject im i.bin --what both --rate 1e-3 --guard zero --draws 2 --json
judge "have errors, each value once" 'd["tensors"] == 4 + 6 and abs(d["bits_wrong_mean"] / (1e-3 * 32 * (500 * (3072 + 20 * 256 + 20 * 64 + 8 * 36 + 8 + 16) + 20 * 27 + 8 * 180 + 8 * 16 + 16 * 10)) - 1) < 0.05'
ok "kernels" inject im --rate 0.02 --type bf16 --guard zero -o im2
ok "a model of images with errors" eval im2 i.bin
ok "trained with errors" train i.bin --init im -o im3 --epochs 2 --batch 32 --seed 2 --error-rate 0.01 --error-type bf16 --threads 2
ok "by one thread" train i.bin --init im -o im4 --epochs 2 --batch 32 --seed 2 --error-rate 0.01 --error-type bf16 --threads 1
same "the same bytes" im3 im4

# Training with errors: the same bytes for any number of threads, and after a stop anywhere; the model itself has none.
errors=(train S_train.txt --net "dense 64, relu, dense 64, relu" --epochs 3 --batch 64 --seed 3 --error-rate 0.02 --error-type int8)
ok "trained with errors" "${errors[@]}" -o e --threads 2
check "it says so" grep -q '^errors    0.02 of the bits of int8 weights, guard zero, rising' err
ok "by one thread" "${errors[@]}" -o e1 --threads 1
same "the same bytes" e e1
check "other weights than without" not cmp -s e m
"$wisp" "${errors[@]}" -o killed --checkpoint-steps 7 --threads 2 >out 2>err &
pid=$!
for ((i = 0; i < 3000; i++)); do
    [ -e killed.state ] && break
    kill -0 $pid 2>/dev/null || break
    sleep 0.002
done
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
ok "killed and resumed" "${errors[@]}" -o killed --checkpoint-steps 7 --threads 2 --resume
numbers e
numbers killed
same "the same numbers" e.numbers killed.numbers
refuse "resumed with other errors" 4 "error-rate was '0.02' and is '0.01'" "${errors[@]}" -o e --resume --error-rate 0.01
for t in fp32 bf16; do ok "errors of $t" "${errors[@]}" -o e.$t --error-type $t --error-guard clip; done
ok "weak bits" "${errors[@]}" -o fixed --error-map fixed --error-rate 0.05 --epochs 12 --error-seed 9
ok "in the memory that it was trained for" inject fixed S_test.txt --rate 0.05 --type int8 --guard zero --map fixed --seed 9 --draws 1 --json
cp out own.json
ok "and in others" inject fixed S_test.txt --rate 0.05 --type int8 --guard zero --map fixed --seed 10 --draws 5 --json
judge "it is better there" 'json.load(open("own.json"))["p@1"] > d["p@1"] + 1'
refuse "no sampled rows" 2 "use --sampling full" "${errors[@]}" -o x --sampling random
refuse "no rows of bf16" 2 "rows of bf16" "${errors[@]}" -o x --rows bf16
refuse "weights that explode" 7 "lower --error-rate, or --error-guard zero" "${errors[@]}" -o x --error-type fp32 --error-guard off --error-rate 0.3

refuse "no rate" 2 "rate: it is missing" inject m -o x
refuse "nothing to do" 2 "expected MODEL DATA" inject m --rate 1e-3
refuse "no data" 2 "expected MODEL DATA" inject m --sweep -o x
refuse "two forms" 2 "another form" inject m S_test.txt --sweep --target-accuracy-drop 1
refuse "a sweep has no file" 2 "tries many models" inject m S_test.txt --sweep -o x
refuse "values in a file" 2 "values are made while predicting" inject m --rate 1e-3 --what values -o x
refuse "no such layer" 2 "no numbers of '7.dense'" inject m --rate 1e-3 --layer 7.dense -o x
refuse "a rate of more than all" 2 "3 is not in 0..1" inject m --rate 3 -o x
refuse "rates, too" 2 "rates: 3 is not a share" inject m S_test.txt --sweep --rates 1e-3,3
refuse "over itself" 2 "would be overwritten" inject m --rate 1e-3 -o m
refuse "no model" 4 "S_test.txt: found data" inject S_test.txt --rate 1e-3 -o x
end
